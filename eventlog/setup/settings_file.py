"""A settings file of the user's, replaced whole: by a synced sibling and a rename, with its mode and owner.

Never when another program changed it meanwhile, and by one process of ours at a time.
"""

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from eventlog.base.errors import LockTimeout, Refused
from eventlog.base.fs import FileSystem, opened, read_file, write_all

_SIZE_MAX = 8 << 20
_LOCK_TIMEOUT_S = 10.0
_LOCK_WAIT_S = 0.01


@dataclass(frozen=True, slots=True)
class SettingsEdit:
    """What an edit makes of one settings file; None is a file that is not there.

    `file` is where the bytes are: another path than `path` when that is a symlink.
    """

    agent: str
    path: str
    file: str
    before: bytes | None
    after: bytes | None

    @property
    def kind(self) -> str:
        """`unchanged`, `created`, `edited` or `removed`: what becomes of the file."""
        if self.before == self.after:
            return "unchanged"
        if self.before is None:
            return "created"
        return "removed" if self.after is None else "edited"


@contextmanager
def locked(fs: FileSystem, directory: str) -> Iterator[None]:
    """The user's lock in the directory of receipts, for edits of settings one after the other."""
    os.makedirs(directory, mode=0o700, exist_ok=True)
    with opened(fs, f"{directory}/lock", os.O_RDWR | os.O_CREAT) as lock:
        _wait_for(fs, lock, f"{directory}/lock")
        yield


def _wait_for(fs: FileSystem, fd: int, path: str) -> None:
    deadline = fs.monotonic() + _LOCK_TIMEOUT_S
    while not fs.flock(fd, True):
        if fs.monotonic() > deadline:
            raise LockTimeout(
                f"{path}: another `locus hooks` holds this lock. Nothing was changed; try again."
            )
        fs.sleep(_LOCK_WAIT_S)


def read(fs: FileSystem, path: str, file: str) -> bytes | None:
    """The bytes of a settings file, None where none is. Raises: Refused."""
    try:
        status = fs.stat(file)
    except FileNotFoundError:
        if os.path.islink(path):
            raise Refused(f"{path} is a link to {file}, which is not there. Remove the link first.") from None
        return None
    if not stat.S_ISREG(status.st_mode):
        raise Refused(f"{file} is not a file. Move it away, then try again.")
    try:
        return read_file(fs, file, _SIZE_MAX)
    except ValueError as error:
        raise Refused(f"{error}. That is no settings file; nothing was written.") from error


def carry_out(
    fs: FileSystem, change: SettingsEdit, *, made_directory: bool = False, mode: int = 0o600
) -> None:
    """Make the file what the edit says; `mode` is for one that was not there. Raises: as `replace`."""
    if change.kind == "removed":
        remove(fs, change, made_directory)
    elif change.after is not None and change.kind != "unchanged":
        os.makedirs(os.path.dirname(change.file), exist_ok=True)
        replace(fs, change, change.after, mode)


def remove(fs: FileSystem, change: SettingsEdit, made_directory: bool) -> None:
    """Remove a file that an edit made, and its directory where the edit made that too and nothing is in it.

    Raises: Refused when somebody has changed the file since.
    """
    refuse_changed(fs, change)
    directory = os.path.dirname(change.file)
    fs.unlink(change.file)
    fs.fsync_dir(directory)
    if made_directory:
        try:
            fs.rmdir(directory)
        except OSError:
            pass  # somebody put something there: it stays


def replace(fs: FileSystem, change: SettingsEdit, data: bytes, mode: int = 0o600) -> None:
    """Replace the file; `mode` is for one that was not there. Raises: Refused, OSError."""
    directory, name = os.path.split(change.file)
    beside = f"{directory}/.{name}.locus-{fs.random_bytes(8).hex()}"
    fd = fs.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
    try:
        try:
            write_all(fs, fd, data)
            if change.before is not None:
                _like(fs, fd, fs.stat(change.file))
            fs.fsync(fd)
        finally:
            fs.close(fd)
        refuse_changed(fs, change)
        if change.before is None:
            fs.link(beside, change.file)
        else:
            fs.rename(beside, change.file)
        fs.fsync_dir(directory)
    except FileExistsError:
        raise _changed_meanwhile(change) from None
    finally:
        try:
            fs.unlink(beside)
        except OSError:
            pass  # it has its name, or stays as a hidden file that nobody reads


def _like(fs: FileSystem, fd: int, old: os.stat_result) -> None:
    """Give the new file the owner and the mode of the old one."""
    new = fs.fstat(fd)
    if (new.st_uid, new.st_gid) != (old.st_uid, old.st_gid):
        os.fchown(fd, old.st_uid, old.st_gid)
    fs.fchmod(fd, stat.S_IMODE(old.st_mode))


def refuse_changed(fs: FileSystem, change: SettingsEdit) -> None:
    if read(fs, change.path, change.file) != change.before:
        raise _changed_meanwhile(change)


def _changed_meanwhile(change: SettingsEdit) -> Refused:
    return Refused(
        f"{change.file} was changed by another program in this moment. Nothing was done; try again."
    )
