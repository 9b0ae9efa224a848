"""Which sessions' contents stay, and which events name what: a fold of the log (P2).

An event of type `retention` releases, holds, pins or unpins a session, or pins or unpins one of its turns; of
each the last one counts. It belongs to no session itself. In a released session, what only the events before
the release name may be collected; what later events name stays. A pinned session, or one with a pinned turn,
is never released.

Reads typed columns of a pinned view, and the payloads of the few events of that type. Any thread, a view of
its own. Memory: the fold, and the hash columns of one batch.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from eventlog.base import jsontext
from eventlog.base.errors import EventLogError
from eventlog.log.maintenance import MAINTENANCE

if TYPE_CHECKING:
    import pyarrow as pa

    from eventlog.log.reader import LogView

RETENTION = "retention"
RELEASE, HOLD, PIN, UNPIN = "release", "hold", "pin", "unpin"
COLLECT = "collect"  # the operation of the event `maintenance` that notes a collection

_HASH_PREFIX = "blake3:"

CONTENT = "content"  # the type of events that record what became of deferred contents

# Where events name contents and trees.
HASH_COLUMNS = ("blobs", "before_hash", "after_hash", "tree_hash")
_NAMING_COLUMNS = ("position", "event_type", "session_id", *HASH_COLUMNS)


@dataclass(frozen=True, slots=True)
class Release:
    """A release that is in force, or was. `at` is when it was recorded, in µs; `rule` is its reason."""

    position: int
    at: int | None
    rule: str


@dataclass(frozen=True, slots=True)
class Retention:
    """`released` are the sessions whose release is in force; `ever` has the last release of each session,
    whatever followed; `last` the position of the last event on each (session, turn), None for all turns.
    `collected` are the noted collections, as (position, µs), in order.
    """

    released: Mapping[str, Release]
    ever: Mapping[str, Release]
    pinned: frozenset[str]
    pinned_turns: frozenset[tuple[str, int]]
    last: Mapping[tuple[str, int | None], int]
    collected: tuple[tuple[int, int | None], ...]

    @property
    def limits(self) -> dict[str, int]:
        """The position of each session before which its events need no contents."""
        return {session: release.position for session, release in self.released.items()}

    @property
    def held(self) -> frozenset[str]:
        """The sessions that no rule may release."""
        return self.pinned | {session for session, _ in self.pinned_turns}

    def fate(self, session: str) -> str | None:
        """`collected on DATE (RULE)`, when something of the session may have been collected."""
        release = self.ever.get(session)
        if release is None:
            return None
        for position, at in self.collected:
            if position > release.position:
                return f"collected on {_day(at)} ({release.rule})"
        return f"collected since its release on {_day(release.at)} ({release.rule})"


def retention_in(view: "LogView", since: int = 0) -> Retention:
    """The state by the events from `since` on."""
    columns = ("position", "event_type", "operation", "recorded_at", "payload")
    return retention_of(view.iterate(since, columns=columns, event_types=(RETENTION, MAINTENANCE)))


def retention_of(events: Iterable[Mapping[str, object]]) -> Retention:
    """The state by these events of the types `retention` and `maintenance`, in their order."""
    last: dict[tuple[str, int | None], tuple[str, int]] = {}
    ever: dict[str, Release] = {}
    collected = []
    for event in events:
        position, at = _int(event["position"]), event["recorded_at"]
        recorded_at = at if isinstance(at, int) else None
        if event["event_type"] == MAINTENANCE:
            if event["operation"] == COLLECT:
                collected.append((position, recorded_at))
            continue
        payload = jsontext.object_if_any(event["payload"])
        session, turn, operation = payload.get("session_id"), payload.get("turn"), str(event["operation"])
        if not isinstance(session, str) or not (turn is None or isinstance(turn, int)):
            continue  # of a newer version
        last[session, turn] = operation, position
        if operation == RELEASE and turn is None:
            ever[session] = Release(position, recorded_at, str(payload.get("rule") or "archived"))
    pinned = frozenset(s for (s, turn), (what, _) in last.items() if what == PIN and turn is None)
    turns = frozenset((s, turn) for (s, turn), (what, _) in last.items() if what == PIN and turn is not None)
    held = pinned | {session for session, _ in turns}
    released = {s: r for s, r in ever.items() if last[s, None][0] == RELEASE and s not in held}
    positions = {key: position for key, (_, position) in last.items()}
    return Retention(released, ever, pinned, turns, positions, tuple(collected))


def hashes_in(view: "LogView", limits: Mapping[str, int], since: int = 0) -> Iterator[str]:
    """The hashes that events from `since` on name, without the events of a session before its limit.

    Events of type `content` are left out too: what they name is needed where their list is (`stored_in`).
    A hash comes once for each batch of the log that names it.
    """
    for batch in view.batches(since, columns=_NAMING_COLUMNS):
        yield from _distinct(kept_rows(without_stored(batch), limits))


def stored_in(view: "LogView", since: int = 0) -> dict[str, list[str]]:
    """What became of deferred contents: list → the trees of its files that are stored (docs/certainty.md §3).

    They stay as long as something that stays names the list.
    """
    trees_by_list: dict[str, list[str]] = {}
    columns = ("before_hash", "tree_hash")
    for event in view.iterate(since, event_types=(CONTENT,), columns=columns):
        if event["before_hash"] is not None and event["tree_hash"] is not None:
            trees_by_list.setdefault(str(event["before_hash"]), []).append(str(event["tree_hash"]))
    return trees_by_list


def hashes_by_session(view: "LogView", sessions: Mapping[str, int]) -> Iterator[tuple[str, str]]:
    """(session, hash) of what events of these sessions name before their limits."""
    for batch in _batches_by_session(view, sessions):
        session = batch.column("session_id")[0].as_py()
        for text in _distinct(_in_front(batch, sessions[session])):
            yield session, text


def hashes_and_sessions(view: "LogView", limits: Mapping[str, int]) -> Iterator[tuple[str, str]]:
    """(session, hash) of what `hashes_in` gives; the session is "" for events without one."""
    for batch in _batches_by_session(view, None):
        session = batch.column("session_id")[0].as_py()
        for text in _distinct(kept_rows(batch, limits)):
            yield session or "", text


def paths_in(view: "LogView") -> Iterator[tuple[str, str]]:
    """(hash, path) of the contents in file events; a pair comes once for each batch."""
    for batch in view.batches(event_types=("file",), columns=("path", "before_hash", "after_hash")):
        paths = batch.column("path").to_pylist()
        for name in ("before_hash", "after_hash"):
            rows = zip(batch.column(name).to_pylist(), paths, strict=True)
            yield from {(text, path) for text, path in rows if text is not None and path is not None}


def counts_in(view: "LogView") -> Iterator[tuple[str, int]]:
    """(hash, count): how often the events of a batch name a tree, or the content after a change."""
    for batch in view.batches(columns=("tree_hash", "after_hash")):
        for name in ("tree_hash", "after_hash"):
            for row in batch.column(name).value_counts().to_pylist():
                if row["values"] is not None:
                    yield row["values"], row["counts"]


class Fates:
    """The reason why contents are missing: `collected on DATE (RULE), with session ID`.

    `asked` are the sessions that the caller reads. A replay asks for every file that it misses, so the last
    answer is cached; it does not include later releases.
    """

    def __init__(self, open_view: "Callable[[], LogView]") -> None:
        self.asked: set[str] = set()
        self._open_view = open_view
        self._known: tuple[object, str | None] = None, None

    def __call__(self, content: str = "") -> str | None:
        """None when no session that was ever released names the content, or one that was not does too.

        Args: content: hex digits with which a hash begins; empty for what the sessions of `asked` name.
        """
        if not (self.asked or content):
            return None
        key = frozenset(self.asked), content
        if self._known[0] != key:
            try:
                with self._open_view() as view:
                    self._known = key, _fate_in(view, self.asked, content)
            except EventLogError:
                return None  # the caller reports that a content is missing; readers of the log report damage
        return self._known[1]


def _fate_in(view: "LogView", sessions: Collection[str], content: str) -> str | None:
    retention = retention_in(view)
    naming = _sessions_naming(view, _HASH_PREFIX + content) if content and retention.ever else set()
    if not naming <= retention.ever.keys():
        return None
    for session in sorted({*sessions, *naming}):
        fate = retention.fate(session)
        if fate is not None:
            return f"{fate}, with session {session}"
    return None


def _sessions_naming(view: "LogView", prefix: str) -> set[str]:
    """The sessions of the events that name a content or tree whose hash begins so; "" is no session."""
    import pyarrow.compute as pc

    sessions: set[str | None] = set()
    for batch in map(without_stored, view.batches(columns=_NAMING_COLUMNS)):
        for name in HASH_COLUMNS:
            column, rows = batch.column(name), None
            if name == "blobs":
                column, rows = column.flatten(), pc.list_parent_indices(column)
            hits = pc.indices_nonzero(pc.fill_null(pc.starts_with(column, prefix), False))
            chosen = hits if rows is None else rows.take(hits)
            sessions.update(batch.column("session_id").take(chosen).unique().to_pylist())
    return {session or "" for session in sessions}


def without_stored(batch: "pa.RecordBatch") -> "pa.RecordBatch":
    """The rows of a batch with `event_type` that are not of type `content`."""
    import pyarrow.compute as pc

    return batch.filter(pc.not_equal(batch.column("event_type"), CONTENT))


def of_lists(batch: "pa.RecordBatch", lists: Collection[str]) -> "pa.RecordBatch":
    """The events of type `content` for these lists."""
    import pyarrow as pa
    import pyarrow.compute as pc

    return batch.filter(pc.is_in(batch.column("before_hash"), value_set=pa.array(lists, pa.string())))


def kept_rows(batch: "pa.RecordBatch", limits: Mapping[str, int]) -> "pa.RecordBatch":
    """The rows of which no session was released; the batch has `position` and `session_id`."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if not limits:
        return batch
    index = pc.index_in(batch.column("session_id"), value_set=pa.array(limits, pa.string()))
    limit = pa.array(limits.values(), pa.int64()).take(index)
    return batch.filter(pc.fill_null(pc.greater_equal(batch.column("position"), limit), True))


def _batches_by_session(view: "LogView", sessions: Collection[str] | None) -> "Iterator[pa.RecordBatch]":
    """The rows of a batch session by session; of these sessions, or of all and of events without one."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if sessions is not None and not sessions:
        return
    for batch in map(without_stored, view.batches(columns=_NAMING_COLUMNS)):
        column = batch.column("session_id")
        for session in column.unique().to_pylist():
            if sessions is None or session in sessions:
                is_of_session = pc.is_in(column, value_set=pa.array([session], pa.string()))
                yield batch.filter(is_of_session)


def _in_front(batch: "pa.RecordBatch", limit: int) -> "pa.RecordBatch":
    import pyarrow.compute as pc

    return batch.filter(pc.less(batch.column("position"), limit))


def _distinct(batch: "pa.RecordBatch") -> Iterator[str]:
    seen: set[str] = set()
    for name in HASH_COLUMNS:
        column = batch.column(name)
        for text in (column.flatten() if name == "blobs" else column).unique().to_pylist():
            if text is not None and text not in seen:
                seen.add(text)
                yield text


def _int(value: object) -> int:
    assert isinstance(value, int)
    return value


def _day(us: int | None) -> str:
    if us is None:
        return "a day that was not noted"
    import datetime

    return f"{datetime.datetime.fromtimestamp(us / 1e6, datetime.UTC):%Y-%m-%d}"
