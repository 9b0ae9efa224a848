"""`locus lake replay`: a turn of a store that is gone, from the objects alone (docs/lake.md §7)."""

import os
import shutil
import subprocess
from pathlib import Path

from eventlog import Store
from eventlog.lake.place import Place
from eventlog.lake.replay import find_published_turn, published_tree
from tests.cli.support import Locus
from tests.lake.conftest import S3Server
from tests.lake.published import CountedPlace, listing, publish, recorded

ODD = {
    "README.md": b"hello\n",
    "empty": b"",
    "src/main.py": b"print()\n",
    "src/deep/er/still/x": bytes(range(256)) * 40,
    "name with blank": b"1",
    "new\nline": b"2",
    "naïve-\u2603": b"3",
    "-rf": b"4",
    os.fsdecode(b"not-utf8-\xff\xfe"): b"5",
}


def odd_files(work: Path) -> None:
    """Names, modes and links that a checkout may get wrong."""
    work.mkdir()
    for name, content in ODD.items():
        path = work / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    (work / "run").write_bytes(b"#!/bin/sh\n")
    (work / "run").chmod(0o755)
    os.symlink("src/main.py", work / "link")
    os.symlink("../nowhere/\xff", work / "dangling")
    (work / "hollow").mkdir()


def gone(store: Store) -> None:
    """Close a store and delete it."""
    store.close()
    shutil.rmtree(store.layout.root)


def test_a_turn_of_a_store_that_is_gone(place: Place, tmp_path: Path, locus: Locus) -> None:
    """The end and the start of each turn are what `locus replay` wrote while the store was there."""
    odd_files(tmp_path / "work")
    store = recorded(tmp_path / "work", {}, {"src/main.py": b"print(2)\n", "empty": None})
    publish(place, store)
    cases = [("1", "end"), ("2", "end"), ("2", "start")]
    turn = store.turn("last").name[:-1]
    for number, at in cases:
        done = locus(
            "--store",
            store.layout.root,
            "replay",
            turn + number,
            "--at",
            at,
            "--to",
            tmp_path / f"own{number}{at}",
        )
        assert done.code == 0, done.err
    gone(store)
    for number, at in cases:
        target = tmp_path / f"lake{number}{at}"
        done = locus("lake", "replay", place.uri, turn + number, "--at", at, "--to", target)
        assert done.code == 0, done.err + done.text
        assert listing(target) == listing(tmp_path / f"own{number}{at}")
        diff = ["diff", "-r", "--no-dereference", str(target), str(tmp_path / f"own{number}{at}")]
        assert subprocess.run(diff, capture_output=True, check=False).stdout == b""
    assert len(listing(tmp_path / "lake1end")) >= len(ODD) + 4


def test_many_files_need_few_requests(s3_place: Place, s3: S3Server, tmp_path: Path) -> None:
    """A turn of 600 files in 30 directories: one read of the pack's end, and a few GETs for all trees and all
    files, whatever their number."""
    (tmp_path / "work").mkdir()
    files = {f"d{n % 30}/e{n % 3}/f{n}.txt": b"%d\n" % n * (n % 50) for n in range(600)}
    store = recorded(tmp_path / "work", files)
    publish(s3_place, store)
    counted = CountedPlace(s3_place)
    s3.reset()
    with published_tree(find_published_turn(counted, "last")) as state:
        report = state.materialize(str(tmp_path / "out"))
    counts = s3.counts()
    assert report.files == 600 and not report.missing
    assert len(counted.ends) == 1
    assert len(counted.ranges) <= 3
    assert counts["requests"]["GET"] <= 12, counts
    gone(store)
