"""The sessions master: the SQL that folds the sessions of a repository, and its own events, into one row.

Pure text, like that of definitions.py, by whose rules it folds and which has the columns.
"""

from eventlog.projections.keyed import Keys, led
from eventlog.projections.lives import lived, safe


def master_rows(events: str, keys: Keys = ()) -> str:
    """The master's own events, with the columns of `master_keys`."""
    first = led(keys)
    return f"""
        SELECT {first}repo, context_id, title AS project_name, extends, position
        FROM {events} WHERE event_type = 'sessions' AND repo IS NOT NULL"""


def master_keys(rows: str, keys: Keys = ()) -> str:
    """What the master's own events say; `rows` are `master_rows`, `master_keys`, or both."""
    first = led(keys)
    return f"""
        SELECT {first}repo, arg_max(context_id, position) AS context_id,
            arg_max(project_name, position) AS project_name,
            arg_max(extends, position) AS extends, max(position) AS position
        FROM {rows} GROUP BY {first}repo"""


def sessions_master(sessions: str, master_keys: str, keys: Keys = ()) -> str:
    """The master of each repository out of all `sessions` and all `master_keys`.

    A master without links, as earlier hooks wrote it, extends the anchor of its project all the same.
    """
    first = led(keys)
    return f"""
        WITH folded AS (
            SELECT {first}repo,
                arg_max(context_id, opened_position) FILTER (status = 'active') AS active_session,
                count(*) FILTER (status = 'active') AS active_sessions,
                count(*) AS total_sessions, sum(turn_count)::BIGINT AS total_turns,
                max(last_position) AS last_position
            FROM {lived(sessions, keys=keys)} WHERE repo IS NOT NULL GROUP BY {first}repo
        )
        SELECT {first}coalesce(k.context_id, {safe("repo")} || ':sessions') AS context_id, repo,
            k.project_name,
            coalesce(nullif(k.extends, []), CASE WHEN k.project_name IS NOT NULL THEN
                ['knowledge:' || {safe("k.project_name")} || '_' || {safe("repo")}] END) AS extends,
            f.active_session,
            coalesce(f.active_sessions, 0) AS active_sessions,
            coalesce(f.total_sessions, 0) AS total_sessions,
            coalesce(f.total_turns, 0) AS total_turns,
            greatest(f.last_position, k.position) AS last_position
        FROM folded f FULL JOIN {master_keys} k USING ({first}repo)"""
