"""One entry of shared context: what is known of a workstream, as people and tools pass it on.

Pure. An entry is a dict of the fields below; what else it has is kept as it is. `merged` is the only way two
of them become one: later keys win, absent or null ones change nothing.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from blake3 import blake3

from eventlog.base.errors import InvalidEvent

SCHEMA_VERSION = 1
PLANNING, IMPLEMENTATION = "planning", "implementation"
PHASES = (PLANNING, IMPLEMENTATION)

Entry = dict[str, Any]

# The name of a field, what it must be, and what a list of it must hold.
_FIELDS: "dict[str, type]" = {
    "feature_request": str,
    "checkpoint": dict,
    "pinned_rules": list,
    "working_summary": dict,
    "checklist": list,
    "open_decisions": list,
    "evidence_ledger": list,
    "file_pointers": list,
    "last_run": dict,
    "failed_runs": list,
}
# The member that identifies the items of a list; items of other lists are texts.
_NAMED_BY = {
    "open_decisions": "id", "evidence_ledger": "claim", "file_pointers": "path", "checklist": "text",
    "failed_runs": "error",
}  # fmt: skip
_FAILED_RUNS_MAX = 3
SESSIONS = "cli_sessions"


@dataclass(frozen=True, slots=True, order=True)
class EntryKey:
    """What an entry is about. `branch` is "" where there is none (S2-7)."""

    repo: str
    branch: str
    workstream_id: str

    def as_dict(self) -> "dict[str, str]":
        return {"repo": self.repo, "branch": self.branch, "workstream_id": self.workstream_id}


def key_of(entry: "Mapping[str, Any]") -> EntryKey:
    """Raises: InvalidEvent."""
    key = entry.get("key")
    parts = [key.get(name) for name in ("repo", "branch", "workstream_id")] if isinstance(key, dict) else []
    if len(parts) != 3 or not all(isinstance(part, str) for part in parts) or not parts[2]:
        raise InvalidEvent("an entry needs a key of three texts: repo, branch and workstream_id")
    return EntryKey(*map(str, parts))


def new_entry(key: EntryKey) -> Entry:
    return {"schema_version": SCHEMA_VERSION, "key": key.as_dict()}


def check(entry: "Mapping[str, Any]") -> None:
    """Raises: InvalidEvent naming the first field that is not what it must be."""
    key_of(entry)
    for name, kind in _FIELDS.items():
        value = entry.get(name)
        if value is not None and not isinstance(value, kind):
            raise InvalidEvent(f"{name} must be a {kind.__name__}, not {type(value).__name__}")
        if isinstance(value, list):
            member = _NAMED_BY.get(name)
            for item in value:
                if not (isinstance(item, str) if member is None else _is_named(item, member)):
                    what = "a text" if member is None else f"an object with a text {member!r}"
                    raise InvalidEvent(f"every item of {name} must be {what}")
    if SESSIONS in entry:
        raise InvalidEvent(f"{SESSIONS} belongs into the file of local sessions, never into a committed one")


def merged(old: "Mapping[str, Any]", new: "Mapping[str, Any]") -> Entry:
    """The entry with `new` merged into it. Items of lists have an id, claim, path or text."""
    out = dict(old)
    for name, value in new.items():
        if value is None:
            continue
        old_value = out.get(name)
        if isinstance(value, dict) and isinstance(old_value, dict):
            out[name] = {**old_value, **{k: v for k, v in value.items() if v is not None}}
        elif name == "failed_runs" and isinstance(value, list) and isinstance(old_value, list):
            out[name] = [*(run for run in old_value if run not in value), *value][-_FAILED_RUNS_MAX:]
        elif isinstance(value, list) and isinstance(old_value, list):
            out[name] = _joined(old_value, value, _NAMED_BY.get(name))
        else:
            out[name] = value
    return out


def summary_hash(text: str) -> str:
    """The hash of a summary's text, which shows a change by other means."""
    return blake3(text.encode("utf-8", "surrogatepass")).hexdigest(16)


def _is_named(item: object, member: str) -> bool:
    return isinstance(item, dict) and isinstance(item.get(member), str)


def _joined(old: "list[Any]", new: "list[Any]", member: "str | None") -> "list[Any]":
    if member is None:
        return [*old, *(item for item in new if item not in old)]
    joined: dict[Any, Any] = {item.get(member): item for item in old if isinstance(item, dict)}
    for item in new:
        name = item.get(member)
        joined[name] = {**joined[name], **item} if name in joined else item
    return list(joined.values())
