"""The agent of examples/agent.py: it records itself, and replays."""

import subprocess
import sys
from pathlib import Path

from eventlog import Store

AGENT = Path(__file__).resolve().parents[2] / "examples/agent.py"


def test_the_agent_records_itself_and_replays(tmp_path: Path) -> None:
    """What it prints, and what the store then has: request, answer, tools, both versions of the file."""
    done = subprocess.run(
        [sys.executable, str(AGENT), "Greet me"], cwd=tmp_path, capture_output=True, text=True, check=True
    )

    assert done.stdout.splitlines() == [
        "greet.py greets whom you name.",
        "replayed: 1 file, the same bytes",
        "edit 3 1",
        "add 1 0",
    ]
    with Store.open(tmp_path / ".locus") as store:
        assert store.query("select title, status, outcome, tool_calls from turns").rows == [
            ("Greet me", "completed", "greet.py greets whom you name.", 4)
        ]
        outputs = [event["payload"]["result"] for event in store.events(event_types=["action"])]
        assert [result.get("output") for result in outputs] == [None, "hello\n", None, "hello friend\n"]
        first = store.history("greet.py")[-1]
        assert store.blob(first.after_hash or "") == b'print("hello")\n'


def test_it_is_short() -> None:
    """It is to be read: about sixty lines of code."""
    lines = [line for line in AGENT.read_text(encoding="utf-8").splitlines() if line.strip()]

    assert len(lines) <= 62
