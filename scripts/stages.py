"""Runs the stages of continuous integration one after the other: python3 scripts/stages.py [DIRECTORY]

A stage is a file of DIRECTORY (scripts/ci.d), run in the order of the names from the root of the checkout.
Comments at its top configure it:

    # timeout: 300        seconds after which the stage, with every process of its group, is ended
    # after: 10-install   stages (file names, separated by spaces) without whose success it is not run

A stage that exits with 77 cannot be run on this machine; the last line of its output says why. Stages share
a scratch directory, CI_SCRATCH, and a virtual environment in it, LOCUS_VENV, which the first one makes.

The output ends with a summary: a line for each stage, with the last line that it printed. If that line
counts tests ("5 passed, 0 failed, 1 skipped"), it is printed once more, as the last of all. The exit
code is 1 if a stage failed, else 0.
Plain Python 3.8 without packages: this runs before anything is installed.
"""

import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
NOT_RUN = 77  # the exit code by which Automake's and Meson's tests say "skipped"
TESTS = re.compile(r"\d+ passed, \d+ failed, \d+ skipped")
GRACE_S = 10.0  # between the signals that end a stage: an interrupted pytest still prints what it did


class Stage:
    def __init__(self, path):
        self.path = path
        self.name = path.name
        header = dict(re.findall(r"^# (timeout|after): (.*)$", path.read_text(encoding="utf-8"), re.M))
        if "timeout" not in header:
            raise SystemExit(f"{path}: no line '# timeout: SECONDS'")
        self.timeout_s = float(header["timeout"])
        self.after = header.get("after", "").split()


class Output(threading.Thread):
    """Passes on what a stage prints as it comes, and remembers the end of it.

    A thread, and a daemon: a process that left the stage's group can hold the pipe open for ever.
    """

    def __init__(self, pipe):
        super().__init__(daemon=True)
        self._pipe = pipe
        self._tail = b""

    def run(self):
        while chunk := os.read(self._pipe.fileno(), 65536):
            self._tail = (self._tail + chunk)[-4096:]
            while chunk:
                chunk = chunk[os.write(1, chunk) :]

    def last_line(self):
        lines = self._tail.decode("utf-8", "replace").strip().splitlines()
        return lines[-1].strip("= ") if lines else ""


def find_stages(directory):
    """The stages of a directory in their order, each with a time limit, and after stages before it."""
    stages = []
    for path in sorted(path for path in directory.iterdir() if not path.name.startswith(".")):
        stage = Stage(path)
        unknown = set(stage.after) - {earlier.name for earlier in stages}
        if unknown:
            raise SystemExit(f"{path}: '# after:' names no earlier stage: {', '.join(sorted(unknown))}")
        stages.append(stage)
    if not stages:
        raise SystemExit(f"{directory}: no stages")
    return stages


def end_group(process, *signals):
    """Send signals to every process of a stage's group, with time to obey while the stage itself lives."""
    for number in signals:
        try:
            os.killpg(process.pid, number)
            process.wait(GRACE_S)
        except (ProcessLookupError, PermissionError):  # nobody is left; macOS says so of the dead, too
            return
        except subprocess.TimeoutExpired:
            continue


def run(stage, environment):
    """The outcome of a stage, as the summary shows it, and the last line of its output."""
    try:
        process = subprocess.Popen(
            [str(stage.path)],
            cwd=ROOT,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    except OSError as error:
        return f"FAILED: {error}", ""
    output = Output(process.stdout)
    output.start()
    try:
        code = process.wait(stage.timeout_s)
    except subprocess.TimeoutExpired:
        end_group(process, signal.SIGINT, signal.SIGTERM)
        return f"FAILED: not done after {stage.timeout_s:g} s", ""
    finally:
        end_group(process, signal.SIGKILL)
        output.join(GRACE_S)
    line = output.last_line()
    if code == NOT_RUN:
        return f"left out: {line or 'the stage does not say why'}", line
    if code:
        return f"FAILED: exit code {code}", line
    return f"ok: {line}" if line else "ok", line


def run_all(stages, environment):
    """(stage, outcome, last line, seconds) of each stage."""
    results = []
    outcomes = {}
    for stage in stages:
        print(f"\n== {stage.name}, at most {stage.timeout_s:g} s", flush=True)
        began = time.monotonic()
        missing = [name for name in stage.after if not outcomes.get(name, "").startswith("ok")]
        needs = f"left out: needs {', '.join(missing)}"
        outcome, line = (needs, "") if missing else run(stage, environment)
        outcomes[stage.name] = outcome
        results.append((stage, outcome, line, time.monotonic() - began))
    return results


def main(arguments):
    directory = Path(arguments[0]) if arguments else ROOT / "scripts/ci.d"
    stages = find_stages(directory.resolve())
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    # A job in the background ignores SIGINT, and so would its stages, whose tests send it.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    scratch = tempfile.mkdtemp(prefix="locus-ci-")
    try:
        environment = {**os.environ, "CI_SCRATCH": scratch, "LOCUS_VENV": f"{scratch}/venv"}
        results = run_all(stages, environment)
    finally:
        # A process that left its stage's group can still write there: no stage failed by that.
        shutil.rmtree(scratch, ignore_errors=True)
    print(f"\n== {len(results)} stages in {sum(seconds for *_, seconds in results):.0f} s")
    for stage, outcome, _, seconds in results:
        print(f"{stage.name:<16} {seconds:6.1f} s  {outcome}")
    for line in [line for _, _, line, _ in results if TESTS.fullmatch(line)]:
        print(line)
    failed = any(outcome.startswith("FAILED") for _, outcome, *_ in results)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
