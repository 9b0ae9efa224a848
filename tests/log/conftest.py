"""What the tests of the log share: a log of its own for each."""

import pytest

from eventlog.base.fs import REAL
from eventlog.base.layout import Layout
from tests.log.logs import Log


@pytest.fixture
def log(layout: Layout) -> Log:
    return Log(REAL, layout)
