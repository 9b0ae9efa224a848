"""`locus mcp install` and `uninstall`: our server in the settings of coding agents."""

import os
from collections.abc import Sequence

import click

import eventlog
from eventlog import agents
from eventlog.base import identity
from eventlog.base.fs import REAL
from eventlog.setup import git_exclude, installation
from eventlog.setup.settings_file import SettingsEdit

from ..access import store_option
from ..hooks.text import (
    ALL,
    AgentChoice,
    edit_options,
    homes,
    listed,
    out_of_lists,
    project_directory,
    report_changes,
)
from ..options import options
from ..output import say

_HELP = """Have coding agents start `locus mcp`.

Their settings get an entry called locus: {files}
of the project, or the user's own. Everything else in the files stays as it is. An
entry of that name that is not ours is refused. A file of the project that is made for this is ignored by
git from then on, by a line in info/exclude.

The server is started once, as the agent will start it. Where it does not answer, nothing is written.

Entries of a project name the program locus, which must be on the PATH of everybody who reads them.
"""


# Of which agent, and in which settings file.
entry_options = options(
    click.option(
        "--agent",
        type=AgentChoice(agents.servable()),
        help="Whose settings. [default: those of the agents found here]",
    ),
    click.option(
        "--scope",
        type=click.Choice(["project", "user"]),
        default="project",
        show_default=True,
        help="The project's settings, or the user's, for every project.",
    ),
)


def chosen(agent: str | None, directory: str) -> list[str]:
    """The agents that are meant, as hooks call them."""
    from ..hooks import text as hooks_text

    servable = named(agent)
    if agent is not None:
        return servable
    return [name for name in hooks_text.chosen(None, directory, homes()) if name in servable]


def named(agent: str | None) -> list[str]:
    """The agents of an option --agent, as hooks call them: every one without it."""
    return [spec.name for spec in agents.servable() if agent in (None, ALL, spec.name)]


def _help() -> str:
    files = [spec.server.files[-1] for spec in agents.servable() if spec.server is not None]
    return _HELP.format(files=listed(files))


@click.command("install", help=_help())
@entry_options
@edit_options
def install(agent: str | None, scope: str, dry_run: bool, as_json: bool) -> None:
    from eventlog.mcp import install as engine

    if scope != engine.PROJECT:
        installation.refuse_cached("locus mcp install --scope user")
    directory, agent_homes = project_directory(), homes()
    given = store_option()
    try:
        store = os.path.abspath(given) if given else identity.find(directory, os.environ)
    except eventlog.Refused as error:
        store = None
        say(f"The server would serve nothing here: {error}")
    changes, excluded = [], []
    entries = [
        (
            name,
            engine.settings_path(name, scope, directory, agent_homes, os.environ),
            engine.command_line(name, scope, store or f"{directory}/.locus"),
        )
        for name in chosen(agent, directory)
    ]
    if entries and not dry_run:
        for name, path, line in entries:  # what is refused is refused before anything is started or written
            engine.install(REAL, name, path, line, agent_homes, dry_run=True)
        _try(entries[0][2], directory)
    for name, path, line in entries:
        change = engine.install(REAL, name, path, line, agent_homes, dry_run=dry_run)
        changes.append((scope, change))
        claim = git_exclude.claim_of_server(path)
        if scope == engine.PROJECT and (
            change.kind == "created" or git_exclude.is_claimed(REAL, agent_homes.state, claim)
        ):
            excluded += git_exclude.exclude(REAL, path, agent_homes.state, claim, dry_run=dry_run)
    report_changes(changes, dry_run=dry_run, as_json=as_json, excluded=excluded)
    if dry_run:
        return
    if any(exclusion.state == git_exclude.ADDED for exclusion in excluded):
        say("To share such a file with others all the same: `git add -f` it.")
    if store is None:
        say("There is no store here yet: `locus init` makes one.")
    for server in (engine.spec_of(change.agent)[1] for _, change in changes):
        next_step = server.next_step if scope == engine.PROJECT else server.next_step_of_user
        if next_step is not None:
            say(next_step)
    say("A session that is running may not see it: restart the agent.")


def _try(line: Sequence[str], directory: str) -> None:
    """Start the server as the agent will. Raises: EventLogError (nothing was written yet)."""
    from eventlog.mcp import trial

    problem = trial.problem(line, directory, os.environ)
    if problem is not None:
        what, todo = problem
        raise eventlog.EventLogError(f"{what}. No settings were changed. Next: {todo}.")


@click.command("uninstall")
@entry_options
@edit_options
def uninstall(agent: str | None, scope: str, dry_run: bool, as_json: bool) -> None:
    """Take `locus mcp` out of the agents' settings again.

    Only our own entry is removed, and a file that is then empty. The record stays.
    """
    from eventlog.mcp import install as engine

    directory, agent_homes = project_directory(), homes()
    changes = []
    taken_back: list[SettingsEdit] = []
    for name in named(agent):
        path = engine.settings_path(name, scope, directory, agent_homes, os.environ)
        claim = git_exclude.claim_of_server(path)
        if agent is not None or os.path.exists(path):
            changes.append((scope, engine.uninstall(REAL, name, path, agent_homes, dry_run=dry_run)))
        taken_back += out_of_lists(claim, agent_homes, dry_run=dry_run)
    report_changes(changes, dry_run=dry_run, as_json=as_json, taken_back=taken_back)
    if all(change.kind == "unchanged" for _, change in changes):
        say("No server of ours is installed there.")
