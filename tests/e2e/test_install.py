"""Hooks as `locus hooks install` writes them, run by the true clients, from each file they may be in."""

import json
import subprocess
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from eventlog.store import Store

from .clients import Client
from .desk import Desk, open_desk, prompt_of

PLUGIN = Path(__file__).resolve().parents[2] / "plugins/claude-code"


def trust(desk: Desk) -> None:
    """Have Codex take the project for one whose own settings count; Claude Code does with `-p`."""
    config = desk.home.path / ".codex/config.toml"
    if desk.client.agent == "codex":
        config.write_text(config.read_text() + f'[projects."{desk.project}"]\ntrust_level = "trusted"\n')


@pytest.mark.parametrize("level", ["local", "project", "user"])
def test_installed_hooks_record_until_they_are_taken_out(bare: Desk, level: str) -> None:
    """P1, P4, P7: from whichever file, the client runs the hooks, the record is whole, the doctor content;
    taken out, the settings are what they were and nothing more is recorded."""
    trust(bare)
    before = {path: path.read_bytes() for path in bare.home.path.rglob("*.json")}
    bare.locus("hooks", "install", f"--{level}", "--agent", bare.client.agent)
    done = bare.run("edit")
    assert done.code == 0, done.err

    assert bare.prompts() == [prompt_of("edit")]
    assert bare.replayed(bare.turns()[-1]) == bare.on_disk()
    bare.locus("doctor")
    [(session,)] = bare.rows("select session_id from sessions")
    answer = json.loads(bare.locus("show", str(session), "--json"))["completeness"]
    assert answer["tool_calls"] == answer["captured"] > 0
    assert answer["skipped"] == [] and answer["ended"] is True

    events = len(bare.events())
    bare.locus("hooks", "uninstall", f"--{level}", "--agent", bare.client.agent)
    assert all(path.read_bytes() == data for path, data in before.items())
    assert bare.run("edits").code == 0
    assert len(bare.events()) == events


def test_codex_runs_what_is_trusted(bare: Desk) -> None:
    """What docs/install.md says: without trust Codex runs no hook and does not say so, but the doctor does;
    with it, they record."""
    if bare.client.agent != "codex":
        pytest.skip("Claude Code trusts its own settings")
    bare.locus("hooks", "install", "--user", "--agent", "codex")
    client = replace(bare.client, arguments=_without(bare.client, "--dangerously-bypass-hook-trust"))
    assert client.run(bare.home, bare.project, prompt_of("edit")).code == 0
    assert bare.events() == []
    assert "has not noted that you trust 13 of the 13 hooks" in bare.locus("doctor")

    config = bare.home.path / ".codex/config.toml"
    trusted = [
        f'[hooks.state."{one["key"]}"]\ntrusted_hash = "{one["currentHash"]}"\n' for one in listed_hooks(bare)
    ]
    config.write_text(config.read_text() + "".join(trusted))
    assert "has not noted" not in bare.locus("doctor")
    assert client.run(bare.home, bare.project, prompt_of("edits")).code == 0
    assert bare.prompts() == [prompt_of("edits")]


def _without(client: Client, word: str) -> "Callable[..., list[str]]":
    return lambda *given: [one for one in client.arguments(*given) if one != word]


def listed_hooks(desk: Desk) -> list[dict[str, str]]:
    """The hooks as Codex itself lists them, with what it would trust."""
    calls = [
        {"id": 1, "method": "initialize", "params": {"clientInfo": {"name": "test", "version": "1"}}},
        {"method": "initialized"},
        {"id": 2, "method": "hooks/list", "params": {"cwds": [str(desk.project)]}},
    ]
    with subprocess.Popen(
        [str(desk.client.binary), "app-server"],
        cwd=desk.project,
        env=desk.home.environment(),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as server:
        assert server.stdin is not None and server.stdout is not None
        try:
            server.stdin.write("".join(json.dumps(call) + "\n" for call in calls))
            server.stdin.flush()
            answers = map(json.loads, server.stdout)
            answer = next(answer for answer in answers if answer.get("id") == 2)
        finally:
            server.kill()
    found: list[dict[str, str]] = answer["result"]["data"][0]["hooks"]
    return found


def test_the_plugin_records(client: Client, tmp_path: Path) -> None:
    """P4: as a plugin, with `locus-hook` on the PATH and no settings, the hooks record as well."""
    if client.agent != "claude-code":
        pytest.skip("a plugin for Claude Code")
    with open_desk(client, tmp_path) as desk:
        Store.init(desk.store).close()

        def with_plugin(*given: object) -> list[str]:
            return [*client.arguments(*given), "--plugin-dir", str(PLUGIN)]  # type: ignore[arg-type]

        done = replace(client, arguments=with_plugin).run(desk.home, desk.project, prompt_of("edit"))
        assert done.code == 0, done.err

        assert desk.prompts() == [prompt_of("edit")]
        assert desk.replayed(desk.turns()[-1]) == desk.on_disk()
        assert [event["operation"] for event in desk.events("session")][-1] == "end"
