"""Doing something in a forked process that is killed (SIGKILL) before one of its effects on a disk.

An effect is a call by which a process changes a disk or makes a change durable: any of them, through the seam
or past it. A kill loses nothing that was written, so nothing is synced. A process that forks must have no
other threads that hold locks which the work needs.
"""

import os
import signal
from collections.abc import Callable

EFFECTS = (
    "rename", "unlink", "mkdir", "rmdir", "symlink", "link",
    "fsync", "fdatasync", "write", "pwrite", "ftruncate", "fchmod",
)  # fmt: skip

NEVER = 1 << 30
_HANGS_AFTER_S = 120


def in_child(work: Callable[[], object], kill_at: int, *, torn: bool = False) -> bool:
    """Do `work` in a forked process that is killed before its effect number `kill_at`; whether it was.

    Args: torn: when that effect is a write, half of it is done.
    """
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            signal.alarm(_HANGS_AFTER_S)
            _kill_before(kill_at, torn)
            work()
            code = 0
        finally:
            os._exit(code)
    status = os.waitpid(pid, 0)[1]
    if os.WIFSIGNALED(status):
        assert os.WTERMSIG(status) == signal.SIGKILL, f"signal {os.WTERMSIG(status)}"
        return True
    assert os.WEXITSTATUS(status) == 0
    return False


def effects_of(work: Callable[[], object]) -> int:
    """How many effects it has, done in a forked process to its end."""
    reading, writing = os.pipe()
    real_write = os.write

    def counted() -> None:
        work()
        real_write(writing, b"%d" % _count[0])

    try:
        assert not in_child(counted, NEVER)
        return int(os.read(reading, 20))
    finally:
        os.close(reading)
        os.close(writing)


_count = [0]


def _kill_before(number: int, torn: bool) -> None:
    _count[0] = 0

    def counted(call: Callable[..., object]) -> Callable[..., object]:
        def wrapper(*arguments: object, **named: object) -> object:
            if call is not real_open or int(arguments[1]) & os.O_CREAT:  # type: ignore[call-overload]
                if _count[0] == number:
                    if torn and call in writes:
                        data = bytes(arguments[1])  # type: ignore[call-overload]
                        call(arguments[0], data[: len(data) // 2], *arguments[2:])
                    os.kill(os.getpid(), signal.SIGKILL)
                _count[0] += 1
            return None if call in syncs else call(*arguments, **named)

        return wrapper

    real_open = os.open
    syncs = (os.fsync, os.fdatasync)
    writes = (os.write, os.pwrite)
    for name in EFFECTS:
        setattr(os, name, counted(getattr(os, name)))
    os.open = counted(os.open)  # type: ignore[assignment]
