"""`turns.undone_by` of SQL: which turns are taken back, as `locus undo` and `locus show` have it."""

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from eventlog.base import jsontext
from eventlog.base.errors import NotFound, Refused
from eventlog.projections.operations import REDO, RESTORE, UNDO, operations_in
from eventlog.store import Store
from eventlog.undo.plan import operations_of
from tests.cli.hook_support import Agent, project
from tests.conftest import examples
from tests.projections.logs import Log, event

_TURNS = 3
_UNDONE = "SELECT context_id, undone_by FROM turns WHERE undone_by IS NOT NULL"


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project after three turns, each with two files of its own."""
    place = tmp_path_factory.mktemp("template")
    work = project(place)
    agent = Agent(work)
    agent.start()
    for number in range(_TURNS):
        agent.prompt(f"Turn {number}")
        agent.write(f"a{number}.txt", "a\n")
        agent.write(f"b{number}.txt", "b\n")
        agent.stop()
    return place


def _attempt(step: Callable[[], object]) -> None:
    """Do a step, or nothing where it is refused or there is nothing to do."""
    try:
        step()
    except (NotFound, Refused):
        pass


_STEPS = st.one_of(
    st.tuples(st.sampled_from(("undo", "part")), st.integers(0, _TURNS - 1)),
    st.sampled_from((("redo", 0), ("redo", 0), ("all", 0), ("back", 0))),
)


@settings(max_examples=examples(8, 100), deadline=None)
@given(st.lists(_STEPS, min_size=1, max_size=7))
def test_sql_knows_which_turns_are_taken_back(
    template: Path, tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[str, int]]
) -> None:
    """P1: After any undos, redos and takings back of these, whole or of some paths, SQL names for each turn
    the undo that holds, as Python does; a connection that is used again too."""
    work = tmp_path_factory.mktemp("copy") / "work"
    shutil.copytree(template / "work", work, symlinks=True)
    with Store.open(work / ".locus") as store:
        names = [f"turn:{name}" for (name,) in store.query(
            "SELECT session_id || '_' || turn_id FROM turns ORDER BY turn").rows]  # fmt: skip
        ways: dict[str, Callable[[int], Any]] = {
            "undo": lambda turn: store.undo_plan(names[turn]),
            "part": lambda turn: store.undo_plan(names[turn], paths=[f"a{turn}.txt"]),
            "all": lambda _: store.undo_plan(names),
            "redo": lambda _: store.redo_plan(),
            "back": lambda _: store.undo_plan("restore"),
        }
        for kind, turn in steps:
            _attempt(lambda kind=kind, turn=turn: store.restore(ways[kind](turn)))  # type: ignore[misc]
            there = [name for i, name in enumerate(names) if not (work / f"b{i}.txt").exists()]
            undone = dict(store.query(_UNDONE).rows)
            operations = operations_of(store)
            held = {name: operations.undo_of_turn(name) for name in names}
            assert undone == {name: undo.id for name, undo in held.items() if undo is not None}
            assert undone.keys() <= set(there)
    shutil.rmtree(work)


_OPERATIONS = st.tuples(
    st.sampled_from((UNDO, UNDO, REDO, RESTORE)),
    st.lists(st.integers(1, _TURNS), max_size=3),
    st.sampled_from((None, 1, 1, 2, 3)),  # how many back the one is that it takes back, if it does
    st.booleans(),  # whether it is limited to paths
    st.sampled_from((True, True, True, False, None)),  # how it ended, if it did
)


@settings(max_examples=examples(20, 500), deadline=None)
@given(st.lists(_OPERATIONS, max_size=10), st.integers(0, 10), st.booleans())
@example([(UNDO, [1, 2], None, False, True), (REDO, [], 1, False, True), (UNDO, [], 1, False, True)], 1, True)
@example([(UNDO, [1, 2], None, False, True), (REDO, [], 1, False, True)], 0, False)
def test_any_log_of_undos_gives_sql_and_python_one_answer(
    tmp_path_factory: pytest.TempPathFactory,
    made: list[tuple[str, list[int], "int | None", bool, "bool | None"]],
    sealed: int,
    indexed: bool,
) -> None:
    """P1: An undo counts where it took place, took back the whole turn, and nothing that holds took it back:
    from segments, an index, a tail, or all of them."""
    log = Log(str(tmp_path_factory.mktemp("any") / ".locus"))
    log.append(*(
        event("turn", 900 + turn, operation="start", agent="a", session_id="s", turn=turn)
        for turn in range(1, _TURNS + 1)
    ))  # fmt: skip
    takes_back = [None if back is None or back > n else n - back for n, (_, _, back, *_) in enumerate(made)]
    for n, (kind, turns, _, limited, ended) in enumerate(made):
        payload = {
            "operation_of": kind,
            "of": [f"turn:s_{turn:03d}" for turn in turns],
            "undo_of": None if takes_back[n] is None else f"{takes_back[n]:032x}",
            "paths": ["a"] if limited else [],
        }
        log.append(event("restore", n, operation="start", agent="locus", payload=payload))
        if ended is not None:
            ids = {"cause": f"{n:032x}", "success": ended}
            log.append(event("restore", 100 + n, operation="end", agent="locus", **ids))
        if n == sealed:
            log.seal()
            if indexed:
                log.make_index()

    def holds(n: int) -> bool:
        return made[n][4] is True and not any(
            takes_back[later] == n and holds(later) for later in range(n + 1, len(made))
        )

    undos = [n for n, (kind, _, _, limited, _) in enumerate(made) if kind == UNDO and not limited]
    expected = {f"turn:s_{turn:03d}": f"{n:032x}" for n in undos if holds(n) for turn in made[n][1]}
    listed = [{**listed, "payload": jsontext.object_of(listed["payload"])} for listed in log.events()]
    operations = operations_in(listed)
    assert {name: undo.id for name, undo in operations.undone.items()} == expected
    assert dict(log.rows(_UNDONE)) == expected
    assert log.rows("SELECT undone_by FROM turns WHERE turn = 1") == [(expected.get("turn:s_001"),)]
    shutil.rmtree(log.layout.root)
