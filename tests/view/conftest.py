"""What the tests of the viewer share: a store with everything in it, and a server of it."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.support import GIT_ENVIRONMENT
from tests.view import sample as samples
from tests.view.sample import Sample
from tests.view.support import Served, serving


@pytest.fixture(scope="session")
def _made_once(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("view") / "sample"
    with pytest.MonkeyPatch.context() as patch:
        for name, value in GIT_ENVIRONMENT.items():
            patch.setenv(name, value)
        samples.make(root)
    return root


@pytest.fixture(scope="module")
def sample(_made_once: Path, tmp_path_factory: pytest.TempPathFactory) -> Sample:
    """A copy, for the tests of one module."""
    root = tmp_path_factory.mktemp("copy") / "sample"
    shutil.copytree(_made_once, root, symlinks=True)
    return samples.loaded(root)


@pytest.fixture(scope="module")
def served(sample: Sample) -> Iterator[Served]:
    with serving({"sample": sample.store}) as running:
        yield running
