"""What it costs to send a log to a server, beside a program that has the bodies already."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count

import urllib3

from benchmarks.frame import RATE_UNIT, Bench, Row, Sides
from benchmarks.loopback import KEY, server
from benchmarks.process import seconds_of
from benchmarks.stores import fill
from benchmarks.workload import Blocks
from eventlog import Store
from eventlog.exports.locusgraph.courier import Courier, RealClock
from eventlog.exports.locusgraph.endpoint import ApiKey, endpoint_of
from eventlog.exports.locusgraph.send import Options, send

_NO_DIFFS = Options(diffs=False)  # the synthetic events have hashes and no contents


def rows() -> list[Row]:
    return [
        Row(
            name="send",
            work="export of a whole log to a LocusGraph on loopback, no rate limit",
            anchor="the same bodies posted from a list in memory by the same library",
            unit=RATE_UNIT,
            durability="ours syncs its receipts",
            prepare=_send,
        )
    ]


@contextmanager
def _send(bench: Bench) -> Iterator[Sides]:
    numbers = count()
    events = bench.pick(6_000, 100_000)
    with bench.scratch("send") as directory, server() as url, Store.init(f"{directory}/store") as store:
        fill(store, Blocks(bench.seed, 5_000).lines(), events)
        store.seal()
        store.rebuild()
        bodies = _bodies(store, url)
        records = sum(len(json.loads(body)["events"]) for body in bodies)

        def ours() -> float:
            endpoint, clock = endpoint_of(url, f"ours-{next(numbers)}"), RealClock()
            courier = Courier(endpoint, ApiKey(KEY), clock, per_minute=0)
            seconds = seconds_of(lambda: _run(store, courier, clock, records))
            courier.close()
            return records / seconds

        def anchor() -> float:
            graph = json.dumps(f"anchor-{next(numbers)}").encode()
            mine = [b'{"graph_id":' + graph + b"," + body.partition(b",")[2] for body in bodies]
            return records / seconds_of(lambda: _post_all(url, mine))

        def _run(store: Store, courier: Courier, clock: RealClock, records: int) -> None:
            report = send(store, courier.endpoint, courier, clock, _NO_DIFFS)
            assert report.total == records and not report.failures

        yield Sides(
            ours=ours,
            anchor=anchor,
            size=f"{records:,} records in {len(bodies):,} calls, {sum(map(len, bodies)) / 1e6:.0f} MB",
            rounds=bench.pick(5, 7),
        )


class _Kept(Courier):
    """Keeps every body that it posts."""

    def __init__(self, url: str, clock: RealClock) -> None:
        super().__init__(endpoint_of(url, "first"), ApiKey(KEY), clock, per_minute=0)
        self.bodies: list[bytes] = []

    def _try(self, body: bytes):  # type: ignore[no-untyped-def]
        self.bodies.append(body)
        return super()._try(body)


def _bodies(store: Store, url: str) -> list[bytes]:
    clock = RealClock()
    courier = _Kept(url, clock)
    send(store, courier.endpoint, courier, clock, _NO_DIFFS)
    return courier.bodies


def _post_all(url: str, bodies: list[bytes]) -> None:
    headers = {"Authorization": f"Bearer {KEY}", "Content-Type": "application/json"}
    http = urllib3.PoolManager(num_pools=1, maxsize=1)
    for body in bodies:
        answer = http.request("POST", f"{url}/v1/events/batch", body=body, headers=headers, retries=False)
        assert answer.status == 200 and answer.json()["data"]["failed"] == 0
    http.clear()
