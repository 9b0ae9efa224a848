"""Bad input: one clear line, the documented exit code, nothing acknowledged lost.

Damage is done to a copy of a recorded store; what is asked for afterwards either works or says what
is wrong with which file.
"""

import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from eventlog.base.fs import FileSystem
from eventlog.store import Store
from tests.cli.support import Ended, Locus, Recorded, git, locus_process, make_history
from tests.test_compatibility import change


def is_refused(ended: Ended, code: int, *words: str) -> bool:
    """One line on stderr with these words, nothing on stdout, this exit code."""
    return (
        (ended.code, ended.out) == (code, b"")
        and ended.err.startswith("locus: ")
        and ended.err.count("\n") == 1
        and all(word in ended.err for word in words)
    )


def flip(path: Path, offset: int) -> None:
    """Change one bit of a file; a negative offset counts from its end."""
    data = bytearray(path.read_bytes())
    data[offset] ^= 0x10
    path.chmod(0o600)
    path.write_bytes(data)


def only(directory: Path, suffix: str) -> Path:
    return max(directory.glob(f"*{suffix}"), key=lambda path: path.stat().st_size)


# -- names ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("where", ["nothing-here", "a-file", "empty", "..", "-rf"])
def test_what_is_no_repository_is_reported(
    where: str, tmp_path: Path, locus: Locus, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A missing directory, a file, a directory outside git, a name like an option: one line each."""
    inner = tmp_path / "inner"
    (inner / "empty").mkdir(parents=True)
    (inner / "a-file").write_text("x")
    monkeypatch.chdir(inner)
    assert locus("init", inner).code == 0

    assert is_refused(
        locus("import", "git", "--", where), 1, str(inner / where) if where != ".." else str(tmp_path)
    )


def test_a_directory_named_like_an_option_is_a_directory(
    tmp_path: Path, locus: Locus, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`-rf` is imported, replayed to and written to like any other name; `..` too."""
    make_history(tmp_path / "-rf")
    monkeypatch.chdir(tmp_path)
    assert locus("init", tmp_path).code == 0

    assert locus("import", "git", "--", "-rf").code == 0
    assert locus("replay", "last", "--to", "-x").code == 0
    assert (tmp_path / "-x/src/app.py").exists()
    assert is_refused(locus("replay", "last", "--to", ".."), 3, "--force")
    assert is_refused(locus("import", "git", "--", ".."), 1)


@pytest.mark.parametrize("rev", ["--all", "-1", "no-such-branch", "HEAD:src"])
def test_a_revision_that_is_none_is_reported(rev: str, recorded: Recorded, locus: Locus) -> None:
    """A revision that looks like an option, or names nothing, reaches git as a name only."""
    ended = locus("import", "git", f"--rev={rev}")

    assert ended.code in (1, 3)
    assert is_refused(ended, ended.code, rev)


def test_a_repository_without_a_commit_is_reported(
    tmp_path: Path, locus: Locus, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An unborn HEAD is an empty history, stated in one line."""
    git(tmp_path, "init", "-q", ".")
    monkeypatch.chdir(tmp_path)
    assert locus("init").code == 0

    assert is_refused(locus("import", "git"), 1, "no commits yet")


@pytest.mark.parametrize(
    "name", ["nonsense", "turn:nope", "git:ffffffffff", "git:xyz", "git:", "_", "'; drop table turns", "%"]
)
def test_an_unknown_turn_is_reported(name: str, recorded: Recorded, locus: Locus, tmp_path: Path) -> None:
    """A name that fits no turn is exit 1 with a hint where to look; nothing is made."""
    assert is_refused(locus("replay", name, "--to", tmp_path / "x"), 1)
    assert is_refused(locus("timeline", name), 1)
    assert not (tmp_path / "x").exists()


def test_an_ambiguous_beginning_is_reported(recorded: Recorded, locus: Locus) -> None:
    """A beginning that fits several things lists some of them."""
    session = json.loads(locus("sql", "select session_id from sessions", "--json").text)[0]["session_id"]

    assert is_refused(locus("timeline", f"{session}_"), 1, f"{session}_001", f"{session}_002")
    assert is_refused(locus("show", ""), 1)


def test_an_empty_store_has_no_last_turn(
    tmp_path: Path, locus: Locus, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before anything is recorded every question has an answer, and every name is unknown."""
    monkeypatch.chdir(tmp_path)
    assert locus("init").code == 0

    assert is_refused(locus("timeline", "last"), 1, "locus import git")
    assert locus("log").code == 0
    assert locus("status").code == 0
    assert locus("sql", "select count(*) from events", "--json").text == '[{"count_star()":0}]\n'
    assert locus("store", "seal").code == 0
    assert locus("store", "rebuild").code == 0
    assert locus("store", "verify", "--read").code == 0


@pytest.mark.parametrize("target", ["a-file", "a-file/below"])
def test_a_target_that_is_no_directory_is_reported(
    target: str, recorded: Recorded, locus: Locus, tmp_path: Path
) -> None:
    """A replay onto a file changes nothing."""
    (tmp_path / "a-file").write_text("mine")
    ended = locus("replay", "last", "--to", tmp_path / target)

    assert ended.code in (1, 3)
    assert is_refused(ended, ended.code, "a-file")
    assert (tmp_path / "a-file").read_text() == "mine"


def test_a_path_that_the_turn_does_not_have_is_reported(
    recorded: Recorded, locus: Locus, tmp_path: Path
) -> None:
    """Replaying a path that is not in the tree is no silent success."""
    ended = locus("replay", "last", "no/such/file", "--to", tmp_path / "x")

    assert ended.code in (1, 4)
    assert "no/such/file is not in this tree" in ended.err
    assert not (tmp_path / "x").exists() or list((tmp_path / "x").iterdir()) == []


# -- a store that is not as it should be --------------------------------------------------------------


def test_a_newer_format_is_reported(copied: Recorded, locus: Locus) -> None:
    """A store of a newer format is not read: exit 1, and the way out is an upgrade."""
    change(copied.store / "STORE", format=2)

    assert is_refused(locus("log"), 1, "format 2", "Upgrade")


def test_a_directory_that_is_no_store_is_reported(tmp_path: Path, locus: Locus) -> None:
    """--store with a directory that holds no store is exit 10 and makes nothing."""
    assert is_refused(locus("--store", tmp_path, "log"), 10, str(tmp_path), "locus init")
    assert list(tmp_path.iterdir()) == []


def test_a_corrupt_store_file_is_reported(copied: Recorded, locus: Locus) -> None:
    """I11: a changed STORE file is exit 12 and named."""
    flip(copied.store / "STORE", 40)

    assert is_refused(locus("log"), 12, "STORE")


def test_a_corrupt_manifest_is_reported(copied: Recorded, locus: Locus) -> None:
    """I11, I16: the newest manifest must verify; no older one is used in its place."""
    manifest = max((copied.store / "log/manifest").iterdir())
    flip(manifest, 100)

    assert is_refused(locus("log"), 12, manifest.name)
    verified = locus("store", "verify")
    assert verified.code == 12
    assert manifest.name in verified.text + verified.err


def test_a_corrupt_segment_is_found(copied: Recorded, locus: Locus) -> None:
    """I11: a changed segment is exit 12 when every byte is checked, and named."""
    segment = only(copied.store / "log/segments", ".parquet")
    flip(segment, segment.stat().st_size // 2)
    found = locus("store", "verify", "--read")

    assert found.code == 12
    assert segment.name in found.text


def test_a_missing_segment_is_reported(copied: Recorded, locus: Locus) -> None:
    """I13: a segment that is gone is damage, not an empty log."""
    segment = only(copied.store / "log/segments", ".parquet")
    segment.unlink()
    ended = locus("log", "--events")

    assert ended.code == 12
    assert is_refused(ended, 12, segment.name)
    assert locus("store", "verify").code == 12


def test_a_corrupt_journal_is_found_and_writing_goes_on(copied: Recorded, locus: Locus) -> None:
    """I10, I11: a bad frame after good ones stays in its closed file; later events are appended and read."""
    with Store.open(copied.store) as store:
        store.append([{"event_type": "note", "title": "first"}])
        store.append([{"event_type": "note", "title": "second"}])
    journal = max((copied.store / "log/journal").iterdir())
    flip(journal, len(journal.read_bytes().rstrip(b"\0")) - 60)
    assert locus("store", "verify").code == 12
    with Store.open(copied.store) as store:
        store.append([{"event_type": "note", "title": "third"}])

    shown = [json.loads(line)["title"] for line in locus("log", "--type", "note", "--json").text.splitlines()]
    assert shown == ["third", "first"]
    assert (
        journal.read_bytes().rstrip(b"\0")[-60:] and len(list((copied.store / "log/journal").iterdir())) == 2
    )
    assert locus("store", "seal").code == 4
    assert len(list((copied.store / "log/quarantine").iterdir())) == 2


def test_a_corrupt_pack_is_reported_file_by_file(copied: Recorded, locus: Locus, tmp_path: Path) -> None:
    """P1, I11: contents that cannot be read are never replayed as others: exit 12, or listed with 4."""
    pack = only(copied.store / "snapshots/packs", ".evp")
    pack.chmod(0o600)
    data = bytearray(pack.read_bytes())
    for offset in range(40, len(data) // 2):
        data[offset] ^= 0x55
    pack.write_bytes(data)
    ended = locus("replay", "last", "--to", tmp_path / "x")

    assert ended.code in (4, 12)
    assert "Traceback" not in ended.err
    assert locus("store", "verify", "--read").code == 12
    for path in (tmp_path / "x").rglob("*") if (tmp_path / "x").exists() else ():
        if path.is_file() and not path.is_symlink():
            assert path.read_bytes() == (copied.root / path.relative_to(tmp_path / "x")).read_bytes()


@pytest.mark.parametrize("damage", ["garbage", "empty", "flip", "gone"])
def test_a_corrupt_index_changes_no_answer(damage: str, copied: Recorded, locus: Locus) -> None:
    """I22: the index is derived; whatever happens to it, answers are those of the log."""
    before = locus("log", "--json").out
    index = only(copied.store / "index", ".duckdb")
    index.chmod(0o600)
    if damage == "gone":
        index.unlink()
    elif damage == "flip":
        flip(index, 5000)
    else:
        index.write_bytes(b"" if damage == "empty" else b"garbage" * 1000)

    after = locus("log", "--json")
    if after.code:
        assert is_refused(after, 12, "store rebuild")
        assert locus("store", "rebuild").code == 0
        after = locus("log", "--json")
    assert (after.code, after.out) == (0, before)


def test_foreign_files_are_left_alone(copied: Recorded, locus: Locus) -> None:
    """S1-61: files of other programs in `.locus` are neither touched nor a reason to fail."""
    names = (
        "locus.db locus_graph_cache.db index/x.txt log/journal/notes log/segments/x.parquet "
        "snapshots/packs/README"
    )
    foreign = {copied.store / name: b"not ours" for name in names.split()}
    for path, data in foreign.items():
        path.write_bytes(data)

    assert locus("log").code == 0
    assert locus("store", "seal").code == 0
    assert locus("store", "rebuild").code == 0
    assert locus("import", "git").code == 0
    assert {path: path.read_bytes() for path in foreign} == foreign


def test_a_held_lock_is_reported(copied: Recorded, locus: Locus, monkeypatch: pytest.MonkeyPatch) -> None:
    """I31: a lock that another process holds is waited for, not for ever: exit 11."""
    holder = (
        "import sys\nfrom eventlog.base.fs import REAL\nfrom eventlog.base.layout import Layout\n"
        "from eventlog.base.locks import MAINTAIN, acquire\n"
        f"lock = acquire(REAL, Layout({str(copied.store)!r}), MAINTAIN)\n"
        "print('held', flush=True)\nsys.stdin.read()"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", holder], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdin is not None and process.stdout is not None
    with process, process.stdin:  # its end lets the holder go
        assert process.stdout.readline() == "held\n"
        with monkeypatch.context() as patched:
            patched.setattr(FileSystem, "monotonic", lambda _: 20 * time.monotonic())  # 10 s go by in 0.5 s
            ended = locus("store", "seal")

    assert is_refused(ended, 11, "maintain.lock")
    assert locus("store", "seal").code == 0


# -- large and interrupted ----------------------------------------------------------------------------


def test_a_large_file_is_recorded_and_replayed(
    tmp_path: Path, locus: Locus, monkeypatch: pytest.MonkeyPatch
) -> None:
    """P1: a file of 100 MB comes back byte for byte."""
    repository = tmp_path / "repo"
    repository.mkdir()
    git(repository, "init", "-q")
    block = random.Random(7).randbytes(1 << 20)
    with open(repository / "large.bin", "wb") as file:
        for i in range(100):
            file.write(i.to_bytes(4, "little") + block[4:])
    git(repository, "-c", "core.compression=0", "add", "large.bin")
    git(repository, "-c", "core.compression=0", "commit", "-qm", "A large file")
    monkeypatch.chdir(repository)
    assert locus("init").code == 0
    assert locus("import", "git").code == 0
    assert locus("replay", "last", "--to", tmp_path / "x").code == 0

    compared = subprocess.run(["cmp", repository / "large.bin", tmp_path / "x/large.bin"], check=False)
    assert compared.returncode == 0


def test_an_import_that_was_killed_is_finished_by_the_next(
    tmp_path: Path, locus: Locus, monkeypatch: pytest.MonkeyPatch
) -> None:
    """I1, I8, I32: after SIGKILL at some moment the same command completes the same log, to the number."""
    repository = tmp_path / "repo"
    commits = make_history(repository)
    for i in range(40):
        (repository / f"file-{i % 7}.txt").write_text(f"{i}\n" * 50)
        git(repository, "add", "-A")
        git(repository, "commit", "-qm", f"Change {i}", at=10 + i % 40)

    def fresh(name: str) -> Path:
        (tmp_path / name).mkdir()
        monkeypatch.chdir(tmp_path / name)
        # The same repository: its name comes from its first commit wherever the store is.
        assert locus("init").code == 0
        return tmp_path / name

    def contents() -> list[str]:
        columns = "event_id, session_id, turn, seq, context_id, event_type, payload"
        ended = locus("sql", f"select {columns} from events order by position", "--format", "csv")
        assert ended.code == 0
        return ended.text.splitlines()

    fresh("whole")
    started = time.monotonic()
    assert locus_process("import", "git", repository, cwd=tmp_path / "whole").code == 0
    took = time.monotonic() - started
    whole = contents()
    assert len(whole) > len(commits)
    for i, fraction in enumerate((0.3, 0.6, 0.8, 0.95)):
        directory = fresh(f"killed-{i}")
        process = subprocess.Popen(
            [sys.executable, "-m", "locus_cli", "import", "git", str(repository)],
            cwd=directory,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        time.sleep(took * fraction)
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
        assert locus("import", "git", repository).code == 0
        assert contents() == whole
        assert locus("store", "verify", "--read").code == 0
