"""Looking for words: what a search takes, and what it takes to index new events."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from itertools import islice
from pathlib import Path

from benchmarks.frame import BYTES_UNIT, TIME_UNIT, Bench, Row, Sides
from benchmarks.process import locus, run, seconds_of
from benchmarks.repository import shared_repository
from benchmarks.stores import SealedStore, fill, sealed_store
from benchmarks.workload import Blocks
from eventlog import Store
from eventlog.blobs.ids import from_texts
from eventlog.search import document, find, index, query

_NEW_EVENTS = 10_000
_BATCH = 10_000
# Words that a fifth of all events hold, words that few do, a phrase, a beginning, and one that nobody wrote.
QUERIES = (
    "parser",
    "refusal deadline",
    '"missing key"',
    "AssertionError -token",
    "dead* retry",
    "kubernetes",
)

Text = tuple[int, str, str, str]


def rows() -> list[Row]:
    return [
        Row(
            name="search",
            work="six searches, each with ten hits and their snippets, store open and index up to date",
            anchor="SQLite FTS5 over the same texts: the same six, ranked, with its own snippet()",
            unit=TIME_UNIT,
            durability="neither writes",
            prepare=_search,
        ),
        Row(
            name="search-index",
            work="10,000 new sealed events brought into the search index",
            anchor="SQLite FTS5 inserting their texts, in one transaction",
            unit=TIME_UNIT,
            durability="both: WAL, synchronous = NORMAL",
            prepare=_search_index,
        ),
        Row(
            name="search-history",
            work="the search index of an imported git history made from nothing",
            anchor="SQLite FTS5 inserting the texts of its events and of each version, read beforehand",
            unit=TIME_UNIT,
            durability="both: WAL, synchronous = NORMAL",
            prepare=_search_history,
        ),
        Row(
            name="search-bytes",
            work="the search index of an imported git history",
            anchor="its segments and packs",
            unit=BYTES_UNIT,
            durability="–",
            prepare=_search_bytes,
        ),
    ]


@contextmanager
def _search(bench: Bench) -> Iterator[Sides]:
    sealed = _source(bench)
    with sealed.copy(bench, "search") as path, Store.open(path) as store:
        index.update(store)
        anchor = f"{path}.anchor"
        _fill_anchor(store, anchor)
        with closing(sqlite3.connect(anchor)) as con:
            yield Sides(
                ours=lambda: seconds_of(lambda: _ours(store)),
                anchor=lambda: seconds_of(lambda: _theirs(con)),
                size=f"{sealed.events:,} events, {len(QUERIES)} searches",
                facts={
                    "index MB": os.path.getsize(index.path_of(store.layout)) / 1e6,
                    "anchor MB": os.path.getsize(anchor) / 1e6,
                },
            )


@contextmanager
def _search_index(bench: Bench) -> Iterator[Sides]:
    sealed = _source(bench)
    with sealed.copy(bench, "search-index") as path, Store.open(path) as store:
        index.update(store)
        anchor = f"{path}.anchor"
        _fill_anchor(store, anchor)
        waiting: list[list[Text]] = []

        def ours() -> float:
            with store.view() as view:
                since = view.next_position
            store.journal.append(sealed.next_lines(_NEW_EVENTS // 2))
            store.journal.append(sealed.next_lines(_NEW_EVENTS // 2))
            store.seal()
            waiting.append(list(_texts(store, since)))
            os.sync()
            return seconds_of(lambda: index.update(store))

        def theirs() -> float:
            with closing(_opened(anchor)) as con:
                return seconds_of(lambda: _insert(con, waiting.pop()))

        yield Sides(ours=ours, anchor=theirs, size=f"{_NEW_EVENTS:,} events after {sealed.events:,}")


@contextmanager
def _search_history(bench: Bench) -> Iterator[Sides]:
    with _imported(bench, "search-history") as store:
        texts = [*_texts(store, 0), *_contents(store)]
        anchor = f"{store.layout.root}.anchor"

        def ours() -> float:
            index.discard(store)
            return seconds_of(lambda: index.update(store))

        def theirs() -> float:
            for name in (anchor, f"{anchor}-wal", f"{anchor}-shm"):
                Path(name).unlink(missing_ok=True)
            with closing(_opened(anchor)) as con:
                return seconds_of(lambda: _insert(con, texts))

        yield Sides(ours=ours, anchor=theirs, size=f"{len(texts):,} events and versions")


@contextmanager
def _search_bytes(bench: Bench) -> Iterator[Sides]:
    with _imported(bench, "search-bytes") as store:
        index.update(store)
        root = Path(store.layout.root)
        packed = [
            file.stat().st_size
            for name in ("log/segments", "snapshots/packs")
            for file in (root / name).iterdir()
        ]
        size = os.path.getsize(index.path_of(store.layout))
        yield Sides(
            ours=lambda: float(size),
            anchor=lambda: float(sum(packed)),
            size=f"{sum(1 for _ in _contents(store)):,} versions",
        )


@contextmanager
def _imported(bench: Bench, name: str) -> Iterator[Store]:
    """A store with the history of a repository."""
    repository = shared_repository(bench, commits=bench.pick(1_000, 4_000), files=bench.pick(300, 1_500))
    with bench.scratch(name) as directory:
        Store.init(f"{directory}/store").close()
        run([*locus(), "--store", f"{directory}/store", "import", "git", repository])
        with Store.open(f"{directory}/store") as store:
            store.seal()
            yield store


def _contents(store: Store) -> Iterator[Text]:
    """What the files held after each change, ready to be inserted."""
    names = ("position", "path", "after_hash")
    with store.view() as view:
        for event in view.iterate(event_types=("file",), columns=names):
            for id in from_texts((event["after_hash"],)):
                text = document.text_of(store.blobs.get(id))
                if text is not None:
                    yield (1 << 40) + int(str(event["position"])), "", str(event["path"]), text


def _source(bench: Bench) -> SealedStore:
    """A tenth of what other rows take in a short run: indexing it twice takes most of the time."""
    if not bench.small:
        return sealed_store(bench)

    def build() -> SealedStore:
        path = bench.new_directory("searched") + "/store"
        lines = Blocks(bench.seed).lines()
        with Store.init(path) as store:
            fill(store, lines, 30_000)
            store.seal()
        return SealedStore(path, 30_000, 1, lines)

    found = bench.shared("searched store", build)
    assert isinstance(found, SealedStore)
    return found


def _ours(store: Store) -> None:
    for text in QUERIES:
        find.search(store, query.parse(text))


def _theirs(con: sqlite3.Connection) -> None:
    for text in QUERIES:
        con.execute(
            "SELECT rowid, rank, title, path, snippet(texts, 2, '[', ']', '…', 30) FROM texts "
            "WHERE texts MATCH ? ORDER BY rank LIMIT 10",
            [_as_fts5(text)],
        ).fetchall()


def _as_fts5(text: str) -> str:
    return text.replace(" -", " NOT ").replace("dead* ", "dead* AND ")


def _opened(path: str) -> sqlite3.Connection:
    con = sqlite3.connect(path, isolation_level=None)
    con.execute("PRAGMA journal_mode = WAL")
    con.execute("PRAGMA synchronous = NORMAL")
    con.execute(
        "CREATE VIRTUAL TABLE IF NOT EXISTS texts "
        "USING fts5(title, path, body, tokenize='unicode61 remove_diacritics 2')"
    )
    return con


def _fill_anchor(store: Store, path: str) -> None:
    texts = _texts(store, 0)
    with closing(_opened(path)) as con:
        while batch := list(islice(texts, _BATCH)):
            _insert(con, batch)


def _insert(con: sqlite3.Connection, texts: list[Text]) -> None:
    con.execute("BEGIN")
    con.executemany("INSERT INTO texts(rowid, title, path, body) VALUES (?, ?, ?, ?)", texts)
    con.execute("COMMIT")


def _texts(store: Store, since: int) -> Iterator[Text]:
    """What we index of the events, ready to be inserted."""
    names = ("position", "event_type", "title", "tool", "error_type", "path", "payload")
    with store.view() as view:
        for batch in view.batches(since, columns=names):
            columns = [batch[name].to_pylist() for name in names]
            bodies = document.bodies_of(columns[-1], columns[2])
            for at, kind, title, tool, error_type, path, body in zip(*columns[:-1], bodies, strict=True):
                head = " ".join(text for text in (title, tool, error_type) if text)
                if kind not in document.UNSEARCHED_TYPES and (head or path or body):
                    yield at, head, path or "", body
