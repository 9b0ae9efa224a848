"""Facts of commits that an earlier import could not know: their parent, and their index on the line.

The oldest commit of a shallow clone has no parent there, so all of its files count as added. Once its parent
is present the commit is recorded again, and the earlier turn counts as rewritten (docs/adapters.md).
"""

from typing import TYPE_CHECKING

from eventlog.projections.definitions import TURNS_NEWEST_FIRST

if TYPE_CHECKING:
    from collections.abc import Sequence

    from eventlog.store import Store

_WITHOUT_PARENT = """
select "commit" from events
where event_type = 'snapshot' and operation = 'turn_start' and agent = 'git' and repo = $1
and json_extract_string(payload, '$.git_head') is null
"""
_ORDERED = f"""
select "commit", line_place is null from turns
where agent = 'git' and repo = $1 and rewritten is not true order by {TURNS_NEWEST_FIRST}
"""


def without_parent(store: "Store", repo: str) -> set[str]:
    """The commits that were recorded as the first of their history."""
    return {commit for (commit,) in store.query(_WITHOUT_PARENT, [repo]).rows}


def without_line_index(store: "Store", repo: str, line: "Sequence[str]", grows: bool) -> set[str]:
    """The commits of the line whose index on it the log lacks and needs.

    It is needed where there are commits to record, and where their times alone give another order.
    """
    on_line = set(line)
    rows = [(commit, lacks) for commit, lacks in store.query(_ORDERED, [repo]).rows if commit in on_line]
    recorded = [commit for commit, _ in rows]
    recorded_ids = set(recorded)
    if not grows and recorded == [commit for commit in reversed(line) if commit in recorded_ids]:
        return set()
    return {commit for commit, lacks in rows if lacks}
