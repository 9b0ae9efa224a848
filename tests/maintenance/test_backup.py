"""Backups on a real disk: beside real processes, killed for real, refused where they would do harm."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from eventlog.base.errors import Corruption, LockTimeout, NotFound, Refused
from eventlog.base.fs import FileSystem
from eventlog.base.locks import MAINTAIN, acquire
from eventlog.maintenance.backup import MARKER, backup
from eventlog.store import Store
from tests.maintenance.support import append, content, event, layout_of, make_store, rows, snapshot

WORKER = """
import os, sys, time
from eventlog.store import Store
from tests.maintenance.support import append, snapshot
root, number = sys.argv[1], int(sys.argv[2])
with Store.open(root) as store:
    print("ready", flush=True)
    for n in range(number * 100_000, number * 100_000 + 100_000):
        if number == 9:
            store.seal()
            store.reindex()
            time.sleep(0.05)
        elif n % 5 == 0:
            snapshot(store, n)
        else:
            append(store, n)
"""


def start(root: Path, number: int) -> subprocess.Popen[bytes]:
    path = str(Path(__file__).parents[2])
    worker = subprocess.Popen(
        [sys.executable, "-c", WORKER, str(root), str(number)],
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": path},
    )
    assert worker.stdout is not None
    assert worker.stdout.readline() == b"ready\n"
    return worker


def stop(workers: list[subprocess.Popen[bytes]]) -> None:
    for worker in workers:
        worker.kill()
        worker.wait()
        assert worker.stdout is not None
        worker.stdout.close()


def ids(root: "Path | str") -> list[object]:
    return [one["event_id"] for one in rows(root)]


@pytest.fixture
def store(tmp_path):
    (tmp_path / "work").mkdir()
    with make_store(tmp_path / "work/.locus") as store:
        yield store


@pytest.fixture
def dest(tmp_path):
    return tmp_path / "copy"


def files(directory: Path) -> dict[str, tuple[int, bytes]]:
    return {
        str(path.relative_to(directory)): (path.stat().st_ino, path.read_bytes())
        for path in directory.rglob("*")
        if path.is_file()
    }


@pytest.mark.slow
def test_a_backup_beside_writers_and_a_sealer_is_a_prefix_that_replays(store, dest, tmp_path):
    """I6, I24, P1: while four processes record and one seals, each backup opens, verifies deeply, holds
    exactly a prefix of the log that only grows, and replays its last turn byte for byte."""
    root = Path(store.layout.root)
    workers = [start(root, number) for number in (1, 2, 3, 4, 9)]
    held = []
    try:
        for _ in range(4):
            time.sleep(0.1)
            held.append((backup(store, dest, lock_timeout_s=30).next_position, ids(dest)))
    finally:
        stop(workers)
    whole = ids(root)
    for position, found in held:
        assert found == whole[: len(found)]
        assert len(found) == position  # no duplicates were written
    assert [position for position, _ in held] == sorted(position for position, _ in held)
    with Store.open(dest) as copy:
        assert [finding for finding in copy.verify("deep") if finding.damage] == []
        last = next(e for e in reversed(list(copy.events())) if e["event_type"] == "turn")
        copy.replay(last["context_id"], tmp_path / "replayed")
    assert (tmp_path / "replayed/file").read_bytes() == content(last["payload"]["number"])


def test_a_killed_backup_leaves_a_whole_copy_and_the_next_one_completes_it(store, dest):
    """I32: SIGKILL at random moments of backups, while the store is sealed in between."""
    code = (
        "import sys; from eventlog.store import Store; from eventlog.maintenance.backup import backup\n"
        "with Store.open(sys.argv[1]) as store:\n"
        "    print('ready', flush=True)\n"
        "    backup(store, sys.argv[2])"
    )
    root = store.layout.root
    before = 0
    for round in range(6):
        snapshot(store, 10 * round)
        append(store, 10 * round + 1, 3)
        if round % 2:
            store.seal()
            append(store, 10 * round + 5)
        running = subprocess.Popen([sys.executable, "-c", code, root, str(dest)], stdout=subprocess.PIPE)
        assert running.stdout is not None
        running.stdout.readline()
        time.sleep(0.004 * round)
        running.send_signal(signal.SIGKILL)
        running.wait()
        running.stdout.close()
        if (dest / "STORE").exists():
            found = ids(dest)
            assert found == ids(root)[: len(found)]
            assert len(found) >= before
            before = len(found)
    backup(store, dest)
    assert rows(dest) == rows(root)


class Counting(FileSystem):
    """Counts the bytes that are read."""

    read = 0

    def pread(self, fd: int, size: int, offset: int) -> bytes:
        data = super().pread(fd, size, offset)
        self.read += len(data)
        return data


def test_what_the_copy_has_is_not_read_again(store, dest):
    """A second backup reads no pack and no segment that is there; with `check` it reads all of them."""
    with store.blobs.writer(codec="raw") as writer:
        writer.put(os.urandom(3_000_000))
        writer.flush()
    append(store, 0, 3)
    store.seal()
    backup(store, dest)
    append(store, 3)
    fs = Counting()
    with Store.open(store.layout.root, fs=fs) as again:
        report = backup(again, dest)
        assert (report.packs, report.segments, report.unchanged) == (0, 0, 2)
        assert fs.read < 500_000
        backup(again, dest, check=True)
        assert fs.read > 3_000_000


def test_check_copies_again_what_rotted_in_the_copy(store, dest):
    """I11: `check` finds a changed byte of the copy and brings the file again."""
    snapshot(store, 0)
    store.seal()
    backup(store, dest)
    pack = next((dest / "snapshots/packs").iterdir())
    data = bytearray(pack.read_bytes())
    data[40] ^= 1
    pack.write_bytes(data)
    assert backup(store, dest).repaired == 0
    assert backup(store, dest, check=True).repaired == 1
    with Store.open(dest) as copy:
        assert copy.verify("deep") == []


def test_a_linked_copy_shares_its_packs_and_segments(store, dest):
    """With `link` an immutable file gets a second name; journals, which grow, are copied."""
    snapshot(store, 0)
    store.seal()
    append(store, 1)
    report = backup(store, dest, link=True)
    assert report.linked == 2
    for kind in ("snapshots/packs", "log/segments"):
        for path in (dest / kind).iterdir():
            assert path.stat().st_nlink == 2
    append(store, 2)
    assert len(rows(dest)) == 3


def test_a_copy_on_another_file_system(store):
    """A copy on another disk holds the same; links are not possible there and files are copied."""
    if os.stat("/dev/shm").st_dev == os.stat(store.layout.root).st_dev:
        pytest.skip("/dev/shm is no other file system here")
    import tempfile

    snapshot(store, 0)
    store.seal()
    with tempfile.TemporaryDirectory(dir="/dev/shm") as other:
        report = backup(store, f"{other}/copy", link=True)
        assert (report.linked, report.packs, report.segments) == (0, 1, 1)
        assert rows(f"{other}/copy") == rows(store.layout.root)


def test_the_copy_keeps_what_the_store_dropped_until_it_is_pruned(store, dest):
    """P6: packs that are gone from the store stay in the copy; `prune` removes them, and nothing else."""
    snapshot(store, 0)
    with store.blobs.writer() as writer:
        writer.put(b"collected later")
        dropped = writer.flush()
    backup(store, dest)
    os.unlink(store.layout.pack(dropped))
    backup(store, dest)
    assert len(list((dest / "snapshots/packs").iterdir())) == 2
    assert backup(store, dest, prune=True).pruned == 1
    with Store.open(dest) as copy:
        assert copy.verify("deep") == []


def test_settings_and_quarantine_come_along(store, dest):
    """I10: bytes that were set aside, settings and the key of fingerprints come along; caches do not."""
    Path(store.layout.config_file).write_text("")
    Path(store.layout.redaction_key).write_bytes(b"k" * 32)
    append(store, 0)
    Path(store.layout.quarantine("x.bin")).write_bytes(b"set aside")
    backup(store, dest)
    assert (dest / "log/quarantine/x.bin").read_bytes() == b"set aside"
    assert (dest / "redaction.key").read_bytes() == b"k" * 32
    assert (dest / ".gitignore").read_bytes().endswith(b"*\n")
    assert list((dest / "index").iterdir()) == []
    assert {path.stat().st_mode & 0o077 for path in [dest, *dest.rglob("*")]} == {0}


@pytest.mark.parametrize("where", ["inside", "itself", "linked"])
def test_a_copy_inside_the_store_is_refused(store, tmp_path, where):
    """A store is not copied into itself, by whatever name."""
    append(store, 0)
    root = Path(store.layout.root)
    if where == "linked":
        os.symlink(root, tmp_path / "link")
    path = {"inside": root / "copy", "itself": root, "linked": tmp_path / "link/copy"}[where]
    before = files(root)
    with pytest.raises(Refused, match="inside"):
        backup(store, path)
    assert files(root) == before


def test_what_no_backup_made_is_not_touched(store, tmp_path):
    """A full directory, a file, another store, another store's copy: refused, and unchanged."""
    append(store, 0)
    with make_store(tmp_path / "other") as other:
        append(other, 5)
        backup(other, tmp_path / "copy of other")
    (tmp_path / "full").mkdir()
    (tmp_path / "full/mine").write_text("mine")
    (tmp_path / "file").write_text("mine")
    before = files(tmp_path)
    for name in ("other", "copy of other", "full", "file"):
        with pytest.raises(Refused):
            backup(store, tmp_path / name)
    with pytest.raises(NotFound):
        backup(store, tmp_path / "missing/copy")
    assert files(tmp_path) == before


@pytest.mark.parametrize("sealed", [False, True])
def test_a_copy_that_was_written_to_is_not_overwritten(store, dest, sealed):
    """Events that only the copy has are never lost to a backup: it is refused, also when both went on."""
    append(store, 0, 2)
    backup(store, dest)
    with Store.open(dest) as copy:
        append(copy, 50)
    if sealed:
        append(store, 60, 3)
        store.seal()
    before = files(dest)
    with pytest.raises(Refused, match="does not have"):
        backup(store, dest)
    append(store, 70, 9)
    with pytest.raises(Refused, match="does not have"):
        backup(store, dest)
    assert files(dest) == before


def test_an_older_store_is_not_copied_onto_a_newer_copy(store, dest, tmp_path):
    """A store that was put back from yesterday does not replace today's copy."""
    import shutil

    append(store, 0, 2)
    yesterday = tmp_path / "yesterday"
    shutil.copytree(store.layout.root, yesterday)
    append(store, 2)
    store.seal()
    backup(store, dest)
    with Store.open(yesterday) as old, pytest.raises(Refused, match="older"):
        backup(old, dest)
    assert len(rows(dest)) == 3


def test_two_backups_to_one_place_follow_each_other(store, dest):
    """I31: the copy is locked while one writes it; the other gives up at its deadline."""
    append(store, 0)
    backup(store, dest)
    from tests.blobs.support import as_process

    with acquire(store.fs, layout_of(dest), MAINTAIN), pytest.raises(LockTimeout):
        as_process(lambda: backup(store, dest, lock_timeout_s=0))


class ReadOnly(FileSystem):
    """Nothing below `root` can be written, as on a disk mounted for reading."""

    root = ""

    def open(self, path: str, flags: int, mode: int = 0o600) -> int:
        if path.startswith(self.root) and flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT):
            raise OSError(30, "Read-only file system", path)
        return super().open(path, flags, mode)


def test_a_store_that_cannot_be_written_is_copied(store, dest):
    """A store on a disk that allows no writing is copied like any other."""
    snapshot(store, 0)
    store.seal()
    append(store, 1)
    fs = ReadOnly()
    fs.root = store.layout.root + "/"
    with Store.open(store.layout.root, fs=fs) as read_only:
        backup(read_only, dest)
    assert rows(dest) == rows(store.layout.root)


def test_damage_of_the_store_is_named_and_the_rest_is_copied(store, dest):
    """P7: a pack that does not match its name is copied as it is, and named."""
    snapshot(store, 0)
    store.seal()
    pack = next(Path(store.layout.directory("snapshots/packs")).iterdir())
    data = bytearray(pack.read_bytes())
    data[40] ^= 1
    pack.write_bytes(data)
    assert [pack.name in what for what in backup(store, dest).damaged] == [True]
    assert rows(dest) == rows(store.layout.root)


def test_a_log_that_cannot_be_opened_is_not_copied_over_a_good_copy(store, dest):
    """A broken store raises Corruption and leaves the copy, which may be the only good one, as it is."""
    append(store, 0, 2)
    store.seal()
    backup(store, dest)
    before = files(dest)
    os.unlink(next(Path(store.layout.directory("log/segments")).iterdir()))
    with pytest.raises(Corruption):
        backup(store, dest)
    assert files(dest) == before


def test_an_empty_store_and_a_sealed_one_without_a_tail(store, dest):
    """A store without an event has a copy too; a copy of a sealed store goes on at the right position."""
    backup(store, dest)
    assert rows(dest) == []
    append(store, 0, 2)
    store.seal()
    backup(store, dest)
    with Store.open(dest) as copy:
        assert copy.append([event(9)]) == range(2, 3)
    assert (dest / MARKER).exists()
