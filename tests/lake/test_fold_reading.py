"""What a fold reads of published files: the columns that it needs, checked, wherever the place is."""

from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from eventlog.lake.chain import publication_name
from eventlog.lake.folding import reading
from eventlog.lake.folding.plan import planned, tasks_of
from eventlog.lake.folding.task import run
from eventlog.lake.place import Place, open_place
from tests.lake.conftest import S3Server
from tests.lake.folded import file_of_rows, folded_names

A = b"\xaa" * 16
EVENTS = 400


def rows(payload: str) -> "list[dict[str, Any]]":
    ids = {"session_id": "s1", "turn": 1, "agent": "script", "event_kind": "fact", "source": "agent"}
    types = ("action", "llm", "intent", "turn")
    return [
        {
            "position": at,
            "event_id": f"e{at}",
            "event_type": types[at % 4],
            "payload": f"{payload}{at}",
            **ids,
        }
        for at in range(EVENTS)
    ]


def problem_of(place: Place) -> str:
    """Why the only store of a place is not folded."""
    ((folded,),) = [run(task) for task in tasks_of(place, planned(place, ()).works)]
    assert folded.files == ()
    return folded.problem


def test_of_a_large_object_only_what_is_needed_is_fetched(
    file_place: Place, s3_place: Place, s3: S3Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """P1: The fold of parts of an object is that of the whole file; no payload of a call is read."""
    monkeypatch.setattr(reading, "_WHOLE_BYTES", 0)
    events = [{**row, "payload": Random(row["position"]).randbytes(2_000).hex()} for row in rows("")]
    data = file_of_rows(A, 0, EVENTS, events)
    assert len(data) > 700_000
    for place in (file_place, s3_place):
        assert place.create(publication_name(A, 0), data)
    s3.reset()
    assert folded_names(s3_place) == folded_names(file_place)
    sent = s3.counts()["sent"]
    assert 64 << 10 < sent < len(data) // 2  # turns say their anchors in payloads


def test_a_folder_whose_name_is_a_pattern(tmp_path: Path, file_place: Place) -> None:
    """P7: DuckDB would take such a path for a pattern of names: what is there is read all the same."""
    (tmp_path / "a[b]*{c}?").mkdir()
    odd = open_place(f"file://{tmp_path}/a[b]*{{c}}%3F")
    for place in (odd, file_place):
        assert place.create(publication_name(A, 0), file_of_rows(A, 0, EVENTS, rows("{}")))
    names = folded_names(odd)
    assert names == folded_names(file_place)
    for place in (odd, file_place):
        more = [{**row, "position": row["position"] + EVENTS} for row in rows("{}")]
        assert place.create(publication_name(A, EVENTS), file_of_rows(A, EVENTS, 2 * EVENTS, more))
    assert folded_names(odd, names) == folded_names(file_place, full=True)


def test_columns_that_a_file_lacks_are_null(file_place: Place, tmp_path: Path) -> None:
    """P5: A file of a version that had fewer columns folds as one in which they are null."""
    data = file_of_rows(A, 0, EVENTS, rows("{}"))
    assert file_place.create(publication_name(A, 0), data)
    table = pq.read_table(pa.BufferReader(data)).drop_columns(["subagent_id", "extends"])
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink)
    (tmp_path / "older").mkdir()
    older = open_place(f"file://{tmp_path}/older")
    assert older.create(publication_name(A, 0), sink.getvalue().to_pybytes())
    assert folded_names(older) == folded_names(file_place)


def test_a_file_that_is_none_of_this_store_is_named(file_place: Place, s3_place: Place) -> None:
    """P7: A file of a newer format, or of another store: which it is, and nothing is folded of it."""
    newer = file_of_rows(A, 0, EVENTS, rows("{}"), format="2")
    others = file_of_rows(b"\xbb" * 16, 0, EVENTS, rows("{}"))
    for place, data, words in ((file_place, newer, "Upgrade"), (s3_place, others, "name another store")):
        assert place.create(publication_name(A, 0), data)
        problem = problem_of(place)
        assert place.address(publication_name(A, 0)) in problem and words in problem


def test_a_file_that_is_cut_short_is_named(s3_place: Place, file_place: Place) -> None:
    """I11: Half of a file, in a folder and in a bucket: its address, no rows."""
    data = file_of_rows(A, 0, EVENTS, rows("{}"))
    for place in (s3_place, file_place):
        second = file_of_rows(A, EVENTS, EVENTS + 1, [])
        assert place.create(publication_name(A, 0), data[: len(data) // 2])
        assert place.create(publication_name(A, EVENTS), second)
        problem = problem_of(place)
        assert place.address(publication_name(A, 0)) in problem and "locus lake verify --read" in problem
