"""Sessions: resumed, forked, side by side, with a person's hand between turns, stopped and killed."""

import json
import re
import shutil
import signal
import time
from pathlib import Path

import pytest

from .clients import ended, wait_for
from .desk import Desk, end_command, prompt_of
from .scenarios import SCENARIOS
from .test_install import trust
from .test_turns import actions, agree, calls_of


def test_every_turn_of_a_session_replays(desk: Desk) -> None:
    """P1: of a session that is resumed again and again, with a person's edits between the turns, each turn
    replays the files that were there at its end."""
    seen = []
    session = None
    for scenario in ("edit", "shell", "failing", "idle", "more"):
        done = desk.run(scenario, resume=session)
        assert done.code == 0, done.err
        session = desk.session()
        seen.append(desk.on_disk())
        agree(desk)
        (desk.project / f"by-hand-{scenario}.txt").write_text(scenario)
        (desk.project / "kiosk.py").write_text(f"print('{scenario}')\n")

    turns = desk.turns()
    assert [desk.replayed(turn) for turn in turns] == seen
    assert len({turn.session_id for turn in turns}) == 1
    by_person = [event for event in desk.events("file") if event["source"] == "user"]
    assert {str(event["path"]) for event in by_person} >= {"by-hand-edit.txt", "kiosk.py"}
    assert {event.get("cause") for event in by_person} == {None}


def test_compaction_begins_no_turn(desk: Desk) -> None:
    """P3: a session whose conversation is summed up is still one session, and goes on with its next turn."""
    if desk.client.agent != "claude-code":
        pytest.skip("only Claude Code takes the command without a terminal")
    desk.run("edit")
    session = desk.session()
    desk.client.run(desk.home, desk.project, "/compact", resume=session)
    desk.run("more", resume=session)

    assert desk.events("hook")
    assert desk.rows("select count(*) from turns") == [(2,)]
    assert {event["session_id"] for event in desk.events()} - {None} == {desk.turns()[0].session_id}
    assert desk.prompts("user") == [prompt_of("edit"), prompt_of("more")]
    assert desk.replayed(desk.turns()[-1]) == desk.on_disk()


def test_hooks_installed_twice_record_once(bare: Desk) -> None:
    """P3: hooks of the user and of the project both run, and what they tell is in the log once."""
    trust(bare)
    for level in ("--user", "--project"):
        bare.locus("hooks", "install", level, "--agent", bare.client.agent)
    done = bare.run("create")
    assert done.code == 0, done.err

    assert len(bare.turns()) == 1
    # Codex gives a model call no id, so nobody can tell one that is reported twice.
    agree(bare, tokens=bare.client.agent != "codex")
    assert len(bare.events("tool_start")) == len(bare.events("action")) == 2
    assert [event.get("operation") for event in bare.events("session")].count("start") == 1


def test_a_fork_is_a_session_of_its_own(desk: Desk) -> None:
    """P3: a forked session has its own id, and what it copies from its parent counts once."""
    desk.run("edit")
    parent = desk.session()
    done = desk.run("more", resume=parent, fork=True)

    assert done.code == 0, done.err
    assert desk.session() != parent
    assert len({turn.session_id for turn in desk.turns()}) == 2
    agree(desk)


def test_two_sessions_in_one_tree(desk: Desk) -> None:
    """P1, P4: two sessions that work in one directory at once are both recorded whole, and the last turn to
    end replays the directory."""
    with (
        desk.client.started(desk.home, desk.project, prompt_of("slow")) as one,
        desk.client.started(desk.home, desk.project, prompt_of("quick")) as other,
    ):
        assert [ended(process).code for process in (one, other)] == [0, 0]

    assert len({turn.session_id for turn in desk.turns()}) == 2
    assert set(actions(desk)) == calls_of(desk)
    last = [event for event in desk.events("turn") if event.get("operation") == "end"][-1]
    turn = next(t for t in desk.turns() if t.session_id == last["session_id"])
    assert desk.replayed(turn) == desk.on_disk()
    changed = {str(event["path"]) for event in desk.events("file")}
    assert changed == {"slow.txt", "quick.txt"}


def test_subagents_at_once(desk: Desk) -> None:
    """P1, P3: what two subagents do belongs to the turn that started them, and is told apart by their ids."""
    done = desk.run("agents")
    assert done.code == 0, done.err

    agree(desk)
    assert set(actions(desk)) == calls_of(desk)
    assert desk.prompts("user") == [prompt_of("agents")]
    commands = [event for event in desk.events("action") if event.get("tool") in ("Bash", "bash")]
    assert len({event.get("subagent_id") for event in commands} - {None}) == 2
    assert {event["turn"] for event in commands} == {1}
    assert {"tea.txt", "cake.txt"} <= set(desk.replayed(desk.turns()[0]))


def test_an_error_of_the_api(desk: Desk) -> None:
    """P1: a turn that ends with an error of the API holds what was done before it."""
    desk.run("api-error")

    assert desk.noted() == ""
    assert set(actions(desk)) == calls_of(desk)
    assert desk.replayed(desk.turns()[-1]) == desk.on_disk()


def test_interrupted_in_mid_tool(desk: Desk) -> None:
    """P1: what a command did before Ctrl-C is in the log, and the session goes on."""
    stop(desk, signal.SIGINT)

    assert "half.txt" in desk.on_disk()
    go_on(desk)


def test_killed_in_mid_tool(desk: Desk) -> None:
    """P1, P4, P7: after kill -9 in mid-tool the log has the start of the tool, a replay says that the turn's
    end is not known; the next turn closes it, with what the command did as probably its doing."""
    stop(desk, signal.SIGKILL)
    (begun,) = desk.events("tool_start")

    assert (str(begun["tool"]).lower(), actions(desk)) == ("bash", {})
    killed = desk.turns()[0]
    assert desk.unsure(killed, "before")["paths"][0]["path"] == "."
    (listed,) = json.loads("[" + desk.locus("session", "ls", "--all", "--json") + "]")
    assert listed["status"] == "interrupted"
    go_on(desk)

    (action,) = (one for one in desk.events("action") if one["turn"] == killed.turn)
    assert (action["tool_use_id"], action.get("success")) == (begun["tool_use_id"], None)
    (half,) = (one for one in desk.events("file") if one["path"] == "half.txt" and one["turn"] == killed.turn)
    assert (half["cause"], half["payload"]["certainty"]) == (action["event_id"], "probable")  # type: ignore[index]
    ends = [e for e in desk.events("turn") if e["turn"] == killed.turn and e.get("operation") == "end"]
    assert [end["status"] for end in ends] == ["interrupted"]
    doubted = desk.unsure(killed, "after")
    assert (doubted["state"], [one["path"] for one in doubted["paths"]]) == ("unfinished", ["half.txt"])


@pytest.mark.parametrize("broken", ["no store", "store damaged", "store read-only", "stub gone"])
def test_a_broken_recorder_disturbs_nobody(desk: Desk, broken: str) -> None:
    """P4: whatever became of store and installation, the client does its work and hears nothing."""
    if broken == "no store":
        shutil.rmtree(desk.store)
    elif broken == "store damaged":
        (desk.store / "STORE").write_text("{")
    elif broken == "store read-only":
        for path in [*desk.store.rglob("*"), desk.store]:
            path.chmod(0o500 if path.is_dir() else 0o400)
    else:
        hook = desk.scratch / "never-there.py"
        settings = desk.home.path / desk.client.settings
        text = settings.read_text()
        assert "locus-hook.py" in text
        settings.write_text(re.sub(r"/[^ '\"]*/locus-hook\.py", str(hook), text))
    done = desk.run("edit")

    assert (done.code, len(desk.served())) == (0, len(SCENARIOS["edit"]))
    assert b"good morning" in (desk.project / "kiosk.py").read_bytes()
    assert "locus" not in (done.out + done.err).replace(str(desk.project.parent), "")


def stop(desk: Desk, number: signal.Signals) -> None:
    """A signal to the client while its command runs."""
    with desk.client.started(desk.home, desk.project, prompt_of("wait")) as process:
        wait_for(desk.scratch / "pid")
        time.sleep(0.2)  # for the client to notice that the command runs
        process.send_signal(number)
        ended(process)
    end_command(desk)


def go_on(desk: Desk) -> None:
    """Resume, and see both turns and all files."""
    before = len(desk.turns())
    done = desk.run("more", resume=desk.session())

    assert done.code == 0, done.err
    assert (before, len(desk.turns())) == (1, 2)
    # OpenCode notes what an answer used when its tools have ended.
    agree(desk, tokens=desk.client.agent != "opencode")
    assert {"half.txt"} <= {str(event["path"]) for event in desk.events("file")}
    assert {Path(path).name for path in desk.replayed(desk.turns()[-1])} >= {"half.txt", "log.txt"}
