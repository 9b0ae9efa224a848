"""The runner of continuous integration, with stages that do what stages can do."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
RUNNER = ROOT / "scripts/stages.py"


class Stages:
    """A directory of stages, and what the runner prints of them."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory / "stages"
        self.directory.mkdir()

    def add(self, name: str, body: str, *, timeout: str = "60", after: str = "") -> None:
        header = f"#!/bin/sh\n# timeout: {timeout}\n" + (f"# after: {after}\n" if after else "")
        path = self.directory / name
        path.write_text(f"{header}{body}\n", encoding="utf-8")
        path.chmod(0o755)

    def run(self) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, str(RUNNER), str(self.directory)]
        environment = {**os.environ, "TMPDIR": str(self.directory.parent)}
        return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60)


@pytest.fixture
def stages(tmp_path: Path) -> Stages:
    return Stages(tmp_path)


def outcomes(printed: str) -> dict[str, str]:
    """The summary at the end: name → outcome, each with its seconds."""
    summary = re.split(r"^== \d+ stages in \d+ s$", printed, flags=re.M)[-1]
    lines = re.findall(r"^(\S+) +\d+\.\d s  (.*)$", summary, re.M)
    counted = re.findall(r"^\d+ passed, .*\n\Z", summary, re.M)
    assert len(lines) + len(counted) == len(summary.split("\n")) - 2
    return dict(lines)


def test_stages_that_succeed_are_listed_with_their_times(stages: Stages) -> None:
    """What stages print comes through, in order; the summary is the end; the exit code is 0."""
    stages.add("20-second", "echo 7 passed, 1 skipped in 3.21s")
    stages.add("10-first", "echo made >$CI_SCRATCH/made; echo to stderr >&2; test -n $LOCUS_VENV")
    stages.add("30-third", "cat $CI_SCRATCH/made", after="10-first 20-second")
    done = stages.run()

    assert done.returncode == 0, done.stderr
    assert outcomes(done.stdout) == {
        "10-first": "ok: to stderr",
        "20-second": "ok: 7 passed, 1 skipped in 3.21s",
        "30-third": "ok: made",
    }
    lines = done.stdout.splitlines()
    assert lines.index("to stderr") < lines.index("7 passed, 1 skipped in 3.21s") < lines.index("made")


def test_a_failing_stage_is_red_and_the_others_still_run(stages: Stages) -> None:
    """The run fails, stages that need the failed one say so, and the rest is run."""
    stages.add("10-fails", "echo it is broken; exit 3")
    stages.add("20-needs-it", "echo never", after="10-fails")
    stages.add("30-other", "echo still run")
    done = stages.run()

    assert done.returncode == 1
    assert "still run" in done.stdout and "never" not in done.stdout
    assert outcomes(done.stdout) == {
        "10-fails": "FAILED: exit code 3",
        "20-needs-it": "left out: needs 10-fails",
        "30-other": "ok: still run",
    }


def test_what_cannot_be_had_is_no_failure(stages: Stages) -> None:
    """Exit code 77 is left out with the last line as the reason, and the run is green."""
    stages.add("10-absent", "echo looking; echo no browser is installed; exit 77")
    stages.add("20-mute", "exit 77")
    done = stages.run()

    assert done.returncode == 0
    assert outcomes(done.stdout) == {
        "10-absent": "left out: no browser is installed",
        "20-mute": "left out: the stage does not say why",
    }


@pytest.mark.parametrize("code", [0, 1])
def test_the_number_of_tests_is_the_last_line_of_all(stages: Stages, code: int) -> None:
    """Whether tests passed or failed; a line that only looks like the count is not said twice."""
    counted = "7 passed, 2 failed, 1 skipped"
    stages.add("10-tests", f"echo noise; echo {counted}; exit {code}")
    stages.add("20-other", "echo more: 3 passed, 0 failed, 0 skipped")
    done = stages.run()

    assert done.returncode == code
    assert done.stdout.endswith(f"\n{counted}\n")
    assert list(outcomes(done.stdout)) == ["10-tests", "20-other"]
    assert done.stdout.count("3 passed") == 2, "as the stage printed it, and in the summary"


def test_a_stage_without_end_is_ended_with_its_children(stages: Stages, tmp_path: Path) -> None:
    """A timeout is red and named, no process of the stage's group is left, and the next stage runs."""
    fifo = tmp_path / "held by the child"
    os.mkfifo(fifo)
    reader = os.open(fifo, os.O_RDONLY | os.O_NONBLOCK)
    deaf = "trap '' INT TERM; echo child >&3; while :; do sleep 0.05; done"
    stages.add("10-hangs", f"echo begun\n( {deaf} ) 3>'{fifo}' &\nwait", timeout="1")
    stages.add("20-next", "echo reached")
    done = stages.run()

    assert done.returncode == 1
    assert outcomes(done.stdout) == {"10-hangs": "FAILED: not done after 1 s", "20-next": "ok: reached"}
    assert "begun" in done.stdout
    assert os.read(reader, 100) == b"child\n"
    assert os.read(reader, 100) == b"", "a process of the stage still lives"
    os.close(reader)


def test_a_stage_may_end_by_itself_when_its_time_is_up(stages: Stages) -> None:
    """The first signal is SIGINT, so that an interrupted pytest can still print its closing lines."""
    stages.add("10-polite", "trap 'echo 5 passed in 1s; exit 0' INT\nsleep 60 & wait", timeout="1")
    done = stages.run()

    assert done.returncode == 1
    assert "5 passed in 1s" in done.stdout
    assert outcomes(done.stdout) == {"10-polite": "FAILED: not done after 1 s"}


def test_a_process_that_outlives_its_stage_decides_nothing(stages: Stages, tmp_path: Path) -> None:
    """A process that left the stage's group may write into the scratch directory while it is removed."""
    leaver = tmp_path / "leaver.py"
    leaver.write_text(
        "import os, sys\n"
        "os.setsid()\n"
        "place, stop = sys.argv[1:]\n"
        "print('ready', flush=True)\n"
        "for number in range(200_000):\n"
        "    if os.path.exists(stop): break\n"
        "    try: os.makedirs(f'{place}/{number % 50}')\n"
        "    except OSError: pass\n",
        encoding="utf-8",
    )
    stop = tmp_path / "stop"
    ready = tmp_path / "ready"
    command = f"'{sys.executable}' '{leaver}' \"$CI_SCRATCH/left\" '{stop}'"
    stages.add("10-leaves", f"{command} >'{ready}' 2>&1 &\nuntil test -s '{ready}'; do :; done")
    try:
        done = stages.run()
    finally:
        stop.touch()

    assert outcomes(done.stdout) == {"10-leaves": "ok"}
    assert done.returncode == 0, done.stderr


def test_an_ended_run_ends_its_stage(stages: Stages, tmp_path: Path) -> None:
    """SIGTERM to the runner ends the stage under way, and the scratch directory goes."""
    stages.add("10-long", "echo $CI_SCRATCH; echo ready >&2; sleep 60")
    runner = subprocess.Popen(
        [sys.executable, str(RUNNER), str(stages.directory)], stdout=subprocess.PIPE, text=True
    )
    assert runner.stdout is not None
    lines = iter(runner.stdout.readline, "ready\n")
    scratch = [line.strip() for line in lines][-1]
    assert os.path.isdir(scratch)
    runner.terminate()

    assert runner.wait(30) == 143
    assert not os.path.exists(scratch)
    runner.stdout.close()


@pytest.mark.parametrize(
    ("header", "problem"),
    [
        ("", "no line '# timeout: SECONDS'"),
        ("# timeout: 5\n# after: 05-typo\n", "'# after:' names no earlier stage: 05-typo"),
    ],
)
def test_a_stage_without_a_sound_header_stops_the_run(stages: Stages, header: str, problem: str) -> None:
    """A slip in a header is an error, never a stage that is silently left out."""
    (stages.directory / "10-slip").write_text(f"#!/bin/sh\n{header}", encoding="utf-8")
    done = stages.run()

    assert done.returncode == 1
    assert problem in done.stderr


def test_a_stage_that_cannot_be_started_is_red(stages: Stages) -> None:
    """A file that lost its executable bit is a failure, and not a stage less."""
    stages.add("10-plain", "echo never")
    (stages.directory / "10-plain").chmod(0o644)
    done = stages.run()

    assert done.returncode == 1
    assert outcomes(done.stdout)["10-plain"].startswith("FAILED: [Errno")


# What .ci/run has.

STAGES = sorted((ROOT / "scripts/ci.d").iterdir())


def test_all_stages_end_within_89_minutes() -> None:
    """Each stage has a time limit, and their sum with the time to end is below 89 minutes, on any machine.

    A run is to take 45 minutes at most; limits have room for a machine that is slower than the one of
    docs/testing.md, where it says what a run took.
    """
    limits = [float(re.findall(r"^# timeout: (\d+)$", path.read_text(), re.M)[0]) for path in STAGES]

    assert sum(limit + 3 * 10 for limit in limits) <= 89 * 60


def test_the_clients_are_not_run_where_they_are_absent(tmp_path: Path) -> None:
    """Without npm, or without the agents and the word to install them, the stage says so and is not red."""
    stage = ROOT / "scripts/ci.d/40-clients"
    tools = tmp_path / "bin"
    tools.mkdir()
    environment = {"PATH": str(tools), "LOCUS_E2E_CACHE": str(tmp_path / "absent")}
    without_npm = subprocess.run(["/bin/sh", str(stage)], env=environment, capture_output=True, text=True)
    (tools / "npm").write_text("#!/bin/sh\nexit 9\n", encoding="utf-8")
    (tools / "npm").chmod(0o755)
    without_agents = subprocess.run(["/bin/sh", str(stage)], env=environment, capture_output=True, text=True)

    assert (without_npm.returncode, without_npm.stdout) == (77, "npm is not installed\n")
    assert without_agents.returncode == 77
    assert "LOCUS_CI_CLIENTS=1" in without_agents.stdout


def test_the_stage_of_the_tests_ends_with_their_number(tmp_path: Path) -> None:
    """Each test counts once, whichever part of it fails, after all that pytest prints; pytest's exit code
    stays."""
    (tmp_path / "test_some.py").write_text(
        "import pytest\n"
        "@pytest.fixture\n"
        "def broken_after():\n"
        "    yield\n"
        "    assert False\n"
        "def test_good(): pass\n"
        "def test_bad(): assert False\n"
        "def test_bad_after(broken_after): pass\n"
        "def test_bad_twice(broken_after): assert False\n"
        "def test_left_out(): pytest.skip()\n"
        "@pytest.mark.xfail\n"
        "def test_known(): assert False\n",
        encoding="utf-8",
    )
    stage = (ROOT / "scripts/ci.d/50-tests").read_text(encoding="utf-8")
    arguments = re.findall(r"^exec scripts/test (.*)$", stage, re.M)[0].split()
    command = [sys.executable, "-m", "pytest", *arguments, "-c", "/dev/null", str(tmp_path)]
    environment = {**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)

    assert done.returncode == pytest.ExitCode.TESTS_FAILED, done.stderr
    assert done.stdout.endswith("=\n1 passed, 3 failed, 2 skipped\n"), done.stdout
