"""Many agents at once: eight hook processes at a time; what they received is in the log once (P1, P3)."""

import itertools
import threading
from collections import Counter, defaultdict
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from blake3 import blake3

from eventlog.base.names import event_id_of, session_id_of
from eventlog.store import Store
from tests.cli.hook_support import Agent, Codex, events, here, notes, project, replayed, unique
from tests.worktree.support import git


@dataclass
class Place:
    """A working directory. While somebody holds `still` no tool changes a file; hooks go on."""

    work: Path
    name: str | None  # of a linked worktree
    still: threading.Lock = field(default_factory=threading.Lock)


@dataclass(frozen=True)
class Done:
    """What one tool call did to a path; `content` is None for a deletion."""

    content: bytes | None
    action: str
    by_command: bool


class Oracle:
    """What the callers know: every call they made, and what it changed. It never looks into the store."""

    def __init__(self) -> None:
        self.said = itertools.count()
        self.calls: Counter[tuple[Any, ...]] = Counter()
        self.changes: dict[tuple[str | None, str], list[Done]] = defaultdict(list)
        self.ends: list[tuple[Agent, str, dict[Any, Any]]] = []

    def heard(self, agent: Agent, name: str, fields: dict[str, Any]) -> None:
        next(self.said)
        session, turn, subagent = agent.session, agent.turn, fields.get("agent_id")
        tool = fields.get("tool_use_id")
        place = agent.name, session, turn or None
        said: tuple[Any, ...] = {
            "SessionStart": ("session", "start", agent.name, session),
            "SessionEnd": ("session", "end", agent.name, session),
            "UserPromptSubmit": ("intent", fields.get("prompt"), *place),
            "Stop": ("turn", "end", fields.get("last_assistant_message"), *place),
            "PreToolUse": ("tool_start", tool, subagent, *place),
            "PostToolUse": ("action", tool, subagent, *place),
            "SubagentStart": ("subagent", "start", subagent, *place),
            "SubagentStop": ("subagent", "end", subagent, *place),
            "Notification": ("hook", fields.get("message"), *place),
        }[name]  # fmt: skip
        self.calls[said] = 1  # reported twice is recorded once
        if name == "UserPromptSubmit":
            self.calls["turn", "start", *place] = 1
            self.calls["session", "update", agent.name, session] = 1  # its title, from the first prompt


def recorded_calls(recorded: Iterable[dict[str, Any]]) -> "Counter[tuple[Any, ...]]":
    """The events of the log in the oracle's words; those that no caller sent as such are left out."""
    found: Counter[tuple[Any, ...]] = Counter()
    for e in recorded:
        kind, payload = e["event_type"], e["payload"]
        place = e["agent"], e["agent_session_id"], e["agent_turn_id"]
        if kind == "session":
            found[kind, e["operation"], e["agent"], e["agent_session_id"]] += 1
        elif kind == "intent":
            found[kind, payload["message"], *place] += 1
        elif kind == "turn" and e["operation"] == "end":
            found[kind, "end", payload["outcome"], *place] += 1
        elif kind == "turn":
            found[kind, e["operation"], *place] += 1
        elif kind in ("tool_start", "action"):
            found[kind, e["tool_use_id"], e["subagent_id"], *place] += 1
        elif kind == "subagent":
            found[kind, e["operation"], e["subagent_id"], *place] += 1
        elif kind == "hook":
            found[kind, payload["message"], *place] += 1
        elif kind not in ("sessions", "snapshot", "file"):
            found[kind, e["event_id"]] += 1
    return found


class _Told(Agent):
    """An agent that tells the oracle what it tells its hook."""

    oracle: Oracle
    place: Place

    def say(self, name: str, **fields: Any) -> None:
        super().say(name, **fields)
        self.oracle.heard(self, name, fields)


class ToldClaude(_Told):
    pass


class ToldCodex(_Told, Codex):
    pass


def tool_call(
    agent: _Told, path: str, old: str | None, new: str | None, *, command: bool, twice: bool, **fields: Any
) -> None:
    """One tool call from its beginning to its end; `twice`: its hook is installed twice."""
    place, target = agent.place, agent.work / path
    args: dict[str, Any]
    result: Any
    if command:
        tool, args = "Bash", {"command": f"make {path}"}
        result = "" if agent.name == "codex" else {"stdout": "", "stderr": "", "interrupted": False}
    elif agent.name == "codex":
        head = f"*** Add File: {path}\n" if old is None else f"*** Update File: {path}\n@@\n-{old}\n"
        tool, args = "apply_patch", {"command": f"*** Begin Patch\n{head}+{new}\n*** End Patch\n"}
        result = "Exit code: 0\nWall time: 0 seconds\nOutput:\nSuccess.\n"
    else:
        tool, args = "Write", {"file_path": str(target), "content": new}
        result = {
            "type": "update" if old else "create", "filePath": str(target), "originalFile": old,
            "structuredPatch": [], "userModified": False,
        }  # fmt: skip
    id = agent.begin(tool, args, **fields)
    with place.still:
        if new is None:
            target.unlink()
        else:
            aside = agent.work.parent / id
            aside.write_text(new)
            aside.replace(target)  # at once, so that no capture sees half of it
    content = None if new is None else new.encode()
    action = event_id_of(agent.name, "action", id)
    agent.oracle.changes[place.name, path].append(Done(content, action, command))
    with ThreadPoolExecutor(2) as pool:
        for one in [pool.submit(agent.end, id, tool, args, result, **fields) for _ in range(1 + twice)]:
            one.result()


def work_on(agent: _Told, name: str, calls: int, **fields: Any) -> None:
    """Tool calls one after the other: a file is added, changed by an edit tool and a command, deleted."""
    old: str | None = None
    for number in range(calls):
        step = number % 4
        new = None if step == 3 else f"{name} {number} {unique('text')}\n"
        path = f"src/{name}-{number // 4:03d}.txt"
        tool_call(agent, path, old, new, command=step >= 2, twice=number % 5 == 1, **fields)
        old = new


def run_session(agent: _Told, turns: int, calls: int, *, subagents: bool) -> None:
    """A session: turns of two callers at once, of which one may be a subagent."""
    for turn in range(1, turns + 1):
        agent.prompt(f"Do part {turn} of {agent.session}")
        agent.say("Notification", message=unique("note"))
        fields = {"agent_id": unique("sub"), "agent_type": "general-purpose"} if subagents else {}
        if subagents:
            agent.say("SubagentStart", **fields)
        with ThreadPoolExecutor(2) as pool:
            jobs = [
                pool.submit(work_on, agent, f"{agent.session}-{turn}-a", calls),
                pool.submit(work_on, agent, f"{agent.session}-{turn}-b", calls, **fields),
            ]
            for job in jobs:
                job.result()
        if subagents:
            agent.say("SubagentStop", **fields)
        with agent.place.still:
            agent.stop(f"Did part {turn}.")
            agent.oracle.ends.append((agent, agent.turn, here(agent.work)))
    agent.finish()


def test_eight_callers_at_once_lose_and_misnumber_nothing(tmp_path: Path, hunt_minutes: float) -> None:
    """P1, P3, P7, I1, I2, I8, I14, S1-57: four sessions of two agents in two worktrees, with parallel tool
    calls, subagents and hooks installed twice: every call is in the log once, numbers have neither holes nor
    doubles, no change has a wrong cause, each turn's replay is what the directory held at its end."""
    turns, calls = (4, 15) if hunt_minutes else (2, 4)
    main = project(tmp_path)
    linked = tmp_path / "linked"
    git(main, "worktree", "add", "-q", "-b", "side", str(linked))
    oracle = Oracle()
    places = Place(main, None), Place(linked, "linked")
    agents: list[_Told] = []
    for place, kind in itertools.product(places, (ToldClaude, ToldCodex)):
        agent = kind(place.work)
        agent.oracle, agent.place = oracle, place
        agents.append(agent)
        agent.start()

    with ThreadPoolExecutor(len(agents)) as pool:
        jobs = [
            pool.submit(run_session, agent, turns, calls, subagents=agent.name == "claude-code")
            for agent in agents
        ]
        for job in jobs:
            job.result()

    assert next(oracle.said) > (1000 if hunt_minutes else 150)
    assert notes(main) == ""
    recorded = events(main)
    assert recorded_calls(recorded) == oracle.calls
    check_numbers(recorded, turns)
    check_changes(recorded, oracle)
    for number, (ended, turn, files) in enumerate(oracle.ends):
        (end,) = [
            e for e in recorded
            if e["event_type"] == "turn" and e["operation"] == "end" and e["agent_turn_id"] == turn
        ]  # fmt: skip
        assert replayed(main, end, tmp_path / f"out{number}") == files, (ended.session, turn)
    with Store.open(main / ".locus") as store:
        assert store.verify("deep") == []
        store.seal()
        assert [dict(event) for event in store.events()] == recorded


def check_numbers(recorded: list[dict[str, Any]], turns: int) -> None:
    positions = [e["position"] for e in recorded]
    assert positions == sorted(set(positions))  # a repeated event keeps its place and is not seen
    assert len({e["event_id"] for e in recorded}) == len(recorded)
    counted: dict[tuple[Any, Any], list[int]] = defaultdict(list)
    numbered: dict[Any, dict[Any, set[int]]] = defaultdict(lambda: defaultdict(set))
    for e in recorded:
        if e["seq"] is not None:
            counted[e["session_id"], e["turn"] or 0].append(e["seq"])
        if e["agent_turn_id"] is not None and e["event_type"] != "session":
            numbered[e["session_id"]][e["agent_turn_id"]].add(e["turn"])
    for place, seqs in counted.items():
        assert seqs == list(range(1, len(seqs) + 1)), place
    for session, by_turn in numbered.items():
        assert sorted(by_turn.values(), key=min) == [{n} for n in range(1, turns + 1)], session
    names = [e["context_id"] for e in recorded if e["seq"] is not None]
    assert len(set(names)) == len(names)


def check_changes(recorded: list[dict[str, Any]], oracle: Oracle) -> None:
    payload: dict[tuple[str | None, str], list[dict[str, Any]]] = defaultdict(list)
    for e in recorded:
        if e["event_type"] == "file":
            payload[e["worktree"], e["path"]].append(e)
    assert payload.keys() == oracle.changes.keys()
    for key, done in oracle.changes.items():
        hashes = [
            None if one.content is None else f"blake3:{blake3(one.content).hexdigest()}" for one in done
        ]
        assert [e["after_hash"] for e in payload[key]] == hashes, key
        assert [e["before_hash"] for e in payload[key]] == [None, *hashes[:-1]], key
        for event, one in zip(payload[key], done, strict=True):
            if event["cause"] != one.action:
                assert one.by_command, (key, event["cause"], one.action)
                assert event["cause"] is None, key
                assert one.action in event["payload"].get("causes", [one.action]), key


def test_a_change_counts_in_the_turn_of_its_action_whoever_found_it(tmp_path: Path) -> None:
    """P7: of two sessions in one directory, what an edit tool changed has its action and its turn, also
    where the prompt or a tool of the other found it; what one of two commands did is in their turn."""
    work = project(tmp_path)
    one, other = Agent(work), Codex(work)
    one.prompt("First")
    names = {"a.txt": "at a prompt", "b.txt": "after a tool"}
    begun = {}
    for path, text in names.items():
        args = {"file_path": str(work / path), "content": text}
        begun[path] = one.begin("Write", args, agent_id="sub1"), args
    (work / "a.txt").write_text(names["a.txt"])
    other.prompt("Second")
    (work / "b.txt").write_text(names["b.txt"])
    other.shell("echo 1 > c.txt")
    for id, args in begun.values():
        one.end(id, "Write", args, {"originalFile": None}, agent_id="sub1")
    builds = [one.begin("Bash", {"command": "make"}) for _ in range(2)]
    (work / "d.txt").write_text("of one of them")
    for id in builds:
        one.end(id, "Bash", {"command": "make"}, {"stdout": ""})
    one.stop()
    other.stop()

    payload = {
        e["path"]: (e["agent"], e["agent_session_id"], e["turn"], e["cause"]) for e in events(work, "file")
    }
    place = "claude-code", one.session, 1
    assert payload["a.txt"] == (*place, event_id_of("claude-code", "action", begun["a.txt"][0]))
    assert payload["b.txt"] == (*place, event_id_of("claude-code", "action", begun["b.txt"][0]))
    assert payload["c.txt"][:3] == ("codex", other.session, 1)
    assert payload["d.txt"] == (*place, None)


def test_the_end_of_one_turn_finds_what_anothers_command_did(tmp_path: Path) -> None:
    """P7: while a command of B runs, A's Stop finds what it did: in B's turn, with B's call, never in A's."""
    work = project(tmp_path)
    one, other = Agent(work), Agent(work)
    one.prompt("First")
    other.prompt("Second")
    begun = other.begin("Bash", {"command": "mv readme.md src"})
    (work / "readme.md").rename(work / "src/readme.md")
    one.stop()
    other.end(begun, "Bash", {"command": "mv readme.md src"}, {"stdout": ""})
    other.stop()

    (moved,) = events(work, "file")
    assert moved["agent_session_id"] == other.session
    assert moved["cause"] == event_id_of("claude-code", "action", begun)
    assert moved["payload"]["certainty"] == "probable"
    with Store.open(work / ".locus") as store:
        (row,) = store.query("select session_id from turns where len(files_modified) > 0").rows
    assert row == (session_id_of("claude-code", other.session),)


def test_codex_subagents_write_while_their_turn_waits(tmp_path: Path) -> None:
    """P7: what a subagent of Codex does by shell, while the main agent waits for it, has that call as cause
    and is in the turn that started the subagent, which its hooks do not name; between two nobody guesses."""
    work = project(tmp_path)
    agent = Codex(work)
    agent.start()
    turn = agent.prompt("Have it made")
    waits = agent.begin("collaborationwait_agent", {"timeout_ms": 1000})
    subagents = [{"agent_id": "sub1", "turn_id": "inner1"}, {"agent_id": "sub2", "turn_id": "inner2"}]
    first = agent.begin("Bash", {"command": "make a"}, **subagents[0])
    (work / "a.txt").write_text("a")
    agent.end(first, "Bash", {"command": "make a"}, "", **subagents[0])
    both = [agent.begin("Bash", {"command": "make b"}, **one) for one in subagents]
    (work / "b.txt").write_text("b")
    for id, fields in zip(both, subagents, strict=True):
        agent.end(id, "Bash", {"command": "make b"}, "", **fields)
    agent.end(waits, "collaborationwait_agent", {"timeout_ms": 1000}, "")
    agent.stop()

    payload = {e["path"]: e for e in events(work, "file")}
    assert {e["agent_turn_id"] for e in payload.values()} == {turn}
    assert payload["a.txt"]["cause"] == event_id_of("codex", "action", first)
    assert payload["b.txt"]["cause"] is None
    assert set(payload["b.txt"]["payload"]["causes"]) == {event_id_of("codex", "action", id) for id in both}
    assert {e["tool"] for e in events(work, "action")} == {"Bash", "wait_agent"}
    with Store.open(work / ".locus") as store:
        assert store.query("select files_modified from turns").rows == [(["a.txt", "b.txt"],)]
