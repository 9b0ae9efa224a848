"""What takes the space: by kind, session and path, and what sharing saves (docs/maintenance.md §4)."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from eventlog.gc import usage
from eventlog.retention import collection, retention
from eventlog.store import Store
from tests.recorder.kept import make_store, pack_bytes, record

A, B = "aaaaaaaa", "bbbbbbbb"


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with make_store(tmp_path) as made:
        record(made, A, size=40_000, noise=True)
        record(made, B, size=40_000, noise=True)
        yield made


def rows(found: list[usage.Row]) -> dict[str, usage.Row]:
    assert [row.bytes for row in found] == sorted((row.bytes for row in found), reverse=True)
    return {row.name: row for row in found}


def test_what_only_a_session_needs_is_what_releasing_it_frees(store: Store) -> None:
    """P6, I29: `by_session` says what a collection frees; what several need counts for none."""
    with store.view() as view:
        found = rows(usage.by_session(store.blobs, view))
    assert found[usage.SHARED].count == 1  # the file that everybody has
    assert found[A].count == found[B].count == 9  # 2 turns of 2 files and 2 trees, and one file of both
    retention.archive(store, A)
    plan = collection.plan(store)
    dead = [*plan.packs.dead, *plan.packs.partial]
    assert sum(share.dead_contents for share in dead) == found[A].count
    assert abs(plan.freed - found[A].bytes) < 2_000  # tables
    with store.view() as view:
        after = rows(usage.by_session(store.blobs, view))
    assert (after[usage.RELEASED], A in after) == (
        usage.Row(usage.RELEASED, found[A].bytes, found[A].count),
        False,
    )
    assert after[B].count == found[B].count + 1


def test_paths_have_the_bytes_of_all_their_versions(store: Store) -> None:
    """P6: a path counts all its contents; together it is what the packs hold."""
    with store.view() as view:
        found = rows(usage.by_path(store.blobs, view))
    assert found["own"].count == 4 and found["own"].bytes > 3.9 * 40_000
    assert found["below/own"].count == 4 and found["everybody"].count == 1
    assert usage.UNNAMED not in found
    kinds = rows(usage.by_kind(store.blobs))
    packed = sum(row.bytes for name, row in kinds.items() if name.endswith("packs") and "idx" not in name)
    assert packed == pack_bytes(store)
    together = kinds["contents in packs"].bytes + kinds["directories in packs"].bytes
    assert abs(sum(row.bytes for row in found.values()) - together) < len(found)


def test_reuse_counts_every_naming_in_full(store: Store) -> None:
    """P6: named is what each snapshot and each change holds; a second turn of the same tree doubles it."""
    with store.view() as view:
        first = usage.reuse(store.blobs, view)
    assert first.stored == pack_bytes(store) and first.factor is not None
    assert first.named > first.distinct
    snapshots = list(store.events(event_types=("snapshot",)))
    for number, event in enumerate(snapshots):
        same = {"session_id": "cccccccc", "turn": number + 1, "agent": "pi", "payload": {}}
        store.append([{"event_type": "snapshot", "tree_hash": event["tree_hash"], **same}])
    with store.view() as view:
        second = usage.reuse(store.blobs, view)
    assert second.named - first.named == first.named - 4 * 40_000
    assert (second.distinct, second.stored) == (first.distinct, first.stored)
