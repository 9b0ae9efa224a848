"""Which events and sessions are of another project than the store's own, as conditions in SQL.

`locus import AGENT --all-projects` records sessions of other directories. The column `repo` says whose an
event is, else that of its session. Every hook and every import of this repository fills it in; so a
session of an agent that is imported, and that has none, is another project's. Any other without one
counts as the store's own: nobody knows that it is not. Pure.
"""

from eventlog.projections.definitions import OF_IMPORTED


def of_project(repo: str) -> str:
    """The condition on an event, turn or error (`repo`, `session_id`). Args: repo: the parameter, `$1`."""
    session = f"CASE WHEN repo IS NULL THEN NOT ({OF_IMPORTED}) ELSE repo = {repo} END"
    return (
        f"(repo = {repo} OR repo IS NULL AND coalesce(session_id, '') NOT IN "
        f"(SELECT session_id FROM sessions WHERE NOT {session}))"
    )
