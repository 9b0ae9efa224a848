"""`locus export atif`, `otlp` and `agent-trace`: sessions as lines of JSON in the forms of others."""

import contextlib
from collections.abc import Iterable
from typing import Any

import click

from eventlog.base import jsontext
from eventlog.exports import files
from eventlog.exports.agent_trace import TraceReport, records
from eventlog.exports.atif import documents
from eventlog.exports.otlp import requests
from eventlog.recorder.sessions import parts

from ..access import open_store
from ..exits import PARTIAL, exit_with, usage_error
from ..options import Since, force_option, json_option, options, session_option
from ..output import count, document, one_line, put, say
from ..progress import Progress
from .shortcomings import tell_sessions

_options = options(
    click.option(
        "--to",
        "path",
        required=True,
        metavar="FILE",
        type=click.Path(),
        help="The file to write; - is stdout.",
    ),
    session_option,
    click.option("--since", type=Since(), metavar="WHEN", help="Only sessions active since then."),
    force_option,
)


def _check(path: str, force: bool, as_json: bool) -> None:
    """Raises: Refused, NotFound, UsageError, before any work is done."""
    if path != "-":
        files.check_free(path, force=force)
    elif as_json:
        raise usage_error("--json reports on stdout, where the lines go; give --to FILE")


def _write(lines: Iterable[dict[str, Any]], path: str, force: bool) -> int:
    """Write one document a line. Returns: how many."""
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
def atif(path: str, session: str | None, since: int | None, force: bool, as_json: bool) -> None:
    """Write sessions as trajectories in the Agent Trajectory Interchange Format, ATIF-v1.8.

    One JSON document a line; with --session the file is that one document. Requests and answers, tool
    calls with their results, and tokens; contents of files are not in it. docs/exports.md has the mapping.
    """
    _check(path, force, as_json)
    with open_store() as store, Progress("exporting"):
        session_ids = None if session is None else parts(store, session)
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
def otlp(
    path: str, session: str | None, since: int | None, force: bool, contents: bool, as_json: bool
) -> None:
    """Write sessions as spans in OTLP/JSON, with the names of the GenAI semantic conventions.

    One trace request a line, one line a session, as OpenTelemetry collectors read from files. A turn is a
    trace; model calls and tool calls are its spans. Nothing is sent. docs/exports.md has the mapping.
    """
    _check(path, force, as_json)
    with open_store() as store, Progress("exporting"):
        session_ids = None if session is None else parts(store, session)
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
def agent_trace(path: str, session: str | None, since: int | None, force: bool, as_json: bool) -> None:
    """Write which lines of which files a turn wrote, as records of Agent Trace.

    One record a line, one for each turn that left lines. Numbers of lines, no contents. Changes whose
    lines are unknown are listed, and the exit code is 4. docs/exports.md has the mapping.
    """
    _check(path, force, as_json)
    report = TraceReport()
    with open_store() as store, Progress("exporting"):
        session_ids = None if session is None else parts(store, session)
        _write(records(store, report, session_id=session_ids, since=since), path, force)
    if as_json:
        put(document({"export": {"path": path, "records": report.records, "missing": report.missing}}))
    else:
        for name, why in report.missing:
            say(f"no lines of {one_line(name)}: {one_line(why)}")
        say(f"Wrote {count(report.records, 'record')}.")
    if report.missing:
        exit_with(PARTIAL)
