"""The scripts, run for real on a virtual environment that is already made."""

import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
CODE = ("eventlog", "cli", "scripts", "pyproject.toml", "constraints.txt", "README.md")


def ready_venv(directory: Path, root: Path) -> Path:
    """What scripts/_venv takes for a finished environment: this interpreter, and the stamp it would write."""
    venv = directory / "venv"
    (venv / "bin").mkdir(parents=True)
    python = venv / "bin/python"
    python.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} "$@"\n')
    python.chmod(0o755)
    parts = (
        f"{root}\n".encode()
        + (root / "pyproject.toml").read_bytes()
        + (root / "constraints.txt").read_bytes()
    )
    stamp = subprocess.run(["cksum"], input=parts, capture_output=True, check=True).stdout
    (venv / "locus-stamp").write_bytes(stamp)
    return venv


def run_script(name: str, root: Path, scratch: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    own = {key: value for key, value in os.environ.items() if not key.startswith(("GIT_", "LOCUS_"))}
    return subprocess.run(
        [str(root / "scripts" / name), *arguments],
        cwd=scratch,
        env={
            **own,
            "LOCUS_VENV": str(ready_venv(scratch, root)),
            "TMPDIR": str(scratch),
            "PYTHONPATH": os.pathsep.join(sys.path),
        },
        capture_output=True,
        text=True,
        timeout=300,
    )


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """The checkout without its git history, in a directory with a space in its name."""
    root = tmp_path / "a copy"
    root.mkdir()
    for name in CODE:
        source = ROOT / name
        if source.is_dir():
            shutil.copytree(source, root / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(source, root / name)
    return root


def test_the_demo_replays_what_git_has(copy: Path, tmp_path: Path) -> None:
    """P1: in a checkout without git history the demo makes a small one, and both trees are git's."""
    done = run_script("demo", copy, tmp_path)

    assert done.returncode == 0, done.stderr
    assert "no git history of its own" in done.stdout
    assert done.stdout.count("equal, byte for byte") == 2
    assert "No damage found" in done.stderr


def test_the_demo_works_in_a_shallow_clone(copy: Path, tmp_path: Path) -> None:
    """P1: a clone of depth one is recorded as far as it goes, and says so."""
    environment = {**os.environ, "GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_SYSTEM": os.devnull}
    who = ["-c", "user.name=A. Author", "-c", "user.email=author@example.org"]
    for arguments in (["init", "-q"], ["add", "-A"], [*who, "commit", "-qm", "One"],
                      [*who, "commit", "-qm", "Two", "--allow-empty"]):  # fmt: skip
        subprocess.run(["git", "-C", str(copy), *arguments], env=environment, check=True)
    shallow = tmp_path / "shallow"
    subprocess.run(["git", "clone", "-q", "--depth", "1", f"file://{copy}", str(shallow)], check=True)
    done = run_script("demo", shallow, tmp_path)

    assert done.returncode == 0, done.stderr
    assert "shallow clone" in done.stdout
    assert done.stdout.count("equal, byte for byte") == 1


def test_scripts_pass_their_arguments_on(tmp_path: Path) -> None:
    """`scripts/test ARGUMENTS` gives them to pytest, from any working directory."""
    done = run_script("test", ROOT, tmp_path, "--version")

    assert (done.returncode, done.stdout.split()[:1]) == (0, ["pytest"])
