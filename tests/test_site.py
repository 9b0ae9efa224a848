"""The documentation site without MkDocs: which pages it has, what they link to, how much there is to read."""

import importlib.util
import re
import sys
from pathlib import Path
from types import ModuleType

import pytest

from tests.pages import README, ROOT

pytestmark = pytest.mark.fast

PARTS = ("Locus", "Tutorial", "How-to", "Reference", "Explanation")
MADE = {
    "index.md",
    "api-reference.md",
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "SECURITY.md",
}  # by scripts/site_pages.py
MOST_WORDS = 25_000


def program(name: str) -> ModuleType:
    """A program of scripts/, as a module."""
    sys.path.insert(0, str(ROOT / "scripts"))
    try:
        spec = importlib.util.spec_from_file_location(name, ROOT / f"scripts/{name}.py")
        assert spec is not None and spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return module
    finally:
        sys.path.remove(str(ROOT / "scripts"))


def navigation() -> list[tuple[str, str]]:
    """(part, page) of the site, in order."""
    entries = []
    part = ""
    for line in (ROOT / "mkdocs.yml").read_text(encoding="utf-8").partition("\nnav:\n")[2].splitlines():
        head = re.match(r"  - ([\w-]+):", line)
        part = head[1] if head else part
        entries += [(part, page) for page in re.findall(r"[\w/-]+\.md", line)]
    return entries


def source(page: str) -> Path:
    return README if page == "index.md" else ROOT / "docs" / page


def user_pages() -> list[Path]:
    """The pages that are written to be read; those below Reference hold every fact of a format or a list."""
    return [source(page) for part, page in navigation() if part != "Reference"]


def test_each_page_has_its_place() -> None:
    """mkdocs.yml names each page once, in one of the four parts, and no page that is not there."""
    pages = [page for _, page in navigation()]
    present = {path.relative_to(ROOT / "docs").as_posix() for path in (ROOT / "docs").rglob("*.md")}

    assert tuple(dict.fromkeys(part for part, _ in navigation())) == PARTS
    assert len(pages) == len(set(pages))
    assert set(pages) ^ (present | MADE) == set(), "add the page to `nav` of mkdocs.yml"


def test_there_is_not_too_much_to_read() -> None:
    """All pages outside of the reference have at most 25,000 words, code and output included."""
    counts = {path.name: len(path.read_text(encoding="utf-8").split()) for path in user_pages()}

    assert sum(counts.values()) <= MOST_WORDS, counts
    assert len(counts) > 20


def sentences(text: str) -> list[str]:
    """Those of a page's prose, without code, tables, pictures and headings. Code in a sentence is a word."""
    text = re.sub(r"^ *```.*?^ *```$|^(?:\||#| {4})[^\n]*|<!--.*?-->|!\[.*?\)", "", text, flags=re.M | re.S)
    text = re.sub(r"`[^`]*`|\[([^\]]*)\]\([^)]*\)", lambda match: match[1] or "code", text)
    blocks = re.split(r"\n\s*\n|\n(?=\s*(?:[-*]|\d+\.) )", text)
    return [
        one for block in blocks for one in re.split(r"(?:(?<=[.!?:·])|(?<=\.\*))\s+", " ".join(block.split()))
    ]


@pytest.mark.parametrize("page", user_pages(), ids=lambda page: page.stem)
def test_sentences_are_short(page: Path) -> None:
    """No sentence of these pages has more than 30 words."""
    long = [one for one in sentences(page.read_text(encoding="utf-8")) if len(one.split()) > 30]

    assert len(sentences(page.read_text(encoding="utf-8"))) > 3 and long == []


def test_the_site_has_what_its_pages_link_to(tmp_path: Path) -> None:
    """Links of the made pages lead to files of the site; links that leave it are whole addresses."""
    pages = program("site_pages")
    pages.make(tmp_path / "pages")
    missing = []
    for page in sorted((tmp_path / "pages").rglob("*.md")):
        for match in pages.LINK.finditer(page.read_text(encoding="utf-8")):
            if not match[2].startswith(("http:", "https:", "mailto:")):
                missing += [] if (page.parent / match[2]).is_file() else [f"{page.name}: {match[2]}"]
    home = (tmp_path / "pages/index.md").read_text(encoding="utf-8")
    reference = (tmp_path / "pages/api-reference.md").read_text(encoding="utf-8")

    assert missing == []
    assert "](tutorial/ten-minutes.md)" in home and "before:" not in home
    assert "::: eventlog.store.Store\n" in reference and len(re.findall(r"^::: ", reference, re.M)) > 60


def test_lists_are_written_out_for_the_site() -> None:
    """A list after a paragraph, and one in a list, are lists on the site; code stays as it is."""
    page = "Two:\n- one\n  - inner\n- two\n\n```text\nTwo:\n- one\n  - inner\n```\n"

    assert program("site_pages").written_out(page) == (
        "Two:\n\n- one\n    - inner\n- two\n\n```text\nTwo:\n- one\n  - inner\n```\n"
    )


def test_a_site_that_loads_something_from_elsewhere_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A font, script, style, picture or diagram that a browser would fetch is an error; a link is none."""
    pages = program("site_pages")
    (tmp_path / "good.html").write_text('<a href="https://example.org">x</a><img src="a.svg"><p>', "utf-8")
    assert pages.check(tmp_path) == 0

    for number, text in enumerate(
        (
            '<script src="https://example.org/x.js"></script>',
            '<link rel="stylesheet" href="//example.org/x.css">',
            '<link href="https://example.org/" rel="preconnect">',
            '<img src="http://example.org/x.png">',
            '<pre class="mermaid"><code>graph</code></pre>',
        )
    ):
        (tmp_path / "bad.html").write_text(text, "utf-8")
        assert pages.check(tmp_path) == 1, number
    (tmp_path / "bad.html").unlink()
    (tmp_path / "bad.css").write_text("@font-face{src:url(https://example.org/x.woff2)}", "utf-8")
    assert pages.check(tmp_path) == 1
    assert "bad.css: https://example.org/x.woff2" in capsys.readouterr().out


def test_the_page_of_a_package_has_whole_addresses() -> None:
    """With the repository's address each link of README leads to the tag; without one it stays as it is."""
    package = program("package_page")
    text = README.read_text(encoding="utf-8")
    address = "https://forge.example.org/locus"
    made = package.page(text, address, "v1.2.3")
    targets = re.findall(r"\]\(([^)#][^)]*)\)", made)

    assert len(targets) > 50 and all(target.startswith(f"{address}/") for target in targets)
    for target in targets:
        kind, tag, path = target.removeprefix(f"{address}/").split("/", 2)
        assert tag == "v1.2.3" and (ROOT / path.partition("#")[0]).is_file()
        assert kind == ("raw" if path.endswith((".svg", ".png")) else "blob")
    assert package.page(text, None, "v1.2.3") == re.sub(r"^<!-- before.*\n+", "", text, flags=re.M)
