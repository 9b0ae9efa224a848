"""Comparing segments with the manifest, byte for byte, and the record of these checks (docs/damage.md).

DuckDB checks no page of a Parquet file, so callers that let it read segments call `ensure` first. The results
are stored in `log/checked`, a derived file: any number of processes write it, the last one wins, and what it
lacks is checked again. Importing this imports neither pyarrow nor DuckDB.
"""

import contextlib
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from eventlog.base import config, jsontext
from eventlog.base.errors import Corruption
from eventlog.base.fs import FileSystem, hash_open, opened, read_file, replace, translate_os_errors
from eventlog.base.layout import Layout
from eventlog.log.manifest import SegmentEntry

DAYS = 7  # how long a check counts without `[integrity] check_days`
_DAY_S = 86_400
# The times of files come from a clock that ticks every 1 to 10 ms: a change within a tick shows in none.
_TICK_NS = 50_000_000
_RECORD_BYTES_MAX = 16 << 20

# Inode, size in bytes, mtime and ctime in ns.
Identity = tuple[int, int, int, int]


@dataclass(slots=True)
class Record:
    """The results of checks, by the names of segments."""

    boot: str
    verified: dict[str, tuple[Identity, int]] = field(default_factory=dict)  # and when that was, in seconds
    damaged: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Ages:
    """How current the checks of a log's segments are. `oldest_s` is the age of the oldest that counts."""

    checked: int
    unchecked: int
    oldest_s: "int | None"
    damaged: tuple[str, ...]


class Checks:
    """The checks of one question: it reads the record once, and compares no segment twice."""

    def __init__(self, fs: FileSystem, layout: Layout) -> None:
        self._fs = fs
        self._layout = layout
        self._passed: set[str] = set()

    @cached_property
    def _counts(self) -> "_Counting":
        return _Counting(self._fs, self._layout, read(self._fs, self._layout))

    def ensure(self, entries: "Iterable[SegmentEntry]") -> None:
        """Compare those of the segments with the manifest whose last check does not count any more.

        Raises: Corruption, EventLogError.
        """
        fresh = [entry for entry in entries if entry.name not in self._passed]
        if fresh:
            overdue = [entry for entry in fresh if self._counts.since(entry) is None]
            check(self._fs, self._layout, overdue, self._counts.record)
            self._passed.update(entry.name for entry in fresh)


def ensure(fs: FileSystem, layout: Layout, entries: "Iterable[SegmentEntry]") -> None:
    """`Checks.ensure` for a single question. Raises: Corruption, EventLogError."""
    Checks(fs, layout).ensure(entries)


def check(
    fs: FileSystem, layout: Layout, entries: "Sequence[SegmentEntry]", record: "Record | None" = None
) -> None:
    """Compare segments with the manifest, and store the results. Raises: Corruption, EventLogError."""
    if not entries:
        return
    record = record or read(fs, layout)
    try:
        for entry in entries:
            path = layout.segment(entry.name)
            with translate_os_errors(path, "read this segment"):
                if not _compare(fs, path, entry, record):
                    raise Corruption(path, "its bytes are not those the manifest lists")
    finally:
        _write(fs, layout, record)


def scrub(fs: FileSystem, layout: Layout, entries: "Sequence[SegmentEntry]", bytes_max: int) -> int:
    """Check the segments whose check has half of its time left or less, the oldest first; bytes read.

    Begins no segment beyond `bytes_max`, but always one. A damaged segment is noted, and raises nothing.
    """
    record = read(fs, layout)
    counts = _Counting(fs, layout, record)
    waiting = [(at_s, entry) for entry in entries if counts.half_over(at_s := counts.since(entry))]
    bytes_read = 0
    for _, entry in sorted(waiting, key=lambda pair: pair[0] or 0):
        if bytes_read and bytes_read + entry.bytes > bytes_max:
            break
        bytes_read += entry.bytes
        with contextlib.suppress(OSError):
            _compare(fs, layout.segment(entry.name), entry, record)
    if bytes_read:
        _write(fs, layout, record, entries=entries)
    return bytes_read


def ages(fs: FileSystem, layout: Layout, entries: "Sequence[SegmentEntry]") -> Ages:
    """How old the checks of these segments are."""
    record = read(fs, layout)
    counts = _Counting(fs, layout, record)
    checked_at = [counts.since(entry) for entry in entries]
    counted = [at_s for at_s in checked_at if at_s is not None]
    oldest_s = counts.now_s - min(counted) if counted else None
    damaged = tuple(entry.name for entry in entries if entry.name in record.damaged)
    return Ages(len(counted), len(checked_at) - len(counted), oldest_s, damaged)


def read(fs: FileSystem, layout: Layout) -> Record:
    """The record of this boot; empty where the file is absent, damaged, or of another boot."""
    boot = fs.boot_id().hex()
    try:
        record = jsontext.object_of(read_file(fs, layout.checked, _RECORD_BYTES_MAX).decode())
        if record.get("boot") != boot:
            return Record(boot, damaged=dict(_times(record.get("unsound"))))
        return Record(boot, dict(_checks(record.get("sound"))), dict(_times(record.get("unsound"))))
    except (OSError, ValueError):
        return Record(boot)


def _checks(entries: object) -> "Iterator[tuple[str, tuple[Identity, int]]]":
    for name, values in entries.items() if isinstance(entries, Mapping) else ():
        if isinstance(values, list) and len(values) == 5 and all(type(v) is int for v in values):
            inode, size, mtime, ctime, at_s = values
            yield str(name), ((inode, size, mtime, ctime), at_s)


def _times(entries: object) -> "Iterator[tuple[str, int]]":
    for name, at_s in entries.items() if isinstance(entries, Mapping) else ():
        if type(at_s) is int:
            yield str(name), at_s


class _Counting:
    """Which checks of a record count now."""

    def __init__(self, fs: FileSystem, layout: Layout, record: Record) -> None:
        self._fs = fs
        self._layout = layout
        self.record = record
        self.now_s = fs.time_ns() // 10**9
        days = config.read(fs, layout).check_days
        self._age_max_s = _DAY_S * (DAYS if days is None else days)

    def since(self, entry: SegmentEntry) -> "int | None":
        """When the segment was last found intact, in seconds since 1970; None where that does not count."""
        identity, at_s = self.record.verified.get(entry.name, (None, 0))
        if entry.name in self.record.damaged or not 0 <= self.now_s - at_s < self._age_max_s:
            return None
        try:
            stat = self._fs.stat(self._layout.segment(entry.name))
        except OSError:
            return None
        return at_s if _identity(stat) == identity else None

    def half_over(self, at_s: "int | None") -> bool:
        return at_s is None or self.now_s - at_s > self._age_max_s // 2


def _identity(stat: os.stat_result) -> Identity:
    return stat.st_ino, stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns


def is_as_listed(fs: FileSystem, layout: Layout, entry: SegmentEntry) -> bool:
    """Whether a segment has the bytes that the manifest lists, by reading them now."""
    try:
        return _compare(fs, layout.segment(entry.name), entry, Record(""))
    except OSError:
        return False


def _compare(fs: FileSystem, path: str, entry: SegmentEntry, record: Record) -> bool:
    """Whether the file has the bytes that the manifest lists; notes it. Raises: OSError."""
    now_ns = fs.time_ns()
    record.verified.pop(entry.name, None)
    try:
        with opened(fs, path) as fd:
            stat = fs.fstat(fd)
            matches = stat.st_size == entry.bytes and hash_open(fs, fd) == entry.blake3
            settled = _identity(fs.fstat(fd)) == _identity(stat) and now_ns - stat.st_ctime_ns > _TICK_NS
    except FileNotFoundError:
        return False
    if not matches:
        record.damaged[entry.name] = now_ns // 10**9
        return False
    record.damaged.pop(entry.name, None)
    if settled:
        record.verified[entry.name] = (_identity(stat), now_ns // 10**9)
    return True


def _write(
    fs: FileSystem, layout: Layout, record: Record, entries: "Iterable[SegmentEntry] | None" = None
) -> None:
    """Store the record; with `entries`, of these segments alone. It may fail without harm."""
    verified, damaged = record.verified, record.damaged
    if entries is not None:
        names = {entry.name for entry in entries}
        verified = {name: check for name, check in verified.items() if name in names}
        damaged = {name: at_s for name, at_s in damaged.items() if name in names}
    data = jsontext.encode(
        {
            "boot": record.boot,
            "sound": {name: [*identity, at_s] for name, (identity, at_s) in verified.items()},
            "unsound": damaged,
        }
    )
    tmp = layout.tmp(f"checked-{fs.random_bytes(8).hex()}")
    with contextlib.suppress(OSError):
        replace(fs, tmp, layout.checked, data, synced=False)
