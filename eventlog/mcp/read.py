"""Tools that read: each takes an open store and returns text, and leaves every byte of the store as it is.

Times are absolute, so that the same log gives the same text on each page.
"""

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any

from eventlog.base.display import (
    NO_TITLE,
    event_words,
    lines,
    microseconds,
    moment,
    moment_exact,
    not_searched,
    nothing_fits,
    one_line,
)
from eventlog.base.errors import Ambiguous, Corruption, NotFound, Refused
from eventlog.base.paths import within_sql
from eventlog.base.types import COLUMN_NAMES
from eventlog.mcp.arguments import Path, Paths, Phase, Rows, SessionId, Words
from eventlog.mcp.call import Hint, tool
from eventlog.projections.definitions import (
    DATED_DECISIONS,
    DECISIONS_NEWEST_FIRST,
    SESSIONS_NEWEST_FIRST,
    TURNS_NEWEST_FIRST,
    all_of,
)
from eventlog.projections.happened import happened_at
from eventlog.query.people import FULL, line_without, names_people, text_without, within
from eventlog.store import Store

if TYPE_CHECKING:
    from eventlog.memory.shared_nodes import ContextLoadNode
    from eventlog.query.lookup import TurnRef
    from eventlog.replay.diffs import FileDiff
    from eventlog.search.find import Hit, SearchAnswer

_ANCHOR = f"select {all_of('turns')} from turns where session_id = $1 and turn = $2"
_EVENT_SHOWN = 12
_HEX = frozenset("0123456789abcdef")
_WITHHELD = "withheld: the content {why}; a person may look at it with `locus cat --show-withheld`"


@tool("Search the record")
def search(
    store: Store,
    words: Words,
    types: Annotated[list[str], Hint("decision, error, action, file, llm, …")] | None = None,
    path: Path | None = None,
    session_id: SessionId | None = None,
    limit: Rows = 10,
) -> Iterator[str]:
    """Find words in all events and file contents, best first."""
    from eventlog.search import find, query

    only = None
    if session_id is not None:
        from eventlog.recorder.sessions import meant

        only = meant(store, session_id)
    filters = find.Filters(tuple(types or ()), path, only)
    answer = find.search(store, query.parse(words), filters, limit=limit, writes=False)
    for hit in answer.hits:
        yield _hit(store, hit)
    if not answer.hits:
        yield f"{nothing_fits(answer.missing, answer.events)}\n"
    if answer.more:
        yield f"There are more; limit shows more than {limit}.\n"
    if answer.missing:
        rest = not_searched(answer.missing, answer.events)
        yield f"{rest}; `locus search` in a shell makes an index of all.\n"


def _hit(store: Store, hit: "Hit") -> str:
    what = hit.path if hit.is_content else hit.title or " ".join(t for t in (hit.tool, hit.path) if t)
    kind = "content" if hit.is_content else hit.event_type
    more = f" ({hit.versions} versions)" if hit.versions > 1 else ""
    name = f"turn {hit.turn_name}" if hit.turn_name else "-"
    heading = f"{name}  event {hit.event_id[:_EVENT_SHOWN]}  {moment(hit.at)}  {kind}"
    snippet = "(not in the store any more)" if hit.snippet is None else one_line(hit.snippet)
    if not hit.is_content and store.people.mode != FULL and names_people(_event_of(store, hit)):
        snippet = "(names people, which stay on this machine)"
    elif not hit.is_content:
        snippet = line_without(store.people, snippet)
    return f"{heading}  {one_line(what or '', 200)}{more}\n    {snippet}\n"


def _event_of(store: Store, hit: "Hit") -> "Mapping[str, object]":
    """The event of a hit; only its type where that is enough."""
    few = hit.event_type in ("session", "intent")
    return store.event(hit.event_id) if few else {"event_type": hit.event_type}


@tool("Timeline of a turn")
def timeline(store: Store, turn: str) -> Iterator[str]:
    """All events of a turn, in order."""
    ref = store.turn(turn)
    anchor = _row(store, _ANCHOR, [ref.session_id, ref.turn])
    yield _pairs(
        {
            "turn": anchor.get("context_id"),
            "title": anchor.get("title") or anchor.get("user_request"),
            "started": anchor.get("started_at"),
            "ended": anchor.get("completed_at"),
            "agent": anchor.get("agent"),
            "commit": anchor.get("commit"),
            **_certainty_of(store, ref, anchor),
        }
    )
    events = store.timeline(ref)
    store.line_counts.fill(events)
    for event in events:
        at = moment_exact(microseconds(happened_at(event))) or "-"
        seq = "   " if event["seq"] is None else f"{event['seq']:03d}"
        name = str(event["event_id"])[:_EVENT_SHOWN]
        yield f"{seq}  {name}  {at}  {event['event_type']}  {event_words(event)}\n"


def _certainty_of(store: Store, turn: "TurnRef", anchor: dict[str, Any]) -> dict[str, Any]:
    """The status of a turn, and the certainty of its files where it is not exact."""
    from eventlog.replay.certainty import status_words

    certainties = {at: store.certainty(turn, at) for at in ("start", "end")}
    fields = {
        f"{at}_certainty": None if certainty.exact else f"{certainty.state}: {certainty.why}"
        for at, certainty in certainties.items()
    }
    return {"status": status_words(anchor.get("status"), certainties["end"]) or None, **fields}


@tool("Show one thing")
def show(store: Store, name: Annotated[str, Hint("Its id, or a beginning.")]) -> Iterator[str]:
    """All that is recorded of one event, turn or session."""
    kind, key = _resolve(store, name)
    if kind == "turn":
        ref = store.turn(key)
        anchor = _row(store, _ANCHOR, [ref.session_id, ref.turn])
        yield _pairs({**anchor, **_certainty_of(store, ref, anchor)})
        yield f"\nThe tool timeline shows the events of turn {ref.name}, diff what changed in it.\n"
    elif kind == "session":
        from eventlog.recorder.sessions import chain

        yield from session(store, key, [key] if name.startswith("session:") else chain(store, key))
    elif kind == "context":
        yield _context(store, key)
    else:
        yield from _event(store, key)


def _context(store: Store, context_id: str) -> str:
    """The present state of a context that several events wrote."""
    from eventlog.recorder.retrieval import context_state

    state = context_state(store, context_id)
    text = json.dumps(state, indent=1, ensure_ascii=False)
    return text_without(store.people, text, is_json=True) + "\n"


def session(store: Store, session_id: str, parts: "Sequence[str]") -> Iterator[str]:
    """A session, and a line for each turn of these parts of its conversation."""
    yield _pairs(
        _row(store, f"select {all_of('sessions')} from sessions where session_id = $1", [session_id])
    )
    turns = store.query(
        "select session_id, turn_id, started_at, event_count, coalesce(title, user_request, '') from turns "
        "where list_contains($1, session_id) order by list_position($1, session_id), turn",
        [list(parts)],
    )
    for part, turn_id, started, events, title in turns.rows:
        yield (
            f"turn {part}_{turn_id}  {moment(microseconds(started))}  {events} events  "
            f"{one_line(title, 200) or NO_TITLE}\n"
        )


def _event(store: Store, event_id: str) -> Iterator[str]:
    from eventlog.base.types import COLUMN_KINDS, TIME
    from eventlog.blobs.payload_texts import payload_with_texts
    from eventlog.replay.diffs import diff_of

    event: Mapping[str, object] = store.event(event_id)

    def shown(value: object) -> object:
        return text_without(store.people, value) if isinstance(value, str) else value

    yield _pairs(
        {
            name: moment_exact(microseconds(event[name]))
            if COLUMN_KINDS[name] == TIME
            else shown(event[name])
            for name in COLUMN_NAMES
            if name != "payload"
        }
    )
    payload = payload_with_texts(store, event["payload"])
    if isinstance(payload, dict):
        payload = within(store.people, event, payload)
    if payload:
        text = text_without(store.people, json.dumps(payload, indent=1, ensure_ascii=False), is_json=True)
        yield f"\npayload\n{text}\n"
    if event["event_type"] == "file":
        hashes = event["before_hash"], event["after_hash"]
        if not store.withheld().isdisjoint(hashes):
            yield f"\n[{_WITHHELD.format(why=store.why_withheld(*hashes))}]\n"
        elif (diff := diff_of(event, store.blobs)) is not None:
            yield f"\n{diff}"


def _resolve(store: Store, name: str) -> tuple[str, str]:
    """The object of a name: (`turn`, name), (`session`, id) or (`event`, id). Raises: NotFound, Ambiguous."""
    from eventlog.query.lookup import names_a_turn
    from eventlog.recorder import sessions

    if names_a_turn(name):
        return "turn", name
    if name.startswith(("session:", "sess-")):
        return "session", sessions.named(store, name).session_id
    if ":" in name:
        event_ids = store.query("select event_id from events where context_id = $1 limit 2", [name]).rows
        if len(event_ids) > 1:
            return "context", name
        return _only(name, [("event", row[0]) for row in event_ids])
    if "_" in name:
        return "turn", name
    begins = "select session_id from sessions where starts_with(session_id, $1) limit 5"
    found_sessions = [("session", row[0]) for row in store.query(begins, [name.lower()]).rows]
    found_events = []
    if _HEX.issuperset(name.lower()):
        begins = "select event_id from events where starts_with(event_id, $1) limit 5"
        found_events = [("event", row[0]) for row in store.query(begins, [name.lower()]).rows]
    return _only(name, found_sessions + found_events)


def _only(name: str, candidates: list[tuple[str, str]]) -> tuple[str, str]:
    if not candidates:
        raise NotFound(
            f"nothing here is called {one_line(name, 80)!r}. The tools search and list_sessions give names."
        )
    if len(candidates) > 1:
        names = ", ".join(f"{kind} {key}" for kind, key in candidates)
        raise Ambiguous(f"{one_line(name, 80)!r} fits more than one thing: {names}. Give more of the name.")
    return candidates[0]


@tool("A file as it was")
def file_at(
    store: Store, turn: str, path: Path, at: Annotated[str, Hint(choices=("end", "start"))] = "end"
) -> str:
    """A file as it was in a turn."""
    from eventlog.blobs.ids import blob_id, to_text

    ref = store.turn(turn)
    state, name = store.files_at(ref, at), inside(store, path)
    data, doubt = state.file(name), state.certainty.doubt(name)
    content_hash = to_text(blob_id(data))
    head = f"{one_line(path)} at the {at} of turn {ref.name}: {len(data):,} bytes, {content_hash}"
    if doubt is not None:
        head += f"\n[not known to be exact: {one_line(doubt)}]"
    if content_hash in store.withheld():
        return f"{head}\n[{_WITHHELD.format(why=store.why_withheld(content_hash))}]\n"
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return f"{head}\n[binary; `locus cat {content_hash[:23]}` in a shell writes it]\n"
    crlf = text.count("\r\n")
    if crlf:
        head += f", {crlf:,} lines end with CR LF"
    return f"{head}\n{text.replace(chr(13) + chr(10), chr(10))}"


def inside(store: Store, path: str) -> str:
    """A path as the log has it, from the repository's root, also for an absolute one."""
    above = os.path.dirname(store.layout.root)
    if os.path.isabs(path) and path.startswith(f"{above}/"):
        path = path[len(above) + 1 :]
    return path.removeprefix("./")


@tool("What changed")
def diff(
    store: Store,
    turn: str,
    until: Annotated[str, Hint("A later turn.")] | None = None,
    scope: Paths | None = None,
) -> Iterator[str]:
    """What changed in a turn, or until the end of another."""
    from eventlog.base.paths import path_text

    first = store.turn(turn)
    second = None if until is None else store.turn(until)
    comparison = store.diff(first, second, paths=[inside(store, path) for path in scope or ()])
    span = (
        f"in turn {first.name}"
        if second is None
        else f"from the end of {first.name} to the end of {second.name}"
    )
    yield f"{len(comparison.changes):,} files changed {span}\n"
    withheld = store.withheld()
    for file in comparison:
        yield _patch(store, file, withheld)
    for gap in comparison.missing:
        yield f"not compared: {one_line(path_text(gap.path))}: {one_line(gap.reason)}\n"


def _patch(store: Store, file: "FileDiff", withheld: frozenset[str]) -> str:
    from eventlog.blobs.ids import to_text

    sides = (file.change.before, file.change.after)
    hashes = [to_text(side.id) for side in sides if side is not None]
    if not withheld.isdisjoint(hashes):
        return f"not shown: {one_line(file.path)}: {_WITHHELD.format(why=store.why_withheld(*hashes))}\n"
    try:
        return b"".join(file.patch()).decode("utf-8", "replace").replace("\r\n", "\n")
    except (Corruption, NotFound) as error:
        return f"not compared: {one_line(file.path)}: {one_line(str(error))}\n"


@tool("Decisions")
def decisions(
    store: Store, words: Words | None = None, path: Path | None = None, limit: Rows = 20
) -> Iterator[str]:
    """What was decided and why."""
    where: list[str] = ["true"]
    parameters: list[Any] = []
    missing = events = 0
    if words is not None:
        answer = _decisions_with(store, words, path, limit)
        missing, events = answer.missing, answer.events
        parameters.append([hit.position for hit in answer.hits])
        where.append("list_contains($1, position)")
    if path is not None:
        condition, named = within_sql("path", path.rstrip("/"))
        first = len(parameters) + 1
        parameters += named
        where.append(condition.format(*(f"${first + n}" for n in range(len(named)))))
    sql = (
        "select position, event_id, session_id, turn_id, happened, coalesce(decision, title, ''), reasoning, "
        f"alternatives, path from {DATED_DECISIONS} "
        f"where {' and '.join(where)} order by {DECISIONS_NEWEST_FIRST} limit {limit + 1}"
    )
    rows = store.query(sql, parameters).rows
    for _, event_id, session_id, turn_id, at, decision, reasoning, alternatives, about in rows[:limit]:
        name = f"turn {session_id}_{turn_id}" if session_id and turn_id else "-"
        yield f"{name}  event {event_id[:_EVENT_SHOWN]}  {moment(microseconds(at))}  {one_line(decision)}\n"
        if about:
            yield f"    on {one_line(about)}\n"
        if reasoning:
            yield f"    because {one_line(reasoning)}\n"
        if alternatives:
            yield f"    instead of {one_line('; '.join(alternatives))}\n"
    if not rows:
        yield f"{nothing_fits(missing, events, 'No decision')}\n"
    if len(rows) > limit:
        yield f"There are more; limit shows more than {limit}.\n"
    if missing:
        yield f"{not_searched(missing, events)}; `locus search` in a shell makes an index of all.\n"


def _decisions_with(store: Store, words: str, path: str | None, limit: int) -> "SearchAnswer":
    from eventlog.search import find, query

    filters = find.Filters(("decision",), path)
    return find.search(store, query.parse(words), filters, limit=limit + 1, writes=False)


def load_node(store: Store, workstream: str, phase: str) -> "ContextLoadNode":
    """The loader of a workstream's bundle. Raises: Refused when context is not shared."""
    from eventlog.memory.shared_nodes import ContextLoadNode, is_enabled
    from eventlog.memory.shared_store import ContextStore

    contexts = ContextStore(store, os.path.dirname(store.layout.root))
    if not is_enabled(contexts):
        raise Refused(
            f"context is not shared here. To share it, set `shared = true` under [context] in "
            f"{store.layout.config_file}."
        )
    return ContextLoadNode(contexts, workstream, phase, writes=False)


@tool("Shared context")
def context_bundle(store: Store, workstream: str, phase: Phase = "planning") -> Iterator[str]:
    """What is shared of a workstream, and whether it still holds."""
    made = load_node(store, workstream, phase)({})["context"][phase]
    yield f"{made['bundle']}\n"
    if made["left_out"]:
        yield "left out: " + ", ".join(f"{n} of {name}" for name, n in made["left_out"].items()) + "\n"


def newest(store: Store, limit: int) -> tuple[list[tuple[str, str]], list[tuple[str, str]]]:
    """(name, title) of the newest turns, and of the newest sessions."""
    turns = store.query(
        "select session_id || '_' || turn_id, coalesce(title, user_request, '') from turns "
        f"order by {TURNS_NEWEST_FIRST} limit {limit}"
    )
    sessions = store.query(
        "select 'sess-' || session_id, coalesce(title, '') from sessions "
        f"order by {SESSIONS_NEWEST_FIRST} limit {limit}"
    )
    return _titled(turns.rows), _titled(sessions.rows)


def _titled(rows: list[tuple[Any, ...]]) -> list[tuple[str, str]]:
    return [(name, one_line(title, 100) or NO_TITLE) for name, title in rows]


def _row(store: Store, sql: str, parameters: list[Any]) -> dict[str, Any]:
    result = store.query(sql, parameters)
    return dict(zip(result.columns, result.rows[0], strict=True)) if result.rows else {}


def _pairs(fields: dict[str, Any]) -> str:
    """A line for each field that is known."""
    return "".join(
        f"{name}: {_value(value)}\n" for name, value in fields.items() if value is not None and value != []
    )


def _value(value: Any) -> str:
    if hasattr(value, "isoformat"):
        return moment_exact(microseconds(value)) or ""
    if isinstance(value, (list, dict)):
        return one_line(json.dumps(value, ensure_ascii=False, default=str))
    return one_line(lines(str(value)))
