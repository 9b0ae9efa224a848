"""The law of docs/certainty.md: a replay equals the directory as it was, or names each path that differs.

Hooks of four agents are called in this process, and some of the calls are killed before one of their effects
on the disk, fail at one of their calls of the file system, or get no time; agents die. The oracles are what
stood in the directory at each call, by the events that came with it, and at the last sign of life of each
turn. LOCUS_HUNT tries many more.
"""

import itertools
import os
import subprocess
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eventlog import agents
from eventlog.base.errors import EventLogError, NotFound
from eventlog.base.fs import REAL, FileSystem
from eventlog.base.paths import path_text
from eventlog.base.types import Event
from eventlog.blobs.tree import DIRECTORY, SKIPPED
from eventlog.hooks import record as live
from eventlog.query.lookup import TurnRef
from eventlog.replay.certainty import (
    EXACT,
    FAILED,
    NONE,
    PARTIAL,
    RUNNING,
    STATES,
    UNFINISHED,
    Certainty,
    certainty_of,
    effects_end,
    is_open,
)
from eventlog.replay.trees import TreeState
from eventlog.store import Store
from tests.conftest import examples
from tests.faultfs import ERRNOS, FaultFS
from tests.kills import in_child
from tests.worktree.support import compare_few, on_disk

Files = dict[bytes, tuple[bytes, bytes]]
Said = dict[str, Any]

# -- the law ---------------------------------------------------------------------------------------

PATHS = ("a", "b", "d/a", "d/b", "e/f/a")
EDITED = "d/a"
_numbers = itertools.count(1)


class Session:
    """One session of an agent: what its hooks say."""

    names: Mapping[str, str] = {
        "prompt": "UserPromptSubmit", "begin": "PreToolUse", "end": "PostToolUse", "stop": "Stop",
        "finish": "SessionEnd", "start": "SessionStart",
    }  # fmt: skip

    # The agent's tool that edits a file, and the argument that names it.
    editors: Mapping[str, tuple[str, str]] = {
        "claude-code": ("Edit", "file_path"), "codex": ("apply_patch", "command"),
        "gemini-cli": ("replace", "file_path"), "opencode": ("edit", "filePath"),
    }  # fmt: skip

    def __init__(self, agent: str, turn_key: str | None, names: Mapping[str, str] | None = None) -> None:
        self.agent = agent
        self.turn_key = turn_key
        self.names = names or self.names
        self.id = f"session_{next(_numbers)}"
        self.turn = self.tool = ""
        self.process: subprocess.Popen[bytes] | None = None

    def environ(self) -> dict[str, str]:
        """What tells a hook the agent's process, of the agents that say it."""
        if self.agent not in ("claude-code", "opencode"):
            return {}
        if self.process is None:
            self.process = subprocess.Popen(["cat"], stdin=subprocess.PIPE)
        return {"CLAUDE_PID": str(self.process.pid)}

    def die(self) -> None:
        if self.process is not None:
            self.process.communicate()
        self.process = None

    def say(self, what: str, work: str) -> Said:
        if what == "prompt":
            self.turn = f"turn_{next(_numbers)}"
        what, edits = what.removesuffix(" edit"), what.endswith(" edit")
        if what == "begin":
            self.tool = f"tool_{next(_numbers)}"
        payload: Said = {"session_id": self.id, "cwd": work, "hook_event_name": self.names[what]}
        if self.turn_key is not None and self.turn:
            payload[self.turn_key] = self.turn
        if what == "prompt":
            payload |= {
                "prompt": "Go",
                "message": {"id": self.turn},
                "parts": [{"type": "text", "text": "Go"}],
            }
        if self.agent == "gemini-cli":  # each of its hooks says when
            payload["timestamp"] = f"2026-11-20T09:00:00.{next(_numbers):09d}Z"
        if what in ("begin", "end"):
            payload |= {"tool_name": "Bash", "tool_input": {"command": self.tool}, "tool_use_id": self.tool}
            payload |= {"args": {"command": self.tool}} if self.agent == "opencode" else {}
        if edits:
            tool, argument = self.editors[self.agent]
            path = f"{work}/{EDITED}"
            named = f"*** Begin Patch\n*** Update File: {path}\n@@\n-1\n+2\n*** End Patch"
            arguments = {argument: named if self.agent == "codex" else path, "old_string": self.tool}
            payload |= {"tool_name": tool, "tool_input": arguments, "args": arguments}
        if what == "end":
            payload |= {"tool_response": {"stdout": ""}, "output": ""}
        if what == "start":
            payload |= {"source": "resume", "info": {}}
        return payload


_GEMINI = {
    "prompt": "BeforeAgent", "begin": "BeforeTool", "end": "AfterTool", "stop": "AfterAgent",
    "finish": "SessionEnd", "start": "SessionStart",
}  # fmt: skip
_OPENCODE = {
    "prompt": "chat.message", "begin": "tool.execute.before", "end": "tool.execute.after",
    "stop": "session.idle", "finish": "session.end", "start": "session.resumed",
}  # fmt: skip


def sessions() -> list[Session]:
    return [
        Session("claude-code", "prompt_id"),
        Session("codex", "turn_id"),
        Session("gemini-cli", None, _GEMINI),
        Session("opencode", "turn_id", _OPENCODE),
    ]


CHANGES = st.lists(st.tuples(st.sampled_from(PATHS), st.sampled_from(("1", "22", "x", None))), max_size=3)
WHAT = st.sampled_from(
    ("prompt", "begin", "end", "end", "begin edit", "end edit", "end edit", "stop", "finish", "start", "die")
)
HOWS = st.one_of(
    st.just(("whole",)),
    st.just(("whole",)),
    st.tuples(st.just("killed"), st.integers(0, 45), st.booleans()),
    st.tuples(st.just("fault"), st.integers(0, 120), st.sampled_from(sorted(ERRNOS)), st.booleans()),
    st.just(("late",)),
    st.tuples(st.just("short"), st.integers(0, 3)),
)
STEPS = st.lists(st.tuples(CHANGES, st.integers(0, 1), WHAT, HOWS), max_size=6)
# Turns with a beginning and an end are what it is about: each of these may go wrong too.
BEGIN, END = (st.tuples(CHANGES, st.just(0), st.just(what), HOWS) for what in ("prompt", "stop"))
RUNS = st.tuples(BEGIN, STEPS, END).map(lambda run: [run[0], *run[1], run[2]])


def change(work: Path, path: str, content: str | None) -> None:
    target = work / path
    if content is None:
        target.unlink(missing_ok=True)
        return
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text("" if content == "x" else content)
    target.chmod(0o755 if content == "x" else 0o644)


# The event by which a call of a turn is heard.
SAYS = {
    "prompt": ("intent", None), "begin": ("tool_start", None), "end": ("action", None),
    "begin edit": ("tool_start", None), "end edit": ("action", None),
    "stop": ("snapshot", "turn_end"),
}  # fmt: skip


def _descriptors() -> set[int]:
    return {fd for fd in map(int, os.listdir("/dev/fd")) if os.path.lexists(f"/dev/fd/{fd}")}


def is_whole(event: Event) -> bool:
    payload: Any = event["payload"]
    return (payload.get("capture") or {}).get("state") not in ("busy", "failed", "partial")


def is_closing(event: Event) -> bool:
    payload: Any = event["payload"]
    return (payload.get("capture") or {}).get("state") == "late" or "ended_by" in payload


class World:
    """A directory with a store, and what stood there whenever an event was recorded."""

    def __init__(self, place: Path, who: tuple[int, int]) -> None:
        self.work = place / "work"
        self.work.mkdir()
        (self.work / "a").write_text("1")
        Store.init(self.work / ".locus", repo_hash="0123456789ab", project_name="p").close()
        self.sessions = [sessions()[number] for number in who]
        self.stood: dict[str, Files] = {}  # by event id
        # The last call heard of each turn, and what stood there at its last capture and at all calls since,
        # and when its agent died.
        self.last: dict[tuple[str, str], tuple[str, list[Files]]] = {}

    def step(self, changes: list[tuple[str, str | None]], who: int, what: str, how: tuple[Any, ...]) -> None:
        for path, content in changes:
            change(self.work, path, content)
        session = self.sessions[who]
        if what == "die":
            self._die(session)
            return
        environ = {"LOCUS_HOOK_PATIENCE": "20", **session.environ()}
        call = agents.interpret(session.agent, session.say(what, str(self.work)))
        self._call(lambda fs: self._record(fs, call, environ), how)
        here = on_disk(self.work)
        new = [event for event in self.events() if event["event_id"] not in self.stood]
        # Before a command a capture that finds something is a snapshot; one that finds nothing changes
        # nothing.
        began = not what.startswith("begin") or any(
            e["operation"] == "tool" for e in new if e["tree_hash"] is not None
        )
        looked = began and all(is_whole(event) for event in new)
        for event in new:
            self.stood[str(event["event_id"])] = here
            recorded = event["event_type"], event["operation"] if what == "stop" else None
            # The capture of a call that was reported before is a snapshot alone.
            heard = recorded == SAYS.get(what) or (looked and event["operation"] == "tool")
            if event["agent_session_id"] == session.id and heard and not is_closing(event):
                place = session.id, str(event["agent_turn_id"])
                if looked:
                    self.last[place] = what, [here]
                elif place in self.last:
                    self.last[place] = what, [*self.last[place][1], here]

    def _die(self, session: Session) -> None:
        """The agent is gone; what it changed until now belongs to the turn that it had not ended."""
        if session.process is not None:
            for place, (what, stood) in self.last.items():
                if place == (session.id, session.turn) and what != "stop":
                    stood.append(on_disk(self.work))
        session.die()

    def _record(self, fs: FileSystem, call: Any, environ: Mapping[str, str]) -> None:
        live.record(fs, str(self.work / ".locus"), call, environ, lambda _: None, started_s=time.monotonic())

    def _call(self, record: Callable[[FileSystem], None], how: tuple[Any, ...]) -> None:
        kind, *arguments = how
        fs: FileSystem = REAL
        if kind == "killed":
            in_child(lambda: record(REAL), arguments[0], torn=arguments[1])
            return
        if kind == "fault":
            fs = FaultFS(arguments[0], ERRNOS[arguments[1]], persistent=arguments[2])
        with pytest.MonkeyPatch.context() as patched:
            if kind == "late":
                for moment in live.BUDGET_S:
                    patched.setitem(live.BUDGET_S, moment, 0.0)
            if kind == "short":
                compare_few(patched, arguments[0])
            before = _descriptors()
            try:
                record(fs)
            except (EventLogError, OSError):
                pass  # the hook notes it, and ends well
            for left in _descriptors() - before:
                os.close(left)  # as its process would

    def events(self) -> list[Event]:
        with Store.open(self.work / ".locus") as store:
            return list(store.events())

    def check(self) -> None:
        events = self.events()
        with Store.open(self.work / ".locus") as store:
            for session, turn in sorted({(str(e["session_id"]), e["turn"]) for e in events if e["turn"]}):
                ref = TurnRef(session, int(str(turn)))
                own = [e for e in events if (e["session_id"], e["turn"]) == (session, turn)]
                looks = [e for e in own if e["event_type"] in ("snapshot", "action")]
                for at in ("start", "end", *(str(e["event_id"]) for e in looks)):
                    try:
                        state = store.tree(ref, at)
                    except NotFound:
                        continue  # there is no tree, which is stated
                    self._holds(state, self._truth(own, at))
                    place = str(own[-1]["agent_session_id"]), str(own[-1]["agent_turn_id"])
                    if at == "end" and place in self.last:
                        self._holds(state, *self.last[place][1])

    def _truth(self, own: list[Event], at: str) -> Files | None:
        """What stood there at the moment; None where the log has no event of it."""
        if at == "start":
            at = next((str(e["event_id"]) for e in own if e["event_type"] == "intent"), "")
        elif at == "end":
            looks = [str(e["event_id"]) for e in own if e["event_type"] == "snapshot"]
            ended = any(e["operation"] == "turn_end" for e in own if e["event_type"] == "snapshot")
            at = looks[-1] if ended else ""
        else:  # the end of a tool that was reported twice is of the capture that found its changes
            found = [str(e["event_id"]) for e in own if e["cause"] == at and e["tree_hash"] is not None]
            at = found[0] if found else at
        return self.stood.get(at)

    def _holds(self, state: TreeState, truth: Files | None, *later: Files) -> None:
        """Each path is as it was, at one of these moments: what was made and undone between two captures,
        nobody has seen."""
        known = state.certainty
        if truth is None:
            assert known.doubt(".") is not None, (
                f"{state.at} of {state.turn}: nobody saw it, and it is {known}"
            )
            return
        files = files_of(state)
        for path in differing(files, truth):
            if any(path not in differing(files, one) for one in later):
                continue
            # A directory comes and goes with what is in it.
            assert known.doubts([path_text(path)]), f"{path!r} at {state.at} of {state.turn}: {known}"


def files_of(state: TreeState) -> Files:
    return {
        path: (entry.kind, b"" if entry.kind in (DIRECTORY, SKIPPED) else state.blobs.get(entry.id))
        for path, entry in state.walk()
    }


def differing(one: Files, other: Files) -> list[bytes]:
    return sorted(path for path in one.keys() | other.keys() if one.get(path) != other.get(path))


@settings(max_examples=examples(8, 3000))
@given(RUNS, st.tuples(st.integers(0, 3), st.integers(0, 3)))
def test_a_replay_equals_the_directory_or_names_what_differs(steps: list[Any], who: tuple[int, int]) -> None:
    """P1: for any sequence of hook calls of any adapter, files changing between them, any call killed at any
    effect, failing, out of time or out of disk."""
    with tempfile.TemporaryDirectory() as place:
        world = World(Path(place), who)
        try:
            for step in steps:
                world.step(*step)
            world.check()
        finally:
            for session in world.sessions:
                session.die()


# -- the rules, one by one -------------------------------------------------------------------------

Row = dict[str, Any]


def look(id: str, kind: str, tree: str | None = "t", success: bool | None = True, **capture: Any) -> Row:
    return _row(
        id, "snapshot", operation=kind, tree_hash=tree, success=success,
        payload={"capture": capture} if capture else {},
    )  # fmt: skip


def action(id: str, **capture: Any) -> Row:
    return _row(id, "action", payload={"capture": capture} if capture else {})


def changed(id: str, path: str, cause: str | None = None, **payload: Any) -> Row:
    return _row(id, "file", operation="edit", path=path, cause=cause, payload=payload)


def end(**payload: Any) -> Row:
    return _row("end", "turn", operation="end", payload=payload)


def _row(id: str, kind: str, **columns: Any) -> Row:
    nothing = dict.fromkeys(("operation", "path", "cause", "tree_hash", "success"))
    return {"event_id": id, "event_type": kind, "agent": "codex", **nothing, **columns}


START = look("start", "turn_start")
LAST = look("last", "turn_end")
EVERYTHING = (".",)


def states(*events: Row, running: bool = False) -> tuple[str, str]:
    return certainty_of(events, "start").state, certainty_of(events, running=running).state


def doubted(known: Certainty) -> tuple[str, ...]:
    return tuple(path for path, _ in known.paths)


def test_a_whole_capture_is_exact_and_a_turn_without_one_has_no_tree() -> None:
    """P1: only a capture that was whole makes a moment exact; where there was none there are no files."""
    assert states(START, changed("f", "a"), LAST, end()) == (EXACT, EXACT)
    assert states(look("s", "turn_start", None), changed("f", "a"), end()) == (NONE, NONE)
    assert doubted(certainty_of([action("a")])) == EVERYTHING
    assert {EXACT, PARTIAL, RUNNING, UNFINISHED, FAILED, NONE} == set(STATES)


def test_a_capture_of_some_paths_is_none_of_the_directory() -> None:
    """P1: after an edit only its own paths are exact: the others as far as the full captures around it
    agree."""
    edit = [action("e"), changed("f", "a", "e"), {**look("t", "tool", scoped_paths=["a"]), "cause": "e"}]
    more = [action("m"), changed("g", "b", "m"), {**look("u", "tool", scoped_paths=["b"]), "cause": "m"}]
    found = changed("h", "c")
    turn = [START, *edit, *more, found, LAST, end()]
    assert doubted(certainty_of(turn, "e")) == ("b", "c")
    assert doubted(certainty_of(turn, "t")) == ("b", "c")
    assert doubted(certainty_of(turn, "m")) == ("c",)
    again = [action("n"), changed("i", "a", "n"), {**look("v", "tool", scoped_paths=["a"]), "cause": "n"}]
    assert doubted(certainty_of([START, *edit, *again, LAST, end()], "e")) == ()
    assert doubted(certainty_of([START, *edit, *more], "e")) == EVERYTHING, "no full capture came"
    assert doubted(certainty_of([START, *edit, look("x", "tool"), *more], "e")) == ()
    assert states(*turn) == (EXACT, EXACT)


def test_a_capture_that_failed_is_no_earlier_one() -> None:
    """P1: the tree of an earlier capture is not passed for that of one that failed, at either end."""
    failed = look("last", "turn_end", None, None, state="busy")
    assert states(START, look("t", "tool"), failed, end()) == (EXACT, FAILED)
    assert doubted(certainty_of([START, failed])) == EVERYTHING
    assert states(look("start", "turn_start", None, None, state="failed"), LAST) == (FAILED, EXACT)
    # The hook of the prompt was killed: what the first tool left is not how the turn began.
    assert states(look("t", "tool"), LAST) == (FAILED, EXACT)


def test_a_turn_without_an_end_is_running_or_unfinished() -> None:
    """P1: without a capture of its end nothing of the end is known, whatever else came."""
    assert states(START, look("t", "tool"), running=True) == (EXACT, RUNNING)
    assert states(START, look("t", "tool")) == (EXACT, UNFINISHED)
    assert states(START, end(), running=True) == (EXACT, UNFINISHED)
    assert doubted(certainty_of([START, look("t", "tool")])) == EVERYTHING


def test_a_turn_that_was_closed_names_what_changed_late() -> None:
    """P1: of a turn whose process was gone exactly the paths that changed after the last capture are
    doubted."""
    late = look("last", "turn_end", state="late", paths=[["a", "nobody saw who"], ["d", "nor here"]], count=2)
    known = certainty_of([START, changed("f", "a"), late, end(closed_by="hook")])
    assert (known.state, doubted(known)) == (UNFINISHED, ("a", "d"))
    assert (known.doubt("a"), known.doubt("d/x"), known.doubt("b")) == ("nobody saw who", "nor here", None)
    assert doubted(certainty_of([START, late, end(closed_by="hook")], "last")) == ("a", "d")
    late["payload"]["capture"]["count"] = 60
    assert "." in doubted(certainty_of([START, late, end(closed_by="hook")]))
    hurried = {**late, "success": False}
    hurried["payload"] = {
        "capture": {"state": "late", "paths": [["a", "why"]], "count": 1, "pending_paths": ["b"]}
    }
    assert doubted(certainty_of([START, hurried, end(closed_by="hook")])) == ("a", "b")
    # It lived after all, and came to its end.
    assert certainty_of([START, late, end(closed_by="hook"), LAST, end()]).state == EXACT


def test_a_turn_that_goes_on_after_its_end_has_none() -> None:
    """P1: a turn that was resumed is running or unfinished, however it had ended, until its next end."""
    resumed = _row("r", "turn", operation="resume")
    for ended in (
        [LAST, end()],
        [look("l", "turn_end", state="late", paths=[], count=0), end(closed_by="hook")],
    ):
        went_on = [START, *ended, resumed, look("t", "tool")]
        assert states(*went_on) == (EXACT, UNFINISHED)
        assert states(*went_on, running=True) == (EXACT, RUNNING)
        assert doubted(certainty_of(went_on)) == EVERYTHING
        assert is_open(went_on) and not is_open([START, *ended])
        assert states(*went_on, LAST, end()) == (EXACT, EXACT)
        assert not is_open([*went_on, LAST, end()])


def test_a_capture_that_was_not_finished_names_its_paths() -> None:
    """P1: what was not compared in time is named; all of it where it is not named, or git reported
    nothing."""
    partial = look("last", "turn_end", success=False, state="partial", pending=2, pending_paths=["a", "d"])
    known = certainty_of([START, partial])
    assert (known.state, doubted(known)) == (PARTIAL, ("a", "d"))
    assert known.doubts(["b"]) == () and known.doubts(["d/x"]) == known.doubts(["d"]) == known.paths[1:]
    assert known.doubts() == known.doubts(["."]) == known.paths
    mores: list[Row] = [{"pending": 3}, {"warning": "git is gone"}, {"pending_paths": []}]
    for more in mores:
        partial["payload"]["capture"] |= more
        assert "." in doubted(certainty_of([START, partial]))


def test_the_changes_of_an_action_belong_to_its_moment() -> None:
    """P1: --at ACTION is the state with its changes, also after an error and somebody's own change."""
    frame = [action("act"), _row("e", "error"), changed("u", "a"), changed("f", "a", "act")]
    events = [START, *frame, look("t", "tool"), changed("g", "b"), LAST]
    events[5]["cause"] = "act"
    assert effects_end(events, 1) == 6
    assert certainty_of(events, "act").exact
    listed = [START, action("act"), changed("f", "a", "act"), changed("g", "b", causes=["act"]), action("x")]
    assert effects_end(listed, 1) == 4


def test_between_two_captures_what_the_later_one_found_is_doubted() -> None:
    """P1: it may have changed before the event or after it, but for what the event itself tells."""
    listed = [changed("f", "b"), changed("g", "new", old_path="old")]
    events = [START, _row("e", "tool_start"), *listed, LAST]
    assert doubted(certainty_of(events, "e")) == ("b", "new", "old")
    assert doubted(certainty_of(events, "f")) == ("new", "old")
    assert certainty_of([START, _row("e", "llm"), LAST], "e").exact
    # Where no later capture was whole, or it did not tell of all, nothing is known of what changed.
    for after in (
        look("last", "turn_end", None, None, state="busy"),
        look("last", "turn_end", success=False, state="partial", pending=1, pending_paths=["z"]),
        look("last", "turn_end", state="baseline"),
        look("last", "turn_end", changes=9000, told=0),
    ):
        assert "." in doubted(certainty_of([START, _row("e", "llm"), after], "e"))
    assert doubted(certainty_of([START, action("a", state="busy"), LAST], "a")) == EVERYTHING
    assert certainty_of([START, _row("e", "llm")], "e", running=True).state == RUNNING
    with pytest.raises(KeyError):
        certainty_of([START], "nowhere")


def test_a_tool_that_is_reported_after_the_last_capture_is_doubtful() -> None:
    """P1: what is reported of a turn after its end, with no capture after it, is no more certain."""
    late = [action("a"), changed("f", "a"), _row("t", "tool_start")]
    events = [START, LAST, end(), *late]
    assert states(*events) == (EXACT, EXACT)
    for one in late:
        known = certainty_of(events, one["event_id"])
        assert (known.state, doubted(known)) == (FAILED, EVERYTHING), one
    assert certainty_of(events, "end").exact
    assert certainty_of([*events, look("again", "tool")], "t").exact


def test_a_commit_is_exact_at_each_of_its_events() -> None:
    """P1: what git recorded is all that there was."""
    events = [START, changed("f", "a"), changed("g", "b"), LAST, end()]
    git = [{**event, "agent": "git"} for event in events]
    assert all(certainty_of(git, at).exact for at in ("start", "end", "f", "g"))
