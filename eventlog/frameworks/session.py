"""What every framework's callbacks record: a session, a turn for each run, and what happens in it.

Callbacks run inside of somebody's agent, so none raises: what could not be recorded is a line in the store's
`tmp/hook-errors.log`, which `locus doctor` shows. They may come from any thread, one after the other.
"""

import json
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from eventlog.recorder import failures
from eventlog.recorder.recorder import Recorder, Session, Turn
from eventlog.store import Store

_UNKNOWN_MODEL = "unknown"


class FrameworkSession:
    """One session. `begin` and `finish` are a run of the agent, which is a turn; the rest happens in it."""

    def __init__(self, store: Store, agent: str, root: str | None = None) -> None:
        """Args: root: the directory that the agent works in, captured where each turn begins and ends."""
        self.store = store
        self.root = root
        self._recorder = Recorder(store, agent=agent)
        self._session: Session | None = None
        self._turn: Turn | None = None
        self._began: dict[str, tuple[str, Mapping[str, Any], float]] = {}
        self._lock = threading.RLock()

    def begin(self, message: str) -> None:
        """A run begins. One that is still open was left without an end, as by an exception, and failed."""
        with self._recording("turn start"):
            self._finish(None, RuntimeError("the run was left without an end"))
            self._session = self._session or self._recorder.start_session(message)
            self._turn = self._session.start_turn(message, root=self.root)

    def finish(self, outcome: str | None, error: BaseException | None = None) -> None:
        """The run ends: with its answer, or with what it failed of."""
        with self._recording("turn end"):
            self._finish(outcome, error)

    def start_call(self, key: str, name: str, arguments: Mapping[str, Any]) -> None:
        """A tool or a model is called; `end_tool` or `end_model` with the same key is its end."""
        self._began[key] = (name, arguments, time.monotonic())

    def end_tool(self, key: str, result: object, error: BaseException | None = None) -> None:
        with self._recording("action"):
            name, arguments, duration_ms = self._call(key)
            if self._turn is not None:
                outcome = {"error": str(error)} if error else {"output": as_text(result)}
                self._turn.action(name, arguments, outcome, duration_ms=duration_ms, success=error is None)

    def end_model(
        self, key: str, model: str | None, prompt_tokens: int | None, completion_tokens: int | None
    ) -> None:
        """Args: model: as the answer names it; else as the call did."""
        with self._recording("llm"):
            name, _, duration_ms = self._call(key)
            if self._turn is not None:
                self._turn.llm(
                    model or name,
                    prompt_tokens=prompt_tokens,
                    completion_tokens=completion_tokens,
                    duration_ms=duration_ms,
                )

    def error(self, error: BaseException) -> None:
        with self._recording("error"):
            if self._turn is not None:
                self._turn.error(type(error).__name__, str(error))

    def decision(self, decision: str) -> None:
        with self._recording("decision"):
            if self._turn is not None:
                self._turn.decision(decision)

    def close(self) -> None:
        """End the session; a turn that is still open failed."""
        with self._recording("session end"):
            self._finish(None, RuntimeError("the run was left without an end"))
            if self._session is not None:
                self._session = None
                self._recorder.end_session()

    def _call(self, key: str) -> tuple[str, Mapping[str, Any], int | None]:
        name, arguments, began = self._began.pop(key, (_UNKNOWN_MODEL, {}, None))
        return name, arguments, None if began is None else round((time.monotonic() - began) * 1000)

    def _finish(self, outcome: str | None, error: BaseException | None) -> None:
        turn, self._turn = self._turn, None
        if turn is None:
            return
        if self.root is not None:
            turn.snapshot(self.root)
        if error is None:
            turn.end(outcome=outcome)
        else:
            turn.__exit__(type(error), error, None)

    @contextmanager
    def _recording(self, what: str) -> Iterator[None]:
        with self._lock:
            try:
                yield
            except Exception as error:
                failures.note(self.store.fs, self.store.layout, what, error)


def as_text(value: object) -> str:
    """A value of a framework as text: what is none already as JSON, with `str` of what JSON has not."""
    return value if isinstance(value, str) else json.dumps(value, default=str, ensure_ascii=False)
