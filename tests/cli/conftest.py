"""Fixtures: a recorded repository, and `locus` in this process."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from locus_cli.main import run
from tests.cli.hook_support import project
from tests.cli.support import GIT_ENVIRONMENT, Ended, Locus, Recorded, make_history


@pytest.fixture(autouse=True)
def _own_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No test sees the user's store, home or git configuration."""
    for name in ("LOCUS_DIR", "LOCUS_DEBUG", "XDG_DATA_HOME"):
        monkeypatch.delenv(name, raising=False)
    for name, value in GIT_ENVIRONMENT.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("COLUMNS", "80")


@pytest.fixture
def locus(capsysbinary: pytest.CaptureFixture[bytes]) -> Locus:
    """Run `locus` in this process, through the same function as the console script."""

    def call(*arguments: object) -> Ended:
        capsysbinary.readouterr()
        code = run([str(a) for a in arguments])
        captured = capsysbinary.readouterr()
        return Ended(code, captured.out, captured.err.decode("utf-8", "backslashreplace"))

    return call


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, locus: Locus) -> Path:
    """A directory with a store, which is the working directory."""
    root = tmp_path / "shop"
    root.mkdir()
    monkeypatch.chdir(root)
    assert locus("--store", root / ".locus", "init").code == 0
    return root


@pytest.fixture
def work(tmp_path: Path) -> Path:
    """A small git repository with a store, for agents to work in."""
    return project(tmp_path)


@pytest.fixture(scope="session")
def _recorded_once(tmp_path_factory: pytest.TempPathFactory) -> Recorded:
    root = tmp_path_factory.mktemp("recorded") / "sample"
    commits = make_history(root)
    # The store keeps itself out of git; git must not see it either when its files are compared.
    assert run(["--store", str(root / ".locus"), "init"]) == 0
    assert run(["--store", str(root / ".locus"), "import", "git", str(root)]) == 0
    return Recorded(root, commits)


@pytest.fixture
def recorded(_recorded_once: Recorded, monkeypatch: pytest.MonkeyPatch) -> Iterator[Recorded]:
    """A recorded repository to read from; the working directory is inside it."""
    monkeypatch.chdir(_recorded_once.root)
    yield _recorded_once


@pytest.fixture
def copied(_recorded_once: Recorded, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Recorded:
    """The same in a copy of its own, to damage."""
    root = tmp_path / "copy"
    shutil.copytree(_recorded_once.root, root, symlinks=True)
    monkeypatch.chdir(root)
    return Recorded(root, _recorded_once.commits)
