"""Tool calls of different sessions that were given one id, which looks random and should tell its call.

The first that has the id keeps it. Another call gets a key with its session (docs/event-ids.md), unless it is
a copy: a call in a turn that was copied from the first one's session, or one with equal arguments at the same
time. The log is asked once for the ids of its calls, and once for each session that is compared. One thread.
"""

from collections.abc import Callable, Collection
from typing import Any

from eventlog import jsontext
from eventlog.agents import live_texts
from eventlog.agents.codex import AGENT as CODEX
from eventlog.agents.codex import words_of
from eventlog.names import event_id_of
from eventlog.store import Store
from eventlog.transcripts.idsets import SortedIds, short
from eventlog.types import Event

_IDS = (
    "select cast('0x' || left(event_id, 16) as ubigint) as id from events "
    "where event_type in ('action', 'tool_start') and agent = $1 order by id"
)
_OF_SESSION = (
    "select event_id, event_type, agent_session_id, epoch_us(occurred_at), payload, agent_session_id in "
    "(select agent_session_id from events where event_type = 'snapshot' and tree_hash is not null "
    "and agent = $1) from events where event_type in ('action', 'tool_start') and agent = $1 and "
    "agent_session_id in (select agent_session_id from events where event_id in ($2, $3)) order by position"
)


class ToolCall:
    """A tool call as a reader met it.

    `sessions` are that of the line and that which had the turn first; `time` is in microseconds.
    """

    __slots__ = ("args", "event_type", "id", "scope", "sessions", "time")

    def __init__(
        self,
        event_type: str,
        id: str,
        scope: "tuple[str, ...]",
        args: object,
        sessions: "tuple[str, ...]",
        time: object,
    ) -> None:
        self.event_type = event_type
        self.id = id
        self.scope = scope
        self.args = args
        self.sessions = sessions
        self.time = time


class Calls:
    """Which call of which session had an id first, in the log or in this import."""

    def __init__(self, store: Store, agent: str, sessions: "Collection[str]") -> None:
        """Args: sessions: those of the agent that the log knows."""
        self._store = store
        self._agent = agent
        self._is_empty = not sessions
        self._told: dict[int, tuple[str, int]] = {}  # action → session and content of the first
        self._logged: SortedIds | None = None  # read when they are needed
        self._held: dict[str, tuple[Any, ...]] = {}  # of the session that was compared last

    def is_taken(self, call: ToolCall, is_of_session: "Callable[[str], bool]") -> bool:
        """Whether another call has the id of `call`.

        Args: is_of_session: whether the log is known to have an event in the session of `call`.
        """
        action = event_id_of(self._agent, "action", *call.scope, call.id)
        if not self._is_empty:
            first = self._first_in_log(action, event_id_of(self._agent, "tool_start", *call.scope, call.id),
                                       is_of_session)  # fmt: skip
            if first is not None:
                return bool(first) and not self._is_copy(call, first)
        content = hash((call.event_type, jsontext.encode_fast(call.args), call.time))
        session, first_content = self._told.setdefault(short(action), (call.sessions[-1], content))
        return session not in call.sessions and first_content != content

    def is_held(self, action: str, session: str | None) -> bool:
        """Whether a call of a session other than `session` has told the action, in this import or before."""
        told = self._told.get(short(action))
        if told is not None:
            return told[0] != session
        return not self._is_empty and short(action) in self._ids_in_log()

    def _ids_in_log(self) -> SortedIds:
        if self._logged is None:
            ids = self._store.sql(_IDS, [self._agent]).column("id")
            self._logged = SortedIds(ids.to_pylist())
        return self._logged

    def _first_in_log(
        self, action: str, start: str, is_of_session: "Callable[[str], bool]"
    ) -> "tuple[Any, ...] | None":
        """What the log has under an id; empty when the session has it itself, None when nobody has."""
        if is_of_session(action) or is_of_session(start):
            return ()
        logged = self._ids_in_log()
        if short(action) not in logged and short(start) not in logged:
            return None
        if action not in self._held and start not in self._held:
            rows = self._store.query(_OF_SESSION, [self._agent, action, start]).rows
            self._held = {row[0]: row[1:] for row in rows}
        return self._held.get(action) or self._held.get(start)

    def _is_copy(self, call: ToolCall, first: "tuple[Any, ...]") -> bool:
        event_type, session, at, payload, has_hooks = first
        if session in call.sessions:
            return True
        if not has_hooks and event_type == call.event_type and at not in (None, call.time):
            return False  # hooks have times of their own
        said = jsontext.decode(payload)
        args = said.get("args") if isinstance(said, dict) else None
        if isinstance(args, (dict, list, str)) and self._agent == CODEX:
            args = words_of(args)
        return _digest(args, said) == self._stored_form(call)

    def _stored_form(self, call: ToolCall) -> object:
        """What stands in the log for the arguments of a call: without secrets, large texts as hashes."""
        event: Event = {"event_type": call.event_type, "payload": {"args": call.args}}
        moved = live_texts.move(self._store.redactor.redact(event), live_texts.void, suspect=False)
        said = moved["payload"]
        assert isinstance(said, dict)
        return _digest(said["args"], said)


def _digest(args: object, payload: "dict[str, Any]") -> object:
    """Arguments, and the contents that their large texts were moved to."""
    places = payload.get("in_blobs")
    moved = places.items() if isinstance(places, dict) else ()
    blobs = sorted(str(one["blob"]) for place, one in moved if place.partition(".")[0] == "args")
    return jsontext.decode(jsontext.encode(args)), blobs
