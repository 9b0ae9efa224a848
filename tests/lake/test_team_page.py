"""docs/team.md is run, as the README is."""

from pathlib import Path

from tests.test_readme import ROOT, blocks, compare_printed, parse, run_tour

PAGE = ROOT / "docs/team.md"


def test_the_page_for_teams_prints_what_it_shows(tmp_path: Path) -> None:
    """Two machines publish, one is replayed after it is gone, tables are made, a text is taken back."""
    commands = [command for block in blocks("console", PAGE) for command, _ in parse(block)]
    compare_printed(PAGE, tmp_path, run_tour(tmp_path, commands))
