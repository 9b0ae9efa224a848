"""Import of a git repository: its history as turns, its contents as blobs and trees (docs/design.md §13).

What is appended is one sequence of events that the history alone determines: ids, numbers and order
depend neither on when the import runs nor on how often it was killed. A run appends exactly what
the log does not hold yet of that sequence. A limit only leaves the beginning out.

Work goes in windows bounded by bytes: contents and trees into a pack, the pack published, then the
events that refer to it appended, all under one blob writer (I24). One thread; other processes may
write to the store at the same time. Two imports of one repository at once do no harm either: they
append events with equal ids, and the first one counts (I8).
"""

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

from eventlog.base.errors import EventLogError, NotFound
from eventlog.base.fs import translate_os_errors
from eventlog.base.paths import path_text
from eventlog.base.types import Event
from eventlog.blobs.deferred import encode_list, sentence_of
from eventlog.blobs.ids import blob_id, from_text, to_text
from eventlog.blobs.tree import EXECUTABLE, FILE, SIZE_UNKNOWN, SKIPPED, SUBMODULE, SYMLINK
from eventlog.importers import git_deepened, git_lines, git_missing, git_turns
from eventlog.importers.batch import ImportBatch
from eventlog.importers.git_formats import MODE_SUBMODULE, MODE_SYMLINK, Commit, GitChange, parts
from eventlog.importers.git_names import earlier_path, tree_path
from eventlog.importers.git_objects import EMPTY_TREE, GitRepository, open_repository
from eventlog.importers.git_report import GitImportReport
from eventlog.importers.git_turns import CommitTurn, FileChange, KnownCommits, TreeFacts
from eventlog.log.retained import retention_in
from eventlog.replay.edited_tree import EditedTree, no_trees
from eventlog.secrets import bulk_prefilter

if TYPE_CHECKING:
    from eventlog.store import Store

# A window holds its file contents in memory, so that all versions of a path can be compressed side
# by side. Larger windows pack better and cost memory; a kill repeats at most one.
WINDOW_BYTES = 32 << 20
# About 700 bytes an event: 10,000 of them stay below 8 MiB of journal lines.
_WINDOW_EVENTS = 10_000

# Commits asked of git at once, and changes looked at together. Small parts let git work ahead.
_CHUNK_COMMITS = 1000
_PART_CHANGES = 500

_BLOB_BYTES_MAX = 2**32 - 1  # what a pack can hold (docs/design.md §11.2)
_CONTENTS_MAX = 500_000  # about 100 MB; forgetting one only means to read it again

_KIND_OF_MODE = {MODE_SYMLINK: SYMLINK, MODE_SUBMODULE: SUBMODULE}
_SNAPSHOT_COLUMNS = ("event_id", "tree_hash", "payload")

Progress = Callable[[int, int], object]


def import_git(
    store: "Store",
    repo_path: str | os.PathLike[str],
    *,
    rev: str = "HEAD",
    limit: int | None = None,
    all_parents: bool = False,
    progress: Progress | None = None,
    window_bytes: int = WINDOW_BYTES,
) -> GitImportReport:
    """Append the history that ends at `rev` to the store, as far as it is not there yet.

    Args:
        limit: only the newest so many commits.
        all_parents: also the commits that merges brought to the line, in sessions of their own.
        progress: called with (commits done, commits in all).
        window_bytes: contents held in memory before they are written.
    Raises: NotFound (no repository, no such commit), Refused (a revision that looks like an option).
    """
    with (
        translate_os_errors(os.fspath(repo_path), "import this repository"),
        open_repository(os.fspath(repo_path)) as repository,
    ):
        head = repository.resolve(rev)
        line = repository.first_parent_line(head)
        ref = repository.ref_of(rev)
        repo = _repo_hash(store, repository, head)
        rows = store.rows(event_types=git_turns.KNOWN_TYPES, columns=git_turns.KNOWN_COLUMNS)
        known = git_turns.known_from(rows, repo)
        first = 0 if limit is None else max(0, len(line) - limit)
        window = ImportBatch(store, bytes_max=window_bytes, events_max=_WINDOW_EVENTS)
        with bulk_prefilter.looking(store.redactor):
            importer = _Import(store, repository, repo, line, known, window)
            importer.see_line(ref, any(commit not in known.places for commit in line[first:]))
            if all_parents:
                merged = list(git_lines.branches(line, first, repository.parents(head)))
                return importer.run(first, merged, 0, progress)
            return importer.run(first, (), repository.count(head) - len(line), progress)


def _repo_hash(store: "Store", repository: GitRepository, head: str) -> str:
    """The store's own hash when it stands in this repository, else the repository's."""
    around = os.path.realpath(os.path.dirname(store.layout.root))
    if around in (repository.common_dir, os.path.dirname(repository.common_dir), repository.work_tree):
        return store.repo_hash
    try:
        return repository.roots_hash(repository.resolve("HEAD"))
    except NotFound:
        return repository.roots_hash(head)


class _Changed(NamedTuple):
    """A change, and our id and size of the content it leaves behind."""

    change: GitChange
    id: bytes | None
    size: int | None  # None: the content is not in this clone


class _Import:
    """One run over one line of commits."""

    def __init__(
        self,
        store: "Store",
        repository: GitRepository,
        repo: str,
        line: Sequence[str],
        known: KnownCommits,
        window: ImportBatch,
    ) -> None:
        self._store = store
        self._repository = repository
        self._repo = repo
        self._known = known
        self._without_parent = git_deepened.without_parent(store, repo) if known.places else set()
        self._take(line, self._places_of(line))
        self._has_places = not repository.shallow
        self._met: dict[str, CommitTurn] = {}  # places of this run, for the branches that begin there
        self._facts_of: dict[str, TreeFacts] = {}  # and their trees
        self._commits: dict[str, Commit] = {}  # those of the current chunk
        self._contents: dict[str, tuple[bytes | None, int | None]] = {}  # git's id → (ours, size)
        self._missing: dict[str, str] = {}
        self._tree = EditedTree(no_trees)
        self._facts: TreeFacts | None = None  # which commit's tree it is
        self._window = window
        self._second: GitRepository | None = None
        self._sessions: set[str] = set()
        self._rewritten = 0
        self._recorded_again = 0

    def _places_of(self, line: Sequence[str]) -> list[CommitTurn]:
        for commit in self._without_parent.intersection(line[1:]):
            self._known.record_again(commit)
        return git_turns.places_of(self._repo, line, self._known)

    def _take(self, line: Sequence[str], places: Sequence[CommitTurn], first: int = 0) -> None:
        """Go to a line of commits; those before `first` only say what comes before."""
        self._line, self._places = line, places
        self._indices: dict[str, list[int]] = {}  # of the commits of each session
        for index in range(first, len(line)):
            self._indices.setdefault(places[index].key, []).append(index)
        self._left = {
            key: sum(not self._is_done(index) for index in indices) for key, indices in self._indices.items()
        }

    def _take_branch(self, base: str | None, chain: Sequence[str]) -> int:
        """Go to a branch that was merged; the index of its first commit."""
        places = self._places_of(chain)
        before = None if base is None else self._known.places.get(base) or self._met.get(base)
        if base is None or before is None:
            self._take(chain, places)
            return 0
        self._take([base, *chain], [before, *places], 1)
        return 1

    def see_line(self, ref: str, grows: bool) -> None:
        """Add what this line tells of turns that are in the log, then the line itself, where it is another.

        Args: ref: the line's name, empty without one; grows: whether there are commits to record.
        """
        known, line = self._known, self._line
        left = git_lines.left(self._store, self._repository, known, ref, line)
        back = [commit for commit in line if known.is_rewritten(commit)]
        for commit, rewritten in [*((c, True) for c in left), *((c, False) for c in back)]:
            marks = known.marks.setdefault(commit, [])
            self._window.add(git_turns.mark(self._repo, known.places[commit], commit, rewritten, len(marks)))
            marks.append(rewritten)
        self._rewritten = len(left)
        if self._has_places and known.places:
            lacking = git_deepened.unplaced(self._store, self._repo, line, grows or bool(left or back))
            for index, commit in enumerate(line):
                if commit in lacking and commit in known.places:
                    self._window.add(git_turns.placed(self._repo, known.places[commit], commit, index))
        previous = known.refs.get(ref, ("", ""))
        if previous[1] != line[-1] and (grows or left or back or known.refs):
            self._add(git_turns.master(self._repo, self._project_name()))
            oldest = line[0] if self._repository.shallow else None
            count = None if oldest else len(line)
            self._window.add(git_turns.ref_update(self._repo, ref, line[-1], previous, count, oldest))

    def run(
        self, first: int, branches: Sequence[git_lines.Branch], off_line: int, progress: Progress | None
    ) -> GitImportReport:
        """Args: off_line: commits that merges brought and that are not in `branches`."""
        head = self._line[-1]
        total = len(self._line) - first + sum(len(chain) for _, chain in branches)
        asked = [*self._line[first:], *(commit for _, chain in branches for commit in chain)]
        done = skipped = sum(self._known.is_done(self._repo, commit) for commit in asked)
        try:
            self._missing |= git_missing.fill(self._store, self._repo, self._repository, self._window)
            if branches:
                self._met = dict(zip(self._line, self._places, strict=True))
            for branch in (None, *branches):
                if branch is not None:
                    self._has_places = False
                    first = self._take_branch(*branch)
                for _ in self._record(first):
                    done += 1
                    if progress is not None:
                        progress(done, total)
            self._window.commit()
        except EventLogError:
            self._window.commit()  # whole turns
            raise
        finally:
            self._window.close()
            if self._second is not None:
                self._second.close()
        return GitImportReport(
            repo=self._repo,
            head=head,
            commits=total - skipped,
            skipped=skipped,
            events=self._window.events_appended,
            blobs=self._window.blobs_stored,
            sessions=len(self._sessions),
            provisional=bool(self._repository.shallow),
            missing=tuple(sorted(self._missing.items())),
            withheld=self._window.secrets_found,
            rewritten=self._rewritten,
            recorded_again=self._recorded_again,
            other_parents=off_line,
        )

    def _record(self, first: int) -> Iterator[None]:
        """Record what the log lacks of the line, commit by commit."""
        for key in self._indices:
            self._link(key)
            self._end_if_full(key)
        for index, changed in self._changed(
            [n for n in range(first, len(self._line)) if not self._is_done(n)]
        ):
            if changed is None:
                self._message(index)
            else:
                self._turn(index, changed)
            yield

    def _is_done(self, index: int) -> bool:
        return self._known.is_done(self._repo, self._line[index])

    # -- what git says -------------------------------------------------------------------------

    def _changed(self, wanted: Sequence[int]) -> Iterator[tuple[int, list[_Changed] | None]]:
        """Each wanted commit with its changes, None where trees are not here; contents are in the window."""
        for at in range(0, len(wanted), _CHUNK_COMMITS):
            chunk = wanted[at : at + _CHUNK_COMMITS]
            self._read_commits(chunk)
            pairs = [(self._git_tree(index - 1), self._git_tree(index)) for index in chunk]
            for part in parts(zip(chunk, self._repository.changes(pairs), strict=True), _PART_CHANGES):
                if not self._can_follow(part):
                    yield from ((index, None) for index, _ in part)
                    continue
                fresh = self._fresh(change for _, changes in part for change in changes or ())
                contents = self._repository.contents(fresh, _BLOB_BYTES_MAX)
                for index, changes in part:
                    after = [_Changed(change, *self._after(change, contents)) for change in changes or ()]
                    yield index, after

    def _read_commits(self, chunk: Sequence[int]) -> None:
        """Have the commits of a chunk and their parents at hand."""
        indices = {near for index in chunk for near in (index - 1, index) if near >= 0}
        ids = [self._line[index] for index in sorted(indices)]
        self._commits = {commit.id: commit for commit in self._repository.commits(ids)}

    def _commit(self, commit: str) -> Commit:
        """A commit by its id, also one that is not at hand."""
        if commit not in self._commits:
            self._commits[commit] = self._aside().commits([commit])[0]
        return self._commits[commit]

    def _aside(self) -> GitRepository:
        """The repository once more, for a question in the middle of another answer."""
        if self._second is None:
            self._second = GitRepository(self._repository.git_dir)
        return self._second

    def _git_tree(self, index: int) -> str:
        """Git's tree of a commit of the line; the empty tree before its first."""
        if index < 0:
            return EMPTY_TREE[len(self._line[0])]
        return self._commits[self._line[index]].tree

    def _fresh(self, changes: Iterable[GitChange]) -> list[str]:
        """Contents that were not met yet, in the order in which they will be asked for."""
        if len(self._contents) > _CONTENTS_MAX:
            self._contents.clear()
        found: dict[str, None] = {}
        for change in changes:
            git_id = change.after_id
            if git_id is not None and change.after_mode != MODE_SUBMODULE and git_id not in self._contents:
                found[git_id] = None
        return list(found)

    def _after(
        self, change: GitChange, contents: Iterator[bytes | int | None]
    ) -> tuple[bytes | None, int | None]:
        """(id, size) of the content after a change; it comes from `contents` when it is new.

        The id is None where there is no content, or none that a pack can hold; both where it is not here.
        """
        if change.after_id is None:
            return None, 0
        if change.after_mode == MODE_SUBMODULE:
            return self._window.put(change.after_id.encode("ascii"), change.path), len(change.after_id)
        found = self._contents.get(change.after_id)
        if found is None:
            found = self._keep(change.path, next(contents))
            self._contents[change.after_id] = found
        return found

    def _keep(self, path: bytes, data: bytes | int | None) -> tuple[bytes | None, int | None]:
        return (self._window.put(data, path), len(data)) if isinstance(data, bytes) else (None, data)

    # -- the tree ------------------------------------------------------------------------------

    def _can_follow(self, part: "Sequence[tuple[int, list[GitChange] | None]]") -> bool:
        """Let the tree be the one before a part, if git has what that takes."""
        if part[0][1] is None:
            return False
        try:
            self._follow(part[0][0])
        except EventLogError:
            self._facts = None
            return False
        return True

    def _follow(self, index: int) -> None:
        """Let the tree be the one before a commit: from the commit before, the store, or git."""
        parent = self._line[index - 1] if index else None
        if self._facts is not None and self._facts.commit == parent:
            return
        self._tree = EditedTree(no_trees)
        files, missing = 0, None
        if parent is not None:
            if parent in self._facts_of:
                self._window.commit()  # its trees are read from packs
            stored = self._facts_of.get(parent) or self._stored(index - 1)
            if stored is not None:
                self._tree, self._facts = (
                    EditedTree(self._store.blobs.get_tree, from_text(stored.tree_hash)),
                    stored,
                )
                return
            files, missing = self._read_tree(self._git_tree(index - 1))
        facts = self._write_tree(parent, self._git_tree(index - 1), files)
        self._facts = replace(facts, deferred=None if missing is None else to_text(missing))

    def _stored(self, index: int) -> TreeFacts | None:
        """The snapshot after a commit, when the log has it and keeps its files."""
        if not self._is_done(index):
            return None
        commit, place = self._line[index], self._known.places[self._line[index]]
        with self._store.view() as view:
            if place.session_id in retention_in(view).ever:
                return None  # what its trees name may have been collected
        wanted = git_turns.snapshot_end_id(self._repo, commit, commit in self._known.cut)
        for row in self._store.rows(
            session_id=place.session_id, turn=place.turn, event_types=["snapshot"], columns=_SNAPSHOT_COLUMNS
        ):
            if row["event_id"] == wanted:
                return git_turns.facts_of(row, commit)
        return None

    def _read_tree(self, tree: str) -> tuple[int, bytes | None]:
        """Fill the tree from git; how many files it has, and the list of contents that are not here."""
        files = 0
        missing: list[_Changed] = []
        entries = self._repository.entries(tree)
        while some := list(islice(entries, _PART_CHANGES)):
            files += len(some)
            changes = [GitChange(e.path, None, 0, e.mode, None, e.id, None, None) for e in some]
            contents = self._repository.contents(self._fresh(changes), _BLOB_BYTES_MAX)
            for change in changes:
                one = _Changed(change, *self._after(change, contents))
                if one.size is None:
                    missing.append(one)
                else:
                    self._put(one, None)
        list_id = self._list_of(missing)
        for one in missing:
            self._put(one, list_id)
        return files, list_id

    def _write_tree(self, commit: str | None, git_tree: str, files: int) -> TreeFacts:
        return TreeFacts(to_text(self._tree.write(self._window.put_tree)), files, commit, git_tree)

    def _apply(self, changed: Sequence[_Changed]) -> list[FileChange]:
        """Let the changes of one commit happen to the tree."""
        list_id = self._list_of(changed)
        described = [self._describe(one, list_id) for one in changed]
        for one in changed:  # before anything is put, since a file may give way to a folder
            if one.change.before_id is not None:
                gone = one.change.old_path or one.change.path
                if one.change.after_id is None or one.change.old_path is not None:
                    self._tree.remove(self._place_of(gone), prune=True)
        for one in changed:
            if one.change.after_id is not None:
                self._put(one, list_id)
        return described

    def _list_of(self, changed: Sequence[_Changed]) -> bytes | None:
        """The list of the contents that are not here, None for none; a later import may bring them."""
        rows = {
            change.path: (
                _kind_of(change),
                SIZE_UNKNOWN,
                0,
                0,
                0,
                bytes.fromhex(change.after_id),
            )
            for change, _, size in changed
            if size is None
            and change.after_id is not None
            and tree_path(change.path, _kind_of(change))[1] is None
        }
        return self._window.put(encode_list((path, *row) for path, row in rows.items())) if rows else None

    def _put(self, one: _Changed, list_id: bytes | None) -> None:
        change, id, size = one
        kind = _kind_of(change)
        path, reason = tree_path(change.path, kind)
        if (before := self._place_of(change.path)) != path:
            self._tree.remove(before, prune=False)
        if size is None:
            self._missing[path_text(change.path)] = git_missing.absent(change.after_id)
            if reason is None and list_id is not None:
                self._tree.put(path, SKIPPED, self._window.put(sentence_of(list_id)), SIZE_UNKNOWN)
                return
            size = SIZE_UNKNOWN
        elif id is None:
            reason = _too_large(size)
        if reason is not None:
            self._missing[path_text(change.path)] = reason
            kind, id = SKIPPED, self._window.put(reason.encode("utf-8", "surrogateescape"))
        assert id is not None
        self._tree.put(path, kind, id, size)

    def _place_of(self, path: bytes) -> bytes:
        """Where a path stands in the tree, which may be one of an earlier version."""
        earlier = earlier_path(path)
        is_earlier = earlier is not None and self._tree.get(earlier) is not None
        return earlier if earlier is not None and is_earlier else tree_path(path)[0]

    def _describe(self, one: _Changed, list_id: bytes | None) -> FileChange:
        change = one.change
        skipped = None
        if one.id is None and change.after_id is not None:
            skipped = git_missing.absent(change.after_id) if one.size is None else _too_large(one.size)
        if change.before_id is None:
            operation = "add"
        elif change.after_id is None:
            operation = "delete"
        else:
            operation = "edit" if change.old_path is None else "rename"
        return FileChange(
            path=change.path,
            old_path=change.old_path,
            operation=operation,
            before_mode=change.before_mode,
            after_mode=change.after_mode,
            before_hash=self._before_hash(change),
            after_hash=None if one.id is None else to_text(one.id),
            after_size=None if change.after_id is None else one.size,
            lines_added=change.lines_added,
            lines_removed=change.lines_removed,
            skipped=skipped,
            deferred=None if one.size is not None or list_id is None else to_text(list_id),
        )

    def _before_hash(self, change: GitChange) -> str | None:
        if change.before_id is None:
            return None
        entry = self._tree.get(self._place_of(change.old_path or change.path))
        assert entry is not None, f"{change.path!r} is in git's tree before the change and not in ours"
        if entry.kind != SKIPPED:
            return to_text(entry.id)
        # The tree holds the reason why the file is not in it; its content may be in the store.
        data = next(self._aside().contents([change.before_id], _BLOB_BYTES_MAX))
        return to_text(blob_id(data)) if isinstance(data, bytes) else None

    # -- turns and sessions --------------------------------------------------------------------

    def _message(self, index: int) -> None:
        """Add what is known of a commit whose files are not here; it stays one to be recorded."""
        place, commit = self._places[index], self._commits[self._line[index]]
        self._missing[f"{commit.id[:12]}:"] = (
            "git does not have all of its directories, or of those before it"
        )
        self._add(git_turns.master(self._repo, self._project_name()))
        self._start(place)
        there = self._half_done(commit.id)
        message_hash, line_place = self._message_hash(commit), self._line_place(index)
        for event in git_turns.message_events(
            self._repo, place, commit, message_hash, line_place, commit.id in self._known.cut
        ):
            if event["event_id"] not in there:
                self._window.add(event)
        self._sessions.add(place.session_id)
        if self._window.is_full:
            self._window.commit()

    def _message_hash(self, commit: Commit) -> str | None:
        """The content that a message becomes which is too long for an event."""
        if len(commit.message) <= git_turns.MESSAGE_SIZE_MAX:
            return None
        return to_text(self._window.put(commit.message.encode("utf-8", "replace")))

    def _line_place(self, index: int) -> int | None:
        return index if self._has_places else None

    def _turn(self, index: int, changed: Sequence[_Changed]) -> None:
        """Add the events of one commit to the window, as far as the log lacks them."""
        place, commit = self._places[index], self._commits[self._line[index]]
        before = self._facts
        assert before is not None
        described = self._apply(changed)
        files = before.tracked_files + sum(
            (c.operation == "add") - (c.operation == "delete") for c in described
        )
        after = self._facts = self._write_tree(commit.id, commit.tree, files)
        if self._met:
            self._met[commit.id], self._facts_of[commit.id] = place, after
        self._add(git_turns.master(self._repo, self._project_name()))
        self._start(place)
        there = self._half_done(commit.id)
        again = self._replace(commit.id)
        message_hash, line_place = self._message_hash(commit), self._line_place(index)
        for event in git_turns.turn_events(
            self._repo, place, commit, before, after, described, message_hash, line_place, again
        ):
            if event["event_id"] not in there:
                self._window.add(event)
        self._sessions.add(place.session_id)
        self._left[place.key] -= 1
        self._end_if_full(place.key)
        if self._window.is_full:
            self._window.commit()

    def _replace(self, commit: str) -> bool:
        """Whether a commit was recorded without its parent before; then its turn of that time goes."""
        cut = self._known.cut.get(commit)
        if cut is None:
            return False
        self._add(git_turns.replaced(self._repo, cut, commit))
        self._recorded_again += 1
        return True

    def _start(self, place: CommitTurn) -> None:
        if self._is_started(place.key):
            return
        self._add(git_turns.session_start(self._repo, place, self._commit(place.first_commit)))
        self._link(place.key)
        after = self._indices[place.key][-1] + 1
        if after < len(self._line):
            self._link(self._places[after].key)

    def _is_started(self, key: str) -> bool:
        return git_turns.session_start_id(self._repo, key) in self._known.event_ids

    def _link(self, key: str) -> None:
        """Let a session extend the one before it, once both are in the log."""
        indices = self._indices[key]
        before = self._places[indices[0] - 1] if indices[0] else None
        if before is None or key in self._known.extended:
            return
        if self._is_started(key) and self._is_started(before.key):
            self._known.extended.add(key)
            place, previous = self._places[indices[0]], (before, self._commit(before.first_commit))
            self._add(git_turns.session_link(self._repo, place, self._commit(place.first_commit), previous))

    def _end_if_full(self, key: str) -> None:
        """End a session whose group of commits is full and in the log; a rollover."""
        indices = self._indices[key]
        place = self._places[indices[-1]]
        if self._left[key] or place.turn != git_turns.SESSION_TURNS:
            return
        if git_turns.session_end_id(self._repo, key) in self._known.event_ids:
            return
        first, last = self._commit(place.first_commit), self._commit(self._line[indices[-1]])
        self._add(git_turns.session_end(self._repo, place, first, last, len(indices)))

    def _add(self, event: Event) -> None:
        """Add an event of a session or of the master, unless it is there."""
        id = str(event["event_id"])
        if id not in self._known.event_ids:
            self._known.event_ids.add(id)
            self._window.add(event)

    def _half_done(self, commit: str) -> set[object]:
        """The ids that the log holds of a turn whose import was interrupted."""
        place = self._known.places.get(commit)
        if place is None:
            return set()
        rows = self._store.events(session_id=place.session_id, turn=place.turn, columns=["event_id"])
        return {row["event_id"] for row in rows}

    def _project_name(self) -> str:
        if self._repo == self._store.repo_hash:
            return self._store.project_name
        return self._repository.name


def _kind_of(change: GitChange) -> bytes:
    return _KIND_OF_MODE.get(change.after_mode, EXECUTABLE if change.after_mode & 0o100 else FILE)


def _too_large(size: int) -> str:
    return f"its {size} bytes are more than the {_BLOB_BYTES_MAX} a blob may have"
