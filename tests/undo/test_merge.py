"""Merging texts by lines: its laws, and git as the oracle."""

import random
import subprocess
from io import BytesIO
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eventlog.undo.merge import Merge, MergeConflict, has_markers, is_text, merge

LINE = st.sampled_from([b"a\n", b"b\n", b"c\n", b"d\n", b"\n", b"a\r\n", b"\xff\n"])
TEXT = st.builds(
    lambda lines, last: b"".join(lines) + last,
    st.lists(LINE, max_size=9),
    st.sampled_from([b"", b"", b"end"]),
)


@given(TEXT, TEXT, TEXT)
def test_what_only_one_side_changed_is_taken(base: bytes, ours: bytes, theirs: bytes) -> None:
    """A side that equals the base gives way to the other; two that are alike are one; both orders agree."""
    assert merge(base, base, theirs).data == theirs
    assert merge(base, ours, base).data == ours
    assert merge(base, ours, ours).data == ours
    done, other = merge(base, ours, theirs), merge(base, theirs, ours)
    assert done.data == other.data
    assert len(done.conflicts) == len(other.conflicts)


@given(TEXT, TEXT, TEXT)
def test_no_line_is_made_up(base: bytes, ours: bytes, theirs: bytes) -> None:
    """A clean merge has only lines of the two sides; a conflict is at the line that it names."""
    done = merge(base, ours, theirs)
    mine = BytesIO(ours).readlines()
    if done.data is not None:
        assert set(BytesIO(done.data).readlines()) <= {*mine, *BytesIO(theirs).readlines()}
    for conflict in done.conflicts:
        assert conflict.ours != conflict.theirs
        first = conflict.line - 1
        assert not conflict.ours or tuple(mine[first : first + len(conflict.ours)]) == conflict.ours


def git_merge(directory: Path, base: bytes, ours: bytes, theirs: bytes) -> bytes | None:
    """What `git merge-file` makes of three texts; None where it sees a conflict."""
    for name, data in (("base", base), ("ours", ours), ("theirs", theirs)):
        (directory / name).write_bytes(data)
    done = subprocess.run(
        ["git", "merge-file", "-p", "ours", "base", "theirs"], cwd=directory, capture_output=True, check=False
    )
    return done.stdout if done.returncode == 0 else None


def edited(rng: random.Random, lines: list[bytes], changes: int) -> list[bytes]:
    """A copy with so many edits: lines changed, added, taken out, moved."""
    made = list(lines)
    for _ in range(changes):
        at = rng.randrange(len(made) + 1)
        what = rng.random()
        if what < 0.4 and at < len(made):
            made[at] = b"    changed %d\n" % rng.randrange(1000)
        elif what < 0.7:
            made[at:at] = [b"    new %d\n" % rng.randrange(1000) for _ in range(rng.randrange(1, 5))]
        elif what < 0.9:
            del made[at : at + rng.randrange(1, 4)]
        else:
            made[at:at] = made[max(0, at - 3) : at]
    return made


def test_clean_and_other_than_git_never_happens(tmp_path: Path) -> None:
    """P1: Of 250 three-ways of program text, what both call clean is equal, and nearly all verdicts agree."""
    rng = random.Random(20)
    words = [b"def f%d(x):\n", b"    return x + %d\n", b"\n", b"    if x > %d:\n", b"        pass  # %d\n"]
    different = disagreed = clean = 0
    for _ in range(250):
        base = [w % n if b"%d" in w else w for n in range(rng.randrange(3, 25)) for w in rng.sample(words, 3)]
        ours, theirs = edited(rng, base, rng.randrange(1, 5)), edited(rng, base, rng.randrange(1, 5))
        texts = tuple(b"".join(lines) for lines in (base, ours, theirs))
        mine, gits = merge(*texts).data, git_merge(tmp_path, *texts)
        different += mine is not None and gits is not None and mine != gits
        disagreed += (mine is None) != (gits is None)
        clean += mine is not None

    assert different == 0
    assert disagreed <= 5 and clean > 50


def test_markers_say_all_three_sides() -> None:
    """A conflict in the file has the lines of now, of after and of before; what one side lacks is empty."""
    done = merge(b"1\n2\n3\n", b"1\nmine\n3\n", b"1\n3\n")

    assert done == Merge((b"1\n", MergeConflict(2, (b"2\n",), (b"mine\n",), ()), b"3\n"))
    text = done.with_markers("now", "after TURN", "before TURN")
    assert text == b"1\n<<<<<<< now\nmine\n||||||| after TURN\n2\n=======\n>>>>>>> before TURN\n3\n"
    assert has_markers(text) and not has_markers(b"Title\n=======\n<<<<<<<<\n")


@pytest.mark.parametrize(("data", "text"), [(b"", True), (b"a\0b", False), (b"x" * 8_000 + b"\0", True)])
def test_what_is_text(data: bytes, text: bool) -> None:
    """As git decides: no NUL among the first 8,000 bytes."""
    assert is_text(data) is text
