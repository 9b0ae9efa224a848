"""What `locus lake fold` costs at two sizes of a lake: processor time, requests and bytes, and how they grow.

The lake is on the S3 server of `scripts/lake-services`, in a process of its own on loopback, which counts.
Its stores are copies of one that was published, each with ids, sessions and times of its own: so no two of
them share a session.
"""

from __future__ import annotations

import os
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from importlib.util import find_spec
from math import log
from statistics import median
from typing import TYPE_CHECKING
from unittest.mock import patch

from benchmarks.frame import TIME_UNIT, Bench, NotRunnable, Row, Sides
from benchmarks.rows_lake import Counts, counted, server
from benchmarks.rows_log import BARE
from benchmarks.stores import fill
from benchmarks.workload import Blocks
from eventlog import Store

if TYPE_CHECKING:
    import pyarrow as pa

    from eventlog.lake.place import Place

_NEW_EVENTS = 10
_AT_ONCE = 4
_DIGITS = "0123456789abcdefghijklmnopqrstuvwxyz"
# What comes before the digits that tell the ids of two stores apart.
_BEFORE_DIGITS = {
    "event_id": "", "agent_session_id": "", "agent_turn_id": "",
    "message_id": "msg_", "request_id": "req_", "tool_use_id": "toolu_",
}  # fmt: skip
_TIMES = ("occurred_at", "recorded_at")
_MARKS = len(_DIGITS) ** 3  # the first digits of a session id tell so many stores apart


def rows() -> list[Row]:
    return [
        Row(
            name="lake-fold",
            work="a first fold of a lake on S3, processor time of this process; beside it requests and bytes",
            anchor="one DuckDB `GROUP BY` session and turn over the same files, local",
            unit=TIME_UNIT,
            durability="neither syncs",
            prepare=_prepare,
        )
    ]


@dataclass(frozen=True, slots=True)
class Cost:
    """What a fold took: seconds of this process's processors, and what the storage counted; and the bytes of
    what is in the place after it."""

    core_s: float
    counts: Counts
    kept: Mapping[str, int] = field(default_factory=dict)

    @property
    def figures(self) -> dict[str, float]:
        """The figures that grow, by their names."""
        counts = self.counts
        return {
            "core s": self.core_s,
            "requests": float(sum(counts.requests.values())),
            "bytes fetched": float(counts.sent),
            "bytes stored": float(counts.received),
            **{f"bytes of {what}": float(size) for what, size in self.kept.items()},
        }


@dataclass
class Lake:
    """A place with copies of one published store, its catalog, and the same files in a directory."""

    directory: str
    endpoint: str
    published: Published
    copies: int
    catalogs: int = 0

    def __post_init__(self) -> None:
        from eventlog.lake.place import open_place

        self.place: Place = open_place(f"s3://lake/fold-{self.events}")
        self.local = f"{self.directory}/events-{self.events}"
        os.mkdir(self.local)
        with ThreadPoolExecutor(_AT_ONCE) as pool:
            list(pool.map(self._add_store, range(self.copies)))

    def _add_store(self, number: int) -> None:
        name, data = self.published.copy(number)
        self.place.create(name, data)
        with open(f"{self.local}/{number}.parquet", "wb") as file:
            file.write(data)

    @property
    def events(self) -> int:
        return self.copies * self.published.events

    def first_fold(self) -> Cost:
        """Forget all tables and fold all stores."""
        from eventlog.lake import tables

        for entry in self.place.list("tables"):
            self.place.delete(entry.name)
        self.catalogs += 1
        tables.init(self.place, self.catalog)
        return replace(self._fold(), kept=self._kept())

    def next_fold(self) -> Cost:
        """Publish ten events of one store and fold them; they are taken back afterwards."""
        name, data = self.published.more()
        self.place.create(name, data)
        try:
            return self._fold()
        finally:
            self.place.delete(name)

    def aggregate(self) -> float:
        """Seconds of processors of the bare aggregate."""
        import duckdb

        with duckdb.connect() as con:
            began = time.process_time()
            con.execute(BARE, [f"{self.local}/*.parquet"])
            return time.process_time() - began

    @property
    def catalog(self) -> str:
        return f"sqlite:///{self.directory}/catalog-{self.events}-{self.catalogs}.db"

    def _fold(self) -> Cost:
        from eventlog.lake.folding import driver

        counted(self.endpoint, "reset", {})
        began = time.process_time()
        done = driver.fold(self.place, self.catalog)
        took = time.process_time() - began
        if done.left or not done.folded:
            raise RuntimeError(f"the fold left {done.left or 'everything'}")
        if done.wide.touched:
            raise RuntimeError(f"the stores share {done.wide.touched:,} sessions")
        return Cost(took, counted(self.endpoint))

    def _kept(self) -> dict[str, int]:
        """The bytes of objects, by what they hold."""
        of_tables = self.place.list("tables")
        return {
            "events": sum(entry.size for entry in self.place.list("stores")),
            "projections": sum(entry.size for entry in of_tables if "/data/" in entry.name),
            "metadata of tables": sum(entry.size for entry in of_tables if "/metadata/" in entry.name),
        }


@dataclass
class Published:
    """The file of a published store, from which those of other stores are made."""

    table: pa.Table
    metadata: dict[str, str]

    @property
    def events(self) -> int:
        return len(self.table)

    def copy(self, number: int) -> tuple[str, bytes]:
        """The publication of the store of this number: its name and its bytes."""
        return self._publication(number, self.table, number, 0)

    def more(self) -> tuple[str, bytes]:
        """The publication that follows in the first store: the beginning of a new session."""
        return self._publication(0, self.table.slice(0, _NEW_EVENTS), _MARKS - 1, self.events)

    def _publication(self, store: int, table: pa.Table, mark: int, base: int) -> tuple[str, bytes]:
        import pyarrow as pa

        from eventlog.lake.chain import publication_name
        from eventlog.lake.outgoing import encoded

        store_id = f"{store:032x}"
        end = base + len(table)
        changed = {
            **_marked(table, mark),
            "store_id": pa.repeat(store_id, len(table)),
            "position": pa.array(range(base, end), table.schema.field("position").type),
        }
        for name, values in changed.items():
            table = table.set_column(table.schema.get_field_index(name), table.schema.field(name), values)
        own = {"locus.store_id": store_id, "locus.base": str(base), "locus.end": str(end)}
        return publication_name(bytes.fromhex(store_id), base), encoded([table], self.metadata | own)


def _marked(table: pa.Table, mark: int) -> dict[str, pa.Array]:
    """The columns that tell two logs of the same events apart, for a mark."""
    import duckdb
    import pyarrow as pa
    import pyarrow.compute as pc

    letters = "".join(_DIGITS[mark // len(_DIGITS) ** n % len(_DIGITS)] for n in range(3))
    session = f"'{letters}' || substr(session_id, 4)"
    ids = [
        f"'{before}{mark:08x}' || substr({name}, {len(before) + 9}) AS {name}"
        for name, before in _BEFORE_DIGITS.items()
    ]
    with duckdb.connect() as con:
        con.execute("SET threads = 1")  # rows stay in order
        con.register("events", table)
        made = con.sql(
            f"SELECT {', '.join(ids)}, {session} AS session_id, "
            f"coalesce(replace(context_id, session_id, {session}), context_id) AS context_id, "
            f"CASE WHEN session_id IS NULL THEN extends ELSE "
            f"list_transform(extends, lambda x: replace(x, session_id, {session})) END AS extends FROM events"
        ).to_arrow_table()
    columns = {name: made.column(name).cast(table.schema.field(name).type) for name in made.column_names}
    span = pc.subtract(pc.max(table["recorded_at"]), pc.min(table["occurred_at"]))
    later = pa.scalar(span.cast(pa.int64()).as_py() * mark + mark, pa.duration("us"))
    return columns | {name: pc.add(table[name], later) for name in _TIMES}


@dataclass
class Measured:
    """Lakes of two sizes, and what folds of them took: a first one, and the next after ten new events."""

    small: Lake
    large: Lake
    facts: dict[str, float | str] = field(default_factory=dict)
    costs: dict[tuple[str, int], list[Cost]] = field(default_factory=lambda: defaultdict(list))

    def __post_init__(self) -> None:
        self.small.first_fold()  # imports, and the first touch of everything

    def sample(self) -> float:
        """Processor time of a first fold of the large lake."""
        for lake in (self.small, self.large):
            self.costs["first", lake.events].append(lake.first_fold())
            self.costs["next", lake.events].append(lake.next_fold())
        for name in ("first", "next"):
            self._describe(name)
        return self.costs["first", self.large.events][-1].core_s

    def _describe(self, name: str) -> None:
        """Note the medians at both sizes, what a further event costs, and the exponents."""
        sizes = self.small.events, self.large.events
        small, large = (_median_figures(self.costs[name, events]) for events in sizes)
        for events, figures in zip(sizes, (small, large), strict=True):
            kinds = sorted(self.costs[name, events][-1].counts.requests.items())
            self.facts[f"{name} at {events:,}: kinds"] = ", ".join(f"{n:,} {kind}" for kind, n in kinds)
            self.facts |= {f"{name} at {events:,}: {what}": value for what, value in figures.items()}
            self.facts |= {
                f"{name} at {events:,}: {what} per event": value / events for what, value in figures.items()
            }
        for what in small:
            grown = large[what] - small[what]
            self.facts[f"{name}: {what} for each further event"] = grown / (sizes[1] - sizes[0])
            exponent = log(large[what] / small[what]) / log(sizes[1] / sizes[0])
            self.facts[f"{name}: {what}, exponent"] = exponent


def _median_figures(costs: Sequence[Cost]) -> dict[str, float]:
    return {what: median(cost.figures[what] for cost in costs) for what in costs[0].figures}


@contextmanager
def _prepare(bench: Bench) -> Iterator[Sides]:
    missing = [name for name in ("obstore", "pyiceberg", "moto") if find_spec(name) is None]
    if missing:
        raise NotRunnable(f"the extras lake and lake-tests are not installed: {', '.join(missing)}")
    of_store = bench.pick(10_000, 100_000)
    events = bench.events or bench.pick(100_000, 3_000_000)
    with bench.scratch("lake-fold") as directory, server() as settings, patch.dict(os.environ, settings):
        published = _published(bench, directory, of_store)
        small, large = (
            Lake(directory, settings["AWS_ENDPOINT_URL"], published, copies)
            for copies in (1, max(2, events // of_store))
        )
        measured = Measured(small, large)
        yield Sides(
            ours=measured.sample,
            anchor=large.aggregate,
            size=f"{large.events:,} events in {large.copies} stores, beside it {small.events:,} in one",
            facts=measured.facts,
            rounds=1 if bench.small or bench.events else 3,
            warm_up=False,
        )


def _published(bench: Bench, directory: str, events: int) -> Published:
    import pyarrow.parquet as pq

    from eventlog.lake.place import open_place
    from eventlog.lake.policy import Policy
    from eventlog.lake.publish import publish

    os.mkdir(f"{directory}/lake")
    with Store.init(f"{directory}/store") as store:
        fill(store, Blocks(bench.seed, events).lines(), events)
        publish(store, open_place(f"file://{directory}/lake"), Policy(), agreed=True)
        path = f"{directory}/lake/stores/{store.identity.store_id.hex()}/events/{0:020d}.parquet"
    table = pq.read_table(path)
    kept = ("format", "repo_hash", "project", "policy", "erasures", "packs")
    metadata = {f"locus.{key}": table.schema.metadata[f"locus.{key}".encode()].decode() for key in kept}
    return Published(table, metadata)
