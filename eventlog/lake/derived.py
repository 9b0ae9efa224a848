"""The tables of a lake that are made of its events: which a catalog has, and what is dead in them.

They are loaded before the chains are read, as `events` is: so a file of a state that the chains do not have
any more is always seen as one (docs/lake-tables.md §4). One thread.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from eventlog.base.errors import EventLogError, NotFound
from eventlog.lake import tables
from eventlog.lake.erased import Erased
from eventlog.lake.place import Place


@dataclass(slots=True)
class DerivedTable:
    """A table as it was loaded, and what pyiceberg knows of its data files, by their names."""

    name: str
    table: Any
    files: "dict[str, Any]"


@dataclass(slots=True)
class DerivedTables:
    """Those of a catalog. `failed` says of each that could not be read or changed, why."""

    place: Place
    catalog: Any
    uri: str
    failed: "dict[str, str]" = field(default_factory=dict)

    def names(self) -> "list[str]":
        """Those that are there."""
        try:
            with tables.errors_of(self.uri):
                there = {".".join(identifier) for identifier in self.catalog.list_tables(tables.NAMESPACE)}
        except EventLogError:
            return [name for name in tables.DERIVED if self._is_there(name)]  # it may not be listed
        return [name for name in tables.DERIVED if name in there]

    def _is_there(self, name: str) -> bool:
        with self.noted(name):
            try:
                tables.loaded(self.place, self.catalog, self.uri, name)
            except NotFound:
                return False
            return True
        return False

    def read(self, names: "list[str]") -> "list[DerivedTable]":
        """Those that can be read, as they are now."""
        state = []
        for name in names:
            with self.noted(name):
                table = tables.loaded(self.place, self.catalog, self.uri, name)
                state.append(DerivedTable(name, table, tables.data_files(self.place, table)))
        return state

    def take_out(
        self, state: "list[DerivedTable]", erased: Erased
    ) -> "tuple[dict[str, list[str]], list[str]]":
        """Take dead files out, one snapshot in each table that has any.

        Returns: their names by table; and the tables that somebody else changed meanwhile: read them again.
        """
        taken: dict[str, list[str]] = {}
        changed = []
        for each in state:
            dead = {name: file for name, file in each.files.items() if erased.has(name)}
            with self.noted(each.name):
                if not tables.swapped(each.table, (), dead.values()):
                    changed.append(each.name)
                elif dead:
                    taken[each.name] = sorted(dead)
        return taken, changed

    @contextmanager
    def noted(self, name: str) -> "Iterator[None]":
        """Note what fails with a table, and go on."""
        try:
            with tables.errors_of(self.uri):
                yield
        except EventLogError as error:
            self.failed[name] = str(error)
