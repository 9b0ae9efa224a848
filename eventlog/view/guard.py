"""Which requests are answered at all: the walls before every answer of the viewer (docs/view.md). Pure.

What is defended is everything that an agent saw, against any website in the same browser, other users of the
machine and recorded text. Each request passes `refusal` before anything else sees it, whatever its path.
"""

import hmac
import secrets
from collections.abc import Iterable, Sequence
from typing import NamedTuple

METHODS = ("GET", "HEAD")
API = "/api/"
HEAD_MAX = 16 << 10  # bytes of a request
_TOKEN_BYTES = 24

# Of every answer, also of those that refuse.
HEADERS: tuple[tuple[str, str], ...] = (
    (
        "content-security-policy",
        "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
        "require-trusted-types-for 'script'; trusted-types 'none'",
    ),
    ("cross-origin-opener-policy", "same-origin"),
    ("cross-origin-resource-policy", "same-origin"),
    ("x-content-type-options", "nosniff"),
    ("referrer-policy", "no-referrer"),
    # What was recorded may be erased later: no copy of it stays in the browser's cache.
    ("cache-control", "no-store"),
)


class Refusal(NamedTuple):
    """Why a request is not answered."""

    status: int
    what: str


class Guard:
    """The walls of one server: the names that it answers to, and the token of its process."""

    def __init__(self, port: int, names: Sequence[str] = (), token: str | None = None) -> None:
        """Args: names: hosts beside those of this machine, as `--allow-host` names them."""
        hosts = ("127.0.0.1", "localhost", "[::1]", *names)
        self.hosts = frozenset(f"{host}:{port}" for host in hosts)
        self._origins = frozenset(f"http://{host}" for host in self.hosts)
        self.token = token or secrets.token_urlsafe(_TOKEN_BYTES)

    def refusal(
        self,
        method: str,
        path: str,
        headers: Sequence[tuple[bytes, bytes]],
        *,
        is_page: bool,
        query: bytes = b"",
    ) -> Refusal | None:
        """Why a request is refused; None where it is answered.

        Args: headers: names in lower case; is_page: whether the path gives the shell, which holds no data, so
        that a link of elsewhere may lead to it.
        """
        if len(path) + len(query) + sum(len(name) + len(value) for name, value in headers) > HEAD_MAX:
            return Refusal(431, f"the head of a request may have {HEAD_MAX:,} bytes")
        given = _Headers(headers)
        host = given.only("host")
        if host is None or host not in self.hosts:
            return Refusal(421, "this server does not answer to that name")
        if method not in METHODS:
            return Refusal(405, "only GET and HEAD are answered")
        if not given.all("origin") <= self._origins:
            return Refusal(403, "another origin is not answered")
        site = given.all("sec-fetch-site")
        if not site <= _OUR_SITES and not (is_page and given.is_navigation()):
            return Refusal(403, "another site is not answered")
        if path.startswith(API) and not self._is_bearer(given.only("authorization")):
            return Refusal(
                401, "the token is missing or not this server's; open the address that `locus view` gives"
            )
        return None

    def _is_bearer(self, given: str | None) -> bool:
        wanted = f"Bearer {self.token}"
        return given is not None and hmac.compare_digest(given.encode(), wanted.encode())


_OUR_SITES = frozenset(("same-origin", "none"))


class _Headers:
    def __init__(self, headers: Iterable[tuple[bytes, bytes]]) -> None:
        self._values: dict[str, list[str]] = {}
        for name, value in headers:
            self._values.setdefault(name.decode("latin-1"), []).append(value.decode("latin-1"))

    def only(self, name: str) -> str | None:
        """The value of a header that is there once."""
        values = self._values.get(name, [])
        return values[0] if len(values) == 1 else None

    def all(self, name: str) -> set[str]:
        return set(self._values.get(name, ()))

    def is_navigation(self) -> bool:
        """Whether a reader goes to a page in a window of its own, as opposed to a frame or a script."""
        return self.only("sec-fetch-mode") == "navigate" and self.only("sec-fetch-dest") == "document"
