"""Golden files: what earlier versions wrote is read by this one, byte for byte as it was committed."""

import json
import os
import shutil
from pathlib import Path
from typing import cast

import pytest

from eventlog.base.layout import DIRECTORIES, JOURNAL_DIR
from eventlog.base.types import COLUMN_NAMES, KIND_OF_TYPE, SCHEMA_VERSION, Event
from eventlog.blobs.ids import from_text
from eventlog.log.upcast import upcast, version_of
from eventlog.store import Store
from tests.golden.make import BIG, HERE, NEW, OLD, SCRIPT, golden_events, make

STORES = sorted(path.name for path in HERE.iterdir() if (path / "STORE").is_file())
VERSIONS = range(1, SCHEMA_VERSION + 1)
TURN = "s1s1s1s1_001"


@pytest.fixture(params=STORES)
def golden(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A copy of a golden store, with the directories that git does not keep."""
    root = tmp_path / ".locus"
    shutil.copytree(HERE / request.param, root)
    for name in DIRECTORIES:
        (root / name).mkdir(exist_ok=True)
    return root


def expected_rows(root_name: str) -> list[Event]:
    path = HERE / f"{root_name}-rows.jsonl"
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def stored_rows(store: Store) -> list[Event]:
    """What the files hold, whatever the present schema version makes of it; unknown columns left out."""
    with store.view() as view:
        rows = [{name: value for name, value in row.items() if value is not None} for row in view.iterate()]
    return [{**row, "payload": json.loads(cast(str, row["payload"]))} for row in rows]


def files_of(root: Path) -> dict[str, bytes]:
    return {str(path.relative_to(root)): path.read_bytes() for path in root.rglob("*") if path.is_file()}


@pytest.mark.parametrize("version", VERSIONS)
def test_every_schema_version_has_golden_events(version: int) -> None:
    """I23: of every version there are events of all types, together with every column, and they upcast."""
    events = golden_events(version)

    assert {event["schema_version"] for event in events} == {version}
    assert {*KIND_OF_TYPE, "cursor"} <= {cast(str, event["event_type"]) for event in events}
    assert {name for event in events for name in event} == {*COLUMN_NAMES} - {"position"}
    for event in events:
        present = upcast(dict(event))
        assert version_of(present) == SCHEMA_VERSION
        assert list(present) == list(event)


def test_a_store_of_every_format_is_among_them() -> None:
    """I23: format 1 of STORE, journal, copied journal, segment, manifest, pack and idx is there as bytes."""
    names = {path.suffix or path.name for path in (HERE / "v1").rglob("*") if path.is_file()}

    assert names == {"STORE", ".evj", ".parquet", ".json", ".evp", ".evx"}
    assert "v1" in STORES


def test_its_events_are_read(golden: Path, request: pytest.FixtureRequest) -> None:
    """I23: the same events, positions and numbers as on the day it was written, and no file is changed."""
    name = request.node.callspec.params["golden"]
    before = files_of(golden)
    with Store.open(golden) as store:
        rows = stored_rows(store)
        assert rows == expected_rows(name)
        assert [row["event_id"] for row in store.follow(timeout_s=0)] == [row["event_id"] for row in rows]
        assert {version_of(row) for row in store.events()} == {SCHEMA_VERSION}
        assert store.query("select count(*) from events").rows == [(len(rows),)]

    left = files_of(golden)
    left.pop("log/checked", None)  # derived: what was compared with its hash is remembered
    assert left == before
    written = {event["event_id"]: event for event in golden_events(int(name[1:]))}
    assert [row["event_id"] for row in rows] == list(written)
    for row in rows:
        given = written[row["event_id"]]
        assert {column: row[column] for column in given} == given


def test_its_contents_are_read(golden: Path, tmp_path: Path) -> None:
    """I23, I24, I27: every content that its events name is there, and its turn is replayed byte for byte."""
    with Store.open(golden) as store:
        named = {id for event in store.events() for id in cast("list[str]", event["blobs"] or [])}
        assert named
        for id in named:
            assert store.blobs.contains(from_text(id))
        assert store.blobs.recent_count() == 1, "the idx covers the first of two packs"
        report = store.replay(TURN, tmp_path / "end")
        store.replay(TURN, tmp_path / "start", at="start")
        assert store.verify("read") == []

    assert report.missing == []
    end = tmp_path / "end"
    assert (end / "auth.py").read_bytes() == NEW
    assert (tmp_path / "start/auth.py").read_bytes() == OLD
    assert (end / "run.sh").read_bytes() == SCRIPT
    assert os.access(end / "run.sh", os.X_OK)
    assert (end / "empty").read_bytes() == b""
    assert os.readlink(end / "latest") == "auth.py"
    assert Path(os.fsdecode(b"%s/data/caf\xc3\xa9 \xff.bin" % os.fsencode(end))).read_bytes() == BIG


def test_it_goes_on_under_this_version(golden: Path) -> None:
    """I23, I14: it is appended to, sealed and indexed, and its events stay what they were."""
    with Store.open(golden) as store:
        rows = stored_rows(store)
        end = cast(int, rows[-1]["position"]) + 1
        appended: Event = {"event_type": "note", "agent": "pi", "agent_session_id": "other"}
        assert store.append([appended]) == range(end, end + 1)
        after = stored_rows(store)
        assert (after[:-1], after[-1]["turn"], after[-1]["seq"]) == (rows, 7, 14)
        store.seal()
        store.rebuild()

        assert stored_rows(store) == after
        assert len(os.listdir(golden / JOURNAL_DIR)) == 1


def test_the_newest_golden_store_can_be_made_again(tmp_path: Path) -> None:
    """I15: the function that made it makes the same events today, from the events alone."""
    make(tmp_path / ".locus", SCHEMA_VERSION)

    with Store.open(tmp_path / ".locus") as store:
        assert stored_rows(store) == expected_rows(f"v{SCHEMA_VERSION}")
