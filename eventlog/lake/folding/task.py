"""A piece of work of a fold: some stores, read, folded and written as files, on any machine (docs/lake-tables.md §2).

A task is a value without any connection, so it can be sent to where it runs. What it makes are objects that
are created once, under names made of their bytes: one that is run twice, or at two places, makes the same.
"""

import os
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import groupby
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from blake3 import blake3

from eventlog.base import jsontext
from eventlog.base.errors import Corruption, EventLogError, NotFound, Unsupported
from eventlog.base.fs import REAL, opened
from eventlog.lake.chain import LiveFile
from eventlog.lake.folding import stored
from eventlog.lake.folding.reading import LocalEvents, path_in_folder
from eventlog.lake.folding.stored import Projected
from eventlog.lake.place import Place, open_place
from eventlog.projections import definitions as d
from eventlog.projections import fold, source

if TYPE_CHECKING:
    import duckdb


@dataclass(frozen=True, slots=True)
class StoreWork:
    """A store to fold: its live files, and what was folded of it before; nothing for a fold in full.

    `previous` are the files of stored.TABLES, of one state.
    """

    store_id: bytes
    end: int
    number: int
    files: "tuple[LiveFile, ...]"
    previous: "tuple[Projected, ...]" = ()

    @property
    def since(self) -> int:
        """The position from which events are new."""
        return self.previous[0].end if self.previous else 0


@dataclass(frozen=True, slots=True)
class Task:
    """Stores that are folded together, of the place at `uri`."""

    uri: str
    stores: "tuple[StoreWork, ...]"


@dataclass(frozen=True, slots=True)
class FoldedFile:
    """A file that a task made: its name, its rows and its size in bytes."""

    name: str
    rows: int
    size: int


@dataclass(frozen=True, slots=True)
class Folded:
    """What came of a store: a file for each table, or why it could not be folded."""

    store_id: bytes
    files: "tuple[FoldedFile, ...]" = ()
    full: bool = False
    problem: str = ""


def run(task: Task) -> "list[Folded]":
    """Fold the stores of a task, and create the files of each.

    A store that cannot be read is named with the reason, and the others are folded all the same.
    Raises: EventLogError of the storage.
    """
    raise NotImplementedError
