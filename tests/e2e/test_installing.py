"""Every way to put the hooks in, seen working in the true client, and taken out again."""

import dataclasses
from pathlib import Path

import pytest

from .desk import Desk
from .test_turns import agree

PLUGIN = Path(__file__).parent.parent.parent / "plugins/claude-code"


@pytest.mark.parametrize("levels", [["--local"], ["--project"], ["--user", "--project"]], ids="".join)
def test_installed_hooks_record(bare: Desk, levels: list[str]) -> None:
    """P1, P3: hooks of this project, shared or not, record a turn; installed twice they record it once."""
    trust(bare)
    for level in levels:
        bare.locus("hooks", "install", level, "--agent", bare.client.agent)
    done = bare.run("create")
    assert done.code == 0, done.err

    assert len(bare.turns()) == 1
    # Codex gives a model call no id, so nobody can tell one that is told twice.
    agree(bare, tokens=len(levels) == 1 or bare.client.agent != "codex")
    assert len(bare.events("tool_start")) == len(bare.events("action")) == 2
    assert [event.get("operation") for event in bare.events("session")].count("start") == 1


def test_the_plugin_records(bare: Desk) -> None:
    """P1: the plugin for Claude Code, loaded from its directory, records a turn."""
    if bare.client.agent != "claude-code":
        pytest.skip("a plugin of Claude Code")
    home = dataclasses.replace(bare.home, options=("--plugin-dir", str(PLUGIN)))
    desk = dataclasses.replace(bare, home=home)
    done = desk.run("shell")
    assert done.code == 0, done.err

    assert len(desk.turns()) == 1
    agree(desk)


def test_uninstalled_hooks_record_nothing(desk: Desk) -> None:
    """P5: after `locus hooks uninstall` the settings have their bytes back, and nothing is recorded."""
    settings = desk.home.path / desk.client.settings
    installed = settings.read_bytes()
    desk.run("edit")
    desk.locus("hooks", "uninstall", "--user", "--agent", desk.client.agent)
    bare = settings.read_bytes()
    desk.run("more")

    assert (len(desk.turns()), b"locus" in installed, b"locus" in bare) == (1, True, False)


def test_the_doctor_is_content(desk: Desk) -> None:
    """P7: after a turn of a true client `locus doctor` finds nothing wrong."""
    desk.run("shell")

    desk.locus("doctor")
    assert "1" in desk.locus("status")


def trust(desk: Desk) -> None:
    """Codex reads a project's own settings only when the person trusts the project."""
    if desk.client.agent == "codex":
        with (desk.home.path / ".codex/config.toml").open("a") as file:
            file.write(f'[projects."{desk.project}"]\ntrust_level = "trusted"\n')
