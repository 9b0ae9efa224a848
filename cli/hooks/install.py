"""`locus hooks install`, `show` and `uninstall`: our hooks in the settings of coding agents."""

import os

import click

import eventlog
from eventlog import agents
from eventlog.base import identity
from eventlog.base.fs import REAL
from eventlog.base.layout import Layout
from eventlog.setup import git_exclude, installation, launch
from eventlog.setup import install as engine
from eventlog.setup.git_exclude import Standing
from eventlog.setup.install import Homes, Registered
from eventlog.setup.settings_file import SettingsEdit

from ..access import store_option
from ..exits import usage_error
from ..options import json_option
from ..output import document, lines, put, say
from .text import (
    COMMANDS,
    agents_meant,
    chosen,
    edit_options,
    homes,
    listed,
    out_of_lists,
    project_directory,
    report_changes,
    where_options,
)

_WITH_STATUS_LINE = [
    spec for spec in agents.installable() if spec.settings is not None and spec.settings.has_status_line
]
_TITLES = listed([spec.title for spec in _WITH_STATUS_LINE])
_HELP = """Have coding agents tell Locus what they do.

Without an option the hooks go into the project's settings for you alone (--local): {files}.
Git ignores these files from then on, by a line in the repository's info/exclude, so that no commit, checkout
or stash takes them away. Installing again changes nothing, or brings the hooks up to date. Everything else in
the files stays as it is, and `locus hooks uninstall` gives back the bytes that were there.

A hook of --local and --user names this Python and a stub file beside it; one of --project, which other
machines read too, names the program locus-hook and does nothing where that is not on the PATH. An
installation in a cache, as uvx and pipx run make it, is refused, with the command that makes one to stay.

On a terminal it asks once whether agents are to be told what is known here when they begin a session;
elsewhere they are told nothing until --brief. The answer is kept in the store's config.toml.

--statusline puts `locus statusline` into the same file of {titles}; a status line of somebody else is
never replaced. Installing again without the option leaves ours there.
"""


def _help() -> str:
    files = [
        f"{spec.folder}/{spec.settings.local_file or spec.settings.file}"
        for spec in agents.installable()
        if spec.settings is not None
    ]
    return _HELP.format(files=listed(files), titles=_TITLES)


@click.command("install", help=_help())
@where_options
@click.option(
    "--statusline", is_flag=True, help=f"Set the status line of {_TITLES}, too: `locus statusline`."
)
@click.option(
    "--brief/--no-brief",
    "brief",
    default=None,
    help="Tell agents what is known here when they begin a session, or nothing.",
)
@edit_options
def install_command(
    agent: str | None, level: str | None, statusline: bool, brief: bool | None, dry_run: bool, as_json: bool
) -> None:
    install(agent, level or "local", dry_run=dry_run, as_json=as_json, statusline=statusline, brief=brief)


def install(
    agent: str | None,
    level: str,
    *,
    dry_run: bool,
    as_json: bool,
    statusline: bool = False,
    brief: bool | None = None,
) -> None:
    """Edit the settings and say what was done and what is left to do."""
    if level != engine.PROJECT:
        installation.refuse_cached("locus hooks install")
    directory, agent_homes = project_directory(), homes()
    agents = chosen(agent, directory, agent_homes)
    if statusline and not any(engine.spec_of(name)[1].has_status_line for name in agents):
        option = f"--agent {_WITH_STATUS_LINE[0].name}"
        raise usage_error(f"only {_TITLES} has a status line: use {option}.")
    stub = f"{launch.stub_directory(agent_homes.data)}/{launch.STUB}"
    if level != engine.PROJECT and not dry_run:
        stub = launch.make_stub(REAL, COMMANDS, agent_homes.data)
    changes, excluded = [], []
    for name in agents:
        line = launch.portable_line(name) if level == engine.PROJECT else launch.fast_line(name, stub)
        path = engine.settings_path(name, level, directory, agent_homes)
        wanted = engine.handlers(name, line)
        shown = _status_line(level) if statusline and engine.spec_of(name)[1].has_status_line else None
        changed = engine.install(REAL, name, path, wanted, agent_homes, shown=shown, dry_run=dry_run)
        changes.append((level, changed))
        excluded += _left_out(directory, path, level, stub, agent_homes, dry_run=dry_run)
    report_changes(changes, dry_run=dry_run, as_json=as_json, excluded=excluded)
    if not dry_run:
        _say_what_is_left(directory, [change for _, change in changes], brief)


def _status_line(level: str) -> dict[str, object]:
    return launch.status_line() if level == engine.PROJECT else launch.status_line(launch.own_program())


def _left_out(
    directory: str, path: str, level: str, stub: str, agent_homes: Homes, *, dry_run: bool
) -> list[Standing]:
    """Have git ignore what a checkout or a stash is not to take away: of the settings for one user alone the
    file, and what its hooks start where that is in the same working tree."""
    claim = git_exclude.claim_of_hooks(path)
    if level != engine.LOCAL:
        if level == engine.PROJECT and not dry_run:  # it is to be committed now
            git_exclude.take_back(REAL, agent_homes.state, claim)
        return []
    exclusions = git_exclude.exclude(REAL, path, agent_homes.state, claim, dry_run=dry_run)
    root = launch.stub_root(agent_homes.data)
    exclusions += git_exclude.exclude_around(
        REAL, stub, root, agent_homes.state, claim, within=directory, dry_run=dry_run
    )
    return exclusions


def _say_what_is_left(directory: str, changes: list[SettingsEdit], brief: bool | None) -> None:
    from ..setup import brief_choice
    from ..setup.ignored_files import ask_once
    from ..setup.person import note_once

    for next_step in (engine.spec_of(change.agent)[1].next_step for change in changes):
        if next_step is not None:
            say(next_step)
    try:
        store = store_option() or identity.find(directory, os.environ)
        if store is None:
            say("There is no store here yet, so the hooks record nothing: `locus init` makes one.")
        elif os.path.isfile(Layout(store).store_file):
            ask_once(Layout(store))
            note_once(store, directory)
            brief_choice.settle(Layout(store), brief)
    except eventlog.Refused as error:  # installed they are: for other projects, or for when this is put right
        say(f"The hooks record nothing here: {error}")
    say("Restart running agents; `locus doctor` checks all of it.")


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
        put(f"{missing}{commands}{gone}{_status_line_shown(entry, entry.path in lost)}{off}\n")
    if not shown:
        say("No hook of ours is installed. `locus hooks install` does it.")


def _status_line_shown(entry: Registered, is_lost: bool) -> str:
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
