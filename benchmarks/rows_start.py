"""What a person at a prompt waits for: one whole process, from its start until it is gone."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from benchmarks.frame import TIME_UNIT, Bench, Row, Sides
from benchmarks.process import locus, run, seconds
from benchmarks.stores import fill, sealed_store
from benchmarks.workload import Blocks
from eventlog import Store

_TAIL_EVENTS = 500
_COUNT = "select count(*) from events"
_BARE = 'import duckdb; duckdb.connect().sql("select 1")'


def rows() -> list[Row]:
    return [
        Row(
            name="sql-start",
            work=f"locus sql '{_COUNT}', whole process",
            anchor=f"python -I -c '{_BARE}'",
            unit=TIME_UNIT,
            durability="neither writes",
            prepare=_sql_start,
            of_log=True,
        ),
        Row(
            name="timeline-tail",
            work="locus timeline last, whole process, after 40,000 events that no maintenance had sealed",
            anchor="the same after 2,000",
            unit=TIME_UNIT,
            durability="neither writes",
            prepare=_timeline_tail,
        ),
    ]


@contextmanager
def _sql_start(bench: Bench) -> Iterator[Sides]:
    source = sealed_store(bench)
    with source.copy(bench, "sql-start") as path:
        with Store.open(path) as store:
            store.reindex()  # as maintenance leaves a store
            store.journal.append(source.next_lines(_TAIL_EVENTS))
        command = [*locus(), "--store", path, "sql", _COUNT]
        output = run(command).stdout.decode().split()
        if str(source.events + _TAIL_EVENTS) not in output:
            raise RuntimeError(f"{' '.join(command)} said {output}, not {source.events + _TAIL_EVENTS}")
        yield Sides(
            ours=lambda: seconds(command),
            anchor=lambda: seconds([sys.executable, "-I", "-c", _BARE]),
            beside={"python -I -c pass, s": lambda: seconds([sys.executable, "-I", "-c", "pass"])},
            size=f"{source.segments} segments of {source.events:,} events, {_TAIL_EVENTS} not sealed",
            rounds=bench.pick(11, 21),
        )


@contextmanager
def _timeline_tail(bench: Bench) -> Iterator[Sides]:
    """The first command after such a tail seals it, which is done before the clock starts."""
    with ExitStack() as stack:
        commands = []
        for count in (40_000, 2_000):
            path = f"{stack.enter_context(bench.scratch(f'tail-{count}'))}/store"
            with Store.init(path) as store:
                fill(store, Blocks(bench.seed, count).lines(), count)
            commands.append([*locus(), "--store", path, "timeline", "last"])
            run(commands[-1])
        ours, anchor = commands
        yield Sides(
            ours=lambda: seconds(ours),
            anchor=lambda: seconds(anchor),
            size="40,000 and 2,000 events",
            rounds=bench.pick(11, 21),
        )
