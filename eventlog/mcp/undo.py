"""`undo_plan` over MCP: what taking a turn back would change. Nothing here writes (docs/undo.md)."""

from collections.abc import Iterator

from eventlog.base.display import one_line
from eventlog.base.paths import path_text
from eventlog.mcp.call import tool
from eventlog.mcp.read import inside
from eventlog.mcp.tools import Paths
from eventlog.store import Store
from eventlog.undo.plan import UndoPlan


@tool("Plan an undo")
def undo_plan(store: Store, turn: str | None = None, scope: Paths | None = None) -> Iterator[str]:
    """What taking back a turn would change; a person carries it out."""
    plan = store.undo_plan(turn, paths=[inside(store, path) for path in scope or ()])
    assert isinstance(plan, UndoPlan), "a turn is named, or none"
    yield f"undo of {', '.join(plan.of)}: {len(plan.steps):,} paths would change\n"
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
        yield f"Nothing was changed. A person carries it out: `locus undo {names}`.\n"


def _text(path: bytes) -> str:
    return one_line(path_text(path))
