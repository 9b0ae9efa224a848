"""Contents of published packs that are rewritten, read out of their objects (docs/lake.md §5).

For contents that the store has collected since. All in memory: these packs hold what was erased, which must
not come onto a disk again. One thread.
"""

from collections.abc import Collection, Iterable

from eventlog.base.errors import NotFound
from eventlog.blobs.ids import to_text
from eventlog.blobs.pack import (
    FOOTER_SIZE,
    GROUP_HEAD_SIZE,
    HEADER_SIZE,
    Location,
    PackTables,
    decode_group_head,
    decode_tables,
    decompress,
    tables_range,
)
from eventlog.lake.place import Place


class OldPacks:
    """What `made_packs` asks of a store's blobs, answered from packs in a place."""

    def __init__(self, place: Place, store_id: bytes, names: Iterable[str]) -> None:
        """Raises: Corruption; NotFound (a pack went meanwhile)."""
        self.store_id = store_id
        self._packs: list[tuple[bytes, PackTables]] = []
        for name in names:
            data = place.read(name)
            address, footer = place.address(name), data[-FOOTER_SIZE:]
            base, end = tables_range(footer, len(data), address)
            header, tables = data[:HEADER_SIZE], data[base:end]
            decoded = decode_tables(header, tables, footer, len(data), address, name)
            decoded.check()
            self._packs.append((data, decoded))
        self._last: tuple[int, int, bytes] = (-1, -1, b"")  # pack, group, and its raw bytes

    def locations(self, ids: Iterable[bytes]) -> "dict[bytes, Location]":
        wanted = set(ids)
        return {
            id: (tables.path, kind, number, offset, length)
            for _, tables in self._packs
            for id, kind, number, offset, length in tables.entries()
            if id in wanted
        }

    def condemned_locations(self, ids: "Collection[bytes]") -> "dict[bytes, Location]":  # noqa: ARG002
        return {}

    def read_order(self, ids: Iterable[bytes]) -> "list[bytes]":
        wanted = set(ids)
        entries = [
            (index, number, offset, id)
            for index, (_, tables) in enumerate(self._packs)
            for id, _, number, offset, _ in tables.entries()
            if id in wanted
        ]
        return list(dict.fromkeys(id for *_, id in sorted(entries)))

    def get(self, id: bytes) -> bytes:
        """Raises: NotFound, Corruption."""
        for index, (_, tables) in enumerate(self._packs):
            row = tables.first_from(id)
            if row < len(tables) and tables.entry(row)[0] == id:
                _, _, number, offset, length = tables.entry(row)
                return self._group(index, number)[offset : offset + length]
        raise NotFound(f"{to_text(id)} is in none of the packs that are rewritten")

    def _group(self, index: int, number: int) -> bytes:
        if self._last[:2] != (index, number):
            data, tables = self._packs[index]
            start = tables.group(number).offset
            group = decode_group_head(data[start : start + GROUP_HEAD_SIZE], tables.path, start)
            stored = data[start + GROUP_HEAD_SIZE : start + GROUP_HEAD_SIZE + group.stored_size]
            self._last = (index, number, decompress(group, stored, tables.path))
        return self._last[2]
