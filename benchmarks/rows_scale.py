"""What the size of a log costs: one turn, one append, a rebuild beside another library, memory."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from itertools import islice

from benchmarks.frame import MEMORY_UNIT, RATE_UNIT, TIME_UNIT, Bench, NotRunnable, Row, Sides
from benchmarks.process import environment, seconds_of
from benchmarks.repository import shared_repository
from benchmarks.stores import SealedStore, fill, sealed_store
from benchmarks.workload import BLOCK_EVENTS, Blocks, generate, with_stored_contents
from eventlog import Store
from eventlog.base.types import Event
from eventlog.log.line import encode_line

# Appends in one sample: enough that a wild sync does not decide it.
_APPENDS = 200
# Events that the library replays in one sample; it takes some hundred times as long for each as we do.
_LIBRARY_EVENTS = 20_000
# Events in the journals before they are sealed, while the longest store is filled.
_FILLED_EVENTS = 500_000
_MEMORY_MAX_MB = 600.0
_APPEND_MEMORY_MAX_MB = 40.0
_QUERY_MEMORY_MAX_MB = 1_500.0
_EXPORT_MEMORY_MAX_MB = 300.0
_EXPORTS = ("locusgraph", "jsonl", "parquet", "duckdb")


def rows() -> list[Row]:
    return [
        Row(
            name="timeline",
            work="timeline of one turn in a large store, in process, by its name",
            anchor="the same session alone in a store, sealed",
            unit=TIME_UNIT,
            durability="neither writes",
            prepare=_timeline,
            of_log=True,
        ),
        Row(
            name="append-large",
            work=f"{_APPENDS} durable appends to a large store",
            anchor="the same to an empty store",
            unit=TIME_UNIT,
            durability="both sync every event",
            prepare=_append_large,
            of_log=True,
        ),
        Row(
            name="rebuild-library",
            work="rebuild of all projections",
            anchor="eventsourcing (SQLite) replaying its sessions, a fold of totals per turn",
            unit=RATE_UNIT,
            durability="ours: the index checkpointed and synced; the library keeps its state in memory",
            prepare=_rebuild_library,
            of_log=True,
        ),
        *(
            Row(
                name=f"memory-{name}",
                work=f"resident memory of {words}, at its highest",
                anchor=f"the bound, {bound:g} MB",
                unit=MEMORY_UNIT,
                durability="as the command is",
                prepare=prepare,
            )
            for name, words, bound, prepare in (
                ("import", "a process that imports a history", _MEMORY_MAX_MB, _memory_import),
                ("seal", "a process that seals all events", _MEMORY_MAX_MB, _memory_seal),
                ("rebuild", "a process that rebuilds the index", _MEMORY_MAX_MB, _memory_rebuild),
                ("append", "a process that appends", _APPEND_MEMORY_MAX_MB, _memory_append),
                ("query", "a process that asks the twelve questions", _QUERY_MEMORY_MAX_MB, _memory_query),
                ("export", "the greediest of four exports", _EXPORT_MEMORY_MAX_MB, _memory_export),
            )
        ),
    ]


@contextmanager
def _timeline(bench: Bench) -> Iterator[Sides]:
    source = sealed_store(bench)
    with source.copy(bench, "timeline") as path, ExitStack() as stack:
        large = stack.enter_context(Store.open(path))
        large.rebuild()
        name, session_id = _turn_in_the_middle(large)
        alone = stack.enter_context(Store.init(f"{path}/../alone"))
        turns = large.events(session_id=session_id)
        alone.journal.append([encode_line(_as_written(event)) for event in turns])
        alone.seal()
        alone.rebuild()
        expected = [event["event_id"] for event in alone.timeline(name)]
        if [event["event_id"] for event in large.timeline(name)] != expected:
            raise RuntimeError(f"the two stores do not show the same events of {name}")
        yield Sides(
            ours=lambda: seconds_of(lambda: large.timeline(name)),
            anchor=lambda: seconds_of(lambda: alone.timeline(name)),
            size=f"{len(expected)} events of {source.events:,} in {source.segments} segments",
            rounds=bench.pick(9, 15),
        )


def _turn_in_the_middle(store: Store) -> tuple[str, str]:
    """(name of a turn, its session): the turn in the middle of the log."""
    found = store.query(
        "select context_id, session_id from turns order by first_position "
        "limit 1 offset (select count(*) // 2 from turns)"
    ).rows[0]
    return found[0], found[1]


def _as_written(event: Event) -> Event:
    """An event as its writer gave it; numbers come out of the fold again."""
    return {name: value for name, value in event.items() if name != "position" and value is not None}


@contextmanager
def _append_large(bench: Bench) -> Iterator[Sides]:
    source = sealed_store(bench)
    with source.copy(bench, "append-large") as path, ExitStack() as stack:
        large = stack.enter_context(Store.open(path))
        empty = stack.enter_context(Store.init(f"{path}/../empty"))
        events = generate(bench.seed, 2_000)
        for store in (empty, large):
            events = with_stored_contents(store, events)
        batches = iter(_endless(events))
        yield Sides(
            ours=lambda: _seconds_of_appends(large, islice(batches, _APPENDS)),
            anchor=lambda: _seconds_of_appends(empty, islice(batches, _APPENDS)),
            size=f"{source.events:,} events in {source.segments} segments, and none",
            rounds=bench.pick(9, 15),
        )


def _endless(events: list[Event]) -> Iterator[Event]:
    number = 0
    while True:
        yield events[number % len(events)] | {"event_id": f"a99e{number:028x}"}
        number += 1


def _seconds_of_appends(store: Store, events: Iterator[Event]) -> float:
    given = list(events)
    start = time.perf_counter()
    for event in given:
        store.append([event])
    return time.perf_counter() - start


@contextmanager
def _rebuild_library(bench: Bench) -> Iterator[Sides]:
    try:
        from benchmarks.library import Library
    except ImportError as error:
        raise NotRunnable("the package `eventsourcing` is not installed (extra: bench)") from error
    source = sealed_store(bench)
    with source.copy(bench, "library") as path, Store.open(path) as store:
        library = Library(f"{path}/../library.sqlite", generate(bench.seed, _LIBRARY_EVENTS))
        yield Sides(
            ours=lambda: source.events / seconds_of(store.rebuild),
            anchor=lambda: _LIBRARY_EVENTS / library.replay_seconds(),
            size=f"{source.events:,} events; the library {_LIBRARY_EVENTS:,}",
            rounds=bench.pick(3, 5),
        )


@contextmanager
def _memory_import(bench: Bench) -> Iterator[Sides]:
    commits = bench.pick(1_000, 20_000)
    with bench.scratch("memory-import") as directory:
        repository = shared_repository(bench, commits=commits, files=bench.pick(300, 1_500))
        yield _memory(
            bench, f"{directory}/store {repository}", "import", _MEMORY_MAX_MB, f"{commits:,} commits"
        )


@contextmanager
def _memory_seal(bench: Bench) -> Iterator[Sides]:
    source = sealed_store(bench)
    with bench.scratch("memory-seal") as directory:
        yield _memory(
            bench,
            # As many events as the large store has, filled in the process that seals: the journals'
            # highest size counts as well.
            f"{directory}/store {source.events} {bench.seed}",
            "seal",
            _MEMORY_MAX_MB,
            f"{source.events:,} events",
        )


@contextmanager
def _memory_rebuild(bench: Bench) -> Iterator[Sides]:
    source: SealedStore = sealed_store(bench)
    with source.copy(bench, "memory-rebuild") as path:
        yield _memory(bench, path, "rebuild", _MEMORY_MAX_MB, f"{source.events:,} events")


@contextmanager
def _memory_append(bench: Bench) -> Iterator[Sides]:
    source: SealedStore = sealed_store(bench)
    with source.copy(bench, "memory-append") as path:
        yield _memory(
            bench,
            f"{path} {_APPENDS} {bench.seed}",
            "append",
            _APPEND_MEMORY_MAX_MB,
            f"{_APPENDS} events onto {source.events:,}",
        )


@contextmanager
def _memory_query(bench: Bench) -> Iterator[Sides]:
    path, events = _longest_store(bench)
    yield _memory(bench, path, "query", _QUERY_MEMORY_MAX_MB, f"{events:,} events")


@contextmanager
def _memory_export(bench: Bench) -> Iterator[Sides]:
    path, events = _longest_store(bench)
    highest = {}
    for form in _EXPORTS:
        with bench.scratch(f"export-{form}") as directory:
            command = [sys.executable, "-m", "benchmarks.resident", "export", path, form, directory]
            highest[form] = _highest_mb(command)
    yield Sides(
        ours=lambda: max(highest.values()),
        anchor=lambda: _EXPORT_MEMORY_MAX_MB,
        size=f"{events:,} events",
        facts=highest,
        rounds=1,
        warm_up=False,
    )


def _longest_store(bench: Bench) -> tuple[str, int]:
    """A store that is only read, sealed, merged and indexed, and its events: 10 million at the full scale."""
    events = bench.events or bench.pick(20_000, 10_000_000)

    def make() -> str:
        path = bench.new_directory("longest") + "/store"
        lines = Blocks(bench.seed, min(events, BLOCK_EVENTS)).lines()
        with Store.init(path) as store:
            for base in range(0, events, _FILLED_EVENTS):
                fill(store, lines, min(_FILLED_EVENTS, events - base))
                store.seal()
            store.compact(everything=True)
            store.reindex()
        return path

    return bench.shared("longest store", make), events


def _memory(bench: Bench, arguments: str, work: str, bound: float, size: str) -> Sides:
    command = [sys.executable, "-m", "benchmarks.resident", work, *arguments.split()]
    return Sides(
        ours=lambda: _highest_mb(command),
        anchor=lambda: bound,
        size=size,
        rounds=bench.pick(1, 1),
        warm_up=False,
    )


def _highest_mb(command: list[str]) -> float:
    """What the process says of its highest resident memory, in MB (10^6 bytes)."""
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment())
    return float(done.stdout)
