"""One directory as bytes, in exactly one spelling; and the names a directory may hold.

`'T' 0x01`, then the entries in strictly increasing order of their name's bytes:

    1   kind: f file, x executable file, l symlink, d directory, m submodule, s skipped; above 127 a
        file that lacks permissions which git's two modes have, with those that it has (docs/trees.md §2)
    8   size of the content (d: 0, or its mode where that lacks any of 0755; s: the size seen, all ones
        when unknown)
    32  id: f, x, l, s, m a blob; d a tree
    2   length of the name
    n   name

The decoder accepts only what the encoder makes (I11), and neither lets through a name that could
leave its directory or reach into `.git` or `.locus` on any file system (I28). A file with such a name can
be listed as kind `s` with a sentence that gives the reason. In the bytes it has an escape of its name, and
so does a name that looks like an escape; readers get the name itself (docs/trees.md §4).

Pure functions; on the hook path.
"""

import struct
from _collections import _tuplegetter  # type: ignore[import-not-found]  # that of `collections.namedtuple`

from eventlog.base.errors import Corruption, InvalidEvent

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

FILE, EXECUTABLE, SYMLINK, DIRECTORY, SUBMODULE, SKIPPED = b"f", b"x", b"l", b"d", b"m", b"s"

# A file's kind gives its permissions: those of git (0644, 0755), or fewer. The bits of a kind above 127 are
# these, from the highest on.
_PERMISSIONS = (0o400, 0o200, 0o100, 0o040, 0o010, 0o004, 0o001)
_OF_FILE, _OF_EXECUTABLE, _OF_DIRECTORY = 0o644, 0o755, 0o755
_IS_DIRECTORY = 0o040000


def _kinds_of_modes() -> "dict[int, bytes]":
    kinds = {}
    for bits in range(128):
        mode = sum(permission for index, permission in enumerate(_PERMISSIONS) if bits & 0x40 >> index)
        if mode & 0o100 or not mode & ~_OF_FILE:
            kinds[mode] = bytes((0x80 | bits,))
    return {**kinds, _OF_FILE: FILE, _OF_EXECUTABLE: EXECUTABLE}


_KIND_OF_MODE = _kinds_of_modes()
# The permissions that a file of each kind has, and gets when it is written out.
MODE_OF_KIND = {kind: mode for mode, kind in _KIND_OF_MODE.items()}
FILES = frozenset(MODE_OF_KIND)
_UNDER_AN_ESCAPE = FILES | {DIRECTORY}  # what a `.locus` may be, for it to be kept
KINDS = FILES | {SYMLINK, DIRECTORY, SUBMODULE, SKIPPED}
# For `bytes.translate`: each kind of file as `f` or `x`.
PLAIN = bytes.maketrans(
    b"".join(MODE_OF_KIND),
    b"".join(EXECUTABLE if mode & 0o100 else FILE for mode in MODE_OF_KIND.values()),
)

SIZE_UNKNOWN = 2**64 - 1
NAME_SIZE_MAX = 65_535
TREE_SIZE_MAX = 256 * 1024 * 1024  # some five million entries in one directory

_MAGIC = b"T\x01"
_ENTRY = struct.Struct("<cQ32sH")

# Directories that belong to a program that runs what it finds in them.
_RESERVED = ("git", "locus")

# A name that no tree may hold is escaped with this prefix and safe letters.
REFUSED = b"refused%"
_PLAIN = frozenset(b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_")

# Code points that HFS+ leaves out when it compares names: `.g<U+200C>it` opens `.git` there.
_HFS_IGNORED = dict.fromkeys(
    (*range(0x200C, 0x2010), *range(0x202A, 0x202F), *range(0x206A, 0x2070), 0xFEFF), None
)


def item(index: int) -> "Any":
    """An attribute that is an item of its tuple: named tuples of hooks, which import no `collections`."""
    return _tuplegetter(index, "")


class TreeEntry(tuple[bytes, bytes, bytes, int]):
    """(name, kind, id, size): one name in a directory. Sorts by name."""

    __slots__ = ()

    def __new__(cls, name: bytes, kind: bytes, id: bytes, size: int = 0) -> "TreeEntry":
        return tuple.__new__(cls, (name, kind, id, size))

    name: bytes = item(0)
    kind: bytes = item(1)
    id: bytes = item(2)
    size: int = item(3)

    def __repr__(self) -> str:
        return f"TreeEntry({self[0]!r}, {self[1]!r}, {self[2].hex()[:12]}…, {self[3]})"


def kind_of_mode(mode: int) -> bytes:
    """The kind of a regular file with these permissions; bits beyond 0755 do not count."""
    return _KIND_OF_MODE[mode & (_OF_EXECUTABLE if mode & 0o100 else _OF_FILE)]


def plain_kind(kind: bytes) -> bytes:
    """The same kind without permissions other than the exec bit."""
    return kind.translate(PLAIN)


def size_of_directory(mode: int) -> int:
    """The size in the entry of a directory with these permissions."""
    permissions = mode & _OF_DIRECTORY
    return 0 if permissions == _OF_DIRECTORY else _IS_DIRECTORY | permissions


def mode_of_directory(size: int) -> int:
    """The permissions of a directory whose entry has this size."""
    return size & _OF_DIRECTORY if size else _OF_DIRECTORY


def has_modes(encoding: bytes) -> bool:
    """Whether a tree has other permissions than git's two modes, which takes the feature of the store."""
    return any(kind >= b"\x80" or (kind == DIRECTORY and size) for _, kind, _, size in decode_tree(encoding))


def encode_tree(entries: "Iterable[tuple[bytes, bytes, bytes, int]]") -> bytes:
    """The bytes of a directory; entries may come in any order, as TreeEntry or plain tuples.

    Raises: InvalidEvent on a name that is not legal or comes twice, or an impossible kind, id or size.
    """
    pack = _ENTRY.pack
    parts = [_MAGIC]
    previous = None
    ordered = sorted(entries)
    are_legal = all_legal([entry[0] for entry in ordered])
    if not are_legal:
        ordered = sorted((_stored_name(entry[0], entry[1]), *entry[1:]) for entry in ordered)
    for name, kind, id, size in ordered:
        problem = (None if are_legal else legal_name(name)) or _problem(kind, id, size)
        if problem is None and name == previous:
            problem = "is twice in one directory"
        if problem is not None:
            raise InvalidEvent(f"tree entry {name!r} {problem}")
        previous = name
        parts.append(pack(kind, size, id, len(name)))
        parts.append(name)
    encoding = b"".join(parts)
    if len(encoding) > TREE_SIZE_MAX:
        raise InvalidEvent(
            f"a directory of {len(encoding)} bytes is over the {TREE_SIZE_MAX} a tree may have"
        )
    return encoding


def decode_tree(encoding: bytes, where: str = "tree") -> "tuple[TreeEntry, ...]":
    """The entries of a directory, sorted by name.

    Args: where: what to call these bytes in an error.
    Raises: Corruption when `encode_tree` could not have made these bytes.
    """
    end = len(encoding)
    if encoding[:2] != _MAGIC or end > TREE_SIZE_MAX:
        raise Corruption(where, "this is not a tree of format 1", 0)
    unpack, head = _ENTRY.unpack_from, _ENTRY.size
    make = tuple.__new__
    entries = []
    previous = b""  # below every legal name
    offset = 2
    while offset < end:
        name_at = offset + head
        if name_at > end:
            raise Corruption(where, "the last tree entry is cut short", offset)
        kind, size, id, length = unpack(encoding, offset)
        entry_end = name_at + length
        if entry_end > end:
            raise Corruption(where, "the last tree entry is cut short", offset)
        name = encoding[name_at:entry_end]
        if name <= previous:
            raise Corruption(where, f"tree entry {name!r} is not in order", offset)
        if kind not in KINDS or (size and kind == DIRECTORY and not _is_mode(size)):
            raise Corruption(where, f"tree entry {name!r} {_problem(kind, id, size)}", offset)
        entries.append(make(TreeEntry, (name, kind, id, size)))
        previous = name
        offset = entry_end
    if not all_legal([entry[0] for entry in entries]):
        offset = 2
        for name, _, _, _ in entries:
            problem = legal_name(name)
            if problem is not None:
                raise Corruption(where, f"tree entry {name!r} {problem}", offset)
            offset += head + len(name)
        meant = [make(TreeEntry, (_own_name(entry), *entry[1:])) for entry in entries]
        for entry, own in zip(entries, meant, strict=True):
            if _stored_name(own[0], own[1]) != entry[0]:
                raise Corruption(
                    where, f"tree entry {entry[0]!r} stands for a name that its kind cannot have", 0
                )
        entries = sorted(meant)
    return tuple(entries)


def _stored_name(name: bytes, kind: bytes) -> bytes:
    """How a name is spelled in an encoding; one that no entry of its kind may have as it is."""
    if not has_escape(name):
        return name
    may = kind == SKIPPED or legal_name(name) is None or (kind in _UNDER_AN_ESCAPE and is_store_name(name))
    return escaped(name) if may else name


def _own_name(entry: "TreeEntry") -> bytes:
    """The name that an entry of an encoding means."""
    meant = _meant(entry[0])
    return meant if meant is not None and has_escape(meant) else entry[0]


def name_of_row(row: bytes) -> bytes:
    """The name in the encoding of one entry: rows are sorted by it."""
    return row[_ENTRY.size :]


def all_legal(names: "list[bytes]") -> bool:
    """True when each of these is legal and no escape; else `legal_name` has to check each.

    Trees of thousands of names are read and written faster without a check of each.
    """
    if not names or min(map(len, names)) == 0 or max(map(len, names)) > NAME_SIZE_MAX:
        return not names
    together = b"\0".join(names)
    lower = together.lower()
    return (
        together.isascii()
        and together.count(b"\0") == len(names) - 1
        and b"/" not in together
        and REFUSED not in together
        and b"git" not in lower
        and b"locus" not in lower
        and b"." not in names
        and b".." not in names
    )


def legal_name(name: bytes) -> "str | None":
    """None when a directory may hold this name, else the reason why not, to follow the name in a sentence.

    Refused are: the empty name, `.`, `..`, a slash or NUL in it, more than 65,535 bytes, and every
    spelling of `.git` and `.locus` that some file system takes for them: any case, trailing dots and
    spaces, a `:` stream or a `\\` after it, NTFS short names (`git~1`), ignorable code points of HFS+.
    """
    # Nearly every name ends here: a spelling of the reserved names without their letters needs bytes
    # outside ASCII.
    if name.isascii() and b"/" not in name and b"\0" not in name and name not in (b"", b".", b".."):
        lower = name.lower()
        if b"git" not in lower and b"locus" not in lower:
            return None if len(name) <= NAME_SIZE_MAX else _TOO_LONG
    return _refusal(name)


_SPELLING = "is a spelling of "
_OF_A_STORE = _SPELLING + ".locus"
_TOO_LONG = f"is longer than {NAME_SIZE_MAX} bytes"


def _refusal(name: bytes) -> "str | None":
    if not name:
        return "is empty"
    if name in (b".", b".."):
        return "is a name for a directory itself"
    if b"/" in name or b"\0" in name:
        return "holds a slash or a NUL byte"
    if len(name) > NAME_SIZE_MAX:
        return _TOO_LONG
    for part in name.split(b"\\"):
        reserved = _reserved(part)
        if reserved is not None:
            return _SPELLING + reserved
    return None


def _reserved(name: bytes) -> "str | None":
    """The reserved directory that some file system opens under this name, if any."""
    text = _casefolded(name)
    for word in _RESERVED:
        if text == f".{word}" or (text[:-1] == f"{word}~" and text[-1] in "0123456789"):
            return f".{word}"
    return None


def _casefolded(name: bytes) -> str:
    """A name as the most lenient of file systems compares it."""
    text = name.decode("utf-8", "surrogateescape").translate(_HFS_IGNORED)
    # casefold, not lower: APFS compares `.locuſ` and `.locus` equal.
    return text.partition(":")[0].rstrip(". ").casefold()


def is_store_name(name: bytes) -> bool:
    """Whether some file system takes the name, in ASCII and without `\\` and `:`, for `.locus`."""
    if not name.isascii() or b"locus" not in name.lower():
        return False
    return b"\\" not in name and b":" not in name and legal_name(name) == _OF_A_STORE


def unsafe_path(path: bytes) -> "str | None":
    """None when a tree may lead to this path and it may be written, else why not, after the path.

    At the root `.locus` is a store, and a `STORE` makes a store of any other (docs/trees.md §4).
    """
    names = path.split(b"/")
    if all_legal(names):
        return None
    for above, name in zip([b"", *names], names, strict=False):
        problem = legal_name(name)
        if problem is not None and not (above and is_store_name(name)):
            return f"has a part that {problem}"
        if makes_store(above, name):
            return "would make a store of its directory"
    return None


def makes_store(above: bytes, name: bytes) -> bool:
    """Whether a directory called `above` looks like a store with this name in it."""
    return is_store_name(above) and _casefolded(name) == "store"


def escaped(name: bytes) -> bytes:
    """The escape by which a tree lists a name that it may not hold, or a path from such a name on."""
    return REFUSED + b"".join(b"%c" % c if c in _PLAIN else b"%%%02X" % c for c in name)


def is_escape(name: bytes) -> bool:
    """Whether a name is what `escaped` makes of one that is not legal; others that begin so are names."""
    meant = _meant(name)
    if meant is None:
        return False
    top = meant.split(b"/")[0]
    return bool(top) and (legal_name(top) is not None or is_escape(top))


def has_escape(name: bytes) -> bool:
    """Whether an encoding holds the name's escape: the name is not legal, or is itself such an escape.

    Not if it is no name at all, or in the end the escape of none, such as a path.
    """
    while name not in (b"", b".", b"..") and b"/" not in name and b"\0" not in name:
        if legal_name(name) is not None:
            return len(name) <= NAME_SIZE_MAX
        meant = _meant(name)
        if meant is None:
            return False
        name = meant
    return False


def _meant(name: bytes) -> "bytes | None":
    """What `escaped` makes this name of; None when it makes it of nothing."""
    if not name.startswith(REFUSED):
        return None
    first, *escapes = name[len(REFUSED) :].split(b"%")
    try:
        meant = first + b"".join(bytes((int(part[:2], 16),)) + part[2:] for part in escapes)
    except ValueError:
        return None
    return meant if escaped(meant) == name else None


def _is_mode(size: int) -> bool:
    return size == size_of_directory(size)


def _problem(kind: bytes, id: bytes, size: int) -> "str | None":
    if kind not in KINDS:
        return f"has the unknown kind {kind!r}"
    if kind == DIRECTORY and size and not _is_mode(size):
        return "is a directory with a size"
    if len(id) != 32:
        return "has an id that is not 32 bytes long"
    if not 0 <= size <= SIZE_UNKNOWN:
        return f"has the impossible size {size}"
    return None
