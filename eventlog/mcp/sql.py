"""The tool `sql`: one SELECT in safe mode, in a process of its own (eventlog/question.py)."""

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any

from eventlog import question
from eventlog.base.display import unread
from eventlog.mcp.call import Hint, tool
from eventlog.store import Store

if TYPE_CHECKING:
    from eventlog.query.engine import Result

TIMEOUT_S = 25.0
_ROWS_MAX = 10_000
_MEMORY_BYTES = 1 << 30


@tool("Ask in SQL", name="sql")
def ask(store: Store, query: Annotated[str, Hint(aliases=("sql",))]) -> Iterator[str]:
    """One SELECT (DuckDB); `describe turns` shows columns. Views: events, sessions, turns (session_id, turn,
    title, outcome, model, tokens_used, commits_made), actions (tool, command, path, success), file_versions
    (path, lines_added, survived), decisions, errors, llm_calls and more.
    """
    from eventlog.query.engine import Limits

    limits = Limits(rows_max=_ROWS_MAX, truncate=True, timeout_s=TIMEOUT_S, memory_bytes=_MEMORY_BYTES)
    return _lines(question.ask(store, query, limits=limits))


def _lines(result: "Result") -> Iterator[str]:
    if result.unread:
        yield unread(result.unread) + "\n"
    count = (
        f"more than {_ROWS_MAX:,} rows; these are the first"
        if result.truncated
        else f"{len(result.rows):,} rows"
    )
    yield f"{count}, one a line: {json.dumps(result.columns, ensure_ascii=False)}\n"
    for row in result.rows:
        yield json.dumps(row, ensure_ascii=False, default=_spelled) + "\n"


def _spelled(value: Any) -> Any:
    if hasattr(value, "isoformat"):
        return value.isoformat()
    if isinstance(value, (bytes, bytearray, memoryview)):
        return bytes(value).hex()
    return str(value)
