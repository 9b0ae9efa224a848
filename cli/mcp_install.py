"""`locus mcp install`: our server into the settings of coding agents."""

import os
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

import click

from .access import say
from .hooks_text import edit_options, homes, project_directory, told

if TYPE_CHECKING:
    from eventlog.agents.settings_file import Change

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
    entry of that name that is not ours is refused. A file of the project that is made for this is ignored by
    git from then on, by a line in info/exclude.

    Entries of a project name the program locus, which must be on the PATH of whoever reads them.
    """
    from eventlog import identity
    from eventlog.agents import git_exclude
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
    changes, excluded = [], []
    for name in chosen(agent, directory):
        path = engine.settings_path(name, scope, directory, places, os.environ)
        line = engine.command_line(name, scope, store or f"{directory}/.locus")
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
    _say_what_does_not_start([change for _, change in changes], scope)
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


def _say_what_does_not_start(changes: "list[Change]", scope: str) -> None:
    """What `locus doctor` would find in the entries that stand there now."""
    from eventlog.agents.health_store import OK, Finding
    from eventlog.fs import REAL
    from eventlog.serve import mcp_health
    from eventlog.serve import mcp_install as engine

    started: dict[str, Finding | None] = {}
    said = set()
    for change in changes:
        entry = engine.entry_in(REAL, change.agent, change.path)
        if not isinstance(entry, Mapping):
            continue
        again = f"`locus mcp install --agent {change.agent} --scope {scope}`"
        found = mcp_health.finding_of(change.agent, change.path, entry, again, os.environ, started)
        if found.level != OK and found.what not in said:
            said.add(found.what)
            todo = f" Next: {found.todo}." if found.todo else ""
            say(f"Warning: {found.what}.{todo}")
