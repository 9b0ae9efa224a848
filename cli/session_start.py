"""`locus session start`: a new session, the active one, or the choice between recent ones."""

from typing import TYPE_CHECKING

import click

from .access import open_store, put, say
from .exits import ERROR
from .session_text import agent_option, session_table
from .text import count, one_line

if TYPE_CHECKING:
    from eventlog.recorder.sessions import SessionRow
    from eventlog.store import Store


@click.command("start")
@click.argument("message", required=False)
@agent_option
@click.option("--new", is_flag=True, help="Begin a new session even without a MESSAGE.")
@click.option("--resume", metavar="SESSION", help="Go on with this session, ended or not.")
@click.option("--title", metavar="TEXT", help="The session's title. [default: MESSAGE]")
@click.pass_context
def command(
    ctx: click.Context, message: str | None, agent: str, new: bool, resume: str | None, title: str | None
) -> None:
    """Begin a session, or go on with one.

    With a MESSAGE, what the session is about, a new session begins; the active one of the same agent
    ends. Without one the active session goes on. Where there is none, the recent ones are listed, and
    nothing is started (exit code 1). The session's context id goes to stdout.
    """
    from eventlog.recorder import sessions

    if resume is not None and (message is not None or new):
        raise click.UsageError("--resume goes on with a session; it takes neither MESSAGE nor --new")
    with open_store(ctx) as store:
        if resume is not None:
            started = _go_on(store, sessions.named(store, resume), agent, title)
        elif message is not None or new:
            started = _begin(store, agent, message or title or "", title)
        else:
            active = sessions.active(store, store.repo_hash, agent)
            if active is None:
                _offer(sessions.recent(store), agent)
                ctx.exit(ERROR)
            started = _go_on(store, active, agent, title)
    put(f"{started}\n")


def _begin(store: "Store", agent: str, message: str, title: str | None) -> str:
    from eventlog.recorder import sessions
    from eventlog.recorder.recorder import Recorder

    before = sessions.active(store, store.repo_hash, agent)
    session = Recorder(store, agent=agent).start_session(message, title=title)
    if before is not None:
        say(f"Ended {before.context_id}, which was active.")
    say(f"Began a session of {agent}.")
    return session.context_id


def _go_on(store: "Store", row: "SessionRow", agent: str, title: str | None) -> str:
    from eventlog.recorder import sessions
    from eventlog.recorder.recorder import Recorder

    if row.status != "active" or title is not None:
        agent, repo = row.agent or agent, row.repo or store.repo_hash
        before = sessions.active(store, repo, agent)
        Recorder(store, agent=agent, repo=repo).start_session("", session_id=row.session_id, title=title)
        if before is not None and before.session_id != row.session_id:
            say(f"Ended {before.context_id}, which was active.")
    called = f" with “{one_line(title or row.title or '')}”" if title or row.title else ""
    say(f"Going on{called}: {count(row.turn_count, 'turn')} so far.")
    return row.context_id


def _offer(rows: "list[SessionRow]", agent: str) -> None:
    say(f"{agent} has no active session here, and nothing was started.")
    if rows:
        say("")
        click.echo(session_table(rows), err=True, nl=False)
    say('\nBegin one:   locus session start "what it is about"')
    if rows:
        say(f"Go on:       locus session start --resume {rows[0].session_id}")
