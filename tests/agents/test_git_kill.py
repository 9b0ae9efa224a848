"""An import that is killed and repeated ends in the log of one that was not (I1, I24, I32).

The importer runs in a process of its own that kills itself (SIGKILL) inside the n-th call to the
file system; a killed write leaves half of its bytes. n covers the whole run.
"""

import os
import random
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from eventlog.base.types import Event
from eventlog.importers.git_history import import_git
from eventlog.store import Store
from tests.agents.histories import History
from tests.conftest import examples

REPO_HASH = "0" * 12
WINDOW_BYTES = 20_000

IMPORTER = f"""
import os, signal, sys
from eventlog.importers.git_history import import_git
from eventlog.base.fs import FileSystem
from eventlog.store import Store

class DyingFileSystem(FileSystem):
    def __init__(self, left):
        self.left = left
        self.calls = 0

    def __getattribute__(self, name):
        found = object.__getattribute__(self, name)
        if name in ("open", "pwrite", "fsync", "fdatasync", "truncate", "link", "unlink", "fsync_dir"):
            self.calls += 1
            self.left -= 1
            if self.left == 0:
                if name == "pwrite":
                    return lambda fd, data, offset: (found(fd, data[: len(data) // 2], offset), die())
                die()
        return found

def die():
    os.kill(os.getpid(), signal.SIGKILL)

store_dir, repository, left = sys.argv[1], sys.argv[2], int(sys.argv[3])
fs = DyingFileSystem(left)
with Store.open(store_dir, fs=fs) as store:
    import_git(store, repository, window_bytes={WINDOW_BYTES})
print(fs.calls)
"""


def _import(store_dir: Path, repository: str, left: int = 0) -> int | None:
    """Run the importer; the number of its calls, None when it died as it should."""
    done = subprocess.run(
        [sys.executable, "-c", IMPORTER, str(store_dir), repository, str(left)],
        capture_output=True,
        check=False,
    )
    if done.returncode == -signal.SIGKILL:
        return None
    assert done.returncode == 0, done.stderr.decode()
    return int(done.stdout)


def _new_store(place: Path) -> Path:
    place.mkdir()
    Store.init(place / ".locus", repo_hash=REPO_HASH).close()
    return place / ".locus"


def _raw(store_dir: Path) -> list[Event]:
    """Every event with its position, without what only says when it was written."""
    with Store.open(store_dir) as store:
        return [{k: v for k, v in row.items() if k != "recorded_at"} for row in store.events()]


def _raw_count(store_dir: Path) -> int:
    with Store.open(store_dir) as store:
        return store.journal.next_position()


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> str:
    history = History()
    for n in range(120):
        for file in range(n % 4 + 1):
            history.put(b"d%d/f%d" % (n % 5, file), b"content %d of %d\n" % (n, file) * 40)
        history.commit(f"Change number {n}")
    return history.write(str(tmp_path_factory.mktemp("repository") / "r"))


@pytest.fixture(scope="module")
def undisturbed(
    repository: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[int, list[Event]]]:
    """How many calls a whole import makes, and the log it leaves."""
    store_dir = _new_store(tmp_path_factory.mktemp("undisturbed") / "s")
    calls = _import(store_dir, repository)
    assert calls is not None
    yield calls, _raw(store_dir)


def _kills() -> list[float]:
    """Eight fractions of the run at random, forty in a hunt; LOCUS_SEED draws others. Test ids show them."""
    draw = random.Random(int(os.environ.get("LOCUS_SEED", "1")))
    return sorted(round(draw.random(), 3) for _ in range(examples(8, 40)))


@pytest.mark.parametrize("fraction", _kills())
def test_a_killed_import_is_continued_to_the_same_log(
    fraction: float, repository: str, undisturbed: tuple[int, list[Event]], tmp_path: Path
) -> None:
    """I1, I24, I32: killed at any fraction of its calls and repeated, the log is the undisturbed one.

    Same events, ids, numbers and positions, no duplicate after them, every blob there.
    """
    calls, expected = undisturbed
    store_dir = _new_store(tmp_path / "s")

    assert _import(store_dir, repository, max(1, int(calls * fraction))) is None
    there = _raw(store_dir)
    assert there == expected[: len(there)]

    assert _import(store_dir, repository) is not None
    assert _raw(store_dir) == expected
    assert _raw_count(store_dir) == len(expected)
    with Store.open(store_dir) as store:
        assert [
            e for e in expected for id in e["blobs"] or () if not store.blobs.contains(bytes.fromhex(id[7:]))
        ] == []  # type: ignore[attr-defined]
        assert store.verify("read") == []


def test_an_import_killed_again_and_again_gets_there(
    repository: str, undisturbed: tuple[int, list[Event]], tmp_path: Path
) -> None:
    """I32: every run gets a few calls further; no run needs repair, and the end is the same.

    A run first opens the packs that are there, so each one is given some more calls than the last.
    """
    calls, expected = undisturbed
    store_dir = _new_store(tmp_path / "s")
    kills = 0
    while _import(store_dir, repository, calls // 4 + 8 * kills) is None:
        kills += 1

    assert kills >= 3
    assert _raw(store_dir) == expected
    assert _raw_count(store_dir) == len(expected)


def test_a_kill_between_windows_and_another_limit_meet(
    repository: str, undisturbed: tuple[int, list[Event]], tmp_path: Path
) -> None:
    """I8: killed, continued with a limit, then in full: the same events as undisturbed, in some order."""
    calls, expected = undisturbed
    store_dir = _new_store(tmp_path / "s")
    assert _import(store_dir, repository, calls // 2) is None
    with Store.open(store_dir) as store:
        import_git(store, repository, limit=10)
        import_git(store, repository)

    def known(events: list[Event]) -> dict[object, Event]:
        return {event["event_id"]: {**event, "position": None} for event in events}

    assert known(_raw(store_dir)) == known(expected)


@pytest.mark.parametrize("length", [1, 2, 3, 4, 6, 200, 421, -8, -2, -1])
def test_any_beginning_of_the_log_is_continued(
    length: int, repository: str, undisturbed: tuple[int, list[Event]], tmp_path: Path
) -> None:
    """I32: batches end anywhere, also in the middle of a turn; exactly the missing events are appended."""
    _, expected = undisturbed
    store_dir = _new_store(tmp_path / "s")
    with Store.open(store_dir) as store:
        import_git(store, repository, window_bytes=WINDOW_BYTES)
    shutil.rmtree(store_dir / "log")
    for folder in ("log", "log/journal", "log/segments", "log/manifest", "log/quarantine"):
        (store_dir / folder).mkdir()
    with Store.open(store_dir) as store:
        store.append({k: v for k, v in event.items() if k != "position"} for event in expected[:length])
        import_git(store, repository, window_bytes=WINDOW_BYTES)

    assert _raw(store_dir) == expected
    assert _raw_count(store_dir) == len(expected)


def test_two_imports_at_once_write_the_history_once(
    repository: str, undisturbed: tuple[int, list[Event]], tmp_path: Path
) -> None:
    """I8, I24: two processes that import the same history see to it that each event is visible once."""
    _, expected = undisturbed
    store_dir = _new_store(tmp_path / "s")
    argv = [sys.executable, "-c", IMPORTER, str(store_dir), repository, "0"]
    both = [subprocess.Popen(argv, stdout=subprocess.DEVNULL) for _ in range(2)]

    assert [process.wait() for process in both] == [0, 0]
    visible = [{**event, "position": None} for event in _raw(store_dir)]
    assert sorted(visible, key=lambda e: str(e["event_id"])) == sorted(
        ({**event, "position": None} for event in expected), key=lambda e: str(e["event_id"])
    )
    with Store.open(store_dir) as store:
        store.seal()
        assert [{**e, "position": None} for e in _raw(store_dir)] == visible
        assert store.verify("read") == []
