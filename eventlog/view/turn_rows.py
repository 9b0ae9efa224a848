"""Rows of the view `turns`, kept by session while the log grows: to ask for one takes longer than a page.

A row rests on the events of its session (I21), on prices, and on the model calls of other sessions, which may
be the same calls. So an event of a plain type makes the rows of its session outdated, any other event makes
all. One thread.
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from eventlog.query.lookup import TurnRef
from eventlog.query.sealed_turns import PLAIN

if TYPE_CHECKING:
    from eventlog.log.reader import LogView
    from eventlog.store import Store

# What an answer may need of a turn.
COLUMNS = (
    "session_id", "turn", "first_position", "last_position", "title", "agent", "models", "person", "commit",
    "status", "started_at", "completed_at", "duration_ms", "tool_calls", "errors", "prompt_tokens",
    "completion_tokens", "tokens_used", "cost_usd", "unpriced_calls",
)  # fmt: skip

# Of more new events than these nothing is kept.
_NEW_MAX = 2_000

_SELECT = f"select {', '.join(COLUMNS)} from turns".replace("commit", '"commit"')

Row = Mapping[str, Any]


class TurnRows:
    """The rows of one store, as its log is now."""

    def __init__(self, store: "Store") -> None:
        self._store = store
        self._until = 0  # the position up to which events are taken into account
        self._rows: dict[str, dict[int, tuple[Any, ...]]] = {}
        self._of_all = False  # whether all were asked for: such a caller goes through all of them

    def row(self, session_id: str, turn: int) -> "Row | None":
        """The row of a turn; None where there is no such turn. Raises: Corruption."""
        self._know({session_id})
        values = self._rows.get(session_id, {}).get(turn)
        return None if values is None else dict(zip(COLUMNS, values, strict=True))

    def rows(self, turns: Sequence[TurnRef]) -> "list[Row]":
        """The rows of turns, in the same order. Raises: KeyError (there is no such turn), Corruption."""
        self._know({turn.session_id for turn in turns})
        all_values = (self._rows[turn.session_id][turn.turn] for turn in turns)
        return [dict(zip(COLUMNS, values, strict=True)) for values in all_values]

    def _know(self, sessions: set[str]) -> None:
        """Have the rows of these sessions, as they are now."""
        self._catch_up()
        missing = list(sessions - self._rows.keys())
        if not missing:
            return
        self._of_all = self._of_all or len(missing) > 1
        of_one = len(missing) == 1 and (self._rows or not self._of_all)  # else one question is less than many
        where = "where session_id = $1" if of_one else ""
        for values in self._store.query(f"{_SELECT} {where}", missing if of_one else []).rows:
            self._rows.setdefault(values[0], {})[values[1]] = values

    def _catch_up(self) -> None:
        """Forget the rows that events since the last question changed."""
        with self._store.view() as view:
            until = view.next_position
            if until == self._until:
                return
            outdated = self._outdated(view, until) if self._rows else None
        self._until = until
        if outdated is None:
            self._rows.clear()
            return
        for session_id in outdated:
            self._rows.pop(session_id, None)

    def _outdated(self, view: "LogView", until: int) -> "set[str] | None":
        """The sessions whose rows new events changed; None where all may be changed."""
        events = events_between(view, self._until, until)
        if events is None:
            return None
        if any(event["event_type"] not in PLAIN for event in events):
            return None
        return {str(event["session_id"]) for event in events}


def events_between(view: "LogView", since: int, until: int) -> "list[Row] | None":
    """Type and session of new events; None where they are too many to keep anything. Raises: Corruption."""
    if not 0 < until - since <= _NEW_MAX:
        return None
    return list(view.iterate(since, until, columns=("event_type", "session_id")))
