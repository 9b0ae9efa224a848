"""`locus errors`: what failed, whether it was resolved, and how long that took."""

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import click

from .. import table
from ..access import json_option, open_store, put, say
from ..jsonout import document
from ..repopath import filter_of
from ..text import count, moment, moment_exact, one_line, terminal_width
from .decisions import chosen
from .search import WordsCommand, check_filters, replay, say_partial, session_and_since

if TYPE_CHECKING:
    from eventlog.search.failures import FoundError


@click.command("errors", cls=WordsCommand)
@click.argument("words", nargs=-1, type=click.UNPROCESSED, metavar="[WORDS]…")
@click.option("--open", "state", flag_value="open", help="Only those not known to be resolved.")
@click.option("--resolved", "state", flag_value="resolved", help="Only those that were resolved.")
@click.option("--path", metavar="PATH", help="Only on this file, or below this directory.")
@session_and_since
@click.option(
    "--limit", "-n", type=click.IntRange(min=1, max=1000), default=20, show_default=True, metavar="N"
)
@json_option
@click.pass_context
def command(
    ctx: click.Context,
    words: tuple[str, ...],
    state: str | None,
    path: str | None,
    session: str | None,
    since: int | None,
    limit: int,
    as_json: bool,
) -> int | None:
    """List what failed, newest first, and whether and when it was resolved.

    An error is resolved when the log says so (told), when the same worked later in the session on the
    same path, or with the same command (seen), or when the failed command only searched, such as rg or
    which (exploratory). Anything else counts as open. With WORDS the best matches come first.
    """
    from eventlog.search.failures import failures, median_us

    with open_store(ctx) as store:
        only = check_filters(store, session)
        path = filter_of(store, path)
        positions, answer = chosen(store, words, "error", path, only, since, 1000)
        errors = failures(store.query, positions=positions, path=path, sessions=only, since=since)
    missing = answer.missing if answer else 0
    if positions is not None:
        errors.sort(key=lambda failure: positions.index(failure.position))
    opened = sum(failure.resolved is None for failure in errors)
    resolved = len(errors) - opened
    median = median_us(errors)
    fits = [f for f in errors if state is None or (f.resolved is None) == (state == "open")]
    shown = fits[:limit]
    if as_json:
        summary = {"errors": len(errors), "open": opened, "resolved": resolved, "median_us": median}
        rows = [_json(failure) for failure in shown]
        put(document({"summary": summary, "errors": rows, "more": len(fits) > limit, "not_indexed": missing}))
        return say_partial(answer)
    put(_table(shown))
    resolution_time = "" if median is None else f"; median time to resolution {duration(median)}"
    say(f"{count(len(errors), 'error')}: {opened:,} open, {resolved:,} resolved{resolution_time}.")
    if len(fits) > limit:
        say(f"There are more; --limit N shows more than {limit}.")
    return say_partial(answer)


def _json(failure: "FoundError") -> dict[str, Any]:
    return {
        **asdict(failure),
        "at": moment_exact(failure.at),
        "resolved_at": moment_exact(failure.resolved_at),
        "took_us": failure.took_us,
        "replay": replay(failure.turn_name),
    }


def _table(errors: "list[FoundError]") -> str:
    cells = [
        (
            failure.turn_name or "",
            failure.event_id[:12],
            moment(failure.at),
            failure.resolved or "open",
            "" if failure.took_us is None else duration(failure.took_us),
            one_line(failure.error_type or ""),
            one_line(" ".join(t for t in (failure.path or failure.tool, failure.message) if t)),
        )
        for failure in errors
    ]
    heads = ("TURN", "EVENT", "WHEN (UTC)", "STATE", "TOOK", "ERROR", "WHAT")
    return table.render(heads, cells, right=(4,), width=terminal_width()) if cells else ""


def duration(us: int) -> str:
    """`320 ms`, `12 s`, `4 min`, `3.2 h`, `2.5 d`."""
    seconds = us / 1e6
    if seconds < 1:
        return f"{seconds * 1000:.0f} ms"
    for unit, size, until in (("s", 1, 120), ("min", 60, 7_200), ("h", 3_600, 172_800)):
        if seconds < until:
            return (
                f"{seconds / size:.1f} {unit}"
                if seconds / size < 10 and unit == "h"
                else f"{seconds / size:.0f} {unit}"
            )
    return f"{seconds / 86_400:.1f} d"
