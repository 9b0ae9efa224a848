"""The strict LocusGraph of the tests on loopback, in a process of its own.

What it costs is on both sides of a row. It starts over with each graph that it is sent to.
"""

from __future__ import annotations

import multiprocessing
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing.connection import Connection
from typing import Any

from tests.exports.locusgraph_server import GRAPH, KEY, Graph, Server

__all__ = ["KEY", "server"]


class _AnyGraph(Graph):
    """Any graph id is taken; what a former one holds is forgotten."""

    _now = b""

    def check(self, body: bytes) -> tuple[int, str, list[dict[str, Any]]]:
        begun, _, rest = body.partition(b",")
        if begun != self._now:
            self._now = begun
            self.memories.clear()
        for kept in (self.statuses, self.bodies, self.headers):
            kept.clear()
        return super().check(b'{"graph_id":"' + GRAPH.encode() + b'",' + rest)


def _serve(address: Connection) -> None:
    with Server(_AnyGraph()) as found:
        address.send(found.url)
        address.recv()


@contextmanager
def server() -> Iterator[str]:
    """Its address, as long as the block runs."""
    ours, theirs = multiprocessing.Pipe()
    process = multiprocessing.get_context("spawn").Process(target=_serve, args=(theirs,), daemon=True)
    process.start()
    try:
        yield ours.recv()
        ours.send(None)
    finally:
        process.join(5)
        process.terminate()
        process.join()
