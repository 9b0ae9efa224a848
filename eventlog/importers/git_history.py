"""Import of a git repository: its history as turns, its contents as blobs and trees (docs/design.md §13).

The history alone determines the sequence of events: ids, numbers and order depend neither on when the import
runs nor on how often it was killed. A run appends exactly those that the log does not have yet. A limit only
leaves out the beginning.

It works in windows bounded by bytes: contents and trees go into a pack, the pack is published, and then the
events that refer to it are appended, all under one blob writer (I24). One thread; other processes may write
to the store at the same time. Two imports of one repository at once do no harm: they append events with equal
ids, and the first one counts (I8).
"""

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from eventlog.base.errors import EventLogError, NotFound
from eventlog.base.fs import translate_os_errors
from eventlog.base.garbage import rare_collections
from eventlog.base.types import Event
from eventlog.blobs.ids import to_text
from eventlog.importers import git_lines, git_missing, git_turns
from eventlog.importers.batch import ImportBatch
from eventlog.importers.git_formats import Commit, GitChange, parts
from eventlog.importers.git_objects import EMPTY_TREE, GitRepository, open_repository
from eventlog.importers.git_trees import PART_CHANGES, ChangedFile, HistoryTree
from eventlog.importers.git_turns import CommitStep, CommitTurn, KnownCommits, TreeFacts
from eventlog.log.retained import retention_in
from eventlog.secrets import bulk_prefilter

if TYPE_CHECKING:
    from eventlog.store import Store

# A window holds its file contents in memory, so that all versions of a path can be compressed side
# by side. Larger windows pack better and cost memory; a kill repeats at most one.
WINDOW_BYTES = 32 << 20
# About 700 bytes an event: 10,000 of them stay below 8 MiB of journal lines.
_WINDOW_EVENTS = 10_000

# Commits requested of git at once.
_CHUNK_COMMITS = 1000
_SNAPSHOT_COLUMNS = ("event_id", "tree_hash", "payload")

Progress = Callable[[int, int], object]


@dataclass(frozen=True, slots=True)
class GitImportReport:
    """The result of one import. Of `commits + skipped` commits, `skipped` were in the log before.

    `provisional`: the clone is shallow, so `repo` and the sessions are counted from its oldest commits, not
    from the root. `missing`: (path, reason) of files that could not be captured. `withheld`: contents that
    this import was the first to record as holding a secret. `rewritten`: turns of commits that this import
    found on no line any more. `recorded_again`: those of `commits` that were recorded before from a clone
    without their parent. `other_parents`: commits that merges brought to the line and that were not
    requested.
    """

    repo: str
    head: str
    commits: int
    skipped: int
    events: int
    blobs: int
    sessions: int
    provisional: bool
    missing: tuple[tuple[str, str], ...]
    withheld: int = 0
    rewritten: int = 0
    recorded_again: int = 0
    other_parents: int = 0


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
    """Append the history that ends at `rev` to the store, as far as the log lacks it.

    Args:
        limit: only this many of the newest commits.
        all_parents: also the commits that merges brought to the line, in sessions of their own.
        progress: called with (commits done, all commits).
        window_bytes: contents held in memory before they are written.
    Raises: NotFound (no repository, no such commit), Refused (a revision that looks like an option).
    """
    with (
        translate_os_errors(os.fspath(repo_path), "import this repository"),
        rare_collections(),
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
        with bulk_prefilter.attached_to(store.redactor):
            importer = _Import(store, repository, repo, line, known, window)
            importer.see_line(ref, any(commit not in known.commit_turns for commit in line[first:]))
            if all_parents:
                merged = list(git_lines.branches(line, first, repository.parents(head)))
                return importer.run(first, merged, 0, progress)
            return importer.run(first, (), repository.count(head) - len(line), progress)


def _repo_hash(store: "Store", repository: GitRepository, head: str) -> str:
    """The store's own hash when it is in this repository, else the repository's."""
    parent = os.path.realpath(os.path.dirname(store.layout.root))
    if parent in (repository.common_dir, os.path.dirname(repository.common_dir), repository.work_tree):
        return store.repo_hash
    try:
        return repository.roots_hash(repository.resolve("HEAD"))
    except NotFound:
        return repository.roots_hash(head)


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
        self._without_parent = git_lines.without_parent(store, repo) if known.commit_turns else set()
        self._take(line, self._turns_of(line))
        self._has_line_indexes = not repository.shallow
        self._met: dict[str, CommitTurn] = {}  # turns of this run, for the branches that begin there
        self._facts_of: dict[str, TreeFacts] = {}  # and their trees
        self._commits: dict[str, Commit] = {}  # those of the current chunk
        self._tree = HistoryTree(store, repository, window)
        self._window = window
        self._sessions: set[str] = set()
        self._rewritten = 0
        self._recorded_again = 0

    def _turns_of(self, line: Sequence[str]) -> list[CommitTurn]:
        for commit in self._without_parent.intersection(line[1:]):
            self._known.record_again(commit)
        return git_turns.assign_turns(self._repo, line, self._known)

    def _take(self, line: Sequence[str], commit_turns: Sequence[CommitTurn], first: int = 0) -> None:
        """Go to a line of commits; those before `first` are only there as predecessors."""
        self._line, self._turns = line, commit_turns
        self._indices: dict[str, list[int]] = {}  # of the commits of each session
        for index in range(first, len(line)):
            self._indices.setdefault(commit_turns[index].key, []).append(index)
        self._remaining = {
            key: sum(not self._is_done(index) for index in indices) for key, indices in self._indices.items()
        }

    def _take_branch(self, base: str | None, chain: Sequence[str]) -> int:
        """Go to a branch that was merged; the index of its first commit."""
        commit_turns = self._turns_of(chain)
        base_turn = None if base is None else self._known.commit_turns.get(base) or self._met.get(base)
        if base is None or base_turn is None:
            self._take(chain, commit_turns)
            return 0
        self._take([base, *chain], [base_turn, *commit_turns], 1)
        return 1

    def see_line(self, ref: str, grows: bool) -> None:
        """Add events for what this line changes in recorded turns, then the line itself if it is new.

        Args: ref: the line's name, empty without one; grows: whether there are commits to record.
        """
        known, line = self._known, self._line
        dropped = git_lines.dropped_commits(self._store, self._repository, known, ref, line)
        restored = [commit for commit in line if known.is_rewritten(commit)]
        for commit, rewritten in [*((c, True) for c in dropped), *((c, False) for c in restored)]:
            marks = known.marks.setdefault(commit, [])
            self._window.add(
                git_turns.mark(self._repo, known.commit_turns[commit], commit, rewritten, len(marks))
            )
            marks.append(rewritten)
        self._rewritten = len(dropped)
        if self._has_line_indexes and known.commit_turns:
            lacking = git_lines.without_line_index(
                self._store, self._repo, line, grows or bool(dropped or restored)
            )
            for index, commit in enumerate(line):
                if commit in lacking and commit in known.commit_turns:
                    self._window.add(
                        git_turns.line_index_update(self._repo, known.commit_turns[commit], commit, index)
                    )
        previous = known.refs.get(ref, ("", ""))
        if previous[1] != line[-1] and (grows or dropped or restored or known.refs):
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
        requested = [*self._line[first:], *(commit for _, chain in branches for commit in chain)]
        done = skipped = sum(self._known.is_done(self._repo, commit) for commit in requested)
        try:
            if self._known.commit_turns or self._known.cut:  # else no import before this can have lacked any
                self._tree.missing |= git_missing.fill(
                    self._store, self._repo, self._repository, self._window
                )
            if branches:
                self._met = dict(zip(self._line, self._turns, strict=True))
            for branch in (None, *branches):
                if branch is not None:
                    self._has_line_indexes = False
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
            self._tree.close()
        return GitImportReport(
            repo=self._repo,
            head=head,
            commits=total - skipped,
            skipped=skipped,
            events=self._window.events_appended,
            blobs=self._window.blobs_stored,
            sessions=len(self._sessions),
            provisional=bool(self._repository.shallow),
            missing=tuple(sorted(self._tree.missing.items())),
            withheld=self._window.secrets_found,
            rewritten=self._rewritten,
            recorded_again=self._recorded_again,
            other_parents=off_line,
        )

    def _record(self, first: int) -> Iterator[None]:
        """Record the commits of the line that the log lacks, one by one."""
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

    # -- reading git ---------------------------------------------------------------------------

    def _changed(self, indices: Sequence[int]) -> Iterator[tuple[int, list[ChangedFile] | None]]:
        """Each commit of `indices` with its changes, None where trees are missing; puts the contents."""
        for start in range(0, len(indices), _CHUNK_COMMITS):
            chunk = indices[start : start + _CHUNK_COMMITS]
            self._read_commits(chunk)
            pairs = [(self._git_tree(index - 1), self._git_tree(index)) for index in chunk]
            for part in parts(zip(chunk, self._repository.changes(pairs), strict=True), PART_CHANGES):
                if not self._can_follow(part):
                    yield from ((index, None) for index, _ in part)
                    continue
                yield from self._tree.contents_of(part)

    def _read_commits(self, chunk: Sequence[int]) -> None:
        """Read the commits of a chunk and their parents."""
        indices = {near for index in chunk for near in (index - 1, index) if near >= 0}
        ids = [self._line[index] for index in sorted(indices)]
        self._commits = {commit.id: commit for commit in self._repository.commits(ids)}

    def _commit(self, commit: str) -> Commit:
        """A commit by its id, also one that is not read yet."""
        if commit not in self._commits:
            self._commits[commit] = self._tree.aside().commits([commit])[0]
        return self._commits[commit]

    def _git_tree(self, index: int) -> str:
        """Git's tree of a commit of the line; the empty tree before its first."""
        if index < 0:
            return EMPTY_TREE[len(self._line[0])]
        return self._commits[self._line[index]].tree

    # -- the tree ------------------------------------------------------------------------------

    def _can_follow(self, part: "Sequence[tuple[int, list[GitChange] | None]]") -> bool:
        """Set the tree to the one before a part; whether git has what that needs."""
        index = part[0][0]
        parent = self._line[index - 1] if index else None
        return part[0][1] is not None and self._tree.follow(
            parent, self._git_tree(index - 1), lambda: self._snapshot_of(index - 1)
        )

    def _snapshot_of(self, index: int) -> TreeFacts | None:
        """The snapshot after a commit that was recorded."""
        if self._line[index] in self._facts_of:
            self._window.commit()  # its trees are read from packs
            return self._facts_of[self._line[index]]
        return self._stored(index)

    def _stored(self, index: int) -> TreeFacts | None:
        """The snapshot after a commit, when the log has it and keeps its files."""
        if not self._is_done(index):
            return None
        commit, commit_turn = self._line[index], self._known.commit_turns[self._line[index]]
        with self._store.view() as view:
            if commit_turn.session_id in retention_in(view).ever:
                return None  # contents of its trees may have been collected
        snapshot_id = git_turns.snapshot_end_id(self._repo, commit, commit in self._known.cut)
        for row in self._store.rows(
            session_id=commit_turn.session_id,
            turn=commit_turn.turn,
            event_types=["snapshot"],
            columns=_SNAPSHOT_COLUMNS,
        ):
            if row["event_id"] == snapshot_id:
                return git_turns.facts_of(row, commit)
        return None

    # -- turns and sessions --------------------------------------------------------------------

    def _message(self, index: int) -> None:
        """Add the events of a commit whose files are missing; it still counts as not recorded."""
        self._tree.missing[f"{self._line[index][:12]}:"] = (
            "git does not have all of its directories, or of those before it"
        )
        self._add_turn(index, None)

    def _message_hash(self, commit: Commit) -> str | None:
        """The blob of a message that is too long for an event."""
        if len(commit.message) <= git_turns.MESSAGE_SIZE_MAX:
            return None
        return to_text(self._window.put(commit.message.encode("utf-8", "replace")))

    def _line_index(self, index: int) -> int | None:
        return index if self._has_line_indexes else None

    def _turn(self, index: int, changed: Sequence[ChangedFile]) -> None:
        """Add those events of one commit to the window that the log lacks."""
        commit_turn, commit = self._turns[index], self._commits[self._line[index]]
        step = self._tree.step(commit, changed)
        if self._met:
            self._met[commit.id], self._facts_of[commit.id] = commit_turn, step.after
        self._add_turn(index, step)

    def _add_turn(self, index: int, step: CommitStep | None) -> None:
        """Args: step: what the commit did, None where that is not known."""
        commit_turn, commit = self._turns[index], self._commits[self._line[index]]
        self._add(git_turns.master(self._repo, self._project_name()))
        self._start(commit_turn)
        recorded_ids = self._half_done(commit.id)
        again = self._replace(commit.id) if step is not None else commit.id in self._known.cut
        message_hash, line_index = self._message_hash(commit), self._line_index(index)
        for event in git_turns.turn_events(
            self._repo, commit_turn, commit, step, message_hash, line_index, again
        ):
            if event["event_id"] not in recorded_ids:
                self._window.add(event)
        self._sessions.add(commit_turn.session_id)
        if step is not None:
            self._remaining[commit_turn.key] -= 1
            self._end_if_full(commit_turn.key)
        if self._window.is_full:
            self._window.commit()

    def _replace(self, commit: str) -> bool:
        """Whether a commit was recorded before without its parent; then that turn is replaced."""
        cut = self._known.cut.get(commit)
        if cut is None:
            return False
        self._add(git_turns.replaced(self._repo, cut, commit))
        self._recorded_again += 1
        return True

    def _start(self, commit_turn: CommitTurn) -> None:
        if self._is_started(commit_turn.key):
            return
        self._add(git_turns.session_start(self._repo, commit_turn, self._commit(commit_turn.first_commit)))
        self._link(commit_turn.key)
        next_index = self._indices[commit_turn.key][-1] + 1
        if next_index < len(self._line):
            self._link(self._turns[next_index].key)

    def _is_started(self, key: str) -> bool:
        return git_turns.session_start_id(self._repo, key) in self._known.event_ids

    def _link(self, key: str) -> None:
        """Link a session to the one that it extends, once both are in the log."""
        indices = self._indices[key]
        previous_turn = self._turns[indices[0] - 1] if indices[0] else None
        if previous_turn is None or key in self._known.extended:
            return
        if self._is_started(key) and self._is_started(previous_turn.key):
            self._known.extended.add(key)
            commit_turn, previous = (
                self._turns[indices[0]],
                (previous_turn, self._commit(previous_turn.first_commit)),
            )
            self._add(
                git_turns.session_link(
                    self._repo, commit_turn, self._commit(commit_turn.first_commit), previous
                )
            )

    def _end_if_full(self, key: str) -> None:
        """End a session whose group of commits is full and in the log (a rollover)."""
        indices = self._indices[key]
        commit_turn = self._turns[indices[-1]]
        if self._remaining[key] or commit_turn.turn != git_turns.SESSION_TURNS:
            return
        if git_turns.session_end_id(self._repo, key) in self._known.event_ids:
            return
        first, last = self._commit(commit_turn.first_commit), self._commit(self._line[indices[-1]])
        self._add(git_turns.session_end(self._repo, commit_turn, first, last, len(indices)))

    def _add(self, event: Event) -> None:
        """Add an event of a session or of the master, unless the log has it."""
        event_id = str(event["event_id"])
        if event_id not in self._known.event_ids:
            self._known.event_ids.add(event_id)
            self._window.add(event)

    def _half_done(self, commit: str) -> set[object]:
        """The ids that the log holds of a turn whose import was interrupted."""
        commit_turn = self._known.commit_turns.get(commit)
        if commit_turn is None:
            return set()
        rows = self._store.events(
            session_id=commit_turn.session_id, turn=commit_turn.turn, columns=["event_id"]
        )
        return {row["event_id"] for row in rows}

    def _project_name(self) -> str:
        if self._repo == self._store.repo_hash:
            return self._store.project_name
        return self._repository.name
