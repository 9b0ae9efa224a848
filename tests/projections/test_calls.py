"""What anchors say of the calls of a turn, and which errors are resolved: docs/anchors.md, row by row."""

from typing import Any

from tests.projections.logs import Log, event

HOME = "/home/dev/kiosk"

# A command of a shell, and the files that it read for certain.
COMMANDS: tuple[tuple[str, list[str]], ...] = (
    ("cat a.py b/c.md", ["a.py", "b/c.md"]),
    ("sed -n '1,80p' a.py", ["a.py"]),
    ("sed -n 5p 'b/c.md'", ["b/c.md"]),
    ("head -n 20 a.py && tail -5 b.py", ["a.py", "b.py"]),
    ("nl -ba a.py | sed -n '34,44p;201,211p'", ["a.py"]),
    ("cd b && cat c.md", ["b/c.md"]),
    (f"cat {HOME}/a.py /etc/hosts ./b.py", ["/etc/hosts", "a.py", "b.py"]),
    ("bash -lc cat a.py", ["a.py"]),
    ("cat a.py && grep -n \"x && cat b.py\" c.py || true", ["a.py"]),
    ("git status && cat $(ls) && cat b.py", []),
    ("cat > a.py", []),
    ("cat *.py", []),
    ("echo 'cat a.py'", []),
    ("sed -i s/a/b/ a.py", []),
    ("grep -rn word a.py", []),
    ("false || cat a.py", []),
    ("cat ../other/a.py", []),
)  # fmt: skip


def call(number: int, tool: str, args: Any = None, **columns: Any) -> dict[str, Any]:
    fields = {"session_id": "s1", "turn": 1, "cwd": HOME, "success": True, **columns}
    payload = {"args": args} | fields.pop("payload", {})
    return event("action", number, tool=tool, payload=payload, **fields)


def anchor(log: Log, columns: str, turn: int = 1) -> tuple[Any, ...]:
    (found,) = log.rows(f"SELECT {columns} FROM turns WHERE turn = {turn}")
    return found


def test_what_a_shell_read_counts_where_it_is_certain(log: Log) -> None:
    """S1-47, P7: files of plain names, read by commands that ran for certain; nothing that a quote, a
    variable, a redirection or a failure hides."""
    log.append(
        *(
            call(number, "Bash", {"command": command}, turn=number)
            for number, (command, _) in enumerate(COMMANDS, 1)
        )
    )
    log.append(
        call(90, "Bash", {"command": "cat a.py"}, turn=90, success=False),
        call(91, "Bash", {"cmd": "cat a.py"}, turn=91, success=None),
        call(92, "Bash", {"cmd": "ls && cat a.py"}, turn=92, success=None),
        call(93, "exec_command", {"cmd": "cat a.py", "workdir": f"{HOME}/b"}, turn=93),
        call(94, "Bash", {"command": "cat a.py | head"}, turn=94, payload={"result": "cat: a.py: none"}),
    )
    found = dict(log.rows("SELECT turn, files_read FROM turns"))

    assert {COMMANDS[turn - 1][0]: found[turn] for turn in range(1, len(COMMANDS) + 1)} == dict(COMMANDS)
    assert [found[turn] for turn in range(90, 95)] == [[], ["a.py"], [], ["b/a.py"], []]


def test_what_a_turn_did_and_read_by_its_calls(log: Log) -> None:
    """S0-8, S1-47: `read src/auth/jwt.rs`, `edit src/auth/jwt.rs`: each once, in order, of whatever agent,
    without what was refused; and the files that tools read."""
    jwt = f"{HOME}/src/auth/jwt.rs"
    log.append(
        call(1, "Read", {"file_path": jwt}),
        call(2, "Edit", {"file_path": jwt, "old_string": "a"}),
        event(
            "file", 3, session_id="s1", turn=1, path="src/auth/jwt.rs", operation="edit", cause=f"{2:032x}"
        ),
        call(4, "read_file", {"path": "src/auth/jwt.rs"}),
        call(5, "run_shell_command", {"command": "cargo  test\n --all"}, success=False),
        call(6, "Grep", {"pattern": "jwt", "path": HOME}),
        call(7, "apply_patch", "*** Begin Patch"),
        event("file", 8, session_id="s1", turn=1, path="a.rs", operation="delete", cause=f"{7:032x}"),
        event("file", 9, session_id="s1", turn=1, path="b.rs", operation="add", cause=f"{7:032x}"),
        call(10, "mcp__files__stat", {"path": "b.rs"}),
        call(11, "Read", {"file_path": f"{HOME}/gone.rs"}, success=False),
        call(12, "Bash", {"command": "rm -rf /"}, success=False, tool_use_id="t12"),
        event("error", 13, session_id="s1", turn=1, error_type="refused", tool_use_id="t12"),
        call(14, "Bash", None, success=None, payload={"told_by": "PreModelRequest"}),
        call(15, "str_replace_editor", {"command": "view", "path": "c.rs"}),
    )
    log.append(*(call(100 + n, "Bash", {"command": f"make {n}"}, turn=2) for n in range(103)))
    log.append(event("turn", 300, session_id="s1", turn=3, operation="start"))
    acts, read, modified = anchor(log, "actions_taken, files_read, files_modified")

    assert acts == [
        "read src/auth/jwt.rs", "edit src/auth/jwt.rs", "run cargo test --all", "search jwt", "delete a.rs",
        "edit b.rs", "mcp__files__stat b.rs", "read gone.rs", "read c.rs",
    ]  # fmt: skip
    assert (read, modified) == (["c.rs", "src/auth/jwt.rs"], ["a.rs", "b.rs", "src/auth/jwt.rs"])
    many = anchor(log, "actions_taken", 2)[0]
    assert (len(many), many[0], many[-1]) == (101, "run make 0", "… and 3 more")
    assert anchor(log, "actions_taken, files_read, decisions", 3) == ([], [], [])


def test_what_an_end_names_counts_and_git_says_nothing(log: Log) -> None:
    """P2, P7: lists that a turn's end names take the place of derived ones, files are added; what nobody can
    know of a commit is null."""
    named = {"actions_taken": ["thought"], "decisions": ["d"], "files_read": ["z.md"]}
    log.append(
        call(1, "Read", {"file_path": "a.py"}),
        event("turn", 2, session_id="s1", turn=1, operation="end", payload=named),
        event("turn", 3, session_id="g", turn=1, operation="start", agent="git", agent_session_id="x"),
    )

    assert log.rows("SELECT actions_taken, decisions, files_read FROM turns ORDER BY session_id DESC") == [
        (["thought"], ["d"], ["a.py", "z.md"]), (None, None, None),
    ]  # fmt: skip


def test_what_people_decided_when_they_were_asked(log: Log) -> None:
    """S1-33, S1-47: an accepted plan and an answered question are decisions, a refused call is a rejection;
    the events stay what they were."""
    options = [{"label": "yes"}, {"label": "no"}]
    asked = {"questions": [{"question": "Cache it?", "options": options}]}
    refusal = "The user doesn't want to proceed with this tool use."
    log.append(
        event("decision", 1, session_id="s1", turn=1, title="Use serde"),
        call(2, "ExitPlanMode", {"plan": "# Split the parser\n\n1. Move it"}),
        call(3, "ExitPlanMode", {"plan": "# Rewrite it"}, success=False, payload={"result": refusal}),
        call(4, "AskUserQuestion", asked, payload={"result": {"answers": {"Cache it?": "yes"}}}),
        event(
            "hook", 5, operation="permission.replied", session_id="s1", turn=1, payload={"reply": "reject"}
        ),
    )

    decided = ["Use serde", "Split the parser", "Cache it? yes"]
    assert anchor(log, "decisions, event_count, tool_calls") == (decided, 5, 3)
    assert log.rows("SELECT position, coalesce(decision, title), alternatives FROM decisions ORDER BY 1") == [
        (0, "Use serde", None), (1, "Split the parser", None), (3, "Cache it? yes", ["no"]),
    ]  # fmt: skip
    assert log.rows("SELECT position, type, message FROM feedback ORDER BY 1") == [
        (2, "rejection", refusal), (4, "rejection", None),
    ]  # fmt: skip


def test_one_rule_says_which_errors_are_resolved(log: Log) -> None:
    """S1-48, S1-56: stated by the error or a later one that links to it, seen where the same worked later,
    exploratory where the call only looked; the counts of turns and sessions are those of the view."""
    edit = {"file_path": f"{HOME}/a.py"}
    log.append(
        call(1, "Edit", edit, success=False, tool_use_id="t1"),
        event("error", 2, session_id="s1", turn=1, tool="Edit", tool_use_id="t1", resolved=False),
        event("error", 3, session_id="s1", turn=1, resolved=True),
        event("error", 4, session_id="s1", turn=1, tool="Bash", payload={"command": "make"}),
        event("error", 5, session_id="s1", turn=1, context_id="error:s1_001_009"),
        event("error", 6, session_id="s2", turn=1, resolved=True, related_to=["error:s1_001_009"]),
        call(7, "Bash", {"command": "make all"}),
        call(8, "Write", edit, turn=2),
        call(9, "Bash", {"command": "cd src && rg -n x"}, success=False, tool_use_id="t9", turn=2),
        event("error", 10, session_id="s1", turn=2, tool="Bash", tool_use_id="t9", resolved=False),
        event("error", 11, session_id="s1", turn=2, tool="Read", resolved=False),
        event("error", 12, session_id="s1", turn=2, payload={"command": "rg x"}),
    )

    assert log.rows("SELECT position, resolved, resolved_how, resolved_by FROM errors ORDER BY 1") == [
        (1, True, "seen", f"{8:032x}"), (2, True, "told", None), (3, None, None, None),
        (4, True, "told", f"{6:032x}"), (5, True, "told", None),
        (9, True, "exploratory", None), (10, True, "exploratory", None), (11, None, None, None),
    ]  # fmt: skip
    of_turns = "SELECT session_id, turn, errors, errors_resolved FROM turns ORDER BY ALL"
    assert log.rows(of_turns) == [("s1", 1, 4, 3), ("s1", 2, 3, 2), ("s2", 1, 1, 1)]
    of_sessions = "SELECT session_id, errors, errors_resolved FROM sessions ORDER BY ALL"
    assert log.rows(of_sessions) == [("s1", 7, 5), ("s2", 1, 1)]
