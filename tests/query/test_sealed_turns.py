"""A turn found by its name in the index alone: the same that SQL finds, or none where SQL is to say it."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from eventlog.base.errors import Ambiguous, NotFound
from eventlog.log.line import encode_line
from eventlog.query.lookup import TurnRef, find_turn
from eventlog.query.sealed_turns import sealed_turn
from eventlog.store import Store

_SESSIONS = ("aaaaaaaa", "bbbbbbbb")
_COMMITS = ("abcd" + "0" * 36, "abcd" + "1" * 36, "ef01" + "2" * 36)
_numbers = iter(range(1, 10**6))


def _event(session: str, turn: int | None, **columns: Any) -> bytes:
    payload = {"event_id": f"{next(_numbers):032x}", "event_type": "action", "event_kind": "fact"}
    known = {"source": "agent", "schema_version": 1, "agent": "probe", "payload": {}}
    return encode_line({**payload, **known, "session_id": session, "turn": turn, **columns})


def _commit(session: str, turn: int, commit: str, **columns: Any) -> bytes:
    payload = {"event_type": "turn", "operation": "end", "agent": "git", "commit": commit}
    return _event(session, turn, **payload, **columns)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    """Two sessions of an agent whose events are interleaved, and three commits, with an index."""
    with Store.init(tmp_path / ".locus", force=True) as store:
        turns = [_event(session, turn) for turn in (1, 2) for session in _SESSIONS for _ in range(3)]
        commits = [_commit("cccccccc", number, commit) for number, commit in enumerate(_COMMITS, 1)]
        store.journal.append([*turns, *commits, _event("aaaaaaaa", 1)])
        store.seal()
        store.reindex()
        yield store


def _by_index(store: Store, name: str) -> TurnRef | None:
    store._ask_in_sql()
    with store.view() as view:
        return sealed_turn(view, name)


def _whole(ref: TurnRef | None) -> Any:
    return None if ref is None else (ref, ref.since, ref.until)


_NAMES = (
    *(f"{before}{session}_00{turn}" for before in ("", "turn:") for session in _SESSIONS for turn in (1, 2)),
    "cccccccc_3", "git:ef01", f"git:{_COMMITS[0]}", f"git:{_COMMITS[1].upper()}",
)  # fmt: skip


def test_the_index_alone_gives_the_turn_that_sql_gives(store: Store) -> None:
    """I14, P8: also the positions that bound its events."""
    for name in _NAMES:
        assert _whole(_by_index(store, name)) == _whole(find_turn(store.query, name)) is not None


def test_a_turn_with_a_plain_name_is_found_without_a_question(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """P8: to ask in SQL takes longer than the rest of a plan; what happened elsewhere changes nothing."""
    store.journal.append([_event("dddddddd", 1), _event("dddddddd", None, event_type="restore")])
    found = [find_turn(store.query, name) for name in _NAMES]
    asked = list[Any]()
    monkeypatch.setattr(Store, "query", lambda *given: asked.append(given))

    assert [store.turn(name) for name in _NAMES] == found and not asked


@pytest.mark.parametrize("name", ["aaaa", "last", "last:probe", "git:abcd", "git:ab", "git:xy", "aaaaaaaa_9"])
def test_other_names_are_left_to_sql(store: Store, name: str) -> None:
    """What is no exact name, what fits several turns, what no turn of the index has."""
    assert _by_index(store, name) is None


def test_a_commit_that_two_turns_have_is_left_to_sql(store: Store) -> None:
    """Of a commit that was recorded twice SQL knows which turn counts."""
    store.journal.append([_commit("eeeeeeee", 1, _COMMITS[2])])
    store.seal()
    store.reindex()

    assert _by_index(store, "git:ef01") is None
    with pytest.raises(Ambiguous):
        store.turn("git:ef01")


_NEWER: dict[str, tuple[str, Callable[[], bytes]]] = {
    "its session goes on": ("aaaaaaaa_001", lambda: _event("aaaaaaaa", 2)),
    "a type that this version does not know": (
        "aaaaaaaa_001",
        lambda: _event("dddddddd", 1, event_type="later"),
    ),
    "a commit": ("git:ef01", lambda: _commit("dddddddd", 1, "ef01" + "3" * 36)),
}


@pytest.mark.parametrize("case", _NEWER)
def test_what_newer_events_may_change_is_left_to_sql(store: Store, case: str) -> None:
    """I22: sealed or not, an event that the index lacks counts."""
    name, newer = _NEWER[case]
    assert _by_index(store, name) is not None
    store.journal.append([newer()])
    assert _by_index(store, name) is None
    store.seal()
    assert _by_index(store, name) is None

    if case == "a commit":
        with pytest.raises(Ambiguous):
            store.turn(name)
    else:
        assert _whole(store.turn(name)) == _whole(find_turn(store.query, name))


def test_a_damaged_index_is_left_to_sql(store: Store) -> None:
    """I22: the log has everything that an index has."""
    (path,) = (path for path in Path(store.layout.root, "index").iterdir() if path.suffix == ".duckdb")
    expected = find_turn(store.query, "aaaaaaaa_001")
    data = bytearray(path.read_bytes())
    for at in range(12_288, len(data)):
        data[at] ^= 1
    path.write_bytes(data)
    with Store.open(store.layout.root) as again:
        assert _by_index(again, "aaaaaaaa_001") is None
        assert again.turn("aaaaaaaa_001") == expected
        with pytest.raises(NotFound):
            again.turn("turn:aaaaaaaa_009")
