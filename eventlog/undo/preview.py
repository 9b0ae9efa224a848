"""The diff of an undo or redo before it is carried out: what is at each path, and what would be there.

A path of which any version takes part that holds a secret, or may, has no diff (docs/undo.md, Plans).
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from eventlog.base.errors import Corruption, NotFound, Refused
from eventlog.blobs.ids import to_text
from eventlog.blobs.tree import DIRECTORY, TreeEntry
from eventlog.checkout.directory import OpenDirectory, State
from eventlog.replay.compare import PathChange
from eventlog.replay.diffs import FileDiff
from eventlog.restore.journal import RestoreStep
from eventlog.undo.plan import UndoPlan

WITHHELD = "withheld: it holds, or may hold, a secret"


@dataclass(frozen=True, slots=True)
class StepPreview:
    """The diff of one step in git's form; None where it is not shown, and `why`."""

    path: bytes
    diff: bytes | None
    why: str | None = None


def previews(
    plan: UndoPlan,
    content: Callable[[bytes], bytes],
    withheld: frozenset[str],
    holds_secret: Callable[[bytes], bool],
) -> Iterator[StepPreview]:
    """The diff of each path that would change, in order; directories have none.

    Args: content: reads a content of the store by its id; withheld: the hashes that never leave.
    Raises: Refused, where a path was changed since the plan was made.
    """
    with OpenDirectory.of(plan.target) as directory:
        for step in plan.steps:
            if step.of_directories:
                continue
            of_files = RestoreStep(step.path, _file(step.before), _file(step.after))
            yield _preview(plan, of_files, directory, content, withheld, holds_secret)


def _preview(
    plan: UndoPlan,
    step: RestoreStep,
    directory: OpenDirectory,
    content: Callable[[bytes], bytes],
    withheld: frozenset[str],
    holds_secret: Callable[[bytes], bool],
) -> StepPreview:
    ids = {state.id for state in (step.before, step.after) if state is not None} | plan.ids_at(step.path)
    if not withheld.isdisjoint(map(to_text, ids)):
        return StepPreview(step.path, None, WITHHELD)
    contents: dict[bytes, bytes] = {}
    try:
        if step.before is not None:
            now, _, contents[step.before.id] = directory.read(step.path)
            if now is None or now.id != step.before.id:
                raise Refused("something was changed since the plan was made. Plan again.")
        if step.after is not None and step.after.id not in contents:
            made = plan.contents.get(step.after.id)
            contents[step.after.id] = content(step.after.id) if made is None else made
    except (OSError, NotFound, Corruption) as error:
        return StepPreview(step.path, None, f"its content cannot be read: {error}")
    if any(map(holds_secret, contents.values())):
        return StepPreview(step.path, None, WITHHELD)
    operation = "add" if step.before is None else "delete" if step.after is None else "edit"
    change = PathChange(step.path, operation, _entry(step.path, step.before), _entry(step.path, step.after))
    return StepPreview(step.path, FileDiff(change, contents.__getitem__).text)


def _file(state: State | None) -> State | None:
    """A file's state; a directory in its place has no diff of its own."""
    return None if state is None or state.kind == DIRECTORY else state


def _entry(path: bytes, state: State | None) -> TreeEntry | None:
    return None if state is None else TreeEntry(path.rpartition(b"/")[2], state.kind, state.id, state.size)
