"""The laws of undo and redo, over directories in memory (docs/undo.md)."""

from collections.abc import Iterable
from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from eventlog.blobs.ids import blob_id
from eventlog.blobs.tree import DIRECTORY, EXECUTABLE, FILE, SYMLINK
from eventlog.checkout.directory import NO_ID, State, same
from eventlog.restore.wanted import ways
from eventlog.undo.change import RecordedChange, joined
from eventlog.undo.merge import has_markers
from eventlog.undo.plan import wanted_of
from eventlog.undo.take_back import TakeBack

Files = dict[bytes, State]
CONTENTS: dict[bytes, bytes] = {}
PATHS = (b"a", b"b", b"d", b"d/e", b"d/f/g", b"d/f")


def state(data: bytes, kind: bytes = FILE) -> State:
    CONTENTS[blob_id(data)] = data
    return State(kind, None, blob_id(data), len(data))


TEXTS = st.lists(st.sampled_from([b"1\n", b"2\n", b"3\n", b"4\n", b"5\n", b"\n"]), max_size=7).map(b"".join)
DATA = st.one_of(TEXTS, TEXTS, TEXTS, st.just(b"\0binary"))
STATES = st.builds(state, DATA, st.sampled_from([FILE, FILE, FILE, EXECUTABLE, SYMLINK]))
# A step: (what, path, another path, state).
STEPS = st.tuples(
    st.sampled_from(["write", "write", "write", "delete", "rename"]),
    st.sampled_from(PATHS),
    st.sampled_from(PATHS),
    STATES,
)
FILES = st.dictionaries(st.sampled_from(PATHS), STATES, max_size=5).map(
    lambda files: {p: f for p, f in files.items() if not any(low.startswith(p + b"/") for low in files)}
)


def state_at(files: Files, path: bytes) -> State | None:
    """What is at a path of a directory in memory: where a file is below it, a directory."""
    if any(file.startswith(path + b"/") for file in files):
        return State(DIRECTORY, None, NO_ID, 0)
    return files.get(path)


def names(files: Files, folder: bytes) -> dict[bytes, bool]:
    below = [file.removeprefix(folder + b"/") for file in files if file.startswith(folder + b"/")]
    return {name.partition(b"/")[0]: b"/" in name for name in below}


def without(files: Files, path: bytes, number: int) -> list[RecordedChange]:
    """Remove what is in the way of a path: a file above it, all files below it."""
    gone = [file for file in files if file.startswith(path + b"/") or path.startswith(file + b"/")]
    return [RecordedChange(file, files.pop(file), None, None, number) for file in sorted(gone)]


def step(files: Files, what: str, path: bytes, other: bytes, new: State, number: int) -> list[RecordedChange]:
    """Change a directory, and say how; not at all where the step is not possible."""
    old = files.get(path)
    if what == "write":
        if old == new:
            return []
        changes = without(files, path, number)
        files[path] = new
        return [*changes, RecordedChange(None if old is None else path, old, path, new, number)]
    if what == "delete" and old is None:
        return without(files, path, number) if state_at(files, path) is not None else []
    if old is None or (what == "rename" and other in files):
        return []
    del files[path]
    changes = without(files, other, number) if what == "rename" else []
    if what == "delete":
        return [RecordedChange(path, old, None, None, number)]
    files[other] = old
    return [*changes, RecordedChange(path, old, other, old, number)]


Step = tuple[str, bytes, bytes, State]


def turn(files: Files, steps: list[Step], since: int = 0, *, one_look: bool = False) -> list[RecordedChange]:
    """The changes of one turn, as its events say them: of each step, or as one capture of the end finds
    them."""
    changes: list[RecordedChange] = []
    start = dict(files)
    for number, (what, path, other, new) in enumerate(steps, since):
        for change in step(files, what, path, other, new, number):
            changes = joined(changes, change)
    if one_look:
        return between(start, files, sorted(start.keys() | files.keys()), since)
    return [change for change in changes if not change.is_none]


def between(old: Files, new: Files, paths: Iterable[bytes], since: int) -> list[RecordedChange]:
    """What differs at some paths of two directories, as a capture says it: only files have events."""
    return [
        RecordedChange(
            path if path in old else None, old.get(path), path if path in new else None, new.get(path), n
        )
        for n, path in enumerate(paths, since)
        if old.get(path) != new.get(path)
    ]


def take_back(files: Files, changes: list[RecordedChange], **how: bool) -> TakeBack:
    work = TakeBack(
        state_at=lambda path: state_at(files, path),
        names=lambda path: names(files, path),
        read=lambda path: CONTENTS[files[path].id],
        content=lambda id: CONTENTS[id],
        moved=lambda _path, _since: None,
        name="TURN",
        **how,
    )
    work.take_back(changes)
    CONTENTS.update(work.made)
    return work


def applied(files: Files, work: TakeBack) -> Files:
    """The directory after it: a plan has one step for a path, and a file is never above another."""
    wanted = wanted_of(work.writes(), lambda path: state_at(files, path))
    assert wanted.entries.keys().isdisjoint(wanted.gone)
    made = {path: file for path, file in files.items() if path not in wanted.gone}
    for path, new in wanted.entries.items():
        made.pop(path, None)
        if new.kind != DIRECTORY:
            made[path] = new
    assert not any(low.startswith(high + b"/") for low in made for high in made)
    return made


def equal(a: Files, b: Files) -> bool:
    return a.keys() == b.keys() and all(same(a[path], b[path]) for path in a)


@settings(max_examples=150)
@given(FILES, st.lists(STEPS, max_size=6), st.booleans())
def test_undo_of_the_newest_gives_what_was_before(start: Files, steps: list[Step], one_look: bool) -> None:
    """P1, newest: with nothing changed since, all paths are as before the turn, and nothing is in conflict,
    also where files, links and directories took each other's place."""
    files = dict(start)
    work = take_back(files, turn(files, steps, one_look=one_look))

    assert work.conflicts == [] and work.missing == []
    assert equal(applied(files, work), start)


@settings(max_examples=150)
@given(FILES, st.lists(STEPS, max_size=4), st.lists(STEPS, max_size=4))
def test_undo_of_two_turns_gives_what_was_before_both(
    start: Files, first: list[Step], second: list[Step]
) -> None:
    """Newest: two turns that followed each other are taken back as one."""
    files = dict(start)
    changes = [*turn(files, first), *turn(files, second, 100)]
    work = take_back(files, changes)

    assert work.conflicts == [] and work.missing == []
    assert equal(applied(files, work), start)


@settings(max_examples=150)
@given(FILES, st.lists(STEPS, max_size=5), st.lists(STEPS, max_size=4), st.booleans())
def test_undo_and_redo_give_the_same_bytes(
    start: Files, steps: list[Step], later: list[Step], one_look: bool
) -> None:
    """Identity: undo, with whatever came later and is in conflict, then redo: the very bytes and modes.

    Reach: no path but those of the turn is written. Planning twice gives the same.
    """
    files = dict(start)
    changes = turn(files, steps, one_look=one_look)
    turn(files, later, 100)
    work = take_back(files, changes)
    undone = applied(files, work)
    assert undone == applied(files, take_back(files, changes))
    reach = {path for change in changes for path in change.paths}
    assert {path for path in files.keys() | undone.keys() if files.get(path) != undone.get(path)} <= reach

    steps_of = sorted({above for path in reach for above in ways(path)})
    redo = [
        RecordedChange(None if old is None else path, old, None if new is None else path, new, 0)
        for path in steps_of
        if not same(old := state_at(files, path), new := state_at(undone, path))
    ]
    again = take_back(undone, redo)
    assert again.conflicts == [] and again.missing == []
    assert applied(undone, again) == files


@settings(max_examples=200)
@given(TEXTS, TEXTS, TEXTS)
def test_what_came_later_stays(before: bytes, after: bytes, now: bytes) -> None:
    """Keeping: a line that came later and is in no conflict is there afterwards; else nothing is written."""
    files = {b"a": state(now)}
    change = RecordedChange(b"a", state(before), b"a", state(after), 0)
    work = take_back(files, [change])
    result = applied(files, work)
    if work.conflicts:
        assert result == files
        marked = take_back(files, [change], markers=True)
        assert marked.conflicts or has_markers(CONTENTS[applied(files, marked)[b"a"].id])
        return
    done = CONTENTS[result[b"a"].id].splitlines()
    added = [line for line in now.splitlines() if line not in before.splitlines() + after.splitlines()]
    assert all(line in done for line in added)


def test_what_somebody_went_on_with_is_never_deleted() -> None:
    """P1: A file that the turn added and somebody changed is a conflict; so is one where it deleted"""
    added = RecordedChange(None, None, b"a", state(b"1\n"), 0)
    deleted = RecordedChange(b"b", state(b"1\n"), None, None, 1)
    files = {b"a": state(b"1\n2\n"), b"b": state(b"3\n")}
    work = take_back(files, [added, deleted])

    assert {conflict.path: conflict.why for conflict in work.conflicts} == {
        b"a": "it was added, and changed since",
        b"b": "it was deleted, and another one is there now",
    }
    assert work.writes() == {}


def test_the_executable_bit_is_merged_by_itself() -> None:
    """A turn made a file executable, somebody changed its text: the bit goes, the text stays."""
    change = RecordedChange(b"a", state(b"1\n"), b"a", state(b"1\n", EXECUTABLE), 0)
    files = {b"a": state(b"1\n2\n", EXECUTABLE)}

    assert applied(files, take_back(files, [change])) == {b"a": state(b"1\n2\n")}


def test_a_renamed_file_goes_back_with_what_came_later() -> None:
    """A turn renamed and changed a file; a line that came later is in it under its old name."""
    before, after = state(b"1\n2\n3\n4\n5\n"), state(b"1\nx\n3\n4\n5\n")
    change = RecordedChange(b"a", before, b"b", after, 0)
    files = {b"b": state(b"1\nx\n3\n4\nlater\n")}

    assert applied(files, take_back(files, [change])) == {b"a": state(b"1\n2\n3\n4\nlater\n")}
    files[b"a"] = state(b"other\n")
    (conflict,) = take_back(files, [change]).conflicts
    assert conflict.why == "it was renamed, and something else is at a now"


def test_what_is_not_known_is_left_alone() -> None:
    """P1: A content that was not recorded is listed, and never taken for a deletion."""
    change = RecordedChange(
        b"a", None, b"a", state(b"1\n"), 0, unknown="before this, its content was not recorded"
    )
    files = {b"a": state(b"1\n")}
    work = take_back(files, [change, replace(change, position=1, unknown=None, before=state(b"0\n"))])

    assert work.missing == [(b"a", "before this, its content was not recorded")]
    assert work.writes() == {}


def test_a_change_between_two_of_a_turn_keeps_them_apart() -> None:
    """P1: A person's edit between two of the turn's is not taken back with them."""
    one, two, three = state(b"1\n.\n.\n"), state(b"2\n.\n.\n"), state(b"2\n.\nmine\n")
    four = state(b"4\n.\nmine\n")
    changes = joined([RecordedChange(b"a", one, b"a", two, 0)], RecordedChange(b"a", three, b"a", four, 2))

    assert len(changes) == 2
    assert applied({b"a": four}, take_back({b"a": four}, changes)) == {b"a": state(b"1\n.\nmine\n")}
