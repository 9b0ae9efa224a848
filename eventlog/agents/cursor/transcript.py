"""Transcripts of Cursor's agent: lines of messages, without times, ids, usage or results of tools.

What it rests on: the file's name is the conversation's id; a prompt is between `<user_query>` tags;
hidden reasoning is `[REDACTED]`. Nothing says whether a call succeeded, so no file event is made of one.
"""

import os
import re
import uuid
from collections.abc import Mapping
from typing import Any

from eventlog.agents.kit.call import text_of, without
from eventlog.agents.kit.draft import Draft, digest_of
from eventlog.agents.kit.lines import FileSource
from eventlog.agents.kit.steps import StepsReader, others_in
from eventlog.agents.kit.words import objects_of, text_in

AGENT = "cursor"
_Object = dict[str, Any]
_DIRECTORY = "agent-transcripts"
_HIDDEN = "[REDACTED]"
_ODD = re.compile(r"[^A-Za-z0-9]+")


def directories_of_transcripts(environ: "Mapping[str, str]") -> list[str]:
    return [f"{environ.get('HOME', '')}/.cursor/projects"]


def sources_in(path: str) -> list[FileSource]:
    """A conversation; other files of the same directories are none."""
    return [FileSource(AGENT, [path])] if f"/{_DIRECTORY}/" in path else []


def root_of(source: FileSource, _: "list[_Object]", roots: "list[str]") -> str | None:
    """Which of `roots` the conversation was held in: its directory's name is that path with dashes."""
    project = os.path.basename(source.path.partition(f"/{_DIRECTORY}/")[0])
    return next((root for root in roots if _ODD.sub("-", root).strip("-") == _ODD.sub("-", project)), None)


def recognises(record: _Object) -> bool:
    message = record.get("message")
    return (
        record.get("role") in ("user", "assistant")
        and isinstance(message, dict)
        and "content" in message
        and "type" not in record
    )


class CursorReader(StepsReader):
    """Reads one conversation."""

    def __init__(self, draft: Draft) -> None:
        super().__init__(draft)
        self._step = 0

    def take(self, record: _Object) -> None:
        draft = self._draft
        if draft.session is None:
            draft.begin_session(_session_of(draft, record), {})
        self._step += 1
        self._tell.begin(self._step, record.get("timestamp"))
        message = record.get("message")
        if not recognises(record) or not isinstance(message, dict):
            self._tell.rest(record, text_of(record, "type") or text_of(record, "role"))
            return
        rest = {**without(record, "role", "message", "timestamp"), **without(message, "content", "role")}
        content = message["content"]
        blocks = objects_of(content) or [{"type": "text", "text": text_in(content)}]
        if record["role"] == "user":
            self._user(blocks, rest)
        else:
            for number, block in enumerate(blocks):
                self._block(number, block)
            self._tell.rest(rest, "assistant")

    def _user(self, blocks: "list[_Object]", rest: _Object) -> None:
        text = text_in(blocks)
        before, mark, query = text.partition("<user_query>")
        query, end, after = query.rpartition("</user_query>")
        whole = text if not (mark and end) or before.strip() or after.strip() else None
        prompt = query.strip("\n") if mark and end else text
        self._tell.prompt(
            prompt, {**rest, "text": whole if whole != prompt else None, "content": others_in(blocks)}
        )

    def _block(self, number: int, block: _Object) -> None:
        kind, text = block.get("type"), block.get("text")
        if kind == "text" and isinstance(text, str):
            shown, hidden, after = text.partition(_HIDDEN)
            is_hidden = bool(hidden) and not after.strip()
            text = shown.rstrip("\n") if is_hidden else text
            self._tell.say("text", text, **without(block, "type", "text"))
            self._tell.say("reasoning", _HIDDEN if is_hidden else None)
        elif kind == "tool_use":
            call_id = text_of(block, "id") or f"{self._step}.{number}"
            self._tell.call(call_id, text_of(block, "name"), block.get("input"))
            self._tell.result(call_id, None, **without(block, "type", "id", "name", "input"))
        else:
            self._tell.rest(block, text_of(block, "type"))


def _session_of(draft: Draft, record: _Object) -> str:
    """The name of the file when it is an id, else the digest of the first line."""
    name = os.path.basename(draft.parts[0]).partition(".")[0] if draft.parts else ""
    try:
        return str(uuid.UUID(name))
    except ValueError:
        return digest_of(record)


READER = CursorReader
