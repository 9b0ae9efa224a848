"""From events to journal lines; what would be wrong for ever is refused (docs/appending.md).

`named` collects by column the hashes of contents that the events name; `blobs/presence.py` looks them up.
"""

from collections.abc import Iterable, Iterator
from functools import partial
from itertools import islice

from eventlog.base import jsontext
from eventlog.base.errors import InvalidEvent
from eventlog.base.fs import FileSystem
from eventlog.base.types import Event
from eventlog.log.line import BATCH_LINES_MAX, encode_line
from eventlog.secrets import admission
from eventlog.secrets.redaction import Redactor

# Events searched for secrets together: the search costs little per byte and much per call. An import that
# gives the redactor its own prefilter has bounded its batches itself, and that one costs most per call.
_AT_ONCE = 64


def lines(
    fs: FileSystem, events: Iterable[Event], redactor: Redactor, named: "dict[str, set[str]]"
) -> Iterator[bytes]:
    """The lines of the events, in order. Raises: InvalidEvent with the number of the event, from 1."""
    waiting = iter(events)
    at_once = _AT_ONCE if redactor.look is None else BATCH_LINES_MAX
    number = 0
    while batch := list(islice(waiting, at_once)):
        new: dict[str, set[str]] = {}
        try:
            encoded = admission.lines(fs, batch, partial(_encode, new), redactor)
            admission.keep_ours(new)
        except InvalidEvent:
            for event_number, event in enumerate(batch, number + 1):
                _try(fs, event, event_number)
            raise
        for column, hashes in new.items():
            named.setdefault(column, set()).update(hashes)
        yield from encoded
        number += len(batch)


def _encode(named: "dict[str, set[str]]", event: Event) -> bytes:
    return encode_line(event, jsontext.encode_fast, jsontext.encode_without_floats, named)


def _try(fs: FileSystem, event: Event, number: int) -> None:
    named: dict[str, set[str]] = {}
    try:
        _encode(named, admission.completed(fs, event))
        admission.keep_ours(named)
    except InvalidEvent as error:
        raise InvalidEvent(f"event {number} of the append: {error}. Nothing was written.") from error
