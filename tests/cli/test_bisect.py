"""`locus bisect`: a planted break is found, in a directory that equals a full replay at each step."""

import json
import math
import shutil
from pathlib import Path
from typing import Any

import pytest

from eventlog.blobs import groups as groups_module
from eventlog.replay.bisect import Bench, BisectState, states_of, trees_of
from eventlog.store import Store
from tests.cli.hook_support import Agent, project
from tests.cli.support import Locus
from tests.worktree.support import on_disk

TURNS = 6
BREAK = "! grep -q BROKEN src/app.py"


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Six turns that add, edit, delete, and turn a file into a directory; the fourth breaks something."""
    root = project(tmp_path_factory.mktemp("bisect"))
    agent = Agent(root)
    agent.start()
    for number in range(TURNS):
        agent.prompt(f"Change {number}")
        agent.write(f"new{number}.py", f"{number}\n")
        if number == 2:
            agent.bash("rm new0.py; mkdir new0.py; echo x > new0.py/inside; chmod +x new1.py")
        if number == 3:
            agent.bash("echo BROKEN >> src/app.py")
            agent.write("after.py", "1\n")
        if number == 4:
            agent.bash("rm -r new0.py; ln -s readme.md new0.py")
        agent.stop()
    return root


@pytest.fixture
def work(recorded: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(recorded)
    monkeypatch.setenv("LOCUS_NO_MAINTENANCE", "1")
    return recorded


def bisect(locus: Locus, *words: str, code: int = 0) -> Any:
    ended = locus("bisect", "run", "--json", *words)
    assert ended.code == code, ended.err
    return json.loads(ended.text).get("bisect")


def test_the_turn_that_broke_it_is_found(work: Path, locus: Locus) -> None:
    """P1: in log2 n + 2 runs at most; `--deep` goes to the call; the diff and the ways on are shown."""
    before = on_disk(work)
    done = bisect(locus, "sh", "-c", BREAK)

    assert done["found"]["title"] == "Change 3" and not done["found"]["between"]
    assert len(done["tried"]) <= math.ceil(math.log2(done["states"])) + 2
    deep = bisect(locus, "--deep", "sh", "-c", BREAK)["found"]
    assert deep["title"] == "Change 3" and deep["call"] == "Bash echo BROKEN >> src/app.py"
    shown = locus("bisect", "run", "sh", "-c", BREAK).text
    assert '"Change 3"' in shown and "+BROKEN" in shown and "locus undo " in shown
    assert on_disk(work) == before


def test_each_step_is_what_a_full_replay_gives(work: Path, tmp_path: Path) -> None:
    """From any state to any other, whatever the test itself left and changed: recorded files are exact."""
    bench_at, whole = tmp_path / "bench", tmp_path / "whole"
    bench_at.mkdir()
    with Store.open(work / ".locus") as store:
        states, left_out = states_of(store.query)
        bench = Bench(str(bench_at), trees_of(store))
        assert left_out == 0 and len(states) == TURNS + 1
        for number, state in enumerate([*states, *reversed(states), states[4], states[0], states[3]]):
            bench.go_to(state)
            store.tree(state.turn, state.at).materialize(str(whole / str(number)))
            assert on_disk(bench_at) == on_disk(whole / str(number))
            if number == 1:
                (bench_at / "after.py").mkdir()  # what a later state wants to be a file
                (bench_at / "after.py/x").write_text("left by the test\n")
                (bench_at / "readme.md").write_text("changed by the test\n")
                (bench_at / "src/app.py").unlink()
                bench.go_to(states[4])
                assert (bench_at / "after.py").read_text() == "1\n"
                bench.go_to(state)


def test_a_link_that_the_test_made_does_not_lead_out(work: Path, tmp_path: Path) -> None:
    """I28: where the test put a link in the place of a recorded directory, nothing behind it is touched."""
    bench_at, outside = tmp_path / "bench", tmp_path / "outside"
    bench_at.mkdir()
    outside.mkdir()
    (outside / "inside").write_text("mine\n")
    with Store.open(work / ".locus") as store:
        states, _ = states_of(store.query)
        bench = Bench(str(bench_at), trees_of(store))
        for before, after in ((3, 5), (3, 2), (4, 3)):
            bench.go_to(states[before], fresh=True)
            shutil.rmtree(bench_at / "new0.py")
            (bench_at / "new0.py").symlink_to(outside)
            bench.go_to(states[after])
            store.tree(states[after].turn, states[after].at).materialize(str(tmp_path / f"{before}{after}"))
            assert on_disk(bench_at) == on_disk(tmp_path / f"{before}{after}")
            assert (outside / "inside").read_text() == "mine\n"


def test_only_what_differs_is_written(work: Path, tmp_path: Path) -> None:
    """A step writes the files that differ from the last state, and those get new times."""
    with Store.open(work / ".locus") as store:
        states, _ = states_of(store.query)
        bench = Bench(str(tmp_path), trees_of(store))
        bench.go_to(states[4])
        untouched = (tmp_path / "readme.md").stat()
        bench.go_to(states[3])
        assert bench.written == 1
        assert (tmp_path / "readme.md").stat().st_mtime_ns == untouched.st_mtime_ns


def test_a_step_asks_the_log_nothing_and_decompresses_nothing_twice(
    work: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The question for the states named their trees: steps between them read no event and open no connection,
    and a group of contents that an earlier step read is not decompressed again."""
    with Store.open(work / ".locus") as store:
        states, _ = states_of(store.query)
        bench = Bench(str(tmp_path), trees_of(store))
        groups: list[int] = []
        views: list[int] = []
        real_decompress, real_view = groups_module.decompress, store.view
        monkeypatch.setattr(store, "view", lambda: (views.append(1), real_view())[1])
        monkeypatch.setattr(
            groups_module, "decompress", lambda *which: (groups.append(1), real_decompress(*which))[1]
        )
        for state in (states[4], states[2], states[5]):
            bench.go_to(state)
        assert groups and not views
        known = len(groups)
        for state in (states[4], states[2], states[5], states[4]):
            bench.go_to(state)
        assert len(groups) == known and not views
        assert on_disk(tmp_path) == on_disk_of(store, states[4], tmp_path.parent / "whole")


def on_disk_of(store: Store, state: BisectState, place: Path) -> object:
    """What a full replay of a state gives."""
    store.tree(state.turn, state.at).materialize(str(place))
    return on_disk(place)


def test_what_does_not_fit_is_reported(work: Path, locus: Locus) -> None:
    """Ends that do not fit, a state that cannot be tested, a command that is not there or that dies."""
    assert "the last state is good" in locus("bisect", "run", "true").err
    assert "the first state is bad" in locus("bisect", "run", "false").err
    ended = locus("bisect", "run", "no-such-command-here")
    assert ended.code == 1 and "there is no such command" in ended.err
    assert "stops the search" in locus("bisect", "run", "sh", "-c", "kill -9 $$").err
    skips = f"test -e new2.py && ! test -e new4.py && exit 125; {BREAK}"
    left = bisect(locus, "sh", "-c", skips, code=4)
    assert left["found"] is None and len(left["candidates"]) == 3


def test_a_person_s_edit_between_turns_is_a_step_of_its_own(
    tmp_path: Path, locus: Locus, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What broke between two turns is not given to the next agent; a linked directory is there each time."""
    root = project(tmp_path)
    monkeypatch.chdir(root)
    monkeypatch.setenv("LOCUS_NO_MAINTENANCE", "1")
    (root / "tools.log").mkdir()  # git ignores it
    (root / "tools.log/check").write_text(f"#!/bin/sh\n{BREAK}\n")
    (root / "tools.log/check").chmod(0o755)
    agent = Agent(root)
    agent.start()
    for number in range(2):
        agent.prompt(f"Change {number}")
        agent.write(f"new{number}.py", "1\n")
        agent.stop()
        if number == 0:
            (root / "src/app.py").write_text("BROKEN\n")
    found = bisect(locus, "--link", "tools.log", "tools.log/check")["found"]

    assert found["between"] and found["at"] == "start"
    ended = locus("bisect", "run", "--link", "tools.log", "tools.log/check")
    assert "somebody changed files in between" in ended.text


def test_states_are_halved() -> None:
    """A skipped state is passed over for its neighbour; what is left is named."""
    from eventlog.query.lookup import TurnRef
    from eventlog.replay.bisect import search

    states = [BisectState(TurnRef("s", number), "end", str(number)) for number in range(100)]
    for first_bad in (1, 2, 50, 98, 99):
        for skipped in ({50}, set(range(40, 45)) - {first_bad, first_bad - 1}):
            left = range(0)
            test = lambda i: "skip" if i in skipped - {first_bad} else "bad" if i >= first_bad else "good"  # noqa: E731, B023
            for _, _, bisection in search(states, test):
                left = bisection.candidates
            assert first_bad in left and set(left) - {first_bad} <= skipped


def by_hand(locus: Locus, *words: str, code: int = 0) -> Any:
    ended = locus("bisect", *words, "--json")
    assert ended.code == code, ended.err
    return json.loads(ended.text).get("bisect")


@pytest.fixture
def search_ended(work: Path, locus: Locus) -> Any:
    """No search is left to the next test."""
    yield
    locus("bisect", "reset")
    assert not (work / ".locus/live/bisect.json").exists()


def test_a_person_answers_over_many_commands(work: Path, locus: Locus, search_ended: None) -> None:
    """I28: by hand the same turn is found, with what was asked and its diff; each command is a process of
    its own, the directory equals a full replay, only what differs is written, the project stays as it is."""
    before = on_disk(work)
    at = by_hand(locus, "start")
    directory = Path(at["directory"])
    written = 0
    with Store.open(work / ".locus") as store:
        while at["testing"] is not None:
            assert at["found"] is None
            whole = directory.parent / f"{directory.name}-whole-{len(at['tried'])}"
            state = at["testing"]
            store.tree(store.turn(state["turn"]), state["at"]).materialize(str(whole))
            assert on_disk(directory) == on_disk(whole)
            shutil.rmtree(whole)
            (directory / "made-by-a-test").write_text("")
            kept = (directory / "readme.md").stat().st_mtime_ns
            is_bad = "BROKEN" in (directory / "src/app.py").read_text()
            at = by_hand(locus, "bad" if is_bad else "good")
            (directory / "made-by-a-test").unlink()
            assert (directory / "readme.md").stat().st_mtime_ns == kept
            written += 1
    assert at["found"]["title"] == "Change 3" and written <= math.ceil(math.log2(at["states"]))
    shown = locus("bisect", "log").text
    assert (
        '"Change 3" ' not in shown and '"Change 3"' in shown and "+BROKEN" in shown and "locus undo " in shown
    )
    assert by_hand(locus, "good")["found"] == at["found"]  # answered once more
    assert locus("bisect", "reset").code == 0
    assert not directory.exists() and on_disk(work) == before


def test_what_a_person_says_must_fit(work: Path, locus: Locus, search_ended: None) -> None:
    """Named turns, a contradiction, a second start, no search, what cannot be judged: what to do is
    stated."""
    ended = locus("bisect", "good")
    assert ended.code == 1 and "`locus bisect start`" in ended.err
    at = by_hand(locus, "start")
    assert "`locus bisect reset`" in locus("bisect", "start").err
    tested = at["testing"]["turn"]
    at = by_hand(locus, "bad", tested)
    assert at["testing"]["turn"] != tested
    ended = locus("bisect", "good", tested)
    assert ended.code == 3 and "counts as bad" in ended.err
    codes = [0]
    while at["testing"] is not None:
        ended = locus("bisect", "skip", "--json")
        codes.append(ended.code)
        at = json.loads(ended.text)["bisect"]
    assert set(codes[:-1]) == {0} and codes[-1] == 4
    assert at["found"] is None and len(at["candidates"]) > 1
    assert "One of these broke it" in locus("bisect", "log").err


def test_the_directory_of_a_search_is_checked(
    work: Path, locus: Locus, tmp_path: Path, search_ended: None
) -> None:
    """I28: files that a killed command did not write to the end are written again before an answer counts; a
    directory that is gone is filled again; another one in its place is refused, and reset leaves it alone."""
    mine = tmp_path / "mine"
    mine.mkdir()
    (mine / "inside").write_text("mine\n")
    assert "is not empty" in locus("bisect", "start", "--to", str(mine)).err
    at = by_hand(locus, "start")
    directory = Path(at["directory"])
    exact = on_disk(directory)
    notes = work / ".locus/live/bisect.json"
    notes.write_text(json.dumps({**json.loads(notes.read_text()), "stats": None}))
    (directory / "readme.md").unlink()
    ended = locus("bisect", "bad")
    assert ended.code == 3 and "look again" in ended.err and on_disk(directory) == exact
    shutil.rmtree(directory)
    assert locus("bisect", "bad").code == 3 and on_disk(directory) == exact
    directory.rename(tmp_path / "moved")
    mine.rename(directory)
    ended = locus("bisect", "bad")
    assert ended.code == 3 and "is not the directory" in ended.err
    assert "another directory now" in locus("bisect", "reset").err
    assert (directory / "inside").read_text() == "mine\n"
    shutil.rmtree(directory)


def test_a_start_into_a_named_directory(work: Path, locus: Locus, tmp_path: Path, search_ended: None) -> None:
    """--to keeps the files after reset; --good and --bad are believed."""
    with Store.open(work / ".locus") as store:
        states, _ = states_of(store.query)
    names = [states[3].turn.name, states[4].turn.name]
    ended = locus("bisect", "start", "--good", names[0], "--bad", names[1], "--to", str(tmp_path / "here"))
    assert ended.code == 0 and '"Change 3"' in ended.text and "+BROKEN" in ended.text
    assert locus("bisect", "reset").code == 0
    assert "No search" in locus("bisect", "reset").err
    assert by_hand(locus, "start", "--to", str(tmp_path / "there"))["testing"] is not None
    assert locus("bisect", "reset").code == 0
    assert (tmp_path / "there/readme.md").exists()


def test_by_hand_it_goes_on_to_the_call(work: Path, locus: Locus, search_ended: None) -> None:
    """P1: `start --deep` ends with the call, as `run --deep` does, over commands of their own; each state
    inside the turn is what a replay gives, and what equals the turn's end is not asked."""
    at = by_hand(locus, "start", "--deep")
    listed: list[dict[str, str]] = []
    with Store.open(work / ".locus") as store:
        while at["testing"] is not None:
            directory, state = Path(at["directory"]), at["testing"]
            whole = directory.parent / f"{directory.name}-whole-{len(at['tried'])}"
            store.tree(store.turn(state["turn"]), state["at"]).materialize(str(whole))
            assert on_disk(directory) == on_disk(whole)
            shutil.rmtree(whole)
            listed.append({**state, "verdict": "bad" if is_broken(directory) else "good"})
            at = by_hand(locus, listed[-1]["verdict"])
    found = bisect(locus, "--deep", "sh", "-c", BREAK)["found"]
    assert at["found"] == found and found["call"] == "Bash echo BROKEN >> src/app.py"
    # After the command, where the whole directory was captured; an edit's hook looks at its own file alone.
    assert sum(answer["at"] not in ("start", "end") for answer in listed) == 1
    assert [answer for answer in at["tried"] if answer in listed] == listed and len(at["tried"]) == len(
        listed
    ) + 1
    shown = locus("bisect", "log")
    assert "  call Bash echo BROKEN" in shown.text and "+BROKEN" in shown.text


def is_broken(directory: Path) -> bool:
    return "BROKEN" in (directory / "src/app.py").read_text()


def test_the_only_call_of_a_turn_is_not_asked(work: Path, locus: Locus, search_ended: None) -> None:
    """P8: The files after it are those of the turn's end, of which it is known that they are bad."""
    with Store.open(work / ".locus") as store:
        states, _ = states_of(store.query)
    at = by_hand(locus, "start", "--deep", "--good", states[1].turn.name, "--bad", states[2].turn.name)
    assert at["testing"] is None and at["found"]["call"] == "Write new1.py"


def test_calls_that_cannot_be_judged_leave_the_turn(work: Path, locus: Locus, search_ended: None) -> None:
    """Where a person skips all states inside it, the turn is the answer, and the search is over."""
    with Store.open(work / ".locus") as store:
        states, _ = states_of(store.query)
    at = by_hand(locus, "start", "--deep", "--good", states[3].turn.name, "--bad", states[4].turn.name)
    while at["testing"] is not None:
        assert at["testing"]["at"] not in ("start", "end")
        at = by_hand(locus, "skip")
    assert at["found"]["title"] == "Change 3" and at["found"]["call"] is None
