"""Two turns or sessions side by side: what was asked, what it took, what came of it (docs/compare.md)."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from eventlog.base.errors import NotFound
from eventlog.query.lookup import Query, TurnRef
from eventlog.replay.compare import compare

if TYPE_CHECKING:
    from eventlog.replay.trees import TreeState

# Of turns and sessions alike: name, expression over the rows of `turns` of that side. The tokens of a turn
# without a recorded model call are unknown, though its sums are 0.
_FIGURES = (
    ("turn_count", "count(*)"),
    ("model_calls", "sum(llm_calls)::BIGINT"),
    ("tool_calls", "sum(tool_calls)::BIGINT"),
    ("errors", "sum(errors)::BIGINT"),
    ("prompt_tokens", "sum(prompt_tokens) FILTER (llm_calls > 0)::BIGINT"),
    ("completion_tokens", "sum(completion_tokens) FILTER (llm_calls > 0)::BIGINT"),
    ("cost_usd", "sum(cost_usd)::DOUBLE"),
    ("unpriced_calls", "sum(unpriced_calls)::BIGINT"),
    ("duration_ms", "sum(duration_ms)::BIGINT"),
    ("unknown_durations", "count(*) - count(duration_ms)"),
    ("files", "len(list_distinct(flatten(list(files_modified))))"),
    ("commits", "len(list_distinct(flatten(list(commits_made))))"),
)


@dataclass(frozen=True, slots=True)
class ComparedSide:
    """One of the two: its turns, oldest first, what the first one asked, and figures over all of them."""

    name: str
    turns: tuple[TurnRef, ...]
    agent: str | None
    models: tuple[str, ...]
    request: str | None
    outcome: str | None
    figures: dict[str, Any]


@dataclass(frozen=True, slots=True)
class ComparedFiles:
    """Paths by what the sides did to them: both the same, one alone, or both differently.

    `began_alike` says whether both began with the same files; None where that is not known.
    """

    same: tuple[str, ...]
    only_a: tuple[str, ...]
    only_b: tuple[str, ...]
    differently: tuple[str, ...]
    began_alike: bool | None


def side_of(query: Query, name: str, turns: Sequence[TurnRef]) -> ComparedSide:
    """What the log says of some turns. Args: turns: of one session, oldest first."""
    if not turns:
        raise NotFound(f"{name} has no turns to compare")
    session, numbers = turns[0].session_id, [turn.turn for turn in turns]
    where = "session_id = $1 and list_contains($2, turn)"
    expressions = ", ".join(f"{expression} AS {name}" for name, expression in _FIGURES)
    (row,) = query(
        f"select max(agent), list_sort(list_distinct(flatten(list(models)))), {expressions} from turns "
        f"where {where}",
        [session, numbers],
    ).rows
    ((request, outcome),) = query(
        "select arg_min(coalesce(user_request, title), turn), arg_max(outcome, turn) from turns "
        f"where {where}",
        [session, numbers],
    ).rows
    figures = dict(zip((name for name, _ in _FIGURES), row[2:], strict=True))
    return ComparedSide(name, tuple(turns), row[0], tuple(row[1] or ()), request, outcome, figures)


def files_of(tree: "Callable[[TurnRef, str], TreeState]", a: ComparedSide, b: ComparedSide) -> ComparedFiles:
    """How the end states differ, path by path, over the paths that either side changed.

    Args: tree: `Store.tree`. Raises: NotFound, NoTree where a side's files are not known.
    """
    start_a, start_b = tree(a.turns[0], "start"), tree(b.turns[0], "start")
    end_a, end_b = tree(a.turns[-1], "end"), tree(b.turns[-1], "end")
    changed_a, changed_b = _paths(start_a, end_a), _paths(start_b, end_b)
    differ = _paths(end_a, end_b)
    both = changed_a & changed_b
    return ComparedFiles(
        same=tuple(sorted(both - differ)),
        only_a=tuple(sorted(changed_a - changed_b)),
        only_b=tuple(sorted(changed_b - changed_a)),
        differently=tuple(sorted(both & differ)),
        began_alike=start_a.root == start_b.root,
    )


def _paths(before: "TreeState", after: "TreeState") -> set[str]:
    """The paths that differ between two trees, under both names where they were renamed."""
    from eventlog.base.paths import path_text

    changes = compare(before, after).changes
    return {path_text(path) for change in changes for path in (change.path, change.old_path) if path}
