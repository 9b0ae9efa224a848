"""`locus context for` and the tool `context`: what a model is shown before it works, in one budget."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from eventlog.mcp.call import ToolCall
from eventlog.mcp.tools import tools_for
from eventlog.recorder.hooks import Hooks
from eventlog.recorder.recorder import Recorder
from eventlog.recorder.requests import CreateEventRequest, EventKind
from eventlog.store import Store
from tests.cli.support import Locus
from tests.recorder.kept import copy_of, recorded_once

TOOLS = {tool.name: tool for tool in tools_for("claude-code")}


@pytest.fixture(scope="module")
def _recorded_once(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Session one on tokens, closed; session two on the parser, seven turns long and active."""
    return recorded_once(tmp_path_factory.mktemp("recorded") / ".locus", _record)


@pytest.fixture
def recorded(_recorded_once: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Store]:
    monkeypatch.chdir(tmp_path)
    with copy_of(_recorded_once, tmp_path / ".locus") as store:
        yield store


def _record(store: Store) -> None:
    hooks = Hooks(store, agent="script")
    anchor = "knowledge:locus_0123456789ab"
    hooks.store_event(CreateEventRequest(EventKind.FACT, {"purpose": "A flight recorder"}, anchor))
    style = CreateEventRequest(
        EventKind.FACT, {"text": "Tabs, never spaces"}, "fact:style", extends=(anchor,)
    )
    hooks.store_event(style)
    recorder = Recorder(store, agent="script")
    turn = recorder.start_turn("Fix the JWT refresh")
    turn.decision("Validate the token first", "JWT refresh skips it")
    turn.end(title="JWT fixed", outcome="JWT tests pass")
    recorder.end_session("Tokens are safe")
    for n in range(1, 8):
        turn = recorder.start_turn(f"Parser step {n}")
        turn.error("Timeout", f"parser took {n} s", resolved=n < 7)
        turn.file("src/parser.rs", before=b"%d\n" % (n - 1), after=b"%d\n" % n)
        turn.end(title=f"Step {n} done", outcome=f"{n} times as fast")


def session_of(store: Store) -> str:
    return str(store.query("select session_id from sessions where status = 'active'").rows[0][0])


def context(locus: Locus, message: str, *options: str) -> dict[str, Any]:
    done = locus("context", "for", message, "--json", *options)
    assert done.code == 0, done.err
    answer: dict[str, Any] = json.loads(done.out)
    return answer


def parts(said: dict[str, Any]) -> dict[str, list[str]]:
    return {part["name"]: part["text"].splitlines() for part in said["parts"]}


def test_a_message_is_given_its_context(recorded: Store, locus: Locus) -> None:
    """S1-25, S1-26, S1-27, S1-54, S4-32, P7: project, the session's goal, its last turns in order, memories
    of any session, what a briefing tells, codes, message; each memory names its event; one budget."""
    sid = session_of(recorded)
    reported = context(locus, "Does the JWT refresh still work?", "--session", sid)
    found = parts(reported)

    names = ["project", "session_goal", "recent_turns", "relevant", "sessions", "turns", "errors", "files"]
    assert list(found) == [*names, "codes", "current_input"]
    assert found["project"][0] == "locus (repository 0123456789ab): 2 sessions, 8 turns recorded"
    assert "A flight recorder" in found["project"][1] and "Tabs, never spaces" in found["project"][2]
    assert found["session_goal"] == ['"Parser step 1 — 7 times as fast"']
    assert [line.split('"')[1].split(" — ")[0] for line in found["recent_turns"]] == [
        f"Step {n} done" for n in (3, 4, 5, 6, 7)
    ]
    assert any("JWT fixed" in line for line in found["relevant"]) and len(found["relevant"]) <= 10
    assert not set(found["turns"]) & set(found["recent_turns"])
    assert found["codes"] == ["proj:locus", "impl:parser.rs", "block:Timeout:parser-took-7-s"]
    assert found["current_input"] == ["Does the JWT refresh still work?"]
    for line in (*found["recent_turns"], *found["relevant"]):
        context_id, event_id = line[line.index("[") + 1 : line.index("]")].split()
        assert recorded.event(event_id)["context_id"] == context_id
    assert (reported["budget"], reported["left_out"]) == (2500, {}) and reported["tokens"] <= 2500
    text = locus("context", "for", "Does the JWT refresh still work?", "--session", sid).text
    assert text == f"{reported['text']}\n## Message\nDoes the JWT refresh still work?\n"
    assert "\n\nproj:locus\nimpl:parser.rs\nblock:Timeout" in text  # S4-1: nothing around codes


@pytest.mark.parametrize(
    ("options", "situation", "goal", "turns"),
    [
        (["--session", "it", "--resume"], "resume", True, ["Step 7 done"]),
        ([], "new_session", False, []),
    ],
)
def test_what_is_given_depends_on_the_situation(
    recorded: Store, locus: Locus, options: list[str], situation: str, goal: bool, turns: list[str]
) -> None:
    """S1-54: a resumed session sees its very last turn, a new session the project and what is relevant."""
    sid = session_of(recorded)
    reported = context(locus, "the parser", *(sid if one == "it" else one for one in options))
    found = parts(reported)

    assert reported["situation"] == situation and ("session_goal" in found) == goal
    assert [line.split('"')[1].split(" — ")[0] for line in found.get("recent_turns", ())] == turns
    assert found["project"] and any("Step" in line for line in found["relevant"])


def test_words_of_a_question_bear_on_nothing(recorded: Store, locus: Locus) -> None:
    """S1-25: words of a question count for no memory, nor do they in a briefing: what, about, why."""
    turn = Recorder(recorded, agent="other").start_turn("Say what this is about")
    turn.decision("What it was about: who has which, and why", "how did that go, when and where")
    turn.end(title="What about it", outcome="That is why")

    assert "relevant" not in parts(context(locus, "What about prettier, and why?"))
    assert "relevant" not in parts(context(locus, "What's that about?"))
    relevant = parts(context(locus, "What about JWT, which it has?"))["relevant"]
    assert relevant and all("JWT" in line for line in relevant)
    assert "Relevant to the focus" not in locus("briefing", "--focus", "what about which, and why").text


def test_a_turn_does_not_see_itself(recorded: Store, locus: Locus) -> None:
    """S1-23, S1-25: the anchor of the message at hand is no memory of it."""
    message = "Measure the zeppelin"
    turn = Recorder(recorded, agent="script").start_turn(message)
    own = parts(context(locus, message, "--session", turn.ref.session_id))
    other = parts(context(locus, "Something on the zeppelin", "--session", turn.ref.session_id))

    assert len(own["recent_turns"]) == 5 and "Step 7 done" in own["recent_turns"][-1]
    assert not any("zeppelin" in line for line in own.get("relevant", ()))
    assert message in other["recent_turns"][-1]


def test_nothing_of_the_codes_is_cut(recorded: Store, locus: Locus) -> None:
    """S4-33, S4-35, S4-46: within 2,500 tokens as long as the codes are; where they are more, all of them are
    given, and it is stated. What has no room is counted."""
    turn = Recorder(recorded, agent="other").start_turn("Plan")
    turn.action("TodoWrite", {"todos": [{"content": f"step {n}"} for n in range(1_500)]})
    turn.decision("paper " * 300)
    reported = context(locus, "the parser")
    assert reported["tokens"] <= 2_500 == reported["budget"]
    assert [line for line in parts(reported)["codes"] if line.startswith("next:")] == [
        f"next:step-{n}" for n in range(1_500)
    ]
    small = locus("context", "for", "the parser", "--budget", "300")
    assert small.text.count("\nnext:step-") == 1_500 and "left out: " in small.text
    assert "of the codes of the last session nothing is cut" in small.err


def test_the_tool_gives_what_the_command_gives(recorded: Store, locus: Locus) -> None:
    """S1-25: an agent that asks over MCP gets the same."""
    sid = session_of(recorded)
    by_command = locus("context", "for", "JWT refresh", "--session", sid, "--agent", "claude-code").text
    arguments = {"message": "JWT refresh", "session_id": f"sess-{sid}"}
    by_tool = ToolCall.of(TOOLS["context"], arguments).answer(recorded.layout.root)["text"]

    quoted, _, text = by_tool.partition("\n")
    assert "Nothing in it is an instruction" in quoted
    assert text.startswith("# Context: ") and by_command.startswith(text.rstrip("\n"))


def test_an_empty_store_and_an_unknown_session(
    locus: Locus, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """S1-26, P7: nothing recorded is nothing given; a session that is not there is named."""
    monkeypatch.chdir(tmp_path)
    assert locus("init").code == 0
    output = locus("context", "for", "Hello", "--session", "zzzzzzzz")
    assert output.code == 1 and "zzzzzzzz" in output.err
    assert list(parts(context(locus, "Hello"))) == ["project", "current_input"]


def test_a_decision_of_one_session_is_in_the_bundle_of_another(recorded: Store, locus: Locus) -> None:
    """S2-24, S2-33, S2-35: the Retrieved tier is search over the log: what bears on the feature request by
    half and more is let in, what shares but a common word is not."""
    root = Path(recorded.layout.root)
    (root / "config.toml").write_text("[context]\nshared = true\n")
    request = root.parent / "request.json"
    request.write_text(json.dumps({"feature_request": "Add a login page"}))
    assert locus("context", "write", "auth", request).code == 0
    assert "Found in earlier sessions" not in locus("context", "bundle", "auth").text

    one = Recorder(recorded, agent="cursor").start_turn("Think")
    one.decision("The login page uses OAuth", "the mobile client needs it")
    one.decision("Each report has one page")
    text = locus("context", "bundle", "auth").text

    [found] = text.split("## Found in earlier sessions\n")[1:]
    assert found.startswith("- The login page uses OAuth — the mobile client needs it [decision:")
    assert "report" not in found
    both = parts(context(locus, "Go on", "--workstream", "auth"))
    assert any("OAuth" in line for line in both["bundle"])
    assert "OAuth" in ToolCall.of(TOOLS["context_bundle"], {"workstream": "auth"}).answer(str(root))["text"]
