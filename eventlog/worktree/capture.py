"""Capture of a working directory: the tree of its files, made from what changed since last time.

docs/capture.md describes what is captured, the stats that prove a content unchanged, and the racy rule. The
result is exact (P1): whatever is left out is an entry of kind `s` with its reason, or ignored. Nothing in the
working directory is written, no symlink is followed, no pipe or device is opened, and no lock is held except
the writer's (P4). With a deadline the capture ends in time and lists what it did not reach; the next one goes
on from there.

Any number of processes may capture one directory at once. On the hook path.
"""

import os

from blake3 import blake3

from eventlog.base.errors import Corruption, InvalidEvent, NotFound, Refused
from eventlog.base.fs import opened, translate_os_errors
from eventlog.base.paths import path_text
from eventlog.blobs.ids import blob_id, to_text, tree_id
from eventlog.blobs.tree import FILES, SKIPPED, encode_tree
from eventlog.secrets.redaction import IGNORED
from eventlog.worktree import git, rows, statcache
from eventlog.worktree.changes import CapturedChange, changes_between
from eventlog.worktree.contents import CONTENT_SIZE_MAX, ContentReader, Lists
from eventlog.worktree.entries import Entries, reason_texts
from eventlog.worktree.rows import StatCache, Unusable
from eventlog.worktree.rules import TreeRules
from eventlog.worktree.scan import RulesChanged, Scan
from eventlog.worktree.statcache import CacheKey
from eventlog.worktree.userfiles import UserFiles

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

    from eventlog.base.config import Config
    from eventlog.base.fs import FileSystem
    from eventlog.base.layout import Layout
    from eventlog.blobs.deferred import DeferredFile
    from eventlog.blobs.store import BlobStore
    from eventlog.blobs.writer import BlobWriter
    from eventlog.worktree.contents import Deferral
    from eventlog.worktree.tracked_contents import TrackedRows

FILE_SIZE_MAX = 100_000_000
SHOWN_MAX = 50  # paths that a snapshot lists of each kind
# Entries `s` that a capture with a deadline reads: half a second. More there are only after the first capture
# of a huge directory, until its contents are stored.
LEFT_OUT_MAX = 200_000

# Raised when the same directory would be captured differently than before.
_RULES_VERSION = 4


class Capture:
    """The result of a capture. Paths are relative to the working directory."""

    __slots__ = (
        "_lists",
        "_path",
        "_tables",
        "_tracked",
        "awaits_contents",
        "changes",
        "deferred",
        "dirs",
        "files",
        "has_changes",
        "ignored_count",
        "is_unread",
        "kept_ignored",
        "modes_changed",
        "new_deferred",
        "partial",
        "pending",
        "pending_count",
        "read_bytes",
        "read_files",
        "root",
        "root_mode",
        "rules_left",
        "save",
        "scoped",
        "skipped",
        "submodules",
        "symlinks",
        "warning",
    )

    def __init__(self, tables: StatCache, scan: Scan, path: bytes, lists: Lists) -> None:
        self.root = tables.root
        self._tables = tables
        self._lists = lists
        self._path = path
        self._tracked: "TrackedRows | None" = None
        totals = tables.totals(tables.top)
        self.files = totals[rows.FILE_COUNT]
        self.symlinks = totals[rows.LINK_COUNT]
        self.dirs = totals[rows.DIR_COUNT] - 1
        self.submodules = totals[rows.SUBMODULE_COUNT]
        self.ignored_count = totals[rows.IGNORED_COUNT]  # names that were left out because git ignores them
        self.save: "Callable[[], None]" = lambda: None  # the stat cache, after all that it names
        self.scoped: "tuple[bytes, ...] | None" = None  # the paths that were compared, where not all were
        self.kept_ignored = _kept_in(tables)  # files that git ignores and that are kept all the same
        self.read_files = scan.entries.read_files
        self.read_bytes = scan.entries.read_bytes
        self.partial = bool(scan.pending_count) or scan.rules.warning is not None
        self.pending = tuple(scan.pending)  # some of the paths that were not reached in time
        self.pending_count = scan.pending_count
        self.is_unread = scan.pending_count > scan.uncompared_count  # more than rows was not reached
        # Since the previous tree they are all in `changes`, but for those of rows that were not compared.
        self.has_changes = scan.rules.warning is None and not self.is_unread
        self.rules_left = scan.rules_left  # there was no time to read what git tracks
        self.awaits_contents = scan.awaits_contents  # so many that nothing was compared
        self.warning = scan.rules.warning  # why git could not be asked
        self.skipped: "list[tuple[bytes, str]]" = []  # paths that exist and were not captured, and why
        self.changes: "list[CapturedChange]" = []  # since the previous tree, in order of paths
        self.modes_changed = False  # of directories that existed before: they are in no change
        self.root_mode: "int | None" = None  # of the directory itself, where it has not all of 0755
        self.deferred: "list[DeferredEntries]" = []  # files whose contents are to be stored later
        self.new_deferred: "list[DeferredFile]" = []  # those deferred by this capture and not held by git

    def close(self) -> None:
        """Give back the stat cache that it reads; nothing more can be asked then."""
        self._tables.close()

    def facts(self) -> "dict[str, object]":
        """The facts of a snapshot about the directory, apart from its tree; None where one does not apply."""
        return {
            "root_mode": None if self.root_mode is None else f"040{self.root_mode:03o}",
            "tracked_files": self.files,
            "ignored_count": self.ignored_count,
            "skipped": [[path_text(path), reason] for path, reason in self.skipped[:SHOWN_MAX]] or None,
            "skipped_count": len(self.skipped) or None,
        }

    def count_changed(self, blobs: "BlobStore", tree: bytes) -> "int | None":
        """How many paths differ from an earlier tree; None where that cannot be read."""
        if tree == self.root:
            return 0
        try:
            changes, _ = changes_between(blobs, tree, None, self._tables)
            return sum(not self._lists.is_same(change, self._tables) for change in changes)
        except (NotFound, Corruption):
            return None

    def deferred_facts(self) -> "dict[str, object]":
        """The facts of a snapshot about the contents that the tree lacks; empty where it lacks none."""
        if not self.deferred:
            return {}
        waiting = [path for entries in self.deferred if not entries.in_git for path in entries.paths]
        return {
            "deferred": len(waiting),
            "in_git": sum(len(entries.paths) for entries in self.deferred if entries.in_git),
            "lists": self.lists(),
            "deferred_paths": [path_text(path) for path in waiting[:SHOWN_MAX]],
        }

    def lists(self) -> "list[str]":
        """The lists that explain entries of the tree, for `blobs` of the event that names it."""
        return [to_text(entries.list_id) for entries in self.deferred]

    def kept_contents(self) -> "dict[bytes, bytes]":
        """Path → id of the content of each kept ignored file that has one."""
        return {
            path: directory.id(row)
            for path, directory, row in self._tables.special(rows.KEPT_COUNT)
            if directory.kind(row) in FILES
        }

    def withhold_ignored(self, writer: "BlobWriter", id: bytes, size: int) -> None:
        """Withhold a content of an ignored file, unless a tracked file has the same, or it is empty."""
        from eventlog.worktree.tracked_contents import TrackedRows

        if self._tracked is None:
            self._tracked = TrackedRows(self._tables, self._path)
        if not self._tracked.has(id, size):
            writer.withhold(id, IGNORED)


class DeferredEntries:
    """The entries of a tree that one list explains. `in_git`: the list is of contents that git holds."""

    __slots__ = ("in_git", "list_id", "paths", "sentence")

    def __init__(self, sentence: bytes, list_id: bytes, in_git: bool) -> None:
        self.sentence = sentence  # the id of the entries
        self.list_id = list_id
        self.in_git = in_git
        self.paths: "list[bytes]" = []


class CaptureSelection:
    """Which files of a directory its tree holds with their contents.

    Args:
        include: patterns, in the syntax of gitignore, of ignored files to capture all the same.
        keep_ignored: capture ignored files that nothing could rebuild (`kept_ignored.py`). Their contents
            are withheld: `BlobStore.withheld_events` says so.
        size_max: larger files are skipped.
    """

    __slots__ = ("include", "keep_ignored", "size_max")

    def __init__(
        self, include: "Sequence[str]" = (), *, keep_ignored: bool = False, size_max: int = FILE_SIZE_MAX
    ) -> None:
        self.include = include
        self.keep_ignored = keep_ignored
        self.size_max = size_max


def selection_of(settings: "Config", *, keep_ignored: bool) -> CaptureSelection:
    """What a store captures, by its settings."""
    size_max = FILE_SIZE_MAX if settings.max_file_bytes is None else settings.max_file_bytes
    return CaptureSelection(settings.include, keep_ignored=keep_ignored, size_max=size_max)


class Haste:
    """What a capture leaves undone, or does at once, to end in time.

    Args:
        deadline: monotonic time after which no more files are read.
        deferral: for a caller that waits for no content: what does not fit is stored later.
        may_fork: children of this process may stat a part of a large directory. For processes of one
            thread that do not outlive the capture by much, and have no handler of their own for SIGCHLD.
    """

    __slots__ = ("deadline", "deferral", "may_fork")

    def __init__(
        self, deadline: "float | None" = None, *, deferral: "Deferral | None" = None, may_fork: bool = False
    ) -> None:
        self.deadline = deadline
        self.deferral = deferral
        self.may_fork = may_fork


class CaptureScope:
    """Paths to compare, with the directories on the way to them; the rest is as it was at the last capture.

    `watched`: they are all that a watcher saw change: what it does not see is compared, too.
    """

    __slots__ = ("paths", "watched")

    def __init__(self, paths: "Collection[bytes]", *, watched: bool = False) -> None:
        self.paths = paths
        self.watched = watched


_ALL_BUT_IGNORED, _UNHURRIED = CaptureSelection(), Haste()


def capture(
    writer: "BlobWriter",
    root: str,
    *,
    previous: "bytes | None" = None,
    selection: CaptureSelection = _ALL_BUT_IGNORED,
    haste: Haste = _UNHURRIED,
    scope: "CaptureScope | None" = None,
    calls: "UserFiles | None" = None,
    saves: bool = True,
) -> Capture:
    """Capture the working directory `root`; its tree and all that is new in it are durable on return.

    Everything that was put with `writer` goes into the same pack. The caller appends the event that
    refers to the tree, and closes the writer after that.

    Args:
        previous: id of the tree to list the changes since; without it none are listed.
        scope: for a caller whose `previous` is the tree of the last capture; else everything is compared, as
            it is where these paths change the rules of what is captured. `Capture.scoped` says which it was.
        saves: save the stat cache; else `Capture.save` does.
    Raises: NotFound, Refused when `root` is no directory, or one that is never captured; NotDurable.
    """
    path = os.fsencode(os.path.realpath(root))
    blobs, deferral = writer.store, haste.deferral
    fs, layout = blobs.fs, blobs.layout
    repository = _repository_of(layout, path, root)
    key = CacheKey(blobs.store_id, blake3(path).digest(16), _options(repository, selection), path)
    with translate_os_errors(layout.gc_generation, "read how often contents were collected"):
        generation = statcache.read_generation(fs, layout)
    probe = probe_of(fs, layout, path)
    loaded = statcache.load_any(fs, layout, key.store_id, key.worktree)
    cache = other_tables = None
    if loaded is not None and loaded[1] == key.options:
        cache = loaded[0]
    elif loaded is not None and deferral is not None:
        other_tables = loaded[0]  # of other options: a deferring caller reuses what it proves
    entries = Entries(path, calls or UserFiles(), writer, probe, selection.size_max, modes=blobs.modes)
    if deferral is not None:
        entries.content_max = CONTENT_SIZE_MAX
    never = _never(layout, repository)
    lists = Lists(blobs.get)

    can_scope = cache is not None and cache.root == previous and cache.basis.generation == generation

    def scan_with(known_rows: "StatCache | None", scope: "CaptureScope | None") -> Capture:
        deadline, keep_ignored = haste.deadline, selection.keep_ignored
        rules = TreeRules(path, repository, known_rows, probe, selection.include, deadline, keep_ignored)
        contents = (
            None if deferral is None else ContentReader(deferral, entries, lists, deadline, other_tables)
        )
        scan = Scan(
            known_rows,
            entries,
            rules,
            never=never,
            deadline=deadline,
            may_fork=haste.may_fork,
            contents=contents,
            lists=lists,
        )
        tables = _tables(scan, generation, scope)
        mode = os.stat(path).st_mode & 0o755
        writer.flush()
        if saves and tables is not known_rows:
            # After the flush: what the cache names is durable before the cache exists.
            statcache.save(fs, layout, key, tables)
        result = Capture(tables, scan, path, lists)
        result.save = lambda: statcache.save(fs, layout, key, tables)
        result.root_mode = mode if blobs.modes and mode != 0o755 else None
        result.scoped = None if scope is None else tuple(sorted(scope.paths))
        if not scan.awaits_contents:
            _left_out(result, blobs, tables, lists, selection.size_max)
        if contents is not None:
            result.new_deferred = contents.new
        if previous is not None and previous != tables.root:
            changes, result.modes_changed = changes_between(blobs, previous, known_rows, tables)
            result.changes = [change for change in changes if not lists.is_same(change, tables)]
        if keep_ignored:
            _withhold_kept(result, writer, tables, None if previous is None else result.changes)
        return result

    try:
        try:
            return scan_with(cache, scope if can_scope else None)
        except ScopeLeft:
            return scan_with(cache, None)
        except (InvalidEvent, KeyError, Unusable):
            if cache is None:
                raise
            # A part of it is damaged, or its tables contradict each other.
            return scan_with(None, None)
    except BaseException:
        if loaded is not None:
            loaded[0].close()
        raise
    finally:
        entries.close()


def git_facts(root: bytes, deadline: "float | None" = None) -> "dict[str, object]":
    """The facts of `git.status` in a snapshot at a turn's start or end; {} where git cannot tell."""
    try:
        dirty, staged = git.status(root, deadline)
    except git.GitFailed:
        return {}
    facts: "dict[str, object]" = {}
    for name, paths in (("git_dirty", dirty), ("git_staged", staged)):
        facts[name] = [path_text(path) for path in paths[:SHOWN_MAX]]
        if len(paths) > SHOWN_MAX:
            facts[f"{name}_count"] = len(paths)
    return facts


def _kept_in(tables: StatCache) -> "frozenset[bytes]":
    return frozenset(path for path, _, _ in tables.special(rows.KEPT_COUNT))


def _withhold_kept(
    captured: Capture, writer: "BlobWriter", tables: StatCache, changes: "list[CapturedChange] | None"
) -> None:
    """Withhold the contents of the files that git ignores and that are kept all the same.

    Args: changes: since a tree that an event names; None where there is none, and all of them are new.
    """
    changed = None if changes is None else {change.path for change in changes}
    for path, directory, row in tables.special(rows.KEPT_COUNT):
        if directory.kind(row) != SKIPPED and (changed is None or path in changed):
            captured.withhold_ignored(writer, directory.id(row), directory.size(row))


def _never(layout: "Layout", repository: "git.RepositoryPaths | None") -> "set[tuple[int, int]]":
    """(device, inode) of directories that are never captured, whatever their names are."""
    paths = [os.fsencode(layout.root)]
    if repository is not None:
        paths += [repository.git_dir, repository.common_dir]
    stats = (os.stat(path) for path in paths)
    return {(file_stat.st_dev, file_stat.st_ino) for file_stat in stats}


def _repository_of(layout: "Layout", path: bytes, root: str) -> "git.RepositoryPaths | None":
    """The repository around `path`. Raises: NotFound, Refused when it may not be captured."""
    if not os.path.isdir(path):
        raise NotFound(f"{root} is not a directory; name the working directory to capture")
    store = os.fsencode(os.path.realpath(layout.root))
    if path == store or path.startswith(store + b"/"):
        raise Refused(f"{root} is inside the store {layout.root}; a store is never captured")
    if path == b"/":
        raise Refused("the root of the file system is never captured; name a working directory")
    repository = git.find(path)
    if repository is None and git.is_git_dir(path):
        raise Refused(f"{root} is a bare repository: it has no working directory to capture")
    return repository


def _options(repository: "git.RepositoryPaths | None", selection: CaptureSelection) -> bytes:
    facts = [b"%d" % _RULES_VERSION, b"%d" % selection.size_max]
    facts += [] if repository is None else [repository.top, repository.git_dir, repository.common_dir]
    facts += [b"", *(pattern.encode("utf-8", "surrogateescape") for pattern in selection.include)]
    facts += [b"", b"keep ignored"] if selection.keep_ignored else []
    return blake3(b"\0".join(facts)).digest(16)


def probe_of(fs: "FileSystem", layout: "Layout", path: bytes) -> "tuple[int, int]":
    """(now, device) by the clock of the file system of `path`, read from a file written, or made, for this.

    Now is 0, older than anything, where that is impossible. An existing file is written to, since creating
    and removing one makes later ones slow: ext4 searches for an inode that was not used lately.
    """
    device = os.stat(path).st_dev
    try:
        with opened(fs, layout.capture_clock, os.O_WRONLY | os.O_CREAT) as fd:
            fs.pwrite(fd, b"\0", 0)
            file_stat = fs.fstat(fd)
        if file_stat.st_dev == device:
            return file_stat.st_mtime_ns, device
    except OSError:
        pass  # we may not write there
    anonymous = getattr(os, "O_TMPFILE", 0)
    tmp = layout.directory("tmp")
    try:
        on_same_device = fs.stat(tmp).st_dev == device
    except OSError:
        on_same_device = False  # whatever needs it reports the error
    attempts = [(tmp, anonymous)] * on_same_device + [(os.fsdecode(path), anonymous)] if anonymous else []
    if on_same_device:
        attempts.append((layout.tmp(f"probe-{fs.random_bytes(8).hex()}"), os.O_CREAT | os.O_EXCL))
    for target, flags in attempts:
        try:
            fd = fs.open(target, os.O_WRONLY | flags)
        except OSError:
            continue  # this file system makes no files without a name, or we may not write there
        try:
            file_stat = fs.fstat(fd)
        finally:
            fs.close(fd)
            if flags & os.O_EXCL:
                fs.unlink(target)
        if file_stat.st_dev == device:
            return file_stat.st_mtime_ns, device
    return 0, device


class ScopeLeft(Exception):
    """What was to be compared decides about more than itself."""


def _tables(scan: Scan, generation: int, scope: "CaptureScope | None") -> StatCache:
    """The tables of the directory as it is now; the cache itself when nothing has changed."""
    cache = scan.cache
    if cache is not None and scan.is_hurried and _awaits_contents(cache):
        scan.leave_all()
        return cache
    full, trusts_ids = cache is None, True
    if cache is not None:
        trusts_ids = cache.basis.generation == generation
        if scope is not None and scope.watched and not scan.rules.stat_watched():
            raise ScopeLeft
        same = scan.nothing_changed() if scope is None else scan.examine(scope.paths, watched=scope.watched)
        if same and trusts_ids:
            return cache if scan.next_row == cache.next_row else cache.resumed(scan.next_row)
        full = scope is None and (not trusts_ids or scan.rules_differ())
    try:
        top = scan.run(full=full, trusts_ids=trusts_ids)
    except RulesChanged:
        if scope is not None:
            raise ScopeLeft from None
        top = scan.run(full=True, trusts_ids=trusts_ids)
    for directory in reversed(scan.loaded(top)):
        encoding = encode_tree([(name, *row[:3]) for name, row in directory.rows.items()])
        id = tree_id(encoding)
        if id != directory.id or directory.stored is None or not trusts_ids:
            scan.entries.writer.put_encoded_tree(encoding)
        directory.set_id(id)
    return scan.tables(top, generation)


def _awaits_contents(tables: StatCache) -> bool:
    """Whether the contents of a huge first capture wait to be stored; a capture reads its entries `s`."""
    return tables.totals(tables.top)[rows.SKIPPED_COUNT] > LEFT_OUT_MAX


def _left_out(captured: Capture, blobs: "BlobStore", tables: StatCache, lists: Lists, size_max: int) -> None:
    """Note every path without its content: skipped, with its reason, or to be stored later."""
    if not tables.totals(tables.top)[rows.SKIPPED_COUNT]:
        return
    reasons = {blob_id(text.encode()): text for text in reason_texts(size_max)}
    deferred: "dict[bytes, DeferredEntries]" = {}
    for path, directory, row in tables.special(rows.SKIPPED_COUNT):
        id = directory.id(row)
        if id not in reasons and id not in deferred:
            text = blobs.get(id)
            list_id = lists.named_by(id)
            if list_id is None:
                reasons[id] = text.decode("utf-8", "replace")
            else:
                deferred[id] = DeferredEntries(id, list_id, lists.is_in_git(list_id))
        if id in reasons:
            captured.skipped.append((path, reasons[id]))
        else:
            deferred[id].paths.append(path)
    captured.deferred = list(deferred.values())
    captured.files += sum(len(entries.paths) for entries in captured.deferred)
