"""What axe has to say about a page."""

from typing import Any

from tests.browser.viewing import Visitor

# Standards that axe tests, up to WCAG 2.2 AA.
STANDARDS = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]
# Of a page in the dark only the colours differ.
VIEWS: "tuple[tuple[str, int, str, Any], ...]" = (
    ("light", 1440, "light", {"runOnly": STANDARDS}),
    ("dark", 1440, "dark", {"runOnly": {"type": "rule", "values": ["color-contrast"]}}),
    ("phone", 390, "light", {"runOnly": STANDARDS}),
)


def violations(reader: Visitor, path: str) -> dict[str, list[tuple[str, list[str]]]]:
    """Of each view that has any: the rules, and places that break them.

    axe comes in after the page ran under its own policy: only a script of the driver is let in, which the
    policy of the page keeps out.
    """
    from axe_playwright_python.sync_playwright import Axe

    session = reader.page.context.new_cdp_session(reader.page)
    session.send("Page.setBypassCSP", {"enabled": True})
    reader.open(path)
    broken = {}
    for view, width, scheme, options in VIEWS:
        reader.page.set_viewport_size({"width": width, "height": 900})
        reader.page.emulate_media(color_scheme=scheme)
        found = Axe().run(reader.page, options=options).response["violations"]
        if found:
            broken[view] = [
                (rule["id"], [node["html"][:150] for node in rule["nodes"][:2]]) for rule in found
            ]
    return broken
