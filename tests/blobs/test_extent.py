"""A tree is counted before it is written: what is too much for a disk, or for anybody, is refused."""

import os
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eventlog.base.errors import Refused
from eventlog.blobs.extent import DEPTH_MAX, Extent, extent_of, read_directories, wish_of
from eventlog.blobs.ids import blob_id, tree_id
from eventlog.blobs.store import BlobStore
from eventlog.blobs.tree import DIRECTORY, EXECUTABLE, FILE, SYMLINK, TreeEntry, decode_tree, encode_tree
from eventlog.checkout import materialize as materialize_module
from eventlog.checkout.materialize import materialize

Sized = Callable[..., None]


@pytest.fixture
def sized(monkeypatch: pytest.MonkeyPatch) -> Sized:
    """Let every file system have so many bytes, and so many of them free."""

    def size(*, free: int, whole: int = 1 << 40) -> None:
        real = os.statvfs

        def statvfs(path: str) -> os.statvfs_result:
            fields = list(real(path))
            fields[0] = fields[1] = 1  # f_bsize, f_frsize
            fields[2], fields[3], fields[4] = whole, free, free
            return os.statvfs_result(fields)

        monkeypatch.setattr(os, "statvfs", statvfs)

    return size


class Counting:
    """Counts the directories that are read."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.reads = 0
        real = BlobStore.get_tree

        def get_tree(blobs: BlobStore, id: bytes) -> tuple[TreeEntry, ...]:
            self.reads += 1
            return real(blobs, id)

        monkeypatch.setattr(BlobStore, "get_tree", get_tree)


def nested(
    blobs: BlobStore, *, levels: int, names: int, content: bytes = b"x", claimed: int | None = None
) -> bytes:
    """A tree of names^levels files, all of one content."""
    size = len(content) if claimed is None else claimed
    with blobs.writer() as writer:
        root = writer.put_tree([TreeEntry(b"f", FILE, writer.put(content), size)])
        for _ in range(levels):
            root = writer.put_tree([TreeEntry(b"%d" % n, DIRECTORY, root) for n in range(names)])
        writer.flush()
    return root


def test_a_tree_that_names_itself_over_and_over_is_refused_by_counting(blobs, tmp_path, monkeypatch):
    """10^40 files in 40 directories: each directory is read once, and nothing is made."""
    root = nested(blobs, levels=40, names=10)
    counting = Counting(monkeypatch)
    with pytest.raises(Refused, match="more than 10000000 files"):
        materialize(blobs, root, str(tmp_path / "out"))
    assert counting.reads == 41
    assert not (tmp_path / "out").exists()


def test_one_content_under_many_names_is_refused_by_counting(blobs, tmp_path, monkeypatch, sized):
    """A million names of one MiB are a terabyte; the contents' own lengths count, not what the tree says."""
    sized(free=1 << 39)
    root = nested(blobs, levels=3, names=100, content=bytes(1 << 20), claimed=1)
    counting = Counting(monkeypatch)
    monkeypatch.setattr(materialize_module, "_plan_directory", lambda *_: pytest.fail("expanded"))
    with pytest.raises(Refused) as refused:
        materialize(blobs, root, str(tmp_path / "out"))
    assert f"take {10**6 << 20:,} bytes" in str(refused.value) and f"{1 << 39:,} bytes" in str(refused.value)
    assert counting.reads == 4
    assert not (tmp_path / "out").exists()


def test_only_what_is_asked_for_needs_room(blobs, tmp_path, sized):
    """A part of a tree is written where all of it has no room."""
    with blobs.writer() as writer:
        small = writer.put_tree([TreeEntry(b"s", FILE, writer.put(b"1234"), 4)])
        root = writer.put_tree([
            TreeEntry(b"large", FILE, writer.put(bytes(1000)), 1000), TreeEntry(b"d", DIRECTORY, small),
        ])  # fmt: skip
        writer.flush()
    sized(free=1003)
    with pytest.raises(Refused):
        materialize(blobs, root, str(tmp_path / "all"))
    assert materialize(blobs, root, str(tmp_path / "part"), paths=[b"large"]).bytes == 1000
    sized(free=4)
    assert materialize(blobs, root, str(tmp_path / "below"), paths=[b"d/s"]).bytes == 4
    sized(free=1004)
    assert materialize(blobs, root, str(tmp_path / "all")).bytes == 1004


def test_force_needs_no_more_than_the_whole_disk(blobs, tmp_path, sized):
    """What is replaced gives its room back, so only what the file system could never hold is refused."""
    root = nested(blobs, levels=0, names=0, content=bytes(1000))
    sized(free=10, whole=1000)
    assert materialize(blobs, root, str(tmp_path / "out"), force=True).bytes == 1000
    sized(free=10, whole=999)
    with pytest.raises(Refused, match="no larger than 999 bytes"):
        materialize(blobs, root, str(tmp_path / "out"), force=True)


def test_a_file_system_that_tells_no_size_is_written_to(blobs, tmp_path, sized):
    """Some tell zero blocks: then nothing is known, and nothing refused."""
    root = nested(blobs, levels=0, names=0)
    sized(free=0, whole=0)
    assert materialize(blobs, root, str(tmp_path / "out")).files == 1


def test_a_long_chain_is_refused_where_a_short_way_leads_to_its_end_too(blobs, tmp_path):
    """Depth is that of the longest way."""
    with blobs.writer() as writer:
        at = writer.put_tree([])
        middle = at
        for level in range(DEPTH_MAX + 1):
            at = writer.put_tree([TreeEntry(b"d", DIRECTORY, at)])
            middle = at if level == DEPTH_MAX // 2 else middle
        root = writer.put_tree([TreeEntry(b"long", DIRECTORY, at), TreeEntry(b"short", DIRECTORY, middle)])
        writer.flush()
    with pytest.raises(Refused, match="directories deep"):
        materialize(blobs, root, str(tmp_path / "out"))


# -- the count itself --------------------------------------------------------------------------------


class Trees:
    """Directories in memory, the later ones naming earlier ones."""

    def __init__(self, shapes: list[list[int]]) -> None:
        self.of: dict[bytes, bytes] = {}
        self.lengths: dict[bytes, int] = {}
        made: list[bytes] = []
        for shape in shapes:
            entries = []
            for number, what in enumerate(shape):
                name = b"%d" % number
                if what < 0 and made:
                    entries.append(TreeEntry(name, DIRECTORY, made[what % len(made)]))
                else:
                    content = b"%d" % abs(what)
                    self.lengths[blob_id(content)] = abs(what) * 10
                    kind = (FILE, EXECUTABLE, SYMLINK)[what % 3]
                    entries.append(TreeEntry(name, kind, blob_id(content), 7))
            encoding = encode_tree(entries)
            made.append(tree_id(encoding))
            self.of[made[-1]] = encoding
        self.root = made[-1]

    def get(self, id: bytes) -> tuple[TreeEntry, ...]:
        return decode_tree(self.of[id])

    def paths(self, id: bytes, prefix: bytes = b"") -> list[tuple[bytes, TreeEntry]]:
        found = []
        for entry in self.get(id):
            found.append((prefix + entry.name, entry))
            if entry.kind == DIRECTORY:
                found += self.paths(entry.id, prefix + entry.name + b"/")
        return found


class AnyOrder:
    def read_order(self, ids: set[bytes]) -> list[bytes]:
        return sorted(ids)


SHAPES = st.lists(st.lists(st.integers(-6, 6), max_size=4), min_size=1, max_size=6)


@given(shapes=SHAPES, wanted=st.sets(st.integers(0, 50)))
def test_the_count_is_that_of_the_expanded_tree(shapes: list[list[int]], wanted: set[int]) -> None:
    """Whatever is shared, and whichever paths are wanted."""
    trees = Trees(shapes)
    everything = trees.paths(trees.root)
    asked = [everything[n % len(everything)][0] for n in wanted] if everything else []
    # A wish within a wish narrows it (`wanted_of`), so each path is asked for by itself.
    asked = [path for path in asked if not any(path.startswith(other + b"/") for other in asked)]
    wish, top = wish_of(asked), trees.get(trees.root)
    read = read_directories(AnyOrder(), trees.get, top, wish, 10**6)  # type: ignore[arg-type]
    kept = [
        (path, entry) for path, entry in everything
        if not asked
        or any(path == one or path.startswith(one + b"/") or one.startswith(path + b"/") for one in asked)
    ]  # fmt: skip
    files = [entry for _, entry in kept if entry.kind in (FILE, EXECUTABLE)]
    assert extent_of(top, wish, read, trees.lengths) == Extent(
        entries=len(kept),
        bytes=sum(trees.lengths[entry.id] for entry in files),
        depth=1 + max((path.count(b"/") + (e.kind == DIRECTORY) for path, e in kept), default=0),
    )
