"""`locus sql`: one question in SQL."""

import sys
from typing import TYPE_CHECKING, Any

import click

from .access import open_store, put
from .confine import confined
from .progress import Progress

if TYPE_CHECKING:
    from eventlog.query.engine import Result

FORMATS = ("table", "json", "csv", "parquet")


# A query may begin with a comment, `-- like this`, which is not an option.
@click.command("sql", context_settings={"ignore_unknown_options": True})
@click.argument("query", metavar="QUERY")
@click.option("--format", "form", type=click.Choice(FORMATS), default="table", show_default=True)
@click.option("--output", "-o", metavar="FILE", type=click.Path(), help="Write the answer to FILE.")
@click.option("--json", "as_json", is_flag=True, help="The same as --format json.")
@click.pass_context
def command(ctx: click.Context, query: str, form: str, output: str | None, as_json: bool) -> None:
    """Ask a question in SQL (one SELECT, DuckDB's dialect); QUERY - reads it from standard input.

    Views: events, sessions, turns, actions, files, llm_calls, decisions, errors, feedback,
    snapshots. `describe turns` shows the columns of one. Nothing can be changed this way.

    \b
    locus sql "select title, event_count from turns order by event_count desc limit 5"
    locus sql "select path, count(*) as edits from files group by path order by edits desc limit 5"
    """
    form = "json" if as_json else form
    if form == "parquet" and output is None and sys.stdout.isatty():
        raise click.UsageError("Parquet is binary; give --output FILE, or redirect the output", ctx)
    text = sys.stdin.read() if query == "-" else query
    with open_store(ctx) as store:
        from eventlog.query.engine import Limits

        limits = Limits()
        with confined(limits.memory_bytes, limits.timeout_s):
            with Progress("asking"):
                result = store.query(text, limits=limits)
            data = _encoded(result, form, to_file=output is not None)
    if output is None:
        put(data)
    else:
        with open(output, "wb") as file:
            file.write(data if isinstance(data, bytes) else data.encode())


def _encoded(result: "Result", form: str, *, to_file: bool) -> bytes | str:
    if form == "json":
        from .jsonout import rows

        return rows(list(result.columns), result.rows)
    if form == "parquet":
        import pyarrow as pa
        import pyarrow.parquet as pq

        sink = pa.BufferOutputStream()
        pq.write_table(result.arrow(), sink, compression="zstd")
        return sink.getvalue().to_pybytes()  # type: ignore[no-any-return]
    if form == "csv":
        return _csv(result)
    return _table(result, 0 if to_file else None)


def _csv(result: "Result") -> str:
    import csv
    import io

    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(result.columns)
    writer.writerows([["" if value is None else _plain(value) for value in row] for row in result.rows])
    return text.getvalue()


def _table(result: "Result", width: int | None) -> str:
    """A table; where a terminal is too narrow for one, the rows one below the other."""
    from .table import minimum_width, pairs, render
    from .text import count, terminal_width

    cells = [[_cell(value) for value in row] for row in result.rows]
    right = [i for i in range(len(result.columns)) if _is_numeric([row[i] for row in result.rows])]
    room = terminal_width() if width is None else width
    heads = list(result.columns)
    if room and cells and minimum_width(heads, cells, right) > room:
        shown = "\n".join(pairs(zip(heads, row, strict=True)) for row in cells) + "\n"
    else:
        shown = render(heads, cells, right=right, width=room)
    return shown + f"({count(len(cells), 'row')})\n"


def _is_numeric(values: list[Any]) -> bool:
    known = [v for v in values if v is not None]
    return bool(known) and all(isinstance(v, (int, float)) and not isinstance(v, bool) for v in known)


def _cell(value: Any) -> str:
    from .text import one_line

    if value is None:
        return "-"
    return one_line(_plain(value))


def _plain(value: Any) -> str:
    """A value as one text: times in ISO 8601, nested values as JSON."""
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if hasattr(value, "isoformat"):
        text: str = (
            value.isoformat(sep=" ")
            if hasattr(value, "hour") and hasattr(value, "year")
            else value.isoformat()
        )
        return text.removesuffix("+00:00")
    if isinstance(value, (list, dict, bytes)):
        from .jsonout import compact

        return compact(value)
    return str(value)
