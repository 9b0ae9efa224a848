"""The law of docs/certainty.md: a replay equals the directory as it was, or names each path that differs.

Hooks of four agents are called in this process, and some of the calls are killed before one of their effects
on the disk, fail at one of their calls of the file system, or get no time. The oracle is what stood in the
directory at each call, by the events that came with it. LOCUS_HUNT tries many more.
"""

import itertools
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eventlog.agents import adapters, live
from eventlog.errors import EventLogError, NotFound
from eventlog.fs import REAL, FileSystem
from eventlog.paths import path_text
from eventlog.query.lookup import TurnRef
from eventlog.replay.trees import TreeState
from eventlog.snapshots.tree import DIRECTORY, SKIPPED
from eventlog.store import Store
from eventlog.types import Event
from tests.conftest import examples
from tests.faultfs import ERRNOS, FaultFS
from tests.kills import in_child
from tests.snapshots.worktree_support import on_disk

Files = dict[bytes, tuple[bytes, bytes]]
Said = dict[str, Any]

# -- the law ---------------------------------------------------------------------------------------

PATHS = ("a", "b", "d/a", "d/b", "e/f/a")
_numbers = itertools.count(1)


class Session:
    """One session of an agent: what its hooks say."""

    names: Mapping[str, str] = {
        "prompt": "UserPromptSubmit", "begin": "PreToolUse", "end": "PostToolUse", "stop": "Stop",
        "finish": "SessionEnd",
    }  # fmt: skip

    def __init__(self, agent: str, turn_key: str | None, names: Mapping[str, str] | None = None) -> None:
        self.agent = agent
        self.turn_key = turn_key
        self.names = names or self.names
        self.id = f"session_{next(_numbers)}"
        self.turn = self.tool = ""

    def say(self, what: str, work: str) -> Said:
        if what == "prompt":
            self.turn = f"turn_{next(_numbers)}"
        if what == "begin":
            self.tool = f"tool_{next(_numbers)}"
        said: Said = {"session_id": self.id, "cwd": work, "hook_event_name": self.names[what]}
        if self.turn_key is not None and self.turn:
            said[self.turn_key] = self.turn
        if what == "prompt":
            said |= {
                "prompt": "Go",
                "message": {"id": self.turn},
                "parts": [{"type": "text", "text": "Go"}],
                "timestamp": f"2026-11-20T09:00:{next(_numbers) % 60:02d}.{next(_numbers):06d}Z",
            }
        if what in ("begin", "end"):
            said |= {"tool_name": "Bash", "tool_input": {"command": self.tool}, "tool_use_id": self.tool}
            said |= {"args": {"command": self.tool}} if self.agent == "opencode" else {}
        if what == "end":
            said |= {"tool_response": {"stdout": ""}, "output": ""}
        return said


_GEMINI = {
    "prompt": "BeforeAgent", "begin": "BeforeTool", "end": "AfterTool", "stop": "AfterAgent",
    "finish": "SessionEnd",
}  # fmt: skip
_OPENCODE = {
    "prompt": "chat.message", "begin": "tool.execute.before", "end": "tool.execute.after",
    "stop": "session.idle", "finish": "session.end",
}  # fmt: skip


def sessions() -> list[Session]:
    return [
        Session("claude-code", "prompt_id"),
        Session("codex", "turn_id"),
        Session("gemini-cli", None, _GEMINI),
        Session("opencode", "turn_id", _OPENCODE),
    ]


CHANGES = st.lists(st.tuples(st.sampled_from(PATHS), st.sampled_from(("1", "22", "x", None))), max_size=3)
WHAT = st.sampled_from(("prompt", "begin", "end", "end", "stop", "finish"))
HOWS = st.one_of(
    st.just(("whole",)),
    st.just(("whole",)),
    st.tuples(st.just("killed"), st.integers(0, 45), st.booleans()),
    st.tuples(st.just("fault"), st.integers(0, 120), st.sampled_from(sorted(ERRNOS)), st.booleans()),
    st.just(("late",)),
)
STEPS = st.lists(st.tuples(CHANGES, st.integers(0, 3), WHAT, HOWS), min_size=2, max_size=9)


def change(work: Path, path: str, content: str | None) -> None:
    target = work / path
    if content is None:
        target.unlink(missing_ok=True)
        return
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text("" if content == "x" else content)
    target.chmod(0o755 if content == "x" else 0o644)


class World:
    """A directory with a store, and what stood there whenever an event was recorded."""

    def __init__(self, place: Path) -> None:
        self.work = place / "work"
        self.work.mkdir()
        (self.work / "a").write_text("1")
        Store.init(self.work / ".locus", repo_hash="0123456789ab", project_name="p").close()
        self.sessions = sessions()
        self.stood: dict[str, Files] = {}  # by event id

    def step(self, changes: list[tuple[str, str | None]], who: int, what: str, how: tuple[Any, ...]) -> None:
        for path, content in changes:
            change(self.work, path, content)
        session = self.sessions[who]
        call = adapters.interpret(session.agent, session.say(what, str(self.work)))
        self._call(lambda fs: self._record(fs, call), how)
        here = on_disk(self.work)
        for event in self.events():
            self.stood.setdefault(str(event["event_id"]), here)

    def _record(self, fs: FileSystem, call: Any) -> None:
        environ = {"LOCUS_HOOK_PATIENCE": "20"}
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
            try:
                record(fs)
            except (EventLogError, OSError):
                pass  # the hook notes it, and ends well

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
                        continue  # there is no tree, which is said
                    self._holds(state, self._truth(own, at))

    def _truth(self, own: list[Event], at: str) -> Files | None:
        """What stood there at the moment; None where the log has no event of it."""
        if at == "start":
            at = next((str(e["event_id"]) for e in own if e["event_type"] == "intent"), "")
        elif at == "end":
            looks = [str(e["event_id"]) for e in own if e["event_type"] == "snapshot"]
            ended = any(e["operation"] == "turn_end" for e in own if e["event_type"] == "snapshot")
            at = looks[-1] if ended else ""
        return self.stood.get(at)

    def _holds(self, state: TreeState, truth: Files | None) -> None:
        known = state.certainty
        if truth is None:
            assert known.doubt(".") is not None, (
                f"{state.at} of {state.turn}: nobody saw it, and it is {known}"
            )
            return
        for path in differing(files_of(state), truth):
            # A directory comes and goes with what is in it.
            assert known.doubts([path_text(path)]), f"{path!r} at {state.at} of {state.turn}: {known}"


def files_of(state: TreeState) -> Files:
    return {
        path: (entry.kind, b"" if entry.kind in (DIRECTORY, SKIPPED) else state.blobs.get(entry.id))
        for path, entry in state.walk()
    }


def differing(one: Files, other: Files) -> list[bytes]:
    return sorted(path for path in one.keys() | other.keys() if one.get(path) != other.get(path))


@settings(max_examples=examples(12, 3000))
@given(STEPS)
def test_a_replay_equals_the_directory_or_names_what_differs(steps: list[Any]) -> None:
    """P1: for any sequence of hook calls of any adapter, files changing between them, any call killed at any
    effect, failing, out of time or out of disk."""
    with tempfile.TemporaryDirectory() as place:
        world = World(Path(place))
        for step in steps:
            world.step(*step)
        world.check()
