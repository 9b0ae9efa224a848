"""`.locusignore`: what it keeps out, what it takes in, and what it never does."""

import os
import shutil
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eventlog.base.layout import Layout
from eventlog.blobs.tree import SKIPPED
from tests.worktree.support import Bench, age
from tests.worktree.test_capture import write
from tests.worktree.test_capture_steps import EXAMPLES, STEPS, new_bench, step


@pytest.fixture
def bench(layout: Layout, tmp_path: Path) -> Bench:
    bench = Bench(layout, tmp_path / "work")
    bench.git("init", "-q", "-b", "main")
    return bench


def files(bench: Bench) -> set[str]:
    """What is there with its content."""
    return {os.fsdecode(path) for path, (kind, _) in bench.tree().items() if kind not in (b"d", SKIPPED)}


def left_out(bench: Bench) -> dict[str, str]:
    return {
        os.fsdecode(path): data.decode() for path, (kind, data) in bench.tree().items() if kind == SKIPPED
    }


def test_what_it_names_is_kept_out_and_listed(bench: Bench) -> None:
    """P1: `.locusignore` keeps untracked names out, each listed with the reason, and is captured itself."""
    write(bench.work / ".locusignore", b"# large\ndumps/\n*.bin\n!keep.bin\n")
    for name in ("dumps/one", "dumps/deep/two", "a.bin", "sub/b.bin", "sub/keep.bin", "plain"):
        write(bench.work / name)

    done = bench.capture()

    assert files(bench) == {".locusignore", "sub/keep.bin", "plain"}
    why = ".locusignore leaves it out"
    assert left_out(bench) == {"dumps": why, "a.bin": why, "sub/b.bin": why}
    assert done.skipped == [(b"a.bin", why), (b"dumps", why), (b"sub/b.bin", why)]


def test_it_never_hides_a_tracked_file(bench: Bench) -> None:
    """P1: a pattern of `.locusignore` hides no tracked file, nor one that becomes tracked later."""
    write(bench.work / ".locusignore", b"*\n")
    for name in ("out/tracked", "out/not", "later"):
        write(bench.work / name)
    bench.git("add", "-f", "out/tracked")

    bench.capture()
    assert files(bench) == {"out/tracked"}
    assert set(left_out(bench)) == {".locusignore", "later", "out/not"}

    age(bench.work)
    bench.capture()
    bench.git("add", "-f", "later", ".locusignore")
    done = bench.capture()
    assert files(bench) == {"out/tracked", "later", ".locusignore"}
    assert [change[:2] for change in done.changes] == [("edit", b".locusignore"), ("edit", b"later")]


def test_negated_lines_take_in_what_git_ignores(bench: Bench) -> None:
    """P1: `!` opts ignored names in; what git ignores and no line takes in is not even listed."""
    write(bench.work / ".gitignore", b".env\nbuild/\n*.log\n")
    write(bench.work / ".locusignore", b"!.env\n!/build/report.txt\n*.log\n")
    for name in (".env", "sub/.env", "build/report.txt", "build/object", "a.log"):
        write(bench.work / name)

    bench.capture()

    assert files(bench) == {".gitignore", ".locusignore", ".env", "sub/.env", "build/report.txt"}
    assert left_out(bench) == {}


def test_the_settings_of_the_store_go_first(bench: Bench) -> None:
    """P1: an `include` pattern takes in what `.locusignore` would keep out."""
    write(bench.work / ".locusignore", b"*.bin\n")
    write(bench.work / "a.bin")
    write(bench.work / "b.bin")

    bench.capture(include=["a.bin"])

    assert files(bench) == {".locusignore", "a.bin"}
    assert set(left_out(bench)) == {"b.bin"}


@pytest.mark.parametrize("hidden", [False, True])
def test_its_change_shows_at_once(bench: Bench, hidden: bool) -> None:
    """I26: a `.locusignore` that came, changed or went counts in the next capture, in the tree or not."""
    if hidden:
        write(bench.work / ".git" / "info" / "exclude", b".locusignore\n")
    write(bench.work / "sub" / "data")
    write(bench.work / "other")
    bench.capture()
    age(bench.work)
    bench.capture()
    assert "sub/data" in files(bench)

    for lines, found in ((b"data\n", {"sub/data"}), (b"sub/\n", {"sub"}), (b"other\n", {"other"})):
        write(bench.work / ".locusignore", lines)
        bench.capture()
        assert set(left_out(bench)) == found
        assert bench.uncached().root == bench.last
        age(bench.work)
        bench.capture()

    (bench.work / ".locusignore").unlink()
    bench.capture()
    assert left_out(bench) == {}
    assert {"sub/data", "other"} <= files(bench)


def test_what_is_kept_out_is_never_read_and_its_edits_are_no_changes(bench: Bench) -> None:
    """P4: edits of a name that is kept out change no tree; what takes its place is judged again."""
    write(bench.work / ".locusignore", b"big\ncache/\n")
    write(bench.work / "big", b"1")
    write(bench.work / "cache" / "a")
    age(bench.work)
    first = bench.capture().root
    age(bench.work)

    write(bench.work / "big", b"2 and more")
    write(bench.work / "cache" / "b")
    done = bench.capture()
    assert (done.root, done.read_files, done.changes) == (first, 0, [])

    shutil.rmtree(bench.work / "cache")
    write(bench.work / "cache", b"a file is no directory")
    bench.capture()
    assert files(bench) == {".locusignore", "cache"}
    assert set(left_out(bench)) == {"big"}


def test_it_counts_without_git_and_only_at_the_root(layout: Layout, tmp_path: Path) -> None:
    """P1: outside of a repository the same file counts; in a lower directory it is a file like others."""
    bench = Bench(layout, tmp_path / "work")
    write(bench.work / ".locusignore", b"*.bin\n")
    write(bench.work / "sub" / ".locusignore", b"*\n")
    write(bench.work / "sub" / "a.bin")
    write(bench.work / "sub" / "plain")

    bench.capture()

    assert files(bench) == {".locusignore", "sub/.locusignore", "sub/plain"}
    assert set(left_out(bench)) == {"sub/a.bin"}
    write(bench.work / ".locusignore", b"")
    bench.capture()
    assert left_out(bench) == {}


LINES = st.sampled_from([b"c\n", b"!c\n", b"*.o\n", b"!a.o\n", b"/a/\n", b"!/a/b\n", b"*\n", b"!*/\n"])
RULE_STEPS = st.one_of(
    STEPS,
    st.tuples(st.just("write"), st.just(".locusignore"), st.lists(LINES, max_size=3).map(b"".join)),
)


@settings(max_examples=max(8, EXAMPLES // 4))
@given(st.lists(st.lists(RULE_STEPS, min_size=1, max_size=4), min_size=1, max_size=5), st.booleans())
def test_a_cached_capture_obeys_it_like_a_first_one(
    rounds: list[list[tuple[str, str, bytes]]], waits: bool
) -> None:
    """I26, I22, P1: after any edits the cached tree is a first capture's, and has every tracked file."""
    bench = new_bench()
    try:
        bench.git("init", "-q")
        for edits in rounds:
            for edit in edits:
                step(bench, *edit)
            if waits:
                age(bench.work)
            bench.capture()
            assert bench.uncached().root == bench.last
            there = {name for name in bench.git("ls-files", "-z").split("\0") if name}
            there = {
                name for name in there if (bench.work / name).is_file() and not _through_link(bench, name)
            }
            assert there <= files(bench)
    finally:
        shutil.rmtree(bench.work.parent)


def _through_link(bench: Bench, name: str) -> bool:
    return any(above.is_symlink() for above in (bench.work / name).parents if above != bench.work)
