"""`locus sql`: one question in SQL."""

import datetime
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import partial
from typing import Any

import click

import eventlog

from ..access import open_store
from ..confine import ends_within, go_on_in_child
from ..exits import usage_error
from ..lake.asking import lake_directory, lake_options, open_lake
from ..options import force_option
from ..output import BINARY, FORMATS, encoded, put
from ..progress import Progress

_MIB = 1 << 20


# A query may begin with a comment, `-- like this`, which is not an option.
_HOW_TO_ASK = "`locus sql 'describe events'` lists the columns of a view, `locus sql --help` has examples."


@click.command("sql", context_settings={"ignore_unknown_options": True})
@click.argument("query", metavar="[QUERY]", required=False)
@click.option("--file", "-f", "source", metavar="FILE", help="Read the question from FILE; - is stdin.")
@click.option(
    "--param", "-p", "assignments", metavar="NAME=VALUE", multiple=True,
    help="The value of $NAME. NAME:TYPE=VALUE says its type: text, int, float, bool, time.",
)  # fmt: skip
@click.option("--store", "stores", metavar="DIR", multiple=True, help="Ask this store; repeatable.")
@click.option("--all-stores", is_flag=True, help="Ask every store that you have made or recorded into.")
@lake_options
@click.option("--format", "form", type=click.Choice(FORMATS), default="table", show_default=True)
@click.option("--to", "--output", "-o", "output", metavar="FILE", type=click.Path(), help="Write to FILE.")
@force_option
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
def command(
    query: str | None,
    source: str | None,
    assignments: tuple[str, ...],
    stores: tuple[str, ...],
    all_stores: bool,
    lake: str | None,
    lake_events: int,
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
    With --lake each event counts once, however many stores published it (docs/lake-questions.md).

    \b
    locus sql "select title, event_count from turns order by event_count desc limit 5"
    locus sql "select path, count(*) as edits from files group by path order by edits desc limit 5"
    locus sql "select file_at('README.md', 'last')"
    locus sql -p since:time=2026-03-01 "select title from turns where started_at >= $since"
    """
    form = "json" if as_json else form
    if form in BINARY and output is None and sys.stdout.isatty():
        raise usage_error(f"{form} is binary; give --to FILE, or redirect the output")
    if output is not None:
        from eventlog.exports import files

        files.check_free(output, force=force)
    if lake is not None and (stores or all_stores):
        raise usage_error("--lake means all stores of a place; give it without --store and --all-stores")
    text = _question(query, source)
    parameters = _parameters(assignments)
    limits = eventlog.Limits(rows_max=rows, timeout_s=timeout or None, memory_bytes=memory)
    with lake_directory(lake) as directory:
        go_on_in_child(memory, timeout or None)
        asking: AbstractContextManager[_Asked] = _asking(stores, all_stores)
        if lake is not None:
            asking = nullcontext(
                _asked_by(open_lake(lake, directory, lake_events, sql=text, memory_bytes=memory))
            )
        with asking as (query_of, table_of), Progress("asking"):
            ask = partial(table_of if form in BINARY else query_of, text, parameters, limits=limits)
            data = _asked(text, limits, lambda: encoded(ask(), form, to_file=output is not None))
    _write(data, output, size, force)


# The Python functions that give rows, and an Arrow table.
_Asked = tuple[Callable[..., Any], Callable[..., Any]]


def _asked_by(log: Any) -> _Asked:
    return log.query, log.sql


@contextmanager
def _asking(stores: tuple[str, ...], all_stores: bool) -> Iterator[_Asked]:
    """What gives rows, and what gives an Arrow table: of this store, or of several."""
    if not (stores or all_stores):
        with open_store() as store:
            yield _asked_by(store)
        return
    from eventlog import multi_store

    with multi_store.opened(stores, every=all_stores) as opened:
        for path in opened.gone:
            click.echo(f"left out: {path}", err=True)
        yield partial(multi_store.query, opened), partial(multi_store.sql, opened)


def _question(query: str | None, source: str | None) -> str:
    if query is not None and source is not None:
        raise usage_error("give the question or --file, not both")
    if query is None and source is None:
        raise usage_error("give a question, or --file with one")
    if "-" in (query, source):
        return sys.stdin.read()
    if source is None:
        return query or ""
    with open(source, encoding="utf-8", errors="surrogateescape") as file:
        return file.read()


def _parameters(assignments: tuple[str, ...]) -> dict[str, Any] | None:
    """The values of `NAME=VALUE`: numbers, true, false and null as such, all else as text."""
    values: dict[str, Any] = {}
    for assignment in assignments:
        head, equals, value = assignment.partition("=")
        name, _, kind = head.partition(":")
        if not equals or not name.isidentifier():
            raise usage_error(f"a parameter is NAME=VALUE or NAME:TYPE=VALUE, and this is {assignment!r}")
        try:
            values[name] = _value(value, kind)
        except (ValueError, KeyError) as error:
            raise usage_error(f"{value!r} is not of the type {kind!r} ({assignment})") from error
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


def _asked(text: str, limits: "eventlog.Limits", ask: Callable[[], bytes]) -> bytes:
    """The result of `ask`; a Ctrl-C ends the wait at once, and an error names its line and column.

    DuckDB does not check for signals while it works. After a Ctrl-C only reading goes on, and the process
    ends next.
    """

    from .sql_error_location import with_location

    answers: list[bytes] = []
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
    if isinstance(failures[0], eventlog.QueryError):
        message = with_location(str(failures[0]), text)
        if message.startswith("Parser Error"):
            message += f". {_HOW_TO_ASK}"
        raise eventlog.QueryError(message) from failures[0]
    raise failures[0]


def _write(data: bytes, output: str | None, size: int, force: bool) -> None:
    if len(data) > size:
        raise eventlog.QueryError(
            f"the answer takes {len(data):,} bytes, more than {size:,}. Ask for less, or raise --bytes."
        )
    if output is None:
        put(data)
        return
    from eventlog.exports import files

    with files.staged(output, force=force) as file:
        file.write(data)
