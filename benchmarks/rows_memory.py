"""What remembering costs: a session that begins with a briefing, and continuity codes in their files."""

from __future__ import annotations

import json
import os
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from random import Random
from statistics import median
from typing import Any

from benchmarks.frame import TIME_UNIT, Bench, Row, Sides
from benchmarks.rows_hook import Desk, PlainPython
from benchmarks.stores import fill, sealed_store
from benchmarks.workload import WORDS, Blocks
from eventlog import Store
from eventlog.memory import briefing_of_log
from eventlog.memory.codes import SessionContextCapture
from eventlog.memory.codes_files import SessionCleanupManager, SessionContext, SessionContextInjector, stored

_PROJECTS = 10
_NOW = datetime(2026, 1, 22, 13, 35, 14, tzinfo=UTC)
_LATER = _NOW + timedelta(days=8)
_TAIL_EVENTS = 500  # what comes between two runs of maintenance


def rows() -> list[Row]:
    return [
        Row(
            "hook-briefing",
            "hook process, a session begins and is briefed, many sessions in the store",
            "python -I -c pass of a plain virtual environment",
            TIME_UNIT,
            "ours syncs its journal; the anchor nothing",
            _hook_briefing,
        ),
        Row(
            "codes",
            f"continuity codes of {_PROJECTS} projects: load and format, save, archive what expired",
            "json.load and string join, json.dump and fsync, load, dump and fsync again, unlink, same data",
            TIME_UNIT,
            "both sync each file",
            _codes,
        ),
    ]


@contextmanager
def _hook_briefing(bench: Bench) -> Iterator[Sides]:
    with bench.scratch("hook-briefing") as directory:
        desk, plain = Desk(directory, bench.seed, 200), PlainPython(directory)
        path = f"{desk.root}/.locus"
        if bench.small:
            with Store.open(path) as store:
                fill(store, Blocks(bench.seed).lines(), 35_000)
                store.seal()
        else:
            source = sealed_store(bench)
            with source.copy(bench, "hook-briefing-store") as copy:
                shutil.rmtree(path)
                shutil.move(copy, path)
        with open(f"{path}/config.toml", "w", encoding="ascii") as file:
            file.write("[briefing]\nat_start = true\n")
        with Store.open(path) as store:
            briefing_of_log.export(store)
            fill(store, Blocks(bench.seed + 1, 1_000).lines(), _TAIL_EVENTS)
            ((events, sessions),) = store.query(
                "select count(*), count(distinct session_id) from events"
            ).rows
        calls = bench.pick(11, 41)
        begun = iter(range(10**9))

        def ours() -> float:
            return median(
                desk.said("SessionStart", answers=True, source="startup", session_id=f"s-{next(begun)}")
                for _ in range(calls)
            )

        yield Sides(
            ours=ours,
            anchor=lambda: median(plain.seconds() for _ in range(calls)),
            size=f"{events:,} events of {sessions:,} sessions, {_TAIL_EVENTS} unsealed; {calls} calls each",
            rounds=bench.pick(3, 5),
        )


@contextmanager
def _codes(bench: Bench) -> Iterator[Sides]:
    contexts = [_context(Random(bench.seed + number), f"project-{number}") for number in range(_PROJECTS)]
    with bench.scratch("codes") as directory:
        for side in ("ours", "theirs"):
            os.mkdir(f"{directory}/{side}")
        yield Sides(
            ours=lambda: _ours(f"{directory}/ours", contexts),
            anchor=lambda: _theirs(f"{directory}/theirs", contexts),
            size=f"{_PROJECTS} files of 25 codes",
            rounds=bench.pick(9, 25),
        )


def _context(rng: Random, project: str) -> SessionContext:
    capture = SessionContextCapture("20260122-133514", project)
    for number in range(5):
        words = [rng.choice(WORDS) for _ in range(4)]
        capture.record_file_modified(f"{words[0]}-{number}.py")
        capture.record_function(f"{words[1]}_{number}")
        capture.record_decision(f"{words[2]} {number}", words[3])
        capture.record_blocker("need", f"{words[0]} {words[2]} {number}")
        capture.record_next(f"{words[3]}-{number}")
    return capture.to_context(now=_NOW)


def _ours(base: str, contexts: list[SessionContext]) -> float:
    injector, cleaner = SessionContextInjector(base), SessionCleanupManager(base)
    start = time.perf_counter()
    for context in contexts:
        injector.save_context(context)
    for context in contexts:
        injector.inject(context.project, now=_NOW)
    archived = cleaner.cleanup_expired(now=_LATER)
    took = time.perf_counter() - start
    assert archived == len(contexts)
    shutil.rmtree(f"{base}/memory")
    return took


def _theirs(base: str, contexts: list[SessionContext]) -> float:
    data = [stored(context) for context in contexts]
    paths = [f"{base}/{context.project}.json" for context in contexts]
    start = time.perf_counter()
    for path, one in zip(paths, data, strict=True):
        _dump(path, one)
    for path in paths:
        loaded = _load(path)
        "\n".join(
            code
            for name in ("files", "functions", "decisions", "blockers", "next_actions")
            for code in loaded[name]
        )
    for path in paths:
        _dump(f"{path}.archived", _load(path))
        os.unlink(path)
    took = time.perf_counter() - start
    for path in paths:
        os.unlink(f"{path}.archived")
    return took


def _dump(path: str, data: dict[str, Any]) -> None:
    with open(path, "w", encoding="utf-8") as file:
        json.dump(data, file, indent=2)
        file.flush()
        os.fsync(file.fileno())


def _load(path: str) -> dict[str, Any]:
    with open(path, encoding="utf-8") as file:
        loaded: dict[str, Any] = json.load(file)
    return loaded
