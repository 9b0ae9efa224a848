"""Recorder: sessions and turns of one agent in one repository, written as they happen.

    with Store.open() as store, Recorder(store, agent="script").start_session("Repair the login") as session:
        with session.start_turn("Fix the JWT refresh bug in auth middleware", root=".") as turn:
            turn.action("pytest", {"args": ["tests"]}, {"exit": 1}, success=False)
            turn.file("auth.py", before=b"old", after=b"new")
            turn.snapshot(".")
            turn.end(title="Refresh fixed", outcome="tests pass")

What is left by an exception ends as failed, with an `error` event that names it; the exception goes on.

Ids and numbers are folds of the log (docs/design.md §5): the recorder writes what it knows, reads
back the turn's number, and holds no counter that another process could contradict. A caller's own
`session_id` or `turn` wins. One thread at a time; any number of processes.
"""

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Unpack, cast

from eventlog.base import names, person
from eventlog.base.errors import EventLogError, InvalidEvent, NotFound
from eventlog.base.event import Event
from eventlog.base.identity import TURN_LIMIT
from eventlog.base.types import Event as Row
from eventlog.blobs.ids import to_text
from eventlog.log.shorten import shorten
from eventlog.query.lookup import TurnRef
from eventlog.recorder import capture, lifecycle, sessions
from eventlog.recorder.columns import AtPath, Columns, TokenColumns
from eventlog.recorder.placement import dated
from eventlog.secrets import admission
from eventlog.store import Store

TITLE_SIZE_MAX = 80
FAILED = "failed"  # status of a turn, and end reason of a session, that an exception left
_OWN_AGENT = "locus"  # author of events that belong to the store rather than to an agent


@dataclass(frozen=True, slots=True)
class Session:
    """A session that is open. `turns` is how many turns it had when it was opened or last written.

    As a context manager it ends when it is left.
    """

    session_id: str
    slug: str
    context_id: str
    turns: int
    recorder: "Recorder" = field(repr=False, compare=False)

    def start_turn(
        self,
        user_message: str,
        *,
        intent_summary: str | None = None,
        root: "str | os.PathLike[str] | None" = None,
        git: Mapping[str, Any] | None = None,
    ) -> "Turn":
        """Begin the next turn, as `Recorder.start_turn` does."""
        return self.recorder.start_turn(user_message, intent_summary=intent_summary, root=root, git=git)

    def __enter__(self) -> "Session":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.recorder._leave_session(error)


class Recorder:
    """Records one agent's work in one repository: at most one active session at a time."""

    def __init__(
        self,
        store: Store,
        *,
        agent: str,
        agent_session_id: str | None = None,
        repo: str | None = None,
        project_name: str | None = None,
        turn_limit: int | None = None,
        **columns: Unpack[Columns],
    ) -> None:
        """`columns` are envelope columns for every event: `branch`, `worktree`, `agent_version`, …

        Args: turn_limit: turns of a session, after which the next one extends it (S1-58); the store's by
        default.
        """
        self.store = store
        self.agent = agent
        self.agent_session_id = agent_session_id
        self.repo = repo or store.repo_hash
        self.project_name = project_name or store.project_name
        self.turn_limit = turn_limit or store.identity.turn_limit or TURN_LIMIT
        own = {} if agent_session_id is None else {"agent_session_id": agent_session_id}
        self.columns: dict[str, Any] = {"agent": agent, **own, **columns}
        self.session: Session | None = None
        self._recorded_error: BaseException | None = None  # the exception that a turn has recorded
        self._known_until = 0  # before this position nobody closed our session without our knowing

    # -- sessions ------------------------------------------------------------------------------

    def resume(self, session_id: str | None = None) -> Session | None:
        """The active session of this agent in this repository, None when there is none.

        With an `agent_session_id` only that very session, or the one that continues it, is meant; with a
        `session_id` that one, if it is active.
        """
        self._known_until = self.store.journal.next_position()
        if session_id is None:
            row = sessions.active(self.store, self.repo, self.agent, self.agent_session_id)
        else:
            row = sessions.by_id(self.store, session_id)
            row = row if row is not None and row.status == "active" else None
        self.session = None if row is None else self._open(row)
        return self.session

    def _open(self, row: sessions.SessionRow) -> Session:
        slug = row.slug or f"session-{row.session_id}"
        return Session(row.session_id, slug, row.context_id, row.last_turn, self)

    def start_session(
        self,
        first_message: str,
        *,
        session_id: str | None = None,
        slug: str | None = None,
        title: str | None = None,
        extends: Sequence[str] = (),
        end_reason: str = "superseded",
        intent: Mapping[str, Any] | None = None,
    ) -> Session:
        """Begin a new session; one that is still active ends first.

        A session that is named, by its id or by the agent's own (`agent_session_id`), and that ended
        before is opened again, under its name.
        """
        # Before it is cut: half a secret is not recognised any more.
        first_message = self.store.redactor.text(first_message)
        left = self.session
        if left is None and (active := sessions.active(self.store, self.repo, self.agent)):
            left = self._open(active)
        if session_id is None:
            session_id, again = self._choose(left if end_reason == "rollover" else None)
        else:
            row = sessions.by_id(self.store, session_id)
            again = None if row is None else self._open(row)
        slug = slug or (again.slug if again else names.slugify(first_message, session_id))
        title = title or (None if again else _title(first_message) or None)
        events: list[Row] = []
        if left is None and not self._has_master():
            events.append(self._master())
        if left is not None and left.session_id != session_id:
            events.append(self._session_end(left, None, end_reason))
        declared = person.start_fields(self.store.fs, os.environ, self.store.identity.store_id)
        events.append(
            lifecycle.session_start(
                session_id,
                slug,
                title,
                self.repo,
                extends=extends,
                intent={**declared, **(intent or {})},
                **self.columns,
            )
        )
        self._known_until = self.store.append_rows(dated(self.store, events)).stop
        turns = again.turns if again else 0
        self.session = Session(session_id, slug, names.session_context(slug, session_id), turns, self)
        return self.session

    def end_session(self, summary: str | None = None, *, end_reason: str = "explicit") -> None:
        """Close the active session. Raises: NotFound when none is active."""
        session = self.session or self.resume()
        if session is None:
            raise NotFound(f"agent {self.agent!r} has no active session to end")
        self.store.append_rows(dated(self.store, [self._session_end(session, summary, end_reason)]))
        self.session = None
        shorten(self.store)

    def _leave_session(self, error: BaseException | None) -> None:
        """End the session at hand, if there still is one, and record the exception that left it."""
        session = self.session
        if session is None:
            return
        if error is None:
            self.end_session()
            return
        with _onto(error):
            if error is not self._recorded_error:
                payload = {"error_type": type(error).__name__, "message": str(error)}
                columns = {**self.columns, "repo": self.repo, "error_type": payload["error_type"]}
                self._append(
                    [lifecycle.timeline_event("error", session.session_id, None, payload, **columns)]
                )
            self.end_session(end_reason=FAILED)

    def append(self, events: Sequence[Event]) -> range:
        """Append events as they are; their positions. For events that no other method makes."""
        return self._append(cast("Sequence[Row]", events))

    def _append(self, events: Sequence[Row]) -> range:
        positions = self.store.append_rows(dated(self.store, events))
        if positions.start == self._known_until:
            self._known_until = positions.stop
        return positions

    def _still_open(self) -> Session | None:
        """Our session, unless another process closed it since we last read the log.

        As long as all events are our own there is nothing to search.
        """
        until = self.store.journal.next_position()
        if self.session is not None and until != self._known_until:
            for event in self.store.events(
                self._known_until,
                session_id=self.session.session_id,
                event_types=("session",),
                columns=("position", "operation"),
            ):
                if event["operation"] == "end":
                    self.session = None
                    break
            self._known_until = until
        return self.session

    def _session_end(self, session: Session, summary: str | None, end_reason: str) -> Row:
        return lifecycle.session_end(
            session.session_id,
            session.slug,
            self.repo,
            summary=summary,
            turn_count=session.turns,
            end_reason=end_reason,
            # It may be another session than the one that the agent has now.
            **{name: value for name, value in self.columns.items() if name != "agent_session_id"},
        )

    def _has_master(self) -> bool:
        return bool(
            self.store.query("select 1 from sessions_master where repo = $1 limit 1", [self.repo]).rows
        )

    def _master(self) -> Row:
        """The master's first event; its id is the same for everybody, so a race writes it once."""
        return lifecycle.sessions_master(
            self.repo,
            self.project_name,
            agent=_OWN_AGENT,
            event_id=names.event_id_of(_OWN_AGENT, "sessions", self.repo),
        )

    def _choose(self, rolled: Session | None) -> tuple[str, Session | None]:
        """The id of the session to start, and that session where it was there before.

        What continues a session is named after it, so that two processes that meet the limit at once agree.
        """
        if rolled is not None:
            return names.next_session_id(self.agent, rolled.session_id), None
        if self.agent_session_id is None or self.session is not None:
            return names.random_session_id(self.store.fs.random_bytes(8)), None
        row = sessions.latest(self.store, self.repo, self.agent, self.agent_session_id)
        if row is None:
            return names.session_id_of(self.agent, self.agent_session_id), None
        return row.session_id, self._open(row)

    # -- turns ---------------------------------------------------------------------------------

    def start_turn(
        self,
        user_message: str,
        *,
        turn: int | None = None,
        intent_summary: str | None = None,
        root: "str | os.PathLike[str] | None" = None,
        tree_hash: str | None = None,
        git: Mapping[str, Any] | None = None,
    ) -> "Turn":
        """Begin a turn: anchor, snapshot (seq 1), intent (seq 2).

        Resumes or starts the session as needed, and rolls over to a new one that extends the old
        after `turn_limit` turns.
        Args: intent_summary: what the message wants, in a line; root: the directory to capture as it is now,
        where the turn's changes begin; tree_hash: its tree, for a caller that stored it; git: `git_head`,
        `git_branch`, `git_dirty`, `git_staged`, `tracked_files` as known.
        Raises: InvalidEvent (both `root` and `tree_hash`, no tree), NotFound, and as `Store.append`.
        """
        if root is not None and tree_hash is not None:
            raise InvalidEvent("give `root`, the directory to capture, or `tree_hash`, a tree that is stored")
        shorten(self.store)  # what follows reads the tail, and others may have made it long
        session = self._still_open() or self.resume() or self.start_session(user_message)
        if turn is None and session.turns >= self.turn_limit:
            session = self.start_session(user_message, extends=[session.context_id], end_reason="rollover")
        key = self.store.fs.random_bytes(16).hex()
        handle = Turn(self, TurnRef(session.session_id, turn or 0), key, user_message)
        placed = handle.placed()
        snapshot = lifecycle.snapshot(
            session.session_id, turn, lifecycle.TURN_START, tree_hash, **dict(git or {}), **placed
        )
        summary = {"intent_summary": intent_summary}
        with nullcontext() if root is None else capture.captured(self.store, root) as captured:
            positions = self._append(
                [
                    lifecycle.turn_start(session.session_id, turn, user_message, **placed),
                    snapshot if captured is None else captured.into(snapshot),
                    lifecycle.intent(session.session_id, turn, user_message, payload=summary, **placed),
                ]
            )
        handle.tree = tree_hash if captured is None else captured.tree
        if turn is None:
            anchor = next(iter(self.store.events(positions[0], positions[0] + 1, columns=["turn"])))
            turn = int(str(anchor["turn"]))
            handle.ref = TurnRef(session.session_id, turn)
        last = max(session.turns, turn)
        self.session = Session(session.session_id, session.slug, session.context_id, last, self)
        return handle


_ENDED = (
    "turn {0} has ended: no {1} event can follow. Begin another turn with start_turn; what becomes known "
    "later of what it did goes into `Recorder.append`."
)


class Turn:
    """A turn that is being recorded. Every method appends durably before it returns.

    As a context manager it ends when it is left, as failed where an exception leaves it; with its session it
    ends, too. What has ended takes feedback, which comes when the work is done, and nothing else
    (InvalidEvent).
    """

    def __init__(self, recorder: Recorder, ref: TurnRef, key: str, user_message: str) -> None:
        self.ref = ref
        self.tree: str | None = None  # of the last snapshot
        self._ended = False
        self._recorder = recorder
        self._key = key
        self._user_message = user_message

    def __enter__(self) -> "Turn":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._has_ended():
            return
        if error is None:
            self.end()
            return
        with _onto(error):
            self.error(type(error).__name__, str(error), resolved=False)
            self._recorder._recorded_error = error
            self._end(outcome=_title(f"{type(error).__name__}: {error}"), status=FAILED)

    def event(self, event_type: str, payload: Mapping[str, Any], /, **columns: Any) -> int:
        """Append any timeline event, with any columns of the envelope; its position.

        Raises: InvalidEvent when the turn has ended, and as `Store.append`.
        """
        if event_type != "feedback":
            self._refuse_after_end(event_type)
        event = lifecycle.timeline_event(
            event_type, self.ref.session_id, self.ref.turn, payload, **{**self.placed(), **columns}
        )
        return self._recorder._append([event])[0]

    def action(
        self,
        tool: str,
        args: Mapping[str, Any],
        result: Mapping[str, Any] | None = None,
        *,
        duration_ms: int | None = None,
        success: bool | None = None,
        **columns: Unpack[AtPath],
    ) -> int:
        """A tool ran."""
        payload = {"tool": tool, "args": dict(args), "result": None if result is None else dict(result)}
        return self.event("action", payload, tool=tool, duration_ms=duration_ms, success=success, **columns)

    def decision(
        self,
        decision: str,
        reasoning: str | None = None,
        *,
        confidence: float | None = None,
        alternatives_considered: Iterable[str] = (),
        **columns: Unpack[AtPath],
    ) -> int:
        """A choice was made; `confidence` is 0…1."""
        payload = {
            "decision": decision,
            "reasoning": reasoning,
            "confidence": confidence,
            "alternatives_considered": list(alternatives_considered),
        }
        # What is cut is redacted first: half a secret is not recognised any more.
        title = _title(self._recorder.store.redactor.text(decision))
        columns.setdefault("title", title)  # what the turn's anchor lists
        return self.event("decision", payload, **columns)

    def error(
        self,
        error_type: str,
        message: str,
        *,
        resolved: bool | None = None,
        file: str | None = None,
        line: int | None = None,
        tool: str | None = None,
        command: str | None = None,
        resolution: str | None = None,
        **columns: Unpack[AtPath],
    ) -> int:
        """Something failed. A `file` outside of the repository is in the payload alone."""
        details = {"file": file, "line": line, "tool": tool, "command": command, "resolution": resolution}
        payload = {"error_type": error_type, "message": message, "resolved": resolved, **details}
        if file is not None and admission.fault("path", file) is None:
            columns.setdefault("path", file)
        return self.event("error", payload, error_type=error_type, resolved=resolved, tool=tool, **columns)

    def llm(
        self,
        model: str,
        *,
        prompt_tokens: int | None = None,
        completion_tokens: int | None = None,
        payload: Mapping[str, Any] | None = None,
        **columns: Unpack[TokenColumns],
    ) -> int:
        """A model was called; tokens as in docs/design.md §3."""
        return self.event(
            "llm",
            payload or {},
            model=model,
            prompt_tokens=prompt_tokens,
            completion_tokens=completion_tokens,
            **columns,
        )

    def feedback(self, feedback_type: str, message: str, *, sentiment: str | None = None) -> int:
        """The user approved, rejected or corrected."""
        return self.event("feedback", {"type": feedback_type, "message": message, "sentiment": sentiment})

    def file(
        self,
        path: str,
        *,
        before: bytes | None,
        after: bytes | None,
        operation: str | None = None,
        payload: Mapping[str, Any] | None = None,
        **columns: Unpack[Columns],
    ) -> int:
        """A file changed: both contents are stored, then the event that names them.

        `before` is None for a file that did not exist, `after` for one that is gone.
        """
        self._refuse_after_end("file")
        chosen = operation or ("add" if before is None else "delete" if after is None else "edit")
        store = self._recorder.store
        with store.blobs.writer() as writer:
            hashes = [None if data is None else to_text(writer.put(data)) for data in (before, after)]
            writer.flush()
            extra = {"after_size": None if after is None else len(after), **(payload or {})}
            event = lifecycle.file(
                self.ref.session_id,
                self.ref.turn,
                path,
                chosen,
                before_hash=hashes[0],
                after_hash=hashes[1],
                payload=extra,
                **{**self.placed(), **columns},
            )
            return self._recorder._append([event])[0]

    def snapshot(self, root: "str | os.PathLike[str]") -> int:
        """Capture the directory `root` as it is now, so that the turn replays byte for byte; the
        position of the event.

        As hooks do it: what git ignores is left out unless the store's settings ask for it, large and
        unreadable files are listed with the reason, contents with a secret are withheld.
        Raises: InvalidEvent (no directory, the turn has ended), Refused, NotDurable.
        """
        self._refuse_after_end("snapshot")
        if not os.path.isdir(root):
            raise InvalidEvent(
                f"snapshot takes the directory to capture, such as '.', and {os.fspath(root)!r} is none; "
                "for a tree that is stored there is snapshot_of(tree_hash)"
            )
        with capture.captured(self._recorder.store, root, self.tree) as captured:
            position = self._recorder._append([captured.into(self._snapshot(captured.tree))])[0]
        self.tree = captured.tree
        return position

    def snapshot_of(self, tree_hash: str, *, git: Mapping[str, Any] | None = None) -> int:
        """The same of a tree that is in the store: `blake3:` and 64 hex digits. `git` as for `start_turn`."""
        self._refuse_after_end("snapshot")
        position = self._recorder._append([self._snapshot(tree_hash, **dict(git or {}))])[0]
        self.tree = tree_hash
        return position

    def _snapshot(self, tree_hash: str, **facts: Any) -> Row:
        placed = self.placed()
        return lifecycle.snapshot(
            self.ref.session_id, self.ref.turn, lifecycle.TURN_END, tree_hash, **facts, **placed
        )

    def end(
        self,
        *,
        title: str | None = None,
        outcome: str | None = None,
        actions_taken: Sequence[str] = (),
        decisions: Sequence[str] = (),
        files_read: Sequence[str] = (),
        files_modified: Sequence[str] = (),
    ) -> None:
        """Complete the turn's anchor. What it counts and sums is derived from its events."""
        self._refuse_after_end("turn end")
        self._end(
            title=title,
            outcome=outcome,
            actions_taken=actions_taken,
            decisions=decisions,
            files_read=files_read,
            files_modified=files_modified,
        )

    def _end(self, *, title: str | None = None, outcome: str | None = None, **summary: Any) -> None:
        event = lifecycle.turn_end(
            self.ref.session_id,
            self.ref.turn,
            title or _title(self._recorder.store.redactor.text(self._user_message)),
            user_request=self._user_message,
            outcome=outcome,
            **summary,
            **self.placed(),
        )
        self._recorder._append([event])
        self._ended = True
        shorten(self._recorder.store)  # nobody waits for it now; the next turn would

    def _has_ended(self) -> bool:
        """Whether it was ended, or its session was, by its recorder or where that noticed it."""
        session = self._recorder.session
        return self._ended or session is None or session.session_id != self.ref.session_id

    def _refuse_after_end(self, event_type: str) -> None:
        if self._has_ended():
            raise InvalidEvent(_ENDED.format(self.ref.name, event_type))

    def placed(self) -> dict[str, Any]:
        """The envelope columns that every event of this turn carries."""
        recorder = self._recorder
        return {**recorder.columns, "repo": recorder.repo, "agent_turn_id": self._key}


@contextmanager
def _onto(error: BaseException) -> Iterator[None]:
    """What fails while an exception is recorded does not take its place: it is a note of it."""
    try:
        yield
    except (EventLogError, OSError) as failed:
        error.add_note(f"Locus could not record this: {failed}")


def _title(message: str) -> str:
    """The first line of a message, at most 80 characters."""
    line = next((line.strip() for line in message.splitlines() if line.strip()), "")
    return line if len(line) <= TITLE_SIZE_MAX else line[: TITLE_SIZE_MAX - 1] + "…"
