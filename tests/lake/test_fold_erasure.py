"""What was erased is in no table, snapshot, manifest or object of a lake that was folded."""

import os
import random
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from eventlog.base.errors import Refused
from eventlog.erasure import erasure
from eventlog.lake import maintain as maintaining
from eventlog.lake import tables
from eventlog.lake import verify as checking
from eventlog.lake.folding import driver, wide
from eventlog.lake.folding.stored import TABLES
from eventlog.lake.place import Place
from eventlog.lake.policy import Policy
from eventlog.log.erased_rows import KEPT_TYPES
from eventlog.recorder.recorder import Recorder
from eventlog.store import Store
from tests.cli.support import Locus
from tests.conftest import examples
from tests.lake import canaries
from tests.lake.conftest import Lake, S3Server
from tests.lake.killed import KILLED, Killer
from tests.lake.publishing import CANARY, new_store, record, send, set_policy
from tests.lake.small import answer, run
from tests.lake.test_publish_erasure import erase
from tests.lake.words import words_in

TEXTS = Policy(texts=True, paths=True, people="full")
NOTHING = Policy(people="no", paths=False)
DERIVED = tuple(f"tables/{name.removeprefix('lake.')}/" for name in tables.DERIVED)


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The project with a word in every kind of place."""
    return canaries.record(tmp_path_factory.mktemp("canaries"))


@pytest.fixture
def root(recorded: Path, tmp_path: Path) -> Path:
    """A copy of its store, which may publish texts."""
    shutil.copytree(recorded / ".locus", tmp_path / "project/.locus")
    with Store.open(tmp_path / "project/.locus") as store:
        set_policy(store, TEXTS)
    return tmp_path / "project/.locus"


def publish(root: Path, lake: Lake) -> None:
    done = run("--store", root, "publish", lake.place.uri, "--yes", "--catalog", lake.catalog)
    assert done.returncode == 0, done.stderr


def fold(lake: Lake) -> None:
    done = run("lake", "fold", lake.place.uri, "--catalog", lake.catalog)
    assert done.returncode == 0, done.stderr


def maintain(lake: Lake) -> None:
    done = run("lake", "maintain", lake.place.uri, "--catalog", lake.catalog)
    assert done.returncode == 0, done.stderr


def published_and_folded(root: Path, lake: Lake) -> "set[str]":
    """Publish with texts, and fold; the words that are in files of projections then."""
    tables.init(lake.place, lake.catalog)
    publish(root, lake)
    fold(lake)
    return {
        word
        for name, found in words_in(lake.place, canaries.LEAVES).items()
        if name.startswith(DERIVED)
        for word in found
    }


def erase_texts(root: Path) -> "set[str]":
    """Erase all that was recorded in words; the words that no event of the store has any more."""
    with Store.open(root) as store:
        before = _words_of(store)
        with store.view() as view:
            events = view.iterate(columns=("event_id", "event_type"))
            ids = [str(e["event_id"]) for e in events if e["event_type"] not in KEPT_TYPES]
        plan = erasure.plan_events(store, ids)
        erasure.erase(store, plan)
        return before - _words_of(store)


def _words_of(store: Store) -> "set[str]":
    with store.view() as view:
        text = "\n".join(str(event) for event in view.iterate()).lower()
    return {word for word in canaries.LEAVES if word in text}


def test_an_erasure_leaves_nothing_in_any_table(root: Path, lake: Lake) -> None:
    """I30: Published with texts, folded, erased, published, folded, maintained: no object holds a word."""
    in_projections = published_and_folded(root, lake)
    gone = erase_texts(root)
    assert len(in_projections & gone) > 10, in_projections
    publish(root, lake)
    fold(lake)
    maintain(lake)
    assert words_in(lake.place, gone) == {}
    assert answer("lake", "verify", lake.place.uri, "--catalog", lake.catalog)["verify"]["unfolded"] == []


def secret_store(directory: Path) -> Store:
    """A store with the canary in the title of a session, in what was asked, and in what came of it."""
    store = new_store(directory)
    set_policy(store, TEXTS)
    recorder = Recorder(store, agent="script")
    for text in ("harmless", CANARY):
        recorder.start_session("kiosk", title=f"{text} title")
        recorder.start_turn(f"{text} request").end(outcome=f"{text} outcome")
        recorder.end_session(f"{text} summary")
    return store


@pytest.fixture
def erased(file_place: Place, sqlite_catalog: str, tmp_path: Path) -> "Iterator[tuple[Store, Lake]]":
    """A lake that was folded with the canary, and the store of which it was erased since."""
    store, lake = secret_store(tmp_path / "a"), Lake(file_place, sqlite_catalog)
    folded_with_canary(store, lake)
    erase(store)
    yield store, lake
    store.close()


def folded_with_canary(store: Store, lake: Lake) -> None:
    tables.init(lake.place, lake.catalog)
    send(store, lake.place, TEXTS)
    tables.commit(lake.place, lake.catalog)
    driver.fold(lake.place, lake.catalog)
    assert {name.split("/")[1] for name in holding(lake) if name.startswith("tables/")} == {
        "turns", "sessions", "wide_turns", "wide_sessions",
    }  # fmt: skip


def holding(lake: Lake) -> "list[str]":
    """The objects with the canary."""
    return sorted(words_in(lake.place, [CANARY.lower()]))


def named_with_canary(lake: Lake) -> "list[str]":
    """Those of them that tables name now."""
    with tables.opened(lake.place, lake.catalog) as catalog:
        named = {
            name
            for table in tables.NAMES
            for name in tables.data_files(lake.place, tables.loaded(lake.place, catalog, lake.catalog, table))
        }
    return [name for name in holding(lake) if name in named]


def assert_all_is_well(lake: Lake) -> None:
    """No object has the canary, and the tables are those of a fold from nothing."""
    assert holding(lake) == []
    result = checking.verify(lake.place, lake.catalog)
    assert (result.findings, result.unfolded, result.unfolded_wide) == ([], [], False)


def test_each_step_alone_does_its_part(erased: "tuple[Store, Lake]") -> None:
    """I30: A commit and a fold name nothing with the text; `maintain` alone deletes it everywhere."""
    store, lake = erased
    send(store, lake.place, TEXTS)
    assert named_with_canary(lake)
    tables.commit(lake.place, lake.catalog)
    assert named_with_canary(lake) == [] and holding(lake)
    driver.fold(lake.place, lake.catalog)
    assert named_with_canary(lake) == [] and holding(lake)
    maintaining.maintain(lake.place, lake.catalog)
    assert_all_is_well(lake)


def test_maintain_alone_ends_an_erasure(erased: "tuple[Store, Lake]") -> None:
    """I30: Whoever publishes needs no right to the tables; rows come again with the next fold."""
    store, lake = erased
    send(store, lake.place, TEXTS)
    maintaining.maintain(lake.place, lake.catalog)
    assert holding(lake) == []
    driver.fold(lake.place, lake.catalog)
    assert_all_is_well(lake)


def test_a_fold_alone_names_nothing_that_was_erased(erased: "tuple[Store, Lake]") -> None:
    """I30: It takes out what is dead by itself."""
    store, lake = erased
    send(store, lake.place, TEXTS)
    driver.fold(lake.place, lake.catalog)
    assert named_with_canary(lake) == []


def test_a_narrower_policy_takes_texts_out_of_every_table(
    file_place: Place, sqlite_catalog: str, tmp_path: Path
) -> None:
    """I30: The next publish, fold and `maintain`: the rows are there, without the texts."""
    lake = Lake(file_place, sqlite_catalog)
    with secret_store(tmp_path / "a") as store:
        folded_with_canary(store, lake)
        set_policy(store, NOTHING)
        send(store, lake.place, NOTHING)
        tables.commit(lake.place, lake.catalog)
        assert named_with_canary(lake) == []
        driver.fold(lake.place, lake.catalog)
        maintaining.maintain(lake.place, lake.catalog)
    assert_all_is_well(lake)


@pytest.fixture(scope="module")
def killer() -> "Iterator[Killer]":
    """Forks the runs of these tests."""
    started = Killer()
    yield started
    started.close()


_EFFECTS = {"publish": 24, "fold": 40, "maintain": 60}  # about as many does each have on the place


@pytest.mark.parametrize("step", list(_EFFECTS))
def test_a_step_killed_anywhere_is_finished_by_the_next(
    killer: Killer, erased: "tuple[Store, Lake]", tmp_path: Path, step: str
) -> None:
    """I30: Killed around its k-th effect on the place; then all three once more, and nothing is left."""
    store, lake = erased
    store.close()
    steps: dict[str, tuple[object, ...]] = {
        "publish": ("--store", store.layout.root, "publish", lake.place.uri, "--yes"),
        "fold": ("lake", "fold", lake.place.uri),
        "maintain": ("lake", "maintain", lake.place.uri),
    }
    for name in list(steps)[: list(steps).index(step)]:
        assert killer.run(*steps[name], "--catalog", lake.catalog) == 0
    paths = [Path(part) for part in (store.layout.root, lake.place.uri[7:], lake.catalog[10:])]
    copy(paths, tmp_path / "template", back=False)
    chance = random.Random(int(os.environ.get("LOCUS_SEED", "5")))
    ends = []
    for number in chance.sample(range(_EFFECTS[step]), examples(3, _EFFECTS[step])):
        arguments = (*steps[step], "--catalog", lake.catalog)
        ends.append(killer.run(*arguments, kill_at=number, after=bool(number % 2)))
        for name in steps:
            assert killer.run(*steps[name], "--catalog", lake.catalog) == 0, (number, name)
        assert_all_is_well(lake)
        copy(paths, tmp_path / "template", back=True)
    assert KILLED in ends and set(ends) <= {KILLED, 0}, ends


def copy(paths: "list[Path]", template: Path, *, back: bool) -> None:
    """Copy directories and files to a template, or back from there."""
    for path in paths:
        source, target = (template / path.name, path) if back else (path, template / path.name)
        shutil.rmtree(target, ignore_errors=True)
        target.parent.mkdir(parents=True, exist_ok=True)
        (shutil.copytree if source.is_dir() else shutil.copy)(source, target)


def erase_and_publish(store: Store, lake: Lake) -> None:
    """An erasure, published by somebody with the catalog while others are at work."""
    erase(store)
    send(store, lake.place, TEXTS)
    tables.commit(lake.place, lake.catalog)


@pytest.fixture
def published(file_place: Place, sqlite_catalog: str, tmp_path: Path) -> "Iterator[tuple[Store, Lake]]":
    """A lake with the canary that nobody has folded."""
    store, lake = secret_store(tmp_path / "a"), Lake(file_place, sqlite_catalog)
    tables.init(lake.place, lake.catalog)
    send(store, lake.place, TEXTS)
    tables.commit(lake.place, lake.catalog)
    yield store, lake
    store.close()


def test_an_erasure_while_tasks_run_starts_the_fold_again(published: "tuple[Store, Lake]") -> None:
    """I30: Files of the state before exist then, and no table names them."""
    store, lake = published
    rounds = []

    def runner(run: Any, tasks: Any) -> Any:
        results = [run(task) for task in tasks]
        if not rounds:
            assert holding(lake)
            erase_and_publish(store, lake)
        rounds.append(len(results))
        return iter(results)

    done = driver.fold(lake.place, lake.catalog, runner=runner)
    assert len(rounds) == 2 and done.left == []
    assert named_with_canary(lake) == [] and holding(lake)
    maintaining.maintain(lake.place, lake.catalog)
    assert_all_is_well(lake)


@pytest.mark.parametrize("table", [*TABLES, *wide.TABLES])
def test_an_erasure_just_before_a_commit_of_the_fold_is_taken_out(
    published: "tuple[Store, Lake]", monkeypatch: pytest.MonkeyPatch, table: str
) -> None:
    """I30: After it last read the chains, and after the publisher's own commit: the fold looks again."""
    store, lake = published
    former = tables.swapped
    late = []

    def swapped(loaded: Any, added: Any, removed: Any) -> bool:
        if loaded.name()[-1] == table and added and not late:
            late.append(table)
            with monkeypatch.context() as patch:
                patch.setattr(tables, "swapped", former)
                erase_and_publish(store, lake)
        return former(loaded, added, removed)

    monkeypatch.setattr(tables, "swapped", swapped)
    assert driver.fold(lake.place, lake.catalog).left == [] and late
    assert named_with_canary(lake) == []
    driver.fold(lake.place, lake.catalog)  # of a store whose rows the publisher took out meanwhile
    maintaining.maintain(lake.place, lake.catalog)
    assert_all_is_well(lake)


def test_a_fold_that_is_held_while_somebody_erases_and_then_killed(
    s3_place: Place, s3: S3Server, postgres_catalog: str, tmp_path: Path
) -> None:
    """I30: A real process at a request that the server holds, while others erase, publish and commit."""
    lake = Lake(s3_place, postgres_catalog)
    tables.init(lake.place, lake.catalog)
    chance = random.Random(int(os.environ.get("LOCUS_SEED", "9")))
    for number in chance.sample(range(12, 60), examples(2, 20)):
        with secret_store(tmp_path / str(number)) as store:
            send(store, lake.place, TEXTS)
            tables.commit(lake.place, lake.catalog)
            s3.hold(number)
            command = ["lake", "fold", lake.place.uri, "--catalog", lake.catalog]
            process = subprocess.Popen(
                [sys.executable, "-m", "locus_cli", *command],
                stdin=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            )
            try:
                while not s3.counts()["held"] and process.poll() is None:
                    time.sleep(0.02)
                erase_and_publish(store, lake)
            finally:
                process.kill()
                process.wait()
                s3.reset()
        driver.fold(lake.place, lake.catalog)
        assert named_with_canary(lake) == [], number
        maintaining.maintain(lake.place, lake.catalog)
        assert_all_is_well(lake)


def test_a_publisher_learns_what_tables_still_have(
    erased: "tuple[Store, Lake]", locus: Locus, monkeypatch: pytest.MonkeyPatch
) -> None:
    """P7: Without the right to a table: which still has what was erased, and who mends it; exit code 4."""
    store, lake = erased
    send(store, lake.place, TEXTS)  # the rewrite; what follows comes after it
    record(store, 1)
    former = Place.create

    def create(self: Place, name: str, data: bytes) -> bool:
        if name.startswith("tables/turns/"):
            raise Refused(f"{self.address(name)} cannot be created: the storage refuses it.")
        return former(self, name, data)

    publishing = ("--store", store.layout.root, "publish", lake.place.uri, "--yes")
    with monkeypatch.context() as patch:
        patch.setattr(Place, "create", create)
        done = locus(*publishing, "--catalog", lake.catalog)
    assert done.code == 4
    assert "Not taken out of all tables:\n  lake.turns may have rows of before an erasure" in done.err
    assert "Have somebody with the right run `locus lake maintain`." in done.err
    assert {name.split("/")[1] for name in named_with_canary(lake)} == {"turns"}
    assert locus(*publishing, "--catalog", lake.catalog).code == 0
    assert named_with_canary(lake) == []


def test_the_commands_name_tables_of_projections(
    file_place: Place, sqlite_catalog: str, tmp_path: Path, locus: Locus
) -> None:
    """The plan of an erasure, the plan of a narrower policy, and what a publish says after each."""
    lake = Lake(file_place, sqlite_catalog)
    with secret_store(tmp_path / "a") as store:
        folded_with_canary(store, lake)
        options = ("--store", store.layout.root)
        plan = locus(*options, "store", "erase", "--secret", CANARY).err
        assert f"`locus lake maintain {lake.place.uri} --catalog URI` out of the tables made of it" in plan
        erase(store)
        done = locus(*options, "publish", lake.place.uri, "--yes")
        assert "tables there, also those of projections, still have what was taken out" in done.err
        set_policy(store, NOTHING)
        plan = locus(*options, "publish", lake.place.uri, "--dry-run").text
        assert "also of projections, lose their rows with `locus lake maintain`" in plan
        done = locus(*options, "publish", lake.place.uri, "--yes", "--catalog", lake.catalog)
        assert "Older snapshots of the tables there, also of projections, still reach what" in done.err
