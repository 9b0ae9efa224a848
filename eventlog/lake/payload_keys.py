"""The classes of the keys of payloads: what is not named here is text (docs/lake.md §3).

Keys of objects may be a person's words, too (the questions that an agent asked), so nothing is copied from an
object whose keys are not named here one by one. Pure functions; any thread.
"""

import re
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from eventlog.base.types import PATH_ARGUMENTS
from eventlog.lake import policy as of
from eventlog.projections import definitions


class Key(NamedTuple):
    """The classes that all must leave for a key to leave, and which of its values are what they should be."""

    leaves_with: "frozenset[str]"
    fits: "Callable[[Any], object]"


# What a key holds: one value, a list of values alike, or an object with keys of its own.
Rule = Any  # Key | list[Rule] | dict[str, Rule]


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and value == value and abs(value) != float("inf")


def _text(form: "Callable[[str], object]") -> "Callable[[Any], object]":
    return lambda value: isinstance(value, str) and form(value)


def _figure(fits: "Callable[[Any], object]") -> Key:
    return Key(frozenset((of.FIGURES,)), fits)


def _words_in(text: str) -> "frozenset[str]":
    return frozenset(text.split())


def _words(text: str) -> Key:
    return _figure(_text(_words_in(text).__contains__))


def _is_person(value: object) -> bool:
    """A host, or a person as sessions and commits name one."""
    if isinstance(value, str):
        return True
    known = {"name", "email", "time"}
    return isinstance(value, dict) and all(
        key in known and (text is None or isinstance(text, str)) for key, text in value.items()
    )


def _is_turn(text: str) -> object:
    session_id, _, number = text.rpartition("_")
    return of.is_session_id(session_id) and number.isdecimal()


def _are_hashes(value: object) -> bool:
    """An object of the hashes of trees, each with the one in its place."""
    return isinstance(value, dict) and all(
        isinstance(text, str) and (of.is_hash(text) or of.is_hex(text))
        for pair in value.items()
        for text in pair
    )


NUMBER = _figure(_is_number)
HASH, HEX, ID = (_figure(_text(form)) for form in (of.is_hash, of.is_hex, of.is_id))
SESSION_ID = _figure(_text(of.is_session_id))
MODE = _figure(_text(re.compile("[0-7]{6}").fullmatch))
TREES = _figure(_are_hashes)
PATH = Key(frozenset((of.PATHS,)), _text(of.is_path))
PERSON = Key(frozenset((of.PEOPLE,)), _is_person)
REASONS = Key(frozenset((of.TEXTS, of.PATHS)), lambda value: isinstance(value, list))  # [[path, why]]
REFERENCES = Key(frozenset((of.CONTENTS,)), lambda value: isinstance(value, dict))
NEVER = Key(frozenset((of.LOCAL,)), lambda _: True)


def _numbers(text: str) -> "dict[str, Rule]":
    return dict.fromkeys(text.split(), NUMBER)


_COUNTS = " ".join(
    name
    for columns in (definitions.TURNS, definitions.SESSIONS)
    for name, kind, _ in columns
    if kind == "BIGINT"
)
_CACHE = _numbers("ephemeral_1h_input_tokens ephemeral_5m_input_tokens read write")
# What agents count of a model call, each by its own names.
_USAGE: "dict[str, Rule]" = {
    **_numbers(
        "input output reasoning thoughts tool total cached input_tokens output_tokens total_tokens "
        "cached_input_tokens cache_creation_input_tokens cache_read_input_tokens cache_write_input_tokens "
        "reasoning_output_tokens prompt_tokens completion_tokens inputTokens outputTokens cacheReadTokens "
        "cacheWriteTokens reasoningTokens cost sum_of"
    ),
    "cache": _CACHE,
    "cache_creation": _CACHE,
    "output_tokens_details": _numbers("thinking_tokens reasoning_tokens"),
    "server_tool_use": _numbers("web_search_requests web_fetch_requests"),
    "run": _numbers("inputTokens outputTokens cacheReadTokens cacheWriteTokens reasoningTokens"),
}
_STOPPED = _words(
    "end_turn tool_use max_tokens stop_sequence pause_turn refusal stop length tool-calls tool_calls "
    "content-filter content_filter error aborted toolUse STOP MAX_TOKENS unknown other"
)
_ORIGIN = _words("user sdk no_prompt task_notification")
_CLOSED_BY = _words("hook doctor maintenance")
_PHRASES = frozenset((
    "process gone", "nothing heard for an hour", "superseded by a later prompt",
    "session resumed by another process",
))  # fmt: skip
_ENDED = _figure(
    _text(
        _PHRASES.union(
            _words_in(
                "explicit stale rollover superseded timeout failed transcript clear logout prompt_input_exit "
                "other exit resume idle bypass_permissions_disabled renamed"
            )
        ).__contains__
    )
)
_LISTS_OF_PATHS = {"files_read": [PATH], "files_modified": [PATH]}
_OF_CALL: "dict[str, Rule]" = {
    "usage": _USAGE, "tokens": _USAGE, "token_usage": _USAGE, "cost": NUMBER, "stop_reason": _STOPPED,
    "reason": _STOPPED,
}  # fmt: skip

# Of every event.
_OF_ALL: "dict[str, Rule]" = {
    **_numbers("hook_us duration_ms success"),
    "erased": HEX,
    "in_blobs": REFERENCES,
    "transcript_path": NEVER,
    "agent_transcript_path": NEVER,
}

_OF_TYPE: "dict[str, dict[str, Rule]]" = {
    "session": {
        "session_id": SESSION_ID,
        "source": _words("startup resume clear compact fork"),
        "end_reason": _ENDED,
        "closed_by": _CLOSED_BY,
        "turn_count": NUMBER,
        "totals": _numbers(f"{_COUNTS} turns tool_calls errors tokens"),
        "person": PERSON,
        "host": PERSON,
        "directory": NEVER,
    },
    "sessions": _numbers("total_sessions"),
    "turn": {
        "origin": _ORIGIN, "reason": _ENDED, "closed_by": _CLOSED_BY, "line_place": NUMBER,
        "event_count": NUMBER, "stop_hook_active": NUMBER, **_LISTS_OF_PATHS,
    },
    "intent": {
        "origin": _ORIGIN, "author": PERSON, "committer": PERSON, "parents": [HEX], "message_hash": HASH,
    },
    "snapshot": {
        **_numbers("tracked_files files_changed ignored_count skipped_count keep_ignored"),
        "snapshot_type": _words("turn_start turn_end tool"),
        "git_head": HEX,
        "git_tree": HEX,
        "git_dirty": [PATH],
        "git_staged": [PATH],
        "root_mode": MODE,
        "deferred": HASH,
        "skipped": REASONS,
        "capture": {
            **_numbers("pending changes told deferred in_git"),
            "state": _words("partial baseline missed failed late"),
            "by": _words("watchman"),
            "lists": [HASH],
            "pending_paths": [PATH],
            "deferred_paths": [PATH],
            "scoped_paths": [PATH],
        },
    },
    "file": {
        "old_path": PATH, "before_mode": MODE, "after_mode": MODE, "after_size": NUMBER, "deferred": HASH,
        "before_deferred": HASH, "unknown": [_words("before after")], "causes": [ID],
    },
    "decision": _numbers("confidence"),
    "error": {"resolved": NUMBER, "line": NUMBER, "file": PATH},
    "llm": _OF_CALL,
    "llm_copy": _OF_CALL,
    "feedback": {
        "type": _words("approval rejection correction"), "sentiment": _words("positive negative neutral"),
    },
    "test_run": {**_numbers("passed failed total"), "test_file": PATH},
    "import": {
        "agent_session_id": ID,
        "path": NEVER,
        "gaps": _numbers("hooks_missed transcript_missed"),
        "parts": [{**_numbers("bytes lines malformed"), "digest": HEX}],
    },
    "maintenance": {
        **_numbers(
            "bytes_after bytes_before bytes_planned bytes_unlinked condemned dropped events merged "
            "over_budget released removed rescued segments sessions_lost unlinked waiting"
        ),
        "pack": HEX,
        "lost": [HEX],
    },
    "erasure": {
        "erasure": HEX, "by": _words("event session path secret"), "events": [HEX], "contents": [HEX],
        "trees": TREES, "store": HEX, "events_changed": NUMBER, "who": PERSON,
    },
    "restore": {
        "turn": _figure(_text(_is_turn)), "target": NEVER,
        "at": _figure(_text(lambda text: text in ("start", "end") or of.is_event_id(text))),
        "tree": HASH, "plan": HASH, "undo_of": HEX, "steps": _numbers("create overwrite delete chmod retype"),
        "operation_of": _words("restore undo redo"), "of": [ID], "paths": [PATH], "merged": [PATH],
        "left": REASONS, "skipped": REASONS,
    },
    "retention": {
        "session_id": SESSION_ID, "turn": NUMBER,
        "rule": _words("archived max_age_days max_sessions max_bytes"),
    },
    "content": {"count": NUMBER, "lost": REASONS},
    "cursor": _numbers("position contexts"),
    "ref": {"before": HEX, "commits": NUMBER, "oldest": HEX},
}  # fmt: skip

# Keys that hold a path wherever they are, in the arguments and results of tools say.
_PATH_KEYS = frozenset(PATH_ARGUMENTS) | _words_in(
    "paths old_path oldPath filename filenames fileName filePaths file_paths files_read files_modified cwd "
    "git_dirty git_staged pending_paths deferred_paths scoped_paths skipped merged workdir root dir "
    "directory target uri test_file"
)


# What stands for a person or a host: itself, or a digest.
Named = Callable[[Any], Any]


def figures_of(event_type: str, payload: "Mapping[str, Any]", allowed: "Allowed") -> "dict[str, Any]":
    """What may leave of a payload whose texts may not."""
    rules = _RULES.get(event_type, _OF_ALL)
    figures: dict[str, Any] = _chosen(payload, rules, allowed.classes)
    return _with_names(figures, rules, allowed)


def without_classes(event_type: str, payload: "dict[str, Any]", allowed: "Allowed") -> "dict[str, Any]":
    """A payload of which texts may leave, without the other classes; the same object where it has none."""
    rules = _RULES.get(event_type, _OF_ALL)
    left_out = [name for name in payload if not _may_leave(rules.get(name), allowed.classes)]
    if left_out:
        payload = {name: value for name, value in payload.items() if name not in left_out}
    if of.PATHS not in allowed.classes:
        payload = _without_paths(payload)
    return _with_names(payload, rules, allowed)


class Allowed(NamedTuple):
    """The classes that leave, and what stands for a person or a host where these leave."""

    classes: "frozenset[str]"
    named: Named


_RULES = {event_type: {**_OF_ALL, **rules} for event_type, rules in _OF_TYPE.items()}


def _with_names(payload: "dict[str, Any]", rules: "dict[str, Rule]", allowed: Allowed) -> "dict[str, Any]":
    people = [name for name, rule in rules.items() if rule is PERSON and name in payload]
    return {**payload, **{name: allowed.named(payload[name]) for name in people}} if people else payload


def _may_leave(rule: Rule, classes: "frozenset[str]") -> bool:
    while isinstance(rule, list):
        (rule,) = rule
    return not isinstance(rule, Key) or rule.leaves_with <= classes


def _chosen(value: Any, rule: Rule, classes: "frozenset[str]") -> Any:
    """The part of a value that fits its rule; None where none does."""
    if isinstance(rule, Key):
        return value if rule.leaves_with <= classes and rule.fits(value) else None
    if isinstance(rule, list):
        if not isinstance(value, list) or not _may_leave(rule, classes):
            return None
        items = (_chosen(item, rule[0], classes) for item in value)
        return [item for item in items if item is not None]
    if not isinstance(value, dict):
        return None
    parts = ((name, _chosen(value[name], rule[name], classes)) for name in rule if name in value)
    return {name: part for name, part in parts if part is not None}


def _without_paths(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _without_paths(item) for name, item in value.items() if name not in _PATH_KEYS}
    return [_without_paths(item) for item in value] if isinstance(value, list) else value
