"""`locus session start` and `end`: begin a session or go on with one, and close it."""

import click

import eventlog
from eventlog.doctor.completeness import completeness
from eventlog.memory import intent
from eventlog.memory.intent import Intent
from eventlog.recorder import sessions
from eventlog.recorder.sessions import RECENT, SessionRow

from .. import complete
from ..access import open_store
from ..exits import ERROR, exit_with
from ..output import count, one_line, put, say
from .text import agent_option, end_stale, meant, session_table


@click.command("start")
@click.argument("message", required=False)
@agent_option
@click.option("--focus", metavar="TEXT", help="What it is about; the same as MESSAGE.")
@click.option("--scope", metavar="PATH", multiple=True, help="A file or folder it is about; repeatable.")
@click.option("--description", metavar="TEXT", help="More about it.")
@click.option("--new", is_flag=True, help="Begin a new session even without a MESSAGE.")
@click.option("--resume", metavar="SESSION", help="Go on with this session, ended or not.")
@click.option("--title", metavar="TEXT", help="The session's title. [default: MESSAGE]")
def start(
    message: str | None,
    agent: str,
    focus: str | None,
    scope: tuple[str, ...],
    description: str | None,
    new: bool,
    resume: str | None,
    title: str | None,
) -> None:
    """Begin a session, or go on with one.

    With a MESSAGE, what the session is about, a new session begins; the active one of the same agent
    ends. Without one the active session goes on. Where there is none, the recent ones are listed, and
    nothing is started (exit code 1). The session's context id goes to stdout. Others see the focus and
    the scope in `locus who` and in a briefing; to change them, begin another session.
    """
    if message is not None and focus is not None:
        raise click.UsageError("--focus and MESSAGE are the same; give one of them")
    message = focus if message is None else message
    if resume is not None and (message is not None or new):
        raise click.UsageError("--resume goes on with a session; it takes neither MESSAGE nor --new")
    if (scope or description) and message is None and not new:
        raise click.UsageError("--scope and --description belong to a new session; say --focus TEXT")
    for path in scope:
        if "${" in path:
            raise click.UsageError(f"--scope {path}: a variable that was not filled in")
    with open_store(records=True) as store:
        end_stale(store)
        if resume is not None:
            started = _go_on(store, sessions.named(store, resume), agent, title)
        elif message is not None or new:
            started = _begin(store, agent, message or title or "", title, scope, description)
        else:
            active = intent.active_of(store, agent)
            if active is None:
                _offer(store, agent)
                exit_with(ERROR)
            started = _go_on(store, sessions.named(store, active.session_id), agent, title)
    put(f"{started}\n")


def _begin(
    store: "eventlog.Store",
    agent: str,
    message: str,
    title: str | None,
    scope: tuple[str, ...],
    description: str | None,
) -> str:
    before = sessions.active(store, store.repo_hash, agent)
    begun = intent.start(store, agent, message, scope, description, title=title)
    if before is not None:
        say(f"Ended {before.context_id}, which was active.")
    say(f"Began {begun.name}, a session of {agent}.")
    return begun.context_id


def _go_on(store: "eventlog.Store", row: SessionRow, agent: str, title: str | None) -> str:
    if row.status != "active" or title is not None:
        agent, repo = row.agent or agent, row.repo or store.repo_hash
        before = sessions.active(store, repo, agent)
        eventlog.Recorder(store, agent=agent, repo=repo).start_session(
            "", session_id=row.session_id, title=title
        )
        if before is not None and before.session_id != row.session_id:
            say(f"Ended {before.context_id}, which was active.")
    called = f" with “{one_line(title or row.title or '')}”" if title or row.title else ""
    say(f"Going on{called}: {count(row.turn_count, 'turn')} so far.")
    return row.context_id


def _offer(store: "eventlog.Store", agent: str) -> None:
    rows: list[Intent] = intent.listed(store, active_only=False)[:RECENT]
    say(f"{agent} has no active session here, and nothing was started.")
    if rows:
        say("")
        click.echo(session_table(rows), err=True, nl=False)
    say('\nBegin one:   locus session start "what it is about"')
    if rows:
        say(f"Go on:       locus session start --resume {rows[0].session_id}")


@click.command("end")
@click.argument("session", required=False, shell_complete=complete.sessions)
@agent_option
@click.option("--summary", metavar="TEXT", help="Its outcome.")
def end(session: str | None, agent: str, summary: str | None) -> None:
    """Close a session.

    SESSION, or the active one of the agent; without either, the only one that is active. The id of any
    part of a conversation closes the part that is active. Its context id goes to stdout.
    """
    with open_store(records=True) as store:
        end_stale(store)
        session_row = meant(store, session, agent)
        if not session_row.is_active and session is not None:
            intents = (intent.find(store, id) for id in sessions.parts(store, session))
            session_row = next((part for part in intents if part.is_active), session_row)
        if not session_row.is_active:
            raise eventlog.EventLogError(f"Session {session} is already ended.")
        intent.end(store, session_row, summary)
        report = completeness(store, session_row.session_id)
    say(f"Ended: {one_line(str(report))}.")
    put(f"{session_row.context_id}\n")
