"""Which turns are under way, and whose processes live."""

import os
import subprocess
import sys
from pathlib import Path

from eventlog.base import activity
from eventlog.base.activity import DEAD, RUNNING, UNKNOWN, OpenTurn, Process
from eventlog.base.layout import Layout
from eventlog.hooks import state
from eventlog.hooks.state import CaptureCheckpoint

HOUR_S = 3600


def test_a_process_is_itself_for_as_long_as_it_lives() -> None:
    """P7: number, start and namespace go into a text and back; a zombie, a later process with the number and
    one that was never there are not it."""
    mine = activity.process_of(os.getpid())
    found = activity.parse_process(mine.text())
    assert found is not None
    assert (found.number, found.started, found.namespace) == (mine.number, mine.started, mine.namespace)
    assert found.lives() and found.is_near()
    assert mine.started is not None
    assert not Process(mine.number, mine.started + 1, mine.namespace).lives()
    with subprocess.Popen([sys.executable, "-c", ""]) as child:
        given = activity.process_of(child.pid)
        os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
        assert not given.lives()
    assert not activity.lives(1 << 22)
    assert not mine.text().isdigit()  # which earlier versions take for an unknown process
    texts = ("", "-", "x:1", "7", "7:", "7:x")
    assert [one and one.started for one in map(activity.parse_process, texts)] == [None] * len(texts)


def test_the_state_of_a_turn() -> None:
    """P7: with a process that can be asked after it is what that is; else time tells."""
    mine = activity.process_of(os.getpid())
    states = {
        name: [OpenTurn("codex", "s", "t", process, 0).state(now_s) for now_s in (HOUR_S, HOUR_S + 1)]
        for name, process in {
            "alive": mine,
            "gone": Process(mine.number, 1, mine.namespace),
            "number alone": Process(mine.number),
            "elsewhere": Process(mine.number, mine.started, "1"),
            "none": None,
        }.items()
    }
    assert states == {
        "alive": [RUNNING, RUNNING], "gone": [DEAD, DEAD], "number alone": [RUNNING, RUNNING],
        "elsewhere": [UNKNOWN, DEAD], "none": [UNKNOWN, DEAD],
    }  # fmt: skip


def test_open_turns_are_read_from_every_directory(layout: Layout) -> None:
    """I22: what is not of that shape is none."""
    text = activity.process_of(os.getpid()).text()
    state.write_checkpoint(layout, "0" * 16, CaptureCheckpoint(None, "n", {"one": ["codex", "t", text, "5"]}))
    state.write_checkpoint(
        layout, "1" * 16, CaptureCheckpoint(None, "n", {"two": ["codex", "t", "1:1", "6"]})
    )
    live = Path(layout.directory("live"))
    (live / "2.told").write_text('{"open": {"s": ["codex", "t"]}}')
    (live / "3.told").write_bytes(b"\xff")
    (live / "4.told").symlink_to("/etc/passwd")
    assert [(one.session, one.began_s) for one in activity.open_turns(layout)] == [("one", 5), ("two", 6)]
    assert [one.session for one in activity.dead_turns(layout, 7)] == ["two"]


def test_the_agent_is_the_nearest_ancestor_that_is_no_shell(tmp_path: Path) -> None:
    """P7: shells, Python and what people put around commands are passed over; the variable of Claude Code
    counts for it and for our plugin of OpenCode alone."""
    program, hook, ask = tmp_path / "codex", tmp_path / "hook.sh", tmp_path / "ask.py"
    program.symlink_to("/bin/bash")
    hook.write_text(f"echo $$\nsh -c 'env {sys.executable} {ask}; true'\ntrue\n")
    ask.write_text(
        "import os\nfrom eventlog.hooks.state import process_of\n"
        "print(process_of('codex', os.environ), process_of('claude-code', os.environ))\n"
    )
    root = str(Path(__file__).parent.parent.parent)
    environ = {**os.environ, "CLAUDE_PID": str(os.getpid()), "PYTHONPATH": root}
    done = subprocess.run([program, hook], env=environ, capture_output=True, text=True, check=True)
    number, codex, claude = done.stdout.split()
    assert (codex.partition(":")[0], claude) == (number, activity.process_of(os.getpid()).text())
