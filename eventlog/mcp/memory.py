"""Tools over the memory of sessions: `context`, `briefing` and `who`. They read."""

import os
from collections.abc import Iterator
from typing import Annotated

from eventlog.base.display import moment, one_line
from eventlog.base.identity import STORE_DIRECTORY
from eventlog.mcp import read
from eventlog.mcp.arguments import Agent, Focus, Paths, SessionId, Tokens
from eventlog.mcp.call import Hint, tool
from eventlog.memory import intent, who
from eventlog.store import Store

_FILES_SHOWN = 20


@tool("Briefing", name="briefing")
def briefing_text(
    store: Store,
    focus: Focus | None = None,
    scope: Paths | None = None,
    agent_id: Agent = "",
    budget: Tokens = 1000,
) -> str:
    """What to know before you begin: who is at work, what failed, what was decided and done."""
    from eventlog.memory import briefing, briefing_of_log
    from eventlog.memory.freshness import FreshnessChecker

    reader = briefing.BriefingReader(agent_id, focus, intent.scope_of(scope) or ())
    looker, now_us = FreshnessChecker(beside(store)), intent.now_us(store)
    return briefing_of_log.brief(store, reader, now_us, budget, looker=looker, writes=False).text


@tool("Context for a message", name="context")
def context_text(
    store: Store,
    message: Annotated[str, Hint(aliases=("prompt", "query"))],
    session_id: SessionId | None = None,
    workstream: str | None = None,
    agent_id: Agent = "",
    budget: Tokens = 2500,
) -> str:
    """What to know for a message: last turns, what bears on it, errors, codes."""
    # For a workstream, the bundle of its planning phase is part of it, within the same budget.
    from eventlog.memory import context, window
    from eventlog.memory.freshness import FreshnessChecker
    from eventlog.recorder.sessions import named

    node = None if workstream is None else read.load_node(store, workstream, "planning")
    session = None if session_id is None else named(store, session_id).session_id
    return context.context_around(
        store,
        window.context_block(store, message, session_id=session, writes=False),
        intent.now_us(store),
        FreshnessChecker(beside(store)),
        is_first=session is None,
        agent=agent_id,
        node=node,
        tokens=budget,
    ).text


def beside(store: Store) -> str | None:
    """The directory whose work a store records, None for a store elsewhere."""
    above, name = os.path.split(store.layout.root)
    return above if name == STORE_DIRECTORY else None


@tool("Who is at work", name="who")
def who_text(store: Store) -> Iterator[str]:
    """Agents at work here, on what, and where two of them meet."""
    now_us = intent.now_us(store)
    workers = [
        worker
        for worker in who.who(store)
        if worker.intent.opened_us is None or not intent.is_stale(worker.intent.opened_us, now_us)
    ]
    for worker in workers:
        yield f"{session_line(worker.intent)}\n"
        for touch in worker.touches[:_FILES_SHOWN]:
            time, event = moment(touch.at_us), touch.event_id[:12]
            yield f"    {touch.how} {one_line(touch.path)}  {time}  event {event}\n"
        if len(worker.touches) > _FILES_SHOWN:
            yield f"    and {len(worker.touches) - _FILES_SHOWN:,} more files\n"
    for met in who.overlaps(workers):
        events = ", ".join(event_id[:12] for event_id in met.event_ids)
        yield f"overlap: {one_line(met.words())} (events {events})\n"
    if not workers:
        yield "Nobody is at work here.\n"


def session_line(session: intent.Intent) -> str:
    """A session in one line: its focus, its scope, its start."""
    scope = f" ({', '.join(one_line(path) for path in session.scope)})" if session.scope else ""
    ended = "" if session.is_active else f", ended {moment(session.ended_us)} UTC"
    return (
        f'[{session.name}] {one_line(session.agent or "-")}: "{one_line(session.focus, 200)}"{scope}, '
        f"started {moment(session.started_us)} UTC{ended}"
    )
