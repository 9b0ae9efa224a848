"""Changes of files as the log tells them: from a state before to a state after, over events (docs/undo.md).

Events of one turn that follow each other without a gap are one change; where somebody else's change lies
between them they stay two. A rename is one change of two paths. Pure but for what `deferred` reads.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from eventlog.base.errors import InvalidEvent, NotFound
from eventlog.base.event import Rows
from eventlog.base.paths import is_below, path_bytes
from eventlog.blobs.ids import from_text
from eventlog.blobs.tree import (
    DIRECTORY,
    FILE,
    SUBMODULE,
    unsafe_path,
)
from eventlog.checkout.directory import NO_ID, State, same, state_of_entry
from eventlog.log.erasures import TextErasures
from eventlog.replay.certainty import doubt_bytes
from eventlog.replay.line_counts import deferred_content
from eventlog.replay.trees import kind_of_mode

if TYPE_CHECKING:
    from eventlog.replay.deferred import DeferredContents

# What is read of file events.
COLUMNS = (
    "position", "event_id", "session_id", "turn", "operation", "path", "before_hash", "after_hash", "payload",
    "cause", "source", "worktree",
)  # fmt: skip


# Stands for the paths that an erasure took: any path may have been among them.
ERASED_PATHS = b"."


class ErasedChanges(NotFound):
    """Nothing is left of what was to be taken back; `why` is the reason."""

    def __init__(self, names: Sequence[str], why: str) -> None:
        super().__init__(
            f"{', '.join(names)} cannot be taken back: {why}, so the paths that it changed are not known."
        )
        self.why = why


@dataclass(frozen=True, slots=True)
class RecordedChange:
    """What became of one file. A path is None where the file was not there; `unknown` says what is not known.

    `position` is that of the last event of the change.
    """

    old_path: bytes | None
    before: State | None
    new_path: bytes | None
    after: State | None
    position: int
    unknown: str | None = None

    @property
    def path(self) -> bytes:
        """The path by which people know the change: the later one."""
        path = self.new_path if self.new_path is not None else self.old_path
        assert path is not None
        return path

    @property
    def paths(self) -> tuple[bytes, ...]:
        return tuple({path: None for path in (self.old_path, self.new_path) if path is not None})

    @property
    def is_none(self) -> bool:
        """Whether nothing is left of it."""
        return self.unknown is None and self.old_path == self.new_path and same(self.before, self.after)


def changes_of(
    events: Iterable[Mapping[str, Any]], deferred: "DeferredContents", rows: Rows
) -> tuple[list[RecordedChange], list[tuple[bytes, str]]]:
    """The changes that file events make together, oldest first; and (path, reason) of what no tree can hold,
    where the path is `ERASED_PATHS` once for each erasure that took some.

    Args: events: in position order; rows: reads the log, for what was erased.
    """
    erasures = TextErasures(rows)
    changes: list[RecordedChange] = []
    met: set[bytes] = set()  # paths of all of them
    refused: list[tuple[bytes, str]] = []
    for event in events:
        if event["operation"] == "read":
            continue
        if (why := erasures.why(event)) is not None:
            refused += [] if (ERASED_PATHS, why) in refused else [(ERASED_PATHS, why)]
            continue
        try:
            change = _change_of(event, deferred)
        except ValueError as error:
            refused.append((str(event["path"]).encode("utf-8", "surrogateescape"), str(error)))
            continue
        if met.isdisjoint(change.paths):
            changes.append(change)
        else:
            changes = joined(changes, change)
        met.update(change.paths)
    return [change for change in changes if not change.is_none], refused


def paths_of(event: Mapping[str, Any]) -> tuple[bytes, ...]:
    """The path of a file event, and of a rename the path before it."""
    old_path = (event["payload"] or {}).get("old_path")
    paths = (event["path"], old_path) if old_path else (event["path"],)
    return tuple(doubt_bytes(str(path or "")) for path in paths)


def is_wanted(paths: Iterable[bytes], wishes: Sequence[bytes]) -> bool:
    """Whether one of the paths is asked for, or may be. Args: wishes: none for all."""
    return not wishes or any(
        path == ERASED_PATHS or is_below(path, wish) for path in paths for wish in wishes
    )


def moves_in(rows: Rows) -> Callable[[bytes, int], bytes | None]:
    """A function that follows recorded renames: where what was at a path at a position is now; None where it
    was not moved."""
    renames: list[tuple[int, bytes, bytes]] | None = None

    def moved(path: bytes, since: int) -> bytes | None:
        nonlocal renames
        if renames is None:
            events = rows(event_types=("file",), columns=("position", "operation", "path", "payload"))
            renamed = [(int(e["position"]), paths_of(e)) for e in events if e["operation"] == "rename"]
            renames = [(position, both[1], both[0]) for position, both in renamed if len(both) > 1]
        here, is_moved = path, False
        for position, old, new in renames:
            if position > since and old == here:
                here, is_moved = new, True
        return here if is_moved else None

    return moved


def joined(changes: list[RecordedChange], change: RecordedChange) -> list[RecordedChange]:
    """The changes with one more, which goes on where the last one of its file ended, if it does."""
    between: set[bytes] = set()  # paths of what came after the change in question
    for number in range(len(changes) - 1, -1, -1):
        earlier = changes[number]
        if not set(earlier.paths) & set(change.paths):
            between.update(earlier.paths)
            continue
        if not between.isdisjoint(earlier.paths):
            break  # its other path is another file's by now
        follows = earlier.new_path == change.old_path and same(earlier.after, change.before)
        if earlier.new_path is None:  # deleted, and created again under the same name
            follows = change.old_path is None and earlier.old_path == change.new_path
        if not follows or earlier.unknown or change.unknown:
            break
        whole = replace(earlier, new_path=change.new_path, after=change.after, position=change.position)
        if whole.old_path is None and whole.new_path is None:
            return [*changes[:number], *changes[number + 1 :]]
        return [*changes[:number], *changes[number + 1 :], whole]
    return [*changes, change]


def _change_of(event: Mapping[str, Any], deferred: "DeferredContents") -> RecordedChange:
    """Raises: ValueError for a path that no tree could hold."""
    payload = event["payload"] or {}
    operation, path = event["operation"], _legal(str(event["path"] or ""))
    old_path: bytes | None = path
    new_path: bytes | None = path
    if operation == "add":
        old_path = None
    elif operation == "delete":
        new_path = None
    elif operation == "rename":
        old_path = _legal(str(payload.get("old_path") or ""))
    before_hash = event["before_hash"] or deferred_content(event, "before_deferred", deferred)
    after_hash = event["after_hash"] or deferred_content(event, "deferred", deferred)
    before, no_before = _state(old_path, payload.get("before_mode"), before_hash)
    after, no_after = _state(new_path, payload.get("after_mode"), after_hash)
    if no_after and payload.get("skipped"):
        no_after = f"{no_after}: {payload['skipped']}"
    unknown = (no_before and f"before this, {no_before}") or (no_after and f"after this, {no_after}") or None
    return RecordedChange(old_path, before, new_path, after, int(event["position"]), unknown)


def _state(path: bytes | None, mode: object, content: object) -> tuple[State | None, str]:
    """The state that an event says of one side, and what it leaves unknown."""
    if path is None:
        return None, ""
    kind = kind_of_mode(mode) or FILE
    if mode == "040000" or kind == DIRECTORY:
        return State(DIRECTORY, None, NO_ID, 0), ""
    if kind == SUBMODULE:
        return None, "a submodule was there"
    if content is None:
        return None, "its content was not recorded"
    try:
        id = from_text(str(content))
    except InvalidEvent:
        return None, "its content is not one of this store"
    return state_of_entry(kind, id), ""


def _legal(text: str) -> bytes:
    path = path_bytes(text)
    problem = unsafe_path(path)
    if problem is not None:
        raise ValueError(f"it {problem}")
    return path
