"""What the verbs of `locus session` share: the `--agent` option and the table of sessions."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import click

from .table import render
from .text import microseconds, moment, one_line, terminal_width

if TYPE_CHECKING:
    from eventlog.recorder.sessions import SessionRow

F = TypeVar("F", bound=Callable[..., Any])


def agent_option(function: F) -> F:
    """Whose session is meant."""
    return click.option(
        "--agent",
        metavar="NAME",
        envvar="LOCUS_AGENT",
        default="person",
        show_default=True,
        help="Whose session: the program's name, or LOCUS_AGENT.",
    )(function)


def session_table(rows: "Sequence[SessionRow]") -> str:
    """One line for each session; nothing for none."""
    cells = [
        (
            row.session_id,
            one_line(row.agent or ""),
            moment(microseconds(row.started_at)),
            f"{row.turn_count:,}",
            row.status if row.status == "active" else row.end_reason or row.status or "",
            one_line(row.title or ""),
        )
        for row in rows
    ]
    heads = ("SESSION", "AGENT", "STARTED (UTC)", "TURNS", "STATE", "TITLE")
    return render(heads, cells, right=(3,), width=terminal_width()) if cells else ""
