"""Histories that subagents and forks of Codex were copied from: recorded once, whichever file is read first.

The shapes are those of real rollouts of 0.118: a copied line has another time, most events of the client are
left out, and the call that made a subagent is answered in the copy with words that the parent never got.
"""

import json
import os
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from eventlog.agents.codex import transcript as reader
from eventlog.agents.kit.draft import digest_of
from eventlog.store import Store
from tests.agents import codex_support as codex
from tests.agents.codex_support import CHILD, SESSION, THREAD, Line, meta, rows, run, write

# Each example is a dozen imports; a hunt makes more of them.
EXAMPLES = 200 if float(os.environ.get("LOCUS_HUNT", "0")) else 4

GRANDCHILD = "01a1ff00-9000-7000-8000-000000000003"
LATER_TURN = "01a1ff00-6000-7000-8000-0000000000a4"
CHILD_TURN = "01a1ff00-5100-7000-8000-0000000000a3"
GRANDCHILD_TURN = "01a1ff00-9100-7000-8000-0000000000a5"
LEFT_OUT = ("exec_command_end", "patch_apply_end", "web_search_end")
NEWLY = "You are the newly spawned agent. The history above is your parent's."

# What only one of the orders tells: ends and rests of what was cut off, and times that a copy does not have.
_OF_ORDER = "event_type in ('import', 'sessions') or operation in ('end', 'original', 'rest')"


def copied(lines: Sequence[Line], second: float) -> list[Line]:
    """Lines as a fork's file has them."""
    kept = [one for one in lines if one["payload"].get("type") not in LEFT_OUT]
    return [{**one, "timestamp": f"2026-11-20T10:00:{second:06.3f}Z"} for one in kept]


def turn(second: float, name: str, words: str, call: str, total: int) -> list[Line]:
    """A turn of two answers, a command and a model call; `total` is the thread's of tokens."""
    return [
        *codex.begin(second, name),
        codex.item(second, "message", role="developer", content=[{"type": "input_text", "text": "rules"}]),
        *codex.prompt(second, words),
        *codex.answer(second, f"I do: {words}"),
        *codex.shell(second, call, "make", "Process exited with code 0\nOutput:\nmade\n"),
        codex.event(second, "exec_command_end", call_id=call, exit_code=0, aggregated_output="made\n"),
        codex.count(second, total, 50),
        codex.event(second, "stream_error", message="again"),
        *codex.prompt(second, f"and quickly: {words}"),
        codex.end(second, name),
    ]


def spawn(second: float, call: str, answer: str) -> list[Line]:
    return [
        codex.item(second, "function_call", name="spawn_agent", arguments="{}", call_id=call),
        codex.item(second, "function_call_output", call_id=call, output=answer),
    ]


def of_subagent(second: float, thread: str, of: str) -> Line:
    spawned = {"subagent": {"thread_spawn": {"parent_thread_id": of, "agent_role": "tester"}}}
    return meta(second, thread, source=spawned, forked_from_id=of)


def of_fork(second: float, thread: str, of: str) -> Line:
    return meta(second, thread, forked_from_id=of)


PARENT = [
    *SESSION,
    *spawn(9, "spawn_1a2b1", '{"agent_id":"x"}'),
    *turn(40, LATER_TURN, "one more", "call_1a2b8", 900),
]
HISTORY = [*SESSION, *spawn(9, "spawn_1a2b1", NEWLY)]
OWN = turn(21, CHILD_TURN, "check it", "call_1a2b9", 300)


def child(first: Line = of_subagent(20, CHILD, THREAD)) -> list[Line]:  # noqa: B008
    return [first, *copied(HISTORY, 20), *OWN]


def facts(store: Store) -> tuple[Any, ...]:
    """What the order of imports must not change."""
    return (
        set(rows(store, f"select event_type, event_id from events where not coalesce({_OF_ORDER}, false)")),
        rows(
            store,
            "select agent_session_id, title, started_at, turn_count, llm_calls, prompt_tokens, tool_calls, "
            "errors from sessions where agent_session_id is not null order by 1",
        ),
        rows(
            store,
            "select session_id, turn, title, user_request, started_at, llm_calls, prompt_tokens, tool_calls, "
            "errors from turns order by 1, 2",
        ),
    )


def imported(*groups: "Sequence[list[Line]]") -> tuple[Any, ...]:
    """The facts after imports of groups of files, one after the other."""
    with tempfile.TemporaryDirectory() as place, Store.init(Path(place, ".locus")) as store:
        for number, group in enumerate(groups):
            paths = [write(Path(place, f"{number}-{n}.jsonl"), lines) for n, lines in enumerate(group)]
            assert run(store, *paths).problems == []
        return facts(store)


def test_a_subagents_file_alone_restores_its_parents_history(tmp_path: Path) -> None:
    """P3: prompts, calls, tokens and files that only the copy has are the parent's, in its session."""
    with Store.init(tmp_path / ".locus") as store:
        run(store, write(tmp_path / "child.jsonl", child()))
        ((session, title, calls, tokens, tools, started),) = rows(
            store,
            "select agent_session_id, title, llm_calls, prompt_tokens, tool_calls, epoch(started_at) "
            "from sessions where agent_session_id is not null",
        )
        assert (session, title, calls, tokens, tools) == (THREAD, "add a price", 3, 300, 4)
        assert rows(store, "select path, operation from events where event_type = 'file'") == [
            ("a.py", "add"),
            ("a.py", "edit"),
        ]
        (start,) = [e for e in store.events() if e["event_type"] == "session" and e["operation"] == "start"]
        assert start["payload"]["originator"] == "codex-tui"
        assert started == 1795168800  # 2026-11-20T10:00:00Z, of the parent's own first line
        assert rows(store, "select count(*) from sessions where status = 'active'") == [(0,)]


@pytest.mark.parametrize("first", [of_subagent(20, CHILD, THREAD), of_fork(20, CHILD, THREAD)])
def test_a_copy_read_before_or_after_its_parent_gives_one_log(first: Line) -> None:
    """P3: events, turn numbers, tokens, starts and titles do not depend on the order of imports."""
    of = child(first)
    at_once = imported([PARENT, of])
    assert imported([of, PARENT]) == at_once
    assert imported([PARENT], [of]) == at_once
    assert imported([of], [PARENT]) == at_once
    assert imported([of], [PARENT], [of], [PARENT]) == at_once


def test_a_parent_that_ends_before_its_copy_is_completed(tmp_path: Path) -> None:
    """P3: of a shorter parent the copy adds what it lacks, and no more."""
    whole = imported([SESSION, child()])
    for size in (1, 5, 12, len(SESSION) - 4):
        assert imported([SESSION[:size]], [child()]) == whole
        assert imported([child()], [SESSION[:size]]) == whole


def test_what_a_copy_lacks_comes_from_the_parent_read_later(tmp_path: Path) -> None:
    """P3: times and what the client reported of a call's end are kept beside the event from the copy."""
    with Store.init(tmp_path / ".locus") as store:
        run(store, write(tmp_path / "child.jsonl", child()))
        run(store, write(tmp_path / "parent.jsonl", PARENT))
        found = rows(
            store,
            "select o.occurred_at is not null, o.payload->'told'->>'success' from events o join events a "
            "on o.cause = a.event_id where o.operation = 'original' and a.tool_use_id = 'call_1a2b1' "
            "and a.event_type = 'action'",
        )
        assert found == [(True, "true")]
        ends = "select epoch(completed_at) from turns where title = 'add a price'"
        assert rows(store, ends)[0][0] < 1795500000  # none is the time of the import
        before = store.journal.next_position()
        (tmp_path / ".locus/live/imports.json").unlink()
        assert run(store, tmp_path / "parent.jsonl", tmp_path / "child.jsonl").facts == 0
        assert store.journal.next_position() == before


def test_the_answer_that_a_subagent_begins_with_is_no_answer_of_its_parents(tmp_path: Path) -> None:
    """P3: the call that made it ends with what the parent got, and the words are kept as the subagent's."""
    with Store.init(tmp_path / ".locus") as store:
        run(store, write(tmp_path / "child.jsonl", child()))
        run(store, write(tmp_path / "parent.jsonl", PARENT))
        results = "select payload->>'result' from events where event_type = 'action' "
        assert rows(store, results + "and tool_use_id = 'spawn_1a2b1'") == [('{"agent_id":"x"}',)]
        kept = "select subagent_id from events where event_type = 'transcript' and payload->>'output' = ?"
        assert rows(store, kept.replace("?", f"'{NEWLY.replace(chr(39), chr(39) * 2)}'")) == [(CHILD,)]


def test_a_subagent_without_a_copy_takes_no_start_from_its_session(tmp_path: Path) -> None:
    """P3: the session begins as its own file says, also when a subagent's was read before."""
    spawned = meta(20, CHILD, session_id=THREAD, source={"subagent": {"thread_spawn": {}}})
    with Store.init(tmp_path / ".locus") as store:
        first = write(tmp_path / "child.jsonl", [spawned, *OWN])
        run(store, first)
        assert rows(store, "select count(*) from sessions where agent_session_id is not null") == [(1,)]
        (tmp_path / ".locus/live/imports.json").unlink()
        assert run(store, first).facts == 0
        run(store, write(tmp_path / "parent.jsonl", SESSION))
        started = "select payload->>'originator', epoch(started_at) from events join sessions using "
        started += "(session_id) where event_type = 'session' and operation = 'start'"
        assert rows(store, started) == [("codex-tui", 1795168800)]


def test_a_search_without_an_id_is_no_second_one_in_a_copy(tmp_path: Path) -> None:
    """P3: only the event that a copy lacks names a search; the copied item is kept and not counted."""
    search = {"type": "search", "query": "prices"}
    lines = [
        *SESSION[:-1],
        codex.event(8, "web_search_end", call_id="ws_1", query="prices", action=search),
        codex.item(8, "web_search_call", status="completed", action=search),
        SESSION[-1],
    ]
    of = [of_fork(20, CHILD, THREAD), *copied(lines, 20), *OWN]
    for files in ([lines], [of]), ([of], [lines]):
        sessions = imported(*files)[1]
        assert [row[6] for row in sessions if row[0] == THREAD] == [4]


def test_a_store_that_passed_over_copies_gains_only_what_is_new(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """P3: lines that an earlier version named by their numbers are not recorded again under other names."""

    def numbered(self: Any, event_type: str, said: Any) -> tuple[str, ...]:
        session = [self._draft.session or ""] if event_type == "transcript" else []
        return (event_type, *session, self._thread, str(self._number), digest_of(said))

    parent = write(tmp_path / "parent.jsonl", PARENT)
    with Store.init(tmp_path / ".locus") as store:
        with monkeypatch.context() as earlier:
            earlier.setattr(reader.CodexReader, "_key", numbered)
            earlier.setattr(reader, "histories_in", lambda source, head: [])
            run(store, parent, write(tmp_path / "child.jsonl", child()))
        calls = rows(store, "select count(*), sum(prompt_tokens) from llm_calls")
        moved = write(tmp_path / "moved.jsonl", PARENT)
        assert run(store, moved).facts == 0
        (tmp_path / ".locus/live/imports.json").unlink()
        run(store, tmp_path / "child.jsonl")
        assert rows(store, "select count(*), sum(prompt_tokens) from llm_calls") == calls
        more = "select event_type from events where event_type <> 'import' and position > "
        (last,) = rows(store, "select max(position) from events where title like '%moved.jsonl'")
        # The call that made the subagent was open when it was copied.
        assert rows(store, f"{more}{last[0]}") == [("tool_start",)]


@st.composite
def families(draw: st.DrawFn) -> list[list[Line]]:
    """A parent, a fork or subagent of it, and one of that: with the copies that each begins with."""
    kinds = st.sampled_from([of_fork, of_subagent])
    first, second = draw(kinds), draw(kinds)
    at = draw(st.integers(2, len(SESSION)))
    own = [first(20, CHILD, THREAD), *copied(SESSION[:at], 20), *OWN]
    grown = [*own, *turn(30, "01a1ff00-9900-7000-8000-0000000000a6", "go on", "call_1a2b7", 350)]
    of_own = [second(25, GRANDCHILD, CHILD), *copied(own, 25)]
    of_own += turn(26, GRANDCHILD_TURN, "check again", "call_1a2b6", 330)
    return [PARENT, grown, of_own]


@settings(max_examples=EXAMPLES, phases=(Phase.explicit, Phase.reuse, Phase.generate))
@given(families(), st.data())
def test_families_in_any_order_and_portions_give_one_log(
    family: list[list[Line]], data: st.DataObject
) -> None:
    """P3, P7: a parent, a fork and a fork of that, each read in parts, in any order."""
    cuts = [sorted(data.draw(st.lists(st.integers(1, len(one)), max_size=2))) for one in family]
    steps = data.draw(st.permutations([n for n, sizes in enumerate(cuts) for _ in sizes]))
    steps = [*steps, *data.draw(st.permutations(range(len(family))))]
    with tempfile.TemporaryDirectory() as place, Store.init(Path(place, ".locus")) as store:
        for number in steps:
            size = cuts[number].pop(0) if cuts[number] else len(family[number])
            path = Path(place, f"{number}.jsonl")
            path.write_bytes(b"".join(json.dumps(one).encode() + b"\n" for one in family[number][:size]))
            assert run(store, path).problems == []
        in_steps = facts(store)
    at_once = imported(family)
    assert in_steps[1:] == at_once[1:]
    assert {kind for kind, _ in in_steps[0] ^ at_once[0]} <= {"tool_start"}  # of calls cut from their outputs
