"""A process that replays: `python -m benchmarks.replayer STORE COMMIT`.

It opens the store, looks the turn up, says how many seconds that took, and then, for every line
"TARGET" on its input, puts the turn's files there and says how many seconds that took. A process of its
own, because replaying forks, and a fork pays for all the memory that other rows left behind.
"""

from __future__ import annotations

import sys
import time

from eventlog import Store


def main() -> None:
    path, commit = sys.argv[1:]
    start = time.perf_counter()
    with Store.open(path) as store:
        turn = store.turn(f"git:{commit}")
        print(time.perf_counter() - start, flush=True)
        for line in sys.stdin:
            start = time.perf_counter()
            store.replay(turn, line.rstrip("\n"))
            print(time.perf_counter() - start, flush=True)


if __name__ == "__main__":
    main()
