"""Older manifests, and which of them a reader has pinned: for callers that unlink files of the log (I17).

The caller holds the maintain lock. A pin is a shared lock on a manifest. Manifests that nobody has pinned
stay exclusively locked while the files go: a reader that comes too late meets the lock or a missing name,
and starts again.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from eventlog.base.fs import FileSystem
from eventlog.base.layout import MANIFEST_DIR, StoreFiles
from eventlog.log import manifest as manifests


@dataclass(frozen=True, slots=True)
class Older:
    """The numbers of the manifests before the current one, ascending."""

    free: tuple[int, ...]  # locked exclusively
    pinned: tuple[int, ...]


@contextmanager
def held(files: StoreFiles, current: int) -> Iterator[Older]:
    """Lock every manifest before the number `current` that nobody reads, as long as the block runs.

    The manifest `current` itself is durable then.
    """
    # The process that committed it may have died before it synced the name: older ones would count again.
    fs = files.fs
    fs.fsync_dir(files.layout.directory(MANIFEST_DIR))
    descriptors: list[int] = []
    free: list[int] = []
    pinned: list[int] = []
    try:
        for number in manifests.numbers(files):
            if number < current:
                got = lock(fs, files.layout.manifest(number), descriptors)
                (free if got else pinned).append(number)
        yield Older(tuple(free), tuple(pinned))
    finally:
        for fd in descriptors:
            fs.close(fd)


def lock(fs: FileSystem, path: str, descriptors: list[int]) -> bool:
    """Try to lock a file exclusively; its descriptor joins `descriptors` either way."""
    fd = fs.open(path, os.O_RDONLY)
    descriptors.append(fd)
    return fs.flock(fd, exclusive=True)
