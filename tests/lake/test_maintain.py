"""Looking after a lake: `locus lake maintain` merges, commits, expires and deletes, killed anywhere."""

import os
import random
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from eventlog.base.errors import EventLogError
from eventlog.lake import maintain as maintaining
from eventlog.lake import merges, tables
from eventlog.lake import verify as checking
from eventlog.lake.chain import ERASURE, metadata_of, publication_name, read_chain, rewritten_name
from eventlog.lake.place import Place, open_place
from tests.conftest import examples
from tests.lake.conftest import Lake, S3Server
from tests.lake.small import answer, file_of, objects, positions, publish, rewrite, run

A, B = b"\xaa" * 16, b"\xbb" * 16
DAY_S = 86_400.0


def in_two_days() -> float:
    return time.time() + 2 * DAY_S


def rows_of(store_id: bytes, *spans: "tuple[int, int]") -> "list[tuple[str, int]]":
    return [(store_id.hex(), position) for base, end in spans for position in range(base, end)]


def grown(place: Place, catalog: str, files: int = 12, **options: Any) -> None:
    """Publications of a store, each committed on its own."""
    tables.init(place, catalog)
    for number in range(files):
        publish(place, A, number * 3, number * 3 + 3, **options)
        tables.commit(place, catalog)


def findings(place: Place, catalog: "str | None") -> "list[str]":
    return [finding.what for finding in checking.verify(place, catalog, reads=True).findings]


def test_maintain_merges_and_the_rows_stay(lake: Lake) -> None:
    """P1: Twelve publications become one file and the last; what snapshots name stays a day."""
    place, catalog = lake.place, lake.catalog
    grown(place, catalog)
    before = positions(place, catalog)
    done = answer("lake", "maintain", place.uri, "--catalog", catalog)["maintain"]
    assert (done["merged"], done["merged_into"], done["deleted"], done["left"]) == (11, 1, 0, [])
    assert positions(place, catalog) == before == rows_of(A, (0, 36))
    assert [(file.base, file.end) for file in read_chain(place, A).live] == [(0, 33), (33, 36)]
    assert findings(place, catalog) == []
    done_later = maintaining.maintain(place, catalog, now=in_two_days)
    assert done_later.expired == 12 and done_later.merged == 0
    assert [e.name for e in place.list("stores") if "/events/" in e.name] == [publication_name(A, 33)]
    # metadata.json, list and manifests of the one snapshot that is left
    assert sum(name.endswith(".avro") for name in objects(place)) <= 4
    assert positions(place, catalog) == before and findings(place, catalog) == []
    assert "Nothing to do" in run("lake", "maintain", place.uri, "--catalog", catalog).stderr


def test_a_merged_file_says_what_its_parts_do(file_place: Place) -> None:
    """I30, P7: Range, ids, packs of all, and only the erasures that all knew; other policies stay apart."""
    for number in range(4):
        known = '["x", "y"]' if number else '["x"]'
        publish(file_place, A, number * 3, number * 3 + 3, packs=f'["p{number}"]', erasures=known)
    wide = '{"contents": false, "paths": true, "people": "full", "texts": true}'
    for number in range(4, 8):
        publish(file_place, A, number * 3, number * 3 + 3, policy=wide)
    whole = file_of(A, 0, 12)
    assert merges.merge(file_place, A, files_min=3) == (7, 2)
    first, second, last = read_chain(file_place, A).live
    keys = metadata_of(file_place, first.name)
    file_place.create("whole", whole)
    expected = metadata_of(file_place, "whole")
    assert (keys["base"], keys["end"], keys["erasures"]) == ("0", "12", '["x"]')
    assert keys["packs"] == '["p0","p1","p2","p3"]'
    assert (keys["ids"], keys["last_event_id"]) == (expected["ids"], expected["last_event_id"])
    assert metadata_of(file_place, second.name)["policy"] == wide
    assert (last.base, last.end) == (21, 24)


def test_a_merge_never_brings_back_what_was_erased(
    file_place: Place, sqlite_catalog: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """I30: An erasure while a merge reads gets the number: the merge deletes what it made and reads again."""
    for number in range(5):
        publish(file_place, A, number * 3, number * 3 + 3, text="canary" if number == 1 else "")
    former = merges._joined

    def joined(place: Place, run: Any) -> bytes:
        data = former(place, run)
        if not read_chain(place, A).rewrites:
            rewrite(place, A, 1, ERASURE, publication_name(A, 3), 3, 6)
            place.delete(publication_name(A, 3))
        return data

    monkeypatch.setattr(merges, "_joined", joined)
    assert merges.merge(file_place, A, files_min=3) == (4, 1)
    assert [rewrite.reason for rewrite in read_chain(file_place, A).rewrites] == ["erasure", "merge"]
    assert not any(b"canary" in data for data in objects(file_place).values())


def erased(place: Place, catalog: str) -> None:
    """A lake in which a text was erased from the second of four publications, and nobody did more."""
    tables.init(place, catalog)
    for number in range(4):
        text = f"the canary sings {'x' * number}" if number == 1 else "harmless"
        publish(place, A, number * 3, number * 3 + 3, text=text)
        tables.commit(place, catalog)
    rewrite(place, A, 1, ERASURE, publication_name(A, 3), 3, 6, text="")


def canaries(place: Place, catalog: str, folder: Path) -> "list[str]":
    """Where the erased text is: in objects whatever their codec, in pieces of files, in the catalog."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    hits = []
    for name, data in objects(place).items():
        if name.endswith(".parquet"):
            titles = pq.read_table(pa.BufferReader(data), columns=["title"]).column("title").to_pylist()
            data += " ".join(filter(None, titles)).encode()
        if b"canary" in data:
            hits.append(name)
    for path in folder.rglob("*"):
        if path.is_file() and b"canary" in path.read_bytes():
            hits.append(str(path))
    if catalog.startswith("postgresql"):
        hits += [catalog for row in catalog_rows(catalog) if "canary" in row]
    return hits


def catalog_rows(catalog: str) -> "list[str]":
    import psycopg2

    connection = psycopg2.connect(catalog.replace("+psycopg2", ""))
    with connection, connection.cursor() as cursor:
        cursor.execute("select * from iceberg_tables")
        rows = [str(row) for row in cursor.fetchall()]
    connection.close()
    return rows


def old_metadata(place: Place, catalog: str) -> "set[str]":
    """Metadata of tables that the newest state does not need."""
    from eventlog.lake import snapshots

    with tables.opened(place, catalog) as opened:
        table = tables.loaded(place, opened, catalog)
        return {e.name for e in place.list("tables")} - snapshots.metadata_names(place, table)


def test_an_erasure_ends_with_maintain(lake: Lake, tmp_path: Path) -> None:
    """I30: The erased text is in no object, snapshot or database then; verify finds what is left."""
    place, catalog = lake.place, lake.catalog
    erased(place, catalog)
    assert canaries(place, catalog, tmp_path)
    assert [what.partition(":")[0] for what in findings(place, catalog)] == [
        "it was taken out by an erasure or a narrower policy",
        f"the table lacks 1 files, {read_chain(place, A).live[1].name} first",
        f"the table names 1 dead files, {publication_name(A, 3)} first",
        "2 older snapshots of lake.events reach rows that were erased",
    ]
    done = answer("lake", "maintain", place.uri, "--catalog", catalog)["maintain"]
    assert done["left"] == [] and done["expired"] == 3
    assert canaries(place, catalog, tmp_path) == []
    assert old_metadata(place, catalog) == set()
    assert findings(place, catalog) == []
    assert positions(place, catalog) == rows_of(A, (0, 12))


class Stopped(Exception):
    """A kill, for a test in one process."""


REQUESTS = ("create", "read", "read_range", "read_end", "open", "list", "directories", "delete")


def stop_after(monkeypatch: pytest.MonkeyPatch, number: int) -> "Callable[[], int]":
    """Let the process do so many requests of a place and no more; the answer counts those that were asked."""
    asked = 0
    for name in REQUESTS:
        former = getattr(Place, name)

        def request(self: Place, *arguments: Any, _former: Any = former) -> Any:
            nonlocal asked
            asked += 1
            if asked > number:
                raise Stopped
            return _former(self, *arguments)

        monkeypatch.setattr(Place, name, request)
    return lambda: asked


def test_maintain_stopped_at_every_request_is_finished_by_the_next(tmp_path: Path) -> None:
    """Each of its requests is the last once; the next run leaves no erased text, and every row."""
    last = run_until(tmp_path / "whole", 10_000)
    assert last > 60
    for number in range(0, last, max(1, last // examples(12, last))):
        run_until(tmp_path / str(number), number)


def run_until(folder: Path, number: int) -> int:
    """Maintain a lake with an erasure, stopped after so many requests; then do it again, and check all."""
    (folder / "shared").mkdir(parents=True)
    place, catalog = open_place(f"file://{folder}/shared"), f"sqlite:///{folder}/catalog.db"
    erased(place, catalog)
    with pytest.MonkeyPatch.context() as patch:
        asked = stop_after(patch, number)
        try:
            maintaining.maintain(place, catalog, files_min=3)
        except (Stopped, EventLogError):
            pass
    maintaining.maintain(place, catalog, files_min=3)
    assert canaries(place, catalog, folder) == [], number
    assert positions(place, catalog) == rows_of(A, (0, 12)), number
    assert findings(place, catalog) == [], number
    # What a killed committer had written before its commit is nobody's, and goes after a day.
    maintaining.maintain(place, catalog, now=in_two_days)
    assert old_metadata(place, catalog) == set(), number
    return asked()


def test_maintain_killed_as_a_process(s3_place: Place, s3: S3Server, postgres_catalog: str) -> None:
    """Real processes, killed while the server holds a request: the next one finishes."""
    erased(s3_place, postgres_catalog)
    chance = random.Random(int(os.environ.get("LOCUS_SEED", "3")))
    for number in sorted(chance.sample(range(8, 40), examples(3, 20))):
        s3.hold(number)
        command = ["lake", "maintain", s3_place.uri, "--catalog", postgres_catalog]
        process = subprocess.Popen(
            [sys.executable, "-m", "locus_cli", *command], stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        while not s3.counts()["held"] and process.poll() is None:
            time.sleep(0.02)
        process.kill()
        process.wait()
        s3.reset()
    assert run("lake", "maintain", s3_place.uri, "--catalog", postgres_catalog).returncode == 0
    assert canaries(s3_place, postgres_catalog, Path("/nonexistent")) == []
    assert positions(s3_place, postgres_catalog) == rows_of(A, (0, 12))
    assert findings(s3_place, postgres_catalog) == []


def test_what_may_not_be_deleted_is_listed(s3_place: Place, s3: S3Server, sqlite_catalog: str) -> None:
    """P7: Without the right to delete: exit code 4, the objects are named, all else is done."""
    erased(s3_place, sqlite_catalog)
    s3.deny("DELETE")
    done = run("lake", "maintain", s3_place.uri, "--catalog", sqlite_catalog)
    assert done.returncode == 4 and "Traceback" not in done.stderr
    assert f"left: {s3_place.address(publication_name(A, 3))} cannot be deleted" in done.stderr
    assert "Expired 3 snapshots" in done.stderr
    assert any("taken out by an erasure" in what for what in findings(s3_place, None))
    s3.reset()
    assert run("lake", "maintain", s3_place.uri, "--catalog", sqlite_catalog).returncode == 0
    assert findings(s3_place, sqlite_catalog) == []


def test_without_the_right_to_create_the_rest_is_done(
    s3_place: Place, s3: S3Server, sqlite_catalog: str
) -> None:
    """A merge that may not be made is listed, and dead objects go all the same."""
    for number in range(9):
        publish(s3_place, A, number * 3, number * 3 + 3)
    rewrite(s3_place, A, 1, ERASURE, publication_name(A, 3), 3, 6)
    s3.deny("PUT")
    done = maintaining.maintain(s3_place)
    assert done.deleted == 1 and [line.partition(":")[0] for line in done.left] == ["not merged"]


def test_without_the_catalog_merged_files_stay_for_the_tables(file_place: Place, sqlite_catalog: str) -> None:
    """Tables may name what was merged away: it stays, and is listed, until the catalog is named."""
    grown(file_place, sqlite_catalog)
    done = run("lake", "maintain", file_place.uri)
    assert done.returncode == 4 and "11 merged files" in done.stderr and "--catalog" in done.stderr
    assert len(file_place.list(f"stores/{A.hex()}/events")) == 12
    assert positions(file_place, sqlite_catalog) == rows_of(A, (0, 36))


def test_without_tables_merged_files_go_at_once(file_place: Place) -> None:
    """No table can name them, so nothing waits."""
    for number in range(9):
        publish(file_place, A, number, number + 1)
    done = maintaining.maintain(file_place)
    assert (done.merged, done.deleted, done.left) == (8, 8, [])
    assert findings(file_place, None) == []


def test_what_nobody_ever_named_goes_after_a_day(lake: Lake) -> None:
    """P1: Files for no rewrite, packs and manifests that nothing names go, but not before a day is over."""
    place, catalog = lake.place, lake.catalog
    grown(place, catalog, files=2)
    begun = rewritten_name(A, 1, 0, "1" * 64)
    pack = f"stores/{A.hex()}/packs/{'2' * 64}.evp"
    named = f"stores/{A.hex()}/packs/{'3' * 64}.evp"
    orphans = [begun, pack, "tables/events/metadata/somebody-m0.avro"]
    others = "tables/turns/metadata/of-another-table.avro"
    for name in (*orphans, named, others):
        place.create(name, b"x")
    publish(place, A, 6, 9, packs=f'["{"3" * 64}"]')
    assert maintaining.maintain(place, catalog).deleted == 0
    assert maintaining.maintain(place, catalog, now=in_two_days).left == []
    there = objects(place).keys()
    assert not there & set(orphans) and {named, others} <= there


def test_a_tag_that_holds_erased_rows_is_named(file_place: Place, sqlite_catalog: str) -> None:
    """A snapshot with a name of its own is not expired: the list says which tag to remove."""
    tables.init(file_place, sqlite_catalog)
    first = publish(file_place, A, 0, 3)
    tables.commit(file_place, sqlite_catalog)
    with tables.opened(file_place, sqlite_catalog) as opened:
        table = tables.loaded(file_place, opened, sqlite_catalog)
        table.manage_snapshots().create_tag(table.metadata.current_snapshot_id, "before").commit()
    rewrite(file_place, A, 1, ERASURE, first, 0, 3)
    done = maintaining.maintain(file_place, sqlite_catalog)
    assert [line for line in done.left if "tag before" in line]
    assert first not in objects(file_place)


def test_a_publication_that_comes_meanwhile_stays(
    file_place: Place, sqlite_catalog: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """P1: What is published after the chain was read is no dead object."""
    erased(file_place, sqlite_catalog)
    former = maintaining._delete_dead

    def delete_dead(place: Place, *arguments: Any) -> None:
        publish(place, A, 12, 15)
        former(place, *arguments)

    monkeypatch.setattr(maintaining, "_delete_dead", delete_dead)
    maintaining.maintain(file_place, sqlite_catalog)
    assert read_chain(file_place, A).end == 15
