"""What a session, a turn and the events of a turn look like: builders of event dicts.

Pure functions. Each takes the facts of one event and any envelope column by keyword (`event_id`,
`agent`, `occurred_at`, `commit`, …) and gives an event ready for `Store.append`. Kind, source and
category come from the type (S1-38) when not given. Payload keys follow S0-10…S0-19 and S1-18…S1-49;
unknown values are left out rather than made up (P7).
"""

from collections.abc import Mapping, Sequence
from typing import Any

from eventlog.base import names
from eventlog.base.types import KIND_OF_TYPE, RELATED_OF_TYPE, SOURCE_OF_TYPE, Event
from eventlog.recorder import placement

TURN_START, TURN_END = "turn_start", "turn_end"


def sessions_master(repo: str, project_name: str, **columns: Any) -> Event:
    """The sessions master of a repository; it extends the project anchor (S0-19, S1-17)."""
    return _event(
        "sessions",
        {"active_session": None, "total_sessions": 0},
        columns,
        operation="start",
        repo=repo,
        title=project_name,
        context_id=names.sessions_context(repo),
        extends=[names.project_context(project_name, repo)],
    )


def session_start(
    session_id: str,
    slug: str,
    title: str | None,
    repo: str,
    *,
    extends: Sequence[str] = (),
    intent: Mapping[str, Any] | None = None,
    **columns: Any,
) -> Event:
    """A session begins (S0-10, S1-18); it extends the master and, after a rollover, its predecessor.

    Args: intent: what it is about (S3-1): `focus`, `scope`, `description`.
    """
    return _event(
        "session",
        {"slug": slug, "session_id": session_id, **(intent or {})},
        columns,
        operation="start",
        status="active",
        title=title,
        repo=repo,
        session_id=session_id,
        context_id=names.session_context(slug, session_id),
        extends=[names.sessions_context(repo), *extends],
    )


def session_end(
    session_id: str,
    slug: str,
    repo: str,
    *,
    summary: str | None = None,
    turn_count: int | None = None,
    end_reason: str = "explicit",
    totals: Mapping[str, Any] | None = None,
    **columns: Any,
) -> Event:
    """A session ends (S0-12, S1-49). Its totals are folds of the log; `totals` is what the caller counted."""
    return _event(
        "session",
        {"summary": summary, "turn_count": turn_count, "end_reason": end_reason, "totals": totals},
        columns,
        operation="end",
        status="closed",
        repo=repo,
        session_id=session_id,
        context_id=names.session_context(slug, session_id),
        extends=[names.sessions_context(repo)],
    )


def turn_start(session_id: str, turn: int | None, user_message: str, **columns: Any) -> Event:
    """A turn's anchor, written first so that its events have a parent (S0-14, S1-23)."""
    return _event(
        "turn",
        {"user_message": user_message},
        columns,
        operation="start",
        status="active",
        session_id=session_id,
        turn=turn,
    )


def turn_end(
    session_id: str,
    turn: int | None,
    title: str | None,
    *,
    user_request: str | None = None,
    outcome: str | None = None,
    actions_taken: Sequence[str] = (),
    decisions: Sequence[str] = (),
    files_read: Sequence[str] = (),
    files_modified: Sequence[str] = (),
    event_count: int | None = None,
    **columns: Any,
) -> Event:
    """A turn is done (S0-15, S1-47): what its anchor shows, but for what the log counts itself."""
    payload = {
        "user_request": user_request,
        "outcome": outcome,
        "actions_taken": list(actions_taken),
        "decisions": list(decisions),
        "files_read": list(files_read),
        "files_modified": list(files_modified),
        "event_count": event_count,
    }
    columns.setdefault("source", "agent")
    return _event(
        "turn",
        payload,
        columns,
        operation="end",
        status="completed",
        title=title,
        session_id=session_id,
        turn=turn,
    )


def snapshot(
    session_id: str,
    turn: int | None,
    snapshot_type: str,
    tree_hash: str | None,
    *,
    git_head: str | None = None,
    git_branch: str | None = None,
    git_dirty: Sequence[str] | None = None,
    git_staged: Sequence[str] | None = None,
    tracked_files: int | None = None,
    files_changed: int | None = None,
    **columns: Any,
) -> Event:
    """The tree on disk at a turn's boundary (S0-17, S0-18, S1-24, S1-36, S1-37).

    Without a `tree_hash` it holds what git reported, and the turn cannot be replayed from here.
    """
    payload = {
        "git_head": git_head,
        "git_branch": git_branch,
        "git_dirty": None if git_dirty is None else list(git_dirty),
        "git_staged": None if git_staged is None else list(git_staged),
        "tracked_files": tracked_files,
        "files_changed": files_changed,
        "snapshot_type": snapshot_type,
    }
    return timeline_event(
        "snapshot",
        session_id,
        turn,
        payload,
        operation=snapshot_type,
        tree_hash=tree_hash,
        blobs=None if tree_hash is None else [tree_hash],
        **columns,
    )


def intent(session_id: str, turn: int | None, message: str, **columns: Any) -> Event:
    """What the user asked, in full (S1-29)."""
    extra = columns.pop("payload", {})
    return timeline_event("intent", session_id, turn, {"message": message, **extra}, **columns)


def file(
    session_id: str,
    turn: int | None,
    path: str,
    operation: str,
    *,
    before_hash: str | None = None,
    after_hash: str | None = None,
    payload: Mapping[str, Any] | None = None,
    **columns: Any,
) -> Event:
    """One file changed (S1-31): operation add, edit, delete or rename, and both contents by hash.

    The payload may hold `old_path`, `before_mode`, `after_mode`, `after_size`, `description`. The
    unified diff is derived from the two blobs wherever the event is shown.
    """
    return timeline_event(
        "file",
        session_id,
        turn,
        payload or {},
        path=path,
        operation=operation,
        before_hash=before_hash,
        after_hash=after_hash,
        blobs=[h for h in (before_hash, after_hash) if h is not None],
        **columns,
    )


def timeline_event(
    event_type: str,
    session_id: str | None,
    turn: int | None,
    payload: Mapping[str, Any],
    **columns: Any,
) -> Event:
    """Any event of a turn (S0-16); `event_type` is an open set (S0-23). Columns that are not given are read
    out of the payload. Without a turn it is of the session's current one, without a session of none.
    """
    columns.setdefault("related_to", RELATED_OF_TYPE.get(event_type))
    columns = {**placement.promoted(event_type, payload), **columns}
    return _event(event_type, payload, columns, session_id=session_id, turn=turn)


def decision(
    session_id: str | None,
    turn: int | None,
    decision: str,
    reasoning: str | None = None,
    *,
    confidence: float | None = None,
    alternatives_considered: Sequence[str] = (),
    **columns: Any,
) -> Event:
    """A choice was made (S1-32); `confidence` is 0…1."""
    payload = {
        "decision": decision,
        "reasoning": reasoning,
        "confidence": confidence,
        "alternatives_considered": list(alternatives_considered) or None,
    }
    return timeline_event("decision", session_id, turn, payload, **columns)


def error(
    session_id: str | None,
    turn: int | None,
    error_type: str,
    message: str,
    *,
    resolved: bool | None = None,
    file: str | None = None,
    line: int | None = None,
    tool: str | None = None,
    command: str | None = None,
    resolution: str | None = None,
    **columns: Any,
) -> Event:
    """Something failed (S1-33). A `file` outside of the repository is in the payload alone."""
    details = {"file": file, "line": line, "tool": tool, "command": command, "resolution": resolution}
    payload = {"error_type": error_type, "message": message, "resolved": resolved, **details}
    return timeline_event("error", session_id, turn, payload, **columns)


def feedback(
    session_id: str | None,
    turn: int | None,
    feedback_type: str | None,
    message: str,
    *,
    sentiment: str | None = None,
    **columns: Any,
) -> Event:
    """The user approved, rejected or corrected (S1-35)."""
    payload = {"type": feedback_type, "message": message, "sentiment": sentiment}
    return timeline_event("feedback", session_id, turn, payload, **columns)


def _event(event_type: str, payload: Mapping[str, Any], columns: dict[str, Any], **own: Any) -> Event:
    """The event with nulls left out; what the caller gave outranks what the builder chose."""
    event: Event = {
        "event_type": event_type,
        "event_kind": KIND_OF_TYPE.get(event_type, "observation"),
        "source": SOURCE_OF_TYPE.get(event_type, "system"),
    }
    for values in (own, columns):
        for name, value in values.items():
            if value is not None:
                event[name] = value
    event["payload"] = {name: value for name, value in payload.items() if value is not None}
    return event
