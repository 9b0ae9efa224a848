"""What became of contents that a hook deferred: one layer below everything that reads trees (P1).

In a tree such a file is an entry `s` that names a list (docs/certainty.md §3). Here it becomes the entry of
its stored content, or of the content that git holds, or an entry `s` with the reason why neither can be
read. The list has a row for each path, so one directory under two names may hold different files: entries
are resolved with their paths.

Contents of git have no id of ours until they are read. Their entries carry one that is made of git's,
which `BlobStore.get` answers; `hashed` gives the entry with the true one. Belongs to one thread.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from blake3 import blake3

from eventlog.base.errors import Corruption, EventLogError, InvalidEvent, NotFound
from eventlog.base.paths import path_bytes, path_text
from eventlog.blobs.deferred import DeferredFile, decode_list, list_of
from eventlog.blobs.ids import blob_id, from_text, to_text
from eventlog.blobs.tree import FILES, SIZE_UNKNOWN, SKIPPED, SYMLINK, TreeEntry
from eventlog.replay.edited_tree import EditedTree
from eventlog.replay.git_contents import GitContents

if TYPE_CHECKING:
    from eventlog.blobs.store import BlobStore
    from eventlog.query.functions import Ask

# The columns that are read of events about deferred contents.
COLUMNS = ("before_hash", "tree_hash", "payload")
EVENT_TYPE = "content"

OPEN = "its content was deferred, and has not been stored yet"
ABSENT = "its content was not in the clone that was imported; fetch it, and import again"
_LOST = "its content was deferred, and could not be stored: "

_GIT_CONTEXT = "locus 2026 git object v1"

# `Store.events` or `Store.rows`, or the same by SQL: asked for the events of this type with COLUMNS.
Events = Callable[..., Iterable[Mapping[str, Any]]]


class _Elsewhere:
    """Contents in no pack of a store: those that git holds, and reasons made here."""

    def __init__(self, directory: str) -> None:
        self.objects: dict[bytes, bytes] = {}  # git's id, by our id that stands for it
        self.texts: dict[bytes, bytes] = {}
        self.hashed: dict[bytes, bytes] = {}  # the id that stands for an object, by the id of its content
        self.secrets: dict[bytes, tuple[str, ...]] = {}  # in contents that were searched for them
        self._git = GitContents(directory)

    def get(self, id: bytes) -> bytes | None:
        """Raises: NotFound when git should hold it and does not."""
        if id in self.hashed:
            try:
                return self._git.read(self.objects[self.hashed[id]])
            except NotFound:
                return None  # a pack may hold it by now
        if id not in self.objects:
            return self.texts.get(id)
        data = self._git.read(self.objects[id])
        self.hashed[blob_id(data)] = id
        return data

    def add_object(self, object: bytes) -> bytes:
        id = blake3(object, derive_key_context=_GIT_CONTEXT).digest()
        self.objects[id] = object
        return id

    def add_text(self, text: str) -> bytes:
        data = text.encode()
        id = blob_id(data)
        self.texts[id] = data
        return id

    def absent(self, objects: Iterable[bytes]) -> dict[bytes, str]:
        return self._git.absent(objects)

    def is_of_git(self, id: bytes) -> bool:
        return self.hashed.get(id, id) in self.objects


_ELSEWHERE: "WeakKeyDictionary[BlobStore, _Elsewhere]" = WeakKeyDictionary()


def elsewhere_of(blobs: "BlobStore") -> _Elsewhere:
    """The contents beside a store's packs; made, and attached to the store, at the first call."""
    elsewhere = _ELSEWHERE.get(blobs)
    if elsewhere is None:
        elsewhere = _Elsewhere(blobs.repository)
        _ELSEWHERE[blobs] = elsewhere
        blobs.elsewhere = elsewhere.get
    return elsewhere


def hashed(blobs: "BlobStore", entry: TreeEntry) -> TreeEntry:
    """The entry with the id of its content; a content that git holds is read for that.

    Raises: NotFound when git does not hold it any more.
    """
    elsewhere = _ELSEWHERE.get(blobs)
    if elsewhere is None or entry.id not in elsewhere.objects:
        return entry
    return TreeEntry(entry.name, entry.kind, blob_id(blobs.get(entry.id)), entry.size)


def secrets_in(blobs: "BlobStore", id: bytes) -> tuple[str, ...]:
    """The kinds of secrets in a content that git holds, which was not searched when it was recorded.

    For contents in packs the log states them. Raises: NotFound when git no longer holds it.
    """
    elsewhere = _ELSEWHERE.get(blobs)
    if elsewhere is None or not elsewhere.is_of_git(id):
        return ()
    if id not in elsewhere.secrets:
        elsewhere.secrets[id] = blobs.kinds_in(blobs.get(id))
    return elsewhere.secrets[id]


def withheld_of_git(blobs: "BlobStore") -> frozenset[str]:
    """The hashes of the contents that git holds, were read so far, and hold a secret."""
    elsewhere = _ELSEWHERE.get(blobs)
    read = () if elsewhere is None else tuple(elsewhere.hashed)
    return frozenset(to_text(id) for id in read if _holds_secret(blobs, id))


def _holds_secret(blobs: "BlobStore", id: bytes) -> bool:
    try:
        return bool(secrets_in(blobs, id))
    except NotFound:
        return False  # it cannot be shown either


def content_events_by_sql(ask: "Ask") -> Events:
    """The `content` events of a store, read with SQL."""

    def events(**_: object) -> Iterable[Mapping[str, Any]]:
        from eventlog.base import jsontext

        columns = ", ".join(COLUMNS)
        result = ask(f"select {columns} from events where event_type = '{EVENT_TYPE}' order by position", ())
        for before, tree, payload in result.rows:
            yield {"before_hash": before, "tree_hash": tree, "payload": jsontext.object_of(payload)}

    return events


def is_of_git(blobs: "BlobStore", id: bytes) -> bool:
    """Whether a content is read from git, and is in no known pack."""
    elsewhere = _ELSEWHERE.get(blobs)
    return elsewhere is not None and elsewhere.is_of_git(id)


class DeferredContents:
    """Resolves the entries of deferred files, at one moment of the log."""

    def __init__(self, blobs: "BlobStore", events: Events | None = None) -> None:
        """Args: events: those of the store; without them every content is open that git does not hold."""
        self._blobs = blobs
        self._events = events
        self._lists: dict[bytes, _List] = {}
        self._list_of: dict[bytes, bytes | None] = {}  # by the id of an entry's sentence
        self._stored: dict[bytes, list[Mapping[str, Any]]] | None = None

    def entries(self, entries: Iterable[TreeEntry], folder: bytes) -> tuple[TreeEntry, ...]:
        """The entries of the directory at `folder` (b"" is the root)."""
        prefix = folder + b"/" if folder else b""
        return tuple(
            self.entry(entry, prefix + entry[0]) if entry[1] == SKIPPED else entry for entry in entries
        )

    def entry(self, entry: TreeEntry, path: bytes) -> TreeEntry:
        """The entry at `path` of a tree, resolved if it was deferred."""
        list_id = self._named_by(entry.id) if entry.kind == SKIPPED else None
        return entry if list_id is None else self._resolved(entry, path, list_id)

    def is_deferred(self, entry: TreeEntry) -> bool:
        """Whether an entry of a tree names a list, so that its content may become known later."""
        return entry.kind == SKIPPED and self._named_by(entry.id) is not None

    def doubts(self, lists: Iterable[bytes], tree: EditedTree) -> Iterable[tuple[str, str]]:
        """The paths of these lists that a tree holds as deferred, and whose content cannot be read."""
        of_git: dict[bytes, list[bytes]] = {}
        for list_id in lists:
            for path in self._list(list_id).paths():
                entry = tree.get(path)
                if entry is None or entry.kind != SKIPPED or self._named_by(entry.id) != list_id:
                    continue
                content = self._list(list_id).find(path)
                if isinstance(content, str):
                    yield path_text(path), content
                elif isinstance(content, DeferredFile) and content.object is not None:
                    of_git.setdefault(content.object, []).append(path)
        for object, why in elsewhere_of(self._blobs).absent(of_git).items() if of_git else ():
            yield from ((path_text(path), why) for path in of_git[object])

    def stored(self, list_id: bytes, path: bytes) -> str | None:
        """The hash of the content of a list's `path`, once it is stored."""
        content = self._list(list_id).find(path)
        return to_text(content.id) if isinstance(content, TreeEntry) else None

    def open_files(self, list_id: bytes) -> Iterable[DeferredFile]:
        """The files of a list that no event resolves, and that git does not hold."""
        of_list = self._list(list_id)
        return [row for row in of_list.rows() if of_list.find(row.path) in (OPEN, ABSENT)]

    def _resolved(self, entry: TreeEntry, path: bytes, list_id: bytes) -> TreeEntry:
        content = self._list(list_id).find(path)
        elsewhere = elsewhere_of(self._blobs)
        if isinstance(content, str):
            return TreeEntry(entry.name, SKIPPED, elsewhere.add_text(content), entry.size)
        if isinstance(content, DeferredFile):
            assert content.object is not None
            return TreeEntry(entry.name, content.kind, elsewhere.add_object(content.object), content.size)
        return TreeEntry(entry.name, content.kind, content.id, content.size)

    def _named_by(self, sentence_id: bytes) -> bytes | None:
        if sentence_id not in self._list_of:
            try:
                self._list_of[sentence_id] = list_of(self._blobs.get(sentence_id))
            except (NotFound, Corruption):
                self._list_of[sentence_id] = None  # the code that shows the entry reports it
        return self._list_of[sentence_id]

    def _list(self, list_id: bytes) -> "_List":
        deferred_list = self._lists.get(list_id)
        if deferred_list is None:
            deferred_list = self._lists[list_id] = _List(self._blobs, list_id, self._events_of(list_id))
        return deferred_list

    def _events_of(self, list_id: bytes) -> list[Mapping[str, Any]]:
        if self._stored is None:
            self._stored = {}
            for event in self._events(event_types=(EVENT_TYPE,), columns=COLUMNS) if self._events else ():
                for id in _ids([event.get("before_hash")]):
                    self._stored.setdefault(id, []).append(event)
        return self._stored.get(list_id, [])


class _List:
    """One list, and the events about its files."""

    def __init__(self, blobs: "BlobStore", list_id: bytes, events: Iterable[Mapping[str, Any]]) -> None:
        self._rows: dict[bytes, DeferredFile] = {}
        self._problem: str | None = None
        try:
            data = blobs.get(list_id)
            self._rows = {row.path: row for row in decode_list(data, f"the list {to_text(list_id)}")}
        except EventLogError as error:
            self._problem = f"its content was deferred, and the list of it cannot be read: {error}"
        self._trees: list[EditedTree] = []
        self._lost: dict[bytes, str] = {}
        for event in events:
            for root in _ids([event.get("tree_hash")]):
                try:
                    self._trees.append(EditedTree(blobs.get_tree, root))
                except (NotFound, Corruption):
                    continue  # its tree is absent; the files stay open
            self._lost |= dict(_lost_of(event))

    def paths(self) -> Iterable[bytes]:
        return self._rows

    def rows(self) -> Iterable[DeferredFile]:
        return self._rows.values()

    def find(self, path: bytes) -> "TreeEntry | DeferredFile | str":
        """The entry of the stored content, the row of a content that git holds, or why there is neither."""
        for tree in self._trees:
            try:
                entry = tree.get(path)
            except (NotFound, Corruption):
                continue
            if entry is not None and (entry.kind in FILES or entry.kind == SYMLINK):
                return entry
        if path in self._lost:
            return _LOST + self._lost[path]
        row = self._rows.get(path)
        if row is None:
            return self._problem or "its content was deferred, and the list of it does not name it"
        if row.object is not None and row.size == SIZE_UNKNOWN:
            return ABSENT
        return OPEN if row.object is None else row


def _lost_of(event: Mapping[str, Any]) -> Iterable[tuple[bytes, str]]:
    payload = event.get("payload")
    lost = payload.get("lost") if isinstance(payload, Mapping) else None
    for item in lost if isinstance(lost, list) else []:
        if isinstance(item, list) and len(item) == 2:
            try:
                yield path_bytes(str(item[0])), str(item[1])
            except ValueError:
                continue


def _ids(texts: Iterable[object]) -> Iterable[bytes]:
    for text in texts:
        try:
            yield from_text(str(text))
        except InvalidEvent:
            continue


def lists_of(event: Mapping[str, Any]) -> list[bytes]:
    """The lists that entries of a snapshot's tree refer to, according to its event."""
    payload = event.get("payload")
    capture = payload.get("capture") if isinstance(payload, Mapping) else None
    lists = capture.get("lists") if isinstance(capture, Mapping) else None
    return list(_ids(lists)) if isinstance(lists, list) else []
