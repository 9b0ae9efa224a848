"""Files that an export writes: whole and durable under their name, or absent.

The bytes go to a hidden sibling, which is synced and then gets the name: by `link`, which refuses a name that
exists, or with `force` by `rename`. A process that is killed leaves only that sibling, `.locus-export-…`,
which may be deleted. Any thread.
"""

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO

from eventlog.base.errors import EventLogError, NotFound, Refused

_NEW_FILE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_BUFFER_BYTES = 1 << 20

# Errors of `link` where the file system has no hard links.
_NO_LINKS = (errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK)


@contextmanager
def staged(path: str, *, force: bool = False) -> Iterator[IO[bytes]]:
    """A file to write to; when the block succeeds it is durable under `path`.

    Raises: Refused when `path` is taken (with `force`: by something that is not a plain file), NotFound
    without its directory, EventLogError when the disk refuses; nothing gets that name then.
    """
    with beside(path, force=force) as sibling, open(sibling, "wb", buffering=_BUFFER_BYTES) as file:
        yield file


@contextmanager
def beside(path: str, *, force: bool) -> Iterator[str]:
    """The path of an empty file to fill; when the block succeeds it is durable under `path`.

    Raises: as `staged`.
    """
    check_free(path, force=force)
    sibling = sibling_of(path)
    with disk_errors(path):
        os.close(os.open(sibling, _NEW_FILE, 0o600))
        try:
            yield sibling
            sync(sibling)
            _take_name(sibling, path, force)
            sync_directory(os.path.dirname(os.path.abspath(path)))
        finally:
            _unlink(sibling)


def check_free(path: str, *, force: bool) -> None:
    """Raises: as `staged`, before any work is done."""
    try:
        mode = os.lstat(path).st_mode
    except FileNotFoundError:
        directory = os.path.dirname(os.path.abspath(path))
        if not os.path.isdir(directory):
            raise NotFound(f"{directory} is not a directory; make it first") from None
        return
    except OSError as error:
        raise _refused(path, error) from error
    if not stat.S_ISREG(mode):
        raise Refused(f"{path} exists and is not a plain file; name another one")
    if not force:
        raise Refused(f"{path} exists; name another file, or replace it with --force")


def sibling_of(path: str) -> str:
    """A new hidden name beside `path`."""
    return f"{os.path.dirname(os.path.abspath(path))}/.locus-export-{os.urandom(8).hex()}"


def sync_directory(path: str) -> None:
    sync(path, os.O_DIRECTORY)


def sync(path: str, flags: int = 0) -> None:
    """Make the file or directory at `path` durable."""
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | flags)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


@contextmanager
def disk_errors(path: str) -> Iterator[None]:
    """Raise errors of the disk while `path` is written as EventLogError, except for a closed pipe."""
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        raise _refused(path, error) from error


def _take_name(sibling: str, path: str, force: bool) -> None:
    if force:
        os.rename(sibling, path)
        return
    try:
        os.link(sibling, path, follow_symlinks=False)
    except FileExistsError:
        raise Refused(f"{path} exists by now; name another file, or replace it with --force") from None
    except OSError as error:
        if error.errno not in _NO_LINKS:
            raise
        # As on a FAT file system: an empty file takes the name first, which still excludes others.
        os.close(os.open(path, _NEW_FILE, 0o600))
        os.rename(sibling, path)


def _unlink(path: str) -> None:
    try:
        os.unlink(path)
    except OSError:
        pass  # renamed, or on a disk that takes no more changes


def _refused(path: str, error: OSError) -> EventLogError:
    return EventLogError(
        f"{path} cannot be written: {error.strerror or error}. Nothing was exported; check the disk and "
        "its permissions, and export again."
    )
