"""Beside git: importing a history, and putting the tree of one of its commits into a directory."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

from benchmarks.frame import TIME_UNIT, Bench, NotRunnable, Row, Sides
from benchmarks.process import end, environment, git, locus, run, seconds
from benchmarks.repository import shared_repository
from eventlog import Store


def rows() -> list[Row]:
    return [
        Row(
            name="import",
            work="import of a git history, whole process",
            anchor="git fast-export | git fast-import of the same commits",
            unit=TIME_UNIT,
            durability="both: packs synced before the end, ours also the journal; target empty",
            prepare=_import,
        ),
        Row(
            name="replay",
            work="replay of one turn of that history, store open",
            anchor="git checkout-index -a of the same commit, index made before",
            unit=TIME_UNIT,
            durability="neither syncs the files it makes; both into an empty directory",
            prepare=_replay,
        ),
    ]


@dataclass(frozen=True, slots=True)
class _Repository:
    path: str
    commits: list[str]  # first-parent line, root first

    @property
    def files_of_last(self) -> int:
        return self.files(self.commits[-1])

    def files(self, commit: str) -> int:
        listed = run([git(), "-C", self.path, "ls-tree", "-r", "-z", "--name-only", commit])
        return listed.stdout.count(b"\0")


def _repository(bench: Bench) -> _Repository:
    """The repository given with --repo, or a synthetic one."""
    path = bench.repo
    if path is None:
        path = shared_repository(bench, commits=bench.pick(1_000, 4_000), files=bench.pick(300, 1_500))
    elif not os.path.isdir(path):
        raise NotRunnable(f"--repo {path} is not a directory")
    listed = run([git(), "-C", path, "rev-list", "--first-parent", "--reverse", "HEAD"])
    return _Repository(path, listed.stdout.decode().split())


def _shared_repository(bench: Bench) -> _Repository:
    found = bench.shared("repository", lambda: _repository(bench))
    assert isinstance(found, _Repository)
    return found


@contextmanager
def _import(bench: Bench) -> Iterator[Sides]:
    repository = _shared_repository(bench)
    with bench.scratch("import") as directory:
        yield Sides(
            ours=lambda: _import_ours(repository.path, f"{directory}/store"),
            anchor=lambda: _import_git(repository.path, f"{directory}/copy.git"),
            size=f"{len(repository.commits):,} commits, {repository.files_of_last:,} files in the last",
            rounds=bench.pick(3, 5),
            warm_up=False,
        )


def _import_ours(repository: str, store: str) -> float:
    Store.init(store).close()
    try:
        return seconds([*locus(), "--store", store, "import", "git", repository])
    finally:
        shutil.rmtree(store)


def _import_git(repository: str, copy: str) -> float:
    run([git(), "init", "-q", "--bare", copy])
    try:
        start = time.perf_counter()
        exporting = subprocess.Popen(
            [git(), "-C", repository, "fast-export", "--first-parent", "--signed-tags=strip", "HEAD"],
            stdout=subprocess.PIPE,
            env=environment(),
        )
        importing = subprocess.Popen(
            [git(), "-C", copy, "fast-import", "--quiet"], stdin=exporting.stdout, env=environment()
        )
        assert exporting.stdout is not None
        exporting.stdout.close()
        codes = importing.wait(), exporting.wait()
        took = time.perf_counter() - start
        if any(codes):
            raise RuntimeError(f"git fast-export | git fast-import ended with codes {codes[1]}, {codes[0]}")
        return took
    finally:
        shutil.rmtree(copy)


@contextmanager
def _replay(bench: Bench) -> Iterator[Sides]:
    repository = _shared_repository(bench)
    commit = repository.commits[len(repository.commits) * 3 // 4]
    with bench.scratch("replay") as directory, ExitStack() as stack:
        store, index = f"{directory}/store", f"{directory}/index"
        Store.init(store).close()
        run([*locus(), "--store", store, "import", "git", repository.path])
        run(
            [
                git(),
                "-C",
                repository.path,
                f"--work-tree={directory}",
                "read-tree",
                f"--index-output={index}",
                commit,
            ]
        )
        target = f"{directory}/tree"
        # Git's index was made above, which is where it looked the commit up and listed its tree; ours
        # knows which turn is meant, and lists the tree in the time measured.
        replayer = stack.enter_context(_Replayer(store, commit))
        yield Sides(
            ours=lambda: replayer.replay(target),
            anchor=lambda: _checkout(repository.path, index, target),
            beside={
                "locus replay, whole process, s": lambda: _replay_process(store, commit, target),
            },
            size=f"{repository.files(commit):,} files",
            rounds=bench.pick(7, 11),
        )


class _Replayer:
    """The replaying process, its store open and its turn known."""

    def __init__(self, store: str, commit: str) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "benchmarks.replayer", store, commit],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=environment(),
        )

    def __enter__(self) -> _Replayer:
        self._read()
        return self

    def __exit__(self, *_: object) -> None:
        end(self._process)

    def replay(self, target: str) -> float:
        assert self._process.stdin is not None
        os.mkdir(target)
        try:
            self._process.stdin.write(f"{target}\n")
            self._process.stdin.flush()
            return self._read()
        finally:
            shutil.rmtree(target)

    def _read(self) -> float:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError(f"the replaying process ended with code {self._process.wait()}")
        return float(line)


def _replay_process(store: str, commit: str, target: str) -> float:
    os.mkdir(target)
    try:
        return seconds([*locus(), "--store", store, "replay", f"git:{commit}", "--to", target])
    finally:
        shutil.rmtree(target)


def _checkout(repository: str, index: str, target: str) -> float:
    os.mkdir(target)
    command = [
        git(),
        "-C",
        repository,
        f"--work-tree={target}",
        "checkout-index",
        "-a",
        f"--prefix={target}/",
    ]
    try:
        start = time.perf_counter()
        subprocess.run(command, check=True, env=environment() | {"GIT_INDEX_FILE": index})
        return time.perf_counter() - start
    finally:
        shutil.rmtree(target)
