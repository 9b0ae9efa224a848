"""The tool `sql`: one SELECT in safe mode, in a process of its own (eventlog/question.py)."""

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from eventlog import question
from eventlog.base.display import unread

if TYPE_CHECKING:
    from eventlog.query.engine import Result
    from eventlog.store import Store

TIMEOUT_S = 25.0
_ROWS_MAX = 10_000
_MEMORY_BYTES = 1 << 30


def ask(store: "Store", query: str) -> Iterator[str]:
    """A line of column names, then a JSON array for each row. Raises: QueryError, EventLogError."""
    from eventlog.query.engine import Limits

    limits = Limits(rows_max=_ROWS_MAX, truncate=True, timeout_s=TIMEOUT_S, memory_bytes=_MEMORY_BYTES)
    return _lines(question.ask(store, query, limits=limits))


def _lines(found: "Result") -> Iterator[str]:
    if found.unread:
        yield unread(found.unread) + "\n"
    many = (
        f"more than {_ROWS_MAX:,} rows; these are the first"
        if found.truncated
        else f"{len(found.rows):,} rows"
    )
    yield f"{many}, one a line: {json.dumps(found.columns, ensure_ascii=False)}\n"
    for row in found.rows:
        yield json.dumps(row, ensure_ascii=False, default=_spelled) + "\n"


def end_all() -> None:
    """End what is still asked: the client went away."""
    question.end_all()


def _spelled(value: Any) -> Any:
    if hasattr(value, "isoformat"):
        return value.isoformat()
    if isinstance(value, (bytes, bytearray, memoryview)):
        return bytes(value).hex()
    return str(value)
