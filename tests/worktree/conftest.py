"""What the tests of working directories share: one beside a store."""

from pathlib import Path

import pytest

from eventlog.base.layout import Layout
from tests.worktree.support import Bench


@pytest.fixture
def bench(layout: Layout, tmp_path: Path) -> Bench:
    return Bench(layout, tmp_path / "work")
