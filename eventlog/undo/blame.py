"""The turn that wrote each line of a file, and why: a fold of its versions (docs/blame.md).

Versions are taken oldest first. A line keeps its origin while it stays; a line that a version adds has that
version as its origin. Where a version began from another content than the one known last, somebody changed
the file outside of any turn, and that step has an origin of its own. What a restore or undo brought back
keeps the origins that it had.
"""

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from io import BytesIO
from typing import TYPE_CHECKING, Protocol

from eventlog.base.display import moment, path_words
from eventlog.base.errors import EventLogError, NotFound, Refused
from eventlog.base.paths import path_bytes
from eventlog.blobs.ids import blob_id, from_text, to_text
from eventlog.replay.history import FileVersion, history
from eventlog.replay.linediff import LINES_MAX, changes
from eventlog.restore.plan import readable_plan
from eventlog.undo.merge import is_text
from eventlog.undo.plan import UndoStore, operations_of

if TYPE_CHECKING:
    from eventlog.log.reader import LogView

# Where a line comes from that no recorded version wrote.
BEFORE = "before"  # it was there when recording began
OUTSIDE = "outside"  # written between two recorded versions: by a person, or a program that nobody saw
NOW = "now"  # in the file as it is, and not recorded yet
UNKNOWN = "unknown"  # there in the first version that is known, which may have changed some of it
VERSION = "version"
RESTORED = "restored"  # made by an undo that merged


@dataclass(frozen=True, slots=True)
class LineOrigin:
    """Where a line was written: `version` wrote it, or is the first that knows of it (`outside`, `unknown`).

    `line` is its number there, from 1.
    """

    kind: str
    version: FileVersion | None
    line: int


@dataclass(frozen=True, slots=True)
class BlamedLine:
    """A line of the file, its number from 1, and where it comes from."""

    number: int
    text: bytes
    origin: LineOrigin


class BlameStore(UndoStore, Protocol):
    """What keeping a blame needs of a store besides."""

    def view(self) -> "LogView": ...


@dataclass(frozen=True, slots=True)
class Content:
    """A content with the origin of each line."""

    hash: str
    lines: tuple[bytes, ...]
    origins: tuple[LineOrigin, ...]


def blame(
    store: UndoStore,
    path: str,
    now: bytes | None,
    *,
    ignore_spaces: bool = False,
    until: int | None = None,
) -> list[BlamedLine]:
    """The lines of a file with their origins.

    Args:
        path: as the repository names it.
        now: the file as it is; None for the last recorded version.
        ignore_spaces: a line that differs in white space alone is the same line.
        until: only versions before this position.
    Raises: NotFound (no version), Refused (not a text).
    """
    return lines_of(fold_of(store, path, ignore_spaces=ignore_spaces, until=until), path, now)


def fold_of(
    store: UndoStore, path: str, *, ignore_spaces: bool = False, until: int | None = None
) -> "BlameFold":
    """The versions of a file, folded. Args: as those of `blame`. Raises: Refused."""
    fold = BlameFold(store, ignore_spaces)
    for step in steps_of(store, path, until, fold):
        fold.take(step)
    return fold


def lines_of(fold: "BlameFold", path: str, now: bytes | None) -> list[BlamedLine]:
    """The lines after a fold, and those of the file as it is now. Raises: NotFound, Refused."""
    if now is not None:
        fold.change(to_text(blob_id(now)), now, NOW, None)
    content = fold.content
    if content is None:
        raise NotFound(_why_no_lines(fold, path))
    pairs = zip(content.lines, content.origins, strict=True)
    return [BlamedLine(number, text, origin) for number, (text, origin) in enumerate(pairs, 1)]


def _why_no_lines(fold: "BlameFold", path: str) -> str:
    shown = path_words(path)
    states = f"`locus recover {shown}` lists its recorded states."
    if fold.gone is None:
        return f"{shown} has no recorded version. {states}"
    version, before = fold.gone.version, fold.before_gone
    by = (
        "an undo, redo or restore" if version is None else version.turn_name or "somebody outside of any turn"
    )
    at = "" if version is None or version.at is None else f" at {moment(version.at)} UTC"
    earlier = f" `locus blame --at {before} {shown}` shows its lines before that," if before else ""
    return f"{shown} was deleted by {by}{at}.{earlier} {states}"


@dataclass(frozen=True, slots=True)
class FileStep:
    """One version, or what a restore did to the file."""

    position: int
    version: FileVersion | None
    before: str | None
    after: str | None
    is_delete: bool
    is_add: bool

    @property
    def goes_on(self) -> bool:
        """Whether its origins follow from the content before it and its own alone, from no older one."""
        return self.version is not None and not self.is_delete and not self.is_add

    @property
    def facts(self) -> list[object]:
        """All of it that a fold goes by."""
        version = self.version
        of_version = None if version is None else [version.event_id, version.turn is None]
        return [self.position, of_version, self.before, self.after, self.is_delete, self.is_add]


def steps_of(store: UndoStore, path: str, until: int | None, fold: "BlameFold") -> list[FileStep]:
    """Versions and restores of the file, oldest first. `fold` is incomplete where a plan cannot be read."""
    versions = history(store.query, store.blobs, path, rewritten=False, counted=False)
    steps = [
        FileStep(v.position, v, v.before_hash, v.after_hash, _is_gone(v, path), v.operation == "add")
        for v in reversed(versions)
    ]
    # Versions are in the order in which things happened; a restore is where it was recorded.
    for step in _restored(store, path, fold):
        at = next((i for i, other in enumerate(steps) if other.position > step.position), len(steps))
        steps.insert(at, step)
    return [step for step in steps if until is None or step.position < until]


def _is_gone(version: FileVersion, path: str) -> bool:
    return version.operation == "delete" or (version.operation == "rename" and version.old_path == path)


def _restored(store: UndoStore, path: str, fold: "BlameFold") -> Iterator[FileStep]:
    """What restores of the directory that holds the store did to the file."""
    target = os.fsencode(os.path.realpath(os.path.dirname(store.layout.root)))
    for operation in operations_of(store).done:
        document = readable_plan(store.blobs, operation.plan)
        if document is None:
            fold.is_complete = False
            continue
        is_here = operation.in_place or document.target == target
        for step in document.steps if is_here else ():
            if step.path == path_bytes(path):
                before = None if step.before is None else to_text(step.before.id)
                after = None if step.after is None else to_text(step.after.id)
                yield FileStep(operation.position, None, before, after, after is None, before is None)


class BlameFold:
    """Takes versions one after the other."""

    def __init__(self, store: UndoStore, ignore_spaces: bool) -> None:
        self.content: Content | None = None
        self.gone: FileStep | None = None  # the deletion after which the file did not come back
        self.before_gone: str | None = None  # the last turn that wrote the file before it
        self.is_complete = True  # every content and plan that it asked for was there
        self._get: Callable[[bytes], bytes] = store.blobs.get
        self._ignore_spaces = ignore_spaces
        self._seen: dict[str, Content] = {}  # every content that was there, with its origins then

    def take(self, step: FileStep) -> None:
        if step.after is not None and self.content is not None and step.after == self.content.hash:
            return  # recorded once more
        if step.is_delete:
            self._begin_gone(step)
            return
        self.gone = None
        if step.version is not None:
            self.before_gone = step.version.turn_name or self.before_gone
        if step.version is None and step.after in self._seen:
            self.content = self._seen[str(step.after)]
            return
        if step.after is None or (step.before is None and not step.is_add):
            self.is_complete = False
        if step.before is not None and not step.is_add:
            if self.content is None:
                self._begin(step.before)
            elif step.before != self.content.hash:
                self._change_to(step.before, OUTSIDE, step.version)
        elif step.is_add and step.version is not None:
            self.content = None if step.after not in self._seen else self._seen[str(step.after)]
        if step.after is not None:
            self._change_to(step.after, self._kind_of(step), step.version)

    def _begin_gone(self, step: FileStep) -> None:
        """Take a deletion. What was there is seen, so that an undo brings its origins back."""
        if self.content is None and step.before is not None:
            with suppress(Refused):  # it is no text, and what comes later may be one
                self._begin(step.before)
        self.content, self.gone = None, step

    def _kind_of(self, step: FileStep) -> str:
        """What kind of origin the lines have that a step adds."""
        if step.version is None:
            return RESTORED
        if self.content is None and not step.is_add:
            return UNKNOWN
        return VERSION if step.version.turn is not None else OUTSIDE

    def _begin(self, hash: str) -> None:
        """A content that was there before anything of it was recorded."""
        data = self._read(hash)
        if data is None:
            return
        lines = tuple(BytesIO(data).readlines())
        origins = tuple(LineOrigin(BEFORE, None, number) for number in range(1, len(lines) + 1))
        self.content = self._seen[hash] = self._seen.get(hash, Content(hash, lines, origins))

    def _change_to(self, hash: str, kind: str, version: FileVersion | None) -> None:
        data = self._read(hash)
        if data is not None:
            self.change(hash, data, kind, version)

    def change(self, hash: str, data: bytes, kind: str, version: FileVersion | None) -> None:
        """Go on to a content; the lines that are new in it have this origin."""
        _refuse_binary(data)
        lines = tuple(BytesIO(data).readlines())
        old = self.content or Content("", (), ())
        origins: list[LineOrigin] = []
        done = 0
        for a1, a2, b1, b2 in changes(self._keys(old.lines), self._keys(lines)):
            origins += old.origins[done:a1]
            origins += [self._origin(kind, version, number, lines) for number in range(b1, b2)]
            done = a2
        origins += old.origins[done:]
        self.content = self._seen[hash] = Content(hash, lines, tuple(origins))

    def _origin(
        self, kind: str, version: FileVersion | None, number: int, lines: Sequence[bytes]
    ) -> LineOrigin:
        """The origin of a new line. What an undo brings back had one before, if only an unknown one."""
        if kind == RESTORED:
            for seen in reversed(self._seen.values()):
                if seen.lines.count(lines[number]) == 1:
                    return seen.origins[seen.lines.index(lines[number])]
            kind = UNKNOWN if self.content is None else kind
        return LineOrigin(kind, version, number + 1)

    def _keys(self, lines: Sequence[bytes]) -> Sequence[bytes]:
        return [b"".join(line.split()) for line in lines] if self._ignore_spaces else lines

    def _read(self, hash: str) -> bytes | None:
        """The content; None where it is not to be had. The next one that is says what changed meanwhile."""
        try:
            data = self._get(from_text(hash))
        except EventLogError:
            self.is_complete = False
            return None
        _refuse_binary(data)
        return data


def _refuse_binary(data: bytes) -> None:
    if not is_text(data):
        raise Refused("it is no text, so it has no lines. `locus history` lists its versions.")
    if data.count(b"\n") > LINES_MAX:
        raise Refused(f"it has more than {LINES_MAX:,} lines. `locus history` lists its versions.")
