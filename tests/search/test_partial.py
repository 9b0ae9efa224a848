"""An index that is not whole: the newest first, what is not searched is stated, and nothing of it is lost."""

import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path

import pytest

from eventlog.blobs.ids import blob_id, to_text
from eventlog.blobs.tree import TreeEntry
from eventlog.search import find, index, query
from eventlog.store import Store
from tests.older import append_as_before
from tests.search.test_index import event_of, ids, put_file, search

LARGE = {"data": "0" * 20_000}


def long_log(store: Store) -> None:
    """More than one piece: `early` in the first event, `late` in the last, `word` in each."""
    for first in range(0, 1_200, 600):
        words = {0: "word early", 1_199: "word late"}
        store.append(
            [
                event_of(n, "", payload={"text": words.get(n, "word"), **LARGE})
                for n in range(first, first + 600)
            ]
        )


@pytest.mark.slow
def test_the_newest_is_searched_first_and_the_rest_is_reported(store: Store) -> None:
    """P7: what the time suffices for is the newest; by and by everything is found."""
    long_log(store)

    late = find.search(store, query.parse("late"), seconds=0.0)
    assert ids(late) == [1_199] and 0 < late.missing < late.events == 1_200
    early = find.search(store, query.parse("early"), seconds=None)
    assert (ids(early), early.missing) == ([0], 0)


def test_a_content_that_comes_later_is_found(store: Store) -> None:
    """I22: an event named it before it was stored, as deferred contents and partial clones have it."""
    put_file(store, 1, "a.py", b"first\nsame\n")
    late = to_text(blob_id(b"second\nsame\n"))
    named = {"event_type": "file", "operation": "edit", "path": "a.py", "after_hash": late, "payload": {}}
    append_as_before(store, [event_of(2, "", **named)])
    put_file(store, 3, "a.py", b"third\nsame\n")
    assert search(store, "second").hits == []
    with store.blobs.writer() as writer:
        writer.put(b"second\nsame\n")
        writer.flush()

    assert ids(search(store, "second same")) == [2]
    assert search(store, "same").hits[0].versions == 3
    answers = [(hit.position, hit.score) for hit in search(store, "same").hits]
    Path(index.path_of(store.layout)).unlink()
    assert [(hit.position, hit.score) for hit in search(store, "same").hits] == answers


def test_a_deferred_content_is_found_once_it_is_stored(store: Store) -> None:
    """I22: the event names a list instead; another tells later what the list meant."""
    deferred = to_text(blob_id(b"a list"))
    named = {"event_type": "file", "operation": "edit", "path": "src/a.py", "payload": {"deferred": deferred}}
    store.append([event_of(1, "", **named)])
    assert search(store, "backoff").hits == []
    with store.blobs.writer() as writer:
        content = writer.put(b"def backoff(): ...\n")
        src = writer.put_tree([TreeEntry(b"a.py", b"f", content, 19)])
        tree = to_text(writer.put_tree([TreeEntry(b"src", b"d", src)]))
        writer.flush()
    payload = {"before_hash": deferred, "tree_hash": tree, "event_type": "content", "operation": "stored"}
    append_as_before(store, [event_of(2, "", **payload, session_id=None, turn=None)])

    (hit,) = search(store, "backoff").hits
    assert (hit.position, hit.path, hit.after_hash) == (0, "src/a.py", to_text(content))
    assert hit.snippet == "def backoff(): ... "


def test_an_index_of_an_earlier_version_is_replaced_in_the_background(store: Store) -> None:
    """I22: nobody needs to search, and the old file does not stay."""
    old = Path(store.layout.directory("index")) / "search-6842baa0.sqlite"
    old.write_bytes(b"whatever it held")
    store.append([event_of(1, "word")])
    index.maintain(store)

    assert not old.exists() and index.exists(store.fs, store.layout)
    with index.reading(store.fs, store.layout, store.identity.store_id) as found:
        assert found is not None and found[1].covered() == 1


def test_many_versions_take_little_more_than_one(store: Store) -> None:
    """I22: what a version shares with its neighbours is not indexed again; nor are two passes larger."""
    lines = [f"line {n} of {n * 7919 % 1_000} words{n % 53} in a{n % 31} file" for n in range(2_000)]
    put_file(store, 0, "a.txt", "\n".join(lines).encode())
    index.update(store)
    one = _words(store)
    for number in range(1, 60):
        lines[number * 31 % 2_000] = f"changed {number}"
        put_file(store, number, "a.txt", "\n".join(lines).encode())
        if number % 7 == 0:
            index.update(store)
    index.update(store)

    assert search(store, "line words7").hits[0].versions == 60
    assert _words(store) < 1.5 * one


def _words(store: Store) -> int:
    with closing(sqlite3.connect(index.path_of(store.layout))) as con:
        con.execute("CREATE VIRTUAL TABLE temp.v USING fts5vocab('main', 'words', 'row')")
        return int(con.execute("SELECT sum(cnt) FROM temp.v").fetchone()[0])


@pytest.mark.slow
def test_a_killed_build_goes_on_where_it_ended(store: Store, tmp_path: Path) -> None:
    """I22: SIGKILL between and within pieces; the answers are those of a build that nobody disturbed."""
    for number in range(40):
        put_file(store, number, f"{number % 3}.py", b"".join(b"w%d\n" % (n * number % 17) for n in range(60)))
    code = (
        "import sys, time; from eventlog import Store; from eventlog.search import index, indexer\n"
        "index.PIECE_ROWS = 3\n"
        "with Store.open(sys.argv[1]) as store: index.update(store)"
    )
    for wait in (0.4, 0.7, 1.0):
        child = subprocess.Popen([sys.executable, "-c", code, store.layout.root], env=dict(os.environ))
        time.sleep(wait)
        child.send_signal(signal.SIGKILL)
        child.wait()
    copy = tmp_path / "copy/.locus"
    shutil.copytree(store.layout.root, copy, ignore=shutil.ignore_patterns("search-*"))

    with Store.open(copy) as undisturbed:
        for text in ("w1", "w3 w5", '"w2 w4"', "w1*", "w1 -w16"):
            hits = [(hit.position, hit.score, hit.versions) for hit in search(undisturbed, text).hits]
            assert [(hit.position, hit.score, hit.versions) for hit in search(store, text).hits] == hits
