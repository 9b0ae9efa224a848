"""Room: the zeros at a journal's end, so that most syncs write data alone (docs/design.md §4.3)."""

import errno
import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eventlog.base.errors import NotDurable
from eventlog.base.fs import REAL, FileSystem, read_file
from eventlog.base.layout import QUARANTINE_DIR, Layout
from eventlog.log.frame import HEADER_SIZE, used_length
from eventlog.log.journal import Journal
from eventlog.log.journal_reading import end_of_journal, scan_journal
from tests.conftest import STORE_ID, files_of
from tests.simfs import SimFS, fail_nth, sim_store

LINE = b"x" * 400
BLOCK = 4096


def a_journal(fs: FileSystem, layout: Layout) -> Journal:
    return Journal(files_of(fs, layout))


def frames_of(fs: FileSystem, layout: Layout) -> list[list[bytes]]:
    return [f.lines for f in scan_journal(fs, layout.journal(1), store_id=STORE_ID, number=1).frames]


def blank(fs: SimFS, path: str, offset: int, size: int) -> None:
    fd = fs.open(path, os.O_RDWR)
    fs.pwrite(fd, bytes(size), offset)
    fs.close(fd)


@given(st.binary(max_size=300), st.integers(0, 9000))
def test_the_used_length_ends_with_the_last_byte_that_is_not_zero(data: bytes, zeros: int) -> None:
    """§4.3: zeros inside belong to it, zeros after do not."""
    assert used_length(data + bytes(zeros)) == len(data.rstrip(b"\0"))
    assert used_length(data + bytes(zeros) + b"\1") == len(data) + zeros + 1


def test_most_appends_leave_the_size_of_the_file(layout: Layout) -> None:
    """§4.3: of 500 single events on a real disk less than one in twenty makes the file grow."""
    journal = a_journal(REAL, layout)
    sizes = []
    for _ in range(500):
        journal.append([LINE])
        sizes.append(os.path.getsize(layout.journal(1)))
    journal.close()

    assert len(set(sizes)) < 25
    assert os.path.getsize(layout.journal(1)) - end_of_journal(REAL, layout.journal(1)) <= 256 * 1024
    assert frames_of(REAL, layout) == [[LINE]] * 500


def test_a_large_batch_brings_no_room() -> None:
    """§4.3: who writes much at a time writes nothing in vain."""
    fs, layout = sim_store()
    a_journal(fs, layout).append([LINE] * 100)

    assert fs.stat(layout.journal(1)).st_size == end_of_journal(fs, layout.journal(1))


def test_processes_take_turns_in_one_room() -> None:
    """I2: a writer that knows an older end finds every frame that others have put after it, however many."""
    fs, layout = sim_store()
    one, two = a_journal(fs, layout), a_journal(fs, layout)
    sent = []
    for turn in range(60):
        for _ in range(turn % 9):
            sent.append(two.append([LINE]))
        sent.append(one.append([b"%d" % turn]))
        sent.append(a_journal(fs, layout).append([b"new"]))

    assert sent == list(range(len(sent)))
    assert len(frames_of(fs, layout)) == len(sent)


@pytest.mark.parametrize("fresh", [True, False], ids=["new process", "kept descriptor"])
def test_a_disk_without_place_for_room_takes_the_event(fresh: bool) -> None:
    """I35: the frame is what counts; what cannot be reserved is not."""
    fs, layout = sim_store()
    journal = a_journal(fs, layout)
    for _ in range(20):  # until the next frame does not fit
        journal.append([LINE])
        if fs.stat(layout.journal(1)).st_size - end_of_journal(fs, layout.journal(1)) < len(LINE):
            break
    size = fs.stat(layout.journal(1)).st_size
    journal = a_journal(fs, layout) if fresh else journal
    fs.fault = fail_nth(0, errno.ENOSPC, name="pwrite")
    before = len(frames_of(fs, layout))

    assert journal.append([LINE]) == before
    fs.fault = None
    assert size < fs.stat(layout.journal(1)).st_size == end_of_journal(fs, layout.journal(1))
    assert len(frames_of(fs, layout)) == before + 1
    assert a_journal(fs, layout).append([LINE]) == before + 1


def test_a_failed_write_inside_the_room_is_taken_back() -> None:
    """I3: what a write that failed left in the room is gone before the next frame is there."""
    fs, layout = sim_store()
    journal = a_journal(fs, layout)
    journal.append([LINE])
    end = end_of_journal(fs, layout.journal(1))
    fs.fault = fail_nth(0, errno.EIO, name="pwrite")
    with pytest.raises(NotDurable):
        journal.append([b"lost"])
    fs.fault = None

    assert end_of_journal(fs, layout.journal(1)) == end
    assert [journal.append([b"b"]), a_journal(fs, layout).append([b"c"])] == [1, 2]


def test_a_blank_block_hides_no_frame_after_it() -> None:
    """I10, I13: a block that the disk gave back as zeros is damage; nothing is written over what follows."""
    fs, layout = sim_store()
    journal = a_journal(fs, layout)
    for _ in range(60):
        journal.append([LINE])
    path = layout.journal(1)
    blank(fs, path, 3 * BLOCK, 2 * BLOCK)
    before = read_file(fs, path)

    assert a_journal(fs, layout).append([b"next"]) == 60
    assert read_file(fs, path).startswith(before.rstrip(b"\0"))
    scan = scan_journal(fs, path, store_id=STORE_ID, number=1)
    (damage,) = scan.damaged
    assert damage.offset <= 3 * BLOCK and damage.offset + damage.size >= 5 * BLOCK
    assert (scan.end, scan.torn) == (61, None)


def test_a_bit_that_flips_in_the_room_costs_nothing() -> None:
    """I10, I11: it is quarantined like a torn tail, and the log goes on where it was."""
    fs, layout = sim_store()
    a_journal(fs, layout).append([LINE])
    path = layout.journal(1)
    end = end_of_journal(fs, path)
    fd = fs.open(path, os.O_RDWR)
    fs.pwrite(fd, b"\x10", end + 1000)
    fs.close(fd)

    assert scan_journal(fs, path, store_id=STORE_ID, number=1).torn == (end, 1001)
    assert a_journal(fs, layout).append([b"b"]) == 1
    assert frames_of(fs, layout) == [[LINE], [b"b"]]
    assert len(fs.listdir(layout.directory(QUARANTINE_DIR))) == 2


def test_a_header_that_ends_in_zeros_is_whole() -> None:
    """§4.1: the header counts by its length; a journal without a frame ends after it."""
    fs, layout = sim_store()
    path = layout.journal(1)
    fd = fs.open(path, os.O_RDWR | os.O_CREAT)
    fs.pwrite(fd, b"h" * (HEADER_SIZE - 8) + bytes(8 + BLOCK), 0)
    fs.close(fd)

    assert end_of_journal(fs, path) == HEADER_SIZE


def test_many_writers_far_apart_find_the_end() -> None:
    """I2: each of sixteen kept descriptors goes on after what fifteen others have put there since."""
    fs, layout = sim_store()
    writers = [a_journal(fs, layout) for _ in range(16)]
    sent = [writer.append([LINE]) for _ in range(6) for writer in writers]

    assert sent == list(range(96))
    assert len(frames_of(fs, layout)) == 96
