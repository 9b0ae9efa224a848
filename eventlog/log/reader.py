"""A pinned, consistent view of the log: segments and the journals' tail as one sequence of events.

Any number of views may be open in any number of processes beside appenders and a sealer; opening one
writes nothing. A view belongs to one thread and sees the log as it was when it was opened (I6): a
later view extends it. Upholds I8, I14, I17, I22.

The pin is a shared lock. It is on the manifest's descriptor, so that no file this manifest needs is
unlinked; in a log that was never sealed it is on the first journal. Journals are unlinked in ascending
order and never while locked, so the whole log stays in the journals then, even if a first manifest is
committed meanwhile. A process that unlinks holds the exclusive lock while doing so, so a pin that came too
late is noticed: the lock is refused, the name is gone, or the first journal does not continue the
manifest. Then opening starts again.

Importing this module imports no pyarrow: an empty log, or one that is all tail, is read without it.
"""

import os
from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Sequence
from functools import cached_property
from itertools import chain
from typing import TYPE_CHECKING, TypeVar

from eventlog.base.errors import Corruption, NotDurable
from eventlog.base.fs import FileSystem, translate_os_errors
from eventlog.base.layout import JOURNAL_DIR, SEGMENT_DIR, StoreFiles
from eventlog.base.types import Event
from eventlog.log import manifest as manifests
from eventlog.log.acknowledged import read_note
from eventlog.log.frame import Frame
from eventlog.log.journal_reading import end_of_journal, journal_numbers
from eventlog.log.manifest import Manifest, SegmentEntry
from eventlog.log.numbering import EmptyPrefix, Numbering, Prefix
from eventlog.log.parts import turn_limit
from eventlog.log.rows import Selection, checked_columns, decoded, numbered, rows_of, selected
from eventlog.log.tail import LostPositions, TailJournal, begins_at, read_header, unsealed, walk
from eventlog.log.tail_memory import Chunk, TailFacts, TailMemory

if TYPE_CHECKING:
    import pyarrow as pa

    from eventlog.projections.excerpt import Excerpt

# Between two tries another process has committed or unlinked; where that happens more often while a reader
# opens the store, the store is damaged.
_TRIES_MAX = 100
_TRY_AGAIN_S = 0.002

# orjson costs 25 ms to import when cold, and the standard library 25 µs more for each line.
_LINES_FOR_ORJSON = 1000

# Ranges are near one another within so many positions.
_STRETCH_MAX = 500
# Tails up to this length are decoded by plain Python in less time than pyarrow takes to import.
_TAIL_ROWS_PYTHON = 10_000

# Journals of the tail that a view keeps in memory, and decodes at once.
_CACHE_BYTES = 64 << 20

_Answer = TypeVar("_Answer")


def open_view(files: StoreFiles) -> "LogView":
    """The log as it is now, pinned until the view is closed.

    Raises: Corruption, Unsupported.
    """
    missing: Corruption | None = None
    for _ in range(_TRIES_MAX):
        try:
            with translate_os_errors(files.layout.root, "read the log"):
                newest = journal_numbers(files)[-1:]
                # Before the journals are read.
                acknowledged = read_note(files, *newest) if newest else None
                view = _try_open(files)
        except _MissingError as error:
            missing = error.corruption
            view = None
        if view is not None:
            view.acknowledged = acknowledged
            return view
        files.fs.sleep(_TRY_AGAIN_S)
    raise missing or Corruption(
        files.layout.root, "other processes replaced the manifest whenever it was opened"
    )


class LogView:
    """The events of positions [0, next_position), duplicates left out. Use as a context manager."""

    def __init__(
        self,
        files: StoreFiles,
        manifest: Manifest,
        journals: list[int],
        size_of_last: int,
        pin: int,
    ) -> None:
        """Called by `open_view`. Takes over `pin`, a descriptor (-1: nothing needs one)."""
        self.files = files
        self.fs = files.fs
        self.layout = files.layout
        self.store_id = files.store_id
        self.manifest = manifest
        # Gives the events and sessions before the tail, by default from the segments themselves. May be set
        # until `tail` is first used.
        self.prefix: Prefix | None = None
        self.journals = journals  # numbers of those that hold the tail, ascending
        self.size_of_last = size_of_last  # bytes of the last of them when the view was opened
        self.acknowledged: int | None = None  # every event before it was there when the view was opened
        self.memory: TailMemory | None = None  # of the store that opened the view
        # Gets what cannot be read of the tail.
        self.on_loss: Callable[[Iterable[LostPositions]], None] | None = None
        self.excerpt: Excerpt | None = None  # another way to the events of one turn
        self._pin = pin

    def __enter__(self) -> "LogView":
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def close(self) -> None:
        """Release the pin; a second call does nothing. What was read stays usable."""
        if self._pin >= 0:
            fd, self._pin = self._pin, -1
            self.fs.close(fd)

    @property
    def segment_paths(self) -> list[str]:
        """The live segments that hold events, in position order."""
        return [self.layout.segment(entry.name) for entry in self.manifest.segments if entry.rows]

    @property
    def next_position(self) -> int:
        """The position after the last event."""
        return self._tail_facts.end

    @property
    def tail_count_raw(self) -> int:
        """How many events the tail holds, duplicates included."""
        return self._tail_facts.count

    @property
    def damaged(self) -> list[LostPositions]:
        """Positions that rot destroyed: those the manifest names, and those missing from the tail."""
        return [
            LostPositions(r.base, r.end, r.journal) for r in self.manifest.damaged
        ] + self._tail_facts.lost

    @property
    def unsettled(self) -> list[LostPositions]:
        """Positions that the manifest names as lost and no repair has settled."""
        return [LostPositions(r.base, r.end, r.journal) for r in self.manifest.damaged if r.journal]

    @cached_property
    def tail(self) -> list[Event]:
        """The visible events after the segments, numbered, in position order.

        Each is a dict with every column: times in µs, `payload` as JSON text, None for unknown.
        Raises: Corruption, Unsupported.
        """
        return [row for chunk in self._tail_chunks() for row in _dicts_of(chunk)]

    @property
    def tail_count(self) -> int:
        """How many events `tail` has. Raises: Corruption, Unsupported."""
        if self.tail_count_raw <= _TAIL_ROWS_PYTHON and "_chunks" not in self.__dict__:
            return len(self.unnumbered_tail())  # to number them reads all that is sealed of their sessions
        return sum(len(chunk.rows) for chunk in self._tail_chunks())

    def unnumbered_tail(self) -> list[Event]:
        """The events of `tail` as their writers gave them. Raises: Corruption, Unsupported."""
        frames = [(journal.scan.path, frame) for journal in self._walk() for frame in journal.frames]
        return _first_of_each(decoded(frames, _LINES_FOR_ORJSON), self._known_prefix, set())

    def tail_table(self) -> "pa.Table":
        """`tail` as an Arrow table of `segment.SCHEMA`. Raises: Corruption, Unsupported."""
        return self.tail_parts(-1)[0]

    def tail_parts(self, rows_max: int) -> "tuple[pa.Table | None, list[Event]]":
        """`tail` as an Arrow table of its older events and dicts of the newest, without copying either.

        Args: rows_max: a tail of so many events is dicts alone. Raises: Corruption, Unsupported.
        """
        chunks = list(self._tail_chunks())
        if sum(len(chunk.rows) for chunk in chunks) <= rows_max:
            return None, [row for chunk in chunks for row in _dicts_of(chunk)]
        import pyarrow as pa

        from eventlog.log.segment import SCHEMA

        rows: list[Event] = []
        if chunks and isinstance(chunks[-1].rows, list) and len(chunks[-1].rows) <= rows_max // 10:
            rows = chunks.pop().rows
        return pa.concat_tables([SCHEMA.empty_table(), *(chunk.table() for chunk in chunks)]), rows

    def iterate(
        self,
        since: int = 0,
        until: "int | None" = None,
        *,
        columns: "Sequence[str] | None" = None,
        event_types: "Collection[str] | None" = None,
        session_id: "str | frozenset[str] | None" = None,
        turn: "int | None" = None,
        event_id: str = "",
    ) -> Iterator[Event]:
        """Events of [since, until) that fit all filters, in position order, as dicts of their own.

        Args: columns: which, in which order, every one by default; session_id: one, or any of several;
        event_id: a prefix of ids.
        Raises: NotFound for an unknown column, Corruption, Unsupported.
        """
        names = checked_columns(columns)
        wanted = Selection(since, until, event_types, session_id, turn, event_id)
        rows = None if self.excerpt is None else self._excerpt_of(self.excerpt, wanted, names)
        if rows is not None:
            yield from ({name: row[name] for name in names} for row in rows if wanted.admits(row))
        else:
            for batch in self.sealed_batches(wanted, names):
                yield from rows_of(batch)
        for chunk in self._tail_chunks_in(wanted):
            yield from _selected_of(chunk, wanted, names)

    def batches(
        self,
        since: int = 0,
        until: "int | None" = None,
        *,
        columns: "Sequence[str] | None" = None,
        event_types: "Collection[str] | None" = None,
        session_id: "str | frozenset[str] | None" = None,
        turn: "int | None" = None,
        event_id: str = "",
        positions: "frozenset[int] | None" = None,
    ) -> "Iterator[pa.RecordBatch]":
        """What `iterate` gives, as Arrow record batches in the types of `segment.SCHEMA`.

        Args: positions: only these.
        """
        names = checked_columns(columns)
        wanted = Selection(since, until, event_types, session_id, turn, event_id, positions)
        yield from self.sealed_batches(wanted, names)
        for chunk in self._tail_chunks_in(wanted):
            yield from selected(chunk.table(), wanted, names)

    def make_durable(self) -> None:
        """Sync what the view shows and may not be synced: for callers that store what follows from it (I5).

        Only the last journal can need it: the one before was synced when the last was made.
        Raises: NotDurable.
        """
        if not self.journals:
            return
        path = self.layout.journal(self.journals[-1])
        fd = -1
        try:
            fd = self.fs.open(path, os.O_RDONLY)
            self.fs.fdatasync(fd)
            self.fs.fsync_dir(self.layout.directory(JOURNAL_DIR))  # the maker of a copy may have died before
        except OSError as error:
            raise NotDurable(
                f"{path}: the disk failed to sync ({error.strerror}), so its newest events may not last. "
                "Check the disk, then try again."
            ) from error
        finally:
            if fd >= 0:
                self.fs.close(fd)

    # -- segments ----------------------------------------------------------------------------------

    def sealed_batches(self, wanted: "Selection", names: Sequence[str]) -> "Iterator[pa.RecordBatch]":
        """The wanted events that are in segments, as `batches` gives them."""
        for entry in self._segments_in(wanted):
            yield from self.segment_batches(entry, wanted, names)

    def _excerpt_of(
        self, excerpt: "Excerpt", wanted: Selection, names: "Sequence[str]"
    ) -> "list[Event] | None":
        def read(turn_or_positions: Selection, columns: "Sequence[str]") -> Iterator[Event]:
            return chain.from_iterable(map(rows_of, self.sealed_batches(turn_or_positions, columns)))

        return excerpt.rows(list(self._segments_in(wanted)), wanted, read, self.manifest.segments, names)

    def read_at_once(self, ranges: "Sequence[tuple[int, int | None]]", columns: Sequence[str]) -> None:
        """Read sealed events of ranges near one another by one question, for callers that ask for one of
        them next. Nothing where they are not near, or an end is open. Raises: Corruption."""
        ends = [until for _, until in ranges if until is not None]
        if self.excerpt is None or len(ends) < len(ranges):
            return
        since, until = min(since for since, _ in ranges), max(ends)
        if until - since <= _STRETCH_MAX:
            wanted = Selection(since, until)
            self._excerpt_of(self.excerpt, wanted, checked_columns(columns))

    def _segments_in(self, wanted: "Selection") -> Iterator[SegmentEntry]:
        return (entry for entry in self.manifest.segments if entry.rows and wanted.meets(entry))

    def segment_batches(
        self, entry: SegmentEntry, wanted: "Selection", names: Sequence[str]
    ) -> "Generator[pa.RecordBatch, None, None]":
        """The selected rows of a segment, some at a time; columns beyond the filters' only where a row fits.

        After the first of them the rest can be read without the pin: the file is open.
        """
        from eventlog.log.segment_file import SegmentFile

        tests = wanted.columns(entry.base, entry.end)
        with SegmentFile(self.files, entry) as file:
            for group in file.groups_in(wanted.since, wanted.until):
                if not tests:
                    yield from file.slices(names, group)
                    continue
                if wanted.event_types is not None and not file.has_types(group, wanted.event_types):
                    continue
                yield from file.slices(names, group, wanted.mask(file.read(tests, group)))

    # -- the tail ----------------------------------------------------------------------------------

    @cached_property
    def turn_limit(self) -> "int | None":
        """The turn limit in STORE; None without one, and while a damaged STORE is being repaired."""
        try:
            return turn_limit(self.files)
        except Corruption:
            return None

    @cached_property
    def _known_prefix(self) -> Prefix:
        if self.prefix is not None:
            return self.prefix
        if not self.manifest.segments:
            return EmptyPrefix()
        from eventlog.log.segment_file import SegmentPrefix

        return SegmentPrefix(self.files, self.manifest.segments)

    @cached_property
    def _tail_facts(self) -> TailFacts:
        """Counts of the tail."""
        remembered = self._remembered(lambda memory: memory.facts(self))
        if remembered is not None:
            return self._noting(remembered)
        facts = TailFacts(self.manifest.next_position)
        previous = 0
        for journal in self._walk():
            facts.add(journal, previous)
            previous = journal.number
        return self._noting(facts)

    def _noting(self, facts: TailFacts) -> TailFacts:
        if self.acknowledged is not None and facts.end < self.acknowledged:
            # Cut, or rot of the end.
            facts.lost.append(LostPositions(facts.end, self.acknowledged, self.journals[-1]))
        if facts.lost and self.on_loss is not None:
            self.on_loss(facts.lost)
        return facts

    def _tail_chunks(self) -> Iterable[Chunk]:
        """The numbered tail, some journals at a time where a memory of all of it would be too large."""
        if self.on_loss is not None:
            _ = self._tail_facts  # they report what is lost
        return self._stream() if self._chunks is None else self._chunks

    def _tail_chunks_in(self, wanted: Selection) -> Iterable[Chunk]:
        """Those with events that may be wanted."""
        if wanted.until is not None and wanted.until <= self.manifest.next_position:
            return ()  # numbering the tail would look up its sessions in vain
        return filter(wanted.meets, self._tail_chunks())

    @cached_property
    def _chunks(self) -> "list[Chunk] | None":
        return self._remembered(lambda memory: memory.chunks(self, self._known_prefix, _rows_of_frames))

    def _remembered(self, ask: "Callable[[TailMemory], _Answer | None]") -> "_Answer | None":
        """The answer of the store's memory, else of the view's own; None when the tail is too large."""
        answer = None if self.memory is None else ask(self.memory)
        if answer is None and not (self.memory is not None and self.memory.is_too_small_for(self)):
            answer = ask(self._own_memory)
        return answer

    @cached_property
    def _own_memory(self) -> TailMemory:
        return TailMemory(_CACHE_BYTES)

    def _walk(self) -> Iterator[TailJournal]:
        return walk(self.files, self.journals, self.manifest.next_position, self.size_of_last)

    def _stream(self) -> Iterator[Chunk]:
        numbering = Numbering(self._known_prefix, self.turn_limit)
        earlier: set[str] = set()
        for journals in _bounded(self._walk()):
            frames = [(journal.scan.path, frame) for journal in journals for frame in journal.frames]
            table = _table_of_frames(frames, numbering, earlier)
            yield Chunk(frames[0][1].base, frames[-1][1].end, table)


class _MissingError(Exception):
    """A file that the manifest needs is missing: either it was just replaced, or the store is damaged."""

    def __init__(self, corruption: Corruption) -> None:
        super().__init__(str(corruption))
        self.corruption = corruption


def _try_open(files: StoreFiles) -> "LogView | None":
    """One try; None when others changed the log meanwhile. Raises: _MissingError."""
    fs = files.fs
    numbers = manifests.numbers(files)
    if numbers:
        return _open_sealed(files, numbers[-1])
    journals = unsealed(files, 1)
    if not journals:
        if manifests.numbers(files):
            return None
        return LogView(files, Manifest(files.store_id.hex()), [], 0, -1)
    pin = _pin(fs, files.layout.journal(journals[0]))
    if pin is None:
        return None
    try:
        return _view(files, Manifest(files.store_id.hex()), journals, pin)
    except BaseException:
        fs.close(pin)
        raise


def _open_sealed(files: StoreFiles, number: int) -> "LogView | None":
    fs, layout = files.fs, files.layout
    path = layout.manifest(number)
    pin = _pin(fs, path)
    if pin is None:
        return None
    try:
        size = fs.fstat(pin).st_size
        if size > manifests.SIZE_BYTES_MAX:
            raise Corruption(path, f"no manifest has {size:,} bytes")
        data = fs.pread(pin, size, 0)
        manifest = manifests.check_identity(manifests.decode(data, path), path, files.store_id, number)
        names = set(fs.listdir(layout.directory(SEGMENT_DIR)))
        for entry in manifest.segments:
            if entry.name not in names:
                what = f"manifest {number} lists this segment, but it is not there"
                raise _MissingError(Corruption(layout.segment(entry.name), what))
        journals = unsealed(files, manifest.next_journal)
        return _view(files, manifest, journals, pin)
    except BaseException:
        fs.close(pin)
        raise


def _pin(fs: FileSystem, path: str) -> "int | None":
    """A descriptor that holds a shared lock on the file of that name; None when it is going away."""
    try:
        fd = fs.open(path, os.O_RDONLY)
    except FileNotFoundError:
        return None
    try:
        if fs.flock(fd, exclusive=False):
            opened, named = fs.fstat(fd), fs.stat(path)
            if (opened.st_dev, opened.st_ino) == (named.st_dev, named.st_ino):
                return fd
    except FileNotFoundError:
        pass  # unlinked between open and lock
    except BaseException:
        fs.close(fd)
        raise
    fs.close(fd)
    return None


def _view(files: StoreFiles, manifest: Manifest, journals: list[int], pin: int) -> LogView:
    """The view of a pinned manifest, if the journals continue it."""
    layout = files.layout
    if not journals:
        what = f"no journal continues manifest {manifest.number}: the active one was removed"
        raise _MissingError(Corruption(layout.directory(JOURNAL_DIR), what))
    path = layout.journal(journals[0])
    try:
        header = read_header(files, journals[0])
        size_of_last = end_of_journal(files.fs, layout.journal(journals[-1]))
    except FileNotFoundError as error:
        raise _MissingError(Corruption(path, "this journal was removed although it is not sealed")) from error
    if not begins_at(header, manifest.next_position):
        what = f"it begins at position {header.base}, but the segments end at {manifest.next_position}"
        raise _MissingError(Corruption(path, what))
    return LogView(files, manifest, journals, size_of_last, pin)


def _first_of_each(rows: Iterable[Event], prefix: Prefix, earlier: set[str]) -> list[Event]:
    """The rows whose id no segment has and no earlier row (I8); `earlier` gets the ids of all rows."""
    rows = list(rows)
    sealed = prefix.seen([str(row["event_id"]) for row in rows])
    first = []
    for row in rows:
        event_id = str(row["event_id"])
        if event_id not in sealed and event_id not in earlier:
            earlier.add(event_id)
            first.append(row)
    return first


def _rows_of_frames(
    frames: "list[tuple[str, Frame]]", numbering: Numbering, earlier: set[str]
) -> "list[Event] | pa.Table":
    """The events of frames for a TailMemory: few as dicts, many as a table."""
    count = sum(frame.count for _, frame in frames)
    if count <= _TAIL_ROWS_PYTHON:
        return numbered(
            _first_of_each(decoded(frames, _LINES_FOR_ORJSON), numbering.prefix, earlier), numbering
        )
    return _table_of_frames(frames, numbering, earlier)


def _table_of_frames(
    frames: "list[tuple[str, Frame]]", numbering: Numbering, earlier: set[str]
) -> "pa.Table":
    """The visible events of frames by the sealer's own steps."""
    import pyarrow as pa

    from eventlog.log.segment import number_table, positions_of, table_from_lines, without_duplicates

    events = table_from_lines(
        (frame.payload for _, frame in frames),
        positions_of([(frame.base, frame.count) for _, frame in frames]),
        frames[0][0],
    )
    ids = events["event_id"].to_pylist()
    earlier_ids = pa.array(sorted(numbering.prefix.seen(ids) | (earlier & set(ids))), pa.string())
    earlier.update(ids)
    return number_table(without_duplicates(events, [earlier_ids]), numbering)


def _dicts_of(chunk: Chunk) -> Iterable[Event]:
    if isinstance(chunk.rows, list):
        return chunk.rows
    return (row for batch in chunk.rows.to_batches() for row in rows_of(batch))


def _selected_of(chunk: Chunk, wanted: Selection, names: Sequence[str]) -> Iterator[Event]:
    """The wanted events of a chunk, as dicts of their own."""
    if isinstance(chunk.rows, list):
        for row in chunk.rows:
            if wanted.admits(row):
                yield {name: row[name] for name in names}
    else:
        for batch in selected(chunk.rows, wanted, names):
            yield from rows_of(batch)


def _bounded(journals: Iterable[TailJournal]) -> Iterator[list[TailJournal]]:
    """Runs of journals that hold events and fit _CACHE_BYTES together."""
    run: list[TailJournal] = []
    size = 0
    for journal in journals:
        if run and size + journal.scan.size > _CACHE_BYTES:
            yield run
            run, size = [], 0
        if journal.frames:
            run.append(journal)
            size += journal.scan.size
    if run:
        yield run
