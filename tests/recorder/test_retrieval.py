"""The client's reading operations over the local log."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from eventlog.base.errors import EventLogError
from eventlog.recorder import retrieval
from eventlog.recorder.hooks import Hooks
from eventlog.recorder.recorder import Recorder
from eventlog.recorder.requests import (
    ContextType,
    ContextTypeFilter,
    CreateEventRequest,
    EventKind,
    InsightsOptions,
    RetrieveOptions,
)
from eventlog.store import Store
from tests.recorder.kept import copy_of, recorded_once


@pytest.fixture(scope="module")
def _recorded_once(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two sessions: one about tokens, one about the parser; the first is closed."""
    return recorded_once(tmp_path_factory.mktemp("recorded") / ".locus", _record)


@pytest.fixture
def hooks(_recorded_once: Path, tmp_path: Path) -> Iterator[Hooks]:
    with copy_of(_recorded_once, tmp_path / ".locus") as store:
        yield Hooks(store, agent="script")


def _record(store: Store) -> None:
    recorder = Recorder(store, agent="script")
    turn = recorder.start_turn("Fix the JWT refresh")
    turn.decision("Validate token before refresh", "JWT refresh skips it")
    turn.error("CompileError", "mismatched types in jwt.rs", resolved=True, file="src/auth/jwt.rs")
    turn.file("src/auth/jwt.rs", before=b"old\n", after=b"new\n")
    turn.end(title="JWT validation fix", outcome="JWT tests pass")
    recorder.end_session("Repaired the refresh of tokens")
    turn = recorder.start_turn("Speed up the parser")
    turn.decision("Rewrite the tokenizer", "the parser is quadratic")
    turn.error("Timeout", "parser took 9 s")
    turn.end(title="Parser rewritten", outcome="twice as fast")


def types(*kinds: str, names: tuple[str, ...] = ()) -> dict[str, ContextTypeFilter]:
    return {kind: ContextTypeFilter(names) for kind in kinds}


def found(hooks: Hooks, query: str, **options: Any) -> list[str]:
    items = hooks.strict.retrieve_memories(query, RetrieveOptions(**options)).items
    return [item.text for item in items]


def test_memories_are_found_across_sessions(hooks: Hooks) -> None:
    """S0-2, S1-60: by words, over summaries, decisions and changes of any session; each cites its event."""
    result = hooks.retrieve_memories("JWT validation")
    events = {str(e["event_id"]): e for e in hooks.store.events()}

    assert result.items[0].text.startswith("JWT validation fix — JWT tests pass")
    assert result.items_found == len(result.items) > 2
    assert not result.degraded
    assert all(events[item.event_id]["context_id"] == item.context_id for item in result.items)
    assert all(item.event_id[:12] in result.memories for item in result.items)
    assert "quadratic" not in result.memories


def test_a_session_is_found_by_its_summary(hooks: Hooks) -> None:
    """S1-60, S0-13: a context is found once, and shown in its present state."""
    assert found(hooks, "repaired") == ["Fix the JWT refresh — Repaired the refresh of tokens"]


def test_memories_by_type(hooks: Hooks) -> None:
    """S1-16, S1-25, S1-53: a type narrows; words that fit nothing leave the newest of it."""
    assert found(hooks, "tokenizer parser", context_types=types("decision")) == [
        "Rewrite the tokenizer — the parser is quadratic"
    ]
    assert [text.split(" — ")[0] for text in found(hooks, "recent turns", context_types=types("turn"))] == [
        "Parser rewritten",
        "JWT validation fix",
    ]
    assert len(found(hooks, "recent turns", context_types=types("turn"), limit=1)) == 1
    assert found(hooks, "anything", limit=0) == []


def test_memories_by_name_and_context(hooks: Hooks) -> None:
    """S0-2, S1-53: names within a type, and single contexts, are kept to."""
    (first, second) = [
        item.context_id
        for item in hooks.retrieve_memories("", RetrieveOptions(context_types=types("turn"))).items
    ]
    name = str(second).partition(":")[2]

    assert found(hooks, "", context_types=types("turn", names=(name,))) == found(
        hooks, "", context_ids=(str(second),)
    )
    assert found(hooks, "", context_ids=(str(first), str(second))) == found(
        hooks, "", context_types=types("turn")
    )


def test_memories_of_a_turn_are_its_timeline(hooks: Hooks) -> None:
    """S1-53, S1-55: what extends a turn, in order, whatever the words."""
    (turn,) = hooks.store.query("select context_id from turns order by first_position limit 1").rows[0]
    options = RetrieveOptions(extends=turn, limit=50)
    items = hooks.retrieve_memories("turn 002 events", options).items

    assert [item.event_type for item in items] == ["snapshot", "intent", "decision", "error", "file"]


def test_text_is_text(hooks: Hooks) -> None:
    """S0-2: quotes, wildcards and other marks in a query are searched, not obeyed."""
    hooks.store_event(CreateEventRequest(EventKind.FACT, {"text": "Ünïcode 100%_done"}, "skill:odd"))

    for query in ("'; drop table events; --", "%", "_", "\\", "$1", "\0", "a" * 10_000, "?!"):
        assert not hooks.retrieve_memories(query).degraded
    assert found(hooks, "zzz%zzz") == []
    assert found(hooks, "ünïcode") == ["Ünïcode 100%_done"]


def test_long_messages_are_searched_by_their_longest_words() -> None:
    """S1-25: a message of any length costs a bounded search; words without meaning are left out."""
    assert retrieval.words_of("Fix the JWT refresh") == ["refresh", "fix", "jwt"]
    assert len(retrieval.words_of(" ".join(f"word{n}" for n in range(100)))) == retrieval.WORDS_MAX
    assert retrieval.words_of("x Y") == ["x", "y"]
    for empty in ("a I", "about what?", "Why, how and when did she?", "What's there? I don't.", "it isn't"):
        assert retrieval.words_of(empty) == [], empty
    assert retrieval.words_of("src/auth/jwt.rs?") == ["src/auth/jwt.rs"]


def test_insights_cite_what_they_rest_on(hooks: Hooks) -> None:
    """S0-2, P7: decisions, errors and outcomes that bear on the task; confidence is unknown, not zero."""
    insight = hooks.generate_insights("make the parser faster")
    again = hooks.generate_insights("make the parser faster")
    events = {str(e["event_id"]) for e in hooks.store.events()}

    assert insight == again
    assert [line for line in insight.insight.splitlines() if not line.startswith("-")] == [
        "Decisions:",
        "Errors:",
        "Outcomes:",
    ]
    assert "Rewrite the tokenizer" in insight.insight and "JWT" not in insight.insight
    assert insight.recommendation.startswith("Not known to be resolved: ")
    assert "parser took 9 s" in insight.recommendation
    assert insight.confidence is None
    assert insight.event_ids and set(insight.event_ids) <= events


def test_insights_on_what_is_resolved_or_unknown(hooks: Hooks) -> None:
    """S0-2, S1-56, P7: a resolved error is no advice; of what the log does not hold nothing is stated."""
    fixed = hooks.generate_insights("jwt")
    nothing = hooks.generate_insights("kubernetes")
    narrow = hooks.generate_insights("jwt", InsightsOptions(context_types=types("turn"), limit=1))

    assert fixed.recommendation.startswith("Last decided: ")
    assert (nothing.insight, nothing.recommendation, nothing.event_ids) == ("", "", ())
    assert narrow.insight.startswith("Outcomes:\n- [turn:")


def test_types_of_contexts_are_counted(hooks: Hooks) -> None:
    """S0-2, S1-16: each context counts once, however often it was written; pages count from zero."""
    listed = hooks.list_context_types()

    assert ContextType("turn", 2) in listed
    assert ContextType("decision", 2) in listed
    assert [t.count for t in listed] == sorted((t.count for t in listed), reverse=True)
    assert hooks.list_context_types(0, 2) + hooks.list_context_types(1, 2) == listed[:4]


def test_contexts_are_searched_by_name(hooks: Hooks) -> None:
    """S0-2: with type, times and how many events link to each."""
    contexts = hooks.search_contexts("", "turn")
    session = hooks.search_contexts("JWT-refresh")

    assert [c.context_type for c in contexts] == ["turn", "turn"]
    assert [c.context_name.rpartition("_")[2] for c in contexts] == ["001", "001"]
    assert [c.reference_count for c in contexts] == [4, 5]
    assert all(c.created_at and c.updated_at and c.created_at <= c.updated_at for c in contexts)
    assert [c.context_id.startswith("session:fix-jwt-refresh_") for c in session] == [True]
    assert hooks.search_contexts("no such") == []


def test_a_damaged_store_degrades_the_forgiving_form_only(hooks: Hooks) -> None:
    """S0-2, S0-21: retrieval that cannot be made says so; the strict one raises, and a line is kept."""
    store = hooks.store
    store.seal()
    segments = f"{store.layout.root}/log/segments"
    (segment,) = os.listdir(segments)
    with open(f"{segments}/{segment}", "r+b") as file:
        file.truncate(100)
    result = hooks.retrieve_memories("jwt")

    assert (result.memories, result.items_found, result.degraded) == ("", 0, True)
    assert "retrieve_memories" in open_text(f"{store.layout.root}/tmp/hook-errors.log")
    with pytest.raises(EventLogError):
        hooks.strict.retrieve_memories("jwt")


def open_text(path: str) -> str:
    with open(path, encoding="utf-8") as file:
        return file.read()
