"""Merging packs as part of keeping a store: by command, by the maintainer, and what the log says of it."""

import json
import os
import time
from pathlib import Path

import pytest

from eventlog.base.fs import REAL
from eventlog.base.layout import CONDEMNED_DIR, PACK_DIR
from eventlog.blobs.ids import to_text
from eventlog.blobs.pack import TREE
from eventlog.blobs.tree import FILE, TreeEntry
from eventlog.maintenance.upkeep import is_needed, maintain
from eventlog.store import Store
from tests.cli.support import locus_process

DAY_NS = 25 * 3600 * 10**9


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Ten turns, each a pack; half of the events are sealed."""
    made = tmp_path / "work/.locus"
    made.parent.mkdir()
    monkeypatch.chdir(made.parent)
    with Store.init(made, repo_hash="0123456789ab", project_name="p", force=True) as store:
        for n in range(10):
            turn_of(store, n)
            if n == 4:
                store.seal()
    return made


def turn_of(store: Store, n: int) -> None:
    place = {"session_id": "s", "turn": n + 1}
    with store.blobs.writer() as writer:
        content = writer.put(b"version %d\n" % n * 50)
        loose = writer.put(b"said %d" % n)
        tree = writer.put_tree([TreeEntry(b"f.py", FILE, content, 10)])
        writer.flush()
        store.append(
            [
                {"event_type": "turn", "operation": "start", **place},
                {"event_type": "file", "path": "a/said", "after_hash": to_text(loose), **place},
                {"event_type": "snapshot", "operation": "turn_end", "tree_hash": to_text(tree), **place},
            ]
        )


def packs(root: Path) -> list[str]:
    return os.listdir(root / PACK_DIR)


def test_the_log_orders_what_is_merged(root: Path) -> None:
    """Paths and ages come from sealed and unsealed events; an event tells of the merge (I24)."""
    with Store.open(root) as store:
        report = store.repack()
        (tables,) = store.blobs.tables()
        rows = sorted(map(tables.entry, range(len(tables))), key=lambda row: row[2:4])
        contents = [store.blobs.get(id) for id, kind, *_ in rows if kind != TREE]
        assert [data.split(b"\n")[0] for data in contents] == [
            *(b"said %d" % n for n in reversed(range(10))),
            *(b"version %d" % n for n in reversed(range(10))),
        ]
        (event,) = store.events(event_types=["maintenance"])
        assert (event["operation"], event["agent"], event["session_id"]) == ("repack", "locus", None)
        payload = event["payload"]
        assert isinstance(payload, dict) and payload["condemned"] == len(report.condemned) == 10
        assert store.verify("deep") == []
        assert store.replay("last", root.parent / "out").missing == []
    assert (root.parent / "out/f.py").read_bytes() == b"version 9\n" * 50


def test_the_maintainer_merges_and_a_day_later_frees(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """P6: maintenance merges packs, and unlinks the ones it merged a day later."""
    with Store.open(root) as store:
        assert is_needed(store)
        assert len(packs(root)) == 10
        assert maintain(store)
        assert len(packs(root)) == 1 and len(os.listdir(root / CONDEMNED_DIR)) == 10
        assert not maintain(store)
        now = REAL.time_ns()
        monkeypatch.setattr(type(REAL), "time_ns", lambda self: now + DAY_NS)
        assert maintain(store)
        assert os.listdir(root / CONDEMNED_DIR) == []
        assert store.verify("deep") == []


def test_an_ordinary_command_has_packs_merged(root: Path) -> None:
    """P6: nobody need know of packs; a command starts the process that merges them, after its answer."""
    assert locus_process("log", cwd=root.parent, LOCUS_NO_MAINTENANCE="").code == 0
    until = time.monotonic() + 30
    while len(packs(root)) > 1 or len(os.listdir(root / CONDEMNED_DIR)) < 10:
        assert time.monotonic() < until
        time.sleep(0.05)
    assert locus_process("store", "verify", "--deep", cwd=root.parent).code == 0


def test_repack_says_what_it_did(root: Path) -> None:
    """P8: words for people, a document for programs; few packs are left alone unless --all asks."""
    work = root.parent
    done = locus_process("store", "repack", "--json", cwd=work)
    answer = json.loads(done.out)["repack"]
    assert done.code == 0 and len(answer["condemned"]) == 10 and packs(root) == [f"{answer['pack']}.evp"]
    assert answer["bytes_before"] > answer["bytes_after"] > 0
    with Store.open(root) as store:
        turn_of(store, 10)
    done = locus_process("store", "repack", cwd=work)
    assert (done.code, done.out) == (0, b"") and "few packs" in done.err and len(packs(root)) == 2
    done = locus_process("store", "repack", "--all", cwd=work)
    assert (done.code, done.out) == (0, b"") and "Merged 2 packs" in done.err and len(packs(root)) == 1
