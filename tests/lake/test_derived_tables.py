"""Dead files of projections: out of every table at once, and soon gone (docs/lake-tables.md §4)."""

import time
from pathlib import Path
from typing import Any

import pytest

from eventlog.base.errors import Refused
from eventlog.lake import maintain as maintaining
from eventlog.lake import tables
from eventlog.lake.chain import ERASURE, MERGE, POLICY, publication_name, read_chain
from eventlog.lake.erased import ErasedFiles
from eventlog.lake.folding.stored import TABLES
from eventlog.lake.place import Place
from tests.lake.conftest import Lake, S3Server
from tests.lake.derived import files_in, name_in_table, projected, wide
from tests.lake.small import answer, objects, publish, rewrite, run

A, B = b"\xaa" * 16, b"\xbb" * 16
DAY_S = 86_400.0
WIDE_TABLES = ("wide_calls", "wide_turns", "wide_sessions")


def in_two_days() -> float:
    return time.time() + 2 * DAY_S


def erased_of(place: Place) -> ErasedFiles:
    return ErasedFiles({id: read_chain(place, id) for id in (A, B) if read_chain(place, id).live})


SOME = ("turns", "sessions", "wide_turns")
ALL = (*TABLES, *WIDE_TABLES)


def folded(
    place: Place,
    catalog: str,
    *stores: bytes,
    number: int = 0,
    text: str = "",
    names: "tuple[str, ...]" = SOME,
) -> None:
    """Files of tables, of these stores and of all stores together; the first store's have the text."""
    for name in names:
        if name in WIDE_TABLES:
            files = [wide(place, name, number, text=text)]
        else:
            texts = [text, *[""] * len(stores)]
            files = [
                projected(place, name, id, 3, number, text=words)
                for id, words in zip(stores, texts, strict=False)
            ]
        name_in_table(place, catalog, *files)


def lake_of_two(
    place: Place, catalog: str, text: str = "", names: "tuple[str, ...]" = SOME
) -> "tuple[str, ...]":
    """Two stores, published, committed and folded."""
    tables.init(place, catalog)
    for store_id in (A, B):
        publish(place, store_id, 0, 3, text=text if store_id == A else "")
    tables.commit(place, catalog)
    folded(place, catalog, A, B, text=text, names=names)
    return names


def stores_named(place: Place, catalog: str, table: str) -> "list[str]":
    return sorted({name.split("/")[3] for name in files_in(place, catalog, table)})


@pytest.mark.parametrize(("reason", "is_dead"), [(ERASURE, True), (POLICY, True), (MERGE, False)])
def test_a_name_says_whether_a_file_is_dead(file_place: Place, reason: str, is_dead: bool) -> None:
    """I30, P1: Dead is what knew fewer erasures or narrower policies of its store; merges take nothing."""
    first = publish(file_place, A, 0, 3)
    publish(file_place, B, 0, 3)
    before = projected(file_place, "turns", A, 3, 0)
    other = projected(file_place, "turns", B, 3, 0)
    of_all = wide(file_place, "wide_turns", 0)
    assert not any(map(erased_of(file_place).has, (first, before, other, of_all)))
    rewrite(file_place, A, 1, reason, first, 0, 3)
    erased = erased_of(file_place)
    assert [erased.has(name) for name in (first, before, other, of_all)] == [is_dead, is_dead, False, is_dead]
    after = projected(file_place, "turns", A, 3, 1)
    assert not erased.has(after) and not erased.has(wide(file_place, "wide_turns", int(is_dead)))
    assert not erased.has(publication_name(B, 0))


def test_what_nobody_can_tell_is_dead(file_place: Place) -> None:
    """I30: Files of a store without any object, and files that somebody else wrote into a table."""
    publish(file_place, B, 0, 3)
    erased = erased_of(file_place)
    assert erased.has(projected(file_place, "turns", A, 3, 0))
    assert erased.has("tables/turns/data/00000-0-7d1ab1a6.parquet")
    assert erased.has(f"tables/turns/data/{B.hex()}/00000-0-7d1ab1a6.parquet")
    assert not ErasedFiles({}, unknown=[A]).has(projected(file_place, "turns", A, 3, 0))
    assert not ErasedFiles({}, unknown=[A]).has(wide(file_place, "wide_turns", 2))


def test_a_commit_takes_dead_files_out_of_all_tables(lake: Lake) -> None:
    """I30: At once, wide ones too; files of other stores stay; again there is nothing to do."""
    place, catalog = lake.place, lake.catalog
    lake_of_two(place, catalog, names=ALL)
    assert "Nothing to commit" in run("lake", "commit", place.uri, "--catalog", catalog).stderr
    rewrite(place, A, 1, ERASURE, publication_name(A, 0), 0, 3)
    done = answer("lake", "commit", place.uri, "--catalog", catalog)["commit"]
    assert done["left"] == [] and done["tries"] == 1
    assert sorted(done["dead"]) == sorted(tables.DERIVED)
    assert all(len(names) == 1 for names in done["dead"].values())
    for table in TABLES:
        assert stores_named(place, catalog, table) == [B.hex()]
    for table in WIDE_TABLES:
        assert files_in(place, catalog, table) == []
    assert "Nothing to commit" in run("lake", "commit", place.uri, "--catalog", catalog).stderr


def test_a_merge_takes_nothing_out(file_place: Place, sqlite_catalog: str) -> None:
    """Rows stay the same, so files of projections do."""
    lake_of_two(file_place, sqlite_catalog)
    rewrite(file_place, A, 1, MERGE, publication_name(A, 0), 0, 3)
    done = tables.commit(file_place, sqlite_catalog)
    assert done.dead == {} and len(done.added) == 1
    assert stores_named(file_place, sqlite_catalog, "turns") == [A.hex(), B.hex()]


def test_the_command_names_the_tables(file_place: Place, sqlite_catalog: str) -> None:
    """What was taken out of which table, and what brings the rest again."""
    lake_of_two(file_place, sqlite_catalog)
    rewrite(file_place, A, 1, ERASURE, publication_name(A, 0), 0, 3)
    done = run("lake", "commit", file_place.uri, "--catalog", sqlite_catalog)
    assert done.returncode == 0
    assert "lake.turns: 1 file taken out, as it may hold what was erased" in done.stderr
    assert "`locus lake fold` makes it again" in done.stderr


def test_a_file_that_is_committed_meanwhile_is_seen(
    file_place: Place, sqlite_catalog: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """P1, I30: A fold of before an erasure that commits after this commit has read the table: tried again."""
    lake_of_two(file_place, sqlite_catalog)
    rewrite(file_place, A, 1, ERASURE, publication_name(A, 0), 0, 3)
    former = tables.chains
    late: list[str] = []

    def chains(place: Place) -> "list[Any]":
        if not late:
            late.append(projected(place, "turns", A, 2, 0))
            name_in_table(place, sqlite_catalog, *late)
        return list(former(place))

    monkeypatch.setattr(tables, "chains", chains)
    done = tables.commit(file_place, sqlite_catalog, pause=lambda _: None)
    assert done.tries == 2 and late[0] in done.dead["lake.turns"]
    assert stores_named(file_place, sqlite_catalog, "turns") == [B.hex()]


def test_without_the_right_to_a_table_the_rest_is_done(
    file_place: Place, sqlite_catalog: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """P7: The table is named with the reason, exit code 4; all other tables lose what is dead."""
    lake_of_two(file_place, sqlite_catalog)
    rewrite(file_place, A, 1, ERASURE, publication_name(A, 0), 0, 3)
    former = Place.create

    def create(self: Place, name: str, data: bytes) -> bool:
        if name.startswith("tables/turns/"):
            raise Refused(f"{self.address(name)} cannot be created: the storage refuses it.")
        return former(self, name, data)

    with monkeypatch.context() as patch:
        patch.setattr(Place, "create", create)
        done = tables.commit(file_place, sqlite_catalog)
        (left,) = done.left
        assert left.startswith("lake.turns may have rows of before an erasure or a narrower policy: ")
        assert sorted(done.dead) == ["lake.sessions", "lake.wide_turns"]
        (left,) = maintaining.maintain(file_place, sqlite_catalog).left[:1]
        assert left.startswith("lake.turns may have rows")
    assert maintaining.maintain(file_place, sqlite_catalog).left == []
    assert stores_named(file_place, sqlite_catalog, "turns") == [B.hex()]


def test_a_publisher_without_rights_learns_what_is_left(
    s3_place: Place, s3: S3Server, sqlite_catalog: str
) -> None:
    """Exit code 4 and the tables by name, as long as they have it."""
    lake_of_two(s3_place, sqlite_catalog)
    rewrite(s3_place, A, 1, ERASURE, publication_name(A, 0), 0, 3)
    tables.commit(s3_place, sqlite_catalog)
    folded(s3_place, sqlite_catalog, A, number=0)
    s3.deny("PUT")
    done = run("lake", "commit", s3_place.uri, "--catalog", sqlite_catalog)
    assert done.returncode == 4 and "Traceback" not in done.stderr
    for table in SOME:
        assert f"left: lake.{table} may have rows of before an erasure" in done.stderr
    s3.reset()
    assert run("lake", "commit", s3_place.uri, "--catalog", sqlite_catalog).returncode == 0


def canaries(place: Place, folder: Path) -> "list[str]":
    """The objects, and files of a folder, in which the erased text is."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    hits = []
    for name, data in objects(place).items():
        if name.endswith(".parquet"):
            data += repr(pq.read_table(pa.BufferReader(data)).to_pydict()).encode()
        if b"canary" in data:
            hits.append(name)
    return hits + [str(p) for p in folder.rglob("*") if p.is_file() and b"canary" in p.read_bytes()]


def test_an_erasure_ends_in_every_table_with_maintain(lake: Lake, tmp_path: Path) -> None:
    """I30: The text is in no object, named or not, in no snapshot, list or manifest of any table."""
    place, catalog = lake.place, lake.catalog
    lake_of_two(place, catalog, text="a canary sings", names=ALL)
    unnamed = projected(place, "turns", A, 2, 0, text="a canary in a file that no table names")
    rewrite(place, A, 1, ERASURE, publication_name(A, 0), 0, 3, text="")
    folded(place, catalog, A, number=1, names=ALL)
    assert len(canaries(place, tmp_path)) > 4
    done = answer("lake", "maintain", place.uri, "--catalog", catalog)["maintain"]
    assert done["left"] == []
    assert canaries(place, tmp_path) == [] and unnamed not in objects(place)
    for table in TABLES:
        assert stores_named(place, catalog, table) == [A.hex(), B.hex()]
    assert "Nothing to do" in run("lake", "maintain", place.uri, "--catalog", catalog).stderr


def test_what_a_running_fold_has_created_stays(lake: Lake) -> None:
    """P1: Files that nothing names yet stay for a day, and what only older snapshots name as long as they."""
    place, catalog = lake.place, lake.catalog
    lake_of_two(place, catalog)
    begun = [projected(place, "turns", A, 4, 0), wide(place, "wide_turns", 0, "2")]
    others = ["tables/somebody/data/x.parquet", "tables/turns/readme"]
    for name in others:
        place.create(name, b"x")
    assert maintaining.maintain(place, catalog).deleted == 0
    with tables.opened(place, catalog) as opened:
        table = opened.load_table("lake.turns")
        table.delete(f"store_id == '{A.hex()}'")
    former = [name for name in objects(place) if f"tables/turns/data/{A.hex()}" in name]
    assert maintaining.maintain(place, catalog).deleted == 0
    done = maintaining.maintain(place, catalog, now=in_two_days)
    there = objects(place).keys()
    assert done.left == [] and not there & {*begun, *former} and set(others) <= there
    assert stores_named(place, catalog, "turns") == [B.hex()]
    assert stores_named(place, catalog, "sessions") == [A.hex(), B.hex()]
    assert {*files_in(place, catalog, "turns"), *files_in(place, catalog, "sessions")} <= there


def test_pieces_of_dead_files_go_and_those_of_a_writer_at_work_stay(
    file_place: Place, sqlite_catalog: str
) -> None:
    """I30, P1: A writer that was killed leaves NAME#NUMBER in a folder, which no list shows."""
    lake_of_two(file_place, sqlite_catalog)
    root = Path(file_place.uri.removeprefix("file://"))
    dead = projected(file_place, "turns", A, 2, 0)
    at_work = projected(file_place, "turns", B, 4, 0)
    for name in (dead, at_work):
        (root / f"{name}#1").write_bytes(b"x")
        (root / name).unlink()
    rewrite(file_place, A, 1, ERASURE, publication_name(A, 0), 0, 3)
    maintaining.maintain(file_place, sqlite_catalog)
    assert not (root / f"{dead}#1").exists() and (root / f"{at_work}#1").exists()
    maintaining.maintain(file_place, sqlite_catalog, now=in_two_days)
    assert not (root / f"{at_work}#1").exists()


def test_without_the_catalog_only_dead_files_go(file_place: Place, sqlite_catalog: str) -> None:
    """I30: What the tables name is not known, and what was erased goes all the same."""
    lake_of_two(file_place, sqlite_catalog)
    begun = projected(file_place, "turns", B, 4, 0)
    rewrite(file_place, A, 1, ERASURE, publication_name(A, 0), 0, 3)
    maintaining.maintain(file_place, now=in_two_days)
    there = objects(file_place)
    assert begun in there
    assert not any(f"data/{A.hex()}" in name or "/data/wide/" in name for name in there)


def test_files_of_a_table_that_cannot_be_read_stay(
    file_place: Place, sqlite_catalog: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """P1: Which files it names is not known, so none but dead ones go; the table is listed."""
    lake_of_two(file_place, sqlite_catalog)
    former = tables.data_files

    def data_files(place: Place, table: Any, *arguments: Any) -> Any:
        if table.name()[-1] == "turns":
            raise Refused("the storage refuses it")
        return former(place, table, *arguments)

    from eventlog.lake.snapshots import Snapshots

    reached = Snapshots.reached

    def refused(self: Snapshots) -> Any:
        if self._table.name()[-1] == "turns":
            raise Refused("the storage refuses it")
        return reached(self)

    monkeypatch.setattr(tables, "data_files", data_files)
    monkeypatch.setattr(Snapshots, "reached", refused)
    done = maintaining.maintain(file_place, sqlite_catalog, now=in_two_days)
    assert done.left == ["lake.turns: the storage refuses it"]
    assert any("tables/turns/data" in name for name in objects(file_place))


def test_a_tag_on_a_table_of_projections_is_named(file_place: Place, sqlite_catalog: str) -> None:
    """I30: Its snapshot stays, and the list says which tag of which table; the objects go all the same."""
    lake_of_two(file_place, sqlite_catalog, text="canary")
    with tables.opened(file_place, sqlite_catalog) as opened:
        table = opened.load_table("lake.turns")
        table.manage_snapshots().create_tag(table.metadata.current_snapshot_id, "before").commit()
    rewrite(file_place, A, 1, ERASURE, publication_name(A, 0), 0, 3)
    done = run("lake", "maintain", file_place.uri, "--catalog", sqlite_catalog)
    assert done.returncode == 4
    assert "left: the branch or tag before of lake.turns reaches rows that were erased" in done.stderr
    assert canaries(file_place, Path("/nonexistent")) == []


def test_manifests_have_no_text(file_place: Place, sqlite_catalog: str) -> None:
    """I30, P1: Of no table's columns of words a single character."""
    lake_of_two(file_place, sqlite_catalog, text="canary of a title", names=ALL)
    metadata = [data for name, data in objects(file_place).items() if "/metadata/" in name]
    assert len(metadata) > len(tables.DERIVED) and not any(b"canary" in data for data in metadata)
