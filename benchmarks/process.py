"""Running other programs for a benchmark, as a user would run them."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any

from benchmarks.frame import NotRunnable


def environment() -> dict[str, str]:
    """Our environment without what would slow or steer the programs measured.

    PYTHONDONTWRITEBYTECODE makes every start compile again, LOCUS_DIR would name another store, and
    a person's git configuration may sign, compress or convert. Git packs a repository of many files after
    a commit: before it ends, and not in the background, beside what is measured.
    """
    kept = {
        name: value
        for name, value in os.environ.items()
        if name not in ("PYTHONDONTWRITEBYTECODE", "LOCUS_DIR") and not name.startswith("GIT_")
    }
    return kept | {
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_CONFIG_GLOBAL": os.devnull,
        "GIT_CONFIG_COUNT": "1",
        "GIT_CONFIG_KEY_0": "gc.autoDetach",
        "GIT_CONFIG_VALUE_0": "false",
        "LC_ALL": "C.UTF-8",
    }


def git() -> str:
    path = shutil.which("git")
    if path is None:
        raise NotRunnable("git is not installed")
    return path


def locus() -> list[str]:
    """The command that a user types, as installed beside this interpreter."""
    script = os.path.join(os.path.dirname(sys.executable), "locus")
    if os.access(script, os.X_OK):
        return [script]
    return [sys.executable, "-c", "from locus_cli.main import main; main()"]


def run(command: Sequence[str], *, cwd: str | None = None) -> subprocess.CompletedProcess[bytes]:
    """Run to its end; RuntimeError with its output when it fails."""
    done = subprocess.run(
        command, cwd=cwd, env=environment(), stdin=subprocess.DEVNULL, capture_output=True, check=False
    )
    if done.returncode:
        reported = done.stderr.decode(errors="replace").strip()
        raise RuntimeError(f"{' '.join(command)} ended with code {done.returncode}: {reported}")
    return done


def seconds(command: Sequence[str], *, cwd: str | None = None) -> float:
    """The wall time of a whole process, from before its start until it is gone."""
    start = time.perf_counter()
    run(command, cwd=cwd)
    return time.perf_counter() - start


def seconds_of(work: Callable[[], object]) -> float:
    """The wall time of a call in this process."""
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def end(process: subprocess.Popen[Any]) -> None:
    """Close the input of a program that ends when it does, and see it gone."""
    assert process.stdin is not None and process.stdout is not None
    process.stdin.close()
    try:
        process.wait(60)
    finally:
        process.kill()
        process.stdout.close()
