"""Unified diffs: applied to contents, exactly or not at all, and compared with them. Pure.

A diff is the text that `diff -u` and git write, or its hunks alone. What precedes a hunk (`---`,
`index`, …) is passed over. Lines end at a newline, so a carriage return is part of its line.
"""

import io
import re
from collections.abc import Iterator

_HEAD = re.compile(r"@@ -(\d{1,9})(?:,(\d{1,9}))? \+(\d{1,9})(?:,(\d{1,9}))? @@")


class _Hunk:
    """It takes the lines `old` away, at `at` (from 0), and puts `new` there; each line with its end."""

    __slots__ = ("at", "new", "old")

    def __init__(self, at: int) -> None:
        self.at = at
        self.old: list[bytes] = []
        self.new: list[bytes] = []


def apply_patch(before: bytes, patch: str) -> bytes | None:
    """The content after the diff; None when it does not fit exactly where it says, or makes no sense."""
    if not patch.strip():
        return before
    lines = io.BytesIO(before).readlines()
    after: list[bytes] = []
    at = 0
    has_hunk = False
    for hunk in _hunks_of(patch):
        if hunk is None or hunk.at < at or lines[hunk.at : hunk.at + len(hunk.old)] != hunk.old:
            return None
        if hunk.at > len(lines):
            return None
        after += lines[at : hunk.at]
        after += hunk.new
        at = hunk.at + len(hunk.old)
        has_hunk = True
    after += lines[at:]
    # Only the last line of a file has no newline: otherwise the diff was made of another file.
    if not has_hunk or not all(line.endswith(b"\n") for line in after[:-1]):
        return None
    return b"".join(after)


def agrees(before: bytes, patch: str) -> bool:
    """Whether a diff can have been made from `before`, as far as it shows that content.

    White space is passed over: there are clients that write a tab as spaces into their diffs.
    """
    lines = io.BytesIO(before).readlines()
    for hunk in _hunks_of(patch):
        if hunk is None:
            return False
        there = lines[hunk.at : hunk.at + len(hunk.old)]
        if [line.split() for line in there] != [line.split() for line in hunk.old]:
            return False
    return True


def _hunks_of(patch: str) -> "Iterator[_Hunk | None]":
    """The hunks, in order; None, and nothing more, where one is damaged."""
    lines = patch.split("\n")
    i = 0
    while i < len(lines):
        head = _HEAD.match(lines[i])
        i += 1
        if head is not None:
            hunk, i = _hunk(head, lines, i)
            yield hunk
            if hunk is None:
                return
        elif lines[i - 1].startswith("@@"):
            yield None
            return


def _hunk(head: "re.Match[str]", lines: list[str], i: int) -> "tuple[_Hunk | None, int]":
    """The hunk with this head, whose lines begin at `i`, and where it ends."""
    old_left, new_left = int(head[2] or 1), int(head[4] or 1)
    # With no line of its own in the old file, it comes after the line with that number.
    hunk = _Hunk(int(head[1]) - (1 if old_left else 0))
    mark = ""
    while i < len(lines) and (old_left or new_left or lines[i].startswith("\\")):
        if lines[i].startswith("\\"):  # the line above has no newline
            for side, marks in ((hunk.old, " -"), (hunk.new, " +")):
                if mark and mark in marks:
                    side[-1] = side[-1].removesuffix(b"\n")
            mark = ""
            i += 1
            continue
        mark = lines[i][:1] or " "  # of an empty line, editors cut the blank
        line = lines[i][1:].encode("utf-8", "surrogatepass") + b"\n"
        if mark in " -":
            hunk.old.append(line)
            old_left -= 1
        if mark in " +":
            hunk.new.append(line)
            new_left -= 1
        if mark not in " -+" or old_left < 0 or new_left < 0:
            return None, i
        i += 1
    return (None if old_left or new_left or hunk.at < 0 else hunk), i
