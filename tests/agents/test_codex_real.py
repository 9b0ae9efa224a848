"""Real rollouts against a counter of its own, which shares nothing with the reader.

LOCUS_TRANSCRIPTS names directories with such files; without it these tests have nothing to read.
"""

import json
import random
from pathlib import Path
from typing import Any

import pytest

from eventlog.store import Store
from tests.agents.codex_support import Line, drafts, need_real_rollouts, rows, run

CALLS = ("function_call", "custom_tool_call", "local_shell_call", "tool_search_call", "web_search_call")
ENDS = ("patch_apply_end", "exec_command_end", "mcp_tool_call_end", "web_search_end")
FIELDS = ("input_tokens", "output_tokens", "cached_input_tokens", "reasoning_output_tokens")
STRANGE: list[Any] = [None, 3, "x", [], {}, [1], {"type": 2}, True]


@pytest.fixture(scope="module")
def files() -> dict[Path, list[Line]]:
    return {path: list(map(json.loads, path.read_text().splitlines())) for path in need_real_rollouts()}


class Counted:
    """What a file holds by the description of its format."""

    def __init__(self, lines: list[Line]) -> None:
        listed = [(one["type"], one["payload"], one["payload"].get("type")) for one in lines]
        self.session = listed[0][1]["id"]
        prompts = [
            p["message"] if t == "user_message" else "".join(part["text"] for part in p["item"]["content"])
            for _, p, t in listed
            if t == "user_message" or (t == "item_completed" and p["item"]["type"] == "UserMessage")
        ]
        self.prompts = sum(text != before for text, before in zip(prompts, [None, *prompts], strict=False))
        own = {p.get("call_id") or p.get("id") for _, p, t in listed if t in CALLS} - {None}
        self.tools = len(own | {p["call_id"] for _, p, t in listed if t in ENDS})
        self.answers = sum(t == "message" and p["role"] == "assistant" for _, p, t in listed)
        records = [p["usage"] for kind, p, _ in listed if kind == "token_usage_record"]
        infos = [p["info"] for _, p, t in listed if t == "token_count" and p["info"]]
        last: Any = None
        calls = []
        for info in infos:
            if info["total_token_usage"] != last:
                calls.append(info["last_token_usage"])
            last = info["total_token_usage"]
        self.usage = [[call[name] for call in records or calls] for name in FIELDS]
        self.total = [last[name] for name in FIELDS] if last else [0] * len(FIELDS)

    @property
    def tokens(self) -> list[int]:
        return [sum(of_field) for of_field in self.usage]


def test_an_import_counts_what_another_counter_counts(files: dict[Path, list[Line]], tmp_path: Path) -> None:
    """P3: sessions, prompts, tool calls, answers, model calls and tokens, in each session and in all."""
    counted = [Counted(lines) for lines in files.values()]
    with Store.init(tmp_path / ".locus") as store:
        report = run(store, *files)
        assert (report.sessions, report.malformed, report.problems) == (len(files), 0, [])
        for one in counted:
            (recorded,) = rows(
                store,
                "select count(*) filter (event_type = 'intent'), count(*) filter (event_type = 'message' "
                "and operation = 'text'), count(distinct tool_use_id) from events where "
                f"agent_session_id = '{one.session}'",
            )
            assert recorded == (one.prompts, one.answers, one.tools), one.session
            (recorded,) = rows(
                store,
                "select count(*), sum(prompt_tokens), sum(completion_tokens), sum(cache_read_tokens), "
                "sum(reasoning_tokens) from llm_calls where session_id in (select session_id from sessions "
                f"where agent_session_id = '{one.session}')",
            )
            assert recorded == (len(one.usage[0]), *one.tokens), one.session
            assert one.tokens == one.total, one.session  # the client's own sum
        calls = rows(store, "select count(*), sum(prompt_tokens) from llm_calls")
        assert calls == [(sum(len(one.usage[0]) for one in counted), sum(one.tokens[0] for one in counted))]

        before = store.journal.next_position()
        (tmp_path / ".locus/live/imports.json").unlink()
        assert run(store, *files).events == 0
        assert store.journal.next_position() == before


def test_a_prefix_and_then_the_whole_give_what_the_whole_gives(
    files: dict[Path, list[Line]], tmp_path: Path
) -> None:
    """P3: a session imported while it ran and again when it was over is the same as imported once."""
    path, lines = max(files.items(), key=lambda one: len(one[1]))
    ends = "event_type in ('import', 'sessions', 'tool_start') or operation = 'end'"
    sql = f"select event_id from events where not coalesce({ends}, false) order by 1"
    copy = tmp_path / path.name
    for name in ("whole", "parts"):
        (tmp_path / name).mkdir()
    with Store.init(tmp_path / "whole/.locus") as store:
        copy.write_text("".join(json.dumps(one) + "\n" for one in lines))
        run(store, copy)
        whole = rows(store, sql)
    with Store.init(tmp_path / "parts/.locus") as store:
        for share in (0.2, 0.5, 0.8, 1.0):
            copy.write_text("".join(json.dumps(one) + "\n" for one in lines[: int(len(lines) * share)]))
            run(store, copy)
        assert rows(store, sql) == whole


def test_real_lines_with_strange_values_are_read(files: dict[Path, list[Line]]) -> None:
    """P7: what a later version may write instead of what this one does fails no import."""
    choose = random.Random(7)
    for lines in files.values():
        changed = json.loads(json.dumps(choose.sample(lines, min(60, len(lines)))))
        for one in changed:
            place = one["payload"]
            while choose.random() < 0.6:
                below = [value for value in place.values() if isinstance(value, dict) and value]
                if not below:
                    break
                place = choose.choice(below)
            if place:
                place[choose.choice(sorted(place))] = choose.choice(STRANGE)
        drafts([lines[0], *changed])
