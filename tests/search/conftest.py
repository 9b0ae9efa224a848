"""What the tests of search share: a store with a little of everything."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from eventlog.store import Store
from tests.maintenance.support import make_store


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with make_store(tmp_path / ".locus") as opened:
        yield opened
