"""Processes that write, merge and collect in one store until they are killed.

The oracle, a file outside the store, is their log: a line for each snapshot, written under the writer's lock
as an event would be. The newest KEPT lines are kept, all others are let go.
"""

import os
import random
import sys
from contextlib import suppress

from eventlog.base.errors import LockTimeout, Refused
from eventlog.base.fs import REAL
from eventlog.base.layout import Layout, StoreFiles
from eventlog.blobs.store import BlobStore
from eventlog.blobs.tree import FILE
from eventlog.gc.collect import carry_out, plan_collection
from eventlog.gc.condemn import sweep_condemned
from eventlog.gc.live_contents import Needed, live_ids
from eventlog.gc.repack import repack
from tests.blobs.support import Node, put_node
from tests.conftest import STORE_ID

KEPT = 5


def lines(oracle: str) -> list[bytes]:
    """The snapshots that were reported, oldest first."""
    try:
        with open(oracle, encoding="ascii") as file:
            return [bytes.fromhex(line) for line in file.read().split("\n")[:-1]]
    except FileNotFoundError:
        return []


def kept(oracle: str) -> list[bytes]:
    return lines(oracle)[-KEPT:]


def write(blobs: BlobStore, oracle: str, chosen: random.Random) -> None:
    """Snapshots of few contents, so that what was let go is found again."""
    with blobs.writer(lock_timeout_s=60) as writer:
        node: Node = {
            b"f%d" % n: (FILE, b"content %d " % chosen.randrange(12) * chosen.choice((1, 99)))
            for n in range(3)
        }
        root = put_node(writer, {b"d": node})
        writer.flush()
        with open(oracle, "a", encoding="ascii") as file:
            file.write(f"{root.hex()}\n")


def collect(blobs: BlobStore, oracle: str, chosen: random.Random) -> None:
    live = live_ids(blobs, kept(oracle))
    with suppress(LockTimeout, Refused):
        carry_out(blobs, plan_collection(blobs, live), Needed(live, lambda: kept(oracle)))
        sweep_condemned(blobs, Needed(live, lambda: kept(oracle)), age_s_min=0)


def merge(blobs: BlobStore, oracle: str, chosen: random.Random) -> None:
    with suppress(LockTimeout):
        repack(blobs, everything=chosen.random() < 0.3)


def main(role: str, root: str, oracle: str, seed: str) -> None:
    work = {"write": write, "collect": collect, "merge": merge}[role]
    chosen = random.Random(f"{seed}{os.getpid()}")
    while True:
        with BlobStore(StoreFiles(REAL, Layout(root), STORE_ID)) as blobs:
            work(blobs, oracle, chosen)


if __name__ == "__main__":
    main(*sys.argv[1:])
