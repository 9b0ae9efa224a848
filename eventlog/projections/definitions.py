"""What the projections are: their columns, and the SQL that folds events into them.

Pure text, no files, no connection; anything may import it. One text serves the full build, the
incremental build and the merge at query time: the caller only says which relation holds the rows to
fold. So a projection cannot mean two things (I19, I20, I21).

Rules of the fold (design.md section 9, P2, P3, P7):
- An anchor is written key by key; the event with the highest position that gives a key wins, an
  absent key changes nothing. `arg_max(key, position)` is exactly that, because it passes over nulls.
- Anchors are written by lifecycle events only (`turn`, `session`). Their keys outside the columns are
  read from the payload, and no other payload is parsed. Columns of `ASKED_FOR` have what a
  turn's end named, or nothing: joins.py adds what its events show where a question names them.
- A turn is a group of (session_id, turn). Events of a session outside any turn count in the session.
- Model calls count once, through `llm_calls`, in the turn of the row that counts.
- A count over nothing is zero; a sum over calls which all leave the figure out is null.
- An event without a time of its own happened when it was recorded, unless an import wrote it: then nobody
  knows when (`HAPPENED_AT`). A start or an end that is not known is the first or the last known time of the
  events; an end before its start is unknown.
- A session that an import began is never active.

The fold has two steps, because a call's key may occur in several sessions:
1. Rows of type `llm`: of several for one call all but one are superseded. Mergeable: the best of the best
   of two parts is the best of both.
2. `turns`, `sessions`: all events of some whole sessions, and the rows of calls that count in those sessions.
`sessions_master` (master.py) folds the `sessions` rows. `llm_calls` is the rows that count, read from events.

With `keys` (keyed.py) each text folds the logs of many stores, every one as if it were alone: the relations
that go in have these columns, and so has what comes out, the tables of `COLUMNS_OF` in front.
"""

from eventlog.projections.captures import CAPTURE, END_CERTAINTY, START_CERTAINTY
from eventlog.projections.happened import IMPORTED_AGENTS
from eventlog.projections.keyed import Keys, led, same, whole
from eventlog.projections.lives import NOT_BEGUN
from eventlog.projections.lives import safe as _safe

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

Columns = tuple[tuple[str, str, str], ...]  # (name, SQL type, meaning)
TIME = "TIMESTAMP WITH TIME ZONE"

# Of an event: whether it may come of an import, as `happened.is_undated` says it.
OF_IMPORTED = f"coalesce(agent IN {IMPORTED_AGENTS}, false) AND agent_session_id IS NOT NULL"
# When an event happened, null when unknown, as `happened.happened_at` says it.
HAPPENED_AT = (
    f"coalesce(occurred_at, CASE WHEN NOT (coalesce(agent IN {IMPORTED_AGENTS}, false) "
    "AND (agent_session_id IS NOT NULL OR event_type = 'transcript')) THEN recorded_at END)"
)

# The order of events wherever those that happened last come first, the undated last.
EVENTS_NEWEST_FIRST = f"{HAPPENED_AT} DESC NULLS LAST, position DESC"
TOOL_TYPES = "('action', 'mcp_action')"
# Decisions and errors with the turn and the time of their events, as relations, and the order of their rows.
DATED_DECISIONS = (
    f"decisions JOIN (SELECT position, turn_id, {HAPPENED_AT} AS happened FROM events "
    f"WHERE event_type = 'decision' OR event_type IN {TOOL_TYPES}) USING (position)"
)
DATED_ERRORS = (
    f"errors JOIN (SELECT position, turn_id, {HAPPENED_AT} AS happened FROM events "
    "WHERE event_type = 'error') USING (position)"
)
DECISIONS_NEWEST_FIRST = "happened DESC NULLS LAST, position DESC"

# The order of turns and of sessions wherever the newest come first: by when they happened, the undated last.
# Commits are ordered by their place on the line: one with a slow clock happened with the latest before it.
# What no line reaches any more has no place among the others.
ON_NO_LINE = "(line_place IS NULL OR coalesce(rewritten, false))"
TURN_ORDER_AT = (
    f"CASE WHEN {ON_NO_LINE} THEN happened_at "
    f"ELSE max(happened_at) OVER (PARTITION BY repo, {ON_NO_LINE} ORDER BY line_place) END"
)
TURNS_NEWEST_FIRST = (
    f"{TURN_ORDER_AT} DESC NULLS LAST, CASE WHEN NOT {ON_NO_LINE} THEN line_place END DESC NULLS LAST, "
    "first_position DESC"
)
SESSIONS_NEWEST_FIRST = "last_at DESC NULLS LAST, last_position DESC"

# Of turns and sessions: columns that are completed from other events where a question names them (joins.py).
ASKED_FOR = frozenset(("actions_taken", "decisions", "files_read", "errors_resolved"))

LLM_CALLS: Columns = (
    ("agent", "VARCHAR", "key: the agent; with message_id and request_id"),
    ("message_id", "VARCHAR", "key: the model provider's id of the response"),
    ("request_id", "VARCHAR", "key: the model provider's id of the request"),
    ("position", "BIGINT", "position of the event that was kept"),
    ("event_id", "VARCHAR", "id of the event that was kept; the key where both ids above are null"),
    ("session_id", "VARCHAR", "session of the event that was kept"),
    ("turn", "BIGINT", "turn of the event that was kept"),
    ("subagent_id", "VARCHAR", "the subagent that called, null for the main one"),
    ("model", "VARCHAR", "model name"),
    ("occurred_at", TIME, "when it happened"),
    ("prompt_tokens", "BIGINT", "everything the model read, cache included"),
    ("completion_tokens", "BIGINT", "everything it wrote, reasoning included"),
    ("reasoning_tokens", "BIGINT", "part of completion_tokens"),
    ("cache_read_tokens", "BIGINT", "part of prompt_tokens"),
    ("cache_write_tokens", "BIGINT", "part of prompt_tokens"),
    ("cache_write_1h_tokens", "BIGINT", "part of cache_write_tokens"),
    ("duration_ms", "BIGINT", "how long the call took, as its writer says"),
)

_TOKENS: Columns = (
    ("prompt_tokens", "BIGINT", "sum over llm_calls"),
    ("completion_tokens", "BIGINT", "sum over llm_calls"),
    ("reasoning_tokens", "BIGINT", "part of completion_tokens"),
    ("cache_read_tokens", "BIGINT", "part of prompt_tokens"),
    ("cache_write_tokens", "BIGINT", "part of prompt_tokens"),
    ("cache_write_1h_tokens", "BIGINT", "part of cache_write_tokens"),
    ("tokens_used", "BIGINT", "prompt_tokens + completion_tokens"),
)

TURNS: Columns = (
    ("context_id", "VARCHAR", "turn:{session_id}_{turn_id}"),
    ("session_id", "VARCHAR", "key: the session"),
    ("turn", "BIGINT", "key: number of the turn in its session"),
    ("turn_id", "VARCHAR", "the number as text, three digits or more"),
    ("agent", "VARCHAR", "the agent of the turn's events"),
    ("repo", "VARCHAR", "repository hash"),
    ("branch", "VARCHAR", "last branch seen in the turn"),
    ("commit", "VARCHAR", "last commit seen in the turn"),
    ("title", "VARCHAR", "title of the turn, else the first line of what the user asked"),
    ("user_request", "VARCHAR", "what the user asked, in full"),
    ("outcome", "VARCHAR", "what came of it, as the agent put it"),
    ("status", "VARCHAR", "active, completed, or what its end states; null when no lifecycle event says so"),
    ("started_at", TIME, "when it started, else the first known time of its events"),
    ("completed_at", TIME, "when it ended, else the last known time of its events; null while it is active"),
    ("happened_at", TIME, "what turns are ordered by: when it started; null when unknown"),
    ("event_count", "BIGINT", "timeline events (lifecycle events are not counted)"),
    ("tool_calls", "BIGINT", "action events"),
    ("llm_calls", "BIGINT", "model calls, each counted once"),
    *_TOKENS,
    ("errors", "BIGINT", "error events"),
    ("errors_resolved", "BIGINT", "errors that are resolved, as the view `errors` says it"),
    (
        "files_modified",
        "VARCHAR[]",
        "sorted paths of file events other than reads, and those named at the end",
    ),
    (
        "files_read",
        "VARCHAR[]",
        "sorted paths that its calls are known to have read; null for a commit (docs/anchors.md)",
    ),
    ("decisions", "VARCHAR[]", "what was decided, in order; null for a commit (docs/anchors.md)"),
    (
        "actions_taken",
        "VARCHAR[]",
        "what its calls did, as `verb target`, each once, in order; null for a commit (docs/anchors.md)",
    ),
    ("start_tree", "VARCHAR", "tree of the turn's first snapshot"),
    ("end_tree", "VARCHAR", "tree of the turn's last snapshot"),
    (
        "start_certainty",
        "VARCHAR",
        "how well the files at its start are known: exact, partial, failed, none (docs/certainty.md)",
    ),
    ("end_certainty", "VARCHAR", "the same at its end; unfinished too, also while it is running"),
    (
        "rewritten",
        "BOOLEAN",
        "whether no line of the repository reaches an imported commit any more: amended, rebased, dropped",
    ),
    (
        "line_place",
        "BIGINT",
        "of an imported commit: how many commits its first parents are; null where that is not known",
    ),
    ("first_position", "BIGINT", "position of the turn's first event"),
    ("last_position", "BIGINT", "position of the turn's last event"),
)

SESSIONS: Columns = (
    ("context_id", "VARCHAR", "session:{slug}_{session_id}"),
    ("session_id", "VARCHAR", "key: the session"),
    ("slug", "VARCHAR", "the name inside the context id"),
    ("agent", "VARCHAR", "the agent of the session's events"),
    ("agent_session_id", "VARCHAR", "the agent's own id of the session"),
    ("repo", "VARCHAR", "repository hash"),
    ("title", "VARCHAR", "title of the session"),
    ("status", "VARCHAR", "active, closed, or what its end states; null when no lifecycle event says so"),
    ("end_reason", "VARCHAR", "why it ended: explicit, stale, rollover, superseded, timeout"),
    ("started_at", TIME, "when it started, else the first known time of its events"),
    ("ended_at", TIME, "when it ended, else the last known time of its events; null while it is active"),
    ("last_at", TIME, "the last known time of its events; sessions are ordered by it"),
    ("turn_count", "BIGINT", "turns seen"),
    ("last_turn", "VARCHAR", "turn id of the highest turn"),
    ("extends", "VARCHAR[]", "every context it extends: the master, and the session it continues"),
    (
        "continues",
        "VARCHAR",
        "id of the session before it in its agent's conversation; null for the first (docs/session-life.md)",
    ),
    ("summary", "VARCHAR", "summary given at the end, else the outcome of its last turn that has one"),
    ("events", "BIGINT", "timeline events, inside and outside turns"),
    ("tool_calls", "BIGINT", "action events"),
    ("llm_calls", "BIGINT", "model calls, each counted once"),
    *_TOKENS,
    ("errors", "BIGINT", "error events"),
    ("errors_resolved", "BIGINT", "errors that are resolved, as the view `errors` says it"),
    ("files_modified", "VARCHAR[]", "sorted union over the turns and the events outside turns"),
    ("first_position", "BIGINT", "position of the session's first event"),
    ("last_position", "BIGINT", "position of the session's last event"),
    (
        "opened_position",
        "BIGINT",
        "position where it was opened last, by a start or after an end: the most recent has the highest",
    ),
)

SESSIONS_MASTER: Columns = (
    ("context_id", "VARCHAR", "{repo}:sessions"),
    ("repo", "VARCHAR", "key: repository hash"),
    ("project_name", "VARCHAR", "name of the project, from the master's own events"),
    ("extends", "VARCHAR[]", "the project's anchor, from the master's own events"),
    ("active_session", "VARCHAR", "context id of the most recently started session that is still active"),
    ("active_sessions", "BIGINT", "sessions still active, without those that their agent left for another"),
    ("total_sessions", "BIGINT", "sessions of the repository"),
    ("total_turns", "BIGINT", "turns of all sessions"),
    ("last_position", "BIGINT", "position of the last event of any session"),
)

# Not shown: what the master's own events say, which no session row carries (S1-17).
MASTER_KEYS: Columns = (
    ("repo", "VARCHAR", "key: repository hash"),
    ("context_id", "VARCHAR", "context id of the master's events"),
    ("project_name", "VARCHAR", "title of the last one"),
    ("extends", "VARCHAR[]", "links of the last one"),
    ("position", "BIGINT", "position of the last one"),
)

COLUMNS_OF: "dict[str, Columns]" = {
    "llm_calls": LLM_CALLS,
    "turns": TURNS,
    "sessions": SESSIONS,
    "master_keys": MASTER_KEYS,
    "sessions_master": SESSIONS_MASTER,
}

# What makes two rows one call. Where both ids are unknown every event is a call of its own; the
# position stands for the event's id there, being as unique and much smaller.
CALL_KEY = (
    "agent",
    "message_id",
    "request_id",
    "CASE WHEN message_id IS NULL AND request_id IS NULL THEN position END",
)
_CALL_KEY = ", ".join(CALL_KEY)
# Of events with one key, which counts: the first in this order.
_LARGEST = "greatest(coalesce({0}, -1), -1) DESC"
CALL_ORDER = f"{_LARGEST.format('completion_tokens')}, {_LARGEST.format('prompt_tokens')}, position"

_SUMMED = tuple(name for name, _, _ in _TOKENS if name != "tokens_used")


def quoted(names: "Iterable[str]") -> str:
    """A select list of column names; all are quoted, since `commit` is a word of SQL."""
    return ", ".join(f'"{name}"' for name in names)


def all_of(projection: str, without: "Collection[str]" = ()) -> str:
    """A select list of what is folded of a projection. A star would also mean columns that are made for a
    question, such as cost."""
    return quoted(name for name in names_of(COLUMNS_OF[projection]) if name not in without)


def names_of(columns: Columns) -> "tuple[str, ...]":
    return tuple(name for name, _, _ in columns)


def call_rows(events: str, keys: Keys = ()) -> str:
    """The rows of `events` that speak of model calls: a hash of the call's key, place and figures.

    The hash only says which rows may speak of one call; `superseded_calls` compares the keys themselves.
    """
    first = led(keys)
    return f"""
        SELECT {first}hash({first}{_CALL_KEY}) AS key, position, session_id, turn, {", ".join(_SUMMED)}
        FROM {events} WHERE event_type = 'llm'"""


def superseded_calls(events: str, positions: str, keys: Keys = ()) -> str:
    """Those of the query `positions` whose row another one supersedes, as the row of one call.

    The most completion tokens win, null being fewer than none; then the most prompt tokens, then the lowest
    position.
    """
    first = led(keys)
    return f"""
        SELECT {first}position FROM (
            SELECT {first}position,
                row_number() OVER (PARTITION BY {first}{_CALL_KEY} ORDER BY {CALL_ORDER}) AS place
            FROM {events} WHERE event_type = 'llm' AND {whole(keys, "position")} IN ({positions}))
        WHERE place > 1"""


def llm_calls(events: str, superseded: str, keys: Keys = ()) -> str:
    """The calls: rows of `events` but those at the positions of the query `superseded`, few or none."""
    first = led(keys)
    return f"""
        SELECT {first}{quoted(names_of(LLM_CALLS))} FROM {events}
        WHERE event_type = 'llm' AND {whole(keys, "position")} NOT IN ({superseded})"""


# A session and a turn are their agent's: what another posts into them ranks below what they say themselves.
_AGENT_AT = f"position - CASE WHEN event_type IN ('session', 'turn') THEN 0 ELSE {1 << 62} END"


def event_rows(events: str, keys: Keys = ()) -> str:
    """What the typed columns say of each (session_id, turn); turn is null for what lies outside turns."""
    first = led(keys)
    return f"""
        SELECT session_id,
            CASE WHEN event_type <> 'session' THEN turn END AS turn,
            {first}arg_max(agent, {_AGENT_AT}) AS agent,
            max(CASE WHEN agent IS NOT NULL THEN {_AGENT_AT} END) AS agent_at,
            arg_max(agent_session_id, position) AS agent_session_id,
            max(CASE WHEN agent_session_id IS NOT NULL THEN position END) AS agent_session_id_at,
            arg_max(repo, position) AS repo, max(CASE WHEN repo IS NOT NULL THEN position END) AS repo_at,
            arg_max(branch, position) AS branch,
            arg_max("commit", position) AS "commit",
            count(CASE WHEN event_type NOT IN {_LIFECYCLE} THEN 1 END) AS event_count,
            count(CASE WHEN event_type IN {TOOL_TYPES} THEN 1 END) AS tool_calls,
            count(CASE WHEN event_type = 'error' THEN 1 END) AS errors,
            list(path) FILTER (event_type = 'file' AND operation IS DISTINCT FROM 'read') AS modified,
            list(path) FILTER (event_type = 'file' AND operation = 'read') AS read,
            min({HAPPENED_AT}) AS first_at,
            max({HAPPENED_AT}) AS last_at,
            min(position) AS first_position,
            max(position) AS last_position
        FROM {events}
        WHERE session_id IS NOT NULL AND event_type <> 'sessions'
        GROUP BY {first}1, 2"""


def lifecycle_rows(events: str, keys: Keys = ()) -> str:
    """What events say of each (session_id, turn) in words: lifecycle events and snapshots.

    They are few, so only theirs are read of the columns of texts. Fewer still have something to
    say in their payload: `of_turn` and `of_session` list that, one row each, since an aggregate of texts
    takes memory for each group, whether it finds one or not.

    A payload that is no JSON object of these shapes gives nulls: a key of the wrong type is an
    unknown key (P7), never a query that fails.
    """
    first = led(keys)
    return f"""
        SELECT session_id, CASE WHEN event_type <> 'session' THEN turn END AS turn,
            {first}arg_max(CASE WHEN event_type = 'turn' THEN context_id END, position) AS context_id,
            arg_max(CASE WHEN event_type = 'turn' THEN title END, position) AS title,
            arg_max(CASE WHEN event_type = 'turn' THEN state END, position) AS status,
            min(CASE WHEN event_type = 'turn' AND operation = 'start' THEN "at" END) AS started_at,
            max(CASE WHEN event_type = 'turn' AND operation = 'end' THEN "at" END) AS ended_at,
            arg_min(CASE WHEN event_type = 'snapshot' THEN tree_hash END, position) AS start_tree,
            arg_max(CASE WHEN event_type = 'snapshot' THEN tree_hash END, position) AS end_tree,
            arg_min(CASE WHEN event_type = 'snapshot' THEN {CAPTURE} END, position) AS first_look,
            arg_max(CASE WHEN event_type = 'snapshot' THEN {CAPTURE} END, position) AS last_look,
            bool_or(CASE WHEN event_type = 'snapshot' THEN operation = 'turn_end' END) AS end_seen,
            bool_or(CASE WHEN event_type = 'snapshot' THEN NOT success END) AS look_failed,
            arg_max(CASE WHEN (event_type = 'turn' AND operation IN ('end', 'resume'))
                OR operation = 'turn_end' THEN operation <> 'resume' END, position) AS ended,
            arg_max(CASE WHEN event_type = 'turn' AND operation IN ('end', 'resume')
                THEN operation = 'resume' OR details.closed_by IS NOT NULL END, position) AS closed,
            list({{'position': position, 'details': details}})
                FILTER (event_type = 'turn' AND details IS NOT NULL) AS of_turn,
            list({{'position': position, 'operation': operation, 'context_id': context_id, 'title': title,
                'state': state, 'at': "at", 'extends': extends, 'summary': details.summary,
                'end_reason': details.end_reason}})
                FILTER (event_type = 'session') AS of_session
        FROM (
            SELECT session_id, turn, position, event_type, operation, title, context_id, extends, tree_hash,
                {first}success,
                {HAPPENED_AT} AS "at", {STATE} AS state,
                CASE WHEN anchor_payload <> '{{}}'
                    THEN TRY(json_transform(anchor_payload, '{_PAYLOAD_KEYS}')) END AS details
            FROM {events}
            WHERE event_type IN ('session', 'turn', 'snapshot'))
        GROUP BY {first}1, 2"""


def token_sums(calls: str, keys: Keys = ()) -> str:
    """What the calls of each (session_id, turn) used, from the `call_rows` that count."""
    return _sums(f"{led(keys)}session_id, turn", "count(*)", calls)


def turns(rows: str, lifecycle: str, tokens: str, keys: Keys = ()) -> str:
    """The anchors of the sessions whose `event_rows`, `lifecycle_rows` and `token_sums` are given."""
    turn, p = f"{led(keys)}session_id, turn", led(keys, "p")
    return f"""
        WITH details AS (
            SELECT {turn},
                arg_max(user_request, position) AS user_request,
                arg_max(user_message, position) AS user_message,
                arg_max(outcome, position) AS outcome,
                arg_max(decisions, position) AS decisions,
                arg_max(actions_taken, position) AS actions_taken,
                arg_max(files_modified, position) AS files_modified,
                arg_max(files_read, position) AS files_read,
                arg_max(line_place, position) AS line_place
            FROM (SELECT {turn}, unnest(of_turn, recursive := true) FROM {lifecycle}
                WHERE of_turn IS NOT NULL)
            GROUP BY {turn}
        )
        SELECT
            {p}coalesce(t.context_id, format('turn:{{}}_{{:03d}}', p.session_id, p.turn)) AS context_id,
            p.session_id, p.turn, format('{{:03d}}', p.turn) AS turn_id,
            p.agent, p.repo, p.branch, p."commit",
            coalesce(t.title, {_first_line("coalesce(s.user_request, s.user_message)")}) AS title,
            coalesce(s.user_request, s.user_message) AS user_request,
            s.outcome, {_TURN_STATUS} AS status,
            {_span("t", "p")} AS completed_at,
            {_TURN_HAPPENED_AT} AS happened_at,
            p.event_count, p.tool_calls, {_token_columns("u")},
            p.errors, NULL::BIGINT AS errors_resolved,
            {_paths("p.modified", "s.files_modified")} AS files_modified,
            CASE WHEN p.read IS NOT NULL OR len(s.files_read) > 0
                THEN {_paths("p.read", "s.files_read")} END AS files_read,
            s.decisions, s.actions_taken,
            t.start_tree, t.end_tree, {START_CERTAINTY} AS start_certainty,
            {END_CERTAINTY} AS end_certainty,
            CASE WHEN {_IMPORTED} THEN t.status IS NOT DISTINCT FROM {_REWRITTEN} END AS rewritten,
            s.line_place, p.first_position, p.last_position
        FROM {rows} p
        LEFT JOIN {lifecycle} t ON {same(keys, "t", "p")}t.session_id = p.session_id AND t.turn = p.turn
        LEFT JOIN details s ON {same(keys, "s", "p")}s.session_id = p.session_id AND s.turn = p.turn
        LEFT JOIN {tokens} u ON {same(keys, "u", "p")}u.session_id = p.session_id AND u.turn = p.turn
        WHERE p.turn IS NOT NULL"""


def sessions(rows: str, lifecycle: str, tokens: str, turns: str, keys: Keys = ()) -> str:
    """The sessions of which these are given, as for `turns`, and their turns."""
    session, w = f"{led(keys)}session_id", led(keys, "w")
    return f"""
        WITH own AS (
            SELECT *, lag(operation, 1, 'end') OVER (PARTITION BY {session} ORDER BY position) AS before
            FROM (SELECT {session}, unnest(of_session, recursive := true)
                FROM {lifecycle} WHERE turn IS NULL)
        ), stated AS (
            SELECT {session},
                arg_min(context_id, position) FILTER (context_id <> {default_context("session_id")}) AS named,
                arg_max(title, position) AS title,
                arg_max(state, position) AS status,
                min(CASE WHEN operation = 'start' THEN "at" END) AS started_at,
                max(CASE WHEN operation = 'end' THEN "at" END) AS ended_at,
                arg_max(end_reason, position) AS end_reason,
                arg_max(summary, position) AS summary,
                max(position) FILTER ({_OPENS}) AS opened_position,
                bool_or(operation = 'start') AS began
            FROM own GROUP BY ALL
        ), links AS (
            SELECT {session}, list(link ORDER BY first_place) AS extends FROM (
                SELECT {session}, link, min({{'event': position, 'rank': rank}}) AS first_place FROM (
                    SELECT {session}, position, unnest(extends) AS link,
                        generate_subscripts(extends, 1) AS rank
                    FROM own)
                WHERE link IS NOT NULL GROUP BY ALL)
            GROUP BY ALL
        ), whole AS (
            SELECT {session},
                arg_max(agent, agent_at) AS agent,
                arg_max(agent_session_id, agent_session_id_at) AS agent_session_id,
                arg_max(repo, repo_at) AS repo,
                count(turn) AS turn_count, max(turn) AS last_turn,
                sum(event_count)::BIGINT AS events,
                sum(tool_calls)::BIGINT AS tool_calls,
                sum(errors)::BIGINT AS errors,
                flatten(list(modified) FILTER (turn IS NULL)) AS modified,
                min(first_at) AS first_at, max(last_at) AS last_at,
                min(first_position) AS first_position, max(last_position) AS last_position
            FROM {rows} GROUP BY ALL
        ), changed AS (
            SELECT {session}, flatten(list(files_modified)) AS files, arg_max(outcome, turn) AS outcome
            FROM {turns} GROUP BY ALL
        ), spent AS ({_sums(session, "sum(calls)::BIGINT", tokens)})
        SELECT
            {w}coalesce(s.named, {default_context("w.session_id")}) AS context_id, w.session_id,
            {_slug("context_id", "w.session_id")} AS slug,
            w.agent, w.agent_session_id, w.repo, s.title, s.status,
            CASE WHEN s.status <> 'active' THEN s.end_reason END AS end_reason,
            {_span("s", "w")} AS ended_at,
            w.last_at,
            w.turn_count, format('{{:03d}}', w.last_turn) AS last_turn,
            coalesce(l.extends, []) AS extends, {NOT_BEGUN.format("s.began")} AS continues,
            coalesce(s.summary, c.outcome) AS summary,
            w.events, w.tool_calls, {_token_columns("u")},
            w.errors, NULL::BIGINT AS errors_resolved,
            {_paths("w.modified", "c.files")} AS files_modified,
            w.first_position, w.last_position,
            coalesce(s.opened_position, w.first_position) AS opened_position
        FROM whole w
        LEFT JOIN stated s ON {same(keys, "s", "w")}s.session_id = w.session_id
        LEFT JOIN links l ON {same(keys, "l", "w")}l.session_id = w.session_id
        LEFT JOIN changed c ON {same(keys, "c", "w")}c.session_id = w.session_id
        LEFT JOIN spent u ON {same(keys, "u", "w")}u.session_id = w.session_id"""


def rewritten(events: str) -> str:
    """Session and turn of imported commits that no line reaches any more, as `turns.rewritten` says it."""
    return f"""
        SELECT session_id, turn FROM {events} WHERE event_type = 'turn' AND agent = 'git'
        GROUP BY session_id, turn HAVING arg_max({_TURN_STATE}, position) = {_REWRITTEN}"""


def default_context(session_id: str) -> str:
    """`numbering.default_context` in SQL: the context id of a session that nobody gave a slug."""
    slug = _safe(f"'session-' || {session_id}")
    return f"('session:' || {slug} || '_' || {session_id})"


# Of a `session` event, with the operation of the one `before`: whether the session is opened.
_OPENS = "operation = 'start' OR (operation IN ('resume', 'clear', 'fork') AND before = 'end')"
_LIFECYCLE = "('session', 'turn', 'sessions')"

# Keys of lifecycle payloads that no column holds (S1-23, S1-47, S1-49).
_PAYLOAD_KEYS = (
    '{"user_message":"VARCHAR","user_request":"VARCHAR","outcome":"VARCHAR","decisions":["VARCHAR"],'
    '"actions_taken":["VARCHAR"],"files_read":["VARCHAR"],"files_modified":["VARCHAR"],'
    '"summary":"VARCHAR","end_reason":"VARCHAR","closed_by":"VARCHAR","line_place":"BIGINT"}'
)

# Of an event: a session that no hook and no recorder began, but an import. Hooks say how long they took,
# recorders which session they begin; the import of git does so too.
_BEGUN_BY_IMPORT = (
    f"event_type = 'session' AND operation = 'start' AND {OF_IMPORTED} "
    "AND TRY(json_extract_string(anchor_payload, '$.hook_us')) IS NULL "
    "AND (agent = 'git' OR TRY(json_extract_string(anchor_payload, '$.session_id')) IS NULL)"
)
_TURN_STATE = "coalesce(status, CASE operation WHEN 'start' THEN 'active' WHEN 'end' THEN 'completed' END)"
STATE = (
    f"CASE WHEN {_BEGUN_BY_IMPORT} THEN 'closed' WHEN event_type = 'turn' THEN {_TURN_STATE} "
    "ELSE coalesce(status, CASE operation WHEN 'start' THEN 'active' WHEN 'end' THEN 'closed' END) END"
)

# When a turn happened, in the fold of turns (`t` its lifecycle, `p` its parts): the one place where the
# order of turns is made.
_TURN_HAPPENED_AT = "coalesce(t.started_at, p.first_at)"

# A turn of an imported history without an end is a commit of which the import found only a part
# (docs/adapters.md).
_IMPORTED = "p.agent = 'git'"
_REWRITTEN = "'rewritten'"
_TURN_STATUS = f"CASE WHEN {_IMPORTED} AND t.status = 'active' THEN 'incomplete' ELSE t.status END"


def _span(lifecycle: str, rows: str) -> str:
    """A start and an end: as recorded, else the first and last known times; no end before its start."""
    start = f"coalesce({lifecycle}.started_at, {rows}.first_at)"
    end = f"coalesce({lifecycle}.ended_at, {rows}.last_at)"
    is_plausible = f"{lifecycle}.status <> 'active' AND ({end} < {start}) IS NOT TRUE"
    return f"{start} AS started_at, CASE WHEN {is_plausible} THEN {end} END"


def _first_line(text: str) -> str:
    """The first line that is not blank, as a title: at most 80 characters; null when there is none."""
    line = f"trim(regexp_extract({text}, '\\S[^\\n\\r]*'))"
    return f"nullif(CASE WHEN len({line}) > 80 THEN {line}[:79] || '…' ELSE {line} END, '')"


def _sums(of: str, count: str, rows: str) -> str:
    sums = ", ".join(f"sum({name})::BIGINT AS {name}" for name in _SUMMED)
    return f"SELECT {of}, {count} AS calls, {sums} FROM {rows} WHERE session_id IS NOT NULL GROUP BY {of}"


def _token_columns(tokens: str) -> str:
    """The figures of a left-joined row of `_sums`: zero where there was no call at all (S0-11)."""
    total = (
        f"coalesce({tokens}.prompt_tokens + {tokens}.completion_tokens, "
        f"{tokens}.prompt_tokens, {tokens}.completion_tokens)"
    )
    figures = [(f"{tokens}.{name}", name) for name in _SUMMED] + [(total, "tokens_used")]
    columns = [
        f"CASE WHEN {tokens}.calls IS NULL THEN 0 ELSE {value} END AS {name}" for value, name in figures
    ]
    return ", ".join([f"coalesce({tokens}.calls, 0) AS llm_calls", *columns])


def _paths(seen: str, named: str) -> str:
    return f"""CASE WHEN len({named}) > 0 THEN list_sort(list_distinct(coalesce({seen}, []) || {named}))
                WHEN {seen} IS NULL THEN [] ELSE list_sort(list_distinct({seen})) END"""


def _slug(context_id: str, session_id: str) -> str:
    """The text between `session:` and `_{session_id}`; null for a context id of another form."""
    return (
        f"CASE WHEN starts_with({context_id}, 'session:') AND ends_with({context_id}, '_' || {session_id}) "
        f"THEN {context_id}[9:len({context_id}) - len({session_id}) - 1] END"
    )


# Of a `session` event: whether it fixes the session's context id (log/numbering.py); a turn does so, too.
FIXES_CONTEXT = f"(operation = 'end' OR context_id <> {default_context('session_id')})"
