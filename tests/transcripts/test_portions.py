"""Every reader: a session imported in portions, however they are cut, is the session imported whole."""

import json
import os
import re
import tempfile
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eventlog.store import Store
from tests.conftest import examples
from tests.transcripts.test_reused_ids import FILES, NAMES, SUFFIXES, Said, renamed, run, written

# The formats that are one document have no lines: in portions it is written anew, with more in this list.
DOCUMENTS = {"opencode": "messages", "swe-agent": "trajectory", "atif": "steps"}
FACTS = (
    "select event_type, operation, turn, agent_turn_id, tool, success, occurred_at, payload from events "
    "where event_type in ('action', 'intent', 'message', 'error', 'file')"
)
TURNS = "select turn, user_request, title, tool_calls, started_at from turns"
CALLS = "select message_id, prompt_tokens, completion_tokens from llm_calls"


# Codex writes a message twice, first without its id: a file that ends between the two leaves the id out.
_CODEX_MESSAGE_ID = re.compile(r'"id":"msg_[^"]*",')


def answers(store: Store) -> dict[str, Counter[str]]:
    return {
        sql: Counter(_CODEX_MESSAGE_ID.sub("", str(tuple(row))) for row in store.query(sql).rows)
        for sql in (FACTS, TURNS, CALLS)
    }


def portion(agent: str, lines: list[Said], size: int) -> list[Said]:
    """The first of a session, as its file stood when only so much was written."""
    parts = DOCUMENTS.get(agent)
    if parts is None:
        return lines[:size]
    (document,) = lines
    early = {parts: document[parts][:size]}
    if size < len(document[parts]):
        # They come with the step that refers to them, and with the end.
        early |= {"subagent_trajectories": [], "final_metrics": {}}
    return [{**document, **early}]


def size_of(agent: str, lines: list[Said]) -> int:
    parts = DOCUMENTS.get(agent)
    return len(lines) if parts is None else len(lines[0][parts])


def imported(agent: str, lines: list[Said], sizes: list[int], directory: Path) -> dict[str, Counter[str]]:
    """What the log says of a session whose file was imported at each of these sizes."""
    path = directory / f"one{SUFFIXES.get(agent, '.jsonl')}"
    with Store.init(directory / ".locus") as store:
        for size in sizes:
            run(store, agent, written(path, portion(agent, lines, size)))
        found = answers(store)
        again = directory / f"again{path.suffix}"
        assert run(store, agent, written(again, lines)).facts == 0
        return found


@pytest.mark.parametrize("agent", sorted(FILES))
@settings(max_examples=examples(3, 300), derandomize="LOCUS_HUNT" not in os.environ)
@given(data=st.data())
def test_portions_make_the_same_events_turns_numbers_and_starts(agent: str, data: st.DataObject) -> None:
    """P3: wherever a file ended when it was imported, also where one name stands for all of its ids.

    Not compared: ends of turns and sessions, which each portion tells (the last counts); beginnings of calls
    that had no result yet; figures of model calls that grew; ids of Codex's messages. Not tried: one name
    for all ids of Gemini CLI, whose model calls then depend on the portions. OpenCode, SWE-agent and
    ATIF have one document, so their portions are documents with fewer messages or steps, never half a line.
    """
    name = None if agent == "gemini-cli" else data.draw(st.sampled_from((None, *NAMES)))
    lines = FILES[agent] if name is None else renamed(FILES[agent], name)
    whole = size_of(agent, lines)
    cuts = data.draw(st.lists(st.integers(1, whole), max_size=3))
    with tempfile.TemporaryDirectory() as one, tempfile.TemporaryDirectory() as other:
        at_once = imported(agent, lines, [whole], Path(one))
        by_and_by = imported(agent, lines, [*sorted(cuts), whole], Path(other))
    for sql in (FACTS, TURNS, CALLS):
        assert by_and_by[sql] == at_once[sql], json.dumps(cuts)
