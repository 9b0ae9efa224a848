"""Which processes have a file open, as far as this system shows: for databases that a restore would change.

`/proc` shows the descriptors of our own processes (root sees all). It does not show those of other machines
that share the disk, of other users, or of processes in a container with a `/proc` of its own. Without `/proc`
nothing is known. Reads only.
"""

import os
from collections.abc import Collection

from eventlog.worktree.kept_ignored import database_name, journals_of

_PROC = "/proc"


def databases_in(paths: Collection[bytes]) -> set[bytes]:
    """The databases among these paths, and those that the journals among them belong to."""
    return {database for path in paths if (database := database_name(path)) is not None}


def openers(root: str, databases: Collection[bytes]) -> dict[bytes, str]:
    """Database → the process that has it, or a journal of it, open; without those that none has.

    Args: databases: paths in the directory `root`.
    """
    if not databases:
        return {}
    inodes = {}
    for database in databases:
        for path in (database, *journals_of(database), database + b"-shm"):
            try:
                stat = os.stat(os.path.join(os.fsencode(root), path))
            except OSError:
                continue
            inodes[stat.st_dev, stat.st_ino] = database
    return _open_by(inodes) if inodes else {}


def has_open(process: str) -> str:
    """The message about a database that a process has open."""
    return f"{process} has this database open; end it, and restore then"


def _open_by(inodes: dict[tuple[int, int], bytes]) -> dict[bytes, str]:
    open_ones: dict[bytes, str] = {}
    own = str(os.getpid())
    try:
        processes = [name for name in os.listdir(_PROC) if name.isdigit() and name != own]
    except OSError:
        return {}
    for process in processes:
        directory = f"{_PROC}/{process}/fd"
        try:
            descriptors = os.listdir(directory)
        except OSError:
            continue  # it has ended, or is another user's
        for descriptor in descriptors:
            try:
                stat = os.stat(f"{directory}/{descriptor}")
            except OSError:
                continue
            database = inodes.get((stat.st_dev, stat.st_ino))
            if database is not None:
                open_ones.setdefault(database, f"process {process} ({_name_of(process)})")
    return open_ones


def _name_of(process: str) -> str:
    try:
        with open(f"{_PROC}/{process}/comm", encoding="utf-8", errors="replace") as file:
            return file.read().strip()
    except OSError:
        return "which has ended since"
