"""Makes the fixtures of the default suite: `python -m tests.e2e.record`, with what scripts/e2e installed.

Each journey is played by the true client with a hook that only writes down. A fixture is JSON lines:
first what it is and what the log must hold at its end, then one line per hook call: `changes`, what
changed in the project since the call before; `transcript`, what the client added to its files, reduced
to ids and token counts; `call`, the hook's input. Directories are placeholders, so that the fixture can
be played anywhere. Nothing of the vendors' texts is kept, and no environment.
"""

import base64
import json
import os
import re
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from eventlog.setup.install import spec_of

from .clients import Client, ended, find_claude_code, find_codex, find_opencode, wait_for
from .desk import Desk, end_command, open_desk, prompt_of, refuser
from .record_hook import __file__ as HOOK

Json = dict[str, Any]

FIXTURES = Path(__file__).parent.parent / "fixtures/hooks"


def main() -> None:
    """Record every journey with every client that is installed, or with those that are named."""
    for client in (find_codex(), find_claude_code(), find_opencode()):
        for name, journey in JOURNEYS.items():
            if client is not None and (len(sys.argv) < 2 or client.agent in sys.argv[1:]):
                record(client, name, journey)


def record(client: Client, name: str, journey: "Callable[[Desk], None]") -> None:
    with tempfile.TemporaryDirectory() as temporary, open_desk(client, Path(temporary)) as desk:
        lines = Path(temporary) / "lines"
        recorder = f"{sys.executable} {HOOK} {lines} {desk.project}"
        desk.client.write_hooks(desk.home, spec_of(client.agent)[1].events, [recorder, refuser(desk.scratch)])
        journey(desk)
        calls = [json.loads(line) for line in lines.read_text().splitlines()]
        made = [_head(desk, name, calls), *_steps(desk, calls)]
        target = FIXTURES / client.name / f"{name}.jsonl"
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(
            "".join(_anywhere(desk, json.dumps(line, ensure_ascii=False)) + "\n" for line in made)
        )
        print(f"{target.relative_to(FIXTURES)}: {len(calls)} calls, {target.stat().st_size} bytes")


def work(desk: Desk) -> None:
    """Three turns of one session, between which a person edits."""
    desk.run("edit")
    session = _session(desk)
    (desk.project / "kiosk.py").write_text("GREETING = 'good day'\nprint(GREETING)\n")
    (desk.project / "mine.txt").write_text("by hand\n")
    desk.run("shell", resume=session)
    desk.run("idle", resume=session)


def trouble(desk: Desk) -> None:
    """A call that is wrong, one that is refused, one that fails, and a kill in the middle of one."""
    for scenario in ("bad-input", "refused", "failing"):
        desk.run(scenario)
    with desk.client.started(desk.home, desk.project, prompt_of("wait")) as process:
        wait_for(desk.scratch / "pid")
        process.kill()
        ended(process)
    end_command(desk)
    desk.run("more", resume=_session(desk))


def agents(desk: Desk) -> None:
    """Two subagents at once."""
    desk.run("agents")


JOURNEYS = {"work": work, "trouble": trouble, "agents": agents}


def _session(desk: Desk) -> str:
    text = (desk.project.parent / "lines").read_text()
    return str(json.loads(text.splitlines()[-1])["payload"]["session_id"])


def _head(desk: Desk, name: str, calls: list[Json]) -> Json:
    """What the fixture is, and what was true at its end; taken from the client and the model, not from us."""
    listed = [call["payload"] for call in calls]
    kinds = {
        e: [p for p in listed if p["hook_event_name"] == e] for e in {p["hook_event_name"] for p in listed}
    }
    if desk.client.agent == "opencode":
        return _head_of_opencode(desk, name, kinds)
    prompts = [p["prompt"] for p in kinds["UserPromptSubmit"]]
    return {
        "agent": desk.client.agent,
        "version": desk.client.version,
        "journey": name,
        "sessions": len({p["session_id"] for p in listed}),
        "turns": len(prompts),
        "prompts": [prompt for prompt in prompts if not prompt.startswith("<task-notification>")],
        "tool_calls": sorted(_ended_calls(listed)),
        "tool_calls_begun": sorted({p["tool_use_id"] for p in kinds["PreToolUse"]}),
        "tokens": sorted(_tokens(one.api, one.usage) for one in desk.served()),
    }


def _head_of_opencode(desk: Desk, name: str, kinds: dict[str, list[Json]]) -> Json:
    """The same, from what our plugin heard; a call cut off in mid-tool leaves no count of tokens."""
    asked = [p for p in kinds["chat.message"] if "agent_id" not in p]
    tokens = [p["part"]["tokens"] for p in kinds["step.finish"]]
    return {
        "agent": desk.client.agent,
        "version": desk.client.version,
        "journey": name,
        "sessions": len({p["session_id"] for p in asked}),
        "turns": len(asked),
        "prompts": ["".join(part["text"] for part in p["parts"]) for p in asked],
        "tool_calls": sorted(p["tool_use_id"] for e in _ENDS for p in kinds.get(e, ())),
        "tool_calls_begun": sorted(p["tool_use_id"] for p in kinds["tool.execute.before"]),
        "tokens": sorted(
            [one["input"] + sum(one["cache"].values()), one["output"] + one["reasoning"]] for one in tokens
        ),
    }


_ENDS = ("tool.execute.after", "tool.error")


def _ended_calls(said: list[Json]) -> set[str]:
    """The calls of which the client reported the end: by itself, in a batch, or by asking the model again."""
    found = {p["tool_use_id"] for p in said if p["hook_event_name"].startswith("PostToolUse")}
    found.update(c["tool_use_id"] for p in said for c in p.get("tool_calls", ()))
    begun: set[tuple[str, str]] = set()
    for p in said:
        if p["hook_event_name"] == "PreToolUse" and "turn_id" in p:
            begun.add((p["turn_id"], p["tool_use_id"]))
        elif p["hook_event_name"] == "PreModelRequest":
            found.update(call for turn, call in begun if turn == p["turn_id"])
    return found


def _tokens(api: str, usage: Json) -> list[int]:
    keys = ["input_tokens"]
    if api == "messages":
        keys += ["cache_read_input_tokens", "cache_creation_input_tokens"]
    return [sum(usage[key] for key in keys), usage["output_tokens"]]


def _steps(desk: Desk, calls: list[Json]) -> list[Json]:
    made = []
    tree: dict[str, list[str]] = {}
    sizes: dict[str, int] = {}
    for call in calls:
        step: Json = {"changes": _changes(tree, call["tree"])}
        tree = call["tree"]
        if desk.client.agent == "claude-code":
            step["transcript"] = _transcript(call["transcripts"], sizes)
        made.append(
            {**{key: value for key, value in step.items() if value}, "call": _reduced(call["payload"])}
        )
    return made


def _changes(before: dict[str, list[str]], after: dict[str, list[str]]) -> Json:
    """Path → null when it is gone, else [kind, content]; `base64` comes third where it is no text."""
    gone = {path: None for path in before if path not in after}
    return gone | {path: _readable(*entry) for path, entry in after.items() if before.get(path) != entry}


def _readable(kind: str, content: str) -> list[str]:
    if kind == "link":
        return [kind, content]
    data = base64.b64decode(content)
    if data.isascii() and b"\0" not in data:
        return [kind, data.decode()]
    return [kind, content, "base64"]


def _transcript(files: dict[str, int], sizes: dict[str, int]) -> dict[str, list[Json]]:
    """What was added to the client's files since the call before, whole lines only."""
    added = {}
    for file, size in files.items():
        data = Path(file).read_bytes()[sizes.get(file, 0) : size]
        data = data[: data.rfind(b"\n") + 1]
        sizes[file] = sizes.get(file, 0) + len(data)
        lines = [line for text in data.splitlines() if (line := _figures(json.loads(text)))]
        if lines:
            added[file] = lines
    return added


def _figures(line: Json) -> Json | None:
    """Of a line of a transcript: ids, the model, tokens. Never a text."""
    if line.get("type") not in ("user", "assistant"):
        return None
    keys = (
        "type",
        "uuid",
        "parentUuid",
        "isSidechain",
        "sessionId",
        "agentId",
        "promptId",
        "requestId",
        "timestamp",
    )
    kept = {key: line[key] for key in keys if key in line}
    message = line.get("message") or {}
    kept["message"] = {
        key: message[key] for key in ("id", "role", "model", "stop_reason", "usage") if key in message
    }
    return kept


# What the model is shown is the vendor's wording. An error's own mark is kept, because it tells the outcome.
_SHOWN = "(what the model was shown)"
_NOTE = re.compile(r"<note>.*?</note>\n?", re.S)


def _reduced(payload: Json) -> Json:
    if payload["hook_event_name"] == "PostToolBatch":
        for call in payload["tool_calls"]:
            error = str(call.get("tool_response")).startswith("<tool_use_error>")
            call["tool_response"] = f"<tool_use_error>{_SHOWN}</tool_use_error>" if error else _SHOWN
    if str(payload.get("prompt")).startswith("<task-notification>"):
        payload["prompt"] = _NOTE.sub("", payload["prompt"])
    return payload


# Codex calls its first agent so, and the others below it; it looks like a directory of a machine's.
_TEAM = f"{os.sep}root{os.sep}"


def _anywhere(desk: Desk, text: str) -> str:
    """The line without this machine's directories; the longest name first."""
    below = desk.project.parent
    places = {
        desk.project: "@PROJECT@",
        desk.scratch: "@SCRATCH@",
        desk.home.path: "@HOME@",
        below: "@BELOW@",
    }
    text = text.replace(_TEAM, "@TEAM@/")
    for directory, name in places.items():
        text = text.replace(str(directory), name).replace(_slug(directory), f"{name}-slug")
    assert str(below) not in text and f"{Path.home()}/" not in text
    return text


def _slug(directory: Path) -> str:
    return "".join(c if c.isalnum() else "-" for c in str(directory))


if __name__ == "__main__":
    main()
