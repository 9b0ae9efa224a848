"""What the tests of replay share: a fresh store."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from eventlog.store import Store


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store.init(tmp_path / ".locus", repo_hash="0123456789ab") as store:
        yield store
