"""Taking back and finding out: undo, a step of a bisect, blame, each beside what git does for the same."""

from __future__ import annotations

import os
import subprocess
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

from benchmarks.frame import TIME_UNIT, Bench, Row, Sides
from benchmarks.process import environment, git, locus, run, seconds, seconds_of
from benchmarks.repository import make_repository
from eventlog import Store
from eventlog.replay import bisect
from eventlog.undo.blame import blame
from eventlog.undo.blame_cache import kept_blame

_FILES, _CHANGED = 1_000, 100


def rows() -> list[Row]:
    return [
        Row(
            name="undo",
            work=f"undo of a turn that changed {_CHANGED} files in a tree of {_FILES:,}, store open",
            anchor="git checkout COMMIT^ -- . doing the same",
            unit=TIME_UNIT,
            durability="ours syncs what it saves, its journal and every file; git nothing",
            prepare=_undo,
        ),
        Row(
            name="bisect-step",
            work=f"a step of a bisect over 40 turns in a tree of {_FILES:,} files, store open",
            anchor="git checkout COMMIT from and to the same states",
            unit=TIME_UNIT,
            durability="neither syncs",
            prepare=_bisect_step,
        ),
        Row(
            name="blame-cold",
            work="blame of the file with the most versions, store open, nothing kept from before",
            anchor="git blame --porcelain of the same file",
            unit=TIME_UNIT,
            durability="neither writes",
            prepare=_blame_cold,
        ),
        Row(
            name="blame-warm",
            work="the same blame once more, nothing recorded since, store open",
            anchor="git blame --porcelain of the same file",
            unit=TIME_UNIT,
            durability="neither writes",
            prepare=_blame_warm,
        ),
    ]


@contextmanager
def _imported(bench: Bench, directory: str, commits: int) -> Iterator[tuple[Store, Path, Path, list[str]]]:
    """A store with a history, its working tree, a second clone, and the commits, oldest first."""
    repository = f"{directory}/project.git"
    make_repository(repository, bench.seed, commits=commits, files=_FILES, packed=False)
    ours, theirs = Path(directory, "ours"), Path(directory, "theirs")
    for tree in (ours, theirs):
        run([git(), "clone", "-q", repository, str(tree)])
    if commits < 10:
        _commit_many(ours, theirs)
    listed = run([git(), "-C", str(ours), "rev-list", "--first-parent", "--reverse", "HEAD"])
    Store.init(ours / ".locus").close()
    run([*locus(), "--store", str(ours / ".locus"), "import", "git", str(ours)])
    with Store.open(ours / ".locus") as store:
        yield store, ours, theirs, listed.stdout.decode().split()


def _commit_many(ours: Path, theirs: Path) -> None:
    """A commit that changes `_CHANGED` files, in both clones."""
    names = run([git(), "-C", str(ours), "ls-files", "-z", "*.py"]).stdout.decode().split("\0")[:-1]
    for name in names[:: len(names) // _CHANGED][:_CHANGED]:
        with open(ours / name, "ab") as file:
            file.write(b"# changed\n")
    who = ["-c", "user.name=bench", "-c", "user.email=bench@invalid"]
    run([git(), "-C", str(ours), *who, "commit", "-q", "-a", "-m", "many"])
    run([git(), "-C", str(theirs), "pull", "-q", str(ours), "HEAD"])


@contextmanager
def _undo(bench: Bench) -> Iterator[Sides]:
    with (
        bench.scratch("undo") as directory,
        _imported(bench, directory, commits=3) as (store, ours, theirs, commits),
    ):
        last = commits[-1]
        yield Sides(
            ours=lambda: _undo_ours(store, ours, last),
            anchor=lambda: _undo_git(theirs, last),
            beside={
                "git checkout and a sync of each of these files, s": lambda: _undo_git(
                    theirs, last, synced=True
                )
            },
            size=f"{_CHANGED} of {_FILES:,} files",
            rounds=bench.pick(5, 9),
        )


def _undo_ours(store: Store, tree: Path, commit: str) -> float:
    took = seconds_of(lambda: store.restore(store.undo_plan(f"git:{commit}")))
    _check(tree, commit)
    store.restore(store.redo_plan())
    os.sync()
    return took


def _undo_git(tree: Path, commit: str, *, synced: bool = False) -> float:
    """Args: synced: sync the files that git wrote, and their directories, as an undo of ours does."""
    listed = run([git(), "-C", str(tree), "diff", "--name-only", "-z", f"{commit}^", commit]).stdout
    changed = [tree / os.fsdecode(name) for name in listed.split(b"\0") if name]
    start = time.perf_counter()
    subprocess.run(
        [git(), "-C", str(tree), "checkout", "-q", f"{commit}^", "--", "."], check=True, env=environment()
    )
    if synced:
        _sync([path for path in changed if path.is_file()])
        _sync(sorted({path.parent for path in changed}))
    took = time.perf_counter() - start
    _check(tree, commit)
    run([git(), "-C", str(tree), "reset", "-q", "--hard", commit])
    os.sync()
    return took


def _sync(paths: Sequence[Path]) -> None:
    """By several threads, whose syncs share trips to the disk."""
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(_sync_one, paths))


def _sync_one(path: Path) -> None:
    fd = os.open(path, os.O_RDONLY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def _check(tree: Path, commit: str) -> None:
    """Raises: RuntimeError unless the tree is that of the commit before."""
    differs = run([git(), "-C", str(tree), "diff", "--name-only", f"{commit}^", "--"]).stdout
    if differs:
        raise RuntimeError(f"{tree} is not as before: {differs[:200]!r}")


@contextmanager
def _bisect_step(bench: Bench) -> Iterator[Sides]:
    with (
        bench.scratch("bisect") as directory,
        _imported(bench, directory, commits=40) as (store, _, theirs, commits),
    ):
        states, _left_out = bisect.states_of(store.query, commits=True)
        state_of = {state.turn.name: state for state in states if state.at == "end"}
        pair = [state_of[store.turn(f"git:{commits[index]}").name] for index in (len(commits) // 4, -1)]
        tested = f"{directory}/tested"
        os.mkdir(tested)
        step = bisect.Bench(tested, bisect.trees_of(store))
        step.go_to(pair[0])
        step.go_to(pair[1])
        run([git(), "-C", str(theirs), "checkout", "-q", "--detach", commits[-1]])
        at = {"ours": 1, "git": 1}

        def ours() -> float:
            at["ours"] ^= 1
            return seconds_of(lambda: step.go_to(pair[at["ours"]]))

        def anchor() -> float:
            at["git"] ^= 1
            commit = commits[len(commits) // 4] if at["git"] == 0 else commits[-1]
            return seconds([git(), "-C", str(theirs), "checkout", "-q", "--detach", commit])

        yield Sides(ours=ours, anchor=anchor, size=f"{step.written} files written", rounds=bench.pick(9, 15))


@contextmanager
def _blame_cold(bench: Bench) -> Iterator[Sides]:
    with _blame(bench, blame) as sides:
        yield sides


@contextmanager
def _blame_warm(bench: Bench) -> Iterator[Sides]:
    with _blame(bench, kept_blame) as sides:
        sides.ours()  # which keeps what it found
        yield sides


@contextmanager
def _blame(bench: Bench, blame_of: Callable[[Store, str, bytes], object]) -> Iterator[Sides]:
    with (
        bench.scratch("blame") as directory,
        _imported(bench, directory, commits=bench.pick(200, 1_000)) as (store, ours, _, commits),
    ):
        listed = run([git(), "-C", str(ours), "log", "--format=", "--name-only", "--diff-filter=M"])
        here = set(run([git(), "-C", str(ours), "ls-files", "*.py"]).stdout.decode().split())
        edits = Counter(name for name in listed.stdout.decode().split("\n") if name in here)
        name, versions = edits.most_common(1)[0]
        now = (ours / name).read_bytes()
        yield Sides(
            ours=lambda: seconds_of(lambda: blame_of(store, name, now)),
            anchor=lambda: seconds([git(), "-C", str(ours), "blame", "--porcelain", "HEAD", "--", name]),
            size=f"{versions} versions of {len(commits)} commits, {now.count(10)} lines",
            rounds=bench.pick(5, 9),
        )
