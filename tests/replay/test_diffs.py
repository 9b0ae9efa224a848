"""Unified diffs out of two contents."""

from hypothesis import given
from hypothesis import strategies as st

from eventlog.replay.diffs import unified

_LINES = st.lists(st.sampled_from(["a", "b", "", "c c", "\r", "é", "-x", "+y", "@@ -1 +1 @@"]), max_size=30)
_TEXT = st.tuples(_LINES, st.booleans()).map(lambda t: ("\n".join(t[0]) + ("\n" if t[1] else "")).encode())


@given(_TEXT, _TEXT)
def test_a_diff_turns_one_text_into_the_other(before: bytes, after: bytes) -> None:
    """S1-31: applying the diff to the old content gives the new one, and backwards the old one."""
    diff = unified(before, after, "f")

    assert diff is not None
    assert _apply(before, diff, "-", "+") == after
    assert _apply(after, diff, "+", "-") == before


def test_the_form_is_that_of_git() -> None:
    """S1-31: three lines of context, ranges as in diff(1), and the mark of a missing last newline."""
    before = b"1\n2\n3\n4\n5\n6\n7\n8\n9\n"
    after = b"1\n2\n3\n4\nfive\n6\n7\n8\n9"

    assert unified(before, after, "n.txt") == (
        "--- a/n.txt\n+++ b/n.txt\n@@ -2,8 +2,8 @@\n 2\n 3\n 4\n-5\n+five\n 6\n 7\n 8\n-9\n+9\n"
        "\\ No newline at end of file\n"
    )


def test_a_side_that_does_not_exist_is_dev_null() -> None:
    """S1-31: adding, deleting and renaming a file show in the diff's head."""
    assert unified(None, b"x\n", "f") == "--- /dev/null\n+++ b/f\n@@ -0,0 +1 @@\n+x\n"
    assert unified(b"x\n", None, "f") == "--- a/f\n+++ /dev/null\n@@ -1 +0,0 @@\n-x\n"
    assert unified(b"x\n", b"y\n", "new", "old") == "--- a/old\n+++ b/new\n@@ -1 +1 @@\n-x\n+y\n"


def test_binary_contents_have_no_diff() -> None:
    """P7: a diff of binary contents is unknown, not empty; equal contents have an empty one."""
    assert unified(b"a\0", b"b\0", "f") is None
    assert unified(None, b"\0", "f") is None
    assert unified(b"a", b"a", "f") == ""


def test_text_of_another_encoding_is_shown_all_the_same() -> None:
    """S1-31: bytes that are not UTF-8 are replaced in the diff, and lines that differ only there differ."""
    diff = unified(b"caf\xe9\n", b"caf\xe8\n", "f")

    assert diff is not None and "-caf�\n+caf�\n" in diff


def _apply(text: bytes, diff: str, take: str, give: str) -> bytes:
    """What a patch program does: check the lines that should be there, and replace them."""
    lines = text.decode().split("\n")
    old = [line + "\n" for line in lines[:-1]] + ([lines[-1]] if lines[-1] else [])
    out: list[str] = []
    at = 0
    rows = diff.split("\n")[2:-1]
    side: list[tuple[str, str]] = []
    for row in rows:
        if row.startswith("\\"):
            side[-1] = (side[-1][0], side[-1][1][:-1])
        elif row.startswith("@@ ") and len(row.split(" ")) == 4:
            side.append(("@", row))
        else:
            side.append((row[0], row[1:] + "\n"))
    for sign, line in side:
        if sign == "@":
            first, _, count = line.split(" ")[1 if take == "-" else 2][1:].partition(",")
            start = int(first) - (0 if count == "0" else 1)
            out += old[at:start]
            at = start
        elif sign == give:
            out.append(line)
        else:
            assert old[at] == line
            at += 1
            if sign == " ":
                out.append(line)
    return "".join(out + old[at:]).encode()
