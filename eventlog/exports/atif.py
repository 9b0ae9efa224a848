"""A session as a document of the Agent Trajectory Interchange Format, ATIF-v1.8: docs/exports.md.

A step of the agent is one response of its model, as far as the log shows which events belong together: those
with one message id, else consecutive ones without a tool's result in between. Model calls count once (P3).
Events that no field of a step can hold (changes of files, decisions, errors) are listed in its `extra`,
without hashes and contents. One thread.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from eventlog.exports.conversation import (
    Conversation,
    JsonObject,
    conversations,
    doubt_at_end,
    moment,
    payload_of,
    text_of,
)
from eventlog.projections.happened import happened_at

if TYPE_CHECKING:
    from collections.abc import Iterator

    from eventlog.store import Store

VERSION = "ATIF-v1.8"
_LISTED_TYPES = ("file", "decision", "error", "feedback", "restore")


def documents(
    store: "Store",
    *,
    session_id: "str | Sequence[str] | None" = None,
    since: "int | None" = None,
    left_out: "dict[str, str] | None" = None,
) -> "Iterator[JsonObject]":
    """A document for that session, or for each since that time (µs) that has a step.

    Args: left_out: receives the other sessions, with the reason.
    """
    with store.view() as view:
        for conversation in conversations(store, view, session_id=session_id, since=since, priced=True):
            document = trajectory(conversation)
            if document is not None:
                yield document
            elif left_out is not None:
                left_out[conversation.session["session_id"]] = "nothing was asked, said or done in it"


def trajectory(conversation: Conversation) -> "JsonObject | None":
    """The document, None when the session has no step."""
    session, events = conversation.session, conversation.events
    children: dict[str, list[JsonObject]] = {}
    own_events: list[JsonObject] = []
    for event in events:
        (
            own_events if event["subagent_id"] is None else children.setdefault(event["subagent_id"], [])
        ).append(event)
    subagent_of_call = {
        event["tool_use_id"]: event["subagent_id"]
        for event in events
        if event["event_type"] == "subagent" and event["tool_use_id"] and event["subagent_id"] in children
    }
    for event in events:
        event["cost_usd"] = conversation.costs.get(event["position"])
    embedded = {name: _embedded(conversation, name, child_events) for name, child_events in children.items()}
    child_documents = {name: document for name, document in embedded.items() if document is not None}
    steps = _steps(
        own_events,
        {tool_use_id: name for tool_use_id, name in subagent_of_call.items() if name in child_documents},
    )
    if not steps:
        return None
    # SQL's sums are 0 where no model call is recorded; what the agent's calls took is unknown then.
    totals = {
        "total_prompt_tokens": session["prompt_tokens"] if session["llm_calls"] else None,
        "total_completion_tokens": session["completion_tokens"] if session["llm_calls"] else None,
        "total_cached_tokens": session["cache_read_tokens"] if session["llm_calls"] else None,
        "total_cost_usd": _cost([event for event in events if event["event_type"] == "llm"]),
        "total_steps": len(steps),
    }
    return _without_nulls(
        {
            "schema_version": VERSION,
            "session_id": session["agent_session_id"] or session["session_id"],
            "trajectory_id": session["context_id"],
            "agent": _agent(conversation),
            "steps": steps,
            "final_metrics": _without_nulls(totals),
            "subagent_trajectories": list(child_documents.values()) or None,
            "extra": {
                "locus": _without_nulls(
                    {name: session[name] for name in ("session_id", "repo", "title", "status")}
                    | {"files_certainty": _doubts(conversation) or None, "prices": conversation.prices}
                )
            },
        }
    )


def _doubts(conversation: Conversation) -> "dict[str, str]":
    """Turn → how well its last files are known, for turns where that is not `exact`."""
    turns = sorted((turn, events) for turn, events in conversation.by_turn.items() if turn is not None)
    doubts = {str(turn): doubt_at_end(events) for turn, events in turns}
    return {turn: doubt for turn, doubt in doubts.items() if doubt is not None}


def _agent(conversation: Conversation) -> JsonObject:
    session = conversation.session
    return _without_nulls(
        {
            "name": session["agent"] or "unknown",
            "version": conversation.agent_version or "unknown",
            "model_name": conversation.model,
        }
    )


def _embedded(conversation: Conversation, name: str, events: "Sequence[JsonObject]") -> "JsonObject | None":
    steps = _steps(events, {}, inside=True)
    if not steps:
        return None
    agent = _agent(Conversation(conversation.session, list(events)))
    return {"schema_version": VERSION, "trajectory_id": name, "agent": agent, "steps": steps}


@dataclass(slots=True)
class _Step:
    """A step under way."""

    source: str
    at: "int | None"
    message: "list[str]" = field(default_factory=list)
    reasoning: "list[str]" = field(default_factory=list)
    calls: "list[JsonObject]" = field(default_factory=list)
    call_ids: "set[str]" = field(default_factory=set)
    results: "list[JsonObject]" = field(default_factory=list)
    metrics: "list[JsonObject]" = field(default_factory=list)
    listed: "list[JsonObject]" = field(default_factory=list)
    models: "list[str]" = field(default_factory=list)
    message_id: "str | None" = None
    turn: "int | None" = None

    def document(self, number: int) -> JsonObject:
        extra = {"turn": self.turn, "message_id": self.message_id, "events": self.listed or None}
        is_agent = self.source == "agent"
        return _without_nulls(
            {
                "step_id": number,
                "timestamp": moment(self.at),
                "source": self.source,
                "model_name": self.models[-1] if self.models else None,
                "message": "\n\n".join(self.message),
                "reasoning_content": "\n\n".join(self.reasoning) or None,
                "tool_calls": self.calls or None,
                "observation": {"results": self.results} if self.results else None,
                "metrics": _summed(self.metrics),
                # No model call is known of steps that hooks recorded; that is not the same as none.
                "llm_call_count": len(self.metrics) or None if is_agent else None,
                "extra": {"locus": _without_nulls(extra)},
            }
        )


def _steps(
    events: "Sequence[JsonObject]", subagents: "Mapping[str, str]", *, inside: bool = False
) -> "list[JsonObject]":
    prompted_turns = {event["turn"] for event in events if event["event_type"] == "intent"}
    failures = {event["tool_use_id"]: event for event in events if event["event_type"] == "error"}
    steps: list[_Step] = []
    by_message: dict[str, _Step] = {}

    def begin(source: str, event: JsonObject) -> _Step:
        steps.append(_Step(source, happened_at(event), turn=event["turn"]))
        return steps[-1]

    def step_of(event: JsonObject, *, speaks: bool = False) -> _Step:
        """The agent's step that an event belongs to."""
        name = event["message_id"]
        if name is not None and name in by_message:
            return by_message[name]
        last = steps[-1] if steps else None
        fits = (
            last is not None
            and last.source == "agent"
            and last.turn == event["turn"]
            and (name is None or last.message_id is None)
            and not (speaks and last.calls)
        )
        step = last if fits and last is not None else begin("agent", event)
        if name is not None:
            step.message_id = name
            by_message[name] = step
        return step

    for event in events:
        event_type, payload = event["event_type"], payload_of(event)
        if event_type == "intent" or (
            event_type == "turn" and event["operation"] == "start" and event["turn"] not in prompted_turns
        ):
            text = payload.get("message", payload.get("user_message"))
            if isinstance(text, str) and text:
                by_person = event["source"] == "user" or event_type == "turn"
                # Inside a subagent the agent that started it asks, as its user.
                begin("user" if by_person or inside else "system", event).message.append(text)
        elif event_type == "message" and isinstance(payload.get("text"), str):
            step = step_of(event, speaks=True)
            (step.reasoning if event["operation"] == "reasoning" else step.message).append(payload["text"])
        elif event_type in ("action", "mcp_action"):
            _add_call(step_of(event), event, payload, subagents, failures)
        elif event_type == "llm":
            step = step_of(event)
            step.metrics.append(event)
            step.models += [event["model"]] if event["model"] else []
        elif event_type in _LISTED_TYPES:
            (steps[-1] if steps else begin("system", event)).listed.append(_listed_event(event, payload))
    return [step.document(number) for number, step in enumerate(steps, 1)]


def _add_call(
    step: _Step,
    event: JsonObject,
    payload: JsonObject,
    subagents: "Mapping[str, str]",
    failures: "Mapping[str | None, JsonObject]",
) -> None:
    call_id = event["tool_use_id"] or event["event_id"]
    if call_id in step.call_ids:  # recorded again, by another event
        call_id = event["event_id"]
    step.call_ids.add(call_id)
    args = payload.get("args")
    extra = {
        name: event[name] for name in ("success", "duration_ms", "error_type") if event[name] is not None
    }
    step.calls.append(
        {
            "tool_call_id": call_id,
            "function_name": event["tool"] or "unknown",
            "arguments": args if isinstance(args, dict) else {} if args is None else {"input": args},
        }
    )
    result: JsonObject = {"source_call_id": call_id}
    if payload.get("result") is not None:
        result["content"] = text_of(payload["result"])
    elif event["tool_use_id"] is not None and event["tool_use_id"] in failures:
        message = payload_of(failures[event["tool_use_id"]]).get("message")
        if isinstance(message, str) and message:
            result["content"] = message
    if event["tool_use_id"] in subagents:
        result["subagent_trajectory_ref"] = [{"trajectory_id": subagents[event["tool_use_id"]]}]
    if extra:
        result["extra"] = extra
    step.results.append(result)


def _listed_event(event: JsonObject, payload: JsonObject) -> JsonObject:
    text = payload.get("message", payload.get("decision"))
    columns = (
        "event_id",
        "event_type",
        "title",
        "path",
        "operation",
        "lines_added",
        "lines_removed",
        "error_type",
    )
    return _without_nulls(
        {**{name: event[name] for name in columns}, "text": text if isinstance(text, str) else None}
    )


def _summed(calls: "Sequence[JsonObject]") -> "JsonObject | None":
    """Metrics of a step; a sum only where every call has its part (P7)."""
    names = {
        "prompt_tokens": "prompt_tokens", "completion_tokens": "completion_tokens",
        "cached_tokens": "cache_read_tokens",
    }  # fmt: skip
    extra_names = ("reasoning_tokens", "cache_write_tokens", "cache_write_1h_tokens", "duration_ms")
    metrics: JsonObject = {name: _sum([call[column] for call in calls]) for name, column in names.items()}
    metrics["cost_usd"] = _cost(calls)
    extra = _without_nulls({name: _sum([call[name] for call in calls]) for name in extra_names})
    return _without_nulls({**metrics, "extra": extra or None}) or None


def _cost(calls: "Sequence[JsonObject]") -> "float | None":
    """US dollars; None unless each call has a price."""
    costs = [call["cost_usd"] for call in calls if call["cost_usd"] is not None]
    return float(sum(costs)) if costs and len(costs) == len(calls) else None


def _sum(counts: "Sequence[int | None]") -> "int | None":
    known_counts = [count for count in counts if count is not None]
    return sum(known_counts) if known_counts and len(known_counts) == len(counts) else None


def _without_nulls(fields: "Mapping[str, Any]") -> JsonObject:
    return {name: value for name, value in fields.items() if value is not None}
