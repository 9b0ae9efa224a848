"""README.md as the page of a package: python3 scripts/package_page.py README.md >page

A package page is elsewhere, so its links must be whole addresses. They are made of the repository's,
which is `Repository` under [project.urls] in pyproject.toml, and the version's tag. Until that is filled in,
the page is README.md as it is: there is no address to link to.
"""

import re
import sys
import tomllib
from pathlib import Path

from site_pages import LINK, ROOT, without_comments


def repository() -> str | None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return project.get("urls", {}).get("Repository")


def version() -> str:
    text = (ROOT / "eventlog/__init__.py").read_text(encoding="utf-8")
    return re.findall(r'^__version__ = "(.*)"$', text, re.M)[0]


def page(text: str, address: str | None, tag: str) -> str:
    """`text`, whose links lead to files of a tag in the repository at `address`, pictures to their bytes."""

    def whole(match: "re.Match[str]") -> str:
        if address is None or ":" in match[2]:
            return match[0]
        kind = "raw" if match[2].endswith((".svg", ".png")) else "blob"
        return f"{match[1]}{address.rstrip('/')}/{kind}/{tag}/{match[2]}{match[3]}"

    return without_comments(LINK.sub(whole, text))


if __name__ == "__main__":
    text = Path(sys.argv[1]).read_text(encoding="utf-8")
    sys.stdout.write(page(text, repository(), f"v{version()}"))
