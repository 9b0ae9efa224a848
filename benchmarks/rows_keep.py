"""Keeping a store: what it costs to bring its copy up to date."""

from __future__ import annotations

import os
import random
import shutil
from collections.abc import Iterator
from contextlib import contextmanager

from benchmarks.frame import TIME_UNIT, Bench, NotRunnable, Row, Sides
from benchmarks.process import locus, seconds, seconds_of
from benchmarks.stores import fill, sealed_store
from eventlog import Store
from eventlog.maintenance.backup import backup

_PACKS = 100
_IMMUTABLE = (".parquet", ".evp")


def rows() -> list[Row]:
    return [
        Row(
            name="backup",
            work="backup of a store of which 1 % is new since the last one, store open",
            anchor="rsync -a of the same directory to a copy as old",
            unit=TIME_UNIT,
            durability="ours syncs every file and directory it writes; rsync nothing",
            prepare=_backup,
        ),
    ]


@contextmanager
def _backup(bench: Bench) -> Iterator[Sides]:
    rsync = shutil.which("rsync")
    if rsync is None:
        raise NotRunnable("rsync is not installed")
    sealed = sealed_store(bench)
    with bench.scratch("backup") as directory, sealed.copy(bench, "backup-store") as path:
        numbers = random.Random(bench.seed)
        pack_bytes = bench.pick(200_000, 4_000_000)
        with Store.open(path) as store:
            for _ in range(_PACKS):
                _put(store, numbers.randbytes(pack_bytes))
            before, plain = f"{directory}/before", f"{directory}/plain"
            backup(store, before)
            shutil.copytree(path, plain)
            new = sealed.events // 100
            fill(store, iter(sealed.next_lines(new)), new)
            store.seal()
            _put(store, numbers.randbytes(pack_bytes))

            def ours(command: bool = False) -> float:
                target = _again(before, f"{directory}/ours")
                if command:
                    return seconds([*locus(), "--store", path, "store", "backup", target])
                return seconds_of(lambda: backup(store, target))

            def theirs() -> float:
                target = _again(plain, f"{directory}/theirs")
                return seconds([rsync, "-a", f"{path}/", f"{target}/"])

            yield Sides(
                ours=ours,
                anchor=theirs,
                size=f"{sealed.segments} segments and {_PACKS} packs, {_megabytes(path):,.0f} MB",
                beside={"command": lambda: ours(command=True)},
            )


def _put(store: Store, data: bytes) -> None:
    with store.blobs.writer(codec="raw") as writer:
        writer.put(data)
        writer.flush()


def _again(copy: str, target: str) -> str:
    """A fresh copy of the old one. Files that never change are shared; neither side writes into one."""
    shutil.rmtree(target, ignore_errors=True)
    shutil.copytree(copy, target, copy_function=_link_or_copy)
    return target


def _link_or_copy(source: str, target: str) -> str:
    if source.endswith(_IMMUTABLE):
        os.link(source, target)
        return target
    return shutil.copy2(source, target)


def _megabytes(path: str) -> float:
    sizes = (os.path.getsize(f"{root}/{name}") for root, _, names in os.walk(path) for name in names)
    return sum(sizes) / 1e6
