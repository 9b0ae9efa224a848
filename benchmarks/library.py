"""The same events in the `eventsourcing` library: an aggregate a session, kept in SQLite.

Its rebuild is what the library is made for: every aggregate is read from the database and its events are
replayed into it. The fold in it is the least there is, two counts and two sums a turn.
"""

from __future__ import annotations

import time
from typing import Any
from uuid import UUID

from eventsourcing.application import Application
from eventsourcing.domain import Aggregate, event

from eventlog.base.types import Event


class Session(Aggregate):
    @event("Started")
    def __init__(self, name: str) -> None:
        self.name = name
        self.turns: dict[str | None, list[int]] = {}

    @event("Recorded")
    def record(self, columns: dict[str, Any]) -> None:
        totals = self.turns.setdefault(columns.get("agent_turn_id"), [0, 0, 0, 0])
        totals[0] += 1
        totals[1] += columns["event_type"] == "error"
        totals[2] += columns.get("prompt_tokens") or 0
        totals[3] += columns.get("completion_tokens") or 0


class Library:
    """An application whose log holds these events."""

    def __init__(self, path: str, events: list[Event]) -> None:
        environment = {"PERSISTENCE_MODULE": "eventsourcing.sqlite", "SQLITE_DBNAME": path}
        self._application: Application[UUID] = Application(env=environment)
        sessions: dict[str, Session] = {}
        for columns in events:
            name = str(columns["agent_session_id"])
            if name not in sessions:
                sessions[name] = Session(name=name)
            sessions[name].record(columns=columns)
        self._application.save(*sessions.values())
        self._ids = [session.id for session in sessions.values()]

    def replay_seconds(self) -> float:
        """Bring every session's state back from its events."""
        start = time.perf_counter()
        for number in self._ids:
            self._application.repository.get(number)
        return time.perf_counter() - start
