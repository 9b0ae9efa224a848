"""Lines of ours in a list of ignored files: in and out, whatever the list holds and whatever fails."""

import errno
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eventlog.base.errors import EventLogError, Refused
from eventlog.base.fs import REAL
from eventlog.setup import git_exclude, receipts
from tests.cli.support import git
from tests.conftest import examples
from tests.faultfs import FaultFS

CLAIMS = ("a", "b", "c")


def claim(place: Path, name: str) -> str:
    """The programs that need a line; the file of a claim is there."""
    (place / name).touch()
    return git_exclude.claim_of_hooks(str(place / name))


def put_in(place: Path, name: str, line: str, fs: object = REAL) -> None:
    kept = receipts.directory(str(place / "state"))
    Path(kept).mkdir(parents=True, exist_ok=True)
    git_exclude.add_line(fs, str(place / "list"), line, claim(place, name), kept)  # type: ignore[arg-type]


def take_out(place: Path, name: str) -> None:
    git_exclude.take_back(REAL, str(place / "state"), claim(place, name))


@settings(max_examples=examples(40, 2000))
@given(
    st.lists(st.sampled_from([b"*.log", b"\xff ", b"/x\r", b"", b"/a", b"# c"]), max_size=4),
    st.sampled_from([b"\n", b"\r\n"]),
    st.booleans(),
    st.permutations(CLAIMS),
    st.permutations(CLAIMS),
    st.booleans(),
)
def test_any_list_comes_back(
    tmp_path_factory: pytest.TempPathFactory,
    words: list[bytes], end: bytes, is_ended: bool, order: list[str], back: list[str], is_shared: bool,
) -> None:  # fmt: skip
    """P4: for any list, lines put in by several and taken out in any order leave its very bytes; in between
    each line that is needed is there once."""
    place = tmp_path_factory.mktemp("any")
    before = end.join(words) + (end if is_ended and words else b"")
    (place / "list").write_bytes(before)
    lines = {name: "/one" if is_shared else f"/{name}{name}" for name in CLAIMS}
    for name in (*order, *order):
        put_in(place, name, lines[name])
    for number, name in enumerate(back):
        between = (place / "list").read_bytes().split(b"\n")
        for other in back[number:]:
            assert [line.strip(b"\r") for line in between].count(lines[other].encode()) == 1
        take_out(place, name)

    assert (place / "list").read_bytes() == before
    assert list((place / "state/locus/hooks").glob("exclude-*")) == []


@pytest.mark.parametrize("fault", [errno.EIO, errno.ENOSPC])
@pytest.mark.parametrize("before", [b"mine", None])
def test_a_disk_that_refuses_leaves_old_or_new(before: bytes | None, fault: int, tmp_path: Path) -> None:
    """P4, I35: whichever call fails, the list is whole, old or new, and taking the line out gives it back."""
    path = tmp_path / "list"
    after = b"/x\n" if before is None else b"mine\n/x\n"
    for nth in range(100):
        path.unlink(missing_ok=True)
        if before is not None:
            path.write_bytes(before)
        fs = FaultFS(nth, fault, persistent=False)
        try:
            put_in(tmp_path, "a", "/x", fs)
        except (EventLogError, OSError):
            pass
        assert (path.read_bytes() if path.exists() else None) in (before, after)
        assert fs.open_fds == {}
        take_out(tmp_path, "a")
        assert (path.read_bytes() if path.exists() else None) == before
        if len(fs.made) <= nth:
            break
    assert nth > 5


def test_a_list_that_changes_meanwhile_is_left(tmp_path: Path) -> None:
    """P4: what another program writes in the same moment is not lost."""
    (tmp_path / "list").write_bytes(b"mine\n")

    class Racing(type(REAL)):  # type: ignore[misc]
        def fsync(self, fd: int) -> None:
            super().fsync(fd)
            (tmp_path / "list").write_bytes(b"theirs\n")

    with pytest.raises(Refused, match="another program"):
        put_in(tmp_path, "a", "/x", Racing())
    assert (tmp_path / "list").read_bytes() == b"theirs\n"


@pytest.mark.parametrize("name", ["a b ", "[x]*?", "back\\slash", "!bang", "#hash", "\u00e9\udcff", "plain"])
def test_any_name_is_meant_exactly(name: str, tmp_path: Path) -> None:
    """P4: git ignores the file of that name by our line, and no other."""
    work = tmp_path / "work"
    work.mkdir()
    git(work, "init", "-q")
    (work / name).mkdir()
    for file in ("f", "g"):
        (work / name / file).touch()
    (work / "x").mkdir()
    (work / "x/f").touch()
    path = str(work / name / "f")
    (reported,) = git_exclude.exclude(REAL, path, str(tmp_path / "state"), git_exclude.claim_of_hooks(path))

    assert reported.state == git_exclude.ADDED
    seen = git(work, "status", "--porcelain", "-uall", "-z").split("\0")
    assert sorted(line[3:] for line in seen if line) == sorted([f"{name}/g", "x/f"])


def test_a_name_with_a_line_break_is_reported(tmp_path: Path) -> None:
    """P8: git's list cannot hold such a name, which is stated, with what to do."""
    work = tmp_path / "two\nlines"
    work.mkdir()
    git(tmp_path, "init", "-q")
    path = str(work / "f")
    (reported,) = git_exclude.exclude(REAL, path, str(tmp_path / "state"), git_exclude.claim_of_hooks(path))
    assert (
        reported.state == git_exclude.FAILED
        and "line break" in reported.why
        and "--user" in str(reported.todo)
    )
