"""Exports and imports that are killed (SIGKILL, in a process of their own) and done again (I32, I36).

The process kills itself inside its n-th call that changes a file, n being spread over the whole run.
"""

import json
import os
import random
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from eventlog.base.types import LIFECYCLE_TYPES
from eventlog.exports import jsonl
from eventlog.exports.locusgraph import locusgraph
from eventlog.exports.locusgraph.locusgraph import CONSUMER
from eventlog.recorder.ledger import CURSOR, Consumer
from eventlog.store import Store
from tests.exports.stores import new_store, raw, small_log
from tests.older import append_as_before

PRELUDE = """
import os, signal, sys
left, calls = int(sys.argv[1]), 0

def dying(name):
    real = getattr(os, name)
    def call(*arguments, **options):
        global calls
        calls += 1
        if calls == left:
            if name == "pwrite":
                real(arguments[0], bytes(arguments[1])[: len(arguments[1]) // 2], arguments[2])
            os.kill(os.getpid(), signal.SIGKILL)
        found = real(*arguments, **options)
        if calls == -left:
            os.kill(os.getpid(), signal.SIGKILL)
        return found
    setattr(os, name, call)

from eventlog.exports import jsonl_import
from eventlog.exports.locusgraph import locusgraph
from tests.older import append_as_before
from eventlog.store import Store
for name in ("pwrite", "fsync", "fdatasync", "link", "unlink", "rename"):
    dying(name)
"""

EXPORTER = f"""{PRELUDE}
with Store.open(sys.argv[2]) as store:
    locusgraph.export(store, sys.argv[3])
print(calls)
"""

IMPORTER = f"""{PRELUDE}
jsonl_import._BATCH_LINES = 3
with Store.open(sys.argv[2]) as store:
    jsonl_import.load(store, sys.argv[3])
print(calls)
"""


def run(script: str, left: int, store: Path, file: Path) -> int | None:
    """The number of calls, None when the process died as it should."""
    command = [sys.executable, "-c", script, str(left), str(store), str(file)]
    done = subprocess.run(command, capture_output=True, check=False)
    if done.returncode == -signal.SIGKILL:
        return None
    assert done.returncode == 0, done.stderr.decode()
    return int(done.stdout)


def fractions(count: int) -> list[float]:
    """The first and the last call, and others at random; LOCUS_SEED draws others. Test ids show them."""
    draw = random.Random(int(os.environ.get("LOCUS_SEED", "1")))
    return [0.0, *sorted(round(draw.random(), 3) for _ in range(count)), 1.0]


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("filled")
    with new_store(place) as store:
        append_as_before(store, small_log())
        jsonl.export(store, str(place / "log.jsonl"))
    return place


@pytest.fixture(scope="module")
def calls_of_export(filled: Path, tmp_path_factory: pytest.TempPathFactory) -> int:
    place = shutil.copytree(filled, tmp_path_factory.mktemp("calls") / "s")
    calls = run(EXPORTER, 0, place / ".locus", place / "out")
    assert calls is not None
    return calls


@pytest.mark.parametrize("before", [True, False])
@pytest.mark.parametrize("fraction", fractions(1))
def test_a_killed_export_repeats_and_never_skips(
    fraction: float, before: bool, filled: Path, calls_of_export: int, tmp_path: Path
) -> None:
    """I32, I36: killed anywhere and done again, batches cover each position once; one file may repeat."""
    place = shutil.copytree(filled, tmp_path / "s")
    left = 1 + round(fraction * (calls_of_export - 1))
    assert run(EXPORTER, left if before else -left, place / ".locus", place / "0.out") is None
    with Store.open(place / ".locus") as store:
        for number in range(1, 4):
            locusgraph.export(store, str(place / f"{number}.out"))
            store.append([{"event_type": "feedback", "event_id": f"{number:032x}".replace("0", "f")}])
        locusgraph.export(store, str(place / "4.out"))
        reached = Consumer(store, CONSUMER).position
        events = raw(store)

    covered = sorted(
        (json.loads(str(e["payload"]))["since"], json.loads(str(e["payload"]))["position"])
        for e in events
        if e["event_type"] == CURSOR
    )
    assert [since for since, _ in covered] == [0, *(until for _, until in covered[:-1])]
    assert covered[-1][1] == reached

    files = {path: parsed(path) for path in sorted(place.glob("*.out"))}
    listed = [record["context_id"] for records in files.values() for record in records]
    bookkeeping = (*LIFECYCLE_TYPES, CURSOR)
    wanted = {
        str(e["context_id"] or f"feedback:{e['event_id']}")
        for e in events
        if e["event_type"] not in bookkeeping
    }
    assert wanted <= set(listed)
    batches = [records for path, records in files.items() if path.name != "0.out"]
    later = [
        record["context_id"] for records in batches for record in records if record["context_id"] in wanted
    ]
    assert len(later) == len(set(later))  # only the file of the killed one may repeat


def parsed(path: Path) -> list[dict[str, Any]]:
    """The records of a file; one that has its name is whole."""
    data = path.read_bytes()
    assert data.endswith(b"\n")
    return [json.loads(line) for line in data.splitlines()]


@pytest.mark.parametrize("fraction", fractions(3))
def test_a_killed_import_is_finished_by_repeating_it(fraction: float, filled: Path, tmp_path: Path) -> None:
    """I1, I32: an import that was killed anywhere and is repeated leaves the log of one that was not."""
    with new_store(tmp_path / "two"):
        pass
    store_dir = tmp_path / "two/.locus"
    batches = 6  # of 3 events, each with a write and a sync; the first makes the journal
    left = 1 + round(fraction * 2 * batches)
    assert run(IMPORTER, left, store_dir, filled / "log.jsonl") is None
    assert run(IMPORTER, 0, store_dir, filled / "log.jsonl") is not None
    with Store.open(store_dir) as two, Store.open(filled / ".locus") as one:
        assert raw(two) == raw(one)
        assert two.journal.next_position() == 14
