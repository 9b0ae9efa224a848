"""A click group that imports a command's module when the command is used, and not before.

`locus --help` is printed from the tables in `root.py` alone; a test holds them equal to the commands' own
help.
"""

import importlib
from typing import NamedTuple

import click


class Entry(NamedTuple):
    """One line of a group's help: the verb, `module` or `module:function` of it, its description.

    A module is named from `locus_cli` on; without a function its command is called `command`.
    """

    name: str
    module: str
    summary: str


Sections = tuple[tuple[str, tuple[Entry, ...]], ...]


class LazyGroup(click.Group):
    """A group whose commands are listed in `sections`, in the order and under the titles given."""

    def __init__(self, *args: object, sections: Sections, **kwargs: object) -> None:
        super().__init__(*args, **kwargs)  # type: ignore[arg-type]
        self.sections = sections
        self._modules = {entry.name: entry.module for _, entries in sections for entry in entries}

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 -- click's signature
        return list(self._modules)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        module = self._modules.get(cmd_name)
        if module is None:
            return None
        home, _, function = module.partition(":")
        command = getattr(importlib.import_module(f".{home}", __package__), function or "command")
        assert isinstance(command, click.Command)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        width = max(len(name) for name in self._modules)
        for title, entries in self.sections:
            with formatter.section(title):
                formatter.write_dl([(entry.name.ljust(width), entry.summary) for entry in entries])
