"""What a model is shown before it works: the context block of a message (S1-25…S1-27).

A block holds summaries: what the project is, what the session is for, the last turns, what bears on the
message; which of these depends on the situation (S1-54). Every memory names the event that it comes from.
Nothing is made up: what is unknown is left out. Writes nothing but the search index, and that where it may.
"""

from dataclasses import dataclass
from enum import StrEnum

from eventlog.base import names
from eventlog.memory.retrieved import Retrieved, retrieve
from eventlog.projections.elsewhere import totals
from eventlog.query.lookup import TurnRef
from eventlog.recorder import retrieval
from eventlog.recorder.placement import session_id_given
from eventlog.recorder.requests import ContextTypeFilter, Memory, RetrieveOptions
from eventlog.store import Store

RECENT_TURNS = 5  # S1-27: the last three to five
RELEVANT = 10  # S1-25
PROJECT_FACTS = 20
# How many memories of the turn that begins may come before what is older: its anchor, its session.
_OWN = 4


class Situation(StrEnum):
    """When a window is built; it decides what goes in."""

    NEW_TURN = "new_turn"  # the session, its last turns, what is relevant
    RESUME = "resume"  # the session, its very last turn, what is relevant
    NEW_SESSION = "new_session"  # the project, what is relevant in any session


@dataclass(frozen=True, slots=True)
class ContextBlock:
    """What the log has to say on a message. Turns are in order, memories the most relevant first."""

    situation: Situation
    project: str
    knowledge: tuple[Memory, ...]
    session_goal: str | None
    recent_turns: tuple[Memory, ...]
    relevant: tuple[Retrieved, ...]
    current_input: str


def context_block(
    store: Store,
    current_input: str,
    *,
    session_id: str | None = None,
    situation: Situation | None = None,
    recent_turns: int = RECENT_TURNS,
    relevant: int = RELEVANT,
    writes: bool = True,
) -> ContextBlock:
    """The block for a message; without a session it is that of a new one.

    A turn that has begun with this very message is left out: it is what the window is built for.
    """
    if situation is None:
        situation = Situation.NEW_SESSION if session_id is None else Situation.NEW_TURN
    session_id = (
        None if session_id is None or situation == Situation.NEW_SESSION else session_id_given(session_id)
    )
    own = None if session_id is None else _turn_of(store, session_id, current_input)
    count = 1 if situation == Situation.RESUME else recent_turns
    turns = () if session_id is None else _last_turns(store, session_id, own, count)
    shown = {memory.context_id for memory in turns}
    if session_id is not None and own is not None:
        shown.add(f"turn:{TurnRef(session_id, own).name}")
    hits = retrieve(store, current_input, relevant + len(shown) + _OWN, writes=writes)
    unshown = [
        hit
        for hit in hits
        if hit.memory.context_id not in shown
        and (session_id is None or not (hit.memory.context_id or "").endswith(f"_{session_id}"))
    ]
    recorded = "{} sessions, {} turns recorded".format(*totals(store.query, store.repo_hash))
    project = f"{store.project_name} (repository {store.repo_hash}): {recorded}"
    goal = None if session_id is None else _goal(store, session_id)
    knowledge = tuple(project_facts(store))
    return ContextBlock(situation, project, knowledge, goal, turns, tuple(unshown[:relevant]), current_input)


def project_facts(store: Store) -> list[Memory]:
    """What is recorded under the project's anchor, and its conventions."""
    anchor = names.project_context(store.project_name, store.repo_hash)
    facts = retrieval.find(store, "", RetrieveOptions(1, (anchor,)))
    facts += retrieval.find(store, "", RetrieveOptions(PROJECT_FACTS, extends=anchor))
    conventions = {"fact": ContextTypeFilter((f"project_{store.repo_hash}", f"project_{store.project_name}"))}
    facts += retrieval.find(store, "", RetrieveOptions(PROJECT_FACTS, context_types=conventions))
    own = names.sessions_context(store.repo_hash)
    return [fact for fact in facts if fact.context_id != own]


def _turn_of(store: Store, session_id: str, message: str) -> int | None:
    """The active turn that this message began, if it has begun."""
    rows = store.query(
        "select turn, status, user_request from turns where session_id = $1 order by turn desc limit 1",
        [session_id],
    ).rows
    return rows[0][0] if rows and rows[0][1] == "active" and rows[0][2] == message else None


def _last_turns(store: Store, session_id: str, without: int | None, count: int) -> tuple[Memory, ...]:
    """Each as its anchor says now, by the event that wrote the anchor last."""
    last = (
        "select context_id from turns where session_id = $1 and turn is distinct from $2 "
        f"order by turn desc limit {max(0, count)}"
    )
    rows = store.query(
        "select max(position) from events where event_type = 'turn' and context_id in "
        f"({last}) group by context_id",
        [session_id, without],
    ).rows
    return tuple(retrieval.memories_at(store, [position for (position,) in rows]))


def _goal(store: Store, session_id: str) -> str | None:
    result = store.query("select title, summary from sessions where session_id = $1", [session_id])
    rows = [dict(zip(result.columns, row, strict=True)) for row in result.rows]
    return retrieval.session_text(rows[0]) or None if rows else None
