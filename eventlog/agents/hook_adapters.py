"""Which adapter understands which agent. Pure. On the hook path."""

from eventlog.agents.kit.call import Call, columns_of, raw, text_of

# What agents without an adapter share: column, names in order of preference.
_SHARED = (
    ("agent_session_id", ("session_id", "sessionId", "conversation_id")),
    ("agent_turn_id", ("prompt_id", "turn_id")),
    ("tool_use_id", ("tool_use_id", "tool_call_id")),
    ("cwd", ("cwd",)),
    ("tool", ("tool_name",)),
    ("model", ("model",)),
)


def interpret(agent: str, said: "dict[str, object]") -> Call:
    """The call that a hook input makes, for agents with and without an adapter."""
    if agent == "claude-code":
        from eventlog.agents.claude_code.hooks import interpret as adapter
    elif agent == "codex":
        from eventlog.agents.codex.hooks import interpret as adapter
    elif agent == "opencode":
        from eventlog.agents.opencode.hooks import interpret as adapter
    elif agent == "gemini-cli":
        from eventlog.agents.gemini_cli.hooks import interpret as adapter
    else:
        return _unadapted(agent, said)
    return adapter(said)


def _unadapted(agent: str, said: "dict[str, object]") -> Call:
    pairs = [(column, name) for column, names in _SHARED for name in reversed(names)]
    columns = columns_of(agent, said, pairs)
    call = Call(agent, columns)
    raw(call, said, text_of(said, "hook_event_name"), text_of(columns, "tool_use_id"))
    return call
