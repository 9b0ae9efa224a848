"""What commands say when rot took events from the log: never a short answer without a word (I11, P7)."""

import json
import os
import time
from pathlib import Path
from typing import ClassVar

import pytest

from eventlog.base.fs import FileSystem
from eventlog.log import checked
from eventlog.maintenance.upkeep import maintain
from eventlog.mcp.call import ToolCall
from eventlog.mcp.tools import tools_for
from eventlog.store import Store

from .support import Ended, locus_process

GAP = range(2, 3)


def event(number: int) -> dict[str, object]:
    """An event with a session of its own."""
    return {
        "event_type": "action", "agent": "script", "agent_session_id": f"s{number}",
        "event_id": f"{number:032x}", "title": f"Number {number}", "payload": {"n": number},
    }  # fmt: skip


def flip_in_journal(root: Path, text: bytes) -> None:
    """Change one bit of the frame that holds `text`."""
    (journal,) = (root / "log/journal").iterdir()
    data = journal.read_bytes()
    at = data.index(text)
    journal.write_bytes(data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :])


@pytest.fixture
def rotten(tmp_path: Path) -> Path:
    """A directory whose store has five events in frames of their own, the third of them unreadable."""
    with Store.init(tmp_path / ".locus", force=True) as store:
        for number in range(5):
            store.append([event(number)])
    flip_in_journal(tmp_path / ".locus", b"Number 2")
    return tmp_path


def locus(root: Path, *arguments: object) -> Ended:
    return locus_process(*arguments, cwd=root, LOCUS_NO_MAINTENANCE="1")


COMMANDS = [
    ("sql", "select count(*) as n from events"),
    ("sql", "select max(title) from events"),
    ("sql", "select count(*) from sessions"),
    ("log",),
    ("session", "ls"),
    ("status",),
    ("stats",),
    ("errors",),
    ("decisions",),
    ("export", "jsonl", "--to", "-"),
    ("search", "Number"),
    ("show", f"{3:032x}"),
]


@pytest.mark.parametrize("sealed", [False, True])
@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_every_reading_command_tells_of_a_gap(rotten: Path, command: tuple[str, ...], sealed: bool) -> None:
    """I11: an answer without the lost event ends with 4 and names its position, before sealing and after."""
    if sealed:
        assert locus(rotten, "store", "seal").code in (0, 4)
    done = locus(rotten, *command)

    assert done.code == 4, done.err
    assert "1 event could not be read" in done.err and "[2, 3)" in done.err
    assert "locus store verify" in done.err


@pytest.mark.parametrize("how", ["rot", "cut"])
def test_a_lost_end_is_reported_before_anybody_appends(tmp_path: Path, how: str) -> None:
    """I11: the newest events were acknowledged, so an answer without them is not whole."""
    with Store.init(tmp_path / ".locus", force=True) as store:
        for number in range(5):
            store.append([event(number)])
        if how == "rot":
            flip_in_journal(tmp_path / ".locus", b"Number 4")
        else:
            path = store.layout.journal(1)
            with store.view() as view:
                (journal,) = view._walk()
                os.truncate(path, journal.frames[4].offset)
    with Store.open(tmp_path / ".locus") as store:
        assert [one["position"] for one in store.events()] == [0, 1, 2, 3]
        assert store.unread == (range(4, 5),)
    done = locus(tmp_path, "sql", "select count(*) from events")
    assert done.code == 4 and "[4, 5)" in done.err


@pytest.mark.parametrize("sealed", [False, True])
def test_the_rest_is_reported(rotten: Path, sealed: bool) -> None:
    """The four events that can be read are in the answer, and JSON has the gap."""
    if sealed:
        locus(rotten, "store", "seal")
    counted = locus(rotten, "sql", "--json", "select count(*) as n from events")
    status = locus(rotten, "status", "--json")

    assert b'"n":4' in counted.out.replace(b" ", b"")
    assert json.loads(counted.err.splitlines()[-1])["unread"] == [[2, 3]]
    assert json.loads(status.out)["unread"] == [[2, 3]]


def test_an_intact_log_has_no_gap(tmp_path: Path) -> None:
    """Without damage nothing is stated, and the key is not there."""
    with Store.init(tmp_path / ".locus", force=True) as store:
        store.append([event(0)])
    status = locus(tmp_path, "status", "--json")

    assert (status.code, status.err) == (0, "")
    assert "unread" not in json.loads(status.out)


def test_verify_and_repair_have_findings_instead(rotten: Path) -> None:
    """The commands whose matter damage is end as they always did, and afterwards nobody says it again."""
    assert locus(rotten, "store", "verify").code == 12
    repaired = locus(rotten, "store", "repair", "--yes")
    assert "could not be read and" not in repaired.err
    assert locus(rotten, "sql", "select count(*) from events").code == 0


def test_a_store_and_its_results_know_the_gap(rotten: Path) -> None:
    """Python asks `Store.unread` and `Result.unread`."""
    with Store.open(rotten / ".locus") as store:
        found = store.query("select count(*) from events")
        assert (found.rows, found.unread, store.unread) == ([(4,)], (GAP,), (GAP,))


def test_a_follower_passes_over_a_gap_and_says_so(rotten: Path) -> None:
    """I11: following gives what can be read, and the store knows what was passed over."""
    with Store.open(rotten / ".locus") as store:
        given = [int(str(one["event_id"]), 16) for one in store.follow(poll_s=0.02, timeout_s=0.5)]
        assert given == [0, 1, 3, 4]
        assert store.unread == (GAP,)


def segments(root: Path) -> list[Path]:
    return sorted((root / ".locus/log/segments").iterdir())


@pytest.fixture
def sealed(tmp_path: Path) -> Path:
    """A directory whose store has two hundred sealed events, and a record of what was checked."""
    with Store.init(tmp_path / ".locus", force=True) as store:
        store.append([event(number) for number in range(200)])
        store.seal()
    settle(tmp_path)
    assert locus(tmp_path, "sql", "select max(title) from events").code == 0
    return tmp_path


def settle(root: Path) -> None:
    """Wait until the times of the segments are old enough to tell a later change."""
    newest = max(path.stat().st_ctime_ns for path in segments(root))
    while time.time_ns() - newest <= 50_000_000:
        time.sleep(0.01)


def test_no_flip_in_a_segment_comes_back_as_a_value(sealed: Path) -> None:
    """I11: whatever byte of a segment changes, SQL refuses it; DuckDB alone returned wrong values."""
    (path,) = segments(sealed)
    good = path.read_bytes()
    for at in range(10, len(good), len(good) // 12):
        path.write_bytes(good[:at] + bytes([good[at] ^ 4]) + good[at + 1 :])
        done = locus(sealed, "sql", "select count(*), max(title), max(payload), max(event_id) from events")
        assert (done.code, done.out) == (12, b""), (at, done)
        assert path.name in done.err
    path.write_bytes(good)
    assert locus(sealed, "sql", "select max(title) from events").code == 0


class Counting(FileSystem):
    """Counts the bytes that are read by `pread`, with a clock and a boot of its own."""

    def __init__(self) -> None:
        self.bytes = 0
        self.later_ns = 0
        self.boot = b"one"

    def pread(self, fd: int, size: int, offset: int) -> bytes:
        data = super().pread(fd, size, offset)
        self.bytes += len(data)
        return data

    def time_ns(self) -> int:
        return super().time_ns() + self.later_ns

    def boot_id(self) -> bytes:
        return self.boot


def test_a_checked_segment_is_not_hashed_again(sealed: Path) -> None:
    """I11: the second question hashes nothing until the file, the boot or the age of the check differs."""
    (path,) = segments(sealed)
    fs = Counting()

    def read_by_a_question() -> bool:
        with Store.open(sealed / ".locus", fs=fs) as store, store.view() as view:
            fs.bytes = 0
            checked.ensure(fs, store.layout, view.manifest.segments)
            return fs.bytes >= path.stat().st_size

    assert read_by_a_question()  # its boot is another
    assert not read_by_a_question()
    os.utime(path)
    settle(sealed)
    assert read_by_a_question()
    assert not read_by_a_question()
    fs.later_ns = 7 * 86_400 * 10**9
    assert read_by_a_question()
    fs.later_ns = 0
    assert read_by_a_question()  # a check that lies ahead counts as none
    (sealed / ".locus/config.toml").write_text("[integrity]\ncheck_days = 0\n")
    assert read_by_a_question() and read_by_a_question()


def test_a_question_reads_the_record_of_checks_once(sealed: Path) -> None:
    """I11: events, projections after an index and the numbering of the tail rest on one read."""

    class Opening(Counting):
        opened: ClassVar[list[str]] = []

        def open(self, path: str, flags: int, mode: int = 0o600) -> int:
            self.opened.append(path)
            return super().open(path, flags, mode)

    with Store.open(sealed / ".locus") as store:
        store.reindex()
        store.append([{"event_type": "action", "session_id": "another", "payload": {}}])
        store.seal()
        store.append([{"event_type": "action", "session_id": "another", "payload": {}}])
    with Store.open(sealed / ".locus", fs=Opening()) as store:
        store.query("select count(*) from turns, events where events.session_id = 'another'")

        assert Opening.opened.count(store.layout.checked) == 1


def test_the_doctor_says_how_old_checks_are(sealed: Path) -> None:
    """A finding tells how many segments were compared with their hashes, and when."""
    done = locus(sealed, "doctor")

    assert "1 segment compared with its hash at most 0.0 hours ago" in done.text


def test_maintenance_scrubs_and_the_doctor_names_what_it_finds(sealed: Path) -> None:
    """Rot in a segment that nobody asks is found by maintenance, remembered, and reported."""
    (path,) = segments(sealed)
    good = path.read_bytes()
    path.write_bytes(good[:100] + bytes([good[100] ^ 1]) + good[101:])
    with Store.open(sealed / ".locus") as store:
        maintain(store)
    done = locus(sealed, "doctor")

    assert done.code == 1
    assert f"PROBLEM damage: {path}" in done.text and "locus store repair" in done.text
    path.write_bytes(good)
    assert locus(sealed, "sql", "select max(title) from events").code == 0
    assert "PROBLEM damage" not in locus(sealed, "doctor").text


@pytest.mark.parametrize(
    ("name", "arguments"),
    [("sql", {"query": "select count(*) from events"}), ("list_sessions", {}), ("decisions", {})],
)
def test_a_tool_of_mcp_tells_of_a_gap(rotten: Path, name: str, arguments: dict[str, str]) -> None:
    """The answers of MCP's tools begin with what they lack."""
    (tool,) = (tool for tool in tools_for("claude-code") if tool.name == name)
    answer = ToolCall.of(tool, arguments).answer(str(rotten / ".locus"))

    assert "1 event could not be read and is missing from this answer" in answer["text"]
