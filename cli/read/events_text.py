"""One line of words for any event: what `locus log --events` and `locus timeline` print."""

from eventlog.base.display import event_words as what
from eventlog.base.display import short_hash as short_hash

__all__ = ["short_hash", "what"]
