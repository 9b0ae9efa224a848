"""Limits of a question in SQL that the kernel enforces: a child process with limits of its own.

DuckDB counts the memory of its tables but not of a single text, and it checks for an interrupt between steps
but not inside one: `repeat('x', 2000000000)`, `levenshtein` of two long texts or a thousand joined tables
exceed its limits. So an untrusted question runs in a child (docs/threat-model.md). The child's memory ends at
`memory_of` its limits, an unhandled alarm ends it `GRACE_S` after its time, and it ends with its parent.

`eventlog.question` starts a child as a program, for processes with threads; `locus sql` forks one.
"""

import os
import resource
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from eventlog.base.errors import QueryError

# An interrupted question ends within moments, unless its current step cannot be interrupted.
GRACE_S = 2.0
_PARENT_EVERY_S = 0.2


def memory_of(memory_bytes: int) -> int:
    """What the process may allocate where DuckDB may use `memory_bytes`: the rest is for Python's values."""
    return memory_bytes * 5 // 2


def enter(memory_bytes: int, parent: int) -> None:
    """Confine this process, a child of `parent` that does nothing else, before it runs a question."""
    _, hard = resource.getrlimit(resource.RLIMIT_DATA)
    wanted = memory_of(memory_bytes)
    limit = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
    resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))
    # Nobody needs the core file of an ended process.
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    threading.Thread(target=_end_with, args=(parent,), daemon=True).start()


def _end_with(parent: int) -> None:
    wait = threading.Event()
    while os.getppid() == parent:
        wait.wait(_PARENT_EVERY_S)
    os.kill(os.getpid(), signal.SIGKILL)


@contextmanager
def within(timeout_s: "float | None") -> Iterator[None]:
    """Within, the kernel ends this process `GRACE_S` after `timeout_s`. For a main thread."""
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.setitimer(signal.ITIMER_REAL, 0 if timeout_s is None else timeout_s + GRACE_S)
    try:
        yield
    except MemoryError as error:
        raise QueryError("the question needs more memory than it may take. Ask for less of it.") from error
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)


def ended_by(number: int, memory_bytes: int, timeout_s: "float | None") -> QueryError:
    """The error for a child with these limits that the signal `number` ended."""
    if number == signal.SIGALRM:
        return QueryError(
            f"the question did not end within {timeout_s or 0:g} s and could not be interrupted, so its "
            "process was ended. Ask for less: fewer rows, a session, a time."
        )
    memory = memory_of(memory_bytes) / (1 << 30)
    return QueryError(
        f"the question ended its process ({signal.Signals(number).name}): it needs more memory than "
        f"{memory:.3g} GB, or more than DuckDB can do. Ask for less of it."
    )
