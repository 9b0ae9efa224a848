"""Comparing two trees: which paths changed, and what cannot be known."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eventlog.base.errors import Corruption, NotFound
from eventlog.base.types import Event
from eventlog.blobs.ids import to_text
from eventlog.blobs.tree import DIRECTORY, EXECUTABLE, FILE, SKIPPED, SUBMODULE, SYMLINK, TreeEntry
from eventlog.recorder import lifecycle
from eventlog.replay import diffs
from eventlog.replay.compare import compare
from eventlog.replay.diffs import diff
from eventlog.replay.trees import TreeState, tree_at
from eventlog.store import Store
from tests.blobs.support import Node, overwrite, pack_paths
from tests.conftest import examples
from tests.replay.states import file, link, program, state

_NAMES = st.sampled_from([b"a", b"b", b"c", b"a.b"])
_LEAF = st.tuples(st.sampled_from([FILE, EXECUTABLE, SYMLINK]), st.sampled_from([b"", b"1", b"2"]))
_TREES: st.SearchStrategy[Node] = st.recursive(
    st.dictionaries(_NAMES, _LEAF, max_size=4),
    lambda below: st.dictionaries(_NAMES, _LEAF | below, max_size=4),
    max_leaves=10,
)


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    with Store.init(tmp_path_factory.mktemp("compare") / ".locus", repo_hash="0123456789ab") as store:
        yield store


def listed(before: TreeState, after: TreeState) -> list[tuple[str, str]]:
    """(operation, path) of each change; a rename as `old → new`."""
    return [
        (c.operation, (c.path if c.old_path is None else c.old_path + b" -> " + c.path).decode())
        for c in compare(before, after).changes
    ]


def flat(node: Node, prefix: bytes = b"") -> dict[bytes, tuple[bytes, bytes]]:
    """Leaves by path; an empty directory is one."""
    leaves = {}
    for name, below in node.items():
        if isinstance(below, dict):
            leaves |= flat(below, prefix + name + b"/") or {prefix + name: (DIRECTORY, b"")}
        else:
            leaves[prefix + name] = below
    return leaves


@settings(max_examples=examples(30, 2000))
@given(before=_TREES, after=_TREES)
def test_changes_are_what_differs(store: Store, before: Node, after: Node) -> None:
    """P1: the changes turn the old tree into the new one; each path once, in order, no equal path listed."""
    found = compare(state(store, before), state(store, after))
    old, new = flat(before), flat(after)
    made = dict(old)
    for change in found.changes:
        made.pop(change.old_path or change.path, None)
    for change in found.changes:
        if change.after is not None:
            content = b"" if change.after.kind == DIRECTORY else store.blobs.get(change.after.id)
            made[change.path] = (change.after.kind, content)

    # A folder that was emptied or filled is no change of its own.
    def seen(leaves: dict[bytes, tuple[bytes, bytes]]) -> dict[bytes, tuple[bytes, bytes]]:
        return {path: leaf for path, leaf in leaves.items() if leaf[0] != DIRECTORY}

    assert seen(made) == seen(new)
    assert [c.path for c in found.changes] == sorted({c.path for c in found.changes})
    assert all(old.get(c.path) != new.get(c.path) or c.operation == "rename" for c in found.changes)
    assert found.missing == ()


def test_what_each_operation_means(store: Store) -> None:
    """P1: add, edit, delete, mode, type and rename, with the entries of both sides."""
    before: Node = {
        b"gone": file(b"g"), b"same": file(b"s"), b"edited": file(b"1"), b"run": file(b"r"),
        b"both": file(b"b"), b"kind": file(b"k"), b"old": {b"name": file(b"n")}, b"empty": {},
    }  # fmt: skip
    after: Node = {
        b"same": file(b"s"), b"edited": file(b"2"), b"run": program(b"r"), b"both": program(b"B"),
        b"kind": link(b"k"), b"new": {b"name": program(b"n")}, b"added": file(b"a"), b"hollow": {},
    }  # fmt: skip

    assert listed(state(store, before), state(store, after)) == [
        ("add", "added"),
        ("edit", "both"),
        ("edit", "edited"),
        ("delete", "empty"),
        ("delete", "gone"),
        ("add", "hollow"),
        ("type", "kind"),
        ("rename", "old/name -> new/name"),
        ("mode", "run"),
    ]
    changes = {c.path: c for c in compare(state(store, before), state(store, after)).changes}
    renamed = changes[b"new/name"]
    assert renamed.before is not None and renamed.after is not None
    assert (renamed.before.kind, renamed.after.kind) == (FILE, EXECUTABLE)


def test_renames_keep_their_names_apart(store: Store) -> None:
    """P1: of several equal files, those with one name are paired first, the rest in order of paths; what is
    left over is added or deleted, and a link is never paired with a file."""
    before: Node = {b"a": {b"x": file(b"1"), b"y": file(b"1")}, b"l": link(b"1"), b"z": file(b"1")}
    after: Node = {b"b": {b"y": file(b"1"), b"q": file(b"1")}, b"m": file(b"new"), b"n": link(b"1")}

    assert listed(state(store, before), state(store, after)) == [
        ("rename", "a/x -> b/q"),
        ("rename", "a/y -> b/y"),
        ("add", "m"),
        ("rename", "l -> n"),
        ("delete", "z"),
    ]


def test_folders_are_recognised_by_what_is_in_them(store: Store) -> None:
    """P1: a folder gives place to a file, is emptied, is filled; an empty one is inside another."""
    assert listed(state(store, {b"d": {b"x": file(b"1")}}), state(store, {b"d": file(b"2")})) == [
        ("add", "d"),
        ("delete", "d/x"),
    ]
    assert listed(state(store, {b"d": {b"x": file(b"1")}}), state(store, {b"d": {}})) == [("delete", "d/x")]
    assert listed(state(store, {b"d": {}}), state(store, {b"d": {b"x": file(b"1")}})) == [("add", "d/x")]
    assert listed(state(store, {b"d": {b"e": {}}}), state(store, {b"d": file(b"")})) == [
        ("add", "d"),
        ("delete", "d/e"),
    ]


def test_equal_sub_trees_are_not_read(store: Store) -> None:
    """P4: a sub-tree of equal id is skipped, so it may even be gone, and contents are never read."""
    gone, erased = bytes([7]) * 32, bytes([8]) * 32

    def made(own: bytes) -> TreeState:
        with store.blobs.writer() as writer:
            entries = [TreeEntry(b"big", DIRECTORY, gone), TreeEntry(b"f", FILE, own, 1)]
            root = writer.put_tree(entries)
            writer.flush()
        event = lifecycle.snapshot("s1", 1, lifecycle.TURN_END, to_text(root), event_id="s")
        return tree_at([event], store.blobs, "s1_001")

    assert listed(made(erased), made(bytes([9]) * 32)) == [("edit", "f")]


def skipped(store: Store, files: dict[bytes, bytes], reasons: dict[bytes, str], *events: Event) -> TreeState:
    """A tree of files, and of entries that were skipped for these reasons; then these events."""
    with store.blobs.writer() as writer:
        entries = [TreeEntry(name, FILE, writer.put(data), len(data)) for name, data in files.items()]
        entries += [TreeEntry(name, SKIPPED, writer.put(why.encode()), 9) for name, why in reasons.items()]
        root = to_text(writer.put_tree(entries))
        writer.flush()
    kind = lifecycle.TURN_START if events else lifecycle.TURN_END
    snapshot = lifecycle.snapshot("s1", 1, kind, root, event_id="s")
    return tree_at([snapshot, *events], store.blobs, "s1_001")


def test_what_was_not_captured_is_listed_and_is_no_change(store: Store) -> None:
    """P1, P7: a path that one side skipped, or that an event left unknown, is reported with its reason:
    never as deleted, added or edited."""
    lost = lifecycle.file("s1", 1, "lost", "edit", payload={"skipped": "not readable"}, event_id="l")
    born = lifecycle.file("s1", 1, "born", "add", payload={"skipped": "over the limit"}, event_id="b")
    before = skipped(store, {b"a": b"1", b"big": b"2", b"lost": b"3"}, {b"was": "too large", b"same": "why"})
    after = skipped(
        store,
        {b"a": b"1", b"was": b"4", b"lost": b"3"},
        {b"big": "too large", b"same": "why", b"fresh": "changed under the read"},
        lost,
        born,
    )
    found = diff(before, after)

    assert found.changes == ()
    assert found.missing[0].path == b"."  # the turn has no end
    assert [(one.path, one.reason) for one in found.missing[1:]] == [
        (b"big", "too large"),
        (b"born", "over the limit"),
        (b"fresh", "changed under the read"),
        (b"lost", "not readable"),
        (b"was", "too large"),
    ]
    assert found.missing[1].before is not None and found.missing[2].after is None
    assert [one.path for one in found.within(["lost"]).missing] == [b".", b"lost"]


def test_a_folder_that_could_not_be_read_is_not_deleted(store: Store) -> None:
    """P1: where one side skipped a whole folder, nothing in it is listed as deleted or added."""
    before = state(store, {b"d": {b"x": file(b"1")}, b"e": file(b"1")})
    after = skipped(store, {b"e": b"2"}, {b"d": "permission denied"})

    for one, other in ((before, after), (after, before)):
        found = compare(one, other)
        assert [(c.operation, c.path) for c in found.changes] == [("edit", b"e")]
        assert [(m.path, m.reason) for m in found.missing] == [(b"d", "permission denied")]
    narrowed = diff(before, after).within(["d/x"])
    assert (narrowed.changes, [m.path for m in narrowed.missing]) == ((), [b"d"])


def test_paths_narrow_a_diff(store: Store) -> None:
    """S1-31: files and folders by name, a rename by both of its names; an unknown path is an error."""
    before = state(
        store, {b"d": {b"x": file(b"1"), b"old": file(b"o")}, b"dd": file(b"1"), b"same": file(b"")}
    )
    after = state(
        store, {b"d": {b"x": file(b"2")}, b"dd": file(b"2"), b"new": file(b"o"), b"same": file(b"")}
    )
    found = diff(before, after)

    def paths(*wanted: str) -> list[bytes]:
        return [change.path for change in found.within(wanted).changes]

    assert paths("d") == [b"d/x", b"new"]
    assert paths("d/x", "dd") == [b"d/x", b"dd"]
    assert paths("d/old") == paths("new") == [b"new"]
    assert paths("same") == []
    assert paths(".") == paths() == [b"d/x", b"dd", b"new"]
    for unknown in ("nope", "d/x/y", "same/x", '"broken'):
        with pytest.raises(NotFound):
            found.within([unknown])


def test_contents_are_read_when_they_are_asked_for(store: Store) -> None:
    """P7: counts, binary or not, and the text come from the contents; unchanged ones are not needed."""
    before = state(store, {b"t": file(b"1\n2\n"), b"b": file(b"\0"), b"r": file(b"\0r"), b"e": file(b"")})
    after = state(
        store, {b"t": file(b"1\nzwei\ndrei"), b"b": file(b"b"), b"q": file(b"\0r"), b"k": link(b"e")}
    )
    files = {one.path: one for one in diff(before, after)}

    assert {p: (f.lines_added, f.lines_removed, f.binary) for p, f in files.items()} == {
        "b": (None, None, True),
        "e": (0, 0, False),
        "k": (1, 0, False),
        "q": (0, 0, False),
        "t": (2, 1, False),
    }
    assert files["b"].text.endswith(b" 100644\nBinary files a/b and b/b differ\n")
    assert files["e"].text == b"diff --git a/e b/e\ndeleted file mode 100644\n"
    assert files["q"].text.endswith(b"similarity index 100%\nrename from r\nrename to q\n")
    assert b"-2\n+zwei\n+drei\n\\ No newline at end of file\n" in files["t"].text
    assert files["q"].old_path == "r"


def test_a_content_too_large_to_show_is_not_read(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """P4: above a size a content counts as binary, and nobody reads it."""
    monkeypatch.setattr(diffs, "TEXT_MAX", 3)
    (one,) = diff(state(store, {b"f": file(b"1\n")}), state(store, {b"f": file(b"1\n2\n")}))
    unread = diffs.FileDiff(one.change, lambda id: pytest.fail(f"{id.hex()} was read"))

    assert unread.binary and unread.lines_added is None
    assert unread.text.endswith(b"Binary files a/f and b/f differ\n")


def test_a_submodule_is_shown_by_its_commit(store: Store) -> None:
    """S1-31: another commit of a submodule reads as git shows it."""

    def made(commit: bytes) -> TreeState:
        with store.blobs.writer() as writer:
            root = writer.put_tree([TreeEntry(b"sub", SUBMODULE, writer.put(commit), 40)])
            writer.flush()
        event = lifecycle.snapshot("s1", 1, lifecycle.TURN_END, to_text(root), event_id="s")
        return tree_at([event], store.blobs, "s1_001")

    (one,) = diff(made(b"a" * 40), made(b"b" * 40))
    assert b"-Subproject commit " + b"a" * 40 + b"\n+Subproject commit " + b"b" * 40 in one.text


def test_a_damaged_content_is_named_and_the_rest_can_be_read(tmp_path: Path) -> None:
    """I24: a content whose bytes rotted is Corruption when it is read; other changes are unharmed."""
    with Store.init(tmp_path / ".locus", repo_hash="0123456789ab") as store:
        before, rest = state(store, {}), state(store, {b"good": file(b"good")})
        pack = set(pack_paths(store.layout))
        after = state(store, {b"good": file(b"good"), b"bad": file(os.urandom(5000).hex().encode())})
        (damaged,) = set(pack_paths(store.layout)) - pack
        data = bytearray(Path(damaged).read_bytes())
        data[60] ^= 0xFF
        found = compare(before, after).changes
        store.blobs.close()
        overwrite(damaged, bytes(data))

        assert rest.root != after.root
        files = {one.path.decode(): diffs.FileDiff(one, store.blobs.get) for one in found}
        assert files["good"].lines_added == 1
        with pytest.raises(Corruption):
            _ = files["bad"].text
