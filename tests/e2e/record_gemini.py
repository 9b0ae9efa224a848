"""Makes the fixtures of Gemini CLI: `python -m tests.e2e.record_gemini`, with what scripts/e2e installed.

As record.py, but for what this client lacks: a fixture's head counts tool calls, because they have no ids,
and each step has the lines that the client added to its chat, without the context that it gives its model.
"""

import json
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from eventlog.setup import install

from .clients import Client, ended, wait_for
from .desk import Desk, end_command, open_desk, prompt_of
from .gemini import find_gemini, refuse
from .record import Json, _anywhere, _changes
from .record_hook import __file__ as HOOK

FIXTURES = Path(__file__).parent.parent / "fixtures/gemini-cli"
_CONTEXT = "<session_context>"


def main() -> None:
    client = find_gemini()
    assert client is not None, "Gemini CLI is not installed: scripts/e2e"
    for name, journey in {"work": work, "trouble": trouble}.items():
        record(client, name, journey)


def work(desk: Desk) -> None:
    """Three turns of one session, between which a person edits."""
    desk.run("edit")
    (desk.project / "kiosk.py").write_text("GREETING = 'good day'\nprint(GREETING)\n")
    (desk.project / "mine.txt").write_text("by hand\n")
    desk.run("shell", resume=_session(desk))
    for _ in range(2):
        desk.run("more", resume=_session(desk))


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


def record(client: Client, name: str, journey: "Callable[[Desk], None]") -> None:
    with tempfile.TemporaryDirectory() as temporary, open_desk(client, Path(temporary)) as desk:
        lines = Path(temporary) / "lines"
        refuse(desk.home, client.settings, desk.scratch)
        path = desk.home.path / client.settings
        settings = json.loads(path.read_text().partition("\n")[2])
        recorder = {"type": "command", "command": f"{sys.executable} {HOOK} {lines} {desk.project}"}
        for event in install.spec_of("gemini-cli")[1].events:
            settings["hooks"].setdefault(event, []).append({"hooks": [recorder]})
        path.write_text(json.dumps(settings))
        journey(desk)
        calls = [json.loads(line) for line in lines.read_text().splitlines()]
        made = [_head(desk, name, calls), *_steps(calls)]
        target = FIXTURES / f"{name}.jsonl"
        target.parent.mkdir(parents=True, exist_ok=True)
        text = "".join(_anywhere(desk, json.dumps(line, ensure_ascii=False)) + "\n" for line in made)
        target.write_text(text)
        print(f"{target.relative_to(FIXTURES)}: {len(calls)} calls, {target.stat().st_size} bytes")


def _session(desk: Desk) -> str:
    text = (desk.project.parent / "lines").read_text()
    return str(json.loads(text.splitlines()[-1])["payload"]["session_id"])


def _head(desk: Desk, name: str, calls: list[Json]) -> Json:
    """What was true at the end; taken from the client and the model, not from us."""
    listed = [call["payload"] for call in calls]
    return {
        "journey": name,
        "version": desk.client.version,
        "sessions": len({one["session_id"] for one in listed}),
        "prompts": [one["prompt"] for one in listed if one["hook_event_name"] == "BeforeAgent"],
        "tool_calls": sum(len(one.calls) for one in desk.served()),
        "tokens": sorted([one.usage["input_tokens"], one.usage["output_tokens"]] for one in desk.served()),
    }


def _steps(calls: list[Json]) -> list[Json]:
    made = []
    tree: dict[str, list[str]] = {}
    sizes: dict[str, int] = {}
    for call in calls:
        step: Json = {"changes": _changes(tree, call["tree"]), "chat": _added(call["transcripts"], sizes)}
        tree = call["tree"]
        made.append({**{key: value for key, value in step.items() if value}, "call": call["payload"]})
    rest = _added({path: Path(path).stat().st_size for path in sizes}, sizes)
    return [*made, {"chat": rest}]


def _added(files: dict[str, int], sizes: dict[str, int]) -> dict[str, list[Json]]:
    """The whole lines that were added to each chat."""
    found = {}
    for file, size in files.items():
        data = Path(file).read_bytes()[sizes.get(file, 0) : size]
        data = data[: data.rfind(b"\n") + 1]
        sizes[file] = sizes.get(file, 0) + len(data)
        lines = [_reduced(json.loads(line)) for line in data.splitlines()]
        if lines:
            found[file] = lines
    return found


def _reduced(line: Json) -> Json:
    """Without what the client tells its model about itself, its tools and the directory."""
    for message in (line, *line.get("$set", {}).get("messages", ())):
        for call in message.get("toolCalls", ()):
            call.pop("description", None)
        content = message.get("content")
        for part in content if isinstance(content, list) else ():
            if str(part.get("text")).startswith(_CONTEXT):
                part["text"] = _CONTEXT
    return line


if __name__ == "__main__":
    main()
