"""Every reader: files imported in any order and portions, however they are cut, are those imported whole."""

import functools
import json
import os
import tempfile
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from eventlog.store import Store
from tests.agents import codex_support as codex
from tests.conftest import examples
from tests.importers.test_reused_ids import (
    FILES,
    NAMES,
    OF_IDS,
    SUFFIXES,
    Said,
    of_another_session,
    renamed,
    run,
)

# The formats that are one document have no lines: in portions it is rewritten, with more in this list.
DOCUMENTS = {"opencode": "messages", "swe-agent": "trajectory", "atif": "steps"}
COLUMNS = ("turn", "agent_session_id", "event_type", "operation", "tool", "success", "occurred_at")
FACTS = ("action", "intent", "message", "error", "file")
VIEWS = """
    select 'turns', row(turn, user_request, title, tool_calls, started_at)::varchar from turns
    union all select 'sessions', row(agent_session_id, title, started_at)::varchar from sessions
    union all select 'calls', row(turn, prompt_tokens, completion_tokens)::varchar from llm_calls
    union all select 'malformed', row(path, line)::varchar from malformed_lines
"""
Plan = Sequence[tuple[str, int]]
TURNED = str.maketrans("0123456789", "5678901234")


def with_other(keys: frozenset[str], value: Any) -> Any:
    """A copy of a line in which each id under these keys is another one of the same form."""
    if isinstance(value, list):
        return [with_other(keys, one) for one in value]
    if not isinstance(value, dict):
        return value
    return {
        key: one.translate(TURNED) if key in keys and isinstance(one, str) else with_other(keys, one)
        for key, one in value.items()
    }


def two_sessions(agent: str, name: str | None, shared: bool) -> dict[str, list[Said]]:
    """Two files: with ids of their own, with the same ids, or with one name for all ids of both."""
    lines = FILES[agent]
    other = with_other(frozenset(("turn_id",)), of_another_session(agent))  # no two threads share a turn
    if name is not None:
        lines, other = renamed(lines, name), renamed(other, name)
    elif not shared:
        other = with_other(OF_IDS, other)
    return {"a": lines, "b": other}


def size_of(agent: str, lines: list[Said]) -> int:
    """The bytes of a file, or how long the list of a document is."""
    parts = DOCUMENTS.get(agent)
    return len(data_of(lines)) if parts is None else len(lines[0][parts])


def data_of(lines: list[Said]) -> bytes:
    return b"".join(json.dumps(one).encode() + b"\n" for one in lines)


def portion(agent: str, lines: list[Said], size: int) -> bytes:
    """The first of a session, as its file stood when only so much was written."""
    parts = DOCUMENTS.get(agent)
    if parts is None:
        return data_of(lines)[:size]
    (document,) = lines
    early = {parts: document[parts][:size]}
    if size < len(document[parts]):
        # They come with the step that refers to them, and with the end.
        early |= {"subagent_trajectories": [], "final_metrics": {}}
    return data_of([{**document, **early}])


def answers(store: Store, *, ids: bool) -> dict[str, Counter[Any]]:
    events = list(store.events())
    # What Codex adds to a text on the line after it, which an import between the two has recorded without it.
    rests = {
        str(e["cause"]): e["payload"]
        for e in events
        if e["event_type"] == "transcript" and e["operation"] == "rest"
    }
    columns = (*COLUMNS, "agent_turn_id", "event_id") if ids else COLUMNS
    facts = [
        [
            *(e[name] for name in columns),
            sorted({**e["payload"], **rests.get(str(e["event_id"]), {})}.items()),
        ]
        for e in events
        if e["event_type"] in FACTS
    ]
    return {
        "facts": Counter(map(str, facts)),
        "views": Counter(tuple(row) for row in store.query(VIEWS).rows),
    }


def imported(
    agent: str, files: dict[str, list[Said]], plan: Sequence[Plan], *, ids: bool
) -> dict[str, Counter[Any]]:
    """What the log says after imports, each of files of which so much was written."""
    with tempfile.TemporaryDirectory() as directory, Store.init(Path(directory, ".locus")) as store:
        for together in plan:
            paths = []
            for name, size in together:
                paths.append(Path(directory, f"{name}{SUFFIXES.get(agent, '.jsonl')}"))
                paths[-1].write_bytes(portion(agent, files[name], size))
            run(store, agent, *paths)
        return answers(store, ids=ids)


@functools.cache
def at_once(agent: str, name: str | None, shared: bool) -> dict[str, Counter[Any]]:
    files = two_sessions(agent, name, shared)
    whole = [(path, size_of(agent, lines)) for path, lines in files.items()]
    return imported(agent, files, [whole], ids=not (name or shared))


@pytest.mark.parametrize("agent", sorted(FILES))
@settings(
    max_examples=examples(2, 300),
    derandomize="LOCUS_HUNT" not in os.environ,
    phases=(Phase.explicit, Phase.reuse, Phase.generate),
)
@given(data=st.data())
def test_any_order_and_portions_make_the_same_events_turns_numbers_and_starts(
    agent: str, data: st.DataObject
) -> None:
    """P3: wherever a file ended when it was imported, also within a line, and whichever file came first.

    Where sessions share ids, what comes later has other ids in the log; all else is the same. Not compared:
    ends of turns and sessions, which each portion tells (the last counts); beginnings of calls that had no
    result yet. OpenCode, SWE-agent and ATIF have one document, so their portions are documents with fewer
    messages or steps.
    """
    name = data.draw(st.sampled_from((None, *NAMES)))
    shared = name is not None or data.draw(st.booleans())
    files = two_sessions(agent, name, shared)
    sizes = {path: size_of(agent, lines) for path, lines in files.items()}
    steps = [
        (path, cut)
        for path, size in sizes.items()
        for cut in data.draw(st.lists(st.integers(1, size), max_size=2))
    ]
    reached: dict[str, int] = {}
    plan = []
    for path, cut in data.draw(st.permutations(steps)):
        reached[path] = max(cut, reached.get(path, 0))
        plan.append([(path, reached[path])])
    plan += [[(path, sizes[path])] for path in data.draw(st.permutations(sorted(files)))]

    found, expected = imported(agent, files, plan, ids=not shared), at_once(agent, name, shared)
    for part, rows in expected.items():
        assert found[part] == rows, (part, plan)


CALL = "call_1a2b1"
FAILED = codex.patch(6, CALL, codex.UPDATE, {}, success=False)
FAILED[1]["payload"]["stderr"] = "no such line"
FAILED[2]["payload"]["output"] = "no such line"
REPEATED = [
    codex.meta(),
    *codex.begin(1, codex.TURN),
    *codex.prompt(1, "add a price"),
    *codex.patch(2, CALL, codex.ADD, codex.ADDED),
    *codex.patch(3, CALL, codex.UPDATE, {f"{codex.HOME}/a.py": codex.UPDATED}),
    *codex.shell(4, CALL, "ls x", "Process exited with code 2\nOutput:\nno x\n"),
    *FAILED,
    *codex.shell(8, CALL, "ls x", "Process exited with code 0\nOutput:\nx\n"),
    codex.end(9, codex.TURN),
]


def test_a_call_with_the_id_of_another_is_one_wherever_the_file_was_cut() -> None:
    """P3: also between the line on which Codex says that it ended and that of its output."""
    sizes = [len(data_of(REPEATED[:number])) for number in range(1, len(REPEATED) + 1)]
    cuts = [
        size
        for size, one in zip(sizes, REPEATED, strict=True)
        if one["payload"].get("type") == "patch_apply_end"
    ]

    def shown(*cuts: int) -> tuple[Counter[str], Counter[Any]]:
        found = imported("codex", {"a": REPEATED}, [[("a", cut)] for cut in (*cuts, sizes[-1])], ids=False)
        kinds = Counter(" ".join(text.split(", ")[2:6]) for text in found["facts"].elements())
        return kinds, found["views"]

    whole = shown()
    assert sum(count for kind, count in whole[0].items() if kind.startswith("'action'")) == 5
    assert shown(*cuts) == whole


@pytest.mark.parametrize(
    ("agent", "of_result"), [("codex", "patch_apply_end"), ("claude-code", "tool_result")]
)
def test_a_call_begun_in_one_session_hides_none_of_another_with_its_id(agent: str, of_result: str) -> None:
    """P7: also where both have the same arguments, and the result of the first comes after the other."""
    files, name = two_sessions(agent, NAMES[-1], shared=True), NAMES[-1]
    begun = next(n for n, one in enumerate(files["a"]) if of_result in json.dumps(one))
    whole = [[(path, size_of(agent, files[path]))] for path in ("b", "a")]
    plan = [[("a", size_of(agent, files["a"][:begun]))], *whole]
    assert imported(agent, files, plan, ids=False) == at_once(agent, name, True)
