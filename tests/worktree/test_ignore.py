"""Patterns of gitignore, read as git reads them."""

import os
import shutil
import subprocess
from pathlib import Path
from tempfile import mkdtemp

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from eventlog.worktree.ignore import IgnoreFiles, Patterns
from tests.worktree.support import git

EXAMPLES = 60 if "LOCUS_HUNT" not in os.environ else 20_000

PIECES = st.sampled_from(
    ["a", "b", "ab", "*", "**", "?", "/", "/", "!", "\\", "[ab]", "[!a]", "[a-c]", "[", "]", ".", " ", "#",
     "**/", "/**", "/**/", "[[:alpha:]]", "[\\]]", "-", "[^b]", "\\*", "\\!", "[a", "[]a]", "\r"]
)  # fmt: skip
LINES = st.lists(PIECES, min_size=1, max_size=6).map("".join)
NAMES = [
    "a",
    "b",
    "ab",
    "abc",
    "a b",
    ".a",
    "*",
    "!",
    "#",
    "[",
    "]",
    "-",
    "a/b",
    "a/ab/b",
    "b/a/a/b",
    "ab/a",
    "b/ ",
    "b/a/x",
]


def ours(root: Path, names: list[str]) -> set[str]:
    files = IgnoreFiles(os.fsencode(root))
    return {name for name in names if files.hidden(os.fsencode(name), (root / name).is_dir())}


def gits(root: Path, names: list[str]) -> set[str]:
    stdin = "".join(f"./{name}\0" for name in names)
    done = subprocess.run(
        ["git", "check-ignore", "--no-index", "-z", "--stdin"],
        cwd=root,
        input=stdin,
        capture_output=True,
        text=True,
    )
    assert done.returncode in (0, 1), done.stderr
    return {line[2:] for line in done.stdout.split("\0") if line}


@settings(max_examples=EXAMPLES)
@given(st.lists(LINES, max_size=4), st.lists(LINES, max_size=2))
@example(["a/**", "!a/b"], [])
@example(["**/b", "!b/a/a/b"], ["!a"])
@example(["a\\ ", "b/\\ "], [])
@example(["/*", "!/a", "!b/"], ["*"])
@example([], ["***/a"])
@example([], ["a**/b"])
@example(["d/a**"], [])
def test_ignore_files_mean_what_they_mean_to_git(lines: list[str], below: list[str]) -> None:
    """P1: outside of a repository a `.gitignore` hides what git would hide inside of one."""
    root = Path(mkdtemp())
    try:
        git(root, "init", "-q")
        paths = []
        for name in NAMES:
            path = root / ("d/" + name if "/" in name else name)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(b"")
            paths.append(os.path.relpath(path, root))
        paths += ["d", "d/a", "d/b", "d/b/a"]
        (root / ".gitignore").write_text("\n".join(lines))
        (root / "d" / ".gitignore").write_text("\n".join(below))

        assert ours(root, paths) == gits(root, paths)
    finally:
        shutil.rmtree(root)


def test_the_last_pattern_decides_and_anchored_ones_show_the_way() -> None:
    """P1: opt-in patterns reach into a directory only along the names that an anchored one begins with."""
    patterns = Patterns(["*.log", "!b.log", "out/*/report", "data/"])

    def wanted(path: bytes, is_dir: bool = False) -> bool:
        return bool(patterns.inherited_verdict(path, is_dir))

    assert wanted(b"a.log") and wanted(b"x/a.log") and not wanted(b"x/b.log")
    assert wanted(b"out", True) and wanted(b"out/one", True) and not wanted(b"out/one/two", True)
    assert wanted(b"out/one/report") and not wanted(b"out/one/other") and not wanted(b"x/out", True)
    assert wanted(b"data", True) and wanted(b"data/any/file") and not wanted(b"data")
    assert not Patterns(["", "# only words"])


def test_in_an_ignore_file_a_pattern_keeps_out_and_a_negated_one_takes_in() -> None:
    """P1: `.locusignore` hides what its lines name; `!` takes in, and shows the way when it is anchored."""
    patterns = Patterns(["dumps/", "*.tmp", "!/build/report.txt", "!keep.tmp"], hide=True)

    assert (
        patterns.inherited_verdict(b"dumps", True) is False
        and patterns.inherited_verdict(b"dumps/a", False) is False
    )
    assert (
        patterns.inherited_verdict(b"dumps", False) is None
        and patterns.inherited_verdict(b"src/a.c", False) is None
    )
    assert (
        patterns.inherited_verdict(b"x/a.tmp", False) is False
        and patterns.inherited_verdict(b"x/keep.tmp", False) is True
    )
    assert (
        patterns.inherited_verdict(b"build", True) is True
        and patterns.inherited_verdict(b"build/report.txt", False) is True
    )
    assert patterns.inherited_verdict(b"build/other", False) is None


@pytest.mark.parametrize(
    ("line", "path"),
    [
        (b"*a" * 40 + b"b", b"a" * 255),
        (b"**/a/" * 40 + b"b", b"a/" * 2000 + b"c"),
        (b"**/" + b"*a" * 40 + b"/" + b"**/*a*b", (b"a" * 100 + b"/") * 40 + b"a"),
        (b"[ab]*?" * 40 + b"c/" + b"**/x", b"a" * 255 + b"/x"),
    ],
)
def test_a_pattern_of_bad_will_costs_no_more_than_others(line: bytes, path: bytes) -> None:
    """P4: a repository brings its ignore files along, and none of their patterns takes long to match."""
    patterns = Patterns([line])
    assert patterns.verdict(path, False) is None  # it would not end in the life of the test
