"""What the verbs of `locus hooks` share: whose settings are meant, and how a change is reported."""

import dataclasses
import difflib
import os
from collections.abc import Iterable, Sequence
from typing import Any

import click

import eventlog
from eventlog import agents
from eventlog.agents.kit.spec import AgentSpec
from eventlog.base import identity
from eventlog.base.fs import REAL
from eventlog.base.repository import git_root
from eventlog.setup import git_exclude, install
from eventlog.setup.git_exclude import Standing
from eventlog.setup.install import Homes
from eventlog.setup.settings_file import SettingsEdit

from ..access import store_option
from ..options import json_option, options
from ..output import document, lines, put, say

ALL = "all"
COMMANDS = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))  # the package `locus_cli`


class AgentChoice(click.Choice[str]):
    """One of `specs`, by the name that hooks or `locus import` give it, or `all`; gives that of hooks."""

    def __init__(self, specs: Iterable[AgentSpec]) -> None:
        self._names = {name: spec.name for spec in specs for name in (spec.command_name, spec.name)}
        super().__init__([*self._names, ALL])

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        name = super().convert(value, param, ctx)
        return self._names.get(name, name)


def agents_meant(agent: str | None) -> list[str]:
    """The agents of an option --agent: every one without it."""
    return [spec.name for spec in agents.installable() if agent in (None, ALL, spec.name)]


def listed(names: Sequence[str]) -> str:
    """Names as a sentence has them: `a, b or c`."""
    return " or ".join(filter(None, (", ".join(names[:-1]), names[-1])))


# Of which agent, and in which settings file.
where_options = options(
    click.option(
        "--agent",
        type=AgentChoice(agents.installable()),
        default=None,
        help="Whose settings. [default: those of the agents found here]",
    ),
    click.option("--local", "level", flag_value="local", help="In the project's settings for you alone."),
    click.option("--project", "level", flag_value="project", help="In the project's shared settings."),
    click.option("--user", "level", flag_value="user", help="In the user's settings: for every project."),
)
# How a change is carried out and reported.
edit_options = options(
    click.option("--dry-run", is_flag=True, help="Change nothing; print what would change, as a diff."),
    json_option,
)


def project_directory() -> str:
    """The directory whose work is recorded: the repository's root, else where the store is, else here."""
    here = os.getcwd()
    root = git_root(here)
    if root is not None:
        return root
    given = store_option()
    try:
        store = os.path.abspath(given) if given else identity.find(here, os.environ)
    except eventlog.EventLogError:
        store = None  # somebody else's; whatever needs it reports that
    above = os.path.dirname(store) if store else here
    return above if here == above or here.startswith(above.rstrip("/") + "/") else here


def homes() -> Homes:
    return Homes.of(os.environ)


def chosen(agent: str | None, directory: str, found_in: Homes) -> list[str]:
    """The agents that are meant."""
    if agent == ALL:
        return agents_meant(ALL)
    if agent is not None:
        return [agent]
    present = install.agents_here(directory, found_in, os.environ.get("PATH"))
    if not present:
        programs = [spec.program for spec in agents.installable() if spec.program is not None]
        raise click.UsageError(
            f"No coding agent was found here (no program {listed(programs)}, nothing of theirs at home). "
            f"{_how_to_name_one()}"
        )
    return present


def _how_to_name_one() -> str:
    context = click.get_current_context()
    if any(parameter.name == "agent" for parameter in context.command.params):
        return "Name one with --agent."
    first, *others = agents_meant(None)
    return f"Name one: `locus hooks install --agent {first}` (or {', '.join([*others, ALL])})."


def report_changes(
    changes: Sequence[tuple[str, SettingsEdit]],
    *,
    dry_run: bool,
    as_json: bool,
    excluded: Sequence[Standing] = (),
    taken_back: Sequence[SettingsEdit] = (),
) -> None:
    """Changes with their levels, and what became of git's lists: a line each, or diffs, or JSON."""
    if as_json:
        put(
            document({
                "dry_run": dry_run,
                "changes": [_fields(level, change) for level, change in changes],
                "excluded": [dataclasses.asdict(exclusion) for exclusion in excluded],
                "taken_back": [{"exclude": edit.file, "diff": diff(edit)} for edit in taken_back],
            })
        )  # fmt: skip
        return
    for _, change in changes:
        if dry_run:
            put(lines(diff(change)))
        would = "would be " if dry_run and change.kind != "unchanged" else ""
        through = f" (through {change.path})" if os.path.islink(change.path) else ""
        say(f"{change.agent}: {change.file}{through}: {would}{_WORDS[change.kind]}")
    for change in taken_back:
        if dry_run:
            put(lines(diff(change)))
    for file in dict.fromkeys(change.file for change in taken_back):
        say(f"{file}: our lines {'would be taken out' if dry_run else 'are out again'}")
    _tell_excluded(excluded, dry_run)


def _tell_excluded(excluded: Sequence[Standing], dry_run: bool) -> None:
    """What git does with the files now, in as few lines as there are lists."""
    added: dict[str, list[str]] = {}
    for exclusion in excluded:
        if exclusion.state == git_exclude.ADDED:
            added.setdefault(exclusion.exclude, []).append(exclusion.line)
        elif exclusion.state != git_exclude.IGNORED:
            todo = f" Next: {exclusion.todo}." if exclusion.todo else ""
            say(f"Warning: {exclusion.why}.{todo}")
    for exclude, patterns in added.items():
        would = "would be " if dry_run else ""
        say(f"git ignores {', '.join(patterns)} from now on ({would}added to {exclude})")


def out_of_lists(claim: str, agent_homes: Homes, *, dry_run: bool) -> list[SettingsEdit]:
    """Take our lines out of git's lists of ignored files; one that cannot be edited is reported."""
    try:
        return git_exclude.take_back(REAL, agent_homes.state, claim, dry_run=dry_run)
    except eventlog.EventLogError as error:
        say(f"Our lines in git's list of ignored files stay: {error} Then run this command again.")
        return []


_WORDS = {
    "unchanged": "nothing to change",
    "created": "made",
    "edited": "edited",
    "removed": "removed, since it held nothing else",
}


def diff(change: SettingsEdit) -> str:
    """A change as a unified diff; empty for none."""

    def text(data: bytes | None) -> list[str]:
        return [] if data is None else data.decode("utf-8", "replace").splitlines(keepends=True)

    old, new = ("/dev/null" if data is None else change.file for data in (change.before, change.after))
    made = difflib.unified_diff(text(change.before), text(change.after), old, new)
    return "".join(line if line.endswith("\n") else line + "\n" for line in made)


def _fields(level: str, change: SettingsEdit) -> dict[str, Any]:
    return {
        "agent": change.agent,
        "level": level,
        "path": change.path,
        "file": change.file,
        "change": change.kind,
        "diff": diff(change),
    }
