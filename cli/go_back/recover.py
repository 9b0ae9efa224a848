"""`locus recover`: find a file that is gone or spoiled, and bring one of its recorded states back."""

import os
from typing import Any

import click

import eventlog
from eventlog.projections.operations import UNDO
from eventlog.undo.plan import operations_of
from eventlog.undo.recover import BEFORE, SEEN, RecordedState, plan_of_recovery, recorded_states

from .. import complete
from ..access import open_store
from ..exits import ERROR, exit_with
from ..options import json_option, limit_option
from ..output import UNKNOWN, count, document, moment_exact, one_line, path_words, put, say, size
from ..progress import Progress
from ..streams import can_ask
from ..times import when
from .restore import check_whereabouts

_SHOWN = 20


@click.command("recover")
@click.argument("path", metavar="PATH", shell_complete=complete.paths)
@click.option("--number", type=click.IntRange(min=1), metavar="N", help="Bring back the Nth of the list.")
@click.option("--to", metavar="FILE", type=click.Path(), help="Write it to this new file, not to its place.")
@click.option("--yes", is_flag=True, help="Do not ask: bring back the newest.")
@limit_option(_SHOWN)
@json_option
def command(path: str, number: int | None, to: str | None, yes: bool, limit: int, as_json: bool) -> None:
    """Find the recorded states of a file, and bring one back.

    PATH is a file, or a pattern like 'docs/*'. States come from what agents did, from all recorded trees and
    from what restores replaced, newest first. On a terminal you are asked which one; what is there now is
    saved first, and `locus restore --undo` brings that back.
    """
    with open_store() as store:
        with Progress("looking"):
            states, elsewhere = _find(store, path)
        if as_json:
            put(document({"states": [_as_json(state) for state in states[:limit]]}))
        else:
            _show(store, path, states[:limit])
        if len(states) > limit:
            say(f"There are more; --limit N shows more than {limit}.")
        if not states:
            also = f" Of this name there are: {', '.join(map(path_words, elsewhere))}." if elsewhere else ""
            say(f"No state of {path_words(path)} was recorded.{also}")
            exit_with(ERROR)
        chosen = _chosen(states[:limit], number, yes, as_json)
        if chosen is None:
            if to is None:
                return
            raise eventlog.Refused(
                "nothing was written: no state was chosen, and there is no terminal to ask on. --number N "
                "writes the Nth of the list, --yes the newest."
            )
        if to is not None:
            _write(store, chosen, to)
            return
        check_whereabouts(store)
        _bring_back(store, chosen)


def _find(store: "eventlog.Store", given: str) -> tuple[list[RecordedState], list[str]]:
    from ..filters import names_of

    for name in names_of(store, given):
        if states := recorded_states(store, name):
            return states, []
    same_name = recorded_states(store, f"*/{os.path.basename(given)}")
    return [], sorted({state.path for state in same_name})


def _chosen(
    states: list[RecordedState], number: int | None, yes: bool, as_json: bool
) -> RecordedState | None:
    if number is None and not yes:
        if as_json or not can_ask():
            return None
        number = click.prompt(
            "Bring back which one?", type=click.IntRange(1, len(states)), default=1, err=True
        )
    if number is None:
        number = next((at for at, state in enumerate(states, 1) if state.lost is None), 1)
    if number > len(states):
        raise eventlog.NotFound(f"there are only {count(len(states), 'state')}, and no number {number}")
    chosen = states[number - 1]
    if chosen.lost is not None:
        raise eventlog.NotFound(f"{path_words(chosen.path)}: {chosen.lost}. --number N takes another state.")
    return chosen


def _bring_back(store: "eventlog.Store", chosen: RecordedState) -> None:
    plan = plan_of_recovery(store, chosen)
    if not plan.steps and not plan.conflicts:
        say(f"{path_words(chosen.path)} is in this state already.")
        return
    with Progress("recovering"):
        store.restore(plan)
    say(f"Recovered {path_words(chosen.path)}. `locus restore --undo` takes it back.")


def _write(store: "eventlog.Store", chosen: RecordedState, to: str) -> None:
    data = store.blobs.get(chosen.state.id)
    with open(to, "xb") as file:
        file.write(data)
    say(f"Wrote {path_words(chosen.path)} to {one_line(to)}.")


def _show(store: "eventlog.Store", path: str, states: list[RecordedState]) -> None:
    several = len({state.path for state in states}) > 1 or (bool(states) and states[0].path != path)
    for number, state in enumerate(states, 1):
        size_bytes = state.size_bytes
        shown = UNKNOWN if size_bytes is None else size(size_bytes)
        parts = [f"{number:>3}", when(state.recorded_at), shown, _where(state)]
        if several:
            parts.append(path_words(state.path))
        if state.deleted_by is not None:
            parts.append(f"deleted by {_what(store, state.deleted_by)}")
        if state.lost is not None:
            parts.append(f"lost: {one_line(state.lost)}")
        put("  ".join(filter(None, parts)) + "\n")


def _where(state: RecordedState) -> str:
    """What the state was before or after, as first seen."""
    if state.source == "restore":
        done = f"{'an' if state.operation == UNDO else 'a'} {state.operation}"
        return f"replaced by {done}" if state.moment == BEFORE else f"made by {done}"
    if state.turn is None:
        return "outside of any turn"
    return {BEFORE: "before ", SEEN: "seen in "}.get(state.moment, "by ") + state.turn


def _what(store: "eventlog.Store", event_id: str) -> str:
    """The command or tool of an event, the undo or restore that it is, or its id."""
    rows = store.query("select command, tool from actions where event_id = $1", [event_id]).rows
    for command, tool in rows:
        return f"`{one_line(command)}`" if command else str(tool)
    operation = operations_of(store).named(event_id)
    return f"event:{event_id}" if operation is None else f"the {operation.kind} event:{event_id}"


def _as_json(state: RecordedState) -> dict[str, Any]:
    return {
        "path": state.path, "hash": state.hash, "size": state.size_bytes, "turn": state.turn,
        "at": moment_exact(state.recorded_at), "source": state.source, "moment": state.moment,
        "operation": state.operation, "deleted_in": state.deleted_in,
        "deleted_by": state.deleted_by, "lost": state.lost,
    }  # fmt: skip
