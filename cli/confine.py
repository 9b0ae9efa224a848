"""The last wall around a question in SQL: this process itself, which the operating system can stop.

DuckDB counts the memory of its tables and not that of a single text, and it looks at an interrupt between
steps and not inside of one: `repeat('x', 2000000000)`, `levenshtein` of two long texts or a thousand joined
tables go past its limits. A process that asks one question may be ended, since it holds nothing but pins,
which the kernel takes back. For a command's main thread; not for programs that use `Store`.
"""

import os
import resource
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from eventlog.errors import QueryError

# Above DuckDB's own limit: the interpreter, the libraries, and the answer as Python values.
_MORE_BYTES = 3 << 30
# An interrupted question ends within moments, unless it is in such a step.
GRACE_S = 5.0


@contextmanager
def confined(memory_bytes: int, timeout_s: float | None, *, more_bytes: int = _MORE_BYTES) -> Iterator[None]:
    """Within: an allocation beyond `memory_bytes` and what a process needs fails, and after `timeout_s` and
    a grace the process ends with exit 1. Raises: QueryError for an allocation that failed in Python."""
    done = threading.Event()
    if timeout_s is not None:
        threading.Thread(target=_end, args=(done, timeout_s), daemon=True).start()
    before = resource.getrlimit(resource.RLIMIT_DATA)
    hard = before[1]
    wanted = memory_bytes + more_bytes
    limit = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
    try:
        resource.setrlimit(resource.RLIMIT_DATA, (limit, hard))
        yield
    except MemoryError as error:
        raise QueryError(
            f"the question needs more than {wanted >> 30} GB of memory. Ask for less of it."
        ) from error
    finally:
        resource.setrlimit(resource.RLIMIT_DATA, before)
        done.set()


def _end(done: threading.Event, timeout_s: float) -> None:
    if not done.wait(timeout_s + GRACE_S):
        said = f"locus: the question did not end within {timeout_s:g} s and could not be interrupted.\n"
        os.write(sys.stderr.fileno(), said.encode())
        os._exit(1)
