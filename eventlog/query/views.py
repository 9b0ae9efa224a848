"""The views of SQL: what each one is, its columns, and how it is made from events.

Data and text, no connection. Documentation and `describe` show `COLUMNS_OF`. Views over one
event type parse the payload only in the columns a query names.
"""

from collections.abc import Callable
from functools import partial

from eventlog.base.types import COLUMNS
from eventlog.projections import asked, calls, fates, joins, resolutions, settled
from eventlog.projections import definitions as d
from eventlog.projections import spans as of_calls
from eventlog.projections.source import SQL_TYPE_OF
from eventlog.query import added, costs

Columns = d.Columns

# A change of a file, as far as its lines are concerned: the hashes of its contents before and after, null
# where there is none, and whether all lines of one replace all of the other (another type of file).
Pair = tuple["str | None", "str | None", bool]

# Which events state no line counts; `line_counts.is_unstated` is the same. A hash that is null where a
# content should be is unknown (P7), unless the payload names a list of deferred contents.
UNSTATED = (
    "event_type = 'file' AND operation IS DISTINCT FROM 'read' AND lines_added IS NULL "
    "AND lines_removed IS NULL"
)
_WHOLE = "operation IS NOT DISTINCT FROM 'type'"
PAIRS = (
    f"SELECT DISTINCT before_hash, after_hash, {_WHOLE} FROM events "
    f"WHERE {UNSTATED} AND NOT ({fates.NO_BEFORE}) AND NOT ({fates.NO_AFTER})"
)
DEFERRED = (
    "SELECT position, before_hash, after_hash, operation, path, payload FROM events "
    f"WHERE {UNSTATED} AND (({fates.NO_BEFORE}) OR ({fates.NO_AFTER})) AND contains(payload, 'deferred')"
)
# The hashes, empty where there is no content; the position of the change for a deferred one.
LINE_COUNTS = "before_hash VARCHAR, after_hash VARCHAR, whole BOOLEAN, added BIGINT, removed BIGINT"

# Meaning of the envelope's columns, for documentation.
_MEANING_OF = {
    "position": "position of the event in the log, from 0",
    "event_id": "32 hex digits; the same event has the same id",
    "event_type": "session, turn, sessions, intent, action, file, snapshot, decision, error, llm, feedback …",
    "event_kind": "fact, observation, action, decision, feedback",
    "source": "system, user, agent, executor, validator",
    "schema_version": "version of the envelope",
    "redacted": "true when something secret was taken out",
    "session_id": "the session",
    "turn": "number of the turn in its session, null outside turns",
    "turn_id": "the number as text, three digits or more",
    "seq": "number of the event in its turn, from 1; null for lifecycle events",
    "context_id": "name of the event: {type}:{session}_{turn}_{seq}",
    "extends": "contexts it belongs under",
    "related_to": "categories and contexts it is about",
    "reinforces": "contexts it supports",
    "contradicts": "contexts it speaks against",
    "agent": "the program that acts",
    "agent_version": "its version",
    "agent_session_id": "its own id of the session",
    "agent_turn_id": "its own id of the turn",
    "tool_use_id": "its own id of the tool call",
    "subagent_id": "its own id of the subagent",
    "message_id": "the model provider's id of the response",
    "request_id": "the model provider's id of the request",
    "cause": "id of the event that led to this one",
    "repo": "repository hash",
    "worktree": "name of the git worktree",
    "cwd": "working directory",
    "branch": "git branch",
    "commit": "git commit",
    "occurred_at": "when it happened, null if unknown",
    "recorded_at": "when it was recorded",
    "title": "one line saying what it is",
    "status": "state that it reports",
    "tool": "name of the tool",
    "path": "path of the file, relative to the repository",
    "operation": "start, end, update; add, edit, delete, rename, read; turn_start, turn_end",
    "model": "model name",
    "prompt_tokens": "everything the model read, cache included",
    "completion_tokens": "everything it wrote, reasoning included",
    "reasoning_tokens": "part of completion_tokens",
    "cache_read_tokens": "part of prompt_tokens",
    "cache_write_tokens": "part of prompt_tokens",
    "cache_write_1h_tokens": "part of cache_write_tokens",
    "duration_ms": "how long it took",
    "success": "whether it worked",
    "error_type": "kind of error",
    "resolved": "whether the error was dealt with",
    "before_hash": "content before, null when there was none",
    "after_hash": "content after, null when there is none",
    "tree_hash": "tree of the working directory",
    "lines_added": "lines added, as its writer counted them; `files` has those of the contents too",
    "lines_removed": "lines removed, as its writer counted them; `files` has those of the contents too",
    "blobs": "all contents and trees that the event refers to",
    "payload": "the rest of the event, JSON text",
}

EVENTS: Columns = tuple((name, SQL_TYPE_OF[kind], _MEANING_OF[name]) for name, kind in COLUMNS)

_COMMON = ("position", "event_id", "session_id", "turn", "seq", "context_id", "occurred_at", "agent", "repo")

# The meanings of columns in views of changes of files that do not come from the change's own event alone.
_MEANING_OF_CHANGE = {
    "lines_added": "lines added: as its writer counted them, else counted from the contents",
    "lines_removed": "lines removed, likewise",
    "tool": "name of the tool; of the call that is its cause where the change itself names none",
    "tool_use_id": "the agent's own id of the tool call, likewise",
}


# Columns that come with a relation (joins.py).
def _brought(columns: Columns) -> "tuple[tuple[str, str, str, str], ...]":
    return tuple((name, f"={name}", kind, meaning) for name, kind, meaning in columns)


# A key of a payload: (column, key, SQL type, meaning).
_Key = tuple[str, str, str, str]


class _OfType:
    """A view of the events of some types: columns of the envelope, then keys of the payload.

    `where` replaces the condition on types. A key that begins with `=` is an expression.
    """

    __slots__ = ("columns", "envelope", "keys", "where")

    def __init__(
        self,
        types: "tuple[str, ...]",
        envelope: "tuple[str, ...]",
        keys: "tuple[_Key, ...]",
        where: "str | None" = None,
        meanings: "dict[str, str] | None" = None,
    ) -> None:
        self.where = where or f"event_type IN ({', '.join(map(repr, types))})"
        self.envelope = (*_COMMON, *envelope)
        self.keys = keys
        own_meanings = meanings or {}
        kinds = {name: (name, kind, own_meanings.get(name, meaning)) for name, kind, meaning in EVENTS}
        own = tuple((name, kind, meaning) for name, _, kind, meaning in keys)
        self.columns: Columns = (*(kinds[name] for name in self.envelope), *own)

    def select(self, events: str = "events") -> str:
        keys = [f", {_key(key, kind)} AS {d.quoted((name,))}" for name, key, kind, _ in self.keys]
        return f"SELECT {d.quoted(self.envelope)}{''.join(keys)} FROM {events} WHERE {self.where}"


def _key(key: str, kind: str) -> str:
    """A key of the payload; null where the payload has none of that type."""
    if key.startswith("="):
        return key[1:]
    if kind.endswith("[]"):
        return f'TRY(json_transform(payload, \'{{"{key}":["{kind[:-2]}"]}}\'))."{key}"'
    return f"TRY_CAST(TRY(json_extract_string(payload, '$.{key}')) AS {kind})"


def _words(text: str) -> "tuple[str, ...]":
    return tuple(text.split())


_OF_TYPE = {
    "actions": _OfType(
        ("action", "mcp_action"),
        _words(
            "event_type subagent_id tool tool_use_id path title status success error_type duration_ms payload"
        ),
        _brought((*of_calls.COLUMNS, *calls.COMMAND, *joins.MODEL, *joins.SUBAGENT)),
        meanings={"path": "file that it is about, relative to the repository where it lies in it"},
    ),
    "files": _OfType(
        ("file",),
        _words(
            "path operation before_hash after_hash lines_added lines_removed tool tool_use_id cause "
            "branch commit"
        ),
        (
            ("old_path", "old_path", "VARCHAR", "path before a rename"),
            ("after_size", "after_size", "BIGINT", "bytes of the content after"),
            ("description", "description", "VARCHAR", "what the change is about"),
            *_brought((*joins.MODEL, *joins.SUBAGENT)),
        ),
        meanings=_MEANING_OF_CHANGE,
    ),
    "file_versions": _OfType(
        ("file",),
        _words(
            "path operation before_hash after_hash lines_added lines_removed tool tool_use_id subagent_id "
            "cause branch commit"
        ),
        (
            (
                "turn_name",
                "=if(turn IS NULL, NULL, session_id || '_' || turn_id)",
                "VARCHAR",
                "name of the turn: {session_id}_{turn_id}, as file_at takes it",
            ),
            ("old_path", "old_path", "VARCHAR", "path before a rename"),
            ("bytes", "after_size", "BIGINT", "size of the content after"),
            *_brought((*joins.MODEL, *joins.SUBAGENT, *fates.OF_VERSION)),
        ),
        "event_type = 'file' AND operation IS DISTINCT FROM 'read'",
        _MEANING_OF_CHANGE,
    ),
    "decisions": _OfType(
        ("decision",),
        _words("title path payload"),
        (
            ("decision", "decision", "VARCHAR", "what was decided"),
            ("reasoning", "reasoning", "VARCHAR", "why"),
            ("confidence", "confidence", "DOUBLE", "0 to 1"),
            ("alternatives", "alternatives_considered", "VARCHAR[]", "what else was considered"),
        ),
    ),
    "errors": _OfType(
        ("error",),
        _words("title error_type resolved tool tool_use_id path payload"),
        (
            ("message", "message", "VARCHAR", "the error's text"),
            ("line", "line", "BIGINT", "line in the file"),
            ("command", "command", "VARCHAR", "command that failed"),
            ("resolution", "resolution", "VARCHAR", "how it was dealt with"),
            *_brought(resolutions.COLUMNS),
        ),
        meanings={"resolved": "whether it is known to be dealt with (docs/anchors.md)"},
    ),
    "feedback": _OfType(
        ("feedback",),
        _words("title payload"),
        (
            ("type", "type", "VARCHAR", "approval, rejection, correction"),
            ("message", "message", "VARCHAR", "what the user said"),
            ("sentiment", "sentiment", "VARCHAR", "how it was said"),
        ),
    ),
    "snapshots": _OfType(
        ("snapshot",),
        _words("operation tree_hash branch commit worktree"),
        (
            ("git_head", "git_head", "VARCHAR", "commit checked out"),
            (
                "git_dirty",
                "git_dirty",
                "VARCHAR[]",
                "tracked paths on disk not as in the index; the first fifty",
            ),
            (
                "git_staged",
                "git_staged",
                "VARCHAR[]",
                "paths in the index not as in the commit; the first fifty",
            ),
            ("tracked_files", "tracked_files", "BIGINT", "files under version control"),
            (
                "files_changed",
                "files_changed",
                "BIGINT",
                "files changed in the turn, of the snapshot at its end",
            ),
        ),
    ),
    "hooks": _OfType(
        ("hook",),
        _words("event_type operation tool tool_use_id agent_version agent_session_id cwd recorded_at"),
        (("hook_us", "hook_us", "BIGINT", "how long the hook itself took, in microseconds"),),
        # Most calls become an event of another type, which says how long its hook took.
        "event_type = 'hook' OR (contains(payload, '\"hook_us\":') "
        "AND TRY(json_extract_string(payload, '$.hook_us')) IS NOT NULL)",
    ),
    "exports": _OfType(
        ("cursor",),
        _words("operation recorded_at title payload"),
        (
            (
                "export",
                "=title[8:]",
                "VARCHAR",
                "which export: what follows `export:` in its consumer's name",
            ),
            ("until", "position", "BIGINT", "everything before this position was exported"),
        ),
        "event_type = 'cursor' AND starts_with(title, 'export:')",
    ),
}

# Which model calls were merged into which (P3); the key and the order are those of `llm_calls`.
_DUPLICATES: Columns = (
    ("agent", "VARCHAR", "the agent"),
    ("event_id", "VARCHAR", "the event that does not count"),
    ("kept_event_id", "VARCHAR", "the event that counts instead"),
    (
        "reason",
        "VARCHAR",
        "grown: an earlier line of the same response; repeated: the same again; fork: a copy in another "
        "session's transcript; hook: recorded by a hook too",
    ),
    ("session_id", "VARCHAR", "session of the event that does not count"),
    ("kept_session_id", "VARCHAR", "session of the event that counts"),
    ("message_id", "VARCHAR", "the model provider's id of the response"),
    ("request_id", "VARCHAR", "the model provider's id of the request"),
    ("prompt_tokens", "BIGINT", "what would have been counted twice"),
    ("completion_tokens", "BIGINT", "what would have been counted twice"),
    ("position", "BIGINT", "position of the event that does not count"),
)


def _duplicates() -> str:
    return f"""
        WITH calls AS (
            SELECT agent, event_id, session_id, message_id, request_id, prompt_tokens, completion_tokens,
                position, first_value(event_id) OVER kept AS kept_event_id,
                first_value(session_id) OVER kept AS kept_session_id,
                first_value(completion_tokens) OVER kept AS kept_tokens
            FROM events WHERE event_type = 'llm'
            WINDOW kept AS (PARTITION BY {", ".join(d.CALL_KEY)} ORDER BY {d.CALL_ORDER}))
        SELECT agent, event_id, kept_event_id,
            if(completion_tokens IS DISTINCT FROM kept_tokens, 'grown', 'repeated') AS reason,
            session_id, kept_session_id, message_id, request_id, prompt_tokens, completion_tokens, position
        FROM calls WHERE event_id <> kept_event_id
        UNION ALL
        SELECT copy.agent, copy.event_id, coalesce(calls.kept_event_id, copy.cause), copy.operation,
            copy.session_id, calls.kept_session_id, copy.message_id, copy.request_id, copy.prompt_tokens,
            copy.completion_tokens, copy.position
        FROM events AS copy LEFT JOIN calls ON calls.event_id = copy.cause
        WHERE copy.event_type = 'llm_copy'"""


# Lines of transcripts that could not be read.
_MALFORMED: Columns = (
    ("position", "BIGINT", "position of the event in the log, from 0"),
    ("event_id", "VARCHAR", "the event that holds the line"),
    ("agent", "VARCHAR", "the agent"),
    ("session_id", "VARCHAR", "the session"),
    ("path", "VARCHAR", "the file"),
    ("line", "BIGINT", "number of the line in it, from 1"),
    ("offset", "BIGINT", "where it begins, in bytes"),
    ("bytes", "BIGINT", "how long it is; of a piece, how long that is"),
    ("reason", "VARCHAR", "malformed: no JSON object; oversized: a piece of a line above 64 MiB"),
    ("begins", "VARCHAR", "its first characters"),
    ("hash", "VARCHAR", "the content that holds its bytes"),
)

# Contents that are stored for replay and left out of everything that leaves the machine (P5).
_WITHHELD: Columns = (
    ("position", "BIGINT", "position of the event in the log, from 0"),
    ("hash", "VARCHAR", "the content"),
    ("kinds", "VARCHAR[]", "kinds of secrets that it looks like it holds, or why it is withheld without"),
    ("paths", "VARCHAR[]", "files that had this content, as changes say it; null when none says so"),
    ("recorded_at", d.TIME, "when it was recorded"),
)


def _malformed_lines() -> str:
    keys = {"path": "path", "line": "line", "offset": "offset", "size": "bytes", "begins": "begins"}
    keys["blob"] = "hash"
    kinds = {name: kind for name, kind, _ in _MALFORMED}
    expressions = {name: f'{_key(key, kinds[name])} AS "{name}"' for key, name in keys.items()}
    expressions["reason"] = "operation AS reason"
    return (
        f"SELECT {', '.join(expressions.get(name, name) for name, _, _ in _MALFORMED)} FROM events "
        "WHERE event_type = 'transcript' AND operation IN ('malformed', 'oversized') "
        f"AND NOT {LINE_SETTLED}"
    )


# Half a line that a later import has read in full.
LINE_SETTLED = (
    "event_id IN (SELECT cause FROM events WHERE event_type = 'transcript' "
    "AND operation = 'line_completed' AND cause IS NOT NULL)"
)

# Events that listings leave out: such halves, and the events that report them.
SHOWN_EVENTS = (
    "NOT (event_type IS NOT DISTINCT FROM 'transcript' AND (operation IS NOT DISTINCT FROM 'line_completed' "
    f"OR (operation IS NOT DISTINCT FROM 'malformed' AND {LINE_SETTLED})))"
)


def _withheld_contents() -> str:
    return f"""
        SELECT position, title AS hash, {_key("kinds", "VARCHAR[]")} AS kinds, paths, recorded_at
        FROM events LEFT JOIN (
            SELECT after_hash AS content, list(DISTINCT path ORDER BY path) AS paths FROM events
            WHERE event_type = 'file' AND after_hash IS NOT NULL GROUP BY after_hash) ON content = title
        WHERE event_type = 'withheld'"""


PROJECTIONS = ("turns", "sessions", "llm_calls", "sessions_master")
PRICES = "prices"

COLUMNS_OF: "dict[str, Columns]" = {
    "events": EVENTS + added.PEOPLE,
    "sessions": joins.SESSIONS + added.COLUMNS_OF["sessions"],
    "turns": joins.TURNS + added.COLUMNS_OF["turns"],
    "actions": _OF_TYPE["actions"].columns,
    "files": _OF_TYPE["files"].columns,
    "file_versions": _OF_TYPE["file_versions"].columns,
    "llm_calls": joins.LLM_CALLS + added.COLUMNS_OF["llm_calls"],
    "subagents": joins.SUBAGENTS,
    "prices": costs.COLUMNS,
    "llm_duplicates": _DUPLICATES,
    "decisions": _OF_TYPE["decisions"].columns,
    "errors": _OF_TYPE["errors"].columns,
    "feedback": _OF_TYPE["feedback"].columns,
    "snapshots": _OF_TYPE["snapshots"].columns,
    "hooks": _OF_TYPE["hooks"].columns,
    "exports": _OF_TYPE["exports"].columns,
    "malformed_lines": _MALFORMED,
    "withheld_contents": _WITHHELD,
    "sessions_master": d.SESSIONS_MASTER,
}

NAMES = tuple(COLUMNS_OF)


# Views of changes of files, and their columns that are counted from contents.
OF_FILES = frozenset(("files", "file_versions"))
COUNTED = frozenset(("lines_added", "lines_removed"))
# Views with persons and hosts, and with what calls cost.
OF_PEOPLE = frozenset(("events", "sessions", "turns"))
OF_COST = frozenset(("sessions", "turns", "llm_calls"))

# Columns that need more than their own event: by name, the views with them, and the columns.
# They are computed where a statement can mean one of them.
PEOPLE, COST, COUNTS = "people", "cost", "counts"
SETTLED = "settled"  # where the provisional id of a session may be
_OF_CALL = frozenset(("tool", "tool_use_id"))
_ASKED = OF_FILES | {"actions"}
EXTRAS: "dict[str, tuple[frozenset[str], frozenset[str]]]" = {
    "caller": (OF_FILES, _OF_CALL),
    "derived": (frozenset(("llm_calls", "actions")), frozenset(d.names_of(of_calls.COLUMNS))),
    "path": (frozenset(("actions",)), frozenset(("path",))),
    "model": (_ASKED, frozenset(d.names_of(joins.MODEL))),
    "subagent": (_ASKED | {"llm_calls"}, frozenset(d.names_of(joins.SUBAGENT))),
    "models": (frozenset(("turns",)), frozenset(d.names_of(joins.MODELS))),
    "commits": (frozenset(("turns",)), frozenset(d.names_of(joins.COMMITS))),
    "acts": (frozenset(("turns",)), frozenset(("actions_taken", "files_read"))),
    "decided": (frozenset(("turns",)), frozenset(("decisions",))),
    "resolved": (
        frozenset(("turns", "sessions", "errors")),
        frozenset(("errors_resolved", "resolved", *d.names_of(resolutions.COLUMNS))),
    ),
    "fates": (frozenset(("file_versions", "turns")), frozenset(d.names_of(fates.OF_VERSION))),
    "undone": (frozenset(("turns",)), frozenset(d.names_of(joins.UNDONE))),
    "intent": (frozenset(("sessions",)), frozenset(d.names_of(joins.INTENT))),
    PEOPLE: (OF_PEOPLE, added.OF_PEOPLE),
    COST: (OF_COST, added.OF_COST),
    COUNTS: (OF_FILES, COUNTED),
    SETTLED: (frozenset(NAMES) - frozenset(PROJECTIONS), settled.COLUMNS),
}
ALL_EXTRAS = frozenset(EXTRAS)
# Those that a connection can still add after it has answered without them.
LATER = ALL_EXTRAS - {PEOPLE, COST, COUNTS, SETTLED}


def over_events(name: str, *, counts: "str | None" = None, extras: frozenset[str] = ALL_EXTRAS) -> str:
    """The SELECT of a view that is no projection, out of the view `events`.

    Args: counts: a table of LINE_COUNTS for changes of files, without which there are only the counts that
    events state; extras: which of the columns in EXTRAS have their values.
    """
    if name in _SELECTS:
        return _SELECTS[name]()
    if name == "actions":
        return _OF_TYPE[name].select(_calls(extras))
    if name == "errors":
        return _OF_TYPE[name].select(_errors(extras))
    if name in _ASKED_BY_CALLS:
        return _OF_TYPE[name].select(_ASKED_BY_CALLS[name]("events"))
    return _OF_TYPE[name].select(_changes(counts, extras) if name in OF_FILES else "events")


_SELECTS: "dict[str, Callable[[], str]]" = {
    "llm_duplicates": _duplicates,
    "malformed_lines": _malformed_lines,
    "withheld_contents": _withheld_contents,
    "subagents": partial(joins.subagents, "events"),
    PRICES: partial(str, f"FROM {costs.TABLE}"),
}


_ASKED_BY_CALLS = {"decisions": asked.decisions, "feedback": asked.feedback}


def _errors(extras: frozenset[str]) -> str:
    errors = "(SELECT * FROM events WHERE event_type = 'error')"
    if "resolved" in extras:
        return resolutions.with_resolution(errors, "events")
    return f"(SELECT *, {joins.blank(resolutions.COLUMNS)} FROM {errors})"


def _calls(extras: frozenset[str]) -> str:
    """The events of tools, with the facts that other events add."""
    rows = f"(SELECT * FROM events WHERE {calls.ARE_CALLS})"
    rows = calls.with_command(of_calls.actions("events", rows, derived="derived" in extras))
    if "path" in extras:
        rows = calls.with_path(rows, "events")
    return _asked(rows, extras)


def _asked(rows: str, extras: frozenset[str]) -> str:
    """Calls of tools, or changes of files, with the subagent that asked for them."""
    if "model" in extras:
        rows = joins.with_model(rows, "events")
    if "subagent" in extras:
        return joins.with_subagent(rows, "events")
    return f"(SELECT *, {joins.blank(joins.SUBAGENT)} FROM {rows})"


def _changes(counts: "str | None", extras: frozenset[str]) -> str:
    """The events of files, with the lines of their contents, the call that is their cause, and their fate."""
    columns, joined = [], []
    if counts is not None:
        columns += [f"coalesce(change.lines_{what}, counted.{what}) AS lines_{what}" for what in _LINES]
        joined.append(
            f"LEFT JOIN {counts} AS counted "
            "ON change.before_key = counted.before_hash AND change.after_key = counted.after_hash "
            "AND change.whole = counted.whole"
        )
    if "caller" in extras:
        columns += [f"coalesce(change.{name}, call.{name}) AS {name}" for name in sorted(_OF_CALL)]
        joined.append(
            "LEFT JOIN (SELECT event_id, tool, tool_use_id FROM events "
            "WHERE event_type IN ('action', 'mcp_action', 'tool_start')) AS call "
            "ON change.cause = call.event_id"
        )
    brought = joins.blank(fates.OF_VERSION)
    if "fates" in extras:
        brought = d.quoted(d.names_of(fates.OF_VERSION))
        joined.append(f"LEFT JOIN ({fates.of_versions('events')}) AS fate ON fate.position = change.position")
    replaced = f" REPLACE ({', '.join(columns)})" if columns else ""
    return _asked(
        f"(SELECT change.* EXCLUDE (before_key, after_key, whole){replaced}, {brought} "
        f"FROM (SELECT *, CASE WHEN {UNSTATED} THEN {_key_of('before', fates.NO_BEFORE)} END AS before_key, "
        f"{_key_of('after', fates.NO_AFTER)} AS after_key, {_WHOLE} AS whole FROM events "
        f"WHERE event_type = 'file') AS change {' '.join(joined)})",
        extras,
    )


def _key_of(side: str, unknown: str) -> str:
    """The key in LINE_COUNTS for the content of a change on one side."""
    return f"CASE WHEN {unknown} THEN position::VARCHAR ELSE coalesce({side}_hash, '') END"


_LINES = ("added", "removed")
