"""No fact vanishes because of an id: files whose ids come again, or whose lines moved, are reported whole."""

import copy
import functools
import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eventlog.agents import formats
from eventlog.agents.kit.call import call_key, is_global, numbered
from eventlog.agents.kit.draft import Draft, FileItem
from eventlog.agents.kit.lines import Doubles, Line
from eventlog.base.names import event_id_of
from eventlog.base.types import Event
from eventlog.importers import importer
from eventlog.importers.importer import ImportReport
from eventlog.store import Store
from tests.agents import claude_support as claude
from tests.agents import codex_support as codex
from tests.agents import test_gemini_cli_transcript as gemini
from tests.agents import test_opencode_transcript as opencode
from tests.agents.test_other_agents import SAMPLES
from tests.cli.support import locus_process
from tests.conftest import examples
from tests.secrets_made import made

Said = dict[str, Any]

# An id that tells nothing, one that a server counted, and one that looks random and comes again all the same.
NAMES = ("REDACTED", "call_0", "toolu_01AbCdEf23")
OF_IDS = frozenset((
    "uuid", "parentUuid", "id", "parentId", "tool_use_id", "call_id", "callID", "toolCallId", "tool_call_id",
    "source_call_id", "messageId", "messageID", "responseId", "response_id", "requestId",
))  # fmt: skip
SAY_NOTHING = frozenset((
    "event_id", "message_id", "request_id", "agent_turn_id", "cause", "parent", "type", "role", "status",
    "phase",
))  # fmt: skip
LINES_NAME_THEMSELVES = ("claude-code", "copilot-cli", "pi")


def claude_session(
    session: str = claude.SESSION, *, name: str = "0b5f3c1e-1111-4000-8000-00000000000"
) -> list[Said]:
    """A command that is run twice and says the same, an edit, a failure, a call without a result."""
    tell = claude.Teller(session, name=name)
    run = {"command": "make test"}
    write = {"file_path": f"{claude.HOME}/a.py", "content": "price = 1\n"}
    listed = [tell.user("add a price", promptId=f"{session}1")]
    listed += tell.call("msg_01Aa1", "toolu_01Aa1", "Bash", run, "1 test failed")
    listed += tell.call("msg_01Aa2", "toolu_01Aa2", "Write", write, "written", {"type": "create", **write})
    listed += tell.call("msg_01Aa3", "toolu_01Aa3", "Bash", run, "1 test failed")
    listed += [
        tell.answer("msg_01Aa4", claude.text("It is there.")),
        tell.user("again", promptId=f"{session}2"),
    ]
    listed += tell.call(
        "msg_01Aa5", "toolu_01Aa5", "Bash", {"command": "rm -rf build"}, "no build here", failed=True
    )
    use = {"type": "tool_use", "id": "toolu_01Aa6", "name": "Bash", "input": {"command": "sleep 9"}}
    listed += [tell.answer("msg_01Aa6", use)]
    for number, line in enumerate(listed):
        if line["type"] == "assistant":
            line["message"]["usage"]["input_tokens"] = number + 10
    return listed


def opencode_export() -> list[Said]:
    def tool(call: str, command: str, output: str) -> Said:
        state = {
            "status": "completed",
            "input": {"command": command},
            "output": output,
            "metadata": {"exit": 0},
        }
        return {"type": "tool", "tool": "bash", "callID": call, "state": state}

    parts = [
        tool("call_1a2b3", "ls", "a.py"),
        tool("call_1a2b4", "pwd", "/home/dev"),
        tool("call_1a2b5", "ls", "b.py"),
    ]
    listed = [opencode.user(1, "look"), opencode.answer(2, *parts, *opencode.step())]
    return [{"info": opencode.info(), "messages": [{"info": one, "parts": of} for one, of in listed]}]


FILES: dict[str, list[Said]] = {
    "claude-code": claude_session(),
    "codex": codex.SESSION,
    "gemini-cli": [gemini.HEAD, *gemini.MESSAGES],
    "opencode": opencode_export(),
    **SAMPLES,
}


def renamed(value: Any, name: str) -> Any:
    """A copy of a line with one name for all ids but those of sessions and turns."""
    if isinstance(value, list):
        return [renamed(one, name) for one in value]
    if not isinstance(value, dict):
        return value
    is_session = value.get("type") == "session" or "cli_version" in value or "projectID" in value
    of_row = "sessionID" in value  # of a database, where it is a key
    return {
        key: name
        if key in OF_IDS
        and isinstance(one, str)
        and not (key in ("id", "messageID") and (is_session or of_row))
        else renamed(one, name)
        for key, one in value.items()
    }


def events_of(agent: str, lines: list[Said]) -> list[Event]:
    """What is recorded of a file, each event once, as the log does."""
    draft, doubles = Draft(agent), Doubles()
    reader = formats.reader_of(agent)(draft)
    for number, item in enumerate(lines, 1):
        draft.line = Line(0, number, 0, orjson.dumps(item), copy.deepcopy(item), False)
        if not doubles.has(draft.line):
            assert draft.line.record is not None
            reader.take(draft.line.record)
    draft.line = None
    reader.end()
    events = [one for one in draft.take() if not isinstance(one, FileItem)]
    return list({str(one["event_id"]): one for one in reversed(events)}.values())[::-1]


def counted(events: list[Event]) -> dict[str, int]:
    found = Counter(str(one["event_type"]) for one in events)
    calls = {(e.get("message_id"), e.get("request_id")) for e in events if e["event_type"] == "llm"}
    return {
        "actions": found["action"],
        "prompts": found["intent"],
        "errors": found["error"],
        "calls": len(calls),
    }


def words(value: Any) -> Iterator[str]:
    """The texts that say something in a line or an event."""
    if isinstance(value, str):
        yield value.strip()
    elif isinstance(value, dict):
        for key, one in value.items():
            if key not in OF_IDS and key not in SAY_NOTHING:
                yield from words(one)
    elif isinstance(value, (list, tuple)):
        for one in value:
            yield from words(one)


def words_told(events: list[Event]) -> set[str]:
    return {word for one in events for word in words(one)}


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("agent", sorted(FILES))
def test_one_name_for_all_ids_hides_nothing(agent: str, name: str) -> None:
    """P7: as many actions, prompts, errors and model calls as before, and every text that was there."""
    plain = events_of(agent, FILES[agent])
    found = events_of(agent, renamed(FILES[agent], name))

    expected = counted(plain)
    if is_global(name):  # the id of an answer that looks random is taken for its own
        expected["calls"] = counted(found)["calls"]
    assert counted(found) == expected and expected["prompts"] > 0
    assert words_told(plain) - {name} <= words_told(found)


@settings(max_examples=examples(60, 2_000))
@given(st.data())
def test_lines_that_were_dropped_doubled_or_moved_hide_no_other(data: st.DataObject) -> None:
    """P7: what is still in a file is reported, whatever happened to its lines and to its ids."""
    agent = data.draw(st.sampled_from(sorted(FILES)))
    name = data.draw(st.sampled_from((None, *NAMES)))
    plain = FILES[agent] if name is None else renamed(FILES[agent], name)
    lines = list(plain)
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, len(lines) - 1))
        change = data.draw(st.sampled_from(("drop", "double", "swap")))
        if change == "double":
            lines.insert(at, lines[at])
        elif at and change == "drop":  # the first says whose file it is
            del lines[at]
        elif 0 < at < len(lines) - 1:
            lines[at], lines[at + 1] = lines[at + 1], lines[at]

    left = set(words(lines))
    before = events_of(agent, plain)
    if name is not None and is_global(name):  # calls of a model with one such id are one, the first of them
        before = [event for event in before if event["event_type"] != "llm"]
    assert words_told(before) & left <= words_told(events_of(agent, lines))


@pytest.mark.parametrize("name", [None, *NAMES])
@pytest.mark.parametrize("agent", LINES_NAME_THEMSELVES)
def test_a_line_that_is_there_twice_is_one(agent: str, name: str | None) -> None:
    """P3: the double of a line that names itself says nothing, wherever it is."""
    lines = FILES[agent] if name is None else renamed(FILES[agent], name)
    once = [e["event_id"] for e in events_of(agent, lines)]

    assert [e["event_id"] for e in events_of(agent, [one for line in lines for one in (line, line)])] == once
    assert sorted(map(str, (e["event_id"] for e in events_of(agent, lines + lines[1:])))) == sorted(
        map(str, once)
    )


def test_a_file_with_two_session_ids_along_one_chain_is_one_session(tmp_path: Path) -> None:
    """P3: the turn follows the chain of lines, and what the client notes beside it opens no turn."""
    lines = claude_session()
    other = "0b5f3c1e-0000-4000-8000-00000000000a"
    for line in lines[1:]:
        line["sessionId"] = other
    lines.insert(3, {"type": "mode", "mode": "normal", "sessionId": claude.SESSION})
    lines.insert(5, {**lines[4], "type": "progress", "uuid": f"{other}1", "sessionId": claude.SESSION})
    with Store.init(tmp_path / ".locus") as store:
        run(store, "claude-code", written(tmp_path / "one.jsonl", lines))

        assert [tuple(row) for row in store.query("select agent_session_id from sessions").rows] == [
            (claude.SESSION,)
        ]
        turns = store.query("select user_request, tool_calls, status from turns order by turn").rows
        assert [tuple(row) for row in turns] == [("add a price", 3, "completed"), ("again", 1, "completed")]
        assert run(store, "claude-code", written(tmp_path / "two.jsonl", lines)).facts == 0


# -- in the log ----------------------------------------------------------------------------------


def written(path: Path, lines: list[Said]) -> Path:
    path.write_text("".join(json.dumps(one) + "\n" for one in lines))
    return path


def run(store: Store, agent: str, *paths: Path) -> ImportReport:
    report = importer.run(store, agent, [formats.source_of(agent, str(path)) for path in paths])
    assert report.problems == []
    return report


def facts(store: Store) -> Counter[str]:
    """What the log says, without ids and places."""
    columns = ("event_type", "operation", "agent_session_id", "agent_turn_id", "tool", "success")
    return Counter(
        json.dumps([*(e[name] for name in columns), e["payload"]], default=str)
        for e in store.events()
        if e["event_type"] in ("action", "intent", "message", "error", "file", "llm", "turn")
    )


OTHER = "0b5f3c1e-0000-4000-8000-000000000009"


@pytest.mark.parametrize("name", ["call_0", "REDACTED"])
def test_sessions_with_the_same_ids_are_whole_in_any_order(tmp_path: Path, name: str) -> None:
    """P3: one by one, the other way round, at once, and in two portions the log says the same."""
    first = renamed(claude_session(), name)
    second = renamed(claude_session(OTHER, name="0b5f3c1e-2222-4000-8000-00000000000"), name)
    one, other = written(tmp_path / "a.jsonl", first), written(tmp_path / "b.jsonl", second)
    half = len(first) // 2
    found = []
    for number, plan in enumerate(([one, other], [other, one], [[one, other]], ["half", other, one])):
        with Store.init(tmp_path / str(number)) as store:
            for step in plan:
                if step == "half":
                    run(store, "claude-code", written(tmp_path / "a.jsonl", first[:half]))
                    written(tmp_path / "a.jsonl", first)
                else:
                    run(store, "claude-code", *(step if isinstance(step, list) else [step]))
            reported = facts(store)
            found.append(
                Counter({text: n for text, n in reported.items() if not text.startswith('["turn", "end"')})
            )
            rows = store.query("select count(*) from actions union all select count(*) from llm_calls").rows
            assert [tuple(row) for row in rows] == [(8,), (12,)]
            assert run(store, "claude-code", written(tmp_path / "c.jsonl", first)).facts == 0
    assert found[0] == found[1] == found[2] == found[3]


def of_one_call(session: str, name: str, command: str, result: str) -> list[Said]:
    tell = claude.Teller(session, name=name)
    listed = [tell.user("go on", promptId=f"{session}1")]
    listed += tell.call(f"msg_{name[-4:]}1", "toolu_01AbCdEf23", "Bash", {"command": command}, result)
    return [*listed, tell.answer(f"msg_{name[-4:]}2", claude.text(f"{result}: done"))]


# What the files are called whose format is one document.
SUFFIXES = {"opencode": ".json", "swe-agent": ".traj", "atif": ".json"}
SESSIONS = {
    "claude-code": claude.SESSION,
    "codex": codex.THREAD,
    "gemini-cli": gemini.SESSION,
    "opencode": "ses_00000000000aaaa",
    "copilot-cli": "c-1",
    "pi": "p-1",
    "atif": "a-1",
}


def of_another_session(agent: str) -> list[Said]:
    """A session with all ids of the agent's file but its own, a day before, asked for something else."""
    text, session = json.dumps(FILES[agent]), SESSIONS.get(agent)  # none: it is called like its file
    text = text if session is None else text.replace(session, session[:-1] + "9")
    words = {"2026-11-20": "2026-11-19", "add a price": "sell tea", ' "look"': ' "see"', ": 17953": ": 17952"}
    for old, new in words.items():
        text = text.replace(old, new)
    lines: list[Said] = json.loads(text)
    return lines


@pytest.mark.parametrize("agent", sorted(SESSIONS))
def test_all_facts_of_two_sessions_with_the_same_ids_are_recorded(agent: str, tmp_path: Path) -> None:
    """P7: prompts, messages, calls of tools and of models, one by one in both orders, and at once; read again
    they add nothing."""
    a = written(tmp_path / f"a{SUFFIXES.get(agent, '.jsonl')}", FILES[agent])
    b = written(tmp_path / f"b{a.suffix}", of_another_session(agent))
    found = []
    for number, plan in enumerate(([[a]], [[b]], [[a], [b]], [[b], [a]], [[a, b]])):
        with Store.init(tmp_path / str(number)) as store:
            for paths in plan:
                run(store, agent, *paths)
            names = {str(e["agent_session_id"]) for e in store.events()}
            kept: Counter[str] = Counter()
            for text, count in facts(store).items():
                kept[functools.reduce(lambda said, one: said.replace(f"{one}:", ""), names, text)] += count
            found.append(kept)
            for path in (a, b) if number > 1 else ():
                again = path.with_name(f"again{number}{path.name}")
                again.write_text(path.read_text())
                assert run(store, agent, again).facts == 0
            calls = store.query("select count(*) from llm_calls").rows
            kept["model calls"] = calls[0][0]
    one, other, *both = found
    assert both == [one + other] * 3


@pytest.mark.parametrize(
    "secret", ["", made()["aws"] + " " + "x" * 20_000], ids=["short arguments", "large ones with a key"]
)
def test_calls_of_two_sessions_with_one_random_id_are_two(tmp_path: Path, secret: str) -> None:
    """P7: in any order and at once; what a fork copied stays the same call."""
    mine = of_one_call(claude.SESSION, "0b5f3c1e-1111-4000-8000-00000000000", f"ls {secret}", "a.py")
    other = of_one_call(OTHER, "0b5f3c1e-2222-4000-8000-00000000000", f"pwd {secret}", "/home/dev")
    fork = [{**line, "sessionId": "0b5f3c1e-0000-4000-8000-00000000000f"} for line in mine]
    a, b, c = (
        written(tmp_path / f"{name}.jsonl", lines) for name, lines in (("a", mine), ("b", other), ("c", fork))
    )
    for number, plan in enumerate(([[a], [b], [c]], [[b], [a], [c]], [[a, b, c]], [[a], [c], [b]])):
        with Store.init(tmp_path / str(number)) as store:
            reused = sum(run(store, "claude-code", *paths).reused_ids for paths in plan)
            actions = [e for e in store.events() if e["event_type"] == "action"]
            assert sorted(str(e["payload"]["result"]) for e in actions) == ["/home/dev", "a.py"]
            assert reused == (2 if number == 1 else 1)  # a copy that is read later is sent again
            for path in (a, b):
                again = path.with_name(f"again-{number}-{path.name}")
                again.write_bytes(path.read_bytes())
                assert run(store, "claude-code", again).facts == 0


def test_a_line_names_the_action_of_its_own_session(tmp_path: Path) -> None:
    """What goes on from a call whose id another session's call has names this session's action."""
    mine = of_one_call(claude.SESSION, "0b5f3c1e-1111-4000-8000-00000000000", "ls", "a.py")
    other = of_one_call(OTHER, "0b5f3c1e-2222-4000-8000-00000000000", "pwd", "/home/dev")
    for lines in (mine, other):
        (call,) = (
            one for one in lines if "toolu_01AbCdEf23" in json.dumps(one) and one["type"] == "assistant"
        )
        note = {
            "type": "system",
            "subtype": "note",
            "parentUuid": call["uuid"],
            "sessionId": call["sessionId"],
        }
        lines.insert(lines.index(call) + 1, {**note, "uuid": f"{call['uuid']}a", "content": "before"})
        lines.insert(lines.index(call) + 1, {**note, "uuid": f"{call['uuid']}b", "content": "first"})
        lines.append({**note, "uuid": f"{call['uuid']}c", "content": "after"})
    with Store.init(tmp_path / ".locus") as store:
        run(store, "claude-code", written(tmp_path / "a.jsonl", mine), written(tmp_path / "b.jsonl", other))
        of_session: dict[str, str] = {}
        named: dict[str, set[str]] = {}
        for one in store.events():
            session = str(one["agent_session_id"])
            if one["event_type"] == "action":
                of_session[session] = str(one["event_id"])
            elif "parent" in one["payload"] and one["payload"].get("content") in ("before", "after"):
                named.setdefault(session, set()).add(str(one["payload"]["parent"]))
    of_lines = {str(one["uuid"]) for one in other}
    assert named[claude.SESSION] == {of_session[claude.SESSION]}
    assert of_session[OTHER] in named[OTHER] and named[OTHER] - {of_session[OTHER]} <= of_lines


def test_an_import_says_how_many_ids_came_again(tmp_path: Path) -> None:
    """P7: facts under reused ids are kept, counted, and found again."""
    written(tmp_path / "one.jsonl", renamed(claude_session(), "call_0"))
    assert locus_process("init", cwd=tmp_path).code == 0
    done = locus_process("import", "claude-code", "one.jsonl", cwd=tmp_path)

    assert done.code == 0
    assert "came under ids that others had before: they are kept under ids of their own." in done.err
    again = locus_process("import", "claude-code", "one.jsonl", "--json", cwd=tmp_path)
    assert json.loads(again.out)["import"]["reused_ids"] == 0


def old_form(event: Event, seen: set[str]) -> Event | None:
    """An event as versions recorded it that took any id of a tool call for its own; None: they dropped it."""
    tool_use_id = event["tool_use_id"]
    if event["event_type"] in ("action", "tool_start", "error") and tool_use_id is not None:
        event = {**event, "event_id": event_id_of("claude-code", str(event["event_type"]), str(tool_use_id))}
    if event["event_id"] in seen:
        return None
    seen.add(str(event["event_id"]))
    return event


def test_what_an_earlier_version_recorded_is_not_recorded_again(tmp_path: Path) -> None:
    """P3: a store that took `call_0` for one call gets the calls that it dropped, and no other."""
    path = written(tmp_path / "one.jsonl", renamed(claude_session(), "call_0"))
    names = ("event_type", "event_kind", "source", "agent", "agent_session_id", "agent_turn_id", "operation",
             "tool", "tool_use_id", "occurred_at", "message_id", "request_id", "prompt_tokens",
             "completion_tokens", "success", "payload", "event_id", "repo")  # fmt: skip
    with Store.init(tmp_path / "new") as store:
        run(store, "claude-code", path)
        whole = [
            {name: e[name] for name in names if e[name] is not None}
            for e in store.events()
            if e["event_type"] not in ("import", "file")
        ]
    with Store.init(tmp_path / "old") as store:
        seen: set[str] = set()
        kept = [one for e in whole if (one := old_form({"tool_use_id": None, **e}, seen)) is not None]
        store.append([{k: v for k, v in one.items() if v is not None} for one in kept])
        report = run(store, "claude-code", path)
        actions = [e for e in store.events() if e["event_type"] == "action"]
        results = [e["payload"]["result"] for e in actions]
        assert results.count("1 test failed") == 2
        assert len(actions) == 4 and report.calls == 0
        again = written(tmp_path / "two.jsonl", renamed(claude_session(), "call_0"))
        assert run(store, "claude-code", again).facts == 0


def test_a_key_tells_its_call() -> None:
    """docs/event-ids.md: which ids tell their call by themselves, and what distinguishes the others."""
    for id in (
        "toolu_c1a01",
        "call_c0de1",
        "write_file_9e111",
        "call_YFGMkLvhLXtKXHeCOtRRnloQ",
        claude.SESSION,
    ):
        assert call_key("action", id, "s", {"a": 1}) == ("action", id)
    for id in ("call_0", "functions.Bash:0", "REDACTED", "1", "", "tool-17", "é" * 20):
        one, two = (
            call_key("action", id, "s", {"a": 1, "b": [2]}),
            call_key("action", id, "s", {"b": [2], "a": 1}),
        )
        assert (
            one == two
            and len({one, *(call_key("action", id, *more) for more in (("t", {}), ("s", {})))}) == 3
        )
        assert numbered(one, 0) == one != numbered(one, 1)
