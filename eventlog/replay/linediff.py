"""Which lines differ between two texts, as numbers and as unified hunks; bytes in, bytes out.

A line ends at a newline byte and nowhere else, so every byte survives. Pure functions. Any two byte strings
give a diff that turns one exactly into the other. Lines that the other side lacks cannot be matched; without
them most texts are few edits apart, and Myers' greedy search finds those. Else lines that occur once on both
sides serve as anchors (the longest run of them in both orders), and the text between two anchors is compared
the same way. Where no such line is left, the search goes to the furthest point that it reaches, and starts
again there. All work is counted; when the allowance is used up, the rest is shown as replaced.
"""

from bisect import bisect_left
from collections import Counter
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass
from io import BytesIO
from itertools import accumulate, compress
from operator import lt
from typing import TypeVar

from eventlog.replay.line_counts import line_count

CONTEXT_LINES = 3

T = TypeVar("T", bound=Hashable)

# A longer stretch is shown as replaced, without comparing its lines: each costs 100 bytes and more.
LINES_MAX = 2_000_000
# Each takes some tenths of a microsecond: seconds at most for one pair of texts.
_STEPS_MAX = 4_000_000
# The greedy search stores its fronts to walk back: some 8,000 numbers at this distance.
_DISTANCE_MAX = 128

# A search this far costs less than the tables for unique lines, and most gaps end in it.
_NEAR = 24

_CHUNK = 1 << 16
_NO_NEWLINE = b"\n\\ No newline at end of file\n"

# Pieces [b1, b2) of the new text replace pieces [a1, a2) of the old one.
Block = tuple[int, int, int, int]


@dataclass(frozen=True, slots=True)
class _Side:
    """A stretch of one text in pieces, each a line; or one piece of many lines that were not compared."""

    data: bytes
    ends: Sequence[int]  # piece i is data[ends[i]:ends[i + 1]]
    lines: Sequence[int]  # how many lines of the text precede piece i

    def text(self, first: int, last: int) -> bytes:
        return self.data[self.ends[first] : self.ends[last]]

    def range(self, first: int, last: int) -> bytes:
        """A hunk's range as diff(1) writes it: an empty one names the line before it."""
        start, size = self.lines[first], self.lines[last] - self.lines[first]
        if size == 1:
            return b"%d" % (start + 1)
        return b"%d,%d" % (start + 1 if size else start, size)


@dataclass(frozen=True, slots=True)
class LineDiff:
    """How one text becomes another."""

    added: int
    removed: int
    _old: _Side
    _new: _Side
    _blocks: Sequence[Block]

    def hunks(self) -> Iterator[bytes]:
        """The unified hunks: `@@` line, then lines marked with ` `, `-` and `+`; changes closer than
        twice the context share one."""
        group: list[Block] = []
        for block in self._blocks:
            if group and block[0] - group[-1][1] > 2 * CONTEXT_LINES:
                yield self._hunk(group)
                group = []
            group.append(block)
        if group:
            yield self._hunk(group)

    def _hunk(self, group: Sequence[Block]) -> bytes:
        old, new = self._old, self._new
        lead = min(CONTEXT_LINES, group[0][0])
        trail = min(CONTEXT_LINES, len(old.ends) - 1 - group[-1][1])
        a, b = group[0][0] - lead, group[0][2] - lead
        end_a, end_b = group[-1][1] + trail, group[-1][3] + trail
        parts = [b"@@ -%b +%b @@\n" % (old.range(a, end_a), new.range(b, end_b))]
        for a1, a2, b1, b2 in group:
            parts.append(_marked(b" ", old.text(a, a1)))
            parts.append(_marked(b"-", old.text(a1, a2)))
            parts.append(_marked(b"+", new.text(b1, b2)))
            a = a2
        parts.append(_marked(b" ", old.text(a, end_a)))
        return b"".join(parts)


def line_diff(old: bytes, new: bytes) -> LineDiff:
    """How `old` becomes `new`. Only the stretch in which they differ is compared line by line."""
    start, tail = _common_ends(old, new)
    middles = old[start : len(old) - tail], new[start : len(new) - tail]
    counts = [line_count(middle) for middle in middles]
    if sum(counts) > LINES_MAX:
        pieces = [[len(middle)] if middle else [] for middle in middles]
        lines: list[Sequence[int]] = [(0, count) if count else (0,) for count in counts]
        blocks = [(0, len(pieces[0]), 0, len(pieces[1]))]
    else:
        split = [BytesIO(middle).readlines() for middle in middles]
        pieces = [list(map(len, middle_lines)) for middle_lines in split]
        lines = [range(len(middle_lines) + 1) for middle_lines in split]
        blocks = changes(*split)
    context = _Context.around(old, start, len(old) - tail)
    return LineDiff(
        added=sum(lines[1][b2] - lines[1][b1] for _, _, b1, b2 in blocks),
        removed=sum(lines[0][a2] - lines[0][a1] for a1, a2, _, _ in blocks),
        _old=context.side(old, pieces[0], lines[0]),
        _new=context.side(new, pieces[1], lines[1]),
        _blocks=[context.shifted(block) for block in blocks],
    )


@dataclass(frozen=True, slots=True)
class _Context:
    """The equal lines around the stretch that differs."""

    start: int  # where that stretch begins in both texts
    lines_before: int
    lead: Sequence[int]  # sizes of the lines before it
    trail: Sequence[int]  # and of those after it

    @classmethod
    def around(cls, text: bytes, start: int, end: int) -> "_Context":
        lead: list[int] = []
        trail: list[int] = []
        offset = start
        while offset and len(lead) < CONTEXT_LINES:
            before = text.rfind(b"\n", 0, offset - 1) + 1
            lead.insert(0, offset - before)
            offset = before
        while end < len(text) and len(trail) < CONTEXT_LINES:
            after = text.find(b"\n", end) + 1 or len(text)
            trail.append(after - end)
            end = after
        return cls(start, text.count(b"\n", 0, start), lead, trail)

    def side(self, text: bytes, pieces: Sequence[int], lines: Sequence[int]) -> _Side:
        sizes = [*self.lead, *pieces, *self.trail]
        first = self.lines_before - len(self.lead)
        if len(lines) == 1 + lines[-1]:  # every piece is a line
            numbers: Sequence[int] = range(first, first + len(sizes) + 1)
        else:
            last = self.lines_before + lines[-1]
            numbers = [*range(first, self.lines_before + 1), *range(last, last + len(self.trail) + 1)]
        return _Side(text, list(accumulate(sizes, initial=self.start - sum(self.lead))), numbers)

    def shifted(self, block: Block) -> Block:
        lead = len(self.lead)
        return block[0] + lead, block[1] + lead, block[2] + lead, block[3] + lead


def _common_ends(old: bytes, new: bytes) -> tuple[int, int]:
    """How many bytes are equal at the beginning and at the end, in whole lines and without overlap."""
    view, shorter = memoryview(new), min(len(old), len(new))
    start, size = 0, _CHUNK
    while size:
        if start + size <= shorter and old.startswith(view[start : start + size], start):
            start += size
        else:
            size >>= 1
    if not start == len(old) == len(new):
        start = old.rfind(b"\n", 0, start) + 1
    tail, size = 0, _CHUNK
    while size:
        end = len(new) - tail
        if tail + size <= shorter - start and old.startswith(view[end - size : end], len(old) - tail - size):
            tail += size
        else:
            size >>= 1
    # The tail begins after its first newline: bytes before that may belong to a changed line.
    tail_start = old.find(b"\n", len(old) - tail) + 1
    return start, len(old) - tail_start if tail_start else 0


def _marked(sign: bytes, text: bytes) -> bytes:
    """Whole lines, each with its mark."""
    if not text:
        return b""
    marked = sign + text.replace(b"\n", b"\n" + sign)
    return marked[:-1] if text.endswith(b"\n") else marked + _NO_NEWLINE


def changes(a: Sequence[T], b: Sequence[T]) -> list[Block]:
    """The stretches of `a` that stretches of `b` replace, in order; the rest is equal."""
    kept_a, kept_b = bytearray(len(a)), bytearray(len(b))
    _match(a, b, kept_a, kept_b)
    return _slid(list(_blocks(kept_a, kept_b)), a, b)


def _slid(blocks: Sequence[Block], a: Sequence[T], b: Sequence[T]) -> list[Block]:
    """The same changes, each that only adds or only removes as far down as it can go.

    A block may go down by a line where its first line equals the line after its end. What people added
    then begins where they began to write. Blocks that touch after that are one.
    """
    done: list[Block] = []
    for number, (a1, a2, b1, b2) in enumerate(blocks):
        if done and done[-1][1] == a1 and done[-1][3] == b1:
            a1, _, b1, _ = done.pop()
        end_a, end_b = blocks[number + 1][::2] if number + 1 < len(blocks) else (len(a), len(b))
        if a1 == a2:
            while b2 < end_b and a2 < end_a and b[b1] == b[b2]:
                a1, a2, b1, b2 = a1 + 1, a2 + 1, b1 + 1, b2 + 1
        elif b1 == b2:
            while a2 < end_a and b2 < end_b and a[a1] == a[a2]:
                a1, a2, b1, b2 = a1 + 1, a2 + 1, b1 + 1, b2 + 1
        done.append((a1, a2, b1, b2))
    return done


def _match(a: Sequence[T], b: Sequence[T], kept_a: bytearray, kept_b: bytearray) -> None:
    """Mark the lines that stay: equally many on both sides, in one order.

    A gap is (indices into `a`, indices into `b`): lines between two marked ones that may still match.
    """
    steps = 0
    gaps: list[tuple[Sequence[int], Sequence[int]]] = [(range(len(a)), range(len(b)))]
    while gaps:
        rows_a, rows_b = gaps.pop()
        head = 0
        for i, j in zip(rows_a, rows_b, strict=False):
            if a[i] != b[j]:
                break
            kept_a[i] = kept_b[j] = 1
            head += 1
        tail = 0
        for i, j in zip(reversed(rows_a[head:]), reversed(rows_b[head:]), strict=False):
            if a[i] != b[j]:
                break
            kept_a[i] = kept_b[j] = 1
            tail += 1
        rows_a, rows_b = rows_a[head : len(rows_a) - tail], rows_b[head : len(rows_b) - tail]
        if not rows_a or not rows_b or steps > _STEPS_MAX:
            continue
        steps += len(rows_a) + len(rows_b)
        lines_a, lines_b = [a[i] for i in rows_a], [b[j] for j in rows_b]
        # A line that the other side lacks matches nothing.
        there_a, there_b = set(lines_a), set(lines_b)
        if there_a != there_b:
            gaps.append((_those_in(there_b, rows_a, lines_a), _those_in(there_a, rows_b, lines_b)))
            continue
        pairs, i, j, walked = _reach(lines_a, lines_b, 0, 0, _NEAR)
        steps += walked
        if i < len(lines_a) or j < len(lines_b):
            anchors = _anchors(lines_a, lines_b)
            gaps += _between(anchors, rows_a, rows_b) if anchors else ()
            pairs = anchors
        if not pairs:
            pairs, walked = _greedy(lines_a, lines_b, _STEPS_MAX - steps)
            steps += walked
        for i, j in pairs:
            kept_a[rows_a[i]] = kept_b[rows_b[j]] = 1


def _between(
    pairs: Sequence[tuple[int, int]], rows_a: Sequence[int], rows_b: Sequence[int]
) -> Iterator[tuple[Sequence[int], Sequence[int]]]:
    """The gaps before, between and after pairs."""
    at_a = at_b = 0
    for i, j in pairs:
        if i > at_a and j > at_b:
            yield rows_a[at_a:i], rows_b[at_b:j]
        at_a, at_b = i + 1, j + 1
    yield rows_a[at_a:], rows_b[at_b:]


def _those_in(other_lines: set[T], rows: Sequence[int], lines: Sequence[T]) -> list[int]:
    return list(compress(rows, map(other_lines.__contains__, lines)))


def _anchors(a: Sequence[T], b: Sequence[T]) -> list[tuple[int, int]]:
    """Lines that occur once in `a` and once in `b`: the longest run of pairs that rises in both."""
    count_a, count_b, index_b = Counter(a), Counter(b), dict(zip(b, range(len(b)), strict=True))
    pairs = [(i, index_b[line]) for i, line in enumerate(a) if count_a[line] == 1 == count_b[line]]
    indices_b = [j for _, j in pairs]
    if all(map(lt, indices_b, indices_b[1:])):
        return pairs
    # Of all runs of n + 1 pairs so far: the lowest end in `b`, and the last pair of that run.
    ends: list[int] = []
    last: list[int] = []
    before: list[int] = []
    for index, j in enumerate(indices_b):
        length = bisect_left(ends, j)
        ends[length : length + 1] = [j]
        last[length : length + 1] = [index]
        before.append(last[length - 1] if length else -1)
    run = []
    index = last[-1]
    while index >= 0:
        run.append(pairs[index])
        index = before[index]
    return run[::-1]


def _greedy(a: Sequence[T], b: Sequence[T], allowance: int) -> tuple[list[tuple[int, int]], int]:
    """Equal pairs, rising in both, and the steps it took to find them."""
    pairs: list[tuple[int, int]] = []
    i = j = steps = 0
    while i < len(a) and j < len(b) and steps <= allowance:
        pairs_on_path, i, j, walked = _reach(a, b, i, j, _DISTANCE_MAX)
        pairs += pairs_on_path
        steps += walked
    return pairs, steps


# The runs of equal lines on a path, the last one first: (start in a, end in a, diagonal, the ones before).
_Chain = tuple[int, int, int, "_Chain"] | None


def _reach(
    a: Sequence[T], b: Sequence[T], i0: int, j0: int, limit: int
) -> tuple[list[tuple[int, int]], int, int, int]:
    """The pairs on the path that leads furthest from (i0, j0) with few edits; its end; the steps taken.

    Myers' search: `front` is the furthest i on each diagonal k = i - j; each round allows one more edit.
    """
    n, m, middle = len(a), len(b), i0 - j0
    front = {middle - 1: i0 - 1}  # a point before the beginning, from which the first step leads there
    chains: dict[int, _Chain] = {middle - 1: None}
    furthest = (i0 + j0, i0, middle)
    steps = 0
    for distance in range(limit):
        for k in range(middle - distance, middle + distance + 1, 2):
            down, right = front.get(k + 1, -1), front.get(k - 1, -2) + 1
            if down - k > m:
                down = -1
            if right > n:
                right = -1
            start = i = down if down > right else right
            if i < 0:
                continue
            chain = chains[k + 1 if down > right else k - 1]
            j = i - k
            while i < n and j < m and a[i] == b[j]:
                i += 1
                j += 1
            steps += 1 + i - start
            front[k] = i
            chains[k] = (start, i, k, chain) if i > start else chain
            if i + j > furthest[0]:
                furthest = i + j, i, k
        if not distance:
            del front[middle - 1]
        if furthest[0] == n + m:
            break
    _, i, k = furthest
    pairs = []
    link = chains[k]
    while link is not None:
        start, end, diagonal, link = link
        pairs += [(index, index - diagonal) for index in range(end - 1, start - 1, -1)]
    return pairs[::-1], i, i - k, steps


def _blocks(kept_a: bytearray, kept_b: bytearray) -> Iterator[Block]:
    """The stretches without marks."""
    i = j = 0
    gone = new = -1  # the next line without a mark on each side
    while True:
        if gone < i:
            gone = _find(kept_a, 0, i)
        if new < j:
            new = _find(kept_b, 0, j)
        equal = min(gone - i, new - j)
        i, j = i + equal, j + equal
        if i == len(kept_a) and j == len(kept_b):
            return
        block = i, _find(kept_a, 1, i), j, _find(kept_b, 1, j)
        yield block
        _, i, _, j = block


def _find(marks: bytearray, mark: int, start: int) -> int:
    index = marks.find(mark, start)
    return len(marks) if index < 0 else index
