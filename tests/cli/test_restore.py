"""`locus restore` as people and scripts use it, on a small real history."""

import errno
import json
import os
import pty
import select
import sys
from pathlib import Path
from typing import Any

import pytest

from eventlog.base.errors import EventLogError
from eventlog.restore.run import run
from eventlog.store import Store
from tests.cli.support import Ended, Locus, Recorded, git
from tests.restore.test_faults import Failing, raising


def json_of(ended: Ended, key: str = "restore") -> Any:
    read = json.loads(ended.text)
    assert read["version"] == 1
    return read[key]


def first(copied: Recorded) -> str:
    return f"git:{copied.commits[0]}"


def contents(root: Path) -> dict[str, bytes | str]:
    """Path → bytes of a file, or target of a link; without the store and git."""
    found: dict[str, bytes | str] = {}
    for directory, names, files in os.walk(root):
        names[:] = [name for name in names if name not in (".git", ".locus")]
        for name in files:
            path = Path(directory, name)
            key = str(path.relative_to(root))
            found[key] = os.readlink(path) if path.is_symlink() else path.read_bytes()
    return found


@pytest.mark.fast
def test_a_destroyed_tree_comes_back(copied: Recorded, locus: Locus) -> None:
    """P1: everything was deleted and overwritten; `restore last --yes` gives what the commit had."""
    before = contents(copied.root)
    (copied.root / "src/app.py").write_text("import os  # oh no\n")
    (copied.root / "data.bin").unlink()
    (copied.root / "run.sh").chmod(0o644)
    (copied.root / "app").unlink()
    ended = locus("restore", "last", "--yes")

    assert ended.code == 0
    assert ended.text.splitlines() == [
        "create    app", "create    data.bin", "chmod     run.sh", "overwrite src/app.py",
    ]  # fmt: skip
    assert "--undo" in ended.err
    assert contents(copied.root) == before
    assert git(copied.root, "status", "--porcelain") == ""


def test_undo_brings_back_what_was_replaced(copied: Recorded, locus: Locus) -> None:
    """P8: what a restore replaced, and the files it deleted, come back; a second undo undoes that."""
    (copied.root / "src/app.py").write_text("a day's work\n")
    before = contents(copied.root)
    restored = json_of(locus("restore", first(copied), "--yes", "--json"))
    after = contents(copied.root)
    assert set(after) == {"README.md", "src/app.py"}
    undone = locus("restore", "--undo", "--yes")
    assert undone.code == 0 and "`locus restore --undo` undoes this undo" in undone.err
    about, *_ = undone.text.splitlines()
    assert about.startswith(f"undo      Restore {restored['turn']} at end · 20"), about
    assert about.endswith(f" UTC · event:{restored['event'][:12]}")
    assert contents(copied.root) == before
    undone = locus("restore", "--undo", "--yes")
    assert undone.code == 0 and "was an undo itself" in undone.err
    assert contents(copied.root) == after
    assert locus("restore", f"event:{restored['event'][:10]}", "--yes").code == 0
    assert contents(copied.root) == before


def test_a_dry_run_changes_nothing_and_its_token_carries_it_out(copied: Recorded, locus: Locus) -> None:
    """P8: plan in one step, do in the next; a change in between makes the token worthless."""
    before = contents(copied.root)
    plan = locus("restore", first(copied), "--dry-run")
    token = json_of(locus("restore", first(copied), "--dry-run", "--json"))["token"]
    assert plan.code == 0 and f"--token {token}" in plan.err
    assert contents(copied.root) == before

    (copied.root / "src/app.py").write_text("written since\n")
    refused = locus("restore", first(copied), "--token", token)
    assert (refused.code, refused.out) == (3, b"")
    assert "changed since" in refused.err
    assert (copied.root / "src/app.py").read_text() == "written since\n"

    assert locus("restore", first(copied), "--token", token, "--force").code == 0
    assert set(contents(copied.root)) == {"README.md", "src/app.py"}


def test_a_token_is_for_its_own_question(copied: Recorded, locus: Locus) -> None:
    """The token of one turn does not carry out the plan of another."""
    token = json_of(locus("restore", first(copied), "--dry-run", "--json"))["token"]
    assert locus("restore", f"git:{copied.commits[1]}", "--token", token).code == 3
    assert locus("restore", first(copied), "--no-delete", "--token", token).code == 3
    assert locus("restore", first(copied), "--token", token).code == 0


def test_without_a_terminal_nothing_is_done_unasked(copied: Recorded, locus: Locus) -> None:
    """P8: a script must say --yes or --token; the plan is shown and the exit code is 3."""
    before = contents(copied.root)
    ended = locus("restore", first(copied))
    assert ended.code == 3
    assert "delete    run.sh" in ended.text
    assert "--yes" in ended.err and "--token" in ended.err
    assert contents(copied.root) == before


@pytest.mark.parametrize(("answer", "code"), [("y\n", 0), ("n\n", 130), ("\n", 130)])
def test_on_a_terminal_it_asks(copied: Recorded, answer: str, code: int) -> None:
    """Only a yes changes anything."""
    before = contents(copied.root)
    ended, shown = on_terminal(["restore", first(copied)], answer)
    assert ended == code
    assert "Change" in shown and "[y/N]" in shown
    assert (contents(copied.root) == before) == (code != 0)


def on_terminal(arguments: list[str], answer: str) -> tuple[int, str]:
    """Exit code of `locus` on a terminal of its own that answers the first question, and what it showed."""
    pid, fd = pty.fork()
    if pid == 0:
        os.execv(sys.executable, [sys.executable, "-m", "locus_cli", *arguments])
    shown = b""
    answered = False
    while True:
        if not select.select([fd], [], [], 60)[0]:
            break
        try:
            part = os.read(fd, 4096)
        except OSError:  # the terminal is closed
            break
        if not part:
            break
        shown += part
        if not answered and b"[y/N]" in shown:
            os.write(fd, answer.encode())
            answered = True
    os.close(fd)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), shown.decode("utf-8", "replace")


def test_foreign_files_are_kept_and_named(copied: Recorded, locus: Locus) -> None:
    """What was never recorded, and what git ignores, stays; .git and .locus are no one's business."""
    (copied.root / ".git/info/exclude").write_text("*.bin\n")
    git(copied.root, "rm", "-q", "--cached", "data.bin")
    (copied.root / "notes.txt").write_text("mine")
    ended = locus("restore", first(copied), "--yes")
    assert ended.code == 0
    assert "keep      notes.txt: not in that turn, and not recorded after it" in ended.text.splitlines()
    assert "keep      data.bin: git ignores it" in ended.text.splitlines()
    assert set(contents(copied.root)) == {"README.md", "src/app.py", "notes.txt", "data.bin"}
    assert locus("status").code == 0


def test_an_empty_plan_and_what_is_kept_in_one(copied: Recorded, locus: Locus) -> None:
    """P8: a plan without steps offers no token; what the log saw before, or may not delete, is called so."""
    ended = locus("restore", "last", "--dry-run")
    assert (ended.code, ended.text) == (0, "")
    assert "There is nothing to do" in ended.err and "`locus undo`" in ended.err
    assert locus("restore", "last", "--yes").err == ended.err
    git(copied.root, "rm", "-q", "src/app.py")
    git(copied.root, "commit", "-q", "-m", "Do without", at=9)
    assert locus("import", "git").code == 0
    (copied.root / "src").mkdir()
    (copied.root / "src/app.py").write_text("again")
    ended = locus("restore", "last", "--dry-run")
    assert ended.text == "keep      src/: not in that turn, and not recorded after it\n"
    ended = locus("restore", first(copied), "--no-delete", "--dry-run")
    assert "keep      data.bin: not in that turn, and nothing is to be deleted" in ended.text.splitlines()


def test_named_paths_and_moments(copied: Recorded, locus: Locus) -> None:
    """One file of a turn's start: nothing else is touched."""
    ended = locus("restore", f"git:{copied.commits[1]}", "src/app.py", "--at", "start", "--yes")
    assert ended.code == 0
    assert ended.text == "overwrite src/app.py\n"
    assert (copied.root / "src/app.py").read_text() == "print('one')\nprint('two')\n"
    assert locus("restore", "last", "no/such", "--yes").code == 1


def test_nothing_to_do_is_reported(copied: Recorded, locus: Locus) -> None:
    """A directory that is as wanted: exit code 0, no event, no question."""
    ended = locus("restore", "last")
    assert (ended.code, ended.out) == (0, b"")
    assert "nothing was changed" in ended.err
    assert json_of(locus("restore", "last", "--json"))["event"] is None


def test_a_conflict_refuses_and_force_restores_the_rest(copied: Recorded, locus: Locus) -> None:
    """Exit code 3, and 4 with --force, which leaves the path in conflict alone (I28)."""
    (copied.root / "run.sh").unlink()
    os.mkfifo(copied.root / "run.sh")
    (copied.root / "data.bin").unlink()
    refused = locus("restore", "last", "--yes")
    assert refused.code == 3 and "run.sh" in refused.err and "--force" in refused.err
    assert not (copied.root / "data.bin").exists()
    forced = locus("restore", "last", "--yes", "--force")
    assert forced.code == 4
    assert "conflict: run.sh" in forced.text
    assert (copied.root / "data.bin").exists() and (copied.root / "run.sh").is_fifo()


def test_another_directory_has_to_be_named(copied: Recorded, tmp_path: Path, locus: Locus) -> None:
    """From elsewhere the store's own directory is not changed by accident; --into names one."""
    other = tmp_path / "other"
    other.mkdir()
    os.chdir(other)
    store = copied.root / ".locus"
    refused = locus("--store", store, "restore", "last", "--yes")
    assert refused.code == 3 and "--into" in refused.err
    assert locus("--store", store, "restore", "last", "--yes", "--into", other).code == 0
    assert contents(other) == contents(copied.root)


def test_from_below_the_root_it_is_the_same_directory(copied: Recorded, locus: Locus) -> None:
    """In a sub-directory the whole working directory is meant, and paths are the recorded ones."""
    os.chdir(copied.root / "src")
    (copied.root / "src/app.py").unlink()
    assert locus("restore", "last", "src/app.py", "--yes").text == "create    src/app.py\n"


@pytest.mark.parametrize(
    "arguments",
    [
        [], ["last", "--undo"], ["--undo", "--recover", "--yes"], ["last", "--yes", "--dry-run"],
        ["last", "--yes", "--token", "x"], ["--recover", "last"], ["event:0123", "README.md"],
    ],
)  # fmt: skip
def test_a_command_line_that_makes_no_sense_is_a_usage_error(
    copied: Recorded, locus: Locus, arguments: list[str]
) -> None:
    """Exit code 2, before anything is read."""
    assert locus("restore", *arguments).code == 2


def stop_in_the_middle(copied: Recorded) -> None:
    """A restore of the first commit that came as far as its deletes, and could not go back either."""
    calls = Failing(12, raising(OSError(errno.EIO, "Input/output error")), times=1 << 30)
    with Store.open(copied.store) as store:
        plan = store.restore_plan(first(copied))
        with pytest.raises(EventLogError, match="--recover"):
            run(plan, store.blobs, lambda event: store.append([event])[0], calls=calls)


@pytest.mark.parametrize("undo", [False, True])
def test_a_restore_that_was_stopped_is_finished_or_taken_back(
    copied: Recorded, locus: Locus, undo: bool
) -> None:
    """Nothing else is restored before --recover; with --undo it brings the old files back (I32)."""
    before = contents(copied.root)
    stop_in_the_middle(copied)
    refused = locus("restore", "last", "--yes")
    assert refused.code == 3 and "--recover" in refused.err
    ended = locus("restore", "--recover", *(["--undo"] if undo else []))
    assert ended.code == 0
    assert ("taken back" if undo else "finished") in ended.err
    assert set(contents(copied.root)) == (set(before) if undo else {"README.md", "src/app.py"})
    assert (contents(copied.root) == before) == undo
    assert locus("restore", "last", "--yes").code == 0
    assert contents(copied.root) == before


def test_status_names_an_unfinished_restore(copied: Recorded, locus: Locus) -> None:
    """I32, P8: `locus status` says that a restore was stopped, and what to type, as long as it is true."""
    assert "restore" not in locus("status").text
    stop_in_the_middle(copied)
    shown = locus("status")
    assert shown.code == 0
    assert "`locus restore --recover` finishes it" in shown.text and "--recover --undo" in shown.text
    assert "/restore/" in json_of(locus("status", "--json"), "status")["unfinished_restore"]
    assert locus("restore", "--recover").code == 0
    assert "restore" not in locus("status").text
    assert json_of(locus("status", "--json"), "status")["unfinished_restore"] is None


def test_recover_lists_what_was_changed_since(copied: Recorded, locus: Locus) -> None:
    """A file on which somebody worked after the accident is left and named, and the exit code is 4 (P1)."""
    stop_in_the_middle(copied)
    (copied.root / "src/app.py").write_text("work after the accident\n")
    ended = locus("restore", "--recover", "--json")
    assert ended.code == 4
    (outcome,) = json_of(ended, "recovered")
    assert [entry["path"] for entry in outcome["left"]] == ["src/app.py"]
    assert (copied.root / "src/app.py").read_text() == "work after the accident\n"


def test_without_a_killed_restore_there_is_nothing_to_recover(copied: Recorded, locus: Locus) -> None:
    """That is no error."""
    ended = locus("restore", "--recover")
    assert ended.code == 0 and "no restore to recover" in ended.err
    assert json_of(locus("restore", "--recover", "--json"), "recovered") == []


def test_there_is_nothing_to_undo_at_first(copied: Recorded, locus: Locus) -> None:
    """An error that says so."""
    ended = locus("restore", "--undo", "--yes")
    assert ended.code == 1 and "nothing to undo" in ended.err
