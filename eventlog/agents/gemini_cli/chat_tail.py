"""Model calls and the agent's words from a chat of Gemini CLI, from a remembered offset on, up to a bound.

A message is written again with more fields until it is complete: of the lines read at once the last one of
each id counts, and one read again has the same event id, made of the message's id and its figures.
A message that has figures has all its text. On the hook path.
"""

from blake3 import blake3

from eventlog.agents.kit.call import TranscriptOffset, int_of, known, object_of, read_tail, text_of, time_of
from eventlog.agents.kit.words import message, text_in
from eventlog.base import jsontext
from eventlog.base.names import event_id_of
from eventlog.base.types import Event

AGENT = "gemini-cli"


def read_calls(
    _agent: str, path: str, mark: TranscriptOffset, bytes_max: int, turns: "dict[str, str]"
) -> "tuple[list[Event], TranscriptOffset]":
    """`message` and `llm` events of what is after `mark`, each in the one of `turns` that it was made in, and
    the mark to go on from.

    Args: turns: their names, in order; of each a text that ends with the time it began at.
    Raises: OSError when the file cannot be read.
    """
    data, mark = read_tail(path, mark, bytes_max)
    events_by_id: "dict[str, list[Event]]" = {}
    for line in data.split(b"\n"):
        if b'"tokens"' not in line or b'"gemini"' not in line:
            continue
        record = jsontext.object_if_any(line)
        if record.get("type") == "gemini":
            call, words = call_of(record), _words_of(record)
            if call is not None:
                events = [call] if words is None else [words, call]
                turn = _turn_at(text_of(record, "timestamp") or "", turns)
                for event in events if turn is not None else ():
                    event["agent_turn_id"] = turn
                events_by_id[str(call["message_id"])] = events
    return [event for events in events_by_id.values() for event in events], mark


def _words_of(record: "dict[str, object]") -> "Event | None":
    """The text of an answer; None without one."""
    text = text_in(record.get("content"))
    at = time_of(text_of(record, "timestamp"))
    return message(AGENT, text, text_of(record, "id"), "0", occurred_at=at) if text else None


def call_of(record: "dict[str, object]") -> "Event | None":
    """The model call of a message; None without one."""
    tokens, message_id = object_of(record, "tokens"), text_of(record, "id")
    if not tokens or message_id is None:
        return None
    event = known(
        event_type="llm",
        event_kind="action",
        source="system",
        **columns_of(record, tokens),
        occurred_at=time_of(text_of(record, "timestamp")),
    )
    event["payload"] = {"tokens": tokens}
    event["event_id"] = event_id_of(AGENT, *(part or "" for part in key_of(message_id, tokens)))
    return event


def key_of(message_id: "str | None", tokens: "dict[str, object]") -> "tuple[str | None, ...]":
    """What makes the id of a model call (docs/event-ids.md)."""
    return "llm", message_id, blake3(jsontext.encode(tokens)).hexdigest()[:32]


def columns_of(record: "dict[str, object]", tokens: "dict[str, object]") -> "dict[str, object]":
    """The columns of a model call; unknown ones are null."""
    read, thought = int_of(tokens, "input"), int_of(tokens, "thoughts")
    written, of_tools = int_of(tokens, "output"), int_of(tokens, "tool")
    return {
        "message_id": text_of(record, "id"),
        "model": text_of(record, "model"),
        # Input counts what came from the cache; thoughts are not part of the output.
        "prompt_tokens": None if read is None else read + (of_tools or 0),
        "completion_tokens": None if written is None else written + (thought or 0),
        "reasoning_tokens": thought,
        "cache_read_tokens": int_of(tokens, "cached"),
    }


def _turn_at(time: str, turns: "dict[str, str]") -> "str | None":
    """The last turn that had begun; times are written alike."""
    begun = [turn for turn, stamp in turns.items() if stamp[-len(time) :] <= time]
    return begun[-1] if begun else None
