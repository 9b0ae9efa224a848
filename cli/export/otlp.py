"""`locus export otlp`: sessions as spans."""

import click

from ..access import json_option, open_store, say
from ..access import put as put_data
from ..jsonout import document
from ..progress import Progress
from ..text import count
from . import lines as lines
from .locusgraph import tell_sessions


@click.command("otlp")
@lines.options
@click.option("--contents", is_flag=True, help="Also requests and answers, arguments and results.")
@json_option
@click.pass_context
def command(
    ctx: click.Context,
    path: str,
    session: str | None,
    since: int | None,
    force: bool,
    contents: bool,
    as_json: bool,
) -> None:
    """Write sessions as spans in OTLP/JSON, with the names of the GenAI semantic conventions.

    One trace request a line, one line a session, as OpenTelemetry collectors read from files. A turn is a
    trace; model calls and tool calls are its spans. Nothing is sent. docs/exports.md has the mapping.
    """
    from eventlog.exports.otlp import requests

    lines.check(ctx, path, force, as_json)
    with open_store(ctx) as store, Progress("exporting"):
        session_ids = lines.session_of(store, session)
        left_out: dict[str, str] = {}
        spans = requests(store, session_id=session_ids, since=since, contents=contents, left_out=left_out)
        written = lines.write(spans, path, force)
    if as_json:
        put_data(document({"export": {"path": path, "sessions": written, "sessions_left_out": left_out}}))
    else:
        say(f"Wrote the spans of {count(written, 'session')}.")
        tell_sessions(left_out)
