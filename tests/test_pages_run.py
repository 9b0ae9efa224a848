"""Each command of the pages for users is run, and prints what stands below it (tests/pages.py)."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.pages import README, ROOT, blocks, check_page, environment, run_page, shown_by

HOWTO = ROOT / "docs/howto.md"
PAGES = [README, HOWTO, *sorted((ROOT / "docs").glob("tutorial/*.md")), *sorted((ROOT / "docs").glob("howto/*.md"))]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_page_prints_what_it_shows(page: Path, tmp_path: Path) -> None:
    """Each command works, and prints what stands below it; a program of the page is there as a file."""
    for number, program in enumerate(blocks("python", page)):
        (tmp_path / f"program-{number}.py").write_text(program, encoding="utf-8")
    check_page(page, tmp_path)
