"""`locus mcp install` and `uninstall`: our entry in the settings of four agents, and nothing else of them."""

import json
import os
import sys
import tomllib
from pathlib import Path

import pytest

from eventlog.base.errors import Refused
from eventlog.base.fs import REAL
from eventlog.mcp import install as engine
from eventlog.setup.install import Homes
from tests.cli.support import Locus, server_program

# What somebody has in their settings, in the file of a project, in their own layout.
THEIRS = {
    "claude-code": (".mcp.json", '{ "mcpServers": {"mine": {"command": "x", "args": [1.50]}} }'),
    "codex": (".codex/config.toml", '# mine\nmodel = "m"\n\n[mcp_servers.mine]\ncommand = "x" # so\n'),
    "gemini-cli": (
        ".gemini/settings.json",
        '{\r\n\t// mine\r\n\t"ui": {"theme": "dark"}, /* so */\r\n'
        '\t"mcpServers": {\r\n\t\t"mine": {"command": "x"}\r\n\t}\r\n}',
    ),
    "opencode": ("opencode.jsonc", '{\n  "model": "m", // mine\n  "mcp": {}\n}\n'),
}


@pytest.fixture
def work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    root = tmp_path / "work"
    root.mkdir()
    monkeypatch.chdir(root)
    for name in ("CLAUDE_CONFIG_DIR", "CODEX_HOME", "GEMINI_CLI_HOME", "XDG_CONFIG_HOME", "XDG_STATE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PATH", f"{server_program(tmp_path / 'bin')}:/usr/bin:/bin")
    return root


def entry_in(agent: str, path: Path) -> dict[str, object]:
    text = path.read_text()
    if agent == "codex":
        found: dict[str, object] = tomllib.loads(text)["mcp_servers"]["locus"]
        return found
    above = "mcp" if agent == "opencode" else "mcpServers"
    without_comments = "\n".join(line.split("//")[0].replace("/* so */", "") for line in text.splitlines())
    entry: dict[str, object] = json.loads(without_comments)[above]["locus"]
    return entry


@pytest.mark.parametrize("agent", THEIRS)
def test_what_somebody_has_stays_as_it_is(work: Path, locus: Locus, agent: str) -> None:
    """P4: an entry is put in, put in again and taken out; the bytes of everything else never change."""
    name, text = THEIRS[agent]
    path = work / name
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(text.encode())
    dry = locus("mcp", "install", "--agent", agent, "--dry-run")
    assert dry.code == 0 and "+" in dry.text and path.read_bytes() == text.encode()

    assert locus("mcp", "install", "--agent", agent).code == 0
    once = path.read_bytes()
    assert engine.is_ours(entry_in(agent, path))
    assert locus("mcp", "install", "--agent", agent).code == 0
    assert path.read_bytes() == once
    for line in text.splitlines():
        assert line.strip(" \t{}") in once.decode()
    answer = json.loads(locus("mcp", "uninstall", "--agent", agent, "--json").text)

    assert [change["change"] for change in answer["changes"]] == ["edited"]
    assert path.read_bytes() == text.encode() or agent == "opencode"  # whose empty `mcp` goes as well
    assert "locus" not in path.read_text() and "mine" in path.read_text()
    assert "No server of ours" in locus("mcp", "uninstall").err


@pytest.mark.parametrize("scope", ["project", "user"])
def test_files_made_for_it_are_removed(work: Path, locus: Locus, tmp_path: Path, scope: str) -> None:
    """Where there were no settings a file is made, and uninstall removes it; the scope says which program."""
    assert locus("init").code == 0
    assert locus("mcp", "install", "--agent", "all", "--scope", scope).code == 0
    above = work if scope == "project" else tmp_path / "home"
    names = {
        "claude-code": ".mcp.json" if scope == "project" else ".claude.json",
        "codex": ".codex/config.toml",
        "gemini-cli": ".gemini/settings.json",
        "opencode": "opencode.json" if scope == "project" else ".config/opencode/opencode.json",
    }
    for agent, name in names.items():
        entry = entry_in(agent, above / name)
        command = entry["command"]
        line = [*command] if isinstance(command, list) else [command, *entry["args"]]  # type: ignore[misc]
        store = ["--store", f"{work}/.locus"] if (agent, scope) == ("codex", "project") else []
        program = ["locus"] if scope == "project" else line[: -3 - len(store)]
        assert line == [*program, *store, "mcp", "--agent", agent]
        assert scope == "project" or Path(str(program[0])).is_absolute()
    assert locus("mcp", "uninstall", "--scope", scope).code == 0
    assert not any((above / name).exists() for name in names.values())


@pytest.mark.parametrize(
    ("agent", "name", "text"),
    [
        ("claude-code", ".mcp.json", '{"mcpServers": {"locus": {"command": "another"}}}'),
        ("claude-code", ".mcp.json", '{"mcpServers": []}'),
        ("claude-code", ".mcp.json", '{"mcpServers": {}'),
        ("opencode", "opencode.json", '{"mcp": {"locus": {"type": "remote", "url": "https://example.org"}}}'),
        ("codex", ".codex/config.toml", '[mcp_servers.locus]\ncommand = "another"\n'),
        ("codex", ".codex/config.toml", 'mcp_servers = {mine = {command = "x"}}\n'),
        ("codex", ".codex/config.toml", "model = \n"),
    ],
)
def test_what_is_not_ours_or_not_readable_is_refused(
    work: Path,
    locus: Locus,
    agent: str,
    name: str,
    text: str,
) -> None:
    """A server of that name that is not ours, or a file that is not readable, is left as it is (exit 3)."""
    path = work / name
    path.parent.mkdir(exist_ok=True)
    path.write_text(text)
    ended = locus("mcp", "install", "--agent", agent)

    assert ended.code == 3 and ended.err.count("\n") <= 2 and str(path) in ended.err
    assert path.read_text() == text


def test_an_entry_of_ours_that_is_no_table_is_left_to_people(tmp_path: Path) -> None:
    """A Codex entry that somebody spelled in another way is not guessed at."""
    path = tmp_path / "config.toml"
    path.write_text('[mcp_servers]\nlocus = {command = "locus", args = ["mcp"]}\n')
    homes = Homes.of({"HOME": str(tmp_path)})
    with pytest.raises(
        Refused, match=r"not a table of its own\. Take it out by hand\. Nothing was written\."
    ):
        engine.uninstall(REAL, "codex", str(path), homes)
    assert "locus" in path.read_text()


def test_an_older_entry_of_ours_is_renewed(tmp_path: Path) -> None:
    """An entry that starts another installation of ours gives its place to the one that is installed."""
    homes = Homes.of({"HOME": str(tmp_path)})
    path = tmp_path / "config.toml"
    path.write_text(
        '[mcp_servers.locus]\ncommand = "/old/python"\nargs = ["-m", "locus_cli", "mcp"]\n'
        '[mcp_servers.locus.env]\nA = "b"\n[b]\nc = 1\n'
    )
    engine.install(REAL, "codex", str(path), ["locus", "mcp"], homes)

    reported = tomllib.loads(path.read_text())
    assert reported == {"b": {"c": 1}, "mcp_servers": {"locus": {"command": "locus", "args": ["mcp"]}}}


def test_the_users_file_of_claude_code_is_where_it_looks(tmp_path: Path) -> None:
    """Claude Code keeps the user's servers beside its directory, or inside of one that was chosen."""
    home = {"HOME": str(tmp_path)}
    chosen = {**home, "CLAUDE_CONFIG_DIR": str(tmp_path / "c")}
    for environ, expected in ((home, ".claude.json"), (chosen, "c/.claude.json")):
        path = engine.settings_path("claude-code", "user", "/p", Homes.of(environ), environ)
        assert path == str(tmp_path / expected)


def test_a_server_that_does_not_start_is_not_installed(
    work: Path, tmp_path: Path, locus: Locus, monkeypatch: pytest.MonkeyPatch
) -> None:
    """P4, P8: the line is started once as the agent will start it; without an answer to `initialize` the
    command fails, says the way out and writes nothing. Ours answers."""
    here = os.path.dirname(sys.executable)
    (tmp_path / "bin/locus").unlink()
    ended = locus("mcp", "install", "--agent", "claude-code")
    assert (
        ended.code == 1
        and f"locus is not on the PATH. No settings were changed. Next: put {here}" in ended.err
    )
    for does, item in (
        ("exit 7", "exit code 7"),
        ("echo '{}'; read line; sleep 9", "no answer"),
        ("cat", "no answer"),
    ):
        server_program(tmp_path / "bin", does)
        ended = locus("mcp", "install", "--agent", "claude-code")
        assert ended.code == 1 and f"does not start: {item}" in ended.err
    (tmp_path / "bin/mcp.py").write_text("raise ImportError('not here')\n")
    monkeypatch.setenv("PATH", f"{here}:/usr/bin:/bin")
    with monkeypatch.context() as without:
        without.setenv("PYTHONPATH", str(tmp_path / "bin"))
        ended = locus("mcp", "install", "--agent", "claude-code")
    assert ended.code == 1 and "not here" in ended.err and "pip install 'locus-eventlog[mcp]'" in ended.err
    assert not (work / ".mcp.json").exists()

    assert locus("mcp", "install", "--agent", "claude-code").code == 0
    assert (work / ".mcp.json").exists()
