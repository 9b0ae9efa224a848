"""Does everything that the log names exist? Every id that an event names, and all below it (I24).

What only events before a release of their session name may have been collected, so it is not checked, also
when the session is held again by now.

Reads only, under the caller's pinned view. Each id is checked once, however many events and trees
name it. `blobs/verify.py` checks that the bytes in the packs hash to their ids, and gives the ids that
failed: contents are read here only where they may be missing. Trees are all read.

Memory: some 100 bytes for each different id, one batch of the log's hash columns, and the trees on one
way down.
"""

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from eventlog.base.errors import EventLogError, InvalidEvent, NotFound
from eventlog.base.layout import PACK_DIR
from eventlog.base.paths import path_text
from eventlog.blobs.ids import TEXT_PREFIX, from_text, to_text
from eventlog.blobs.pack import TREE
from eventlog.blobs.store import BlobStore
from eventlog.blobs.tree import DIRECTORY
from eventlog.log.erasures import erased_contents
from eventlog.log.finding import Finding
from eventlog.log.reader import LogView
from eventlog.log.repair_notes import known_losses
from eventlog.log.retained import CONTENT, kept_rows, of_lists, retention_in, stored_in, without_stored

if TYPE_CHECKING:
    import pyarrow as pa

_ANY, _CONTENT, _TREE = "content or tree", "a file's content", "a tree"

# What the ids of a column must be. Hashes of another spelling are not ours to resolve.
_COLUMNS = {"blobs": _ANY, "before_hash": _CONTENT, "after_hash": _CONTENT, "tree_hash": _TREE}

_LOST = "Bring back a pack that holds it from a backup, or capture the files again"


def verify_references(
    blobs: BlobStore, view: LogView, damaged: "Collection[bytes]" = ()
) -> Iterator[Finding]:
    """Ids in events that do not resolve to what they should be. A loss that a repair noted is no damage.

    Args: damaged: ids of which a copy is known to be bad; these are read again, from any other copy.
    """
    noted_losses = _known(view)
    for problem in _problems(blobs, view, damaged):
        below = f", at {path_text(problem.path)}" if problem.path else ""
        named = (
            f"{problem.text}, named as {problem.column} by the event at position {problem.position}{below}"
        )
        packs_path = blobs.layout.directory(PACK_DIR)
        if problem.missing in noted_losses:
            yield Finding(packs_path, f"{named}: it is lost, as a repair has noted.", damage=False)
        else:
            yield Finding(packs_path, f"{named}: {problem.what}")


def missing_contents(blobs: BlobStore, view: LogView) -> set[bytes]:
    """The ids that events need, that no pack has, and that no repair noted yet."""
    missing = {problem.missing for problem in _problems(blobs, view, ()) if problem.missing is not None}
    return missing - _known(view)


@dataclass(frozen=True, slots=True)
class _Problem:
    """An id that an event names, and what is wrong with it or below it."""

    text: str
    column: str
    position: int
    path: bytes  # below it
    what: str
    missing: "bytes | None"  # the id that is nowhere, if that is what is wrong


def _problems(blobs: BlobStore, view: LogView, damaged: "Collection[bytes]") -> "Iterator[_Problem]":
    closure = _Closure(blobs, damaged, _erased(view))
    entries = [(entry.base, entry.end) for entry in view.manifest.segments]
    release_positions = _may_be_gone(view)
    columns = ("position", "event_type", "session_id", *_COLUMNS)
    lists = frozenset(_lists(view))
    named: set[str] = set()
    for since, until in [*entries, (view.manifest.next_position, None)]:
        try:
            for batch in view.batches(since, until, columns=columns):
                needed = kept_rows(without_stored(batch), release_positions)
                named.update(lists.intersection(needed.column("blobs").flatten().unique().to_pylist()))
                yield from _check_batch(closure, needed)
        except EventLogError:
            continue  # the check of events reports those that cannot be read
    try:
        for batch in view.batches(event_types=(CONTENT,), columns=columns):
            # Stored deferred contents whose list no event names any more may be gone.
            yield from _check_batch(closure, of_lists(batch, named))
    except EventLogError:
        return


def _known(view: LogView) -> set[bytes]:
    try:
        return known_losses(view)
    except EventLogError:
        return set()  # the check of events reports those that cannot be read


def _lists(view: LogView) -> "Collection[str]":
    """The lists of deferred contents whose outcome is in the log."""
    try:
        return stored_in(view).keys()
    except EventLogError:
        return frozenset()  # as above


def _may_be_gone(view: LogView) -> "dict[str, int]":
    """The position of each session's release: what earlier events name may rightly be gone."""
    try:
        return {session: release.position for session, release in retention_in(view).ever.items()}
    except EventLogError:
        return {}  # the check of events reports those that cannot be read


def _erased(view: LogView) -> "Collection[bytes]":
    """Contents that were erased by the log: they are missing rightly."""
    try:
        return erased_contents(view).keys()
    except EventLogError:
        return ()  # as above


def _check_batch(closure: "_Closure", batch: "pa.RecordBatch") -> "Iterator[_Problem]":
    for name, kind in _COLUMNS.items():
        column = batch.column(name)
        for text in (column.flatten() if name == "blobs" else column).unique().to_pylist():
            if text is None or (name != "blobs" and not text.startswith(TEXT_PREFIX)):
                continue
            try:
                problems = list(closure.check(from_text(text), kind))
            except InvalidEvent as error:
                problems = [(b"", str(error), None)]
            for path, what, missing in problems:
                yield _Problem(text, name, _position_of(batch, name, text), path, what, missing)


def _position_of(batch: "pa.RecordBatch", name: str, text: str) -> int:
    """The position of the first event that names it."""
    for position, value in zip(batch.column("position"), batch.column(name).to_pylist(), strict=True):
        if value == text or (isinstance(value, list) and text in value):
            return int(position.as_py())
    raise AssertionError(text)


class _Closure:
    """The ids that were checked, and the problems below an id that was not."""

    def __init__(self, blobs: BlobStore, damaged: "Collection[bytes]", erased: "Collection[bytes]") -> None:
        self._blobs = blobs
        self._damaged = damaged
        self._erased = erased
        self._seen: set[tuple[bytes, str]] = set()
        blobs.refresh()

    def check(self, id: bytes, kind: str) -> "Iterator[tuple[bytes, str, bytes | None]]":
        """(path below `id`, what is wrong there, the id if it is missing)."""
        waiting = [(b"", id, kind)]
        while waiting:
            path, id, kind = waiting.pop()
            if (id, kind) in self._seen or id in self._erased:
                continue
            self._seen.add((id, kind))
            try:
                is_tree = self._is_tree(id)
                if kind != _ANY and is_tree != (kind == _TREE):
                    yield path, f"{to_text(id)} is {_TREE if is_tree else _CONTENT}, not {kind}.", None
                elif is_tree:
                    prefix = path + b"/" if path else path
                    for entry in self._blobs.get_tree(id):
                        below = _TREE if entry.kind == DIRECTORY else _CONTENT
                        waiting.append((prefix + entry.name, entry.id, below))
            except NotFound as error:
                yield path, f"{error}. {_LOST}.", id
            except EventLogError as error:  # damaged, or the disk refuses
                yield path, str(error), None

    def _is_tree(self, id: bytes) -> bool:
        """Whether `id` is a tree; its bytes are read unless they are known to be right."""
        location = self._blobs.locations((id,)).get(id)
        if location is None or id in self._damaged:
            return self._blobs.kind_of(id) == "tree"
        return location[1] == TREE
