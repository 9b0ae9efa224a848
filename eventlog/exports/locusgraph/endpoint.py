"""Where LocusGraph is and who calls: the service's address, the graph, the interface, the key.

Values; any thread. The key comes from the environment only. It is in no `repr`, no error and no event, and
`ApiKey.hide` removes it from texts of a server.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import urlsplit

from blake3 import blake3

from eventlog.base.errors import Refused

KEY_VARIABLE = "LOCUSGRAPH_AGENT_SECRET"
APIS = ("0.x", "1.0")

_KEY_SIZE_MAX = 4_096
_GRAPH_SIZE_MAX = 256
_LOOPBACK = re.compile(r"localhost|127(\.\d{1,3}){3}|::1")


class ApiKey:
    """The secret of the caller."""

    __slots__ = ("_text",)

    def __init__(self, text: str) -> None:
        self._text = text

    def __repr__(self) -> str:
        return "Key(…)"

    @property
    def header(self) -> str:
        return f"Bearer {self._text}"

    def hide(self, text: str) -> str:
        """The text without the key."""
        return text.replace(self._text, "[key]")


def key_from(environment: Mapping[str, str]) -> ApiKey:
    """Raises: Refused when there is no key, or none that a header can hold."""
    text = environment.get(KEY_VARIABLE, "").strip()
    if not text:
        raise Refused(f"the key of the service is missing: set the variable {KEY_VARIABLE}")
    if len(text) > _KEY_SIZE_MAX or not all("!" <= c <= "~" for c in text):
        raise Refused(
            f"{KEY_VARIABLE} does not hold a key: it has characters that no key has, or is too long. "
            "Copy the key once more."
        )
    return ApiKey(text)


@dataclass(frozen=True, slots=True)
class Endpoint:
    """One graph of one server; each has a position of its own in the log."""

    server: str  # as https://host:port/path, without an end slash
    graph_id: str
    api: str = "1.0"

    @property
    def consumer(self) -> str:
        """The name in the ledger: a digest, because an address may look like a secret and must not change."""
        identity = f"{self.server}\0{self.graph_id}".encode("utf-8", "surrogatepass")
        return f"export:locusgraph:{blake3(identity).digest(8).hex()}"

    @property
    def events_url(self) -> str:
        return f"{self.server}/v1/events/batch"

    @property
    def events_max(self) -> int:
        """The most events in one call, by the published interface."""
        return 100 if self.api == "0.x" else 1_000


def endpoint_of(server: str, graph_id: str, api: str = "1.0") -> Endpoint:
    """Raises: Refused for an address that would reveal the key, or that is invalid."""
    if api not in APIS:
        raise Refused(f"--api is one of {', '.join(APIS)}, not {api!r}")
    if not 0 < len(graph_id) <= _GRAPH_SIZE_MAX or not graph_id.isprintable():
        raise Refused(f"a graph id has 1 to {_GRAPH_SIZE_MAX} printable characters")
    try:
        parts = urlsplit(server.strip())
        host, port = parts.hostname, parts.port
    except ValueError:
        raise Refused("--server is not an address such as https://api.example.com") from None
    if parts.username is not None or parts.password is not None or parts.query or parts.fragment:
        raise Refused(
            "--server has a name, a password, a query or a fragment in it, which other programs could "
            f"read off the command line. Give the address alone, and the key in {KEY_VARIABLE}."
        )
    if parts.scheme not in ("https", "http") or not host or re.search(r"[\s\x00-\x1f\x7f\\]", server.strip()):
        raise Refused("--server is not an address such as https://api.example.com")
    if parts.scheme == "http" and not _LOOPBACK.fullmatch(host):
        raise Refused(
            f"http://{host} would send the key and the records unencrypted; use https (http is for this "
            "machine only)"
        )
    bracketed_host = f"[{host}]" if ":" in host else host
    address = bracketed_host if port is None else f"{bracketed_host}:{port}"
    return Endpoint(f"{parts.scheme}://{address}{parts.path.rstrip('/')}", graph_id, api)
