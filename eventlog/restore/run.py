"""Carrying out a restore, settling one that was killed, and saving what either replaces (docs/design.md §18).

Every step has a state before and a state after, and all contents are in the store, so one procedure does
everything: `carry_out` reads the state of each path and brings it to the one side or the other. A first
run, the way back after a failure and a recovery differ only in the direction and in their arguments.

One restore at a time: all of this holds the restore lock, and `gc` shared, so that no content is collected
meanwhile. It may be killed at any call (I32), and repeated (I12).
"""

import os
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass

from eventlog.base import names
from eventlog.base.errors import Corruption, EventLogError, LockTimeout, NotDurable, NotFound, Refused
from eventlog.base.fs import FileSystem
from eventlog.base.layout import RESTORE_DIR, Layout
from eventlog.base.locks import GC, RESTORE, acquire
from eventlog.base.paths import path_text
from eventlog.base.types import Event
from eventlog.blobs.ids import to_text
from eventlog.blobs.store import BlobStore
from eventlog.blobs.tree import DIRECTORY, kind_of_mode
from eventlog.blobs.writer import BlobWriter
from eventlog.checkout.directory import FILES, OpenDirectory, State, same
from eventlog.checkout.parallel import Listed
from eventlog.projections.operations import EVENT_TYPE
from eventlog.replay.deferred import is_of_git
from eventlog.replay.edited_tree import EditedTree, no_trees
from eventlog.replay.trees import Events
from eventlog.restore import journal as restore_journal
from eventlog.restore.journal import Document, RestoreStep
from eventlog.restore.open_files import databases_in, has_open, openers
from eventlog.restore.plan import RestorePlan
from eventlog.restore.switch import Observed, carry_out, changed_since, clear
from eventlog.worktree.userfiles import UserFiles

AGENT = "locus"

Append = Callable[[Event], int]


@dataclass(frozen=True, slots=True)
class RestoreOutcome:
    """What a restore did. `event` is the id of its start event, None when there was nothing to do.

    `left` are paths that somebody changed meanwhile: they are as they were found. With `undone` a recovery
    went back.
    """

    event: str | None
    target: str
    done: int
    left: Listed
    undone: bool = False


def run(
    plan: RestorePlan,
    blobs: BlobStore,
    append: Append,
    *,
    force: bool = False,
    calls: UserFiles | None = None,
) -> RestoreOutcome:
    """Carry out a plan, whole or not at all.

    Args: force: leave the paths in conflict as they are.
    Raises: Refused (a conflict, an unfinished restore, a change since the plan), and the errors of disk and
        store; in each case everything is as it was, unless the message says otherwise.
    """
    if plan.conflicts and not force:
        path, why = plan.conflicts[0]
        more = f", and {len(plan.conflicts) - 1} more" if len(plan.conflicts) > 1 else ""
        raise Refused(
            f"{path_text(path)}: {why}{more}. Move it away, or use --force to restore everything else; "
            "nothing was touched."
        )
    fs, layout = blobs.fs, blobs.layout
    with _locked(fs, layout):
        restore_journal.refuse_unfinished(fs, layout)
        if not plan.steps:
            return RestoreOutcome(None, plan.target, 0, [])
        with OpenDirectory.of(plan.target, calls) as target:
            open_ones = openers(target.path, databases_in([step.path for step in plan.steps]))
            for path, process in open_ones.items():
                raise Refused(f"{path_text(path)}: {has_open(process)}; nothing was touched.")
            if target.inode != plan.inode:
                raise Refused(f"{plan.target} is another directory than when the plan was made. Plan again.")
            return _run(plan, target, blobs, append)


def _run(plan: RestorePlan, target: OpenDirectory, blobs: BlobStore, append: Append) -> RestoreOutcome:
    fs, layout = blobs.fs, blobs.layout
    document = plan.document(fs.random_bytes(16).hex())
    encoded = restore_journal.encode(document)
    with blobs.writer() as writer:  # holds gc until the end
        observed: dict[bytes, Observed] = {}
        saved = EditedTree(no_trees)
        # A recovery finds all contents in the store, whatever becomes of git's objects.
        extra = [writer.put(blobs.get(id)) for id in _wanted_of_git(plan, blobs)]
        extra += [writer.put(data) for _, data in sorted(plan.contents.items())]
        for step in plan.steps:
            state, path_stat = _save(target, step, writer, plan.recorded)
            observed[step.path] = (state, path_stat)
            if state is not None and state.kind != DIRECTORY:
                saved.put(step.path, _kind_of(state, blobs), state.id, state.size)
        safety, plan_id = saved.write(writer.put_encoded_tree), writer.put(encoded)
        writer.flush()
        position = append(start_event(plan, document.id, safety, plan_id, extra))
        try:
            journal = restore_journal.write(fs, layout, position, encoded)
        except OSError as error:
            raise NotDurable(
                f"{layout.directory(RESTORE_DIR)}: the restore journal could not be written "
                f"({error.strerror}). Nothing was touched; "
                "make room or restore access, and try again."
            ) from error
        try:
            carry_out(document, target, blobs, forward=True, observed=observed)
        except BaseException as error:
            _go_back(document, target, blobs, append, journal, error)
            raise
        try:
            append(end_event(document, undone=None))
            restore_journal.drop(fs, journal)
        except (EventLogError, OSError) as error:
            raise EventLogError(
                f"the files are restored, but the store could not take note of it ({error}). Make room or "
                "restore access, then run `locus restore --recover`."
            ) from error
    return RestoreOutcome(document.id, plan.target, len(plan.steps), [])


def _wanted_of_git(plan: RestorePlan, blobs: BlobStore) -> list[bytes]:
    wanted = {step.after.id for step in plan.steps if step.after is not None} - plan.contents.keys()
    return sorted(id for id in wanted if is_of_git(blobs, id))


def _kind_of(state: State, blobs: BlobStore) -> bytes:
    if state.kind in FILES and state.mode is not None and blobs.modes:
        return kind_of_mode(state.mode)
    return state.kind


def _save(
    target: OpenDirectory, step: RestoreStep, writer: BlobWriter, recorded: Collection[bytes]
) -> Observed:
    """Put the content of a path into the store, if its state is still the planned one.

    A recorded content that is there was searched for secrets when it was put, and the log says what it holds.
    """
    try:
        state, path_stat, data = target.read(step.path)
    except OSError as error:
        raise Refused(
            f"{path_text(step.path)} cannot be read, and so not be saved: {error.strerror}. "
            "Nothing was touched."
        ) from error
    if not same(state, step.before):
        raise changed_since(step.path)
    if state is not None and state.kind != DIRECTORY:
        is_saved = state.id in recorded and writer.holds(state.id)
        if not is_saved:
            writer.put(data)
    return state, path_stat


def _go_back(
    document: Document,
    target: OpenDirectory,
    blobs: BlobStore,
    append: Append,
    journal: str,
    error: BaseException,
) -> None:
    """After a failure: everything as it was, or an error with the next step."""
    try:
        left = carry_out(document, target, blobs, forward=False)
        append(end_event(document, undone=str(error) or type(error).__name__, left=left))
        restore_journal.drop(blobs.fs, journal)
    except (EventLogError, OSError) as second:
        with suppress(EventLogError, OSError):
            clear(document, target, blobs)
        raise EventLogError(
            f"the restore failed ({error}), and going back failed too ({second}). What it replaced is safe "
            "in the store; make room or restore access, then run `locus restore --recover`."
        ) from error
    if isinstance(error, OSError):
        where = f"{os.fsdecode(error.filename)}: " if error.filename is not None else ""
        raise EventLogError(
            f"the restore failed ({where}{error.strerror}); everything is as it was. See to it and retry."
        ) from error


def _ended(events: Events) -> dict[str, bool]:
    """The start events of restores that have an end in the log, and whether it was a success."""
    ends = events(event_types=("restore",), columns=("operation", "cause", "success"))
    return {str(event["cause"]): event["success"] is True for event in ends if event["operation"] == "end"}


def recover(
    blobs: BlobStore,
    append: Append,
    events: Events,
    *,
    undo: bool = False,
    calls: UserFiles | None = None,
) -> list[RestoreOutcome]:
    """Finish or take back every restore that was killed; what was done, empty when there was none.

    One that had begun to switch is finished, else it is taken back; with `undo` it is taken back in
    any case. Of one whose end is in the log, only the journal is left over.

    Args: events: those of the store.
    Raises: Refused when its directory is gone; Corruption.
    """
    fs, layout = blobs.fs, blobs.layout
    ended = _ended(events)
    outcomes = []
    with _locked(fs, layout):
        for path in restore_journal.unfinished(fs, layout):
            try:
                document = restore_journal.read(fs, path, blobs.store_id)
            except Corruption as error:
                raise Corruption(path, restore_journal.unusable(error.what)) from error
            target_path = os.fsdecode(document.target)
            if document.id in ended:
                restore_journal.drop(fs, path)
                outcomes.append(
                    RestoreOutcome(document.id, target_path, 0, [], undone=not ended[document.id])
                )
                continue
            gc = acquire(fs, layout, GC, exclusive=False)
            try:
                with _open_target(document, path, calls) as target:
                    observed = {step.path: target.state_at(step.path) for step in document.steps}
                    begun = any(same(observed[step.path][0], step.after) for step in document.steps)
                    forward = begun and not undo
                    left = carry_out(
                        document, target, blobs, forward=forward, observed=observed, strict=False
                    )
            finally:
                gc.release()
            undone = None if forward else "the restore was killed, and taken back"
            append(end_event(document, undone=undone, left=left))
            restore_journal.drop(fs, path)
            outcomes.append(RestoreOutcome(document.id, target_path, len(document.steps), left, not forward))
    return outcomes


def _open_target(document: Document, journal: str, calls: UserFiles | None) -> OpenDirectory:
    target_path = os.fsdecode(document.target)
    try:
        target = OpenDirectory.of(target_path, calls)
    except (NotFound, Refused) as error:
        raise Refused(f"{error}. Bring it back, or remove {journal} to give the restore up.") from error
    if target.inode != document.inode or target.path != target_path:
        target.__exit__()
        raise Refused(
            f"{target_path} is another directory than the one that was being restored. Bring that one back, "
            f"or remove {journal} to give the restore up."
        )
    return target


@contextmanager
def _locked(fs: FileSystem, layout: Layout) -> Iterator[None]:
    """The restore lock, and the message about a store that cannot be written."""
    try:
        lock = acquire(fs, layout, RESTORE)
    except LockTimeout:
        raise
    except (EventLogError, OSError) as error:
        raise NotDurable(
            f"{layout.root} cannot be written ({error}), and a restore first saves there what "
            "it replaces. Nothing was touched. `locus replay TURN --to DIR` only reads the store."
        ) from error
    with lock:
        yield


# -- events ------------------------------------------------------------------------------------------


def start_event(
    plan: RestorePlan, id: str, safety: bytes, plan_id: bytes, extra: Sequence[bytes] = ()
) -> Event:
    """Args: extra: contents that are in the store for this restore alone."""
    return {
        "event_id": id,
        "event_type": EVENT_TYPE,
        "event_kind": "action",
        "source": "user",
        "agent": AGENT,
        "operation": "start",
        "title": plan.title or _title(plan),
        "tree_hash": to_text(safety),
        "blobs": [to_text(id) for id in (safety, plan_id, *extra)],
        "payload": {
            "turn": plan.turn,
            "at": plan.at,
            "target": path_text(os.fsencode(plan.target)),
            "in_place": plan.in_place,
            "tree": plan.tree,
            "plan": to_text(plan_id),
            "undo_of": plan.undo_of,
            "steps": plan.counts,
            **plan.notes,
        },
    }


def _title(plan: RestorePlan) -> str:
    return f"Restore {plan.turn} at {plan.at}" if plan.undo_of is None else f"Undo restore {plan.undo_of}"


def end_event(document: Document, *, undone: str | None, left: Sequence[tuple[bytes, str]] = ()) -> Event:
    """Its id depends on how the restore ended, so that a repeated recovery writes it once."""
    outcome = "end" if undone is None else "undone"
    return {
        "event_id": names.event_id_of(AGENT, EVENT_TYPE, document.id, outcome),
        "event_type": EVENT_TYPE,
        "event_kind": "action",
        "source": "user",
        "agent": AGENT,
        "operation": "end",
        "cause": document.id,
        "success": undone is None,
        "payload": {"undone": undone, "left": [[path_text(path), why] for path, why in left]},
    }
