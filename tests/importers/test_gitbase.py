"""Contents that a repository held when a session began."""

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from eventlog.importers.gitbase import GitBase

FIRST, SECOND = 1_700_000_000, 1_700_086_400


def git(root: Path, *arguments: str, at: int = FIRST) -> str:
    when = f"{at} +0000"
    names = {"GIT_AUTHOR_NAME": "A", "GIT_AUTHOR_EMAIL": "a@b", "GIT_COMMITTER_NAME": "A"}
    env = {**names, "GIT_COMMITTER_EMAIL": "a@b", "GIT_AUTHOR_DATE": when, "GIT_COMMITTER_DATE": when}
    env |= {
        "PATH": "/usr/bin:/bin:/usr/local/bin",
        "GIT_CONFIG_GLOBAL": "/dev/null",
        "GIT_CONFIG_NOSYSTEM": "1",
    }
    done = subprocess.run(["git", "-C", str(root), *arguments], env=env, capture_output=True, check=True)
    return done.stdout.decode().strip()


@pytest.fixture
def root(tmp_path: Path) -> Iterator[Path]:
    """Two commits a day apart; the second one also on a branch of its own."""
    root = tmp_path / "shop"
    (root / "sub").mkdir(parents=True)
    git(root, "init", "-q", "-b", "main")
    (root / "price.py").write_bytes(b"price = 1\r\n")
    (root / "sub" / "caf\u00e9 blob 5.py").write_bytes(b"")
    git(root, "add", ".")
    git(root, "commit", "-q", "-m", "one")
    git(root, "checkout", "-q", "-b", "dearer")
    (root / "price.py").write_bytes(b"price = 2\n")
    git(root, "commit", "-q", "-a", "-m", "two", at=SECOND)
    yield root


def base(
    root: Path, *, at: int | None = None, branch: str | None = None, commit: str | None = None
) -> GitBase:
    return GitBase(str(root), commit=commit, branch=branch, before_us=None if at is None else at * 1_000_000)


def test_the_newest_commit_of_the_branch_before_the_session_is_asked(root: Path) -> None:
    """P7: a session gets the content of its own time; nothing when it is older than all commits."""
    for at, branch, content in (
        (SECOND + 5, "dearer", b"price = 2\n"),
        (SECOND - 5, "dearer", b"price = 1\r\n"),
        (SECOND + 5, "main", b"price = 1\r\n"),
        (SECOND + 5, "gone", b"price = 2\n"),
        (SECOND + 5, None, b"price = 2\n"),
        (FIRST - 5, "main", None),
        (None, "main", None),
    ):
        asked = base(root, at=at, branch=branch)
        assert asked("price.py") == content, (at, branch)
        asked.close()


def test_the_commit_that_a_session_names_comes_first(root: Path) -> None:
    """A named commit is taken whatever the time; a name that is none is not looked up."""
    named = base(root, commit=git(root, "rev-parse", "main"), at=SECOND + 5)
    assert named("price.py") == b"price = 1\r\n"
    assert named("price.py") == b"price = 1\r\n"
    named.close()
    named.close()
    assert named("price.py") is None
    assert base(root, commit="main", at=SECOND + 5)("price.py") is None
    unknown = base(root, commit="0" * 40)
    assert unknown("price.py") is None
    unknown.close()


def test_odd_paths_have_answers_and_what_is_no_file_has_none(root: Path) -> None:
    """Paths are relative to the root, with blanks and other letters; a directory, a hole, two lines: None."""
    asked = base(root, at=SECOND + 5, branch="main")
    assert asked("sub/caf\u00e9 blob 5.py") == b""
    for path in ("sub", "gone.py", "gone blob 7", "price.py\nprice.py", '"\\999"', ""):
        assert asked(path) is None
        assert asked("price.py") == b"price = 1\r\n"
    asked.close()
    below = base(root / "sub", at=SECOND + 5, branch="main")
    assert below("caf\u00e9 blob 5.py") == b""
    assert below("price.py") is None
    below.close()


def test_without_git_or_a_repository_nothing_is_known(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No repository, no directory, no git: unknown, and no error."""
    (tmp_path / "plain").mkdir()
    for place in (tmp_path / "plain", tmp_path / "gone"):
        assert base(place, at=SECOND, branch="main")("price.py") is None
    monkeypatch.setenv("PATH", str(tmp_path))
    assert base(root, at=SECOND, branch="main")("price.py") is None
    assert base(root, commit="0" * 40)("price.py") is None
