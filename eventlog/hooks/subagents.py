"""Which turn a subagent's call counts in: the one that started the subagent, even after that turn has ended.

Claude Code gives the calls of a background subagent the prompt of the turn under way at that moment. So the
end of a tool may name another turn than its beginning. Codex gives them no turn of the session. The notes of
the session hold the turn of the subagent's start or, without one, of its first call (docs/hooks.md). On the
hook path.
"""

from eventlog.agents.kit.call import Call, object_of, text_of
from eventlog.base.layout import Layout
from eventlog.base.names import short
from eventlog.hooks.state import SessionNotes, read_checkpoint


def count_in_its_turn(layout: Layout, call: Call, notes: SessionNotes, worktree: "str | None") -> None:
    """Put `call` into the turn of its subagent.

    Args: worktree: where the session's turn under way is noted, for a call that names none.
    """
    subagent = text_of(call.columns, "subagent_id")
    turn_under_way = call.turn or _turn_under_way(layout, worktree, call)
    if subagent is None or turn_under_way is None:
        return
    key = short(subagent)
    begins = any(e["event_type"] == "subagent" and e.get("operation") == "start" for e in call.events)
    turn = None if begins else notes.calls.subagents.get(key)
    if turn is None:
        if not any(char.isspace() for char in turn_under_way):  # else it would be no word of a line
            notes.lines.append(["subagent", key, turn_under_way])
        call.columns["agent_turn_id"] = turn_under_way
        return
    call.columns["agent_turn_id"] = turn
    if turn == turn_under_way:
        return
    for event in call.events:
        event["payload"] = {**object_of(event, "payload"), "turn_under_way": turn_under_way}


def _turn_under_way(layout: Layout, worktree: "str | None", call: Call) -> "str | None":
    if worktree is None or call.session is None:
        return None
    parts = read_checkpoint(layout, worktree).open.get(call.session)
    return None if parts is None else parts[1]
