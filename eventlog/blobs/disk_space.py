"""Whether a file system has room for what is about to be written: asked before the first byte (P4)."""

import os

from eventlog.base.errors import Refused


def refuse_without_room_for_both(new: int, directory: str, saved: int, store: str) -> None:
    """Refuse to begin a restore: `new` bytes go to `directory`, and before that `saved` to the store.

    Contents are counted as they are, although packs hold them compressed. Raises: Refused.
    """
    if saved and _device_of(directory) == _device_of(store):
        refuse_without_room(new + saved, directory)
        return
    refuse_without_room(new, directory)
    if saved:
        refuse_without_room(saved, store, what="what is replaced is saved there first; that takes")


def refuse_without_room(
    needed: int, directory: str, *, replaces: bool = False, what: str = "the files take"
) -> None:
    """Refuse to begin what cannot end.

    Args:
        needed: bytes of all contents. Names and blocks that are not full are not counted.
        directory: where they are to go; it may be missing.
        replaces: replaced files give their room back, an unknown amount. Then only what the whole file system
            could not hold is refused.
        what: the subject and the verb of the message.
    Raises: Refused.
    """
    file_system = _file_system_of(directory)
    if file_system is None or file_system.f_blocks == 0:
        return  # its size is unknown
    room = (file_system.f_blocks if replaces else file_system.f_bavail) * file_system.f_frsize
    if needed > room:
        has = "is no larger than" if replaces else "has no more room than"
        raise Refused(
            f"{directory}: {what} {needed:,} bytes, and the file system {has} {room:,} bytes. "
            "Nothing was written. Make room, name a directory on a larger disk, or name only the paths that "
            "you need."
        )


def _device_of(path: str) -> int:
    """The file system that a path is on; -1 when that is unknown."""
    try:
        return os.stat(path).st_dev
    except OSError:
        return -1


def _file_system_of(directory: str) -> os.statvfs_result | None:
    """That of the directory, or of the nearest one above it that exists."""
    path = os.path.abspath(directory)
    while True:
        try:
            return os.statvfs(path)
        except (FileNotFoundError, NotADirectoryError):
            above = os.path.dirname(path)
            if above == path:
                return None
            path = above
        except OSError:
            return None
