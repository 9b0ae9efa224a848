"""`locus export agent-trace`: which lines agents wrote."""

import click

from .. import exits
from ..access import json_option, open_store, say
from ..access import put as put_data
from ..jsonout import document
from ..progress import Progress
from ..text import count, one_line
from . import lines as lines


@click.command("agent-trace")
@lines.options
@json_option
@click.pass_context
def command(
    ctx: click.Context, path: str, session: str | None, since: int | None, force: bool, as_json: bool
) -> None:
    """Write which lines of which files a turn wrote, as records of Agent Trace.

    One record a line, one for each turn that left lines. Numbers of lines, no contents. Changes whose
    lines are unknown are listed, and the exit code is 4. docs/exports.md has the mapping.
    """
    from eventlog.exports.agent_trace import TraceReport, records

    lines.check(ctx, path, force, as_json)
    report = TraceReport()
    with open_store(ctx) as store, Progress("exporting"):
        traces = records(store, report, session_id=lines.session_of(store, session), since=since)
        lines.write(traces, path, force)
    if as_json:
        put_data(document({"export": {"path": path, "records": report.records, "missing": report.missing}}))
    else:
        for name, why in report.missing:
            say(f"no lines of {one_line(name)}: {one_line(why)}")
        say(f"Wrote {count(report.records, 'record')}.")
    if report.missing:
        ctx.exit(exits.PARTIAL)
