"""Tables for people: aligned columns, numbers to the right, shortened only to fit a terminal.

A column is as wide as its widest cell. On a too narrow terminal the widest text columns shrink first, down to
a minimum width. Each cell is one harmless line; files outside of the repository have their local names.
"""

from collections.abc import Iterable, Sequence

from .outside import local
from .text import columns, fit, harmless

_GAP = "  "
_NARROW = 8


def render(
    heads: Sequence[str], cells: Iterable[Sequence[str]], *, right: Sequence[int] = (), width: int = 0
) -> str:
    """The table as text, with a head line. `right` lists the columns that are right-aligned.

    `width` is the terminal's; 0 means that nothing is shortened.
    """
    rows = [heads, *(tuple(harmless(local(cell)) for cell in row) for row in cells)]
    widths = _widths(rows)
    if width:
        widths = _shrink(widths, width - len(_GAP) * (len(heads) - 1), right)
    return "".join(_line(row, widths, right) for row in rows)


def minimum_width(heads: Sequence[str], cells: Iterable[Sequence[str]], right: Sequence[int] = ()) -> int:
    """The narrowest terminal on which the table can be shown."""
    widths = _widths([heads, *cells])
    narrow = [wide if i in right else min(wide, _NARROW) for i, wide in enumerate(widths)]
    return sum(narrow) + len(_GAP) * (len(narrow) - 1)


def pairs(rows: Iterable[tuple[str, str]], *, indent: str = "") -> str:
    """Names and values, one pair a line, the values aligned. Pairs without a value are left out."""
    shown = [(name, harmless(local(value))) for name, value in rows if value]
    wide = max((columns(name) for name, _ in shown), default=0)
    return "".join(f"{indent}{_padded(name, wide, False)}{_GAP}{value}\n" for name, value in shown)


def _widths(rows: Sequence[Sequence[str]]) -> list[int]:
    return [max(columns(row[i]) for row in rows) for i in range(len(rows[0]))]


def _shrink(widths: list[int], room: int, right: Sequence[int]) -> list[int]:
    """Column widths that fit into `room`, where that is possible."""
    shrunk = list(widths)
    while sum(shrunk) > room:
        candidates = [i for i, wide in enumerate(shrunk) if wide > _NARROW and i not in right]
        if not candidates:
            return shrunk
        widest = max(candidates, key=lambda i: shrunk[i])
        others = max((shrunk[i] for i in candidates if i != widest), default=_NARROW)
        # Down to the next widest at once; from there on, column by column.
        target = max(others if others < shrunk[widest] else shrunk[widest] - 1, _NARROW)
        shrunk[widest] = max(target, shrunk[widest] - (sum(shrunk) - room))
    return shrunk


def _line(row: Sequence[str], widths: Sequence[int], right: Sequence[int]) -> str:
    cells = [_padded(fit(cell, widths[i]), widths[i], i in right) for i, cell in enumerate(row)]
    return _GAP.join(cells).rstrip() + "\n"


def _padded(cell: str, width: int, to_the_right: bool) -> str:
    space = " " * (width - columns(cell))
    return space + cell if to_the_right else cell + space
