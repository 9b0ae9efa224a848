"""The spine: at every stop its files are those of `Store.tree`, whatever happened (docs/view.md)."""

import copy
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eventlog import Recorder, Store
from eventlog.base.errors import Ambiguous, EventLogError, NotFound, NoTree
from eventlog.blobs.ids import to_text
from eventlog.blobs.tree import (
    DIRECTORY,
    EXECUTABLE,
    FILE,
    SKIPPED,
    SUBMODULE,
    SYMLINK,
    TreeEntry,
    kind_of_mode,
)
from eventlog.recorder import lifecycle
from eventlog.replay import spine as spines
from eventlog.replay.deferred import hashed
from eventlog.replay.spine import NO_FILES, PARTIAL, TREE, Spine
from tests.blobs.support import Node, store_node
from tests.conftest import examples

# What stands at a path: (kind, id); an empty directory has no id.
Files = dict[bytes, tuple[bytes, bytes | None]]

NAMES = (b"a", b"b", b"c", b"sp ace", b"\xff", b"d")
KINDS = (FILE, EXECUTABLE, SYMLINK, SUBMODULE, SKIPPED, kind_of_mode(0o600), kind_of_mode(0o700))
CONTENTS = (b"1\n", b"2\n", b"3\n")

PLACES = st.lists(st.sampled_from(NAMES), min_size=1, max_size=3)
CHANGES = st.lists(
    st.one_of(
        st.tuples(st.just("write"), PLACES, st.sampled_from(KINDS), st.sampled_from(CONTENTS)),
        st.tuples(st.just("delete"), PLACES),
        st.tuples(st.just("rename"), PLACES, PLACES),
        st.tuples(st.just("directory"), PLACES),
    ),
    max_size=4,
)
# How a turn is recorded, by which of two sessions, what changed before it and in it.
HOWS = st.sampled_from(
    ("whole", "whole", "whole", "no end", "no start", "partial", "late change", "tools", "none")
)
HISTORIES = st.lists(st.tuples(HOWS, st.integers(0, 1), CHANGES, CHANGES), min_size=1, max_size=8)


@dataclass
class History:
    """Turns of two sessions in one directory, whose trees are put into the store as they are."""

    store: Store
    node: Node = field(default_factory=dict)
    recorders: list[Recorder] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.recorders = [
            Recorder(self.store, agent=name, agent_session_id=name) for name in ("first", "second")
        ]

    def tree(self) -> str:
        return to_text(store_node(self.store.blobs, self.node))

    def play(self, how: str, session: int, before: list[Any], within: list[Any]) -> None:
        for change in before:
            self.change(*change)
        has_start = how not in ("no start", "tools", "none")
        turn = self.recorders[session].start_turn("Go on", tree_hash=self.tree() if has_start else None)
        for change in within:
            self.change(*change)
        if how in ("whole", "no start", "late change"):
            turn.snapshot_of(self.tree())
        elif how == "partial":
            capture = {"capture": {"state": "partial", "pending": 1, "pending_paths": ["a"]}}
            columns = {"success": False, **turn.placed()}
            snapshot = lifecycle.snapshot(
                turn.ref.session_id, turn.ref.turn, lifecycle.TURN_END, self.tree(), **columns
            )
            self.store.append_rows([{**snapshot, "payload": {**snapshot["payload"], **capture}}])
        if how in ("no end", "tools"):
            turn.file("a", before=None, after=b"told\n")
            turn.file("d/e", before=b"old\n", after=b"new\n")
            turn.file("b", before=b"gone\n", after=None)
        if how != "no end":
            turn.end()
        if how == "late change":
            event = lifecycle.file(turn.ref.session_id, turn.ref.turn, "late", "add", after_hash=None)
            self.store.append_rows([event])

    def change(self, what: str, path: list[bytes], *rest: Any) -> None:
        entry = _taken(self.node, path) if what in ("delete", "rename") else None
        if what == "write":
            _put(self.node, path, rest)
        elif what == "directory":
            _put(self.node, path, {})
        elif what == "rename" and entry is not None:
            _put(self.node, rest[0], entry)


def _put(node: Node, path: list[bytes], entry: Any) -> None:
    for name in path[:-1]:
        below = node.get(name)
        if not isinstance(below, dict):
            below = node[name] = {}
        node = below
    node[path[-1]] = copy.deepcopy(entry)


def _taken(node: Node, path: list[bytes]) -> Any:
    for name in path[:-1]:
        below = node.get(name)
        if not isinstance(below, dict):
            return None
        node = below
    return node.pop(path[-1], None)


def shown(entry: TreeEntry) -> tuple[bytes, bytes | None]:
    return entry.kind, None if entry.kind == DIRECTORY else entry.id


def expected(store: Store, turn: Any, at: str) -> tuple[str, Files]:
    """Where the files of a moment come from, and what they are, by other means than a spine."""
    try:
        source, tree = TREE, store.tree(turn, at)
    except NoTree:
        try:
            source, tree = PARTIAL, store.files_at(turn, at)
        except NoTree:
            return NO_FILES, {}
    found = dict(tree.walk())
    folders = {path.rpartition(b"/")[0] for path in found}
    return source, {
        path: shown(hashed(store.blobs, entry))
        for path, entry in found.items()
        if entry.kind != DIRECTORY or path not in folders
    }


def files_at(found: Spine, number: int) -> Files:
    """The files of a stop, by the changes of all stops that lead to it."""
    if number < 0:
        return {}
    stop = found.stops[number]
    files = files_at(found, stop.base)
    for change in stop.changes:
        if change.old_path is not None:
            del files[change.old_path]
        if change.entry is None:
            del files[change.path]
        else:
            files[change.path] = shown(change.entry)
    return files


def check(store: Store, found: Spine) -> None:
    for number, stop in enumerate(found.stops):
        source, files = expected(store, stop.turn, stop.at)
        assert stop.source == source
        known = store.certainty(stop.turn, stop.at)
        if source != PARTIAL:
            assert (stop.state, stop.why) == (known.state, known.why)
        if source == NO_FILES:
            assert stop.changes == ()
        else:
            assert files_at(found, number) == files, (number, stop)
            assert stop.files == sum(kind != DIRECTORY for kind, _ in files.values())
        for change in stop.changes:
            assert (change.entry is None) == (change.operation == "delete")
            assert (change.reason is not None) == (change.entry is not None and change.entry.kind == SKIPPED)


@given(HISTORIES)
@settings(max_examples=examples(12, 1_000))
def test_at_every_stop_the_files_are_those_of_the_tree(
    tmp_path_factory: pytest.TempPathFactory, turns: list[Any]
) -> None:
    """P1: renames, modes, links, folders that become files, two sessions, partial captures, turns without."""
    with Store.init(tmp_path_factory.mktemp("spine") / ".locus", repo_hash="0123456789ab") as store:
        history = History(store)
        for turn in turns:
            history.play(*turn)
        found = store.spine()

        assert found.until == store.status().events and found.cut is None
        assert [(stop.turn.name, stop.at) for stop in found.stops] == [
            (name, at)
            for (name,) in store.query(
                "select session_id || '_' || turn_id from turns order by first_position"
            ).rows
            for at in ("start", "end")
        ]
        check(store, found)
        for session in {stop.turn.session_id for stop in found.stops}:
            of_session = store.spine(session)
            assert {stop.turn.session_id for stop in of_session.stops} == {session}
            check(store, of_session)
        assert store.spine() == found
