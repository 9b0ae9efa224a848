"""Unified diffs applied to contents, exactly or not at all. Pure."""

import re

_HUNK = re.compile(r"^@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@")


def apply_patch(before: bytes, patch: str) -> bytes | None:
    """The content after the hunks of a unified diff; None when one does not fit exactly where it says."""
    lines = before.split(b"\n")
    ends_open = lines[-1] != b""
    if not ends_open:
        lines.pop()
    out: list[bytes] = []
    at = 0
    newline_at_end = not ends_open
    wanted = patch.split("\n")
    i = 0
    while i < len(wanted):
        head = _HUNK.match(wanted[i])
        i += 1
        if head is None:
            if out or at or wanted[i - 1].strip():
                if wanted[i - 1].startswith(("---", "+++", "diff ", "index ")) or not wanted[i - 1]:
                    continue
                return None
            continue
        count_before, count_after = int(head[2] or 1), int(head[4] or 1)
        start = int(head[1]) - 1 if count_before else int(head[1])
        if start < at or start > len(lines):
            return None
        out += lines[at:start]
        at = start
        last = ""
        while (
            count_before or count_after or wanted[i : i + 1] == ["\\ No newline at end of file"]
        ) and i < len(wanted):
            mark, text = wanted[i][:1], wanted[i][1:].encode("utf-8", "surrogatepass")
            i += 1
            if mark == "\\":
                if last in "+ " and last:
                    newline_at_end = False
                continue
            if mark in (" ", "-", ""):
                if at >= len(lines) or lines[at] != text:
                    return None
                at += 1
                count_before -= 1
            if mark in (" ", "+", ""):
                out.append(text)
                count_after -= 1
                newline_at_end = True if at >= len(lines) else newline_at_end
            if mark not in (" ", "-", "+", ""):
                return None
            last = mark or " "
        if count_before or count_after:
            return None
    out += lines[at:]
    if not out:
        return b""
    return b"\n".join(out) + (b"\n" if newline_at_end else b"")
