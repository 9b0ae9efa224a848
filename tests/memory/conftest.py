"""What the tests of memory share: a fresh store."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from eventlog.store import Store
from tests.recorder.kept import new_store


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with new_store(tmp_path / ".locus") as opened:
        yield opened
