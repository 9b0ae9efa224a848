"""A cache of the tail in a store, so that the next view reads only what was appended since.

A memory belongs to one store and serves views of one manifest: a verified frame stays valid while journals
are only appended to, and numbering is a fold that goes on where it stopped. Whatever does not continue what
was read (a new manifest, a copied journal, a file that became shorter, damage) restarts it. Any thread may
use it; while one reads, others make a memory of their own, and so does an older view.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from threading import Lock
from typing import TYPE_CHECKING

from eventlog.base.errors import Corruption
from eventlog.base.fs import opened
from eventlog.base.types import Event
from eventlog.log.frame import HEADER_SIZE, Frame, decode_frame
from eventlog.log.journal_reading import end_of_journal
from eventlog.log.numbering import Numbering, Prefix
from eventlog.log.tail import LostPositions, TailJournal, lost_positions, walk

if TYPE_CHECKING:
    import pyarrow as pa

    from eventlog.log.reader import LogView

# Rows that are read one by one join the ones before them up to this number, so that there are few chunks.
_JOINED_ROWS_MAX = 1_000


@dataclass(slots=True)
class Chunk:
    """Numbered, visible events of [base, end): as dicts, or as a table of `segment.SCHEMA`."""

    base: int
    end: int
    rows: "list[Event] | pa.Table"
    _table: "pa.Table | None" = None  # of dicts, after the first call

    def table(self) -> "pa.Table":
        """The events as a table."""
        if not isinstance(self.rows, list):
            return self.rows
        if self._table is None:
            import pyarrow as pa

            from eventlog.log.segment import SCHEMA

            self._table = pa.Table.from_pylist(self.rows, schema=SCHEMA)
        return self._table


@dataclass(slots=True)
class TailFacts:
    """Counts of a tail: the position after it, its events with duplicates, positions that rot took."""

    end: int
    count: int = 0
    lost: list[LostPositions] = field(default_factory=list)

    def add(self, journal: TailJournal, previous: int) -> None:
        """Count a journal that was walked. Args: previous: the number of the one before, or 0."""
        if journal.scan.base > self.end:
            self.lost.append(LostPositions(self.end, journal.scan.base, previous))
            self.end = journal.scan.base
        self.lost += lost_positions([journal], self.end)
        self.end = journal.frames[-1].end if journal.frames else self.end
        self.count += sum(frame.count for frame in journal.frames)


# The visible events of frames, each with the path of its journal, numbered by a fold that goes on. The set
# has the ids of the events before them, and gets theirs.
Decode = Callable[[list[tuple[str, Frame]], Numbering, set[str]], "list[Event] | pa.Table"]


class TailMemory:
    """Frames and events of the journals after one manifest, as far as they were read."""

    def __init__(self, bytes_max: int) -> None:
        """Args: bytes_max: a tail of more journal bytes is not cached."""
        self._bytes_max = bytes_max
        self._lock = Lock()
        self._too_large: tuple[int, list[int]] | None = None  # the tail, by its manifest and first journal
        self._begin(-1, 0)

    def _begin(self, manifest: int, position: int) -> None:
        self._manifest = manifest
        self._facts = TailFacts(position)
        self._journals: list[int] = []  # numbers of those that were read
        self._key = b""  # of the last of them
        self._offset = 0  # after the last frame that was read of it
        self._bytes = 0
        self._waiting: list[tuple[str, Frame]] = []  # read, and not decoded yet
        self._chunks: list[Chunk] = []
        self._numbering: Numbering | None = None
        self._ids: set[str] = set()

    def facts(self, view: "LogView") -> "TailFacts | None":
        """The facts of the view's tail; None when the view has to read it itself."""
        if not self._lock.acquire(blocking=False):
            return None
        try:
            return self._facts_of(view)
        finally:
            self._lock.release()

    def chunks(self, view: "LogView", prefix: Prefix, decode: Decode) -> "list[Chunk] | None":
        """The view's tail, numbered; None when the view has to read it itself.

        Args: prefix: what the segments of the view's manifest hold. Raises: Corruption, Unsupported.
        """
        if not self._lock.acquire(blocking=False):
            return None
        try:
            if self._facts_of(view) is None:
                return None
            if self._waiting:
                self._number(prefix, view.turn_limit, decode)
            return list(self._chunks)
        except BaseException:
            self._begin(-1, 0)  # a step that failed may be half done
            raise
        finally:
            self._lock.release()

    def is_too_small_for(self, view: "LogView") -> bool:
        """Whether it was begun for this tail, and given up."""
        return self._too_large == (view.manifest.number, view.journals[:1])

    # -- reading -------------------------------------------------------------------------------

    def _facts_of(self, view: "LogView") -> "TailFacts | None":
        if self._manifest == view.manifest.number and self._is_ahead_of(view):
            return None
        if self.is_too_small_for(view):
            return None
        if self._manifest != view.manifest.number or not self._goes_on(view):
            self._begin(view.manifest.number, view.manifest.next_position)
            self._read(view, view.journals)
        if self._bytes > self._bytes_max:
            self._too_large = view.manifest.number, view.journals[:1]
            self._begin(-1, 0)
            return None
        return TailFacts(self._facts.end, self._facts.count, list(self._facts.lost))

    def _is_ahead_of(self, view: "LogView") -> bool:
        """Whether the memory has read more than the view may show."""
        read_journals, view_journals = self._journals, view.journals
        has_fewer = (
            len(view_journals) < len(read_journals) and view_journals == read_journals[: len(view_journals)]
        )
        return has_fewer or (
            bool(read_journals) and view_journals == read_journals and view.size_of_last < self._offset
        )

    def _goes_on(self, view: "LogView") -> bool:
        """Read what the view has beyond the memory; False when the memory does not fit it."""
        read_journals = self._journals
        if view.journals[: len(read_journals)] != read_journals:
            return False
        if not read_journals:
            return not view.journals
        is_last = len(view.journals) == len(read_journals)
        if not self._advance(view, view.size_of_last if is_last else None):
            return False
        self._read(view, view.journals[len(read_journals) :])
        return True

    def _advance(self, view: "LogView", until: "int | None") -> bool:
        """Read on in the last known journal; False unless valid frames fill it up to its end, or `until`."""
        path = view.layout.journal(self._journals[-1])
        until = end_of_journal(view.fs, path) if until is None else until
        if until == self._offset:
            return True
        with opened(view.fs, path) as fd:
            data = view.fs.pread(fd, max(0, until - self._offset), self._offset)
        start = 0
        frames = []
        while start < len(data):
            try:
                frame = decode_frame(data, start, self._offset + start, self._key, path)
            except Corruption:
                return False  # torn, or damage: the walk over all of it decides which
            frames.append(frame)
            start += frame.size
        for frame in frames:
            if frame.base != self._facts.end:
                return False
            self._facts.count += frame.count
            self._facts.end = frame.end
            self._waiting.append((path, frame))
        self._offset += start
        self._bytes += start
        return True

    def _read(self, view: "LogView", numbers: "list[int]") -> None:
        """Walk through whole journals, as any view does. Raises: Corruption."""
        journals = walk(view.files, numbers, self._facts.end, view.size_of_last)
        for journal in journals if numbers else ():
            self._facts.add(journal, self._journals[-1] if self._journals else 0)
            self._waiting += [(journal.scan.path, frame) for frame in journal.frames]
            self._journals.append(journal.number)
            self._key = journal.scan.header.key
            last = journal.frames[-1] if journal.frames else None
            self._offset = last.offset + last.size if last else HEADER_SIZE
            self._bytes += journal.scan.size

    def _number(self, prefix: Prefix, turn_limit: "int | None", decode: Decode) -> None:
        """Decode what is waiting, and number it."""
        if self._numbering is None:
            self._numbering = Numbering(prefix, turn_limit)
        elif remember := getattr(self._numbering.prefix, "remember", None):
            remember()  # it reads the segments itself, which do not change under one manifest
        else:
            self._numbering.prefix = prefix  # the one before may have lost its connection
        waiting, self._waiting = self._waiting, []
        rows = decode(waiting, self._numbering, self._ids)
        base, end = waiting[0][1].base, waiting[-1][1].end
        last = self._chunks[-1] if self._chunks else None
        if (
            last is not None
            and isinstance(rows, list)
            and isinstance(last.rows, list)
            and len(last.rows) + len(rows) <= _JOINED_ROWS_MAX
        ):
            self._chunks[-1] = Chunk(last.base, end, last.rows + rows)
        else:
            self._chunks.append(Chunk(base, end, rows))
