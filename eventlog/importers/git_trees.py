"""The trees of a git history, one commit after the other, and the contents that they hold.

`HistoryTree` holds the tree at one commit of a line. It goes on from the commit before, from a snapshot in
the log, or from git. Contents and trees go into the batch that is at hand. What a clone lacks is listed, so
that a later import can add it (`git_missing.py`). A path in our tree is that of git, unless no tree may hold
one of its names. One thread.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import lru_cache
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

from eventlog.base.errors import EventLogError
from eventlog.base.paths import path_text
from eventlog.blobs.deferred import encode_list, sentence_of
from eventlog.blobs.ids import blob_id, from_text, to_text
from eventlog.blobs.tree import (
    EXECUTABLE,
    FILE,
    FILES,
    REFUSED,
    SIZE_UNKNOWN,
    SKIPPED,
    SUBMODULE,
    SYMLINK,
    escaped,
    has_escape,
    is_escape,
    is_store_name,
    legal_name,
    makes_store,
)
from eventlog.importers import git_missing
from eventlog.importers.git_formats import MODE_SUBMODULE, MODE_SYMLINK, Commit, GitChange
from eventlog.importers.git_objects import GitRepository
from eventlog.importers.git_turns import CommitStep, FileChange, TreeFacts
from eventlog.replay.edited_tree import EditedTree, no_trees

if TYPE_CHECKING:
    from eventlog.importers.batch import ImportBatch
    from eventlog.store import Store

# Changes handled together. Small parts let git work ahead.
PART_CHANGES = 500

_BLOB_BYTES_MAX = 2**32 - 1  # what a pack can hold (docs/design.md §11.2)
_CONTENTS_MAX = 500_000  # about 100 MB; a forgotten one is only read again

_KIND_OF_MODE = {MODE_SYMLINK: SYMLINK, MODE_SUBMODULE: SUBMODULE}


class ChangedFile(NamedTuple):
    """A change, with our id and the size of the content after it."""

    change: GitChange
    id: bytes | None
    size: int | None  # None: the content is not in this clone


class HistoryTree:
    """The tree at one commit, whose `facts` say which; `missing` are paths that could not be captured."""

    def __init__(self, store: "Store", repository: GitRepository, window: "ImportBatch") -> None:
        self._store = store
        self._repository = repository
        self._window = window
        self._second: GitRepository | None = None
        self._contents: dict[str, tuple[bytes | None, int | None]] = {}  # git's id → (ours, size)
        self._tree = EditedTree(no_trees)
        self.missing: dict[str, str] = {}
        self.facts: TreeFacts | None = None

    def aside(self) -> GitRepository:
        """A second reader of the repository, for a question in the middle of another answer."""
        if self._second is None:
            self._second = GitRepository(self._repository.git_dir)
        return self._second

    def close(self) -> None:
        if self._second is not None:
            self._second.close()

    def follow(self, parent: str | None, git_tree: str, stored: "Callable[[], TreeFacts | None]") -> bool:
        """Go to the tree of `parent`, None for none; whether git has what that needs.

        Args: stored: gives its snapshot where the log has one.
        """
        try:
            self._follow(parent, git_tree, stored)
        except EventLogError:
            self.facts = None
            return False
        return True

    def contents_of(
        self, part: "Sequence[tuple[int, list[GitChange] | None]]"
    ) -> Iterator[tuple[int, list[ChangedFile]]]:
        """The changes of some commits with their contents, which go into the batch."""
        fresh = self._fresh(change for _, changes in part for change in changes or ())
        contents = self._repository.contents(fresh, _BLOB_BYTES_MAX)
        for index, changes in part:
            yield index, [ChangedFile(change, *self._after(change, contents)) for change in changes or ()]

    def step(self, commit: Commit, changed: Sequence[ChangedFile]) -> CommitStep:
        """Go on to the next commit."""
        before = self.facts
        assert before is not None
        described = self._apply(changed)
        added = sum((c.operation == "add") - (c.operation == "delete") for c in described)
        after = self.facts = self._write_tree(commit.id, commit.tree, before.tracked_files + added)
        return CommitStep(before, after, described)

    def _fresh(self, changes: Iterable[GitChange]) -> list[str]:
        """Contents that were not met yet, in the order of reading."""
        if len(self._contents) > _CONTENTS_MAX:
            self._contents.clear()
        fresh: dict[str, None] = {}
        for change in changes:
            git_id = change.after_id
            if git_id is not None and change.after_mode != MODE_SUBMODULE and git_id not in self._contents:
                fresh[git_id] = None
        return list(fresh)

    def _after(
        self, change: GitChange, contents: Iterator[bytes | int | None]
    ) -> tuple[bytes | None, int | None]:
        """(id, size) of the content after a change; it comes from `contents` when it is new.

        The id is None where there is no content, or none that a pack can hold; both are None where it is
        missing.
        """
        if change.after_id is None:
            return None, 0
        if change.after_mode == MODE_SUBMODULE:
            return self._window.put(change.after_id.encode("ascii"), change.path), len(change.after_id)
        content = self._contents.get(change.after_id)
        if content is None:
            content = self._stored_content(change.path, next(contents))
            self._contents[change.after_id] = content
        return content

    def _stored_content(self, path: bytes, data: bytes | int | None) -> tuple[bytes | None, int | None]:
        return (self._window.put(data, path), len(data)) if isinstance(data, bytes) else (None, data)

    def _follow(self, parent: str | None, git_tree: str, stored: "Callable[[], TreeFacts | None]") -> None:
        if self.facts is not None and self.facts.commit == parent:
            return
        self._tree = EditedTree(no_trees)
        files, missing = 0, None
        if parent is not None:
            snapshot = stored()
            if snapshot is not None:
                self._tree = EditedTree(self._store.blobs.get_tree, from_text(snapshot.tree_hash))
                self.facts = snapshot
                return
            files, missing = self._read_tree(git_tree)
        facts = self._write_tree(parent, git_tree, files)
        self.facts = replace(facts, deferred=None if missing is None else to_text(missing))

    def _read_tree(self, tree: str) -> tuple[int, bytes | None]:
        """Fill the tree from git; how many files it has, and the list of contents that are missing."""
        files = 0
        missing: list[ChangedFile] = []
        entries = self._repository.entries(tree)
        while part := list(islice(entries, PART_CHANGES)):
            files += len(part)
            changes = [GitChange(e.path, None, 0, e.mode, None, e.id, None, None) for e in part]
            contents = self._repository.contents(self._fresh(changes), _BLOB_BYTES_MAX)
            for change in changes:
                changed_file = ChangedFile(change, *self._after(change, contents))
                if changed_file.size is None:
                    missing.append(changed_file)
                else:
                    self._put(changed_file, None)
        list_id = self._list_of(missing)
        for changed_file in missing:
            self._put(changed_file, list_id)
        return files, list_id

    def _write_tree(self, commit: str | None, git_tree: str, files: int) -> TreeFacts:
        return TreeFacts(to_text(self._tree.write(self._window.put_tree)), files, commit, git_tree)

    def _apply(self, changed: Sequence[ChangedFile]) -> list[FileChange]:
        """Apply the changes of one commit to the tree."""
        list_id = self._list_of(changed)
        described = [self._describe(changed_file, list_id) for changed_file in changed]
        for changed_file in changed:  # before anything is put, since a file may give way to a folder
            if changed_file.change.before_id is not None:
                old_path = changed_file.change.old_path or changed_file.change.path
                if changed_file.change.after_id is None or changed_file.change.old_path is not None:
                    self._tree.remove(self._path_in_tree(old_path), prune=True)
        for changed_file in changed:
            if changed_file.change.after_id is not None:
                self._put(changed_file, list_id)
        return described

    def _list_of(self, changed: Sequence[ChangedFile]) -> bytes | None:
        """The list of the contents that are missing, None for none; a later import may bring them."""
        rows = {
            change.path: (
                _kind_of(change),
                SIZE_UNKNOWN,
                0,
                0,
                0,
                bytes.fromhex(change.after_id),
            )
            for change, _, size in changed
            if size is None
            and change.after_id is not None
            and tree_path(change.path, _kind_of(change))[1] is None
        }
        return self._window.put(encode_list((path, *row) for path, row in rows.items())) if rows else None

    def _put(self, changed_file: ChangedFile, list_id: bytes | None) -> None:
        change, id, size = changed_file
        kind = _kind_of(change)
        path, reason = tree_path(change.path, kind)
        if (present_path := self._path_in_tree(change.path)) != path:
            self._tree.remove(present_path, prune=False)
        if size is None:
            self.missing[path_text(change.path)] = git_missing.absent(change.after_id)
            if reason is None and list_id is not None:
                self._tree.put(path, SKIPPED, self._window.put(sentence_of(list_id)), SIZE_UNKNOWN)
                return
            size = SIZE_UNKNOWN
        elif id is None:
            reason = _too_large(size)
        if reason is not None:
            self.missing[path_text(change.path)] = reason
            kind, id = SKIPPED, self._window.put(reason.encode("utf-8", "surrogateescape"))
        assert id is not None
        self._tree.put(path, kind, id, size)

    def _path_in_tree(self, path: bytes) -> bytes:
        """The path in our tree, which may be that of an earlier version."""
        earlier = earlier_path(path)
        is_earlier = earlier is not None and self._tree.get(earlier) is not None
        return earlier if earlier is not None and is_earlier else tree_path(path)[0]

    def _describe(self, changed_file: ChangedFile, list_id: bytes | None) -> FileChange:
        change = changed_file.change
        skipped = None
        if changed_file.id is None and change.after_id is not None:
            skipped = (
                git_missing.absent(change.after_id)
                if changed_file.size is None
                else _too_large(changed_file.size)
            )
        if change.before_id is None:
            operation = "add"
        elif change.after_id is None:
            operation = "delete"
        else:
            operation = "edit" if change.old_path is None else "rename"
        return FileChange(
            path=change.path,
            old_path=change.old_path,
            operation=operation,
            before_mode=change.before_mode,
            after_mode=change.after_mode,
            before_hash=self._before_hash(change),
            after_hash=None if changed_file.id is None else to_text(changed_file.id),
            after_size=None if change.after_id is None else changed_file.size,
            lines_added=change.lines_added,
            lines_removed=change.lines_removed,
            skipped=skipped,
            deferred=None if changed_file.size is not None or list_id is None else to_text(list_id),
        )

    def _before_hash(self, change: GitChange) -> str | None:
        if change.before_id is None:
            return None
        entry = self._tree.get(self._path_in_tree(change.old_path or change.path))
        assert entry is not None, f"{change.path!r} is in git's tree before the change and not in ours"
        if entry.kind != SKIPPED:
            return to_text(entry.id)
        # The tree has the reason why the file is not in it; its content may be in the store.
        data = next(self.aside().contents([change.before_id], _BLOB_BYTES_MAX))
        return to_text(blob_id(data)) if isinstance(data, bytes) else None


def _kind_of(change: GitChange) -> bytes:
    return _KIND_OF_MODE.get(change.after_mode, EXECUTABLE if change.after_mode & 0o100 else FILE)


def _too_large(size: int) -> str:
    return f"its {size} bytes are more than the {_BLOB_BYTES_MAX} a blob may have"


# -- paths -------------------------------------------------------------------------------------


@lru_cache(maxsize=65_536)  # a history names the same paths again and again
def tree_path(path: bytes, kind: bytes = FILE) -> tuple[bytes, str | None]:
    """The path in our tree, and why it differs from git's.

    A name that is not legal would not be safe to write anywhere, so its file is only listed. So are files
    below such a name: their path, from the refused name on, is escaped.
    """
    folders = path.split(b"/")
    for depth, name in enumerate(folders):
        reason = _reason(folders, depth, kind)
        if reason is not None:
            return _escaped(folders, depth), f"its name {path_text(name)!r} {reason}"
    return path, None


def _reason(folders: list[bytes], depth: int, kind: bytes) -> str | None:
    name = folders[depth]
    if depth and is_store_name(name):
        below = folders[depth + 1 :]
        if below and makes_store(name, below[0]):
            return f"with {path_text(below[0])!r} in it makes a store"
        return None if below or kind in FILES else legal_name(name)
    if is_escape(name) and not has_escape(name):
        return "looks like the name of a refused one"
    return legal_name(name)


def earlier_path(path: bytes) -> bytes | None:
    """The path that earlier versions gave a listed path; None where they did not list it."""
    folders = path.split(b"/")
    for depth, name in enumerate(folders):
        if name.startswith(REFUSED) or legal_name(name) is not None:
            return _escaped(folders, depth)
    return None


def _escaped(folders: list[bytes], depth: int) -> bytes:
    below = b"/".join(folders[depth:])
    return b"/".join([*folders[:depth], below if has_escape(below) else escaped(below)])
