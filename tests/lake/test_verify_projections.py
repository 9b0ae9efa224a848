"""`locus lake verify` compares tables of projections with a fold from nothing (docs/lake-tables.md §5)."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from blake3 import blake3

from eventlog.lake import tables
from eventlog.lake import verify as checking
from eventlog.lake.folding import driver, stored
from eventlog.lake.folding.stored import TABLES, Projected
from eventlog.lake.folding.wide_files import WideFile
from eventlog.lake.place import Place
from eventlog.lake.policy import Policy
from eventlog.store import Store
from tests.golden import stores as golden
from tests.lake.conftest import Lake
from tests.lake.derived import files_in
from tests.lake.publishing import record, send, set_policy
from tests.lake.small import answer, run
from tests.lake.test_publish_erasure import erase

ALL = Policy(texts=True, paths=True, people="full")
CANARY = "tulipFox81zebra-Q7"


@pytest.fixture
def stores(tmp_path: Path) -> "Iterator[list[Store]]":
    """One of a program and one of hooks."""
    opened = [Store.open(golden.unpack(name, tmp_path / name).store) for name in ("api", "hooks-first")]
    for store in opened:
        set_policy(store, ALL)
    yield opened
    for store in opened:
        store.close()


@pytest.fixture
def folded(file_place: Place, sqlite_catalog: str, stores: "list[Store]") -> Lake:
    """A folder with these stores, published, committed and folded."""
    for store in stores:
        send(store, file_place, ALL)
    tables.init(file_place, sqlite_catalog)
    tables.commit(file_place, sqlite_catalog)
    driver.fold(file_place, sqlite_catalog)
    return Lake(file_place, sqlite_catalog)


def findings(lake: Lake) -> "list[tuple[str, str, str]]":
    """(what, where, what to do) of each."""
    result = checking.verify(lake.place, lake.catalog)
    return [(finding.what, finding.where, finding.todo) for finding in result.findings]


def hex_of(store: Store) -> str:
    return store.identity.store_id.hex()


def file_of(lake: Lake, table: str, store: Store) -> str:
    """The file of a store that a table names."""
    (name,) = [name for name in files_in(lake.place, lake.catalog, table) if hex_of(store) in name]
    return name


def wide_file(lake: Lake, table: str) -> str:
    """The one file that a wide table names."""
    (name,) = files_in(lake.place, lake.catalog, table)
    return name


def replaced(lake: Lake, name: str, change: "Callable[[pa.Table], pa.Table]", **fields: object) -> str:
    """Put another file in the place of one, whose name is right for its bytes."""
    from dataclasses import replace

    former = Projected.parse(name) or WideFile.parse(name)
    assert former is not None
    data = pa.BufferOutputStream()
    pq.write_table(change(pq.read_table(pa.BufferReader(lake.place.read(name)))), data)
    data = bytes(data.getvalue())
    made = replace(former, digest=blake3(data).hexdigest(), **fields).name
    lake.place.create(made, data)
    with tables.opened(lake.place, lake.catalog) as catalog:
        table = tables.loaded(lake.place, catalog, lake.catalog, f"lake.{former.table}")
        removed = tables.data_files(lake.place, table)[name]
        added = tables.data_files_of(lake.place, table, [(made, len(data))])
        assert tables.swapped(table, added, [removed])
    return made


WIDE = {"wide_calls": "llm_calls", "wide_turns": "turns", "wide_sessions": "sessions"}


def without_a_row(table: "pa.Table") -> "pa.Table":
    return table.slice(1)


def doubled(table: "pa.Table") -> "pa.Table":
    return pa.concat_tables([table, table.slice(0, 1)])


def test_what_was_folded_is_equal(folded: Lake, stores: "list[Store]") -> None:
    """No finding, every file compared; also with the log of the store on this machine."""
    verify = ("lake", "verify", folded.place.uri, "--catalog", folded.catalog)
    checked = answer("--store", stores[0].layout.root, *verify, "--here")["verify"]
    assert (checked["findings"], checked["unfolded"], checked["unfolded_wide"]) == ([], [], False)
    assert checked["projected"] == 2 * len(TABLES)
    done = run(*verify)
    assert "8 files of projections compared" in done.stderr and done.stderr.endswith("0 findings.\n")


@pytest.mark.parametrize("table", TABLES)
def test_a_row_that_differs_is_found(folded: Lake, stores: "list[Store]", table: str) -> None:
    """P7: A row too few, and one twice: table, store and how many rows; `fold --full` mends it."""
    lacks = replaced(folded, file_of(folded, table, stores[0]), without_a_row)
    what = f"lake.{table} has 0 rows that a fold of the published events does not give, and lacks 1"
    ((found, where, todo),) = findings(folded)
    assert found.startswith(what) and where == hex_of(stores[0]) and "locus lake fold --full" in todo
    replaced(folded, lacks, doubled)
    ((found, _, _),) = findings(folded)
    assert found.startswith(f"lake.{table} has ")
    driver.fold(folded.place, folded.catalog, full=True)
    assert findings(folded) == []


@pytest.mark.parametrize(
    ("table", "column"), [("turns", "user_request"), ("sessions", "files_modified"), ("llm_calls", "model")]
)
def test_a_value_that_differs_is_found(folded: Lake, stores: "list[Store]", table: str, column: str) -> None:
    """Every column counts, and one row that differs is one too much and one that lacks."""

    def change(rows: "pa.Table") -> "pa.Table":
        number = rows.schema.get_field_index(column)
        values = rows.column(column).to_pylist()
        values[0] = ["x"] if isinstance(values[0], list) else f"{values[0]}x"
        return rows.set_column(number, rows.schema.field(column), pa.array(values, rows.schema.types[number]))

    replaced(folded, file_of(folded, table, stores[0]), change)
    ((what, _, _),) = findings(folded)
    assert what.startswith(f"lake.{table} has 1 rows that a fold of the published events does not give")
    assert what.endswith("and lacks 1 that it gives")


def test_a_command_names_what_differs(folded: Lake, stores: "list[Store]") -> None:
    """Exit code 1, and what to do."""
    replaced(folded, file_of(folded, "turns", stores[0]), without_a_row)
    done = run("lake", "verify", folded.place.uri, "--catalog", folded.catalog)
    assert done.returncode == 1
    assert f"{hex_of(stores[0])}: lake.turns has 0 rows that a fold" in done.stderr
    assert "To do: run `locus lake fold --full` with the catalog" in done.stderr


def test_a_damaged_or_lost_file_is_found(folded: Lake, stores: "list[Store]") -> None:
    """P7: Each with its address, and what brings it again."""
    root = Path(folded.place.uri.removeprefix("file://"))
    lost, damaged = (file_of(folded, "turns", store) for store in stores)
    (root / lost).unlink()
    data = bytearray((root / damaged).read_bytes())
    data[50] ^= 1
    (root / damaged).write_bytes(data)
    result = findings(folded)
    assert sorted(where for _, where, _ in result) == sorted(
        folded.place.address(name) for name in (lost, damaged)
    )
    assert any("its bytes are not those of its name" in what for what, _, _ in result)
    assert all(
        "delete it where it is still there, and run `locus lake fold --full`" in t for _, _, t in result
    )


def test_a_state_that_is_not_the_newest_is_no_finding(folded: Lake, stores: "list[Store]") -> None:
    """Events published since, and another code: not folded yet, exit code 0; the next fold has them."""
    record(stores[0], 1, "more")
    send(stores[0], folded.place, ALL)
    tables.commit(folded.place, folded.catalog)
    name = file_of(folded, "sessions", stores[1])
    replaced(folded, name, lambda table: table, code="0" * 8)
    done = run("lake", "verify", folded.place.uri, "--catalog", folded.catalog)
    assert done.returncode == 0, done.stderr
    assert "Not folded yet: 2 stores and what is over all stores. `locus lake fold` does it." in done.stderr
    unfolded = checking.verify(folded.place, folded.catalog).unfolded
    assert sorted(unfolded) == sorted(
        [f"{hex_of(stores[0])}: {', '.join(TABLES)}", f"{hex_of(stores[1])}: sessions"]
    )
    driver.fold(folded.place, folded.catalog)
    assert checking.verify(folded.place, folded.catalog).unfolded == []


def test_an_older_state_is_compared_with_a_fold_up_to_its_end(folded: Lake, stores: "list[Store]") -> None:
    """What was published since does not matter; a row that differs in it is found all the same."""
    record(stores[0], 1, "more")
    send(stores[0], folded.place, ALL)
    tables.commit(folded.place, folded.catalog)
    assert findings(folded) == []
    replaced(folded, file_of(folded, "turns", stores[0]), without_a_row)
    ((what, where, _),) = findings(folded)
    assert what.startswith("lake.turns has 0 rows") and where == hex_of(stores[0])


def test_two_states_of_one_store_are_found(folded: Lake, stores: "list[Store]") -> None:
    """Rows would count twice."""
    name = file_of(folded, "turns", stores[0])
    made = replaced(folded, name, without_a_row, end=Projected.of(name).end - 1)
    with tables.opened(folded.place, folded.catalog) as catalog:
        table = tables.loaded(folded.place, catalog, folded.catalog, "lake.turns")
        size = len(folded.place.read(name))
        assert made and tables.swapped(table, tables.data_files_of(folded.place, table, [(name, size)]), ())
    assert any(what.startswith("lake.turns names 2 states of one store") for what, _, _ in findings(folded))


def test_here_compares_with_the_log_of_this_machine(folded: Lake, stores: "list[Store]") -> None:
    """P7: The place and its tables agree, and both lag an erasure that this store has carried out."""
    record(stores[0], 1, CANARY)
    record(stores[0], 2, "more")
    send(stores[0], folded.place, ALL)
    tables.commit(folded.place, folded.catalog)
    driver.fold(folded.place, folded.catalog)
    assert findings(folded) == []
    replaced(folded, file_of(folded, "sessions", stores[0]), without_a_row)
    verify = ("lake", "verify", folded.place.uri, "--catalog", folded.catalog, "--here")
    done = run("--store", stores[0].layout.root, *verify)
    assert done.returncode == 1
    assert "lake.sessions has 0 rows that a fold of the log here does not give, and lacks 1" in done.stderr
    driver.fold(folded.place, folded.catalog, full=True)
    erase(stores[0])
    done = run("--store", stores[0].layout.root, *verify)
    assert "its rows are not the events that the store has" in done.stderr


def test_what_an_erasure_left_is_found(folded: Lake, stores: "list[Store]") -> None:
    """I30: Dead files that tables name, older snapshots, and objects; after commit and maintain nothing."""
    record(stores[0], 1, CANARY)
    send(stores[0], folded.place, ALL)
    tables.commit(folded.place, folded.catalog)
    driver.fold(folded.place, folded.catalog)
    erase(stores[0])
    send(stores[0], folded.place, ALL)
    dead = file_of(folded, "turns", stores[0])
    result = findings(folded)
    assert (folded.place.address(dead), "run `locus lake maintain` with the catalog") in [
        (where, todo.partition(",")[0]) for _, where, todo in result
    ]
    assert [what for what, _, todo in result if "locus lake commit" in todo and what.startswith("lake.")] == [
        *(f"lake.{table} names 1 dead files, {file_of(folded, table, stores[0])} first" for table in TABLES),
        *(f"lake.{table} names 1 dead files, {wide_file(folded, table)} first" for table in WIDE),
    ]
    assert any("older snapshots of lake.turns reach rows that were erased" in what for what, _, _ in result)
    assert run("lake", "maintain", folded.place.uri, "--catalog", folded.catalog).returncode == 0
    assert findings(folded) == []
    driver.fold(folded.place, folded.catalog)
    assert checking.verify(folded.place, folded.catalog).unfolded == []
    assert stored.CODE in file_of(folded, "turns", stores[0])


def test_a_part_of_a_large_store_is_compared_with_the_others(folded: Lake, stores: "list[Store]") -> None:
    """P7: A store that is divided has several files in a table: none may lack."""
    driver.fold(folded.place, folded.catalog, full=True, positions_max=20)
    parts = [name for name in files_in(folded.place, folded.catalog, "turns") if hex_of(stores[0]) in name]
    assert len(parts) > 1 and findings(folded) == []
    whole = next(name for name in parts if len(pq.read_table(pa.BufferReader(folded.place.read(name)))))
    replaced(folded, whole, without_a_row)
    ((what, _, _),) = findings(folded)
    assert what.startswith("lake.turns has 0 rows") and "lacks 1" in what


@pytest.mark.parametrize("table", WIDE)
def test_a_wide_row_that_differs_is_found(folded: Lake, table: str) -> None:
    """P7: Too few in a wide table: which, and how many; `fold --full` mends it."""
    name = wide_file(folded, table)
    replaced(folded, name, without_a_row)
    ((what, where, todo),) = findings(folded)
    assert (
        what == f"lake.{table} has 0 rows that a fold of all stores does not give, and lacks 1 that it gives"
    )
    assert where == folded.place.uri and "locus lake fold --full" in todo
    driver.fold(folded.place, folded.catalog, full=True)
    assert findings(folded) == []


def test_wide_tables_that_lag_are_no_finding(folded: Lake) -> None:
    """Those of another state, or none: what the next fold brings."""
    name = wide_file(folded, "wide_turns")
    replaced(folded, name, without_a_row, state="0" * 16)
    result = checking.verify(folded.place, folded.catalog)
    assert (result.findings, result.unfolded, result.unfolded_wide) == ([], [], True)
    with tables.opened(folded.place, folded.catalog) as catalog:
        catalog.drop_table("lake.wide_calls")
    result = checking.verify(folded.place, folded.catalog)
    assert (result.findings, result.unfolded_wide) == ([], True)
