"""The store that the examples of docs/sql.md are about: the same in every run, but for times."""

from pathlib import Path

from eventlog import Recorder, Store
from eventlog.agents.git_history import import_git
from tests.cli.support import make_history

OLD, NEW = b"print('hello')\n", b"import sys\nprint('hello', sys.argv[1])\n"


def make_demo(root: Path) -> Path:
    """A recorded repository at `root`, with one session of an agent; its `.locus` directory."""
    make_history(root)
    with Store.init(root / ".locus", project_name="sample") as store:
        import_git(store, str(root))
        recorder = Recorder(store, agent="probe", agent_session_id="demo")
        first = recorder.start_turn("Add a greeting")
        first.llm("model-a", prompt_tokens=1200, completion_tokens=80, cache_read_tokens=900, message_id="m1")
        first.action("Write", {"path": "hello.py"}, duration_ms=12, success=True, event_id="a" * 32)
        first.file(
            "hello.py", before=None, after=b"print('hello')\n", lines_added=1, lines_removed=0, cause="a" * 32
        )
        first.action("Bash", {"command": "python hello.py"}, duration_ms=340, success=False)
        first.error("SyntaxError", "invalid syntax", resolved=True, tool="Bash")
        first.end(title="A greeting", outcome="done")
        second = recorder.start_turn("Greet by name")
        second.llm(
            "model-b", prompt_tokens=3000, completion_tokens=200, cache_read_tokens=1500, message_id="m2"
        )
        second.llm(
            "model-b", prompt_tokens=3000, completion_tokens=240, cache_read_tokens=1500, message_id="m2"
        )
        second.action("Bash", {"command": "ls"}, duration_ms=20, success=True)
        second.decision("Read the name from the arguments", "no questions while it runs")
        second.action("Edit", {"path": "hello.py"}, duration_ms=9, success=True, event_id="b" * 32)
        second.file("hello.py", before=OLD, after=NEW, lines_added=2, lines_removed=1, cause="b" * 32)
        second.end(title="Greet whoever is named", outcome="done")
    return root / ".locus"
