"""Hooks on a disk that takes twenty seconds for a sync: the agent waits for none of them (P4)."""

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from eventlog.base.fs import REAL
from eventlog.base.layout import Layout
from eventlog.log.acknowledged import read_note
from eventlog.store import Store
from tests.cli.hook_support import Agent, events, here, notes, project, replayed
from tests.conftest import files_of

# The hook program on a clock that only sleeps and syncs move. Each sync waits for a file, and who makes one
# says so, as does a process that ends. No capture precedes a command.
_PROGRAM = """
import os, sys, time
from eventlog.base.fs import FileSystem
said, file = sys.argv.pop(1), sys.argv.pop(1)
hook, clock, real_sleep, real_exit = os.getpid(), [0.0], time.sleep, os._exit
def say(text):
    with open(said, "a") as out:
        out.write(f"{'hook' if os.getpid() == hook else 'child'} {text}\\n")
def sleep(self, seconds):
    clock[0] += seconds
def exit(code):
    say(f"ends at {clock[0]:.2f}")
    real_exit(code)
def slow(name):
    real = getattr(FileSystem, name)
    def sync(self, where):
        say(name)
        for _ in range(12_000):
            if os.path.exists(file):
                break
            real_sleep(0.005)
        clock[0] += 20
        return real(self, where)
    setattr(FileSystem, name, sync)
time.monotonic = FileSystem.monotonic = lambda *_: clock[0]
FileSystem.sleep = sleep
os._exit = exit
for name in ("fsync", "fdatasync", "fsync_dir"):
    slow(name)
from eventlog.hooks import record as live
live.EARLY_CAPTURE_FILES_MAX = 0
from locus_cli.hook_entry import main
main()
"""


class SlowDisk:
    """A project whose hooks sync to a disk that goes on when the test says so."""

    def __init__(self, place: Path) -> None:
        self.work = project(place)
        self.agent = Agent(self.work)
        self._said = place / "said"
        self._file = place / "go on"

    def hook(self, name: str, **fields: object) -> list[str]:
        """One hook call; what was noted until its process had ended."""
        self._said.write_text("")
        command = [sys.executable, "-c", _PROGRAM, str(self._said), str(self._file), "claude-code"]
        environ = {**os.environ, "LOCUS_NO_MAINTENANCE": "1"}
        data = json.dumps(self.agent.payload(name, **fields)).encode()
        done = subprocess.run(
            command, input=data, cwd=self.work, env=environ, capture_output=True, timeout=60
        )
        assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")
        return self.said()

    def said(self) -> list[str]:
        return self._said.read_text().splitlines()

    def go_on(self, children: int = 1) -> list[str]:
        """Let the disk do its work; what was noted until so many children had ended."""
        self._file.touch()
        until = time.monotonic() + 60
        while sum(line.startswith("child ends") for line in self.said()) < children:
            assert time.monotonic() < until, self.said()
            time.sleep(0.005)
        return self.said()

    def acknowledged(self) -> tuple[int | None, int]:
        """What the note says, and the log's next position."""
        with Store.open(self.work / ".locus") as store:
            end = store.journal.next_position()
        return read_note(files_of(REAL, Layout(str(self.work / ".locus"))), 1), end


@pytest.fixture
def disk(tmp_path: Path) -> SlowDisk:
    found = SlowDisk(tmp_path)
    found.agent.prompt("Go")
    return found


def test_an_event_without_contents_is_in_the_log_before_its_sync(disk: SlowDisk) -> None:
    """P4, I1: a hook ends within its time while the disk is busy, with its event in the file, so that a kill
    cannot lose it; its child makes the sync, and acknowledges the event only then."""
    call = {"tool_name": "Read", "tool_use_id": "toolu_slow", "tool_input": {"file_path": "a"}}
    said = disk.hook("PreToolUse", **call)

    assert [line for line in said if line.startswith("hook")] == ["hook ends at 0.35"]
    assert [line for line in said if line.startswith("child")] in ([], ["child fdatasync"])
    assert events(disk.work)[-1]["tool_use_id"] == "toolu_slow"
    before, end = disk.acknowledged()
    assert before == end - 1

    said = disk.go_on()
    assert [line for line in said if line.startswith("child")] == ["child fdatasync", "child ends at 20.00"]
    assert disk.acknowledged() == (end, end)
    assert notes(disk.work) == ""


def test_a_tool_is_known_to_have_begun_before_its_event_is_durable(disk: SlowDisk) -> None:
    """P7: a command begins while the disk is busy with its event. Whose change it is that another one finds,
    which ends meanwhile, is not guessed."""
    other = disk.agent.begin("Bash", {"command": "other"})
    disk.hook("PreToolUse", tool_name="Bash", tool_use_id="toolu_slow", tool_input={"command": "slow"})
    (disk.work / "made.txt").write_text("one")
    disk.agent.end(other, "Bash", {"command": "other"}, {})

    (change,) = events(disk.work, "file")
    assert (change["cause"], len(change["payload"]["causes"])) == (None, 2)
    disk.go_on()


def test_a_change_is_recorded_once_its_contents_are_durable(disk: SlowDisk, tmp_path: Path) -> None:
    """P4, I24: what a tool changed is captured while the agent waits, and recorded by the child once its
    pack is durable, as it was at that capture; a capture in between is left to the next."""
    (disk.work / "made.txt").write_text("one")
    done = {"tool_name": "Bash", "tool_input": {"command": "make"}, "tool_response": {}}
    known = len(events(disk.work))
    said = disk.hook("PostToolUse", tool_use_id="toolu_slow", **done)
    assert [line for line in said if line.startswith("hook")] == ["hook ends at 0.35"]
    assert len(events(disk.work)) == known  # no event refers to a content that a power cut may take

    said = disk.hook("PostToolUse", tool_use_id="toolu_next", **done)
    assert [line for line in said if line.startswith("hook")] == ["hook ends at 0.35"]
    assert events(disk.work)[-1]["payload"]["capture"] == {"state": "busy"}
    (disk.work / "made.txt").write_text("two")
    said = disk.go_on(2)
    assert not [line for line in said if "sync" in line and line.startswith("hook")]

    disk.agent.stop()
    slow = next(e for e in events(disk.work, "action") if e["tool_use_id"] == "toolu_slow")
    first, _second = events(disk.work, "file")
    assert (first["path"], first["cause"]) == ("made.txt", slow["event_id"])
    with Store.open(disk.work / ".locus") as store:
        assert store.blobs.get(bytes.fromhex(first["after_hash"][7:])) == b"one"
        assert store.verify("deep") == []
    assert replayed(disk.work, events(disk.work, "turn")[-1], tmp_path / "out") == here(disk.work)
