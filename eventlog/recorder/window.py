"""What a model is shown before it works: the context block and the order of the window (S1-25…S1-27).

Two ways to read (S1-2). A block holds summaries: what the project is, what the session is for, the last
turns, what bears on the message; which of these depends on the situation (S1-54). The look-back
functions give the detail when it is asked for (S1-55). Every line cites the event that it stands on.

Pure reading; nothing here writes, and nothing is made up: what is unknown is left out.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from eventlog import names
from eventlog.event import Event
from eventlog.query.lookup import TurnRef
from eventlog.recorder import retrieval
from eventlog.recorder.placement import session_id_given
from eventlog.recorder.requests import ContextTypeFilter, Memory, RetrieveOptions
from eventlog.store import Store

RECENT_TURNS = 5  # S1-27: the last three to five
RELEVANT = 10  # S1-25
PROJECT_FACTS = 20

# S1-55: how far a look back goes where the caller does not say.
TIMELINE_LIMIT, DECISIONS_LIMIT, FILE_HISTORY_LIMIT = 50, 20, 20


class Situation(StrEnum):
    """When a window is built; it decides what goes in (S1-54)."""

    NEW_TURN = "new_turn"  # the session, its last turns, what is relevant
    RESUME = "resume"  # the session, its very last turn, what is relevant
    NEW_SESSION = "new_session"  # the project, what is relevant in any session


@dataclass(frozen=True, slots=True)
class Section:
    """One part of the window. `name` is one of `SECTIONS`."""

    name: str
    text: str


# The order of the window (S1-27).
SECTIONS = ("system_prompt", "project", "session_goal", "recent_turns", "relevant", "current_input")


@dataclass(frozen=True, slots=True)
class ContextBlock:
    """What the log has to say on a message (S1-26). Turns are in order, memories the most relevant first."""

    situation: Situation
    project: tuple[str, ...]
    session_goal: str | None
    recent_turns: tuple[Memory, ...]
    relevant: tuple[Memory, ...]
    current_input: str

    def sections(self, system_prompt: str = "") -> tuple[Section, ...]:
        """The window from top to bottom; a part with nothing in it is left out (S1-27)."""
        texts = (
            system_prompt,
            "\n".join(self.project),
            self.session_goal or "",
            "\n".join(map(retrieval.cited, self.recent_turns)),
            "\n".join(map(retrieval.cited, self.relevant)),
            self.current_input,
        )
        return tuple(Section(name, text) for name, text in zip(SECTIONS, texts, strict=True) if text)

    def event_ids(self) -> tuple[str, ...]:
        """The events that the turns and memories stand on."""
        return tuple(memory.event_id for memory in (*self.recent_turns, *self.relevant))


def context_block(
    store: Store,
    current_input: str,
    *,
    session_id: str | None = None,
    situation: Situation | None = None,
    recent_turns: int = RECENT_TURNS,
    relevant: int = RELEVANT,
) -> ContextBlock:
    """The block for a message (S1-25, S1-26); without a session it is that of a new one.

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
    goal = None if session_id is None else _goal(store, session_id)
    seen = {memory.context_id for memory in turns}
    return ContextBlock(
        situation,
        project_knowledge(store),
        goal,
        turns,
        _relevant(store, current_input, relevant, seen, session_id, own),
        current_input,
    )


def project_knowledge(store: Store) -> tuple[str, ...]:
    """What is known of the project: its name, how much is recorded, what is kept under its anchor."""
    counted = store.query(
        "select total_sessions, total_turns from sessions_master where repo = $1", [store.repo_hash]
    ).rows
    sessions, turns = counted[0] if counted else (0, 0)
    head = (
        f"{store.project_name} (repository {store.repo_hash}): {sessions} sessions, {turns} turns recorded."
    )
    return (head, *map(retrieval.cited, project_facts(store)))


def project_facts(store: Store) -> list[Memory]:
    """What is kept under the project's anchor, and its conventions."""
    anchor = names.project_context(store.project_name, store.repo_hash)
    facts = retrieval.find(store, "", RetrieveOptions(1, (anchor,)))
    facts += retrieval.find(store, "", RetrieveOptions(PROJECT_FACTS, extends=anchor))
    conventions = {"fact": ContextTypeFilter((f"project_{store.repo_hash}", f"project_{store.project_name}"))}
    facts += retrieval.find(store, "", RetrieveOptions(PROJECT_FACTS, context_types=conventions))
    own = names.sessions_context(store.repo_hash)
    return [fact for fact in facts if fact.context_id != own]


# -- look back --------------------------------------------------------------------------------------


def turn_timeline(store: Store, turn: "TurnRef | str", limit: int = TIMELINE_LIMIT) -> list[Event]:
    """What happened in a turn, in order, in full (S1-55). Raises: NotFound."""
    return store.timeline(turn)[:limit]


def decisions(store: Store, query: str = "", limit: int = DECISIONS_LIMIT) -> list[Memory]:
    """What was decided, in any session (S1-55): the newest, or what holds the query's words."""
    return retrieval.find(store, query, RetrieveOptions(limit, context_types=_of("decision")))


def errors(store: Store, query: str = "", limit: int = DECISIONS_LIMIT) -> list[Memory]:
    """What failed, in any session (S1-56), in turns or told by an older hook."""
    return retrieval.find(store, query, RetrieveOptions(limit, context_types=_of("error", "observation")))


def file_history(store: Store, path: str, limit: int = FILE_HISTORY_LIMIT) -> list[Event]:
    """Every change of one file, in any session, the newest first (S1-55)."""
    rows = store.query(
        f"select position from events where event_type = 'file' and path = $1 "
        f"order by position desc limit {max(0, limit)}",
        [path],
    ).rows
    return [event for (position,) in rows for event in store.events(position, position + 1)]


# -- parts of the block -----------------------------------------------------------------------------


def _turn_of(store: Store, session_id: str, message: str) -> int | None:
    """The active turn that this message began, if it has begun."""
    rows = store.query(
        "select turn, status, user_request from turns where session_id = $1 order by turn desc limit 1",
        [session_id],
    ).rows
    return rows[0][0] if rows and rows[0][1] == "active" and rows[0][2] == message else None


def _last_turns(store: Store, session_id: str, without: int | None, count: int) -> tuple[Memory, ...]:
    found = store.query(
        "select turn, context_id, title, user_request, outcome, decisions, files_modified, last_position, "
        "epoch_us(coalesce(completed_at, started_at)) as happened from turns "
        f"where session_id = $1 and turn is distinct from $2 order by turn desc limit {max(0, count)}",
        [session_id, without],
    )
    turns = [dict(zip(found.columns, row, strict=True)) for row in found.rows]
    said = _last_words(store, [turn["context_id"] for turn in turns])
    return tuple(
        Memory(
            turn["context_id"],
            said[turn["context_id"]][0],
            "turn",
            said[turn["context_id"]][1],
            turn["happened"],
            retrieval.turn_text(turn),
        )
        for turn in reversed(turns)
        if turn["context_id"] in said
    )


def _last_words(store: Store, context_ids: Sequence[str]) -> dict[str, tuple[str, int]]:
    """Of each context the event that wrote it last."""
    if not context_ids:
        return {}
    rows = store.query(
        "select context_id, arg_max(event_id, position), max(position) from events "
        "where list_contains($1, context_id) group by context_id",
        [list(context_ids)],
    ).rows
    return {context_id: (event_id, position) for context_id, event_id, position in rows}


def _goal(store: Store, session_id: str) -> str | None:
    found = store.query(
        "select context_id, title, summary, turn_count from sessions where session_id = $1", [session_id]
    )
    if not found.rows:
        return None
    session = dict(zip(found.columns, found.rows[0], strict=True))
    return f"[{session['context_id']}] {retrieval.session_text(session)}".rstrip()


def _relevant(
    store: Store, message: str, count: int, seen: set[str | None], session_id: str | None, own: int | None
) -> tuple[Memory, ...]:
    """What bears on the message, of any session, but for what the block shows anyway."""
    mine = None if session_id is None or own is None else TurnRef(session_id, own).name
    found = retrieval.find(store, message, RetrieveOptions(count + len(seen) + _OWN_EVENTS))
    kept = (
        memory
        for memory in found
        if memory.context_id not in seen
        and not (
            memory.event_type == "session" and memory.context_id and _ends(memory.context_id, session_id)
        )
        and not (mine is not None and memory.context_id and mine in memory.context_id)
    )
    return tuple(kept)[:count]


# How many events of the turn that begins may come before what is older: its anchor, its intent.
_OWN_EVENTS = 4


def _ends(context_id: str, session_id: str | None) -> bool:
    return session_id is not None and context_id.endswith(f"_{session_id}")


def _of(*types: str) -> dict[str, ContextTypeFilter]:
    return {kind: ContextTypeFilter() for kind in types}
