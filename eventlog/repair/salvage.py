"""Everything that verifies, out of a directory in any state, into a new store.

For a store that no longer opens: without STORE, with broken manifests, half files, or files of another store
among its own. Each file is verified by itself: a frame by its digest, a page of a segment by its checksum, a
content by its hash. Nothing in the source is changed and no lock is taken. Bad bytes are reported and raise
nothing; a disk that refuses to write does (NotDurable). Contents are durable before the events that name
them (I24).

Memory: one journal, row group or content, and eight bytes for each event.
"""

import json
import os
from array import array
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field

from eventlog.base import identity, jsontext
from eventlog.base.errors import (
    PARSE_ERRORS,
    Corruption,
    EventLogError,
    InvalidEvent,
    NotFound,
    Refused,
    why_unreadable,
)
from eventlog.base.fs import REAL, FileSystem, publish, read_file, translate_os_errors
from eventlog.base.layout import Layout
from eventlog.base.types import Event
from eventlog.log.frame import HEADER_SIZE, PAYLOAD_SIZE_MAX, decode_header
from eventlog.log.journal_reading import scan_journal
from eventlog.log.line import encode_line
from eventlog.log.rows import row_of, rows_of
from eventlog.maintenance.copying import COPIED_FILES, refuse_inside
from eventlog.repair import readable_parts
from eventlog.store import Store

NOTE = "SALVAGED"
_BATCH_BYTES = 4 << 20
_BATCH_LINES = 16_384
_CURSOR = "cursor"
_NO_PAYLOAD = b"{}"
_AS_SPACES = bytes.maketrans(b"\t\r\n", b"   ")

Progress = Callable[[int, int], None]


@dataclass(slots=True)
class SalvageReport:
    """What was saved. `skipped` names each file, or part of one, that was left out, and why.

    `gaps` are positions of the source without an event, but for those of repeated events;
    `ledger_left_out` counts cursors that would be wrong where positions moved.
    """

    source: str
    dest: str
    store_id: "str | None"  # of the source, when it could be known
    events: int = 0
    contents: int = 0
    ledger_left_out: int = 0
    same_positions: bool = True
    gaps: list[tuple[int, int]] = field(default_factory=list)
    skipped: list[tuple[str, str]] = field(default_factory=list)


def salvage(
    source: "str | os.PathLike[str]",
    dest: "str | os.PathLike[str]",
    *,
    fs: FileSystem = REAL,
    progress: "Progress | None" = None,
) -> SalvageReport:
    """Make a new store at `dest` of what verifies below `source`.

    Raises: NotFound, Refused (dest holds something, or is inside the source), NotDurable.
    """
    root, target = os.path.abspath(source), os.path.abspath(dest)
    refuse_inside(root, target, "what is to be saved")
    with translate_os_errors(root, "salvage"):
        if not fs.exists(root):
            raise NotFound(f"{root} is not there")
        if fs.exists(target) and fs.listdir(target):
            raise Refused(f"{target} holds something; choose a directory that is empty or not there")
        return _Salvage(fs, Layout(root), target, progress).run()


@dataclass(frozen=True, slots=True)
class _Source:
    """One file of events, and the positions it claims to hold."""

    path: str
    base: int
    end: int
    rows: "readable_parts.SegmentRows | None"  # None: a journal


class _Salvage:
    def __init__(self, fs: FileSystem, layout: Layout, target: str, progress: "Progress | None") -> None:
        self._fs = fs
        self._layout = layout
        self._progress = progress
        self._report = SalvageReport(layout.root, target, None)
        self._names = list(self._walk(""))
        self._who = self._identity()
        self._ids: list[array[int]] = []  # of each batch: 64 bits of each id, sorted
        self._batch: list[bytes] = []
        self._hashes: list[int] = []
        self._bytes = 0
        self._next = 0  # the position that the source's next event should have
        self._next_new = 0  # the position that the next event gets

    def run(self) -> SalvageReport:
        sources = self._sources()
        report = self._report
        with Store.init(
            report.dest,
            project_name=self._who.project_name if self._who else None,
            repo_hash=self._who.repo_hash if self._who else None,
            force=True,
            turn_limit=self._who.turn_limit if self._who else None,
            fs=self._fs,
        ) as store:
            self._note(store)
            self._save_contents(store)
            for number, source in enumerate(sources):
                if self._progress is not None:
                    self._progress(number, len(sources))
                self._save_events(store, source)
            self._append(store)
            store.seal()
        return report

    # -- what there is -----------------------------------------------------------------------------

    def _walk(self, below: str) -> Iterator[str]:
        """Paths of regular files, relative to the root; what cannot be read is reported as skipped."""
        path = f"{self._layout.root}/{below}" if below else self._layout.root
        try:
            names = self._fs.listdir(path)
        except OSError as error:
            self._skip(path, f"the disk cannot list it ({error.strerror or error})")
            return
        for name in names:
            relative = f"{below}/{name}" if below else name
            try:
                kind = self._fs.lstat(f"{path}/{name}").st_mode & 0o170000
            except OSError as error:
                self._skip(f"{path}/{name}", f"the disk cannot tell what it is ({error.strerror or error})")
                continue
            if kind == 0o040000:
                yield from self._walk(relative)
            elif kind == 0o100000:
                yield relative

    def _identity(self) -> "identity.Identity | None":
        try:
            return identity.read(self._fs, self._layout)
        except EventLogError:
            return None

    def _sources(self) -> list[_Source]:
        """Segments and journals by the positions they begin with; the larger of two first."""
        sources: list[tuple[bytes, _Source]] = []
        for name in self._names:
            path = f"{self._layout.root}/{name}"
            try:
                if ".parquet" in name:
                    sources += self._segment(path)
                elif name.endswith(".evj"):
                    sources += self._journal(path)
            except OSError as error:
                self._skip(path, why_unreadable(error))
        wanted = self._wanted_id([store_id for store_id, _ in sources])
        self._report.store_id = wanted.hex() if wanted else None
        for store_id, source in sources:
            if store_id != wanted:
                self._skip(source.path, f"it belongs to another store ({store_id.hex()})")
        ours = [source for store_id, source in sources if store_id == wanted]
        return sorted(ours, key=lambda source: (source.base, -source.end, source.rows is None, source.path))

    def _segment(self, path: str) -> Iterator[tuple[bytes, _Source]]:
        rows = readable_parts.scan_segment(self._fs, path)
        if rows.problem is not None:
            self._skip(path, rows.problem)
        if rows.meta is not None and rows.groups:
            yield rows.meta.store_id, _Source(path, rows.meta.base, rows.meta.end, rows)

    def _journal(self, path: str) -> Iterator[tuple[bytes, _Source]]:
        fd = self._fs.open(path, os.O_RDONLY)
        try:
            header = decode_header(self._fs.pread(fd, HEADER_SIZE, 0), path)
        except PARSE_ERRORS as error:
            self._skip(
                path,
                f"its header does not verify, so nothing in it can be distinguished from noise ({error})",
            )
            return
        finally:
            self._fs.close(fd)
        yield header.store_id, _Source(path, header.base, header.base, None)

    def _wanted_id(self, ids: list[bytes]) -> "bytes | None":
        if self._who is not None:
            return self._who.store_id
        return Counter(ids).most_common(1)[0][0] if ids else None

    def _skip(self, path: str, what: str) -> None:
        self._report.skipped.append((path, what))

    # -- contents ----------------------------------------------------------------------------------

    def _note(self, store: Store) -> None:
        """Write the origin of the new store, and the files that keep redaction as it was."""
        note = {"source": self._report.source, "store_id": self._report.store_id}
        files = {NOTE: json.dumps(note).encode() + b"\n"}
        for name in COPIED_FILES:
            with suppress(OSError, ValueError):
                files[name] = read_file(self._fs, f"{self._layout.root}/{name}", 1 << 20)
        for name, data in files.items():
            publish(self._fs, store.layout.tmp(f"salvage-{name}"), f"{store.layout.root}/{name}", data)

    def _save_contents(self, store: Store) -> None:
        packs = [name for name in self._names if ".evp" in name]
        with store.blobs.writer() as writer:
            for number, name in enumerate(packs):
                if self._progress is not None:
                    self._progress(number, len(packs))
                path = f"{self._layout.root}/{name}"
                pack = readable_parts.ReadablePack(path)
                try:
                    readable_parts.save_contents(self._fs, pack, writer, lambda id: not writer.holds(id))
                except OSError as error:
                    self._skip(path, why_unreadable(error))
                self._report.contents += pack.saved
                if pack.problem is not None:
                    self._skip(path, pack.problem)
                if pack.bad:
                    self._skip(path, f"{len(pack.bad)} of its {len(pack.named)} contents do not verify")
            writer.flush()

    # -- events ------------------------------------------------------------------------------------

    def _save_events(self, store: Store, source: _Source) -> None:
        if source.base > self._next:
            self._lose_to(source.base)
        gaps_before = len(self._report.gaps)
        try:
            for position, event_id, event_type, line in self._lines(source):
                self._take(store, position, event_id, event_type, line)
            if source.end > self._next:
                self._lose_to(source.end)
            missing = sum(end - base for base, end in self._report.gaps[gaps_before:])
            if (
                source.rows is not None
                and source.rows.meta is not None
                and missing == source.rows.meta.dropped
            ):
                del self._report.gaps[gaps_before:]  # sealing left out duplicates of earlier events
        except OSError as error:
            self._skip(source.path, why_unreadable(error))
        except PARSE_ERRORS as error:
            if isinstance(error, EventLogError) and not isinstance(error, (InvalidEvent, Corruption)):
                raise  # of the new store: NotDurable, LockTimeout
            self._skip(source.path, str(error))

    def _lines(self, source: _Source) -> Iterator[tuple[int, str, str, bytes]]:
        """(position, event id, event type, journal line) of every event that can be read."""
        if source.rows is not None:
            for table in readable_parts.tables(self._fs, source.rows):
                for batch in table.to_batches():
                    for row in rows_of(batch):
                        yield from self._line_of_row(source.path, row)
            return
        scan = scan_journal(self._fs, source.path, store_id=bytes.fromhex(self._report.store_id or ""))
        for damage in scan.damaged:
            self._skip(source.path, f"{damage.size} bytes at byte {damage.offset} do not verify")
        if scan.torn is not None:
            self._skip(source.path, f"{scan.torn[1]} bytes after the last frame are no frame")
        for frame in scan.frames:
            for position, line in enumerate(frame.lines, frame.base):
                try:
                    row = row_of(line, position, source.path)
                except EventLogError as error:
                    self._skip(source.path, str(error))
                else:
                    yield position, str(row["event_id"]), str(row["event_type"]), line

    def _line_of_row(self, path: str, row: Event) -> Iterator[tuple[int, str, str, bytes]]:
        position, payload = row.pop("position"), row.pop("payload")
        try:
            event = {name: value for name, value in row.items() if value is not None}
            line = encode_line(event, lambda _: _NO_PAYLOAD, jsontext.encode_without_floats)
            text = b"{}" if payload is None else str(payload).encode("utf-8")
            line = line[: -len(_NO_PAYLOAD)] + text.translate(_AS_SPACES)
            if len(line) >= PAYLOAD_SIZE_MAX:
                raise InvalidEvent("it is larger than an event may be")
            yield int(str(position)), str(row["event_id"]), str(row["event_type"]), line
        except (EventLogError, ValueError, TypeError) as error:
            self._skip(path, f"the event at position {position}: {error}")

    def _take(self, store: Store, position: int, event_id: str, event_type: str, line: bytes) -> None:
        key = hash(event_id)
        if position < self._next and self._knows(key):
            return
        if position > self._next:
            self._lose_to(position)
        self._next = max(self._next, position + 1)
        if position != self._next_new:
            self._report.same_positions = False
            if event_type == _CURSOR:
                self._report.ledger_left_out += 1
                return
        if self._bytes + len(line) > _BATCH_BYTES or len(self._batch) >= _BATCH_LINES:
            self._append(store)
        self._batch.append(line)
        self._hashes.append(key)
        self._bytes += len(line) + 1
        self._next_new += 1

    def _lose_to(self, position: int) -> None:
        self._report.gaps.append((self._next, position))
        self._next = position

    def _append(self, store: Store) -> None:
        if self._batch:
            store.journal.append(self._batch)
            self._report.events += len(self._batch)
            self._ids.append(array("q", sorted(self._hashes)))
            self._batch, self._hashes, self._bytes = [], [], 0

    def _knows(self, key: int) -> bool:
        if key in self._hashes:
            return True
        for ids in self._ids:
            index = bisect_left(ids, key)
            if index < len(ids) and ids[index] == key:
                return True
        return False
