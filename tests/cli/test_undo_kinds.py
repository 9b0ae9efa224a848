"""`locus undo` and `redo` where a file, a link and a directory took each other's place."""

import json
import os
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from blake3 import blake3

from eventlog.base import jsontext
from eventlog.base.layout import RESTORE_DIR
from eventlog.restore import journal
from eventlog.store import Store
from tests.cli.hook_support import Agent, here, project
from tests.cli.support import Locus
from tests.kills import effects_of, in_child
from tests.worktree.support import git

# Directory to file or link, and the other way round.
AWAY = {
    "file": "rm -rf data; echo file > data",
    "link": "rm -rf data; ln -s /elsewhere data",
    "renamed": "rm -r data; mv other.txt data",
    "moved": "mv data moved; ln -s moved data",
    "deeper": "rm -rf data; mkdir -p data/a.txt/deep; echo 1 > data/a.txt/deep/x; ln -s a.txt data/b",
}
INTO = {
    "directory": "rm one.txt; mkdir -p one.txt/sub/empty; echo x > one.txt/x; echo y > one.txt/sub/y",
    "outside": "mv data/a.txt tmp; rm -r data; mv tmp data",
    "empty": "rm one.txt; mkdir one.txt",
    "inside": "mv one.txt tmp; mkdir one.txt; mv tmp one.txt/one.txt",
    "of-link": "rm link; mkdir link; echo x > link/x",
}


@pytest.fixture
def work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    root = project(tmp_path)
    (root / "data/sub").mkdir(parents=True)
    (root / "data/a.txt").write_text("a\n")
    (root / "data/sub/b.sh").write_text("b\n")
    (root / "data/sub/b.sh").chmod(0o755)
    (root / "data/empty").mkdir()
    (root / "one.txt").write_text("one\n")
    (root / "other.txt").write_text("other\n" * 9)
    (root / "link").symlink_to("one.txt")
    monkeypatch.chdir(root)
    monkeypatch.setenv("LOCUS_NO_MAINTENANCE", "1")
    monkeypatch.delenv("CLAUDE_CODE_SESSION_ID", raising=False)
    return root


def turn(work: Path, *commands: str) -> Agent:
    agent = Agent(work)
    agent.start()
    agent.prompt("Go")
    for command in commands:
        agent.bash(command)
    agent.stop()
    return agent


@pytest.mark.parametrize("command", [*AWAY.values(), *INTO.values()], ids=[*AWAY, *INTO])
def test_what_took_another_s_place_goes_and_that_comes_back(work: Path, locus: Locus, command: str) -> None:
    """Newest: a turn that replaced a directory by a file or a link, or a file by a directory, is taken back
    whole; redo gives the very files back, undo takes them again, and nothing is left over."""
    before = here(work)
    turn(work, command)
    spoiled = here(work)
    for verb, state in (("undo", before), ("redo", spoiled), ("undo", before)):
        shown = locus(verb, "--dry-run", "--diff")
        assert shown.code == 0 and here(work) == (spoiled if state == before else before)
        done = locus(verb, "--yes")
        assert done.code == 0, (done.text, done.err)
        assert here(work) == state, verb
        assert ": ." not in done.err
    assert not [name for name in os.listdir(work) if name.startswith(".locus-")]


def test_several_turns_are_taken_back_together(work: Path, locus: Locus) -> None:
    """Newest: a directory that became a file, and a directory again in a later turn of the session."""
    before = here(work)
    agent = turn(work, AWAY["file"])
    agent.prompt("And back")
    agent.bash("rm data; mkdir -p data/new; echo 1 > data/new/x; echo a > data/a.txt")
    agent.stop()
    spoiled = here(work)
    rows = locus("sql", "select session_id from turns limit 1", "--format", "csv").text.split()
    assert locus("undo", f"session:{rows[-1]}", "--yes").code == 0
    assert here(work) == before
    assert locus("redo", "--yes").code == 0 and here(work) == spoiled


def test_what_came_later_in_its_place_is_a_conflict_and_stays(work: Path, locus: Locus) -> None:
    """P1: Where a directory took a file's place and something of a person is in it, the file is in conflict
    with all that depends on it; so is a directory that became a file which somebody went on with. The rest
    can be had."""
    turn(work, INTO["directory"], AWAY["file"], "echo more > more.txt")
    (work / "one.txt/sub/mine.txt").write_text("mine\n")
    (work / "data").write_text("file\nmine\n")
    spoiled = here(work)
    ended = locus("undo", "--yes")

    assert ended.code == 3 and here(work) == spoiled
    assert "CONFLICT  one.txt: a directory is there now, and one.txt/sub/mine.txt would stay" in ended.text
    assert "CONFLICT  data: it was added, and changed since" in ended.text
    assert "CONFLICT  data/a.txt: it is taken back only together with data" in ended.text
    assert locus("undo", "--yes", "--skip-conflicts").code == 4
    assert here(work) == {path: node for path, node in spoiled.items() if path != b"more.txt"}
    assert locus("redo", "--yes").code == 0 and here(work) == spoiled


def test_the_diff_of_such_a_plan_is_one_that_git_applies(work: Path, locus: Locus) -> None:
    """P5: the file that goes is in the diff beside the files that come in its place."""
    turn(work, AWAY["file"])
    shown = locus("undo", "--dry-run", "--diff").text

    assert "  replace   data\n" in shown and "  create    data/a.txt\n" in shown
    patch = shown[shown.index("diff --git") :]
    assert "deleted file mode 100644" in patch and "-file\n" in patch and "+++ b/data/a.txt" in patch
    (work.parent / "undo.patch").write_text(patch)
    git(work, "apply", str(work.parent / "undo.patch"))
    applied = {path: node for path, node in here(work).items() if b"empty" not in path}
    git(work, "apply", "-R", str(work.parent / "undo.patch"))
    assert locus("undo", "--yes").code == 0
    assert applied == {path: node for path, node in here(work).items() if b"empty" not in path}


def test_a_plan_out_of_order_is_refused_before_anything_is_written(
    work: Path, locus: Locus, monkeypatch: pytest.MonkeyPatch
) -> None:
    """I32: a plan that no recovery could read gets no restore journal, and touches nothing."""
    turn(work, "echo more > more.txt")
    spoiled, real = here(work), journal.encode
    monkeypatch.setattr(
        journal,
        "encode",
        lambda document: real(replace(document, steps=(*document.steps, document.steps[-1]))),
    )
    ended = locus("undo", "--yes")

    assert ended.code == 1 and "Nothing was touched" in ended.err and here(work) == spoiled
    assert journals(work) == [] and locus("log", "--type", "restore").text == ""


def journals(work: Path) -> list[str]:
    folder = work / ".locus" / RESTORE_DIR
    return os.listdir(folder) if folder.exists() else []


def restore(work: Path) -> None:
    with Store.open(work / ".locus") as store:
        store.restore(store.restore_plan("last", at="start", into=work))


def has_ended(work: Path) -> bool:
    """Whether the log has the end of a restore."""
    with Store.open(work / ".locus") as store:
        return any(event["operation"] == "end" for event in store.rows(event_types=("restore",)))


def copied(work: Path) -> Path:
    shutil.rmtree(work.parent / "copy", ignore_errors=True)
    return Path(shutil.copytree(work, work.parent / "copy", symlinks=True))


def spoil(data: bytes) -> dict[str, bytes]:
    """A restore journal as it may be found: half of it, another byte, two steps for a path."""
    fields = json.loads(data)
    fields["steps"].append(fields["steps"][-1])
    del fields["digest"]
    twice = {**fields, "digest": blake3(jsontext.encode(fields)).hexdigest()}
    return {
        "half": data[:99],
        "byte": data.replace(b"one.txt", b"two.txt"),
        "twice": jsontext.encode(twice) + b"\n",
    }


@pytest.mark.parametrize("how", ["half", "byte", "twice"])
def test_a_restore_journal_that_cannot_be_read_locks_nobody_out(
    work: Path, locus: Locus, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    """P1, I32: verify and doctor name it, all that refuses names the way out, `store repair` sets it aside,
    and what the restore replaced can be found and brought back."""
    turn(work, "echo more > more.txt")
    (work / "one.txt").write_text("mine, never recorded\n")
    copy = copied(work)
    number = effects_of(lambda: restore(copy))  # killed when the file is replaced, before the end
    while has_ended(copy) or not (journals(copy) and (copy / "one.txt").read_text() == "one\n"):
        number, copy = number - 1, copied(work)
        assert in_child(lambda: restore(copy), number)  # noqa: B023
    monkeypatch.chdir(copy)
    (name,) = journals(copy)
    path = copy / ".locus" / RESTORE_DIR / name
    path.write_bytes(spoil(path.read_bytes())[how])
    waiting = (
        ("undo", "--yes"),
        ("redo", "--yes"),
        ("restore", "last", "--yes"),
        ("recover", "one.txt", "--yes"),
    )
    for words in waiting:
        ended = locus(*words)
        assert ended.code == 3 and "`locus store repair --yes` sets it aside" in ended.err, words
    for words in (("restore", "--recover"), ("restore", "--recover", "--undo")):
        ended = locus(*words)
        assert ended.code == 12 and str(path) in ended.err and "`locus store repair --yes`" in ended.err
    verified = locus("store", "verify")
    assert verified.code == 12 and str(path) in verified.text and "`locus recover PATH`" in verified.text
    assert str(path) in locus("doctor").text
    assert str(path) in locus("store", "repair").text and path.exists()
    assert locus("store", "repair", "--yes").code == 0
    assert journals(copy) == [] and (copy / ".locus/log/quarantine" / name).exists()
    assert locus("store", "verify", "--deep").code == 0
    assert locus("recover", "one.txt", "--yes").code == 0
    assert (copy / "one.txt").read_text() == "mine, never recorded\n"
    assert locus("restore", "--undo", "--yes").code == 0


def test_a_session_or_a_turn_is_named_by_its_beginning(work: Path, locus: Locus) -> None:
    """P1: an argument that is no file of the work tree or the log is the session or the turn
    that begins so; a file that is there, or that the log has, is the file; what is neither is named."""
    before = here(work)
    agent = turn(work, "echo 1 > one.txt", "echo 2 > two.txt")
    spoiled = here(work)
    session = locus("sql", "select session_id from turns limit 1", "--format", "csv").text.split()[-1]
    for name in (session, session[:5], f"sess-{session}", f"session:{session}"):
        assert locus("undo", name, "--yes").code == 0, name
        assert here(work) == before
        assert locus("redo", "--yes").code == 0 and here(work) == spoiled
    assert f"undo  turn:{session}_001" in locus("undo", f"{session}_", "--dry-run").text
    strange = locus("undo", "zzzzzzzz", "--dry-run")
    assert strange.code == 1 and "No turn or session is called 'zzzzzzzz' either" in strange.err

    agent.prompt("Make a file that is called like the session")
    agent.write(session, "1\n")
    agent.write("other.txt", "1\n")
    agent.stop()
    several = locus("undo", f"{session}_", "--dry-run")
    assert several.code == 1 and f"fits several turns: {session}_001, {session}_002" in several.err
    assert locus("undo", session, "--yes").code == 0
    assert not (work / session).exists() and (work / "other.txt").exists()
    assert locus("undo", f"{session}_001", session).code == 1
