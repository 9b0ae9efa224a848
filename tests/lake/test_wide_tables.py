"""The wide tables of a lake of real stores: `locus lake fold`, as a process."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from eventlog.base.errors import Refused
from eventlog.lake import tables
from eventlog.lake.chain import ERASURE, MERGE, read_chain
from eventlog.lake.folding import driver, wide, wide_driver, wide_files, writing
from eventlog.lake.place import Place
from eventlog.lake.policy import Policy
from eventlog.store import Store
from tests.golden import stores as golden
from tests.lake.conftest import Lake
from tests.lake.folded import publish_rows, rewrite_rows
from tests.lake.publishing import set_policy
from tests.lake.small import answer, run
from tests.lake.test_fold import A, B, grow
from tests.lake.wide_lakes import assert_wide_right, rows_of, wide_rows

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
    """I30: The files of wide tables say what they were made of; another store makes them again."""
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


# -- others at work ----------------------------------------------------------------------------------


@pytest.fixture
def small(file_place: Place, sqlite_catalog: str, monkeypatch: pytest.MonkeyPatch) -> Lake:
    """A lake in a folder with two stores that share a session, folded; and no pauses between tries."""
    monkeypatch.setattr(wide_driver, "_PAUSE_S_MAX", 0)
    tables.init(file_place, sqlite_catalog)
    grow(file_place, A, 0)
    grow(file_place, B, 0)
    assert not driver.fold(file_place, sqlite_catalog).left
    return Lake(file_place, sqlite_catalog)


def once_after(monkeypatch: pytest.MonkeyPatch, name: str, action: "Callable[[], object]") -> None:
    """Let somebody act after the first call of a function of the wide driver."""
    function, waiting = getattr(wide_driver, name), [action]

    def called(*arguments: Any) -> Any:
        result = function(*arguments)
        if waiting:
            waiting.pop()()
        return result

    monkeypatch.setattr(wide_driver, name, called)


def test_an_older_state_never_replaces_a_newer(small: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    """I30: A driver that slept while another folded newer events leaves its files unnamed."""

    def another() -> None:
        grow(small.place, A, 3)
        assert not driver.fold(small.place, small.catalog).left

    once_after(monkeypatch, "_created", another)
    done = wide_driver.fold(small.place, small.catalog, full=True)
    assert not done.left
    assert_wide_right(small)


def test_events_that_no_store_folded_are_not_read(small: Lake) -> None:
    """I30: What was published since, and merged into a file of before, waits for the tables of its store."""
    before = wide_rows(small)
    later = {"position": 3, "event_id": "later", "event_type": "intent", "session_id": "s0", "turn": 2}
    more = {**later, "event_kind": "fact", "source": "agent"}
    publish_rows(small.place, B, 3, 4, [more])
    live = read_chain(small.place, B).live
    rows = pq.read_table(pa.BufferReader(small.place.read(live[0].name))).to_pylist()
    rewrite_rows(small.place, B, 1, MERGE, live, [*rows, more])
    assert not wide_driver.fold(small.place, small.catalog, full=True).left
    assert wide_rows(small) == before
    assert not driver.fold(small.place, small.catalog).left
    assert_wide_right(small)


def test_what_is_erased_while_wide_tables_are_made_leaves_them(
    small: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    """I30: No table names files that were made of what was there before; the next fold makes others."""

    def erase() -> None:
        live = read_chain(small.place, A).live
        rewrite_rows(small.place, A, 1, ERASURE, live, [])

    once_after(monkeypatch, "_commit", erase)
    done = wide_driver.fold(small.place, small.catalog, full=True)
    assert done.left and "rewritten since it was folded" in done.left[0]
    with tables.opened(small.place, small.catalog) as catalog:
        for table in wide.TABLES:
            loaded = tables.loaded(small.place, catalog, small.catalog, f"lake.{table}")
            assert not tables.data_files(small.place, loaded)
    assert not driver.fold(small.place, small.catalog).left
    assert_wide_right(small)


def test_a_wide_table_is_divided_into_parts(small: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each part has some row groups; all of them are named at once."""
    monkeypatch.setattr(writing, "ROW_GROUP_ROWS", 1)
    monkeypatch.setattr(wide_files, "_PART_GROUPS_MAX", 1)
    grow(small.place, A, 3)
    done = driver.fold(small.place, small.catalog).wide
    assert not done.left and len(done.added) == sum(done.rows.values()) > 3
    assert_wide_right(small)


def test_what_may_hold_erased_texts_is_not_left_named_in_silence(monkeypatch: pytest.MonkeyPatch) -> None:
    """P5, P7: where others change a table at each try, taking out files says so."""
    monkeypatch.setattr(tables, "opened", lambda _place, _uri: nullcontext())
    monkeypatch.setattr(tables, "loaded", lambda *_: None)
    monkeypatch.setattr(tables, "data_files", lambda *_: {})
    monkeypatch.setattr(tables, "swapped", lambda *_: False)
    monkeypatch.setattr("time.sleep", lambda _: None)

    with pytest.raises(Refused, match="changed at each of 40 tries"):
        wide_driver._take_out(None, "sqlite:////x", {"all_sessions": []})  # type: ignore[arg-type]
