"""Every reader: a session imported in portions, however they are cut, is the session imported whole."""

import json
import os
import tempfile
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eventlog.agents.call import is_global
from eventlog.store import Store
from tests.conftest import examples
from tests.transcripts.test_reused_ids import FILES, NAMES, SUFFIXES, Said, renamed, run, written

# The formats that are one document have no lines: in portions it is written anew, with more in this list.
DOCUMENTS = {"opencode": "messages", "swe-agent": "trajectory", "atif": "steps"}
FACTS = (
    "select event_id, payload, event_type, operation, turn, agent_turn_id, tool, success, occurred_at "
    "from events "
    "where event_type in ('action', 'intent', 'message', 'error', 'file')"
)
RESTS = "select cause, payload from events where event_type = 'transcript' and operation = 'rest'"
TURNS = "select turn, user_request, title, tool_calls, started_at from turns"
CALLS = "select message_id, prompt_tokens, completion_tokens from llm_calls"


def answers(store: Store) -> dict[str, Counter[str]]:
    found = {sql: [tuple(row) for row in store.query(sql).rows] for sql in (FACTS, TURNS, CALLS)}
    # What Codex adds to a text on the line behind it, which an import between the two has told without it.
    rests = {row[0]: json.loads(row[1]) for row in store.query(RESTS).rows}
    found[FACTS] = [
        (*row, dict(sorted({**json.loads(payload), **rests.get(event_id, {})}.items())))
        for event_id, payload, *row in found[FACTS]
    ]
    return {sql: Counter(map(str, rows)) for sql, rows in found.items()}


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
    that had no result yet; figures of model calls that grew. OpenCode, SWE-agent and ATIF have one document,
    so their portions are documents with fewer messages or steps, never half a line. Not tried: calls of Codex
    that share an id that looks random (docs/transcripts.md, Going on).
    """
    names = [name for name in NAMES if agent != "codex" or not is_global(name)]
    name = data.draw(st.sampled_from((None, *names)))
    lines = FILES[agent] if name is None else renamed(FILES[agent], name)
    whole = size_of(agent, lines)
    cuts = data.draw(st.lists(st.integers(1, whole), max_size=3))
    with tempfile.TemporaryDirectory() as one, tempfile.TemporaryDirectory() as other:
        at_once = imported(agent, lines, [whole], Path(one))
        by_and_by = imported(agent, lines, [*sorted(cuts), whole], Path(other))
    for sql in (FACTS, TURNS, CALLS):
        assert by_and_by[sql] == at_once[sql], json.dumps(cuts)
