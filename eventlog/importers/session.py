"""The session of one source, on its way into the log: turns begin and end, copies and hooks are recognised.

The items of a reader are settled line by line. The end of a turn is added when the next one begins, and a
model call that is known under another id becomes a copy of it. Where hooks captured the disk, their events
count (docs/transcripts.md). One thread.
"""

import os
from typing import TYPE_CHECKING

from eventlog.agents import formats
from eventlog.agents.kit.backups import SessionBackups
from eventlog.agents.kit.call import is_global, object_of, title_of
from eventlog.agents.kit.draft import BACKUP, Draft, FileItem
from eventlog.agents.kit.lines import FileSource, Line
from eventlog.base.names import event_id_of, session_context, session_id_of, sessions_context, short, slugify
from eventlog.base.paths import is_outside, paths_in_arguments
from eventlog.base.types import Event
from eventlog.blobs.ids import from_text
from eventlog.hooks.ignored_texts import Outside, leave_out, without
from eventlog.hooks.ignored_values import KeptValues
from eventlog.hooks.texts import OF_TOOLS
from eventlog.importers.filestates import FileStates, path_below
from eventlog.importers.gitbase import GitBase
from eventlog.secrets.redaction import IGNORED
from eventlog.worktree.kept_ignored import is_withheld
from eventlog.worktree.tracked_contents import TrackedFiles

if TYPE_CHECKING:
    from eventlog.importers.importer import Import

_OF_ORIGINAL = ("agent", "agent_session_id", "agent_turn_id", "subagent_id", "repo", "occurred_at")


class SourceSession:
    """The session of a source: settles the items of its draft after each line."""

    def __init__(self, importer: "Import", source: FileSource, draft: Draft) -> None:
        self._importer = importer
        self._source = source
        self._draft = draft
        self._known = importer.known
        self._report = importer.report
        self._states: FileStates | None = None
        self._early: list[FileItem] = []  # copies that were named before the first edit
        self._branch: str | None = None
        self._began_at: int | None = None
        self._entered: str | None = None
        self._turn: str | None = None
        self._turn_is_open = False
        self._last: Event | None = None
        self._last_former: object = None
        self._missed = 0
        self._outside: Outside | None = None
        self._values: KeptValues | None = None  # of the files that are kept although git ignores them
        self._tracked: TrackedFiles | None = None
        self._sizes: dict[bytes, int] = {}  # of the contents that were put
        self._left_out: set[object] = set()  # tool calls of which texts were left out
        self._is_numbered = False  # recorded by a version whose ids have line numbers
        self._formers: dict[str, str] = {}  # id that this version gives → former id that was taken
        self._aliases = 0  # of the session, that were loaded
        self._roots: dict[str, tuple[str, ...]] = {}  # root → its spellings

    def settle(self, line: Line | None, *, is_recorded: bool) -> None:
        """Settle the reader's items of a line; None: of the end. `is_recorded`: an earlier import added
        them."""
        size = 0 if line is None else len(line.data)
        for alias in self._draft.aliases[self._aliases :]:
            self._known.enter_alias(alias)
            self._aliases += 1
        for item in self._draft.take():
            if self._known.here.matcher is not None:
                self._known.here.matcher.adopt(item.columns if isinstance(item, FileItem) else item)
            if not isinstance(item, FileItem):
                self._take_former(item)
            if isinstance(item, FileItem):
                for event in self._events_of(item):
                    if not is_recorded and (not self._is_live(event) or self._is_unseen(event)):
                        self._add(event, size)
                continue
            if item.get("agent_session_id") == self._draft.session != self._entered:
                self._leave()
                self._enter(item)
            if item["event_type"] == "turn":
                self._turn_moves(item, is_recorded)
            elif item["event_type"] == "llm":
                item = self._counted_once(item)
            elif item["event_type"] in OF_TOOLS:
                self._name_path(item)
                if item["event_type"] == "action":
                    self._compare_with_hooks(item, is_recorded)
            elif item["event_type"] == "error" and (path := self._path_of_call(item)) is not None:
                item["path"] = path
            # Hooks that need matching report no end of a subagent.
            is_unreported = item["event_type"] == "subagent" and self._known.here.matcher is not None
            if item.get("operation") == "end" and self._is_live(item) and not is_unreported:
                item = {**item, "event_type": "transcript"}  # hooks report the ends of what they record
            self._last, self._last_former = item, item.get("former_id")
            if not is_recorded:
                self._add(item, size)

    def _take_former(self, event: Event) -> None:
        """Give an event the id under which an earlier version recorded it."""
        event_id = str(event["event_id"])
        former = self._draft.former.pop(event_id, None)
        self._known.take(event_id)
        if former is not None and self._known.takes_former(event_id, former, event.get("agent_turn_id")):
            event["event_id"] = self._formers[event_id] = former
        if event.get("cause") in self._formers:
            event["cause"] = self._formers[str(event["cause"])]

    def end(self) -> None:
        """End the source: its last turn and, unless hooks recorded it, the session."""
        if self._source.is_copy:
            return  # both continue in another source
        self._end_turn(is_recorded=False)
        if self._last is None or self._entered is None or self._known.here.is_live:
            return
        if "subagent_id" in self._draft.columns:
            return  # its file is no whole session
        draft, last = self._draft, self._last
        draft.of_line = {"occurred_at": last["occurred_at"]} if "occurred_at" in last else {}
        key = ("session", draft.session, "end", str(last["event_id"]))
        end = draft.event("session", {"end_reason": "transcript"}, *key, operation="end", status="closed")
        if self._last_former is not None:
            end["former_id"] = event_id_of(draft.agent, *map(str, key[:-1]), str(self._last_former))
        for item in draft.take():
            assert not isinstance(item, FileItem)
            self._add(item, 0)

    # -- sessions and turns ----------------------------------------------------------------------

    def _leave(self) -> None:
        """End the previous session where the source goes on with another one."""
        if self._entered is None or self._last is None:
            return
        draft = self._draft
        session, columns, items = draft.session, draft.columns, draft.take()
        draft.session, draft.columns = self._entered, {**columns, **_session_columns(self._last)}
        self.end()
        draft.session, draft.columns, draft.items = session, columns, items
        self._last, self._turn, self._states, self._early = None, None, None, []

    def _enter(self, start: Event) -> None:
        assert self._draft.session is not None
        self._entered = self._draft.session
        self._importer.enter(self._entered, is_copy=self._source.is_copy)
        branch, began_at = start.get("branch"), start.get("occurred_at")
        self._branch = branch if isinstance(branch, str) else None
        self._began_at = began_at if isinstance(began_at, int) else None
        repo = self._importer.repo_of(self._source)
        if repo is not None:
            start["repo"] = self._draft.columns["repo"] = repo

    def _turn_moves(self, event: Event, is_recorded: bool) -> None:
        operation, turn = event.get("operation"), event.get("agent_turn_id")
        if operation == "end":
            self._turn_is_open = False
            return
        if operation != "start" or not isinstance(turn, str):
            return
        self._end_turn(is_recorded=is_recorded, followed_at=event.get("occurred_at"))
        first = self._turn is None
        self._turn, self._turn_is_open = turn, True
        if is_global(turn) and self._draft.session is not None:
            owner = self._known.owner_of_turn(str(event["event_id"]), self._draft.session)
            self._draft.owner = None if owner == self._draft.session else owner
        self._known.is_turn_known(str(event["event_id"]), turn)
        payload = object_of(event, "payload")
        if payload.get("origin") == "user":
            # Before it is cut: half a secret is no longer recognised.
            message = self._importer.store.redactor.text(str(payload["user_message"]))
            event["title"] = title_of(message) or event["title"]
            if first and not is_recorded:
                self._name(message, event)
        if not is_recorded and not self._known.has(str(event["event_id"])):
            self._report.turns += 1

    def _end_turn(self, *, is_recorded: bool, followed_at: object = None) -> None:
        """End the turn under way, with the last words of the model in it.

        Lines that a client wrote again have the time of the rewriting. If the next turn began before that
        time, this one ended when the next began.
        """
        if not self._turn_is_open or self._last is None:
            return
        self._turn_is_open = False
        draft, last = self._draft, self._last
        outcome, status = draft.closed.pop(str(self._turn), (draft.outcome, draft.status))
        status = status or "completed"
        if is_recorded or self._turn in self._known.here.live_turns:
            return
        line_columns = draft.of_line
        draft.of_line = {"agent_turn_id": self._turn}
        if "occurred_at" in last:
            occurred_us = last["occurred_at"]
            is_late = (
                isinstance(occurred_us, int) and isinstance(followed_at, int) and followed_at < occurred_us
            )
            draft.of_line["occurred_at"] = followed_at if is_late else occurred_us
        key = ("turn", self._turn, "end", str(last["event_id"]))
        columns = {"source": "agent", "operation": "end", "status": status}
        event = draft.event("turn", {"outcome": outcome}, *key, **columns)
        draft.of_line = line_columns
        draft.items.pop()
        if self._last_former is not None:
            event["former_id"] = event_id_of(draft.agent, *map(str, key[:-1]), str(self._last_former))
        self._add(event, 0)

    def _name(self, message: str, start: Event) -> None:
        """Add the session's name, from its first prompt; the same event as a hook's."""
        draft = self._draft
        assert draft.session is not None
        session_id = session_id_of(draft.agent, draft.session)
        slug = slugify(message[:2_000], session_id)
        repo = draft.columns.get("repo")
        line_columns = draft.of_line
        draft.of_line = {name: start[name] for name in line_columns if name in start}
        event = draft.event(
            "session",
            {"slug": slug},
            "session",
            draft.session,
            "name",
            operation="update",
            title=start["title"],
            context_id=session_context(slug, session_id),
            extends=None if repo is None else [sessions_context(str(repo))],
        )
        draft.of_line = line_columns
        draft.items.pop()
        self._add(event, 0)

    # -- comparing with the log ------------------------------------------------------------------

    def gaps(self) -> dict[str, int] | None:
        """Counts of tool calls that only one side reported; None when no hooks recorded the session."""
        if not self._known.here.is_live:
            return None
        return {"hooks_missed": self._missed, "transcript_missed": len(self._known.here.live_actions)}

    def _name_path(self, event: Event) -> None:
        """Give an event of a tool the path that its arguments name, where it is one below the root."""
        payload = event["payload"]
        root = self._importer.root_of(self._source, self._draft)
        named = paths_in_arguments(payload.get("args")) if isinstance(payload, dict) else []
        if len(named) != 1 or root is None:
            return
        if root not in self._roots:
            self._roots[root] = tuple(dict.fromkeys((root, os.path.realpath(root))))
        path = path_below(self._roots[root], named[0], event.get("cwd"))
        if path is not None:
            event["path"] = path

    def _path_of_call(self, error: Event) -> object:
        """The path of the failed call, whose action comes right before the error."""
        action, call = self._last or {}, error.get("tool_use_id")
        return None if call is None or action.get("tool_use_id") != call else action.get("path")

    def _compare_with_hooks(self, action: Event, is_recorded: bool) -> None:
        event_id = str(action["event_id"])
        if event_id in self._known.here.live_actions:
            self._known.here.live_actions.discard(event_id)
        elif not is_recorded and self._is_live(action):
            self._missed += 1

    def _was_numbered(self, event: Event) -> bool:
        """Whether the log has an event under its former id. For copied lines after the first that id is
        unknown; they count as recorded if the log has their turn."""
        former, is_line = event.pop("former_id", None), event["event_type"] in ("transcript", "error")
        if former is None:
            return False
        if self._known.has(str(former)):
            self._is_numbered |= is_line
            return True
        turn = event.get("agent_turn_id")
        return is_line and self._is_numbered and self._source.is_copy and self._known.has_turn(str(turn))

    def _is_live(self, event: Event) -> bool:
        """Whether hooks captured the disk in the turn of an event."""
        return event.get("agent_turn_id") in self._known.here.live_turns

    def _is_unseen(self, event: Event) -> bool:
        """Whether an event is of a file that hooks never capture: it is outside the work tree."""
        return is_outside(str(event["path"])) and self._importer.is_worktree_known(self._source, self._draft)

    def _counted_once(self, event: Event) -> Event:
        """A model call, or its event as a copy of one that is known under another id."""
        event_id, session = str(event["event_id"]), self._draft.session
        owner = self._known.owner_of_call(event_id)
        if owner is not None and owner != session:
            return self._copy_of(event, event_id, "fork")
        turn_or_subagent = event.get("subagent_id") or event.get("agent_turn_id")
        usage = (str(turn_or_subagent), event.get("prompt_tokens"), event.get("completion_tokens"))
        equal_calls = self._known.here.nameless_calls.get(usage)  # type: ignore[arg-type]
        former = str(event.get("former_id", event_id))
        recorded_id = next(
            (candidate for candidate in (event_id, former) if self._known.has(candidate)), None
        )
        if equal_calls and recorded_id in equal_calls:
            equal_calls.remove(recorded_id)
            if recorded_id is not None and self._known.is_of_hook(recorded_id):
                return self._copy_of(event, recorded_id, "hook")
        elif equal_calls and recorded_id is None:
            return self._copy_of(event, equal_calls.pop(), "hook")
        if session is not None:
            self._known.note_call(event_id, session)
        return event

    def _copy_of(self, event: Event, cause: str, reason: str) -> Event:
        former = event.get("former_id", event["event_id"])  # where it has one, it names the copy
        key = ("llm_copy", self._draft.session or "", str(former))
        return {
            **event,
            "event_type": "llm_copy",
            "event_id": event_id_of(self._draft.agent, *key),
            "cause": cause,
            "operation": reason,
        }

    def _events_of(self, item: FileItem) -> list[Event]:
        """The events of an edit. The chain begins with the first edit: before it the root may be unknown."""
        if self._states is None:
            self._early.append(item)
            if item.edit.kind == BACKUP:
                return []
            self._states, early, self._early = self._chain(), self._early, []
            return [event for early_item in early for event in self._states.events_of(early_item)]
        return self._states.events_of(item)

    def _chain(self) -> FileStates:
        importer = self._importer
        root = importer.root_of(self._source, self._draft)
        if root is None:
            return FileStates(self._draft.agent, None, self._put)
        draft, source = self._draft, self._source
        base = GitBase(root, commit=draft.commit, branch=self._branch, before_us=self._began_at)
        importer.use(base)
        directory, file_name = formats.backups_of(draft.agent, source), os.path.basename(source.path)
        return FileStates(
            draft.agent,
            root,
            self._put,
            base,
            real_root=os.path.realpath(root),
            name_outside=importer.outside.name_of,
            backup=SessionBackups(directory, (draft.session, file_name.partition(".")[0]))
            if directory
            else None,
        )

    def _without_ignored(self, event: Event) -> Event:
        """The event without texts of a tool about a file that is kept although git ignores it (P5)."""
        root = self._importer.root_of(self._source, self._draft)
        if self._outside is None and root is not None and os.path.isdir(root):
            self._outside, self._tracked = Outside(root), TrackedFiles(root)
            store = self._importer.store
            context = store.layout, short(os.fsencode(root)), root, self._outside, store.blobs.get
            self._values = KeptValues(*context)
        stripped, id = leave_out((event,), self._outside)[0], event.get("tool_use_id")
        if stripped is event and id in self._left_out:
            return without(event)
        if stripped is not event and id is not None:
            self._left_out.add(id)
        if stripped is not event and event["event_type"] in ("file", "mismatch"):
            self._withhold(event)
        return stripped if self._values is None else self._values.take_out((stripped,))[0]

    def _without_private(self, event: Event) -> Event:
        """An event of a file outside: whether git ignores it is not known, so its name decides."""
        assert self._states is not None
        path = self._states.outside[str(event["path"])]
        if not is_withheld(path.encode("utf-8", "surrogatepass")):
            return event
        self._withhold(event)
        return without(event)

    def _withhold(self, event: Event) -> None:
        """Withhold the contents that an event names, except those that git tracks."""
        blobs = event.get("blobs")
        for id in map(from_text, map(str, blobs if isinstance(blobs, (list, tuple)) else ())):
            if self._tracked is None or not self._tracked.has(id, self._sizes.get(id, -1)):
                self._importer.store.blobs.withhold(id, IGNORED)

    def _put(self, content: bytes) -> bytes:
        id = self._importer.put(content)
        self._sizes[id] = len(content)
        return id

    def _add(self, event: Event, size: int) -> None:
        if event["event_type"] in ("file", "mismatch") and is_outside(str(event.get("path"))):
            event = self._without_private(event)
        elif self._importer.keeps_ignored:
            event = self._without_ignored(event)
        event_id, report = str(event["event_id"]), self._report
        was_numbered = self._was_numbered(event)
        if not self._source.is_copy and "occurred_at" in event and self._known.lacks_time(event_id):
            event = _original_of(event)
            event_id = str(event["event_id"])
        if self._known.has(event_id) or was_numbered:
            report.known += 1
            return
        event_type = event["event_type"]
        answer = event.get("message_id") if event_type == "llm" else None
        grows = event_type == "llm" and self._known.grows(event)
        self._known.note_added(event_id, answer)
        report.events += 1
        report.reused_ids += event_id in self._draft.reused
        if event_type == "llm":
            report.calls += not grows
        elif event_type == "llm_copy":
            report.copies += 1
        elif event_type == "mismatch":
            report.mismatches += 1
        self._importer.add(event, size)


def _session_columns(event: Event) -> Event:
    return {name: event[name] for name in ("agent_session_id", "agent_version", "repo") if name in event}


def _original_of(event: Event) -> Event:
    """Facts from a file about an event that the log has from a copy: its time, and what ended a call."""
    event_id = str(event["event_id"])
    own_id = event_id_of(str(event["agent"]), "original", event_id)
    if event["event_type"] == "turn":
        return {**event, "event_id": own_id}  # one more end, which is the last
    columns = {name: event[name] for name in _OF_ORIGINAL if name in event}
    payload = {
        name: value for name, value in object_of(event, "payload").items() if name in ("told", "changes")
    }
    return {
        **columns,
        "event_type": "transcript",
        "event_id": own_id,
        "operation": "original",
        "cause": event_id,
        "payload": payload,
    }
