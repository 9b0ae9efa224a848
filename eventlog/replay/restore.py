"""The plan of a restore: every path that would change, what stands there, and what shall (design.md §18.1).

Planning reads the working directory and changes nothing; anybody may plan at any time. A plan is a value,
and its token binds it to what was found: the same token later means that nothing it touches has changed.
"""

import os
import subprocess
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from blake3 import blake3

from eventlog import jsontext
from eventlog.errors import Corruption, InvalidEvent, NotFound, Refused, Unsupported
from eventlog.identity import STORE_DIRECTORY
from eventlog.paths import path_text
from eventlog.replay.restore_journal import ACTIONS, Document, Step, decode
from eventlog.replay.restore_place import FILES, NO_ID, OTHER, Place, State, same
from eventlog.replay.restore_wanted import Wanted, is_below, ways
from eventlog.repository import git_environment
from eventlog.snapshots.ids import blob_id, from_text
from eventlog.snapshots.parallel import Listed
from eventlog.snapshots.tree import DIRECTORY, EXECUTABLE, SYMLINK, legal_name

if TYPE_CHECKING:
    from eventlog.snapshots.store import BlobStore

_UNSEEN = "the log never saw it"


@dataclass(frozen=True, slots=True)
class Plan:
    """What a restore would do. Lists are of (path, reason).

    `kept` stays although the wanted tree lacks it; `missing` cannot be restored; `conflicts` make
    the restore refuse, unless they are to be left as they are.
    """

    store_id: bytes
    target: str
    inode: int
    turn: str
    at: str
    tree: str | None
    undo_of: str | None
    steps: tuple[Step, ...]
    unchanged: int
    kept: Listed
    missing: Listed
    submodules: Listed
    conflicts: Listed
    token: str

    @property
    def counts(self) -> dict[str, int]:
        """How many steps of each action."""
        counts = dict.fromkeys(ACTIONS, 0)
        for step in self.steps:
            counts[step.action] += 1
        return counts

    @property
    def partial(self) -> bool:
        """Whether the outcome will lack something that is wanted."""
        return bool(self.missing or self.conflicts)

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


def place_of(store_root: str, into: str | os.PathLike[str] | None) -> Place:
    """The directory to restore into: `into`, else the one that the store stands in."""
    if into is None and os.path.basename(store_root) != STORE_DIRECTORY:
        raise Refused(
            f"the store {store_root} stands in no working directory; say with --into which one is meant"
        )
    return Place(os.path.dirname(store_root) if into is None else os.fspath(into))


def plans_done(events: Iterable[Mapping[str, Any]]) -> dict[str, str]:
    """Start event → hash of the plan, for each restore that took place, in the order in which they ended.

    Args: events: restore events in position order.
    """
    plans: dict[str, str] = {}
    done: dict[str, str] = {}
    for event in events:
        if event["operation"] == "start":
            plans[str(event["event_id"])] = str((event.get("payload") or {}).get("plan"))
        elif event["operation"] == "end" and event["cause"] in plans:
            start = str(event["cause"])
            done.pop(start, None)
            if event["success"] is True:
                done[start] = plans[start]
    return done


def plan_to_undo(events: Iterable[Mapping[str, Any]], start: str | None) -> str:
    """The hash of the plan of the restore that began with the event `start`, or of the last one.

    Args: events: all restore events in position order. Raises: NotFound when it did not take place.
    """
    done = plans_done(events)
    if start is not None and start in done:
        return done[start]
    if start is not None or not done:
        what = (
            "no restore of this store took place"
            if start is None
            else f"{start} is no restore that took place"
        )
        raise NotFound(f"{what}, so there is nothing to undo")
    return list(done.values())[-1]


def read_plan(blobs: "BlobStore", plan: str) -> Document:
    """The document that `plans_done` names. Raises: NotFound, Corruption, Unsupported, InvalidEvent."""
    return decode(blobs.get(from_text(plan)), f"the plan {plan}")


def restored_there(
    blobs: "BlobStore", events: Iterable[Mapping[str, Any]], place: Place
) -> Iterator[Document]:
    """The plans of the restores that changed this very directory, as far as they can be read."""
    for plan in plans_done(events).values():
        try:
            document = read_plan(blobs, plan)
        except (NotFound, Corruption, Unsupported, InvalidEvent):
            continue  # what it made was not seen then, and stays
        if document.target == os.fsencode(place.path):
            yield document


def make_plan(
    place: Place,
    wanted: Wanted,
    blobs: "BlobStore",
    *,
    turn: str,
    at: str,
    tree: str | None,
    undo_of: str | None = None,
    delete: bool = True,
) -> Plan:
    """Compare what is wanted with what is there.

    Raises: Refused for a target inside the store, or `/`; OSError when the directory cannot be read.
    """
    comparison = _Comparison(place, wanted, _protected(place, blobs.layout.root))
    comparison.find_deletes()
    comparison.compare()
    comparison.find_kept()
    lost = _unreadable(blobs, comparison.steps)
    # A directory that cannot become a file keeps what is in it.
    possible = (
        [s for s in comparison.steps if lost.keys().isdisjoint(ways(s.path))] if lost else comparison.steps
    )
    steps = tuple(sorted(possible, key=lambda step: step.path))
    token = blake3(
        jsontext.encode(
            {
                "store_id": blobs.store_id.hex(),
                "target": path_text(os.fsencode(place.path)),
                "inode": place.inode,
                "tree": tree,
                "undo_of": undo_of,
                "paths": [path_text(path) for path in wanted.paths],
                "delete": delete,
                "steps": [[path_text(s.path), _named(s.before, mode=True), _named(s.after)] for s in steps],
            }
        )
    ).hexdigest()[:32]
    return Plan(
        store_id=blobs.store_id,
        target=place.path,
        inode=place.inode,
        turn=turn,
        at=at,
        tree=tree,
        undo_of=undo_of,
        steps=steps,
        unchanged=comparison.unchanged,
        kept=sorted(comparison.kept),
        missing=sorted([*wanted.missing, *lost.items()]),
        submodules=sorted(wanted.submodules),
        conflicts=sorted(comparison.conflicts),
        token=token,
    )


class _Comparison:
    """One walk over the wanted paths, and what it found."""

    def __init__(self, place: Place, wanted: Wanted, protected: bytes | None) -> None:
        self.place = place
        self.wanted = wanted
        self.protected = protected
        self.steps: list[Step] = []
        self.unchanged = 0
        self.kept: Listed = []
        self.conflicts: Listed = []
        self._listings: dict[bytes, dict[bytes, bool] | None] = {}
        self._doomed: set[bytes] = set()  # files, links and directories that will be gone
        self._blocked: set[bytes] = set()

    def find_deletes(self) -> None:
        """The files and links that go, then the directories that are empty without them."""
        candidates = [path for path in sorted(self.wanted.gone) if self._is_dir(path) is False]
        ignored = _ignored(self.place.path, candidates)
        for path in candidates:
            if ignored is None or path in ignored:
                why = "git ignores it" if ignored else "git cannot be asked whether it ignores it"
                self.kept.append((path, why))
                continue
            if self.protected is not None and is_below(path, self.protected):
                continue
            try:
                state = self.place.look(path)[0]
            except OSError as error:
                self.kept.append((path, f"it cannot be read, so it could not be saved: {error.strerror}"))
                continue
            if state is None or state.kind in (OTHER, DIRECTORY):
                self.kept.append((path, "it is no longer a file"))
                continue
            self._doomed.add(path)
            self.steps.append(Step(path, state, None))
        self._find_emptied()

    def _find_emptied(self) -> None:
        entries = self.wanted.entries
        candidates = set(self.wanted.gone_dirs)
        if self.wanted.whole:  # an undo says of each directory whether it goes
            candidates |= {above for path in self._doomed for above in ways(path)[1:]}
        candidates |= {p for p, state in entries.items() if state.kind != DIRECTORY and self._is_dir(p)}
        for path in sorted(candidates, key=lambda path: (-path.count(b"/"), path)):
            wanted = entries.get(path)
            if (wanted is not None and wanted.kind == DIRECTORY) or self.wanted.left_alone(path):
                continue
            names = self._names(path)
            if names is None or any(path + b"/" + name not in self._doomed for name in names):
                continue
            self._doomed.add(path)
            if wanted is None:
                found = self.place.lstat(path)
                self.steps.append(Step(path, _directory(found), None))

    def compare(self) -> None:
        """A step for every wanted path that is not there as wanted."""
        for path in sorted(self.wanted.entries):
            if self._blocked and any(above in self._blocked for above in ways(path)[1:]):
                continue
            want = self.wanted.entries[path]
            if self.protected is not None and is_below(path, self.protected):
                self._block(path, "the store is there")
            elif (is_dir := self._is_dir(path)) is None:
                self.steps.append(Step(path, None, want))
            elif is_dir:
                self._compare_directory(path, want)
            else:
                self._compare_file(path, want)
        for path, _ in self.wanted.submodules:
            if self._is_dir(path) is None and not any(above in self._blocked for above in ways(path)):
                self.steps.append(Step(path, None, State(DIRECTORY, None, NO_ID, 0)))

    def _compare_directory(self, path: bytes, want: State) -> None:
        if want.kind == DIRECTORY and self._names(path) is None:
            self._block(path, "the directory cannot be read")
        elif want.kind == DIRECTORY:
            self.unchanged += 1
        elif path in self._doomed:
            self.steps.append(Step(path, _directory(self.place.lstat(path)), want))
        else:
            self._block(path, "a directory stands there, and something in it would stay")

    def _compare_file(self, path: bytes, want: State) -> None:
        try:
            state = self.place.look(path)[0]
        except OSError as error:
            self._block(path, f"what stands there cannot be read, and so not be saved: {error.strerror}")
            return
        if state is None or state.kind in (OTHER, DIRECTORY):
            self._block(path, "what stands there is no file: a pipe, a socket, a device")
        elif want.kind == DIRECTORY and state.kind == SYMLINK and path not in self.wanted.links:
            self._block(path, "a symlink stands where a directory is wanted, and the log never saw it")
        elif same(state, want):
            self.unchanged += 1
        else:
            self.steps.append(Step(path, state, _with_mode(want, state)))

    def find_kept(self) -> None:
        """What nobody asked about in the directories that are wanted whole."""
        if not self.wanted.whole:
            return
        said = {path for path, _ in self.kept}
        directories = [b"", *(p for p, state in self.wanted.entries.items() if state.kind == DIRECTORY)]
        for directory in directories:
            if directory in self._blocked:
                continue
            for name, is_dir in (self._names(directory) or {}).items():
                path = directory + b"/" + name if directory else name
                known = path in self.wanted.entries or path in self._doomed or path in said
                if known or legal_name(name) is not None or not self.wanted.selects(path):
                    continue
                if self.wanted.left_alone(path) or (self.protected and is_below(self.protected, path)):
                    continue
                self.kept.append((path + b"/" if is_dir else path, _UNSEEN))

    def _block(self, path: bytes, why: str) -> None:
        self._blocked.add(path)
        self.conflicts.append((path, why))

    def _is_dir(self, path: bytes) -> bool | None:
        """Whether what stands at a path is a directory; None when nothing stands there."""
        parent, _, name = path.rpartition(b"/")
        names = self._names(parent)
        return None if names is None else names.get(name)

    def _names(self, directory: bytes) -> dict[bytes, bool] | None:
        """What is in a directory; None when there is none, or when it cannot be read."""
        if directory not in self._listings:
            try:
                self._listings[directory] = self.place.names(directory)
            except PermissionError:
                self._listings[directory] = None
        return self._listings[directory]


def _directory(found: os.stat_result | None) -> State:
    return State(DIRECTORY, None if found is None else found.st_mode & 0o777, NO_ID, 0)


def _with_mode(want: State, state: State) -> State:
    """The wanted file with the mode of the one that is there, as far as the wanted kind allows."""
    if want.mode is not None or want.kind not in FILES or state.kind not in FILES or state.mode is None:
        return want
    mode = state.mode & ~0o111
    if want.kind == EXECUTABLE:
        mode = state.mode | 0o100 | (state.mode & 0o444) >> 2
    return State(want.kind, mode, want.id, want.size)


def _protected(place: Place, store_root: str) -> bytes | None:
    """The path of the store in the target; None when it is elsewhere."""
    store, target = os.path.realpath(store_root), place.path
    if os.path.commonpath((store, target)) == store:
        raise Refused(f"{target} is inside the store {store}; name another directory")
    if target == "/":
        raise Refused("/ is no working directory; name another one")
    if os.path.commonpath((store, target)) == target:
        return os.fsencode(os.path.relpath(store, target))
    return None


def _ignored(target: str, paths: Collection[bytes]) -> set[bytes] | None:
    """Which of the paths git ignores; None when there is a repository and git does not answer."""
    if not paths or not _in_repository(target):
        return set()
    command = ["git", "-C", target, "-c", "core.fsmonitor=false", "check-ignore", "--stdin", "-z"]
    try:
        done = subprocess.run(
            command, env=git_environment(), input=b"".join(b"./%b\0" % path for path in paths),
            capture_output=True, check=False,
        )  # fmt: skip
    except OSError:
        return None
    if done.returncode not in (0, 1):
        return None
    return {path.removeprefix(b"./") for path in done.stdout.split(b"\0") if path}


def _in_repository(directory: str) -> bool:
    while not os.path.lexists(os.path.join(directory, ".git")):
        parent = os.path.dirname(directory)
        if parent == directory:
            return False
        directory = parent
    return True


def _unreadable(blobs: "BlobStore", steps: Iterable[Step]) -> dict[bytes, str]:
    """The paths whose wanted content the store cannot give, with the reason."""
    needed: dict[bytes, list[Step]] = {}
    for step in steps:
        if step.after is not None and step.after.kind != DIRECTORY:
            needed.setdefault(step.after.id, []).append(step)
    lost: dict[bytes, str] = {}
    for id in blobs.read_order(needed):
        try:
            data = blobs.get(id)
            problem = "" if blob_id(data) == id else "its hash is that of a tree"
        except (NotFound, Corruption) as error:
            data, problem = b"", f"its content cannot be read: {error}"
        for step in needed[id]:
            assert step.after is not None
            if not problem and step.after.kind == SYMLINK and (not data or b"\0" in data):
                lost[step.path] = "no symlink can have this target"
            elif problem:
                lost[step.path] = problem
    return lost


def _named(state: State | None, *, mode: bool = False) -> list[object] | None:
    if state is None:
        return None
    return [state.kind.decode("ascii"), state.mode if mode else None, state.id.hex()]
