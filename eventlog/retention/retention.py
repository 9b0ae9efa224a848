"""Which sessions' contents may go: pins, archived sessions, and rules (docs/maintenance.md §4).

Each decision is an event of type `retention`, which belongs to no session; `log/retained.py` is the fold. A
session that is active, pinned or has a pinned turn is never released. Any number of processes may release at
once: those that decide the same from the same state write the same event (I8).
"""

from collections.abc import Iterable
from dataclasses import dataclass

from eventlog.base import config
from eventlog.base.errors import Conflict, LockTimeout, Refused
from eventlog.base.locks import GC, Lock, acquire
from eventlog.base.names import event_id_of, turn_id_of
from eventlog.base.types import Event
from eventlog.log.retained import HOLD, PIN, RELEASE, RETENTION, UNPIN, Retention, retention_in
from eventlog.projections.lives import MAY_GO_ON
from eventlog.query.lookup import TurnRef
from eventlog.recorder import sessions
from eventlog.store import Store

ARCHIVED = "archived"
_TRIES_MAX = 50
MAX_AGE, MAX_SESSIONS, MAX_BYTES = "max_age_days", "max_sessions", "max_bytes"

# An agent that was killed leaves its session active for good; a session without events for so long is not
# under way any more. A git history goes on with the next commit.
_LEFT_AFTER_S = 7 * 24 * 3600
_DAY_US = 24 * 3600 * 1_000_000

_SESSIONS = f"""
    select s.session_id, s.goes_on, s.agent, s.title, s.turn_count,
        epoch_us(coalesce(e.recorded_at, e.occurred_at))
    from (select *, {MAY_GO_ON} as goes_on from sessions) s
    join events e on e.position = s.last_position order by s.last_position
"""


@dataclass(frozen=True, slots=True)
class SessionState:
    """A session as the rules see it. `last_at` is when its last event was recorded, in µs if known."""

    session_id: str
    title: str | None
    turns: int
    last_at: int | None
    active: bool


@dataclass(frozen=True, slots=True)
class ReleaseCandidate:
    """A session that a rule releases."""

    session_id: str
    rule: str


def pin(store: Store, target: "TurnRef | str", *, undo: bool = False, lock_timeout_s: float = 10.0) -> bool:
    """Keep the contents of a session (its id) or of a turn, whatever the rules; whether that is new.

    Raises: LockTimeout during a collection.
    """
    session, turn = (target.session_id, target.turn) if isinstance(target, TurnRef) else (target, None)
    with _no_collection(store, lock_timeout_s):
        retained = _retained(store)
        is_pinned = session in retained.pinned if turn is None else (session, turn) in retained.pinned_turns
        if is_pinned is not undo:
            return False
        store.append_rows([_event(retained, UNPIN if undo else PIN, session, turn)])
        return True


def archive(
    store: Store,
    session_id: str,
    *,
    reason: str | None = None,
    undo: bool = False,
    lock_timeout_s: float = 10.0,
) -> bool:
    """Release a session now, or with `undo` hold it again; whether that changed anything.

    Raises: Refused for a session that is active, pinned, or has a pinned turn; LockTimeout as `pin`.
    """
    with _no_collection(store, lock_timeout_s):
        retained = _retained(store)
        if (session_id in retained.released) is not undo:
            return False
        if not undo:
            _refuse_kept(store, retained, session_id)
        operation = HOLD if undo else RELEASE
        store.append_rows([_event(retained, operation, session_id, None, rule=ARCHIVED, reason=reason)])
        return True


def release_all(store: Store, candidates: Iterable[ReleaseCandidate]) -> list[str]:
    """Release the sessions that rules chose; the ids of those that were not by now.

    Raises: Refused when one was pinned meanwhile; none is released then.
    """
    chosen = list(candidates)
    for _ in range(_TRIES_MAX):
        with store.view() as view:
            retained, end = retention_in(view), view.next_position
        pinned = next(
            (candidate.session_id for candidate in chosen if candidate.session_id in retained.held), None
        )
        if pinned is not None:
            raise Refused(
                f"session {pinned} was pinned since this plan was made; nothing was done. Plan again."
            )
        new = [candidate for candidate in chosen if candidate.session_id not in retained.released]
        events = [
            _event(retained, RELEASE, candidate.session_id, None, rule=candidate.rule) for candidate in new
        ]
        try:
            if events:
                # A pin that comes between must not be overruled.
                store.append_rows(events, expect_position=end)
            return [candidate.session_id for candidate in new]
        except Conflict:
            continue
    raise LockTimeout("others append without a pause, so nothing was released; try again")


def candidates(store: Store, retained: Retention) -> list[ReleaseCandidate]:
    """The sessions that the rules of age and number release now; none without such rules."""
    settings = config.read(store.fs, store.layout)
    if settings.max_age_days is None and settings.max_sessions is None:
        return []
    candidates: dict[str, ReleaseCandidate] = {}
    unreleased = [state for state in states(store) if state.session_id not in retained.released]
    free = [state for state in unreleased if _is_free(state, retained)]
    if settings.max_age_days is not None:
        oldest = store.fs.time_ns() // 1000 - settings.max_age_days * _DAY_US
        for state in free:
            if state.last_at is not None and state.last_at < oldest:
                candidates[state.session_id] = ReleaseCandidate(state.session_id, MAX_AGE)
    if settings.max_sessions is not None:
        too_many = {
            state.session_id for state in unreleased[: max(0, len(unreleased) - settings.max_sessions)]
        }
        for state in free:
            if state.session_id in too_many:
                candidates.setdefault(state.session_id, ReleaseCandidate(state.session_id, MAX_SESSIONS))
    return list(candidates.values())


def releasable(store: Store, retained: Retention) -> list[str]:
    """The sessions that a rule may release, oldest first."""
    return [
        state.session_id
        for state in states(store)
        if state.session_id not in retained.released and _is_free(state, retained)
    ]


def states(store: Store) -> list[SessionState]:
    """All sessions, in the order of their last events."""
    now = store.fs.time_ns() // 1000
    states_ = []
    for session_id, goes_on, agent, title, turns, last_at in store.query(_SESSIONS).rows:
        is_left = last_at is not None and now - last_at > _LEFT_AFTER_S * 1_000_000 and agent != "git"
        states_.append(SessionState(session_id, title, turns, last_at, bool(goes_on) and not is_left))
    return states_


def _retained(store: Store) -> Retention:
    with store.view() as view:
        return retention_in(view)


def _no_collection(store: Store, timeout_s: float) -> Lock:
    """While it is held nothing is condemned or unlinked: a caller that keeps a session relies on it."""
    return acquire(store.fs, store.layout, GC, exclusive=False, timeout_s=timeout_s)


def _is_free(state: SessionState, retained: Retention) -> bool:
    return not state.active and state.session_id not in retained.held


def _refuse_kept(store: Store, retained: Retention, session_id: str) -> None:
    if session_id in retained.pinned:
        raise Refused(f"session {session_id} is pinned; `locus store unpin {session_id}` first")
    turns = sorted(turn for session, turn in retained.pinned_turns if session == session_id)
    if turns:
        name = f"{session_id}_{turn_id_of(turns[0])}"
        raise Refused(f"turn {name} is pinned, so its session stays; `locus store unpin {name}` first")
    row = sessions.by_id(store, session_id)
    state = next((state for state in states(store) if state.session_id == session_id), None)
    if row is not None and state is not None and state.active:
        raise Refused(f"session {session_id} is active. `locus session end` ends it; then it can be archived")


def _event(
    retained: Retention,
    operation: str,
    session: str,
    turn: int | None,
    *,
    rule: str | None = None,
    reason: str | None = None,
) -> Event:
    """An event whose id depends on the one before, so that two equal decisions at once are one event."""
    last_position = retained.last.get((session, turn), -1)
    name = session if turn is None else f"{session}_{turn_id_of(turn)}"
    return {
        "event_id": event_id_of("locus", RETENTION, operation, name, str(last_position)),
        "event_type": RETENTION,
        "event_kind": "fact",
        "source": "user" if rule in (None, ARCHIVED) else "system",
        "agent": "locus",
        "operation": operation,
        "title": name,
        "payload": {"session_id": session, "turn": turn, "rule": rule, "reason": reason},
    }
