"""Hooks: sessions, turns and their events stored one by one, by a runtime that decides when (seed 000).

    hooks = Hooks(store, agent="script")
    hooks.bootstrap_sessions_master(store.repo_hash, "knowledge:sample_0123456789ab")
    hooks.store_session_start("fix-jwt-refresh", "a1b2c3d4", "Fix the JWT refresh bug", store.repo_hash)
    hooks.store_turn_start("a1b2c3d4", "session:fix-jwt-refresh_a1b2c3d4", 1, "Fix the JWT refresh bug")
    hooks.store_turn_event("action", "a1b2c3d4", "001", 3, EventKind.ACTION, "executor", {"tool": "bash"})

Unlike `Recorder`, a hook neither reads nor counts: the caller names session, turn and number, and what
the caller names wins. `Hooks` is fire-and-forget (S0-21): every call returns None and none raises; what
went wrong is in `.locus/tmp/hook-errors.log`. `hooks.strict` has the same calls; they give the
event's id and position when it is durable, and raise otherwise.

Writing a context again adds an event; the context's state is the fold of its events, key by key (P2,
S0-13). So ids of events are random, and a lifecycle call that is repeated changes nothing it should
not. A turn's event that is repeated because the first answer was lost counts twice, unless the caller
gives both the same `event_id` (a column, like any other that a call takes by keyword).

One thread at a time, as the store; any number of processes.
"""

import functools
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from eventlog.base import names
from eventlog.base.errors import EventLogError, InvalidEvent, NotFound
from eventlog.base.types import Event
from eventlog.blobs.ids import from_text
from eventlog.blobs.writer import BlobWriter
from eventlog.recorder import failures, lifecycle, placement, retrieval
from eventlog.recorder.older_hooks import OlderHooks
from eventlog.recorder.requests import (
    Context,
    ContextResult,
    ContextType,
    CreateEventRequest,
    EventKind,
    InsightResult,
    InsightsOptions,
    RetrieveOptions,
    TurnSummary,
)
from eventlog.secrets import admission
from eventlog.store import Store

R = TypeVar("R")

# Columns that name content. An event never names content that the store does not hold (I24).
_CONTENT_COLUMNS = ("before_hash", "after_hash", "tree_hash")


@dataclass(frozen=True, slots=True)
class Stored:
    """An event that is durable in the log."""

    event_id: str
    position: int


class _Hooks(OlderHooks[R]):
    """The calls, whatever becomes of their outcome."""

    def __init__(self, store: Store, *, agent: str, repo: str | None = None, **columns: Any) -> None:
        """`columns` are envelope columns for every event: `session_id`, `branch`, `agent_version`, …

        With a `session_id`, what is stored without a place of its own belongs to that session's current turn.
        """
        self.store = store
        self.repo = repo or store.repo_hash
        if columns.get("session_id") is not None:
            columns["session_id"] = placement.session_id_given(str(columns["session_id"]))
        self.columns = {"agent": agent, "repo": self.repo, **columns}
        self.is_of_session = columns.get("session_id") is not None

    @abstractmethod
    def _hand_over(self, event: Event) -> R:
        """Append the event."""

    # -- any event -----------------------------------------------------------------------------

    def store_event(self, request: CreateEventRequest, *, event_type: str | None = None, **columns: Any) -> R:
        """Store what a request asks for, its payload as it came.

        A context id of ours places it: `turn:SID_TID`, `action:SID_TID_SEQ`, `session:SLUG_SID`,
        `REPO:sessions`. Any other context stays as it is, outside turns unless a column says where.
        """
        event = placement.event_of(request, self.repo, event_type)
        return self._hand_over(self.columns | event | columns)

    # -- sessions ------------------------------------------------------------------------------

    def bootstrap_sessions_master(self, repo_hash: str, project_anchor: str, **columns: Any) -> R:
        """The sessions master of a repository, under its project's anchor."""
        anchor = names.sanitize_context_id(project_anchor)
        kind, _, name = anchor.partition(":")
        own = f"_{names.safe_context_name(repo_hash)}"
        named = kind == "knowledge" and name.endswith(own) and name != own
        project = name.removesuffix(own) if named else self.store.project_name
        event_columns = self._columns({"extends": [anchor] if anchor else None, **columns}, "repo")
        return self._hand_over(lifecycle.sessions_master(repo_hash, project, **event_columns))

    def store_session_start(
        self, session_slug: str, session_id: str, title: str, repo_hash: str, **columns: Any
    ) -> R:
        """A session begins. Its totals begin at zero because nothing is counted yet."""
        sid = placement.session_id_given(session_id)
        event_columns = self._columns(columns, "repo")
        return self._hand_over(lifecycle.session_start(sid, session_slug, title, repo_hash, **event_columns))

    def store_session_end(
        self,
        session_slug: str,
        session_id: str,
        summary: str,
        turn_count: int,
        totals: Mapping[str, Any] | None = None,
        **columns: Any,
    ) -> R:
        """A session ends; it still extends the master.

        The session's own totals are folds of its events; `totals` is stored as the caller's statement.
        """
        event_columns = self._columns(columns, "repo")
        event = lifecycle.session_end(
            placement.session_id_given(session_id),
            session_slug,
            str(columns.get("repo") or self.repo),
            summary=summary,
            turn_count=turn_count,
            totals=None if totals is None else dict(totals),
            **event_columns,
        )
        return self._hand_over(event)

    # -- turns ---------------------------------------------------------------------------------

    def store_turn_start(
        self, session_id: str, session_ctx: str, turn_sequence: int, user_message: str, **columns: Any
    ) -> R:
        """A turn's anchor, before its events; the message in full."""
        sid = placement.session_id_given(session_id)
        event_columns = self._under(session_ctx, columns)
        return self._hand_over(lifecycle.turn_start(sid, turn_sequence, user_message, **event_columns))

    def store_turn_end(
        self, session_id: str, session_ctx: str, turn_sequence: int, summary: TurnSummary, **columns: Any
    ) -> R:
        """The turn's anchor again, with its summary; an empty text says nothing."""
        sid = placement.session_id_given(session_id)
        event_columns = self._under(session_ctx, columns)
        stated = {name: value for name, value in summary.to_dict().items() if value != ""}
        return self._hand_over(
            lifecycle.turn_end(sid, turn_sequence, stated.pop("title", None), **stated, **event_columns)
        )

    def store_turn_event(
        self,
        event_type: str,
        session_id: str,
        turn_id: str,
        seq: int,
        event_kind: EventKind,
        source: str,
        payload: Mapping[str, Any],
        related_to: Sequence[str] | None = None,
        **columns: Any,
    ) -> R:
        """Any event of a turn, of any type; the payload as it came."""
        kind = placement.event_type_given(event_type)
        sid, turn = placement.session_id_given(session_id), placement.turn_given(turn_id)
        event_columns = {
            **placement.promoted(kind, payload),
            "event_kind": placement.kind_given(event_kind),
            "source": source,
            "related_to": placement.links_given(None if related_to is None else tuple(related_to)),
            **_named(kind, sid, turn, seq),
            **columns,
        }
        event = lifecycle.timeline_event(kind, sid, turn, {}, **self._columns(event_columns))
        event["payload"] = dict(payload)
        return self._hand_over(event)

    def store_snapshot(
        self,
        session_id: str,
        turn_id: str,
        seq: int,
        git_head: str | None,
        git_branch: str | None,
        git_dirty: Sequence[str] | None,
        git_staged: Sequence[str] | None,
        snapshot_type: str,
        *,
        tree_hash: str | None = None,
        **columns: Any,
    ) -> R:
        """The code base at a turn's boundary, as git says; a tree if there is one."""
        if snapshot_type not in (lifecycle.TURN_START, lifecycle.TURN_END):
            raise InvalidEvent(f"snapshot_type is 'turn_start' or 'turn_end', not {snapshot_type!r}")
        sid, turn = placement.session_id_given(session_id), placement.turn_given(turn_id)
        event_columns = {
            "commit": git_head or None,
            "branch": git_branch or None,
            **_named("snapshot", sid, turn, seq),
            **columns,
        }
        event = lifecycle.snapshot(
            sid,
            turn,
            snapshot_type,
            tree_hash,
            git_head=git_head,
            git_branch=git_branch,
            git_dirty=git_dirty,
            git_staged=git_staged,
            **self._columns(event_columns),
        )
        return self._hand_over(event)

    def _under(self, session_ctx: str, columns: Mapping[str, Any]) -> dict[str, Any]:
        """The columns of an anchor that extends its session."""
        return self._columns({"extends": placement.links_given([session_ctx]) or None, **columns})

    def _columns(self, own: Mapping[str, Any], *named: str) -> dict[str, Any]:
        """An event's columns but for those that its builder takes as arguments: session, turn, `named`."""
        builders_own = (*named, "session_id", "turn")
        return {name: value for name, value in {**self.columns, **own}.items() if name not in builders_own}

    # -- reading -------------------------------------------------------------------------------

    def retrieve_memories(self, query: str, options: RetrieveOptions | None = None) -> ContextResult:
        """What the log holds on a query; `retrieval.find` says how. Raises: EventLogError."""
        return retrieval.retrieve_memories(self.store, query, options)

    def generate_insights(self, task: str, options: InsightsOptions | None = None) -> InsightResult:
        """Decisions, errors and outcomes that bear on a task, with their events. Raises: EventLogError."""
        return retrieval.generate_insights(self.store, task, options)

    def list_context_types(self, page: int = 0, page_size: int = 100) -> list[ContextType]:
        """The types of contexts and how many contexts each has. Raises: EventLogError."""
        return retrieval.list_context_types(self.store, page, page_size)

    def search_contexts(
        self, query: str, context_type: str | None = None, page: int = 0, page_size: int = 100
    ) -> list[Context]:
        """Contexts whose id holds the text. Raises: EventLogError."""
        return retrieval.search_contexts(self.store, query, context_type, page, page_size)


class StrictHooks(_Hooks[Stored]):
    """Hooks whose calls give the durable event, and raise when there is none.

    Raises, every call: InvalidEvent, NotDurable, LockTimeout, Corruption.
    """

    def _hand_over(self, event: Event) -> Stored:
        return append(self.store, event)


class Hooks(_Hooks[None]):
    """Hooks that never hurt their caller: no result, no exception."""

    def __init__(self, store: Store, *, agent: str, repo: str | None = None, **columns: Any) -> None:
        super().__init__(store, agent=agent, repo=repo, **columns)
        self.strict = StrictHooks(store, agent=agent, repo=repo, **columns)

    def _hand_over(self, event: Event) -> None:
        append(self.store, admission.fitted(event))

    def retrieve_memories(self, query: str, options: RetrieveOptions | None = None) -> ContextResult:
        """As `strict.retrieve_memories`; when the search fails, an empty result that says so."""
        try:
            return super().retrieve_memories(query, options)
        except (EventLogError, OSError) as error:
            failures.note(self.store.fs, self.store.layout, "retrieve_memories", error)
            return ContextResult("", 0, degraded=True)


def _forgetting(name: str, method: Callable[..., None]) -> Callable[..., None]:
    """The method, with its failures noted instead of raised (S0-21)."""

    @functools.wraps(method)
    def call(self: Hooks, *arguments: Any, **named: Any) -> None:
        try:
            method(self, *arguments, **named)
        except Exception as error:
            failures.note(self.store.fs, self.store.layout, name, error)

    return call


for _name in dir(Hooks):
    if _name.startswith(("store_", "bootstrap_")):
        setattr(Hooks, _name, _forgetting(_name, getattr(Hooks, _name)))


def append(store: Store, event: Event) -> Stored:
    """Append one event; of the contents that it names, those that the store holds stay named.

    An event with neither session nor context gets a context of its own.
    """
    event = placement.dated(store, [{"event_id": store.fs.random_bytes(16).hex(), **event}])[0]
    if all(event.get(name) is None for name in ("session_id", "agent_session_id", "context_id")):
        event["context_id"] = names.context_of_event(str(event["event_type"]), str(event["event_id"]))
    if not any(event.get(column) is not None for column in _CONTENT_COLUMNS):
        position = store.append_rows([event])[0]
    else:
        with store.blobs.writer() as writer:  # garbage collection waits until the event is durable
            held = _held(store, writer, event)
            writer.flush()
            position = store.append_rows([held])[0]
    return Stored(str(event["event_id"]), position)


def _held(store: Store, writer: BlobWriter, event: Event) -> Event:
    """The event with `blobs` for what the store holds, without columns for what it does not.

    A hash of another algorithm stays what it is. What a column loses is still in the payload.
    """
    held = {name: value for name, value in event.items() if name != "blobs"}
    blobs = []
    for column in _CONTENT_COLUMNS:
        text = held.get(column)
        try:
            id = from_text(str(text))
        except InvalidEvent:
            continue
        try:
            data = store.blobs.get(id)
        except NotFound:
            del held[column]
            continue
        # Stored again where only a condemned copy is left; else this finds the one that is there.
        _ = writer.put_encoded_tree(data) if column == "tree_hash" else writer.put(data)
        blobs.append(str(text))
    return {**held, "blobs": blobs} if blobs else held


def _named(event_type: str, session_id: str, turn: int, seq: int) -> dict[str, Any]:
    """Number and name of a turn's event as its caller gave them."""
    return {
        "seq": seq,
        "context_id": names.event_context(event_type, session_id, turn, seq),
        "extends": [names.turn_context(session_id, turn)],
    }
