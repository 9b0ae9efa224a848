"""A position is never given twice, whatever became of the newest journal's end (docs/positions.md)."""

import os
import struct
from collections.abc import Callable, Iterator

import pytest
from blake3 import blake3
from hypothesis import given
from hypothesis import strategies as st

from eventlog.base.errors import Corruption, EventLogError
from eventlog.base.fs import FileSystem, read_file
from eventlog.base.layout import Layout, StoreFiles
from eventlog.log.acknowledged import SLOT_SIZE, SLOTS, read_note
from eventlog.log.frame import HEADER_SIZE, claimed_end, encode_frame
from eventlog.log.journal import Journal
from eventlog.log.journal_reading import journal_numbers, scan_journal
from tests.conftest import files_of
from tests.log.test_journal import a_journal, lines_of, overwrite, quarantined
from tests.simfs import Call, Fault, SimFS, keep_all, keep_none, sim_store


def three_events() -> tuple[SimFS, Layout]:
    """A log of a batch of two, and one event after it."""
    fs, layout = sim_store()
    journal = a_journal(fs, layout)
    journal.append([b"a", b"b"])
    journal.append([b"c" * 20])
    return fs, layout


def cut(fs: FileSystem, path: str, size: int) -> None:
    fd = fs.open(path, os.O_RDWR)
    fs.truncate(fd, size)
    fs.close(fd)


def flip(fs: FileSystem, path: str, at: int, bits: int) -> None:
    overwrite(fs, path, at, bytes([read_file(fs, path)[at] ^ bits]))


def last_frame(fs: FileSystem, layout: Layout) -> tuple[int, int]:
    """Where the last frame of journal 1 begins, and where it ends."""
    frame = scan_journal(fs, layout.journal(1), store_id=a_journal(fs, layout)._store_id).frames[-1]
    return frame.offset, frame.offset + frame.size


# -- rot of the last frame ----------------------------------------------------------------------------

THEN: dict[str, Callable[[SimFS], SimFS]] = {
    "in this boot": lambda fs: fs,
    "after a power cut that keeps all": lambda fs: fs.crash(keep_all),
    "after a power cut that loses the note": lambda fs: fs.crash(keep_none),
}


@pytest.mark.parametrize("then", THEN)
def test_no_flipped_bit_of_the_last_frame_gives_its_position_away(then: str) -> None:
    """I13: the frame stays where it is, the log goes on after its position, with the note and without."""
    fs, layout = three_events()
    begin, end = last_frame(fs, layout)
    for at in range(begin, end):
        for bit in range(8):
            machine = fs.copy()
            flip(machine, layout.journal(1), at, 1 << bit)
            bytes_before = read_file(machine, layout.journal(1))[:end]
            machine = _durable(machine, layout)
            machine = THEN[then](machine)
            journal = a_journal(machine, layout)
            expected = journal.next_position()
            position = journal.append([b"new"])
            assert position == expected >= 3, (at, bit)
            assert read_file(machine, layout.journal(1))[:end] == bytes_before, (at, bit)
            assert lines_of(machine, layout) == [(0, b"a"), (1, b"b"), (position, b"new")]
            assert journal_numbers(files_of(machine, layout)) == [1, 2]


def _durable(fs: SimFS, layout: Layout) -> SimFS:
    """The journal's bytes are on the disk, the note may not be."""
    fd = fs.open(layout.journal(1), os.O_RDWR)
    fs.fdatasync(fd)
    fs.close(fd)
    return fs


def test_a_kept_descriptor_does_not_give_away_what_another_wrote() -> None:
    """I13: rot of a frame that another process wrote since is met by who knows an older end."""
    fs, layout = sim_store()
    kept = a_journal(fs, layout)
    kept.append([b"a"])
    a_journal(fs, layout).append([b"b", b"c"])
    begin, end = last_frame(fs, layout)
    overwrite(fs, layout.journal(1), begin, os.urandom(end - begin - 1) + b"x")

    assert kept.append([b"d"]) == 3
    assert lines_of(fs, layout) == [(0, b"a"), (3, b"d")]


def test_rot_is_met_once_and_again() -> None:
    """I12: a recovery that could not make the next journal is made again, to the same end."""
    fs, layout = three_events()
    begin, _ = last_frame(fs, layout)
    flip(fs, layout.journal(1), begin + 50, 4)
    fs.fault = lambda call: Fault(28) if call.name == "link" else None
    for _ in range(3):
        with pytest.raises(EventLogError):
            a_journal(fs, layout).append([b"new"])
    fs.fault = None

    assert a_journal(fs, layout).append([b"new"]) == 3
    assert quarantined(fs, layout) == {}


def test_an_erased_sector_of_a_large_batch_costs_its_positions_and_no_other() -> None:
    """I13: zeros inside of the last frame hide lines; the head says how many there were."""
    fs, layout = sim_store()
    journal = a_journal(fs, layout)
    journal.append([b"line %d" % n for n in range(900)])
    fs.unlink(layout.acknowledged)
    overwrite(fs, layout.journal(1), 4096, bytes(2048))

    assert a_journal(fs, layout).append([b"new"]) == 900


# -- what is cut ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("kept", [True, False], ids=["kept descriptor", "new process"])
@pytest.mark.parametrize("where", ["the last frame", "the header", "inside of a frame"])
def test_a_cut_at_the_end_of_a_frame_is_noticed(where: str, kept: bool) -> None:
    """I13: what was acknowledged and is not there any more leaves a gap, not room for other events."""
    fs, layout = sim_store()
    journal = a_journal(fs, layout)
    journal.append([b"a", b"b"])
    journal.append([b"c"])
    begin, _ = last_frame(fs, layout)
    cut(fs, layout.journal(1), {"the header": HEADER_SIZE, "the last frame": begin}.get(where, begin + 30))
    journal = journal if kept else a_journal(fs, layout)

    assert journal.append([b"new"]) == 3
    left = [] if where == "the header" else [(0, b"a"), (1, b"b")]
    assert lines_of(fs, layout) == [*left, (3, b"new")]


def test_a_kept_descriptor_notices_a_cut_without_a_note() -> None:
    """I13: a process knows what it has seen, also where nothing could be noted."""
    fs, layout = sim_store()
    journal = a_journal(fs, layout)
    for text in (b"a", b"b"):
        journal.append([text])
    fs.unlink(layout.acknowledged)
    journal.close()
    assert journal.rotate() and journal.append([b"c"]) == 2
    overwrite(fs, layout.acknowledged, 0, bytes(SLOT_SIZE * SLOTS))
    fd = fs.open(layout.journal(2), os.O_RDWR)
    fs.truncate(fd, HEADER_SIZE)
    fs.close(fd)

    assert journal.append([b"new"]) == 3


def test_a_newest_journal_that_was_removed_is_noticed() -> None:
    """I13: the one before it is not taken for the newest; alone, its loss stops the writer."""
    fs, layout = three_events()
    journal = a_journal(fs, layout)
    journal.rotate()
    journal.append([b"d"])
    fs.unlink(layout.journal(2))

    assert a_journal(fs, layout).next_position() == 4
    assert a_journal(fs, layout).append([b"new"]) == 4
    for number in journal_numbers(files_of(fs, layout)):
        fs.unlink(layout.journal(number))
    for ask in (lambda j: j.next_position(), lambda j: j.append([b"x"])):
        with pytest.raises(Corruption, match="no journal"):
            ask(a_journal(fs, layout))


def test_an_append_that_a_kill_cut_short_costs_no_position() -> None:
    """I2: a write that never was whole leaves no gap, wherever it was cut."""
    fs, layout = three_events()
    begin, end = last_frame(fs, layout)
    before = fs.copy()
    for size in range(1, end - begin):
        fs = before.copy()
        data = read_file(fs, layout.journal(1))[begin : begin + size]
        key = scan_journal(fs, layout.journal(1), store_id=a_journal(fs, layout)._store_id).header.key
        frame = encode_frame([b"d" * 20], 3, 1, bytes(16), key, end)
        overwrite(fs, layout.journal(1), end, frame[: len(data)])
        assert a_journal(fs, layout).append([b"new"]) == 3, size
        assert journal_numbers(files_of(fs, layout)) == [1], size


# -- the note -------------------------------------------------------------------------------------------


def note_of(fs: FileSystem, layout: Layout) -> list[bytes]:
    data = read_file(fs, layout.acknowledged)
    return [data[at : at + SLOT_SIZE] for at in range(0, len(data), SLOT_SIZE)]


def test_the_note_is_as_its_table_says() -> None:
    """I13, positions.md: magic, version, journal, position, two inodes, digest; written after the sync."""
    fs, layout = sim_store()
    order: list[str] = []
    fs.before = lambda call: order.append(call.name)
    a_journal(fs, layout).append([b"a", b"b"])
    fs.before = None
    slot = note_of(fs, layout)[2]
    fields = struct.unpack("<4sHHQQQQQ", slot[:48])

    inodes = fs.stat(layout.acknowledged).st_ino, fs.stat(layout.journal(1)).st_ino
    assert fields == (b"\x89EVA", 1, 0, 1, 2, *inodes, 0)
    assert slot[48:] == blake3(slot[:48]).digest(16)
    assert order[-2:] == ["fdatasync", "pwrite"]


def test_a_note_is_never_ahead_of_the_disk() -> None:
    """I1: whatever a power cut keeps of it, what it says was acknowledged is on the disk."""
    fs, layout = sim_store()
    journal = a_journal(fs, layout)
    moments: list[SimFS] = []
    fs.before = lambda call: moments.append(fs.copy())
    for text in (b"a", b"b", b"c"):
        journal.append([text])

    for moment in moments:
        after = moment.crash(keep_all)
        lost_data = moment.crash(lambda _, effect: b"\x89EVA" in bytes(effect.data) or bool(effect.names))
        for machine in (after, lost_data):
            known = read_note(
                files_of(machine, layout),
                max(journal_numbers(files_of(machine, layout)), default=0),
            )
            assert (known or 0) <= len(lines_of(machine, layout))


def test_a_late_writer_does_not_take_back_what_another_noted() -> None:
    """I13, positions.md: processes finish out of order; the note says the highest."""
    fs, layout = sim_store()
    one, two = a_journal(fs, layout), a_journal(fs, layout)
    one.append([b"a"])

    def overtake(call: Call) -> None:
        if call.name == "fdatasync":
            fs.before = None
            two.append([b"c"])
            two.append([b"d"])

    fs.before = overtake
    one.append([b"b"])

    assert read_note(files_of(fs, layout), 1) == 4


def test_a_torn_slot_says_nothing() -> None:
    """I11: a slot of which some bytes came to the disk is absent; the others count."""
    fs, layout = three_events()
    slot = 3 % SLOTS * SLOT_SIZE
    flip(fs, layout.acknowledged, slot + 17, 1)

    assert read_note(files_of(fs, layout), 1) == 2


def damaged_notes() -> Iterator[tuple[str, Callable[[SimFS, Layout], object]]]:
    yield "missing", lambda fs, layout: fs.unlink(layout.acknowledged)
    yield "empty", lambda fs, layout: cut(fs, layout.acknowledged, 0)
    yield "short", lambda fs, layout: cut(fs, layout.acknowledged, SLOT_SIZE * SLOTS // 2 - 1)
    yield "noise", lambda fs, layout: overwrite(fs, layout.acknowledged, 0, b"\x89EVA" * 128)
    yield "of another version", lambda fs, layout: _restamp(fs, layout, 4, b"\2")
    yield "of another file", lambda fs, layout: _restamp(fs, layout, 24, b"\xff\xff")
    yield "of another journal's file", lambda fs, layout: _restamp(fs, layout, 32, b"\xff\xff")


def _restamp(fs: SimFS, layout: Layout, at: int, data: bytes) -> None:
    """Slots with right digests that say something else."""
    slots = []
    for slot in note_of(fs, layout):
        body = bytearray(slot[:48])
        body[at : at + len(data)] = data
        slots.append(bytes(body) + blake3(bytes(body)).digest(16) if any(slot) else slot)
    overwrite(fs, layout.acknowledged, 0, b"".join(slots))


@pytest.mark.parametrize(("how", "damage"), list(damaged_notes()), ids=lambda value: str(value)[:24])
def test_a_note_that_says_nothing_stops_nobody(how: str, damage: Callable[[SimFS, Layout], object]) -> None:
    """I22: the log goes on, the note is made again; only a cut cannot be noticed meanwhile."""
    fs, layout = three_events()
    damage(fs, layout)
    begin, _ = last_frame(fs, layout)
    cut(fs, layout.journal(1), begin)

    assert a_journal(fs, layout).append([b"new"]) == 2, how
    assert read_note(files_of(fs, layout), 1) == 3


@pytest.mark.parametrize("name", ["open", "pwrite", "fstat", "pread"])
def test_a_note_that_cannot_be_kept_fails_no_append(name: str) -> None:
    """I1: what is durable is acknowledged, whatever the disk says to the note."""
    fs, layout = sim_store()
    a_journal(fs, layout).append([b"a"])
    fds: list[object] = []

    def refuse(call: Call) -> Fault | None:
        if call.name == "open" and call.args[0] == layout.acknowledged:
            fds.append(fs._fd_count + 1)
            return Fault(28) if name == "open" else None
        return Fault(28) if call.name == name and call.args[0] in fds else None

    fs.fault = refuse
    journal = a_journal(fs, layout)
    assert [journal.append([b"b"]), journal.append([b"c"])] == [1, 2]


def test_a_copy_is_not_judged_by_a_note_of_the_original(tmp_path: object) -> None:
    """positions.md: a copy that caught the note later than the journals is a prefix of the log, and sound."""
    fs, layout = three_events()
    begin, _ = last_frame(fs, layout)
    journal = read_file(fs, layout.journal(1))[:begin]
    note = read_file(fs, layout.acknowledged)
    other, copy = sim_store(SimFS(seed=5))
    other.mkdir("/spacer")  # inodes of another disk
    for path, data in ((copy.acknowledged, note), (copy.journal(1), journal)):
        fd = other.open(path, os.O_RDWR | os.O_CREAT)
        other.pwrite(fd, data, 0)
        other.close(fd)

    assert a_journal(other, copy).next_position() == 2
    assert Journal(StoreFiles(other, copy, a_journal(fs, layout)._store_id)).append([b"new"]) == 2


# -- what has the shape of a frame ------------------------------------------------------------------------

KEY = b"k" * 32
batches = st.lists(
    st.lists(st.binary(max_size=40).map(lambda b: b.replace(b"\n", b"")), min_size=1, max_size=5),
    min_size=1,
    max_size=4,
)


def stretch(lines: list[list[bytes]]) -> tuple[bytes, list[int], int]:
    """Frames one after the other from position 7 on, where each begins, and where the positions end."""
    data, starts, position = b"", [], 7
    for some in lines:
        starts.append(len(data))
        data += encode_frame(some, position, 1, bytes(16), KEY, len(data))
        position += len(some)
    return data, starts, position


@given(batches, st.data())
def test_a_changed_byte_leaves_every_position_claimed(lines: list[list[bytes]], data: st.DataObject) -> None:
    """I13: of frames with wrong digests, and a wrong byte anywhere, no position is given again."""
    whole, starts, end = stretch(lines)
    changed = bytearray(whole)
    for begin in starts:
        changed[begin + 32 : begin + 48] = bytes(16)
    changed[data.draw(st.integers(0, len(whole) - 1))] ^= data.draw(st.integers(0, 255))

    assert end <= claimed_end(bytes(changed), 0, 7) <= end + len(whole)


@given(batches, st.data())
def test_a_cut_write_claims_nothing(lines: list[list[bytes]], data: st.DataObject) -> None:
    """I2: of a frame that is not whole the positions are free; those before it stay claimed."""
    whole, starts, _ = stretch(lines)
    size = data.draw(st.integers(starts[-1], len(whole) - 1))
    claimed = claimed_end(whole[:size], 0, 7)

    assert claimed == 7 + sum(map(len, lines[:-1]))


def test_frames_are_found_by_their_ends() -> None:
    """I13: frames one after the other of which no beginning is right are found by length and trailer."""
    whole, starts, end = stretch([[b"a", b"b"], [b"c"], [b"d", b"e", b"f"]])
    changed = bytearray(whole)
    for begin in starts:
        changed[begin] ^= 1

    assert claimed_end(bytes(changed), 0, 7) == end == 13


def test_a_shape_needs_something_at_its_end() -> None:
    """I2: a cut write with a bit that flipped in the room after it is no frame."""
    frame = encode_frame([b"x" * 50], 7, 1, bytes(16), KEY, 0)

    assert claimed_end(frame[:-30] + bytes(200) + b"\1", 0, 7) == 7


@given(st.binary(max_size=400), st.integers(0, 2**62))
def test_noise_claims_no_more_than_it_can_hold(noise: bytes, position: int) -> None:
    """I11: bytes that somebody made take no more positions than their number."""
    count, size = (1).to_bytes(2, "little"), len(noise).to_bytes(4, "little")
    base = (2**60).to_bytes(8, "little")
    framed = b"\x89EV1\1\0" + count + size + bytes(4) + base + bytes(24) + noise
    framed += bytes(-len(noise) % 8 + 24)
    for data in (noise, b"\x89EV1" + noise, noise + b"1VE\x89", framed):
        assert position <= claimed_end(data, 0, position) <= position + len(data)
