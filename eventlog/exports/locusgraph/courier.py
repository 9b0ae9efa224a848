"""An HTTP client that retries: a body is posted until the server takes it, or an error gives the reason.

A `Courier` belongs to one thread. It retries only transient faults: connection errors, 429 and 5xx, with an
exponential random back-off or the pause that the server requests. It never follows a redirect, which would
carry the key elsewhere. It checks certificates, limits the size and time of answers, and keeps to a number of
requests a minute. It waits seconds for a server to which it made no connection yet, minutes for one that goes
away. Time comes from a `Clock`, so that tests need not wait. The library (urllib3) is an extra: importing
this module does not load it.
"""

import email.utils
import http.client
import random
import socket
import threading
import time
from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol
from urllib.parse import urlsplit

from eventlog.base import jsontext
from eventlog.base.errors import EventLogError, Unsupported
from eventlog.exports.locusgraph.endpoint import KEY_VARIABLE, ApiKey, Endpoint

if TYPE_CHECKING:
    import urllib3

PER_MINUTE = 300  # what 1.0 grants a caller for this call
PATIENCE_S = 900.0
UNREACHED_S = 5.0  # patience with a server to which no connection was ever made: the address may be wrong

_CONNECT_S = 10.0
_ANSWER_S = 120.0  # a full batch of 1.0 takes some 60 s
_ANSWER_BYTES_MAX = 16 << 20
_INTERIM_MAX = 10  # interim answers before the final one
_PAUSE_FIRST_S = 0.5
_PAUSE_MAX_S = 60.0
_MINUTE_S = 60.0
_SHOWN_MAX = 200
_WRONG_BODY = (400, 409, 413, 422)  # a smaller or different body may be taken
_PASSING = (408, 425, 429)


class ServiceError(EventLogError):
    """Sending to the service failed; only what it acknowledged is noted as delivered."""


class StoppedError(Exception):
    """The caller was asked to stop while this waited."""


class Clock(Protocol):
    def monotonic(self) -> float: ...
    def now(self) -> float:
        """Seconds since 1970."""
        ...

    def wait(self, seconds: float) -> bool:
        """Wait; true when the work is to stop."""
        ...

    def stopped(self) -> bool: ...


class RealClock:
    """Real time. `stop` may be set by any thread or signal handler."""

    def __init__(self) -> None:
        self.stop = threading.Event()

    def monotonic(self) -> float:
        return time.monotonic()

    def now(self) -> float:
        return time.time()

    def wait(self, seconds: float) -> bool:
        return self.stop.wait(seconds)

    def stopped(self) -> bool:
        return self.stop.is_set()


@dataclass(frozen=True, slots=True)
class ServerAnswer:
    """The server's answer: the JSON value of a 2xx, or of a status by which it refuses this body."""

    status: int
    value: Any

    @property
    def taken(self) -> bool:
        return self.status < 300


@dataclass(frozen=True, slots=True)
class Fault:
    """A transient fault; `pause_s` is the pause that the server requests, `connected` whether anybody took
    the connection."""

    what: str
    pause_s: float | None = None
    connected: bool = True


class Courier:
    """The client of one endpoint."""

    def __init__(
        self,
        endpoint: Endpoint,
        key: ApiKey,
        clock: Clock,
        *,
        patience_s: float | None = PATIENCE_S,
        per_minute: int = PER_MINUTE,
        answer_s: float = _ANSWER_S,
        seed: int | None = None,
    ) -> None:
        self.retries = 0
        self.trouble: str | None = None  # what the call under way meets, until it is answered
        self.requests = 0
        self.endpoint = endpoint
        self._key = key
        self._clock = clock
        self._patience_s = patience_s
        self._per_minute = per_minute
        self._answer_s = answer_s
        self._was_reached = False  # a connection was made, by this courier
        self._draw = random.Random(seed)
        self._sent_at: deque[float] = deque()
        self._http = _pool()

    def close(self) -> None:
        self._http.clear()

    def post(self, body: bytes) -> ServerAnswer:
        """The answer to `body`, retried until the server takes or refuses it.

        Raises: ServiceError when patience ends or a retry would be useless; StoppedError.
        """
        first_fault_at: float | None = None
        pause_s = _PAUSE_FIRST_S
        while True:
            self._keep_pace()
            result = self._try(body)
            self._was_reached |= isinstance(result, ServerAnswer) or result.connected
            if isinstance(result, ServerAnswer):
                self.trouble = None
                return result
            now = self._clock.monotonic()
            first_fault_at = now if first_fault_at is None else first_fault_at
            # At least half of it, the rest at random: clients that failed together retry at different times.
            wait_s = pause_s * self._draw.uniform(0.5, 1.0)
            if result.pause_s is not None:
                wait_s = result.pause_s + self._draw.uniform(0.0, min(pause_s, 1.0))
            self._check_patience(result, now - first_fault_at, wait_s)
            pause_s = min(pause_s * 2, _PAUSE_MAX_S)
            self.retries += 1
            self.trouble = self._trouble(result, wait_s, first_fault_at)
            self.pause(wait_s)

    def _trouble(self, fault: Fault, wait_s: float, first_at: float) -> str:
        message = f"{self.endpoint.server}: {fault.what}; trying again in {max(1, round(wait_s))} s"
        patience_s = self._patience()
        if patience_s is None:
            return message
        left_s = max(0.0, patience_s - (self._clock.monotonic() - first_at))
        left = f"{left_s / 60:.0f} min" if left_s >= 60 else f"{max(1, round(left_s))} s"
        return f"{message}, for {left} more"

    def _patience(self) -> float | None:
        """Seconds for which faults in a row are retried; None: for ever."""
        if self._patience_s is None or self._was_reached:
            return self._patience_s
        return min(self._patience_s, UNREACHED_S)

    def pause(self, seconds: float) -> None:
        if self._clock.wait(seconds):
            raise StoppedError

    def _keep_pace(self) -> None:
        """Wait so that no minute has more than `per_minute` requests."""
        if self._clock.stopped():
            raise StoppedError
        if self._per_minute and len(self._sent_at) == self._per_minute:
            wait_s = self._sent_at.popleft() + _MINUTE_S - self._clock.monotonic()
            if wait_s > 0:
                self.pause(wait_s)
        if self._per_minute:
            self._sent_at.append(self._clock.monotonic())

    def _check_patience(self, fault: Fault, failing_s: float, wait_s: float) -> None:
        """Raises: ServiceError when waiting `wait_s` more would be too long."""
        patience_s = self._patience()
        if patience_s is None or failing_s + wait_s <= patience_s:
            return
        asks = f" and asks to wait {wait_s:.0f} s" if fault.pause_s is not None else ""
        long = f" for {failing_s / 60:.0f} min" if failing_s >= 60 else ""
        then = "What was acknowledged is noted; the next export goes on from there."
        if not self._was_reached:
            then = (
                "Nothing was sent, so nothing is lost. Check --server, and that the service runs; "
                "then export again."
            )
        raise ServiceError(f"{self.endpoint.server} could not be sent to{long}: {fault.what}{asks}. {then}")

    def _try(self, body: bytes) -> ServerAnswer | Fault:
        import urllib3

        self.requests += 1
        headers = {
            "Authorization": self._key.header,
            "Content-Type": "application/json",
            "Accept": "application/json",
            "Accept-Encoding": "identity",
            "User-Agent": "locus",
        }
        try:
            response = self._http.request(
                "POST",
                self.endpoint.events_url,
                body=body,
                headers=headers,
                redirect=False,
                retries=False,
                timeout=urllib3.Timeout(connect=_CONNECT_S, read=self._answer_s),
                preload_content=False,
                decode_content=False,
            )
            try:
                data = self._read(response)
                response.release_conn()
            except BaseException:
                response.close()  # part of an answer is left in it
                raise
        except urllib3.exceptions.SSLError as error:
            raise ServiceError(
                f"{self.endpoint.server} has no certificate that this machine trusts "
                f"({self._shown(str(error))}). Nothing was sent. Check the address and the certificates."
            ) from None
        except urllib3.exceptions.NewConnectionError as error:  # to urllib3, this is a TimeoutError, too
            return Fault(self._unconnected(error), connected=False)
        except urllib3.exceptions.ConnectTimeoutError:
            return Fault(f"no connection within {_CONNECT_S:.0f} s", connected=False)
        except (urllib3.exceptions.TimeoutError, TimeoutError) as error:
            return Fault(f"no answer in time ({type(error).__name__})")
        except (urllib3.exceptions.HTTPError, OSError) as error:
            if _is_endless(error):
                raise ServiceError(
                    f"{self.endpoint.server} answers with more headers, or longer ones, than any answer of "
                    "this service has. Check the address."
                ) from None
            return Fault(f"the connection failed ({type(error).__name__})")
        return self._judge(response.status, response.headers, data)

    def _unconnected(self, error: "urllib3.exceptions.NewConnectionError") -> str:
        """Why no connection could be made."""
        cause = error.__cause__
        if isinstance(cause, ConnectionRefusedError):
            return f"nobody listens at {urlsplit(self.endpoint.server).netloc} (connection refused)"
        reason = cause.strerror if isinstance(cause, OSError) and cause.strerror else type(error).__name__
        if isinstance(cause, socket.gaierror):
            return f"its name is not known here ({self._shown(reason)})"
        return f"it cannot be reached from here ({self._shown(reason)})"

    def _read(self, response: "urllib3.BaseHTTPResponse") -> bytes:
        """The body, within limits of size and of total time."""
        began = time.monotonic()
        parts: list[bytes] = []
        size = 0
        while part := response.read1(1 << 16):
            parts.append(part)
            size += len(part)
            if size > _ANSWER_BYTES_MAX:
                raise ServiceError(
                    f"{self.endpoint.server} answers with more than {_ANSWER_BYTES_MAX >> 20} MiB, which "
                    "is not an answer of this service. Check the address."
                )
            if time.monotonic() - began > self._answer_s:
                raise TimeoutError
        return b"".join(parts)

    def _judge(self, status: int, headers: "urllib3.HTTPHeaderDict", data: bytes) -> ServerAnswer | Fault:
        if is_passing(status):
            return Fault(f"it answers {status}", self._pause_asked(headers.get("Retry-After")))
        value = _decoded(data)
        if 200 <= status < 300:
            if value is None and data.lstrip()[:1] == b"{":
                return Fault("its answer was cut short")
            if not isinstance(value, dict):
                kind = self._shown(headers.get("Content-Type") or "no type")
                raise ServiceError(
                    f"{self.endpoint.server} answered {status} with what is no JSON object ({kind}), so "
                    "something else answers there, or a gateway in between. Nothing of this batch is noted "
                    "as delivered; check the address."
                )
            return ServerAnswer(status, value)
        if status in _WRONG_BODY:
            return ServerAnswer(status, value)
        reason = self._shown(reason_of(value))
        raise ServiceError(self._hopeless(status, headers, reason and f" ({reason})"))

    def _hopeless(self, status: int, headers: "urllib3.HTTPHeaderDict", reason: str) -> str:
        server = self.endpoint.server
        if 300 <= status < 400:
            location = self._shown(headers.get("Location") or "nowhere")
            return (
                f"{server} redirects ({status}) to {location}. The key is not sent elsewhere; if that is the "
                "right place, give it as --server."
            )
        if status == 401:
            return f"{server} rejects the key{reason}. Check {KEY_VARIABLE}; a revoked key needs a new one."
        if status == 403:
            return (
                f"{server} does not let this key write to graph {self.endpoint.graph_id!r}{reason}. Give the "
                "graph that the key is for as --graph, or a key with memory.write."
            )
        if status == 404:
            return (
                f"{server} knows no {self.endpoint.events_url.removeprefix(server)}, or no graph "
                f"{self.endpoint.graph_id!r}{reason}. Check --server and --graph."
            )
        return f"{server} answers {status}{reason}, which trying again will not change. Nothing was noted."

    def _pause_asked(self, text: str | None) -> float | None:
        """Seconds from a `Retry-After`: a number or a date; None when it has neither."""
        if text is None:
            return None
        text = text.strip()
        if text.isascii() and text.isdigit() and len(text) <= 9:
            return float(text)
        try:
            return max(0.0, email.utils.parsedate_to_datetime(text).timestamp() - self._clock.now())
        except (ValueError, OverflowError, TypeError):
            return None

    def _shown(self, text: str) -> str:
        """A text of the server for a message: short, on one line, without the key."""
        return plain(self._key.hide(text))


def is_passing(status: int) -> bool:
    """Whether an HTTP status is transient, and not about the body."""
    return status in _PASSING or status >= 500


def check_library() -> None:
    """Raises: Unsupported where the package that sends is not installed."""
    _pool().clear()


def plain(text: str) -> str:
    """A foreign text on one line, without control characters, shortened."""
    line = " ".join("".join(c if c.isprintable() else " " for c in text[: _SHOWN_MAX * 8]).split())
    return line if len(line) <= _SHOWN_MAX else f"{line[: _SHOWN_MAX - 1]}…"


def reason_of(value: Any) -> str:
    """The text of an error from the service: `error` is a text, or has `code` and `message`."""
    error = value.get("error", value.get("message")) if isinstance(value, dict) else None
    if isinstance(error, dict):
        return ": ".join(str(error[name]) for name in ("code", "message") if error.get(name))
    return error if isinstance(error, str) else ""


def _decoded(data: bytes) -> Any:
    try:
        return jsontext.decode(data)
    except (ValueError, RecursionError):
        return None


def _is_endless(error: BaseException) -> bool:
    """Whether http.client gave up on headers that never end: such an answer is not transient."""
    causes = [error, *error.args, error.__cause__, error.__context__]
    return any(
        isinstance(cause, http.client.LineTooLong)
        or (type(cause) is http.client.HTTPException and "headers" in str(cause))
        for cause in causes
    )


def _bound_interim_answers(pool: "urllib3.PoolManager") -> None:
    """Limit a series of "100 Continue", which http.client would read for ever, as endless headers are."""
    import urllib3

    class Response(http.client.HTTPResponse):
        def _read_status(self) -> Any:
            self._lines = getattr(self, "_lines", 0) + 1
            if self._lines > _INTERIM_MAX:
                raise http.client.HTTPException("too many headers of interim answers")
            return super()._read_status()  # type: ignore[misc]

    kinds: dict[str, Any] = {"http": urllib3.HTTPConnectionPool, "https": urllib3.HTTPSConnectionPool}
    for scheme, kind in kinds.items():
        connection = type("Connection", (kind.ConnectionCls,), {"response_class": Response})
        kinds[scheme] = type("Pool", (kind,), {"ConnectionCls": connection})
    pool.pool_classes_by_scheme = kinds


def _pool() -> "urllib3.PoolManager":
    """A pool of one persistent connection. Proxies of the environment are not used."""
    try:
        import urllib3
    except ImportError:
        raise Unsupported(
            "sending needs the package urllib3, which is not installed: pip install 'locus-eventlog[http]'"
        ) from None
    pool = urllib3.PoolManager(num_pools=1, maxsize=1, cert_reqs="CERT_REQUIRED")
    _bound_interim_answers(pool)
    return pool
