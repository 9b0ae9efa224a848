"""An answer as a notebook shows it: an HTML table of its first rows. Pure functions of values."""

from collections.abc import Sequence
from datetime import datetime
from html import escape
from typing import Any

from eventlog.base.display import fit, lines

ROWS_SHOWN = 50
_WIDTH_MAX = 300  # columns of one value: a payload may be megabytes
_TEXT_READ = 10_000  # characters of a value that are made harmless before it is cut
_NUMBERS = (int, float)


def html_table(
    columns: Sequence[str], types: Sequence[str], rows: Sequence[Sequence[Any]], notes: Sequence[str]
) -> str:
    """The table and, below it, how many rows there are and what else is to be known of them.

    Recorded text is foreign: it is shown as text, without any control character or direction mark.
    """
    head = "".join(
        f'<th title="{_text(kind)}">{_text(name)}</th>' for name, kind in zip(columns, types, strict=True)
    )
    body = "".join(f"<tr>{''.join(map(_cell, row))}</tr>" for row in rows[:ROWS_SHOWN])
    foot = "; ".join([_count(len(rows)), *notes])
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table><p>{_text(foot)}</p>"


def _cell(value: Any) -> str:
    if value is None:
        return "<td><em>null</em></td>"
    if isinstance(value, _NUMBERS) and not isinstance(value, bool):
        return f'<td style="text-align: right">{_text(value)}</td>'
    return f'<td style="text-align: left">{_text(value)}</td>'


def _text(value: Any) -> str:
    text = value.isoformat(" ") if isinstance(value, datetime) else str(value)
    return escape(fit(lines(text[:_TEXT_READ]), _WIDTH_MAX))


def _count(rows: int) -> str:
    every = "1 row" if rows == 1 else f"{rows:,} rows"
    return every if rows <= ROWS_SHOWN else f"the first {ROWS_SHOWN} of {every}"
