"""`undo_plan` and `undo_do` over MCP (docs/undo.md).

A plan writes nothing, and anybody may ask for one. `undo_do` carries one out where a person switched it on: a
plan of this process, of one turn of the session that calls, whole, and only as it was planned. No argument
says more than the plan, so nothing that an agent reads can widen it.
"""

import os
from collections.abc import Iterator
from dataclasses import dataclass, replace

from blake3 import blake3

from eventlog.base import config
from eventlog.base.display import lines, one_line
from eventlog.base.errors import Refused
from eventlog.base.paths import path_text
from eventlog.hooks.locate import find_captured
from eventlog.mcp.arguments import AskingSession, Paths
from eventlog.mcp.call import WriteReceipt, tool
from eventlog.mcp.read import inside
from eventlog.store import Store
from eventlog.undo.agent_turns import RECORDED_LIVE
from eventlog.undo.plan import UndoPlan

_BY_PERSON = "A person carries an undo out: `locus undo`."
# Tokens of this process, so that none can be known that undo_plan did not give here.
_KEY = os.urandom(32)
_PLANS_MAX = 16


@dataclass(frozen=True, slots=True)
class _Plan:
    """What undo_plan was asked, and the token of the plan that came of it."""

    store_id: bytes
    session: AskingSession
    turn: str
    paths: tuple[str, ...]
    token: str


_PLANS: dict[str, _Plan] = {}


def agents_may_undo(store: Store) -> bool:
    """Whether a person switched `undo_do` on."""
    return config.read(store.fs, store.layout).undo_agents


@tool("Plan an undo")
def undo_plan(
    store: Store, turn: str | None = None, scope: Paths | None = None, *, session: AskingSession | None
) -> Iterator[str]:
    """What taking back a turn would change; a person carries it out."""
    paths = [inside(store, path) for path in scope or ()]
    plan = store.undo_plan(turn, paths=paths, session=session or RECORDED_LIVE)
    assert isinstance(plan, UndoPlan), "a turn is named, or none"
    if turn is None and session is None:
        yield "Which session calls is not known here; this is the newest turn that hooks recorded.\n"
    yield f"undo of {', '.join(plan.of)}: {len(plan.steps):,} paths would change\n"
    for name, why in plan.passed_over:
        yield f"passed over {name}: {one_line(why)}\n"
    for step in plan.steps:
        how = plan.outcomes.get(step.path, "exact")
        yield f"{step.action} {_text(step.path)}{'' if how == 'exact' else f' ({how})'}\n"
    for path, why in (*plan.skipped, *plan.missing):
        yield f"left {_text(path)}: {one_line(why)}\n"
    for path, why in plan.conflicts:
        yield f"CONFLICT {_text(path)}: {one_line(why)}\n"
    names = " ".join(name.removeprefix("turn:") for name in plan.of)
    if plan.conflicts:
        yield f"Nothing can be undone whole. A person decides: `locus undo {names}` shows the lines.\n"
    elif plan.steps:
        token = _token(store, plan, paths, session)
        if token is not None:
            yield f"Where the person asks for it, undo_do carries this plan out: token {token}\n"
        yield f"Nothing was changed. A person carries it out: `locus undo {names}`.\n"


@tool("Undo a turn", writes=True, changes_files=True)
def undo_do(store: Store, token: str, *, session: AskingSession | None) -> WriteReceipt:
    """Carry out an undo_plan of a turn of your session. Only when the person asks for it."""
    if not agents_may_undo(store):
        raise Refused(f"undo_do is switched off for this store. {_BY_PERSON}")
    if session is None:
        raise Refused(f"which session calls is not known here, so nothing was undone. {_BY_PERSON}")
    asked = _PLANS.get(token)
    if asked is None:
        raise Refused(
            "undo_plan gave no such token here; nothing was undone. Call undo_plan, and pass its token."
        )
    if (asked.session, asked.store_id) != (session, store.identity.store_id):
        raise Refused(f"that plan is another session's; nothing was undone. {_BY_PERSON}")
    plan = store.undo_plan(asked.turn, paths=asked.paths)
    assert isinstance(plan, UndoPlan), "a turn is named"
    if plan.token != asked.token or plan.conflicts:
        raise Refused("a file was changed since that plan; nothing was undone. Call undo_plan again.")
    outcome = store.restore(replace(plan, notes={**plan.notes, "asked_by": list(session)}))
    del _PLANS[token]
    left = [*plan.skipped, *plan.missing, *outcome.left]
    parts = [
        f"Undone in {plan.target}: {asked.turn}, {len(plan.steps):,} paths. `locus redo` brings it back.\n",
        *(f"{step.action} {_text(step.path)}\n" for step in plan.steps),
        *(f"left {_text(path)}: {one_line(why)}\n" for path, why in left),
    ]
    text = store.redactor.text(lines("".join(parts)))  # names of files may hold a secret
    return WriteReceipt(text, outcome.event)


def _token(store: Store, plan: UndoPlan, paths: list[str], session: AskingSession | None) -> str | None:
    """The token of a plan that `undo_do` would carry out; None for any other."""
    if session is None or not agents_may_undo(store) or not _is_own(store, plan, session):
        return None
    asked = _Plan(store.identity.store_id, session, plan.of[0], tuple(paths), plan.token)
    token = blake3(repr(asked).encode(), key=_KEY).hexdigest()[:16]
    _PLANS.pop(token, None)
    _PLANS[token] = asked
    while len(_PLANS) > _PLANS_MAX:
        del _PLANS[next(iter(_PLANS))]
    return token


def _is_own(store: Store, plan: UndoPlan, session: AskingSession) -> bool:
    """Whether a plan takes back one turn, of this session of an agent, in the directory that it worked in."""
    if len(plan.of) != 1 or not plan.of[0].startswith("turn:"):
        return False
    ref = store.turn(plan.of[0])
    rows = store.query(
        "select distinct agent, agent_session_id, worktree from events "
        "where session_id = $1 and turn = $2 and event_type = 'turn'",
        [ref.session_id, ref.turn],
    ).rows
    worktree = find_captured(plan.target).worktree
    return bool(rows) and all(row == (*session, worktree) for row in map(tuple, rows))


def _text(path: bytes) -> str:
    return one_line(path_text(path))
