"""A LocusGraph of our own for tests: the REST call that stores a batch, over real HTTP on loopback.

It is as strict as what is published of the two interfaces, and stricter where they are silent: unknown
fields, kinds and sources, ids that are not spelled for the wire, payloads and batches that are too large,
and a wrong key are refused. `plan` makes it misbehave: one fault for each call that comes, in order.
What it holds is in memory, and with a `journal` also in a file that outlives the process of a client.
"""

import email.utils
import json
import re
import socket
import struct
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

KEY = "test-key-0123456789"
GRAPH = "team-graph"

KINDS = frozenset(
    [
        "fact",
        "knowledge",
        "observation",
        "learned",
        "feedback",
        "constraint",
        "rule",
        "constraint_violation",
        "action",
        "task",
        "operation",
        "execution",
        "completed",
        "decision",
        "choice",
        "selection",
        "determination",
        "routine",
        "heartbeat",
        "status",
        "noise",
        "debug",
        "log",
    ]
)
SOURCES = frozenset(
    [
        "policy",
        "verified",
        "tool",
        "document",
        "user",
        "assistant",
        "derived",
        "system",
        "validator",
        "executor",
        "agent",
        "model",
    ]
)
LINKS = ("extends", "related_to", "reinforces", "contradicts")
FIELDS = {
    "0.x": frozenset(("event_kind", "payload", "context_id", "source", "timestamp", *LINKS)),
    "1.0": frozenset(("event_kind", "payload", "context_id", "source", "timestamp", "replace", *LINKS)),
}
PAYLOAD_MAX = {"0.x": 256 << 10, "1.0": 64 << 10}
BATCH_MAX = {"0.x": 100, "1.0": 1_000}
CONTEXT = re.compile(r"[a-z0-9_-]+:[a-z0-9_-]+")


@dataclass(frozen=True)
class Fault:
    """What goes wrong with one call."""

    kind: str
    value: Any = None


# In place of an answer, before anything is stored …
def status(code: int, retry_after: str | None = None) -> Fault:
    return Fault("status", (code, retry_after))


def in_seconds(now: float, seconds: float) -> str:
    """A `Retry-After` that is a date."""
    return email.utils.formatdate(now + seconds, usegmt=True)


CUT = Fault("cut")
HTML = Fault("html")
EMPTY = Fault("empty")
HALF = Fault("half")  # the connection ends in the middle of the answer
HUGE = Fault("huge")
ENDLESS_HEADERS = Fault("endless-headers")
ENDLESS_HEADER = Fault("endless-header")
ENDLESS_CONTINUES = Fault("endless-continues")
# … after everything was stored …
LOST = Fault("lost")
LOST_500 = Fault("lost-500")
# … and lies about what was stored.
FEWER = Fault("fewer")
WRONG_IDS = Fault("wrong-ids")
NO_IDS = Fault("no-ids")
NO_RESULTS = Fault("no-results")
MISCOUNTED = Fault("miscounted")
STRANGE = Fault("strange")
FINE = Fault("fine")


def slow(seconds: float) -> Fault:
    return Fault("slow", seconds)


def redirect(to: str) -> Fault:
    return Fault("redirect", to)


def failing(*indexes: int, error: str = "internal error, try again", **more: Any) -> Fault:
    """Items that are not stored, in an answer that is 200."""
    return Fault("failing", (indexes, {"error": error, **more}))


@dataclass
class Memory:
    locus_id: str
    item: dict[str, Any]
    writes: int = 1  # how often its text was written


@dataclass
class Graph:
    """What one server holds: a memory for each context, and what was done to it."""

    api: str = "1.0"
    key: str = KEY
    memories: dict[str, Memory] = field(default_factory=dict)
    filtered: list[dict[str, Any]] = field(default_factory=list)
    statuses: list[str] = field(default_factory=list)
    bodies: list[bytes] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)
    refuse: Callable[[dict[str, Any]], str | None] = lambda item: None
    noise: frozenset[str] = frozenset(("noise", "debug", "log"))
    orphans: list[tuple[str, str]] = field(
        default_factory=list
    )  # (context, what it extends and was not sent)

    def texts(self) -> dict[str, Any]:
        """Context → payload, of everything that is held."""
        return {context: memory.item["payload"] for context, memory in self.memories.items()}

    def check(self, body: bytes) -> tuple[int, str, list[dict[str, Any]]]:
        """(status, why, items) of a body, before any item of it is read."""
        try:
            answer = json.loads(body, parse_constant=_no_constant)
        except ValueError:
            return 400, "the body is not JSON", []
        if not isinstance(answer, dict) or set(answer) != {"graph_id", "events"}:
            return 400, f"unknown field: {sorted(set(answer) - {'graph_id', 'events'})}", []
        if answer["graph_id"] != GRAPH:
            return 403, "the key is pinned to another graph", []
        items = answer["events"]
        if not isinstance(items, list) or not items:
            return 400, "events is not a list", []
        if len(items) > BATCH_MAX[self.api]:
            return 413, f"at most {BATCH_MAX[self.api]} events", []
        for item in items:
            for name in item:
                if name not in FIELDS[self.api]:
                    return 400, f"unknown field: {name}", []
        for item in items:
            size = len(json.dumps(item.get("payload"), ensure_ascii=False, separators=(",", ":")).encode())
            if size > PAYLOAD_MAX[self.api]:
                return 413, "payload too large", []
        return 200, "", items

    def store(self, item: dict[str, Any]) -> dict[str, Any]:
        for link in item.get("extends", ()):
            if link not in self.memories:
                self.orphans.append((item["context_id"], link))
        wrong = self._wrong(item) or self.refuse(item)
        if wrong is not None:
            return self._answer({"status": "error", "error": wrong})
        if item["event_kind"] in self.noise:
            self.filtered.append(item)
            return self._answer(self._said("filtered", None, item["context_id"]))
        return self._answer(self._put(item))

    def _put(self, item: dict[str, Any]) -> dict[str, Any]:
        context = item["context_id"]
        held = self.memories.get(context)
        if held is None:
            self.memories[context] = Memory(f"L{len(self.memories):016x}", item)
            return self._said("created", self.memories[context].locus_id, context)
        same = held.item["payload"] == item["payload"]
        if self.api == "1.0" and not same and item.get("replace") is not True:
            return {"status": "error", "error": f"409 CONFLICT: {context} already holds a memory"}
        kept = {name: held.item.get(name, []) for name in LINKS} if self.api == "1.0" else {}
        held.item = {**kept, **item}
        held.writes += not same
        return self._said("unchanged" if same else "replaced", held.locus_id, context)

    def _said(self, status: str, locus_id: str | None, context: str) -> dict[str, Any]:
        if self.api == "1.0":
            return {"locus_id": locus_id, "status": status, "confidence": 0.7, "context_id": context}
        old = "filtered" if status == "filtered" else "recorded"
        return {"event_id": locus_id or "E0", "status": old, "relevance": "high"}

    def _answer(self, said: dict[str, Any]) -> dict[str, Any]:
        self.statuses.append(said["status"])
        return said

    def _wrong(self, item: dict[str, Any]) -> str | None:
        kind, context = item.get("event_kind"), item.get("context_id", "")
        if kind not in KINDS:
            return f"400 unknown event_kind {kind!r}"
        if not CONTEXT.fullmatch(context) or len(context) > 256:
            return f"bad context_id {context!r}"
        if not isinstance(item.get("payload"), dict):
            return "payload is no object"
        if item.get("source", "system") not in SOURCES:
            return f"unknown source {item['source']!r}"
        if not re.fullmatch(r"\d+", item.get("timestamp", "0")):
            return "timestamp is not seconds as text"
        lists = [item[name] for name in LINKS if name in item]
        if any(len(one) > 50 or not all(CONTEXT.fullmatch(link) for link in one) for one in lists):
            return "bad links"
        return "too many links" if sum(map(len, lists)) > 100 else None


def _no_constant(name: str) -> None:
    raise ValueError(f"{name} is not JSON")


_ENDLESS = {
    "endless-headers": (b"HTTP/1.1 200 OK\r\n", b"X-More: " + b"x" * 1000 + b"\r\n"),
    "endless-header": (b"HTTP/1.1 200 OK\r\nX-Long: ", b"x" * 1000),
    "endless-continues": (b"", b"HTTP/1.1 100 Continue\r\n\r\n"),
}


def _pour(request: BaseHTTPRequestHandler, head: bytes, again: bytes) -> None:
    """What never ends, until the other side hangs up."""
    try:
        request.wfile.write(head)
        while True:
            request.wfile.write(again * 100)
    except OSError:
        request.close_connection = True


class Server:
    """A graph on a port of this machine; a context manager. `plan` has a fault for each call to come."""

    def __init__(self, graph: Graph, plan: list[Fault] | None = None, port: int = 0) -> None:
        self.graph = graph
        self.plan = plan or []
        self.journal: Callable[[dict[str, Any]], None] | None = None
        self.on_call: Callable[[], None] = lambda: None
        self.released = threading.Event()
        self._lock = threading.Lock()
        self._http = _Http(("127.0.0.1", port), _handler(self))
        self.url = f"http://127.0.0.1:{self._http.server_port}"
        self._thread = threading.Thread(
            target=self._http.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True
        )

    def __enter__(self) -> "Server":
        self._thread.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self.released.set()
        self._http.shutdown()
        self._http.server_close()
        self._thread.join()

    def take(self, request: BaseHTTPRequestHandler) -> None:
        size = int(request.headers["Content-Length"])
        body = request.rfile.read(size)
        with self._lock:
            self.graph.headers.append(dict(request.headers))
            self.graph.bodies.append(body)
            self.on_call()
            fault = self.plan.pop(0) if self.plan else FINE
            if not self._before(fault, request):
                self._answer(fault, request, body)

    def _before(self, fault: Fault, request: BaseHTTPRequestHandler) -> bool:
        """Whether the fault stood in the place of an answer."""
        if fault.kind == "status":
            code, retry_after = fault.value
            _send(request, code, b'{"error":"not now"}', {"Retry-After": retry_after} if retry_after else {})
        elif fault.kind == "redirect":
            _send(request, 307, b"", {"Location": fault.value})
        elif fault.kind == "html":
            _send(request, 200, b"<html><body>Sign in</body></html>", {}, "text/html")
        elif fault.kind == "empty":
            _send(request, 200, b"", {})
        elif fault.kind == "huge":
            _send(request, 200, b" " * (17 << 20), {})
        elif fault.kind in _ENDLESS:
            head, again = _ENDLESS[fault.kind]
            _pour(request, head, again)
        elif fault.kind == "half":
            request.wfile.write(b'HTTP/1.1 200 OK\r\nContent-Length: 500\r\n\r\n{"success":')
            _cut(request)
        elif fault.kind == "cut":
            _cut(request)
        else:
            return False
        return True

    def _answer(self, fault: Fault, request: BaseHTTPRequestHandler, body: bytes) -> None:
        graph = self.graph
        if request.path != "/v1/events/batch":
            _send(request, 404, _error("NOT_FOUND", "no such call"), {})
            return
        if request.headers["Authorization"] != f"Bearer {graph.key}":
            payload = f"no such key: {request.headers['Authorization']}"
            _send(request, 401, _error("UNAUTHORIZED", payload), {})
            return
        code, why, items = graph.check(body)
        if code != 200:
            _send(request, code, _error("BAD_REQUEST", why), {})
            return
        results = []
        indexes, error = fault.value if fault.kind == "failing" else ((), {})
        for index, item in enumerate(items):
            if index in indexes:
                results.append({"status": "error", **error})
                continue
            results.append(graph.store(item))
            if self.journal is not None:
                self.journal(item)
        if fault.kind == "slow":
            self.released.wait(fault.value)
        if fault.kind == "lost":
            _cut(request)
        elif fault.kind == "lost-500":
            _send(request, 502, b"<html>bad gateway</html>", {}, "text/html")
        else:
            _send(request, 200, json.dumps({"success": True, "data": _told(fault, results)}).encode(), {})


def _told(fault: Fault, results: list[dict[str, Any]]) -> dict[str, Any]:
    failed = sum(one["status"] == "error" for one in results)
    filtered = sum(one["status"] == "filtered" for one in results)
    if fault.kind == "fewer":
        results = results[:-1]
    elif fault.kind == "wrong-ids":
        results = [{**one, "context_id": "turn:of_another_999"} for one in results]
    elif fault.kind == "no-ids":
        results = [{**one, "locus_id": None} for one in results]
    elif fault.kind == "strange":
        results = [{**one, "status": "maybe"} for one in results]
    elif fault.kind == "miscounted":
        failed += 3
    payload = {"stored": len(results) - failed - filtered, "filtered": filtered, "failed": failed}
    return payload if fault.kind == "no-results" else {**payload, "results": results}


def _error(code: str, message: str) -> bytes:
    return json.dumps({"success": False, "error": {"code": code, "message": message}}).encode()


def _send(
    request: BaseHTTPRequestHandler,
    code: int,
    data: bytes,
    headers: dict[str, str],
    kind: str = "application/json",
) -> None:
    request.send_response(code)
    request.send_header("Content-Type", kind)
    request.send_header("Content-Length", str(len(data)))
    for name, value in headers.items():
        request.send_header(name, value)
    request.end_headers()
    try:
        request.wfile.write(data)
    except OSError:
        pass  # the client went away


def _cut(request: BaseHTTPRequestHandler) -> None:
    """End the connection as a crash does."""
    request.close_connection = True
    request.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    request.wfile = open("/dev/null", "wb")  # noqa: SIM115
    request.connection.close()


class _Http(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False

    def handle_error(self, request: Any, client_address: Any) -> None:
        pass  # clients are killed here


def _handler(server: Server) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True

        def do_POST(self) -> None:
            server.take(self)

        def log_message(self, format: str, *args: Any) -> None:
            pass

    return Handler


class FakeClock:
    """Time that passes when somebody waits. `at` has what happens at a moment of it."""

    def __init__(self) -> None:
        self.passed = 0.0
        self.waits: list[float] = []
        self.at: list[tuple[float, Callable[[], None]]] = []
        self.ended = False

    def monotonic(self) -> float:
        return self.passed

    def now(self) -> float:
        return 1_800_000_000.0 + self.passed

    def wait(self, seconds: float) -> bool:
        self.waits.append(seconds)
        self.passed += seconds
        for due in [one for one in self.at if one[0] <= self.passed]:
            self.at.remove(due)
            due[1]()
        time.sleep(0)
        return self.ended

    def stopped(self) -> bool:
        return self.ended
