"""Compaction: many segments become few, and nothing a reader sees changes."""

import errno
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from dataclasses import replace
from functools import cache
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eventlog.base.errors import Conflict, Corruption, EventLogError, LockTimeout
from eventlog.base.fs import REAL
from eventlog.base.layout import SEGMENT_DIR, TMP_DIR, Layout, segment_name
from eventlog.base.locks import COMPACT, MAINTAIN, acquire
from eventlog.base.types import Event
from eventlog.log import compact as compaction
from eventlog.log import manifest as manifests
from eventlog.log import merge, pins
from eventlog.log.compact import (
    GRACE_S,
    RUN_MIN,
    CompactReport,
    all_runs,
    compact,
    mergeable_bytes,
    mergeable_run,
)
from eventlog.log.manifest import Manifest, SegmentEntry, Superseded
from eventlog.log.reader import open_view
from eventlog.log.segment import with_anchors_apart
from eventlog.log.segment_file import SegmentFile
from eventlog.log.verify import verify
from tests.log.logs import Log, event, files_of
from tests.simfs import Call, Fault, PowerCut, SimFS, crash_choices, fail_nth, keep_all, keep_none, sim_store

MIB = 1 << 20


def current(log: Log) -> Manifest:
    return manifests.read_current(log.files)


def compacted(log: Log, everything: bool = True, **options: Any) -> CompactReport:
    return compact(log.files, everything=everything, **options)


def seal_each(log: Log, batches: "list[list[Event]]") -> None:
    for batch in batches:
        log.append(batch)
        log.seal()


def filled(log: Log, count: int = 3) -> "list[Event]":
    """A log with so many segments and a tail; what a reader sees."""
    seal_each(log, [[event(10 * n), event(10 * n + 1, agent_turn_id=f"t{n % 2}")] for n in range(count)])
    log.append([event(900), event(0)])
    return log.rows()


def grow_old(log: Log) -> None:
    """As if the last commit had been a while ago."""
    then = time.time() - GRACE_S - 1
    os.utime(log.layout.manifest(current(log).number), (then, then))


def flip(path: str, at: int) -> None:
    with open(path, "r+b") as file:
        file.seek(at)
        byte = file.read(1)[0]
        file.seek(at)
        file.write(bytes([byte ^ 0x40]))


# -- what a reader sees --------------------------------------------------------------------------------


def test_compaction_changes_nothing_a_reader_sees(log: Log) -> None:
    """I14: all columns of all events, with their positions and payload bytes, are as before."""
    before = filled(log)

    report = compacted(log)

    assert (report.merged, report.events, len(report.segments)) == (3, 6, 1)
    assert [(e.name, e.rows) for e in current(log).segments] == [(report.segments[0], 6)]
    assert log.rows() == before
    assert verify(files_of(log.fs, log.layout), "read") == []
    log.seal()
    assert log.rows() == before


batches = st.lists(
    st.lists(
        st.builds(
            event,
            st.integers(0, 30),
            event_type=st.sampled_from(("session", "turn", "action", "file")),
            agent_session_id=st.sampled_from(("one", "two", None)),
            agent_turn_id=st.sampled_from((None, "k1", "k2")),
            occurred_at=st.sampled_from((None, 5, 1_750_000_000_000_000)),
            blobs=st.sampled_from((None, [], ["blake3:" + "0" * 64, "x"])),
            payload=st.sampled_from(({}, {"text": "Grüße\n\t€" * 9, "n": 1.50}, {"a": None})),
        ),
        min_size=1,
        max_size=6,
    ),
    min_size=2,
    max_size=7,
)


@settings(max_examples=200 if os.environ.get("LOCUS_HUNT") else 3)
@given(batches, st.lists(st.booleans(), min_size=7, max_size=7), st.sampled_from((1, 3, 100)))
def test_compaction_in_any_chunks_is_invisible(
    plan: "list[list[Event]]", when: "list[bool]", group_rows: int
) -> None:
    """I14, I13, I6: whatever is merged when, into whatever row groups, a log reads like one that was not.

    What segments say of themselves adds up: ranges tile, rows, dropped ids and times are those of the parts.
    """
    merged, never = Log(*sim_store()), Log(*sim_store())
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(merge, "ROW_GROUP_ROWS", group_rows)
        for batch, now in zip(plan, when, strict=False):
            for one in (merged, never):
                one.append(batch)
                one.seal()
            if now:
                compacted(merged)
            assert merged.rows() == never.rows()
        compacted(merged)
    assert merged.rows() == never.rows()
    parts, (whole,) = current(never).segments, current(merged).segments
    times = [at for e in parts for at in (e.first_at, e.last_at) if at is not None]
    assert (whole.base, whole.end) == (parts[0].base, parts[-1].end)
    assert whole.rows == sum(e.rows for e in parts) and whole.dropped == sum(e.dropped for e in parts)
    assert (whole.first_at, whole.last_at) == (min(times, default=None), max(times, default=None))
    assert verify(files_of(merged.fs, merged.layout), "read") == []


def test_segments_without_events_are_merged_too(log: Log) -> None:
    """I8, I13: batches of nothing but duplicates keep their positions and leave no trace among the events."""
    seal_each(log, [[event(1)], [event(1)], [event(1), event(1)]])
    before = log.rows()

    compacted(log)

    (entry,) = current(log).segments
    assert (entry.base, entry.end, entry.rows, entry.dropped) == (0, 4, 1, 3)
    assert log.rows() == before


def test_equal_segments_give_one_name_and_equal_bytes(log: Log, tmp_path: Any) -> None:
    """I15: the same inputs merged twice are the same file."""
    filled(log, 5)
    copy = f"{tmp_path}/copy"
    shutil.copytree(log.layout.root, copy)
    (name,) = compacted(log).segments
    (again,) = compacted(Log(REAL, Layout(copy))).segments

    assert name == again
    with open(log.layout.segment(name), "rb") as one, open(Layout(copy).segment(again), "rb") as other:
        assert one.read() == other.read()


def test_row_groups_are_bounded_by_rows_and_by_bytes(log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    """I35: memory follows the size of a row group: no group has more events, or more bytes, than may be."""
    monkeypatch.setattr(merge, "ROW_GROUP_ROWS", 7)
    monkeypatch.setattr(merge, "ROW_GROUP_BYTES", 200_000)
    seal_each(
        log, [[event(100 * n + i, payload={"t": "x" * (n * 15_000)}) for i in range(9)] for n in range(4)]
    )
    before = log.rows()

    compacted(log)

    (entry,) = current(log).segments
    sizes = []
    with SegmentFile(log.files, entry) as file:
        for group in range(file.row_groups):
            table = file.read(row_group=group)
            sizes.append((table.num_rows, table.nbytes))
    assert [rows for rows, _ in sizes[:2]] == [7, 7] and max(rows for rows, _ in sizes) == 7
    assert max(size for _, size in sizes) < 250_000
    assert len(sizes) > 6  # which the rows alone would fill
    assert log.rows() == before


# -- which segments ----------------------------------------------------------------------------------------


def entries(*sizes: int) -> tuple[SegmentEntry, ...]:
    return tuple(
        SegmentEntry(segment_name(n, n + 1, "0" * 16), n, n + 1, 1, size, "0" * 64, None, None, 0)
        for n, size in enumerate(sizes)
    )


@pytest.mark.parametrize(
    ("sizes", "taken"),
    [
        ([5] * 7, 0),
        ([5] * 8, 8),
        ([80, *[5] * 8], 8),  # the large one is not rewritten for half its size
        ([79, *[5] * 8], 9),
        ([1000, 79, *[5] * 8], 9),
        ([256 * MIB, *[30 * MIB] * 8], 8),
        ([255 * MIB, *[40 * MIB] * 6, 30 * MIB, 30 * MIB], 8),  # all of them are more than a result may be
        ([5] * 3 + [900 * MIB] + [5] * 7, 0),
    ],
)
def test_the_newest_segments_are_merged_when_they_have_grown(sizes: "list[int]", taken: int) -> None:
    """P6: a run from the newest on, each smaller than twice what is newer, of eight or more."""
    found = entries(*sizes)
    run = mergeable_run(found)

    assert len(run) == taken
    assert run == found[len(found) - len(run) :]


@given(st.lists(st.integers(1, 64 * MIB), min_size=1, max_size=300))
def test_a_log_has_few_segments_and_rewrites_little(sizes: "list[int]") -> None:
    """P6: however sealed segments come, few are left, and each byte is rewritten a few times."""
    held: list[SegmentEntry] = []
    rewritten = 0
    for n, size in enumerate(sizes):
        (entry,) = entries(size)
        held.append(replace(entry, base=n, end=n + 1))
        run = mergeable_run(held)
        if run:
            total = sum(one.bytes for one in run)
            assert total <= compaction.RESULT_BYTES_MAX
            rewritten += total
            del held[len(held) - len(run) :]
            held.append(replace(run[0], bytes=total, end=run[-1].end))
    small = [one for one in held if one.bytes < 256 * MIB]
    growth = max(1, sum(sizes) / min(sizes))
    assert len(small) <= RUN_MIN * (
        2 + growth.bit_length() if isinstance(growth, int) else 2 + len(bin(int(growth)))
    )
    assert rewritten <= sum(sizes) * 2 * (1 + len(bin(int(growth))))


def test_all_segments_are_taken_in_runs_of_bounded_size() -> None:
    """P6: with `--all`, neighbours up to 512 MiB; one over half of that stays, and so does one alone."""
    found = entries(1, 2, 300 * MIB, 200 * MIB, 200 * MIB, 200 * MIB, 3, 600 * MIB, 4)

    assert all_runs(found) == [found[0:2], found[3:5], found[5:7]]
    assert all_runs(entries(5)) == [] == all_runs(())


def test_what_is_pending_is_known_without_reading_segments(log: Log) -> None:
    """P4: seven segments are left alone, eight are merged; then nothing is pending."""
    seal_each(log, [[event(n)] for n in range(7)])
    assert mergeable_bytes(log.files) is None
    assert compacted(log, everything=False) == CompactReport()
    seal_each(log, [[event(7)]])
    assert mergeable_bytes(log.files) == sum(e.bytes for e in current(log).segments)

    assert compacted(log, everything=False).merged == 8
    assert mergeable_bytes(log.files) is None


# -- readers, and the files that were replaced -------------------------------------------------------------


def test_replaced_files_stay_while_a_reader_pins_them(log: Log) -> None:
    """I17: a view opened before reads all its files, however long it takes; then they go, and only they."""
    before = filled(log)
    inputs = log.segments()
    view = open_view(log.files)
    (name,) = compacted(log).segments
    grow_old(log)
    report = compacted(log)
    assert (report.removed, report.waiting) == ([], 3)
    assert list(view.iterate()) == before
    view.close()

    with open_view(log.files) as later:
        report = compacted(log)
        assert (sorted(report.removed), report.waiting) == (inputs, 0)
        assert log.segments() == [name]
        assert list(later.iterate()) == before
    assert [
        item.name for item in current(log).superseded
    ] == inputs  # what an index was made from stays known


def test_replaced_files_stay_for_a_minute(log: Log) -> None:
    """I17: who reads without a pin, such as a copy of the directory, has time to finish."""
    filled(log)
    compacted(log)
    assert mergeable_bytes(log.files) is None
    assert (compacted(log).removed, len(log.segments())) == ([], 4)
    grow_old(log)
    assert mergeable_bytes(log.files) == 0

    assert len(compacted(log).removed) == 3


def test_files_stay_when_it_is_unknown_what_a_pin_needs(log: Log) -> None:
    """I17: a pinned manifest that cannot be read may list any of them."""
    filled(log)
    view = open_view(log.files)
    compacted(log)
    grow_old(log)
    flip(log.layout.manifest(3), 9)

    assert compacted(log).removed == []
    view.close()
    assert len(compacted(log).removed) == 3


def test_names_of_replaced_segments_are_forgotten_in_the_end(log: Log) -> None:
    """P6: the manifest names them for sixteen manifests, and as long as there is a file of that name."""
    filled(log)
    compacted(log)
    grow_old(log)
    first = {item.name for item in current(log).superseded}
    kept = sorted(first)[0]
    shutil.copy(log.layout.segment(kept), f"{log.layout.root}/aside")
    assert len(compacted(log).removed) == 3
    shutil.copy(f"{log.layout.root}/aside", log.layout.segment(kept))
    for n in range(100, 100 + manifests.MANIFESTS_KEPT):
        seal_each(log, [[event(n)]])
    assert {item.name for item in current(log).superseded} == first
    compacted(log)

    assert {item.name for item in current(log).superseded} & first == {kept}
    assert kept not in log.segments()  # its manifest has expired long since


def test_replaced_segments_are_verified(log: Log) -> None:
    """I11: a changed byte in one is reported, and is no damage: nobody needs the file any more."""
    filled(log)
    inputs = log.segments()
    compacted(log)
    flip(log.layout.segment(inputs[1]), 40)

    (found,) = verify(files_of(REAL, log.layout), "read")
    assert (found.path, found.damage) == (log.layout.segment(inputs[1]), False)
    os.unlink(log.layout.segment(inputs[1]))
    assert verify(files_of(REAL, log.layout), "read") == []


@pytest.mark.parametrize(
    "wrong",
    [
        Superseded("../../STORE", 2),
        Superseded(segment_name(0, 99, "0" * 16), 2),
        Superseded(segment_name(0, 2, "0" * 16), 99),
    ],
)
def test_a_manifest_cannot_have_other_files_removed(log: Log, wrong: Superseded) -> None:
    """I28, I11: what is superseded is a segment of this log; anything else is no manifest."""
    filled(log)
    bad = replace(current(log), superseded=(wrong,))

    with pytest.raises(Corruption):
        manifests.decode(manifests.encode(bad), "m")


# -- damage ----------------------------------------------------------------------------------------------


def test_a_damaged_input_is_named_and_left_as_it_is(log: Log) -> None:
    """I11, I10: bytes that rotted are never made part of a sound file; everything stays as it was."""
    filled(log)
    names = log.segments()
    path = log.layout.segment(names[1])
    flip(path, os.path.getsize(path) // 2)
    before = manifests.encode(current(log))
    with open(path, "rb") as file:
        content = file.read()

    with pytest.raises(Corruption) as found:
        compacted(log)

    assert found.value.path == path and "left as it is" in str(found.value)
    assert (log.segments(), manifests.encode(current(log))) == (names, before)
    with open(path, "rb") as file:
        assert file.read() == content
    assert os.listdir(log.layout.directory(TMP_DIR)) == []


def test_what_does_not_read_back_equal_is_not_committed(log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    """I14: a library that loses something while it writes costs nothing but the attempt."""
    before = filled(log)
    apart = with_anchors_apart
    monkeypatch.setattr(merge, "with_anchors_apart", lambda t: apart(t.slice(1).combine_chunks()))

    with pytest.raises(Corruption, match="nothing was merged"):
        compacted(log)
    monkeypatch.undo()
    assert log.rows() == before
    assert len(log.segments()) == 3 and os.listdir(log.layout.directory(TMP_DIR)) == []


def test_a_full_disk_leaves_everything_as_it_was(log: Log) -> None:
    """I35: one of our errors; after space was freed the same call succeeds."""
    sim, layout = sim_store()
    log = Log(sim, layout)
    before = filled(log)
    sim.settle()
    number, failed = 0, True
    while failed:
        sim.fault = fail_nth(number, errno.ENOSPC, name="pwrite")
        try:
            compacted(log)
            failed = False
        except EventLogError as error:
            assert "free space" in str(error)
            number += 1
        sim.fault = None
        assert log.rows() == before
    assert number >= 2
    assert sim.listdir(layout.directory(TMP_DIR)) == []
    assert len(current(log).segments) == 1


# -- others at work --------------------------------------------------------------------------------------


def test_only_one_process_compacts(log: Log) -> None:
    """I31: the second one gives up at its deadline, with nothing changed."""
    filled(log)
    lock = os.open(log.layout.lock(COMPACT), os.O_RDWR | os.O_CREAT)
    assert REAL.flock(lock, exclusive=True)

    with pytest.raises(LockTimeout):
        compacted(log, lock_timeout_s=0.02)

    os.close(lock)
    assert compacted(log).merged == 3


def test_sealing_waits_for_no_merge(log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    """I33: while segments are read and written, others append and seal; the commit takes both in."""
    filled(log)
    seen = []
    write = merge._check_equal

    def busy(*args: Any) -> int:
        def other() -> None:
            log.append([event(500)])
            seen.append(log.seal(lock_timeout_s=0.0).events)

        thread = threading.Thread(target=other)
        thread.start()
        thread.join()
        return write(*args)

    monkeypatch.setattr(merge, "_check_equal", busy)
    report = compacted(log)

    assert seen == [2] and report.merged == 3
    assert [entry.rows for entry in current(log).segments] == [6, 2]
    ids = [row["event_id"] for row in log.rows()]
    assert ids[-1] == event(500)["event_id"] and len(ids) == 8


def test_an_input_that_is_not_listed_any_more_undoes_nothing(
    log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    """I16: when another process has rewritten one of the inputs meanwhile, its commit holds."""
    filled(log)
    (last,) = current(log).segments[2:]
    other = replace(last, name=segment_name(last.base, last.end, "f" * 16), blake3="f" * 64)
    check = merge._check_equal

    def busy(*args: Any) -> int:
        now = current(log)
        following = replace(
            now, number=now.number + 1, parent=manifests.digest_of(now), segments=(*now.segments[:2], other)
        )
        manifests.commit(log.files, following)
        return check(*args)

    monkeypatch.setattr(merge, "_check_equal", busy)
    assert compacted(log).segments == []
    assert current(log).segments[2] == other and len(log.segments()) == 3
    assert os.listdir(log.layout.directory(TMP_DIR)) == []


def _in_thread(work: "Callable[[], object]") -> "list[object]":
    """What came of the work of another process: locks are a thread's."""
    outcome: list[object] = []

    def run() -> None:
        try:
            outcome.append(work())
        except (LockTimeout, Conflict) as error:
            outcome.append(type(error))

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    assert outcome, "it failed"
    return outcome


# Calls between which another process can meet something else than before.
_TELLING = ("flock", "link", "unlink", "pwrite", "fsync_dir")


@pytest.mark.parametrize("what", ["append", "seal", "compact", "read"])
def test_another_process_acts_between_two_calls(what: str, hunt_minutes: float) -> None:
    """I13, I14, I16, I17, I18, I32: whatever another process does between two calls, both finish.

    A hunt (LOCUS_HUNT) tries all calls, else those are tried at which something changes.
    """
    act_everywhere(what, None if hunt_minutes else _TELLING)


def act_everywhere(what: str, names: "tuple[str, ...] | None") -> None:
    at = 0
    while act_once(what, names, at):
        at += 1
    assert at > 10


def act_once(what: str, names: "tuple[str, ...] | None", at: int) -> bool:
    """Act before call `at` of a compaction, of those called `names`; False when there are fewer."""
    sim, log, before = ready()
    other = Log(sim, log.layout)
    view = open_view(files_of(sim, log.layout))
    count, came = 0, False

    def act(call: Call) -> None:
        nonlocal count, came
        count += names is None or call.name in names
        if came or count <= at:
            return
        came = True
        if what in ("append", "seal"):
            _in_thread(lambda: other.append([event(700)]))
        if what == "seal":
            _in_thread(lambda: other.seal(lock_timeout_s=0.0))
        elif what == "compact":
            _in_thread(lambda: compacted(other, lock_timeout_s=0.0))
        elif what == "read":
            assert _in_thread(other.rows) == [before]

    sim.before = act
    compacted(log)
    sim.before = None
    added = [event(700)["event_id"]] if came and what in ("append", "seal") else []
    expected = [row["event_id"] for row in before] + added
    assert [row["event_id"] for row in log.rows()] == expected, f"{what} at call {at}"
    assert [row["event_id"] for row in view.iterate()] == expected[: len(before)], f"{what} at call {at}"
    view.close()
    assert verify(files_of(sim, log.layout), "read") == []
    assert sim.listdir(log.layout.directory(TMP_DIR)) == []
    return came


# -- crashes -----------------------------------------------------------------------------------------------


@cache
def template(new_fs: "Callable[[], SimFS]") -> "tuple[SimFS, list[Event]]":
    sim, layout = sim_store(new_fs())
    rows = filled(Log(sim, layout), 2)
    sim.settle()
    return sim, rows


def ready(new_fs: "Callable[[], SimFS]" = SimFS) -> "tuple[SimFS, Log, list[Event]]":
    """A machine with two segments and a tail, and what a reader sees there."""
    sim, rows = template(new_fs)
    sim = sim.kill()
    return sim, Log(sim, Layout("/.locus")), rows


def ends(machine: SimFS) -> "Iterator[tuple[str, SimFS]]":
    for how, choice in crash_choices(machine.pending):
        yield how, machine.crash(choice)
    yield "killed", machine.kill()


def check_crashes(new_fs: "Callable[[], SimFS]" = SimFS) -> int:
    """Stop a compaction at every call, in every way; check every survivor. How many there were."""
    sim, log, rows = ready(new_fs)
    layout = log.layout
    moments: list[SimFS] = []
    sim.before = lambda _: moments.append(sim.copy())
    compacted(log)
    sim.before = None
    moments.append(sim.copy())
    files = final_files(sim)
    tried = set()
    for number, moment in enumerate(moments):
        for how, after in ends(moment):
            if (state := after.state_key()) in tried:
                continue
            tried.add(state)
            label = f"before call {number}, {how}"
            survivor = Log(after, layout)
            assert survivor.rows() == rows, label
            assert verify(files_of(after, layout), "read") == [], label
            compacted(survivor)
            assert survivor.rows() == rows, label
            assert final_files(after) == files, label
            assert left_by_compaction(survivor) == [], label
            again = Log(after.crash(keep_none), layout)
            assert again.rows() == rows, label
    return len(tried)


def left_by_compaction(log: Log) -> "list[str]":
    """Names in `tmp/`; those of a manifest are the next sealer's to remove."""
    names = log.fs.listdir(log.layout.directory(TMP_DIR))
    return [name for name in names if not name.startswith(manifests.TMP_PREFIX)]


def final_files(sim: SimFS) -> "dict[str, Any]":
    """Segments, and what the manifest says of them."""
    files = sim.tree()
    segments = {path: data for path, data in files.items() if path.endswith(".parquet")}
    now = manifests.read_current(files_of(sim, Layout("/.locus")))
    return segments | {"entries": now.segments, "end": now.next_position, "old": now.superseded}


def test_a_compaction_that_crashed_anywhere_is_finished_by_the_next() -> None:
    """I12, I14, I15, I16, I18, I32: power cut or kill at every call, each pending effect kept or lost:
    readers see the same events at once and after the next compaction, whose files are the same."""
    assert check_crashes() > 60


def test_a_stray_of_a_dead_compaction_is_adopted_or_removed() -> None:
    """I15, I18: a merge that died before its commit is taken up by the next, or swept by sealing."""
    for follow_up in ("compact", "seal"):
        sim, log, rows = ready()
        calls: list[Call] = []
        watched = sim.copy()
        watched.before = calls.append
        compacted(Log(watched, log.layout))
        sim.stop_at = max(c.index for c in calls if c.name == "link" and "manifest" in str(c.args[1]))
        with pytest.raises(PowerCut):
            compacted(log)
        survivor = Log(sim.crash(keep_all), log.layout)
        assert len(survivor.segments()) == 3
        if follow_up == "compact":
            (name,) = compacted(survivor).segments
            assert survivor.segments() == [name]
        else:
            survivor.seal()
            assert len(survivor.segments()) == 3 == len(current(survivor).segments)
        assert survivor.rows() == rows


def test_a_bad_file_under_the_results_name_is_replaced() -> None:
    """I18: a stray that rotted since is not taken for the result."""
    sim, log, rows = ready()
    (name,) = compacted(Log(sim.copy(), log.layout)).segments
    fd = sim.open(log.layout.segment(name), os.O_CREAT | os.O_WRONLY)
    sim.pwrite(fd, b"rot", 0)
    sim.close(fd)

    assert compacted(log).segments == [name]
    assert log.rows() == rows
    assert verify(files_of(sim, log.layout), "read") == []


def test_any_call_may_fail_once(hunt_minutes: float) -> None:
    """I32, I35: one of our errors, or success; then the same call succeeds, and nothing is left behind.

    A hunt (LOCUS_HUNT) fails every call, else every eleventh fails.
    """
    n, step = 0, 1 if hunt_minutes else 11
    while fail_call(n):
        n += step
    assert n > 60


def fail_call(n: int) -> bool:
    """Let call `n` of a compaction fail; False when there are fewer calls."""
    sim, log, rows = ready()
    log.journal.next_position()
    kept = {described.inode.number for described in sim._open.values()}
    first = sim.call_count
    sim.fault = lambda call: Fault(errno.EIO) if call.index == first + n and call.name != "close" else None
    try:
        compacted(log)
    except EventLogError as error:
        assert "again" in str(error) or "check" in str(error), error
    sim.fault = None
    came = sim.call_count > first + n
    assert log.rows() == rows, f"call {n}"
    compacted(log)
    assert log.rows() == rows, f"call {n}"
    assert {described.inode.number for described in sim._open.values()} <= kept, f"call {n}"
    assert left_by_compaction(log) == []
    return came


_KILLED = """
import sys
from eventlog.base.fs import REAL
from eventlog.base.layout import Layout, StoreFiles
from eventlog.log import merge
from eventlog.log.compact import compact
merge.ROW_GROUP_ROWS = 50
print("ready", flush=True)
compact(StoreFiles(REAL, Layout(sys.argv[1]), bytes(range(16))), everything=True)
"""


def test_a_killed_process_leaves_a_log_that_needs_no_repair(log: Log, tmp_path: Any) -> None:
    """I32: SIGKILL at random moments of a real compaction; the next one finishes, the events are the same."""
    seal_each(log, [[event(1000 * n + i) for i in range(300)] for n in range(10)])
    before = log.rows()
    for turn in range(4):
        root = f"{tmp_path}/{turn}"
        shutil.copytree(log.layout.root, root)
        process = subprocess.Popen([sys.executable, "-c", _KILLED, root], stdout=subprocess.PIPE)
        assert process.stdout is not None and process.stdout.readline() == b"ready\n"
        time.sleep(0.04 * turn)
        process.send_signal(signal.SIGKILL)
        process.wait()
        process.stdout.close()
        survivor = Log(REAL, Layout(root))
        assert survivor.rows() == before
        compacted(survivor)
        assert survivor.rows() == before and len(current(survivor).segments) == 1
        assert verify(files_of(REAL, survivor.layout), "read") == []
        assert os.listdir(survivor.layout.directory(TMP_DIR)) == []


# -- mutants: each takes one step of the protocol away, and one of the checks must notice --------------


class _NoFileSync(SimFS):
    def fsync(self, fd: int) -> None:
        pass


class _NoDirectorySync(SimFS):
    def fsync_dir(self, path: str) -> None:
        pass


class _UnlinksFirst(SimFS):
    """The inputs go before the manifest that lists the result."""

    def link(self, source: str, target: str) -> None:
        if target.endswith(".json"):
            for name in self.listdir(f"/.locus/{SEGMENT_DIR}")[1:2]:
                self.unlink(f"/.locus/{SEGMENT_DIR}/{name}")
        super().link(source, target)


@pytest.mark.parametrize("kind", [_NoFileSync, _NoDirectorySync, _UnlinksFirst])
def test_a_missing_step_is_noticed(kind: "type[SimFS]") -> None:
    """I12: without any one step of the protocol the crash search goes red: the search can fail."""
    with pytest.raises((AssertionError, EventLogError)):
        check_crashes(kind)


@pytest.mark.parametrize("step", ["check of pins", "check of the inputs", "lock of its own"])
def test_a_missing_check_is_noticed(
    step: str, monkeypatch: pytest.MonkeyPatch, log: Log, tmp_path: Any
) -> None:
    """I16, I17, I18: a compaction that does not ask others breaks one of the tests above."""
    if step == "check of pins":
        monkeypatch.setattr(pins, "lock", lambda fs, path, fds: True)
        with pytest.raises(AssertionError):
            test_replaced_files_stay_while_a_reader_pins_them(log)
    elif step == "check of the inputs":
        monkeypatch.setattr(SegmentEntry, "__eq__", lambda a, b: a.base == b.base)
        with pytest.raises(AssertionError):
            test_an_input_that_is_not_listed_any_more_undoes_nothing(log, monkeypatch)
    else:
        monkeypatch.setattr(compaction, "acquire", lambda fs, layout, name, **options: nullcontext())
        with pytest.raises((AssertionError, OSError, EventLogError)):
            act_everywhere("compact", None)


def test_the_maintain_lock_is_held_for_the_commit_alone(log: Log) -> None:
    """I33, I31: who holds `maintain` keeps a compaction from its commit, and loses nothing by it."""
    before = filled(log)
    with acquire(REAL, log.layout, MAINTAIN):
        assert _in_thread(lambda: compacted(log, lock_timeout_s=0.02)) == [LockTimeout]

    assert len(current(log).segments) == 3 and log.rows() == before
    assert os.listdir(log.layout.directory(TMP_DIR)) == []
