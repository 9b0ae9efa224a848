"""`locus hooks install`: our hooks into the settings of coding agents."""

import os
from typing import TYPE_CHECKING

import click

from eventlog import agents

from ..access import say
from .text import (
    COMMANDS,
    chosen,
    edit_options,
    homes,
    listed,
    project_directory,
    report_changes,
    where_options,
)

if TYPE_CHECKING:
    from eventlog.setup.git_exclude import Standing
    from eventlog.setup.install import Homes
    from eventlog.setup.settings_file import SettingsEdit


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
machines read too, names the program locus-hook and does nothing where that is not on the PATH.

On a terminal it asks once whether agents are to be told what is known here when they begin a session;
elsewhere they are told nothing until --brief. The answer stands in the store's config.toml.

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
@click.pass_context
def command(
    ctx: click.Context,
    agent: str | None,
    level: str | None,
    statusline: bool,
    brief: bool | None,
    dry_run: bool,
    as_json: bool,
) -> None:
    install(
        ctx, agent, level or "local", dry_run=dry_run, as_json=as_json, statusline=statusline, brief=brief
    )


def install(
    ctx: click.Context,
    agent: str | None,
    level: str,
    *,
    dry_run: bool,
    as_json: bool,
    statusline: bool = False,
    brief: bool | None = None,
) -> None:
    """Edit the settings and say what was done and what is left to do."""
    from eventlog.base.fs import REAL
    from eventlog.setup import install as engine
    from eventlog.setup import launch

    directory, agent_homes = project_directory(ctx), homes()
    agents = chosen(agent, directory, agent_homes)
    if statusline and not any(engine.spec_of(name)[1].has_status_line for name in agents):
        option = f"--agent {_WITH_STATUS_LINE[0].name}"
        raise click.UsageError(f"only {_TITLES} has a status line: use {option}.", ctx)
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
        _say_what_is_left(ctx, directory, [change for _, change in changes], brief)


def _status_line(level: str) -> "dict[str, object]":
    from eventlog.setup import install as engine
    from eventlog.setup import launch

    return launch.status_line() if level == engine.PROJECT else launch.status_line(launch.own_program())


def _left_out(
    directory: str, path: str, level: str, stub: str, agent_homes: "Homes", *, dry_run: bool
) -> "list[Standing]":
    """Have git ignore what a checkout or a stash is not to take away: of the settings for one user alone the
    file, and what its hooks start where that is in the same working tree."""
    from eventlog.base.fs import REAL
    from eventlog.setup import git_exclude, launch
    from eventlog.setup import install as engine

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


def _say_what_is_left(
    ctx: click.Context, directory: str, changes: "list[SettingsEdit]", brief: bool | None
) -> None:
    from eventlog.base import identity
    from eventlog.base.errors import Refused
    from eventlog.base.layout import Layout
    from eventlog.setup import install as engine

    from ..setup import brief_choice
    from ..setup.ignored_files import ask_once
    from ..setup.person import note_once

    for next_step in (engine.spec_of(change.agent)[1].next_step for change in changes):
        if next_step is not None:
            say(next_step)
    try:
        store = ctx.find_root().obj or identity.find(directory, os.environ)
        if store is None:
            say("There is no store here yet, so the hooks record nothing: `locus init` makes one.")
        elif os.path.isfile(Layout(store).store_file):
            ask_once(Layout(store))
            note_once(store, directory)
            brief_choice.settle(Layout(store), brief)
    except Refused as error:  # installed they are: for other projects, or for when this is put right
        say(f"The hooks record nothing here: {error}")
    say("Start running agents anew; `locus doctor` checks all of it.")
