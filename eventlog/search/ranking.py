"""Which events and which versions of files hold what is looked for, and in what order.

FTS5 tells where each phrase stands; this makes of it what FTS5's own BM25 would say if each version of a file
were a row with its whole text. For a version is the sum of its passages, and the passages that hold a phrase
tell from which version to which. Reads one connection; writes nothing. One thread.
"""

import heapq
import math
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import chain

from eventlog.search.blocks import Blocks
from eventlog.search.passages import PHRASE_WORDS
from eventlog.search.query import Phrase, Query
from eventlog.search.tables import FIRST_PATH, FIRST_TEXT, MARK, Meta
from eventlog.search.texts import OPEN, Places

# BM25 as FTS5 has it.
_K1, _B = 1.2, 0.75
_IDF_MIN = 1e-6

# How much a word counts in the title, the path, the text, its pieces: tenths, so that sums are exact.
_WEIGHT = """
    CASE WHEN i.col = 'body' THEN 10 WHEN i.col = 'title' THEN 60 WHEN i.col = 'path' THEN 40 ELSE 7 END"""
_ONE, _PIECES = 10, 7

_END = FIRST_TEXT  # behind every position that a log can have

# In a version between two positions a phrase counts so much more.
Span = tuple[int, int, int]


@dataclass(frozen=True, slots=True)
class RankedHit:
    """A ranked place: an event, or the version that it made (`path` is then the number of its path). Lower
    scores are better.
    """

    score: float
    position: int
    path: "int | None"
    source: "RankedIndex" = field(compare=False)
    content: "int | None" = None  # the number of the version's content


@dataclass(slots=True)
class _Line:
    """The versions of a line, the oldest first."""

    path: int
    positions: "list[int]"
    sizes: "list[int]"
    contents: "list[int]"


@dataclass
class _Found:
    """Where a phrase stands: how much it counts in events, and in each version of some lines."""

    events: "dict[int, int]"
    lines: "dict[int, list[int]]"

    @cached_property
    def count(self) -> int:
        return len(self.events) + sum(len(some) - some.count(0) for some in self.lines.values())


class RankedIndex:
    """An index that is asked."""

    def __init__(self, con: sqlite3.Connection, meta: Meta) -> None:
        self.con = con
        self.meta = meta
        self.blocks = Blocks(con)
        self._lines: dict[int, _Line] = {}
        self._text: tuple[int, Places] | None = None
        con.execute("PRAGMA temp_store = MEMORY")
        con.execute("CREATE VIRTUAL TABLE temp.instances USING fts5vocab(main, words, instance)")

    @cached_property
    def withheld(self) -> "frozenset[int]":
        """The numbers of the contents that no answer shows."""
        return frozenset(row[0] for row in self.con.execute("SELECT content FROM withheld"))

    def names(self, kind: int) -> "list[tuple[int, str]]":
        return self.con.execute("SELECT id, name FROM names WHERE kind = ?", [kind]).fetchall()

    def name(self, number: int) -> str:
        return str(self.con.execute("SELECT name FROM names WHERE id = ?", [number]).fetchone()[0])

    def text(self, doc: int) -> Places:
        """A text; the one asked for last is kept."""
        if self._text is None or self._text[0] != doc:
            row = self.con.execute("SELECT line, passages FROM texts WHERE doc = ?", [doc]).fetchone()
            self._text = doc, Places(*row)
        return self._text[1]

    def lines_of(self, path: int) -> "list[int]":
        return [row[0] for row in self.con.execute("SELECT id FROM lines WHERE path = ?", [path])]

    def lines(self, numbers: "Iterable[int]") -> "dict[int, _Line]":
        """Those of the lines that have versions."""
        wanted = list(numbers)
        missing = [number for number in wanted if number not in self._lines]
        for start in range(0, len(missing), 500):
            some = missing[start : start + 500]
            self._lines.update((number, _Line(0, [], [], [])) for number in some)
            for number, path, position, size, content in self.con.execute(
                "SELECT line, path, position, size, content FROM versions "
                f"WHERE line IN ({','.join('?' * len(some))}) ORDER BY line, position",
                some,
            ):
                line = self._lines[number]
                line.path = path
                line.positions.append(position)
                line.sizes.append(size)
                line.contents.append(content)
        return {number: line for number in wanted if (line := self._lines[number]).positions}


# Of positions in order those that may be shown.
Admitted = Callable[[RankedIndex, "Sequence[int]"], "Iterable[int]"]


def ranked(
    source: RankedIndex, wanted: Query, admitted: Admitted, count: int, *, contents: bool = True
) -> "list[RankedHit]":
    """The best places, the best first; of equals the newer first. Args: contents: whether versions count."""
    terms = [
        (term.is_unwanted, [_find(source, phrase) for phrase in term.phrases if phrase.tokens])
        for term in wanted.terms
    ]
    terms = [(unwanted, some) for unwanted, some in terms if some or not unwanted]
    score = _Score(source.meta, [one for unwanted, some in terms if not unwanted for one in some])
    asked = _Asked(terms, wanted.any_word)
    places = _events(source, asked, score, admitted)
    both = chain(places, _versions(source, asked, score, admitted)) if contents else places
    return heapq.nsmallest(count, both, key=lambda place: (place.score, -place.position))


class _Score:
    """BM25 over some phrases."""

    def __init__(self, meta: Meta, phrases: "list[_Found]") -> None:
        self.phrases = phrases
        self._idf = [_idf(meta.rows, one.count) for one in phrases]
        self._base = _K1 * (1 - _B)
        self._share = _K1 * _B * meta.rows / max(1, meta.tokens)

    def of(self, size: int, counts: "Iterable[int]") -> float:
        """The score of something so long in which the phrases stand so often; the lower the better."""
        least = self._base + self._share * size
        found = 0.0
        for idf, count in zip(self._idf, counts, strict=True):
            if count:
                often = count / _ONE
                found += idf * (often * (_K1 + 1) / (often + least))
        return -found


def _idf(rows: int, count: int) -> float:
    return max(_IDF_MIN, math.log((rows - count + 0.5) / (count + 0.5)))


class _Asked:
    """Which events, and which versions, a query means. `terms` are pairs: unwanted, and its spellings."""

    def __init__(self, terms: "list[tuple[bool, list[_Found]]]", any_word: bool) -> None:
        self._wanted = [some for unwanted, some in terms if not unwanted]
        self._unwanted = [some for unwanted, some in terms if unwanted]
        self._any = any_word

    def events(self) -> "set[int]":
        return self._of([[set(one.events) for one in some] for some in self._wanted]) - {
            position for some in self._unwanted for one in some for position in one.events
        }

    def lines(self) -> "set[int]":
        """Lines that may have such versions."""
        return self._of([[set(one.lines) for one in some] for some in self._wanted])

    def versions(self, line: int, count: int) -> "Iterator[int]":
        """The numbers of the versions of a line that are meant."""
        wanted = [[one.lines[line] for one in some if line in one.lines] for some in self._wanted]
        unwanted = [one.lines[line] for some in self._unwanted for one in some if line in one.lines]
        holds = any if self._any else all
        for at in range(count):
            if holds(any(one[at] for one in some) for some in wanted) and not any(
                one[at] for one in unwanted
            ):
                yield at

    def _of(self, terms: "list[list[set[int]]]") -> "set[int]":
        sets: list[set[int]] = [set().union(*some) for some in terms]
        return set().union(*sets) if self._any else set.intersection(*sets)


def _events(source: RankedIndex, asked: _Asked, score: _Score, admitted: Admitted) -> "Iterator[RankedHit]":
    shown = admitted(source, sorted(asked.events()))
    of = [one.events for one in score.phrases]
    for position, block, at in source.blocks.each(list(shown)):
        counts = [events.get(position, 0) for events in of]
        yield RankedHit(score.of(block.sizes[at], counts), position, None, source)


def _versions(source: RankedIndex, asked: _Asked, score: _Score, admitted: Admitted) -> "Iterator[RankedHit]":
    for number, line in source.lines(sorted(asked.lines())).items():
        meant = {
            line.positions[at]: at
            for at in asked.versions(number, len(line.positions))
            if line.contents[at] not in source.withheld
        }
        of = [one.lines.get(number) for one in score.phrases]
        for position in admitted(source, list(meant)):
            at = meant[position]
            counts = [0 if some is None else some[at] for some in of]
            value = score.of(line.sizes[at], counts)
            yield RankedHit(value, position, line.path, source, line.contents[at])


def _find(source: RankedIndex, phrase: Phrase) -> _Found:
    """Everything that holds a phrase."""
    events: dict[int, int] = {}
    spans: dict[int, list[Span]] = {}
    for doc, weight in _in_rows(source, phrase, spans).items():
        if doc < FIRST_TEXT:
            events[doc] = weight
        else:
            for one in source.lines_of(doc - FIRST_PATH):
                spans.setdefault(one, []).append((OPEN, _END, weight))
    for line, some in _spelled(source, phrase).items():
        spans.setdefault(line, []).extend(some)
    lines = source.lines(sorted(spans))
    counted = {number: _counted(line, spans[number]) for number, line in lines.items()}
    return _Found(events, {number: some for number, some in counted.items() if any(some)})


def _in_rows(source: RankedIndex, phrase: Phrase, spans: "dict[int, list[Span]]") -> "dict[int, int]":
    """Events and paths that hold a phrase with the weight of all places; `spans` gets what passages hold it.

    A passage is followed by words that belong to the next one: what begins there is left out.
    """
    rows: dict[int, int] = {}
    passages: dict[tuple[int, int], int] = {}
    for doc, at, weight in _instances(source.con, phrase):
        if FIRST_TEXT <= doc < FIRST_PATH:
            text = source.text(doc)
            number = text.passage(at)
            if text.is_own(number, at):
                passages[doc, number] = passages.get((doc, number), 0) + weight
        else:
            rows[doc] = rows.get(doc, 0) + weight
    for (doc, number), weight in passages.items():
        text = source.text(doc)
        since, until = text.span(number)
        spans.setdefault(text.line, []).append((since, until or _END, weight))
    return rows


def _counted(line: _Line, spans: "list[Span]") -> "list[int]":
    """How much a phrase counts in each version of a line."""
    begins = ((since, weight) for since, _, weight in spans)
    changes = sorted(chain(begins, ((until, -weight) for _, until, weight in spans)))
    out: list[int] = []
    value = at = 0
    for position in line.positions:
        while at < len(changes) and changes[at][0] <= position:
            value += changes[at][1]
            at += 1
        out.append(value)
    return out


def _spelled(source: RankedIndex, phrase: Phrase) -> "dict[int, list[Span]]":
    """By line where words stand that have a phrase among their pieces: each counts once in a version."""
    found: dict[tuple[int, int], list[tuple[int, int]]] = {}
    for word, doc, at in source.con.execute(
        'SELECT s.rowid, i.doc, i."offset" FROM spelled s '
        f"CROSS JOIN temp.instances i ON i.term = char({ord(MARK)}) || s.rowid WHERE s.pieces MATCH ?",
        [_expression(phrase.tokens[:PHRASE_WORDS], _is_prefix(phrase))],
    ):
        text = source.text(doc)
        since, until = text.span(text.passage(at))
        found.setdefault((text.line, word), []).append((since, until or _END))
    spans: dict[int, list[Span]] = {}
    for (line, _), some in found.items():
        spans.setdefault(line, []).extend((since, until, _PIECES) for since, until in _merged(sorted(some)))
    return spans


def _merged(spans: "list[tuple[int, int]]") -> "list[tuple[int, int]]":
    """The same without what two have in common. Args: spans: in the order in which they begin."""
    out = spans[:1]
    for since, until in spans[1:]:
        if since <= out[-1][1]:
            out[-1] = (out[-1][0], max(until, out[-1][1]))
        else:
            out.append((since, until))
    return out


def _is_prefix(phrase: Phrase) -> bool:
    """Whether the last word that the index is asked for may go on."""
    return phrase.is_prefix and len(phrase.tokens) <= PHRASE_WORDS


def _instances(con: sqlite3.Connection, phrase: Phrase) -> "sqlite3.Cursor":
    """(row, place, weight) of each place in a row of `words` where a phrase begins."""
    tokens = phrase.tokens[:PHRASE_WORDS]  # who shows a hit looks at the rest
    is_prefix = _is_prefix(phrase)
    last = "term >= ? AND term < ? || char(1114111)" if is_prefix else "term = ?"
    values = (*tokens, tokens[-1]) if is_prefix else tokens
    conditions = [*("term = ?" for _ in tokens[1:]), last]
    if len(tokens) == 1:
        begins, more = f'(SELECT doc, col, "offset" AS at FROM temp.instances WHERE {last})', ""
    else:
        # Only in rows that hold the phrase; the limit has each made once, with an index.
        rows = f"doc IN (SELECT rowid FROM words WHERE words MATCH ?{len(values) + 1})"
        parts = [
            f'(SELECT doc, col, "offset" AS at FROM temp.instances WHERE {one} AND {rows} LIMIT -1)'
            for one in _numbered(conditions)
        ]
        begins = parts[0]
        more = " ".join(
            f"JOIN {part} t{n} ON t{n}.doc = i.doc AND t{n}.col = i.col AND t{n}.at = i.at + {n}"
            for n, part in enumerate(parts[1:], 1)
        )
        values = (*values, _expression(tokens, is_prefix))
    return con.execute(f"SELECT i.doc, i.at, {_WEIGHT} FROM {begins} i {more}", values)


def _numbered(conditions: "Sequence[str]") -> "Iterator[str]":
    """The conditions with their parameters numbered from one."""
    number = 0
    for condition in conditions:
        parts = condition.split("?")
        said = parts[0]
        for part in parts[1:]:
            number += 1
            said += f"?{number}{part}"
        yield said


def _expression(tokens: "Sequence[str]", is_prefix: bool) -> str:
    text = " ".join(tokens).replace('"', '""')
    return f'"{text}"{" *" if is_prefix else ""}'
