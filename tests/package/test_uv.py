"""The commands of docs/install.md that install Locus with uv, run on the wheel that was built."""

import json
import re
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.package.conftest import ROOT


class Machine:
    """A home without Locus, a copy of what was built, and a uv that asks no index."""

    def __init__(self, directory: Path, wheel: Path, wheels: Path, uv: Path) -> None:
        self.home, self.checkout, self.project = (
            directory / name for name in ("home", "checkout", "project")
        )
        (self.checkout / "dist").mkdir(parents=True)
        shutil.copy(wheel, self.checkout / "dist")
        self.wheel = self.checkout / "dist" / wheel.name
        (self.project / ".claude").mkdir(parents=True)
        subprocess.run(["git", "init", "-q"], cwd=self.project, check=True)
        self.environ = {
            "HOME": str(self.home),
            "PATH": f"{self.home}/.local/bin:{uv}:/usr/bin:/bin",
            "UV_FIND_LINKS": str(wheels),
            "UV_NO_INDEX": "1",
            "UV_OFFLINE": "1",
            "UV_NO_CONFIG": "1",
            "UV_NO_PROGRESS": "1",
            "UV_PYTHON_DOWNLOADS": "never",
        }

    def run(self, command: str, directory: Path | None = None) -> "subprocess.CompletedProcess[str]":
        return subprocess.run(
            ["sh", "-c", command],
            cwd=directory or self.checkout,
            env=self.environ,
            capture_output=True,
            text=True,
            stdin=subprocess.DEVNULL,
            timeout=120,
        )


@pytest.fixture
def machine(tmp_path: Path, wheel: Path, wheels: Path, uv: Path) -> Machine:
    return Machine(tmp_path, wheel, wheels, uv)


def shown(word: str) -> str:
    """The command of docs/install.md that begins so."""
    page = (ROOT / "docs/install.md").read_text(encoding="utf-8")
    (command,) = re.findall(rf"^({word} .*)$", page, re.M)
    return str(command)


def test_uv_installs_it_to_stay(machine: Machine) -> None:
    """`uv tool install` of the page; the hooks that it installs then record a session."""
    done = machine.run(shown("uv tool install"))
    assert done.returncode == 0, done.stderr
    assert (
        machine.run("locus init && locus hooks install --agent claude-code", machine.project).returncode == 0
    )
    settings = (machine.project / ".claude/settings.local.json").read_text()
    (line,) = set(re.findall(r'"command": "(.*)"', settings))
    payload = {"hook_event_name": "UserPromptSubmit", "session_id": "s", "prompt": "Try uv"}
    call = json.dumps({**payload, "cwd": str(machine.project)})
    machine.run(f"printf %s {shlex.quote(call)} | ( {line} )", machine.project)

    assert str(machine.home / ".local/share/uv/tools") in line
    assert "Try uv" in machine.run("locus log", machine.project).stdout


def test_uvx_tries_it(machine: Machine) -> None:
    """`uvx --from` of the page, without anything installed."""
    done = machine.run(shown("uvx"))

    assert done.returncode == 0, done.stderr
    assert re.fullmatch(r"locus \d+\.\d+\.\d+\n", done.stdout)
    assert not (machine.home / ".local/bin").exists()


def test_uvx_installs_no_hooks(machine: Machine) -> None:
    """Its environment is in a cache: the refusal names that, and a command that works as it is."""
    done = machine.run(f"uvx --from {machine.wheel} locus hooks install", machine.project)
    command = re.findall(r"`(uv tool install .*?)`", done.stderr)

    assert done.returncode == 3, done.stderr
    assert f"is in a cache, {machine.home}/.cache/uv" in done.stderr
    assert list((machine.project / ".claude").iterdir()) == []
    assert command == [f"uv tool install {machine.wheel}"]
    assert machine.run(f"{command[0]} && locus hooks install --dry-run", machine.project).returncode == 0
