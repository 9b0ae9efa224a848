"""`locus mcp install`: our server into the settings of coding agents."""

import os
from collections.abc import Callable
from typing import Any, TypeVar

import click

from .access import say
from .hooks_text import edit_options, homes, project_directory, told

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
    from eventlog.serve.mcp_install import AGENTS

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
    entry of that name that is not ours is refused.

    Entries of a project name the program locus, which must be on the PATH of whoever reads them.
    """
    from eventlog import identity
    from eventlog.errors import Refused
    from eventlog.fs import REAL
    from eventlog.serve import mcp_install as engine

    directory, places = project_directory(ctx), homes()
    given = ctx.find_root().obj
    try:
        store = os.path.abspath(given) if given else identity.find(directory, os.environ)
    except Refused as error:
        store = None
        say(f"The server would serve nothing here: {error}")
    changes = []
    for name in chosen(agent, directory):
        path = engine.settings_path(name, scope, directory, places, os.environ)
        line = engine.command_line(name, scope, store or f"{directory}/.locus")
        changes.append((scope, engine.install(REAL, name, path, line, places, dry_run=dry_run)))
    told(changes, dry_run=dry_run, as_json=as_json)
    if dry_run:
        return
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
            say("Codex does not tell servers where they are: with --scope user each call names the store.")
    say("A session that is running may not see it: start the agent anew.")
