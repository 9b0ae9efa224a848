"""Cursor, Copilot, pi, SWE-agent and ATIF: each file becomes turns, calls and counts, once."""

import copy
import json
import os
import uuid
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eventlog.agents import formats
from eventlog.agents.kit.draft import Draft
from eventlog.importers import importer, sources
from eventlog.importers.importer import ImportReport
from eventlog.store import Store
from tests.cli.support import locus_process
from tests.conftest import examples

Said = dict[str, Any]

CURSOR = [
    {
        "role": "user",
        "message": {"content": [{"type": "text", "text": "<user_query>\nadd a price\n</user_query>"}]},
    },
    {
        "role": "assistant",
        "message": {
            "content": [
                {"type": "text", "text": "I write it.\n\n[REDACTED]"},
                {
                    "type": "tool_use",
                    "name": "Write",
                    "input": {"path": "/home/dev/shop/a.py", "contents": "1\n"},
                },
            ]
        },
    },
    {
        "role": "user",
        "message": {"content": [{"type": "text", "text": "<user_query>\nthanks\n</user_query>"}]},
    },
    {"role": "assistant", "message": {"content": [{"type": "text", "text": "Gladly."}]}},
]


def at(second: int) -> str:
    return f"2026-11-20T10:00:{second:02d}.000Z"


def copilot(kind: str, number: int, **data: Any) -> Said:
    return {"type": kind, "data": data, "id": f"line-{number}", "timestamp": at(number), "parentId": None}


COPILOT = [
    copilot("session.start", 0, sessionId="c-1", copilotVersion="1.0.2", context={"cwd": "/home/dev/shop"}),
    copilot("user.message", 1, content="add a price", attachments=[]),
    copilot(
        "assistant.message", 2, messageId="m-1", content="", reasoningText="hm", outputTokens=20, model="g",
        toolRequests=[{"toolCallId": "call-1", "name": "bash", "arguments": {"command": "make"}}],
    ),
    copilot("tool.execution_start", 3, toolCallId="call-1", toolName="bash", arguments={"command": "make"}),
    copilot("tool.execution_complete", 4, toolCallId="call-1", success=False, error={"message": "no make"}),
    copilot("assistant.message", 5, messageId="m-2", content="There is no make.", outputTokens=5, model="g"),
    copilot(
        "session.shutdown", 6,
        modelMetrics={"g": {"usage": {"inputTokens": 900, "outputTokens": 30, "cacheReadTokens": 400}}},
    ),
]  # fmt: skip

USAGE = {"input": 100, "output": 20, "cacheRead": 40, "cacheWrite": 2, "totalTokens": 162}


def pi(number: int, role: str, **message: Any) -> Said:
    payload = {"role": role, **message}
    return {
        "type": "message",
        "id": f"{number:08x}",
        "parentId": f"{number - 1:08x}",
        "timestamp": at(number),
        "message": payload,
    }


PI_CALL = {"type": "toolCall", "id": "t-1", "name": "read", "arguments": {"path": "a.py"}}
PI = [
    {"type": "session", "version": 3, "id": "p-1", "timestamp": at(0), "cwd": "/home/dev/shop"},
    pi(1, "user", content=[{"type": "text", "text": "add a price"}]),
    pi(
        2,
        "assistant",
        content=[{"type": "thinking", "thinking": "hm"}, PI_CALL],
        usage=USAGE,
        responseId="r-1",
        model="m",
        stopReason="toolUse",
    ),
    pi(
        3,
        "toolResult",
        toolCallId="t-1",
        toolName="read",
        content=[{"type": "text", "text": "x"}],
        isError=False,
    ),
    pi(4, "assistant", content=[{"type": "text", "text": "Done."}], usage=USAGE, responseId="r-2", model="m"),
]

STEPS: list[Said] = [
    {
        "action": "ls\n",
        "observation": "a.py\n",
        "response": "I look.\n```\nls\n```",
        "thought": "I look.\n",
        "execution_time": 0.25,
    },
    {"action": "submit", "observation": "", "response": "Done.\n```\nsubmit\n```", "thought": "Done.\n"},
]
HISTORY: list[Said] = [
    {"role": "system", "content": "You are an agent.", "agent": "main"},
    {"role": "user", "content": "add a price", "agent": "main"},
    {"role": "assistant", "content": STEPS[0]["response"], "thought": "I look.\n", "action": "ls\n"},
    {"role": "user", "content": "a.py\n\n(Open file: n/a)"},
    {"role": "assistant", "content": STEPS[1]["response"], "thought": "Done.\n", "action": "submit"},
]
STATS = {"api_calls": 2, "tokens_sent": 500, "tokens_received": 30, "instance_cost": 0.01}
SWE = [{"environment": "main", "trajectory": STEPS, "history": HISTORY, "info": {"model_stats": STATS}}]

ATIF = [
    {
        "schema_version": "ATIF-v1.8",
        "session_id": "a-1",
        "trajectory_id": "t",
        "agent": {"name": "terminus", "version": "2.0", "model_name": "gpt-6"},
        "steps": [
            {"step_id": 1, "source": "system", "message": "You are an agent."},
            {
                "step_id": 2,
                "source": "user",
                "message": "add a price",
                "timestamp": "2026-11-20T12:00:01+02:00",
            },
            {
                "step_id": 3,
                "source": "agent",
                "message": "I ask another.",
                "reasoning_content": "hm",
                "tool_calls": [{"tool_call_id": "k-1", "function_name": "task", "arguments": {"n": 1}}],
                "observation": {
                    "results": [
                        {
                            "source_call_id": "k-1",
                            "content": "price = 1",
                            "subagent_trajectory_ref": [{"trajectory_id": "sub"}],
                        }
                    ]
                },
                "metrics": {"prompt_tokens": 100, "completion_tokens": 10, "cached_tokens": 60},
            },
            {
                "step_id": 4,
                "source": "agent",
                "message": "told before",
                "is_copied_context": True,
                "metrics": {"prompt_tokens": 900, "completion_tokens": 90},
            },
        ],
        "final_metrics": {"total_prompt_tokens": 100, "total_completion_tokens": 10},
        "subagent_trajectories": [
            {
                "schema_version": "ATIF-v1.8",
                "trajectory_id": "sub",
                "agent": {"name": "helper", "version": "1"},
                "steps": [
                    {"step_id": 1, "source": "user", "message": "find the price"},
                    {
                        "step_id": 2,
                        "source": "agent",
                        "message": "It is 1.",
                        "metrics": {"prompt_tokens": 7, "completion_tokens": 3},
                    },
                ],
            }
        ],
    }
]

SAMPLES: dict[str, list[Said]] = {
    "cursor": CURSOR, "copilot-cli": COPILOT, "pi": PI, "swe-agent": SWE, "atif": ATIF,
}  # fmt: skip
AGENTS = list(SAMPLES)


def written(path: Path, lines: list[Said]) -> Path:
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


def run(store: Store, agent: str, path: Path) -> ImportReport:
    return importer.run(store, agent, sources.named(agent, [str(path)]))


def rows(store: Store, sql: str) -> list[tuple[Any, ...]]:
    return [tuple(row) for row in store.query(sql).rows]


@pytest.mark.parametrize(
    ("agent", "turns", "actions", "calls"),
    [
        (
            "cursor",
            [("add a price", "I write it."), ("thanks", "Gladly.")],
            [("Write", None)],
            (0, None, None),
        ),
        ("copilot-cli", [("add a price", "There is no make.")], [("bash", False)], (2, 900, 30)),
        ("pi", [("add a price", "Done.")], [("read", True)], (2, 284, 40)),
        (
            "swe-agent",
            [("add a price", "Done.\n```\nsubmit\n```")],
            [("shell", None), ("shell", None)],
            (1, 500, 30),
        ),
        ("atif", [("add a price", "I ask another.")], [("task", None)], (2, 107, 13)),
    ],
)
def test_a_session_is_recorded_with_its_turns_calls_and_tokens(
    tmp_path: Path, agent: str, turns: Any, actions: Any, calls: Any
) -> None:
    """P3, P7: prompts, outcomes, calls, tokens, why the model stopped; a second import adds nothing."""
    with Store.init(tmp_path / ".locus") as store:
        report = run(store, agent, written(tmp_path / "one.jsonl", SAMPLES[agent]))

        assert (report.problems, report.malformed) == ([], 0)
        assert rows(store, "select user_request, outcome from turns order by turn") == turns
        assert rows(store, "select tool, success from actions order by position") == actions
        assert rows(store, "select count(*), sum(prompt_tokens), sum(completion_tokens) from llm_calls") == [
            calls
        ]
        stopped = rows(store, "select stop_reason from llm_calls where stop_reason is not null")
        assert stopped == ([("toolUse",)] if agent == "pi" else [])  # no other format says it
        (tmp_path / ".locus/live/imports.json").unlink()
        assert run(store, agent, tmp_path / "one.jsonl").events == 0


def ids_of(directory: Path, agent: str, *versions: list[Said]) -> tuple[Counter[str], list[Any]]:
    """The ids after importing one version after the other, without ends, notes and model calls; these."""
    with Store.init(directory / ".locus") as store:
        for version in versions:
            run(store, agent, written(directory / "one.jsonl", version))
        ids = Counter(
            str(e["event_id"])
            for e in store.events()
            if e["event_type"] not in ("import", "sessions", "tool_start", "llm") and e["operation"] != "end"
        )
        return ids, rows(
            store, "select message_id, prompt_tokens, completion_tokens from llm_calls order by all"
        )


@pytest.mark.parametrize("agent", ["cursor", "copilot-cli", "pi"])
def test_a_session_imported_while_it_grows_is_the_one_imported_whole(tmp_path: Path, agent: str) -> None:
    """P7: every prefix and then the whole has the same events as the whole at once."""
    lines = SAMPLES[agent]
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
    grown = ids_of(tmp_path / "a", agent, *(lines[:end] for end in range(1, len(lines) + 1)))

    assert grown == ids_of(tmp_path / "b", agent, lines)


def test_a_document_that_grew_adds_what_is_new(tmp_path: Path) -> None:
    """P7: a run of SWE-agent that was imported before its second step has each step and its totals once."""
    begun = copy.deepcopy(SWE)
    begun[0]["trajectory"], begun[0]["history"] = STEPS[:1], HISTORY[:3]
    begun[0]["info"] = {"model_stats": {**STATS, "tokens_sent": 200, "tokens_received": 12}}
    with Store.init(tmp_path / ".locus") as store:
        path = written(tmp_path / "one.traj", begun)
        run(store, "swe-agent", path)
        assert run(store, "swe-agent", written(path, SWE)).problems == []

        assert rows(store, "select count(*) from actions") == [(2,)]
        assert rows(store, "select prompt_tokens, completion_tokens from llm_calls") == [(500, 30)]
        assert rows(store, "select count(*) from turns") == [(1,)]


@pytest.mark.parametrize("form", ["trajectory", "history"])
def test_a_run_is_read_from_either_half_of_its_document(tmp_path: Path, form: str) -> None:
    """Older and demonstration files have only `history`, others only `trajectory`: the calls are the same."""
    with Store.init(tmp_path / ".locus") as store:
        run(store, "swe-agent", written(tmp_path / "one.traj", [{form: SWE[0][form]}]))

        found: list[Any] = [e["payload"] for e in store.events() if e["event_type"] == "action"]
        assert found[0]["args"] == {"command": "ls\n"}
        assert found[0]["result"] == ("a.py\n" if form == "trajectory" else "a.py\n\n(Open file: n/a)")


def test_what_a_subagent_did_is_recorded_as_its_own(tmp_path: Path) -> None:
    """An embedded ATIF trajectory is a subagent of the call that refers to it, and begins no turn."""
    with Store.init(tmp_path / ".locus") as store:
        run(store, "atif", written(tmp_path / "one.json", ATIF))

        (begun,) = [e for e in store.events() if e["event_type"] == "subagent"]
        assert (begun["subagent_id"], begun["title"], begun["tool_use_id"]) == ("sub", "helper", "t:k-1")
        assert rows(store, "select count(*) from turns") == [(1,)]
        (asked,) = rows(store, "select occurred_at from events where event_type = 'intent'")
        assert str(asked[0]).startswith("2026-11-20 10:00:01")


def test_each_trajectory_of_a_file_is_recorded_in_its_own_session(tmp_path: Path) -> None:
    """P3: by its session id; a document that goes on with a session joins it, and each session ends."""
    other = {**ATIF[0], "session_id": "a-2"}
    goes_on = {
        **ATIF[0],
        "trajectory_id": "u",
        "steps": [{"step_id": 9, "source": "user", "message": "more"}],
    }
    with Store.init(tmp_path / ".locus") as store:
        report = run(store, "atif", written(tmp_path / "all.jsonl", [ATIF[0], other, goes_on]))

        assert report.sessions == 2
        of_each = "select agent_session_id, user_request, t.tool_calls, t.status from turns t join sessions "
        assert sorted(rows(store, f"{of_each} using (session_id)")) == [
            ("a-1", "add a price", 1, "completed"),
            ("a-1", "more", 0, "completed"),
            ("a-2", "add a price", 1, "completed"),
        ]
        assert rows(store, "select distinct status from sessions") == [("closed",)]
        assert run(store, "atif", written(tmp_path / "again.jsonl", [ATIF[0], other, goes_on])).facts == 0


CHAT: Said = {
    "version": 3,
    "responderUsername": "GitHub Copilot",
    "sessionId": "v-1",
    "requests": [
        {
            "requestId": "q-1",
            "message": {"text": "rename it"},
            "timestamp": 1_795_000_000_000,
            "modelId": "copilot/x",
            "response": [{"value": "I rename it."}],
            "result": {
                "metadata": {
                    "toolCallRounds": [
                        {
                            "id": "r",
                            "response": "I rename it.",
                            "toolCalls": [{"id": "e", "name": "edit", "arguments": '{"n": 1}'}],
                        }
                    ],
                    "toolCallResults": {"e": {"content": "edited"}},
                }
            },
        }
    ],
}


def test_a_chat_of_the_editor_is_the_same_as_a_document_and_as_changes(tmp_path: Path) -> None:
    """A chat written as a document, or as changes made to one, is reported alike: request, text, call,
    result."""
    empty = {**CHAT, "requests": []}
    request: Said = CHAT["requests"][0]
    changes = [
        {"kind": 0, "v": empty},
        {"kind": 2, "k": ["requests"], "v": [{**request, "result": None}]},
        {"kind": 1, "k": ["requests", 0, "result"], "v": request["result"]},
    ]
    listed = []
    for name, lines in (("a", [CHAT]), ("b", changes)):
        (tmp_path / name).mkdir()
        with Store.init(tmp_path / name / ".locus") as store:
            run(store, "copilot-cli", written(tmp_path / name / "one.jsonl", lines))
            listed.append([(e["event_type"], e["tool"], e["payload"]) for e in store.events() if e["seq"]])

    assert listed[0] == listed[1]
    action: Any = next(payload for kind, _, payload in listed[0] if kind == "action")
    assert (action["args"], action["result"]) == ({"n": 1}, {"content": "edited"})


@pytest.mark.parametrize("agent", ["cursor", "copilot-cli", "pi"])
def test_the_sessions_of_this_directory_are_found_where_the_agent_keeps_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, agent: str
) -> None:
    """`locus import AGENT` without a path takes the sessions of the repository, and not those of others."""
    home = tmp_path / "home"
    for number, name in enumerate(("my.shop", "other")):
        ran_in = tmp_path / name
        ran_in.mkdir()
        lines = json.loads(json.dumps(SAMPLES[agent]).replace("/home/dev/shop", str(ran_in)))
        slug = str(ran_in).strip("/").replace("/", "-").replace(".", "-").replace("_", "-")
        path = {
            "cursor": f".cursor/projects/{slug}/agent-transcripts/{uuid.UUID(int=number)}.jsonl",
            "copilot-cli": f".copilot/session-state/{number}/events.jsonl",
            "pi": f".pi/agent/sessions/--{slug}--/{number}.jsonl",
        }[agent]
        (home / path).parent.mkdir(parents=True)
        written(home / path, lines)
    assert locus_process("init", cwd=tmp_path / "my.shop").code == 0

    monkeypatch.setenv("HOME", str(home))
    for name in ("COPILOT_HOME", "PI_CODING_AGENT_DIR"):
        monkeypatch.delenv(name, raising=False)
    ended = locus_process("import", agent, "--json", cwd=tmp_path / "my.shop")
    report = json.loads(ended.out)["import"]
    assert (ended.code, report["sources"], report["sessions"], report["problems"]) == (0, 1, 1, [])
    everything = locus_process("import", agent, "--all-projects", "--json", cwd=tmp_path / "my.shop")
    report = json.loads(everything.out)["import"]
    assert (report["sources"], report["unchanged"]) == (1, 1)


# -- strange input -----------------------------------------------------------------------------------

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=6),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3),
    max_leaves=8,
)


@st.composite
def mutated(draw: st.DrawFn) -> tuple[str, list[Said]]:
    """Lines of a sample in which some values are others."""
    agent = draw(st.sampled_from(AGENTS))
    lines = copy.deepcopy(SAMPLES[agent] if agent != "copilot-cli" or draw(st.booleans()) else [CHAT])
    for _ in range(draw(st.integers(1, 3))):
        place: Any = lines
        while True:
            names: list[Any] = list(place) if isinstance(place, dict) else list(range(len(place)))
            if not names:
                break
            name = draw(st.sampled_from(names))
            if not isinstance(place[name], (dict, list)) or draw(st.integers(0, 3)) == 0:
                place[name] = draw(VALUES)
                break
            place = place[name]
    return agent, [line for line in lines if isinstance(line, dict)]


def told_by(agent: str, lines: list[Said]) -> list[Any]:
    draft = Draft(agent, ["/nowhere/one.jsonl"])
    reader = formats.reader_of(agent)(draft)
    for line in copy.deepcopy(lines):
        reader.take(line)
    reader.end()
    return draft.take()


@settings(max_examples=examples(80, 3000))
@given(mutated())
def test_no_value_makes_a_reader_fail(made: tuple[str, list[Said]]) -> None:
    """P7: whatever is in a line, a reader tells something, and the same each time."""
    agent, lines = made
    assert repr(told_by(agent, lines)) == repr(told_by(agent, lines))


def objects_in(value: Any) -> list[Said]:
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else []
    return [*([value] if isinstance(value, dict) else []), *(one for v in inner for one in objects_in(v))]


@pytest.mark.parametrize("agent", [*AGENTS, "chat"])
def test_what_a_format_does_not_know_is_kept(agent: str) -> None:
    """P7: a field that nobody has heard of is in an event, in whichever object of a file it is."""
    lines = [CHAT] if agent == "chat" else SAMPLES[agent]
    for number in range(len(objects_in(lines))):
        odd = copy.deepcopy(lines)
        objects_in(odd)[number]["odd"] = "unheard-of"
        reported = told_by("copilot-cli" if agent == "chat" else agent, odd)
        assert "unheard-of" in repr(reported), objects_in(lines)[number]


@settings(max_examples=examples(40, 1000))
@given(
    st.sampled_from(AGENTS), st.lists(st.dictionaries(st.text(max_size=8), VALUES, max_size=4), max_size=4)
)
def test_no_object_makes_a_reader_fail(agent: str, lines: list[Said]) -> None:
    """P7: lines that are of no format at all."""
    told_by(agent, lines)


# -- real files --------------------------------------------------------------------------------------

PLACES = [Path(one) for one in os.environ.get("LOCUS_TRANSCRIPTS", "").split(os.pathsep) if one]


def counted(agent: str, path: Path) -> tuple[int, int, int, int, int]:
    """Prompts, tool calls, model calls and their tokens, counted from what the formats are said to be."""
    text = path.read_text()
    lines = (
        [json.loads(text)]
        if path.suffix in (".json", ".traj")
        else [json.loads(x) for x in text.splitlines()]
    )
    if agent == "pi":
        listed = [line["message"] for line in lines if line["type"] == "message"]
        answers = [one for one in listed if one["role"] == "assistant"]
        usages = [one["usage"] for one in answers]
        return (
            sum(one["role"] == "user" for one in listed),
            sum(block["type"] == "toolCall" for one in answers for block in one["content"]),
            len({one["responseId"] for one in answers}),
            sum(one["totalTokens"] - one["output"] for one in usages),
            sum(one["output"] for one in usages),
        )
    if agent == "cursor":
        blocks = [block for line in lines for block in line["message"]["content"]]
        return sum(x["role"] == "user" for x in lines), sum(x["type"] == "tool_use" for x in blocks), 0, 0, 0
    if agent == "copilot-cli":
        requests = lines[0].get("v", lines[0])["requests"]
        rounds = [one for request in requests for one in request["result"]["metadata"]["toolCallRounds"]]
        return len(requests), sum(len(one["toolCalls"]) for one in rounds), 0, 0, 0
    (document,) = lines
    steps = document.get("trajectory") or [x for x in document["history"] if x["role"] == "assistant"]
    return 1, len(steps), 0, 0, 0


@pytest.mark.parametrize("agent", ["cursor", "copilot-cli", "pi", "swe-agent"])
def test_real_sessions_have_as_many_of_everything_as_another_count_finds(tmp_path: Path, agent: str) -> None:
    """P3: prompts, tool calls, model calls and tokens of each real file, and nothing is reported twice."""
    found = [
        path
        for place in PLACES
        for path in sorted(place.rglob("*.*"))
        if path.is_file() and agent in path.parts
    ]
    if not found:
        pytest.skip(f"LOCUS_TRANSCRIPTS names no directory with sessions of {agent}")
    for number, path in enumerate(found):
        (tmp_path / str(number)).mkdir()
        with Store.init(tmp_path / str(number) / ".locus") as store:
            run(store, agent, path)
            count = "select count(*) from events where event_type = '{}' and coalesce(operation, '') != 'end'"
            ((turns,),) = rows(store, count.format("turn"))
            ((calls,),) = rows(
                store, "select count(*) from events where event_type in ('action', 'tool_start')"
            )
            sums = "select count(*), coalesce(sum(prompt_tokens), 0), coalesce(sum(completion_tokens), 0)"
            (usage,) = rows(store, f"{sums} from llm_calls")
            assert (turns, calls, *usage) == counted(agent, path)
