"""Iceberg tables of a lake: `locus lake init` and `commit`, any number at once, killed anywhere."""

import os
import random
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from eventlog.base.errors import EventLogError, NotFound, Refused
from eventlog.lake import tables
from eventlog.lake.chain import ERASURE, MERGE, publication_name
from eventlog.lake.place import Place
from tests.conftest import examples
from tests.lake.conftest import Lake
from tests.lake.rest_catalog import served
from tests.lake.small import answer, file_of, positions, publish, rewrite, run

A, B = b"\xaa" * 16, b"\xbb" * 16


def rows_of(store_id: bytes, *spans: "tuple[int, int]") -> "list[tuple[str, int]]":
    return [(store_id.hex(), position) for base, end in spans for position in range(base, end)]


def test_tables_follow_the_objects(lake: Lake) -> None:
    """`init`, then `commit`: the rows are those of the publications of all stores; again, nothing changes."""
    place, catalog = lake.place, lake.catalog
    publish(place, A, 0, 10)
    publish(place, A, 10, 25)
    publish(place, B, 0, 3)
    assert answer("lake", "init", place.uri, "--catalog", catalog)["init"]["made"]
    assert not answer("lake", "init", place.uri, "--catalog", catalog)["init"]["made"]
    done = answer("lake", "commit", place.uri, "--catalog", catalog)["commit"]
    assert (len(done["added"]), done["removed"], done["rows_added"]) == (3, [], 28)
    assert positions(place, catalog) == rows_of(A, (0, 25)) + rows_of(B, (0, 3))
    assert "Nothing to commit" in run("lake", "commit", place.uri, "--catalog", catalog).stderr
    publish(place, B, 3, 5)
    assert "1 file added, with 2 rows" in run("lake", "commit", place.uri, "--catalog", catalog).stderr
    assert positions(place, catalog) == rows_of(A, (0, 25)) + rows_of(B, (0, 5))


def test_a_rewrite_takes_rows_out_and_in_at_once(file_place: Place, catalog: str) -> None:
    """I30: One commit takes the rows of a file that is gone out and those of the new one in."""
    tables.init(file_place, catalog)
    first = publish(file_place, A, 0, 10)
    publish(file_place, A, 10, 20)
    tables.commit(file_place, catalog)
    rewrite(file_place, A, 1, ERASURE, first, 0, 10, skips=(4,))
    publish(file_place, A, 20, 40)
    done = tables.commit(file_place, catalog)
    assert done.removed == [first] and len(done.added) == 2
    assert positions(file_place, catalog) == rows_of(A, (0, 4), (5, 40))
    with tables.opened(file_place, catalog) as opened:
        table = tables.loaded(file_place, opened, catalog)
        assert all(s.summary.operation.value in ("append", "overwrite") for s in table.metadata.snapshots)
        assert len(table.metadata.snapshots) == 2  # one for each commit, none half done


def test_a_file_without_rows_is_in_no_table(file_place: Place, sqlite_catalog: str) -> None:
    """A file whose events were all erased counts in the chain, and not in the table."""
    tables.init(file_place, sqlite_catalog)
    publish(file_place, A, 0, 3, skips=(0, 1, 2))
    publish(file_place, A, 3, 5)
    assert len(tables.commit(file_place, sqlite_catalog).added) == 1
    assert tables.commit(file_place, sqlite_catalog).added == []
    assert positions(file_place, sqlite_catalog) == rows_of(A, (3, 5))


def test_an_older_state_of_the_objects_never_replaces_a_newer(
    file_place: Place, sqlite_catalog: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """P1: A committer that read the table, and slept while others committed, is refused and starts again."""
    tables.init(file_place, sqlite_catalog)
    publish(file_place, A, 0, 10)
    former = tables.chains
    slept = []

    def chains(place: Place) -> "list[object]":
        state = list(former(place))
        if not slept:
            slept.append(True)
            publish(place, A, 10, 20)
            tables.commit(place, sqlite_catalog)
        return state

    monkeypatch.setattr(tables, "chains", chains)
    done = tables.commit(file_place, sqlite_catalog, pause=lambda _: None)
    assert done.tries == 2 and done.added == []
    assert positions(file_place, sqlite_catalog) == rows_of(A, (0, 20))


def test_tries_are_bounded(file_place: Place, sqlite_catalog: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """P7: Where others commit at each try, it ends with what to do; each pause is random and short."""
    tables.init(file_place, sqlite_catalog)
    publish(file_place, A, 0, 10)
    monkeypatch.setattr(tables, "swapped", lambda table, added, removed: False)
    pauses: list[float] = []
    with pytest.raises(Refused, match=r"at each of 3 tries.*Run `locus lake commit` again"):
        tables.commit(file_place, sqlite_catalog, tries=3, pause=pauses.append)
    assert len(set(pauses)) == 3 and max(pauses) <= 0.4


def test_bounds_hold_no_text(file_place: Place, sqlite_catalog: str) -> None:
    """I30, P1: Manifests have whole store ids, and of no text a single character."""
    tables.init(file_place, sqlite_catalog)
    publish(file_place, A, 0, 10, text="canary of a title")
    tables.commit(file_place, sqlite_catalog)
    metadata = [file_place.read(e.name) for e in file_place.list("tables")]
    assert not any(b"canary" in data for data in metadata)
    with tables.opened(file_place, sqlite_catalog) as opened:
        table = tables.loaded(file_place, opened, sqlite_catalog)
        (data_file,) = tables.data_files(file_place, table).values()
        names = {table.schema().find_field(key).name for key in data_file.lower_bounds}
        assert names == {"store_id", "position", "event_type", "session_id"}
        assert data_file.lower_bounds[table.schema().find_field("store_id").field_id] == A.hex().encode()


@pytest.mark.parametrize("kind", ["folder", "bucket"])
def test_committers_and_publishers_killed_anywhere(kind: str, request: pytest.FixtureRequest) -> None:
    """Committers and a maintainer are killed at random moments while others publish: each row once."""
    names = ("file", "sqlite") if kind == "folder" else ("s3", "postgres")
    place: Place = request.getfixturevalue(f"{names[0]}_place")
    catalog: str = request.getfixturevalue(f"{names[1]}_catalog")
    tables.init(place, catalog)
    chance = random.Random(int(os.environ.get("LOCUS_SEED", "7")))
    command = [sys.executable, "-m", "tests.lake.committer", place.uri, catalog]
    position = 0
    for _ in range(examples(2, 20)):
        running = [
            subprocess.Popen([*command, verb], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE)
            for verb in ("commit", "commit", "maintain")
        ]
        for process in running:
            assert process.stdout is not None and process.stdout.readline() == b"ready\n"
            process.stdout.close()
        until = time.monotonic() + chance.uniform(0.2, 1.2)
        while time.monotonic() < until:
            publish(place, A, position, position + 2)
            position += 2
            time.sleep(0.02)
        for process in running:
            process.send_signal(signal.SIGKILL)
            process.wait()
    answer("lake", "commit", place.uri, "--catalog", catalog)
    assert positions(place, catalog) == rows_of(A, (0, position))
    assert run("lake", "verify", place.uri, "--catalog", catalog, "--read").stderr.endswith("0 findings.\n")
    with tables.opened(place, catalog) as opened:
        commits = len(tables.loaded(place, opened, catalog).metadata.snapshots)
    assert commits > 1, "no committer came to commit before it was killed"


def test_processes_that_init_and_commit_at_once_agree(place: Place, postgres_catalog: str) -> None:
    """Eight threads make the tables, then eight commit: one table, each row once."""
    for number in range(5):
        publish(place, A, number * 2, number * 2 + 2)
    with ThreadPoolExecutor(8) as threads:
        assert list(threads.map(lambda _: tables.init(place, postgres_catalog), range(8))).count(True) == 1
        done = list(threads.map(lambda _: tables.commit(place, postgres_catalog), range(8)))
    assert sorted(name for each in done for name in each.added) == [
        publication_name(A, number * 2) for number in range(5)
    ]
    assert positions(place, postgres_catalog) == rows_of(A, (0, 10))


@pytest.mark.parametrize(
    ("catalog", "words"),
    [
        ("mongodb://someone:secret@host/x", "no address of a catalog"),
        ("catalog.db", "no address of a catalog"),
        ("sqlite:////nowhere/at/all.db", "locus lake init"),
        ("postgresql+psycopg2://someone:secret@127.0.0.1:1/x", "cannot be used"),
        ("http://someone:secret@127.0.0.1:1/", "cannot be used"),
    ],
)
def test_a_wrong_catalog_is_named_without_its_password(file_place: Place, catalog: str, words: str) -> None:
    """P7: An address that is no catalog, or one that does not answer: what is wrong, and no password."""
    done = run("lake", "commit", file_place.uri, "--catalog", catalog)
    assert done.returncode in (1, 3) and words in done.stderr
    assert "secret" not in done.stderr + done.stdout and "Traceback" not in done.stderr


def test_commit_without_tables_says_how_to_make_them(file_place: Place, catalog: str) -> None:
    """Before `init`, in a catalog that is empty: the command that makes the tables."""
    with pytest.raises(NotFound, match=f"locus lake init {file_place.uri}"):
        tables.commit(file_place, catalog)


def test_tables_of_another_place_are_refused(file_place: Place, s3_place: Place, sqlite_catalog: str) -> None:
    """P7: A catalog whose tables are those of another place is not touched."""
    tables.init(file_place, sqlite_catalog)
    publish(s3_place, A, 0, 3)
    for attempt in (tables.init, tables.commit):
        with pytest.raises(Refused, match="not in s3://lake"):
            attempt(s3_place, sqlite_catalog)
    assert positions(file_place, sqlite_catalog) == []


def test_a_file_that_is_no_parquet_is_named(file_place: Place, sqlite_catalog: str) -> None:
    """Damage at the end of a published file: its address, and nothing is committed."""
    tables.init(file_place, sqlite_catalog)
    publish(file_place, A, 0, 3)
    file_place.create(publication_name(A, 3), file_of(A, 3, 6)[:-3])
    with pytest.raises(EventLogError, match=f"{publication_name(A, 3)}.*no Parquet file"):
        tables.commit(file_place, sqlite_catalog)
    assert positions(file_place, sqlite_catalog) == []


def test_merged_rows_are_the_same_rows(file_place: Place, sqlite_catalog: str) -> None:
    """After a merge of two files the table has each row once, also for whoever committed just before."""
    tables.init(file_place, sqlite_catalog)
    publish(file_place, A, 0, 10)
    second = publish(file_place, A, 10, 20)
    tables.commit(file_place, sqlite_catalog)
    rewrite(file_place, A, 1, MERGE, second, 0, 20)  # covers the first publication, too
    tables.commit(file_place, sqlite_catalog)
    assert positions(file_place, sqlite_catalog) == rows_of(A, (0, 20))


def test_a_rest_catalog_does_as_well(file_place: Place, sqlite_catalog: str) -> None:
    """Over Iceberg's REST protocol: made, committed by four at once, rewritten and maintained."""
    with served(file_place, sqlite_catalog) as catalog:
        assert "lake.events" in run("lake", "init", file_place.uri, "--catalog", catalog).stderr
        first = publish(file_place, A, 0, 10)
        publish(file_place, A, 10, 20)
        with ThreadPoolExecutor(4) as threads:
            done = list(threads.map(lambda _: tables.commit(file_place, catalog), range(4)))
        assert sum(each.rows_added for each in done) == 20
        rewrite(file_place, A, 1, ERASURE, first, 0, 10, skips=(4,))
        assert run("lake", "maintain", file_place.uri, "--catalog", catalog).returncode == 0
        assert run("lake", "verify", file_place.uri, "--catalog", catalog).returncode == 0
        assert positions(file_place, catalog) == rows_of(A, (0, 4), (5, 20))


def test_a_second_catalog_is_warned_of(file_place: Place, tmp_path: Path) -> None:
    """A place has one catalog: making tables in another says what becomes of those of the first."""
    first = run("lake", "init", file_place.uri, "--catalog", f"sqlite:///{tmp_path}/one.db")
    assert "A place has one catalog" not in first.stderr
    second = run("lake", "init", file_place.uri, "--catalog", f"sqlite:///{tmp_path}/two.db")
    assert second.returncode == 0 and "A place has one catalog" in second.stderr
