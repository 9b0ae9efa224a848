"""The plugin for Claude Code: what it names exists, and its commands run as they are written."""

import json
import re
import shlex
from pathlib import Path

import click
import pytest

from locus_cli.root import cli

ROOT = Path(__file__).resolve().parents[2]
PLUGIN = ROOT / "plugins/claude-code"
COMMANDS = sorted((PLUGIN / "commands").glob("*.md"))


def test_the_marketplace_finds_the_plugin() -> None:
    """`/plugin install locus@locus` leads to the plugin's folder, under the plugin's own name."""
    market = json.loads((ROOT / ".claude-plugin/marketplace.json").read_text())
    (entry,) = market["plugins"]
    plugin = json.loads((ROOT / entry["source"] / ".claude-plugin/plugin.json").read_text())

    assert (ROOT / entry["source"]).resolve() == PLUGIN
    assert entry["name"] == plugin["name"] == market["name"] == "locus"


@pytest.mark.parametrize("page", COMMANDS, ids=lambda page: page.stem)
def test_commands_run_what_exists(page: Path) -> None:
    """Each command line of a slash command is one of `locus` with its options, and may be run."""
    text = page.read_text(encoding="utf-8")
    _, head, body = text.split("---\n", 2)
    allowed = re.findall(r"Bash\(locus ([a-z]+):\*\)", head)
    lines = re.findall(r"!?`locus ([^`]+)`", body)

    assert "description: " in head and lines
    for line in lines:
        verb, *words = shlex.split(line.replace("$ARGUMENTS", ""))
        command = cli.get_command(click.Context(cli), verb)
        assert command is not None, line
        known = {option for parameter in command.params for option in parameter.opts}
        assert {word for word in words if word.startswith("-")} <= known, line
        if f"!`locus {line}`" in text:
            assert verb in allowed


@pytest.mark.parametrize("name", ["undo", "redo"])
def test_nothing_is_changed_without_a_yes(name: str) -> None:
    """What runs at once is a dry run; the plan's token carries it out, and nothing else does."""
    text = (PLUGIN / f"commands/{name}.md").read_text(encoding="utf-8")

    assert all("--dry-run" in line for line in re.findall(r"!`([^`]+)`", text))
    assert "--yes" not in text and "--token T" in text
