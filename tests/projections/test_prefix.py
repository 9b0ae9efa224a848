"""What the segments say of the tail's events, asked through DuckDB and the index."""

from pathlib import Path

import pytest

import eventlog.store
from eventlog.store import Store
from tests.conftest import closed_later


def event(number: int, session: str = "one") -> dict[str, object]:
    return {
        "event_id": f"{number:032x}",
        "event_type": "action",
        "agent": "test",
        "agent_session_id": session,
        "agent_turn_id": f"turn {number // 8}",
        "payload": {"number": number},
    }


@pytest.fixture
def store(tmp_path: Path) -> Store:
    """Two sealed segments, the index of the first, and a tail that repeats and continues both."""
    store = closed_later(Store.init(tmp_path / ".locus"))
    store.append([event(n) for n in range(6)])
    store.seal()
    store.rebuild()
    store.append([event(n, "two") for n in range(6, 12)])
    store.seal()
    store.append([event(2), event(8, "two"), event(12), event(13, "two")])
    return store


@pytest.mark.parametrize("damage", ["none", "no index", "rotten index"])
def test_a_large_log_gives_the_same_tail(store: Store, monkeypatch: pytest.MonkeyPatch, damage: str) -> None:
    """I8, I22: asking the index gives the events and numbers that reading the segments gives."""
    expected = list(store.events())
    assert [e["position"] for e in expected] == [*range(12), 14, 15]
    assert [e["seq"] for e in expected[-2:]] == [1, 5]
    indexes = list(Path(store.layout.root, "index").iterdir())
    assert len(indexes) == 1
    if damage == "no index":
        indexes[0].unlink()
    elif damage == "rotten index":
        indexes[0].write_bytes(b"\0" * 4096 + indexes[0].read_bytes()[4096:])
    monkeypatch.setattr(eventlog.store, "_LOOK_UP_ROWS_MIN", 0)

    assert list(store.events()) == expected
    assert list(store.events(until=12)) == expected[:12]
