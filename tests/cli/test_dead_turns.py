"""Turns whose agent was killed, or went on without telling their end: closed by whoever comes next, once."""

import json
import os
import shutil
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from eventlog import agents
from eventlog.base import activity
from eventlog.base.fs import REAL
from eventlog.base.layout import Layout
from eventlog.base.names import short
from eventlog.hooks import captured, dead_turns, state
from eventlog.hooks import record as live
from eventlog.store import Store
from tests import kills
from tests.cli.dead_support import AGENTS, Client, killed_in_a_command
from tests.cli.hook_support import events, notes
from tests.cli.support import Locus
from tests.worktree.support import git

CLOSED = {"action": 1, "file": 1, "snapshot": 1, "turn": 1, "session": 1}


def closing_events(work: Path, client: Client) -> list[dict[str, Any]]:
    """What was written of the client's session after its last tool's beginning."""
    mine = [e for e in events(work) if e["agent_session_id"] == client.session]
    (last,) = [n for n, e in enumerate(mine) if e["event_type"] == "tool_start"][-1:]
    return mine[last + 1 :]


def kinds(found: list[dict[str, Any]]) -> dict[str, int]:
    return {kind: [e["event_type"] for e in found].count(kind) for kind in {e["event_type"] for e in found}}


def check_closed(work: Path, client: Client, by: str, *, at: str = "half.txt") -> None:
    found = closing_events(work, client)
    assert [e["event_type"] for e in found] == ["action", "file", "snapshot", "turn", "session"]
    action, file, snapshot, turn, session = found
    assert (action["success"], action["payload"]["ended_by"], action["turn"]) == (None, "process gone", 1)
    assert (file["path"], file["cause"], file["turn"]) == (at, action["event_id"], 1)
    assert file["payload"]["certainty"] == "probable"
    late = snapshot["payload"]["capture"]
    assert (snapshot["operation"], snapshot["success"], late["state"], late["count"]) == (
        "turn_end",
        True,
        "late",
        1,
    )
    assert [path for path, _ in late["paths"]] == [at]
    assert (turn["operation"], turn["status"], turn["turn"]) == ("end", "interrupted", 1)
    assert {"reason": "process gone", "closed_by": by}.items() <= turn["payload"].items()
    assert (session["status"], session["payload"]["end_reason"]) == ("interrupted", "process gone")
    assert action["occurred_at"] == turn["occurred_at"] < snapshot["occurred_at"]  # when it was last heard of
    with Store.open(work / ".locus") as store:
        whole = store.tree(f"turn:{turn['session_id']}_001")
        assert whole.file(at) == b"half"


@pytest.mark.parametrize("name", AGENTS)
def test_the_next_session_closes_the_turn_of_a_killed_agent(name: str, work: Path, locus: Locus) -> None:
    """P1, P7: killed within a command, an agent's turn gets its end from the next session's start: the call,
    what it left, the tree, the paths that are not certain; and the call has no say in what comes after."""
    killed = killed_in_a_command(name, work)
    later = Client(name, work)
    later.start()
    check_closed(work, killed, "hook")

    ids = []
    for number in range(3):
        later.prompt(f"Part {number}")
        later.shell(f"after{number}.txt")
        ids.append(events(work, "action")[-1]["event_id"])
        later.stop()
    payload = {e["path"]: e for e in events(work, "file")}
    for number, id in enumerate(ids):
        event = payload[f"after{number}.txt"]
        assert (event["cause"], event["agent_session_id"]) == (id, later.session)
        assert not {"causes", "certainty"} & event["payload"].keys()
    assert kinds(closing_events(work, killed)) == CLOSED
    assert notes(work) == ""
    if name == "codex":
        check_agreement(work, locus, active=later, ended=killed)
        check_export(work, locus)
    later.kill()


def check_export(work: Path, locus: Locus) -> None:
    """The turn that died leaves with how well its files are known; the others leave without a word."""
    assert locus("--store", work / ".locus", "export", "locusgraph", "--to", work / "batch").code == 0
    records = [json.loads(line) for line in (work / "batch").read_text().splitlines()]
    payloads = [json.loads(record["payload_json"]) for record in records]
    ended = [payload["data"] for payload in payloads if payload.get("kind") == "turn_end"]
    assert [turn.get("files_certainty") for turn in ended] == ["unfinished", None, None, None]


def check_agreement(work: Path, locus: Locus, *, active: Client, ended: Client) -> None:
    """`session ls`, `status`, `who`, SQL and the master name the same sessions active."""
    store = "--store", work / ".locus"

    def lines(*arguments: str) -> list[dict[str, Any]]:
        return [json.loads(line) for line in locus(*store, *arguments).out.splitlines()]

    listed = {one["agent_session_id"]: one["status"] for one in lines("session", "ls", "--all", "--json")}
    assert listed == {active.session: "active", ended.session: "interrupted"}
    assert json.loads(locus(*store, "status", "--json").out)["status"]["active_sessions"] == 1
    at_work = json.loads(locus(*store, "who", "--json").out)
    assert [one["agent_session_id"] for one in at_work["sessions"]] == [active.session]
    sql = "select agent_session_id, status from sessions"
    assert {
        one["agent_session_id"]: one["status"] for one in lines("sql", "--format", "jsonl", sql)
    } == listed
    (master,) = lines(
        "sql", "--format", "jsonl", "select active_session, active_sessions from sessions_master"
    )
    assert master["active_sessions"] == 1
    (context,) = lines(
        "sql", "--format", "jsonl",
        f"select context_id from sessions where agent_session_id = '{active.session}'",
    )  # fmt: skip
    assert master["active_session"] == context["context_id"]
    (turn,) = lines(
        "sql", "--format", "jsonl",
        "select t.status, t.context_id from turns t join sessions s using (session_id) "
        f"where s.agent_session_id = '{ended.session}'",
    )  # fmt: skip
    assert turn["status"] == "interrupted"
    assert "half.txt" in locus(*store, "timeline", turn["context_id"]).out.decode()


@pytest.mark.parametrize("name", AGENTS)
def test_the_same_session_goes_on_in_another_process(name: str, work: Path) -> None:
    """P1: resumed after a kill, a session has its first turn interrupted and is active."""
    killed = killed_in_a_command(name, work)
    again = Client(name, work, killed.session)
    again._seconds = 100
    again.start("resume")
    again.prompt("And now?")
    again.stop()

    ends = [e for e in events(work, "turn") if e["operation"] == "end"]
    assert [(e["turn"], e["status"]) for e in ends] == [(1, "interrupted"), (2, "completed")]
    (file,) = events(work, "file")
    assert (file["turn"], file["payload"]["certainty"]) == (1, "probable")
    with Store.open(work / ".locus") as store:
        assert store.query("select status from sessions").rows == [("active",)]
    again.kill()


def test_a_prompt_closes_the_turn_that_its_session_left(work: Path) -> None:
    """P7: after an interruption that no hook reported, the next prompt ends the turn; its process lives, so
    what its calls have to say is still heard."""
    client = Client("claude-code", work)
    client.start()
    client.prompt("First")
    call = client.begin("make half.txt")
    (work / "half.txt").write_text("half")
    client.prompt("No, second")
    client.end(call)
    client.stop()

    turns = [(e["turn"], e["operation"], e["status"]) for e in events(work, "turn")]
    assert turns == [
        (1, "start", "active"), (1, "end", "interrupted"), (2, "start", "active"), (2, "end", "completed"),
    ]  # fmt: skip
    (end,) = [e for e in events(work, "turn") if e["status"] == "interrupted"]
    assert end["payload"]["reason"] == "superseded by a later prompt"
    (action,) = events(work, "action")
    (file,) = events(work, "file")
    assert (action["success"], file["cause"]) == (True, action["event_id"])
    assert (file["turn"], file["payload"]["certainty"]) == (1, "probable")
    assert {e["operation"] for e in events(work, "session")} == {"start", "update"}
    client.kill()


def test_reading_says_it_and_doctor_closes_it(work: Path, locus: Locus) -> None:
    """P7: before anybody closes the turn, lists call its session interrupted and write nothing; doctor
    closes it."""
    killed = killed_in_a_command("codex", work)
    known = len(events(work))
    store = "--store", work / ".locus"
    (listed,) = [
        json.loads(line) for line in locus(*store, "session", "ls", "--all", "--json").out.splitlines()
    ]
    assert (listed["status"], listed["end_reason"]) == ("interrupted", "process gone")
    assert json.loads(locus(*store, "status", "--json").out)["status"]["active_sessions"] == 0
    assert json.loads(locus(*store, "who", "--json").out)["sessions"] == []
    turn = f"turn:{events(work, 'turn')[0]['session_id']}_001"
    assert "interrupted, not closed yet" in locus(*store, "timeline", turn).out.decode()
    assert json.loads(locus(*store, "timeline", turn, "--json").out)["turn"]["status"] == "interrupted"
    assert len(events(work)) == known

    output = locus(*store, "doctor").out.decode()
    assert "1 turn without an end, whose agent was killed, closed now as interrupted" in output
    check_closed(work, killed, "doctor")
    assert "closed now" not in locus(*store, "doctor").out.decode()
    assert kinds(closing_events(work, killed)) == CLOSED


def test_maintenance_closes_turns_in_linked_worktrees(work: Path, tmp_path: Path) -> None:
    """P1: a turn is closed with a capture of the directory that it was captured in."""
    linked = tmp_path / "linked"
    git(work, "worktree", "add", "-q", "-b", "side", str(linked))
    killed = killed_in_a_command("gemini-cli", linked)
    with Store.open(work / ".locus") as store:
        problems: list[BaseException] = []
        args = store.fs, store.layout, dead_turns.MAINTENANCE, problems.append
        assert dead_turns.close_dead_turns(*args) == 1
        assert (dead_turns.close_dead_turns(*args), problems) == (0, [])
    check_closed(work, killed, "maintenance")
    assert {e["worktree"] for e in closing_events(work, killed)} == {"linked"}


def test_hooks_that_come_at_once_close_it_once(work: Path) -> None:
    """I8, I31: of six sessions that start together one closes the dead turn."""
    killed = killed_in_a_command("claude-code", work)
    with ThreadPoolExecutor(6) as pool:
        for one in [pool.submit(Client("codex", work).say, "start", source="startup") for _ in range(6)]:
            one.result()

    check_closed(work, killed, "hook")


def test_a_closer_killed_at_any_point_closes_it_once(work: Path, tmp_path: Path, hunt_minutes: float) -> None:
    """I8, I32, P1: killed before any of its effects on the disk, the hook that closes a turn has closed it or
    not; the next one closes it, and the log has its end once."""
    killed = killed_in_a_command("claude-code", work)
    aside = tmp_path / "aside"
    shutil.copytree(work / ".locus", aside)
    reported = Client("codex", work, "later").payload("start", source="startup")

    def close() -> None:
        call = agents.interpret("codex", reported)
        live.record(REAL, str(work / ".locus"), call, {}, print, started_s=time.monotonic())

    count = kills.effects_of(close)
    assert count > 8
    for kill_at in range(0, count, 1 if hunt_minutes else 3):
        shutil.rmtree(work / ".locus")
        shutil.copytree(aside, work / ".locus")
        assert kills.in_child(close, kill_at, torn=kill_at % 2 == 0)
        close()
        check_closed(work, killed, "hook")


def test_a_turn_that_goes_on_after_all_has_its_own_end(work: Path) -> None:
    """P7: what was taken for the agent's process is gone, but its hooks are heard of: the turn is under way
    again, and its own end counts."""
    client = Client("claude-code", work)
    client.start()
    client.prompt("Go")
    client.kill()
    other = Client("codex", work)
    other.start()
    client.process = None
    client.shell("more.txt")
    (turn,) = [
        one for one in activity.open_turns(Layout(str(work / ".locus"))) if one.session == client.session
    ]
    assert turn.state(time.time()) != activity.DEAD
    client.stop()

    ends = [e["status"] for e in events(work, "turn") if e["operation"] == "end"]
    assert ends == ["interrupted", "completed"]
    (file,) = events(work, "file")
    assert (file["agent_session_id"], "certainty" in file["payload"]) == (client.session, False)
    other.kill()


def test_a_turn_whose_end_was_reported_is_not_closed_again(work: Path) -> None:
    """P3: where the capture of a turn's end failed, the turn stays among those under way; it has one end."""
    client = Client("codex", work)
    client.start()
    client.prompt("Go")
    packs = work / ".locus/snapshots/packs"
    packs.rename(packs.with_name("away"))
    packs.write_text("in the way")
    (work / "late.txt").write_text("late")
    client.stop()
    packs.unlink()
    packs.with_name("away").rename(packs)
    client.kill()
    Client("gemini-cli", work).say("start", source="startup")

    ends = [e["status"] for e in events(work, "turn") if e["operation"] == "end"]
    assert ends == ["completed"]
    assert activity.open_turns(Layout(str(work / ".locus"))) == []


def test_another_process_with_the_number_is_not_the_agent(work: Path) -> None:
    """P7: the number of a dead agent, given to another process, does not keep its turn under way."""
    killed = killed_in_a_command("codex", work)
    layout = Layout(str(work / ".locus"))
    key = short(os.fsencode(os.path.realpath(work)))
    reported = state.read_checkpoint(layout, key)
    mine = activity.process_of(os.getpid())
    assert mine.started is not None
    process = activity.Process(mine.number, mine.started - 1, mine.namespace)
    reported.open[killed.session][2] = process.text()
    state.write_checkpoint(layout, key, reported)
    (turn,) = activity.open_turns(layout)
    assert turn.state(time.time()) == activity.DEAD

    Client("codex", work).say("start", source="startup")
    check_closed(work, killed, "hook")


def test_of_two_dead_agents_each_turn_is_closed(work: Path) -> None:
    """P7: an agent that is killed after another's turn was closed is closed by itself, with what it left."""
    first = killed_in_a_command("codex", work, "one.txt")
    second = Client("claude-code", work)
    second.start()
    second.prompt("Two")
    second.begin("make two.txt")
    (work / "two.txt").write_text("two")
    second.kill()
    Client("gemini-cli", work).say("start", source="startup")

    ends = {e["agent_session_id"]: e["status"] for e in events(work, "turn") if e["operation"] == "end"}
    assert ends == {first.session: "interrupted", second.session: "interrupted"}
    payload = {e["path"]: e for e in events(work, "file")}
    assert (payload["one.txt"]["agent_session_id"], payload["two.txt"]["agent_session_id"]) == (
        first.session, second.session,
    )  # fmt: skip


def test_a_person_at_work_after_the_kill_is_not_the_agent(work: Path) -> None:
    """P7: without a call under way nobody says who made a change after the kill."""
    killed = Client("claude-code", work)
    killed.start()
    killed.prompt("Go")
    killed.shell("made.txt")
    killed.kill()
    (work / "by_hand.txt").write_text("by hand")
    Client("codex", work).say("start", source="startup")

    payload = {
        e["path"]: (e["agent_session_id"], e["turn"], e["cause"], e["source"]) for e in events(work, "file")
    }
    assert payload["by_hand.txt"] == (None, None, None, "system")
    (end,) = [e for e in events(work, "snapshot") if e["operation"] == "turn_end"]
    assert [path for path, _ in end["payload"]["capture"]["paths"]] == ["by_hand.txt"]


def test_what_others_did_since_is_not_taken_for_the_dead_turn(work: Path, locus: Locus) -> None:
    """P1: where others changed files after the dead turn's last capture, no path of its end is exact."""
    killed = Client("claude-code", work)
    killed.start()
    killed.prompt("Go")
    killed.shell("a.txt")
    other = Client("codex", work)
    other.start()
    other.prompt("Go")
    other.shell("b.txt")
    other.stop()
    killed.kill()
    other.prompt("Again")

    (turn,) = [e for e in events(work, "turn") if (e["operation"], e["status"]) == ("end", "interrupted")]
    other.kill()
    name, target = f"{turn['session_id']}_001", work / "x"
    done = locus("--store", work / ".locus", "replay", name, "--to", target, "--json")
    answer = json.loads(done.out)["certainty"]
    assert (done.code, answer["state"], [one["path"] for one in answer["paths"]]) == (4, "unfinished", ["."])


def test_a_later_turn_of_its_own_session_is_another_turn_too(work: Path, locus: Locus) -> None:
    """P1: where the next turn's prompt was not heard, what its tools changed is not the turn's before it."""
    client = Client("claude-code", work)
    client.start()
    client.prompt("Go")
    client.shell("a.txt")
    client.turn = "not-heard"
    client.shell("b.txt")
    client.prompt("Again")
    client.kill()

    name, target = events(work, "turn")[0], work / "x"
    done = locus("--store", work / ".locus", "replay", f"{name['session_id']}_001", "--to", target, "--json")
    answer = json.loads(done.out)["certainty"]
    assert (done.code, answer["state"], [one["path"] for one in answer["paths"]]) == (4, "unfinished", ["."])


def test_a_turn_whose_prompt_was_not_heard_is_closed_too(work: Path, locus: Locus) -> None:
    """P1, P7: where the hook of the prompt was killed, the turn is known from its first tool call on, and its
    death is reported like any other's."""
    killed = Client("claude-code", work)
    killed.start()
    killed.turn = "a-turn"
    killed.begin("make half.txt")
    (work / "half.txt").write_text("half")
    killed.kill()
    later = Client("codex", work)
    later.start()
    later.kill()

    (turn,) = [e for e in events(work, "turn") if (e["operation"], e["status"]) == ("end", "interrupted")]
    name, target = f"{turn['session_id']}_001", work / "x"
    done = locus("--store", work / ".locus", "replay", name, "--to", target, "--json")
    answer = json.loads(done.out)["certainty"]
    assert (done.code, answer["state"], [one["path"] for one in answer["paths"]]) == (
        4,
        "unfinished",
        ["half.txt"],
    )


def test_what_dies_during_a_capture_is_closed_by_the_next(
    work: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """P1: an agent that is killed while another's capture is under way may have changed something after
    it; the next capture finds that, and names it."""
    client = Client("codex", work)
    client.start()
    client.prompt("Go")
    client.begin("make half.txt")
    real = captured.DirectoryCapture._capture

    def capture(self: captured.DirectoryCapture, *args: Any) -> Any:
        done = real(self, *args)
        if client.process is not None and client.process.poll() is None:
            (work / "half.txt").write_text("half")
            client.kill()
        return done

    def record(payload: dict[str, Any]) -> None:
        call = agents.interpret("claude-code", payload)
        live.record(REAL, str(work / ".locus"), call, {}, print, started_s=time.monotonic())

    other = Client("claude-code", work)
    other.turn = "turn of the other"
    with monkeypatch.context() as patched:
        patched.setattr(captured.DirectoryCapture, "_capture", capture)
        record(other.payload("prompt", prompt="Go"))
    assert [e["status"] for e in events(work, "turn")] == ["active", "active"]
    record(other.payload("stop"))
    check_closed(work, client, "hook")


def test_an_agent_that_reports_is_not_dead(work: Path) -> None:
    """P7: the end of a tool is a sign of life of its turn, whatever process was noted for it."""
    client = Client("codex", work)
    client.start()
    client.prompt("Go")
    client.kill()
    client.shell("made.txt")
    client.stop()

    assert [e["status"] for e in events(work, "turn")] == ["active", "completed"]
    assert {e["operation"] for e in events(work, "session")} == {"start", "update"}


def test_a_session_that_ended_is_not_interrupted(work: Path) -> None:
    """P3: where the capture of a session's end failed, its turn is closed later, and it keeps its own end."""
    client = Client("codex", work)
    client.start()
    client.prompt("Go")
    packs = work / ".locus/snapshots/packs"
    packs.rename(packs.with_name("away"))
    packs.write_text("in the way")
    (work / "late.txt").write_text("late")
    client.say("finish", reason="exit")
    packs.unlink()
    packs.with_name("away").rename(packs)
    client.kill()
    Client("gemini-cli", work).say("start", source="startup")

    mine = [e for e in events(work) if e["agent_session_id"] == client.session]
    assert [e["status"] for e in mine if e["event_type"] == "turn"] == ["active", "interrupted"]
    assert [e["status"] for e in mine if e["event_type"] == "session"][-1] == "closed"


def test_a_prompt_without_a_start_keeps_its_session_active(work: Path) -> None:
    """P7: a killed session that goes on with a prompt, its start unheard, is not ended by that."""
    killed = killed_in_a_command("codex", work)
    again = Client("codex", work, killed.session)
    again.say("prompt", prompt="Go on")

    assert [e["status"] for e in events(work, "turn")] == ["active", "interrupted", "active"]
    with Store.open(work / ".locus") as store:
        assert store.query("select status from sessions").rows == [("active",)]


def test_a_turn_whose_last_tree_is_lost_is_not_called_exact(work: Path) -> None:
    """P1: where the tree recorded last cannot be read nobody knows what changed since, so no path is
    certain."""
    killed = killed_in_a_command("codex", work)
    layout = Layout(str(work / ".locus"))
    key = short(os.fsencode(os.path.realpath(work)))
    reported = state.read_checkpoint(layout, key)
    reported.tree = bytes(32)
    state.write_checkpoint(layout, key, reported)
    Client("codex", work).say("start", source="startup")

    (end,) = [e for e in events(work, "snapshot") if e["operation"] == "turn_end"]
    assert [path for path, _ in end["payload"]["capture"]["paths"]] == ["."]
    assert end["agent_session_id"] == killed.session


def test_a_prompt_without_time_to_capture_closes_the_turn_before_it(
    work: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """P1: where the capture of a prompt is not finished in time, the turn that its session left has its end
    all the same, and says that no path of it is certain; the change is reported by the next capture."""
    client = Client("claude-code", work)
    client.turn = "first"
    client.say("prompt", prompt="Go")
    (work / "half.txt").write_text("half")
    client.turn = "second"
    with monkeypatch.context() as patched:
        patched.setitem(live.BUDGET_S, "turn_start", 0.0)
        call = agents.interpret("claude-code", client.payload("prompt", prompt="No, so"))
        live.record(REAL, str(work / ".locus"), call, {}, print, started_s=time.monotonic())
    assert [e["status"] for e in events(work, "turn")] == ["active", "interrupted", "active"]
    (end,) = [e for e in events(work, "snapshot") if e["operation"] == "turn_end"]
    assert (end["turn"], end["success"]) == (1, False)
    assert [path for path, _ in end["payload"]["capture"]["paths"]] == ["."]
    client.stop()
    assert [(e["path"], e["turn"]) for e in events(work, "file")] == [("half.txt", 2)]
