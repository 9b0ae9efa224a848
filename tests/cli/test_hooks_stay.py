"""Installed hooks outlive what git does to a working tree, with real git and the installed line."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from eventlog.base.fs import REAL
from eventlog.setup import install
from eventlog.setup.install import Homes
from eventlog.store import Store
from tests.cli.support import Locus, git, locus_process, server_program

FILES = {
    "claude-code": ".claude/settings.local.json",
    "codex": ".codex/hooks.json",
    "gemini-cli": ".gemini/settings.json",
    "opencode": ".opencode/plugin/locus.js",
}


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A git repository with a commit and a store."""
    for name in ("CLAUDE_CONFIG_DIR", "CODEX_HOME", "XDG_STATE_HOME", "GEMINI_CLI_HOME", "XDG_CONFIG_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PATH", f"{server_program(tmp_path / 'bin')}:/usr/bin:/bin")
    monkeypatch.setenv("LOCUS_NO_MAINTENANCE", "1")
    project = tmp_path / "project"
    project.mkdir()
    git(project, "init", "-q", "-b", "main")
    (project / "a").write_text("1")
    git(project, "add", "-A")
    git(project, "commit", "-q", "-m", "begin")
    Store.init(project / ".locus").close()
    monkeypatch.chdir(project)
    return project


def excluded(project: Path) -> Path:
    return project / ".git/info/exclude"


def call(project: Path, agent: str) -> None:
    """One silent hook call by the line that is in the agent's file, as the agent starts it."""
    path = install.settings_path(agent, install.LOCAL, str(project), Homes.of(os.environ))
    (line,) = install.registered_in(REAL, agent, install.LOCAL, path).lines
    data = json.dumps({"hook_event_name": "Seen", "session_id": agent, "cwd": str(project)}).encode()
    done = subprocess.run(["/bin/sh", "-c", line], input=data, capture_output=True, cwd=project, timeout=30)
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")


@pytest.mark.parametrize(
    "commands",
    [
        ["checkout -q -b feature", "add -A", "commit -q -m work", "checkout -q main"],
        ["stash -q -u"],
        ["clean -fdq"],
    ],
    ids=["commit-and-checkout", "stash", "clean"],
)
def test_git_takes_no_hooks_away(
    commands: list[str], project: Path, locus: Locus, monkeypatch: pytest.MonkeyPatch
) -> None:
    """P4: after a commit of everything and a checkout, a stash or a clean, every agent's line still records,
    also where the stub is in the working tree, and the servers of tools are still there."""
    monkeypatch.setattr(sys, "prefix", sys.base_prefix)  # a Python without a virtual environment
    monkeypatch.setenv("XDG_DATA_HOME", str(project.parent / "own"))
    assert locus("hooks", "install", "--agent", "all").code == 0
    assert locus("mcp", "install", "--agent", "all").code == 0
    assert git(project, "status", "--porcelain") == ""
    (project / "b").write_text("2")
    for words in commands:
        git(project, *words.split())

    assert not (project / "b").exists()
    for agent in FILES:
        call(project, agent)
    with Store.open(project / ".locus") as store:
        assert {event["agent"] for event in store.events()} == set(FILES)
    assert all((project / name).exists() for name in (".mcp.json", ".codex/config.toml", "opencode.json"))


@pytest.mark.parametrize("ignores_itself", [False, True])
def test_a_python_in_the_working_tree_stays(
    ignores_itself: bool, project: Path, locus: Locus, monkeypatch: pytest.MonkeyPatch
) -> None:
    """P4: a virtual environment in the project, without which hooks do not start, is ignored as a whole,
    unless it does that itself."""
    (project / ".venv").mkdir()
    if ignores_itself:
        (project / ".venv/.gitignore").write_text("*\n")
    monkeypatch.setattr(sys, "prefix", str(project / ".venv"))
    assert locus("hooks", "install", "--agent", "claude-code").code == 0
    assert (b"/.venv\n" in excluded(project).read_bytes()) != ignores_itself
    assert git(project, "status", "--porcelain") == ""
    git(project, "clean", "-fdq")
    call(project, "claude-code")
    with Store.open(project / ".locus") as store:
        assert next(iter(store.events()))["agent"] == "claude-code"


@pytest.mark.parametrize("before", [b"", b"# mine\n*.log\n", b"*.log", b"*.log\r\n*.tmp", b"\xff*\n\n", None])
def test_uninstalling_gives_the_list_back(before: bytes | None, project: Path, locus: Locus) -> None:
    """P4: git's list has its very bytes again, whatever was in it, in whichever order agents go; one that was
    made for this is removed."""
    if before is None:
        excluded(project).unlink()
        excluded(project).parent.rmdir()
    else:
        excluded(project).write_bytes(before)
    assert locus("hooks", "install", "--agent", "all").code == 0
    between = excluded(project).read_bytes()
    assert locus("mcp", "install", "--agent", "claude-code").code == 0
    for name in FILES.values():
        assert f"/{name}".encode() in between.split()
    assert between.startswith(before or b"")
    assert between.count(b"\r\n") == (6 if before and b"\r" in before else 0), between

    assert locus("hooks", "install", "--agent", "all").code == 0
    dry = locus("hooks", "uninstall", "--agent", "codex", "--dry-run")
    assert "-/.codex/hooks.json" in dry.text and "would be taken out" in dry.err
    for agent in ("codex", "claude-code"):
        assert locus("hooks", "uninstall", "--agent", agent).code == 0
    assert locus("hooks", "uninstall").code == 0
    assert locus("mcp", "uninstall").code == 0
    if before is None:
        assert not excluded(project).parent.exists()
    else:
        assert excluded(project).read_bytes() == before


def test_lines_of_others_stay(project: Path, locus: Locus) -> None:
    """P4: what somebody added after our lines stays, and so does a line that was theirs before."""
    excluded(project).write_text("/.codex/hooks.json\nmine")
    assert locus("hooks", "install", "--agent", "all").code == 0
    with excluded(project).open("a") as file:
        file.write("theirs\n")
    assert locus("hooks", "uninstall", "--agent", "all").code == 0
    assert excluded(project).read_text() == "/.codex/hooks.json\nmine\ntheirs\n"


def test_hooks_for_everybody_are_not_ignored(project: Path, locus: Locus) -> None:
    """--project is to be committed: no line for it, and one from before goes."""
    before = excluded(project).read_bytes()
    assert locus("hooks", "install", "--agent", "codex").code == 0
    assert locus("hooks", "install", "--agent", "codex", "--project").code == 0
    assert excluded(project).read_bytes() == before
    assert git(project, "status", "--porcelain", "-uall").count(".codex/hooks.json") == 1


def test_a_file_that_git_tracks_is_reported(project: Path, locus: Locus) -> None:
    """P8: no rule helps a tracked file, so install says so; the command it names makes the rule count."""
    (project / ".codex").mkdir()
    (project / ".codex/hooks.json").write_text("{}\n")
    git(project, "add", "-A")
    git(project, "commit", "-q", "-m", "hooks of our own")
    done = locus("hooks", "install", "--agent", "codex")
    assert done.code == 0 and "git tracks .codex/hooks.json" in done.err
    assert "git rm --cached .codex/hooks.json" in done.err
    (answer,) = json.loads(locus("hooks", "install", "--agent", "codex", "--json").out)["excluded"]
    assert answer["state"] == "tracked" and "git tracks" in answer["why"]

    git(project, "rm", "-q", "--cached", ".codex/hooks.json")
    git(project, "commit", "-q", "-m", "keep them out")
    assert git(project, "status", "--porcelain") == ""
    assert "git tracks" not in locus("hooks", "install", "--agent", "codex").err


def test_a_rule_that_brings_a_file_back_is_named(project: Path, locus: Locus) -> None:
    """P8: a `.gitignore` comes before git's list, so a `!` in it is reported with the file it is in."""
    (project / ".gitignore").write_text("!.claude/*\n")
    done = locus("hooks", "install", "--agent", "claude-code")
    assert done.code == 0 and ".gitignore has the rule !.claude/*" in done.err


@pytest.mark.parametrize("odd", ["link", "directory", "read-only"])
def test_a_list_that_cannot_be_written_is_reported(
    odd: str, project: Path, locus: Locus, tmp_path: Path
) -> None:
    """P8: hooks are installed all the same; what is odd is stated with the line to add, and left as it is."""
    path = excluded(project)
    path.unlink()
    if odd == "link":
        (tmp_path / "list").write_text("mine\n")
        path.symlink_to(tmp_path / "list")
    elif odd == "directory":
        path.mkdir()
    else:
        path.write_text("mine\n")
        path.chmod(0o444)
    done = locus("hooks", "install", "--agent", "claude-code")
    assert done.code == 0 and str(path) in done.err
    assert "add the line /.claude/settings.local.json to it by hand" in done.err
    assert path.is_dir() if odd == "directory" else path.read_text() == "mine\n"
    assert path.is_symlink() == (odd == "link")
    assert locus("hooks", "uninstall").code == 0


def test_what_git_ignores_for_good_needs_no_line(
    project: Path, locus: Locus, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """P4: the user's own ignore file serves; a `.gitignore` of one branch does not."""
    before = excluded(project).read_bytes()
    (tmp_path / "ignore").write_text("**/.claude/settings.local.json\nown/\n")
    (tmp_path / "gitconfig").write_text(f"[core]\n\texcludesFile = {tmp_path}/ignore\n")
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(tmp_path / "gitconfig"))
    (project / ".gitignore").write_text(".codex/\n")
    assert locus("hooks", "install", "--agent", "claude-code").code == 0
    assert excluded(project).read_bytes() == before
    assert locus("hooks", "install", "--agent", "codex").code == 0
    assert b"/.codex/hooks.json\n" in excluded(project).read_bytes()


def test_linked_worktrees_share_a_line(
    project: Path, locus: Locus, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """P4: a line serves all worktrees of a clone, and goes when the last of them needs it no more."""
    git(project, "worktree", "add", "-q", str(tmp_path / "second"))
    before = excluded(project).read_bytes()
    assert locus("hooks", "install", "--agent", "claude-code").code == 0
    monkeypatch.chdir(tmp_path / "second")
    assert locus("hooks", "install", "--agent", "claude-code").code == 0
    assert git(tmp_path / "second", "status", "--porcelain") == ""
    assert excluded(project).read_bytes().count(b"/.claude/settings.local.json") == 1
    monkeypatch.chdir(project)
    assert locus("hooks", "uninstall").code == 0
    assert b"/.claude/settings.local.json" in excluded(project).read_bytes()
    monkeypatch.chdir(tmp_path / "second")
    assert locus("hooks", "uninstall").code == 0
    assert excluded(project).read_bytes() == before


def test_a_repository_whose_directory_is_elsewhere(
    project: Path, locus: Locus, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A submodule and a separate git directory have their lists there; GIT_DIR names one more."""
    git(tmp_path, "init", "-q", "--separate-git-dir", str(tmp_path / "apart"), str(tmp_path / "tree"))
    git(project, "-c", "protocol.file.allow=always", "submodule", "--quiet", "add", str(project), "sub")
    submodule = (project / "sub", project / ".git/modules/sub")
    for work, made in ((tmp_path / "tree", tmp_path / "apart"), submodule):
        monkeypatch.chdir(work)
        assert locus("hooks", "install", "--agent", "claude-code").code == 0
        assert "/.claude/settings.local.json" in (made / "info/exclude").read_text()
        assert ".claude" not in git(work, "status", "--porcelain", "-uall")

    (tmp_path / "plain").mkdir()
    git(tmp_path, "init", "-q", "--bare", str(tmp_path / "named"))
    monkeypatch.chdir(tmp_path / "plain")
    named = {"GIT_DIR": str(tmp_path / "named"), "GIT_WORK_TREE": str(tmp_path / "plain")}
    done = locus_process("hooks", "install", "--agent", "claude-code", cwd=tmp_path / "plain", **named)
    assert done.code == 0 and str(tmp_path / "named/info/exclude") in done.err


def test_outside_of_git_no_list_is_needed(
    project: Path, locus: Locus, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where no git is, hooks are installed without a word of it."""
    (tmp_path / "plain").mkdir()
    monkeypatch.chdir(tmp_path / "plain")
    done = locus("hooks", "install", "--agent", "all")
    assert done.code == 0 and "ignore" not in done.err


def test_what_is_left_to_do_is_short(project: Path, locus: Locus) -> None:
    """P8: one line for each file, and no more than six for all there is to know and to do."""
    done = locus("hooks", "install", "--agent", "all")
    output = done.err.splitlines()
    assert len(output) <= len(FILES) + 6 and max(map(len, output)) < 300
    assert "/hooks" in done.err and "Restart running agents" in done.err
