"""Writes the files of a plan, by one process or by several that share the work.

The files are put into the order in which packs hold them, so that each group is decompressed once,
and cut into as many runs of about equal cost as there are workers. This process takes the first run,
forked children the others. They share nothing that moves: packs are read by position, and each opens
directories of its own. A child makes plain system calls, reports through a pipe and leaves by
`os._exit`. The run of a child that dies, or hangs, is written again by this process. A child whose
parent was killed has another parent from then on; it asks before each MiB, and writes nothing more.

Only a program with a single Python thread forks, and only on Linux: others write alone. A thread that
holds no lock while others fork (attribute `is_fork_safe`) does not count. Idle threads of native libraries
do no harm, as the child never calls into what they belong to, and the allocators guard their locks over a
fork.
"""

import marshal
import mmap
import os
import select
import signal
import sys
import threading
import warnings
from dataclasses import dataclass, field
from typing import NoReturn

from eventlog.base.errors import Corruption, EventLogError, NotFound
from eventlog.blobs.groups import GroupReader
from eventlog.blobs.ids import blob_id, to_text
from eventlog.blobs.pack import GROUP_RAW_MAX, Location
from eventlog.blobs.store import BlobStore
from eventlog.checkout.directory import OpenDirectory, joined, reason_of

# (id, path of the directory, name, mode)
FileJob = tuple[bytes, bytes, bytes, int]

# (path, reason)
Listed = list[tuple[bytes, str]]

# A file costs as much as this many bytes of content (measured: 35 µs against 1 GB/s).
_FILE_COST = 32 * 1024

# A fork of a process with a loaded plan costs some milliseconds; below this it does not pay. Creating a
# file takes 35 µs on a quiet ext4 and was seen to take ten times that in the same hour.
_COST_PER_WORKER_MIN = 100 * _FILE_COST
_WORKERS_MAX = 4

# So few files are read by way of the groups that the store has in memory: the next step of a bisect wants the
# same ones. More would push these out, and mapping new memory for each group makes them slower.
_FEW_FILES = 200

# A child that has written nothing for so long is taken for stuck. Slow disks stall for seconds.
STALL_S = 60


@dataclass(slots=True)
class Done:
    """What was written; `unread` are the jobs whose content could not be read where it should be."""

    files: int = 0
    bytes: int = 0
    missing: Listed = field(default_factory=list)
    unread: list[FileJob] = field(default_factory=list)


def write_files(
    blobs: BlobStore, target: OpenDirectory, jobs: list[FileJob], workers: int | None, *, over: bool
) -> Done:
    """Write every job that can be written, with `over` in the place of old files.

    Args: workers: None lets the amount of work decide.
    """
    locations = blobs.locations({job[0] for job in jobs})
    done = Done(unread=[job for job in jobs if job[0] not in locations])
    located = sorted((locations[job[0]], job) for job in jobs if job[0] in locations)
    runs = _runs(located, workers)
    for part in _write_runs(blobs, target, runs, over):
        done.files += part.files
        done.bytes += part.bytes
        done.missing += part.missing
        done.unread += part.unread
    unread, done.unread = done.unread, []
    for job in unread:
        _write_unread(blobs, target, job, over, done)
    return done


_Run = list[tuple[Location, FileJob]]


def _runs(located: _Run, workers: int | None) -> list[_Run]:
    """Cut into runs of about equal cost, in order."""
    costs = [_FILE_COST + location[4] for location, _ in located]
    total = sum(costs)
    if workers is None:
        cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
        workers = max(1, min(cores, _WORKERS_MAX, total // _COST_PER_WORKER_MIN))
    runs: list[_Run] = []
    start = 0
    spent = 0
    for index, cost in enumerate(costs):
        spent += cost
        if spent * workers >= total * (len(runs) + 1):
            runs.append(located[start : index + 1])
            start = index + 1
    return runs


def _write_runs(blobs: BlobStore, target: OpenDirectory, runs: list[_Run], over: bool) -> list[Done]:
    if len(runs) > 1 and _may_fork():
        return _write_forked(blobs, target, runs, over)
    if sum(map(len, runs)) <= _FEW_FILES:
        groups = blobs.groups
        return [_write_located(target, run, over, groups) for run in runs]
    return [_write_run(blobs, target, run, over) for run in runs]


def _write_run(
    blobs: BlobStore, target: OpenDirectory, run: _Run, over: bool, progress: mmap.mmap | None = None
) -> Done:
    """Write one run with a reader of its own."""
    # In pack order one group is enough, and its memory serves the next one, already mapped.
    reader = GroupReader(blobs.fs, cache_bytes=GROUP_RAW_MAX)
    try:
        return _write_located(target, run, over, reader, progress)
    finally:
        reader.close()


def _write_located(
    target: OpenDirectory, run: _Run, over: bool, reader: GroupReader, progress: mmap.mmap | None = None
) -> Done:
    """Write one run in order. Every content is hashed before its file is made."""
    done = Done()
    last = b""
    data = b""
    for number, (location, job) in enumerate(run):
        if progress is not None:
            progress[:] = number.to_bytes(8, "little")
        id = job[0]
        if id != last:
            path, _, group_offset, offset, length = location
            try:
                data = reader.read(path, group_offset, offset, length)
            except (Corruption, OSError):
                data = b""
            if blob_id(data) != id:
                done.unread.append(job)
                continue
            last = id
        _write(target, job, data, over, done)
    return done


def _write(target: OpenDirectory, job: FileJob, data: bytes, over: bool, done: Done) -> None:
    _, folder, name, mode = job
    try:
        target.write_file(folder, name, mode, data, over=over)
    except OSError as error:
        done.missing.append((joined(folder, name), f"it cannot be written: {reason_of(error)}"))
    else:
        done.files += 1
        done.bytes += len(data)


def _write_unread(blobs: BlobStore, target: OpenDirectory, job: FileJob, over: bool, done: Done) -> None:
    """The second try, by way of the store, which knows other copies and `condemned/`."""
    id, folder, name, _ = job
    try:
        elsewhere = blobs.elsewhere(id)
        data = blobs.get(id) if elsewhere is None else elsewhere
        if elsewhere is None and blob_id(data) != id:
            raise NotFound(f"{to_text(id)} is a tree, not a file's content")
    except EventLogError as error:
        done.missing.append((joined(folder, name), f"its content cannot be read: {error}"))
    else:
        _write(target, job, data, over, done)


def _matters(thread: threading.Thread) -> bool:
    """Whether a thread beside this one may hold a lock that a child would wait for."""
    return thread is not threading.current_thread() and not getattr(thread, "is_fork_safe", False)


def _may_fork() -> bool:
    return sys.platform == "linux" and not any(map(_matters, threading.enumerate()))


def _write_forked(blobs: BlobStore, target: OpenDirectory, runs: list[_Run], over: bool) -> list[Done]:
    children: list[_Child] = []
    try:
        for run in runs[1:]:
            children.append(_Child(blobs, target, run, over))
        parts = [_write_run(blobs, target, runs[0], over)]
        for child, run in zip(children, runs[1:], strict=True):
            done = child.result()
            child.end()
            # What a child left that died has names of its run: it is written over.
            parts.append(_write_run(blobs, target, run, over=True) if done is None else done)
        return parts
    finally:
        for child in children:
            child.end()


class _Orphaned(BaseException):
    """The process that asked for these files is gone. Not the error of one file, so no handler catches it."""


_Message = tuple[int, int, Listed, list[FileJob]]


class _Child:
    """A forked process that writes one run."""

    def __init__(self, blobs: BlobStore, target: OpenDirectory, run: _Run, over: bool) -> None:
        # Counts the files the child has done, in memory that both see.
        self._progress = mmap.mmap(-1, 8)
        self._pipe, write_fd = os.pipe()
        self._parent = os.getpid()
        with warnings.catch_warnings():
            # Later Pythons warn of a fork beside native threads; see the module's docstring.
            warnings.simplefilter("ignore", DeprecationWarning)
            self._pid = os.fork()
        if self._pid == 0:
            self._work(blobs, target, run, over, write_fd)
        os.close(write_fd)

    def result(self) -> Done | None:
        """What the child did; None when it died or hangs."""
        poll = select.poll()
        poll.register(self._pipe, select.POLLIN)
        last_progress = b""
        data = b""
        while True:
            if not poll.poll(STALL_S * 1000):
                if self._progress[:] == last_progress:
                    return None
                last_progress = self._progress[:]
            elif part := os.read(self._pipe, 1 << 16):
                data += part
            else:
                break
        try:
            files, size, missing, unread = marshal.loads(data)
        except (EOFError, ValueError):
            return None
        return Done(files, size, missing, unread)

    def end(self) -> None:
        """Make sure that the process is gone; a second call does nothing."""
        if self._pid == 0:
            return
        pid, self._pid = self._pid, 0
        try:
            # Ours until it is waited for, so no other process can have the number.
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
        except (ProcessLookupError, ChildProcessError):
            pass  # the program lets the kernel reap its children
        os.close(self._pipe)
        self._progress.close()

    def _stop_without_parent(self) -> None:
        if os.getppid() != self._parent:
            raise _Orphaned

    def _work(
        self, blobs: BlobStore, target: OpenDirectory, run: _Run, over: bool, write_fd: int
    ) -> NoReturn:
        code = 1
        try:
            os.close(self._pipe)
            target.go_on = self._stop_without_parent
            done = _write_run(blobs, target, run, over, self._progress)
            message: _Message = (done.files, done.bytes, done.missing, done.unread)
            with open(write_fd, "wb") as pipe:
                pipe.write(marshal.dumps(message))
            code = 0
        finally:
            # Nothing of the parent's may run here: no exit handlers, no flush of its buffers.
            os._exit(code)
