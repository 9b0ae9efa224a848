"""`locus mcp uninstall`: our server out of the settings of coding agents."""

import os
from typing import TYPE_CHECKING

import click

from ..access import say
from ..hooks.text import edit_options, homes, out_of_lists, project_directory, report_changes
from .install import entry_options, named

if TYPE_CHECKING:
    from eventlog.setup.settings_file import SettingsEdit


@click.command("uninstall")
@entry_options
@edit_options
@click.pass_context
def command(ctx: click.Context, agent: str | None, scope: str, dry_run: bool, as_json: bool) -> None:
    """Take `locus mcp` out of the agents' settings again.

    Only our own entry is removed, and a file that is then empty. The record stays.
    """
    from eventlog.base.fs import REAL
    from eventlog.mcp import install as engine
    from eventlog.setup import git_exclude

    directory, agent_homes = project_directory(ctx), homes()
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
