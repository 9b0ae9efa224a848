"""Fewer collections of cycles while a batch of objects is held that grows, and has none."""

import gc
from collections.abc import Iterator
from contextlib import contextmanager

# A batch has some hundred thousand objects. Python looks through all of them again at each quarter more.
_THRESHOLDS = (50_000, 20, 50)


@contextmanager
def rare_collections() -> Iterator[None]:
    """Collect seldom within; an eighth of an import's time otherwise. Of the whole process."""
    before = gc.get_threshold()
    gc.set_threshold(*_THRESHOLDS)
    try:
        yield
    finally:
        gc.set_threshold(*before)
