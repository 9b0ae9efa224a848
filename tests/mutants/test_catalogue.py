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
from tests.test_requirements import TEST, quotes
from tests.test_requirements import rows as requirements

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
    """The text that a mutant replaces is in its file exactly once, and what comes of it compiles,
    where it is Python."""
    for mutant in MUTANTS:
        text = (ROOT / mutant.path).read_text(encoding="utf-8")
        changed = mutant.applied(text)
        if mutant.path.endswith(".py"):
            compile(changed, mutant.path, "exec")


def test_every_invariant_has_a_mutant(docstrings: dict[str, str]) -> None:
    """I1–I36: each is broken by a mutant, and a test that quotes it must notice; so with the laws named."""
    wrong = []
    for mutant in MUTANTS:
        missing = [test for test in mutant.tests if test not in docstrings]
        assert not missing, f"{mutant.name} names tests that are not there: {missing}"
        unquoted = set(mutant.breaks.split()).difference(*(quoted(docstrings[test]) for test in mutant.tests))
        wrong += [f"{mutant.name}: none of its tests quotes {number}" for number in sorted(unquoted)]
    covered = {number for mutant in MUTANTS for number in mutant.breaks.split()}

    assert wrong == []
    assert {f"I{number}" for number in range(1, 39)} - covered == set()


def attacks() -> list[str]:
    """The attacks of docs/threat-model.md, as the first column of its table has them."""
    text = (ROOT / "docs/threat-model.md").read_text(encoding="utf-8")
    table = text.partition("\n## Attacks\n")[2].partition("\n## ")[0]
    return re.findall(r"^\| (.+?) \| .+ \| `test_.+\|$", table, re.M)


def table_of(title: str) -> dict[str, str]:
    """The rows of a table of two columns in docs/mutants.md."""
    page = (ROOT / "docs/mutants.md").read_text(encoding="utf-8")
    section = page.partition(f"\n## {title}\n")[2].partition("\n## ")[0]
    return dict(re.findall(r"^\| (.+?) \| (.+?) \|$", section, re.M)[1:])


def test_every_wall_has_a_mutant() -> None:
    """P5, P7: each row of the threat model is taken out of what ships by a mutant, or is in
    docs/mutants.md with the reason why by none."""
    rows = attacks()
    named = {wall for mutant in MUTANTS for wall in mutant.walls}
    without = table_of("Without a mutant")
    fitting = {wall: [row for row in rows if row.startswith(wall)] for wall in named}

    assert len(rows) > 25
    assert {wall: found for wall, found in fitting.items() if len(found) != 1} == {}
    assert [row for row in rows if not row.startswith(tuple(named)) and row not in without] == []


def test_every_requirement_has_a_mutant(docstrings: dict[str, str]) -> None:
    """P7: what builds a required thing is taken away by a mutant that a test notices which quotes its number,
    and which its row cites, or the number is in docs/mutants.md with the reason."""
    numbers = [number for number, _, _ in requirements()]
    cited = {number: {"::".join(one) for one in TEST.findall(shown)} for number, _, shown in requirements()}
    noticed = {
        (number, test) for mutant in MUTANTS for number in mutant.requirements for test in mutant.tests
    }
    named = {number for mutant in MUTANTS for number in mutant.requirements}
    without = {number for numbers in table_of("Without a mutant") for number in numbers.split(", ")}
    unquoted = [
        f"{mutant.name}: none of its tests quotes {number}"
        for mutant in MUTANTS
        for number in mutant.requirements
        if not any(quotes(docstrings[test], number) for test in mutant.tests)
    ]

    assert unquoted == []
    assert named - set(numbers) == set()
    assert [number for number in numbers if number not in named and number not in without] == []
    assert [one for one in named if not any((one, test) in noticed for test in cited[one])] == []
    assert sorted(named & without) == [], "these have a mutant by now: take them off the list"


def test_survivors_are_those_of_the_page() -> None:
    """P7: what no test notices is in docs/mutants.md with the reason, until the list is empty."""
    survivors = {f"`{mutant.name}`": mutant.survives for mutant in MUTANTS if mutant.survives}

    assert table_of("Survivors") == survivors


def test_every_mutant_takes_something_away() -> None:
    """A mutant names an invariant, a wall or a requirement, and the tests that are to notice."""
    assert [m.name for m in MUTANTS if not (m.breaks or m.walls or m.requirements) or not m.tests] == []


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
    """A test does not go red because it runs in a copy: what changes nothing is reported to survive."""
    mutant = replace(NAMED["lock-order-unchecked"], new=NAMED["lock-order-unchecked"].old + "    pass\n")
    survived = ground.mutated(mutant, mutant.tests[0], 1.0)

    assert survived.outcome == "passed", survived.output


def test_hunt_every_mutant_is_killed(tmp_path: Path, hunt_minutes: float) -> None:
    """In a hunt all mutants are tried, in an order that LOCUS_SEED draws, until the time is over (I1–I36).

    One that docs/mutants.md lists as a survivor must survive: else its test has come, and it leaves the list.
    """
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
        survivors += [] if verdict.is_expected else [f"{mutant.name}: {verdict.to_json()['tests']}"]
    print(f"seed {seed}: {tried} of {len(MUTANTS)} mutants")

    assert survivors == []
