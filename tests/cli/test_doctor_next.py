"""Each finding of `locus doctor` names a command that exists, and that sees or ends the same thing."""

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import click
import pytest

from eventlog.setup import install, launch, launch_modules
from eventlog.store import Store
from locus_cli.root import cli
from tests.cli.hook_support import Agent
from tests.cli.support import Locus, begin_restore
from tests.cli.test_doctor import SETTINGS, append, asked, project

__all__ = ["project"]
ROOT = Path(__file__).resolve().parent.parent.parent
SOURCES = (
    "eventlog/doctor/agents.py", "eventlog/doctor/store.py", "eventlog/doctor/turns.py",
    "eventlog/setup/git_exclude.py", "eventlog/mcp/health.py", "eventlog/doctor/gaps.py",
)  # fmt: skip
GONE = ""  # the command ends the finding

Provoke = Callable[[Path, pytest.MonkeyPatch, Locus], None]


def lost_event(project: Path, _: pytest.MonkeyPatch, __: Locus) -> None:
    answer = json.loads((project / SETTINGS).read_text())
    del answer["hooks"]["Stop"]
    (project / SETTINGS).write_text(json.dumps(answer))


def lost_file(project: Path, _: pytest.MonkeyPatch, __: Locus) -> None:
    (project / SETTINGS).unlink()


def lost_python(project: Path, _: pytest.MonkeyPatch, __: Locus) -> None:
    path = project / SETTINGS
    path.write_text(path.read_text().replace(sys.executable, "/usr/gone/python"))


def broken_stub(project: Path, monkeypatch: pytest.MonkeyPatch, locus: Locus) -> None:
    monkeypatch.setattr(sys, "prefix", sys.base_prefix)
    monkeypatch.setenv("XDG_DATA_HOME", str(project.parent / "data"))
    assert locus("hooks", "install", "--agent", "claude-code").code == 0
    (stub,) = (project.parent / "data").rglob(launch.STUB)
    stub.write_text(stub.read_text().replace("sys.path +=", "_ ="))
    (stub.parent / launch_modules.MODULES).unlink()


def foreign_line(project: Path, _: pytest.MonkeyPatch, __: Locus) -> None:
    path = project / SETTINGS
    path.write_text(path.read_text().replace("[ -x ", "true; [ -x "))


def other_plugin(project: Path, monkeypatch: pytest.MonkeyPatch, locus: Locus) -> None:
    _, settings = install.spec_of("opencode")
    with monkeypatch.context() as patch:
        patch.setitem(settings.__dict__, "events", settings.events[1:])
        assert locus("hooks", "install", "--agent", "opencode").code == 0


def not_ignored(project: Path, _: pytest.MonkeyPatch, __: Locus) -> None:
    (project / ".git/info/exclude").write_text("")


def twice(project: Path, _: pytest.MonkeyPatch, locus: Locus) -> None:
    assert locus("hooks", "install", "--project", "--agent", "claude-code").code == 0


def another_agent(project: Path, _: pytest.MonkeyPatch, __: Locus) -> None:
    (project / ".codex").mkdir()


def no_hooks(project: Path, _: pytest.MonkeyPatch, locus: Locus) -> None:
    assert locus("hooks", "uninstall").code == 0


def no_store(project: Path, _: pytest.MonkeyPatch, __: Locus) -> None:
    shutil.rmtree(project / ".locus")


def named_store(project: Path, monkeypatch: pytest.MonkeyPatch, __: Locus) -> None:
    monkeypatch.setenv("LOCUS_DIR", str(project.parent / "elsewhere"))


def open_store(project: Path, _: pytest.MonkeyPatch, __: Locus) -> None:
    (project / ".locus").chmod(0o777)


def damage(project: Path, _: pytest.MonkeyPatch, __: Locus) -> None:
    append(project, {"event_type": "action"})
    (journal,) = (project / ".locus/log/journal").iterdir()
    data = bytearray(journal.read_bytes())
    data[20] ^= 1
    journal.write_bytes(data)


def begun_restore(project: Path, _: pytest.MonkeyPatch, __: Locus) -> None:
    begin_restore(project)


def unreadable_restore(project: Path, _: pytest.MonkeyPatch, __: Locus) -> None:
    (project / ".locus/restore" / f"{7:020d}.json").write_text("{}")


def failures(project: Path, _: pytest.MonkeyPatch, __: Locus) -> None:
    (project / ".locus/tmp/hook-errors.log").write_text(f"{int(time.time()) - 60} TimeoutError: late\n")


def stale_session(project: Path, _: pytest.MonkeyPatch, __: Locus) -> None:
    before = time.time_ns() // 1000 - 2 * 86_400_000_000
    append(project, {"event_type": "session", "operation": "start", "recorded_at": before,
                     "payload": {"hook_us": 9}})  # fmt: skip


def lost_tree(project: Path, _: pytest.MonkeyPatch, __: Locus) -> None:
    append(project, {"event_type": "snapshot", "operation": "turn_end", "tree_hash": f"blake3:{'0' * 64}",
                     "agent_turn_id": "t"})  # fmt: skip


def no_briefing(project: Path, _: pytest.MonkeyPatch, locus: Locus) -> None:
    append(project, {"event_type": "action"})
    assert locus("store", "seal").code == 0
    (project / ".locus/config.toml").write_text("[briefing]\nat_start = true\n")


def lost_outcome(project: Path, _: pytest.MonkeyPatch, __: Locus) -> None:
    append(project, {"event_type": "tool_start", "tool_use_id": "toolu_7", "payload": {"hook_us": 1}})
    append(project, {"event_type": "session", "operation": "end", "payload": {"hook_us": 1}})


# What was provoked; about; words of the finding; words that its command says, GONE where it ends it.
TABLE: tuple[tuple[Provoke, str, str, str], ...] = (
    (lost_event, "claude-code", "but not for Stop", GONE),
    (lost_file, "claude-code", "were installed in", GONE),
    (lost_python, "claude-code", "/usr/gone/python is gone", GONE),
    (broken_stub, "claude-code", "were tried and recorded nothing", GONE),
    (foreign_line, "claude-code", "name another installation", GONE),
    (other_plugin, "opencode", "but not for", GONE),
    (not_ignored, "claude-code", "git does not ignore", GONE),
    (twice, "claude-code", "starts 2 of them", GONE),
    (another_agent, "codex", "its hooks are not installed", GONE),
    (no_hooks, "hooks", "no hooks are installed", GONE),
    (another_agent, "mcp", "codex is here, and has not the tools", GONE),
    (no_store, "store", "no store in", GONE),
    (named_store, "store", "LOCUS_DIR names", GONE),
    (open_store, "store", "can be written by other users", GONE),
    (damage, "damage", "journal", "journal"),
    (begun_restore, "restore", "was begun and never ended", GONE),
    (unreadable_restore, "damage", "restore", "07.json"),
    (failures, "errors", "1 hook call failed", GONE),
    (stale_session, "sessions", "1 session without an end", GONE),
    (lost_tree, "skipped", "cannot be read", "0" * 20),
    (no_briefing, "briefing", "not gathered yet", GONE),
    (lost_outcome, "completeness", "captured 0 of 1", "toolu_7"),
)


@pytest.mark.parametrize(
    ("provoke", "about", "finding", "says"), TABLE, ids=[f"{row[1]}-{row[0].__name__}" for row in TABLE]
)
def test_the_next_command_sees_what_was_found(
    provoke: Provoke, about: str, finding: str, says: str,
    project: Path, locus: Locus, monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    """P8: the command of a finding, run in the same state, ends it or says the same; the doctor agrees."""
    # What an agent would start is looked for there.
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    provoke(project, monkeypatch, locus)
    if about == "hooks":
        monkeypatch.setattr(install, "agents_here", lambda *_: [])
    (one,) = [one for one in asked(locus)[1].get(about, ()) if finding in one["what"]]
    spoken = run_named(one["todo"] or one["what"], locus, project)

    still = [one["what"] for one in asked(locus)[1].get(about, ()) if finding in one["what"]]
    if says == GONE:
        assert still == [], spoken
    else:
        assert still and says in spoken


def run_named(todo: str, locus: Locus, project: Path) -> str:
    """Run the first command that a finding names; what it printed."""
    found = re.search(r"(?:`|: )((?:locus|rm|chmod|echo) [^`]*)", todo)
    assert found is not None, todo
    words = shlex.split(found[1])
    if words[0] != "locus":
        done = subprocess.run(["/bin/sh", "-c", found[1]], cwd=project, check=True, capture_output=True)
        return done.stdout.decode()
    ended = locus(*words[1:], *(["--project"] if "with --local or --project" in todo else []))
    return ended.text + ended.err


def test_a_large_file_is_kept_out_by_the_named_line(project: Path, locus: Locus) -> None:
    """P8: the line that the doctor names for a large file keeps it out of the next snapshot, and says why."""
    (project / "big.bin").write_bytes(b"\0" * 2_000_000)
    pending = {"state": "partial", "pending": 1, "pending_paths": ["big.bin"]}
    append(project, {"event_type": "snapshot", "operation": "tool", "success": False,
                     "payload": {"capture": pending}})  # fmt: skip
    (one,) = [one for one in asked(locus)[1]["captures"] if "big.bin" in one["what"]]
    run_named(one["todo"], locus, project)
    agent = Agent(project)
    agent.start()
    agent.prompt("Go on")
    agent.stop()

    found = asked(locus)[1]
    assert "captures" not in found or all("big.bin" not in one["what"] for one in found["captures"])
    with Store.open(project / ".locus") as store:
        last = [event for event in store.events() if event["event_type"] == "snapshot"][-1]
        assert "big.bin" in str(last["payload"]["skipped"])


@pytest.mark.parametrize("source", SOURCES)
def test_every_command_that_is_named_exists(source: str) -> None:
    """P8: each `locus …` in the words of the doctor is a command with these options."""
    text = re.sub(r'"\n\s*f?"', "", (ROOT / source).read_text())
    for item in re.findall(r"`(locus [^`\n]*)`", text):
        words = shlex.split(re.sub(r"\{[^}]*\}", "x", item))[1:]
        command: click.Command = cli
        while words and isinstance(command, click.Group):
            found = command.get_command(click.Context(command), words[0])
            if found is None:
                break
            command, words = found, words[1:]
        assert command is not cli or item == "locus hooks", item
        options = [(*parameter.opts, *parameter.secondary_opts) for parameter in command.params]
        known = {name for names in options for name in names}
        assert {word for word in words if word.startswith("--") and word != "--x"} <= known, item
