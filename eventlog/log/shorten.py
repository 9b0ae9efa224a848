"""Sealing a tail that became long: a process reads the whole tail, and of segments only what it needs.

For any process that has time; of several at once one seals and the others go on.
"""

from typing import Protocol

from eventlog.base.errors import EventLogError
from eventlog.base.layout import StoreFiles
from eventlog.log import manifest as manifests
from eventlog.log.journal_reading import end_of_journal
from eventlog.log.tail import unsealed

# Some 4,000 events: decoding them takes a reader about as long as starting.
TAIL_BYTES_MAX = 2 << 20


class Sealable(Protocol):
    """What this needs of a store."""

    files: StoreFiles

    def seal(self, *, lock_timeout_s: float) -> object: ...
    def reindex(self) -> object: ...


def shorten(store: Sealable) -> bool:
    """Seal and index a tail that is long; whether that was done. Never raises for the store's state."""
    try:
        if not is_long(store):
            return False
        store.seal(lock_timeout_s=0.0)
        store.reindex()
        return True
    except (EventLogError, OSError):
        return False  # another process seals, or this one may not write: the next one tries again


def is_long(store: Sealable) -> bool:
    """Whether the journals that no manifest covers have more than TAIL_BYTES_MAX of frames.

    Raises: Corruption, Unsupported, OSError.
    """
    files = store.files
    numbers = unsealed(files, manifests.read_current(files).next_journal)
    ends = (end_of_journal(files.fs, files.layout.journal(number)) for number in numbers)
    return sum(ends) > TAIL_BYTES_MAX
