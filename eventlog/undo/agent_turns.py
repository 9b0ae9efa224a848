"""The turns in which agents changed files, and which of them only took back what others did (docs/undo.md).

A plain undo and a redo ask which turns there are: those of one git worktree, the newest first.
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from eventlog.base.errors import Ambiguous, NotFound
from eventlog.base.paths import path_text
from eventlog.blobs.ids import to_text
from eventlog.blobs.tree import DIRECTORY
from eventlog.checkout.directory import State
from eventlog.projections.operations import Operation, Operations
from eventlog.query.lookup import TurnRef, turns_where
from eventlog.restore.plan import readable_plan

if TYPE_CHECKING:
    from eventlog.undo.plan import UndoStore

# In place of the session that asks, where nobody knows it: turns that hooks recorded live in this work tree.
RECORDED_LIVE = "recorded live"

# A turn of these is no work of an agent.
NO_AGENTS = frozenset((None, "git", "locus", "user"))


def turns_of(store: "UndoStore", session: str) -> list[TurnRef]:
    """The turns of a session in order. Raises: NotFound, Ambiguous.

    Args: session: `SID` or its beginning, `sess-SID` or `SLUG_SID`.
    """
    begins = session.rpartition("_")[2].removeprefix("sess-")
    refs = turns_where(store.query, "where starts_with(session_id, $1) order by session_id, turn", [begins])
    if not refs:
        raise NotFound(f"no session with turns is called {session!r}. `locus session ls` lists the sessions.")
    if len({ref.session_id for ref in refs}) > 1:
        raise Ambiguous(f"{session!r} fits several sessions. Give more of the name.")
    return refs


def agent_turns(
    store: "UndoStore", session: tuple[str, str] | str | None, worktree: str | None
) -> list[TurnRef]:
    """The turns of agents that changed files, newest first; none that worked in other worktrees alone, and
    none of another project. Args: session: only of this one, or only those that are `RECORDED_LIVE`."""
    from eventlog.projections.definitions import TURNS_NEWEST_FIRST
    from eventlog.projections.elsewhere import of_project, sessions_elsewhere

    types = "('snapshot')" if session == RECORDED_LIVE else "('file', 'snapshot')"
    condition = (
        "(session_id, turn) in (select (session_id, turn) from events "
        f"where event_type in {types} and worktree is not distinct from $1) and {of_project('$2')}"
    )
    parameters: list[Any] = [worktree, sessions_elsewhere(store.query, store.repo_hash)]
    if session is not None and session != RECORDED_LIVE:
        condition += (
            " and session_id in (select session_id from events where agent = $3 and agent_session_id = $4)"
        )
        parameters += session
    agents = ", ".join(f"'{agent}'" for agent in sorted(filter(None, NO_AGENTS)))
    return turns_where(
        store.query,
        f"where agent is not null and agent not in ({agents}) and rewritten is not true and {condition} "
        "and (len(files_modified) > 0 or start_tree is distinct from end_tree) "
        f"order by {TURNS_NEWEST_FIRST}",
        parameters,
    )


def none_left(session: tuple[str, str] | str | None, passed: Sequence[tuple[str, str]]) -> NotFound:
    """The error where no turn of these is left to undo. Args: passed: those undone in part, and why."""
    which = " of this session" if session else ""
    if session == RECORDED_LIVE:  # which session asks is not known
        which = ", recorded live by hooks,"
    left = "".join(f" {name}: {why}; `locus undo {name}` shows the rest." for name, why in passed[:1])
    return NotFound(
        f"no turn{which} of an agent changed files here, or all are undone. "
        f"Name one; `locus log` lists the turns.{left}"
    )


def has_worked_since(
    store: "UndoStore", done: Operations, operation: Operation, worktree: str | None
) -> bool:
    """Whether a turn of an agent that began after an operation changed files by work of its own."""
    since = (ref for ref in agent_turns(store, None, worktree) if ref.since > operation.position)
    return any(not only_took_back(store, done, ref) for ref in since)


def only_took_back(store: "UndoStore", done: Operations, ref: TurnRef) -> bool:
    """Whether all that a turn changed was done by undos and redos that ran in it: no work of its own."""
    ran = [o for o in done.done if ref.since <= o.position and (ref.until is None or o.position < ref.until)]
    documents = [readable_plan(store.blobs, operation.plan) for operation in ran]
    steps = {
        (path_text(step.path), *map(_file_hash, (step.before, step.after)))
        for document in documents
        if document is not None
        for step in document.steps
    }
    which = {"session_id": ref.session_id, "turn": ref.turn, "event_types": ("file",)}
    columns = ("operation", "path", "before_hash", "after_hash", "payload")
    events = store.rows(ref.since, ref.until, columns=columns, **which) if steps else ()
    sides = [_sides(event) for event in events if event["operation"] != "read"]
    return bool(sides) and all(of_event <= steps for of_event in sides)


def _file_hash(state: State | None) -> str | None:
    """The content as events name it; None where there is no file: a directory has no events of its own."""
    return None if state is None or state.kind == DIRECTORY else to_text(state.id)


def _sides(event: Mapping[str, Any]) -> set[tuple[str, str | None, str | None]]:
    """A change of a file as steps of a plan say it: a rename is two of them."""
    path, before, after = event["path"], event["before_hash"], event["after_hash"]
    if event["operation"] != "rename":
        return {(path, before, after)}
    return {((event["payload"] or {}).get("old_path"), before, None), (path, None, after)}
