"""Repair of damage done by hand: every kind of file, flipped, cut, emptied, removed."""

import os
import random
import shutil
from collections.abc import Sequence
from pathlib import Path

import pytest

from eventlog.base.errors import Refused
from eventlog.base.types import Event
from eventlog.log.numbering import NUMBERING_COLUMNS
from eventlog.maintenance.backup import backup
from eventlog.repair.repair import plan_repair, repair
from eventlog.store import Store
from tests.maintenance.support import append, event, make_store, rows, snapshot

SEED = int(os.environ.get("LOCUS_SEED", "1"))


@pytest.fixture(scope="module")
def example(tmp_path_factory):
    """A store of two segments, packs, an idx, and a tail of two journals."""
    root = tmp_path_factory.mktemp("example") / ".locus"
    with make_store(root) as store:
        for n in range(3):
            snapshot(store, n)
        store.seal()
        store.blobs.build_idx()
        append(store, 10, 4)
        snapshot(store, 20)
        store.seal()
        append(store, 30, 3)
        store.journal.rotate()
        snapshot(store, 40)
        append(store, 41, 2)
    return root


@pytest.fixture
def root(example, tmp_path):
    shutil.copytree(example, tmp_path / ".locus")
    return tmp_path / ".locus"


KINDS = {
    "segment": "log/segments",
    "manifest": "log/manifest",
    "journal": "log/journal",
    "pack": "snapshots/packs",
    "idx": "snapshots/idx",
}


def damage(path: Path, how: str, chance: random.Random) -> None:
    data = bytearray(path.read_bytes())
    if how == "flip":
        data[chance.randrange(len(data))] ^= 1 << chance.randrange(8)
    elif how == "cut":
        del data[chance.randrange(len(data)) :]
    elif how == "zeros":
        at = chance.randrange(len(data))
        data[at : at + 512] = bytes(len(data[at : at + 512]))
    elif how == "noise":
        data = bytearray(chance.randbytes(len(data)))
    if how == "gone":
        path.unlink()
    else:
        path.write_bytes(data)


def by_position(events: list[Event], left_out: Sequence[str]) -> dict[object, Event]:
    return {one["position"]: {k: v for k, v in one.items() if k not in left_out} for one in events}


def bytes_of(directory: Path) -> set[bytes]:
    return {path.read_bytes() for path in directory.rglob("*") if path.is_file()}


@pytest.mark.parametrize("how", ["flip", "cut", "zeros", "noise", "gone"])
@pytest.mark.parametrize("kind", KINDS)
def test_after_a_repair_nothing_is_lost_but_what_it_names(example, root, kind, how):
    """I10, I11, P7: whatever one file suffers, the plan changes nothing; then verify is clean, all events
    outside of the ranges that it names are equal, the damaged bytes are in quarantine, and work goes on."""
    chance = random.Random(f"{SEED} {kind} {how}")
    path = chance.choice(sorted((root / KINDS[kind]).iterdir()))
    damage(path, how, chance)
    broken = path.read_bytes() if path.exists() else None
    if broken is not None and broken == (example / path.relative_to(root)).read_bytes():
        pytest.skip("the damage changed nothing")
    before = bytes_of(root)
    with Store.open(root) as store:
        plan = plan_repair(store)
        assert bytes_of(root) == before
        report = repair(store, plan, accept_older=True)
        assert report.remaining == []
        at = store.append([event(99)])[0]
    # Unsealed events are numbered by what there is: after a lost one they close up (§5).
    left_out = NUMBERING_COLUMNS if kind == "journal" else ()
    whole = by_position(rows(example), left_out)
    noted = [one["position"] for one in rows(root) if one["operation"] == "repair"]
    after = by_position([one for one in rows(root) if one["position"] not in (at, *noted)], left_out)
    lost = {n for base, end in plan.lost for n in range(base, end)}
    kept = {position: one for position, one in whole.items() if position not in lost}
    if kind == "journal":  # where the newest one ended cannot be known from what is left of it
        end = max(after) + 1
        assert after == {position: one for position, one in kept.items() if position < end}
        assert path.name.startswith("0" * 19 + "4") or end > max(kept)
    else:
        assert after == kept
        assert at >= max(whole) + 1
    if broken and plan.steps and plan.steps[0].kind != "frames":
        assert broken in bytes_of(root / "log/quarantine")
    with Store.open(root) as store:
        assert [finding for finding in store.verify("read") if finding.damage] == []


def test_a_damaged_pack_keeps_what_verifies_and_names_the_turns_that_lose(root):
    """P7, I24: of a pack with one bad content the others stay; the turn that needs the bad one is named."""
    packs = sorted((root / "snapshots/packs").iterdir())
    data = bytearray(packs[0].read_bytes())
    data[40] ^= 0xFF
    packs[0].write_bytes(data)
    with Store.open(root) as store:
        plan = plan_repair(store)
        assert plan.lost_contents >= 1
        assert plan.turns
        assert plan.lost == []
        assert repair(store, plan).remaining == []
        found = store.verify("deep")
        known = [finding for finding in found if "lost, as a repair has noted" in finding.what]
        assert known and [finding for finding in found if finding.damage] == []
        assert plan_repair(store).steps == []


def test_a_copy_heals_what_it_has(root, example, tmp_path):
    """A segment and a pack that are whole in a backup are brought back, and nothing is lost."""
    with Store.open(root) as store:
        backup(store, tmp_path / "copy")
    for kind in ("segment", "pack"):
        damage(sorted((root / KINDS[kind]).iterdir())[0], "flip", random.Random(1))
    with Store.open(root) as store:
        plan = plan_repair(store, copy=str(tmp_path / "copy"))
        assert (plan.lost, plan.lost_contents) == ([], 0)
        assert repair(store, plan, copy=str(tmp_path / "copy")).remaining == []
        assert [f for f in store.verify("deep") if f.damage] == []
    assert rows(root) == rows(example)


def test_a_broken_newest_manifest_needs_an_explicit_word(root, example):
    """I16: going back to an older manifest is refused until it is agreed to; then no sealed event is lost."""
    newest = sorted((root / "log/manifest").iterdir())[-1]
    newest.write_bytes(newest.read_bytes()[:-9])
    with Store.open(root) as store:
        plan = plan_repair(store)
        assert "up to position" in (plan.older or "")
        with pytest.raises(Refused, match="--accept-older"):
            repair(store, plan)
        assert repair(store, plan, accept_older=True).remaining == []
        assert [f for f in store.verify("deep") if f.damage] == []
    assert rows(root) == rows(example)


def test_a_sound_store_is_left_alone(root):
    """A plan for a store without damage is empty, and carrying it out moves nothing."""
    with Store.open(root) as store:
        plan = plan_repair(store)
        assert (plan.steps, plan.lost, plan.older) == ([], [], None)
        report = repair(store, plan)
    assert (report.moved, report.remaining) == ([], [])


def test_a_plan_is_not_carried_out_on_another_damage(root):
    """What is damaged after the plan was made is not touched without being named."""
    damage(sorted((root / "log/segments").iterdir())[0], "flip", random.Random(1))
    with Store.open(root) as store:
        plan = plan_repair(store)
        damage(sorted((root / "log/segments").iterdir())[1], "gone", random.Random(1))
        with pytest.raises(Refused, match="changed"):
            repair(store, plan)


def test_contents_of_a_pack_that_is_gone_are_named_then_known_and_may_come_back(root):
    """P7, I24: a deleted pack is damage until a repair has named what is missing; then it is known, while it
    is missing."""
    pack = sorted((root / "snapshots/packs").iterdir())[0]
    kept = pack.read_bytes()
    pack.unlink()
    with Store.open(root) as store:
        assert any(finding.damage for finding in store.verify("deep"))
        plan = plan_repair(store)
        assert [step.kind for step in plan.steps] == ["named"] and plan.lost_contents >= 1 and plan.turns
        assert repair(store, plan).remaining == []
    with Store.open(root) as store:
        found = store.verify("deep")
        assert any("as a repair has noted" in one.what for one in found)
        assert not any(one.damage for one in found) and plan_repair(store).steps == []
    pack.write_bytes(kept)
    with Store.open(root) as store:
        assert not any("noted" in one.what for one in store.verify("deep"))
