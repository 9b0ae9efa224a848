"""Live capture: from one hook call of an agent to the events it makes, in one frame (docs/design.md §23).

`record` is what the hook program calls. It completes what an adapter's `interpret` made of the call, looks at
the working directory when the moment asks for it, puts contents into one pack, and appends. Whatever goes
wrong with the directory, the contents or the notes between calls, the event itself is appended; only an
append that fails raises (P4). Any number of processes may record at once: captures of one directory
follow one another under its lock, and who does not get that lock in time leaves the changes to the next
capture. No segment, index or journal is read, so the cost is independent of the log's size.
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
    Named,
)
from eventlog.agents.kit.tools import ANY
from eventlog.base import config, identity
from eventlog.base.errors import Corruption, EventLogError, LockTimeout, NotFound
from eventlog.base.fs import FileSystem
from eventlog.base.layout import Layout
from eventlog.base.locks import WORKTREE, acquire
from eventlog.base.types import Event
from eventlog.hooks import state as live_state
from eventlog.hooks import texts
from eventlog.hooks.locate import find_captured, find_place
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

# Seconds from the end of the input until a capture looks at nothing more.
BUDGET_S = {
    SESSION: 2.0,
    TURN_START: 2.0,
    TOOL_START: 0.05,
    TOOL: 0.4,
    TURN_END: 2.0,
    SESSION_END: 0.3,
}
# And until an agent waits for the disk no more: around tools, and where it is later elsewhere.
_WAIT_S = 0.35
# A look before a command looks at no more files: as long as it takes little of what the hook takes anyway.
LOOK_BEFORE_FILES_MAX = 1_000
# Seconds until contents are looked through for erased texts no more: before the signal that ends a hook.
_LOOK_S = 3.0
# Moments that come after the turns which their look closes; all others are within a turn, or end it.
_ENDS_FIRST = (SESSION, TURN_START, SESSION_END)
# Moments whose look is told in the turn of the call.
_TOLD_IN_TURN = (TURN_START, TOOL_START, TOOL, TURN_END)
# Moments within a turn, and at its end.
_WITHIN = (TOOL_START, TOOL, TURN_END)
# Where a turn may be noted as under way.
_KEEPS_OPEN = (TURN_START, TOOL_START, TOOL)
# Where notes of the session are looked up; a tool call does without.
_LOOKED_UP = (TURN_START, TURN_END, SESSION_END)
_APPEND_TIMEOUT_S = 2.0
# Of a session's events those that say who works in it.
_OPENED = ("start", "resume")
_LOCK_WAIT_S_MIN = 0.02
_SUSPECT_SIZE = 4 << 20  # of a hook's input
_SHOWN_MAX = 50
# Seconds until git is not waited for any more, when it is asked what differs from the commit.
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
    """Append what a hook call says to the store at `root`, with what it changed.

    Args:
        note: is told what went wrong beside the append.
        started_s: monotonic time at which the hook began.
        input_size: of the hook's input.
        start: starts the process that stores the contents which this call leaves (docs/certainty.md §3).
    Raises: EventLogError when the store takes no event.
    """
    layout = Layout(root)
    who = identity.read(fs, layout)
    recording = _Recording(fs, layout, who, call, environ, note, started_s, input_size)
    recording.start = start
    try:
        recording.run()
    finally:
        recording.let_go()
    return Recorded(layout, who, recording.settings, recording.place)


def close(
    fs: FileSystem, root: str, directory: str, by: str, environ: "Mapping[str, str]", note: "Note"
) -> int:
    """Close the turns of a captured directory whose process is gone; how many. `by` says who asks.

    Raises: EventLogError when the store takes no event, or the directory cannot be looked at.
    """
    call = Call("locus", {"cwd": directory})
    call.moment = SESSION
    layout = Layout(root)
    who = identity.read(fs, layout)
    recording = _Recording(fs, layout, who, call, environ, note, time.monotonic(), 0)
    recording.closes_for = by
    recording.place = find_captured(directory)
    recording.common = recording._common()
    recording._with_capture([])
    return recording.closed_count


class Recorded:
    """Where a call was recorded, for who has more to do with it."""

    __slots__ = ("layout", "place", "settings", "who")

    def __init__(
        self, layout: Layout, who: identity.Identity, settings: config.Config, place: "HookDirectory | None"
    ) -> None:
        self.layout = layout
        self.who = who
        self.settings = settings
        self.place = place


def until_of(call: Call, environ: "Mapping[str, str]", now_s: float) -> float:
    """Until when, by the monotonic clock, an agent waits for the hook of this call, once its look is done."""
    budget_s = 0.0 if call.moment in (None, TOOL) else BUDGET_S[call.moment]
    return now_s + max(_WAIT_S, budget_s) * patience(environ)


def patience(environ: "Mapping[str, str]") -> int:
    """How many times longer a hook may take than usual: for very slow disks, and for tests."""
    given = environ.get("LOCUS_HOOK_PATIENCE", "")
    return min(max(int(given), 1), 100) if given.isdecimal() else 1


class _Recording:
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
        self.late: "list[str]" = []  # actions whose changes this capture tells
        self.closes_for = "hook"
        self.closing: "Closing | None" = None  # turns that this capture closes
        self.closed_count = 0
        self.under_way: "list[Running]" = []
        self.begun = False  # the tool that begins is noted
        self.appended = False
        self.captured = False
        self.switched: "bool | None" = None  # whether ignored files are kept, from this look on
        self.noted = False  # the turn is among those under way
        self.refused = False
        self.of_turn: "dict[str, object]" = {}  # what the snapshot at its start or end says beside the tree
        self.place: "HookDirectory | None" = None
        self.start: "Start | None" = None
        self.started: "Started | None" = None  # the process that stores what this call defers
        self.wait_until = self.began_s
        # Before anything is written: what goes on behind a sync has other ancestors (`fs.Detaching`).
        within = call.session is not None and call.moment in _KEEPS_OPEN
        self.process = live_state.process_of(call.agent, environ) if within else ""
        self.blobs: "BlobStore | None" = None
        self.settings = config.read(fs, layout)
        self.keeps_ignored = config.keeps_ignored(fs, layout) is True
        self.redactor = redaction.of_store(fs, layout, self.settings)
        if self.redactor.problem is not None:
            note(EventLogError(self.redactor.problem))
        try:
            self.place = find_place(layout.root, call, environ)
        except (OSError, ValueError) as error:
            note(error)
        self.known = Calls()
        by_subagent = "subagent_id" in call.columns
        if call.session is not None and (
            call.moment in _LOOKED_UP or call.transcripts or call.repeats or by_subagent
        ):
            self.known = live_state.read_calls(layout, call.session)
        if by_subagent:
            from eventlog.hooks.subagents import count_in_its_turn

            key = None if self.place is None else self.place.key
            count_in_its_turn(layout, call, self.known, self.lines, key)
        if call.session is not None and (call.stamp is not None or call.counted):
            self._name_call()
        if call.model_call is not None and call.session is not None:
            self._number_model_call()
        self.common = self._common()

    def _name_call(self) -> None:
        """What the agent leaves nameless gets its names from the notes."""
        from eventlog.hooks import synthetic_ids

        try:
            if self.call.counted:
                self.known = synthetic_ids.number(self.layout, self.call)
            else:
                self.known = synthetic_ids.complete(self.layout, self.call)
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
        if self.keeps_ignored or self._kept_ignored():
            self._leave_out_ignored()
        if (
            call.repeats
            or call.settles
            or call.transcripts
            or call.prompt is not None
            or call.moment == SESSION
        ):
            self._complete()
        if call.moment in _WITHIN and "subagent_id" not in call.columns:
            live_state.meet_turn(self.layout, self.place, call, self.lines)
        self._name_paths()
        events = [self._admit(event) for event in call.events]
        if events and (self.place is None or call.moment is None or not self._captures()):
            self._append_plain(events)
        elif events:
            try:
                self._with_capture(events)
            except Exception as error:
                if self.refused and not _lacks_descriptors(error):
                    raise  # the log takes nothing; asking again would only take longer
                if not self.appended:
                    events = [*events, *self._failed_look()]
                    self._mark(events, "busy" if isinstance(error, LockTimeout) else "failed")
                    self._append_plain(events)
                if call.moment != TOOL_START or not isinstance(error, LockTimeout):
                    self.note(error)  # a look before a command is no loss
        self._remember()

    def _name_paths(self) -> None:
        """Give the events of tools the path that their arguments name, where it is one in the directory."""
        paths: "dict[object, str | None]" = {}  # of each call
        for event in self.call.events:
            payload, is_of_tool = event.get("payload"), event["event_type"] in texts.OF_TOOLS
            if self.place is not None and is_of_tool and isinstance(payload, dict):
                path = self.place.path_of(payload.get("args"), self.call.columns.get("cwd"))
                event["path"] = paths[event.get("tool_use_id")] = path
            elif event["event_type"] == "error":
                event["path"] = paths.get(event.get("tool_use_id"))

    def let_go(self) -> None:
        """Wait for the copies of what was deferred, made while the event is written, if time is left."""
        if self.started is not None:
            self.started.wait(self.wait_until - time.monotonic())
            self.started.close()

    def _kept_ignored(self) -> bool:
        """Whether the last look kept ignored files: it holds until the switch is followed."""
        return self.place is not None and live_state.read_told(self.layout, self.place.key).keeps

    def _leave_out_ignored(self) -> None:
        """Take out of the call what its tools say of files that are kept although git ignores them (P5)."""
        from eventlog.hooks.ignored_texts import Outside, leave_out

        call = self.call
        if any(one["event_type"] in ("tool_start", "action", "hook") for one in call.events):
            outside = None if self.place is None else Outside(self.place.root)
            call.events = leave_out(call.events, outside, call.columns.get("cwd"))
            if self.place is not None and outside is not None and self._has_kept():
                from eventlog.hooks.ignored_values import KeptValues

                key, root = self.place.key, self.place.root
                call.events = KeptValues(self.layout, key, root, outside, self._content).take_out(call.events)

    def _has_kept(self) -> bool:
        return self.place is not None and os.path.exists(self.layout.live(f"{self.place.key}.kept"))

    def _content(self, id: bytes) -> bytes:
        with self._open_blobs() as blobs:
            return blobs.get(id)

    def _complete(self) -> None:
        from eventlog.hooks.enrich import Completion

        args = self.layout, self.who, self.call, self.place, self.known, self.redactor, self.lines, self.note
        try:
            Completion(*args).run()
        except Exception as error:
            self.note(error)

    def _common(self) -> Event:
        place = self.place
        columns: Event = {
            **self.call.columns,
            "repo": self.who.repo_hash,
            "occurred_at": self.fs.time_ns() // 1000,
        }
        if place is not None:
            columns |= {"worktree": place.worktree, "branch": place.branch, "commit": place.commit}
        return {name: value for name, value in columns.items() if value is not None}

    # -- looking at the directory --------------------------------------------------------------

    def _captures(self) -> bool:
        """Whether this moment looks at the directory: before a tool or a turn where nobody has yet, and
        where it is worth it."""
        assert self.place is not None
        if self.call.moment not in (SESSION, TOOL_START):
            return True
        told = live_state.read_told(self.layout, self.place.key)
        if told.tree is None:
            return True
        return self._closing(told) is not None if self.call.moment == SESSION else self._looks_before(told)

    def _looks_before(self, told: CaptureCheckpoint) -> bool:
        """Whether a command begins, in the turn under way and among few files: so that what it changes is
        told apart from what stood there before, also when it is killed."""
        few = told.files is not None and told.files <= LOOK_BEFORE_FILES_MAX
        return few and self.call.kind == ANY and not live_state.is_another_turn(told, self.call)

    def _closing(self, told: CaptureCheckpoint) -> "Closing | None":
        """The turns that a whole look closes: their process is gone, or their session left them."""
        left = live_state.left(told, self.call, self.fs.time_ns() / 1e9)
        if not left:
            return None
        from eventlog.hooks.closing import Closing

        return Closing(left, self.closes_for)

    def _with_capture(self, events: "list[Event]") -> None:
        """Append `events` with what changed in the directory. Raises: anything; see `appended`."""
        assert self.place is not None and self.call.moment is not None
        budget_s = BUDGET_S[self.call.moment] * patience(self.environ)
        self.wait_until = deadline = self.began_s + budget_s
        # Who waited is to see something too.
        left = max(_LOCK_WAIT_S_MIN, deadline - budget_s / 4 - time.monotonic())
        lock = acquire(self.fs, self.layout, WORKTREE + self.place.key, timeout_s=left)
        with lock, self._open_blobs() as blobs:
            left = max(_LOCK_WAIT_S_MIN, deadline - time.monotonic())
            with blobs.writer(lock_timeout_s=left) as writer:
                told = live_state.read_told(self.layout, self.place.key)
                self.closing = self._closing(told)
                done, previous = self._capture(blobs, writer, told, deadline)
                moved = self._moved(events, writer)
                self._tell(moved, done, previous, told, blobs, writer)

    def _capture(
        self, blobs: "BlobStore", writer: "BlobWriter", told: CaptureCheckpoint, deadline: float
    ) -> "tuple[Capture, bytes | None]":
        """The capture, and the tree that its changes start from."""
        from eventlog.worktree.capture import FILE_SIZE_MAX, capture
        from eventlog.worktree.contents import Deferral

        assert self.place is not None
        root, settings = self.place.root, self.settings
        wanted: "dict[str, Any]" = {
            "include": settings.include,
            "keep_ignored": self._keeps_ignored(told),
            "size_max": FILE_SIZE_MAX if settings.max_file_bytes is None else settings.max_file_bytes,
            "deadline": deadline,
            "may_fork": True,  # a hook has one thread, and ends soon
            "deferral": Deferral(self._named()),
        }
        try:
            done = capture(blobs, writer, root, previous=told.tree, **wanted)
            if told.tree is not None and told.keeps is not told.tree_keeps:
                from eventlog.hooks.switch import changes_without

                done.changes = changes_without(done, root, told.keeps)
                self.switched = told.keeps
            return done, told.tree
        except (NotFound, Corruption) as error:
            if told.tree is None:
                raise
            self.note(error)  # the tree told last cannot be read: begin anew
        return capture(blobs, writer, root, **wanted), None

    def _keeps_ignored(self, told: CaptureCheckpoint) -> bool:
        """Whether this look keeps ignored files: as the switch says, once no turn goes on over it."""
        if told.tree is None:
            told.keeps = self.keeps_ignored
        elif told.keeps is not self.keeps_ignored:
            from eventlog.hooks.switch import may_switch

            if may_switch(told, self.call, self.closing):
                told.keeps = self.keeps_ignored
        return told.keeps

    def _tell(
        self,
        events: "list[Event]",
        done: "Capture",
        previous: "bytes | None",
        told: CaptureCheckpoint,
        blobs: "BlobStore",
        writer: "BlobWriter",
    ) -> None:
        call, place = self.call, self.place
        assert place is not None and call.moment is not None
        self._store_later(done)
        files = self._files(done, told, blobs, writer)
        writer.flush()
        facts = self._facts(done, previous, files)
        if call.moment in (TURN_START, TURN_END):
            until = min(self.wait_until, time.monotonic() + _GIT_S * patience(self.environ))
            self.of_turn = live_state.facts_of_turn(call, self.known, self.lines, place, done, blobs, until)
        events = [self._with_facts(one, done, facts) for one in events]
        ends = self._ends(done, previous, told)
        told_by_tree = done.changes or done.modes_changed or previous is None or call.session in told.passed
        if call.moment == TOOL:
            if live_state.is_another_turn(told, call) or (told_by_tree and not done.partial):
                events += [*files, self._snapshot(done, facts)]
        elif call.moment == TOOL_START:
            if told_by_tree and not done.partial:
                events = [*files, self._snapshot(done, facts), *events]
        elif call.moment in _ENDS_FIRST:
            events = [*files, *(ends.after if ends is not None else []), *events]
        else:
            first = next((i for i, one in enumerate(events) if _is_of_look(one)), 0)
            events = events[:first] + files + events[first:]
        if ends is not None:
            behind = [] if call.moment in _ENDS_FIRST else ends.after
            events = [*ends.before, *events, *behind]
        if events:
            self._append(events)
        self.appended, self.captured = True, not done.partial
        if ends is not None:
            self.late += ends.causes
            self.closed_count = ends.count
            ends.forget(self.layout, told)
        if call.session is not None:
            live_state.note_turn(self.layout, told, call, self.captured, self.process, self.fs.time_ns())
        if not done.partial:  # else the next one tells all since the tree told last
            told.look_of(call.session, call.turn if call.moment in _TOLD_IN_TURN else None, done.root)
            told.tree, told.nonce, told.tree_keeps = done.root, os.urandom(8).hex(), told.keeps
            told.files = done.files
        live_state.write_told(self.layout, place.key, told)
        self.noted = True
        if done.kept or self._has_kept():
            from eventlog.hooks import ignored_values

            ignored_values.note(self.layout, place.key, done.kept_contents())
        if not done.partial:
            live_state.note_ended(self.layout, place.key, self.late)
        if call.moment == TURN_START and len(told.open) == 1:
            live_state.trim_running(self.layout, place.key)

    def _store_later(self, done: "Capture") -> None:
        """See to it that somebody stores the contents that the tree lacks."""
        from eventlog.hooks import deferred_lists

        assert self.place is not None
        root = self.place.root
        try:
            is_open = deferred_lists.note_open(self.layout, self.place.key, root, done.deferred)
            if self.start is None or not is_open:
                return
            if done.new_deferred or not deferred_lists.is_being_done(self.fs, self.layout):
                self.started = self.start(deferred_lists.Job(self.layout, root, done.new_deferred))
        except OSError as error:
            self.note(error)  # the next capture finds them open

    def _files(
        self, done: "Capture", told: CaptureCheckpoint, blobs: "BlobStore", writer: "BlobWriter"
    ) -> "list[Event]":
        """The file events of a capture, complete but for what `_admit` adds."""
        from eventlog.hooks.file_events import FILES_MAX, FileEventBuilder

        call, place = self.call, self.place
        assert place is not None
        dead = self.closing.dead() if self.closing is not None else frozenset()
        self.under_way = live_state.running(self.layout, place.key, told, dead)
        self.late = [one.cause for one in self.under_way if one.late]
        changes = [] if done.partial else done.changes
        if len(changes) > FILES_MAX or not changes:
            return []
        turn = live_state.open_turn(told, call, self.known) if call.moment == SESSION_END else call.turn
        teller = FileEventBuilder(call, turn, told, done, self._named(), self.under_way, writer)
        return [self._admit(event) for change in changes for event in teller.tell(change, blobs)]

    def _ends(self, done: "Capture", previous: "bytes | None", told: CaptureCheckpoint) -> "Ends | None":
        """What closes turns and calls that are dead; None where none is."""
        if self.closing is None and not any(one.dead for one in self.under_way):
            return None
        from eventlog.hooks import closing

        return closing.ends_of(
            self.layout,
            self.closing,
            self.under_way,
            self.call,
            done,
            previous,
            told,
            self._admit,
            lambda event, facts: self._fill_snapshot(event, done, facts),
        )

    def _named(self) -> "dict[bytes, Named]":
        """The files that the call names, by their path in the directory; others are left alone."""
        assert self.place is not None
        cwd = str(self.call.columns.get("cwd") or self.place.root)
        found = {}
        for named in self.call.named:
            path = self.place.inside(named.path, cwd)
            if path is not None:
                found[path] = named
        return found

    def _facts(self, done: "Capture", previous: "bytes | None", files: "list[Event]") -> "dict[str, object]":
        """What is to be said of a capture that is less than whole; empty for one that is."""
        facts: "dict[str, object]" = {}
        if done.partial:
            facts["state"] = "partial"
            facts["pending"] = done.pending_count
            facts["pending_paths"] = [_shown(path) for path in done.pending[:_SHOWN_MAX]]
        elif previous is None:
            facts["state"] = "baseline"
        if done.warning is not None:
            facts["warning"] = done.warning
        if previous is not None and not done.partial and len(files) < len(done.changes):
            facts["changes"] = len(done.changes)
            facts["told"] = len(files)
        return facts

    def _with_facts(self, event: Event, done: "Capture", facts: "dict[str, object]") -> Event:
        """`event` with what the capture says: its tree in a snapshot, its gaps in the event of the moment."""
        if _is_of_look(event):
            return self._fill_snapshot(event, done, facts, self.of_turn)
        if facts and event["event_type"] == "action":
            payload = event["payload"]
            assert isinstance(payload, dict)
            return {**event, "payload": {**payload, "capture": facts}}
        return event

    def _snapshot(self, done: "Capture", facts: "dict[str, object]") -> Event:
        """The tree behind a tool call that changed something."""
        return self._fill_snapshot(self._tool_snapshot(), done, facts)

    def _tool_snapshot(self) -> Event:
        event: Event = {"event_type": "snapshot", "operation": "tool", "cause": self.call.cause}
        event["payload"] = {"snapshot_type": "tool"}
        return self._admit(event)

    def _fill_snapshot(
        self,
        event: Event,
        done: "Capture",
        facts: "dict[str, object]",
        of_turn: "dict[str, object] | None" = None,
    ) -> Event:
        from eventlog.blobs.ids import to_text

        assert self.place is not None
        tree = to_text(done.root)
        payload = event["payload"]
        assert isinstance(payload, dict)
        said = {
            **payload,
            "git_head": self.place.commit,
            "git_branch": self.place.branch,
            "keep_ignored": self.switched,
            **done.facts(),
            **(of_turn or {}),
            "capture": {**facts, **done.deferred_facts()} or None,
        }
        return {
            **event,
            "tree_hash": tree,
            "success": not done.partial,
            "blobs": [tree, *done.lists()],
            "payload": {name: value for name, value in said.items() if value is not None},
        }

    # -- into the log --------------------------------------------------------------------------

    def _admit(self, event: Event) -> Event:
        """The event as it will be written, all but its contents; redacted (P5), its id fixed."""
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

    def _failed_look(self) -> "list[Event]":
        """The look after a tool that came after the end of its turn, failed: the end is not the last word."""
        assert self.place is not None
        if self.call.moment != TOOL:
            return []
        told = live_state.read_told(self.layout, self.place.key)
        return [self._tool_snapshot()] if live_state.is_another_turn(told, self.call) else []

    def _mark(self, events: "list[Event]", state: str) -> None:
        """Say in the event of the moment that its capture is left to the next one."""
        for event in events:
            payload = event.get("payload")
            if isinstance(payload, dict) and (event["event_type"] == "action" or _is_of_look(event)):
                payload["capture"] = {"state": state}
                if event["event_type"] == "snapshot":
                    event["success"] = False

    def _append_plain(self, events: "list[Event]") -> None:
        """Append without a look at the directory; large texts go to a pack of their own if that can be."""
        if self.large or any(map(texts.holds_file_text, events)):
            try:
                events = self._append_with_pack(events)
            except EventLogError as error:
                if self.appended:
                    raise
                self.note(error)
                events = [texts.move(one, texts.void, suspect=self.suspect) for one in events]
                for event in events:
                    texts.forget_blobs(event)
        if not self.appended:
            self._append(events)

    def _append_with_pack(self, events: "list[Event]") -> "list[Event]":
        with (
            self._open_blobs() as blobs,
            blobs.writer(lock_timeout_s=_LOCK_WAIT_S_MIN * 10) as writer,
        ):
            moved = self._moved(events, writer)
            writer.flush()
            self._append(moved)
            self.appended = True
        return moved

    def _moved(self, events: "list[Event]", writer: "BlobWriter") -> "list[Event]":
        """The events with their large texts, and those of files, in the blob store."""
        put, has = writer.put, writer.holds
        return [texts.move(one, put, suspect=self.suspect, has=has) for one in events]

    def _open_blobs(self) -> "BlobStore":
        """The contents, looked at for secrets as they are put; `_append` says which are withheld (P5)."""
        from eventlog.blobs.store import BlobStore

        self.redactor.look_until = self.began_s + _LOOK_S * patience(self.environ)
        self.blobs = BlobStore(
            self.fs,
            self.layout,
            self.who.store_id,
            kinds_in=self.redactor.kinds_in,
            modes=self.who.keeps_modes,
        )
        return self.blobs

    def _append(self, events: "list[Event]") -> None:
        """One frame. Raises: EventLogError."""
        used_us = round((time.monotonic() - self.started_s) * 1e6)
        lines = []
        said = [] if self.blobs is None else self.blobs.withheld_events()
        for event in [*events, *(admission.admit(self.fs, one, self.redactor) for one in said)]:
            payload = event["payload"]
            assert isinstance(payload, dict)
            lines.append(encode_line({**event, "payload": {**payload, "hook_us": used_us}}))
        self._note_begun()
        journal = Journal(self.fs, self.layout, self.who.store_id, lock_timeout_s=_APPEND_TIMEOUT_S)
        self.refused = True
        try:
            journal.append(lines)
        finally:
            journal.close()  # the notes need descriptors, too, and there may be few
        self.refused = False

    def _note_begun(self) -> None:
        """Note a tool that begins: it begins while its event waits for the disk, and what it changes must not
        pass for another's."""
        call, place, cause, begun = self.call, self.place, self.call.begins, self.begun
        self.begun = True
        if begun or call.moment != TOOL_START or cause is None or place is None:
            return
        session, turn, first = call.session, call.turn, call.events[0]
        if session is None or turn is None:
            return
        paths = [short(path) for path in self._named()]
        tool = str(first.get("tool_use_id") or "-"), str(first.get("tool") or "-")
        outlives = (call.agent, self.process) if "subagent_id" in call.columns else None
        try:
            live_state.note_begun(
                self.layout, place.key, (session, turn), cause, tool, call.kind, paths, outlives
            )
        except OSError as error:
            self.note(error)

    def _remember(self) -> None:
        """Behind the append: notes for later calls. They may be lost."""
        call, session, turn = self.call, self.call.session, self.call.turn
        if session is None:
            return
        try:
            if call.moment == TURN_START and turn is not None:
                stamped = [turn, call.stamp] if call.stamp is not None else []
                self.lines.append(["begun", short(turn), *stamped])
            elif call.moment == TURN_END and turn is not None:
                self.lines.append(["ended", short(turn)])
            elif call.moment in (SESSION, SESSION_END):
                self.lines.append(["opened" if call.moment == SESSION else "over"])
            elif call.cause is not None:
                looked = self.captured or call.moment is None
                self.lines.append(["action", call.cause, "told" if looked else "late"])
            live_state.note_calls(self.layout, session, self.lines)
            self._remember_running(session, turn)
        except OSError as error:
            self.note(error)

    def _remember_running(self, session: str, turn: "str | None") -> None:
        call, place = self.call, self.place
        if place is not None and call.moment == SESSION:
            live_state.note_anew(self.layout, place.key, session)
        if place is None:
            return
        if call.moment == TOOL_START and turn is not None:
            if "subagent_id" not in call.columns:
                self._keep_open((call.agent, session, turn), replaces=call.unheard)
        elif call.moment == TURN_START and turn is not None and not self.noted:
            self._keep_open((call.agent, session, turn), replaces=True)
        elif call.ended:
            late = call.moment == TOOL and not self.captured
            live_state.note_ended(self.layout, place.key, call.ended, late=late)

    def _keep_open(self, turn: "tuple[str, str, str]", *, replaces: bool) -> None:
        assert self.place is not None
        live_state.keep_open(self.fs, self.layout, self.place.key, turn, self.process, replaces=replaces)


def _is_of_look(event: Event) -> bool:
    """Whether an event is the snapshot that tells of this look, and not of one that was missed."""
    return event["event_type"] == "snapshot" and event.get("success") is None


def _lacks_descriptors(error: "BaseException | None") -> bool:
    """Whether something could not be opened for want of descriptors, some of which a look gives back."""
    while error is not None:
        if isinstance(error, OSError) and error.errno in (errno.EMFILE, errno.ENFILE):
            return True
        error = error.__cause__
    return False


def _shown(path: bytes) -> str:
    from eventlog.base.paths import path_text

    return path_text(path)
