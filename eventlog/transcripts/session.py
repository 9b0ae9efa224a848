"""The session of one source, on its way into the log: turns begin and end, copies and hooks are told apart.

What a reader says is settled line by line: the end of a turn is told when the next one begins, a model call
that is known under another name becomes a copy of it, and where hooks looked at the disk their word counts
(docs/transcripts.md). One thread.
"""

import os
from typing import TYPE_CHECKING

from eventlog.agents.call import is_global, title_of
from eventlog.agents.ignored_texts import Outside, leave_out, without
from eventlog.names import event_id_of, session_context, session_id_of, sessions_context, slugify
from eventlog.redaction import IGNORED
from eventlog.snapshots.ids import from_text
from eventlog.transcripts.draft import Draft, FileItem
from eventlog.transcripts.filestates import FileStates
from eventlog.transcripts.gitbase import GitBase
from eventlog.transcripts.lines import FileSource, Line
from eventlog.types import Event

if TYPE_CHECKING:
    from eventlog.transcripts.importer import Import


class SourceSession:
    """The session of a source: settles what its draft holds after each line."""

    def __init__(self, into: "Import", source: FileSource, draft: Draft) -> None:
        self._into = into
        self._source = source
        self._draft = draft
        self._known = into.known
        self._report = into.report
        self._states: FileStates | None = None
        self._branch: str | None = None
        self._began_at: int | None = None
        self._entered: str | None = None
        self._turn: str | None = None
        self._turn_is_open = False
        self._last: Event | None = None
        self._missed = 0
        self._outside: Outside | None = None
        self._left_out: set[object] = set()  # tool calls of which texts were left out
        self._aliases = 0  # of the session, that were looked up

    def settle(self, line: Line | None, *, told: bool) -> None:
        """Send on what the reader said of a line; None: of the end. `told`: an import before has sent it."""
        size = 0 if line is None else len(line.data)
        for alias in self._draft.aliases[self._aliases :]:
            self._known.enter_alias(alias)
            self._aliases += 1
        for item in self._draft.take():
            if self._known.hooked is not None:
                self._known.hooked.adopt(item.columns if isinstance(item, FileItem) else item)
            if self._draft.former and not isinstance(item, FileItem):
                self._take_former(item)
            if isinstance(item, FileItem):
                if self._states is None:
                    self._states = self._chain()
                for event in self._states.tell(item):
                    if not told and not self._is_live(event):
                        self._add(event, size)
                continue
            if item["event_type"] == "session" and self._entered != self._draft.session:
                self._enter(item)
            elif item["event_type"] == "turn":
                self._turn_moves(item, told)
            elif item["event_type"] == "llm":
                item = self._counted_once(item)
            elif item["event_type"] == "action":
                self._compare_with_hooks(item, told)
            unheard = item["event_type"] == "subagent" and self._known.hooked is not None  # of subagents
            if item.get("operation") == "end" and self._is_live(item) and not unheard:
                item = {**item, "event_type": "transcript"}  # hooks tell the ends of what they record
            self._last = item
            if not told:
                self._add(item, size)

    def _take_former(self, event: Event) -> None:
        """Give an event the id under which an earlier version told it."""
        event_id = str(event["event_id"])
        former = self._draft.former.pop(event_id, None)
        if former is not None and self._known.takes_former(event_id, former, event.get("agent_turn_id")):
            event["event_id"] = former

    def end(self) -> None:
        """The end of the source: of its last turn and, unless hooks recorded it, of the session."""
        self._end_turn(told=False)
        if self._last is None or self._entered is None or self._known.is_live:
            return
        if "subagent_id" in self._draft.columns:
            return  # its file is no whole session
        draft, last = self._draft, self._last
        draft.of_line = {"occurred_at": last["occurred_at"]} if "occurred_at" in last else {}
        key = ("session", draft.session, "end", str(last["event_id"]))
        draft.event("session", {"end_reason": "transcript"}, *key, operation="end", status="closed")
        for item in draft.take():
            assert not isinstance(item, FileItem)
            self._add(item, 0)

    # -- sessions and turns ----------------------------------------------------------------------

    def _enter(self, start: Event) -> None:
        assert self._draft.session is not None
        self._entered = self._draft.session
        self._known.enter(self._entered)
        branch, began_at = start.get("branch"), start.get("occurred_at")
        self._branch = branch if isinstance(branch, str) else None
        self._began_at = began_at if isinstance(began_at, int) else None
        self._report.sessions += 1
        repo = self._into.repo_of(self._source)
        if repo is not None:
            start["repo"] = self._draft.columns["repo"] = repo

    def _turn_moves(self, event: Event, told: bool) -> None:
        operation, turn = event.get("operation"), event.get("agent_turn_id")
        if operation == "end":
            self._turn_is_open = False
            return
        if operation != "start" or not isinstance(turn, str):
            return
        self._end_turn(told=told)
        first = self._turn is None
        self._turn, self._turn_is_open = turn, True
        if is_global(turn) and self._draft.session is not None:
            owner = self._known.owner_of_turn(str(event["event_id"]), self._draft.session)
            self._draft.owner = None if owner == self._draft.session else owner
        self._known.is_turn_known(str(event["event_id"]), turn)
        payload = event["payload"]
        assert isinstance(payload, dict)
        if payload.get("origin") == "user":
            # Before it is cut: half a secret is not recognised any more.
            message = self._into.store.redactor.text(str(payload["user_message"]))
            event["title"] = title_of(message)
            if first and not told:
                self._name(message, event)
        if not told and not self._known.has(str(event["event_id"])):
            self._report.turns += 1

    def _end_turn(self, *, told: bool) -> None:
        """The end of the turn under way, with the last that the model said in it."""
        if not self._turn_is_open or self._last is None:
            return
        self._turn_is_open = False
        draft, last = self._draft, self._last
        outcome, status = draft.closed.pop(str(self._turn), (draft.outcome, draft.status))
        status = status or "completed"
        if told or self._turn in self._known.live_turns:
            return
        kept = draft.of_line
        draft.of_line = {"agent_turn_id": self._turn}
        if "occurred_at" in last:
            draft.of_line["occurred_at"] = last["occurred_at"]
        key = ("turn", self._turn, "end", str(last["event_id"]))
        draft.event("turn", {"outcome": outcome}, *key, source="agent", operation="end", status=status)
        draft.of_line = kept
        event = draft.items.pop()
        assert not isinstance(event, FileItem)
        self._add(event, 0)

    def _name(self, message: str, start: Event) -> None:
        """The session's name, from its first prompt; the same event as a hook's."""
        draft = self._draft
        assert draft.session is not None
        session_id = session_id_of(draft.agent, draft.session)
        slug = slugify(message[:2_000], session_id)
        repo = draft.columns.get("repo")
        kept = draft.of_line
        draft.of_line = {name: start[name] for name in kept if name in start}
        draft.event(
            "session",
            {"slug": slug},
            "session",
            draft.session,
            "name",
            operation="update",
            title=title_of(message),
            context_id=session_context(slug, session_id),
            extends=None if repo is None else [sessions_context(str(repo))],
        )
        draft.of_line = kept
        event = draft.items.pop()
        assert not isinstance(event, FileItem)
        self._add(event, 0)

    # -- what is known already -------------------------------------------------------------------

    def gaps(self) -> dict[str, int] | None:
        """Tool calls that only one side told; None when no hooks recorded the session."""
        if not self._known.is_live:
            return None
        return {"hooks_missed": self._missed, "transcript_missed": len(self._known.live_actions)}

    def _compare_with_hooks(self, action: Event, told: bool) -> None:
        event_id = str(action["event_id"])
        if event_id in self._known.live_actions:
            self._known.live_actions.discard(event_id)
        elif not told and self._is_live(action):
            self._missed += 1

    def _is_live(self, event: Event) -> bool:
        """Whether hooks looked at the disk in the turn of a file event."""
        return event.get("agent_turn_id") in self._known.live_turns

    def _counted_once(self, event: Event) -> Event:
        """A model call, or that it repeats one which is known under another name."""
        event_id, session = str(event["event_id"]), self._draft.session
        owner = self._known.owner_of_call(event_id)
        if owner is not None and owner != session:
            return self._copy_of(event, event_id, "fork")
        place = event.get("subagent_id") or event.get("agent_turn_id")
        usage = (str(place), event.get("prompt_tokens"), event.get("completion_tokens"))
        told_by_hook = self._known.nameless_calls.get(usage)  # type: ignore[arg-type]
        if told_by_hook and event_id in told_by_hook:
            told_by_hook.remove(event_id)  # an import before told it, without a name that the agent gave
        elif told_by_hook:
            return self._copy_of(event, told_by_hook.pop(), "hook")
        if session is not None:
            self._known.tell_call(event_id, session)
        return event

    def _copy_of(self, event: Event, cause: str, why: str) -> Event:
        key = ("llm_copy", self._draft.session or "", str(event["event_id"]))
        return {
            **event,
            "event_type": "llm_copy",
            "event_id": event_id_of(self._draft.agent, *key),
            "cause": cause,
            "operation": why,
        }

    def _chain(self) -> FileStates:
        into = self._into
        root = into.root_of(self._source, self._draft)
        if root is None:
            return FileStates(self._draft.agent, None, into.put)
        base = GitBase(root, commit=self._draft.commit, branch=self._branch, before_us=self._began_at)
        into.use(base)
        return FileStates(self._draft.agent, root, into.put, base)

    def _without_ignored(self, event: Event) -> Event:
        """The event without what a tool said of a file that is kept although git ignores it (P5)."""
        root = self._into.root_of(self._source, self._draft)
        if self._outside is None and root is not None and os.path.isdir(root):
            self._outside = Outside(root)
        left, id = leave_out((event,), self._outside)[0], event.get("tool_use_id")
        if left is event and id in self._left_out:
            return without(event)
        if left is not event and id is not None:
            self._left_out.add(id)
        if left is not event and event["event_type"] in ("file", "mismatch"):
            blobs = event.get("blobs")
            for one in blobs if isinstance(blobs, (list, tuple)) else ():
                self._into.store.blobs.withhold(from_text(str(one)), IGNORED)
        return left

    def _add(self, event: Event, size: int) -> None:
        if self._into.keeps_ignored:
            event = self._without_ignored(event)
        event_id, report = str(event["event_id"]), self._report
        if self._known.has(event_id):
            report.known += 1
            return
        self._known.tell(event_id)
        report.events += 1
        report.reused_ids += event_id in self._draft.reused
        event_type = event["event_type"]
        if event_type == "llm":
            report.calls += 1
        elif event_type == "llm_copy":
            report.copies += 1
        elif event_type == "mismatch":
            report.mismatches += 1
        self._into.add(event, size)
