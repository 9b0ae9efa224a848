"""The plan of a restore: every path that would change, with its states before and after (design.md §18.1).

Planning reads the working directory and changes nothing; any process may plan at any time. A plan is a value,
and its token binds it to the states it read: the same token later means that nothing it touches has changed.
"""

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from blake3 import blake3

from eventlog.base import jsontext
from eventlog.base.errors import Corruption, InvalidEvent, NotFound, Refused, Unsupported
from eventlog.base.identity import STORE_DIRECTORY
from eventlog.base.paths import path_text
from eventlog.base.types import Event
from eventlog.blobs.disk_space import refuse_without_room_for_both
from eventlog.blobs.ids import blob_id, from_text
from eventlog.blobs.tree import DIRECTORY, SYMLINK
from eventlog.checkout.directory import OpenDirectory, State
from eventlog.checkout.parallel import Listed
from eventlog.projections.operations import EVENT_TYPE, completed
from eventlog.query.lookup import TurnRef
from eventlog.replay.certainty import EXACT, Certainty
from eventlog.replay.trees import Events, Running, trees_of
from eventlog.restore import wanted as restore_wanted
from eventlog.restore.compare import RestoreComparison
from eventlog.restore.journal import ACTIONS, Document, RestoreStep, decode
from eventlog.restore.known_files import KnownFiles
from eventlog.restore.wanted import Wanted, wanted_of_turn, wanted_of_undo, ways
from eventlog.worktree.entries import BY_CHOICE

if TYPE_CHECKING:
    from eventlog.blobs.store import BlobStore

# The columns that are read of the events of restores.
_COLUMNS = ("event_id", "operation", "cause", "success", "payload")


_KNOWN = Certainty(EXACT)  # what a restore replaced, it read itself


@dataclass(frozen=True, slots=True)
class RestorePlan:
    """What a restore would do. Lists are of (path, reason).

    `kept` stays although the wanted tree lacks it; `missing` cannot be restored; `conflicts` make
    the restore refuse, unless they are to be left as they are. With `redo` it undoes an undo.
    """

    store_id: bytes
    target: str
    inode: int
    turn: str
    at: str
    tree: str | None
    undo_of: str | None
    steps: tuple[RestoreStep, ...]
    unchanged: int
    kept: Listed
    missing: Listed
    submodules: Listed
    conflicts: Listed
    token: str
    redo: bool = False
    certainty: Certainty = _KNOWN  # of what is wanted
    contents: Mapping[bytes, bytes] = field(default_factory=dict)  # wanted ones that the store does not have
    title: str | None = None  # of the start event, where it is not an ordinary restore
    notes: Mapping[str, object] = field(default_factory=dict)  # what the payload of that event says besides
    recorded: frozenset[bytes] = frozenset()  # contents that events name: they were searched for secrets
    in_place: bool = False  # whether the target is the directory that the store is in
    ignored_count: int | None = None  # entries that git ignored then, and that were left out; None: unknown

    @property
    def counts(self) -> dict[str, int]:
        """How many steps of each action."""
        counts = dict.fromkeys(ACTIONS, 0)
        for step in self.steps:
            counts[step.action] += 1
        return counts

    @property
    def partial(self) -> bool:
        """Whether the outcome will lack something that is wanted; what was left out by choice is not."""
        return bool(self.conflicts) or any(reason not in BY_CHOICE for _, reason in self.missing)

    def document(self, id: str) -> Document:
        return Document(
            id=id,
            store_id=self.store_id,
            target=os.fsencode(self.target),
            inode=self.inode,
            turn=self.turn,
            at=self.at,
            tree=self.tree,
            undo_of=self.undo_of,
            steps=self.steps,
        )


def plan_of_turn(
    blobs: "BlobStore",
    events: Events,
    ref: TurnRef,
    at: str,
    paths: Sequence[str],
    into: str | os.PathLike[str] | None,
    *,
    delete: bool,
    running: Running | None = None,
) -> RestorePlan:
    """What brings a directory to the moment `at` of a turn. Raises: NotFound, Refused."""
    (state,) = trees_of(events, blobs, ref, at, running=running)
    last = state.applied[-1] if state.applied else state.snapshot
    columns = (*restore_wanted.COLUMNS_OF_LATER, "position", "event_id")
    with target_directory(blobs.layout.root, into) as target:
        restores: list[int] = []

        def later() -> Iterator[Event]:
            is_later = False
            for event in events(ref.since, event_types=("file", "snapshot", EVENT_TYPE), columns=columns):
                if not is_later:
                    is_later = event["event_id"] == last
                elif event["event_type"] == EVENT_TYPE:
                    restores.append(int(str(event["position"])))
                else:
                    yield event

        def restored() -> Iterator[Document]:
            if restores:  # complete when all later events were read
                begun = events(restores[0], event_types=(EVENT_TYPE,), columns=_COLUMNS)
                yield from _restored_there(blobs, begun, target, state.tree_hash)

        wanted = wanted_of_turn(state, later(), restored(), paths, delete=delete)
        goal = RestoreGoal(ref.name, state.at, tree=state.tree_hash)
        plan = make_plan(target, wanted, blobs, goal, delete=delete)
        return replace(plan, certainty=state.certainty, ignored_count=state.ignored_count)


def plan_of_undo(
    blobs: "BlobStore", events: Events, start: str | None, into: str | os.PathLike[str] | None
) -> RestorePlan:
    """What undoes the restore that began with the event `start`, or the last one.

    Raises: NotFound, Refused, Corruption.
    """
    payload = _payload_to_undo(events(event_types=(EVENT_TYPE,), columns=_COLUMNS), start)
    document = read_plan(blobs, str(payload.get("plan")))
    wanted = wanted_of_undo(document)
    goal = RestoreGoal(document.turn, document.at, undo_of=document.id, redo=document.undo_of is not None)
    in_place = payload.get("in_place") is True
    into = directory_of(blobs.layout.root, os.fsdecode(document.target), in_place, into)
    with target_directory(blobs.layout.root, into) as target:
        return make_plan(target, wanted, blobs, goal)


def target_directory(store_root: str, into: str | os.PathLike[str] | None) -> OpenDirectory:
    """The directory to restore into: `into`, else the one that the store is in."""
    if into is None and os.path.basename(store_root) != STORE_DIRECTORY:
        raise Refused(f"the store {store_root} is in no working directory; name one with --into")
    return OpenDirectory.of(os.path.dirname(store_root) if into is None else os.fspath(into))


def directory_of(
    store_root: str, target: str, in_place: bool, into: str | os.PathLike[str] | None
) -> str | os.PathLike[str] | None:
    """Where an operation is taken back: `into`, else the project of the store, None, if it was made there.

    Args: target: the directory in which it was made; in_place: whether that was the project then, wherever
    the project is now. An event of an older version does not say so.
    Raises: Refused, where it was made elsewhere.
    """
    if into is not None or in_place or is_project(store_root, os.path.realpath(target)):
        return into
    raise Refused(
        f"that was done in {target}, which is not the directory of the store {store_root}. Nothing was "
        "touched; name the directory to change with --into."
    )


def is_project(store_root: str, directory: str) -> bool:
    """Whether a directory is the one that the store is in. Args: directory: without symlinks."""
    root = os.path.realpath(store_root)
    return os.path.basename(root) == STORE_DIRECTORY and os.path.dirname(root) == directory


def _payload_to_undo(events: Iterable[Mapping[str, Any]], start: str | None) -> Mapping[str, Any]:
    """What the restore that began with the event `start`, or the last one, says of itself.

    Args: events: all restore events in position order. Raises: NotFound when it did not take place.
    """
    done = completed(events)
    if start is None and not done:
        raise NotFound("no restore of this store took place, so there is nothing to undo")
    begun = list(done.values())[-1] if start is None else done.get(start)
    if begun is None:
        raise NotFound(f"{start} is no restore that took place, so there is nothing to undo")
    payload: Mapping[str, Any] = begun["payload"] or {}
    return payload


def read_plan(blobs: "BlobStore", plan: str) -> Document:
    """The plan document of that hash. Raises: NotFound, Corruption, Unsupported, InvalidEvent."""
    return decode(blobs.get(from_text(plan)), f"the plan {plan}")


def readable_plan(blobs: "BlobStore", plan: str) -> Document | None:
    """The same; None where it cannot be read."""
    try:
        return read_plan(blobs, plan)
    except (NotFound, Corruption, Unsupported, InvalidEvent):
        return None


def _restored_there(
    blobs: "BlobStore", events: Iterable[Mapping[str, Any]], target: OpenDirectory, tree: str
) -> Iterator[Document]:
    """The plans of the restores that changed this very directory, as far as they can be read.

    Those are left out that brought the tree `tree` itself: all they made is wanted.
    """
    here = os.fsencode(target.path)
    in_project = is_project(blobs.layout.root, target.path)
    for event in completed(events).values():
        payload = event["payload"] or {}
        moved_with_it = in_project and payload.get("in_place") is True
        if (payload.get("target") != path_text(here) and not moved_with_it) or payload.get("tree") == tree:
            continue
        document = readable_plan(blobs, str(payload.get("plan")))  # without one, the files that it made stay
        if document is not None and (moved_with_it or document.target == here):
            yield document


@dataclass(frozen=True, slots=True)
class RestoreGoal:
    """What a restore brings back: the moment `at` of a turn, with the id of its tree where it has one.

    `undo_of` is the restore or operation that it undoes; with `redo` that was an undo.
    """

    turn: str
    at: str
    tree: str | None = None
    undo_of: str | None = None
    redo: bool = False


def make_plan(
    target: OpenDirectory,
    wanted: Wanted,
    blobs: "BlobStore",
    goal: RestoreGoal,
    *,
    delete: bool = True,
    contents: Mapping[bytes, bytes] | None = None,
    bound: Sequence[str] = (),
) -> RestorePlan:
    """Compare what is wanted with what is there.

    Args:
        contents: what the store does not have of the wanted contents.
        bound: what the token binds besides.
    Raises: Refused for a target inside the store, or `/`; OSError when the directory cannot be read.
    """
    protected = _protected(target, blobs.layout.root)
    learns = wanted.whole and not wanted.paths
    known_files = KnownFiles(blobs.fs, blobs.layout, blobs.store_id, target, learns=learns)
    comparison = RestoreComparison(target, wanted, known_files, protected, delete=delete)
    comparison.find_deletes()
    comparison.compare()
    comparison.find_stale_journals()
    comparison.spare_open_databases()
    comparison.find_staying()
    if learns:
        known_files.store(comparison.believed)
    contents = contents or {}
    lost, lengths = _unreadable(blobs, comparison.steps, contents)
    # A directory that cannot become a file keeps its content.
    possible = (
        [s for s in comparison.steps if lost.keys().isdisjoint(ways(s.path))] if lost else comparison.steps
    )
    steps = tuple(sorted(possible, key=lambda step: step.path))
    new = sum(lengths.get(s.after.id, 0) for s in steps if s.after is not None)
    refuse_without_room_for_both(new, target.path, _unsaved(blobs, steps), blobs.layout.root)
    token = blake3(
        jsontext.encode(
            {
                "store_id": blobs.store_id.hex(),
                "target": path_text(os.fsencode(target.path)),
                "inode": target.inode,
                "tree": goal.tree,
                "undo_of": goal.undo_of,
                "paths": [path_text(path) for path in wanted.paths],
                "delete": delete,
                **({"bound": list(bound)} if bound else {}),
                "steps": [[path_text(s.path), _named(s.before, mode=True), _named(s.after)] for s in steps],
            }
        )
    ).hexdigest()[:32]
    return RestorePlan(
        store_id=blobs.store_id,
        target=target.path,
        inode=target.inode,
        turn=goal.turn,
        at=goal.at,
        tree=goal.tree,
        undo_of=goal.undo_of,
        steps=steps,
        unchanged=comparison.unchanged,
        kept=sorted(comparison.staying),
        missing=sorted([*wanted.missing, *lost.items()]),
        submodules=sorted(wanted.submodules),
        conflicts=sorted(comparison.conflicts),
        token=token,
        redo=goal.redo,
        in_place=is_project(blobs.layout.root, target.path),
        contents={s.after.id: contents[s.after.id] for s in steps if s.after and s.after.id in contents},
    )


def _protected(target: OpenDirectory, store_root: str) -> bytes | None:
    """The path of the store in the target; None when it is elsewhere."""
    store, path = os.path.realpath(store_root), target.path
    if os.path.commonpath((store, path)) == store:
        raise Refused(f"{path} is inside the store {store}; name another directory")
    if path == "/":
        raise Refused("/ is no working directory; name another one")
    if os.path.commonpath((store, path)) == path:
        return os.fsencode(os.path.relpath(store, path))
    return None


def _unreadable(
    blobs: "BlobStore", steps: Iterable[RestoreStep], contents: Mapping[bytes, bytes]
) -> tuple[dict[bytes, str], dict[bytes, int]]:
    """The paths whose wanted content the store cannot give, with the reason; the length of each content."""
    needed: dict[bytes, list[RestoreStep]] = {}
    for step in steps:
        if step.after is not None and step.after.kind != DIRECTORY:
            needed.setdefault(step.after.id, []).append(step)
    lost: dict[bytes, str] = {}
    lengths = {id: len(contents[id]) for id in needed.keys() & contents.keys()}
    needed = {id: wanting for id, wanting in needed.items() if id not in contents}
    for id in blobs.read_order(needed):
        try:
            data = blobs.get(id)
            problem = "" if blob_id(data) == id else "its hash is that of a tree"
        except (NotFound, Corruption) as error:
            data, problem = b"", f"its content cannot be read: {error}"
        lengths[id] = len(data)
        for step in needed[id]:
            assert step.after is not None
            if not problem and step.after.kind == SYMLINK and (not data or b"\0" in data):
                lost[step.path] = "no symlink can have this target"
            elif problem:
                lost[step.path] = problem
    return lost, lengths


def _unsaved(blobs: "BlobStore", steps: Iterable[RestoreStep]) -> int:
    """Bytes of the contents that are replaced, and that the store does not have."""
    sizes = {s.before.id: s.before.size for s in steps if s.before is not None and s.before.kind != DIRECTORY}
    locations = blobs.locations(sizes)
    return sum(size for id, size in sizes.items() if id not in locations)


def _named(state: State | None, *, mode: bool = False) -> list[object] | None:
    if state is None:
        return None
    return [state.kind.decode("ascii"), state.mode if mode else None, state.id.hex()]
