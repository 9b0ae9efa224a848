"""The SQL functions about files: their names, their results, and how a connection gets them.

`file_at` and `blob_at` are scalars; `timeline`, `tree_at`, `diff_between` and `history_of` are used in FROM.
Each is a macro over a function in Python, which DuckDB calls with up to 2,048 rows at a time. Their answers
come from an `Answers` (replay/answers.py), since this room is below the one with trees.

DuckDB calls from threads of its own, one at a time per `Answers`. The engine raises an error from there as it
is; DuckDB would turn it into a text.
"""

import sys
import threading
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from types import ModuleType
from typing import TYPE_CHECKING, Any, Protocol

import duckdb
from duckdb.func import FunctionNullHandling, PythonUDFType

from eventlog.projections.definitions import HAPPENED_AT, TIME, Columns

if TYPE_CHECKING:
    import pyarrow as pa

    from eventlog.query.engine import Result

Texts = Sequence["str | None"]
Rows = list[list[dict[str, Any]] | None]

# Runs one of our SELECTs over the views of one store.
Ask = Callable[[str, Sequence[Any]], "Result"]


class Answers(Protocol):
    """The answers of the functions, for many rows at once; None where an argument is None or unknown."""

    def contents(self, paths: Texts, turns: Texts) -> "list[bytes | None]":
        """The content of a file at the end of a turn."""

    def turn_ranges(self, turns: Texts) -> "list[dict[str, Any] | None]":
        """The range of positions of each turn's events, by TURN_RANGE."""

    def trees(self, turns: Texts) -> Rows:
        """The files at the end of a turn, by TREE."""

    def diffs(self, before: Texts, after: Texts) -> Rows:
        """The changes from the end of one turn to the end of another, by DIFF; within the first for None."""

    def histories(self, paths: Texts) -> Rows:
        """The versions of a file, newest first, by HISTORY."""


TURN_RANGE: Columns = (
    ("of_store", "VARCHAR", "the store, where several are asked"),
    ("of_session", "VARCHAR", "the session"),
    ("of_turn", "BIGINT", "the turn"),
    ("since", "BIGINT", "position of its first event"),
    ("until", "BIGINT", "position after its last event"),
)
TREE: Columns = (
    ("path", "VARCHAR", "path of the file, relative to the repository"),
    ("kind", "VARCHAR", "file, executable, symlink, submodule, or skipped: there, but not captured"),
    ("bytes", "BIGINT", "size of the content; null where unknown"),
    ("content_hash", "VARCHAR", "its content (`before_hash` and `after_hash` elsewhere); null when skipped"),
    ("doubt", "VARCHAR", "why this is not known to be the content there; null where it is exact"),
)
DIFF: Columns = (
    ("path", "VARCHAR", "path of the file"),
    ("old_path", "VARCHAR", "path before a rename"),
    ("operation", "VARCHAR", "add, edit, delete, rename, mode, type"),
    ("before_hash", "VARCHAR", "content before, null when there was none"),
    ("after_hash", "VARCHAR", "content after, null when there is none"),
    ("lines_added", "BIGINT", "lines added; null when binary, withheld, or gone"),
    ("lines_removed", "BIGINT", "lines removed; null when binary, withheld, or gone"),
    ("doubt", "VARCHAR", "why one side is not known to be the content there; null where both are exact"),
    ("diff", "VARCHAR", "the change in git's format; null when binary, withheld, or gone"),
)
HISTORY: Columns = (
    ("position", "BIGINT", "position of the event in the log"),
    ("event_id", "VARCHAR", "the event that records the version"),
    ("session_id", "VARCHAR", "the session"),
    ("turn", "BIGINT", "the turn, null outside turns"),
    ("turn_name", "VARCHAR", "name of the turn, as file_at takes it"),
    ("agent", "VARCHAR", "the program that acts"),
    ("commit", "VARCHAR", "git commit"),
    ("at", TIME, "when it happened, or was recorded"),
    ("operation", "VARCHAR", "add, edit, delete, rename"),
    ("path", "VARCHAR", "path it had then"),
    ("old_path", "VARCHAR", "path before a rename"),
    ("before_hash", "VARCHAR", "content before"),
    ("after_hash", "VARCHAR", "content after"),
    ("lines_added", "BIGINT", "lines added"),
    ("lines_removed", "BIGINT", "lines removed"),
    ("cause", "VARCHAR", "id of the event that led to it"),
    ("title", "VARCHAR", "title of the turn"),
    ("user_request", "VARCHAR", "what the user asked in the turn"),
)

_TABLE = "TABLE SELECT unnest({call}, recursive := true)"
_HISTORY = ", ".join(
    'make_timestamptz("at") AS "at"' if name == "at" else f'"{name}"' for name, _, _ in HISTORY
)
_TIMELINE = (
    "TABLE SELECT e.* FROM memory.main.events AS e "
    "JOIN (SELECT unnest(locus_turn(turn_name::VARCHAR), recursive := true)) AS t "
    "ON {also}e.session_id = t.of_session AND e.turn = t.of_turn "
    "AND e.position >= t.since AND e.position < t.until "
    f"ORDER BY last_value({HAPPENED_AT} IGNORE NULLS) OVER (ORDER BY e.position) NULLS FIRST, e.position"
)

# What a connection gets for each function: macros over functions in Python.
_MACROS = {
    "file_at": (
        "(path, turn) AS locus_text(path::VARCHAR, turn::VARCHAR), "
        "(path, session, turn) AS locus_text(path::VARCHAR, session || '_' || turn)"
    ),
    "blob_at": (
        "(path, turn) AS locus_bytes(path::VARCHAR, turn::VARCHAR), "
        "(path, session, turn) AS locus_bytes(path::VARCHAR, session || '_' || turn)"
    ),
    "timeline": f"(turn_name) AS {_TIMELINE}",
    "tree_at": f"(turn) AS {_TABLE.format(call='locus_tree(turn::VARCHAR)')}",
    "diff_between": f"(a, b := NULL) AS {_TABLE.format(call='locus_diff(a::VARCHAR, b::VARCHAR)')}",
    # A parameter's name would hide a column's.
    "history_of": f"(name) AS TABLE SELECT {_HISTORY} "
    "FROM (SELECT unnest(locus_history(name::VARCHAR), recursive := true))",
}
NAMES = frozenset(_MACROS)

# The views from which their answers come.
VIEWS = frozenset(("events", "turns"))


class Functions:
    """The functions of one connection."""

    def __init__(self, answers: Answers, *, several: bool = False) -> None:
        self._also = "e.store = t.of_store AND " if several else ""
        self.failure: Exception | None = None  # the first one; DuckDB's own error only quotes it
        self._answers = answers
        self._one_at_a_time = threading.Lock()

    def bind(self, con: duckdb.DuckDBPyConnection, names: "Collection[str]") -> None:
        """Make the functions of these names."""
        answers = self._answers
        made: dict[str, tuple[int, str, Callable[..., list[Any]]]] = {
            "locus_text": (2, "VARCHAR", lambda *columns: list(map(_text, answers.contents(*columns)))),
            "locus_bytes": (2, "BLOB", answers.contents),
            "locus_turn": (
                1,
                f"{_struct(TURN_RANGE)}[]",
                lambda turns: _as_lists(answers.turn_ranges(turns)),
            ),
            "locus_tree": (1, f"{_struct(TREE)}[]", answers.trees),
            "locus_diff": (2, f"{_struct(DIFF)}[]", answers.diffs),
            "locus_history": (1, f"{_struct(HISTORY, at='BIGINT')}[]", answers.histories),
        }
        for name, (count, kind, function) in made.items():
            if any(name in _MACROS[macro] for macro in names):
                arrow_kind = con.sql(f"SELECT NULL::{kind}").to_arrow_table().schema.field(0).type
                with _numpy():
                    con.create_function(
                        name,
                        self._vectorised(function, count, arrow_kind),
                        ["VARCHAR"] * count,
                        kind,
                        type=PythonUDFType.ARROW,
                        null_handling=FunctionNullHandling.SPECIAL,
                    )
        for name in names:
            con.execute(f"CREATE MACRO memory.main.{name}{_MACROS[name].replace('{also}', self._also)}")

    def _vectorised(
        self, function: "Callable[..., list[Any]]", count: int, kind: "pa.DataType"
    ) -> "Callable[..., Any]":
        """The function from lists to a list, as a function from Arrow columns to an Arrow column."""
        import pyarrow as pa

        def call(*columns: Any) -> Any:
            with self._one_at_a_time:
                try:
                    return pa.array(function(*(column.to_pylist() for column in columns)), kind)
                except Exception as error:
                    self.failure = self.failure or error
                    raise

        # DuckDB counts the parameters.
        return (lambda a: call(a)) if count == 1 else (lambda a, b: call(a, b))


@contextmanager
def _numpy() -> Iterator[None]:
    """A stand-in called numpy while DuckDB makes a function, where that package is not installed, or refused.

    DuckDB refuses to make any function in Python without it, and uses nothing of it for one over Arrow:
    2.0 reads these two names when it makes the function, and none when it calls it.
    """
    if find_spec("numpy") is not None:
        yield
        return
    stand_in = ModuleType("numpy")
    stand_in.__version__, stand_in._core = "2.0.0", None  # type: ignore[attr-defined]
    sys.modules["numpy"] = stand_in
    try:
        yield
    finally:
        del sys.modules["numpy"]


def _struct(columns: Columns, **kinds: str) -> str:
    return f"STRUCT({', '.join(f'{chr(34)}{n}{chr(34)} {kinds.get(n, kind)}' for n, kind, _ in columns)})"


def _as_lists(values: "list[Any]") -> "list[list[Any]]":
    return [[value] for value in values]


def _text(content: "bytes | None") -> "str | None":
    """The content as text; None for a binary one: it holds a NUL byte, or is not UTF-8."""
    if content is None or b"\0" in content:
        return None
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError:
        return None
