"""File events from what a capture found: which change belongs to which tool, and under which id.

`attribution` decides whose a change is. The text that an edit tool found in a file shows whether a person
changed it before the tool did. On the hook path.
"""

from eventlog.agents.kit.call import SESSION_END, TOOL, TOOL_START, TURN_END, Call, EditedFile, object_of
from eventlog.agents.kit.tools import ANY, EDITS
from eventlog.base.errors import EventLogError
from eventlog.base.names import event_id_of
from eventlog.base.paths import path_text
from eventlog.base.types import RELATED_OF_TYPE, Event
from eventlog.blobs.ids import blob_id, to_text
from eventlog.blobs.tree import DIRECTORY, FILE, FILES, MODE_OF_KIND, SKIPPED, SUBMODULE, SYMLINK
from eventlog.hooks import attribution
from eventlog.hooks.attribution import Attribution, CaptureOrigin
from eventlog.hooks.state import CaptureCheckpoint, Running, short
from eventlog.worktree.kept_ignored import is_withheld

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from eventlog.blobs.store import BlobStore
    from eventlog.blobs.tree import TreeEntry
    from eventlog.blobs.writer import BlobWriter
    from eventlog.worktree.capture import Capture
    from eventlog.worktree.changes import CapturedChange

# More changes than this get no events: the snapshot's tree and the one before it show what they are.
FILES_MAX = 5_000

_MODE_OF = {
    **{kind: f"100{mode:03o}" for kind, mode in MODE_OF_KIND.items()},
    SYMLINK: "120000",
    SUBMODULE: "160000",
    DIRECTORY: "040000",
}
_BOM = b"\xef\xbb\xbf"


class FileEventBuilder:
    """Makes the file events of one capture.

    `turn` is the one that the call ends or belongs to, `named` are the call's own files by path in the
    directory, `calls` all that may have made a change: under way, dead, or ended without a capture.
    """

    def __init__(
        self,
        call: Call,
        turn: "str | None",
        checkpoint: CaptureCheckpoint,
        capture: "Capture",
        named: "dict[bytes, EditedFile]",
        calls: "Sequence[Running]",
        writer: "BlobWriter",
    ) -> None:
        self._call = call
        self._checkpoint = checkpoint
        self._origin = _origin(call, turn)
        self._named = named if call.moment == TOOL else {}
        self._others = [tool for tool in calls if tool.cause not in (call.cause, call.started_action_id)]
        self._writer = writer
        self._kept_ignored = capture.kept_ignored
        self._capture = capture
        self._skipped = dict(capture.skipped)
        self._lists: "dict[bytes, str | None]" = {
            entries.sentence: to_text(entries.list_id) for entries in capture.deferred
        }

    def build(self, change: "CapturedChange", blobs: "BlobStore") -> "list[Event]":
        """The events of one change."""
        named = self._named.get(change.path)
        verdict = attribution.attribute(
            self._origin, self._others, None if named is not None else short(change.path)
        )
        events = []
        before = change.before
        if named is not None and named.original is not None and change.old_path is None:
            between = self._between(named.original, change, blobs)
            if between is not None:
                # Somebody changed the file after the last capture and before the tool did.
                events.append(self._event(change, before, between, {"source": "user"}, None, None, blobs))
                before = between
        columns = self._columns(verdict)
        event = self._event(change, before, change.after, columns, verdict.cause, named, blobs)
        payload = object_of(event, "payload")
        if verdict.cause is None and verdict.causes:
            payload["causes"] = verdict.causes
        if verdict.certainty is not None:
            payload["certainty"] = verdict.certainty
        return [*events, event]

    def _columns(self, verdict: Attribution) -> Event:
        """The columns by which a change counts where it belongs, if that is not in the call's turn."""
        if verdict.owner == attribution.CAPTURING_CALL:
            return {}
        if verdict.turn_key is None:
            # It moves no turn's tree. A person made it, unless some turn is under way: then it is unknown.
            source = "system" if self._checkpoint.open or verdict.causes else "user"
            return {"source": source, "agent_session_id": None, "agent_turn_id": None, "subagent_id": None}
        columns: Event = {} if verdict.cause is not None else {"source": "system"}
        if verdict.turn_key == self._origin.turn_key and verdict.owner == attribution.THIS_TURN:
            return {**columns, "agent_turn_id": verdict.turn_key[2], "subagent_id": None}
        agent, session, turn = verdict.turn_key
        columns |= {"agent": agent, "agent_session_id": session, "agent_turn_id": turn, "subagent_id": None}
        if verdict.turn_key == (self._call.agent, self._call.session, self._call.turn):
            return columns
        return {**columns, "cwd": None, "model": None, "agent_version": None}

    def _between(self, original: str, change: "CapturedChange", blobs: "BlobStore") -> "TreeEntry | None":
        """The state that the tool found, where it differs from the log's."""
        from eventlog.blobs.tree import TreeEntry

        before = change.before
        data = original.encode("utf-8", "replace")
        if before is not None and before.id == blob_id(data):
            return None
        if before is not None and before.kind in FILES:
            try:
                stored = blobs.get(before.id)
            except EventLogError:
                return None
            # Agents read files as text: without a byte order mark, with plain line ends.
            if _plain(stored) == _plain(data) or "\ufffd" in original:
                return None
        elif before is not None:
            return None
        content_id = self._writer.put(data)
        if change.path in self._kept_ignored or (change.after is None and is_withheld(change.path)):
            self._capture.withhold_ignored(self._writer, content_id, len(data))
        return TreeEntry(b"-", FILE if before is None else before.kind, content_id, len(data))

    def _event(
        self,
        change: "CapturedChange",
        before: "TreeEntry | None",
        after: "TreeEntry | None",
        columns: Event,
        cause: "str | None",
        named: "EditedFile | None",
        blobs: "BlobStore",
    ) -> Event:
        path = path_text(change.path)
        operation = change.operation
        if before is not change.before or after is not change.after:
            operation = "add" if before is None else "delete" if after is None else "edit"
        payload: "dict[str, object]" = {}
        before_list = None if before is None else self._list_of(before, blobs)
        if change.old_path is not None:
            payload["old_path"] = path_text(change.old_path)
        if before is not None:
            payload["before_mode"] = _MODE_OF.get(before.kind)
        if before_list is not None:
            payload["before_deferred"] = before_list
        if after is not None:
            payload["after_mode"] = _MODE_OF.get(after.kind)
            if self._lists.get(after.id) is not None:
                payload["deferred"] = self._lists[after.id]
            elif after.kind == SKIPPED:
                payload["skipped"] = self._skipped.get(change.path, "it was not captured")
            elif after.kind != DIRECTORY:
                payload["after_size"] = after.size
        before_hash, after_hash = _content(before), _content(after)
        deferred = payload.get("deferred")
        event: Event = {
            "event_type": "file",
            "path": path,
            "operation": operation,
            "before_hash": before_hash,
            "after_hash": after_hash,
            "blobs": [
                content for content in (before_hash, after_hash, before_list, deferred) if content is not None
            ],
            "related_to": RELATED_OF_TYPE["file"],
            "cause": cause,
            "lines_added": None if named is None else named.added,
            "lines_removed": None if named is None else named.removed,
            **columns,
        }
        event["payload"] = {name: value for name, value in payload.items() if value is not None}
        key = (self._checkpoint.nonce, path, operation, before_hash or "", after_hash or str(deferred or ""))
        event["event_id"] = event_id_of("locus", "file", *key)
        return event

    def _list_of(self, entry: "TreeEntry", blobs: "BlobStore") -> "str | None":
        """The list that names a content which is deferred and not stored yet, as far as is known."""
        if entry.kind != SKIPPED:
            return None
        if entry.id not in self._lists:
            from eventlog.blobs.deferred import list_of

            try:
                list_id = list_of(blobs.get(entry.id))
            except EventLogError:
                list_id = None
            self._lists[entry.id] = None if list_id is None else to_text(list_id)
        return self._lists[entry.id]


def _origin(call: Call, turn: "str | None") -> CaptureOrigin:
    turn_key = None
    if call.session is not None and turn is not None:
        turn_key = call.agent, call.session, turn
    if call.moment == TOOL and call.cause is not None:
        kinds = {
            EDITS: attribution.AFTER_EDIT,
            ANY: attribution.AFTER_COMMAND,
            None: attribution.AFTER_COMMAND,
        }
        return CaptureOrigin(kinds.get(call.kind, attribution.AFTER_WAIT), call.cause, turn_key)
    if call.moment == TOOL:
        return CaptureOrigin(attribution.AFTER_WAIT, None, turn_key)
    if call.moment == TOOL_START:
        return CaptureOrigin(attribution.BEFORE_COMMAND, None, turn_key)
    if call.moment == TURN_END or (call.moment == SESSION_END and turn is not None):
        return CaptureOrigin(attribution.TURN_ENDS, None, turn_key)
    return CaptureOrigin(attribution.BETWEEN, None, None)


def _content(entry: "TreeEntry | None") -> "str | None":
    if entry is None or entry.kind in (DIRECTORY, SKIPPED):
        return None
    return to_text(entry.id)


def _plain(data: bytes) -> bytes:
    return data.removeprefix(_BOM).replace(b"\r\n", b"\n")
