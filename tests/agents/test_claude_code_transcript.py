"""Sessions of Claude Code: each call, prompt and text once, whatever is in the files."""

import copy
import json
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from blake3 import blake3
from hypothesis import given
from hypothesis import strategies as st

from eventlog.agents import formats
from eventlog.agents.claude_code.transcript import parts_of, recognises, sources_in
from eventlog.agents.kit.draft import FileItem
from eventlog.base.names import event_id_of
from eventlog.store import Store
from tests.agents.claude_support import (
    FORK,
    HOME,
    SESSION,
    Line,
    Teller,
    drafts,
    events_in,
    patch,
    payload,
    real,
    rows,
    run,
    text,
    write,
)  # fmt: skip

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8) | st.just("\ud800"),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3),
    max_leaves=8,
)
BASH = {"command": "make"}
RAN = {"stdout": "made", "stderr": "", "interrupted": False}


def session(tell: Teller) -> list[Line]:
    """A prompt, an answer on three lines with two calls, one of which fails, and another prompt."""
    return [
        tell.user("make it", promptId="p-1"),
        tell.answer("msg_a1b2c1", {"type": "thinking", "thinking": "How?", "signature": "c2VhbA=="}),
        tell.answer("msg_a1b2c1", text("I make it."), 7),
        *tell.call("msg_a1b2c1", "toolu_a1b2c1", "Bash", BASH, "made", RAN, promptId="p-1"),
        tell.answer(
            "msg_a1b2c2", {"type": "tool_use", "id": "toolu_a1b2c2", "name": "Bash", "input": BASH}, 20
        ),
        tell.result("toolu_a1b2c2", "Exit code 1\nno", "Error: Exit code 1\nno", failed=True, promptId="p-1"),
        tell.answer("msg_a1b2c3", text("It failed."), 30),
        tell.user("again", promptId="p-2"),
        tell.answer("msg_a1b2c4", text("Made."), 40),
    ]


def test_a_session_says_what_was_asked_done_and_counted(tmp_path: Path) -> None:
    """P3: an answer on several lines is one call with its last figures; texts, results, ends are there."""
    with Store.init(tmp_path / ".locus") as store:
        report = run(store, write(tmp_path / f"{SESSION}.jsonl", session(Teller())))

        assert (report.sessions, report.turns, report.calls, report.problems) == (1, 2, 4, [])
        assert rows(store, "select title, outcome, status from turns order by turn") == [
            ("make it", "It failed.", "completed"), ("again", "Made.", "completed"),
        ]  # fmt: skip
        calls = "select message_id, prompt_tokens, completion_tokens from llm_calls order by 1"
        assert rows(store, calls) == [
            ("msg_a1b2c1", 15, 1), ("msg_a1b2c2", 15, 20), ("msg_a1b2c3", 15, 30), ("msg_a1b2c4", 15, 40),
        ]  # fmt: skip
        assert rows(store, "select tool, success from actions order by position") == [
            ("Bash", True), ("Bash", False),
        ]  # fmt: skip
        (error,) = [e for e in store.events() if e["event_type"] == "error"]
        assert (error["error_type"], error["payload"]["message"]) == ("tool_failure", "Exit code 1\nno")
        listed = [
            (e["operation"], e["payload"]["text"]) for e in store.events() if e["event_type"] == "message"
        ]
        assert listed[:2] == [("reasoning", "How?"), ("text", "I make it.")]


def test_ids_are_those_of_the_hooks() -> None:
    """P3: what a hook tells too has the id that the hook gives it, a subagent's end by its last words too."""
    lines, side = session(Teller()), Teller(name="side", isSidechain=True, agentId="a1")
    tell = Teller(name="more")
    lines += [
        tell.answer(
            "msg_a1b2c5", {"type": "tool_use", "id": "t-3", "name": "Agent", "input": {"prompt": "look"}}
        ),
        side.user("look"),
        side.answer("msg_a1b2c6", text("Seen.")),
        tell.result(
            "t-3", [text("Seen.")], {"status": "completed", "agentId": "a1", "content": [text("Seen.")]}
        ),
    ]
    ids = {one["event_id"] for one in events_in(lines)}

    digest = blake3(b"Seen.").hexdigest()[:16]
    for key in (
        ("session", SESSION), ("turn", "p-1", "start"), ("intent", "p-1"), ("action", "toolu_a1b2c1"),
        ("error", "toolu_a1b2c2"), ("subagent", "a1", "start"), ("subagent", "a1", "end", digest),
    ):  # fmt: skip
        assert event_id_of("claude-code", *key) in ids, key


def test_a_fork_is_counted_once_and_tells_what_is_new(tmp_path: Path) -> None:
    """P3: the copied beginning of a fork's file gives no second turn, call or action, and no token twice."""
    lines = session(Teller())
    copied = [{**line, "sessionId": FORK} for line in lines]
    more = Teller(FORK, name="fork")
    more.last = lines[-1]["uuid"]
    copied += [more.user("go on", promptId="p-3"), more.answer("msg_a1b2c5", text("On."), 50)]
    with Store.init(tmp_path / ".locus") as store:
        run(store, write(tmp_path / f"{SESSION}.jsonl", lines), write(tmp_path / f"{FORK}.jsonl", copied))

        assert rows(store, "select count(*), sum(completion_tokens) from llm_calls") == [(5, 141)]
        assert rows(store, "select count(*) from actions") == [(2,)]
        (on,) = [e for e in store.events() if e["event_type"] == "intent" and e["agent_session_id"] == FORK]
        assert on["payload"]["message"] == "go on"
        copies = [e for e in store.events() if e["event_type"] == "llm_copy"]
        assert {(e["operation"], e["agent_session_id"]) for e in copies} == {("fork", FORK)}


def test_subagents_work_in_the_turn_of_their_session(tmp_path: Path) -> None:
    """A session is read with the files of its subagents, merged by time; their facts are at their start."""
    tell = Teller()
    prompt, launch = tell.user("look", promptId="p-1"), tell.answer("msg_a1b2c1", text("I look."))
    side = Teller(name="side", isSidechain=True, agentId="a1", promptId="p-1")
    side._count = 2
    inner = [side.user("Look at a.py"), *side.call("msg_a1b2c2", "t-2", "Bash", BASH, "made", RAN)]
    after = tell.line("assistant", message={"content": [text("Done.")]}, timestamp="2026-11-20T11:00:00.000Z")
    path = write(tmp_path / f"{SESSION}.jsonl", [prompt, launch, after])
    write(tmp_path / SESSION / "subagents" / "agent-a1.jsonl", inner)
    (tmp_path / SESSION / "subagents" / "agent-a1.meta.json").write_text(
        json.dumps({"agentType": "Explore", "toolUseId": "t-1"}, indent=1)
    )
    (tmp_path / SESSION / "subagents" / "agent-a2.meta.json").write_text('{"agentType": "Plan"}')
    old = Teller(name="old", isSidechain=True, agentId="a0")
    write(tmp_path / "agent-a0.jsonl", [old.user("Older"), old.answer("msg_a1b2c3", text("Old."))])
    other = Teller(FORK, name="other", isSidechain=True, agentId="b0")
    write(tmp_path / "agent-b0.jsonl", [other.user("Not here")])
    (tmp_path / SESSION / "subagents" / "agent-link.jsonl").symlink_to(tmp_path / "agent-b0.jsonl")
    (tmp_path / "agent-link.jsonl").symlink_to(tmp_path / "agent-a0.jsonl")

    assert [Path(part).name for part in parts_of(str(path))] == [
        f"{SESSION}.jsonl", "agent-a1.jsonl", "agent-a1.meta.json", "agent-a2.meta.json", "agent-a0.jsonl",
    ]  # fmt: skip
    assert sources_in(str(tmp_path / "agent-a0.jsonl")) == []
    assert sources_in(str(tmp_path / SESSION / "subagents" / "agent-a1.jsonl")) == []
    assert [one.path for one in sources_in(str(tmp_path / "agent-b0.jsonl"))] == [
        str(tmp_path / "agent-b0.jsonl")
    ]
    with Store.init(tmp_path / ".locus") as store:
        report = run(store, path)
        assert (report.sessions, report.turns, report.calls) == (1, 1, 3)
        begun = {e["subagent_id"]: e for e in store.events() if e["event_type"] == "subagent"}
        assert (begun["a1"]["title"], begun["a1"]["tool_use_id"]) == ("Explore", "t-1")
        assert begun["a1"]["payload"]["prompt"] == "Look at a.py"
        (action,) = [e for e in store.events() if e["event_type"] == "action"]
        assert (action["subagent_id"], action["agent_turn_id"]) == ("a1", "p-1")
        (left,) = [e for e in store.events() if e["operation"] == "subagent_meta"]
        assert left["payload"] == {"subagent": "a2", "agentType": "Plan"}
        assert rows(store, "select outcome from turns") == [("Done.",)]


def test_lines_of_subagents_inside_an_old_file_belong_to_them() -> None:
    """Versions 1.x name no subagent: a side chain is known by its first line, and by its call's prompt."""
    tell, side = Teller(version="1.0.98"), Teller(name="side", isSidechain=True, version="1.0.98")
    args = {"prompt": "Look", "subagent_type": "general-purpose"}
    use = {"type": "tool_use", "id": "t-1", "name": "Task", "input": args}
    lines = [
        tell.user("go"),
        tell.answer("msg_a1b2c1", use),
        side.user("Look"),
        side.answer("msg_a1b2c2", text("Seen.")),
    ]
    lines += [side.user("And there?"), tell.result("t-1", "Seen.", {"content": [text("Seen.")]})]
    begun, ended = events_in(lines, "subagent")
    (seen,) = events_in(lines, "message")

    assert (begun["subagent_id"], begun["tool_use_id"], begun["title"]) == (
        "side-1",
        "t-1",
        "general-purpose",
    )
    assert (seen["subagent_id"], seen["agent_turn_id"]) == ("side-1", "line-1")
    assert (ended["operation"], ended["subagent_id"]) == ("end", "side-1")
    assert [payload(one)["content"] for one in events_in(lines, "transcript")] == ["And there?"]


@pytest.mark.parametrize(
    "said", ["[Request interrupted by user]", "[Request interrupted by user for tool use]"]
)
def test_an_interrupted_turn_ends_as_one(tmp_path: Path, said: str) -> None:
    """The turn that a person stopped is interrupted; one that the model goes on with is not."""
    tell = Teller()
    lines = [
        tell.user("one"),
        tell.answer("msg_a1b2c1", text("I")),
        tell.user([text(said)]),
        tell.user("two"),
    ]
    lines += [tell.user([text(said)]), tell.answer("msg_a1b2c2", text("I go on.")), tell.user("three")]
    lines += [
        tell.line("assistant", isApiErrorMessage=True, error="rate_limit", message={"content": [text("429")]})
    ]
    with Store.init(tmp_path / ".locus") as store:
        run(store, write(tmp_path / "a.jsonl", lines))
        assert rows(store, "select title, status from turns order by turn") == [
            ("one", "interrupted"), ("two", "completed"), ("three", "failed"),
        ]  # fmt: skip
        (error,) = [e for e in store.events() if e["event_type"] == "error"]
        assert (error["error_type"], error["payload"]["message"]) == ("rate_limit", "429")


def test_refusals_interruptions_and_failures_of_tools_are_told_apart() -> None:
    """What was not allowed to run, what a person stopped and what failed by itself are three things."""
    tell = Teller()
    lines = [
        tell.user("go"),
        *tell.call(
            "m", "t-1", "Bash", BASH, "The user doesn't want to proceed with this tool use.", failed=True
        ),
        *tell.call("m", "t-2", "Bash", BASH, "no", failed=True, toolDenialKind="hook"),
        *tell.call("m", "t-3", "Bash", BASH, "[Request interrupted by user for tool use]\nhalf", failed=True),
        *tell.call("m", "t-4", "Bash", BASH, "<tool_use_error>no such</tool_use_error>", failed=True),
        *tell.call("m", "t-5", "Bash", BASH, "half", {**RAN, "interrupted": True}),
    ]
    errors = {one["tool_use_id"]: one["error_type"] for one in events_in(lines, "error")}
    success = {one["tool_use_id"]: one["success"] for one in events_in(lines, "action")}

    assert errors == {"t-1": "refused", "t-2": "refused", "t-3": "interrupted", "t-4": "tool_failure"}
    assert not any(success.values())


def test_commands_are_prompts_where_the_model_gets_them() -> None:
    """A command for the model begins a turn with what was typed; one that the client runs itself does not."""
    tell = Teller()
    skill = "<command-message>ship is running…</command-message>\n<command-name>/ship</command-name>\n"
    client = (
        "<command-name>/{0}</command-name>\n  <command-message>{0}</command-message>\n  <command-args>{1}"
    )
    lines = [
        tell.user("<local-command-caveat>Caveat: not for you</local-command-caveat>", isMeta=True),
        tell.user(client.format("clear", "</command-args>")),
        tell.user("<local-command-stdout></local-command-stdout>"),
        tell.user(f"{skill}<command-args>to shop</command-args>", promptId="p-1"),
        tell.user([text("Ship it like this")], isMeta=True, promptId="p-1"),
        tell.answer("msg_a1b2c1", text("Shipped.")),
        tell.user(client.format("review", "main</command-args>"), promptId="p-2"),
        tell.answer("msg_a1b2c2", text("Good.")),
        tell.user("<bash-input>ls</bash-input>"),
        tell.user("<bash-stdout>a.py</bash-stdout><bash-stderr></bash-stderr>"),
        tell.user([text("<system-reminder>mind</system-reminder>"), text("thanks")], promptId="p-3"),
    ]
    asked = [(one["agent_turn_id"], payload(one)["message"]) for one in events_in(lines, "intent")]
    (ran,) = events_in(lines, "action")
    answers = [one["agent_turn_id"] for one in events_in(lines, "message")]

    assert asked[:2] == [("p-1", "/ship to shop"), ("p-2", "/review main")]
    assert asked[2][0] == "p-3" and asked[2][1].endswith("thanks")
    assert answers == ["p-1", "p-2"]
    assert (ran["source"], ran["tool"]) == ("user", "Bash")
    assert payload(ran)["args"] == {"command": "ls"}
    assert payload(ran)["result"] == {"stdout": "a.py", "stderr": ""}


def test_a_command_of_a_person_is_in_the_turn_that_it_began() -> None:
    """After the prompt; one that the model does not answer is where it was run, before what follows."""
    tell = Teller()
    lines = [
        tell.user("<bash-input>ls</bash-input>"),
        tell.user("<bash-stdout>a.py</bash-stdout>"),
        tell.answer("msg_a1b2c1", text("One file.")),
        tell.user("<bash-input>pwd</bash-input>"),
        tell.user("<bash-stdout>/home</bash-stdout>"),
        tell.user("go on", promptId="p-2"),
        tell.user("<bash-input>date</bash-input>"),
    ]
    listed = [
        (one["event_type"], one.get("agent_turn_id"))
        for one in events_in(lines)
        if one["event_type"] in ("intent", "tool_start", "action", "message")
    ]
    first = str(lines[0]["uuid"])
    assert listed == [
        ("intent", first),
        ("tool_start", first),
        ("action", first),
        ("message", first),
        ("tool_start", first),
        ("action", first),
        ("intent", "p-2"),
        ("tool_start", "p-2"),
    ]


def test_what_a_person_says_in_the_middle_of_a_turn_is_there() -> None:
    """A message that waited in the queue is an intent of the turn it was given to; a notification is not."""
    tell = Teller()
    queued = {"type": "queued_command", "commandMode": "prompt"}
    lines = [
        tell.user("go", promptId="p-1"),
        tell.line("attachment", attachment={**queued, "prompt": "and quickly"}),
        tell.line("attachment", attachment={**queued, "prompt": "<task-notification>x</task-notification>"}),
        tell.user("at once", promptId="p-1"),
        {"type": "queue-operation", "operation": "enqueue", "sessionId": SESSION, "content": "later"},
        tell.user("<task-notification>done</task-notification>", promptId="p-2"),
    ]
    asked = [
        (one["agent_turn_id"], payload(one)["message"], one["source"]) for one in events_in(lines, "intent")
    ]

    assert asked == [
        ("p-1", "go", "user"), ("p-1", "and quickly", "user"), ("p-1", "at once", "user"),
        ("p-2", "<task-notification>done</task-notification>", "system"),
    ]  # fmt: skip
    assert [one["operation"] for one in events_in(lines, "transcript")] == ["attachment", "queue-operation"]


def test_compaction_begins_no_turn() -> None:
    """The summary that the client puts in place of what was said is kept, and is nobody's prompt."""
    tell = Teller()
    lines = [
        tell.user("go"),
        tell.line("system", subtype="compact_boundary", compactMetadata={"trigger": "auto"}),
        tell.user("This session is being continued", isCompactSummary=True),
        tell.answer("msg_a1b2c1", text("On.")),
    ]
    boundary, summary = events_in(lines, "transcript")
    assert len(events_in(lines, "intent")) == 1
    assert payload(boundary)["compactMetadata"] == {"trigger": "auto"}
    assert (boundary["operation"], summary["operation"]) == ("compact_boundary", "compact_summary")
    assert payload(summary)["content"] == "This session is being continued"


def test_lines_before_the_session_and_of_none_are_kept() -> None:
    """P7: summaries of version 2.0 come before the first line that names the session, or alone in a file."""
    summaries = [{"type": "summary", "summary": f"Work {n}", "leafUuid": f"x-{n}"} for n in (1, 2)]
    assert all(recognises(one) for one in summaries)
    kept = events_in([*summaries, Teller().user("go")], "transcript")
    alone = events_in(summaries)

    assert [payload(one)["summary"] for one in kept] == ["Work 1", "Work 2"]
    assert all(one["agent_session_id"] == SESSION for one in kept)
    assert [payload(one)["summary"] for one in alone] == ["Work 1", "Work 2"]
    assert all("agent_session_id" not in one for one in alone)


def test_lines_of_later_versions_are_kept_whole() -> None:
    """P7: what this version does not know is an event of its own, with all that it holds."""
    tell = Teller()
    unknown: list[Line] = [
        {
            "type": "api-request",
            "sessionId": SESSION,
            "id": "r-1",
            "params": {"model": "m", "betas": ["b"]},
            "keep": 3,
        },
        {
            "type": "cost-state",
            "sessionId": SESSION,
            "totalCostUSD": 0.25,
            "modelUsage": {"m": {"inputTokens": 7}},
        },
        tell.line("progress", data={"type": "bash_progress", "output": "half"}, toolUseID="t-1"),
        {"type": "no-such", "sessionId": SESSION},
        {"sessionId": SESSION, "uuid": "odd"},
    ]
    known = tell.answer(
        "msg_a1b2c1", text("I"), requestRef="r-1", apiBlockIndex=0, turnPosition={"turnIndex": 2}
    )
    kept = events_in([*unknown, known], "transcript")
    (message,) = events_in([known], "message")

    assert [one.get("operation") for one in kept] == [
        "api-request",
        "cost-state",
        "progress",
        "no-such",
        None,
    ]
    for line, event in zip(unknown, kept, strict=True):
        assert all(payload(event)[name] == value for name, value in line.items() if name in payload(event))
        assert set(line) - set(payload(event)) <= {"type", "uuid", "parentUuid", *Teller().line("")}
    assert {"requestRef": "r-1", "apiBlockIndex": 0, "turnPosition": {"turnIndex": 2}}.items() <= payload(
        message
    ).items()


def test_a_line_says_where_it_goes_on_when_that_is_not_the_line_before() -> None:
    """A person who went back in the conversation left a branch: its first line names the event it follows."""
    tell = Teller()
    lines = [
        tell.user("one"),
        tell.answer("msg_a1b2c1", text("1")),
        tell.user("two"),
        tell.answer("msg_a1b2c2", text("2")),
    ]
    tell.last = lines[1]["uuid"]
    lines += [tell.user("two, but better")]
    first = next(one for one in events_in(lines, "message") if payload(one)["text"] == "1")
    better = next(one for one in events_in(lines, "intent") if "better" in payload(one)["message"])

    assert payload(better)["parent"] == first["event_id"]
    assert sum("parent" in payload(one) for one in events_in(lines)) == 1


def test_images_are_blobs(tmp_path: Path) -> None:
    """P7: an image in a prompt and one that a tool read are in the blob store, whole."""
    import base64

    data = base64.b64encode(bytes(range(256)) * 100).decode()
    image = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": data}}
    tell = Teller()
    fields = {"type": "image", "file": {"base64": data, "type": "image/png"}}
    lines = [
        tell.user([text("look"), image]),
        *tell.call("m", "t-1", "Read", {"file_path": "a.png"}, [image], fields),
    ]
    with Store.init(tmp_path / ".locus") as store:
        run(store, write(tmp_path / "a.jsonl", lines))
        moved = [e["payload"]["in_blobs"] for e in store.events() if "in_blobs" in (e["payload"] or {})]
        found = {blob["blob"] for one in moved for blob in one.values() if blob.get("base64")}
        assert len(moved) == 2 and len(found) == 1
        assert store.blob(found.pop()) == bytes(range(256)) * 100


def test_what_a_tool_showed_is_recorded_once() -> None:
    """The numbered copy of a file that was read, or of an output, is left out; what follows is not."""
    tell = Teller()
    file = {"filePath": "a.py", "content": "a\nb\n", "numLines": 3, "startLine": 1, "totalLines": 3}
    fields, read = {"type": "text", "file": file}, ("Read", {"file_path": "a.py"})
    reminder = "\n\n<system-reminder>mind</system-reminder>"
    lines = [
        *tell.call("m", "t-1", *read, "     1→a\n     2→b\n     3→" + reminder, fields),
        *tell.call("m", "t-2", *read, "1\ta\n2\tb\n3\t", fields),
        *tell.call("m", "t-3", *read, "1\ta\n2\tc\n3\t", fields),
        *tell.call("m", "t-4", "Bash", BASH, "made", RAN),
        *tell.call("m", "t-5", "Bash", BASH, "made, and more", RAN),
    ]
    shown = [payload(one).get("shown") for one in events_in(lines, "action")]
    assert shown == [reminder, None, "1\ta\n2\tc\n3\t", None, "made, and more"]


def test_the_beginning_and_then_the_whole_are_the_whole() -> None:
    """P3: a file that is read when it is half there, and again later, gives the events of the whole."""
    lines = session(Teller())
    whole = {str(one["event_id"]) for one in events_in(lines)}
    for size in range(len(lines)):
        begun = events_in(lines[:size])
        known = {str(one["event_id"]) for one in begun if one["event_type"] not in ("llm", "tool_start")}
        assert known <= whole, size


@given(said=st.dictionaries(st.sampled_from([*sorted(Teller().user("")), "toolUseResult", "agentId"]), JSON))
def test_any_object_is_taken(said: Line) -> None:
    """A line of strange values is an event or two, and never an error."""
    for kind in ("user", "assistant", "system", None):
        drafts([{**said, "type": kind}, {"sessionId": SESSION, **said, "type": kind}])


@st.composite
def broken(draw: st.DrawFn) -> list[Line]:
    """A session with a value somewhere replaced by another one."""
    tell = Teller()
    edited = {"filePath": "a", "oldString": "x", "newString": "y", "structuredPatch": patch(1, "-x", "+y")}
    args = {"file_path": "a", "old_string": "x", "new_string": "y"}
    lines = session(tell) + tell.call("m", "t-9", "Edit", args, "ok", {**edited, "originalFile": "x"})
    lines = copy.deepcopy(lines)
    for _ in range(draw(st.integers(1, 4))):
        at: Any = draw(st.sampled_from(lines))
        while True:
            key = draw(st.sampled_from(sorted(at) if isinstance(at, dict) else list(range(len(at)))))
            if not isinstance(at[key], (dict, list)) or not at[key] or draw(st.booleans()):
                at[key] = draw(JSON)
                break
            at = at[key]
    return lines


@given(lines=broken())
def test_broken_lines_are_taken(lines: list[Line]) -> None:
    """No value of a wrong kind anywhere in a session makes the reader fail."""
    drafts(lines)


# -- true sessions, counted by the facts of the format alone, without the reader --------------------


CLIENTS = ("<local-command", "<command-name", "[Request", "<bash-", "Caveat:")


def said_in(path: Path) -> list[Line]:
    found = []
    for line in path.read_bytes().split(b"\n"):
        try:
            found.append(json.loads(line))
        except ValueError:
            continue
    return [one for one in found if isinstance(one, dict)]


def counted(paths: list[Path]) -> tuple[dict[str, set[Any]], dict[str, set[Any]], dict[str, set[Any]]]:
    """Of each session: its model calls with their tokens, tool calls that were answered, prompts."""
    calls: dict[tuple[str, Any], tuple[str, int, int]] = {}
    tools: dict[str, set[Any]] = defaultdict(set)
    prompts: dict[str, set[Any]] = defaultdict(set)
    for path in paths:
        for item in said_in(path):
            message, session = item.get("message"), item.get("sessionId")
            if not isinstance(message, dict):
                continue
            if item["type"] == "assistant" and message.get("usage") and message["model"] != "<synthetic>":
                usage = message["usage"]
                cached = [usage.get(f"cache_{kind}_input_tokens") or 0 for kind in ("creation", "read")]
                key = message["id"], item.get("requestId")
                tokens = usage["input_tokens"] + sum(cached), usage["output_tokens"]
                if key not in calls or calls[key][2] <= tokens[1]:
                    calls[key] = (session, *tokens)
            elif item["type"] == "user":
                content = message["content"]
                blocks = content if isinstance(content, list) else [{"type": "text", "text": content}]
                results = {one["tool_use_id"] for one in blocks if one["type"] == "tool_result"}
                tools[session] |= results
                if not results and not item["isSidechain"] and not item.get("isMeta"):
                    words = "".join(one.get("text", "") for one in blocks).lstrip()
                    if not words.startswith(CLIENTS) and not item.get("isCompactSummary"):
                        prompts[session].add(item.get("promptId") or item["uuid"])
    by_session: dict[str, set[Any]] = defaultdict(set)
    for (message_id, _), (session, read, written) in calls.items():
        by_session[session].add((message_id, read, written))
    return by_session, {k: v for k, v in tools.items() if v}, {k: v for k, v in prompts.items() if v}


def test_true_sessions_are_counted_as_their_files_say(tmp_path: Path) -> None:
    """P3: model calls, tokens, tool calls and prompts of every session are those of an independent count."""
    paths = real()
    calls, tools, prompts = counted(paths)
    with Store.init(tmp_path / ".locus") as store:
        report = run(store, *paths)
        assert report.problems == []
        found: dict[str, dict[str, set[Any]]] = {
            name: defaultdict(set) for name in ("llm", "action", "intent")
        }
        best: dict[tuple[Any, Any], tuple[Any, ...]] = {}
        for event in store.events():
            session = event["agent_session_id"]
            if event["event_type"] == "action":
                found["action"][session].add(event["tool_use_id"])
            elif event["event_type"] == "intent":
                found["intent"][session].add(event["agent_turn_id"])
            elif event["event_type"] == "llm":
                key = event["message_id"], event["request_id"]
                tokens = session, event["message_id"], event["prompt_tokens"], event["completion_tokens"]
                if key not in best or best[key][3] <= tokens[3]:
                    best[key] = tokens
        for session, *call in best.values():
            found["llm"][session].add(tuple(call))
        assert found["llm"] == calls
        assert found["action"] == tools
        assert found["intent"] == prompts
        total = rows(store, "select count(*), sum(prompt_tokens), sum(completion_tokens) from llm_calls")
        flat = [call for of_session in calls.values() for call in of_session]
        assert total == [(len(flat), sum(call[1] for call in flat), sum(call[2] for call in flat))]

        before = store.journal.next_position()
        (tmp_path / ".locus" / "live" / "imports.json").unlink()
        assert run(store, *paths).events == 0
        assert store.journal.next_position() == before


def test_true_sessions_with_values_cut_away_are_taken() -> None:
    """No line of a true session, whichever of its keys is gone or another kind, makes the reader fail."""
    import random

    draw = random.Random(7)
    for path in real():
        lines = said_in(path)[:200]
        for line in lines:
            for name in draw.sample(sorted(line), k=min(2, len(line))):
                line[name] = draw.choice(
                    [None, 7, "x", [], {}, [{"type": "tool_result"}], {"content": [None]}]
                )
        drafts(lines)


def leaves(value: Any, *place: str) -> Iterator[tuple[tuple[str, ...], Any]]:
    if isinstance(value, dict):
        for name, part in value.items():
            yield from leaves(part, *place, name)
    elif isinstance(value, list):
        for part in value:
            yield from leaves(part, *place)
    else:
        yield place, value


# What docs/adapters.md says is not kept, or is kept in another form.
LEFT_OUT = {
    "uuid",
    "parentUuid",
    "timestamp",
    "userType",
    "sourceToolAssistantUUID",
    "type",
    "subtype",
    "role",
}


def test_true_sessions_lose_nothing() -> None:
    """P7: every text and every larger number of a line is in an event, or in the content of a file."""
    for path in real():
        lines = said_in(path)
        reported: set[Any] = set()
        for item in drafts(lines):
            if isinstance(item, FileItem):
                reported |= {item.edit.content, item.edit.original, item.edit.patch}
            else:
                reported |= {value for _, value in leaves(item)}
        whole = "\0".join(value for value in reported if isinstance(value, str))
        for line in lines:
            for place, value in leaves(line):
                small = not value or (isinstance(value, (int, float)) and value < 1_000)
                if small or value in reported or LEFT_OUT & set(place):
                    continue
                if place == ("message", "content", "content") and line["toolUseResult"]["type"] == "text":
                    value = value.partition("<system-reminder>")[2]  # after the numbered lines of a file
                assert isinstance(value, str) and value in whole, (path, place, value)


def test_the_reader_is_registered() -> None:
    """`locus import claude-code` finds this reader, and each line that begins a file is recognised."""
    assert formats.reader_of("claude-code").__module__ == "eventlog.agents.claude_code.transcript"
    assert recognises(Teller().user("go"))
    assert recognises({"type": "mode", "mode": "normal", "sessionId": SESSION})
    assert not recognises({"type": "session_meta", "payload": {"cwd": HOME}})


def test_a_turn_without_words_has_a_title_that_says_what_it_was(tmp_path: Path) -> None:
    """P7: one that a `!` command began, or attachments alone; a command that nobody answers begins none."""
    tell = Teller()
    picture = {"type": "image", "source": {"type": "base64", "data": "aGVsbG8="}}
    lines = [
        tell.user([picture, picture, {"type": "document"}], promptId="p-1"),
        tell.answer("msg_1", text("A cat, and a contract.")),
        tell.user("<bash-input>git status</bash-input>", promptId="p-2"),
        tell.user("<bash-stdout>clean</bash-stdout><bash-stderr></bash-stderr>", promptId="p-2"),
        tell.answer("msg_2", text("All is committed."), promptId="p-2"),
        tell.user("<bash-input>ls</bash-input>", promptId="p-3"),
        tell.user("<bash-stdout>a.py</bash-stdout>", promptId="p-3"),
        tell.user("thanks", promptId="p-4"),
        tell.user("<bash-input>pwd</bash-input>", promptId="p-5"),
        {**tell.answer("msg_3", text("No response requested.")), "message": {"model": "<synthetic>"}},
    ]
    with Store.init(tmp_path / ".locus") as store:
        run(store, write(tmp_path / "one.jsonl", lines))

        assert rows(store, "select title from turns order by turn") == [
            ("(2 images, document)",), ("! git status",), ("thanks",),
        ]  # fmt: skip
        assert rows(store, "select title from sessions") == [("(2 images, document)",)]
        recorded = rows(store, "select user_request from turns order by turn")
        assert recorded[1:] == [("! git status",), ("thanks",)]
