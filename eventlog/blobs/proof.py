"""The contents of one pack, each proven by its id: for checks, merges and repairs. Reads only."""

from collections.abc import Iterator, Set

from eventlog.base.errors import PARSE_ERRORS, Corruption
from eventlog.base.fs import FileSystem
from eventlog.blobs.groups import GroupReader
from eventlog.blobs.ids import blob_id, to_text, tree_id
from eventlog.blobs.pack import GROUP_RAW_MAX, TREE, PackTables
from eventlog.blobs.tree import decode_tree


def proven(
    fs: FileSystem, tables: PackTables, wanted: "Set[bytes] | None" = None, *, decodes: bool = True
) -> "Iterator[tuple[bytes, int, int, bytes | Exception]]":
    """(id, kind, offset of its group, bytes) of each content, in the order of the groups.

    In the place of bytes that are not what was put there is the error, one of PARSE_ERRORS. Rows that are
    impossible are left out. Memory: one group.

    Args: wanted: leave out all others; decodes: whether each row of a tree is checked too, which takes many
    times as long as its hash. Raises: OSError.
    """
    reader = GroupReader(fs, GROUP_RAW_MAX)  # in order, so one group at a time
    try:
        for id, kind, start, offset, length in sorted(_rows(tables), key=lambda row: row[2:]):
            if wanted is not None and id not in wanted:
                continue
            try:
                data = reader.read(tables.path, start, offset, length)
                if (tree_id(data) if kind == TREE else blob_id(data)) != id:
                    raise Corruption(tables.path, "the content does not match its hash", start)
                if kind == TREE and decodes:
                    decode_tree(data, to_text(id))
            except PARSE_ERRORS as error:
                yield id, kind, start, error
            else:
                yield id, kind, start, data
    finally:
        reader.close()


def _rows(tables: PackTables) -> Iterator[tuple[bytes, int, int, int, int]]:
    for id, kind, group, offset, length in tables.entries():
        try:
            yield id, kind, tables.group(group).offset, offset, length
        except Corruption:
            continue
