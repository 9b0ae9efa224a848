"""Diffs, made from contents on demand: of two trees, of one file event (S1-31).

The log stores no diff text where both contents are known: it would be most of a segment. Contents are
read when they are asked for, one change at a time, so that a large diff costs the memory of its largest
file. One thread; the store verifies what it reads (I24).
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

from eventlog.base.display import path_words
from eventlog.base.errors import EventLogError, NotFound
from eventlog.base.paths import path_bytes, path_text
from eventlog.blobs.ids import from_text
from eventlog.blobs.tree import SUBMODULE, TreeEntry
from eventlog.replay.compare import ROOT, Missing, PathChange, compare
from eventlog.replay.linediff import LineDiff, line_diff
from eventlog.replay.patches import patch, sections

if TYPE_CHECKING:
    from eventlog.blobs.store import BlobStore
    from eventlog.replay.trees import TreeState

# A larger content counts as binary and is not read: git has the same limit.
TEXT_MAX = 512 << 20

Reader = Callable[[bytes], bytes]


class FileDiff:
    """One change with its contents. Nothing is read before a caller asks for a count or the text.

    Raises, when it reads: NotFound (a content is no longer in the store), Corruption.
    """

    def __init__(self, change: PathChange, read: Reader) -> None:
        self.change = change
        self._read = read

    @property
    def path(self) -> str:
        return path_text(self.change.path)

    @property
    def old_path(self) -> str | None:
        """The path before a rename."""
        return None if self.change.old_path is None else path_text(self.change.old_path)

    @property
    def operation(self) -> str:
        return self.change.operation

    @property
    def binary(self) -> bool:
        """Whether a content is binary: it holds a NUL byte, or is larger than `TEXT_MAX`."""
        return any(lines is None for _, lines in self._parts)

    @property
    def lines_added(self) -> int | None:
        """How many lines are new, None where a content is binary."""
        return None if self.binary else sum(lines.added for _, lines in self._parts if lines is not None)

    @property
    def lines_removed(self) -> int | None:
        return None if self.binary else sum(lines.removed for _, lines in self._parts if lines is not None)

    def patch(self, *, binary: bool = False) -> Iterator[bytes]:
        """The change in git's extended format, in pieces; with `binary` a binary one with its contents."""
        for part, lines in self._parts:
            contents = None
            if lines is None and (binary or not _is_large(part)):
                contents = self._whole(part.before), self._whole(part.after)
            yield from patch(part, lines, contents, whole=binary)

    @property
    def text(self) -> bytes:
        """The whole patch at once."""
        return b"".join(self.patch())

    @cached_property
    def _parts(self) -> list[tuple[PathChange, LineDiff | None]]:
        return [(part, self._lines(part)) for part in sections(self.change)]

    def _lines(self, part: PathChange) -> LineDiff | None:
        if part.before is not None and part.after is not None and part.before.id == part.after.id:
            return line_diff(b"", b"")  # a rename or a mode: the content stays, binary or not
        if _is_large(part):
            return None
        before, after = self._content(part.before), self._content(part.after)
        return None if b"\0" in before or b"\0" in after else line_diff(before, after)

    def _whole(self, entry: TreeEntry | None) -> bytes | None:
        return None if entry is None else self._content(entry)

    def _content(self, entry: TreeEntry | None) -> bytes:
        if entry is None:
            return b""
        data = self._read(entry.id)
        return b"Subproject commit %b\n" % data if entry.kind == SUBMODULE else data


def _is_large(part: PathChange) -> bool:
    return any(entry is not None and entry.size > TEXT_MAX for entry in (part.before, part.after))


@dataclass(frozen=True, slots=True)
class Diff:
    """What changed between two trees.

    `changes` are the changed paths without their contents, in order; iterating gives each with its
    lines. `missing` are the paths that one side did not capture, with the reasons.
    """

    before: "TreeState"
    after: "TreeState"
    changes: tuple[PathChange, ...]
    missing: tuple[Missing, ...]

    def __iter__(self) -> Iterator[FileDiff]:
        return (FileDiff(change, self.after.blobs.get) for change in self.changes)

    def patch(self, *, binary: bool = False) -> Iterator[bytes]:
        """All changes in git's extended format, in pieces: `git apply` takes them, those of binary
        contents only with `binary`."""
        for file in self:
            yield from file.patch(binary=binary)

    def within(self, paths: Sequence[str]) -> "Diff":
        """The part that concerns these files and folders; a rename concerns both of its names.

        Raises: NotFound for a path that neither side has.
        """
        unknown = next((path for path in paths if not self.knows(path)), None)
        if unknown is not None:
            raise NotFound(
                f"{unknown}: no such path in {self.before.turn} at {self.before.at} "
                f"or in {self.after.turn} at {self.after.at}"
            )
        wanted = [path_bytes(path).rstrip(b"/") for path in paths]
        if not wanted:
            return self
        return replace(
            self,
            changes=tuple(c for c in self.changes if any(map(c.concerns, wanted))),
            missing=tuple(gap for gap in self.missing if any(map(gap.concerns, wanted))),
        )

    def knows(self, path: str) -> bool:
        """Whether one side has an entry at `path`, or should have."""
        wanted = path_bytes(path).rstrip(b"/")
        return (
            _has(self.before, wanted)
            or _has(self.after, wanted)
            or any(gap.path != ROOT and gap.concerns(wanted) for gap in self.missing)
        )


def diff(before: "TreeState", after: "TreeState") -> Diff:
    """What changed from `before` to `after`. Raises: NotFound, Corruption when a tree cannot be read."""
    comparison = compare(before, after)
    return Diff(before, after, comparison.changes, comparison.missing)


def _has(state: "TreeState", path: bytes) -> bool:
    return path == ROOT or state.find(path) is not None


def diff_of(event: Mapping[str, Any], blobs: "BlobStore") -> str | None:
    """The diff of a file event, for display: the one stored with it, else one made from its contents.

    None when a content is binary, was not captured, or is no longer in the store.
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


def _named(side: str, path: str) -> str:
    """A path in the head of a diff; one that would break its line is quoted as in git."""
    shown = path_words(path)
    return f'"{side}/{shown[1:]}' if shown.startswith('"') else f"{side}/{shown}"


def unified(before: bytes | None, after: bytes | None, path: str, old_path: str | None = None) -> str | None:
    """The unified diff from `before` to `after` as text for people, "" when they are equal, None when one
    is binary.

    None as content means that the file does not exist on that side. Bytes that are not UTF-8 are shown
    as replacement characters.
    """
    if b"\0" in (before or b"") or b"\0" in (after or b""):
        return None
    if before == after:
        return ""
    head = (
        f"--- {'/dev/null' if before is None else _named('a', old_path or path)}\n"
        f"+++ {'/dev/null' if after is None else _named('b', path)}\n"
    )
    hunks = line_diff(before or b"", after or b"").hunks()
    return head + b"".join(hunks).decode("utf-8", "replace")
