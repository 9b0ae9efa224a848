"""What was erased is in no table, snapshot, manifest or object of a lake that was folded."""

import shutil
from pathlib import Path

import pytest

from eventlog.erasure import erasure
from eventlog.lake import tables
from eventlog.lake.policy import Policy
from eventlog.log.erased_rows import KEPT_TYPES
from eventlog.store import Store
from tests.lake import canaries
from tests.lake.conftest import Lake
from tests.lake.publishing import set_policy
from tests.lake.small import answer, run
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
    """Publish with texts, and fold; the words that stand in files of projections then."""
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
