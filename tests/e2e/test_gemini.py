"""The true Gemini CLI: what its hooks record is what happened, and its chat adds nothing twice."""

import json
import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from eventlog.store import Store
from tests.importers.test_hook_matching import COUNTS

from .clients import Client, ended, wait_for
from .desk import Desk, end_command, open_desk, prompt_of
from .gemini import find_gemini, refuse
from .scenarios import SCENARIOS

TURNS = ["edit", "edits", "create", "shell", "failing", "refused", "bad-input", "idle"]


@pytest.fixture
def client() -> Client:
    found = find_gemini()
    if found is None:
        pytest.skip("Gemini CLI is not installed: scripts/e2e")
    return found


@pytest.fixture
def desk(client: Client, tmp_path: Path) -> Iterator[Desk]:
    """A project with a store and our hooks, beside one that refuses what speaks of REFUSE-ME."""
    with open_desk(client, tmp_path) as opened:
        Store.init(opened.store).close()
        refuse(opened.home, client.settings, opened.scratch)
        opened.locus("hooks", "install", "--user", "--agent", "gemini-cli")
        assert (opened.home.path / client.settings).read_text().startswith("// mine\n")
        yield opened
        assert opened.model.strays == [], "the client wanted to talk to somebody else"


def tokens(desk: Desk) -> list[tuple[object, ...]]:
    return desk.rows("select prompt_tokens, completion_tokens from llm_calls order by all")


def served(desk: Desk) -> list[tuple[int, int]]:
    return sorted((one.usage["input_tokens"], one.usage["output_tokens"]) for one in desk.served())


def agree(desk: Desk) -> None:
    """What holds after any run, and still when the chats are imported."""
    assert desk.noted() == ""
    assert desk.replayed(desk.turns()[-1]) == desk.on_disk()
    assert tokens(desk) == served(desk)
    with Store.open(desk.store) as store:
        before = [store.query(sql).rows for sql in COUNTS]
        actions = store.query("select event_id from actions order by 1").rows
    desk.locus("import", "gemini")
    with Store.open(desk.store) as store:
        assert [store.query(sql).rows for sql in COUNTS[:1] + COUNTS[2:]] == before[:1] + before[2:]
        assert store.query("select event_id from actions order by 1").rows == actions
        assert len(store.query(COUNTS[1]).rows) == len(before[1])
        ids = [event["event_id"] for event in store.events()]
    assert len(ids) == len(set(ids))
    assert desk.events("message")


def test_the_chats_of_subagents_are_read(desk: Desk) -> None:
    """P1, P3: hooks tell a subagent's tools under the turn that launched it; its chat, imported with the
    session's, adds its model calls and its words, and none of those tools a second time."""
    done = desk.run("agents")
    assert done.code == 0, done.err
    assert desk.replayed(desk.turns()[-1]) == desk.on_disk()
    commands = [event["event_id"] for event in desk.events("action") if event["tool"] == "run_shell_command"]
    assert len(commands) == 3
    desk.locus("import", "gemini")

    assert tokens(desk) == served(desk)
    subagents = [(event["operation"], event["subagent_id"]) for event in desk.events("subagent")]
    assert sorted(operation for operation, _ in subagents) == ["end", "end", "start", "start"]
    assert len({of for _, of in subagents}) == 2
    assert {of for _, of in subagents} == {
        e["subagent_id"] for e in desk.events("llm") if e.get("subagent_id")
    }
    again = [event["event_id"] for event in desk.events("action") if event["tool"] == "run_shell_command"]
    assert again == commands
    assert len(desk.turns()) == 1 and {event.get("turn") for event in desk.events("llm")} == {1}
    events = len(desk.events())
    desk.locus("import", "gemini")
    assert len(desk.events()) == events


def outcomes(desk: Desk) -> list[tuple[object, object]]:
    return [(event.get("tool"), event.get("success")) for event in desk.events("action")]


@pytest.mark.parametrize("scenario", TURNS)
def test_a_turn_is_recorded_as_it_happened(desk: Desk, scenario: str) -> None:
    """P1, P3: after one turn the replayed tree is the one on disk, and each prompt, tool call and token is in
    the log exactly once; importing the chat adds texts and nothing else."""
    done = desk.run(scenario)
    assert done.code == 0, done.err

    assert len(desk.served()) == len(SCENARIOS[scenario])
    asked = sum(len(step.calls) for step in SCENARIOS[scenario])
    assert len(desk.events("action")) == asked
    agree(desk)
    assert desk.prompts() == [prompt_of(scenario)]
    assert len(desk.turns()) == 1
    if scenario == "failing":
        assert outcomes(desk) == [("run_shell_command", False)]
    if scenario == "refused":
        assert outcomes(desk) == [("run_shell_command", None)]
        assert desk.rows("select count(*) from errors") == [(1,)]


def test_every_turn_of_a_session_replays(desk: Desk) -> None:
    """P1: of a session that is resumed again and again, with a person's edits between the turns, each turn
    replays the files that were there at its end."""
    seen = []
    session = None
    for scenario in ("edit", "shell", "failing", "more", "more"):
        done = desk.run(scenario, resume=session)
        assert done.code == 0, done.err
        session = desk.session()
        seen.append(desk.on_disk())
        (desk.project / f"by-hand-{scenario}.txt").write_text(scenario)

    turns = desk.turns()
    assert [desk.replayed(turn) for turn in turns] == seen
    assert len({turn.session_id for turn in turns}) == 1
    by_person = {str(event["path"]) for event in desk.events("file") if event["source"] == "user"}
    assert by_person >= {"by-hand-edit.txt"}
    for name in ("edit", "shell", "failing", "more"):
        os.unlink(desk.project / f"by-hand-{name}.txt")
    desk.run("idle", resume=session)
    agree(desk)


def test_two_sessions_in_one_tree(desk: Desk) -> None:
    """P1, P4: two sessions that work in one directory at once are both recorded whole."""
    with (
        desk.client.started(desk.home, desk.project, prompt_of("slow")) as one,
        desk.client.started(desk.home, desk.project, prompt_of("quick")) as other,
    ):
        assert [ended(process).code for process in (one, other)] == [0, 0]

    assert len({turn.session_id for turn in desk.turns()}) == 2
    last = [event for event in desk.events("turn") if event.get("operation") == "end"][-1]
    turn = next(t for t in desk.turns() if t.session_id == last["session_id"])
    assert desk.replayed(turn) == desk.on_disk()
    assert {str(event["path"]) for event in desk.events("file")} == {"slow.txt", "quick.txt"}
    assert len(desk.events("action")) == 4
    assert tokens(desk) == served(desk)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_stopped_in_mid_tool(desk: Desk, number: signal.Signals) -> None:
    """P1, P4: what a command did before it was stopped is in the log, and the session goes on."""
    with desk.client.started(desk.home, desk.project, prompt_of("wait")) as process:
        wait_for(desk.scratch / "pid")
        time.sleep(0.2)
        process.send_signal(number)
        ended(process)
    end_command(desk)
    assert len(desk.events("tool_start")) == 1
    stopped = desk.turns()[0]
    killed = number == signal.SIGKILL  # else it tells the end of its session
    assert not killed or desk.unsure(stopped, "before")["paths"][0]["path"] == "."

    done = desk.run("more", resume=desk.session())
    assert done.code == 0, done.err
    assert len(desk.turns()) == 2
    assert {"half.txt"} <= {str(event["path"]) for event in desk.events("file")}
    assert {Path(path).name for path in desk.replayed(desk.turns()[-1])} >= {"half.txt", "log.txt"}
    if killed:
        doubted = desk.unsure(stopped, "after")
        assert (doubted["state"], [one["path"] for one in doubted["paths"]]) == ("unfinished", ["half.txt"])
    agree(desk)


@pytest.mark.parametrize("level", ["local", "project", "user"])
def test_installed_hooks_record_until_they_are_taken_out(client: Client, level: str, tmp_path: Path) -> None:
    """P1, P4, P7: from whichever file, the client runs the hooks and the doctor is content; taken out, the
    settings are what they were and nothing more is recorded."""
    with open_desk(client, tmp_path) as bare:
        Store.init(bare.store).close()
        before = (bare.home.path / client.settings).read_bytes()
        bare.locus("hooks", "install", f"--{level}", "--agent", "gemini-cli")
        done = bare.run("edit")
        assert done.code == 0, done.err

        assert bare.prompts() == [prompt_of("edit")]
        assert bare.replayed(bare.turns()[-1]) == bare.on_disk()
        bare.locus("doctor")
        [(session,)] = bare.rows("select session_id from sessions")
        answer = json.loads(bare.locus("show", str(session), "--json"))["completeness"]
        assert answer["tool_calls"] == answer["captured"] == 3
        assert answer["ended"] is True

        events = len(bare.events())
        bare.locus("hooks", "uninstall", f"--{level}", "--agent", "gemini-cli")
        assert (bare.home.path / client.settings).read_bytes() == before
        assert not (bare.project / ".gemini/settings.json").exists()
        assert bare.run("edits").code == 0
        assert len(bare.events()) == events
