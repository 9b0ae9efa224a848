"""What an agent waits for when it starts our MCP server: until a first tool has answered."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from benchmarks.frame import TIME_UNIT, Bench, NotRunnable, Row, Sides
from benchmarks.process import environment, locus
from benchmarks.stores import fill
from benchmarks.workload import Blocks
from eventlog import Store
from eventlog.recorder.recorder import Recorder

_VERSION = "2025-11-25"
# The server that the library's own documentation begins with, and our store as its one tool.
_PLAIN = """
import sys
from mcp.server.mcpserver import MCPServer

server = MCPServer("plain")

@server.tool()
def timeline(turn: str) -> str:
    from eventlog.store import Store
    with Store.open(sys.argv[1]) as store:
        return "\\n".join(f"{e['event_id']} {e['event_type']} {e['title']}" for e in store.timeline(turn))

server.run()
"""


def rows() -> list[Row]:
    return [
        Row(
            "mcp-first-answer",
            "locus mcp, from its start until the tool timeline has answered",
            "the MCP library's own minimal server with the same call",
            TIME_UNIT,
            "neither writes",
            _first_answer,
        )
    ]


@contextmanager
def _first_answer(bench: Bench) -> Iterator[Sides]:
    if importlib.util.find_spec("mcp") is None:
        raise NotRunnable("the extra mcp is not installed")
    with bench.scratch("mcp") as directory:
        path = f"{directory}/.locus"
        events = bench.pick(2_000, 50_000)
        with Store.init(path) as store:
            fill(store, Blocks(bench.seed).lines(), events)
            store.seal()
            turn = Recorder(store, agent="bench").start_turn("Make tea")
            for number in range(20):
                turn.action("kettle", {"number": number}, {}, success=True)
            turn.end(title="Tea")
        ours = [*locus(), "--store", path, "mcp"]
        plain = [sys.executable, "-c", _PLAIN, path]
        for command in (ours, plain):
            reported = json.dumps(_answer(command)["result"])
            if reported.count("action") < 20 or '"isError": true' in reported:
                raise RuntimeError(f"{command[0]} said {reported[:200]}")
        yield Sides(
            ours=lambda: _seconds(ours),
            anchor=lambda: _seconds(plain),
            size=f"{events:,} events, a turn of 22",
            rounds=bench.pick(3, 15),
        )


def _seconds(command: Sequence[str]) -> float:
    start = time.perf_counter()
    _answer(command)
    return time.perf_counter() - start


def _answer(command: Sequence[str]) -> dict[str, Any]:
    """What the server answers to its first call; it is gone afterwards."""
    client = {
        "protocolVersion": _VERSION,
        "capabilities": {},
        "clientInfo": {"name": "bench", "version": "1"},
    }
    call = {"name": "timeline", "arguments": {"turn": "last"}}
    reported = (
        {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": client},
        {"jsonrpc": "2.0", "method": "notifications/initialized"},
        {"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": call},
    )
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=environment()
    ) as server:
        assert server.stdin is not None and server.stdout is not None
        try:
            answer: dict[str, Any] = {}
            for one in reported:
                server.stdin.write(json.dumps(one).encode() + b"\n")
                server.stdin.flush()
                if "id" in one:
                    answer = json.loads(server.stdout.readline())
        finally:
            server.kill()
    return answer
