"""The answer `spine`: every path and content once, and the stops as numbers of these."""

from collections.abc import Iterable, Sequence
from typing import Any

from eventlog.base.display import microseconds
from eventlog.base.paths import path_text
from eventlog.blobs.ids import to_text
from eventlog.blobs.tree import SIZE_UNKNOWN, SKIPPED, TreeEntry, plain_kind
from eventlog.projections import operations
from eventlog.query.lookup import TurnRef, turns_where
from eventlog.replay.leaf_changes import LeafChange
from eventlog.replay.spine import Spine
from eventlog.view import sessions
from eventlog.view.parameters import Parameters
from eventlog.view.stores import ViewedStore

LETTERS = {"add": "A", "edit": "M", "mode": "M", "delete": "D", "rename": "R", "type": "T"}

_NO_FILES = "files are not part of this page"

TurnKey = tuple[str, int]


def spine(viewed: ViewedStore, parameters: Parameters) -> dict[str, Any]:
    """All of it; or how it grew since the answer up to the position `after`, where that one is known."""
    after = parameters.number("after", 0, 1 << 62) if parameters.text("after") else None
    return viewed.spines.answer(_whole(viewed, parameters.text("session")), after)


def _whole(viewed: ViewedStore, session: str | None) -> dict[str, Any]:
    of_store = viewed.store.spine(session)
    turns = list(dict.fromkeys(stop.turn for stop in of_store.stops))
    numbers = {(turn.session_id, turn.turn): number for number, turn in enumerate(turns)}
    tables = _Tables(of_store)
    changes = [tables.rows(stop.changes) for stop in of_store.stops]
    withheld = viewed.withheld() if of_store.stops else frozenset()
    return {
        "session": of_store.session,
        "resume": None if of_store.session is None else sessions.resume_of(viewed, of_store.session),
        "until": of_store.until,
        "paths": [path_text(path) for path in tables.paths],
        "hashes": tables.hashes,
        "turns": _turns(viewed, turns),
        "stops": [
            {
                "turn": numbers[stop.turn.session_id, stop.turn.turn],
                "at": stop.at,
                "base": stop.base,
                "files": stop.files,
                "state": stop.state,
                "why": stop.why or None,
                "source": stop.source,
            }
            for stop in of_store.stops
        ],
        "changes": changes,
        "reasons": tables.reasons,
        "withheld": {
            str(number): viewed.why_withheld(hash)
            for number, hash in enumerate(tables.hashes)
            if hash in withheld
        },
        "cut": of_store.cut,
    }


def of_turns(viewed: ViewedStore, session: str) -> dict[str, Any]:
    """The same answer without files: the turns of a session alone."""
    turns = turns_where(viewed.store.query, "where session_id = $1 order by turn", [session])
    tables: dict[str, Any] = {
        "paths": [],
        "hashes": [],
        "stops": [],
        "changes": [],
        "reasons": {},
        "withheld": {},
    }
    listed = _turns(viewed, turns)
    head = {"session": session, "resume": None, "until": viewed.position()}
    return {**head, "turns": listed, **tables, "cut": _NO_FILES}


class _Tables:
    """The paths and contents of a spine, each with its number."""

    def __init__(self, of_store: Spine) -> None:
        changes = [change for stop in of_store.stops for change in stop.changes]
        named = {change.path for change in changes} | {c.old_path for c in changes if c.old_path is not None}
        self.paths = sorted(named)
        self._number_of_path = {path: number for number, path in enumerate(self.paths)}
        self._number_of_id: dict[bytes, int] = {}
        self.reasons: dict[str, str] = {}

    @property
    def hashes(self) -> list[str]:
        return [to_text(id) for id in self._number_of_id]

    def rows(self, changes: Iterable[LeafChange]) -> list[list[Any]]:
        return [self._row(change) for change in changes]

    def _row(self, change: LeafChange) -> list[Any]:
        path, old = self._number_of_path[change.path], change.old_path
        if change.reason is not None:
            self.reasons[str(path)] = change.reason
        return [
            path,
            *self._content(change.entry),
            LETTERS[change.operation],
            None if old is None else self._number_of_path[old],
        ]

    def _content(self, entry: TreeEntry | None) -> tuple[int | None, int | None, str | None]:
        """(number of the hash, size, kind) of what is at a path."""
        if entry is None:
            return None, None, None
        size = None if entry.size == SIZE_UNKNOWN else entry.size
        kind = plain_kind(entry.kind).decode()
        if entry.kind == SKIPPED or kind == "d":
            return None, None if kind == "d" else size, kind
        return self._number_of_id.setdefault(entry.id, len(self._number_of_id)), size, kind


def _turns(viewed: ViewedStore, turns: Sequence[TurnRef]) -> list[dict[str, Any]]:
    rows = viewed.answer_of_type(operations.EVENT_TYPE, lambda: viewed.query(operations.SELECT, []).rows)
    undone = operations.of_rows(rows)
    listed = []
    for ref, row in zip(turns, viewed.turn_rows.rows(turns), strict=True):
        cost = row["cost_usd"]
        undo = undone.undo_of_turn(ref.context_id)
        listed.append(
            {
                "name": ref.name,
                "session_id": ref.session_id,
                **{name: row[name] for name in ("title", "agent", "person", "commit")},
                "started_at": microseconds(row["started_at"]),
                "ended_at": microseconds(row["completed_at"]),
                "tokens": row["tokens_used"],
                "cost_usd": None if cost is None else float(cost),
                "tool_calls": row["tool_calls"],
                "errors": row["errors"],
                "undone_at": None if undo is None else undo.recorded_at,
            }
        )
    return listed
