"""`locus mcp install`: our server into the settings of coding agents."""

import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import click

from .access import say
from .hooks_text import edit_options, homes, project_directory, told

if TYPE_CHECKING:
    from collections.abc import Sequence

F = TypeVar("F", bound=Callable[..., Any])


def entry_options(function: F) -> F:
    """Of which agent, and in which settings file."""
    for option in (
        click.option(
            "--scope",
            type=click.Choice(["project", "user"]),
            default="project",
            show_default=True,
            help="The project's settings, or the user's, for every project.",
        ),
        click.option(
            "--agent",
            type=click.Choice(["claude-code", "codex", "gemini", "gemini-cli", "opencode", "all"]),
            help="Whose settings. [default: those of the agents found here]",
        ),
    ):
        function = option(function)
    return function


def chosen(agent: str | None, directory: str) -> list[str]:
    """The agents that are meant, as hooks call them."""
    from eventlog.mcp.install import AGENTS

    from . import hooks_text

    return hooks_text.chosen(AGENTS.get(agent, agent) if agent else None, directory, homes())


@click.command("install")
@entry_options
@edit_options
@click.pass_context
def command(ctx: click.Context, agent: str | None, scope: str, dry_run: bool, as_json: bool) -> None:
    """Have coding agents start `locus mcp`.

    Their settings get an entry called locus: .mcp.json, .codex/config.toml, .gemini/settings.json or
    opencode.json of the project, or the user's own. Everything else in the files stays as it is. An
    entry of that name that is not ours is refused. A file of the project that is made for this is ignored by
    git from then on, by a line in info/exclude.

    The server is started once, as the agent will start it. Where it does not answer, nothing is written.

    Entries of a project name the program locus, which must be on the PATH of whoever reads them.
    """
    from eventlog.base import identity
    from eventlog.base.errors import Refused
    from eventlog.base.fs import REAL
    from eventlog.mcp import install as engine
    from eventlog.setup import git_exclude

    directory, places = project_directory(ctx), homes()
    given = ctx.find_root().obj
    try:
        store = os.path.abspath(given) if given else identity.find(directory, os.environ)
    except Refused as error:
        store = None
        say(f"The server would serve nothing here: {error}")
    changes, excluded = [], []
    entries = [
        (
            name,
            engine.settings_path(name, scope, directory, places, os.environ),
            engine.command_line(name, scope, store or f"{directory}/.locus"),
        )
        for name in chosen(agent, directory)
    ]
    if entries and not dry_run:
        for name, path, line in entries:  # what is refused is refused before anything is started or written
            engine.install(REAL, name, path, line, places, dry_run=True)
        _try(entries[0][2], directory)
    for name, path, line in entries:
        change = engine.install(REAL, name, path, line, places, dry_run=dry_run)
        changes.append((scope, change))
        claim = git_exclude.claim_of_server(path)
        if scope == engine.PROJECT and (
            change.kind == "created" or git_exclude.is_claimed(REAL, places.state, claim)
        ):
            excluded += git_exclude.exclude(REAL, path, places.state, claim, dry_run=dry_run)
    told(changes, dry_run=dry_run, as_json=as_json, excluded=excluded)
    if dry_run:
        return
    if any(one.state == git_exclude.ADDED for one in excluded):
        say("To share such a file with others all the same: `git add -f` it.")
    if store is None:
        say("There is no store here yet: `locus init` makes one.")
    if any(change.agent == "codex" for _, change in changes):
        if scope == "project":
            say(
                "Codex reads a project's settings when you trust the project. The entry names the store by "
                "its "
                "path on this machine, since Codex does not tell servers where they are."
            )
        else:
            say(
                "Codex does not tell servers where they are: with --scope user the server serves the project "
                "that it is started in, or the one that a call names."
            )
    say("A session that is running may not see it: start the agent anew.")


def _try(line: "Sequence[str]", directory: str) -> None:
    """Start the server as the agent will. Raises: EventLogError (nothing was written yet)."""
    from eventlog.base.errors import EventLogError
    from eventlog.mcp import trial

    found = trial.problem(line, directory, os.environ)
    if found is not None:
        what, todo = found
        raise EventLogError(f"{what}. No settings were changed. Next: {todo}.")
