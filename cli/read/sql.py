"""`locus sql`: one question in SQL."""

import base64
import datetime
import decimal
import sys
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import click

from ..access import open_store, put
from ..confine import ends_within, go_on_in_child
from ..progress import Progress

if TYPE_CHECKING:
    from eventlog.query.engine import Limits, Result

_Answer = TypeVar("_Answer")
FORMATS = ("table", "json", "jsonl", "csv", "markdown", "parquet", "arrow")
_BINARY = ("parquet", "arrow")
_MIB = 1 << 20


# A query may begin with a comment, `-- like this`, which is not an option.
@click.command("sql", context_settings={"ignore_unknown_options": True})
@click.argument("query", metavar="[QUERY]", required=False)
@click.option("--file", "-f", "source", metavar="FILE", help="Read the question from FILE; - is stdin.")
@click.option(
    "--param", "-p", "assignments", metavar="NAME=VALUE", multiple=True,
    help="The value of $NAME. NAME:TYPE=VALUE says its type: text, int, float, bool, time.",
)  # fmt: skip
@click.option("--store", "stores", metavar="DIR", multiple=True, help="Ask this store; repeatable.")
@click.option("--all-stores", is_flag=True, help="Ask every store that you have made or recorded into.")
@click.option("--format", "form", type=click.Choice(FORMATS), default="table", show_default=True)
@click.option("--to", "--output", "-o", "output", metavar="FILE", type=click.Path(), help="Write to FILE.")
@click.option("--force", is_flag=True, help="Replace FILE if it exists.")
@click.option("--json", "as_json", is_flag=True, help="The same as --format json.")
@click.option(
    "--rows", type=click.IntRange(min=1), default=1_000_000, show_default=True, metavar="N",
    help="An answer of more rows is an error.",
)  # fmt: skip
@click.option(
    "--bytes", "size", type=click.IntRange(min=1), default=1024 * _MIB, show_default=True, metavar="N",
    help="An answer that takes more bytes as written is an error.",
)  # fmt: skip
@click.option(
    "--timeout", type=click.FloatRange(min=0), default=300.0, show_default=True, metavar="SECONDS",
    help="Stop a question that takes longer; 0 is without limit.",
)  # fmt: skip
@click.option(
    "--memory", type=click.IntRange(min=64 * _MIB), default=2048 * _MIB, show_default=True, metavar="BYTES",
    help="A question that needs more memory is an error.",
)  # fmt: skip
@click.pass_context
def command(
    ctx: click.Context,
    query: str | None,
    source: str | None,
    assignments: tuple[str, ...],
    stores: tuple[str, ...],
    all_stores: bool,
    form: str,
    output: str | None,
    force: bool,
    as_json: bool,
    rows: int,
    size: int,
    timeout: float,
    memory: int,
) -> None:
    """Ask a question in SQL (one SELECT, DuckDB's dialect); QUERY - reads it from standard input.

    docs/sql.md has the views and functions: events, sessions, turns, actions, files, file_versions,
    llm_calls, decisions, errors; file_at(path, turn) and more. `describe turns` shows the columns of a
    view. Nothing can be changed this way. With --store or --all-stores each view has a column store.

    \b
    locus sql "select title, event_count from turns order by event_count desc limit 5"
    locus sql "select path, count(*) as edits from files group by path order by edits desc limit 5"
    locus sql "select file_at('README.md', 'last')"
    locus sql -p since:time=2026-03-01 "select title from turns where started_at >= $since"
    """
    form = "json" if as_json else form
    if form in _BINARY and output is None and sys.stdout.isatty():
        raise click.UsageError(f"{form} is binary; give --to FILE, or redirect the output", ctx)
    if output is not None:
        from eventlog.exports import files

        files.check_free(output, force=force)
    text = _question(ctx, query, source)
    parameters = _parameters(ctx, assignments)
    go_on_in_child(memory, timeout or None)

    from eventlog.query.engine import Limits

    limits = Limits(rows_max=rows, timeout_s=timeout or None, memory_bytes=memory)
    if stores or all_stores:
        data = _of_many(stores, all_stores, text, parameters, limits, form, output is not None)
    else:
        with open_store(ctx) as store, Progress("asking"):
            data = _asked(
                text,
                limits,
                lambda: (
                    _encoded_arrow(store.sql(text, parameters, limits=limits), form, output is not None)
                    if form in _BINARY
                    else _encoded(
                        store.query(text, parameters, limits=limits), form, to_file=output is not None
                    )
                ),
            )
    _write(data if isinstance(data, bytes) else data.encode("utf-8", "surrogateescape"), output, size, force)


def _of_many(
    stores: tuple[str, ...],
    all_stores: bool,
    text: str,
    parameters: dict[str, Any] | None,
    limits: "Limits",
    form: str,
    to_file: bool,
) -> bytes | str:
    from eventlog import multi_store

    with multi_store.opened(stores, every=all_stores) as opened, Progress("asking"):
        for path in opened.gone:
            click.echo(f"left out: {path}", err=True)
        return _asked(
            text,
            limits,
            lambda: (
                _encoded_arrow(multi_store.sql(opened, text, parameters, limits=limits), form, to_file)
                if form in _BINARY
                else _encoded(
                    multi_store.query(opened, text, parameters, limits=limits), form, to_file=to_file
                )
            ),
        )


def _question(ctx: click.Context, query: str | None, source: str | None) -> str:
    if query is not None and source is not None:
        raise click.UsageError("give the question or --file, not both", ctx)
    if query is None and source is None:
        raise click.UsageError("give a question, or --file with one", ctx)
    if "-" in (query, source):
        return sys.stdin.read()
    if source is None:
        return query or ""
    with open(source, encoding="utf-8", errors="surrogateescape") as file:
        return file.read()


def _parameters(ctx: click.Context, assignments: tuple[str, ...]) -> dict[str, Any] | None:
    """The values of `NAME=VALUE`: numbers, true, false and null as such, all else as text."""
    values: dict[str, Any] = {}
    for assignment in assignments:
        head, equals, value = assignment.partition("=")
        name, _, kind = head.partition(":")
        if not equals or not name.isidentifier():
            raise click.UsageError(
                f"a parameter is NAME=VALUE or NAME:TYPE=VALUE, and this is {assignment!r}", ctx
            )
        try:
            values[name] = _value(value, kind)
        except (ValueError, KeyError) as error:
            raise click.UsageError(f"{value!r} is not of the type {kind!r} ({assignment})", ctx) from error
    return values or None


def _value(text: str, kind: str) -> Any:
    import json

    if kind == "":
        try:
            value = json.loads(text)
        except ValueError:
            return text
        return value if value is None or isinstance(value, (int, float)) else text
    if kind == "time":
        time = datetime.datetime.fromisoformat(text)
        return time if time.tzinfo else time.replace(tzinfo=datetime.UTC)
    makers: dict[str, Callable[[str], Any]] = {
        "text": str, "int": int, "float": float, "bool": {"true": True, "false": False}.__getitem__,
    }  # fmt: skip
    return makers[kind](text)


def _asked(text: str, limits: "Limits", ask: "Callable[[], _Answer]") -> "_Answer":
    """The result of `ask`; a Ctrl-C ends the wait at once, and an error names its line and column.

    DuckDB does not check for signals while it works. After a Ctrl-C only reading goes on, and the process
    ends next.
    """
    from eventlog.base.errors import QueryError

    from .sql_error_location import with_location

    answers: list[_Answer] = []
    failures: list[BaseException] = []

    def work() -> None:
        try:
            answers.append(ask())
        except BaseException as error:  # raised in the thread that waits
            failures.append(error)

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    try:
        with ends_within(limits.timeout_s):
            thread.join()
            if failures and isinstance(failures[0], MemoryError):
                raise failures[0]
    except KeyboardInterrupt as error:
        raise click.Abort from error
    if not failures:
        return answers[0]
    if isinstance(failures[0], QueryError):
        raise QueryError(with_location(str(failures[0]), text)) from failures[0]
    raise failures[0]


def _write(data: bytes, output: str | None, size: int, force: bool) -> None:
    from eventlog.base.errors import QueryError

    if len(data) > size:
        raise QueryError(
            f"the answer takes {len(data):,} bytes, more than {size:,}. Ask for less, or raise --bytes."
        )
    if output is None:
        put(data)
        return
    from eventlog.exports import files

    with files.staged(output, force=force) as file:
        file.write(data)


def _encoded_arrow(table: Any, form: str, to_file: bool) -> bytes:
    """Parquet or Arrow: in a file Arrow's seekable file format, on a pipe its stream."""
    import pyarrow as pa

    sink = pa.BufferOutputStream()
    if form == "parquet":
        import pyarrow.parquet as pq

        pq.write_table(table, sink, compression="zstd")
    else:
        begin = pa.ipc.new_file if to_file else pa.ipc.new_stream
        with begin(sink, table.schema) as writer:
            writer.write_table(table)
    return sink.getvalue().to_pybytes()  # type: ignore[no-any-return]


def _encoded(result: "Result", form: str, *, to_file: bool) -> bytes | str:
    if form in ("json", "jsonl"):
        from .. import jsonout

        whole = jsonout.rows if form == "json" else jsonout.row_lines
        return whole(list(result.columns), result.rows)
    if form == "csv":
        return _csv(result)
    return _markdown(result) if form == "markdown" else _table(result, 0 if to_file else None)


def _csv(result: "Result") -> str:
    import csv
    import io

    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(result.columns)
    writer.writerows([["" if value is None else _field(value) for value in row] for row in result.rows])
    return text.getvalue()


def _field(value: Any) -> str:
    """A value in CSV. Each type has one spelling, so that a column can be parsed by its first row."""
    if isinstance(value, datetime.datetime):
        return value.isoformat(timespec="microseconds").replace("+00:00", "Z")
    if isinstance(value, datetime.timedelta):
        return str(value.total_seconds())
    if isinstance(value, bytes):
        return base64.b64encode(value).decode("ascii")
    return _plain(value)


def _markdown(result: "Result") -> str:
    def line(cells: list[str]) -> str:
        escaped = [cell.replace("\\", "\\\\").replace("|", "\\|").replace("<", "&lt;") for cell in cells]
        return f"| {' | '.join(escaped)} |\n"

    numeric = [_is_numeric([row[i] for row in result.rows]) for i in range(len(result.columns))]
    marks = "|".join("---:" if is_number else "---" for is_number in numeric)
    rows = [line(["" if v is None else _cell(v) for v in row]) for row in result.rows]
    return line([_cell(name) for name in result.columns]) + f"|{marks}|\n" + "".join(rows)


def _table(result: "Result", width: int | None) -> str:
    """A table; on a too narrow terminal, each row as lines of names and values."""
    from ..table import minimum_width, pairs, render
    from ..text import count, terminal_width

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
    present = [v for v in values if v is not None]
    numbers = (int, float, decimal.Decimal)
    return bool(present) and all(isinstance(v, numbers) and not isinstance(v, bool) for v in present)


def _cell(value: Any) -> str:
    from ..text import one_line

    if value is None:
        return "-"
    if isinstance(value, decimal.Decimal):
        return _short(value)
    return one_line(_plain(value))


def _short(value: decimal.Decimal) -> str:
    """A number without the trailing zeros of its type, for people."""
    text = f"{value:f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def _plain(value: Any) -> str:
    """A value as one text: times in UTC without a zone, nested values as JSON."""
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, datetime.datetime):
        return value.isoformat(sep=" ").removesuffix("+00:00")
    if isinstance(value, (datetime.date, datetime.time)):
        return value.isoformat()
    if isinstance(value, (list, dict, bytes)):
        from ..jsonout import compact

        return compact(value)
    return str(value)
