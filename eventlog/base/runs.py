"""Neighbours in an order, taken together as far as they fit. Pure."""

import sys
from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

_Item = TypeVar("_Item")


def bounded(
    items: "Iterable[_Item]", size_of: "Callable[[_Item], int]", size_max: int, count_max: int = sys.maxsize
) -> "Iterator[list[_Item]]":
    """Runs of items of at most this size together, and at most so many; a larger one is a run by itself."""
    run: list[_Item] = []
    total = 0
    for item in items:
        size = size_of(item)
        if run and (total + size > size_max or len(run) == count_max):
            yield run
            run, total = [], 0
        run.append(item)
        total += size
    if run:
        yield run
