"""A limit on the size of files, and a full disk, over everything that a store can do: I35.

The limit is RLIMIT_FSIZE in a process of its own, which meets every write, DuckDB's too. The full disk is a
file system that takes so many bytes more and then none. Whatever it is that does not fit, the answer is one
of our errors with what to do, the store can be read, and goes on when there is room again.
"""

import errno
import os
import random
import resource
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from eventlog.base.errors import EventLogError
from eventlog.base.fs import FileSystem
from eventlog.store import Store
from tests.operations import OPERATIONS, PREPARE, READING, Scene, check, copy_of, make

# What it takes to begin with is not what is limited.
LIMITED = [name for name in OPERATIONS if name not in READING and name not in PREPARE]
HUNT = bool(os.environ.get("LOCUS_HUNT"))
SEED = int(os.environ.get("LOCUS_SEED", "1"))


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Scene:
    return make(tmp_path_factory.mktemp("limits"))


def some(names: list[str], count: int) -> list[str]:
    return names if HUNT else random.Random(SEED).sample(names, count)


class Full(FileSystem):
    """A disk with room for so many bytes."""

    def __init__(self, room: int) -> None:
        self.room = room

    def pwrite(self, fd: int, data: "bytes | memoryview", offset: int) -> int:
        if self.room <= 0:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        written = super().pwrite(fd, bytes(data)[: self.room], offset)
        self.room -= written
        return written


def after(template: Scene, directory: Path, name: str, attempt: Callable[[Scene], None]) -> None:
    """Attempt it where something does not fit, then read, then do it where there is room."""
    scene = copy_of(template, directory, name)
    attempt(scene)
    check(scene, False)
    with Store.open(scene.root) as store:
        OPERATIONS[name](scene, store)
    check(scene, True)


@pytest.mark.slow
@pytest.mark.parametrize("name", some(LIMITED, 4))
def test_a_full_disk_leaves_a_store_that_can_be_read(name: str, template: Scene, tmp_path: Path) -> None:
    """I1, I35: the disk is full after so many bytes; then there is room again."""
    refused = 0
    for room in (0, 1, 150, 3000) if HUNT else (0, 700):

        def attempt(scene: Scene, room: int = room) -> None:
            nonlocal refused
            with Store.open(scene.root, fs=Full(room)) as store:
                try:
                    OPERATIONS[name](scene, store)
                except EventLogError as error:
                    assert "again" in str(error) or "free" in str(error), error
                    refused += 1

        after(template, tmp_path / "full", name, attempt)
    assert refused or name == "maintain"  # which never complains


@pytest.mark.parametrize("name", some(LIMITED, 4))
def test_a_limit_on_file_sizes_leaves_a_store_that_can_be_read(
    name: str, template: Scene, tmp_path: Path
) -> None:
    """I1, I35: no file may grow beyond the limit, whoever writes it; without the limit it goes on."""
    for limit in (100, 500, 2000, 30_000) if HUNT else (1000,):  # what the works write themselves is less

        def attempt(scene: Scene, limit: int = limit) -> None:
            pid = os.fork()
            if pid == 0:
                code = 1
                try:
                    signal.alarm(120)
                    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
                    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, resource.RLIM_INFINITY))
                    with Store.open(scene.root) as store:
                        try:
                            OPERATIONS[name](scene, store)
                        except EventLogError as error:
                            assert str(error)
                    code = 0
                finally:
                    os._exit(code)
            assert os.waitpid(pid, 0)[1] == 0

        after(template, tmp_path / "limited", name, attempt)
