"""Sealing: journals become segments, and nothing a reader sees changes."""

import fcntl
import gc
import os
import threading
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pyarrow.parquet as pq
import pytest
from blake3 import blake3
from hypothesis import given, settings
from hypothesis import strategies as st

from eventlog.base.errors import Corruption, LockTimeout, NotDurable
from eventlog.base.fs import REAL, FileSystem, read_file
from eventlog.base.layout import (
    JOURNAL_DIR,
    MANIFEST_DIR,
    QUARANTINE_DIR,
    SEGMENT_DIR,
    TMP_DIR,
    Layout,
    StoreFiles,
    segment_name,
)
from eventlog.base.locks import MAINTAIN, acquire
from eventlog.base.types import Event
from eventlog.log import manifest as manifests
from eventlog.log import segment
from eventlog.log.journal import Journal
from eventlog.log.journal_reading import JournalScan, scan_journal
from eventlog.log.manifest import MANIFESTS_KEPT
from eventlog.log.reader import LogView, _MissingError, _open_sealed, open_view
from eventlog.log.seal import SealReport
from eventlog.log.segment import SegmentMeta, decode_segment, encode_segment
from tests.conftest import files_of
from tests.log.logs import STORE_ID, Log, event
from tests.simfs import Call, PowerCut, SimFS, fail_nth, keep_all, keep_none, sim_store


def current(log: Log) -> manifests.Manifest:
    return manifests.read_current(log.files)


def flip(path: str, at: int) -> None:
    with open(path, "r+b") as file:
        file.seek(at)
        byte = file.read(1)[0]
        file.seek(at)
        file.write(bytes([byte ^ 0x40]))


def test_sealing_changes_nothing_a_reader_sees(log: Log) -> None:
    """The same events with the same numbers, before and after (I14)."""
    log.append([event(n, agent_turn_id="ab"[n % 2]) for n in range(6)])
    log.append_each(event(n) for n in range(6, 9))
    before = log.rows()

    report = log.seal()

    assert (report.events, report.dropped, report.journals) == (9, 0, [1])
    assert log.rows() == before
    assert [entry.rows for entry in current(log).segments] == [9]


def test_a_second_seal_with_nothing_new_changes_nothing(log: Log) -> None:
    """Sealing is idempotent: no empty segment, no new manifest."""
    log.append([event(1)])
    log.seal()

    assert log.seal() == SealReport()
    assert current(log).number == 1


def test_an_empty_log_can_be_sealed(log: Log) -> None:
    """A store without a journal has nothing to do."""
    assert log.seal() == SealReport()


def test_the_active_journal_is_left_open_unless_asked(log: Log) -> None:
    """Maintenance on the side seals closed journals only; the highest is never removed."""
    log.append([event(1)])
    assert log.seal(rotate_active=False).journals == []
    log.journal.rotate()
    log.append([event(2)])

    assert log.seal(rotate_active=False).journals == [1]
    assert log.journals() == ["00000000000000000002.evj"]
    assert [row["position"] for row in log.rows()] == [0, 1]


def test_duplicates_are_dropped_within_a_batch_and_against_earlier_segments(log: Log) -> None:
    """Of equal ids the earliest is visible; the others are counted and move no counter (I8, I22)."""
    log.append([event(1), event(2), event(1, title="again")])
    assert log.seal().dropped == 1
    log.append([event(2, title="again"), event(3), event(3)])
    before = log.rows()

    report = log.seal()

    assert (report.events, report.dropped) == (1, 2)
    assert log.rows() == before
    assert [(row["position"], row["seq"]) for row in before] == [(0, 1), (1, 2), (4, 3)]
    assert all(row["title"] is None for row in before)


def test_a_batch_of_many_pieces_is_deduplicated_and_numbered_as_one(log: Log) -> None:
    """A batch is numbered piece by piece; ids and counters go on from each to the next (I8, I22)."""
    for start in range(0, 6_000, 2_000):
        log.append([event(n, title="t" * 2_000) for n in range(start, start + 2_000)])
        log.append([event(0), event(start), event(start + 1_999)])

    report = log.seal()

    assert (report.events, report.dropped) == (6_000, 9)
    seqs = [row["seq"] for row in log.rows(columns=("seq", "title")) if row["title"] is not None]
    assert seqs == list(range(1, 6_001))


def test_a_run_of_many_batches_is_one_fold(log: Log) -> None:
    """Sessions that pause and ids of any earlier batch are met again, as by a reader (I8, I22)."""
    pauses = ("ab", "b", "ac", "c", "abc", "a")
    for batch, sessions in enumerate(pauses):
        for session in sessions:
            first = event(
                100 * batch + ord(session), agent_session_id=session, agent_turn_id=f"t{batch // 2}"
            )
            log.append([first, event(1, title="again"), {**first, "event_id": f"{batch}{session}" * 16}])
        log.journal.rotate()
    before = log.rows()

    report = log.seal(batch_bytes=1)

    assert (len(report.segments), report.dropped) == (len(pauses), sum(map(len, pauses)) - 1)
    assert log.rows() == before


@pytest.mark.slow
def test_a_seal_holds_one_journal_and_reads_no_segment_for_its_ids_twice(
    layout: Layout, request: pytest.FixtureRequest
) -> None:
    """However much is sealed, memory is one batch (I35) and the work of each batch the same."""
    held: list[int] = []
    opened: list[str] = []

    class Watched(FileSystem):
        def link(self, source: str, target: str) -> None:
            held.append(sum(type(thing) is JournalScan for thing in gc.get_objects()))
            super().link(source, target)

        def open(self, path: str, flags: int, mode: int = 0o600) -> int:
            opened.extend([path] if SEGMENT_DIR in path and not flags & os.O_CREAT else [])
            return super().open(path, flags, mode)

    log = Log(Watched(), layout)
    gc.collect()
    gc.freeze()  # what `Watched` looks through is what came to be since
    request.addfinalizer(gc.unfreeze)
    for batch_journals, first in ((1, 0), (4, 24)):
        for number in range(first, first + 24):
            log.append([event(number, agent_session_id=f"s{number}")])
            log.journal.rotate()
        size = os.path.getsize(f"{layout.directory(JOURNAL_DIR)}/{log.journals()[0]}")
        held.clear()
        opened.clear()
        report = log.seal(batch_bytes=batch_journals * (size + 16))

    assert (len(report.segments), len(report.journals)) == (6, 24)
    assert max(held) <= 2
    assert sorted(opened) == [layout.segment(entry.name) for entry in current(log).segments[:24]]


def test_what_segments_say_of_a_session_is_enough_to_go_on(log: Log) -> None:
    """Turns by key, current turn, counters and the first slug come back from the columns alone (I22)."""
    log.append(
        [
            event(0, event_type="session"),
            event(1, event_type="session", context_id="session:first_x"),
            event(2, event_type="session", context_id="session:second_x"),
            event(3, agent_turn_id="a", turn=4, seq=20),
            event(4, agent_turn_id="b"),
            event(5, agent_turn_id="a"),
        ]
    )
    log.seal()
    log.append([event(6, event_type="session", context_id="session:third_x"), event(7, turn=2)])
    log.seal()

    log.append(
        [
            event(8),
            event(9, event_type="turn", operation="start"),
            event(10, agent_turn_id="a"),
            event(11, event_type="session", agent_turn_id=None),
        ]
    )

    rows = log.rows(since=8)
    assert [(row["turn"], row["seq"]) for row in rows] == [(2, 2), (6, None), (4, 22), (None, None)]
    assert rows[1]["extends"] == ["session:first_x"]
    assert rows[3]["context_id"] == "session:first_x"


def test_numbers_go_on_from_seal_to_seal(log: Log) -> None:
    """I22: what is sealed later counts on from what was sealed before, as the tail did."""
    log.append([event(1, agent_turn_id="a"), event(2, agent_turn_id="a")])
    log.seal()
    log.append([event(3), event(4, agent_turn_id="b")])
    before = log.rows()
    log.seal()

    assert log.rows() == before
    assert [(row["turn"], row["seq"]) for row in before] == [(1, 1), (1, 2), (1, 3), (2, 1)]


def test_a_batch_of_duplicates_alone_leaves_an_empty_segment(log: Log) -> None:
    """Its positions are still accounted for (I13)."""
    log.append([event(1)])
    log.seal()
    log.append([event(1)])

    log.seal()

    assert [(e.base, e.end, e.rows, e.dropped) for e in current(log).segments] == [(0, 1, 1, 0), (1, 2, 0, 1)]
    assert len(log.rows()) == 1


def test_journals_are_sealed_together_up_to_a_size(log: Log) -> None:
    """Several small journals give one segment, many give several; the events are the same (I14)."""
    for n in range(6):
        log.append([event(n)])
        log.journal.rotate()
    before = log.rows()
    size = os.path.getsize(log.layout.journal(1))

    report = log.seal(batch_bytes=3 * size)

    assert [(e.base, e.end) for e in current(log).segments] == [(0, 3), (3, 6)]
    assert report.journals == [1, 2, 3, 4, 5, 6]
    assert log.rows() == before


def test_sealing_the_same_journals_gives_the_same_file(tmp_path: Any, log: Log) -> None:
    """Name and bytes depend on the events alone (I15)."""
    log.append([event(n, title="x" * n) for n in range(50)])
    log.journal.rotate()
    other = Log(REAL, Layout(str(tmp_path / "other")))
    os.makedirs(other.layout.root)
    os.system(f"cp -r {log.layout.root}/. {other.layout.root}")

    log.seal()
    other.seal()

    assert log.segments() == other.segments()
    paths = [one.layout.segment(one.segments()[0]) for one in (log, other)]
    assert read_file(REAL, paths[0]) == read_file(REAL, paths[1])


def test_a_segment_says_what_it_is(log: Log) -> None:
    """The file's own metadata names its store, range and dropped events (design §6)."""
    log.append([event(1), event(1)])
    log.seal()

    marks = pq.read_schema(log.layout.segment(log.segments()[0])).metadata

    assert {key: marks[key] for key in marks if key.startswith(b"locus.")} == {
        b"locus.format": b"1",
        b"locus.store_id": STORE_ID.hex().encode(),
        b"locus.base": b"0",
        b"locus.end": b"2",
        b"locus.dropped": b"1",
    }
    entry = current(log).segments[0]
    assert (entry.first_at, entry.last_at) == (event(1)["occurred_at"],) * 2


def test_only_one_process_seals(log: Log) -> None:
    """The maintain lock lets one through; the other gives up with LockTimeout (I31)."""
    log.append([event(1)])
    lock = os.open(log.layout.lock(MAINTAIN), os.O_RDWR | os.O_CREAT)
    fcntl.flock(lock, fcntl.LOCK_EX)
    try:
        with pytest.raises(LockTimeout):
            log.seal(lock_timeout_s=0.01)
    finally:
        os.close(lock)


def test_appending_goes_on_while_sealing(log: Log) -> None:
    """The sealer holds no lock that an appender waits for (I33)."""
    log.append([event(1)])
    with acquire(REAL, log.layout, MAINTAIN):
        assert log.append([event(2)]) == 1


def test_an_append_waits_for_no_step_of_a_seal() -> None:
    """I33: at every call of a seal whose journals are closed an append goes through at once."""
    sim, layout = sim_store()
    log, other = Log(sim, layout), Log(sim, layout)
    log.append([event(1)])
    log.journal.rotate()
    other.journal = Journal(files_of(sim, layout), lock_timeout_s=0.0)
    outcomes: list[object] = []

    def append() -> None:
        try:
            outcomes.append(other.append([event(100 + len(outcomes))]))
        except LockTimeout as error:
            outcomes.append(error)

    def interfere(call: Call) -> None:
        thread = threading.Thread(target=append)  # this one holds the sealer's lock
        thread.start()
        thread.join()

    sim.before = interfere
    log.seal(rotate_active=False)
    sim.before = None

    assert outcomes == list(range(1, 1 + len(outcomes))) and len(outcomes) > 20


# -- pins and old files --------------------------------------------------------------------------------


def test_journals_stay_while_an_older_manifest_is_pinned(log: Log) -> None:
    """What a pinned manifest needs is not unlinked, and goes once the pin is gone (I17)."""
    log.append([event(1)])
    log.seal()
    log.append([event(2)])
    with open_view(log.files) as view:
        log.seal()
        log.append([event(3)])
        log.seal()
        assert log.journals()[0] == "00000000000000000002.evj"
        assert [row["position"] for row in view.iterate()] == [0, 1]
    log.seal()

    assert log.journals() == ["00000000000000000004.evj"]


def test_journals_stay_while_a_view_without_a_manifest_is_open(log: Log) -> None:
    """A reader that opened before the first seal keeps its journals too (I17)."""
    log.append([event(1)])
    with open_view(log.files) as view:
        log.seal()
        log.append([event(2)])
        log.seal()
        assert [row["position"] for row in view.iterate()] == [0]
        assert log.journals()[0] == "00000000000000000001.evj"
    log.seal()

    assert log.journals() == ["00000000000000000003.evj"]


@pytest.mark.slow
@pytest.mark.parametrize("older", [False, True], ids=["newest manifest", "an older manifest"])
def test_a_view_that_opens_in_the_middle_of_a_seal_reads_to_its_end(older: bool) -> None:
    """I6, I17: whenever another process opens a view, what it rests on stays until it is closed."""
    sim, layout = sim_store()
    log = Log(sim, layout)
    for number in range(3):
        log.append([event(number)])
        log.seal()
    log.append([event(7)])
    log.journal.rotate()
    calls: list[Call] = []
    trial = sim.kill()
    trial.before = calls.append
    Log(trial, layout).seal(rotate_active=False)
    opened = 0
    for at in (call.index for call in calls if call.name in ("link", "flock", "fsync_dir", "unlink")):
        view = _opened_at(sim.kill(), layout, at, older)
        if view is not None:
            opened += 1
            with view:
                positions = [row["position"] for row in view.iterate()]
            assert positions == list(range(len(positions))) and len(positions) >= 3
    assert opened > 5


def _opened_at(sim: SimFS, layout: Layout, at: int, older: bool) -> "LogView | None":
    """The view that another process opens before that call of a seal."""
    views: list[LogView | None] = []

    def interfere(call: Call) -> None:
        if call.index != at:
            return
        if not older:
            views.append(open_view(files_of(sim, layout)))
            return
        number = manifests.numbers(files_of(sim, layout))[-2]  # the newest when it looked
        try:
            views.append(_open_sealed(files_of(sim, layout), number))
        except _MissingError:
            views.append(None)  # it came too late, notices, and begins again

    sim.before = interfere
    Log(sim, layout).seal(rotate_active=False)
    sim.before = None
    return views[0]


@pytest.mark.slow
def test_the_last_manifests_are_kept_and_pinned_ones_longer(log: Log) -> None:
    """16 manifests stay, and any a reader holds (design §7)."""
    log.append([event(0)])
    log.seal()
    with open_view(log.files):
        for n in range(1, MANIFESTS_KEPT + 3):
            log.append([event(n)])
            log.seal()
        numbers = manifests.numbers(log.files)
        assert numbers == [1, *range(4, MANIFESTS_KEPT + 4)]
    log.append([event(99)])
    log.seal()

    assert len(manifests.numbers(log.files)) == MANIFESTS_KEPT
    assert REAL.listdir(log.layout.directory(TMP_DIR)) == []


def test_strays_are_removed_and_foreign_files_are_not(log: Log) -> None:
    """A segment that no manifest lists goes, one that a kept manifest lists or a foreign file stays (I18)."""
    log.append([event(1)])
    log.seal()
    kept = log.segments()[0]
    stray = kept[:42] + "0" * 16 + ".parquet"
    for name in (stray, "notes.parquet"):
        with open(log.layout.segment(name), "w") as file:
            file.write("x")
    with open(log.layout.tmp("seal-segment-0"), "w") as file:
        file.write("left by a crash")

    log.seal()

    assert log.segments() == [kept, "notes.parquet"]
    assert REAL.listdir(log.layout.directory(TMP_DIR)) == []


def test_a_segment_that_only_an_older_manifest_lists_is_no_stray(log: Log) -> None:
    """Readers of that manifest may still need it (I17, I18)."""
    log.append([event(1), event(1)])
    log.seal()
    first = current(log)
    old = first.segments[0]
    events = decode_segment(read_file(REAL, log.layout.segment(old.name)), old.name)
    data = encode_segment(events, SegmentMeta(STORE_ID, 0, 2, 0))
    digest = blake3(data).hexdigest()
    new = replace(old, name=segment_name(0, 2, digest[:16]), blake3=digest, bytes=len(data), dropped=0)
    with open(log.layout.segment(new.name), "wb") as file:
        file.write(data)
    second = replace(first, number=2, parent=manifests.digest_of(first), segments=(new,))
    manifests.commit(log.files, second)

    log.seal()

    assert log.segments() == sorted([old.name, new.name])


def test_a_segment_that_does_not_read_back_equal_is_not_committed(
    log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Here the writer is set to cut times to milliseconds: reading it back notices (I14)."""
    lossy = {"coerce_timestamps": "ms", "allow_truncated_timestamps": True}
    monkeypatch.setattr(segment, "WRITE_OPTIONS", segment.WRITE_OPTIONS | lossy)
    log.append([event(1)])

    with pytest.raises(Corruption):
        log.seal()

    assert log.segments() == []
    assert len(log.rows()) == 1


def test_a_file_of_other_content_under_the_segments_name_is_replaced(log: Log) -> None:
    """The name holds a digest, so what is there under it and differs is rubbish (I15, I18)."""
    log.append([event(1)])
    log.seal()
    name = log.segments()[0]
    again = Log(log.fs, log.layout)
    for directory in (MANIFEST_DIR, "log/journal"):
        for old in REAL.listdir(log.layout.directory(directory)):
            os.unlink(f"{log.layout.directory(directory)}/{old}")
    os.unlink(log.layout.acknowledged)
    with open(log.layout.segment(name), "w") as file:
        file.write("half")
    again.append([event(1)])

    assert again.seal().segments == [name]
    assert len(again.rows()) == 1


# -- damage ----------------------------------------------------------------------------------------------


def damaged_log(log: Log, *, torn: bool) -> bytes:
    """A closed journal of three frames of which the second (or third) is damaged; that frame's bytes."""
    log.append_each(event(n) for n in range(3))
    log.journal.rotate()
    log.append([event(3)])
    path = log.layout.journal(1)
    frame = scan_journal(REAL, path, store_id=STORE_ID).frames[2 if torn else 1]
    flip(path, frame.offset + 60)
    with open(path, "rb") as file:
        return file.read()[frame.offset : frame.offset + frame.size]


@pytest.mark.parametrize("torn", [False, True])
def test_a_damaged_journal_is_sealed_as_far_as_it_is_valid(log: Log, torn: bool) -> None:
    """The valid events survive, the lost position is named, the bad bytes are kept (I10, I13)."""
    lost = 2 if torn else 1
    bad = damaged_log(log, torn=torn)
    before = log.rows()

    report = log.seal()

    assert [row["position"] for row in log.rows()] == [n for n in range(4) if n != lost]
    assert log.rows() == before
    assert report.lost == 1
    assert current(log).damaged == (manifests.DamagedRange(lost, lost + 1, 1),)
    kept = [n for n in REAL.listdir(log.layout.directory(QUARANTINE_DIR)) if n.endswith(".bin")]
    assert [read_file(REAL, log.layout.quarantine(name)) for name in kept] == [bad]
    with open_view(log.files) as view:
        assert [(r.base, r.end, r.journal) for r in view.damaged] == [(lost, lost + 1, 1)]


def test_a_journal_without_a_sound_header_is_not_sealed_away(log: Log) -> None:
    """Its key is gone with the header, so nothing in it can be distinguished from noise: Corruption, no step
    taken."""
    log.append([event(1)])
    log.journal.rotate()
    log.append([event(2)])
    flip(log.layout.journal(1), 70)

    with pytest.raises(Corruption):
        log.seal()

    assert len(log.journals()) == 3
    assert current(log).number == 0


def test_a_damaged_journal_that_was_copied_forward_leaves_its_bytes(log: Log) -> None:
    """Before the original of a copy goes, the bytes that the copy does not hold are kept (I10)."""
    sim, layout = sim_store()
    log = Log(sim, layout)
    log.append_each(event(n) for n in range(2))
    sim.fault = fail_nth(0, 5, name="fdatasync")
    with pytest.raises(NotDurable):
        log.append([event(2)])
    sim.fault = None
    assert log.journals() == ["00000000000000000001.evj", "00000000000000000002.evj"]
    scan = scan_journal(sim, layout.journal(1), store_id=STORE_ID)
    fd = sim.open(layout.journal(1), os.O_RDWR)
    sim.pwrite(fd, b"rot", scan.frames[0].offset + 50)
    sim.close(fd)
    before = log.rows()

    log.seal()

    assert log.journals() == ["00000000000000000003.evj"]
    assert log.rows() == before
    assert [row["position"] for row in before] == [0, 1, 2]
    assert any(b"rot" in (data or b"") for path, data in sim.tree().items() if "quarantine" in path)


def test_a_journal_that_vanished_is_corruption_and_not_a_gap(log: Log) -> None:
    """Sealing never papers over a missing file (I13)."""
    for n in range(3):
        log.append([event(n)])
        log.journal.rotate()
    os.unlink(log.layout.journal(1))

    with pytest.raises(Corruption):
        log.seal()


def test_a_full_disk_leaves_the_events_in_their_journals(log: Log) -> None:
    """NotDurable says so; after space was freed the same call succeeds (I35)."""
    sim, layout = sim_store()
    log = Log(sim, layout)
    log.append([event(1)])
    log.journal.rotate()
    before = log.rows()
    for number in range(2):
        sim.fault = fail_nth(number, 28, name="pwrite")
        with pytest.raises(NotDurable, match="safe in their journals"):
            log.seal()
        sim.fault = None
        assert log.rows() == before

    log.seal()

    assert log.rows() == before
    assert sim.listdir(layout.directory(TMP_DIR)) == []


def test_a_journal_that_cannot_be_synced_is_not_sealed(log: Log) -> None:
    """Nothing derived is kept before the bytes it comes from are durable (I5)."""
    sim, layout = sim_store()
    log = Log(sim, layout)
    log.append([event(1)])
    log.journal.rotate()
    sim.fault = fail_nth(0, 5, name="fdatasync")

    with pytest.raises(NotDurable):
        log.seal(rotate_active=False)

    assert log.segments() == []


# -- crashes -----------------------------------------------------------------------------------------------


def ready() -> "tuple[SimFS, Log]":
    """A machine with a sealed segment, and two closed journals and a tail after it."""
    sim, layout = sim_store()
    log = Log(sim, layout)
    log.append([event(1, agent_turn_id="a"), event(2)])
    log.seal()
    log.append([event(3), event(1)])
    log.journal.rotate()
    log.append([event(4, agent_turn_id="b")])
    sim.settle()
    return sim, log


def final_files(sim: SimFS) -> "dict[str, Any]":
    """Segments, and what the manifest says but for its number and its parent."""
    files = sim.tree()
    segments = {path: data for path, data in files.items() if path.endswith(".parquet")}
    current = manifests.read_current(StoreFiles(sim, Layout("/.locus"), STORE_ID))
    return segments | {"entries": current.segments, "end": (current.next_position, current.damaged)}


@pytest.mark.slow
def test_a_seal_that_crashed_anywhere_is_finished_by_the_next() -> None:
    """Power cut or kill at every call: readers see the same events at once and after the next seal,
    whose files are the same as without the crash (I12, I14, I15, I16, I18, I32)."""
    sim, log = ready()
    expected_rows = log.rows()
    start = sim.call_count
    log.seal()
    end = sim.call_count
    expected_files = final_files(sim)
    tried = set()
    for stop in range(start, end):
        machine, doomed = ready()
        machine.call_count = start
        machine.stop_at = stop
        with pytest.raises(PowerCut):
            doomed.seal()
        for after in (machine.crash(keep_none), machine.crash(keep_all), machine.kill()):
            if (state := after.state_key()) in tried:
                continue
            tried.add(state)
            survivor = Log(after, log.layout)
            assert survivor.rows() == expected_rows, f"stopped at call {stop}"
            survivor.seal()
            assert survivor.rows() == expected_rows, f"stopped at call {stop}"
            assert final_files(after) == expected_files, f"stopped at call {stop}"
            assert len(survivor.journals()) == 1
            assert [n for n in after.listdir(log.layout.directory(TMP_DIR)) if n.startswith("seal")] == []
    assert len(tried) > 30


def test_journals_outlast_a_commit_that_was_never_synced() -> None:
    """I1, I32: a sealer is killed between the name of its manifest and the sync of that name; the next one
    removes the journals, and the power goes: everything is still there."""
    sim, log = ready()
    expected = log.rows()
    moments: list[SimFS] = []
    sim.before = lambda call: moments.append(sim.kill()) if call.name == "fsync_dir" else None
    log.seal()
    for moment in moments:
        Log(moment, log.layout).seal()
        assert Log(moment.crash(keep_none), log.layout).rows() == expected


def test_a_segment_that_was_adopted_lasts() -> None:
    """I1, I32: a sealer is killed between the name of its segment and the sync of that name; the next one
    adopts the file and lists it, and the power goes: everything is still there."""
    sim, log = ready()
    expected = log.rows()
    moments: list[SimFS] = []
    directory = log.layout.directory(SEGMENT_DIR)
    sim.before = lambda call: moments.append(sim.kill()) if call.args == (directory,) else None
    log.seal()
    assert moments
    for moment in moments:
        Log(moment, log.layout).seal()
        assert Log(moment.crash(keep_none), log.layout).rows() == expected


# -- laws ----------------------------------------------------------------------------------------------------

steps = st.lists(
    st.one_of(
        st.builds(
            event,
            st.integers(0, 12),
            event_type=st.sampled_from(("session", "turn", "action", "file")),
            operation=st.sampled_from((None, "start")),
            agent_session_id=st.sampled_from(("one", "two", None)),
            agent_turn_id=st.sampled_from((None, None, "k1", "k2")),
            turn=st.sampled_from((None, None, None, 4)),
            seq=st.sampled_from((None, None, None, 7)),
            context_id=st.sampled_from((None, None, "session:x_y", "session:z_y")),
        ),
        st.sampled_from(("rotate", "seal", "seal small")),
    ),
    max_size=14,
)


def play(log: Log, plan: "list[Event | str]", *, seal: bool) -> "Iterator[list[Event]]":
    """Do the steps; after each what a reader sees."""
    for step in plan:
        if not isinstance(step, str):
            log.append([step])
        elif step == "rotate":
            log.journal.rotate()
        elif seal:
            log.seal(batch_bytes=1 if step == "seal small" else 1 << 26)
        yield log.rows()


@pytest.mark.slow
@settings(max_examples=25)
@given(steps)
def test_sealing_in_any_chunks_is_invisible(plan: "list[Event | str]") -> None:
    """At every step a log that is sealed now and then reads like one that never is (I14, I22), each read
    extends the one before (I6), and segments and journals tile the positions (I13)."""
    sealed, never = Log(*sim_store()), Log(*sim_store())
    earlier: list[Event] = []
    for rows, expected in zip(play(sealed, plan, seal=True), play(never, plan, seal=False), strict=True):
        assert rows == expected
        assert rows[: len(earlier)] == earlier
        earlier = rows
        with open_view(sealed.files) as view:
            position = 0
            for entry in view.manifest.segments:
                assert entry.base == position
                position = entry.end
            assert view.next_position == position + view.tail_count_raw == sealed.journal.next_position()
