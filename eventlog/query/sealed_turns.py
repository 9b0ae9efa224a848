"""A turn by its exact name, or by its commit, from the index alone.

To ask for it in SQL starts an instance of DuckDB, makes the views and folds the tail, which takes as long as
all else that a diff or an undo reads. The index has the answer where it covers every segment and nothing in
the tail can change it; a caller that numbers the tail has the index open. All other names are left to SQL
(`lookup.find_turn`), and so is a name that no turn of the index has.
"""

from typing import TYPE_CHECKING

from eventlog.query.lookup import TurnRef

if TYPE_CHECKING:
    from eventlog.log.reader import LogView

# Types of events that change no turns but those of their session. Not among them: model calls, what erases,
# and what a newer version of Locus writes.
PLAIN = frozenset(
    (
        "session", "turn", "intent", "message", "tool_start", "action", "mcp_action", "file", "snapshot",
        "content", "error", "decision", "feedback", "hook", "restore", "withheld", "cursor", "subagent",
        "transcript",
    )
)  # fmt: skip
_TAIL_MAX = 2_000
_TURN_DIGITS_MAX = 9
_COMMIT_SIZE_MIN = 4
_HEX = frozenset("0123456789abcdef")


def sealed_turn(view: "LogView", name: str) -> TurnRef | None:
    """The turn that `name` means; None where SQL is to say it. Raises: Corruption."""
    from eventlog.projections.prefix import IndexedPrefix

    if not isinstance(view.prefix, IndexedPrefix) or view.tail_count_raw > _TAIL_MAX:
        return None
    commit = name.removeprefix("git:").lower()
    session, _, turn_id = name.removeprefix("turn:").partition("_")
    is_commit = name.startswith("git:")
    if is_commit and len(commit) >= _COMMIT_SIZE_MIN and _HEX.issuperset(commit):
        rows = view.prefix.turns('starts_with("commit", $1)', [commit])
    elif not is_commit and turn_id.isascii() and turn_id.isdigit() and len(turn_id) <= _TURN_DIGITS_MAX:
        rows = view.prefix.turns("session_id = $1 AND turn = $2", [session, int(turn_id)])
    else:
        return None
    if rows is None or len(rows) != 1:
        return None
    ref = TurnRef(*rows[0])
    for event in view.tail:
        of_other = event["event_type"] in PLAIN and event["session_id"] != ref.session_id
        if not of_other or (is_commit and event["commit"] is not None):
            return None
    return ref
