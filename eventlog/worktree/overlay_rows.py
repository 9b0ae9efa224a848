"""The overlay of a stat cache: the directories that differ from the base, in one small file.

docs/stat-cache.md has the format. It is a tree that begins at the root of the working directory; what it does
not hold is a whole sub-tree of the base. On the hook path.
"""

from struct import Struct, pack, unpack
from struct import error as StructError

from blake3 import blake3

from eventlog.worktree.base_rows import DIGEST_SIZE, VERSION, BaseRows
from eventlog.worktree.stored_rows import ID_SIZE, STAT_SIZE, TOTALS, StatCache, StoredDirectory, Unusable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from eventlog.worktree.stored_rows import Handle

MAGIC = b"\x89EVO"
# magic, version, flags, identity of the base, tracked set, root tree, its stat and size, generation, next row,
# directories, rows, watched files, absent paths, rows of directories, bytes of names of rows and of names
_HEAD = Struct("<4sHH16s16s32s36sQQIIIIIIQQ")
_DIR = Struct(f"<II{TOTALS}I")
_INT = Struct("<I")
_OF_BASE = 0xFFFFFFFF
_ROW_SIZES = (STAT_SIZE, 8, ID_SIZE, 1, 1)


def encode_overlay(cache: StatCache) -> bytes:
    """The bytes of the overlay of a cache that has a base. Raises: Unusable."""
    assert cache.base is not None
    stored = [piece[1] for piece in cache.pieces() if isinstance(piece[1], StoredDirectory)]
    dirs = [_DIR.pack(len(one.names), one.ignored, *cache.of(one)) for one in stored]
    columns = [b"".join(getattr(one, name) for one in stored) for name in _COLUMNS]
    below = [below if isinstance(below, int) else _OF_BASE for one in stored for below in one.below]
    names = b"\0".join(name for one in stored for name in one.names)
    absent = () if cache.absent_of_base else cache.absent
    other_names = b"\0".join((*cache.watched, *absent))
    head = _HEAD.pack(
        MAGIC, VERSION, 0, cache.base.identity, cache.tracked, cache.root, cache.root_stat, cache.root_size,
        cache.generation, cache.next_row, len(stored), len(columns[3]), len(cache.watched),
        _OF_BASE if cache.absent_of_base else len(absent), len(below), len(names), len(other_names),
    )  # fmt: skip
    body = b"".join(
        (head, *dirs, *columns, cache.watch_stats, pack(f"<{len(below)}I", *below), names, other_names)
    )
    return body + blake3(body).digest(DIGEST_SIZE)


_COLUMNS = ("stats", "sizes", "ids", "kinds", "flags")


def decode_overlay(data: bytes, base: BaseRows) -> "StatCache | None":
    """The cache of a base with this overlay; None for any other bytes, or the overlay of another base."""
    end = len(data) - DIGEST_SIZE
    if end < _HEAD.size or blake3(memoryview(data)[:end]).digest(DIGEST_SIZE) != data[end:]:
        return None
    magic, version, _, identity, tracked, root, root_stat, root_size, generation, next_row, *counts = (
        _HEAD.unpack_from(data)
    )
    if (magic, version, identity) != (MAGIC, VERSION, base.identity):
        return None
    dirs, rows, watched, absent, d_rows, names_size, other_size = counts
    parts, offset = [], _HEAD.size
    column_sizes = (rows * size for size in _ROW_SIZES)
    for size in (dirs * _DIR.size, *column_sizes, watched * STAT_SIZE, d_rows * 4, names_size, other_size):
        parts.append(data[offset : offset + size])
        offset += size
    if offset != end:
        return None
    table, *columns, watch_stats, below, names_of_rows, other_names = parts
    try:
        entries = list(_DIR.iter_unpack(table))
        numbers = unpack(f"<{d_rows}I", below)
        names = names_of_rows.split(b"\0") if rows else []
        # Without any directory only the facts in the head are newer than the base.
        top = _tree(base, entries, columns, numbers, names) if entries else 0
    except (StructError, Unusable):
        return None
    others = other_names.split(b"\0") if other_names else []
    if len(others) != watched + (0 if absent == _OF_BASE else absent):
        return None
    return StatCache(
        base, top, root=root, root_stat=root_stat, root_size=root_size, tracked=tracked, generation=generation,
        watched=others[:watched], watch_stats=watch_stats,
        absent=None if absent == _OF_BASE else others[watched:], next_row=next_row,
    )  # fmt: skip


def _tree(
    base: BaseRows,
    entries: "list[tuple[int, ...]]",
    columns: "list[bytes]",
    numbers: "tuple[int, ...]",
    names: "list[bytes]",
) -> StoredDirectory:
    """The root of the overlay's directories, made from the last one on: those below one follow it."""
    made: "list[StoredDirectory]" = []
    row, number = len(names), len(numbers)
    if sum(entry[0] for entry in entries) != row:
        raise Unusable
    for count, ignored, *totals in reversed(entries):
        first = row - count
        own = [column[first * size : row * size] for column, size in zip(columns, _ROW_SIZES, strict=True)]
        d_rows = own[3].count(b"d")
        if d_rows > number:
            raise Unusable
        below: "list[Handle]" = []
        for of_base in numbers[number - d_rows : number]:
            if of_base != _OF_BASE and of_base >= base.dirs or of_base == _OF_BASE and not made:
                raise Unusable
            below.append(made.pop() if of_base == _OF_BASE else of_base)
        made.append(StoredDirectory(names[first:row], own, below, ignored, tuple(totals)))
        row, number = first, number - d_rows
    if len(made) != 1 or number:
        raise Unusable
    return made[0]
