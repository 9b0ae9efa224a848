"""What the log holds on something: the client's reading operations over the local log (S0-2, S1-60).

`find` is the one function that decides what is relevant, by words for the time being: a query's words
are searched for in titles, paths, names and payloads; what holds more of them comes first, then what is
newer. A search by meaning takes its place without its callers noticing. Nothing here writes.

Of a context that was written several times the newest event that fits is found, and an anchor is shown
in its present state (S0-13). What happened (a decision, an error, feedback) is found one by one, also where
an earlier version gave all of a kind one context.
"""

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from eventlog.base import jsontext, names
from eventlog.base.stop_words import QUESTION_STOP_WORDS
from eventlog.projections.definitions import HAPPENED_AT
from eventlog.recorder.requests import (
    Context,
    ContextResult,
    ContextType,
    ContextTypeFilter,
    InsightResult,
    InsightsOptions,
    Memory,
    RetrieveOptions,
)
from eventlog.store import Store

LIMIT = 10  # S1-25, where the caller names none
WORDS_MAX = 12  # the longest words of a long message; each costs a scan of every payload
TEXT_SIZE_MAX = 300  # of what a memory says; the event has all of it
_EVENTS_PER_MEMORY = 20  # how many events of one context may come before another is missed

# Raw input that adapters turn into events of other types, and Locus's own bookkeeping; and what says little
# in words: only a question for its type, its context or what it extends finds it.
_RAW_TYPES = ("hook", "cursor", "maintenance", "retention", "withheld", "content")
_QUIET_TYPES = (*_RAW_TYPES, "snapshot", "llm", "sessions")

# What happens, and is no state of a context that a later event would replace.
_OCCURRENCES = frozenset(
    ("intent", "action", "file", "decision", "error", "llm", "feedback", "discovery", "warning", "mutation",
     "outcome", "message")
)  # fmt: skip

_HAYSTACK = "lower(concat_ws(' ', title, path, tool, error_type, operation, model, context_id, payload))"
_AT = f"epoch_us({HAPPENED_AT})"
_COLUMNS = (
    f"context_id, event_id, event_type, position, {_AT} as happened, title, operation, path, tool, "
    "error_type, payload"
)


def find(store: Store, query: str, options: RetrieveOptions | None = None) -> list[Memory]:
    """What bears on `query`, the most relevant first; without words in it, the newest first.

    With `extends` it is all that is under that context, in the order of the log (S1-53).
    """
    options = options or RetrieveOptions()
    limit = LIMIT if options.limit is None else options.limit
    if limit <= 0:
        return []
    where = _Where()
    narrowed = options.context_ids or options.context_types or options.extends is not None
    where.add("not list_contains({}, event_type)", list(_RAW_TYPES if narrowed else _QUIET_TYPES))
    if options.context_ids:
        where.add(
            "list_contains({}, context_id)", [names.sanitize_context_id(i) for i in options.context_ids]
        )
    if options.extends is not None:
        where.add("list_contains(extends, {})", names.sanitize_context_id(options.extends))
    where.add_types(options.context_types)
    words = [] if options.extends is not None else words_of(query)
    score = " + ".join(f"contains({_HAYSTACK}, {where.parameter(word)})::int" for word in words) or "0"
    order = "position" if options.extends is not None else "score desc, position desc"
    rows = store.query(
        f"select * exclude (score) from (select {_COLUMNS}, {score} as score from events {where}) "
        f"where score > 0 or {not words} "
        f"order by {order} limit {limit * _EVENTS_PER_MEMORY}",
        where.parameters,
    ).rows
    newest: dict[str, Memory] = {}
    for context_id, event_id, event_type, position, at, *texts in rows:
        key = event_id if event_type in _OCCURRENCES else context_id or event_id
        if key not in newest and len(newest) == limit:
            continue
        if key not in newest or position > newest[key].position:
            memory = Memory(context_id, event_id, event_type, position, at, _text(*texts))
            newest[key] = memory
    return _with_anchors(store, list(newest.values()))


def memories_at(store: Store, positions: Sequence[int]) -> list[Memory]:
    """The memories of the events at some positions, in their order."""
    rows = store.query(
        f"select {_COLUMNS} from events where list_contains($1, position) order by position",
        [list(positions)],
    ).rows
    memories = []
    for context_id, event_id, event_type, position, at, *texts in rows:
        memories.append(Memory(context_id, event_id, event_type, position, at, _text(*texts)))
    return _with_anchors(store, memories)


def retrieve_memories(store: Store, query: str, options: RetrieveOptions | None = None) -> ContextResult:
    """What bears on `query`, as text with the events it comes from. Raises: EventLogError.

    When contexts or types are named and none of them holds a word of the query, the newest of them are
    given: "recent turns" need not contain these words (S1-25).
    """
    memories = find(store, query, options)
    if not memories and options is not None and (options.context_ids or options.context_types):
        memories = find(store, "", options)
    return result_of(memories)


def result_of(memories: Sequence[Memory]) -> ContextResult:
    """Memories as the client gives them: one line each, with the context and the event."""
    return ContextResult("\n".join(map(cited, memories)), len(memories), items=tuple(memories))


def cited(memory: Memory) -> str:
    """A memory on one line, with where it comes from."""
    day = "" if memory.at is None else f"{datetime.fromtimestamp(memory.at / 1e6, UTC):%Y-%m-%d} "
    return f"[{' '.join(memory.cites)}] {day}{memory.text}".rstrip()


def generate_insights(store: Store, task: str, options: InsightsOptions | None = None) -> InsightResult:
    """What was decided, what failed and what came of it, where it bears on a task; nothing is made up.

    A digest of the log: the same log and task give the same answer. Raises: EventLogError.
    """
    options = options or InsightsOptions()
    query = options.locus_query or task
    limit = 5 if options.limit is None else options.limit

    def of_type(*types: str) -> list[Memory]:
        chosen = {kind: options.context_types.get(kind, ContextTypeFilter()) for kind in types}
        if options.context_types and not set(types) & set(options.context_types):
            return []
        return find(store, query, RetrieveOptions(limit, options.context_ids, chosen))

    decisions, errors, outcomes = of_type("decision"), of_type("error", "observation"), of_type("turn")
    open_errors = _unresolved(store, errors)
    parts = (("Decisions", decisions), ("Errors", errors), ("Outcomes", outcomes))
    insight = "\n".join(
        f"{head}:\n" + "\n".join(f"- {cited(memory)}" for memory in memories)
        for head, memories in parts
        if memories
    )
    if open_errors:
        advice = f"Not known to be resolved: {cited(open_errors[0])}"
    elif decisions:
        advice = f"Last decided: {cited(decisions[0])}"
    else:
        advice = ""
    cites = tuple(dict.fromkeys(m.event_id for _, memories in parts for m in memories))
    return InsightResult(insight, advice, None, cites)


def list_context_types(store: Store, page: int = 0, page_size: int = 100) -> list[ContextType]:
    """The types of contexts, the most numerous first. Pages count from 0."""
    rows = store.query(
        "select split_part(context_id, ':', 1) as kind, count(distinct context_id) as contexts from events "
        "where contains(context_id, ':') group by kind order by contexts desc, kind "
        f"{_page(page, page_size)}"
    ).rows
    return [ContextType(*row) for row in rows]


def search_contexts(
    store: Store, query: str, context_type: str | None = None, page: int = 0, page_size: int = 100
) -> list[Context]:
    """Contexts whose id holds the text, the one written last first. Pages count from 0."""
    where = _Where()
    where.add("contains(context_id, {})", query.strip().lower())
    if context_type is not None:
        where.add("starts_with(context_id, {})", f"{names.safe_context_name(context_type)}:")
    rows = store.query(
        f"select context_id, min({_AT}), max({_AT}) from events {where} "
        f"group by context_id order by max(position) desc {_page(page, page_size)}",
        where.parameters,
    ).rows
    ids = [row[0] for row in rows]
    links = " || ".join(
        f"coalesce({name}, [])" for name in ("extends", "related_to", "reinforces", "contradicts")
    )
    counts: dict[str, int] = {}
    if ids:
        pairs = f"select event_id, unnest({links}) as link from events"
        counts = dict(
            store.query(
                f"select link, count(distinct event_id) from ({pairs}) where list_contains($1, link) "
                "group by link",
                [ids],
            ).rows
        )
    return [
        Context(id, _type_in(id), id.removeprefix(f"{_type_in(id)}:"), first, last, counts.get(id, 0))
        for id, first, last in rows
    ]


def context_state(store: Store, context_id: str) -> "dict[str, Any] | None":
    """The present state of a context: of each key the last value that its events have (S0-13).

    `context_id`, `state`, and `events`, their ids in the order of the log; None for a context that no event
    has. Anchors say more: the views `sessions`, `turns` and `sessions_master` count, too.
    """
    sql = "select event_id, payload from events where context_id = $1 order by position"
    rows = store.query(sql, [names.sanitize_context_id(context_id)]).rows
    state: dict[str, Any] = {}
    for _, payload in rows:
        values = jsontext.object_of(payload)
        envelope = set(values) == {"kind", "data"} and isinstance(values["data"], dict)
        state |= values["data"] if envelope else values
    return {"context_id": context_id, "state": state, "events": [row[0] for row in rows]} if rows else None


def words_of(query: str) -> list[str]:
    """The words to look for: the longest ones of two characters or more, each once; of one
    letter where there are no others.

    None where all are stop words.
    """
    spaced = "".join(c if c.isalnum() or c in "_-./" else " " for c in query.lower())
    stripped = dict.fromkeys(word.strip("-./") for word in spaced.split())
    words = [word for word in stripped if word and word not in QUESTION_STOP_WORDS]
    longest = sorted((word for word in words if len(word) > 1), key=len, reverse=True)
    return (longest or words)[:WORDS_MAX]


def turn_text(turn: Mapping[str, Any]) -> str:
    """An anchor in one line: title, what came of it, decisions, files."""
    parts = [turn["title"] or turn["user_request"] or "", turn["outcome"] or ""]
    if turn["decisions"]:
        parts.append("decided: " + "; ".join(turn["decisions"]))
    if turn["files_modified"]:
        parts.append("changed: " + ", ".join(turn["files_modified"]))
    return _short(" — ".join(part for part in map(_line, parts) if part))


def session_text(session: Mapping[str, Any]) -> str:
    """A session in one line: title, summary."""
    return _short(" — ".join(part for part in (_line(session["title"]), _line(session["summary"])) if part))


def _type_in(context_id: str) -> str:
    kind, colon, _ = context_id.partition(":")
    return kind if colon else ""


class _Where:
    """Conditions of a query and their parameters."""

    def __init__(self) -> None:
        self.parameters: list[Any] = []
        self._conditions: list[str] = []

    def parameter(self, value: object) -> str:
        self.parameters.append(value)
        return f"${len(self.parameters)}"

    def add(self, condition: str, *values: object) -> None:
        self._conditions.append(condition.format(*map(self.parameter, values)))

    def add_types(self, types: Mapping[str, ContextTypeFilter]) -> None:
        """Contexts of these types, and of these names where any is given."""
        either = []
        for kind, chosen in types.items():
            prefix = f"{names.safe_context_name(kind)}:"
            if chosen.names:
                ids = [prefix + names.safe_context_name(name) for name in chosen.names]
                either.append(f"list_contains({self.parameter(ids)}, context_id)")
            else:
                either.append(f"starts_with(context_id, {self.parameter(prefix)})")
        if either:
            self._conditions.append(f"({' or '.join(either)})")

    def __str__(self) -> str:
        return f"where {' and '.join(self._conditions)}" if self._conditions else ""


def _with_anchors(store: Store, memories: list[Memory]) -> list[Memory]:
    """The memories, those of anchors with what the anchor says now."""
    texts: dict[str, str] = {}
    for event_type, text_of, columns in (
        ("turn", turn_text, "context_id, title, user_request, outcome, decisions, files_modified"),
        ("session", session_text, "context_id, title, summary"),
    ):
        ids = [m.context_id for m in memories if m.event_type == event_type and m.context_id]
        if ids:
            result = store.query(
                f"select {columns} from {event_type}s where list_contains($1, context_id)", [ids]
            )
            rows = (dict(zip(result.columns, row, strict=True)) for row in result.rows)
            texts |= {row["context_id"]: text_of(row) for row in rows}
    return [
        Memory(
            m.context_id, m.event_id, m.event_type, m.position, m.at, texts.get(m.context_id or "") or m.text
        )
        for m in memories
    ]


def _unresolved(store: Store, errors: Iterable[Memory]) -> list[Memory]:
    """Those of the errors that are not known to be resolved."""
    errors = list(errors)
    if not errors:
        return []
    resolved = {
        row[0]
        for row in store.query(
            "select event_id from errors where resolved and list_contains($1, event_id)",
            [[error.event_id for error in errors]],
        ).rows
    }
    return [error for error in errors if error.event_id not in resolved]


def _text(
    title: str | None,
    operation: str | None,
    path: str | None,
    tool: str | None,
    error_type: str | None,
    payload: str | None,
) -> str:
    """What an event says, in one line: its title or what it was done to, and the texts of its payload."""
    head = title or " ".join(part for part in (operation if path else None, path or tool, error_type) if part)
    values = jsontext.decode(payload) if payload else {}
    lines = dict.fromkeys(line for line in map(_line, (head, *_texts_in(values))) if line)
    return _short(" — ".join(lines))


def _texts_in(value: object) -> Iterable[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for inner in value.values():
            yield from _texts_in(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _texts_in(inner)


def _line(text: str | None) -> str:
    return " ".join((text or "").split())


def _short(text: str) -> str:
    return text if len(text) <= TEXT_SIZE_MAX else text[: TEXT_SIZE_MAX - 1] + "…"


def _page(page: int, page_size: int) -> str:
    size = max(1, page_size)
    return f"limit {size} offset {max(0, page) * size}"
