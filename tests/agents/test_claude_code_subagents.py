"""Subagents in transcripts of Claude Code: which turn their lines count in."""

from tests.agents.claude_support import Teller, events_in, text


def test_a_subagents_late_lines_count_in_the_turn_that_started_it() -> None:
    """P3: lines that a background subagent writes after the next prompt, with its id or without one, are in
    the turn of the subagent's first line, as hooks have it."""
    tell = Teller()
    side = Teller(name="side", isSidechain=True, agentId="a1")
    side._count = 2
    lines = [
        tell.user("Have it made", promptId="p-1"),
        tell.answer("msg_a1b2c1", text("It is being made.")),
        side.user("Make it", promptId="p-1"),
        tell.user("Another thing", promptId="p-2"),
        *side.call("msg_a1b2c2", "t-1", "Bash", {"command": "make"}, "made", promptId="p-2"),
        side.answer("msg_a1b2c3", text("Made.")),
        tell.answer("msg_a1b2c4", text("Done.")),
    ]

    found = events_in(lines, "subagent", "action", "message", "llm")
    turns = {(e["event_type"], e.get("subagent_id"), e["agent_turn_id"]) for e in found}
    subagent = {(kind, "a1", "p-1") for kind in ("subagent", "action", "message", "llm")}
    main = {(kind, None, turn) for kind in ("message", "llm") for turn in ("p-1", "p-2")}
    assert turns == subagent | main
