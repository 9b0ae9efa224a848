"""`locus hooks show`: which hooks are installed."""

import dataclasses
import os
from typing import TYPE_CHECKING

import click

from ..access import json_option, put, say
from ..jsonout import document
from ..text import lines
from .text import agents_meant, homes, project_directory, where_options

if TYPE_CHECKING:
    from eventlog.setup.install import Registered


@click.command("show")
@where_options
@json_option
@click.pass_context
def command(ctx: click.Context, agent: str | None, level: str | None, as_json: bool) -> None:
    """Show which hooks are installed, and where.

    For each settings file that has hooks of ours: the events and the command, and whether the status line is
    ours, of agents that have one. `locus doctor` also tries whether they work.
    """
    from eventlog.base.fs import REAL
    from eventlog.setup import install as engine
    from eventlog.setup import launch

    directory, agent_homes = project_directory(ctx), homes()
    by_path: dict[str, engine.Registered] = {}
    for name in agents_meant(agent):
        for at in [level] if level else engine.LEVELS:
            path = engine.settings_path(name, at, directory, agent_homes)
            by_path.setdefault(path, engine.registered_in(REAL, name, at, path))
    if as_json:
        put(document({"settings": [dataclasses.asdict(entry) for entry in by_path.values()]}))
        return
    lost = {
        entry.path
        for entry in by_path.values()
        if entry.status_line is None and engine.had_status_line(REAL, entry.path, agent_homes)
    }
    shown = [
        entry
        for entry in by_path.values()
        if entry.events or entry.problem or entry.status_line or entry.path in lost
    ]
    for entry in shown:
        if entry.problem:
            say(entry.problem)
            continue
        missing = f"\n  missing {', '.join(entry.missing)}" if entry.missing else ""
        commands = "".join(f"\n  runs    {lines(line)}" for line in entry.lines)
        named = [path for line in entry.lines for path in launch.named_in(line, entry.agent) or ()]
        repair = f"`locus hooks install --agent {entry.agent} --{entry.level}`"
        gone = "".join(
            f"\n  gone    {lines(path)}; {repair} corrects it"
            for path in named
            if not os.access(path, os.R_OK)
        )
        off = f"\n  off     {entry.disabled} is set in this file" if entry.disabled else ""
        put(f"{entry.agent} ({entry.level}) {entry.path}\n  events  {', '.join(entry.events) or 'none'}")
        put(f"{missing}{commands}{gone}{_status_line(entry, entry.path in lost)}{off}\n")
    if not shown:
        say("No hook of ours is installed. `locus hooks install` does it.")


def _status_line(entry: "Registered", is_lost: bool) -> str:
    """What there is to say of the status line, of agents that have one."""
    from eventlog.setup import install as engine
    from eventlog.setup import launch

    if not engine.spec_of(entry.agent)[1].has_status_line:
        return ""
    again = f"`locus hooks install --agent {entry.agent} --{entry.level} --statusline`"
    if entry.status_line is None:
        return f"\n  status  {'ours is gone' if is_lost else 'not ours'}; {again} sets it"
    program = launch.missing_program(entry.status_line)
    gone = "" if program is None else f"\n  gone    {lines(program)}; {again} corrects it"
    return f"\n  status  {lines(entry.status_line)}{gone}"
