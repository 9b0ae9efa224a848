"""`locus undo` and `locus redo` after what agents did, through the hook program and the command."""

import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.cli.hook_support import Agent, here, project
from tests.cli.support import Ended, Locus
from tests.worktree.support import git

LINES = "".join(f"line {number}\n" for number in range(1, 10))


@pytest.fixture
def work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository with a store, and a file of nine lines."""
    root = project(tmp_path)
    (root / "text.py").write_text(LINES)
    (root / "run.sh").write_text("#!/bin/sh\n")
    monkeypatch.chdir(root)
    monkeypatch.setenv("LOCUS_NO_MAINTENANCE", "1")
    monkeypatch.delenv("CLAUDE_CODE_SESSION_ID", raising=False)
    return root


def files(work: Path) -> dict[Any, Any]:
    return here(work)


def asked(ended: Ended, key: str = "undo") -> Any:
    return json.loads(ended.text)[key]


def bad_turn(work: Path, **how: Any) -> Agent:
    """A turn that edits, adds, deletes, renames and makes executable."""
    agent = Agent(work, **how)
    agent.start()
    agent.prompt("Make it fast")
    agent.edit("text.py", "line 2", "LINE TWO")
    agent.write("src/fast.py", "fast = True\n")
    agent.bash("rm readme.md; chmod +x run.sh; git mv src/app.py src/main.py")
    agent.stop()
    return agent


def replace(work: Path, old: str, new: str, name: str = "text.py") -> None:
    path = work / name
    path.write_text(path.read_text().replace(old, new))


def test_the_newest_turn_goes_and_what_came_later_stays(work: Path, locus: Locus) -> None:
    """A bad turn is taken back by one command: every path as before, but for the line that a person wrote
    since; redo gives the very files and modes back, and both again."""
    before = files(work)
    bad_turn(work)
    replace(work, "line 8", "mine")
    spoiled = files(work)
    shown = locus("undo", "--dry-run")

    assert shown.code == 0 and files(work) == spoiled
    assert [line.split() for line in shown.text.splitlines()[1:]] == [
        ["create", "readme.md"], ["mode", "run.sh"], ["create", "src/app.py"], ["delete", "src/fast.py"],
        ["delete", "src/main.py"], ["merge", "text.py"],
    ]  # fmt: skip
    assert '"Make it fast"' in shown.text.splitlines()[0]
    done = locus("undo", "--yes")
    assert done.code == 0 and "`locus redo` brings it back" in done.err
    undone = files(work)
    replace(work, "mine", "line 8")
    assert files(work) == before
    replace(work, "line 8", "mine")
    assert files(work) == undone
    for _ in range(2):
        assert locus("redo", "--yes").code == 0
        assert files(work) == spoiled
        assert locus("undo", "--yes").code == 0
        assert files(work) == undone


def test_undo_goes_one_turn_further_each_time(work: Path, locus: Locus) -> None:
    """P1: The stack: undo, undo, then redo in reverse order; what is undone is not undone again, and why."""
    agent = Agent(work)
    agent.start()
    states = [files(work)]
    for number in (1, 5, 9):
        agent.prompt(f"Change {number}")
        agent.edit("text.py", f"line {number}", f"changed {number}")
        agent.stop()
        states.append(files(work))
    for state in reversed(states[:-1]):
        assert locus("undo", "--yes").code == 0
        assert files(work) == state
    assert "or all are undone" in locus("undo", "--yes").err
    ended = locus("undo", "last", "--yes")
    assert ended.code == 3 and "is undone already, by event:" in ended.err and "`locus redo`" in ended.err
    for state in states[1:]:
        assert locus("redo", "--yes").code == 0
        assert files(work) == state
    assert locus("redo", "--yes").code == 1
    listed = asked(locus("undo", "--list", "--json"), "operations")
    assert [row["operation"] for row in listed] == ["redo"] * 3 + ["undo"] * 3
    assert [row["taken_back"] for row in listed] == [False] * 3 + [True] * 3


def test_what_one_of_two_agents_changed_is_left_unless_a_path_names_it(work: Path, locus: Locus) -> None:
    """P1, P2: two commands that ran at once may each have made a new file. The undo of a turn lists both as
    unknown and leaves them alone; a path takes back the one that it names, and nothing else."""
    agents = [Agent(work), Agent(work)]
    for number, agent in enumerate(agents):
        agent.start()
        agent.prompt(f"Build {number}")
    calls = [agent.begin("Bash", {"command": f"make {n}"}) for n, agent in enumerate(agents)]
    for number in (0, 1):
        (work / f"made{number}.txt").write_text("made\n")
    for number, agent in enumerate(agents):
        agent.end(calls[number], "Bash", {"command": f"make {number}"}, {"stdout": "", "stderr": ""})
        agent.stop()
    turns = [json.loads(line) for line in locus("log", "--json").text.splitlines()]
    (named,) = (turn["context_id"] for turn in turns if turn["user_request"] == "Build 1")

    whole = locus("undo", named, "--dry-run")
    assert whole.text.count("by whom is not known") == 2 and "made1.txt" in whole.text
    assert locus("undo", named, "made1.txt", "--yes").code == 0
    assert (work / "made0.txt").exists() and not (work / "made1.txt").exists()


def test_a_plain_undo_goes_only_so_far_back(
    work: Path, locus: Locus, monkeypatch: pytest.MonkeyPatch
) -> None:
    """P4: where many turns have nothing left to take back it stops, and says how to name an older one."""
    monkeypatch.setattr("eventlog.undo.plan._PASSED_MAX", 2)
    agent = Agent(work)
    agent.start()
    for number in range(4):
        agent.prompt(f"Make {number}")
        agent.write(f"made{number}.txt", "1\n")
        agent.stop()
    for number in (1, 2, 3):
        (work / f"made{number}.txt").unlink()
    ended = locus("undo", "--yes")

    assert "There is nothing to do" in ended.err and "`locus undo TURN` takes one back" in ended.err
    assert ended.text.count("passed over  turn:") == 2 and (work / "made0.txt").exists()


def test_plain_undo_passes_over_what_has_nothing_left_to_take_back(work: Path, locus: Locus) -> None:
    """P1: The stack: a turn that was undone but for its conflicts, and one whose changes are gone by hand, do
    not stop it; the plan says which were passed over and why. A redo makes the first one the next again."""
    agent = Agent(work)
    agent.start()
    for number in (1, 5, 9):
        agent.prompt(f"Change {number}")
        agent.edit("text.py", f"line {number}", f"changed {number}")
        agent.write(f"new{number}.txt", "1\n")
        agent.stop()
    replace(work, "changed 9", "mine")
    replace(work, "changed 5", "line 5")
    (work / "new5.txt").unlink()
    assert locus("undo", "--yes").code == 3
    assert locus("undo", "--skip-conflicts", "--yes").code == 4
    shown = locus("undo", "--dry-run")
    assert shown.code == 0 and '"Change 1"' in shown.text
    assert shown.text.count("passed over  turn:") == 2
    assert "took it back but for what it left" in shown.text and "all of it is as it was" in shown.text
    assert len(asked(locus("undo", "--dry-run", "--json"))["passed_over"]) == 2
    assert locus("undo", "--yes").code == 0 and not (work / "new1.txt").exists()
    assert (work / "text.py").read_text() == LINES.replace("line 9", "mine")
    assert "There is nothing to do" in locus("undo", "--yes").err
    assert locus("redo", "--yes").code == 0 and locus("redo", "--yes").code == 0
    assert '"Change 9"' in locus("undo").text


def test_sql_says_which_turn_is_taken_back(work: Path, locus: Locus) -> None:
    """P1: `turns.undone_by` names the undo while it holds: not of some paths alone, nor after a redo."""
    bad_turn(work)

    def undone() -> list[Any]:
        return json.loads(locus("sql", "select undone_by from turns", "--format", "json").text)  # type: ignore[no-any-return]

    assert locus("undo", "--yes", "--", "text.py").code == 0
    assert undone() == [{"undone_by": None}]
    assert locus("redo", "--yes").code == 0
    assert locus("undo", "--yes").code == 0
    (operation,) = asked(locus("undo", "--list", "--json"), "operations")[:1]
    assert undone() == [{"undone_by": operation["event"]}]
    assert " undone " in locus("show", "last").text
    assert locus("redo", "--yes").code == 0
    assert undone() == [{"undone_by": None}] and " undone " not in locus("show", "last").text


def test_a_new_turn_empties_the_stack_of_redos(work: Path, locus: Locus) -> None:
    """P1: A person's edit does not, nor a turn that only asks; after one that changes a file the message
    names the way that is left."""
    agent = bad_turn(work)
    spoiled = files(work)
    assert locus("undo", "--yes").code == 0
    replace(work, "line 8", "mine")
    assert locus("redo", "--dry-run").code == 0
    replace(work, "mine", "line 8")
    agent.prompt("What happened?")
    assert locus("redo", "--dry-run").code == 0
    agent.stop()
    assert locus("redo", "--dry-run").code == 0
    agent.prompt("Again")
    agent.write("other.py", "other\n")
    agent.stop()
    spoiled = {**spoiled, **{name: file for name, file in files(work).items() if "other.py" in str(name)}}
    ended = locus("redo", "--yes")

    assert ended.code == 1 and "an agent has worked since" in ended.err
    name = ended.err.partition("`locus undo ")[2].partition("`")[0]
    assert locus("undo", name, "--yes").code == 0
    assert files(work) == spoiled


def test_an_agent_that_carries_out_undos_does_no_work_by_it(work: Path, locus: Locus) -> None:
    """P1: As the slash commands do it, each in a turn of its own: the plan, after a yes the undo; again for
    the turn before; then redo, twice. A turn that took back, and nothing else, is never what goes next."""
    program = f"{sys.executable} -m locus_cli"
    agent = Agent(work)
    agent.start()
    states = [files(work)]
    for number in (1, 5):
        agent.prompt(f"Change {number}")
        agent.edit("text.py", f"line {number}", f"changed {number}")
        agent.bash(
            f"mv readme.md {number}.md && chmod +x text.py" if number == 1 else "mv 1.md 5.md; rm run.sh"
        )
        agent.stop()
        states.append(files(work))
    for verb, state in (("undo", states[1]), ("undo", states[0]), ("redo", states[1]), ("redo", states[2])):
        agent.prompt(f"/locus:{verb}")
        assert locus(verb, "--dry-run").code == 0
        agent.stop()
        agent.prompt("Yes")
        agent.bash(f"{program} {verb} --yes")
        agent.stop()
        assert files(work) == state, verb
    agent.prompt("/locus:undo")
    agent.stop()
    agent.prompt("Yes, and more")
    agent.bash(f"{program} undo --yes; echo more > more.md")
    agent.stop()
    assert '"Yes, and more"' in locus("undo", "--dry-run").text


def test_lines_that_were_changed_since_are_a_conflict(work: Path, locus: Locus) -> None:
    """Whole or nothing: a conflict writes nothing and says the lines; the rest, or markers, can be had."""
    before = files(work)
    bad_turn(work)
    replace(work, "LINE TWO", "mine")
    spoiled = files(work)
    ended = locus("undo", "--yes")

    assert ended.code == 3 and files(work) == spoiled
    assert "CONFLICT  text.py: its lines were changed since" in ended.text
    for words in ("line 2", "now     mine", "after   LINE TWO", "before  line 2"):
        assert words in ended.text
    assert "--skip-conflicts" in ended.err and "--merge-markers" in ended.err
    assert asked(locus("undo", "--json"))["conflicts"] == [
        {"path": "text.py", "reason": "its lines were changed since", "lines": [2]}
    ]
    assert locus("undo", "--skip-conflicts", "--yes").code == 4
    assert {path: node for path, node in files(work).items() if b"text" not in path} == {
        path: node for path, node in before.items() if b"text" not in path
    }
    assert locus("redo", "--yes").code == 0 and files(work) == spoiled
    assert locus("undo", "--merge-markers", "--yes").code == 4
    assert "<<<<<<< now\nmine\n||||||| after turn:" in (work / "text.py").read_text()
    assert locus("redo", "--yes").code == 0 and files(work) == spoiled


def test_a_conflict_names_who_changed_the_lines_since(work: Path, locus: Locus) -> None:
    """A later turn, and the command that takes back both; a person, where it was one."""
    agent = bad_turn(work)
    agent.prompt("Handle empty input")
    agent.edit("text.py", "LINE TWO", "line two and a half")
    agent.stop()
    rows = [json.loads(line) for line in locus("log", "--json").text.splitlines()]
    later, earlier = (row["context_id"].removeprefix("turn:") for row in rows[:2])
    ended = locus("undo", earlier)

    assert f"line 2, changed since by {later}" in ended.text
    assert f"`locus undo {later} {earlier}`" in ended.err
    assert locus("undo", later, earlier, "--yes").code == 0
    assert (work / "text.py").read_text() == LINES
    assert locus("redo", "--yes").code == 0
    replace(work, "line two and a half", "mine")
    assert "changed since by you, or a program that nobody saw" in locus("undo").text


def test_only_some_paths(work: Path, locus: Locus, monkeypatch: pytest.MonkeyPatch) -> None:
    """Paths are those of the directory one is in; after them the turn is not undone as a whole."""
    before = files(work)
    bad_turn(work)
    monkeypatch.chdir(work / "src")
    assert locus("undo", "--yes", "--", "fast.py", "app.py").code == 0
    assert files(work).keys() ^ before.keys() == {b"readme.md"}
    monkeypatch.chdir(work)
    assert locus("undo", "--yes").code == 0
    assert files(work) == before
    ended = locus("undo", "--yes", "--", "nothing.py")
    assert ended.code == 1


def test_only_the_named_agent_s_changes_go(work: Path, locus: Locus) -> None:
    """P1: Two agents at once, also in one file: only the lines of the one that is named are taken back."""
    one, two = Agent(work), Agent(work)
    for agent in (one, two):
        agent.start()
        agent.prompt("Work")
    one.edit("text.py", "line 1\n", "first\n")
    two.edit("text.py", "line 5\n", "second\n")
    one.edit("text.py", "line 9\n", "first again\n")
    two.write("two.py", "2\n")
    one.stop()
    two.stop()
    with_two = LINES.replace("line 5", "second")
    names = [json.loads(line)["context_id"] for line in locus("log", "--json").text.splitlines()]
    by_agent = {json.loads(locus("show", name, "--json").text)["turn"]["session_id"]: name for name in names}
    assert len(by_agent) == 2
    tried = set()
    for name in names:
        assert locus("undo", name, "--yes").code == 0
        tried.add((work / "text.py").read_text())
        assert locus("redo", "--yes").code == 0
    assert with_two in tried
    assert LINES.replace("line 1\n", "first\n").replace("line 9", "first again") in tried


def test_inside_a_session_its_own_newest_turn_is_meant(
    work: Path, locus: Locus, monkeypatch: pytest.MonkeyPatch
) -> None:
    """P1: A running turn is never the default; named, it is refused without --force."""
    agent = bad_turn(work)
    other = Agent(work)
    other.start()
    other.prompt("Something else")
    other.write("other.py", "1\n")
    other.stop()
    agent.prompt("Undo that")
    agent.write("notes.md", "running\n")
    monkeypatch.setenv("CLAUDE_CODE_SESSION_ID", agent.session)
    shown = locus("undo", "--dry-run")
    assert '"Make it fast"' in shown.text
    running = [line for line in locus("log", "--json").text.splitlines() if "Undo that" in line]
    name = json.loads(running[0])["context_id"]
    ended = locus("undo", name, "--yes")
    assert ended.code == 3 and "still running" in ended.err
    assert locus("undo", name, "--yes", "--force").code == 0
    assert not (work / "notes.md").exists()


def test_one_call_and_one_session(work: Path, locus: Locus) -> None:
    """`action:ID` takes back what one call changed; `session:ID` all its turns."""
    before = files(work)
    agent = Agent(work)
    agent.start()
    for number in (1, 9):
        agent.prompt(f"Change {number}")
        agent.edit("text.py", f"line {number}", f"changed {number}")
        agent.write(f"new{number}.py", "1\n")
        agent.stop()
    rows = locus("sql", "--json", "select cause, session_id from files where path = 'new9.py'").text
    (row,) = json.loads(rows)
    cause, session = row["cause"], row["session_id"]
    assert locus("undo", f"action:{cause}", "--yes").code == 0
    assert not (work / "new9.py").exists() and "changed 9" in (work / "text.py").read_text()
    assert locus("redo", "--yes").code == 0
    assert locus("undo", f"session:{session}", "--yes").code == 0
    assert files(work) == before


def test_a_plan_that_is_out_of_date_is_refused(work: Path, locus: Locus) -> None:
    """A token holds for what was shown; planning twice gives the same one."""
    bad_turn(work)
    tokens = {asked(locus("undo", "--dry-run", "--json"))["token"] for _ in range(2)}
    assert len(tokens) == 1
    replace(work, "line 8", "mine")
    spoiled = files(work)
    ended = locus("undo", "--token", *tokens)

    assert ended.code == 3 and files(work) == spoiled
    assert locus("undo", "--token", asked(locus("undo", "--dry-run", "--json"))["token"]).code == 0


def test_an_ignored_file_comes_back_and_its_text_is_not_shown(work: Path, locus: Locus) -> None:
    """P5: a captured `.env` is undone like any other file; in conflict its lines stay unseen."""
    (work / ".locus/keep-ignored").write_text("yes\n")
    (work / ".gitignore").write_text(".env\n")
    (work / ".env").write_text("A=1\nTOKEN=canary-8c1f\nB=2\n")
    agent = Agent(work)
    agent.start()
    agent.prompt("Configure")
    agent.bash("printf 'A=1\\nTOKEN=canary-77aa\\nB=2\\n' > .env")
    agent.stop()
    assert git(work, "status", "--porcelain", "--ignored") != ""
    assert locus("undo", "--yes").code == 0
    assert (work / ".env").read_text() == "A=1\nTOKEN=canary-8c1f\nB=2\n"
    assert locus("redo", "--yes").code == 0
    (work / ".env").write_text("A=1\nTOKEN=canary-0000\nB=2\n")
    for words in (("undo",), ("undo", "--json"), ("undo", "--dry-run")):
        ended = locus(*words)
        assert ended.code == 3 and "canary" not in ended.text + ended.err
    (work / ".env").write_text("A=1\nTOKEN=canary-77aa\nB=2\nC=canary-3333\n")  # what comes later is merged
    for words in (("undo", "--diff", "--dry-run"), ("undo", "--diff", "--dry-run", "--json")):
        ended = locus(*words)
        assert ended.code == 0 and "withheld" in ended.text and "canary" not in ended.text + ended.err


def test_the_diff_of_a_plan_is_what_the_undo_changes(work: Path, locus: Locus) -> None:
    """P5: `--diff` shows the change from what is there, in a form that git applies, which gives the files
    that the undo gives; what holds a secret is named and not shown, even where it was written since."""
    bad_turn(work)
    replace(work, "line 8", "mine")
    spoiled = files(work)
    shown = locus("undo", "--dry-run", "--diff")
    patch = shown.text[shown.text.index("diff --git") :]

    assert shown.code == 0 and files(work) == spoiled
    assert "-LINE TWO\n+line 2\n" in patch and "+mine" not in patch and "deleted file mode" in patch
    steps = asked(locus("undo", "--dry-run", "--diff", "--json"))["steps"]
    assert "".join(step["diff"] for step in steps if step.get("diff")) == patch
    kept_at = work.parent / "undo.patch"
    kept_at.write_text(patch)
    git(work, "apply", str(kept_at))
    applied = files(work)
    git(work, "apply", "-R", str(kept_at))
    assert files(work) == spoiled
    assert locus("undo", "--yes").code == 0 and files(work) == applied
    assert "+LINE TWO" in locus("redo", "--dry-run", "--diff").text
    key = "ghp_" + "a1B2c3D4e5F6" * 3
    replace(work, "mine", f"TOKEN = '{key}'")
    kept = locus("redo", "--dry-run", "--diff")
    assert "# text.py: withheld" in kept.text and key not in kept.text


def test_undo_refuses_elsewhere(work: Path, locus: Locus, monkeypatch: pytest.MonkeyPatch) -> None:
    """From another directory nothing is changed without --into; without anything to undo it says so."""
    ended = locus("undo", "--yes")
    assert ended.code == 1 and "`locus log`" in ended.err
    bad_turn(work)
    monkeypatch.chdir(os.fspath(work.parent))
    monkeypatch.setenv("LOCUS_DIR", str(work / ".locus"))
    ended = locus("undo", "--yes")
    assert ended.code == 3 and "--into" in ended.err


def test_a_directory_alone_is_a_step(work: Path, locus: Locus) -> None:
    """P1: The plan, what is stated of it and its JSON have the same paths: directories only where nothing in
    them has a step."""
    agent = Agent(work)
    agent.start()
    agent.prompt("Prepare")
    agent.bash("mkdir empty")
    agent.stop()
    plan = locus("undo", "--dry-run")
    assert "  delete    empty/\n" in plan.text
    assert "Undone: 1 deleted. `locus redo`" in locus("undo", "--yes").err and not (work / "empty").exists()
    assert "Redone: 1 created." in locus("redo", "--yes").err
    agent.prompt("Delete")
    agent.bash("mkdir -p deep/er; echo a > deep/er/a; rm -r src")
    agent.stop()
    assert {step["path"] for step in asked(locus("undo", "--dry-run", "--json"))["steps"]} == {
        "deep/er/a", "src/app.py",
    }  # fmt: skip
    ended = locus("undo", "--yes")
    assert "src/\n" not in ended.text and "Undone: 1 created, 1 deleted." in ended.err
    listed = json.loads(locus("undo", "--list", "--json").text)["operations"]
    assert all(operation["at"].endswith("Z") for operation in listed)
