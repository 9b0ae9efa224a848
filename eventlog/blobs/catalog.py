"""Which packs a store has, and where in them an id is.

Order of look-up: the newest usable idx (`idx.py`), then the tables of packs newer than it, then `condemned/`.
A pack is live because it exists, so a listing of the directory is the truth and everything here is
a cache of it, renewed by `refresh`. A `Catalog` belongs to one thread at a time. On the hook path.

A hook that has something new to store makes a pack of its own, and the next one would have to open them
all. So the tables of small packs that no idx covers are together in one file, `snapshots/idx/young`, one
record for each pack, one after the other:

    head          60  magic 89 'E' 'V' 'Y', bytes of the group table u32, of the entry table u32, name 32,
                      length of the pack u64, offset of its tables u64
    tables            as in the pack
    digest        16  BLAKE3-128 of (store id, everything above)

Derived, and never synced: a pack without a record is opened, a record without a pack is ignored. Writers
append without a lock; where two met, or one died, the first bad record ends the file, and its reader
removes it. Making an idx removes it too.
"""

import os
import struct

from blake3 import blake3

from eventlog.base.errors import Corruption
from eventlog.base.fs import FileSystem, opened, read_file, write_all
from eventlog.base.layout import CONDEMNED_DIR, IDX_DIR, PACK_DIR, StoreFiles, parse_idx, parse_pack
from eventlog.blobs.pack import FOOTER_SIZE, HEADER_SIZE, Location, PackTables, decode_tables, tables_range

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Sequence

    from eventlog.blobs.idx import Idx

_RECENT_MAGIC = b"\x89EVY"
_RECENT_HEAD = struct.Struct("<4sII32sQQ")
_RECENT_DIGEST_SIZE = 16
_RECENT_SIZE_MAX = 64 << 20
_RECENT_ENTRIES_MAX = 512  # of a small pack


class Catalog:
    """Look-up of ids over the packs on disk.

    `names` are the live packs, `unreadable` those whose tables are damaged, with the reason.
    `settled` are packs whose names are known to survive a power cut.
    """

    __slots__ = (
        "_condemned",
        "_files",
        "_fs",
        "_holders",
        "_idx",
        "_layout",
        "_listed",
        "_paths",
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
        self._tables: "dict[str, PackTables]" = {}  # of the packs that no idx covers
        self._holders: "dict[bytes, PackTables]" = {}  # id → one of those that hold it
        self._paths: "dict[str, str]" = {}  # of packs, one object for all locations in it
        self._unrecorded: "list[PackTables]" = []
        self._listed = False
        self.names: "set[str]" = set()
        self.settled: "set[str]" = set()
        self.unreadable: "dict[str, str]" = {}

    def close(self) -> None:
        if self._idx is not None:
            self._idx.close()
            self._idx = None
        self._listed = False
        self.names = set()
        self._tables = {}
        self._holders = {}

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
            remaining, self._tables, self._holders = self._tables, {}, {}
            for name, tables in remaining.items():
                if name in wanted:
                    self._take(tables)
        self.unreadable = {name: why for name, why in self.unreadable.items() if name in wanted}
        missing = sorted(wanted - self._tables.keys())
        recorded = _read_recent(self._files, missing) if len(missing) > 1 else {}
        for name in missing:
            if name in recorded:
                self._take(recorded[name])
            elif self._load(name):
                self._unrecorded.append(self._tables[name])

    def store_recent(self) -> None:
        """Record the packs that this process had to open, or has made, for the next. Derived: never fails."""
        packs, self._unrecorded = self._unrecorded, []
        _store_recent(self._files, packs)

    def add(self, tables: PackTables) -> None:
        """Add a pack that this process published; its name is durable."""
        self.settled.add(tables.name)
        self.names.add(tables.name)
        if tables.name not in self._tables:
            self._take(tables)
            self._unrecorded.append(tables)

    def has(self, id: bytes) -> bool:
        """Whether a live pack holds `id`, as of the last listing."""
        return id in self._holders or (self._idx is not None and self._in_idx(id) is not None)

    def is_recent(self, id: bytes) -> bool:
        """Whether `id` is in a pack that the idx does not cover."""
        return id in self._holders

    def find(self, id: bytes) -> "Location | None":
        """Where a live pack holds `id`, as of the last listing.

        Raises: Corruption when the row of that id is impossible.
        """
        tables = self._holders.get(id)
        if tables is not None:
            return tables.find(id)
        return self._in_idx(id) if self._idx is not None else None

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
            located_here = [(id, location) for id in missing if (location := tables.find(id)) is not None]
            located.update(located_here)
            missing.difference_update(id for id, _ in located_here)
        return located

    def find_all(self, id: bytes) -> "list[Location]":
        """Every location of `id` in live packs, by the tables of all. Slow: for when a read has failed."""
        locations = []
        for tables in self._readable_tables():
            try:
                location = tables.find(id)
            except Corruption:
                continue
            if location is not None:
                locations.append(location)
        return locations

    def ids_between(self, low: bytes, high: bytes) -> "Iterator[bytes]":
        """Ids in [low, high], both included, of all live packs; an id may come more than once."""
        for tables in self._tables.values():
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

    def recent_entries(self) -> int:
        """How many entries those packs have."""
        return sum(len(tables) for tables in self._tables.values())

    def all_tables(self) -> "list[PackTables]":
        """The tables of every live pack that can be read."""
        return list(self._readable_tables())

    def _readable_tables(self) -> "Iterator[PackTables]":
        for name in sorted(self.names):
            try:
                yield self._tables.get(name) or self._load_tables(name)
            except (Corruption, FileNotFoundError):
                continue

    def _in_idx(self, id: bytes) -> "Location | None":
        assert self._idx is not None
        try:
            location = self._idx.find(id)
        except (Corruption, OSError):  # derived: whatever is wrong with it, the packs answer
            self._drop_idx()
            return self.find(id) if id in self._holders else None
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
                self.settled |= idx.packs  # its maker synced the directory first
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
        self._holders.update(dict.fromkeys(tables.ids(), tables))

    def _load_tables(self, name: str) -> PackTables:
        return load_tables(self._fs, self._layout.pack(name), name, self._files.store_id)


def _read_recent(files: StoreFiles, names: "Collection[str]") -> "dict[str, PackTables]":
    """The tables of those of the packs `names` that have a record."""
    fs, layout = files.fs, files.layout
    try:
        data = read_file(fs, layout.recent_packs, _RECENT_SIZE_MAX)
    except (OSError, ValueError):
        return {}
    wanted = set(names)
    tables_by_name = {}
    start = 0
    while start + _RECENT_HEAD.size <= len(data):
        magic, groups, entries, raw, size, offset = _RECENT_HEAD.unpack_from(data, start)
        first = start + _RECENT_HEAD.size
        end = first + groups + entries
        digest = data[end : end + _RECENT_DIGEST_SIZE]
        if magic != _RECENT_MAGIC or digest != blake3(files.store_id + data[start:end]).digest(
            _RECENT_DIGEST_SIZE
        ):
            break
        name = raw.hex()
        if name in wanted:
            middle = first + groups
            tables_by_name[name] = PackTables(
                layout.pack(name), name, files.store_id, size, offset, data[first:middle], data[middle:end]
            )
        start = end + _RECENT_DIGEST_SIZE
    if start != len(data):
        try:
            fs.unlink(layout.recent_packs)
        except OSError:
            pass  # gone, or it stays as it is
    return tables_by_name


def _store_recent(files: StoreFiles, packs: "Sequence[PackTables]") -> None:
    """Add records of these packs, those of the small ones. Never fails."""
    fs = files.fs
    data = b"".join(_record(tables) for tables in packs if len(tables) <= _RECENT_ENTRIES_MAX)
    if not data:
        return
    try:
        with opened(fs, files.layout.recent_packs, os.O_WRONLY | os.O_CREAT) as fd:
            write_all(fs, fd, data, fs.fstat(fd).st_size)
    except OSError:
        pass  # the next one opens the packs


def _record(tables: PackTables) -> bytes:
    groups, entries = tables.encoded()
    head = _RECENT_HEAD.pack(
        _RECENT_MAGIC,
        len(groups),
        len(entries),
        bytes.fromhex(tables.name),
        tables.size,
        tables.tables_offset,
    )
    body = b"".join((head, groups, entries))
    return body + blake3(tables.store_id + body).digest(_RECENT_DIGEST_SIZE)


def load_tables(fs: FileSystem, path: str, name: str, store_id: bytes) -> PackTables:
    """The tables of the pack at `path`, without reading its groups.

    Raises: Corruption; FileNotFoundError.
    """
    with opened(fs, path) as fd:
        size = fs.fstat(fd).st_size
        footer = fs.pread(fd, FOOTER_SIZE, max(0, size - FOOTER_SIZE))
        base, end = tables_range(footer, size, path)
        header = fs.pread(fd, HEADER_SIZE, 0)
        tables = decode_tables(header, fs.pread(fd, end - base, base), footer, size, path, name)
    if tables.store_id != store_id:
        raise Corruption(path, "this pack belongs to another store", 8)
    return tables


def _names_in(fs: FileSystem, directory: str) -> "list[str]":
    """The names in a directory that may be missing: what it holds is derived or dead."""
    try:
        return fs.listdir(directory)
    except FileNotFoundError:
        return []
