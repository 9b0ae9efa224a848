"""Each command of the pages for users is run, and prints what is below it (tests/pages.py)."""

import re
from pathlib import Path
from xml.etree import ElementTree

import click
import pytest

from locus_cli.root import cli
from tests.pages import README, ROOT, blocks, check_page, shape, shown_by
from tests.pictures import PICTURES, SCENES, drawn, play, text_of

DOCS = ROOT / "docs"
PAGES = [README, DOCS / "howto.md", *sorted(DOCS.glob("tutorial/*.md")), *sorted(DOCS.glob("howto/*.md"))]
ELSEWHERE = {DOCS / "team.md": "tests/lake/test_team_page.py"}
# Blocks of these pages that no test types as they are, and what runs the same.
TYPED_ELSEWHERE = {
    "python3 -m venv ~/.venvs/locus": "scripts/ci.d/30-package",
    "~/.venvs/locus/bin/pip install -c constraints.txt '.[cost,view]'": "scripts/ci.d/30-package",
    'export PATH="$HOME/.venvs/locus/bin:$PATH"': "scripts/ci.d/30-package",
    "locus init": "docs/tutorial/ten-minutes.md",
    "locus hooks install": "docs/tutorial/ten-minutes.md",
    "scripts/demo": "tests/test_scripts.py",
    "scripts/test": "scripts/ci.d/50-tests",
}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_page_prints_what_it_shows(page: Path, tmp_path: Path) -> None:
    """Each command works, and prints what is below it; a program of the page is there as a file."""
    for number, program in enumerate(blocks("python", page)):
        (tmp_path / f"program-{number}.py").write_text(program, encoding="utf-8")
    check_page(page, tmp_path)


@pytest.mark.fast
def test_no_command_is_left_out() -> None:
    """Each block of these pages is run by the test above, or is here with what runs it."""
    for page in (*PAGES, *ELSEWHERE):
        kinds = set(re.findall(r"^ *```(\w*)\n.*?^ *```$", page.read_text(encoding="utf-8"), re.M | re.S))
        assert kinds <= {"console", "python", "sh", "toml"}, page
        typed = [line for block in blocks("sh", page) for line in block.splitlines()]
        assert set(typed) <= TYPED_ELSEWHERE.keys(), page
    assert all(shown_by(page) for page in PAGES)
    assert all((ROOT / path).is_file() for path in (*TYPED_ELSEWHERE.values(), *ELSEWHERE.values()))


@pytest.mark.fast
def test_commands_in_prose_exist() -> None:
    """What a sentence names in passing is a command, with options that it has."""
    pages = [*PAGES, *ELSEWHERE, *DOCS.glob("explanation/*.md")]
    named = {
        code for page in pages for code in re.findall(r"`(locus [^`\n]*)`", page.read_text(encoding="utf-8"))
    }
    wrong = [code for code in named if not is_command(code)]

    assert len(named) > 20 and wrong == []


def is_command(code: str) -> bool:
    """Whether each word of a command line is a verb, an option of it, or an argument."""
    command: click.Command = cli
    for word in code.partition("|")[0].split()[1:]:
        below = (
            command.get_command(click.Context(command), word) if isinstance(command, click.Group) else None
        )
        options = {
            option for parameter in command.params for option in parameter.opts + parameter.secondary_opts
        }
        if below is not None:
            command = below
        elif (word.startswith("-") and word not in options) or isinstance(command, click.Group):
            return False
    return True


def test_pictures_show_what_a_terminal_shows() -> None:
    """Each picture of a terminal is of what its commands print now; `python -m tests.pictures` makes them."""
    for name, text in play().items():
        made = ElementTree.fromstring(drawn(name, text))
        now = made.findtext("{http://www.w3.org/2000/svg}desc") or ""
        assert shape(text_of(PICTURES / f"{name}.svg")) == shape(now), name


@pytest.mark.fast
def test_each_picture_is_made_by_a_program() -> None:
    """No picture of a terminal is drawn by hand, and none loads anything."""
    assert {path.stem for path in PICTURES.glob("*.svg")} == SCENES.keys()
    for path in PICTURES.glob("*.svg"):
        text = path.read_text(encoding="utf-8")
        ElementTree.fromstring(text)
        assert not re.search(r"(?:href|src)=|@import|url\((?!#)", text), path.name
