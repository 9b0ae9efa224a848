"""Which turn a subagent's call counts in: the one that started the subagent, whatever runs by now.

Claude Code gives the calls of a background subagent the prompt of the turn under way at that moment, so the
end of a tool may name another turn than its beginning. The turn of the subagent's start is noted, or without
one that of the first call heard of it, in the notes of the session (docs/hooks.md). On the hook path.
"""

from eventlog.agents.call import Call, object_of, text_of
from eventlog.agents.live_state import Calls, short


def count_in_its_turn(call: Call, known: Calls, lines: "list[list[str]]") -> bool:
    """Put `call` into the turn of its subagent; True when it came in another one.

    Args: lines: gets what is to be noted of the session behind the append.
    """
    subagent, given = text_of(call.columns, "subagent_id"), call.turn
    if subagent is None or given is None:
        return False
    key = short(subagent)
    begins = any(e["event_type"] == "subagent" and e.get("operation") == "start" for e in call.events)
    turn = None if begins else known.subagents.get(key)
    if turn is None:
        if not any(char.isspace() for char in given):  # else it would be no word of a line
            lines.append(["subagent", key, given])
        return False
    if turn == given:
        return False
    call.columns["agent_turn_id"] = turn
    for event in call.events:
        event["payload"] = {**object_of(event, "payload"), "turn_under_way": given}
    return True
