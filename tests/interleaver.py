"""Several processes on one simulated machine, of which one at a time makes its next call.

A `Process` is a thread; before each of its calls to the `Machine` somebody chooses who goes on. So a schedule
is the list of these choices, and repeats exactly: each process has a clock, random numbers and descriptors of
its own, which do not depend on the others. A process that waits for a lock (it sleeps) is not chosen again
until another one gives something back; when all wait and nothing is given back they wait for each other.
A process can be made to die before its n-th call: then its descriptors and locks are gone, as with SIGKILL.

`random_schedule` draws a schedule from a seed. `every_schedule` goes through all of them. It need not run
them all to their ends: when the files, the locks and all that each process has been answered are as they were
at a choice made before, the rest is known. One schedule at a time.
"""

import os
import random
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from blake3 import blake3

from tests.simfs import Inode, SimFS

# So often all may wait at once, each sleep growing to some milliseconds, before it counts as for ever.
_STALLS_MAX = 200

_METHODS = (
    "open", "close", "pread", "pwrite", "truncate", "fsync", "fdatasync", "fstat", "fchmod", "stat", "lstat",
    "exists", "listdir", "mkdir", "rmdir", "link", "rename", "unlink", "fsync_dir", "flock", "funlock",
)  # fmt: skip


class Died(BaseException):
    """The process ends here."""


class Process:
    """One process: its work, what it has been answered, and how it ended."""

    def __init__(self, number: int, name: str) -> None:
        self.number = number
        self.name = name
        self.dies_at: int | None = None  # before its call of this number
        self.calls = 0
        self.error: BaseException | None = None
        self.dead = self.ended = self.waiting = False
        self.fds: set[int] = set()
        self.clock_ns = 1_750_000_000_000_000_000 + number * 1_000_000_000
        self.randoms = 0
        self.answers = b""  # a digest of all answers so far
        self._inodes: dict[int, int] = {}  # the machine's numbers of inodes → the order in which it met them
        self.ident = 0
        self.gate = threading.Semaphore(0)

    def told(self, name: str, answer: object) -> None:
        """Note an answer, in words that depend on what the process has done and not on what others did."""
        if isinstance(answer, os.stat_result):
            known = self._inodes.setdefault(answer.st_ino, len(self._inodes))
            answer = (known, answer.st_mode, answer.st_nlink, answer.st_size)
        elif isinstance(answer, OSError):
            answer = ("error", answer.errno)
        elif name == "open":
            answer = None
        self.answers = blake3(self.answers + repr((name, answer)).encode()).digest(16)


class Machine(SimFS):
    """A simulated machine that asks its schedule before each call. Set `now` to open things for a process."""

    def __init__(self, seed: int = 0) -> None:
        super().__init__(seed)
        self.now: Process | None = None
        self.schedule: Schedule | None = None
        self._digest: tuple[int, bytes] = (-1, b"")

    @contextmanager
    def by(self, process: Process) -> Iterator[None]:
        self.now = process
        try:
            yield
        finally:
            self.now = None

    def bury(self, process: Process) -> None:
        """What the kernel does for a process that is gone."""
        for fd in process.fds:
            described = self._open.pop(fd)
            described.inode.locks.pop(fd, None)
        process.fds = set()

    def key(self) -> bytes:
        """A digest of files and locks: of all that a process can observe."""
        if self._digest[0] != self.change_count:
            unnamed = [bytes(o.inode.data) for o in self._open.values() if not o.inode.links]
            parts = repr((sorted(self.tree().items()), self._links(), unnamed))
            unsynced = repr(sorted((repr(effect), effect.data) for effect in self.pending))
            self._digest = (self.change_count, blake3((parts + unsynced).encode()).digest(16))
        held = sorted(
            (path, sorted(inode.locks.values()))
            for path, inode in self._paths(self._root, "")
            if inode.locks and not inode.is_dir
        )
        return self._digest[1] + repr(held).encode()

    def _links(self) -> list[list[str]]:
        """Names of files that have several."""
        names: dict[int, list[str]] = {}
        for path, inode in self._paths(self._root, ""):
            if inode.links > 1 and not inode.is_dir:
                names.setdefault(inode.number, []).append(path)
        return sorted(names.values())

    def _paths(self, inode: Inode, path: str) -> Iterator[tuple[str, Inode]]:
        for name, below in inode.names.items():
            yield f"{path}/{name}", below
            yield from self._paths(below, f"{path}/{name}")

    # -- what belongs to a process ----------------------------------------------------------------

    def time_ns(self) -> int:
        if self.now is None:
            return super().time_ns()
        self.now.clock_ns += 1000
        return self.now.clock_ns

    def sleep(self, seconds: float) -> None:
        if self.now is None:
            super().sleep(seconds)
            return
        self.now.clock_ns += int(seconds * 1e9)
        if self.schedule is not None:
            self.now.waiting = True
            self.schedule.before_call(self.now)

    def random_bytes(self, size: int) -> bytes:
        if self.now is None:
            return super().random_bytes(size)
        self.now.randoms += 1
        return blake3(b"%d:%d:%d" % (self.seed, self.now.number, self.now.randoms)).digest(size)


def _watched(name: str) -> Callable[..., Any]:
    real = getattr(SimFS, name)

    def call(self: Machine, *arguments: Any, **options: Any) -> Any:
        process = self.now
        if process is None:
            return real(self, *arguments, **options)
        # A thread that a process has for itself is not interrupted.
        scheduled = self.schedule is not None and threading.get_ident() == process.ident
        if scheduled and self.schedule is not None:
            self.schedule.before_call(process)
        try:
            answer = real(self, *arguments, **options)
        except OSError as error:
            process.told(name, error)
            raise
        process.told(name, answer)
        if name == "open":
            process.fds.add(answer)
        elif name == "close":
            process.fds.discard(arguments[0])
        if name in ("close", "funlock", "unlink", "link") and scheduled and self.schedule is not None:
            self.schedule.given_back(process)
        return answer

    return call


for _name in _METHODS:
    setattr(Machine, _name, _watched(_name))


# Which process goes on, of those that can, when the one who was at it (None: it has ended, or waits) makes a
# call.
Chooser = Callable[["Schedule", "list[Process]", "Process | None"], Process]


class Pruned(BaseException):
    """The rest of this schedule is known."""


class Schedule:
    """One run of some processes on a machine; `problems` are what went wrong with waiting."""

    def __init__(self, machine: Machine, choose: Chooser) -> None:
        self.machine = machine
        self.processes: list[Process] = []
        self.problems: list[str] = []
        self.step = 0
        self.pruned = False
        self._choose = choose
        self._stalls = 0
        self._stopping = False
        self._over = threading.Event()

    def run(self, works: "Sequence[tuple[Process, Callable[[], object]]]") -> None:
        """Let all work until they have ended."""
        self.processes = [process for process, _ in works]
        threads = [
            threading.Thread(target=self._live, args=work, name=work[0].name, daemon=True) for work in works
        ]
        self.machine.schedule = self
        for thread in threads:
            thread.start()
        self._pass_on(None)
        self._over.wait()
        for thread in threads:
            thread.join()
        self.machine.schedule = None
        self.machine.now = None

    def before_call(self, process: Process) -> None:
        """Called by the process that is at it."""
        if process.dead or self._stopping:
            raise Died
        if process.calls == process.dies_at:
            process.dead = True
            self.machine.bury(process)
            self.given_back(process)
            raise Died
        process.calls += 1
        self.step += 1
        following = self._next(process)
        if following is not process:
            self._hand_to(following)
            process.gate.acquire()
        if self._stopping:
            raise Died

    def given_back(self, process: Process) -> None:
        """A process that waits may try again."""
        self._stalls = 0
        for other in self.processes:
            if other is not process:
                other.waiting = False

    def _live(self, process: Process, work: Callable[[], object]) -> None:
        process.ident = threading.get_ident()
        process.gate.acquire()
        try:
            if not self._stopping:
                work()
        except Died:
            pass
        except BaseException as error:
            process.error = error
        process.ended = True
        self.given_back(process)
        self._pass_on(None)

    def _pass_on(self, process: Process | None) -> None:
        if all(one.ended for one in self.processes):
            self._over.set()
            return
        self._hand_to(self._next(process))

    def _next(self, process: Process | None) -> Process:
        alive = [one for one in self.processes if not one.ended]
        if self._stopping:
            return alive[0]
        ready = [one for one in alive if not one.waiting]
        if not ready:
            self._stalls += 1
            if self._stalls > _STALLS_MAX:
                names = ", ".join(one.name for one in alive)
                self.problems.append(f"I31: {names} wait for each other, or for what nobody gives back")
                self._stopping = True
                return alive[0]
            for one in alive:
                one.waiting = False
            ready = alive
        if len(ready) == 1:
            return ready[0]
        try:
            return self._choose(self, ready, process if process in ready else None)
        except Pruned:
            self._stopping = self.pruned = True
            return alive[0]

    def _hand_to(self, process: Process) -> None:
        self.machine.now = process
        process.gate.release()


def random_schedule(seed: int, odds: float = 0.15) -> Chooser:
    """At each call another process goes on with these odds."""
    choose = random.Random(seed)

    def pick(_: Schedule, ready: list[Process], process: Process | None) -> Process:
        if process is not None and choose.random() >= odds:
            return process
        return choose.choice(ready)

    return pick


def one_switch(at: int) -> Chooser:
    """The first process up to its call `at`, the others to their ends, then the rest of the first."""

    def pick(schedule: Schedule, ready: list[Process], _: Process | None) -> Process:
        first = schedule.processes[0]
        if first in ready and first.calls <= at:
            return first
        return next((one for one in ready if one is not first), first)

    return pick


def told_schedule(choices: tuple[int, ...]) -> Chooser:
    """The processes of these numbers, then whoever is at it."""
    left = list(choices)

    def pick(_: Schedule, ready: list[Process], process: Process | None) -> Process:
        if left:
            number = left.pop(0)
            return next(one for one in ready if one.number == number)
        return process or ready[0]

    return pick


@dataclass(slots=True)
class Explored:
    """How many schedules were run, of which `ended` to their end; `left` were not tried."""

    runs: int = 0
    ended: int = 0
    left: int = 0


def every_schedule(
    make: Callable[[Chooser], Schedule],
    check: Callable[[Schedule, tuple[int, ...]], None],
    *,
    go_on: Callable[[Explored], bool] = lambda _: True,
) -> Explored:
    """Run all schedules of what `make` runs with a chooser; `check` those that end, with their choices.

    A choice is made only where two processes could go on. `go_on` may end the search early.
    """
    seen: set[bytes] = set()
    todo: list[tuple[int, ...]] = [()]
    found = Explored()
    while todo and go_on(found):
        path = list(todo.pop())
        schedule = make(_explorer(path, todo, seen))
        found.runs += 1
        if not schedule.pruned:
            found.ended += 1
            check(schedule, tuple(path))
    found.left = len(todo)
    return found


def _explorer(path: list[int], todo: list[tuple[int, ...]], seen: set[bytes]) -> Chooser:
    """Choose as `path` says; after its end lengthen it, and leave in `todo` what else could be chosen."""
    given, at = len(path), 0

    def pick(schedule: Schedule, ready: list[Process], process: Process | None) -> Process:
        nonlocal at
        at += 1
        if at <= given:
            return next(one for one in ready if one.number == path[at - 1])
        key = blake3(schedule.machine.key())
        for one in schedule.processes:
            key.update(repr((one.answers, one.calls, one.waiting, one.ended)).encode())
        if key.digest() in seen:
            raise Pruned
        seen.add(key.digest())
        chosen = process or ready[0]
        todo.extend((*path, other.number) for other in ready if other is not chosen)
        path.append(chosen.number)
        return chosen

    return pick
