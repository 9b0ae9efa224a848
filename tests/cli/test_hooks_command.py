"""`locus hooks`: what it writes where, what it says, and that nothing of anybody else's is touched."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.support import Locus, git, locus_process

SETTINGS = (
    '{\n  "model": "x",\n  "hooks": {"Stop": [{"hooks": [{"type": "command", "command": "say done"}]}]}\n}\n'
)


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A git repository with a store; HOME, the agents' homes and the state are below tmp_path."""
    for name in ("CLAUDE_CONFIG_DIR", "CODEX_HOME", "XDG_STATE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    (tmp_path / "home").mkdir()
    project = tmp_path / "my project"
    project.mkdir()
    git(project, "init", "-q")
    monkeypatch.chdir(project)
    assert locus_process("init", cwd=project).code == 0
    return project


def kinds(out: bytes) -> dict[str, str]:
    return {one["path"]: one["change"] for one in json.loads(out)["changes"]}


def test_install_and_uninstall(project: Path, locus: Locus) -> None:
    """P4, P8: the hooks go into the file that is not shared, and leave it as it was."""
    file = project / ".claude/settings.local.json"
    file.parent.mkdir()
    file.write_text(SETTINGS)
    done = locus("hooks", "install")
    assert (done.code, done.out) == (0, b"")
    assert f"{file}: edited" in done.err
    assert "Restart running agents" in done.err
    assert "git ignores /.claude/settings.local.json from now on" in done.err
    assert git(project, "status", "--porcelain") == ""
    assert "Codex" not in done.err and not (project / ".codex").exists()

    again = locus("hooks", "install", "--json")
    assert kinds(again.out) == {str(file): "unchanged"}

    shown = locus("hooks", "show")
    assert "PostToolBatch" in shown.text and "locus-hook.py claude-code" in shown.text

    done = locus("hooks", "uninstall")
    assert done.code == 0 and file.read_text() == SETTINGS
    assert locus("hooks", "show").out == b""
    assert "No hook of ours" in locus("hooks", "uninstall").err


def test_the_installed_line_records(project: Path, locus: Locus) -> None:
    """P4: the command in the settings file, run by a shell as the agent does, makes events in the store."""
    assert locus("hooks", "install", "--agent", "all").code == 0
    for agent, path in (("claude-code", ".claude/settings.local.json"), ("codex", ".codex/hooks.json")):
        registered = json.loads((project / path).read_text())["hooks"]
        command = registered["UserPromptSubmit"][0]["hooks"][0]["command"]
        payload = {
            "hook_event_name": "UserPromptSubmit",
            "session_id": agent,
            "turn_id": "t",
            "prompt_id": "p",
            "prompt": "Tidy up",
            "cwd": str(project),
        }
        done = subprocess.run(
            ["/bin/sh", "-c", command],
            input=json.dumps(payload).encode(),
            capture_output=True,
            cwd=project,
            timeout=30,
        )
        assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")
    by_agents = "select distinct agent from events where agent <> 'locus' order by agent"
    asked = locus("sql", by_agents, "--format", "json")
    assert json.loads(asked.out) == [{"agent": "claude-code"}, {"agent": "codex"}]


def test_the_installed_status_line_runs(project: Path, locus: Locus) -> None:
    """P4: the command in the settings file, run by a shell as the agent does, prints its line; a status line
    of somebody else is refused and left; other agents have none."""
    assert locus("hooks", "install", "--agent", "claude-code", "--statusline").code == 0
    file = project / ".claude/settings.local.json"
    shown = json.loads(file.read_text())["statusLine"]
    reported = json.dumps({"session_id": "s", "cwd": str(project)}).encode()
    done = subprocess.run(["sh", "-c", shown["command"]], input=reported, cwd="/", capture_output=True)
    assert shown["type"] == "command" and done.stderr == b""
    assert done.stdout.decode() == "locus: not recorded · session – · today –\n"
    assert locus("hooks", "uninstall").code == 0 and not file.exists()

    shared = project / ".claude/settings.json"
    shared.parent.mkdir(exist_ok=True)
    shared.write_text('{"statusLine": {"type": "command", "command": "mine"}}')
    refused = locus("hooks", "install", "--project", "--agent", "claude-code", "--statusline")
    assert refused.code == 3 and "a `statusLine` of its own" in refused.err and "mine" in shared.read_text()
    shared.write_text("{}")
    assert locus("hooks", "install", "--project", "--agent", "claude-code", "--statusline").code == 0
    assert json.loads(shared.read_text())["statusLine"]["command"] == "locus statusline"
    assert locus("hooks", "install", "--agent", "codex", "--statusline").code == 2


def test_a_dry_run_is_a_diff(project: Path, locus: Locus) -> None:
    """`--dry-run` prints the change as a unified diff on stdout and changes nothing; `--json` has it too."""
    before = sorted(path for path in project.parent.rglob("*") if ".git/" not in str(path))
    done = locus("hooks", "install", "--agent", "all", "--dry-run")
    assert done.text.startswith("--- /dev/null\n+++ ") and '+    "SessionEnd": [' in done.text
    assert "would be made" in done.err

    gemini = [
        locus("hooks", "install", "--agent", name, "--dry-run").out for name in ("gemini", "gemini-cli")
    ]
    assert gemini[0] == gemini[1] and b".gemini/settings.json" in gemini[0]  # `locus import` calls it gemini
    answer = json.loads(locus("hooks", "install", "--agent", "codex", "--dry-run", "--json").out)
    assert answer["version"] == 1 and answer["dry_run"] is True
    assert [(one["agent"], one["change"]) for one in answer["changes"]] == [("codex", "created")]
    assert answer["changes"][0]["diff"].startswith("--- /dev/null")
    assert sorted(path for path in project.parent.rglob("*") if ".git/" not in str(path)) == before

    locus("hooks", "install", "--agent", "codex")
    assert locus("hooks", "uninstall", "--dry-run").text.count("\n-") > 50
    assert (project / ".codex/hooks.json").exists()


def test_the_shared_file_names_no_machine(project: Path, locus: Locus) -> None:
    """What others clone starts the program by its name, and holds no path of this machine."""
    done = locus("hooks", "install", "--project", "--agent", "claude-code")
    text = (project / ".claude/settings.json").read_text()

    assert done.code == 0 and "exclude" not in done.err
    assert "exec locus-hook claude-code" in text
    assert str(project.parent) not in text and os.path.dirname(os.__file__) not in text
    locus("hooks", "uninstall")
    assert not (project / ".claude").exists()


@pytest.mark.parametrize("named", [False, True])
def test_the_users_settings(
    named: bool, project: Path, locus: Locus, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`--user` serves every project; CLAUDE_CONFIG_DIR and CODEX_HOME say where the files are."""
    claude, codex = tmp_path / "home/.claude", tmp_path / "home/.codex"
    if named:
        claude, codex = tmp_path / "conf/claude", tmp_path / "conf/codex"
        monkeypatch.setenv("CLAUDE_CONFIG_DIR", str(claude))
        monkeypatch.setenv("CODEX_HOME", str(codex))
    done = locus("hooks", "install", "--user", "--agent", "all")
    assert done.code == 0 and "/hooks" in done.err
    assert (claude / "settings.json").exists() and (codex / "hooks.json").exists()
    assert not (project / ".claude").exists()

    here = locus("hooks", "uninstall")
    assert "--user" in here.err and (claude / "settings.json").exists()
    assert locus("hooks", "uninstall", "--user").code == 0
    assert not claude.exists() and not codex.exists()


def test_the_agents_that_are_here_are_meant(project: Path, locus: Locus, tmp_path: Path) -> None:
    """Without --agent those are meant that show somewhere; where none does, one line says what to do."""
    done = locus("hooks", "install")
    assert done.code == 2 and "Name one with --agent." in done.err
    done = locus("init", "--hooks")
    assert done.code == 2 and "Name one: `locus hooks install --agent claude-code`" in done.err
    (tmp_path / "home/.codex").mkdir()
    assert kinds(locus("hooks", "install", "--json").out) == {f"{project}/.codex/hooks.json": "created"}


def test_a_broken_file_is_named(project: Path, locus: Locus) -> None:
    """A settings file with a comment is refused with its line and column, exit code 3, and stays."""
    file = project / ".claude/settings.local.json"
    file.parent.mkdir()
    file.write_text('{\n  // mine\n  "model": "x"\n}\n')
    done = locus("hooks", "install")

    assert done.code == 3 and f"{file}: line 2, column 3" in done.err
    assert file.read_text() == '{\n  // mine\n  "model": "x"\n}\n'
    assert str(file) in locus("hooks", "show").err


def test_init_can_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, locus: Locus) -> None:
    """`locus init` names the command that installs the hooks, and `--hooks` does both at once."""
    project = tmp_path / "new"
    (project / ".claude").mkdir(parents=True)
    monkeypatch.chdir(project)
    monkeypatch.setenv("PATH", "/usr/bin:/bin")

    assert "locus hooks install" in locus("init").err
    done = locus("init", "--hooks")
    assert done.code == 0 and "already there" in done.err
    assert "locus-hook.py" in (project / ".claude/settings.local.json").read_text()


def test_without_a_store_it_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, locus: Locus) -> None:
    """Hooks may come before the store; then the missing step is named."""
    monkeypatch.chdir(tmp_path)
    done = locus("hooks", "install", "--agent", "claude-code")

    assert done.code == 0 and "`locus init` makes one" in done.err


def test_show_names_what_is_gone(project: Path, locus: Locus) -> None:
    """P8: hooks whose Python went away are shown with what is gone, and the command that corrects them."""
    assert locus("hooks", "install", "--agent", "claude-code").code == 0
    assert "  gone  " not in locus("hooks", "show").text
    path = project / ".claude/settings.local.json"
    path.write_text(path.read_text().replace(sys.executable, "/usr/gone/python"))
    output = locus("hooks", "show").text
    assert "gone    /usr/gone/python; `locus hooks install --agent claude-code --local`" in output


def test_a_directory_that_was_deleted_is_reported(project: Path, tmp_path: Path) -> None:
    """P8: in a directory that is gone, as that of a removed worktree, one line says so."""
    (tmp_path / "gone").mkdir()
    for words in ("doctor", "hooks show", "log", "status"):
        command = f"rmdir {tmp_path}/gone; {sys.executable} -m locus_cli {words}; mkdir -p {tmp_path}/gone"
        done = subprocess.run(["sh", "-c", command], cwd=tmp_path / "gone", capture_output=True, text=True)
        assert done.stderr == "locus: the current directory was deleted. Change to one that exists (cd).\n"
