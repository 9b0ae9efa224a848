"""Collection on real and simulated files: what is live stays, what is dead goes, no more than was
announced."""

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eventlog.base.errors import Corruption, NotFound, Refused
from eventlog.base.fs import REAL, FileSystem
from eventlog.base.layout import CONDEMNED_DIR, Layout
from eventlog.blobs.ids import blob_id
from eventlog.blobs.store import BlobStore
from eventlog.blobs.tree import DIRECTORY, FILE, encode_tree
from eventlog.blobs.verify import verify
from eventlog.gc import live_contents
from eventlog.gc.collect import CollectPlan, carry_out, plan_collection
from eventlog.gc.condemn import condemn, sweep_condemned
from eventlog.gc.live_contents import Needed, baseline_trees, live_ids
from eventlog.worktree import statcache
from tests.blobs.support import (
    Node,
    open_store,
    overwrite,
    pack_paths,
    put_all,
    put_node,
    store_node,
    verify_tree,
)
from tests.gc import collecting
from tests.simfs import sim_store
from tests.worktree.support import Bench, age, on_disk
from tests.worktree.test_capture import fill

ROOT = Path(__file__).parents[2]

FILES = st.sampled_from([b"", b"a", b"b" * 500, b"c" * 3000, b"def f(): pass\n" * 30])
NODES: st.SearchStrategy[Node] = st.recursive(
    st.dictionaries(st.sampled_from([b"x", b"y", b"z"]), st.tuples(st.just(FILE), FILES), max_size=3),
    lambda below: st.dictionaries(
        st.sampled_from([b"x", b"y", b"d", b"e"]), below | st.tuples(st.just(FILE), FILES), max_size=3
    ),
    max_leaves=6,
)


def collect(blobs: BlobStore, roots: list[bytes], late: list[bytes] | None = None) -> CollectPlan:
    """Plan and carry out; the plan."""
    live = live_ids(blobs, roots)
    plan = plan_collection(blobs, live)
    carry_out(blobs, plan, Needed(live, lambda: late or ()))
    return plan


def model_of(node: Node, blobs: BlobStore) -> set[bytes]:
    """Ids of a tree and all below it, given by an encoder of trees that the mark does not use."""
    with blobs.writer() as writer:
        found = {put_node(writer, node)}
    for below in node.values():
        found |= model_of(below, blobs) if isinstance(below, dict) else {blob_id(below[1])}
    return found


def all_ids(blobs: BlobStore) -> set[bytes]:
    return {id for tables in blobs.tables() for id in tables.ids()}


@settings(deadline=None)
@given(st.lists(st.tuples(NODES, st.booleans(), st.booleans()), max_size=8), st.integers(0, 3))
def test_what_is_kept_resolves_and_no_more_goes_than_was_announced(
    snapshots: list[tuple[Node, bool, bool]], late_count: int
) -> None:
    """I24, I29: of any snapshots some are let go; the others are whole, and the plan named all that went."""
    fs, layout = sim_store()
    blobs = open_store(layout, fs)
    roots: list[tuple[bytes, Node, bool]] = []
    writer = None
    for node, kept, same_pack in snapshots:
        if writer is None:
            writer = blobs.writer(codec="raw" if same_pack else "zlib")
        roots.append((put_node(writer, node), node, kept))
        if not same_pack:
            writer.flush()
            writer.close()
            writer = None
    if writer is not None:
        writer.flush()
        writer.close()
    before = all_ids(blobs)
    kept_roots = [root for root, _, stays in roots if stays]
    late = [root for root, _, stays in roots if not stays][:late_count]

    live = live_ids(blobs, kept_roots)
    expected: set[bytes] = set()
    for _, node, stays in roots:
        if stays:
            expected |= model_of(node, blobs)
    assert live == expected
    plan = plan_collection(blobs, live)
    named = {share.name: share for share in (*plan.dead, *plan.partial)}
    may_go = {id for t in blobs.tables() if t.name in named for id in t.ids()} - live
    assert sum(share.dead_contents for share in named.values()) >= len(may_go)
    gone = carry_out(blobs, plan, Needed(live, lambda: late))
    assert set(gone) <= named.keys()
    sweep_condemned(blobs, Needed(live, lambda: late), age_s_min=0)

    after = all_ids(blobs)
    assert before - after <= may_go
    for root in (*kept_roots, *late):
        assert verify_tree(open_store(layout, fs), root) == []
    assert verify(blobs, "read") == []
    if not late:
        assert not any(set(t.ids()).isdisjoint(live) for t in blobs.tables())
        assert fs.listdir(layout.directory(CONDEMNED_DIR)) == []


ROWS = st.dictionaries(
    st.sampled_from([b"a", b"bb", b"c", b"dir", b"e" * 60, b"f"]),
    st.tuples(
        st.sampled_from([FILE, DIRECTORY]), st.sampled_from([b"\0" * 32, b"T\x01" * 16, b"\x2d\0" * 16])
    ),
)


@given(st.lists(ROWS, max_size=12))
def test_rows_that_are_passed_over_were_seen_before(trees: list[dict[bytes, tuple[bytes, bytes]]]) -> None:
    """I24: a mark that reads only where a tree differs from one like it misses no row of any."""
    unlike = live_contents._Unlike()
    seen: set[tuple[bytes, bytes]] = set()
    for rows in trees:
        first_and_last = [(b"A", FILE, b"\x07" * 32, 0), (b"z", FILE, b"\x08" * 32, 0)]
        entries = [(name, kind, id, 0) for name, (kind, id) in rows.items()]
        seen |= set(unlike.rows(encode_tree([*entries, *first_and_last])))
        assert {(kind, id) for _, kind, id, _ in entries} <= seen


def test_a_plan_is_carried_out_once(layout: Layout) -> None:
    """I29: what was planned before another collection is refused, and names the way on."""
    blobs = open_store(layout)
    put_all(blobs, b"dead")
    live: set[bytes] = set()
    plan = plan_collection(blobs, live)
    assert carry_out(blobs, plan, Needed(live, list)) == [plan.dead[0].name]
    put_all(blobs, b"dead")  # the same bytes, so a pack of the same name
    with pytest.raises(Refused, match="new plan"):
        carry_out(blobs, plan, Needed(live, list))
    assert len(pack_paths(layout)) == 1
    assert plan_collection(blobs, live).token != plan.token


def test_nothing_is_collected_before_a_killed_restore_is_finished(layout: Layout) -> None:
    """I24, I32: what a restore or an erasure was to bring may have no other name; collection waits for it."""
    blobs = open_store(layout)
    put_all(blobs, b"dead")
    plan = plan_collection(blobs, set())
    journal = Path(layout.restore(7))
    journal.write_bytes(b"{}")
    with pytest.raises(Refused, match="recover"):
        carry_out(blobs, plan, Needed(set(), list))
    journal.unlink()
    Path(layout.erasing).write_bytes(b"\n")
    with pytest.raises(Refused, match="--resume"):
        carry_out(blobs, plan, Needed(set(), list))
    Path(layout.erasing).unlink()
    assert carry_out(blobs, plan, Needed(set(), list))


def test_dead_contents_leave_a_pack_of_which_most_is_dead(layout: Layout) -> None:
    """P6: a live content does not hold a large pack; one of which little is dead is left alone."""
    blobs = open_store(layout)
    noise = random.Random(1).randbytes
    small, large = noise(1000), noise(9000)
    few = put_all(blobs, small, large, codec="raw")
    most = put_all(blobs, noise(9000), noise(1000), codec="raw")
    plan = collect(blobs, [few[0], most[0]])
    assert [(share.dead_contents, share.freed) for share in plan.partial] == [(1, 9000)]
    assert all_ids(open_store(layout)) == {few[0], *most}
    assert statcache.read_generation(REAL, layout) == 1
    with pytest.raises(NotFound):
        sweep_condemned(blobs, Needed({few[0], *most}), age_s_min=0)
        open_store(layout).get(few[1])


def test_condemned_packs_stay_for_a_day(layout: Layout, monkeypatch: pytest.MonkeyPatch) -> None:
    """A content that was condemned can still be read; a day later its pack is unlinked."""
    blobs = open_store(layout)
    (id,) = put_all(blobs, b"dead")
    collect(blobs, [])
    assert blobs.get(id) == b"dead"
    assert sweep_condemned(blobs, Needed(set())).unlinked == ()
    later = time.time_ns() + 25 * 3600 * 10**9
    monkeypatch.setattr(type(REAL), "time_ns", lambda self: later)
    assert sweep_condemned(blobs).unlinked == ()  # without a mark nobody knows that it is dead
    swept = sweep_condemned(blobs, Needed(set()))
    assert len(swept.unlinked) == 1 and swept.bytes > 0
    with pytest.raises(NotFound):
        blobs.get(id)


def test_what_is_kept_again_comes_back(layout: Layout) -> None:
    """I24: a session that is held again within the day gets its contents back."""
    blobs = open_store(layout)
    root = store_node(blobs, {b"f": (FILE, b"dead, then not")})
    collect(blobs, [])
    assert pack_paths(layout) == []
    swept = sweep_condemned(blobs, Needed(live_ids(blobs, [root])), age_s_min=0)
    assert len(swept.rescued) == 1 and swept.unlinked == ()
    assert os.listdir(layout.directory(CONDEMNED_DIR)) == []
    assert verify_tree(open_store(layout), root) == []


def test_a_tree_that_cannot_be_read_stops_the_mark(layout: Layout) -> None:
    """I24: what is below a damaged tree is not taken for dead; one that is gone keeps nothing."""
    blobs = open_store(layout)
    with blobs.writer(codec="raw") as writer:
        root = put_node(writer, {b"f": (FILE, b"content")})
        writer.flush()
    (path,) = pack_paths(layout)
    data = bytearray(Path(path).read_bytes())
    at = data.index(b"T\x01")
    data[at + 20] ^= 1
    overwrite(path, bytes(data))
    with pytest.raises(Corruption):
        live_ids(open_store(layout), [root])
    os.unlink(path)
    assert live_ids(open_store(layout), [root]) == {root}


@pytest.mark.parametrize("swept", [False, True])
def test_what_is_not_in_packs_is_looked_up_once(layout: Layout, swept: bool) -> None:
    """P6: a mark lists the directories as often for many roots that were collected as for few."""
    blobs = open_store(layout)
    roots = [store_node(blobs, {b"f": (FILE, b"content %d" % n)}) for n in range(12)]
    below = live_ids(blobs, roots)
    collect(blobs, [])
    if swept:
        sweep_condemned(blobs, Needed(set()), age_s_min=0)
    listed = []
    for some in (roots[:2], roots):
        counting = _Counting()
        assert live_ids(open_store(layout, counting), some) <= below
        listed.append(counting.listed)
    assert live_ids(blobs, roots) == (set(roots) if swept else below)
    assert listed[0] == listed[1]


class _Counting(FileSystem):
    def __init__(self) -> None:
        self.listed = 0

    def listdir(self, path: str) -> list[str]:
        self.listed += 1
        return super().listdir(path)


def test_a_pack_that_alone_holds_something_is_never_condemned(layout: Layout) -> None:
    """I24: `condemn` checks for itself, whatever it was asked."""
    blobs = open_store(layout)
    put_all(blobs, b"only here")
    (path,) = pack_paths(layout)
    name = os.path.basename(path)[:64]
    assert condemn(blobs, [name], {}) == []
    assert condemn(blobs, [name], {name: {blob_id(b"only here")}}) == []
    assert condemn(blobs, [name], {"0" * 64: {blob_id(b"only here")}}) == []
    assert pack_paths(layout) == [path]


# -- what names contents outside the log --------------------------------------------------------------


def captured_after_a_collection(layout: Layout, work: Path) -> bool:
    """Whether a capture after a collection is whole, though the stat cache knows every file."""
    bench = Bench(layout, work)
    fill(work)
    bench.capture()
    age(work)
    bench.capture()
    with bench.open() as blobs:
        collect(blobs, [])
        sweep_condemned(blobs, Needed(set()), age_s_min=0)
    bench.capture(previous=None)
    try:
        return bench.tree() == on_disk(work)
    except NotFound:
        return False


def test_a_stat_cache_proves_no_content_after_a_collection(layout: Layout, tmp_path: Path) -> None:
    """I24: after a collection a capture stores again what it finds unchanged."""
    assert captured_after_a_collection(layout, tmp_path / "work")


def test_a_stat_cache_without_the_generation_is_noticed(
    layout: Layout, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """I24: the protocol without this step loses a capture, so the test above would tell."""
    monkeypatch.setattr(statcache, "read_generation", lambda fs, layout: 0)
    assert not captured_after_a_collection(layout, tmp_path / "work")


def test_the_tree_that_hooks_recorded_last_is_a_root(layout: Layout) -> None:
    """I24: the next file event names what was there before, though no kept event does."""
    from eventlog.hooks.state import CaptureCheckpoint, write_checkpoint

    blobs = open_store(layout)
    root = store_node(blobs, {b"f": (FILE, b"as it was told")})
    write_checkpoint(layout, "a" * 16, CaptureCheckpoint(root, "n", {}))
    write_checkpoint(layout, "b" * 16, CaptureCheckpoint(None, "n", {}))
    Path(layout.live("c.told")).write_text("{torn")
    assert baseline_trees(REAL, layout) == [root]
    collect(blobs, baseline_trees(REAL, layout))
    assert verify_tree(blobs, root) == []


# -- real processes ----------------------------------------------------------------------------------


@pytest.mark.slow
def test_writers_and_collectors_that_are_killed_lose_nothing(
    layout: Layout, tmp_path: Path, hunt_minutes: float
) -> None:
    """I24, I32: two writers beside a merge and a collection, all killed at any moment; the kept is whole."""
    oracle = tmp_path / "oracle"
    seed = int(os.environ.get("LOCUS_SEED", "1"))
    chosen = random.Random(seed)
    until = time.monotonic() + (hunt_minutes * 60 or 2)
    rounds = 0
    while time.monotonic() < until:
        rounds += 1
        workers = [
            subprocess.Popen(
                [
                    sys.executable,
                    "-m",
                    "tests.gc.collecting",
                    role,
                    layout.root,
                    str(oracle),
                    f"{seed}{rounds}",
                ],
                cwd=ROOT,
                stderr=subprocess.PIPE,
            )
            for role in ("write", "write", "collect", "merge")
        ]
        try:
            begun = len(collecting.lines(str(oracle)))
            while len(collecting.lines(str(oracle))) < begun + 3:
                assert time.monotonic() < until + 60
                time.sleep(0.01)
            time.sleep(chosen.random())
        finally:
            for worker in chosen.sample(workers, len(workers)):
                worker.send_signal(signal.SIGKILL)
                time.sleep(chosen.random() / 50)
        listed = [worker.communicate()[1].decode() for worker in workers]
        assert listed == [""] * 4, f"seed {seed}, round {rounds}"
        with open_store(layout) as blobs:
            for root in collecting.kept(str(oracle)):
                assert verify_tree(blobs, root) == [], f"seed {seed}, round {rounds}"
            assert verify(blobs, "read") == []
