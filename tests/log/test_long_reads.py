"""Reading a log takes the memory of a slice of its events, whatever the size of its row groups."""

import os
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import pyarrow as pa
import pytest

from eventlog.base.errors import Corruption, Unsupported
from eventlog.base.fs import REAL
from eventlog.base.layout import DIRECTORIES, SEGMENT_DIR, Layout
from eventlog.log.compact import compact
from eventlog.log.follow import Follower
from eventlog.log.line import encode_line
from eventlog.log.reader import open_view
from eventlog.log.verify_events import verify_events
from tests.conftest import HUNT
from tests.log.logs import Log, event

_EVENTS = 24_000
_PAYLOAD_BYTES = 1_200  # so that the one row group has 29 MB
_BOUND_BYTES = 20 << 20  # a slice, a page of 8,192 payloads, and the group's compressed pages

Look = Callable[[], None]


@pytest.fixture(scope="module")
def long(tmp_path_factory: pytest.TempPathFactory) -> Log:
    """Events with long payloads in one row group; every thousandth is a decision."""
    root = tmp_path_factory.mktemp("long")
    for name in DIRECTORIES:
        (root / name).mkdir()
    log = Log(REAL, Layout(str(root)))
    texts = [os.urandom(_PAYLOAD_BYTES // 4).hex() * 2 for _ in range(1_000)]
    for base in range(0, _EVENTS, 1_000):
        _append(log, range(base, base + 1_000), texts)
    log.seal()
    return log


def _append(log: Log, numbers: range, texts: "Sequence[str]" = ("",)) -> None:
    """Events of these ids; encoding one event and replacing its id takes a tenth of encoding them all."""
    mark = event(0)["event_id"]
    action = encode_line(event(0, payload={"text": "TEXT"})).decode()
    decision = action.replace('"action"', '"decision"')
    lines = []
    for number in numbers:
        line = decision if number % 1_000 == 999 else action
        line = line.replace(str(mark), f"{number:032x}").replace("TEXT", texts[number % len(texts)])
        lines.append(line.encode())
    log.journal.append(lines)


def _iterated(log: Log, look: Look) -> int:
    with open_view(log.files) as view:
        return _looked(view.iterate(), look)


def _iterated_some(log: Log, look: Look) -> int:
    with open_view(log.files) as view:
        return 1_000 * _looked(view.iterate(event_types=("decision",)), look)


def _in_batches(log: Log, look: Look) -> int:
    with open_view(log.files) as view:
        return sum(batch.num_rows * _looked((batch,), look) for batch in view.batches())


def _looked(found: "Iterable[object]", look: Look) -> int:
    count = 0
    for _ in found:
        look()
        count += 1
    return count


def _followed(log: Log, look: Look) -> int:
    count = 0
    follower = Follower(log.files)
    while (found := follower.read()) is not None:
        count += _looked(found, look)
    follower.close()
    return count


def _verified(log: Log, look: Look) -> int:
    reached = 0

    def progress(done: int, _: int) -> None:
        nonlocal reached
        reached = done
        look()

    with open_view(log.files) as view:
        assert list(verify_events(view, progress)) == []
    return reached


@pytest.mark.parametrize("read", [_iterated, _iterated_some, _in_batches, _followed, _verified])
def test_a_long_read_holds_a_slice_of_a_row_group(read: "Callable[..., int]", long: Log) -> None:
    """Whoever reads all events holds a few of them, not a row group of many megabytes (I6)."""
    before = pa.total_allocated_bytes()
    held = []
    count = read(long, lambda: held.append(pa.total_allocated_bytes() - before))
    assert count == _EVENTS
    assert held and max(held) < _BOUND_BYTES < _EVENTS * _PAYLOAD_BYTES


def test_one_event_is_read_without_those_after_it(long: Log) -> None:
    """Of a row group whose first event is asked for, the pages after it are left alone (I6)."""
    with open_view(long.files) as view:
        [one] = view.iterate(0, 1, columns=("event_id",))
        assert one == {"event_id": f"{0:032x}"}
        [last] = view.iterate(_EVENTS - 1, _EVENTS, columns=("position", "event_type"))
        assert last == {"position": _EVENTS - 1, "event_type": "decision"}


def test_a_follower_in_the_middle_of_a_segment_that_is_merged(layout: Layout) -> None:
    """A follower that read half a segment goes on after it when another takes its place (I6, I22)."""
    log = Log(REAL, layout)
    for numbers in (range(20_000), range(20_000, _EVENTS)):
        _append(log, numbers)
        log.seal()
    follower = Follower(log.files)
    found = [one["position"] for one in follower.read() or ()]
    assert 0 < len(found) < 20_000
    assert compact(log.files, everything=True).merged == 2
    while (more := follower.read()) is not None:
        found += [one["position"] for one in more]
    assert found == list(range(_EVENTS))


def test_a_follower_passes_nothing_when_a_slice_cannot_be_read(layout: Layout) -> None:
    """A read that fails in the middle of a segment gives nothing, and the next one begins there (I22)."""
    log = Log(REAL, layout)
    _append(log, range(_EVENTS))
    log.seal()
    [name] = log.segments()
    path = layout.segment(name)
    with open(path, "rb") as file:
        sound = file.read()
    follower = Follower(log.files)
    with open(path, "r+b") as file:
        file.seek(len(sound) // 2)
        file.write(bytes(256))
    found: list[Any] = []
    with pytest.raises(Corruption):
        while (more := follower.read()) is not None:
            found += [one["position"] for one in more]
    with open(path, "r+b") as file:
        file.write(sound)
    while (more := follower.read()) is not None:
        found += [one["position"] for one in more]
    assert found == list(range(_EVENTS))


def test_no_damage_makes_a_read_end_early(layout: Layout) -> None:
    """I11: whichever byte of a segment is wrong, a read gives every row or says that it is damaged."""
    log = Log(REAL, layout)
    log.append([event(n, payload={"n": n}) for n in range(8)])
    log.seal()
    (path,) = (log.layout.segment(name) for name in os.listdir(log.layout.directory(SEGMENT_DIR)))
    with open(path, "rb") as file:
        data = file.read()
    short = 0
    for at in range(4, len(data), 1 if HUNT else 11):
        for bit in (0, 3, 6):
            with open(path, "wb") as file:
                file.write(data[:at] + bytes([data[at] ^ 1 << bit]) + data[at + 1 :])
            try:
                with open_view(log.files) as view:
                    short += sum(1 for _ in view.iterate()) != 8
            except (Corruption, Unsupported):
                continue
    assert short == 0
