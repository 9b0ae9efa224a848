"""Which names of a working directory belong in its tree: what git tracks and what it does not ignore.

Inside a repository git decides; elsewhere, and where git cannot be asked, `ignore.py` reads `.gitignore`
files. For names that git does not track, the `include` patterns of the settings and then `.locusignore` come
before both. The files that decide are *watched*: while their stats stay the same, the verdicts of the
last capture hold for every name that it included. Belongs to one scan. On the hook path.
"""

import os
import time

from blake3 import blake3

from eventlog.worktree import git
from eventlog.worktree.git import GitFailed
from eventlog.worktree.kept_ignored import is_kept
from eventlog.worktree.rows import MISSING, UNPROVEN, YES, pack_stat
from eventlog.worktree.stat_all import TooLate, is_late
from eventlog.worktree.userfiles import lines_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from eventlog.worktree.git import RepositoryPaths, Settings
    from eventlog.worktree.git_held import HeldByGit
    from eventlog.worktree.git_index import GitIndex
    from eventlog.worktree.ignore import IgnoreFiles, Patterns
    from eventlog.worktree.rows import StatCache

IGNORE_FILE = b".gitignore"
OWN_IGNORE_FILE = b".locusignore"  # at the root only

# Files on other file systems have other clocks: how much older than the probe they must be.
_OTHER_CLOCK_NS = 2_000_000_000


# Reading git's index takes about this long for each byte of it.
_INDEX_S_PER_BYTE = 4e-8
_INDEX_SIZE_READ = 1 << 20  # a smaller one is always read


class TreeRules:
    """`tracked` maps the tracked paths to the staged commit of a submodule, None for files.

    After `watched_differ` returned False it holds only those that were not on disk, unless git was asked.
    """

    def __init__(
        self,
        root: bytes,
        repository: "RepositoryPaths | None",
        cache: "StatCache | None",
        probe: "tuple[int, int]",
        include: "Sequence[str]",
        deadline: "float | None",
        keep_ignored: bool = False,
    ) -> None:
        self._root = root
        self._repository = repository
        self._cache = cache
        self._now, self._device = probe
        self._include = include
        self._keep_ignored = keep_ignored
        self._own_file = root + b"/" + OWN_IGNORE_FILE
        self._patterns: "tuple[Patterns, ...] | None" = None  # of `include` and that file, once it is read
        self._ignore_files: "IgnoreFiles | None" = None  # until it is needed
        self._deadline = deadline
        self._index = b"" if repository is None else repository.git_dir + b"/index"
        self._git_tracked: "dict[bytes, str | None] | None" = None
        self._watched: "dict[bytes, bytes]" = {}
        self.warning: "str | None" = None
        self.held: "HeldByGit | None" = None  # in the first capture of a repository
        self.tracked: "dict[bytes, str | None]" = {}
        self.tracked_dirs: "set[bytes]" = set()
        self.digest = bytes(16)

    # -- the watched files ---------------------------------------------------------------------

    def stat_watched(self) -> bool:
        """Whether every watched file is as it was."""
        assert self._cache is not None
        fresh = [_stat_of(path)[0] for path in self._cache.basis.watched]
        self._watched = dict(zip(self._cache.basis.watched, fresh, strict=True))
        return b"".join(fresh) == self._cache.basis.watch_stats

    def keep_watched(self) -> None:
        """Leave the watched files to the next full capture: until then git tracks what it tracked."""
        cache = self._cache
        assert cache is not None
        self._watched = dict(zip(cache.basis.watched, self._stats_of(cache), strict=True))
        self.digest = cache.basis.tracked
        self._set_tracked(dict.fromkeys(cache.absent))

    def _stats_of(self, cache: "StatCache") -> "list[bytes]":
        size, stats = len(UNPROVEN), cache.basis.watch_stats
        return [stats[offset : offset + size] for offset in range(0, len(stats), size)]

    def differ(self) -> bool:
        """Whether what git tracks or ignores may have changed since the cache was written.

        Raises: GitFailed.
        """
        cache = self._cache
        if cache is None:
            return True
        changed = {
            path
            for path, stat in zip(cache.basis.watched, self._stats_of(cache), strict=True)
            if self._watched[path] != stat
        }
        if changed - {self._index}:
            return True
        self.digest = cache.basis.tracked
        if not changed:
            self._set_tracked(dict.fromkeys(cache.absent))
            return False
        if not self.index_fits():
            raise TooLate
        # Git rewrites its index for many reasons; what matters is which paths are in it.
        index = {self._index: self._proof(self._index)}
        self._ask_tracked()
        if self.digest != cache.basis.tracked:
            return True
        self._watched.update(index)
        assert self._git_tracked is not None
        self._set_tracked(
            {path: self._git_tracked[path] for path in cache.absent if path in self._git_tracked}
        )
        return False

    def index_fits(self) -> bool:
        """Whether there is time to read git's index before the deadline."""
        if self._deadline is None or self._repository is None:
            return True
        try:
            size = os.stat(self._index).st_size
        except OSError:
            return True
        return time.monotonic() + size * _INDEX_S_PER_BYTE < self._deadline or size < _INDEX_SIZE_READ

    def prepare_full(self, *, may_put_off: bool) -> None:
        """Ask git everything again; when it cannot be asked, `warning` says so.

        Raises: TooLate, only when that may be put off: there is no time to read the index.
        """
        if may_put_off and not self.index_fits():
            raise TooLate
        self._patterns = self._ignore_files = None
        # Its stat is taken before it is read: a later change shows next time.
        self._watched = {self._own_file: self._proof(self._own_file)}
        if self._repository is None:
            self._set_tracked({})
            return
        from eventlog.worktree import git_held  # which most captures do not need

        try:
            settings = git.settings_of(self._root, self._deadline)
            files = [self._index, *git.rule_files(self._repository, self._root, settings)]
            # As above: before git reads them again.
            self._watched.update((path, self._proof(path)) for path in files)
            deadline = self._deadline if may_put_off else None
            index = git_held.index_of(self._repository, self._root, settings, deadline)
            if index is not None:
                self._take_tracked(index.tracked)
            elif self._git_tracked is None or self.warning is not None:
                self._ask_tracked()
            assert self._git_tracked is not None
            self._set_tracked(self._git_tracked)
        except GitFailed as error:
            self.give_up(str(error))
            return
        if index is not None and self._cache is None:
            self._find_held(self._repository, settings, index)

    def _find_held(self, repository: "RepositoryPaths", settings: "Settings", index: "GitIndex") -> None:
        """Find files that git holds and a first capture need not read; in a later one little is new."""
        from eventlog.worktree import git_held

        try:
            self.held = git_held.held_by_git(repository, self._root, settings, index, self._deadline)
        except GitFailed:
            pass  # then everything is read

    def give_up(self, reason: str) -> None:
        """Go on without git: only what it tracked last time is known to be tracked."""
        self.warning = reason
        self.digest = bytes(16)
        cache = self._cache
        rows = () if cache is None else cache.rows()
        tracked = (path for path, directory, row in rows if directory.flags[row] == YES[0])
        absent = () if cache is None else cache.absent
        self._set_tracked(dict.fromkeys([*tracked, *absent]))

    def watch(self, path: bytes) -> None:
        """Watch an ignore file that is itself ignored and so in no row."""
        self._watched[self._root + b"/" + path] = self._proof(self._root + b"/" + path)

    def watched(self, sure: bool) -> "list[tuple[bytes, bytes]]":
        """(path, stat) of every watched file; without stats when the scan must be made again."""
        if self.warning is not None or not sure:
            paths = self._watched or {self._root: UNPROVEN}
            return [(path, UNPROVEN) for path in paths]
        return list(self._watched.items())

    def _ask_tracked(self) -> None:
        assert self._repository is not None
        self._take_tracked(git.tracked(self._root, self._deadline))

    def _take_tracked(self, tracked: "dict[bytes, str | None]") -> None:
        self._git_tracked = tracked
        lines = (path + b"\0" + (link or "").encode("ascii") for path, link in tracked.items())
        self.digest = blake3(b"\0".join(lines)).digest(16)

    def _set_tracked(self, tracked: "dict[bytes, str | None]") -> None:
        self.tracked = tracked
        dirs: "set[bytes]" = set()
        for path in tracked:
            above = path.rpartition(b"/")[0]
            while above and above not in dirs:
                dirs.add(above)
                above = above.rpartition(b"/")[0]
        self.tracked_dirs = dirs

    def _proof(self, path: bytes) -> bytes:
        stat, newest, device = _stat_of(path)
        margin = 0 if device == self._device else _OTHER_CLOCK_NS
        return stat if newest < self._now - margin or stat == MISSING else UNPROVEN

    # -- single names --------------------------------------------------------------------------

    def is_tracked(self, path: bytes) -> bool:
        """Whether git tracks a path that has no row, or something below it."""
        return path in self.tracked or path in self.tracked_dirs

    def note_attributes(self, directory: bytes) -> None:
        """Note an attributes file of git in `directory`."""
        if self.held is not None:
            self.held.note_attributes(directory)

    def staged_commit(self, path: bytes) -> "str | None":
        """The commit that the index has for a submodule; None where it has none, or git cannot tell."""
        if self._repository is None or self.warning is not None:
            return None
        if self._git_tracked is None:
            try:
                self._ask_tracked()
            except GitFailed:
                return None
            assert self._git_tracked is not None
        return self._git_tracked.get(path)

    def left_out(self, paths: "Sequence[tuple[bytes, bool]]") -> "tuple[set[bytes], set[bytes], set[bytes]]":
        """Of the untracked paths (is each a directory?) those that git ignores, those that only
        `.locusignore` leaves out, and those that git ignores and that are kept because nothing could rebuild
        them.

        Raises: GitFailed when the deadline passed.
        """
        if not paths:
            return set(), set(), set()
        ignored: "set[bytes]"
        if self._repository is not None and self.warning is None:
            try:
                ignored = self._ask_ignored(path for path, _ in paths)
            except GitFailed as error:
                if is_late(self._deadline):
                    raise
                self.warning = str(error)
                ignored = self._read_ignored(paths)
        else:
            ignored = self._read_ignored(paths)
        retained = self._retained_of(paths, ignored) if self._keep_ignored and ignored else set()
        if self._patterns is None:
            self._patterns = _patterns_of(self._include, lines_of(self._own_file))
        if not any(self._patterns):
            return ignored - retained, set(), retained
        include, own = self._patterns
        kept_out = set()
        for path, is_dir in paths:
            # A person's setting for this store comes before a file of the repository.
            verdict = include.inherited_verdict(path, is_dir)
            own_verdict = own.inherited_verdict(path, is_dir) if verdict is None else None
            if verdict or own_verdict:
                ignored.discard(path)
            elif own_verdict is False and path not in ignored:
                kept_out.add(path)
            elif verdict is False or own_verdict is False:
                retained.discard(path)
        return ignored - retained, kept_out, retained

    def _retained_of(self, paths: "Sequence[tuple[bytes, bool]]", ignored: "set[bytes]") -> "set[bytes]":
        return {path for path, is_dir in paths if not is_dir and path in ignored and is_kept(path)}

    def _read_ignored(self, paths: "Sequence[tuple[bytes, bool]]") -> "set[bytes]":
        if self._ignore_files is None:
            from eventlog.worktree.ignore import IgnoreFiles

            self._ignore_files = IgnoreFiles(self._root)
        hidden = self._ignore_files.hidden
        return {path for path, is_dir in paths if hidden(path, is_dir)}

    def _ask_ignored(self, paths: "Iterable[bytes]") -> "set[bytes]":
        askable = [path for path in paths if len(self._root) + len(path) < git.PATH_SIZE_MAX]
        return git.ignored(self._root, askable, self._deadline)


def _patterns_of(include: "Sequence[str]", own: "list[bytes]") -> "tuple[Patterns, ...]":
    """The patterns that include files, and those of `.locusignore`; none where there are no lines."""
    if not include and not own:
        return ()
    from eventlog.worktree.ignore import Patterns  # which most repositories do not need

    return Patterns(include), Patterns(own, hide=True)


def _stat_of(path: bytes) -> "tuple[bytes, int, int]":
    """(stat, newest time, device) of a file that may be a link to another; all ones when it is missing."""
    try:
        file_stat = os.stat(path)
    except OSError:
        return MISSING, 0, -1
    return pack_stat(file_stat), max(file_stat.st_mtime_ns, file_stat.st_ctime_ns), file_stat.st_dev
