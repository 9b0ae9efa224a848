"""Which events and sessions are of another project than the store's own, as conditions in SQL.

`locus import AGENT --all-projects` records sessions of other directories. A session's column `repo` says
whose it is. Every hook and every import of this repository fills it in; so a session of an agent that is
imported, and that has none, is another project's. Any other without one counts as the store's own: nobody
knows that it is not. So does a history of git, which somebody named. `memory.facts.is_of_project` says the
same of an event.
"""

from collections.abc import Callable
from typing import Any

from eventlog.projections.definitions import OF_IMPORTED


def of_project(others: str) -> str:
    """The condition on an event, turn or error (`session_id`).

    Args: others: the parameter, `$1`, of what `sessions_elsewhere` gives.
    """
    return f"coalesce(session_id, '') NOT IN (SELECT unnest({others}::VARCHAR[]))"


def session_of_project(repo: str) -> str:
    """The condition on a row of `sessions`. Args: repo: the parameter, `$1`, of the project's hash."""
    return (
        "CASE WHEN agent IS NOT DISTINCT FROM 'git' THEN true "
        f"WHEN repo IS NULL THEN NOT ({OF_IMPORTED}) ELSE repo = {repo} END"
    )


def sessions_elsewhere(query: Callable[..., Any], repo: str) -> list[str]:
    """The ids of the sessions of other projects. Args: as of `totals`."""
    sql = f"select session_id from sessions where not {session_of_project('$1')}"
    return [session_id for (session_id,) in query(sql, [repo]).rows]


def totals(query: Callable[..., Any], repo: str) -> tuple[int, int]:
    """How many sessions and turns of the project are recorded. Args: query: of the store; repo: its hash."""
    sql = f"select count(*), sum(turn_count) from sessions where {session_of_project('$1')}"
    [(sessions, turns)] = query(sql, [repo]).rows
    return int(sessions), int(turns or 0)
