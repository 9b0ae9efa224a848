"""A repair with a copy: what the backup has comes back, wherever it has it, and nothing that is not ours."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from eventlog.base.errors import Refused
from eventlog.log.seal import seal
from eventlog.maintenance.backup import backup
from eventlog.repair.repair import plan_repair, repair
from eventlog.store import Store
from tests.cli.support import locus_process, make_history
from tests.maintenance.support import append, event, make_store, rows, snapshot


def flip(path: Path, at: "int | None" = None) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 2 if at is None else at] ^= 0x10
    path.write_bytes(data)


def files(root: Path, kind: str) -> list[Path]:
    where = {"segment": "log/segments", "journal": "log/journal", "pack": "snapshots/packs"}[kind]
    return sorted((root / where).iterdir())


def locus(root: Path, *words: object) -> "tuple[int, str]":
    done = locus_process("--store", root, *words, cwd=root.parent, LOCUS_NO_MAINTENANCE="1")
    return done.code, done.text + done.err


@pytest.fixture
def root(tmp_path):
    """A store with a tail of two turns and some events."""
    with make_store(tmp_path / ".locus") as store:
        for number in range(2):
            snapshot(store, number)
        append(store, 10, 3)
    return tmp_path / ".locus"


def copied(root: Path) -> Path:
    with Store.open(root) as store:
        backup(store, root.parent / "copy")
    return root.parent / "copy"


@pytest.fixture
def imported(tmp_path):
    """A store of a git history, with a backup from before it was sealed."""
    make_history(tmp_path / "work")
    root = tmp_path / "work/.locus"
    for words in (("init",), ("import", "git")):
        assert locus_process(*words, cwd=tmp_path / "work", LOCUS_NO_MAINTENANCE="1").code == 0
    assert locus(root, "store", "backup", tmp_path / "copy")[0] == 0
    return root


@pytest.mark.parametrize("how", ["flip", "gone"])
def test_events_that_the_backup_has_in_its_journal_come_back(root, how):
    """What the copy gives exactly is taken also from its journal: the plan names it, and nothing is lost."""
    copy = copied(root)
    assert locus(root, "store", "seal")[0] == 0
    expected, segment = rows(root), files(root, "segment")[0]
    digest = segment.name
    segment.unlink() if how == "gone" else flip(segment)
    code, plan = locus(root, "store", "repair", "--from", copy)
    assert (code, "the events at positions 0 to 6 are taken from the copy" in plan) == (12, True), plan
    assert "lost" not in plan
    code, done = locus(root, "store", "repair", "--from", copy, "--yes")
    assert (code, "lost" in done) == (0, False), done
    assert rows(root) == expected
    assert [path.name for path in files(root, "segment")] == [digest]
    assert locus(root, "store", "verify", "--deep") == (0, "No damage found.\n")


def test_contents_of_a_pack_that_is_gone_come_back(imported, tmp_path):
    """I24: contents that events name and no pack has are taken from any pack of the copy, with all below."""
    for pack in files(imported, "pack"):
        pack.unlink()
    code, plan = locus(imported, "store", "repair", "--from", tmp_path / "copy", "--json")
    figures = json.loads(plan)["plan"]
    assert (code, figures["lost_contents"], figures["turns"]) == (12, 0, [])
    assert figures["taken_contents"] > 4
    code, done = locus(imported, "store", "repair", "--from", tmp_path / "copy", "--yes")
    assert (code, "lost" in done) == (0, False), done
    assert locus(imported, "store", "verify", "--deep") == (0, "No damage found.\n")


def test_contents_that_a_repair_has_noted_as_lost_come_back(imported, tmp_path):
    """A repair without the copy notes contents as lost; one with it brings them back."""
    for pack in files(imported, "pack"):
        pack.unlink()
    assert locus(imported, "store", "repair", "--yes")[0] == 0
    assert "as a repair has noted" in locus(imported, "store", "verify", "--deep")[1]
    assert locus(imported, "store", "repair", "--from", tmp_path / "copy", "--yes")[0] == 0
    assert locus(imported, "store", "verify", "--deep") == (0, "No damage found.\n")


def test_a_segment_and_its_packs_come_back_together(imported, tmp_path):
    """Contents that only restored events name are taken, too: the log is repaired first."""
    assert locus(imported, "store", "seal")[0] == 0
    expected = rows(imported)
    for path in (*files(imported, "pack"), *files(imported, "segment")):
        path.unlink()
    assert locus(imported, "store", "repair", "--from", tmp_path / "copy", "--yes")[0] == 0
    assert rows(imported) == expected
    assert locus(imported, "store", "verify", "--deep") == (0, "No damage found.\n")


# -- partly, and from logs that parted -------------------------------------------------------------


def mended(root: Path, copy: Path, **words: bool) -> "tuple[list[tuple[int, int]], list[tuple[int, int]]]":
    """The positions that the plan takes from the copy, and those that it loses; then it is carried out."""
    with Store.open(root) as store:
        plan = plan_repair(store, copy=str(copy))
        assert repair(store, plan, copy=str(copy), **words).remaining == []
        assert [finding for finding in store.verify("deep") if finding.damage] == []
    return plan.taken, plan.lost


def change(root: Path, work: "Callable[[Store], object]") -> None:
    with Store.open(root) as store:
        work(store)


def test_what_the_backup_has_of_a_segment_is_taken_and_the_rest_named(root):
    """A backup from the middle of a segment gives its part, as whole columns show that it is the same log."""
    copy = copied(root)
    whole = rows(root)
    change(root, lambda store: append(store, 20, 4))
    change(root, Store.seal)
    segment = files(root, "segment")[0]
    flip(segment, _payload_byte(segment))
    taken, lost = mended(root, copy)
    assert (taken, lost) == ([(0, 7)], [(7, 11)])
    assert [one for one in rows(root) if one["position"] < 7] == whole


def _payload_byte(segment: Path) -> int:
    """A byte in the payloads of the events, by the footer."""
    import pyarrow.parquet as pq

    group = pq.ParquetFile(segment).metadata.row_group(0)
    columns = [group.column(n) for n in range(group.num_columns)]
    payload = next(column for column in columns if column.path_in_schema == "payload")
    return int(payload.data_page_offset + payload.total_compressed_size - 3)


def test_a_backup_whose_log_went_its_own_way_is_not_mixed_in(root):
    """I2: events that were recorded into the copy after it was made are not ours, at whatever position."""
    copy = copied(root)
    change(root, lambda store: append(store, 20, 4))
    change(copy, lambda store: append(store, 40, 4))
    change(root, Store.seal)
    ours = rows(root)
    change(root, lambda store: append(store, 60, 1))
    flip(files(root, "segment")[0], _payload_byte(files(root, "segment")[0]))
    with Store.open(root) as store:
        plan = plan_repair(store, copy=str(copy))
        assert (plan.taken, plan.lost, plan.held) == ([(0, 7)], [(7, 11)], [(7, 11)])
        assert "its log is another one, from position 7 on at the latest" in str(plan.held_why)
        with pytest.raises(Refused, match="positions 7 to 10, but its log is another one"):
            repair(store, plan, copy=str(copy))
    assert mended(root, copy, accept=True) == ([(0, 7)], [(7, 11)])
    assert [one for one in rows(root) if int(str(one["position"])) < 7] == ours[:7]
    assert not {event(n)["event_id"] for n in range(40, 44)} & {one["event_id"] for one in rows(root)}


def test_what_nothing_proves_is_neither_taken_nor_given_up_in_silence(root):
    """I10: with nothing left to compare, a repair with the copy is refused; one without it is not."""
    copy = copied(root)
    change(root, lambda store: append(store, 20, 4))
    change(root, Store.seal)
    files(root, "segment")[0].unlink()
    code, output = locus(root, "store", "repair", "--from", copy, "--yes")
    why = "in the copy, and not taken: the events at positions 0 to 6: nothing that is left"
    assert (code, why in output) == (3, True), output
    assert locus(root, "store", "verify")[0] == 12
    assert locus(root, "store", "repair", "--yes")[0] == 0


def test_an_event_that_both_have_later_proves_those_before(root):
    """An event that both logs have, recorded in the same microsecond, shows that they were one log."""
    change(root, Store.seal)
    change(root, lambda store: append(store, 20, 4))
    change(root, Store.seal)
    copy = copied(root)
    change(copy, lambda store: store.compact(everything=True))
    for segment in files(root, "segment"):
        (copy / "log/segments" / segment.name).unlink()
    expected = rows(root)
    for manifest in sorted((root / "log/manifest").iterdir())[:-1]:
        manifest.unlink()
    flip(files(root, "segment")[0])
    with Store.open(root) as store:
        plan = plan_repair(store, copy=str(copy))
        assert (plan.taken, plan.lost, plan.held) == ([(0, 7)], [], [])
        assert repair(store, plan, copy=str(copy)).remaining == []
    assert rows(root) == expected


def test_what_was_erased_does_not_come_back_from_an_older_copy(root):
    """P5: a copy from before an erasure may hold what was erased: none of its events is taken by position."""
    copy = copied(root)
    assert locus(root, "store", "erase", "--event", event(10)["event_id"], "--yes")[0] == 0
    flip(files(root, "segment")[0], _payload_byte(files(root, "segment")[0]))
    with Store.open(root) as store:
        plan = plan_repair(store, copy=str(copy))
        assert (plan.taken, "from before an erasure" in str(plan.held_why)) == ([], True)
        with pytest.raises(Refused, match="from before an erasure"):
            repair(store, plan, copy=str(copy))


# -- journals --------------------------------------------------------------------------------------


@pytest.mark.parametrize("at", [60, 200, 2000, -60], ids=["header", "first frame", "a frame", "last frame"])
def test_frames_of_a_journal_come_back(root, at):
    """A damaged journal gets the frames of the copy that the store's own digests prove."""
    change(root, lambda store: append(store, 30, 2))
    expected = rows(root)
    copy = copied(root)
    journal = files(root, "journal")[-1]
    size = len(journal.read_bytes().rstrip(b"\0"))
    flip(journal, at if at >= 0 else size + at)
    broken = journal.read_bytes()
    taken, lost = mended(root, copy)
    assert taken and lost == []
    assert rows(root)[: len(expected)] == expected
    assert broken in {path.read_bytes() for path in (root / "log/quarantine").iterdir()}


def test_the_tail_is_not_sealed_before_its_frames_are_back(root):
    """I10: with a segment and a journal damaged, sealing first would number the tail without what is lost."""
    change(root, lambda store: store.journal.rotate())
    change(root, lambda store: append(store, 30, 3))
    copy = copied(root)
    with Store.open(root) as store:
        seal(store.files, store.journal, rotate_active=False)
    expected = rows(root)
    segment = files(root, "segment")[0]
    flip(segment, _payload_byte(segment))
    flip(files(root, "journal")[-1], 300)
    taken, lost = mended(root, copy)
    assert (taken[0][0], lost) == (0, [])
    assert rows(root) == expected


def test_a_journal_that_is_gone_comes_back_where_the_next_one_names_its_end(root):
    """The header of the next journal names the digest of the last frame of the one before."""
    change(root, lambda store: store.journal.rotate())
    change(root, lambda store: append(store, 30, 2))
    expected = rows(root)
    copy = copied(root)
    files(root, "journal")[0].unlink()
    assert mended(root, copy) == ([(0, 7)], [])
    assert rows(root) == expected


def test_frames_that_were_written_to_the_copy_alone_stay_there(root):
    """I2: in one journal, with one key, the copy's own later frames prove nothing and are not taken."""
    copy = copied(root)
    change(root, lambda store: append(store, 20, 2))
    change(copy, lambda store: append(store, 40, 2))
    end = len(files(root, "journal")[-1].read_bytes().rstrip(b"\0"))
    flip(files(root, "journal")[-1], end - 200)
    with Store.open(root) as store:
        plan = plan_repair(store, copy=str(copy))
        assert plan.taken == []
        assert plan.held == plan.lost == [(8, 9)]
        with pytest.raises(Refused, match="positions 8 to 8"):
            repair(store, plan, copy=str(copy))
    assert not {event(n)["event_id"] for n in (40, 41)} & {one["event_id"] for one in rows(root)}


def test_a_repair_with_a_copy_leaves_nothing_to_do(root):
    """A second plan with the copy is empty."""
    copy = copied(root)
    change(root, Store.seal)
    flip(files(root, "segment")[0])
    assert mended(root, copy) == ([(0, 7)], [])
    with Store.open(root) as store:
        assert plan_repair(store, copy=str(copy)).steps == []
