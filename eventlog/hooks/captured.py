"""A capture of the working directory at a hook call, and the frame that records it (docs/design.md §23).

Under the lock of the directory: capture, contents into one pack, one frame, and then the notes for the next
capture. Captures of one directory follow one another; the order of these steps is what makes a kill between
any two of them harmless. On the hook path.
"""

import os
import time

from eventlog.agents.kit.call import SESSION, SESSION_END, TOOL, TOOL_START, TURN_END, TURN_START, object_of
from eventlog.agents.kit.spec import FrozenRecord
from eventlog.agents.kit.tools import ANY, EDITS
from eventlog.base.config import WATCHMAN
from eventlog.base.errors import Corruption, NotFound
from eventlog.base.locks import WORKTREE, acquire
from eventlog.base.names import short
from eventlog.base.types import Event
from eventlog.hooks import state
from eventlog.hooks.context import EventWriter, HookContext
from eventlog.hooks.state import CaptureCheckpoint, CaptureResult, Closing, SessionNotes

TYPE_CHECKING = False
if TYPE_CHECKING:
    from eventlog.blobs.deferred import DeferredFile
    from eventlog.blobs.store import BlobStore
    from eventlog.blobs.writer import BlobWriter
    from eventlog.hooks.closing import Ends
    from eventlog.hooks.deferred_lists import Start, Started
    from eventlog.hooks.state import Running
    from eventlog.hooks.watched import WatchedLook
    from eventlog.worktree.capture import Capture, CaptureScope

_LOCK_WAIT_S_MIN = 0.02
# Seconds from the end of the input until a capture reads no more files.
BUDGET_S = {
    SESSION: 2.0, TURN_START: 2.0, TOOL_START: 0.05, TOOL: 0.4, TURN_END: 2.0, SESSION_END: 0.3,
}  # fmt: skip
# Moments that come after the turns which their capture closes; all others are within a turn, or end it.
_ENDS_FIRST = (SESSION, TURN_START, SESSION_END)
# Moments whose capture counts in the turn of the call.
_CAPTURED_IN_TURN = (TURN_START, TOOL_START, TOOL, TURN_END)
_SHOWN_MAX = 50
_SCOPED_MAX = 1_000  # paths that the snapshot of a watched capture names
# Seconds to wait for git's answer to what differs from the commit.
_GIT_S = 0.5


class LogRefused(Exception):
    """The log took nothing."""

    def __init__(self, reason: Exception) -> None:
        self.reason = reason


class Captured(FrozenRecord):
    """What became of a capture whose events are in the log."""

    is_whole: bool
    is_noted: bool  # the notes for the next capture are written, the turn under way among them
    closed_count: int  # turns


class ContentStarter:
    """Starts the process that stores what a capture defers, and waits for the copies that it makes.

    They are made while the event is written; the wait ends when an agent would notice it.
    """

    def __init__(self, start: "Start | None") -> None:
        self.start = start
        self.started: "Started | None" = None
        self.wait_until = 0.0

    def let_go(self) -> None:
        if self.started is not None:
            self.started.wait(self.wait_until - time.monotonic())
            self.started.close()


def closing_of(context: HookContext, checkpoint: CaptureCheckpoint, by: str) -> Closing | None:
    """The turns that a whole capture closes: their process is gone, or their session left them."""
    abandoned = state.abandoned_turns(checkpoint, context.call, context.fs.time_ns() / 1e9)
    if not abandoned:
        return None
    return Closing(abandoned, by)


class DirectoryCapture:
    """The capture at one call. `by` names what closes turns."""

    def __init__(
        self,
        context: HookContext,
        writer: EventWriter,
        notes: SessionNotes,
        starter: ContentStarter,
        *,
        by: str = "hook",
    ) -> None:
        assert context.directory is not None and context.call.moment is not None
        self._context = context
        self._call = context.call
        self._directory = context.directory
        self._writer = writer
        self._notes = notes
        self._starter = starter
        self._by = by
        self._taken: "Capture | None" = None
        self._watched_look: "WatchedLook | None" = None  # what a watcher was asked
        self._budget_s = BUDGET_S[context.call.moment] * context.patience
        self._deadline = starter.wait_until = context.began_s + self._budget_s

    def append(self, events: "list[Event]") -> Captured:
        """Append `events` with what changed in the directory.

        Raises: LogRefused when the append failed, anything else before it.
        """
        layout, key, deadline = self._context.layout, self._directory.key, self._deadline
        # A process that waited for the lock still needs time to capture.
        timeout_s = max(_LOCK_WAIT_S_MIN, deadline - self._budget_s / 4 - time.monotonic())
        captured: "Captured | None" = None
        try:
            with (
                acquire(self._context.fs, layout, WORKTREE + key, timeout_s=timeout_s),
                self._writer.open_blobs() as blobs,
                blobs.writer(lock_timeout_s=max(_LOCK_WAIT_S_MIN, deadline - time.monotonic())) as pack,
            ):
                checkpoint = state.read_checkpoint(layout, key)
                closing = closing_of(self._context, checkpoint, self._by)
                result = self._capture(pack, checkpoint, closing)
                self._taken = result.capture
                events = self._writer.moved(events, pack)
                self._store_later(result.capture, checkpoint)
                files = self._files(result, checkpoint, blobs, pack)
                pack.flush()
                ends = self._ends(result, checkpoint)
                frame = self._frame(events, files, result, checkpoint, ends, blobs)
                self._write(frame)
                captured = Captured(
                    is_whole=not result.capture.partial,
                    is_noted=self._note(result, checkpoint, ends),
                    closed_count=0 if ends is None else ends.count,
                )
        except Exception as error:
            if captured is None:
                raise
            self._context.note(error)
        finally:
            if self._taken is not None:
                self._taken.close()
        assert captured is not None
        return captured

    def _write(self, frame: "list[Event]") -> None:
        if not frame:
            return
        lines = self._writer.lines(frame)
        try:
            self._writer.write(lines)
        except Exception as error:
            raise LogRefused(error) from error

    # -- the capture ---------------------------------------------------------------------------

    def _capture(
        self, pack: "BlobWriter", checkpoint: CaptureCheckpoint, closing: Closing | None
    ) -> CaptureResult:
        from eventlog.worktree.capture import Haste, capture, selection_of
        from eventlog.worktree.contents import Deferral

        root = self._directory.root
        keeps = self._keeps_ignored(checkpoint, closing)  # before: it may switch
        scope = self._where(checkpoint, closing)
        selection = selection_of(self._context.settings, keep_ignored=keeps)
        # A hook has one thread, and ends soon.
        haste = Haste(self._deadline, deferral=Deferral(self._context.named()), may_fork=True)
        previous, switched = checkpoint.tree, None
        try:
            captured = capture(pack, root, previous=previous, selection=selection, haste=haste, scope=scope)
            if previous is not None and checkpoint.keeps is not checkpoint.tree_keeps:
                from eventlog.hooks.switch import changes_without

                captured.changes = changes_without(captured, root, checkpoint.keeps)
                switched = checkpoint.keeps
        except (NotFound, Corruption) as error:
            if previous is None:
                raise
            self._context.note(error)  # the last recorded tree cannot be read: start over
            captured, previous = capture(pack, root, selection=selection, haste=haste, scope=scope), None
        dead = closing.dead() if closing is not None else frozenset()
        under_way = state.running(self._context.layout, self._directory.key, checkpoint, dead)
        return CaptureResult(
            capture=captured,
            previous=previous,
            switched=switched,
            closing=closing,
            under_way=under_way,
            is_watched=scope is not None and scope.watched and captured.scoped is not None,
        )

    def _where(self, checkpoint: CaptureCheckpoint, closing: Closing | None) -> "CaptureScope | None":
        """The paths that this capture compares; None for all."""
        from eventlog.worktree.capture import CaptureScope

        asks = self._context.settings.watcher is not None
        may_leave = (asks or self._call.tool.kind == EDITS) and self._may_leave(checkpoint, closing)
        paths, others = None, []
        if may_leave:
            others = state.running(self._context.layout, self._directory.key, checkpoint)
            paths = self._scope(others)
        if paths is not None or not asks:
            return None if paths is None else CaptureScope(paths)
        from eventlog.hooks import watched

        if checkpoint.files is None or checkpoint.files <= watched.FILES_MIN:
            return None
        context, directory = self._context, self._directory
        self._watched_look = watched.look_at(
            context.fs, context.layout, directory.key, directory.root, context.patience
        )
        if self._watched_look is None:
            return None
        paths = self._watched_look.changed(may_watch=may_leave and not any(tool.dead for tool in others))
        return None if paths is None else CaptureScope(paths, watched=True)

    def _may_leave(self, checkpoint: CaptureCheckpoint, closing: Closing | None) -> bool:
        """Whether this capture may leave paths to the next full one: it follows a tool of the turn under
        way, and closes none."""
        call = self._call
        if call.moment != TOOL or closing is not None or call.unheard:
            return False
        if checkpoint.keeps is not checkpoint.tree_keeps or call.session in checkpoint.passed:
            return False
        if call.session is None or call.turn is None:
            return False
        # The last capture after the end of a turn is that of its end.
        return not (
            state.is_another_turn(checkpoint, call)
            or state.has_ended(self._context.layout, call.session, call.turn)
        )

    def _scope(self, others: "list[Running]") -> "frozenset[bytes] | None":
        """The paths that the capture after an edit tool compares; None for all.

        All, where something else may have made changes that must be distinguished from this edit: a tool that
        may change anything runs at the same time, or ended without a capture.
        """
        call = self._call
        if call.tool.kind != EDITS:
            return None
        others = [tool for tool in others if tool.cause != call.tool.cause]
        if any(tool.kind == ANY or tool.late or tool.dead for tool in others):
            return None
        return frozenset(self._context.named()) or None

    def _keeps_ignored(self, checkpoint: CaptureCheckpoint, closing: Closing | None) -> bool:
        """Whether this capture keeps ignored files: as the setting says, once no turn spans the change."""
        wanted = self._context.keeps_ignored
        if checkpoint.tree is None:
            checkpoint.keeps = wanted
        elif checkpoint.keeps is not wanted:
            from eventlog.hooks.switch import may_switch

            if may_switch(checkpoint, self._call, closing):
                checkpoint.keeps = wanted
        return checkpoint.keeps

    def _store_later(self, capture: "Capture", checkpoint: CaptureCheckpoint) -> None:
        """Make sure that some process stores the contents that the tree lacks, and finishes a first capture
        for which a hook has too little time."""
        layout, root = self._context.layout, self._directory.root
        is_deferred = bool(capture.deferred) or os.path.exists(
            layout.live(self._directory.key + state.DEFERRED)
        )
        if not (is_deferred or capture.is_unread or capture.awaits_contents):
            return
        from eventlog.hooks import deferred_lists

        try:
            is_open = deferred_lists.note_open(layout, self._directory.key, root, capture.deferred)
            is_left = capture.is_unread and (checkpoint.tree is None or capture.rules_left)
            if not is_open if capture.awaits_contents else is_left:
                from eventlog.hooks import unfinished

                unfinished.note(layout, self._directory.key, root)
                is_open = True
            if is_open:
                self._start(capture.new_deferred)
        except OSError as error:
            self._context.note(error)  # the next capture finds them open

    def leave_first(self) -> None:
        """Have the process beside the hooks make the first capture: this hook had too little time."""
        layout, key = self._context.layout, self._directory.key
        if state.read_checkpoint(layout, key).tree is not None:
            return
        from eventlog.hooks import unfinished

        try:
            unfinished.note(layout, key, self._directory.root)
            self._start([])
        except OSError as error:
            self._context.note(error)  # the next hook tries it

    def _start(self, new: "list[DeferredFile]") -> None:
        """Start the process beside the hooks unless one will see what is open. Raises: OSError."""
        from eventlog.hooks import deferred_lists

        layout, starter = self._context.layout, self._starter
        if starter.start is not None and (new or not deferred_lists.is_being_done(self._context.fs, layout)):
            starter.started = starter.start(deferred_lists.Job(layout, self._directory.root, new))

    # -- its events ----------------------------------------------------------------------------

    def _frame(
        self,
        events: "list[Event]",
        files: "list[Event]",
        result: CaptureResult,
        checkpoint: CaptureCheckpoint,
        ends: "Ends | None",
        blobs: "BlobStore",
    ) -> "list[Event]":
        """The events of the call with those of the capture, in the order in which they are written."""
        call, capture, facts = self._call, result.capture, self._facts(result, files)
        of_turn = self._facts_of_turn(capture, blobs) if call.moment in (TURN_START, TURN_END) else {}
        events = [self._with_facts(event, result, facts, of_turn) for event in events]
        differs = (
            capture.changes
            or capture.modes_changed
            or result.previous is None
            or call.session in checkpoint.passed
        )
        before, after = ([], []) if ends is None else (ends.before, ends.after)
        if call.moment in _ENDS_FIRST:
            return [*before, *files, *after, *events]
        if call.moment == TOOL:
            if state.is_another_turn(checkpoint, call) or (differs and capture.has_changes):
                events += [*files, self._with_tree(self.tool_snapshot(), result, facts)]
        elif call.moment == TOOL_START:
            if differs and capture.has_changes:
                events = [*files, self._with_tree(self.tool_snapshot(), result, facts), *events]
        else:
            first = next((i for i, event in enumerate(events) if is_of_capture(event)), 0)
            events[first:first] = files
        return [*before, *events, *after]

    def _files(
        self, result: CaptureResult, checkpoint: CaptureCheckpoint, blobs: "BlobStore", pack: "BlobWriter"
    ) -> "list[Event]":
        """The file events of a capture, as they will be written."""
        from eventlog.hooks.file_events import FILES_MAX, FileEventBuilder

        call = self._call
        changes = result.capture.changes if result.capture.has_changes else []
        if len(changes) > FILES_MAX or not changes:
            return []
        is_end = call.moment == SESSION_END
        turn = state.open_turn(checkpoint, call, self._notes.calls) if is_end else call.turn
        named = self._context.named()
        builder = FileEventBuilder(call, turn, checkpoint, result.capture, named, result.under_way, pack)
        return [self._writer.admit(event) for change in changes for event in builder.build(change, blobs)]

    def _ends(self, result: CaptureResult, checkpoint: CaptureCheckpoint) -> "Ends | None":
        """What closes turns and calls that are dead; None where none is."""
        if result.closing is None and not any(tool.dead for tool in result.under_way):
            return None
        from eventlog.hooks import closing

        return closing.ends_of(
            self._context,
            result,
            checkpoint,
            self._writer.admit,
            lambda event, facts: self._with_tree(event, result, facts),
        )

    def _facts(self, result: CaptureResult, files: "list[Event]") -> Event:
        """What a snapshot reports of a capture that is not whole; empty for one that is."""
        facts: "dict[str, object]" = {}
        capture = result.capture
        if capture.partial:
            from eventlog.base.paths import path_text

            facts["state"] = "partial"
            facts["pending"] = capture.pending_count
            facts["pending_paths"] = [path_text(path) for path in capture.pending[:_SHOWN_MAX]]
        elif result.previous is None:
            facts["state"] = "baseline"
        if capture.warning is not None:
            facts["warning"] = capture.warning
        if result.previous is not None and capture.has_changes and len(files) < len(capture.changes):
            facts["changes"] = len(capture.changes)
            facts["told"] = len(files)
        return facts

    def _facts_of_turn(self, capture: "Capture", blobs: "BlobStore") -> "dict[str, object]":
        """The facts of the snapshot at a turn's start or end beside its tree (S1-36, S1-37), null where
        unknown. The notes receive the tree of a start, which the end counts from."""
        from eventlog.worktree.capture import git_facts

        call, directory = self._call, self._directory
        until = min(self._deadline, time.monotonic() + _GIT_S * self._context.patience)
        in_git = directory.commit is not None or directory.branch is not None
        facts = git_facts(os.fsencode(directory.root), until) if in_git else {}
        if call.turn is None or capture.partial:
            return facts
        turn = short(call.turn)
        if call.moment == TURN_START:
            self._notes.lines.append(["tree", turn, capture.root.hex()])
        elif turn in self._notes.calls.trees:
            facts["files_changed"] = capture.count_changed(blobs, self._notes.calls.trees[turn])
        return facts

    def _with_facts(
        self, event: Event, result: CaptureResult, facts: "dict[str, object]", of_turn: "dict[str, object]"
    ) -> Event:
        """`event` with the result of the capture: its tree in a snapshot, its gaps in the moment's event."""
        if is_of_capture(event):
            return self._with_tree(event, result, facts, of_turn)
        if facts and event["event_type"] == "action":
            return {**event, "payload": {**object_of(event, "payload"), "capture": facts}}
        return event

    def tool_snapshot(self) -> Event:
        """The snapshot after a tool call that changed something, without its tree."""
        event: Event = {"event_type": "snapshot", "operation": "tool", "cause": self._call.tool.cause}
        event["payload"] = {"snapshot_type": "tool"}
        return self._writer.admit(event)

    def _with_tree(
        self,
        event: Event,
        result: CaptureResult,
        facts: "dict[str, object]",
        of_turn: "dict[str, object] | None" = None,
    ) -> Event:
        from eventlog.blobs.ids import to_text

        capture, tree = result.capture, to_text(result.capture.root)
        filled = {
            **object_of(event, "payload"),
            "git_head": self._directory.commit,
            "git_branch": self._directory.branch,
            "keep_ignored": result.switched,
            **capture.facts(),
            **(of_turn or {}),
            "capture": {**facts, **_scope_facts(result), **capture.deferred_facts()} or None,
        }
        return {
            **event,
            "tree_hash": tree,
            "success": not capture.partial,
            "blobs": [tree, *capture.lists()],
            "payload": {name: value for name, value in filled.items() if value is not None},
        }

    # -- after the append ----------------------------------------------------------------------

    def _note(self, result: CaptureResult, checkpoint: CaptureCheckpoint, ends: "Ends | None") -> bool:
        """Write the notes for the next capture, which may be lost; whether they were."""
        try:
            self._write_notes(result, checkpoint, ends)
            return True
        except Exception as error:
            self._context.note(error)
            return False

    def _write_notes(self, result: CaptureResult, checkpoint: CaptureCheckpoint, ends: "Ends | None") -> None:
        context, call, capture, key = self._context, self._call, result.capture, self._directory.key
        layout, is_whole = context.layout, not result.capture.partial
        # The tools of a turn without an id are over.
        is_between = call.moment in (TURN_START, TURN_END, SESSION_END)
        late = [
            tool.cause
            for tool in result.under_way
            if tool.late or (is_between and tool.turn_key[1:] == (call.session, "") and not tool.by_subagent)
        ]
        if ends is not None:
            late += ends.causes
            ends.forget(layout, checkpoint)
        if call.session is not None:
            now_ns = context.fs.time_ns()
            state.note_turn(layout, checkpoint, call, is_whole, context.process, now_ns)
        if capture.has_changes:  # else the next one reports all changes since the last recorded tree
            turn = call.turn if call.moment in _CAPTURED_IN_TURN else None
            checkpoint.note_capture(call.session, turn, capture.root)
            checkpoint.tree, checkpoint.tree_keeps = capture.root, checkpoint.keeps
            checkpoint.nonce, checkpoint.files = os.urandom(8).hex(), capture.files
            if capture.scoped is None:
                checkpoint.has_gaps = not is_whole
        state.write_checkpoint(layout, key, checkpoint)
        if self._watched_look is not None:  # after the tree is noted that holds all from before this clock
            self._watched_look.note(capture, is_watched=result.is_watched)
        if capture.kept_ignored or has_ignored_values(context):
            from eventlog.hooks import ignored_values

            ignored_values.note(layout, key, capture.kept_contents())
        if is_whole:
            state.note_ended(layout, key, late)
        if call.moment == TURN_START and len(checkpoint.open) == 1:
            state.trim_running(layout, key)


def has_ignored_values(context: HookContext) -> bool:
    """Whether files with settings are kept that git ignores."""
    directory = context.directory
    return directory is not None and os.path.exists(context.layout.live(f"{directory.key}.kept"))


def _scope_facts(result: CaptureResult) -> "dict[str, object]":
    """The paths that a capture compared, where that was not all of them (docs/certainty.md §1).

    Of those that a watcher reported only the changed ones: others may be in no tree, and their names private.
    """
    scoped = result.capture.scoped
    if scoped is None:
        return {}
    from eventlog.base.paths import path_text

    if not result.is_watched:
        return {"scoped_paths": [path_text(path) for path in scoped]}
    changed = sorted({change.path for change in result.capture.changes})
    return {"by": WATCHMAN, "scoped_paths": [path_text(path) for path in changed[:_SCOPED_MAX]]}


def is_of_capture(event: Event) -> bool:
    """Whether an event is the snapshot of this capture, and not of one that was missed."""
    return event["event_type"] == "snapshot" and event.get("success") is None
