"""OpenCode's plugin: put in, again, and out, on real files; run by node; and what its calls mean."""

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from blake3 import blake3
from hypothesis import given
from hypothesis import strategies as st

from eventlog.agents import interpret
from eventlog.agents.kit.call import TOOL, TOOL_START, TURN_END, TURN_START
from eventlog.agents.kit.tools import EDITS
from eventlog.agents.opencode import EVENTS, hooks, plugin
from eventlog.base.errors import Refused
from eventlog.base.fs import REAL
from eventlog.base.names import event_id_of
from eventlog.doctor import agents
from eventlog.setup import install, launch
from eventlog.setup.install import Homes

OPENCODE = "opencode"

Json = dict[str, Any]

LINE = launch.fast_line(OPENCODE, "/usr/my tools/locus-hook.py", "/usr/my tools/python")
WANTED = install.handlers(OPENCODE, LINE)
PLACE = {"session_id": "ses_1", "turn_id": "msg_1", "cwd": "/home/dev/shop", "version": "1.18.33"}


@pytest.fixture
def homes(tmp_path: Path) -> Homes:
    return Homes.of({"HOME": str(tmp_path / "home")})


@pytest.fixture
def file(tmp_path: Path, homes: Homes) -> Path:
    (tmp_path / "shop").mkdir()
    return Path(install.settings_path(OPENCODE, install.LOCAL, str(tmp_path / "shop"), homes))


def put_in(file: Path, homes: Homes, line: str = LINE, **how: Any) -> install.SettingsEdit:
    return install.install(REAL, OPENCODE, str(file), install.handlers(OPENCODE, line), homes, **how)


def take_out(file: Path, homes: Homes) -> install.SettingsEdit:
    return install.uninstall(REAL, OPENCODE, str(file), homes)


def test_the_plugin_goes_in_and_out_and_leaves_nothing(file: Path, homes: Homes) -> None:
    """P4: a file of our own, made once, brought up to date, and removed with the directory made for it."""
    assert put_in(file, homes, dry_run=True).kind == "created" and not file.exists()
    assert put_in(file, homes).kind == "created"
    assert put_in(file, homes).kind == "unchanged"
    assert plugin.line_in(file.read_text()) == LINE

    found = install.registered_in(REAL, OPENCODE, install.LOCAL, str(file))
    assert (found.lines, found.missing, found.problem) == ((LINE,), (), None)
    assert found.events == install.spec_of(OPENCODE)[1].events

    head, body = file.read_text().replace("5000", "4000").split("\n", 1)
    digest = blake3(body.encode()).hexdigest()[:16]
    file.write_text(f"{head[: -len(digest)]}{digest}\n{body}")  # as another version would have made it
    older = install.registered_in(REAL, OPENCODE, install.LOCAL, str(file))
    assert (found.is_older, older.is_older, older.problem) == (False, True, None)
    environ = {"HOME": str(file.parents[3] / "home")}
    examined = agents.examine(None, str(file.parents[2]), environ, commands="", more=())
    listed = [f for f in examined if "another version" in f.what]
    assert [f.level for f in listed] == ["note"] and "locus hooks install --agent opencode" in str(
        listed[0].todo
    )

    assert put_in(file, homes, launch.portable_line(OPENCODE)).kind == "edited"
    assert "my tools" not in file.read_text()
    assert take_out(file, homes).kind == "removed"
    assert not file.parent.exists()
    assert take_out(file, homes).kind == "unchanged"


def test_what_somebody_wrote_is_never_touched(file: Path, homes: Homes) -> None:
    """P4: a file of that name which is not ours, and one of ours that somebody edited, stay byte for byte."""
    file.parent.mkdir(parents=True)
    file.write_text("export const Mine = async () => ({})\n")
    with pytest.raises(Refused, match="not ours"):
        put_in(file, homes)
    assert take_out(file, homes).kind == "unchanged"
    assert install.registered_in(REAL, OPENCODE, install.LOCAL, str(file)).events == ()

    file.unlink()
    put_in(file, homes)
    edited = file.read_text().replace("5000", "50")
    file.write_text(edited)
    for attempt in (put_in, take_out):
        with pytest.raises(Refused, match="edited"):
            attempt(file, homes)
    assert file.read_text() == edited
    assert "edited" in str(install.registered_in(REAL, OPENCODE, install.LOCAL, str(file)).problem)


def test_the_adapter_understands_every_moment_that_the_plugin_tells() -> None:
    """Every name that is understood is reported by the plugin, which has no other but those kept raw."""
    kept_raw = {"permission.replied", "session.compacted"}
    assert set(hooks._MEANINGS) | kept_raw == set(EVENTS)


# -- the plugin, run --------------------------------------------------------------------------------

# Loads the plugin and says to it what OpenCode would, from standard input: [hook or event, input, output].
_HOST = """
import { readFileSync, writeFileSync } from "node:fs"
const { Locus } = await import(process.argv[2])
const client = { session: { get: async () => { throw new Error("no server") } } }
const hooks = await Locus({ client, directory: process.cwd() })
const said = JSON.parse(readFileSync(0, "utf8"))
for (const [name, input, output] of said) {
  const began = Date.now()
  if (name in hooks && name !== "event") await hooks[name](input, output)
  else hooks.event({ event: { type: name, properties: input } })
  if (Date.now() - began > 7000) throw new Error("too long")
}
await hooks.dispose()
if (process.argv[3]) {
  const prompts = said.filter(([name]) => name === "chat.message").map(([, , output]) => output.parts)
  writeFileSync(process.argv[3], JSON.stringify(prompts))
}
"""


def run_plugin(directory: Path, line: str, said: list[Any]) -> "subprocess.CompletedProcess[str]":
    (directory / "locus.mjs").write_text(plugin.text(line))
    (directory / "host.mjs").write_text(_HOST)
    return subprocess.run(
        ["node", "host.mjs", "./locus.mjs", "prompts.json"],
        input=json.dumps(said),
        cwd=directory,
        capture_output=True,
        text=True,
        timeout=60,
        env={"PATH": os.environ["PATH"]},
    )


def prompts_of(directory: Path, line: str, said: list[Any]) -> "list[list[Json]]":
    """The parts of each prompt after the plugin has heard of it."""
    done = run_plugin(directory, line, said)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    found: list[list[Json]] = json.loads((directory / "prompts.json").read_text())
    return found


INFO = {"id": "ses_1", "version": "1.18.33", "directory": "/x", "time": {"created": 10}}
CHILD = {**INFO, "id": "ses_2", "parentID": "ses_1", "title": "Count"}
ANSWER = {"id": "msg_2", "sessionID": "ses_1", "role": "assistant", "modelID": "m", "providerID": "p"}
OF_CALL = {"tool": "bash", "sessionID": "ses_1", "callID": "c1"}
STEP = {
    "id": "prt_1",
    "type": "step-finish",
    "messageID": "msg_2",
    "sessionID": "ses_1",
    "tokens": {"input": 1},
}
TEXT = {
    "id": "prt_2",
    "type": "text",
    "messageID": "msg_2",
    "sessionID": "ses_1",
    "text": "Ok.",
    "time": {"end": 1},
}
THROWN = {
    "id": "prt_3", "type": "tool", "messageID": "msg_2", "sessionID": "ses_2", "tool": "edit", "callID": "c2",
    "state": {"status": "error", "error": "no such file", "input": {"filePath": "a"}, "time": {}},
}  # fmt: skip
TYPED = {
    "id": "prt_0c0ffee0f00dZx4V0000000000",
    "type": "text",
    "text": "go",
    "sessionID": "ses_1",
    "messageID": "msg_1",
}
PROMPT = {
    "message": {"id": "msg_1", "sessionID": "ses_1", "role": "user"},
    "parts": [TYPED],
}
COPY = {**ANSWER, "id": "msg_0", "time": {"created": 5}}
SAID = [
    ["session.created", {"info": INFO}, None],
    ["message.updated", {"info": COPY}, None],
    ["message.part.updated", {"part": {**STEP, "messageID": "msg_0"}}, None],
    ["chat.message", {"sessionID": "ses_1"}, PROMPT],
    ["message.updated", {"info": ANSWER}, None],
    ["tool.execute.before", OF_CALL, {"args": {"command": "ls"}}],
    ["message.part.delta", {"anything": 1}, None],
    ["tool.execute.after", {**OF_CALL, "args": {"command": "ls"}}, {"output": "", "metadata": {"exit": 0}}],
    ["session.created", {"info": CHILD}, None],
    ["message.part.updated", {"part": THROWN}, None],
    ["message.part.updated", {"part": STEP}, None],
    ["message.part.updated", {"part": TEXT}, None],
    ["message.part.updated", {"broken": True}, None],
    ["session.idle", {"sessionID": "ses_2"}, None],
    ["session.idle", {"sessionID": "ses_1"}, None],
]


@pytest.mark.skipif(shutil.which("node") is None, reason="no node here")
def test_the_plugin_tells_what_it_hears_in_order(tmp_path: Path) -> None:
    """P3, P4: each moment once, with its session at the top and its turn; copies and idle subagents never."""
    done = run_plugin(tmp_path, "cat >> said.jsonl; echo >> said.jsonl", SAID)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    listed = [json.loads(one) for one in (tmp_path / "said.jsonl").read_text().splitlines()]
    assert [(one["hook_event_name"], one.get("turn_id"), one.get("agent_id")) for one in listed] == [
        ("session.created", None, None), ("chat.message", "msg_1", None),
        ("tool.execute.before", "msg_1", None), ("tool.execute.after", "msg_1", None),
        ("session.created", "msg_1", "ses_2"), ("tool.error", "msg_1", "ses_2"),
        ("step.finish", "msg_1", None), ("session.idle", "msg_1", None), ("session.end", "msg_1", None),
    ]  # fmt: skip
    assert {one["session_id"] for one in listed} == {"ses_1"}
    assert listed[3]["time"]["end"] >= listed[3]["time"]["start"]
    assert listed[6]["model"] == {"providerID": "p", "modelID": "m"}
    assert listed[7]["last_assistant_message"] == "Ok."
    for one in listed:
        interpret("opencode", one)


@pytest.mark.skipif(shutil.which("node") is None, reason="no node here")
@pytest.mark.parametrize(
    "line", ["exit 7", "kill -9 $$", "echo no; echo no >&2; exec 0<&-", "/nowhere/at/all"]
)
def test_whatever_becomes_of_the_hook_the_agent_hears_nothing(line: str, tmp_path: Path) -> None:
    """P4: a hook that fails, dies, prints or reads nothing disturbs nobody."""
    big = [*SAID[:4], ["tool.execute.before", OF_CALL, {"args": {"command": "x" * 2_000_000}}]]
    done = run_plugin(tmp_path, line, big)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


BRIEFED = r"""
printf '%s' '{"hookSpecificOutput":{"additionalContext":"a \"record\"\nof è"}}'
"""
TWICE = [SAID[0], SAID[3], SAID[3]]


@pytest.mark.skipif(shutil.which("node") is None, reason="no node here")
def test_a_session_that_begins_is_briefed_in_its_first_prompt(tmp_path: Path) -> None:
    """S3-21, S3-28: what the hook prints comes before the first prompt, as a part that a machine made;
    the second prompt is as it was, and what is recorded of both is what a person wrote."""
    first, second = prompts_of(tmp_path, f"cat >> said.jsonl; echo >> said.jsonl; {BRIEFED}", TWICE)

    part, theirs = first
    assert theirs == TYPED and second == [theirs]
    assert part["text"] == 'a "record"\nof è' and part["synthetic"] is True and part["type"] == "text"
    assert (part["sessionID"], part["messageID"]) == ("ses_1", "msg_1")
    assert part["id"] < theirs["id"] and part["id"].startswith("prt_")
    listed = [json.loads(one) for one in (tmp_path / "said.jsonl").read_text().splitlines()]
    assert [len(one["parts"]) for one in listed if one["hook_event_name"] == "chat.message"] == [1, 1]


@pytest.mark.skipif(shutil.which("node") is None, reason="no node here")
@pytest.mark.parametrize(
    "printed",
    ["", "true", "[[[", "null", '{"hookSpecificOutput":{"additionalContext":7}}', "yes x | head -c 9000000"],
)
def test_a_hook_that_prints_no_briefing_changes_no_prompt(printed: str, tmp_path: Path) -> None:
    """P4: whatever else a hook prints, the prompt is what the person wrote."""
    line = printed if printed.startswith("yes") else f"printf '%s' '{printed}'"
    assert [len(parts) for parts in prompts_of(tmp_path, f"cat > said; {line}", TWICE)] == [1, 1]


@pytest.mark.skipif(shutil.which("node") is None, reason="no node here")
@pytest.mark.parametrize(
    "said", [[SAID[3]], [SAID[0], SAID[1], SAID[3]], [["session.created", {"info": CHILD}, None], SAID[3]]]
)
def test_one_that_goes_on_a_fork_and_a_subagent_are_not_briefed(said: list[Any], tmp_path: Path) -> None:
    """P4: an agent that has the context, or works for one that has it, gets nothing."""
    assert [len(parts) for parts in prompts_of(tmp_path, f"cat > said; {BRIEFED}", said)] == [1]


# -- what calls mean --------------------------------------------------------------------------------


def call_of(name: str, **fields: Any) -> Any:
    return hooks.interpret({**PLACE, "hook_event_name": name, **fields})


def test_tool_calls_are_named_within_their_session() -> None:
    """P3: providers number calls from the start in each session, so the session is part of a call's id."""
    payload = {"tool_name": "edit", "tool_use_id": "call_1a2b3", "args": {"filePath": "/home/dev/a"}}
    begun, ended = call_of("tool.execute.before", **payload), call_of("tool.execute.after", **payload)
    assert (begun.moment, ended.moment) == (TOOL_START, TOOL)
    action = event_id_of("opencode", "action", "ses_1", "call_1a2b3")
    assert begun.tool.started_action_id == ended.tool.cause == action
    assert ended.events[0]["event_id"] == ended.tool.cause
    assert [one.path for one in ended.tool.named] == ["/home/dev/a"] and ended.tool.kind == EDITS
    other = hooks.interpret({**PLACE, "session_id": "ses_9", "hook_event_name": "tool.execute.after",
                                "tool_name": "edit", "tool_use_id": "call_1a2b3"})  # fmt: skip
    assert other.tool.cause != ended.tool.cause


def test_a_model_call_counts_cache_and_reasoning_in() -> None:
    """P3: the input that OpenCode gives leaves out the cache, the output leaves out reasoning."""
    tokens = {"input": 395, "output": 25, "reasoning": 5, "cache": {"read": 500, "write": 5}}
    part = {"id": "prt_1", "messageID": "msg_2", "type": "step-finish", "tokens": tokens}
    (event,) = call_of("step.finish", part=part, model={"modelID": "m"}).events
    names = ("prompt_tokens", "completion_tokens", "cache_read_tokens", "cache_write_tokens", "model")
    assert [event[name] for name in names] == [900, 30, 500, 5, "m"]
    assert event["event_id"] == event_id_of("opencode", "llm", "prt_1")


def test_a_turn_is_the_prompt_of_a_person() -> None:
    """A turn begins with what a person wrote, none with a subagent's prompt; an error says how it ended."""
    parts = [{"type": "text", "text": "go"}, {"type": "text", "text": "file content", "synthetic": True}]
    begun = call_of("chat.message", message={"id": "msg_1"}, parts=parts)
    assert (begun.moment, begun.prompt) == (TURN_START, "go")
    inner = call_of("chat.message", agent_id="ses_2", message={"id": "msg_3"}, parts=parts)
    assert [event["event_type"] for event in inner.events] == ["hook"] and inner.moment is None
    for name, status in (("MessageAbortedError", "interrupted"), ("APIError", "failed")):
        ended = call_of("session.idle", error={"name": name})
        assert (ended.moment, ended.events[-1]["status"]) == (TURN_END, status)


JSONS = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)
NAMES = (
    "session_id turn_id agent_id info message parts part model args metadata error time tool_name tool_use_id"
)


@given(
    st.sampled_from(EVENTS),
    st.dictionaries(st.sampled_from(NAMES.split()), JSONS, max_size=6),
)
def test_no_call_makes_the_adapter_fail(name: str, said: Json) -> None:
    """P4: a value of the wrong kind is an unknown one."""
    call = hooks.interpret({**PLACE, "hook_event_name": name, **said})
    assert call.events
