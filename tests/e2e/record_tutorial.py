"""Makes examples/session.jsonl: `python -m tests.e2e.record_tutorial`, with what scripts/e2e installed.

The true Codex works three times in one session on a small project, with the model of scenarios.py; a hook
writes down what Codex reports and what changed. examples/session.py plays that again where a reader tries
Locus. The first line says what it is; each other one is a report of Codex, and what had changed in the
project since the one before (path → its text, or null when it is gone).
"""

import json
import re
import sys
import tempfile
from pathlib import Path
from typing import Any

from eventlog.setup.install import spec_of
from tests.cli.support import git

from .clients import find_codex
from .desk import Desk, open_desk, refuser
from .record import _anywhere, _changes
from .record_hook import __file__ as HOOK
from .scenarios import PROMPTS, marked

TARGET = Path(__file__).parents[2] / "examples/session.jsonl"
# What docs/tutorial/ten-minutes.md has its reader make.
FILES = {
    "prices.py": 'PRICES = {\n    "tea": 2,\n    "cake": 3,\n}\n',
    "stock.csv": "tea,40\ncake,12\n",
    ".env": "TILL=kiosk\n",
    ".gitignore": ".env\n",
}


def main() -> None:
    codex = find_codex()
    assert codex is not None, "scripts/e2e installs Codex"
    with tempfile.TemporaryDirectory() as temporary, open_desk(codex, Path(temporary)) as desk:
        begin(desk)
        lines = Path(temporary) / "lines"
        recorder = f"{sys.executable} {HOOK} {lines} {desk.project}"
        codex.write_hooks(desk.home, spec_of("codex")[1].events, [recorder, refuser(desk.scratch)])
        session = None
        for scenario, prompt in PROMPTS.items():
            desk.client.run(desk.home, desk.project, marked(scenario, prompt), resume=session)
            session = json.loads(lines.read_text().splitlines()[-1])["payload"]["session_id"]
        calls = [json.loads(line) for line in lines.read_text().splitlines()]
        made = [
            {"agent": "codex", "version": codex.version, "prompts": list(PROMPTS.values())},
            *steps(calls),
        ]
        text = "".join(_anywhere(desk, json.dumps(line, ensure_ascii=False)) + "\n" for line in made)
        TARGET.write_text(re.sub(r" \[scenario:[a-z-]+\]", "", text), encoding="utf-8")
        print(f"{TARGET.name}: {len(calls)} calls, {TARGET.stat().st_size} bytes")


def begin(desk: Desk) -> None:
    """The project of the tutorial instead of that of the tests."""
    git(desk.project, "rm", "-q", "-r", ".")
    for path, text in FILES.items():
        (desk.project / path).write_text(text)
    git(desk.project, "add", "-A")
    git(desk.project, "commit", "-q", "--amend", "-m", "Open the kiosk")


def steps(calls: list[dict[str, Any]]) -> list[dict[str, Any]]:
    made = []
    tree = calls[0]["tree"]
    for call in calls:
        changes = {path: entry and entry[1] for path, entry in _changes(tree, call["tree"]).items()}
        made.append({**({"changes": changes} if changes else {}), "call": call["payload"]})
        tree = call["tree"]
    return made


if __name__ == "__main__":
    main()
