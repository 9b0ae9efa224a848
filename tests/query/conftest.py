"""A log of its own for each test."""

from pathlib import Path

import pytest

from tests.projections.logs import Log


@pytest.fixture
def log(tmp_path: Path) -> Log:
    return Log(str(tmp_path / ".locus"))
