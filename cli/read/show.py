"""`locus show`: one event, turn, session or context."""

import dataclasses
import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import click

import eventlog
from eventlog.base.types import COLUMN_KINDS, COLUMN_NAMES, TIME
from eventlog.blobs.payload_texts import payload_with_texts
from eventlog.doctor.completeness import completeness
from eventlog.log.upcast import is_newer
from eventlog.memory import intent
from eventlog.projections.definitions import ASKED_FOR, all_of
from eventlog.query.lookup import names_a_turn, turns_where
from eventlog.reading.page import PageReader
from eventlog.reading.styles import Line
from eventlog.reading.text import TextRenderer
from eventlog.recorder.retrieval import context_state
from eventlog.recorder.sessions import chain
from eventlog.replay.certainty import TELLS_OF_FILES, status_words
from eventlog.replay.diffs import diff_of
from eventlog.retention import indexed

from .. import complete
from ..access import open_store
from ..all_stores import in_all_stores
from ..options import json_option
from ..output import (
    certainty_json,
    compact_json,
    document,
    lines,
    microseconds,
    moment_exact,
    one_line,
    pairs,
    path_words,
    put,
    say,
    table,
    terminal_width,
)
from ..records import (
    Record,
    certainty_words,
    event_json,
    records,
    title_of,
    turn_record,
    with_erased,
    with_life,
)
from ..session.text import retention_fields, retention_words
from ..terminal import put_lines
from ..times import when, with_zone, zone

_LISTED_MAX = 5
_PATHS = frozenset(("path", "files_read", "files_modified"))
_LIST_SHOWN = 10  # of the paths and other lists of an anchor; --json has them all
_HEX = frozenset("0123456789abcdef")
_OF_PARTS = "where list_contains($1, session_id) order by list_position($1, session_id), turn"

WITHHELD_TEXT = "[withheld: the content {why}; `locus cat --show-withheld` writes it]"


@click.command("show")
@click.argument("name", metavar="ID", shell_complete=complete.turns_and_sessions)
@click.option("--full", is_flag=True, help="Whole results and diffs, and what the agent thought.")
@click.option("--fields", "as_fields", is_flag=True, help="The columns of a turn or session instead.")
@json_option
@in_all_stores
def command(name: str, full: bool, as_fields: bool, as_json: bool) -> None:
    """Show one turn or session to read, or one event or context.

    ID is an event's id, a session's id (or the beginning of one of these), a turn, or a context id
    such as file:SID_TID_SEQ. A turn reads as a page: the request, what the agent wrote, each call with
    its result and the files that it changed. A session's id shows the turns of all parts of its
    conversation, its context id session:SLUG_ID that part alone. For a file event the change is shown as a
    unified diff. For a context that several events wrote, its present state is shown.
    """
    with open_store() as store:
        kind, key = _resolve(store, name)
        parts = [key] if name.startswith("session:") else chain(store, key) if kind == "session" else []
        if kind in ("turn", "session") and not (as_fields or as_json):
            turns = turns_where(store.query, _OF_PARTS, [parts]) if parts else [store.turn(key)]
            put_lines(_pages(store, turns, full=full))
            return
        if kind == "turn":
            fields, text = _turn(store, store.turn(key))
        elif kind == "session":
            fields, text = session_and_turns(store, key, parts, whole=as_json)
        elif kind == "context":
            fields, text = _context(store, key)
        else:
            fields, text = _event(store, key)
    put(document(fields) if as_json else text)


def _pages(store: "eventlog.Store", turns: "Sequence[eventlog.TurnRef]", *, full: bool) -> Iterator[Line]:
    reader = PageReader(store, whole=full)
    renderer = TextRenderer(terminal_width(), full, with_zone)
    for turn in turns:
        yield from renderer.page(reader.turn(turn))


def _resolve(store: "eventlog.Store", name: str) -> tuple[str, str]:
    """The object of a name: (`turn`, name), (`session`, its id) or (`event`, its id)."""
    if names_a_turn(name):
        return "turn", name
    if name.startswith("session:"):
        return "session", _only(store, name, _sessions(store, name.rpartition("_")[2]))[1]
    if ":" in name:
        event_ids = store.query("select event_id from events where context_id = $1 limit 2", [name]).rows
        if len(event_ids) > 1:
            return "context", name
        return _only(store, name, [("event", row[0]) for row in event_ids])
    if "_" in name:
        return "turn", name
    if name.startswith("sess-"):
        return _only(store, name, _sessions(store, name.removeprefix("sess-")))
    return _only(store, name, _sessions(store, name) + _events(store, name))


def _sessions(store: "eventlog.Store", prefix: str) -> list[tuple[str, str]]:
    result = store.query(
        f"select session_id from sessions where starts_with(session_id, $1) limit {_LISTED_MAX}", [prefix]
    )
    return [("session", row[0]) for row in result.rows]


def _events(store: "eventlog.Store", prefix: str) -> list[tuple[str, str]]:
    if not _HEX.issuperset(prefix.lower()):
        return []
    result = store.query(
        f"select event_id from events where starts_with(event_id, $1) limit {_LISTED_MAX}", [prefix.lower()]
    )
    return [("event", row[0]) for row in result.rows]


def _only(store: "eventlog.Store", name: str, candidates: list[tuple[str, str]]) -> tuple[str, str]:
    if not candidates:
        raise eventlog.NotFound(
            f"nothing in {store.layout.root} is called {name!r}. `locus log` lists turns, "
            "`locus log --events` events."
        )
    if len(candidates) > 1:
        names = ", ".join(f"{kind} {key}" for kind, key in candidates[:_LISTED_MAX])
        raise eventlog.Ambiguous(f"{name!r} fits more than one thing: {names}. Give more of the name.")
    return candidates[0]


def _turn(store: "eventlog.Store", turn: "eventlog.TurnRef") -> tuple[Record, str]:
    anchor = turn_record(store, turn)
    certainties = {at: store.certainty(turn, at) for at in ("start", "end")}
    more = f"\n`locus timeline {turn.name}` shows its events.\n"
    shown = {**_telling(anchor), "status": status_words(anchor["status"], certainties["end"])}
    shown |= {f"{at}_certainty": certainty_words(certainty) for at, certainty in certainties.items()}
    fields = {
        "turn": with_life(anchor, certainties["end"]),
        "certainty": {at: certainty_json(certainty) for at, certainty in certainties.items()},
    }
    return fields, _pairs(shown) + more


def session_and_turns(
    store: "eventlog.Store", session_id: str, parts: Sequence[str], *, whole: bool
) -> tuple[Record, str]:
    """A session for JSON and for people, with the turns of these parts of its conversation.

    Args: whole: with the columns of its turns that only JSON has.
    """
    about = intent.find(store, session_id)
    sql = f"select {all_of('sessions')} from sessions where session_id = $1"
    session = next(records(store.query(sql, [session_id])))
    columns = all_of("turns", () if whole else ASKED_FOR)
    listed = store.query(
        f"select {columns} from turns where list_contains($1, session_id) "
        "order by list_position($1, session_id), turn",
        [list(parts)],
    )
    turns = with_erased(store, list(records(listed)))
    cells = [
        (
            f"{turn['session_id']}_{turn['turn_id']}",
            when(microseconds(turn["started_at"])),
            str(turn["event_count"]),
            title_of(turn),
        )
        for turn in turns
    ]
    heads = ("TURN", f"STARTED ({zone()})", "EVENTS", "TITLE")
    shown = "\n" + table(heads, cells, right=(2,), drop=("EVENTS", "STARTED")) if cells else ""
    report = completeness(store, session_id)
    contents = retention_fields(indexed.indexed_retention(store), session_id)
    statement = pairs(
        [
            ("session", about.name),
            ("parts", " ".join(parts) if len(parts) > 1 else ""),
            ("focus", one_line(about.focus) if about.declared else ""),
            ("scope", one_line(", ".join(about.scope or ()))),
            ("description", one_line(about.description or "")),
            ("contents", ", ".join(retention_words(contents))),
            ("completeness", one_line(str(report))),
            ("no outcome", one_line(", ".join(report.without_outcome))),
            (
                "unknown ends",
                one_line("; ".join(f"{unsure.turn}: {unsure.why}" for unsure in report.unsure_turns)),
            ),
        ]
    )
    fields = {
        "session": session,
        "parts": list(parts),
        "intent": intent.fields(about),
        "turns": turns,
        "completeness": dataclasses.asdict(report),
        "retention": contents,
    }
    return fields, f"{_pairs(_telling(session))}\n{statement}{shown}"


def _context(store: "eventlog.Store", context_id: str) -> tuple[Record, str]:
    context = context_state(store, context_id)
    assert context is not None
    state = lines(json.dumps(context["state"], indent=2, ensure_ascii=False))
    written = f"{len(context['events']):,} events, the last {context['events'][-1]}"
    text = f"{_pairs({'context_id': context_id, 'written by': written})}\nstate\n{state}\n"
    return {"context": context}, text


def _event(store: "eventlog.Store", event_id: str) -> tuple[Record, str]:
    event = store.event(event_id)
    event["payload"] = payload_with_texts(store, event["payload"])
    if is_newer(event):
        say(
            f"This event was written by a newer Locus (schema version {event['schema_version']}); "
            "it is shown as it is."
        )
    shown = event_json(event)
    is_file = event["event_type"] == "file"
    withheld = is_file and not store.withheld().isdisjoint({event["before_hash"], event["after_hash"]})
    diff = diff_of(event, store.blobs) if is_file and not withheld else None
    certainty = _certainty_at(store, event)
    fields: Record = {"event": shown}
    text = _pairs({name: shown.get(name) for name in COLUMN_NAMES if name != "payload"})
    if certainty is not None:
        fields["certainty"] = certainty_json(certainty)
        text += _pairs({"files then": certainty_words(certainty)})
    if event["payload"]:
        text += "\npayload\n" + lines(json.dumps(event["payload"], indent=2, ensure_ascii=False)) + "\n"
    if withheld:
        fields["withheld"] = True
        why = store.why_withheld(event["before_hash"], event["after_hash"])
        text += f"\n{WITHHELD_TEXT.format(why=why)}\n"
    if diff is not None:
        fields["diff"] = diff
        text += "\n" + lines(diff)
    return fields, text


def _certainty_at(store: "eventlog.Store", event: Mapping[str, Any]) -> "eventlog.Certainty | None":
    """How well the files just after an event of a turn are known; None outside turns."""
    if event["turn"] is None or event["event_type"] not in TELLS_OF_FILES:
        return None
    try:
        return store.certainty(f"{event['session_id']}_{event['turn_id']}", str(event["event_id"]))
    except eventlog.EventLogError:
        return None  # the code that needs the tree reports that it cannot be read


def _telling(anchor: Record) -> Record:
    """An anchor without lines that are useless to people: tokens without calls, a repeated title."""
    quiet = {name for name in anchor if name.endswith(("_tokens", "tokens_used")) and not anchor["llm_calls"]}
    if anchor.get("user_request") == anchor["title"]:
        quiet.add("user_request")
    return {name: value for name, value in anchor.items() if name not in quiet}


def _pairs(record: Record) -> str:
    return pairs((name, _value(name, value)) for name, value in record.items())


def _value(name: str, value: Any) -> str:
    """A value for people; empty for an unknown or empty one."""
    if value is None or value == []:
        return ""
    if isinstance(value, list):
        more = f", and {len(value) - _LIST_SHOWN:,} more" if len(value) > _LIST_SHOWN else ""
        spelled = path_words if name in _PATHS else one_line
        return ", ".join(spelled(str(each)) for each in value[:_LIST_SHOWN]) + more
    if isinstance(value, dict):
        return one_line(compact_json(value))
    if COLUMN_KINDS.get(name) == TIME or hasattr(value, "isoformat"):
        return value if isinstance(value, str) else moment_exact(microseconds(value)) or ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    return path_words(str(value)) if name in _PATHS else one_line(str(value))
