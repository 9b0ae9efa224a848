"""Where a store may be: not in a directory that holds too much, nor on disks that machines share.

The system is asked once when a store is made and once before it is first written to.
"""

import os

from eventlog.base.errors import NotFound, Refused

# `flock` and the boot rule hold within one kernel only (docs/design.md §4.4).
SHARED_FILE_SYSTEMS = frozenset(
    ["nfs", "nfs4", "cifs", "smb3", "smbfs", "9p", "virtiofs", "fuse.sshfs", "vboxsf", "prl_fs"]
)


def refuse_unsafe(parent: str) -> None:
    """Refuse to make a store in the directory `parent`. Raises: Refused, NotFound."""
    home = os.path.realpath(os.path.expanduser("~"))
    if os.path.realpath(parent) in ("/", home):
        raise Refused(
            f"{parent} is {'the home directory' if parent != '/' else 'the root of the file system'}: "
            "a store there would record everything below it. Choose a project directory, or use --force."
        )
    if not os.path.isdir(parent):
        raise NotFound(f"{parent} is not a directory; make it first")
    kind = file_system_of(parent)
    if kind in SHARED_FILE_SYSTEMS:
        raise Refused(
            f"{parent} is on a {kind} file system, which another machine may write at the same time; "
            "locks and crash recovery hold within one machine only. Use LOCUS_DIR or --store to put "
            "the store on a local disk, or --force if no other machine ever writes here."
        )


def refuse_moved(root: str) -> None:
    """Refuse to write to a store that was made elsewhere and is on a shared file system. Raises: Refused."""
    kind = file_system_of(root)
    if kind in SHARED_FILE_SYSTEMS:
        raise Refused(
            f"{root} is on a {kind} file system, where it was not made. Locks and crash recovery hold within "
            "one machine only, so nothing was written. Move the store to a local disk."
        )


def is_shared(path: str) -> bool:
    """Whether another machine may write where `path` is."""
    return file_system_of(path) in SHARED_FILE_SYSTEMS


def file_system_of(path: str) -> str | None:
    """The type of the file system that holds `path`, None where it is unknown (proc(5))."""
    real = os.path.realpath(path)
    best: tuple[str, str | None] = ("", None)
    for point, kind in mounts():
        if (real == point or real.startswith(point.rstrip("/") + "/")) and len(point) >= len(best[0]):
            best = (point, kind)
    return best[1]


def mounts() -> list[tuple[str, str]]:
    """(directory, type) of each mounted file system (proc(5)); none where the system does not tell."""
    try:
        with open("/proc/self/mounts", encoding="utf-8", errors="surrogateescape") as file:
            lines = [line.split(" ")[1:3] for line in file]
    except OSError:
        return []
    return [(point.replace("\\040", " ").replace("\\134", "\\"), kind) for point, kind in lines]
