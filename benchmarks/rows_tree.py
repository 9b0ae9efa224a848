"""Looking at a change and going back: the diff of two turns, a restore into a working tree."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from benchmarks.frame import TIME_UNIT, Bench, Row, Sides
from benchmarks.process import environment, git, locus, run, seconds, seconds_of
from benchmarks.repository import make_repository, shared_repository
from eventlog import Store

_FILES, _CHANGED = 5_000, 100


def rows() -> list[Row]:
    return [
        Row(
            name="diff",
            work="diffs of two pairs of turns with their line counts, in process",
            anchor="git diff --stat -p of the same commits, twice",
            unit=TIME_UNIT,
            durability="neither writes",
            prepare=_diff,
        ),
        Row(
            name="restore",
            work=f"restore of {_CHANGED} changed files in a tree of {_FILES:,}, store open",
            anchor="git checkout COMMIT -- . doing the same",
            unit=TIME_UNIT,
            durability="ours syncs what it saves, its journal and every file; git nothing",
            prepare=_restore,
        ),
    ]


@contextmanager
def _diff(bench: Bench) -> Iterator[Sides]:
    with bench.scratch("diff") as directory:
        store_path = f"{directory}/store"
        repository = shared_repository(bench, commits=bench.pick(1_000, 2_000), files=bench.pick(300, 1_500))
        commits = _commits(repository)
        middle = len(commits) // 2
        # In turn, so that neither finds in memory what it read before.
        pairs = [(commits[at], commits[at + 20]) for at in (middle // 2, middle)]
        Store.init(store_path).close()
        run([*locus(), "--store", store_path, "import", "git", repository])
        commands = [[git(), "-C", repository, "diff", "--no-color", "--stat", "-p", *pair] for pair in pairs]
        with Store.open(store_path) as store:
            turns = [(store.turn(f"git:{before}"), store.turn(f"git:{after}")) for before, after in pairs]
            size = sum(len(_diff_text(store, *pair)) for pair in turns)
            yield Sides(
                ours=lambda: seconds_of(lambda: [_diff_text(store, *pair) for pair in turns]),
                anchor=lambda: sum(seconds(command) for command in commands),
                size=f"{size:,} bytes of diff; git {sum(len(run(command).stdout) for command in commands):,}",
                rounds=bench.pick(9, 15),
            )


def _commits(repository: str) -> list[str]:
    listed = run([git(), "-C", repository, "rev-list", "--first-parent", "--reverse", "HEAD"])
    return listed.stdout.decode().split()


def _diff_text(store: Store, before: object, after: object) -> bytes:
    """What `locus diff --stat` and `locus diff` print, made but not printed."""
    diff = store.diff(before, after)  # type: ignore[arg-type]
    files = list(diff)
    counts = [(file.lines_added, file.lines_removed) for file in files]
    return b"".join(file.text for file in files) + repr(counts).encode()


@contextmanager
def _restore(bench: Bench) -> Iterator[Sides]:
    with bench.scratch("restore") as directory:
        repository = f"{directory}/project.git"
        make_repository(repository, bench.seed, commits=3, files=_FILES, packed=False)
        commit = _commits(repository)[-1]
        trees = [Path(directory, name) for name in ("ours", "theirs")]
        for tree in trees:
            run([git(), "clone", "-q", repository, str(tree)])
        store_path = str(trees[0] / ".locus")
        Store.init(store_path).close()
        run([*locus(), "--store", store_path, "import", "git", repository])
        listed = run([git(), "-C", str(trees[1]), "ls-files", "-z"]).stdout.decode().split("\0")
        files = [name for name in listed if name.endswith(".py")]
        changed = files[:: len(files) // _CHANGED][:_CHANGED]
        with Store.open(store_path) as store:
            turn = store.turn(f"git:{commit}")
            yield Sides(
                ours=lambda: _restore_ours(store, turn, trees[0], changed),
                anchor=lambda: _restore_git(trees[1], commit, changed),
                size=f"{len(changed)} of {len(files):,} files",
                rounds=bench.pick(5, 9),
            )


def _restore_ours(store: Store, turn: object, tree: Path, changed: list[str]) -> float:
    _change(tree, changed)
    start = time.perf_counter()
    store.restore(store.restore_plan(turn))  # type: ignore[arg-type]
    took = time.perf_counter() - start
    _check_clean(tree)
    return took


def _restore_git(tree: Path, commit: str, changed: list[str]) -> float:
    _change(tree, changed)
    start = time.perf_counter()
    subprocess.run(
        [git(), "-C", str(tree), "checkout", "-q", commit, "--", "."], check=True, env=environment()
    )
    took = time.perf_counter() - start
    _check_clean(tree)
    return took


def _change(tree: Path, names: list[str]) -> None:
    """Other content of another length, as an agent leaves it; on disk before the clock starts."""
    for name in names:
        with open(tree / name, "ab") as file:
            file.write(b"# changed\n")
    os.sync()


def _check_clean(tree: Path) -> None:
    output = run([git(), "-C", str(tree), "status", "--porcelain", "-uno"]).stdout
    if output:
        raise RuntimeError(f"{tree} is not restored: {output[:200]!r}")
