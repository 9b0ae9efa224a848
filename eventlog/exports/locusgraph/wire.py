"""One record in the shape of LocusGraph's StoreEventRequest: names, links and limits (docs/locusgraph.md).

Pure functions; any thread. Nothing here was ever tried against a server. Anything beyond the limits is
shortened visibly: the text says how much is missing and where the whole is.
"""

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from blake3 import blake3

from eventlog.base import jsontext
from eventlog.base.names import sanitize_context_id
from eventlog.recorder.requests import (
    CONTEXT_DECISIONS,
    CONTEXT_EDITOR,
    CONTEXT_ERRORS,
    CONTEXT_TERMINAL,
    CONTEXT_TOOLS,
    CONTEXT_USER_INTENT,
    LINK_NAMES,
    EventKind,
)

# The smaller of what the two published versions of the service take.
PAYLOAD_BYTES_MAX = 65_536
LINKS_MAX = 50
LINKS_TOTAL_MAX = 100
CONTEXT_ID_SIZE_MAX = 256

_TYPE_SIZE_MAX = 64  # of an id that is too long; the name and the digest get the rest

PAYLOAD_BYTES_MIN = 1_024  # every shortened payload fits into this

# A category has no type in the log, and a link without a type is dropped on the way.
CATEGORIES = {
    "decisions": CONTEXT_DECISIONS,
    "editor": CONTEXT_EDITOR,
    "errors": CONTEXT_ERRORS,
    "terminal": CONTEXT_TERMINAL,
    "tools": CONTEXT_TOOLS,
    "user_intent": CONTEXT_USER_INTENT,
}

# Parents first: the links that keep the graph connected are cut last.
_LINKS_BY_WORTH = ("extends", "related_to", "reinforces", "contradicts")

# Bytes to leave of a long text; the first size with which the payload fits is used.
_TEXT_BYTES = (16_384, 4_096, 1_024, 256, 64)
_ITEMS_PER_BYTE = 16  # a list keeps one item for this many bytes left of a text
_KEYS_MIN = 64
_DEPTH_MAX = 32
_DIGITS_MAX = 1_000  # longer integers become text; Python refuses to read them
_DECODER = json.JSONDecoder(parse_int=lambda digits: int(digits) if len(digits) < _DIGITS_MAX else digits)
_KINDS = frozenset(kind.value for kind in EventKind)
_SPELLED = re.compile(r"[a-z0-9_-]+:[a-z0-9_-]+")


class Payload(NamedTuple):
    """A payload as it goes over the wire; `cut` when it was shortened."""

    text: str
    cut: bool = False


class Links(NamedTuple):
    """The four lists, and how many links the limits and the missing types left out."""

    lists: dict[str, list[str]]
    left_out: int


def record(
    graph_id: str,
    event_kind: str,
    context_id: str,
    source: str | None,
    payload_json: str,
    links: Links,
    timestamp: int | None,
) -> dict[str, Any]:
    """The request's fields, in their order. `timestamp` is in microseconds, on the wire in seconds."""
    return {
        "graph_id": graph_id,
        "event_kind": event_kind,
        "context_id": context_id,
        "source": source,
        "payload_json": payload_json,
        **{name: links.lists[name] for name in LINK_NAMES},
        "timestamp": None if timestamp is None else str(timestamp // 1_000_000),
    }


def kind(event_kind: str) -> str:
    """One of the five kinds that every version of the service knows."""
    return event_kind if event_kind in _KINDS else EventKind.OBSERVATION.value


def context(text: str) -> str:
    """A context id as it is sent. One that is too long ends in a digest of the whole."""
    if len(text) <= CONTEXT_ID_SIZE_MAX and _SPELLED.fullmatch(text):
        return text  # as nearly all of our own are
    short = sanitize_context_id(text)
    if len(short) <= CONTEXT_ID_SIZE_MAX:
        return short
    digest = blake3(text.encode("utf-8", "surrogatepass")).digest(16).hex()
    kind_of_context, colon, name = short.partition(":")
    short = f"{kind_of_context[:_TYPE_SIZE_MAX]}:{name}" if colon else short
    return f"{short[: CONTEXT_ID_SIZE_MAX - len(digest) - 1]}_{digest}"


def links(stated: Mapping[str, Sequence[str] | None]) -> Links:
    """The links that have a type, each once, within the limits."""
    lists: dict[str, list[str]] = {name: [] for name in LINK_NAMES}
    room = LINKS_TOTAL_MAX
    left_out = 0
    for name in _LINKS_BY_WORTH:
        wanted = stated.get(name)
        if not wanted:
            continue
        spelled = dict.fromkeys([context(CATEGORIES.get(link, link)) for link in wanted])
        typed = [link for link in spelled if ":" in link]
        lists[name] = typed[: min(LINKS_MAX, room)]
        room -= len(lists[name])
        left_out += len(spelled) - len(lists[name])
    return Links(lists, left_out)


def cut_text(text: str, bytes_max: int) -> str:
    """The beginning of `text` in at most `bytes_max` bytes of UTF-8, cut between characters."""
    if len(text) * 4 <= bytes_max:
        return text
    encoded = text.encode("utf-8", "replace")
    return text if len(encoded) <= bytes_max else encoded[:bytes_max].decode("utf-8", "ignore")


def lines_of(diff: str) -> dict[str, int]:
    """How many lines a unified diff of one file adds and removes (S1-31), as keys of a payload."""
    lines = f"\n{diff}".partition("\n@@")[2].split("\n")  # after the names of the file
    signs = {"lines_added": "+", "lines_removed": "-"}
    return {name: sum(line.startswith(sign) for line in lines) for name, sign in signs.items()}


def decode(text: str) -> Any:
    """The value of a payload's text; None when it cannot be parsed. Long integers become text."""
    try:
        return _DECODER.decode(text)
    except (ValueError, RecursionError):
        return None


def with_columns(text: str, columns: Mapping[str, Any]) -> str:
    """The payload with the columns that it lacks as keys; its own bytes stay as they are (S0-16).

    No column is a float.
    """
    payload = _decode_fast(text)
    if not isinstance(payload, dict):
        return text
    missing = {name: value for name, value in columns.items() if name not in payload}
    if not missing:
        return text
    payload_text = text.strip()
    added = jsontext.encode_without_floats(missing).decode("utf-8")
    return added if not payload else f"{payload_text[:-1].rstrip()},{added[1:]}"


def _decode_fast(text: str) -> Any:
    """As `decode`, for callers that need only kinds and keys: long integers become other numbers."""
    import orjson

    try:
        return orjson.loads(text)
    except ValueError:  # also for input that only the other one takes: NaN, lone surrogates, deep nesting
        return decode(text)


def envelope(payload_kind: str, data: str) -> str:
    """A lifecycle payload (S0-20); `data` is JSON text."""
    return f'{{"kind":{encode(payload_kind)},"data":{data}}}'


def encode(value: Any) -> str:
    return jsontext.encode_fast(value).decode("utf-8")


def fit(text: str, bytes_max: int, location: str) -> Payload:
    """The payload within its limit.

    Long texts end in a mark, then long lists and objects, as far as needed; if that is not enough, one mark
    replaces everything. Args: location: names in the marks where the whole payload is.
    """
    if len(text) * 4 <= bytes_max:
        return Payload(text)
    size = len(text.encode("utf-8", "replace"))
    if size <= bytes_max:
        return Payload(text)
    value = decode(text)
    if value is not None:
        for text_bytes in _TEXT_BYTES:
            short = encode(_shortened(value, text_bytes, location, _DEPTH_MAX))
            if len(short.encode("utf-8")) <= bytes_max:
                return Payload(short, cut=True)
    payload_kind = value.get("kind") if isinstance(value, dict) else None
    rest = {"kind": payload_kind} if isinstance(payload_kind, str) and len(payload_kind) <= 64 else {}
    return Payload(encode({**rest, "cut": _mark(f"a payload of {size:,} bytes", location)}), cut=True)


def _shortened(value: Any, text_bytes: int, location: str, depth: int) -> Any:
    if isinstance(value, str):
        beginning = cut_text(value, text_bytes)
        if beginning == value:
            return value
        size = len(value.encode("utf-8", "replace"))
        return beginning + _mark(
            f"{size - len(beginning.encode('utf-8', 'replace')):,} of {size:,} bytes", location
        )
    if not isinstance(value, (list, dict)):
        return value
    if depth == 0:
        return _mark("what is nested deeper", location)
    items_max = text_bytes // _ITEMS_PER_BYTE
    if isinstance(value, list):
        items = [_shortened(item, text_bytes, location, depth - 1) for item in value[:items_max]]
        if len(value) > items_max:
            items.append(_mark(f"{len(value) - items_max:,} of {len(value):,} items", location))
        return items
    keys = list(value)[: max(items_max, _KEYS_MIN)]
    short = {key: _shortened(value[key], text_bytes, location, depth - 1) for key in keys}
    if len(value) > len(keys):
        short["…"] = _mark(f"{len(value) - len(keys):,} of {len(value):,} keys", location)
    return short


def _mark(what: str, location: str) -> str:
    return f"…[cut: {what}; whole in {location}]"
