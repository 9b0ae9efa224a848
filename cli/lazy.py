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


# A group's help: each title, and the entries under it.
Sections = tuple[str | Entry, ...]


class LazyGroup(click.Group):
    """A group whose commands are listed in `sections`, in the order and under the titles given."""

    def __init__(self, *args: object, sections: Sections, **kwargs: object) -> None:
        super().__init__(*args, **kwargs)  # type: ignore[arg-type]
        self.sections: dict[str, list[Entry]] = {}
        for item in sections:
            if isinstance(item, str):
                entries = self.sections.setdefault(item, [])
            else:
                entries.append(item)
        self._modules = {entry.name: entry.module for entry in sections if isinstance(entry, Entry)}

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

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        word = args[0]
        if word not in self._modules and not word.startswith("-") and not ctx.resilient_parsing:
            ctx.fail(f"No such command {word!r}.{self._similar(ctx, word)}")
        return super().resolve_command(ctx, args)

    def _similar(self, ctx: click.Context, word: str) -> str:
        """What was perhaps meant by a word that is no command: a similar one, or the groups that have it."""
        import difflib

        path = ctx.command_path
        similar = [f"{path} {name}" for name in difflib.get_close_matches(word, self._modules, 3, 0.6)]
        if not similar and ctx.parent is None:
            groups = (self.get_command(ctx, name) for name in self._modules)
            similar = [
                f"{path} {group.name} {word}"
                for group in groups
                if isinstance(group, LazyGroup) and word in group.list_commands(ctx)
            ]
        return f" Did you mean {' or '.join(f'`{name}`' for name in similar)}?" if similar else ""

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        width = max(len(name) for name in self._modules)
        for title, entries in self.sections.items():
            with formatter.section(title):
                formatter.write_dl([(entry.name.ljust(width), entry.summary) for entry in entries])
