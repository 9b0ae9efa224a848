"""One untrusted SELECT, run in a process of its own (eventlog/query/confined.py): `ask`.

For programs with threads and for servers. The child is this module as a program: it reads the question as
JSON and returns the rows. Any number at a time. `ask_program` asks another program that runs `main`, with
what opens its log.
"""

import base64
import io
import json
import os
import pickle
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from datetime import datetime
from typing import TYPE_CHECKING, Any

from eventlog.base import errors
from eventlog.base.errors import EventLogError, QueryError
from eventlog.query import confined

if TYPE_CHECKING:
    from eventlog.query.engine import Limits, Parameters, Result
    from eventlog.store import Store

# The time before the child asks: its start, and maintenance of another process.
_START_S = 60.0
_FAILED = 3
_CLASSES = frozenset((
    ("datetime", "datetime"), ("datetime", "date"), ("datetime", "time"), ("datetime", "timedelta"),
    ("datetime", "timezone"), ("decimal", "Decimal"), ("uuid", "UUID"), ("uuid", "SafeUUID"),
))  # fmt: skip

# Opens, in the child, the log that a request is about: something with the `query` of a store.
Opening = Callable[[Mapping[str, Any]], AbstractContextManager[Any]]

_running: "set[subprocess.Popen[bytes]]" = set()


def ask(
    store: "Store", sql: str, parameters: "Parameters" = None, *, limits: "Limits | None" = None
) -> "Result":
    """The answer of `store.query`, from a child that the kernel confines.

    Raises: as `Store.query`; QueryError also for a question that needs more memory than DuckDB may use.
    """
    about = {"root": store.layout.root, "people": store.people.mode}
    return ask_program(__name__, about, sql, parameters, limits=limits)


def ask_program(
    program: str,
    about: "Mapping[str, Any]",
    sql: str,
    parameters: "Parameters" = None,
    *,
    limits: "Limits | None" = None,
) -> "Result":
    """The answer of a module that runs `main`. Args: about: what its `Opening` gets, as JSON has it."""
    from eventlog.query.engine import Limits, Result

    limits = limits or Limits()
    request = {
        "about": about,
        "parent": os.getpid(),
        "sql": sql,
        "parameters": _plain(parameters),
        "limits": [
            limits.rows_max, limits.truncate, limits.timeout_s, limits.memory_bytes, limits.threads,
        ],
    }  # fmt: skip
    memory_and_time = limits.memory_bytes, limits.timeout_s
    command = [sys.executable, "-P", "-m", program]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd="/"
    ) as process:
        _running.add(process)
        # After the child's own limits, in case it ends before it sets them.
        patience_s = None if limits.timeout_s is None else limits.timeout_s + confined.GRACE_S + _START_S
        try:
            out, error_output = process.communicate(json.dumps(request).encode(), timeout=patience_s)
        except subprocess.TimeoutExpired:
            raise confined.ended_by(signal.SIGALRM, *memory_and_time) from None
        finally:
            _running.discard(process)
            process.kill()
    if process.returncode < 0:
        raise confined.ended_by(-process.returncode, *memory_and_time)
    if process.returncode == _FAILED:
        raise _failure(*json.loads(error_output))
    if process.returncode != 0:
        raise confined.ended_by(signal.SIGABRT, *memory_and_time)
    columns, types, rows, truncated, unread = _Values(io.BytesIO(out)).load()
    return Result(columns, types, rows, truncated, tuple(range(*ends) for ends in unread))


def _failure(kind: str, message: str, members: "dict[str, Any]") -> EventLogError:
    """The error of the child. Some are made of more than a message, so it is not made again."""
    made_of: type[EventLogError] = getattr(errors, kind, QueryError)
    failure = made_of.__new__(made_of, message)
    vars(failure).update(members)
    return failure


class _Values(pickle.Unpickler):
    """Reads values of DuckDB and nothing else: a child's answer is not trusted."""

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) not in _CLASSES:
            raise QueryError("the process that asked gave no answer that can be read")
        return super().find_class(module, name)


def end_all() -> None:
    """End the questions under way: no one waits for them any more."""
    for process in list(_running):
        process.kill()


def _plain(parameters: "Parameters") -> Any:
    if parameters is None:
        return None
    if isinstance(parameters, dict):
        return {name: _spelled(value) for name, value in parameters.items()}
    return [_spelled(value) for value in parameters]


def _spelled(value: Any) -> Any:
    if isinstance(value, datetime):
        return {"time": value.isoformat()}
    if isinstance(value, (bytes, bytearray, memoryview)):
        return {"bytes": base64.b64encode(value).decode("ascii")}
    if value is None or isinstance(value, (str, int, float)):
        return value
    raise QueryError(f"a parameter of the type {type(value).__name__} cannot be given to another process")


def _meant(value: Any) -> Any:
    if isinstance(value, dict):
        ((kind, text),) = value.items()
        return datetime.fromisoformat(text) if kind == "time" else base64.b64decode(text)
    return value


@contextmanager
def _store(about: "Mapping[str, Any]") -> "Iterator[Store]":
    from eventlog.query.people import allowed
    from eventlog.store import Store

    with Store.open(about["root"]) as store:
        store.people = allowed(store.fs, store.layout, about["people"])
        yield store


def main(opening: Opening = _store) -> int:
    """The program: a question in JSON on standard input, the answer or an error in JSON."""
    from eventlog.query.engine import Limits

    request = json.loads(sys.stdin.buffer.read())
    limits = Limits(*request["limits"])
    confined.enter(limits.memory_bytes, request["parent"])
    parameters = request["parameters"]
    if isinstance(parameters, dict):
        parameters = {name: _meant(value) for name, value in parameters.items()}
    elif parameters is not None:
        parameters = [_meant(value) for value in parameters]
    try:
        sys.stdout.buffer.write(_answer(opening(request["about"]), request["sql"], parameters, limits))
        sys.stdout.buffer.flush()
        return 0
    except EventLogError as error:
        failed = [type(error).__name__, str(error), vars(error)]
    sys.stderr.write(json.dumps(failed, default=str))
    sys.stderr.flush()
    return _FAILED


def _answer(
    opened: "AbstractContextManager[Any]", sql: str, parameters: "Parameters", limits: "Limits"
) -> bytes:
    with opened as log, confined.within(limits.timeout_s):
        result = log.query(sql, parameters, limits=limits)
        unread = [(positions.start, positions.stop) for positions in result.unread]
        data = pickle.dumps((result.columns, result.types, result.rows, result.truncated, unread))
    if len(data) > limits.memory_bytes:
        raise QueryError(f"the answer takes {len(data):,} bytes. Ask for less of it.")
    return data


if __name__ == "__main__":
    code = main()
    # DuckDB's threads may still be busy with an interrupted statement.
    os._exit(code)
