"""A file of `index/` that follows from the log and the contents alone, so that it may be deleted (I22).

    MAGIC, the content, the BLAKE3 digest of both (32 bytes)

Any number of processes may read and write; a reader meets a whole file or none. Any thread.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from blake3 import blake3

from eventlog.base.fs import FileSystem, read_file, replace
from eventlog.base.layout import INDEX_DIR, Layout
from eventlog.base.locks import SEARCH, try_acquire

_DIGEST_SIZE = 32


class DerivedFile:
    """One such file, by its name in `index/` and what it begins with."""

    def __init__(self, fs: FileSystem, layout: Layout, name: str, magic: bytes) -> None:
        self._fs = fs
        self._layout = layout
        self._name = name
        self._magic = magic

    def exists(self) -> bool:
        """Whether there is one, of whatever version."""
        return self._fs.exists(self._layout.index(self._name))

    def read(self) -> bytes | None:
        """The content; None where the file is absent, damaged or of another version."""
        try:
            data = read_file(self._fs, self._layout.index(self._name))
        except OSError:
            return None
        body, digest = data[:-_DIGEST_SIZE], data[-_DIGEST_SIZE:]
        if not body.startswith(self._magic) or blake3(body).digest() != digest:
            return None
        return body[len(self._magic) :]

    def write(self, content: bytes) -> None:
        """Replace it. Raises: OSError."""
        fs, directory = self._fs, self._layout.directory(INDEX_DIR)
        if not fs.exists(directory):
            fs.mkdir(directory)
        body = self._magic + content
        tmp = self._layout.tmp(f"index-{self._name}-{fs.random_bytes(8).hex()}")
        replace(fs, tmp, self._layout.index(self._name), body + blake3(body).digest())

    def delete(self) -> None:
        """Raises: OSError."""
        try:
            self._fs.unlink(self._layout.index(self._name))
        except FileNotFoundError:
            pass

    @contextmanager
    def writing(self) -> Iterator[bool]:
        """Whether the caller may write it now: no erasure is under way, and no other process writes derived
        files. Neither begins before the context ends."""
        lock = try_acquire(self._fs, self._layout, SEARCH)
        if lock is None:
            yield False
            return
        with lock:
            yield not self._fs.exists(self._layout.erasing)
