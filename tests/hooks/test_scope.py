"""What the hook after a tool compares: the files of an edit, or all where that would prove too little."""

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from eventlog import agents
from eventlog.base.fs import REAL
from eventlog.base.types import Event
from eventlog.hooks import record as live
from eventlog.replay.certainty import certainty_of
from eventlog.store import Store
from tests.worktree.support import age, on_disk
from tests.worktree.test_capture import write


class Session:
    """A session of Claude Code in a directory with a store."""

    def __init__(self, work: Path) -> None:
        self.work = work
        for path in ("a", "b", "d/a", "d/b", "e/f"):
            write(work / path, path.encode())
        Store.init(work / ".locus").close()
        self.turn = "t1"
        self.say("UserPromptSubmit", prompt="Go")

    def say(self, name: str, tool: str | None = None, id: str = "1", **fields: Any) -> None:
        age(self.work)
        payload: dict[str, Any] = {
            "session_id": "s", "prompt_id": self.turn, "cwd": str(self.work), "hook_event_name": name,
            **fields,
        }  # fmt: skip
        if tool is not None:
            path = str(self.work / "d" / "a")
            given = fields.get("tool_input") or (
                {"file_path": path} if tool == "Edit" else {"command": "make"}
            )
            payload |= {"tool_name": tool, "tool_use_id": f"tool_{id}", "tool_input": given}
            payload |= {"tool_response": {}} if name == "PostToolUse" else {}
        call = agents.interpret("claude-code", payload)
        environ = {"LOCUS_HOOK_PATIENCE": "50"}
        live.record(REAL, str(self.work / ".locus"), call, environ, _fail, started_s=time.monotonic())

    def events(self) -> list[Event]:
        with Store.open(self.work / ".locus") as store:
            return list(store.events())

    def last_snapshot(self) -> tuple[Any, list[str]]:
        """The scope of the last snapshot, and the paths that changed in its frame."""
        events = self.events()
        last = max(n for n, event in enumerate(events) if event["event_type"] == "snapshot")
        paths = []
        for event in reversed(events[:last]):
            if event["event_type"] not in ("file", "action"):
                break
            paths += [str(event["path"])] if event["event_type"] == "file" else []
        payload: Any = events[last]["payload"]
        return (payload.get("capture") or {}).get("scoped_paths"), sorted(paths)


def _fail(error: BaseException) -> None:
    raise error


@pytest.fixture
def session(tmp_path: Path) -> Iterator[Session]:
    yield Session(tmp_path / "work")


def test_an_edit_compares_what_it_names_and_the_next_capture_finds_the_rest(session: Session) -> None:
    """P1, P7: the snapshot says what the edit's hook compared; a moment after it is not exact for what the
    next full capture finds, and exact for the edit's own file."""
    session.say("PreToolUse", "Edit")
    write(session.work / "d" / "a", b"edited")
    write(session.work / "e" / "f", b"by somebody else")
    session.say("PostToolUse", "Edit")
    assert session.last_snapshot() == (["d/a"], ["d/a"])
    session.say("Stop")

    events = session.events()
    action = next(event for event in events if event["event_type"] == "action")
    known = certainty_of(events, str(action["event_id"]))
    assert [path for path, _ in known.paths] == ["e/f"]
    late = next(event for event in events if event["path"] == "e/f")
    payload: Any = late["payload"]
    assert (late["cause"], payload["certainty"]) == (None, "probable")
    with Store.open(session.work / ".locus") as store:
        state = store.tree("last")
        assert state.certainty.exact
        assert {path for path, _ in state.walk()} == set(on_disk(session.work))


def test_an_edit_beside_a_command_captures_all(session: Session) -> None:
    """P7: what a command that runs beside the edit has changed is that command's, and is found at once."""
    session.say("PreToolUse", "Bash", "2")
    session.say("PreToolUse", "Edit")
    write(session.work / "d" / "a", b"edited")
    write(session.work / "e" / "f", b"by the command")
    session.say("PostToolUse", "Edit")
    assert session.last_snapshot() == (None, ["d/a", "e/f"])


def test_an_edit_that_ends_after_its_turn_captures_all(session: Session) -> None:
    """P1: the last capture of a turn that has its end is a full one, so its end is exact."""
    session.say("PreToolUse", "Edit")
    session.say("Stop")
    write(session.work / "d" / "a", b"edited late")
    write(session.work / "e" / "f", b"and another")
    session.say("PostToolUse", "Edit")
    assert session.last_snapshot() == (None, ["d/a", "e/f"])


def test_a_command_captures_all(session: Session) -> None:
    """P1: a tool that may change anything names nothing, whatever its arguments are."""
    session.say("PreToolUse", "Bash")
    write(session.work / "b", b"changed")
    session.say("PostToolUse", "Bash")
    assert session.last_snapshot() == (None, ["b"])


def test_an_edit_of_a_link_compares_what_it_leads_to(session: Session) -> None:
    """P1: a file that is named by way of a link is the one that changes."""
    (session.work / "link").symlink_to("d")
    session.say("PreToolUse", "Bash")
    session.say("PostToolUse", "Bash")
    write(session.work / "d" / "a", b"edited")
    payload = {"file_path": str(session.work / "link" / "a")}
    session.say("PreToolUse", "Edit", "3", tool_input=payload)
    session.say("PostToolUse", "Edit", "3", tool_input=payload)
    assert session.last_snapshot() == (["d/a"], ["d/a"])
