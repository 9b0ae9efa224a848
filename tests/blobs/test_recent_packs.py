"""The tables of small packs in one file: what it spares, and that nothing hangs on it."""

import os
import random

import pytest

from eventlog.base.fs import FileSystem
from eventlog.base.layout import Layout
from eventlog.blobs.store import BlobStore
from tests.blobs.support import open_store, pack_paths, put_all
from tests.conftest import files_of


class Opening(FileSystem):
    """Counts the packs that are opened."""

    packs = 0

    def open(self, path: str, flags: int, mode: int = 0o600) -> int:
        self.packs += path.endswith(".evp")
        return super().open(path, flags, mode)


def opened_by_a_put(layout: Layout, content: bytes) -> int:
    fs = Opening()
    with BlobStore(files_of(fs, layout)) as store, store.writer() as writer:
        writer.put(content)
        writer.flush()
    return fs.packs


@pytest.fixture
def contents(layout: Layout) -> list[bytes]:
    """Nine of them, each in a pack of its own."""
    found = [b"content %d" % n for n in range(9)]
    for content in found:
        with open_store(layout) as store:
            put_all(store, content)
    assert len(pack_paths(layout)) == 9
    return found


def test_a_writer_opens_no_recent_pack(layout: Layout, contents: list[bytes]) -> None:
    """Nine small packs are known from one file; what they hold is found, read and not stored again (I25)."""
    assert opened_by_a_put(layout, b"one more") == 0
    assert opened_by_a_put(layout, contents[3]) == 0
    assert len(pack_paths(layout)) == 10
    with open_store(layout) as store:
        assert [store.get(id) for id in put_all(store, *contents)] == contents
    assert len(pack_paths(layout)) == 10


def test_the_file_may_be_gone_or_damaged(layout: Layout, contents: list[bytes]) -> None:
    """I22: whatever happens to it, packs answer, and the next writer makes it again."""
    rng = random.Random(7)
    with open(layout.recent_packs, "rb") as file:
        good = file.read()
    damaged = [b"", good[:-5], good + b"\0" * 9, b"x" + good]
    for _ in range(8):
        at = rng.randrange(len(good))
        damaged.append(good[:at] + bytes([good[at] ^ 1 << rng.randrange(8)]) + good[at + 1 :])
    for number, data in enumerate(damaged):
        with open(layout.recent_packs, "wb") as out:
            out.write(data)
        with open_store(layout) as store:
            ids = put_all(store, *contents)
            assert [store.get(id) for id in ids] == contents
        opened_by_a_put(layout, b"new %d" % number)
        assert opened_by_a_put(layout, b"newer %d" % number) == 0
        os.unlink(layout.recent_packs)
        assert opened_by_a_put(layout, b"newest %d" % number) > 0
        assert opened_by_a_put(layout, b"last %d" % number) == 0


def test_a_pack_that_is_gone_holds_nothing(layout: Layout, contents: list[bytes]) -> None:
    """A record without its pack means nothing, so the content is stored again (I24)."""
    for path in pack_paths(layout):
        os.unlink(path)
    with open_store(layout) as store:
        assert [store.get(id) for id in put_all(store, *contents)] == contents


def test_an_idx_takes_its_place(layout: Layout, contents: list[bytes]) -> None:
    """Making an idx removes the file; packs made after it begin a new one."""
    with open_store(layout) as store:
        store.build_idx()
    assert not os.path.exists(layout.recent_packs)
    assert opened_by_a_put(layout, b"one") == 0
    assert opened_by_a_put(layout, b"two") <= 1
    assert opened_by_a_put(layout, b"three") == 0
