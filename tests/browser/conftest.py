"""A browser, and `locus view` before recorded projects, once for a session of tests.

Without playwright or Chromium every test of this room is skipped; `scripts/ci.d/48-browser` installs what is
needed.
"""

import os
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from playwright.sync_api import Browser

    from tests.browser.samples import Sample
    from tests.browser.viewing import Viewer, Visitor

collect_ignore_glob: list[str] = []
try:
    import playwright.sync_api  # noqa: F401
except ImportError:
    collect_ignore_glob = ["test_*.py"]


@pytest.fixture(scope="session")
def browser() -> "Iterator[Browser]":
    from playwright.sync_api import sync_playwright

    from tests.browser.viewing import CHROMIUM, FLAGS

    if not os.path.exists(CHROMIUM):
        pytest.skip(f"there is no {CHROMIUM}")
    with sync_playwright() as driver:
        started = driver.chromium.launch(executable_path=CHROMIUM, args=list(FLAGS))
        yield started
        started.close()


@pytest.fixture(scope="session")
def places() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="locus-browser-") as place:
        yield Path(place)


@pytest.fixture(scope="session")
def sample(browser: "Browser", places: Path) -> "Sample":
    from tests.browser.samples import make_sample

    return make_sample(places)


@pytest.fixture(scope="session")
def hostile(browser: "Browser", places: Path) -> "Sample":
    from tests.browser.samples import make_hostile

    return make_hostile(places)


@pytest.fixture(scope="session")
def _viewers(places: Path) -> "Iterator[dict[Path, Viewer]]":
    viewers: dict[Path, Viewer] = {}
    yield viewers
    for viewer in viewers.values():
        viewer.close()


@pytest.fixture
def viewed(_viewers: "dict[Path, Viewer]", tmp_path: Path) -> "Iterator[Callable[..., Viewer]]":
    """The viewer of a project, started where it is not yet; that of a project of one test ends with it."""
    from tests.browser.viewing import Viewer

    def of(work: Path, *options: str) -> Viewer:
        if work not in _viewers:
            _viewers[work] = Viewer(work, *options)
        return _viewers[work]

    yield of
    for work in [work for work in _viewers if work.is_relative_to(tmp_path)]:
        _viewers.pop(work).close()


@pytest.fixture
def reading(browser: "Browser", viewed: "Callable[..., Viewer]") -> "Iterator[Callable[..., Visitor]]":
    """A reader of a project, in a browser context of its own. At its end nothing must have gone wrong."""
    from tests.browser.viewing import Visitor, context_of

    made: list[tuple[Any, Visitor, bool]] = []

    def of(work: Path, *, calm: bool = True, options: tuple[str, ...] = (), **settings: Any) -> Visitor:
        context = context_of(browser, **settings)
        reader = Visitor(context, viewed(work, *options))
        made.append((context, reader, calm))
        return reader

    yield of
    for context, reader, calm in made:
        context.close()
        assert not calm or reader.wrong == [], "\n".join(reader.wrong)
