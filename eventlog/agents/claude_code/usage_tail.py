"""Model calls and the agent's words from a transcript of Claude Code, from a remembered offset on.

A model's answer is written on several lines that repeat its `message.id` and, as it grows, its usage: of the
lines read at once the last one of each (message, request) counts. A read that begins in the middle of an
answer gives it once more with larger figures, and the projection `llm_calls` keeps the largest (P3). Of what
the model says its texts are taken, not what it thought. Only a plain file is read, through no symlink, and
only up to a bound. On the hook path.
"""

import os

from blake3 import blake3

from eventlog.agents.kit.call import (
    TranscriptOffset,
    args_digest,
    int_of,
    is_global,
    object_of,
    read_tail,
    text_of,
    time_of,
)
from eventlog.agents.kit.words import message
from eventlog.base import jsontext
from eventlog.base.names import event_id_of
from eventlog.base.types import Event

_SUBAGENTS_MAX = 256  # to read again
# Of an answer's usage: what each of its lines repeats.
_ASKED = ("input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens")
_SYNTHETIC = "<synthetic>"  # the model of messages that the client itself made up
_PROMPT_ID = b'"promptId":"'


def read_calls(
    agent: str,
    path: str,
    mark: TranscriptOffset,
    bytes_max: int,
    turns: "dict[str, str] | None" = None,  # noqa: ARG001 -- lines name their turn
) -> "tuple[list[Event], TranscriptOffset]":
    """`message` and `llm` events of what is after `mark`, and the mark to go on from.

    Raises: OSError when the file cannot be read.
    """
    data, mark = read_tail(path, mark, bytes_max)
    return _calls_in(agent, data), mark


def subagents_of(path: str) -> "list[str]":
    """The transcripts of the subagents of the session with this one."""
    directory = f"{path.removesuffix('.jsonl')}/subagents"
    try:
        names = os.listdir(directory)
    except OSError:
        return []  # it has none
    transcripts = sorted(name for name in names if name.startswith("agent-") and name.endswith(".jsonl"))
    return [f"{directory}/{name}" for name in transcripts[:_SUBAGENTS_MAX]]


def _calls_in(agent: str, data: bytes) -> "list[Event]":
    events_by_id: "dict[tuple[str, str], Event]" = {}
    prompt_id: "str | None" = None
    for line in data.split(b"\n"):
        prompt_id = _prompt_of(line) or prompt_id
        if b'"assistant"' not in line or not (b'"usage"' in line or b'"text"' in line):
            continue
        record = jsontext.object_if_any(line)  # empty for half a line, and a damaged one
        if record.get("type") == "assistant":
            events = {("", str(event["event_id"])): event for event in _words_of(agent, record)}
            call = call_of(agent, record)
            if call is not None:
                events[str(call["message_id"]), str(call.get("request_id", ""))] = call
            for event in events.values() if prompt_id is not None else ():
                event.setdefault("agent_turn_id", prompt_id)
            events_by_id.update(events)
    return list(events_by_id.values())


def _words_of(agent: str, record: "dict[str, object]") -> "list[Event]":
    """The texts of an answer's line; what the client made up is none."""
    answer = object_of(record, "message")
    if record.get("isApiErrorMessage") is True or answer.get("model") == _SYNTHETIC:
        return []
    if record.get("isSidechain") is True and text_of(record, "agentId") is None:
        return []  # an import knows whose it is
    content = answer.get("content")
    blocks = content if isinstance(content, list) else [{"type": "text", "text": content}]
    columns = {
        "agent_turn_id": text_of(record, "promptId"),
        "subagent_id": text_of(record, "agentId"),
        "message_id": message_id_of(record, text_of(record, "sessionId")),
        "cwd": text_of(record, "cwd"),
        "branch": text_of(record, "gitBranch"),
        "agent_version": text_of(record, "version"),
        "occurred_at": time_of(text_of(record, "timestamp")),
    }
    words = []
    for number, block in enumerate(blocks):
        text = block.get("text") if isinstance(block, dict) and block.get("type") == "text" else None
        if isinstance(text, str):
            words.append(message(agent, text, text_of(record, "uuid"), str(number), **columns))
    return [event for event in words if event is not None]


def _prompt_of(line: bytes) -> "str | None":
    """The prompt that a line names, without parsing it."""
    _, mark, rest = line.partition(_PROMPT_ID)
    name = rest[:64].partition(b'"')[0]
    return name.decode("ascii", "replace") if mark and 0 < len(name) < 64 else None


def message_id_of(record: "dict[str, object]", session: "str | None") -> "str | None":
    """The id of the answer that a line is of.

    Where neither it nor the request's tells the answer by itself (`call.py`), it is completed by what
    the lines of an answer have in common: session, model, and the tokens that it was asked with.

    Args: session: that which had the line first, None for an unknown one.
    """
    message = object_of(record, "message")
    message_id, request_id = text_of(message, "id"), text_of(record, "requestId")
    if message_id is None or session is None or is_global(message_id) or is_global(request_id or ""):
        return message_id
    usage = object_of(message, "usage")
    asked = [usage.get(name) for name in _ASKED]
    return f"{session}:{message_id}:{args_digest([message.get('model'), *asked])[:16]}"


def call_of(agent: str, record: "dict[str, object]", session: "str | None" = None) -> "Event | None":
    """The model call in a line of an answer; None without one.

    Args: session: that which had the line first, where that is not the line's own.
    """
    message = object_of(record, "message")
    usage = object_of(message, "usage")
    model = text_of(message, "model")
    message_id = message_id_of(record, session or text_of(record, "sessionId"))
    if message_id is None or not usage or model == _SYNTHETIC:
        return None
    request_id = text_of(record, "requestId")
    uncached = int_of(usage, "input_tokens")
    written, read = int_of(usage, "cache_creation_input_tokens"), int_of(usage, "cache_read_input_tokens")
    columns: Event = {
        "event_type": "llm",
        "event_kind": "action",
        "source": "system",
        "agent_turn_id": text_of(record, "promptId"),
        "subagent_id": text_of(record, "agentId"),
        "message_id": message_id,
        "request_id": request_id,
        "model": model,
        # Claude counts what came from the cache and went into it apart from its input.
        "prompt_tokens": None if uncached is None else uncached + (written or 0) + (read or 0),
        "completion_tokens": int_of(usage, "output_tokens"),
        "reasoning_tokens": int_of(object_of(usage, "output_tokens_details"), "thinking_tokens"),
        "cache_read_tokens": read,
        "cache_write_tokens": written,
        "cache_write_1h_tokens": int_of(object_of(usage, "cache_creation"), "ephemeral_1h_input_tokens"),
        "occurred_at": time_of(text_of(record, "timestamp")),
    }
    event = {name: value for name, value in columns.items() if value is not None}
    event["payload"] = {"stop_reason": text_of(message, "stop_reason"), "usage": usage}
    event["event_id"] = _event_id_of(agent, message_id, request_id, usage)
    return event


def plain_id_of(agent: str, record: "dict[str, object]") -> str:
    """The id of a call's event as versions made it that took every id of an answer for its own."""
    message = object_of(record, "message")
    message_id, request_id = text_of(message, "id"), text_of(record, "requestId")
    return _event_id_of(agent, message_id or "", request_id, object_of(message, "usage"))


def _event_id_of(agent: str, message_id: str, request_id: "str | None", usage: "dict[str, object]") -> str:
    digest = blake3(jsontext.encode(usage)).hexdigest()[:16]
    return event_id_of(agent, "llm", message_id, request_id or "", digest)
