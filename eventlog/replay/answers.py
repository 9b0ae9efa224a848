"""The answers of the SQL functions (query/functions.py): contents, trees, differences and histories.

For a batch of rows, turns are looked up together, their events read in one query, and contents read in the
order of the packs. Trees and directories stay in memory for later batches. A content that is withheld, erased
or not captured, and a directory, is null here, never a guess (P5, P7). A turn that is not in the log, and
damaged bytes on disk, are errors.

One thread at a time. The store verifies contents (I24).
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from eventlog.base.errors import NotFound, NoTree, QueryError
from eventlog.base.paths import path_bytes, path_text
from eventlog.base.types import Event
from eventlog.blobs.ids import to_text
from eventlog.blobs.tree import (
    DIRECTORY,
    EXECUTABLE,
    FILE,
    FILES,
    SKIPPED,
    SUBMODULE,
    SYMLINK,
    TreeEntry,
    plain_kind,
)
from eventlog.query.functions import HISTORY
from eventlog.query.lookup import TurnRef, find_turn
from eventlog.replay.certainty import NONE
from eventlog.replay.deferred import DeferredContents, content_events_by_sql, hashed, secrets_in
from eventlog.replay.diffs import FileDiff, diff
from eventlog.replay.history import history
from eventlog.replay.partial_tree import trees_in
from eventlog.replay.trees import TreeState
from eventlog.replay.turn_events import TurnKey, events_of_turns

if TYPE_CHECKING:
    from eventlog.blobs.store import BlobStore
    from eventlog.query.functions import Ask, Rows, Texts


_CONTENT = FILES | {SYMLINK}
_KIND_NAMES = {
    FILE: "file", EXECUTABLE: "executable", SYMLINK: "symlink", SUBMODULE: "submodule", SKIPPED: "skipped",
}  # fmt: skip

# A tree costs some kilobytes, an entry of a directory some 200 bytes.
_STATES_KEPT = 4_096
_ENTRIES_KEPT = 100_000
# Events of so many turns are read at a time.
_TURNS_AT_ONCE = 512
# DuckDB asks for up to 2,048 rows at a time, whatever their size.
_BATCH_BYTES_MAX = 1 << 30

_TURNS = """
    select session_id, turn, first_position, last_position + 1 from turns
    semi join (select unnest($1::varchar[]) as session_id, unnest($2::bigint[]) as turn) as wanted
        using (session_id, turn)"""


class _Directories:
    """Directories as they are stored, cached by their ids, so that they are never out of date."""

    def __init__(self) -> None:
        self._cached: dict[bytes, dict[bytes, TreeEntry]] = {}
        self._entries = 0

    def read(self, state: TreeState, id: bytes) -> dict[bytes, TreeEntry]:
        """The entries of one of a tree's directories, by name."""
        entries = self._cached.get(id)
        if entries is None:
            entries = {entry.name: entry for entry in state.stored_tree(id)}
            self._entries += len(entries)
            if self._entries > _ENTRIES_KEPT:
                self._cached.clear()
                self._entries = len(entries)
            self._cached[id] = entries
        return entries


# An open store is asked about the same trees again.
_DIRECTORIES: "WeakKeyDictionary[BlobStore, _Directories]" = WeakKeyDictionary()


class StoreAnswers:
    """The answers of one store, at one moment of its log."""

    def __init__(self, ask: "Ask", blobs: "BlobStore") -> None:
        self._ask = ask
        self._blobs = blobs
        self._refs: dict[str, TurnRef] = {}
        self._states: dict[TurnRef, TreeState | None] = {}
        self._directories = _DIRECTORIES.setdefault(blobs, _Directories())
        self._withheld: frozenset[str] | None = None

    # -- what SQL asks ---------------------------------------------------------------------------

    def contents(self, paths: "Texts", turns: "Texts") -> "list[bytes | None]":
        states = self._at_end(turns)
        ids = [
            None if path is None or state is None else self._content_at(state, path)
            for path, state in zip(paths, states, strict=True)
        ]
        read: dict[bytes, bytes | None] = {}
        size = 0
        for id in self._blobs.read_order({id for id in ids if id is not None}):
            read[id] = content = self._read(id)
            size += len(content or b"")
            if size > _BATCH_BYTES_MAX:
                raise QueryError(
                    "the contents of one batch of rows exceed 1 GiB. Ask for fewer files at a time: "
                    "narrow WHERE down, or use LIMIT in a subquery."
                )
        return [None if id is None else read[id] for id in ids]

    def turn_ranges(self, turns: "Texts") -> "list[dict[str, Any] | None]":
        turn_refs = self.find(turns)
        return [
            None
            if ref is None
            else {
                "of_store": None,
                "of_session": ref.session_id,
                "of_turn": ref.turn,
                "since": ref.since,
                "until": ref.until,
            }
            for ref in turn_refs
        ]

    def trees(self, turns: "Texts") -> "Rows":
        return [None if state is None else self._files(state) for state in self._at_end(turns)]

    def diffs(self, before: "Texts", after: "Texts") -> "Rows":
        return [self._diff(a, b) for a, b in zip(before, after, strict=True)]

    def histories(self, paths: "Texts") -> "Rows":
        return [None if path is None else self._history(path) for path in paths]

    # -- turns -----------------------------------------------------------------------------------

    def find(self, names: "Texts") -> list[TurnRef | None]:
        """The turns of these names. Raises: NotFound, Ambiguous."""
        new = {name for name in names if name is not None and name not in self._refs}
        keys = {name: key for name in new if (key := _turn_key(name)) is not None}
        refs = {(ref.session_id, ref.turn): ref for ref in self._turns(list(keys.values()))}
        for name in new:
            ref = refs.get(keys[name]) if name in keys else None
            self._refs[name] = ref or find_turn(self._ask, name)
        return [None if name is None else self._refs[name] for name in names]

    def _turns(self, keys: Sequence[TurnKey]) -> Iterator[TurnRef]:
        if keys:
            rows = self._ask(_TURNS, [[key[0] for key in keys], [key[1] for key in keys]]).rows
            yield from (TurnRef(*row) for row in rows)

    # -- trees -----------------------------------------------------------------------------------

    def _at_end(self, names: "Texts") -> list[TreeState | None]:
        """The trees at the ends of these turns; None where none was recorded."""
        refs = self.find(names)
        wanted = {ref for ref in refs if ref is not None}
        if len(self._states) + len(wanted) > _STATES_KEPT:
            self._states = {ref: self._states[ref] for ref in wanted if ref in self._states}
        new = sorted((r for r in wanted if r not in self._states), key=lambda ref: ref.since)
        for first in range(0, len(new), _TURNS_AT_ONCE):
            self._states |= self._read_states(new[first : first + _TURNS_AT_ONCE])
        return [None if ref is None else self._states[ref] for ref in refs]

    def _read_states(self, refs: Sequence[TurnRef]) -> dict[TurnRef, TreeState | None]:
        events = events_of_turns(self._ask, refs)
        deferred = DeferredContents(self._blobs, content_events_by_sql(self._ask))
        return {ref: self._trees(events, ref, deferred, "end")[0] for ref in refs}

    def _trees(
        self, events: Mapping[TurnKey, list[Event]], ref: TurnRef, deferred: DeferredContents, *moments: str
    ) -> list[TreeState] | list[None]:
        """The trees of a turn, or its partial trees; None where it has no files."""
        of_turn = events.get((ref.session_id, ref.turn), [])
        try:
            return trees_in(of_turn, self._blobs, ref.name, moments, deferred)
        except NoTree:
            return [None] * len(moments)

    def _content_at(self, state: TreeState, path: str) -> bytes | None:
        """The id of the content of the file at `path`; None where that is not known to be exact."""
        try:
            wanted = path_bytes(path)
        except ValueError:
            return None
        if state.certainty.state != NONE and state.certainty.doubt(path) is not None:
            return None
        *folders, name = wanted.split(b"/")
        directory = self._directories.read(state, state.root)
        for folder in folders:
            below = directory.get(folder)
            if below is None or below.kind != DIRECTORY:
                return None
            directory = self._directories.read(state, below.id)
        entry = directory.get(name)
        if entry is None:
            return None
        entry = state.deferred.entry(entry, wanted)
        return entry.id if entry.kind in _CONTENT else None

    def _files(self, state: TreeState) -> list[dict[str, Any]]:
        return [
            {
                "path": path_text(path),
                "kind": _KIND_NAMES[plain_kind(entry.kind)],
                "bytes": None if entry.kind == SKIPPED and entry.size == 2**64 - 1 else entry.size,
                "content_hash": _hash_of(entry),
                "doubt": state.certainty.doubt(path_text(path)),
            }
            for path, entry in self._entries(state)
        ]

    def _entries(self, state: TreeState) -> Iterator[tuple[bytes, TreeEntry]]:
        """The paths of a tree except directories; a content that git holds has its own hash here."""
        for path, entry in state.walk():
            if entry.kind != DIRECTORY:
                try:
                    yield path, hashed(self._blobs, entry)
                except NotFound:
                    yield path, TreeEntry(entry.name, SKIPPED, entry.id, entry.size)

    # -- contents --------------------------------------------------------------------------------

    def _read(self, id: bytes) -> bytes | None:
        """A content; None for one that is withheld, or no longer in the store."""
        try:
            return None if self._is_withheld(id) else self._blobs.get(id)
        except NotFound:
            return None

    def _is_withheld(self, id: bytes) -> bool:
        if self._withheld is None:
            rows = self._ask("select title from events where event_type = 'withheld'", ()).rows
            self._withheld = frozenset(title for (title,) in rows)
        return to_text(id) in self._withheld or bool(secrets_in(self._blobs, id))

    # -- differences and histories ---------------------------------------------------------------

    def _diff(self, a: str | None, b: str | None) -> list[dict[str, Any]] | None:
        if a is None:
            return None
        before, after = self._at_end([a, b]) if b is not None else self._of_turn(a)
        if before is None or after is None:
            return None
        rows = []
        for file in diff(before, after):
            change = file.change
            ids = [e.id for e in (change.before, change.after) if e is not None and e.kind in _CONTENT]
            readable = all(self._read(id) is not None for id in ids)
            rows.append(
                {
                    "path": file.path,
                    "old_path": file.old_path,
                    "operation": file.operation,
                    "before_hash": _hash_of(change.before),
                    "after_hash": _hash_of(change.after),
                    "lines_added": file.lines_added if readable else None,
                    "lines_removed": file.lines_removed if readable else None,
                    "doubt": _doubt(before, after, file),
                    "diff": file.text.decode("utf-8", "replace") if readable and not file.binary else None,
                }
            )
        return rows

    def _of_turn(self, name: str) -> tuple[TreeState | None, TreeState | None]:
        """The trees at start and end of a turn; partial trees, where none was recorded."""
        (ref,) = self.find([name])
        assert ref is not None
        deferred = DeferredContents(self._blobs, content_events_by_sql(self._ask))
        start, end = self._trees(events_of_turns(self._ask, [ref]), ref, deferred, "start", "end")
        return start, end

    def _history(self, path: str) -> list[dict[str, Any]]:
        names = [name for name, _, _ in HISTORY]
        versions = history(self._ask, self._blobs, path)
        return [{name: getattr(version, name) for name in names} for version in versions]


def _turn_key(name: str) -> TurnKey | None:
    """Session and turn of a full name; None for another form, or the beginning of a name."""
    session, _, turn = name.removeprefix("turn:").partition("_")
    return (session, int(turn)) if turn.isascii() and turn.isdigit() and len(turn) < 19 else None


def _doubt(before: TreeState, after: TreeState, file: FileDiff) -> str | None:
    """Why it is not known whether a path changed, on either side."""
    return after.certainty.doubt(file.path) or before.certainty.doubt(file.old_path or file.path)


def _hash_of(entry: TreeEntry | None) -> str | None:
    return to_text(entry.id) if entry is not None and entry.kind in _CONTENT else None
