"""Import of lines of JSON that `jsonl` wrote, into a store that is empty or not.

Before anything is written the whole file is read once and compared with its last line: a file that was cut
off or changed is refused, and nothing of it is imported. `salvage` is for when there is no better copy: it
takes every line that is valid by itself, and lists the others.

Events keep their ids, so repeating an import changes nothing, and an import that was killed is finished by
repeating it: events that the store has are skipped, and positions are the same as without the interruption.
Memory holds one batch, one content, and, where the store had other events before, the ids of its tail.
Contents are durable before the events that name them (I24). One thread.
"""

import base64
import json
import os
import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import IO, TYPE_CHECKING, Any

import orjson
from blake3 import blake3

from eventlog.base import jsontext
from eventlog.base.errors import Corruption, InvalidEvent, NotFound, Unsupported
from eventlog.base.garbage import rare_collections
from eventlog.base.types import Event
from eventlog.blobs.ids import blob_id, from_text, tree_id
from eventlog.blobs.tree import has_modes
from eventlog.exports.jsonl import FORMAT, LINE_BYTES_MAX, PAYLOAD_MARK, VERSION
from eventlog.log.frame import PAYLOAD_SIZE_MAX
from eventlog.log.line import check_payload, encode_line
from eventlog.projections.prefix import SegmentsPrefix
from eventlog.recorder.ledger import CURSOR
from eventlog.secrets import admission, bulk_prefilter
from eventlog.secrets.redaction import texts_of

if TYPE_CHECKING:
    from eventlog.blobs.writer import BlobWriter
    from eventlog.store import Store

# A frame of a quarter of the largest allowed keeps the append lock short, and memory low.
_BATCH_BYTES = 4 << 20
_BATCH_LINES = 16_384
_PACK_BYTES = 64 << 20

_CHUNK_BYTES = 1 << 20
_LAST_LINE_MAX = 4096

# Control bytes between the tokens of JSON text count as spaces; inside texts there are none.
_AS_SPACES = bytes.maketrans(b"\t\r\n", b"   ")

_NO_PAYLOAD = b"{}"
_NOTHING = "Nothing of it was imported; get another copy, or import the valid lines with --salvage"
_STOPPED = "The lines before it are imported; repeating the import is safe"


# Event id, event without its payload, and the bytes of that.
_Unseen = tuple[str, Event, bytes]
_DIGITS_MAX = 4_000  # Python makes no integers of more than 4,300


class DamagedFile(Corruption):
    """A file that differs from what an export wrote; the message names the line."""

    def __init__(self, path: str, line: int | None, what: str, advice: str) -> None:
        location = path if line is None else f"{path}, line {line}"
        Exception.__init__(self, f"{location}: {what}. {advice}")
        self.path = path
        self.offset = None
        self.what = what
        self.line = line


@dataclass(slots=True)
class JsonlImportReport:
    """The result of an import.

    `known` events and `known_contents` were in the store before; `contents` are new. `ledger_left_out` are
    cursors of consumers that would be wrong here, because positions differ. `skipped` are invalid lines, with
    the reason.
    """

    repo_hash: str
    project_name: str
    foreign: bool
    contents_included: bool
    events: int = 0
    known: int = 0
    contents: int = 0
    known_contents: int = 0
    ledger_left_out: int = 0
    skipped: list[tuple[int, str]] = field(default_factory=list)


def load(store: "Store", path: str, *, salvage: bool = False) -> JsonlImportReport:
    """Import the file `path`.

    Raises: NotFound, Unsupported (a newer format), DamagedFile, InvalidEvent (an event that no log may
    hold), and as `Store.append`.
    """
    try:
        file = open(path, "rb")  # noqa: SIM115 -- closed below, after a refusal of its own
    except OSError as error:
        raise NotFound(f"{path} cannot be read: {error.strerror}") from error
    with file:
        return read(store, file, path, salvage=salvage)


def read(store: "Store", file: IO[bytes], path: str, *, salvage: bool = False) -> JsonlImportReport:
    """The same from an open file; `path` names it in errors. A file that cannot be read twice is copied
    first."""
    if not file.seekable():
        with tempfile.TemporaryFile() as copy:
            shutil.copyfileobj(file, copy, _CHUNK_BYTES)
            return read(store, copy, path, salvage=salvage)
    header, skipped = _header(file, path, salvage)
    if not salvage:
        _check_whole(file, path, header.get("count"))
    foreign = header.get("repo_hash") != store.repo_hash
    report = JsonlImportReport(
        str(header.get("repo_hash")), str(header.get("project_name")), foreign, bool(header.get("contents"))
    )
    report.skipped += skipped
    file.seek(0)
    with (
        rare_collections(),
        bulk_prefilter.attached_to(store.redactor),
        _Import(store, path, report, salvage) as importer,
    ):
        for number, line in _lines(file, path):
            if number == 1:
                continue
            try:
                importer.take(number, line)
            except (DamagedFile, InvalidEvent) as error:
                if not salvage:
                    importer.commit()  # the lines before it
                    raise
                report.skipped.append((number, error.what if isinstance(error, DamagedFile) else str(error)))
        importer.commit()
    return report


class _Import:
    """Takes lines, and writes them in batches."""

    def __init__(self, store: "Store", path: str, report: JsonlImportReport, salvage: bool) -> None:
        self._store = store
        self._path = path
        self._salvage = salvage
        self._report = report
        self._stored = _StoredEvents(store)
        self._batch: dict[str, bytes] = {}  # event id → journal line
        self._bytes = 0
        self._unseen: list[_Unseen] = []  # those of the batch that were not scanned for secrets yet
        self._tells_position = False  # whether the batch has a cursor that is true at its position only
        self._writer: BlobWriter | None = None
        self._parts = _Parts()

    def __enter__(self) -> "_Import":
        return self

    def __exit__(self, *exc: object) -> None:
        self._close_writer()
        self._stored.close()

    def take(self, number: int, line: bytes) -> None:
        """Take a line after the header. Raises: DamagedFile, InvalidEvent, and as `commit`."""
        head, mark, rest = line.partition(PAYLOAD_MARK)
        if mark:
            self._take_event(number, head, rest)
            return
        fields = self._object(number, line, "it is no line that an export writes")
        if fields.get("end") is True:
            return
        kind = "blob" if "blob" in fields else "tree"
        if kind not in fields:
            raise self._damaged(number, "it is neither an event nor a content")
        self._take_content(number, kind, fields)

    def _take_event(self, number: int, head: bytes, rest: bytes) -> None:
        event = self._object(number, head + b"}", "its columns are not JSON")
        if rest[-3:] != b"}}\n":
            raise self._damaged(number, "it ends in the middle")
        payload = rest[:-2]
        payload_value = self._check_payload(number, payload)
        event_id = event.get("event_id")
        if not isinstance(event_id, str):
            raise self._damaged(number, "the event has no event_id")
        position = event.pop("position", None)
        if self._stored.passes(event_id, position) or event_id in self._batch:
            self._report.known += 1
            return
        line = self._line(number, event_id, event, payload, payload_value)
        in_place = self._stored.comes_to(position)
        if event["event_type"] == CURSOR:
            if not in_place:
                self._unseen.pop()
                self._report.ledger_left_out += 1
                return
            self._tells_position = True
        self._batch[event_id] = line
        self._bytes += len(line)
        if self._bytes >= _BATCH_BYTES or len(self._batch) >= _BATCH_LINES:
            self.commit()

    def _line(
        self, number: int, event_id: str, event: Event, payload: bytes, payload_value: "dict[str, Any]"
    ) -> bytes:
        """The journal line with the payload's own bytes, to be scanned before it is written.

        Of an event that an append refuses, `salvage` keeps everything in the payload (`admission.fitted`).
        """
        try:
            completed = admission.with_defaults(self._store.fs, event)
            try:
                check_payload(completed["event_type"], payload_value)
                line = self._encoded(completed, payload)
            except InvalidEvent as error:
                fitted = admission.fitted({**completed, "payload": payload_value})
                if not self._salvage or fitted["payload"] is payload_value:
                    raise
                self._report.skipped.append((number, f"{error}; what was there is in its payload"))
                payload = jsontext.encode(fitted.pop("payload"))
                completed = fitted
                line = self._encoded(completed, payload)
        except (InvalidEvent, ValueError, TypeError, RecursionError) as error:
            raise InvalidEvent(f"{self._path}, line {number}: {error}. {_STOPPED}") from error
        self._unseen.append((event_id, completed, payload))
        return line

    def _encoded(self, event: Event, payload: bytes) -> bytes:
        names: dict[str, set[str]] = {}
        line = encode_line(event, _no_payload, jsontext.encode_without_floats, names)
        if names:
            admission.keep_ours(names)
        line = line[: -len(_NO_PAYLOAD)] + payload.translate(_AS_SPACES)
        if len(line) >= PAYLOAD_SIZE_MAX:
            raise InvalidEvent(f"an event of {len(line):,} bytes is more than a log takes")
        return line

    def _redact_unseen(self) -> None:
        """Redact the lines that were not scanned yet."""
        unseen, redactor = self._unseen, self._store.redactor
        if redactor.enabled:
            lines = [self._batch[event_id] for event_id, _, _ in unseen]
            suspects = set(redactor.suspects(lines, lambda i: texts_of(*unseen[i][1:])))
            for i, (event_id, event, payload) in enumerate(unseen):
                # The scan of the payload's bytes misses texts that are escaped in another way than ours.
                if i in suspects or (b"\\" in payload and (b"\\u" in payload or b"\\/" in payload)):
                    self._redact(event_id, event, payload)
        unseen.clear()  # only now: lines that were not scanned to the end are never written

    def _redact(self, event_id: str, event: Event, payload: bytes) -> None:
        event["payload"] = _checked(payload)
        redacted = self._store.redactor.redact(event)
        exact, twice = _exactly(payload)
        if redacted is not event or twice:  # the last one of a repeated key counts
            redacted = self._store.redactor.redact(event if exact is None else {**event, "payload": exact})
            payload = jsontext.encode_fast(redacted["payload"])
        self._batch[event_id] = self._encoded({**redacted, "payload": None}, payload)

    def _take_content(self, number: int, kind: str, fields: "dict[str, Any]") -> None:
        try:
            id = from_text(fields[kind])
            data = self._parts.add(id, fields["size"], fields["at"], fields["base64"])
        except (InvalidEvent, KeyError, TypeError, ValueError) as error:
            raise self._damaged(number, f"this part of a content cannot be used ({error})") from error
        if data is None:
            return
        if (blob_id if kind == "blob" else tree_id)(data) != id:
            raise self._damaged(number, f"the bytes of this {kind} do not match its hash {fields[kind]}")
        if self._writer is None:
            self._writer = self._store.blobs.writer()
        is_new = not self._writer.holds(id)
        if kind == "blob":
            self._writer.put(data)
        else:
            if not self._store.blobs.modes and has_modes(data):
                raise Unsupported(
                    "a tree in it keeps permissions of files, which this store cannot: an earlier version of "
                    "Locus made it, and must be able to read it. Import into a new store (`locus init`)."
                )
            self._writer.put_encoded_tree(data)
        self._report.contents += is_new
        self._report.known_contents += not is_new
        if self._writer.pending_bytes() >= _PACK_BYTES:
            self._writer.flush(more=True)

    def commit(self) -> None:
        """Make the lines taken so far durable: contents first, then the events. Raises: as `Store.append`."""
        self._redact_unseen()
        if self._writer is not None:
            self._writer.flush()
        stored_ids = self._stored.among(list(self._batch))
        lines = [line for event_id, line in self._batch.items() if event_id not in stored_ids]
        if lines:
            # A cursor must not get another position because somebody else appended.
            expected = self._stored.next_position - len(lines) if self._tells_position else None
            withheld_lines = self._withheld_lines()
            self._store.journal.append([*lines, *withheld_lines], expect_position=expected)
            self._store.blobs.forget_withheld()
            self._stored.next_position += len(withheld_lines)
        self._report.known += len(stored_ids)
        self._report.events += len(lines)
        self._batch, self._bytes, self._tells_position = {}, 0, False
        self._close_writer()

    def _withheld_lines(self) -> "list[bytes]":
        """Events about contents of the file that hold a secret by the rules of this store."""
        events = [e for e in self._store.blobs.withheld_events() if e["event_id"] not in self._batch]
        stored_ids = self._stored.among([str(event["event_id"]) for event in events])
        admitted = admission.admit_all(self._store.fs, [e for e in events if e["event_id"] not in stored_ids])
        return [encode_line(event) for event in admitted]

    def _close_writer(self) -> None:
        if self._writer is not None:
            writer, self._writer = self._writer, None
            writer.close()

    def _object(self, number: int, text: bytes, what: str) -> "dict[str, Any]":
        try:
            value = orjson.loads(text)
        except ValueError as error:
            raise self._damaged(number, f"{what} ({error})") from error
        if not isinstance(value, dict):
            raise self._damaged(number, what)
        return value

    def _check_payload(self, number: int, text: bytes) -> "dict[str, Any]":
        try:
            value = _checked(text)
        except ValueError as error:
            raise self._damaged(number, f"its payload is not a JSON object ({error})") from error
        if not isinstance(value, dict):
            raise self._damaged(number, "its payload is not a JSON object")
        return value

    def _damaged(self, number: int, what: str) -> DamagedFile:
        return DamagedFile(self._path, number, what, _STOPPED)


class _StoredEvents:
    """Which events the store has already.

    While its events are those of the file, in the same order, both are read in parallel. That covers the
    empty store and the import that was killed. From the first difference on, ids are looked up batch by
    batch. Events that others append meanwhile are not noticed; readers drop duplicates.
    """

    def __init__(self, store: "Store") -> None:
        self._view = store.view()
        self._own = self._view.iterate(columns=("position", "event_id"))
        self._ahead = next(self._own, None)
        self._side_by_side = True
        self._same_positions = True
        self._prefix = SegmentsPrefix(store.fs, store.layout, self._view.manifest)
        self._tail: set[str] = set()
        self.next_position = self._view.next_position

    def close(self) -> None:
        self._view.close()

    def passes(self, event_id: str, position: object) -> bool:
        """Whether the store's next event is this one; then it is skipped."""
        if not self._side_by_side or self._ahead is None:
            return False
        if self._ahead["event_id"] == event_id:
            self._same_positions &= self._ahead["position"] == position
            self._ahead = next(self._own, None)
            return True
        self._side_by_side = self._same_positions = False
        sealed = self._view.manifest.next_position
        self._tail = {str(event["event_id"]) for event in self._view.iterate(sealed, columns=("event_id",))}
        return False

    def comes_to(self, position: object) -> bool:
        """Note a new event; whether it, and all before it, have the positions that they had."""
        self._same_positions &= position == self.next_position
        self.next_position += 1
        return self._same_positions

    def among(self, event_ids: "list[str]") -> "set[str]":
        """Those of `event_ids` that the store has."""
        if self._side_by_side:
            return set()
        return self._prefix.seen(event_ids) | self._tail.intersection(event_ids)


class _Parts:
    """Joins the parts of one content."""

    def __init__(self) -> None:
        self._id = b""
        self._parts: list[bytes] = []
        self._size = 0

    def add(self, id: bytes, size: int, offset: int, text: str) -> bytes | None:
        """The content when this was its last part. Raises: ValueError when the part does not continue it."""
        part = base64.b64decode(text, validate=True)
        if offset == 0:
            self._id, self._parts, self._size = id, [], 0
        if id != self._id or offset != self._size:
            raise ValueError("the part before it is missing")
        self._parts.append(part)
        self._size += len(part)
        if self._size < size:
            return None
        if self._size > size:
            raise ValueError(f"it has more than the {size} bytes it should have")
        self._id = b""
        return b"".join(self._parts)


def _checked(text: bytes) -> Any:
    """The value of JSON text, exact in its texts but not in its numbers. Raises: ValueError.

    Numbers of any length and lone surrogates written as escapes are JSON; bytes that are not UTF-8 are not.
    """
    try:
        return orjson.loads(text)
    except ValueError:
        try:
            return json.loads(text.decode("utf-8"), parse_int=len, parse_float=len, parse_constant=_not_json)
        except RecursionError:
            raise ValueError("nested too deeply") from None


def _not_json(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")


def _exactly(text: bytes) -> "tuple[Any, bool]":
    """JSON with all digits of its numbers, and whether an object in it repeats a key.

    None where it is nested too deeply. A number with more digits than Python takes becomes a text.
    """
    twice = False

    def object_of(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        nonlocal twice
        value = dict(pairs)
        twice = twice or len(value) < len(pairs)
        return value

    try:
        return json.loads(text, object_pairs_hook=object_of, parse_int=_integer), twice
    except RecursionError:
        return None, False


def _integer(digits: str) -> int | str:
    return int(digits) if len(digits) <= _DIGITS_MAX else digits


def _no_payload(_: object) -> bytes:
    return _NO_PAYLOAD


def _header(file: IO[bytes], path: str, salvage: bool) -> "tuple[dict[str, Any], list[tuple[int, str]]]":
    """The first line, and with `salvage` its problem. Raises: DamagedFile, Unsupported."""
    file.seek(0)
    line = file.readline(_LAST_LINE_MAX)
    what = "it does not begin like a file of `locus export jsonl`"
    try:
        header = orjson.loads(line)
    except ValueError:
        header = None
    if (
        not isinstance(header, dict)
        or header.get("format") != FORMAT
        or not isinstance(header.get("version"), int)
    ):
        if salvage:
            return {}, [(1, what)]
        raise DamagedFile(path, 1, what, _NOTHING)
    if header["version"] > VERSION:
        raise Unsupported(
            f"{path} has format version {header['version']}; this version of Locus reads {VERSION}. "
            "Upgrade Locus to import it."
        )
    return header, []


def _check_whole(file: IO[bytes], path: str, count: object) -> None:
    """Compare the file with its last line. Args: count: of events, from the header.

    Raises: DamagedFile.
    """
    size = file.seek(0, os.SEEK_END)
    file.seek(max(0, size - _LAST_LINE_MAX))
    window = file.read()
    last = window[window.rfind(b"\n", 0, len(window) - 1) + 1 :]
    try:
        end = orjson.loads(last)
    except ValueError:
        end = None
    if not isinstance(end, dict) or end.get("end") is not True or not last.endswith(b"\n"):
        count = sum(1 for _ in _lines(file, path, from_start=True))
        raise DamagedFile(path, count, "the file ends here without its last line: it was cut off", _NOTHING)
    digest, lines = blake3(), 0
    unread_size = size - len(last)
    file.seek(0)
    while unread_size and (chunk := file.read(min(unread_size, _CHUNK_BYTES))):
        digest.update(chunk)
        lines += chunk.count(b"\n")
        unread_size -= len(chunk)
    if digest.hexdigest() != end.get("blake3"):
        raise _first_unsound(file, path)
    counted = end.get("events") if count is None else count  # files of the first versions
    if end.keys() != {"end", "events", "lines", "blake3"} or (end["events"], end["lines"]) != (
        counted,
        lines,
    ):
        raise DamagedFile(path, None, "its last line does not count the lines before it", _NOTHING)


def _first_unsound(file: IO[bytes], path: str) -> DamagedFile:
    """The error for the first line that is invalid by itself, else for the file as a whole."""
    count = 0
    for count, line in _lines(file, path, from_start=True):
        try:
            if not isinstance(_checked(line), dict):
                return DamagedFile(path, count, "it is not a JSON object", _NOTHING)
        except ValueError as error:
            return DamagedFile(path, count, f"it is not JSON ({error})", _NOTHING)
    what = f"its {count:,} lines do not match the digest in the last one: some of them were changed or lost"
    return DamagedFile(path, None, what, _NOTHING)


def _lines(file: IO[bytes], path: str, *, from_start: bool = False) -> Iterator[tuple[int, bytes]]:
    """Lines with their numbers, from 1. Raises: DamagedFile for a line that no export writes."""
    if from_start:
        file.seek(0)
    number = 0
    while line := file.readline(LINE_BYTES_MAX + 1):
        number += 1
        if len(line) > LINE_BYTES_MAX:
            raise DamagedFile(path, number, "it is longer than any line of an export", _NOTHING)
        yield number, line
