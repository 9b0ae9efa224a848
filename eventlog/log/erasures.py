"""Which erasures there were, and what they took out: a fold of the log (P2).

Events of type `erasure` record it: `start`, one or several, with the ids of events and contents that go, and
of trees with their replacements; `rewritten`, when no segment holds them any more; `end`, when no file does.
All name the erasure by the id in their payload, and none contains what was searched for. A content that was
met again and not stored has a `withheld` event of the kind `erased`. Any thread, a view of its own.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from eventlog.base import jsontext
from eventlog.secrets.erased_rules import ERASED
from eventlog.secrets.redaction import WITHHELD

if TYPE_CHECKING:
    from eventlog.base.event import Rows
    from eventlog.log.reader import LogView

ERASURE = "erasure"
START, REWRITTEN, END = "start", "rewritten", "end"
COLUMNS = ("operation", "recorded_at", "payload")


@dataclass(slots=True)
class Erasure:
    """One erasure as the log records it. Ids of contents are 64 hex digits."""

    id: str
    at: "int | None" = None
    reason: "str | None" = None
    events: "set[str]" = field(default_factory=set)
    paths_kept: bool = False
    contents: "set[str]" = field(default_factory=set)
    trees: "dict[str, str]" = field(default_factory=dict)  # hash → that of the tree in its place
    store: "str | None" = None  # in which it took place
    rules: "list[str]" = field(default_factory=list)  # the checks after its rules, there (`erased_rules`)
    rewritten: bool = False
    ended: bool = False

    @property
    def words(self) -> str:
        return f"it was erased{_on(self.at)}{f' ({self.reason})' if self.reason else ''}"


def erasure_of_texts(event: "Mapping[str, Any]") -> "str | None":
    """The id of the erasure that took all texts of an event, and its path; None where none did."""
    erasure = (event["payload"] or {}).get(ERASED)
    return erasure if isinstance(erasure, str) and event.get("path") is None else None


class TextErasures:
    """Why events have lost their texts and paths. Args: rows: reads the log, at the first such event."""

    def __init__(self, rows: "Rows") -> None:
        self._rows = rows
        self._reasons: dict[str, str] | None = None

    def why(self, event: "Mapping[str, Any]") -> "str | None":
        """None where the event has its texts, or its path."""
        erasure = erasure_of_texts(event)
        if erasure is None:
            return None
        if self._reasons is None:
            erasures = _folded(self._rows(event_types=(ERASURE,), columns=COLUMNS))
            self._reasons = {each.id: each.words for each in erasures}
        return self._reasons.get(erasure, "it was erased")


def erasures_in(view: "LogView") -> "list[Erasure]":
    """All erasures, in the order in which they began."""
    return _folded(view.iterate(event_types=(ERASURE,), columns=COLUMNS))


def _folded(events: "Iterable[Mapping[str, Any]]") -> "list[Erasure]":
    erasures: dict[str, Erasure] = {}
    for event in events:
        payload = jsontext.object_of(event["payload"])
        if not isinstance(payload.get("erasure"), str):
            continue  # of a newer version
        erasure = erasures.setdefault(payload["erasure"], Erasure(payload["erasure"]))
        if event["operation"] == START:
            recorded_at = event["recorded_at"]
            erasure.at = recorded_at if isinstance(recorded_at, int) else None
            erasure.reason = payload.get("reason")
            erasure.paths_kept = payload.get("by") == "path"
            erasure.events.update(payload.get("events", ()))
            erasure.contents.update(payload.get("contents", ()))
            erasure.trees.update(payload.get("trees") or {})
            erasure.store, erasure.rules = payload.get("store"), payload.get("rules") or []
        erasure.rewritten = erasure.rewritten or event["operation"] in (REWRITTEN, END)
        erasure.ended = erasure.ended or event["operation"] == END
    return list(erasures.values())


def erased_contents(view: "LogView") -> "dict[bytes, str]":
    """The ids of contents that were erased, or met again and not stored, each with the reason to give."""
    reasons: dict[bytes, str] = {}
    for erasure in erasures_in(view):
        reasons.update((bytes.fromhex(text), erasure.words) for text in erasure.contents)
    for event in view.iterate(event_types=(WITHHELD,), columns=("title", "payload")):
        if ERASED in str(event["payload"]):
            id = bytes.fromhex(str(event["title"]).rpartition(":")[2])
            reasons.setdefault(id, "it holds what was erased, and was not stored again")
    return reasons


def erasure_of(view: "Callable[[], LogView]") -> "Callable[[bytes], str | None]":
    """A function that gives the reason why a content was erased; it reads each state of the log once."""
    cached: dict[object, dict[bytes, str]] = {}

    def why(id: bytes) -> "str | None":
        with view() as current:
            state = (current.manifest.number, tuple(current.journals), current.size_of_last)
            if state not in cached:
                cached.clear()
                cached[state] = erased_contents(current)
            return cached[state].get(id)

    return why


def _on(recorded_at: "int | None") -> str:
    if recorded_at is None:
        return ""
    from datetime import UTC, datetime

    return f" on {datetime.fromtimestamp(recorded_at / 1e6, UTC):%Y-%m-%d}"
