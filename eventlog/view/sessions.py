"""The answers `stores` and `sessions`: what there is to see, and what is being done now."""

import os
import shlex
from collections.abc import Iterable, Mapping
from datetime import datetime, tzinfo
from typing import Any

from eventlog import agents
from eventlog.base.display import microseconds
from eventlog.memory import who
from eventlog.projections.definitions import HAPPENED_AT, SESSIONS_NEWEST_FIRST
from eventlog.reports import zones
from eventlog.view.parameters import Parameters
from eventlog.view.stores import Viewed, ViewedLake, ViewedStore, ViewedStores

LIMIT, LIMIT_MAX = 100, 1_000
_CHOSEN_BY = ("agent", "model", "branch", "person", "state", "day")
# All offsets of zones in use are whole quarters of an hour, so a day is known from the quarters of events.
_QUARTER_US = 900_000_000

_SESSIONS = f"""
    select session_id, title, agent, agent_session_id, person, status, started_at, ended_at, last_at,
        turn_count, tool_calls, errors, prompt_tokens, completion_tokens, cost_usd, focus
    from sessions order by {SESSIONS_NEWEST_FIRST}"""
_OF_TURNS = "select session_id, models, branch, user_request from turns order by session_id, turn"
_OF_EVENTS = f"""
    select session_id, arg_min(cwd, position) filter (cwd is not null) as cwd,
        list(distinct epoch_us({HAPPENED_AT}) // {_QUARTER_US}) filter ({HAPPENED_AT} is not null) as quarters
    from events where session_id is not null group by session_id"""

_RESUMED = """
    select agent, agent_session_id,
        (select arg_min(cwd, position) from events where session_id = $1 and cwd is not null)
    from sessions where session_id = $1"""

Row = dict[str, Any]


def stores(shown: "ViewedStores | ViewedLake") -> dict[str, Any]:
    if isinstance(shown, ViewedLake):
        listed = [_lake(shown)]
    else:
        listed = [_store(viewed) for viewed in shown.by_name.values()]
    return {"stores": listed, "zone": str(zones.named("local"))}


def _store(viewed: ViewedStore) -> dict[str, Any]:
    return {
        "name": viewed.name,
        "project": viewed.store.project_name,
        "repo_hash": viewed.store.repo_hash,
        "path": viewed.store.layout.root,
        "lake": None,
        "pages": None,
    }


def _lake(lake: ViewedLake) -> dict[str, Any]:
    return {
        "name": lake.name,
        "project": lake.name,
        "repo_hash": None,
        "path": None,
        "lake": lake.uri,
        "pages": list(lake.PAGES),
    }


def answer(viewed: Viewed, parameters: Parameters) -> dict[str, Any]:
    rows = viewed.remembered("sessions", lambda: _rows(viewed))
    limit = parameters.number("limit", LIMIT, LIMIT_MAX)
    chosen = [row for row in rows if _is_chosen(row, parameters)]
    before = parameters.text("before")
    first = next((n + 1 for n, row in enumerate(chosen) if row["session_id"] == before), 0)
    shown = chosen[first : first + limit]
    return {
        "sessions": [{name: row[name] for name in row if not name.startswith("_")} for row in shown],
        "more": first + limit < len(chosen),
        "choices": {name: _choices(rows, name) for name in _CHOSEN_BY},
    }


def _is_chosen(row: Row, parameters: Parameters) -> bool:
    if parameters.text("session") not in (None, row["session_id"]):
        return False
    for name in _CHOSEN_BY:
        wanted = parameters.text(name)
        if wanted is not None and wanted not in _values(row, name):
            return False
    words = (parameters.text("q") or "").casefold().split()
    return all(word in row["_words"] for word in words)


def _values(row: Row, name: str) -> list[str]:
    """What a session counts as under a filter."""
    if name == "state":
        return ["active" if row["active"] else row["status"] or "unknown"]
    value = row[{"model": "models", "day": "days"}.get(name, name)]
    return value if isinstance(value, list) else [] if value is None else [value]


def _choices(rows: Iterable[Row], name: str) -> list[str]:
    values = {value for row in rows for value in _values(row, name)}
    return sorted(values, reverse=name == "day")


def _rows(viewed: Viewed) -> list[Row]:
    query, zone = viewed.query, zones.named("local")
    result = query(_SESSIONS, [])
    models, branches, requests = _of_turns(query(_OF_TURNS, []).rows)
    of_events = {session: (cwd, quarters or []) for session, cwd, quarters in query(_OF_EVENTS, []).rows}
    store = viewed if isinstance(viewed, ViewedStore) else None
    doing = None if store is None else _doing(store)
    project = None if store is None else _project(store)
    rows = [dict(zip(result.columns, row, strict=True)) for row in result.rows]
    return [_row(row, models, branches, requests, of_events, doing, project, zone) for row in rows]


def _of_turns(
    rows: Iterable[tuple[Any, ...]],
) -> tuple[dict[str, list[str]], dict[str, str], dict[str, str]]:
    """Of each session its models, its last branch, and the words of its first request."""
    models: dict[str, set[str]] = {}
    branches: dict[str, str] = {}
    requests: dict[str, str] = {}
    for session, names, branch, request in rows:
        models.setdefault(session, set()).update(names or ())
        if branch is not None:
            branches[session] = branch
        if request:
            requests.setdefault(session, request)
    return {session: sorted(names) for session, names in models.items()}, branches, requests


def _row(
    row: Row,
    models: Mapping[str, list[str]],
    branches: Mapping[str, str],
    requests: Mapping[str, str],
    of_events: "Mapping[str, tuple[str | None, list[int]]]",
    doing: "Mapping[str, str] | None",
    project: "str | None",
    zone: tzinfo,
) -> Row:
    session, cost = row["session_id"], row["cost_usd"]
    cwd, quarters = of_events.get(session, (None, []))
    title = row["title"] or row["focus"] or _first_line(requests.get(session))
    return {
        "session_id": session,
        "title": title,
        "agent": row["agent"],
        "models": models.get(session, []),
        "person": row["person"],
        "branch": branches.get(session),
        "status": row["status"],
        "active": None if doing is None else session in doing,
        "doing": None if doing is None else doing.get(session) or None,
        "started_at": microseconds(row["started_at"]),
        "ended_at": microseconds(row["ended_at"]),
        "last_at": microseconds(row["last_at"]),
        "days": _days(quarters, zone),
        "turns": row["turn_count"],
        "tool_calls": row["tool_calls"],
        "errors": row["errors"],
        "prompt_tokens": row["prompt_tokens"],
        "completion_tokens": row["completion_tokens"],
        "cost_usd": None if cost is None else float(cost),
        "resume": None if doing is None else resume(row["agent"], row["agent_session_id"], cwd, project),
        "_words": " ".join(filter(None, (title, requests.get(session), session))).casefold(),
    }


def _first_line(text: str | None) -> str | None:
    return (text or "").strip().partition("\n")[0] or None


def _days(quarters: Iterable[int], zone: tzinfo) -> list[str]:
    """The days on which something happened, by the clock of this machine."""
    seconds = (quarter * _QUARTER_US / 1e6 for quarter in quarters)
    return sorted({datetime.fromtimestamp(second, zone).date().isoformat() for second in seconds})


def _project(viewed: ViewedStore) -> str:
    return os.path.dirname(viewed.store.layout.root)


def resume(
    agent: str | None, agent_session_id: str | None, cwd: str | None = None, project: str | None = None
) -> str | None:
    """The command that resumes an agent's conversation, to be given in `project`, or None.

    Agents look for the conversations of the directory they are in: where the session began in another one,
    `cwd`, the command goes there.
    """
    spec = agents.spec_of(agent) if agent else None
    words = spec.resume if spec is not None else ()
    if not words or not agent_session_id:
        return None
    there = f"cd {shlex.quote(cwd)} && " if cwd is not None and cwd != project else ""
    return there + shlex.join((*words, agent_session_id))


def resume_of(viewed: ViewedStore, session: str) -> str | None:
    """The same of one session, by its id."""
    rows = viewed.query(_RESUMED, [session]).rows
    return next((resume(agent, own, cwd, _project(viewed)) for agent, own, cwd in rows), None)


def _doing(viewed: ViewedStore) -> dict[str, str]:
    """Of each session at work what it did last; empty where that is not known."""
    doing = {}
    for worker in who.who(viewed.store):
        last = next(iter(worker.touches), None)
        focus = worker.intent.focus if worker.intent.declared else ""
        doing[worker.intent.session_id] = f"{last.how} {last.path}" if last is not None else focus
    return doing
