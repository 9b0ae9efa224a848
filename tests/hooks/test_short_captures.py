"""Full captures among so many files that no hook has time to compare each with its row."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from eventlog.base.types import Event
from eventlog.hooks import record
from eventlog.store import Store
from tests.hooks.test_scope import Session
from tests.worktree.support import compare_few, on_disk
from tests.worktree.test_capture import write


@pytest.fixture
def session(tmp_path: Path) -> Iterator[Session]:
    """One with a whole first capture, of which captures that run out of time compare every row in turn."""
    session = Session(tmp_path / "work")
    session.say("Stop")
    yield session


def changes(session: Session) -> list[Event]:
    return [event for event in session.events() if event["event_type"] == "file"]


def payload(event: Event) -> Any:
    return event["payload"]


def last(session: Session, kind: str) -> Any:
    return [event for event in session.events() if event["event_type"] == kind][-1]


def command(session: Session, id: str, **written: bytes) -> None:
    session.say("PreToolUse", "Bash", id)
    for path, data in written.items():
        write(session.work / path, data)
    session.say("PostToolUse", "Bash", id)


def test_what_a_capture_without_time_finds_is_recorded(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    """P4, P7: each capture compares other rows. Its changes are events and its tree has them; its snapshot
    says that it is partial, and no moment near it is exact."""
    session.turn = "t2"
    session.say("UserPromptSubmit", prompt="Go on")
    with monkeypatch.context() as short:
        compare_few(short, 3)
        command(session, "1", a=b"by the first")
        found = [event["path"] for event in changes(session)]
        for number in range(2, 6):
            command(session, str(number))
        assert sorted({*found, *(event["path"] for event in changes(session))}) == ["a"]
        snapshot = last(session, "snapshot")
        assert snapshot["success"] is False and payload(snapshot)["capture"]["state"] == "partial"
    session.say("Stop")
    with Store.open(session.work / ".locus") as store:
        state = store.tree("last")
        assert state.certainty.exact and {path for path, _ in state.walk()} == set(on_disk(session.work))
        known = store.tree("last", at=str(snapshot["event_id"])).certainty
        assert all(known.doubt(path) is not None for path in payload(snapshot)["capture"]["pending_paths"])
    assert [event["path"] for event in changes(session)] == ["a"], "once"


def test_a_change_found_after_a_capture_without_time_may_be_older(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    """P7: the capture before did not reach the path: whose change it is, is probable, and never surely a
    person's."""
    session.turn = "t2"
    monkeypatch.setattr(record, "EARLY_CAPTURE_FILES_MAX", 0)
    with monkeypatch.context() as short:
        compare_few(short, 1)
        write(session.work / "e" / "f", b"changed between the turns")
        session.say("UserPromptSubmit", prompt="Go on")
        assert not changes(session), "the first row is another"
    command(session, "1", b=b"by the command")
    by_path = {event["path"]: payload(event) for event in changes(session)}
    assert by_path.keys() == {"b", "e/f"}
    assert {fields["certainty"] for fields in by_path.values()} == {"probable"}
    command(session, "2", a=b"by another")
    assert "certainty" not in payload(changes(session)[-1]), "the capture before was whole"


def test_nobody_is_named_for_a_change_between_turns_that_may_be_older(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    """P7: with a capture before that did not reach it, a change at a prompt may be the last turn's."""
    session.turn = "t2"
    with monkeypatch.context() as short:
        compare_few(short, 1)
        session.say("UserPromptSubmit", prompt="Go on")
    session.say("Stop")
    write(session.work / "b", b"by a person")
    session.turn = "t3"
    session.say("UserPromptSubmit", prompt="Go on")
    assert changes(session)[-1]["source"] == "user", "both captures were whole"
    with monkeypatch.context() as short:
        compare_few(short, 1)
        session.say("Stop")
    write(session.work / "e" / "f", b"by a person or not")
    session.turn = "t4"
    session.say("UserPromptSubmit", prompt="Go on")
    assert (changes(session)[-1]["path"], changes(session)[-1]["source"]) == ("e/f", "system")


def test_an_edit_is_seen_however_short_the_capture(session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    """P1: beside a command an edit captures all; what it names comes first."""
    session.turn = "t2"
    session.say("UserPromptSubmit", prompt="Go on")
    session.say("PreToolUse", "Bash", "2")
    session.say("PreToolUse", "Edit")
    write(session.work / "d" / "a", b"edited")
    with monkeypatch.context() as short:
        compare_few(short, 0)
        session.say("PostToolUse", "Edit")
    edited = changes(session)[-1]
    assert edited["path"] == "d/a" and edited["cause"] == last(session, "action")["event_id"]
    assert "certainty" not in payload(edited)


def test_edits_after_a_capture_without_time_compare_what_they_name(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    """P4, P7: they need the tree of the last capture, and not a whole one; it stays one that was short."""
    session.turn = "t2"
    monkeypatch.setattr(record, "EARLY_CAPTURE_FILES_MAX", 0)
    with monkeypatch.context() as short:
        compare_few(short, 1)
        session.say("UserPromptSubmit", prompt="Go on")
    session.say("PreToolUse", "Edit")
    write(session.work / "d" / "a", b"edited")
    session.say("PostToolUse", "Edit")
    assert session.last_snapshot() == (["d/a"], ["d/a"])
    command(session, "2", a=b"by the command or earlier")
    assert payload(changes(session)[-1])["certainty"] == "probable", "the edit's capture was of one file"


def test_a_first_tree_may_come_from_a_capture_without_time(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    """P4: where the process beside the hooks made the first capture, no later one may ever be whole."""
    for name in session.work.joinpath(".locus", "live").iterdir():
        name.unlink()  # as if a hook had never recorded a tree; the stat cache stays
    session.turn = "t2"
    compare_few(monkeypatch, 3)
    session.say("UserPromptSubmit", prompt="Go on")
    assert not list(session.work.joinpath(".locus", "live").glob("*.unfinished"))
    write(session.work / "d" / "a", b"edited")
    session.say("PreToolUse", "Edit")
    session.say("PostToolUse", "Edit")
    assert changes(session)[-1]["path"] == "d/a"


def test_a_call_before_a_capture_without_time_may_have_made_what_is_found_next(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    """P7: its own capture did not reach the path; the next call's does, and both are named."""
    session.turn = "t2"
    session.say("UserPromptSubmit", prompt="Go on")
    monkeypatch.setattr(record, "EARLY_CAPTURE_FILES_MAX", 0)
    with monkeypatch.context() as short:
        compare_few(short, 1)
        session.say("PreToolUse", "Bash", "1")
        write(session.work / "e" / "f", b"by the first")
        session.say("PostToolUse", "Bash", "1")
        session.say("PreToolUse", "Bash", "2")
        session.say("PostToolUse", "Bash", "2")
    command(session, "3")
    actions = [event["event_id"] for event in session.events() if event["event_type"] == "action"]
    found = changes(session)[-1]
    assert found["path"] == "e/f" and found["cause"] is None
    assert set(payload(found)["causes"]) == set(actions)
