"""Which lines differ: always a correct answer, in bounded time."""

import os

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eventlog.replay import linediff
from eventlog.replay.linediff import Block, changes, line_diff

_NUMBERS = st.integers(1, 9).flatmap(lambda k: st.lists(st.integers(0, k), max_size=40))
_TEXT = st.lists(st.sampled_from([b"a", b"b", b"", b"\r", b"\xff", b"long line"]), max_size=30).map(
    b"\n".join
)
_HUNT = os.environ.get("LOCUS_HUNT")


def replaced(a: list[int], b: list[int], blocks: list[Block]) -> list[int]:
    """`a` after the blocks were put into it; checks that they are in order and say something."""
    out: list[int] = []
    at = 0
    for a1, a2, b1, b2 in blocks:
        assert at <= a1 <= a2 and b1 <= b2 and (a1 < a2 or b1 < b2)
        out += a[at:a1]
        assert len(out) == b1
        out += b[b1:b2]
        at = a2
    return out + a[at:]


def edits(blocks: list[Block]) -> int:
    return sum(a2 - a1 + b2 - b1 for a1, a2, b1, b2 in blocks)


@pytest.mark.parametrize(("distance", "steps"), [(128, 4_000_000), (3, 4_000_000), (128, 20)])
@settings(max_examples=5000 if _HUNT else 50)
@given(a=_NUMBERS, b=_NUMBERS)
def test_blocks_turn_one_into_the_other(distance: int, steps: int, a: list[int], b: list[int]) -> None:
    """S1-31: whatever the bounds on the search leave, the blocks are a correct diff."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(linediff, "_DISTANCE_MAX", distance)
        patched.setattr(linediff, "_STEPS_MAX", steps)

        assert replaced(a, b, changes(a, b)) == b


@given(st.lists(st.integers(0, 3), max_size=25), st.lists(st.integers(0, 3), max_size=25))
def test_the_greedy_search_finds_a_shortest_edit(a: list[int], b: list[int]) -> None:
    """S1-31: up to its distance no edit is shorter (a table of all pairs is the oracle)."""
    longest = [[0] * (len(b) + 1) for _ in range(len(a) + 1)]
    for i, x in enumerate(a):
        for j, y in enumerate(b):
            equal = longest[i][j] + 1 if x == y else 0
            longest[i + 1][j + 1] = max(equal, longest[i][j + 1], longest[i + 1][j])

    pairs, _ = linediff._greedy(a, b, 1_000_000)

    assert len(pairs) == longest[-1][-1]
    assert all(a[i] == b[j] for i, j in pairs)


@pytest.mark.parametrize("lines_max", [linediff.LINES_MAX, 4])
@given(old=_TEXT, new=_TEXT)
def test_hunks_apply_to_the_bytes(lines_max: int, old: bytes, new: bytes) -> None:
    """P1, S1-31: the hunks turn the old bytes into the new ones and back, also when a stretch is too long
    to look into."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(linediff, "LINES_MAX", lines_max)
        found = line_diff(old, new)
        hunks = b"".join(found.hunks())

    assert patched_by(old, hunks, b"-", b"+") == new
    assert patched_by(new, hunks, b"+", b"-") == old
    rows = hunks.split(b"\n")
    assert (found.added, found.removed) == tuple(
        sum(row[:1] == sign for row in rows) for sign in (b"+", b"-")
    )


def test_one_changed_line_of_a_large_file_is_all_that_is_scanned() -> None:
    """P4: a change in the middle of many lines costs its own lines: one hunk of eight rows."""
    big = b"".join(b"line %d of a large file\n" % n for n in range(40_000 if not _HUNT else 2_000_000))
    middle = len(big) // 2
    found = line_diff(big, big[:middle] + b"X" + big[middle:])

    assert (found.added, found.removed) == (1, 1)
    assert [hunk.count(b"\n") for hunk in found.hunks()] == [9]
    assert len(found._old.ends) == 8  # three lines on each side, and the changed one


@pytest.mark.slow
def test_many_changed_lines_end_with_all_of_them() -> None:
    """P1: 200,000 lines of which each differs, or every other one, or that are in another order."""
    count = 200_000
    old = [b"old %d\n" % n for n in range(count)]
    new = [b"new %d\n" % n for n in range(count)]
    every_other = [new[n] if n % 2 else old[n] for n in range(count)]

    def counts(a: list[bytes], b: list[bytes]) -> tuple[int, int]:
        found = line_diff(b"".join(a), b"".join(b))
        assert sum(map(len, found.hunks())) > 0
        return found.removed, found.added

    assert counts(old, new) == (count, count)
    assert counts(old, every_other) == (count // 2, count // 2)
    assert counts(old, old[::-1]) == (count - 1, count - 1)


def test_what_cannot_be_searched_in_time_is_shown_as_replaced() -> None:
    """P4: lines without any order end within the counted steps, and the diff is correct all the same."""
    a = [n * n % 97 for n in range(6_000)]
    b = [n * n * n % 97 for n in range(6_000)]
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(linediff, "_STEPS_MAX", 30_000)
        short = changes(a, b)

    assert replaced(a, b, short) == b
    assert edits(changes(a, b)) < edits(short)


def test_lines_that_occur_once_hold_a_text_together() -> None:
    """S1-31: a function put before another is one block, though their last lines are equal."""
    old = [1, 2, 9, 0, 5, 6, 9]
    new = [1, 2, 9, 0, 3, 4, 9, 0, 5, 6, 9]

    assert changes(old, new) == [(4, 4, 4, 8)]


def patched_by(text: bytes, hunks: bytes, take: bytes, give: bytes) -> bytes:
    """What a patch program does: check the lines that should be there, and replace them."""
    old = text.split(b"\n")
    old = [line + b"\n" for line in old[:-1]] + ([old[-1]] if old[-1] else [])
    rows = [row + b"\n" for row in hunks.split(b"\n")[:-1]]
    for at, row in enumerate(rows):
        if row.startswith(b"\\"):
            rows[at - 1] = rows[at - 1][:-1]
    out: list[bytes] = []
    at = left = 0
    for row in rows:
        if row.startswith(b"\\"):
            continue
        if not left:
            assert row.startswith(b"@@ ")
            ranges = [part[1:].partition(b",") for part in row.split(b" ")[1:3]]
            sizes = [int(size) if comma else 1 for _, comma, size in ranges]
            left = sum(sizes)
            mine = 0 if take == b"-" else 1
            start = int(ranges[mine][0]) - (1 if sizes[mine] else 0)
            out += old[at:start]
            at = start
            continue
        sign, line = row[:1], row[1:]
        left -= 2 if sign == b" " else 1
        if sign == give:
            out.append(line)
        else:
            assert old[at] == line
            at += 1
            if sign == b" ":
                out.append(line)
    return b"".join(out + old[at:])
