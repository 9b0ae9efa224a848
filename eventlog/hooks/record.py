"""Live capture: from one hook call of an agent to its events, in one frame (docs/design.md §23).

The hook program calls `record`. It completes what an adapter's `interpret` made of the call, captures the
working directory at the moments that ask for it, puts contents into one pack, and appends. If the directory,
the contents or the notes between calls fail, the event itself is still appended; only a failed append raises
(P4). Any number of processes may record at once: captures of one directory follow one another under its lock.
A process that does not get the lock in time leaves the changes to the next capture. No segment, index or
journal is read, so the cost does not depend on the size of the log.

`record` is the description: `HookContext` is what is known of a call before anything is written,
`captured.py` the capture with its frame, `EventWriter` what makes events whole and appends them.
"""

import errno
import time

from eventlog.agents.kit.call import (
    SESSION,
    SESSION_END,
    TOOL,
    TOOL_START,
    TURN_END,
    TURN_START,
    Call,
    object_of,
)  # fmt: skip
from eventlog.agents.kit.spec import FrozenRecord
from eventlog.agents.kit.tools import ANY
from eventlog.base import config, identity
from eventlog.base.errors import EventLogError, LockTimeout
from eventlog.base.fs import FileSystem
from eventlog.base.layout import Layout, StoreFiles
from eventlog.base.types import Event
from eventlog.hooks import state, texts
from eventlog.hooks.captured import (
    BUDGET_S,
    LOCK_WAIT_S_MIN,
    Captured,
    ContentStarter,
    DirectoryCapture,
    LogRefused,
    closing_of,
    has_ignored_values,
    is_of_capture,
)
from eventlog.hooks.locate import find_captured, find_directory
from eventlog.hooks.state import Calls, SessionNotes, short
from eventlog.log.journal import Journal
from eventlog.log.line import encode_line
from eventlog.secrets import admission, redaction

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from eventlog.agents.kit.call import EditedFile
    from eventlog.blobs.store import BlobStore
    from eventlog.blobs.writer import BlobWriter
    from eventlog.hooks.deferred_lists import Start
    from eventlog.hooks.locate import HookDirectory

    Note = Callable[[BaseException], None]

# Seconds until an agent stops waiting for the disk: around tools, and elsewhere where it is later.
_WAIT_S = 0.35
# A capture before a command is made only of directories this small, so that it adds little time to the hook.
EARLY_CAPTURE_FILES_MAX = 1_000
# Moments within a turn, and at its end.
_WITHIN = (TOOL_START, TOOL, TURN_END)
# Moments that read the notes of the session; a tool call does without.
_READS_NOTES = (TURN_START, TURN_END, SESSION_END)
# Seconds until contents are no longer scanned for erased texts: before the signal that ends a hook.
_SCAN_S = 3.0
_APPEND_TIMEOUT_S = 2.0
_SUSPECT_SIZE = 4 << 20  # of a hook's input
# Operations of session events that name the person who works in it.
_OPENED = ("start", "resume")
# Where a turn may be noted as under way.
_KEEPS_OPEN = (TURN_START, TOOL_START, TOOL)


class HookContext(FrozenRecord):
    """What is known of a call: `began_s` is when its recording began, `process` the agent that made it."""

    fs: "FileSystem"
    layout: "Layout"
    who: identity.Identity
    call: Call
    environ: "Mapping[str, str]"
    note: "Note"  # receives errors other than those of the append
    began_s: float
    process: str
    settings: config.Config
    keeps_ignored: bool
    redactor: redaction.Redactor
    directory: "HookDirectory | None"

    @property
    def patience(self) -> int:
        return patience(self.environ)

    def named(self) -> "dict[bytes, EditedFile]":
        """The files that the call names, by their path in the directory; others are left alone."""
        assert self.directory is not None
        cwd = str(self.call.columns.get("cwd") or self.directory.root)
        edited = {}
        for edited_file in self.call.tool.named:
            path = self.directory.inside(edited_file.path, cwd)
            if path is not None:
                edited[path] = edited_file
        return edited


def patience(environ: "Mapping[str, str]") -> int:
    """How many times longer a hook may take than usual: for very slow disks, and for tests."""
    setting = environ.get("LOCUS_HOOK_PATIENCE", "")
    return min(max(int(setting), 1), 100) if setting.isdecimal() else 1


def context_of(
    fs: "FileSystem",
    layout: "Layout",
    call: Call,
    environ: "Mapping[str, str]",
    note: "Note",
    directory: "HookDirectory | None" = None,
) -> HookContext:
    """The context of a call. Args: directory: the one to capture, where that is not the call's own."""
    who = identity.read(fs, layout)
    # Before anything is written: what goes on after a sync has other ancestors (`fs.Detaching`).
    within = call.session is not None and call.moment in _KEEPS_OPEN
    process = state.process_of(call.agent, environ) if within else ""
    settings = config.read(fs, layout)
    redactor = redaction.of_store(fs, layout, settings)
    if redactor.problem is not None:
        note(EventLogError(redactor.problem))
    if directory is None:
        try:
            directory = find_directory(layout.root, call, environ)
        except (OSError, ValueError) as error:
            note(error)
    return HookContext(
        fs=fs,
        layout=layout,
        who=who,
        call=call,
        environ=environ,
        note=note,
        began_s=time.monotonic(),
        process=process,
        settings=settings,
        keeps_ignored=config.keeps_ignored(fs, layout) is True,
        redactor=redactor,
        directory=directory,
    )


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


def close(
    fs: FileSystem, root: str, directory: str, by: str, environ: "Mapping[str, str]", note: "Note"
) -> int:
    """Close the turns of a captured directory whose process is gone; how many. `by` names the caller.

    Raises: EventLogError when the store takes no event, or the directory cannot be captured.
    """
    call = Call("locus", {"cwd": directory})
    call.moment = SESSION
    context = context_of(fs, Layout(root), call, environ, note, find_captured(directory))
    writer = EventWriter(context, time.monotonic())
    capture = DirectoryCapture(context, writer, SessionNotes(Calls()), ContentStarter(None), by=by)
    try:
        return capture.append([]).closed_count
    except LogRefused as refusal:
        raise refusal.reason from refusal.reason.__cause__


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
        state.meet_turn(context.layout, context.directory, call, notes.lines)


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
        state.note_calls(context.layout, session, lines)
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


# -- writing -----------------------------------------------------------------------------------


class EventWriter:
    """Writes the events of a call, once it has its turn.

    Args: started_s: monotonic time at which the hook began; input_size: bytes of its input.
    """

    def __init__(self, context: HookContext, started_s: float, input_size: int = 0) -> None:
        self._context = context
        self._started_s = started_s
        self._is_large = input_size > texts.TEXT_SIZE_MAX
        self._is_suspect = input_size > _SUSPECT_SIZE
        self._blobs: "BlobStore | None" = None
        columns: Event = {
            **context.call.columns,
            "repo": context.who.repo_hash,
            "occurred_at": context.fs.time_ns() // 1000,
        }
        if context.directory is not None:
            columns["worktree"], columns["branch"] = context.directory.worktree, context.directory.branch
            columns["commit"] = context.directory.commit
        self._common = columns

    def admit(self, event: Event) -> Event:
        """The event as it will be written, except its contents; redacted (P5), its id fixed."""
        whole = {**self._common, **event}
        if event["event_type"] == "session" and event.get("operation") in _OPENED:
            from eventlog.base import person

            context = self._context
            declared = person.start_fields(context.fs, context.environ, context.who.store_id)
            whole["payload"] = {**object_of(event, "payload"), **declared}
        return admission.admit(
            self._context.fs,
            {name: value for name, value in whole.items() if value is not None},
            self._context.redactor,
        )

    def open_blobs(self) -> "BlobStore":
        """The contents, scanned for secrets as they are put; `append` records which are withheld (P5)."""
        from eventlog.blobs.store import BlobStore

        context = self._context
        context.redactor.search_until = context.began_s + _SCAN_S * context.patience
        self._blobs = BlobStore(
            StoreFiles(context.fs, context.layout, context.who.store_id),
            kinds_in=context.redactor.kinds_in,
            modes=context.who.keeps_modes,
        )
        return self._blobs

    def moved(self, events: "list[Event]", pack: "BlobWriter") -> "list[Event]":
        """The events with their large texts, and those of files, in the blob store."""
        put, has = pack.put, pack.holds
        return [texts.move(event, put, suspect=self._is_suspect, has=has) for event in events]

    def append(self, events: "list[Event]") -> None:
        """One frame. Raises: EventLogError."""
        self.write(self.lines(events))

    def lines(self, events: "list[Event]") -> "list[bytes]":
        """The lines of a frame, with the events of contents that are withheld."""
        context, used_us = self._context, round((time.monotonic() - self._started_s) * 1e6)
        withheld = [] if self._blobs is None else self._blobs.withheld_events()
        lines = []
        for event in [*events, *(admission.admit(context.fs, event, context.redactor) for event in withheld)]:
            payload = {**object_of(event, "payload"), "hook_us": used_us}
            lines.append(encode_line({**event, "payload": payload}))
        return lines

    def write(self, lines: "list[bytes]") -> None:
        context = self._context
        self._note_begun()
        files = StoreFiles(context.fs, context.layout, context.who.store_id)
        journal = Journal(files, lock_timeout_s=_APPEND_TIMEOUT_S)
        try:
            journal.append(lines)
        finally:
            journal.close()  # the notes need descriptors, too, and there may be few

    def append_plain(self, events: "list[Event]") -> None:
        """Append without a capture; large texts go to a pack of their own if possible."""
        if self._is_large or any(map(texts.holds_file_text, events)):
            is_appended = False
            try:
                with (
                    self.open_blobs() as blobs,
                    blobs.writer(lock_timeout_s=LOCK_WAIT_S_MIN * 10) as pack,
                ):
                    stored_events = self.moved(events, pack)
                    pack.flush()
                    self.append(stored_events)
                    is_appended = True
                return
            except EventLogError as error:
                if is_appended:
                    raise
                self._context.note(error)
            events = [texts.move(event, texts.void, suspect=self._is_suspect) for event in events]
            for event in events:
                texts.forget_blobs(event)
        self.append(events)

    def _note_begun(self) -> None:
        """Note a tool that begins. It runs while its event waits for the disk, and its changes must not pass
        for those of another."""
        context, call = self._context, self._context.call
        if call.moment != TOOL_START or call.tool.started_action_id is None or context.directory is None:
            return
        try:
            state.note_begun(context.layout, context.directory.key, call, context.named(), context.process)
        except OSError as error:
            context.note(error)
