"""The journal over one machine: appends, rotation, tails, damage, boots, failures, threads, forks."""

import errno
import os
import subprocess
import sys
import threading
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eventlog.base.errors import (
    Conflict,
    Corruption,
    EventLogError,
    InvalidEvent,
    LockTimeout,
    NotDurable,
    Unsupported,
)
from eventlog.base.fs import REAL, FileSystem, read_file
from eventlog.base.layout import JOURNAL_DIR, MANIFEST_DIR, QUARANTINE_DIR, TMP_DIR, Layout
from eventlog.base.locks import APPEND, acquire
from eventlog.log.frame import HEADER_SIZE
from eventlog.log.journal import Journal
from eventlog.log.journal_reading import (
    ROTATE_SIZE,
    journal_numbers,
    live_journals,
    scan_journal,
    unlink_journals,
)
from tests.conftest import STORE_ID, files_of
from tests.simfs import Call, Fault, SimFS, fail_from, fail_nth, keep_all, keep_only, short_write, sim_store


def a_journal(fs: FileSystem, layout: Layout, **more: float) -> Journal:
    return Journal(files_of(fs, layout), **more)


def lines_of(fs: FileSystem, layout: Layout) -> list[tuple[int, bytes]]:
    """Every event that a reader finds, with its position."""
    found = []
    for number in live_journals(files_of(fs, layout)):
        for frame in scan_journal(fs, layout.journal(number), store_id=STORE_ID, number=number).frames:
            found += [(frame.base + index, line) for index, line in enumerate(frame.lines)]
    return found


def overwrite(fs: FileSystem, path: str, offset: int, data: bytes) -> None:
    fd = fs.open(path, os.O_RDWR)
    fs.pwrite(fd, data, offset)
    fs.close(fd)


def size_of(fs: FileSystem, path: str) -> int:
    """The size of a journal without the room after its last frame."""
    return len(read_file(fs, path).rstrip(b"\0"))


def without_room(tree: dict[str, bytes | None]) -> dict[str, bytes | None]:
    return {path: data and data.rstrip(b"\0") for path, data in tree.items()}


# -- appending --------------------------------------------------------------------------------------


@given(st.lists(st.lists(st.binary(max_size=9).map(lambda b: b.replace(b"\n", b"")), min_size=1, max_size=4)))
def test_positions_are_dense_and_batches_come_back(batches: list[list[bytes]]) -> None:
    """I2: the first position is 0, each batch begins where the one before ended, bytes are verbatim."""
    fs, layout = sim_store()
    journal = a_journal(fs, layout)
    position = 0
    for lines in batches:
        assert position == journal.next_position()
        assert position == journal.append(lines)
        position += len(lines)

    assert list(enumerate(line for lines in batches for line in lines)) == lines_of(fs, layout)


def test_it_works_on_a_real_disk(layout: Layout) -> None:
    """The same on the real file system, with a second journal object in between."""
    one, two = a_journal(REAL, layout), a_journal(REAL, layout)

    assert [
        one.append([b"a"]),
        two.append([b"b", b"c"]),
        one.append([b"d"]),
        two.append([b"e"]),
    ] == [0, 1, 3, 4]
    assert lines_of(REAL, layout) == [(0, b"a"), (1, b"b"), (2, b"c"), (3, b"d"), (4, b"e")]
    assert os.listdir(layout.directory(TMP_DIR)) == []
    one.close()
    two.close()


def test_an_expected_position_is_compared_and_set() -> None:
    """I9: an append with expect_position succeeds only if the log is there; else nothing is written."""
    fs, layout = sim_store()
    journal = a_journal(fs, layout)

    assert journal.append([b"a", b"b"], expect_position=0) == 0
    tree = fs.tree()
    for wrong in (0, 1, 3):
        with pytest.raises(Conflict) as caught:
            journal.append([b"c"], expect_position=wrong)
        assert (wrong, 2) == (caught.value.expected, caught.value.actual)
    assert tree == fs.tree()
    assert journal.append([b"c"], expect_position=2) == 2


def test_a_batch_that_fits_no_frame_writes_nothing() -> None:
    """InvalidEvent comes before the lock and before the first byte."""
    fs, layout = sim_store()
    journal = a_journal(fs, layout)
    tree = fs.tree()
    for lines in ([], [b"x"] * 65_536, [bytes(16 * 1024 * 1024)], [b"a\nb"]):
        with pytest.raises(InvalidEvent):
            journal.append(lines)

    assert tree == fs.tree()


def test_the_largest_event_is_found_again_in_one_step() -> None:
    """A last frame larger than the first read at the end of the file is fetched whole."""
    fs, layout = sim_store()
    large = bytes(100_000).replace(b"\0", b"x")
    a_journal(fs, layout).append([large])

    assert a_journal(fs, layout).append([b"next"]) == 1
    assert [(0, large), (1, b"next")] == lines_of(fs, layout)


def test_a_waiter_gives_up_at_its_deadline() -> None:
    """I31: a held append lock ends in LockTimeout, with nothing written."""
    fs, layout = sim_store()
    journal = a_journal(fs, layout, lock_timeout_s=0.5)
    journal.append([b"a"])
    fd = fs.open(layout.lock(APPEND), os.O_RDWR)
    assert fs.flock(fd, exclusive=True)
    started = fs.monotonic()
    with pytest.raises(LockTimeout, match="append"):
        journal.append([b"b"])

    assert 0.5 <= fs.monotonic() - started < 0.7
    fs.funlock(fd)
    assert journal.append([b"b"]) == 1


def test_the_sync_happens_after_the_lock_is_free() -> None:
    """Another process can append while ours is syncing: the kernel makes both durable in one flush."""
    fs, layout = sim_store()
    free: list[bool] = []

    def look(call: Call) -> None:
        if call.name == "fdatasync":
            fd = fs.open(layout.lock(APPEND), os.O_RDWR)
            free.append(fs.flock(fd, exclusive=True))
            fs.close(fd)

    journal = a_journal(fs, layout)
    journal.append([b"a"])
    fs.before = look
    journal.append([b"b"])

    assert free == [True]


def test_an_append_makes_a_constant_number_of_calls() -> None:
    """I35: the thousandth append costs the same calls as the tenth, in one process and in many."""
    fs, layout = sim_store()
    journal = a_journal(fs, layout)

    def calls(make: Callable[[], Journal]) -> int:
        before = fs.call_count
        make().append([b"x" * 100])
        return fs.call_count - before

    for _ in range(10):
        journal.append([b"x" * 100])
    kept, fresh = calls(lambda: journal), calls(lambda: a_journal(fs, layout))
    for _ in range(1000):
        journal.append([b"x" * 100])

    assert kept == calls(lambda: journal) <= 9
    assert fresh <= calls(lambda: a_journal(fs, layout)) <= fresh + 4  # a new process checks the room


def test_no_heavy_module_is_imported() -> None:
    """I34: a hook that appends pays for none of these imports."""
    code = (
        "import sys; import eventlog.log.journal, eventlog.log.frame; "
        "print([m for m in ('json', 're', 'typing', 'dataclasses', 'pathlib', 'uuid', 'enum', 'orjson',"
        " 'pyarrow', 'duckdb', 'click') if m in sys.modules])"
    )
    paths = [p for p in sys.path if p]
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", f"import sys; sys.path[:0] = {paths!r}; {code}"],
        capture_output=True,
        text=True,
        check=True,
    )

    assert done.stdout == "[]\n"


# -- rotation ---------------------------------------------------------------------------------------


def test_rotation_closes_a_journal_that_holds_a_frame() -> None:
    """I2: the next journal begins where the closed one ended and names its last digest."""
    fs, layout = sim_store()
    journal = a_journal(fs, layout)

    assert not journal.rotate()
    assert journal_numbers(files_of(fs, layout)) == []
    journal.append([b"a", b"b"])
    assert journal.rotate()
    assert not journal.rotate()
    assert journal.append([b"c"]) == 2
    first, second = (scan_journal(fs, layout.journal(n), store_id=STORE_ID, number=n) for n in (1, 2))
    assert (first.end, first.digest) == (second.base, second.header.prev)


def test_a_full_journal_is_followed_by_the_next() -> None:
    """§4.3: an append to a journal of 8 MiB goes to a new one."""
    fs, layout = sim_store()
    journal = a_journal(fs, layout)
    big = b"x" * (ROTATE_SIZE // 4)
    for _ in range(5):
        journal.append([big])

    assert journal_numbers(files_of(fs, layout)) == [1, 2]
    assert [position for position, _ in lines_of(fs, layout)] == [0, 1, 2, 3, 4]


def test_a_kept_descriptor_notices_that_its_journal_was_sealed_away() -> None:
    """I1: after others rotated twice and unlinked the old journals, an append goes to the newest."""
    fs, layout = sim_store()
    kept, other = a_journal(fs, layout), a_journal(fs, layout)
    kept.append([b"a"])
    other.rotate()
    other.append([b"b"])
    other.rotate()
    unlink_journals(files_of(fs, layout), [1, 2])

    assert kept.append([b"c"]) == 2
    assert lines_of(fs, layout) == [(2, b"c")]


def test_a_kept_descriptor_notices_that_its_path_names_another_file() -> None:
    """I1: a backup that hard-linked the journal does not make its unlinked file look alive."""
    fs, layout = sim_store()
    kept = a_journal(fs, layout)
    kept.append([b"a"])
    copy = read_file(fs, layout.journal(1))
    fs.link(layout.journal(1), layout.tmp("backup"))
    fs.unlink(layout.journal(1))
    fd = fs.open(layout.journal(1), os.O_RDWR | os.O_CREAT)
    fs.pwrite(fd, copy, 0)

    assert kept.append([b"b"]) == 1
    assert lines_of(fs, layout) == [(0, b"a"), (1, b"b")]


def test_the_highest_journal_is_never_unlinked() -> None:
    """The highest journal says which position comes next, so it stays whatever the sealer asks."""
    fs, layout = sim_store()
    journal = a_journal(fs, layout)
    journal.append([b"a"])
    journal.rotate()
    unlink_journals(files_of(fs, layout), [1, 2, 7])

    assert journal_numbers(files_of(fs, layout)) == [2]
    assert journal.append([b"b"]) == 1


def test_journals_are_unlinked_lowest_first() -> None:
    """I1: a kept descriptor may rely on it: while its journal exists, so do all higher ones."""
    fs, layout = sim_store()
    journal = a_journal(fs, layout)
    for _ in range(4):
        journal.append([b"a"])
        journal.rotate()
    gone: list[str] = []
    fs.before = lambda call: gone.append(str(call.args[0])) if call.name == "unlink" else None
    unlink_journals(files_of(fs, layout), [3, 1, 2])

    assert [layout.journal(n) for n in (1, 2, 3)] == gone


def test_a_journal_that_appears_under_the_lock_is_reported() -> None:
    """Two kernels on one store: a name that must be free is taken; the store refuses instead of guessing."""
    fs, layout = sim_store()
    journal = a_journal(fs, layout)
    journal.append([b"a"])

    def other_kernel(call: Call) -> None:
        if call.name == "link":
            fd = fs.open(layout.journal(2), os.O_RDWR | os.O_CREAT)
            fs.close(fd)

    fs.before = other_kernel
    with pytest.raises(Unsupported, match="lock"):
        journal.rotate()


# -- tails, damage, boots -----------------------------------------------------------------------------


def quarantined(fs: FileSystem, layout: Layout) -> dict[str, bytes]:
    folder = layout.directory(QUARANTINE_DIR)
    return {name: read_file(fs, f"{folder}/{name}") for name in fs.listdir(folder)}


@pytest.mark.parametrize("kept", [True, False], ids=["kept descriptor", "new process"])
def test_a_torn_tail_is_cut_and_quarantined(kept: bool) -> None:
    """I10: bytes after the last valid frame are copied with a reason, then cut; the log goes on there."""
    fs, layout = sim_store()
    journal = a_journal(fs, layout)
    journal.append([b"a"])
    size = size_of(fs, layout.journal(1))
    overwrite(fs, layout.journal(1), size, b"torn bytes")
    journal = journal if kept else a_journal(fs, layout)

    assert journal.append([b"b"]) == 1
    assert lines_of(fs, layout) == [(0, b"a"), (1, b"b")]
    files = quarantined(fs, layout)
    assert [name.endswith(".bin") for name in sorted(files)] == [True, False]
    assert b"torn bytes" in files.values()
    assert any(b'"offset":%d' % size in data for data in files.values())
    assert all(name.startswith(f"{1:020d}@{size}-") for name in files)


def test_a_torn_first_frame_leaves_an_empty_journal() -> None:
    """A journal whose only frame was never whole goes on at its base."""
    fs, layout = sim_store()
    journal = a_journal(fs, layout)
    journal.append([b"a"])
    size = size_of(fs, layout.journal(1))
    fd = fs.open(layout.journal(1), os.O_RDWR)
    fs.truncate(fd, size - 1)
    fs.close(fd)
    fs.unlink(layout.acknowledged)

    assert a_journal(fs, layout).append([b"b"]) == 0
    assert lines_of(fs, layout) == [(0, b"b")]


def test_the_same_tail_twice_is_quarantined_once() -> None:
    """I12: a recovery that is made again finds its own copy and goes on."""
    fs, layout = sim_store()
    a_journal(fs, layout).append([b"a"])
    size = size_of(fs, layout.journal(1))
    for _ in range(2):
        overwrite(fs, layout.journal(1), size, b"torn bytes")
        a_journal(fs, layout).rotate()
        a_journal(fs, layout).next_position()
    overwrite(fs, layout.journal(1), size, b"")

    assert len(quarantined(fs, layout)) == 2


def test_damage_in_the_middle_closes_the_journal_untouched() -> None:
    """§4.4, I10: valid frames after bad bytes are kept where they are; the log goes on in a new file."""
    fs, layout = sim_store()
    journal = a_journal(fs, layout)
    for text in (b"a", b"b", b"c"):
        journal.append([text])
    path = layout.journal(1)
    overwrite(fs, path, HEADER_SIZE + 80 + 50, b"rot")
    overwrite(fs, path, size_of(fs, path), b"and a torn tail")
    before = read_file(fs, path)

    assert a_journal(fs, layout).append([b"d"]) == 3
    assert before == read_file(fs, path)
    assert lines_of(fs, layout) == [(0, b"a"), (2, b"c"), (3, b"d")]
    scan = scan_journal(fs, path, store_id=STORE_ID, number=1)
    assert [(d.offset, d.size, d.base, d.end) for d in scan.damaged] == [(208, 80, 1, 2)]
    assert scan.torn == (len(before.rstrip(b"\0")) - 15, 15)
    assert quarantined(fs, layout) == {}


def test_a_new_boot_starts_a_new_journal() -> None:
    """§4.4: nothing is appended to a journal of another boot, even when it looks sound."""
    fs, layout = sim_store()
    a_journal(fs, layout).append([b"a"])
    after = fs.crash(keep_all)

    assert a_journal(after, layout).append([b"b"]) == 1
    assert journal_numbers(files_of(after, layout)) == [1, 2]
    assert read_file(fs, layout.journal(1)) == read_file(after, layout.journal(1))


def test_a_hole_that_a_power_cut_left_is_found_before_a_sound_trailer() -> None:
    """Boot rule: with frame 1 lost and frame 2 kept the log goes on after frame 2, and names the hole."""
    fs, layout = sim_store()
    journal = a_journal(fs, layout)
    journal.append([b"a"])
    fs.fault = lambda call: None
    for text in (b"lost", b"kept"):
        _append_without_sync(fs, layout, text)
    writes = [i for i, effect in enumerate(fs.pending) if effect.kind == "write"]
    after = fs.crash(keep_only(writes[-1]))

    assert a_journal(after, layout).next_position() == 3
    assert a_journal(after, layout).append([b"b"]) == 3
    assert lines_of(after, layout) == [(0, b"a"), (2, b"kept"), (3, b"b")]


class _DiedError(BaseException):
    pass


def _append_without_sync(fs: SimFS, layout: Layout, text: bytes) -> None:
    def die(call: Call) -> None:
        if call.name == "fdatasync":
            raise _DiedError

    journal = a_journal(fs, layout)
    fs.before = die
    with pytest.raises(_DiedError):
        journal.append([text])
    fs.before = None


def test_a_reader_sees_a_frame_that_is_being_written_as_a_tail() -> None:
    """I6: scanning needs no lock; half a frame is not an event and not damage."""
    fs, layout = sim_store()
    journal = a_journal(fs, layout)
    journal.append([b"a"])
    overwrite(fs, layout.journal(1), size_of(fs, layout.journal(1)), b"\x89EV1\x01\x00\x01\x00\x05")
    scan = scan_journal(fs, layout.journal(1), store_id=STORE_ID, number=1)

    assert (scan.frames[0].lines, scan.damaged, scan.torn) == ([b"a"], [], (208, 9))
    assert journal.next_position() == 1


def test_a_journal_with_a_bad_header_is_corruption() -> None:
    """I11: without a header nothing can be verified, so appending and reading stop and say where."""
    fs, layout = sim_store()
    a_journal(fs, layout).append([b"a"])
    overwrite(fs, layout.journal(1), 60, b"rot")
    with pytest.raises(Corruption, match="header"):
        a_journal(fs, layout).append([b"b"])
    with pytest.raises(Corruption, match="header"):
        a_journal(fs, layout).rotate()
    with pytest.raises(Corruption, match="header"):
        a_journal(fs, layout).next_position()

    assert live_journals(files_of(fs, layout)) == [1]


def test_a_journal_of_another_store_or_number_is_corruption() -> None:
    """I11: a file that was copied in from elsewhere is not taken for part of the log."""
    fs, layout = sim_store()
    a_journal(fs, layout).append([b"a"])
    with pytest.raises(Corruption, match="another store"):
        scan_journal(fs, layout.journal(1), store_id=b"o" * 16)
    fs.rename(layout.journal(1), layout.journal(5))
    with pytest.raises(Corruption, match="number 1"):
        a_journal(fs, layout).append([b"b"])


def test_a_store_whose_journals_were_removed_does_not_start_again_at_zero() -> None:
    """I13: with a manifest and no journal the next position is unknown: Corruption, not position 0."""
    fs, layout = sim_store()
    fd = fs.open(f"{layout.directory(MANIFEST_DIR)}/{1:020d}.json", os.O_RDWR | os.O_CREAT)
    fs.close(fd)
    with pytest.raises(Corruption, match="no journal"):
        a_journal(fs, layout).append([b"a"])
    with pytest.raises(Corruption, match="no journal"):
        a_journal(fs, layout).next_position()


def test_foreign_files_are_left_alone() -> None:
    """S1-61: names that are not journals are neither read nor touched."""
    fs, layout = sim_store()
    fd = fs.open(f"{layout.directory(JOURNAL_DIR)}/zzz notes.txt", os.O_RDWR | os.O_CREAT)
    fs.close(fd)

    assert [a_journal(fs, layout).append([b"a"]) for _ in range(2)] == [0, 1]
    assert journal_numbers(files_of(fs, layout)) == [1]


# -- failures -----------------------------------------------------------------------------------------


def test_a_short_write_is_taken_back() -> None:
    """§4.3, I3: a disk that takes half a frame leaves the journal as it was; nothing is acknowledged."""
    fs, layout = sim_store()
    journal = a_journal(fs, layout)
    journal.append([b"a"])
    before = without_room(fs.tree())
    fs.fault = short_write(0, 30)
    with pytest.raises(NotDurable, match="free space"):
        journal.append([b"b"])

    assert before == without_room(fs.tree())
    fs.fault = None
    assert journal.append([b"c"]) == 1


def test_a_short_write_that_cannot_be_taken_back_is_a_torn_tail() -> None:
    """I10: when the truncation fails too, the next append quarantines what is left."""
    fs, layout = sim_store()
    journal = a_journal(fs, layout)
    journal.append([b"a"])
    short, cut = short_write(0, 30), fail_nth(0, errno.EIO, name="truncate")
    fs.fault = lambda call: short(call) or cut(call)
    with pytest.raises(NotDurable):
        journal.append([b"b"])
    fs.fault = None

    assert journal.append([b"c"]) == 1
    assert lines_of(fs, layout) == [(0, b"a"), (1, b"c")]
    assert len(quarantined(fs, layout)) == 2


def test_a_full_disk_leaves_a_readable_store() -> None:
    """I35: with no space at all appends fail with a message, readers go on, and later appends succeed."""
    fs, layout = sim_store()
    journal = a_journal(fs, layout)
    journal.append([b"a"])
    fs.fault = fail_from(0, errno.ENOSPC, name="pwrite")
    for _ in range(3):
        with pytest.raises(NotDurable, match="No space left"):
            journal.append([b"b"])
        with pytest.raises(NotDurable, match="No space left"):
            journal.rotate()

    assert lines_of(fs, layout) == [(0, b"a")]
    assert journal.next_position() == 1
    fs.fault = None
    assert journal.append([b"b"]) == 1


def test_a_read_only_store_says_so() -> None:
    """A store that cannot be written is still read; an append names the path and the reason."""
    fs, layout = sim_store()
    a_journal(fs, layout).append([b"a"])
    fs.fault = lambda call: (
        Fault(errno.EROFS)
        if call.name == "open" and isinstance(call.args[1], int) and call.args[1] & os.O_RDWR
        else None
    )
    journal = a_journal(fs, layout)

    assert journal.next_position() == 1
    with pytest.raises(NotDurable, match=r"append\.lock: cannot append: Read-only file system"):
        journal.append([b"b"])


def test_a_failed_sync_copies_the_journal_forward() -> None:
    """§4.5: every valid frame is published again at its position; the failed batch is not acknowledged."""
    fs, layout = sim_store()
    journal = a_journal(fs, layout)
    journal.append([b"a", b"b"])
    fs.fault = fail_nth(0, errno.EIO, name="fdatasync")
    with pytest.raises(NotDurable, match="copied to a new journal"):
        journal.append([b"c"])

    assert (
        journal_numbers(files_of(fs, layout)),
        live_journals(files_of(fs, layout)),
    ) == ([1, 2], [2])
    assert journal.append([b"d"]) == 3
    assert lines_of(fs.crash(), layout) == [(0, b"a"), (1, b"b"), (2, b"c"), (3, b"d")]
    assert scan_journal(fs, layout.journal(2), store_id=STORE_ID).replaces == 1


def test_everybody_who_wrote_before_a_failed_sync_learns_of_it() -> None:
    """§4.5: a second writer's sync fails too, and finds the copy made by the first."""
    fs, layout = sim_store()
    one, two = a_journal(fs, layout), a_journal(fs, layout)
    one.append([b"a"])
    two.append([b"b"])
    fs.fault = fail_nth(0, errno.EIO, name="fdatasync")
    failures: list[str] = []

    def second(call: Call) -> None:
        # `one` has written and freed the lock; `two` writes and syncs first, and meets the error first.
        if call.name == "fdatasync" and not failures:
            failures.append("")
            with pytest.raises(NotDurable) as caught:
                two.append([b"d"])
            failures.append(str(caught.value))

    fs.before = second
    with pytest.raises(NotDurable, match="copied"):
        one.append([b"c"])

    assert "copied" in failures[1]
    assert (
        journal_numbers(files_of(fs, layout)),
        live_journals(files_of(fs, layout)),
    ) == ([1, 2], [2])
    assert [line for _, line in lines_of(fs.crash(), layout)] == [b"a", b"b", b"c", b"d"]


def test_a_copy_that_fails_is_tried_again_by_the_next_append_of_any_process() -> None:
    """§4.5, I1: until the journal is copied nothing is acknowledged after the pages that may be lost."""
    fs, layout = sim_store()
    journal = a_journal(fs, layout)
    journal.append([b"a"])
    sync, full = fail_nth(0, errno.EIO, name="fdatasync"), fail_from(1, errno.ENOSPC, name="pwrite")
    fs.fault = lambda call: sync(call) or full(call)
    with pytest.raises(NotDurable, match="the next append tries again"):
        journal.append([b"b"])
    with pytest.raises(NotDurable, match="No space left"):
        a_journal(fs, layout).append([b"c"])
    assert journal_numbers(files_of(fs, layout)) == [1]
    fs.fault = None

    assert a_journal(fs, layout).append([b"c"]) == 2
    assert live_journals(files_of(fs, layout)) == [2]
    assert [line for _, line in lines_of(fs.crash(), layout)] == [b"a", b"b", b"c"]


def test_a_sync_that_fails_after_others_rotated_copies_all_of_it() -> None:
    """§4.5: journals that followed the failed one are copied with it, at the same positions."""
    fs, layout = sim_store()
    one, two = a_journal(fs, layout), a_journal(fs, layout)
    one.append([b"a"])
    acted: list[int] = []

    def second(call: Call) -> None:
        if call.name == "fchmod":  # the sync has failed; the lock is not taken yet
            fs.fault = None
            two.rotate()
            acted.append(two.append([b"c"]))

    fs.fault = fail_nth(0, errno.EIO, name="fdatasync")
    fs.before = second
    with pytest.raises(NotDurable):
        one.append([b"b"])
    fs.before = None

    assert acted == [2]
    assert (
        journal_numbers(files_of(fs, layout)),
        live_journals(files_of(fs, layout)),
    ) == ([1, 2, 3], [3])
    assert one.append([b"d"]) == 3
    assert lines_of(fs.crash(), layout) == [(0, b"a"), (1, b"b"), (2, b"c"), (3, b"d")]


def test_a_journal_that_was_sealed_needs_no_copy() -> None:
    """§4.5: whoever sealed a journal has read and kept what was in it; its failed sync copies nothing."""
    fs, layout = sim_store()
    one, two = a_journal(fs, layout), a_journal(fs, layout)
    one.append([b"a"])

    def second(call: Call) -> None:
        if call.name == "fchmod":
            fs.fault = None
            two.rotate()
            unlink_journals(files_of(fs, layout), [1])

    fs.fault = fail_nth(0, errno.EIO, name="fdatasync")
    fs.before = second
    with pytest.raises(NotDurable):
        one.append([b"b"])
    fs.before = None

    assert journal_numbers(files_of(fs, layout)) == [2]
    assert one.append([b"c"]) == 2


ERRORS = {"EIO": errno.EIO, "ENOSPC": errno.ENOSPC, "EINTR": errno.EINTR}


@pytest.mark.slow
@pytest.mark.parametrize("error", ERRORS)
@pytest.mark.parametrize("persistent", [False, True], ids=["once", "from then on"])
@pytest.mark.parametrize("torn", [False, True], ids=["sound", "torn"])
def test_any_call_may_fail(error: str, persistent: bool, torn: bool) -> None:
    """I32: whichever call fails, the caller sees one of our errors, and the log is whole afterwards."""
    n, failed = 0, True
    while failed:
        fs, layout = sim_store()
        journal = a_journal(fs, layout, lock_timeout_s=0.1)
        acked = {journal.append([b"first"]): b"first"}
        if torn:
            overwrite(fs, layout.journal(1), size_of(fs, layout.journal(1)), b"torn")
        fault = (fail_from if persistent else fail_nth)(n, ERRORS[error])
        hit: list[Call] = []

        def noted(
            call: Call, fault: Callable[[Call], Fault | None] = fault, hit: list[Call] = hit
        ) -> Fault | None:
            result = fault(call)
            if result is not None:
                hit.append(call)
            return result

        fs.fault = noted
        for text in (b"second", b"third"):
            try:
                acked[journal.append([text])] = text
                journal.rotate()
                journal.next_position()
            except EventLogError:
                pass
        fs.fault = None
        acked[journal.append([b"fourth"])] = b"fourth"
        for machine in (fs, fs.crash()):
            found = lines_of(machine, layout)
            assert acked.items() <= dict(found).items(), (n, hit[:1])
            assert [position for position, _ in found] == list(range(len(found))), (n, hit[:1])
        failed = bool(hit)
        n += 1
    assert n > 20


# -- threads and forks ----------------------------------------------------------------------------------


def test_threads_share_one_journal(layout: Layout) -> None:
    """I1, I2: appends and rotations of four threads through one Journal lose and double nothing."""
    journal = a_journal(REAL, layout)
    acked: list[tuple[int, bytes]] = []
    failures: list[BaseException] = []

    def work(name: int) -> None:
        try:
            for index in range(25):
                text = b"%d %d" % (name, index)
                acked.append((journal.append([text]), text))
                if index % 10 == name:
                    journal.rotate()
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(name,)) for name in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    journal.close()

    assert not failures
    assert sorted(acked) == lines_of(REAL, layout)
    assert len(acked) == 100


def test_a_forked_child_may_go_on_appending(layout: Layout) -> None:
    """A child opens its own descriptor: parent and child append in turn and both are acknowledged."""
    journal = a_journal(REAL, layout)
    journal.append([b"parent"])
    kept = journal._active
    child = os.fork()
    if child == 0:
        status = 1
        try:
            if journal.append([b"child"]) == 1 and journal._active is not kept:
                status = 0
        finally:
            os._exit(status)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0

    assert journal.append([b"parent again"]) == 2
    assert [line for _, line in lines_of(REAL, layout)] == [b"parent", b"child", b"parent again"]
    journal.close()


def test_a_child_forked_under_the_lock_does_not_keep_it(layout: Layout) -> None:
    """I31: a child that inherited a held lock's descriptor does not hold up others after the release."""
    held = acquire(REAL, layout, APPEND)
    read_end, write_end = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(write_end)
        os.read(read_end, 1)  # until the parent is done
        os._exit(0)
    os.close(read_end)
    try:
        held.release()
        assert a_journal(REAL, layout, lock_timeout_s=1.0).append([b"a"]) == 0
    finally:
        os.close(write_end)
        os.waitpid(child, 0)


def test_a_closed_journal_may_be_used_again(layout: Layout) -> None:
    """`close` gives descriptors back (I35); the object stays usable."""
    journal = a_journal(REAL, layout)
    before = len(os.listdir("/dev/fd"))
    for index in range(5):
        assert journal.append([b"a"]) == index
        journal.close()

    assert before == len(os.listdir("/dev/fd"))
