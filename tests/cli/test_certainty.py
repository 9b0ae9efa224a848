"""What was not seen is stated: each verb that hands out files, after the end of a turn that nobody saw
(P1)."""

import fcntl
import json
import os
import resource
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from eventlog import agents
from eventlog.base.fs import REAL
from eventlog.base.names import short
from eventlog.hooks import record
from eventlog.mcp import read
from eventlog.store import Store
from tests.cli.hook_support import HOOK, Agent, events, project
from tests.cli.support import Locus


@pytest.fixture
def work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    work = project(tmp_path)
    monkeypatch.chdir(work)
    return work


def data(locus: Locus, *arguments: object) -> Any:
    return json.loads(locus(*arguments, "--json").out)


def says_so(locus: Locus, state: str, path: str, tmp_path: Path) -> str:
    """All that hand out files end with 4, say the state, and restore touches nothing; why it is so."""
    replayed = locus("replay", "last", "--to", tmp_path / f"as-{state}", "--json")
    known = json.loads(replayed.out)["certainty"]
    assert (replayed.code, known["state"]) == (4, state)
    assert [one["path"] for one in known["paths"]] == ["."]
    output = locus("replay", "last", "--to", tmp_path / f"told-{state}")
    assert output.out.decode() == f"{state}: {known['why']}\n"
    shown = locus("cat", f"last:{path}")
    assert shown.code == 4 and shown.out and known["why"] in shown.err
    compared = locus("diff", "last")
    assert compared.code == 4 and f"not compared: .: {known['why']}" in compared.err
    restored = locus("restore", "last", "--yes")
    assert (restored.code, b"nothing is touched" in restored.out) == (4, True)
    plan = data(locus, "restore", "last", "--dry-run")["restore"]
    assert (plan["steps"], plan["certainty"]["state"]) == ([], state)
    return str(known["why"])


def test_a_failed_capture_at_the_end_is_stated(work: Path, tmp_path: Path, locus: Locus) -> None:
    """P1: where another capture holds the directory, the end of the turn has no tree; what an earlier capture
    found is not passed for it, and a file that was deleted since is not brought back."""
    agent = Agent(work, environ={"LOCUS_HOOK_PATIENCE": "1"})
    agent.prompt("Go")
    agent.bash("echo 1 > gone.txt")
    lock = work / f".locus/locks/worktree-{short(os.fsencode(os.path.realpath(work)))}.lock"
    with open(lock, "rb") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        (work / "gone.txt").unlink()
        agent.stop()

    assert "another capture was at work" in says_so(locus, "failed", "gone.txt", tmp_path)
    assert not (work / "gone.txt").exists()
    look = events(work, "snapshot")[1]["event_id"]
    exact = locus("replay", "last", "--at", look, "--to", tmp_path / "exact")
    assert (exact.code, (tmp_path / "exact/gone.txt").read_text()) == (0, "1\n")


def test_a_killed_agent_is_reported(work: Path, tmp_path: Path, locus: Locus) -> None:
    """P1: while the agent lives its turn is running; killed in a tool, the turn is unfinished, and reading
    writes nothing."""
    agent = subprocess.Popen([sys.executable, "-c", "import sys; sys.stdin.read()"], stdin=subprocess.PIPE)
    hooked = Agent(work, environ={"CLAUDE_PID": str(agent.pid)})
    hooked.prompt("Go")
    hooked.write("half.txt", "1\n")
    hooked.begin("Bash", {"command": "make"})
    (work / "half.txt").write_text("2\n")
    assert "still running" in says_so(locus, "running", "half.txt", tmp_path)
    agent.send_signal(signal.SIGKILL)
    agent.communicate()  # the process is gone for good

    before = [event["event_id"] for event in events(work)]
    assert "no end of the turn was seen" in says_so(locus, "unfinished", "half.txt", tmp_path)
    assert [event["event_id"] for event in events(work)] == before
    assert (work / "half.txt").read_text() == "2\n"


def test_a_full_disk_is_reported(work: Path, tmp_path: Path, locus: Locus) -> None:
    """P1: where contents cannot be stored the action is there without its files, and --at that action says
    so; the end, seen in whole again, is exact."""
    agent = Agent(work)
    agent.prompt("Go")
    tool = agent.begin("Bash", {"command": "make"})
    (work / "src/app.py").write_bytes(os.urandom(300_000))
    reported = agent.payload(
        "PostToolUse", tool_name="Bash", tool_input={"command": "make"}, tool_use_id=tool, tool_response={}
    )
    full = lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, resource.RLIM_INFINITY))  # noqa: E731
    done = subprocess.run(
        [*HOOK, "claude-code"], input=json.dumps(reported).encode(), cwd=work, capture_output=True,
        env={**os.environ, "LOCUS_NO_MAINTENANCE": "1"}, preexec_fn=full, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")
    (action,) = events(work, "action")
    assert action["payload"]["capture"]["state"] == "failed"
    ended = locus("cat", "last:src/app.py", "--at", action["event_id"])
    assert (ended.code, ended.out) == (4, b"print('one')\n")
    agent.stop()

    assert locus("replay", "last", "--to", tmp_path / "end").code == 0
    assert (tmp_path / "end/src/app.py").read_bytes() == (work / "src/app.py").read_bytes()


def test_a_capture_that_was_not_finished_names_what_it_did_not_see(
    work: Path, tmp_path: Path, locus: Locus, monkeypatch: pytest.MonkeyPatch
) -> None:
    """P1: what a capture did not take in is not exact, and a restore leaves it alone; the start still is."""
    agent = Agent(work)
    agent.prompt("Go")
    agent.write("a.txt", "1\n")
    (work / "src/app.py").write_text("changed\n")

    call = agents.interpret("claude-code", agent.payload("Stop", last_assistant_message="Done."))
    with monkeypatch.context() as patched:
        patched.setitem(record.BUDGET_S, "turn_end", 0.0)
        record.record(REAL, str(work / ".locus"), call, {}, print, started_s=time.monotonic())
    last = events(work, "snapshot")[-1]
    assert last["success"] is False and last["payload"]["capture"]["state"] == "partial"

    known = data(locus, "replay", "last", "--to", tmp_path / "out")["certainty"]
    assert known["state"] == "partial" and known["paths"]
    assert locus("restore", "last", "--yes").code == 4
    assert (work / "src/app.py").read_text() == "changed\n"
    with Store.open(work / ".locus") as store:
        assert store.certainty("last").state == "partial"
        assert store.certainty("last", "start").exact


def test_lists_say_it_and_end_with_0(work: Path, locus: Locus) -> None:
    """P1, P7: a turn whose process is gone is shown as interrupted and not closed yet; lists, SQL, MCP and
    exports carry its state, a history names the turn, and nothing is written."""
    process = subprocess.Popen([sys.executable, "-c", "import sys; sys.stdin.read()"], stdin=subprocess.PIPE)
    agent = Agent(work, environ={"CLAUDE_PID": str(process.pid)})
    agent.prompt("Go")
    agent.bash("echo 1 > half.txt")
    process.communicate()
    before = len(events(work))

    listed = locus("log")
    assert listed.code == 0 and b"interrupted, not closed yet" in listed.out and b" END " in listed.out
    for verb in ("timeline", "show"):
        shown = locus(verb, "last")
        assert shown.code == 0 and b"interrupted, not closed yet" in shown.out
        assert data(locus, verb, "last")["certainty"]["end"]["state"] == "unfinished"
        assert data(locus, verb, "last")["certainty"]["start"]["state"] == "exact"
    written = events(work, "file")[0]["event_id"]
    assert data(locus, "show", written)["certainty"]["state"] == "exact"
    asked = locus(
        "sql",
        "select start_certainty, end_certainty, file_at('half.txt', 'last') as content, "
        "(select doubt from tree_at('last') limit 1) as doubt from turns",
        "--json",
    )
    (row,) = json.loads(asked.out)
    assert (row["start_certainty"], row["end_certainty"], row["content"]) == ("exact", "unfinished", None)
    assert "no end of the turn was seen" in row["doubt"]
    past = locus("history", "half.txt")
    assert past.code == 4 and "not known at the end of" in past.err
    assert locus("export", "agent-trace", "--to", work.parent / "lines.jsonl").code == 0
    exported = json.loads((work.parent / "lines.jsonl").read_text())
    assert exported["metadata"]["locus"]["certainty"] == "unfinished"
    assert locus("export", "atif", "--to", work.parent / "atif").code == 0
    document = json.loads((work.parent / "atif").read_text())
    assert document["extra"]["locus"]["files_certainty"] == {"1": "unfinished"}
    assert len(events(work)) == before
    with Store.open(work / ".locus") as store:
        assert "not known to be exact" in read.file_at(store, "last", "half.txt")
        assert "unfinished" in "".join(read.timeline(store, "last"))
        assert "not compared: .:" in "".join(read.diff(store, "last"))
