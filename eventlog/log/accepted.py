"""Findings of `verify` that somebody has accepted: a fold of the log (P2, P7).

A repair notes them in `maintenance` events of operation `repair`, whose payload lists under `accepted` the
key of each with its words. The key is a digest of path, words and byte, so a finding that says anything new
is told anew. Of a segment or journal the file does not count, since merging and sealing rename it: the words
name positions. Bytes in quarantine are told no more once they are accepted, everything else as known.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from blake3 import blake3

from eventlog.base import jsontext
from eventlog.base.errors import EventLogError
from eventlog.base.layout import JOURNAL_DIR, QUARANTINE_DIR, SEGMENT_DIR
from eventlog.base.names import event_id_of
from eventlog.log.known_losses import REPAIR
from eventlog.log.maintenance import MAINTENANCE, maintenance_event
from eventlog.log.verify import Finding

if TYPE_CHECKING:
    from eventlog.base.types import Event
    from eventlog.log.reader import LogView

_LISTED_MAX = 5_000
_WORDS_MAX = 500  # of a finding; the key stands for all of them


def accept_events(root: str, findings: "Iterable[Finding]") -> "Iterator[Event]":
    """The events that note these findings of the store at `root`."""
    listed = [
        {"key": _key(root, one), "path": _relative(root, one.path), "what": one.what[:_WORDS_MAX]}
        for one in findings
    ]
    for at in range(0, len(listed), _LISTED_MAX):
        some = listed[at : at + _LISTED_MAX]
        event = maintenance_event(REPAIR, {"accepted": some})
        yield {**event, "event_id": event_id_of("locus", MAINTENANCE, REPAIR, *(one["key"] for one in some))}


def after_acceptance(
    root: str, findings: "list[Finding]", open_view: "Callable[[], LogView]"
) -> "list[Finding]":
    """What is still to be told, and how. A log that cannot be read accepts nothing."""
    if not findings:
        return findings
    try:
        with open_view() as view:
            accepted = _accepted(view)
    except EventLogError:
        return findings
    told = []
    for one in findings:
        if _key(root, one) not in accepted:
            told.append(one)
        elif not is_quarantined(root, one):
            told.append(replace(one, what=f"{one.what} Accepted, as a repair has noted.", damage=False))
    return told


def is_quarantined(root: str, finding: Finding) -> bool:
    """Whether it is about bytes that were set aside."""
    return finding.path.startswith(f"{root}/{QUARANTINE_DIR}/")


def _accepted(view: "LogView") -> "set[str]":
    keys: "set[str]" = set()
    for event in view.iterate(event_types=(MAINTENANCE,), columns=("operation", "payload")):
        if event["operation"] != REPAIR:
            continue
        listed = jsontext.object_of(event["payload"]).get("accepted")
        for one in listed if isinstance(listed, list) else ():
            if isinstance(one, dict) and isinstance(one.get("key"), str):
                keys.add(one["key"])
    return keys


def _key(root: str, finding: Finding) -> str:
    path = _relative(root, finding.path)
    offset = finding.offset
    if path.startswith((SEGMENT_DIR, JOURNAL_DIR)):
        path, offset = "log", None
    text = jsontext.encode([path, offset, finding.what.replace(root, "")])
    return blake3(text).digest(16).hex()


def _relative(root: str, path: str) -> str:
    return path.removeprefix(f"{root}/")
