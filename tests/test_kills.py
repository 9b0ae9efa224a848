"""SIGKILL before each effect of every operation: real processes on a real disk, an oracle outside the store.

The operations are those of tests/operations.py. A process does one of them on a copy of a small store and is
killed before its n-th call that changes the disk, or in the middle of it when that is a write. What it
acknowledged to be acknowledged goes through a pipe. Then another process finds everything acknowledged, and
nothing wrong but a torn tail; the operation, done again, comes to its end; nothing is left in `tmp/` that no
sweep knows.

By default one kill of each of some operations is tried, chosen by LOCUS_SEED (1). LOCUS_HUNT=minutes tries as
many as fit, of all, in a random order (LOCUS_SEED); a failure names the case, which
`LOCUS_KILL="OPERATION N whole|torn"` repeats.
"""

import os
import random
import time
import traceback
from pathlib import Path

import pytest

from eventlog.base.errors import EventLogError
from eventlog.base.layout import TMP_DIR
from eventlog.erasure import erasure
from eventlog.log.sweep import sweep
from eventlog.store import Store
from tests.kills import effects_of, in_child
from tests.operations import OPERATIONS, PREPARE, READING, Scene, check, copy_of, make

# Changing operations; a replay changes the disk outside of the store.
KILLED = [name for name in OPERATIONS if name not in READING or name in ("materialize", "replay", "salvage")]
OPERATIONS_BY_DEFAULT = 5

# Written again and again, under one name.
_SPARE = ("clock", "statcache-")


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Scene:
    return make(tmp_path_factory.mktemp("kills"))


def _work(scene: Scene, name: str) -> None:
    with Store.open(scene.root) as store:
        OPERATIONS[name](scene, store)


def kill(template: Scene, directory: Path, name: str, nth: int, torn: bool) -> None:
    """One case."""
    scene = copy_of(template, directory, name)
    reading, writing = os.pipe()
    real_write = os.write  # which the child counts from then on
    scene.report = lambda line: real_write(writing, line)
    try:
        was_killed = in_child(lambda: _work(scene, name), nth, torn=torn)
        os.close(writing)
        with os.fdopen(os.dup(reading), "rb") as reported:
            for line in reported:
                position, id = line.split()
                scene.acked.append((int(position), id.decode()))
    finally:
        os.close(reading)
    if not was_killed:  # the clock decides whether a check is remembered: the number of effects varies
        print(f"{name} ended before its effect {nth}")
    scene.report = None
    if name not in PREPARE:
        check(scene, False)
    with Store.open(scene.root) as store:
        if name == "restore":
            store.recover_restore()
        erasure.resume(store)
    _work(scene, name)
    with Store.open(scene.root) as store:
        store.append([{"event_type": "action"}])  # cuts a torn tail, which a work with nothing to do leaves
    check(scene, True)
    with Store.open(scene.root) as store:
        sweep(store.fs, store.layout, -1)
        left = [n for n in os.listdir(store.layout.directory(TMP_DIR)) if not n.startswith(_SPARE)]
    assert left == []


def failures_of(template: Scene, directory: Path, cases: "list[tuple[str, int, bool]]") -> list[str]:
    failed = []
    for name, nth, torn in cases:
        try:
            kill(template, directory, name, nth, torn)
        except (AssertionError, EventLogError, OSError) as error:
            case = f"{name} {nth} {'torn' if torn else 'whole'}"
            failed.append(f'LOCUS_KILL="{case}": {"".join(traceback.format_exception(error)[-4:])}')
    return failed


def effects(template: Scene, directory: Path, name: str) -> int:
    scene = copy_of(template, directory, name)
    return effects_of(lambda: _work(scene, name))


def test_a_process_may_be_killed_before_any_effect(template: Scene, tmp_path: Path) -> None:
    """I1, I3, I10, I12, I32: nothing acknowledged is lost, and doing it again comes to the same end."""
    if given := os.environ.get("LOCUS_KILL"):
        name, nth, how = given.split()
        kill(template, tmp_path / "case", name, int(nth), how == "torn")
        return
    draw = random.Random(int(os.environ.get("LOCUS_SEED", "1")))
    cases = []
    for name in draw.sample(KILLED, OPERATIONS_BY_DEFAULT):
        cases.append((name, draw.randrange(effects(template, tmp_path / "case", name)), draw.random() < 0.5))

    assert failures_of(template, tmp_path / "case", cases) == []


def test_hunt_with_kills_before_any_effect(template: Scene, tmp_path: Path, hunt_minutes: float) -> None:
    """I1, I3, I10, I12, I32: the same, for as many cases as the hunt's minutes allow."""
    if not hunt_minutes:
        pytest.skip("LOCUS_HUNT=minutes hunts")
    seed = int(os.environ.get("LOCUS_SEED", str(random.randrange(2**31))))
    until = time.monotonic() + hunt_minutes * 60
    counts = {name: effects(template, tmp_path / "case", name) for name in KILLED}
    cases = [
        (name, n, torn) for name, count in counts.items() for n in range(count) for torn in (False, True)
    ]
    random.Random(seed).shuffle(cases)
    done, failed = 0, []
    for case in cases:
        failed += failures_of(template, tmp_path / "case", [case])
        done += 1
        if time.monotonic() > until:
            break
    print(f"{done} kills of {len(cases)}, seed {seed}, effects {counts}", *failed, sep="\n")

    assert failed == []
