"""File events from what a capture found: which change belongs to which tool, and under which id.

A change that a person made between two captures and one that a tool made look alike on disk. What tells them
apart: the moment of the capture, the files that edit tools name before they begin, and the text that the
agent found in a file. What cannot be told has no cause (P7). On the hook path.
"""

from eventlog.agents.call import Call, Named
from eventlog.agents.live_state import Running, Told, short
from eventlog.errors import EventLogError
from eventlog.names import event_id_of
from eventlog.paths import path_text
from eventlog.snapshots.ids import blob_id, to_text
from eventlog.snapshots.tree import DIRECTORY, EXECUTABLE, FILE, SKIPPED, SUBMODULE, SYMLINK
from eventlog.types import RELATED_OF_TYPE, Event

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from eventlog.snapshots.store import BlobStore
    from eventlog.snapshots.tree import TreeEntry
    from eventlog.snapshots.worktree import Capture
    from eventlog.snapshots.worktree_changes import Change

# More changes than this are told by the snapshot alone: the two trees say what they are.
FILES_MAX = 5_000

_MODE_OF = {
    FILE: "100644",
    EXECUTABLE: "100755",
    SYMLINK: "120000",
    SUBMODULE: "160000",
    DIRECTORY: "040000",
}
_BOM = b"\xef\xbb\xbf"


class Teller:
    """Makes the file events of one capture.

    `named` are the call's own files by path in the directory, `others` the tools that may have made a change
    too: those under way, and those that ended without a look at the directory.
    """

    def __init__(
        self,
        call: Call,
        told: Told,
        done: "Capture",
        named: "dict[bytes, Named]",
        others: "Sequence[Running]",
        put: "Callable[[bytes], bytes]",
    ) -> None:
        self._call = call
        self._told = told
        self._named = named
        self._others = others
        self._put = put
        self._skipped = dict(done.skipped)
        self._lists = {one.sentence: to_text(one.list_id) for one in done.deferred}

    def tell(self, change: "Change", outside: Event, *, by_tool: bool, blobs: "BlobStore") -> "list[Event]":
        """The events of one change.

        Args:
            outside: columns of an event that no tool explains.
            by_tool: the capture was made for a tool call, or at the end of its turn.
        """
        named = self._named.get(change.path) if by_tool else None
        cause, columns, others = self._cause_of(change.path, named, outside, by_tool=by_tool)
        found = []
        before = change.before
        if named is not None and named.original is not None and change.old_path is None:
            between = self._between(named.original, before, blobs)
            if between is not None:
                # Somebody changed the file behind the last capture and before the tool did.
                found.append(self._event(change, before, between, {"source": "user"}, None, None))
                before = between
        event = self._event(change, before, change.after, columns, cause, named)
        if others:
            event["payload"]["causes"] = others  # type: ignore[index]
        return [*found, event]

    def _cause_of(
        self, path: bytes, named: "Named | None", outside: Event, *, by_tool: bool
    ) -> "tuple[str | None, Event, list[str]]":
        """The action behind a change that this call's capture found, the columns of its turn, and where
        nobody can tell, the actions of which it may be one."""
        call = self._call
        if named is not None:
            return call.cause, {}, []
        key = short(path)
        for other in reversed(self._others):
            if key in other.paths:
                return other.cause, self._place_of(other), []
        if not by_tool:
            return None, outside, []
        # An edit tool changes what it names; the rest is a command's that runs, or ran, beside it.
        others = [other for other in self._others if not other.edits]
        own = call.cause if call.cause is not None and not (call.edits and others) else None
        if own is not None and not others:
            return own, {}, []
        if own is None and len(others) == 1 and (call.cause is not None or self._others[-1].late):
            return others[0].cause, self._place_of(others[0]), []
        possible = [other.cause for other in others] + ([own] if own is not None else [])
        if call.cause is not None and all(self._is_beside(other) for other in others):
            return None, {"source": "system"}, possible  # which of them is not known, the turn is
        return None, outside, possible

    def _is_beside(self, other: Running) -> bool:
        """Whether a tool stands in the same turn as the call."""
        return other.place == (self._call.agent, self._call.session, self._call.turn)

    def _place_of(self, other: Running) -> Event:
        """Columns of a change by another tool than the call's: it counts where its action does."""
        if self._is_beside(other):
            return {"subagent_id": None}
        agent, session, turn = other.place
        return {
            "agent": agent, "agent_session_id": session, "agent_turn_id": turn,
            "subagent_id": None, "cwd": None, "model": None,
        }  # fmt: skip

    def _between(self, original: str, before: "TreeEntry | None", blobs: "BlobStore") -> "TreeEntry | None":
        """The state that the tool found, when it is another one than the log knows."""
        from eventlog.snapshots.tree import TreeEntry

        data = original.encode("utf-8", "replace")
        if before is not None and before.id == blob_id(data):
            return None
        if before is not None and before.kind in (FILE, EXECUTABLE):
            try:
                known = blobs.get(before.id)
            except EventLogError:
                return None
            # Agents read files as text: without a mark at the beginning, with plain line ends.
            if _plain(known) == _plain(data) or "\ufffd" in original:
                return None
        elif before is not None:
            return None
        return TreeEntry(b"-", FILE if before is None else before.kind, self._put(data), len(data))

    def _event(
        self,
        change: "Change",
        before: "TreeEntry | None",
        after: "TreeEntry | None",
        columns: Event,
        cause: "str | None",
        named: "Named | None",
    ) -> Event:
        path = path_text(change.path)
        operation = change.operation
        if before is not change.before or after is not change.after:
            operation = "add" if before is None else "delete" if after is None else "edit"
        payload: "dict[str, object]" = {}
        if change.old_path is not None:
            payload["old_path"] = path_text(change.old_path)
        if before is not None:
            payload["before_mode"] = _MODE_OF.get(before.kind)
        if after is not None:
            payload["after_mode"] = _MODE_OF.get(after.kind)
            if after.id in self._lists:
                payload["deferred"] = self._lists[after.id]
            elif after.kind == SKIPPED:
                payload["skipped"] = self._skipped.get(change.path, "it was not captured")
            elif after.kind != DIRECTORY:
                payload["after_size"] = after.size
        before_hash, after_hash = _content(before), _content(after)
        deferred = payload.get("deferred")
        event: Event = {
            "event_type": "file",
            "event_kind": "action",
            "source": "executor",
            "path": path,
            "operation": operation,
            "before_hash": before_hash,
            "after_hash": after_hash,
            "blobs": [one for one in (before_hash, after_hash, deferred) if one is not None],
            "related_to": RELATED_OF_TYPE["file"],
            "cause": cause,
            "lines_added": None if named is None else named.added,
            "lines_removed": None if named is None else named.removed,
            **columns,
        }
        event["payload"] = {name: value for name, value in payload.items() if value is not None}
        key = (self._told.nonce, path, operation, before_hash or "", after_hash or str(deferred or ""))
        event["event_id"] = event_id_of("locus", "file", *key)
        return event


def _content(entry: "TreeEntry | None") -> "str | None":
    if entry is None or entry.kind in (DIRECTORY, SKIPPED):
        return None
    return to_text(entry.id)


def _plain(data: bytes) -> bytes:
    return data.removeprefix(_BOM).replace(b"\r\n", b"\n")
