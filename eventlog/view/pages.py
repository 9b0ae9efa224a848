"""The answers `page` and `event`: what was asked, written and called in a turn, and one event whole."""

from collections.abc import Mapping, Sequence
from typing import Any

from eventlog.base import jsontext
from eventlog.base.display import microseconds
from eventlog.blobs.payload_texts import payload_with_texts
from eventlog.reading.page import Block, CallBlock, ChangesBlock, NoteBlock, ShownChange, WordsBlock
from eventlog.view.parameters import Parameters
from eventlog.view.stores import ViewedStore

TEXT_MAX = 64 << 10  # characters of one text of a page
PAYLOAD_MAX = 256 << 10  # bytes of a payload as JSON
_TIMES = ("started_at", "completed_at")


def page(viewed: ViewedStore, parameters: Parameters) -> dict[str, Any]:
    turn = viewed.turn(parameters.required("turn"))
    read = viewed.pages().turn(turn)
    return {
        "turn": turn.name,
        "session_id": turn.session_id,
        "title": read.anchor["title"],
        "status": read.status,
        "uncertain": read.uncertain or None,
        "undone_at": read.undone_at,
        "anchor": _anchor(read.anchor),
        "blocks": [_block(block) for block in read.blocks],
    }


def _anchor(anchor: Mapping[str, Any]) -> dict[str, Any]:
    cost = anchor["cost_usd"]
    times = {name: microseconds(anchor[name]) for name in _TIMES}
    return {**anchor, **times, "cost_usd": None if cost is None else float(cost)}


def _block(block: Block) -> dict[str, Any]:
    if isinstance(block, WordsBlock):
        of_kind = {"kind": "words", "author": block.author, **_text("text", block.text)}
    elif isinstance(block, CallBlock):
        of_kind = {
            "kind": "call",
            "tool": block.tool,
            "target": block.target,
            "success": block.success,
            "ended": block.ended,
            "duration_ms": block.duration_ms,
            **_text("result", block.result),
            "changes": _changes(block.changes),
        }
    elif isinstance(block, ChangesBlock):
        of_kind = {"kind": "changes", "event_id": None, "changes": _changes(block.changes)}
    else:
        of_kind = {"kind": "note", **_text("text", block.text)}
    beside = {} if isinstance(block, ChangesBlock) else {"event_id": block.event_id}
    subagent = None if isinstance(block, (ChangesBlock, NoteBlock)) else block.subagent_id
    return {**of_kind, **beside, "at": block.at, "subagent_id": subagent}


def _text(name: str, text: str) -> dict[str, Any]:
    return {name: text[:TEXT_MAX], "cut": len(text) if len(text) > TEXT_MAX else None}


def _changes(changes: Sequence[ShownChange]) -> list[dict[str, Any]]:
    return [
        {
            "event_id": change.event_id,
            "path": change.path,
            "old_path": change.old_path,
            "operation": change.operation,
            "added": change.lines_added,
            "removed": change.lines_removed,
            "withheld": change.withheld,
            "diff": None if change.diff is None else change.diff[:TEXT_MAX],
        }
        for change in changes
    ]


def event(viewed: ViewedStore, parameters: Parameters) -> dict[str, Any]:
    columns = dict(viewed.store.event(parameters.required("id")))
    payload = payload_with_texts(viewed.store, columns["payload"])
    text = jsontext.encode_without_floats(payload)
    if len(text) <= PAYLOAD_MAX:
        return {"event": {**columns, "payload": payload}, "cut": None}
    shortened = text[:PAYLOAD_MAX].decode("utf-8", "ignore")
    return {"event": {**columns, "payload": shortened}, "cut": len(text)}
