"""The end of turns that were never ended: their agent is gone, or has gone on to another prompt.

docs/certainty.md §2 has the rules. The next whole capture of the directory closes them, in its own frame: an
action with unknown result for each call that died, the changes since the last capture, the present tree with
the paths that changed, the end of the turn and, where the process is gone, of its session. All ids derive
from the turn's, so closing it twice is closing it once. Under the lock of the directory. On the hook path,
but loaded only where something is to be closed.
"""

import os

from eventlog.agents.kit.call import TURN_START, Call
from eventlog.base import activity
from eventlog.base.layout import Layout
from eventlog.base.names import event_id_of, short
from eventlog.base.types import Event
from eventlog.hooks import state
from eventlog.hooks.state import GONE, SUPERSEDED, CaptureCheckpoint, Running

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from eventlog.hooks.context import HookContext
    from eventlog.hooks.state import CaptureResult
    from eventlog.worktree.capture import Capture

HOOK = "hook"

_WHY = "it changed after the turn's last capture"
_NOT_WHOLE = "the capture after the turn was not finished in time"
_PASSED = "another session changed files after the turn's last capture"
_UNNAMED = "calls of a later prompt, which was not heard, were counted in the turn"
_UNREADABLE = "the tree of the turn's last capture cannot be read"
_PATHS_MAX = 1000  # that a snapshot names; of more it gives the number


class Ends:
    """The events that close what a whole capture found dead: those before the changes, and those after them.

    `causes` are the calls that died, `turns` the turns no longer under way; `count` of them get their end.
    """

    __slots__ = ("after", "before", "causes", "count", "turns")

    def __init__(self, turns: "Sequence[activity.OpenTurn]") -> None:
        self.before: "list[Event]" = []
        self.after: "list[Event]" = []
        self.causes: "list[str]" = []
        self.count = 0
        self.turns = turns

    def forget(self, layout: Layout, checkpoint: CaptureCheckpoint) -> None:
        """Remove the closed turns from those under way, after the append. Raises: OSError."""
        for turn in self.turns:
            checkpoint.open.pop(turn.session, None)
            state.note_calls(layout, turn.session, [["ended", short(turn.turn)]])


def ends_of(
    context: "HookContext",
    result: "CaptureResult",
    checkpoint: CaptureCheckpoint,
    admit: "Callable[[Event], Event]",
    fill: "Callable[[Event, dict[str, object]], Event]",
) -> Ends:
    """The events that close the turns and the dead calls that a capture has found.

    A capture that is not whole closes only the turn that a prompt follows; the others stay noted.

    Args:
        checkpoint: its nonce separates a second closing of one turn from a repetition.
        admit: makes an event whole.
        fill: puts the tree of the capture, and its facts, into a snapshot.
    """
    layout, call = context.layout, context.call
    closing, under_way, capture = result.closing, result.under_way, result.capture
    by = HOOK if closing is None else closing.by
    turns = {} if closing is None else closing.turns
    if capture.partial:
        own_session = call.session if call.moment == TURN_START else None
        turns = {session: turn for session, turn in turns.items() if session == own_session}
        under_way = [tool for tool in under_way if tool.turn_key[1] in turns]
    ends = Ends([turn for turn, _ in turns.values()])
    for tool in under_way:
        if tool.dead and not tool.late:
            ended_us = _last_hook_us(layout, tool.turn_key[1], result.under_way)
            ends.before.append(admit(_action(tool, by, ended_us)))
            ends.causes.append(tool.cause)
    for turn, reason in turns.values():
        notes = state.read_calls(layout, turn.session)
        if short(turn.turn) in notes.ended:
            continue  # it has its end; its remaining changes are recorded now
        ends.count += 1
        payload: "dict[str, object]" = {"reason": reason, "closed_by": by}
        snapshot_payload = {"snapshot_type": "turn_end"}
        snapshot = admit(_event(turn, checkpoint.nonce, "snapshot", "turn_end", None, snapshot_payload))
        ended_us = _ended_us(layout, turn, notes, result.under_way, snapshot["occurred_at"])
        doubt = _all_doubtful(turn, call, capture, result.previous, checkpoint)
        ends.after.append(fill(snapshot, _late(capture, doubt)))
        ends.after.append(
            admit(_event(turn, checkpoint.nonce, "turn", "end", ended_us, payload, status="interrupted"))
        )
        if reason == GONE and turn.session != call.session and not notes.over:
            payload = {"end_reason": reason, "closed_by": by}
            ended = _event(turn, checkpoint.nonce, "session", "end", ended_us, payload, status="interrupted")
            ends.after.append(admit(ended))
    return ends


def end_superseded(
    layout: Layout, worktree: str, checkpoint: CaptureCheckpoint, session: str, now_us: int
) -> Event:
    """The end of the turn under way that a later one of its session follows, without a capture.

    Args: worktree: the key of the directory.
    """
    turn = activity.parse_open(session, checkpoint.open[session])
    assert turn is not None
    payload = {"reason": SUPERSEDED, "closed_by": HOOK}
    notes, tools = state.read_calls(layout, session), state.running(layout, worktree, checkpoint)
    ended_us = _ended_us(layout, turn, notes, tools, now_us)
    return _event(turn, checkpoint.nonce, "turn", "end", ended_us, payload, status="interrupted")


def _event(
    turn: activity.OpenTurn,
    nonce: str,
    event_type: str,
    operation: str,
    occurred_us: "int | None",
    payload: "Mapping[str, object]",
    **columns: object,
) -> Event:
    event: Event = {
        **_columns(turn.agent, turn.session, turn.turn),
        "event_type": event_type,
        "operation": operation,
        "event_id": event_id_of(turn.agent, event_type, turn.turn, "closed", nonce),
        "payload": dict(payload),
        **columns,
    }
    if event_type == "session":
        event["agent_turn_id"] = None
    return event if occurred_us is None else {**event, "occurred_at": occurred_us}


def _columns(agent: str, session: str, turn: str) -> Event:
    """The columns of a turn, and none of the call that closes it."""
    return {
        "agent": agent, "agent_session_id": session, "agent_turn_id": turn or None,
        "subagent_id": None, "agent_version": None, "cwd": None, "model": None,
    }  # fmt: skip


def _action(tool: Running, by: str, ended_us: "int | None") -> Event:
    event: Event = {
        **_columns(*tool.turn_key),
        "event_type": "action",
        "event_id": tool.cause,
        "tool": tool.tool,
        "payload": {"ended_by": GONE, "closed_by": by},
    }
    if tool.tool_use_id != "-":
        event["tool_use_id"] = tool.tool_use_id
    return event if ended_us is None else {**event, "occurred_at": ended_us}


def _all_doubtful(
    turn: activity.OpenTurn,
    call: Call,
    capture: "Capture",
    previous: "bytes | None",
    checkpoint: CaptureCheckpoint,
) -> "str | None":
    """Why no path is certain at the end of a turn; None where the capture names those that are not."""
    if capture.partial:
        return _NOT_WHOLE
    if previous is None:
        return _UNREADABLE
    if call.unheard and call.answers is not None and turn.session == call.session:
        return _UNNAMED
    return _PASSED if turn.session in checkpoint.passed else None


def _late(capture: "Capture", doubt: "str | None") -> "dict[str, object]":
    from eventlog.base.paths import path_text

    if doubt is not None:
        return {"state": "late", "paths": [[".", doubt]], "count": 1}
    changed_paths: "dict[str, None]" = {}
    for change in capture.changes:
        for path in (change.old_path, change.path):
            if path is not None:
                changed_paths[path_text(path)] = None
    paths = [[path, _WHY] for path in list(changed_paths)[:_PATHS_MAX]]
    return {"state": "late", "paths": paths, "count": len(changed_paths)}


def _ended_us(
    layout: Layout, turn: activity.OpenTurn, notes: state.Calls, tools: "Sequence[Running]", now_us: object
) -> "int | None":
    """The end of a turn: when its session was last heard of. Notes that do not name the turn may be older
    than it; its start is noted to the second elsewhere."""
    assert isinstance(now_us, int)
    hook_us = _last_hook_us(layout, turn.session, tools)
    if hook_us is None or short(turn.turn) in notes.begun:
        return hook_us
    return max(hook_us, min((turn.began_s + 1) * 10**6, now_us))


def _last_hook_us(layout: Layout, session: str, tools: "Sequence[Running]") -> "int | None":
    """When the last hook of a session ran, as far as is noted: it ended then or later. None where the notes
    are gone.

    Args: tools: those under way, of any session; a hook that begins one notes nothing else of its session.
    """
    try:
        noted_us = os.stat(layout.live(f"{short(session)}.calls")).st_mtime_ns // 1000
    except OSError:
        return None
    return max([noted_us, *(tool.began_us for tool in tools if tool.turn_key[1] == session)])
