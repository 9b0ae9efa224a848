"""Every crash of every small program in which the disk rots: no position is given twice.

Goal: I1, I2, I10, I12, I13 beside rot. Method: that of `test_crash_points.py`, with operations that destroy
the newest frame on the disk: a flipped bit in it, or a cut at its beginning or at the header. The oracle
knows the positions; afterwards nothing is there, or what stood there. Where a power cut took the note of
what was acknowledged too, a cut cannot be noticed, and only there the search looks away; rot it always finds.
"""

import struct
from itertools import product
from typing import Any

import pytest
from blake3 import blake3

from eventlog.base.errors import EventLogError
from eventlog.base.layout import Layout
from eventlog.log import acknowledged, journal
from eventlog.log.frame import HEADER_SIZE
from eventlog.log.journal import Journal
from eventlog.log.journal_reading import journal_numbers, scan_journal
from tests.conftest import STORE_ID
from tests.log.test_crash_points import (
    OPERATIONS,
    Explorer,
    JournalMaker,
    Oracle,
    World,
    _mutant,
    _plain,
)
from tests.simfs import SimFS

FLIPS = {"rot": 52, "rot of the head": 0, "rot of the length": 8, "rot of the end": -3}  # byte of the frame
CUTS = ("cut", "cut to the header")
BEFORE = ("append", "batch", "rotate", "die")
AFTER = ("append", "rotate", "die", "seal")


def _destroy(world: World, name: str) -> None:
    """What no process does: the bytes on the disk are others, or fewer, than were written."""
    if not (numbers := journal_numbers(world.files)):
        return
    path = world.layout.journal(numbers[-1])
    scan = scan_journal(world.fs, path, store_id=STORE_ID)
    if not scan.frames:
        return
    last = scan.frames[-1]
    inode: Any = world.fs._find(path)
    for data in (inode.data, inode.durable_data):
        if name == "cut":
            del data[last.offset :]
        elif name in CUTS:
            del data[HEADER_SIZE:]
        else:
            at = range(last.offset, last.offset + last.size)[FLIPS[name]]
            if at < len(data):
                data[at] ^= 0x04
    if name in CUTS:  # what was not synced is gone as well
        world.fs.pending = [effect for effect in world.fs.pending if effect.inode is not inode]
    world.fs.change_count += 1
    gone = range(scan.frames[0].base if name == "cut to the header" else last.base, last.end)
    world.oracle = world.oracle.without(gone)


def _operation(name: str) -> Any:
    return lambda world: _destroy(world, name)


class RotExplorer(Explorer):
    """Passes over machines on which nothing is left to tell of a cut."""

    def knows(self, label: str, machine: SimFS, layout: Layout, oracle: Oracle) -> bool:
        was_cut = any(f"'{name}'" in label for name in CUTS)
        return not was_cut or _noted(machine, layout) > max(oracle.rotten, default=-1)


def _noted(machine: SimFS, layout: Layout) -> int:
    """What the note says, read as its page tells."""
    data = machine.tree().get(layout.acknowledged) or b""
    slots = [data[at : at + 64] for at in range(0, len(data), 64)]
    whole = [slot for slot in slots if blake3(slot[:48]).digest(16) == slot[48:]]
    return max((struct.unpack_from("<Q", slot, 16)[0] for slot in whole), default=0)


@pytest.fixture(autouse=True)
def destroying(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (*FLIPS, *CUTS):
        monkeypatch.setitem(OPERATIONS, name, _operation(name))


def explore(explorer: Explorer, names: "tuple[str, ...]", *, recovery: bool = False) -> None:
    """Programs that destroy something: at their end, and with one more operation after it."""
    for before, name in product(BEFORE, names):
        for more in ((), *((after,) for after in AFTER)):
            explorer.explore(("append", before, name, *more), recovery=recovery)


@pytest.mark.parametrize(
    ("name", "one_process"),
    [*((name, False) for name in (*FLIPS, *CUTS)), ("rot", True), ("cut", True)],
)
def test_every_crash_beside_rot(name: str, one_process: bool) -> None:
    """I1, I2, I13: whatever ends a program that destroyed the newest frame, its positions are its own."""
    explorer = RotExplorer(one_process=one_process)
    explore(explorer, (name,))
    print(f"{name}: {explorer.checked} recoveries")
    assert explorer.checked > 200


@pytest.mark.parametrize("name", ["rot", "cut"])
def test_every_crash_of_a_recovery_beside_rot(name: str, hunt_minutes: float) -> None:
    """I12, I13: the recovery from rot may be ended everywhere, and is made again to the same end.

    In a hunt, the recovery from every end of an append and of a seal after it too.
    """
    explorer = RotExplorer()
    for more in ((), ("append",), ("seal",)) if hunt_minutes else ((),):
        explorer.explore(("batch", name, *more), recovery=True)
    print(f"{name}: {explorer.checked} recoveries")
    assert explorer.checked > 200


# Mutants: each takes one step away, and the search must notice.


class _TakesRotForATornTail(Journal):
    """What no frame verifies is cut, as it was before there was a shape."""

    def _recover(self, active: Any, seen: int) -> None:
        scan = journal.scan_journal(self._fs, active.path, store_id=self._store_id)
        if scan.torn is not None:
            self._quarantine(active, *scan.torn, is_known=False)
            self._cut(active.fd, scan.torn[0])
        active.position, active.digest = scan.end, scan.digest
        active.size = active.file_size = scan.torn[0] if scan.torn else scan.size


class _CutsWhatItCloses(Journal):
    """The journal is closed, and the bad frame leaves it: who comes after a crash sees neither."""

    def _recover(self, active: Any, seen: int) -> None:
        scan = journal.scan_journal(self._fs, active.path, store_id=self._store_id)
        super()._recover(active, seen)
        if scan.torn is not None and active.position > scan.end:
            self._quarantine(active, *scan.torn, is_known=False)
            self._cut(active.fd, scan.torn[0])


class _Unread(acknowledged.Note):
    def read(self) -> None:
        return None


class _NotesTooEarly(SimFS):
    """The note is written although the sync did nothing."""

    def fdatasync(self, fd: int) -> None:
        pass


@pytest.mark.parametrize(
    "make",
    [_mutant(_TakesRotForATornTail), _mutant(_CutsWhatItCloses)],
    ids=["rot is cut", "what is closed is cut"],
)
def test_a_missing_step_is_noticed(make: JournalMaker) -> None:
    """Without any one step the search goes red: the search can fail."""
    program = ("append", "rot", "append")
    explorer = RotExplorer(make)
    with pytest.raises((AssertionError, EventLogError)):
        for size in range(1, len(program) + 1):
            explorer.explore(program[:size], recovery=True)


def test_a_note_that_is_not_asked_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """A cut is found by the note alone."""
    monkeypatch.setattr(journal, "Note", _Unread)
    monkeypatch.setattr(journal, "read_note", lambda *_: None)
    with pytest.raises(AssertionError):
        RotExplorer(_plain).explore(("append", "cut"), recovery=False)


def test_a_note_that_is_ahead_of_the_disk_is_noticed() -> None:
    """A note that is written before its event is durable takes positions that nobody was given."""
    with pytest.raises(AssertionError):
        explorer = RotExplorer(_plain, _NotesTooEarly)
        for program in (("append",), ("append", "append")):
            explorer.explore(program, recovery=False)
