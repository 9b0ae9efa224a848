"""Makes a golden store out of the golden events: `python -m tests.golden.make v2 DIRECTORY`.

A golden store is made once, by the version whose formats it shows, and never again: what is committed
are the bytes that version wrote. Clock, randomness and boot id are fixed, so two runs with the same
library versions give the same bytes. It holds one of every kind of file that must be kept for ever
(STORE, journals, a segment, a manifest, packs) and an idx.

The log in it, in order: the first half of the events, sealed; the rest in a closed journal, which was
copied forward after a failed sync; the first event once more (a duplicate); and an active journal.
"""

import errno
import json
import os
import shutil
import sys
from pathlib import Path

from blake3 import blake3

from eventlog.base.errors import NotDurable
from eventlog.base.fs import FileSystem
from eventlog.base.layout import INDEX_DIR, LOCK_DIR, TMP_DIR
from eventlog.base.types import Event
from eventlog.blobs.tree import DIRECTORY, EXECUTABLE, FILE, SYMLINK, TreeEntry
from eventlog.store import Store

HERE = Path(__file__).parent

OLD = b"def refresh():\n    return None\n"
NEW = b"def refresh():\n    return token()\n"
SCRIPT = b"#!/bin/sh\nexec python3 auth.py\n"
BIG = bytes(range(256)) * 64


class FixedMachine(FileSystem):
    """The real disk under a clock, random numbers and a boot id that are always the same."""

    def __init__(self) -> None:
        self._ticks = 0
        self._drawn = 0
        self.fail_next_sync = False

    def time_ns(self) -> int:
        self._ticks += 1
        return 1_767_225_600_000_000_000 + self._ticks * 1_000_000

    def random_bytes(self, size: int) -> bytes:
        self._drawn += 1
        return blake3(b"golden %d" % self._drawn).digest(size)

    def boot_id(self) -> bytes:
        return b"golden boot"

    def fdatasync(self, fd: int) -> None:
        if self.fail_next_sync:
            self.fail_next_sync = False
            raise OSError(errno.EIO, "Input/output error")
        super().fdatasync(fd)


def golden_events(version: int) -> list[Event]:
    """The events that Locus of that schema version wrote, as they were given to it."""
    path = HERE / f"events-v{version}.jsonl"
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def put_contents(store: Store) -> tuple[bytes, bytes]:
    """Store what the events name, in two packs with an idx over the first; the trees before and after."""
    with store.blobs.writer() as writer:
        link = TreeEntry(b"latest", SYMLINK, writer.put(b"auth.py"), len(b"auth.py"))
        run = TreeEntry(b"run.sh", EXECUTABLE, writer.put(SCRIPT), len(SCRIPT))
        empty = TreeEntry(b"empty", FILE, writer.put(b""), 0)
        before = writer.put_tree([link, run, empty, TreeEntry(b"auth.py", FILE, writer.put(OLD), len(OLD))])
        writer.flush()
    store.blobs.build_idx()
    with store.blobs.writer(codec="raw") as writer:
        below = writer.put_tree([TreeEntry(b"caf\xc3\xa9 \xff.bin", FILE, writer.put(BIG), len(BIG))])
        after = writer.put_tree(
            [
                link,
                run,
                empty,
                TreeEntry(b"auth.py", FILE, writer.put(NEW), len(NEW)),
                TreeEntry(b"data", DIRECTORY, below),
            ]
        )
        writer.flush()
    return before, after


def make(root: Path, version: int) -> None:
    """Make the store `root` from the golden events of that schema version."""
    machine = FixedMachine()
    events = golden_events(version)
    half = len(events) // 2
    with Store.init(root, project_name="golden", repo_hash="9f86d081884c", force=True, fs=machine) as store:
        put_contents(store)
        store.append(events[:2])
        store.append(events[2:half])
        store.seal()
        store.append(events[half:-3])
        machine.fail_next_sync = True
        try:
            store.append(events[-3:-2])
        except NotDurable:
            pass  # it is in the log all the same
        store.append(events[:1])
        store.journal.rotate()
        store.append(events[-2:])
    for directory in (INDEX_DIR, LOCK_DIR, TMP_DIR):
        shutil.rmtree(root / directory)
    (root / ".gitignore").unlink()
    for directory, _, names in os.walk(root, topdown=False):
        for name in names:
            os.chmod(f"{directory}/{name}", 0o644)  # git keeps no more of a mode than its exec bit
        if not names and not os.listdir(directory):
            os.rmdir(directory)


if __name__ == "__main__":
    make(Path(sys.argv[2]), int(sys.argv[1].removeprefix("v")))
