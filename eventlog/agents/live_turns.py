"""Turns under way: how a call finds its own in the notes, and what it notes of it (docs/hooks.md).

A turn begins with its prompt, and where the hook of that was killed, with its first call. It is over with its
Stop, its closing, or a later turn of its session; a tool that begins after that resumes it. On the hook path.
"""

from eventlog.agents import live_state
from eventlog.agents.call import SESSION_END, TOOL, TOOL_START, TURN_END, TURN_START, Call, text_of
from eventlog.agents.live_state import Calls, Told, short
from eventlog.errors import LockTimeout
from eventlog.layout import Layout
from eventlog.locks import WORKTREE, acquire

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from eventlog.agents.live_place import Place
    from eventlog.fs import FileSystem

_LOCK_WAIT_S = 0.02


def meet(layout: Layout, place: "Place | None", call: Call, lines: "list[list[str]]") -> None:
    """Know the turn of a call within a turn, or at its end. Where a tool begins after the end of its turn, an
    event says that the turn goes on; where nothing was heard of the turn yet, it ends the one before it.

    Args: lines: gets what is to be noted of the session behind the append.
    """
    session, turn = call.session, call.turn
    if place is None or session is None or turn is None:
        return
    if call.moment == TOOL_START and live_state.has_ended(layout, session, turn):
        tool = text_of(call.events[0], "tool_use_id") or call.begins
        call.add("turn", {}, "turn", turn, "resume", tool, operation="resume", status="active")
        lines.append(["begun", short(turn)])
        return
    told = live_state.read_told(layout, place.key)
    under_way = told.open.get(session)
    if under_way is None or under_way[1] == turn:
        return
    call.unheard = short(turn) not in live_state.read_calls(layout, session).begun
    if not call.unheard:
        return
    lines.append(["begun", short(turn)])
    if call.moment == TOOL_START:  # else the look of this call closes it
        from eventlog.agents import live_closing

        call.events.append(live_closing.end_unseen(layout, told, session))
        lines.append(["ended", short(under_way[1])])


def is_another(told: Told, call: Call) -> bool:
    """Whether the turn of the call is not the one under way: a look in it is told in any case, since it comes
    after the end that the turn has, if it has one."""
    return call.turn is not None and told.open.get(call.session or "", ("", None))[1] != call.turn


def open_turn(told: Told, call: Call, known: Calls) -> "str | None":
    """The turn of this session that nobody ended."""
    parts = told.open.get(call.session or "")
    if parts is None or short(parts[1]) in known.ended:
        return None
    return parts[1]


def note(
    layout: Layout, told: Told, call: Call, captured: bool, environ: "Mapping[str, str]", now_ns: int
) -> None:
    """Let `told` say which turn of the session is under way behind this call.

    Args: captured: the look was whole.
    """
    session, turn = call.session, call.turn
    assert session is not None
    if call.moment in (TURN_END, SESSION_END):
        if captured:  # else what it left untold would pass for a person's
            told.open.pop(session, None)
    elif call.moment == TURN_START and turn is not None:
        live_state.note_open(told, (call.agent, session, turn), environ, now_ns)
    elif call.moment == TOOL and turn is not None and "subagent_id" not in call.columns:
        live_state.stay_open(layout, told, (call.agent, session, turn), environ, now_ns)


def keep_open(
    fs: "FileSystem",
    layout: Layout,
    worktree: str,
    turn: "tuple[str, str, str]",
    environ: "Mapping[str, str]",
    *,
    replaces: bool,
) -> None:
    """Note a turn as under way without a look, so that it is closed when it dies: where the look at its
    prompt failed, or the hook of that was killed. Raises: OSError.

    Args: turn: agent, session, turn; replaces: also where another one of its session is noted.
    """
    if not replaces and turn[1] in live_state.read_told(layout, worktree).open:
        return
    try:
        with acquire(fs, layout, WORKTREE + worktree, timeout_s=_LOCK_WAIT_S):
            told = live_state.read_told(layout, worktree)
            if replaces:
                live_state.note_open(told, turn, environ, fs.time_ns())
            else:
                live_state.stay_open(layout, told, turn, environ, fs.time_ns())
            live_state.write_told(layout, worktree, told)
    except LockTimeout:
        pass  # its next call notes it
