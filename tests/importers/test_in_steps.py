"""The law of imports: in steps or at once, in whichever order, the log has the same events and totals."""

import json
import os
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from eventlog.agents.kit.lines import FileSource
from eventlog.importers import importer
from eventlog.store import Store
from tests.agents import codex_support as codex
from tests.agents.claude_support import HOME, Teller

Said = dict[str, Any]
Files = dict[str, list[bytes]]

# Each example is a dozen imports; a hunt makes more of them.
EXAMPLES = 200 if float(os.environ.get("LOCUS_HUNT", "0")) else 2

# What a prefix ends with is not the end of the whole: those events are named by what was last.
_OF_PREFIX = ("import", "sessions", "llm", "tool_start")
_OF_HALVES = ("end", "malformed", "line_completed")


@st.composite
def claude_files(draw: st.DrawFn) -> Files:
    """Some sessions of Claude Code: prompts, answers that grow, calls with results, other lines."""
    files = {}
    for number in range(draw(st.integers(1, 3))):
        session = f"0b5f3c1e-0000-4000-8000-00000000000{number}"
        teller, reported = Teller(session, name=f"l{number}"), []
        for turn in range(draw(st.integers(1, 3))):
            reported.append(teller.user(f"question {turn}", promptId=f"p-{number}-{turn}"))
            for step in range(draw(st.integers(0, 3))):
                key = f"{number}-{turn}-{step}"
                text = {"type": "text", "text": f"answer {key}"}
                block = {
                    "type": "tool_use",
                    "id": f"t-{key}",
                    "name": "Write",
                    "input": {"file_path": f"{HOME}/a", "content": key},
                }
                for output in range(1, draw(st.integers(1, 2)) + 1):
                    reported.append(teller.answer(f"m-{key}", text, output * 3))
                if draw(st.booleans()):
                    reported.append(teller.answer(f"m-{key}", block, 9))
                    if draw(st.booleans()):
                        imported = {
                            "type": "create",
                            "filePath": f"{HOME}/a",
                            "content": key,
                            "originalFile": None,
                        }
                        reported.append(teller.result(f"t-{key}", "ok", imported, failed=draw(st.booleans())))
            if draw(st.booleans()):
                reported.append(teller.line("system", subtype="notice", content="x"))
        files[session] = [json.dumps(one).encode() + b"\n" for one in reported]
    return files


@st.composite
def codex_files(draw: st.DrawFn) -> Files:
    """Some rollouts of Codex: turns with calls, texts and totals that are sometimes written again."""
    files = {}
    for number in range(draw(st.integers(1, 3))):
        thread = f"01a1ff00-0000-7000-8000-00000000000{number}"
        listed, second, total = [codex.meta(0, thread)], 1.0, 0
        for turn in range(draw(st.integers(1, 3))):
            name = f"01a1ff00-0{number}{turn}0-7000-8000-0000000000a1"
            listed += codex.begin(second, name)
            listed += codex.prompt(second, f"question {number} {turn}")
            for step in range(draw(st.integers(0, 3))):
                second += 1
                call = f"c-{number}-{turn}-{step}"
                if draw(st.booleans()):
                    arguments = json.dumps({"cmd": "ls"})
                    listed.append(
                        codex.item(
                            second, "function_call", name="exec_command", arguments=arguments, call_id=call
                        )
                    )
                    listed.append(codex.item(second, "function_call_output", call_id=call, output="a.py"))
                else:
                    content = [{"type": "output_text", "text": f"answer {call}"}]
                    listed.append(codex.item(second, "message", role="assistant", content=content))
                total += 7
                usage = {
                    "input_tokens": 5 * (total // 7),
                    "output_tokens": 2 * (total // 7),
                    "total_tokens": total,
                }
                last = {"input_tokens": 5, "output_tokens": 2, "total_tokens": 7}
                for _ in range(draw(st.integers(1, 2))):
                    info = {"total_token_usage": usage, "last_token_usage": last}
                    listed.append(codex.event(second, "token_count", info=info))
            if draw(st.booleans()):
                listed.append(codex.event(second, "task_complete", turn_id=name, last_agent_message="done"))
            second += 1
        files[f"rollout-{number}-{thread}"] = [json.dumps(one).encode() + b"\n" for one in listed]
    return files


@st.composite
def plans(draw: st.DrawFn, made: st.SearchStrategy[Files]) -> tuple[Files, list[tuple[str, int]]]:
    """Files, and how far each is written at each import, in some order; at last all of them are whole."""
    files = draw(made)
    steps = []
    for name, lines in files.items():
        size = sum(map(len, lines))
        cuts = draw(st.lists(st.integers(1, size - 1), max_size=3))
        steps += [(name, cut) for cut in sorted(cuts)]
    order = draw(st.permutations(steps))
    reached: dict[str, int] = {}
    growing = []
    for name, cut in order:
        reached[name] = max(cut, reached.get(name, 0))
        growing.append((name, reached[name]))
    return files, growing + [
        (name, sum(map(len, files[name]))) for name in draw(st.permutations(list(files)))
    ]


def imported(
    agent: str, files: Files, plan: Sequence[tuple[str, int]]
) -> tuple[set[str], list[Any], list[Any]]:
    """Ids, model calls and turns after the imports of a plan."""
    with tempfile.TemporaryDirectory() as directory, Store.init(Path(directory, ".locus")) as store:
        for name, size in plan:
            path = Path(directory, f"{name}.jsonl")
            path.write_bytes(b"".join(files[name])[:size])
            report = importer.run(store, agent, [FileSource(agent, [str(path)])])
            assert report.problems == []
        # Told of a prefix only: a call without its result yet, the smaller count of a model call that
        # grew (`llm_calls` below says that it counts nothing), half a line, an end.
        ids = {
            str(e["event_id"])
            for e in store.events()
            if e["event_type"] not in _OF_PREFIX and e["operation"] not in _OF_HALVES
        }
        assert store.query("from malformed_lines").rows == []  # each half was read whole in the end
        calls = store.query(
            "select message_id, session_id, sum(prompt_tokens), sum(completion_tokens), count(*) "
            "from llm_calls group by all order by all"
        ).rows
        turns = store.query("select user_request, tool_calls, prompt_tokens from turns order by all").rows
        return ids, [tuple(row) for row in calls], [tuple(row) for row in turns]


@settings(max_examples=EXAMPLES, phases=(Phase.explicit, Phase.reuse, Phase.generate))
@given(plans(claude_files()))
def test_sessions_of_claude_code_in_steps_are_those_at_once(
    made: tuple[Files, list[tuple[str, int]]],
) -> None:
    """P3, P7: any chain of prefixes, cut anywhere, of several files in any order."""
    files, plan = made
    check("claude-code", files, plan)


@settings(max_examples=EXAMPLES, phases=(Phase.explicit, Phase.reuse, Phase.generate))
@given(plans(codex_files()))
def test_rollouts_of_codex_in_steps_are_those_at_once(made: tuple[Files, list[tuple[str, int]]]) -> None:
    """P3, P7: any chain of prefixes, cut anywhere, of several files in any order."""
    files, plan = made
    check("codex", files, plan)


def check(agent: str, files: Files, plan: Sequence[tuple[str, int]]) -> None:
    whole = [(name, sum(map(len, lines))) for name, lines in files.items()]
    at_once, in_steps = imported(agent, files, whole), imported(agent, files, plan)
    assert in_steps[1:] == at_once[1:]
    assert in_steps[0] == at_once[0]
