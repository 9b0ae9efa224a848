"""What is released and pinned, by the index: for commands that only show it, and so import no recorder."""

from typing import TYPE_CHECKING

from eventlog.log.retained import RETENTION, Retention, retention_of

if TYPE_CHECKING:
    from eventlog.store import Store


def indexed_retention(store: "Store") -> Retention:
    """What is released and pinned; without collections."""
    names = ("position", "event_type", "operation", "recorded_at", "payload")
    rows = store.query(
        "select position, event_type, operation, epoch_us(recorded_at), payload from events "
        "where event_type = $1 order by position",
        [RETENTION],
    ).rows
    return retention_of(dict(zip(names, row, strict=True)) for row in rows)
