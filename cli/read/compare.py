"""`locus compare`: two turns, sessions or attempts side by side (docs/compare.md)."""

from dataclasses import asdict
from typing import Any

import click

import eventlog
from eventlog.base.errors import NoTree
from eventlog.reports import comparison
from eventlog.reports.comparison import ComparedFiles, ComparedSide
from eventlog.reports.number_text import cents
from eventlog.undo.agent_turns import turns_of

from .. import complete
from ..access import open_store
from ..all_stores import in_all_stores
from ..options import json_option
from ..output import count, document, one_line, path_words, put, say, table

_PATHS_SHOWN = 20
_COLUMNS_OF_A_SIDE = 60


@click.command("compare")
@click.argument("a", metavar="A", shell_complete=complete.turns_and_sessions)
@click.argument("b", metavar="B", shell_complete=complete.turns_and_sessions)
@click.option("--diff", "with_diff", is_flag=True, help="Also the difference from the end of A to that of B.")
@json_option
@in_all_stores
def command(a: str, b: str, with_diff: bool, as_json: bool) -> None:
    """Compare two turns or sessions: the request, what it took, the files.

    A and B are turns or session:ID. Files are those that either side changed: changed alike, by one side
    alone, or by both differently.
    """
    with open_store() as store:
        sides = [comparison.side_of(store.query, name, _turns(store, name)) for name in (a, b)]
        files, why = None, ""
        try:
            files = comparison.files_of(store.tree, *sides)
        except (NoTree, eventlog.NotFound) as error:
            why = str(error)
        if as_json:
            put(document({"compare": _as_json(sides, files, why)}))
        else:
            put(_table(sides))
            put(_files(files) if files is not None else f"files  not known: {one_line(why)}\n")
    if with_diff and not as_json:
        from ..go_back.diff import command as diff

        ends = [side.turns[-1].name for side in sides]
        click.get_current_context().invoke(
            diff, turn=ends[0], others=(f"turn:{ends[1]}",), stat=False, name_only=False, binary=False,
            show_withheld=False, as_json=False,
        )  # fmt: skip
    if files is None:
        say("What the files were is not known; `locus show` says why of each turn.")


def _turns(store: "eventlog.Store", name: str) -> "list[eventlog.TurnRef]":
    if name.startswith("session:"):
        return turns_of(store, name.rpartition("_")[2].removeprefix("session:"))
    return [store.turn(name)]


def _table(sides: list[ComparedSide]) -> str:
    rows = [("", *(side.name for side in sides))]
    rows.append(("asked", *(_short(side.request) for side in sides)))
    rows.append(
        ("agent", *(" ".join(filter(None, (side.agent, *side.models))) or "unknown" for side in sides))
    )
    rows.append(("outcome", *(_short(side.outcome) for side in sides)))
    rows.append(("time", *(_time(side) for side in sides)))
    rows.append(("tokens", *(_tokens(side) for side in sides)))
    rows.append(("cost", *(_cost(side) for side in sides)))
    for name in ("turn_count", "model_calls", "tool_calls", "errors", "files", "commits"):
        rows.append((name.replace("_", " "), *(_number(side.figures[name]) for side in sides)))
    return table(rows[0], rows[1:], free=rows[0][1:])


def _files(files: ComparedFiles) -> str:
    parts = []
    if files.began_alike is False:
        parts.append("They did not begin with the same files.\n")
    groups = (("alike", files.same), ("only A", files.only_a), ("only B", files.only_b),
              ("both, differently", files.differently))  # fmt: skip
    for name, paths in groups:
        parts.append(f"{name:<18} {count(len(paths), 'file')}\n")
        parts += [f"    {path_words(path)}\n" for path in paths[:_PATHS_SHOWN]]
        if len(paths) > _PATHS_SHOWN:
            parts.append(f"    and {len(paths) - _PATHS_SHOWN:,} more\n")
    return "".join(parts)


def _short(text: str | None) -> str:
    return one_line(text or "unknown", _COLUMNS_OF_A_SIDE)


def _number(value: int | None) -> str:
    return "unknown" if value is None else f"{value:,}"


def _time(side: ComparedSide) -> str:
    """Time at work, over the turns of which it is known."""
    milliseconds, unknown = side.figures["duration_ms"], side.figures["unknown_durations"]
    if milliseconds is None:
        return "unknown"
    seconds = milliseconds / 1000
    text = f"{seconds:.1f} s" if seconds < 120 else f"{seconds / 60:.1f} min"
    return f"{text} ({count(unknown, 'turn')} unknown)" if unknown else text


def _tokens(side: ComparedSide) -> str:
    read, written = side.figures["prompt_tokens"], side.figures["completion_tokens"]
    if read is None and written is None:
        return "unknown"
    return f"{_number(read)} read, {_number(written)} written"


def _cost(side: ComparedSide) -> str:
    cost, unpriced = side.figures["cost_usd"], side.figures["unpriced_calls"]
    text = "unknown" if cost is None else cents(cost)
    return f"{text} ({count(unpriced, 'call')} without a price)" if unpriced else text


def _as_json(sides: list[ComparedSide], files: ComparedFiles | None, why: str) -> dict[str, Any]:
    listed = [
        {"name": side.name, "turns": [turn.name for turn in side.turns], "agent": side.agent,
         "models": list(side.models), "request": side.request, "outcome": side.outcome, **side.figures}
        for side in sides
    ]  # fmt: skip
    return {
        "a": listed[0],
        "b": listed[1],
        "files": None if files is None else asdict(files),
        "why": why or None,
    }
