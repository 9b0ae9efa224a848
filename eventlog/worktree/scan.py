"""One scan of a working directory: which names it holds, and which contents are new.

A scan begins with the rows of the stat cache and replaces those that the disk contradicts. In a *quick* scan
only directories whose own stat differs are listed; a *full* one, after a change of what git tracks or
ignores, lists all. It goes through directories level by level, so that one question to git covers a level.

Used by `worktree.capture` only; one scan belongs to one thread. On the hook path.
"""

import errno
import os
import stat
from itertools import compress, pairwise

from eventlog.blobs.ids import blob_id
from eventlog.blobs.tree import DIRECTORY, SKIPPED, SUBMODULE, all_legal
from eventlog.worktree import kept_ignored
from eventlog.worktree.changes import EMPTY_TREE
from eventlog.worktree.entries import TOO_DEEP, Entries
from eventlog.worktree.git import ATTRIBUTES_FILE, GitFailed
from eventlog.worktree.rows import KEPT_IGNORED, LEFT_OUT_ROW, NO, YES, Directory, is_another, join
from eventlog.worktree.rules import IGNORE_FILE, TreeRules
from eventlog.worktree.stat_all import is_late, stat_all
from eventlog.worktree.statcache import STAT_SIZE, UNPROVEN, StatCache, Tables, rows_with
from eventlog.worktree.userfiles import StoreThere, is_temporary

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from eventlog.worktree.contents import ContentReader, Lists, UnreadFile
    from eventlog.worktree.databases import Databases
    from eventlog.worktree.entries import ReadEntry
    from eventlog.worktree.git_held import HeldByGit
    from eventlog.worktree.rows import Row

DEPTH_MAX = 2_048  # a deeper tree could not be written out again
PENDING_SHOWN = 100

_STRIDE = 256  # rows compared at once
_IS_TRACKED = bytes.maketrans(KEPT_IGNORED, NO)  # for the flags of rows

# Reading this much takes no longer than asking git for it and starting the process that stores it later.
READ_FILES_MAX = 100
READ_BYTES_MAX = 256 << 10


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
        # With its stat and git's object; their rows come when all are known.
        self._held: "list[tuple[Directory, bytes, bytes, os.stat_result, bytes]]" = []
        self._databases: "Databases | None" = None  # that git ignores, and of which a part was read
        self._fresh = b""
        self._moved: "set[int]" = set()  # rows to read though their stat is the same
        self._full = False
        self._trusts_ids = True
        self._reshaped = False  # a path came or went
        self.pending: "list[bytes]" = []
        self.pending_count = 0

    # -- the quick check -----------------------------------------------------------------------

    def nothing_changed(self) -> bool:
        """Stat every path of the cache. True when nothing has changed."""
        cache = self.cache
        assert cache is not None
        watched_same = self.rules.stat_watched()
        self._fresh = self._stat_all(cache)
        self._moved = {*self._moved_submodules(cache), *self._wanted(cache)}
        return watched_same and not self._moved and self._fresh == cache.stats

    def _stat_all(self, cache: StatCache) -> bytes:
        """The present stat of each row; of rows not reached before the deadline, the cached one."""
        paths = [b".", *cache.paths[1:]]
        parts = stat_all(self.entries, paths, deadline=self._deadline, may_fork=self._may_fork)
        fresh = []
        for (start, stats), (end, _) in pairwise([*parts, (len(paths), b"")]):
            reached = start + len(stats) // STAT_SIZE
            if reached < end:
                self._leave(cache.paths[reached:end])
            fresh += [stats, cache.stats[reached * STAT_SIZE : end * STAT_SIZE]]
        return b"".join(fresh)

    def _moved_submodules(self, cache: StatCache) -> "Iterator[int]":
        for row in rows_with(cache.kinds, SUBMODULE):
            commit = self.entries.commit_at(cache.paths[row])
            if commit is not None and blob_id(commit.encode("ascii")) != cache.id(row):
                yield row

    def _wanted(self, cache: StatCache) -> "Iterator[int]":
        """The rows of contents that an earlier capture deferred and this one is to read."""
        for row in rows_with(cache.kinds, SKIPPED) if self.contents is None else ():
            if self._lists.named_by(cache.id(row)) is not None:
                yield row

    def rules_differ(self) -> bool:
        """Whether the rules of what belongs in the tree may have changed, apart from ignore files in it."""
        try:
            return self.rules.differ()
        except GitFailed as error:
            self.rules.give_up(str(error))
            return False

    # -- the scan ------------------------------------------------------------------------------

    def run(self, *, full: bool, trusts_ids: bool) -> Directory:
        """Bring the rows up to date; returns their root (one row, the working directory).

        Args: trusts_ids: whether the contents that the cache names are known to be in the store.
        Raises: RulesChanged, only when not `full`.
        """
        self._full = full
        self._trusts_ids = trusts_ids
        self._unread, self._held = [], []
        top = Directory(None, b"")
        root = self._load(top, b"", 1) if self.cache is not None else self._new(top, b"")
        if full:
            self.rules.prepare_full()
        root.listing = full or b"" in top.suspects
        if not full:
            self._reach_changes(top)
        level = [root]
        while level:
            self._level(level)
            level = [below for directory in level for below in self._below(directory)]
        if self.contents is not None and self._held:
            assert self.rules.held is not None
            self._put_held(self.contents, self.rules.held)
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

    def _load(self, parent: Directory, name: bytes, number: int) -> Directory:
        """The rows of a directory of the cache."""
        cache = self.cache
        assert cache is not None
        directory = Directory(parent, name, number)
        if number == 1:
            parent.rows[name] = (DIRECTORY, cache.id(0), cache.size(0), cache.stat(0), NO, 1)
            if self._fresh[:STAT_SIZE] != cache.stat(0):
                parent.suspects.add(name)
        _, directory.id, directory.size, directory.stat, _, _ = parent.rows[name]
        parent.rows[name] = (DIRECTORY, directory.id, directory.size, directory.stat, NO, directory)
        directory.ignored = cache.ignored_in(number)
        prefix = len(directory.path) + 1 if directory.path else 0
        first, end = cache.rows_of(number)
        below = number + 1
        for row in range(first, end):
            base = cache.paths[row][prefix:]
            kind, stat = cache.kinds[row : row + 1], cache.stat(row)
            id, tracked = cache.id(row), cache.flags[row : row + 1]
            is_stored = self._trusts_ids or kind == DIRECTORY or self.entries.writer.holds(id)
            sub = None
            if kind == DIRECTORY:
                sub = below
                below += cache.span(below)
            if not is_stored or (self._full and (kind, id) == LEFT_OUT_ROW):
                continue  # as if it had never been seen
            if row in self._moved or self._fresh[row * STAT_SIZE : (row + 1) * STAT_SIZE] != stat:
                directory.suspects.add(base)
            directory.rows[base] = (kind, id, cache.size(row), stat, tracked, sub)
        return directory

    def _new(self, parent: Directory, name: bytes) -> Directory:
        directory = Directory(parent, name)
        directory.listing = self._reshaped = True
        parent.rows[name] = (DIRECTORY, EMPTY_TREE, 0, UNPROVEN, NO, directory)
        return directory

    def _reach_changes(self, top: Directory) -> None:
        """Load every directory that holds a changed row, and those on the way to it."""
        cache = self.cache
        assert cache is not None
        for row in self._changed_rows(cache):
            path = cache.paths[row]
            names = path.split(b"/")
            directory = top.rows[b""][5]
            for name in names[:-1]:
                assert isinstance(directory, Directory)
                below = directory.rows[name][5]
                directory = self._load(directory, name, below) if isinstance(below, int) else below

    def _changed_rows(self, cache: StatCache) -> "Iterator[int]":
        fresh, stats, size = self._fresh, cache.stats, STAT_SIZE
        for start in range(0, cache.row_count, _STRIDE):
            stretch = slice(start * size, (start + _STRIDE) * size)
            if fresh[stretch] == stats[stretch]:
                continue
            for row in range(start, min(start + _STRIDE, cache.row_count)):
                if fresh[row * size : (row + 1) * size] != stats[row * size : (row + 1) * size]:
                    yield row
        yield from self._moved

    def _below(self, directory: Directory) -> "Iterator[Directory]":
        """The directories below that are loaded; all of them in a full scan."""
        for name, row in list(directory.rows.items()):
            below = row[5]
            if self._full and isinstance(below, int):
                below = self._load(directory, name, below)
                below.listing = True
            if isinstance(below, Directory):
                yield below

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
        directory.ignored = 0
        names = {}
        are_plain = all_legal(list(listed))
        for name, is_dir in listed.items():
            if name == b".git" and not directory.path:
                continue
            if name[:1] == b"." and not is_dir:
                if is_temporary(name):
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
            names = self._without_held(directory, names, self.rules.held)
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

    def _without_held(
        self, directory: Directory, names: "dict[bytes, bool]", held: "HeldByGit"
    ) -> "dict[bytes, bool]":
        """Take the stats of the files that git holds, whose contents nobody reads; the other names.

        There are no rows yet.
        """
        prefix = directory.path + b"/" if directory.path else b""
        lstat, fd = self.entries.calls.lstat, self.entries.dir(directory.path)
        tracked, size_max = self.rules.tracked, self.entries.size_max
        others = {}
        late = False
        for number, (name, is_dir) in enumerate(names.items()):
            late = late or (number % _STRIDE == 0 and is_late(self._deadline))
            path = prefix + name
            if path in tracked and not (is_dir or late or name in directory.refused):
                try:
                    file_stat = lstat(fd, name)
                except OSError:
                    file_stat = None  # the next step to read it reports the error
                object = None if file_stat is None else held.object_of(path, file_stat)
                if file_stat is not None and object is not None and file_stat.st_size <= size_max:
                    self._held.append((directory, name, path, file_stat, object))
                    continue
            others[name] = is_dir
        return others

    def _put_held(self, contents: "ContentReader", held: "HeldByGit") -> None:
        """Put the rows of the files that git holds, and the list of them."""
        present = [False] * len(self._held)
        size = sum(file_stat.st_size for *_, file_stat, _ in self._held)
        if len(present) > READ_FILES_MAX or size > READ_BYTES_MAX:
            try:
                present = held.are_there(
                    [(object, file_stat.st_size) for *_, file_stat, object in self._held]
                )
            except GitFailed:
                pass  # then they are read like the others
        for (directory, name, _, file_stat, _), is_present in zip(self._held, present, strict=True):
            if not is_present:
                self._read_later(directory, name, file_stat)
        self._held = list(compress(self._held, present))
        if not self._held:
            return
        sentence = contents.list_held(
            [
                (
                    path,
                    self.entries.kind_of(file_stat),
                    file_stat.st_size,
                    file_stat.st_mtime_ns,
                    file_stat.st_ctime_ns,
                    file_stat.st_ino,
                    object,
                )
                for _, _, path, file_stat, object in self._held
            ]
        )
        proof = self.entries.proof
        for directory, name, _, file_stat, _ in self._held:
            directory.rows[name] = (SKIPPED, sentence, file_stat.st_size, proof(file_stat), YES, None)

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
                    self._rules_changed()
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
            self._rules_changed()
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
            if isinstance(below, int):
                below = self._load(directory, name, below)
            assert isinstance(below, Directory)
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
            self._rules_changed()
        del directory.rows[name]
        self._reshaped = True

    def _rules_changed(self) -> None:
        if not self._full:
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
        tables = Tables()
        # Of a directory that is not loaded, and its siblings up to the next loaded one: [first, end).
        stack: "list[tuple[Directory | int, tuple[int, int] | int | None]]" = [(top, None)]
        while stack:
            directory, mark = stack.pop()
            if isinstance(directory, int):
                assert self.cache is not None and isinstance(mark, int)
                tables.copy(self.cache, directory, mark)
            elif isinstance(mark, tuple):
                tables.end_dir(mark, len(directory.rows), directory.ignored)
            else:
                stack.append((directory, tables.begin_dir()))
                below: "list[tuple[Directory | int, int | None]]" = []
                names = sorted(directory.rows)
                rows = [directory.rows[name] for name in names]
                prefix = directory.path + b"/" if directory.path else b""
                tables.add_rows([prefix + name for name in names] if directory is not top else [b""], rows)
                for row in rows:
                    sub = row[5]
                    if isinstance(sub, int):
                        assert self.cache is not None
                        beside = bool(below) and below[-1][1] == sub
                        first = below.pop()[0] if beside else sub
                        below.append((first, sub + self.cache.span(sub)))
                    elif sub is not None:
                        below.append((sub, None))
                stack += reversed(below)
        return tables.finish(
            tracked=self.rules.digest,
            generation=generation,
            watched=self.rules.watched(sure=not (self._full and self.pending_count)),
            absent=self._absent(tables),
        )

    def _absent(self, tables: Tables) -> "list[bytes]":
        """The tracked paths that are not on disk."""
        cache = self.cache
        if not self._reshaped and not self._full:
            assert cache is not None
            return list(cache.absent)
        tracked = set(self.rules.tracked)
        if not self._full:
            assert cache is not None
            tracked.update(cache.absent, compress(cache.paths, cache.flags.translate(_IS_TRACKED)))
        flags = b"".join(tables.flags).translate(_IS_TRACKED)
        return sorted(tracked.difference(compress(tables.paths, flags)))
