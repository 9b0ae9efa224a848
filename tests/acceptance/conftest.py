"""Fixtures: the day of tests/acceptance/story.py, played once for all tests of a module."""

from collections.abc import Iterator

import pytest

from tests.acceptance.story import Story, tell
from tests.cli.support import GIT_ENVIRONMENT


@pytest.fixture(scope="module")
def story(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Story]:
    place = tmp_path_factory.mktemp("story")
    with pytest.MonkeyPatch.context() as patch:
        for name in ("LOCUS_DIR", "LOCUS_DEBUG", "LOCUSGRAPH_GRAPH_ID"):
            patch.delenv(name, raising=False)
        for name, value in {**GIT_ENVIRONMENT, "HOME": str(place), "XDG_DATA_HOME": str(place)}.items():
            patch.setenv(name, value)
        yield tell(place)
