"""`locus store backup`, `repair` and `salvage`."""

import json
from pathlib import Path

import pytest

from tests.cli.support import Locus
from tests.keep.support import append, make_store, snapshot


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A store with a segment and a tail; the working directory is beside it."""
    made = tmp_path / "work/.locus"
    made.parent.mkdir()
    with make_store(made) as store:
        snapshot(store, 0)
        append(store, 1, 3)
        store.seal()
        append(store, 4)
    monkeypatch.chdir(made.parent)
    return made


def flip(path: Path, at: int = 40) -> None:
    data = bytearray(path.read_bytes())
    data[at] ^= 1
    path.write_bytes(data)


def only(directory: Path) -> Path:
    (found,) = directory.iterdir()
    return found


def test_a_backup_is_read_with_the_store_option(root: Path, tmp_path: Path, locus: Locus) -> None:
    """P8: `store backup DEST` says what it did; the copy answers as the store; 3 refused, 12 damaged."""
    done = locus("store", "backup", tmp_path / "copy", "--json")
    assert (done.code, json.loads(done.out)["backup"]["next_position"]) == (0, 6)
    said = [locus("--store", at, "log", "--json").out for at in (root, tmp_path / "copy")]
    assert said[0] == said[1] != b""
    assert "up to position 6" in locus("store", "backup", tmp_path / "copy").err
    refused = locus("store", "backup", root / "copy")
    assert (refused.code, refused.err.count("\n")) == (3, 1)
    flip(only(root / "snapshots/packs"))
    damaged = locus("store", "backup", tmp_path / "second")
    assert (damaged.code, "damaged: " in damaged.err) == (12, True)
