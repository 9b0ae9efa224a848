"""What a page loads: the modules that it needs, under its own policy, and no more than a bound."""

from collections.abc import Callable
from urllib.parse import urlsplit

import pytest

from tests.browser.addresses import NAMES, addresses
from tests.browser.samples import Sample
from tests.browser.viewing import Visitor

Reading = Callable[..., Visitor]
# Bytes of scripts as they are served, not zipped.
PAGE_MAX = 60_000


def scripts(reader: Visitor) -> dict[str, int]:
    """The modules that were asked for, and how many bytes came of each."""
    loaded: dict[str, int] = {}
    reader.page.on(
        "response",
        lambda response: (
            loaded.__setitem__(urlsplit(response.url).path, len(response.body()))
            if response.request.resource_type == "script"
            else None
        ),
    )
    return loaded


@pytest.mark.parametrize("name", NAMES)
def test_a_page_loads_no_more_than_it_needs(reading: Reading, sample: Sample, name: str) -> None:
    """P7: also with what it prepares once the reader rests; a module that nobody needs is not loaded."""
    reader = reading(sample.work)
    loaded = scripts(reader)
    reader.open(addresses(sample)[name])
    reader.page.wait_for_timeout(600)  # the turns beside it, after 150 ms
    reader.ready()

    assert "/static/main.js" in loaded and sum(loaded.values()) <= PAGE_MAX, sorted(
        loaded.items(), key=lambda item: -item[1]
    )
    is_slider = reader.find("#slider").count() == 1
    assert ("/static/slider.js" in loaded) == is_slider
    assert ("/static/filepane.js" in loaded) == (reader.find(".filebody").count() == 1)


def test_a_module_is_loaded_when_it_is_needed(reading: Reading, sample: Sample) -> None:
    """Keys, a file, a mode, and another page bring their modules, each once."""
    reader = reading(sample.work)
    loaded = scripts(reader)
    reader.open(f"/turn/{sample.turns[0]}")
    reader.page.wait_for_timeout(600)

    def brought(act: Callable[[], object]) -> set[str]:
        before = set(loaded)
        act()
        reader.ready()
        reader.page.wait_for_timeout(300)
        return {path.removeprefix("/static/") for path in set(loaded) - before}

    assert brought(lambda: reader.press("j")) == {"sliderkeys.js"}
    assert brought(lambda: reader.press("k")) == set()
    assert "filepane.js" in brought(lambda: reader.choose("tea.py").mode("text"))
    assert brought(lambda: reader.mode("blame")) == {"blame.js"}
    assert brought(lambda: reader.press("?")) == {"keydialog.js"}
    reader.page.keyboard.press("Escape")
    assert "chart.js" in brought(lambda: reader.click("nav a:text-is('Cost')"))
    modules = [url for url in reader.requested if url.endswith(".js")]
    assert sorted(modules) == sorted(set(modules))
