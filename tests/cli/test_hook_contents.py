"""Large files beside real hook processes: no hook waits for them, and no loss goes unsaid (P1, P4)."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from eventlog.agents import interpret
from eventlog.base.fs import REAL
from eventlog.base.layout import Layout
from eventlog.base.names import event_id_of
from eventlog.blobs.deferred import decode_list
from eventlog.checkout.materialize import walk
from eventlog.hooks import deferred_lists, record
from eventlog.hooks.deferred_lists import Job, Started
from eventlog.store import Store
from eventlog.worktree.contents import CONTENT_SIZE_MAX
from tests.cli.hook_support import Agent, events, here, notes, unique

LARGE = CONTENT_SIZE_MAX + 1


def layout_of(work: Path) -> Layout:
    return Layout(str(work / ".locus"))


def open_lists(work: Path) -> dict[bytes, Any]:
    found: dict[bytes, Any] = {}
    for worktree in deferred_lists.worktrees_with_open_lists(REAL, layout_of(work)):
        found |= deferred_lists.open_lists(layout_of(work), worktree)
    return found


def until_stored(work: Path) -> None:
    """Wait for the process that the hooks started."""
    until = time.monotonic() + 60
    while open_lists(work):
        assert time.monotonic() < until, notes(work)
        time.sleep(0.02)
    while deferred_lists.is_being_done(REAL, layout_of(work)):
        time.sleep(0.01)


def exact(work: Path, tree_text: str) -> dict[bytes, tuple[bytes, bytes]]:
    """The files of a tree, deferred contents by what the log says became of them."""
    with Store.open(work / ".locus") as store:
        became: dict[tuple[str, bytes], tuple[bytes, bytes]] = {}
        for event in store.events(event_types=("content",)):
            for path, entry in walk(store.blobs, bytes.fromhex(str(event["tree_hash"])[7:])):
                if entry.kind != b"d":
                    became[str(event["before_hash"]), path] = entry.kind, store.blobs.get(entry.id)
        found = {}
        for path, entry in walk(store.blobs, bytes.fromhex(tree_text[7:])):
            data = b"" if entry.kind == b"d" else store.blobs.get(entry.id)
            found[path] = entry.kind, data
            if entry.kind == b"s" and data.startswith(b"its content was deferred: "):
                found[path] = became[data.decode().rpartition(" ")[2], path]
        return found


def action_of(tool_use_id: str) -> str:
    return event_id_of("claude-code", "action", tool_use_id)


def test_an_edit_beside_large_files_is_recorded_in_its_turn_with_its_cause(work: Path) -> None:
    """P1: six large new files; the edit and each file are reported at once, and all captures are exact when
    the process that the hooks started has ended."""
    agent = Agent(work)
    agent.start()
    agent.prompt("Make the data")
    for n in range(6):
        with open(work / f"big{n}.bin", "wb") as file:
            file.truncate(8 << 20)
            file.write(b"%d" % n)
    shell = agent.bash("printf '%s' small > small.txt; rm readme.md")
    edited = agent.edit("src/app.py", "one", "two")
    agent.stop()
    at_end = here(work)

    listed = [(e["operation"], e["path"], e["cause"], e["turn"]) for e in events(work, "file")]
    assert ("edit", "src/app.py", action_of(edited), 1) in listed
    assert ("add", "small.txt", action_of(shell), 1) in listed
    assert ("delete", "readme.md", action_of(shell), 1) in listed
    assert [t for t in listed if "big" in t[1]] == [
        ("add", f"big{n}.bin", None, 1)
        for n in range(6)  # they were there before the command
    ]
    snapshots = events(work, "snapshot")
    assert all(snapshot["success"] for snapshot in snapshots)
    (large,) = [e for e in events(work, "file") if e["path"] == "big3.bin"]
    after = next(e for e in snapshots if e["cause"] == action_of(shell))
    facts = after["payload"]["capture"]
    assert (large["after_hash"], facts["deferred"], facts["in_git"]) == (None, 6, 0)
    assert facts["lists"] == [large["payload"]["deferred"]]
    assert after["blobs"] == [after["tree_hash"], *facts["lists"]]
    assert facts["deferred_paths"] == [f"big{n}.bin" for n in range(6)]

    until_stored(work)
    assert exact(work, snapshots[-1]["tree_hash"]) == at_end
    agent.prompt("And now?")
    agent.stop()
    assert "capture" not in events(work, "snapshot")[-1]["payload"], "later trees hold what was stored"
    assert len(events(work, "file")) == len(listed), (
        "no change is recorded for a content that was only stored"
    )
    assert notes(work) == ""
    with Store.open(work / ".locus") as store:
        assert store.verify("deep") == []


def test_a_file_that_is_overwritten_at_once_is_kept_by_its_copy(work: Path) -> None:
    """The hook waits for the word that its copy is made, and the agent goes on only then."""
    agent = Agent(work)
    agent.start()
    agent.prompt("Make it")
    (work / "big.bin").write_bytes(b"first" * LARGE)
    agent.bash("true")
    (work / "big.bin").write_bytes(b"other" * LARGE)
    tree = events(work, "snapshot")[-1]["tree_hash"]
    until_stored(work)

    assert exact(work, tree)[b"big.bin"] == (b"f", b"first" * LARGE)
    agent.stop()
    until_stored(work)
    assert exact(work, events(work, "snapshot")[-1]["tree_hash"]) == here(work)


class Recorded:
    """One hook call in this process, with a process to start that the test plays."""

    def __init__(self, work: Path, hook_input: dict[str, Any], **environ: str) -> None:
        self.jobs: list[Job] = []
        self.events_at_start = -1
        self.waits: list[float] = []
        self.closed = False
        self.work = work
        self.errors: list[BaseException] = []
        call = interpret("claude-code", hook_input)
        variables = {"LOCUS_HOOK_PATIENCE": "50", **environ}
        record.record(
            REAL, str(work / ".locus"), call, variables, self.errors.append,
            started_s=time.monotonic(), start=self._start,
        )  # fmt: skip

    def _start(self, job: Job) -> Started:
        self.jobs.append(job)
        self.events_at_start = len(events(self.work))
        outer = self

        class Played(Started):
            def __init__(self) -> None:
                pass

            def wait(self, timeout_s: float) -> bool:
                outer.waits.append(timeout_s)
                outer.events_at_wait = len(events(outer.work))
                return False

            def close(self) -> None:
                outer.closed = True

        return Played()


def hook_input(work: Path, name: str, **fields: Any) -> dict[str, Any]:
    shared = {"session_id": "s1", "prompt_id": "p1", "cwd": str(work), "hook_event_name": name}
    return {**shared, **fields}


def begun(work: Path) -> None:
    Recorded(work, hook_input(work, "UserPromptSubmit", prompt="Go"))


def after_a_tool(work: Path, **environ: str) -> Recorded:
    fields = {"tool_name": "Bash", "tool_input": {"command": "x"}, "tool_response": {}}
    return Recorded(work, hook_input(work, "PostToolUse", tool_use_id=unique("toolu"), **fields), **environ)


def test_the_process_starts_before_the_append_and_is_waited_for_after_it(work: Path) -> None:
    """Copies are made while the event is written, and only the rest of the time is waited for them; what was
    waiting is let go in any case."""
    begun(work)
    (work / "big").write_bytes(b"x" * LARGE)
    call = after_a_tool(work)

    (job,) = call.jobs
    assert ([row.path for row in job.files], job.root) == ([b"big"], str(work))
    assert call.events_at_wait > call.events_at_start
    assert call.closed
    assert call.waits[0] <= record.BUDGET_S["tool"] * 50
    (listed,) = open_lists(work)
    with Store.open(work / ".locus") as store:
        assert [row.path for row in decode_list(store.blobs.get(listed))] == [b"big"]


def test_small_files_start_no_process(work: Path) -> None:
    """P4: what fits into the call is read at once."""
    begun(work)
    (work / "small").write_bytes(b"x" * CONTENT_SIZE_MAX)
    assert after_a_tool(work).jobs == []
    assert not os.path.exists(layout_of(work).lock(deferred_lists.WORKING))


def test_an_open_list_without_a_process_gets_one_and_with_one_gets_none(work: Path) -> None:
    """I32: it dies, and the next hook that finds the list open starts another."""
    begun(work)
    (work / "big").write_bytes(b"x" * LARGE)
    after_a_tool(work)
    again = after_a_tool(work)
    assert [job.files for job in again.jobs] == [[]], "there is nothing new to copy"

    fd = REAL.open(layout_of(work).lock(deferred_lists.WORKING), os.O_RDWR | os.O_CREAT)
    try:
        assert REAL.flock(fd, True)
        assert after_a_tool(work).jobs == []
        (work / "more").write_bytes(b"x" * LARGE)
        assert [row.path for row in after_a_tool(work).jobs[0].files] == [b"more"]
    finally:
        REAL.close(fd)


def test_a_process_that_cannot_be_started_costs_no_event(work: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """P4: the event is reported, and the list stays open."""
    begun(work)
    (work / "big").write_bytes(b"x" * LARGE)

    def refused(_self: Recorded, _job: Job) -> Started:
        raise OSError(11, "no more processes")

    monkeypatch.setattr(Recorded, "_start", refused)
    call = after_a_tool(work)
    assert [str(error) for error in call.errors] == ["[Errno 11] no more processes"]
    assert [e["path"] for e in events(work, "file")] == ["big"]
    assert len(open_lists(work)) == 1


def test_a_lost_note_of_an_open_list_is_written_again(work: Path) -> None:
    """I22: what is in `live/` may be deleted; the next capture whose tree names the list opens it again."""
    begun(work)
    (work / "big").write_bytes(b"x" * LARGE)
    after_a_tool(work)
    listed = open_lists(work)
    for path in (work / ".locus/live").glob("*.deferred"):
        path.unlink()
    assert len(after_a_tool(work).jobs) == 1
    assert open_lists(work).keys() == listed.keys()


_CONTENTS = "import sys; from locus_cli.contents import main; main(sys.argv[1:])"

# What the process does to its own death: at the nth call of a kind.
_KILLED = """
import os, signal, sys
from eventlog.base.fs import FileSystem
name, left = sys.argv[1], int(sys.argv[2])
real = getattr(FileSystem, name)
def call(self, *args, **options):
    global left
    left -= 1
    if left < 0:
        os.kill(os.getpid(), signal.SIGKILL)
    return real(self, *args, **options)
setattr(FileSystem, name, call)
from locus_cli.contents import main
main(sys.argv[3:])
"""


@pytest.mark.parametrize(
    ("call", "nth"),
    [
        ("pwrite", 1),
        ("fdatasync", 0),
        ("link", 0),
        ("fsync_dir", 0),
        ("pwrite", 4),
        ("rename", 0),
    ],
)
def test_a_killed_process_leaves_the_list_to_the_next(work: Path, call: str, nth: int) -> None:
    """SIGKILL in the middle of its pack, before its name, its event and the stat cache: afterwards all is
    stored once, and nothing has a name that was not scanned (P5, I32)."""
    begun(work)
    (work / "big").write_bytes(os.urandom(LARGE))
    after_a_tool(work)
    at_end = here(work)
    store = str(work / ".locus")
    done = subprocess.run([sys.executable, "-c", _KILLED, call, str(nth), store], capture_output=True)
    assert done.returncode == -signal.SIGKILL, done.stderr
    assert len(open_lists(work)) == 1

    subprocess.run([sys.executable, "-c", _CONTENTS, store], check=True)
    assert open_lists(work) == {}
    tree = events(work, "snapshot")[-1]["tree_hash"]
    assert exact(work, tree) == at_end
    assert len({e["event_id"] for e in events(work, "content")}) == 1
    after_a_tool(work)
    assert [e["path"] for e in events(work, "file")] == ["big"]
    with Store.open(work / ".locus") as opened:
        assert opened.verify("deep") == []


def test_only_one_process_works_and_one_waits(work: Path) -> None:
    """The third process leaves its list to the one that waits; that one stores it too."""
    lock = layout_of(work)
    working = REAL.open(lock.lock(deferred_lists.WORKING), os.O_RDWR | os.O_CREAT)
    assert REAL.flock(working, True)
    agent = Agent(work)
    agent.start()
    agent.prompt("Go")
    for n in range(3):
        (work / f"big{n}").write_bytes(b"%d" % n * LARGE)
        agent.bash("true")
    waiting = REAL.open(lock.lock(deferred_lists.WAITING), os.O_RDWR | os.O_CREAT)
    assert not REAL.flock(waiting, True)
    assert len(open_lists(work)) == 3
    REAL.close(working)
    until_stored(work)
    REAL.close(waiting)
    assert exact(work, events(work, "snapshot")[-1]["tree_hash"]) == here(work)


def test_maintenance_stores_what_is_open(work: Path) -> None:
    """Also where no hook comes any more."""
    begun(work)
    (work / "big").write_bytes(b"x" * LARGE)
    after_a_tool(work)
    code = "import sys; from locus_cli.maintainer import main; main(sys.argv[1])"
    environ = {**os.environ, "LOCUS_NO_MAINTENANCE": "1"}
    subprocess.run([sys.executable, "-c", code, str(work / ".locus")], check=True, env=environ)
    assert open_lists(work) == {}
    assert [e["payload"]["count"] for e in events(work, "content")] == [1]


def test_the_process_has_nothing_of_the_agent(work: Path) -> None:
    """P4: a session of its own, no variable, descriptor or directory of the agent's, and low priority."""
    lock = layout_of(work)
    working = REAL.open(lock.lock(deferred_lists.WORKING), os.O_RDWR | os.O_CREAT)
    assert REAL.flock(working, True)
    agent = Agent(work, environ={"SECRET_OF_AGENT": "1"})
    agent.start()
    agent.prompt("Go")
    (work / "big").write_bytes(b"x" * LARGE)
    agent.bash("true")
    needle = str(work / ".locus").encode()
    (process,) = _processes_of(needle)
    _until_nice(process)
    variables = Path(f"/proc/{process}/environ").read_bytes()
    assert b"SECRET_OF_AGENT" not in variables
    assert b"CLAUDE" not in variables
    assert os.readlink(f"/proc/{process}/cwd") == "/"
    assert os.getsid(process) != os.getsid(0)
    targets = {os.readlink(f"/proc/{process}/fd/{fd}") for fd in os.listdir(f"/proc/{process}/fd")}
    files = {t for t in targets if t.startswith("/") and t != "/dev/null" and "(deleted)" not in t}
    assert files <= {lock.lock(deferred_lists.WORKING), lock.lock(deferred_lists.WAITING)}
    REAL.close(working)
    until_stored(work)


def _processes_of(needle: bytes) -> list[int]:
    found = []
    for name in os.listdir("/proc"):
        try:
            words = Path(f"/proc/{name}/cmdline").read_bytes().split(b"\0") if name.isdigit() else []
        except OSError:
            continue
        if needle in words and any(b"locus_cli.contents" in word for word in words):
            found.append(int(name))
    return found


def _until_nice(process: int) -> None:
    until = time.monotonic() + 30
    while os.getpriority(os.PRIO_PROCESS, process) == os.getpriority(os.PRIO_PROCESS, 0):
        assert time.monotonic() < until
        time.sleep(0.01)
    while sum(1 for _ in os.listdir(f"/proc/{process}/fd")) < 7 and time.monotonic() < until:
        time.sleep(0.01)
