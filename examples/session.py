"""Plays a session of Codex again, for those who try Locus without an agent (docs/tutorial/ten-minutes.md).

python3 session.py 1 2      # the first and the second request of the session

examples/session.jsonl has what Codex 0.169.0 reported to its hooks in that session, and what it changed. This
writes the same files into the current directory, and gives the same reports to the hooks that
.codex/hooks.json names there.
"""

import json
import subprocess
import sys
from pathlib import Path


def play(wanted: set[int]) -> None:
    text = Path(__file__).with_name("session.jsonl").read_text(encoding="utf-8")
    for name, directory in (("@PROJECT@", Path.cwd()), ("@HOME@", Path.home())):
        text = text.replace(name, json.dumps(str(directory))[1:-1])
    _, *steps = (json.loads(line) for line in text.splitlines())
    request = 0
    for step in steps:
        call = step["call"]
        request += call["hook_event_name"] == "SessionStart"
        if request in wanted:
            change(step.get("changes", {}))
            report(call)
            print_words(call)


def change(files: dict[str, str | None]) -> None:
    for path, content in files.items():
        if content is None:
            Path(path).unlink()
        else:
            Path(path).write_text(content, encoding="utf-8")


def report(call: dict[str, object]) -> None:
    """Run each hook of this event, as Codex does: the report on its standard input."""
    hooks = json.loads(Path(".codex/hooks.json").read_text(encoding="utf-8"))["hooks"]
    for group in hooks.get(call["hook_event_name"], []):
        for hook in group["hooks"]:
            subprocess.run(["sh", "-c", hook["command"]], input=json.dumps(call).encode(), check=True)


def print_words(call: dict[str, object]) -> None:
    if call["hook_event_name"] == "UserPromptSubmit":
        print(">", call["prompt"])
    elif call["hook_event_name"] == "Stop":
        print(call["last_assistant_message"])


play({int(number) for number in sys.argv[1:]} or {1, 2, 3})
