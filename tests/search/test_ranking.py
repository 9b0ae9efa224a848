"""What is found, and in which order, against FTS5 over every event and every version as a whole."""

import sqlite3
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eventlog.search import find, index, query, tokenizer
from eventlog.search.ranking import RankedIndex, ranked
from eventlog.store import Store
from tests.maintenance.support import make_store
from tests.search.test_index import event_of, put_file

LINE = st.lists(
    st.sampled_from(
        ["alpha", "Beta", "gamma_delta", "epsilon", "x.y", "12", "été", "日本語", "alphabet", "fooBar"]
    ),
    max_size=5,
).map(" ".join)
LINES = st.lists(LINE, max_size=30)
# A version of a path: what is cut out of the one before, and what is there instead. Or words of an event.
STEP = st.one_of(
    st.tuples(st.sampled_from(["src/alpha.py", "b"]), st.integers(0, 30), st.integers(0, 4), LINES),
    st.tuples(st.just(None), st.integers(0, 30), st.integers(0, 4), LINES),
)
ASKED = (
    "alpha",
    "alpha beta",
    "gamma_delta",
    '"alpha beta"',
    '"beta gamma"',
    '"x y 12"',
    '"alpha beta gamma delta epsilon"',
    "alph*",
    '"beta alph"*',
    "alpha -beta",
    "ete 12 -epsilon",
    "本語",
    "src",
    "bar",
    "fooBar",
    "foo_bar",
)


def whole(store: Store) -> sqlite3.Connection:
    """A table that holds each event, and each content of a path, as a row of its own."""
    con = sqlite3.connect(":memory:")
    con.execute(
        "CREATE VIRTUAL TABLE words USING fts5(title, path, body, pieces, facets, content='', "
        "tokenize='unicode61 remove_diacritics 2')"
    )
    con.execute("INSERT INTO words(words, rank) VALUES ('rank', 'bm25(6.0, 4.0, 1.0, 0.7, 0.0)')")
    met = set()
    for event in store.events():
        position, path = int(str(event["position"])), str(event["path"] or "")
        row = _texts(event["event_type"], event["payload"])
        if not row and not path:
            continue
        con.execute(
            "INSERT INTO words(rowid, path, body, pieces, facets) VALUES (?, ?, ?, ?, 'f t')",
            [position, path, row, _characters(row)],
        )
        if event["after_hash"] and (path, event["after_hash"]) not in met:
            met.add((path, event["after_hash"]))
            text = store.blob(str(event["after_hash"])).decode()
            con.execute(
                "INSERT INTO words(rowid, path, body, pieces, facets) VALUES (?, ?, ?, ?, 'f t')",
                [position + (1 << 40), path, text, _characters(text)],
            )
    return con


def _texts(kind: object, payload: object) -> str:
    assert isinstance(payload, dict)
    return str(payload.get("text", "")) if kind == "intent" else ""


def _characters(text: str) -> str:
    return tokenizer.pieces_of(text)


def expression(wanted: query.Query) -> str:
    either = [
        " OR ".join(f'"{" ".join(p.tokens)}"{" *" if p.is_prefix else ""}' for p in term.phrases)
        for term in wanted.terms
    ]
    yes = [f"({one})" for one, term in zip(either, wanted.terms, strict=True) if not term.is_unwanted]
    no = [f"({one})" for one, term in zip(either, wanted.terms, strict=True) if term.is_unwanted]
    return " AND ".join(yes) + "".join(f" NOT {one}" for one in no)


def by_scan(con: sqlite3.Connection, wanted: query.Query) -> dict[int, float]:
    sql = "SELECT rowid, rank FROM words WHERE words MATCH ?"
    return dict(con.execute(sql, [expression(wanted)]).fetchall())


def by_index(store: Store, wanted: query.Query) -> dict[int, float]:
    with index.reading(store.fs, store.layout, store.identity.store_id) as found:
        assert found is not None
        places = ranked(RankedIndex(*found), wanted, lambda _, positions: positions, 10_000)
        return {
            place.position + (0 if place.path is None else 1 << 40): pytest.approx(place.score, rel=1e-9)
            for place in places
        }


def put(
    store: Store, number: int, step: "tuple[str | None, int, int, list[str]]", held: dict[str, list[str]]
) -> None:
    path, at, cut, lines = step
    if path is None:
        store.append([event_of(number, "\n".join(lines[:3]))])
        return
    now = held.setdefault(path, [])
    now[at : at + cut] = lines
    put_file(store, number, path, "\n".join(now).encode())


@settings(max_examples=12, deadline=None)
@given(st.lists(STEP, min_size=1, max_size=8), st.sets(st.integers(0, 7)), st.integers(1, 5))
def test_versions_are_ranked_as_if_each_were_indexed_whole(
    steps: "list[tuple[str | None, int, int, list[str]]]", updates: set[int], piece: int
) -> None:
    """I22, S1-53: words, phrases over ends of lines, beginnings, words left out; whatever was indexed when,
    and in pieces of whatever size, the newest first: the same places with the same scores as a scan.
    """
    held: dict[str, list[str]] = {}
    with TemporaryDirectory() as directory, pytest.MonkeyPatch.context() as patch:
        patch.setattr(index, "PIECE_ROWS", piece)
        with make_store(Path(directory) / ".locus") as store:
            for number, step in enumerate(steps):
                put(store, number, step, held)
                if number in updates:
                    index.update(store, seconds=0.0)
            index.update(store)
            with closing(whole(store)) as con:
                for text in ASKED:
                    wanted = query.parse(text)
                    if text == '"alpha beta gamma delta epsilon"':
                        assert by_scan(con, wanted).keys() <= by_index(store, wanted).keys()
                        hits = find.search(store, wanted, limit=1_000).hits
                        assert bool(hits) == bool(by_scan(con, wanted))
                    else:
                        assert by_index(store, wanted) == by_scan(con, wanted), text
