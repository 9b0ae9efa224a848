"""How well a moment of a turn is known: a pure fold over the turn's events (docs/certainty.md).

Only this module decides it. Readers that hand out file states, lists, SQL and exports all carry the result of
`certainty_of` (P1, P7). The states of a turn's start and end follow from columns, and from `closed_by` of its
end, so that SQL folds the same (projections/definitions.py); a test holds both equal.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from eventlog.base.paths import is_below, is_outside, path_bytes

EXACT, PARTIAL, RUNNING, UNFINISHED, FAILED, NONE = (
    "exact",
    "partial",
    "running",
    "unfinished",
    "failed",
    "none",
)
STATES = (EXACT, PARTIAL, RUNNING, UNFINISHED, FAILED, NONE)
EVERYTHING = "."

# Events at which the state of the files is of interest.
TELLS_OF_FILES = ("snapshot", "action", "file")

# Events of tools: one that was recorded after the last capture of its turn came too late to belong to it.
_OF_TOOLS = ("tool_start", "action", "file")

# The columns that the fold reads of an event, beside its payload.
COLUMNS = ("event_id", "event_type", "agent", "operation", "path", "cause", "tree_hash", "success")

Doubts = tuple[tuple[str, str], ...]
Fields = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Certainty:
    """How well a moment is known.

    `paths` are the (path, reason) of the paths that are not exact, sorted; the path "." stands for all of
    them, a directory for all paths below it. `why` is a sentence, empty where the state is exact.
    """

    state: str
    why: str = ""
    paths: Doubts = ()

    @property
    def exact(self) -> bool:
        return self.state == EXACT

    def doubt(self, path: str) -> str | None:
        """Why the state of `path` is not known; None where it is exact."""
        wanted = doubt_bytes(path)
        for doubtful, reason in self.paths:
            if doubtful == EVERYTHING or is_below(wanted, doubt_bytes(doubtful)):
                return reason
        return None

    def doubts(self, wanted: Sequence[str] = ()) -> Doubts:
        """Those of `paths` that concern the wanted files, or directories with the paths below them.

        Without `wanted`, all of them.
        """
        names = [doubt_bytes(name.removeprefix("./").strip("/")) for name in wanted]
        if not names or b"" in names or b"." in names:
            return self.paths
        return tuple(pair for pair in self.paths if any(_meet(doubt_bytes(pair[0]), name) for name in names))

    def with_doubts(self, more: Iterable[tuple[str, str]], why: str) -> "Certainty":
        """The same with more paths that are not exact, because of `why`; earlier doubts stay."""
        doubts = dict(self.paths)
        for path, reason in more:
            doubts.setdefault(path, reason)
        if len(doubts) == len(self.paths):
            return self
        state = PARTIAL if self.state == EXACT else self.state
        return Certainty(state, self.why or why, tuple(sorted(doubts.items())))


def _meet(doubtful: bytes, wanted: bytes) -> bool:
    return doubtful == b"." or is_below(wanted, doubtful) or is_below(doubtful, wanted)


def doubt_bytes(path: str) -> bytes:
    """The bytes of a path as events write it, or of a path that no event can have written."""
    try:
        return path_bytes(path)
    except ValueError:
        return path.encode("utf-8", "surrogateescape")


def certainty_of(events: Iterable[Fields], at: str = "end", *, running: bool = False) -> Certainty:
    """How well a turn's files are known at "start", at "end", or just after the event of id `at`.

    Args:
        events: all events of the turn in position order, with the columns `COLUMNS` and the payload.
        running: the process of the turn lives (`eventlog/base/activity.py`).
    A caller with the trees adds what only they show: contents that are still open, and differences from the
    next one. Raises: KeyError when there is no event `at`.
    """
    timeline = list(events)
    snapshots = [event for event in timeline if event["event_type"] == "snapshot"]
    if not any(event.get("tree_hash") is not None for event in snapshots):
        if running:
            return _everything(RUNNING, "the turn is still running, and no capture has finished in it yet")
        if any(event.get("success") is False for event in snapshots):
            if at == "end" and is_open(timeline):
                return _everything(
                    UNFINISHED, "no end of the turn was seen, and no capture was finished in it"
                )
            return _everything(FAILED, "no capture of the directory was finished in this turn")
        return _everything(NONE, "this turn records no tree")
    if at == "start":
        return _of_start(snapshots[0])
    if at == "end":
        return _of_end(timeline, snapshots, running)
    moment = next((n for n, event in enumerate(timeline) if event["event_id"] == at), None)
    if moment is None:
        raise KeyError(at)
    return _of_event(timeline, moment, _of_end(timeline, snapshots, running))


def status_words(status: str | None, at_end: Certainty) -> str:
    """A turn's status for people: a turn without an end whose process is gone is not active."""
    return NOT_CLOSED if status == "active" and at_end.state in (UNFINISHED, FAILED, NONE) else status or ""


NOT_CLOSED = "interrupted, not closed yet"


def is_open(events: Iterable[Fields]) -> bool:
    """Whether a turn has no end yet, so that it matters whether its process lives."""
    open_so_far = True
    for event in events:
        kind, operation = event["event_type"], event.get("operation")
        if (kind, operation) in (("turn", "end"), ("snapshot", "turn_end")):
            open_so_far = False
        elif (kind, operation) == ("turn", "resume"):
            open_so_far = True
    return open_so_far


def is_capture(event: Fields) -> bool:
    """Whether an event reports a capture of the directory, also a failed one."""
    if event["event_type"] == "snapshot":
        return True
    return event["event_type"] == "action" and _capture(event).get("state") in _FAILURES


def is_full(event: Fields) -> bool:
    """The same of a capture of the whole directory, or one that failed: not of the files of an edit, or of
    those that a watcher reported."""
    return is_capture(event) and not isinstance(_capture(event).get("scoped_paths"), list)


def scope_of(event: Fields) -> frozenset[str]:
    """The paths that a capture of some paths proves; empty of any other event."""
    paths = _capture(event).get("scoped_paths") if event["event_type"] == "snapshot" else None
    return frozenset(str(path) for path in paths) if isinstance(paths, list) else frozenset()


def end_of_captures(timeline: Sequence[Fields]) -> int:
    """The index after the last event that belongs to the end of a turn.

    Where a capture was made at its end, that is the last one: other turns found the later events, and later.
    """
    snapshots = [n for n, event in enumerate(timeline) if event["event_type"] == "snapshot"]
    if any(timeline[n].get("operation") == "turn_end" for n in snapshots):
        return snapshots[-1] + 1
    return len(timeline)


def effects_end(timeline: Sequence[Fields], moment: int) -> int:
    """The index after the last event that belongs to the moment of `timeline[moment]`: for an action, the
    changes in the same frame, and the capture that found them, which ends the frame."""
    end = moment + 1
    if timeline[moment]["event_type"] != "action":
        return end
    action = timeline[moment]["event_id"]
    for index in range(end, len(timeline)):
        event = timeline[index]
        if event["event_type"] == "snapshot" and event.get("cause") == action:
            return index + 1
    while end < len(timeline) and _is_effect(timeline[end], action):
        end += 1
    return end


def next_capture(timeline: Sequence[Fields], end: int) -> Fields | None:
    """The first capture of the whole directory at or after the index `end`."""
    return next((event for event in timeline[end:] if is_full(event)), None)


def _is_effect(event: Fields, action: object) -> bool:
    return event["event_type"] == "file" and (event.get("cause") == action or action in _causes(event))


def _of_start(first: Fields) -> Certainty:
    if first.get("operation") != "turn_start":
        return _everything(FAILED, "no capture was made at the start of the turn; the files are later ones")
    return _of_capture(first)


def _of_end(timeline: Sequence[Fields], snapshots: Sequence[Fields], running: bool) -> Certainty:
    turns = [event for event in timeline if event["event_type"] == "turn"]
    ends = [event for event in turns if event.get("operation") in ("end", "resume")]
    goes_on = bool(ends) and ends[-1].get("operation") == "resume"
    if not goes_on:
        if ends and _payload(ends[-1]).get("closed_by") is not None:
            return _of_closed(snapshots[-1])
        if any(event.get("operation") == "turn_end" for event in snapshots):
            return _of_capture(snapshots[-1])
    if running and (goes_on or not ends):
        return _everything(RUNNING, "the turn is still running; its files are those of the last capture")
    if goes_on:
        seen = "the turn went on after its end, and no other end was seen"
    else:
        seen = "the turn ended without a capture" if ends else "no end of the turn was seen"
    return _everything(UNFINISHED, f"{seen}; its files are those of the last capture")


def _of_closed(last: Fields) -> Certainty:
    """The end of a turn whose process was gone before it ended."""
    if last.get("tree_hash") is None or _capture(last).get("state") != "late":
        return _everything(UNFINISHED, f"{_GONE}; its files are those of the last capture")
    doubts = dict(_pending(_capture(last)) if last.get("success") is False else ()) | dict(_late(last))
    return Certainty(
        UNFINISHED, f"{_GONE}; its files are those found afterwards", tuple(sorted(doubts.items()))
    )


def _of_event(timeline: Sequence[Fields], moment: int, at_end: Certainty) -> Certainty:
    """A moment between two captures: it is unknown on which side a path changed."""
    if timeline[moment].get("agent") == "git":
        return Certainty(EXACT)  # a commit has no other changes
    end = effects_end(timeline, moment)
    base = next((n for n in range(end - 1, -1, -1) if is_full(timeline[n])), None)
    if base is None:
        return _everything(FAILED, "no capture of the directory had been made by then")
    before = _of_capture(timeline[base])
    if moment <= base or before.state == FAILED:
        return before
    after = next((n for n in range(end, len(timeline)) if is_full(timeline[n])), None)
    if after is None and at_end.state not in (EXACT, PARTIAL):
        return at_end
    if after is None and timeline[moment]["event_type"] in _OF_TOOLS:
        return _everything(
            FAILED, "no capture was made after it; the files are those of the turn's last capture"
        )
    doubts = dict(before.paths)
    for event in timeline[base + 1 : end]:
        for path in _changed(event):
            doubts.pop(path, None)
    if after is not None:
        exact = scope_of(timeline[end - 1])  # an edit's own paths, right after it
        doubts |= {
            path: why
            for path, why in _between(timeline[end : after + 1])
            if path not in doubts and path not in exact
        }
    if not doubts:
        return Certainty(EXACT)
    why = before.why or "some paths changed before the next capture"
    return Certainty(PARTIAL if before.state == EXACT else before.state, why, tuple(sorted(doubts.items())))


def _between(events: Sequence[Fields]) -> Iterable[tuple[str, str]]:
    """The paths that may have changed between a moment and the capture that ends `events`."""
    snapshot = events[-1]
    capture = _capture(snapshot)
    state = _of_capture(snapshot).state
    if state in (FAILED, PARTIAL):
        yield EVERYTHING, "the next capture of the directory was not complete"
    elif capture.get("state") == "baseline" or "told" in capture:
        yield EVERYTHING, "the next capture does not name each change that it found"
    if state == UNFINISHED:
        yield from _late(snapshot)
    for event in events:
        for path in _changed(event):
            yield path, "it changed at some time between this event and the next capture"


def _changed(event: Fields) -> Iterable[str]:
    """The paths that a file event changes."""
    if is_change(event):
        for path in (event.get("path"), _payload(event).get("old_path")):
            if path is not None:
                yield str(path)


def is_change(event: Fields) -> bool:
    """Whether an event reports a change in the working directory: no tree holds files outside of it."""
    is_file = event["event_type"] == "file" and event.get("operation") != "read"
    return is_file and not is_outside(str(event.get("path") or ""))


def _of_capture(snapshot: Fields) -> Certainty:
    """The certainty of a capture's own moment."""
    capture = _capture(snapshot)
    if snapshot.get("tree_hash") is None:
        reason = _FAILURES.get(str(capture.get("state")), "no tree was recorded then")
        return _everything(FAILED, f"{reason}; the files are those of an earlier capture, if there is one")
    if snapshot.get("success") is False:
        return Certainty(PARTIAL, "its capture was not finished in time", _pending(capture))
    if capture.get("state") == "late":
        return Certainty(UNFINISHED, f"{_GONE}; its files are those found afterwards", _late(snapshot))
    return Certainty(EXACT)


def _everything(state: str, why: str) -> Certainty:
    return Certainty(state, why, ((EVERYTHING, why),))


_GONE = "the process of the turn was gone before it ended"
_FAILURES = {
    "busy": "another capture was at work",
    "failed": "the capture of the directory failed",
    "missed": "no hook reported the beginning of the turn",
    "partial": "the capture of the directory was not finished in time",
}


def _late(snapshot: Fields) -> Doubts:
    reason = "it changed after the last capture before the process ended"
    return _listed(_capture(snapshot), "paths", "count", reason)


def _pending(capture: Fields) -> Doubts:
    doubts = dict(_listed(capture, "pending_paths", "pending", "it was not captured in time"))
    warning = capture.get("warning")  # git could not list what belongs to the tree
    if warning is not None or not doubts:
        doubts[EVERYTHING] = str(warning or "its capture was not finished in time")
    return tuple(sorted(doubts.items()))


def _listed(capture: Fields, paths: str, count: str, reason: str) -> Doubts:
    """The paths that a capture names; "." where it names fewer than it counted."""
    doubts: dict[str, str] = {}
    listed = capture.get(paths)
    for item in listed if isinstance(listed, list) else []:
        if isinstance(item, list) and len(item) == 2:
            doubts[str(item[0])] = str(item[1])
        else:
            doubts[str(item) or EVERYTHING] = reason
    total = capture.get(count)
    if isinstance(total, int) and total > len(doubts):
        doubts[EVERYTHING] = f"{total - len(doubts)} more paths are not exact, and are not named"
    return tuple(sorted(doubts.items()))


def _payload(event: Fields) -> Fields:
    payload = event.get("payload")
    return payload if isinstance(payload, Mapping) else {}


def changes_without_events(snapshot: Fields) -> int:
    """How many changes its capture found where they were too many at once for an event each; else 0."""
    capture = _capture(snapshot)
    changes = capture.get("changes")
    return changes if capture.get("told") == 0 and isinstance(changes, int) else 0


def _capture(event: Fields) -> Fields:
    capture = _payload(event).get("capture")
    return capture if isinstance(capture, Mapping) else {}


def _causes(event: Fields) -> Sequence[object]:
    causes = _payload(event).get("causes")
    return causes if isinstance(causes, list) else ()
