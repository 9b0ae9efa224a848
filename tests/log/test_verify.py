"""Verification finds whatever is not as it was written."""

import os
from pathlib import Path

import pytest

from eventlog.base.errors import EventLogError
from eventlog.base.fs import REAL, read_file
from eventlog.base.layout import DIRECTORIES, Layout
from eventlog.base.locks import APPEND
from eventlog.log import manifest as manifests
from eventlog.log.finding import QUICK, READ, Finding
from eventlog.log.journal_reading import scan_journal
from eventlog.log.verify import verify
from tests.conftest import files_of
from tests.log.logs import STORE_ID, Log, event
from tests.simfs import Call, sim_store


@pytest.fixture
def log(layout: Layout) -> Log:
    """A log of two segments, a closed journal and an active one."""
    log = Log(REAL, layout)
    for n in range(2):
        log.append([event(n, tool="Bash"), event(n + 10)])
        log.seal()
    log.append([event(3)])
    log.journal.rotate()
    log.append([event(4)])
    log.append([event(5)])
    return log


def findings(log: Log, level: str = READ) -> list[Finding]:
    return verify(log.files, level)


def files(layout: Layout) -> list[str]:
    """Every file of the log with content."""
    found = []
    for name in DIRECTORIES:
        directory = layout.directory(name)
        if name.startswith("log/"):
            found += [f"{directory}/{file}" for file in REAL.listdir(directory)]
    return sorted(found)


@pytest.mark.parametrize("level", [QUICK, READ])
def test_a_sound_log_has_no_findings(log: Log, level: str) -> None:
    """I16: nothing is reported where nothing is wrong, however the log came to be."""
    assert findings(log, level) == []
    log.seal()
    assert findings(log, level) == []


def test_an_empty_store_has_no_findings(layout: Layout) -> None:
    """A log that was never written to is sound."""
    assert verify(files_of(REAL, layout), READ) == []


def test_an_unknown_level_is_a_mistake_of_the_caller(layout: Layout) -> None:
    """There are two levels."""
    with pytest.raises(ValueError, match="deep"):
        verify(files_of(REAL, layout), "deep")


@pytest.mark.slow
def test_every_flipped_byte_of_every_file_is_found(log: Log) -> None:
    """`read` names the file that holds a changed byte, wherever it is; readers fail cleanly (I11)."""
    for path in files(log.layout):
        size = os.path.getsize(path)
        offsets = {0, 1, size - 1, size - 9, *range(0, size, max(1, size // 12))}
        for at in sorted(offsets):
            with open(path, "r+b") as file:
                file.seek(at)
                byte = file.read(1)[0]
                file.seek(at)
                file.write(bytes([byte ^ 0x21]))
                file.flush()
                found = findings(log)
                assert path in {finding.path for finding in found}, f"byte {at} of {path}"
                assert all(finding.what.endswith(".") for finding in found)
                try:
                    log.rows()
                except EventLogError as error:
                    assert error.exit_code in (1, 12)
                file.seek(at)
                file.write(bytes([byte]))
    assert findings(log) == []


@pytest.mark.slow
@pytest.mark.parametrize("level", [QUICK, READ])
def test_a_missing_file_is_found(log: Log, level: str) -> None:
    """Segments, journals and manifests that are gone are named with what was in them (I13)."""
    for path in files(log.layout):
        data = Path(path).read_bytes()
        os.unlink(path)
        found = findings(log, level)
        Path(path).write_bytes(data)
        # Nobody needs an old manifest; that there was a journal after journal 3, the note says.
        assert bool(found) is not (path == log.layout.manifest(1)), path


def test_quick_reads_sizes_and_footers(log: Log) -> None:
    """A truncated segment shows without reading all of it."""
    path = log.layout.segment(log.segments()[0])
    os.truncate(path, os.path.getsize(path) - 1)

    (finding,) = findings(log, QUICK)

    assert finding.path == path
    assert "positions [0, 2)" in finding.what


def test_a_torn_tail_is_reported_with_its_place(log: Log) -> None:
    """Bytes after the last frame may be a crash or damage; either way they are reported."""
    path = log.layout.journal(4)
    size = len(Path(path).read_bytes().rstrip(b"\0"))
    with open(path, "r+b") as file:
        file.seek(size)
        file.write(b"half")

    (finding,) = findings(log, QUICK)

    assert (finding.path, finding.offset) == (path, size)
    assert str(finding).startswith(f"{path} at byte {size}: 4 bytes")


def test_an_append_in_progress_is_not_reported() -> None:
    """What looks torn is read again when no append can be running."""
    sim, layout = sim_store()
    log = Log(sim, layout)
    log.append([event(1)])
    path = layout.journal(1)
    whole = read_file(sim, path)
    fd = sim.open(path, os.O_RDWR)
    sim.truncate(fd, len(whole.rstrip(b"\0")) - 20)

    def finish(call: Call) -> None:
        if call.name == "open" and call.args[0] == layout.lock(APPEND):
            sim.pwrite(fd, whole, 0)

    sim.before = finish

    assert verify(files_of(sim, layout), READ) == []


@pytest.mark.slow
def test_a_log_in_use_has_no_findings() -> None:
    """Appends, a rotation and a seal between any two calls of verification look like no damage."""
    n = 0
    left = -1
    while left < 0:
        sim, layout = sim_store()
        log = Log(sim, layout)
        for number in range(3):
            log.append([event(number)])
            if number < 2:
                log.seal()
        left = n

        def others(_call: Call, log: Log = log) -> None:
            nonlocal left
            if left == 0:
                log.append([event(10)])
                log.journal.rotate()
                log.append([event(11)])
                log.seal()
                log.append([event(12)])
            left -= 1

        sim.before = others
        assert verify(files_of(sim, layout), READ) == [], f"before call {n}"
        n += 1
    assert n > 20


def test_a_damaged_frame_is_reported_with_its_positions(log: Log) -> None:
    """The finding says which events are lost."""
    path = log.layout.journal(4)
    frame = scan_journal(REAL, path, store_id=STORE_ID).frames[0]
    with open(path, "r+b") as file:
        file.seek(frame.offset + 50)
        file.write(b"\0")

    (finding,) = findings(log, QUICK)

    assert (finding.path, finding.offset) == (path, frame.offset)
    assert f"positions [{frame.base}, {frame.end}) are lost" in finding.what


def test_positions_that_were_lost_before_sealing_stay_named(log: Log) -> None:
    """Sealing a damaged journal does not make the loss invisible (I13)."""
    path = log.layout.journal(3)
    frame = scan_journal(REAL, path, store_id=STORE_ID).frames[0]
    with open(path, "r+b") as file:
        file.seek(frame.offset + 50)
        file.write(b"\0")
    log.seal()

    finding, quarantined = findings(log)

    assert f"positions [{frame.base}, {frame.end}) were destroyed in journal 3" in finding.what
    assert "log/quarantine/" in quarantined.path and quarantined.damage


def test_manifests_of_two_histories_are_found(log: Log) -> None:
    """Each manifest names the digest of the one before it (I16)."""
    other = manifests.Manifest(STORE_ID.hex(), 1, next_journal=7)
    Path(log.layout.manifest(1)).write_bytes(manifests.encode(other))

    (finding,) = findings(log)

    assert finding.path == log.layout.manifest(2)
    assert "two histories" in finding.what
