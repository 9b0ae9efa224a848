"""Which events and which versions of files match a query, and in what order.

FTS5 reports where each phrase stands. From that comes the score that FTS5's own BM25 would give if each
version of a file were a row with its whole text. A version is the sum of its passages, and a passage with a
phrase names its first and last version. Reads one connection; writes nothing. One thread.
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
from eventlog.search.texts import OPEN, PassageLocator

# BM25 as FTS5 has it.
_K1, _B = 1.2, 0.75
_IDF_MIN = 1e-6

# How much a word counts in the title, the path, the text, its pieces: tenths, so that sums are exact.
_WEIGHT = """
    CASE WHEN i.col = 'body' THEN 10 WHEN i.col = 'title' THEN 60 WHEN i.col = 'path' THEN 40 ELSE 7 END"""
_UNIT_WEIGHT, _PIECES_WEIGHT = 10, 7

_END = FIRST_TEXT  # after every position that a log can have

# The weight that a phrase adds to the versions between two positions.
Span = tuple[int, int, int]


@dataclass(frozen=True, slots=True)
class RankedHit:
    """A ranked event, or the version that it made (`path` is then the number of its path). Lower
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
class _PhraseMatches:
    """Where a phrase stands: how much it counts in events, and in each version of some lines."""

    events: "dict[int, int]"
    lines: "dict[int, list[int]]"

    @cached_property
    def count(self) -> int:
        return len(self.events) + sum(len(counts) - counts.count(0) for counts in self.lines.values())


class RankedIndex:
    """An index that answers queries."""

    def __init__(self, con: sqlite3.Connection, meta: Meta) -> None:
        self.con = con
        self.meta = meta
        self.blocks = Blocks(con)
        self._lines: dict[int, _Line] = {}
        self._text: tuple[int, PassageLocator] | None = None
        con.execute("PRAGMA temp_store = MEMORY")
        con.execute(
            "CREATE VIRTUAL TABLE IF NOT EXISTS temp.instances USING fts5vocab(main, words, instance)"
        )

    @cached_property
    def withheld(self) -> "frozenset[int]":
        """The numbers of the contents that no answer shows."""
        return frozenset(row[0] for row in self.con.execute("SELECT content FROM withheld"))

    def names(self, kind: int) -> "list[tuple[int, str]]":
        return self.con.execute("SELECT id, name FROM names WHERE kind = ?", [kind]).fetchall()

    def name(self, number: int) -> str:
        return str(self.con.execute("SELECT name FROM names WHERE id = ?", [number]).fetchone()[0])

    def text(self, doc: int) -> PassageLocator:
        """A text; the last one read is cached."""
        if self._text is None or self._text[0] != doc:
            row = self.con.execute("SELECT line, passages FROM texts WHERE doc = ?", [doc]).fetchone()
            self._text = doc, PassageLocator(*row)
        return self._text[1]

    def lines_of(self, path: int) -> "list[int]":
        return [row[0] for row in self.con.execute("SELECT id FROM lines WHERE path = ?", [path])]

    def lines(self, numbers: "Iterable[int]") -> "dict[int, _Line]":
        """Those of the lines that have versions."""
        wanted = list(numbers)
        missing = [number for number in wanted if number not in self._lines]
        for start in range(0, len(missing), 500):
            batch = missing[start : start + 500]
            self._lines.update((number, _Line(0, [], [], [])) for number in batch)
            for number, path, position, size, content in self.con.execute(
                "SELECT line, path, position, size, content FROM versions "
                f"WHERE line IN ({','.join('?' * len(batch))}) ORDER BY line, position",
                batch,
            ):
                line = self._lines[number]
                line.path = path
                line.positions.append(position)
                line.sizes.append(size)
                line.contents.append(content)
        return {number: line for number in wanted if (line := self._lines[number]).positions}


# From ascending positions, those that may be shown.
Admitted = Callable[[RankedIndex, "Sequence[int]"], "Iterable[int]"]


def ranked(
    source: RankedIndex, wanted: Query, admitted: Admitted, count: int, *, contents: bool = True
) -> "list[RankedHit]":
    """The best hits, the best first; of equals the newer first. Args: contents: whether versions count."""
    terms = [
        (term.is_unwanted, [_find(source, phrase) for phrase in term.phrases if phrase.tokens])
        for term in wanted.terms
    ]
    terms = [(unwanted, matches) for unwanted, matches in terms if matches or not unwanted]
    score = _Score(source.meta, [match for unwanted, matches in terms if not unwanted for match in matches])
    matcher = _Matcher(terms, wanted.any_word)
    event_hits = _events(source, matcher, score, admitted)
    both = chain(event_hits, _versions(source, matcher, score, admitted)) if contents else event_hits
    return heapq.nsmallest(count, both, key=lambda hit: (hit.score, -hit.position))


class _Score:
    """BM25 over some phrases."""

    def __init__(self, meta: Meta, phrases: "list[_PhraseMatches]") -> None:
        self.phrases = phrases
        self._idf = [_idf(meta.rows, phrase.count) for phrase in phrases]
        self._base = _K1 * (1 - _B)
        self._share = _K1 * _B * meta.rows / max(1, meta.tokens)

    def of(self, size: int, counts: "Iterable[int]") -> float:
        """The score of a text of this size with these weights of the phrases; lower is better."""
        least = self._base + self._share * size
        total = 0.0
        for idf, count in zip(self._idf, counts, strict=True):
            if count:
                frequency = count / _UNIT_WEIGHT
                total += idf * (frequency * (_K1 + 1) / (frequency + least))
        return -total


def _idf(rows: int, count: int) -> float:
    return max(_IDF_MIN, math.log((rows - count + 0.5) / (count + 0.5)))


class _Matcher:
    """Which events, and which versions, a query means. `terms` are pairs: unwanted, and its spellings."""

    def __init__(self, terms: "list[tuple[bool, list[_PhraseMatches]]]", any_word: bool) -> None:
        self._wanted = [spellings for unwanted, spellings in terms if not unwanted]
        self._unwanted = [spellings for unwanted, spellings in terms if unwanted]
        self._any = any_word

    def events(self) -> "set[int]":
        return self._of([[set(match.events) for match in spellings] for spellings in self._wanted]) - {
            position for spellings in self._unwanted for match in spellings for position in match.events
        }

    def lines(self) -> "set[int]":
        """Lines that may have such versions."""
        return self._of([[set(match.lines) for match in spellings] for spellings in self._wanted])

    def versions(self, line: int, count: int) -> "Iterator[int]":
        """The numbers of the versions of a line that are meant."""
        wanted = [
            [match.lines[line] for match in spellings if line in match.lines] for spellings in self._wanted
        ]
        unwanted = [
            match.lines[line] for spellings in self._unwanted for match in spellings if line in match.lines
        ]
        holds = any if self._any else all
        for number in range(count):
            if holds(any(counts[number] for counts in spellings) for spellings in wanted) and not any(
                counts[number] for counts in unwanted
            ):
                yield number

    def _of(self, terms: "list[list[set[int]]]") -> "set[int]":
        sets: list[set[int]] = [set().union(*spellings) for spellings in terms]
        return set().union(*sets) if self._any else set.intersection(*sets)


def _events(
    source: RankedIndex, matcher: _Matcher, score: _Score, admitted: Admitted
) -> "Iterator[RankedHit]":
    shown = admitted(source, sorted(matcher.events()))
    counts_by_phrase = [phrase.events for phrase in score.phrases]
    for position, block, number in source.blocks.each(list(shown)):
        counts = [events.get(position, 0) for events in counts_by_phrase]
        yield RankedHit(score.of(block.sizes[number], counts), position, None, source)


def _versions(
    source: RankedIndex, matcher: _Matcher, score: _Score, admitted: Admitted
) -> "Iterator[RankedHit]":
    for number, line in source.lines(sorted(matcher.lines())).items():
        meant = {
            line.positions[index]: index
            for index in matcher.versions(number, len(line.positions))
            if line.contents[index] not in source.withheld
        }
        counts_by_phrase = [phrase.lines.get(number) for phrase in score.phrases]
        for position in admitted(source, list(meant)):
            index = meant[position]
            counts = [0 if weights is None else weights[index] for weights in counts_by_phrase]
            value = score.of(line.sizes[index], counts)
            yield RankedHit(value, position, line.path, source, line.contents[index])


def _find(source: RankedIndex, phrase: Phrase) -> _PhraseMatches:
    """The events and the versions that hold a phrase."""
    events: dict[int, int] = {}
    spans: dict[int, list[Span]] = {}
    for doc, weight in _in_rows(source, phrase, spans).items():
        if doc < FIRST_TEXT:
            events[doc] = weight
        else:
            for line in source.lines_of(doc - FIRST_PATH):
                spans.setdefault(line, []).append((OPEN, _END, weight))
    for line, line_spans in _spelled(source, phrase).items():
        spans.setdefault(line, []).extend(line_spans)
    lines = source.lines(sorted(spans))
    counted = {number: _counted(line, spans[number]) for number, line in lines.items()}
    return _PhraseMatches(events, {number: counts for number, counts in counted.items() if any(counts)})


def _in_rows(source: RankedIndex, phrase: Phrase, spans: "dict[int, list[Span]]") -> "dict[int, int]":
    """Events and paths that hold a phrase, with its total weight there; passages that hold it go to `spans`.

    A passage ends with words that belong to the next one: a phrase that begins there is left out.
    """
    rows: dict[int, int] = {}
    passages: dict[tuple[int, int], int] = {}
    for doc, offset, weight in _instances(source.con, phrase):
        if FIRST_TEXT <= doc < FIRST_PATH:
            text = source.text(doc)
            number = text.passage(offset)
            if text.is_own(number, offset):
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
    value = passed = 0
    for position in line.positions:
        while passed < len(changes) and changes[passed][0] <= position:
            value += changes[passed][1]
            passed += 1
        out.append(value)
    return out


def _spelled(source: RankedIndex, phrase: Phrase) -> "dict[int, list[Span]]":
    """By line, where words have a phrase among their pieces: each word counts once in a version."""
    intervals: dict[tuple[int, int], list[tuple[int, int]]] = {}
    for word, doc, offset in source.con.execute(
        'SELECT s.rowid, i.doc, i."offset" FROM spelled s '
        f"CROSS JOIN temp.instances i ON i.term = char({ord(MARK)}) || s.rowid WHERE s.pieces MATCH ?",
        [_expression(phrase.tokens[:PHRASE_WORDS], _is_prefix(phrase))],
    ):
        text = source.text(doc)
        since, until = text.span(text.passage(offset))
        intervals.setdefault((text.line, word), []).append((since, until or _END))
    spans: dict[int, list[Span]] = {}
    for (line, _), line_intervals in intervals.items():
        spans.setdefault(line, []).extend(
            (since, until, _PIECES_WEIGHT) for since, until in _merged(sorted(line_intervals))
        )
    return spans


def _merged(spans: "list[tuple[int, int]]") -> "list[tuple[int, int]]":
    """The spans, with overlapping ones merged. Args: spans: in the order in which they begin."""
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
    """(row, offset, weight) of each offset in a row of `words` at which a phrase begins."""
    tokens = phrase.tokens[:PHRASE_WORDS]  # the code that shows a hit checks the rest
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
            f'(SELECT doc, col, "offset" AS at FROM temp.instances WHERE {condition} AND {rows} LIMIT -1)'
            for condition in _numbered(conditions)
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
        sql = parts[0]
        for part in parts[1:]:
            number += 1
            sql += f"?{number}{part}"
        yield sql


def _expression(tokens: "Sequence[str]", is_prefix: bool) -> str:
    text = " ".join(tokens).replace('"', '""')
    return f'"{text}"{" *" if is_prefix else ""}'
