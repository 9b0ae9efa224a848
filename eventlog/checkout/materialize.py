"""A tree written out as files: byte for byte, inside one directory, nowhere else (I27, I28, P1).

The target is missing or empty, unless `force` is given; then files are replaced one by one through a
temporary sibling, and what the tree does not name stays. The walk goes down by directory descriptors
that never follow a symlink. Files are created exclusively, and every content is re-hashed before it gets a
name. Symlinks come last, so that nothing is ever written through one. Modes are 0644, 0755 and 0755
for directories whatever the umask, and those of the tree where that keeps narrower ones: two replays of one
turn are then equal, whichever user runs them (I27).

What cannot be written is listed in the report and the rest is written all the same. A kill leaves
a part of the files, inside the target.

Plan, then execute: the whole tree is read and added up, and every wanted path found, before the first name
is made; what has no room is refused.
Files are written in the order in which packs hold them, by two processes when there are enough of them.
One thread may call this; others may use other `BlobStore` objects meanwhile.
"""

import errno
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from eventlog.base.errors import EventLogError, NotFound, Refused
from eventlog.base.paths import path_text
from eventlog.blobs.disk_space import refuse_without_room
from eventlog.blobs.extent import (
    ALL,
    DEPTH_MAX,
    ENTRIES_MAX,
    Entries,
    Walk,
    Wish,
    allowed_extent,
    read_directories,
    too_deep,
    wanted_of,
    wish_of,
)
from eventlog.blobs.store import BlobStore
from eventlog.blobs.tree import (
    DIRECTORY,
    MODE_OF_KIND,
    SKIPPED,
    SUBMODULE,
    SYMLINK,
    TreeEntry,
    is_store_name,
    mode_of_directory,
    unsafe_path,
)
from eventlog.checkout.directory import (
    COLLISION,
    DIRECTORY_MODE,
    PRIVATE_MODE,
    OpenDirectory,
    joined,
    reason_of,
)
from eventlog.checkout.parallel import FileJob, Listed, write_files
from eventlog.worktree.userfiles import UserFiles

# The entries of a tree by its id.
Read = Callable[[bytes], Entries]
# (entries, path of their directory) → the entries to be written
Resolve = Callable[[Sequence[TreeEntry], bytes], Sequence[TreeEntry]]


@dataclass(frozen=True, slots=True)
class TreeSource:
    """Where the entries of a tree come from, where they are not those in packs.

    `read` gives the entries of a tree by its id, `resolve` those to write for the ones of the directory at a
    path. `root_mode` is that of the root, if it is made and is not to have the usual one.
    """

    read: Read | None = None
    resolve: Resolve | None = None
    root_mode: int | None = None


_PACKS = TreeSource()


@dataclass(frozen=True, slots=True)
class Report:
    """What was written, and what was not.

    `missing` should be there and is not; `skipped` was never captured; `submodules` become empty
    directories. Each is a list of (path, reason or commit).
    """

    files: int
    bytes: int
    symlinks: int
    dirs: int
    missing: Listed
    skipped: Listed
    submodules: Listed

    @property
    def partial(self) -> bool:
        """Whether something that the tree holds could not be written."""
        return bool(self.missing)


def materialize(
    blobs: BlobStore,
    root: bytes,
    target: str,
    *,
    force: bool = False,
    paths: Sequence[bytes] = (),
    source: TreeSource = _PACKS,
    calls: UserFiles | None = None,
    workers: int | None = None,
) -> Report:
    """Write a tree into the directory `target`.

    Args:
        root: id of a tree.
        force: the target may hold files; those of the tree's names are replaced, all others stay.
        paths: write only these files and directories of the tree, by their path in it.
        workers: how many processes write at once; None lets the amount of work decide.
    Raises: NotFound when a path is not in the tree, or the tree itself is not in the store;
        Refused when the target holds something, is not a directory, or is inside the store, and when the tree
        is too large for it.
    """
    _check_target(blobs, target)
    plan = _plan(blobs, root, target, wish_of(paths), source, force=force)
    with _opened(calls or UserFiles(), target, force, source.root_mode, plan) as directory:
        made, unmade = _make_directories(directory, plan, force)
        written = write_files(blobs, directory, plan.files, workers, over=force)
        unlinked = _write_symlinks(blobs, directory, plan, force)
        unset = _set_modes(directory, plan)
    return Report(
        files=written.files,
        bytes=written.bytes,
        symlinks=len(plan.symlinks) - len(unlinked),
        dirs=made,
        missing=sorted(plan.missing + unmade + written.missing + unlinked + unset),
        skipped=[(path, sentence(blobs, id)) for path, id in plan.skipped],
        submodules=[(path, sentence(blobs, id)) for path, id in plan.submodules],
    )


def walk(blobs: BlobStore, root: bytes, read: Read | None = None) -> Iterator[tuple[bytes, TreeEntry]]:
    """Every path of a tree with its entry, a directory before what is in it, in order of names.

    Raises: NotFound, Corruption when a tree cannot be read; Refused when it is too deep or too large, after
    some of it.
    """
    get = read or blobs.get_tree
    undone = "they are not listed"
    walked = Walk(blobs, [(get, root)], undone)
    stack = [(b"", iter(get(root)))]
    while stack:
        prefix, entries = stack[-1]
        entry = next(entries, None)
        if entry is None:
            stack.pop()
            continue
        path = prefix + entry.name
        yield path, entry
        if entry.kind == DIRECTORY:
            if len(stack) >= DEPTH_MAX:
                raise too_deep(undone)
            below = get(entry.id)
            walked.met(len(below) + 1)
            stack.append((path + b"/", iter(below)))


@dataclass(slots=True)
class _Plan:
    """What is to be made: directories by path, parents first; files and links by directory and name."""

    dirs: list[bytes] = field(default_factory=list)
    files: list[FileJob] = field(default_factory=list)
    symlinks: list[tuple[bytes, bytes, bytes]] = field(default_factory=list)
    skipped: list[tuple[bytes, bytes]] = field(default_factory=list)
    submodules: list[tuple[bytes, bytes]] = field(default_factory=list)
    missing: Listed = field(default_factory=list)
    modes: dict[bytes, int] = field(default_factory=dict)  # of directories that have not the usual one
    claims: dict[bytes, int] = field(default_factory=dict)  # size of each content, as the tree has it


# What has these kinds is no file with a content of its own.
_NO_FILES = frozenset((DIRECTORY, SYMLINK, SUBMODULE, SKIPPED))


def _plan(
    blobs: BlobStore,
    root: bytes,
    target: str,
    wish: Wish | None,
    source: TreeSource,
    *,
    force: bool,
) -> _Plan:
    """Read the tree, add up what it is, and only then list what is to be made.

    Raises: NotFound, Refused.
    """
    read, resolve = source.read or blobs.get_tree, source.resolve or _as_they_are
    top = read(root)  # without it there is nothing to write: that is an error, not a partial result
    directories = read_directories(blobs, read, top, wish, ENTRIES_MAX)
    lists = [top, *(entries for entries in directories.values() if not isinstance(entries, str))]
    locations = blobs.locations(
        {id for entries in lists for _, kind, id, _ in entries if kind not in _NO_FILES}
    )
    lengths = {id: location[4] for id, location in locations.items()}
    extent = allowed_extent(top, wish, directories, lengths)
    refuse_without_room(extent.bytes, target, replaces=force)
    plan = _Plan()
    level: list[tuple[bytes, bytes, Wish | None]] = []
    _plan_directory(plan, level, b"", resolve(top, b""), wish)
    while level:
        below: list[tuple[bytes, bytes, Wish | None]] = []
        for folder, id, part in level:
            entries = directories[id]
            if isinstance(entries, str):
                plan.missing.append((folder, entries))
                continue
            _plan_directory(plan, below, folder, resolve(entries, folder), part)
        level = below
    # Contents that are elsewhere, and not in a pack, are known only now.
    needed = sum(lengths.get(job[0], plan.claims.get(job[0], 0)) for job in plan.files)
    refuse_without_room(needed, target, replaces=force)
    return plan


def _as_they_are(entries: Sequence[TreeEntry], _folder: bytes) -> Sequence[TreeEntry]:
    return entries


def _first_path(name: bytes, wish: Wish | None) -> bytes:
    """A path that was asked for below `name`, as it was asked for."""
    while wish and ALL not in wish:
        below, wish = next(iter(wish.items()))
        name += b"/" + below
    return name


def _plan_directory(
    plan: _Plan,
    level: list[tuple[bytes, bytes, Wish | None]],
    folder: bytes,
    entries: Sequence[TreeEntry],
    wish: Wish | None,
) -> None:
    prefix = folder + b"/" if folder else b""
    if wish:
        names = {entry[0] for entry in entries}
        for name in wish:
            if name not in names and name != ALL:
                wanted = path_text(prefix + _first_path(name, wish[name]))
                raise NotFound(f"{wanted} is not in this tree; nothing was written")
    files = plan.files
    may_be_store = not prefix or is_store_name(folder.rpartition(b"/")[2])
    for (name, kind, id, size), below in wanted_of(entries, wish):
        path = prefix + name
        if may_be_store and kind != SKIPPED and (problem := unsafe_path(path)) is not None:
            plan.missing.append((path, f"it is not written: it {problem}"))
            continue
        if kind == DIRECTORY:
            plan.dirs.append(path)
            if size:
                plan.modes[path] = mode_of_directory(size)
            level.append((path, id, below))
            continue
        if below and below.keys() != {ALL}:
            raise NotFound(
                f"{path_text(path)} is no directory in this tree, so nothing is below it; nothing was written"
            )
        if kind == SYMLINK:
            plan.symlinks.append((folder, name, id))
        elif kind == SUBMODULE:
            plan.dirs.append(path)
            plan.submodules.append((path, id))
        elif kind == SKIPPED:
            plan.skipped.append((path, id))
        else:
            files.append((id, folder, name, MODE_OF_KIND[kind]))
            plan.claims[id] = size


def _check_target(blobs: BlobStore, target: str) -> None:
    store = os.path.realpath(blobs.layout.root)
    if os.path.commonpath((store, os.path.realpath(target))) == store:
        raise Refused(f"{target} is inside the store {blobs.layout.root}; name a directory elsewhere")


def _opened(calls: UserFiles, target: str, force: bool, root_mode: int | None, plan: _Plan) -> OpenDirectory:
    """The target, made where it is missing, and then with `root_mode` at the end."""
    try:
        try:
            fd = calls.open_root(target)
        except FileNotFoundError:
            mode = DIRECTORY_MODE if root_mode is None else PRIVATE_MODE
            os.makedirs(target, mode)
            fd = calls.open_root(target)
            calls.fchmod(fd, mode)
            if root_mode is not None:
                plan.modes[b""] = root_mode
            return OpenDirectory(target, fd, calls)
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.ENOTDIR, errno.EEXIST):
            raise Refused(
                f"{target} is a symlink, or not a directory; name a directory, or one that does not exist yet"
            ) from error
        raise EventLogError(f"{target} cannot be made or opened: {error.strerror}") from error
    if not force and calls.listdir(fd):
        calls.close(fd)
        raise Refused(f"{target} is not empty; name an empty directory, or use --force to write over it")
    return OpenDirectory(target, fd, calls)


def _make_directories(directory: OpenDirectory, plan: _Plan, force: bool) -> tuple[int, Listed]:
    """How many are there now, and the (path, reason) of those that cannot be made."""
    failed: Listed = []
    for path in plan.dirs:
        folder, _, name = path.rpartition(b"/")
        mode = PRIVATE_MODE if path in plan.modes else DIRECTORY_MODE
        try:
            directory.make_dir(folder, name, mode, over=force)
        except FileExistsError:
            plan.modes.pop(path, None)
            if not force:  # else it was there, and keeps its mode
                failed.append((path, COLLISION))
        except OSError as error:
            plan.modes.pop(path, None)
            failed.append((path, f"the directory cannot be made: {reason_of(error)}"))
    return len(plan.dirs) - len(failed), failed


def _set_modes(directory: OpenDirectory, plan: _Plan) -> Listed:
    """Give new directories the modes they had, from below: one may forbid to enter it."""
    failed: Listed = []
    for path in reversed([b"", *plan.dirs]):
        if path in plan.modes:
            try:
                directory.calls.fchmod(directory.dir(path), plan.modes[path])
            except OSError as error:
                failed.append((path, f"its mode cannot be set: {reason_of(error)}"))
    return failed


def _write_symlinks(blobs: BlobStore, directory: OpenDirectory, plan: _Plan, force: bool) -> Listed:
    """Make the symlinks; the (path, reason) of those that cannot be made."""
    failed: Listed = []
    for folder, name, id in plan.symlinks:
        try:
            directory.write_symlink(folder, name, blobs.get(id), over=force)
        except EventLogError as error:
            failed.append((joined(folder, name), f"its target cannot be read: {error}"))
        except OSError as error:
            failed.append((joined(folder, name), f"it cannot be written: {reason_of(error)}"))
    return failed


def sentence(blobs: BlobStore, id: bytes) -> str:
    """The text kept for a skipped file (why) or a submodule (its commit)."""
    try:
        return blobs.get(id).decode("utf-8", "replace")
    except EventLogError:
        return "the reason cannot be read"
