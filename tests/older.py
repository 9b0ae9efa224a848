"""What earlier versions of Locus accepted and an append refuses by now; such logs are read as before."""

from collections.abc import Iterable
from typing import Any

from eventlog import gate, jsontext
from eventlog.log.line import encode_line
from eventlog.store import Store


def append_as_before(store: Store, events: "Iterable[dict[str, Any]]") -> int:
    """Append the events as version 0.1 did, whatever they say; the position of the first."""
    lines = gate.lines(store.fs, events, lambda one: encode_line(one, jsontext.encode_fast), store.redactor)
    return store.journal.append(lines)
