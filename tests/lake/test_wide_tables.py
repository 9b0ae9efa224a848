"""The wide tables of a lake of real stores: `locus lake fold`, as a process."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from eventlog.lake.place import Place
from eventlog.lake.policy import Policy
from eventlog.store import Store
from tests.golden import stores as golden
from tests.lake.conftest import Lake
from tests.lake.publishing import set_policy
from tests.lake.small import answer, run
from tests.lake.wide_lakes import assert_wide_right, rows_of

# All that the fold reads leaves.
WIDE = Policy(texts=True, paths=True, people="full")
GOLDEN = ("api", "compacted", "erased", "git", "hooks-first", "restored", "shared", "transcripts-first")


@pytest.fixture
def stores(tmp_path: Path) -> "Iterator[list[Store]]":
    """Eight stores that recorded and imported some of the same sessions, each in its own way."""
    opened = [Store.open(golden.unpack(name, tmp_path / name).store) for name in GOLDEN]
    yield opened
    for store in opened:
        store.close()


def publish_all(place: Place, stores: "Sequence[Store]", policy: Policy = WIDE) -> None:
    for store in stores:
        set_policy(store, policy)
        assert run("--store", store.layout.root, "publish", place.uri, "--yes").returncode == 0


def fold(lake: Lake, *options: str) -> "dict[str, Any]":
    """What `locus lake fold` did."""
    done = answer("lake", "fold", lake.place.uri, "--catalog", lake.catalog, *options)
    folded: dict[str, Any] = done["fold"]
    return folded


def make_tables(lake: Lake) -> None:
    answer("lake", "init", lake.place.uri, "--catalog", lake.catalog)
    answer("lake", "commit", lake.place.uri, "--catalog", lake.catalog)


def tokens_in(rows: "list[dict[str, Any]]") -> int:
    return sum((row["prompt_tokens"] or 0) + (row["completion_tokens"] or 0) for row in rows)


def test_what_stores_share_counts_once(lake: Lake, stores: "list[Store]") -> None:
    """Four sessions are in several of eight stores, one of them in five: adding up stores gives 52 calls and
    52,938 tokens where 26 calls and 26,601 tokens were used."""
    publish_all(lake.place, stores)
    make_tables(lake)
    done = fold(lake)
    assert not done["left"] and len(done["wide"]["added"]) == 3
    assert_wide_right(lake)

    rows = rows_of(lake, "llm_calls", "sessions", "wide_calls", "wide_sessions")
    assert (len(rows["sessions"]), len(rows["wide_sessions"])) == (19, 12)
    assert sorted(len(row["stores"]) for row in rows["wide_sessions"]) == [1] * 8 + [2, 2, 2, 5]
    assert (len(rows["llm_calls"]), tokens_in(rows["llm_calls"])) == (52, 52_938)
    assert (len(rows["wide_calls"]), tokens_in(rows["wide_calls"])) == (26, 26_601)
    assert sum(row["tokens_used"] for row in rows["sessions"]) == 52_938
    assert sum(row["tokens_used"] for row in rows["wide_sessions"]) == 26_601


def test_a_fold_without_anything_new_changes_nothing(lake: Lake, stores: "list[Store]") -> None:
    """The files of wide tables say what they were made of; another store makes them again, and only them."""
    publish_all(lake.place, stores[:2])
    make_tables(lake)
    first = fold(lake)["wide"]
    assert fold(lake)["wide"] == {"touched": 0, "added": [], "removed": [], "rows": {}, "left": []}
    again = fold(lake, "--full")["wide"]
    assert (again["added"], again["removed"], again["rows"]) == ([], [], first["rows"])

    publish_all(lake.place, stores[2:3])
    answer("lake", "commit", lake.place.uri, "--catalog", lake.catalog)
    changed = fold(lake)["wide"]
    assert sorted(changed["removed"]) == sorted(first["added"]) and len(changed["added"]) == 3
    assert_wide_right(lake)
