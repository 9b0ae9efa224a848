"""Writes the files of a plan, by one process or by several that share the work.

The files are put into the order in which packs hold them, so that each group is decompressed once,
and cut into as many runs of about equal cost as there are workers. This process takes the first run;
the others go to forked children, which share nothing that moves: packs are read by position, and each
opens directories of its own. A child leaves by `os._exit` and reports through a pipe.

Forking copies only the thread that forks, so it is done only when there is no other; else the runs are
written by threads, each with its own `GroupReader` and `Target`.
"""

import gc
import marshal
import os
import signal
import sys
from collections.abc import Callable
from dataclasses import dataclass, field

from eventlog.errors import Corruption, EventLogError, NotFound
from eventlog.snapshots.catalog import Place
from eventlog.snapshots.groups import GroupReader
from eventlog.snapshots.ids import blob_id, to_text
from eventlog.snapshots.store import BlobStore
from eventlog.snapshots.target import Target, reason_of

# (id, index of the directory, name, executable)
FileJob = tuple[bytes, int, bytes, bool]

# (path, reason)
Listed = list[tuple[bytes, str]]

# A file costs as much as this many bytes of content (measured: 35 µs against 1 GB/s).
_FILE_COST = 32 * 1024

# A fork of a process with a loaded plan costs some milliseconds; below this it does not pay.
_COST_PER_WORKER_MIN = 300 * _FILE_COST
_WORKERS_MAX = 4


@dataclass(slots=True)
class Done:
    """What was written; `unread` are the jobs whose content could not be read where it should be."""

    files: int = 0
    bytes: int = 0
    missing: Listed = field(default_factory=list)
    unread: list[FileJob] = field(default_factory=list)


def write_files(blobs: BlobStore, target: Target, jobs: list[FileJob], workers: int | None = None) -> Done:
    """Write every job that can be written. `workers` None lets the amount of work decide."""
    places = blobs.places({job[0] for job in jobs})
    done = Done(unread=[job for job in jobs if job[0] not in places])
    found = sorted((places[job[0]], job) for job in jobs if job[0] in places)
    runs = _runs(found, workers)
    for part in _write_runs(blobs, target, runs):
        done.files += part.files
        done.bytes += part.bytes
        done.missing += part.missing
        done.unread += part.unread
    unread, done.unread = done.unread, []
    for job in unread:
        _write_unread(blobs, target, job, done)
    return done


_Run = list[tuple[Place, FileJob]]


def _runs(found: _Run, workers: int | None) -> list[_Run]:
    """Cut into runs of about equal cost, in order."""
    costs = [_FILE_COST + place[4] for place, _ in found]
    total = sum(costs)
    if workers is None:
        cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
        workers = max(1, min(cores, _WORKERS_MAX, total // _COST_PER_WORKER_MIN))
    runs: list[_Run] = []
    start = 0
    spent = 0
    for at, cost in enumerate(costs):
        spent += cost
        if spent * workers >= total * (len(runs) + 1):
            runs.append(found[start : at + 1])
            start = at + 1
    return runs


def _write_runs(blobs: BlobStore, target: Target, runs: list[_Run]) -> list[Done]:
    if len(runs) < 2:
        return [_write_run(blobs, target, run) for run in runs]
    if _single_threaded():
        return _write_forked(blobs, target, runs)
    return _write_threaded(blobs, target, runs)


def _write_run(blobs: BlobStore, target: Target, run: _Run) -> Done:
    """Write one run with a reader of its own. Every content is hashed before its file is made."""
    done = Done()
    reader = GroupReader(blobs.fs)
    last = b""
    data = b""
    try:
        for place, job in run:
            id = job[0]
            if id != last:
                path, _, group_offset, offset, length = place
                try:
                    data = reader.read(path, group_offset, offset, length)
                except (Corruption, OSError):
                    data = b""
                if blob_id(data) != id:
                    done.unread.append(job)
                    continue
                last = id
            _write(target, job, data, done)
    finally:
        reader.close()
    return done


def _write(target: Target, job: FileJob, data: bytes, done: Done) -> None:
    _, index, name, executable = job
    try:
        target.write_file(index, name, executable, data)
    except OSError as error:
        done.missing.append((target.path(index, name), f"it cannot be written: {reason_of(error)}"))
    else:
        done.files += 1
        done.bytes += len(data)


def _write_unread(blobs: BlobStore, target: Target, job: FileJob, done: Done) -> None:
    """The second try, by way of the store, which knows other copies and `condemned/`."""
    id, index, name, _ = job
    try:
        data = blobs.get(id)
        if blob_id(data) != id:
            raise NotFound(f"{to_text(id)} is a tree, not a file's content")
    except (NotFound, Corruption) as error:
        done.missing.append((target.path(index, name), f"its content cannot be read: {error}"))
    else:
        _write(target, job, data, done)


def _single_threaded() -> bool:
    """Whether a fork of this process is safe; where that cannot be told, it is not."""
    if sys.platform != "linux":
        return False
    try:
        return len(os.listdir("/proc/self/task")) == 1
    except OSError:
        return False


def _write_forked(blobs: BlobStore, target: Target, runs: list[_Run]) -> list[Done]:
    children = []
    gc.freeze()  # a collection in the child would copy the pages of every object it looks at
    try:
        for run in runs[1:]:
            children.append(_fork(lambda run=run: _write_run(blobs, target, run)))  # type: ignore[misc]
        parts = [_write_run(blobs, target, runs[0])]
        while children:
            pid, read_fd = children.pop(0)
            parts.append(_result(pid, read_fd))
        return parts
    finally:
        gc.unfreeze()
        for pid, read_fd in children:  # only after an error
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
            os.close(read_fd)


_Message = tuple[int, int, Listed, list[FileJob]] | str


def _fork(work: Callable[[], Done]) -> tuple[int, int]:
    """(pid, descriptor of the pipe) of a child that does `work`."""
    read_fd, write_fd = os.pipe()
    pid = os.fork()
    if pid:
        os.close(write_fd)
        return pid, read_fd
    code = 1
    try:
        os.close(read_fd)
        try:
            done = work()
            message: tuple[int, int, Listed, list[FileJob]] | str = (
                done.files,
                done.bytes,
                done.missing,
                done.unread,
            )
        except Exception as error:
            message = f"{type(error).__name__}: {error}"
        with open(write_fd, "wb") as pipe:
            pipe.write(marshal.dumps(message))
        code = 0
    finally:
        # Nothing of the parent's may run here: no exit handlers, no flush of its buffers.
        os._exit(code)


def _result(pid: int, read_fd: int) -> Done:
    with open(read_fd, "rb") as pipe:
        data = pipe.read()
    _, status = os.waitpid(pid, 0)
    message = marshal.loads(data) if data and status == 0 else f"it ended with status {status}"
    if isinstance(message, str):
        raise EventLogError(f"a process that wrote files failed: {message}. The target is incomplete.")
    return Done(*message)


def _write_threaded(blobs: BlobStore, target: Target, runs: list[_Run]) -> list[Done]:
    from concurrent.futures import ThreadPoolExecutor

    targets = [target.sibling() for _ in runs]
    try:
        with ThreadPoolExecutor(len(runs)) as pool:
            return list(pool.map(lambda pair: _write_run(blobs, *pair), zip(targets, runs, strict=True)))
    finally:
        for one in targets:
            one.close()
