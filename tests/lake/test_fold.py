"""Projections of all stores of a lake: `locus lake fold` (docs/lake-tables.md)."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from eventlog.lake.place import Place
from eventlog.lake.policy import Policy
from eventlog.store import Store
from tests.golden import stores as golden
from tests.lake.conftest import Lake
from tests.lake.folded import as_stores_show, rows_of_stores, rows_of_tables
from tests.lake.publishing import new_store, set_policy
from tests.lake.small import answer, run

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
    for store in stores:
        assert run("--store", store.layout.root, "publish", place.uri, "--yes").returncode == 0


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
