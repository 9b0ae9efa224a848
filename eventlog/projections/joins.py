"""Columns for which everybody would join views: what asked for a call or a change, and what came of a turn.

A view that has such columns takes a relation and gives one with them, computed from the events where a
question names one of them, and stored nowhere. Where a question names none, they are there without a value.
docs/sql.md ("Joined columns") is the rule of each. Pure text.
"""

from collections.abc import Callable, Sequence

from eventlog.base.types import COMMAND_ARGUMENTS
from eventlog.projections import asked, calls, fates, resolutions, spans
from eventlog.projections import definitions as d
from eventlog.projections.lives import OF_LOG, lived

MODEL: d.Columns = (("model", "VARCHAR", "model that asked for it; null where several may have"),)
SUBAGENT: d.Columns = (("subagent_type", "VARCHAR", "what kind of subagent; null for the main agent"),)
STOP: d.Columns = (
    (
        "stop_reason",
        "VARCHAR",
        "why the model stopped, in its provider's word; null where the agent's files do not say it",
    ),
)
DURATION: d.Columns = (
    ("duration_ms", "BIGINT", "from started_at to completed_at; null while one is unknown"),
)
MODELS: d.Columns = (
    ("model", "VARCHAR", "model of its last call that no subagent made"),
    ("models", "VARCHAR[]", "sorted models of all its calls"),
)
COMMITS: d.Columns = (
    (
        "commits_made",
        "VARCHAR[]",
        "commits that it made, in order; null where nothing tells whether it made one",
    ),
)
UNDONE: d.Columns = (
    ("undone_by", "VARCHAR", "event id of the undo that took all of the turn back; null where none did"),
)
LLM_CALLS: d.Columns = (*d.LLM_CALLS, *spans.COLUMNS, *STOP, *SUBAGENT)
INTENT: d.Columns = (
    ("focus", "VARCHAR", "what was declared to be worked on; null where nothing was (docs/memory.md)"),
    ("scope", "VARCHAR[]", "the paths that were declared; null where none were"),
    ("description", "VARCHAR", "the description that was declared"),
)
SESSIONS: d.Columns = (*d.SESSIONS, *INTENT)
TURNS: d.Columns = (*d.TURNS, *DURATION, *MODELS, *COMMITS, *fates.OF_TURN, *UNDONE)

SUBAGENTS: d.Columns = (
    ("agent", "VARCHAR", "key: the agent; with session_id and subagent_id"),
    ("session_id", "VARCHAR", "key: the session"),
    ("subagent_id", "VARCHAR", "key: its own id of the subagent"),
    ("turn", "BIGINT", "the turn that started it"),
    *SUBAGENT,
    ("prompt", "VARCHAR", "what it was asked"),
    ("tool_use_id", "VARCHAR", "the call that launched it"),
    ("started_at", d.TIME, "when it started"),
    ("ended_at", d.TIME, "when it ended, the last time"),
    ("first_position", "BIGINT", "position of the first event about it"),
)

_COMMITS = r"'\bgit\b[^|;&\n]*\bcommit\b'"
# What git prints of a commit that it made: `[main 1a2b3c4] Title`, `[main (root-commit) 1a2b3c4] Title`.
_PRINTED = r"'\[[^\[\]\n]{1,250} ([0-9a-f]{7,64})\] '"
_SHORT = 7  # hex digits of a commit that git prints at least


def blank(columns: d.Columns) -> str:
    """A select list of the columns without values."""
    return ", ".join(f"NULL::{kind} AS {name}" for name, kind, _ in columns)


def with_model(rows: str, events: str) -> str:
    """Calls of tools, or changes of files, with the model that asked for each.

    That is the one whose response names the call, else the only one of the turn, or of the subagent in it.
    """
    return f"""(
        SELECT r.* REPLACE (coalesce(r.model, answer.model, alone.model) AS model)
        FROM {rows} AS r
        LEFT JOIN (SELECT event_id, message_id FROM {events}
            WHERE {calls.ARE_CALLS} AND message_id IS NOT NULL) AS call ON call.event_id = r.cause
        LEFT JOIN (SELECT agent, message_id, min(model) AS model FROM {events}
            WHERE event_type = 'llm' AND model IS NOT NULL AND message_id IS NOT NULL
            GROUP BY ALL) AS answer
            ON answer.agent = r.agent AND answer.message_id = coalesce(r.message_id, call.message_id)
        LEFT JOIN (SELECT session_id, turn, subagent_id, min(model) AS model FROM {events}
            WHERE event_type = 'llm' AND model IS NOT NULL
            GROUP BY ALL HAVING min(model) = max(model)) AS alone
            ON alone.session_id = r.session_id AND alone.turn IS NOT DISTINCT FROM r.turn
            AND alone.subagent_id IS NOT DISTINCT FROM r.subagent_id)"""


def with_subagent(rows: str, events: str) -> str:
    """Rows with the kind of the subagent that they are of."""
    return f"""(
        SELECT r.*, who.subagent_type FROM {rows} AS r LEFT JOIN ({subagents(events)}) AS who
        ON who.agent = r.agent AND who.session_id = r.session_id AND who.subagent_id = r.subagent_id)"""


def subagents(events: str) -> str:
    """A row for each subagent that an event of its start or its end tells of."""
    asked = {
        name: f"TRY(json_extract_string(payload, '$.args.{name}'))" for name in ("subagent_type", "prompt")
    }
    return f"""
        SELECT s.agent, s.session_id, subagent_id, turn, coalesce(title, asked_type) AS subagent_type,
            coalesce(prompt, asked_prompt) AS prompt, s.tool_use_id, started_at, ended_at, first_position
        FROM (
            SELECT agent, session_id, subagent_id, arg_min(turn, position) AS turn,
                arg_min(title, position) AS title, arg_min(tool_use_id, position) AS tool_use_id,
                arg_min(TRY(json_extract_string(payload, '$.prompt')), position) AS prompt,
                min(occurred_at) FILTER (operation = 'start') AS started_at,
                max(occurred_at) FILTER (operation = 'end') AS ended_at, min(position) AS first_position
            FROM {events} WHERE event_type = 'subagent' AND subagent_id IS NOT NULL GROUP BY ALL) AS s
        LEFT JOIN (
            SELECT agent, session_id, tool_use_id, min({asked["subagent_type"]}) AS asked_type,
                min({asked["prompt"]}) AS asked_prompt
            FROM {events} WHERE {calls.ARE_CALLS} AND tool_use_id IS NOT NULL
            AND contains(payload, '"subagent_type"') GROUP BY ALL) AS launch
            ON launch.agent = s.agent AND launch.session_id = s.session_id
            AND launch.tool_use_id = s.tool_use_id"""


def llm_calls(events: str, beaten: str, extras: "frozenset[str]") -> str:
    """The calls of `spans.llm_calls` with the kind of the subagent, where `extras` names it."""
    calls = f"({spans.llm_calls(events, beaten, derived='derived' in extras)})"
    if "subagent" in extras:
        return f"SELECT * FROM {with_subagent(calls, events)}"
    return f"SELECT *, {blank(SUBAGENT)} FROM {calls}"


# Gives the relation of a name of `DERIVED`: a query, or the table that has its answer.
Derived = Callable[[str], str]


def derived(name: str, events: str, *, few: bool = False) -> str:
    """What events show of turns, or of errors: a row for each that has any of it.

    The events are in it once: a view of them that leaves out people takes long to plan.
    Args: few: the events are few, to be found once.
    """
    how = "MATERIALIZED" if few else "NOT MATERIALIZED"
    return f"(WITH these AS {how} (SELECT * FROM {events}) FROM ({_SELECTS[name]('these')}))"


def of_session(name: str, events: str, session_id: str) -> str:
    """The events of one session, and for a name of `DERIVED` those of others on which its rows rest: of
    "resolved" those that may say of an error that it is resolved."""
    quoted_id = "'" + session_id.replace("'", "''") + "'"
    own = f"SELECT * FROM {events} WHERE session_id = {quoted_id}"
    if name != WITH_MARKS:
        return f"({own})"
    marks = f"session_id IS DISTINCT FROM {quoted_id} AND event_type = 'error' AND resolved"
    # Their links name the errors that they resolve; payloads would be read of the whole log.
    return f"({own} UNION ALL SELECT * REPLACE (NULL::VARCHAR AS payload) FROM {events} WHERE {marks})"


def has_any(events: str, names: "Sequence[str]") -> str:
    """A query of one row: of each of these names of `DERIVED` whether there can be a row of it.

    To plan a derivation takes longer than to check for what it rests on, and few logs have all of it.
    """
    presences = (f"coalesce(bool_or({_RESTS_ON[name]}), false)" for name in names)
    return f"SELECT {', '.join(presences)} FROM {events}"


def none(name: str) -> str:
    """The relation of a name of `DERIVED` without rows."""
    columns = ", ".join(f"NULL::{kind} AS {column}" for column, kind in (*_OF_TURN, *_COLUMNS[name]))
    return f"(SELECT {columns} WHERE false)"


def needed(projection: str, extras: "frozenset[str]") -> "tuple[str, ...]":
    """The names of `DERIVED` that a view of a projection with `extras` joins."""
    if projection == "turns":
        return tuple(name for extra, names in _DERIVED_OF.items() if extra in extras for name in names)
    if projection == "sessions":
        return tuple(name for extra, name in _DERIVED_OF_SESSIONS.items() if extra in extras)
    return ()


def turns(stored: str, derived_rows: Derived, extras: "frozenset[str]") -> str:
    """The turns of `stored` with `TURNS`; without `extras` only what was folded."""
    columns = ["t.*", "(epoch_us(t.completed_at) - epoch_us(t.started_at)) // 1000 AS duration_ms"]
    joins = ""
    if "models" in extras:
        columns.append("m.model, coalesce(m.models, []) AS models")
        joins += f"""
            LEFT JOIN {derived_rows("models")} AS m ON m.session_id = t.session_id AND m.turn = t.turn"""
    else:
        columns.append(blank(MODELS))
    if "commits" in extras:
        columns.append("c.commits_made")
        joins += f"""
            LEFT JOIN {derived_rows("commits")} AS c ON c.session_id = t.session_id AND c.turn = t.turn"""
    else:
        columns.append(blank(COMMITS))
    if "fates" in extras:
        columns.append("f.reverted_by")
        joins += f"""
            LEFT JOIN {derived_rows("reverts")} AS f ON f.session_id = t.session_id AND f.turn = t.turn"""
    else:
        columns.append(blank(fates.OF_TURN))
    if "undone" in extras:
        columns.append("u.undone_by")
        joins += f"""
            LEFT JOIN {derived_rows(FOLDED)} AS u ON u.name = {_TURN_NAME}"""
    else:
        columns.append(blank(UNDONE))
    return f"SELECT {', '.join(columns)} FROM {with_anchors(stored, derived_rows, extras)} AS t{joins}"


# A turn as undos name it: `lookup.TurnRef.context_id`.
_TURN_NAME = "format('turn:{}_{:03d}', t.session_id, t.turn)"


def with_anchors(turns: str, derived_rows: Derived, extras: "frozenset[str]") -> str:
    """The relation `turns` with those columns of `definitions.ASKED_FOR` that `extras` names, from the events
    of whole sessions."""
    unknown = "CASE WHEN t.agent IS DISTINCT FROM 'git' THEN {} END".format  # git does not say
    same = "ON {0}.session_id = t.session_id AND {0}.turn = t.turn".format
    replaced, joins = [], ""
    if "acts" in extras:
        derived = unknown("coalesce(a.actions_taken, [])")
        replaced.append(f"coalesce(nullif(t.actions_taken, []), {derived}) AS actions_taken")
        both = "coalesce(t.files_read, []) || coalesce(a.files_read, [])"
        read = f"list_sort(list_distinct({both}))"
        replaced.append(f"coalesce(nullif({read}, []), t.files_read, {unknown('[]')}) AS files_read")
        joins += f" LEFT JOIN {derived_rows('acts')} AS a {same('a')}"
    if "decided" in extras:
        derived = unknown("coalesce(g.decisions, [])")
        replaced.append(f"coalesce(nullif(t.decisions, []), {derived}) AS decisions")
        joins += f" LEFT JOIN {derived_rows('decided')} AS g {same('g')}"
    if "resolved" in extras:
        replaced.append(_RESOLVED)
        joins += f" LEFT JOIN ({_counted(derived_rows, 'session_id, turn')}) AS r {same('r')}"
    return f"(SELECT t.* REPLACE ({', '.join(replaced)}) FROM {turns} AS t{joins})" if replaced else turns


def sessions(
    stored: str, derived_rows: Derived, extras: "frozenset[str]", idle_hours: "float | None" = None
) -> str:
    """The sessions of `stored`, what they are to each other (lives.py), and `SESSIONS` as far as in `extras`.

    What was declared for an agent before it came holds for the session that it opens (docs/memory.md).
    """
    stored = lived(stored, idle_hours)
    replaced, joins = "", ""
    if "resolved" in extras:
        replaced = f" REPLACE ({_RESOLVED})"
        joins = f" LEFT JOIN ({_counted(derived_rows, 'session_id')}) AS r ON r.session_id = s.session_id"
    if "intent" not in extras:
        return f"SELECT s.*{replaced}, {blank(INTENT)} FROM {stored} AS s{joins}"
    declared = f"(SELECT * FROM {stored} JOIN {derived_rows('intents')} USING (session_id))"
    handed_on = f"(SELECT * FROM {declared} WHERE agent_session_id IS NULL AND focus IS NOT NULL)"
    names = [name for name, _, _ in INTENT]
    is_handed_on = "i.focus IS NULL AND g.closed > i.opened_position"
    own = ", ".join(f"if({is_handed_on}, g.{name}, i.{name}) AS {name}" for name in names)
    return f"""
        SELECT s.*{replaced}, i.* EXCLUDE (session_id) FROM {stored} AS s{joins} LEFT JOIN (
            SELECT i.session_id, {own} FROM {declared} AS i ASOF LEFT JOIN {handed_on} AS g
                ON coalesce(g.repo, '') = coalesce(i.repo, '') AND g.agent = i.agent
                AND (g.{OF_LOG}) = (i.{OF_LOG}) AND g.opened_position < i.opened_position
        ) AS i ON i.session_id = s.session_id"""


def _intents(events: str) -> str:
    """What a session's own events declare, and where it was over (as `memory/intent.py` reads them)."""
    last_value = "arg_max(TRY(json_extract_string(payload, '$.{}')), position)".format
    scope = "arg_max(TRY_CAST(TRY(json_extract(payload, '$.scope')) AS VARCHAR[]), position)"
    return f"""
        SELECT session_id, NULL::BIGINT AS turn, nullif({last_value("focus")}, '') AS focus,
            nullif({scope}, []) AS scope, {last_value("description")} AS description,
            CASE WHEN arg_max(operation, position) = 'end' THEN max(position)
                ELSE 9223372036854775807 END AS closed
        FROM {events} WHERE event_type = 'session' AND session_id IS NOT NULL GROUP BY session_id"""


_RESOLVED = "coalesce(r.errors_resolved, 0) AS errors_resolved"


def _counted(derived_rows: Derived, keys: str) -> str:
    """How many errors of each of `keys` are resolved."""
    return f"SELECT {keys}, count(*) AS errors_resolved FROM {derived_rows('resolved')} GROUP BY {keys}"


def _decisions(events: str) -> str:
    return f"""
        SELECT session_id, turn, list(title ORDER BY position) AS decisions FROM (
            SELECT session_id, turn, position,
                coalesce(title, TRY(json_extract_string(payload, '$.decision'))) AS title
            FROM {asked.decisions(events)} WHERE turn IS NOT NULL)
        WHERE title IS NOT NULL GROUP BY ALL"""


def _models(events: str) -> str:
    return f"""
        SELECT session_id, turn, arg_max(model, position) FILTER (subagent_id IS NULL) AS model,
            list_sort(list_distinct(list(model))) AS models
        FROM {events} WHERE event_type = 'llm' AND model IS NOT NULL GROUP BY ALL"""


def _commits(events: str) -> str:
    """The commits that each turn made: of an imported commit itself; of others what git printed for a
    `git commit` that did not fail, and the commit checked out at their end where one of these moved it.

    A commit that is printed in short is completed by the only one known that begins so.
    """
    return f"""
        WITH known AS (
            SELECT DISTINCT commit_id, commit_id[:{_SHORT}] AS short FROM (
                SELECT "commit" AS commit_id FROM {events} WHERE "commit" IS NOT NULL
                UNION ALL SELECT {_HEAD} FROM {events} WHERE event_type = 'snapshot')
            WHERE len(commit_id) >= {_SHORT}
        ), heads AS (
            SELECT session_id, turn, arg_min(head, position) FILTER (operation = 'turn_start') AS first,
                arg_max(head, position) FILTER (operation = 'turn_end') AS last, max(position) AS position
            FROM (SELECT *, {_HEAD} AS head FROM {events} WHERE event_type = 'snapshot' AND turn IS NOT NULL)
            GROUP BY session_id, turn
        ), calls AS (
            SELECT session_id, turn, position,
                regexp_extract_all(json_extract_string(payload, '$.result'), {_PRINTED}, 1) AS printed
            FROM {events} WHERE {calls.ARE_CALLS} AND turn IS NOT NULL AND success IS NOT FALSE
            AND contains(payload, 'commit')
            AND regexp_matches({calls.argument(COMMAND_ARGUMENTS)}, {_COMMITS})
        ), made AS (
            SELECT session_id, turn, position, 0 AS place, "commit" AS commit_id
            FROM {events} WHERE agent = 'git' AND event_type = 'turn' AND operation = 'start'
            UNION ALL SELECT session_id, turn, position, unnest(range(len(printed))), unnest(printed)
            FROM calls
            UNION ALL SELECT session_id, turn, position, 0, last FROM heads
            WHERE last <> first AND (session_id, turn) IN (SELECT (session_id, turn) FROM calls)
        ), whole AS (
            SELECT made.commit_id AS given_id, CASE WHEN count(known.commit_id) = 1 THEN min(known.commit_id)
                ELSE made.commit_id END AS commit_id
            FROM made LEFT JOIN known ON known.short = made.commit_id[:{_SHORT}]
                AND starts_with(known.commit_id, made.commit_id)
            GROUP BY made.commit_id
        ), once AS (
            SELECT session_id, turn, whole.commit_id,
                min({{'position': position, 'place': place}}) AS first_at
            FROM made JOIN whole ON made.commit_id = given_id GROUP BY ALL
        )
        SELECT session_id, turn, list(commit_id ORDER BY first_at) AS commits_made FROM once GROUP BY ALL
        UNION ALL SELECT session_id, turn, [] FROM heads
        WHERE last = first AND (session_id, turn) NOT IN (SELECT (session_id, turn) FROM once)"""


_HEAD = "TRY(json_extract_string(payload, '$.git_head'))"

_SELECTS: "dict[str, Callable[[str], str]]" = {
    "models": _models,
    "commits": _commits,
    "reverts": fates.of_turns,
    "acts": calls.of_turns,
    "decided": _decisions,
    "resolved": resolutions.of_errors,
    "intents": _intents,
}
# What SQL cannot fold: `projections/operations.py` does, and the rows are those that it gives.
FOLDED = "undone"
WITH_MARKS = "resolved"
# Rests on the payloads of events that write an anchor alone; nearly every log has some.
OF_ANCHORS = "intents"
DERIVED = (*_SELECTS, FOLDED)
# Those whose rows of a session rest on the events of `of_session`; others rest on all commits or all files.
OF_SESSIONS = frozenset(("models", "acts", "decided", "resolved"))
# Of an event: whether there may be rows because of it.
_RESTS_ON = {
    "models": "event_type = 'llm' AND model IS NOT NULL",
    "commits": f"event_type = 'snapshot' OR agent = 'git' OR {calls.ARE_CALLS}",
    "reverts": "event_type = 'file' AND operation IS DISTINCT FROM 'read'",
    "acts": calls.ARE_CALLS,
    "decided": asked.MAY_DECIDE,
    "resolved": "event_type = 'error'",
    "intents": "event_type = 'session'",
    FOLDED: "event_type = 'restore'",
}
_OF_TURN = (("session_id", "VARCHAR"), ("turn", "BIGINT"))
_COLUMNS = {
    "models": (("model", "VARCHAR"), ("models", "VARCHAR[]")),
    "commits": (("commits_made", "VARCHAR[]"),),
    "reverts": (("reverted_by", "VARCHAR"),),
    "acts": (("actions_taken", "VARCHAR[]"), ("files_read", "VARCHAR[]")),
    "decided": (("decisions", "VARCHAR[]"),),
    "resolved": (),
    "intents": (*((name, kind) for name, kind, _ in INTENT), ("closed", "BIGINT")),
    FOLDED: (("name", "VARCHAR"), ("undone_by", "VARCHAR")),
}
# By what a question can name of turns.
_DERIVED_OF = {
    "models": ("models",),
    "commits": ("commits",),
    "fates": ("reverts",),
    "undone": (FOLDED,),
    "acts": ("acts",),
    "decided": ("decided",),
    "resolved": ("resolved",),
}
# Of sessions.
_DERIVED_OF_SESSIONS = {"resolved": "resolved", "intent": "intents"}
