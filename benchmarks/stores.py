"""Stores that rows measure on: filled through the journal, sealed by the sealer, copied for each row."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice

from benchmarks.frame import Bench
from benchmarks.workload import Blocks
from eventlog import Store
from eventlog.log.seal import seal

_SEGMENTS = 100
_BATCH_LINES = 5_000
# Not a divisor of a segment's events: the last segment ends in the middle of sessions that later
# events continue.
_BLOCK_EVENTS = 29_989


@dataclass(frozen=True, slots=True)
class SealedStore:
    """A store of many segments and an empty tail, and the lines that would come next."""

    path: str
    events: int
    segments: int
    _lines: Iterator[bytes]

    def next_lines(self, count: int) -> list[bytes]:
        return list(islice(self._lines, count))

    @contextmanager
    def copy(self, bench: Bench, name: str) -> Iterator[str]:
        """A copy that may be written to; segments, which never change, are shared."""
        with bench.scratch(name) as directory:
            path = f"{directory}/store"
            shutil.copytree(self.path, path, copy_function=_link_or_copy)
            yield path


def sealed_store(bench: Bench) -> SealedStore:
    """300,000 events (full scale: 3 million) in a hundred segments or more; made once per run."""
    found = bench.shared("sealed store", lambda: _sealed_store(bench))
    assert isinstance(found, SealedStore)
    return found


def _sealed_store(bench: Bench) -> SealedStore:
    path = bench.new_directory("sealed") + "/store"
    lines = Blocks(bench.seed, _BLOCK_EVENTS).lines()
    events = bench.log_events
    with Store.init(path) as store:
        for _ in range(_SEGMENTS):
            fill(store, lines, events // _SEGMENTS)
            store.journal.rotate()
        # One run of the sealer that may put only one journal into a segment, so that there are many.
        seal(store.files, store.journal, batch_bytes=1)
        with store.view() as view:
            segments = len(view.manifest.segments)
    return SealedStore(path, events, segments, lines)


def fill(store: Store, lines: Iterator[bytes], count: int) -> None:
    """Append the next `count` lines."""
    while count:
        batch = list(islice(lines, min(count, _BATCH_LINES)))
        store.journal.append(batch)
        count -= len(batch)


def _link_or_copy(source: str, target: str) -> str:
    if source.endswith(".parquet"):
        os.link(source, target)
        return target
    return shutil.copy2(source, target)
