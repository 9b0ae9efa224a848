"""File events from what a capture found: which change belongs to which tool, and under which id.

`attribute` decides whose a change is, by one table. On disk, a change that a person made between two captures
and one that a tool made are alike. Three facts separate them: which call captured, which calls were under way
or ended without a capture, and which files edit tools name. The event of a change never contradicts itself:
its turn is that of its causes, or it has none. What cannot be known stays unknown (P7).

The text that an edit tool found in a file shows whether a person changed it before the tool did. On the hook
path.
"""

from eventlog.agents.kit.call import SESSION_END, TOOL, TOOL_START, TURN_END, Call, EditedFile, object_of
from eventlog.agents.kit.tools import ANY, EDITS
from eventlog.base.errors import EventLogError
from eventlog.base.names import event_id_of, short
from eventlog.base.paths import path_text
from eventlog.base.types import RELATED_OF_TYPE, Event
from eventlog.blobs.ids import blob_id, to_text
from eventlog.blobs.tree import DIRECTORY, FILE, FILES, MODE_OF_KIND, SKIPPED, SUBMODULE, SYMLINK
from eventlog.hooks.state import CaptureCheckpoint, Running
from eventlog.worktree.kept_ignored import is_withheld

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from eventlog.blobs.store import BlobStore
    from eventlog.blobs.tree import TreeEntry
    from eventlog.blobs.writer import BlobWriter
    from eventlog.worktree.capture import Capture
    from eventlog.worktree.changes import CapturedChange

    TurnKey = tuple[str, str, str]  # agent, its ids of session and turn; "": the session's current turn

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
        own = (call.tool.cause, call.tool.started_action_id)
        self._others = [tool for tool in calls if tool.cause not in own]
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
        verdict = attribute(self._origin, self._others, None if named is not None else short(change.path))
        if named is None and self._checkpoint.has_gaps:
            verdict.doubt()
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

    def _columns(self, verdict: "Attribution") -> Event:
        """The columns by which a change counts where it belongs, if that is not in the call's turn."""
        if verdict.owner == CAPTURING_CALL:
            return {}
        if verdict.turn_key is None:
            # It moves no turn's tree. A person made it, unless some turn is under way: then it is unknown.
            source = "system" if self._checkpoint.open or verdict.causes else "user"
            return {"source": source, "agent_session_id": None, "agent_turn_id": None, "subagent_id": None}
        columns: Event = {} if verdict.cause is not None else {"source": "system"}
        if verdict.turn_key == self._origin.turn_key and verdict.owner == THIS_TURN:
            return {**columns, "agent_turn_id": verdict.turn_key[2] or None, "subagent_id": None}
        agent, session, turn = verdict.turn_key
        whole = {"agent": agent, "agent_session_id": session, "agent_turn_id": turn or None}
        columns |= {**whole, "subagent_id": None}
        if verdict.turn_key == (self._call.agent, self._call.session, self._call.turn or ""):
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


def _origin(call: Call, turn: "str | None") -> "CaptureOrigin":
    turn_key = None
    if call.session is not None and (turn is not None or call.moment in (TOOL_START, TOOL, TURN_END)):
        turn_key = call.agent, call.session, turn or ""
    if call.moment == TOOL and call.tool.cause is not None:
        kinds = {
            EDITS: AFTER_EDIT,
            ANY: AFTER_COMMAND,
            None: AFTER_COMMAND,
        }
        return CaptureOrigin(kinds.get(call.tool.kind, AFTER_WAIT), call.tool.cause, turn_key)
    if call.moment == TOOL:
        return CaptureOrigin(AFTER_WAIT, None, turn_key)
    if call.moment == TOOL_START:
        return CaptureOrigin(BEFORE_COMMAND, None, turn_key)
    if call.moment == TURN_END or (call.moment == SESSION_END and turn is not None):
        return CaptureOrigin(TURN_ENDS, None, turn_key)
    return CaptureOrigin(BETWEEN, None, None)


def _content(entry: "TreeEntry | None") -> "str | None":
    if entry is None or entry.kind in (DIRECTORY, SKIPPED):
        return None
    return to_text(entry.id)


def _plain(data: bytes) -> bytes:
    return data.removeprefix(_BOM).replace(b"\r\n", b"\n")


# -- whose change it was -----------------------------------------------------------------------

PROBABLE = "probable"

# When it was captured: before a command, after a tool of that kind, at the end of a turn, or at any other
# moment.
BEFORE_COMMAND, AFTER_EDIT, AFTER_COMMAND, AFTER_WAIT, TURN_ENDS, BETWEEN = (
    "before a command", "after an edit", "after a command", "after a wait", "turn ends", "between",
)  # fmt: skip

# How many calls may have made it, and of whom.
NO_CALL, UNCAPTURED, ONE_CALL, ONE_TURN, MORE_TURNS = (
    "none", "one of the turn, ended without a capture", "one", "several of one turn", "of several turns",
)  # fmt: skip

# Whose it is: of the call that captured; of the one call that may have made it; of the turn of all these
# calls; of the turn that ends; of no call and no turn, with and without calls that may have made it.
CAPTURING_CALL, THAT_CALL, THEIR_TURN, THIS_TURN, UNKNOWN, NOBODY = (
    "looker", "that call", "their turn", "this turn", "unknown", "nobody",
)  # fmt: skip

TABLE: "dict[str, dict[str, tuple[str, str | None]]]" = {
    BEFORE_COMMAND: {
        NO_CALL: (THIS_TURN, PROBABLE), UNCAPTURED: (THAT_CALL, None), ONE_CALL: (THAT_CALL, None),
        ONE_TURN: (THEIR_TURN, None), MORE_TURNS: (UNKNOWN, None),
    },
    AFTER_EDIT: {
        NO_CALL: (CAPTURING_CALL, None), UNCAPTURED: (THAT_CALL, None), ONE_CALL: (THAT_CALL, None),
        ONE_TURN: (THEIR_TURN, None), MORE_TURNS: (UNKNOWN, None),
    },
    AFTER_COMMAND: {
        NO_CALL: (CAPTURING_CALL, None), UNCAPTURED: (THAT_CALL, None), ONE_CALL: (THAT_CALL, None),
        ONE_TURN: (THEIR_TURN, None), MORE_TURNS: (UNKNOWN, None),
    },
    AFTER_WAIT: {
        NO_CALL: (THIS_TURN, PROBABLE), UNCAPTURED: (THAT_CALL, None), ONE_CALL: (THAT_CALL, None),
        ONE_TURN: (THEIR_TURN, None), MORE_TURNS: (UNKNOWN, None),
    },
    TURN_ENDS: {
        NO_CALL: (THIS_TURN, PROBABLE), UNCAPTURED: (THAT_CALL, None), ONE_CALL: (THAT_CALL, PROBABLE),
        ONE_TURN: (THEIR_TURN, PROBABLE), MORE_TURNS: (UNKNOWN, None),
    },
    BETWEEN: {
        NO_CALL: (NOBODY, None), UNCAPTURED: (THAT_CALL, PROBABLE), ONE_CALL: (THAT_CALL, PROBABLE),
        ONE_TURN: (THEIR_TURN, PROBABLE), MORE_TURNS: (UNKNOWN, None),
    },
}  # fmt: skip


class CaptureOrigin:
    """The source of a capture: its moment (a row of `TABLE`), its action, its turn (None outside any)."""

    __slots__ = ("cause", "moment", "turn_key")

    def __init__(self, moment: str, cause: "str | None", turn_key: "TurnKey | None") -> None:
        self.moment = moment
        self.cause = cause
        self.turn_key = turn_key


class Attribution:
    """`cause` is the action that made the change, `causes` are those of which one may have made it,
    `turn_key` is the turn that it counts in. `certainty` is None where it is certain."""

    __slots__ = ("causes", "certainty", "owner", "turn_key")

    def __init__(
        self, owner: str, causes: "list[str]", turn_key: "TurnKey | None", certainty: "str | None"
    ) -> None:
        self.owner = owner
        self.causes = causes
        self.turn_key = turn_key
        self.certainty = certainty

    def doubt(self) -> None:
        """It may be older than the last capture, which did not reach this path."""
        if self.turn_key is not None:
            self.certainty = PROBABLE

    @property
    def cause(self) -> "str | None":
        return self.causes[0] if self.owner in (CAPTURING_CALL, THAT_CALL) and self.causes else None


def attribute(origin: CaptureOrigin, others: "Sequence[Running]", key: "str | None" = None) -> Attribution:
    """Whose change it is that the capture of `origin` found.

    Args:
        others: the other calls that are under way, or ended or died without a capture, the latest last.
        key: the `short` path of the change, as edit tools name it; None where the capturing call names it.
    """
    if key is None:
        return Attribution(CAPTURING_CALL, _listed(origin.cause), origin.turn_key, None)
    for other in reversed(others):
        if other.kind == EDITS and key in other.paths:
            return Attribution(THAT_CALL, [other.cause], other.turn_key, PROBABLE if other.dead else None)
    candidates = [other for other in others if other.kind == ANY]
    causes = [other.cause for other in candidates]
    turn_keys: "set[TurnKey | None]" = {other.turn_key for other in candidates}
    if candidates and origin.moment == AFTER_COMMAND and origin.cause is not None:
        causes.append(origin.cause)  # a command may have made it as well as these
        turn_keys.add(origin.turn_key)
    owner, certainty = TABLE[origin.moment][_count(origin, candidates, causes, turn_keys)]
    if any(other.dead for other in candidates):
        certainty = PROBABLE if owner in (THAT_CALL, THEIR_TURN) else certainty
    if owner == CAPTURING_CALL:
        return Attribution(owner, _listed(origin.cause), origin.turn_key, certainty)
    if owner in (THAT_CALL, THEIR_TURN):
        return Attribution(owner, causes, candidates[0].turn_key, certainty)
    return Attribution(owner, causes, origin.turn_key if owner == THIS_TURN else None, certainty)


def _count(
    origin: CaptureOrigin, candidates: "list[Running]", causes: "list[str]", turn_keys: "set[TurnKey | None]"
) -> str:
    """The column of `TABLE`."""
    if not causes:
        return NO_CALL
    if len(causes) == 1:
        return UNCAPTURED if candidates[0].late and candidates[0].turn_key == origin.turn_key else ONE_CALL
    return ONE_TURN if len(turn_keys) == 1 else MORE_TURNS


def _listed(cause: "str | None") -> "list[str]":
    return [] if cause is None else [cause]
