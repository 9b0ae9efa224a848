"""In any repository, after any steps: what git's index proves is so."""

import os
import subprocess
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.worktree.support import age, git
from tests.worktree.test_git_index import home, proven, repository, write

__all__ = ["home"]  # a fixture that each test uses

NAMES = ("a", "b.c", "dir/c", "dir/deep/d.c")
TEXTS = (b"one\n", b"two\n", b"one\r\n", b"two\r\n", b"$Id$\n", b"", b"three\n")
CONVERSIONS = (
    None,
    ("config", "core.autocrlf", "true"),
    ("config", "core.autocrlf", "input"),
    ("attributes", "* text=auto\n"),
    ("attributes", "dir/** text eol=crlf\n"),
    ("attributes", "*.c ident\n"),
    ("attributes", "*.c filter=turn\n*.c -text\n"),
)
FILES = st.sampled_from(NAMES)
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("write"), FILES, st.sampled_from(TEXTS)),
        st.tuples(st.just("write in place"), FILES, st.sampled_from(TEXTS)),
        st.tuples(st.just("chmod"), FILES),
        st.tuples(st.just("back-date"), FILES),
        st.tuples(st.just("rename"), FILES, FILES),
        st.tuples(st.just("remove"), FILES),
        st.tuples(st.just("wait")),
        st.tuples(st.just("git"), st.just(("add", "-A"))),
        st.tuples(st.just("git"), st.just(("commit", "-qam", "x", "--allow-empty"))),
        st.tuples(st.just("git"), st.just(("reset", "-q", "--hard"))),
        st.tuples(st.just("git"), st.just(("update-index", "-q", "--refresh"))),
        st.tuples(
            st.just("git"),
            st.sampled_from(
                [
                    *(("update-index", "--index-version", version) for version in "234"),
                    ("update-index", "--split-index"),
                    ("update-index", "--no-split-index"),
                ]
            ),
        ),
        st.tuples(
            st.just("mark"),
            FILES,
            st.sampled_from(
                ["assume-unchanged", "no-assume-unchanged", "skip-worktree", "no-skip-worktree", "chmod=+x"]
            ),
        ),
        st.tuples(st.just("add"), FILES, st.sampled_from(["-N", "-f"])),
    ),
    max_size=8,
)


@settings(max_examples=12, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(STEPS, st.sampled_from(["sha1", "sha256"]), st.sampled_from(CONVERSIONS), st.booleans())
def test_an_object_that_is_proven_has_the_bytes_of_the_file(
    tmp_path_factory: pytest.TempPathFactory,
    steps: list[tuple[object, ...]],
    format: str,
    conversion: tuple[str, ...] | None,
    patient: bool,
) -> None:
    """P1, in any repository whose settings stay as they are. `proven` compares."""
    work = repository(tmp_path_factory.mktemp("any") / "work", format)
    git(work, "config", "filter.turn.clean", "tr a-z b-za")
    git(work, "config", "filter.turn.smudge", "tr b-za a-z")
    git(work, "config", "core.safecrlf", "false")
    if conversion is not None and conversion[0] == "config":
        git(work, *conversion)
    elif conversion is not None:
        write(work / ".gitattributes", conversion[1].encode())
    for name in NAMES:
        write(work / name, TEXTS[0])
    if patient:
        age(work)
    git(work, "add", "-A")
    git(work, "commit", "-qm", "start")
    for kind, *words in steps:
        step(work, str(kind), words)
        proven(work)


def step(work: Path, kind: str, words: list[object]) -> None:
    path = work / str(words[0]) if words else work
    if kind == "git":
        assert isinstance(words[0], tuple)
        if words[0][0] == "update-index":
            try_git(work, *words[0])
        else:
            git(work, *words[0])
    elif kind == "wait":
        age(work)
    elif kind == "write":
        assert isinstance(words[1], bytes)
        path.unlink(missing_ok=True)
        write(path, words[1])
    elif not path.is_file():
        pass  # gone by now
    elif kind == "write in place":
        assert isinstance(words[1], bytes)
        with open(path, "r+b") as file:
            file.write(words[1])
    elif kind == "chmod":
        path.chmod(path.stat().st_mode ^ 0o100)
    elif kind == "back-date":
        os.utime(path, ns=(0, 10**18))
    elif kind == "rename":
        target = work / str(words[1])
        target.parent.mkdir(parents=True, exist_ok=True)
        path.rename(target)
    elif kind == "remove":
        path.unlink()
    elif kind == "mark":
        try_git(work, "update-index", f"--{words[1]}", str(words[0]))
    elif kind == "add":
        try_git(work, "add", str(words[1]), str(words[0]))


def try_git(work: Path, *args: str) -> None:
    """A git command that may refuse, since the path is gone or not tracked."""
    subprocess.run(["git", *args], cwd=work, check=False, capture_output=True)
