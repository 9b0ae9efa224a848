"""`locus store backup`, `repair` and `salvage`."""

import json
from pathlib import Path

import pytest

from tests.cli.support import Locus
from tests.maintenance.support import append, make_store, snapshot


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
    listed = [locus("--store", at, "log", "--json").out for at in (root, tmp_path / "copy")]
    assert listed[0] == listed[1] != b""
    assert "up to position 6" in locus("store", "backup", tmp_path / "copy").err
    refused = locus("store", "backup", root / "copy")
    assert (refused.code, refused.err.count("\n")) == (3, 1)
    flip(only(root / "snapshots/packs"))
    damaged = locus("store", "backup", tmp_path / "second")
    assert (damaged.code, "damaged: " in damaged.err) == (12, True)


def test_a_repair_shows_its_plan_and_acts_only_with_consent(root: Path, locus: Locus) -> None:
    """P8, I10: `store repair` prints what is wrong and lost, and changes nothing; --yes does it."""
    assert locus("store", "repair").code == 0
    segment = only(root / "log/segments")
    flip(segment, segment.stat().st_size // 2)
    shown = locus("store", "repair", "--dry-run")
    assert (shown.code, "lost: the events at positions 0 to 4" in shown.text) == (12, True)
    assert locus("store", "verify", "--read").code == 12
    assert locus("store", "repair", "--dry-run", "--yes").code == 2
    done = locus("store", "repair", "--yes", "--json")
    assert (done.code, json.loads(done.out)["repair"]["moved"]) == (0, [segment.name])
    assert locus("store", "verify", "--read").code == 0
    assert (root / "log/quarantine" / segment.name).exists()


def test_a_broken_manifest_is_reported_with_the_word_that_is_needed(root: Path, locus: Locus) -> None:
    """I16: without --accept-older a repair that goes back is refused (3); with it the log is whole again."""
    before = locus("log", "--json").out
    flip(only(root / "log/manifest"))
    assert locus("log").code == 12
    assert "--accept-older" in locus("store", "repair").err
    assert locus("store", "repair", "--yes").code == 3
    assert locus("store", "repair", "--yes", "--accept-older").code == 0
    assert locus("log", "--json").out == before


def test_a_salvage_needs_no_store_file(root: Path, tmp_path: Path, locus: Locus) -> None:
    """P8: `store salvage DEST` saves what verifies, also without STORE; 4 when something stayed behind."""
    before = locus("log", "--json").out
    (root / "STORE").unlink()
    assert locus("--store", root, "store", "salvage", tmp_path / "saved").code == 0
    assert locus("--store", tmp_path / "saved", "log", "--json").out == before
    flip(only(root / "snapshots/packs"))
    partial = locus("--store", root, "store", "salvage", tmp_path / "partly", "--json")
    assert (partial.code, json.loads(partial.out)["salvage"]["events"]) == (4, 6)
    assert locus("--store", root, "store", "salvage", tmp_path / "partly").code == 3
