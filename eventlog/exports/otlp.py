"""Sessions as spans in OTLP/JSON, one request of the trace service a line. docs/exports.md has the mapping.

A turn is a trace: a span `invoke_agent` and below it `chat` for each model call that counts (P3) and
`execute_tool` for each tool call. Calls outside turns are one more trace. Attributes follow the semantic
conventions for generative AI, which are in development, so their names are constants of ours. Ids are digests
of the log's ids, so the same log gives the same spans, and a collector can recognise repeated ones. Contents
of conversations are included only on request. One thread.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from blake3 import blake3

from eventlog.exports.conversation import (
    Conversation,
    JsonObject,
    conversations,
    doubt_at_end,
    payload_of,
    text_of,
)
from eventlog.projections.happened import happened_at

if TYPE_CHECKING:
    from decimal import Decimal

    from eventlog.store import Store

SCHEMA_URL = "https://opentelemetry.io/schemas/1.42.0"
_INTERNAL, _CLIENT = 1, 3
_ERROR = 2

_SPANS = ("llm", "action", "mcp_action")

# Beginning of a model's name → its maker's name in the conventions.
_PROVIDERS = (
    ("claude", "anthropic"), ("gpt", "openai"), ("o1", "openai"), ("o3", "openai"), ("o4", "openai"),
    ("codex", "openai"), ("gemini", "gcp.gemini"), ("mistral", "mistral_ai"), ("codestral", "mistral_ai"),
    ("devstral", "mistral_ai"), ("grok", "x_ai"), ("deepseek", "deepseek"), ("command", "cohere"),
)  # fmt: skip
_TOKENS = (
    ("gen_ai.usage.input_tokens", "prompt_tokens"),
    ("gen_ai.usage.output_tokens", "completion_tokens"),
    ("gen_ai.usage.reasoning.output_tokens", "reasoning_tokens"),
    ("gen_ai.usage.cache_read.input_tokens", "cache_read_tokens"),
    ("gen_ai.usage.cache_creation.input_tokens", "cache_write_tokens"),
)


def requests(
    store: "Store",
    *,
    session_id: "str | Sequence[str] | None" = None,
    since: "int | None" = None,
    contents: bool = False,
    left_out: "dict[str, str] | None" = None,
) -> "Iterator[JsonObject]":
    """A request for that session, or for each since that time (µs), that has at least one span. A session
    without any known time has none.

    Args: left_out: receives the other sessions, with the reason.
    """
    from eventlog import __version__

    with store.view() as view:
        for conversation in conversations(
            store, view, session_id=session_id, since=since, derived=True, priced=True
        ):
            spans = list(_spans(conversation, contents))
            if not spans and left_out is not None:
                left_out[conversation.session["session_id"]] = _why_not(conversation)
            if spans:
                yield {
                    "resourceSpans": [
                        {
                            "resource": {"attributes": _resource(store, conversation)},
                            "scopeSpans": [
                                {"scope": {"name": "locus-eventlog", "version": __version__}, "spans": spans}
                            ],
                            "schemaUrl": SCHEMA_URL,
                        }
                    ]
                }


def _why_not(conversation: Conversation) -> str:
    shown = any(e["turn"] is not None or e["event_type"] in _SPANS for e in conversation.events)
    return "the time when it happened is not known" if shown else "it has no turn and no call"


def provider_of(model: "str | None") -> "str | None":
    """The maker of a model by the beginning of its name; None when it is not known."""
    name = (model or "").lower().rpartition("/")[2]
    return next((provider for beginning, provider in _PROVIDERS if name.startswith(beginning)), None)


def _resource(store: "Store", conversation: Conversation) -> "list[JsonObject]":
    return _attributes(
        {
            "service.name": conversation.session["agent"] or "unknown",
            "service.version": conversation.agent_version,
            "locus.repository": conversation.session["repo"],
            "locus.project": store.project_name,
            "locus.prices": conversation.prices,
        }
    )


def _spans(conversation: Conversation, contents: bool) -> "Iterator[JsonObject]":
    turns: dict[int | None, list[JsonObject]] = {}
    for event in conversation.events:
        if event["turn"] is None and event["event_type"] not in _SPANS:
            continue
        turns.setdefault(event["turn"], []).append(event)
    for turn, events in turns.items():
        if not _assign_times(events):
            continue
        key = (conversation.session["session_id"], "outside" if turn is None else str(turn))
        trace, root = _id(16, "trace", *key), _id(8, "turn", *key)
        below = [span for event in events for span in _span(conversation, event, trace, root, contents)]
        yield _root(conversation, turn, events, trace, root, below, contents)
        yield from below


def _assign_times(events: "Sequence[JsonObject]") -> bool:
    """Give each event of a turn an `_at`: its time, else that of the event before it, else the first known.

    False when no time of the turn is known: a span needs one.
    """
    latest = next((occurred_us for event in events if (occurred_us := happened_at(event)) is not None), None)
    if latest is None:
        return False
    for event in events:
        occurred_us = happened_at(event)
        event["_at"] = latest = latest if occurred_us is None else occurred_us
    return True


def _root(
    conversation: Conversation, turn: "int | None", events: "Sequence[JsonObject]", trace: str, root: str,
    below: "Sequence[JsonObject]", contents: bool,
) -> JsonObject:  # fmt: skip
    session = conversation.session
    intent = next((e for e in events if e["event_type"] == "intent"), None)
    end_events = [e for e in events if e["event_type"] == "turn" and e["operation"] == "end"]
    failed = next((e["status"] for e in end_events if e["status"] in ("failed", "error")), None)
    times = [event["_at"] for event in events]
    begins = min(
        [*(occurred_us * 1000 for occurred_us in times), *(int(span["startTimeUnixNano"]) for span in below)]
    )
    prompt = payload_of(intent).get("message") if intent is not None else None
    outcome = payload_of(end_events[-1]).get("outcome") if end_events else None
    attributes = {
        **_common(conversation, "invoke_agent"),
        "gen_ai.provider.name": provider_of(conversation.model),
        "gen_ai.request.model": conversation.model,
        "error.type": failed,
        "locus.turn": turn,
        "locus.files.certainty": None if turn is None else doubt_at_end(events),
    }
    if contents:
        attributes["gen_ai.input.messages"] = _message("user", prompt)
        attributes["gen_ai.output.messages"] = _message("assistant", outcome, finish_reason="stop")
    name = f"invoke_agent {session['agent'] or 'unknown'}"
    return _span_document(
        name, _INTERNAL, _SpanContext(trace, root), begins, max(times) * 1000, attributes, failed
    )


def _message(role: str, text: Any, **extra: str) -> "str | None":
    if not isinstance(text, str) or not text:
        return None
    return text_of([{"role": role, "parts": [{"type": "text", "content": text}], **extra}])


def _span(
    conversation: Conversation, event: JsonObject, trace: str, root: str, contents: bool
) -> "Iterator[JsonObject]":
    kind = event["event_type"]
    if kind == "llm":
        name, span_kind = f"chat {event['model'] or 'unknown'}", _CLIENT
        attributes = {
            **_common(conversation, "chat"),
            "gen_ai.provider.name": provider_of(event["model"]),
            "gen_ai.request.model": event["model"],
            "gen_ai.response.model": event["model"],
            "gen_ai.response.id": event["message_id"],
            **{attribute: event[column] for attribute, column in _TOKENS},
            "locus.cost_usd": _dollars(conversation.costs.get(event["position"])),
        }
    elif kind in _SPANS:
        name, span_kind = f"execute_tool {event['tool'] or 'unknown'}", _INTERNAL
        attributes = {
            **_common(conversation, "execute_tool"),
            "gen_ai.tool.name": event["tool"] or "unknown",
            "gen_ai.tool.type": "function",
            "gen_ai.tool.call.id": event["tool_use_id"],
        }
        if contents:
            payload = payload_of(event)
            for attribute, key in (("arguments", "args"), ("result", "result")):
                if payload.get(key) is not None:
                    attributes[f"gen_ai.tool.call.{attribute}"] = text_of(payload[key])
    else:
        return
    failed = (event["error_type"] or "_OTHER") if event["success"] is False else None
    attributes |= {
        "error.type": failed, "locus.event_id": event["event_id"], "locus.subagent_id": event["subagent_id"]
    }  # fmt: skip
    # An event is written when its call has ended.
    ends = event["_at"] * 1000
    begins = ends - max(event["duration_ms"] or 0, 0) * 1_000_000
    begun_us = conversation.begun.get(event["position"])
    if begun_us is not None:
        begins = begun_us * 1000
        attributes["locus.duration"] = "derived"
    if happened_at(event) is None:
        attributes["locus.time"] = "unknown"
    span_id = _id(8, "event", event["event_id"])
    context = _SpanContext(trace, span_id, parent=root)
    yield _span_document(name, span_kind, context, begins, ends, attributes, failed)


def _common(conversation: Conversation, operation: str) -> JsonObject:
    session = conversation.session
    return {
        "gen_ai.operation.name": operation,
        "gen_ai.conversation.id": session["agent_session_id"] or session["session_id"],
        "gen_ai.agent.name": session["agent"],
        "gen_ai.agent.version": conversation.agent_version,
        "locus.session_id": session["session_id"],
    }


class _SpanContext(NamedTuple):
    """A span's place in its trace; the root has no parent."""

    trace: str
    span_id: str
    parent: str = ""


def _span_document(
    name: str,
    kind: int,
    context: _SpanContext,
    begins: int,
    ends: int,
    attributes: "Mapping[str, Any]",
    failed: "str | None",
) -> JsonObject:
    span: JsonObject = {
        "traceId": context.trace,
        "spanId": context.span_id,
        "name": name,
        "kind": kind,
        "startTimeUnixNano": str(_nanoseconds(begins)),
        "endTimeUnixNano": str(_nanoseconds(max(ends, begins))),
        "attributes": _attributes(attributes),
    }
    if context.parent:
        span["parentSpanId"] = context.parent
    if failed is not None:
        span["status"] = {"code": _ERROR}
    return span


def _nanoseconds(nanoseconds: int) -> int:
    """The value within the range of the protocol, whatever a clock showed."""
    return min(max(nanoseconds, 0), 2**64 - 1)


def _attributes(attributes: "Mapping[str, Any]") -> "list[JsonObject]":
    """The known attributes; unknown values are left out (P7). 64-bit integers are text in this JSON."""
    return [{"key": key, "value": _value(value)} for key, value in attributes.items() if value is not None]


def _value(value: "str | int | float") -> JsonObject:
    if isinstance(value, float):
        return {"doubleValue": value}
    return {"intValue": str(value)} if isinstance(value, int) else {"stringValue": value}


def _dollars(cost: "Decimal | None") -> "float | None":
    return None if cost is None else float(cost)


def _id(size: int, *parts: str) -> str:
    return blake3("\0".join(parts).encode("utf-8", "surrogatepass")).hexdigest(length=size)
