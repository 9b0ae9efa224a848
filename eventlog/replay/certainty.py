"""How well a moment of a turn is known: a pure fold over the turn's events (docs/certainty.md).

The only place where it is decided. Readers that hand out file states, lists, SQL and exports all carry what
`certainty_of` says (P1, P7).
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

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

# What the fold reads of an event, beside its payload.
COLUMNS = ("event_id", "event_type", "operation", "path", "cause", "tree_hash", "success", "status")

Doubts = tuple[tuple[str, str], ...]
Fields = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Certainty:
    """How well a moment is known.

    `paths` are the (path, reason) of what is not exact, sorted; the path "." stands for all of them, a
    directory for all that is below it. `why` is a sentence, empty where the state is exact.
    """

    state: str
    why: str = ""
    paths: Doubts = ()

    def doubt(self, path: str) -> str | None:
        """Why the state of `path` is not known; None where it is exact."""
        for doubtful, reason in self.paths:
            if doubtful in (EVERYTHING, path) or path.startswith(doubtful + "/"):
                return reason
        return None

    def doubts(self, wanted: Sequence[str] = ()) -> Doubts:
        """Those of `paths` that concern what was asked for: files, or directories with what is below.

        Without `wanted` all of them.
        """
        names = [name.strip("/") or EVERYTHING for name in wanted]
        if not names or EVERYTHING in names:
            return self.paths
        return tuple(pair for pair in self.paths if any(_meet(pair[0], name) for name in names))


def _meet(doubtful: str, wanted: str) -> bool:
    return (
        doubtful in (EVERYTHING, wanted)
        or wanted.startswith(doubtful + "/")
        or doubtful.startswith(wanted + "/")
    )


def certainty_of(events: Iterable[Fields], at: str = "end", *, running: bool = False) -> Certainty:
    """How well a turn's files are known at "start", at "end", or just after the event of id `at`.

    Args:
        events: all events of the turn in position order, with the columns `COLUMNS` and the payload.
        running: the process of the turn lives (`eventlog/activity.py`).
    Deferred contents are not its business: whoever has the tree adds those that are still open.
    """
    timeline = list(events)
    looks = [number for number, event in enumerate(timeline) if is_look(event)]
    if not looks:
        return Certainty(NONE, "this turn records no tree", ((EVERYTHING, "this turn records no tree"),))
    if at == "start":
        return _of_look(timeline[looks[0]])
    if at != "end":
        moment = next((n for n, event in enumerate(timeline) if event["event_id"] == at), None)
        if moment is None:
            raise KeyError(at)
        return _of_event(timeline, looks, moment, running)
    return _of_end(timeline, looks, running)


def is_look(event: Fields) -> bool:
    """Whether an event tells of a look at the directory, also of one that failed."""
    if event["event_type"] == "snapshot":
        return True
    return event["event_type"] == "action" and _capture(event).get("state") in ("busy", "failed", "partial")


def effects_end(timeline: Sequence[Fields], moment: int) -> int:
    """The index after the last event that belongs to the moment of `timeline[moment]`: of an action, the
    changes in the same frame that it caused, and the look that found them."""
    end = moment + 1
    if timeline[moment]["event_type"] != "action":
        return end
    action = timeline[moment]["event_id"]
    while end < len(timeline) and _is_effect(timeline[end], action):
        end += 1
    return end


def _is_effect(event: Fields, action: object) -> bool:
    if event["event_type"] not in ("file", "snapshot"):
        return False
    return event.get("cause") == action or (event["event_type"] == "file" and action in _causes(event))


def _of_end(timeline: Sequence[Fields], looks: Sequence[int], running: bool) -> Certainty:
    last = timeline[looks[-1]]
    ended = any(one["event_type"] == "turn" and one.get("operation") == "end" for one in timeline)
    if ended or (last["event_type"] == "snapshot" and last.get("operation") == "turn_end"):
        return _of_look(last)
    if running:
        why = "the turn is still running; its files are those of the last look"
        return Certainty(RUNNING, why, ((EVERYTHING, why),))
    why = "no end of the turn was seen; its files are those of the last look"
    return Certainty(UNFINISHED, why, ((EVERYTHING, why),))


def _of_event(timeline: Sequence[Fields], looks: Sequence[int], moment: int, running: bool) -> Certainty:
    """A moment between two looks: paths that the later one found changed may have changed on either side."""
    end = effects_end(timeline, moment)
    if any(moment <= look < end for look in looks):
        return _of_look(timeline[max(look for look in looks if look < end)])
    before = [look for look in looks if look < end]
    base = _of_look(timeline[before[-1]]) if before else None
    after = next((look for look in looks if look >= end), None)
    if base is None or base.state in (NONE, FAILED):
        return base or Certainty(FAILED, _NOT_YET, ((EVERYTHING, _NOT_YET),))
    if after is None:
        whole = _of_end(timeline, looks, running)
        return base if whole.state in (EXACT, PARTIAL) else whole
    doubts = dict(base.paths)
    if _of_look(timeline[after]).state in (FAILED, PARTIAL):
        doubts[EVERYTHING] = "the next look at the directory was not whole"
    for event in timeline[end : after + 1]:
        if event["event_type"] == "file" and event.get("operation") != "read":
            for path in (event.get("path"), _payload(event).get("old_path")):
                if path is not None:
                    doubts.setdefault(str(path), _BETWEEN)
    if not doubts:
        return base
    return Certainty(PARTIAL, "some paths changed before the next look", tuple(sorted(doubts.items())))


_BETWEEN = "it changed at some time between this event and the next look"
_NOT_YET = "no look at the directory had been made by then"


def _of_look(look: Fields) -> Certainty:
    """What one look knows of its own moment."""
    capture = _capture(look)
    state = capture.get("state")
    if look.get("tree_hash") is None:
        reason = _FAILURES.get(str(state), "the look at the directory failed")
        why = f"{reason}; the files are those of an earlier look, if there is one"
        return Certainty(FAILED, why, ((EVERYTHING, why),))
    if state == "late":
        return Certainty(
            UNFINISHED,
            "its process was gone; the files are those found afterwards",
            _listed(capture, "paths", "count", "it changed after the last look before the process ended"),
        )
    if look.get("success") is False:
        doubts = _listed(capture, "pending_paths", "pending", "it was not looked at in time")
        return Certainty(PARTIAL, "its capture was not finished in time", doubts)
    return Certainty(EXACT)


_FAILURES = {
    "busy": "another capture was at work",
    "failed": "the look at the directory failed",
    "partial": "the look at the directory was not finished in time",
}


def _listed(capture: Fields, paths: str, count: str, reason: str) -> Doubts:
    """The paths that a look names; "." where it names fewer than it counted."""
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
    elif not doubts and paths == "pending_paths":
        doubts[EVERYTHING] = str(capture.get("warning") or "its capture was not finished in time")
    return tuple(sorted(doubts.items()))


def _payload(event: Fields) -> Fields:
    payload = event.get("payload")
    return payload if isinstance(payload, Mapping) else {}


def _capture(event: Fields) -> Fields:
    capture = _payload(event).get("capture")
    return capture if isinstance(capture, Mapping) else {}


def _causes(event: Fields) -> Sequence[object]:
    causes = _payload(event).get("causes")
    return causes if isinstance(causes, list) else ()
