"""Answers of questions, within their limits: rows as Python values, or an Arrow table. Any thread."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import duckdb

from eventlog.base.errors import QueryError, Unsupported
from eventlog.projections import source

if TYPE_CHECKING:
    import pandas
    import polars
    import pyarrow as pa


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


def rows_within(limits: Limits) -> "Callable[[duckdb.DuckDBPyRelation], Result]":
    """A function that makes a Result of a relation."""

    def rows(relation: duckdb.DuckDBPyRelation) -> Result:
        columns, types = tuple(relation.columns), tuple(map(str, relation.types))
        rows_read = _python_rows(relation, types, limits.rows_max + 1)
        if len(rows_read) > limits.rows_max:
            _check_truncation(limits)
            return Result(columns, types, rows_read[: limits.rows_max], truncated=True)
        return Result(columns, types, rows_read)

    return rows


def arrow_within(limits: Limits) -> "Callable[[duckdb.DuckDBPyRelation], pa.Table]":
    """A function that makes an Arrow table of a relation."""

    def arrow(relation: duckdb.DuckDBPyRelation) -> "pa.Table":
        table = relation.limit(limits.rows_max + 1).to_arrow_table().rename_columns(relation.columns)
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


def _python_rows(
    relation: duckdb.DuckDBPyRelation, types: "tuple[str, ...]", count: int
) -> "list[tuple[Any, ...]]":
    """At most `count` rows as Python values.

    DuckDB needs the package pytz to make an aware datetime. So times come without their zone, which
    is always UTC, and get it here.
    """
    zoned = [i for i, kind in enumerate(types) if _ZONED in kind]
    if not zoned:
        return relation.limit(count).fetchall()
    columns = [
        f"#{i + 1}::{kind.replace(_ZONED, _PLAIN)}" if i in zoned else f"#{i + 1}"
        for i, kind in enumerate(types)
    ]
    unzoned = relation.limit(count).project(", ".join(columns)).fetchall()
    rows = []
    for row in unzoned:
        values = list(row)
        for i in zoned:
            values[i] = _in_utc(values[i])
        rows.append(tuple(values))
    return rows


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
