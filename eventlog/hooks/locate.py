"""Where a hook call belongs: the store it goes to, and the working directory that is captured for it.

Asks the file system, writes nothing. On the hook path.
"""

import os

from eventlog import agents
from eventlog.agents.kit.call import TEXT_SIZE_MAX, Call
from eventlog.agents.kit.spec import PROJECT_VARIABLE
from eventlog.base import identity
from eventlog.base.paths import path_text, paths_in_arguments
from eventlog.hooks.state import short
from eventlog.worktree import git as worktree_git

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping


class HookDirectory:
    """The working directory of a call. `worktree` is git's name of it where it is a linked one."""

    __slots__ = ("branch", "commit", "key", "root", "worktree")

    def __init__(self, root: str, git: "worktree_git.GitPlace | None") -> None:
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
    """The store of LOCUS_DIR, of the agent's working directory or project, or of ours. Raises: Refused."""
    for directory in (call.columns.get("cwd"), environ.get(_project_variable(call)), _own_directory()):
        if isinstance(directory, str) and os.path.isdir(directory):
            store = identity.find(directory, dict(environ))
            if store is not None:
                return store
    return None


def find_place(store: str, call: Call, environ: "Mapping[str, str]") -> "HookDirectory | None":
    """The directory to capture: the one the store stands in, the linked worktree of it that the agent works
    in, or, where a store stands apart, the repository or project of the agent."""
    cwd = call.columns.get("cwd")
    at = cwd if isinstance(cwd, str) and os.path.isdir(cwd) else environ.get(_project_variable(call)) or ""
    if not os.path.isdir(at):
        at = _own_directory() or ""
    if not at:
        return None
    given, at = at, os.path.realpath(at)
    apart = environ.get("LOCUS_DIR") or os.path.basename(store) != identity.STORE_DIRECTORY
    beside = os.path.dirname(store)
    beside = at if beside == given else os.path.realpath(beside)
    within = at == beside or at.startswith(beside.rstrip("/") + "/")
    git = worktree_git.find(os.fsencode(at))
    if git is not None and git.git_dir != git.common_dir:
        root = os.fsdecode(git.top)
    elif within:
        root = beside
    elif git is not None:
        root = os.fsdecode(git.top)
    else:
        root = at if apart else beside
    if root in ("/", os.path.realpath(os.path.expanduser("~"))):
        return None
    around = os.fsencode(root)
    if at != root and (git is None or git.top != around):
        git = worktree_git.find(around)
    return HookDirectory(root, git)


def _project_variable(call: Call) -> str:
    spec = agents.spec_of(call.agent)
    return PROJECT_VARIABLE if spec is None else spec.project_variable


def find_captured(root: str) -> HookDirectory:
    """A directory that has been captured before."""
    return HookDirectory(root, worktree_git.find(os.fsencode(root)))


def _own_directory() -> "str | None":
    try:
        return os.getcwd()
    except OSError:
        return None
