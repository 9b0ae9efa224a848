"""What earlier versions of Locus accepted and an append refuses by now; such logs are read as before."""

from collections.abc import Iterable
from typing import Any

from eventlog.base import jsontext
from eventlog.log.line import encode_line
from eventlog.secrets import admission
from eventlog.store import Store


def append_as_before(store: Store, events: "Iterable[dict[str, Any]]") -> int:
    """Append the events as version 0.1 did, whatever they say; the position of the first."""
    encode = jsontext.encode_fast
    lines = admission.lines(store.fs, events, lambda one: encode_line(one, encode), store.redactor)
    return store.journal.append(lines)
