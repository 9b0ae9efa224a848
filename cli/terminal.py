"""Colour, and a pager for what is longer than the screen: on terminals, as git has them (docs/reading.md)."""

import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, TextIO

import click

from eventlog.reading import styles
from eventlog.reading.styles import Line

from .outside import local
from .streams import naming_stdout, put, sinks

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
    if sinks:  # this answer is one of several
        put_unpaged(rendered, colour)
        return
    with naming_stdout(), pager(colour) as file:
        for line in rendered:
            file.write("".join(_styled(span, colour) for span in line).rstrip() + "\n")


def put_styled(text: str, styled: Callable[[str], Line], *, paged: bool = False) -> None:
    """Write a text, each of its lines styled by `styled` where colour is used; a pipe gets it as it is."""
    colour = uses_colour()
    if not (colour or sys.stdout.isatty()):
        put(text)
        return
    rendered = map(styled, text.removesuffix("\n").split("\n") if text else ())
    if paged:
        put_lines(rendered)
        return
    put_unpaged(rendered, colour)


def put_unpaged(rendered: Iterable[Line], colour: bool) -> None:
    for line in rendered:
        text = "".join(_styled(span, colour) for span in line)
        put(f"{text}\n", colour=colour)


def patch_lines(texts: Iterable[str]) -> Iterator[Line]:
    """The lines of a patch in git's colours."""
    in_head = True
    for text in texts:
        if text.startswith(("diff --git ", "@@ ")):
            in_head = text.startswith("diff")
        style = styles.PROMPT if in_head else _STYLE_OF_MARK.get(text[:1], styles.PLAIN)
        yield ((style, text),)


def row(text: str) -> Line:
    """A line of a table of turns or events: bold heads, and in red what failed."""
    style = styles.PROMPT if _HEADS.match(text) else styles.FAILED if _FAILURES.search(text) else styles.PLAIN
    return ((style, text),)


def step(text: str) -> Line:
    """A line of a plan, or of a diagnosis: its first word says how it is meant."""
    word = next(iter(text.split(maxsplit=1)), "")
    end = text.find(word) + len(word)
    return ((_STYLE_OF_WORD.get(word.rstrip(":"), styles.PLAIN), text[:end]), (styles.PLAIN, text[end:]))


_STYLE_OF_MARK = {"+": styles.ADDED, "-": styles.REMOVED, "@": styles.HUNK}
_HEADS = re.compile(r"[A-Z]+( |$)")
_FAILURES = re.compile(r"  (error|interrupted|not closed)  |  action +\S+ failed\b")
_STYLE_OF_WORD = {
    "ok": styles.ADDED, "create": styles.ADDED, "note": styles.RULE, "merge": styles.RULE,
    "PROBLEM": styles.FAILED, "delete": styles.REMOVED, "conflict": styles.FAILED, "CONFLICT": styles.FAILED,
    "undo": styles.PROMPT, "redo": styles.PROMPT, "keep": styles.DIM, "same": styles.DIM, "left": styles.DIM,
    "markers": styles.RULE, "→": styles.DIM,
}  # fmt: skip


def _styled(span: styles.Span, colour: bool) -> str:
    style, text = span
    colours = _COLOURS.get(style)
    shown = local(text)
    return click.style(shown, **colours) if colour and colours and shown.strip() else shown
