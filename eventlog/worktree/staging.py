"""Copies of large files as they are at this moment, made before they are read (docs/certainty.md §3).

A copy is a reflink where the file system supports it, else a copy within the kernel, else by way of this
process. It has no name, so it goes with the process that holds it, and no unscanned byte ever has one (P5). A
copy counts only when the file's stat was that of the list before and after it. On the hook path: a child of
the hook makes them.
"""

import errno
import os
import stat

from eventlog.base.fs import FileSystem, write_all
from eventlog.base.layout import TMP_DIR, Layout
from eventlog.blobs.tree import plain_kind
from eventlog.worktree.contents import kind_of, stat_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from eventlog.blobs.deferred import DeferredFile
    from eventlog.worktree.userfiles import UserFiles

COPIED_BYTES_MAX = 256 << 20  # in one call; reflinks do not count
COPIES_MAX = 128  # descriptors
_PIECE = 8 << 20
# No copy within this kernel, or none between these two file systems.
_NO_COPY = (errno.ENOSYS, errno.EXDEV, errno.EINVAL, errno.EOPNOTSUPP)


def stage(
    fs: FileSystem, layout: Layout, calls: "UserFiles", root: str, files: "Iterable[DeferredFile]"
) -> "dict[bytes, int]":
    """Copy files below `root`, in the order given; path → descriptor of the copy, to be closed by the caller.

    Files that changed, cannot be opened, or do not fit are left out: the storing process reads them itself.
    """
    staged: "dict[bytes, int]" = {}
    bytes_left = COPIED_BYTES_MAX
    for file in files:
        if len(staged) >= COPIES_MAX:
            break
        try:
            source = open_below(calls, root, file.path)
        except OSError:
            continue
        try:
            copy = _unnamed_file(fs, layout)
        except OSError:
            calls.close(source)
            break  # no file can be made there
        copied = -1
        try:
            if is_as_listed(calls.fstat(source), file):
                copied = _copy(fs, source, copy, file.size, bytes_left)
                if not is_as_listed(calls.fstat(source), file):
                    copied = -1
        except OSError:
            copied = -1
        finally:
            calls.close(source)
        if copied < 0:
            fs.close(copy)
        else:
            bytes_left -= copied
            staged[file.path] = copy
    return staged


def _unnamed_file(fs: FileSystem, layout: Layout) -> int:
    """A descriptor of a new file that has no name. Raises: OSError."""
    try:
        return fs.open(layout.directory(TMP_DIR), os.O_RDWR | os.O_TMPFILE)
    except (AttributeError, OSError):
        pass  # not on this system, or not on this file system
    path = layout.tmp(f"copy-{fs.random_bytes(8).hex()}")
    fd = fs.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL)
    try:
        fs.unlink(path)  # before it has a byte
    except OSError:
        fs.close(fd)
        raise
    return fd


def _copy(fs: FileSystem, source: int, copy: int, size: int, bytes_max: int) -> int:
    """Copy a file; the bytes it took, -1 when there are more than `bytes_max`. Raises: OSError."""
    try:
        fs.clone(source, copy)
        return 0
    except OSError:
        pass  # not on this file system
    if size > bytes_max:
        return -1
    offset = 0
    while offset < size:
        copied_size = _copy_piece(fs, source, copy, min(_PIECE, size - offset), offset)
        if copied_size == 0:
            return -1  # it was cut short meanwhile
        offset += copied_size
    return size


def _copy_piece(fs: FileSystem, source: int, copy: int, size: int, offset: int) -> int:
    try:
        return fs.copy_range(source, copy, size, offset)
    except OSError as error:
        if error.errno not in _NO_COPY:
            raise
    data = fs.pread(source, size, offset)
    write_all(fs, copy, data, offset)
    return len(data)


def is_as_listed(file_stat: os.stat_result, file: "DeferredFile") -> bool:
    """Whether a file is still the one of the list, untouched."""
    return (
        stat.S_ISREG(file_stat.st_mode)
        and kind_of(file_stat) == plain_kind(file.kind)
        and stat_of(file_stat) == file.stat
    )


def open_below(calls: "UserFiles", root: str, path: bytes) -> int:
    """A descriptor of the file at a path below `root`, by way of no symlink. Raises: OSError."""
    *above, name = path.split(b"/")
    fd = calls.open_root(root)
    try:
        for part in above:
            below = calls.open_dir(fd, part)
            calls.close(fd)
            fd = below
        return calls.open_file(fd, name)
    finally:
        calls.close(fd)
