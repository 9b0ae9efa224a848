"""What a reader of the viewer waits for: the spine of a repository, and a turn's page with a file of it.

Steps of the slider are made in the browser from the spine. What the server gives for a step is the page and
the content, here over HTTP from a server in this process, beside an answer that reads nothing.
"""

from __future__ import annotations

import http.client
import random
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from benchmarks.frame import MEMORY_UNIT, TIME_UNIT, Bench, Row, Sides
from benchmarks.process import environment, git, locus, run, seconds
from benchmarks.repository import make_repository
from eventlog import Recorder, Store
from eventlog.view.answers import answer
from eventlog.view.stores import ViewedStores
from tests.view.support import Served, serving

_STEPS = 100  # of which the slowest five in a hundred are reported
_SPINE = """
import sys
from eventlog.store import Store
from eventlog.view import answers
from eventlog.view.stores import opened
if len(sys.argv) > 1:
    with opened({"store": sys.argv[1]}) as stores:
        answers.answer(stores, "/api/spine", {})
        answers.answer(stores, "/api/sessions", {})
import pygments, starlette.responses, uvicorn
print([line for line in open("/proc/self/status") if line.startswith("VmHWM")][0].split()[1])
"""


def rows() -> list[Row]:
    page = "the page of a turn and a file of it, over HTTP"
    empty = "an answer over HTTP that reads nothing"
    return [
        Row(
            name="view-spine",
            work="the answer spine of 1,000 turns of 5,000 files, made cold (small scale: 200 of 1,000)",
            anchor="git log --raw of the same commits",
            unit=TIME_UNIT,
            durability="neither writes",
            prepare=_spine,
        ),
        Row(
            name="view-spine-kept",
            work="the same from the file that maintenance wrote",
            anchor="git log --raw of the same commits",
            unit=TIME_UNIT,
            durability="neither writes",
            prepare=lambda bench: _spine(bench, kept=True),
        ),
        Row("view-answers", f"{page}, sealed", empty, TIME_UNIT, "neither writes", _step),
        Row(
            "view-answers-live", f"{page}, of 100 turns in a journal", empty, TIME_UNIT, "neither writes",
            lambda bench: _step(bench, live=True),
        ),
        Row(
            name="view-memory",
            work="memory of a process that answers spine and sessions of 1,000 turns of 5,000 files",
            anchor="one that imports the same libraries",
            unit=MEMORY_UNIT,
            durability="neither writes",
            prepare=_memory,
        ),
    ]  # fmt: skip


def _history(bench: Bench) -> tuple[str, str]:
    """A repository, and a store that has its history sealed; made once per run."""

    def build() -> tuple[str, str]:
        directory = bench.new_directory("view")
        repository, store = f"{directory}/project.git", f"{directory}/store"
        commits, files = bench.pick(200, 1_000), bench.pick(1_000, 5_000)
        make_repository(repository, bench.seed, commits=commits, files=files)
        Store.init(store).close()
        run([*locus(), "--store", store, "import", "git", repository])
        return repository, store

    made: tuple[str, str] = bench.shared("view history", build)
    return made


@contextmanager
def _spine(bench: Bench, *, kept: bool = False) -> Iterator[Sides]:
    repository, path = _history(bench)
    with Store.open(path) as store:
        file = Path(store.layout.index("tree-changes"))
        file.unlink(missing_ok=True)
        if kept:
            store.compare_trees()
        made = answer(ViewedStores({"store": store}), "/api/spine", {})
    raw = [git(), "-C", repository, "log", "--raw", "-z", "--reverse", "--no-abbrev", "--first-parent"]
    changes = sum(map(len, made["changes"]))

    def ours() -> float:
        with Store.open(path) as store:
            start = time.perf_counter()
            answer(ViewedStores({"store": store}), "/api/spine", {})
            return time.perf_counter() - start

    yield Sides(
        ours=ours,
        anchor=lambda: seconds(raw),
        size=f"{len(made['turns']):,} turns, {len(made['paths']):,} paths, {changes:,} changes",
        rounds=bench.pick(3, 7),
    )


@contextmanager
def _step(bench: Bench, *, live: bool = False) -> Iterator[Sides]:
    with bench.scratch("step") as directory:
        path = f"{directory}/store" if live else _history(bench)[1]
        if live:
            _record(Path(directory), path)
        with serving({"store": Path(path)}) as served, _asking(served) as ask:
            spine = ask("spine", {})
            turns = [turn["name"] for turn in spine["turns"]]
            chance = random.Random(bench.seed)

            def step() -> float:
                turn, number = chance.choice(turns), chance.randrange(len(spine["hashes"]))
                start = time.perf_counter()
                ask("page", {"turn": turn})
                ask(f"content/{spine['hashes'][number]}", {"path": "module.py"})
                return time.perf_counter() - start

            def empty() -> float:
                start = time.perf_counter()
                ask("stores", {})
                return time.perf_counter() - start

            step()
            steps = sorted(step() for _ in range(_STEPS))
            yield Sides(
                ours=step,
                anchor=empty,
                size=f"{len(turns):,} turns, {len(spine['hashes']):,} contents",
                facts={"step ms, median of 100": steps[50] * 1e3, "step ms, p95": steps[95] * 1e3},
                rounds=bench.pick(15, 41),
            )


def _record(directory: Path, path: str) -> None:
    """A session of 100 turns, all of it in the journal: each with a prompt, 8 calls and a changed file."""
    work = directory / "work"
    work.mkdir()
    with Store.init(path) as store:
        recorder = Recorder(store, agent="bench", turn_limit=1_000)
        for number in range(100):  # of less than the two megabytes at which it would be sealed
            turn = recorder.start_turn(f"Change file {number}", root=work)
            (work / f"file{number % 20}.py").write_text(f"VALUE = {number}\n" * 50)
            for call in range(8):
                output = {"stdout": f"line {call}\n" * 20}
                turn.action("Bash", {"command": f"run {call}"}, output, success=True)
            turn.snapshot(work)
            turn.end(title=f"Change file {number}")
        with store.view() as view:
            if view.manifest.segments:
                raise RuntimeError("the log was sealed while it was recorded")


@contextmanager
def _asking(served: Served) -> Iterator[Callable[[str, dict[str, str]], Any]]:
    """A function that asks over one connection, as a browser does."""
    import json

    connection = http.client.HTTPConnection("127.0.0.1", served.port)
    headers = {"Authorization": f"Bearer {served.guard.token}"}

    def ask(name: str, parameters: dict[str, str]) -> Any:
        query = f"?{urlencode(parameters)}" if parameters else ""
        connection.request("GET", f"/api/{name}{query}", headers=headers)
        reply = connection.getresponse()
        body = reply.read()
        if reply.status != 200:
            raise RuntimeError(f"{name}: {body[:200]!r}")
        return json.loads(body)

    try:
        yield ask
    finally:
        connection.close()


@contextmanager
def _memory(bench: Bench) -> Iterator[Sides]:
    _, path = _history(bench)
    yield Sides(
        ours=lambda: megabytes(path),
        anchor=megabytes,
        size=f"{bench.pick(200, 1_000):,} turns",
        rounds=3,
    )


def megabytes(*arguments: str) -> float:
    """The most memory of a process with the libraries of the viewer; with a store it answers, too."""
    command = [sys.executable, "-c", _SPINE, *arguments]
    done = subprocess.run(command, env=environment(), capture_output=True, check=True, text=True)
    return int(done.stdout) / 1e3
