"""Sealing: closed journals become verified, de-duplicated, numbered Parquet segments.

`seal` may be called by any number of processes at once; the maintain lock lets one through and
appenders are never blocked longer than a rotation (I33). Upholds I5, I8, I10, I13–I18, I32.

The order of steps is the proof. Journals are synced before anything derived from them is stored; a
segment is read back and compared before it gets its name; the manifest that lists it is the commit;
only then may a journal go, lowest first and never the highest, and only while nobody can be reading
it: every older manifest that needs it, and the journal itself, could be locked exclusively and stay
locked until it is gone. A crash leaves temporary files and perhaps a segment that no manifest lists;
the next run removes the former and adopts or removes the latter.

Damage does not stop sealing: what is valid is sealed, bytes that are not are copied to quarantine
first, and missing positions are named in the manifest. A journal without a valid header does stop it
(Corruption): without its key nothing in the file can be distinguished from noise.

Memory: one batch of at most BATCH_BYTES of journals plus the last journal's excess, held up to five
times over (Arrow columns, Python lists for numbering, payloads apart, Parquet, its read-back), and
eight bytes for each sealed id where there are several batches. Journals are held one at a time,
sessions as long as each batch has events of them.
"""

import os
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, field, replace
from itertools import pairwise

import pyarrow as pa
from blake3 import blake3

from eventlog.base.errors import Corruption, NotDurable, Unsupported
from eventlog.base.fs import publish, read_file
from eventlog.base.layout import MANIFEST_DIR, SEGMENT_DIR, StoreFiles, parse_segment
from eventlog.base.locks import MAINTAIN, acquire
from eventlog.log import manifest as manifests
from eventlog.log import pins, quarantine
from eventlog.log.frame import Frame
from eventlog.log.journal import Journal
from eventlog.log.journal_reading import JournalScan, journal_numbers, scan_journal, unlink_journals
from eventlog.log.manifest import MANIFESTS_KEPT, TMP_PREFIX, DamagedRange, Manifest, SegmentEntry
from eventlog.log.numbering import Numbering
from eventlog.log.parts import turn_limit
from eventlog.log.segment import (
    SCHEMA,
    SegmentMeta,
    check_equal,
    encode_segment,
    number_table,
    tables_from_frames,
    without_duplicates,
)
from eventlog.log.segment_file import SegmentPrefix, entry_of
from eventlog.log.tail import LostPositions, TailJournal, lost_positions, read_header, unsealed, walk

# Journals are sealed together up to this size: about one row group of usual events. More would make
# fewer, larger segments at the price of memory, and compaction merges them later anyway.
BATCH_BYTES = 64 << 20

# Journals that are locked at once to be unlinked: a process may have 1,024 descriptors, and a store that
# nobody sealed for long more journals than that.
_LOCKED_MAX = 32


@dataclass(slots=True)
class SealReport:
    """What a call of `seal` did."""

    events: int = 0  # visible events that are now in segments
    dropped: int = 0  # events whose id an earlier event has
    lost: int = 0  # positions that rot had destroyed
    segments: list[str] = field(default_factory=list)  # names of the new segments
    journals: list[int] = field(default_factory=list)  # numbers of the journals sealed


def seal(
    files: StoreFiles,
    journal: Journal,
    *,
    rotate_active: bool = True,
    lock_timeout_s: float = 10.0,
    batch_bytes: int = BATCH_BYTES,
) -> SealReport:
    """Seal every closed journal; with `rotate_active` the active one is closed first.

    Raises: LockTimeout, NotDurable, Corruption, Unsupported. Whatever was committed before stays.
    """
    report = SealReport()
    with acquire(files.fs, files.layout, MAINTAIN, timeout_s=lock_timeout_s):
        try:
            _seal_all(files, journal if rotate_active else None, batch_bytes, report)
        except OSError as error:
            raise NotDurable(
                f"{error.filename or files.layout.root}: cannot seal: {error.strerror or error}. The events "
                "are safe in their journals; free space or restore access, then seal again."
            ) from error
    return report


def _seal_all(files: StoreFiles, to_rotate: "Journal | None", batch_bytes: int, report: SealReport) -> None:
    manifests.remove_temporary(files)
    current = manifests.read_current(files)
    if to_rotate is not None:
        to_rotate.rotate()
    # The fold goes on from batch to batch; it asks segments only about sessions new to it.
    batches = list(_batches(files, current, batch_bytes))
    prefix = SegmentPrefix(files, current.segments, remember_ids=len(batches) > 1)
    numbering = Numbering(prefix, turn_limit(files))
    for batch in batches:
        current = _seal_batch(files, current, batch, prefix, numbering, report)
        pa.default_memory_pool().release_unused()  # else it keeps several times what a batch needs
    _remove_stray_segments(files, current)
    _remove_old(files, current, report.journals)


@dataclass(frozen=True, slots=True)
class _Batch:
    """Closed journals to be sealed as one segment, ending at the position where the next one begins."""

    numbers: tuple[int, ...]
    base: int
    end: int


def _batches(files: StoreFiles, current: Manifest, batch_bytes: int) -> Iterator[_Batch]:
    """The closed journals, in order, cut into batches."""
    fs, layout = files.fs, files.layout
    numbers = unsealed(files, current.next_journal)
    if not numbers:
        if current.number:
            raise Corruption(layout.manifest(current.number), "the journal that follows its segments is gone")
        return
    base = current.next_position
    taken: list[int] = []
    size = 0
    for number, follower in pairwise(numbers):
        taken.append(number)
        size += fs.stat(layout.journal(number)).st_size
        follows = fs.stat(layout.journal(follower)).st_size
        if follower == numbers[-1] or size + follows > batch_bytes:
            end = max(base, read_header(files, follower).base)
            yield _Batch(tuple(taken), base, end)
            base, taken, size = end, [], 0


def _seal_batch(
    files: StoreFiles,
    current: Manifest,
    batch: _Batch,
    prefix: SegmentPrefix,
    numbering: Numbering,
    report: SealReport,
) -> Manifest:
    """Make one segment of a batch and commit it; the new manifest."""
    for number in batch.numbers:
        _sync(files, number)
    rot = _Rot()
    journals = walk(files, batch.numbers, batch.base)
    path = files.layout.journal(batch.numbers[0])
    with closing(tables_from_frames(_frames(journals, batch, rot), path)) as pieces:
        events, dropped = visible_events(pieces, prefix, numbering)
    segments = current.segments
    if batch.end > batch.base:
        entry = _publish_segment(files, events, batch, dropped)
        segments = (*segments, entry)
        prefix.add(entry, events)
        report.segments.append(entry.name)
        report.events += entry.rows
        report.dropped += dropped
    numbering.retain(events["session_id"].unique().to_pylist())
    del events
    for damage in rot.damage:
        _quarantine_damage(files, damage)
    following = manifests.following(
        current,
        next_position=batch.end,
        next_journal=batch.numbers[-1] + 1,
        segments=segments,
        damaged=(*current.damaged, *(DamagedRange(r.base, r.end, r.journal) for r in rot.lost)),
    )
    manifests.commit(files, following)
    report.lost += sum(r.end - r.base for r in rot.lost)
    report.journals += batch.numbers
    return following


@dataclass(frozen=True, slots=True)
class _Damage:
    """The bytes of one journal that do not verify."""

    path: str
    journal: int
    ranges: tuple[tuple[int, int, str], ...]  # offset, size, reason


@dataclass(slots=True)
class _Rot:
    """What a batch's journals miss, and what they hold in vain."""

    lost: list[LostPositions] = field(default_factory=list)
    damage: list[_Damage] = field(default_factory=list)


def _frames(journals: Iterator[TailJournal], batch: _Batch, rot: _Rot) -> Iterator[Frame]:
    """The frames of a batch. Of finished journals only the losses stay in memory, in `rot`."""
    position = batch.base
    previous: list[TailJournal] = []
    for journal in journals:
        rot.lost += lost_positions([*previous, journal], position)
        rot.damage.append(_damage_of(journal.scan))
        yield from journal.frames
        if journal.frames:
            position = journal.frames[-1].end
        previous = [replace(journal, frames=())]
    rot.lost += lost_positions(previous, position, batch.end)


def visible_events(
    pieces: "Iterator[pa.Table]", prefix: SegmentPrefix, numbering: Numbering
) -> "tuple[pa.Table, int]":
    """The numbered events of a batch without duplicates, and how many of those there were."""
    # While a piece is numbered, those after it are parsed. With segments to ask it costs more to read
    # them again for every piece than to wait for all.
    batches = iter((pa.concat_tables([SCHEMA.empty_table(), *pieces]),)) if prefix.entries else pieces
    visible = [SCHEMA.empty_table()]
    dropped = 0
    seen: set[str] = set()
    for events in batches:
        sealed_ids = [prefix.seen_ids(events["event_id"].combine_chunks())] if prefix.entries else []
        unique = without_duplicates(events, sealed_ids, seen)
        dropped += events.num_rows - unique.num_rows
        visible.append(number_table(unique, numbering))
    # One chunk of each column: the pieces share their memory with what they were parsed from.
    return pa.concat_tables(visible).combine_chunks(), dropped


def _sync(files: StoreFiles, number: int) -> None:
    """Make a journal durable before anything that is derived from it is stored (I5)."""
    fs = files.fs
    path = files.layout.journal(number)
    fd = fs.open(path, os.O_RDONLY)
    try:
        fs.fdatasync(fd)
    except OSError as error:
        raise NotDurable(
            f"{path}: the disk failed to sync ({error.strerror}); nothing was sealed. Check the disk."
        ) from error
    finally:
        fs.close(fd)


def _publish_segment(files: StoreFiles, events: "pa.Table", batch: _Batch, dropped: int) -> SegmentEntry:
    fs, layout = files.fs, files.layout
    meta = SegmentMeta(files.store_id, batch.base, batch.end, dropped)
    data = encode_segment(events, meta)
    entry = entry_of(meta, blake3(data).hexdigest(), len(data), (events,))
    path = layout.segment(entry.name)
    check_equal(data, events, path)
    tmp = layout.tmp(f"{TMP_PREFIX}segment-{batch.base}")
    try:
        publish(fs, tmp, path, data)
    except FileExistsError:
        if read_file(fs, path) == data:
            # A run that died before its commit made it; it may have died before it synced the name.
            fs.fsync_dir(layout.directory(SEGMENT_DIR))
        else:
            fs.unlink(path)  # no manifest lists it: its positions are not sealed yet
            publish(fs, tmp, path, data)
    return entry


# Quarantine: bytes that do not verify outlive the journal they were in (I10).


def _damage_of(scan: JournalScan) -> _Damage:
    ranges = [(damage.offset, damage.size, quarantine.DAMAGE) for damage in scan.damaged if damage.size]
    if scan.torn is not None:
        ranges.append((*scan.torn, quarantine.TORN_AND_CLOSED))
    return _Damage(scan.path, scan.header.number, tuple(ranges))


def _quarantine_damage(files: StoreFiles, damage: _Damage) -> None:
    if damage.ranges:
        data = read_file(files.fs, damage.path)
        for offset, size, reason in damage.ranges:
            _quarantine(files, damage.journal, offset, data[offset : offset + size], reason)


def _quarantine(files: StoreFiles, number: int, offset: int, data: bytes, reason: str) -> None:
    for name, content in quarantine.files_of(number, offset, data, reason):
        quarantine.store(files.fs, files.layout, files.layout.tmp(f"{TMP_PREFIX}quarantine"), name, content)


# Cleaning up: everything below runs under the maintain lock and after the last commit.


def _remove_stray_segments(files: StoreFiles, current: Manifest) -> None:
    """Segments that no manifest lists: left by a run that died before its commit (I18)."""
    fs = files.fs
    names = [n for n in fs.listdir(files.layout.directory(SEGMENT_DIR)) if parse_segment(n) is not None]
    strays = set(names) - _listed(current)
    if not strays:
        return
    for number in manifests.numbers(files)[:-1]:
        try:
            strays -= _listed(manifests.read_numbered(files, number))
        except (Corruption, Unsupported):
            return  # what this one lists is unknown; `verify` reports it
    for name in sorted(strays):
        fs.unlink(files.layout.segment(name))


def _listed(manifest: Manifest) -> set[str]:
    return {entry.name for entry in manifest.segments} | {item.name for item in manifest.superseded}


def _remove_old(files: StoreFiles, current: Manifest, sealed: list[int]) -> None:
    """Unlink journals and old manifests that no reader can be using (I17).

    Exclusive locks on older manifests, and on the journals themselves, are kept until the files are
    gone: a reader that comes too late meets the lock or the missing name, and starts again.
    """
    fs = files.fs
    with pins.held(files, current.number) as older:
        floors = [_next_journal(files, number) for number in older.pinned]
        remove_journals(files, min([current.next_journal, *floors]), sealed)
        expired = [number for number in older.free if number <= current.number - MANIFESTS_KEPT]
        for number in expired:
            fs.unlink(files.layout.manifest(number))
        if expired:
            fs.fsync_dir(files.layout.directory(MANIFEST_DIR))


def remove_journals(files: StoreFiles, floor: int, sealed: list[int]) -> None:
    """Unlink journals below `floor`, lowest first, as far as nobody reads them."""
    fs = files.fs
    numbers = [number for number in journal_numbers(files)[:-1] if number < floor]
    for start in range(0, len(numbers), _LOCKED_MAX):
        descriptors: list[int] = []
        free = []
        try:
            for number in numbers[start : start + _LOCKED_MAX]:
                # A reader that found no manifest pins its first journal instead: no later one goes.
                if not pins.lock(fs, files.layout.journal(number), descriptors):
                    break
                free.append(number)
            for number in free:
                if number not in sealed:
                    _quarantine_replaced(files, number)
            if free:
                unlink_journals(files, free)
            if len(free) < len(descriptors):
                return
        finally:
            for fd in descriptors:
                fs.close(fd)


def _next_journal(files: StoreFiles, number: int) -> int:
    """The first journal a pinned manifest needs; 0 when that cannot be known."""
    try:
        return manifests.read_numbered(files, number).next_journal
    except (Corruption, Unsupported):
        return 0


def _quarantine_replaced(files: StoreFiles, number: int) -> None:
    """Store the bad bytes of a journal that was copied forward: the copy holds its valid frames only."""
    fs = files.fs
    path = files.layout.journal(number)
    try:
        _quarantine_damage(files, _damage_of(scan_journal(fs, path, store_id=files.store_id, number=number)))
    except Corruption as error:
        _quarantine(files, number, 0, read_file(fs, path), f"replaced journal: {error.what}")
