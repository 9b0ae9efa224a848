"""Holding the contents that an append names, from their check until the events are durable (I24).

A content that was erased, or that git holds for us, may be named: readers know of both. A content that was
checked once is not checked again as long as no pack has gone. On the hook path; one thread at a time.
"""

from itertools import chain

from eventlog.base.errors import InvalidEvent
from eventlog.base.fs import translate_os_errors
from eventlog.base.layout import PACK_DIR
from eventlog.base.locks import GC, KeptLock, may_take
from eventlog.blobs.ids import TEXT_PREFIX, to_text
from eventlog.blobs.pack import BLOB, TREE
from eventlog.blobs.store import BlobStore
from eventlog.secrets.erased_rules import ERASED

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from eventlog.blobs.pack import Location

# By the column of an event, the hashes that it names: ours alone, in a form that admission has checked.
Named = dict[str, set[str]]

_KIND_OF = {"before_hash": BLOB, "after_hash": BLOB, "tree_hash": TREE}
_IS = {BLOB: "a file's content, not a tree", TREE: "a tree, not a file's content"}
_TIMEOUT_S = 10.0
_KNOWN_MAX = 100_000
# A directory's times come from a clock that ticks every 1 to 10 ms: a change within a tick shows in none.
_TICK_NS = 50_000_000


class Holder:
    """Checks the contents that appends name, and keeps collections away meanwhile."""

    def __init__(self, blobs: BlobStore) -> None:
        fs, layout = blobs.files.fs, blobs.files.layout
        self._fs = fs
        self._packs_path = layout.directory(PACK_DIR)
        self._taking = translate_os_errors(layout.lock(GC), "take this lock")
        self._reading = translate_os_errors(self._packs_path, "read the packs")
        self._blobs = blobs
        self._lock = KeptLock(fs, layout, GC, exclusive=False)
        self._known: dict[int, set[str]] = {BLOB: set(), TREE: set()}  # found as such in these packs
        self._packs: frozenset[str] = frozenset()
        self._seen: tuple[int, ...] | None = None  # the directory of packs when it was listed last

    def close(self) -> None:
        """Give back the descriptor of the lock."""
        self._lock.close()

    def hold(self, named: Named, groups: "list[list[bytes]]") -> "Callable[[], None]":
        """Make sure that the contents named in journal lines are there; nothing collects them until the
        caller calls the returned function, when the lines are durable. Raises: InvalidEvent, LockTimeout.
        """
        if not may_take(GC):  # a caller that has the lock has stored them under it
            self._condemned_among(named, groups)
            return _nothing
        with self._taking:
            self._lock.acquire(_TIMEOUT_S)
        try:
            self._list()
            condemned = self._condemned_among(named, groups)
        except BaseException:
            self._lock.release()
            raise
        if not condemned:
            return self._lock.release
        self._lock.release()
        writer = self._blobs.writer()
        try:  # to store them again, before their last copy goes
            for id, (_, kind, *_) in self._condemned_among(named, groups).items():
                data = self._blobs.get(id)
                _ = writer.put_encoded_tree(data) if kind == TREE else writer.put(data)
            writer.flush()
        except BaseException:
            writer.close()
            raise
        return writer.close

    def _list(self) -> None:
        """List the packs, under the lock, unless nothing came or went since: they stay until it goes."""
        with self._reading:
            stat = self._fs.stat(self._packs_path)
        state = (stat.st_dev, stat.st_ino, stat.st_mtime_ns, stat.st_ctime_ns)
        if state != self._seen:
            self._lock.renew(_TIMEOUT_S)
            changed_ns, now_ns = stat.st_ctime_ns, self._fs.time_ns()
            self._blobs.refresh()
            self._seen = state if changed_ns and changed_ns < now_ns - _TICK_NS else None  # 0: no time

    def _condemned_among(self, named: Named, groups: "list[list[bytes]]") -> "dict[bytes, Location]":
        """Those of the contents that only packs which wait for their deletion hold. Raises: InvalidEvent."""
        blobs, checked = self._blobs, self._known
        if not self._packs <= blobs.pack_names:
            checked[BLOB].clear()
            checked[TREE].clear()
        columns: dict[bytes, list[str]] = {}
        for column, texts in named.items():
            kind = _KIND_OF.get(column)
            new = texts - checked[BLOB] - checked[TREE] if kind is None else texts - checked[kind]
            for text in new:
                columns.setdefault(bytes.fromhex(text[len(TEXT_PREFIX) :]), []).append(column)
        if not columns:
            return {}
        locations = blobs.locations(columns)
        missing = columns.keys() - locations.keys()
        condemned = blobs.condemned_locations(missing) if missing else {}
        for id, (_, kind, *_) in chain(locations.items(), condemned.items()):
            for column in columns[id]:
                if _KIND_OF.get(column, kind) != kind:
                    raise InvalidEvent(_refusal(groups, column, id, f"which is {_IS[kind]}"))
        for id in missing:
            if id not in condemned and not self._is_known_of(id):
                raise InvalidEvent(_refusal(groups, columns[id][0], id, "which is not in this store"))
        if len(checked[BLOB]) + len(checked[TREE]) < _KNOWN_MAX:
            for id, (_, kind, *_) in locations.items():
                checked[kind].add(to_text(id))
            self._packs = blobs.pack_names
        return condemned

    def _is_known_of(self, id: bytes) -> bool:
        blobs = self._blobs
        if ERASED in blobs.withheld.get(id, ()) or blobs.erased(id) is not None:
            return True
        return blobs.elsewhere(id) is not None


def _nothing() -> None:
    """Release no lock."""


def _refusal(groups: "list[list[bytes]]", column: str, id: bytes, why: str) -> str:
    text = to_text(id)
    named = (n for n, line in enumerate(chain.from_iterable(groups), 1) if text.encode() in line)
    return (
        f"event {next(named)} of the append: column {column} names {text}, {why}. Store it first "
        "(`Turn.file` and `Turn.snapshot` do), or leave the column out. Nothing was written."
    )
