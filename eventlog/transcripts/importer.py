"""Import of transcripts: what agents left on disk becomes events, once (docs/transcripts.md).

Contents are durable before the events that name them (I24), and the note of how far a source was read stands
behind its events; so an import that is killed is finished by repeating it. Memory holds one batch, the lines
being read, and what `known` and `filestates` keep. One thread; other processes may record meanwhile.
"""

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from blake3 import blake3

from eventlog import secret_scan
from eventlog.agents.batch import Batch
from eventlog.agents.call import title_of
from eventlog.errors import EventLogError
from eventlog.names import event_id_of, session_context, session_id_of, sessions_context, slugify
from eventlog.recorder import lifecycle
from eventlog.snapshots.ids import to_text
from eventlog.store import Store
from eventlog.transcripts import formats, seen
from eventlog.transcripts.draft import Draft, FileItem
from eventlog.transcripts.filestates import FileStates
from eventlog.transcripts.gitbase import GitBase
from eventlog.transcripts.known import Known, LogFacts
from eventlog.transcripts.lines import FileSource, Line
from eventlog.types import Event

_BATCH_EVENTS = 8_192
_BATCH_BYTES = 8 << 20
_ASKED_AT_ONCE = 32
_PREVIEW_BYTES = 200

Progress = Callable[[int, int], None]


@dataclass(slots=True)
class ImportReport:
    """What came of an import.

    `sources` were read, `unchanged` were not, because nothing in them changed. Of the lines read,
    `malformed` are no JSON objects. `events` were added, `known` were in the log before. `calls` are model
    calls that were added, `copies` those that were found to be one that is known. `problems` are sources
    that could not be read to their end, and why.
    """

    agent: str
    sources: int = 0
    unchanged: int = 0
    sessions: int = 0
    turns: int = 0
    lines: int = 0
    malformed: int = 0
    events: int = 0
    known: int = 0
    calls: int = 0
    copies: int = 0
    mismatches: int = 0
    problems: list[tuple[str, str]] = field(default_factory=list)


def run(
    store: Store,
    agent: str,
    sources: Sequence[FileSource],
    *,
    progress: Progress | None = None,
    facts: LogFacts | None = None,
) -> ImportReport:
    """Import `sources`, in this order. Raises: as `Store.append`; what is wrong with a source is reported.

    Args: facts: what the log had before, where several agents are imported one after the other.
    """
    report = ImportReport(agent)
    remembered = seen.read(store.fs, store.layout)
    waiting = []
    for source in sources:
        try:
            stamp = source.stamp()
        except OSError as error:
            report.problems.append((source.path, f"it cannot be read: {error.strerror}"))
            continue
        if remembered.get(source.path) == stamp:
            report.unchanged += 1
        else:
            waiting.append((source, stamp))
    if not waiting:
        return report
    with (
        secret_scan.looking(store.redactor),
        _Import(store, agent, report, facts or LogFacts(store)) as into,
    ):
        for number, (source, stamp) in enumerate(waiting):
            if progress is not None:
                progress(number, len(waiting))
            if number % _ASKED_AT_ONCE == 0:
                into.ask_about([one for one, _ in waiting[number : number + _ASKED_AT_ONCE]])
            try:
                into.take(source)
            except EventLogError as error:
                if into.refused:
                    raise
                report.problems.append((source.path, str(error)))
            else:
                remembered[source.path] = stamp
        into.commit()
    seen.write(store.fs, store.layout, remembered)
    return report


class _Import:
    """Takes sources, and writes their events in batches."""

    def __init__(self, store: Store, agent: str, report: ImportReport, facts: LogFacts) -> None:
        self.refused = False  # by the store, not by a source
        self.store = store
        self.report = report
        self.known = Known(store, agent, facts)
        self._agent = agent
        self._marks = self.known.marks()
        self._is_begun = self.known.has_master
        self._batch = Batch(store, bytes_max=_BATCH_BYTES, events_max=_BATCH_EVENTS)
        self.put = self._batch.put
        self._base: GitBase | None = None  # of the source at hand

    def __enter__(self) -> "_Import":
        return self

    def __exit__(self, *exc: object) -> None:
        self.use(None)
        self._batch.close()

    def ask_about(self, sources: Sequence[FileSource]) -> None:
        """Look up together what the log has of the sessions that these seem to be."""
        names: list[object] = []
        for source in sources:
            try:
                head = source.head()
            except (EventLogError, OSError):
                continue  # told when its turn comes
            for said in head:
                payload = said.get("payload")
                names += said.values()
                names += payload.values() if isinstance(payload, dict) else ()
        sessions = list(dict.fromkeys(self.known.of_these(names)))
        if sessions:
            self.known.fetch(sessions)  # those of the portion before were read

    def take(self, source: FileSource) -> None:
        """One source, to its end. Raises: EventLogError."""
        formats.check(self._agent, source)
        told = self._marks.get(source.path, {})
        draft = Draft(self._agent, source.parts)
        reader = formats.reader_of(self._agent)(draft)
        session = _Session(self, source, draft)
        new_lines = malformed = 0
        for line in source.lines(told):
            draft.line = line
            if line.said is None:
                self._keep_malformed(source, draft, line)
            else:
                reader.take(line.said)
            session.settle(line)
            if not line.told:
                new_lines += 1
                malformed += line.said is None
        draft.line = None
        reader.end()
        session.settle(None)
        if new_lines or not told:
            session.end()
            self._note(source, draft, session.gaps())
        self.report.sources += 1
        self.report.lines += new_lines
        self.report.malformed += malformed

    def _keep_malformed(self, source: FileSource, draft: Draft, line: Line) -> None:
        """Keep the bytes of a line that nobody can read, and say where it stood."""
        digest = blake3(line.data).hexdigest()
        payload: dict[str, object] = {
            "path": source.parts[line.part],
            "line": line.number,
            "offset": line.offset,
            "size": len(line.data),
            "begins": line.data[:_PREVIEW_BYTES].decode("utf-8", "replace"),
        }
        blob = to_text(self.put(line.data))
        payload["blob"] = blob
        draft.event(
            "transcript",
            payload,
            "transcript",
            source.parts[line.part],
            str(line.offset),
            digest,
            operation="malformed",
            blobs=[blob],
        )

    def _note(self, source: FileSource, draft: Draft, gaps: "dict[str, int] | None") -> None:
        parts = [
            {
                "name": path.rpartition("/")[2],
                "bytes": mark.size,
                "digest": mark.digest,
                "lines": mark.lines,
                "malformed": mark.malformed,
            }
            for path, mark in zip(source.parts, source.marks, strict=True)
        ]
        digest = blake3("".join(str(part["digest"]) for part in parts).encode()).hexdigest()
        note: Event = {
            "event_type": "import",
            "event_kind": "fact",
            "source": "system",
            "agent": self._agent,
            "operation": "advance",
            "title": source.path,
            "event_id": event_id_of(self._agent, "import", source.path, digest),
            "payload": {"path": source.path, "agent_session_id": draft.session, "parts": parts, "gaps": gaps},
        }
        self._marks[source.path] = {
            str(part["name"]): mark for part, mark in zip(parts, source.marks, strict=True)
        }
        self.add(note, 0)

    # -- where a source belongs ------------------------------------------------------------------

    def root_of(self, source: FileSource, draft: Draft) -> str | None:
        """The directory that paths of a source are relative to."""
        if source.root is not None:
            return source.root
        home = os.path.dirname(self.store.layout.root)
        if draft.cwd is None or draft.cwd == home or draft.cwd.startswith(f"{home}/"):
            return home
        return draft.cwd

    def repo_of(self, source: FileSource) -> str | None:
        """The repository that a session is recorded for; the master's event when it is the store's."""
        if source.is_foreign:
            return source.repo
        if not self._is_begun:
            self._is_begun = True
            repo, name = self.store.repo_hash, self.store.project_name
            master = lifecycle.sessions_master(
                repo, name, agent="locus", event_id=event_id_of("locus", "sessions", repo)
            )
            self.add(master, 0)
        return self.store.repo_hash

    def use(self, base: GitBase | None) -> None:
        """The repository that a source is compared with, instead of that of the one before."""
        if self._base is not None:
            self._base.close()
        self._base = base

    # -- writing ---------------------------------------------------------------------------------

    def add(self, event: Event, size: int) -> None:
        """One event; `size` is that of the line it came from."""
        self._batch.add(event, size)
        if self._batch.is_full:
            self.commit()

    def commit(self) -> None:
        """Contents, then the events that name them."""
        self.refused = True
        self._batch.commit()
        self.refused = False


class _Session:
    """The session of a source: settles what its draft holds after each line."""

    def __init__(self, into: _Import, source: FileSource, draft: Draft) -> None:
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

    def settle(self, line: Line | None) -> None:
        """Send on what the reader said of a line; None: of the end."""
        told = line is not None and line.told
        size = 0 if line is None else len(line.data)
        for item in self._draft.take():
            if self._known.hooked is not None:
                self._known.hooked.adopt(item.columns if isinstance(item, FileItem) else item)
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
            if item.get("operation") == "end" and self._is_live(item):
                item = {**item, "event_type": "transcript"}  # hooks tell the ends of what they record
            self._last = item
            if not told:
                self._add(item, size)

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

    def _add(self, event: Event, size: int) -> None:
        event_id, report = str(event["event_id"]), self._report
        if self._known.has(event_id):
            report.known += 1
            return
        self._known.tell(event_id)
        report.events += 1
        event_type = event["event_type"]
        if event_type == "llm":
            report.calls += 1
        elif event_type == "llm_copy":
            report.copies += 1
        elif event_type == "mismatch":
            report.mismatches += 1
        self._into.add(event, size)
