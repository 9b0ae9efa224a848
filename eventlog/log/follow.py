"""Following the log: every visible event from a position on, and then those that come, each once.

A `Follower` belongs to one thread; any number of processes may follow beside writers and a sealer. It
writes nothing and holds no lock: a view is pinned only while a piece of a segment or the list of
journals is read, so a follower, however slow its caller, keeps no file from being unlinked. Upholds
I6, I8 and I22: what it gives is what a view of the final log gives.

It reads sealed events from segments, piece by piece; a segment that the log still has is read to its end by
one descriptor. Then it walks the journals frame by frame, numbering and de-duplicating as it goes (the same
fold as a view's). The state of that fold stays in
memory, so a new event costs its own bytes. Two look-ups and the bytes after what was read show whether
there is more: journals are numbered densely and unlinked in ascending order, never the highest, so as long as
journal n has its name, n+1 is missing only when n is the highest. When n has lost its name, what
follows is in segments, and the follower begins again at the position where it is.

Memory: the ids of the journals' tail, 8 bytes for each sealed event, and one piece.
"""

import os
from bisect import bisect_left
from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING

from eventlog.base.errors import Corruption, NotDurable
from eventlog.base.layout import JOURNAL_DIR, StoreFiles
from eventlog.base.types import COLUMN_NAMES, Event
from eventlog.log import manifest as manifests
from eventlog.log.frame import FRAME_SIZE_MAX, HEADER_SIZE, Frame, decode_frame
from eventlog.log.journal_reading import end_after, end_of_open, scan_journal
from eventlog.log.manifest import Manifest, SegmentEntry
from eventlog.log.numbering import Numbering, PrefixRow
from eventlog.log.reader import LogView, open_view
from eventlog.log.rows import Selection, decoded, numbered, rows_of
from eventlog.log.tail import LostPositions, begins_at, read_header

if TYPE_CHECKING:
    import pyarrow as pa

    from eventlog.log.segment_file import SegmentPrefix

    _Segment = tuple[str, Generator[pa.RecordBatch, None, None]]

POLL_S = 0.2

# Sealed events taken into memory under one pin.
_PIECE_ROWS = 16_384
_PIECE_BYTES = 4 << 20

# Bytes of a journal read at once; a larger frame is read whole.
_READ_BYTES = 1 << 20

# With so many lines at once there are more to come, and orjson is worth its import.
_LINES_FOR_ORJSON = 200

# More sorted arrays of ids than this are merged into one.
_ARRAYS_MAX = 64


def follow(
    follower: "Follower",
    *,
    poll_s: float = POLL_S,
    stop: "Callable[[], bool] | None" = None,
    timeout_s: "float | None" = None,
) -> Iterator[Event]:
    """The follower's events, waiting for more; it is closed when the iteration ends.

    It ends when `stop()` is true, or when nothing came for `timeout_s` (0: as soon as all is given).
    Raises: Corruption, Unsupported, NotDurable.
    """
    fs = follower.fs
    with closing(follower):
        quiet_since = fs.monotonic()
        while not (stop is not None and stop()):
            events = follower.read()
            if events is None:
                left_s = poll_s
                if timeout_s is not None:
                    left_s = min(poll_s, quiet_since + timeout_s - fs.monotonic())
                    if left_s <= 0:
                        return
                fs.sleep(left_s)
                continue
            for event in events:
                yield event
                if stop is not None and stop():
                    return
                quiet_since = fs.monotonic()


class Follower:
    """Reads the log from a position on, as far as it goes, again and again."""

    def __init__(
        self,
        files: StoreFiles,
        since: int = 0,
        *,
        session_id: "str | None" = None,
        event_types: "Collection[str] | None" = None,
        durable: bool = False,
    ) -> None:
        """`durable`: give an event only after its journal was synced, for callers that store its effects."""
        self.fs = files.fs
        self.position = max(since, 0)  # everything before it was given or is not wanted
        # Gets positions that were passed over.
        self.on_loss: Callable[[Iterable[LostPositions]], None] | None = None
        self._files = files
        self._layout = files.layout
        self._wanted = Selection(session_id=session_id, event_types=event_types)
        self._durable = durable
        self._manifest: Manifest | None = None  # None: where the journals begin must be looked up
        self._sealed = _Sealed(files)
        self._segment: "_Segment | None" = None  # the one that was read halfway: its name, and the rest of it
        self._numbering: Numbering | None = None  # the fold of all events before `_at`
        self._at = 0
        self._ids: dict[str, int] = {}  # of the visible events that are in no segment: id → position
        self._journal: _OpenJournal | None = None

    def close(self) -> None:
        """Give the descriptor back. Reading goes on as if nothing had happened, if it does."""
        self._manifest = None
        if self._segment is not None:
            (_, rest), self._segment = self._segment, None
            rest.close()
        if self._journal is not None:
            journal, self._journal = self._journal, None
            self.fs.close(journal.fd)

    def read(self) -> "Iterable[Event] | None":
        """The next events, in order; empty when only progress was made, None when there are no more now.

        Raises: Corruption, Unsupported, NotDurable.
        """
        if self._manifest is None:
            return self._attach()
        try:
            return self._read_journal()
        except BaseException as error:
            # Nothing of this read was given: the next read begins where this one did.
            number = -1 if self._manifest is None else self._manifest.number
            self._numbering = None
            self.close()
            # Files may be gone because others replaced them; if they did not, the log is damaged.
            if isinstance(error, (Corruption, FileNotFoundError)) and self._newest_manifest() != number:
                return ()
            raise

    # -- beginning, and beginning again ------------------------------------------------------------

    def _attach(self) -> Iterable[Event]:
        """A piece of the segments; after the last of them, the beginning of the journals."""
        with open_view(self._files) as view:
            self._lose(*(lost for lost in view.unsettled if lost.end > self.position))
            if self.position < view.manifest.next_position:
                return self._sealed_piece(view)
            self._begin_journals(view)
            return ()

    def _sealed_piece(self, view: LogView) -> Iterator[Event]:
        batches = []
        rows = size = 0
        for entry in view.manifest.segments:
            if not entry.rows or entry.end <= self.position:
                continue
            rest = self._rest_of(view, entry)
            for batch in rest:
                batches.append(batch)
                rows += batch.num_rows
                size += batch.nbytes
                if rows >= _PIECE_ROWS or size >= _PIECE_BYTES:
                    self.position = batch["position"][-1].as_py() + 1
                    self._segment = entry.name, rest
                    return _events(batches)
        self.position = view.manifest.next_position
        return _events(batches)

    def _rest_of(self, view: LogView, entry: SegmentEntry) -> "Generator[pa.RecordBatch, None, None]":
        """The rest of this segment: of the open file, or of the one that replaced it."""
        if self._segment is not None:
            (name, rest), self._segment = self._segment, None  # lost with an error: then it is opened again
            if name == entry.name:
                return rest
            rest.close()
        wanted = Selection(self.position, None, self._wanted.event_types, self._wanted.session_id)
        return view.segment_batches(entry, wanted, COLUMN_NAMES)

    def _begin_journals(self, view: LogView) -> None:
        base = view.manifest.next_position
        self._sealed.entries = view.manifest.segments
        if self._numbering is None or self._at != base:
            self._numbering = Numbering(self._sealed, view.turn_limit)
            self._at = base
        self._ids.clear()
        self._open(view.journals[0] if view.journals else 0)
        self._manifest = view.manifest

    def _open(self, number: int) -> None:
        """Go on in this journal; 0 is before the first one."""
        if self._journal is not None:
            journal, self._journal = self._journal, None
            self.fs.close(journal.fd)
        if number:
            header = read_header(self._files, number)
            path = self._layout.journal(number)
            if header.base > self._at:
                self._lose(LostPositions(self._at, header.base, number))
                self._at = header.base
            elif not begins_at(header, self._at):
                raise Corruption(
                    path, f"it begins at position {header.base}, but the log goes on at {self._at}"
                )
            self._journal = _OpenJournal(number, path, header.key, self.fs.open(path, os.O_RDONLY))
            if self._durable and header.replaces is not None:
                self.fs.fsync_dir(self._layout.directory(JOURNAL_DIR))

    # -- the journals ------------------------------------------------------------------------------

    def _read_journal(self) -> "Iterable[Event] | None":
        journal = self._journal
        following = self._layout.journal(journal.number + 1 if journal else 1)
        is_last = not self.fs.exists(following)
        if journal is not None:
            try:
                end = self._end(journal, is_last)
            except FileNotFoundError:  # sealed, and so may be all that follows
                self.close()
                return ()
            if end > journal.offset:
                frames = self._frames(journal, end, is_last)
                if frames:
                    return self._events(journal, frames)
        if is_last:
            if journal is None and self._newest_manifest():  # the first journal came and was sealed
                self.close()
                return ()
            return None
        self._open(journal.number + 1 if journal else 1)
        self._rebase()
        return ()

    def _end(self, journal: "_OpenJournal", is_last: bool) -> int:
        """Where the journal ends. Room after what was read is the end only while others may write there."""
        size = self.fs.stat(journal.path).st_size
        if is_last and size == journal.size:  # bytes after a hole were found when the file grew
            journal.end = max(journal.end, end_after(self.fs, journal.fd, journal.path, journal.offset))
        else:
            journal.size, journal.end = size, end_of_open(self.fs, journal.fd, journal.path)
        return journal.end

    def _frames(self, journal: "_OpenJournal", size: int, is_last: bool) -> list[Frame]:
        """The frames after the offset, some of them where there are many."""
        frames: list[Frame] = []
        while not frames and self._advance(journal, min(size - journal.offset, _READ_BYTES), frames):
            pass
        if frames or size == journal.scanned or journal.offset >= size:
            return frames
        while not frames and self._advance(journal, min(size - journal.offset, FRAME_SIZE_MAX), frames):
            pass
        if frames or journal.offset >= size:
            return frames
        # A frame that is being written, a torn tail, or damage with valid frames after it. The damage can
        # be passed over, by the search that a view makes; a frame being written is whole at the next read.
        if is_last and journal.doubtful != journal.offset:
            journal.doubtful = journal.offset
            return []
        journal.scanned = size
        scan = scan_journal(self.fs, journal.path, store_id=self._files.store_id, number=journal.number)
        following = [frame for frame in scan.frames if frame.offset >= journal.offset]
        if following:
            journal.offset = following[-1].offset + following[-1].size
        return [frame for frame in following if frame.base >= self._at]

    def _advance(self, journal: "_OpenJournal", size: int, frames: list[Frame]) -> bool:
        """Read up to `size` bytes and add the valid frames at their beginning; False when there is none."""
        start = journal.offset
        data = self.fs.pread(journal.fd, size, start)
        while journal.offset - start < len(data):
            try:
                frame = decode_frame(data, journal.offset - start, journal.offset, journal.key, journal.path)
            except Corruption:
                break
            journal.offset += frame.size
            if frame.base >= self._at:  # a copy begins with frames that were read before it was made
                frames.append(frame)
        return journal.offset > start

    def _events(self, journal: "_OpenJournal", frames: list[Frame]) -> list[Event]:
        """The visible events of frames, numbered; those of them that are wanted."""
        assert self._numbering is not None
        rows = list(decoded([(journal.path, frame) for frame in frames], _LINES_FOR_ORJSON))
        expected = self._at
        for frame in frames:
            if frame.base > expected:
                self._lose(LostPositions(expected, frame.base, journal.number))
            expected = frame.end
        sealed = self._sealed.seen([str(row["event_id"]) for row in rows])
        first = []
        wanted = []
        for row in rows:
            event_id, position = str(row["event_id"]), row["position"]
            assert isinstance(position, int)
            if event_id in sealed or self._ids.setdefault(event_id, position) != position:
                continue  # an earlier event has this id (I8)
            first.append(row)
            if position >= self.position:
                wanted.append(row)
        numbered(first, self._numbering)
        wanted = [row for row in wanted if self._wanted.admits(row)]
        if wanted and self._durable:
            self._sync(journal)
        self._at = frames[-1].end
        self.position = max(self.position, self._at)
        return wanted

    def _lose(self, *lost: LostPositions) -> None:
        if lost and self.on_loss is not None:
            self.on_loss(lost)

    def _sync(self, journal: "_OpenJournal") -> None:
        """Make what was read durable (I5). Earlier journals were synced when this one was made."""
        try:
            self.fs.fdatasync(journal.fd)
        except OSError as error:
            raise NotDurable(
                f"{journal.path}: the disk failed to sync ({error.strerror}), so its newest events were not "
                "handed on. Check the disk, then start again from the position of the last one."
            ) from error

    def _rebase(self) -> None:
        """Change to a newer manifest where there is one, so that ids of sealed events can be dropped."""
        assert self._manifest is not None
        newest = self._newest_manifest()
        if newest == self._manifest.number:
            return
        manifest = manifests.read_numbered(self._files, newest)
        if self._at < manifest.next_position:
            self.close()
            return
        self._manifest = manifest
        self._sealed.entries = manifest.segments
        self._ids = {i: position for i, position in self._ids.items() if position >= manifest.next_position}

    def _newest_manifest(self) -> int:
        numbers = manifests.numbers(self._files)
        return numbers[-1] if numbers else 0


def _events(batches: "list[pa.RecordBatch]") -> Iterator[Event]:
    return (row for batch in batches for row in rows_of(batch))


@dataclass(slots=True)
class _OpenJournal:
    number: int
    path: str
    key: bytes
    fd: int
    offset: int = HEADER_SIZE  # after the last frame read
    doubtful: int = -1  # the offset, when bytes after it did not verify
    size: int = -1  # of the file, room included, when all after the offset was read
    end: int = 0  # the end as of then, or a later one
    scanned: int = -1  # the end when the file was searched for frames after such bytes


class _Sealed:
    """A `Prefix` over segments that reads each of them once, for any number of questions.

    Of every id the lower 64 bits are kept, sorted. An id that is not among them is new, nearly all are;
    the few others are compared with the ids themselves. Imports pyarrow when there is a segment to read.
    """

    def __init__(self, files: StoreFiles) -> None:
        self.entries: Sequence[SegmentEntry] = ()
        self._files = files
        self._sessions_in: dict[str, set[str | None]] = {}  # segment that was read → its sessions
        self._known: Sequence[SegmentEntry] = ()  # these segments
        self._end = 0  # of the last of them
        self._arrays: list[memoryview] = []

    def seen(self, event_ids: Sequence[str]) -> set[str]:
        if not event_ids or not self.entries:
            return set()
        self._read_new()
        likely = [event_id for event_id in event_ids if self._may_have(event_id)]
        return self._prefix(self.entries).seen(likely) if likely else set()

    def sessions(self, session_ids: Sequence[str]) -> Iterable[PrefixRow]:
        self._read_new()
        entries = [e for e in self.entries if not self._sessions_in[e.name].isdisjoint(session_ids)]
        return self._prefix(entries).sessions(session_ids) if entries else ()

    def _prefix(self, entries: Sequence[SegmentEntry]) -> "SegmentPrefix":
        from eventlog.log.segment_file import SegmentPrefix

        return SegmentPrefix(self._files, entries)

    def _may_have(self, event_id: str) -> bool:
        key = int(event_id[16:], 16)
        for array in self._arrays:
            index = bisect_left(array, key)
            if index < len(array) and array[index] == key:
                return True
        return False

    def _read_new(self) -> None:
        fresh = [entry for entry in self.entries if entry.name not in self._sessions_in]
        if not fresh:
            return
        sessions_in = {e.name: self._sessions_in.get(e.name, set()) for e in self.entries}
        for entry in fresh:
            # A merged segment is known by its parts, but for the events after them.
            for part in self._known:
                if entry.base <= part.base < entry.end:
                    sessions_in[entry.name] = sessions_in[entry.name] | self._sessions_in[part.name]
        self._read([entry for entry in fresh if entry.end > self._end], sessions_in)
        self._sessions_in = sessions_in
        self._known = self.entries
        self._end = self.entries[-1].end

    def _read(self, fresh: "list[SegmentEntry]", sessions_in: "dict[str, set[str | None]]") -> None:
        """Learn the ids and sessions of segments, from the end of those known before on."""
        if not fresh:
            return
        import pyarrow as pa
        import pyarrow.compute as pc

        from eventlog.log.segment_file import SegmentFile

        keys: list[pa.Array] = []
        for entry in fresh:
            sessions = sessions_in[entry.name]
            with SegmentFile(self._files, entry) as file:
                for group in range(file.row_groups):
                    events = file.read(("event_id", "session_id", "position"), group)
                    if entry.base < self._end:
                        events = events.filter(pc.greater_equal(events["position"], self._end))
                    sessions.update(events["session_id"].unique().to_pylist())
                    keys += [_keys(chunk, file.path) for chunk in events["event_id"].chunks]
        if len(self._arrays) >= _ARRAYS_MAX:
            keys += [
                pa.Array.from_buffers(pa.uint64(), len(a), [None, pa.py_buffer(a)]) for a in self._arrays
            ]
            self._arrays = []
        self._arrays.append(_sorted(keys))


def _keys(ids: "pa.Array", path: str) -> "pa.Array":
    """The lower halves of event ids as integers. Raises: Corruption."""
    from array import array
    from sys import byteorder

    import pyarrow as pa
    import pyarrow.compute as pc

    halves = array("Q")
    text = "".join(pc.utf8_slice_codeunits(ids, 16, 32).to_pylist())
    try:
        halves.frombytes(bytes.fromhex(text))
    except ValueError as error:
        raise Corruption(path, f"an event id is not 32 hex digits ({error})") from error
    if len(halves) != len(ids):
        raise Corruption(path, "an event id is not 32 hex digits")
    if byteorder == "little":
        halves.byteswap()
    return pa.Array.from_buffers(pa.uint64(), len(halves), [None, pa.py_buffer(halves)])


def _sorted(keys: "list[pa.Array]") -> memoryview:
    import pyarrow as pa
    import pyarrow.compute as pc

    every = pa.concat_arrays([pa.array([], pa.uint64()), *keys])
    ordered = every.take(pc.array_sort_indices(every))
    return memoryview(ordered.buffers()[1]).cast("Q")[: len(ordered)]
