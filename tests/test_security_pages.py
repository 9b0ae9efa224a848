"""The threat model and the track record: what they call a test is one."""

import re

import pytest

from tests.test_house import ROOT, test_functions

TEST_NAME = re.compile(r"`(test_\w+)`")


@pytest.mark.parametrize("page", ["threat-model.md", "track-record.md"])
def test_every_test_that_a_page_names_exists(page: str) -> None:
    """P7: each protection and each repaired error is beside a test that is there."""
    text = (ROOT / "docs" / page).read_text(encoding="utf-8")
    there = {where.rpartition(".")[2] for where, _ in test_functions()}
    rows = [line for line in text.splitlines() if line.startswith("| ") and "`test_" in line]

    assert len(rows) > 20
    assert sorted(set(TEST_NAME.findall(text)) - there) == []


def test_each_row_of_the_track_record_has_a_test() -> None:
    """P7: an error without a test that holds it is not repaired."""
    text = (ROOT / "docs/track-record.md").read_text(encoding="utf-8")
    rows = [line for line in text.splitlines() if line.startswith("| ") and not line.startswith("| What was")]

    assert rows and [line for line in rows if not TEST_NAME.search(line.rpartition(" | ")[2] or line)] == []
