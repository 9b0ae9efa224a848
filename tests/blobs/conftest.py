"""What the tests of contents share: an open store of them."""

from collections.abc import Iterator

import pytest

from eventlog.base.layout import Layout
from eventlog.blobs.store import BlobStore
from tests.blobs.support import open_store


@pytest.fixture
def blobs(layout: Layout) -> Iterator[BlobStore]:
    with open_store(layout) as store:
        yield store
