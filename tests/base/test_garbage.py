"""Collections are rare while an import holds a batch, and as before afterwards."""

import gc

import pytest

from eventlog.base.garbage import rare_collections


def test_thresholds_come_back() -> None:
    """Also after an error, and where one import runs within another."""
    before = gc.get_threshold()
    with pytest.raises(ValueError, match="stop"), rare_collections(), rare_collections():
        assert gc.isenabled() and gc.get_threshold() > before
        raise ValueError("stop")

    assert gc.get_threshold() == before
