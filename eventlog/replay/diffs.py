"""Unified diffs, made from the two contents of a file whenever somebody wants to see one (S1-31).

The log stores no diff text where both contents are known: it would be most of a segment. Pure
functions. Any two texts give a diff that turns one exactly into the other; above a bound of work it
stops looking for the shortest one and shows the whole stretch between the first and the last
difference as replaced.
"""

from collections.abc import Iterator, Mapping
from difflib import SequenceMatcher
from typing import TYPE_CHECKING, Any

from eventlog.errors import EventLogError
from eventlog.snapshots.ids import from_text

if TYPE_CHECKING:
    from eventlog.snapshots.store import BlobStore

CONTEXT_LINES = 3

# SequenceMatcher is quadratic at worst: 4 million pairs of lines take some seconds.
_PAIRS_MAX = 4_000_000

_Opcode = tuple[str, int, int, int, int]


def diff_of(event: Mapping[str, Any], blobs: "BlobStore") -> str | None:
    """The diff of a file event: the one stored with it, else made from its contents.

    None when a content is binary, was not captured, or is no longer in the store (P7).
    """
    payload = event.get("payload") or {}
    stored = payload.get("diff")
    if isinstance(stored, str):
        return stored
    if event.get("before_hash") is None and event.get("after_hash") is None:
        return None
    try:
        before, after = (
            None if event.get(side) is None else blobs.get(from_text(event[side]))
            for side in ("before_hash", "after_hash")
        )
    except EventLogError:
        return None
    return unified(before, after, event.get("path") or "", payload.get("old_path"))


def unified(before: bytes | None, after: bytes | None, path: str, old_path: str | None = None) -> str | None:
    """The unified diff from `before` to `after`, "" when they are equal, None when one is binary.

    None as content means that the file does not exist on that side. Text that is not UTF-8 is shown
    with replacement characters; lines end at newlines only.
    """
    if _is_binary(before) or _is_binary(after):
        return None
    if before == after:
        return ""
    a, b = _lines(before), _lines(after)
    parts = [
        f"--- {'/dev/null' if before is None else 'a/' + (old_path or path)}\n",
        f"+++ {'/dev/null' if after is None else 'b/' + path}\n",
    ]
    for hunk in _hunks(_opcodes(a, b), CONTEXT_LINES):
        first, last = hunk[0], hunk[-1]
        parts.append(f"@@ -{_range(first[1], last[2])} +{_range(first[3], last[4])} @@\n")
        for tag, a1, a2, b1, b2 in hunk:
            if tag == "equal":
                parts += [_marked(" ", line) for line in a[a1:a2]]
            else:
                parts += [_marked("-", line) for line in a[a1:a2]]
                parts += [_marked("+", line) for line in b[b1:b2]]
    return "".join(parts)


def _is_binary(data: bytes | None) -> bool:
    return data is not None and b"\0" in data


def _lines(data: bytes | None) -> list[bytes]:
    """Lines with their newline; the last one may lack it."""
    lines = [line + b"\n" for line in (data or b"").split(b"\n")]
    lines[-1] = lines[-1][:-1]
    return lines if lines[-1] else lines[:-1]


def _marked(sign: str, line: bytes) -> str:
    text = line.decode("utf-8", "replace")
    return f"{sign}{text}" if line.endswith(b"\n") else f"{sign}{text}\n\\ No newline at end of file\n"


def _opcodes(a: list[bytes], b: list[bytes]) -> list[_Opcode]:
    """How `a` becomes `b`. Equal lines at both ends are set aside first: most changes are small."""
    head = 0
    while head < min(len(a), len(b)) and a[head] == b[head]:
        head += 1
    tail = 0
    while tail < min(len(a), len(b)) - head and a[-1 - tail] == b[-1 - tail]:
        tail += 1
    a_end, b_end = len(a) - tail, len(b) - tail
    if (a_end - head) * (b_end - head) > _PAIRS_MAX:
        middle: list[_Opcode] = [("replace", head, a_end, head, b_end)]
    else:
        matcher = SequenceMatcher(None, a[head:a_end], b[head:b_end], autojunk=False)
        middle = [
            (tag, a1 + head, a2 + head, b1 + head, b2 + head) for tag, a1, a2, b1, b2 in matcher.get_opcodes()
        ]
    opcodes: list[_Opcode] = [("equal", 0, head, 0, head), *middle]
    opcodes.append(("equal", a_end, len(a), b_end, len(b)))
    return [op for op in opcodes if op[2] > op[1] or op[4] > op[3]]


def _hunks(opcodes: list[_Opcode], context: int) -> Iterator[list[_Opcode]]:
    """Changes with `context` equal lines around them; closer ones share a hunk."""
    hunk: list[_Opcode] = []
    last = len(opcodes) - 1
    for at, (tag, a1, a2, b1, b2) in enumerate(opcodes):
        if tag != "equal":
            hunk.append((tag, a1, a2, b1, b2))
            continue
        before = min(context, a2 - a1) if at < last else 0  # lines that lead into the next change
        behind = min(context, a2 - a1) if at > 0 else 0  # lines that follow the one before
        if hunk and before and a2 - a1 <= 2 * context:
            hunk.append((tag, a1, a2, b1, b2))
            continue
        if hunk:
            if behind:
                hunk.append((tag, a1, a1 + behind, b1, b1 + behind))
            yield hunk
            hunk = []
        if before:
            hunk.append((tag, a2 - before, a2, b2 - before, b2))
    if any(op[0] != "equal" for op in hunk):
        yield hunk


def _range(start: int, end: int) -> str:
    """A hunk's range as diff(1) writes it: an empty one names the line before it."""
    size = end - start
    if size == 1:
        return str(start + 1)
    return f"{start + 1 if size else start},{size}"
