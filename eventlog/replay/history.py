"""The history of one file: its versions in the log, followed back through renames (S1-55).

A version is a file event that concerns the path: it was added, edited, deleted, or renamed to or from the
path. Where a rename brought a content to the path, the older versions of the old path belong to it as well.
Snapshots are not searched: that would read trees of every turn of the log. Reads the log through the given
query, and contents only where an event does not state its line counts.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from eventlog.base import jsontext
from eventlog.base.errors import EventLogError, NotFound
from eventlog.base.names import turn_id_of
from eventlog.blobs.deferred import sentence_of
from eventlog.blobs.ids import blob_id, to_text
from eventlog.blobs.tree import SKIPPED, TreeEntry
from eventlog.projections.definitions import HAPPENED_AT, ON_NO_LINE, TURN_ORDER_AT
from eventlog.query.lookup import NOT_REWRITTEN, rewritten_turns
from eventlog.replay.certainty import Certainty, doubt_bytes
from eventlog.replay.deferred import DeferredContents, content_events_by_sql, hashed
from eventlog.replay.line_counts import count, deferred_content, pair_of
from eventlog.replay.trees import list_named_by

if TYPE_CHECKING:
    from eventlog.blobs.store import BlobStore
    from eventlog.query.engine import Result

Query = Callable[[str, Sequence[Any]], "Result"]

TurnCertainty = Callable[[str], Certainty]

# Events outside turns belong to no line; they are included.
_ON_LINE = f"(turn is null or {NOT_REWRITTEN})"

# By which events are put in the order in which they happened: when (µs, of a commit as commits are ordered),
# the place of its commit on the line, position; -1 for what is unknown.
OrderKey = tuple[int, int, int]

# (order key of the rename, old path, new path)
Rename = tuple[OrderKey, str, str]

_AT_US = (
    "coalesce(epoch_us(CASE WHEN o.line_place IS NOT NULL THEN o.turn_at "
    f"ELSE coalesce({HAPPENED_AT}, o.turn_at) END), -1)"
)
_FIELDS = (
    "position", "event_id", "session_id", "turn", "agent", "commit", "at", "operation", "path", "payload",
    "before_hash", "after_hash", "lines_added", "lines_removed", "cause",
)  # fmt: skip
_COLUMNS = (
    *(name for name in _FIELDS if name != "at"),
    "event_type", "agent_session_id", "occurred_at", "recorded_at",
)  # fmt: skip
# No star: it would mean columns, too, that rest on the whole log.
_CHANGES = f"""SELECT {", ".join(f'"{name}"' for name in _COLUMNS)} FROM events
    WHERE event_type = 'file' AND operation IS DISTINCT FROM 'read' AND """
# Turns with when they happened, as `TURN_ORDER_AT` says it: few are commits, whose order takes a window.
_TURN = "SELECT session_id, turn, line_place, title AS turn_title, user_request AS turn_request,"
_TURNS = f"""(
    {_TURN} happened_at AS turn_at FROM turns WHERE {ON_NO_LINE}
    UNION ALL {_TURN} {TURN_ORDER_AT} AS turn_at FROM turns WHERE NOT {ON_NO_LINE})"""

_VALUES = ", ".join(f"epoch_us({HAPPENED_AT})" if name == "at" else f'"{name}"' for name in _FIELDS)

# Where a row has them; title and request of the turn are between the fields and the order key.
_OPERATION, _PATH, _PAYLOAD = map(_FIELDS.index, ("operation", "path", "payload"))
_ORDER_KEY = len(_FIELDS) + 2


@dataclass(frozen=True, slots=True)
class FileVersion:
    """A version of a file: who made it when, and what it is.

    Hashes and line counts are None where they are unknown, `turn` outside turns. `at` is when it
    happened, in microseconds since 1970.
    `title` and `user_request` are those of the turn. `doubt` says why the file at the end of that turn is not
    known, so that there may have been a later version in it. It is None where the file is known, or where the
    tools of the turn are the only source.
    """

    position: int
    event_id: str
    session_id: str | None
    turn: int | None
    agent: str | None
    commit: str | None
    at: int | None
    operation: str | None
    path: str
    old_path: str | None
    before_hash: str | None
    after_hash: str | None
    lines_added: int | None
    lines_removed: int | None
    cause: str | None
    title: str | None
    user_request: str | None
    doubt: str | None = None

    @property
    def turn_name(self) -> str | None:
        """The name of the turn, None outside turns."""
        return None if self.turn is None else f"{self.session_id}_{turn_id_of(self.turn)}"


def history(
    query: Query,
    blobs: "BlobStore",
    path: str,
    limit: int | None = None,
    *,
    rewritten: bool = True,
    counted: bool = True,
) -> list[FileVersion]:
    """The versions of the file at `path`, newest first, at most `limit` of them.

    Args:
        rewritten: also those of commits that no line reaches any more.
        counted: with lines counted from the contents, where their writer did not count them.
    """
    on_line = "" if rewritten or not rewritten_turns(query) else f" and {_ON_LINE}"
    # Most files were never renamed: one question gives their versions, and the renames that say so.
    renamed = "operation = 'rename' and path is distinct from $1"
    rows = _rows(query, ["path = $1", renamed], f"true{on_line}", [path])
    renames = _renames_in(rows)
    away = {order_key for order_key, old, _ in renames if old == path}
    ends = lineage(path, renames)
    if len(ends) > 1:
        numbers = range(1, len(ends) + 1)
        simple = [f"path = ${number}" for number in numbers]
        fits = [f"(path = ${n} and order_key < {end})" for n, end in zip(numbers, ends.values(), strict=True)]
        if away:
            positions = f"position in ({', '.join(str(key[-1]) for key in away)})"
            simple.append(f"{positions} and ({' or '.join(simple)}) is not true")
            fits.append(positions)
        rows = _rows(query, simple, f"({' or '.join(fits)}){on_line}", list(ends))
    else:
        rows = [row for row in rows if row[_PATH] == path or tuple(row[_ORDER_KEY]) in away]
    deferred = DeferredContents(blobs, content_events_by_sql(query))
    return [_version(row, blobs, deferred, counted) for row in rows[:limit]]


def with_doubts(
    query: Query, versions: Sequence[FileVersion], certainty: "TurnCertainty"
) -> list[FileVersion]:
    """The versions, each with why its file is not known at the end of its turn.

    Args: certainty: of the end of a turn, by its name.
    """
    sessions = sorted({v.session_id for v in versions if v.session_id and v.turn is not None})
    rows = query(
        "select session_id, turn from turns where list_contains($1, session_id) "
        "and end_certainty not in ('exact', 'none')",
        [sessions],
    ).rows
    doubtful = set(rows) & {(version.session_id, version.turn) for version in versions}
    certainties = {key: certainty(f"{key[0]}_{turn_id_of(key[1])}") for key in doubtful}
    return [
        replace(version, doubt=certainties[version.session_id, version.turn].doubt(version.path))
        if (version.session_id, version.turn) in certainties
        else version
        for version in versions
    ]


def lineage(path: str, renames: Iterable[Rename]) -> dict[str, OrderKey]:
    """The paths whose versions belong to `path`, each with the order key up to which they do."""
    into: dict[str, list[Rename]] = {}
    for rename in renames:
        into.setdefault(rename[2], []).append(rename)
    ends: dict[str, OrderKey] = {}
    todo = [(path, _NO_END)]
    while todo:
        name, end = todo.pop()
        known_end = ends.get(name, _NO_BEGINNING)
        if end <= known_end:
            continue
        ends[name] = end
        todo += [(old, order_key) for order_key, old, _ in into.get(name, ()) if known_end <= order_key < end]
    return ends


_NO_BEGINNING, _NO_END = (-2, 0, 0), (2**63 - 1, 0, 0)


def _rows(
    query: Query, simple: Sequence[str], condition: str, parameters: Sequence[Any]
) -> list[tuple[Any, ...]]:
    """The changes that meet a condition, newest first.

    Args: simple: conditions of which each change meets one at most. Each is simple, so that DuckDB reads the
    payloads of the changes that meet it alone.
    """
    changes = " UNION ALL ".join(_CHANGES + part for part in simple)
    return query(
        f"""select {_VALUES}, turn_title, turn_request, order_key from (
            select e.*, turn_title, turn_request,
                ({_AT_US}, coalesce(o.line_place, -1), e.position) as order_key
            from ({changes}) as e left join {_TURNS} as o on o.session_id = e.session_id and o.turn = e.turn
        ) where {condition} order by order_key desc""",
        parameters,
    ).rows


def _renames_in(rows: Iterable[tuple[Any, ...]]) -> list[Rename]:
    """The renames among changes."""
    renamed = [row for row in rows if row[_OPERATION] == "rename"]
    renames = [(tuple(row[_ORDER_KEY]), _old_path(row[_PAYLOAD]), row[_PATH]) for row in renamed]
    return [(key, old, path) for key, old, path in renames if old is not None and path is not None]


def _version(
    row: tuple[Any, ...],
    blobs: "BlobStore",
    deferred: DeferredContents,
    counted: bool,
) -> FileVersion:
    """The version that a change makes, with hashes of contents that were deferred, and lines `counted`."""
    event = dict(zip(_FIELDS, row, strict=False))
    event |= {"event_type": "file", "payload": jsontext.object_of(event["payload"])}
    event["before_hash"] = event["before_hash"] or deferred_content(event, "before_deferred", deferred)
    event["after_hash"] = event["after_hash"] or _stored(event, blobs, deferred)
    pair = pair_of(event, deferred) if counted else None
    try:
        counts = None if pair is None else count(blobs, pair)
    except EventLogError:
        counts = None  # not in the store
    if counts is not None:
        event["lines_added"], event["lines_removed"] = counts
    title, request = row[len(_FIELDS) : _ORDER_KEY]
    old_path = _old_path(event["payload"])
    fields = {name: event[name] for name in _FIELDS if name != "payload"}
    return FileVersion(old_path=old_path, title=title, user_request=request, **fields)


def _stored(event: Mapping[str, Any], blobs: "BlobStore", deferred: DeferredContents) -> str | None:
    """The hash of the content after a change that names a list, where that content is known by now."""
    list_id = list_named_by(event)
    if list_id is None:
        return None
    entry = TreeEntry(b"-", SKIPPED, blob_id(sentence_of(list_id)))
    try:
        content = hashed(blobs, deferred.entry(entry, doubt_bytes(str(event["path"]))))
    except NotFound:
        return None  # git no longer holds it
    return None if content.kind == SKIPPED else to_text(content.id)


def _old_path(payload: Any) -> str | None:
    old = jsontext.object_of(payload).get("old_path")
    return old if isinstance(old, str) else None
