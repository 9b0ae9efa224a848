"""A working directory beside a store, captured step by step, and what must be found in it."""

import os
import shutil
import stat
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from eventlog.base.fs import REAL, FileSystem
from eventlog.base.layout import STATCACHE_DIR, Layout
from eventlog.blobs.store import BlobStore
from eventlog.checkout.materialize import walk
from eventlog.worktree import rows, scan, stat_all
from eventlog.worktree.capture import Capture, CaptureScope, CaptureSelection, Haste, capture
from tests.conftest import files_of

# path → (kind, content); of a directory no content.
Files = dict[bytes, tuple[bytes, bytes]]


class Bench:
    """A store, a working directory, and captures that go on from one another."""

    def __init__(self, layout: Layout, work: Path, fs: FileSystem = REAL, *, modes: bool = False) -> None:
        self.layout = layout
        self.work = work
        self.fs = fs
        self.last: bytes | None = None
        self.modes = modes
        work.mkdir(exist_ok=True)

    def open(self) -> BlobStore:
        return BlobStore(files_of(self.fs, self.layout), modes=self.modes)

    def capture(self, **options: Any) -> Capture:
        """One capture, with changes since the last of this object."""
        root = options.pop("root", str(self.work))
        options.setdefault("previous", self.last)
        scope = options.pop("scope", None)
        with self.open() as blobs, blobs.writer() as writer:
            done = capture(
                writer,
                root,
                selection=CaptureSelection(**_taken(options, "include", "keep_ignored", "size_max")),
                haste=Haste(**_taken(options, "deadline", "deferral", "may_fork")),
                scope=None if scope is None else CaptureScope(scope),
                **options,
            )
        self.last = done.root
        return done

    def uncached(self, **options: Any) -> Capture:
        """A capture that knows nothing; the cache of the others stays as it is."""
        place = self.layout.directory(STATCACHE_DIR)
        kept = place + ".kept"
        os.rename(place, kept)
        os.mkdir(place)
        last = self.last
        try:
            return self.capture(**options)
        finally:
            self.last = last
            shutil.rmtree(place)
            os.rename(kept, place)

    def tree(self, root: bytes | None = None) -> Files:
        """What the tree holds, contents read from the store."""
        found: Files = {}
        root = self.last if root is None else root
        assert root is not None
        with self.open() as blobs:
            for path, entry in walk(blobs, root):
                found[path] = (entry.kind, b"" if entry.kind == b"d" else blobs.get(entry.id))
        return found

    def caches(self) -> list[Path]:
        return sorted(Path(self.layout.directory(STATCACHE_DIR)).iterdir())

    def git(self, *args: str, at: str = ".") -> str:
        return git(self.work / at, *args)


def _taken(options: dict[str, Any], *names: str) -> dict[str, Any]:
    return {name: options.pop(name) for name in names if name in options}


def git(place: Path, *args: str) -> str:
    identity = ["-c", "user.name=A", "-c", "user.email=a@example.org", "-c", "protocol.file.allow=always"]
    done = subprocess.run(["git", *identity, *args], cwd=place, capture_output=True, check=True)
    return os.fsdecode(done.stdout).strip()


def bench_of_git(layout: Layout, place: Path, monkeypatch: pytest.MonkeyPatch) -> Bench:
    """A working directory that is an empty repository, where nobody's git configuration counts."""
    home = place / "home"
    home.mkdir()
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    bench = Bench(layout, place / "work")
    bench.git("init", "-q", "-b", "main")
    return bench


def on_disk(root: Path, skip: frozenset[bytes] = frozenset((b".git", b".locus"))) -> Files:
    """Everything below `root`, read without our code."""
    found: Files = {}

    def visit(directory: bytes, prefix: bytes) -> None:
        for name in os.listdir(directory):
            if name in skip:
                continue
            path, shown = os.path.join(directory, name), prefix + name
            mode = os.lstat(path).st_mode
            if stat.S_ISDIR(mode):
                found[shown] = (b"d", b"")
                visit(path, shown + b"/")
            elif stat.S_ISLNK(mode):
                found[shown] = (b"l", os.readlink(path))
            else:
                with open(path, "rb") as file:
                    found[shown] = (b"x" if mode & 0o100 else b"f", file.read())

    visit(os.fsencode(root), b"")
    return found


def age(root: Path) -> None:
    """Wait until a new file is younger than all there is: nothing is racy any more."""
    newest = max(
        max(found.st_mtime_ns, found.st_ctime_ns)
        for found in (os.lstat(path) for path in _all(os.fsencode(root)))
    )
    probe = root.parent / "tick"
    while True:
        probe.write_bytes(b"")
        if probe.stat().st_mtime_ns > newest:
            probe.unlink()
            return
        time.sleep(0.001)


def _all(directory: bytes) -> Iterator[bytes]:
    yield directory
    for above, dirs, files in os.walk(directory):
        for name in dirs + files:
            yield os.path.join(above, name)


def compare_few(patched: pytest.MonkeyPatch, count: int) -> None:
    """Let full captures compare `count` rows each, as among very many files; all else has time enough."""
    left = [0]

    def end(_: object) -> float:
        left[0] = count
        return -1.0

    def is_late(deadline: "float | None") -> bool:
        if deadline != -1.0:
            return deadline is not None and time.monotonic() >= deadline
        left[0] -= 1
        return left[0] < 0

    patched.setattr(rows, "_RANGE", 1)
    patched.setattr(scan.Scan, "_time_to_compare", end)
    patched.setattr(stat_all, "is_late", is_late)
