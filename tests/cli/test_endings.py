"""How `locus` ends: exit codes, one line on stderr, pipes, signals."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from eventlog.base.errors import Conflict, Corruption, EventLogError, LockTimeout, NoStore, Refused
from tests.cli.support import Locus, Recorded, locus_process


def one_line(err: str) -> bool:
    return err.startswith("locus: ") and err.count("\n") == 1 and "Traceback" not in err


@pytest.mark.parametrize(
    ("error", "code"),
    [(EventLogError, 1), (Refused, 3), (Conflict, 3), (NoStore, 10), (LockTimeout, 11), (Corruption, 12)],
)
def test_exit_codes_belong_to_errors(error: type[EventLogError], code: int) -> None:
    """P8: each kind of error has the documented exit code."""
    assert error.exit_code == code


def test_no_store_is_exit_10(tmp_path: Path) -> None:
    """P8: outside a store a command says so in one line, with the next step, and ends with 10."""
    ended = locus_process("log", cwd=tmp_path)

    assert (ended.code, ended.out) == (10, b"")
    assert one_line(ended.err)
    assert "locus init" in ended.err


def test_errors_are_json_when_json_was_asked_for(tmp_path: Path) -> None:
    """P8: with --json the error is an object on stderr, and stdout stays empty."""
    for arguments in (
        ["log", "--json"],
        ["sql", "select 1", "--format", "json"],
        ["sql", "x", "--format=json"],
    ):
        ended = locus_process(*arguments, cwd=tmp_path)
        error = json.loads(ended.err)["error"]

        assert (ended.code, ended.out) == (10, b"")
        assert (error["kind"], error["exit_code"]) == ("NoStore", 10)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["frobnicate"], "No such command 'frobnicate'"),
        (["log", "--frobnicate"], "--frobnicate"),
        (["replay", "last"], "--to"),
        (["log", "--limit", "0"], "--limit"),
        (["log", "--since", "soon"], "neither a date"),
        (["log", "--store", "x"], "locus --store DIR COMMAND"),
        (["import"], "Usage: locus import"),
        ([], "Usage: locus"),
    ],
)
def test_wrong_usage_is_exit_2(arguments: list[str], says: str, locus: Locus) -> None:
    """P8: a command line that makes no sense ends with 2, says why, and where help is."""
    ended = locus(*arguments)

    assert (ended.code, ended.out) == (2, b"")
    assert says in ended.err
    assert "--help" in ended.err


def test_a_bug_is_reported_in_one_line_and_debugging_shows_it_all(recorded: Recorded) -> None:
    """An unexpected exception is no traceback, unless LOCUS_DEBUG=1 asks for one."""
    program = (
        "import sys\nfrom eventlog.store import Store\n"
        "def broken(*a, **k): raise ZeroDivisionError('oops')\n"
        "Store.status = broken\nfrom locus_cli.main import main\nmain(['status'])"
    )

    def run(**environment: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-c", program],
            cwd=recorded.root,
            capture_output=True,
            text=True,
            env={**os.environ, **environment},
        )

    assert run().returncode == 1
    assert one_line(run().stderr)
    assert "LOCUS_DEBUG=1" in run().stderr
    assert "Traceback" in run(LOCUS_DEBUG="1").stderr


def test_a_closed_pipe_is_quiet(recorded: Recorded) -> None:
    """`locus log | head -1` prints one line and no complaint."""
    done = subprocess.run(
        ["sh", "-c", '"$0" -m locus_cli sql "select range from range(100000)" | head -1', sys.executable],
        cwd=recorded.root,
        capture_output=True,
        text=True,
    )

    assert done.stderr == ""
    assert done.stdout.strip() == "range"


@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_a_reader_who_stops_is_told_by_the_exit_code(recorded: Recorded, unbuffered: str) -> None:
    """P8: 141 when the reader of a large output goes away, also where Python does not buffer."""
    with subprocess.Popen(
        [sys.executable, "-m", "locus_cli", "sql", "--format", "csv", "select * from range(900000)"],
        cwd=recorded.root,
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONUNBUFFERED": unbuffered},
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"range\n"
        process.stdout.close()

    assert process.returncode == 141


def test_ctrl_c_ends_with_130(recorded: Recorded) -> None:
    """An interrupted command ends with 130 and one word."""
    slow = "import time\nfrom eventlog.store import Store\n"
    slow += "def wait(*a, **k):\n  print('ready', flush=True)\n  time.sleep(60)\n"
    slow += "Store.status = wait\nfrom locus_cli.main import main\nmain(['status'])"
    with subprocess.Popen(
        [sys.executable, "-c", slow],
        cwd=recorded.root,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n"
            time.sleep(0.05)
            process.send_signal(signal.SIGINT)
            _, err = process.communicate(timeout=30)
        finally:
            process.kill()

    assert process.returncode == 130
    assert err.strip() == "locus: interrupted"


def test_a_path_that_cannot_be_read_is_reported_with_its_name(recorded: Recorded, locus: Locus) -> None:
    """An error of the operating system names the file."""
    ended = locus("sql", "--file", "/no/such/directory/x")

    assert ended.code == 1
    assert ended.err == "locus: /no/such/directory/x: No such file or directory\n"


def test_the_version_is_shown(locus: Locus) -> None:
    """`locus --version` says which Locus this is."""
    import eventlog

    assert locus("--version").text == f"locus {eventlog.__version__}\n"


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_scripts(shell: str, locus: Locus, monkeypatch: pytest.MonkeyPatch) -> None:
    """`locus completion` prints a script for the shell named, or for the user's own."""
    monkeypatch.setenv("SHELL", f"/bin/{shell}")
    named, own = locus("completion", shell), locus("completion")

    assert named.code == own.code == 0
    assert named.out == own.out
    assert b"_LOCUS_COMPLETE" in named.out


def test_completion_needs_a_known_shell(locus: Locus, monkeypatch: pytest.MonkeyPatch) -> None:
    """An unknown shell is a usage error, not a guess."""
    monkeypatch.setenv("SHELL", "/bin/csh")

    assert locus("completion").code == 2


def test_words_are_completed(tmp_path: Path) -> None:
    """The shell's question is answered with the verbs that fit."""
    ended = locus_process(
        cwd=tmp_path, _LOCUS_COMPLETE="bash_complete", COMP_WORDS="locus st", COMP_CWORD="1"
    )

    assert sorted(ended.text.split()) == ["plain,stats", "plain,status", "plain,statusline", "plain,store"]


OUTPUTS = [
    ("log",),
    ("show", "last"),
    ("timeline", "last"),
    ("status",),
    ("sql", "select 1"),
    ("diff", "last"),
]


@pytest.mark.parametrize("where", [">&-", ">/dev/full"])
@pytest.mark.parametrize("arguments", OUTPUTS)
def test_an_output_that_takes_nothing_is_an_error(
    recorded: Recorded, arguments: tuple[str, ...], where: str
) -> None:
    """P8: with standard output closed or full a command says which it is in one line, and ends with 1."""
    ended = shell(recorded, arguments, where)

    assert ended.returncode == 1, ended.stderr
    assert one_line(ended.stderr) and "standard output" in ended.stderr


@pytest.mark.parametrize("where", ["2>&-", "2>/dev/full", "<&-", "0<&- 2>&-"])
def test_what_cannot_be_printed_changes_no_exit_code(recorded: Recorded, where: str) -> None:
    """P8: without standard error or input a command does and ends as with them."""
    assert shell(recorded, ("frobnicate",), where).returncode == 2
    ended = shell(recorded, ("status", "--json"), where)
    assert ended.returncode == 0 and json.loads(ended.stdout)["version"] == 1


def shell(recorded: Recorded, arguments: tuple[str, ...], where: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "locus_cli", "--store", str(recorded.root / ".locus"), *arguments]
    return subprocess.run(
        ["sh", "-c", f'exec "$@" {where}', "sh", *command], capture_output=True, text=True, timeout=60
    )
