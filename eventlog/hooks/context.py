"""What the parts of one recording share: what is known of the hook call, and the writer of its events.

`context_of` reads the store's files and writes nothing; `EventWriter` makes events whole and appends them in
one frame. On the hook path.
"""

import time

from eventlog.agents.kit.call import TOOL, TOOL_START, TURN_START, Call, object_of
from eventlog.agents.kit.spec import FrozenRecord
from eventlog.base import config, identity
from eventlog.base.errors import EventLogError
from eventlog.base.fs import FileSystem
from eventlog.base.layout import Layout, StoreFiles
from eventlog.base.types import Event
from eventlog.hooks import state, texts
from eventlog.hooks.locate import HookDirectory, find_directory
from eventlog.log.journal import Journal
from eventlog.log.line import encode_line
from eventlog.secrets import admission, redaction

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from eventlog.agents.kit.call import EditedFile
    from eventlog.blobs.store import BlobStore
    from eventlog.blobs.writer import BlobWriter

    Note = Callable[[BaseException], None]

# Seconds until contents are no longer scanned for erased texts: before the signal that ends a hook.
_SCAN_S = 3.0
_APPEND_TIMEOUT_S = 2.0
_PACK_TIMEOUT_S = 0.2
_SUSPECT_SIZE = 4 << 20  # of a hook's input
# Operations of session events that name the person who works in it.
_OPENED = ("start", "resume")
# Where a turn may be noted as under way.
_KEEPS_OPEN = (TURN_START, TOOL_START, TOOL)


class HookContext(FrozenRecord):
    """What is known of a call: `began_s` is when its recording began, `process` the agent that made it."""

    fs: FileSystem
    layout: Layout
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
    fs: FileSystem,
    layout: Layout,
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
                    blobs.writer(lock_timeout_s=_PACK_TIMEOUT_S) as pack,
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
            hook_time_us, key = self._common["occurred_at"], context.directory.key
            assert isinstance(hook_time_us, int)
            state.note_begun(context.layout, key, call, context.named(), context.process, hook_time_us)
        except OSError as error:
            context.note(error)
