"""A process that maintains: `python -m benchmarks.maintainer STORE`.

It answers "ready". A byte on its input sets it to work: it seals, merges all segments, merges all packs,
plans and carries out a collection, again and again, with the priority of the detached maintainer. With the
next byte it ends what it is about and answers with one line of JSON, how often it did each; then it waits
for another byte. It ends with its input.
"""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING

from benchmarks.process import end, environment

if TYPE_CHECKING:
    from eventlog import Store


def main() -> None:
    from eventlog import Store
    from locus_cli.maintainer import step_back

    step_back()
    with Store.open(sys.argv[1]) as store:
        print("ready", flush=True)
        pieces = _pieces(store)
        while os.read(0, 1):
            done: Counter[str] = Counter()
            for work in pieces:
                done[work] += 1
                if select.select([0], [], [], 0)[0]:
                    break
            os.read(0, 1)
            print(json.dumps(done), flush=True)


def _pieces(store: Store) -> Iterator[str]:
    """Does one piece of work after another; names each when it is done."""
    from eventlog.retention import collection

    while True:
        store.seal()
        yield "seal"
        store.compact(everything=True)
        yield "compact"
        store.repack(everything=True)
        yield "repack"
        collection.collect(store, collection.plan(store))
        yield "collect"


class Maintainer:
    """That process, for measurements beside it."""

    def __init__(self, path: str) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "benchmarks.maintainer", path],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=environment(),
        )
        self.done: Counter[str] = Counter()

    def __enter__(self) -> Maintainer:
        self._read()
        return self

    def __exit__(self, *_: object) -> None:
        end(self._process)

    def start(self) -> None:
        self._say()

    def stop(self) -> None:
        """Returns when no piece of work is under way."""
        self._say()
        self.done.update(json.loads(self._read()))

    def _say(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(b".")
        self._process.stdin.flush()

    def _read(self) -> bytes:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError(f"the maintaining process ended with code {self._process.wait()}")
        return line


if __name__ == "__main__":
    main()
