"""What Locus reads of the git repository around it."""

import os
import subprocess

from blake3 import blake3

from eventlog.base.repository import git_root, repo_hash_of
from eventlog.store import Store


def _git(directory, *arguments: str) -> str:
    identity = ["-c", "user.name=t", "-c", "user.email=t@example.invalid"]
    done = subprocess.run(
        ["git", "-C", str(directory), *identity, *arguments], check=True, capture_output=True, text=True
    )
    return done.stdout.strip()


def _repository(path) -> str:
    subprocess.run(["git", "init", "-q", str(path)], check=True)
    _git(path, "commit", "-q", "--allow-empty", "-m", "first")
    _git(path, "commit", "-q", "--allow-empty", "-m", "second")
    return _git(path, "rev-list", "--max-parents=0", "HEAD")


def test_repo_hash_comes_from_the_roots(tmp_path) -> None:
    """S1-3: the repository's hash is a digest of its root commits, so equal in every clone."""
    root = _repository(tmp_path / "one")
    subprocess.run(["git", "clone", "-q", str(tmp_path / "one"), str(tmp_path / "two")], check=True)

    expected = (blake3(root.encode() + b"\n").hexdigest()[:12], "roots")
    assert [repo_hash_of(str(tmp_path / name)) for name in ("one", "two")] == [expected, expected]


def test_a_shallow_clone_has_no_stable_hash(tmp_path) -> None:
    """A shallow clone's oldest commit is not the root: its store gets a random hash and says so."""
    _repository(tmp_path / "one")
    source = (tmp_path / "one").as_uri()
    subprocess.run(["git", "clone", "-q", "--depth=1", source, str(tmp_path / "two")], check=True)

    assert repo_hash_of(str(tmp_path / "two")) is None
    with Store.init(tmp_path / "two" / ".locus") as store:
        assert store.identity.repo_hash_origin == "random"


def test_an_unborn_repository_and_no_repository_have_no_hash(tmp_path) -> None:
    """Before the first commit, and outside git, nothing stable can be known."""
    subprocess.run(["git", "init", "-q", str(tmp_path / "unborn")], check=True)
    (tmp_path / "plain").mkdir()

    assert repo_hash_of(str(tmp_path / "unborn")) is None
    assert repo_hash_of(str(tmp_path / "plain")) is None


def test_git_root_is_found_from_below(tmp_path) -> None:
    """`init` below the root of a repository finds the root; outside git there is none."""
    _repository(tmp_path / "one")
    (tmp_path / "one" / "src").mkdir()
    (tmp_path / "plain").mkdir()

    assert git_root(str(tmp_path / "one" / "src")) == os.path.realpath(tmp_path / "one")
    assert git_root(str(tmp_path / "plain")) is None
