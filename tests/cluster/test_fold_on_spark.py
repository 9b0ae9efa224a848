"""I19: `locus lake fold --master`: what tasks on Spark make is what each store says, whoever is killed."""

import json
import os
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from eventlog.lake.folding import driver
from eventlog.lake.place import Place
from eventlog.store import Store
from tests.cluster import stores as made
from tests.cluster.processes import EXECUTOR, executors_at_work, processes_with
from tests.lake.conftest import S3Server
from tests.lake.folded import as_stores_show, rows_of_stores, rows_of_tables
from tests.lake.small import answer, run

ROOT = Path(__file__).resolve().parents[2]
_WAIT_S = 240.0


@pytest.fixture(scope="module")
def _stores(tmp_path_factory: pytest.TempPathFactory) -> "Iterator[list[Store]]":
    with made.made(tmp_path_factory.mktemp("stores")) as stores:
        yield stores


@pytest.fixture
def stores(_stores: "list[Store]", s3_place: Place, sqlite_catalog: str) -> "list[Store]":
    """What they have by now is published, and in the table of events."""
    made.publish_all(s3_place, _stores)
    answer("lake", "init", s3_place.uri, "--catalog", sqlite_catalog)
    answer("lake", "commit", s3_place.uri, "--catalog", sqlite_catalog)
    return _stores


class Fold:
    """`locus lake fold --master` as a process of its own, with a task for each store."""

    def __init__(self, place: Place, catalog: str, master: str, *options: str) -> None:
        arguments = ["lake", "fold", place.uri, "--catalog", catalog, "--master", master, "--json", *options]
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tests.cluster.small_tasks", *arguments],
            cwd=ROOT,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def done(self) -> "dict[str, Any]":
        """What it did. Of Spark nothing is printed; ours says after half a minute that it is at work."""
        out, err = self.process.communicate(timeout=_WAIT_S)
        assert self.process.returncode == 0, out + err
        assert not [line for line in err.splitlines() if not line.startswith("folding")]
        answer: dict[str, Any] = json.loads(out)["fold"]
        assert not answer["left"]
        return answer

    def killed(self) -> None:
        self.process.kill()
        self.process.communicate(timeout=_WAIT_S)


def assert_equal(place: Place, catalog: str, stores: "list[Store]") -> None:
    """All rows and columns of the four tables are those that each store gives of itself."""
    assert as_stores_show(rows_of_tables(place, catalog)) == rows_of_stores(*stores)


def assert_goes_on(place: Place, catalog: str, master: str, stores: "list[Store]") -> None:
    """Events of three stores come, among them a better row of a call: only these are folded, not in full."""
    message = made.go_on(stores)
    made.publish_all(place, stores)
    driver.fold(place, catalog)
    made.beat(stores, message)
    made.publish_all(place, stores)
    done = Fold(place, catalog, master).done()
    assert (done["folded"], done["in_full"]) == (3, 0)
    assert_equal(place, catalog, stores)


def wait_for(what: "Callable[[], Any]") -> Any:
    until = time.monotonic() + _WAIT_S
    while not (value := what()):
        assert time.monotonic() < until
        time.sleep(0.05)
    return value


def test_on_one_machine_tables_are_what_each_store_says(
    stores: "list[Store]", s3_place: Place, sqlite_catalog: str
) -> None:
    """In full, and then only what is new, where a call is beaten from a session that nothing else touches."""
    done = Fold(s3_place, sqlite_catalog, "local[2]").done()
    assert (done["folded"], done["in_full"]) == (len(stores), len(stores))
    assert_equal(s3_place, sqlite_catalog, stores)
    assert_goes_on(s3_place, sqlite_catalog, "local[2]", stores)


def test_on_a_cluster_a_killed_executor_is_made_up_for(
    cluster: "dict[str, str]", stores: "list[Store]", s3_place: Place, sqlite_catalog: str, s3: S3Server
) -> None:
    """One that folded and has not yet written is killed (SIGKILL): the fold ends well, as does the next."""
    s3.hold(1, of="PUT", on="/data/")
    fold = Fold(s3_place, sqlite_catalog, cluster["SPARK_MASTER"])
    wait_for(lambda: s3.counts()["held"])
    victim = wait_for(lambda: executors_at_work(cluster["SPARK_CONF_DIR"]))[0]
    os.kill(victim, signal.SIGKILL)
    wait_for(lambda: victim not in {p.number for p in processes_with(EXECUTOR)})
    s3.resume()
    assert fold.done()["folded"] == len(stores)
    assert_equal(s3_place, sqlite_catalog, stores)
    assert_goes_on(s3_place, sqlite_catalog, cluster["SPARK_MASTER"], stores)


def test_after_a_killed_driver_the_next_fold_ends_the_work(
    cluster: "dict[str, str]", stores: "list[Store]", s3_place: Place, sqlite_catalog: str, s3: S3Server
) -> None:
    """Nothing runs on for a driver that is gone, and the next fold, in this process, makes the tables."""
    s3.hold(3, of="PUT", on="/data/")
    fold = Fold(s3_place, sqlite_catalog, cluster["SPARK_MASTER"])
    wait_for(lambda: s3.counts()["held"])
    fold.killed()
    wait_for(lambda: not processes_with(EXECUTOR))
    s3.reset()
    done = driver.fold(s3_place, sqlite_catalog)
    assert done.folded == len(stores)
    assert_equal(s3_place, sqlite_catalog, stores)


def test_beside_an_erasure(
    stores: "list[Store]", s3_place: Place, sqlite_catalog: str, s3: S3Server, tmp_path: Path
) -> None:
    """What is erased and published after a task folded it is in no row: the store is folded again."""
    store = stores[-1]
    title = f"canary-{uuid.uuid4().hex}"
    store.append(
        [{"event_type": "turn", "agent": "script", "agent_session_id": "c", "title": title, "payload": {}}]
    )
    made.publish_all(s3_place, stores)
    s3.hold(1, of="PUT", on=f"/data/{store.identity.store_id.hex()}/")
    fold = Fold(s3_place, sqlite_catalog, "local[2]")
    wait_for(lambda: s3.counts()["held"])
    erased = run("--store", store.layout.root, "store", "erase", "--secret", title, "--yes")
    assert erased.returncode == 0, erased.stderr
    made.publish_all(s3_place, stores)
    s3.resume()
    assert fold.done()["folded"] == len(stores)
    assert title not in str(rows_of_tables(s3_place, sqlite_catalog))
    assert_equal(s3_place, sqlite_catalog, stores)
