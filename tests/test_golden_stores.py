"""Stores that earlier revisions wrote, with what every reading verb answered: it answers the same today.

docs/testing.md has the rule for an answer that is to change. The maker of stores:
tests/golden/make_stores.py."""

import json
import tarfile
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest

from eventlog.mcp import write
from eventlog.store import Store
from tests.golden import compare, stores
from tests.golden.make_stores import SECRET
from tests.golden.stores import STORES, Answer, Place, answers_of, clock, one_connection, unpack

Row = tuple[Any, ...]

ALONE = ("compacted", "git")  # with an index, and without one

# What hooks tell under a random id (docs/event-ids.md), so that telling it again is a new event:
RANDOM = {
    ("snapshot", "turn_end"),  # the state at a Stop
    ("turn", "end"),  # but for Gemini CLI, whose hooks name the time
    ("session", "end"),
    ("hook", "PreModelRequest"),  # a hook about no tool call
    ("llm", None),  # Codex gives its hooks no id of a model call
}
# A model call of these has an id in hooks, and a turn's end of these; neither may be reported twice.
ONCE = {("llm", None): ("claude-code", "gemini-cli", "opencode"), ("turn", "end"): ("gemini-cli",)}
# Stores of hooks' sessions whose transcripts were not imported.
WITHOUT_WORDS = ("restored", "shared")
FACTS = """
select event_type, operation, agent, path, tool_use_id, title, event_id from events order by position
"""


@pytest.mark.parametrize("name", stores.names())
def test_every_verb_answers_as_before(name: str, tmp_path: Path) -> None:
    """I23: a store of an earlier revision is read as that revision read it, or as a documented rule says.

    In `ALONE` each command connects and folds for itself, as a user's does; in the others they share that.
    """
    place = unpack(name, tmp_path)
    with clock(place.facts["clock_us"]), nullcontext() if name in ALONE else one_connection():
        found = [
            compare.difference(one, place.ask(one.arguments, one.name)) for one in compare.expected_of(name)
        ]

    assert [difference for difference in found if difference is not None] == []


@pytest.mark.parametrize("name", stores.names())
def test_the_same_facts_add_no_event(name: str, tmp_path: Path) -> None:
    """P3, I8: transcripts and commits imported again add nothing; nor do hooks that tell the same again,
    after days, in another directory.

    Hook events with random ids are new each time and left out: the snapshot at the end of a turn, ends of
    turns (but Gemini CLI's) and of sessions, `hook` events about no tool call, model calls of Codex. In
    `restored` a hook finds that the restore deleted a file, which is a new fact, once. Hooks read the agent's
    words since 0.2: they are new where the transcripts were not imported, and there alone.
    """
    place = unpack(name, tmp_path)
    with clock(place.facts["clock_us"]):
        before = place.count()
        reports = place.imports()
        assert [report["events"] for report in reports] == [0] * len(reports)
        assert place.count() == before
        if not place.steps():
            return
        added = _added(place)
        words = [fact for fact in added if fact[:2] == ("message", "text")]
        assert bool(words) == (name in WITHOUT_WORDS)
        assert [fact for fact in added if fact[:2] not in RANDOM and fact not in words] == (
            [("file", "delete", "claude-code", "notes/tea.md", None, None)] if name == "restored" else []
        )
        assert [fact for fact in added if fact[2] in ONCE.get(fact[:2], ())] == []
        assert len(added) < len(place.steps())
        if name == "erased":
            text = place.ask(["export", "jsonl", "--contents", "--to", "-"]).out
            assert SECRET in json.dumps(place.steps()) and SECRET not in text


def _added(place: Place) -> list[Row]:
    """What the calls of hooks add when they are made again: type, operation, agent, path, call, title."""
    known = {fact[-1] for fact in _facts(place)}
    place.play(place.steps(), leave=False, change=False)
    return [fact[:-1] for fact in _facts(place) if fact[-1] not in known]


def _facts(place: Place) -> list[Row]:
    return [tuple(row.values()) for row in json.loads(place.ask(["sql", "--json", FACTS]).out)]


def test_hooks_and_transcripts_say_the_same_in_either_order() -> None:
    """P3: whichever reported a fact first, sessions, turns, tool calls and model calls count once.

    Left out is what the revisions that wrote these stores counted twice when hooks reported after the import;
    `tests/importers/test_either_order.py` has it all for stores of today.
    """
    counted_twice = {("turns", "gemini-cli"), ("actions", "gemini-cli"), ("llm_calls", "codex")}
    listed = [
        {view: _rows_of(name, view) for view in ("sessions", "turns", "actions", "llm_calls")}
        for name in ("hooks-first", "transcripts-first")
    ]
    for view, columns in {
        "sessions": ("agent", "agent_session_id"),
        "turns": ("agent", "user_request"),
        "actions": ("agent", "tool_use_id"),
        "llm_calls": ("agent", "prompt_tokens", "completion_tokens"),
    }.items():
        first, second = (
            sorted(
                [row[column] for column in columns]
                for row in rows[view]
                if (view, row["agent"]) not in counted_twice
            )
            for rows in listed
        )
        assert first == second, view
        assert {agent for agent, *_ in first} >= {"claude-code", "opencode"}


def _rows_of(name: str, view: str) -> list[dict[str, Any]]:
    (answer,) = (one for one in answers_of(name) if one.name.endswith(f" from {view} order by all"))
    found: list[dict[str, Any]] = json.loads(answer.out)
    return found


@pytest.mark.parametrize("name", stores.names())
def test_all_commands_count_the_same_sessions(name: str, tmp_path: Path) -> None:
    """P3: a session is a row of the view `sessions` (docs/sql.md), for SQL, commands and tools alike."""
    place = unpack(name, tmp_path)

    def ask(*arguments: str) -> Any:
        return json.loads(place.ask([*arguments, "--json"]).out)

    with clock(place.facts["clock_us"]), nullcontext() if name in ALONE else one_connection():
        status = ask("status")["status"]
        ((of_master, agents),) = (
            row.values()
            for row in ask(
                "sql",
                "select (select sum(total_sessions)::int from sessions_master), "
                "(select json_group_object(coalesce(agent, ''), n) from "
                "(select agent, count(*) as n from sessions group by 1))",
            )
        )
        total = ask("stats", "--all")["stats"]["total"]["sessions"]
        by_agent = {
            row["key"] or "": row["sessions"]
            for row in ask("stats", "--all", "--by", "agent")["stats"]["rows"]
        }
        listed = place.ask(["session", "ls", "--all", "--json"]).out.splitlines()
        active = place.ask(["session", "ls", "--json"]).out.splitlines()
        with Store.open(place.store) as store:
            of_tool = list(write.list_sessions(store, active_only=False))
    assert [of_master, total, len(listed), len(of_tool)] == [status["sessions"]] * 4
    assert {agent: n for agent, n in by_agent.items() if n} == json.loads(agents)
    assert len(active) == status["active_sessions"]


def test_every_changed_answer_has_its_rule() -> None:
    """Each answer that took the place of a committed one says otherwise and is covered; no entry is idle."""
    entries = compare.changes()
    used = set()
    for name in stores.names():
        original = {answer.name: answer for answer in answers_of(name)}
        for answer in compare.changed_of(name):
            assert compare.difference(original[answer.name], answer) is not None
            covering = [n for n, entry in enumerate(entries) if entry.covers(name, answer.name)]
            assert covering, f"{name}: {answer.name} has no entry in {compare.CHANGES.name}"
            used.update(covering)
    assert used == set(range(len(entries)))
    assert all(entry.rule and entry.since for entry in entries)


def test_what_counts_as_the_same() -> None:
    """JSON may grow by keys, at any depth, and by nothing else; words and codes may not change."""

    def shown(out: str, code: int = 0) -> Answer:
        return Answer("x", ["x"], code, out, "")

    old = shown('{"a": [{"b": 1}], "c": null}')
    assert compare.difference(old, shown('{"new": 1, "a": [{"b": 1, "d": 2}], "c": null}')) is None
    assert compare.difference(shown('{"a": 1}\n{"a": 2}\n'), shown('{"a": 1, "b": 1}\n{"a": 2}\n')) is None
    for other in (
        '{"a": [{"b": 2}], "c": null}',
        '{"a": [{"b": true}], "c": null}',
        '{"a": [{"b": 1}]}',
        '{"a": [{"b": 1}, {"b": 1}], "c": null}',
        '{"a": [], "c": null}',
        "words",
        '{"a": [{"b": 1}], "c": null}\n{"c": 1}',
    ):
        assert compare.difference(old, shown(other)) is not None, other
    assert compare.difference(old, shown(old.out, 4)) is not None
    assert compare.difference(shown("TURN\nx\n"), shown("TURN\nx\ny\n")) is not None


def test_the_stores_are_small_and_nobodys() -> None:
    """What is committed stays below 2.5 MB, and holds no user, time or path of the machine that made it."""
    assert sum(path.stat().st_size for path in STORES.iterdir()) < 2_500_000
    for name in stores.names():
        with tarfile.open(STORES / f"{name}.tar.gz") as archive:
            members = archive.getmembers()
            assert {(one.uid, one.gid, one.uname, one.gname, one.mtime) for one in members} == {
                (0, 0, "", "", 0)
            }
        assert answers_of(name)
        assert len({answer.name for answer in answers_of(name)}) == len(answers_of(name))
