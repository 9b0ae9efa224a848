"""What became of contents that a hook deferred: one layer under everything that reads trees (P1).

In a tree such a file is an entry `s` that names a list (docs/certainty.md §3). Here it becomes the entry of
its stored content, or of the content that git holds, or an entry `s` with the reason why neither is to be
had. The place in the list is the path, so the same directory under two names may hold two things: entries
are resolved with their paths.

Contents of git have no id of ours until they are read. Their entries carry one that is made of git's,
which `BlobStore.get` answers; `hashed` gives the entry with the true one. Belongs to one thread.
"""

import os
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

# What is read of the events that say what became of deferred contents.
COLUMNS = ("before_hash", "tree_hash", "payload")
EVENT_TYPE = "content"

OPEN = "its content was deferred, and has not been stored yet"
ABSENT = "its content was not in the clone that was imported; fetch it, and import again"
_LOST = "its content was deferred, and could not be stored: "

_GIT_CONTEXT = "locus 2026 git object v1"

# All events of the type `content`, with COLUMNS.
Told = Callable[[], Iterable[Mapping[str, Any]]]


class _Elsewhere:
    """What is in no pack of a store: contents that git holds, and reasons made here."""

    def __init__(self, directory: str) -> None:
        self.objects: dict[bytes, bytes] = {}  # git's id, by the id that stands for it
        self.texts: dict[bytes, bytes] = {}
        self.hashed: dict[bytes, bytes] = {}  # the id that stands for an object, by that of what was read
        self.secrets: dict[bytes, tuple[str, ...]] = {}  # in contents that were looked through
        self._git = GitContents(directory)

    def get(self, id: bytes) -> bytes | None:
        """Raises: NotFound when git should hold it, and does not."""
        if id in self.hashed:
            try:
                return self._git.read(self.objects[self.hashed[id]])
            except NotFound:
                return None  # a pack may have it by now
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
    """What is known of contents beside a store's packs; made, and told to the store, at the first call."""
    found = _ELSEWHERE.get(blobs)
    if found is None:
        found = _Elsewhere(os.path.dirname(blobs.layout.root))
        _ELSEWHERE[blobs] = found
        blobs.elsewhere = found.get
    return found


def hashed(blobs: "BlobStore", entry: TreeEntry) -> TreeEntry:
    """The entry with the id of its content, which is read for that where git holds it.

    Raises: NotFound when git does not hold it any more.
    """
    elsewhere = _ELSEWHERE.get(blobs)
    if elsewhere is None or entry.id not in elsewhere.objects:
        return entry
    return TreeEntry(entry.name, entry.kind, blob_id(blobs.get(entry.id)), entry.size)


def secrets_in(blobs: "BlobStore", id: bytes) -> tuple[str, ...]:
    """The kinds of secrets in a content that git holds, which nobody looked through when it was recorded.

    Of contents in packs the log says it. Raises: NotFound when git does not hold it any more.
    """
    elsewhere = _ELSEWHERE.get(blobs)
    if elsewhere is None or not elsewhere.is_of_git(id):
        return ()
    if id not in elsewhere.secrets:
        elsewhere.secrets[id] = blobs.kinds_in(blobs.get(id))
    return elsewhere.secrets[id]


def withheld_of_git(blobs: "BlobStore") -> frozenset[str]:
    """The hashes of those contents of git, of all that were read so far, that hold a secret."""
    elsewhere = _ELSEWHERE.get(blobs)
    read = () if elsewhere is None else tuple(elsewhere.hashed)
    return frozenset(to_text(id) for id in read if _holds_secret(blobs, id))


def _holds_secret(blobs: "BlobStore", id: bytes) -> bool:
    try:
        return bool(secrets_in(blobs, id))
    except NotFound:
        return False  # nobody can show it either


def told_by(ask: "Ask") -> Told:
    """The events of a store that is asked in SQL."""

    def told() -> Iterable[Mapping[str, Any]]:
        from eventlog.base import jsontext

        columns = ", ".join(COLUMNS)
        found = ask(f"select {columns} from events where event_type = '{EVENT_TYPE}' order by position", ())
        for before, tree, payload in found.rows:
            yield {"before_hash": before, "tree_hash": tree, "payload": jsontext.object_of(payload)}

    return told


def is_of_git(blobs: "BlobStore", id: bytes) -> bool:
    """Whether a content is read from git, and stands in no pack as far as is known."""
    elsewhere = _ELSEWHERE.get(blobs)
    return elsewhere is not None and elsewhere.is_of_git(id)


def told_in(events: Callable[..., Iterable[Mapping[str, Any]]]) -> Told:
    """Those of a store, by its `events`."""
    return lambda: events(event_types=(EVENT_TYPE,), columns=COLUMNS)


def nothing_told() -> Iterable[Mapping[str, Any]]:
    return ()


class DeferredContents:
    """Resolves the entries of deferred files, as of one moment of the log."""

    def __init__(self, blobs: "BlobStore", told: Told = nothing_told) -> None:
        self._blobs = blobs
        self._told = told
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

    def doubts(self, lists: Iterable[bytes], tree: EditedTree) -> Iterable[tuple[str, str]]:
        """The paths of these lists that a tree holds as deferred, and whose content is not to be had."""
        of_git: dict[bytes, list[bytes]] = {}
        for list_id in lists:
            for path in self._list(list_id).paths():
                entry = tree.get(path)
                if entry is None or entry.kind != SKIPPED or self._named_by(entry.id) != list_id:
                    continue
                found = self._list(list_id).find(path)
                if isinstance(found, str):
                    yield path_text(path), found
                elif isinstance(found, DeferredFile) and found.object is not None:
                    of_git.setdefault(found.object, []).append(path)
        for object, why in elsewhere_of(self._blobs).absent(of_git).items() if of_git else ():
            yield from ((path_text(path), why) for path in of_git[object])

    def stored(self, list_id: bytes, path: bytes) -> str | None:
        """The hash of the content that a list means at `path`, once it is stored."""
        found = self._list(list_id).find(path)
        return to_text(found.id) if isinstance(found, TreeEntry) else None

    def open_files(self, list_id: bytes) -> Iterable[DeferredFile]:
        """The files of a list of which no event says what became, and which git does not hold."""
        of_list = self._list(list_id)
        return [row for row in of_list.rows() if of_list.find(row.path) in (OPEN, ABSENT)]

    def _resolved(self, entry: TreeEntry, path: bytes, list_id: bytes) -> TreeEntry:
        found = self._list(list_id).find(path)
        elsewhere = elsewhere_of(self._blobs)
        if isinstance(found, str):
            return TreeEntry(entry.name, SKIPPED, elsewhere.add_text(found), entry.size)
        if isinstance(found, DeferredFile):
            assert found.object is not None
            return TreeEntry(entry.name, found.kind, elsewhere.add_object(found.object), found.size)
        return TreeEntry(entry.name, found.kind, found.id, found.size)

    def _named_by(self, sentence_id: bytes) -> bytes | None:
        if sentence_id not in self._list_of:
            try:
                self._list_of[sentence_id] = list_of(self._blobs.get(sentence_id))
            except (NotFound, Corruption):
                self._list_of[sentence_id] = None  # whoever shows the entry says so
        return self._list_of[sentence_id]

    def _list(self, list_id: bytes) -> "_List":
        found = self._lists.get(list_id)
        if found is None:
            found = self._lists[list_id] = _List(self._blobs, list_id, self._events_of(list_id))
        return found

    def _events_of(self, list_id: bytes) -> list[Mapping[str, Any]]:
        if self._stored is None:
            self._stored = {}
            for event in self._told():
                for id in _ids([event.get("before_hash")]):
                    self._stored.setdefault(id, []).append(event)
        return self._stored.get(list_id, [])


class _List:
    """One list, and what the log says of its files."""

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
                    continue  # what it stored is not there; the files stay open
            self._lost |= dict(_lost_of(event))

    def paths(self) -> Iterable[bytes]:
        return self._rows

    def rows(self) -> Iterable[DeferredFile]:
        return self._rows.values()

    def find(self, path: bytes) -> "TreeEntry | DeferredFile | str":
        """The entry of the stored content, the row of one that git holds, or why there is neither."""
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
    """The lists that entries of a snapshot's tree refer to, as its event says."""
    payload = event.get("payload")
    capture = payload.get("capture") if isinstance(payload, Mapping) else None
    lists = capture.get("lists") if isinstance(capture, Mapping) else None
    return list(_ids(lists)) if isinstance(lists, list) else []
