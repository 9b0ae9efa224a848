"""Writers, readers and a sealer as real processes on one store, killed at random; a checker afterwards.

The processes and the checker are tests/history.py. `LOCUS_HUNT=<minutes>` lets it go on for that long.
The checker itself is held to a table of doctored histories: each broken law must be found.
"""

import os
import random
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from eventlog.base.names import session_id_of
from eventlog.erasure import erasure
from eventlog.store import Store
from tests import history_contents as contents
from tests.history import Append, History, Hold, Read, Row, check, collect, digests

ROOT = Path(__file__).resolve().parent.parent
ROLES = {"writer": 2, "reader": 1, "sealer": 1, "keeper": 1, "collector": 1, "packer": 1, "copier": 1}
# In a hunt every second life has all of them.
MANY = ROLES | {"writer": 16, "reader": 4, "keeper": 2, "eraser": 1}


class Crowd:
    """The processes that are running now."""

    def __init__(self, root: Path, reports: Path, seed: int, writers: int) -> None:
        self._root = root
        self._writers = writers
        self._reports = reports
        self._seed = seed
        self.started = 0
        self.running: list[tuple[str, subprocess.Popen[bytes]]] = []
        self._names: dict[int, str] = {}  # by the number of the process

    def start(self, role: str) -> None:
        name = f"{role}{self.started}"
        arguments = [
            role,
            str(self._root),
            name,
            str(self._seed + self.started),
            f"{self._reports}/{name}.jsonl",
            str(self._writers),
        ]
        command = [sys.executable, "-m", "tests.history", *arguments]
        self.running.append((role, subprocess.Popen(command, cwd=ROOT, stderr=subprocess.PIPE)))
        self._names[self.running[-1][1].pid] = name
        self.started += 1

    def mortal(self) -> list[int]:
        """Which processes may be killed: not the readers, and nobody who has done nothing yet, on a busy
        machine."""
        return [
            i
            for i, (role, process) in enumerate(self.running)
            if role != "reader" and self._reported(self._names[process.pid])
        ]

    def _reported(self, name: str) -> bool:
        path = self._reports / f"{name}.jsonl"
        return path.exists() and path.stat().st_size > 0

    def kill(self, index: int) -> str:
        """SIGKILL it wherever it is; its role. Whoever had ended by itself had met an error."""
        role, process = self.running.pop(index)
        process.kill()
        complaints = process.communicate()[1].decode()
        assert complaints == "", complaints
        return role


def live(root: Path, reports: Path, seconds: float, seed: int, roles: dict[str, int]) -> Crowd:
    """Let the crowd work, killing one now and then, the readers excepted."""
    choose = random.Random(seed)
    crowd = Crowd(root, reports, seed, roles["writer"])
    try:
        for role, count in roles.items():
            for _ in range(count):
                crowd.start(role)
        until = time.monotonic() + seconds
        while time.monotonic() < until or not _all_reported(reports):
            time.sleep(choose.uniform(0.1, 1.0))
            mortal = crowd.mortal()
            if mortal:
                crowd.start(crowd.kill(choose.choice(mortal)))
    finally:
        while crowd.running:
            crowd.kill(0)
    return crowd


def _all_reported(reports: Path) -> bool:
    """Whether there is anything to check of everybody, however slow the machine."""
    text = "".join(path.read_text() for path in reports.glob("*.jsonl"))
    words = ("hold", "kept", "collected", "merged", "copied")
    enough = text.count('"base"') > 50 and text.count('"read"') > 4
    return enough and all(f'"{word}"' in text for word in words)


def test_a_crowd_of_processes_keeps_every_law(tmp_path: Path, hunt_minutes: float) -> None:
    """I1–I9, I13, I14, I16, I17, I21, I22, I24, I30, I32, I33: what every process was answered fits the
    store.

    Writers, readers, a sealer, and those who record contents, collect, merge packs and copy the store; in
    every second life of a hunt 28 of them, one of whom erases.
    """
    until = time.monotonic() + hunt_minutes * 60
    one_life(tmp_path / "0", 2.0, ROLES)
    lives = 0
    while time.monotonic() < until:  # fresh stores: readers read the whole log, so it must stay short
        lives += 1
        one_life(tmp_path / "hunt", 20.0, MANY if lives % 2 else ROLES)
        shutil.rmtree(tmp_path / "hunt")


def one_life(directory: Path, seconds: float, roles: dict[str, int]) -> None:
    """A store from its beginning to its end, and the check."""
    seed = int(os.environ.get("LOCUS_SEED", random.randrange(2**32)))
    print(f"seed {seed}")
    root, reports = directory / ".locus", directory / "reports"
    reports.mkdir(parents=True)
    Store.init(root).close()
    crowd = live(root, reports, seconds, seed, roles)

    with Store.open(root) as store:
        erasure.resume(store)
        history = collect(reports, store)
        left = [path for path in root.rglob("*") if path.is_file() and _holds(path, history.erased)]
        assert left == [], "I30"
        assert [finding for finding in store.verify("deep") if finding.damage] == []
        for turn, files in history.kept.items():
            assert contents.differs(store, turn, files, directory / "replayed") == []
        store.seal()
        store.reindex()
        again = collect(reports, store)
    acked = sum(op.acked for op in history.appends)
    print(
        f"{crowd.started} processes, {acked} appends, {len(history.reads)} reads, "
        f"{len(history.holds)} holds, {len(history.kept)} kept turns, {len(history.erased)} erasures"
    )
    rows, end = contents.rows_of_copy(root)
    *_, recorded = digests(rows)
    history.reads.append(Read("the copy", 0, sys.maxsize, end, recorded))
    assert check(history) == []
    assert again.rows == history.rows


def _holds(path: Path, texts: list[str]) -> bool:
    data = path.read_bytes()
    return any(text.encode() in data for text in texts)


# A small history in which everything happens that the checker knows of. At 5 stood a second event "S".
APPENDS = (
    Append("a.0", begin=10, ids=("A", "B", "C"), end=20, base=0),
    Append("b.0", begin=15, ids=("D", "S"), end=25, base=3),
    Append("a.1", begin=30, ids=("S", "E"), end=40, base=5),
    Append("c.0", begin=35, ids=("F", "G")),  # killed, and in the log
    Append("c.1", begin=36, ids=("H",)),  # killed, and not in the log
    Append("b.1", begin=50, ids=("I",), expect=9, end=60, base=9),
    Append("b.2", begin=70, ids=("J",), expect=12, end=80, conflict=10),
)


def small_history() -> History:
    rows: list[Row] = []
    seen = set()
    for op, base in zip(APPENDS, (0, 3, 5, 7, None, 9, None), strict=True):
        for i, id in enumerate(op.ids if base is not None else ()):
            assert base is not None
            if id not in seen:
                seen.add(id)
                rows.append(_row(base + i, id, f"{op.name} {i}", seq=len(rows) + 1))
    digest = dict(zip([0, 1, 2, 3, 4, 5, 7, 8, 9, 10], digests(rows), strict=True))
    reads = [
        Read("r", 26, 28, 5, digest[5], turns=(4, 1, 5)),
        Read("r", 41, 44, 7, digest[7]),
        Read("q", 90, 95, 10, digest[10], turns=(9, 1, 9)),
    ]
    return History(list(APPENDS), reads, [Hold(45, 65)], rows, next_position=10)


def _row(position: int, id: str, tag: str, *, seq: int) -> Row:
    return {
        **dict.fromkeys(("operation", "repo", "agent_turn_id")),
        "position": position,
        "event_id": id,
        "event_type": "action",
        "payload": {"tag": tag},
        "agent": "t",
        "agent_session_id": "s",
        "session_id": session_id_of("t", "s"),
        "turn": None,
        "turn_id": None,
        "seq": seq,
        "context_id": f"action:{session_id_of('t', 's')}_000_{seq:03d}",
        "extends": [f"session:session-{session_id_of('t', 's')}_{session_id_of('t', 's')}"],
    }


def _op(history: History, name: str, **changes: object) -> None:
    at = next(i for i, op in enumerate(history.appends) if op.name == name)
    history.appends[at] = replace(history.appends[at], **changes)  # type: ignore[arg-type]


def _see(history: History, at: int, **changes: object) -> None:
    history.reads[at] = replace(history.reads[at], **changes)  # type: ignore[arg-type]


def _forget(history: History, id: str) -> None:
    history.rows = [row for row in history.rows if row["event_id"] != id]


def _move(history: History, id: str, position: int) -> None:
    next(row for row in history.rows if row["event_id"] == id)["position"] = position


def _sent_by(history: History, id: str, tag: str) -> None:
    next(row for row in history.rows if row["event_id"] == id)["payload"] = {"tag": tag}


def _overtaken(history: History) -> None:
    """The batch at 0 began when the one at 5 had been acknowledged."""
    _op(history, "a.1", end=41)
    _op(history, "a.0", begin=42, end=44)


def _shorter(at: int) -> Callable[[History], None]:
    """A read that saw five positions."""
    return lambda history: _see(history, at, next_position=5, digest=history.reads[0].digest)


def _late_duplicate(history: History) -> None:
    """The second S is the visible one."""
    _move(history, "S", 5)
    _sent_by(history, "S", "a.1 0")


def _written_twice(history: History) -> None:
    history.rows.insert(1, _row(1, "A", "a.0 0", seq=2))


def _refused_and_written(history: History) -> None:
    history.rows.append(_row(10, "J", "b.2 0", seq=10))
    history.next_position = 11


BROKEN: list[tuple[str, str, Callable[[History], object]]] = [
    ("I1", "an acknowledged event is gone", lambda h: _forget(h, "E")),
    ("I1", "an acknowledged batch is elsewhere", lambda h: _op(h, "b.1", base=8, expect=8)),
    ("I1", "another event has the acknowledged position", lambda h: _sent_by(h, "D", "c.0 0")),
    ("I1", "the log ends before what was acknowledged", lambda h: setattr(h, "next_position", 9)),
    ("I2", "a position was given twice", lambda h: _op(h, "b.0", base=2)),
    ("I2", "positions belong to nobody", lambda h: setattr(h, "next_position", 20)),
    ("I3", "half a killed batch is there", lambda h: _forget(h, "G")),
    ("I3", "a foreign event is inside a batch", lambda h: _move(h, "G", 9)),
    ("I4", "a later batch comes first", _overtaken),
    ("I5", "a read saw something else", lambda h: _see(h, 1, digest=h.reads[0].digest)),
    ("I5", "a read saw more than there is", lambda h: _see(h, 2, next_position=11)),
    ("I6", "a later read is shorter", _shorter(2)),
    ("I6", "a read lacks what was acknowledged", _shorter(1)),
    ("I7", "an event is visible twice", _written_twice),
    ("I7", "nobody sent it", lambda h: _sent_by(h, "F", "x.0 0")),
    ("I8", "the second of two is visible", _late_duplicate),
    ("I9", "accepted where it did not expect to be", lambda h: _op(h, "b.1", expect=8)),
    ("I9", "refused where it expected to be", lambda h: _op(h, "b.2", expect=10)),
    ("I9", "refused and written", _refused_and_written),
    ("I21", "SQL counted turns as no prefix has them", lambda h: _see(h, 0, turns=(4, 1, 4))),
    ("I22", "a number is not the fold's", lambda h: h.rows[2].update(seq=7)),
    ("I30", "an erased text is there", lambda h: h.erased.append("a.0 1")),
    ("I33", "nothing was appended under the lock", lambda h: _op(h, "b.1", end=66)),
]


def test_a_sound_history_passes() -> None:
    """The checker accuses nobody of anything without cause: kills, duplicates and conflicts are lawful."""
    assert check(small_history()) == []


@pytest.mark.parametrize(("law", "what", "break_it"), BROKEN, ids=[what for _, what, _ in BROKEN])
def test_a_broken_law_is_named(law: str, what: str, break_it: Callable[[History], object]) -> None:
    """I1–I9, I21, I22, I33: of a history that was doctored, the checker names the law that it breaks."""
    history = small_history()
    break_it(history)

    assert law in {line.partition(":")[0] for line in check(history)}, check(history)
