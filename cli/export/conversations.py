"""`locus export atif`, `otlp` and `agent-trace`: sessions as lines of JSON in the forms of others."""

import contextlib
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, TypeVar

import click

from .. import exits
from ..access import json_option, open_store, put, say
from ..jsonout import document
from ..progress import Progress
from ..since import Since
from ..text import count, one_line
from .locusgraph import tell_sessions

if TYPE_CHECKING:
    from eventlog.store import Store

F = TypeVar("F", bound=Callable[..., Any])


def _options(function: F) -> F:
    """--to, --session, --since, --force."""
    for option in (
        click.option("--force", is_flag=True, help="Replace FILE if it exists."),
        click.option("--since", type=Since(), metavar="WHEN", help="Only sessions active since then."),
        click.option("--session", metavar="SESSION",
        help="Only this session, with all its parts: its id, or the beginning of it."),
        click.option("--to", "path", required=True, metavar="FILE", type=click.Path(),
                     help="The file to write; - is stdout."),
    ):  # fmt: skip
        function = option(function)
    return function


def _session_of(store: "Store", name: str | None) -> "tuple[str, ...] | None":
    """The ids of the session of that name. Raises: NotFound, Ambiguous."""
    if name is None:
        return None
    from eventlog.recorder.sessions import parts

    return parts(store, name)


def _check(ctx: click.Context, path: str, force: bool, as_json: bool) -> None:
    """Raises: Refused, NotFound, UsageError, before any work is done."""
    from eventlog.exports import files

    if path != "-":
        files.check_free(path, force=force)
    elif as_json:
        raise click.UsageError("--json reports on stdout, where the lines go; give --to FILE", ctx)


def _write(lines: Iterable[dict[str, Any]], path: str, force: bool) -> int:
    """Write one document a line. Returns: how many."""
    from eventlog.base import jsontext
    from eventlog.exports import files

    written = 0
    with contextlib.nullcontext(None) if path == "-" else files.staged(path, force=force) as file:
        for value in lines:
            line = jsontext.encode_fast(value) + b"\n"
            if file is None:
                put(line)
            else:
                file.write(line)
            written += 1
    return written


@click.command("atif")
@_options
@json_option
@click.pass_context
def atif(
    ctx: click.Context, path: str, session: str | None, since: int | None, force: bool, as_json: bool
) -> None:
    """Write sessions as trajectories in the Agent Trajectory Interchange Format, ATIF-v1.8.

    One JSON document a line; with --session the file is that one document. Requests and answers, tool
    calls with their results, and tokens; contents of files are not in it. docs/exports.md has the mapping.
    """
    from eventlog.exports.atif import documents

    _check(ctx, path, force, as_json)
    with open_store(ctx) as store, Progress("exporting"):
        session_ids = _session_of(store, session)
        left_out: dict[str, str] = {}
        trajectories = documents(store, session_id=session_ids, since=since, left_out=left_out)
        written = _write(trajectories, path, force)
    if as_json:
        put(document({"export": {"path": path, "trajectories": written, "sessions_left_out": left_out}}))
    else:
        say(f"Wrote {count(written, 'trajectory', 'trajectories')}.")
        tell_sessions(left_out)


@click.command("otlp")
@_options
@click.option("--contents", is_flag=True, help="Also requests and answers, arguments and results.")
@json_option
@click.pass_context
def otlp(
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

    _check(ctx, path, force, as_json)
    with open_store(ctx) as store, Progress("exporting"):
        session_ids = _session_of(store, session)
        left_out: dict[str, str] = {}
        spans = requests(store, session_id=session_ids, since=since, contents=contents, left_out=left_out)
        written = _write(spans, path, force)
    if as_json:
        put(document({"export": {"path": path, "sessions": written, "sessions_left_out": left_out}}))
    else:
        say(f"Wrote the spans of {count(written, 'session')}.")
        tell_sessions(left_out)


@click.command("agent-trace")
@_options
@json_option
@click.pass_context
def agent_trace(
    ctx: click.Context, path: str, session: str | None, since: int | None, force: bool, as_json: bool
) -> None:
    """Write which lines of which files a turn wrote, as records of Agent Trace.

    One record a line, one for each turn that left lines. Numbers of lines, no contents. Changes whose
    lines are unknown are listed, and the exit code is 4. docs/exports.md has the mapping.
    """
    from eventlog.exports.agent_trace import TraceReport, records

    _check(ctx, path, force, as_json)
    report = TraceReport()
    with open_store(ctx) as store, Progress("exporting"):
        traces = records(store, report, session_id=_session_of(store, session), since=since)
        _write(traces, path, force)
    if as_json:
        put(document({"export": {"path": path, "records": report.records, "missing": report.missing}}))
    else:
        for name, why in report.missing:
            say(f"no lines of {one_line(name)}: {one_line(why)}")
        say(f"Wrote {count(report.records, 'record')}.")
    if report.missing:
        ctx.exit(exits.PARTIAL)
