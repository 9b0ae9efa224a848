"""What `locus doctor` says of the tools: which agents have them, and whether the server starts."""

import json
import os
import sys
from pathlib import Path

import pytest

from eventlog import agents
from eventlog.base.fs import REAL
from eventlog.mcp import health
from eventlog.mcp import install as engine
from eventlog.setup.install import Homes
from tests.cli.support import Locus

AGENTS = [spec.name for spec in agents.servable()]


@pytest.fixture
def environ(tmp_path: Path) -> dict[str, str]:
    """A home of one's own, and a PATH without this installation."""
    (tmp_path / "home").mkdir()
    (tmp_path / "work").mkdir()
    return {"HOME": str(tmp_path / "home"), "PATH": "/usr/bin:/bin"}


def put_in(tmp_path: Path, environ: dict[str, str], agent: str, scope: str) -> Path:
    homes = Homes.of(environ)
    path = engine.settings_path(agent, scope, str(tmp_path / "work"), homes, environ)
    engine.install(REAL, agent, path, engine.command_line(agent, scope, None), homes)
    return Path(path)


def asked(tmp_path: Path, environ: dict[str, str]) -> list[tuple[str, str]]:
    found = list(health.findings(str(tmp_path / "work"), environ))
    assert {one.about for one in found} <= {"mcp"}
    return [(one.level, f"{one.what} → {one.todo}") for one in found]


def test_agents_with_the_tools_and_without(tmp_path: Path, environ: dict[str, str]) -> None:
    """P8: of an agent that is here the doctor says whether it has the tools, and that the server starts."""
    (tmp_path / "home/.codex").mkdir()
    (tmp_path / "home/.gemini").mkdir()
    put_in(tmp_path, environ, "claude-code", engine.USER)
    put_in(tmp_path, environ, "codex", engine.USER)
    found = asked(tmp_path, environ)

    assert [level for level, _ in found] == ["ok", "ok", "note"]
    assert "claude-code has our tools" in found[0][1] and "the server starts" in found[0][1]
    assert "`locus mcp install --agent gemini`" in found[2][1]


def test_a_server_that_does_not_start(tmp_path: Path, environ: dict[str, str]) -> None:
    """P8: without the extra the doctor says so, and how to install it."""
    put_in(tmp_path, environ, "opencode", engine.USER)
    (tmp_path / "mcp.py").write_text("raise ImportError('not here')\n")
    [(level, text)] = asked(tmp_path, {**environ, "PYTHONPATH": str(tmp_path)})

    assert level == "problem" and "not here" in text and "pip install 'locus-eventlog[mcp]'" in text


def test_entries_that_lead_nowhere(tmp_path: Path, environ: dict[str, str]) -> None:
    """P4, P8: a program that is gone or not on the PATH is a problem; one of somebody else's is named and not
    run, nor is anything in a file that cannot be read."""
    path = put_in(tmp_path, environ, "claude-code", engine.PROJECT)
    [(level, text)] = asked(tmp_path, environ)
    assert level == "problem" and "not on your PATH" in text and os.path.dirname(sys.executable) in text

    there = tmp_path / "bin"
    there.mkdir()
    (there / "locus").write_text(f"#!/bin/sh\ntouch {tmp_path}/ran\n")
    (there / "locus").chmod(0o755)
    [(level, text)] = asked(tmp_path, {**environ, "PATH": f"{there}:/usr/bin"})
    assert level == "note" and "another installation" in text and not (tmp_path / "ran").exists()

    path.write_text(path.read_text().replace('"locus",', f'"{there}/gone/locus",', 1))
    [(level, text)] = asked(tmp_path, environ)
    assert level == "problem" and "gone" in text
    path.write_text('{"mcpServers": {"locus": {"command": "other"}}}')
    assert [level for level, _ in asked(tmp_path, environ)] == ["note"]
    for broken in ('{"mcpServers": ', "\N{REPLACEMENT CHARACTER}", "[]", '{"mcpServers": 7}'):
        path.write_text(broken)
        assert {level for level, _ in asked(tmp_path, environ)} <= {"note"}
    path.write_bytes(b"\xff\xfe")
    assert [level for level, _ in asked(tmp_path, environ)] == ["note"]


@pytest.mark.parametrize("agent", ["codex", "opencode"])
def test_tools_that_are_switched_off(tmp_path: Path, environ: dict[str, str], agent: str) -> None:
    """P8: an entry that its user switched off is worth a word."""
    path = put_in(tmp_path, environ, agent, engine.USER)
    text = path.read_text()
    off = f"{text}enabled = false\n" if agent == "codex" else text.replace("true", "false")
    path.write_text(off)
    assert [(level, "switches them off" in text) for level, text in asked(tmp_path, environ)] == [
        ("note", True)
    ]


def test_the_doctor_tells_of_the_tools(
    tmp_path: Path, environ: dict[str, str], locus: Locus, monkeypatch: pytest.MonkeyPatch
) -> None:
    """P8: `locus doctor` has it among its findings."""
    for name in ("CLAUDE_CONFIG_DIR", "CODEX_HOME", "GEMINI_CLI_HOME", "XDG_CONFIG_HOME", "LOCUS_DIR"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environ.items():
        monkeypatch.setenv(name, value)
    monkeypatch.chdir(tmp_path / "work")
    put_in(tmp_path, environ, "claude-code", engine.PROJECT)
    answer = json.loads(locus("doctor", "--json").out)
    assert [one["level"] for one in answer["findings"] if one["about"] == "mcp"] == ["problem"]
