"""Plans of a restore, and what carrying them out does to a directory."""

import os
import stat
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings

from eventlog.base.errors import Corruption, NotFound, Refused
from eventlog.base.layout import PACK_DIR
from eventlog.blobs.ids import blob_id, from_text, to_text
from eventlog.blobs.tree import DIRECTORY, EXECUTABLE, FILE, SKIPPED, SUBMODULE, SYMLINK, TreeEntry
from eventlog.checkout.directory import State
from eventlog.query.lookup import TurnRef
from eventlog.recorder import lifecycle
from eventlog.restore import journal
from eventlog.restore.journal import ACTIONS, Document, RestoreStep
from eventlog.restore.plan import RestorePlan
from eventlog.store import Store
from tests.blobs.support import Node, overwrite, read_node
from tests.blobs.test_tree import raw_entry
from tests.checkout.test_materialize import NODES
from tests.conftest import examples
from tests.older import append_as_before
from tests.restore.restoring import WANTED, Make, World, actions, put_tree, write_node

OLD: Node = {
    b"same": (FILE, b"same"),
    b"edit": (FILE, b"the day's work"),
    b"bit": (FILE, b"#!"),
    b"gone": (FILE, b"made later"),
    b"d": {b"deep": {b"gone": (FILE, b"made later too")}},
    b"was-file": {b"x": (FILE, b"x")},
    b"was-dir": (SYMLINK, b"edit"),
    b"link": (SYMLINK, b"there"),
}
NEW: Node = {
    b"same": (FILE, b"same"),
    b"edit": (FILE, b"as it was before"),
    b"bit": (EXECUTABLE, b"#!"),
    b"made": {b"deep": {b"file": (FILE, b"deleted by mistake")}, b"empty": {}},
    b"was-file": (FILE, b"file"),
    b"was-dir": {b"y": (FILE, b"")},
    b"link": (SYMLINK, b"here"),
}


@pytest.fixture
def make(tmp_path: Path) -> Make:
    def make(wanted: Node, disk: Node, later: tuple[Node, ...] | None = None) -> World:
        return World(tmp_path, wanted=wanted, disk=disk, later=later)

    return make


def files(world: World) -> Node:
    return read_node(os.fsencode(world.work))


# -- the plan, carried out ---------------------------------------------------------------------------


def test_the_plan_names_every_action_and_carrying_it_out_gives_the_wanted_tree(make: Make) -> None:
    """Created, overwritten, chmodded, of another kind, deleted: the touched paths equal the tree (I27)."""
    world = make(NEW, OLD)
    plan = world.plan()
    expected = {
        b"edit": "overwrite",
        b"link": "overwrite",
        b"bit": "chmod",
        b"gone": "delete",
        b"d": "delete",
        b"d/deep": "delete",
        b"d/deep/gone": "delete",
        b"made": "create",
        b"made/deep": "create",
        b"made/deep/file": "create",
        b"made/empty": "create",
        b"was-file": "retype",
        b"was-file/x": "delete",
        b"was-dir": "retype",
        b"was-dir/y": "create",
    }
    assert actions(plan) == expected
    assert plan.counts == {a: list(expected.values()).count(a) for a in ACTIONS}
    assert files(world) == OLD  # planning changes nothing

    outcome = world.store.restore(plan)

    assert files(world) == NEW
    assert (outcome.done, outcome.left) == (len(expected), [])
    assert world.plan().steps == ()
    assert world.store.restore(world.plan()).event is None


@settings(max_examples=examples(12, 500), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(wanted=NODES, disk=NODES)
def test_restore_gives_the_wanted_tree_and_undo_the_old_one(
    tmp_path_factory, wanted: Node, disk: Node
) -> None:
    """For all trees A on disk, all of it recorded, and B wanted: restore gives B, undo A, undo B (I27)."""
    world = World(tmp_path_factory.mktemp("world"), wanted=wanted, disk=disk)
    world.store.restore(world.plan())
    assert files(world) == wanted
    if wanted != disk:
        world.store.restore(world.store.undo_plan("restore", into=world.work))
        assert files(world) == disk
        world.store.restore(world.store.undo_plan("restore", into=world.work))
        assert files(world) == wanted


@settings(max_examples=examples(8, 500), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(wanted=NODES, disk=NODES)
def test_what_was_never_recorded_stays(tmp_path_factory, wanted: Node, disk: Node) -> None:
    """For all trees: of what the log never saw nothing is deleted, and undo gives all of it back (I27)."""
    world = World(tmp_path_factory.mktemp("world"), wanted=wanted, disk=disk, later=())
    before = leaves(disk)
    plan = world.plan()
    world.store.restore(plan, force=True)
    after = leaves(files(world))
    assert not any(step.action == "delete" for step in plan.steps)
    assert {p for p in before if p not in leaves(wanted)} <= set(after)
    if plan.steps:
        world.store.restore(world.store.undo_plan("restore", into=world.work))
        assert files(world) == disk


def leaves(node: Node, prefix: bytes = b"") -> dict[bytes, tuple[bytes, bytes]]:
    found: dict[bytes, tuple[bytes, bytes]] = {}
    for name, below in node.items():
        if isinstance(below, dict):
            found |= leaves(below, prefix + name + b"/")
        else:
            found[prefix + name] = below
    return found


def test_both_events_say_what_happened(make: Make) -> None:
    """The start names the saved files and the plan, the end that it succeeded; they belong to no session."""
    world = make(NEW, OLD)
    plan = world.plan()
    outcome = world.store.restore(plan)
    start, end = world.store.events(event_types=("restore",))

    assert (start["event_id"], start["operation"]) == (outcome.event, "start")
    assert start["payload"]["steps"] == plan.counts  # type: ignore[index]
    assert start["payload"]["tree"] == plan.tree  # type: ignore[index]
    assert (end["operation"], end["cause"], end["success"]) == ("end", outcome.event, True)
    assert start["session_id"] is end["session_id"] is None
    saved = {entry.name for entry in world.store.blobs.get_tree(from_text(str(start["tree_hash"])))}
    assert saved == {b"edit", b"bit", b"gone", b"d", b"was-file", b"was-dir", b"link"}
    assert world.store.verify("read") == []


def test_only_named_paths_are_touched(make: Make) -> None:
    """PATHs select files and directories, also ones that were only made later; an unknown one is an error."""
    world = make(NEW, OLD)
    assert set(actions(world.plan("edit", "./made/deep/", "d/deep/gone"))) == {
        b"edit", b"made", b"made/deep", b"made/deep/file", b"d", b"d/deep", b"d/deep/gone",
    }  # fmt: skip
    world.store.restore(world.plan("made/deep"))
    assert files(world) == OLD | {b"made": {b"deep": NEW[b"made"][b"deep"]}}  # type: ignore[index]
    with pytest.raises(NotFound, match="nowhere"):
        world.plan("nowhere")
    with pytest.raises(NotFound, match="gone"):
        world.plan("gone", delete=False)


def test_what_is_not_known_is_left_alone(make: Make) -> None:
    """P1: a path that the last capture of a turn did not take in is neither written nor deleted, and listed.

    Where nothing is known nothing is touched.
    """
    world = make(NEW, OLD)
    tree = put_tree(world.store, NEW)
    for number, pending in enumerate((["edit", "made", "d"], ["edit", "."]), 8):
        look = lifecycle.snapshot("s1", number, lifecycle.TURN_END, tree) | {"success": False}
        capture = {"state": "partial", "pending": len(pending), "pending_paths": pending}
        look["payload"] = {**look["payload"], "capture": capture}  # type: ignore[dict-item]
        world.store.append([lifecycle.turn_start("s1", number, "go"), look])
    seen = lifecycle.snapshot("s1", 10, lifecycle.TURN_END, put_tree(world.store, OLD))
    world.store.append([lifecycle.turn_start("s1", 10, "go"), seen])

    def plan(turn: int, *paths: str) -> RestorePlan:
        return world.store.restore_plan(TurnRef("s1", turn), paths=paths, into=world.work)

    some = plan(8)
    assert not {b"edit", b"made", b"made/deep/file", b"d", b"d/deep/gone"} & set(actions(some))
    assert {b"bit", b"gone", b"link"} <= set(actions(some))
    assert [path for path, _ in some.missing] == [b"d", b"edit", b"made"] and some.partial
    assert not plan(8, "bit").partial and plan(8, "made/deep").partial
    assert (plan(9).steps, plan(9, "bit").steps) == ((), ())
    assert [path for path, _ in plan(9).missing] == [b".", b"edit"]


def test_no_delete_leaves_what_was_made_later(make: Make) -> None:
    """Without deletes everything else is restored."""
    world = make({b"a": (FILE, b"1")}, {b"a": (FILE, b"2"), b"b": (FILE, b"made later")})
    world.store.restore(world.plan(delete=False))
    assert files(world) == {b"a": (FILE, b"1"), b"b": (FILE, b"made later")}


# -- deletes -----------------------------------------------------------------------------------------


def test_files_that_the_log_never_saw_are_kept_and_listed(make: Make) -> None:
    """A file beside the recorded ones stays, is named once, and keeps its directory (P1)."""
    world = make({b"a": (FILE, b"1")}, {b"a": (FILE, b"2"), b"new": {b"agent": (FILE, b"agent's")}})
    write_node(os.fsencode(world.work), {b"notes": (FILE, b"mine"), b"venv": {b"x": {b"y": (FILE, b"")}}})
    overwrite(str(world.work / "new/mine"), b"mine too")
    plan = world.plan()
    world.store.restore(plan)

    assert [path for path, _ in plan.kept] == [b"new/", b"notes", b"venv/"]
    assert files(world) == {
        b"a": (FILE, b"1"),
        b"new": {b"mine": (FILE, b"mine too")},
        b"notes": (FILE, b"mine"),
        b"venv": {b"x": {b"y": (FILE, b"")}},
    }


def test_a_file_event_counts_as_seen_and_a_delete_does_not(make: Make) -> None:
    """What an event after the moment added may go; of what it deleted the log knows nothing more."""
    world = make({}, {b"added": (FILE, b"1"), b"deleted": (FILE, b"2")}, later=())
    added, deleted = (
        lifecycle.file("s1", 2, "added", "add", payload={}),
        lifecycle.file("s1", 2, "deleted", "delete", payload={}),
    )
    world.store.append([added, deleted])
    assert actions(world.plan()) == {b"added": "delete"}


def test_what_a_restore_made_counts_as_seen(make: Make) -> None:
    """Back to an old turn and forward again: files and links of the old one do not stay behind."""
    old: Node = {b"a": (FILE, b"1"), b"d": {b"x": (FILE, b"x"), b"e": {}}, b"l": (SYMLINK, b"a"), b"n": {}}
    new: Node = {b"a": (FILE, b"2"), b"l": {b"f": (FILE, b"f")}}
    world = make(old, new)
    newest = TurnRef("s1", 2)
    world.store.restore(world.plan())
    assert files(world) == old
    world.store.restore(world.store.restore_plan(newest, into=world.work))
    assert files(world) == new


def test_what_was_recorded_before_the_moment_only_is_not_deleted(make: Make) -> None:
    """The log must have seen a file after the moment; that it knew one of the name before says nothing."""
    world = make({b"a": (FILE, b"1")}, {b"b": (FILE, b"mine")}, later=({b"a": (FILE, b"1")},))
    plan = world.store.restore_plan(TurnRef("s1", 2), into=world.work)
    assert actions(plan) == {b"a": "create"}
    assert [path for path, _ in plan.kept] == [b"b"]


def test_what_git_ignores_stays(make: Make) -> None:
    """A recorded file that git ignores is not deleted; where git cannot be asked, none is."""
    disk: Node = {b"x.log": (FILE, b"log"), b"x.py": (FILE, b"py"), b".gitignore": (FILE, b"*.log\n")}
    world = make({b".gitignore": (FILE, b"*.log\n")}, disk)
    subprocess.run(["git", "init", "-q", str(world.work)], check=True)
    plan = world.plan()
    assert actions(plan) == {b"x.py": "delete"}
    assert (b"x.log", "git ignores it") in plan.kept
    (world.work / ".git/HEAD").unlink()
    assert actions(world.plan()) == {}


@pytest.mark.parametrize(
    "path",
    ["../outside", "/etc/passwd", ".GIT/config", ".locus/STORE", "a/../../outside", "."],
)
def test_no_event_makes_a_restore_leave_its_directory(make: Make, path: str) -> None:
    """A path of a hostile event outside the directory, or in `.git`, is never deleted (I28)."""
    world = make({}, {}, later=())
    (world.root / "outside").write_text("precious")
    for precious in (".GIT/config", ".locus/STORE"):
        (world.work / precious).parent.mkdir()
        (world.work / precious).write_text("precious")
    append_as_before(world.store, [lifecycle.file("s1", 2, path, "add", payload={})])
    assert world.plan().steps == ()


# -- what is in the way --------------------------------------------------------------------------


def test_a_symlink_that_the_log_never_saw_is_a_conflict(make: Make, tmp_path: Path) -> None:
    """A link where a directory is wanted refuses the restore, and with force it and all below stay (I28)."""
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "f").write_text("precious")
    world = make({b"d": {b"f": (FILE, b"wanted")}, b"a": (FILE, b"1")}, {}, later=())
    os.symlink(outside, world.work / "d")
    plan = world.plan()
    assert [path for path, _ in plan.conflicts] == [b"d"]
    with pytest.raises(Refused, match="symlink"):
        world.store.restore(plan)
    assert os.listdir(world.work) == ["d"]

    world.store.restore(plan, force=True)
    assert (outside / "f").read_text() == "precious"
    assert files(world) == {b"d": (SYMLINK, os.fsencode(outside)), b"a": (FILE, b"1")}


def test_a_symlink_that_the_log_saw_is_replaced_itself(make: Make, tmp_path: Path) -> None:
    """Where the agent put a link in the place of a directory, the link goes and nothing behind it (I28)."""
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "f").write_text("precious")
    link: Node = {b"d": (SYMLINK, os.fsencode(outside))}
    world = make({b"d": {b"f": (FILE, b"wanted")}}, link)
    world.store.restore(world.plan())
    assert files(world) == {b"d": {b"f": (FILE, b"wanted")}}
    assert (outside / "f").read_text() == "precious"
    world.store.restore(world.store.undo_plan("restore", into=world.work))
    assert files(world) == link


def test_nothing_is_deleted_through_a_symlink(make: Make, tmp_path: Path) -> None:
    """A recorded path whose directory is a link by now is not there (I28)."""
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "f").write_text("precious")
    world = make({}, {b"d": {b"f": (FILE, b"agent's")}})
    (world.work / "d/f").unlink()
    (world.work / "d").rmdir()
    os.symlink(outside, world.work / "d")
    assert world.plan().steps == ()


@pytest.mark.parametrize("kind", ["pipe", "socket", "directory"])
def test_what_cannot_be_saved_is_a_conflict(make: Make, kind: str) -> None:
    """A pipe, a socket, a directory with foreign files: nothing waits for it, opens it, or removes it."""
    world = make({b"x": (FILE, b"wanted"), b"y": {b"z": (FILE, b"")}}, {}, later=())
    for name in ("x", "y"):
        if kind == "pipe":
            os.mkfifo(world.work / name)
        elif kind == "socket":
            os.mknod(world.work / name, 0o600 | stat.S_IFSOCK)
        elif name == "x":
            (world.work / name).mkdir()
            (world.work / name / "mine").write_text("mine")
    plan = world.plan()
    assert [path for path, _ in plan.conflicts] == ([b"x"] if kind == "directory" else [b"x", b"y"])
    with pytest.raises(Refused):
        world.store.restore(plan)


def test_another_name_of_a_file_keeps_its_content_and_mode(make: Make, tmp_path: Path) -> None:
    """Overwriting or chmodding a file that has another name elsewhere changes nothing there (I28)."""
    world = make(
        {b"a": (FILE, b"wanted"), b"b": (EXECUTABLE, b"same")},
        {b"a": (FILE, b"shared"), b"b": (FILE, b"same")},
    )
    for name in ("a", "b"):
        os.link(world.work / name, tmp_path / name)
    os.link(world.work / "a", world.work / "also")
    world.store.restore(world.plan())
    assert files(world) == {
        b"a": (FILE, b"wanted"), b"b": (EXECUTABLE, b"same"), b"also": (FILE, b"shared"),
    }  # fmt: skip
    assert (tmp_path / "a").read_bytes() == b"shared"
    assert stat.S_IMODE((tmp_path / "b").stat().st_mode) == 0o644


def test_two_names_of_one_file_can_both_be_restored(make: Make) -> None:
    """Replacing one name changes the inode's times; that is not taken for somebody's change."""
    world = make({b"a": (FILE, b"1"), b"b": (FILE, b"2")}, {b"a": (FILE, b"shared")})
    os.link(world.work / "a", world.work / "b")
    world.store.restore(world.plan())
    assert files(world) == {b"a": (FILE, b"1"), b"b": (FILE, b"2")}


def test_modes_are_kept_but_for_the_exec_bit(make: Make) -> None:
    """A private file stays private; a new one has what the umask leaves; undo brings the very mode back."""
    world = make(
        {b"a": (FILE, b"1"), b"b": (EXECUTABLE, b"1"), b"c": (FILE, b"1"), b"n": (FILE, b"1")},
        {b"a": (FILE, b"2"), b"b": (FILE, b"2"), b"c": (EXECUTABLE, b"2"), b"same": (FILE, b"")},
    )
    for name, mode in (("a", 0o600), ("b", 0o640), ("c", 0o750)):
        os.chmod(world.work / name, mode)
    old = os.umask(0o077)
    try:
        world.store.restore(world.plan())
    finally:
        os.umask(old)
    assert modes(world) == {"a": 0o600, "b": 0o750, "c": 0o640, "n": 0o600}
    world.store.restore(world.store.undo_plan("restore", into=world.work))
    assert modes(world) == {"a": 0o600, "b": 0o640, "c": 0o750, "same": 0o644}


def modes(world: World) -> dict[str, int]:
    return {name: stat.S_IMODE((world.work / name).stat().st_mode) for name in sorted(os.listdir(world.work))}


# -- what is not restored ----------------------------------------------------------------------------


def with_entries(world: World, entries: Callable[..., list[TreeEntry]]) -> None:
    """A third turn whose tree has these entries."""
    with world.store.blobs.writer() as writer:
        tree = to_text(writer.put_tree(entries(writer.put)))
        writer.flush()
    snapshot = lifecycle.snapshot("s1", 3, lifecycle.TURN_END, tree)  # type: ignore[arg-type]
    world.store.append([lifecycle.turn_start("s1", 3, "go"), snapshot])


def test_what_was_not_captured_is_listed_and_left(make: Make) -> None:
    """Skipped and lost contents are named with the reason, what is there stays; submodules too (P1)."""
    world = make({}, {b"big": (FILE, b"big"), b"lost": (FILE, b"mine"), b"dep": {b"own": (FILE, b"own")}})
    with_entries(
        world,
        lambda put: [
            TreeEntry(b"big", SKIPPED, put(b"larger than the limit"), 10**9),
            TreeEntry(b"lost", FILE, blob_id(b"never stored"), 3),
            TreeEntry(b"dep", SUBMODULE, put(b"c" * 40), 40),
            TreeEntry(b"sub", SUBMODULE, put(b"d" * 40), 40),
            TreeEntry(b"ok", FILE, put(b"ok"), 2),
        ],
    )
    plan = world.store.restore_plan(TurnRef("s1", 3), into=world.work)
    world.store.restore(plan)

    assert plan.partial
    assert [path for path, _ in plan.missing] == [b"big", b"lost"]
    assert plan.missing[0][1] == "larger than the limit"
    assert plan.submodules == [(b"dep", "c" * 40), (b"sub", "d" * 40)]
    assert files(world) == {
        b"big": (FILE, b"big"), b"lost": (FILE, b"mine"), b"dep": {b"own": (FILE, b"own")},
        b"sub": {}, b"ok": (FILE, b"ok"),
    }  # fmt: skip


def test_below_what_is_left_alone_nothing_is_deleted(make: Make) -> None:
    """In a submodule, and where a file was not captured, later files are nobody's to delete (P1)."""
    disk: Node = {b"dep": {b"own": (FILE, b"own")}, b"big": {b"x": (FILE, b"x")}, b"new": (FILE, b"")}
    world = make({}, disk, later=())
    with_entries(
        world,
        lambda put: [
            TreeEntry(b"big", SKIPPED, put(b"unreadable"), 0),
            TreeEntry(b"dep", SUBMODULE, put(b"c" * 40), 40),
        ],
    )
    tree = put_tree(world.store, disk)
    world.store.append([lifecycle.snapshot("s1", 4, lifecycle.TURN_END, tree)])  # type: ignore[arg-type]
    plan = world.store.restore_plan(TurnRef("s1", 3), into=world.work)
    assert actions(plan) == {b"new": "delete"}


@pytest.mark.parametrize("name", [b"..", b".git", b"a/b", b".LOCUS"])
def test_no_hostile_tree_leads_out(make: Make, name: bytes) -> None:
    """A tree that was encoded by hand restores nothing of itself, in the wanted tree or a later one (I28)."""
    world = make({}, {}, later=())
    (world.root / "b").write_text("precious")
    with world.store.blobs.writer() as writer:
        bad = writer.put_encoded_tree(b"T\x01" + raw_entry(name, id=writer.put(b"evil")))
        writer.flush()
    with_entries(world, lambda put: [TreeEntry(b"d", DIRECTORY, bad), TreeEntry(b"ok", FILE, put(b"ok"), 2)])
    assert world.plan().steps == ()
    plan = world.store.restore_plan(TurnRef("s1", 3), into=world.work)
    world.store.restore(plan)
    assert [path for path, _ in plan.missing] == [b"d"]
    assert files(world) == {b"ok": (FILE, b"ok")}


def test_no_tree_makes_a_store(make: Make) -> None:
    """I28: a `.locus` at a tree's root, and a `STORE` in a deeper one, are listed and not written."""
    evil: Node = {b"STORE": (FILE, b"{}"), b"x": (FILE, b"x")}
    wanted: Node = {b".LOCUS": evil, b"sub": {b".locus": evil, b"LOCUS~1": {b"store.": (FILE, b"{}")}}}
    world = make(wanted, {}, later=())
    plan = world.plan()
    world.store.restore(plan)
    replayed = world.store.replay(TurnRef("s1", 1), world.root / "out")

    unsafe = [b".LOCUS", b"sub/.locus/STORE", b"sub/LOCUS~1/store."]
    assert [path for path, _ in plan.missing] == [path for path, _ in replayed.missing] == unsafe
    made: Node = {b"sub": {b".locus": {b"x": (FILE, b"x")}, b"LOCUS~1": {}}}
    assert files(world) == read_node(os.fsencode(world.root / "out")) == made


@pytest.mark.parametrize(
    "path", [b"../x", b".git/config", b"/x", b"a//b", b"", b".locus/x", b"a/.locus/STORE"]
)
def test_no_plan_that_leads_out_is_read(path: bytes) -> None:
    """A plan document with a path outside its directory is damage, whatever its digest says (I28)."""
    step = RestoreStep(path, None, State(FILE, None, bytes(32), 0))
    document = Document("0" * 32, bytes(16), b"/x", 1, "t", "end", None, None, (step,))
    with pytest.raises(Corruption):
        journal.decode(journal.encode(document), "here")


def test_a_plan_document_comes_back_as_it_was(make: Make) -> None:
    """decode(encode(plan)) = plan; a changed byte is noticed (I11)."""
    document = make(NEW, OLD | {b"caf\xe9\n": (FILE, b"odd")}).plan().document("ab" * 16)
    encoded = journal.encode(document)
    assert journal.decode(encoded, "here") == document
    for at in range(0, len(encoded), 37):
        with pytest.raises(Corruption):
            journal.decode(encoded[:at] + bytes([encoded[at] ^ 1]) + encoded[at + 1 :], "here")


# -- the state the plan was made for -----------------------------------------------------------------


def test_the_token_is_the_same_until_something_changes_that_the_plan_touches(make: Make) -> None:
    """Any change of content or mode of a touched path makes another token; of others none does."""
    world = make(NEW, OLD)
    token = world.plan().token
    assert world.plan().token == token
    (world.work / "untracked").write_text("mine")
    assert world.plan().token == token

    def changes() -> Iterator[Callable[[], object]]:
        yield lambda: (world.work / "edit").write_text("more work")
        yield lambda: (world.work / "edit").chmod(0o600)
        yield lambda: (world.work / "gone").unlink()
        yield lambda: (world.work / "same").write_text("no longer the same")
        yield lambda: (world.work / "made").mkdir()

    for change in changes():
        change()
        changed = world.plan().token
        assert changed != token
        token = changed
    assert world.plan(delete=False).token != token
    assert world.plan("edit").token != token


@pytest.mark.parametrize("change", ["edit", "gone", "made"])
def test_a_change_since_the_plan_refuses_and_touches_nothing(make: Make, change: str) -> None:
    """A file that was edited, or made, after the plan: nothing is restored over it."""
    world = make(NEW, OLD)
    plan = world.plan()
    (world.work / change).write_text("written since")
    before = files(world)
    with pytest.raises(Refused, match=f"{change}.*since"):
        world.store.restore(plan)
    assert files(world) == before
    assert list(world.store.events(event_types=("restore",))) == []


def test_the_directory_must_be_the_one_of_the_plan(make: Make) -> None:
    """Another directory of that name is refused."""
    world = make(NEW, OLD)
    plan = world.plan()
    world.work.rename(world.root / "away")
    world.work.mkdir()
    with pytest.raises(Refused, match="another directory"):
        world.store.restore(plan)
    assert os.listdir(world.work) == []


def test_places_that_are_no_working_directory_are_refused(make: Make, tmp_path: Path) -> None:
    """The store itself, `/`, a file, nothing at all; and a store that is nowhere needs a name."""
    world = make(NEW, {})
    (tmp_path / "file").write_text("")
    for into in (tmp_path / ".locus", tmp_path / ".locus/tmp", "/", tmp_path / "file"):
        with pytest.raises(Refused):
            world.store.restore_plan(WANTED, into=into)
    with pytest.raises(NotFound):
        world.store.restore_plan(WANTED, into=tmp_path / "nowhere")
    (tmp_path / ".locus").rename(tmp_path / "elsewhere")
    with Store.open(tmp_path / "elsewhere") as store:
        with pytest.raises(Refused, match="--into"):
            store.restore_plan(WANTED)
        assert store.restore_plan(WANTED, into=world.work).steps


def test_a_store_inside_the_directory_is_never_touched(make: Make, tmp_path: Path) -> None:
    """Whatever the store's directory is called, a tree that has files there does not get at it (I28)."""
    world = make({b"data": {b"locus": {b"STORE": (FILE, b"evil")}, b"x": (FILE, b"x")}}, {}, later=())
    (world.work / "data").mkdir()
    (tmp_path / ".locus").rename(world.work / "data/locus")
    with Store.open(world.work / "data/locus") as store:
        plan = store.restore_plan(WANTED, into=world.work)
        assert [path for path, _ in plan.conflicts] == [b"data/locus"]
        store.restore(plan, force=True)
        assert store.verify("read") == []
    assert (world.work / "data/x").read_bytes() == b"x"


# -- undo --------------------------------------------------------------------------------------------


def test_undo_saves_what_was_changed_since(make: Make) -> None:
    """Work done after a restore is saved by the undo, like anything that a restore replaces."""
    world = make({b"a": (FILE, b"1")}, {b"a": (FILE, b"2")})
    world.store.restore(world.plan())
    (world.work / "a").write_text("3")
    undo = world.store.restore(world.store.undo_plan("restore", into=world.work))
    assert files(world) == {b"a": (FILE, b"2")}
    world.store.restore(world.store.undo_plan(undo.event, into=world.work))
    assert files(world) == {b"a": (FILE, b"3")}


def test_undo_keeps_files_that_were_put_into_a_restored_directory(make: Make) -> None:
    """A directory that the restore made stays when somebody has used it since."""
    world = make({b"d": {b"f": (FILE, b"1")}}, {})
    world.store.restore(world.plan())
    (world.work / "d/mine").write_text("mine")
    world.store.restore(world.store.undo_plan("restore", into=world.work))
    assert files(world) == {b"d": {b"mine": (FILE, b"mine")}}


def test_there_is_nothing_to_undo_before_a_restore(make: Make) -> None:
    """An error that says so; also for an event that is no restore."""
    world = make({}, {})
    with pytest.raises(NotFound, match="nothing to undo"):
        world.store.undo_plan("restore", into=world.work)
    (event,) = world.store.events(0, 1)
    with pytest.raises(NotFound, match="no restore"):
        world.store.undo_plan(str(event["event_id"]))


def test_any_restore_can_be_undone_by_its_event(make: Make) -> None:
    """An older one too: its files come back, whatever has been restored since."""
    world = make({b"a": (FILE, b"1")}, {b"a": (FILE, b"2")})
    first = world.store.restore(world.plan())
    world.store.restore(world.store.undo_plan("restore", into=world.work))
    world.store.restore(world.plan())
    world.store.restore(world.store.undo_plan(first.event, into=world.work))
    assert files(world) == {b"a": (FILE, b"2")}


def test_a_plan_is_a_value(make: Make) -> None:
    """Plans of one state are equal, and nothing is written for them."""
    world = make(NEW, OLD)
    packs = os.listdir(world.store.layout.directory(PACK_DIR))
    plans: list[RestorePlan] = [world.plan(), world.plan()]
    assert plans[0] == plans[1]
    assert os.listdir(world.store.layout.directory(PACK_DIR)) == packs
