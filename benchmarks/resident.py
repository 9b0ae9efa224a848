"""A process that does one thing and says its highest resident memory in MB.

    python -m benchmarks.resident seal|rebuild|append COUNT SEED STORE

`seal` fills a new store with COUNT events and seals it, `rebuild` makes the index of STORE anew, `append`
appends COUNT events one by one.
"""

from __future__ import annotations

import re
import sys


def main() -> None:
    work, count, seed, path = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4]
    {"seal": seal, "rebuild": rebuild, "append": append}[work](count, seed, path)
    print(highest_mb())


def highest_mb() -> float:
    """The highest resident memory of this process (proc(5)); getrusage counts what its maker had, too."""
    with open("/proc/self/status", encoding="ascii") as file:
        found = re.search(r"VmHWM:\s+(\d+) kB", file.read())
    assert found is not None
    return int(found[1]) * 1024 / 1e6


def seal(count: int, seed: int, path: str) -> None:
    from benchmarks.stores import fill
    from benchmarks.workload import Blocks
    from eventlog import Store

    with Store.init(path) as store:
        lines = Blocks(seed, 5_000).lines()
        while count > 0:
            fill(store, lines, min(count, 100_000))
            count -= 100_000
        store.seal()


def rebuild(_count: int, _seed: int, path: str) -> None:
    from eventlog import Store

    with Store.open(path) as store:
        store.rebuild()


def append(count: int, seed: int, path: str) -> None:
    from benchmarks.workload import generate
    from eventlog import Store

    with Store.open(path) as store:
        for event in generate(seed, count):
            event["event_id"] = "4e50" + str(event["event_id"])[4:]
            store.append([event])


if __name__ == "__main__":
    main()
