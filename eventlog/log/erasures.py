"""Which erasures there were, and what they took out: a fold of the log (P2).

An erasure is told by events of type `erasure`: `start`, one or several, with the ids of events and contents
that go, and of trees with those that take their places; `rewritten`, when no segment holds them any more;
`end`, when no file does. All name the erasure by the id in their payload, and none says what was looked for.
A content that was met again and not stored is told by a `withheld` event of the kind `erased`. Any thread, a
view of its own.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from eventlog.base import jsontext
from eventlog.secrets.erased_rules import ERASED
from eventlog.secrets.redaction import WITHHELD

if TYPE_CHECKING:
    from eventlog.log.reader import LogView

ERASURE = "erasure"
START, REWRITTEN, END = "start", "rewritten", "end"


@dataclass(slots=True)
class Erasure:
    """What the log says of one erasure. Ids of contents are 64 hex digits."""

    id: str
    at: "int | None" = None
    reason: "str | None" = None
    events: "set[str]" = field(default_factory=set)
    paths_kept: bool = False
    contents: "set[str]" = field(default_factory=set)
    trees: "dict[str, str]" = field(default_factory=dict)  # hash → that of the tree in its place
    store: "str | None" = None  # in which it took place
    rules: "list[str]" = field(default_factory=list)  # the checks behind its rules, there (`erased_rules`)
    rewritten: bool = False
    ended: bool = False


def erasures_in(view: "LogView") -> "list[Erasure]":
    """All erasures, in the order in which they began."""
    found: dict[str, Erasure] = {}
    columns = ("operation", "recorded_at", "payload")
    for event in view.iterate(event_types=(ERASURE,), columns=columns):
        said = jsontext.object_of(event["payload"])
        if not isinstance(said.get("erasure"), str):
            continue  # of a version that says more
        one = found.setdefault(said["erasure"], Erasure(said["erasure"]))
        if event["operation"] == START:
            at = event["recorded_at"]
            one.at = at if isinstance(at, int) else None
            one.reason = said.get("reason")
            one.paths_kept = said.get("by") == "path"
            one.events.update(said.get("events", ()))
            one.contents.update(said.get("contents", ()))
            one.trees.update(said.get("trees") or {})
            one.store, one.rules = said.get("store"), said.get("rules") or []
        one.rewritten = one.rewritten or event["operation"] in (REWRITTEN, END)
        one.ended = one.ended or event["operation"] == END
    return list(found.values())


def erased_contents(view: "LogView") -> "dict[bytes, str]":
    """The ids of contents that were erased, or met again and not stored, and what to say of each."""
    found: dict[bytes, str] = {}
    for one in erasures_in(view):
        said = f"it was erased{_on(one.at)}{f' ({one.reason})' if one.reason else ''}"
        found.update((bytes.fromhex(text), said) for text in one.contents)
    for event in view.iterate(event_types=(WITHHELD,), columns=("title", "payload")):
        if ERASED in str(event["payload"]):
            id = bytes.fromhex(str(event["title"]).rpartition(":")[2])
            found.setdefault(id, "it holds what was erased, and was not stored again")
    return found


def erasure_of(view: "Callable[[], LogView]") -> "Callable[[bytes], str | None]":
    """Says why a content is gone if it was erased; reads the log once for each state of it."""
    known: dict[object, dict[bytes, str]] = {}

    def why(id: bytes) -> "str | None":
        with view() as now:
            state = (now.manifest.number, tuple(now.journals), now.size_of_last)
            if state not in known:
                known.clear()
                known[state] = erased_contents(now)
            return known[state].get(id)

    return why


def _on(at: "int | None") -> str:
    if at is None:
        return ""
    from datetime import UTC, datetime

    return f" on {datetime.fromtimestamp(at / 1e6, UTC):%Y-%m-%d}"
