"""The store: one `.locus` directory, and its Python interface.

A `Store` may be used by one thread at a time; any number of processes may have the same directory
open. Heavy rooms (DuckDB, pyarrow) are imported by the methods that need them.
"""

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, cast

from eventlog.base import identity, store_location
from eventlog.base.errors import InvalidEvent, NoStore, NoTree
from eventlog.base.fs import REAL, FileSystem
from eventlog.base.layout import Layout, StoreFiles
from eventlog.base.types import Event as Row
from eventlog.blobs.presence import Holder, Named
from eventlog.blobs.store import BlobStore
from eventlog.log import admission, upcast
from eventlog.log.erasures import erasure_of
from eventlog.log.journal import Journal
from eventlog.log.line import batches
from eventlog.log.retained import Fates
from eventlog.log.tail import LostPositions, joined
from eventlog.log.tail_memory import TailMemory
from eventlog.projections.happened import in_order_of_time
from eventlog.query.connection_cache import ConnectionCache
from eventlog.query.lookup import TurnRef, find_event, find_turn, naming_one_with_files
from eventlog.query.people import EVERYBODY
from eventlog.secrets import redaction
from eventlog.store.maintenance import Maintenance, of_maintenance
from eventlog.store.status import StoreStatus as StoreStatus
from eventlog.store.status import status_of

if TYPE_CHECKING:
    import pyarrow as pa

    from eventlog.base.event import Event
    from eventlog.checkout.materialize import Report
    from eventlog.log.reader import LogView
    from eventlog.projections.excerpt import Excerpt
    from eventlog.query.engine import Bound, Limits, Parameters, Result, Snapshot
    from eventlog.query.functions import Answers, Ask
    from eventlog.replay.certainty import Certainty
    from eventlog.replay.diffs import Diff
    from eventlog.replay.history import FileVersion
    from eventlog.replay.line_counts import LineCounts
    from eventlog.replay.spine import Spine
    from eventlog.replay.tree_changes import TreeChanges
    from eventlog.replay.trees import Running, TreeState
    from eventlog.restore.plan import RestorePlan
    from eventlog.restore.run import RestoreOutcome
    from eventlog.undo.plan import UndoPlan

# The events of more withheld contents than these go into frames of their own.
_WITHHELD_IN_FRAME_MAX = 1_000

# From about here on, asking the index which events exist is cheaper than reading their ids.
_LOOK_UP_ROWS_MIN = 100_000

# Journals of the tail whose events a store keeps in memory.
_REMEMBERED_BYTES_MAX = 64 << 20


class Store:
    """An open store. Use as a context manager, or call `close`."""

    def __init__(self, fs: FileSystem, layout: Layout, who: identity.Identity) -> None:
        self.fs = fs
        self.layout = layout
        self.identity = who
        self.files = StoreFiles(fs, layout, who.store_id)
        self.journal = Journal(self.files)
        self.blobs = BlobStore(self.files, kinds_in=self._kinds_in, modes=who.keeps_modes)
        self._holder = Holder(self.blobs)
        self._redactor: redaction.Redactor | None = None
        self._location_checked = False
        self._connections: ConnectionCache[Bound] = ConnectionCache()
        self._lost: set[LostPositions] = set()
        self._excerpt: Excerpt | None = None
        self.tail_memory = TailMemory(_REMEMBERED_BYTES_MAX)  # others may lend theirs
        self.people = EVERYBODY  # how much questions may see of people
        self.fates = self.blobs.fate = Fates(self.view)
        self.blobs.erased = erasure_of(self.view)

    # -- opening -------------------------------------------------------------------------------

    @classmethod
    def init(
        cls,
        path: str | os.PathLike[str],
        *,
        project_name: str | None = None,
        repo_hash: str | None = None,
        force: bool = False,
        turn_limit: int | None = identity.TURN_LIMIT,
        fs: FileSystem = REAL,
    ) -> "Store":
        """Make a store at `path` (the `.locus` directory itself) and open it.

        The repository around it gives `repo_hash`; without one (no git, no commit, shallow clone)
        it is random. Opening an existing store this way changes nothing, nor its `turn_limit`.
        A directory of ours that others may write to is closed to them.
        Raises: Refused for `/`, the home directory or a file system shared between machines, unless
        `force`; for a directory that holds something else, or that hooks would refuse.
        """
        root = os.path.abspath(path)
        layout = Layout(root)
        if fs.exists(layout.store_file):
            return cls.open(root, fs=fs)
        from eventlog.store.creation import create

        who = create(fs, layout, project_name, repo_hash, turn_limit, force=force)
        if who is None:
            return cls.open(root, fs=fs)  # another process made it between our check and our link
        return cls(fs, layout, who)

    @classmethod
    def open(cls, path: str | os.PathLike[str] | None = None, *, fs: FileSystem = REAL) -> "Store":
        """Open the store at `path` (the `.locus` directory), or the one that serves the working directory.

        Raises: NoStore, Unsupported (a newer format), Corruption.
        """
        root = os.path.abspath(path) if path is not None else identity.find(os.getcwd(), os.environ)
        if root is None:
            raise NoStore(
                f"no Locus store in {os.getcwd()} or above it. `locus init` makes one; "
                "`--store DIR` or LOCUS_DIR names one elsewhere."
            )
        layout = Layout(root)
        return cls(fs, layout, identity.read(fs, layout))

    def close(self) -> None:
        """Give back descriptors. The store on disk needs no closing."""
        self._connections.release()
        if self._excerpt is not None:
            self._excerpt.close()
        self.journal.close()
        self._holder.close()
        self.blobs.close()

    def __enter__(self) -> "Store":
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    @property
    def repo_hash(self) -> str:
        return self.identity.repo_hash

    @property
    def project_name(self) -> str:
        return self.identity.project_name

    # -- writing -------------------------------------------------------------------------------

    def append(self, events: "Iterable[Event]", *, expect_position: int | None = None) -> range:
        """Append events, in order, durably. Returns: their positions.

        Up to 16,384 events or 4 MiB are one atomic batch; more become several batches, each
        atomic. With `expect_position` everything must fit one batch.
        Invalid values are refused (docs/appending.md), and so is a content that is not stored.
        Raises: InvalidEvent (nothing written), Conflict, NotDurable, LockTimeout.
        """
        return self.append_rows(cast("Iterable[Row]", events), expect_position=expect_position)

    def append_rows(self, events: Iterable[Row], *, expect_position: int | None = None) -> range:
        """The same, for code that makes events column by column, as plain dicts."""
        named: Named = {}
        groups = batches(self._lines(events, named))
        if expect_position is not None and len(groups) > 1:
            raise InvalidEvent(
                "an append with expect_position must fit one batch (16,384 events, 4 MiB); split it"
            )
        if not groups:
            position = self.journal.next_position()
            return range(position, position)
        self._before_writing()
        if not named:
            return self._append(groups, expect_position)
        release = self._holder.hold(named, groups)
        try:
            return self._append(groups, expect_position)
        finally:
            release()

    def _append(self, groups: list[list[bytes]], expect_position: int | None) -> range:
        # The events of withheld contents go into the frame of the first event that names them, or, where
        # there are several frames, before all: the positions are those of the caller's events.
        events = self.blobs.withheld_events()
        withheld = list(self._lines(events, {})) if events else []
        if withheld and (len(groups) > 1 or len(withheld) > _WITHHELD_IN_FRAME_MAX):
            for lines in batches(withheld):
                self.journal.append(lines)
            withheld = []
        first = end = -1
        for lines in groups:
            base = self.journal.append([*lines, *withheld], expect_position=expect_position)
            first = base if first < 0 else first
            end = base + len(lines)
        self.blobs.forget_withheld()
        return range(first, end)

    def _before_writing(self) -> None:
        self._connections.release()  # the cached snapshot may be outdated now
        if not self._location_checked:
            if identity.ON_SHARED not in self.identity.optional:
                store_location.refuse_moved(self.layout.root)
            self._location_checked = True

    def _lines(self, events: Iterable[Row], named: Named) -> Iterator[bytes]:
        return admission.lines(self.fs, events, self.redactor, named)

    @property
    def redactor(self) -> redaction.Redactor:
        """Takes secrets out of everything that is written here, by the settings of `config.toml`."""
        if self._redactor is None:
            self._redactor = redaction.of_store(self.fs, self.layout)
        return self._redactor

    def reread_rules(self) -> None:
        """Read the settings and the rules of erasures again, which may have changed."""
        self._redactor = None

    def _kinds_in(self, data: bytes) -> tuple[str, ...]:
        return self.redactor.kinds_in(data)

    def withheld(self) -> frozenset[str]:
        """The hashes of contents that hold a secret, or may: stored for replay, left out of every export."""
        from eventlog.log.withheld import withheld_in
        from eventlog.replay.deferred import withheld_of_git

        with self.view() as view:
            return withheld_in(view) | withheld_of_git(self.blobs)

    def why_withheld(self, *hashes: object) -> str:
        """Why the withheld contents among these are: "holds a secret", or "was not looked through…"."""
        from eventlog.log.withheld import reason_in

        with self.view() as view:
            return reason_in(view, hashes)

    # -- reading the log -----------------------------------------------------------------------

    def view(self) -> "LogView":
        """A pinned, consistent view of the whole log; close it, or use it as a context manager."""
        from eventlog.log.reader import open_view

        view = open_view(self.files)
        view.memory = self.tail_memory
        view.on_loss = self._lost.update
        view.excerpt = self._excerpt
        self._lost.update(view.unsettled)
        sealed = sum(entry.rows for entry in view.manifest.segments)
        if sealed >= _LOOK_UP_ROWS_MIN or (sealed and self._excerpt):  # after SQL no pyarrow is needed
            from eventlog.projections.prefix import IndexedPrefix

            view.prefix = IndexedPrefix(self.fs, self.layout, view.manifest, self._excerpt)
        return view

    @property
    def unread(self) -> tuple[range, ...]:
        """The positions that answers of this store so far left out, because damage took their events.

        Ascending and disjoint, without positions that a repair has settled.
        """
        return joined(range(lost.base, lost.end) for lost in self._lost)

    def events(
        self,
        since: int = 0,
        until: int | None = None,
        *,
        session_id: str | None = None,
        turn: int | None = None,
        event_types: Sequence[str] | None = None,
        columns: Sequence[str] | None = None,
    ) -> "Iterator[Event]":
        """Events of `[since, until)` in position order, as dicts with every column.

        `payload` is a dict; times are integer microseconds since 1970 UTC. Events of older schema
        versions come in the present one.
        """
        conditions: dict[str, Any] = {"session_id": session_id, "turn": turn, "event_types": event_types}
        return cast("Iterator[Event]", self.rows(since, until, **conditions, columns=columns))

    def rows(self, since: int = 0, until: int | None = None, **which: Any) -> Iterator[Row]:
        """The same as plain dicts, for code that reads them column by column."""
        with self.view() as view:
            yield from self._events_in(view, since, until, **which)

    def _events_in(
        self, view: "LogView", since: int = 0, until: int | None = None, *,
        columns: Sequence[str] | None = None, **which: Any,
    ) -> Iterator[Row]:  # fmt: skip
        # An upcast may read any column.
        read = columns if not upcast.STEPS else None
        from eventlog.projections.settled import Settled

        names = None if self._excerpt is None else self._excerpt.names
        settled = Settled(view, None if self._excerpt is None else self._context_of_session, names)
        for row in view.iterate(since, until, columns=read, **which):
            event = settled.event(upcast.presented(row))
            yield event if read is columns else {name: event[name] for name in columns or ()}

    def _context_of_session(self, session_id: str) -> str | None:
        rows = self.query("select context_id from sessions where session_id = $1", [session_id]).rows
        return rows[0][0] if rows else None

    def follow(
        self,
        since: int = 0,
        *,
        session_id: str | None = None,
        event_types: Sequence[str] | None = None,
        poll_s: float = 0.2,
        stop: Callable[[], bool] | None = None,
        timeout_s: float | None = None,
        durable: bool = False,
    ) -> "Iterator[Event]":
        """The events from `since` on, as `events` returns them, and then new ones, each once.

        It waits for more, polling every `poll_s`, and ends when `stop()` is true or nothing came for
        `timeout_s` (0: when there are no more). An event may be returned before it survives a power cut;
        with `durable` never (docs/design.md §20).
        """
        from eventlog.log.follow import Follower, follow

        follower = Follower(
            self.files, since, session_id=session_id, event_types=event_types, durable=durable
        )
        follower.on_loss = self._lost.update
        rows = map(upcast.presented, follow(follower, poll_s=poll_s, stop=stop, timeout_s=timeout_s))
        yield from cast("Iterator[Event]", rows)

    def event(self, event_id: str) -> "Event":
        """The event with this id, or with the only id that begins with it. Raises: NotFound, Ambiguous."""
        position = find_event(self.query, event_id)
        return next(iter(self.events(position, position + 1)))

    def turn(self, name: str) -> TurnRef:
        """The turn that `name` means, as `lookup.find_turn` reads it. Raises: NotFound, Ambiguous."""
        from eventlog.query.sealed_turns import sealed_turn

        self._ask_in_sql()
        with self.view() as view:
            return sealed_turn(view, name) or find_turn(self.query, name)

    def timeline(self, turn: "TurnRef | str") -> "list[Event]":
        """All events of a turn as they happened, anchors included."""
        ref = self._ref(turn)
        return in_order_of_time(self.events(ref.since, ref.until, session_id=ref.session_id, turn=ref.turn))

    # -- state of the code ---------------------------------------------------------------------

    def _tree(self, turn: "TurnRef | str", at: str = "end") -> "TreeState":
        """The tree at a turn's end, its start, or just after one of its events (an event id)."""
        from eventlog.replay.trees import trees_of

        ref, at = self._ref(turn), self._moment(at)
        return trees_of(self.rows, self.blobs, ref, at, running=self._running(ref))[0]

    tree = naming_one_with_files(_tree)

    def certainty(self, turn: "TurnRef | str", at: str = "end") -> "Certainty":
        """How well the files are known at a moment, stated as for `tree` (docs/certainty.md)."""
        try:
            return self._tree(turn, at).certainty
        except NoTree as error:
            return cast("Certainty", error.known)

    def _running(self, ref: TurnRef) -> "Running":
        """A test whether the process of a turn is alive, from its events."""
        from eventlog.replay.liveness import is_running

        return partial(is_running, self.layout, self.rows, ref, self.fs.time_ns())

    def _moment(self, at: str) -> str:
        return at if at in ("start", "end") else str(self.event(at)["event_id"])

    def replay(
        self,
        turn: "TurnRef | str",
        to: str | os.PathLike[str],
        *,
        paths: Sequence[str] = (),
        at: str = "end",
        force: bool = False,
    ) -> "Report":
        """Put the tree of a turn into the directory `to`, byte for byte.

        Raises: NotFound, Refused (the directory holds something and `force` is not set).
        """
        return self.tree(turn, at).materialize(os.fspath(to), paths=paths, force=force)

    @naming_one_with_files
    def restore_plan(
        self,
        turn: "TurnRef | str",
        *,
        paths: Sequence[str] = (),
        at: str = "end",
        into: str | os.PathLike[str] | None = None,
        delete: bool = True,
    ) -> "RestorePlan":
        """The plan to bring a working directory back to a turn (design.md §18); changes nothing.

        Args:
            into: the directory; by default the one that holds the store.
            delete: also delete files that the log saw made after that moment.
        Raises: NotFound, Refused (no directory to work in).
        """
        from eventlog.restore import journal, plan
        from eventlog.restore.worktrees import refuse_other_worktree, worktrees_of

        journal.refuse_unfinished(self.fs, self.layout)
        ref, at = self._ref(turn), self._moment(at)
        if into is None:
            refuse_other_worktree(self.layout.root, ref, worktrees_of(self.rows, ref))
        with self.view() as view:  # a single one: each new view reads the tail again
            arguments = (partial(self._events_in, view), ref, at, paths, into)
            return plan.plan_of_turn(self.blobs, *arguments, delete=delete, running=self._running(ref))

    def undo_plan(self, what: str | Sequence[str] | None = None, **how: Any) -> "RestorePlan":
        """What it would take to undo `what`, by default the newest turn; arguments as of `plan_of_undo`."""
        from eventlog.undo.plan import plan_of_undo

        return plan_of_undo(self, what, **how)

    def redo_plan(self, *, into: str | os.PathLike[str] | None = None) -> "UndoPlan":
        """What it would take to redo the last undo. Raises: NotFound, Refused, Corruption."""
        from eventlog.undo.plan import plan_of_redo

        self._ask_in_sql()
        return plan_of_redo(self, into=into)

    def restore(self, plan: "RestorePlan", *, force: bool = False) -> "RestoreOutcome":
        """Carry out a plan of `restore_plan`, `undo_plan` or `redo_plan`, whole or not at all.

        Replaced files are saved first, so that `undo_plan` can bring them back. Args: force: leave the
        paths of `plan.conflicts` as they are. Raises: Refused (a conflict, a file that was changed since
        the plan, a restore that waits for `recover_restore`), NotDurable, LockTimeout, EventLogError.
        """
        from eventlog.restore.run import run

        return run(plan, self.blobs, lambda event: self.append_rows([event])[0], force=force)

    def recover_restore(self, *, undo: bool = False) -> "list[RestoreOutcome]":
        """Finish a killed restore, or with `undo` take it back. Raises: Refused, Corruption, LockTimeout."""
        from eventlog.restore.run import recover

        return recover(self.blobs, lambda event: self.append_rows([event])[0], self.rows, undo=undo)

    @naming_one_with_files
    def diff(
        self, a: "TurnRef | str", b: "TurnRef | str | None" = None, *, paths: Sequence[str] = ()
    ) -> "Diff":
        """The changes from the end of turn `a` to the end of turn `b`; of `a` alone, from start to end.

        For a turn without a tree, such as one from a transcript, the changes of its file events.
        Args: paths: only these files and folders. Raises: NotFound (a turn, its tree, a path).
        """
        from eventlog.replay.diffs import diff

        before, after = self._files(a, "start", "end") if b is None else self._trees(a, b)
        return diff(before, after).within(paths)

    def _trees(self, *turns: "TurnRef | str") -> "list[TreeState]":
        from eventlog.replay.trees import COLUMNS

        refs = list(map(self._ref, turns))
        with self.view() as view:
            view.read_at_once([(ref.since, ref.until) for ref in refs], COLUMNS)
        return list(map(self._tree, refs))

    def history(self, path: str, *, limit: int | None = None, rewritten: bool = True) -> "list[FileVersion]":
        """The recorded versions of the file at `path`, newest first, also those before a rename.

        Empty when there are none. Without `rewritten` those of commits that no line reaches are left out.
        """
        from eventlog.replay.history import history, with_doubts

        versions = history(self.query, self.blobs, path, limit, rewritten=rewritten)
        return with_doubts(self.query, versions, self.certainty)

    def blob(self, content_hash: str) -> bytes:
        """The bytes of a blob by its hash, or its beginning. Raises: NotFound, Ambiguous, Corruption."""
        return self.blobs.get(self.blobs.resolve(content_hash))

    def file(self, turn: "TurnRef | str", path: str, at: str = "end") -> bytes:
        """The bytes of one file as it was at a turn, as far as that is known. Raises: NotFound."""
        return self.files_at(turn, at).file(path)

    def spine(self, session: str | None = None) -> "Spine":
        """The files at the start and end of every turn, as what changed (docs/view.md).

        Args: session: of this one only, by its id or a unique beginning. Raises: NotFound, Ambiguous.
        """
        from eventlog.replay.spine import spine

        with self.view() as view:
            until = view.next_position
        return spine(self, until, self.tree_changes, self._running, session)

    @naming_one_with_files
    def files_at(self, turn: "TurnRef | str", at: str = "end") -> "TreeState":
        """The tree at a moment of a turn; where none was recorded, the partial tree."""
        return self._files(turn, self._moment(at))[0]

    def _files(self, turn: "TurnRef | str", *moments: str) -> "list[TreeState]":
        from eventlog.replay.partial_tree import trees_or_partial

        ref = self._ref(turn)
        return trees_or_partial(self.rows, self.blobs, ref, *moments, running=self._running(ref))

    # -- questions -----------------------------------------------------------------------------

    def query(self, sql: str, parameters: "Parameters" = None, *, limits: "Limits | None" = None) -> "Result":
        """Run one SELECT over the views and functions of docs/sql.md, in safe mode.

        Raises: QueryError, Refused (not a SELECT), Corruption.
        """
        from eventlog.query.engine import run

        self._ask_in_sql()
        with self.view() as view:
            return replace(run(self._snapshot(view), sql, parameters, limits), unread=self.unread)

    def _ask_in_sql(self) -> "Excerpt":
        """Read few sealed events by way of DuckDB from now on: pyarrow takes longer to load."""
        from eventlog.projections.excerpt import Excerpt

        self._excerpt = self._excerpt or Excerpt(self.fs, self.layout)
        return self._excerpt

    def keep_sealed(self) -> None:
        """Keep sealed events that were read, some 25 MB of them: for callers that go from turn to turn."""
        self._ask_in_sql().keep_blocks()

    def sql(self, sql: str, parameters: "Parameters" = None, *, limits: "Limits | None" = None) -> "pa.Table":
        """The answer of `query` as an Arrow table."""
        from eventlog.query.engine import table

        with self.view() as view:
            return table(self._snapshot(view), sql, parameters, limits)

    def _snapshot(self, view: "LogView") -> "Snapshot":
        from eventlog.query.engine import Snapshot

        def answers(ask: "Ask") -> "Answers":
            from eventlog.replay.answers import StoreAnswers

            return StoreAnswers(ask, self.blobs)

        return Snapshot(view, self.layout, self.fs, answers, self._connections, self.line_counts, self.people)

    @cached_property
    def tree_changes(self) -> "TreeChanges":
        """The differences between trees that were made so far."""
        from eventlog.replay.tree_changes import TreeChanges

        return TreeChanges(self.fs, self.layout)

    @cached_property
    def line_counts(self) -> "LineCounts":
        """Counts lines of changes whose events do not state them."""
        from eventlog.replay.line_counts import LineCounts

        return LineCounts(self.fs, self.layout, self.blobs, self.rows)

    # -- maintenance ---------------------------------------------------------------------------

    @cached_property
    def maintenance(self) -> Maintenance:
        """What keeps the store small, fast and whole; its methods can be called on the store itself, too."""
        return Maintenance(self)

    seal = of_maintenance(Maintenance.seal)
    compact = of_maintenance(Maintenance.compact)
    rebuild = of_maintenance(Maintenance.rebuild)
    reindex = of_maintenance(Maintenance.reindex)
    repack = of_maintenance(Maintenance.repack)
    verify = of_maintenance(Maintenance.verify)
    count_lines = of_maintenance(Maintenance.count_lines)
    compare_trees = of_maintenance(Maintenance.compare_trees)

    def status(self) -> StoreStatus:
        """Counts and sizes; reads no event payload."""
        return status_of(self)

    def _ref(self, turn: "TurnRef | str") -> TurnRef:
        ref = turn if isinstance(turn, TurnRef) else self.turn(turn)
        self.fates.asked.add(ref.session_id)
        return ref
