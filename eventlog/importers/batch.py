"""What an import writes together: contents and trees into a pack, then the events that name them (I24).

Contents wait in memory until the batch is written, so that all are scanned for secrets at once, and versions
of one path are compressed side by side. The gc lock is held from before the first read of the store until the
events are durable. One thread; other processes may write to the store meanwhile.
"""

from typing import TYPE_CHECKING

from eventlog.base.errors import InvalidEvent
from eventlog.base.types import Event
from eventlog.blobs.ids import blob_id, to_text
from eventlog.hooks import texts
from eventlog.log.withheld import withheld_in
from eventlog.secrets import admission, bulk_prefilter
from eventlog.secrets.redaction import IGNORED

if TYPE_CHECKING:
    from eventlog.blobs.writer import BlobWriter
    from eventlog.store import Store

_PAYLOAD_SUSPECT_BYTES = 4 << 20  # from here on a payload may be too large without large texts


class ImportBatch:
    """See the module's docstring. To be closed; anything not committed is dropped then."""

    def __init__(self, store: "Store", *, bytes_max: int, events_max: int) -> None:
        """A batch is full at `bytes_max` or `events_max`. At twice as many bytes it writes a pack by
        itself."""
        self._store = store
        self._bytes_max = bytes_max
        self._events_max = events_max
        self._writer: BlobWriter | None = None
        self._contents: list[tuple[bytes, int, bytes]] = []  # path, order, content
        self._held: set[bytes] = set()
        self._events: list[Event] = []
        self._large: dict[int, int] = {}  # number of an event → size of the line it came from
        self._bytes = 0
        self._waiting = 0  # of those that are in no pack yet
        self._withheld: set[str] | None = None  # blobs that the log lists as withheld; read when needed
        self.events_appended = 0
        self.blobs_stored = 0
        self.secrets_found = 0  # contents that this batch was the first to record as holding one

    @property
    def is_full(self) -> bool:
        return self._bytes >= self._bytes_max or len(self._events) >= self._events_max

    def put(self, data: bytes, path: bytes = b"") -> bytes:
        """Take a content; its id. Contents with one `path` are alike and compressed together."""
        id = blob_id(data)
        if id not in self._held:
            self._held.add(id)
            self._contents.append((path, len(self._contents), data))
            self._bytes += len(data)
            self._waiting += len(data)
            if self._waiting >= 2 * self._bytes_max:
                self._pack(more=True)  # in the middle of what belongs together
        return id

    def put_tree(self, encoding: bytes) -> bytes:
        return self._open().put_encoded_tree(encoding)

    def add(self, event: Event, size: int = 0) -> None:
        """Take an event; `size` is that of the line it came from. Texts in it become contents
        (docs/payload-texts.md)."""
        if size > texts.TEXT_SIZE_MAX:
            self._large[len(self._events)] = size
        self._events.append(event)
        self._bytes += size

    def commit(self) -> None:
        """Publish what was put, append the events, give the lock back. Raises: as `Store.append`."""
        self._move_texts()
        if self._contents or self._writer is not None:
            self._pack()
        for start in range(0, len(self._events), self._events_max):
            self._count_withheld()
            self.events_appended += len(self._append(self._events[start : start + self._events_max]))
        self.close()

    def _append(self, events: list[Event]) -> range:
        """Append what others wrote: values that no event may have are kept in a form that fits
        (docs/appending.md)."""
        try:
            return self._store.append_rows(events)
        except InvalidEvent:
            return self._store.append_rows([admission.fitted(event) for event in events])

    def close(self) -> None:
        """Drop what was not committed."""
        self._contents, self._events = [], []
        self._bytes = self._waiting = 0
        self._held.clear()
        self._large.clear()
        if self._writer is not None:
            self._writer.close()
            self._writer = None

    def _count_withheld(self) -> None:
        """Count the events about withheld contents that the store adds before or after the next events."""
        withheld = {to_text(id): kinds for id, kinds in self._store.blobs.withheld.items()}
        if not withheld:
            return
        if self._withheld is None:
            with self._store.view() as view:
                self._withheld = set(withheld_in(view))
        new = withheld.keys() - self._withheld
        self._withheld |= new
        self.events_appended += len(new)
        self.secrets_found += sum(withheld[blob] != (IGNORED,) for blob in new)

    def _move_texts(self) -> None:
        """Move large texts of events, and those of files, into contents, after their admission (P5)."""
        for i, event in enumerate(self._events):
            if i not in self._large and texts.holds_file_text(event, self._has):
                self._large[i] = 0
        events = [self._events[i] for i in self._large]
        admitted = admission.admit_all(self._store.fs, events, self._store.redactor)
        for (i, size), event in zip(self._large.items(), admitted, strict=True):
            suspect = size > _PAYLOAD_SUSPECT_BYTES
            self._events[i] = texts.move(event, self.put, suspect=suspect, has=self._has)
        self._large.clear()

    def _has(self, id: bytes) -> bool:
        """Whether a content is stored, or will be with this batch."""
        return id in self._held or self._open().holds(id)

    def _pack(self, *, more: bool = False) -> None:
        """Write the contents into a pack, all versions of a path beside each other; `more` will follow."""
        writer = self._open()
        contents = [data for _, _, data in sorted(self._contents)]
        for data, suspect in zip(contents, self._suspects(contents), strict=True):
            size_before = writer.pending_bytes()
            writer.put(data, scan=suspect)
            self.blobs_stored += writer.pending_bytes() > size_before
        writer.flush(more=more)
        self._contents = []
        self._waiting = 0

    def _suspects(self, contents: list[bytes]) -> list[bool]:
        redactor = self._store.redactor
        if redactor.has_rules_only and bulk_prefilter.pays(contents):
            return bulk_prefilter.suspects(contents)
        return [redactor.enabled] * len(contents)

    def _open(self) -> "BlobWriter":
        if self._writer is None:
            self._writer = self._store.blobs.writer(codec="zstd")
        return self._writer
