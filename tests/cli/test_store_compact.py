"""Merging segments from the outside: by the command, and by a process that nobody waits for."""

import fcntl
import json
import os
import random
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from eventlog.base.locks import COMPACT
from eventlog.exports.locusgraph import locusgraph
from eventlog.log import manifest as manifests
from eventlog.log.verify import verify
from eventlog.maintenance.upkeep import is_needed, maintain
from eventlog.store import Store
from tests.cli.support import Ended, locus_process


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store.init(tmp_path / ".locus", repo_hash="0123456789ab", project_name="p") as made:
        yield made


def sealed(store: Store, count: int, text: str = "") -> list[dict[str, Any]]:
    """A store with so many segments more; what is in it."""
    for number in range(count):
        store.append(
            [{"event_type": "action", "session_id": "abcdefgh", "turn": number, "payload": {"t": text}}]
        )
        store.seal()
    return list(store.events())


def noise(seed: int) -> str:
    """Text that does not get smaller than 150 kB."""
    return random.Random(seed).randbytes(150_000).hex()


def segments(store: Store) -> int:
    return len(manifests.read_current(store.files).segments)


def run(store: Store, *arguments: str) -> Ended:
    return locus_process("store", "compact", *arguments, cwd=Path(store.layout.root).parent)


def notes(store: Store) -> list[Any]:
    return [event["payload"] for event in store.events(event_types=["maintenance"])]


def test_maintenance_merges_small_segments(store: Store) -> None:
    """P6, I14: maintenance makes one of eight small segments; the log says so, once."""
    before = sealed(store, 8)

    assert is_needed(store) and maintain(store)
    assert segments(store) == 1
    assert list(store.events())[:8] == before
    (note,) = store.events(since=8)
    assert (note["event_type"], note["agent"], note["operation"]) == ("maintenance", "locus", "compact")
    assert note["session_id"] is None and note["context_id"] is None and note["source"] == "system"
    payload = note["payload"]
    assert isinstance(payload, dict)
    assert (payload["merged"], payload["segments"], payload["events"]) == (8, 1, 8)
    assert payload["bytes_before"] > payload["bytes_after"] > 0
    assert not maintain(store) and len(notes(store)) == 1


def test_a_command_answers_and_then_starts_maintenance(store: Store) -> None:
    """P4, P6: a command that reads does no work for the store; it starts the process that does, and ends."""
    for number in range(8):
        sealed(store, 1, noise(number))
    cwd = Path(store.layout.root).parent
    ended = locus_process("session", "ls", cwd=cwd, LOCUS_NO_MAINTENANCE="1")
    assert ended.code == 0 and segments(store) == 8

    ended = locus_process("session", "ls", cwd=cwd, LOCUS_NO_MAINTENANCE="")

    assert ended.code == 0
    deadline = time.monotonic() + 60
    while not notes(store) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert segments(store) == 1 and len(notes(store)) == 1
    with open(f"{store.layout.root}/locks/maintainer.lock", "rb") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # it has ended


def test_a_command_that_reads_does_no_work_for_the_store(store: Store) -> None:
    """P4: with a tail that is long and segments that are many, an answer leaves both as they are."""
    sealed(store, 8)
    store.append([{"event_type": "action", "payload": {"text": "x" * (3 << 20)}}])
    assert is_needed(store)
    for words in (["session", "ls"], ["sql", "select count(*) from events"], ["timeline", "last"], ["log"]):
        locus_process(*words, cwd=Path(store.layout.root).parent, LOCUS_NO_MAINTENANCE="1")

    assert segments(store) == 8 and is_needed(store)
    assert maintain(store) and not is_needed(store)


def test_the_command_merges_all_and_says_what_came_of_it(store: Store) -> None:
    """P8, I14: `--all` takes what is not worth it otherwise; figures as words or as JSON."""
    before = sealed(store, 3)
    assert (ended := run(store)).code == 0 and ended.err == (
        "Nothing to merge: the segments are few, or large enough.\n"
    )
    ended = run(store, "--all")
    assert (ended.code, ended.out) == (0, b"")
    assert ended.err.startswith("Merged 3 segments into 1: ") and "3 files that were merged stay" in ended.err
    assert list(store.events())[:3] == before

    os.utime(store.layout.manifest(4), (1, 1))
    answer = json.loads(run(store, "--json").out)

    assert answer["version"] == 1
    assert (answer["compact"]["merged"], len(answer["compact"]["removed"]), answer["compact"]["waiting"]) == (
        0,
        3,
        0,
    )
    assert store.verify("deep") == []


def test_a_damaged_segment_stops_the_command(store: Store) -> None:
    """I11: it is named, with exit code 12, and maintenance does not stumble over it."""
    before = sealed(store, 8)
    name = sorted(os.listdir(store.layout.directory("log/segments")))[3]
    path = Path(store.layout.segment(name))
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    os.chmod(path, 0o600)
    path.write_bytes(data)

    ended = run(store)

    assert ended.code == 12 and name in ended.err and "left as it is" in ended.err
    assert not maintain(store) and segments(store) == 8
    assert path.read_bytes() == data
    assert [f.path for f in verify(store.files, "read")] == [str(path)]
    assert len(before) == 8


def test_a_merge_under_way_is_not_disturbed(store: Store) -> None:
    """P4, I31: maintenance does not wait for it, and goes on without."""
    sealed(store, 8)
    with open(store.layout.lock(COMPACT), "w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        assert not maintain(store)

    assert segments(store) == 8 and maintain(store)


def test_notes_of_maintenance_are_not_sent(store: Store, tmp_path: Path) -> None:
    """P5: what Locus notes for itself is no part of an export, and nobody finds it as a memory."""
    sealed(store, 8)
    store.compact()
    assert len(notes(store)) == 1
    path = tmp_path / "batch.jsonl"

    locusgraph.export(store, str(path))

    assert b"action" in path.read_bytes() and b"maintenance" not in path.read_bytes()
