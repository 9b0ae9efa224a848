"""Capture inside a git repository: what git tracks and ignores, and what it never starts."""

import os
from pathlib import Path

import pytest

from eventlog.base.layout import Layout
from eventlog.worktree import git as worktree_git
from tests.worktree.support import Bench, age, bench_of_git, git, on_disk
from tests.worktree.test_capture import NoCalls, write


@pytest.fixture
def bench(layout: Layout, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Bench:
    return bench_of_git(layout, tmp_path, monkeypatch)


def files(bench: Bench) -> set[str]:
    return {os.fsdecode(path) for path, (kind, _) in bench.tree().items() if kind != b"d"}


def test_ignored_files_stay_out_and_tracked_ones_stay_in(bench: Bench) -> None:
    """P1: all sources of exclude patterns count, nested and negated; none hides a tracked file."""
    work = bench.work
    write(work / ".gitignore", b"*.o\n/build/\n!keep.o\n")
    write(work / "sub" / ".gitignore", b"local\n!*.o\n")
    write(work / ".git" / "info" / "exclude", b"by-exclude\n")
    write(work.parent / "excludes", b"by-config\n")
    write(work.parent / "home" / ".gitconfig", b"[core]\n\texcludesFile = ~/../excludes\n")
    for name in ("a.o", "keep.o", "by-exclude", "by-config", "sub/b.o", "sub/local", "local"):
        write(work / name)
    for name in ("build/tracked", "build/deep/tracked.o", "build/not", "build/other/not"):
        write(work / name)
    bench.git("add", "-f", "build/tracked", "build/deep/tracked.o")
    expected = {".gitignore", "keep.o", "sub/.gitignore", "sub/b.o", "local"}
    expected |= {"build/tracked", "build/deep/tracked.o"}

    bench.capture()
    assert files(bench) == expected
    # As git itself sees it.
    assert expected == set(bench.git("ls-files", "-c", "-o", "--exclude-standard").splitlines())

    write(work / "build" / "another", b"new")
    write(work / "build" / "tracked", b"edited")
    (work / "build" / "deep" / "tracked.o").unlink()
    bench.capture()
    assert files(bench) == expected - {"build/deep/tracked.o"}
    write(work / "build" / "deep" / "tracked.o", b"back again")
    bench.capture()
    assert files(bench) == expected


@pytest.mark.parametrize(
    "place", [".gitignore", "sub/.gitignore", ".git/info/exclude", "../home/.config/git/ignore"]
)
def test_a_change_of_the_rules_shows_at_once(bench: Bench, place: str) -> None:
    """I26, P1: what a changed exclude file hides or shows is right in the next capture, cached or not."""
    write(bench.work / "sub" / "deep" / "data.txt")
    write(bench.work / "sub" / "other")
    bench.capture()
    age(bench.work)
    bench.capture()
    assert "sub/deep/data.txt" in files(bench)

    write(bench.work / place, b"data.txt\n")
    bench.capture()
    assert "sub/deep/data.txt" not in files(bench)
    assert bench.uncached().root == bench.last

    age(bench.work)
    bench.capture()
    (bench.work / place).unlink()
    bench.capture()
    assert "sub/deep/data.txt" in files(bench)


def test_an_ignore_file_that_ignores_itself_is_obeyed_and_watched(bench: Bench) -> None:
    """I26: a `.gitignore` that is not in the tree itself still counts, and so does its change."""
    write(bench.work / "venv" / ".gitignore", b"*\n")
    write(bench.work / "venv" / "lib")
    bench.capture()
    assert files(bench) == set()
    age(bench.work)
    bench.capture()

    write(bench.work / "venv" / ".gitignore", b".gitignore\n")
    bench.capture()
    assert files(bench) == {"venv/lib"}


def test_a_change_of_what_is_tracked_shows_at_once(bench: Bench) -> None:
    """P1, I26: `git add -f` takes an ignored file in, `git rm --cached` takes it out again."""
    write(bench.work / ".gitignore", b"*.log\n")
    write(bench.work / "out" / "a.log")
    bench.capture()
    assert files(bench) == {".gitignore"}
    bench.git("add", "-f", "out/a.log")
    bench.capture()
    assert files(bench) == {".gitignore", "out/a.log"}
    bench.git("rm", "-q", "--cached", "out/a.log")
    bench.capture()
    assert files(bench) == {".gitignore"}


def test_ignored_files_come_in_by_pattern(bench: Bench) -> None:
    """P1: patterns in gitignore's syntax opt ignored files in, and negated ones out again."""
    write(bench.work / ".gitignore", b"*.log\ndata/\nnode_modules/\n.env\n")
    for name in ("a.log", "b.log", "data/x", "data/y/z", "node_modules/m/package.json", ".env", "sub/.env"):
        write(bench.work / name)

    bench.capture(include=["*.log", "!b.log", "/data/y/", ".env"])
    assert files(bench) == {".gitignore", "a.log", "data/y/z", ".env", "sub/.env"}
    bench.capture(include=["**/package.json"])
    assert files(bench) == {".gitignore"}
    bench.capture()
    assert files(bench) == {".gitignore"}


def test_other_repositories_are_kept_as_their_commits(bench: Bench, tmp_path: Path) -> None:
    """P1: submodules, nested repositories and linked worktrees are entries of kind m with their commit."""
    work = bench.work
    other = tmp_path / "other"
    other.mkdir()
    git(other, "init", "-q")
    write(other / "f")
    git(other, "add", "f")
    git(other, "commit", "-q", "-m", "one")
    first = git(other, "rev-parse", "HEAD")
    bench.git("submodule", "--quiet", "add", str(other), "module")
    bench.git("clone", "-q", str(other), "nested")
    bench.git("commit", "-q", "-m", "with a module")
    bench.git("worktree", "add", "-q", "linked")
    (work / "unborn").mkdir()
    git(work / "unborn", "init", "-q")
    own = bench.git("rev-parse", "HEAD").encode()

    done = bench.capture()
    tree = bench.tree()
    assert {path for path in tree if tree[path][0] != b"f"} == {b"module", b"nested", b"linked", b"unborn"}
    assert tree[b"module"] == tree[b"nested"] == (b"m", first.encode())
    assert tree[b"linked"] == (b"m", own)
    assert done.skipped == [(b"unborn", "it is a repository without a commit")]

    # A commit in a repository changes nothing that the directory's own stat shows.
    age(work)
    bench.capture()
    write(work / "nested" / "f", b"two")
    git(work / "nested", "commit", "-q", "-a", "-m", "two")
    done = bench.capture()
    assert [(c.operation, c.path) for c in done.changes] == [("edit", b"nested")]
    assert bench.tree()[b"nested"] == (b"m", git(work / "nested", "rev-parse", "HEAD").encode())

    bench.git("submodule", "--quiet", "deinit", "-f", "module")
    bench.capture()
    assert bench.tree()[b"module"] == (b"m", first.encode())
    assert bench.uncached().root == bench.last


def test_a_linked_worktree_is_captured_like_any_other(bench: Bench, tmp_path: Path) -> None:
    """P1: where `.git` is a file, its repository's rules count and the file is not captured."""
    write(bench.work / ".gitignore", b"*.o\n")
    write(bench.work / "f")
    bench.git("add", ".")
    bench.git("commit", "-q", "-m", "one")
    bench.git("worktree", "add", "-q", str(tmp_path / "linked"))
    write(tmp_path / "linked" / "x.o")
    write(tmp_path / "linked" / "new")

    bench.capture(root=str(tmp_path / "linked"))
    assert files(bench) == {".gitignore", "f", "new"}


def test_a_folder_of_a_repository_obeys_the_files_above_it(bench: Bench) -> None:
    """I26: a capture below the top of the work tree knows the patterns above, and their change."""
    write(bench.work / ".gitignore", b"*.o\n")
    write(bench.work / "sub" / "a.o")
    write(bench.work / "sub" / "b.c")
    sub = str(bench.work / "sub")
    bench.capture(root=sub)
    assert files(bench) == {"b.c"}
    age(bench.work)
    bench.capture(root=sub)
    write(bench.work / ".gitignore", b"*.c\n")
    bench.capture(root=sub)
    assert files(bench) == {"a.o"}


def test_a_sha256_repository_and_a_sparse_checkout_are_captured(layout: Layout, tmp_path: Path) -> None:
    """P1: object format and sparse checkouts make no difference: what is on disk is captured."""
    bench = Bench(layout, tmp_path / "work")
    bench.git("init", "-q", "--object-format=sha256")
    for name in ("in/a", "out/b", "top"):
        write(bench.work / name)
    bench.git("add", ".")
    bench.git("commit", "-q", "-m", "one")
    bench.capture()
    assert files(bench) == {"in/a", "out/b", "top"}
    commit, branch = worktree_git.head(os.fsencode(bench.work / ".git"))
    assert commit == bench.git("rev-parse", "HEAD") and len(commit) == 64
    assert branch == bench.git("symbolic-ref", "--short", "HEAD")

    bench.git("sparse-checkout", "set", "in")
    bench.capture()
    assert files(bench) == {"in/a", "top"}


def test_no_program_of_a_configuration_is_started(bench: Bench) -> None:
    """P4, P5: neither a file-system monitor nor a filter runs, and bytes are captured as they are on disk."""
    mark = bench.work.parent / "started"
    bench.git("config", "core.fsmonitor", f"touch {mark}; false")
    bench.git("config", "core.autocrlf", "true")
    bench.git("config", "filter.f.clean", f"touch {mark}; cat")
    bench.git("config", "filter.f.smudge", f"touch {mark}; cat")
    write(bench.work / ".gitattributes", b"* filter=f text\n")
    write(bench.work / "f", b"line\r\n")

    bench.capture()
    write(bench.work / "g", b"line\r\n")
    bench.capture()

    assert not mark.exists()
    assert bench.tree()[b"f"] == (b"f", b"line\r\n")
    assert "index.lock" not in os.listdir(bench.work / ".git")


def test_unborn_packed_and_detached_heads_are_read(bench: Bench) -> None:
    """S1-36, P7: no commit is None; packed refs, worktrees and a detached HEAD are found without git."""

    def shown(at: Path) -> tuple[str | None, str | None]:
        place = worktree_git.find(os.fsencode(at))
        assert place is not None
        return worktree_git.head(place.git_dir)

    work = bench.work
    bench.git("symbolic-ref", "HEAD", "refs/heads/topic/one")
    assert shown(work) == (None, "topic/one")
    write(work / "f")
    bench.git("add", "f")
    bench.git("commit", "-q", "-m", "one")
    commit = bench.git("rev-parse", "HEAD").strip()
    bench.git("pack-refs", "--all")
    bench.git("worktree", "add", "-q", "-b", "other", str(work.parent / "linked"))
    bench.git("symbolic-ref", "refs/heads/alias", "refs/heads/topic/one")
    assert shown(work) == (commit, "topic/one")
    assert shown(work.parent / "linked") == (commit, "other")
    bench.git("symbolic-ref", "HEAD", "refs/heads/alias")
    assert shown(work) == (commit, "alias")
    bench.git("checkout", "-q", "--detach", "other")
    (work / "sub").mkdir()
    assert shown(work) == shown(work / "sub") == (commit, None)
    assert worktree_git.find(os.fsencode(work.parent)) is None


def test_what_differs_from_the_commit_is_asked_without_starting_programs_or_writing(bench: Bench) -> None:
    """S1-36, P4, P5: dirty and staged paths, deleted and added ones too; filters and monitors of the
    configuration do not run, and the index stays as it is."""
    work, mark = bench.work, bench.work.parent / "started"
    for name in ("same.f", "dirty", "staged", "both", "gone", "sp ace"):
        write(work / name, b"1")
    write(work / ".gitattributes", b"*.f filter=f\n")
    bench.git("add", ".")
    assert worktree_git.status(os.fsencode(work))[1][0] == b".gitattributes"  # before the first commit
    bench.git("commit", "-q", "-m", "one")
    for name in ("dirty", "both", "sp ace"):
        write(work / name, b"22")
    write(work / "staged", b"333")
    write(work / "added")
    bench.git("add", "staged", "both", "added")
    write(work / "both", b"4444")
    write(work / "untracked")
    (work / "gone").unlink()
    os.utime(work / "same.f", (1, 1))
    bench.git("config", "core.fsmonitor", f"touch {mark}; false")
    for key in ("clean", "smudge", "process"):
        bench.git("config", f"filter.f.{key}", f"touch {mark}; cat")
    bench.git("config", "filter.f.required", "true")
    index = (work / ".git" / "index").read_bytes()

    dirty, staged = worktree_git.status(os.fsencode(work))

    assert (dirty, staged) == ([b"both", b"dirty", b"gone", b"sp ace"], [b"added", b"both", b"staged"])
    assert not mark.exists()
    assert (work / ".git" / "index").read_bytes() == index


def test_the_environment_of_a_git_hook_steers_nothing(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """P1: GIT_DIR and GIT_INDEX_FILE of the process that calls do not change what is captured."""
    write(bench.work / ".gitignore", b"*.o\n")
    write(bench.work / "t.o")
    bench.git("add", "-f", "t.o")
    monkeypatch.setenv("GIT_DIR", "/nowhere")
    monkeypatch.setenv("GIT_INDEX_FILE", "/nowhere/index")

    done = bench.capture()
    assert not done.partial
    assert files(bench) == {".gitignore", "t.o"}


def test_without_git_the_ignore_files_count_and_the_result_is_partial(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """P1, P7: where git cannot be asked the capture says so, and does not pretend to be whole."""
    write(bench.work / ".gitignore", b"*.o\n")
    write(bench.work / "a.o")
    write(bench.work / "t.o")
    write(bench.work / "f")
    bench.git("add", "-f", "t.o")
    with monkeypatch.context() as patch:
        patch.setenv("PATH", "/nowhere")
        done = bench.capture()
    assert done.partial and done.warning is not None and "git cannot be started" in done.warning
    assert files(bench) == {".gitignore", "f"}

    done = bench.capture()
    assert not done.partial
    assert files(bench) == {".gitignore", "f", "t.o"}
    with monkeypatch.context() as patch:
        patch.setenv("PATH", "/nowhere")
        (bench.work / ".gitignore").write_bytes(b"*.o\n*.p\n")
        assert bench.capture().partial
    # What was tracked before still is, as far as anybody knows.
    assert files(bench) == {".gitignore", "f", "t.o"}


def test_names_that_git_has_notations_for_are_asked_as_names(bench: Bench) -> None:
    """P1: names like `:(top)x`, `-q`, `!x` or with newlines are names, ignored or not."""
    write(bench.work / ".gitignore", b"*.o\n")
    for name in (":(top)x", ":!y", "-q", "!x", "#h", "line\nbreak", 'quote"', "back\\slash", "*"):
        write(bench.work / name)
        write(bench.work / f"{name}.o")
    bench.capture()
    found = on_disk(bench.work)
    assert bench.tree() == {path: one for path, one in found.items() if not path.endswith(b".o")}


def test_an_unchanged_repository_asks_git_nothing(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """P4: nothing changed, or only contents did: no child process is started and no directory listed."""
    write(bench.work / "a" / "f", b"one")
    bench.git("add", ".")
    bench.git("commit", "-q", "-m", "one")
    bench.capture()
    age(bench.work)
    bench.capture()
    monkeypatch.setenv("PATH", "/nowhere")

    assert not bench.capture(calls=NoCalls()).partial
    with open(bench.work / "a" / "f", "r+b") as file:
        file.write(b"two")
    assert not bench.capture().partial
    assert bench.tree()[b"a/f"] == (b"f", b"two")
