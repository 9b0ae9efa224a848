"""What a recovery sets aside: in quarantine for good before it goes from its journal, and there once."""

from eventlog.log.journal_reading import scan_journal
from tests.conftest import STORE_ID
from tests.log.test_journal import a_journal, overwrite, quarantined, size_of
from tests.simfs import SimFS, sim_store


def test_nothing_of_a_torn_tail_is_after_the_next_frame() -> None:
    """I10: what was kept is cut, also where the next frame is shorter; nothing is kept twice."""
    fs, layout = sim_store()
    a_journal(fs, layout).append([b"a"])
    overwrite(fs, layout.journal(1), size_of(fs, layout.journal(1)), b"torn" * 100)
    journal = a_journal(fs, layout)
    journal.append([b"b"])

    assert scan_journal(fs, layout.journal(1), store_id=STORE_ID).torn is None
    journal.append([b"c"])
    assert len(quarantined(fs, layout)) == 2


def test_a_recovery_that_knows_more_than_the_one_before_goes_on() -> None:
    """I12: a recovery that was cut short had another reason for the same bytes; the first one stays."""
    fs, layout = sim_store()
    a_journal(fs, layout).append([b"a"])
    overwrite(fs, layout.journal(1), size_of(fs, layout.journal(1)), b"torn bytes")
    note = fs.tree()[layout.acknowledged]
    assert note is not None
    overwrite(fs, layout.acknowledged, 0, bytes(len(note)))
    moments: list[SimFS] = []
    fs.before = lambda call: moments.append(fs.kill()) if call.name == "truncate" else None
    a_journal(fs, layout).append([b"b"])
    machine = moments[0]
    overwrite(machine, layout.acknowledged, 0, note)

    assert a_journal(machine, layout).append([b"b"]) == 1
    assert len(quarantined(machine, layout)) == 2


def test_a_found_quarantine_lasts_before_the_tail_is_cut() -> None:
    """I10: a recovery is killed before it syncs the names in quarantine; the next one finds them, cuts the
    tail, and the power goes: the bytes and the reason are kept, or the tail is where it was."""
    fs, layout = sim_store()
    a_journal(fs, layout).append([b"a"])
    overwrite(fs, layout.journal(1), size_of(fs, layout.journal(1)), b"torn bytes")
    fs.settle()
    moments: list[SimFS] = []
    fs.before = lambda call: moments.append(fs.kill()) if call.name == "fsync_dir" else None
    a_journal(fs, layout).append([b"b"])

    assert len(moments) >= 2
    for moment in moments:
        a_journal(moment, layout).append([b"b"])
        # The cut may last although a name from before it does not.
        after = moment.crash(lambda _, effect: not effect.names)
        cut = b"torn bytes" not in (after.tree()[layout.journal(1)] or b"")
        assert not cut or len(quarantined(after, layout)) == 2
