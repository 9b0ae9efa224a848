"""Answers of questions, within their limits: rows as Python values, or an Arrow table. Any thread."""

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import duckdb

from eventlog.base.errors import QueryError, Unsupported
from eventlog.projections import source
from eventlog.query.safe import Statement

if TYPE_CHECKING:
    import pandas
    import polars
    import pyarrow as pa


Parameters = Sequence[Any] | Mapping[str, Any] | None


@dataclass(frozen=True, slots=True)
class Limits:
    """What one query may use.

    A result of more than `rows_max` rows is an error, never a silent cut; with `truncate` it is cut and
    says so in `Result.truncated`. Time counts from the call; None is without limit.
    """

    rows_max: int = 1_000_000
    truncate: bool = False
    timeout_s: "float | None" = 300.0
    memory_bytes: int = 2 << 30
    threads: "int | None" = None


@dataclass(frozen=True, slots=True)
class Result:
    """An answer: names and SQL types of the columns, and the rows. Times are aware datetimes in UTC.

    `unread` are positions of the log whose events are lost to damage, so that the answer lacks them.
    """

    columns: tuple[str, ...]
    types: tuple[str, ...]
    rows: list[tuple[Any, ...]]
    truncated: bool = False
    unread: tuple[range, ...] = ()

    def arrow(self) -> "pa.Table":
        """The same answer as an Arrow table; `engine.table` makes one without going through rows."""
        return _arrow_of(self)

    def df(self) -> "pandas.DataFrame":
        """The same as a pandas data frame. Raises: Unsupported (pandas is not installed)."""
        try:
            import pandas  # noqa: F401  # pyarrow's own error names no way to install it
        except ImportError as error:
            raise _absent("df", "pandas") from error
        return self.arrow().to_pandas()

    def pl(self) -> "polars.DataFrame":
        """The same as a polars data frame. Raises: Unsupported (polars is not installed)."""
        try:
            import polars
        except ImportError as error:
            raise _absent("pl", "polars") from error
        return polars.DataFrame(self.arrow())

    def _repr_html_(self) -> str:
        """What a notebook shows: the first rows as a table, and what the answer lacks."""
        from eventlog.query.shown import html_table

        notes = ["cut there by Limits"] if self.truncated else []
        if self.unread:
            count = sum(map(len, self.unread))
            notes.append(f"events at {count:,} positions are lost to damage and not in it")
        return html_table(self.columns, self.types, self.rows, notes)


def _absent(method: str, library: str) -> Unsupported:
    return Unsupported(
        f"`{method}` needs the library {library}, which is not installed: "
        "pip install 'locus-eventlog[frames]'"
    )


# Columns and types of statements that were bound before, by their text and the kinds of their parameters.
_shapes: "dict[Hashable, tuple[tuple[str, ...], tuple[str, ...]]]" = {}
_SHAPES_MAX = 256


class Answerable:
    """A statement that safe mode allowed, on a connection that has what it names, and not run yet.

    A relation of DuckDB would bind the statement again with each step that is added, and with each name that
    it is asked for. So a relation only gives the columns, once in a process, and one statement around the
    question runs.
    """

    def __init__(self, con: duckdb.DuckDBPyConnection, statement: Statement, parameters: Parameters) -> None:
        """Raises: duckdb.Error (the statement cannot be bound)."""
        self._con = con
        self._statement = statement
        self._parameters = parameters
        self._key = statement.sql, _kinds_of(parameters)
        self.columns, self.types = _shapes.get(self._key, ((), ()))
        self._relation = None if self.columns else self._bound()

    def _bound(self) -> duckdb.DuckDBPyRelation:
        """The statement as DuckDB binds it, and the columns and types that it says."""
        relation = self._con.sql(self._statement.sql, params=self._parameters)
        self.columns, self.types = tuple(relation.columns), tuple(map(str, relation.types))
        return relation

    def rows(self, count: int) -> "list[tuple[Any, ...]]":
        """At most `count` rows as Python values."""
        if self._relation is not None and self._statement.is_explained:  # has run, and is no part of a SELECT
            return self._relation.limit(count).fetchall()
        self._con.execute(self._limited(_unzoned(self.columns, self.types), count), self._parameters)
        if self._relation is None and not self._is_as_known():
            self._con.abort()
            self._relation = self._bound()
            return self.rows(count)
        rows = self._con.fetchall()
        self._remember()
        zoned = [i for i, kind in enumerate(self.types) if _ZONED in kind]
        return _with_zones(rows, zoned) if zoned else rows

    def _remember(self) -> None:
        """Let the next question of this text run at once, where columns and parameters can be compared."""
        if self._key[1] is not None and _are_named(self.columns):
            if len(_shapes) >= _SHAPES_MAX:
                _shapes.clear()
            _shapes[self._key] = self.columns, self.types

    def _is_as_known(self) -> bool:
        """Whether what runs has the columns of the statement when it was bound."""
        columns = [(str(column[0]), str(column[1])) for column in self._con.description or ()]
        return columns == list(zip(self.columns, map(_plain, self.types), strict=True))

    def arrow(self, count: int) -> "pa.Table":
        """At most `count` rows as an Arrow table."""
        relation = self._bound() if self._relation is None else self._relation
        if self._statement.is_explained:
            relation = relation.limit(count)
        else:
            relation = self._con.sql(self._limited("*", count), params=self._parameters)
        return relation.to_arrow_table().rename_columns(list(self.columns))

    def _limited(self, columns: str, count: int) -> str:
        """The statement that runs; ours is a line before the question's (`safe.explain_error`)."""
        return f"SELECT {columns} FROM (\n{self._statement.sql}\n) LIMIT {count}"


def rows_within(limits: Limits) -> "Callable[[Answerable], Result]":
    """A function that makes a Result of an answerable statement."""

    def rows(question: Answerable) -> Result:
        rows_read = question.rows(limits.rows_max + 1)
        truncated = len(rows_read) > limits.rows_max
        if truncated:
            _check_truncation(limits)
            del rows_read[limits.rows_max :]
        return Result(question.columns, question.types, rows_read, truncated)

    return rows


def arrow_within(limits: Limits) -> "Callable[[Answerable], pa.Table]":
    """A function that makes an Arrow table of an answerable statement."""

    def arrow(question: Answerable) -> "pa.Table":
        table = question.arrow(limits.rows_max + 1)
        if table.num_rows > limits.rows_max:
            _check_truncation(limits)
            return table.slice(0, limits.rows_max)
        return table

    return arrow


def _check_truncation(limits: Limits) -> None:
    if not limits.truncate:
        raise QueryError(
            f"the answer has more than {limits.rows_max:,} rows. Add a LIMIT or an aggregate, "
            "or raise the limit (`locus sql --rows N`)."
        )


_ZONED, _PLAIN = "TIMESTAMP WITH TIME ZONE", "TIMESTAMP"


def _unzoned(columns: "tuple[str, ...]", types: "tuple[str, ...]") -> str:
    """The select list of a statement with times without their zone, which is always UTC.

    DuckDB needs the package pytz to make an aware datetime; `_with_zones` does without.
    """
    if not _are_named(columns):
        kinds = [f"::{_plain(kind)}" if _ZONED in kind else "" for kind in types]
        return ", ".join(f"#{number}{kind}" for number, kind in enumerate(kinds, 1))
    names = ['"{}"'.format(name.replace('"', '""')) for name in columns]
    zoned = [(name, _plain(kind)) for name, kind in zip(names, types, strict=True) if _ZONED in kind]
    return f"* REPLACE ({', '.join(f'{name}::{kind} AS {name}' for name, kind in zoned)})" if zoned else "*"


def _are_named(columns: "tuple[str, ...]") -> bool:
    """Whether each column has a name of its own."""
    return len(set(map(str.lower, columns))) == len(columns)


def _kinds_of(parameters: Parameters) -> "tuple[Any, ...] | None":
    """What tells parameters of other types from these; None where that lies within a value."""
    names: tuple[str, ...] = ()
    if isinstance(parameters, Mapping):
        names, parameters = tuple(parameters), list(parameters.values())
    if any(isinstance(value, (list, tuple, dict)) for value in parameters or ()):
        return None
    return *names, *map(type, parameters or ())


def _plain(kind: str) -> str:
    """A type whose times have no zone."""
    return kind.replace(_ZONED, _PLAIN)


def _with_zones(rows: "list[tuple[Any, ...]]", zoned: "list[int]") -> "list[tuple[Any, ...]]":
    aware = []
    for row in rows:
        values = list(row)
        for i in zoned:
            values[i] = _in_utc(values[i])
        aware.append(tuple(values))
    return aware


def _in_utc(value: Any) -> Any:
    if isinstance(value, datetime):
        return value.replace(tzinfo=UTC)
    if isinstance(value, list):
        return [_in_utc(item) for item in value]
    if isinstance(value, dict):
        return {key: _in_utc(item) for key, item in value.items()}
    return value


def _arrow_of(result: Result) -> "pa.Table":
    columns = [[row[i] for row in result.rows] for i in range(len(result.columns))]
    with source.connect() as con:
        if not result.rows:
            selects = [f"NULL::{kind} AS c{i}" for i, kind in enumerate(result.types)]
            table = con.sql(f"SELECT {', '.join(selects)} WHERE false").to_arrow_table()
        else:
            selects = [f"unnest(?::{kind}[]) AS c{i}" for i, kind in enumerate(result.types)]
            table = con.sql(f"SELECT {', '.join(selects)}", params=columns).to_arrow_table()
    return table.rename_columns(list(result.columns))
