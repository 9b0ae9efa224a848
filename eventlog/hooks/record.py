"""Live capture: from one hook call of an agent to its events, in one frame (docs/design.md §23).

The hook program calls `record`. It completes what an adapter's `interpret` made of the call, captures the
working directory at the moments that ask for it, puts contents into one pack, and appends. If the directory,
the contents or the notes between calls fail, the event itself is still appended; only a failed append raises
(P4). Any number of processes may record at once: captures of one directory follow one another under its lock.
A process that does not get the lock in time leaves the changes to the next capture. No segment, index or
journal is read, so the cost does not depend on the size of the log.
"""

import errno
import os
import time

from eventlog.agents.kit.call import (
    SESSION,
    SESSION_END,
    TOOL,
    TOOL_START,
    TURN_END,
    TURN_START,
    Call,
    EditedFile,
)  # fmt: skip
from eventlog.agents.kit.tools import ANY
from eventlog.base import config, identity
from eventlog.base.errors import Corruption, EventLogError, LockTimeout, NotFound
from eventlog.base.fs import FileSystem
from eventlog.base.layout import Layout, StoreFiles
from eventlog.base.locks import WORKTREE, acquire
from eventlog.base.types import Event
from eventlog.hooks import state, texts
from eventlog.hooks.locate import find_captured, find_directory
from eventlog.hooks.state import Calls, CaptureCheckpoint, Running, short
from eventlog.log.journal import Journal
from eventlog.log.line import encode_line
from eventlog.secrets import admission, redaction

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

    from eventlog.blobs.store import BlobStore
    from eventlog.blobs.writer import BlobWriter
    from eventlog.hooks.closing import Closing, Ends
    from eventlog.hooks.deferred_lists import Start, Started
    from eventlog.hooks.locate import HookDirectory
    from eventlog.worktree.capture import Capture

    Note = Callable[[BaseException], None]

# Seconds from the end of the input until a capture reads no more files.
BUDGET_S = {
    SESSION: 2.0, TURN_START: 2.0, TOOL_START: 0.05, TOOL: 0.4, TURN_END: 2.0, SESSION_END: 0.3,
}  # fmt: skip
# Seconds until an agent stops waiting for the disk: around tools, and elsewhere where it is later.
_WAIT_S = 0.35
# A capture before a command is made only of directories this small, so that it adds little time to the hook.
EARLY_CAPTURE_FILES_MAX = 1_000
# Seconds until contents are no longer scanned for erased texts: before the signal that ends a hook.
_SCAN_S = 3.0
# Moments that come after the turns which their capture closes; all others are within a turn, or end it.
_ENDS_FIRST = (SESSION, TURN_START, SESSION_END)
# Moments whose capture counts in the turn of the call.
_CAPTURED_IN_TURN = (TURN_START, TOOL_START, TOOL, TURN_END)
# Moments within a turn, and at its end.
_WITHIN = (TOOL_START, TOOL, TURN_END)
# Where a turn may be noted as under way.
_KEEPS_OPEN = (TURN_START, TOOL_START, TOOL)
# Moments that read the notes of the session; a tool call does without.
_READS_NOTES = (TURN_START, TURN_END, SESSION_END)
_APPEND_TIMEOUT_S = 2.0
# Operations of session events that name the person who works in it.
_OPENED = ("start", "resume")
_LOCK_WAIT_S_MIN = 0.02
_SUSPECT_SIZE = 4 << 20  # of a hook's input
_SHOWN_MAX = 50
# Seconds to wait for git's answer to what differs from the commit.
_GIT_S = 0.5


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
) -> "Recorded":
    """Append the events of a hook call, and of what it changed, to the store at `root`.

    Args:
        note: receives errors other than those of the append.
        started_s: monotonic time at which the hook began.
        input_size: bytes of the hook's input.
        start: starts the process that stores the contents which this call defers (docs/certainty.md §3).
    Raises: EventLogError when the store takes no event.
    """
    layout = Layout(root)
    who = identity.read(fs, layout)
    recorder = HookRecorder(fs, layout, who, call, environ, note, started_s, input_size)
    recorder.start = start
    try:
        recorder.run()
    finally:
        recorder.let_go()
    return Recorded(layout, who, recorder.settings, recorder.directory)


def close(
    fs: FileSystem, root: str, directory: str, by: str, environ: "Mapping[str, str]", note: "Note"
) -> int:
    """Close the turns of a captured directory whose process is gone; how many. `by` names the caller.

    Raises: EventLogError when the store takes no event, or the directory cannot be captured.
    """
    call = Call("locus", {"cwd": directory})
    call.moment = SESSION
    layout = Layout(root)
    who = identity.read(fs, layout)
    recorder = HookRecorder(fs, layout, who, call, environ, note, time.monotonic(), 0)
    recorder.closes_for = by
    recorder.directory = find_captured(directory)
    recorder.common = recorder._common()
    recorder._with_capture([])
    return recorder.closed_count


class Recorded:
    """Where a call was recorded, for a caller that has more to do with it."""

    __slots__ = ("directory", "layout", "settings", "who")

    def __init__(
        self,
        layout: Layout,
        who: identity.Identity,
        settings: config.Config,
        directory: "HookDirectory | None",
    ) -> None:
        self.layout = layout
        self.who = who
        self.settings = settings
        self.directory = directory


def until_of(call: Call, environ: "Mapping[str, str]", now_s: float) -> float:
    """The monotonic time until which an agent waits for the hook of this call after its capture."""
    budget_s = 0.0 if call.moment in (None, TOOL) else BUDGET_S[call.moment]
    return now_s + max(_WAIT_S, budget_s) * patience(environ)


def patience(environ: "Mapping[str, str]") -> int:
    """How many times longer a hook may take than usual: for very slow disks, and for tests."""
    setting = environ.get("LOCUS_HOOK_PATIENCE", "")
    return min(max(int(setting), 1), 100) if setting.isdecimal() else 1


class HookRecorder:
    """One call on its way into the log."""

    def __init__(
        self,
        fs: FileSystem,
        layout: Layout,
        who: identity.Identity,
        call: Call,
        environ: "Mapping[str, str]",
        note: "Note",
        started_s: float,
        input_size: int,
    ) -> None:
        self.fs = fs
        self.layout = layout
        self.who = who
        self.call = call
        self.note = note
        self.started_s = started_s
        self.began_s = time.monotonic()
        self.environ = environ
        self.large = input_size > texts.TEXT_SIZE_MAX
        self.suspect = input_size > _SUSPECT_SIZE
        self.lines: "list[list[str]]" = []  # for the notes of the session
        self.late: "list[str]" = []  # actions whose changes this capture reports
        self.closes_for = "hook"
        self.closing: "Closing | None" = None  # turns that this capture closes
        self.closed_count = 0
        self.under_way: "list[Running]" = []
        self.begun = False  # the tool that begins is noted
        self.appended = False
        self.captured = False
        self.switched: "bool | None" = None  # whether ignored files are kept, from this capture on
        self.noted = False  # the turn is among those under way
        self.refused = False
        self.of_turn: "dict[str, object]" = {}  # facts of the snapshot at its start or end, beside the tree
        self.directory: "HookDirectory | None" = None
        self.start: "Start | None" = None
        self.started: "Started | None" = None  # the process that stores what this call defers
        self.wait_until = self.began_s
        # Before anything is written: what goes on after a sync has other ancestors (`fs.Detaching`).
        within = call.session is not None and call.moment in _KEEPS_OPEN
        self.process = state.process_of(call.agent, environ) if within else ""
        self.blobs: "BlobStore | None" = None
        self.settings = config.read(fs, layout)
        self.keeps_ignored = config.keeps_ignored(fs, layout) is True
        self.redactor = redaction.of_store(fs, layout, self.settings)
        if self.redactor.problem is not None:
            note(EventLogError(self.redactor.problem))
        try:
            self.directory = find_directory(layout.root, call, environ)
        except (OSError, ValueError) as error:
            note(error)
        self.notes = Calls()
        by_subagent = "subagent_id" in call.columns
        needs_notes = call.moment in _READS_NOTES or call.transcripts or call.may_duplicate or by_subagent
        if call.session is not None and needs_notes:
            self.notes = state.read_calls(layout, call.session)
        if by_subagent:
            from eventlog.hooks.subagents import count_in_its_turn

            key = None if self.directory is None else self.directory.key
            count_in_its_turn(layout, call, self.notes, self.lines, key)
        if call.session is not None and (call.called_at is not None or call.counted):
            self._name_call()
        if call.model_call is not None and call.session is not None:
            self._number_model_call()
        self.common = self._common()

    def _name_call(self) -> None:
        """Give ids from the notes to calls that the agent does not name."""
        from eventlog.hooks import synthetic_ids

        try:
            if self.call.counted:
                self.notes = synthetic_ids.number(self.layout, self.call)
            else:
                self.notes = synthetic_ids.complete(self.layout, self.call)
        except OSError as error:
            self.note(error)

    def _number_model_call(self) -> None:
        from eventlog.hooks import synthetic_ids

        try:
            synthetic_ids.number_model_call(self.layout, self.call)
        except OSError as error:
            self.note(error)

    def run(self) -> None:
        call = self.call
        if self.keeps_ignored or self._captured_ignored():
            self._leave_out_ignored()
        needs_notes = call.may_duplicate or call.tools_settled or call.transcripts or call.moment == SESSION
        if needs_notes or call.prompt is not None:
            self._complete()
        if call.moment in _WITHIN and "subagent_id" not in call.columns:
            state.meet_turn(self.layout, self.directory, call, self.lines)
        self._name_paths()
        events = [self._admit(event) for event in call.events]
        if events and (self.directory is None or call.moment is None or not self._captures()):
            self._append_plain(events)
        elif events:
            try:
                self._with_capture(events)
            except Exception as error:
                if self.refused and not _lacks_descriptors(error):
                    raise  # the log takes nothing; asking again would only take longer
                if not self.appended:
                    events = [*events, *self._missed_snapshot()]
                    self._mark(events, "busy" if isinstance(error, LockTimeout) else "failed")
                    self._append_plain(events)
                if call.moment != TOOL_START or not isinstance(error, LockTimeout):
                    self.note(error)  # a missed capture before a command is no loss
        self._remember()

    def _name_paths(self) -> None:
        """Give the events of tools the path that their arguments name, where it is one in the directory."""
        paths: "dict[object, str | None]" = {}  # of each call
        for event in self.call.events:
            payload, is_of_tool = event.get("payload"), event["event_type"] in texts.OF_TOOLS
            if self.directory is not None and is_of_tool and isinstance(payload, dict):
                path = self.directory.path_of(payload.get("args"), self.call.columns.get("cwd"))
                event["path"] = paths[event.get("tool_use_id")] = path
            elif event["event_type"] == "error":
                event["path"] = paths.get(event.get("tool_use_id"))

    def let_go(self) -> None:
        """Wait for the copies of what was deferred, made while the event is written, if time is left."""
        if self.started is not None:
            self.started.wait(self.wait_until - time.monotonic())
            self.started.close()

    def _captured_ignored(self) -> bool:
        """Whether the last capture kept ignored files: it holds until a capture follows the switch."""
        return self.directory is not None and state.read_checkpoint(self.layout, self.directory.key).keeps

    def _leave_out_ignored(self) -> None:
        """Remove from the call what its tools print of files that are kept although git ignores them (P5)."""
        from eventlog.hooks.ignored_texts import Outside, leave_out

        call = self.call
        if any(event["event_type"] in ("tool_start", "action", "hook") for event in call.events):
            outside = None if self.directory is None else Outside(self.directory.root)
            call.events = leave_out(call.events, outside, call.columns.get("cwd"))
            if self.directory is not None and outside is not None and self._has_ignored_values():
                from eventlog.hooks.ignored_values import KeptValues

                key, root = self.directory.key, self.directory.root
                call.events = KeptValues(self.layout, key, root, outside, self._content).take_out(call.events)

    def _has_ignored_values(self) -> bool:
        return self.directory is not None and os.path.exists(self.layout.live(f"{self.directory.key}.kept"))

    def _content(self, id: bytes) -> bytes:
        with self._open_blobs() as blobs:
            return blobs.get(id)

    def _complete(self) -> None:
        from eventlog.hooks.enrich import Completion

        context = self.layout, self.who, self.call, self.directory, self.notes
        try:
            Completion(*context, self.redactor, self.lines, self.note).run()
        except Exception as error:
            self.note(error)

    def _common(self) -> Event:
        directory = self.directory
        columns: Event = {
            **self.call.columns,
            "repo": self.who.repo_hash,
            "occurred_at": self.fs.time_ns() // 1000,
        }
        if directory is not None:
            columns["worktree"], columns["branch"] = directory.worktree, directory.branch
            columns["commit"] = directory.commit
        return {name: value for name, value in columns.items() if value is not None}

    # -- capturing the directory ---------------------------------------------------------------

    def _captures(self) -> bool:
        """Whether this moment captures the directory: before a tool or a turn where nobody has yet, and where
        it is worth it."""
        assert self.directory is not None
        if self.call.moment not in (SESSION, TOOL_START):
            return True
        checkpoint = state.read_checkpoint(self.layout, self.directory.key)
        if checkpoint.tree is None:
            return True
        if self.call.moment == SESSION:
            return self._closing(checkpoint) is not None
        return self._captures_before_command(checkpoint)

    def _captures_before_command(self, checkpoint: CaptureCheckpoint) -> bool:
        """Whether a command begins, in the turn under way and among few files. Then its changes can be told
        from earlier ones even if it is killed."""
        is_small = checkpoint.files is not None and checkpoint.files <= EARLY_CAPTURE_FILES_MAX
        return is_small and self.call.kind == ANY and not state.is_another_turn(checkpoint, self.call)

    def _closing(self, checkpoint: CaptureCheckpoint) -> "Closing | None":
        """The turns that a whole capture closes: their process is gone, or their session left them."""
        abandoned = state.abandoned_turns(checkpoint, self.call, self.fs.time_ns() / 1e9)
        if not abandoned:
            return None
        from eventlog.hooks.closing import Closing

        return Closing(abandoned, self.closes_for)

    def _with_capture(self, events: "list[Event]") -> None:
        """Append `events` with what changed in the directory. Raises: anything; see `appended`."""
        assert self.directory is not None and self.call.moment is not None
        budget_s = BUDGET_S[self.call.moment] * patience(self.environ)
        self.wait_until = deadline = self.began_s + budget_s
        # A process that waited for the lock still needs time to capture.
        timeout_s = max(_LOCK_WAIT_S_MIN, deadline - budget_s / 4 - time.monotonic())
        lock = acquire(self.fs, self.layout, WORKTREE + self.directory.key, timeout_s=timeout_s)
        with lock, self._open_blobs() as blobs:
            timeout_s = max(_LOCK_WAIT_S_MIN, deadline - time.monotonic())
            with blobs.writer(lock_timeout_s=timeout_s) as writer:
                checkpoint = state.read_checkpoint(self.layout, self.directory.key)
                self.closing = self._closing(checkpoint)
                capture, previous = self._capture(blobs, writer, checkpoint, deadline)
                stored_events = self._moved(events, writer)
                self._append_captured(stored_events, capture, previous, checkpoint, blobs, writer)

    def _capture(
        self, blobs: "BlobStore", writer: "BlobWriter", checkpoint: CaptureCheckpoint, deadline: float
    ) -> "tuple[Capture, bytes | None]":
        """The capture, and the tree that its changes start from."""
        from eventlog.worktree.capture import FILE_SIZE_MAX, capture
        from eventlog.worktree.contents import Deferral

        assert self.directory is not None
        root, settings = self.directory.root, self.settings
        options: "dict[str, Any]" = {
            "include": settings.include,
            "keep_ignored": self._keeps_ignored(checkpoint),
            "size_max": FILE_SIZE_MAX if settings.max_file_bytes is None else settings.max_file_bytes,
            "deadline": deadline,
            "may_fork": True,  # a hook has one thread, and ends soon
            "deferral": Deferral(self._named()),
        }
        try:
            captured = capture(blobs, writer, root, previous=checkpoint.tree, **options)
            if checkpoint.tree is not None and checkpoint.keeps is not checkpoint.tree_keeps:
                from eventlog.hooks.switch import changes_without

                captured.changes = changes_without(captured, root, checkpoint.keeps)
                self.switched = checkpoint.keeps
            return captured, checkpoint.tree
        except (NotFound, Corruption) as error:
            if checkpoint.tree is None:
                raise
            self.note(error)  # the last recorded tree cannot be read: begin anew
        return capture(blobs, writer, root, **options), None

    def _keeps_ignored(self, checkpoint: CaptureCheckpoint) -> bool:
        """Whether this capture keeps ignored files: as the setting says, once no turn spans the change."""
        if checkpoint.tree is None:
            checkpoint.keeps = self.keeps_ignored
        elif checkpoint.keeps is not self.keeps_ignored:
            from eventlog.hooks.switch import may_switch

            if may_switch(checkpoint, self.call, self.closing):
                checkpoint.keeps = self.keeps_ignored
        return checkpoint.keeps

    def _append_captured(
        self,
        events: "list[Event]",
        capture: "Capture",
        previous: "bytes | None",
        checkpoint: CaptureCheckpoint,
        blobs: "BlobStore",
        writer: "BlobWriter",
    ) -> None:
        call, directory = self.call, self.directory
        assert directory is not None and call.moment is not None
        self._store_later(capture)
        files = self._files(capture, checkpoint, blobs, writer)
        writer.flush()
        facts = self._facts(capture, previous, files)
        if call.moment in (TURN_START, TURN_END):
            until = min(self.wait_until, time.monotonic() + _GIT_S * patience(self.environ))
            self.of_turn = state.facts_of_turn(call, self.notes, self.lines, directory, capture, blobs, until)
        events = [self._with_facts(event, capture, facts) for event in events]
        ends = self._ends(capture, previous, checkpoint)
        differs = (
            capture.changes or capture.modes_changed or previous is None or call.session in checkpoint.passed
        )
        if call.moment == TOOL:
            if state.is_another_turn(checkpoint, call) or (differs and not capture.partial):
                events += [*files, self._snapshot(capture, facts)]
        elif call.moment == TOOL_START:
            if differs and not capture.partial:
                events = [*files, self._snapshot(capture, facts), *events]
        elif call.moment in _ENDS_FIRST:
            events = [*files, *(ends.after if ends is not None else []), *events]
        else:
            first = next((i for i, event in enumerate(events) if _is_of_capture(event)), 0)
            events = events[:first] + files + events[first:]
        if ends is not None:
            closing_events = [] if call.moment in _ENDS_FIRST else ends.after
            events = [*ends.before, *events, *closing_events]
        if events:
            self._append(events)
        self.appended, self.captured = True, not capture.partial
        if ends is not None:
            self.late += ends.causes
            self.closed_count = ends.count
            ends.forget(self.layout, checkpoint)
        if call.session is not None:
            state.note_turn(self.layout, checkpoint, call, self.captured, self.process, self.fs.time_ns())
        if not capture.partial:  # else the next one reports all changes since the last recorded tree
            turn = call.turn if call.moment in _CAPTURED_IN_TURN else None
            checkpoint.note_capture(call.session, turn, capture.root)
            checkpoint.tree, checkpoint.tree_keeps = capture.root, checkpoint.keeps
            checkpoint.nonce, checkpoint.files = os.urandom(8).hex(), capture.files
        state.write_checkpoint(self.layout, directory.key, checkpoint)
        self.noted = True
        if capture.kept_ignored or self._has_ignored_values():
            from eventlog.hooks import ignored_values

            ignored_values.note(self.layout, directory.key, capture.kept_contents())
        if not capture.partial:
            state.note_ended(self.layout, directory.key, self.late)
        if call.moment == TURN_START and len(checkpoint.open) == 1:
            state.trim_running(self.layout, directory.key)

    def _store_later(self, capture: "Capture") -> None:
        """Make sure that some process stores the contents that the tree lacks."""
        from eventlog.hooks import deferred_lists

        assert self.directory is not None
        root = self.directory.root
        try:
            is_open = deferred_lists.note_open(self.layout, self.directory.key, root, capture.deferred)
            if self.start is None or not is_open:
                return
            if capture.new_deferred or not deferred_lists.is_being_done(self.fs, self.layout):
                self.started = self.start(deferred_lists.Job(self.layout, root, capture.new_deferred))
        except OSError as error:
            self.note(error)  # the next capture finds them open

    def _files(
        self, capture: "Capture", checkpoint: CaptureCheckpoint, blobs: "BlobStore", writer: "BlobWriter"
    ) -> "list[Event]":
        """The file events of a capture, as `_admit` makes them."""
        from eventlog.hooks.file_events import FILES_MAX, FileEventBuilder

        call, directory = self.call, self.directory
        assert directory is not None
        dead = self.closing.dead() if self.closing is not None else frozenset()
        self.under_way = state.running(self.layout, directory.key, checkpoint, dead)
        self.late = [tool.cause for tool in self.under_way if tool.late]
        changes = [] if capture.partial else capture.changes
        if len(changes) > FILES_MAX or not changes:
            return []
        turn = state.open_turn(checkpoint, call, self.notes) if call.moment == SESSION_END else call.turn
        builder = FileEventBuilder(call, turn, checkpoint, capture, self._named(), self.under_way, writer)
        return [self._admit(event) for change in changes for event in builder.build(change, blobs)]

    def _ends(
        self, capture: "Capture", previous: "bytes | None", checkpoint: CaptureCheckpoint
    ) -> "Ends | None":
        """What closes turns and calls that are dead; None where none is."""
        if self.closing is None and not any(tool.dead for tool in self.under_way):
            return None
        from eventlog.hooks import closing

        return closing.ends_of(
            self.layout,
            self.closing,
            self.under_way,
            self.call,
            capture,
            previous,
            checkpoint,
            self._admit,
            lambda event, facts: self._with_tree(event, capture, facts),
        )

    def _named(self) -> "dict[bytes, EditedFile]":
        """The files that the call names, by their path in the directory; others are left alone."""
        assert self.directory is not None
        cwd = str(self.call.columns.get("cwd") or self.directory.root)
        edited = {}
        for edited_file in self.call.named:
            path = self.directory.inside(edited_file.path, cwd)
            if path is not None:
                edited[path] = edited_file
        return edited

    def _facts(self, capture: "Capture", previous: "bytes | None", files: "list[Event]") -> Event:
        """What a snapshot reports of a capture that is not whole; empty for one that is."""
        facts: "dict[str, object]" = {}
        if capture.partial:
            facts["state"] = "partial"
            facts["pending"] = capture.pending_count
            facts["pending_paths"] = [_shown(path) for path in capture.pending[:_SHOWN_MAX]]
        elif previous is None:
            facts["state"] = "baseline"
        if capture.warning is not None:
            facts["warning"] = capture.warning
        if previous is not None and not capture.partial and len(files) < len(capture.changes):
            facts["changes"] = len(capture.changes)
            facts["told"] = len(files)
        return facts

    def _with_facts(self, event: Event, capture: "Capture", facts: "dict[str, object]") -> Event:
        """`event` with the result of the capture: its tree in a snapshot, its gaps in the moment's event."""
        if _is_of_capture(event):
            return self._with_tree(event, capture, facts, self.of_turn)
        if facts and event["event_type"] == "action":
            payload = event["payload"]
            assert isinstance(payload, dict)
            return {**event, "payload": {**payload, "capture": facts}}
        return event

    def _snapshot(self, capture: "Capture", facts: "dict[str, object]") -> Event:
        """The tree after a tool call that changed something."""
        return self._with_tree(self._tool_snapshot(), capture, facts)

    def _tool_snapshot(self) -> Event:
        event: Event = {"event_type": "snapshot", "operation": "tool", "cause": self.call.cause}
        event["payload"] = {"snapshot_type": "tool"}
        return self._admit(event)

    def _with_tree(
        self,
        event: Event,
        capture: "Capture",
        facts: "dict[str, object]",
        of_turn: "dict[str, object] | None" = None,
    ) -> Event:
        from eventlog.blobs.ids import to_text

        assert self.directory is not None
        tree = to_text(capture.root)
        payload = event["payload"]
        assert isinstance(payload, dict)
        filled = {
            **payload,
            "git_head": self.directory.commit,
            "git_branch": self.directory.branch,
            "keep_ignored": self.switched,
            **capture.facts(),
            **(of_turn or {}),
            "capture": {**facts, **capture.deferred_facts()} or None,
        }
        return {
            **event,
            "tree_hash": tree,
            "success": not capture.partial,
            "blobs": [tree, *capture.lists()],
            "payload": {name: value for name, value in filled.items() if value is not None},
        }

    # -- into the log --------------------------------------------------------------------------

    def _admit(self, event: Event) -> Event:
        """The event as it will be written, except its contents; redacted (P5), its id fixed."""
        whole = {**self.common, **event}
        if event["event_type"] == "session" and event.get("operation") in _OPENED:
            payload = event["payload"]
            assert isinstance(payload, dict)
            whole["payload"] = {**payload, **self._person()}
        return admission.admit(
            self.fs, {name: value for name, value in whole.items() if value is not None}, self.redactor
        )

    def _person(self) -> "dict[str, object]":
        from eventlog.base import person

        return person.start_fields(self.fs, self.environ, self.who.store_id)

    def _missed_snapshot(self) -> "list[Event]":
        """The snapshot of a capture that failed after a tool which ended after its turn: the turn goes on."""
        assert self.directory is not None
        if self.call.moment != TOOL:
            return []
        checkpoint = state.read_checkpoint(self.layout, self.directory.key)
        return [self._tool_snapshot()] if state.is_another_turn(checkpoint, self.call) else []

    def _mark(self, events: "list[Event]", capture_state: str) -> None:
        """Note in the event of the moment that its capture is left to the next one."""
        for event in events:
            payload = event.get("payload")
            if isinstance(payload, dict) and (event["event_type"] == "action" or _is_of_capture(event)):
                payload["capture"] = {"state": capture_state}
                if event["event_type"] == "snapshot":
                    event["success"] = False

    def _append_plain(self, events: "list[Event]") -> None:
        """Append without a capture; large texts go to a pack of their own if possible."""
        if self.large or any(map(texts.holds_file_text, events)):
            try:
                events = self._append_with_pack(events)
            except EventLogError as error:
                if self.appended:
                    raise
                self.note(error)
                events = [texts.move(event, texts.void, suspect=self.suspect) for event in events]
                for event in events:
                    texts.forget_blobs(event)
        if not self.appended:
            self._append(events)

    def _append_with_pack(self, events: "list[Event]") -> "list[Event]":
        with (
            self._open_blobs() as blobs,
            blobs.writer(lock_timeout_s=_LOCK_WAIT_S_MIN * 10) as writer,
        ):
            stored_events = self._moved(events, writer)
            writer.flush()
            self._append(stored_events)
            self.appended = True
        return stored_events

    def _moved(self, events: "list[Event]", writer: "BlobWriter") -> "list[Event]":
        """The events with their large texts, and those of files, in the blob store."""
        put, has = writer.put, writer.holds
        return [texts.move(event, put, suspect=self.suspect, has=has) for event in events]

    def _open_blobs(self) -> "BlobStore":
        """The contents, scanned for secrets as they are put; `_append` records which are withheld (P5)."""
        from eventlog.blobs.store import BlobStore

        self.redactor.search_until = self.began_s + _SCAN_S * patience(self.environ)
        self.blobs = BlobStore(
            StoreFiles(self.fs, self.layout, self.who.store_id),
            kinds_in=self.redactor.kinds_in,
            modes=self.who.keeps_modes,
        )
        return self.blobs

    def _append(self, events: "list[Event]") -> None:
        """One frame. Raises: EventLogError."""
        used_us = round((time.monotonic() - self.started_s) * 1e6)
        lines = []
        withheld = [] if self.blobs is None else self.blobs.withheld_events()
        for event in [*events, *(admission.admit(self.fs, event, self.redactor) for event in withheld)]:
            payload = event["payload"]
            assert isinstance(payload, dict)
            lines.append(encode_line({**event, "payload": {**payload, "hook_us": used_us}}))
        self._note_begun()
        files = StoreFiles(self.fs, self.layout, self.who.store_id)
        journal = Journal(files, lock_timeout_s=_APPEND_TIMEOUT_S)
        self.refused = True
        try:
            journal.append(lines)
        finally:
            journal.close()  # the notes need descriptors, too, and there may be few
        self.refused = False

    def _note_begun(self) -> None:
        """Note a tool that begins. It runs while its event waits for the disk, and its changes must not pass
        for those of another."""
        call, directory, cause, begun = self.call, self.directory, self.call.started_action_id, self.begun
        self.begun = True
        if begun or call.moment != TOOL_START or cause is None or directory is None:
            return
        session, turn, first = call.session, call.turn, call.events[0]
        if session is None or turn is None:
            return
        paths = [short(path) for path in self._named()]
        tool = str(first.get("tool_use_id") or "-"), str(first.get("tool") or "-")
        outlives = (call.agent, self.process) if "subagent_id" in call.columns else None
        try:
            state.note_begun(
                self.layout, directory.key, (session, turn), cause, tool, call.kind, paths, outlives
            )
        except OSError as error:
            self.note(error)

    def _remember(self) -> None:
        """After the append: notes for later calls. They may be lost."""
        call, session, turn = self.call, self.call.session, self.call.turn
        if session is None:
            return
        try:
            if call.moment == TURN_START and turn is not None:
                stamped = [turn, call.called_at] if call.called_at is not None else []
                self.lines.append(["begun", short(turn), *stamped])
            elif call.moment == TURN_END and turn is not None:
                self.lines.append(["ended", short(turn)])
            elif call.moment in (SESSION, SESSION_END):
                self.lines.append(["opened" if call.moment == SESSION else "over"])
            elif call.cause is not None:
                captured = self.captured or call.moment is None
                self.lines.append(["action", call.cause, "told" if captured else "late"])
            state.note_calls(self.layout, session, self.lines)
            self._remember_running(session, turn)
        except OSError as error:
            self.note(error)

    def _remember_running(self, session: str, turn: "str | None") -> None:
        call, directory = self.call, self.directory
        if directory is not None and call.moment == SESSION:
            state.note_anew(self.layout, directory.key, session)
        if directory is None:
            return
        if call.moment == TOOL_START and turn is not None:
            if "subagent_id" not in call.columns:
                self._keep_open((call.agent, session, turn), replaces=call.unheard)
        elif call.moment == TURN_START and turn is not None and not self.noted:
            self._keep_open((call.agent, session, turn), replaces=True)
        elif call.ended:
            late = call.moment == TOOL and not self.captured
            state.note_ended(self.layout, directory.key, call.ended, late=late)

    def _keep_open(self, turn: "tuple[str, str, str]", *, replaces: bool) -> None:
        assert self.directory is not None
        state.keep_open(self.fs, self.layout, self.directory.key, turn, self.process, replaces=replaces)


def _is_of_capture(event: Event) -> bool:
    """Whether an event is the snapshot of this capture, and not of one that was missed."""
    return event["event_type"] == "snapshot" and event.get("success") is None


def _lacks_descriptors(error: "BaseException | None") -> bool:
    """Whether something could not be opened for want of descriptors, some of which a capture gives back."""
    while error is not None:
        if isinstance(error, OSError) and error.errno in (errno.EMFILE, errno.ENFILE):
            return True
        error = error.__cause__
    return False


def _shown(path: bytes) -> str:
    from eventlog.base.paths import path_text

    return path_text(path)
