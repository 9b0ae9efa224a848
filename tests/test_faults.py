"""Every call to the machine fails once, and from then on: what the store promises holds after each.

Goal: I1, I3, I10, I12, I32, I35, P7. Method: an operation is run once on a copy of a small store to count its
calls. Then for each n and each way to fail, on a fresh copy, call n fails. The operation must succeed
or raise one of our errors, with the place and what to do; it must leave no descriptor behind. With a
healthy disk the store is then opened by another process: everything acknowledged is there, once,
at its position; the check finds nothing (or the torn tail that the next append puts aside); and the
same operation, tried again, succeeds.

By default a sample is run, chosen by LOCUS_SEED (1). LOCUS_HUNT=minutes runs as many cases as fit, all
of them in a random order; a failure names the case, which `LOCUS_FAULT="OPERATION N FAULT MODE"` repeats.
"""

import errno
import itertools
import os
import random
import re
import time
import traceback
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import pytest

from eventlog.base.errors import EventLogError
from eventlog.base.fs import REAL
from eventlog.log.journal_reading import end_of_journal
from eventlog.store import Store
from tests.faultfs import FAULTS, SHORT, FaultFS
from tests.operations import OPERATIONS, PREPARE, READING, SLOW, Scene, check, copy_of, id_of, make

ADVICE = re.compile(
    r"\b(again|free|restore|make room|check|raise|run|move|close|bring|put|use|name|stop|see to)\b", re.I
)


@dataclass(frozen=True)
class Case:
    """Which call fails, how, and whether all later ones do."""

    operation: str
    nth: int
    fault: str
    persistent: bool

    def __str__(self) -> str:
        return f"{self.operation} {self.nth} {self.fault} {'persistent' if self.persistent else 'once'}"


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Scene:
    return make(tmp_path_factory.mktemp("faults"))


def run_case(template: Scene, directory: Path, case: Case) -> None:
    """Run one case."""
    scene = copy_of(template, directory, case.operation)
    fs = FaultFS()
    store = Store.open(scene.root, fs=fs)
    fs.made.clear()
    fs.nth, fs.fault, fs.persistent = case.nth, FAULTS[case.fault], case.persistent
    try:
        OPERATIONS[case.operation](scene, store)
    except EventLogError as error:
        text = str(error)
        assert str(scene.directory) in text, f"no place: {text}"
        assert ADVICE.search(text), f"no advice: {text}"
    store.close()
    fs.heal()
    leaked = set(fs.open_fds.values())
    for fd in list(fs.open_fds):
        with suppress(OSError):
            fs.close(fd)
    assert not leaked, f"descriptors left open: {leaked}"
    if case.operation not in PREPARE:  # else it need not be sound yet
        check(scene, case.operation in READING)
    with Store.open(scene.root) as again:
        OPERATIONS[case.operation](scene, again)
    check(scene, True)


# How many cases of each operation are tried by default.
SAMPLE = {name: 1 if name in SLOW else 3 for name in OPERATIONS}


def all_cases(template: Scene, directory: Path) -> dict[str, list[Case]]:
    """Every case of every operation; a short write only where there is a write."""
    cases = {}
    for name, operation in OPERATIONS.items():
        scene = copy_of(template, directory, name)
        fs = FaultFS()
        with Store.open(scene.root, fs=fs) as store:
            fs.made.clear()
            operation(scene, store)
            cases[name] = [
                Case(name, nth, fault, persistent)
                for nth, call in enumerate(fs.made)
                for fault, number in FAULTS.items()
                for persistent in (False, True)
                if number != SHORT or call == "pwrite"
            ]
    return cases


def failures_of(template: Scene, directory: Path, cases: Iterable[Case]) -> list[str]:
    """Run cases; which ones failed, and how."""
    failed = []
    for case in cases:
        try:
            run_case(template, directory, case)
        except Exception as error:  # everything is to be reported with its case
            failed.append(f'LOCUS_FAULT="{case}": {"".join(traceback.format_exception(error)[-4:])}')
    return failed


def test_whatever_call_fails_nothing_acknowledged_is_lost(template: Scene, tmp_path: Path) -> None:
    """I1, I3, I10, I32, I35, P7: one of our errors with place and advice, no descriptor kept, all there.

    And the same operation succeeds when it is tried again.
    """
    if given := os.environ.get("LOCUS_FAULT"):
        operation, nth, fault, mode = given.split()
        run_case(template, tmp_path / "case", Case(operation, int(nth), fault, mode == "persistent"))
        return
    chosen = random.Random(int(os.environ.get("LOCUS_SEED", "1")))
    cases = all_cases(template, tmp_path / "case")
    sample = [case for name, of in cases.items() for case in chosen.sample(of, min(SAMPLE[name], len(of)))]

    assert failures_of(template, tmp_path / "case", sample) == []


class Uncut(FaultFS):
    """A disk on which no file can be shortened, or none be given a name, until it heals."""

    def __init__(self, name: str) -> None:
        super().__init__()
        self.name, self.refused, self.is_ill = name, 0, True

    def _fails(self, name: str) -> bool:
        if not (self.is_ill and name == self.name):
            return False
        self.refused += 1
        self.fault = errno.EIO
        return True


@pytest.mark.parametrize("is_restarted", [False, True])
def test_a_torn_tail_that_cannot_be_cut(is_restarted: bool, template: Scene, tmp_path: Path) -> None:
    """I1, I10, I35: a recovery whose ftruncate fails acknowledges nothing, and is made again by the next."""
    scene = copy_of(template, tmp_path / "case", "append")
    fs = Uncut("truncate")
    with Store.open(scene.root) as whole:
        whole.append([{"event_type": "note", "event_id": id_of("torn"), "payload": {"text": "x" * 5000}}])
    journal = max((scene.root / "log/journal").iterdir())
    os.truncate(journal, end_of_journal(REAL, str(journal)) - 7)  # by a power cut: nobody waited for it

    (scene.root / "log/acknowledged").unlink(missing_ok=True)
    store = Store.open(scene.root, fs=fs)
    for _ in range(3):
        with pytest.raises(EventLogError, match="again"):
            scene.append(store, id_of("refused"))
    assert fs.refused == 3
    fs.is_ill = False
    if is_restarted:
        store.close()
        store = Store.open(scene.root)
    scene.append(store, id_of("later"))
    store.close()
    with Store.open(scene.root) as again:
        there = [(event["position"], event["event_id"]) for event in again.events()]
        findings = again.verify("read")
    assert set(scene.acked) <= set(there)
    assert id_of("refused") not in dict(there).values()
    assert [finding.path for finding in findings if "/quarantine/" not in finding.path] == []  # to be settled


def test_hunt_whatever_call_fails(template: Scene, tmp_path: Path, hunt_minutes: float) -> None:
    """The same for as many cases as the hunt's minutes allow, the operations in turn (LOCUS_HUNT)."""
    if not hunt_minutes:
        pytest.skip("LOCUS_HUNT=minutes hunts")
    seed = int(os.environ.get("LOCUS_SEED", str(time.time_ns() % 10_000)))
    until = time.monotonic() + hunt_minutes * 60
    orders = list(all_cases(template, tmp_path / "case").values())
    for order in orders:
        random.Random(seed).shuffle(order)
    count = 0
    failed: list[str] = []
    for round_of in itertools.zip_longest(*orders):
        for case in filter(None, round_of):
            failed += failures_of(template, tmp_path / "case", [case])
            count += 1
        if time.monotonic() > until:
            break
    print(f"{count} cases of {sum(map(len, orders))}, seed {seed}", *failed, sep="\n")

    assert failed == []


@pytest.mark.parametrize("fault", sorted(FAULTS))
def test_the_faulty_disk_does_as_it_is_told(fault: str, tmp_path: Path) -> None:
    """The test's own disk: the n-th call fails once, or from then on, with the error asked for."""
    path = str(tmp_path / "file")
    for persistent in (False, True):
        fs = FaultFS(2, FAULTS[fault], persistent=persistent)
        fd = fs.open(path, os.O_RDWR | os.O_CREAT)
        outcomes: list[object] = []
        for _ in range(3):
            try:
                outcomes.append(fs.pwrite(fd, b"four", 0))
            except OSError as error:
                outcomes.append(error.errno)
        fs.close(fd)
        refused = 2 if fault == "short" else FAULTS[fault]
        assert outcomes == [4, refused, refused if persistent else 4]
        assert fs.open_fds == {}
