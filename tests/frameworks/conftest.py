"""A store, and a directory that an agent works in."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from eventlog import Store


@pytest.fixture
def work(tmp_path: Path) -> Path:
    work = tmp_path / "work"
    work.mkdir()
    (work / "notes.txt").write_text("one\n")
    return work


@pytest.fixture
def store(work: Path) -> Iterator[Store]:
    with Store.init(work / ".locus", project_name="kiosk", repo_hash="0" * 12) as store:
        yield store


def recorded(store: Store, event_type: str) -> list[tuple[object, ...]]:
    """What the events of a type say: the tool or model, its success, and the payload's result."""
    return [
        (event["tool"] or event["model"], event["success"], event["payload"].get("result"))
        for event in store.events(event_types=[event_type])
    ]


def turns(store: Store) -> list[tuple[object, ...]]:
    """Title, status and outcome of each turn."""
    rows = store.query("select title, status, outcome from turns order by first_position").rows
    return [tuple(row) for row in rows]
