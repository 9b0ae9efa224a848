"""Invariants that span rooms: every file of a whole store damaged, deleted, raced for and locked.

The store of these tests is small and has everything: two segments, a closed and an active journal, two
packs, an idx over one of them, an index. Its answers were taken when it was sound.
"""

import ast
import gc
import json
import os
import shutil
import subprocess
import sys
import threading
import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import eventlog
from eventlog.base.errors import Corruption, LockTimeout, Unsupported
from eventlog.base.layout import StoreFiles
from eventlog.base.types import Event
from eventlog.blobs.ids import to_text
from eventlog.log import segment
from eventlog.log.numbering import NUMBERING_COLUMNS
from eventlog.log.reader import open_view
from eventlog.log.seal import seal
from eventlog.recorder.recorder import Recorder
from eventlog.store import Store
from tests.log.logs import Log
from tests.log.logs import event as log_event
from tests.simfs import Call, sim_store

# Where damage may be, by the directory of the file: what a reader may then say.
DERIVED = ("index", "snapshots/idx")
ROOMS = ("log/journal", "log/manifest", "log/segments", "snapshots/packs", *DERIVED)
ONE_TIB = 1 << 40


class Answers:
    """What a store says: its events, its contents and what SQL makes of both."""

    def __init__(self, store: Store, blobs: list[str]) -> None:
        self.events = list(store.events())
        self.blobs = {name: store.blob(name) for name in blobs}
        self.turns = store.query("select * from turns order by session_id, turn").rows


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, Answers]]:
    """The whole store, and its answers. Tests work on copies."""
    root = tmp_path_factory.mktemp("sound") / ".locus"
    names = []
    with Store.init(root) as store:
        recorder = Recorder(store, agent="tester", agent_session_id="one")
        for n in range(3):
            turn = recorder.start_turn(f"Change {n}")
            turn.file("a.txt", before=None, after=b"content %d\n" % n * 20)
            turn.action("Bash", {"command": "ls"}, success=True)
            turn.end(title=f"Changed {n}")
            if n < 2:
                store.seal()
                store.reindex()
        store.journal.rotate()
        recorder.end_session("Done")
        for row in store.events():
            names += [str(row["after_hash"])] if row["after_hash"] else []
        yield root, Answers(store, names)


@contextmanager
def copy_of(root: Path, tmp_path: Path) -> Iterator[Path]:
    copy = tmp_path / "copy" / ".locus"
    shutil.copytree(root, copy)
    try:
        yield copy
    finally:
        shutil.rmtree(copy.parent)


def files_of(root: Path, *directories: str) -> list[Path]:
    """Files with content, of all directories by default."""
    found = sorted(p for p in root.rglob("*") if p.is_file() and p.stat().st_size)
    rooms = tuple(f"{root}/{directory}/" for directory in directories)
    return [p for p in found if p.name != ".gitignore" and (not rooms or str(p).startswith(rooms))]


def damages_of(data: bytes) -> Iterator[bytes]:
    """Damaged forms of a file: flipped bits, cuts, zeros and rubbish, wherever something may be at stake."""
    size = min(len(data), len(data.rstrip(b"\0")) + 1)  # of a journal's room a byte
    places = sorted({5, 30, size // 4, size // 2, size * 3 // 4, size - 40, size - 1})
    for i, at in enumerate(place for place in places if 0 <= place < size):
        yield data[:at] + bytes([data[at] ^ 1 << i % 8]) + data[at + 1 :]
    for at in (0, size // 3, size - 1):
        yield data[: max(at, 0)]
    yield data[: size // 2] + bytes(size - size // 2)
    yield data + data


def test_the_whole_store_says_the_same_or_that_it_is_damaged(
    sound: tuple[Path, Answers], tmp_path: Path
) -> None:
    """I11, I22: of every file any damage is found by `verify` or has no effect; no reader gets a wrong
    answer.

    What is derived may be damaged without any effect; a journal that ends early is a torn append.
    """
    root, answers = sound
    checked = 0
    with copy_of(root, tmp_path) as copy:
        for path in files_of(copy):
            data = path.read_bytes()
            if path == files_of(copy, "index")[0]:
                continue  # the older generation is not read
            derived = str(path.relative_to(copy)).startswith(DERIVED)
            for damaged in damages_of(data):
                if damaged != data:
                    path.write_bytes(damaged)
                    _answers_right_or_not_at_all(copy, path, answers, derived=derived)
                    checked += 1
            path.write_bytes(data)
    assert checked > 100


def _answers_right_or_not_at_all(copy: Path, path: Path, answers: Answers, *, derived: bool) -> None:
    where = path.relative_to(copy)
    try:
        store = Store.open(copy)
    except (Corruption, Unsupported):
        assert path.name == "STORE", where
        return
    with store:
        if derived:
            assert "index" not in str(where) or _turns(store) == answers.turns, where
            assert {name: store.blob(name) for name in answers.blobs} == answers.blobs, where
            return
        found = _told(lambda: list(store.events()))
        turns = _told(lambda: _turns(store)) if "log/segments" in str(where) else None
        if "log/journal" in str(where):
            known = {event["event_id"]: _without_numbers(event) for event in answers.events}
            assert all(known[e["event_id"]] == _without_numbers(e) for e in found or ()), where
        else:
            assert found in (None, answers.events), where
        for name, content in answers.blobs.items():
            assert _blob(store, name) in (None, content), where
        # DuckDB checks no page checksums (docs/design.md §10): then it is `verify` that names the file.
        named = {finding.path for finding in store.verify("read")}
        assert named or (found == answers.events and turns in (None, answers.turns)), where


def _blob(store: Store, name: str) -> Any:
    return _told(lambda: store.blob(name))


def _turns(store: Store) -> list[tuple[Any, ...]]:
    return store.query("select * from turns order by session_id, turn").rows


def _told(ask: Callable[[], Any]) -> Any:
    """The answer, None for an honest refusal. Whatever else is raised is the test's failure."""
    try:
        return ask()
    except (Corruption, Unsupported):
        return None


def test_each_byte_of_a_journal_counts(tmp_path: Path) -> None:
    """I11: a journal with one bit of any byte changed gives events where they were, and names the rest."""
    store = Store.init(tmp_path / ".locus", repo_hash="0123456789ab")
    for n in range(3):
        store.append([{"event_type": "action", "event_id": f"{n:032x}", "payload": {"n": n}}] * (n + 1))
    store.append([{"event_type": "action", "event_id": "f" * 32}])
    sound_rows = {row["event_id"]: _without_numbers(row) for row in store.events()}
    path = Path(store.layout.journal(1))
    data = path.read_bytes().rstrip(b"\0")
    for at in range(len(data)):
        changed = bytearray(data)
        changed[at] ^= 1 << at % 8
        path.write_bytes(changed)
        try:
            with Store.open(store.layout.root) as fresh, fresh.view() as view:
                rows = [{**row, "payload": json.loads(str(row["payload"]))} for row in view.iterate()]
                lost = {p for r in view.damaged for p in range(r.base, r.end)}
                end = view.next_position
        except (Corruption, Unsupported):
            continue
        assert len(rows) < 4, f"byte {at} does not count"
        assert all(_without_numbers(row) == sound_rows[row["event_id"]] for row in rows), f"byte {at}"
        missing = {0, 1, 3, 6} - {row["position"] for row in rows}
        assert all(p in lost or p >= end for p in missing), f"byte {at}: {missing} missing, {lost} named"


def _without_numbers(event: Event) -> Event:
    """Events after a lost one count without it."""
    return {name: value for name, value in event.items() if name not in NUMBERING_COLUMNS}


ASK_ALL = """
import resource, sys, time
import duckdb, pyarrow.parquet
from eventlog.base.errors import Corruption, QueryError
from eventlog.store import Store
used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (used + (4 << 30),) * 2)
asks = {
    "events": lambda store: list(store.events()),
    "blob": lambda store: store.blob(sys.argv[2]),
    "query": lambda store: store.query("from turns"),
    "append": lambda store: store.append([{"event_type": "action"}]),
    "verify": lambda store: store.verify("quick"),
    "seal": lambda store: store.seal(),
    "reindex": lambda store: store.reindex(),
}
for name, ask in asks.items():
    try:
        with Store.open(sys.argv[1]) as store:
            ask(store)
    except Corruption:
        pass
    print(name, file=sys.stderr)
"""


@pytest.mark.parametrize("directory", ["STORE", *(room for room in ROOMS if room != "index")])
def test_a_file_that_grew_without_end_costs_no_memory(
    sound: tuple[Path, Answers], tmp_path: Path, directory: str
) -> None:
    """I11, I35: a file that claims a tebibyte is refused or passed over, not read."""
    root, answers = sound
    with copy_of(root, tmp_path) as copy:
        path = files_of(copy, directory)[-1] if directory in ROOMS else copy / directory
        os.truncate(path, ONE_TIB)
        done = subprocess.run(
            [sys.executable, "-c", ASK_ALL, str(copy), next(iter(answers.blobs))],
            stderr=subprocess.PIPE,
            text=True,
            timeout=60,
        )

    assert (done.returncode, done.stderr.split()[-1:]) == (0, ["reindex"]), done.stderr
    assert "Traceback" not in done.stderr


def test_answers_need_nothing_that_is_derived(sound: tuple[Path, Answers], tmp_path: Path) -> None:
    """I22: without index/ and idx/, singly and together, every answer and every number is the same."""
    root, answers = sound
    for gone in (("index",), ("snapshots/idx",), DERIVED):
        with copy_of(root, tmp_path) as copy, Store.open(copy) as store:
            for name in gone:
                shutil.rmtree(copy / name)
            assert Answers(store, [*answers.blobs]).__dict__ == answers.__dict__
            store.seal()
            assert store.rebuild() is not None
            assert Answers(store, [*answers.blobs]).__dict__ == answers.__dict__


# -- sealing ---------------------------------------------------------------------------------------


def test_other_row_groups_hold_the_same_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """I15: the same journals sealed twice give equal bytes; with other row groups, the same rows."""
    root = tmp_path / ".locus"
    with Store.init(root) as store:
        store.append([log_event(n % 30, title=f"{n}") for n in range(50)])
        before = list(store.events())
    sealed = []
    for rows_max in (segment.ROW_GROUP_ROWS, segment.ROW_GROUP_ROWS, 7):
        with copy_of(root, tmp_path) as copy, Store.open(copy) as store:
            monkeypatch.setitem(segment.WRITE_OPTIONS, "row_group_size", rows_max)
            store.seal()
            assert list(store.events()) == before
            (path,) = files_of(copy, "log/segments")
            sealed.append((path.name, path.read_bytes()))

    assert sealed[0] == sealed[1]
    assert sealed[0] != sealed[2]


def test_no_segment_is_taken_away_from_a_seal_under_way() -> None:
    """I18, I16: another sealer, at every call of the first, waits; none of its segments ever vanishes."""
    fs, layout = sim_store()
    log, other = Log(fs, layout), Log(fs, layout)
    log.append([log_event(1)])
    outcomes = []

    def interfere(call: Call) -> None:
        def try_it() -> None:
            try:
                seal(StoreFiles(fs, layout, log.store_id), other.journal, lock_timeout_s=0.0)
                outcomes.append("sealed")
            except LockTimeout:
                outcomes.append("locked")

        thread = threading.Thread(target=try_it)
        thread.start()
        thread.join()

    fs.before = interfere
    log.seal()
    fs.before = None

    assert outcomes.count("locked") > 20
    assert [row["position"] for row in log.rows()] == [0]
    with open_view(StoreFiles(fs, layout, log.store_id)) as view:
        assert log.segments() == [entry.name for entry in view.manifest.segments]


# -- locks and resources ---------------------------------------------------------------------------

HOLDER = """
import sys
from eventlog.base.fs import REAL
from eventlog.base.layout import Layout, StoreFiles
from eventlog.base.locks import acquire
with acquire(REAL, Layout(sys.argv[1]), sys.argv[2]):
    print("held", flush=True)
    sys.stdin.read()
"""


@pytest.mark.parametrize(
    ("lock", "waits", "goes_on"),
    [
        ("gc", ("put",), ("append", "seal", "read")),
        ("maintain", ("seal",), ("append", "put", "read")),
        ("append", ("append", "rotate and seal"), ("put", "read")),
    ],
)
def test_a_process_that_waits_for_a_lock_that_is_never_released(
    tmp_path: Path, lock: str, waits: tuple[str, ...], goes_on: tuple[str, ...]
) -> None:
    """I31, I33: with a lock held elsewhere its users end in LockTimeout, and all others go on."""
    store = Store.init(tmp_path / ".locus")
    store.append([{"event_type": "action"}])
    store.journal.rotate()
    store.journal._lock_timeout_s = 0.05
    acts: dict[str, Callable[[], object]] = {
        "append": lambda: store.append([{"event_type": "action"}]),
        "put": lambda: store.blobs.writer(lock_timeout_s=0.05).close(),
        "seal": lambda: store.seal(rotate_active=False, lock_timeout_s=0.05),
        "rotate and seal": lambda: store.seal(lock_timeout_s=0.05),
        "read": lambda: list(store.events()),
    }
    with subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(tmp_path / ".locus"), lock],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"held\n"
        for name in waits:
            with pytest.raises(LockTimeout):
                acts[name]()
        for name in goes_on:
            acts[name]()
        holder.communicate(b"")
    for act in acts.values():
        act()


def test_nobody_waits_in_the_kernel() -> None:
    """I31: locks are asked for without waiting, in one place, so that every wait is ours and has an end."""
    base = Path(eventlog.__file__).parent
    users = set()
    for path in base.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and ast.unparse(node.func) in ("fcntl.flock", "fcntl.lockf"):
                users.add((path.name, ast.unparse(node.args[1])))

    assert users == {
        ("fs.py", "(fcntl.LOCK_EX if exclusive else fcntl.LOCK_SH) | fcntl.LOCK_NB"),
        ("fs.py", "fcntl.LOCK_UN"),
    }


def test_a_long_day_costs_no_descriptors_and_no_memory(tmp_path: Path) -> None:
    """I35: the thousandth event, turn of the recorder, view and put leave as much behind as the tenth."""
    with Store.init(tmp_path / ".locus") as store:
        for n in range(70):  # more packs than a reader keeps open
            _put(store, n)
        _work(store, 70)
        gc.collect()
        tracemalloc.start()
        try:
            descriptors, memory = len(os.listdir("/dev/fd")), tracemalloc.get_traced_memory()[0]
            for n in range(71, 81):
                _work(store, n)
            gc.collect()
            grown = tracemalloc.get_traced_memory()[0] - memory
        finally:
            tracemalloc.stop()
        assert len(os.listdir("/dev/fd")) == descriptors
        assert grown < 200_000, f"{grown:,} bytes for ten rounds of work"


def _work(store: Store, n: int) -> None:
    """A round of everything, sealed at its end, so that no tail grows."""
    for i in range(50):
        store.append([{"event_type": "action", "payload": {"n": n, "i": i}}])
    _put(store, n)
    with store.view() as view:
        assert sum(1 for _ in view.iterate()) == view.next_position
    store.seal()


def _put(store: Store, n: int) -> None:
    with store.blobs.writer() as writer:
        name = to_text(writer.put(b"%d" % n * 1000))
        writer.flush()
    assert store.blob(name)
