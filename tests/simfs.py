"""A machine in memory that loses what was not synced: the test double of `eventlog.base.fs.FileSystem`.

What survives a power cut:
- a file's bytes as of its last fsync or fdatasync; every later write or truncation may survive, be
  lost, or (a write) be torn at any byte;
- a directory's names as of its last fsync_dir; every later link, unlink, rename, create or mkdir may
  survive or be lost, each on its own; a rename is one effect;
- nothing else: descriptors and flocks are gone, and the boot id is another.
A killed process loses only its descriptors (`kill`); all its written bytes stay.

A failing sync is reported once to every descriptor that was open when it failed, as Linux does; the
pages it could not write count as clean from then on: they can be read until the crash, no later
sync saves them, and the crash loses them.

A `SimFS` is one machine; several Journals on it are its processes. Time, randomness and the boot id
are functions of the seed, so that a run replays.
"""

import errno
import os
import stat as stat_bits
from collections.abc import Callable, Iterator
from functools import lru_cache

from blake3 import blake3

from eventlog.base.fs import FileSystem
from eventlog.base.layout import DIRECTORIES, Layout

SECTOR_SIZE = 512
SYNCS = ("fsync", "fdatasync")


class PowerCut(BaseException):
    """The machine stopped at the call named by `stop_at`; it answers every later call with this too."""


class Inode:
    """A file or directory: what processes see (`data`, `names`) and what the disk holds."""

    __slots__ = (
        "data",
        "durable_data",
        "durable_names",
        "error_count",
        "is_dir",
        "links",
        "locks",
        "mode",
        "names",
        "number",
    )

    def __init__(self, number: int, mode: int, is_dir: bool) -> None:
        self.number = number
        self.mode = mode
        self.is_dir = is_dir
        self.links = 0
        self.data = bytearray()
        self.durable_data = bytearray()
        self.names: dict[str, Inode] = {}
        self.durable_names: dict[str, Inode] = {}
        self.error_count = 0
        self.locks: dict[int, bool] = {}


class Effect:
    """Something done to the disk's contents that no sync has made durable yet."""

    __slots__ = ("data", "inode", "kind", "names", "offset")

    def __init__(
        self,
        kind: str,
        inode: Inode | None = None,
        offset: int = 0,
        data: bytes = b"",
        names: tuple[tuple[Inode, str, Inode | None], ...] = (),
    ) -> None:
        self.kind = kind  # "write", "size" or "names"
        self.inode = inode
        self.offset = offset
        self.data = data
        self.names = names

    def __repr__(self) -> str:
        if self.inode is not None:
            return f"{self.kind} inode {self.inode.number} at {self.offset} +{len(self.data)}"
        return "names " + ", ".join(f"{name}{'' if inode else ' removed'}" for _, name, inode in self.names)

    def apply(self, kept_size: int) -> None:
        """Do it to the durable state; of a write the first `kept_size` bytes."""
        if self.kind == "write":
            assert self.inode is not None
            _write(self.inode.durable_data, self.data[:kept_size], self.offset)
        elif self.kind == "size":
            assert self.inode is not None
            _resize(self.inode.durable_data, self.offset)
        for directory, name, inode in self.names:
            if inode is None:
                directory.durable_names.pop(name, None)
            else:
                directory.durable_names[name] = inode


# How much of the effect with this index among the pending ones survives: True, False, or the first
# so many bytes of a write.
Choice = Callable[[int, Effect], "bool | int"]


def keep_all(_index: int, _effect: Effect) -> bool:
    return True


def keep_none(_index: int, _effect: Effect) -> bool:
    return False


def keep_only(kept: int) -> Choice:
    return lambda index, _effect: index == kept


def keep_all_but(lost: int) -> Choice:
    return lambda index, _effect: index != lost


def tear(torn: int, size: int) -> Choice:
    """All effects survive, but of the write `torn` only its first `size` bytes."""
    return lambda index, _effect: size if index == torn else True


def crash_choices(pending: list[Effect]) -> Iterator[tuple[str, Choice]]:
    """The ways to lose that are always tried: all, none, each alone, all but each, the last write torn."""
    yield "keep none", keep_none
    if not pending:
        return
    yield "keep all", keep_all
    if len(pending) > 1:
        for index in range(len(pending)):
            yield f"keep only effect {index}", keep_only(index)
        for index in range(len(pending)):
            yield f"lose only effect {index}", keep_all_but(index)
    writes = [index for index, effect in enumerate(pending) if effect.kind == "write"]
    if writes:
        data = pending[writes[-1]].data
        size, used = len(data), len(bytes(data).rstrip(b"\0"))
        sizes = {1, used // 2, used - 1, used, size - 1, size // SECTOR_SIZE * SECTOR_SIZE}
        for kept in sorted(sizes - {-1, 0, size}):
            yield f"tear effect {writes[-1]} after {kept} bytes", tear(writes[-1], kept)


class Call:
    """One call about to be made: its index on this machine, the method's name, and its arguments."""

    __slots__ = ("args", "index", "name")

    def __init__(self, index: int, name: str, args: tuple[object, ...]) -> None:
        self.index = index
        self.name = name
        self.args = args

    def __repr__(self) -> str:
        return f"call {self.index}: {self.name}{self.args!r:.120}"


class Fault:
    """What goes wrong with a call: an errno, or for a pwrite the number of bytes it takes."""

    __slots__ = ("errno", "short")

    def __init__(self, errno: int = 0, short: int | None = None) -> None:
        self.errno = errno
        self.short = short


class _Open:
    """An open file description."""

    __slots__ = ("flags", "inode", "seen_errors")

    def __init__(self, inode: Inode, flags: int) -> None:
        self.inode = inode
        self.flags = flags
        self.seen_errors = inode.error_count


class SimFS(FileSystem):
    """See the module's docstring. Not thread-safe: interleave by doing things in `before`."""

    def __init__(self, seed: int = 0) -> None:
        self.seed = seed
        self.boot = 1
        self.call_count = 0
        self.change_count = 0  # grows with every change that an end of the machine could show
        self.stop_at: int | None = None
        # Called before each call; may do what another process does in between, or copy the machine.
        self.before: Callable[[Call], None] | None = None
        # Says what goes wrong with a call.
        self.fault: Callable[[Call], Fault | None] | None = None
        self.pending: list[Effect] = []
        self._inodes: list[Inode] = []  # all that ever were; number n is at n - 1
        self._random_count = 0
        self._now_ns = 1_750_000_000_000_000_000
        self._open: dict[int, _Open] = {}
        self._fd_count = 2
        self._stopped = False
        self._root = self._new_inode(0o700, is_dir=True)

    # -- copies and ends ---------------------------------------------------------------------------

    def crash(self, choice: Choice = keep_none) -> "SimFS":
        """The machine after a power cut and a boot; this one is left as it is."""
        copy = self.copy()
        for index, effect in enumerate(copy.pending):
            kept = choice(index, effect)
            if kept is True:
                effect.apply(len(effect.data))
            elif kept is not False:
                effect.apply(kept)
        copy.pending = []
        copy.boot += 1
        copy._forget_processes()
        copy._from_disk()
        return copy

    def kill(self) -> "SimFS":
        """The machine after SIGKILL of all its processes: descriptors and locks are gone, bytes stay."""
        copy = self.copy()
        copy._forget_processes()
        return copy

    def settle(self) -> None:
        """Make everything durable, as time would."""
        for effect in self.pending:
            effect.apply(len(effect.data))
        self.pending = []

    def tree(self) -> dict[str, bytes | None]:
        """What processes see: path → bytes of a file, None for a directory."""
        return dict(self._walk(self._root, ""))

    def state_key(self) -> bytes:
        """Equal for machines on which the future can only be the same."""
        seen: list[tuple[object, bytes]] = [
            ((path, data is None), data or b"") for path, data in sorted(self._walk(self._root, ""))
        ]
        durable = [((path, *rest), data) for path, (*rest, data) in self._walk_durable(self._root, "")]
        pending = [(repr(effect), effect.data) for effect in self.pending]
        state = [b"%d" % self.boot]
        for parts in (seen, sorted(durable), pending):
            for name, data in parts:
                state += (b"%a %d\n" % (name, len(data)), data)
            state.append(b"\n")
        return blake3(b"".join(state)).digest()

    def copy(self) -> "SimFS":
        """A second machine in the same state, sharing nothing with this one; without watchers and faults."""
        twins = [Inode(inode.number, inode.mode, inode.is_dir) for inode in self._inodes]
        for inode, twin in zip(self._inodes, twins, strict=True):
            twin.links = inode.links
            twin.error_count = inode.error_count
            if inode.is_dir:
                twin.names = {name: twins[below.number - 1] for name, below in inode.names.items()}
                twin.durable_names = {n: twins[below.number - 1] for n, below in inode.durable_names.items()}
            else:
                twin.data = inode.data[:]
                twin.durable_data = inode.durable_data[:]
                twin.locks = dict(inode.locks)
        copy = type(self)(self.seed)
        copy.boot = self.boot
        copy._inodes = twins
        copy._root = twins[0]
        copy._random_count = self._random_count
        copy._now_ns = self._now_ns
        copy._fd_count = self._fd_count
        for fd, described in self._open.items():
            opened = copy._open[fd] = _Open(twins[described.inode.number - 1], described.flags)
            opened.seen_errors = described.seen_errors
        for effect in self.pending:
            changed = None if effect.inode is None else twins[effect.inode.number - 1]
            names = tuple(
                (twins[directory.number - 1], name, None if below is None else twins[below.number - 1])
                for directory, name, below in effect.names
            )
            copy.pending.append(Effect(effect.kind, changed, effect.offset, effect.data, names))
        return copy

    # -- descriptors -------------------------------------------------------------------------------

    def open(self, path: str, flags: int, mode: int = 0o600) -> int:
        self._call("open", path, flags)
        inode = self._find(path)
        if inode is None:
            if not flags & os.O_CREAT:
                raise _error(errno.ENOENT, path)
            parent, name = self._parent(path)
            inode = self._new_inode(mode, is_dir=False)
            self._set_names(((parent, name, inode),))
        elif flags & os.O_CREAT and flags & os.O_EXCL:
            raise _error(errno.EEXIST, path)
        elif inode.is_dir and flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT):
            raise _error(errno.EISDIR, path)
        elif flags & os.O_DIRECTORY and not inode.is_dir:
            raise _error(errno.ENOTDIR, path)
        if flags & os.O_TRUNC and not inode.is_dir:
            self._resize(inode, 0)
        self._fd_count += 1
        self._open[self._fd_count] = _Open(inode, flags)
        return self._fd_count

    def close(self, fd: int) -> None:
        try:
            self._call("close", fd)
        finally:  # on Linux the descriptor is gone even when close reports an error
            if not self._stopped:
                self._described(fd).inode.locks.pop(fd, None)
                del self._open[fd]

    def pread(self, fd: int, size: int, offset: int) -> bytes:
        self._call("pread", fd, size, offset)
        described = self._described(fd)
        if described.flags & os.O_WRONLY:
            raise _error(errno.EBADF)
        if described.inode.is_dir:
            raise _error(errno.EISDIR)
        return bytes(described.inode.data[offset : offset + size])

    def pwrite(self, fd: int, data: bytes | memoryview, offset: int) -> int:
        fault = self._call("pwrite", fd, bytes(data), offset)
        described = self._described(fd)
        if not described.flags & (os.O_WRONLY | os.O_RDWR):
            raise _error(errno.EBADF)
        written = bytes(data) if fault is None else bytes(data)[: fault.short]
        if written:
            _write(described.inode.data, written, offset)
            self._add(Effect("write", described.inode, offset, written))
        return len(written)

    def truncate(self, fd: int, size: int) -> None:
        self._call("truncate", fd, size)
        described = self._described(fd)
        if not described.flags & (os.O_WRONLY | os.O_RDWR):
            raise _error(errno.EINVAL)
        self._resize(described.inode, size)

    def fsync(self, fd: int) -> None:
        self._sync("fsync", fd)

    def fdatasync(self, fd: int) -> None:
        self._sync("fdatasync", fd)

    def fstat(self, fd: int) -> os.stat_result:
        self._call("fstat", fd)
        return _stat(self._described(fd).inode)

    def fchmod(self, fd: int, mode: int) -> None:
        self._call("fchmod", fd, mode)
        self._described(fd).inode.mode = mode
        self.change_count += 1

    def clone(self, source: int, copy: int) -> None:
        self._call("clone", source, copy)
        raise _error(errno.EOPNOTSUPP)

    def copy_range(self, source: int, copy: int, size: int, offset: int) -> int:
        self._call("copy_range", source, copy, size, offset)
        data = bytes(self._described(source).inode.data[offset : offset + size])
        inode = self._described(copy).inode
        if data:
            _write(inode.data, data, offset)
            self._add(Effect("write", inode, offset, data))
        return len(data)

    # -- names -------------------------------------------------------------------------------------

    def stat(self, path: str) -> os.stat_result:
        self._call("stat", path)
        return _stat(self._existing(path))

    def lstat(self, path: str) -> os.stat_result:
        self._call("lstat", path)
        return _stat(self._existing(path))

    def exists(self, path: str) -> bool:
        self._call("exists", path)
        try:
            return self._find(path) is not None
        except OSError:
            return False

    def listdir(self, path: str) -> list[str]:
        self._call("listdir", path)
        return sorted(self._directory(path).names)

    def mkdir(self, path: str, mode: int = 0o700) -> None:
        self._call("mkdir", path, mode)
        parent, name = self._parent(path)
        if name in parent.names:
            raise _error(errno.EEXIST, path)
        self._set_names(((parent, name, self._new_inode(mode, is_dir=True)),))

    def rmdir(self, path: str) -> None:
        self._call("rmdir", path)
        parent, name = self._parent(path)
        if self._directory(path).names:
            raise _error(errno.ENOTEMPTY, path)
        self._set_names(((parent, name, None),))

    def link(self, source: str, target: str) -> None:
        self._call("link", source, target)
        inode = self._existing(source)
        parent, name = self._parent(target)
        if name in parent.names:
            raise _error(errno.EEXIST, source)
        if inode.is_dir:
            raise _error(errno.EPERM, source)
        self._set_names(((parent, name, inode),))

    def rename(self, source: str, target: str) -> None:
        self._call("rename", source, target)
        source_parent, source_name = self._parent(source)
        parent, name = self._parent(target)
        inode = self._existing(source)
        old = parent.names.get(name)
        if old is inode:
            return
        if inode.is_dir and f"{target}/".startswith(f"{source}/"):
            raise _error(errno.EINVAL, source)
        if old is not None and old.is_dir != inode.is_dir:
            raise _error(errno.EISDIR if old.is_dir else errno.ENOTDIR, source)
        if old is not None and old.names:
            raise _error(errno.ENOTEMPTY, source)
        self._set_names(((source_parent, source_name, None), (parent, name, inode)))

    def unlink(self, path: str) -> None:
        self._call("unlink", path)
        if self._existing(path).is_dir:
            raise _error(errno.EISDIR, path)
        parent, name = self._parent(path)
        self._set_names(((parent, name, None),))

    def fsync_dir(self, path: str) -> None:
        self._call("fsync_dir", path)
        directory = self._directory(path)
        self._make_durable(lambda effect: any(changed is directory for changed, _, _ in effect.names))

    # -- locks -------------------------------------------------------------------------------------

    def flock(self, fd: int, exclusive: bool) -> bool:
        self._call("flock", fd, exclusive)
        locks = self._described(fd).inode.locks
        if locks.get(fd) is exclusive:
            return True
        locks.pop(fd, None)  # Linux converts by giving up the old lock first
        if any(exclusive or held for held in locks.values()):
            return False
        locks[fd] = exclusive
        return True

    def funlock(self, fd: int) -> None:
        self._call("funlock", fd)
        self._described(fd).inode.locks.pop(fd, None)

    # -- time, randomness, boot ----------------------------------------------------------------------

    def time_ns(self) -> int:
        self._now_ns += 1000
        return self._now_ns

    def monotonic(self) -> float:
        return self.time_ns() / 1e9

    def sleep(self, seconds: float) -> None:
        self._now_ns += int(seconds * 1e9)

    def random_bytes(self, size: int) -> bytes:
        self._random_count += 1
        return blake3(b"%d:%d" % (self.seed, self._random_count)).digest(size)

    def boot_id(self) -> bytes:
        return b"boot %d" % self.boot

    # -- inside ----------------------------------------------------------------------------------------

    def _call(self, name: str, *args: object) -> Fault | None:
        """Count a call, let it be watched, stop the machine at it, or make it fail."""
        if self._stopped:
            raise PowerCut
        self.call_count += 1
        if self.stop_at is None and self.before is None and self.fault is None:
            return None
        call = Call(self.call_count - 1, name, args)
        if self.stop_at == call.index:
            self._stopped = True
            raise PowerCut
        if self.before is not None:
            watch, self.before = self.before, None  # what it does itself is not watched
            try:
                watch(call)
            finally:
                self.before = watch
        fault = self.fault(call) if self.fault is not None else None
        if fault is None or fault.short is not None:
            return fault
        if name in SYNCS:
            fd = args[0]
            assert isinstance(fd, int)
            self._lose_pages(self._described(fd))
        path = args[0] if isinstance(args[0], str) else None
        raise _error(fault.errno, path)

    def _lose_pages(self, described: _Open) -> None:
        described.inode.error_count += 1
        described.seen_errors = described.inode.error_count
        self.pending = [effect for effect in self.pending if effect.inode is not described.inode]
        self.change_count += 1

    def _sync(self, name: str, fd: int) -> None:
        self._call(name, fd)
        described = self._described(fd)
        if described.seen_errors != described.inode.error_count:
            described.seen_errors = described.inode.error_count
            raise _error(errno.EIO)
        self._make_durable(lambda effect: effect.inode is described.inode)

    def _make_durable(self, chosen: Callable[[Effect], bool]) -> None:
        done = [effect for effect in self.pending if chosen(effect)]
        for effect in done:
            effect.apply(len(effect.data))
        if done:
            self.pending = [effect for effect in self.pending if not chosen(effect)]
            self.change_count += 1

    def _add(self, effect: Effect) -> None:
        self.pending.append(effect)
        self.change_count += 1

    def _resize(self, inode: Inode, size: int) -> None:
        if size != len(inode.data):
            _resize(inode.data, size)
            self._add(Effect("size", inode, size))

    def _set_names(self, changes: tuple[tuple[Inode, str, Inode | None], ...]) -> None:
        for directory, name, inode in changes:
            old = directory.names.pop(name, None)
            if old is not None:
                old.links -= 1
            if inode is not None:
                directory.names[name] = inode
                inode.links += 1
        self._add(Effect("names", names=changes))

    def _new_inode(self, mode: int, is_dir: bool) -> Inode:
        inode = Inode(len(self._inodes) + 1, mode, is_dir)
        self._inodes.append(inode)
        return inode

    def _described(self, fd: int) -> _Open:
        if fd not in self._open:
            raise _error(errno.EBADF)
        return self._open[fd]

    def _find(self, path: str) -> Inode | None:
        inode: Inode | None = self._root
        parts = _parts(path)
        for index, part in enumerate(parts):
            if inode is None:
                raise _error(errno.ENOENT, path)
            if not inode.is_dir:
                raise _error(errno.ENOTDIR, path)
            inode = inode.names.get(part)
            if inode is None and index < len(parts) - 1:
                raise _error(errno.ENOENT, path)
        return inode

    def _existing(self, path: str) -> Inode:
        inode = self._find(path)
        if inode is None:
            raise _error(errno.ENOENT, path)
        return inode

    def _directory(self, path: str) -> Inode:
        inode = self._existing(path)
        if not inode.is_dir:
            raise _error(errno.ENOTDIR, path)
        return inode

    def _parent(self, path: str) -> tuple[Inode, str]:
        head, _, name = path.rstrip("/").rpartition("/")
        return self._directory(head or "/"), name

    def _walk(self, inode: Inode, path: str) -> list[tuple[str, bytes | None]]:
        found: list[tuple[str, bytes | None]] = []
        for name, below in inode.names.items():
            found.append((f"{path}/{name}", None if below.is_dir else bytes(below.data)))
            if below.names:
                found += self._walk(below, f"{path}/{name}")
        return found

    def _walk_durable(self, inode: Inode, path: str) -> list[tuple[str, tuple[int, int, bytes]]]:
        found: list[tuple[str, tuple[int, int, bytes]]] = []
        for name, below in inode.durable_names.items():
            found.append((f"{path}/{name}", (below.number, below.mode, bytes(below.durable_data))))
            if below.durable_names:
                found += self._walk_durable(below, f"{path}/{name}")
        return found

    def _forget_processes(self) -> None:
        self._open = {}
        for inode in self._inodes:
            inode.locks = {}

    def _from_disk(self) -> None:
        """Let processes see what the disk holds."""
        for inode in self._inodes:
            inode.data = inode.durable_data[:]
            inode.names = dict(inode.durable_names)
            inode.links = 0
            inode.error_count = 0
        for inode in self._inodes:
            for below in inode.names.values():
                below.links += 1


def sim_store(fs: SimFS | None = None) -> tuple[SimFS, Layout]:
    """A machine with an empty store on it whose directories are durable."""
    fs = fs or SimFS()
    layout = Layout("/.locus")
    fs.mkdir(layout.root)
    for name in DIRECTORIES:
        fs.mkdir(layout.directory(name))
    fs.settle()
    fs.call_count = 0
    return fs, layout


def fail_nth(n: int, error: int, *, name: str | None = None) -> Callable[[Call], Fault | None]:
    """The n-th call (of that name, counted from 0) fails once with `error`."""
    return _counted(n, name, Fault(error), persistent=False)


def fail_from(n: int, error: int, *, name: str | None = None) -> Callable[[Call], Fault | None]:
    """The n-th call (of that name) and all after it fail with `error`."""
    return _counted(n, name, Fault(error), persistent=True)


def short_write(n: int, size: int) -> Callable[[Call], Fault | None]:
    """The n-th pwrite takes only `size` bytes."""
    return _counted(n, "pwrite", Fault(short=size), persistent=False)


def _counted(n: int, name: str | None, fault: Fault, *, persistent: bool) -> Callable[[Call], Fault | None]:
    seen = -1

    def decide(call: Call) -> Fault | None:
        nonlocal seen
        if name is not None and call.name != name:
            return None
        seen += 1
        return fault if seen == n or (persistent and seen > n) else None

    return decide


@lru_cache(maxsize=4096)
def _parts(path: str) -> tuple[str, ...]:
    return tuple(part for part in path.split("/") if part)


def _write(data: bytearray, new: bytes, offset: int) -> None:
    if len(data) < offset:
        data.extend(bytes(offset - len(data)))
    data[offset : offset + len(new)] = new


def _resize(data: bytearray, size: int) -> None:
    if len(data) < size:
        data.extend(bytes(size - len(data)))
    else:
        del data[size:]


def _error(number: int, path: str | None = None) -> OSError:
    return OSError(number, os.strerror(number), path)


def _stat(inode: Inode) -> os.stat_result:
    kind = stat_bits.S_IFDIR if inode.is_dir else stat_bits.S_IFREG
    links = 2 if inode.is_dir else inode.links
    size = 0 if inode.is_dir else len(inode.data)
    return os.stat_result((kind | inode.mode, inode.number, 1, links, 0, 0, size, 0, 0, 0))
