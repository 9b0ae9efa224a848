"""`locus export parquet`: events and projections as Parquet files."""

import dataclasses

import click

from ..access import json_option, open_store, put, say
from ..jsonout import document
from ..progress import Progress
from ..text import count
from .to import to_option


@click.command("parquet")
@to_option("DIRECTORY")
@click.option("--force", is_flag=True, help="Replace the files of an earlier export in DIRECTORY.")
@json_option
@click.pass_context
def command(ctx: click.Context, path: str, force: bool, as_json: bool) -> None:
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
