"""The README and the pages: what comes first, where links lead, which words are used."""

import inspect
import re
from pathlib import Path

import click
import pytest

import eventlog
from locus_cli.root import cli
from tests.pages import README, ROOT, blocks, shown_by

GLOSSARY = ROOT / "docs/glossary.md"
HOWTO = ROOT / "docs/howto.md"
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])


@pytest.mark.fast
def test_the_how_to_runs_what_the_plugin_runs() -> None:
    """Each command that a slash command of the plugin runs by itself is on the page, which names both."""
    page = HOWTO.read_text(encoding="utf-8")
    commands = {command.removesuffix(" 2>/dev/null") for command, _ in shown_by(HOWTO)}
    files = sorted((ROOT / "plugins/claude-code/commands").glob("*.md"))

    assert files
    for file in files:
        assert f"/locus:{file.stem}`" in page
        runs = re.findall(r"^!`(.*)`$", file.read_text(encoding="utf-8"), re.M)
        assert runs and {run.removesuffix(" $ARGUMENTS") for run in runs} <= commands, file.name


@pytest.mark.fast
def test_the_two_commands_exist() -> None:
    """The commands that need nothing but Python and git are there, and each is one script."""
    commands = ["scripts/demo", "scripts/test"]

    assert commands in [block.split() for block in blocks("sh")]
    assert all((ROOT / command).is_file() for command in commands)


@pytest.mark.fast
def test_the_first_screen_says_install_record_undo() -> None:
    """What a newcomer types first comes first, and each command is one of `locus`."""
    text = README.read_text(encoding="utf-8")
    verbs = re.findall(r"^(?:\$ )?locus (\w+)", "".join(re.findall(r"^```.*?^```$", text, re.M | re.S)), re.M)

    assert verbs == ["init", "hooks", "undo", "blame", "sql", "log"]
    assert all(cli.get_command(click.Context(cli), verb) is not None for verb in verbs)


@pytest.mark.fast
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    """A link to a file of the project names a file, and a heading that exists in it."""
    for target in re.findall(r"\]\(([^)\s]+)\)", page.read_text(encoding="utf-8")):
        if target.startswith(("http:", "https:")):
            continue
        name, _, anchor = target.partition("#")
        linked = (page.parent / name) if name else page
        assert linked.exists(), f"{page.name} links to {target}"
        if anchor:
            heads = re.findall(r"^#+ (.*)$", linked.read_text(encoding="utf-8"), re.M)
            assert anchor in {re.sub(r"[^\w\- ]", "", head).lower().replace(" ", "-") for head in heads}, (
                target
            )


@pytest.mark.fast
def test_every_page_is_linked() -> None:
    """A page that no other page leads to is not read."""
    linked = {
        (page.parent / target).resolve()
        for page in PAGES
        for target in re.findall(r"\]\(([^)#\s]+)", page.read_text(encoding="utf-8"))
    }

    assert [page.name for page in PAGES if page != README and page.resolve() not in linked] == []


@pytest.mark.fast
def test_the_glossary_has_the_words_of_the_design() -> None:
    """Each word that commands and pages use for an idea is explained."""
    rows = re.findall(r"^\| ([a-z, -]+) \| ", GLOSSARY.read_text(encoding="utf-8"), re.M)
    explained = {word.strip() for row in rows for word in row.split(",")}
    wanted = (
        "event batch journal segment manifest position session turn anchor master blob tree pack snapshot "
        "agent store index projection"
    )

    assert {*wanted.split(), "timeline event"} <= explained


# Pages for users. Numbers of laws, invariants and requirements are for those who read docs/design.md.
_USER_PAGES = (
    "README.md", "docs/anchors.md", "docs/api.md", "docs/capture.md", "docs/certainty.md", "docs/cli.md",
    "docs/costs.md", "docs/exports.md", "docs/hooks.md", "docs/install.md", "docs/locusgraph.md",
    "docs/maintenance.md", "docs/mcp.md", "docs/people.md", "docs/questions.md", "docs/reports.md",
    "docs/search.md", "docs/secrets.md", "docs/sql.md", "docs/times.md",
)  # fmt: skip


@pytest.mark.fast
@pytest.mark.parametrize("page", _USER_PAGES)
def test_user_pages_have_no_numbers_of_requirements(page: str) -> None:
    """A page for users says what holds: the number of a law or a requirement explains nothing to them."""
    text = (ROOT / page).read_text(encoding="utf-8")

    assert re.findall(r"\b(?:I[1-9]\d?|P[1-8]|S\d-\d+|[Ll]aw P?\d|[Ii]nvariant I?\d+)\b", text) == []


@pytest.mark.fast
def test_public_docstrings_have_no_numbers_of_requirements() -> None:
    """The docstrings of public names are pages, too: of the site, and of `help()`."""
    numbered = []
    for name in eventlog.__all__:
        public = getattr(eventlog, name)
        members = inspect.getmembers_static(public) if inspect.isclass(public) else []
        for member, value in [("", public), *(pair for pair in members if not pair[0].startswith("_"))]:
            value = getattr(value, "__func__", getattr(value, "fget", getattr(value, "func", value)))
            text = getattr(value, "__doc__", None) or ""
            if re.search(r"\b(?:I[1-9]\d?|P[1-8]|S\d-\d+)\b", str(text)):
                numbered.append(f"{name}.{member}")

    assert numbered == []


# Words that an edited page does not need: "after", "before", "again" and the subject say the same.
_DIALECT = re.compile(
    r"\b(?:behind|in front of|anew|whoever|is told|are told|for who|(?:full|short|watched|last) looks?)\b",
    re.I,
)
_NOT_EDITED_YET = {"glossary.md"}


@pytest.mark.fast
@pytest.mark.parametrize(
    "page",
    [page for page in [README, *sorted((ROOT / "docs").glob("*.md"))] if page.name not in _NOT_EDITED_YET],
    ids=lambda page: page.name,
)
def test_pages_are_in_plain_english(page: Path) -> None:
    """Prose has "after" and "before" where time or order is meant. Names in code and columns are formats."""
    text = re.sub(r"^```.*?^```$|`[^`]+`", "", page.read_text(encoding="utf-8"), flags=re.M | re.S)
    prose = text.partition("\n# Columns\n")[0]

    assert _DIALECT.findall(prose) == []
