"""Where a hook call belongs: the store it goes to, and the working directory that is captured for it.

Asks the file system, writes nothing. On the hook path.
"""

import os

from eventlog.agents.kit.call import TEXT_SIZE_MAX, Call
from eventlog.agents.kit.spec import PROJECT_VARIABLE
from eventlog.base import identity
from eventlog.base.names import short
from eventlog.base.paths import path_text, paths_in_arguments
from eventlog.worktree import git as worktree_git

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping


class HookDirectory:
    """The working directory of a call. `worktree` is git's name of it where it is a linked one."""

    __slots__ = ("branch", "commit", "key", "root", "worktree")

    def __init__(self, root: str, git: "worktree_git.RepositoryPaths | None") -> None:
        self.root = root
        self.key = short(os.fsencode(root))
        self.worktree: "str | None" = None
        self.commit: "str | None" = None
        self.branch: "str | None" = None
        if git is not None:
            self.commit, self.branch = worktree_git.head(git.git_dir)
            if git.git_dir != git.common_dir:
                self.worktree = os.fsdecode(os.path.basename(git.git_dir))

    def inside(self, path: str, cwd: str) -> "bytes | None":
        """The path of a file in the directory, None when it leads out of it; symlinks are followed."""
        try:
            full = os.path.realpath(os.path.join(cwd, path))
        except (OSError, ValueError):
            return None
        top = self.root.rstrip("/") + "/"
        return os.fsencode(full[len(top) :]) if full.startswith(top) and len(full) > len(top) else None

    def path_of(self, arguments: object, cwd: object) -> "str | None":
        """The path that the arguments of a tool name, as events have it, where it is one in the directory."""
        named = paths_in_arguments(arguments)
        path = self.inside(named[0], str(cwd or self.root)) if len(named) == 1 else None
        return None if path is None or len(path) > TEXT_SIZE_MAX else path_text(path)


def find_store(call: Call, environ: "Mapping[str, str]") -> "str | None":
    """The store of LOCUS_DIR, of the agent's working directory or project, or of this process. Raises:
    Refused."""
    for candidate in (call.columns.get("cwd"), environ.get(PROJECT_VARIABLE), _own_directory()):
        if isinstance(candidate, str) and os.path.isdir(candidate):
            store = identity.find(candidate, dict(environ))
            if store is not None:
                return store
    return None


def find_directory(store: str, call: Call, environ: "Mapping[str, str]") -> "HookDirectory | None":
    """The directory to capture: the store's parent, a linked worktree of it that the agent works in or, for a
    store kept elsewhere, the repository or project of the agent."""
    cwd = call.columns.get("cwd")
    directory = cwd if isinstance(cwd, str) and os.path.isdir(cwd) else environ.get(PROJECT_VARIABLE) or ""
    if not os.path.isdir(directory):
        directory = _own_directory() or ""
    if not directory:
        return None
    unresolved, directory = directory, os.path.realpath(directory)
    is_separate = environ.get("LOCUS_DIR") or os.path.basename(store) != identity.STORE_DIRECTORY
    store_parent = os.path.dirname(store)
    store_parent = directory if store_parent == unresolved else os.path.realpath(store_parent)
    within = directory == store_parent or directory.startswith(store_parent.rstrip("/") + "/")
    git = worktree_git.find(os.fsencode(directory))
    if git is not None and git.git_dir != git.common_dir:
        root = os.fsdecode(git.top)
    elif within:
        root = store_parent
    elif git is not None:
        root = os.fsdecode(git.top)
    else:
        root = directory if is_separate else store_parent
    if root in ("/", os.path.realpath(os.path.expanduser("~"))):
        return None
    root_bytes = os.fsencode(root)
    if directory != root and (git is None or git.top != root_bytes):
        git = worktree_git.find(root_bytes)
    return HookDirectory(root, git)


def find_captured(root: str) -> HookDirectory:
    """A directory that has been captured before."""
    return HookDirectory(root, worktree_git.find(os.fsencode(root)))


def _own_directory() -> "str | None":
    try:
        return os.getcwd()
    except OSError:
        return None
