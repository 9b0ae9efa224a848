"""Contents that a hook left to be stored after it: the list of them, and the sentence that names the list.

A list is a blob: the line `locus deferred 1`, then for each file, in strictly increasing order of its
path's bytes, `KIND SIZE MTIME_NS CTIME_NS INODE OBJECT`, a tab, the path, NUL (docs/certainty.md §3).
OBJECT is git's id of the content in hex, or `-`. In a tree such a file is an entry `s`, whose blob is the
sentence.

Pure functions; on the hook path.
"""

from eventlog.base.errors import Corruption, InvalidEvent
from eventlog.blobs.tree import FILES, SIZE_UNKNOWN, SYMLINK, item, unsafe_path

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

_HEAD = b"locus deferred 1\n"
_SENTENCE = b"its content was deferred: blake3:"
_NO_OBJECT = b"-"
_OBJECT_SIZES = (20, 32)  # of git's SHA-1 and SHA-256
_HEX = frozenset(b"0123456789abcdef")


class DeferredFile(tuple[bytes, bytes, int, int, int, int, "bytes | None"]):
    """(path, kind, size, mtime_ns, ctime_ns, inode, object): one file of a list.

    `path` is relative to the captured directory, `kind` is that of a file. `object` is git's id of the same
    content, 20 or 32 bytes; None where git does not hold it. With a size that is unknown git did not hold
    it when it was imported. Sorts by path.
    """

    __slots__ = ()

    path: bytes = item(0)
    kind: bytes = item(1)
    size: int = item(2)

    @property
    def stat(self) -> "tuple[int, int, int, int]":
        """(size, mtime_ns, ctime_ns, inode)."""
        return self[2], self[3], self[4], self[5]

    object: "bytes | None" = item(6)


def encode_list(rows: "Iterable[tuple[bytes, bytes, int, int, int, int, bytes | None]]") -> bytes:
    """The bytes of a list; rows may come in any order, as DeferredFile or plain tuples of the same fields.

    Raises: InvalidEvent on a path that comes twice, or an impossible kind, size, inode or object. That a
    path may be in a tree is not checked: the tree's own encoder has done so.
    """
    parts = [_HEAD]
    previous = None
    for path, kind, size, mtime_ns, ctime_ns, inode, object in sorted(rows, key=_path):
        problem = _problem(kind, size, inode, object)
        if problem is None and path == previous:
            problem = "is twice in one list"
        if problem is not None:
            raise InvalidEvent(f"deferred file {path!r} {problem}")
        previous = path
        name = _NO_OBJECT if object is None else object.hex().encode()
        parts.append(b"%b %d %d %d %d %b\t%b\0" % (kind, size, mtime_ns, ctime_ns, inode, name, path))
    return b"".join(parts)


def decode_list(data: bytes, where: str = "list of deferred files") -> "tuple[DeferredFile, ...]":
    """The files of a list, sorted by path.

    Args: where: what to call these bytes in an error.
    Raises: Corruption when `encode_list` could not have made these bytes from paths of a tree.
    """
    if not data.startswith(_HEAD) or (len(data) > len(_HEAD) and not data.endswith(b"\0")):
        raise Corruption(where, "this is not a whole list of deferred files of format 1", 0)
    rows = []
    offset = len(_HEAD)
    previous = b""  # below every path
    for line in data[offset:].split(b"\0")[:-1]:
        row = _decoded(line)
        if row is None:
            raise Corruption(where, f"{line[:80]!r} is no row of a list of deferred files", offset)
        if row.path <= previous:
            raise Corruption(where, f"deferred file {row.path!r} is not in order", offset)
        previous = row.path
        rows.append(row)
        offset += len(line) + 1
    # Numbers have several spellings, a list has one.
    if encode_list(rows) != data:
        raise Corruption(where, "this list is not spelled as its encoder spells it", 0)
    return tuple(rows)


def sentence_of(list_id: bytes) -> bytes:
    """The sentence in the entry of a deferred file."""
    return _SENTENCE + list_id.hex().encode()


def list_of(sentence: bytes) -> "bytes | None":
    """The id of the list that an entry `s` names; None when it has another sentence."""
    digits = sentence[len(_SENTENCE) :]
    if not sentence.startswith(_SENTENCE) or len(digits) != 64 or not _HEX.issuperset(digits):
        return None
    return bytes.fromhex(digits.decode())


def _path(row: "tuple[bytes, bytes, int, int, int, int, bytes | None]") -> bytes:
    return row[0]


def _problem(kind: bytes, size: int, inode: int, object: "bytes | None") -> "str | None":
    if kind not in FILES and kind != SYMLINK:
        return f"has the kind {kind!r}, which is never deferred"
    if not 0 <= size <= SIZE_UNKNOWN or inode < 0:
        return f"has the impossible size {size} or inode {inode}"
    if object is not None and len(object) not in _OBJECT_SIZES:
        return f"has an object id of {len(object)} bytes"
    return None


def _decoded(line: bytes) -> "DeferredFile | None":
    facts, tab, path = line.partition(b"\t")
    fields = facts.split(b" ")
    if not tab or len(fields) != 6 or unsafe_path(path) is not None:
        return None
    kind, size, mtime_ns, ctime_ns, inode, name = fields
    try:
        object = None if name == _NO_OBJECT else bytes.fromhex(name.decode("ascii"))
        numbers = int(size), int(mtime_ns), int(ctime_ns), int(inode)
    except ValueError:
        return None
    if _problem(kind, numbers[0], numbers[3], object) is not None:
        return None
    return tuple.__new__(DeferredFile, (path, kind, *numbers, object))
