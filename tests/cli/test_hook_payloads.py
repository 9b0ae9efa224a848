"""What the events of a hook say, field by field: the real hook program beside a real repository."""

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from eventlog.base.names import session_id_of
from eventlog.blobs.ids import blob_id, to_text
from eventlog.exports.locusgraph import locusgraph
from eventlog.store import Store
from tests.cli.hook_support import Agent, events, project
from tests.worktree.support import git


def only(recorded: list[dict[str, Any]], event_type: str, **columns: object) -> dict[str, Any]:
    """The one event of a type with these columns."""
    [event] = [
        event
        for event in recorded
        if event["event_type"] == event_type and all(event[name] == columns[name] for name in columns)
    ]
    return event


def test_what_a_hook_records_is_in_the_log(tmp_path: Path) -> None:
    """S1-23, S1-24, S1-29…S1-31, S1-33, S1-34, S1-36, S1-37, S1-39, S1-52, S1-57, S3-4, S3-22: of a real turn
    the message, the tool with its arguments and result, the file with its contents, the failure, the model
    call, and the state before and after it, all in the session of the agent."""
    work = project(tmp_path)
    head = git(work, "rev-parse", "HEAD").strip()
    (work / "readme.md").write_text("# Staged\n")
    git(work, "add", "readme.md")
    (work / ".gitignore").write_text("*.tmp\n")
    agent = Agent(work)
    agent.prompt("Fix the parser")
    edited = agent.edit("src/app.py", "one", "two")
    agent.write("src/new.py", "")
    failed = agent.bash("echo no >&2; exit 3")
    usage = {"input_tokens": 7, "cache_read_input_tokens": 3, "output_tokens": 5}
    message = {"id": "msg_1", "model": "model-1", "usage": usage, "stop_reason": "end_turn"}
    line = {"type": "assistant", "promptId": agent.turn, "requestId": "req_1", "message": message}
    agent.transcript.write_text(json.dumps(line) + "\n")
    agent.stop("I fixed it.")
    recorded = events(work)
    first, last = (only(recorded, "snapshot", operation=moment) for moment in ("turn_start", "turn_end"))
    action, error = only(recorded, "action", tool_use_id=edited), only(recorded, "error")
    changed = only(recorded, "file", path="src/app.py")
    old, new = b"print('one')\n", b"print('two')\n"

    assert only(recorded, "turn", operation="start")["payload"]["user_message"] == "Fix the parser"
    assert only(recorded, "intent")["payload"]["message"] == "Fix the parser"
    of_git = {"git_head": head, "git_branch": "main", "git_staged": ["readme.md"]}
    begun = {"snapshot_type": "turn_start", "tracked_files": 3, "git_dirty": [".gitignore"], **of_git}
    ended = {"snapshot_type": "turn_end", "tracked_files": 4, "files_changed": 2, **of_git}
    ended["git_dirty"] = [".gitignore", "src/app.py"]
    for looked, facts in ((first, begun), (last, ended)):
        assert {name: looked["payload"].get(name) for name in ("files_changed", *facts)} == {
            "files_changed": None,
            **facts,
        }
    assert first["tree_hash"] != last["tree_hash"]
    assert (action["tool"], action["success"], action["duration_ms"]) == ("Edit", True, 9)
    assert action["payload"]["args"]["new_string"] == "two"
    assert action["payload"]["result"]["newString"] == "two"
    assert action["payload"]["result"]["originalFile"] == {"size": len(old)}
    assert (changed["path"], changed["operation"]) == ("src/app.py", "edit")
    assert (changed["before_hash"], changed["after_hash"]) == (to_text(blob_id(old)), to_text(blob_id(new)))
    assert (changed["lines_added"], changed["lines_removed"]) == (1, 1)
    assert changed["payload"]["after_size"] == len(new)
    assert (error["tool_use_id"], error["error_type"], error["resolved"]) == (failed, "tool_failure", False)
    assert error["payload"]["message"] == "Exit code 3\nno\n" and error["related_to"] == ["errors"]
    assert {e["session_id"] for e in recorded} == {session_id_of("claude-code", agent.session)}
    call = only(recorded, "llm")
    assert (call["model"], call["turn"]) == ("model-1", 1)
    assert (call["prompt_tokens"], call["completion_tokens"]) == (10, 5)
    with Store.open(work / ".locus") as store:
        [row] = store.query("select outcome, status, completed_at is not null from turns").rows
    assert row == ("I fixed it.", "completed", True)


def test_a_turn_ends_with_its_snapshot_and_is_listed_by_time(tmp_path: Path) -> None:
    """S0-18, S1-12, S1-37: the snapshot of its end is the last that a failed turn makes itself, a model
    call that is reported later changes no number, what is listed is in order of time, and on the wire
    are the snapshots of its start and end alone."""
    work = project(tmp_path)
    agent = Agent(work)

    def answered(number: int) -> None:
        message = {"id": f"msg_{number}", "model": "model-1", "usage": {"output_tokens": 5}}
        at = f"{datetime.now(UTC):%FT%T.%fZ}"
        line = {"type": "assistant", "promptId": agent.turn, "timestamp": at, "message": message}
        with agent.transcript.open("a") as file:
            file.write(json.dumps({**line, "requestId": f"req_{number}"}) + "\n")

    agent.prompt("Fix the parser")
    answered(1)
    agent.edit("src/app.py", "one", "two")
    agent.say("StopFailure", error="rate_limit")
    before = {e["event_id"]: e["seq"] for e in events(work)}
    answered(2)
    agent.finish()
    recorded = events(work)
    numbered = sorted((e for e in recorded if e["turn"] == 1 and e["seq"]), key=lambda e: e["seq"])
    with Store.open(work / ".locus") as store:
        listed = [e["event_id"] for e in store.timeline("last")]
        asked = [id for (id,) in store.query("select event_id from timeline('last')").rows]
        locusgraph.export(store, str(tmp_path / "wire"))
    shown = [e["event_type"] for e in sorted(numbered, key=lambda e: listed.index(e["event_id"]))]
    wire = [json.loads(line) for line in (tmp_path / "wire").read_bytes().splitlines()]
    sent = [json.loads(r["payload_json"])["data"] for r in wire if r["context_id"].startswith("snapshot:")]

    begun, edited = ["snapshot", "intent"], ["tool_start", "action", "file", "snapshot"]
    types = [e["event_type"] for e in numbered]
    assert types == [*begun, *edited, "error", "llm", "snapshot", "llm"]
    assert shown == [*begun, "llm", *edited, "error", "snapshot", "llm"]
    assert (numbered[8]["operation"], listed) == ("turn_end", asked)
    assert before.items() <= {e["event_id"]: e["seq"] for e in recorded}.items()
    assert [item["snapshot_type"] for item in sent] == ["turn_start", "turn_end"]


def test_a_tool_that_names_a_file_elsewhere_says_nothing_of_ours(tmp_path: Path) -> None:
    """P5, P7: an edit of a file outside of the directory lends a file inside neither its text nor its counts,
    even where their paths are equally long."""
    work = project(tmp_path)
    args = {"file_path": str(tmp_path / "krow/src/app.py"), "old_string": "a", "new_string": "b"}
    agent = Agent(work)
    agent.prompt("Go")
    tool = agent.begin("Edit", args)
    (work / "src/app.py").write_text("print('by hand')\n")
    result = {"originalFile": "of elsewhere\n", "structuredPatch": [{"lines": ["-a", "+b", "+c"]}]}
    agent.end(tool, "Edit", args, result)
    changed = only(events(work), "file")

    assert (changed["path"], changed["operation"], changed["lines_added"]) == ("src/app.py", "edit", None)
    assert "of elsewhere" not in str(events(work))


def test_what_a_person_decides_through_hooks_is_in_the_anchor(tmp_path: Path) -> None:
    """S1-33, S1-35, S1-47, S1-48, S1-49: an answered question, a refused call and a failure that was mended
    become decisions, feedback and a resolved error; a shell's read counts, and a session ends with its last
    outcome."""
    work = project(tmp_path)
    agent = Agent(work)
    agent.prompt("Cache the parser")
    question = {"questions": [{"question": "Cache it?", "options": [{"label": "yes"}, {"label": "no"}]}]}
    asked = agent.begin("AskUserQuestion", question)
    agent.end(asked, "AskUserQuestion", question, {**question, "answers": {"Cache it?": "yes"}})
    agent.bash("test -e made")
    (work / "made").touch()
    agent.bash("test -e made")
    agent.bash("cat src/app.py")
    refused = agent.begin("Bash", {"command": "rm made"})
    words = "The user doesn't want to proceed with this tool use."
    agent.batch((refused, "Bash", {"command": "rm made"}, words))
    agent.stop("It is cached.")

    with Store.open(work / ".locus") as store:
        anchor = store.query(
            "select actions_taken, files_read, decisions, errors, errors_resolved from turns"
        ).rows
        sessions = store.query("select summary, errors, errors_resolved from sessions").rows
        feedback = store.query("select type, message from feedback").rows
        errors = store.query("select resolved, resolved_how from errors").rows
    acts = ["ask", "run test -e made", "run cat src/app.py"]
    assert anchor == [(acts, ["src/app.py"], ["Cache it? yes"], 1, 1)]
    assert (sessions, feedback) == ([("It is cached.", 1, 1)], [("rejection", words)])
    assert errors == [(True, "seen")]


def test_a_folder_of_a_repository_names_its_own_files(tmp_path: Path) -> None:
    """S1-36, P4, P7: a store in a folder of a repository lists what differs below it, by paths in the folder,
    fifty at most and how many there are; where git cannot be asked, the lists are unknown."""
    work = project(tmp_path)
    inner = work / "src"
    Store.init(inner / ".locus").close()
    names = sorted(f"{number}.py" for number in range(60))
    for name in names:
        (inner / name).touch()
    git(work, "add", "-A")
    (work / "readme.md").write_text("# Changed\n")
    (inner / "app.py").unlink()
    Agent(inner).prompt("Go")
    Agent(inner, environ={"PATH": "/nowhere"}).prompt("Go on")
    recorded, unknown = (e["payload"] for e in events(inner, "snapshot"))

    assert recorded["git_dirty"] == ["app.py"]
    assert (recorded["git_staged"], recorded["git_staged_count"]) == (names[:50], 60)
    assert not {"git_dirty", "git_staged", "git_staged_count"} & unknown.keys()
