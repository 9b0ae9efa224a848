"""Colour, and a pager for what is longer than the screen: on terminals, as git has them (docs/reading.md)."""

import os
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any, TextIO

import click

from eventlog.reading import text as styles
from eventlog.reading.text import Line

from .outside import local
from .streams import naming_stdout

_COLOURS: dict[str, dict[str, Any]] = {
    styles.RULE: {"fg": "cyan"},
    styles.PROMPT: {"bold": True},
    styles.DIM: {"dim": True},
    styles.TOOL: {"fg": "blue", "bold": True},
    styles.FAILED: {"fg": "red"},
    styles.ADDED: {"fg": "green"},
    styles.REMOVED: {"fg": "red"},
    styles.HUNK: {"fg": "cyan"},
}


def uses_colour() -> bool:
    """Whether output is coloured: on a terminal. NO_COLOR says never, FORCE_COLOR also on a pipe."""
    if os.environ.get("NO_COLOR"):
        return False
    if os.environ.get("FORCE_COLOR", "0") not in ("", "0"):
        return True
    return sys.stdout.isatty() and os.environ.get("TERM") != "dumb"


@contextmanager
def pager(colour: bool) -> Iterator[TextIO]:
    """A file for text, which on a terminal goes through LOCUS_PAGER, PAGER or less."""
    if os.environ.get("LOCUS_PAGER"):
        os.environ["PAGER"] = os.environ["LOCUS_PAGER"]
    os.environ.setdefault("LESS", "FRX")
    with click.get_pager_file(color=colour) as file:
        yield file


def put_lines(rendered: Iterable[Line]) -> None:
    """Write lines in colour or without, through a pager on a terminal."""
    colour = uses_colour()
    with naming_stdout(), pager(colour) as file:
        for line in rendered:
            file.write("".join(_styled(span, colour) for span in line).rstrip() + "\n")


def _styled(span: styles.Span, colour: bool) -> str:
    style, text = span
    colours = _COLOURS.get(style)
    shown = local(text)
    return click.style(shown, **colours) if colour and colours and shown.strip() else shown
