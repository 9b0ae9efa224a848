"""Questions in SQL: the twelve of docs/sql.md, and contents of files at turns."""

from __future__ import annotations

import re
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import duckdb

from benchmarks.frame import TIME_UNIT, Bench, Row, Sides
from benchmarks.process import environment, git, locus, run, seconds_of
from benchmarks.repository import make_repository
from benchmarks.stores import sealed_store
from benchmarks.workload import generate, with_stored_contents
from eventlog import Store
from eventlog.exports import database
from eventlog.query.confined import GRACE_S
from tests.cli.test_confine import LARGE, LONG

_PAGE = Path(__file__).parents[1] / "docs/sql.md"
_TIMEOUT_S = 0.5
_SMALL_EVENTS = 300
_PROJECTIONS = ("turns", "sessions", "sessions_master", "llm_calls")
_ASK_CONTENTS = "select blob_at(path, turn) from (select unnest($1) as path, unnest($2) as turn)"


def rows() -> list[Row]:
    return [
        Row(
            name="sql-questions",
            work="the twelve questions of docs/sql.md, in process, warm",
            anchor="the same in a native DuckDB file with every column of every view",
            unit=TIME_UNIT,
            durability="neither writes",
            prepare=_questions,
            of_log=True,
        ),
        Row(
            name="sql-next",
            work="turns, sessions, sessions master, model calls of a small log, asked of one Store",
            anchor="the first of these questions alone",
            unit=TIME_UNIT,
            durability="neither writes",
            prepare=_next,
        ),
        Row(
            name="sql-file-at",
            work="blob_at(path, turn) of many files in one SELECT, in process, warm",
            anchor="git cat-file --batch answering the same, its process running",
            unit=TIME_UNIT,
            durability="neither writes",
            prepare=_file_at,
        ),
        Row(
            name="sql-bombs",
            work=f"the slowest of the questions without end, locus sql --timeout {_TIMEOUT_S:g}",
            anchor=f"the bound: that time, {GRACE_S:g} s to give way, a second to start and end",
            unit=TIME_UNIT,
            durability="neither writes",
            prepare=_bombs,
        ),
    ]


@contextmanager
def _bombs(bench: Bench) -> Iterator[Sides]:
    bombs = list((LONG | LARGE).values())[:: bench.pick(6, 1)]
    with bench.scratch("sql-bombs") as directory:
        Store.init(f"{directory}/store").close()
        command = [*locus(), "--store", f"{directory}/store", "sql", "--memory", str(256 << 20)]

        def seconds_of_bomb(sql: str) -> float:
            ended = [*command, "--timeout", f"{_TIMEOUT_S:g}", sql]
            start = time.perf_counter()
            code = subprocess.run(ended, env=environment(), capture_output=True, check=False).returncode
            if code != 1:
                raise RuntimeError(f"a bomb ended with code {code}: {sql}")
            return time.perf_counter() - start

        yield Sides(
            ours=lambda: max(map(seconds_of_bomb, bombs)),
            anchor=lambda: _TIMEOUT_S + GRACE_S + 1,
            size=f"{len(bombs)} questions",
            rounds=bench.pick(2, 5),
            warm_up=False,
        )


def twelve() -> list[str]:
    """The questions below `## Twelve questions` of docs/sql.md."""
    part = _PAGE.read_text(encoding="utf-8").partition("## Twelve questions")[2].partition("\n## ")[0]
    found = re.findall(r"```sql\n(.*?)```", part, re.S)
    if len(found) != 12:
        raise RuntimeError(f"docs/sql.md asks {len(found)} questions")
    return found


@contextmanager
def _questions(bench: Bench) -> Iterator[Sides]:
    source = sealed_store(bench)
    questions = twelve()
    took: dict[str, list[float]] = {}

    def measured(side: str, ask: Callable[[str], object]) -> float:
        took[side] = [seconds_of(partial(ask, question)) for question in questions]
        return sum(took[side])

    with source.copy(bench, "sql-questions") as path, Store.open(path) as store:
        store.compact(everything=True)  # as maintenance leaves a store
        store.reindex()
        with store.view() as view:
            segments = len(view.manifest.segments)
        native = f"{path}/../native.duckdb"
        database.export(store, native)
        with duckdb.connect(native, read_only=True) as con:
            for question in questions:
                ours, theirs = store.query(question).rows, con.execute(question).fetchall()
                if len(ours) != len(theirs):
                    raise RuntimeError(f"{len(ours)} rows here, {len(theirs)} there: {question}")
            yield Sides(
                ours=lambda: measured("ours", store.query),
                anchor=lambda: measured("anchor", lambda question: con.execute(question).fetchall()),
                beside={
                    "the slowest against its anchor, s more": lambda: max(_more(took)),
                    "questions beyond 5x and 75 ms more": lambda: sum(map(_is_beyond, *took.values())),
                },
                size=f"{source.events:,} events, merged to segments: {segments}",
            )


@contextmanager
def _next(bench: Bench) -> Iterator[Sides]:
    questions = [f"select count(*) from {name}" for name in _PROJECTIONS]

    def seconds_of_questions(count: int) -> float:
        with Store.open(path) as store:
            return sum(seconds_of(partial(store.query, question)) for question in questions[:count])

    with bench.scratch("sql-next") as directory:
        path = f"{directory}/store"
        with Store.init(path) as store:
            store.append(with_stored_contents(store, generate(bench.seed, _SMALL_EVENTS)))
        yield Sides(
            ours=lambda: seconds_of_questions(len(questions)),
            anchor=lambda: seconds_of_questions(1),
            size=f"{_SMALL_EVENTS} events, none sealed",
        )


def _more(took: dict[str, list[float]]) -> list[float]:
    return [ours - anchor for ours, anchor in zip(took["ours"], took["anchor"], strict=True)]


def _is_beyond(ours: float, anchor: float) -> bool:
    return ours > 5 * anchor and ours > anchor + 0.075


@contextmanager
def _file_at(bench: Bench) -> Iterator[Sides]:
    with bench.scratch("sql-file-at") as directory:
        repository = f"{directory}/project.git"
        commits, files = bench.pick(200, 2_000), bench.pick(100, 1_500)
        make_repository(repository, bench.seed, commits=commits, files=files, packed=True)
        Store.init(f"{directory}/store").close()
        run([*locus(), "--store", f"{directory}/store", "import", "git", repository])
        with Store.open(f"{directory}/store") as store, _cat_file(repository) as batch:
            wanted = store.query(
                'select f.path, t.context_id, t."commit" from turns as t, tree_at(t.context_id) as f '
                "where f.kind = 'file' order by hash(f.path || t.context_id) limit $1",
                [bench.pick(3_000, 20_000)],
            ).rows
            paths, turns = [row[0] for row in wanted], [row[1] for row in wanted]
            requests = [f"{commit}:{path}\n".encode() for path, _, commit in wanted]

            def ours() -> list[tuple[bytes]]:
                return store.query(_ASK_CONTENTS, [paths, turns]).rows

            if [row[0] for row in ours()] != _answers(batch, requests):
                raise RuntimeError("the contents are not those of git")
            yield Sides(
                ours=lambda: seconds_of(ours),
                anchor=lambda: seconds_of(lambda: _answers(batch, requests)),
                size=f"{len(wanted):,} files of {len(set(turns)):,} turns",
            )


@contextmanager
def _cat_file(repository: str) -> Iterator[subprocess.Popen[bytes]]:
    command = [git(), "-C", repository, "cat-file", "--batch"]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment()
    ) as process:
        yield process
        assert process.stdin is not None
        process.stdin.close()


def _answers(batch: subprocess.Popen[bytes], requests: list[bytes]) -> list[bytes]:
    assert batch.stdin is not None and batch.stdout is not None
    found = []
    for request in requests:
        batch.stdin.write(request)
        batch.stdin.flush()
        size = int(batch.stdout.readline().split()[2])
        found.append(batch.stdout.read(size))
        batch.stdout.read(1)
    return found
