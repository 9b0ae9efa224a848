"""Who worked in a session and on which host, as far as a policy lets it out (docs/people.md).

The columns `actor` and `host` of published events: what the columns `person` and `host` of SQL are, by the
log up to the end of a range. One thread, one view.
"""

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import pyarrow.compute as pc

from eventlog.base import jsontext
from eventlog.log.segment import ANCHOR_PAYLOAD
from eventlog.log.segment_file import SegmentFile
from eventlog.query.people import NO, Digest, People

if TYPE_CHECKING:
    import pyarrow as pa

    from eventlog.log.reader import LogView

_SESSION, _INTENT, _HISTORY = "session", "intent", "git"
_COLUMNS = ("position", "event_type", "session_id", ANCHOR_PAYLOAD)
_Turn = tuple[str, int | None]


class Actors:
    """The people and hosts of the events of a range."""

    def __init__(self, view: "LogView", people: People, base: int, end: int) -> None:
        self._people: dict[str, str] = {}
        self._hosts: dict[str, str] = {}
        self._authors: dict[_Turn, str] = {}
        if people.mode == NO:
            return
        for session_id, payload in _sessions_in(view, end):
            _note(self._people, session_id, _name_of(payload.get("person")), people.digest)
            _note(self._hosts, session_id, _text(payload.get("host")), people.digest)
        self._note_authors(view, people, base, end)

    def of(self, batch: "pa.RecordBatch") -> "tuple[list[str | None], list[str | None]]":
        """The person and the host of each event of a batch with `session_id` and `turn`."""
        sessions, turns = batch.column("session_id").to_pylist(), batch.column("turn").to_pylist()
        hosts = [self._hosts.get(session) for session in sessions]
        if not self._authors:
            return [self._people.get(session) for session in sessions], hosts
        people = self._people
        pairs = zip(sessions, turns, strict=True)
        return [self._authors.get(pair) or people.get(pair[0]) for pair in pairs], hosts

    def _note_authors(self, view: "LogView", people: People, base: int, end: int) -> None:
        """The authors of the commits that are turns of the range; of some the intent is before it."""
        turns: set[_Turn] = set()
        for batch in view.batches(base, end, columns=("agent", "session_id", "turn")):
            commits = batch.filter(pc.equal(batch.column("agent"), _HISTORY)).drop_null()
            turns |= set(zip(*(column.to_pylist() for column in commits.columns[1:]), strict=True))
        if not turns:
            return
        for since, until in ((base, end), (0, base)):
            for turn, payload in _intents_in(view, since, until):
                if turn in turns:
                    _note(self._authors, turn, _name_of(payload.get("author")), people.digest)
            turns -= self._authors.keys()
            if not turns:
                return


def _sessions_in(view: "LogView", end: int) -> "Iterator[tuple[str, Mapping[str, Any]]]":
    """The payloads of the `session` events before `end` that may name somebody, in their order."""
    for entry in view.manifest.segments:
        if not entry.rows or entry.base >= end:
            continue
        with SegmentFile(view.files, entry) as file:
            for group in range(file.row_groups):
                events = file.read(_COLUMNS, group)
                is_meant = pc.and_(pc.equal(events["event_type"], _SESSION), pc.less(events["position"], end))
                rows = events.filter(is_meant)
                sessions, payloads = rows["session_id"].to_pylist(), rows[ANCHOR_PAYLOAD].to_pylist()
                for session_id, text in zip(sessions, payloads, strict=True):
                    yield from _naming(session_id, text)
    since = view.manifest.next_position
    if since < end:
        for event in view.iterate(since, end, event_types=(_SESSION,), columns=("session_id", "payload")):
            yield from _naming(event["session_id"], event["payload"])


def _naming(session_id: Any, text: Any) -> "Iterator[tuple[str, Mapping[str, Any]]]":
    if session_id is not None and text and ('"person"' in text or '"host"' in text):
        yield session_id, jsontext.object_if_any(text)


def _intents_in(view: "LogView", since: int, until: int) -> "Iterator[tuple[_Turn, Mapping[str, Any]]]":
    columns = ("session_id", "turn", "agent", "payload")
    for event in view.iterate(since, until, event_types=(_INTENT,), columns=columns):
        session_id, turn = event["session_id"], event["turn"]
        if event["agent"] == _HISTORY and isinstance(session_id, str) and isinstance(turn, int):
            yield (session_id, turn), jsontext.object_if_any(event["payload"])


def _note(known: "dict[Any, str]", key: object, name: "str | None", digest: "Digest | None") -> None:
    if name is not None:
        known[key] = name if digest is None else digest(name)


def _name_of(who: object) -> "str | None":
    """`Name <address>`, or the part that is known."""
    if not isinstance(who, dict):
        return None
    name, email = _text(who.get("name")), _text(who.get("email"))
    return " ".join(part for part in (name, f"<{email}>" if email else None) if part).strip() or None


def _text(value: object) -> "str | None":
    return value if isinstance(value, str) and value else None
