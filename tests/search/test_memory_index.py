"""An index in memory that its caller keeps: its answers are those of one that is rebuilt."""

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from eventlog import Recorder, Store
from eventlog.erasure import erasure
from eventlog.search import find, index, query
from eventlog.search.index import MemoryIndex


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store.init(tmp_path / ".locus", repo_hash="0123456789ab") as store:
        tell(store, "a tulipfox")
        yield store


def tell(store: Store, words: str) -> None:
    turn = Recorder(store, agent="probe").start_turn(f"Write of {words}")
    turn.end()


@pytest.fixture
def indexed(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The positions of events that are put into an index, as they are."""
    positions: list[int] = []
    put = index.Indexer.put

    def putting(self: Any, piece: Any, *rest: Any, **named: Any) -> None:
        positions.extend(row for batch in piece for row in batch["position"].to_pylist())
        put(self, piece, *rest, **named)

    monkeypatch.setattr(index.Indexer, "put", putting)
    return positions


def hits(store: Store, words: str, memory: MemoryIndex | None = None) -> list[str]:
    answer = find.search(store, query.parse(words), writes=False, memory=memory)
    assert answer.missing == 0
    return [hit.event_id for hit in answer.hits]


def test_an_event_is_indexed_once(store: Store, indexed: list[int]) -> None:
    """A search as one types pays for what came since the one before."""
    with closing(MemoryIndex()) as memory:
        first = hits(store, "tulipfox", memory)
        assert first == hits(store, "tulipfox")
        del indexed[:]
        assert hits(store, "tulipfox", memory) == first
        assert indexed == []
        end = store.status().events
        tell(store, "a rose")
        assert hits(store, "rose", memory) == hits(store, "rose") != []
        assert min(indexed) == 0 and indexed[: indexed.index(0)] == list(range(end, store.status().events))


def test_what_the_stored_index_has_by_now_is_not_asked_twice(store: Store, tmp_path: Path) -> None:
    """Another process may bring that index up to date: no hit comes from both."""
    with closing(MemoryIndex()) as memory:
        before = hits(store, "tulipfox", memory)
        index.update(store)
        tell(store, "a tulipfox again")
        found = hits(store, "tulipfox", memory)
    assert len(set(found)) == len(found) > len(before)
    assert sorted(found) == sorted(hits(store, "tulipfox"))


def test_an_erasure_starts_it_over(store: Store) -> None:
    """P5: no word of what was erased is left in it."""
    with closing(MemoryIndex()) as memory:
        assert hits(store, "tulipfox", memory) != []
        erasure.erase(store, erasure.plan_secret(store, "tulipfox"))
        assert hits(store, "tulipfox", memory) == hits(store, "tulipfox")
        con = memory._made[0]  # type: ignore[index]
        assert not list(con.execute("select * from words where words match 'tulipfox'"))
