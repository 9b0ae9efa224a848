"""What repairs noted as known: contents that are lost, and findings that somebody accepted (P2, P7).

A fold of `maintenance` events of operation `repair`. Their payload lists under `lost` ids that no pack holds:
`verify` reports such an id as known as long as it is missing. Under `accepted` it lists the key of each
accepted finding with its words. The key is a digest of path, words and byte, so a finding with new content
is reported again. The file of a segment or journal is not part of it, since merging and sealing rename
files: the words name positions. Accepted bytes in quarantine are no longer reported, all else as known.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from blake3 import blake3

from eventlog.base import jsontext
from eventlog.base.errors import EventLogError
from eventlog.base.layout import JOURNAL_DIR, QUARANTINE_DIR, SEGMENT_DIR
from eventlog.base.names import event_id_of
from eventlog.log.finding import Finding
from eventlog.log.maintenance import MAINTENANCE, maintenance_event

if TYPE_CHECKING:
    from eventlog.base.types import Event
    from eventlog.log.reader import LogView

_REPAIR = "repair"
_LOST, _ACCEPTED = "lost", "accepted"
# An event has room for 16 MiB, an id takes 67 bytes, a finding up to some kB.
_LISTED_MAX = {_LOST: 50_000, _ACCEPTED: 5_000}
_WORDS_MAX = 500  # of a finding; the key stands for all of them


def loss_events(ids: "Iterable[bytes]") -> "Iterator[Event]":
    """The events that note that these contents are lost."""
    return _events(_LOST, {id: id for id in sorted(id.hex() for id in ids)})


def accept_events(root: str, findings: "Iterable[Finding]") -> "Iterator[Event]":
    """The events that note these findings of the store at `root`."""
    notes = [
        {"key": _key(root, finding), "path": _relative(root, finding.path), "what": finding.what[:_WORDS_MAX]}
        for finding in findings
    ]
    return _events(_ACCEPTED, {note["key"]: note for note in notes})


def _events(field: str, notes: "Mapping[str, object]") -> "Iterator[Event]":
    """Args: notes: by their keys. The same keys give the same event, which counts once (I8)."""
    keys, most = list(notes), _LISTED_MAX[field]
    for part in (keys[start : start + most] for start in range(0, len(keys), most)):
        event = maintenance_event(_REPAIR, {field: [notes[key] for key in part]})
        yield {**event, "event_id": event_id_of("locus", MAINTENANCE, _REPAIR, *part)}


def known_losses(view: "LogView") -> set[bytes]:
    """The ids that repairs noted."""
    ids: set[bytes] = set()
    for text in _noted(view, _LOST):
        try:
            ids.add(bytes.fromhex(text))  # type: ignore[arg-type]
        except (TypeError, ValueError):
            continue  # of a newer version
    return ids


def after_acceptance(
    root: str, findings: "list[Finding]", open_view: "Callable[[], LogView]"
) -> "list[Finding]":
    """The findings that are still to be reported, with their words. An unreadable log accepts nothing."""
    if not findings:
        return findings
    try:
        with open_view() as view:
            accepted = [note.get("key") for note in _noted(view, _ACCEPTED) if isinstance(note, dict)]
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


def _noted(view: "LogView", field: str) -> "Iterator[object]":
    for event in view.iterate(event_types=(MAINTENANCE,), columns=("operation", "payload")):
        listed = jsontext.object_of(event["payload"]).get(field) if event["operation"] == _REPAIR else None
        yield from listed if isinstance(listed, list) else ()


def _key(root: str, finding: Finding) -> str:
    path = _relative(root, finding.path)
    offset = finding.offset
    if path.startswith((SEGMENT_DIR, JOURNAL_DIR)):
        path, offset = "log", None
    text = jsontext.encode([path, offset, finding.what.replace(root, "")])
    return blake3(text).digest(16).hex()


def _relative(root: str, path: str) -> str:
    return path.removeprefix(f"{root}/")
