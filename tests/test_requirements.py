"""docs/requirements.md: every requirement once, with the test that shows it or what it waits for."""

import re
from pathlib import Path

from tests.test_house import outline

ROOT = Path(__file__).resolve().parent.parent
COUNT_OF = {"S0": 24, "S1": 61, "S2": 36, "S3": 40, "S4": 48}
ROW = re.compile(r"^\| (S\d-\d+) \| (.+?) \| (.+?) \|$", re.M)
TEST = re.compile(r"`(tests/[\w/]+\.py)::(\w+)`")


def rows() -> list[tuple[str, str, str]]:
    return ROW.findall((ROOT / "docs/requirements.md").read_text(encoding="utf-8"))


def test_every_requirement_has_exactly_one_row() -> None:
    """The numbers of all five groups are there, in order, once each, with a statement."""
    expected = [f"{group}-{i}" for group, count in COUNT_OF.items() for i in range(1, count + 1)]

    assert [number for number, _, _ in rows()] == expected


def test_every_row_names_tests_or_says_what_it_waits_for() -> None:
    """The last column is a list of tests, or begins with `not yet:`; nothing in between."""
    for number, _, shown in rows():
        tests = TEST.findall(shown)
        rest = TEST.sub("", shown).strip(" ,")
        assert bool(tests) != shown.startswith("not yet: "), number
        assert not tests or rest == "", number


def test_every_named_test_exists_and_quotes_its_number() -> None:
    """A named test is a function of that file whose docstring names the requirement."""
    docstrings: dict[tuple[str, str], str] = {}
    for path in (ROOT / "tests").rglob("*.py"):
        for name, docstring in outline(path).functions:
            docstrings[(str(path.relative_to(ROOT)), name)] = docstring or ""
    wrong = []
    for number, _, shown in rows():
        for place in TEST.findall(shown):
            if not quotes(docstrings.get(place, ""), number):
                wrong.append(f"{number}: {place[0]}::{place[1]}")

    assert wrong == []


def quotes(docstring: str, number: str) -> bool:
    """Whether a docstring names a requirement, alone or in a range such as S1-29…S1-35."""
    group, _, own = number.partition("-")
    if re.search(rf"\b{number}\b", docstring):
        return True
    ranges = re.findall(rf"\b{group}-(\d+)(?:…|–| to ){group}-(\d+)\b", docstring)
    return any(int(first) <= int(own) <= int(last) for first, last in ranges)


def test_a_quoted_requirement_is_not_said_to_wait() -> None:
    """When a test shows a requirement, its row says so."""
    docstrings = []
    for path in (ROOT / "tests").rglob("test_*.py"):
        if path != Path(__file__):
            found = outline(path).functions
            docstrings += [text or "" for name, text in found if name.startswith("test_")]
    words = "\n".join(docstrings)
    stale = [number for number, _, shown in rows() if shown.startswith("not yet: ") and quotes(words, number)]

    assert stale == []
