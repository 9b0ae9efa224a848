"""Checking a lake: `locus lake verify`, and the whole path of a team's stores by the commands."""

from pathlib import Path

import pytest

from eventlog.lake import tables
from eventlog.lake import verify as checking
from eventlog.lake.chain import MERGE, publication_name, read_chain
from eventlog.lake.place import Place
from tests.lake.conftest import Lake
from tests.lake.publishing import ALL, CANARY, holding, new_store, record, set_policy
from tests.lake.small import answer, file_of, objects, positions, publish, rewrite, run
from tests.lake.test_publish_erasure import erase

A = b"\xaa" * 16


def findings(place: Place, catalog: "str | None" = None, *, reads: bool = False) -> "list[tuple[str, str]]":
    """(what, what to do) of each."""
    return [(f.what, f.todo) for f in checking.verify(place, catalog, reads=reads).findings]


def test_a_team_publishes_commits_erases_and_maintains(lake: Lake, tmp_path: Path) -> None:
    """P7: Two stores by the commands alone: rows equal the logs, and an erased text is nowhere then."""
    place, catalog = lake.place, lake.catalog
    roots = []
    for name in ("a", "b"):
        store = new_store(tmp_path / name)
        set_policy(store, ALL)
        record(store, 1, "harmless", b"a content")
        record(store, 2, CANARY if name == "a" else "other", b"content with " + CANARY.encode())
        store.close()
        roots.append(tmp_path / name / ".locus")
    publishing = ("publish", place.uri, "--yes", "--catalog", catalog)
    assert run("lake", "init", place.uri, "--catalog", catalog).returncode == 0
    for root in roots:
        done = run("--store", root, *publishing)
        assert done.returncode == 0, done.stderr
    checked = answer("--store", roots[0], "lake", "verify", place.uri, "--catalog", catalog, "--read")
    assert checked["verify"]["findings"] == []
    assert checked["verify"]["stores"] == 2 and checked["verify"]["compared"] == 1
    assert checked["verify"]["table_rows"] == checked["verify"]["rows"] == len(positions(place, catalog))

    from eventlog.store import Store

    with Store.open(roots[0]) as store:
        erase(store)
    done = run("--store", roots[0], "lake", "verify", place.uri, "--catalog", catalog)
    assert done.returncode == 1
    assert "its rows are not the events that the store has. To do: run `locus publish`" in done.stderr
    with Store.open(roots[1]) as store:
        erase(store)
    for root in roots:
        assert run("--store", root, "publish", place.uri, "--yes").returncode == 0
    done = run("lake", "verify", place.uri, "--catalog", catalog)
    assert done.returncode == 1 and "run `locus lake commit`" in done.stderr
    assert run("lake", "maintain", place.uri, "--catalog", catalog).returncode == 0
    for root in roots:
        done = run("--store", root, "lake", "verify", place.uri, "--catalog", catalog, "--read")
        assert done.returncode == 0, done.stderr
    assert holding(place, tmp_path / "scratch") == []


def test_a_publication_that_is_gone_is_found(file_place: Place) -> None:
    """P7: In the middle and at the beginning: which events are in no file, and that a publish mends it."""
    for number in range(3):
        publish(file_place, A, number * 5, number * 5 + 5)
    assert findings(file_place) == []
    file_place.delete(publication_name(A, 5))
    ((what, todo),) = findings(file_place)
    assert what == "the events from 5 to 10 are in no file" and "locus publish" in todo
    file_place.delete(publication_name(A, 0))
    ((what, _),) = findings(file_place)
    assert what == "1 files are not live: the events from 0 on are in no file"


def test_a_file_that_is_not_what_its_name_says_is_found(file_place: Place) -> None:
    """Of another store, of other positions, cut short: each is named with its address."""
    publish(file_place, A, 0, 5)
    file_place.create(publication_name(A, 5), file_of(b"\xbb" * 16, 5, 8))
    file_place.create(publication_name(A, 8), file_of(A, 8, 12, moved=-5))
    file_place.create(publication_name(A, 12), file_of(A, 12, 15)[:-20])
    file_place.create(publication_name(A, 15), file_of(A, 15, 18))
    result = checking.verify(file_place)
    assert [(finding.where.rpartition("/")[2][18:], finding.what[:40]) for finding in result.findings] == [
        ("05.parquet", "its metadata name another store or posit"),
        ("08.parquet", "it holds positions outside of its range"),
        ("12.parquet", f"{file_place.address(publication_name(A, 12))}"[:40]),
    ]


def test_rot_inside_of_a_file_is_found_by_reading(file_place: Place, tmp_path: Path) -> None:
    """A flipped byte in a page: footers say nothing, `--read` names the file, and so does one in a pack."""
    name = publish(file_place, A, 0, 5, text="some text")
    publish(file_place, A, 5, 9)
    path = tmp_path / "shared" / name
    data = bytearray(path.read_bytes())
    data[60] ^= 1
    path.write_bytes(data)
    assert findings(file_place) == []
    done = run("lake", "verify", file_place.uri, "--read")
    assert done.returncode == 1 and name in done.stderr and "Traceback" not in done.stderr


def test_packs_are_checked(file_place: Place, tmp_path: Path) -> None:
    """A pack that is gone, one whose tables are damaged, one with rot in a group: each is found."""
    store = new_store(tmp_path / "a")
    set_policy(store, ALL)
    for number in range(3):
        record(store, number, "text", b"content %d" % number * 200)
        store.close()
        assert run("--store", tmp_path / "a/.locus", "publish", file_place.uri, "--yes").returncode == 0
        from eventlog.store import Store

        store = Store.open(tmp_path / "a/.locus")
    store.close()
    assert findings(file_place, reads=True) == []
    packs = sorted(entry.name for entry in file_place.list("stores") if entry.name.endswith(".evp"))
    assert len(packs) == 3
    shared = tmp_path / "shared"
    (shared / packs[0]).unlink()
    for name, offset in ((packs[1], -20), (packs[2], 70)):
        data = bytearray((shared / name).read_bytes())
        data[offset] ^= 1
        (shared / name).write_bytes(data)
    result = checking.verify(file_place, reads=True)
    assert sorted(finding.where.rpartition("/")[2] for finding in result.findings) == sorted(
        name.rpartition("/")[2] for name in packs
    )
    assert len(checking.verify(file_place).findings) == 2


def test_a_table_with_other_rows_is_found(file_place: Place, sqlite_catalog: str, tmp_path: Path) -> None:
    """P7: A file that was changed under its name: the table counts other rows than it has."""
    tables.init(file_place, sqlite_catalog)
    name = publish(file_place, A, 0, 5)
    publish(file_place, A, 5, 7)
    tables.commit(file_place, sqlite_catalog)
    (tmp_path / "shared" / name).write_bytes(file_of(A, 0, 5, skips=(2,)))
    ((what, _),) = findings(file_place, sqlite_catalog)
    assert what == f"the table counts 5 rows of {name}, which has 4"


def test_what_a_merge_left_is_nothing_wrong(file_place: Place, sqlite_catalog: str) -> None:
    """Files that were merged stay for a day while snapshots name them: no finding, and the rows are right."""
    tables.init(file_place, sqlite_catalog)
    first = publish(file_place, A, 0, 5)
    publish(file_place, A, 5, 7)
    tables.commit(file_place, sqlite_catalog)
    rewrite(file_place, A, 1, MERGE, first, 0, 5)
    tables.commit(file_place, sqlite_catalog)
    assert first in objects(file_place) and findings(file_place, sqlite_catalog) == []


@pytest.mark.parametrize("reads", [False, True])
def test_a_damaged_rewrite_is_named(file_place: Place, reads: bool) -> None:
    """A store whose chain cannot be read is one finding, and the other stores are checked."""
    publish(file_place, A, 0, 5)
    publish(file_place, b"\xbb" * 16, 0, 5)
    file_place.create(f"stores/{A.hex()}/rewrites/00000001.json", b"{")
    result = checking.verify(file_place, reads=reads)
    assert (result.stores, len(result.findings)) == (1, 1)
    assert result.findings[0].where == A.hex() and read_chain(file_place, b"\xbb" * 16).end == 5
