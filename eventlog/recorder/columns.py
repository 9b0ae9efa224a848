"""Columns that a caller may give to any event of a turn, as a type checker knows them (`types.py`)."""

from typing import TypedDict


class Columns(TypedDict, total=False):
    """Those that no method of `Turn` has as an argument of its own."""

    event_id: str | None  # 32 hex digits; of two events of one id the first is visible
    event_kind: str
    source: str
    title: str | None
    status: str | None
    agent_version: str | None
    tool_use_id: str | None
    subagent_id: str | None
    message_id: str | None
    request_id: str | None
    cause: str | None
    worktree: str | None
    cwd: str | None
    branch: str | None
    commit: str | None
    occurred_at: int | None  # microseconds since 1970 UTC
    extends: list[str] | None
    related_to: list[str] | None
    reinforces: list[str] | None
    contradicts: list[str] | None
    blobs: list[str] | None
    lines_added: int | None
    lines_removed: int | None


class AtPath(Columns, total=False):
    """The same of an event that may be about one file."""

    path: str | None  # from the root of the repository


class TokenColumns(Columns, total=False):
    """The same of a model call."""

    reasoning_tokens: int | None
    cache_read_tokens: int | None
    cache_write_tokens: int | None
    cache_write_1h_tokens: int | None
    duration_ms: int | None
    success: bool | None
    error_type: str | None
