"""Index files: made, updated, mistrusted, thrown away."""

import os
from typing import Any

import duckdb
import pytest

from eventlog.base.errors import Corruption
from eventlog.base.layout import INDEX_DIR, TMP_DIR, index_name
from eventlog.projections import index, source
from tests.projections.logs import Log, event

ASK = "SELECT session_id, event_count, completion_tokens, first_position FROM turns ORDER BY ALL"


def batch(first: int, count: int, session: str = "s1") -> list[dict[str, Any]]:
    kinds = ("turn", "llm", "action", "file")
    return [
        event(kinds[i % 4], i, session_id=session, turn=1, completion_tokens=i, path=f"f{i}")
        for i in range(first, first + count)
    ]


def indexed(log: Log) -> str:
    log.append(*batch(0, 8))
    log.seal()
    report = log.make_index()
    assert report is not None
    return report.name


def names(log: Log) -> list[str]:
    return sorted(os.listdir(log.layout.directory(INDEX_DIR)))


def test_nothing_sealed_needs_no_index(log: Log) -> None:
    """I22: the tail alone is answered from the tail."""
    log.append(*batch(0, 4))

    assert log.make_index() is None
    assert (names(log), len(log.rows(ASK))) == ([], 1)


def test_an_index_is_private_and_leaves_nothing_behind(log: Log) -> None:
    """P5: mode 0600, one file under its manifest's number, no leftovers in tmp."""
    name = indexed(log)

    assert names(log) == [name] == [index_name(1, index.code8())]
    assert os.stat(log.layout.index(name)).st_mode & 0o777 == 0o600
    assert os.listdir(log.layout.directory(TMP_DIR)) == []


def test_a_second_build_of_one_manifest_does_nothing(log: Log) -> None:
    """I19: a generation is a function of its manifest, so there is nothing to make again."""
    name = indexed(log)
    before = os.stat(log.layout.index(name)).st_ino
    report = log.make_index()

    assert report is not None and not report.made
    assert os.stat(log.layout.index(name)).st_ino == before


def test_the_next_generation_is_made_from_the_one_before(log: Log) -> None:
    """I19: incremental, and equal to the fold of the whole log."""
    indexed(log)
    log.append(*batch(8, 8), *batch(16, 4, "s2"))
    log.seal()
    report = log.make_index()
    assert report is not None and report.incremental
    incremental = log.rows(ASK)
    whole = log.make_index(fresh=True)

    assert whole is not None and not whole.incremental
    assert incremental == log.rows(ASK)


def test_the_index_of_a_small_log_is_small(log: Log) -> None:
    """P6: a log of a few hundred events has an index of no more than 300 kB, also after an update."""
    indexed(log)
    log.append(*batch(8, 400), *batch(500, 100, "s2"))
    log.seal()
    log.make_index()

    first, second = (os.stat(log.layout.index(name)).st_size for name in names(log))
    assert first < 200_000
    assert second < 300_000


def test_a_log_that_outgrew_its_blocks_gets_larger_ones(log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    """I19, I22: the index is rebuilt once, then updated again, and gives the same whatever its blocks."""
    monkeypatch.setattr(index, "SMALL_ROWS_MAX", 20)
    made = []
    for first in range(0, 40, 8):
        log.append(*batch(first, 8, f"s{first // 16}"))
        log.seal()
        report = log.make_index()
        assert report is not None
        made.append((report.incremental, block_size(log.layout.index(report.name))))
    large = log.tables()
    monkeypatch.undo()
    report = log.make_index(fresh=True)

    assert made == [(False, 16_384), (True, 16_384), (False, 262_144), (True, 262_144), (True, 262_144)]
    assert report is not None and block_size(log.layout.index(report.name)) == 16_384
    assert log.tables() == large


def block_size(path: str) -> int:
    with duckdb.connect() as con:
        con.execute(f"ATTACH '{path}' AS held (READ_ONLY)")
        row = con.execute("SELECT block_size FROM pragma_database_size() WHERE database_name = 'held'")
        return int(row.fetchall()[0][0])


def test_the_last_two_generations_stay(log: Log) -> None:
    """P6: older ones are unlinked; a query that has one open keeps reading it."""
    for i in range(4):
        log.append(*batch(i * 8, 8))
        log.seal()
        with duckdb.connect() as con:
            if i == 3:
                oldest = log.layout.index(names(log)[0])
                con.execute(f"ATTACH '{oldest}' AS held (READ_ONLY)")
            report = log.make_index()
            if i == 3:
                assert not os.path.exists(oldest)
                assert con.execute("SELECT count(*) FROM held.turns").fetchall() == [(1,)]
    assert report is not None
    assert names(log) == [index_name(n, index.code8()) for n in (3, 4)]


@pytest.mark.parametrize(("most", "tried"), [(1 << 28, (1 << 28,)), (1 << 18, (None,))])
def test_an_index_is_made_with_little_memory(
    log: Log, monkeypatch: pytest.MonkeyPatch, most: int, tried: "tuple[int | None, ...]"
) -> None:
    """I22, I35: a build that lacks memory gets what one may have at most, and only then what it needs."""
    for first in range(0, 12_000, 4_000):
        log.append(*batch(first, 4_000, f"s{first}"))
    log.seal()
    log.make_index()
    before = log.rows(ASK)
    given: list[int | None] = []
    open_ = index._open

    def opened(con: Any, path: str, memory: "int | None", small: bool = False) -> None:
        given.append(memory)
        open_(con, path, memory, small)

    monkeypatch.setattr(index, "_open", opened)
    monkeypatch.setattr(index, "_memory_bytes", lambda: 1 << 17)
    monkeypatch.setattr(index, "MEMORY_BYTES", most)

    assert log.make_index(fresh=True) is not None
    assert given[-len(tried) :] == list(tried) and given[0] == 1 << 17
    assert log.rows(ASK) == before
    assert os.listdir(log.layout.directory(TMP_DIR)) == []


def test_deleting_the_index_changes_no_answer(log: Log) -> None:
    """I22: `rm -rf index/` is always safe, the directory included."""
    name = indexed(log)
    log.append(*batch(8, 4))
    before = log.rows(ASK)
    os.unlink(log.layout.index(name))
    os.rmdir(log.layout.directory(INDEX_DIR))

    assert log.rows(ASK) == before
    assert log.make_index() is not None
    assert log.rows(ASK) == before


def test_garbage_under_an_index_name_is_reported_and_replaced(log: Log) -> None:
    """I19, S1-61: a file that is no database is not trusted, and not in the way."""
    name = indexed(log)
    before = log.rows(ASK)
    with open(log.layout.index(name), "wb") as file:
        file.write(b"not a database" * 1000)

    assert log.rows(ASK) == before
    report = log.make_index()
    assert report is not None and report.made
    assert [finding.path for finding in report.findings] == [log.layout.index(name)]
    assert log.rows(ASK) == before


def test_rot_inside_an_index_is_found_when_its_blocks_are_read(log: Log) -> None:
    """I11, I19: a query that meets a damaged block is answered from the log, and so is the next build."""
    name = indexed(log)
    log.append(*batch(8, 4))
    events = "SELECT count(*), max(context_id) FROM events"
    before, counted = log.rows(ASK), log.rows(events)
    path = log.layout.index(name)
    size = os.path.getsize(path)
    with open(path, "r+b") as file:
        for offset in range(3 * 4096, size, 4096):  # after the three headers
            file.seek(offset + 100)
            file.write(b"\xff\x00\xff\x00rot")

    assert (log.rows(ASK), log.rows(events)) == (before, counted)
    log.seal()
    assert log.make_index() is not None
    assert log.rows(ASK) == before


@pytest.mark.parametrize("share", [0.1, 0.3, 0.5, 0.7, 0.9])
def test_no_index_is_made_of_a_damaged_segment(log: Log, share: float) -> None:
    """I11: DuckDB reads over a changed byte in a page; what is kept comes from bytes that were checked."""
    log.append(*batch(0, 200))
    log.seal()
    with log.view() as view:
        path = view.segment_paths[0]
    with open(path, "r+b") as file:
        data = bytearray(file.read())
        data[int(len(data) * share)] ^= 0x10
        file.seek(0)
        file.write(data)

    with pytest.raises(Corruption, match=os.path.basename(path)):
        log.make_index()
    assert (names(log), os.listdir(log.layout.directory(TMP_DIR))) == ([], [])


def test_an_index_of_another_store_is_not_used(log: Log, tmp_path: Any) -> None:
    """I19: the name alone proves nothing; the file says which store and which segments it was made from."""
    name = indexed(log)
    other = Log(str(tmp_path / "other"))
    other.append(*batch(0, 4, "alien"))
    other.seal()
    made = other.make_index()
    assert made is not None and made.name == name
    before = log.rows(ASK)
    os.unlink(log.layout.index(name))
    os.link(other.layout.index(name), log.layout.index(name))

    assert log.rows(ASK) == before
    report = log.make_index()
    assert report is not None and len(report.findings) == 1
    assert "other segments" in report.findings[0].what


def test_an_index_from_other_code_is_left_alone(log: Log) -> None:
    """I19: the name carries a digest of the projections; a newer Locus may be using that file."""
    indexed(log)
    foreign = log.layout.index(index_name(1, "00000000"))
    with open(foreign, "wb") as file:
        file.write(b"made by another version")

    assert len(log.rows(ASK)) == 1
    assert log.make_index() is not None
    assert os.path.exists(foreign)


def test_a_missing_segment_stops_the_build(log: Log) -> None:
    """I11: an index is never made from a part of the log."""
    log.append(*batch(0, 8))
    log.seal()
    with log.view() as view:
        path = view.segment_paths[0]
    with open(path, "r+b") as file:
        file.truncate(100)
    try:
        log.make_index()
    except Exception as error:
        assert type(error).__name__ == "Corruption" and path in str(error)
    else:
        raise AssertionError("an index was built from a broken segment")
    assert (names(log), os.listdir(log.layout.directory(TMP_DIR))) == ([], [])


def test_no_bar_is_drawn_over_the_output() -> None:
    """Data alone goes to standard output, however many seconds DuckDB takes."""
    with source.connect() as con:
        assert con.execute("select current_setting('enable_progress_bar')").fetchall() == [(False,)]
