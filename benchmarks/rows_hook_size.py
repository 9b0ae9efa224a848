"""What one tool call costs by the size of the repository, with every process, and the first prompt."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from random import Random
from statistics import median
from typing import Any

from benchmarks.frame import TIME_UNIT, Bench, NotRunnable, Row, Sides
from benchmarks.process import environment, git, run
from benchmarks.rows_hook import Desk, PlainPython, make_tree
from benchmarks.watcher import watched

SIZES = {"200": 200, "1k": 1_000, "3k": 3_000, "10k": 10_000, "100k": 100_000, "1m": 1_000_000}
_WATCHED = ("10k", "100k")
_NESTED = 100_000  # from here on files are small, and at most a hundred directories in one
_FILES_OF_DIRECTORY, _DIRECTORIES = 25, 100
_START = "python -I -c pass of a plain virtual environment"
_GIT = "git add -A, write-tree and commit-tree by a private index in one shell, warm"
_SYNCS = "ours syncs its journal and, with a new content, its pack; the anchor nothing"


def rows() -> list[Row]:
    made = []
    for name, files in SIZES.items():
        work = f"hook process after an edit of a 40 kB file among {files:,}"
        if files > 200:  # `hook-edit` has 200
            made.append(Row(f"hook-edit-{name}", work, _START, TIME_UNIT, _SYNCS, _edit(files)))
        both = f"both hook processes of an edit of a 40 kB file among {files:,}"
        made.append(Row(f"call-edit-{name}", both, _GIT, TIME_UNIT, _SYNCS, _call_edit(files)))
        both = f"both hook processes of a command that changes nothing among {files:,}"
        made.append(Row(f"call-shell-{name}", both, _GIT, TIME_UNIT, _SYNCS, _call_shell(files)))
        first = f"hook process, the first prompt in a repository of {files:,} files, all committed"
        empty = "the same by a private index that begins empty"
        made.append(Row(f"first-prompt-{name}", first, empty, TIME_UNIT, "ours syncs a pack", _first(files)))
        if name in _WATCHED:
            asked = f"both hook processes of a command that changes nothing among {files:,}, Watchman asked"
            watching = _call_shell(files, is_watched=True)
            made.append(Row(f"call-shell-{name}-watched", asked, _GIT, TIME_UNIT, _SYNCS, watching))
    asked = "hook process after a command that changes nothing among 1,000,000, Watchman asked"
    made.append(Row("hook-shell-1m-watched", asked, _START, TIME_UNIT, _SYNCS, _watched_hook(1_000_000)))
    return made


class SizedDesk(Desk):
    """A repository of some size, small files in it where it is a large one."""

    def make(self, root: str, rng: Random, files: int) -> None:
        if files < _NESTED:
            make_tree(root, rng, files)
            return
        for number in range(0, files, _FILES_OF_DIRECTORY):
            directory = number // _FILES_OF_DIRECTORY
            place = f"{root}/src/p{directory // _DIRECTORIES}/d{directory}"
            os.makedirs(place)
            for name in range(_FILES_OF_DIRECTORY):
                with open(f"{place}/f{name}.py", "w", encoding="ascii") as file:
                    file.write(f"{number + name} {rng.random()}\n")
        os.makedirs(f"{root}/src/d0", exist_ok=True)

    def edit_call(self) -> float:
        """Both processes of an edit."""
        return self.before("Edit", file_path=f"{self.root}/src/d0/edited.py") + self.edit()

    def shell_call(self) -> float:
        return self.before("Bash", command="make check") + self.shell(False)


class GitLine:
    """What a line of shell records with git: a commit of the directory by an index of its own."""

    def __init__(self, directory: str, tree: str) -> None:
        self.root = f"{directory}/theirs"
        shutil.copytree(tree, self.root, ignore=shutil.ignore_patterns(".git", ".locus", ".claude"))
        run([git(), "init", "-q", self.root])
        identity = {
            f"GIT_{who}_{what}": "bench" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")
        }
        self._index = f"{directory}/private-index"
        self._environment = environment() | identity | {"GIT_INDEX_FILE": self._index}
        self._rng = Random(1)
        self.seconds()

    def seconds(self) -> float:
        line = f"cat >/dev/null; {git()} add -A && {git()} commit-tree -m t $({git()} write-tree)"
        start = time.perf_counter()
        subprocess.run(
            ["sh", "-c", line],
            cwd=self.root,
            env=self._environment,
            check=True,
            input=b"{}",
            capture_output=True,
        )
        return time.perf_counter() - start

    def edit(self) -> float:
        os.makedirs(f"{self.root}/src/d0", exist_ok=True)
        with open(f"{self.root}/src/d0/edited.py", "w", encoding="ascii") as file:
            file.write("".join(f"{self._rng.getrandbits(24):06x}\n" for _ in range(40_000 // 7)))
        return self.seconds()

    def first(self) -> float:
        os.unlink(self._index)
        return self.seconds()


class _Place:
    """A desk of some size, git's side and a plain Python beside it, for all rows of that size."""

    def __init__(self, bench: Bench, files: int) -> None:
        directory = bench.new_directory(f"hook-{files}")
        self.desk = SizedDesk(directory, bench.seed, files)
        self.desk.wait_until_stored()
        self.plain, self.line = PlainPython(directory), GitLine(directory, self.desk.root)


def _place(bench: Bench, files: int) -> _Place:
    if files > 100_000 and bench.small:
        raise NotRunnable("a million files: the full scale has it")
    place: _Place = bench.shared(f"hooks among {files} files", lambda: _Place(bench, files))
    return place


def _calls(bench: Bench, files: int) -> int:
    return bench.pick(11, 41) if files <= 10_000 else 5


def _edit(files: int) -> Callable[[Bench], Any]:
    @contextmanager
    def prepare(bench: Bench) -> Iterator[Sides]:
        place, calls = _place(bench, files), _calls(bench, files)
        yield Sides(
            ours=lambda: median(place.desk.edit() for _ in range(calls)),
            anchor=lambda: median(place.plain.seconds() for _ in range(calls)),
            size=f"{files:,} files, {calls} calls a sample",
            rounds=bench.pick(3, 7),
        )

    return prepare


def _call_edit(files: int) -> Callable[[Bench], Any]:
    @contextmanager
    def prepare(bench: Bench) -> Iterator[Sides]:
        place, calls = _place(bench, files), _calls(bench, files)
        yield Sides(
            ours=lambda: median(place.desk.edit_call() for _ in range(calls)),
            anchor=lambda: median(place.line.edit() for _ in range(calls)),
            beside={"python -I -c pass, s": place.plain.seconds},
            size=f"{files:,} files, {calls} calls a sample",
            rounds=bench.pick(3, 7),
        )

    return prepare


def _call_shell(files: int, *, is_watched: bool = False) -> Callable[[Bench], Any]:
    @contextmanager
    def prepare(bench: Bench) -> Iterator[Sides]:
        place, calls = _place(bench, files), _calls(bench, files)
        with watched(place.desk) if is_watched else nullcontext():
            yield Sides(
                ours=lambda: median(place.desk.shell_call() for _ in range(calls)),
                anchor=lambda: median(place.line.seconds() for _ in range(calls)),
                beside={
                    "the process after it alone, s": lambda: place.desk.shell(False),
                    "processor time of both, s": lambda: _processor_s(place.desk.shell_call),
                    "processor time of git's line, s": lambda: _processor_s(place.line.seconds),
                    "python -I -c pass, s": place.plain.seconds,
                },
                size=f"{files:,} files, {calls} calls a sample",
                rounds=bench.pick(3, 7),
            )

    return prepare


def _watched_hook(files: int) -> Callable[[Bench], Any]:
    @contextmanager
    def prepare(bench: Bench) -> Iterator[Sides]:
        place = _place(bench, files)
        with watched(place.desk):
            yield Sides(
                ours=lambda: median(place.desk.shell(False) for _ in range(5)),
                anchor=lambda: median(place.plain.seconds() for _ in range(5)),
                beside={"processor time, s": lambda: _processor_s(lambda: place.desk.shell(False))},
                size=f"{files:,} files, 5 calls a sample",
                rounds=bench.pick(3, 7),
            )

    return prepare


def _processor_s(work: Callable[[], object]) -> float:
    """The processor time of the processes that some work starts and waits for."""
    before = os.times()
    work()
    after = os.times()
    return after.children_user + after.children_system - before.children_user - before.children_system


def _first(files: int) -> Callable[[Bench], Any]:
    @contextmanager
    def prepare(bench: Bench) -> Iterator[Sides]:
        place = _place(bench, files)
        yield Sides(
            ours=place.desk.first_prompt,
            anchor=place.line.first,
            beside={
                "until all contents are stored, s": lambda: place.desk.stored_s,
                "python -I -c pass, s": place.plain.seconds,
            },
            size=f"{files:,} files",
            rounds=bench.pick(3, 7) if files <= 10_000 else 2,
        )

    return prepare
