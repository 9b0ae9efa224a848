"""Views: one pinned, consistent sequence of events from segments and journals."""

import os
import subprocess
import sys
from collections.abc import Iterable, Sequence
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eventlog.base.errors import Corruption, NotDurable, NotFound, Unsupported
from eventlog.base.fs import REAL, read_file
from eventlog.base.layout import DIRECTORIES, MANIFEST_DIR, Layout
from eventlog.base.types import COLUMN_NAMES, Event
from eventlog.log import manifest as manifests
from eventlog.log import reader
from eventlog.log.journal_reading import scan_journal
from eventlog.log.numbering import PrefixRow
from eventlog.log.reader import LogView, open_view
from eventlog.log.rows import Selection
from eventlog.log.segment import SCHEMA
from tests.conftest import examples
from tests.log.logs import STORE_ID, Log, event
from tests.simfs import Call, Fault, SimFS, fail_nth, sim_store


def opened(log: Log) -> LogView:
    return open_view(log.files)


def half_sealed(log: Log) -> None:
    """Two segments, a closed journal and an active one; positions 0 to 11, of which 5 is a duplicate."""
    log.append([event(n, agent_turn_id="a", tool="Bash") for n in range(3)])
    log.seal()
    log.append([event(3, event_type="file"), event(4), event(4)])
    log.seal()
    log.append([event(n, agent_session_id="two") for n in range(6, 9)])
    log.journal.rotate()
    log.append([event(9, agent_turn_id="b"), event(10), event(0)])


def test_an_empty_log_is_read_without_any_file(log: Log) -> None:
    """Nothing was ever appended: no events, next position 0."""
    with opened(log) as view:
        assert (view.next_position, view.tail, list(view.iterate())) == (0, [], [])
        assert list(view.batches()) == []
        assert view.tail_table().schema == SCHEMA


def test_segments_and_tail_are_one_sequence(log: Log) -> None:
    """Every visible event once, in position order, with every column (I8, I14)."""
    half_sealed(log)

    with opened(log) as view:
        rows = list(view.iterate())
        assert [row["position"] for row in rows] == [0, 1, 2, 3, 4, 6, 7, 8, 9, 10]
        assert all(tuple(row) == COLUMN_NAMES for row in rows)
        assert (view.next_position, view.tail_count_raw, len(view.tail)) == (12, 6, 5)
        assert view.segment_paths == [log.layout.segment(name) for name in log.segments()]


def test_numbers_of_the_tail_go_on_from_the_segments(log: Log) -> None:
    """The tail's turn, seq and context ids are those that sealing gives it (I22)."""
    half_sealed(log)
    with opened(log) as view:
        tail = view.tail

    log.seal()

    assert log.rows(since=6) == tail
    assert [(row["turn"], row["seq"]) for row in tail] == [(None, 1), (None, 2), (None, 3), (2, 1), (2, 2)]


def test_times_are_integers_and_payloads_text(log: Log) -> None:
    """Rows are plain Python whether they come from Parquet or from a journal."""
    log.append([event(1)])
    log.seal()
    log.append([event(2)])

    for number, row in enumerate(log.rows(), 1):
        assert row["occurred_at"] == event(number)["occurred_at"]
        assert isinstance(row["payload"], str)
        assert row["payload"].startswith(f'{{"number":{number},')


def test_a_view_does_not_change_after_it_was_opened(log: Log) -> None:
    """What is appended and sealed later belongs to later views, which extend this one (I5, I6)."""
    half_sealed(log)
    with opened(log) as view:
        log.append([event(20)])
        log.seal()
        log.append([event(21)])
        rows = list(view.iterate())
        assert view.next_position == 12

    assert log.rows()[: len(rows)] == rows
    assert [row["position"] for row in log.rows()[len(rows) :]] == [12, 13]


FILTERS: "list[dict[str, Any]]" = [
    {"since": 2, "until": 7},
    {"since": 100},
    {"event_types": ("file",)},
    {"event_types": ()},
    {"turn": 1},
    {"session_id": "none"},
    {"event_id": f"{0:031x}"},
    {"event_id": f"{7:032x}"},
    {"since": 1, "event_types": ["action"], "turn": 1},
    {"columns": ("payload", "position")},
    {"columns": ["tool"], "since": 4},
]


@pytest.mark.slow
@pytest.mark.parametrize("filters", FILTERS, ids=str)
def test_filters_select_the_same_rows_as_a_comprehension(log: Log, filters: "dict[str, Any]") -> None:
    """Filters and columns are pushed down, never interpreted differently, in rows and in batches."""
    half_sealed(log)
    wanted = Selection(**{k: v for k, v in filters.items() if k != "columns"})
    names = filters.get("columns", COLUMN_NAMES)
    expected = [{name: row[name] for name in names} for row in log.rows() if wanted.admits(row)]

    assert log.rows(**filters) == expected
    with opened(log) as view:
        batches = list(view.batches(**filters))
    table = pa.Table.from_batches(batches, pa.schema([SCHEMA.field(name) for name in names]))
    assert table.num_rows == len(expected)
    if "position" in names:
        assert table["position"].to_pylist() == [row["position"] for row in expected]


def test_rows_belong_to_the_caller(log: Log) -> None:
    """Changing a row does not change what the view gives next."""
    log.append([event(1)])
    with opened(log) as view:
        next(view.iterate())["payload"] = None
        assert next(view.iterate())["payload"] is not None


def test_an_unknown_column_is_named(log: Log) -> None:
    """A typing error is an error, not a column of nulls."""
    with opened(log) as view, pytest.raises(NotFound, match="colour"):
        list(view.iterate(columns=["colour"]))


@pytest.mark.parametrize("cache_bytes", [1, 64 << 20])
def test_a_long_tail_reads_like_a_short_one(
    log: Log, monkeypatch: pytest.MonkeyPatch, cache_bytes: int
) -> None:
    """The columnar way, in one piece or in several, gives what plain Python gives (I22)."""
    half_sealed(log)
    log.journal.rotate()
    log.append([event(11), event(6), event(4), event(12, agent_session_id="two")])
    expected = log.rows()
    monkeypatch.setattr(reader, "_TAIL_ROWS_PYTHON", 0)
    monkeypatch.setattr(reader, "_CACHE_BYTES", cache_bytes)

    assert log.rows() == expected
    with opened(log) as view:
        table = view.tail_table()
        assert table["position"].to_pylist() == [row["position"] for row in view.tail]
        assert table.equals(view.tail_table())


class Recorded:
    """A prefix that knows one event and one session, and what it was asked."""

    def __init__(self) -> None:
        self.asked: list[set[str]] = []

    def seen(self, event_ids: Sequence[str]) -> set[str]:
        self.asked.append(set(event_ids))
        return {event_ids[0]}

    def sessions(self, session_ids: Sequence[str]) -> Iterable[PrefixRow]:
        self.asked.append(set(session_ids))
        return [PrefixRow(session_ids[0], 8, None, 0, 0, 30, None, None)]


@pytest.mark.parametrize("rows_python", [0, 100])
def test_a_prefix_of_the_callers_answers_instead_of_the_segments(
    log: Log, monkeypatch: pytest.MonkeyPatch, rows_python: int
) -> None:
    """Whoever has an index can spare the reader the segments; it is asked about the tail only."""
    monkeypatch.setattr(reader, "_TAIL_ROWS_PYTHON", rows_python)
    log.append([event(1), event(2)])
    with opened(log) as view:
        view.prefix = prefix = Recorded()
        rows = list(view.iterate())

    assert [(row["position"], row["turn"], row["seq"]) for row in rows] == [(1, 8, 31)]
    assert prefix.asked == [{f"{1:032x}", f"{2:032x}"}, {rows[0]["session_id"]}]


def test_a_log_that_is_all_tail_needs_no_pyarrow(log: Log) -> None:
    """Start-up of commands on small stores does not pay for it."""
    log.append([event(1)])
    program = (
        "import sys; from eventlog.base.fs import REAL; from eventlog.base.layout import Layout, StoreFiles\n"
        "from eventlog.log.reader import open_view\n"
        f"view = open_view(StoreFiles(REAL, Layout({log.layout.root!r}), {STORE_ID!r}))\n"
        "assert len(list(view.iterate())) == 1\n"
        "assert not {'pyarrow', 'duckdb', 'orjson'} & set(sys.modules)\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)


# -- pins and races --------------------------------------------------------------------------------------


class Meanwhile:
    """Does `action` once, right before the n-th call a reader makes."""

    def __init__(self, sim: SimFS, n: int, action: "Any") -> None:
        self.left = n
        self.action = action
        sim.before = self

    def __call__(self, _call: Call) -> None:
        if self.left == 0:
            self.action()
        self.left -= 1


@pytest.mark.slow
@pytest.mark.parametrize("sealed_before", [False, True])
def test_a_seal_between_any_two_calls_of_a_reader_is_survived(sealed_before: bool) -> None:
    """Opening meets the commit and the unlinking of a seal at every point, and reads it all (I6, I17)."""
    n = 0
    done = False
    while not done:
        sim, layout = sim_store()
        log = Log(sim, layout)
        log.append([event(1)])
        if sealed_before:
            log.seal()
        log.append([event(2)])
        expected = [row["position"] for row in log.rows()]

        def others(log: Log = log) -> None:
            log.append([event(3)])
            log.seal()
            log.append([event(4)])
            log.seal()

        meanwhile = Meanwhile(sim, n, others)
        with opened(log) as view:
            done = meanwhile.left >= 0
            positions = [row["position"] for row in view.iterate()]
        sim.before = None
        assert positions[: len(expected)] == expected, f"before call {n}"
        assert positions == list(range(len(positions)))
        assert [row["position"] for row in log.rows()][: len(positions)] == positions
        n += 1
    assert n > 10


@pytest.mark.slow
def test_a_reader_and_a_sealer_of_two_processes_never_miss_a_file(tmp_path: Any) -> None:
    """A reader sees a growing prefix of the log, however fast journals come and go (I6, I17)."""
    root = str(tmp_path / ".locus")
    os.mkdir(root)
    for name in DIRECTORIES:
        os.mkdir(f"{root}/{name}")
    layout = Layout(root)
    log = Log(REAL, layout)
    rounds, batch = 25, 3
    program = (
        "import sys\nfrom eventlog.base.fs import REAL\nfrom eventlog.base.layout import Layout, StoreFiles\n"
        "from eventlog.log.reader import open_view\n"
        "earlier, views = [], 0\n"
        f"while len(earlier) < {rounds * batch}:\n"
        f"    with open_view(StoreFiles(REAL, Layout({root!r}), {STORE_ID!r})) as view:\n"
        "        rows = [(r['position'], r['event_id'], r['seq']) for r in view.iterate()]\n"
        "        assert len(rows) == view.next_position, (len(rows), view.next_position)\n"
        "        assert rows[:len(earlier)] == earlier\n"
        "        earlier = rows\n        views += 1\n        print(views, flush=True)\n"
        "        if not sys.stdin.readline(): break\n"
        "sys.stdin.read()\n"  # so that writing to it never fails
    )
    child = subprocess.Popen(
        [sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    with child:
        assert child.stdin is not None and child.stdout is not None
        # Two lines of credit: the reader is always opening or reading while the sealer works. Every third
        # round waits for a view, so that a sealer cannot be done before the reader has started.
        seen = 0
        for number in range(rounds):
            log.append([event(number * batch + at) for at in range(batch)])
            log.seal()
            child.stdin.write("\n\n")
            child.stdin.flush()
            if number % 3 == 0:
                seen += bool(child.stdout.readline())
        child.stdin.write("\n" * 50)
        child.stdin.flush()
        output = child.communicate(timeout=120)[0]

    assert child.returncode == 0, output
    assert seen == 9
    log.seal()
    assert len(log.journals()) == 1


# -- damage ----------------------------------------------------------------------------------------------


def test_a_missing_segment_is_corruption_that_names_it(log: Log) -> None:
    """Opening fails instead of leaving its events out; the message names the file (I13)."""
    half_sealed(log)
    path = log.layout.segment(log.segments()[0])
    os.unlink(path)

    with pytest.raises(Corruption) as caught:
        opened(log)

    assert caught.value.path == path


@pytest.mark.parametrize("number", [3, 4])
def test_a_missing_journal_is_corruption(log: Log, number: int) -> None:
    """Neither the first journal of the tail nor the active one may vanish unnoticed (I13)."""
    half_sealed(log)
    if number == 4:
        os.unlink(log.layout.journal(3))
    os.unlink(log.layout.journal(number))

    with pytest.raises(Corruption):
        opened(log)


def test_manifests_that_vanished_do_not_make_the_log_shorter(log: Log) -> None:
    """Journals that begin after position 0 say that there must be segments (I13)."""
    half_sealed(log)
    for name in REAL.listdir(log.layout.directory(MANIFEST_DIR)):
        os.unlink(f"{log.layout.directory(MANIFEST_DIR)}/{name}")

    with pytest.raises(Corruption):
        opened(log)


def test_a_segment_of_another_store_is_corruption(log: Log, tmp_path: Any) -> None:
    """The file must be the one its manifest entry describes."""
    half_sealed(log)
    first, second = (log.layout.segment(name) for name in log.segments())
    os.replace(second, first)

    with pytest.raises(Corruption):
        log.rows()


def test_a_damaged_frame_hides_its_own_events_only(log: Log) -> None:
    """The rest of the journal is read, and the lost positions are named (I13)."""
    log.append_each(event(n) for n in range(4))
    frame = scan_journal(REAL, log.layout.journal(1), store_id=STORE_ID).frames[1]
    with open(log.layout.journal(1), "r+b") as file:
        file.seek(frame.offset + 60)
        file.write(b"\0\0")

    with opened(log) as view:
        assert [row["position"] for row in view.iterate()] == [0, 2, 3]
        assert [(lost.base, lost.end, lost.journal) for lost in view.damaged] == [(1, 2, 1)]


def test_a_torn_tail_is_not_damage(log: Log) -> None:
    """An append that was cut short never happened (I3, I7)."""
    log.append([event(1)])
    with open(log.layout.journal(1), "r+b") as file:
        file.seek(len(file.read().rstrip(b"\0")))
        file.write(b"\x89EV1 half a frame")

    with opened(log) as view:
        assert [row["position"] for row in view.iterate()] == [0]
        assert view.damaged == []


def test_a_journal_that_was_copied_forward_is_read_once() -> None:
    """Readers skip a replaced journal (I8, I14)."""
    sim, layout = sim_store()
    log = Log(sim, layout)
    log.append([event(1)])
    sim.fault = fail_nth(0, 5, name="fdatasync")
    with pytest.raises(NotDurable):
        log.append([event(2)])
    sim.fault = None

    assert [row["position"] for row in log.rows()] == [0, 1]
    log.seal()
    assert [row["position"] for row in log.rows()] == [0, 1]


def test_a_copy_that_begins_with_sealed_events_is_read_from_where_they_end() -> None:
    """A journal may be sealed between an append and its failed sync; its copy overlaps then (I13, I14)."""
    sim, layout = sim_store()
    log, other = Log(sim, layout), Log(sim, layout)
    log.append([event(1)])
    pinned = opened(log)  # so that sealing leaves the journal there to be copied
    failing: list[int] = []

    def seal_meanwhile(call: Call) -> None:
        if call.name == "fdatasync" and not failing:
            failing.append(call.index)
            other.seal()
            other.append([event(3)])

    sim.before = seal_meanwhile
    sim.fault = lambda call: Fault(5) if call.index in failing else None
    with pytest.raises(NotDurable):
        log.append([event(2)])
    sim.fault = None
    pinned.close()
    log.append([event(4)])

    with opened(log) as view:
        assert (view.manifest.next_position, view.next_position) == (2, 4)
        rows = list(view.iterate())
    assert [row["event_id"] for row in rows] == [f"{n:032x}" for n in (1, 2, 3, 4)]
    log.seal()
    assert log.rows() == rows
    assert log.seal().journals == []
    assert len(log.journals()) == 1


def test_events_of_a_newer_version_are_unsupported(log: Log) -> None:
    """A column this version does not know is not dropped silently."""
    line = b'{"event_id":"00","event_type":"action","mood":"good"}\t{}'
    log.journal.append([line])

    with pytest.raises(Unsupported, match="mood"):
        log.rows()


@pytest.mark.slow
@settings(max_examples=examples(15, 1000))
@given(st.data())
def test_readers_of_damaged_files_raise_nothing_else(data: st.DataObject) -> None:
    """A flipped byte anywhere gives events, Corruption or Unsupported, never another error (I11)."""
    sim, layout = sim_store()
    log = Log(sim, layout)
    half_sealed(log)
    paths = [
        p for p, content in sim.tree().items() if content and "/log/" in p and not p.endswith(".parquet")
    ]
    path = data.draw(st.sampled_from(sorted(paths)))
    content = read_file(sim, path)
    at = data.draw(st.integers(0, min(len(content) - 1, len(content.rstrip(b"\0")))))  # of room one byte
    fd = sim.open(path, os.O_RDWR)
    sim.pwrite(fd, bytes([sim.pread(fd, 1, at)[0] ^ data.draw(st.integers(1, 255))]), at)
    sim.close(fd)
    try:
        rows: list[Event] = log.rows()
    except (Corruption, Unsupported):
        return
    assert {row["position"] for row in rows} <= set(range(12))


def test_the_pin_is_gone_after_close(log: Log) -> None:
    """Closing twice is harmless, and nothing keeps old files after it."""
    log.append([event(1)])
    log.seal()
    view = opened(log)
    view.close()
    view.close()

    fd = os.open(log.layout.manifest(manifests.numbers(log.files)[-1]), os.O_RDONLY)
    try:
        assert REAL.flock(fd, exclusive=True)
    finally:
        os.close(fd)
