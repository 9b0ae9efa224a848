"""Which ignored files a capture keeps: the rule by names, and what a capture makes of it."""

import os
import shutil
from itertools import product
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eventlog.base.layout import Layout
from eventlog.blobs.tree import SKIPPED
from eventlog.worktree import kept_ignored
from eventlog.worktree.kept_ignored import database_name, is_kept, is_withheld, journals_of
from eventlog.worktree.userfiles import UserFiles
from tests.worktree.support import Bench, age
from tests.worktree.test_capture import write
from tests.worktree.test_capture_steps import CONTENTS, EXAMPLES, STEPS, new_bench, step

KEPT = (
    ".env", ".env.local", ".envrc", ".ENV", "prod.env", "app.local", "CLAUDE.local.md",
    "settings.local.json", "terraform.tfstate", "x.tfvars", ".dev.vars", "local.properties",
    "a/b/db.sqlite3", "app.sqlite", "x.DB", "x.db3", "x.duckdb", "x.db-wal", "x.sqlite-journal",
    "x.duckdb.wal",
)  # fmt: skip
NEVER = (
    "id_rsa", "id_ed25519", "id_x.db", "server.pem", ".env.pem", "tls.key", "x.p12", ".npmrc",
    ".netrc", ".pypirc", ".pgpass", ".git-credentials", "credentials.json", "key4.db",
    "cookies.sqlite", ".env.keys", ".ssh/config.local", ".aws/x.env", "home/.kube/a.local",
)  # fmt: skip
NOT = (
    ".claude/settings.local.json",
    "notes.txt", "app.log", "x.db-shm", "dbx", "env", "environment", "local", "x.localhost",
    "thumbs.db", "a.o",
)  # fmt: skip
REBUILT = (
    "node_modules", ".venv", "venv", "target", "dist", "build", ".cache", "__pycache__", ".next",
    ".pytest_cache",
)  # fmt: skip


@pytest.mark.parametrize("path", KEPT)
def test_settings_and_databases_are_kept(path: str) -> None:
    """P1: what holds the settings or the data of one machine is kept, in any case."""
    assert is_kept(path.encode()) and is_withheld(path.encode())


@pytest.mark.parametrize("path", NEVER)
def test_keys_and_credentials_never_are(path: str) -> None:
    """P5: they are not captured, and what tools say of them is left out like that of the others."""
    assert not is_kept(path.encode()) and is_withheld(path.encode())


@pytest.mark.parametrize("path", NOT)
def test_other_names_are_not(path: str) -> None:
    """A name that only resembles one, and what is made again, stays out."""
    assert not is_kept(path.encode())


@pytest.mark.parametrize(("directory", "name"), list(product(REBUILT, KEPT[:4])))
def test_nothing_is_kept_where_a_tool_makes_it_again(directory: str, name: str) -> None:
    """Dependencies, results and caches hold nothing of a person, at any depth."""
    assert not is_kept(f"{directory}/{name}".encode()) and not is_kept(f"a/{directory}/b/{name}".encode())


@given(st.sampled_from(KEPT + NEVER + NOT), st.lists(st.sampled_from(["a", "src", "Lib", "x y"])))
def test_a_plain_directory_changes_nothing(path: str, above: list[str]) -> None:
    """The rule is about names: where else a file is does not matter."""
    below = "/".join([*above, path]).encode()
    assert is_kept(below) == is_kept(path.encode()) and is_withheld(below) == is_withheld(path.encode())


@given(st.binary(max_size=40))
def test_the_rule_is_closed(path: bytes) -> None:
    """What is kept is withheld; case says nothing; a journal goes as its database goes."""
    assert not is_kept(path) or is_withheld(path)
    assert is_kept(path) == is_kept(path.lower())
    for journal in journals_of(path):
        assert database_name(journal) == path and is_kept(journal) == is_kept(path)


@pytest.fixture
def bench(layout: Layout, tmp_path: Path) -> Bench:
    bench = Bench(layout, tmp_path / "work")
    bench.git("init", "-q", "-b", "main")
    write(bench.work / ".gitignore", b".env*\n*.db*\n*.key\nout/\n")
    write(bench.work / "plain")
    return bench


def files(bench: Bench) -> set[str]:
    found = bench.tree().items()
    return {os.fsdecode(path) for path, (kind, _) in found if kind not in (b"d", SKIPPED)}


def test_a_capture_keeps_them_and_counts_the_rest(bench: Bench) -> None:
    """P1, I22: also over quick captures, of which each compares only what changed."""
    for name in (".env", "sub/.env", "sub/x.key", "a.key", "out/.env", "node_modules/.env"):
        write(bench.work / name)
    first = bench.capture(keep_ignored=True)
    assert files(bench) == {".gitignore", "plain", ".env", "sub/.env"}
    assert (first.ignored_count, first.kept_ignored) == (4, {b".env", b"sub/.env"})
    age(bench.work)
    for name, number in (("b.key", 5), ("sub/y.key", 6), ("plain", 6)):
        write(bench.work / name, b"new")
        assert bench.capture(keep_ignored=True).ignored_count == number
        age(bench.work)
    (bench.work / "sub/x.key").unlink()
    assert bench.capture(keep_ignored=True).ignored_count == 5
    assert bench.uncached(keep_ignored=True).ignored_count == 5
    assert bench.capture().ignored_count == 7 and files(bench) == {".gitignore", "plain"}


def test_a_persons_word_goes_before_the_rule(bench: Bench) -> None:
    """P1: `.locusignore` keeps out what the rule takes in, and the other way round; `include` goes first."""
    write(bench.work / ".locusignore", b"sub/.env\n.env.b\n!a.key\n")
    for name in (".env", "sub/.env", ".env.b", ".env.c", "a.key"):
        write(bench.work / name)
    include = [".env.b", "!.env.c"]
    bench.capture(keep_ignored=True, include=include)
    assert files(bench) == {".gitignore", ".locusignore", "plain", ".env", ".env.b", "a.key"}


def test_a_large_one_is_named(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """P1: an ignored file above the limit is an entry with the reason, and comes in when it has shrunk."""
    monkeypatch.setattr(kept_ignored, "SIZE_MAX", 10)
    write(bench.work / ".env", b"x" * 11)
    done = bench.capture(keep_ignored=True)
    assert done.skipped == [(b".env", kept_ignored.TOO_LARGE)]
    write(bench.work / ".env", b"x" * 10)
    assert bench.capture(keep_ignored=True).skipped == [] and ".env" in files(bench)


def test_what_is_no_longer_ignored_is_kept_by_itself(bench: Bench) -> None:
    """P5: the mark of a row follows git: added, it is tracked; no longer ignored, it is like any other."""
    write(bench.work / ".env")
    write(bench.work / ".env.b")
    assert bench.capture(keep_ignored=True).kept_ignored == {b".env", b".env.b"}
    bench.git("add", "-f", ".env")
    assert bench.capture(keep_ignored=True).kept_ignored == {b".env.b"}
    write(bench.work / ".gitignore", b"")
    assert bench.capture(keep_ignored=True).kept_ignored == frozenset()
    assert files(bench) == {".gitignore", "plain", ".env", ".env.b"}


def test_a_directory_of_such_a_name_is_not_entered(bench: Bench) -> None:
    """An environment called `.env` is a directory like any that git ignores, also where a file was."""
    write(bench.work / ".env")
    bench.capture(keep_ignored=True)
    (bench.work / ".env").unlink()
    write(bench.work / ".env/bin/.env")
    done = bench.capture(keep_ignored=True)
    assert files(bench) == {".gitignore", "plain"} and done.ignored_count == 1


class _Writing(UserFiles):
    """A process that commits to `app.db` while a capture is between the database and its journal."""

    def __init__(self, work: Path) -> None:
        super().__init__()
        self.work = work
        self.writes = True

    def close(self, fd: int) -> None:
        file = os.fstat(fd).st_ino
        super().close(fd)
        if self.writes and file == os.stat(self.work / "app.db").st_ino:
            self.writes = False
            write(self.work / "app.db", b"checkpointed")


def test_a_database_that_is_written_meanwhile_is_not_exact(bench: Bench) -> None:
    """P1: a database and its journal are of one moment, or the tree says that they are not."""
    write(bench.work / "app.db", b"one")
    write(bench.work / "app.db-wal", b"two")
    writing = _Writing(bench.work)
    done = bench.capture(keep_ignored=True, calls=writing)
    names = (b"app.db", b"app.db-wal")
    assert done.skipped == [(name, kept_ignored.IN_PIECES) for name in names] and not writing.writes
    assert bench.capture(keep_ignored=True).skipped == []
    assert bench.tree()[b"app.db"][1] == b"checkpointed"


def test_a_database_without_its_journal_is_not_exact(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """P1: a journal above the limit leaves a database that is not what its program sees."""
    monkeypatch.setattr(kept_ignored, "SIZE_MAX", 10)
    write(bench.work / "app.db", b"one")
    write(bench.work / "app.db-wal", b"x" * 11)
    assert dict(bench.capture(keep_ignored=True).skipped) == {
        b"app.db": kept_ignored.JOURNAL_MISSING,
        b"app.db-wal": kept_ignored.TOO_LARGE,
    }
    assert dict(bench.capture(keep_ignored=True).skipped)[b"app.db"] == kept_ignored.JOURNAL_MISSING


IGNORES = st.sampled_from([b".env\nc\n", b"a/\n*.db\n", b"*\n", b""])
STEPS_HERE = st.one_of(
    STEPS,
    st.tuples(st.just("write"), st.sampled_from([".env", "a/.env", "c", "a.db"]), CONTENTS),
    st.tuples(st.just("write"), st.just(".gitignore"), IGNORES),
    st.tuples(st.sampled_from(["track", "untrack", "delete", "mkdir"]), st.just("a/.env"), st.just(b"")),
)


@settings(max_examples=max(8, EXAMPLES // 4))
@given(st.lists(st.lists(STEPS_HERE, min_size=1, max_size=4), min_size=1, max_size=5), st.booleans())
def test_a_cached_capture_keeps_what_a_first_one_would(
    rounds: list[list[tuple[str, str, bytes]]], waits: bool
) -> None:
    """I26, I22: after any edits tree, kept files and the number of ignored entries are a first capture's."""
    bench = new_bench()
    try:
        bench.git("init", "-q")
        for edits in rounds:
            for edit in edits:
                step(bench, *edit)
            done = bench.capture(keep_ignored=True)
            first = bench.uncached(keep_ignored=True)
            assert (done.root, done.kept_ignored, done.ignored_count) == (
                first.root,
                first.kept_ignored,
                first.ignored_count,
            )
            if waits:
                age(bench.work)
    finally:
        shutil.rmtree(bench.work.parent)


def test_a_kept_file_that_goes_is_no_tracked_one(bench: Bench) -> None:
    """P1: git never tracked it, so when it is gone nothing waits for it among the tracked paths."""
    write(bench.work / ".env")
    bench.capture(keep_ignored=True)
    age(bench.work)
    bench.capture(keep_ignored=True)
    (bench.work / ".env").unlink()
    bench.capture(keep_ignored=True)
    age(bench.work)
    write(bench.work / ".env")
    assert bench.capture(keep_ignored=True).kept_ignored == {b".env"}
