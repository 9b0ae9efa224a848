"""`locus export duckdb`: the log as one DuckDB file."""

import dataclasses

import click

from ..access import json_option, open_store, put, say
from ..jsonout import document
from ..progress import Progress
from ..text import count
from .to import to_option


@click.command("duckdb")
@to_option("FILE")
@click.option("--force", is_flag=True, help="Replace FILE.")
@json_option
@click.pass_context
def command(ctx: click.Context, path: str, force: bool, as_json: bool) -> None:
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
