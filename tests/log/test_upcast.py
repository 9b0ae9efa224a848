"""Upcasting: the laws of steps between schema versions, and where they are applied."""

import copy
from pathlib import Path
from typing import TYPE_CHECKING, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eventlog.base.types import COLUMN_NAMES, SCHEMA_VERSION, Event
from eventlog.log.upcast import CHANGEABLE, STEPS, is_newer, upcast, version_of
from eventlog.store import Store
from tests.log.logs import event

if TYPE_CHECKING:
    from eventlog.log.upcast import Step

# -- sample histories of a schema ----------------------------------------------------------------------

KEYS = st.sampled_from(["text", "note", "list", "word"])
PAYLOADS = st.dictionaries(KEYS, st.one_of(st.integers(), st.text(max_size=5), st.lists(st.integers())))
CHANGES = st.one_of(
    st.tuples(st.just("rename"), KEYS, KEYS),
    st.tuples(st.just("give"), KEYS, st.integers()),
    st.tuples(st.just("drop"), KEYS, st.none()),
    st.tuples(st.just("promote"), KEYS, st.sampled_from(["title", "tool", "status"])),
    st.tuples(st.just("append in place"), KEYS, st.integers()),
    st.tuples(st.just("overreach"), st.sampled_from(COLUMN_NAMES), st.none()),
)


def step_of(what: str, key: str, value: object) -> "Step":
    """One change of a schema, as a step."""

    def step(one: Event) -> Event:
        payload = cast("dict[str, object]", one["payload"])
        if what == "rename" and key in payload:
            payload[cast(str, value)] = payload.pop(key)
        elif what == "give":
            payload.setdefault(key, value)
        elif what == "drop":
            payload.pop(key, None)
        elif what == "promote" and isinstance(payload.get(key), str):
            one[cast(str, value)] = payload[key]
        elif what == "append in place" and isinstance(payload.get(key), list):
            cast("list[object]", payload[key]).append(value)
        elif what == "overreach" and key != "payload":
            one = {**one, key: "changed"}
        return one

    return step


REGISTRIES = st.lists(CHANGES.map(lambda change: step_of(*change)), max_size=5).map(
    lambda steps: dict(enumerate(steps, 1))
)


@st.composite
def events(draw: st.DrawFn) -> Event:
    written = event(draw(st.integers(0, 99)), payload=draw(PAYLOADS), title=draw(st.none() | st.text()))
    version = draw(st.integers(1, 8))
    return {**dict.fromkeys(COLUMN_NAMES), "position": 7, **written, "schema_version": version}


# -- laws ------------------------------------------------------------------------------------------------


@given(events(), REGISTRIES)
def test_an_event_comes_out_in_the_present_version(one: Event, steps: "dict[int, Step]") -> None:
    """I23: every older version becomes the present one, and what others rest on is not changed."""
    present = len(steps) + 1
    up = upcast(one, steps)

    assert version_of(up) == max(present, version_of(one))
    assert list(up) == list(one)
    kept = [name for name in COLUMN_NAMES if name not in CHANGEABLE and name != "schema_version"]
    assert {name: up[name] for name in kept} == {name: one[name] for name in kept}
    assert {"event_id", "position", "session_id", "turn", "seq", "blobs", "tree_hash"} <= set(kept)


@given(events(), REGISTRIES)
def test_upcasting_twice_is_upcasting_once(one: Event, steps: "dict[int, Step]") -> None:
    """I23: an event of the present version, or of a newer one, is given as it is."""
    up = upcast(one, steps)

    assert upcast(up, steps) is up
    assert is_newer(one, steps) == (version_of(one) > len(steps) + 1)
    if version_of(one) > len(steps):
        assert up is one


@given(events(), REGISTRIES, st.integers(0, 5))
def test_steps_compose(one: Event, steps: "dict[int, Step]", at: int) -> None:
    """I23: to an intermediate version and on from there is the way to the present one."""
    earlier = {number: step for number, step in steps.items() if number <= at}

    assert upcast(upcast(one, earlier), steps) == upcast(one, steps)


@given(events(), REGISTRIES)
def test_the_given_event_is_not_touched(one: Event, steps: "dict[int, Step]") -> None:
    """I23: steps are free to change what they get; the stored event and the next reader see none of it."""
    before = copy.deepcopy(one)

    first = upcast(one, steps)

    assert one == before
    assert upcast(one, steps) == first


def test_no_version_is_without_a_step() -> None:
    """I23: there is a step from every version below the present one, and for no other."""
    assert sorted(STEPS) == list(range(1, SCHEMA_VERSION))


# -- in a store ------------------------------------------------------------------------------------------


def test_readers_get_the_present_version_and_files_keep_the_old(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """I23, I14: events and followers upcast, from segments and journals alike; what is stored stays."""
    with Store.init(tmp_path / ".locus", repo_hash="0123456789ab", project_name="locus") as store:
        store.append([event(0, payload={"text": "old"})])
        store.seal()
        store.append([event(1, payload={"text": "old"}), event(2, payload={"note": "new"}, schema_version=2)])

        def step(one: Event) -> Event:
            text = cast("dict[str, str]", one["payload"])["text"]
            return {**one, "title": text, "payload": {"note": text}}

        monkeypatch.setitem(STEPS, 1, step)
        found = list(store.events())

        assert [row["payload"] for row in found] == [{"note": "old"}, {"note": "old"}, {"note": "new"}]
        assert [row["title"] for row in found] == ["old", "old", None]
        assert [row["schema_version"] for row in found] == [2, 2, 2]
        assert list(store.follow(timeout_s=0)) == found
        assert [tuple(row.items()) for row in store.events(columns=["title"])] == [
            (("title", "old"),),
            (("title", "old"),),
            (("title", None),),
        ]
        stored = store.query("select payload, title, schema_version from events order by position").rows
        assert stored[0] == ('{"text":"old"}', None, 1)
        store.seal()
        assert list(store.events()) == found


def test_an_event_of_a_newer_locus_does_not_stop_reading(tmp_path: Path) -> None:
    """I23: an event of an unknown version is given as it came, before and after sealing, and is marked."""
    with Store.init(tmp_path / ".locus", repo_hash="0123456789ab", project_name="locus") as store:
        store.append([event(0), event(1, schema_version=99, payload={"what": [1, None]}), event(2)])
        found = list(store.events())
        store.seal()

        assert list(store.events()) == found
        assert [is_newer(row) for row in found] == [False, True, False]
        assert found[1]["payload"] == {"what": [1, None]}
