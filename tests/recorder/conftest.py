"""What the recorder's tests share: a fresh store."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from eventlog.store import Store


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store.init(tmp_path / ".locus", repo_hash="0123456789ab", project_name="locus") as opened:
        yield opened
