"""For everyone: no violation that axe knows, all widths, keyboard alone, calm motion, and zoom."""

from collections.abc import Callable

import pytest
from playwright.sync_api import expect

from tests.browser.access import violations
from tests.browser.addresses import NAMES, addresses
from tests.browser.samples import Sample
from tests.browser.viewing import Visitor

Reading = Callable[..., Visitor]


@pytest.mark.parametrize("name", NAMES)
def test_axe_finds_no_violation(reading: Reading, sample: Sample, name: str) -> None:
    """On each page, light, dark and on a phone. axe comes in after the page ran under its own policy."""
    assert violations(reading(sample.work, calm=False), addresses(sample)[name]) == {}


def test_nothing_is_wider_than_the_screen(reading: Reading, sample: Sample) -> None:
    """At 320, 390, 768 and 1440 pixels no page scrolls sideways."""
    reader = reading(sample.work)
    wide = {}
    for name, path in addresses(sample).items():
        reader.open(path)
        for width in (320, 390, 768, 1440):
            reader.page.set_viewport_size({"width": width, "height": 800})
            sizes = reader.page.evaluate(_SIZES)
            if sizes[0] > sizes[1]:
                wide[name, width] = sizes

    assert wide == {}


_SIZES = "[document.documentElement.scrollWidth, document.documentElement.clientWidth]"


def test_twice_the_size_is_all_there(reading: Reading, sample: Sample) -> None:
    """200 % zoom: half the width in pixels of style, twice those of the screen."""
    reader = reading(sample.work, width=720, height=450, device_scale_factor=2).open(
        f"/turn/{sample.turns[0]}"
    )
    sizes = reader.page.evaluate(_SIZES)
    assert sizes[0] <= sizes[1]
    for tab, shown in (("files", "[role=tree]"), ("turn", ".prompt"), ("file", ".overview h2")):
        reader.click(f".tabs [data-tab={tab}]")
        reader.find(shown).first.scroll_into_view_if_needed()
        assert reader.find(shown).first.is_visible()


def test_a_phone_has_one_column_with_tabs(reading: Reading, sample: Sample) -> None:
    """One of three panes is shown at a time, and buttons have the size of a finger."""
    reader = reading(sample.work, width=390, height=844, has_touch=True).open(f"/turn/{sample.turns[0]}")
    for tab, shown, hidden in (("turn", ".prompt", "[role=tree]"), ("files", "[role=tree]", ".prompt")):
        reader.click(f".tabs [data-tab={tab}]")
        assert reader.find(shown).is_visible() and not reader.find(hidden).is_visible()
    for button in reader.find(".step").all():
        box = button.bounding_box()
        assert box is not None and min(box["width"], box["height"]) >= 44
    reader.choose("tea.py")
    assert reader.find(".filebody").is_visible()


# What can be used; rows of a tree are reached through the tree.
_USABLE = 'a[href], button:not(:disabled), input, select, textarea, summary, [tabindex="0"]'
# Which element has the focus and where it is, and whether that can be seen; nothing at the end.
_FOCUSED = """(() => {
  const n = document.activeElement;
  if (n === document.body) return ['', true];
  const {x, y} = n.getBoundingClientRect();
  const seen = n.id === 'main' || getComputedStyle(n).outlineStyle !== 'none';
  return [[n.tagName, n.id, n.className, x, y].join(' '), seen];
})()"""


def test_the_keyboard_alone_reaches_everything(reading: Reading, sample: Sample) -> None:
    """Each thing that can be used is in the order of Tab, and the focus is always seen."""
    reader = reading(sample.work).open(f"/turn/{sample.turns[1]}?file=tea.py&mode=change")
    wanted = reader.page.evaluate(
        f"[...document.querySelectorAll('{_USABLE}')]"
        ".filter((n) => n.checkVisibility() && !n.closest('[role=treeitem]')).length"
    )
    seen: dict[str, bool] = {}
    for _ in range(wanted + 10):
        reader.page.keyboard.press("Tab")
        name, visible = reader.page.evaluate(_FOCUSED)
        if not name:
            break
        seen[name] = visible

    assert len(seen) >= wanted
    assert all(seen.values()), [name for name, visible in seen.items() if not visible]


def test_the_tree_obeys_the_keys_of_trees(reading: Reading, sample: Sample) -> None:
    """Arrows, Home, End and Enter do what they do in trees, and each row says its place."""
    reader = reading(sample.work).open(f"/turn/{sample.turns[0]}")
    tree = reader.find("[role=tree]")
    tree.focus()

    def active() -> str:
        node = reader.find(f"#{tree.get_attribute('aria-activedescendant')}")
        assert node.get_attribute("aria-selected") == "true"
        return (node.get_attribute("title") or node.inner_text()).strip("▾▸ ●\n")

    reader.press("Home")
    assert active() == "src"
    if (
        reader.find(f"#{tree.get_attribute('aria-activedescendant')}").get_attribute("aria-expanded")
        == "true"
    ):
        reader.press("ArrowLeft")
    before = reader.find("[role=treeitem]").count()
    reader.press("ArrowRight")
    assert reader.find("[role=treeitem]").count() == before + 1
    reader.press("ArrowRight")
    assert active() == "src/app.py"
    reader.press("Enter")
    assert "src/app.py" in reader.text(".filehead .path")
    tree.focus()
    reader.press("ArrowLeft")
    assert active() == "src"
    reader.press("End")
    assert active() == sorted(reader.files())[-1]
    item = reader.find("[role=treeitem]").last
    assert item.get_attribute("aria-level") == "1"
    assert item.get_attribute("aria-posinset") == item.get_attribute("aria-setsize")


_MOVING = """[...document.querySelectorAll('*')].map((n) => getComputedStyle(n)).filter((s) =>
  parseFloat(s.transitionDuration) || s.animationName !== 'none' || s.scrollBehavior === 'smooth').length"""


def test_a_reader_who_wants_no_motion_sees_none(reading: Reading, sample: Sample) -> None:
    """With prefers-reduced-motion nothing moves by itself."""
    reader = reading(sample.work, reduced_motion="reduce").open(f"/turn/{sample.turns[0]}")
    moving = reader.page.evaluate(_MOVING)
    assert moving == 0


def test_light_and_dark_follow_the_system_and_the_choice(reading: Reading, sample: Sample) -> None:
    """The system decides until the reader does, and the choice is remembered."""
    reader = reading(sample.work, color_scheme="dark").open("/")
    back = "getComputedStyle(document.body).backgroundColor"
    dark = reader.page.evaluate(back)
    for chosen in ("dark", "light"):
        reader.click("text=Theme")
        expect(reader.find("html")).to_have_attribute("data-theme", chosen)  # its module comes first
    light = reader.page.evaluate(back)
    assert (dark, light) == ("rgb(20, 23, 27)", "rgb(245, 246, 248)")
    reader.open("/")
    assert reader.page.evaluate(back) == light


def test_every_page_has_a_name_of_its_own(reading: Reading, sample: Sample) -> None:
    """The tab of the browser says which page it is."""
    reader = reading(sample.work)
    titles = {name: reader.open(path).page.title() for name, path in addresses(sample).items()}
    assert set(titles) == set(NAMES)
    assert all(title.endswith("Locus") and len(title) > 5 for title in titles.values()), titles
    assert titles["search"] != titles["cost"] != titles["sessions"]
