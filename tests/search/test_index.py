"""The search index: what it covers, that it follows the log, and that it may go at any moment."""

import os
import random
import signal
import sqlite3
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from eventlog.base.locks import SEARCH, acquire
from eventlog.base.types import Event
from eventlog.blobs import payload_texts
from eventlog.blobs.ids import to_text
from eventlog.log import segment
from eventlog.search import find, index, query
from eventlog.store import Store
from tests.maintenance.support import make_store

SID = "abcd1234"


def event_of(number: int, text: str, **columns: object) -> Event:
    return {
        "event_id": f"{number:032x}",
        "event_type": "intent",
        "agent": "pi",
        "session_id": SID,
        "turn": 1 + number // 10,
        "occurred_at": 1_700_000_000_000_000 + number * 60_000_000,
        "payload": {"text": text, "n": number},
        **columns,
    }


def put_file(store: Store, number: int, path: str, data: bytes, **columns: object) -> None:
    with store.blobs.writer() as writer:
        content = to_text(writer.put(data))
        writer.flush()
        columns = {"event_type": "file", "operation": "edit", "path": path, "after_hash": content,
                   "blobs": [content], **columns}  # fmt: skip
        store.append([{**event_of(number, "", **columns), "payload": {}}])


def ids(answer: find.SearchAnswer) -> list[int]:
    return [int(hit.event_id, 16) for hit in answer.hits]


def search(store: Store, text: str, **filters: object) -> find.SearchAnswer:
    return find.search(store, query.parse(text), find.Filters(**filters), limit=50)  # type: ignore[arg-type]


def test_events_and_file_contents_are_found(store: Store) -> None:
    """S1-53, S1-60: by words in titles, payloads, paths and contents, sealed or not, with the turn."""
    store.append([event_of(1, "use exponential backoff", title="Retry policy"), event_of(2, "nothing here")])
    put_file(store, 3, "src/retry.py", b"def backoff(n):\n    return 2 ** n\n")
    store.seal()
    put_file(store, 14, "src/retry.py", b"def backoff(n):\n    return min(60, 2 ** n)  # capped\n")
    store.append([event_of(15, "the cap of the backoff is a minute")])

    assert sorted(ids(search(store, "backoff"))) == [1, 14, 15]
    assert ids(search(store, "retry policy")) == [1]
    (hit,) = search(store, "capped").hits
    assert (hit.is_content, hit.path, hit.turn_name, hit.versions) == (True, "src/retry.py", f"{SID}_002", 1)
    assert hit.snippet is not None and [hit.snippet[a:b] for a, b in hit.marks] == ["capped"]
    (both,) = search(store, "def backoff").hits
    assert (both.turn_name, both.versions) == (f"{SID}_002", 2)
    assert ids(search(store, "src/retry.py -capped"))[:2] == [14, 3]


def test_hits_can_be_narrowed(store: Store) -> None:
    """S1-53: by type, path, session and time; each exactly, whatever else is spelled alike."""
    store.append(
        [
            event_of(1, "word", event_type="decision", path="src/app"),
            event_of(2, "word", event_type="mcp_action", path="src-app/x", session_id="zzzz9999"),
            event_of(3, "word", event_type="mcpaction", path="src/app/main.py"),
            event_of(4, "word", path="src/application"),
        ]
    )
    assert ids(search(store, "word", event_types=("mcp_action",))) == [2]
    assert sorted(ids(search(store, "word", event_types=("decision", "intent")))) == [1, 4]
    assert sorted(ids(search(store, "word", path="src/app/"))) == [1, 3]
    assert ids(search(store, "word", sessions=("zzzz9999",))) == [2]
    assert sorted(ids(search(store, "word", since=1_700_000_000_000_000 + 3 * 60_000_000))) == [3, 4]


def test_what_is_withheld_or_bookkeeping_is_never_found(store: Store) -> None:
    """P5: contents that hold a secret, raw hook input and the store's notes are in no answer and no index."""
    secret = "AKIA" + "QW3ERT5YUI7OPAS9"
    put_file(store, 1, "conf.env", f"zanzibar aws_access_key_id = {secret}\n".encode())
    store.append([event_of(2, "zanzibar", event_type="hook"), event_of(3, "zanzibar", event_type="cursor")])
    assert store.withheld()

    assert search(store, "zanzibar").hits == []
    con = sqlite3.connect(index.path_of(store.layout))
    con.execute("CREATE VIRTUAL TABLE temp.v USING fts5vocab('main', 'words', 'row')")
    assert con.execute("SELECT * FROM temp.v WHERE term LIKE 'zanz%' OR term LIKE 'akia%'").fetchall() == []
    con.close()


def texts(store: Store) -> dict[int, set[str]]:
    return {
        int(str(e["event_id"]), 16): set(str(e["payload"]["text"]).split())  # type: ignore[index]
        for e in store.events()
        if e["event_type"] == "intent"
    }


def test_the_index_follows_the_log(store: Store) -> None:
    """I22, S1-60: indexed bit by bit, between appends, seals and a compaction, it finds what a scan finds."""
    rng = random.Random(5)
    vocabulary = [f"w{n}" for n in range(12)]
    for number in range(40):
        store.append([event_of(number, " ".join(rng.choices(vocabulary, k=4)))])
        if number % 7 == 0:
            search(store, "w1")
        if number % 13 == 0:
            store.seal()
    store.compact(everything=True)
    truth = texts(store)

    for word in vocabulary:
        assert sorted(ids(search(store, word))) == sorted(n for n, has in truth.items() if word in has)
    with_both = sorted(n for n, has in truth.items() if {"w1", "w2"} <= has and "w3" not in has)
    assert sorted(ids(search(store, "w1 w2 -w3"))) == with_both


@pytest.mark.parametrize("harm", ("deleted", "garbage", "truncated", "other store"))
def test_an_index_that_does_not_fit_is_rebuilt(store: Store, tmp_path: Path, harm: str) -> None:
    """I22, P2: deleted, damaged or foreign, it counts as absent; the answer is the same."""
    store.append([event_of(n, f"word number{n}") for n in range(30)])
    expected = ids(search(store, "word"))
    path = Path(index.path_of(store.layout))
    if harm == "deleted":
        path.unlink()
    elif harm == "garbage":
        path.write_bytes(b"not a database" * 999)
    elif harm == "truncated":
        path.write_bytes(path.read_bytes()[:5_000])
    else:
        (tmp_path / "other").mkdir()
        with make_store(tmp_path / "other/.locus") as other:
            other.append([event_of(1, "other word")])
            search(other, "word")
            path.write_bytes(Path(index.path_of(other.layout)).read_bytes())

    assert ids(search(store, "word")) == expected
    assert index.update(store) == index.IndexProgress(0, 0)


def test_an_older_copy_of_the_log_rebuilds_the_index(store: Store, tmp_path: Path) -> None:
    """I22: positions that mean other events now are reported by the last event that was indexed."""
    store.append([event_of(n, "before") for n in range(5)])
    search(store, "before")
    made = Path(index.path_of(store.layout)).read_bytes()
    (tmp_path / "again").mkdir()
    with make_store(tmp_path / "again/.locus") as again:
        store_file = Path(again.layout.store_file)
        store_file.write_bytes(Path(store.layout.store_file).read_bytes())
    with Store.open(tmp_path / "again/.locus") as again:
        again.append([event_of(100 + n, "after") for n in range(9)])
        Path(index.path_of(again.layout)).write_bytes(made)

        assert search(again, "before").hits == []
        assert len(ids(search(again, "after"))) == 9


def test_where_nothing_may_be_written_the_answer_is_whole(store: Store) -> None:
    """I22: while another process indexes, what the index lacks is searched in memory."""
    store.append([event_of(1, "old word")])
    search(store, "word")
    store.append([event_of(2, "new word")])
    with ThreadPoolExecutor(1) as another:
        lock = another.submit(acquire, store.fs, store.layout, SEARCH).result()
        answer = search(store, "word")
        another.submit(lock.release).result()
    assert (sorted(ids(answer)), answer.missing) == ([1, 2], 0)
    assert index.update(store).indexed == 1


def test_no_index_is_used_while_an_erasure_is_under_way(store: Store) -> None:
    """I30: the note of an erasure stops writers and readers of the index; the log answers."""
    store.append([event_of(1, "word")])
    search(store, "word")
    Path(store.layout.erasing).write_bytes(b"\n")
    store.append([event_of(2, "word")])
    before = Path(index.path_of(store.layout)).read_bytes()

    assert sorted(ids(search(store, "word"))) == [1, 2]
    assert Path(index.path_of(store.layout)).read_bytes() == before


@pytest.mark.slow
def test_time_bounds_what_is_indexed_and_the_rest_is_reported(store: Store) -> None:
    """P7: what the time did not suffice for is counted."""
    large = {"text": "word", "data": "0" * 20_000}  # a transaction takes so many events, or so many bytes
    for first in (0, 600):
        store.append([event_of(n, "", payload=large) for n in range(first, first + 600)])
    answer = find.search(store, query.parse("word"), limit=1, seconds=0.0)

    assert answer.hits and answer.more
    assert 0 < answer.missing < 1_200
    assert find.search(store, query.parse("word"), limit=1, seconds=None).missing == 0


@pytest.mark.slow
def test_a_killed_indexer_leaves_an_index_that_is_right(store: Store, hunt_minutes: float) -> None:
    """I22: killed at any moment it covers what it says, and the next search goes on from there."""
    store.append([event_of(n, f"word n{n % 97}") for n in range(12_000)])
    rng = random.Random(11)
    for _ in range(3 if not hunt_minutes else int(60 * hunt_minutes)):
        child = os.fork()
        if child == 0:
            try:
                index.update(store)
            finally:
                os._exit(0)
        time.sleep(rng.uniform(0.0, 0.4))
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        with index.reading(store.fs, store.layout, store.identity.store_id) as found:
            if found is not None:
                (count,) = found[0].execute("SELECT count(*) FROM words WHERE words MATCH 'word'").fetchone()
                assert count == found[1].covered()
    assert len(ids(find_all(store, "n5"))) == sum(n % 97 == 5 for n in range(12_000))


def find_all(store: Store, text: str) -> find.SearchAnswer:
    return find.search(store, query.parse(text), limit=1_000, seconds=None)


def test_the_index_is_private(store: Store) -> None:
    """P5: its files are 0600 like all others."""
    store.append([event_of(1, "word")])
    search(store, "word")
    names = [p for p in Path(store.layout.directory("index")).iterdir() if p.name.startswith("search-")]

    assert names and all(p.stat().st_mode & 0o777 == 0o600 for p in names)


def test_a_search_asks_what_is_withheld_only_for_texts_in_contents(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """P9: most payloads have their texts themselves, and a whole column is read to know what is withheld."""
    store.append([event_of(1, "use exponential backoff")])
    asked: list[object] = []
    monkeypatch.setattr(payload_texts, "withheld_in", lambda view: asked.append(view) or frozenset())

    assert ids(search(store, "backoff")) == [1]
    assert not asked


def test_a_search_reads_the_row_groups_of_its_hits_alone(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """P9: payloads of the others, which make most of a log, are not decoded."""
    monkeypatch.setattr(segment, "WRITE_OPTIONS", {**segment.WRITE_OPTIONS, "row_group_size": 10})
    store.append([event_of(number, "rare" if number in (3, 47) else "plenty") for number in range(60)])
    store.seal()
    index.update(store)
    decoded: list[int] = []

    def iter_batches(file: pq.ParquetFile, size: int, groups: list[int], *more: Any, **how: Any) -> Any:
        decoded.extend(groups)
        return original(file, size, groups, *more, **how)

    original = pq.ParquetFile.iter_batches
    monkeypatch.setattr(pq.ParquetFile, "iter_batches", iter_batches)

    assert sorted(ids(search(store, "rare"))) == [3, 47]
    assert decoded == [0, 4]
