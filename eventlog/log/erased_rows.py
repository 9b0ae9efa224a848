"""How an erasure changes an event: texts go, the position in the log and figures stay.

Pure. Two ways: an event that is erased *whole* loses its payload and every text that was made of it; in an
event with the pattern each occurrence becomes a mark, as if it had been redacted when it was written.
Ids, position, type, times, counts and hashes stay. The slug of a session whose texts were erased goes from
its context id and from every link to it: `session:erased_{session id}`.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from eventlog.base import jsontext
from eventlog.base.names import event_context, session_context, turn_context
from eventlog.base.types import COLUMN_KINDS, LIFECYCLE_TYPES, LIST, TEXT
from eventlog.log.numbering import default_context
from eventlog.log.pattern import Pattern
from eventlog.secrets.erased_rules import ERASED

# Their texts make the slug of their session.
NAMING_TYPES = ("session", "turn", "intent")

# Bookkeeping of the store itself; it holds no text of a user.
KEPT_TYPES = ("erasure", "cursor", "withheld", "maintenance", "retention")

# Identity, and the keys of other events or contents.
_IDENTIFYING = frozenset(
    ("event_id", "event_type", "event_kind", "source", "session_id", "turn_id", "repo", "commit")
) | frozenset(("worktree", "cause", "before_hash", "after_hash", "tree_hash"))
_LINKS = ("extends", "related_to", "reinforces", "contradicts")
_TEXTS = tuple(
    name
    for name, kind in COLUMN_KINDS.items()
    if kind == TEXT and name not in _IDENTIFYING and name != "context_id"
)
# Texts that are made of the payload.
_PAYLOAD_TEXTS = ("title", "tool", "path", "cwd", "branch", "error_type")
# What replay and the totals need of a payload, and is no text of a user.
_FIGURES = re.compile(r"(?:after|before)_(?:mode|size)|(?:started|ended)_at|end_reason")
_FIGURE_TEXT = re.compile(r"[0-9TZ:.+ -]{1,40}|[a-z_]{1,20}")

_TREE_COLUMNS = ("tree_hash", "before_hash", "after_hash")
CHANGED_COLUMNS = (*_TEXTS, "context_id", *_LINKS, *_TREE_COLUMNS, "blobs", "payload", "redacted")
READ_COLUMNS = ("event_id", "event_type", "session_id", "turn", "seq", *CHANGED_COLUMNS)

assert all(COLUMN_KINDS[name] == LIST for name in _LINKS)


@dataclass(slots=True)
class Marks:
    """What one erasure takes out. `erasure` is its id.

    `whole` are ids of events; those in `paths_kept` keep their path, by which they were chosen.
    `sessions` are those whose slugs go; they grow as events with such texts are met. `trees` maps the hashes
    of trees that hold names with the pattern, or such trees, to the hashes of their replacements.
    """

    erasure: str
    whole: "set[str]" = field(default_factory=set)
    paths_kept: "set[str]" = field(default_factory=set)
    pattern: "Pattern | None" = None
    sessions: "set[str]" = field(default_factory=set)
    trees: "dict[str, str]" = field(default_factory=dict)

    @property
    def mark(self) -> str:
        return f"[REDACTED:{ERASED}:{self.erasure[:8]}]"


def is_chosen(row: Mapping[str, Any], marks: Marks) -> bool:
    """Whether the event itself changes: all of it goes, or a pattern in it."""
    if row["event_type"] in KEPT_TYPES:
        return False
    if row["event_id"] in marks.whole:
        return not _is_done(row, marks)
    return marks.pattern is not None and bool(_without_pattern(row, marks))


def changed(row: Mapping[str, Any], marks: Marks) -> "dict[str, Any]":
    """The columns of an event that change, with their new values. `payload` is JSON text, here and there."""
    if row["event_type"] in KEPT_TYPES:
        return {}
    new: dict[str, Any] = {}
    if row["event_id"] in marks.whole:
        if not _is_done(row, marks):
            new = _whole(row, marks)
    elif marks.pattern is not None:
        new = _without_pattern(row, marks)
    _rename_sessions(row, marks, new)
    new = {name: value for name, value in new.items() if value != row[name]}
    return {**new, **_with_trees(row, marks), **({"redacted": True} if new else {})}


def _with_trees(row: Mapping[str, Any], marks: Marks) -> "dict[str, Any]":
    """The columns in which trees with the pattern are replaced."""
    trees = marks.trees
    if not trees:
        return {}
    new: dict[str, Any] = {name: trees[row[name]] for name in _TREE_COLUMNS if row[name] in trees}
    if not trees.keys().isdisjoint(row["blobs"] or ()):
        new["blobs"] = [trees.get(tree, tree) for tree in row["blobs"]]
    return new


def _is_done(row: Mapping[str, Any], marks: Marks) -> bool:
    """Whether this erasure was carried out on the event already."""
    payload = row["payload"] or ""
    if f'"{ERASED}":"{marks.erasure}"' in payload or marks.mark in payload:
        return True
    return any(isinstance(row[name], str) and marks.mark in row[name] for name in _TEXTS)


def _whole(row: Mapping[str, Any], marks: Marks) -> "dict[str, Any]":
    payload = jsontext.object_if_any(row["payload"])
    figures = {
        key: value
        for key, value in payload.items()
        if _FIGURES.fullmatch(key)
        and (isinstance(value, (int, float)) or (isinstance(value, str) and _FIGURE_TEXT.fullmatch(value)))
    }
    new: dict[str, Any] = dict.fromkeys(_PAYLOAD_TEXTS)
    if row["event_id"] in marks.paths_kept:
        new["path"] = row["path"]
        if isinstance(old_path := payload.get("old_path"), str):
            figures["old_path"] = old_path
    new["payload"] = _json({ERASED: marks.erasure, **figures})
    new["context_id"] = _plain_context(row)
    new["related_to"] = None
    return new


def _plain_context(row: Mapping[str, Any]) -> "str | None":
    """The context id without texts: the one that numbering gives to an event that has none."""
    session_id, turn, seq, event_type = (row[n] for n in ("session_id", "turn", "seq", "event_type"))
    context: str | None = row["context_id"]
    if event_type in ("session", "sessions") or session_id is None:
        return context if event_type in LIFECYCLE_TYPES else None
    if event_type == "turn":
        return turn_context(session_id, turn) if turn is not None else context
    return event_context(event_type, session_id, turn or 0, seq) if seq is not None else None


def _without_pattern(row: Mapping[str, Any], marks: Marks) -> "dict[str, Any]":
    pattern = marks.pattern
    assert pattern is not None
    new: dict[str, Any] = {}
    for name in _TEXTS:
        text = row[name]
        if text is not None and (without := pattern.sub(text, marks.mark)) is not text:
            new[name] = without
    if row["context_id"] is not None:
        new["context_id"] = _without_name(row["context_id"], pattern)
    for name in _LINKS:
        if row[name] is not None:
            new[name] = [_without_name(link, pattern) for link in row[name]]
    payload = row["payload"]
    if payload is not None and _may_hold(payload, pattern, marks.mark):
        value = jsontext.object_if_any(payload)
        without = _in_value(value, lambda text: pattern.sub(text, marks.mark))
        if without is not value:
            new["payload"] = _json(without)
    return {name: value for name, value in new.items() if value != row[name]}


# Context ids with nothing but ids and numbers after the type.
_PLAIN = re.compile(r"(?:[^:]*:)?[0-9a-z-]{8,64}(?:_[0-9]{3,}){1,2}|[^:]*:sessions")


def _without_name(context: str, pattern: Pattern) -> str:
    """A context id, or a link, without what was made of the pattern. Its type and ids stay."""
    if _PLAIN.fullmatch(context):
        return context
    session = _SESSION.fullmatch(context)
    end = len(context) if session is None else session.start(1)
    start = context.find(":") + 1
    return context[:start] + pattern.sub_name(context[start:end]) + context[end:]


def _may_hold(payload: str, pattern: Pattern, mark: str) -> bool:
    # Ends of texts are not those of the JSON, and escapes hide letters: then the payload is decoded.
    return (
        "\\" in payload
        or pattern.text is None
        or pattern.text[:6] in payload
        or pattern.sub(payload, mark) != payload
    )


def _rename_sessions(row: Mapping[str, Any], marks: Marks, new: "dict[str, Any]") -> None:
    """Take slugs out of the event's own context id, its links, and texts of its payload."""

    def renamed(text: str) -> str:
        if "session:" not in text:
            return text
        return _SESSION.sub(lambda match: _new_context(match, marks.sessions), text)

    if not marks.sessions:
        return
    context = new.get("context_id", row["context_id"])
    if context is not None:
        new["context_id"] = renamed(context)
    for name in _LINKS:
        links = new.get(name, row[name])
        if links is not None:
            new[name] = [renamed(link) for link in links]
    payload = new.get("payload", row["payload"])
    if payload is None:
        return
    of_session = row["session_id"] in marks.sessions
    if "session:" in payload or (of_session and '"slug"' in payload):
        value = jsontext.decode(payload)
        without = _in_value(value, renamed)
        if of_session and isinstance(without, dict) and isinstance(without.get("slug"), str):
            without = {**without, "slug": ERASED}
        if without is not value:
            new["payload"] = _json(without)


_SESSION = re.compile(r"session:[a-z0-9_-]*_([0-9a-z-]{8,64})(?![0-9a-z-])")


def _new_context(match: "re.Match[str]", sessions: "set[str]") -> str:
    session_id = match[1]
    if session_id not in sessions or match[0] == default_context(session_id):
        return match[0]
    return session_context(ERASED, session_id)


def _in_value(value: Any, change: Any) -> Any:
    """The value with its texts and keys changed; the same object when none was."""
    if isinstance(value, str):
        return change(value)
    if isinstance(value, list):
        items = [_in_value(item, change) for item in value]
        return value if all(a is b for a, b in zip(items, value, strict=True)) else items
    if isinstance(value, dict):
        new: dict[str, Any] = {}
        is_same = True
        for key, item in value.items():
            new_key, new_item = change(key), _in_value(item, change)
            while new_key is not key and (new_key in new or new_key in value):
                new_key += "'"  # two keys must not become one
            is_same = is_same and new_key is key and new_item is item
            new[new_key] = new_item
        return value if is_same else new
    return value


def _json(value: "dict[str, Any]") -> str:
    return jsontext.encode(value).decode("utf-8", "surrogatepass")
