"""Projections of all stores of a lake: `locus lake fold` (docs/lake-tables.md)."""

import shutil
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from eventlog.lake import tables
from eventlog.lake.chain import ERASURE, publication_name, read_chain
from eventlog.lake.folding import driver, stored
from eventlog.lake.folding.stored import Projected
from eventlog.lake.place import Place
from eventlog.lake.policy import Policy
from eventlog.store import Store
from tests.conftest import examples
from tests.golden import stores as golden
from tests.lake.conftest import Lake
from tests.lake.folded import (
    as_stores_show,
    folded_names,
    publish_rows,
    rewrite_rows,
    rows_of_stores,
    rows_of_tables,
)
from tests.lake.killed import Killer
from tests.lake.publishing import new_store, send, set_policy
from tests.lake.small import answer, objects, run

A, B, C = b"\xaa" * 16, b"\xbb" * 16, b"\xcc" * 16

# All that the fold reads leaves.
WIDE = Policy(texts=True, paths=True, people="full")
GOLDEN = ("transcripts-first", "hooks-first", "git", "erased", "api")


@pytest.fixture
def stores(tmp_path: Path) -> "Iterator[list[Store]]":
    """Of transcripts, hooks, a git history, a program, after an erasure; and one without a session."""
    opened = [Store.open(golden.unpack(name, tmp_path / name).store) for name in GOLDEN]
    opened.append(new_store(tmp_path / "blank"))
    opened[-1].append([{"event_type": "note", "payload": {}}])
    for store in opened:
        set_policy(store, WIDE)
    yield opened
    for store in opened:
        store.close()


def publish_all(place: Place, stores: "list[Store]") -> None:
    """The first by the command."""
    assert run("--store", stores[0].layout.root, "publish", place.uri, "--yes").returncode == 0
    for store in stores[1:]:
        send(store, place, WIDE)


def fold(lake: Lake, *, full: bool = False) -> "dict[str, Any]":
    """What `locus lake fold --json` answers, in this process."""
    return asdict(driver.fold(lake.place, lake.catalog, full=full))


def files_named(lake: Lake) -> "dict[str, set[str]]":
    """The data files that each table names."""
    with tables.opened(lake.place, lake.catalog) as catalog:
        loaded = {t: tables.loaded(lake.place, catalog, lake.catalog, f"lake.{t}") for t in stored.TABLES}
        return {name: set(tables.data_files(lake.place, table)) for name, table in loaded.items()}


def assert_right(lake: Lake) -> None:
    """The tables name exactly what a fold of every store from nothing makes."""
    assert set().union(*files_named(lake).values()) == folded_names(lake.place, full=True)


def grow(place: Place, store_id: bytes, base: int, title: str = "a") -> int:
    """Publish three events from a position on; the next position."""
    ids = {"session_id": f"s{base}", "turn": 1, "agent": "script", "event_kind": "fact", "source": "agent"}
    rows = [
        {"position": at, "event_id": f"{store_id.hex()[:4]}{at}", "event_type": kind, "title": title, **ids}
        for at, kind in enumerate(("turn", "intent", "llm"), base)
    ]
    publish_rows(place, store_id, base, base + 3, rows)
    return base + 3


@pytest.fixture
def small(file_place: Place, sqlite_catalog: str) -> Lake:
    """A lake in a folder with two stores of a few events, in tables."""
    tables.init(file_place, sqlite_catalog)
    grow(file_place, A, 0)
    grow(file_place, B, 0)
    return Lake(file_place, sqlite_catalog)


def test_every_row_and_column_is_the_stores_own(lake: Lake, stores: "list[Store]") -> None:
    """I19: After publish, init, commit and fold the tables say of each store what it says of itself."""
    place, catalog = lake.place, lake.catalog
    publish_all(place, stores)
    answer("lake", "init", place.uri, "--catalog", catalog)
    answer("lake", "commit", place.uri, "--catalog", catalog)
    done = answer("lake", "fold", place.uri, "--catalog", catalog)["fold"]
    assert (done["stores"], done["folded"], done["in_full"]) == (len(stores),) * 3
    assert len(done["added"]) == 4 * len(stores) and not done["removed"] and not done["left"]
    expected = rows_of_stores(*stores)
    assert {name: len(rows) for name, rows in expected.items()} == done["rows"]
    assert as_stores_show(rows_of_tables(place, catalog)) == expected


def test_nothing_to_do_writes_nothing(lake: Lake) -> None:
    """I30: A fold of what is folded makes no object and no snapshot, also in full; new events fold one."""
    tables.init(lake.place, lake.catalog)
    grow(lake.place, A, 0)
    grow(lake.place, B, 0)
    assert fold(lake)["folded"] == 2
    before = objects(lake.place)
    again = run("lake", "fold", lake.place.uri, "--catalog", lake.catalog)
    assert "Nothing to fold" in again.stderr and again.returncode == 0
    done = fold(lake, full=True)
    assert (done["folded"], done["in_full"], done["added"], done["removed"]) == (2, 2, [], [])
    assert objects(lake.place) == before
    grow(lake.place, A, 3)
    done = fold(lake)
    assert (done["stores"], done["folded"], done["in_full"]) == (2, 1, 0)
    assert {Projected.of(name).store_id for name in done["added"] + done["removed"]} == {A}
    assert [len(names) for names in files_named(lake).values()] == [2, 2, 2, 2]
    assert_right(lake)


def test_a_store_that_is_too_large_is_divided_by_session(
    file_place: Place, sqlite_catalog: str, stores: "list[Store]"
) -> None:
    """I19, I20: Rows and columns are those of one task, and the next fold goes on from the files of parts."""
    lake = Lake(file_place, sqlite_catalog)
    tables.init(file_place, sqlite_catalog)
    publish_all(file_place, stores[:2])
    done = driver.fold(file_place, sqlite_catalog, positions_max=40)
    assert (done.stores, done.folded, done.in_full, done.left) == (2, 2, 2, [])
    calls, turns, sessions, masters = (len(names) for names in files_named(lake).values())
    assert calls == masters == 2 and turns == sessions >= 6
    assert as_stores_show(rows_of_tables(file_place, sqlite_catalog)) == rows_of_stores(*stores[:2])
    assert driver.fold(file_place, sqlite_catalog).folded == 0
    session = stores[0].query("SELECT session_id FROM sessions LIMIT 1").rows[0][0]
    stores[0].append([{"event_type": "intent", "session_id": session, "payload": {}}])
    publish_all(file_place, stores[:1])
    done = driver.fold(file_place, sqlite_catalog, positions_max=40)
    assert (done.folded, done.in_full, len(done.added)) == (1, 0, 4)
    assert as_stores_show(rows_of_tables(file_place, sqlite_catalog)) == rows_of_stores(*stores[:2])
    driver.fold(file_place, sqlite_catalog, full=True)
    assert_right(lake)


def test_a_large_store_that_is_damaged_is_named(small: Lake) -> None:
    """P7: As a small one."""
    path = Path(small.place.address(publication_name(B, 0)).removeprefix("file://"))
    path.write_bytes(changed_unnoticed(path.read_bytes()))
    done = driver.fold(small.place, small.catalog, positions_max=1)
    assert done.folded == 1 and len(done.left) == 1 and f"store {B.hex()} cannot be folded" in done.left[0]


def test_a_store_without_rows_has_files_without_rows(small: Lake) -> None:
    """I30: So tables say of each store what was folded of it; engines read them all the same."""
    publish_rows(small.place, C, 0, 2, [])
    done = fold(small)
    assert (done["stores"], done["folded"]) == (3, 3)
    assert [len(names) for names in files_named(small).values()] == [3, 3, 3, 3]
    assert {row["store_id"] for row in rows_of_tables(small.place, small.catalog)["turns"]} == {
        A.hex(),
        B.hex(),
    }


def test_manifests_have_bounds_of_keys_alone(small: Lake) -> None:
    """I30, P1: Of no text a single character; whole store ids, by which readers skip other stores."""
    grow(small.place, A, 3, title="canary of a title")
    fold(small)
    metadata = [small.place.read(e.name) for e in small.place.list("tables") if "/metadata/" in e.name]
    assert metadata and not any(b"canary" in data for data in metadata)
    with tables.opened(small.place, small.catalog) as catalog:
        for name in stored.TABLES:
            table = tables.loaded(small.place, catalog, small.catalog, f"lake.{name}")
            for data_file in tables.data_files(small.place, table).values():
                bounded = {table.schema().find_field(key).name for key in data_file.lower_bounds}
                assert bounded <= {"store_id", *stored.KEYS[name]} and (name == "sessions_master" or bounded)


def changed_unnoticed(data: bytes) -> bytes:
    """A file with one bit of an event id changed, which nothing but the checksum of its page shows."""
    sound = pq.read_table(pa.BufferReader(data))
    with pq.ParquetFile(pa.BufferReader(data)) as parquet:
        column = parquet.metadata.row_group(0).column(parquet.schema_arrow.names.index("event_id"))
    for offset in range(column.data_page_offset, column.data_page_offset + column.total_compressed_size):
        changed = data[:offset] + bytes([data[offset] ^ 1]) + data[offset + 1 :]
        try:
            table = pq.read_table(pa.BufferReader(changed))
            if table.drop_columns("event_id").equals(sound.drop_columns("event_id")) and table != sound:
                return changed
        except (OSError, pa.ArrowException):
            continue
    raise AssertionError("every change is noticed")


def test_a_damaged_store_is_named_and_the_others_are_folded(small: Lake) -> None:
    """I11, P7: A page that was changed: its file, exit code 4; nothing of that store is in a table."""
    path = Path(small.place.address(publication_name(B, 0)).removeprefix("file://"))
    path.write_bytes(changed_unnoticed(path.read_bytes()))
    done = run("lake", "fold", small.place.uri, "--catalog", small.catalog)
    assert done.returncode == 4 and "Folded 1 store of 2" in done.stderr
    assert f"store {B.hex()} cannot be folded: {path}" in done.stderr.replace("file://", "")
    assert {Projected.of(name).store_id for names in files_named(small).values() for name in names} == {A}


def test_without_tables_it_says_how_to_make_them(file_place: Place, sqlite_catalog: str) -> None:
    """P7: A catalog without the tables of a lake is not filled: it may be a mistyped one."""
    done = run("lake", "fold", file_place.uri, "--catalog", sqlite_catalog)
    assert done.returncode == 1 and f"locus lake init {file_place.uri}" in done.stderr
    assert objects(file_place) == {}


def test_a_file_of_before_that_is_another_or_gone_is_not_gone_on_from(small: Lake) -> None:
    """I30: Its bytes are not those of its name: the store is folded from nothing."""
    grow(small.place, B, 3)
    fold(small)
    (other,) = (name for name in files_named(small)["turns"] if B.hex() in name)
    for position, data in ((3, small.place.read(other)), (6, None)):
        (name,) = (name for name in files_named(small)["turns"] if A.hex() in name)
        path = Path(small.place.address(name).removeprefix("file://"))
        path.unlink()
        if data is not None:
            path.write_bytes(data)
        grow(small.place, A, position)
        done = fold(small)
        assert (done["folded"], done["in_full"]) == (1, 1)
        assert_right(small)


def test_rows_of_a_store_that_is_gone_go(small: Lake) -> None:
    """I30: Of a store whose objects were deleted tables name nothing after the next fold."""
    fold(small)
    for entry in small.place.list(f"stores/{B.hex()}"):
        small.place.delete(entry.name)
    done = fold(small)
    assert (done["stores"], done["folded"], len(done["removed"])) == (1, 0, 4)
    assert {Projected.of(name).store_id for names in files_named(small).values() for name in names} == {A}


# -- others at work ---------------------------------------------------------------------------------


def runner_after(step: "Callable[[], object]") -> driver.Runner:
    """Runs tasks in this process, and once something else before their results are committed."""
    left = [step]

    def runner(run: "Callable[[Any], Any]", tasks: "Sequence[Any]") -> "Iterator[Any]":
        for task in tasks:
            results = run(task)
            while left:
                left.pop()()
            yield results

    return runner


def test_an_older_fold_never_replaces_a_newer(small: Lake) -> None:
    """P1: A driver that slept while others published and folded leaves in tables what they brought."""

    def others() -> None:
        grow(small.place, A, 3)
        driver.fold(small.place, small.catalog)

    done = driver.fold(small.place, small.catalog, runner=runner_after(others))
    assert done.added == [] and done.removed == []
    assert_right(small)


def erase(place: Place, store_id: bytes) -> None:
    chain = read_chain(place, store_id)
    rewrite_rows(place, store_id, chain.next_rewrite, ERASURE, chain.live[:1], [])


def test_an_erasure_while_tasks_run_keeps_their_files_out(small: Lake) -> None:
    """I30: What was folded of a state before the erasure is in no table, and the store is folded again."""
    done = driver.fold(small.place, small.catalog, runner=runner_after(lambda: erase(small.place, A)))
    assert {(Projected.of(n).store_id, Projected.of(n).number) for n in done.added} == {(A, 1), (B, 0)}
    assert done.removed == [] and done.folded == 2
    assert_right(small)


def test_a_file_that_is_replaced_before_it_is_read(small: Lake) -> None:
    """I30: A task finds a file gone, since an erasure took its place: the store is folded as it is now."""

    def runner(run: "Callable[[Any], Any]", tasks: "Sequence[Any]") -> "Iterator[Any]":
        if not read_chain(small.place, A).rewrites:
            erase(small.place, A)
            small.place.delete(publication_name(A, 0))
        return map(run, tasks)

    done = driver.fold(small.place, small.catalog, runner=runner)
    assert (done.folded, done.left) == (2, [])
    assert_right(small)


def test_an_erasure_after_the_commit_takes_it_out(small: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    """I30: One whose own commit saw the tables as they were before: the driver asks once more, and mends."""
    former, named = driver._commit, []

    def commit(*arguments: Any) -> None:
        former(*arguments)
        named.append({Projected.of(name).store_id for name in files_named(small)["turns"]})
        if len(named) == 1:
            erase(small.place, A)

    monkeypatch.setattr(driver, "_commit", commit)
    done = driver.fold(small.place, small.catalog)
    assert {(Projected.of(n).store_id, Projected.of(n).number) for n in done.removed} == {(A, 0)}
    assert named == [{A, B}, {B}, {A, B}]
    assert_right(small)


def test_folds_at_once_agree(place: Place, postgres_catalog: str) -> None:
    """P1: Four drivers at once: each table names one file of each store."""
    lake = Lake(place, postgres_catalog)
    tables.init(place, postgres_catalog)
    for store_id in (A, B, C):
        grow(place, store_id, 0)
    with ThreadPoolExecutor(4) as threads:
        list(threads.map(lambda _: driver.fold(place, postgres_catalog), range(4)))
    assert [len(names) for names in files_named(lake).values()] == [3, 3, 3, 3]
    assert_right(lake)


@pytest.fixture(scope="module")
def killer() -> "Iterator[Killer]":
    """Forks the runs of these tests."""
    started = Killer()
    yield started
    started.close()


def test_a_driver_killed_anywhere_is_mended_by_the_next(killer: Killer, small: Lake, tmp_path: Path) -> None:
    """I30: Each table has the files of before or those of after, and the next fold brings all to the last."""
    fold(small)
    before = files_named(small)
    grow(small.place, A, 3)
    shared, catalog = tmp_path / "shared", tmp_path / "catalog.db"
    shutil.copytree(shared, tmp_path / "template")
    shutil.copy(catalog, tmp_path / "template.db")
    command = ("lake", "fold", small.place.uri, "--catalog", small.catalog)
    changes = set()
    for number in range(0, 99, examples(3, 1)):
        if killer.run(*command, kill_at=number) == 0:
            break
        named = files_named(small)
        changes.add(tuple(name for name in stored.TABLES if named[name] != before[name]))
        assert killer.run(*command) == 0
        assert_right(small)
        shutil.rmtree(shared)
        shutil.copytree(tmp_path / "template", shared)
        shutil.copy(tmp_path / "template.db", catalog)
    assert changes == {stored.TABLES[:count] for count in range(5)}
