"""One walk over a store: what it finds is what a repair plans from."""

from pathlib import Path

import pytest

from eventlog.check.walk import FILES, StoreWalk
from eventlog.log.finding import ASIDE, DEEP, NAMED, QUICK, READ, Finding
from eventlog.repair.repair import plan_repair, repair
from eventlog.store import Store
from tests.maintenance.support import append, make_store, snapshot

DAMAGES = {
    "log/segments": 40,
    "log/manifest": 9,
    "log/journal": 60,
    "snapshots/packs": 45,
    "snapshots/idx": 30,
}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Two segments, two manifests, two journals, packs, an idx, and a key."""
    with make_store(tmp_path / ".locus") as store:
        for n in range(2):
            snapshot(store, n)
            store.seal()
        store.blobs.build_idx()
        append(store, 10)
        store.journal.rotate()
        append(store, 11)
    (tmp_path / ".locus/redaction.key").write_bytes(bytes(48))
    return tmp_path / ".locus"


def flip(path: Path, at: int) -> None:
    data = bytearray(path.read_bytes())
    data[at] ^= 0x21
    path.chmod(0o600)
    path.write_bytes(data)


def findings(store: Store, level: str, parts: "tuple[str, ...] | None" = None) -> list[Finding]:
    return StoreWalk(store.blobs, store.view, level).findings(parts)


def test_a_plan_sets_aside_what_the_walk_found(root: Path) -> None:
    """I10, P7: each file that a repair moves has a finding with its mend, each mend is a step of the plan."""
    for directory, at in DAMAGES.items():
        flip(sorted((root / directory).iterdir())[0], at)
    with Store.open(root) as store:
        found = findings(store, DEEP, FILES)
        mends = {(f.mend.kind, f.path) for f in found if f.mend is not None}
        plan = plan_repair(store)
        steps = {(step.kind, step.path) for step in plan.steps}
        assert {kind for kind, _ in mends} >= {"segment", "manifest", "journal", "pack", "idx", "rules"}
        assert mends <= steps
        assert {step for step in steps - mends if step[0] in (*ASIDE, NAMED)} == set()
        assert repair(store, plan).remaining == []


def test_a_finding_says_what_its_mend_says(root: Path) -> None:
    """P7: the words of a plan are those of the finding, without what to do next."""
    for directory, at in DAMAGES.items():
        flip(sorted((root / directory).iterdir())[0], at)
    with Store.open(root) as store:
        for finding in findings(store, READ, FILES):
            assert finding.mend is None or finding.mend.kind == "pack" or finding.mend.what in finding.what


def test_each_level_finds_what_the_one_below_it_finds(root: Path) -> None:
    """I11: a deeper level loses no finding."""
    flip(sorted((root / "snapshots/idx").iterdir())[0], 3)
    flip(sorted((root / "log/manifest").iterdir())[0], 9)
    with Store.open(root) as store:
        quick, read, deep = (set(findings(store, level)) for level in (QUICK, READ, DEEP))
        assert quick and quick <= read <= deep


def test_an_unknown_level_is_a_mistake_of_the_caller(root: Path) -> None:
    """There are three levels."""
    with Store.open(root) as store, pytest.raises(ValueError, match="whole"):
        store.verify("whole")
