"""The history of another thread at the beginning of a rollout, which a subagent or a fork goes on from.

It begins with the `session_meta` of another thread; where the thread's own names the one it was forked from,
also with the first line of a turn that is older than the thread. It ends in front of the first line of a turn
that is younger: ids of both are UUIDs of version 7, which begin with the time they were made at. Where no
copied line has such a turn, it ends at the first pause, because copied lines are written at once.
"""

from typing import Any

from eventlog.agents.call import int_of, text_of
from eventlog.transcripts.draft import Draft
from eventlog.types import Event

_PAUSE_US = 200_000


class Copy:
    """The copy in one rollout; `lines` counts it."""

    def __init__(self) -> None:
        self.is_under_way = False
        self.lines = 0
        self._fork: tuple[str, str] | None = None
        self._thread = ""
        self._of: str | None = None
        self._has_ids = False
        self._at: int | None = None

    def expect(self, thread: str, of: str) -> None:
        """`thread` is a fork of `of`, and may have a copy."""
        self._fork = thread, of

    def begins(self, kind: str, payload: "dict[str, Any]", columns: Event) -> bool:
        """Whether a line is the first of a copy in a fork; it may be under way already."""
        if self._fork is not None and not self.is_under_way:
            turn = _turn_of(kind, payload, self._fork[0])
            if turn is not None:
                if turn < self._fork[0].lower():
                    self.begin(*self._fork, columns)
                self._fork = None
        return self.is_under_way

    def begin(self, thread: str, of: str, columns: Event) -> None:
        """`thread` has a copy of `of` from this line on."""
        self.is_under_way = True
        self._thread = thread
        self._of = self._of or of
        self._at = int_of(columns, "occurred_at")

    def ends(self, kind: str, payload: "dict[str, Any]", columns: Event) -> bool:
        """Whether a line is the first of the thread's own."""
        turn = _turn_of(kind, payload, self._thread)
        if turn is not None:
            self._has_ids = True
            return turn > self._thread.lower()
        before, self._at = self._at, int_of(columns, "occurred_at")
        if self._has_ids or self._at is None or before is None:
            return False
        return self.lines > 0 and self._at - before > _PAUSE_US

    def tell(self, draft: Draft) -> None:
        """The copy is over: say that it was there."""
        if self.is_under_way and self.lines:
            said = {"of": self._of, "lines": self.lines}
            key = ("transcript", self._thread, "copied_history")
            draft.event("transcript", said, *key, operation="copied_history")
        self.is_under_way = False


def _turn_of(kind: str, payload: "dict[str, Any]", thread: str) -> str | None:
    """The turn that a line begins or belongs to, when its age can be compared with the thread's."""
    if kind in ("turn_context", "token_usage_record") or text_of(payload, "type") == "task_started":
        turn = text_of(payload, "turn_id")
        if turn is not None and turn[14:15] == thread[14:15] == "7":
            return turn.lower()
    return None
