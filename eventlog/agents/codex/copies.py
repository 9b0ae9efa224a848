"""The history of another thread at the beginning of a rollout, which a subagent or a fork goes on from.

It begins with the `session_meta` of another thread; where the thread's own names the one it was forked from,
also with the first line of a turn that is older than the thread. It ends before the first line of a turn
that is newer: ids of both are UUIDs of version 7, which begin with the time they were made at. Where no
copied line has such a turn, it ends at the first pause, because copied lines are written at once.

Copied lines are those of the other thread's file with other times, without most events of the client. So they
are read as that file (`History`), and their events have its ids. The thread's own reader passes over them.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from eventlog.agents.kit.call import int_of, object_of, text_of
from eventlog.agents.kit.draft import Draft
from eventlog.agents.kit.lines import FileSource, ImportOffset, Line
from eventlog.agents.kit.times import time_of
from eventlog.base.types import Event

_PAUSE_US = 200_000
_SPAWN = "spawn_agent"
_DEPTH_MAX = 8  # forks of forks


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
        self._spawns: set[str] = set()  # calls that made subagents
        self._last: dict[str, Any] | None = None

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

    def count(self, payload: "dict[str, Any]") -> None:
        """One more copied line."""
        self.lines += 1
        self._last = payload
        if text_of(payload, "name") == _SPAWN:
            self._spawns.add(text_of(payload, "call_id") or "")

    def take_answer(self) -> "dict[str, Any] | None":
        """The last line after the copy, where it answers the call that made this subagent: its own.

        The parent's call has another answer, an object that names the subagent.
        """
        last, self._last = self._last, None
        if last is None or text_of(last, "type") != "function_call_output":
            return None
        output = text_of(last, "output") or ""
        return last if text_of(last, "call_id") in self._spawns and not output.startswith("{") else None

    def tell(self, draft: Draft) -> None:
        """The copy is over: say that it was there."""
        if self.is_under_way and self.lines:
            payload = {"of": self._of, "lines": self.lines}
            key = ("transcript", self._thread, "copied_history")
            draft.event("transcript", payload, *key, operation="copied_history")
        self.is_under_way = False


class History(FileSource):
    """The copy in a rollout, as the file that it was copied from; the copy may have one itself."""

    is_copy = True

    def __init__(self, of: FileSource) -> None:
        super().__init__(of.agent, of.parts, root=of.root)
        self.is_foreign, self.repo = of.is_foreign, of.repo
        self.path = f"{of.path}#history"
        self._of = of

    def touched_s(self) -> float:
        return self._of.touched_s()

    def head(self) -> "list[dict[str, Any]]":
        return self._of.head()

    def lines(self, offsets: "Mapping[str, ImportOffset]") -> Iterator[Line]:
        for line in _copied(self._of.lines(offsets)):
            self.marks = self._of.marks
            yield line
        self.marks = self._of.marks


def histories_in(source: FileSource, head: "list[dict[str, Any]]") -> list[FileSource]:
    """The copies in a rollout that begins with `head`, the oldest thread's first."""
    metas = [object_of(record, "payload") for record in head if record.get("type") == "session_meta"]
    threads = dict.fromkeys(text_of(meta, "id") for meta in metas)
    is_fork = bool(metas) and "forked_from_id" in metas[0]
    histories = [source]
    for _ in range(min(max(len(threads) - 1, is_fork), _DEPTH_MAX)):
        histories.append(History(histories[-1]))
    return histories[:0:-1]


def made_at(id: str, *, after: str) -> int | None:
    """When a UUID of version 7 was made, in µs since 1970; None for another, or one older than `after`."""
    if id[14:15] != "7" or after[14:15] != "7" or id.lower() < after.lower():
        return None
    try:
        return int(id[:8] + id[9:13], 16) * 1_000
    except ValueError:
        return None


def _copied(lines: Iterator[Line]) -> Iterator[Line]:
    """The copied ones of a rollout's lines, without the times they were copied at."""
    copy, thread, of = Copy(), "", None
    held: Line | None = None
    number = 0
    for line in lines:
        record = line.record or {}
        payload, kind = record.get("payload"), str(record.get("type"))
        if not isinstance(payload, dict):
            continue
        is_meta, id = kind == "session_meta", text_of(payload, "id") or ""
        if not thread:
            if is_meta:
                thread, of = id, text_of(payload, "forked_from_id")
            if of is not None:
                copy.expect(thread, of)
            continue
        columns: Event = {"occurred_at": time_of(text_of(record, "timestamp"))}
        if is_meta and id != thread:
            copy.begin(thread, id, columns)
        elif (is_meta and not copy.is_under_way) or not copy.begins(kind, payload, columns):
            continue
        elif not is_meta and copy.ends(kind, payload, columns):
            break
        if held is not None:
            yield held
        elif not is_meta:
            number += 1
            yield Line(line.part, number, 0, b"", _line("session_meta", {"id": of}), line.is_imported)
        copy.count(payload)
        number += 1
        at = text_of(payload, "timestamp") if is_meta else None
        held = Line(line.part, number, line.offset, line.data, _line(kind, payload, at), line.is_imported)
    if held is not None and copy.take_answer() is None:
        yield held


def _line(kind: str, payload: "dict[str, Any]", at: str | None = None) -> "dict[str, Any]":
    return {"timestamp": at, "type": kind, "payload": payload}


def _turn_of(kind: str, payload: "dict[str, Any]", thread: str) -> str | None:
    """The turn that a line begins or belongs to, when its age can be compared with the thread's."""
    if kind in ("turn_context", "token_usage_record") or text_of(payload, "type") == "task_started":
        turn = text_of(payload, "turn_id")
        if turn is not None and turn[14:15] == thread[14:15] == "7":
            return turn.lower()
    return None
