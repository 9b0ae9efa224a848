"""One self-contained HTML document: no network, no script, no other file. Pure.

Recorded text is foreign: everything is escaped, and control characters and marks of direction are spelled
out. The policy in the document allows a browser only the style sheet in it, by its hash. Same overview, same
bytes.
"""

import base64
import hashlib
import html
import re
from collections.abc import Callable, Sequence

from eventlog.reports.drawing import columns, round_scale, share
from eventlog.reports.figures import Figures
from eventlog.reports.number_text import compact, dollars, spell_duration, whole
from eventlog.reports.overview import ErrorKind, Overview
from eventlog.reports.style import STYLE

_UNSAFE = re.compile("[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069\ufeff\ud800-\udfff]")
_TEXT_MAX = 160

Cells = Sequence[str]


def render(seen: Overview) -> str:
    """The whole document."""
    digest = base64.b64encode(hashlib.sha256(STYLE.encode()).digest()).decode()
    policy = f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'"
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="color-scheme" content="light dark">\n'
        f"<title>{text(seen.project)} – report</title>\n<style>{STYLE}</style>\n</head>\n<body>\n<main>\n"
        f"{_head(seen)}{_tiles(seen.total)}{_charts(seen)}{_models(seen)}"
        f'<div class="pair"><div>{_tools(seen)}</div><div>{_errors(seen)}{_agents(seen)}</div></div>\n'
        f"{_paths(seen)}{_sessions(seen)}{_foot(seen)}</main>\n</body>\n</html>\n"
    )


def text(value: "str | None", size: int = _TEXT_MAX) -> str:
    """Foreign text as HTML, on one line and harmless."""
    if value is None:
        return '<span class="dim">unknown</span>'
    line = _UNSAFE.sub(lambda m: f"\\u{ord(m[0]):04x}", " ".join(value.split()))
    return html.escape(line if len(line) <= size else line[: size - 1] + "…", quote=True)


def _head(seen: Overview) -> str:
    first, last = seen.days
    span = "nothing recorded" if first is None else f"{first} to {last}" if first != last else first
    return (
        f'<header><h1>{text(seen.project)}</h1><p class="dim">What coding agents did here · {span} (UTC)</p>'
        "</header>\n"
    )


def _tiles(total: Figures) -> str:
    unpriced = ""
    if total.unpriced_calls and total.tokens:
        unpriced = f"{100 * (total.unpriced_tokens or 0) / total.tokens:.1f} % of tokens without a price"
    resolved = (
        ""
        if total.resolve_median_us is None
        else f", resolved in {spell_duration(total.resolve_median_us)} (median)"
    )
    tiles = (
        ("Cost", dollars(total.cost_usd), unpriced or "estimate by list prices"),
        ("Tokens", compact(total.tokens), _cached(total)),
        ("Turns", whole(total.turns), f"in {whole(total.sessions)} sessions"),
        (
            "Tool calls",
            whole(total.tool_calls),
            "" if total.success is None else f"{total.success:.1%} worked",
        ),
        ("Errors", whole(total.errors), f"{whole(total.errors_open)} open{resolved}" if total.errors else ""),
        ("Files changed", whole(total.files), _lines(total)),
    )
    shown = "".join(
        f'<div class="tile"><div class="what">{name}</div><div class="figure">{value or "–"}</div>'
        f'<div class="dim">{note}</div></div>'
        for name, value, note in tiles
    )
    return f'<section class="tiles">{shown}</section>\n'


def _cached(total: Figures) -> str:
    if not total.prompt_tokens or total.cache_read_tokens is None:
        return f"{whole(total.llm_calls)} model calls"
    return f"{total.cache_read_tokens / total.prompt_tokens:.0%} of input from a cache"


def _lines(row: Figures) -> str:
    if row.lines_added is None and row.lines_removed is None:
        return ""
    added, removed = whole(row.lines_added) or "?", whole(row.lines_removed) or "?"
    unknown = f", unknown for {whole(row.lines_unknown)} of {whole(row.file_changes)}"
    return f'<span class="plus">+{added}</span> <span class="minus">−{removed}</span>' + (
        unknown if row.lines_unknown else ""
    )


def _charts(seen: Overview) -> str:
    if not seen.periods:
        return ""
    start, end = {"day": (5, 10), "week": (0, 10), "month": (0, 7), "year": (0, 4)}[seen.unit]
    names = [period.begins.isoformat()[start:end] for period in seen.periods]
    by_cost = any(period.cost for period in seen.periods)
    spent = [float(p.cost or 0) if by_cost else float(p.tokens) for p in seen.periods]
    spell: Callable[[float], str] = dollars if by_cost else compact
    charts = (
        ("Cost" if by_cost else "Tokens", spent, spell),
        ("Turns", [float(p.turns) for p in seen.periods], compact),
    )
    shown = ""
    for what, sizes, words in charts:
        title = f"{what} by {seen.unit}"
        scale = [(size, words(size).removesuffix(".00")) for size in round_scale(max(sizes))]
        bars = [(name, size, words(size)) for name, size in zip(names, sizes, strict=True)]
        shown += _card(title, columns(title, bars, scale))
    return f'<div class="pair">{shown}</div>\n'


def _models(seen: Overview) -> str:
    most = max((row.tokens or 0 for row in seen.models), default=0)
    rows = [
        (
            text(row.key), whole(row.llm_calls), _exact(row.tokens), share((row.tokens or 0) / (most or 1)),
            _exact(row.cache_read_tokens), _exact(row.cache_write_tokens), _exact(row.completion_tokens),
            dollars(row.cost_usd) if row.cost_usd is not None or not row.unpriced_calls else "no price",
        )
        for row in seen.models
    ]  # fmt: skip
    heads = ("Model", "Calls", "Tokens", "", "From cache", "Into cache", "Written", "Cost")
    return _table("Models", heads, rows, seen.more["models"])


def _tools(seen: Overview) -> str:
    most = max((row.tool_calls or 0 for row in seen.tools), default=0)
    rows = [
        (
            text(row.key, 40), whole(row.tool_calls),
            share((row.tool_calls or 0) / (most or 1), (row.tool_failed or 0) / (row.tool_calls or 1)),
            whole(row.tool_failed) if row.tool_failed else "", spell_duration(row.tool_median_ms, 1000),
        )
        for row in seen.tools
    ]  # fmt: skip
    return _table("Tools", ("Tool", "Calls", "", "Failed", "Median"), rows, seen.more["tools"])


def _errors(seen: Overview) -> str:
    most = max((kind.count for kind in seen.errors), default=0)

    def row(kind: ErrorKind) -> Cells:
        bar = share(kind.count / (most or 1), kind.open / kind.count)
        return text(kind.name, 40), whole(kind.count), bar, whole(kind.open), spell_duration(kind.median_us)

    heads = ("Error", "Count", "", "Open", "Resolved in")
    return _table("Errors", heads, [row(kind) for kind in seen.errors], seen.more["errors"])


def _paths(seen: Overview) -> str:
    most = max((row.file_changes or 0 for row in seen.paths), default=0)
    rows = [
        (
            f'<span class="path">{text(row.key, 100)}</span>', whole(row.file_changes),
            share((row.file_changes or 0) / (most or 1)), _lines(row), whole(row.sessions),
        )
        for row in seen.paths
    ]  # fmt: skip
    return _table("Hot files", ("File", "Changes", "", "Lines", "Sessions"), rows, seen.more["paths"])


def _agents(seen: Overview) -> str:
    rows = [
        (
            text(row.key, 40),
            whole(row.turns),
            whole(row.tool_calls),
            _exact(row.tokens),
            dollars(row.cost_usd),
        )
        for row in seen.agents
    ]
    return _table("Agents", ("Agent", "Turns", "Tools", "Tokens", "Cost"), rows, seen.more["agents"])


def _sessions(seen: Overview) -> str:
    rows = [
        (
            f"{text(row.label, 90)} <code>{text(row.key)}</code>", whole(row.turns),
            spell_duration(row.turn_median_us), whole(row.tool_calls),
            whole(row.errors) if row.errors else "", _lines(row), _exact(row.tokens), dollars(row.cost_usd),
        )
        for row in seen.sessions
    ]  # fmt: skip
    heads = ("Session", "Turns", "Median", "Tools", "Errors", "Lines", "Tokens", "Cost")
    return _table("Newest sessions", heads, rows, seen.more["sessions"])


def _table(title: str, heads: Cells, rows: "Sequence[Cells]", more: int) -> str:
    if not rows:
        return ""
    head = "".join(f'<th scope="col">{name}</th>' for name in heads)
    body = "".join("<tr>" + "".join(f"<td>{cell}</td>" for cell in row) + "</tr>" for row in rows)
    rest = f'<p class="dim">and {more:,} more</p>' if more else ""
    return _card(
        title,
        f'<div class="wide"><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>{rest}',
    )


def _card(title: str, inside: str) -> str:
    return f'<section class="card"><h2>{title}</h2>{inside}</section>\n'


def _exact(n: "int | None") -> str:
    """Short, with the exact number where the pointer rests."""
    return "" if n is None else f'<span title="{n:,}">{compact(n)}</span>'


def _foot(seen: Overview) -> str:
    prices = (
        "No prices: the extra <code>cost</code> is not installed."
        if seen.prices is None
        else f"Cost is an estimate by public list prices: {text(str(seen.prices))}. Discounts, "
        "subscriptions and batches are not in it; calls of unknown models have no cost."
    )
    return (
        '<footer class="dim"><p>Each model call counts once. Tokens are prompt and completion, cache '
        f"included. {prices} An error is open until the log says or shows that it was dealt with. "
        "A blank is unknown.</p>"
        f"<p>Made by locus report, {seen.made_at:%Y-%m-%d %H:%M} UTC.</p></footer>\n"
    )
