"""Publishers that are killed anywhere, and publishers at once: the real command, SIGKILL."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from eventlog.erasure import erasure
from eventlog.lake.place import Place
from eventlog.store import Store
from tests.lake.killed import KILLED, NEVER, Killer
from tests.lake.publishing import (
    ALL,
    CANARY,
    TEXTS,
    assert_published,
    chain_of,
    copy_of,
    holding,
    names,
    new_store,
    record,
    send,
    set_policy,
)

_EFFECTS_MAX = 60


@pytest.fixture(scope="module")
def killer() -> "Iterator[Killer]":
    """Forks the runs of these tests."""
    started = Killer()
    yield started
    started.close()


def _publish(killer: Killer, store: Store, place: Place, kill_at: int = NEVER, after: bool = False) -> int:
    arguments = ("--store", store.layout.root, "publish", place.uri, "--yes")
    return killer.run(*arguments, kill_at=kill_at, after=after)


def _again(store: Store, place: Place, template: Path) -> None:
    """Bring a store and its folder back to how they were."""
    for path in (Path(store.layout.root), Path(place.uri.removeprefix("file://"))):
        shutil.rmtree(path)
        shutil.copytree(template / path.name, path)


def _template(store: Store, place: Place, directory: Path) -> Path:
    for path in (Path(store.layout.root), Path(place.uri.removeprefix("file://"))):
        shutil.copytree(path, directory / path.name)
    return directory


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
def test_a_publisher_killed_anywhere_loses_and_doubles_nothing(
    killer: Killer, place: Place, tmp_path: Path, after: bool
) -> None:
    """The next publish goes on from what is there."""
    store = new_store(tmp_path / "a")
    set_policy(store, ALL)
    for number in range(_EFFECTS_MAX):
        record(store, number, f"text {number}", b"content %d" % number)
        if _publish(killer, store, place, 0 if after else number, after) == 0:
            break
        assert _publish(killer, store, place) == 0
        assert_published(store, place)
        if after and number == 8:
            break
    assert number >= 3
    assert_published(store, place)


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
def test_an_erasure_killed_anywhere_is_finished(
    killer: Killer, file_place: Place, tmp_path: Path, after: bool
) -> None:
    """By the next publish: then the text is in no object, and all else is there once."""
    store = new_store(tmp_path / "a")
    set_policy(store, ALL)
    for number, text in enumerate(("one", CANARY, "three")):
        record(store, number, text, f"content of {text}".encode(), b"other %d" % number)
        send(store, file_place)
    erasure.erase(store, erasure.plan_secret(store, CANARY))
    store.close()
    template = _template(store, file_place, tmp_path / "template")
    for number in range(_EFFECTS_MAX):
        if _publish(killer, store, file_place, number, after) == 0:
            break
        assert _publish(killer, store, file_place) == 0
        with Store.open(store.layout.root) as again:
            assert_published(again, file_place)
        assert holding(file_place, tmp_path / "scratch") == []
        _again(store, file_place, template)
    assert number >= 7


def test_a_narrower_policy_killed_anywhere_is_finished(
    killer: Killer, file_place: Place, tmp_path: Path
) -> None:
    """The same for what a policy takes back."""
    store = new_store(tmp_path / "a")
    for number in range(2):
        record(store, number, "text", b"%s content %d" % (CANARY.encode(), number))
        send(store, file_place)
    set_policy(store, TEXTS)
    store.close()
    template = _template(store, file_place, tmp_path / "template")
    for number in range(_EFFECTS_MAX):
        if _publish(killer, store, file_place, number) == 0:
            break
        assert _publish(killer, store, file_place) == 0
        with Store.open(store.layout.root) as again:
            assert_published(again, file_place, TEXTS)
        assert holding(file_place, tmp_path / "scratch") == []
        _again(store, file_place, template)
    assert number >= 7


def test_publishers_at_once_publish_each_event_once(killer: Killer, place: Place, tmp_path: Path) -> None:
    """Some on one store, some on equal copies of it, some of them killed."""
    store = new_store(tmp_path / "a")
    set_policy(store, ALL)
    for number in range(3):
        for index in range(4):
            record(store, number * 10 + index, "text", b"content %d %d" % (number, index))
        copies = [copy_of(store, tmp_path / f"copy {number} {index}") for index in range(2)]
        for index, one in enumerate((store, store, *copies)):
            kill_at = 1 + number if index == 2 else NEVER
            killer.start("--store", one.layout.root, "publish", place.uri, "--yes", kill_at=kill_at)
        assert set(killer.ends(4)) <= {0, KILLED}
        assert _publish(killer, store, place) == 0
        assert_published(store, place)
        for one in copies:
            one.close()


def test_of_diverged_copies_at_once_one_publishes(killer: Killer, place: Place, tmp_path: Path) -> None:
    """The others are refused (exit code 3), and leave no event there."""
    store = new_store(tmp_path / "a")
    record(store, 1)
    send(store, place)
    copies = [copy_of(store, tmp_path / f"copy {index}") for index in range(3)]
    for index, one in enumerate(copies):
        set_policy(one, ALL)
        record(one, 10 + index)
        killer.start("--store", one.layout.root, "publish", place.uri, "--yes")
    assert sorted(killer.ends(3)) == [0, 3, 3]
    events = [name for name in names(place) if "/events/" in name]
    assert len(events) == 2
    winners = [one for one in copies if _publish(killer, one, place) == 0]
    assert len(winners) == 1
    assert_published(winners[0], place)
    assert chain_of(store, place).end == 2
    for one in copies:
        one.close()
