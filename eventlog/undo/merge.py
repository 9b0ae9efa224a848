"""Three-way merge of texts, line by line; bytes in, bytes out (docs/undo.md).

A line ends at a newline byte and nowhere else, so every byte survives. Both sides are compared with the base
(`linediff.changes`); what only one of them changed is taken, and what both changed alike. Changes of both
that overlap, or touch without an unchanged line between them, are a conflict, as they are for git. Pure.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from io import BytesIO

from eventlog.replay.linediff import LINES_MAX, Block, changes

# As git decides what is no text.
_BINARY_LOOK_BYTES = 8_000
MARKERS = (b"<<<<<<<", b"|||||||", b"=======", b">>>>>>>")


@dataclass(frozen=True, slots=True)
class MergeConflict:
    """A stretch that both sides changed: its lines on all three, and the number of its first line in `ours`
    (from 1; where `ours` has no line there, of the line before it)."""

    line: int
    base: tuple[bytes, ...]
    ours: tuple[bytes, ...]
    theirs: tuple[bytes, ...]


@dataclass(frozen=True, slots=True)
class Merge:
    """The outcome in order: bytes that are settled, and conflicts."""

    pieces: tuple[bytes | MergeConflict, ...]

    @property
    def conflicts(self) -> tuple[MergeConflict, ...]:
        return tuple(piece for piece in self.pieces if isinstance(piece, MergeConflict))

    @property
    def data(self) -> bytes | None:
        """The merged text; None where there is a conflict."""
        return (
            None if self.conflicts else b"".join(piece for piece in self.pieces if isinstance(piece, bytes))
        )

    def with_markers(self, ours: str, base: str, theirs: str) -> bytes:
        """The text with each conflict between markers, in the form of git's diff3 style.

        Args: the names of the three sides.
        """
        parts = []
        for piece in self.pieces:
            if isinstance(piece, bytes):
                parts.append(piece)
                continue
            names = (ours, base, "", theirs)
            heads = [b"%b %b" % (m, n.encode()) if n else m for m, n in zip(MARKERS, names, strict=True)]
            for head, lines in zip(heads, (piece.ours, piece.base, piece.theirs, ()), strict=True):
                parts += [head, b"\n", *lines]
                if lines and not lines[-1].endswith(b"\n"):
                    parts.append(b"\n")
        return b"".join(parts)


def is_text(data: bytes) -> bool:
    """Whether a content can be merged by lines."""
    return b"\0" not in data[:_BINARY_LOOK_BYTES]


def has_markers(data: bytes) -> bool:
    """Whether a text has a line that begins like a marker of a conflict and is not a ruler of equal signs."""
    return any(
        data.startswith(marker + b" ") or b"\n%b " % marker in data
        for marker in MARKERS
        if marker != b"======="
    )


def merge(base: bytes, ours: bytes, theirs: bytes) -> Merge:
    """What comes of `ours` when the way from `base` to `theirs` is gone too."""
    if theirs in (base, ours):
        return Merge((ours,))
    if ours == base:
        return Merge((theirs,))
    sides = [BytesIO(text).readlines() for text in (base, ours, theirs)]
    if sum(map(len, sides)) > LINES_MAX:
        return Merge((MergeConflict(1, tuple(sides[0]), tuple(sides[1]), tuple(sides[2])),))
    return Merge(tuple(_pieces(*sides)))


def _pieces(base: list[bytes], ours: list[bytes], theirs: list[bytes]) -> Iterator[bytes | MergeConflict]:
    done = 0  # lines of `base` that are settled
    shift_ours = shift_theirs = 0  # how far the sides are ahead of `base` there
    for start, end, of_ours, of_theirs in _stretches(changes(base, ours), changes(base, theirs)):
        if start > done:
            yield b"".join(base[done:start])
        grown_ours, grown_theirs = _growth(of_ours), _growth(of_theirs)
        mine = ours[start + shift_ours : end + shift_ours + grown_ours]
        other = theirs[start + shift_theirs : end + shift_theirs + grown_theirs]
        if not of_theirs or mine == other:
            yield b"".join(mine)
        elif not of_ours:
            yield b"".join(other)
        else:
            line = start + shift_ours + (1 if mine else 0)
            yield from _narrowed(line, base[start:end], mine, other)
        done, shift_ours, shift_theirs = end, shift_ours + grown_ours, shift_theirs + grown_theirs
    if done < len(base):
        yield b"".join(base[done:])


def _growth(blocks: Sequence[Block]) -> int:
    """By how many lines blocks make a text longer."""
    return sum((b2 - b1) - (a2 - a1) for a1, a2, b1, b2 in blocks)


def _stretches(
    of_ours: Sequence[Block], of_theirs: Sequence[Block]
) -> Iterator[tuple[int, int, list[Block], list[Block]]]:
    """The stretches of the base that were changed, with the blocks of each side in it.

    Blocks of one side never touch; those of both that do, or overlap, share a stretch.
    """
    waiting = sorted(
        [(block, 0) for block in of_ours] + [(block, 1) for block in of_theirs],
        key=lambda entry: (entry[0][0], entry[0][1], entry[1]),
    )
    sides: tuple[list[Block], list[Block]] = ([], [])
    start = end = 0
    for block, side in waiting:
        if (sides[0] or sides[1]) and block[0] > end:
            yield start, end, *sides
            sides = ([], [])
        if not (sides[0] or sides[1]):
            start, end = block[0], block[1]
        sides[side].append(block)
        end = max(end, block[1])
    if sides[0] or sides[1]:
        yield start, end, *sides


def _narrowed(
    line: int, base: list[bytes], ours: list[bytes], theirs: list[bytes]
) -> Iterator[bytes | MergeConflict]:
    """A conflict without the lines at its ends that both sides have."""
    shorter = min(len(ours), len(theirs))
    head = next((i for i in range(shorter) if ours[i] != theirs[i]), shorter)
    rest = shorter - head
    tail = next((i for i in range(rest) if ours[-1 - i] != theirs[-1 - i]), rest)
    if head:
        yield b"".join(ours[:head])
    mine, other = ours[head : len(ours) - tail], theirs[head : len(theirs) - tail]
    yield MergeConflict(line + head, tuple(base), tuple(mine), tuple(other))
    if tail:
        yield b"".join(ours[len(ours) - tail :])
