"""Copying files of a store to another directory: each is there whole under its name, or not at all.

A copy is written under `tmp/` of the target, hashed on the way, synced, and renamed to its name; the caller
syncs the directory when it relies on the name. `rename` may be used here although a store commits by `link`
only: a lock makes the writer of a copy the only one, and a disk without links can hold a copy too. A failure
to read and a failure to write are different errors, because they concern different disks.
"""

import errno
import os

from blake3 import blake3

from eventlog.base.errors import EventLogError, Refused, why_unreadable
from eventlog.base.fs import FileSystem, hash_file, write_all
from eventlog.base.layout import Layout
from eventlog.log.frame import NO_DIGEST, JournalHeader, encode_header

TMP_PREFIX = "backup-"
_CHUNK = 1 << 20

# Why a file cannot have a second name: another disk, a disk without links, or too many names already.
_NO_LINK = frozenset((errno.EXDEV, errno.EPERM, errno.EOPNOTSUPP, errno.EMLINK, errno.ENOSYS))


# What a store has beside log and contents, and a copy needs too.
COPIED_FILES = ("config.toml", "keep-ignored", "redaction.key", "erased", "erased.copy")


def refuse_inside(source: str, dest: str, what: str) -> None:
    """Raises: Refused where a copy of `what` would be inside of it."""
    real, inside = os.path.realpath(source), os.path.realpath(dest)
    if inside == real or inside.startswith(real + "/"):
        raise Refused(f"{dest} is inside {what}; choose a directory elsewhere")


class UnreadableSource(EventLogError):
    """The source of a copy cannot be read; nothing got a name."""

    def __init__(self, path: str, error: OSError) -> None:
        super().__init__(f"{path}: {why_unreadable(error)}; see to that, then try again")
        self.gone = isinstance(error, FileNotFoundError)


class Copier:
    """Puts files below the directory of `target`, which its user has locked."""

    def __init__(self, fs: FileSystem, target: Layout) -> None:
        self._fs = fs
        self._target = target
        self._made = 0
        self.bytes = 0  # written
        self.linked = 0  # files that got a second name instead

    def clean(self) -> None:
        """Remove what a copy that was killed left in `tmp/`."""
        for name in self._fs.listdir(self._target.directory("tmp")):
            if name.startswith(TMP_PREFIX):
                self._fs.unlink(self._target.tmp(name))

    def copy(self, source: str, target: str, *, size: "int | None" = None) -> str:
        """Copy a file, or its first `size` bytes; the digest of what was copied.

        Raises: UnreadableSource; OSError of the target.
        """
        fs = self._fs
        fd = self._open(source)
        try:
            tmp, out = self._create()
            try:
                digest = blake3()
                offset = 0
                while size is None or offset < size:
                    data = self._read(
                        fd, source, _CHUNK if size is None else min(_CHUNK, size - offset), offset
                    )
                    if not data:
                        break
                    digest.update(data)
                    write_all(fs, out, data, offset)
                    offset += len(data)
                self._finish(out, tmp, target)
            except BaseException:
                self._drop(out, tmp)
                raise
        finally:
            fs.close(fd)
        self.bytes += offset
        return digest.hexdigest()

    def write(self, target: str, data: bytes) -> None:
        """Write a file of these bytes, replacing the one of that name."""
        tmp, out = self._create()
        try:
            write_all(self._fs, out, data)
            self._finish(out, tmp, target)
        except BaseException:
            self._drop(out, tmp)
            raise
        self.bytes += len(data)

    def write_stub(self, store_id: bytes, number: int, base: int, *, replaces: "int | None" = None) -> None:
        """Write a journal without frames, which begins at position `base`."""
        key = self._fs.random_bytes(32)
        header = JournalHeader(store_id, number, base, NO_DIGEST, key, bytes(16), replaces)
        self.write(self._target.journal(number), encode_header(header))

    def link(self, source: str, target: str) -> bool:
        """Give the file of `source` a second name, `target`; False where that cannot be."""
        try:
            self._fs.link(source, target)
        except FileExistsError:
            return False  # of another size or content, or it would not have come to this
        except OSError as error:
            if error.errno in _NO_LINK:
                return False
            raise
        self.linked += 1
        return True

    def hash(self, path: str) -> str:
        """The digest of a file. Raises: UnreadableSource."""
        try:
            return hash_file(self._fs, path)
        except OSError as error:
            raise UnreadableSource(path, error) from error

    def _open(self, path: str) -> int:
        try:
            return self._fs.open(path, os.O_RDONLY)
        except OSError as error:
            raise UnreadableSource(path, error) from error

    def _read(self, fd: int, path: str, size: int, offset: int) -> bytes:
        try:
            return self._fs.pread(fd, size, offset)
        except OSError as error:
            raise UnreadableSource(path, error) from error

    def _create(self) -> tuple[str, int]:
        self._made += 1
        tmp = self._target.tmp(f"{TMP_PREFIX}{self._made}")
        return tmp, self._fs.open(tmp, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)

    def _finish(self, out: int, tmp: str, target: str) -> None:
        self._fs.fsync(out)
        self._fs.rename(tmp, target)
        self._fs.close(out)

    def _drop(self, out: int, tmp: str) -> None:
        self._fs.close(out)
        try:
            self._fs.unlink(tmp)
        except OSError:
            pass  # the next run cleans it, and it must not hide what happened
