"""The projections again, as a plain fold over events in position order: what the SQL is held to.

Written from the rules, not from the SQL: one pass, dicts, no grouping tricks. Events are dicts as
`LogView.iterate` gives them. A projection is a dict from key to row.
"""

import json
import re
from datetime import UTC, datetime, timedelta
from itertools import pairwise, zip_longest
from typing import Any

from eventlog.projections.happened import IMPORTED_AGENTS
from eventlog.replay.certainty import certainty_of

Row = dict[str, Any]

LIFECYCLE = ("session", "turn", "sessions")
TOKENS = (
    "prompt_tokens",
    "completion_tokens",
    "reasoning_tokens",
    "cache_read_tokens",
    "cache_write_tokens",
    "cache_write_1h_tokens",
)
CALL_COLUMNS = (
    *("agent", "message_id", "request_id", "position", "event_id", "session_id", "turn", "subagent_id"),
    *("model", "occurred_at", *TOKENS, "duration_ms"),
)


def project(events: list[Row]) -> dict[str, dict[Any, Row]]:
    """All projections of a log."""
    calls = _calls(events)
    turns: dict[tuple[str, int], Row] = {}
    sessions: dict[str, Row] = {}
    masters: dict[str, Row] = {}
    for event in events:
        if event["event_type"] == "sessions":
            _on_master(masters, event)
        elif event["session_id"] is not None:
            _on_session(sessions.setdefault(event["session_id"], _session(event)), event)
            if event["turn"] is not None and event["event_type"] != "session":
                key = (event["session_id"], event["turn"])
                _on_turn(turns.setdefault(key, _turn(event)), event)
    for call in calls.values():
        if call["session_id"] is not None:
            _count(sessions[call["session_id"]], call)
            if call["turn"] is not None:
                _count(turns[call["session_id"], call["turn"]], call)
    for (session_id, number), turn in sorted(turns.items()):
        _finish_turn(turn)
        sessions[session_id]["turn_count"] += 1
        sessions[session_id]["last_turn"] = f"{number:03d}"
        sessions[session_id]["files_modified"].update(turn["files_modified"])
        if turn["outcome"] is not None:
            sessions[session_id]["outcome"] = turn["outcome"]
    for session in sessions.values():
        _finish_session(session)
    _relate(list(sessions.values()))
    for session in sessions.values():
        _on_closed_session(masters, session)
    return {
        "llm_calls": {call["position"]: call for call in calls.values()},
        "turns": turns,
        "sessions": sessions,
        "sessions_master": {repo: _finish_master(master) for repo, master in masters.items()},
    }


def _calls(events: list[Row]) -> dict[Any, Row]:
    """P3: per key the row with the most completion tokens, then prompt tokens; the first of equals."""
    best: dict[Any, Row] = {}
    for event in events:
        if event["event_type"] != "llm":
            continue
        key: tuple[Any, ...] = (event["agent"], event["message_id"], event["request_id"])
        if event["message_id"] is None and event["request_id"] is None:
            key = (event["event_id"],)
        row = {name: event[name] for name in CALL_COLUMNS}
        row["occurred_at"] = _moment(row["occurred_at"])
        if key not in best or _weight(row) > _weight(best[key]):
            best[key] = row
    return best


def _weight(call: Row) -> tuple[int, int]:
    written, read = call["completion_tokens"], call["prompt_tokens"]
    return max(-1, -1 if written is None else written), max(-1, -1 if read is None else read)


def _figures(event: Row) -> Row:
    return {
        "agent": None,
        "owned": False,
        "repo": None,
        "llm_calls": 0,
        "tool_calls": 0,
        "errors": 0,
        "files_modified": set(),
        "first_position": event["position"],
        "last_position": event["position"],
        "first_at": None,
        "last_at": None,
        "calls": [],
        "title": None,
        "status": None,
        "started_at": None,
        "end_at": None,
    }


def _turn(event: Row) -> Row:
    session_id, number = event["session_id"], event["turn"]
    return _figures(event) | {
        "context_id": f"turn:{session_id}_{number:03d}",
        "session_id": session_id,
        "turn": number,
        "turn_id": f"{number:03d}",
        "branch": None,
        "commit": None,
        "event_count": 0,
        "said": {},
        "start_tree": None,
        "end_tree": None,
        "events": [],
    }


def _session(event: Row) -> Row:
    session_id = event["session_id"]
    slug = re.sub("[^A-Za-z0-9_-]", "_", f"session-{session_id}").lower()
    return _figures(event) | {
        "context_id": f"session:{slug}_{session_id}",
        "session_id": session_id,
        "agent_session_id": None,
        "extends": [],
        "events": 0,
        "turn_count": 0,
        "last_turn": None,
        "said": {},
        "named": False,
        "ended": True,
        "began": False,
        "opened_position": None,
        "outcome": None,
    }


def _on_any(row: Row, event: Row) -> None:
    """What sessions and turns count alike."""
    kind = event["event_type"]
    for name in ("agent_session_id", "repo", "branch", "commit"):
        if name in row and event[name] is not None:
            row[name] = event[name]
    if event["agent"] is not None and (kind in ("session", "turn") or not row["owned"]):
        row["agent"], row["owned"] = event["agent"], kind in ("session", "turn")
    row["last_position"] = event["position"]
    at = _happened(event)
    row["first_at"] = _least(row["first_at"], at)
    row["last_at"] = _greatest(row["last_at"], at)
    row["tool_calls"] += kind in ("action", "mcp_action")
    row["errors"] += kind == "error"


def _on_anchor(row: Row, event: Row, ended: str) -> None:
    """P2: a lifecycle event writes the keys it has and leaves the others."""
    operation = event["operation"]
    answer = json.loads(event["payload"])
    status = event["status"] or {"start": "active", "end": ended}.get(operation)
    if operation == "start" and event["event_type"] == "session" and _is_of_import(event, answer):
        status = "closed"
    if status is not None:
        row["status"] = status
    if event["title"] is not None:
        row["title"] = event["title"]
    at = _happened(event)
    if operation == "start":
        row["started_at"] = _least(row["started_at"], at)
    if operation == "end":
        row["end_at"] = _greatest(row["end_at"], at)
    for key, value in answer.items():
        if value is not None:
            row["said"][key] = value


def _on_turn(turn: Row, event: Row) -> None:
    kind = event["event_type"]
    _on_any(turn, event)
    turn["events"].append({**event, "payload": json.loads(event["payload"])})
    if kind == "turn":
        _on_anchor(turn, event, "completed")
        if event["context_id"] is not None:
            turn["context_id"] = event["context_id"]
        return
    turn["event_count"] += kind not in LIFECYCLE
    if kind == "file" and event["path"] is not None and event["operation"] != "read":
        turn["files_modified"].add(event["path"])
    if kind == "snapshot" and event["tree_hash"] is not None:
        turn["start_tree"] = turn["start_tree"] or event["tree_hash"]
        turn["end_tree"] = event["tree_hash"]


def _on_session(session: Row, event: Row) -> None:
    kind = event["event_type"]
    _on_any(session, event)
    if kind == "session":
        default = _session(event)["context_id"]
        if not session["named"] and event["context_id"] != default:
            session["named"] = True
            session["context_id"] = event["context_id"]
        operation = event["operation"]
        if operation == "start" or (operation in ("resume", "clear", "fork") and session["ended"]):
            session["opened_position"] = event["position"]
        session["began"] |= operation == "start"
        session["ended"] = operation == "end"
        session["extends"] += [x for x in event["extends"] or () if x not in session["extends"]]
        _on_anchor(session, event, "closed")
        return
    session["events"] += kind not in LIFECYCLE
    if (
        kind == "file"
        and event["turn"] is None
        and event["operation"] != "read"
        and event["path"] is not None
    ):
        session["files_modified"].add(event["path"])


def _count(row: Row, call: Row) -> None:
    row["llm_calls"] += 1
    row["calls"].append(call)


def _finish(row: Row, ended_at: str) -> None:
    for name in TOKENS:
        known = [call[name] for call in row["calls"] if call[name] is not None]
        row[name] = sum(known) if known or not row["calls"] else None
    parts = [row[name] for name in ("prompt_tokens", "completion_tokens") if row[name] is not None]
    row["tokens_used"] = sum(parts) if parts else None
    first_at, last_at, end_at = row.pop("first_at"), row["last_at"], row.pop("end_at")
    start = first_at if row["started_at"] is None else row["started_at"]
    end = last_at if end_at is None else end_at
    is_over = row["status"] not in (None, "active")
    is_possible = start is None or end is None or start <= end
    row["started_at"] = _moment(start)
    row[ended_at] = _moment(end) if is_over and is_possible else None
    row["last_at"] = _moment(last_at)
    del row["calls"], row["owned"]


def _finish_turn(turn: Row) -> None:
    _finish(turn, "completed_at")
    reported = turn.pop("said")
    is_commit = turn["agent"] == "git"
    turn["rewritten"] = turn["status"] == "rewritten" if is_commit else None
    turn["line_place"] = reported.get("line_place")
    if is_commit and turn["status"] == "active":
        turn["status"] = "incomplete"
    turn["user_request"] = reported.get("user_request", reported.get("user_message"))
    turn["happened_at"] = turn["started_at"]
    del turn["last_at"]
    if turn["title"] is None and turn["user_request"] is not None:
        turn["title"] = turn["user_request"].splitlines()[0]
    turn["outcome"] = reported.get("outcome")
    turn["files_modified"] = sorted(turn["files_modified"] | set(reported.get("files_modified", ())))
    of_turn = turn.pop("events")
    turn["start_certainty"] = certainty_of(of_turn, "start").state
    turn["end_certainty"] = certainty_of(of_turn, "end").state


def _finish_session(session: Row) -> None:
    _finish(session, "ended_at")
    reported = session.pop("said")
    del session["named"], session["ended"]
    outcome = session.pop("outcome")
    session["summary"] = outcome if reported.get("summary") is None else reported["summary"]
    session["end_reason"] = None if session["status"] in (None, "active") else reported.get("end_reason")
    session["files_modified"] = sorted(session["files_modified"])
    if session["opened_position"] is None:
        session["opened_position"] = session["first_position"]
    head, tail = "session:", "_" + session["session_id"]
    context = session["context_id"]
    named = context.startswith(head) and context.endswith(tail)
    session["slug"] = context[len(head) : -len(tail)] if named else None


def _relate(sessions: list[Row]) -> None:
    """What sessions are to each other: which continues which, and which are over though nobody ended them."""
    parts: dict[Any, list[Row]] = {}
    agents: dict[Any, list[Row]] = {}
    for session in sorted(sessions, key=lambda s: s["first_position"]):
        alone = session["session_id"] if session["agent_session_id"] is None else None
        named = (session["repo"], session["agent"], session["agent_session_id"], alone)
        parts.setdefault(named, []).append(session)
        agents.setdefault((session["repo"], session["agent"]), []).append(session)
    followed = {}
    for of_agent in agents.values():
        of_agent.sort(key=lambda s: s["opened_position"])
        followed |= {one["session_id"]: after for one, after in pairwise(of_agent)}
    reasons: dict[str, str] = {}
    before: dict[str, Row] = {}
    for chain in parts.values():
        for earlier, session in pairwise(chain):
            if not session["began"] or earlier["context_id"] in session["extends"]:
                before[session["session_id"]] = earlier
        title = status = None
        for session, after in zip_longest(chain, chain[1:]):
            title, status = session["title"] or title, session["status"] or status
            session |= {"continues": None, "state": session["status"]}
            if earlier := before.get(session["session_id"]):
                session |= {"title": title, "state": status, "continues": earlier["session_id"]}
            if session["state"] != "active" or session["agent"] == "git":
                continue
            goes_on = after is not None and after["session_id"] in before
            if goes_on and after["first_position"] > session["opened_position"]:
                reasons[session["session_id"]] = "rollover"
                continue
            opened = followed.get(session["session_id"], {}).get("opened_position", 0)
            if session["last_position"] < opened:
                reasons[session["session_id"]] = "superseded"
    for session in sessions:
        reason, earlier = reasons.get(session["session_id"]), before.get(session["session_id"])
        state = session.pop("state")
        if reason == "superseded":
            started = followed[session["session_id"]]["started_at"]
            times = [at for at in (session["last_at"], started) if at is not None]
            session["ended_at"] = max(times, default=None)
        elif reason is not None or (earlier is not None and state not in (None, "active")):
            session["ended_at"] = session["ended_at"] or session["last_at"]
        session["status"] = state if reason is None else "closed"
        session["end_reason"] = session["end_reason"] if reason is None else reason
        if earlier is not None and earlier["context_id"] not in session["extends"]:
            if not session["extends"] and session["repo"] is not None:
                session["extends"] = [f"{_safe(session['repo'])}:sessions"]
            session["extends"] = [*session["extends"], earlier["context_id"]]
        del session["began"]


def _safe(text: str) -> str:
    return re.sub("[^A-Za-z0-9_-]", "_", text).lower()


def _master(repo: str) -> Row:
    return {
        "repo": repo,
        "context_id": None,
        "project_name": None,
        "extends": None,
        "sessions": [],
        "last_position": -1,
    }


def _on_master(masters: dict[str, Row], event: Row) -> None:
    if event["repo"] is None:
        return
    master = masters.setdefault(event["repo"], _master(event["repo"]))
    for name, value in (
        ("context_id", event["context_id"]),
        ("project_name", event["title"]),
        ("extends", event["extends"]),
    ):
        if value is not None:
            master[name] = value
    master["last_position"] = event["position"]


def _on_closed_session(masters: dict[str, Row], session: Row) -> None:
    if session["repo"] is not None:
        masters.setdefault(session["repo"], _master(session["repo"]))["sessions"].append(session)


def _finish_master(master: Row) -> Row:
    sessions = master.pop("sessions")
    active = [s for s in sessions if s["status"] == "active"]
    newest = max(active, key=lambda s: s["opened_position"], default=None)
    name, repo = master["project_name"], master["repo"]
    return master | {
        # Earlier hooks gave it no links.
        "extends": master["extends"]
        or (None if name is None else [f"knowledge:{_safe(name)}_{_safe(repo)}"]),
        "context_id": master["context_id"] or f"{_safe(master['repo'])}:sessions",
        "active_session": newest and newest["context_id"],
        "active_sessions": len(active),
        "total_sessions": len(sessions),
        "total_turns": sum(s["turn_count"] for s in sessions),
        "last_position": max([master["last_position"], *(s["last_position"] for s in sessions)]),
    }


def _happened(event: Row) -> int | None:
    """An event without a time of its own happened when it was recorded, but not one that was imported."""
    at: int | None = event["occurred_at"]
    is_imported = event["agent"] in IMPORTED_AGENTS and event["agent_session_id"] is not None
    return event["recorded_at"] if at is None and not is_imported else at


def _is_of_import(event: Row, said: Row) -> bool:
    """Neither a hook, which says how long it took, nor a recorder, which says which session, wrote it."""
    if event["agent"] not in IMPORTED_AGENTS or event["agent_session_id"] is None:
        return False
    return said.get("hook_us") is None and (event["agent"] == "git" or said.get("session_id") is None)


def _greatest(a: int | None, b: int | None) -> int | None:
    return max((x for x in (a, b) if x is not None), default=None)


def _least(a: int | None, b: int | None) -> int | None:
    return min((x for x in (a, b) if x is not None), default=None)


def _moment(us: int | None) -> datetime | None:
    return None if us is None else datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=us)
