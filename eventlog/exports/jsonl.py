"""The log as lines of JSON: every column of every visible event, and with `contents` the contents they name.

The format is docs/design.md §19.2: a header, one line for each event by position, contents before the first
event that needs them, and a last line with a digest of all the others. Payloads keep their bytes. The same
log gives the same bytes. One thread; the export pins one view, so writers do not affect it.
"""

import base64
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import IO, TYPE_CHECKING, Any

from blake3 import blake3

from eventlog.base import jsontext
from eventlog.base.errors import Corruption, InvalidEvent, NotFound
from eventlog.base.types import Event
from eventlog.blobs.ids import from_text, to_text
from eventlog.blobs.pack import TREE
from eventlog.blobs.tree import decode_tree
from eventlog.exports import files, withheld
from eventlog.projections.settled import Settled
from eventlog.query import people as of_people

if TYPE_CHECKING:
    from eventlog.store import Store

FORMAT = "locus jsonl"
VERSION = 1

# Where an event's payload begins. No envelope has these bytes: in its texts a quote is escaped, and it
# contains no objects.
PAYLOAD_MARK = b',"payload":'

# A content's bytes in one line; a multiple of 3, so that only the last part is padded.
PART_BYTES = 6 << 20

# No line of ours is longer: an event's payload is at most 16 MiB, its envelope as much again.
LINE_BYTES_MAX = 40 << 20

_HASH_COLUMNS = ("before_hash", "after_hash", "tree_hash")


@dataclass(slots=True)
class JsonlReport:
    """What was written, and what is not in it.

    `missing` are contents that events name and the file lacks, with the reasons; `lost` are ranges of
    positions whose events the log itself has lost.
    """

    since: int
    until: int
    events: int = 0
    contents: int = 0
    bytes: int = 0
    missing: list[tuple[str, str]] = field(default_factory=list)
    lost: list[tuple[int, int]] = field(default_factory=list)


def export(
    store: "Store",
    path: str,
    *,
    contents: bool = False,
    since: int = 0,
    force: bool = False,
    people: str | None = None,
) -> JsonlReport:
    """Write the events from position `since` on to the file `path`.

    Args: people: how much about people may leave, as in config.PEOPLE; by default as the settings say.
    Raises: Refused when `path` is taken and `force` is not set, EventLogError when the disk refuses.
    """
    files.check_free(path, force=force)
    with files.staged(path, force=force) as file:
        return write(store, file, contents=contents, since=since, people=people)


def write(
    store: "Store",
    file: IO[bytes],
    *,
    contents: bool = False,
    since: int = 0,
    people: str | None = None,
) -> JsonlReport:
    """The same into an open file."""
    policy = of_people.allowed(store.fs, store.layout, people)
    with store.view() as view:
        report = JsonlReport(since, view.next_position)
        report.lost = [(gap.base, gap.end) for gap in view.damaged if gap.end > since]
        digest = blake3()
        lines = 0

        def put(line: bytes) -> None:
            nonlocal lines
            digest.update(line)
            file.write(line)
            report.bytes += len(line)
            lines += 1

        report.events = sum(batch.num_rows for batch in view.batches(since, columns=("position",)))
        put(_line(header(store, report, contents)))
        source = _Contents(store, report, put, withheld.Exposure(view, store.redactor)) if contents else None
        settled = Settled(view)
        for event in map(settled.event, view.iterate(since)):
            if source is not None:
                source.write_contents(event)
            put(event_line(_with_people(policy, store.redactor.leaving(event))))
        last = _line({"end": True, "events": report.events, "lines": lines, "blake3": digest.hexdigest()})
        file.write(last)
        report.bytes += len(last)
    return report


def header(store: "Store", report: JsonlReport, contents: bool) -> dict[str, Any]:
    return {
        "format": FORMAT,
        "version": VERSION,
        "store_id": store.identity.store_id.hex(),
        "repo_hash": store.repo_hash,
        "project_name": store.project_name,
        "since": report.since,
        "next_position": report.until,
        "count": report.events,
        "lost": report.lost,
        "contents": contents,
    }


def _with_people(policy: of_people.People, event: Event) -> Event:
    """The event with only what may leave about people; unchanged where it names none."""
    if policy.mode == of_people.FULL:
        return event
    for name in ("title", "cwd", "worktree"):
        if isinstance(value := event[name], str):
            event[name] = of_people.text_without(policy, value)
    if event["payload"] is not None:
        event["payload"] = of_people.payload_within(policy, event, str(event["payload"]))
    return event


def event_line(event: Event) -> bytes:
    """One event: its columns in their order, nulls left out, the payload's bytes as they are, last."""
    payload = event["payload"]
    columns = {name: value for name, value in event.items() if value is not None and name != "payload"}
    text = "{}" if payload is None else str(payload)
    return jsontext.encode_without_floats(columns)[:-1] + PAYLOAD_MARK + text.encode("utf-8") + b"}\n"


class _Contents:
    """Puts each content before the first event that needs it, children before their tree."""

    def __init__(
        self,
        store: "Store",
        report: JsonlReport,
        put: Callable[[bytes], None],
        exposure: withheld.Exposure,
    ) -> None:
        self._blobs = store.blobs
        self._exposure = exposure
        self._report = report
        self._put = put
        self._written: set[bytes] = set()

    def write_contents(self, event: Event) -> None:
        named = dict.fromkeys(event["blobs"] or ())  # type: ignore[call-overload]
        named |= dict.fromkeys(event[name] for name in _HASH_COLUMNS if event[name] is not None)
        for text in named:
            try:
                id = from_text(text)
            except InvalidEvent:
                continue  # a hash of another kind names no content of a store
            self._write_with_children(id)

    def _write_with_children(self, id: bytes) -> None:
        """`id` and all below it, without recursion: trees may be nested deeply."""
        waiting: list[tuple[bytes, bytes | None]] = [(id, None)]  # with the tree's bytes on the way back up
        while waiting:
            id, encoding = waiting.pop()
            if encoding is not None:
                self._put_parts("tree", id, encoding)
                continue
            if id in self._written:
                continue
            self._written.add(id)
            text = to_text(id)
            if not self._exposure.may_leave(text):
                self._report.missing.append((text, withheld.WITHHELD))
                continue
            try:
                is_tree = self._is_tree(id)
                data = self._blobs.get(id)
                entries = decode_tree(data, text) if is_tree else ()
            except (NotFound, Corruption) as error:
                self._report.missing.append((text, str(error)))
                continue
            if not is_tree:
                self._put_parts("blob", id, data)
                continue
            if self._exposure.may_be_named(entry.name for entry in entries):
                waiting.append((id, data))
            else:
                self._report.missing.append((text, withheld.NAMED))
            waiting += [(entry.id, None) for entry in reversed(entries) if entry.id not in self._written]

    def _is_tree(self, id: bytes) -> bool:
        location = self._blobs.locations((id,)).get(id)  # without reading the content
        return location[1] == TREE if location is not None else self._blobs.kind_of(id) == "tree"

    def _put_parts(self, kind: str, id: bytes, data: bytes) -> None:
        self._report.contents += 1
        for offset in range(0, len(data) or 1, PART_BYTES):
            part = base64.b64encode(data[offset : offset + PART_BYTES]).decode("ascii")
            self._put(_line({kind: to_text(id), "size": len(data), "at": offset, "base64": part}))


def _line(fields: dict[str, Any]) -> bytes:
    return jsontext.encode_fast(fields) + b"\n"
