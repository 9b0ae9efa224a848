"""Tools over the memory of sessions: `context`, `briefing` and `who`. They read."""

import os
from collections.abc import Iterator

from eventlog.base.display import moment, one_line
from eventlog.base.identity import STORE_DIRECTORY
from eventlog.mcp import read
from eventlog.memory import intent, who
from eventlog.store import Store

_FILES_SHOWN = 20


def briefing_text(
    store: Store, focus: str | None, scope: list[str] | None, agent_id: str, budget: int
) -> str:
    """The briefing of the present log, within a budget of tokens."""
    from eventlog.memory import briefing, briefing_of_log
    from eventlog.memory.freshness import FreshnessChecker

    reader = briefing.BriefingReader(agent_id, focus, intent.scope_of(scope) or ())
    looker, now_us = FreshnessChecker(beside(store)), intent.now_us(store)
    return briefing_of_log.brief(store, reader, now_us, budget, looker=looker, writes=False).text


def context_text(
    store: Store,
    message: str,
    session_id: str | None,
    workstream: str | None,
    agent_id: str,
    budget: int,
) -> str:
    """The context for a message, within one budget; for a workstream the bundle of its planning phase."""
    from eventlog.memory import context
    from eventlog.memory.freshness import FreshnessChecker
    from eventlog.recorder.sessions import named

    node = None if workstream is None else read.load_node(store, workstream, "planning")
    session = None if session_id is None else named(store, session_id).session_id
    return context.context_for(
        store,
        message,
        intent.now_us(store),
        session_id=session,
        agent=agent_id,
        node=node,
        looker=FreshnessChecker(beside(store)),
        tokens=budget,
        writes=False,
    ).text


def beside(store: Store) -> str | None:
    """The directory whose work a store records, None for a store elsewhere."""
    above, name = os.path.split(store.layout.root)
    return above if name == STORE_DIRECTORY else None


def who_text(store: Store) -> Iterator[str]:
    """Each active session with the files that it touched, then the files that two of them touched."""
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
