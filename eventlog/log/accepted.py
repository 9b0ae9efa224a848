"""Findings of `verify` that somebody has accepted: a fold of the log (P2, P7).

A repair notes them in `maintenance` events of operation `repair`, whose payload lists under `accepted` the
key of each with its words. The key is a digest of path, words and byte, so a finding with new content is
reported again. The file of a segment or journal is not part of it, since merging and sealing rename files:
the words name positions. Accepted bytes in quarantine are no longer reported, everything else as known.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from blake3 import blake3

from eventlog.base import jsontext
from eventlog.base.errors import EventLogError
from eventlog.base.layout import JOURNAL_DIR, QUARANTINE_DIR, SEGMENT_DIR
from eventlog.base.names import event_id_of
from eventlog.log.finding import Finding
from eventlog.log.known_losses import REPAIR
from eventlog.log.maintenance import MAINTENANCE, maintenance_event

if TYPE_CHECKING:
    from eventlog.base.types import Event
    from eventlog.log.reader import LogView

_LISTED_MAX = 5_000
_WORDS_MAX = 500  # of a finding; the key stands for all of them


def accept_events(root: str, findings: "Iterable[Finding]") -> "Iterator[Event]":
    """The events that note these findings of the store at `root`."""
    listed = [
        {"key": _key(root, finding), "path": _relative(root, finding.path), "what": finding.what[:_WORDS_MAX]}
        for finding in findings
    ]
    for start in range(0, len(listed), _LISTED_MAX):
        part = listed[start : start + _LISTED_MAX]
        event = maintenance_event(REPAIR, {"accepted": part})
        yield {
            **event,
            "event_id": event_id_of("locus", MAINTENANCE, REPAIR, *(entry["key"] for entry in part)),
        }


def after_acceptance(
    root: str, findings: "list[Finding]", open_view: "Callable[[], LogView]"
) -> "list[Finding]":
    """The findings that are still to be reported, with their words. An unreadable log accepts nothing."""
    if not findings:
        return findings
    try:
        with open_view() as view:
            accepted = _accepted(view)
    except EventLogError:
        return findings
    remaining = []
    for finding in findings:
        if _key(root, finding) not in accepted:
            remaining.append(finding)
        elif not is_quarantined(root, finding):
            remaining.append(
                replace(finding, what=f"{finding.what} Accepted, as a repair has noted.", damage=False)
            )
    return remaining


def is_quarantined(root: str, finding: Finding) -> bool:
    """Whether it is about bytes that were set aside."""
    return finding.path.startswith(f"{root}/{QUARANTINE_DIR}/")


def _accepted(view: "LogView") -> "set[str]":
    keys: "set[str]" = set()
    for event in view.iterate(event_types=(MAINTENANCE,), columns=("operation", "payload")):
        if event["operation"] != REPAIR:
            continue
        listed = jsontext.object_of(event["payload"]).get("accepted")
        for item in listed if isinstance(listed, list) else ():
            if isinstance(item, dict) and isinstance(item.get("key"), str):
                keys.add(item["key"])
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
