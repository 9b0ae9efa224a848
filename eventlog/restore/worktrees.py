"""Which git worktree a directory is, and which a turn worked in: one is not written over another unasked.

Events have git's name of a linked worktree, and null for the main one and where it is not known.
"""

import os

from eventlog.base.errors import Refused
from eventlog.base.identity import STORE_DIRECTORY
from eventlog.query.lookup import TurnRef
from eventlog.replay.trees import Events
from eventlog.worktree import git


def worktree_of(directory: str | os.PathLike[str]) -> str | None:
    """Git's name of a linked worktree; None for another directory."""
    repository = git.find(os.fsencode(os.path.realpath(directory)))
    if repository is None or repository.git_dir == repository.common_dir:
        return None
    return os.fsdecode(os.path.basename(repository.git_dir))


def project_of(store_root: str) -> str | None:
    """The directory that a store is in; None where it is kept by itself."""
    root = os.path.realpath(store_root)
    return os.path.dirname(root) if os.path.basename(root) == STORE_DIRECTORY else None


def worktrees_of(events: Events, ref: TurnRef) -> set[str | None]:
    """Those in which the files of a turn were captured."""
    which = {"session_id": ref.session_id, "turn": ref.turn, "event_types": ("file", "snapshot")}
    names = (event["worktree"] for event in events(ref.since, ref.until, columns=("worktree",), **which))
    return {None if name is None else str(name) for name in names}


def refuse_other_worktree(store_root: str, ref: TurnRef, worked_in: set[str | None]) -> None:
    """Raises: Refused for a turn of other worktrees alone, when the project of the store is to be written.

    Args: worked_in: `worktrees_of` the turn.
    """
    project = project_of(store_root)
    if project is None or not worked_in - {None} or worktree_of(project) in worked_in:
        return
    name = min(filter(None, worked_in))
    where = _directory(project, name)
    raise Refused(
        f"{ref.context_id} worked in the git worktree {name}, and not in {project}. Nothing was touched. "
        f"To change that worktree, name its directory: --into {where or 'DIR'}."
    )


def _directory(project: str, name: str) -> str | None:
    """Where a linked worktree is, as git has it."""
    repository = git.find(os.fsencode(project))
    if repository is None:
        return None
    pointer = os.path.join(repository.common_dir, b"worktrees", os.fsencode(name), b"gitdir")
    try:
        with open(pointer, "rb") as file:
            return os.fsdecode(os.path.dirname(file.read(4096).strip()))
    except OSError:
        return None
