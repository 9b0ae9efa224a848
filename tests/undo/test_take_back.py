"""The laws of undo and redo, over directories in memory (docs/undo.md)."""

from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from eventlog.blobs.ids import blob_id
from eventlog.blobs.tree import EXECUTABLE, FILE, SYMLINK
from eventlog.checkout.directory import State, same
from eventlog.undo.change import RecordedChange, joined
from eventlog.undo.merge import has_markers
from eventlog.undo.take_back import TakeBack

Files = dict[bytes, State]
CONTENTS: dict[bytes, bytes] = {}
PATHS = (b"a", b"b", b"c", b"d/e")


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
FILES = st.dictionaries(st.sampled_from(PATHS), STATES, max_size=4)


def step(
    files: Files, what: str, path: bytes, other: bytes, new: State, number: int
) -> RecordedChange | None:
    """Change a directory, and say how; None where the step is not possible."""
    old = files.get(path)
    if what == "write":
        if old == new:
            return None
        files[path] = new
        return RecordedChange(None if old is None else path, old, path, new, number)
    if old is None or (what == "rename" and other in files):
        return None
    del files[path]
    if what == "delete":
        return RecordedChange(path, old, None, None, number)
    files[other] = old
    return RecordedChange(path, old, other, old, number)


def turn(files: Files, steps: list[tuple[str, bytes, bytes, State]], since: int = 0) -> list[RecordedChange]:
    """The changes of one turn, as its events say them."""
    changes: list[RecordedChange] = []
    for number, (what, path, other, new) in enumerate(steps, since):
        change = step(files, what, path, other, new, number)
        if change is not None:
            changes = joined(changes, change)
    return [change for change in changes if not change.is_none]


def take_back(files: Files, changes: list[RecordedChange], **how: bool) -> TakeBack:
    work = TakeBack(
        state_at=files.get,
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
    made = dict(files)
    for path, new in work.writes().items():
        if new is None:
            made.pop(path, None)
        else:
            made[path] = new
    return made


def equal(a: Files, b: Files) -> bool:
    return a.keys() == b.keys() and all(same(a[path], b[path]) for path in a)


@settings(max_examples=150)
@given(FILES, st.lists(STEPS, max_size=6))
def test_undo_of_the_newest_gives_what_was_before(
    start: Files, steps: list[tuple[str, bytes, bytes, State]]
) -> None:
    """Newest: with nothing changed since, all paths stand as before the turn, and nothing is in conflict."""
    files = dict(start)
    work = take_back(files, turn(files, steps))

    assert work.conflicts == [] and work.missing == []
    assert equal(applied(files, work), start)


@settings(max_examples=150)
@given(FILES, st.lists(STEPS, max_size=5), st.lists(STEPS, max_size=4))
def test_undo_and_redo_give_the_same_bytes(
    start: Files,
    steps: list[tuple[str, bytes, bytes, State]],
    later: list[tuple[str, bytes, bytes, State]],
) -> None:
    """Identity: undo, with whatever came later and is in conflict, then redo: the very bytes and modes.

    Reach: no path but those of the turn is written. Planning twice gives the same.
    """
    files = dict(start)
    changes = turn(files, steps)
    turn(files, later, 100)
    work = take_back(files, changes)
    undone = applied(files, work)
    assert undone == applied(files, take_back(files, changes))
    reach = {path for change in changes for path in change.paths}
    assert {path for path in files.keys() | undone.keys() if files.get(path) != undone.get(path)} <= reach

    redo = []
    for path in reach:
        before, after = files.get(path), undone.get(path)
        if before != after:
            redo.append(
                RecordedChange(
                    None if before is None else path, before, None if after is None else path, after, 0
                )
            )
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
