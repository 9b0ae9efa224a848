"""Answers of questions, within their limits: rows as Python values, or an Arrow table. Any thread."""

from collections.abc import Callable, Iterator, Mapping, Sequence
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


class Answerable:
    """A statement that safe mode allowed, bound on its connection and not run yet.

    A relation of DuckDB would bind the statement again with each step that is added, and with each name that
    it is asked for. So the relation only gives the columns, and one statement around the question runs.
    """

    def __init__(self, con: duckdb.DuckDBPyConnection, statement: Statement, parameters: Parameters) -> None:
        """Raises: duckdb.Error (the statement cannot be bound)."""
        self._con = con
        self._parameters = parameters
        self._relation = con.sql(statement.sql, params=parameters)
        self._is_explained = statement.is_explained
        self.columns = tuple(self._relation.columns)
        self.types = tuple(map(str, self._relation.types))
        self._sql = statement.sql

    def rows(self, count: int) -> "list[tuple[Any, ...]]":
        """At most `count` rows as Python values."""
        if self._is_explained:  # has run, and is no part of a SELECT
            return self._relation.limit(count).fetchall()
        text = self._limited(", ".join(_unzoned(self.types)), count)
        rows = self._con.execute(text, self._parameters).fetchall()
        zoned = [i for i, kind in enumerate(self.types) if _ZONED in kind]
        return _with_zones(rows, zoned) if zoned else rows

    def arrow(self, count: int) -> "pa.Table":
        """At most `count` rows as an Arrow table."""
        relation = self._relation.limit(count)
        if not self._is_explained:
            relation = self._con.sql(self._limited("*", count), params=self._parameters)
        return relation.to_arrow_table().rename_columns(list(self.columns))

    def _limited(self, columns: str, count: int) -> str:
        """The statement that runs; ours is a line before the question's (`safe.explain_error`)."""
        return f"SELECT {columns} FROM (\n{self._sql}\n) LIMIT {count}"


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


def _unzoned(types: "tuple[str, ...]") -> "Iterator[str]":
    """The columns of a statement by their numbers, times without their zone, which is always UTC.

    DuckDB needs the package pytz to make an aware datetime; `_with_zones` does without.
    """
    for number, kind in enumerate(types, 1):
        yield f"#{number}::{kind.replace(_ZONED, _PLAIN)}" if _ZONED in kind else f"#{number}"


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
