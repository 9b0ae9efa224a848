"""Which turn a subagent's call counts in: the one that started the subagent, whatever runs by now.

Claude Code gives the calls of a background subagent the prompt of the turn under way at that moment, so the
end of a tool may name another turn than its beginning; Codex gives them no turn of the session. The turn of
the subagent's start is noted, or without one that of the first call heard of it, in the notes of the session
(docs/hooks.md). On the hook path.
"""

from eventlog.agents.kit.call import Call, object_of, text_of
from eventlog.base.layout import Layout
from eventlog.hooks.state import Calls, read_told, short


def count_in_its_turn(
    layout: Layout, call: Call, known: Calls, lines: "list[list[str]]", worktree: "str | None"
) -> None:
    """Put `call` into the turn of its subagent.

    Args:
        lines: gets what is to be noted of the session behind the append.
        worktree: where the session's turn under way is noted, for a call that names none.
    """
    subagent, given = (
        text_of(call.columns, "subagent_id"),
        call.turn or _turn_under_way(layout, worktree, call),
    )
    if subagent is None or given is None:
        return
    key = short(subagent)
    begins = any(e["event_type"] == "subagent" and e.get("operation") == "start" for e in call.events)
    turn = None if begins else known.subagents.get(key)
    if turn is None:
        if not any(char.isspace() for char in given):  # else it would be no word of a line
            lines.append(["subagent", key, given])
        call.columns["agent_turn_id"] = given
        return
    call.columns["agent_turn_id"] = turn
    if turn == given:
        return
    for event in call.events:
        event["payload"] = {**object_of(event, "payload"), "turn_under_way": given}


def _turn_under_way(layout: Layout, worktree: "str | None", call: Call) -> "str | None":
    if worktree is None or call.session is None:
        return None
    parts = read_told(layout, worktree).open.get(call.session)
    return None if parts is None else parts[1]
