"""Hooks of agents that have no package here: `interpret`, by the names that agents share. Pure."""

from eventlog.agents.kit.call import Call, columns_of, raw, text_of

# Column, names in order of preference.
_SHARED = (
    ("agent_session_id", ("session_id", "sessionId", "conversation_id")),
    ("agent_turn_id", ("prompt_id", "turn_id")),
    ("tool_use_id", ("tool_use_id", "tool_call_id")),
    ("cwd", ("cwd",)),
    ("tool", ("tool_name",)),
    ("model", ("model",)),
)


def interpret(agent: str, payload: "dict[str, object]") -> Call:
    """The call that a hook input makes, by the names that agents share."""
    pairs = [(column, name) for column, names in _SHARED for name in reversed(names)]
    columns = columns_of(agent, payload, pairs)
    call = Call(agent, columns)
    raw(call, payload, text_of(payload, "hook_event_name"), text_of(columns, "tool_use_id"))
    return call
