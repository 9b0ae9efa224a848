"""`locus blame`: after what agents and people did, and beside `git blame` on a history."""

import json
import random
from pathlib import Path
from typing import Any

import pytest

from tests.cli.hook_support import Agent, project
from tests.cli.support import Locus
from tests.worktree.support import git


@pytest.fixture
def work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    root = project(tmp_path)
    monkeypatch.chdir(root)
    monkeypatch.setenv("LOCUS_NO_MAINTENANCE", "1")
    monkeypatch.delenv("CLAUDE_CODE_SESSION_ID", raising=False)
    return root


def blamed(locus: Locus, *words: str) -> list[dict[str, Any]]:
    ended = locus("blame", *words, "--json")
    assert ended.code == 0, ended.err
    lines: list[dict[str, Any]] = json.loads(ended.text)["lines"]
    return lines


def kept(work: Path) -> list[Path]:
    """The files with origins that are kept."""
    return sorted((work / ".locus/index").glob("blame-*"))


def fresh(work: Path, locus: Locus, *words: str) -> list[dict[str, Any]]:
    """The answer with nothing kept from before, which is that of what is kept."""
    first, again = blamed(locus, *words), blamed(locus, *words)
    for file in kept(work):
        file.unlink()
    lines = blamed(locus, *words)
    assert first == again == lines
    return lines


def origins(lines: list[dict[str, Any]]) -> list[str]:
    return [line.get("title") or line["origin"] for line in lines]


def edit(agent: Agent, request: str, path: str, old: str, new: str) -> None:
    agent.prompt(request)
    agent.edit(path, old, new)
    agent.stop()


def test_each_line_has_its_own_origin(work: Path, locus: Locus) -> None:
    """P7: what was there before, two turns, a person between them, what is not recorded yet are told apart;
    a person's line is never given to the next agent."""
    (work / "a.py").write_text("one\ntwo\nthree\nfour\n")
    agent = Agent(work)
    agent.start()
    edit(agent, "First", "a.py", "two", "TWO")
    (work / "a.py").write_text((work / "a.py").read_text().replace("three", "by hand"))
    edit(agent, "Second", "a.py", "four", "FOUR")
    with (work / "a.py").open("a") as file:
        file.write("new\n")
    lines = blamed(locus, "a.py")

    assert origins(lines) == ["before", "First", "outside", "Second", "now"]
    assert "".join(line["text"] for line in lines) == (work / "a.py").read_text()
    shown = locus("blame", "a.py").text.splitlines()
    assert "First" in shown[1] and "by hand" in shown[2] and "not recorded yet" in shown[4]
    whole = locus("blame", "a.py:2").text
    assert "asked    First" in whole and "call     Edit a.py" in whole and "locus undo" in whole
    assert origins(blamed(locus, "a.py", "-L", "2,+2")) == ["First", "outside"]
    assert origins(blamed(locus, "a.py", "--at", "last")) == ["before", "First", "outside", "Second"]
    porcelain = locus("blame", "a.py", "--porcelain").text
    assert porcelain.count("\n\t") == 5 and porcelain.splitlines()[-12].startswith("0" * 40 + " 5 5 1")


def test_through_a_rename_and_an_undo(work: Path, locus: Locus) -> None:
    """A renamed file keeps its origins; what an undo brings back has the origins that it had."""
    agent = Agent(work)
    agent.start()
    agent.prompt("Write")
    agent.write("a.py", "one\ntwo\nthree\n")
    agent.stop()
    agent.prompt("Rename")
    agent.bash("mv a.py b.py")
    agent.stop()
    edit(agent, "Spoil", "b.py", "two\nthree", "2\n3")
    assert origins(blamed(locus, "b.py")) == ["Write", "Spoil", "Spoil"]
    assert locus("undo", "--yes").code == 0
    assert origins(blamed(locus, "b.py")) == ["Write"] * 3
    edit(agent, "More", "b.py", "one", "1")  # the hook sees what the undo did, too
    assert origins(blamed(locus, "b.py")) == ["More", "Write", "Write"]


def test_white_space_can_be_left_out_of_account(work: Path, locus: Locus) -> None:
    """With -w a line that was only indented is still its writer's."""
    agent = Agent(work)
    agent.start()
    agent.prompt("Write")
    agent.write("a.py", "one\ntwo\n")
    agent.stop()
    edit(agent, "Indent", "a.py", "two", "    two")

    assert origins(blamed(locus, "a.py")) == ["Write", "Indent"]
    assert origins(blamed(locus, "a.py", "-w")) == ["Write", "Write"]
    shares = locus("blame", "a.py", "--by", "agent").text
    assert shares == "     2  100.0 %  claude-code\n"


def test_the_same_lines_as_git_blame(work: Path, locus: Locus) -> None:
    """On a history of forty commits with renames nearly every line has the commit that git gives it."""
    rng = random.Random(4)
    name, lines = "m.py", [f"value_{number} = {number}\n" for number in range(30)]
    for number in range(40):
        at = rng.randrange(len(lines))
        if number % 3 == 0:
            lines[at:at] = [f"def f_{number}_{i}(x): return {i}\n" for i in range(rng.randrange(1, 4))]
        elif number % 3 == 1:
            lines[at] = f"value_{at} = {rng.randrange(1000)}\n"
        else:
            del lines[at : at + 2]
        if number == 20:
            git(work, "mv", name, "renamed.py")
            git(work, "commit", "-q", "-m", "rename")
            name = "renamed.py"
        (work / name).write_text("".join(lines))
        git(work, "add", "-A")
        git(work, "commit", "-q", "-m", f"Commit {number}")
    assert locus("import", "git", ".").code == 0
    ours = [line.get("commit") for line in blamed(locus, name)]
    shown = git(work, "blame", "--line-porcelain", "--first-parent", name)
    gits = [line.split()[0] for line in shown.splitlines() if line[:40].isalnum() and line[40:41] == " "]

    assert len(ours) == len(gits)
    assert sum(a == b for a, b in zip(ours, gits, strict=True)) >= 0.95 * len(gits)


def test_what_has_no_lines_is_refused(work: Path, locus: Locus) -> None:
    """A binary file, a file without a version, a line that is not there: each with what to do."""
    agent = Agent(work)
    agent.start()
    agent.prompt("Write")
    agent.bash("printf 'a\\0b' > b.bin; echo x > a.txt")
    agent.stop()

    ended = locus("blame", "b.bin")
    assert ended.code == 3 and "`locus history`" in ended.err
    assert locus("blame", "nothing.py").code == 1
    assert locus("blame", "a.txt:7").code == 2


def test_what_is_kept_is_never_wrong(work: Path, locus: Locus) -> None:
    """I22: after a new version, a rename, an undo, an edit by hand, an erasure and rot of the kept file the
    answer is that of a fold of all versions; while nothing is recorded the kept file is not written again."""
    (work / "a.py").write_text("one\ntwo\nthree\n")
    agent = Agent(work)
    agent.start()
    edit(agent, "First words", "a.py", "two", "TWO")
    assert origins(fresh(work, locus, "a.py")) == ["before", "First words", "before"]
    (file,) = kept(work)
    inode = file.stat().st_ino
    assert blamed(locus, "a.py") and file.stat().st_ino == inode
    edit(agent, "Second", "a.py", "three", "3")
    assert origins(fresh(work, locus, "a.py")) == ["before", "First words", "Second"]
    assert locus("undo", "--yes").code == 0
    assert origins(fresh(work, locus, "a.py")) == ["before", "First words", "before"]
    (work / "a.py").write_text("ONE\nTWO\nthree\n")
    assert origins(fresh(work, locus, "a.py")) == ["now", "First words", "before"]
    agent.prompt("Rename")
    agent.bash("mv a.py b.py")
    agent.stop()
    assert origins(fresh(work, locus, "b.py"))[1] == "First words"
    (file,) = kept(work)
    data = bytearray(file.read_bytes())
    data[data.index(b"First words")] ^= 1
    file.write_bytes(data)
    assert origins(blamed(locus, "b.py"))[1] == "First words"
    ended = locus("store", "erase", "--secret", "First words", "--yes")
    assert ended.code in (0, 4), ended.err
    assert kept(work) == []
    assert "First words" not in json.dumps(fresh(work, locus, "b.py"))


def test_withheld_lines_are_not_shown(work: Path, locus: Locus) -> None:
    """P5: of a file that git ignores no line is shown, in whatever form, as it was, as it is, with a
    line more or when it is gone; they can be counted, and shown where that is asked for."""
    (work / ".gitignore").write_text(".env\n")
    (work / ".locus/keep-ignored").write_text("yes\n")
    agent = Agent(work)
    agent.start()
    agent.prompt("Set the name")
    agent.bash("echo NAME=hidden-value > .env")
    agent.stop()

    def refused(*words: str) -> None:
        ended = locus("blame", *words)
        assert ended.code == 3 and "--show-withheld" in ended.err, ended.text
        assert "hidden" not in ended.text + ended.err

    for words in (".env", ".env --at last", ".env:1", ".env --json", ".env --porcelain"):
        refused(*words.split())
    with (work / ".env").open("a") as file:
        file.write("MORE=1\n")
    refused(".env")
    assert "Set the name" not in locus("blame", ".env", "--by", "agent").text
    (work / ".env").unlink()
    refused(".env")
    assert "hidden-value" in locus("blame", ".env", "--show-withheld").text


def test_lines_are_counted_by_person(work: Path, locus: Locus) -> None:
    """The person who worked in the session, and the author of a commit; without a record of people it is not
    known."""
    assert locus("person", "--name", "Some Person", "--email", "some@example.org").code == 0
    agent = Agent(work)
    agent.start()
    agent.prompt("Write")
    agent.write("a.py", "one\ntwo\n")
    agent.stop()
    with (work / "a.py").open("a") as file:
        file.write("new\n")
    shown = locus("blame", "a.py", "--by", "person").text.splitlines()
    assert shown[0].split(maxsplit=3) == ["2", "66.7", "%", "Some Person <some@example.org>"]
    assert shown[1].endswith("not recorded yet")


def test_what_an_undo_of_a_deletion_brings_back_keeps_its_origin(work: Path, locus: Locus) -> None:
    """P7: What an undo brought back keeps the origin that it had, also where only its deletion is known."""
    (work / "g.txt").write_text("one\ntwo\n")
    git(work, "add", "-A")
    git(work, "commit", "-qm", "g")
    agent = Agent(work)
    agent.start()
    agent.prompt("Delete")
    agent.bash("rm g.txt")
    agent.stop()
    assert locus("undo", "--yes").code == 0
    assert origins(fresh(work, locus, "g.txt")) == ["before", "before"]
    edit(agent, "Edit", "g.txt", "two", "zwei")
    agent.prompt("Delete again")
    agent.bash("rm g.txt")
    agent.stop()
    assert locus("undo", "--yes").code == 0
    assert origins(fresh(work, locus, "g.txt")) == ["before", "Edit"]


def test_a_deleted_file_is_said_to_be_deleted(work: Path, locus: Locus) -> None:
    """P7: When and by what a recorded file was deleted is stated, and what shows its lines."""
    agent = Agent(work)
    agent.start()
    agent.prompt("Write")
    agent.write("b.txt", "one\n")
    agent.stop()
    agent.prompt("Delete")
    agent.bash("rm b.txt")
    agent.stop()
    ended = locus("blame", "b.txt")
    assert ended.code == 1 and "no recorded version" not in ended.err
    newest, written = (json.loads(line) for line in locus("log", "--json").text.splitlines()[:2])
    name = f"{written['session_id']}_{written['turn_id']}"
    assert f"was deleted by {newest['session_id']}_{newest['turn_id']} at 20" in ended.err
    assert f"`locus blame --at {name} b.txt`" in ended.err and "`locus recover b.txt`" in ended.err
    assert origins(blamed(locus, "--at", name, "b.txt")) == ["Write"]
    assert locus("undo", "--yes").code == 0 and origins(blamed(locus, "b.txt")) == ["Write"]
    assert blamed(locus, "b.txt")[0]["at"].endswith("Z")
    assert locus("redo", "--yes").code == 0
    assert "was deleted by an undo, redo or restore" in locus("blame", "b.txt").err
