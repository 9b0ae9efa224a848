"""`locus doctor`: each finding provoked for real."""

import fcntl
import json
import os
import re
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from eventlog.blobs.ids import to_text
from eventlog.blobs.tree import SKIPPED
from eventlog.doctor import store as health_store
from eventlog.setup import install, launch, launch_modules
from eventlog.store import Store
from tests.cli.support import Locus, begin_restore, git
from tests.older import append_as_before

SETTINGS = ".claude/settings.local.json"
SESSION = {"agent_session_id": "s"}


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, locus: Locus) -> Path:
    """A git repository with a store and Claude Code's hooks."""
    for name in ("CLAUDE_CONFIG_DIR", "CODEX_HOME", "XDG_STATE_HOME", "XDG_DATA_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    project = tmp_path / "project"
    project.mkdir()
    git(project, "init", "-q")
    monkeypatch.chdir(project)
    assert locus("init").code == 0
    assert locus("hooks", "install", "--agent", "claude-code").code == 0
    return project


def asked(locus: Locus) -> tuple[int, dict[str, list[dict[str, Any]]]]:
    """The exit code, and the findings by what they are about."""
    done = locus("doctor", "--json")
    answer = json.loads(done.out)
    found: dict[str, list[dict[str, Any]]] = {}
    for one in answer["findings"]:
        found.setdefault(one["about"], []).append(one)
    problems = sum(one["level"] == "problem" for one in answer["findings"])
    assert answer["version"] == 1 and answer["problems"] == problems
    assert done.code == (1 if problems else 0), found
    return done.code, found


def levels(found: dict[str, list[dict[str, Any]]], about: str) -> list[str]:
    return [one["level"] for one in found[about]]


def texts(found: dict[str, list[dict[str, Any]]], about: str) -> str:
    return "\n".join(f"{one['what']} → {one['todo']}" for one in found[about])


def append(project: Path, *events: dict[str, Any]) -> None:
    with Store.open(project / ".locus") as store:
        append_as_before(store, [
            {"event_kind": "action", "source": "agent", "agent": "claude-code", **SESSION, **event}
            for event in events
        ])  # fmt: skip


def test_all_is_well(project: Path, locus: Locus) -> None:
    """P4, P8: where everything works nothing is a problem, the hooks were tried, and nothing was changed."""
    before = sorted(path for path in project.rglob("*"))
    code, found = asked(locus)

    assert code == 0
    assert "were tried and record" in texts(found, "claude-code")
    assert "recorded nothing here yet" in texts(found, "claude-code")
    assert {"versions", "store", "damage", "disk", "file system", "errors"} <= set(found)
    assert sorted(path for path in project.rglob("*")) == before
    done = locus("doctor")
    assert done.code == 0 and "PROBLEM" not in done.text and "No problem" in done.err


def test_without_a_store(
    project: Path, locus: Locus, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without a store the doctor still looks at the agents, and names the command that makes one."""
    (tmp_path / "bare/.claude").mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "bare")
    code, found = asked(locus)

    assert code == 1 and "locus init" in texts(found, "store")
    assert "not installed" in texts(found, "claude-code")


def test_hooks_that_record(project: Path, locus: Locus) -> None:
    """P4, P7: calls through the installed line show as a sign of life, and in the completeness statement."""
    command = json.loads((project / SETTINGS).read_text())["hooks"]["Stop"][0]["hooks"][0]["command"]
    for item in (
        {"hook_event_name": "UserPromptSubmit", "prompt_id": "p", "prompt": "Tidy up"},
        {"hook_event_name": "PreToolUse", "prompt_id": "p", "tool_use_id": "t1", "tool_name": "Bash",
         "tool_input": {"command": "ls"}},
    ):  # fmt: skip
        data = json.dumps({"session_id": "s", "cwd": str(project), **item}).encode()
        subprocess.run(["/bin/sh", "-c", command], input=data, cwd=project, check=True, timeout=30)
    code, found = asked(locus)

    assert code == 0 and "last heard of" in texts(found, "claude-code")
    assert "captured 0 of 1 tool calls" in texts(found, "completeness")
    shown = locus("session", "show", json.loads(locus("session", "ls", "--all", "--json").out)["session_id"])
    assert "captured 0 of 1 tool calls" in shown.text and "t1" in shown.text


def test_durations_and_captures(project: Path, locus: Locus) -> None:
    """P4: durations are those that hook calls measured, each call once; captures that were left are
    reported."""
    calls = [{"event_type": "action", "payload": {"hook_us": ms * 1000}} for ms in range(1, 101)]
    same_call = {"hook_us": 100_000, "capture": {"state": "busy"}}
    append(project, *calls, {"event_type": "file", "path": "a", "payload": same_call})
    nobodys = {
        "event_type": "file",
        "path": "b",
        "agent": None,
        "source": "user",
        "session_id": None,
        "turn": None,
    }
    append(project, {**nobodys, "payload": {"hook_us": 7_000}}, {**nobodys, "payload": {"hook_us": 500}})
    append(project, {"event_type": "snapshot", "payload": {"capture": {"state": "baseline"}}})
    _, found = asked(locus)

    durations, unknown = found["durations"]
    assert unknown["what"].startswith("unknown agent: 1 hook call took ")
    assert "100 hook calls took 50 ms (median), 95 ms (p95), 99 ms (p99)" in durations["what"]
    assert [one["what"].endswith("(busy)") for one in found["captures"]] == [True]


@pytest.mark.parametrize("part", ["interpreter", "stub", "modules"])
def test_an_installation_that_went_away(
    part: str, project: Path, locus: Locus, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """P4: a hook whose Python, stub or modules are gone is silent for the agent, a problem for the doctor."""
    monkeypatch.setattr(sys, "prefix", sys.base_prefix)  # the stub of this test alone
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    assert locus("hooks", "install", "--agent", "claude-code").code == 0
    assert asked(locus)[0] == 0
    (stub,) = (tmp_path / "data").rglob(launch.STUB)
    if part == "interpreter":
        text = (project / SETTINGS).read_text().replace(sys.executable, "/usr/gone/python")
        (project / SETTINGS).write_text(text)
    elif part == "stub":
        stub.unlink()
    else:
        stub.write_text(stub.read_text().replace("sys.path +=", "_ ="))
        (stub.parent / launch_modules.MODULES).unlink()
    code, found = asked(locus)

    assert code == 1 and "locus hooks install" in texts(found, "claude-code")
    says = {"interpreter": "/usr/gone/python is gone", "stub": "is gone", "modules": "recorded nothing"}[part]
    assert says in texts(found, "claude-code")


def test_a_foreign_line_is_not_run(project: Path, locus: Locus, tmp_path: Path) -> None:
    """P5: a project's settings may come from anybody, so a line that we do not write is shown and not run."""
    made = tmp_path / "made"
    command = json.loads((project / SETTINGS).read_text())["hooks"]["Stop"][0]["hooks"][0]["command"]
    settings = (project / SETTINGS).read_text()
    (project / SETTINGS).write_text(settings.replace(command, f"touch {made}; {command}"))
    code, found = asked(locus)

    assert code == 0 and "was not tried" in texts(found, "claude-code")
    assert not made.exists()


def test_hooks_in_two_files(project: Path, locus: Locus) -> None:
    """Hooks that start twice for each event are reported, with the command that takes one of them out; a line
    that does nothing is named by its file, and is no problem where another one records."""
    assert "starts 2" not in texts(asked(locus)[1], "claude-code")
    assert locus("hooks", "install", "--project", "--agent", "claude-code").code == 0
    code, found = asked(locus)
    reported = texts(found, "claude-code")
    assert code == 0 and "starts 2 of them" in reported and "--local or --project" in reported
    assert f"its hooks in {project / SETTINGS} were tried and record" in reported
    assert "settings.json start locus-hook, which is not on your PATH" in reported

    (project / SETTINGS).write_text(
        (project / SETTINGS).read_text().replace(sys.executable, "/usr/gone/python")
    )
    code, found = asked(locus)
    assert code == 1 and "--agent claude-code --local` makes them name" in texts(found, "claude-code")
    assert "recorded nothing here yet" not in texts(found, "claude-code")


def test_a_lock_that_somebody_keeps(project: Path, locus: Locus) -> None:
    """P4, I31: a process that keeps the lock of the log is named, since nothing is recorded meanwhile."""
    append(project, {"event_type": "action"})
    with (project / ".locus/locks/append.lock").open() as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        code, found = asked(locus)
    assert code == 1 and f"process {os.getpid()}" in texts(found, "locks")
    assert "locks" not in asked(locus)[1]


def test_a_store_that_lost_its_first_file(project: Path, locus: Locus) -> None:
    """I10: a log without its STORE file is not taken for a missing store: the file is to come back."""
    append(project, {"event_type": "action"})
    (project / ".locus/STORE").unlink()
    code, found = asked(locus)
    assert code == 1 and "no STORE file" in texts(found, "store") and "backup" in texts(found, "store")
    assert "locus init" not in texts(found, "store")


def test_a_wrong_name_of_a_store(
    project: Path, locus: Locus, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A store that LOCUS_DIR names and that is not there is reported with the name that is wrong."""
    monkeypatch.setenv("LOCUS_DIR", str(tmp_path / "nowhere"))
    code, found = asked(locus)
    assert code == 1 and f"LOCUS_DIR names {tmp_path / 'nowhere'}" in texts(found, "store")


def test_without_hooks_nothing_is_recorded_by_itself(
    project: Path, locus: Locus, monkeypatch: pytest.MonkeyPatch
) -> None:
    """P7: where no hook is installed and no agent is found, doctor says that nothing is recorded."""
    assert "hooks" not in asked(locus)[1]
    assert locus("hooks", "uninstall", "--agent", "claude-code").code == 0
    monkeypatch.setattr(install, "agents_here", lambda *_: [])
    code, found = asked(locus)
    assert code == 0 and levels(found, "hooks") == ["note"]
    assert "nothing is recorded by itself" in texts(found, "hooks") and "hooks install" in texts(
        found, "hooks"
    )


def test_one_failure_is_reported_once(project: Path, locus: Locus) -> None:
    """P7: a segment that is gone is one problem, not one for each check that wanted to read it; whether hooks
    have recorded anything is then unknown, and not stated."""
    append(project, {"event_type": "action"})
    assert locus("store", "seal").code == 0
    (segment,) = (project / ".locus/log/segments").iterdir()
    segment.unlink()
    code, found = asked(locus)
    assert code == 1 and "damage" in found
    listed = [one["what"] for all in found.values() for one in all]
    assert len(set(listed)) == len(listed)
    assert "recorded nothing here yet" not in texts(found, "claude-code")


def test_settings_that_stop_hooks(project: Path, locus: Locus) -> None:
    """Settings that cannot be read, switch hooks off, or lack an event are problems, each with what to do."""
    settings = json.loads((project / SETTINGS).read_text())
    (project / ".claude/settings.json").write_text('{"disableAllHooks": true}')
    del settings["hooks"]["PostToolUse"]
    (project / SETTINGS).write_text(json.dumps(settings))
    code, found = asked(locus)
    assert code == 1
    assert "disableAllHooks" in texts(found, "claude-code")
    assert "not for PostToolUse" in texts(found, "claude-code")

    (project / SETTINGS).write_text("{,}")
    code, found = asked(locus)
    assert code == 1 and "line 1, column 2" in texts(found, "claude-code")


def test_codex_must_trust(project: Path, locus: Locus, tmp_path: Path) -> None:
    """What Codex leaves out without a word is reported: hooks that are not trusted, and hooks that are
    off."""
    assert locus("hooks", "install", "--agent", "codex").code == 0
    code, found = asked(locus)
    assert code == 0 and "/hooks" in texts(found, "codex")

    home = tmp_path / "home/.codex"
    home.mkdir(parents=True)
    path = project / ".codex/hooks.json"
    names = [re.sub(r"(?<!^)(?=[A-Z])", "_", event).lower() for event in install.spec_of("codex")[1].events]
    states = [f'[hooks.state."{path}:{name}:0:0"]\ntrusted_hash = "x"\n' for name in names]
    (home / "config.toml").write_text("".join(states[1:]))
    assert "trust 1 of the 13 hooks" in texts(asked(locus)[1], "codex")
    (home / "config.toml").write_text("[features]\nhooks = false\n" + "".join(states))
    code, found = asked(locus)
    assert code == 1 and "turns hooks off" in texts(found, "codex")
    assert "has not noted" not in texts(found, "codex")
    (home / "config.toml").write_text("= broken")
    assert "cannot be read" in texts(asked(locus)[1], "codex")


def test_failures_of_hooks_are_reported(project: Path, locus: Locus) -> None:
    """P4: what a hook could not do is in a file that the doctor reads: a problem while it is fresh."""
    notes = project / ".locus/tmp/hook-errors.log"
    now = int(time.time())
    notes.write_text(f"{now - 7200} Corruption: bad\nno time at all\n{now - 120} TimeoutError: late\n")
    code, found = asked(locus)
    assert code == 1
    assert "3 hook calls failed" in texts(found, "errors") and "min ago: TimeoutError: late" in texts(
        found, "errors"
    )

    notes.write_text(f"{now - 90 * 3600} Corruption: bad\n")
    code, found = asked(locus)
    assert code == 0 and levels(found, "errors") == ["note", "note"]


def test_skipped_paths_are_reported(project: Path, locus: Locus) -> None:
    """P1, P7: paths that the last snapshot does not hold are named with the reason."""
    with Store.open(project / ".locus") as store, store.blobs.writer() as writer:
        why = writer.put(b"a named pipe")
        root = writer.put_tree([(f"p{i}".encode(), SKIPPED, why, 0) for i in range(7)])
        writer.flush()
        append(project, {"event_type": "snapshot", "tree_hash": to_text(root)})
    _, found = asked(locus)

    assert "not captured: p0: a named pipe" in texts(found, "skipped")
    assert "2 more paths" in texts(found, "skipped")


def test_sessions_without_an_end_and_odd_clocks(project: Path, locus: Locus) -> None:
    """A session that nobody ended shows after a day; times that run backwards or ahead are reported."""
    now_us = time.time_ns() // 1000
    day_us = 86_400_000_000
    append(project, {"event_type": "session", "operation": "start", "recorded_at": now_us - 2 * day_us,
                     "agent": "codex", "agent_session_id": "old", "payload": {"hook_us": 9}})  # fmt: skip
    append(project, {"event_type": "action", "recorded_at": now_us + day_us})
    append(project, {"event_type": "action", "recorded_at": now_us})
    code, found = asked(locus)

    assert code == 0
    assert "1 session without an end" in texts(found, "sessions")
    assert "in the future" in texts(found, "clock") and "went back 1 time " in texts(found, "clock")


def test_a_briefing_that_nobody_gathered_yet(project: Path, locus: Locus) -> None:
    """S3-28: switched on in a store that is sealed, it is a note until it is gathered."""
    append(project, {"event_type": "decision", "payload": {"decision": "Boil the water"}})
    assert locus("store", "seal").code == 0
    assert "briefing" not in asked(locus)[1]
    (project / ".locus/config.toml").write_text("[briefing]\nat_start = true\n")
    code, found = asked(locus)
    assert code == 0 and levels(found, "briefing") == ["note"]
    assert "`locus briefing` gathers it" in texts(found, "briefing")
    assert locus("briefing").code == 0
    assert levels(asked(locus)[1], "briefing") == ["ok"]


def test_damage_and_unfinished_restores(project: Path, locus: Locus) -> None:
    """I11: what a quick check finds damaged is a problem, and so is a restore that never ended."""
    append(project, {"event_type": "action"})
    begin_restore(project)
    code, found = asked(locus)
    assert code == 1 and "--recover" in texts(found, "restore")
    (project / ".locus/restore" / f"{7:020d}.json").write_text("{}")
    code, found = asked(locus)
    assert code == 1 and "store repair" in texts(found, "damage")

    (journal,) = (project / ".locus/log/journal").iterdir()
    data = bytearray(journal.read_bytes())
    data[20] ^= 1
    journal.write_bytes(data)
    code, found = asked(locus)
    assert code == 1 and "problem" in levels(found, "damage")
    (project / ".locus/STORE").write_text("{}")
    code, found = asked(locus)
    assert code == 1 and "STORE" in texts(found, "store")


def test_room_on_the_disk(project: Path, locus: Locus, monkeypatch: pytest.MonkeyPatch) -> None:
    """A disk that fills up is reported before it is full."""
    free = os.statvfs(project).f_bavail * os.statvfs(project).f_frsize
    monkeypatch.setattr(health_store, "_DISK_LOW_BYTES", free * 2)
    assert levels(asked(locus)[1], "disk") == ["note"]
    monkeypatch.setattr(health_store, "_DISK_OUT_BYTES", free * 2)
    code, found = asked(locus)
    assert code == 1 and levels(found, "disk") == ["problem"]
