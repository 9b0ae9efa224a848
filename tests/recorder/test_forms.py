"""Forms and numbers that are agreed on: ids, hashes, limits, and who goes on with which session."""

import re

import pytest

from eventlog.base import layout
from eventlog.base.errors import InvalidEvent
from eventlog.base.names import session_id_of
from eventlog.base.repository import hash_of_roots
from eventlog.memory import window
from eventlog.recorder.hooks import Hooks
from eventlog.recorder.recorder import Recorder
from eventlog.recorder.requests import ContextTypeFilter, RetrieveOptions
from eventlog.store import Store


def test_ids_have_their_forms(store: Store) -> None:
    """S1-10, S1-11: eight of [0-9a-z] name a session, three digits a turn."""
    recorder = Recorder(store, agent="script")
    turns = [recorder.start_turn("Go"), recorder.start_turn("On")]
    ids = [str(turns[0].ref.session_id), session_id_of("codex", "their own")]

    assert all(re.fullmatch("[0-9a-z]{8}", one) for one in ids)
    assert [store.timeline(turn.ref)[0]["turn_id"] for turn in turns] == ["001", "002"]


def test_a_repository_is_named_by_all_its_roots() -> None:
    """S1-3: twelve hex digits, whatever the order in which git lists the roots."""
    roots = ["b" * 40, "a" * 40]

    assert hash_of_roots(roots) == hash_of_roots(reversed(roots)) != hash_of_roots(roots[:1])
    assert re.fullmatch("[0-9a-f]{12}", hash_of_roots(roots))


def test_files_of_others_have_no_numbers() -> None:
    """S1-61: a name is ours with twenty ASCII digits, and no other."""
    assert layout.parse_journal(f"{7:020d}.evj") == 7
    for name in ("7.evj", f"{7:019d}.evj", f"{7:021d}.evj", "٣" * 20 + ".evj", f"{7:020d}.json"):
        assert layout.parse_journal(name) is None, name


def test_reading_hooks_record_nothing(store: Store) -> None:
    """S0-1: what a client asks leaves no event."""
    Recorder(store, agent="script").start_turn("Fix the login")
    hooks, before = Hooks(store, agent="script"), store.status().events
    assert hooks.retrieve_memories("login").items_found
    hooks.generate_insights("login")
    assert hooks.list_context_types() and hooks.search_contexts("turn")

    assert store.status().events == before


def test_a_snapshot_is_of_a_turns_start_or_end(store: Store) -> None:
    """S0-18: no other moment is accepted, and nothing is stored of it."""
    hooks = Hooks(store, agent="script").strict
    with pytest.raises(InvalidEvent, match="turn_start"):
        hooks.store_snapshot("a1b2c3d4", "001", 1, None, None, None, None, "tool")

    assert list(store.events()) == []


def test_another_process_goes_on_with_the_active_session(store: Store) -> None:
    """S1-20: a recorder that begins a turn resumes what its agent has open, and nobody else's."""
    first = Recorder(store, agent="script").start_turn("Fix the login")
    second = Recorder(store, agent="script").start_turn("And the logout")
    other = Recorder(store, agent="another").start_turn("Look around")

    assert (second.ref.session_id, second.ref.turn) == (first.ref.session_id, 2)
    assert other.ref.session_id != first.ref.session_id


def test_memories_of_one_type_are_of_any_session(store: Store) -> None:
    """S1-16, S1-53, S1-60: decisions of two sessions and nothing else; a word of a payload is enough."""
    for agent in ("one", "two"):
        turn = Recorder(store, agent=agent).start_turn("Plan the walrus")
        turn.decision(f"Feed it, says {agent}", "the walrus is hungry")
        turn.error("WalrusError", "the walrus bit")
    hooks = Hooks(store, agent="script")
    only = RetrieveOptions(context_types={"decision": ContextTypeFilter()})
    found = hooks.retrieve_memories("hungry walrus", only).items

    assert {memory.event_type for memory in found} == {"decision"} and len(found) == 2
    assert [m.event_type for m in hooks.retrieve_memories("hungry").items] == ["decision", "decision"]


def test_a_window_has_ten_memories_and_five_turns(store: Store) -> None:
    """S1-25, S1-27: no more and no fewer, where there are more of each."""
    recorder = Recorder(store, agent="script")
    for number in range(14):
        turn = recorder.start_turn(f"Wash the walrus, time {number}")
        turn.decision(f"Walrus soap {number}")
        turn.end(title=f"Washed {number}")
    block = window.context_block(store, "Where is the walrus?", session_id=turn.ref.session_id)

    assert (len(block.relevant), len(block.recent_turns)) == (10, 5)
