"""The catalogue of mutants fits the code, covers every invariant, and a few of it are tried.

`scripts/mutants` tries all; a hunt (`LOCUS_HUNT=<minutes>`) as many as there is time for.
"""

import os
import random
import re
import time
from dataclasses import replace
from pathlib import Path

import pytest

from tests.mutants.__main__ import Trial
from tests.mutants.catalogue import MUTANTS, ROOT, Mutant
from tests.mutants.ground import Ground
from tests.test_house import outline

CHEAP = ("frame-digest-forgets-the-offset", "append-without-expect", "lock-order-unchecked")
NAMED = {mutant.name: mutant for mutant in MUTANTS}


@pytest.fixture(scope="module")
def docstrings() -> dict[str, str]:
    """file::function → docstring, of every test."""
    found = {}
    for path in (ROOT / "tests").rglob("test_*.py"):
        for name, docstring in outline(path).functions:
            found[f"{path.relative_to(ROOT)}::{name}"] = docstring or ""
    return found


@pytest.fixture(scope="module")
def ground(tmp_path_factory: pytest.TempPathFactory) -> Ground:
    return Ground(tmp_path_factory.mktemp("ground"))


def quoted(docstring: str) -> set[str]:
    """The invariants and laws that a docstring names, in ranges too."""
    found = set(re.findall(r"\b[IP]\d+\b", docstring))
    for first, last in re.findall(r"\bI(\d+)[–…-]I(\d+)\b", docstring):
        found |= {f"I{number}" for number in range(int(first), int(last) + 1)}
    return found


def test_every_mutant_can_be_made() -> None:
    """The text that a mutant replaces stands in its file exactly once, and what comes of it compiles."""
    for mutant in MUTANTS:
        text = (ROOT / mutant.path).read_text(encoding="utf-8")
        compile(mutant.applied(text), mutant.path, "exec")


def test_every_invariant_has_a_mutant(docstrings: dict[str, str]) -> None:
    """I1–I36: each is broken by a mutant, and a test that quotes it must notice; so with the laws named."""
    wrong = []
    for mutant in MUTANTS:
        assert mutant.breaks, mutant.name
        missing = [test for test in mutant.tests if test not in docstrings]
        assert not missing, f"{mutant.name} names tests that are not there: {missing}"
        unquoted = set(mutant.breaks.split()).difference(*(quoted(docstrings[test]) for test in mutant.tests))
        wrong += [f"{mutant.name}: none of its tests quotes {number}" for number in sorted(unquoted)]
    covered = {number for mutant in MUTANTS for number in mutant.breaks.split()}

    assert wrong == []
    assert {f"I{number}" for number in range(1, 37)} - covered == set()


def test_no_two_mutants_are_alike() -> None:
    """Names and changes occur once."""
    assert len(NAMED) == len(MUTANTS)
    assert len({(mutant.path, mutant.old, mutant.new) for mutant in MUTANTS}) == len(MUTANTS)


@pytest.mark.parametrize("name", CHEAP)
def test_a_cheap_mutant_is_killed(ground: Ground, name: str) -> None:
    """I9, I11, I31: some mutants are tried whenever the tests run; the rest by scripts/mutants."""
    mutant = NAMED[name]
    for test in mutant.tests:
        run = ground.mutated(mutant, test, 1.0)
        assert run.outcome == "failed", run.output


def test_a_change_without_effect_survives(ground: Ground) -> None:
    """A test does not go red because it runs in a copy: what changes nothing is told to survive."""
    mutant = replace(NAMED["lock-order-unchecked"], new=NAMED["lock-order-unchecked"].old + "    pass\n")
    survived = ground.mutated(mutant, mutant.tests[0], 1.0)

    assert survived.outcome == "passed", survived.output


def test_hunt_every_mutant_is_killed(tmp_path: Path, hunt_minutes: float) -> None:
    """In a hunt all mutants are tried, in an order that LOCUS_SEED draws, until the time is over (I1–I36)."""
    if not hunt_minutes:
        pytest.skip("a hunt: LOCUS_HUNT=<minutes>")
    until = time.monotonic() + hunt_minutes * 60
    seed = int(os.environ.get("LOCUS_SEED", "1"))
    order: list[Mutant] = random.Random(seed).sample(MUTANTS, len(MUTANTS))
    trial = Trial(tmp_path, 1)
    survivors = []
    tried = 0
    for mutant in order:
        if time.monotonic() >= until:
            break
        tried += 1
        verdict = trial.verdict(mutant)
        survivors += [] if verdict.is_killed else [f"{mutant.name}: {verdict.to_json()['tests']}"]
    print(f"seed {seed}: {tried} of {len(MUTANTS)} mutants")

    assert survivors == []
