"""How texts are cut into words, and what a query means: against SQLite itself."""

import re
import sqlite3
from contextlib import closing

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eventlog.base.errors import QueryError
from eventlog.search import query, snippet, tokenizer
from eventlog.search.ranking import RankedIndex, ranked
from eventlog.search.tables import Meta, make
from eventlog.search.tokenizer import Tokenizer
from eventlog.search.versions import IndexedVersion, Versions


def fits(text: str, wanted: str) -> bool:
    """Whether a text is found by the query, through the index's own tables, as the text of a file."""
    con = sqlite3.connect(":memory:")
    meta = Meta("a store", numbers=1)
    with closing(con), closing(Tokenizer()) as cutter:
        make(con, meta)
        version = IndexedVersion(7, 1, b"id")
        Versions(con, meta, cutter, lambda _: text).put([version], 1, 1, 0, backward=True)
        return bool(ranked(RankedIndex(con, meta), query.parse(wanted), lambda _, positions: positions, 9))


@pytest.mark.parametrize(
    ("text", "found", "not_found"),
    [
        (
            "def parse_http_request(self):",
            ("parse_http_request", "http", "parse_*", "parseHttp*"),
            ("parser",),
        ),
        (
            "return parseHTTPRequest(x)",
            ("parseHTTPRequest", "http", "parse_http_request", "request"),
            ("quest",),
        ),
        (
            "import eventlog.search.words",
            ("eventlog.search", "search words", '"search.words"'),
            ("eventlog.words",),
        ),
        ("see src/app/main.py:12", ("src/app/main.py", "app/main", "main.py", "12"), ("src/main.py",)),
        ("Der Straßenbau, café, ПРИВЕТ", ("cafe", "CAFÉ", "привет", "straßenbau -x", "café -tee"), ("caf",)),
        ("修复了登录错误 today", ("登录", "登录错误", "today", "修复"), ("录登", "错登")),
        ("ログイン画面を直す", ("画面", "ログイン"), ("面画",)),
        ("fooBar bazQux", ("foo", "bar", "qux", "foo bar", '"foo bar"'), ('"bar baz qux"', "oba")),
        (
            "the key is missing",
            ("missing key", '"is missing"', "-found key"),
            ('"missing key"', "key -missing"),
        ),
    ],
)
def test_words_are_those_of_code(text: str, found: tuple[str, ...], not_found: tuple[str, ...]) -> None:
    """S1-53: snake_case, camelCase, paths, dotted names, scripts without spaces are found by their parts."""
    assert [q for q in found if not fits(text, q)] == []
    assert [q for q in not_found if fits(text, q)] == []


HOSTILE = (
    "a' OR 1=1 --",
    'x" OR body:*',
    "NEAR(a b)",
    "a AND OR NOT b",
    "title:secret",
    "a ^ b",
    "(((a",
    "a)))",
    "{body}: a",
    "* a",
    "a**",
    "--a",
    "a -",
    "\x00a\x00",
    "é\ud800".encode("utf-8", "replace").decode(),
    "a+b",
    '"a" "b',
    "%_",
    "a;b",
)


@pytest.mark.parametrize("hostile", HOSTILE)
def test_nothing_that_is_typed_is_an_operator(hostile: str) -> None:
    """P8: a query is found, not found, or refused in one line; SQLite never complains."""
    try:
        fits("some text a b", hostile)
    except QueryError as error:
        assert "\n" not in str(error)


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ("", "Give at least one word"),
        ("?! --", "no letter or digit"),
        ("-a -b", "besides what to leave out"),
        ('"a b', "not closed"),
        ("a " * 1_500, "characters"),
        (" ".join(f"w{n}" for n in range(40)), "words"),
    ],
)
def test_a_query_without_meaning_is_refused(wrong: str, said: str) -> None:
    """P8: one line says why, and what to do."""
    with pytest.raises(QueryError, match=re.escape(said)):
        query.parse(wrong)


@settings(max_examples=50)
@given(st.text(max_size=60))
def test_any_text_is_a_query_or_refused(text: str) -> None:
    """P8: whatever is typed, there is no error but ours."""
    try:
        fits("some text", text.replace("\ud800", "").encode("utf-8", "replace").decode())
    except QueryError:
        return


TOKENS = st.lists(
    st.sampled_from(["alpha", "Beta", "gamma_delta", "epsilonZeta", "x.y", "12", "été"]), max_size=12
)


@settings(max_examples=60)
@given(
    TOKENS,
    st.lists(
        st.sampled_from(("alpha", "beta", "gamma", "delta gamma", "zeta", "ete", "1*")),
        min_size=1,
        max_size=3,
    ),
)
def test_what_is_found_is_marked(tokens: list[str], wanted: list[str]) -> None:
    """S1-53: a text that fits shows each wanted word at its marks, and the snippet says the same."""
    text = " ".join(tokens)
    asked = query.parse(" ".join(wanted))
    marks = asked.marks(text)
    low = tokenizer.folded(text)

    if fits(text, " ".join(wanted)):
        assert {number for _, _, number in marks} == set(range(len(asked.terms)))
    cut, spans = snippet.cut(text, marks)
    terms = [tokenizer.folded(term.text) for term in asked.terms]
    assert all(low[a:b].startswith(tuple(terms)) for a, b, _ in marks)
    assert all(tokenizer.folded(cut[a:b]).startswith(tuple(terms)) for a, b in spans)


def test_a_snippet_is_one_short_line_around_the_words() -> None:
    """S1-60: long texts are cut around the place with the most words, and white space is made single."""
    text = "begin\n" * 400 + "alpha\n\n   beta\tgamma " + "end " * 4_000
    asked = query.parse("alpha gamma")
    cut, spans = snippet.cut(text, asked.marks(text))

    assert [cut[a:b] for a, b in spans] == ["alpha", "gamma"]
    assert "alpha beta gamma end" in cut
    assert "\n" not in cut and len(cut) <= snippet.WIDTH + 2
    assert cut.startswith("…") and cut.endswith("…")


@given(st.lists(st.text(st.sampled_from("aB1 .é_\x01\ue000日\n"), max_size=9), max_size=6))
def test_many_texts_are_counted_as_each_is_alone(texts: list[str]) -> None:
    """S1-53: lengths, which rank; whatever characters the texts have."""
    with closing(tokenizer.Tokenizer()) as cutter:
        assert cutter.counts(texts) == list(map(cutter.count, texts))
