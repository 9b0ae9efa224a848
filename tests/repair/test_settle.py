"""For everything that `locus store verify --deep` can name there is a command that settles it.

Each kind of damage is made in a store of its own, verify names it, the command that is beside it here is
run, and verify ends with 0: through `locus` itself. What is lost stays listed as known.
"""

import errno
import json
import os
import shutil
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import duckdb
import pyarrow as pa
import pytest

from eventlog.base import identity
from eventlog.base.errors import Corruption, NoStore, Refused
from eventlog.base.fs import FileSystem
from eventlog.blobs import idx
from eventlog.blobs.ids import to_text
from eventlog.log import manifest as manifests
from eventlog.log.frame import JournalHeader, decode_header, encode_header
from eventlog.log.line import encode_line
from eventlog.maintenance.backup import backup
from eventlog.recorder.recorder import Recorder
from eventlog.store import Store
from locus_cli.main import run
from tests.maintenance.support import append, event, make_store, snapshot
from tests.older import append_as_before
from tests.rewritten import merge_segments, with_column

REPAIR = ("repair", "--yes")
ACCEPT = ("repair", "--yes", "--accept")
OLDER = ("repair", "--yes", "--accept-older")
REBUILD = ("rebuild",)

# A kind of damage: what it is called, what does it, the command that settles it.
KINDS: "list[tuple[str, Callable[[Path], object], tuple[str, ...]]]" = []


def settled_by(
    *command: str,
) -> Callable[[Callable[[Path], object]], Callable[[Path], object]]:
    def note(damage: Callable[[Path], object]) -> Callable[[Path], object]:
        KINDS.append((damage.__name__.strip("_").replace("_", " "), damage, command))
        return damage

    return note


def files(root: Path, pattern: str) -> list[Path]:
    found = sorted(root.glob(pattern))
    assert found, pattern
    return found


def change(path: Path, at: int, data: bytes) -> None:
    os.chmod(path, 0o600)
    with open(path, "r+b") as file:
        file.seek(at)
        file.write(data)


def used(path: Path) -> int:
    return len(path.read_bytes().rstrip(b"\0"))


def active(root: Path) -> Path:
    return files(root, "log/journal/*.evj")[-1]


# -- the log ------------------------------------------------------------------------------------------


@settled_by(*REPAIR)
def a_rotten_segment(root: Path) -> None:
    change(files(root, "log/segments/*")[0], 40, b"rot")


@settled_by(*REPAIR)
def a_missing_segment(root: Path) -> None:
    files(root, "log/segments/*")[1].unlink()


@settled_by(*REPAIR)
def an_older_manifest_that_does_not_verify(root: Path) -> None:
    change(files(root, "log/manifest/*")[0], 9, b"rot")


@settled_by(*OLDER)
def a_newest_manifest_that_does_not_verify(root: Path) -> None:
    change(files(root, "log/manifest/*")[-1], 9, b"rot")


@settled_by(*OLDER)
def no_manifest(root: Path) -> None:
    for path in files(root, "log/manifest/*"):
        path.unlink()


@settled_by(*ACCEPT)
def manifests_of_two_histories(root: Path) -> None:
    with Store.open(root) as store:
        other = manifests.Manifest(store.identity.store_id.hex(), 1, next_journal=7)
    files(root, "log/manifest/*")[0].write_bytes(manifests.encode(other))


@settled_by(*REPAIR)
def a_rotten_frame_in_the_middle(root: Path) -> None:
    change(active(root), 128 + 60, b"rot")


@settled_by(*REPAIR)
def a_rotten_last_frame(root: Path) -> None:
    change(active(root), used(active(root)) - 30, b"rot")


@settled_by(*REPAIR)
def a_rotten_last_frame_and_an_append(root: Path) -> None:
    a_rotten_last_frame(root)
    with Store.open(root) as store:
        append(store, 70)


@settled_by(*REPAIR)
def a_torn_tail_that_is_quarantined(root: Path) -> None:
    change(active(root), used(active(root)), b"noise")
    (root / "log/acknowledged").unlink()
    with Store.open(root) as store:
        append(store, used(active(root)))


@settled_by(*REPAIR)
def a_torn_tail(root: Path) -> None:
    change(active(root), used(active(root)), b"noise")


@settled_by(*REPAIR)
def a_rotten_journal_that_was_sealed(root: Path) -> None:
    a_rotten_frame_in_the_middle(root)
    with Store.open(root) as store:
        store.seal()


@settled_by(*REPAIR)
def a_journal_cut_at_its_header(root: Path) -> None:
    os.truncate(active(root), 128)


@settled_by(*REPAIR)
def a_journal_cut_at_a_frame(root: Path) -> None:
    with Store.open(root) as store:
        before = used(active(root))
        append(store, 70)
    os.truncate(active(root), before)


@settled_by(*REPAIR)
def a_newest_journal_that_is_gone(root: Path) -> None:
    active(root).unlink()


@settled_by(*REPAIR)
def no_journal(root: Path) -> None:
    for path in files(root, "log/journal/*.evj"):
        path.unlink()


@settled_by(*REPAIR)
def a_journal_header_that_does_not_verify(root: Path) -> None:
    change(active(root), 60, b"rot")


@settled_by(*REPAIR)
def a_journal_that_begins_where_the_log_has_been(root: Path) -> None:
    data = active(root).read_bytes()
    own = decode_header(data)
    other = JournalHeader(own.store_id, own.number, own.base - 1, own.prev, own.key, own.boot)
    change(active(root), 0, encode_header(other))


@settled_by(*REPAIR)
def an_empty_journal_file(root: Path) -> None:
    os.truncate(active(root), 0)


@settled_by(*ACCEPT)
def an_event_that_nobody_can_have_written(root: Path) -> None:
    with Store.open(root) as store:
        store.journal.append([_line_without_payload("c" * 32)])


def _line_without_payload(event_id: str) -> bytes:
    line = encode_line({"event_id": event_id, "event_type": "note", "event_kind": "fact", "source": "user"})
    return line.partition(b"\t")[0] + b"\t[1]"


@settled_by(*ACCEPT)
def a_number_that_the_log_does_not_give(root: Path) -> None:
    def spoil(table: pa.Table) -> pa.Table:
        return with_column(table, "seq", table["event_type"].to_pylist().index("action"), None)

    with Store.open(root) as store:
        merge_segments(store, spoil)


@settled_by(*ACCEPT)
def an_event_that_is_there_twice(root: Path) -> None:
    def double(table: pa.Table) -> pa.Table:
        return with_column(table, "event_id", 4, table["event_id"][1].as_py())

    with Store.open(root) as store:
        merge_segments(store, double)
    for path in files(root, "index/*"):  # which says what the log was before
        path.unlink()


# -- contents -----------------------------------------------------------------------------------------


@settled_by(*REPAIR)
def a_rotten_pack(root: Path) -> None:
    change(files(root, "snapshots/packs/*")[0], 60, b"rot")


@settled_by(*REPAIR)
def a_pack_that_is_gone(root: Path) -> None:
    files(root, "snapshots/packs/*")[0].unlink()


@settled_by(*REPAIR)
def a_content_that_no_pack_has(root: Path) -> None:
    with Store.open(root) as store:
        gone = "blake3:" + "ab" * 32
        append_as_before(store, [{"event_type": "file", "path": "x", "after_hash": gone}])


@settled_by(*ACCEPT)
def a_content_where_a_tree_is_meant(root: Path) -> None:
    with Store.open(root) as store, store.blobs.writer() as writer:
        content = writer.put(b"not a tree")
        writer.flush()
        append_as_before(store, [{"event_type": "snapshot", "tree_hash": to_text(content)}])


@settled_by(*REPAIR)
def an_idx_that_does_not_verify(root: Path) -> None:
    change(files(root, "snapshots/idx/*.evx")[0], 30, b"rot")


@settled_by(*REPAIR)
def an_idx_that_says_something_else(root: Path) -> None:
    (path,) = files(root, "snapshots/idx/*.evx")
    with Store.open(root) as store, closing(idx.Idx(store.fs, str(path), store.identity.store_id)) as right:
        packs = [bytes.fromhex(pack) for pack in sorted(right.packs)]
        wrong = idx._encode(store.identity.store_id, packs, [])
    path.chmod(0o600)
    path.write_bytes(wrong)


# -- the index ----------------------------------------------------------------------------------------


@settled_by(*REBUILD)
def an_index_that_differs_from_the_log(root: Path) -> None:
    with duckdb.connect(str(files(root, "index/*.duckdb")[-1])) as con:
        con.execute("UPDATE turns SET title = 'another'")


@settled_by(*REBUILD)
def an_index_that_is_none(root: Path) -> None:
    files(root, "index/*.duckdb")[-1].write_bytes(b"garbage" * 1000)


# -- what keeps secrets and erased texts out ----------------------------------------------------------


@settled_by(*REPAIR)
def a_rotten_key_of_fingerprints(root: Path) -> None:
    (root / "redaction.key").write_bytes(b"rot" * 16)


@settled_by(*REPAIR)
def a_key_of_fingerprints_that_is_far_too_long(root: Path) -> None:
    (root / "redaction.key").write_bytes(bytes(5000))


@settled_by(*REPAIR)
def one_rotten_file_of_the_rules_of_erasures(root: Path) -> None:
    change(root / "erased", 3, b"\0\0")


@settled_by(*REPAIR)
def one_missing_file_of_the_rules_of_erasures(root: Path) -> None:
    (root / "erased.copy").unlink()


@settled_by(*ACCEPT)
def no_rules_of_erasures(root: Path) -> None:
    (root / "erased").unlink()
    (root / "erased.copy").unlink()


# -- the tests ----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def example(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two segments, a tail of two journals, packs, an idx, an index, an erasure."""
    root = tmp_path_factory.mktemp("settle") / ".locus"
    with make_store(root) as store:
        for n in range(3):
            snapshot(store, n)
        recorder = Recorder(store, agent="claude-code")
        turn = recorder.start_turn("Say teapot")
        turn.end(title="Said")
        store.seal()
        append(store, 10, 4)
        store.seal()
    assert run(["--store", str(root), "store", "erase", "--secret", "teapot", "--yes"]) == 0
    with Store.open(root) as store:
        store.blobs.build_idx()
        store.seal()
        store.reindex()
        append(store, 30, 3)
        store.journal.rotate()
        append(store, 41, 4)
    return root


@pytest.fixture
def root(example: Path, tmp_path: Path) -> Path:
    """A copy with a note of its own."""
    shutil.copytree(example, tmp_path / ".locus")
    with Store.open(tmp_path / ".locus") as store:
        append(store, 60)
    return tmp_path / ".locus"


def verify(root: Path, capsys: pytest.CaptureFixture[str]) -> tuple[int, list[dict[str, object]]]:
    capsys.readouterr()
    code = run(["--store", str(root), "store", "verify", "--deep", "--json"])
    return code, json.loads(capsys.readouterr().out)["findings"]


def test_a_sound_store_has_nothing_to_settle(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Nothing is named where nothing is wrong."""
    assert verify(root, capsys) == (0, [])


@pytest.mark.parametrize(("name", "damage", "command"), KINDS, ids=[name for name, _, _ in KINDS])
def test_what_verify_names_one_command_settles(
    root: Path,
    name: str,
    damage: Callable[[Path], object],
    command: tuple[str, ...],
    capsys: pytest.CaptureFixture[str],
) -> None:
    """I10, P7: damage, verify, the command, verify: 12, 0, and what is lost stays listed; then work goes
    on."""
    damage(root)
    code, found = verify(root, capsys)
    assert code == Corruption.exit_code and any(one["damage"] for one in found), name

    run(["--store", str(root), "store", *command])
    output = capsys.readouterr()
    code, left = verify(root, capsys)
    assert code == 0 and not any(one["damage"] for one in left), (output, left)

    with Store.open(root) as store:
        last = len(list(store.events()))
        (at,) = store.append([event(99)])
        assert len(list(store.events())) == last + 1
        assert store.verify("quick") == [] or all(not one.damage for one in store.verify("quick"))
        assert not [one for one in store.events(since=at) if one["position"] != at]


@pytest.mark.parametrize("pattern", ["log/segments/*", "log/journal/*", "snapshots/packs/*"])
def test_what_the_disk_does_not_give_is_named_and_settled(
    root: Path, pattern: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """I10, I11, P7: EIO within a file, for good: verify names the file and ends with 12. It may pass, so a
    repair refuses; with --accept it settles it."""
    path = files(root, pattern)[0]
    inode = path.stat().st_ino
    pread = FileSystem.pread

    def failing(fs: FileSystem, fd: int, size: int, offset: int) -> bytes:
        if os.fstat(fd).st_ino == inode:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        return pread(fs, fd, size, offset)

    monkeypatch.setattr(FileSystem, "pread", failing)
    code, found = verify(root, capsys)
    assert code == Corruption.exit_code
    assert any(one["path"] == str(path) and "disk cannot read" in str(one["what"]) for one in found)

    assert run(["--store", str(root), "store", *REPAIR]) == Refused.exit_code
    output = capsys.readouterr().err
    assert f"{path}: the disk cannot read it" in output and "Check the disk, then try again" in output
    assert path.stat().st_ino == inode and not list((root / "log/quarantine").iterdir())
    assert run(["--store", str(root), "store", *ACCEPT]) == 0
    code, left = verify(root, capsys)
    assert code == 0 and not any(one["damage"] for one in left), left
    with Store.open(root) as store:
        store.append([event(99)])


@pytest.mark.parametrize(
    "pattern", ["log/segments/*", "log/journal/*", "log/manifest/*", "snapshots/packs/*"]
)
def test_what_the_disk_does_not_give_at_once_is_read_again(
    root: Path, pattern: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """I10, P7: an error of reading that passes is no damage: nothing is set aside for it."""
    inodes = {path.stat().st_ino for path in files(root, pattern)}
    failed: set[int] = set()
    pread = FileSystem.pread

    def failing(fs: FileSystem, fd: int, size: int, offset: int) -> bytes:
        inode = os.fstat(fd).st_ino
        if inode in inodes - failed:
            failed.add(inode)
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        return pread(fs, fd, size, offset)

    monkeypatch.setattr(FileSystem, "pread", failing)
    code = run(["--store", str(root), "store", *REPAIR])

    assert (code, failed) == (0, inodes)
    assert "Nothing to repair" in capsys.readouterr().err


@pytest.mark.parametrize("how", ["gone", b"store_id", b'"format":1', b"1-modes"])
def test_a_store_file_is_rewritten_from_the_log(
    root: Path, how: "str | bytes", capsys: pytest.CaptureFixture[str]
) -> None:
    """I10, P7: without STORE nothing opens; verify names what settles it, and the log proves what it held.

    A flipped byte is damage also where the text would be that of a newer version: its digest shows it.
    """
    path = root / "STORE"
    was = identity.decode(path.read_bytes(), "STORE")
    with Store.open(root) as store:
        Recorder(store, agent="script").start_turn("Say where").end()
    if isinstance(how, str):
        path.unlink()
    else:
        change(path, path.read_bytes().index(how) + len(how) - 1, b"7")
    locus = ["--store", str(root), "store"]

    assert run([*locus, "verify", "--deep"]) == (NoStore if how == "gone" else Corruption).exit_code
    assert "`locus store repair` writes" in capsys.readouterr().err
    assert run([*locus, "repair"]) == Corruption.exit_code
    assert was.store_id.hex() in capsys.readouterr().out and path.exists() == (how != "gone")
    assert run([*locus, *REPAIR]) == 0
    now = identity.decode(path.read_bytes(), "STORE")
    assert (now.store_id, now.repo_hash, now.project_name) == (was.store_id, was.repo_hash, was.project_name)
    assert verify(root, capsys) == (0, [])
    assert len(list((root / "log/quarantine").glob("STORE-*"))) == (how != "gone")


def test_a_store_file_that_nothing_proves_is_not_made_up(
    root: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """I10, P7: a log of two stores gets no STORE; the error names the way out."""
    (root / "STORE").unlink()
    with closing(Store.init(tmp_path / "other", force=True)) as other:
        other.append([event(1)])
    shutil.copy(next((tmp_path / "other/log/journal").iterdir()), root / f"log/journal/{99:020d}.evj")

    assert run(["--store", str(root), "store", *REPAIR]) == Refused.exit_code
    assert "locus store salvage" in capsys.readouterr().err and not (root / "STORE").exists()


def test_quarantined_bytes_are_reported_until_a_repair(
    root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """I10: appends and sealing do not make them forgotten; the repair does, and what is new shows."""
    a_torn_tail_that_is_quarantined(root)
    with Store.open(root) as store:
        store.seal()
        append(store, 71)
    code, (output,) = verify(root, capsys)
    assert code == Corruption.exit_code and "log/quarantine" in str(output["path"])
    assert run(["--store", str(root), "store", *REPAIR]) == 0
    assert verify(root, capsys) == (0, [])

    a_torn_tail_that_is_quarantined(root)
    assert len(verify(root, capsys)[1]) == 1


def test_an_accepted_finding_is_listed_as_known_and_a_new_one_as_new(
    root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """I13, P7: accepting a loss does not accept the next one; it stays reported, after sealing too."""
    an_event_that_nobody_can_have_written(root)
    run(["--store", str(root), "store", *ACCEPT])
    with Store.open(root) as store:
        store.seal()
    code, (known,) = verify(root, capsys)
    assert code == 0 and "Accepted" in str(known["what"])

    with Store.open(root) as store:
        store.journal.append([_line_without_payload("d" * 32)])
    code, found = verify(root, capsys)
    assert code == Corruption.exit_code and sum(bool(one["damage"]) for one in found) == 1


def test_without_accepting_nothing_is_accepted(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """I13, P7: a repair alone leaves what it cannot mend as a finding, and says so with its exit code."""
    an_event_that_nobody_can_have_written(root)
    a_torn_tail_that_is_quarantined(root)
    assert run(["--store", str(root), "store", "repair", "--yes"]) == 0  # reads bytes, not meanings
    code, found = verify(root, capsys)
    assert code == Corruption.exit_code and len(found) == 1


def test_a_backup_of_a_repaired_store_is_sound(root: Path, tmp_path: Path) -> None:
    """I13: the gap goes with the log, the note does not; the copy goes on after the gap too."""
    a_rotten_last_frame(root)
    run(["--store", str(root), "store", *REPAIR])
    with Store.open(root) as store:
        backup(store, tmp_path / "copy")
        expected = store.journal.next_position()
    with Store.open(tmp_path / "copy") as store:
        assert not any(one.damage for one in store.verify("deep"))
        assert not (tmp_path / "copy/log/acknowledged").exists()
        assert list(store.append([event(99)])) == [expected]
