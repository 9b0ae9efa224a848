"""The line by which a session learns at its next prompt what a person took back (docs/undo.md).

It is left where a person asks for it, for each session whose turns were taken back or brought back, and the
hook of its next prompt prints it (`hooks/notices.py`).
"""

from dataclasses import dataclass

from eventlog.base.paths import path_text
from eventlog.blobs.tree import DIRECTORY
from eventlog.hooks import notices
from eventlog.memory.evidence import quoted
from eventlog.projections.operations import UNDO, Operations
from eventlog.store import Store
from eventlog.undo.plan import UndoPlan, operations_of

_NAMES_SHOWN = 8


@dataclass(frozen=True, slots=True)
class NoticedSession:
    """A session that an undo or redo is about. `reads`: its agent reads a line at a prompt."""

    agent: str
    session: str
    reads: bool


def leave_notices(store: Store, plan: UndoPlan, event: str) -> list[NoticedSession]:
    """Leave the line for the sessions of a plan that was carried out; these sessions.

    Args: event: the start event of the undo or redo.
    Raises: OSError.
    """
    done = operations_of(store)
    undone = None if plan.undo_of is None else done.named(plan.undo_of)
    verb = "brought back" if undone is not None and undone.kind == UNDO else "took back"
    noticed = []
    for (agent, session), names in _names_by_session(store, done, plan.of).items():
        reads = notices.prompt_event(agent) is not None
        noticed.append(NoticedSession(agent, session, reads))
        if undone is not None and notices.withdraw(store.fs, store.layout, session, undone.id):
            continue  # it never knew
        if reads:
            text = (
                f"[Locus] The person {verb} what {', '.join(names)} changed: {_paths(store, plan)}. "
                "Read these files again before you change them."
            )
            notices.leave(store.fs, store.layout, agent, session, event, text)
    return noticed


def _names_by_session(
    store: Store, done: Operations, names: tuple[str, ...]
) -> dict[tuple[str, str], list[str]]:
    """The names of turns and events by the session of an agent that they belong to."""
    by_session: dict[tuple[str, str], list[str]] = {}
    for name in names:
        kind, _, id = name.partition(":")
        operation = done.named(id) if kind == "event" else None
        if operation is not None:
            for key, within in _names_by_session(store, done, operation.of).items():
                by_session.setdefault(key, []).extend(within)
            continue
        if kind == "turn":
            ref = store.turn(name)
            condition, parameters = "session_id = $1 and turn = $2", [ref.session_id, ref.turn]
        else:
            condition, parameters = "event_id = $1", [id]
        rows = store.query(
            f"select distinct agent, agent_session_id from events where {condition} "
            "and agent is not null and agent_session_id is not null",
            parameters,
        ).rows
        for agent, session in rows:
            by_session.setdefault((str(agent), str(session)), []).append(name)
    return by_session


def _paths(store: Store, plan: UndoPlan) -> str:
    """The paths that were changed, quoted as data: a name may hold anything."""
    changed = [
        step.path
        for step in plan.steps
        if not any(state is not None and state.kind == DIRECTORY for state in (step.before, step.after))
    ]
    shown = [quoted(store.redactor.text(path_text(path))) for path in changed[:_NAMES_SHOWN]]
    more = len(changed) - len(shown)
    return ", ".join(shown) + (f" and {more:,} more" if more else "")
