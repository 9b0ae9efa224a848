"""`locus hooks uninstall`: our hooks out of the settings of coding agents."""

from typing import TYPE_CHECKING

import click

from ..access import say
from .text import (
    agents_meant,
    edit_options,
    homes,
    out_of_lists,
    project_directory,
    report_changes,
    where_options,
)

if TYPE_CHECKING:
    from eventlog.setup.settings_file import SettingsEdit


@click.command("uninstall")
@where_options
@edit_options
@click.pass_context
def command(ctx: click.Context, agent: str | None, level: str | None, dry_run: bool, as_json: bool) -> None:
    """Take the hooks out of the agents' settings again.

    Without an option, out of both settings of this project; those of the user, which serve other projects
    too, only with --user. What is recorded stays. A file that nobody else edited since gets the bytes it
    had before the first install; otherwise our entries go and nothing else. A file that was made for
    the hooks alone is removed, and so are our lines in the repository's info/exclude.
    """
    from eventlog.base.fs import REAL
    from eventlog.setup import git_exclude
    from eventlog.setup import install as engine

    directory, agent_homes = project_directory(ctx), homes()
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
