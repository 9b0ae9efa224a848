"""One scan of a working directory: which names it holds, and which contents are new.

A scan begins with the rows of the stat cache and replaces those that the disk contradicts. In a *quick* scan
only directories whose own stat differs are listed; a *full* one, after a change of what git tracks or
ignores, lists all. It goes through some hundred directories at a time, so that one question to git covers
them all.

Used by `worktree.capture` only; one scan belongs to one thread. On the hook path.
"""

import errno
import os
import stat
import time

from eventlog.blobs.tree import DIRECTORY, SKIPPED, all_legal
from eventlog.worktree import kept_ignored
from eventlog.worktree.changes import absent_after, absent_of
from eventlog.worktree.entries import TOO_DEEP, Entries
from eventlog.worktree.git import ATTRIBUTES_FILE, GitFailed
from eventlog.worktree.rows import (
    EMPTY_TREE,
    KEPT_IGNORED,
    LEFT_OUT_ROW,
    NO,
    UNPROVEN,
    YES,
    Directory,
    StatCache,
    is_another,
    join,
    tables_of,
)  # fmt: skip
from eventlog.worktree.rules import IGNORE_FILE, TreeRules
from eventlog.worktree.stat_all import PENDING_SHOWN, Suspects, TooLate, is_late
from eventlog.worktree.userfiles import WATCHER_COOKIE, StoreThere, is_temporary

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from eventlog.worktree.contents import ContentReader, Lists, UnreadFile
    from eventlog.worktree.databases import Databases
    from eventlog.worktree.entries import ReadEntry
    from eventlog.worktree.git_held import HeldFiles
    from eventlog.worktree.rows import Handle, Row

DEPTH_MAX = 2_048  # a deeper tree could not be written out again

# Directories listed before their names are read, and names examined before what is below them: so that time
# never goes into one of these alone.
_LEVEL, _NAMES = 256, 1_024
# Of the time of a full capture this share is left to read what it finds, if comparing takes that long; no
# more than reading takes (`contents.CALL_BYTES_MAX`).
_READING_SHARE, _READING_S = 0.25, 0.2


class RulesChanged(Exception):
    """An ignore file came, went or changed under a quick scan."""


class Scan:
    """Args:
    never: (device, inode) of directories that are never captured: the store, git's own.
    contents: reads the contents of files, or defers them, after all names were examined; without it each is
        read where it is met, also those that were deferred before, which `lists` knows.
    """

    def __init__(
        self,
        cache: "StatCache | None",
        entries: Entries,
        rules: TreeRules,
        *,
        never: "set[tuple[int, int]]",
        deadline: "float | None",
        may_fork: bool = False,
        contents: "ContentReader | None" = None,
        lists: "Lists",
    ) -> None:
        self.cache = cache
        self.entries = entries
        self.rules = rules
        self._never = never
        self._deadline = deadline
        self._may_fork = may_fork
        self.contents = contents
        self._lists = lists
        self._unread: "list[tuple[Directory, UnreadFile]]" = []
        self._held: "HeldFiles | None" = None  # of this run
        self._databases: "Databases | None" = None  # that git ignores, and of which a part was read
        # Names to read, by the path of their directory; of the root by None.
        self._suspects: "dict[bytes | None, set[bytes]]" = {}
        self.next_row = 0  # where the next full capture begins
        self.uncompared_count = 0  # rows that a full capture did not reach
        self.rules_left = False  # there was no time to read what git tracks
        self.awaits_contents = False  # of the cache: so many that nothing is compared
        self._full = False
        self._trusts_ids = True
        self._reshaped = False  # a path came or went
        self.pending: "list[bytes]" = []
        self.pending_count = 0

    def nothing_changed(self) -> bool:
        """Stat every path of the cache, first those that the caller named. True when nothing has changed.

        Raises: Unusable.
        """
        assert self.cache is not None
        watched_same = self.rules.stat_watched()
        suspects = Suspects(self.entries, self.cache, self._lists)
        if is_late(self._deadline):
            self._leave([b""])
        else:
            suspects.check_root()
        if self.contents is not None:
            suspects.check(self.contents.named)  # however little time there is
        compared = suspects.check_all(self._time_to_compare(), self._may_fork, self.contents is None)
        self.uncompared_count = compared.left_count
        self.pending_count += compared.left_count
        self.pending += compared.left[: PENDING_SHOWN - len(self.pending)]
        self.next_row = compared.next_row
        self._suspects = suspects.names
        return watched_same and not self._suspects

    @property
    def is_hurried(self) -> bool:
        """Whether the caller has a deadline, and leaves contents to another process."""
        return self._deadline is not None and self.contents is not None

    def leave_all(self) -> None:
        """Look at nothing until the contents that the cache lacks are stored."""
        assert self.cache is not None
        self.awaits_contents = True
        self.next_row = self.cache.next_row
        self.rules.keep_watched()
        self._leave([b""])

    def examine(self, paths: "Iterable[bytes]", *, watched: bool) -> bool:
        """Stat these paths and the directories on the way to them. True when none has changed.

        Args: watched: they are all that a watcher saw change. Raises: Unusable.
        """
        assert self.cache is not None
        self.rules.keep_watched()
        self.next_row = self.cache.next_row
        suspects = Suspects(self.entries, self.cache, self._lists)
        suspects.check_root()
        suspects.check(paths)
        if watched:
            suspects.check_unwatched(self.contents is None)
        self._suspects = suspects.names
        return not self._suspects

    def _time_to_compare(self) -> "float | None":
        if self._deadline is None:
            return None
        left = max(0.0, self._deadline - time.monotonic())
        return self._deadline - min(left * _READING_SHARE, _READING_S)

    def rules_differ(self) -> bool:
        """Whether the rules of what belongs in the tree may have changed, apart from ignore files in it."""
        try:
            return self.rules.differ()
        except TooLate:
            self._put_off_rules()
            return False
        except GitFailed as error:
            self.rules.give_up(str(error))
            return False

    def _put_off_rules(self) -> None:
        """Leave what git tracks to a capture with more time; whether rows follow from it is not known."""
        self.rules_left = True
        self._leave([b".git/index"])
        if self.cache is not None:
            self.rules.keep_watched()

    # -- the scan ------------------------------------------------------------------------------

    def run(self, *, full: bool, trusts_ids: bool) -> Directory:
        """Bring the rows up to date; returns their root (one row, the working directory).

        Args: trusts_ids: whether the contents that the cache names are known to be in the store.
        Raises: RulesChanged, only when not `full`.
        """
        if full:
            try:
                self.rules.prepare_full(may_put_off=self.cache is None or trusts_ids)
            except TooLate:
                self._put_off_rules()
                full = self.cache is None
                self._deadline = 0.0  # nothing can be read without it
        self._full = full
        self._trusts_ids = trusts_ids
        self._unread, self._held = [], None
        top = Directory(None, b"")
        root = self._load_root(top) if self.cache is not None else self._new(top, b"")
        root.listing = full or b"" in top.suspects
        if not full:
            self._reach_changes(root)
        waiting = [root]
        while waiting:
            level = self._next_level(waiting)
            self._level(level)
            waiting += [below for directory in level for below in self._below(directory)]
        if self.contents is not None and self._held is not None:
            for directory, name, file_stat in self._held.put_rows(self.contents):
                self._read_later(directory, name, file_stat)
        if self.contents is not None and self._unread:
            self._take_contents(self.contents)
        if self._databases is not None:
            self._databases.check(self._put)
        return top

    def _take_contents(self, contents: "ContentReader") -> None:
        """Put the rows of files of which only the stat was taken so far."""
        directories = {file.path: directory for directory, file in self._unread}
        for file, entry in contents.take([file for _, file in self._unread]):
            directory = directories[file.path]
            if entry is not None:
                self._put(directory, file.name, entry)
            else:
                self._gone(directory, file.name)
                directory.stat = UNPROVEN

    def _load_root(self, top: Directory) -> Directory:
        cache = self.cache
        assert cache is not None
        top.rows[b""] = (DIRECTORY, cache.root, cache.root_size, cache.root_stat, NO, cache.top)
        top.suspects = self._suspects.get(None, set())
        return self._load(top, b"", cache.top)

    def _load(self, parent: Directory, name: bytes, handle: "Handle") -> Directory:
        """The rows of a directory of the cache. Raises: Unusable."""
        assert self.cache is not None
        stored = self.cache.directory(handle)
        directory = Directory(parent, name, stored)
        _, directory.id, directory.size, directory.stat, _, _ = parent.rows[name]
        parent.rows[name] = (DIRECTORY, directory.id, directory.size, directory.stat, NO, directory)
        directory.ignored = stored.ignored
        directory.suspects = self._suspects.get(directory.path, set())
        directory.rows = dict(stored.rows())
        if self._full or not self._trusts_ids:
            directory.rows = {name: row for name, row in directory.rows.items() if self._is_usable(row)}
            directory.suspects.intersection_update(directory.rows)
        return directory

    def _is_usable(self, row: "Row") -> bool:
        """Whether a row of the cache counts; else its name is as if it had never been seen."""
        kind, id, *_ = row
        is_stored = self._trusts_ids or kind == DIRECTORY or self.entries.writer.holds(id)
        return is_stored and not (self._full and row[:2] == LEFT_OUT_ROW)

    def _new(self, parent: Directory, name: bytes) -> Directory:
        directory = Directory(parent, name)
        directory.listing = self._reshaped = True
        parent.rows[name] = (DIRECTORY, EMPTY_TREE, 0, UNPROVEN, NO, directory)
        return directory

    def _reach_changes(self, root: Directory) -> None:
        """Load every directory that holds a changed row, and those on the way to it."""
        for path in list(self._suspects):
            directory = root
            for name in path.split(b"/") if path else ():
                below = directory.rows[name][5]
                assert below is not None
                directory = below if isinstance(below, Directory) else self._load(directory, name, below)

    def _below(self, directory: Directory) -> "Iterator[Directory]":
        """The directories below that are loaded; all of them in a full scan."""
        for name, row in list(directory.rows.items()):
            below = row[5]
            if self._full and below is not None and not isinstance(below, Directory):
                below = self._load(directory, name, below)
                below.listing = True
            if isinstance(below, Directory):
                yield below

    def _next_level(self, waiting: "list[Directory]") -> "list[Directory]":
        """Take some directories: enough for one question to git, few enough that what is found in them is
        read, and listed in its turn, before the time is over."""
        level: "list[Directory]" = []
        names = 0
        while waiting and len(level) < _LEVEL and names < _NAMES:
            level.append(waiting.pop())
            names += len(level[-1].suspects)
        return level

    def _level(self, level: "list[Directory]") -> None:
        to_read: "list[tuple[Directory, bytes]]" = []
        unclear: "list[tuple[Directory, bytes, bool]]" = []
        for directory in level:
            if not directory.listing:
                to_read += [(directory, name) for name in directory.suspects]
            elif is_late(self._deadline):
                self._leave([directory.path])
            else:
                self._list(directory, to_read, unclear)
        to_read += self._without_ignored(unclear)
        to_read.sort(key=lambda pair: pair[1] != IGNORE_FILE)  # stable: first what decides about the others
        for directory, name in to_read:
            if is_late(self._deadline):
                self._leave([join(directory, name)])
                directory.is_complete = directory.is_complete and name in directory.rows
            else:
                self._read_name(directory, name)
        for directory in level:
            if directory.listing:
                directory.stat = directory.proof if directory.is_complete else UNPROVEN

    def _list(
        self,
        directory: Directory,
        to_read: "list[tuple[Directory, bytes]]",
        unclear: "list[tuple[Directory, bytes, bool]]",
    ) -> None:
        """Compare the names in a directory with its rows."""
        try:
            directory.proof, directory.size, listed = self.entries.list(directory.path)
        except OSError as error:
            self._cannot_list(directory, error)
            return
        if not directory.path:
            listed.pop(b".git", None)
            if listed.get(b".locus"):
                del listed[b".locus"]  # the store
        directory.ignored = 0
        names = {}
        are_plain = all_legal(list(listed))
        for name, is_dir in listed.items():
            if name[:1] == b"." and not is_dir:
                if is_temporary(name) or name.startswith(WATCHER_COOKIE):
                    continue
                if name.lower() == ATTRIBUTES_FILE:
                    self.rules.note_attributes(directory.path)
            try:
                named = (name, None) if are_plain else self.entries.named(directory.path, name, is_dir)
            except StoreThere:
                continue
            tree_name, reason = named
            if reason is not None:
                directory.refused[tree_name] = reason
            names[tree_name] = is_dir
        for name in directory.rows.keys() - names.keys():
            self._forget(directory, name)
        if self.contents is not None and self.rules.held is not None:
            if self._held is None:
                self._held = self.rules.held.files(self.entries)
            names = self._held.take(directory, names, self._deadline)
        for name, is_dir in names.items():
            row = directory.rows.get(name)
            if name in directory.refused:
                to_read.append((directory, name))
                continue
            if row is not None and is_another(row, is_dir, name in directory.suspects):
                self._forget(directory, name)  # patterns may treat a directory otherwise than a file
                row = None
            if row is None or self._full:
                path = join(directory, name)
                tracked = self.rules.is_tracked(path)
                if row is not None:
                    tracked = self._mark_tracked(directory, name, row, path)
                if not tracked:
                    unclear.append((directory, name, is_dir))
                    continue
            if row is None or name in directory.suspects:
                to_read.append((directory, name))

    def _mark_tracked(self, directory: Directory, name: bytes, row: "Row", path: bytes) -> bool:
        flag = YES if path in self.rules.tracked else NO
        if row[4] != flag:
            directory.rows[name] = (*row[:4], flag, row[5])
        return flag == YES or path in self.rules.tracked_dirs

    def _without_ignored(
        self, unclear: "list[tuple[Directory, bytes, bool]]"
    ) -> "Iterator[tuple[Directory, bytes]]":
        """The names to read, of those that an ignore file may hide."""
        paths = [join(directory, name) for directory, name, _ in unclear]
        try:
            hidden, kept_out, retained = self.rules.left_out(
                [(path, is_dir) for path, (_, _, is_dir) in zip(paths, unclear, strict=True)]
            )
        except GitFailed:  # too late
            self._leave(paths)
            for directory, name, _ in unclear:
                directory.is_complete = directory.is_complete and name in directory.rows
            return
        for path, (directory, name, _) in zip(paths, unclear, strict=True):
            if name in directory.rows and (path in hidden or path in kept_out):
                self._forget(directory, name)
            if path in hidden:
                directory.ignored += 1
                if name == IGNORE_FILE:
                    self._rules_changed(directory)
                    self.rules.watch(path)
                continue
            if path in kept_out:
                directory.left_out.add(name)
            if path in retained:
                directory.kept_ignored.add(name)
                if name in directory.rows:
                    row = directory.rows[name]
                    directory.rows[name] = (*row[:4], KEPT_IGNORED, row[5])
            if name not in directory.rows or name in directory.suspects:
                yield directory, name

    def _is_refused(self, directory: Directory, name: bytes) -> bool:
        """Whether a row is that of a name that no tree may hold, or of one that looks like its escape."""
        row = directory.rows.get(name)
        if row is None or row[0] != SKIPPED:
            return False
        shown, reason = self.entries.named(directory.path, name, False)
        return reason is not None or shown != name

    def _read_name(self, directory: Directory, name: bytes) -> None:
        """Put the row of a name."""
        if name == IGNORE_FILE:
            self._rules_changed(directory)
        if name in directory.refused:
            self._put(directory, name, self.entries.refused(directory.refused[name]))
            return
        if not all_legal([name]) and self._is_refused(directory, name):
            return  # changes only when the directory does
        try:
            file_stat = self.entries.lstat(directory.path, name)
            row = directory.rows.get(name)
            if name in directory.left_out or (row is not None and row[:2] == LEFT_OUT_ROW):
                self._put(directory, name, self.entries.left_out(self.entries.proof(file_stat)))
            elif stat.S_ISDIR(file_stat.st_mode):
                self._read_directory(directory, name, file_stat)
            elif self._is_too_large(directory, name, file_stat):
                reason = kept_ignored.TOO_LARGE
                self._put(
                    directory,
                    name,
                    self.entries.skipped(reason, file_stat.st_size, self.entries.proof(file_stat)),
                )
            elif self.contents is not None and stat.S_ISREG(file_stat.st_mode):
                self._read_later(directory, name, file_stat)
            else:
                self._put(directory, name, self.entries.read(directory.path, name, file_stat))
        except FileNotFoundError:
            self._gone(directory, name)
        except OSError as error:
            self._put(directory, name, self.entries.unreadable(error, 0))

    def _is_too_large(self, directory: Directory, name: bytes, file_stat: os.stat_result) -> bool:
        """Whether a file that git ignores is too large to be kept all the same."""
        row = directory.rows.get(name)
        if name not in directory.kept_ignored and (row is None or row[4] != KEPT_IGNORED):
            return False
        if kept_ignored.database_name(name) is not None:
            if self._databases is None:
                from eventlog.worktree.databases import Databases

                self._databases = Databases(self.entries, self._lists)
            self._databases.note(directory, name, file_stat)
        return stat.S_ISREG(file_stat.st_mode) and file_stat.st_size > kept_ignored.SIZE_MAX

    def _read_later(self, directory: Directory, name: bytes, file_stat: os.stat_result) -> None:
        from eventlog.worktree.contents import UnreadFile

        row = directory.rows.get(name)
        entry = row[1] if row is not None and row[0] == SKIPPED else None
        self._unread.append(
            (directory, UnreadFile(join(directory, name), directory.path, name, file_stat, entry))
        )

    def _gone(self, directory: Directory, name: bytes) -> None:
        """Forget a name that was listed and is gone: the next capture lists the directory again."""
        if name in directory.rows:
            self._forget(directory, name)
        directory.is_complete = False

    def _read_directory(self, directory: Directory, name: bytes, file_stat: os.stat_result) -> None:
        path = join(directory, name)
        row = directory.rows.get(name)
        if (file_stat.st_dev, file_stat.st_ino) in self._never:
            if row is not None:
                self._forget(directory, name)
            return
        commit = self.entries.commit_at(path)
        if commit is None and (path in self.rules.tracked or (row is not None and row[4] == YES)):
            commit = self._staged_commit(path)
        if commit is not None:
            self._put(directory, name, self.entries.repository(commit, self.entries.proof(file_stat)))
        elif directory.depth + 1 > DEPTH_MAX:
            self._put(directory, name, self.entries.skipped(TOO_DEEP, 0, self.entries.proof(file_stat)))
        elif row is None or row[0] != DIRECTORY:
            if row is not None:
                self._forget(directory, name)
            # It may be too late to list it; its mode must be kept all the same.
            self._new(directory, name).size = self.entries.size_of(file_stat)
        else:
            below = row[5]
            assert below is not None
            if not isinstance(below, Directory):
                below = self._load(directory, name, below)
            below.listing = True

    def _staged_commit(self, path: bytes) -> "str | None":
        """The commit of a submodule that was not checked out: its directory is empty."""
        commit = self.rules.staged_commit(path)
        return None if commit is None or self.entries.list(path)[2] else commit

    def _put(self, directory: Directory, name: bytes, entry: "ReadEntry") -> None:
        old = directory.rows.get(name)
        if old is not None and old[0] != DIRECTORY:
            flag = old[4]
        else:
            flag = YES if join(directory, name) in self.rules.tracked else NO
            self._reshaped = True
        if name in directory.kept_ignored:
            flag = KEPT_IGNORED
        directory.rows[name] = (*entry, flag, None)

    def _cannot_list(self, directory: Directory, error: OSError) -> None:
        above = directory.parent
        assert above is not None
        if above.parent is None:
            raise error
        if error.errno in (errno.ENOENT, errno.ENOTDIR, errno.ELOOP) or isinstance(error, StoreThere):
            self._forget(above, directory.name)  # gone or replaced meanwhile: the next capture sees it
        else:
            self._put(above, directory.name, self.entries.unreadable(error, 0))
        above.stat = UNPROVEN
        above.is_complete = False

    def _forget(self, directory: Directory, name: bytes) -> None:
        if name == IGNORE_FILE:
            self._rules_changed(directory)
        del directory.rows[name]
        self._reshaped = True

    def _rules_changed(self, directory: Directory) -> None:
        """An ignore file of a directory decides about names below it, which may have rows."""
        if not self._full and directory.stored is not None and directory.stored.names:
            raise RulesChanged

    def _leave(self, paths: "list[bytes]") -> None:
        """Note paths that were not read."""
        self.pending_count += len(paths)
        self.pending += paths[: PENDING_SHOWN - len(self.pending)]

    # -- the result ----------------------------------------------------------------------------

    def loaded(self, top: Directory) -> "list[Directory]":
        """Every loaded directory of the result, one before those below it."""
        directories = []
        stack = [top]
        while stack:
            directory = stack.pop()
            for row in directory.rows.values():
                if isinstance(row[5], Directory):
                    directories.append(row[5])
                    stack.append(row[5])
        return directories

    def tables(self, top: Directory, generation: int) -> StatCache:
        """The cache of this scan; ids of loaded directories are in their parents' rows."""
        # Of a first scan that is not finished each row follows from the rules; the others have none yet.
        first = self.cache is None and not self.rules_left
        watched = self.rules.watched(sure=not self.pending_count or not self._full or first)
        tables = tables_of(self.cache, top, self.rules.digest, watched, generation, self.next_row)
        if self.cache is None or self._full:
            tables.set_absent(absent_of(tables, self.rules.tracked), self.cache)
        else:
            absent = absent_after(self.cache, tables) if self._reshaped else self.cache.absent
            tables.set_absent(absent, self.cache)
        return tables
