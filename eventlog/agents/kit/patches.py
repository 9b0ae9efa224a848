"""Patches of the tool `apply_patch`: which files a text changes, and what one of them holds afterwards.

Their hunks name no lines: each is found by its context, from the end of the one before on. The tool takes an
exact match wherever one follows, and is lenient only when there is none; so what is found exactly is what it
did, and anything else is unknown (P7). Pure.
"""

from eventlog.agents.kit.draft import DELETE, PATCH, WRITE, FileEdit

_BEGIN, _END = "*** Begin Patch", "*** End Patch"
_ADD, _UPDATE, _DELETE = "*** Add File: ", "*** Update File: ", "*** Delete File: "
_MOVE, _END_OF_FILE = "*** Move to: ", "*** End of File"


def patch_in(text: str) -> str | None:
    """The patch that a text is or holds, from its first line to its last; None when it holds none whole."""
    start = text.find(_BEGIN)
    end = text.find(f"\n{_END}", start)
    return None if start < 0 or end < 0 else text[start : end + 1 + len(_END)]


def edits_of(patch: str) -> list[FileEdit]:
    """What a patch does to files, in its order."""
    edits: list[FileEdit] = []
    section: list[str] = []
    for line in patch.split("\n")[1:]:
        if line.startswith((_ADD, _UPDATE, _DELETE, _END)):
            edits += _edit_of(section)
            section = []
        section.append(line)
    return edits


def _edit_of(section: list[str]) -> list[FileEdit]:
    head, lines = (section[0], section[1:]) if section else ("", [])
    added = sum(line.startswith("+") for line in lines)
    if head.startswith(_ADD):
        content = "".join(f"{line[1:]}\n" for line in lines if line.startswith("+"))
        return [FileEdit(WRITE, head[len(_ADD) :].strip(), content=content, added=added)]
    if head.startswith(_DELETE):
        return [FileEdit(DELETE, head[len(_DELETE) :].strip())]
    if not head.startswith(_UPDATE):
        return []
    path, old_path = head[len(_UPDATE) :].strip(), None
    if lines and lines[0].startswith(_MOVE):
        path, old_path = lines[0][len(_MOVE) :].strip(), path
    removed = sum(line.startswith("-") for line in lines)
    text = "\n".join(section)
    return [FileEdit(PATCH, path, old_path=old_path, patch=text, added=added, removed=removed)]


def is_section(patch: str) -> bool:
    """Whether a patch is the part of one of Codex that updates one file, and no unified diff."""
    return patch.startswith(_UPDATE)


def without_names(section: str) -> str:
    """The part of a patch that updates one file, without the lines that name it."""
    lines = section.split("\n")
    named = 2 if lines[1:] and lines[1].startswith(_MOVE) else 1
    return "\n".join(lines[named:])


def apply_section(before: bytes, section: str) -> bytes | None:
    """The content after the part of a patch that updates one file; None when it does not fit exactly."""
    chunks = _chunks(section.encode("utf-8", "surrogatepass").split(b"\n")[1:])
    if chunks is None or b"\r" in before:  # versions differ in what they make of such ends of lines
        return None
    lines = before.split(b"\n")
    if lines[-1] == b"":
        lines.pop()
    changes: list[tuple[int, int, list[bytes]]] = []
    at = 0
    for chunk in chunks:
        if chunk.context is not None:
            position = _seek(lines, [chunk.context], at, at_end=False)
            if position is None:
                return None
            at = position + 1
        old, new = chunk.old, chunk.new
        if not old:
            changes.append((len(lines), 0, new))
            continue
        position = _seek(lines, old, at, at_end=chunk.at_end)
        if position is None and old[-1] == b"":
            old, new = old[:-1], new[:-1] if new and new[-1] == b"" else new
            position = _seek(lines, old, at, at_end=chunk.at_end)
        if position is None:
            return None
        changes.append((position, len(old), new))
        at = position + len(old)
    changes.sort(key=lambda change: change[0])
    for start, count, new in reversed(changes):
        lines[start : start + count] = new
    if lines and lines[-1] == b"":
        return None  # whether a blank line at the end stays depends on the version
    return b"".join(line + b"\n" for line in lines)


class _Chunk:
    __slots__ = ("at_end", "context", "new", "old")

    def __init__(self, context: bytes | None) -> None:
        self.context = context
        self.old: list[bytes] = []
        self.new: list[bytes] = []
        self.at_end = False


def _chunks(lines: list[bytes]) -> list[_Chunk] | None:
    """The hunks of an update; None when a line is none of a hunk."""
    chunks: list[_Chunk] = []
    for line in lines:
        if line.startswith(b"@@"):
            chunks.append(_Chunk(line[3:] if line.startswith(b"@@ ") else None))
            continue
        if line.startswith(_MOVE.encode()):
            continue
        if not chunks:
            chunks.append(_Chunk(None))
        chunk = chunks[-1]
        if line.rstrip() == _END_OF_FILE.encode():
            chunk.at_end = True
            continue
        mark, text = line[:1], line[1:]
        if mark not in (b" ", b"+", b"-", b""):
            return None
        if mark != b"+":
            chunk.old.append(text)
        if mark != b"-":
            chunk.new.append(text)
    return chunks


def _seek(lines: list[bytes], wanted: list[bytes], start: int, *, at_end: bool) -> int | None:
    """Where `wanted` is found at or after `start`; `at_end` asks for the last lines."""
    if not wanted:
        return None
    last = len(lines) - len(wanted)
    if at_end and last >= 0:
        start = last
    for at in range(start, last + 1):
        if lines[at] == wanted[0] and lines[at : at + len(wanted)] == wanted:
            return at
    return None
