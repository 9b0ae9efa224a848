"""How an event is shown in one line: what a timeline says of tools and of the ends of turns."""

import json
from pathlib import Path

import pytest

from eventlog.base.display import columns, event_words

_FIXTURES = Path(__file__).parent.parent / "fixtures"


def shown(tool: str | None, args: object, **event: object) -> str:
    return event_words({"event_type": "action", "tool": tool, "payload": {"args": args}, **event})


@pytest.mark.parametrize(
    ("tool", "args", "words"),
    [
        ("Bash", {"description": "Tidy", "command": "rm -rf src"}, "Bash rm -rf src"),
        ("Edit", {"file_path": "/r/a.py", "old_string": "x" * 99}, "Edit /r/a.py"),
        ("edit", {"filePath": "a.py", "newString": "x"}, "edit a.py"),
        ("Grep", {"pattern": "to do", "path": "src"}, "Grep to do in src"),
        ("shell", {"command": ["bash", "-lc", "ls | wc"], "workdir": "/r"}, "shell ls | wc"),
        ("shell", {"command": ["ls", "-l"]}, "shell ls -l"),
        ("exec_command", {"cmd": "make"}, "exec_command make"),
        ("apply_patch", "*** Begin Patch\n*** Add File: a.py\n+x\n", "apply_patch *** Add File: a.py ⏎ +x"),
        ("mcp__weather", {"city": "Malmö"}, 'mcp__weather {"city": "Malmö"}'),
        ("Bash", {"command": "cd a\n\n  rm b"}, "Bash cd a ⏎ rm b"),
        ("Bash", {"command": "echo \x1b[2J"}, "Bash echo \\x1b[2J"),
        (None, None, ""),
        ("wait", {}, "wait"),
        ("odd", {"command": 7}, 'odd {"command": 7}'),
    ],
)
def test_what_a_tool_was_asked_to_do(tool: str | None, args: object, words: str) -> None:
    """A tool's command, path or pattern is shown, on one harmless line, however the agent spells it."""
    assert shown(tool, args) == words
    assert shown(tool, args, event_type="tool_start") == words


def test_a_failed_tool_and_one_whose_path_is_a_column() -> None:
    """A failure comes before what failed; a path is named once."""
    assert shown("Bash", {"command": "make"}, success=False) == "Bash failed: make"
    assert shown("Edit", {"file_path": "/r/src/a.py"}, path="src/a.py") == "Edit src/a.py"


def test_a_long_command_is_cut() -> None:
    """However long arguments are, a line of a timeline ends with an ellipsis."""
    for args in ({"command": "x" * 99_999}, {"a": ["y"] * 99_999}, {"command": "\n" * 9_999 + "z"}):
        words = shown("Bash", args)
        assert words.endswith("…")
        assert columns(words) <= 165


@pytest.mark.parametrize("file", sorted(_FIXTURES.rglob("work.jsonl")), ids=lambda file: file.parent.name)
def test_the_calls_of_captured_sessions_are_recorded(file: Path) -> None:
    """What each agent's hooks say of a tool's arguments gives words, and its commands are in them."""
    calls = [call for line in file.read_text().splitlines() for call in _calls(json.loads(line))]
    assert calls
    for args in calls:
        words = shown("tool", args)
        assert words.removeprefix("tool ").split("{")[0]
        if "&&" in str(args.get("command")):
            assert "&&" in words


def _calls(value: object) -> list[dict[str, object]]:
    if isinstance(value, list):
        return [call for one in value for call in _calls(one)]
    if not isinstance(value, dict):
        return []
    own = [value[name] for name in ("tool_input", "args") if isinstance(value.get(name), dict)]
    return own + [call for one in value.values() for call in _calls(one)]


def test_the_end_of_a_turn_tells_its_outcome() -> None:
    """The first line of what a turn came to, and how it ended when that is not the usual way."""
    event = {"event_type": "turn", "operation": "end", "status": "completed"}
    assert event_words({**event, "payload": {"outcome": "All done.\nMore."}}) == "end All done."
    assert event_words({**event, "payload": {}, "status": "interrupted"}) == "end interrupted"
