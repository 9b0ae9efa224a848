"""Which errors are resolved, by what: the one rule that all answers share (docs/anchors.md, Errors).

Told: the error says so itself, or a later error marked resolved has its context id or a link to it. Seen: in
its session the same tool worked later with the same command or on the same file; to change a file, any tool.
Exploratory: what failed only read something (`eventlog/base/exploring.py`), so there is nothing to resolve.
Pure text, computed where a question names it; `memory/open_errors.py` has the same rule for a journal's end.
"""

from eventlog.base import exploring
from eventlog.base.types import COMMAND_ARGUMENTS
from eventlog.projections import calls
from eventlog.projections import definitions as d

STATED, SEEN, EXPLORATORY = "told", "seen", "exploratory"

COLUMNS: d.Columns = (
    (
        "resolved_how",
        "VARCHAR",
        "told: the log says so; seen: what failed worked later; exploratory: it only looked; null: open",
    ),
    ("resolved_by", "VARCHAR", "event that shows it; null where the error itself does"),
    ("resolved_at", d.TIME, "when that happened"),
)

# Every context that an event is of, or links to.
NAMES = "list_distinct([context_id] || {})".format(
    " || ".join(f"coalesce({name}, [])" for name in ("extends", "related_to", "reinforces", "contradicts"))
)


def of_errors(events: str) -> str:
    """`position`, `session_id` and `turn` of each error that is resolved, with `COLUMNS`."""
    arguments = f"{calls.argument(COMMAND_ARGUMENTS)}, TRY(json_extract_string(payload, '$.command'))"
    same = f"CASE WHEN lower(tool) IN {exploring.CHANGING_TOOLS} THEN 'change' ELSE tool END"
    done = (
        f"(SELECT *, coalesce({arguments}) AS command FROM {events} "
        f"WHERE {calls.ARE_CALLS} AND tool IS NOT NULL "
        f"AND session_id IN (SELECT session_id FROM {events} WHERE event_type = 'error'))"
    )
    return f"""
        WITH failed AS (
            SELECT position, session_id, turn, context_id, tool, tool_use_id, resolved,
                nullif(path, '') AS path, {arguments} AS command
            FROM {events} WHERE event_type = 'error'
        ), done AS MATERIALIZED (
            SELECT position, event_id, session_id, tool, tool_use_id, success, {d.HAPPENED_AT} AS happened,
                {same} AS kind, command,
                coalesce(nullif(path, ''), nullif(command, ''), nullif(title, '')) AS target
            FROM {calls.with_path(done, events)}
        ), tried AS (
            SELECT session_id, tool_use_id, arg_max(tool, position) AS tool,
                arg_max(target, position) AS target, arg_max(command, position) AS command
            FROM done WHERE success = false AND tool_use_id IS NOT NULL AND target IS NOT NULL GROUP BY ALL
        ), called AS (
            SELECT f.* EXCLUDE (path) REPLACE (coalesce(t.tool, f.tool) AS tool,
                coalesce(t.command, f.command) AS command),
                coalesce(t.target, f.path, f.command) AS target
            FROM failed AS f LEFT JOIN tried AS t
                ON t.session_id = f.session_id AND t.tool_use_id = f.tool_use_id
        ), sought AS (
            SELECT *, {same} AS kind, {exploring.sql("tool", "command")} AS looked FROM called
        ), worked AS (
            SELECT * FROM done WHERE success AND target IS NOT NULL
        ), marks AS (
            SELECT position, event_id, {d.HAPPENED_AT} AS happened, unnest({NAMES}) AS name
            FROM {events} WHERE event_type = 'error' AND resolved
        )
        SELECT s.position, s.session_id, s.turn,
            CASE WHEN s.resolved OR m.position IS NOT NULL THEN '{STATED}'
                WHEN w.position IS NOT NULL THEN '{SEEN}' ELSE '{EXPLORATORY}' END AS resolved_how,
            CASE WHEN m.position IS NOT NULL THEN m.event_id ELSE w.event_id END AS resolved_by,
            CASE WHEN m.position IS NOT NULL THEN m.happened ELSE w.happened END AS resolved_at
        FROM sought AS s
        ASOF LEFT JOIN marks AS m ON m.name = s.context_id AND s.position < m.position
        ASOF LEFT JOIN worked AS w ON w.session_id = s.session_id AND w.kind = s.kind
            AND w.target = s.target AND s.position < w.position
        WHERE s.resolved OR m.position IS NOT NULL OR w.position IS NOT NULL OR s.looked"""


def with_resolution(errors: str, events: str) -> str:
    """Errors with `COLUMNS`; `resolved` is true of those that are resolved."""
    return f"""(
        SELECT e.* REPLACE (CASE WHEN r.position IS NULL THEN e.resolved ELSE true END AS resolved),
            r.resolved_how, r.resolved_by, r.resolved_at
        FROM {errors} AS e LEFT JOIN ({of_errors(events)}) AS r ON r.position = e.position)"""
