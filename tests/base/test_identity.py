"""The STORE file, and how a store is found."""

import os
import subprocess

import pytest

from eventlog.base import identity
from eventlog.base.errors import Corruption, NoStore, Refused
from eventlog.base.fs import REAL
from eventlog.base.identity import Identity
from eventlog.base.layout import Layout
from eventlog.store import Store


def _identity() -> Identity:
    return Identity(bytes(range(16)), "0123456789ab", "roots", "locus", 1_790_000_000_000_000)


def test_store_file_round_trips() -> None:
    """What is written to STORE is what is read back."""
    decoded = identity.decode(identity.encode(_identity()), "STORE")

    assert [getattr(decoded, name) for name in Identity.__slots__] == [
        getattr(_identity(), name) for name in Identity.__slots__
    ]


def test_every_single_bit_flip_of_store_is_detected() -> None:
    """I11: a STORE file with any one bit changed is damage, never half-believed, never a newer version."""
    data = identity.encode(_identity())
    for bit in range(len(data) * 8):
        flipped = bytearray(data)
        flipped[bit // 8] ^= 1 << bit % 8

        with pytest.raises(Corruption):
            identity.decode(bytes(flipped), "STORE")


def test_every_truncation_of_store_is_detected() -> None:
    """I11: a STORE file that lost its end is refused."""
    data = identity.encode(_identity())
    for size in range(len(data)):
        with pytest.raises(Corruption):
            identity.decode(data[:size], "STORE")


def test_init_twice_opens_the_same_store(tmp_path) -> None:
    """`init` in a store changes nothing: the identity stays."""
    first = Store.init(tmp_path / ".locus")
    second = Store.init(tmp_path / ".locus")

    assert first.identity.store_id == second.identity.store_id


def test_a_store_is_private_and_ignores_itself(tmp_path) -> None:
    """P5: directories are 0700, files 0600, and git ignores the whole store."""
    store = Store.init(tmp_path / ".locus")
    store.append([{"event_type": "decision", "payload": {"decision": "x"}}])
    modes = set()
    for directory, _, files in os.walk(store.layout.root):
        modes.add(("directory", os.stat(directory).st_mode & 0o777))
        modes.update(("file", os.stat(f"{directory}/{name}").st_mode & 0o777) for name in files)

    assert modes == {("directory", 0o700), ("file", 0o600)}
    with open(store.layout.gitignore, encoding="ascii") as file:
        assert "*" in file.read().splitlines()


@pytest.mark.parametrize("place", ["/", "~"])
def test_home_and_root_are_refused(place: str) -> None:
    """A store that would record a whole home directory or machine needs --force."""
    with pytest.raises(Refused, match="--force"):
        Store.init(os.path.join(os.path.expanduser(place), ".locus-never-made"))


def test_no_store_says_how_to_make_one(tmp_path) -> None:
    """Outside any store the error names `locus init`."""
    with pytest.raises(NoStore, match="locus init"):
        Store.open(tmp_path / ".locus")


def test_the_nearest_store_upwards_is_found(tmp_path) -> None:
    """A command below the repository's root finds the store at the root."""
    store = Store.init(tmp_path / ".locus")
    below = tmp_path / "src" / "deep"
    below.mkdir(parents=True)

    assert identity.find(str(below), {}) == store.layout.root


def test_locus_dir_outranks_the_search(tmp_path) -> None:
    """LOCUS_DIR names the store, wherever the command runs."""
    Store.init(tmp_path / ".locus")

    assert identity.find(str(tmp_path), {"LOCUS_DIR": "/somewhere/else"}) == "/somewhere/else"


def test_a_linked_worktree_uses_the_main_worktrees_store(tmp_path) -> None:
    """One repository has one store: a linked git worktree finds that of the main worktree."""
    main = tmp_path / "main"
    git = ["git", "-C", str(main), "-c", "user.name=t", "-c", "user.email=t@example.invalid"]
    subprocess.run(["git", "init", "-q", str(main)], check=True)
    subprocess.run([*git, "commit", "-q", "--allow-empty", "-m", "first"], check=True)
    subprocess.run([*git, "worktree", "add", "-q", str(tmp_path / "linked")], check=True)
    store = Store.init(main / ".locus")

    assert identity.find(str(tmp_path / "linked"), {}) == store.layout.root


def test_foreign_files_in_the_store_are_left_alone(tmp_path) -> None:
    """S1-40, S1-61: `locus.db` and its neighbours survive everything that Locus does beside them."""
    foreign = {"locus.db": b"edit history", "locus_graph_cache.db": b"queue"}
    (tmp_path / ".locus").mkdir()
    for name, data in foreign.items():
        (tmp_path / ".locus" / name).write_bytes(data)
    with Store.init(tmp_path / ".locus") as store:
        store.append([{"event_type": "decision", "payload": {"decision": "x"}}])
        store.seal()
        store.rebuild()
        assert store.verify("read") == []

    assert {name: (tmp_path / ".locus" / name).read_bytes() for name in foreign} == foreign


def test_store_names_parse_back() -> None:
    """Every name that the layout makes is parsed by it, and a foreign name by none."""
    from eventlog.base import layout

    made = Layout("/s")
    assert layout.parse_journal(os.path.basename(made.journal(7))) == 7
    assert layout.parse_manifest(os.path.basename(made.manifest(8))) == 8
    assert layout.parse_idx(os.path.basename(made.idx(9))) == 9
    assert layout.parse_segment(layout.segment_name(1, 5, "0" * 16)) == (1, 5, "0" * 16)
    assert layout.parse_index(layout.index_name(3, "a" * 8)) == (3, "a" * 8)
    assert layout.parse_pack(os.path.basename(made.pack("f" * 64))) == "f" * 64
    parsers = [getattr(layout, name) for name in dir(layout) if name.startswith("parse_")]
    assert [parse("locus.db") for parse in parsers] == [None] * len(parsers)
    assert REAL.exists("/")
