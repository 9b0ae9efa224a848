"""Import of transcripts: the files that agents left on disk become events, once (docs/transcripts.md).

Contents are durable before the events that name them (I24), and the note of how far a source was read comes
after its events. So an import that was killed is finished by repeating it. Memory holds one batch, the
current lines, and the state of `known_sessions` and `filestates`. One thread; other processes may record
meanwhile.
"""

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from blake3 import blake3

from eventlog.agents import formats
from eventlog.agents.kit.draft import Draft
from eventlog.agents.kit.lines import Doubles, FileSource, Line, names_in
from eventlog.base import config
from eventlog.base.errors import EventLogError
from eventlog.base.garbage import rare_collections
from eventlog.base.names import event_id_of
from eventlog.base.types import Event
from eventlog.blobs.ids import to_text
from eventlog.importers import completed_lines, foreign, source_stamps
from eventlog.importers.batch import ImportBatch
from eventlog.importers.gitbase import GitBase
from eventlog.importers.hook_matching import ToHooks
from eventlog.importers.known_sessions import KnownSessions, LogFacts
from eventlog.importers.session import SourceSession
from eventlog.importers.sources import Passed
from eventlog.recorder import lifecycle
from eventlog.secrets import bulk_prefilter
from eventlog.secrets.outside_names import OutsideNames
from eventlog.store import Store

_BATCH_EVENTS = 8_192
_BATCH_BYTES = 8 << 20
_ASKED_AT_ONCE = 32
_PREVIEW_BYTES = 200

Progress = Callable[[int, int], None]


@dataclass(slots=True)
class ImportReport:
    """The result of an import.

    `sources` were read; `unchanged` were not, because nothing in them changed. `sessions` counts the
    different ones of which something was read. Of the lines read, `malformed` are no JSON objects and
    `oversized` are too long; `completed` are lines that an earlier import found half written. `events` were
    added; `notes` among them are the import's own: how far it read, what is withheld. `known` were in the log
    before. `calls` are added model calls, an answer on several lines counted once; `copies` are copies of a
    known one. `reused_ids` are events that were added although another fact has the id that the agent gave
    them. `withheld` are contents that this import was the first to record as holding a secret. `problems` are
    sources that could not be read to their end, and why; `passed` lists what the search for sources passed
    over, and sessions that this log exported.
    """

    agent: str
    sources: int = 0
    unchanged: int = 0
    sessions: int = 0
    turns: int = 0
    lines: int = 0
    malformed: int = 0
    oversized: int = 0
    events: int = 0
    known: int = 0
    calls: int = 0
    copies: int = 0
    mismatches: int = 0
    completed: int = 0
    notes: int = 0
    withheld: int = 0
    reused_ids: int = 0
    problems: list[tuple[str, str]] = field(default_factory=list)
    passed: list[Passed] = field(default_factory=list)

    @property
    def facts(self) -> int:
        """The events that were added, without the import's own."""
        return self.events - self.notes

    @property
    def is_partial(self) -> bool:
        """Whether something could not be read, or not be understood."""
        failed = any(passed.failed for passed in self.passed)
        return bool(failed or self.problems or self.malformed or self.oversized)


def run(
    store: Store,
    agent: str,
    sources: Sequence[FileSource],
    *,
    progress: Progress | None = None,
    facts: "Callable[[], LogFacts] | None" = None,
) -> ImportReport:
    """Import `sources`, the oldest session first, so that a fork comes after the session it was copied from.

    Raises: as `Store.append`; problems of a source are reported.
    Args: facts: gives the log's facts from before, where several agents are imported one after the other.
    """
    report = ImportReport(agent)
    remembered = source_stamps.read(store.fs, store.layout)
    waiting: list[_Waiting] = []
    for source in sources:
        try:
            stamp = source.stamp()
        except OSError as error:
            report.problems.append((source.path, f"it cannot be read: {error.strerror}"))
            continue
        if remembered.get(source.path) == stamp:
            report.unchanged += 1
        else:
            waiting += _waiting(agent, source, stamp)
    if not waiting:
        return report
    waiting.sort(key=lambda pending: pending.age)
    with (
        rare_collections(),
        bulk_prefilter.attached_to(store.redactor),
        Import(store, agent, report, facts() if facts else LogFacts(store)) as importer,
    ):
        for number, pending in enumerate(waiting):
            if progress is not None:
                progress(number, len(waiting))
            if number % _ASKED_AT_ONCE == 0:
                importer.ask_about(waiting[number : number + _ASKED_AT_ONCE])
            passed_before = len(report.passed)
            try:
                importer.take(pending.source)
            except EventLogError as error:
                if importer.refused:
                    raise
                report.problems.append((pending.source.path, str(error)))
            else:
                if len(report.passed) == passed_before:  # else the next import reports it again
                    remembered[pending.source.path] = pending.stamp
        importer.finish()
    source_stamps.write(store.fs, store.layout, remembered)
    return report


def _waiting(agent: str, source: FileSource, stamp: "list[list[int]]") -> "list[_Waiting]":
    """A source to be read, after the copies of others' histories that it begins with."""
    touched_s = 0.0
    try:
        touched_s = source.touched_s()
        head = source.head()
    except (EventLogError, OSError):
        head = []  # reported when the source is read
    parts = [*formats.histories_in(agent, source, head), source]
    return [_Waiting(part, stamp, head, touched_s, number) for number, part in enumerate(parts)]


class _Waiting:
    """A source to be read: `age` sorts it; one of `names` may be the id of its session."""

    __slots__ = ("age", "names", "source", "stamp")

    def __init__(
        self,
        source: FileSource,
        stamp: "list[list[int]]",
        head: "list[dict[str, Any]]",
        touched_s: float,
        number: int,
    ) -> None:
        self.source = source
        self.stamp = stamp
        began = ""
        self.names = names_in(head)
        for entry in head:
            started_at = entry.get("timestamp") or entry.get("startTime")
            if isinstance(started_at, str) and not began:
                began = started_at
        self.age = began, touched_s, source.parts[0], number


class Import:
    """Takes sources, and writes their events in batches."""

    def __init__(self, store: Store, agent: str, report: ImportReport, facts: LogFacts) -> None:
        self.refused = False  # by the store, not by a source
        self.store = store
        self.report = report
        self.known = KnownSessions(store, agent, facts)
        self.keeps_ignored = config.keeps_ignored(store.fs, store.layout) is True
        self._agent = agent
        self._marks = self.known.marks()
        self._is_begun = self.known.has_master
        self.known.id_owners.write = self.commit
        self._batch = ImportBatch(store, bytes_max=_BATCH_BYTES, events_max=_BATCH_EVENTS)
        self.put = self._batch.put
        self.outside = OutsideNames(store.fs, store.layout)
        self._base: GitBase | None = None  # of the source at hand
        self._to_hooks = ToHooks(store.layout, agent)
        self._sessions: set[str] = set()

    def __enter__(self) -> "Import":
        return self

    def __exit__(self, *exc: object) -> None:
        self.use(None)
        self._batch.close()

    def ask_about(self, waiting: "Sequence[_Waiting]") -> None:
        """Fetch together what the log has of the sessions that these seem to be."""
        sessions = self.known.of_these(dict.fromkeys(name for pending in waiting for name in pending.names))
        if sessions:
            self.known.fetch(sessions)

    def take(self, source: FileSource) -> None:
        """Read one source to its end. Raises: EventLogError."""
        foreign.check(self._agent, source)
        read_before = self._marks.get(source.path, {})
        draft = Draft(self._agent, source.parts, is_copy=source.is_copy)
        draft.is_taken, draft.is_held = self.known.is_taken, self.known.is_held
        reader = formats.reader_of(self._agent)(draft)
        session, passed_before = SourceSession(self, source, draft), len(self.report.passed)
        new_lines = malformed = oversized = 0
        doubles, exported_session = Doubles(), formats.exported_session_of(self._agent)
        for line in source.lines(read_before):
            draft.line = line
            if line.record is None:
                self._keep_malformed(source, draft, line)
            elif not doubles.has(line) and not self._is_own(source, exported_session(line.record)):
                reader.take(line.record)
            session.settle(line, is_recorded=line.is_imported)
            if not line.is_imported:
                new_lines += 1
                self.report.lines += not line.piece and not source.is_copy
                oversized += line.piece == 0
                malformed += line.record is None and line.piece is None
        draft.line = None
        reader.end()
        session.settle(None, is_recorded=bool(read_before) and not new_lines)
        if source.is_copy and draft.session is None:
            return
        is_own = len(self.report.passed) > passed_before and draft.session is None and not malformed
        if (new_lines or not read_before) and not is_own:
            session.end()
            self._note(source, draft, session.gaps())
        if not source.is_copy:
            self.report.sources += 1
            self.report.malformed += malformed
            self.report.oversized += oversized

    def _is_own(self, source: FileSource, session: str | None) -> bool:
        """Whether the log has the session that a line is an export of, so that the line is passed over."""
        if session is None or not self.known.has_session(session):
            return False
        self.report.passed.append(Passed(source.path, "already in this log", failed=False, session=session))
        return True

    def _keep_malformed(self, source: FileSource, draft: Draft, line: Line) -> None:
        """Keep the bytes of a line that cannot be parsed, or of a part of one, with its position."""
        digest = blake3(line.data).hexdigest()
        payload: dict[str, object] = {
            "path": source.parts[line.part],
            "line": line.number,
            "offset": line.offset,
            "size": len(line.data),
            "begins": line.data[:_PREVIEW_BYTES].decode("utf-8", "replace"),
        }
        if line.piece is not None:
            payload["piece"] = line.piece
        blob = to_text(self.put(line.data))
        payload["blob"] = blob
        draft.event(
            "transcript",
            payload,
            "transcript",
            source.parts[line.part],
            str(line.offset),
            digest,
            operation="malformed" if line.piece is None else "oversized",
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
        event: Event = {
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
        self.add(event, 0)

    # -- where a source belongs ------------------------------------------------------------------

    def root_of(self, source: FileSource, draft: Draft) -> str | None:
        """The directory that paths of a source are relative to."""
        if source.root is not None:
            return source.root
        home = os.path.dirname(self.store.layout.root)
        if draft.cwd is None or draft.cwd == home or draft.cwd.startswith(f"{home}/"):
            return home
        return draft.cwd

    def is_worktree_known(self, source: FileSource, draft: Draft) -> bool:
        """Whether the root of a source is a work tree, and not just where the session began."""
        home = os.path.dirname(self.store.layout.root)
        return source.root is not None or self.root_of(source, draft) == home

    def repo_of(self, source: FileSource) -> str | None:
        """The repository that a session is recorded for; adds the master's event when it is the store's."""
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

    def enter(self, session: str, *, is_copy: bool = False) -> None:
        """Begin to read a session, perhaps not for the first time; one of a copy is not counted."""
        self.known.enter(session)
        if not is_copy:
            self._sessions.add(session)
        self.report.sessions = len(self._sessions)

    def use(self, base: GitBase | None) -> None:
        """Set the repository that the current source is compared with, instead of the last one's."""
        if self._base is not None:
            self._base.close()
        self._base = base

    # -- writing ---------------------------------------------------------------------------------

    def add(self, event: Event, size: int) -> None:
        """Add one event; `size` is that of the line it came from."""
        self._to_hooks.take(event)
        self._batch.add(event, size)
        if self._batch.is_full:
            self.commit()

    def _sizes(self) -> dict[str, int]:
        """How far each file is read: a source's own by its path, those of its subagents by their names."""
        return {
            (path if name == os.path.basename(path) else name): mark.size
            for path, marks in self._marks.items()
            for name, mark in marks.items()
        }

    def commit(self) -> None:
        """Write contents, then the events that name them."""
        self.refused = True
        self._to_hooks.write()
        self._batch.commit()
        self.refused = False

    def finish(self) -> None:
        """Write the rest, and count all that was added to the log."""
        report = self.report
        events = list(completed_lines.completed(self.store, self._agent, self.known, self._sizes()))
        report.completed = len({(e["payload"]["path"], e["payload"]["offset"]) for e in events})  # type: ignore[index]
        for event in events:
            self.add(event, 0)
        self.commit()
        report.notes = self._batch.events_appended - report.events
        report.events = self._batch.events_appended
        report.withheld = self._batch.secrets_found
