"""An event as a type checker knows it: columns of `types.py`, each of which may be absent or None.

Times are integer microseconds since 1970 UTC, `path` is relative to the repository's root, hashes are
`blake3:` and 64 hex digits (docs/appending.md). Events that were read have every column.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypedDict

# What reads events, as `Store.rows` does.
Rows = Callable[..., Iterable[Mapping[str, Any]]]


class Event(TypedDict, total=False):
    """What `Store.append` takes and `Store.events` gives; `payload` has what has no column."""

    position: int | None
    event_id: str | None
    event_type: str | None
    event_kind: str | None
    source: str | None
    schema_version: int | None
    redacted: bool | None
    session_id: str | None
    turn: int | None
    turn_id: str | None
    seq: int | None
    context_id: str | None
    extends: list[str] | None
    related_to: list[str] | None
    reinforces: list[str] | None
    contradicts: list[str] | None
    agent: str | None
    agent_version: str | None
    agent_session_id: str | None
    agent_turn_id: str | None
    tool_use_id: str | None
    subagent_id: str | None
    message_id: str | None
    request_id: str | None
    cause: str | None
    repo: str | None
    worktree: str | None
    cwd: str | None
    branch: str | None
    commit: str | None
    occurred_at: int | None
    recorded_at: int | None
    title: str | None
    status: str | None
    tool: str | None
    path: str | None
    operation: str | None
    model: str | None
    prompt_tokens: int | None
    completion_tokens: int | None
    reasoning_tokens: int | None
    cache_read_tokens: int | None
    cache_write_tokens: int | None
    cache_write_1h_tokens: int | None
    duration_ms: int | None
    success: bool | None
    error_type: str | None
    resolved: bool | None
    before_hash: str | None
    after_hash: str | None
    tree_hash: str | None
    lines_added: int | None
    lines_removed: int | None
    blobs: list[str] | None
    payload: dict[str, Any]
