"""Turns that go as they should, or fail as they should: what was recorded is what happened."""

import pytest

from .desk import Desk, prompt_of
from .scenarios import SCENARIOS

TURNS = ["edit", "edits", "create", "shell", "failing", "refused", "bad-input", "idle"]

# prompt, completion of each model call as the logs of `served` say; Claude's input leaves the cache out.
TOKENS = {
    "messages": ("input_tokens", "cache_read_input_tokens", "cache_creation_input_tokens"),
    "responses": ("input_tokens",),
    "chat": ("input_tokens",),
}


def agree(desk: Desk, *, tokens: bool = True) -> None:
    """What holds after any run: files, prompts, tool calls and tokens are the true ones, each once."""
    assert desk.noted() == ""
    assert desk.replayed(desk.turns()[-1]) == desk.on_disk()
    if tokens:
        assert recorded_tokens(desk) == served_tokens(desk)
    ids = [event["event_id"] for event in desk.events()]
    assert len(ids) == len(set(ids))


def served_tokens(desk: Desk) -> list[tuple[int, int]]:
    return sorted(
        (sum(one.usage[key] for key in TOKENS[one.api]), one.usage["output_tokens"]) for one in desk.served()
    )


def recorded_tokens(desk: Desk) -> list[tuple[object, ...]]:
    return desk.rows(
        "select prompt_tokens, completion_tokens from llm_calls"
        " where completion_tokens is not null order by all"
    )


def actions(desk: Desk) -> dict[object, object]:
    """Tool call → whether it succeeded, of the calls the log knows; each is there once."""
    found = [(event.get("tool_use_id"), event.get("success")) for event in desk.events("action")]
    assert len(found) == len(dict(found))
    return dict(found)


def calls_of(desk: Desk) -> set[str]:
    return {call for one in desk.served() for call in one.calls}


@pytest.mark.parametrize("scenario", TURNS)
def test_a_turn_is_recorded_as_it_happened(desk: Desk, scenario: str) -> None:
    """P1, P3: after one turn of the true client the replayed tree is the one on disk, and each prompt,
    tool call and token is in the log exactly once."""
    done = desk.run(scenario)
    assert done.code == 0, done.err

    agree(desk)
    assert desk.prompts() == [prompt_of(scenario)]
    assert len(desk.turns()) == 1
    assert set(actions(desk)) == calls_of(desk)
    assert len(SCENARIOS[scenario]) == len(desk.served())
