"""The Python without Linux lacks what it is to lack, in every way that Locus starts one."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.macos import interpreter

PROBE = """
import errno, fcntl, os, sys, tempfile
absent = "O_TMPFILE O_PATH copy_file_range fdatasync memfd_create posix_fadvise sched_getaffinity"
print(sys.platform, [name for name in absent.split() if hasattr(os, name)])
for call in (os.stat, os.listdir, open, os.readlink, os.open):
    try:
        print(call("/proc/self/stat", os.O_RDONLY) if call is os.open else call("/proc/self"))
    except OSError as error:
        print(errno.errorcode[error.errno], end=" ")
with tempfile.TemporaryFile() as one, tempfile.TemporaryFile() as two:
    print(fcntl.fcntl(one.fileno(), fcntl.F_FULLFSYNC))
    try:
        fcntl.ioctl(one.fileno(), 0x40049409, two.fileno())
    except OSError as error:
        print(errno.errorcode[error.errno])
"""


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if sys.platform != "linux":
        pytest.skip("this system is masked by nobody")
    return interpreter.make(tmp_path_factory.mktemp("macos") / "python")


@pytest.mark.parametrize("options", [(), ("-IS",)])
def test_it_lacks_what_linux_alone_has(python: Path, options: tuple[str, ...]) -> None:
    """Also when it starts as a hook does, without its site and without variables."""
    done = subprocess.run([python, *options, "-c", PROBE], capture_output=True, text=True, check=True)

    assert done.stdout.splitlines() == ["darwin []", "ENOENT ENOENT ENOENT ENOENT ENOENT 0", "ENOTTY"]


def test_a_child_of_it_lacks_the_same(python: Path) -> None:
    """What it starts by its own path, as tests and maintenance do, and the packages that it sees."""
    child = "import blake3, sys; print(sys.platform)"
    code = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {child!r}])"
    done = subprocess.run([python, "-c", code], capture_output=True, text=True, check=True)

    assert done.stdout == "darwin\n"


def test_a_session_records_and_its_files_come_back(python: Path, tmp_path: Path) -> None:
    """Hooks as processes, a large file that changes, then a restore, its undo, and a deep check."""
    work = tmp_path / "work"
    work.mkdir()
    kept = {
        name: value for name, value in os.environ.items() if not name.startswith(("LOCUS_", "XDG_", "GIT_"))
    }
    environ = {**kept, "HOME": str(tmp_path), "LOCUS_NO_MAINTENANCE": "1"}

    def run(*arguments: str, stdin: str = "") -> str:
        command = [str(python), "-m", *arguments]
        done = subprocess.run(command, cwd=work, env=environ, input=stdin, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return done.stdout + done.stderr

    def hook(name: str) -> None:
        call = {
            "hook_event_name": name,
            "session_id": "s",
            "prompt_id": "p",
            "prompt": "Change",
            "cwd": str(work),
        }
        run("locus_cli.hook_entry", "claude-code", stdin=json.dumps(call))

    subprocess.run(["git", "init", "-q"], cwd=work, check=True)
    run("locus_cli", "init")
    large = os.urandom(3 << 20)
    (work / "small").write_text("one")
    (work / "large").write_bytes(large)
    hook("UserPromptSubmit")
    (work / "small").write_text("two")
    (work / "large").write_bytes(large[::-1])
    hook("Stop")
    run("locus_cli", "restore", "last", "--at", "start", "--yes")
    before = (work / "small").read_text(), (work / "large").read_bytes()
    run("locus_cli", "restore", "--undo", "--yes")

    assert before == ("one", large)
    assert ((work / "small").read_text(), (work / "large").read_bytes()) == ("two", large[::-1])
    assert "No damage found" in run("locus_cli", "store", "verify", "--deep")
    assert not (work / ".locus/tmp/hook-errors.log").exists()
