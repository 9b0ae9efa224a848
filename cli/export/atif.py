"""`locus export atif`: sessions as trajectories."""

import click

from ..access import json_option, open_store, say
from ..access import put as put_data
from ..jsonout import document
from ..progress import Progress
from ..text import count
from . import lines as lines
from .locusgraph import tell_sessions


@click.command("atif")
@lines.options
@json_option
@click.pass_context
def command(
    ctx: click.Context, path: str, session: str | None, since: int | None, force: bool, as_json: bool
) -> None:
    """Write sessions as trajectories in the Agent Trajectory Interchange Format, ATIF-v1.8.

    One JSON document a line; with --session the file is that one document. Requests and answers, tool
    calls with their results, and tokens; contents of files are not in it. docs/exports.md has the mapping.
    """
    from eventlog.exports.atif import documents

    lines.check(ctx, path, force, as_json)
    with open_store(ctx) as store, Progress("exporting"):
        session_ids = lines.session_of(store, session)
        left_out: dict[str, str] = {}
        trajectories = documents(store, session_id=session_ids, since=since, left_out=left_out)
        written = lines.write(trajectories, path, force)
    if as_json:
        put_data(document({"export": {"path": path, "trajectories": written, "sessions_left_out": left_out}}))
    else:
        say(f"Wrote {count(written, 'trajectory', 'trajectories')}.")
        tell_sessions(left_out)
