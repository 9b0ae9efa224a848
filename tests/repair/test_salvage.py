"""Salvage: an equal store from a sound one, what verifies from any other, and never an error of the bytes."""

import errno
import os
import random
import shutil
from pathlib import Path

import pytest

from eventlog.base.errors import NotFound, Refused
from eventlog.base.fs import FileSystem
from eventlog.repair.salvage import NOTE, salvage
from eventlog.store import Store
from locus_cli.main import run
from tests.maintenance.support import append, content, make_store, rows, snapshot

SEED = int(os.environ.get("LOCUS_SEED", "1"))
HUNT = bool(os.environ.get("LOCUS_HUNT"))


@pytest.fixture(scope="module")
def example(tmp_path_factory):
    """A store of two segments, packs, and a tail of two journals."""
    root = tmp_path_factory.mktemp("example") / ".locus"
    with make_store(root) as store:
        for n in range(3):
            snapshot(store, n)
        store.seal()
        append(store, 10, 4)
        store.seal()
        append(store, 30, 3)
        store.journal.rotate()
        snapshot(store, 40)
    return root


def files(root: Path) -> dict[str, bytes]:
    return {str(p.relative_to(root)): p.read_bytes() for p in sorted(root.rglob("*")) if p.is_file()}


def test_a_sound_store_comes_out_equal(example, tmp_path):
    """P2: salvage of an undamaged store is the same log at the same positions, with the same contents, under
    a new id that is noted; the source is not changed."""
    before = files(example)
    report = salvage(example, tmp_path / "saved")
    assert files(example) == before
    assert (report.skipped, report.gaps, report.same_positions) == ([], [], True)
    assert rows(tmp_path / "saved") == rows(example)
    with Store.open(example) as old, Store.open(tmp_path / "saved") as new:
        assert old.identity.store_id != new.identity.store_id
        assert old.repo_hash == new.repo_hash
        assert old.identity.store_id.hex() in (tmp_path / "saved" / NOTE).read_text()
        assert [f for f in new.verify("deep") if f.damage] == []
        new.replay("last", tmp_path / "replayed")
    assert (tmp_path / "replayed/file").read_bytes() == content(40)


def test_repeated_events_that_sealing_left_out_are_not_missed(tmp_path):
    """P4: `locus store salvage` of a sound store ends with 0, also where events were appended twice."""
    root = tmp_path / ".locus"
    with make_store(root) as store:
        append(store, 0, 3)
        append(store, 1, 2)
        append(store, 5)
        append(store, 2)
        store.seal()
        append(store, 6)
    assert run(["--store", str(root), "store", "salvage", str(tmp_path / "saved")]) == 0
    with Store.open(root) as old, Store.open(tmp_path / "saved") as new:
        assert [e["event_id"] for e in new.events()] == [e["event_id"] for e in old.events()]


@pytest.mark.slow
@pytest.mark.parametrize(
    "what", ["STORE", "log/manifest", "log/quarantine", "snapshots/idx", "index", "locks"]
)
def test_what_is_not_the_log_may_be_gone(example, tmp_path, what):
    """Without STORE, manifests or anything derived the log comes out the same."""
    root = tmp_path / "broken"
    shutil.copytree(example, root)
    if (root / what).is_dir():
        shutil.rmtree(root / what)
    else:
        (root / what).unlink()
    salvage(root, tmp_path / "saved")
    assert [e["event_id"] for e in rows(tmp_path / "saved")] == [e["event_id"] for e in rows(example)]


@pytest.mark.slow
def test_whatever_the_bytes_are_what_verifies_is_saved(example, tmp_path):
    """I11: any files flipped, cut, emptied or exchanged: no error, the result verifies, and every event in it
    is one of the source's, in order."""
    chance = random.Random(SEED)
    known = {one["event_id"]: one["payload"] for one in rows(example)}
    order = list(known)
    for number in range(60 if HUNT else 12):
        root, dest = tmp_path / f"broken{number}", tmp_path / f"saved{number}"
        shutil.copytree(example, root)
        names = [p for p in sorted(root.rglob("*")) if p.is_file()]
        for path in chance.sample(names, chance.randrange(1, 5)):
            data = bytearray(path.read_bytes())
            how = chance.randrange(5)
            if how == 0 and data:
                data[chance.randrange(len(data))] ^= 1 << chance.randrange(8)
            elif how == 1:
                del data[chance.randrange(len(data) + 1) :]
            elif how == 2:
                data = bytearray(chance.randbytes(len(data)))
            elif how == 3:
                data = bytearray(chance.choice(names).read_bytes())
            else:
                data += chance.randbytes(100)
            path.write_bytes(data)
        report = salvage(root, dest)
        found = rows(dest)
        assert [known[one["event_id"]] for one in found] == [one["payload"] for one in found], number
        assert [one["event_id"] for one in found] == [i for i in order if i in {o["event_id"] for o in found}]
        assert report.events == len(found)
        with Store.open(dest) as saved:
            assert [f for f in saved.verify("read") if f.damage] == []


def test_files_of_another_store_are_left_behind(example, tmp_path):
    """Events of another store do not come in; its contents, which prove themselves, do no harm."""
    root = tmp_path / "mixed"
    shutil.copytree(example, root)
    with make_store(tmp_path / "other") as other:
        append(other, 500, 3)
        other.seal()
        append(other, 510)
    for path in (tmp_path / "other/log/segments").iterdir():
        shutil.copy(path, root / "log/segments")
    shutil.copy(
        next((tmp_path / "other/log/journal").iterdir()), root / "log/journal/00000000000000000099.evj"
    )
    report = salvage(root, tmp_path / "saved")
    assert rows(tmp_path / "saved") == rows(example)
    assert [what for _, what in report.skipped if "another store" in what]


def test_events_that_two_files_hold_come_once(example, tmp_path):
    """I8: a segment under a second name, and a journal that was sealed already, add nothing."""
    root = tmp_path / "twice"
    shutil.copytree(example, root)
    segment = sorted((root / "log/segments").iterdir())[0]
    shutil.copy(segment, root / "log/quarantine" / segment.name)
    assert salvage(root, tmp_path / "saved").events == len(rows(example))
    assert rows(tmp_path / "saved") == rows(example)


def test_a_place_that_is_taken_is_refused(example, tmp_path):
    """A directory with something in it, or inside the source, is not written to; a source must be there."""
    (tmp_path / "full").mkdir()
    (tmp_path / "full/mine").write_text("mine")
    for dest in (tmp_path / "full", example / "saved"):
        with pytest.raises(Refused):
            salvage(example, dest)
    with pytest.raises(NotFound):
        salvage(tmp_path / "nothing", tmp_path / "saved")


class _Unlisted(FileSystem):
    """A disk that cannot say what is in, or what is, one path."""

    def __init__(self, path: str) -> None:
        self._path = path

    def listdir(self, path: str) -> list[str]:
        if path == self._path:
            raise OSError(errno.EIO, os.strerror(errno.EIO), path)
        return super().listdir(path)

    def lstat(self, path: str) -> os.stat_result:
        if path == self._path:
            raise OSError(errno.EIO, os.strerror(errno.EIO), path)
        return super().lstat(path)


@pytest.mark.parametrize("what", ["log/segments", "log/journal", "snapshots/packs"])
def test_a_directory_that_cannot_be_read_is_reported(example, tmp_path, what):
    """P6, I35: what a disk does not even list is named: nobody takes what came out for everything."""
    report = salvage(example, tmp_path / "saved", fs=_Unlisted(f"{example}/{what}"))

    assert [(path, "disk" in why) for path, why in report.skipped] == [(f"{example}/{what}", True)]
