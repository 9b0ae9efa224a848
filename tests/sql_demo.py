"""The store that the examples of docs/sql.md are about: the same in every run."""

from pathlib import Path

from eventlog import Recorder, Store
from eventlog.importers.git_history import import_git
from tests.cli.support import make_history

_BEGAN_US = 1_772_442_000_000_000  # 2026-03-02 09:00 UTC
OLD, NEW = b"print('hello')\n", b"import sys\nprint('hello', sys.argv[1])\n"


def make_demo(root: Path) -> Path:
    """A recorded repository at `root`, with one session of an agent; its `.locus` directory."""
    make_history(root)
    with Store.init(root / ".locus", project_name="sample") as store:
        import_git(store, str(root))
        recorder = Recorder(store, agent="probe", agent_session_id="demo")

        def at(seconds: float) -> None:
            recorder.columns["occurred_at"] = _BEGAN_US + int(seconds * 1_000_000)

        at(0)
        first = recorder.start_turn("Add a greeting")
        at(4)
        first.llm("model-a", prompt_tokens=1200, completion_tokens=80, cache_read_tokens=900, message_id="m1")
        at(4.5)
        first.action("Write", {"path": "hello.py"}, duration_ms=12, success=True, event_id="a" * 32)
        first.file(
            "hello.py", before=None, after=b"print('hello')\n", lines_added=1, lines_removed=0, cause="a" * 32
        )
        at(6)
        first.action("Bash", {"command": "python hello.py"}, duration_ms=340, success=False)
        first.error("SyntaxError", "invalid syntax", resolved=True, tool="Bash")
        at(8)
        first.end(title="A greeting", outcome="done")
        at(60)
        second = recorder.start_turn("Greet by name")
        at(67)
        second.llm(
            "model-b", prompt_tokens=3000, completion_tokens=200, cache_read_tokens=1500, message_id="m2"
        )
        second.llm(
            "model-b", prompt_tokens=3000, completion_tokens=240, cache_read_tokens=1500, message_id="m2"
        )
        at(68)
        second.action("Bash", {"command": "python hello.py"}, duration_ms=20, success=True)
        second.decision("Read the name from the arguments", "no questions while it runs")
        at(69)
        second.action("Edit", {"path": "hello.py"}, duration_ms=9, success=True, event_id="b" * 32)
        second.file("hello.py", before=OLD, after=NEW, lines_added=2, lines_removed=1, cause="b" * 32)
        at(75)
        second.end(title="Greet whoever is named", outcome="done")
    return root / ".locus"
