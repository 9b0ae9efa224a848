"""Rollouts of Codex: all eras, each call and text once, whatever is in them."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eventlog.base.names import event_id_of
from eventlog.store import Store
from tests.agents import codex_support as codex
from tests.agents.codex_support import (
    ADD,
    CHILD,
    CHILD_TURN,
    HOME,
    SESSION,
    THREAD,
    TURN,
    TURN_2,
    Line,
    begin,
    completed,
    count,
    drafts,
    edits_in,
    end,
    event,
    events_in,
    item,
    line,
    meta,
    prompt,
    record,
    rows,
    run,
    shell,
    write,
)

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3),
    max_leaves=8,
)


def test_a_session_says_what_was_asked_done_and_counted(tmp_path: Path) -> None:
    """P3, P7: equal totals are no second call, a patch's contents are chained, an exit code tells."""
    with Store.init(tmp_path / ".locus") as store:
        report = run(store, write(tmp_path / "one.jsonl", SESSION))

        assert (report.sessions, report.turns, report.calls, report.problems) == (1, 1, 2, [])
        assert rows(store, "select title, outcome, status from turns") == [
            ("add a price", "Done.", "completed")
        ]
        assert rows(store, "select tool, success, duration_ms from actions order by position") == [
            ("apply_patch", True, 500), ("apply_patch", True, 500), ("exec_command", False, 200),
        ]  # fmt: skip
        calls = "select model, prompt_tokens, completion_tokens, cache_read_tokens from llm_calls"
        assert rows(store, calls) == [("model-x", 100, 5, 50), ("model-x", 150, 5, 75)]
        added, changed = rows(store, "select operation, before_hash, after_hash from files order by position")
        assert (added[0], changed[0], changed[1]) == ("add", "edit", added[2])
        assert store.blob(changed[2]) == b"price = 2\n"
        text = "select operation, payload->>'text' from events where event_type = 'message' order by position"
        assert rows(store, text) == [("reasoning", "A file."), ("text", "I add it."), ("text", "Done.")]


def test_ids_are_those_of_the_hooks() -> None:
    """P3: what a hook tells too has the id that the hook gives it."""
    ids = {one["event_id"] for one in events_in(SESSION, "session", "turn", "intent", "action")}

    for key in (("session", THREAD), ("turn", TURN, "start"), ("intent", TURN), ("action", "call_1a2b1")):
        assert event_id_of("codex", *key) in ids


def test_a_record_is_a_call_and_its_count_is_none() -> None:
    """P3: where the client writes records, a token count repeats them; its limits are kept."""
    lines = [
        meta(cli_version="0.169.0"),
        *begin(1, TURN),
        completed(1, TURN, "UserMessage", content=[{"type": "text", "text": "add a price"}]),
        record(2, TURN, "resp_1", 100),
        count(2, 100, 100, rate_limits={"used": 1}),
        record(3, TURN, "resp_2", 100),
        count(3, 200, 100, rate_limits={"used": 1}),
        completed(4, TURN, "AgentMessage", id="msg_1", content=[{"type": "Text", "text": "Done."}]),
        *codex.answer(4, "Done.")[1:],
        end(5, TURN),
    ]
    calls = events_in(lines, "llm")
    (limits,) = (one for one in events_in(lines, "transcript") if one["operation"] == "event_msg/token_count")

    assert [(one["message_id"], one["prompt_tokens"]) for one in calls] == [("resp_1", 100), ("resp_2", 100)]
    assert limits["payload"] == {"rate_limits": {"used": 1}}
    assert [one["payload"]["text"] for one in events_in(lines, "message")] == ["Done."]
    (ended,) = (one for one in events_in(lines, "turn") if one["operation"] == "end")
    assert ended["payload"]["token_counts_repeated"] == 2


def test_an_item_gives_contents_and_exit_code() -> None:
    """P7: the items of newer versions say what a file held and how a command ended."""
    lines = [
        meta(), *begin(1, TURN), *prompt(1, "go"),
        item(2, "custom_tool_call", name="apply_patch", input=ADD, call_id="c1"),
        completed(2, TURN, "FileChange", id="c1", status="completed", changes={
            f"{HOME}/b.py": {"type": "update", "unified_diff": "@@ -1 +1 @@\n-a\n+b\n",
                             "move_path": f"{HOME}/c.py"},
            f"{HOME}/d.py": {"type": "delete", "content": "gone\n"},
        }),
        item(2, "custom_tool_call_output", call_id="c1", output="Exit code: 0\nOutput:\n"),
        item(3, "function_call", name="exec_command", arguments='{"cmd": "ls"}', call_id="c2"),
        completed(3, TURN, "CommandExecution", id="c2", command=["bash", "-lc", "ls"], exit_code=2,
                  aggregated_output="none\n", status="failed", duration={"secs": 1, "nanos": 5_000_000}),
        item(3, "function_call_output", call_id="c2", output="Output:\nnone\n"),
    ]  # fmt: skip
    moved, deleted = (one.edit for one in edits_in(lines))
    command = events_in(lines, "action")[1]

    assert (moved.kind, moved.path, moved.old_path) == ("patch", f"{HOME}/c.py", f"{HOME}/b.py")
    assert (deleted.kind, deleted.original) == ("delete", "gone\n")
    assert (command["success"], command["duration_ms"]) == (False, 1005)
    assert command["payload"]["told"]["command"] == ["bash", "-lc"]
    assert "aggregated_output" not in command["payload"]["told"]


@pytest.mark.parametrize(
    ("args", "path"),
    [
        (["bash", "-lc", f"apply_patch <<'EOF'\n{ADD}EOF"], "a.py"),
        (["apply_patch", ADD], "a.py"),
        (["bash", "-lc", f"cd sub && apply_patch <<'EOF'\n{ADD}EOF"], "sub/a.py"),
    ],
)
def test_a_patch_in_a_shell_command_changes_files_when_it_succeeded(args: Any, path: str) -> None:
    """P7: the text tells what was written; a command that failed wrote nothing that is known."""

    def called(code: int) -> list[Line]:
        output = json.dumps({"output": "Success.", "metadata": {"exit_code": code, "duration_seconds": 0.1}})
        given = json.dumps({"command": args})
        return [
            meta(), *begin(1, TURN), *prompt(1, "go"),
            item(2, "function_call", name="shell", arguments=given, call_id="c1"),
            item(2, "function_call_output", call_id="c1", output=output),
        ]  # fmt: skip

    (edit,) = (one.edit for one in edits_in(called(0)))
    assert (edit.kind, edit.path, edit.content, edit.created) == ("write", path, "price = 1\n", True)
    assert edits_in(called(1)) == []
    assert [one["error_type"] for one in events_in(called(1), "error")] == ["tool_failure"]


def test_the_bare_lines_of_2025_are_read() -> None:
    """P7: without times, kinds and turn ids, each prompt is a turn, and what the client says is none."""
    lines: list[Line] = [
        {"id": THREAD, "timestamp": "2025-06-01T08:00:00.000Z", "instructions": "be brief", "git": {}},
        {"record_type": "state"},
        {"type": "message", "role": "user", "content": [{"text": "<environment_context>"}]},
        {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "<b> is bold?"}]},
        {"type": "function_call", "name": "shell", "arguments": '{"command": ["ls"]}', "call_id": "c1"},
        {"type": "function_call_output", "call_id": "c1",
         "output": '{"output": "a", "metadata": {"exit_code": 0}}'},
        {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "Yes."}]},
        {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "thanks"}]},
    ]  # fmt: skip
    turns = events_in(lines, "turn")
    (action,) = events_in(lines, "action")

    assert [one["payload"]["user_message"] for one in turns] == ["<b> is bold?", "thanks"]
    assert (action["success"], action["agent_turn_id"]) == (True, turns[0]["agent_turn_id"])
    assert [one["operation"] for one in events_in(lines, "transcript")] == [
        "state",
        "response_item/message/user",
    ]
    assert [one["payload"]["text"] for one in events_in(lines, "message")] == ["Yes."]


def child(*own: Line) -> list[Line]:
    """A subagent's rollout: its own meta, its parent's and a copy of the parent's history, then its work."""
    spawned = {"subagent": {"thread_spawn": {"parent_thread_id": THREAD, "depth": 1, "agent_role": "tester"}}}
    copied = [{**one, "timestamp": "2026-11-20T10:00:20.000Z"} for one in SESSION]
    return [meta(20, CHILD, source=spawned), *copied, *own]


def test_the_copied_history_of_a_subagent_is_passed_over(tmp_path: Path) -> None:
    """P3: the calls are the parent's; what the subagent did is in the parent's session and turn."""
    own = [
        *begin(20.01, CHILD_TURN),
        *prompt(20.01, "check the price"),
        *shell(21, "call_1a2b9", "cat a.py", "Process exited with code 0\nOutput:\nprice = 2\n"),
        count(21, 250, 150),
        count(22, 300, 50),
        *codex.answer(22, "It is right.", 9),
        end(23, CHILD_TURN),
    ]
    with Store.init(tmp_path / ".locus") as store:
        parent = run(store, write(tmp_path / "one.jsonl", SESSION))
        report = run(store, write(tmp_path / "two.jsonl", child(*own)))

        assert (parent.calls, report.calls, report.turns) == (2, 1, 0)
        calls = rows(store, "select subagent_id, prompt_tokens from llm_calls order by prompt_tokens")
        assert calls == [(CHILD, 50), (None, 100), (None, 150)]
        assert rows(store, "select count(*), min(agent_session_id) from sessions") == [(1, THREAD)]
        (action,) = [e for e in store.events() if e.get("tool_use_id") == "call_1a2b9"]
        assert (action["subagent_id"], action["agent_turn_id"]) == (CHILD, TURN)
        (copy,) = [e for e in store.events() if e["operation"] == "copied_history"]
        assert copy["payload"] == {"of": THREAD, "lines": len(SESSION)}


@pytest.mark.parametrize("with_meta", [True, False])
def test_a_fork_goes_on_after_the_copy_of_its_parent(with_meta: bool, tmp_path: Path) -> None:
    """P3: a fork is a session of its own, and counts only what came after the copy."""
    copied = [{**one, "timestamp": "2026-11-20T10:00:30.000Z"} for one in SESSION[not with_meta :]]
    first = event(30, "thread_settings_applied", thread_settings={"model": "model-y"})
    own = [*begin(31, CHILD_TURN), *prompt(31, "and a tax"), count(32, 300, 50), end(33, CHILD_TURN)]
    fork = [meta(30, CHILD, forked_from_id=THREAD), first, *copied, *own]
    with Store.init(tmp_path / ".locus") as store:
        reports = [
            run(store, write(tmp_path / "a.jsonl", SESSION)),
            run(store, write(tmp_path / "b.jsonl", fork)),
        ]

        assert [(one.calls, one.turns) for one in reports] == [(2, 1), (1, 1)]
        begun = (
            "select s.agent_session_id, t.title from turns t join sessions s using (session_id) order by 2"
        )
        assert rows(store, begun) == [(THREAD, "add a price"), (CHILD, "and a tax")]
        kept = (
            "select operation, payload->>'lines' from events where event_type = 'transcript' and (operation "
        )
        kept += "= 'copied_history' or operation = 'event_msg/thread_settings_applied') order by position"
        assert rows(store, kept) == [
            ("event_msg/thread_settings_applied", None), ("copied_history", str(len(copied))),
        ]  # fmt: skip


def test_a_resumed_session_goes_on_and_says_what_changed() -> None:
    """P7: a session's own meta in the middle of its file begins nothing; what is new in it is kept."""
    lines = [
        *SESSION,
        meta(30, cli_version="0.141.0"),
        *begin(31, TURN_2),
        *prompt(31, "more"),
        end(32, TURN_2),
    ]
    sessions, turns = events_in(lines, "session"), events_in(lines, "turn")
    (again,) = (one for one in events_in(lines, "transcript") if one["operation"] == "session_meta")

    assert (len(sessions), len(turns)) == (1, 4)
    assert again["payload"] == {"cli_version": "0.141.0"}
    assert turns[-1]["agent_version"] == "0.141.0"


def test_an_interruption_a_second_prompt_and_a_command_of_the_users_own() -> None:
    """P7: a turn that was stopped says so; what was said meanwhile is one more intent of the turn."""
    lines = [
        meta(), *begin(1, TURN), *prompt(1, "go"), *prompt(2, "faster"),
        event(3, "exec_command_end", call_id="user-1", command=["bash", "-lc", "make"], exit_code=0),
        item(4, "function_call", name="exec_command", arguments="{broken", call_id="c1"),
        event(5, "turn_aborted", turn_id=TURN, reason="interrupted", duration_ms=4),
    ]  # fmt: skip
    start, stop = events_in(lines, "turn")
    (action,) = events_in(lines, "action")
    (pending,) = events_in(lines, "tool_start")

    assert [one["payload"]["message"] for one in events_in(lines, "intent")] == ["go", "faster"]
    assert (start["payload"]["user_message"], stop["status"]) == ("go", "interrupted")
    assert stop["payload"]["reason"] == "interrupted"
    assert (action["tool_use_id"], action["success"]) == ("user-1", True)
    assert (pending["tool_use_id"], pending["payload"]["args"]) == ("c1", "{broken")


def test_a_patch_within_a_script_is_an_action_of_its_own() -> None:
    """P7: a patch that a script of `exec` applied names files, and the script that it was in."""
    lines = [
        meta(), *begin(1, TURN), *prompt(1, "go"),
        item(2, "custom_tool_call", name="exec", input="await tools.apply_patch(p)", call_id="c1"),
        event(2, "patch_apply_end", call_id="exec-1", success=True, changes=codex.ADDED),
        item(2, "custom_tool_call_output", call_id="c1", output=[{"text": "Script completed"}]),
    ]  # fmt: skip
    inner, outer = events_in(lines, "action")
    (file,) = edits_in(lines)

    assert (inner["tool"], inner["payload"]["within"], outer["tool"]) == ("apply_patch", "c1", "exec")
    assert file.cause["event_id"] == inner["event_id"]


def test_what_an_answer_of_a_server_holds_is_kept_once() -> None:
    """P7: the client tells a result that the output holds too; what only it says stays."""
    answer = {"content": [{"type": "text", "text": "Done."}], "structuredContent": {"number": 255}}
    invocation = {"server": "hub", "tool": "fetch", "arguments": {"number": 255}}
    lines = [
        meta(), *begin(1, TURN), *prompt(1, "go"),
        item(2, "function_call", name="_fetch", namespace="hub", arguments='{"number": 255}', call_id="c1"),
        event(2, "mcp_tool_call_end", call_id="c1", invocation=invocation, result={"Ok": answer}),
        item(2, "function_call_output", call_id="c1", output='Wall time: 1.5 s\nOutput:\n{"number":255}'),
        event(3, "web_search_end", call_id="ws_1", query="q", action={"type": "search"}),
        item(3, "web_search_call", status="completed", action={"type": "search"}),
    ]  # fmt: skip
    call, search = events_in(lines, "action")

    assert (call["success"], call["duration_ms"], call["payload"]["namespace"]) == (True, 1500, "hub")
    del answer["structuredContent"], invocation["arguments"]
    assert call["payload"]["told"] == {"invocation": invocation, "result": {"Ok": answer}}
    assert (search["tool"], search["payload"]["args"]) == ("web_search", {"type": "search"})
    assert search["payload"]["told"] == {"query": "q"}


def test_a_compressed_rollout_is_read(tmp_path: Path) -> None:
    """P7: a rollout that the client compressed gives the same events."""
    import pyarrow as pa

    plain = write(tmp_path / "one.jsonl", SESSION)
    packed = tmp_path / "two.jsonl.zst"
    with pa.CompressedOutputStream(str(packed), "zstd") as stream:
        stream.write(plain.read_bytes())
    with Store.init(tmp_path / ".locus") as store:
        assert run(store, plain).calls == 2
        report = run(store, packed)
        assert (report.lines, report.calls, report.facts) == (len(SESSION), 0, 0)


@pytest.mark.parametrize("cut", range(1, len(SESSION)))
def test_a_prefix_and_then_the_whole_give_what_the_whole_gives(cut: int) -> None:
    """P3: a file that grew is read again from its beginning, and every fact keeps its id."""
    pending = ("tool_start",)
    first = {one["event_id"] for one in _events(SESSION[:cut]) if one["event_type"] not in pending}
    whole = {one["event_id"] for one in _events(SESSION)}

    assert first <= whole
    ids = [one["event_id"] for one in _events(SESSION)]
    assert len(ids) == len(set(ids))


def _events(lines: list[Line]) -> list[Any]:
    return [one for one in drafts(lines) if isinstance(one, dict)]


@given(st.lists(JSON | st.dictionaries(st.sampled_from(["type", "payload", "timestamp"]), JSON), max_size=4))
def test_no_line_is_too_strange(said: list[Any]) -> None:
    """P7: any JSON object is read; a value of the wrong kind is an unknown one."""
    drafts([one for one in said if isinstance(one, dict)])
    drafts([meta(), *(one for one in said if isinstance(one, dict))])


@given(st.data())
def test_no_value_is_too_strange(data: st.DataObject) -> None:
    """P7: a line with any of its values exchanged is read."""
    lines = json.loads(json.dumps(child(*SESSION[1:])))
    for _ in range(data.draw(st.integers(1, 4))):
        place = data.draw(st.sampled_from(lines))
        while True:
            key = data.draw(
                st.sampled_from(sorted(place) if isinstance(place, dict) else list(range(len(place))))
            )
            if place[key] and isinstance(place[key], (dict, list)) and data.draw(st.booleans()):
                place = place[key]
                continue
            place[key] = data.draw(JSON)
            break
    drafts(lines)


def test_the_first_lines_tell_a_rollout() -> None:
    """P7: a file is recognised by its lines, of each era."""
    from eventlog.agents.codex.transcript import recognises

    assert recognises(meta()) and recognises(line(0, "turn_context"))
    assert recognises({"id": "x", "timestamp": "2025-06-01T08:00:00Z", "instructions": None})
    assert not recognises({"type": "user", "sessionId": "s", "message": {"role": "user"}})
    assert not recognises({"type": "message", "id": "m"})
