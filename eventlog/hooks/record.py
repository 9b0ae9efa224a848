"""Live capture: from one hook call of an agent to its events, in one frame (docs/design.md §23).

The hook program calls `record`. It completes what an adapter's `interpret` made of the call, captures the
working directory at the moments that ask for it, puts contents into one pack, and appends. If the directory,
the contents or the notes between calls fail, the event itself is still appended; only a failed append raises
(P4). Any number of processes may record at once: captures of one directory follow one another under its lock.
A process that does not get the lock in time leaves the changes to the next capture. No segment, index or
journal is read, so the cost does not depend on the size of the log.

`record` is the description: `context.py` has what is known of a call before anything is written and what
appends its events, `captured.py` the capture with its frame.
"""

import errno

from eventlog.agents.kit.call import (
    SESSION,
    SESSION_END,
    TOOL,
    TOOL_START,
    TURN_END,
    TURN_START,
    Call,
    text_of,
)  # fmt: skip
from eventlog.agents.kit.tools import ANY
from eventlog.base.errors import LockTimeout
from eventlog.base.fs import FileSystem
from eventlog.base.layout import Layout
from eventlog.base.names import short
from eventlog.base.types import Event
from eventlog.hooks import state, texts
from eventlog.hooks.captured import (
    BUDGET_S,
    Captured,
    ContentStarter,
    DirectoryCapture,
    LogRefused,
    closing_of,
    has_ignored_values,
    is_of_capture,
)
from eventlog.hooks.context import EventWriter, HookContext, context_of, patience
from eventlog.hooks.state import Calls, SessionNotes

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from eventlog.hooks.context import Note
    from eventlog.hooks.deferred_lists import Start

# Seconds until an agent stops waiting for the disk: around tools, and elsewhere where it is later.
_WAIT_S = 0.35
# A capture before a command is made only of directories this small, so that it adds little time to the hook.
EARLY_CAPTURE_FILES_MAX = 1_000
# Moments within a turn, and at its end.
_WITHIN = (TOOL_START, TOOL, TURN_END)
# Moments that read the notes of the session; a tool call does without.
_READS_NOTES = (TURN_START, TURN_END, SESSION_END)


def record(
    fs: FileSystem,
    root: str,
    call: Call,
    environ: "Mapping[str, str]",
    note: "Note",
    *,
    started_s: float,
    input_size: int = 0,
    start: "Start | None" = None,
) -> HookContext:
    """Append the events of a hook call, and of what it changed, to the store at `root`; what was known of it.

    Args:
        note: receives errors other than those of the append.
        started_s: monotonic time at which the hook began.
        input_size: bytes of the hook's input.
        start: starts the process that stores the contents which this call defers (docs/certainty.md §3).
    Raises: EventLogError when the store takes no event.
    """
    context = context_of(fs, Layout(root), call, environ, note)
    notes = _name(context)
    writer = EventWriter(context, started_s, input_size)
    starter = ContentStarter(start)
    try:
        _leave_out_ignored(context, writer)
        _complete(context, notes)
        _name_paths(context)
        events = [writer.admit(event) for event in call.events]
        captured = _append(context, writer, notes, starter, events) if events else None
        _remember(context, notes, captured)
    finally:
        starter.let_go()
    return context


def until_of(call: Call, environ: "Mapping[str, str]", now_s: float) -> float:
    """The monotonic time until which an agent waits for the hook of this call after its capture."""
    budget_s = 0.0 if call.moment in (None, TOOL) else BUDGET_S[call.moment]
    return now_s + max(_WAIT_S, budget_s) * patience(environ)


# -- completing the call -----------------------------------------------------------------------


def _name(context: HookContext) -> SessionNotes:
    """Give the call its turn and its ids, where the agent gives none; what is noted of its session."""
    call, layout = context.call, context.layout
    by_subagent = "subagent_id" in call.columns
    is_read = call.moment in _READS_NOTES or call.transcripts or call.may_duplicate or by_subagent
    notes = SessionNotes(Calls())
    if call.session is None:
        return notes
    if is_read:
        notes.calls = state.read_calls(layout, call.session)
    if by_subagent:
        from eventlog.hooks.subagents import count_in_its_turn

        key = None if context.directory is None else context.directory.key
        count_in_its_turn(layout, call, notes, key)
    if call.keys.called_at is not None or call.keys.counted or call.keys.model_call is not None:
        from eventlog.hooks import synthetic_ids

        try:
            if call.keys.counted:
                notes.calls = synthetic_ids.number(layout, call)
            elif call.keys.called_at is not None:
                notes.calls = synthetic_ids.complete(layout, call)
        except OSError as error:
            context.note(error)
        try:
            if call.keys.model_call is not None:
                synthetic_ids.number_model_call(layout, call)
        except OSError as error:
            context.note(error)
    return notes


def _leave_out_ignored(context: HookContext, writer: "EventWriter") -> None:
    """Remove from the call what its tools print of files that are kept although git ignores them (P5).

    The last capture kept them, or the next one does: a switch holds until a capture follows it.
    """
    call, directory = context.call, context.directory
    if not (
        context.keeps_ignored
        or (directory is not None and state.read_checkpoint(context.layout, directory.key).keeps)
    ):
        return
    from eventlog.hooks.ignored_texts import Outside, leave_out

    if any(event["event_type"] in ("tool_start", "action", "hook") for event in call.events):
        outside = None if directory is None else Outside(directory.root)
        call.events = leave_out(call.events, outside, call.columns.get("cwd"))
        if directory is not None and outside is not None and has_ignored_values(context):
            from eventlog.hooks.ignored_values import KeptValues

            def content(id: bytes) -> bytes:
                with writer.open_blobs() as blobs:
                    return blobs.get(id)

            values = KeptValues(context.layout, directory.key, directory.root, outside, content)
            call.events = values.take_out(call.events)


def _complete(context: HookContext, notes: SessionNotes) -> None:
    """Complete the events from earlier notes and transcripts, and recognise the turn that they are of."""
    call = context.call
    is_incomplete = call.may_duplicate or call.tool.all_ended or call.transcripts or call.moment == SESSION
    if is_incomplete or call.prompt is not None:
        from eventlog.hooks.enrich import Completion

        try:
            Completion(context, notes).run()
        except Exception as error:
            context.note(error)
    if call.moment in _WITHIN and "subagent_id" not in call.columns:
        _meet_turn(context, notes.lines)


def _meet_turn(context: HookContext, lines: "list[list[str]]") -> None:
    """Recognise the turn of a call within a turn, or at its end.

    Where a tool begins after the end of its turn, an event records that the turn goes on. Where nothing was
    reported of the turn yet, its first capture was missed, and it ends the turn before it.

    Args: lines: receives what is to be noted of the session after the append.
    """
    layout, directory, call = context.layout, context.directory, context.call
    session, turn = call.session, call.turn
    if directory is None or session is None or turn is None:
        return
    if call.moment == TOOL_START and state.has_ended(layout, session, turn):
        tool = text_of(call.events[0], "tool_use_id") or call.tool.started_action_id
        call.add("turn", {}, "turn", turn, "resume", tool, operation="resume", status="active")
        lines.append(["begun", short(turn)])
        return
    checkpoint = state.read_checkpoint(layout, directory.key)
    under_way = checkpoint.open.get(session)
    if under_way is not None and under_way[1] == turn:
        return
    call.unheard = call.unheard or short(turn) not in state.read_calls(layout, session).begun
    if not call.unheard:
        return
    lines.append(["begun", short(turn)])
    call.add_missed_look(turn)
    if under_way is not None and call.moment == TOOL_START:  # else the capture of this call closes it
        from eventlog.hooks import closing

        now_us = context.fs.time_ns() // 1000
        call.events.append(closing.end_superseded(layout, directory.key, checkpoint, session, now_us))
        lines.append(["ended", short(under_way[1])])


def _name_paths(context: HookContext) -> None:
    """Give the events of tools the path that their arguments name, where it is one in the directory."""
    paths: "dict[object, str | None]" = {}  # of each call
    for event in context.call.events:
        payload, is_of_tool = event.get("payload"), event["event_type"] in texts.OF_TOOLS
        if context.directory is not None and is_of_tool and isinstance(payload, dict):
            path = context.directory.path_of(payload.get("args"), context.call.columns.get("cwd"))
            event["path"] = paths[event.get("tool_use_id")] = path
        elif event["event_type"] == "error":
            event["path"] = paths.get(event.get("tool_use_id"))


# -- into the log ------------------------------------------------------------------------------


def _append(
    context: HookContext,
    writer: "EventWriter",
    notes: SessionNotes,
    starter: ContentStarter,
    events: "list[Event]",
) -> "Captured | None":
    """Append the events, with what a capture finds where the moment asks for one; None without one."""
    call = context.call
    if context.directory is None or call.moment is None or not _captures(context):
        writer.append_plain(events)
        return None
    capture = DirectoryCapture(context, writer, notes, starter)
    try:
        return capture.append(events)
    except LogRefused as refusal:
        reason = refusal.reason
        if not _lacks_descriptors(reason):  # asking again would only take longer
            raise reason from reason.__cause__
    except Exception as error:
        reason = error
        if isinstance(error, TimeoutError):
            capture.leave_first()
    events = [*events, *_missed_snapshot(context, capture)]
    _mark(events, "busy" if isinstance(reason, LockTimeout) else "failed")
    writer.append_plain(events)
    if call.moment != TOOL_START or not isinstance(reason, LockTimeout):
        context.note(reason)  # a missed capture before a command is no loss
    return None


def _captures(context: HookContext) -> bool:
    """Whether this moment captures the directory: before a tool or a turn where nobody has yet, and where
    it is worth it."""
    call = context.call
    assert context.directory is not None
    if call.moment not in (SESSION, TOOL_START):
        return True
    checkpoint = state.read_checkpoint(context.layout, context.directory.key)
    if checkpoint.tree is None:
        return True
    if call.moment == SESSION:
        return closing_of(context, checkpoint, "hook") is not None
    # A command that begins, in the turn under way and among few files. Then its changes can be told apart
    # from earlier ones even if it is killed.
    is_small = checkpoint.files is not None and checkpoint.files <= EARLY_CAPTURE_FILES_MAX
    return is_small and call.tool.kind == ANY and not state.is_another_turn(checkpoint, call)


def _missed_snapshot(context: HookContext, capture: DirectoryCapture) -> "list[Event]":
    """The snapshot of a capture that failed after a tool which ended after its turn: the turn goes on."""
    assert context.directory is not None
    if context.call.moment != TOOL:
        return []
    checkpoint = state.read_checkpoint(context.layout, context.directory.key)
    return [capture.tool_snapshot()] if state.is_another_turn(checkpoint, context.call) else []


def _mark(events: "list[Event]", capture_state: str) -> None:
    """Note in the event of the moment that its capture is left to the next one."""
    for event in events:
        payload = event.get("payload")
        if isinstance(payload, dict) and (event["event_type"] == "action" or is_of_capture(event)):
            payload["capture"] = {"state": capture_state}
            if event["event_type"] == "snapshot":
                event["success"] = False


def _lacks_descriptors(error: "BaseException | None") -> bool:
    """Whether something could not be opened for want of descriptors, some of which a capture gives back."""
    while error is not None:
        if isinstance(error, OSError) and error.errno in (errno.EMFILE, errno.ENFILE):
            return True
        error = error.__cause__
    return False


# -- for later calls ---------------------------------------------------------------------------


def _remember(context: HookContext, notes: SessionNotes, captured: "Captured | None") -> None:
    """After the append: notes for later calls. They may be lost."""
    call, session, turn = context.call, context.call.session, context.call.turn
    if session is None:
        return
    is_whole = captured is not None and captured.is_whole
    lines = notes.lines
    try:
        if call.moment == TURN_START and turn is not None:
            stamped = [turn, call.keys.called_at] if call.keys.called_at is not None else []
            lines.append(["begun", short(turn), *stamped])
        elif call.moment == TURN_END and turn is not None:
            lines.append(["ended", short(turn)])
        elif call.moment in (SESSION, SESSION_END):
            lines.append(["opened" if call.moment == SESSION else "over"])
        elif call.tool.cause is not None:
            lines.append(["action", call.tool.cause, "told" if is_whole or call.moment is None else "late"])
        state.note_calls(context.layout, session, lines, context.fs.time_ns())
        if context.directory is not None:
            is_noted = captured is not None and captured.is_noted
            _remember_running(context, context.directory.key, is_noted=is_noted, is_whole=is_whole)
    except OSError as error:
        context.note(error)


def _remember_running(context: HookContext, key: str, *, is_noted: bool, is_whole: bool) -> None:
    """Args: is_noted: the capture has noted the turn as under way; is_whole: it was whole."""
    call, layout, session, turn = context.call, context.layout, context.call.session, context.call.turn
    if session is not None and call.moment == SESSION:
        state.note_restarted(layout, key, session)
    if session is not None and turn is not None and call.moment in (TOOL_START, TURN_START):
        begins = call.moment == TURN_START
        if not (is_noted if begins else "subagent_id" in call.columns):
            replaces = begins or call.unheard
            under_way = (call.agent, session, turn)
            state.keep_open(context.fs, layout, key, under_way, context.process, replaces=replaces)
    elif call.tool.ended:
        state.note_ended(layout, key, call.tool.ended, late=call.moment == TOOL and not is_whole)
