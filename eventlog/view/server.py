"""The viewer's server: starlette and uvicorn around the answers, on this machine alone.

Only this module and `live` import them, and only when it serves. Questions run in two threads, each with
stores of its own: one for what a reader waits for while moving, one for what may take long. No route opens a
file by a name from a request: static files are read once, and known by their names.
"""

import asyncio
import os
import socket
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack, nullcontext
from functools import partial
from typing import TYPE_CHECKING

from eventlog.base import jsontext
from eventlog.base.errors import EventLogError, InvalidEvent, NotFound, Unsupported
from eventlog.view import answers, client_files
from eventlog.view.guard import API, HEAD_MAX, HEADERS, Guard, Refusal
from eventlog.view.live import LiveStreams
from eventlog.view.parameters import Parameters
from eventlog.view.stores import ViewedLake, ViewedStores, opened

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Receive, Scope, Send

LIVE = "/api/live"
STATIC = "/static/"
_SHELL = "index.html"
_TYPES = {
    ".css": "text/css; charset=utf-8",
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}
_CONNECTIONS_MAX = 64

# Opens what is shown, in the thread that answers.
Opening = Callable[[], AbstractContextManager["ViewedStores | ViewedLake"]]
EXTRA = "pip install 'locus-eventlog[view]'"


def check_installed() -> None:
    """Raises: Unsupported (the extra is not installed)."""
    try:
        import pygments  # noqa: F401
        import starlette  # noqa: F401
        import uvicorn  # noqa: F401
    except ImportError as error:
        raise Unsupported(f"`locus view` needs its libraries ({error}). Install them: {EXTRA}") from error


def static_files() -> dict[str, tuple[str, bytes]]:
    """The files of the client by name, with their types."""
    return {
        name: (_TYPES[os.path.splitext(name)[1]], client_files.read(name).encode())
        for name in client_files.names()
    }


class AnsweringThread:
    """A thread with stores of its own, in which questions are answered one after the other."""

    def __init__(self, opening: Opening) -> None:
        self._opening = opening
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="view")
        self._open = ExitStack()
        self._shown: ViewedStores | ViewedLake | None = None

    async def answer(self, path: str, parameters: Mapping[str, str]) -> tuple[int, bytes]:
        """The status and the JSON text of an answer."""
        return await asyncio.get_running_loop().run_in_executor(self._thread, self._answer, path, parameters)

    def _answer(self, path: str, parameters: Mapping[str, str]) -> tuple[int, bytes]:
        try:
            if self._shown is None:
                self._shown = self._open.enter_context(self._opening())
            return 200, jsontext.encode_without_floats(answers.answer(self._shown, path, parameters))
        except Exception as error:
            status, value = answers.problem(error)
            return status, jsontext.encode_without_floats(value)

    def close(self) -> None:
        """End the thread, once it has answered."""
        self._thread.submit(self._open.close)
        self._thread.shutdown(cancel_futures=False)


class Viewer:
    """The application: its guard in front, then answers, static files, and the shell for every other path."""

    def __init__(self, paths: Mapping[str, str], guard: Guard, lake: "ViewedLake | None" = None) -> None:
        """Args: paths: the stores' directories by their names; lake: what is shown instead of them."""
        self.guard = guard
        self._paths = paths
        self._lake = lake
        self._files = static_files()
        opening: Opening = partial(opened, paths)
        if lake is not None:
            opening = lambda: nullcontext(lake)  # noqa: E731
        self._quick, self._long = AnsweringThread(opening), AnsweringThread(opening)
        self._live = LiveStreams(paths)

    def close(self) -> None:
        self._live.close()
        self._quick.close()
        self._long.close()

    async def __call__(self, scope: "Scope", receive: "Receive", send: "Send") -> None:
        if scope["type"] != "http":
            return
        path: str = scope["path"]
        is_page = not path.startswith((API, STATIC))
        refusal = self.guard.refusal(
            scope["method"], path, scope["headers"], is_page=is_page, query=scope["query_string"]
        )
        if refusal is not None:
            app = _refused(refusal)
        elif path.startswith(API):
            app = await self._answer(scope, path)
        else:
            app = self._file(_SHELL if is_page else path[len(STATIC) :])
        await app(scope, receive, send)

    async def _answer(self, scope: "Scope", path: str) -> "ASGIApp":
        try:
            parameters = _parameters(scope["query_string"])
            if path == LIVE:
                return self._stream(parameters, is_head=scope["method"] == "HEAD")
        except EventLogError as error:
            status, value = answers.problem(error)
            return _response(jsontext.encode(value), _JSON, status)
        thread = self._long if answers.is_long(path) else self._quick
        status, data = await thread.answer(path, parameters)
        return _response(data, _JSON, status)

    def _stream(self, given: dict[str, str], *, is_head: bool) -> "ASGIApp":
        """Raises: InvalidEvent, NotFound."""
        from starlette.responses import StreamingResponse

        if self._lake is not None:
            raise answers.NoFiles(self._lake)
        store = given.pop("store", None)
        if store is not None and store not in self._paths:
            raise NotFound(f"no store here is called {store[:80]!r}")
        parameters = Parameters(given, ("after",))
        after = parameters.number("after", 0, 1 << 62) if parameters.text("after") else None
        headers = {**dict(HEADERS), "content-type": "text/event-stream"}
        if is_head:
            return _response(b"", headers["content-type"])
        messages = self._live.open(store, after)
        if messages is None:
            return _refused(Refusal(503, "too many pages follow already; close one"))
        return StreamingResponse(messages, headers=headers)

    def _file(self, name: str) -> "ASGIApp":
        if name not in self._files:
            return _refused(Refusal(404, "there is no such file"))
        type, data = self._files[name]
        return _response(data, type)


_JSON = "application/json"


def _response(data: bytes, type: str, status: int = 200) -> "ASGIApp":
    from starlette.responses import Response

    return Response(data, status, {**dict(HEADERS), "content-type": type})


def _refused(refusal: Refusal) -> "ASGIApp":
    value = {"v": answers.VERSION, "error": {"what": refusal.what, "next": None}}
    return _response(jsontext.encode(value), _JSON, refusal.status)


def _parameters(query: bytes) -> dict[str, str]:
    """Raises: InvalidEvent where one is given twice, or is no text."""
    from urllib.parse import parse_qsl

    try:
        pairs = parse_qsl(query.decode("ascii"), keep_blank_values=True, errors="strict", max_num_fields=32)
    except ValueError as error:
        raise InvalidEvent(f"the parameters cannot be read: {error}") from error
    given = dict(pairs)
    if len(given) < len(pairs):
        raise InvalidEvent("a parameter is given twice")
    return given


def listening(host: str, port: int) -> socket.socket:
    """A socket that listens there; 0 is any free port. Raises: OSError."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
        listener.listen(_CONNECTIONS_MAX)
    except OSError:
        listener.close()
        raise
    return listener


def serve(viewer: Viewer, listener: socket.socket, ready: Callable[[Callable[[], None]], None]) -> None:
    """Serve until the process is interrupted.

    Args: ready: called once requests are answered, with a function that ends it.
    """
    import uvicorn

    from eventlog.view.protocol import Protocol

    config = uvicorn.Config(
        viewer,
        http=Protocol,
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        date_header=False,
        proxy_headers=False,
        h11_max_incomplete_event_size=HEAD_MAX,
        limit_concurrency=_CONNECTIONS_MAX,
        timeout_keep_alive=60,
        timeout_graceful_shutdown=1,
    )
    server = uvicorn.Server(config)

    async def run() -> None:
        serving = asyncio.ensure_future(server.serve(sockets=[listener]))
        while not server.started and not serving.done():
            await asyncio.sleep(0.005)
        ready(lambda: setattr(server, "should_exit", True))
        await serving

    try:
        asyncio.run(run())
    except KeyboardInterrupt:
        pass
    finally:
        viewer.close()
