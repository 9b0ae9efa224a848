"""docs/team.md is run, as the README is."""

from pathlib import Path

from tests.pages import ROOT, check_page

PAGE = ROOT / "docs/team.md"


def test_the_page_for_teams_prints_what_it_shows(tmp_path: Path) -> None:
    """Two machines publish, one is replayed after it is gone, tables are made, a text is taken back."""
    check_page(PAGE, tmp_path)
