"""Captures of directories that are too large for one call: each ends in time, and each gets further."""

import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from eventlog import agents
from eventlog.base import config, identity
from eventlog.base.fs import REAL
from eventlog.base.layout import Layout
from eventlog.checkout.materialize import walk
from eventlog.hooks import record as live
from eventlog.hooks import state, stored_contents, unfinished
from eventlog.store import Store
from eventlog.worktree import capture, git_index, rows, rules, scan, stat_all
from eventlog.worktree.contents import Deferral
from tests.worktree.support import Bench, age, on_disk
from tests.worktree.test_capture import write

ALLOWED = 60.0  # readings of the clock


class Clock:
    """A clock that goes on by one with each reading."""

    def __init__(self) -> None:
        self.now = 0

    def __call__(self) -> float:
        self.now += 1
        return float(self.now)


@pytest.fixture
def bench(layout: Layout, tmp_path: Path) -> Bench:
    """200 files in 40 directories."""
    bench = Bench(layout, tmp_path / "work")
    for number in range(200):
        write(bench.work / f"p{number // 25}" / f"d{number // 5}" / f"f{number}", b"%d" % number)
    return bench


@pytest.fixture
def short_of_time(monkeypatch: pytest.MonkeyPatch) -> Iterator[pytest.MonkeyPatch]:
    """Few directories and rows between two readings of the clock."""
    monkeypatch.setattr(scan, "_LEVEL", 3)
    monkeypatch.setattr(scan, "_NAMES", 5)
    monkeypatch.setattr(rows, "_RANGE", 5)
    monkeypatch.setattr(scan, "_READING_S", ALLOWED)  # the clock counts readings, not seconds
    yield monkeypatch


def hurried(bench: Bench, patched: pytest.MonkeyPatch, allowed: float = ALLOWED) -> Any:
    """A capture that has so many readings of the clock; it makes few more."""
    clock = Clock()
    with patched.context() as patch:
        patch.setattr("eventlog.worktree.stat_all.time.monotonic", clock)
        done = bench.capture(deadline=allowed)
    assert clock.now < allowed + 150, "each name that is left costs at most one reading"
    return done


@pytest.mark.parametrize("in_git", [False, True])
def test_each_capture_of_a_large_tree_gets_further_than_the_last(
    bench: Bench, in_git: bool, short_of_time: pytest.MonkeyPatch
) -> None:
    """P4: a first capture with too little time ends, and the next goes on, until one is whole."""
    if in_git:
        bench.git("init", "-q")
        write(bench.work / "p3" / ".gitignore", b"nothing\n")
        bench.git("add", "-A")
    age(bench.work)
    reached = [0]
    for _ in range(60):
        done = hurried(bench, short_of_time)
        tree, disk = bench.tree(), on_disk(bench.work)
        assert all(disk[path] == entry for path, entry in tree.items() if entry[0] != b"d")
        reached.append(done.files)
        if not done.partial:
            break
    assert reached == sorted(reached) and reached[-1] >= 200
    assert len(set(reached)) > 4, "over many calls"
    age(bench.work)
    assert not bench.capture().partial
    assert bench.tree() == on_disk(bench.work)
    assert bench.uncached().root == bench.last


def test_a_capture_without_time_goes_on_where_the_last_one_stopped(
    bench: Bench, short_of_time: pytest.MonkeyPatch
) -> None:
    """P4: of a known directory each short capture examines other rows: a change anywhere is found."""
    bench.capture()
    age(bench.work)
    bench.capture()
    examined: set[bytes] = set()
    stride = stat_all._stat_stride

    def noted(root: int, paths: Any) -> list[bytes]:
        examined.update(paths)
        return stride(root, paths)

    short_of_time.setattr(stat_all, "_stat_stride", noted)
    write(bench.work / "p7" / "d39" / "f199", b"changed at the end")
    age(bench.work)
    counts = []
    for _ in range(12):
        before = len(examined)
        done = hurried(bench, short_of_time, 30.0)
        counts.append(len(examined) - before)
        assert done.partial and done.pending_count < 250
    assert counts[0] < 200 and len(examined) >= 248, "every row, over several calls"
    assert bench.tree()[b"p7/d39/f199"][1] == b"changed at the end"


def test_an_index_that_takes_too_long_is_left_to_a_capture_with_more_time(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """P4, P1: nothing is read without what git tracks; once it is known, short captures rely on it."""
    bench.git("init", "-q")
    bench.git("add", "-A")
    age(bench.work)
    monkeypatch.setattr(rules, "_INDEX_SIZE_READ", 0)
    monkeypatch.setattr(rules, "_INDEX_S_PER_BYTE", 1e9)
    deadline = time.monotonic() + 600
    first = bench.capture(deadline=deadline)
    assert first.partial and first.rules_left and first.files == 0
    assert not bench.capture(deferral=Deferral(bytes_max=0)).partial
    assert not bench.capture(deadline=deadline).partial
    os.utime(bench.work / ".git" / "index")  # its paths are the same, but only reading it shows that
    later = bench.capture(deadline=deadline)
    assert later.rules_left and later.partial and b".git/index" in later.pending
    write(bench.work / "p0" / "new", b"x")
    bench.git("add", "-A")
    assert bench.capture(deadline=deadline).rules_left
    done = bench.capture()
    assert not done.partial and bench.tree() == on_disk(bench.work)


def test_the_time_may_pass_while_the_index_is_read(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """P4: on a machine that is slower than the size of the index promised."""
    bench.git("init", "-q")
    bench.git("add", "-A")
    age(bench.work)
    with monkeypatch.context() as slow:
        slow.setattr(git_index, "is_late", lambda deadline: deadline is not None)
        first = bench.capture(deadline=time.monotonic() + 600)
    assert first.partial and first.rules_left and first.files == 0
    assert not bench.capture(deadline=time.monotonic() + 600).partial
    assert bench.tree() == on_disk(bench.work)


class Desk:
    """30 files, and hooks that may start the process beside them, each in this process."""

    def __init__(self, work: Path) -> None:
        self.work = work
        for number in range(30):
            write(work / f"d{number // 5}" / f"f{number}", b"%d" % number)
        Store.init(work / ".locus").close()
        self.layout = Layout(str(work / ".locus"))
        self.started: list[Any] = []
        self.noted: list[str] = []

    def hook(self, name: str, turn: str = "t") -> None:
        fields = {"session_id": "s", "prompt_id": turn, "prompt": "Go", "source": "startup"}
        call = agents.interpret("claude-code", {**fields, "cwd": str(self.work), "hook_event_name": name})
        live.record(
            REAL, self.layout.root, call, {}, lambda error: self.noted.append(str(error)),
            started_s=time.monotonic(),
            start=lambda job: self.started.append(job),  # type: ignore[arg-type, func-returns-value]
        )  # fmt: skip

    def finish(self) -> int:
        """The first half of the process beside the hooks: first captures. How many it finished."""
        who = identity.read(REAL, self.layout)
        return unfinished.finish_all(REAL, self.layout, who, lambda error: pytest.fail(str(error)))

    def snapshots(self) -> list[dict[str, Any]]:
        with Store.open(self.layout.root) as store:
            return [dict(event) for event in store.events() if event["event_type"] == "snapshot"]


@pytest.mark.parametrize(
    ("how", "keeps_ignored"), [("short of time", False), ("short of time", True), ("interrupted", True)]
)
def test_a_first_capture_is_finished_beside_the_hooks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: str, keeps_ignored: bool
) -> None:
    """P4: a prompt with no time leaves its capture to another process; the next hook's is whole."""
    desk = Desk(tmp_path / "work")
    config.set_keeps_ignored(REAL, desk.layout, keeps_ignored)
    with monkeypatch.context() as short:
        if how == "interrupted":  # by the alarm of the hook program, while it reads what git tracks

            def late(*_: object, **__: object) -> None:
                raise TimeoutError("not done within 4 s")

            short.setattr(scan.Scan, "run", late)
        short.setitem(live.BUDGET_S, "turn_start", 0.0)
        desk.hook("UserPromptSubmit")
    assert len(desk.started) == 1 and desk.noted == (["not done within 4 s"] if how == "interrupted" else [])
    assert [name for name in os.listdir(desk.layout.directory("live")) if name.endswith(unfinished.SUFFIX)]

    assert desk.finish() == 1 and desk.finish() == 0
    monkeypatch.setattr(scan.Scan, "_list", lambda *_: pytest.fail("it begins again"))
    desk.hook("Stop")
    snapshots = desk.snapshots()
    assert [event["success"] for event in snapshots] == [False, True]
    assert snapshots[-1]["payload"]["tracked_files"] == 30


def test_a_first_capture_without_git_is_left_to_nobody(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """P4: it lacks nothing that more time would bring, so no hook has another process begin it again."""
    desk = Desk(tmp_path / "work")
    prepare = rules.TreeRules.prepare_full

    def refused(self: rules.TreeRules, **options: Any) -> None:
        prepare(self, **options)
        self.give_up("git could not be asked")

    monkeypatch.setattr(rules.TreeRules, "prepare_full", refused)
    desk.hook("UserPromptSubmit")
    assert [event["success"] for event in desk.snapshots()] == [False]
    assert desk.started == [] and desk.finish() == 0


def waiting_desk(work: Path, monkeypatch: pytest.MonkeyPatch) -> Desk:
    """A desk whose first capture was finished beside it; more contents wait than its hooks read."""
    monkeypatch.setattr(capture, "LEFT_OUT_MAX", 10)
    desk = Desk(work)
    with monkeypatch.context() as short:
        short.setitem(live.BUDGET_S, "turn_start", 0.0)
        desk.hook("UserPromptSubmit")
    assert desk.finish() == 1
    return desk


def test_hooks_capture_nothing_until_the_contents_of_a_huge_directory_are_stored(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """P4: reading a million entries that wait for their contents takes seconds; afterwards there are none."""
    desk = waiting_desk(tmp_path / "work", monkeypatch)
    with monkeypatch.context() as looking:
        looking.setattr(stat_all.Suspects, "check_all", lambda *_: pytest.fail("it compared"))
        desk.hook("UserPromptSubmit", "u")
    assert desk.finish() == 0, "what is being stored needs no capture"

    who = identity.read(REAL, desk.layout)
    assert stored_contents.store_all(REAL, desk.layout, who, note=lambda error: pytest.fail(str(error))) == 1
    desk.hook("Stop", "u")
    snapshots = desk.snapshots()
    assert {event["success"] for event in snapshots[:-1]} == {False} and snapshots[-1]["success"] is True
    assert snapshots[-1]["payload"]["tracked_files"] == 30
    with Store.open(desk.layout.root) as store:
        replayed = dict(walk(store.blobs, bytes.fromhex(snapshots[-1]["tree_hash"].removeprefix("blake3:"))))
        assert {store.blobs.get(entry.id) for entry in replayed.values() if entry.kind != b"d"} == {
            b"%d" % number for number in range(30)
        }


def test_a_list_that_nobody_knows_of_any_more_is_opened_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """I22: notes of what is open may be lost, also where hooks do not capture."""
    desk = waiting_desk(tmp_path / "work", monkeypatch)
    for name in os.listdir(desk.layout.directory("live")):
        if name.endswith(state.DEFERRED):
            os.unlink(desk.layout.live(name))
    desk.hook("UserPromptSubmit")
    assert desk.finish() == 1 and len(desk.started) == 2
    assert stored_contents.store_all(REAL, desk.layout, identity.read(REAL, desk.layout)) == 1
