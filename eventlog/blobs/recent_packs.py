"""The tables of small packs that no idx covers, together in one file: `snapshots/idx/young`.

A hook that has something new to store makes a pack of its own, and the next one would have to open them all.
One record for each pack, one after the other:

    head          60  magic 89 'E' 'V' 'Y', bytes of the group table u32, of the entry table u32, name 32,
                      length of the pack u64, offset of its tables u64
    tables            as in the pack
    digest        16  BLAKE3-128 of (store id, everything above)

Derived, and never synced: a pack without a record is opened, a record without a pack is ignored. Writers
append without a lock; where two met, or one died, the first bad record ends the file, and its reader
removes it. Making an idx removes it too. On the hook path.
"""

import os
import struct

from blake3 import blake3

from eventlog.base.fs import read_file, write_all
from eventlog.base.layout import StoreFiles
from eventlog.blobs.pack import PackTables

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

_MAGIC = b"\x89EVY"
_HEAD = struct.Struct("<4sII32sQQ")
_DIGEST_SIZE = 16
_SIZE_MAX = 64 << 20
_ENTRIES_MAX = 512  # of a small pack


def read(files: StoreFiles, names: "Collection[str]") -> "dict[str, PackTables]":
    """The tables of those of the packs `names` that have a record."""
    fs, layout = files.fs, files.layout
    try:
        data = read_file(fs, layout.recent_packs, _SIZE_MAX)
    except (OSError, ValueError):
        return {}
    wanted = set(names)
    tables_by_name = {}
    start = 0
    while start + _HEAD.size <= len(data):
        magic, groups, entries, raw, size, offset = _HEAD.unpack_from(data, start)
        first = start + _HEAD.size
        end = first + groups + entries
        digest = data[end : end + _DIGEST_SIZE]
        if magic != _MAGIC or digest != blake3(files.store_id + data[start:end]).digest(_DIGEST_SIZE):
            break
        name = raw.hex()
        if name in wanted:
            middle = first + groups
            tables_by_name[name] = PackTables(
                layout.pack(name), name, files.store_id, size, offset, data[first:middle], data[middle:end]
            )
        start = end + _DIGEST_SIZE
    if start != len(data):
        try:
            fs.unlink(layout.recent_packs)
        except OSError:
            pass  # gone, or it stays as it is
    return tables_by_name


def store(files: StoreFiles, packs: "Sequence[PackTables]") -> None:
    """Add records of these packs, those of the small ones. Never fails."""
    fs = files.fs
    data = b"".join(_record(tables) for tables in packs if len(tables) <= _ENTRIES_MAX)
    if not data:
        return
    try:
        fd = fs.open(files.layout.recent_packs, os.O_WRONLY | os.O_CREAT)
        try:
            write_all(fs, fd, data, fs.fstat(fd).st_size)
        finally:
            fs.close(fd)
    except OSError:
        pass  # the next one opens the packs


def _record(tables: PackTables) -> bytes:
    groups, entries = tables.encoded()
    head = _HEAD.pack(
        _MAGIC, len(groups), len(entries), bytes.fromhex(tables.name), tables.size, tables.tables_offset
    )
    body = b"".join((head, groups, entries))
    return body + blake3(tables.store_id + body).digest(_DIGEST_SIZE)
