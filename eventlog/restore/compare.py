"""A directory compared with what is wanted there: the steps of a plan (design.md §18.1).

For `restore.make_plan`. Reads, and changes nothing. What the stat cache proves to be as wanted is not read;
whatever a step would touch is.
"""

import os
from collections.abc import Collection

from eventlog.base.paths import is_below
from eventlog.blobs.tree import (
    DIRECTORY,
    EXECUTABLE,
    PLAIN,
    SYMLINK,
    is_store_name,
    kind_of_mode,
    unsafe_path,
)
from eventlog.checkout.directory import FILES, NO_ID, OTHER, OpenDirectory, State, same
from eventlog.checkout.parallel import Listed
from eventlog.restore.journal import RestoreStep
from eventlog.restore.known_files import KnownFiles
from eventlog.restore.open_files import databases_in, has_open, openers
from eventlog.restore.wanted import Wanted, ways
from eventlog.worktree import git
from eventlog.worktree.kept_ignored import database_name, journals_of
from eventlog.worktree.rows import pack_fields

_DIRECTORY = DIRECTORY[0]
# Files that only an older part of the log saw stay too: only later ones may go.
_NOT_LATER = "not in that turn, and not recorded after it"
_NO_DELETE = "not in that turn, and nothing is to be deleted"


class RestoreComparison:
    """One walk over the wanted paths, and its results.

    Args: protected: the path of the store, where that is in the target. delete: whether later files go.
    """

    def __init__(
        self,
        target: OpenDirectory,
        wanted: Wanted,
        known_files: KnownFiles,
        protected: bytes | None,
        *,
        delete: bool,
    ) -> None:
        self.target = target
        self.wanted = wanted
        self.known_files = known_files
        self.protected = protected
        self.steps: list[RestoreStep] = []
        self.believed: set[bytes] = set()  # as wanted, and not read
        self.unchanged = 0
        self.staying: Listed = []
        self.conflicts: Listed = []
        self._why_staying = _NOT_LATER if delete else _NO_DELETE
        self._listings: dict[bytes, dict[bytes, bool] | None] = {}
        self._doomed: set[bytes] = set()  # files, links and directories that will be gone
        self._blocked: set[bytes] = set()

    def find_deletes(self) -> None:
        """The files and links that go, then the directories that are empty without them."""
        candidates = [path for path in sorted(self.wanted.gone) if self._is_dir(path) is False]
        # An undo removes what the restore made, whether git ignores it or not.
        ignored = _ignored(self.target.path, candidates) if self.wanted.whole else set()
        for path in candidates:
            if (ignored is None or path in ignored) and not self._is_journal(path):
                why = "git ignores it" if ignored else "git cannot be asked whether it ignores it"
                self.staying.append((path, why))
                continue
            if self.protected is not None and is_below(path, self.protected):
                continue
            try:
                state = self.target.state_at(path)[0]
            except OSError as error:
                self.staying.append((path, f"it cannot be read, so it could not be saved: {error.strerror}"))
                continue
            if state is None or state.kind in (OTHER, DIRECTORY):
                self.staying.append((path, "it is no longer a file"))
                continue
            self._doomed.add(path)
            self.steps.append(RestoreStep(path, state, None))
        self._find_emptied()

    def _find_emptied(self) -> None:
        entries = self.wanted.entries
        candidates = set(self.wanted.gone_dirs)
        if self.wanted.whole:  # the plan of an undo names each directory that goes
            candidates |= {above for path in self._doomed for above in ways(path)[1:]}
        for parent in {path.rpartition(b"/")[0] for path in entries}:
            for name in [name for name, is_dir in (self._names(parent) or {}).items() if is_dir]:
                path = parent + b"/" + name if parent else name
                if path in entries and entries[path].kind != DIRECTORY:
                    candidates.add(path)
        for path in sorted(candidates, key=lambda path: (-path.count(b"/"), path)):
            wanted = entries.get(path)
            if (wanted is not None and wanted.kind == DIRECTORY) or self.wanted.left_alone(path):
                continue
            names = self._names(path)
            if names is None or any(path + b"/" + name not in self._doomed for name in names):
                continue
            self._doomed.add(path)
            if wanted is None:
                stat = self.target.lstat(path)
                self.steps.append(RestoreStep(path, _directory(stat), None))

    def compare(self) -> None:
        """A step for every wanted path that is not there as wanted."""
        self.believed = self._believed()
        self.unchanged += len(self.believed)
        for path in sorted(self.wanted.entries.keys() - self.believed):
            if self._blocked and any(above in self._blocked for above in ways(path)[1:]):
                continue
            want = self.wanted.entries[path]
            if self.protected is not None and is_below(path, self.protected):
                self._block(path, "the store is there")
            elif (is_dir := self._is_dir(path)) is None:
                self.steps.append(RestoreStep(path, None, want))
            elif is_dir:
                self._compare_directory(path, want)
            else:
                self._compare_file(path, want)
        for path, _ in self.wanted.submodules:
            if self._is_dir(path) is None and not any(above in self._blocked for above in ways(path)):
                self.steps.append(RestoreStep(path, None, State(DIRECTORY, None, NO_ID, 0)))

    def _believed(self) -> set[bytes]:
        """The wanted files and links that are proven to be there as wanted."""
        entries, lstat, pack = self.wanted.entries, self.target.calls.lstat, pack_fields
        believed: set[bytes] = set()
        last: bytes | None = None
        names: dict[bytes, bool] = {}
        fd = -1
        for path, kind, (id,), (proof,) in self.known_files.rows():
            want = entries.get(path)
            if want is None or want[2] != id or want[0][0] != PLAIN[kind] or kind == _DIRECTORY:
                continue
            parent, _, name = path.rpartition(b"/")
            try:
                if parent != last:
                    last = parent
                    hidden = self.protected is not None and is_below(parent, self.protected)
                    names = {} if hidden else self._names(parent) or {}
                    fd = self.target.dir(parent) if names else -1
                if names.get(name) is not False:
                    continue
                stat = lstat(fd, name)
            except OSError:
                continue  # it is compared like any other, which reports the error
            if want[1] is not None and kind_of_mode(stat.st_mode) != kind_of_mode(want[1]):
                continue
            if proof == pack(stat.st_mode, stat.st_ino, stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns):
                believed.add(path)
        return believed

    def _compare_directory(self, path: bytes, want: State) -> None:
        if want.kind == DIRECTORY and self._names(path) is None:
            is_store = is_store_name(path.rpartition(b"/")[2])
            self._block(path, "a store is there" if is_store else "the directory cannot be read")
        elif want.kind == DIRECTORY:
            self.unchanged += 1
        elif path in self._doomed:
            self.steps.append(RestoreStep(path, _directory(self.target.lstat(path)), want))
        else:
            self._block(path, "there is a directory, and something in it would stay")

    def _compare_file(self, path: bytes, want: State) -> None:
        try:
            state, stat = self.target.state_at(path)
        except OSError as error:
            self._block(path, f"the old file cannot be read, and so not be saved: {error.strerror}")
            return
        if state is None or state.kind in (OTHER, DIRECTORY):
            self._block(path, "there is something other than a file: a pipe, a socket, a device")
        elif want.kind == DIRECTORY and state.kind == SYMLINK and path not in self.wanted.links:
            self._block(
                path,
                "there is a symlink where a directory is wanted, and it was not recorded after that turn",
            )
        elif same(state, want):
            self.unchanged += 1
            if stat is not None:
                self.known_files.learn(path, state, stat)
        else:
            self.steps.append(RestoreStep(path, state, _with_mode(want, state)))

    def _is_journal(self, path: bytes) -> bool:
        """Whether a path is the journal of a database that is restored: another journal would change it."""
        database = database_name(path)
        return database != path and database in self.wanted.entries

    def find_stale_journals(self) -> None:
        """Unrecorded journals beside databases that change: they would be applied to these."""
        for step in [step for step in self.steps if step.after is not None]:
            for path in journals_of(step.path):
                if path in self.wanted.entries or path in self._doomed or self._is_dir(path) is not False:
                    continue
                try:
                    state = self.target.state_at(path)[0]
                except OSError as error:
                    self._block(path, f"it cannot be read, and so not be saved: {error.strerror}")
                    continue
                if state is not None and state.kind in FILES:
                    self._doomed.add(path)
                    self.steps.append(RestoreStep(path, state, None))
                    self.staying = [entry for entry in self.staying if entry[0] != path]

    def spare_open_databases(self) -> None:
        """Make a conflict of each database that a process has open, instead of steps."""
        open_ones = openers(self.target.path, databases_in([step.path for step in self.steps]))
        for database, process in open_ones.items():
            self.steps = [step for step in self.steps if database_name(step.path) != database]
            self._block(database, has_open(process))

    def find_staying(self) -> None:
        """The other files in the directories that are wanted whole."""
        if not self.wanted.whole:
            return
        listed = {path for path, _ in self.staying}
        directories = [b"", *(p for p, state in self.wanted.entries.items() if state.kind == DIRECTORY)]
        for directory in directories:
            if directory in self._blocked:
                continue
            for name, is_dir in (self._names(directory) or {}).items():
                path = directory + b"/" + name if directory else name
                known = path in self.wanted.entries or path in self._doomed or path in listed
                if known or not self.wanted.selects(path) or unsafe_path(path) is not None:
                    continue
                if is_dir and is_store_name(name) and self._names(path) is None:
                    continue
                if self.wanted.left_alone(path) or (self.protected and is_below(self.protected, path)):
                    continue
                self.staying.append((path + b"/" if is_dir else path, self._why_staying))

    def _block(self, path: bytes, why: str) -> None:
        self._blocked.add(path)
        self.conflicts.append((path, why))

    def _is_dir(self, path: bytes) -> bool | None:
        """Whether there is a directory at a path; None when there is nothing."""
        parent, _, name = path.rpartition(b"/")
        names = self._names(parent)
        return None if names is None else names.get(name)

    def _names(self, directory: bytes) -> dict[bytes, bool] | None:
        """What is in a directory; None when there is none, or when it cannot be read."""
        if directory not in self._listings:
            try:
                self._listings[directory] = self.target.names(directory)
            except PermissionError:
                self._listings[directory] = None
        return self._listings[directory]


def _directory(stat: os.stat_result | None) -> State:
    return State(DIRECTORY, None if stat is None else stat.st_mode & 0o777, NO_ID, 0)


def _with_mode(want: State, state: State) -> State:
    """The wanted file with the mode of the one that is there, as far as the wanted kind allows."""
    if want.mode is not None or want.kind not in FILES or state.kind not in FILES or state.mode is None:
        return want
    mode = state.mode & ~0o111
    if want.kind == EXECUTABLE:
        mode = state.mode | 0o100 | (state.mode & 0o444) >> 2
    return State(want.kind, mode, want.id, want.size)


def _ignored(target: str, paths: Collection[bytes]) -> set[bytes] | None:
    """Which of the paths git ignores; None when there is a repository and git does not answer."""
    if not paths or not _in_repository(target):
        return set()
    names = b"".join(b"./%b\0" % path for path in paths)
    question = ["check-ignore", "--stdin", "-z"]
    try:
        _, answer = git.run(os.fsencode(target), question, names, accepted=(0, 1))
    except git.GitFailed:
        return None
    return {path.removeprefix(b"./") for path in answer.split(b"\0") if path}


def _in_repository(directory: str) -> bool:
    while not os.path.lexists(os.path.join(directory, ".git")):
        parent = os.path.dirname(directory)
        if parent == directory:
            return False
        directory = parent
    return True
