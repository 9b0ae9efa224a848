"""The contents of a store in a place, read from its packs by ranged GETs (docs/lake.md §7).

`PublishedContents` is a `BlobStore` whose packs are not there yet: each is a file with holes, as long as the
object, and groups are brought into it before they are read. So everything that reads trees and writes files
works on it as on a store. Nothing is stored twice and nothing is written to the place.

Memory: the tables of packs that were needed, 16 MiB of a group at a time, and what a content takes. A group
that claims more than 16 MiB is decompressed and hashed piece by piece before anything of its size is made.
One thread.
"""

import mmap
import os
import sys
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from eventlog.base.errors import Corruption, EventLogError, NotFound
from eventlog.base.fs import REAL, opened, write_all
from eventlog.base.layout import PACK_DIR, Layout, StoreFiles
from eventlog.blobs.catalog import Catalog
from eventlog.blobs.extent import WITHOUT_CONTENT
from eventlog.blobs.ids import hasher_of, to_text
from eventlog.blobs.pack import (
    GROUP_HEAD_SIZE,
    GROUP_RAW_MAX,
    Group,
    Location,
    PackTables,
    check_group,
    decode_group_head,
    decompressed,
)
from eventlog.blobs.store import BlobStore
from eventlog.blobs.tree import TreeEntry
from eventlog.lake.packs import PACKS_AT_ONCE, tables_of
from eventlog.lake.place import Place, StoredObject, near

# Groups closer than this come in one GET: a request costs as much as so many bytes.
GAP_MAX = 256 << 10
# Bytes of one GET.
GET_MAX = 16 << 20

VERIFY = "locus lake verify"

# A pack may be removed, or replaced, while it is read; then packs are listed again, so often.
_LISTINGS_MAX = 3

# The packs of the store as they are now, those to try first in front.
List = Callable[[], "list[StoredObject]"]


class PublishedContents(BlobStore):
    """Reads blobs and trees of a store out of a place. Close it; its directory is the caller's to remove."""

    def __init__(self, place: Place, store_id: bytes, list_packs: List, directory: str) -> None:
        """Args: directory: an empty one, for what is brought."""
        files = StoreFiles(REAL, Layout(directory), store_id)
        os.makedirs(files.layout.directory(PACK_DIR), 0o700)
        self._copies = _PackCopies(place, files, list_packs)
        self._texts: set[bytes] = set()  # targets of symlinks and the like, in trees that were read
        super().__init__(files, catalog=self._copies.catalog)
        self.repository = os.getcwd()  # what git held of the store's may be in a clone

    def bring(self, ids: Iterable[bytes]) -> None:
        """Bring the groups of these ids, with as few requests as they allow; absent ids are passed over."""
        wanted = set(ids)
        for _ in range(_LISTINGS_MAX):
            self._copies.read_tables_for(wanted)
            if self._copies.bring(super().locations(wanted).values()):
                return

    def get_tree(self, id: bytes) -> "tuple[TreeEntry, ...]":
        entries = super().get_tree(id)
        self._texts.update(entry.id for entry in entries if entry.kind in WITHOUT_CONTENT)
        return entries

    def read_order(self, ids: "Iterable[bytes]") -> "list[bytes]":
        wanted = set(ids)
        self.bring(wanted)
        return super().read_order(wanted)

    def locations(self, ids: "Iterable[bytes]") -> "dict[bytes, Location]":
        wanted = set(ids)
        self.bring(wanted)
        return super().locations(wanted)

    def _get(self, id: bytes) -> "tuple[int, bytes]":
        if id in self._texts:
            self.bring(self._texts)
            self._texts.clear()
        else:
            self.bring((id,))
        try:
            return super()._get(id)
        except (NotFound, Corruption):
            self._copies.bring_all_copies(id)
        try:
            return super()._get(id)
        except Corruption as error:
            raise self._copies.damage(error) from error
        except NotFound as error:
            raise self._copies.absence(id) from error


class _PackCopies:
    """Local files with holes for the packs of a place, and which of their groups are there."""

    def __init__(self, place: Place, files: StoreFiles, list_packs: List) -> None:
        self.catalog = Catalog(files)
        self._place = place
        self._files = files
        self._list = list_packs
        self._unread = list_packs()  # packs whose tables were not read
        self._objects: dict[str, str] = {}  # name of the object, by the path of its copy
        self._tables: dict[str, PackTables] = {}  # by the same path
        self._brought: dict[str, set[int]] = {}  # by the same path: offsets of groups
        self._unreadable: dict[str, EventLogError] = {}  # by the name of the object

    def read_tables_for(self, ids: "set[bytes]") -> None:
        """Read tables of packs until each id is known, or there are no more."""
        self.catalog.ensure()
        while self._unread and not all(map(self.catalog.has, ids)):
            part, self._unread = self._unread[:PACKS_AT_ONCE], self._unread[PACKS_AT_ONCE:]
            for entry, tables in tables_of(self._place, self._files.store_id, part):
                self._add(entry, tables)

    def bring(self, locations: Iterable[Location]) -> bool:
        """Bring the groups at these locations. False when a pack is gone: packs were listed again then."""
        wanted: dict[str, set[int]] = {}
        for path, _, offset, _, _ in locations:
            if offset not in self._brought[path]:
                wanted.setdefault(path, set()).add(offset)
        whole = True
        for path in sorted(wanted):
            groups = [group for group in _groups_of(self._tables[path]) if group.offset in wanted[path]]
            try:
                for start, end in near(map(_range_of, groups), GAP_MAX, sys.maxsize):
                    self._bring_range(path, start, end)
            except NotFound as error:
                self._forget(path, error)
                whole = False
        return whole

    def bring_all_copies(self, id: bytes) -> None:
        """Bring every copy of an id, after one was bad."""
        while self._unread:
            part, self._unread = self._unread, []
            for entry, tables in tables_of(self._place, self._files.store_id, part):
                self._add(entry, tables)
        self.bring(self.catalog.find_all(id))

    def damage(self, error: Corruption) -> Corruption:
        """The same error, about the object instead of its copy."""
        address = self._place.address(self._objects.get(error.path, error.path))
        return Corruption(address, f"{error.what}. {_AGAIN}", error.offset, VERIFY)

    def absence(self, id: bytes) -> EventLogError:
        """The error about an id that no readable pack has."""
        damaged = {name: error for name, error in self._unreadable.items() if isinstance(error, Corruption)}
        if damaged:
            name = min(damaged)
            what = f"{to_text(id)} is in no readable pack, and this one cannot be read: {damaged[name].what}"
            return Corruption(self._place.address(name), f"{what}. {_AGAIN}", None, VERIFY)
        return NotFound(
            f"{to_text(id)} is in no pack of the store {self._files.store_id.hex()} in {self._place.uri}: it "
            "was not published, is withheld, or was erased"
        )

    def _add(self, entry: StoredObject, tables: "PackTables | EventLogError") -> None:
        """Make the copy of a pack, of holes alone."""
        if isinstance(tables, PackTables):
            try:
                tables.check()
            except Corruption as error:
                tables = error
        if not isinstance(tables, PackTables):
            self._unreadable[entry.name] = tables
            return
        path = self._files.layout.pack(tables.name)
        with opened(REAL, path, os.O_RDWR | os.O_CREAT) as fd:
            REAL.truncate(fd, entry.size)
        copy = PackTables(
            path, tables.name, tables.store_id, tables.size, tables.tables_offset, *tables.encoded()
        )
        self._objects[path] = entry.name
        self._tables[path] = copy
        self._brought[path] = set()
        self.catalog.add(copy)

    def _forget(self, path: str, error: EventLogError) -> None:
        """A pack is gone: leave it out, and list the packs again."""
        REAL.unlink(path)
        name = self._objects.pop(path)
        del self._tables[path], self._brought[path]
        self._unreadable[name] = error
        self.catalog.refresh()
        known = {*self._objects.values(), *self._unreadable}
        self._unread = [entry for entry in self._list() if entry.name not in known]

    def _bring_range(self, path: str, start: int, end: int) -> None:
        """Bring the bytes [start, end), which are whole groups, and check these."""
        with opened(REAL, path, os.O_RDWR) as fd:
            for offset in range(start, end, GET_MAX):
                data = self._place.read_range(self._objects[path], offset, min(GET_MAX, end - offset))
                write_all(REAL, fd, data, offset)
            for number, group in enumerate(_groups_of(self._tables[path])):
                if start <= group.offset < end:
                    if not _is_as_listed(fd, self._tables[path], number, group):
                        write_all(REAL, fd, bytes(GROUP_HEAD_SIZE), group.offset)  # nothing is read of it
                    self._brought[path].add(group.offset)


_AGAIN = "Bring the object back from a version or a backup of the place, or delete it and publish again"


def _groups_of(tables: PackTables) -> Iterator[Group]:
    return map(tables.group, range(tables.group_count))


def _range_of(group: Group) -> tuple[int, int]:
    return group.offset, group.offset + GROUP_HEAD_SIZE + group.stored_size


def _is_as_listed(fd: int, tables: PackTables, number: int, listed: Group) -> bool:
    """Whether a group's head is that of the table, and a large one the content that the table says.

    Others are small, and hashed by their readers.
    """
    head = REAL.pread(fd, GROUP_HEAD_SIZE, listed.offset)
    try:
        group = decode_group_head(head, tables.path, listed.offset)
        check_group(tables.path, group)
        as_listed = (group.codec, group.raw_size, group.stored_size) == (
            listed.codec,
            listed.raw_size,
            listed.stored_size,
        )
        return as_listed and (group.raw_size <= GROUP_RAW_MAX or _is_whole(fd, tables, number, group))
    except Corruption:
        return False


def _is_whole(fd: int, tables: PackTables, number: int, group: Group) -> bool:
    """Whether the one content of a large group is there, hashed piece by piece. Raises: Corruption."""
    id, kind = next((id, kind) for id, kind, of_group, _, _ in tables.entries() if of_group == number)
    start = group.offset + GROUP_HEAD_SIZE
    hasher = hasher_of(kind)
    # Bytes of the file, none of them copied; pyarrow may hold on to them for longer than this function.
    stored: Any = memoryview(mmap.mmap(fd, 0, prot=mmap.PROT_READ))[start : start + group.stored_size]
    for piece in decompressed(group, stored, tables.path):
        hasher.update(piece)
    return hasher.digest() == id
