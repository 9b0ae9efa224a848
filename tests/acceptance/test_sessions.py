"""Sessions and what they are about, through `locus session`, hooks, `locus mcp`, the briefing and the store.

One story: two agents that began before, then a person, a hook and a tool that begin and end sessions in the
same repository. The tests hold what came out against the formats that were asked for, field by field.
"""

import json
import re
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

import pytest

from eventlog import EngramStore
from eventlog.memory.engram import Event, Session
from eventlog.store import Store
from tests.acceptance.project import Json, Project, new_project
from tests.cli.support import Ended

AUTH, TESTS = "refactoring auth module", "adding tests"
FIRST, SECOND = "sess-a1b2c3d4", "sess-e5f6g7h8"
SECTION = [
    "## Active Sessions (2)",
    f'[{FIRST}] claude-code: "{AUTH}" (src/auth/) — started 2h ago',
    f'[{SECOND}] cursor: "{TESTS}" (tests/) — started 30m ago',
]
ID = re.compile(r"sess-[0-9a-z]{8}")


@dataclass
class Story:
    project: Project
    inserted: list[Session] = field(default_factory=list)
    event: Event | None = None
    briefing: str = ""
    said: dict[str, Ended] = field(default_factory=dict)
    active: dict[str, list[Json]] = field(default_factory=dict)
    shown: Json = field(default_factory=dict)
    hooked: list[str] = field(default_factory=list)
    tools: dict[str, str] = field(default_factory=dict)
    counts: list[int] = field(default_factory=list)
    who: Json = field(default_factory=dict)
    events: list[Json] = field(default_factory=list)
    all: dict[str, Json] = field(default_factory=dict)


def ago(**time: float) -> str:
    return (datetime.now(UTC) - timedelta(**time)).isoformat()


@pytest.fixture(scope="module")
def story(tmp_path_factory: pytest.TempPathFactory) -> Story:
    """The whole of it, once."""
    project = new_project(tmp_path_factory.mktemp("sessions"), ("src/auth/login.py", "x = 1\n"))
    reported = Story(project)
    with Store.open(project.store) as store:
        engram = EngramStore(store)
        reported.inserted = [
            engram.insert_session(
                Session(FIRST, "claude-code", AUTH, ["src/auth/"], ago(hours=2, minutes=5), None, "whole")
            ),
            engram.insert_session(Session(SECOND, "cursor", TESTS, ["tests/"], ago(minutes=30.5))),
            engram.insert_session(Session("", "crashed", "gone", [], ago(hours=25))),
            engram.insert_session(Session("", "slow", "late", None, ago(hours=23))),
        ]
        reported.event = engram.insert(
            Event("mutation", "claude-code", "renamed it", ["src/auth/login.py"], session_id=FIRST)
        )
        engram.insert(Event("decision", "cursor", "Sign tokens with one key", ["src/auth/login.py"]))
        engram.insert(Event("warning", "cursor", "the key is in the repository"))
        reported.counts = [engram.cleanup_stale_sessions(26), engram.cleanup_stale_sessions(24)]
        engram.end_session(reported.inserted[3].id)
    reported.briefing = project.must("briefing", "--agent", "claude-code")
    _commands(project, reported)
    _hooks(project, reported)
    _tools(project, reported)
    reported.events = project.events()
    reported.all = {one["id"]: one for one in _listed(project, "--all")}
    return reported


def _listed(project: Project, *options: str) -> list[Json]:
    return [json.loads(line) for line in project.must("session", "ls", "--json", *options).splitlines()]


def _commands(project: Project, told: Story) -> None:
    """A person's sessions: the second one ends the first, `end` without a name ends the active one."""
    mine = {"LOCUS_AGENT": "aider"}
    told.said["none to end"] = project.locus("session", "end", **mine)
    told.said["start"] = project.locus(
        "session", "start", "--focus", "tidying up", "--scope", "docs/", "--scope", "./README.md",
        "--description", "before the fair", **mine,
    )  # fmt: skip
    told.shown = json.loads(project.must("session", "show", "--json", **mine))
    told.said["start another"] = project.locus("session", "start", "--focus", "no scope", **mine)
    told.said["ls"] = project.locus("session", "ls")
    told.active["of aider"] = _listed(project, "--agent", "aider")
    told.said["end"] = project.locus("session", "end", **mine)
    told.said["update"] = project.locus("session", "update", "--focus", "other")
    told.active["of all"] = _listed(project)


def _hooks(project: Project, told: Story) -> None:
    """Claude Code starts, which takes over what was declared for it, and writes; it starts again."""
    (project.store / "config.toml").write_text("[briefing]\nat_start = true\n", "utf-8")
    call = {"session_id": "own-1", "transcript_path": str(project.root.parent / "own-1.jsonl")}
    told.hooked.append(project.hook("claude-code", "SessionStart", source="startup", **call))
    project.hook("claude-code", "UserPromptSubmit", prompt="Make it safe", prompt_id="p1", **call)
    path = project.root / "src/auth/login.py"
    tool = {
        "tool_name": "Write", "tool_use_id": "t1", "prompt_id": "p1",
        "tool_input": {"file_path": str(path), "content": "x = 2\n"},
    }  # fmt: skip
    project.hook("claude-code", "PreToolUse", **tool, **call)
    path.write_text("x = 2\n", "utf-8")
    result = {"type": "update", "filePath": str(path), "content": "x = 2\n", "structuredPatch": []}
    project.hook("claude-code", "PostToolUse", tool_response=result, **tool, **call)
    told.active["in the hook's session"] = _listed(project, "--agent", "claude-code")
    told.who = project.asked("who", "--json")
    again = {**call, "session_id": "own-2"}
    told.hooked.append(project.hook("claude-code", "SessionStart", source="startup", **again))
    told.active["after another start"] = _listed(project, "--agent", "claude-code")


def _tools(project: Project, told: Story) -> None:
    """Another agent over MCP: with a session, with one that it names, with none."""
    with project.mcp("codex") as server:
        told.tools["outside"] = server.call("post_event", event_type="discovery", content="it is cold")
        told.tools["start"] = server.call(
            "session_start", focus="mcp work", scope=["src/"], description="by tools"
        )
        told.tools["inside"] = server.call("post_event", event_type="warning", content="it leaks")
        told.tools["named"] = server.call(
            "post_event", event_type="outcome", content="it holds", session_id=SECOND
        )
        told.tools["list"] = server.call("list_sessions")
        told.tools["start again"] = server.call("session_start", focus="no scope", scope=[])
        told.tools["end"] = server.call("session_end")
        told.tools["nothing to end"] = server.refusal("session_end")
        told.tools["list all"] = server.call("list_sessions", active_only=False)


# -- the values --------------------------------------------------------------------------------------


def test_a_session_has_its_fields(story: Story) -> None:
    """S3-1, S3-5…S3-7, S3-33, S3-37: id, agent, focus, scope, start, end, description; [] is no scope."""
    first, second, crashed, slow = story.inserted
    assert (first.id, first.agent_id, first.focus, first.scope) == (FIRST, "claude-code", AUTH, ["src/auth/"])
    assert (first.ended_at, first.description, second.description) == (None, "whole", None)
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT[\d:.]+Z", first.started_at)
    assert crashed.scope is None and slow.scope is None
    assert ID.fullmatch(crashed.id) and crashed.id != slow.id
    assert story.all[slow.id]["ended_at"] is not None


def test_an_event_takes_a_session(story: Story) -> None:
    """S3-4, S3-11: an inserted event is in the session that was named, in what comes back and in the log."""
    assert story.event is not None and story.event.session_id == FIRST
    [kept] = [one for one in story.events if one["event_id"] == story.event.id]
    assert (kept["session_id"], kept["event_type"], kept["agent"], kept["path"]) == (
        FIRST.removeprefix("sess-"), "mutation", "claude-code", "src/auth/login.py",
    )  # fmt: skip


def test_stale_sessions_are_counted_and_end_after_a_day(story: Story) -> None:
    """S3-10, S3-29…S3-31, S3-34: none is older than 26 hours, one than 24; it ended 24 hours after its start,
    and one of 23 hours is left alone."""
    assert story.counts == [0, 1]
    crashed, slow = (story.all[one.id] for one in story.inserted[2:])
    began, ended = (datetime.fromisoformat(crashed[name]) for name in ("started_at", "ended_at"))
    assert ended - began == timedelta(hours=24)
    assert (crashed["end_reason"], slow["end_reason"]) == ("stale", "explicit")


# -- the briefing ------------------------------------------------------------------------------------


def test_the_section_on_active_sessions(story: Story) -> None:
    """S3-23, S3-28, S3-40: the lines of the format, between the warnings and what bears on the focus."""
    lines = story.briefing.splitlines()
    at = lines.index(SECTION[0])
    assert lines[at : at + 3] == SECTION
    titles = [line for line in lines if line.startswith("## ")]
    before, after = (titles[titles.index(SECTION[0]) + step] for step in (-1, 1))
    assert before.startswith("## Critical warnings") and after.startswith("## Relevant to the focus")


def test_a_briefing_scopes_itself_to_the_session(story: Story) -> None:
    """S3-24…S3-27: without a focus the agent's session gives focus and scope, and the briefing says so."""
    assert f"Briefing scoped to session: {AUTH} [src/auth/]" in story.briefing.splitlines()
    part = story.briefing.partition("## Relevant to the focus")[2].partition("\n\n")[0]
    assert "Sign tokens with one key" in part


# -- commands ----------------------------------------------------------------------------------------


def test_start_and_show(story: Story) -> None:
    """S3-1, S3-12, S3-15: what was declared is what `show` without a name gives of the current session."""
    assert story.said["start"].code == 0
    session = story.shown["session"]
    said = story.all[f"sess-{session['session_id']}"]
    assert (said["focus"], said["scope"]) == ("tidying up", ["docs/", "README.md"])
    assert (said["description"], said["agent_id"]) == ("before the fair", "aider")
    assert session["agent"] == "aider" and ID.fullmatch(said["id"])
    assert session["started_at"] is not None


def test_end_without_a_name_ends_the_active_one(story: Story) -> None:
    """S3-13: the agent's active session; without one it is an error that says whose."""
    assert story.said["end"].code == 0
    [active] = story.active["of aider"]
    assert story.all[active["id"]]["end_reason"] == "explicit"
    assert story.said["none to end"].code == 1
    assert "No active session for agent 'aider'." in story.said["none to end"].err


def test_ls_lists_what_is_active(story: Story) -> None:
    """S3-8, S3-14: active sessions only, all of them with --all; one agent's with --agent."""
    assert {one["agent_id"] for one in story.active["of all"]} == {"claude-code", "cursor"}
    assert [one["focus"] for one in story.active["of aider"]] == ["no scope"]
    assert {FIRST, SECOND} <= set(re.findall(ID, story.said["ls"].text))
    assert {one["focus"] for one in story.all.values()} >= {AUTH, TESTS, "gone", "late", "tidying up"}


def test_a_new_focus_is_a_new_session(story: Story) -> None:
    """S3-16, S3-32: no command changes one; a start ends the agent's session before and leaves others."""
    assert story.said["update"].code == 2 and "No such command" in story.said["update"].err
    before = story.shown["session"]
    assert f"Ended {before['context_id']}, which was active." in story.said["start another"].err
    assert story.all[f"sess-{before['session_id']}"]["ended_at"] is not None


# -- hooks -------------------------------------------------------------------------------------------


def test_a_hook_registers_a_session_that_takes_over_what_was_declared(story: Story) -> None:
    """S3-9, S3-21, S3-24, S3-35: one session of the agent is active, with the focus and scope that were
    declared for it, and it gets that when it begins."""
    [one] = story.active["in the hook's session"]
    assert (one["agent_session_id"], one["focus"], one["scope"]) == ("own-1", AUTH, ["src/auth/"])
    said = json.loads(story.hooked[0])["hookSpecificOutput"]
    assert said["hookEventName"] == "SessionStart"
    assert f"Briefing scoped to session: {AUTH} [src/auth/]" in said["additionalContext"]
    assert TESTS in said["additionalContext"]


def test_a_second_start_ends_the_session_before(story: Story) -> None:
    """S3-21, S3-32: of two that an agent's hooks begin, the later one is active."""
    assert [one["agent_session_id"] for one in story.active["after another start"]] == ["own-2"]


def test_events_of_hooks_have_the_session(story: Story) -> None:
    """S3-4, S3-22: what a tool did is in the session that its hook registered."""
    [one] = story.active["in the hook's session"]
    kinds = {event["event_type"] for event in story.events if f"sess-{event['session_id']}" == one["id"]}
    assert {"action", "file", "intent"} <= kinds


def test_who_is_at_work(story: Story) -> None:
    """S3-38: active sessions with what they touched, for conflicts to be found."""
    at_work = {one["id"]: one for one in story.who["sessions"]}
    [one] = story.active["in the hook's session"]
    assert [file["path"] for file in at_work[one["id"]]["files"]] == ["src/auth/login.py"]
    assert at_work[SECOND]["scope"] == ["tests/"]


# -- tools -------------------------------------------------------------------------------------------


def test_tools_start_list_and_end(story: Story) -> None:
    """S3-17…S3-19, S3-32, S3-33, S3-37: each says the session in its line; a start ends the one before."""
    line = re.compile(r'\[(sess-[0-9a-z]{8})\] codex: "mcp work" \(src/\)')
    begun = line.search(story.tools["start"])
    assert begun is not None
    said = story.all[begun[1]]
    assert (said["focus"], said["scope"], said["description"]) == ("mcp work", ["src/"], "by tools")
    assert begun[1] in story.tools["list"] and SECOND in story.tools["list"]
    assert f"Ended {begun[1]}, which was active." in story.tools["start again"]
    ended = re.search(ID, story.tools["end"])
    assert ended is not None and story.all[ended[0]]["scope"] is None
    assert story.all[ended[0]]["end_reason"] == "explicit"
    assert "No active session for agent 'codex'." in story.tools["nothing to end"]
    assert begun[1] not in story.tools["list"].replace(begun[1], "", 1)
    assert {begun[1], ended[0]} <= set(re.findall(ID, story.tools["list all"]))


def test_posted_events_find_their_session(story: Story) -> None:
    """S3-20, S3-36: the agent's active one, else the one that is named, else none, which stops nothing."""
    by_text = {
        event["payload"]["message"]: event["session_id"]
        for event in story.events
        if event["agent"] in ("codex", "cursor") and "message" in event["payload"]
    }
    begun = re.search(ID, story.tools["start"])
    assert begun is not None
    assert by_text == {
        "the key is in the repository": None,
        "it is cold": None,
        "it leaks": begun[0].removeprefix("sess-"),
        "it holds": SECOND.removeprefix("sess-"),
    }


def test_a_session_stays_its_agents(story: Story) -> None:
    """S3-1, S3-9, S3-20: what one agent posts into the session of another does not make it its own."""
    [posted] = [one for one in story.events if one["event_type"] == "outcome"]
    assert (posted["agent"], f"sess-{posted['session_id']}") == ("codex", SECOND)
    assert (story.all[SECOND]["agent_id"], story.all[SECOND]["ended_at"]) == ("cursor", None)
