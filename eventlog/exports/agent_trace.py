"""Which lines an agent wrote, as records of Agent Trace 0.1, one a line. docs/exports.md has the mapping.

A record covers the files that one turn changed: for each, the lines that are in it after the turn's last
change and were not before its first one, by their numbers after. It is made from contents, which are read one
file at a time. One that is withheld, erased or gone gives no lines and is listed in the report. One thread.
"""

import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from io import BytesIO
from typing import TYPE_CHECKING

from blake3 import blake3

from eventlog.base.errors import EventLogError
from eventlog.base.paths import is_outside
from eventlog.blobs.ids import from_text
from eventlog.exports import withheld
from eventlog.exports.conversation import (
    Conversation,
    JsonObject,
    conversations,
    doubt_at_end,
    moment,
    payload_of,
)
from eventlog.exports.otlp import provider_of
from eventlog.projections.happened import happened_at
from eventlog.replay.linediff import changes

if TYPE_CHECKING:
    from eventlog.store import Store

# The published schema takes two numbers only.
VERSION = "0.1"
_MODEL_MAX = 250
_TEXT_MAX = 32 << 20
_COMMIT_DIGITS = 40
_DIRECTORY_MODE = "040000"


@dataclass(slots=True)
class TraceReport:
    """What is not in the records: (path, reason) of changes without lines, in order."""

    records: int = 0
    missing: "list[tuple[str, str]]" = field(default_factory=list)


@dataclass(slots=True)
class _Change:
    """The changes of one path in a turn, first and last."""

    first: JsonObject
    last: JsonObject
    is_agents: bool  # each of the changes is known to be the agent's


def records(
    store: "Store",
    report: TraceReport,
    *,
    session_id: "str | Sequence[str] | None" = None,
    since: "int | None" = None,
) -> "Iterator[JsonObject]":
    """A record for each turn that left lines in files; `report` is filled on the way."""
    with store.view() as view:
        exposure = withheld.Exposure(view, store.redactor)
        for conversation in conversations(store, view, session_id=session_id, since=since):
            for turn, files in _turns(conversation).items():
                record = _record(store, conversation, turn, files, exposure, report)
                if record is not None:
                    report.records += 1
                    yield record


def _turns(conversation: Conversation) -> "dict[int, dict[str, _Change]]":
    turns: dict[int, dict[str, _Change]] = {}
    for event in conversation.events:
        if event["event_type"] != "file" or event["operation"] == "read" or event["path"] is None:
            continue
        if event["turn"] is None:
            continue
        files = turns.setdefault(event["turn"], {})
        is_agents = event["cause"] is not None or event["tool_use_id"] is not None
        change = files.get(event["path"])
        if change is None:
            files[event["path"]] = _Change(event, event, is_agents)
        else:
            change.last, change.is_agents = event, change.is_agents and is_agents
    return turns


def _record(
    store: "Store", conversation: Conversation, turn: int, files: "dict[str, _Change]",
    exposure: withheld.Exposure, report: TraceReport,
) -> "JsonObject | None":  # fmt: skip
    events = conversation.by_turn[turn]
    models = [event["model"] for event in events if event["model"]]
    file_records = []
    for path, change in sorted(files.items()):
        if is_outside(path):
            report.missing.append((path, "it lies outside of the repository"))
            continue
        if change.last["after_hash"] is None:
            # A directory that is recorded for being empty has no lines.
            is_directory = payload_of(change.last).get("after_mode") == _DIRECTORY_MODE
            if change.last["operation"] != "delete" and not is_directory:
                report.missing.append((path, "its content after the change is not known"))
            continue
        ranges, reason = _ranges(store, change, exposure)
        if reason is not None:
            report.missing.append((path, reason))
        elif ranges:
            contributor = _contributor(conversation, change, models[-1] if models else None)
            file_records.append(
                {"path": path, "conversations": [{"contributor": contributor, "ranges": ranges}]}
            )
    if not file_records:
        return None
    last = max((change.last for change in files.values()), key=lambda event: int(event["position"]))
    session = conversation.session
    record: JsonObject = {
        "version": VERSION,
        "id": _uuid(session["session_id"], turn),
        "timestamp": moment(happened_at(last)) or "1970-01-01T00:00:00.000000Z",
        "files": file_records,
        "metadata": {"locus": {"session_id": session["session_id"], "turn": turn}},
    }
    doubt = doubt_at_end(events)
    if doubt is not None:
        record["metadata"]["locus"]["certainty"] = doubt
    if session["agent"]:
        record["tool"] = {"name": session["agent"], "version": conversation.agent_version or "unknown"}
    commit = last["commit"]
    if isinstance(commit, str) and len(commit) >= _COMMIT_DIGITS:
        record["vcs"] = {"type": "git", "revision": commit}
    return record


def _contributor(conversation: Conversation, change: _Change, model: "str | None") -> JsonObject:
    """`ai` only for changes that are known to be of a tool call of the agent."""
    if not change.is_agents or conversation.session["agent"] == "git":
        return {"type": "unknown"}
    if model is None:
        return {"type": "ai"}
    provider = (provider_of(model) or "").replace("gcp.gemini", "google")
    name = model if "/" in model or not provider else f"{provider}/{model}"
    return {"type": "ai", "model_id": name[:_MODEL_MAX]}


def _ranges(
    store: "Store", change: _Change, exposure: withheld.Exposure
) -> "tuple[list[JsonObject], str | None]":
    """The new lines, or why they are not known."""
    before, after = change.first["before_hash"], change.last["after_hash"]
    if before is None and change.first["operation"] != "add":
        return [], "its content before the change is not known"
    if not all(
        exposure.may_leave(content_hash) for content_hash in (before, after) if content_hash is not None
    ):
        return [], withheld.WITHHELD
    try:
        old = b"" if before is None else store.blobs.get(from_text(before))
        new = store.blobs.get(from_text(after))
    except (EventLogError, ValueError) as error:
        return [], str(error)
    if b"\0" in old or b"\0" in new or len(old) + len(new) > _TEXT_MAX:
        return [], "binary or very large"
    return new_lines(old, new), None


def new_lines(old: bytes, new: bytes) -> "list[JsonObject]":
    """The ranges of lines of `new` that `old` does not have there."""
    blocks = changes(BytesIO(old).readlines(), BytesIO(new).readlines())
    return [{"start_line": b1 + 1, "end_line": b2} for _, _, b1, b2 in blocks if b2 > b1]


def _uuid(session_id: str, turn: int) -> str:
    """A UUID of version 8, whose digits the maker chooses: the same turn has the same one."""
    digest = bytearray(blake3(f"agent trace\0{session_id}\0{turn}".encode()).digest(length=16))
    digest[6] = 0x80 | digest[6] & 0x0F
    digest[8] = 0x80 | digest[8] & 0x3F
    return str(uuid.UUID(bytes=bytes(digest)))
