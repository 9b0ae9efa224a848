"""Which packs a store has, and where in them an id is.

Order of look-up: the newest usable idx, then the tables of packs newer than it, then `condemned/`. Those
tables come from one file (`recent_packs.py`) where it has them, since hooks make a small pack each.
A pack is live because it exists, so a listing of the directory is the truth and everything here is
a cache of it, renewed by `refresh`. A `Catalog` belongs to one thread at a time. On the hook path.
"""

import os

from eventlog.base.errors import Corruption
from eventlog.base.fs import FileSystem
from eventlog.base.layout import CONDEMNED_DIR, IDX_DIR, PACK_DIR, StoreFiles, parse_idx, parse_pack
from eventlog.blobs import recent_packs
from eventlog.blobs.pack import FOOTER_SIZE, HEADER_SIZE, PackTables, decode_tables, tables_range

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from eventlog.blobs.idx import Idx

# (path of the pack, kind, file offset of the group, offset in the raw group, length)
Location = tuple[str, int, int, int, int]


class Catalog:
    """Look-up of ids over the packs on disk.

    `names` are the live packs, `unreadable` those whose tables are damaged, with the reason.
    `settled` are packs whose names are known to survive a power cut.
    """

    __slots__ = (
        "_condemned",
        "_files",
        "_firsts",
        "_fs",
        "_idx",
        "_layout",
        "_listed",
        "_order",
        "_paths",
        "_rows",
        "_tables",
        "_unrecorded",
        "names",
        "settled",
        "unreadable",
    )

    def __init__(self, files: StoreFiles) -> None:
        self._files = files
        self._fs = files.fs
        self._layout = files.layout
        self._idx: "Idx | None" = None
        self._condemned: "dict[str, PackTables]" = {}
        self._tables: "dict[str, PackTables]" = {}
        self._paths: "dict[str, str]" = {}  # of packs, one object for all locations in it
        self._unrecorded: "list[PackTables]" = []
        self._listed = False
        self.names: "set[str]" = set()
        self.settled: "set[str]" = set()
        self.unreadable: "dict[str, str]" = {}
        self._forget_recent()

    def close(self) -> None:
        if self._idx is not None:
            self._idx.close()
            self._idx = None
        self._listed = False
        self.names = set()
        self._tables = {}
        self._forget_recent()

    def ensure(self) -> None:
        """List the packs unless that has been done."""
        if not self._listed:
            self.refresh()

    def refresh(self) -> None:
        """Notice packs and idx files that came or went."""
        names = set()
        for name in self._fs.listdir(self._layout.directory(PACK_DIR)):
            stem = parse_pack(name)
            if stem is not None:
                names.add(stem)
        if self._listed and names == self.names:
            return
        gone = self.names - names
        self.names = names
        self.settled &= names
        self._listed = True
        self._open_idx()
        covered = self._idx.packs if self._idx is not None else frozenset()
        wanted = names - covered
        if gone or not self._tables.keys() <= wanted:
            self._tables = {name: t for name, t in self._tables.items() if name in wanted}
            self._forget_recent()
            for tables in self._tables.values():
                self._add_recent(tables)
        self.unreadable = {name: why for name, why in self.unreadable.items() if name in wanted}
        missing = sorted(wanted - self._tables.keys())
        recorded = recent_packs.read(self._files, missing) if len(missing) > 1 else {}
        for name in missing:
            if name in recorded:
                self._take(recorded[name])
            elif self._load(name):
                self._unrecorded.append(self._tables[name])

    def store_recent(self) -> None:
        """Record the packs that this process had to open, or has made, for the next. Derived: never fails."""
        packs, self._unrecorded = self._unrecorded, []
        recent_packs.store(self._files, packs)

    def add(self, tables: PackTables) -> None:
        """Add a pack that this process published; its name is durable."""
        self.settled.add(tables.name)
        self.names.add(tables.name)
        if tables.name not in self._tables:
            self._take(tables)
            self._unrecorded.append(tables)

    def has(self, id: bytes) -> bool:
        """Whether a live pack holds `id`, as of the last listing."""
        return id in self._rows or (self._idx is not None and self._in_idx(id) is not None)

    def is_recent(self, id: bytes) -> bool:
        """Whether `id` is in a pack that the idx does not cover."""
        return id in self._rows

    def find(self, id: bytes) -> "Location | None":
        """Where a live pack holds `id`, as of the last listing.

        Raises: Corruption when the row of that id is impossible.
        """
        row = self._rows.get(id)
        if row is None:
            return self._in_idx(id) if self._idx is not None else None
        from bisect import bisect_right

        index = bisect_right(self._firsts, row) - 1
        return _location_at(self._order[index], row - self._firsts[index])

    def find_condemned(self, ids: "Iterable[bytes]") -> "dict[bytes, Location]":
        """Where packs that wait for their deletion hold these ids; without the ids that none holds."""
        directory = self._layout.directory(CONDEMNED_DIR)
        cached, self._condemned = self._condemned, {}
        missing = set(ids)
        located: "dict[bytes, Location]" = {}
        for name in _names_in(self._fs, directory):
            stem = parse_pack(name.rpartition("-")[2])
            if stem is None:
                continue
            path = f"{directory}/{name}"
            try:
                tables = cached.get(path) or load_tables(self._fs, path, stem, self._files.store_id)
            except (Corruption, FileNotFoundError):
                continue  # verify names it; nothing live is in it
            self._condemned[path] = tables
            located_here = [
                (id, location) for id in missing if (location := _location_in(tables, id)) is not None
            ]
            located.update(located_here)
            missing.difference_update(id for id, _ in located_here)
        return located

    def find_all(self, id: bytes) -> "list[Location]":
        """Every location of `id` in live packs, by the tables of all. Slow: for when a read has failed."""
        locations = []
        for name in sorted(self.names):
            try:
                tables = self._tables.get(name) or self._load_tables(name)
                location = _location_in(tables, id)
            except (Corruption, FileNotFoundError):
                continue
            if location is not None:
                locations.append(location)
        return locations

    def ids_between(self, low: bytes, high: bytes) -> "Iterator[bytes]":
        """Ids in [low, high], both included, of all live packs; an id may come more than once."""
        for tables in self._order:
            for index in range(tables.first_from(low), len(tables)):
                id = tables.entry(index)[0]
                if id > high:
                    break
                yield id
        if self._idx is not None:
            try:
                yield from self._idx.ids_from(low, high)
            except (Corruption, OSError):
                self._drop_idx()
                yield from self.ids_between(low, high)

    def recent_count(self) -> int:
        """How many live packs no idx covers."""
        return len(self._tables)

    def all_tables(self) -> "list[PackTables]":
        """The tables of every live pack that can be read."""
        tables = []
        for name in sorted(self.names):
            try:
                tables.append(self._tables.get(name) or self._load_tables(name))
            except (Corruption, FileNotFoundError):
                continue
        return tables

    def _in_idx(self, id: bytes) -> "Location | None":
        assert self._idx is not None
        try:
            location = self._idx.find(id)
        except (Corruption, OSError):  # derived: whatever is wrong with it, the packs answer
            self._drop_idx()
            return self.find(id) if id in self._rows else None
        if location is None:
            return None
        path = self._paths.get(location[0])
        if path is None:
            path = self._paths[location[0]] = self._layout.pack(location[0])
        return (path, *location[1:])

    def _drop_idx(self) -> None:
        """Drop the idx: the packs' own tables hold the same."""
        assert self._idx is not None
        packs = self._idx.packs
        self._idx.close()
        self._idx = None
        for name in sorted(packs & self.names):
            self._load(name)

    def _open_idx(self) -> None:
        """Use the newest idx that is whole and names no pack that is gone."""
        if self._idx is not None:
            self._idx.close()
            self._idx = None
        directory = self._layout.directory(IDX_DIR)
        numbers = [parse_idx(name) for name in _names_in(self._fs, directory)]
        for number in sorted((n for n in numbers if n is not None), reverse=True):
            from eventlog.blobs.idx import Idx

            try:
                idx = Idx(self._fs, self._layout.idx(number), self._files.store_id)
            except (Corruption, OSError):
                continue  # derived: whatever is wrong with it, the packs answer
            if idx.packs <= self.names:
                self._idx = idx
                self.settled |= idx.packs  # whoever made it synced the directory first
                return
            idx.close()

    def _load(self, name: str) -> bool:
        """Open a pack for its tables; False when it is gone or damaged."""
        try:
            tables = self._load_tables(name)
        except FileNotFoundError:
            self.names.discard(name)
        except Corruption as error:
            self.unreadable[name] = str(error)
        else:
            self._take(tables)
            return True
        return False

    def _take(self, tables: PackTables) -> None:
        self._tables[tables.name] = tables
        self._add_recent(tables)

    def _load_tables(self, name: str) -> PackTables:
        return load_tables(self._fs, self._layout.pack(name), name, self._files.store_id)

    def _forget_recent(self) -> None:
        # An id's row counts through the entries of all recent packs, in the order of `_order`.
        self._rows: "dict[bytes, int]" = {}
        self._order: "list[PackTables]" = []
        self._firsts: "list[int]" = []

    def _add_recent(self, tables: PackTables) -> None:
        first = self._firsts[-1] + len(self._order[-1]) if self._order else 0
        self._order.append(tables)
        self._firsts.append(first)
        self._rows.update(zip(tables.ids(), range(first, first + len(tables)), strict=True))


def load_tables(fs: FileSystem, path: str, name: str, store_id: bytes) -> PackTables:
    """The tables of the pack at `path`, without reading its groups.

    Raises: Corruption; FileNotFoundError.
    """
    fd = fs.open(path, os.O_RDONLY)
    try:
        size = fs.fstat(fd).st_size
        footer = fs.pread(fd, FOOTER_SIZE, max(0, size - FOOTER_SIZE))
        base, end = tables_range(footer, size, path)
        header = fs.pread(fd, HEADER_SIZE, 0)
        tables = decode_tables(header, fs.pread(fd, end - base, base), footer, size, path, name)
    finally:
        fs.close(fd)
    if tables.store_id != store_id:
        raise Corruption(path, "this pack belongs to another store", 8)
    return tables


def _names_in(fs: FileSystem, directory: str) -> "list[str]":
    """The names in a directory that may be missing: what it holds is derived or dead."""
    try:
        return fs.listdir(directory)
    except FileNotFoundError:
        return []


def _location_in(tables: PackTables, id: bytes) -> "Location | None":
    index = tables.first_from(id)
    if index == len(tables) or tables.entry(index)[0] != id:
        return None
    return _location_at(tables, index)


def _location_at(tables: PackTables, index: int) -> Location:
    _, kind, group, offset, length = tables.entry(index)
    return tables.path, kind, tables.group(group).offset, offset, length
