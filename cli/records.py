"""Rows of the query engine as dicts, and events as JSON shows them."""

from collections.abc import Iterator, Mapping
from typing import Any

import eventlog
from eventlog.base import jsontext
from eventlog.base.types import COLUMN_KINDS, COLUMN_NAMES, TIME
from eventlog.log.erasures import TextErasures
from eventlog.projections.definitions import ASKED_FOR, all_of
from eventlog.replay.certainty import NOT_CLOSED, status_words

from .output import NO_TITLE, microseconds, moment_exact, one_line

Record = dict[str, Any]

# `commit` and others are words of SQL, so every column is quoted.
EVENT_COLUMNS = ", ".join(f'"{name}"' for name in COLUMN_NAMES)


def records(result: "eventlog.Result") -> Iterator[Record]:
    """Each row as a dict from column name to value."""
    columns = list(result.columns)
    for row in result.rows:
        yield dict(zip(columns, row, strict=True))


def events(result: "eventlog.Result") -> Iterator[Record]:
    """Rows of the view `events` as `Store.events` returns them: times as integers, payload a dict."""
    from eventlog.base import jsontext

    for event in records(result):
        for name, kind in COLUMN_KINDS.items():
            if kind == TIME and name in event:
                event[name] = microseconds(event[name])
        if isinstance(event.get("payload"), str):
            event["payload"] = jsontext.decode(event["payload"])
        yield event


def event_json(event: Mapping[str, Any]) -> Record:
    """An event for JSON output: known columns only, times as ISO 8601, payload an object."""
    return {
        name: moment_exact(event[name]) if COLUMN_KINDS[name] == TIME else event[name]
        for name in COLUMN_NAMES
        if event.get(name) is not None
    }


def turn_record(store: "eventlog.Store", turn: "eventlog.TurnRef", *, whole: bool = True) -> Record:
    """The anchor of a turn: its row of the view `turns`, `whole` or without `ASKED_FOR`; running where SQL,
    which knows of no process, says unfinished."""
    columns = all_of("turns", () if whole else ASKED_FOR)
    rows = store.query(
        f"select {columns} from turns where session_id = $1 and turn = $2",
        [turn.session_id, turn.turn],
    )
    return {**next(records(rows)), "end_certainty": store.certainty(turn).state}


_ERASED = "erased"
_ERASED_STARTS = (
    "select session_id, turn, path, payload from events where event_type = 'turn' and operation = 'start' "
    "and redacted and list_contains($1, session_id)"
)


def with_erased(store: "eventlog.Store", turns: list[Record]) -> list[Record]:
    """Turns; those whose title was erased have the reason as `erased`: `it was erased on …`."""
    sessions = sorted({t["session_id"] for t in turns if not (t["title"] or t.get("user_request"))})
    erasures = TextErasures(store.rows)
    reasons = {
        (session, turn): erasures.why({"path": path, "payload": jsontext.object_of(payload)})
        for session, turn, path, payload in (store.query(_ERASED_STARTS, [sessions]).rows if sessions else ())
    }
    return [
        {**turn, _ERASED: why} if (why := reasons.get((turn["session_id"], turn["turn"]))) else turn
        for turn in turns
    ]


def title_of(turn: Record) -> str:
    """The title of a turn on one line: what it was asked, else that it was erased, else that it has none."""
    erased = str(turn.get(_ERASED, "")).removeprefix("it was ")
    return one_line(turn["title"] or turn["user_request"] or erased or NO_TITLE)


def certainty_words(certainty: "eventlog.Certainty") -> str:
    """How well a moment is known, for people: empty where it is exact."""
    return "" if certainty.exact else one_line(f"{certainty.state}: {certainty.why}")


def with_life(turn: Record, at_end: "eventlog.Certainty") -> Record:
    """A turn's row; interrupted where the log says active and its process is gone."""
    return {**turn, "status": "interrupted"} if status_words(turn["status"], at_end) == NOT_CLOSED else turn
