"""Contents that hooks deferred: which lists are open, and the process that stores what they name.

`live/<worktree>.deferred` holds what is open, one line each (docs/hooks.md):

- `open` list `files|git` root: a list that a tree names, and in hex the directory that was captured;
- `part` list tree: files of the list that are stored, as a tree of their paths;
- `done` list: all of it is stored, recorded in the log, and in the trees of later captures.

Derived (I22): a list that it lacks is opened again by the next capture whose tree names it, and what is
stored twice counts once (I8). Hooks write under the lock of the directory, before the append, so a list in
the log is always open or done. On the hook path.
"""

import os

from eventlog.base.fs import FileSystem
from eventlog.base.layout import LIVE_DIR, Layout
from eventlog.hooks import state

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from eventlog.blobs.deferred import DeferredFile
    from eventlog.worktree.capture import DeferredEntries

    # Starts the process; what it returns is to be closed (`Started`).
    Start = Callable[["Job"], "Started | None"]

# The process that stores contents holds the first lock; the next one, waiting with its copies, the second.
WORKING, WAITING = "contents", "contents-next"


class OpenList:
    """A list whose files are not all stored. `parts` are the trees of those that are."""

    __slots__ = ("in_git", "list_id", "parts", "root")

    def __init__(self, list_id: bytes, root: str, in_git: bool) -> None:
        self.list_id = list_id
        self.root = root
        self.in_git = in_git
        self.parts: "list[bytes]" = []


class Job:
    """What the process is to do: copy these files at once, then store all that is open."""

    __slots__ = ("files", "layout", "root")

    def __init__(self, layout: Layout, root: str, files: "list[DeferredFile]") -> None:
        self.layout = layout
        self.root = root  # of the captured directory
        self.files = files


class Started:
    """A process under way, seen from the hook: it signals when its copies are made, then waits to go on."""

    __slots__ = ("_end", "_word")

    def __init__(self, word: int, end: int) -> None:
        self._word = word  # a pipe's end: readable when the copies are made
        self._end = end  # closing it lets the process go on

    def wait(self, timeout_s: float) -> bool:
        """Wait until the copies are made, at most `timeout_s`; whether they are."""
        import select

        return bool(select.select([self._word], [], [], max(0.0, timeout_s))[0])

    def close(self) -> None:
        """Let the process go on."""
        for fd in (self._word, self._end):
            os.close(fd)


def open_lists(layout: Layout, worktree: str) -> "dict[bytes, OpenList]":
    """The open lists of a working directory, the oldest first."""
    lists: "dict[bytes, OpenList]" = {}
    for words in state._lines(layout, worktree + state.DEFERRED):
        try:
            list_id = bytes.fromhex(words[1])
            if words[0] == "open" and len(words) == 4:
                root = os.fsdecode(bytes.fromhex(words[3]))
                lists.setdefault(list_id, OpenList(list_id, root, words[2] == "git"))
            elif words[0] == "part" and len(words) == 3 and list_id in lists:
                lists[list_id].parts.append(bytes.fromhex(words[2]))
            elif words[0] == "done":
                lists.pop(list_id, None)
        except (ValueError, IndexError):
            continue  # cut short by a crash
    return lists


def note_open(layout: Layout, worktree: str, root: str, lists: "list[DeferredEntries]") -> bool:
    """Open the lists that a tree names and that are not open; whether any is open now. Raises: OSError."""
    if not lists and not os.path.exists(layout.live(worktree + state.DEFERRED)):
        return False
    open_now = open_lists(layout, worktree)
    root_hex = os.fsencode(root).hex()
    lines = [
        ["open", entries.list_id.hex(), "git" if entries.in_git else "files", root_hex]
        for entries in lists
        if entries.list_id not in open_now
    ]
    if lines:
        state._append(layout, worktree + state.DEFERRED, lines)
    return bool(lines or open_now)


def note_part(layout: Layout, worktree: str, list_id: bytes, tree: bytes) -> None:
    state._append(layout, worktree + state.DEFERRED, [["part", list_id.hex(), tree.hex()]])


def note_done(layout: Layout, worktree: str, list_id: bytes) -> None:
    """Under the lock of the directory; the file goes with its last open list."""
    state._append(layout, worktree + state.DEFERRED, [["done", list_id.hex()]])
    if not open_lists(layout, worktree):
        os.unlink(layout.live(worktree + state.DEFERRED))


def worktrees_with_open_lists(fs: FileSystem, layout: Layout) -> "list[str]":
    """The keys of the working directories whose contents wait to be stored."""
    try:
        names = fs.listdir(layout.directory(LIVE_DIR))
    except OSError:
        return []  # a store of an earlier version, or an error for the next reader to report
    return [name.removesuffix(state.DEFERRED) for name in names if name.endswith(state.DEFERRED)]


def is_being_done(fs: FileSystem, layout: Layout) -> bool:
    """Whether a process is storing contents."""
    fd = fs.open(layout.lock(WORKING), os.O_RDWR | os.O_CREAT)
    try:
        return not fs.flock(fd, False)
    finally:
        fs.close(fd)
