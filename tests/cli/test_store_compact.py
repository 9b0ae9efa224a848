"""Merging segments from the outside: by the command, on the side, and by a process that nobody waits for."""

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
from eventlog.maintenance import upkeep
from eventlog.maintenance.upkeep import maintain
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
    return len(manifests.read_current(store.fs, store.layout, store.identity.store_id).segments)


def run(store: Store, *arguments: str) -> Ended:
    return locus_process("store", "compact", *arguments, cwd=Path(store.layout.root).parent)


def notes(store: Store) -> list[Any]:
    return [event["payload"] for event in store.events(event_types=["maintenance"])]


def test_small_segments_are_merged_on_the_side(store: Store) -> None:
    """P6, I14: eight small segments become one while somebody does something else; the log says so, once."""
    before = sealed(store, 8)

    assert maintain(store) == (True, False)
    assert segments(store) == 1
    assert list(store.events())[:8] == before
    (note,) = store.events(since=8)
    assert (note["event_type"], note["agent"], note["operation"]) == ("maintenance", "locus", "compact")
    assert note["session_id"] is None and note["context_id"] is None and note["source"] == "system"
    payload = note["payload"]
    assert isinstance(payload, dict)
    assert (payload["merged"], payload["segments"], payload["events"]) == (8, 1, 8)
    assert payload["bytes_before"] > payload["bytes_after"] > 0
    assert maintain(store).done is False and len(notes(store)) == 1


def test_what_takes_long_is_left_to_the_maintainer(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """P4: nobody waits for a large merge; the thorough one, which nobody waits for, does it."""
    sealed(store, 8)
    monkeypatch.setattr(upkeep, "_MERGED_BESIDE_BYTES_MAX", 1000)
    assert maintain(store) == (False, True)
    assert segments(store) == 8

    assert maintain(store, thorough=True) == (True, False)
    assert segments(store) == 1


def test_an_ordinary_command_starts_the_merge_and_goes_on(store: Store) -> None:
    """P4, P6: the product itself keeps its store in order: a command that shows the log leaves a process
    behind it that merges what is due, and ends."""
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
    told = json.loads(run(store, "--json").out)

    assert told["version"] == 1
    assert (told["compact"]["merged"], len(told["compact"]["removed"]), told["compact"]["waiting"]) == (
        0,
        3,
        0,
    )
    assert store.verify("deep") == []


def test_a_damaged_segment_stops_the_command(store: Store) -> None:
    """I11: it is named, with exit code 12, and maintenance on the side does not stumble over it."""
    before = sealed(store, 8)
    name = sorted(os.listdir(store.layout.directory("log/segments")))[3]
    path = Path(store.layout.segment(name))
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    os.chmod(path, 0o600)
    path.write_bytes(data)

    ended = run(store)

    assert ended.code == 12 and name in ended.err and "left as it is" in ended.err
    assert maintain(store).done is False and segments(store) == 8
    assert path.read_bytes() == data
    assert [f.path for f in verify(store.fs, store.layout, store.identity.store_id, "read")] == [str(path)]
    assert len(before) == 8


def test_a_merge_under_way_is_not_disturbed(store: Store) -> None:
    """P4, I31: maintenance on the side does not wait for it, and goes on without."""
    sealed(store, 8)
    with open(store.layout.lock(COMPACT), "w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        assert maintain(store).done is False

    assert segments(store) == 8 and maintain(store).done is True


def test_notes_of_maintenance_are_not_sent(store: Store, tmp_path: Path) -> None:
    """P5: what Locus notes for itself is no part of an export, and nobody finds it as a memory."""
    sealed(store, 8)
    store.compact()
    assert len(notes(store)) == 1
    path = tmp_path / "batch.jsonl"

    locusgraph.export(store, str(path))

    assert b"action" in path.read_bytes() and b"maintenance" not in path.read_bytes()
