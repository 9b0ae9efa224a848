"""Which sessions there are: the active one of an agent, the recent ones, the one that a name means.

Reads the projection `sessions` (docs/design.md §9); holds nothing. Session ids are accepted as people
see them: `a1b2c3d4`, a unique beginning of it, `sess-a1b2c3d4`, `session:slug_a1b2c3d4`.
"""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from eventlog.base.errors import Ambiguous, NotFound
from eventlog.projections.definitions import SESSIONS_NEWEST_FIRST
from eventlog.projections.elsewhere import session_of_project
from eventlog.projections.lives import MAY_GO_ON
from eventlog.recorder.placement import SESSION_ALIAS
from eventlog.store import Store

RECENT = 10

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class SessionRow:
    """A session as its projection has it. `last_turn` is the number of its highest turn, 0 for none."""

    session_id: str
    context_id: str
    slug: str | None
    agent: str | None
    agent_session_id: str | None
    repo: str | None
    title: str | None
    status: str | None
    end_reason: str | None
    started_at: datetime | None
    ended_at: datetime | None
    turn_count: int
    last_turn: int
    summary: str | None


_COLUMNS = (
    "session_id, context_id, slug, agent, agent_session_id, repo, title, status, end_reason, started_at, "
    "ended_at, turn_count, coalesce(try_cast(last_turn as bigint), 0), summary"
)


def active(store: Store, repo: str, agent: str, agent_session_id: str | None = None) -> SessionRow | None:
    """The session that this agent has open in this repository, the one started last (S1-20, S3-32).

    With the agent's own id of a session, only that one or what continues it counts, also where it is over
    only because nothing happened in it: it goes on.
    """
    condition = "status = 'active'" if agent_session_id is None else MAY_GO_ON
    return _first(store, f"{condition} and", repo, agent, agent_session_id)


def latest(store: Store, repo: str, agent: str, agent_session_id: str) -> SessionRow | None:
    """The session that the agent calls so, open or not; after a rollover the last of them."""
    return _first(store, "", repo, agent, agent_session_id)


def recent(
    store: Store,
    *,
    agent: str | None = None,
    only_active: bool = False,
    of_project: bool = False,
    limit: int | None = RECENT,
) -> list[SessionRow]:
    """Sessions, the one that something happened in last first (S1-21). Args: of_project: none of others."""
    conditions = ["status = 'active'"] if only_active else []
    parameters: list[Any] = []
    if of_project:
        parameters.append(store.repo_hash)
        conditions.append(session_of_project("$1"))
    if agent is not None:
        parameters.append(agent)
        conditions.append(f"agent = ${len(parameters)}")
    where = f"where {' and '.join(conditions)}" if conditions else ""
    limited = "" if limit is None else f"limit {limit}"
    return _rows(store, f"{where} order by {SESSIONS_NEWEST_FIRST} {limited}", parameters)


def by_id(store: Store, session_id: str) -> SessionRow | None:
    """The session of exactly that id."""
    rows = _rows(store, "where session_id = $1", [session_id])
    return rows[0] if rows else None


def named(store: Store, name: str) -> SessionRow:
    """The session that `name` means. Raises: NotFound, Ambiguous."""
    wanted = name.strip()
    if wanted.startswith("session:"):
        wanted = wanted.rpartition("_")[2]
    wanted = wanted.lower().removeprefix(SESSION_ALIAS)
    exact = by_id(store, wanted)
    if exact is not None:
        return exact
    rows = _rows(store, "where starts_with(session_id, $1) order by session_id limit 6", [wanted])
    if not wanted or not rows:
        raise NotFound(f"no session is called {name!r}. `locus session ls --all` lists them.")
    if len(rows) > 1:
        some = ", ".join(row.session_id for row in rows[:5])
        raise Ambiguous(f"{name!r} fits several sessions: {some}. Give more of the id.")
    return rows[0]


def chain(store: Store, session_id: str) -> list[str]:
    """The ids of the parts of the conversation that a session belongs to, in order; its own where it is
    the only one (docs/session-life.md)."""
    rows = store.query(
        "select session_id, context_id, extends from sessions where (repo, agent) in "
        "(select (repo, agent) from sessions where session_id = $1 and agent <> 'git') "
        "order by first_position",
        [session_id],
    ).rows
    ids = {context_id: session for session, context_id, _ in rows}
    before = {session: next((ids[link] for link in links if link in ids), None) for session, _, links in rows}
    later_parts: dict[str, list[str]] = {}
    for session, earlier in before.items():
        later_parts.setdefault(earlier or "", []).append(session)
    chained = [session_id]
    while (earlier := before.get(chained[0])) is not None and earlier not in chained:
        chained.insert(0, earlier)
    waiting = [chained[-1]]
    while waiting:
        later = [session for session in later_parts.get(waiting.pop(0), ()) if session not in chained]
        chained += later
        waiting += later
    return chained


def parts(store: Store, name: str) -> tuple[str, ...]:
    """The ids of the session that `name` means and of all other parts of its conversation, in order; of a
    context id `session:SLUG_ID` that one alone. Raises: NotFound, Ambiguous."""
    own_id = named(store, name).session_id
    return (own_id,) if name.strip().startswith("session:") else tuple(chain(store, own_id))


def meant(store: Store, name: str) -> tuple[str, ...]:
    """The ids of the sessions that a filter names: the id, or the beginning of ids, of any part of
    conversations means all of their parts; a context id `session:SLUG_ID` that session alone. Raises:
    NotFound."""
    wanted = name.strip()
    if wanted.startswith("session:"):
        return (named(store, wanted).session_id,)
    begins = wanted.lower().removeprefix(SESSION_ALIAS)
    rows = store.query("select session_id from sessions where starts_with(session_id, $1)", [begins]).rows
    if not begins or not rows:
        raise NotFound(f"no session is called {name!r}. `locus session ls --all` lists them.")
    ids: dict[str, None] = {}
    for (session_id,) in rows:
        if session_id not in ids:
            ids |= dict.fromkeys(chain(store, session_id))
    return tuple(ids)


def microseconds_of(at: datetime | None) -> int | None:
    """A time as SQL gives it, in µs since 1970."""
    return None if at is None else (at - _EPOCH) // timedelta(microseconds=1)


def moment_of(us: int) -> datetime:
    return _EPOCH + timedelta(microseconds=us)


def _first(
    store: Store, condition: str, repo: str, agent: str, agent_session_id: str | None
) -> SessionRow | None:
    parameters = [repo, agent]
    own = ""
    if agent_session_id is not None:
        parameters.append(agent_session_id)
        own = "and agent_session_id = $3"
    rows = _rows(
        store,
        f"where {condition} repo = $1 and agent = $2 {own} order by opened_position desc limit 1",
        parameters,
    )
    return rows[0] if rows else None


def _rows(store: Store, rest: str, parameters: list[Any]) -> list[SessionRow]:
    result = store.query(f"select {_COLUMNS} from sessions {rest}", parameters)
    return [SessionRow(*row) for row in result.rows]
