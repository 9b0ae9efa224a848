"""What a restore wants at which path, and what it may delete: from the log and its trees alone.

The working directory is not read here. A path may be deleted when the log saw it after the moment that is
restored and the wanted tree lacks it: later trees are compared with the wanted one directory by directory,
and equal ids are not entered. Deterministic, and reads only.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from eventlog.base.errors import Corruption, InvalidEvent, NotFound
from eventlog.base.paths import is_below, path_bytes, path_text
from eventlog.blobs.extent import DEPTH_MAX, Walk, refuse_too_large, wish_of
from eventlog.blobs.ids import from_text
from eventlog.blobs.tree import (
    DIRECTORY,
    FILES,
    SKIPPED,
    SYMLINK,
    is_store_name,
    mode_of_directory,
    unsafe_path,
)
from eventlog.checkout.directory import NO_ID, State, joined, state_of_entry
from eventlog.checkout.materialize import sentence
from eventlog.checkout.parallel import Listed
from eventlog.replay.certainty import doubt_bytes
from eventlog.replay.deferred import hashed
from eventlog.replay.trees import TreeState
from eventlog.restore.journal import Document
from eventlog.worktree.kept_ignored import database_name

# The columns that are read of the events after the moment.
COLUMNS_OF_LATER = ("event_type", "operation", "path", "tree_hash")


@dataclass(slots=True)
class Wanted:
    """`entries`: the state wanted at each path. `gone`: paths that may be deleted, and `gone_dirs`
    directories. `links`: where the log saw a symlink. `alone`: nothing at or below these is touched.
    With `whole`, `entries` are all that is wanted in their directories.
    """

    entries: dict[bytes, State] = field(default_factory=dict)
    gone: set[bytes] = field(default_factory=set)
    gone_dirs: set[bytes] = field(default_factory=set)
    links: set[bytes] = field(default_factory=set)
    alone: set[bytes] = field(default_factory=set)
    missing: Listed = field(default_factory=list)
    submodules: Listed = field(default_factory=list)
    paths: tuple[bytes, ...] = ()
    whole: bool = True

    def selects(self, path: bytes) -> bool:
        """Whether a path was asked for, itself, by a directory above it, or a journal by its database."""
        if not self.paths:
            return True
        database = database_name(path) or path
        return any(is_below(path, wish) or is_below(database, wish) for wish in self.paths)

    def leads(self, path: bytes) -> bool:
        """Whether something below a directory was asked for."""
        return any(is_below(wish, path) for wish in self.paths)

    def left_alone(self, path: bytes) -> bool:
        return bool(self.alone) and (b"" in self.alone or any(above in self.alone for above in ways(path)))


def ways(path: bytes) -> list[bytes]:
    """A path and the directories above it, without the root."""
    paths = [path]
    while b"/" in path:
        path = path.rpartition(b"/")[0]
        paths.append(path)
    return paths


def wanted_of_turn(
    state: TreeState,
    later: Iterable[Mapping[str, Any]],
    restored: Iterable[Document],
    paths: Sequence[str],
    *,
    delete: bool,
) -> Wanted:
    """What `state` holds.

    Args:
        later: the file and snapshot events after it; read when `delete` is set, as is
        restored: the plans of the restores after it.
    Raises: NotFound when a path is neither in the tree nor was seen later.
    """
    wanted = Wanted(paths=selection(paths))
    directories = _take_tree(wanted, state)
    for text, reason in state.certainty.doubts(paths):
        _leave_alone(wanted, text, reason)
    if delete:
        _take_later(wanted, state, directories, later)
        for document in restored:
            _take_restored(wanted, document)
        for path in [path for path in (*wanted.gone, *wanted.gone_dirs) if wanted.left_alone(path)]:
            wanted.gone.discard(path)
            wanted.gone_dirs.discard(path)
    paths_met = [*wanted.entries, *wanted.gone, *wanted.gone_dirs, *wanted.alone]
    for wish in wanted.paths:
        if not wanted.left_alone(wish) and not any(is_below(path, wish) for path in paths_met):
            raise NotFound(f"{path_text(wish)} is not in {state.turn} at {state.at}, and was not seen later")
    return wanted


def _leave_alone(wanted: Wanted, text: str, reason: str) -> None:
    """Touch nothing at or below a path whose wanted state is not known."""
    path = doubt_bytes(text)
    if path == b".":
        wanted.entries.clear()
    elif _legal(text) is None:
        return  # nothing of that name is touched in any case
    else:
        for entry_path in [entry_path for entry_path in wanted.entries if is_below(entry_path, path)]:
            del wanted.entries[entry_path]
    if all(path != listed for listed, _ in wanted.missing):
        wanted.missing.append((path, reason))
    wanted.alone.add(b"" if path == b"." else path)


def wanted_of_undo(document: Document) -> Wanted:
    """The states before the restore of `document`."""
    wanted = Wanted(whole=False)
    for step in document.steps:
        if step.before is not None:
            wanted.entries[step.path] = step.before
        elif step.after is not None and step.after.kind == DIRECTORY:
            wanted.gone_dirs.add(step.path)
        else:
            wanted.gone.add(step.path)
        if step.after is not None and step.after.kind == SYMLINK:
            wanted.links.add(step.path)
    return wanted


def selection(paths: Sequence[str]) -> tuple[bytes, ...]:
    wishes = set()
    for path in paths:
        names = [name for name in path_bytes(path).split(b"/") if name not in (b"", b".")]
        if not names:
            return ()  # all of it
        wishes.add(b"/".join(names))
    return tuple(sorted(wishes))


def _take_tree(wanted: Wanted, state: TreeState) -> dict[bytes, bytes]:
    """Add the entries of the tree; the id of each of its directories."""
    top, listed = refuse_too_large(
        state.blobs, state.stored_tree, state.root, wish_of(wanted.paths), "nothing was touched"
    )
    directories = {b"": state.root}
    stack = [(b"", top)]
    while stack:
        folder, stored = stack.pop()
        may_be_store = not folder or is_store_name(folder.rpartition(b"/")[2])
        for entry in state.deferred.entries(stored, folder):
            name, kind, id, size = entry
            path = joined(folder, name)
            if wanted.paths and not wanted.selects(path) and not (kind == DIRECTORY and wanted.leads(path)):
                continue
            problem: str | None = None
            if may_be_store and kind != SKIPPED and (problem := unsafe_path(path)) is not None:
                problem = f"it is not written: it {problem}"
            elif kind in FILES or kind == SYMLINK:
                try:
                    # Only what git holds has to be read for its id.
                    wanted.entries[path] = state_of_entry(kind, hashed(state.blobs, entry).id, size)
                except NotFound as error:
                    problem = str(error)
            elif kind == DIRECTORY:
                names = listed.get(id, "what was asked for is not in it")
                if isinstance(names, str):
                    problem = names
                else:
                    mode = mode_of_directory(size) if size else None
                    wanted.entries[path] = State(DIRECTORY, mode, NO_ID, 0)
                    stack.append((path, names))
                    directories[path] = id
            else:
                asked_for = ", so there is nothing to restore" if path in wanted.paths else ""
                reason = sentence(state.blobs, id) + asked_for
                if kind == SKIPPED:
                    problem = reason
                else:
                    wanted.submodules.append((path, reason))
                    wanted.alone.add(path)
            if problem is not None:
                wanted.missing.append((path, problem))
                wanted.alone.add(path)
    return directories


def _take_later(
    wanted: Wanted, state: TreeState, directories: Mapping[bytes, bytes], later: Iterable[Mapping[str, Any]]
) -> None:
    visited: set[tuple[bytes, bytes]] = set()
    for event in later:
        if event["event_type"] == "file":
            path = _legal(str(event["path"] or ""))
            if path is not None and event["operation"] != "delete":
                _see(wanted, path)
        elif event["tree_hash"] is not None:
            try:
                _see_tree(wanted, state, directories, visited, from_text(str(event["tree_hash"])))
            except InvalidEvent:
                continue  # a hash of another system; it shows no paths


def _take_restored(wanted: Wanted, document: Document) -> None:
    """Count what a restore made as seen."""
    for step in document.steps:
        if step.after is None:
            continue
        if step.after.kind == SYMLINK:
            wanted.links.add(step.path)
        if step.after.kind != DIRECTORY:
            _see(wanted, step.path)
        elif step.path not in wanted.entries and wanted.selects(step.path):
            wanted.gone_dirs.add(step.path)


def _see_tree(
    wanted: Wanted,
    state: TreeState,
    directories: Mapping[bytes, bytes],
    visited: set[tuple[bytes, bytes]],
    root: bytes,
) -> None:
    walked = Walk(
        state.blobs, [(state.stored_tree, root)], "it is one of a later turn, which `--no-delete` leaves out"
    )
    stack = [(b"", root)]
    while stack:
        path, id = stack.pop()
        if (path, id) in visited or directories.get(path) == id or path.count(b"/") > DEPTH_MAX:
            continue
        visited.add((path, id))
        try:
            entries = state.get_tree(id, path)
        except (NotFound, Corruption):
            continue  # a tree that cannot be read shows no paths, so files stay
        walked.met(1 + len(entries))
        for entry in entries:
            below = path + b"/" + entry.name if path else entry.name
            if unsafe_path(below) is not None:
                continue  # it was never written
            if entry.kind == DIRECTORY:
                if wanted.selects(below) or wanted.leads(below):
                    stack.append((below, entry.id))
                if below not in wanted.entries and wanted.selects(below):
                    wanted.gone_dirs.add(below)
            elif entry.kind in FILES or entry.kind == SYMLINK:
                if entry.kind == SYMLINK:
                    wanted.links.add(below)
                _see(wanted, below)


def _see(wanted: Wanted, path: bytes) -> None:
    if path not in wanted.entries and wanted.selects(path):
        wanted.gone.add(path)


def _legal(text: str) -> bytes | None:
    """The path of an event, unless no tree could hold it."""
    try:
        path = path_bytes(text)
    except ValueError:
        return None
    return path if unsafe_path(path) is None else None
