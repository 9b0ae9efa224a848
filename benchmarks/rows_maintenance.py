"""Maintenance: what packs take after a merge and how long that takes, marking, and who appends meanwhile."""

from __future__ import annotations

import os
import random
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

from benchmarks.frame import BYTES_UNIT, TIME_UNIT, Bench, NotRunnable, Row, Sides
from benchmarks.maintainer import Maintainer
from benchmarks.process import environment, git, locus, run, seconds, seconds_of
from benchmarks.repository import shared_repository
from benchmarks.rows_append import Writers
from benchmarks.snapshots import snapshot_store
from benchmarks.stores import fill
from benchmarks.workload import WORDS, Blocks
from eventlog import Store
from eventlog.base.layout import StoreFiles
from eventlog.blobs.groups import GroupReader
from eventlog.blobs.ids import from_text, tree_id
from eventlog.blobs.pack import GROUP_RAW_MAX, TREE
from eventlog.blobs.store import BlobStore
from eventlog.gc.live_contents import live_ids
from eventlog.log.reader import LogView
from eventlog.log.retained import hashes_in, retention_in

_REPACK = ("repack", "-adfq", "--depth=50", "--window=250")
_SEGMENTS = 10


def rows() -> list[Row]:
    merged = "git repack -adf --depth=50 --window=250 of the same commits, without bitmaps"
    return [
        Row(
            name="repack-bytes",
            work="packs of an imported history after repack --all, trees and tables in them",
            anchor=f"the pack of {merged}, without its index",
            unit=BYTES_UNIT,
            durability="–",
            prepare=lambda bench: _repack_bytes(bench, segments=False),
        ),
        Row(
            name="history-bytes",
            work="the same and the sealed segments of the history",
            anchor=f"the pack of {merged}, without its index",
            unit=BYTES_UNIT,
            durability="–",
            prepare=lambda bench: _repack_bytes(bench, segments=True),
        ),
        Row(
            name="repack-time",
            work="locus store repack --all of that history, whole process",
            anchor=merged,
            unit=TIME_UNIT,
            durability="both sync the new pack",
            prepare=_repack_time,
        ),
        Row(
            name="gc-mark",
            work="what a log of many snapshots names, and all below its trees",
            anchor="each of those trees read once, in the order of packs, and hashed",
            unit=TIME_UNIT,
            durability="neither writes",
            prepare=_gc_mark,
        ),
        Row(
            name="append-p99-maintenance",
            work="the slowest append of a hundred while a maintainer seals, compacts, repacks and collects",
            anchor="the same with no maintainer at work",
            unit=TIME_UNIT,
            durability="both sync every event",
            prepare=_append_p99,
        ),
    ]


# -- packs of a history ------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _History:
    """The same commits as a bare repository, and as a store into which they were imported."""

    name: str
    commits: int
    bare: str
    store: str


def _histories(bench: Bench) -> list[_History]:
    found = bench.shared("histories", lambda: [_history(bench, *one) for one in _sources(bench)])
    assert isinstance(found, list)
    return found


def _sources(bench: Bench) -> list[tuple[str, str]]:
    """(name, path) of each repository of --repos; without it of this project's own, or a synthetic one."""
    if bench.repos is not None:
        below = [(name, os.path.join(bench.repos, name)) for name in sorted(os.listdir(bench.repos))]
        found = [(name, path) for name, path in below if os.path.isdir(path) and _is_repository(path)]
        if not found:
            raise NotRunnable(f"--repos {bench.repos} holds no git repository")
        return found
    own = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    if os.path.exists(f"{own}/.git") and _is_repository(own):
        return [("this project", own)]
    commits, files = bench.pick(1_000, 4_000), bench.pick(300, 1_500)
    return [("a synthetic history", shared_repository(bench, commits=commits, files=files))]


def _is_repository(path: str) -> bool:
    asked = [git(), "-C", path, "rev-parse", "-q", "--verify", "HEAD"]
    return subprocess.run(asked, env=environment(), capture_output=True, check=False).returncode == 0


def _history(bench: Bench, name: str, source: str) -> _History:
    """The first-parent line alone, since that is what is imported; at the small scale the beginning of it."""
    directory = bench.new_directory("history")
    bare, store = f"{directory}/history.git", f"{directory}/store"
    line = (
        run([git(), "-C", source, "rev-list", "--first-parent", "--reverse", "HEAD"]).stdout.decode().split()
    )
    line = line[: bench.pick(200, len(line))]
    run([git(), "init", "-q", "--bare", "--initial-branch=main", bare])
    # Git exports refs, and the source is nobody's to change.
    around = f"{directory}/around.git"
    run([git(), "clone", "-q", "--bare", "--shared", source, around])
    run([git(), "-C", around, "update-ref", "refs/heads/line", line[-1]])
    command = [git(), "-C", around, "fast-export", "--first-parent", "--signed-tags=strip"]
    exporting = subprocess.Popen(
        [*command, "--refspec=refs/heads/line:refs/heads/main", "refs/heads/line"],
        stdout=subprocess.PIPE,
        env=environment(),
    )
    assert exporting.stdout is not None
    with exporting.stdout as pipe:
        importing = [git(), "-C", bare, "fast-import", "--quiet"]
        subprocess.run(importing, stdin=pipe, env=environment(), check=True)
    if exporting.wait():
        raise RuntimeError(f"git fast-export of {source} ended with code {exporting.returncode}")
    Store.init(store).close()
    run([*locus(), "--store", store, "import", "git", bare])
    return _History(name, len(line), bare, store)


@contextmanager
def _repack_bytes(bench: Bench, *, segments: bool) -> Iterator[Sides]:
    sizes = bench.shared(
        "histories repacked", lambda: [_repacked_sizes(bench, one) for one in _histories(bench)]
    )
    ours = sum(packs + (listed if segments else 0) for packs, listed, _ in sizes)
    anchor = sum(theirs for *_, theirs in sizes)
    facts: dict[str, float | str] = {}
    for one, (packs, listed, theirs) in zip(_histories(bench), sizes, strict=True):
        facts[f"{one.name}, ratio"] = (packs + (listed if segments else 0)) / theirs
    yield Sides(
        ours=lambda: float(ours),
        anchor=lambda: float(anchor),
        size=_size(_histories(bench)),
        facts=facts,
        rounds=1,
        warm_up=False,
    )


def _repacked_sizes(bench: Bench, one: _History) -> tuple[int, int, int]:
    """(our packs, our segments, git's pack), each after its repack, in bytes."""
    with bench.scratch("repacked") as directory:
        store, bare = _copied(one, directory)
        run(_our_repack(store))
        run(_their_repack(bare))
        packs = _bytes_of(f"{store}/snapshots/packs", ".evp")
        return (
            packs,
            _bytes_of(f"{store}/log/segments", ".parquet"),
            _bytes_of(f"{bare}/objects/pack", ".pack"),
        )


@contextmanager
def _repack_time(bench: Bench) -> Iterator[Sides]:
    histories = _histories(bench)

    def ours() -> float:
        took = 0.0
        for one in histories:
            with bench.scratch("ours") as directory:
                store, _ = _copied(one, directory)
                os.sync()
                took += seconds(_our_repack(store))
        return took

    def theirs() -> float:
        took = 0.0
        for one in histories:
            with bench.scratch("theirs") as directory:
                _, bare = _copied(one, directory)
                os.sync()
                took += seconds(_their_repack(bare))
        return took

    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    yield Sides(
        ours=ours,
        anchor=theirs,
        size=_size(histories),
        facts={"git's threads": float(cores), "ours that compress": 2.0},
        rounds=bench.pick(2, 5),
        warm_up=False,
    )


def _copied(one: _History, directory: str) -> tuple[str, str]:
    store, bare = f"{directory}/store", f"{directory}/history.git"
    shutil.copytree(one.store, store)
    shutil.copytree(one.bare, bare)
    return store, bare


def _our_repack(store: str) -> list[str]:
    return [*locus(), "--store", store, "store", "repack", "--all"]


def _their_repack(bare: str) -> list[str]:
    return [git(), "-C", bare, "-c", "repack.writeBitmaps=false", *_REPACK]


def _bytes_of(directory: str, ending: str) -> int:
    return sum(entry.stat().st_size for entry in os.scandir(directory) if entry.name.endswith(ending))


def _size(histories: list[_History]) -> str:
    return ", ".join(f"{one.name}, {one.commits:,} commits" for one in histories)


# -- marking -----------------------------------------------------------------------------------------


@contextmanager
def _gc_mark(bench: Bench) -> Iterator[Sides]:
    made = snapshot_store(bench, snapshots=bench.pick(2_000, 20_000), files=bench.pick(1_000, 5_000))
    with Store.open(made.path) as store:
        fs, layout, store_id = store.fs, store.layout, store.identity.store_id

        def mark() -> None:
            with BlobStore(StoreFiles(fs, layout, store_id)) as blobs, store.view() as view:
                live = live_ids(blobs, _roots(view))
            if len(live) < made.trees:
                raise RuntimeError(f"{len(live)} ids were marked of {made.trees} trees")

        def read() -> None:
            with BlobStore(StoreFiles(fs, layout, store_id)) as blobs:
                count = _hash_trees(blobs)
            if count != made.trees:
                raise RuntimeError(f"{count} trees were read of {made.trees}")

        yield Sides(
            ours=lambda: seconds_of(mark),
            anchor=lambda: seconds_of(read),
            size=f"{made.snapshots:,} snapshots of {made.files:,} files, {made.trees:,} trees",
            rounds=bench.pick(3, 5),
        )


def _roots(view: LogView) -> Iterator[bytes]:
    for text in hashes_in(view, retention_in(view).limits):
        yield from_text(text)


def _hash_trees(blobs: BlobStore) -> int:
    reader = GroupReader(blobs.fs, GROUP_RAW_MAX)  # in order, so one group at a time
    count = 0
    for tables in blobs.tables():
        offsets = [tables.group(number).offset for number in range(tables.group_count)]
        rows = [tables.entry(index) for index in range(len(tables))]
        for id, kind, group, offset, length in sorted(rows, key=lambda row: row[2:]):
            if kind == TREE:
                if tree_id(reader.read(tables.path, offsets[group], offset, length)) != id:
                    raise RuntimeError(f"{tables.path}: a tree does not match its hash")
                count += 1
    reader.close()
    return count


# -- appending beside a maintainer -------------------------------------------------------------------


@contextmanager
def _append_p99(bench: Bench) -> Iterator[Sides]:
    # Little enough for each piece of maintenance to come up in every sample.
    events, pack_bytes, long_s = bench.pick(30_000, 300_000), bench.pick(8, 64) << 20, bench.pick(2, 10)
    with ExitStack() as stack:
        path = stack.enter_context(bench.scratch("maintained")) + "/store"
        with Store.init(path) as store:
            lines = Blocks(bench.seed, 10_000).lines()
            for _ in range(_SEGMENTS):
                fill(store, lines, events // _SEGMENTS)
                store.seal()
            _put_versions(store, bench, pack_bytes)
        writers = stack.enter_context(Writers("locus", path, 1, 1, bench.seed))
        maintainer = stack.enter_context(Maintainer(path))

        def beside_maintenance() -> float:
            maintainer.start()
            try:
                return writers.p99(long_s)
            finally:
                maintainer.stop()

        yield Sides(
            ours=beside_maintenance,
            anchor=lambda: writers.p99(long_s),
            size=f"{long_s} s of single events; {events:,} events, {pack_bytes >> 20} MiB of contents",
            beside={"pieces of maintenance so far": lambda: float(sum(maintainer.done.values()))},
            rounds=bench.pick(3, 9),
        )


def _put_versions(store: Store, bench: Bench, size: int) -> None:
    """Contents of so many bytes in all: versions of files, each a little different from the one before."""
    rng = random.Random(bench.seed)
    texts = [_Text(rng) for _ in range(50)]
    with store.blobs.writer(codec="zstd") as writer:
        while size > 0:
            data = rng.choice(texts).edited()
            writer.put(data)
            size -= len(data)
        writer.flush()


class _Text:
    """A file's lines, of which a few change from version to version."""

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng
        self._lines = [self._line() for _ in range(400)]

    def edited(self) -> bytes:
        for _ in range(3):
            self._lines[self._rng.randrange(len(self._lines))] = self._line()
        return "\n".join(self._lines).encode()

    def _line(self) -> str:
        return " ".join(self._rng.choices(WORDS, k=8))
