"""Which events and which versions of files match a query, and in what order.

FTS5 reports where each phrase is. From that comes the score that FTS5's own BM25 would give if each
version of a file were a row with its whole text. A version is the sum of its passages, and a passage with a
phrase names its first and last version. Reads one connection; writes nothing. One thread.
"""

import math
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property, reduce
from itertools import chain

import orjson
import pyarrow as pa
import pyarrow.compute as pc

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
_WEIGHT_BITS = 6
_BEGINNINGS = f"""
    group_concat(CASE WHEN i.doc < {FIRST_TEXT} THEN (i.doc << {_WEIGHT_BITS}) + {_WEIGHT} END),
    group_concat(CASE WHEN i.doc >= {FIRST_TEXT} THEN i.doc || ',' || i.at || ',' || {_WEIGHT} END)"""

_NO_NUMBERS = pa.array([], pa.int64())
_HITS = pa.schema(
    [("score", pa.float64()), ("position", pa.int64()), ("path", pa.int64()), ("content", pa.int64())]
)  # `path` 0: the event itself

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
    """Where a phrase is: how much it counts in events, and in each version of some lines."""

    positions: "pa.Int64Array"  # of events, each once
    weights: "pa.Int64Array"
    lines: "dict[int, list[int]]"

    @cached_property
    def count(self) -> int:
        versions = sum(len(counts) - counts.count(0) for counts in self.lines.values())
        return len(self.positions) + versions

    def weights_at(self, positions: "pa.Int64Array") -> "pa.Int64Array":
        """How much it counts in each of these events."""
        at = pc.index_in(positions, value_set=self.positions)
        return pc.fill_null(self.weights.take(at), 0)


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
Admitted = Callable[[RankedIndex, "pa.Int64Array"], "pa.Int64Array"]


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
    hits = _events(source, matcher, score, admitted)
    if contents:
        hits = pa.concat_tables([hits, _versions(source, matcher, score, admitted)])
    keys = [("score", "ascending"), ("position", "descending"), ("path", "ascending")]
    best = hits.take(pc.select_k_unstable(hits, k=count, sort_keys=keys)) if len(hits) else hits
    return [
        RankedHit(score, position, path or None, source, content if path else None)
        for score, position, path, content in zip(*(column.to_pylist() for column in best), strict=True)
    ]


class _Score:
    """BM25 over some phrases."""

    def __init__(self, meta: Meta, phrases: "list[_PhraseMatches]") -> None:
        self.phrases = phrases
        self._idf = [_idf(meta.rows, phrase.count) for phrase in phrases]
        self._base = _K1 * (1 - _B)
        self._share = _K1 * _B * meta.rows / max(1, meta.tokens)

    def of(self, sizes: "pa.Array", counts: "Iterable[pa.Array]") -> "pa.DoubleArray":
        """The scores of texts of these sizes with these weights of each phrase; lower is better."""
        least = pc.add(pc.multiply(sizes.cast(pa.float64()), self._share), self._base)
        total = pa.repeat(0.0, len(sizes))
        for idf, weights in zip(self._idf, counts, strict=True):
            frequency = pc.divide(weights.cast(pa.float64()), float(_UNIT_WEIGHT))
            part = pc.divide(pc.multiply(frequency, _K1 + 1), pc.add(frequency, least))
            total = pc.add(total, pc.multiply(part, idf))
        return pc.negate(total)


def _idf(rows: int, count: int) -> float:
    return max(_IDF_MIN, math.log((rows - count + 0.5) / (count + 0.5)))


class _Matcher:
    """Which events, and which versions, a query means. `terms` are pairs: unwanted, and its spellings."""

    def __init__(self, terms: "list[tuple[bool, list[_PhraseMatches]]]", any_word: bool) -> None:
        self._wanted = [spellings for unwanted, spellings in terms if not unwanted]
        self._unwanted = [spellings for unwanted, spellings in terms if unwanted]
        self._any = any_word

    def events(self) -> "pa.Int64Array":
        """The positions of such events, ascending."""
        terms = [_any_of(match.positions for match in spellings) for spellings in self._wanted]
        positions = _any_of(terms) if self._any else reduce(_both_of, terms)
        for match in chain.from_iterable(self._unwanted):
            positions = positions.filter(pc.invert(pc.is_in(positions, value_set=match.positions)))
        return positions.take(pc.sort_indices(positions))

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


def _any_of(parts: "Iterable[pa.Int64Array]") -> "pa.Int64Array":
    arrays = list(parts)
    return arrays[0] if len(arrays) == 1 else pa.concat_arrays([_NO_NUMBERS, *arrays]).unique()


def _both_of(a: "pa.Int64Array", b: "pa.Int64Array") -> "pa.Int64Array":
    return a.filter(pc.is_in(a, value_set=b))


def _events(source: RankedIndex, matcher: _Matcher, score: _Score, admitted: Admitted) -> "pa.Table":
    rows = source.blocks.rows(admitted(source, matcher.events()))
    positions = rows["position"].combine_chunks()
    counts = (phrase.weights_at(positions) for phrase in score.phrases)
    scores = score.of(rows["size"].combine_chunks(), counts)
    none = pa.repeat(0, len(positions))
    return pa.table([scores, positions, none, none], schema=_HITS)


def _versions(source: RankedIndex, matcher: _Matcher, score: _Score, admitted: Admitted) -> "pa.Table":
    rows: list[tuple[int, ...]] = []
    for number, line in source.lines(sorted(matcher.lines())).items():
        meant = {
            line.positions[index]: index
            for index in matcher.versions(number, len(line.positions))
            if line.contents[index] not in source.withheld
        }
        counts_by_phrase = [phrase.lines.get(number) for phrase in score.phrases]
        for position in admitted(source, pa.array(meant, pa.int64())).to_pylist():
            index = meant[position]
            counts = [0 if weights is None else weights[index] for weights in counts_by_phrase]
            rows.append((position, line.path, line.contents[index], line.sizes[index], *counts))
    columns = [pa.array(column, pa.int64()) for column in zip(*rows, strict=True)]
    if not columns:
        return _HITS.empty_table()
    positions, paths, contents, sizes, *weights_by_phrase = columns
    return pa.table([score.of(sizes, weights_by_phrase), positions, paths, contents], schema=_HITS)


def _find(source: RankedIndex, phrase: Phrase) -> _PhraseMatches:
    """The events and the versions that hold a phrase."""
    spans: dict[int, list[Span]] = {}
    in_events, in_files = _instances(source.con, phrase)
    for doc, weight in _in_paths(source, in_files, spans).items():
        for line in source.lines_of(doc - FIRST_PATH):
            spans.setdefault(line, []).append((OPEN, _END, weight))
    for line, line_spans in _spelled(source, phrase).items():
        spans.setdefault(line, []).extend(line_spans)
    lines = source.lines(sorted(spans))
    counted = {number: _counted(line, spans[number]) for number, line in lines.items()}
    with_phrase = {number: counts for number, counts in counted.items() if any(counts)}
    return _PhraseMatches(*_added_up(in_events), with_phrase)


def _added_up(in_events: "Sequence[int]") -> "tuple[pa.Int64Array, pa.Int64Array]":
    """The positions of events, each once, with the sum of what a phrase weighs there."""
    numbers = pa.array(in_events, pa.int64())
    positions = pc.shift_right(numbers, _WEIGHT_BITS)
    weights = pc.bit_wise_and(numbers, (1 << _WEIGHT_BITS) - 1)
    events = pa.table([positions, weights], ["position", "weight"]).group_by("position", use_threads=False)
    sums = events.aggregate([("weight", "sum")])
    return sums["position"].combine_chunks(), sums["weight_sum"].combine_chunks()


def _in_paths(
    source: RankedIndex, in_files: "Sequence[int]", spans: "dict[int, list[Span]]"
) -> "dict[int, int]":
    """Paths that hold a phrase, with its total weight there; passages that hold it go to `spans`.

    A passage ends with words that belong to the next one: a phrase that begins there is left out.
    """
    rows: dict[int, int] = {}
    passages: dict[tuple[int, int], int] = {}
    for doc, offset, weight in zip(in_files[::3], in_files[1::3], in_files[2::3], strict=True):
        if doc < FIRST_PATH:
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


def _instances(con: sqlite3.Connection, phrase: Phrase) -> "tuple[list[int], list[int]]":
    """Each place at which a phrase begins: in events the position with the weight in its lowest bits; in
    texts and paths the row of `words`, the offset, the weight.

    SQLite makes one text of them, since a row for each costs more than finding it.
    """
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
    in_events, in_files = con.execute(f"SELECT {_BEGINNINGS} FROM {begins} i {more}", values).fetchone()
    return orjson.loads(f"[{in_events or ''}]"), orjson.loads(f"[{in_files or ''}]")


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
