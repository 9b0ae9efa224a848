"""Taking a change back from what is there now: the rules of docs/undo.md, path by path.

`TakeBack` holds a picture of the working directory in memory; changes are taken back from it one by one, the
newest first, and nothing is written. It reads states and contents through functions, and is pure besides.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from eventlog.base.errors import Corruption, NotFound
from eventlog.base.paths import path_text
from eventlog.blobs.ids import blob_id
from eventlog.blobs.tree import DIRECTORY, SYMLINK
from eventlog.checkout.directory import FILES, State, same
from eventlog.restore.wanted import ways
from eventlog.undo.change import RecordedChange
from eventlog.undo.merge import MergeConflict, has_markers, is_text, merge

# What became of a change.
EXACT, MERGED, MARKED, ALREADY = "exact", "merged", "marked", "already"


@dataclass(frozen=True, slots=True)
class UndoConflict:
    """A path that cannot be taken back, and why; `lines` are the stretches that both sides changed."""

    path: bytes
    why: str
    lines: tuple[MergeConflict, ...]
    change: RecordedChange


class _ConflictError(Exception):
    def __init__(self, why: str, lines: tuple[MergeConflict, ...] = ()) -> None:
        super().__init__(why)
        self.why = why
        self.lines = lines


class _MissingError(Exception):
    pass


@dataclass
class TakeBack:
    """Takes changes back, newest first; those that depend on each other together, or not at all.

    `state_at` gives what is at a path in the directory, `names` what a directory there holds and whether each
    is a directory, `read` the bytes of a path, `content` a stored content.
    `moved` gives the path to which recorded renames lead from a path since a position, None where there is
    none. With `markers`, lines in conflict are written between markers named after `name`.
    """

    state_at: Callable[[bytes], State | None]
    names: Callable[[bytes], Mapping[bytes, bool] | None]
    read: Callable[[bytes], bytes]
    content: Callable[[bytes], bytes]
    moved: Callable[[bytes, int], bytes | None]
    name: str
    markers: bool = False
    states: dict[bytes, State | None] = field(default_factory=dict)  # what will be at each path
    outcomes: dict[bytes, str] = field(default_factory=dict)
    conflicts: list[UndoConflict] = field(default_factory=list)
    missing: list[tuple[bytes, str]] = field(default_factory=list)
    made: dict[bytes, bytes] = field(default_factory=dict)  # contents that no pack has

    def take_back(self, changes: Iterable[RecordedChange]) -> None:
        """Take back all of these."""
        for related in _related(changes):
            before = dict(self.states), dict(self.outcomes)
            change = related[0]
            try:
                for change in sorted(related, key=lambda change: change.position, reverse=True):
                    if change.unknown is not None:
                        raise _MissingError(change.unknown)
                    self._take_back(change)
                for change in related:
                    self._refuse_other_kinds(change)
            except (_ConflictError, _MissingError, NotFound, Corruption) as error:
                self.states, self.outcomes = before
                self._leave(related, change, error)

    def _leave(self, related: Sequence[RecordedChange], failed: RecordedChange, error: Exception) -> None:
        """Note why a change cannot be taken back, and that those that depend on it are left with it."""
        with_it = f"it is taken back only together with {path_text(failed.path)}, which cannot be"
        others = {c.path: c for c in related if c.path != failed.path}
        if isinstance(error, _ConflictError):
            self.conflicts.append(UndoConflict(failed.path, error.why, error.lines, failed))
            self.conflicts += [UndoConflict(path, with_it, (), other) for path, other in others.items()]
        else:
            self.missing += [(failed.path, str(error)), *((path, with_it) for path in others)]

    def writes(self) -> Mapping[bytes, State | None]:
        """What has to be at which path, without what is there already."""
        return {path: state for path, state in self.states.items() if not same(state, self.state_at(path))}

    def _take_back(self, change: RecordedChange) -> None:
        old, new = change.old_path, change.new_path
        if new is None:
            assert old is not None
            now = self._now(old)
            if now is None or _is_directory_instead(now, change.before):
                self._put(old, change.before, EXACT)
            elif same(now, change.before):
                self._note(old, ALREADY)
            else:
                raise _ConflictError("it was deleted, and another one is there now")
        elif old is None:
            self._take_away(new, change)
        elif old == new or not self._is_renamed_back(old, new, change):
            self._change_back(old, new, change)

    def _take_away(self, path: bytes, change: RecordedChange) -> None:
        now = self._now(path)
        if now is None or _is_directory_instead(now, change.after):
            later = self.moved(path, change.position)
            if later is not None and self._now(later) is not None:
                raise _ConflictError(f"it was added, and later renamed to {path_text(later)}")
            self._note(path, ALREADY)
        elif same(now, change.after):
            self._put(path, None, EXACT)
        else:
            raise _ConflictError("it was added, and changed since")

    def _is_renamed_back(self, old: bytes, new: bytes, change: RecordedChange) -> bool:
        if same(self._now(old), change.before) and self._now(new) is None:
            self._note(new, ALREADY)
            return True
        return False

    def _change_back(self, old: bytes, new: bytes, change: RecordedChange) -> None:
        here, now = new, self._now(new)
        if now is None:
            later = self.moved(new, change.position)
            now = None if later is None else self._now(later)
            if later is None or now is None:
                raise _ConflictError("it was changed, and deleted since")
            here = later
        if old == new and same(now, change.before):
            self._note(here, ALREADY)
            return
        there = self._now(old) if old != new else None
        if there is not None and not _is_directory_instead(there, change.before):
            raise _ConflictError(f"it was renamed, and something else is at {path_text(old)} now")
        state, how = self._before(here, now, change)
        if old != new:
            self._put(here, None, how)
            self._put(old, state, how)
        else:
            self._put(here, state, how)

    def _before(self, path: bytes, now: State, change: RecordedChange) -> tuple[State, str]:
        """What the file becomes, and how."""
        before, after = change.before, change.after
        assert before is not None and after is not None
        if same(now, after):
            return before, EXACT
        if not all(side.kind in FILES for side in (now, before, after)):
            kinds = {SYMLINK: "a symlink", DIRECTORY: "a directory"}
            why = next(
                (kinds.get(s.kind, "no file") for s in (now, before, after) if s.kind not in FILES), ""
            )
            raise _ConflictError(f"it was changed since, and {why} cannot be merged")
        kind = before.kind if now.kind == after.kind else now.kind
        if now.id == after.id:
            return State(kind, None, before.id, before.size), EXACT
        if now.id == before.id or before.id == after.id:
            return State(kind, None, now.id, now.size), EXACT
        data, how = self._merged(path, now, before, after)
        id = blob_id(data)
        self.made[id] = data
        return State(kind, None, id, len(data)), how

    def _merged(self, path: bytes, now: State, before: State, after: State) -> tuple[bytes, str]:
        base, ours, theirs = self.content(after.id), self._bytes(path, now), self.content(before.id)
        if not all(map(is_text, (base, ours, theirs))):
            raise _ConflictError("it was changed since, and a binary file cannot be merged")
        done = merge(base, ours, theirs)
        if done.data is not None:
            return done.data, MERGED
        if has_markers(ours):
            raise _ConflictError("it has the markers of an earlier conflict", done.conflicts)
        if not self.markers:
            raise _ConflictError("its lines were changed since", done.conflicts)
        return done.with_markers("now", f"after {self.name}", f"before {self.name}"), MARKED

    def _bytes(self, path: bytes, state: State) -> bytes:
        if state.id in self.made:
            return self.made[state.id]
        return self.content(state.id) if path in self.states else self.read(path)

    def _now(self, path: bytes) -> State | None:
        return self.states[path] if path in self.states else self.state_at(path)

    def _refuse_other_kinds(self, change: RecordedChange) -> None:
        """When all of a group is taken back: above a file are only directories, and none is in its place."""
        for path in change.paths:
            state = self._now(path)
            if state is not None:
                self._refuse_file_above(path)
                if state.kind != DIRECTORY:
                    self._empty_directory(path)

    def _empty_directory(self, path: bytes) -> None:
        """Where a directory is in the place of a file that comes back: it goes, if no file is left in it."""
        now = self.state_at(path)
        folders = [path] if now is not None and now.kind == DIRECTORY else []
        for folder in folders:
            for name, is_dir in (self.names(folder) or {}).items():
                inside = folder + b"/" + name
                if self.states.get(inside) is not None or (not is_dir and inside not in self.states):
                    raise _ConflictError(
                        f"a directory is there now, and {path_text(inside)} would stay in it"
                    )
                if is_dir:
                    folders.append(inside)
        self.states.update(dict.fromkeys(folders[1:]))

    def _refuse_file_above(self, path: bytes) -> None:
        """Where a directory was, a file may be now: nothing can be put below it."""
        while b"/" in path:
            path = path.rpartition(b"/")[0]
            above = self._now(path)
            if above is not None and above.kind != DIRECTORY:
                raise _ConflictError(f"{path_text(path)} is no directory any more")

    def _put(self, path: bytes, state: State | None, how: str) -> None:
        self.states[path] = state
        self._note(path, how)

    def _note(self, path: bytes, how: str) -> None:
        ranked = (ALREADY, EXACT, MERGED, MARKED)
        self.outcomes[path] = max(self.outcomes.get(path, ALREADY), how, key=ranked.index)


def _is_directory_instead(now: State, recorded: State | None) -> bool:
    """Whether a directory is where a change had something else, which is therefore gone."""
    return now.kind == DIRECTORY and recorded is not None and recorded.kind != DIRECTORY


def _related(changes: Iterable[RecordedChange]) -> list[list[RecordedChange]]:
    """The changes in groups of those that share a path, directly or through others.

    What is a file in one change and a directory above another's path counts as a path of both.
    """
    changes = list(changes)
    files = {path for change in changes if not _is_of_directories(change) for path in change.paths}
    groups: dict[int, tuple[set[bytes], list[RecordedChange]]] = {}
    group_of: dict[bytes, int] = {}
    for number, change in enumerate(changes):
        above = {above for path in change.paths for above in ways(path)[1:] if above in files}
        paths, members = {*change.paths, *above}, [change]
        for other in sorted({group_of[path] for path in paths if path in group_of}):
            its_paths, its_members = groups.pop(other)
            paths |= its_paths
            members = [*its_members, *members]
        groups[number] = paths, members
        group_of.update(dict.fromkeys(paths, number))
    return [members for _, members in groups.values()]


def _is_of_directories(change: RecordedChange) -> bool:
    sides = [side for side in (change.before, change.after) if side is not None]
    return bool(sides) and all(side.kind == DIRECTORY for side in sides)
