"""The spine: at every stop its files are those of `Store.tree`, whatever happened (docs/view.md)."""

import copy
import zlib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eventlog import Recorder, Store
from eventlog.base.errors import Ambiguous, NotFound, NoTree
from eventlog.base.locks import SEARCH, acquire
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
from eventlog.replay import tree_changes
from eventlog.replay.deferred import hashed
from eventlog.replay.leaf_changes import LeafChanges
from eventlog.replay.spine import NO_FILES, PARTIAL, TREE, Spine
from tests.blobs.support import Node, as_process, store_node
from tests.conftest import examples

# What is at a path: (kind, id); an empty directory has no id.
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
            turn.file("a", before=None, after=b"new\n")
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


# -- what is asked for -------------------------------------------------------------------------------


@pytest.fixture
def history(store: Store) -> History:
    """Three turns of two sessions: a file is added, renamed, and made executable."""
    history = History(store)
    history.play("whole", 0, [], [("write", [b"d", b"a"], FILE, b"1\n"), ("write", [b"b"], FILE, b"2\n")])
    history.play("whole", 1, [("write", [b"c"], FILE, b"between\n")], [("rename", [b"b"], [b"d", b"e"])])
    history.play("whole", 0, [], [("write", [b"d", b"a"], EXECUTABLE, b"1\n")])
    return history


def summary(found: Spine) -> list[tuple[str, int, int | None, list[tuple[bytes, str, bytes | None]]]]:
    return [
        (stop.at, stop.base, stop.files, [(c.path, c.operation, c.old_path) for c in stop.changes])
        for stop in found.stops
    ]


def test_what_changed_between_turns_is_at_the_start_of_the_next(history: History) -> None:
    """Each stop has what differs from the last whole tree before it; no turn made that."""
    assert summary(history.store.spine()) == [
        ("start", -1, 0, []),
        ("end", 0, 2, [(b"b", "add", None), (b"d/a", "add", None)]),
        ("start", 1, 3, [(b"c", "add", None)]),
        ("end", 2, 3, [(b"d/e", "rename", b"b")]),
        ("start", 3, 3, []),
        ("end", 4, 3, [(b"d/a", "mode", None)]),
    ]


def test_no_stop_begins_from_files_that_tools_alone_name(history: History) -> None:
    """P1: such a turn begins from nothing, and the next one from the last whole tree before it."""
    history.play("tools", 0, [], [])
    history.play("whole", 1, [], [])
    stops = history.store.spine().stops
    assert [stop.source for stop in stops[6:]] == [PARTIAL, PARTIAL, TREE, TREE]
    assert [stop.base for stop in stops[6:]] == [-1, 6, 5, 8]
    assert stops[8].changes == ()


def test_a_session_is_named_by_its_beginning(history: History) -> None:
    """P8: as everywhere; the first stop of a session has all files."""
    store = history.store
    first = store.spine().stops[0].turn.session_id
    found = store.spine(first[:5])
    assert (found.session, len(found.stops)) == (first, 4)
    assert summary(found)[2] == ("start", 1, 3, [(b"c", "add", None), (b"d/e", "rename", b"b")])
    with pytest.raises(NotFound, match="no session is called 'nobody'"):
        store.spine("nobody")
    with pytest.raises(Ambiguous, match="fits several sessions"):
        store.spine("")


def test_a_commit_that_no_line_reaches_is_in_its_session_alone(tmp_path: Path) -> None:
    """A rewritten commit is no moment of the repository."""
    from eventlog.importers.git_history import import_git
    from tests.cli.support import git, make_history

    root = tmp_path / "sample"
    make_history(root)
    with Store.init(root / ".locus") as store:
        import_git(store, str(root))
        whole = len(store.spine().stops)
        git(root, "commit", "-q", "--amend", "-m", "Another title", at=9)
        import_git(store, str(root))
        ((rewritten,),) = store.query("select session_id || '_' || turn_id from turns where rewritten").rows
        assert len(store.spine().stops) == whole
        assert rewritten not in {stop.turn.name for stop in store.spine().stops}
        assert rewritten in {s.turn.name for s in store.spine(rewritten.partition("_")[0]).stops}
        check(store, store.spine())


def test_too_many_changes_leave_the_oldest_turns_out(
    history: History, monkeypatch: pytest.MonkeyPatch
) -> None:
    """P7: a cut says itself, and the newest turns are whole."""
    monkeypatch.setattr(spines, "CHANGES_MAX", 4)
    found = history.store.spine()
    assert found.cut == "only the newest 1 of 3 turns, since there are too many changes"
    assert len(found.stops) == 2
    check(history.store, found)
    monkeypatch.setattr(spines, "CHANGES_MAX", 1)
    found = history.store.spine()
    assert (found.stops, found.cut) == ((), "one tree alone has too many files")


def test_files_that_cannot_be_read_are_reported(history: History, monkeypatch: pytest.MonkeyPatch) -> None:
    """P7: a damaged tree is no empty one; the stops around it are as they were."""
    from eventlog.base.errors import Corruption

    store = history.store
    whole = store.spine()
    ((tree,),) = store.query("select end_tree from turns where agent = 'second'").rows
    read = store.blobs.get_tree

    def get_tree(id: bytes) -> Any:
        if to_text(id) == tree:
            raise Corruption("a pack", "its bytes are not what was written")
        return read(id)

    monkeypatch.setattr(store.blobs, "get_tree", get_tree)
    with Store.open(store.layout.root) as again:
        monkeypatch.setattr(again.blobs, "get_tree", get_tree)
        found = again.spine()
    damaged = found.stops[3]
    assert (damaged.source, damaged.state, damaged.changes) == (NO_FILES, "none", ())
    assert "its files cannot be read" in damaged.why
    assert files_at(found, 5) == files_at(whole, 5)


# -- what is kept ------------------------------------------------------------------------------------


def count_reads(store: Store, monkeypatch: pytest.MonkeyPatch) -> list[bytes]:
    reads: list[bytes] = []
    read = store.blobs.get_tree

    def get_tree(id: bytes) -> Any:
        reads.append(id)
        return read(id)

    monkeypatch.setattr(store.blobs, "get_tree", get_tree)
    return reads


def test_equal_directories_are_not_read(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """P1: what a stop costs is what changed: of a hundred directories one is read."""
    history = History(store)
    for number in range(100):
        history.change("write", [b"%d" % number, b"a"], FILE, b"1\n")
    history.play("whole", 0, [], [])
    reads = count_reads(store, monkeypatch)
    store.spine()
    assert len(reads) == 101
    history.play("whole", 0, [], [("write", [b"7", b"a"], FILE, b"2\n")])
    del reads[:]
    store.spine()
    assert len(reads) == 4  # the root and one directory, on both sides


def test_a_later_spine_reads_no_tree_again(history: History, monkeypatch: pytest.MonkeyPatch) -> None:
    """In one store, and in another once maintenance has compared the trees."""
    store = history.store
    found = store.spine()
    reads = count_reads(store, monkeypatch)
    assert store.spine() == found
    assert reads == []
    assert store.compare_trees() == 5
    with Store.open(store.layout.root) as again:
        reads = count_reads(again, monkeypatch)
        assert again.spine() == found
        assert reads == []


def test_the_file_is_derived(history: History) -> None:
    """I22: damaged, or of another version, it is as good as none; maintenance makes the same again."""
    store = history.store
    found = store.spine()
    assert store.compare_trees() == 5
    assert store.compare_trees() == 0
    path = Path(store.layout.index(tree_changes.NAME))
    whole = path.read_bytes()
    assert path.stat().st_mode & 0o777 == 0o600
    flips = [whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :] for at in (60, len(whole) - 1)]
    for damaged in (b"", whole[:-1], *flips, b"x" + whole):
        path.write_bytes(damaged)
        with Store.open(store.layout.root) as again:
            assert again.spine() == found
            assert path.read_bytes() == damaged, "reading writes nothing"
            assert again.compare_trees() == 5
        assert path.read_bytes() == whole
    store.rebuild()
    assert not path.exists(), "the next maintenance compares all trees again"
    assert store.compare_trees() == 5
    assert path.read_bytes() == whole


def test_all_that_a_change_has_is_kept(store: Store) -> None:
    """P1: kinds, names that are no UTF-8, empty directories, why a content was not captured."""
    history = History(store)
    writes = [("write", [b"k%d" % n], kind, b"it is large") for n, kind in enumerate(KINDS)]
    history.play("whole", 0, [], [*writes, ("write", [b"\xff\n", b"x"], FILE, b"1"), ("directory", [b"e"])])
    history.play("whole", 0, [("rename", [b"k0"], [b"\xfe"])], [("delete", [b"k1"]), ("delete", [b"e"])])
    found = store.spine()
    store.compare_trees()
    with Store.open(store.layout.root) as again:
        assert again.spine() == found
    check(store, found)


def test_what_the_log_no_longer_names_goes(history: History) -> None:
    """I30: the file has what the spine of the repository asks for, and nothing else."""
    store = history.store
    store.tree_changes.put(None, bytes(32), LeafChanges((), 0, True))
    assert store.compare_trees() == 5


def test_an_erasure_takes_the_file_along(store: Store) -> None:
    """I30, P5: no name that was erased is left in it, or comes back into it."""
    from eventlog.erasure import erasure

    history = History(store)
    history.play(
        "whole", 0, [], [("write", [b"tulip-fox-81"], FILE, b"1\n"), ("write", [b"b"], FILE, b"2\n")]
    )
    store.compare_trees()
    path = Path(store.layout.index(tree_changes.NAME))
    assert b"tulip-fox-81" in unpacked(path)
    erasure.erase(store, erasure.plan_secret(store, "tulip-fox-81"))
    assert not path.exists()
    store.compare_trees()
    assert b"tulip-fox-81" not in unpacked(path)
    assert b"b" in unpacked(path)


def unpacked(path: Path) -> bytes:
    return zlib.decompress(path.read_bytes()[len(tree_changes.MAGIC) : -32])


def test_nothing_is_written_beside_an_erasure(history: History) -> None:
    """I30: while one is under way, and while another process writes derived files."""
    store = history.store
    path = Path(store.layout.index(tree_changes.NAME))
    with acquire(store.fs, store.layout, SEARCH, timeout_s=1):
        assert as_process(lambda: _compare(store.layout.root)) == 0
    Path(store.layout.erasing).write_text("{}")
    assert _compare(store.layout.root) == 0
    assert not path.exists()


def _compare(root: str) -> int:
    with Store.open(root) as store:
        return store.compare_trees()
