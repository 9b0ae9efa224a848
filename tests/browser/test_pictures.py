"""The pictures of docs/view.md. `LOCUS_PICTURES=docs/pictures` writes them where they belong."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.browser.samples import Sample
from tests.browser.viewing import Visitor

SIZE_MAX = 150_000  # bytes of a picture
ROOT = Path(__file__).resolve().parents[2]
# Name, width, height, colours, address; `{n}` is a turn.
PICTURES = (
    ("view-turn", 1440, 860, "light", "/turn/{1}?in=repo&file=tea.py&mode=change"),
    ("view-turn-dark", 1440, 860, "dark", "/turn/{2}?in=repo"),
    ("view-phone", 390, 844, "light", "/turn/{0}"),
)


@pytest.mark.parametrize(
    ("name", "width", "height", "colours", "address"), PICTURES, ids=[p[0] for p in PICTURES]
)
def test_the_pictures_of_the_page(
    reading: Callable[..., Visitor],
    sample: Sample,
    tmp_path: Path,
    name: str,
    width: int,
    height: int,
    colours: str,
    address: str,
) -> None:
    """Each can be made again, is small, and is shown by the page."""
    place = Path(os.environ.get("LOCUS_PICTURES", tmp_path))
    reader = reading(sample.work, width=width, height=height, color_scheme=colours, timezone_id="UTC")
    reader.open(address.format(*sample.turns))
    reader.page.wait_for_timeout(600)  # what changed opens after a rest
    reader.page.screenshot(path=place / f"{name}.png")

    assert 10_000 < (place / f"{name}.png").stat().st_size < SIZE_MAX
    assert f"](pictures/{name}.png)" in (ROOT / "docs/view.md").read_text(encoding="utf-8")
    assert (ROOT / f"docs/pictures/{name}.png").stat().st_size < SIZE_MAX
