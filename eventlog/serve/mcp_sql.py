"""The tool `sql`: one SELECT in safe mode, in a process of its own that the operating system can stop.

DuckDB looks at an interrupt between its steps and counts the memory of its tables alone, so a single step
may go on for hours or take all memory. The server lives on, whatever it is: `ask` starts this module as a
program, gives it the question and ends it when its time is up. Any number at a time.
"""

import json
import os
import resource
import signal
import subprocess
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from eventlog.errors import EventLogError, QueryError

if TYPE_CHECKING:
    from eventlog.store import Store

TIMEOUT_S = 25.0
_GRACE_S = 3.0
_ROWS_MAX = 10_000
_MEMORY_BYTES = 1 << 30
# Above DuckDB's own limit: the interpreter, the libraries, the answer as Python values.
_MORE_BYTES = 3 << 30
_REFUSED = 3

_running: "set[subprocess.Popen[bytes]]" = set()


def ask(store: "Store", query: str) -> str:
    """The answer as text. Raises: QueryError, EventLogError."""
    asked = json.dumps({"store": store.layout.root, "sql": query}).encode()
    command = [sys.executable, "-P", "-m", __name__]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd="/"
    ) as process:
        _running.add(process)
        try:
            out, said = process.communicate(asked, timeout=TIMEOUT_S + _GRACE_S)
        except subprocess.TimeoutExpired:
            raise QueryError(
                f"the question did not end within {TIMEOUT_S:g} s, and was ended. Ask for less: fewer rows, "
                "a session, a time."
            ) from None
        finally:
            _running.discard(process)
            process.kill()
    if process.returncode == 0:
        return out.decode("utf-8", "replace")
    words = said.decode("utf-8", "replace").strip()
    if process.returncode == _REFUSED and words:
        raise QueryError(words)
    raise QueryError(
        "the question ended its process: it needs more memory than "
        f"{(_MEMORY_BYTES + _MORE_BYTES) >> 30} GB, or more than DuckDB can do. Ask for less of it."
    )


def end_all() -> None:
    """End what is still asked: the client went away."""
    for process in list(_running):
        process.kill()


def main() -> int:
    """The process: a question in JSON on standard input, the answer or the error as text."""
    asked = json.loads(sys.stdin.buffer.read())
    _, hard = resource.getrlimit(resource.RLIMIT_DATA)
    wanted = _MEMORY_BYTES + _MORE_BYTES
    limit = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
    resource.setrlimit(resource.RLIMIT_DATA, (limit, hard))
    # What would be left of a process that is ended is for nobody.
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    # Ends the process also where Python does not get to run, should nobody else end it.
    signal.setitimer(signal.ITIMER_REAL, TIMEOUT_S + 2 * _GRACE_S)
    try:
        for text in _answer(asked["store"], asked["sql"]):
            sys.stdout.buffer.write(text.encode("utf-8", "backslashreplace"))
        sys.stdout.buffer.flush()
        return 0
    except EventLogError as error:
        said = str(error)
    except MemoryError:
        said = f"the question needs more than {wanted >> 30} GB of memory. Ask for less of it."
    sys.stderr.buffer.write(said.encode("utf-8", "backslashreplace"))
    sys.stderr.flush()
    return _REFUSED


def _answer(root: str, sql: str) -> Iterator[str]:
    """A line of column names, then a JSON array for each row."""
    from eventlog.query.engine import Limits
    from eventlog.serve.mcp_page import TEXT_MAX
    from eventlog.store import Store

    limits = Limits(rows_max=_ROWS_MAX, truncate=True, timeout_s=TIMEOUT_S, memory_bytes=_MEMORY_BYTES)
    with Store.open(root) as store:
        found = store.query(sql, limits=limits)
    many = (
        f"more than {_ROWS_MAX:,} rows; these are the first"
        if found.truncated
        else f"{len(found.rows):,} rows"
    )
    yield f"{many}, one a line: {json.dumps(found.columns, ensure_ascii=False)}\n"
    size = 0
    for row in found.rows:
        line = json.dumps(row, ensure_ascii=False, default=_spelled) + "\n"
        size += len(line)
        yield line
        if size > TEXT_MAX:
            return


def _spelled(value: Any) -> Any:
    if hasattr(value, "isoformat"):
        return value.isoformat()
    if isinstance(value, (bytes, bytearray, memoryview)):
        return bytes(value).hex()
    return str(value)


if __name__ == "__main__":
    code = main()
    # DuckDB's threads may still be at work on what was interrupted.
    os._exit(code)
