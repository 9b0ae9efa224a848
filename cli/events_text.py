"""One line of words for any event: what `locus log --events` and `locus timeline` print.

Works on a mapping from column name to value with `payload` as a dict; columns may be missing.
"""

from collections.abc import Mapping
from typing import Any

from .text import change, one_line

_HASH_SHOWN = len("blake3:") + 12


def what(event: Mapping[str, Any]) -> str:
    """What happened, in one line without a limit on its width."""
    payload = event.get("payload") or {}
    kind = event.get("event_type")
    if kind == "file":
        counts = change(event.get("lines_added"), event.get("lines_removed"))
        return _joined(event.get("operation"), _path(event, payload), counts)
    if kind == "action":
        failed = "failed" if event.get("success") is False else None
        return _joined(event.get("tool"), event.get("path"), failed, _text(event, payload))
    if kind == "llm":
        read, written = event.get("prompt_tokens"), event.get("completion_tokens")
        return _joined(
            event.get("model"), None if read is None else f"{read} tokens in", _tokens_out(written)
        )
    if kind == "error":
        return _joined(event.get("error_type"), _text(event, payload))
    if kind == "snapshot":
        tree = event.get("tree_hash")
        return _joined(event.get("operation"), short_hash(tree) if tree else "no tree")
    return _joined(event.get("operation"), _text(event, payload))


def short_hash(text: str) -> str:
    """The beginning of a `blake3:…` hash, long enough to be unique in practice."""
    return text[:_HASH_SHOWN]


def _path(event: Mapping[str, Any], payload: Mapping[str, Any]) -> str | None:
    path = event.get("path")
    old = payload.get("old_path")
    return f"{old} → {path}" if old else path


def _text(event: Mapping[str, Any], payload: Mapping[str, Any]) -> str | None:
    """The most telling text of an event of any type."""
    for value in (
        event.get("title"),
        *(payload.get(key) for key in ("intent_summary", "message", "decision", "description", "summary")),
    ):
        if isinstance(value, str) and value.strip():
            return value.strip().split("\n")[0]
    return None


def _tokens_out(written: int | None) -> str | None:
    return None if written is None else f"{written} out"


def _joined(*parts: object) -> str:
    return one_line(" ".join(str(part) for part in parts if part))
