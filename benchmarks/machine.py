"""What a figure was measured on: processor, memory, kernel, file system, versions."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import shutil
import sqlite3
import subprocess
import time

# A machine whose processors others use less than this, of one processor, is idle.
_IDLE_BELOW = 0.15
_WATCHED_S = 2.0


def machine(directory: str, watched_s: float = _WATCHED_S) -> dict[str, object]:
    """The machine as far as it says; null where it does not. `directory` holds the benchmark's files.

    `busy` is how many processors others kept busy for `watched_s` before anything was measured.
    """
    busy = busy_processors(watched_s)
    return {
        "busy": None if busy is None else round(busy, 2),
        "idle": None if busy is None else busy < _IDLE_BELOW,
        "cpu": _first_field("/proc/cpuinfo", "model name") or platform.processor() or None,
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
        "memory_bytes": _memory_bytes(),
        "file_system": file_system(directory),
        "kernel": f"{platform.system()} {platform.release()}",
        "load_1min": round(os.getloadavg()[0], 2),
    }


def busy_processors(seconds: float) -> float | None:
    """How many processors were busy on average while this waited; None where the kernel does not say."""
    before = _busy_s()
    time.sleep(seconds)
    after = _busy_s()
    return None if before is None or after is None else (after - before) / seconds


def _busy_s() -> float | None:
    """Processor time of all processes since the machine started, without idling and waiting for disks."""
    try:
        with open("/proc/stat", encoding="ascii") as file:
            fields = [int(field) for field in file.readline().split()[1:9]]
    except (OSError, ValueError):
        return None
    idle, waiting = fields[3:5]
    return (sum(fields) - idle - waiting) / os.sysconf("SC_CLK_TCK")


def versions() -> dict[str, str | None]:
    return {
        "python": platform.python_version(),
        "sqlite": sqlite3.sqlite_version,
        "git": _git_version(),
        **{name: _package_version(name) for name in ("duckdb", "pyarrow", "orjson", "blake3")},
        "locus": _package_version("locus-eventlog"),
    }


def file_system(directory: str) -> str | None:
    """The type of the file system that holds `directory`, "ext4"; None where the kernel has no list."""
    path = os.path.realpath(directory)
    best, kind = "", None
    try:
        with open("/proc/self/mounts", encoding="utf-8", errors="surrogateescape") as file:
            mounts = [line.split(" ") for line in file]
    except OSError:
        return None
    for fields in mounts:
        mounted = fields[1].replace("\\040", " ")
        below = path == mounted or path.startswith(mounted.rstrip("/") + "/")
        if below and len(mounted) >= len(best):  # a later mount on the same place hides an earlier one
            best, kind = mounted, fields[2]
    return kind


def _memory_bytes() -> int | None:
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (ValueError, OSError):
        return None


def _first_field(path: str, name: str) -> str | None:
    try:
        with open(path, encoding="utf-8") as file:
            for line in file:
                key, _, value = line.partition(":")
                if key.strip() == name:
                    return value.strip()
    except OSError:
        pass
    return None


def _git_version() -> str | None:
    if shutil.which("git") is None:
        return None
    output = subprocess.run(["git", "--version"], capture_output=True, text=True, check=False).stdout
    return output.removeprefix("git version").strip() or None


def _package_version(name: str) -> str | None:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None
