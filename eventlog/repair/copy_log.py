"""The log of a copy of the store, as a source of events that the store has lost.

A copy has the store's id, and so has every other copy, also one that somebody recorded into, or a store that
went on from an older backup. So equal ids and equal positions prove nothing. An event of the copy is the
store's own where both logs agree at its position or at a later one: the store has at this position the same
event, recorded in the same microsecond, and at no earlier one another. Or the copy gives, byte for byte,
the segment that the store's manifest lists.

What was erased from the store must not come back: a copy from before an erasure gives events only by the
second way. Reads only; nothing of the copy is believed that does not match its digest.
"""

from collections.abc import Iterator
from contextlib import closing, suppress

import pyarrow as pa
import pyarrow.compute as pc
from blake3 import blake3

from eventlog.base.errors import PARSE_ERRORS, Corruption
from eventlog.base.fs import FileSystem, hash_file, read_file
from eventlog.base.layout import Layout, StoreFiles
from eventlog.log import manifest as manifests
from eventlog.log.erasures import ERASURE
from eventlog.log.journal_reading import scan_journal
from eventlog.log.manifest import Manifest, SegmentEntry
from eventlog.log.numbering import Numbering
from eventlog.log.parts import turn_limit
from eventlog.log.seal import visible_events
from eventlog.log.segment import (
    SCHEMA,
    SegmentMeta,
    encode_segment,
    open_segment,
    read_columns,
    tables_from_frames,
)
from eventlog.log.segment_file import SeamFile, SegmentFile, SegmentPrefix
from eventlog.log.tail import TailJournal, lost_positions, unsealed, walk
from eventlog.log.verify import LogCheck

Ranges = list[tuple[int, int]]

IDENTITY = ("position", "event_id", "recorded_at", "event_type")
_RULES_BYTES_MAX = 64 << 20


class CopyLog:
    """The events of the copy in `layout`, and up to which position they are the store's own.

    `end` is the position after its last event. `agreed` is the position up to which both logs are proven to
    be one, `parted` the first at which they differ (None: at none), `erased` whether the store has erasures
    that the copy does not have. Memory: the tail of the copy, and the identities of one row group.
    """

    def __init__(self, fs: FileSystem, layout: Layout, store_id: bytes) -> None:
        self._fs = fs
        self._layout = layout
        self._files = StoreFiles(fs, layout, store_id)
        self._manifest = Manifest(store_id.hex())
        self._whole: "dict[str, bool]" = {}  # segment → whether its bytes match its digest
        self._tail = SCHEMA.empty_table()
        self._gaps: Ranges = []
        self.end = self.agreed = 0
        self.parted: "int | None" = None
        self.erased = False
        try:
            self._manifest = manifests.read_current(self._files)
            self.end = self._manifest.next_position
            self._gaps = [(lost.base, lost.end) for lost in self._manifest.damaged]
            self._read_tail()
        except (FileNotFoundError, Corruption):
            pass  # what can be read of it counts

    def _read_tail(self) -> None:
        base = self._manifest.next_position
        journals: list[TailJournal] = []
        with suppress(Corruption):  # the journals before it continue the log
            for journal in walk(self._files, unsealed(self._files, self._manifest.next_journal), base):
                journals.append(journal)
        frames = [frame for journal in journals for frame in journal.frames]
        prefix = SegmentPrefix(self._files, self._manifest.segments)
        with closing(tables_from_frames(frames, self._layout.root)) as pieces:
            numbering = Numbering(prefix, turn_limit(self._files))
            self._tail = visible_events(pieces, prefix, numbering)[0]
        self._gaps += [(lost.base, lost.end) for lost in lost_positions(journals, base)]
        self.end = frames[-1].end if frames else base

    def compare(self, store: StoreFiles, log: LogCheck) -> None:
        """Determine where both logs agree. Args: log: what a walk over the store found."""
        known = _known_segments(store, log)
        shared = [entry for entry in self._manifest.segments if entry.blake3 in known]
        self.agreed = max((entry.end for entry in shared), default=0)
        self.erased = _rules(self._fs, store.layout) != _rules(self._fs, self._layout)
        for table in _identities(store, log, {entry.blake3 for entry in shared}):
            self._compare_table(table)

    def _compare_table(self, table: "pa.Table") -> None:
        events = {position: rest for position, *rest in _rows(table)}
        erasures = {rest[0] for rest in events.values() if rest[2] == ERASURE}
        if events:
            for theirs in self.tables(min(events), max(events) + 1, IDENTITY):
                for position, *rest in _rows(theirs):
                    erasures.discard(rest[0])
                    if self.parted is None and position in events:
                        if events[position] == rest:
                            self.agreed = max(self.agreed, position + 1)
                        else:
                            self.parted = position
        self.erased = self.erased or bool(erasures)

    # -- what it has -------------------------------------------------------------------------------

    def tables(self, base: int, end: int, columns: "tuple[str, ...] | None" = None) -> "Iterator[pa.Table]":
        """The visible events at positions [base, end), numbered, ascending. Raises: Corruption, OSError."""
        for entry in self._manifest.segments:
            if entry.base < end and base < entry.end and self._is_whole(entry):
                with SegmentFile(self._files, entry) as file:
                    for group in file.groups_in(base, end):
                        yield _within(file.read(columns, group), base, end)
        yield _within(self._tail if columns is None else self._tail.select(columns), base, end)

    def covered(self, ranges: Ranges) -> Ranges:
        """The parts of these ranges whose events, as many as there are, the copy has."""
        held = [(entry.base, entry.end) for entry in self._manifest.segments if self._is_whole(entry)]
        held.append((self._manifest.next_position, self.end))
        return without(common(ranges, held), self._gaps)

    def usable(self, ranges: Ranges) -> Ranges:
        """The parts of these ranges whose events the copy has, proven to be the store's own."""
        return [] if self.erased else common(self.covered(ranges), [(0, self.agreed)])

    def why_not(self, ranges: Ranges, sealed: Ranges) -> str:
        """Why the events at these positions are not taken. Args: sealed: gaps between sealed events."""
        if self.erased:
            return "it is from before an erasure, so it may hold what was erased"
        if self.parted is not None:
            return f"its log is another one, from position {self.parted} on at the latest"
        if common(ranges, sealed):
            return "the events after them were sealed and numbered without them"
        return "nothing that is left of the store's log proves that they are its own"

    def gives(self, entry: SegmentEntry) -> bool:
        """Whether its events give exactly this segment: then they are the store's own, and not erased."""
        if self.covered([(entry.base, entry.end)]) != [(entry.base, entry.end)]:
            return False
        events = pa.concat_tables([SCHEMA.empty_table(), *self.tables(entry.base, entry.end)])
        meta = SegmentMeta(self._files.store_id, entry.base, entry.end, entry.dropped)
        return blake3(encode_segment(events, meta)).hexdigest() == entry.blake3

    def _is_whole(self, entry: SegmentEntry) -> bool:
        if entry.name not in self._whole:
            try:
                digest = hash_file(self._fs, self._layout.segment(entry.name))
            except FileNotFoundError:
                digest = ""
            self._whole[entry.name] = digest == entry.blake3
        return self._whole[entry.name]


def common(ranges: Ranges, others: Ranges) -> Ranges:
    """The positions that are in a range of both."""
    both = [(max(a, c), min(b, d)) for a, b in ranges for c, d in others]
    return merged([(base, end) for base, end in both if base < end])


def without(ranges: Ranges, others: Ranges) -> Ranges:
    """The positions of `ranges` that are in none of `others`."""
    left = merged(ranges)
    for base, end in others:
        parts = [part for a, b in left for part in ((a, min(b, base)), (max(a, end), b))]
        left = [(a, b) for a, b in parts if a < b]
    return left


def merged(ranges: Ranges) -> Ranges:
    """The same positions in as few ranges as there can be, ascending."""
    joined: Ranges = []
    for base, end in sorted(ranges):
        if joined and base <= joined[-1][1]:
            joined[-1] = (joined[-1][0], max(end, joined[-1][1]))
        else:
            joined.append((base, end))
    return joined


def _known_segments(files: StoreFiles, log: LogCheck) -> "set[str]":
    """The digests of the segments that the manifests of a store list, those from before a merge too."""
    known = {entry.blake3 for entry in log.current.segments}
    for number in log.manifests:
        with suppress(FileNotFoundError, Corruption):
            known.update(entry.blake3 for entry in manifests.read_numbered(files, number).segments)
    return known


def _identities(files: StoreFiles, log: LogCheck, shared: "set[str]") -> "Iterator[pa.Table]":
    """The IDENTITY of all events of a store that can be read, ascending, outside of `shared` segments.

    Of a damaged segment these few columns may be whole where others are not.
    """
    for entry in log.current.segments:
        if entry.blake3 not in shared:
            yield from _identities_in(files.fs, files.layout.segment(entry.name))
    position = log.current.next_position
    for number in unsealed(files, log.current.next_journal):
        path = files.layout.journal(number)
        with suppress(*PARSE_ERRORS, OSError):
            frames = scan_journal(files.fs, path, store_id=files.store_id, number=number).frames
            continuing = [frame for frame in frames if frame.base >= position]
            with closing(tables_from_frames(continuing, path)) as pieces:
                yield from (piece.select(IDENTITY) for piece in pieces)
            position = max([position, *(frame.end for frame in continuing)])


def _identities_in(fs: FileSystem, path: str) -> "Iterator[pa.Table]":
    with suppress(*PARSE_ERRORS, OSError):
        source = SeamFile(fs, path)
        try:
            file = open_segment(source, path)
            for group in range(file.num_row_groups):
                with suppress(*PARSE_ERRORS, OSError):
                    yield read_columns(file, path, IDENTITY, group)
        finally:
            source.close()


def _rules(fs: FileSystem, layout: Layout) -> bytes:
    """The rules of what was erased, as they are stored; empty where there are none."""
    try:
        return read_file(fs, layout.erased, _RULES_BYTES_MAX)
    except (OSError, ValueError):
        return b""


def _within(table: "pa.Table", base: int, end: int) -> "pa.Table":
    position = table["position"]
    return table.filter(pc.and_(pc.greater_equal(position, base), pc.less(position, end)))


def _rows(table: "pa.Table") -> "Iterator[tuple[int, str, object, str]]":
    columns = (table[name].to_pylist() for name in ("position", "event_id"))
    at = table["recorded_at"].cast(pa.int64()).to_pylist()
    return zip(*columns, at, table["event_type"].to_pylist(), strict=True)
