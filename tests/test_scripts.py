"""The scripts, run for real on a virtual environment that is already made."""

import os
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from tests.levels import FAST_FILES, LEVELS, long_tests

ROOT = Path(__file__).resolve().parent.parent
CODE = ("eventlog", "cli", "scripts", "pyproject.toml", "constraints.txt", "README.md")


def ready_venv(directory: Path, root: Path) -> Path:
    """What scripts/_venv takes for a finished environment: this interpreter, and the stamp it would write."""
    venv = directory / "venv"
    (venv / "bin").mkdir(parents=True, exist_ok=True)
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


def test_the_environment_of_another_checkout_stays(tmp_path: Path) -> None:
    """One that LOCUS_VENV names by mistake is somebody's: its installation leads to that checkout."""
    other = tmp_path / "other"
    other.mkdir()
    venv = ready_venv(tmp_path, ROOT)
    (venv / "locus-stamp").write_text("of the other\n")
    (venv / "locus-checkout").write_text(f"{other}\n")
    environ = {"PATH": os.environ["PATH"], "LOCUS_VENV": str(venv)}
    done = subprocess.run(
        [str(ROOT / "scripts/test"), "--version"], env=environ, capture_output=True, text=True
    )

    assert done.returncode == 1 and f"serves another checkout, {other}" in done.stderr
    assert (venv / "bin/python").exists()


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


@pytest.mark.slow
def test_the_demo_replays_what_git_has(copy: Path, tmp_path: Path) -> None:
    """P1: in a checkout without git history the demo makes a small one, and both trees are git's."""
    done = run_script("demo", copy, tmp_path)

    assert done.returncode == 0, done.stderr
    assert "no git history of its own" in done.stdout
    assert done.stdout.count("equal, byte for byte") == 2
    assert "No damage found" in done.stderr


@pytest.mark.slow
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


ROOMS = {"cli", *(path.parent.name for path in (ROOT / "eventlog").glob("*/__init__.py"))}


def test_the_levels_are_markers() -> None:
    """Each level is a registered marker, so that a misspelt one is an error, and each fast file exists."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    markers = [line.partition(":")[0] for line in project["tool"]["pytest"]["ini_options"]["markers"]]

    assert set(markers) == {*LEVELS, "long"} and len(markers) == len(LEVELS) + 1
    assert [path for path in sorted(FAST_FILES) if not (ROOT / path).is_file()] == []
    assert {path.split("/")[1] for path in FAST_FILES} >= ROOMS


@pytest.mark.slow
def test_fast_tests_are_a_part_of_all_and_of_every_room(tmp_path: Path) -> None:
    """`scripts/test --fast` selects less than all tests, some of each room, and none that hunts."""
    done = run_script("test", ROOT, tmp_path, "--fast", "--collect-only", "-q")
    chosen = re.findall(r"^tests/(.*?)(?:/.*)?::(\w+)", done.stdout, re.M)
    counts = re.search(r"^(\d+)/(\d+) tests collected \(\d+ deselected\)", done.stdout, re.M)

    assert done.returncode == 0 and counts is not None
    assert ROOMS | {"test_house.py", "test_readme.py"} <= {room for room, _ in chosen}
    assert len(chosen) == int(counts[1]) < int(counts[2])
    names = {name for _, name in chosen}
    assert "test_a_whole_session_is_replayable_turn_by_turn" in names
    assert not any(name.startswith("test_hunt_") for name in names)


def test_each_long_test_exists() -> None:
    """A test that was renamed is measured again, or its line in tests/long_tests.txt goes."""
    absent = [
        f"{path}: {name}"
        for path, name in sorted(long_tests())
        if not (ROOT / path).is_file() or f"def {name}(" not in (ROOT / path).read_text(encoding="utf-8")
    ]

    assert absent == []


@pytest.mark.slow
def test_what_a_bare_run_leaves_out_is_a_stage_of_its_own(tmp_path: Path) -> None:
    """`scripts/test` and the stage of long tests together run every test once; `--all` leaves nothing
    out, and neither does an argument that names tests."""

    def chosen(*arguments: str) -> tuple[int, int]:
        done = run_script("test", ROOT, tmp_path, *arguments, "--collect-only", "-q", "-n", "0")
        found = re.search(r"^(?:(\d+)/)?(\d+) tests collected", done.stdout, re.M)
        assert done.returncode == 0 and found is not None, done.stdout
        return int(found[1] or found[2]), int(found[2])

    bare, every = chosen()
    long = re.findall(r"^exec scripts/test (.*)$", (ROOT / "scripts/ci.d/49-long").read_text(), re.M)[
        0
    ].split()

    assert chosen(*long) == (every - bare, every)
    assert bare > 0.8 * every
    of_file = "tests/undo/test_kill.py"
    assert of_file in {path for path, _ in long_tests()}
    for arguments in ([of_file], ["--all", of_file]):
        assert len(set(chosen(*arguments))) == 1


@pytest.mark.slow
def test_the_slowest_tests_are_named(tmp_path: Path) -> None:
    """`scripts/test` names the longest tests of the run before its closing line."""
    test = tmp_path / "test_long.py"
    test.write_text("import time\n\n\ndef test_long():\n    time.sleep(1.01)\n", encoding="utf-8")
    done = run_script(
        "test", ROOT, tmp_path, "-n", "0", "--rootdir", str(tmp_path), "-c", os.devnull, str(test)
    )

    assert "slowest 20 durations" in done.stdout
    assert re.search(r"^1\.\d\ds call .*test_long$", done.stdout, re.M)
    assert "1 passed in " in done.stdout.splitlines()[-1]
