"""Live capture: the real hook program beside a real repository, from first prompt to last (P1, P4)."""

import base64
import fcntl
import json
import os
import resource
import shutil
import signal
import subprocess
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from eventlog import agents
from eventlog.base.fs import REAL
from eventlog.base.names import event_id_of, session_id_of, short
from eventlog.blobs.tree import SKIPPED
from eventlog.hooks import record as live
from eventlog.log.journal_reading import end_of_journal
from eventlog.log.shorten import TAIL_BYTES_MAX
from eventlog.store import Store
from tests.cli.hook_support import (
    HOOK,
    Agent,
    Codex,
    events,
    here,
    notes,
    replayed,
    run_hook,
    unique,
)
from tests.test_compatibility import change
from tests.worktree.support import git


def action_of(tool_use_id: str, agent: str = "claude-code") -> str:
    return event_id_of(agent, "action", tool_use_id)


def changes(work: Path) -> list[tuple[Any, ...]]:
    return [(e["operation"], e["path"], e["cause"], e["source"], e["turn"]) for e in events(work, "file")]


def last_turn(work: Path) -> dict[str, Any]:
    return events(work, "turn")[-1]


@pytest.mark.fast
def test_a_whole_session_is_replayable_turn_by_turn(work: Path, tmp_path: Path) -> None:
    """P1, S1-57, S1-23, S1-24, S1-28…S1-31, S1-33, S1-36…S1-39, S1-41: after each turn its replay equals the
    directory byte for byte, whoever changed it, and each change names its action."""
    agent = Agent(work)
    agent.start()
    agent.prompt("Fix the parser so that it reads dates")
    written = agent.write("new.py", "x = 1\n")
    edited = agent.edit("src/app.py", "one", "two")
    command = (
        "mkdir -p d/e; mv readme.md d/README.md; chmod +x src/app.py; printf '\\377' > d/odd; rm .gitignore"
    )
    shell = agent.bash(command)
    linked = agent.bash("ln -s src/app.py link; mkfifo pipe 2>/dev/null; rm -f pipe")
    failing = agent.bash("echo partly > partly.txt; exit 3")
    refused = agent.begin("Bash", {"command": "rm -rf /"})
    unheard = unique("toolu")
    agent.batch(
        (failing, "Bash", {"command": "…"}, "Exit code 3"),
        (refused, "Bash", {"command": "rm -rf /"}, "You have not granted it yet."),
        (unheard, "Edit", {"file_path": "x"}, "<tool_use_error>String not found</tool_use_error>"),
    )
    agent.say("SubagentStart", agent_id="sub1", agent_type="general-purpose")
    by_subagent = agent.write("by_subagent.txt", "s\n", agent_id="sub1", agent_type="general-purpose")
    agent.say("SubagentStop", agent_id="sub1", agent_type="general-purpose", last_assistant_message="Done.")
    agent.stop("I fixed it.")
    first, first_files = last_turn(work), here(work)

    (work / "new.py").write_text("x = 2  # by hand\n")
    (work / "gone_by_hand").write_text("")
    agent.prompt("And now the tests")
    started = here(work)
    agent.edit("new.py", "x = 2", "x = 3")
    agent.stop()
    second, second_files = last_turn(work), here(work)
    (work / "after.txt").write_text("after the last turn")
    agent.finish("prompt_input_exit")

    assert replayed(work, first, tmp_path / "first") == first_files
    assert replayed(work, second, tmp_path / "second") == second_files
    assert replayed(work, second, tmp_path / "started", at="start") == started
    assert notes(work) == ""
    reported = changes(work)
    by = {
        cause: {(op, path) for op, path, of, _, _ in reported if of == cause}
        for _, _, cause, _, _ in reported
    }
    assert by[action_of(written)] == {("add", "new.py")}
    assert by[action_of(edited)] == {("edit", "src/app.py")}
    assert by[action_of(shell)] == {
        ("delete", ".gitignore"), ("rename", "d/README.md"), ("add", "d/e"), ("add", "d/odd"),
        ("mode", "src/app.py"),
    }  # fmt: skip
    assert by[action_of(linked)] == {("add", "link")}
    assert by[action_of(failing)] == {("add", "partly.txt")}
    assert by[action_of(by_subagent)] == {("add", "by_subagent.txt")}
    outside = {(op, path, source, turn) for op, path, cause, source, turn in reported if cause is None}
    assert outside == {
        ("edit", "new.py", "user", None), ("add", "gone_by_hand", "user", None),
        ("add", "after.txt", "user", None),
    }  # fmt: skip

    recorded = events(work)
    turn = [e for e in recorded if e["turn"] == 1]
    assert [e["event_type"] for e in turn[:3]] == ["turn", "snapshot", "intent"]
    assert [e["seq"] for e in turn if e["seq"] is not None] == list(range(1, len(turn) - 1))
    assert turn[2]["payload"]["message"] == "Fix the parser so that it reads dates"
    assert turn[1]["payload"]["git_branch"] == "main"
    assert turn[1]["payload"]["tracked_files"] == 3
    actions = {e["tool_use_id"]: e["success"] for e in recorded if e["event_type"] == "action"}
    assert {id: actions[id] for id in (written, shell, failing, refused, unheard)} == {
        written: True, shell: True, failing: False, refused: False, unheard: False,
    }  # fmt: skip
    assert Counter(e["event_id"] for e in recorded).most_common(1)[0][1] == 1
    assert {e["subagent_id"] for e in recorded if e["tool_use_id"] == by_subagent} == {"sub1"}
    assert next(e["payload"]["command"] for e in recorded if e["event_type"] == "error").endswith("exit 3")
    with Store.open(work / ".locus") as store:
        (session,) = store.query("select * from sessions").rows
        assert store.verify("deep") == []
        shown = dict(zip(store.query("select * from sessions").columns, session, strict=True))
    assert shown["title"] == "Fix the parser so that it reads dates"
    assert shown["slug"] == "fix-parser-reads-dates"
    assert (shown["status"], shown["end_reason"], shown["turn_count"]) == ("closed", "prompt_input_exit", 2)


def test_a_change_before_an_edit_is_the_users(work: Path) -> None:
    """P7: what a person changed in a file between two calls is told apart from the edit by the text that the
    agent found in it; differences of line ends alone are none."""
    agent = Agent(work)
    agent.prompt("Go on")
    (work / "src/app.py").write_text("print('one')\n# by hand\n")
    edited = agent.edit("src/app.py", "one", "two")
    (work / "src/app.py").write_bytes(b"print('two')\r\n")
    agent.bash("true")
    crlf = agent.edit("src/app.py", "two", "three")

    listed = [(op, cause, source) for op, path, cause, source, _ in changes(work) if path == "src/app.py"]
    assert listed[:2] == [("edit", None, "user"), ("edit", action_of(edited), "executor")]
    assert listed[-1] == ("edit", action_of(crlf), "executor")
    first, second = events(work, "file")[:2]
    assert first["after_hash"] == second["before_hash"]
    with Store.open(work / ".locus") as store:
        assert store.blob(first["after_hash"]) == b"print('one')\n# by hand\n"
    assert (second["lines_added"], second["lines_removed"]) == (1, 1)


def test_parallel_hooks_lose_and_confuse_nothing(work: Path, tmp_path: Path, hunt_minutes: float) -> None:
    """P3, I1, I8: eight processes record one session at once; every call is one action and every file one
    change, whichever call's capture found it, and the turn's replay is the directory."""
    agent = Agent(work)
    agent.start()
    agent.prompt("Write many files")
    count = 500 if hunt_minutes else 40  # each is two hook calls

    def one(number: int) -> str:
        return agent.write(f"many/{number:03d}.txt", f"{number}\n")

    with ThreadPoolExecutor(8) as pool:
        ids = list(pool.map(one, range(count)))
    agent.stop()

    recorded = events(work)
    assert Counter(e["tool_use_id"] for e in recorded if e["event_type"] == "action") == Counter(ids)
    assert Counter(e["tool_use_id"] for e in recorded if e["event_type"] == "tool_start") == Counter(ids)
    files = [e for e in recorded if e["event_type"] == "file" and e["path"].startswith("many/")]
    assert Counter(e["path"] for e in files) == Counter(f"many/{n:03d}.txt" for n in range(count))
    causes = {f"many/{n:03d}.txt": action_of(id) for n, id in enumerate(ids)}
    assert {e["path"]: e["cause"] for e in files} == causes
    numbered = [e["seq"] for e in recorded if e["turn"] == 1 and e["seq"] is not None]
    assert numbered == list(range(1, len(numbered) + 1))
    assert replayed(work, last_turn(work), tmp_path / "out") == here(work)


def test_two_sessions_in_one_directory(work: Path, tmp_path: Path) -> None:
    """P1, P7: two agents work in one directory; each change has the action that made it, what one finds of
    the other's is not called the user's, and each turn's end is the directory as it was."""
    one, other = Agent(work), Codex(work)
    one.start()
    other.start()
    one.prompt("First")
    written = one.write("one.txt", "1\n")
    begun = one.begin("Bash", {"command": "make"})
    (work / "built.txt").write_text("by make, still running\n")
    other.prompt("Second")
    patched = other.patch(
        "*** Begin Patch\n*** Add File: other.txt\n+2\n*** End Patch\n",
        lambda: (work / "other.txt").write_text("2\n"),
    )
    one.end(begun, "Bash", {"command": "make"}, {"stdout": "", "interrupted": False})
    other.stop()
    other_files, other_turn = here(work), last_turn(work)
    one.stop()

    payload = {path: (cause, source) for _, path, cause, source, _ in changes(work)}
    assert payload["one.txt"] == (action_of(written), "executor")
    assert payload["other.txt"] == (action_of(patched, "codex"), "executor")
    assert payload["built.txt"] == (action_of(begun), "executor")
    (built,) = [e for e in events(work, "file") if e["path"] == "built.txt"]
    assert (built["payload"]["certainty"], built["agent_session_id"]) == ("probable", one.session)
    assert replayed(work, other_turn, tmp_path / "other") == other_files
    assert replayed(work, last_turn(work), tmp_path / "one") == here(work)


def test_what_a_killed_agent_changed_is_found(work: Path, tmp_path: Path) -> None:
    """P1, I32: killed between a command's beginning and its end, an agent leaves a change; the next session
    finds it before its first turn, as what that command did, probably."""
    killed = Agent(work)
    killed.start()
    killed.prompt("Delete it all")
    begun = killed.begin("Bash", {"command": "rm -rf src"})
    shutil.rmtree(work / "src")
    with Store.open(work / ".locus") as store:
        assert store.tree(f"turn:{session_id_of('claude-code', killed.session)}_001").file("src/app.py")

    later = Agent(work)
    later.start()
    later.prompt("What happened?")
    later.stop()

    (change,) = changes(work)
    assert change == ("delete", "src/app.py", action_of(begun), "executor", 1)
    assert events(work, "file")[0]["payload"]["certainty"] == "probable"
    assert replayed(work, last_turn(work), tmp_path / "out") == here(work)


def test_a_turn_without_an_end_is_ended_with_its_session(work: Path, tmp_path: Path) -> None:
    """P1: after an error of the model no Stop comes; the end of the session ends the turn too, and what
    changed since the turn's last capture is named."""
    agent = Codex(work)
    agent.start()
    turn = agent.prompt("Try")
    agent.shell("echo 1 > made.txt")
    (work / "late.txt").write_text("in the background")
    agent.turn = ""
    agent.finish()

    end = last_turn(work)
    assert (end["agent_turn_id"], end["operation"], end["status"]) == (turn, "end", "interrupted")
    with Store.open(work / ".locus") as store:
        report = store.replay(f"turn:{end['session_id']}_{end['turn_id']}", to=tmp_path / "out")
    assert [path for path, _ in report.missing] == [b"late.txt"]
    assert here(tmp_path / "out") == here(work)


def test_sessions_that_are_resumed_compacted_and_forked(work: Path) -> None:
    """P3: a resumed session goes on as itself; a compaction moves no turn; a fork is a session of its own,
    and model calls that its transcript repeats count once."""
    agent = Agent(work)
    agent.start()
    agent.prompt("First")
    lines = [call_line("msg_1", 10), call_line("msg_1", 25), call_line("msg_2", 7)]
    agent.transcript.write_text("".join(lines))
    agent.stop()
    agent.finish()
    agent.turn = ""
    agent.start("resume")
    agent.prompt("Second")
    agent.say("PreCompact", trigger="auto", custom_instructions="")
    agent.start("compact")
    agent.say("PostCompact", trigger="auto", compact_summary="short")
    agent.transcript.write_text("".join([*lines, call_line("msg_3", 5), '{"half": ']))
    agent.stop()
    fork = Agent(work)
    fork.transcript.write_text("".join([*lines, call_line("msg_3", 5), call_line("msg_4", 1)]))
    fork.start("fork")
    fork.prompt("Third")
    fork.stop()

    with Store.open(work / ".locus") as store:
        calls = store.query(
            "select message_id, completion_tokens, prompt_tokens from llm_calls order by 1"
        ).rows
        sessions = store.query("select agent_session_id, turn_count, status from sessions order by 1").rows
    assert [tuple(call) for call in calls] == [
        ("msg_1", 25, 2110), ("msg_2", 7, 2110), ("msg_3", 5, 2110), ("msg_4", 1, 2110),
    ]  # fmt: skip
    assert {tuple(one) for one in sessions} == {(agent.session, 2, "closed"), (fork.session, 1, "active")}


def call_line(message_id: str, output: int) -> str:
    usage = {
        "input_tokens": 10, "cache_creation_input_tokens": 100, "cache_read_input_tokens": 2000,
        "output_tokens": output, "cache_creation": {"ephemeral_1h_input_tokens": 100},
    }  # fmt: skip
    message = {"id": message_id, "model": "model-of-claude", "usage": usage, "stop_reason": "end_turn"}
    line = {"type": "assistant", "requestId": f"req_{message_id}", "message": message}
    return json.dumps(line, separators=(",", ":")) + "\n"


def test_a_background_subagent_reports_by_itself(work: Path) -> None:
    """A prompt that a task wrote is a turn of the system; it names no session."""
    agent = Agent(work)
    agent.start()
    agent.prompt("<task-notification>\n<task-id>a1</task-id>\n</task-notification>")
    agent.stop()
    agent.prompt("A person's words")
    agent.stop()

    first, second = events(work, "intent")
    assert (first["source"], first["payload"]["origin"]) == ("system", "task_notification")
    assert (second["source"], second["payload"]["origin"]) == ("user", "user")
    (named,) = [e for e in events(work, "session") if e["operation"] == "update"]
    assert named["title"] == "A person's words"


def test_a_busy_directory_is_left_to_the_next_capture(work: Path, tmp_path: Path) -> None:
    """P4, P7, I31: while another capture holds the directory the event is recorded without its files and says
    so; the next call tells them, with the action that made them."""
    agent = Agent(work, environ={"LOCUS_HOOK_PATIENCE": "1"})
    agent.prompt("Go")
    lock = work / f".locus/locks/worktree-{short(os.fsencode(os.path.realpath(work)))}.lock"
    with open(lock, "rb") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        late = agent.write("late.txt", "1\n")
    agent.environ = None
    busy = events(work, "action")[-1]
    assert busy["payload"]["capture"] == {"state": "busy"}
    assert changes(work) == []

    agent.write("next.txt", "2\n")
    assert "LockTimeout" in notes(work)
    payload = {path: cause for _, path, cause, _, _ in changes(work)}
    assert payload["late.txt"] == action_of(late)
    agent.stop()
    assert replayed(work, last_turn(work), tmp_path / "out") == here(work)


def test_a_capture_that_is_not_finished_in_time_is_finished_by_the_next(
    work: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """P1, P4, P7: past its time a capture tells no changes and says so, a replay of its tree names it as
    incomplete, and the next one tells all that happened since."""
    agent = Agent(work)
    agent.prompt("Go")
    reported = agent.payload("PostToolUse", tool_name="Bash", tool_input={}, tool_use_id="slow_1a2b3")
    started = agent.payload("PreToolUse", tool_name="Bash", tool_input={}, tool_use_id="slow_1a2b3")

    def record(payload: dict[str, Any]) -> None:
        call = agents.interpret("claude-code", payload)
        with monkeypatch.context() as patched:
            patched.setitem(live.BUDGET_S, "tool", 0.0)
            patched.setitem(live.BUDGET_S, "turn_end", 0.0)
            live.record(REAL, str(work / ".locus"), call, {}, print, started_s=time.monotonic())

    record(started)
    (work / "made.txt").write_text("1")
    record(reported)
    record(agent.payload("Stop", last_assistant_message="Done."))
    ended = last_turn(work)

    assert changes(work) == []
    assert events(work, "action")[-1]["payload"]["capture"]["state"] == "partial"
    assert events(work, "snapshot")[-1]["success"] is False
    with Store.open(work / ".locus") as store:
        report = store.replay(f"turn:{ended['session_id']}_{ended['turn_id']}", to=tmp_path / "out")
    assert b"." in [path for path, _ in report.missing]

    agent.bash("true")
    (change,) = events(work, "file")
    assert (change["path"], change["cause"]) == ("made.txt", action_of("slow_1a2b3"))
    agent.stop()
    assert replayed(work, ended, tmp_path / "whole") == here(work)


def test_notes_between_calls_may_be_deleted(work: Path, tmp_path: Path) -> None:
    """I22, P1: without its notes a hook starts over; nothing is counted twice and the turn's end is exact."""
    agent = Agent(work)
    agent.start()
    agent.prompt("First")
    written = agent.write("a.txt", "1\n")
    shutil.rmtree(work / ".locus/live")
    shutil.rmtree(work / ".locus/snapshots/statcache")
    agent.batch((written, "Write", {}, "File created successfully"))
    agent.bash("echo 2 > b.txt")
    agent.stop()

    actions = [e for e in events(work, "action") if e["tool_use_id"] == written]
    assert [e["success"] for e in actions] == [True]
    assert replayed(work, last_turn(work), tmp_path / "out") == here(work)


def test_large_texts_and_images_are_moved_to_blobs(work: Path) -> None:
    """S1-39, P5: what is long or an image is in the blob store, and the event refers to it by hash."""
    image = os.urandom(40_000)
    long = "line of output\n" * 4_000
    agent = Agent(work)
    agent.prompt("Look")
    args = {"command": "make"}
    ran = agent.begin("Bash", args)
    agent.end(ran, "Bash", args, {"stdout": long, "stderr": "", "interrupted": False})
    looked = agent.begin("Read", {"file_path": "x.png"})
    answer = {"type": "image", "file": {"base64": base64.b64encode(image).decode(), "type": "image/png"}}
    agent.end(looked, "Read", {"file_path": "x.png"}, answer)
    spoken = "a long request " * 3_000
    agent.prompt(spoken)

    first, second = events(work, "action")
    with Store.open(work / ".locus") as store:
        assert store.blob(first["payload"]["in_blobs"]["result.stdout"]["blob"]) == long.encode()
        assert store.blob(second["payload"]["in_blobs"]["result.file.base64"]["blob"]) == image
        assert store.verify("deep") == []
    assert first["payload"]["result"]["stdout"] == long[:1000]
    assert set(first["blobs"]) == {one["blob"] for one in first["payload"]["in_blobs"].values()}
    assert events(work, "intent")[-1]["payload"]["message"] == spoken


def test_a_linked_worktree_is_captured_as_itself(work: Path, tmp_path: Path) -> None:
    """P1: an agent in a linked worktree records into the main one's store, with its own files and name."""
    linked = tmp_path / "linked"
    git(work, "worktree", "add", "-q", "-b", "side", str(linked))
    agent = Agent(linked)
    agent.prompt("In the side branch")
    agent.write("only_here.txt", "1\n")
    agent.stop()

    turn = last_turn(work)
    assert (turn["worktree"], turn["branch"]) == ("linked", "side")
    assert replayed(work, turn, tmp_path / "out") == here(linked)
    assert [change[:2] for change in changes(work)] == [("add", "only_here.txt")]


def test_a_person_uses_ignored_files_alone(work: Path) -> None:
    """P5, P1: what git ignores is not captured, whoever edits it; the call itself is recorded."""
    agent = Agent(work)
    agent.prompt("Write a log")
    agent.write("debug.log", "secret\n")
    agent.stop()

    assert changes(work) == []
    assert events(work, "action")[-1]["success"] is True


def test_settings_say_which_ignored_and_how_large_files_are_captured(work: Path) -> None:
    """P1: `[capture]` of config.toml opts ignored files in; what is over its limit is listed, not stored."""
    (work / ".locus/config.toml").write_text('[capture]\ninclude = ["*.log"]\nmax_file_bytes = 100\n')
    (work / ".gitignore").write_text("*.log\n*.tmp\n")
    (work / "kept.log").write_text("kept")
    (work / "left.tmp").write_text("left")
    (work / "large.txt").write_text("x" * 101)
    agent = Agent(work)
    agent.prompt("Look")
    agent.stop()

    with Store.open(work / ".locus") as store:
        tree = store.tree("last")
        assert tree.file("kept.log") == b"kept"
        kinds = {entry.name: entry.kind for entry in store.blobs.get_tree(tree.root)}
    assert kinds[b"large.txt"] == SKIPPED
    assert b"left.tmp" not in kinds


HOSTILE: dict[str, Any] = {
    "dots": {"file_path": "../../../../etc/passwd"},
    "nul": {"file_path": "a\0b"},
    "absolute": {"file_path": "/etc/passwd"},
    "number": {"file_path": 7},
    "nothing": None,
    "surrogate": {"file_path": "\ud800"},
    "huge name": {"file_path": "x" * 100_000},
}


@pytest.mark.parametrize("args", HOSTILE.values(), ids=HOSTILE.keys())
def test_hostile_paths_are_not_followed(args: Any, work: Path) -> None:
    """P4, P5: a path that leads out of the directory, or is none, is recorded as given and never opened."""
    agent = Agent(work)
    agent.prompt("Go")
    tool = agent.begin("Write", args)
    agent.end(
        tool, "Write", args, {"originalFile": "what stood there\n", "filePath": args, "structuredPatch": 7}
    )

    assert [e["tool_use_id"] for e in events(work, "action")] == [tool]
    assert changes(work) == []
    assert "what stood there" not in json.dumps(events(work))
    assert notes(work) == ""


def test_symlinks_out_of_the_repository_are_links(work: Path, tmp_path: Path) -> None:
    """P5: of a link to the outside its target's name is kept, never what is there."""
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "private").write_text("private content")
    (work / "way").symlink_to(outside)
    agent = Agent(work)
    agent.prompt("Go")
    agent.write("way/private", "overwritten")
    agent.stop()

    assert (outside / "private").read_text() == "overwritten"
    assert [e["path"] for e in events(work, "file")] == []
    with Store.open(work / ".locus") as store:
        tree = store.tree(f"turn:{last_turn(work)['session_id']}_001")
        assert tree.file("way") == os.fsencode(outside)


@pytest.mark.parametrize("agent", ["claude-code", "codex"])
@pytest.mark.parametrize(
    "said",
    [
        b"",
        b"{",
        b"\xff\xfe{}",
        b"[]",
        b'{"hook_event_name": "PostToolUse", "session_id": "s", "tool_name": ["x"], "tool_use_id": 5}',
        b'{"hook_event_name": "UserPromptSubmit", "session_id": "s", "prompt": {"a": 1}}',
        b'{"hook_event_name": "PostToolBatch", "session_id": "s", "tool_calls": [1, {"tool_use_id": null}]}',
        b'{"hook_event_name": "Stop", "session_id": "s", "transcript_path": "/dev/zero"}',
        b'{"hook_event_name": "SomethingNew", "session_id": "s", "prompt_id": "p"}',
        b'{"hook_event_name": "PreToolUse", "session_id": "\\ud800", "cwd": "a\\u0000b"}',
    ],
)
def test_odd_input_is_recorded_and_does_no_harm(said: bytes, agent: str, work: Path) -> None:
    """P4, S0-21: whatever comes in is kept, silently."""
    run_hook(said, agent, work)

    assert len(events(work)) >= 1
    assert "Traceback" not in notes(work)


def test_a_huge_input_still_finds_the_change(work: Path) -> None:
    """P4: of an input of 50 MB the ends are read; the event is placed and what the tool changed is
    reported."""
    agent = Agent(work)
    agent.prompt("Go")
    (work / "made.txt").write_text("1")
    fields = agent.payload("PostToolUse", tool_name="Bash", tool_input={"command": "x"})
    reported = (
        json.dumps(fields)[:-1] + ', "tool_response": "' + "y" * (50 << 20) + '", "tool_use_id": "t9a1b2c"}'
    )
    run_hook(reported.encode(), "claude-code", work)

    action = events(work, "action")[-1]
    assert (action["tool_use_id"], action["tool"], action["turn"]) == ("t9a1b2c", "Bash", 1)
    assert action["payload"]["cut"] is True
    assert [change[:3] for change in changes(work)] == [("add", "made.txt", action_of("t9a1b2c"))]


def test_a_store_of_a_newer_locus_is_left_alone(work: Path) -> None:
    """P4: a store that this version does not know is not written to; the note says so."""
    change(work / ".locus/STORE", format=9)
    agent = Agent(work)
    agent.prompt("Go")

    assert list((work / ".locus/log/journal").iterdir()) == []
    assert "Unsupported" in notes(work)


def test_a_locked_log_is_given_up_in_time(work: Path) -> None:
    """P4, I31: when the log stays locked the hook ends all the same, and notes what it could not record."""
    agent = Agent(work)
    agent.prompt("Go")
    known = len(events(work))
    with open(work / ".locus/locks/append.lock", "rb") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        agent.end("toolu_late", "Bash", {}, {})

    assert "LockTimeout" in notes(work)
    assert len(events(work)) == known
    agent.stop()
    assert last_turn(work)["operation"] == "end"


def test_a_full_disk_is_noted_and_forgotten(work: Path, tmp_path: Path) -> None:
    """P4, I35: when the disk takes no more, hooks stay silent; with room again they go on."""
    agent = Agent(work)
    agent.prompt("Go")
    (work / "made.txt").write_text("1")
    reported = json.dumps(
        agent.payload("PostToolUse", tool_name="Bash", tool_input={}, tool_use_id="full")
    ).encode()

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (0, resource.RLIM_INFINITY))

    done = subprocess.run(
        [*HOOK, "claude-code"], input=reported, cwd=work, capture_output=True, preexec_fn=limit, timeout=60
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")
    agent.stop()
    assert [change[:2] for change in changes(work)] == [("add", "made.txt")]
    assert replayed(work, last_turn(work), tmp_path / "out") == here(work)


def test_packs_that_cannot_be_written_cost_no_event(work: Path) -> None:
    """P4: when no content can be stored the event is recorded, marked, with the beginning of its texts."""
    agent = Agent(work)
    agent.prompt("Go")
    packs = work / ".locus/snapshots/packs"
    packs.rename(packs.with_name("packs.away"))
    packs.write_text("in the way")
    args = {"command": "make"}
    tool = agent.begin("Bash", args)
    (work / "made.txt").write_text("1")
    agent.end(tool, "Bash", args, {"stdout": "long " * 10_000})
    packs.unlink()
    packs.with_name("packs.away").rename(packs)

    action = events(work, "action")[-1]
    assert action["tool_use_id"] == tool
    assert action["payload"]["capture"] == {"state": "failed"}
    assert action["blobs"] in (None, [])
    assert len(action["payload"]["result"]["stdout"]) == 1000
    agent.stop()
    assert [change[:2] for change in changes(work)] == [("add", "made.txt")]
    with Store.open(work / ".locus") as store:
        assert store.verify("deep") == []


def test_a_hook_that_is_killed_leaves_a_sound_store(work: Path, tmp_path: Path) -> None:
    """I32, P1: killed at any moment, a hook has recorded its call or not; the next ones go on."""
    agent = Agent(work)
    agent.prompt("Go")
    for number in range(12):
        (work / f"f{number}.txt").write_text(str(number) * 1000)
        reported = agent.payload("PostToolUse", tool_name="Bash", tool_input={}, tool_use_id=f"k{number}")
        process = subprocess.Popen([*HOOK, "claude-code"], cwd=work, stdin=subprocess.PIPE)
        assert process.stdin is not None
        process.stdin.write(json.dumps(reported).encode())
        process.stdin.close()
        time.sleep(0.02 + number * 0.006)
        process.send_signal(signal.SIGKILL)
        process.wait()
    agent.stop()

    assert replayed(work, last_turn(work), tmp_path / "out") == here(work)
    added = Counter(path for operation, path, *_ in changes(work) if operation == "add")
    assert added == Counter(f"f{number}.txt" for number in range(12))
    with Store.open(work / ".locus") as store:
        assert store.verify("deep") == []


def test_maintenance_is_started_once_and_not_waited_for(work: Path) -> None:
    """P4, I31: the end of a turn starts a maintainer of its own, once in its interval; it has nothing of the
    agent's, and seals what is pending."""
    with Store.open(work / ".locus") as store:
        store.append([{"event_type": "note", "payload": {"text": "x" * 100_000}}] * 22)
        assert end_of_journal(store.fs, store.layout.journal(1)) > TAIL_BYTES_MAX
    agent = Agent(work, environ={"LOCUS_NO_MAINTENANCE": ""})
    agent.prompt("Go")
    agent.stop()
    agent.stop()
    segments = work / ".locus/log/segments"
    deadline = time.monotonic() + 30
    while not list(segments.iterdir()) and time.monotonic() < deadline:
        time.sleep(0.05)

    assert len(list(segments.iterdir())) == 1
    with open(work / ".locus/locks/maintainer.lock", "rb") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # it has ended
    stamp = (work / ".locus/live/maintained").stat().st_mtime_ns
    agent.stop()
    assert (work / ".locus/live/maintained").stat().st_mtime_ns == stamp
