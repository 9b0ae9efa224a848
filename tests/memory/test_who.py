"""Who is at work, on which files, and where two of them meet: from what the log has, not from words."""

from pathlib import Path

import pytest

from eventlog.memory import briefing, intent, who
from eventlog.memory.intent import Intent
from eventlog.store import Store


def changed(store: Store, one: Intent, path: str, **columns: object) -> str:
    at = store.append(
        [
            {
                "event_type": "file",
                "operation": "edit",
                "agent": one.agent,
                "session_id": one.session_id,
                "path": path,
                "payload": {},
                **columns,
            }
        ]
    )
    return str(next(iter(store.events(at[0], at[0] + 1)))["event_id"])


def begins(store: Store, one: Intent, path: str, tool_use_id: str, **args: object) -> None:
    store.append(
        [
            {
                "event_type": "tool_start",
                "agent": one.agent,
                "session_id": one.session_id,
                "turn": 1,
                "tool": "Edit",
                "tool_use_id": tool_use_id,
                "payload": {"args": {"file_path": path, **(args or {"new_string": "x"})}},
            }
        ]
    )


@pytest.mark.fast
def test_who_is_at_work_and_what_each_touched(store: Store) -> None:
    """S3-38: the active sessions, the latest first, with the paths that file events name."""
    one = intent.start(store, "claude-code", "auth", ["src/auth/"])
    two = intent.start(store, "cursor", "tests")
    changed(store, two, "tests/a.py")
    changed(store, one, "src/b.py")
    last = changed(store, one, "src/a.py")
    workers = who.who(store)

    assert [(w.intent.name, [t.path for t in w.touches]) for w in workers] == [
        (one.name, ["src/a.py", "src/b.py"]),
        (two.name, ["tests/a.py"]),
    ]
    assert (workers[0].touches[0].event_id, workers[0].touches[0].how) == (last, "changed")
    assert who.overlaps(workers) == []
    reported = who.fields(workers[0])
    assert (reported["id"], reported["scope"], reported["files"][0]["path"]) == (
        one.name,
        ["src/auth/"],
        "src/a.py",
    )


def test_two_that_change_one_file_learn_of_each_other(store: Store) -> None:
    """S3-38: A changed what B changed and has not ended; the later one comes to it; cited by both events."""
    one, two = intent.start(store, "claude-code", "auth"), intent.start(store, "cursor", "tests")
    before = changed(store, two, "src/a.py")
    after = changed(store, one, "src/a.py", worktree="feature")
    (met,) = who.overlaps(who.who(store))

    assert (met.path, met.first.name, met.second.name, met.how) == ("src/a.py", two.name, one.name, "changed")
    assert met.event_ids == (after, before)
    assert met.words() == (
        f"{one.name} changed src/a.py, which {two.name} changed and has not ended (in another worktree)"
    )
    intent.end(store, intent.find(store, two.name))
    assert who.overlaps(who.who(store)) == []


def test_an_edit_that_has_begun_is_recorded_before_it_happens(store: Store, tmp_path: Path) -> None:
    """S3-38: a session is about to change what another changed; an edit that ended, or a read, is none."""
    one, two = intent.start(store, "claude-code", "auth"), intent.start(store, "cursor", "tests")
    changed(store, two, "src/a.py")
    begins(store, one, str(tmp_path / "src/a.py"), "t1")
    begins(store, one, str(tmp_path / "src/a.py"), "t2", limit=3)
    begins(store, one, "/elsewhere/src/a.py", "t3")
    (met,) = who.overlaps(who.who(store))
    assert met.words() == (
        f"{one.name} is about to change src/a.py, which {two.name} changed and has not ended"
    )
    store.append(
        [
            {
                "event_type": "action",
                "tool": "Edit",
                "tool_use_id": "t1",
                "session_id": one.session_id,
                "success": False,
                "payload": {},
            }
        ]
    )
    assert who.overlaps(who.who(store)) == []


def test_two_that_are_about_to_change_one_file_have_not_met(store: Store, tmp_path: Path) -> None:
    """S3-38: a warning needs a fact: somebody changed it."""
    for agent in ("claude-code", "cursor"):
        begins(store, intent.start(store, agent, agent), str(tmp_path / "a.py"), f"t-{agent}")

    assert who.overlaps(who.who(store)) == []


def test_scopes_that_meet_are_reported(store: Store) -> None:
    """S3-38: scopes within each other, and changes within the scope of another."""
    one = intent.start(store, "claude-code", "auth", ["src/auth/", "docs"])
    two = intent.start(store, "cursor", "login", ["src/auth/login.py"])
    three = intent.start(store, "codex", "parser", ["srcs"])
    event = changed(store, three, "docs/auth.md")
    met = who.overlaps(who.who(store))

    assert [(o.path, o.first.name, o.second.name, o.how) for o in met] == [
        ("src/auth/login.py", one.name, two.name, "scope"),
        ("docs/auth.md", one.name, three.name, "changed in scope"),
    ]
    assert met[0].words() == f"{two.name} and {one.name} both have src/auth/login.py in their scope"
    assert met[1].words() == f"{three.name} changed docs/auth.md, which is in the scope of {one.name}"
    assert met[1].event_ids[0] == event
    assert who.overlap_fields(met[1])["event_ids"][0] == event


@pytest.mark.parametrize(
    ("path", "scope", "within"),
    [
        ("src/auth/a.py", ["src/auth/"], True),
        ("src/auth/a.py", ["src/auth"], True),
        ("src/auth", ["src/auth/"], True),
        ("src/author.py", ["src/auth"], False),
        ("src/a.py", ["."], True),
        ("src/a.py", [], False),
    ],
)
def test_a_path_within_a_scope(path: str, scope: list[str], within: bool) -> None:
    """S3-25: a scope is files and folders; a folder may end with a slash."""
    assert briefing.is_within(path, scope) is within
