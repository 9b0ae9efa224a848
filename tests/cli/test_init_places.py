"""`locus init` makes a store that hooks record into, or says why none can be there."""

import json
import os
import shutil
import stat
import subprocess
from pathlib import Path

import pytest

from eventlog.store import Store
from tests.cli.hook_support import HOOK
from tests.cli.support import git, locus_process

root_only = pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file to another user")


@pytest.fixture
def work(tmp_path: Path) -> Path:
    work = tmp_path / "work"
    work.mkdir()
    git(work, "init", "-q")
    return work


def hook_records(work: Path) -> bool:
    """Whether a hook call, which is silent in any case, leaves an event."""
    data = json.dumps({"hook_event_name": "Seen", "session_id": "s", "cwd": str(work)}).encode()
    environ = {**os.environ, "LOCUS_NO_MAINTENANCE": "1"}
    done = subprocess.run(
        [*HOOK, "claude-code"], input=data, cwd=work, env=environ, capture_output=True, timeout=30
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")
    if not (work / ".locus/STORE").exists():
        return False
    with Store.open(work / ".locus") as store:
        return next(iter(store.events()), None) is not None


@pytest.mark.parametrize("mode", [0o1777, 0o777, 0o770, 0o755, 0o700])
def test_a_directory_that_others_may_write_is_closed(mode: int, work: Path) -> None:
    """P4, P5: a `.locus` that was there before, such as a mount for all, becomes one that hooks use."""
    (work / ".locus").mkdir()
    (work / ".locus").chmod(mode)
    done = locus_process("init", cwd=work)

    is_open = bool(mode & 0o022)
    assert done.code == 0 and ("could be written by others" in done.err) == is_open
    assert stat.S_IMODE((work / ".locus").stat().st_mode) == (0o700 if is_open else mode)
    assert hook_records(work)


@root_only
def test_a_directory_of_another_user_is_refused(work: Path) -> None:
    """P5: a `.locus` that somebody else made, or a part of it, is refused, as the hooks refuse it."""
    (work / ".locus").mkdir()
    os.chown(work / ".locus", 12345, 12345)
    done = locus_process("init", cwd=work)
    assert done.code == 3 and "belongs to another user (number 12345)" in done.err
    assert list((work / ".locus").iterdir()) == []

    os.chown(work / ".locus", 0, 0)
    (work / ".locus/log").mkdir()
    os.chown(work / ".locus/log", 12345, 12345)
    done = locus_process("init", cwd=work)
    assert done.code == 3 and "log belongs to another user" in done.err
    assert not hook_records(work)


def test_a_directory_that_git_tracks_is_refused(work: Path) -> None:
    """P5: what git tracks would be committed and taken back, so init names the command, and then works."""
    (work / ".locus").mkdir()
    (work / ".locus/config.toml").write_text("")
    git(work, "add", "-f", ".locus/config.toml")
    done = locus_process("init", cwd=work)
    assert done.code == 3 and "git rm -r --cached .locus" in done.err
    assert not (work / ".locus/STORE").exists()

    git(work, "rm", "-r", "-q", "--cached", ".locus")
    assert locus_process("init", cwd=work).code == 0
    assert hook_records(work)


def test_a_store_that_came_with_a_repository_is_not_there_already(work: Path) -> None:
    """P5: init does not call a store fine that every hook refuses."""
    assert locus_process("init", cwd=work).code == 0
    git(work, "add", "-f", ".locus")
    shutil.rmtree(work / ".locus")
    git(work, "checkout", "-q", "--", ".locus")
    done = locus_process("init", cwd=work)
    assert done.code == 3 and "came with the repository" in done.err


def test_links_are_followed_or_refused(work: Path, tmp_path: Path) -> None:
    """A `.locus` may lead to a directory of ours; a link inside of it would lead what is recorded away."""
    (tmp_path / "there").mkdir()
    (tmp_path / "there").chmod(0o777)
    (work / ".locus").symlink_to(tmp_path / "there")
    assert locus_process("init", cwd=work).code == 0 and hook_records(work)
    assert stat.S_IMODE((tmp_path / "there").stat().st_mode) == 0o700

    (tmp_path / "other").mkdir()
    git(tmp_path / "other", "init", "-q")
    (tmp_path / "other/.locus").mkdir()
    (tmp_path / "other/.locus/log").symlink_to(tmp_path / "there")
    done = locus_process("init", cwd=tmp_path / "other")
    assert done.code == 3 and "log is a link" in done.err and not hook_records(tmp_path / "other")
