"""Small logs for tests: any mixture of events, appended, sealed and indexed at chosen points."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import duckdb
from hypothesis import strategies as st

from eventlog.base.fs import REAL
from eventlog.base.layout import DIRECTORIES, Layout, StoreFiles
from eventlog.log.journal import Journal
from eventlog.log.line import encode_line
from eventlog.log.reader import LogView, open_view
from eventlog.log.seal import seal
from eventlog.projections import index
from eventlog.projections.definitions import ASKED_FOR, COLUMNS_OF, names_of, quoted
from eventlog.query.engine import Limits, Snapshot, run

STORE_ID = bytes(range(16))
KEYS = {
    "llm_calls": ("position",),
    "turns": ("session_id", "turn"),
    "sessions": ("session_id",),
    "sessions_master": ("repo",),
}


class Log:
    """A store's log and index in a directory; no store identity, no snapshots."""

    def __init__(self, root: str) -> None:
        os.makedirs(root)
        for name in DIRECTORIES:
            os.mkdir(f"{root}/{name}")
        self.layout = Layout(root)
        self.files = StoreFiles(REAL, self.layout, STORE_ID)
        self.journal = Journal(self.files)

    def append(self, *events: dict[str, Any]) -> None:
        self.journal.append([encode_line(event) for event in events])

    def seal(self) -> None:
        seal(self.files, self.journal, rotate_active=True)

    def view(self) -> LogView:
        return open_view(self.files)

    def make_index(self, fresh: bool = False) -> "index.BuildReport | None":
        with self.view() as view:
            return index.make(REAL, self.layout, view, fresh=fresh)

    def events(self) -> list[dict[str, Any]]:
        with self.view() as view:
            return list(view.iterate())

    def query(self, sql: str, *parameters: Any, limits: Limits | None = None, **lent: Any) -> Any:
        with self.view() as view:
            return run(Snapshot(view, self.layout, REAL, **lent), sql, list(parameters) or None, limits)

    def rows(self, sql: str, *parameters: Any) -> list[tuple[Any, ...]]:
        found: list[tuple[Any, ...]] = self.query(sql, *parameters).rows
        return found

    def tables(self) -> dict[str, dict[Any, dict[str, Any]]]:
        """Every projection as one query sees it, by key."""
        # What other events say is no part of a projection: test_spans.py, test_calls.py and others have it.
        own = {name: f"(SELECT {quoted(_own(name))} FROM {name})" for name in KEYS}
        lists = ", ".join(f"(SELECT list(one) FROM {own[name]} AS one)" for name in KEYS)
        found = {}
        for name, rows in zip(KEYS, self.rows(f"SELECT {lists}")[0], strict=True):
            found[name] = {_key(row, KEYS[name]): row for row in rows or ()}
            assert len(found[name]) == len(rows or ()), f"{name} has two rows of one key"
        return found


def _own(name: str) -> list[str]:
    return [column for column in names_of(COLUMNS_OF[name]) if column not in ASKED_FOR]


def _key(row: dict[str, Any], names: tuple[str, ...]) -> Any:
    return row[names[0]] if len(names) == 1 else tuple(row[name] for name in names)


def event(event_type: str, number: int, **columns: Any) -> dict[str, Any]:
    """An event with what every event needs; `number` makes its id."""
    given = {name: value for name, value in columns.items() if value is not None}
    return {
        "event_id": f"{number:032x}",
        "event_type": event_type,
        "event_kind": "fact",
        "source": "system",
        "payload": {},
        **given,
    }


def _maybe(*values: Any) -> st.SearchStrategy[Any]:
    return st.sampled_from((None, *values))


_TEXT = st.sampled_from(("a", "Grüße", "x'y\"z\\", "two\nlines", "null"))
_TEXTS = st.lists(_TEXT, max_size=2)
_TIMES = st.none() | st.integers(0, 5).map(lambda n: 1_700_000_000_000_000 + n)
_COUNTS = _maybe(0, 1, 7, 7, 2**40)

_PAYLOADS = {
    "turn": st.fixed_dictionaries(
        {},
        optional={
            "user_message": st.none() | _TEXT,
            "user_request": st.none() | _TEXT,
            "outcome": st.none() | _TEXT,
            "decisions": st.none() | _TEXTS,
            "actions_taken": st.none() | _TEXTS,
            "files_read": st.none() | _TEXTS,
            "files_modified": st.none() | _TEXTS,
            "line_place": st.none() | st.integers(0, 9),
            "closed_by": st.none() | st.sampled_from(["hook", "doctor"]),
            "unknown": st.just({"deep": [1.50, "é"]}),
        },
    ),
    "session": st.fixed_dictionaries(
        {},
        optional={
            "summary": st.none() | _TEXT,
            "end_reason": st.none() | _TEXT,
            "slug": _TEXT,
            "hook_us": st.just(7),
            "session_id": st.just("s1"),
        },
    ),
}

_COLUMNS_OF_TYPE: dict[str, dict[str, Any]] = {
    "session": {
        "operation": _maybe("start", "end", "update"),
        "status": _maybe(None, None, "active", "closed"),
        "title": _maybe("S", "T"),
        "context_id": _maybe(None, "session:slug_s1", "session:other_s2"),
        "extends": _maybe(["r1:sessions"], ["r1:sessions", "session:old_s9"], []),
    },
    "turn": {
        "operation": _maybe("start", "start", "end", "end", "resume", "update"),
        "status": _maybe(None, None, "active", "completed", "interrupted", "rewritten"),
        "title": _maybe("T", "U"),
    },
    "sessions": {
        "operation": _maybe("start"),
        "title": _maybe("project"),
        "extends": _maybe(["knowledge:project_r1"]),
    },
    "file": {"operation": _maybe("edit", "read", "delete"), "path": _maybe("a.py", "b/c.py", "é.txt")},
    "decision": {"title": _maybe("D", "E")},
    "error": {"resolved": _maybe(True, False)},
    "snapshot": {
        "tree_hash": _maybe("blake3:01", "blake3:02"),
        "operation": _maybe("turn_start", "tool", "turn_end"),
        "success": _maybe(True, False),
    },
    "llm": {
        "message_id": _maybe("m1", "m2", "m3"),
        "request_id": _maybe("r1", "r2"),
        "model": _maybe("M"),
        "subagent_id": _maybe("sub"),
        "duration_ms": _COUNTS,
        "prompt_tokens": _COUNTS,
        "completion_tokens": _COUNTS,
        "cache_read_tokens": _COUNTS,
    },
    "action": {"tool": _maybe("Bash")},
    "mcp_action": {},
    "intent": {},
}

_TYPES_TEXT = (
    "session turn turn sessions file file decision error snapshot llm llm llm action mcp_action intent"
)
_TYPES = st.sampled_from(_TYPES_TEXT.split())


@st.composite
def events(draw: st.DrawFn) -> dict[str, Any]:
    """Any event; sessions, turns, calls and ids come from small pools, so that they meet."""
    event_type = draw(_TYPES)
    columns = {
        "session_id": draw(_maybe("s1", "s2", "s3", "S_4")),
        "turn": draw(_maybe(None, 0, 1, 2, 1000)) if event_type not in ("session", "sessions") else None,
        "agent": draw(_maybe("claude-code", "git", "script")),
        "agent_session_id": draw(_maybe("x", "y")),
        "repo": draw(_maybe("r1", "R.2")),
        "branch": draw(_maybe("main", "topic")),
        "commit": draw(_maybe("c1", "c2")),
        "occurred_at": draw(_TIMES),
        "recorded_at": draw(_TIMES),
    }
    for name, values in _COLUMNS_OF_TYPE[event_type].items():
        columns[name] = draw(values)
    payload = draw(_PAYLOADS.get(event_type, st.just({"text": "t"})))
    return event(event_type, draw(st.integers(0, 200)), **columns, payload=payload)


STEPS = ("append", "append", "append", "seal", "seal", "index")


@st.composite
def histories(draw: st.DrawFn) -> list[tuple[str, list[dict[str, Any]]]]:
    """Steps of a store's life: batches of events, with sealing and indexing in between."""
    steps = draw(st.lists(st.sampled_from(STEPS), min_size=2, max_size=9))
    return [
        (step, draw(st.lists(events(), min_size=1, max_size=12)) if step == "append" else [])
        for step in steps
    ]


def live(log: Log, history: "list[tuple[str, list[dict[str, Any]]]]") -> None:
    """Let the log go through a history."""
    for step, batch in history:
        if step == "append":
            log.append(*batch)
        elif step == "seal":
            log.seal()
        else:
            log.make_index()


@contextmanager
def index_tables(log: Log, name: str) -> Iterator[dict[str, list[Any]]]:
    """The tables of an index file, sorted, as lists of rows."""
    con = duckdb.connect()
    con.execute(f"ATTACH '{log.layout.index(name)}' AS idx (READ_ONLY); SET TimeZone = 'UTC'")
    try:
        yield {
            table: sorted(
                (row for row in con.execute(f"SELECT COLUMNS(*)::VARCHAR FROM idx.{table}").fetchall()),
                key=repr,
            )
            for table in ("calls", "turns", "sessions", "master_keys", "sessions_master", "event_ids")
        }
    finally:
        con.close()
