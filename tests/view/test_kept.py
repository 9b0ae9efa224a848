"""What the viewer keeps while the log grows: its answers are those of a process that kept nothing."""

import random
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from eventlog import Recorder, Store
from eventlog.base.errors import EventLogError
from eventlog.blobs.groups import CACHE_BYTES
from eventlog.erasure import erasure
from eventlog.projections import excerpt, prefix, source
from eventlog.view import answers
from eventlog.view import stores as stores_module
from eventlog.view.stores import ViewedStores, opened
from tests.conftest import examples

STEPS = (
    "turn", "call", "file", "model", "same model", "error", "end", "session", "undo", "erase", "seal",
    "maintain",
)  # fmt: skip


class Growing:
    """A store that agents write to: each step adds something, or tidies it."""

    def __init__(self, root: Path) -> None:
        self.path = root / ".locus"
        self.work = root / "work"
        self.work.mkdir()
        self.store = Store.init(self.path, project_name="growing", turn_limit=3, force=True)
        self._recorders = [Recorder(self.store, agent=f"agent{n}") for n in range(2)]
        self._turns: dict[int, Any] = {}
        self._count = 0

    def close(self) -> None:
        self.store.close()

    def do(self, step: str, who: int) -> None:
        self._count += 1
        number = self._count
        if step == "seal":
            self.store.seal()
        elif step == "maintain":
            self.store.seal()
            self.store.reindex()
            self.store.compare_trees()
        elif step == "session":
            self._turns.pop(who, None)
            self._recorders[who].start_session(f"Begin {number}")
        elif step in ("undo", "erase"):
            with suppress(EventLogError):  # where there is nothing
                self._take_back(step)
        elif step == "end":
            if who in self._turns:
                self._turns.pop(who).end(title=f"Ended {number}")
        elif step == "turn" or who not in self._turns:
            self._end(who)
            self._turns[who] = self._recorders[who].start_turn(f"Do {number}", root=self.work)
        else:
            self._within(self._turns[who], step, number)

    def _end(self, who: int) -> None:
        if who in self._turns:
            self._turns.pop(who).end()

    def _take_back(self, step: str) -> None:
        if step == "undo":
            self.store.restore(self.store.undo_plan(into=self.work), force=True)
        else:
            erasure.erase(self.store, erasure.plan_path(self.store, f"file{self._count % 5}.py"))

    def _within(self, turn: Any, step: str, number: int) -> None:
        if step == "call":
            turn.action("Bash", {"command": f"run {number}"}, {"stdout": "done\n"}, success=True)
        elif step == "error":
            turn.error("Failure", f"it failed {number}")
        elif step in ("model", "same model"):
            message = "shared" if step == "same model" else f"m{number}"
            usage = {"prompt_tokens": 1_000 * number, "completion_tokens": 10}
            turn.event("llm", {}, model="claude-sonnet-4-5", message_id=message, request_id="r", **usage)
        else:
            (self.work / f"file{number % 5}.py").write_text(f"VALUE = {number}\n" * 9)
            turn.snapshot(self.work)


def _everything(stores: ViewedStores, chance: random.Random) -> dict[str, Any]:
    """The answers that a reader of all turns gets, in any order."""
    spine = answers.answer(stores, "/api/spine", {})
    asked = [("/api/page", {"turn": turn["name"]}) for turn in spine["turns"]]
    asked += [("/api/spine", {"session": id}) for id in {turn["session_id"] for turn in spine["turns"]}]
    asked += [(f"/api/content/{hash}", {"path": "a.py"}) for hash in spine["hashes"]]
    if spine["turns"]:
        asked.append(("/api/page", {"turn": "last"}))
    return {"spine": spine, **{str(one): _answer(stores, *one) for one in chance.sample(asked, len(asked))}}


def _answer(stores: ViewedStores, path: str, parameters: dict[str, str]) -> Any:
    try:
        return answers.answer(stores, path, parameters)
    except EventLogError as error:
        return answers.problem(error)


@settings(max_examples=examples(3, 100))
@given(
    st.lists(
        st.lists(st.tuples(st.sampled_from(STEPS), st.integers(0, 1)), max_size=5), min_size=2, max_size=3
    ),
    st.randoms(use_true_random=False),
)
@example([[("turn", 0), ("same model", 0)], [("turn", 1), ("same model", 1)]], random.Random(0))
@example(
    [[("turn", 0), ("file", 0), ("end", 0), ("seal", 0)], [("undo", 0)], [("erase", 0)]], random.Random(0)
)
def test_what_is_kept_changes_no_answer(growth: list[list[tuple[str, int]]], chance: random.Random) -> None:
    """I21: a server that has answered while the log grew says what a new one says."""
    with ExitStack() as stack:
        root = Path(stack.enter_context(TemporaryDirectory()))
        log = Growing(root)
        stack.callback(log.close)
        kept = stack.enter_context(opened({"growing": str(log.path)}))
        for steps in growth:
            for step, who in steps:
                log.do(step, who)
            with opened({"growing": str(log.path)}) as fresh:
                assert _everything(kept, chance) == _everything(fresh, chance)


@pytest.fixture
def log(tmp_path: Path) -> Iterator[Growing]:
    """Two sessions of two turns each, sealed; and a turn that is not."""
    growing = Growing(tmp_path)
    for who in (0, 1):
        for step in ("turn", "file", "end") * 2:
            growing.do(step, who)
    growing.do("maintain", 0)
    growing.do("turn", 0)
    yield growing
    growing.close()


def test_a_step_asks_no_sql_while_the_log_grows(log: Growing, monkeypatch: pytest.MonkeyPatch) -> None:
    """I21: after a spine the page of a turn is made of what is kept, but for a session that has grown."""
    with opened({"growing": str(log.path)}) as stores:
        turns = [turn["name"] for turn in answers.answer(stores, "/api/spine", {})["turns"]]
        store, asked = stores.named(None).store, list[str]()
        query = store.query

        def noting(sql: str, *arguments: Any) -> Any:
            asked.append(sql)
            return query(sql, *arguments)

        monkeypatch.setattr(store, "query", noting)
        for turn in turns:
            answers.answer(stores, "/api/page", {"turn": turn})
        assert asked == []
        log.do("call", 0)  # in the session of the last turn
        for turn in turns[:-1]:
            if not turn.startswith(turns[-1].partition("_")[0]):
                answers.answer(stores, "/api/page", {"turn": turn})
        assert asked == []
        answers.answer(stores, "/api/page", {"turn": turns[-1]})
        assert len(asked) == 1 and asked[0].endswith("where session_id = $1")
        log.do("model", 0)  # which may be a call of another session, too: all is asked, once
        for turn in turns:
            answers.answer(stores, "/api/page", {"turn": turn})
        assert len(asked) == 2 and asked[1].rstrip().endswith("from turns")


def test_sealed_events_are_read_once_for_many_turns(log: Growing, monkeypatch: pytest.MonkeyPatch) -> None:
    """I14: turns share blocks of positions; a segment of another name is read again."""
    read = list[Any]()
    values = excerpt.Excerpt._values

    def noting(self: Any, entries: Any, where: str, parameters: Any, *columns: Any) -> Any:
        if where == excerpt._OF_POSITIONS:
            read.append(parameters)
        return values(self, entries, where, parameters, *columns)

    with opened({"growing": str(log.path)}) as stores:
        turns = [turn["name"] for turn in answers.answer(stores, "/api/spine", {})["turns"]]
        monkeypatch.setattr(excerpt.Excerpt, "_values", noting)
        for turn in turns * 2:
            answers.answer(stores, "/api/page", {"turn": turn})
        assert read == [[0, 512]]
        log.do("seal", 0)
        for turn in turns * 2:
            answers.answer(stores, "/api/page", {"turn": turn})
        assert read[1:] and len(read) <= 3  # of the new segments


def test_blocks_that_were_used_last_are_kept(log: Growing, monkeypatch: pytest.MonkeyPatch) -> None:
    """I14: what is kept is bounded, and smaller blocks give the same."""
    with opened({"growing": str(log.path)}) as stores:
        before = _everything(stores, random.Random(1))
    monkeypatch.setattr(excerpt, "_BLOCK", 4)
    monkeypatch.setattr(excerpt, "_KEPT_MAX", 9)
    with opened({"growing": str(log.path)}) as stores:
        assert _everything(stores, random.Random(2)) == before
        store = stores.named(None).store
        assert store._excerpt is not None and store._excerpt._blocks is not None
        blocks = store._excerpt._blocks
        assert 0 < sum(len(rows) for _, rows, _ in blocks.values()) <= 9
        monkeypatch.setattr(excerpt, "_KEPT_BYTES_MAX", 300)
        assert _everything(stores, random.Random(3)) == before
        assert sum(size for *_, size in blocks.values()) <= 300


def test_a_turn_of_many_events_is_read_by_blocks(log: Growing, monkeypatch: pytest.MonkeyPatch) -> None:
    """What streams a turn loads more than the viewer needs, and reads it again for each part of a page."""
    for step in ["turn", *["call"] * 8, "seal"]:
        log.do(step, 0)
    with opened({"growing": str(log.path)}) as stores:
        before = _everything(stores, random.Random(1))
    monkeypatch.setattr(excerpt, "_BLOCK", 4)
    monkeypatch.setattr(excerpt, "_ROWS_MAX", 5)
    streamed = list[Any]()
    few = excerpt._few
    monkeypatch.setattr(excerpt, "_few", lambda rows: streamed.append(1) or few(rows))
    with opened({"growing": str(log.path)}) as stores:
        assert _everything(stores, random.Random(2)) == before
    assert streamed == []


def test_growth_opens_no_connection_of_its_own(log: Growing, monkeypatch: pytest.MonkeyPatch) -> None:
    """A viewer that numbers new events asks about ids on the connection of the last time, while nothing is
    sealed."""
    with opened({"growing": str(log.path)}) as stores:
        turns = [turn["name"] for turn in answers.answer(stores, "/api/spine", {})["turns"]]
        log.do("call", 0)
        answers.answer(stores, "/api/page", {"turn": turns[2]})
        made = list[Any]()
        connect = source.connect
        monkeypatch.setattr(prefix.source, "connect", lambda: made.append(1) or connect())
        for _ in range(3):
            log.do("call", 0)
            answers.answer(stores, "/api/page", {"turn": turns[2]})
        assert made == []
        log.do("maintain", 0)
        log.do("call", 0)
        answers.answer(stores, "/api/page", {"turn": turns[2]})
        assert made


def test_decompressed_contents_are_bounded_in_each_thread(
    log: Growing, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both threads that answer have contents of their own: each keeps half of what one store keeps."""
    assert 2 * stores_module._CONTENTS_BYTES_MAX <= CACHE_BYTES
    monkeypatch.setattr(stores_module, "_CONTENTS_BYTES_MAX", 1)
    with opened({"growing": str(log.path)}) as stores:
        _everything(stores, random.Random(3))
        assert stores.named(None).store.blobs.groups._cached <= 1
