"""Bars for a terminal: a line of names, bars and values, as wide as the terminal is."""

import shutil
from collections.abc import Sequence

from .text import columns, fit, harmless

_EIGHTHS = " ▏▎▍▌▋▊▉█"
_NAME_MAX = 40
_WIDTH_MIN = 10


def render(rows: Sequence[tuple[str, float | None, str]], width: int = 0) -> str:
    """One line for each (name, size, value as text); no bar where the size is unknown."""
    width = width or min(shutil.get_terminal_size((100, 24)).columns, 160)
    names = [fit(harmless(name), _NAME_MAX) for name, _, _ in rows]
    wide = max(map(columns, names), default=0)
    values = max((columns(value) for _, _, value in rows), default=0)
    room = max(width - wide - values - 4, _WIDTH_MIN)
    largest = max((size for _, size, _ in rows if size is not None), default=0)
    lines = []
    for name, (_, size, value) in zip(names, rows, strict=True):
        bar = _bar(size / largest, room) if size and largest else ""
        lines.append(f"{name}{' ' * (wide - columns(name))}  {bar} {value}".rstrip() + "\n")
    return "".join(lines)


def _bar(share: float, room: int) -> str:
    """A bar, with at least a sliver for a share above zero."""
    whole, eighths = divmod(max(round(share * room * 8), 1), 8)
    return "█" * whole + _EIGHTHS[eighths].strip()
