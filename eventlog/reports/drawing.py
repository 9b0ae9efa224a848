"""Charts as SVG text, without styles of their own: colours come from classes of the page. Pure."""

from collections.abc import Sequence
from html import escape
from math import ceil, floor, log10

_WIDTH, _HEIGHT = 540, 190
_LEFT, _TOP, _BOTTOM = 46, 10, 22
_NAMES_MAX = 6


def columns(
    what: str, bars: "Sequence[tuple[str, float | None, str]]", scale: "Sequence[tuple[float, str]]"
) -> str:
    """A chart with a column for each (name, size, words), and a line for each (size, words) of the scale."""
    top = max((size for size, _ in scale), default=0) or 1
    room, height = _WIDTH - _LEFT, _HEIGHT - _TOP - _BOTTOM
    parts = [f'<svg class="chart" viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" aria-label="{_text(what)}">']
    for mark, words in scale:
        y = _TOP + height * (1 - mark / top)
        parts.append(f'<line class="grid" x1="{_LEFT}" x2="{_WIDTH}" y1="{y:.1f}" y2="{y:.1f}"/>')
        parts.append(
            f'<text class="tick" x="{_LEFT - 8}" y="{y + 3.5:.1f}" text-anchor="end">{_text(words)}</text>'
        )
    step = room / max(len(bars), 1)
    wide = min(step * 0.72, 36)
    for n, (name, size, words) in enumerate(bars):
        x = _LEFT + step * n + (step - wide) / 2
        tall = max(height * (size or 0) / top, 1.5 if size else 0)
        parts.append(
            f'<g><rect class="hover" x="{_LEFT + step * n:.2f}" y="{_TOP}" width="{step:.2f}" '
            f'height="{height}"/>'
            f'<rect class="bar" x="{x:.2f}" y="{_TOP + height - tall:.2f}" width="{wide:.2f}" '
            f'height="{tall:.2f}" rx="{min(2.0, wide / 2):.1f}"/>'
            f"<title>{_text(f'{name}: {words}')}</title></g>"
        )
    every = max(ceil(len(bars) / _NAMES_MAX), 1)
    for n in range(0, len(bars), every):
        x = _LEFT + step * (n + 0.5)
        parts.append(
            f'<text class="tick" x="{x:.1f}" y="{_HEIGHT - 5}" text-anchor="middle">'
            f"{_text(bars[n][0])}</text>"
        )
    return "".join([*parts, "</svg>"])


def share(part: float, bad: float = 0) -> str:
    """A thin bar in a cell: `part` of its width (0 to 1), of which the share `bad` in another colour."""
    part = min(max(part, 0.0), 1.0)
    wide = max(100 * part, 0.8 if part else 0)
    red = wide * min(max(bad, 0.0), 1.0)
    return (
        '<svg class="share" viewBox="0 0 100 6" preserveAspectRatio="none" aria-hidden="true">'
        '<rect class="track" width="100" height="6"/>'
        f'<rect class="bar" width="{wide:.2f}" height="6"/>'
        f'<rect class="bad" x="{wide - red:.2f}" width="{red:.2f}" height="6"/></svg>'
    )


def round_scale(largest: float) -> "list[float]":
    """0 and some round sizes, the last of them at or above `largest`."""
    if largest <= 0:
        return [0.0]
    power = 10.0 ** floor(log10(largest / 3))
    step = next(power * n for n in (1, 2, 2.5, 5, 10) if power * n * 4 >= largest)
    return [step * n for n in range(ceil(largest / step - 1e-9) + 1)]


def _text(text: str) -> str:
    return escape(text, quote=True)
