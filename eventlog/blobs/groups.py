"""Reads groups out of packs: open descriptors and the groups decompressed last, both bounded.

A `GroupReader` belongs to one thread at a time; make one per thread. It verifies nothing but what
keeps it safe: callers that ask for bytes by id re-hash them. On the hook path.
"""

import os

from eventlog.base.errors import Corruption
from eventlog.base.fs import FileSystem
from eventlog.blobs.pack import (
    FOOTER_SIZE,
    GROUP_HEAD_SIZE,
    GROUP_RAW_MAX,
    check_group,
    decode_group_head,
    decompress,
)

CACHE_BYTES = 64 * 1024 * 1024
_DESCRIPTORS_MAX = 64

# One read that usually covers a group's head and all of its bytes.
_READ_AHEAD = 64 * 1024


class GroupReader:
    """Bytes of raw groups, by pack path and file offset."""

    __slots__ = ("_cache", "_cache_bytes", "_cached", "_files", "_fs")

    def __init__(self, fs: FileSystem, cache_bytes: int = CACHE_BYTES) -> None:
        self._fs = fs
        self._cache_bytes = cache_bytes
        self._cached = 0
        # Both in order of use, the oldest first.
        self._cache: "dict[tuple[str, int], bytes]" = {}
        self._files: "dict[str, tuple[int, int]]" = {}

    def close(self) -> None:
        self._cache.clear()
        self._cached = 0
        while self._files:
            self._fs.close(self._files.popitem()[1][0])

    def read(self, path: str, group_offset: int, offset: int, length: int) -> bytes:
        """`length` bytes at `offset` of the raw group.

        Raises: Corruption; FileNotFoundError when the pack is gone.
        """
        raw = self._raw(path, group_offset, offset, length)
        if offset + length > len(raw):
            raise Corruption(path, "an entry reaches past the end of its group", group_offset)
        return raw[offset : offset + length]  # the very same object when that is all of it

    def _raw(self, path: str, group_offset: int, offset: int, length: int) -> bytes:
        key = (path, group_offset)
        raw = self._cache.pop(key, None)
        if raw is None:
            raw = self._load(path, group_offset, offset, length)
            if len(raw) > self._cache_bytes:
                return raw
            self._cached += len(raw)
            while self._cached > self._cache_bytes:
                oldest = next(iter(self._cache))
                self._cached -= len(self._cache.pop(oldest))
        self._cache[key] = raw
        return raw

    def _load(self, path: str, group_offset: int, offset: int, length: int) -> bytes:
        fd, size = self._file(path)
        data = self._fs.pread(fd, _READ_AHEAD, group_offset)
        group = decode_group_head(data[:GROUP_HEAD_SIZE], path, group_offset)
        check_group(path, group)
        if group_offset + GROUP_HEAD_SIZE + group.stored_size > size - FOOTER_SIZE:
            raise Corruption(path, "a group reaches past the end of its pack", group_offset)
        if group.raw_size > GROUP_RAW_MAX and (offset != 0 or length != group.raw_size):
            raise Corruption(path, f"a group over {GROUP_RAW_MAX} bytes is not one blob", group_offset)
        stored = data[GROUP_HEAD_SIZE : GROUP_HEAD_SIZE + group.stored_size]
        if len(stored) < group.stored_size:
            stored = self._fs.pread(fd, group.stored_size, group_offset + GROUP_HEAD_SIZE)
        return decompress(group, stored, path)

    def _file(self, path: str) -> "tuple[int, int]":
        """(descriptor, size) of a pack."""
        entry = self._files.pop(path, None)
        if entry is None:
            if len(self._files) >= _DESCRIPTORS_MAX:
                oldest = next(iter(self._files))
                self._fs.close(self._files.pop(oldest)[0])
            fd = self._fs.open(path, os.O_RDONLY)
            try:
                entry = fd, self._fs.fstat(fd).st_size
            except BaseException:
                self._fs.close(fd)
                raise
        self._files[path] = entry
        return entry
