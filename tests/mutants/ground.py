"""Copies of the checkout in which mutants are tried, and the verdict on each.

A `Ground` is one copy, used by one thread; several may be used at once, each in its own directory. The
tests run in processes of their own that import the copy, which is checked first: the installed package
is that of the checkout, and a mutant that nobody imports would survive everything.
"""

import os
import re
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from tests.mutants.catalogue import ROOT, Mutant

_CODE = ("eventlog", "cli", "tests", "benchmarks", "scripts", "docs", "examples", "plugins", ".ci")
_LEFT_OUT = shutil.ignore_patterns("__pycache__", ".hypothesis")
_WHICH = "import eventlog, locus_cli; print(eventlog.__file__); print(locus_cli.__file__)"
# Only the plugins that the tests need: others may be installed, and cost every process their imports.
_OPTIONS = (
    "-x", "-q", "--tb=short",
    "-p", "_hypothesis_pytestplugin", "-p", "tests.mutants.unshrunk", "--hypothesis-profile=unshrunk",
)  # fmt: skip
_FAILED = re.compile(r"^(?:FAILED|ERROR) (.+?)(?: - |$)", re.M)

# A mutant may make a test wait for ever. It is stopped when it has taken so much longer than the
# sound code that this alone is a failure.
_SLOWER = 5
_SLACK_S = 60.0
_SOUND_S_MAX = 600.0

_LONG_AGO_S = 1_000_000_000


@dataclass(frozen=True, slots=True)
class Run:
    """How one test ended."""

    outcome: str  # passed, failed, hangs, broken
    seconds: float
    failed: str  # the first case that failed
    output: str


class Ground:
    """A copy of the checkout; see the module's docstring."""

    def __init__(self, directory: Path) -> None:
        self.root = directory / "checkout"
        self.root.mkdir(parents=True)
        for name in _CODE:
            if (ROOT / name).is_dir():
                shutil.copytree(ROOT / name, self.root / name, ignore=_LEFT_OUT, symlinks=True)
        for path in ROOT.iterdir():
            if path.is_file() and path.name != ".git":
                shutil.copy(path, self.root)
        (self.root / "locus_cli").symlink_to("cli")
        self._scratch = directory / "tmp"
        self._environment = {
            **{name: value for name, value in os.environ.items() if not name.startswith("LOCUS_")},
            "PYTHONPATH": str(self.root),
            "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
            "TMPDIR": str(self._scratch),
        }
        self._scratch.mkdir()
        self._changes = 0
        output = subprocess.run(
            [sys.executable, "-c", _WHICH],
            cwd=self.root,
            env=self._environment,
            capture_output=True,
            text=True,
        )
        expected = [str(self.root / name / "__init__.py") for name in ("eventlog", "locus_cli")]
        if output.stdout.split("\n")[:2] != expected:
            raise RuntimeError(f"the copy is not what is imported:\n{output.stdout}{output.stderr}")

    def sound(self, test: str) -> Run:
        """The test on the code as it is."""
        return self._run(test, _SOUND_S_MAX)

    def mutated(self, mutant: Mutant, test: str, sound_s: float) -> Run:
        """The test on the code with the mutant in it. `sound_s`: how long it takes without."""
        path = self.root / mutant.path
        text = path.read_text(encoding="utf-8")
        changed = mutant.applied(text)
        if path.suffix == ".py":
            compile(changed, mutant.path, "exec")
        self._write(path, changed)
        try:
            return self._run(test, sound_s * _SLOWER + _SLACK_S)
        finally:
            self._write(path, text)

    def _write(self, path: Path, text: str) -> None:
        """Compiled files know second and size of their source, so each change has its own second."""
        path.write_text(text, encoding="utf-8")
        self._changes += 1
        os.utime(path, (_LONG_AGO_S + self._changes,) * 2)

    def _run(self, test: str, seconds_max: float) -> Run:
        started = time.monotonic()
        process = subprocess.Popen(
            [sys.executable, "-m", "pytest", *_OPTIONS, test],
            cwd=self.root,
            env=self._environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        try:
            output, _ = process.communicate(timeout=seconds_max)
            outcome = {0: "passed", 1: "failed"}.get(process.returncode, "broken")
        except subprocess.TimeoutExpired:
            outcome, output = "hangs", ""
        finally:
            try:
                os.killpg(process.pid, signal.SIGKILL)
            except ProcessLookupError:
                pass  # it left nothing behind
            process.wait()
        seconds = time.monotonic() - started
        # Not by `shutil.rmtree`: a mutant may leave a tree that is deeper than Python calls.
        subprocess.run(["rm", "-rf", "--", self._scratch], check=False)
        self._scratch.mkdir(exist_ok=True)
        failed = _FAILED.findall(output)
        return Run(outcome, seconds, failed[0] if failed else "", output)
