"""Whether a turn without an end in the log is still running (docs/certainty.md).

The notes of hooks in `live/` decide (eventlog/base/activity.py). A turn without a note, because a program
records it through Python, counts as running for an hour after its last event, unless a later turn of its
session began.
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from eventlog.base.activity import DEAD, UNKNOWN_S_MAX, OpenTurn, open_turns
from eventlog.base.layout import Layout

if TYPE_CHECKING:
    from eventlog.query.lookup import TurnRef
    from eventlog.replay.trees import Events


def is_running(
    layout: Layout,
    events: "Events",
    ref: "TurnRef",
    now_ns: int,
    of_turn: Sequence[Mapping[str, Any]],
) -> bool:
    """Args: events: those of the store; of_turn: those of the turn, in order."""
    return state_of(open_turns(layout), of_turn, now_ns / 1e9) and not _has_later_turn(events, ref)


def state_of(open_now: Sequence[OpenTurn], of_turn: Sequence[Mapping[str, Any]], now_s: float) -> bool:
    """Whether the turn with these events is under way, judged by the turns that hooks noted."""
    turns = {_names(event) for event in of_turn if event.get("agent_turn_id") is not None}
    sessions = {(agent, session) for agent, session, _ in turns}
    noted = [noted_turn for noted_turn in open_now if (noted_turn.agent, noted_turn.session) in sessions]
    if noted:
        return any(
            (noted_turn.agent, noted_turn.session, noted_turn.turn) in turns
            and noted_turn.state(now_s) != DEAD
            for noted_turn in noted
        )
    if any("hook_us" in (event.get("payload") or ()) for event in of_turn):
        return False  # hooks recorded it, and it has no note
    recorded = [int(event["recorded_at"]) for event in of_turn if event.get("recorded_at") is not None]
    return bool(recorded) and now_s - max(recorded) / 1e6 <= UNKNOWN_S_MAX


def _names(event: Mapping[str, Any]) -> tuple[object, object, object]:
    return event.get("agent"), event.get("agent_session_id"), event.get("agent_turn_id")


def _has_later_turn(events: "Events", ref: "TurnRef") -> bool:
    later_events = events(ref.since, session_id=ref.session_id, event_types=("turn",), columns=("turn",))
    return any(event["turn"] is not None and int(str(event["turn"])) > ref.turn for event in later_events)
