"""`locus context for`: what to know for a message."""

import click

from ..access import json_option, open_store, put, say
from ..jsonout import document
from ..session.text import agent_option
from ..text import lines
from .shared import contexts_of, phase_option


@click.command("for")
@click.argument("message")
@click.option("--session", metavar="SESSION", help="The session that the message is of. [default: a new one]")
@click.option("--resume", is_flag=True, help="The session goes on: of its turns only the last is shown.")
@click.option("--workstream", metavar="WORKSTREAM", help="With the bundle of this workstream.")
@phase_option
@agent_option
@click.option(
    "--budget",
    type=click.IntRange(min=0),
    default=2500,
    show_default=True,
    metavar="TOKENS",
    help="How long it may be, in words × 1.3, without the message.",
)
@json_option
@click.pass_context
def command(
    ctx: click.Context,
    message: str,
    session: str | None,
    resume: bool,
    workstream: str | None,
    phase: str,
    agent: str,
    budget: int,
    as_json: bool,
) -> None:
    """Print what a model should know for MESSAGE, within one budget.

    From the top: the project, what the session is for, its last turns, what of any session bears on the
    message, warnings and errors, active sessions, decisions, files, the bundle of a workstream, the codes
    of the last session, and the message. Of the codes nothing is cut.
    """
    from eventlog.memory import context, intent
    from eventlog.memory.shared_nodes import ContextLoadNode
    from eventlog.memory.window import Situation
    from eventlog.recorder.sessions import named

    if resume and session is None:
        raise click.UsageError("--resume takes the session that goes on: --session SESSION")
    with open_store(ctx) as store:
        node = None if workstream is None else ContextLoadNode(contexts_of(store), workstream, phase)
        made = context.context_for(
            store,
            message,
            intent.now_us(store),
            session_id=None if session is None else named(store, session).session_id,
            situation=Situation.RESUME if resume else None,
            agent=agent,
            node=node,
            tokens=budget,
        )
    if as_json:
        put(document(context.fields(made)))
        return
    put(lines(f"{made.text}\n## Message\n{message}\n"))
    if made.tokens > made.budget:
        say(f"about {made.tokens:,} tokens: of the codes of the last session nothing is cut")
