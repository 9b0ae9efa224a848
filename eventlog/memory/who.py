"""Who is at work here: the active sessions, the files that each touched, and where two of them meet.

What sessions touch is a fact of the log: the file events that name them, and the edits that their tools have
begun and not ended. A warning names the event it comes from. Asks the index; not for hooks. Reads only.
"""

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

from eventlog.base.jsontext import object_if_any
from eventlog.base.paths import path_text
from eventlog.memory import intent
from eventlog.memory.briefing import is_within
from eventlog.memory.intent import Intent
from eventlog.store import Store

CHANGED, ABOUT_TO = "changed", "about to change"
SCOPED, IN_SCOPE = "scope", " in scope"

# What edit tools of the agents call the file that they are about to change.
_NAMES_OF_A_FILE = ("file_path", "filePath", "notebook_path", "absolute_path", "path")


@dataclass(frozen=True, slots=True)
class Touch:
    """What a session did to a path last. `how` is `changed` or `about to change`."""

    path: str
    how: str
    at_us: int | None
    position: int
    event_id: str
    worktree: str | None


@dataclass(frozen=True, slots=True)
class Worker:
    """An active session and the paths that it touched, the last first."""

    intent: Intent
    touches: tuple[Touch, ...]


@dataclass(frozen=True, slots=True)
class Overlap:
    """Two active sessions that meet. `first` was there before; `second` comes to it.

    `how` is what `second` does to `path`: it changed it or is about to, and `first` changed it, or has it
    in its scope; or `scope`: both have it in their scope.
    `event_ids` are the events that show it. In two worktrees the sessions meet only when they are merged.
    """

    path: str
    first: Intent
    second: Intent
    how: str
    event_ids: tuple[str, ...]
    worktrees: bool = False

    def words(self) -> str:
        """One line, of recorded text as it is."""
        apart = " (in another worktree)" if self.worktrees else ""
        if self.how == SCOPED:
            return f"{self.second.name} and {self.first.name} both have {self.path} in their scope"
        did = "changed" if self.how.startswith(CHANGED) else "is about to change"
        if self.how.endswith(IN_SCOPE):
            return f"{self.second.name} {did} {self.path}, which is in the scope of {self.first.name}"
        return (
            f"{self.second.name} {did} {self.path}, which {self.first.name} changed and has not ended{apart}"
        )


def who(store: Store) -> list[Worker]:
    """The sessions at work, the latest first, with what they touched."""
    active = intent.at_work(store)
    touched = _touched(store, [session.session_id for session in active])
    return [Worker(session, tuple(touched.get(session.session_id, ()))) for session in active]


def overlaps(workers: Sequence[Worker]) -> list[Overlap]:
    """Where two of them meet: by what they touched, then by their scopes; in a fixed order."""
    meetings: list[Overlap] = []
    for worker, other in combinations(sorted(workers, key=lambda w: w.intent.opened_position), 2):
        met = set()
        mine, theirs = ({touch.path: touch for touch in w.touches} for w in (worker, other))
        for path in sorted(mine.keys() & theirs.keys()):
            pair = sorted(((mine[path], worker), (theirs[path], other)), key=lambda p: p[0].position)
            (before, first), (after, second) = pair
            if before.how != CHANGED:
                (before, first), (after, second) = (after, second), (before, first)
            if before.how != CHANGED:
                continue
            met.add(path)
            ids = (after.event_id, before.event_id)
            apart = before.worktree != after.worktree
            meetings.append(Overlap(path, first.intent, second.intent, after.how, ids, apart))
        meetings += _of_scopes(worker, other, met)
    return meetings


def fields(worker: Worker) -> dict[str, Any]:
    """A worker as JSON has it."""
    return {
        **intent.fields(worker.intent),
        "files": [
            {
                "path": touch.path,
                "how": touch.how,
                "at": intent.iso(touch.at_us),
                "event_id": touch.event_id,
                "worktree": touch.worktree,
            }
            for touch in worker.touches
        ],
    }


def overlap_fields(overlap: Overlap) -> dict[str, Any]:
    return {
        "path": overlap.path,
        "how": overlap.how,
        "first": overlap.first.name,
        "second": overlap.second.name,
        "event_ids": list(overlap.event_ids),
        "worktrees": overlap.worktrees,
    }


def _of_scopes(worker: Worker, other: Worker, met: "set[str]") -> list[Overlap]:
    """Where the scopes lie in each other, and what one touched within the scope of the other."""
    overlaps = []
    pair = (worker.intent.event_id, other.intent.event_id)
    mine, theirs = worker.intent.scope or (), other.intent.scope or ()
    for path in sorted(
        {path for path in mine if is_within(path, theirs)}
        | {path for path in theirs if is_within(path, mine)}
    ):
        overlaps.append(Overlap(path, worker.intent, other.intent, SCOPED, pair))
    for owner, guest in ((worker, other), (other, worker)):
        for touch in guest.touches:
            if touch.path not in met and is_within(touch.path, owner.intent.scope or ()):
                met.add(touch.path)
                ids = (touch.event_id, owner.intent.event_id)
                overlaps.append(Overlap(touch.path, owner.intent, guest.intent, touch.how + IN_SCOPE, ids))
    return overlaps


def _touched(store: Store, session_ids: Sequence[str]) -> dict[str, list[Touch]]:
    """Of each session the paths it touched, the last first."""
    if not session_ids:
        return {}
    last: dict[str, dict[str, Touch]] = {}
    for session_id, path, *rest in store.query(
        "select session_id, path, max(position), arg_max(event_id, position), "
        "epoch_us(arg_max(coalesce(occurred_at, recorded_at), position)), arg_max(worktree, position) "
        "from events where event_type = 'file' and path is not null and list_contains($1, session_id) "
        "group by all",
        [list(session_ids)],
    ).rows:
        position, event_id, at_us, worktree = rest
        last.setdefault(session_id, {})[path] = Touch(path, CHANGED, at_us, position, event_id, worktree)
    for session_id, path, position, event_id, at_us, worktree in _begun(store, session_ids):
        # An edit that failed has ended, too: it changed nothing.
        last.setdefault(session_id, {})[path] = Touch(path, ABOUT_TO, at_us, position, event_id, worktree)
    return {
        session_id: sorted(touches.values(), key=lambda touch: touch.position, reverse=True)
        for session_id, touches in last.items()
    }


def _begun(store: Store, session_ids: Sequence[str]) -> Iterable[tuple[str, str, int, str, Any, Any]]:
    """Edits under way: tools that began in the last turn of a session and did not end."""
    rows = store.query(
        "select session_id, position, event_id, epoch_us(coalesce(occurred_at, recorded_at)), worktree, cwd, "
        "payload from events begun where event_type = 'tool_start' and list_contains($1, session_id) "
        "and tool_use_id is not null and not exists (select 1 from events ended where "
        "ended.event_type = 'action' and ended.tool_use_id = begun.tool_use_id "
        "and list_contains($1, ended.session_id)) and not exists (select 1 from events later where "
        "later.event_type = 'turn' and later.session_id = begun.session_id "
        "and later.position > begun.position) order by position",
        [list(session_ids)],
    ).rows
    top = _top(store)
    for session_id, position, event_id, at_us, worktree, cwd, payload in rows:
        path = _named(payload, cwd, top)
        if path is not None:
            yield session_id, path, position, event_id, at_us, worktree


def _named(payload: object, cwd: object, top: str) -> str | None:
    """The file of the directory `top` that a tool's arguments name."""
    args = object_if_any(payload).get("args")
    if not isinstance(args, Mapping) or not ({"content", "new_string", "newString", "edits"} & args.keys()):
        return None  # it reads, or says something else
    path = next((args[name] for name in _NAMES_OF_A_FILE if isinstance(args.get(name), str)), None)
    if path is None:
        return None
    full = os.path.normpath(os.path.join(cwd if isinstance(cwd, str) else top, path))
    return path_text(os.fsencode(full[len(top) + 1 :])) if full.startswith(f"{top}/") else None


def _top(store: Store) -> str:
    return os.path.dirname(store.layout.root)
