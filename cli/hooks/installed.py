"""`locus hooks show` and `uninstall`: which hooks are installed, and out with them."""

import os

import click

from eventlog.base.fs import REAL
from eventlog.setup import git_exclude, launch
from eventlog.setup import install as engine
from eventlog.setup.install import Registered
from eventlog.setup.settings_file import SettingsEdit

from ..options import json_option
from ..output import document, lines, put, say
from .text import (
    agents_meant,
    edit_options,
    homes,
    out_of_lists,
    project_directory,
    report_changes,
    where_options,
)


@click.command("show")
@where_options
@json_option
def show(agent: str | None, level: str | None, as_json: bool) -> None:
    """Show which hooks are installed, and where.

    For each settings file that has hooks of ours: the events and the command, and whether the status line is
    ours, of agents that have one. `locus doctor` also tries whether they work.
    """
    directory, agent_homes = project_directory(), homes()
    by_path: dict[str, engine.Registered] = {}
    for name in agents_meant(agent):
        for at in [level] if level else engine.LEVELS:
            path = engine.settings_path(name, at, directory, agent_homes)
            by_path.setdefault(path, engine.registered_in(REAL, name, at, path))
    if as_json:
        put(document({"settings": list(by_path.values())}))
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


def _status_line(entry: Registered, is_lost: bool) -> str:
    """What there is to say of the status line, of agents that have one."""
    if not engine.spec_of(entry.agent)[1].has_status_line:
        return ""
    again = f"`locus hooks install --agent {entry.agent} --{entry.level} --statusline`"
    if entry.status_line is None:
        return f"\n  status  {'ours is gone' if is_lost else 'not ours'}; {again} sets it"
    program = launch.missing_program(entry.status_line)
    gone = "" if program is None else f"\n  gone    {lines(program)}; {again} corrects it"
    return f"\n  status  {lines(entry.status_line)}{gone}"


@click.command("uninstall")
@where_options
@edit_options
def uninstall(agent: str | None, level: str | None, dry_run: bool, as_json: bool) -> None:
    """Take the hooks out of the agents' settings again.

    Without an option, out of both settings of this project; those of the user, which serve other projects
    too, only with --user. What is recorded stays. A file that nobody else edited since gets the bytes it
    had before the first install; otherwise our entries go and nothing else. A file that was made for
    the hooks alone is removed, and so are our lines in the repository's info/exclude.
    """
    directory, agent_homes = project_directory(), homes()
    agents = agents_meant(agent)
    levels = [level] if level else [engine.LOCAL, engine.PROJECT]
    changes = {}
    taken_back: list[SettingsEdit] = []
    for name in agents:
        for at in levels:
            path = engine.settings_path(name, at, directory, agent_homes)
            is_meant = agent == name or engine.registered_in(REAL, name, at, path).exists
            if path not in changes and (is_meant or engine.was_installed(REAL, path, agent_homes)):
                changes[path] = (at, engine.uninstall(REAL, name, path, agent_homes, dry_run=dry_run))
                taken_back += out_of_lists(git_exclude.claim_of_hooks(path), agent_homes, dry_run=dry_run)
    report_changes(list(changes.values()), dry_run=dry_run, as_json=as_json, taken_back=taken_back)
    if all(change.kind == "unchanged" for _, change in changes.values()):
        say(
            "No hook of ours is installed there."
            if level
            else "No hook of ours is installed in this project."
        )
    if level is None:
        for name in agents:
            path = engine.settings_path(name, engine.USER, directory, agent_homes)
            if engine.registered_in(REAL, name, engine.USER, path).events:
                say(f"{path} still has our hooks, for every project: `locus hooks uninstall --user`.")
