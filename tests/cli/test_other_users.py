"""Stores that may not be written, or belong to somebody else: reported, and no hook disturbs (P4, I35)."""

import json
import os
import shutil
import stat
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from eventlog.store import Store
from tests.cli.hook_support import HOOK, Agent, events, here, notes, project, replayed
from tests.cli.test_surroundings import bound_by_permissions

NOBODY = 65534


def as_nobody() -> list[str]:
    """Words before a command that run it as another user, who may read everything: the interpreter may be
    in a directory of root's."""
    if os.geteuid() != 0 or shutil.which("setpriv") is None:
        pytest.skip("only root, with setpriv, can become another user")
    words = ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups", "--no-new-privs"]
    words += ["--inh-caps=-all,+dac_read_search", "--ambient-caps=-all,+dac_read_search"]
    done = subprocess.run([*words, sys.executable, "-c", "import eventlog"], capture_output=True, text=True)
    if done.returncode:
        pytest.skip(f"another user cannot start this Python here: {done.stderr.strip()[-200:]}")
    return words


def hook(words: list[str], agent: Agent, name: str, **fields: object) -> None:
    """One silent hook call (P4), started with `words`."""
    variables = {
        **os.environ,
        "LOCUS_NO_MAINTENANCE": "1",
        "LOCUS_HOOK_PATIENCE": "20",
        **(agent.environ or {}),
    }
    reported = json.dumps(agent.payload(name, **fields)).encode()
    done = subprocess.run(
        [*words, *HOOK, agent.name],
        input=reported,
        capture_output=True,
        cwd=agent.work,
        env=variables,
        timeout=60,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")


def locus(words: list[str], *arguments: str, cwd: Path) -> "subprocess.CompletedProcess[str]":
    command = [*words, sys.executable, "-m", "locus_cli", *arguments]
    environment = {**os.environ, "HOME": str(cwd)}
    return subprocess.run(command, cwd=cwd, capture_output=True, text=True, timeout=60, env=environment)


def set_writable(store: Path, writable: bool) -> None:
    for path in (store, *store.rglob("*")):
        if path.is_dir():
            path.chmod(0o700 if writable else 0o500)


@contextmanager
def closed(store: Path) -> Iterator[None]:
    """No directory of the store takes a new name."""
    set_writable(store, False)
    try:
        yield
    finally:
        set_writable(store, True)


def contents(store: Path) -> dict[str, tuple[int, bytes]]:
    return {
        str(path.relative_to(store)): (stat.S_IMODE(path.stat().st_mode), path.read_bytes())
        for path in store.rglob("*")
        if path.is_file()
    }


def test_a_store_without_the_right_to_write(tmp_path: Path) -> None:
    """P4: a store of which nothing may be written is left as it is, silently; doctor says why, and when the
    right is back, everything is recorded."""
    work = project(tmp_path)
    before = contents(work / ".locus")
    agent = Agent(work)
    files = [path for path in (work / ".locus").rglob("*") if path.is_file()]
    with closed(work / ".locus"):
        for path in files:
            path.chmod(0o400)
        hook(bound_by_permissions(), agent, "UserPromptSubmit", prompt="Go")
        output = locus(bound_by_permissions(), "doctor", cwd=work)
        for path in files:
            path.chmod(0o600)
    assert contents(work / ".locus").keys() == before.keys()
    assert events(work) == []
    assert output.returncode == 1 and "cannot be written" in output.stdout

    agent.prompt("Go")
    agent.stop()
    assert [e["operation"] for e in events(work, "turn")] == ["start", "end"]


def test_a_permission_that_goes_while_hooks_run(tmp_path: Path) -> None:
    """P1, P4, I1, I24: a store that is closed at any moment of a hook disturbs no agent and stays sound; each
    change is reported once, at the latest when the right is back."""
    work = project(tmp_path)
    agent = Agent(work)
    agent.prompt("Go")
    words = bound_by_permissions()
    environment = {**os.environ, "LOCUS_NO_MAINTENANCE": "1"}
    for number in range(10):
        (work / f"f{number}.txt").write_text(str(number) * 1000)
        reported = agent.payload("PostToolUse", tool_name="Bash", tool_input={}, tool_use_id=f"p{number}")
        process = subprocess.Popen(
            [*words, *HOOK, "claude-code"],
            cwd=work, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip
        assert process.stdin is not None
        process.stdin.write(json.dumps(reported).encode())
        process.stdin.close()
        process.stdin = None
        time.sleep(number * 0.012)
        with closed(work / ".locus"):
            out, err = process.communicate(timeout=60)
        assert (process.returncode, out, err) == (0, b"", b"")
    agent.stop()

    ended = events(work, "turn")[-1]
    assert replayed(work, ended, tmp_path / "out") == here(work)
    added = Counter(e["path"] for e in events(work, "file") if e["operation"] == "add")
    assert added == Counter(f"f{number}.txt" for number in range(10))
    with Store.open(work / ".locus") as store:
        assert store.verify("deep") == []


@pytest.fixture
def public() -> Iterator[Path]:
    """A temporary directory that every user may enter."""
    with tempfile.TemporaryDirectory() as directory:
        os.chmod(directory, 0o755)
        yield Path(directory)


def test_hooks_are_installed_below_a_store_of_another_user(public: Path) -> None:
    """P4, P5: installing ends well and says that nothing is recorded here, and whose store is in the way."""
    words = as_nobody()
    work = project(public)
    for path in [work, *work.rglob("*")]:
        if not path.is_symlink():
            path.chmod(0o755 if path.is_dir() else 0o644)
    below = work / "theirs"
    below.mkdir()
    os.chown(below, NOBODY, NOBODY)
    done = locus(words, "hooks", "install", "--agent", "claude-code", cwd=below)

    assert done.returncode == 0, done.stderr
    assert (below / ".claude/settings.local.json").exists()
    (reported,) = (line for line in done.stderr.splitlines() if "record nothing here" in line)
    assert "another user" in reported


@pytest.mark.parametrize("named", [False, True])
def test_a_store_of_another_user(named: bool, public: Path) -> None:
    """P4, P5, I35: somebody else's store is read when it is named, and never otherwise; a hook of another
    user neither writes into it nor disturbs, and doctor says what is in the way."""
    words = as_nobody()
    work = project(public)
    agent = Agent(work)
    agent.prompt("Go")
    for path in [work, *work.rglob("*")]:
        if not path.is_symlink():
            path.chmod(0o755 if path.is_dir() else 0o644)
    before = contents(work / ".locus")
    store = str(work / ".locus")
    agent.environ = {"LOCUS_DIR": store} if named else {}
    hook(words, agent, "UserPromptSubmit", prompt="Go on")
    options = ["--store", store] if named else []
    log, doctor, seal = (
        locus(words, *options, *verb, cwd=work) for verb in (("log",), ("doctor",), ("store", "seal"))
    )

    assert contents(work / ".locus") == before
    assert doctor.returncode == 1
    if named:
        assert log.returncode == 0 and "Go" in log.stdout, log.stderr
        assert seal.returncode == 1 and "Permission denied" in seal.stderr and seal.stderr.count("\n") == 1
        assert "cannot be written" in doctor.stdout
    else:
        assert log.returncode == 3 and "another user" in log.stderr
        assert "another user" in doctor.stdout
    assert notes(work) == ""
