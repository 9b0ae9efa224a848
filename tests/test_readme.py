"""The README is run: its tour as shell commands, its Python as a program.

What the tour prints is compared in shape: ids, hashes, dates, times, sizes and paths may differ from
those shown, words and structure may not. LOCUS_UPDATE=1 writes the present output into the page.
"""

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import click
import pytest

from locus_cli.root import cli

ROOT = Path(__file__).resolve().parent.parent
README = ROOT / "README.md"
GLOSSARY = ROOT / "docs/glossary.md"
HOWTO = ROOT / "docs/howto.md"
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])

_MARK = "\x01"
_DATE = "2026-03-01T12:00:00+00:00"
_SHAPES = (
    (r"\S*/\.locus\b", "STORE"),
    (r"(who works in them): .*, on \S+\. It", r"\1: WHO. It"),
    (r"\S*/index/|\b\d{20}-[0-9a-f]{8}\.duckdb", "INDEX"),
    (r"\d{4}-\d\d-\d\d(?:[T ]\d\d:\d\d(?::\d\d)?(?:\.\d+)?)?", "DATE"),
    (r"\b\d\d:\d\d:\d\d\b", "TIME"),
    (r"\b[0-9a-z]{8}_(\d{3})\b", r"SID_\1"),
    (r"\b[0-9a-f]{7,}…?", "HEX"),
    (r"\b[\d.]+ (?:B|kB|MB)\b", "SIZE"),
    (r"\b[\d.]+ s\b", "SECONDS"),
    (r"[ \t]+", " "),
    (r" +$", ""),
)


def blocks(kind: str, page: Path = README) -> list[str]:
    return re.findall(rf"^```{kind}\n(.*?)^```$", page.read_text(encoding="utf-8"), re.M | re.S)


def shape(text: str) -> str:
    for pattern, word in _SHAPES:
        text = re.sub(pattern, word, text, flags=re.M)
    return text


def environment(directory: Path) -> dict[str, str]:
    """A `locus` on the PATH, and a git that is nobody's."""
    bin_directory = directory / "bin"
    bin_directory.mkdir(exist_ok=True)
    locus = bin_directory / "locus"
    locus.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -m locus_cli "$@"\n')
    locus.chmod(0o755)
    python = bin_directory / "python3"
    python.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} "$@"\n')
    python.chmod(0o755)
    (directory / "locus").symlink_to(ROOT) if not (directory / "locus").exists() else None
    who = {f"GIT_{role}_{what}": value for role in ("AUTHOR", "COMMITTER")
           for what, value in (("NAME", "You"), ("EMAIL", "you@example.org"), ("DATE", _DATE))}  # fmt: skip
    own = {name: value for name, value in os.environ.items() if not name.startswith(("GIT_", "LOCUS_"))}
    return {
        **own,
        **who,
        "PATH": f"{bin_directory}{os.pathsep}{os.environ['PATH']}",
        "HOME": str(directory),
        "GIT_CONFIG_GLOBAL": os.devnull,
        "GIT_CONFIG_SYSTEM": os.devnull,
    }


def run_tour(directory: Path, commands: list[str]) -> list[str]:
    """What each command prints, both streams together, in one shell so that `cd` lasts."""
    script = "".join(f"printf '{_MARK}'\n{command}\n" for command in commands)
    done = subprocess.run(
        ["sh", "-c", f"exec 2>&1\n{script}"],
        cwd=directory,
        env=environment(directory),
        capture_output=True,
        encoding="utf-8",
        stdin=subprocess.DEVNULL,
        timeout=120,
    )
    return done.stdout.split(_MARK)[1:]


def parse(block: str) -> list[tuple[str, str]]:
    """(command, what it prints) of a console block."""
    parts = re.split(r"^\$ (.*)\n", block, flags=re.M)
    return list(zip(parts[1::2], parts[2::2], strict=True))


@pytest.fixture(scope="module")
def tour(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[str]]:
    """The directory in which the tour was run, and what its commands printed."""
    directory = tmp_path_factory.mktemp("tour")
    commands = [command for block in blocks("console") for command, _ in parse(block)]
    return directory, run_tour(directory, commands)


def compare_printed(page: Path, directory: Path, printed: list[str]) -> None:
    """Each command of a page prints what stands below it; LOCUS_UPDATE=1 writes what it prints."""
    printed = [text.replace(str(directory), "~") for text in printed]
    if os.environ.get("LOCUS_UPDATE") == "1":
        text = page.read_text(encoding="utf-8")
        at = 0
        for block in blocks("console", page):
            new = ""
            for command, _ in parse(block):
                new += f"$ {command}\n{printed[at]}"
                at += 1
            text = text.replace(f"```console\n{block}```", f"```console\n{new}```")
        page.write_text(text, encoding="utf-8")
    left = list(printed)
    for block in blocks("console", page):
        for command, shown in parse(block):
            assert shape(left.pop(0)) == shape(shown), f"$ {command}"
    assert left == []


def test_the_tour_prints_what_the_readme_shows(tour: tuple[Path, list[str]]) -> None:
    """Every command of the tour works, and prints what stands below it."""
    compare_printed(README, *tour)


def test_the_how_to_prints_what_it_shows(tmp_path: Path) -> None:
    """Undo, redo, a conflict, recover, blame, bisect, compare, an agent's tool, the plugin's commands: each
    prints what the page shows."""
    commands = [command for block in blocks("console", HOWTO) for command, _ in parse(block)]
    compare_printed(HOWTO, tmp_path, run_tour(tmp_path, commands))


@pytest.mark.fast
def test_the_how_to_runs_what_the_plugin_runs() -> None:
    """Each command that a slash command of the plugin runs by itself is on the page, which names both."""
    page = HOWTO.read_text(encoding="utf-8")
    shown = [command for block in blocks("console", HOWTO) for command, _ in parse(block)]
    commands = {command.removesuffix(" 2>/dev/null") for command in shown}
    files = sorted((ROOT / "plugins/claude-code/commands").glob("*.md"))

    assert files
    for file in files:
        assert f"/locus:{file.stem}`" in page
        runs = re.findall(r"^!`(.*)`$", file.read_text(encoding="utf-8"), re.M)
        assert runs and {run.removesuffix(" $ARGUMENTS") for run in runs} <= commands, file.name


def test_the_python_example_runs(tour: tuple[Path, list[str]]) -> None:
    """The program of the README works in the repository of the tour."""
    (program,) = blocks("python")
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=tour[0] / "tour",
        env=environment(tour[0]),
        capture_output=True,
        text=True,
    )

    assert (done.returncode, done.stderr) == (0, "")
    assert "Friendlier greeting" in done.stdout
    assert "3 b'import sys" in done.stdout or "2 b'import sys" in done.stdout


@pytest.mark.fast
def test_the_two_commands_exist() -> None:
    """The commands that need nothing but Python and git are there, and each is one script."""
    commands = ["scripts/demo", "scripts/test"]

    assert commands in [block.split() for block in blocks("sh")]
    assert all((ROOT / command).is_file() for command in commands)


@pytest.mark.fast
def test_the_first_screen_says_install_record_undo() -> None:
    """What a newcomer types first stands first, and each command is one of `locus`."""
    shown = [re.findall(r"^locus (\w+)", block, re.M) for block in blocks("sh")]
    verbs = [verb for block in shown for verb in block]

    assert verbs[:4] == ["init", "hooks", "import", "undo"]
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


# Words that an edited page does not need: "after", "before", "again" and the subject say the same.
_DIALECT = re.compile(r"\b(?:behind|in front of|anew|whoever|is told|are told|for who)\b", re.I)
_NOT_EDITED_YET = {"adapters.md", "briefing.md", "codes.md", "memory.md", "shared-context.md", "glossary.md"}


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
