"""P1 on git histories: what is replayed is what git has, for every commit, at both of its ends.

The oracle is git's own tree id, computed here from the walked tree and from the files on disk.
"""

import subprocess
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eventlog.base.types import Event
from eventlog.importers.git_history import import_git
from eventlog.importers.git_objects import EMPTY_TREE
from eventlog.replay.trees import TreeState, tree_at
from eventlog.store import Store
from tests.agents.histories import (
    EXECUTABLE,
    FILE,
    SUBMODULE_MODE,
    SYMLINK,
    History,
    git_tree_of_directory,
    git_tree_of_walk,
    line_of,
    trees_of,
)
from tests.conftest import examples

ROOT = Path(__file__).parents[2]

_NAMES = st.sampled_from(
    [b"a", b"b", b"c.txt", b"\xff", b"sp ace", b'"q"', b"\n", b"-x", b"a.b", b"a0", "é".encode()]
)
_PATHS = st.lists(_NAMES, min_size=1, max_size=3).map(b"/".join)
_TEXTS = st.integers(0, 5).map(lambda n: b"".join(b"line %d of %d\n" % (i, n % 3) for i in range(n * 4)))
_CONTENTS = st.one_of(_TEXTS, st.binary(max_size=5))
_STEPS = st.one_of(
    st.tuples(st.just("put"), _PATHS, st.sampled_from([FILE, EXECUTABLE]), _CONTENTS),
    st.tuples(
        st.just("put"), _PATHS, st.just(SYMLINK), st.sampled_from([b"a", b"../x", b"/nowhere", b"\xff"])
    ),
    st.tuples(st.just("put"), _PATHS, st.just(SUBMODULE_MODE), st.sampled_from([b"1" * 40, b"2" * 40])),
    st.tuples(st.just("move"), st.integers(0, 9), _PATHS, st.booleans()),
    st.tuples(st.just("remove"), st.integers(0, 9), st.none(), st.none()),
    st.tuples(st.just("mode"), st.integers(0, 9), st.none(), st.none()),
)
_COMMITS = st.lists(st.lists(_STEPS, max_size=6), min_size=1, max_size=6)


def _write(commits: list[list[tuple[str, object, object, object]]], path: str) -> str:
    history = History()
    for steps in commits:
        for step, what, argument, extra in steps:
            _do(history, step, what, argument, extra)
        history.commit()
    return history.write(path)


def _do(history: History, step: str, what: object, argument: object, extra: object) -> None:
    if step == "put":
        history.put(what, extra, argument)  # type: ignore[arg-type]
        return
    if not history.files:
        return
    path = sorted(history.files)[what % len(history.files)]  # type: ignore[operator]
    mode, content = history.files[path]
    if step == "mode" and mode in (FILE, EXECUTABLE):
        history.put(path, content, EXECUTABLE if mode == FILE else FILE)
    elif step != "mode":
        history.remove(path)
    if step == "move":
        more = b"one more\n" if extra and mode in (FILE, EXECUTABLE) else b""
        history.put(argument, content + more, mode)  # type: ignore[arg-type]


def _turns(store: Store) -> dict[str, list[Event]]:
    turns: dict[str, list[Event]] = {}
    for event in store.events(event_types=["turn", "snapshot", "file"]):
        turns.setdefault(str(event["agent_turn_id"]), []).append(event)
    return turns


def _git_tree(state: TreeState) -> str:
    assert state.missing == ()
    return git_tree_of_walk(state.walk(), state.blobs.get)


@pytest.mark.fast
@given(_COMMITS)
@settings(max_examples=examples(8, 500))
def test_every_tree_of_a_history_is_replayed_exactly(
    commits: list[list[tuple[str, object, object, object]]],
) -> None:
    """P1: start and end of each turn are the trees of git's commits; the last event leads to the end."""
    with TemporaryDirectory() as directory, Store.init(f"{directory}/.locus", repo_hash="0" * 12) as store:
        path = _write(commits, f"{directory}/r")
        assert import_git(store, path).missing == ()
        turns, trees = _turns(store), trees_of(path)
        before = EMPTY_TREE[40]
        for number, commit in enumerate(line_of(path)):
            events = turns[commit]
            end = tree_at(events, store.blobs, commit, "end")
            files = [str(e["event_id"]) for e in events if e["event_type"] == "file"]

            assert _git_tree(tree_at(events, store.blobs, commit, "start")) == before
            assert _git_tree(end) == trees[commit]
            if files:
                assert tree_at(events, store.blobs, commit, files[-1]).root == end.root
            report = end.materialize(f"{directory}/{number}")
            submodules = dict(report.submodules)
            assert git_tree_of_directory(f"{directory}/{number}", submodules) == trees[commit]
            before = trees[commit]


@given(_COMMITS, st.integers(1, 6))
@settings(max_examples=examples(5, 200))
def test_a_partial_history_is_replayed_exactly(
    commits: list[list[tuple[str, object, object, object]]], limit: int
) -> None:
    """P1: an import of the newest commits has their trees, and the rest can follow later."""
    with TemporaryDirectory() as directory, Store.init(f"{directory}/.locus", repo_hash="0" * 12) as store:
        path = _write(commits, f"{directory}/r")
        line, trees = line_of(path), trees_of(path)
        for wanted in (min(limit, len(line)), len(line)):
            import_git(store, path, limit=wanted)
            turns = _turns(store)
            for commit in line[-wanted:]:
                assert _git_tree(tree_at(turns[commit], store.blobs, commit)) == trees[commit]


@pytest.fixture(scope="module")
def own_history(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    if not (ROOT / ".git").exists():
        pytest.skip("this is not a checkout with its history")
    place = tmp_path_factory.mktemp("own")
    with Store.init(place / ".locus", repo_hash="0" * 12) as store:
        import_git(store, ROOT, limit=200)
        store.seal()
        yield store


def test_our_own_history_is_replayed_exactly(own_history: Store, tmp_path: Path) -> None:
    """P1: sampled commits of the repository that this file is in, walked and written to disk."""
    line, trees, turns = line_of(str(ROOT))[-200:], trees_of(str(ROOT)), _turns(own_history)
    for commit in line[:: max(1, len(line) // 10)]:
        assert _git_tree(tree_at(turns[commit], own_history.blobs, commit)) == trees[commit]
    report = own_history.replay(f"git:{line[-1]}", tmp_path / "out")

    assert git_tree_of_directory(str(tmp_path / "out"), dict(report.submodules)) == trees[line[-1]]


def test_the_oracle_agrees_with_git(tmp_path: Path) -> None:
    """The tree ids computed here are those that git computes from the same files."""
    history = History().put(b"a/b", b"1").put(b"a.b", b"2", EXECUTABLE).put(b"a0", b"a", SYMLINK).commit()
    path = history.write(str(tmp_path / "r"))
    out = tmp_path / "out"
    out.mkdir()
    archive = subprocess.run(["git", "-C", path, "archive", "HEAD"], capture_output=True, check=True)
    subprocess.run(["tar", "-xf", "-", "-C", str(out)], input=archive.stdout, check=True)

    assert git_tree_of_directory(str(out), {}) == trees_of(path)[line_of(path)[0]]
