"""What the stage `30-package` built, and the packages that it needs: nothing here reaches a network."""

import os
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


def given(variable: str, what: str) -> Path:
    """The path in a variable that the stage sets; without it the test is left out."""
    if variable not in os.environ:
        pytest.skip(f"{what}: the stage 30-package sets {variable}")
    return Path(os.environ[variable])


@pytest.fixture(scope="session")
def wheel() -> Path:
    (path,) = given("LOCUS_DIST", "no distributions are built").glob("*.whl")
    return path


@pytest.fixture(scope="session")
def sdist() -> Path:
    (path,) = given("LOCUS_DIST", "no distributions are built").glob("*.tar.gz")
    return path


@pytest.fixture(scope="session")
def wheels() -> Path:
    """A directory with the wheels of Locus and of all that it needs."""
    return given("LOCUS_WHEELS", "there is no directory of wheels")


@pytest.fixture(scope="session")
def uv() -> Path:
    """The directory with the programs `uv` and `uvx`."""
    return given("LOCUS_UV", "uv is not installed")
