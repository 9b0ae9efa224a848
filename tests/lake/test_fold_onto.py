"""A fold that goes on from the files of before makes the files of a fold from nothing, byte for byte."""

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
from hypothesis import given, settings
from hypothesis import strategies as st

from eventlog.lake.chain import ERASURE, MERGE, read_chain
from eventlog.lake.folding.plan import planned
from eventlog.lake.folding.stored import Projected
from eventlog.lake.place import Place, open_place
from tests.conftest import examples
from tests.lake.folded import folded_names, publish_rows, rewrite_rows
from tests.projections.logs import Log, event, events

Event = dict[str, Any]
IDS = (b"\xaa" * 16, b"\xbb" * 16)


class Published:
    """A log, and what a place has of it."""

    def __init__(self, place: Place, store_id: bytes, root: str) -> None:
        self.place = place
        self.store_id = store_id
        self._log = Log(root)
        self._rows: dict[int, Event] = {}
        self._end = 0

    def publish(self, *batch: Event) -> None:
        """Append events, and publish what is new; the log drops those that it has already."""
        self._log.append(*batch)
        with self._log.view() as view:
            end = view.next_position
        new = [row for row in self._log.events() if row["position"] >= self._end]
        if end > self._end:
            publish_rows(self.place, self.store_id, self._end, end, new)
        self._rows |= {row["position"]: row for row in new}
        self._end = end

    def merge(self) -> None:
        """Make one file of all but the last."""
        self._rewrite(MERGE, slice(0, -1))

    def erase(self) -> None:
        """Take the texts out of the first file."""
        live = read_chain(self.place, self.store_id).live
        for position in range(live[0].end if live else 0):
            if position in self._rows:
                self._rows[position] |= {"title": None, "payload": {}}
        self._rewrite(ERASURE, slice(0, 1))

    def _rewrite(self, reason: str, files: slice) -> None:
        chain = read_chain(self.place, self.store_id)
        gone = chain.live[files]
        if gone:
            rows = [row for at, row in self._rows.items() if gone[0].base <= at < gone[-1].end]
            rewrite_rows(self.place, self.store_id, chain.next_rewrite, reason, gone, rows)


@contextmanager
def two_stores() -> "Iterator[tuple[Place, list[Published]]]":
    """A folder with two stores, since an example of a property is not a test of its own."""
    root = tempfile.mkdtemp(prefix="locus-test-")
    try:
        Path(f"{root}/shared").mkdir()
        place = open_place(f"file://{root}/shared")
        yield place, [Published(place, id, f"{root}/{id.hex()}") for id in IDS]
    finally:
        shutil.rmtree(root)


Step = tuple[str, int, list[Event]]
STEPS = ("publish", "publish", "publish", "merge", "erase", "fold", "fold")


@st.composite
def steps(draw: st.DrawFn) -> "list[Step]":
    """Steps of the lives of two stores that publish, with folds in between."""
    life = []
    for word in draw(st.lists(st.sampled_from(STEPS), min_size=3, max_size=10)):
        batch = draw(st.lists(events(), min_size=1, max_size=8)) if word == "publish" else []
        life.append((word, draw(st.integers(0, 1)), batch))
    return life


@settings(max_examples=examples(8, 150))
@given(steps())
def test_any_fold_onto_files_is_the_fold_from_nothing(life: "list[Step]") -> None:
    """I20: Whatever was published, merged or erased in between, by two stores in one task."""
    with two_stores() as (place, stores):
        names: set[str] = set()
        for word, number, batch in life:
            if word == "publish":
                stores[number].publish(*batch)
            elif word == "fold":
                names = folded_names(place, names)
            else:
                getattr(stores[number], word)()
        assert folded_names(place, names) == folded_names(place, full=True)


def works_of(place: Place, names: "set[str]") -> "list[tuple[bytes, int]]":
    """The stores that a fold would do, and from which position."""
    return sorted((work.store_id, work.since) for work in planned(place, names).works)


def call(number: int, session: str, tokens: int) -> Event:
    """A row of the one call; the row with the most tokens counts."""
    ids = {"agent": "script", "agent_session_id": session, "message_id": "m1", "request_id": "r1"}
    return event("llm", number, session_id=session, turn=1, completion_tokens=tokens, **ids)


def calls_by_session(names: "set[str]", place: Place) -> "dict[str, int]":
    """`llm_calls` of the rows of sessions."""
    (name,) = (name for name in names if name.startswith("tables/sessions/") and IDS[0].hex() in name)
    path = place.address(name).removeprefix("file://")
    return {row["session_id"]: row["llm_calls"] for row in pq.read_table(path).to_pylist()}


def test_a_call_that_is_beaten_leaves_a_session_that_nothing_touched() -> None:
    """I20, I21: The better row lies in another session, published later: the first one is folded again."""
    with two_stores() as (place, (store, _)):
        store.publish(call(1, "s1", 5), call(2, "s1", 1), event("intent", 3, session_id="s1", turn=2))
        store.publish(event("intent", 4, session_id="s2", turn=1))
        names = folded_names(place)
        assert calls_by_session(names, place) == {"s1": 1, "s2": 0}
        store.publish(call(5, "s2", 9))
        assert works_of(place, names) == [(IDS[0], 4)]
        names = folded_names(place, names)
        assert calls_by_session(names, place) == {"s1": 0, "s2": 1}
        assert names == folded_names(place, full=True)


def test_what_is_beaten_in_a_touched_session_stays_so() -> None:
    """I20: New events in a session do not bring back its row of a call that counts elsewhere."""
    with two_stores() as (place, (store, _)):
        store.publish(call(1, "s1", 5), call(2, "s2", 9))
        names = folded_names(place)
        store.publish(event("intent", 3, session_id="s1", turn=1))
        names = folded_names(place, names)
        assert calls_by_session(names, place) == {"s1": 0, "s2": 1}
        assert names == folded_names(place, full=True)


def test_a_merge_across_the_end_of_before() -> None:
    """I20: Of a merged file the events that were folded are not new, and the master's own words stay."""
    with two_stores() as (place, (store, _)):
        store.publish(event("sessions", 1, repo="r1", title="project"), call(2, "s1", 5))
        names = folded_names(place)
        for number in (3, 4, 5):
            store.publish(
                call(number, "s1", number), event("intent", number + 10, session_id="s1", repo="r1")
            )
        store.merge()
        assert [file.end for file in read_chain(place, IDS[0]).live] == [6, 8]
        assert works_of(place, names) == [(IDS[0], 2)]
        names = folded_names(place, names)
        assert calls_by_session(names, place) == {"s1": 1}
        assert names == folded_names(place, full=True)


def test_what_a_fold_goes_on_from() -> None:
    """I30: From the files of before after merges, and from nothing after an erasure or by other code."""
    with two_stores() as (place, (one, other)):
        for number in range(3):
            one.publish(event("intent", number, session_id="s1", turn=1, title="a"))
            other.publish(event("intent", number, session_id="s1", turn=1, title="a"))
        names = folded_names(place)
        assert works_of(place, names) == []
        one.merge()
        assert works_of(place, names) == []
        one.publish(event("intent", 7, session_id="s1", turn=1))
        assert works_of(place, names) == [(IDS[0], 3)]
        other.erase()
        assert works_of(place, names) == [(IDS[0], 3), (IDS[1], 0)]
        other.merge()
        assert works_of(place, names) == [(IDS[0], 3), (IDS[1], 0)]
        names = folded_names(place, names)
        assert works_of(place, names) == []
        by_others = {name.replace(Projected.of(name).code, "0" * 8) for name in names}
        assert works_of(place, by_others) == [(IDS[0], 0), (IDS[1], 0)]
        assert [state for _, state in works_of(place, set(sorted(names)[1:]))] == []
