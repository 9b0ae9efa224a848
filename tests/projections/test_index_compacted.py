"""Indexes and merged segments: what was made from the parts serves the whole."""

import os
from dataclasses import replace
from typing import Any

import pytest

from eventlog.base.fs import REAL
from eventlog.base.layout import INDEX_DIR
from eventlog.log import manifest as manifests
from eventlog.log.compact import compact
from eventlog.projections import index, source
from eventlog.projections.verify import verify_index
from tests.projections.logs import Log, event


@pytest.fixture
def log(tmp_path: Any) -> Log:
    return Log(str(tmp_path / "log"))


def batch(first: int, count: int, session: str) -> list[dict[str, Any]]:
    kinds = ("session", "turn", "llm", "action", "file", "llm")
    return [
        event(
            kinds[i % 6], i, session_id=session, turn=1 + i % 3, completion_tokens=i, message_id=f"m{i % 4}",
            agent="pi", title=f"title {i}", payload={"user_message": f"said {i}"},
        )
        for i in range(first, first + count)
    ]  # fmt: skip


def sealed(log: Log, *firsts: int) -> None:
    for first in firsts:
        log.append(*batch(first, 12, f"s{first // 24}"))
        log.seal()


def merged(log: Log) -> None:
    assert compact(log.files, everything=True).segments
    current = manifests.read_current(log.files)
    os.utime(log.layout.manifest(current.number), (1, 1))


def used(log: Log) -> "index.Generation | None":
    with log.view() as view, source.connect() as con:
        return index.attach(con, REAL, log.layout, view.manifest)[0]


def names(log: Log) -> list[str]:
    return sorted(os.listdir(log.layout.directory(INDEX_DIR)))


def answers(log: Log) -> Any:
    """What queries say with the index, and without it."""
    with_it = log.tables()
    aside = f"{log.layout.root}/aside"
    os.rename(log.layout.directory(INDEX_DIR), aside)
    without = log.tables()
    os.rename(aside, log.layout.directory(INDEX_DIR))
    return with_it, without


def check(log: Log) -> None:
    with_it, without = answers(log)
    assert with_it == without
    with log.view() as view:
        assert list(verify_index(REAL, log.layout, view)) == []


def test_no_index_is_made_again_after_a_compaction(log: Log) -> None:
    """I19, I22: the merged segments hold what the index was made from; it serves, their files gone."""
    sealed(log, 0, 12, 24)
    report = log.make_index()
    assert report is not None
    merged(log)
    compact(log.files)  # removes what was merged

    assert len(os.listdir(log.layout.directory("log/segments"))) == 1
    assert (generation := used(log)) is not None and generation.name == report.name
    again = log.make_index()
    assert again is not None and not again.made and names(log) == [report.name]
    check(log)


def test_an_index_serves_when_it_ends_inside_a_merged_segment(log: Log) -> None:
    """I19, I20, I21: of a segment that is partly known, queries and the next index add only the rest."""
    sealed(log, 0, 12)
    log.make_index()
    sealed(log, 24, 36)
    log.append(*batch(48, 5, "s1"))
    merged(log)
    assert (generation := used(log)) is not None and generation.next_position == 24
    check(log)

    report = log.make_index()

    assert report is not None and report.incremental
    check(log)
    with source.connect() as con, log.view() as view:
        found = index.attach(con, REAL, log.layout, view.manifest)[0]
        assert found is not None
        counted = con.execute(f"select count(*), count(distinct id_hash) from {found.catalog}.event_ids")
        assert counted.fetchone() == (48, 48)


def test_an_index_survives_several_compactions(log: Log) -> None:
    """I19: what took the place of what took the place of its segments holds the same events."""
    sealed(log, 0, 12)
    log.make_index()
    sealed(log, 24)
    merged(log)
    sealed(log, 36)
    merged(log)
    sealed(log, 48)
    merged(log)

    assert (generation := used(log)) is not None and generation.next_position == 24
    check(log)


def test_a_duplicate_of_an_event_in_a_merged_segment_is_found(log: Log) -> None:
    """I8: the tail is compared with events on both sides of the place where the index ends."""
    sealed(log, 0, 12)
    log.make_index()
    sealed(log, 24)
    merged(log)
    before = len(log.events())
    log.append(*batch(6, 1, "s9"), *batch(30, 1, "s9"), *batch(90, 1, "s9"))

    assert log.rows("select count(*) from events") == [(before + 1,)]
    check(log)


def test_an_index_of_segments_that_nobody_names_any_more_is_not_used(log: Log) -> None:
    """I22: after sixteen more manifests the names of the parts are forgotten, and the log answers."""
    sealed(log, 0, 12)
    log.make_index()
    merged(log)
    compact(log.files)
    for first in range(24, 24 + 12 * manifests.MANIFESTS_KEPT, 12):
        log.append(*batch(first, 1, "s"))
        log.seal()
    merged(log)

    assert used(log) is None
    check(log)


def test_an_index_does_not_serve_what_took_the_place_without_saying_so(log: Log) -> None:
    """I22: a segment that was rewritten, and not merged, is none of those that the index was made from."""
    sealed(log, 0, 12)
    log.make_index()
    merged(log)
    current = manifests.read_current(log.files)
    following = replace(
        current, number=current.number + 1, parent=manifests.digest_of(current), superseded=()
    )
    manifests.commit(log.files, following)

    assert used(log) is None
