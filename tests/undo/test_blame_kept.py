"""What `locus blame` keeps of a file: gone on from where that is exact, and never another answer."""

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eventlog import Recorder, Store
from eventlog.base.errors import EventLogError, NotFound, Refused
from eventlog.undo.blame import BlamedLine, blame
from eventlog.undo.blame_cache import kept_blame
from tests.conftest import examples

LINES = [b"line %d\n" % number for number in range(6)]
A, B, OTHER = "a.py", "b.py", "other.py"


class Project:
    """A directory with a store, whose files a recorder changes; a person changes them too."""

    def __init__(self, root: Path) -> None:
        root.mkdir()
        self.root = root
        self.store = Store.init(root / ".locus")
        self.recorder = Recorder(self.store, agent="probe")
        self.number = 0
        for path in (A, OTHER):
            (root / path).write_bytes(b"".join(LINES))

    def read(self, path: str) -> bytes | None:
        try:
            return (self.root / path).read_bytes()
        except FileNotFoundError:
            return None

    def by_hand(self, path: str, data: bytes | None) -> None:
        if data is None:
            (self.root / path).unlink()
        else:
            (self.root / path).write_bytes(data)

    def turn(self, path: str, data: bytes | None, **columns: int) -> None:
        """A turn that changes one file."""
        self.number += 1
        with self.recorder.start_turn(f"Turn {self.number}") as turn:
            turn.file(path, before=self.read(path), after=data, **columns)
            self.by_hand(path, data)

    def rename(self, old: str, new: str) -> None:
        self.number += 1
        data = self.read(old)
        assert data is not None
        with self.recorder.start_turn(f"Turn {self.number}") as turn:
            turn.file(new, before=data, after=data, operation="rename", payload={"old_path": old})
            os.rename(self.root / old, self.root / new)

    def changed(self, path: str, at: int) -> bytes:
        """The file with another line there, and one more now and then."""
        lines = (self.read(path) or b"").splitlines(keepends=True) or [b""]
        at %= len(lines)
        lines[at : at + 1] = [b"new %d\n" % self.number] * (1 + self.number % 2)
        return b"".join(lines)


@pytest.fixture
def work(tmp_path: Path) -> Iterator[Project]:
    project = Project(tmp_path / "work")
    with project.store:
        yield project


def _answer(way: object, project: Project, path: str, **how: bool) -> "list[BlamedLine] | str":
    try:
        return way(project.store, path, project.read(path), **how)  # type: ignore[operator, no-any-return]
    except EventLogError as error:
        return str(error)


@pytest.fixture
def reads(work: Project, monkeypatch: pytest.MonkeyPatch) -> list[bytes]:
    """The contents that are read from the store, in order."""
    ids: list[bytes] = []
    get = work.store.blobs.get

    def noted(id: bytes) -> bytes:
        ids.append(id)
        return get(id)

    monkeypatch.setattr(work.store.blobs, "get", noted)
    return ids


def test_only_what_concerns_the_file_is_read_again(work: Project, reads: list[bytes]) -> None:
    """I22, P8: work on other files reads no version; one more version reads that one and the last before it,
    however many there are; what an undo or a deletion brings in is folded from the first version on."""

    def blamed() -> int:
        """How many contents a blame reads; its answer is that of a fold of all versions."""
        reads.clear()
        lines = kept_blame(work.store, A, work.read(A))
        count = len(reads)
        assert lines == blame(work.store, A, work.read(A))
        return count

    for number in range(9):
        work.turn(A, work.changed(A, number))
    assert blamed() >= 9 and blamed() == 0
    work.turn(OTHER, b"other\n")
    work.by_hand(OTHER, b"by hand\n")
    work.turn(OTHER, None)
    assert blamed() == 0 and blamed() == 0
    work.turn(A, work.changed(A, 1))
    assert blamed() == 2 and blamed() == 0
    work.by_hand(A, work.changed(A, 2))
    assert blamed() == 1  # the last version: what is there is another content
    work.turn(A, work.changed(A, 3))
    assert blamed() == 3  # and what the person wrote
    work.store.restore(work.store.undo_plan())
    assert blamed() >= 9 and blamed() == 0
    work.turn(A, None)
    work.turn(A, b"again\n")
    assert blamed() >= 1 and blamed() == 0


def test_a_version_that_happened_earlier_is_folded_in(work: Project) -> None:
    """I22: one that an import adds before those that were folded is no continuation of them."""
    work.turn(A, work.changed(A, 0))
    work.turn(A, work.changed(A, 1))
    kept_blame(work.store, A, work.read(A))
    with work.recorder.start_turn("Older") as turn:
        turn.file(A, before=b"old\n", after=b"".join(LINES), occurred_at=1_700_000_000_000_000)
    lines = kept_blame(work.store, A, work.read(A))
    assert lines == blame(work.store, A, work.read(A))
    oldest = lines[-1].origin.version
    assert oldest is not None and oldest.title == "Older"


def test_a_title_that_comes_later_is_in_the_answer(work: Project) -> None:
    """P7: what was kept of a turn while it ran is not what is stated of it later."""
    with work.recorder.start_turn("Ask") as turn:
        turn.file(A, before=work.read(A), after=work.changed(A, 0))
        work.by_hand(A, work.changed(A, 0))
        first = kept_blame(work.store, A, work.read(A))[0].origin.version
        turn.end(title="Done")
    lines = kept_blame(work.store, A, work.read(A))
    last = lines[0].origin.version
    assert first is not None and last is not None and (first.title, last.title) == ("Ask", "Done")
    assert lines == blame(work.store, A, work.read(A))


_STEPS = st.tuples(
    st.sampled_from(
        ("edit", "edit", "edit", "spaces", "early", "hand", "other", "undo", "redo", "delete", "rename",
         "blame", "blame")
    ),
    st.integers(0, 9),
)  # fmt: skip


@settings(max_examples=examples(6, 200), deadline=None)
@given(st.lists(_STEPS, min_size=3, max_size=9))
def test_what_is_kept_gives_the_answer_of_a_fold(
    tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[str, int]]
) -> None:
    """I22: after any versions, edits by hand, renames, deletions, undos, redos, work on other files and
    versions that happened earlier, with blames at any time between."""
    place = tmp_path_factory.mktemp("kept")
    work = Project(place / "work")
    with work.store:
        for kind, number in [*steps, ("blame", 0)]:
            path = A if work.read(A) is not None else B
            if kind == "blame":
                for name, spaces in ((A, False), (B, number > 4)):
                    kept = _answer(kept_blame, work, name, ignore_spaces=spaces)
                    assert kept == _answer(blame, work, name, ignore_spaces=spaces)
            else:
                _do(work, kind, path, number)
    shutil.rmtree(place)


def _do(work: Project, kind: str, path: str, number: int) -> None:
    work.number += 1
    data = work.changed(path, number)
    if kind == "other":
        work.turn(OTHER, b"%d\n" % work.number)
    elif kind == "hand":
        work.by_hand(path, data)
    elif kind in ("undo", "redo"):
        try:
            work.store.restore(work.store.undo_plan() if kind == "undo" else work.store.redo_plan())
        except (NotFound, Refused):
            pass  # nothing to take back, or a conflict
    elif kind == "delete" and work.read(path) is not None:
        work.turn(path, None)
    elif kind == "rename" and work.read(path) is not None:
        work.rename(path, B if path == A else A)
    elif kind == "early":
        work.turn(path, data, occurred_at=1_700_000_000_000_000 + number)
    elif kind == "spaces":
        work.turn(path, (work.read(path) or b"x\n").replace(b"line", b"  line"))
    else:
        work.turn(path, data)
