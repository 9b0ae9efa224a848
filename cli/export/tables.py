"""`locus export parquet` and `duckdb`: the log as tables."""

import dataclasses
from collections.abc import Callable
from functools import wraps
from typing import Any

import click

from ..access import json_option, open_store, put, say
from ..jsonout import document
from ..progress import Progress
from ..text import count

_Command = Callable[..., Any]


def to_option(kind: str) -> Callable[[_Command], _Command]:
    """`--to`, which the command gets as `path`. Args: kind: what it names, FILE or DIRECTORY."""

    def decorate(function: _Command) -> _Command:
        @wraps(function)
        def command(older: str | None, path: str | None, **rest: Any) -> None:
            if (older is None) == (path is None):
                context = click.get_current_context()
                raise click.UsageError(f"say once where to write it: --to {kind}", context)
            function(path=older if path is None else path, **rest)

        help = f"The {kind.lower()} to write.  [required]"
        named = click.option("--to", "path", metavar=kind, type=click.Path(), help=help)(command)
        return click.argument("older", metavar="", required=False, type=click.Path())(named)

    return decorate


@click.command("parquet")
@to_option("DIRECTORY")
@click.option("--force", is_flag=True, help="Replace the files of an earlier export in DIRECTORY.")
@json_option
@click.pass_context
def parquet(ctx: click.Context, path: str, force: bool, as_json: bool) -> None:
    """Write events and projections as Parquet files into DIRECTORY.

    events-00000.parquet and further ones hold the events by position; turns, sessions, sessions_master
    and llm_calls have a file each. Columns are those of docs/sql.md. Any program that reads Parquet
    can read them: duckdb -c "from 'DIRECTORY/turns.parquet'".
    """
    from eventlog.exports.parquet import export

    with open_store(ctx) as store, Progress("exporting"):
        report = export(store, path, force=force)
    if as_json:
        put(document({"export": dataclasses.asdict(report)}))
        return
    events = sum(rows for name, rows in report.rows.items() if name.startswith("events-"))
    say(f"Wrote {count(events, 'event')} in {count(len(report.rows), 'file')} to {report.directory}.")


@click.command("duckdb")
@to_option("FILE")
@click.option("--force", is_flag=True, help="Replace FILE.")
@json_option
@click.pass_context
def duckdb(ctx: click.Context, path: str, force: bool, as_json: bool) -> None:
    """Write the log as one DuckDB file.

    It has every view of docs/sql.md under its name: events, turns, sessions, sessions_master and llm_calls
    as tables, the others as views over events. Contents are not in it, so file_at and the like are not
    there. Any DuckDB of version 2 or newer opens it: duckdb FILE -c "from turns".
    """
    from eventlog.exports.database import export

    with open_store(ctx) as store, Progress("exporting"):
        report = export(store, path, force=force)
    if as_json:
        put(document({"export": dataclasses.asdict(report)}))
        return
    say(f"Wrote {count(report.rows['events'], 'event')} to {report.path}.")
