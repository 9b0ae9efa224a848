"""The answers `search`, `errors`, `decisions`, `sql` and `figures`: what is asked of all of a log."""

from collections.abc import Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from eventlog.base.display import microseconds
from eventlog.projections.definitions import DATED_DECISIONS, DECISIONS_NEWEST_FIRST
from eventlog.query.lookup import find_session
from eventlog.search import query
from eventlog.search.failures import failures
from eventlog.view.parameters import Parameters
from eventlog.view.stores import Viewed, ViewedStore

if TYPE_CHECKING:
    from eventlog.search.find import Hit

HITS, HITS_MAX = 50, 200
ROWS_MAX = 2_000
SQL_SECONDS = 10.0
# What the index lacks is indexed in memory so long for each search; the next one goes on.
SEARCH_SECONDS = 1.5
_SQL_BYTES = 1 << 30
_CELL_MAX = 64 << 10  # characters of a value

_DECISIONS = (
    "event_id, session_id, turn_id, happened, coalesce(title, decision) as title, decision, reasoning, "
    "confidence, alternatives, path"
)


def search(viewed: ViewedStore, parameters: Parameters) -> dict[str, Any]:
    from eventlog.search import find  # loads pyarrow, which nothing else here needs

    wanted = query.parse(parameters.required("q"))
    limit = parameters.number("limit", HITS, HITS_MAX)
    answer = find.search(
        viewed.store, wanted, limit=limit, seconds=SEARCH_SECONDS, writes=False, memory=viewed.words
    )
    return {
        "hits": [_hit(hit) for hit in answer.hits],
        "more": answer.more,
        "missing": answer.missing,
        "events": answer.events,
        "why": answer.why,
    }


def _hit(hit: "Hit") -> dict[str, Any]:
    return {
        "event_id": hit.event_id,
        "turn": hit.turn_name,
        "session_id": hit.session_id,
        "at": hit.at,
        "kind": "content" if hit.is_content else hit.event_type,
        "title": hit.title,
        "tool": hit.tool,
        "path": hit.path,
        "hash": hit.after_hash if hit.is_content else None,
        "pieces": _pieces(hit),
    }


def _pieces(hit: "Hit") -> list[list[Any]]:
    """The snippet as pieces, each with whether it is one of the words."""
    text, pieces, offset = hit.snippet or "", list[list[Any]](), 0
    for start, end in hit.marks:
        pieces += [[text[offset:start], False], [text[start:end], True]]
        offset = end
    pieces.append([text[offset:], False])
    return [piece for piece in pieces if piece[0]]


def errors(viewed: Viewed, parameters: Parameters) -> dict[str, Any]:
    sessions = _sessions(viewed, parameters)
    rows = failures(viewed.query, sessions=sessions)
    if parameters.flag("open"):
        rows = [row for row in rows if row.resolved is None]
    listed = [{**asdict(row), "turn": row.turn_name, "took_us": row.took_us} for row in rows[:ROWS_MAX]]
    return {"rows": listed, "cut": len(rows) if len(rows) > ROWS_MAX else None}


def decisions(viewed: Viewed, parameters: Parameters) -> dict[str, Any]:
    sessions = _sessions(viewed, parameters)
    where = "true" if sessions is None else "list_contains($1, session_id)"
    result = viewed.query(
        f"select {_DECISIONS} from {DATED_DECISIONS} where {where} order by {DECISIONS_NEWEST_FIRST} "
        f"limit {ROWS_MAX + 1}",
        [] if sessions is None else [sessions],
    )
    rows = [_decision(dict(zip(result.columns, row, strict=True))) for row in result.rows]
    return {"rows": rows[:ROWS_MAX], "cut": ROWS_MAX if len(rows) > ROWS_MAX else None}


def _decision(row: Mapping[str, Any]) -> dict[str, Any]:
    turn = f"{row['session_id']}_{row['turn_id']}" if row["session_id"] and row["turn_id"] else None
    others = {name: value for name, value in row.items() if name not in ("happened", "turn_id", "reasoning")}
    return {**others, "turn": turn, "at": microseconds(row["happened"]), "reason": row["reasoning"]}


def _sessions(viewed: Viewed, parameters: Parameters) -> tuple[str, ...] | None:
    session = parameters.text("session")
    return None if session is None else (find_session(viewed.query, session),)


def sql(viewed: Viewed, parameters: Parameters) -> dict[str, Any]:
    """One SELECT in a process of its own, whose time and memory the kernel limits."""
    from eventlog.query.engine import Limits

    limits = Limits(rows_max=ROWS_MAX, truncate=True, timeout_s=SQL_SECONDS, memory_bytes=_SQL_BYTES)
    result = viewed.ask(parameters.required("q"), limits=limits)
    columns = zip(result.columns, result.types, strict=True)
    return {
        "columns": [{"name": name, "type": type} for name, type in columns],
        "rows": [[spelled(value) for value in row] for row in result.rows],
        "cut": ROWS_MAX if result.truncated else None,
    }


def spelled(value: Any) -> Any:
    """A value of SQL as JSON has it: times as text with their zone, bytes in hexadecimal digits."""
    if value is None or isinstance(value, (bool, float)):
        return value
    if isinstance(value, int):
        return value if abs(value) < 1 << 53 else str(value)  # beyond that a browser rounds
    if isinstance(value, str):
        return value[:_CELL_MAX]
    if isinstance(value, (list, tuple)):
        return [spelled(item) for item in value]
    if isinstance(value, dict):
        return {str(key): spelled(item) for key, item in value.items()}
    if isinstance(value, (bytes, bytearray, memoryview)):
        return bytes(value).hex()[:_CELL_MAX]
    return value.isoformat() if hasattr(value, "isoformat") else str(value)
