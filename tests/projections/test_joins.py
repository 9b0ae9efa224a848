"""Columns that join views: who asked for a call or a change, and what came of it (docs/sql.md)."""

import shutil
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eventlog.query.binding import Bound
from eventlog.query.connection_cache import ConnectionCache
from eventlog.query.views import COLUMNS_OF, EXTRAS
from tests.conftest import examples
from tests.projections.logs import Log, event, events

_BASE_US = 1_700_000_000_000_000
_FULL = "1a2b3c4" + "0" * 33


def _tell(log: Log, *items: "tuple[str, dict[str, Any]]") -> None:
    """Append events (type, columns), a second apart; ids are their numbers."""
    place = {"agent": "a", "session_id": "s1", "turn": 1, "repo": "r"}
    log.append(
        *(
            event(kind, n, **{"occurred_at": _BASE_US + n * 1_000_000, **place, **columns})
            for n, (kind, columns) in enumerate(items)
        )
    )


def _change(
    turn: int, before: "str | None", after: "str | None", **columns: Any
) -> "tuple[str, dict[str, Any]]":
    operation = "add" if before is None else "delete" if after is None else "edit"
    payload = {"path": "f", "operation": operation, "turn": turn, "before_hash": before, "after_hash": after}
    return "file", {**payload, **columns}


def _args(**args: Any) -> "dict[str, Any]":
    return {"args": args}


def test_an_action_says_its_command_and_its_file(log: Log) -> None:
    """The first argument that is one, a list of words joined; a path from the session's first directory."""
    changed = {"cause": f"{3:032x}", "path": "deep/b.py", "operation": "edit"}
    _tell(
        log,
        ("action", {"tool": "Bash", "cwd": "/w", "payload": _args(command="ls -l")}),
        ("action", {"tool": "shell", "cwd": "/w/deep", "payload": _args(command=["git", "status"])}),
        ("action", {"tool": "Read", "cwd": "/w/deep", "payload": _args(file_path="/w/deep/a.py")}),
        ("action", {"tool": "apply_patch", "payload": {"args": "*** Begin Patch"}}),
        ("file", changed),
        ("action", {"tool": "Read", "payload": _args(file_path="/elsewhere/c.py", command={"odd": 1})}),
        ("action", {"tool": "Edit", "path": "own.py", "payload": _args(path="other.py")}),
        ("action", {"tool": "Grep", "payload": _args(path="./src", pattern="x")}),
    )

    assert log.rows("SELECT tool, command, path FROM actions ORDER BY position") == [
        ("Bash", "ls -l", None),
        ("shell", "git status", None),
        ("Read", None, "deep/a.py"),
        ("apply_patch", None, "deep/b.py"),
        ("Read", None, "/elsewhere/c.py"),
        ("Edit", None, "own.py"),
        ("Grep", None, "src"),
    ]


def test_a_model_is_that_of_the_response_or_the_only_one(log: Log) -> None:
    """A call's model is the one whose response names it, else the only one of its turn and subagent."""
    _tell(
        log,
        ("llm", {"model": "big", "message_id": "m1"}),
        ("action", {"message_id": "m1"}),
        ("file", {"path": "f", "operation": "edit", "cause": f"{1:032x}"}),
        ("llm", {"model": "small", "message_id": "m2"}),
        ("action", {}),
        ("llm", {"model": "third", "subagent_id": "u"}),
        ("action", {"subagent_id": "u"}),
        ("turn", {"operation": "end"}),
    )

    assert log.rows("SELECT model FROM actions ORDER BY position") == [("big",), (None,), ("third",)]
    assert log.rows("SELECT model FROM files") == log.rows("SELECT model FROM file_versions") == [("big",)]
    assert log.rows("SELECT model, models, duration_ms FROM turns") == [
        ("small", ["big", "small", "third"], 7000)
    ]


def test_what_a_subagent_does_says_of_which_kind_it_is(log: Log) -> None:
    """By the event of its start or its end, else by the arguments of the call that launched it."""
    asked = _args(subagent_type="reviewer", prompt="Look")
    _tell(
        log,
        (
            "subagent",
            {"operation": "start", "subagent_id": "u", "title": "builder", "payload": {"prompt": "Go"}},
        ),
        ("llm", {"subagent_id": "u", "message_id": "m", "payload": {"stop_reason": "end_turn"}}),
        ("action", {"tool": "Task", "tool_use_id": "t", "payload": asked}),
        ("action", {"subagent_id": "v"}),
        _change(1, None, "x", subagent_id="v"),
        ("subagent", {"operation": "end", "subagent_id": "v", "tool_use_id": "t"}),
    )

    assert log.rows("SELECT subagent_id, subagent_type, prompt FROM subagents ORDER BY 1") == [
        ("u", "builder", "Go"),
        ("v", "reviewer", "Look"),
    ]
    assert log.rows("SELECT subagent_type, stop_reason FROM llm_calls") == [("builder", "end_turn")]
    assert log.rows("SELECT subagent_type FROM actions ORDER BY position") == [(None,), ("reviewer",)]
    assert log.rows("SELECT f.subagent_type, v.subagent_type FROM files f, file_versions v") == [
        ("reviewer", "reviewer")
    ]


def test_a_call_says_why_it_stopped_in_its_agents_word(log: Log) -> None:
    """P7: by `stop_reason`; OpenCode calls it `reason`, which other agents' payloads may use otherwise."""
    _tell(
        log,
        ("llm", {"message_id": "a", "agent": "claude-code", "payload": {"stop_reason": "tool_use"}}),
        ("llm", {"message_id": "b", "agent": "opencode", "payload": {"reason": "tool-calls"}}),
        ("llm", {"message_id": "c", "agent": "opencode", "payload": {"reason": None}}),
        ("llm", {"message_id": "d", "agent": "codex", "payload": {"reason": "other"}}),
    )
    recorded = log.rows("SELECT stop_reason FROM llm_calls ORDER BY position")
    assert recorded == [("tool_use",), ("tool-calls",), (None,), (None,)]


def test_a_turn_made_the_commits_that_git_printed_for_it(log: Log) -> None:
    """Of calls of `git commit` that did not fail, in order, completed where one known commit begins so."""
    printed = {"result": {"stdout": "[main 1a2b3c4] One\n 1 file changed\n[x (root-commit) 9f9f9f9] Two\n"}}
    _tell(
        log,
        ("turn", {"operation": "start", "agent": "git", "session_id": "g", "commit": _FULL}),
        ("action", {"payload": {**_args(command="git add . && git commit -m x"), **printed}}),
        ("action", {"turn": 2, "payload": {**_args(command="cat notes"), **printed}}),
        ("action", {"turn": 3, "success": False, "payload": {**_args(command="git commit"), **printed}}),
        ("snapshot", {"turn": 4, "operation": "turn_start", "payload": {"git_head": "b" * 40}}),
        ("action", {"turn": 4, "payload": _args(command="git commit -q -m y")}),
        ("snapshot", {"turn": 4, "operation": "turn_end", "payload": {"git_head": "c" * 40}}),
        ("snapshot", {"turn": 5, "operation": "turn_start", "payload": {"git_head": "c" * 40}}),
        ("snapshot", {"turn": 5, "operation": "turn_end", "payload": {"git_head": "c" * 40}}),
        ("snapshot", {"turn": 6, "operation": "turn_start", "payload": {"git_head": "c" * 40}}),
        ("snapshot", {"turn": 6, "operation": "turn_end", "payload": {"git_head": "d" * 40}}),
    )

    assert log.rows("SELECT session_id, turn, commits_made FROM turns ORDER BY session_id, turn") == [
        ("g", 1, [_FULL]),
        ("s1", 1, [_FULL, "9f9f9f9"]),
        ("s1", 2, None),
        ("s1", 3, None),
        ("s1", 4, ["c" * 40]),
        ("s1", 5, []),
        ("s1", 6, None),  # somebody, or a checkout, moved it
    ]


_FATES = "SELECT turn, reverted_by, survived FROM file_versions ORDER BY position"


def test_a_change_that_was_put_back_names_the_turn_that_did(log: Log) -> None:
    """By contents: the first later change of the path that brought back what stood before it."""
    _tell(log, _change(1, "a", "b"), _change(2, "b", "c"), _change(3, "c", "b"), _change(4, "b", "a"))

    assert log.rows(_FATES) == [
        (1, "s1_004", False),
        (2, "s1_003", False),
        (3, None, False),
        (4, None, True),
    ]
    assert log.rows("SELECT turn, reverted_by FROM turns ORDER BY turn") == [
        (1, "s1_004"),
        (2, "s1_003"),
        (3, None),
        (4, None),
    ]


def test_a_turn_is_reverted_when_all_its_files_are(log: Log) -> None:
    """Several edits of one file count as one, and one file that still has its content is enough for null."""
    _tell(
        log,
        _change(1, "a", "b"),
        _change(1, "b", "c"),
        _change(1, None, "n", path="new"),
        _change(2, "c", "a"),
        ("turn", {"turn": 1, "operation": "end"}),
    )
    assert log.rows("SELECT reverted_by FROM turns WHERE turn = 1") == [(None,)]

    log.append(
        event(
            "file", 99, agent="a", session_id="s1", turn=3, repo="r", path="new", operation="delete",
            before_hash="n", occurred_at=_BASE_US + 10**8,
        )
    )  # fmt: skip
    assert log.rows("SELECT reverted_by FROM turns WHERE turn = 1") == [("s1_003",)]
    assert log.rows("SELECT path, survived FROM file_versions WHERE turn = 3") == [("new", True)]


def test_what_is_not_known_of_a_content_stays_unknown(log: Log) -> None:
    """P7: a change without its hashes is neither reverted nor put back, and nobody knows what is left of
    it."""
    _tell(
        log,
        _change(1, None, "b", operation="edit"),
        _change(2, "b", None, operation="edit"),
        _change(1, "x", "y", path="g"),
        _change(2, "y", "x", path="g", occurred_at=None),
        _change(1, "x", "y", path="h"),
        _change(2, "y", "x", path="h", session_id="s2", occurred_at=None),
    )

    assert log.rows(_FATES) == [
        (1, None, None),
        (2, None, None),
        (1, "s1_002", True),  # an undated change counts before all others in what is there …
        (2, None, False),  # … and in its session it is later
        (1, None, True),
        (2, None, None),
    ]


def test_commits_that_were_rewritten_put_nothing_back(log: Log) -> None:
    """A dropped commit neither reverts nor is what is there; the first commit that is not holds the
    content."""
    git = {"agent": "git", "session_id": "g"}
    _tell(
        log,
        _change(1, "a", "b"),
        _change(1, "a", "b", **git, commit="c1"),
        _change(2, "a", "b", **git, commit="c2"),
        _change(3, "b", "a", **git, commit="c3"),
        ("turn", {**git, "turn": 1, "operation": "update", "status": "rewritten"}),
        ("turn", {**git, "turn": 3, "operation": "update", "status": "rewritten"}),
    )

    assert log.rows(
        "SELECT reverted_by, survived, committed_in FROM file_versions ORDER BY position LIMIT 1"
    ) == [(None, True, "c2")]
    assert {row[0] for row in log.rows("SELECT turn FROM turns WHERE rewritten")} == {1, 3}


def test_a_renamed_file_is_under_its_new_name(log: Log) -> None:
    """The old path holds nothing, and renaming back puts back."""
    moved = {"operation": "rename", "path": "new"}
    _tell(
        log,
        _change(1, None, "a", path="old"),
        _change(2, "a", "a", **moved, payload={"old_path": "old"}),
    )
    assert log.rows(_FATES) == [(1, None, False), (2, None, True)]

    log.append(
        event(
            "file", 99, agent="a", session_id="s1", turn=3, repo="r", path="old", operation="rename",
            before_hash="a", after_hash="a", occurred_at=_BASE_US + 10**8, payload={"old_path": "new"},
        )
    )  # fmt: skip
    assert log.rows(_FATES) == [(1, None, True), (2, "s1_003", False), (3, None, True)]


@settings(max_examples=examples(10, 100), deadline=None)
@given(st.data())
def test_joined_columns_never_add_or_lose_a_row(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    """Any log: with all columns a view has the rows that it has without, from an index, a tail, or both."""
    log = Log(str(tmp_path_factory.mktemp("any") / ".locus"))
    recorded = data.draw(st.lists(events(), max_size=12, unique_by=lambda one: one["event_id"]))
    views = sorted({view for of, _ in EXTRAS.values() for view in of})
    cut = data.draw(st.integers(0, len(recorded)))
    for part, sealed in ((recorded[:cut], data.draw(st.booleans())), (recorded[cut:], False)):
        if part:
            log.append(*part)
        if sealed:
            log.seal()
            log.make_index()
    # A connection of each kind: a view on the first has no joined column, on the second it has all.
    with ConnectionCache[Bound]() as plain, ConnectionCache[Bound]() as full:
        for view in views:
            own = [name for name, _, _ in COLUMNS_OF[view] if not any(name in c for _, c in EXTRAS.values())]
            listed = ", ".join(f'"{name}"' for name in own)
            alone = log.query(f"SELECT {listed} FROM {view}", cache=plain).rows
            joined = log.query(f"SELECT {listed} FROM (SELECT * FROM {view})", cache=full).rows
            assert sorted(map(repr, alone)) == sorted(map(repr, joined))
    shutil.rmtree(log.layout.root)
