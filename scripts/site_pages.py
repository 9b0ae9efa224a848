"""Makes the pages of the documentation site: python3 scripts/site_pages.py DIRECTORY

The site has docs/ as it is, README.md as its first page, the public interface from its docstrings, and each
other file of the project that a page links to. Links follow. Two habits of these pages are written out, which
other readers of Markdown take for granted: a list may follow a paragraph directly, and a list within a list
is indented by two.

    python3 scripts/site_pages.py --check SITE

says which pages of a finished site would load something from elsewhere; there must be none.
"""

import os
import re
import shutil
import sys
from html.parser import HTMLParser
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
HOME, REFERENCE = "index.md", "api-reference.md"
LINK = re.compile(r"(\]\()([^)\s#]+)([^)\s]*\))")
_FENCE = re.compile(r"^( *```.*?^ *```[^\n]*$)", re.M | re.S)
_ITEM = r"(?:[-*]|\d+\.) "
_LIST = re.compile(rf"^((?! *(?:{_ITEM}|[>|#])|    )[^\n]*\S[^\n]*\n)(?={_ITEM}\S)", re.M)
_CONTINUED = re.compile(r"^(?:[-*]|\d+\.) .*(?:\n {2,}.*)*", re.M)


def main(arguments: list[str]) -> int:
    if arguments[0] == "--check":
        return check(Path(arguments[1]))
    make(Path(arguments[0]))
    return 0


def make(target: Path) -> None:
    """Write all pages, and what they link to, into an empty directory."""
    shutil.rmtree(target, ignore_errors=True)
    shutil.copytree(ROOT / "docs", target, ignore=shutil.ignore_patterns("*.md"))
    pages = {path: path.read_text(encoding="utf-8") for path in sources()}
    linked = {path for page, text in pages.items() for path in links(page, text)}
    for path in linked - pages.keys():
        if path.is_file():
            (target / site_path(path)).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, target / site_path(path))
    for page, text in pages.items():
        made = target / site_path(page)
        made.parent.mkdir(parents=True, exist_ok=True)
        made.write_text(written_out(moved(page, text)), encoding="utf-8")
    (target / REFERENCE).write_text(reference(), encoding="utf-8")


def sources() -> list[Path]:
    """The pages that are written by hand, or by a test."""
    names = ("README.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md")
    return [*(ROOT / name for name in names), *sorted((ROOT / "docs").rglob("*.md"))]


def site_path(path: Path) -> str:
    """Where a file of the project is in the site."""
    name = path.relative_to(ROOT).as_posix()
    return HOME if name == "README.md" else name.removeprefix("docs/")


def links(page: Path, text: str) -> list[Path]:
    """The files of the project that a page links to."""
    targets = [match[2] for match in LINK.finditer(text) if ":" not in match[2]]
    return [Path(os.path.normpath(page.parent / target)) for target in targets]


def moved(page: Path, text: str) -> str:
    """A page whose links lead to where the files are in the site."""

    def relative(match: "re.Match[str]") -> str:
        if ":" in match[2]:
            return match[0]
        target = site_path(Path(os.path.normpath(page.parent / match[2])))
        return match[1] + os.path.relpath(target, os.path.dirname(site_path(page)) or ".") + match[3]

    return LINK.sub(relative, text)


def without_comments(text: str) -> str:
    """A page without what only a test of it reads (tests/pages.py)."""
    return re.sub(r"^<!-- before: .*-->\n+", "", text, flags=re.M)


def written_out(text: str) -> str:
    """A page in the narrower Markdown of the site; what is in fences is left as it is."""
    parts = _FENCE.split(without_comments(text))
    return "".join(part if i % 2 else _lists(part) for i, part in enumerate(parts))


def _lists(text: str) -> str:
    text = _LIST.sub(r"\1\n", text)
    return _CONTINUED.sub(lambda item: re.sub(rf"\n {{2,3}}(?={_ITEM})", "\n    ", item[0]), text)


def reference() -> str:
    """The page of the public interface: each name, in the order of docs/api.md."""
    sys.path.insert(0, str(ROOT))
    import eventlog

    api = (ROOT / "docs/api.md").read_text(encoding="utf-8")
    names = dict.fromkeys(re.findall(r"^(?:## |\| )`(\w+)`", api, re.M))
    lines = [
        "# The public interface\n",
        "What `from eventlog import …` gives, from the docstrings of the code.",
        "[Locus from Python](api.md) introduces the same names.\n",
        *(f"::: {eventlog._HOME_OF[name]}.{name}\n" for name in names),
    ]
    return "\n".join(lines)


class _Resources(HTMLParser):
    """What a browser loads by itself when it shows a page."""

    def __init__(self) -> None:
        super().__init__()
        self.urls: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        if tag != "a" and given.get("rel") != "canonical":
            self.urls += [given[name] or "" for name in ("src", "href", "srcset", "data") if name in given]


def check(site: Path) -> int:
    """1 where a page or a style sheet would load something from elsewhere."""
    outside = []
    for page in sorted(site.rglob("*.html")):
        parser = _Resources()
        parser.feed(page.read_text(encoding="utf-8"))
        outside += [f"{page}: {url}" for url in parser.urls if re.match(r"(https?:)?//", url)]
        outside += [f"{page}: a diagram" for _ in re.findall(r'class="mermaid"', page.read_text())]
    for sheet in sorted(site.rglob("*.css")):
        found = re.findall(r"(?:url\(|@import )['\"]?((?:https?:)?//[^'\")]*)", sheet.read_text())
        outside += [f"{sheet}: {url}" for url in found]
    print(
        "\n".join(outside)
        or f"{sum(1 for _ in site.rglob('*.html'))} pages, which load nothing from elsewhere"
    )
    return 1 if outside else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
