"""What an agent writes between its calls, through the hook program: read where its transcript has it."""

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from eventlog.importers import importer, sources
from eventlog.store import Store
from tests.agents.codex_support import answer, begin, event, meta
from tests.cli.hook_support import Agent, Codex, events, notes, project, run_hook, unique
from tests.cli.support import Locus

Line = dict[str, Any]
UUID = "00000000-0000-4000-8000-{:012x}"


@pytest.fixture
def work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository with a store."""
    monkeypatch.setenv("LOCUS_NO_MAINTENANCE", "1")
    monkeypatch.delenv("CLAUDE_CODE_SESSION_ID", raising=False)
    root = project(tmp_path)
    monkeypatch.chdir(root)
    return root


def now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def write(path: Path, *lines: Line) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a") as file:
        file.writelines(json.dumps(line, separators=(",", ":")) + "\n" for line in lines)


class Claude(Agent):
    """The agent, which writes its transcript as it works."""

    count = 0

    def line(self, kind: str, content: object, **more: Any) -> None:
        self.count += 1
        own = {
            "type": kind, "uuid": UUID.format(self.count), "sessionId": self.session, "timestamp": now(),
            "cwd": str(self.work), "version": "2.1.330", "promptId": self.turn, "gitBranch": "main",
        }  # fmt: skip
        write(self.transcript, {**own, "message": {"role": kind, "content": content, **more}})

    def ask(self, text: str) -> None:
        self.prompt(text)
        self.line("user", text)

    def write_words(self, text: str, **more: Any) -> None:
        answer = {"id": unique("msg"), "model": "m", "usage": {"input_tokens": 3, "output_tokens": 4}}
        self.line("assistant", [{"type": "text", "text": text}], **{**answer, **more})


def texts(work: Path) -> list[str]:
    return [item["payload"]["text"] for item in events(work, "message") if item["operation"] == "text"]


def imported(work: Path, agent: str, *paths: Path) -> int:
    """Import files; how many events that added."""
    with Store.open(work / ".locus") as store:
        found = sources.named(agent, [str(path) for path in paths])
        return importer.run(store, agent, found).facts


def test_a_live_turn_shows_the_words_between_the_calls(work: Path, locus: Locus) -> None:
    """What the agent wrote is where it wrote it, after its end by hooks alone: each text once, the last
    one not again as the outcome."""
    agent = Claude(work)
    agent.start()
    agent.ask("Print two")
    agent.write_words("I look at it first.")
    agent.bash("cat src/app.py")
    agent.line("assistant", [{"type": "thinking", "thinking": "hm"}], id="msg_t1a2b", model="m")
    agent.write_words("Now I change it.")
    agent.edit("src/app.py", "one", "two")
    agent.write_words("It prints two.")
    agent.stop("It prints two.")
    shown = locus("show", "last").text

    parts = [
        "❯ Print two", "I look at it first.", "● Bash cat", "Now I change it.", "● Edit", "It prints two.",
    ]  # fmt: skip
    places = [shown.index(part) for part in parts]
    assert places == sorted(places) and all(shown.count(part) == 1 for part in parts)
    assert notes(work) == "" and "hm" not in shown.split()
    types = [one["event_type"] for one in events(work) if one.get("seq") is not None]
    assert types[-1] == "snapshot"


def test_words_that_hooks_read_are_those_of_an_import(tmp_path: Path, work: Path) -> None:
    """P3: ids and columns of a text are those that an import gives it, so that one after the other adds no
    second one, in either order."""
    agent = Claude(work)
    agent.start()
    agent.ask("Print two")
    agent.write_words("I look at it.")
    agent.line("assistant", [{"type": "text", "text": "Overloaded"}], model="<synthetic>")
    agent.bash("true")
    agent.write_words("It is done.")
    agent.stop("It is done.")
    live = events(work, "message")
    (tmp_path / "alone").mkdir()
    other = project(tmp_path / "alone")
    assert imported(other, "claude-code", agent.transcript) > 0
    alone = events(other, "message")

    same = (
        "event_id", "event_kind", "source", "operation", "agent", "agent_session_id", "agent_turn_id", "cwd",
        "branch", "agent_version", "message_id", "occurred_at",
    )  # fmt: skip
    assert [[one.get(name) for name in same] for one in live] == [
        [one.get(name) for name in same] for one in alone
    ]
    assert [one["payload"]["text"] for one in live] == ["I look at it.", "It is done."]
    imported(work, "claude-code", agent.transcript)
    assert texts(work) == ["I look at it.", "It is done."]
    again = Claude(other, agent.session)
    again.turn = agent.turn
    again.transcript = agent.transcript
    again.stop("It is done.")
    assert texts(other) == ["I look at it.", "It is done."]


def test_words_are_read_on_and_no_more_than_a_bound_at_once(work: Path) -> None:
    """P4, P5: each end of a turn reads on from the last one; what is beyond the bound comes with the next; a
    secret is found before the text is written, and half a line waits."""
    agent = Claude(work)
    agent.start()
    agent.ask("Go on")
    agent.write_words("The key is ghp_" + "a1B2c3D4e5" * 3 + "a1B2c3 as you said.")
    agent.line("user", "x" * (4 << 20))
    agent.write_words("Far away.")
    agent.stop()
    assert len(texts(work)) == 1 and "a1B2c3" not in texts(work)[0]
    with agent.transcript.open("a") as file:
        file.write('{"type":"assistant","uuid":"')
    agent.stop()
    agent.stop()
    assert texts(work)[1:] == ["Far away."]
    assert notes(work) == ""


def test_words_of_codex_are_those_of_its_rollout(tmp_path: Path, work: Path) -> None:
    """P3: each text of a rollout once, though item and event have it, with the ids that an import gives; that
    of another thread's history is left to the import."""
    agent = Codex(work, "01a1ff00-0000-7000-8000-000000000001")
    agent.transcript = tmp_path / f"rollout-{agent.session}.jsonl"
    agent.start()
    write(agent.transcript, meta(cwd=str(work)))
    for number in (1, 2):
        agent.turn = f"01a1ff00-0{number}00-7000-8000-0000000000a1"
        agent.say("UserPromptSubmit", prompt="Go")
        write(agent.transcript, *begin(number, agent.turn), event(number, "user_message", message="Go"))
        write(agent.transcript, *answer(number, "I look."))
        agent.shell("true")
        write(agent.transcript, *answer(number, "I look."), *answer(number, "Done."))
        agent.stop("Done.")
        write(agent.transcript, event(number, "task_complete", turn_id=agent.turn))
    live = events(work, "message")
    assert texts(work) == ["I look.", "I look.", "Done."] * 2 and notes(work) == ""
    imported(work, "codex", agent.transcript)
    assert texts(work) == ["I look.", "I look.", "Done."] * 2
    (tmp_path / "alone").mkdir()
    other = project(tmp_path / "alone")
    imported(other, "codex", agent.transcript)
    alone = events(other, "message")
    same = ("event_id", "source", "operation", "agent_turn_id", "cwd", "model", "occurred_at")
    assert [[one.get(name) for name in same] for one in live] == [
        [one.get(name) for name in same] for one in alone
    ]

    fork = Codex(work, "01a1ff00-9000-7000-8000-000000000009")
    fork.transcript = tmp_path / f"rollout-{fork.session}.jsonl"
    write(fork.transcript, meta(thread=fork.session, forked_from_id=agent.session), meta(cwd=str(work)))
    fork.turn = "01a1ff00-9100-7000-8000-0000000000a9"
    write(fork.transcript, *begin(9, fork.turn), *answer(9, "Of a fork."))
    fork.stop()
    assert "Of a fork." not in texts(work)
    imported(work, "codex", fork.transcript)
    assert texts(work).count("Of a fork.") == 1


def test_words_of_gemini_cli_are_those_of_its_chat(tmp_path: Path, work: Path) -> None:
    """P3: the text of a message that is complete, with the id that an import gives it."""
    chat = tmp_path / "home/chats/session-1.jsonl"
    common = {"session_id": UUID.format(1), "cwd": str(work), "transcript_path": str(chat)}
    write(chat, {"sessionId": UUID.format(1), "projectHash": "h", "startTime": "2026-11-20T10:00:00.000Z"})

    def say(name: str, **fields: Any) -> None:
        payload = {**common, "hook_event_name": name, "timestamp": "2026-11-20T10:00:01.000Z", **fields}
        run_hook(json.dumps(payload).encode(), "gemini-cli", work)

    say("SessionStart", source="startup")
    say("BeforeAgent", prompt="Go")
    asked = {"id": UUID.format(2), "timestamp": "2026-11-20T10:00:02.000Z", "type": "user"}
    write(chat, {**asked, "content": [{"text": "Go"}]})
    payload = {"id": UUID.format(3), "timestamp": "2026-11-20T10:00:03.000Z", "type": "gemini", "model": "m"}
    write(chat, {**payload, "content": "I lo"})
    tokens = {"input": 9, "output": 4, "cached": 0, "thoughts": 0, "tool": 0, "total": 13}
    write(chat, {**payload, "content": "I look.", "tokens": tokens})
    say("AfterAgent", prompt="Go", prompt_response="I look.")
    assert texts(work) == ["I look."] and notes(work) == ""
    (live,) = events(work, "message")
    (start,) = [one for one in events(work, "turn") if one["operation"] == "start"]
    assert live["agent_turn_id"] == start["agent_turn_id"]
    imported(work, "gemini-cli", chat)
    assert texts(work) == ["I look."]
    (tmp_path / "alone").mkdir()
    other = project(tmp_path / "alone")
    imported(other, "gemini-cli", chat)
    (alone,) = events(other, "message")
    same = ("event_id", "source", "operation", "occurred_at")
    assert [live.get(name) for name in same] == [alone.get(name) for name in same]
