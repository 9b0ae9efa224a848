"""Permissions: what is narrower than git's two modes is kept, and nothing comes back wider (I27)."""

import os
import stat
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eventlog.base.errors import Corruption, InvalidEvent
from eventlog.base.layout import DIRECTORIES, Layout
from eventlog.blobs.deferred import DeferredFile, decode_list, encode_list
from eventlog.blobs.ids import blob_id, tree_id
from eventlog.blobs.tree import (
    DIRECTORY,
    EXECUTABLE,
    FILE,
    FILES,
    MODE_OF_KIND,
    SYMLINK,
    TreeEntry,
    decode_tree,
    encode_tree,
    has_modes,
    kind_of_mode,
    mode_of_directory,
    plain_kind,
    size_of_directory,
)
from eventlog.checkout.materialize import materialize
from eventlog.worktree.contents import Deferral
from tests.worktree.support import Bench, age

# A user who is not root reads only what its owner may read, and enters only what its owner may enter.
OWNER = 0 if os.geteuid() == 0 else 0o400
MODES = st.integers(0, 0o7777).map(lambda mode: mode | OWNER)


@pytest.fixture
def bench(layout: Layout, tmp_path: Path) -> Bench:
    return Bench(layout, tmp_path / "work", modes=True)


def mode_at(path: Path) -> int:
    return stat.S_IMODE(path.lstat().st_mode)


def test_a_tree_of_gits_two_modes_is_encoded_as_ever() -> None:
    """Byte for byte what earlier versions made: these were written down before modes were kept."""
    entries = [
        TreeEntry(b"run.sh", EXECUTABLE, bytes(range(32)), 3),
        TreeEntry(b"d", DIRECTORY, bytes(32)),
        TreeEntry(b"a", FILE, b"\xff" * 32, 258),
        TreeEntry(b"l", SYMLINK, b"\x01" * 32, 1),
    ]
    encoding = bytes.fromhex(
        "5401"
        "66" "0201000000000000" + "ff" * 32 + "0100" "61"
        "64" "0000000000000000" + "00" * 32 + "0100" "64"
        "6c" "0100000000000000" + "01" * 32 + "0100" "6c"
        "78" "0300000000000000" + bytes(range(32)).hex() + "0600" "72756e2e7368"
    )  # fmt: skip
    assert encode_tree(entries) == encoding
    assert tree_id(encoding).hex() == "1664807d5ac179e55e951430519b0531f73923880888f6a1e68d388f87a5ce50"
    assert not has_modes(encoding)


def test_no_mode_becomes_wider_and_every_narrower_one_is_kept() -> None:
    """Of all modes there are: what comes back lacks no bit of git's two that was there, and adds none."""
    for mode in range(0o10000):
        kind = kind_of_mode(mode)
        back = MODE_OF_KIND[kind]
        whole = 0o755 if mode & 0o100 else 0o644
        assert back & ~mode == 0 and back == mode & whole
        assert plain_kind(kind) == (EXECUTABLE if mode & 0o100 else FILE)
        assert (kind in (FILE, EXECUTABLE)) == (mode & whole == whole)
        size = size_of_directory(mode | stat.S_IFDIR)
        assert mode_of_directory(size) == mode & 0o755
        assert (size == 0) == (mode & 0o755 == 0o755)


@given(kind=st.sampled_from(sorted(FILES)), mode=st.integers(0, 0o777))
def test_modes_survive_encoding(kind: bytes, mode: int) -> None:
    """A tree gives back the kinds and directories' modes that went in, and says whether it has any."""
    size = size_of_directory(mode)
    entries = (TreeEntry(b"d", DIRECTORY, bytes(32), size), TreeEntry(b"f", kind, bytes(32), 5))
    encoding = encode_tree(entries)
    assert decode_tree(encoding) == entries
    assert has_modes(encoding) == (kind not in (FILE, EXECUTABLE) or size != 0)
    row = DeferredFile((b"a", kind, 1, 2, 3, 4, None))
    assert decode_list(encode_list([row])) == (row,)


@pytest.mark.parametrize(
    "entry",
    [
        *(TreeEntry(b"f", bytes((kind,)), bytes(32)) for kind in (0x81, 0x84, 0xFF)),
        *(TreeEntry(b"d", DIRECTORY, bytes(32), size) for size in (1, 0o755, 0o040755, 0o040777, 0o140700)),
    ],
)
def test_a_mode_has_one_spelling(entry: TreeEntry) -> None:
    """P7: bits that a kind of file never has, and a directory's usual mode spelled out, are refused."""
    with pytest.raises(InvalidEvent):
        encode_tree([entry])
    raw = entry.kind + entry.size.to_bytes(8, "little") + entry.id + b"\1\0" + entry.name
    with pytest.raises(Corruption):
        decode_tree(b"T\x01" + raw)


@given(file=MODES, other=MODES, directory=MODES.map(lambda mode: mode | 0o500))
def test_a_replay_is_never_wider_than_the_directory(
    tmp_path_factory: pytest.TempPathFactory, file: int, other: int, directory: int
) -> None:
    """P1: any modes, captured and written out: no bit that was not there, and all of git's that were."""
    place = tmp_path_factory.mktemp("modes")
    for name in ("", *DIRECTORIES):
        (place / ".locus" / name).mkdir()
    bench = Bench(Layout(str(place / ".locus")), place / "work", modes=True)
    inside = bench.work / "d"
    inside.mkdir()
    modes = {bench.work / "f": file, inside / "g": other, inside: directory}
    for path in modes:
        if path != inside:
            path.write_bytes(path.name.encode())
        path.chmod(modes[path])
    bench.capture()
    before = os.umask(0)
    try:
        with bench.open() as blobs:
            assert bench.last is not None
            report = materialize(blobs, bench.last, str(place / "out"))
    finally:
        os.umask(before)
    assert report.missing == [] and report.files == 2
    for path, mode in modes.items():
        back = mode_at(place / "out" / path.relative_to(bench.work))
        whole = 0o755 if path == inside or mode & 0o100 else 0o644
        assert back == mode & whole
    os.chmod(inside, 0o700)
    os.chmod(place / "out/d", 0o700)


def test_a_change_of_modes_alone_is_seen(bench: Bench) -> None:
    """A quick scan after a chmod tells `mode` for a file, and makes another tree for a directory."""
    (bench.work / "d").mkdir()
    (bench.work / "d/secret").write_bytes(b"s")
    (bench.work / "plain").write_bytes(b"p")
    age(bench.work)
    first = bench.capture().root
    (bench.work / "d/secret").chmod(0o600)
    done = bench.capture()
    assert [(change.operation, change.path) for change in done.changes] == [("mode", b"d/secret")]
    assert done.read_bytes <= 1 and done.files == 2
    (bench.work / "d").chmod(0o700)
    private = bench.capture()
    assert private.root != done.root and private.changes == []
    assert bench.uncached().root == private.root
    (bench.work / "d").chmod(0o755)
    (bench.work / "d/secret").chmod(0o644)
    assert bench.capture().root == first


def test_a_store_without_the_feature_keeps_gits_two_modes(layout: Layout, tmp_path: Path) -> None:
    """What an earlier Locus must be able to read says no more than it knows."""
    bench = Bench(layout, tmp_path / "work")
    (bench.work / "d").mkdir(mode=0o700)
    (bench.work / "d/secret").write_bytes(b"s")
    (bench.work / "d/secret").chmod(0o600)
    bench.capture()
    assert bench.last is not None
    with bench.open() as blobs:
        (top,) = blobs.get_tree(bench.last)
        (below,) = blobs.get_tree(top.id)
    assert top == TreeEntry(b"d", DIRECTORY, top.id) and below == TreeEntry(b"secret", FILE, blob_id(b"s"), 1)


def test_a_private_file_is_never_open_to_others_while_it_is_written(bench: Bench, tmp_path: Path) -> None:
    """It is created with its mode, and a private directory is private from the start."""
    from eventlog.worktree.userfiles import UserFiles

    (bench.work / "d").mkdir(mode=0o700)
    (bench.work / "d/secret").write_bytes(b"s")
    (bench.work / "d/secret").chmod(0o600)
    bench.capture()
    seen = []

    class Watches(UserFiles):
        def write(self, fd: int, data: bytes | memoryview) -> int:
            seen.append((stat.S_IMODE(os.fstat(fd).st_mode), mode_at(tmp_path / "out/d")))
            return super().write(fd, data)

    before = os.umask(0)
    try:
        with bench.open() as blobs:
            assert bench.last is not None
            materialize(blobs, bench.last, str(tmp_path / "out"), calls=Watches())
    finally:
        os.umask(before)
    assert seen == [(0o600, 0o700)]


def test_a_deferred_content_keeps_its_mode(bench: Bench) -> None:
    """P1: the list of what is stored later says the mode; what a plan saw of the file says nothing of it."""
    path = bench.work / "large"
    path.write_bytes(bytes(2 << 20))
    path.chmod(0o600)
    done = bench.capture(deferral=Deferral())
    assert [(row.path, row.kind) for row in done.new_deferred] == [(b"large", kind_of_mode(0o600))]


def test_a_cache_of_a_plan_does_not_open_a_private_file(bench: Bench) -> None:
    """It has two kinds; a capture that believes its contents takes the mode from the file."""
    path = bench.work / "f"
    path.write_bytes(b"f")
    path.chmod(0o600)
    age(bench.work)
    bench.modes = False
    bench.capture()  # with these options a row of the file is `f`
    bench.modes = True
    bench.capture(deferral=Deferral(), size_max=1000)  # with others
    assert {p: kind for p, (kind, _) in bench.tree().items()} == {b"f": kind_of_mode(0o600)}
