"""Bodies and answers of LocusGraph's REST call that stores a batch, in both published interfaces.

Pure functions; any thread. A body is made of items that are JSON text already, so that a payload is sent in
the bytes that were measured. Answers are foreign: `outcomes` checks everything in them.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from blake3 import blake3

from eventlog.base import jsontext
from eventlog.base.errors import EventLogError
from eventlog.exports.locusgraph import wire
from eventlog.exports.locusgraph.courier import is_passing, plain, reason_of
from eventlog.recorder.requests import LINK_NAMES

BODY_BYTES_MAX = 4 << 20  # our limit: gateways of services seldom take more

# The ladder of 1.0, and the names that it takes for steps of it; 0.x has our five among these.
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
_STORED = {
    "created": "created",
    "recorded": "created",
    "replaced": "replaced",
    "unchanged": "unchanged",
    "filtered": "filtered",
}
_NO_STRICT_JSON = re.compile(r"NaN|Infinity|\\u[dD][89a-fA-F]")
_CONFLICT = re.compile(r"\b409\b|\bCONFLICT\b|already holds|replace: ?true", re.IGNORECASE)
_MOMENT = re.compile(
    r"\b(429|50[0-4])\b|rate.?limit|\binternal\b|time[d-]? ?out|unavailable|overloaded|try again"
    r"|transient|temporar",
    re.IGNORECASE,
)
_WORD = re.compile(r"[\w./:@+-]{4,}")
_FIELDS = frozenset(
    ("graph_id", "event_kind", "context_id", "source", "payload", "timestamp", "replace", *LINK_NAMES)
)
_STATE_BYTES = 8
WAITS = "it waits for what it extends, which was refused"


class ProtocolError(EventLogError):
    """An answer that does not fit what was sent."""


class SentRecord(NamedTuple):
    """One record as it is sent. `key` stands for its context, `state` for all of it, in the ledger.

    `is_counted_by_position`: whether the position alone shows that it arrived.
    """

    group: str
    position: int | None  # of a timeline event; None for a context whose state may change
    context_id: str
    key: str
    text: bytes
    parents: tuple[str, ...]  # what it extends
    is_counted_by_position: bool

    @property
    def state(self) -> str:
        return blake3(self.text).digest(_STATE_BYTES).hex()


class SendOutcome(NamedTuple):
    """The outcome of one item: `created`, `replaced`, `unchanged`, `filtered`, `held`, or `failed`.

    `locus_id` is the service's id of the memory. `held`: a project of that name exists already and is left as
    it is. `reason` says why an item failed, without texts of the record. `passing`: the fault was transient,
    not the record's. `conflict`: the service holds something else there. `waits_for`: the context whose
    refusal kept it from being sent.
    """

    status: str
    locus_id: str | None = None
    reason: str = ""
    passing: bool = False
    conflict: bool = False
    waits_for: str | None = None


def waiting(parent: str) -> SendOutcome:
    """The outcome of an item that is not sent because its parent was refused."""
    return SendOutcome("failed", reason=WAITS, passing=True, waits_for=parent)


def key_of(context_id: str) -> str:
    """A context in the ledger: a digest, because names of sessions are texts of people."""
    return blake3(context_id.encode("utf-8", "surrogatepass")).digest(_STATE_BYTES).hex()


def item(
    group: str,
    position: int | None,
    record: Mapping[str, Any],
    *,
    api: str,
    replace: bool,
    payload_bytes_max: int,
    late: bool = False,
) -> SentRecord:
    """A wire record (docs/locusgraph.md) as an item: documented keys only, unknown ones left out.

    Args: late: an event from before the position, noted as contexts are.
    """
    fields: dict[str, Any] = {"event_kind": record["event_kind"], "context_id": record["context_id"]}
    if record["source"] in SOURCES:
        fields["source"] = record["source"]
    replace = replace and api != "0.x"
    for name in LINK_NAMES:
        # In 1.0 a memory keeps the links of a list that is left out, so a replacing one has all its lists.
        if record[name] or replace:
            fields[name] = record[name]
    if record["timestamp"] is not None and not record["timestamp"].startswith("-"):
        fields["timestamp"] = record["timestamp"]
    if replace:
        fields["replace"] = True
    payload = _payload(record["payload_json"], payload_bytes_max, record["context_id"])
    rest = jsontext.encode_without_floats(fields)
    text = b'{"payload":' + payload + b"," + rest[1:]
    context_id, parents = record["context_id"], tuple(record["extends"])
    is_counted = position is not None and not late
    return SentRecord(group, position, context_id, key_of(context_id), text, parents, is_counted)


def body(graph_id: str, items: Sequence[SentRecord]) -> bytes:
    return b'{"graph_id":%b,"events":[%b]}' % (
        jsontext.encode(graph_id),
        b",".join(sent.text for sent in items),
    )


def outcomes(value: Mapping[str, Any], items: Sequence[SentRecord]) -> list[SendOutcome]:
    """The outcome of each item from the answer of a 2xx, in order. Raises: ProtocolError."""
    data = value.get("data", value)
    if value.get("success") is False or not isinstance(data, dict):
        raise ProtocolError("it answers 200 and reports a failure" + _in_brackets(reason_of(value), items))
    results = data.get("results")
    if not isinstance(results, list):
        raise ProtocolError("its answer has no list of results")
    if len(results) != len(items):
        raise ProtocolError(f"its answer has {len(results):,} results for {len(items):,} records")
    sent_outcomes = [_outcome(result, sent) for result, sent in zip(results, items, strict=True)]
    for name, statuses in (("failed", ("failed", "held")), ("filtered", ("filtered",))):
        stated = data.get(name)
        counted = sum(sent.status in statuses for sent in sent_outcomes)
        if isinstance(stated, int) and stated != counted:
            raise ProtocolError(f"its answer says {name}: {stated:,}, and its results say {counted:,}")
    return sent_outcomes


def refusal(status: int, value: Any, sent: SentRecord) -> SendOutcome:
    """The outcome of the only item of a body that was refused as a whole."""
    message = reason_of(value)
    if status == 409:
        return _conflict(message, sent)
    reason = _without_texts(message, sent)
    return SendOutcome("failed", reason=f"{status}: {reason}" if reason else str(status))


def _outcome(result: Any, sent: SentRecord) -> SendOutcome:
    if not isinstance(result, dict):
        raise ProtocolError("one of its results is no object")
    status = result.get("status")
    if status == "error" or (status is None and result.get("error")):
        message, code = reason_of(result), _code_of(result)
        if code == 409 or (code is None and _CONFLICT.search(message)):
            return _conflict(message, sent)
        reason = _without_texts(message, sent) or ("no reason given" if code is None else "")
        passing = bool(_MOMENT.search(message)) if code is None else is_passing(code)
        number = "" if code is None else f"{code}: " if reason else str(code)
        return SendOutcome("failed", reason=f"{number}{reason}", passing=passing)
    stored = _STORED.get(status) if isinstance(status, str) else None
    if stored is None:
        raise ProtocolError(f"one of its results has the status {plain(str(status))!r}")
    context_id = result.get("context_id")
    if context_id is not None and not _same_context(context_id, sent.context_id):
        raise ProtocolError("one of its results is about another context than the record in its place")
    locus_id = result.get("locus_id", result.get("event_id"))
    if stored == "filtered":
        return SendOutcome(stored)
    if not isinstance(locus_id, str) or not 0 < len(locus_id) <= 128:
        raise ProtocolError(f"one of its results is {stored} and has no id")
    return SendOutcome(stored, locus_id)


def _code_of(result: Mapping[str, Any]) -> int | None:
    """The number of an item's error, wherever the service puts it; None where it gives none."""
    error = result.get("error")
    nested = error if isinstance(error, dict) else {}
    for candidate in (
        result.get("code"),
        result.get("status_code"),
        nested.get("code"),
        nested.get("status"),
        error,
    ):
        if isinstance(candidate, str) and candidate.isascii() and candidate.isdigit() and len(candidate) == 3:
            candidate = int(candidate)
        if isinstance(candidate, int) and not isinstance(candidate, bool) and 400 <= candidate < 600:
            return candidate
    return None


def _same_context(context_id: Any, ours: str) -> bool:
    """Whether two ids are equal in the fewer characters that services use."""
    return context_id == ours or (isinstance(context_id, str) and _plain_id(context_id) == _plain_id(ours))


def _plain_id(text: str) -> str:
    return re.sub(r"[^a-z0-9:]", "_", text.lower())


def _conflict(message: str, sent: SentRecord) -> SendOutcome:
    if sent.group in ("knowledge", "categories"):
        return SendOutcome("held")
    detail = _without_texts(message, sent)
    reason = "the context holds something else" + (f" ({detail})" if detail else "")
    return SendOutcome("failed", reason=reason, conflict=True)


def _without_texts(message: str, sent: SentRecord) -> str:
    """The reason without words of the record: the ledger has no texts of people, and erasure skips it."""
    record = sent.text.decode("utf-8", "replace").lower()
    reduced = _WORD.sub(lambda m: m[0] if m[0] in _FIELDS or m[0].lower() not in record else "…", message)
    return plain(reduced)


def _in_brackets(message: str, items: Sequence[SentRecord]) -> str:
    detail = _without_texts(message, items[0]) if items else ""
    return f" ({detail})" if detail else ""


def _payload(text: str, bytes_max: int, context_id: str) -> bytes:
    """The payload as an object in strict JSON, within its limit."""
    payload = text.strip()
    if ("N" in payload or "Inf" in payload or "\\u" in payload) and _NO_STRICT_JSON.search(payload):
        payload = wire.encode(wire.decode(payload))
    if not payload.startswith("{"):
        payload = f'{{"data":{payload}}}'
    return wire.fit(payload, bytes_max, f"context {context_id}").text.encode("utf-8", "replace")
