"""A change in git's extended diff format: what `git apply` takes, and for plain text `patch -p1`.

Bytes throughout: contents are written as they are, and names as git prints them by default (quoted where
a byte is a control character, a quote, a backslash or beyond ASCII). There is no `index` line but where
git insists on one, because contents are not named by git's ids here. Pure functions.
"""

import hashlib
import zlib
from base64 import b85encode
from collections.abc import Iterator

from eventlog.base.paths import quoted
from eventlog.blobs.tree import (
    DIRECTORY,
    EXECUTABLE,
    FILE,
    MODE_OF_KIND,
    SUBMODULE,
    SYMLINK,
    TreeEntry,
    plain_kind,
)
from eventlog.replay.compare import ADD, DELETE, MODE, RENAME, TYPE, PathChange
from eventlog.replay.linediff import LineDiff

# Git's modes: a narrower mode becomes one of git's two in a patch.
_MODE_OF_KIND = {FILE: b"100644", EXECUTABLE: b"100755", SYMLINK: b"120000", SUBMODULE: b"160000"}
_NOWHERE = b"/dev/null"
_NO_ID = b"0" * 40
_ROW_BYTES = 52  # of a binary patch

# Before and after; None is a side that does not exist.
Contents = tuple[bytes | None, bytes | None]


def mode_of(entry: TreeEntry | None) -> str | None:
    """The mode as git writes it, also for modes that git lacks; for a directory, that of git's trees."""
    if entry is None:
        return None
    if entry.kind in MODE_OF_KIND:
        return f"100{MODE_OF_KIND[entry.kind]:03o}"
    return _MODE_OF_KIND.get(entry.kind, b"040000").decode()


def sections(change: PathChange) -> list[PathChange]:
    """The parts in which a change is written: a change of type is a deletion and an addition.

    An empty directory has none; git knows no such thing, and no modes but two.
    """
    before, after = _written(change.before), _written(change.after)
    if change.operation == MODE and before and after and before.kind == after.kind:
        return []
    if change.operation != TYPE:
        written = PathChange(change.path, change.operation, before, after, change.old_path)
        return [written] if before or after else []
    parts = [PathChange(change.path, DELETE, before, None)] if before else []
    return [*parts, PathChange(change.path, ADD, None, after)] if after else parts


def patch(
    change: PathChange, lines: LineDiff | None, contents: Contents | None, *, whole: bool
) -> Iterator[bytes]:
    """One part of a diff.

    Args:
        lines: None where a content is binary; contents: of a binary change, None for those too large to read.
        whole: write binary contents out, so that they can be applied.
    """
    old, new = change.old_path or change.path, change.path
    a, b = quoted(b"a/" + old), quoted(b"b/" + new)
    yield b"diff --git %b %b\n" % (a, b)
    # Without a line here git takes a binary change for no patch at all, and fails at the next.
    yield from _head(change, with_mode=lines is None and contents is None)
    name_a = _NOWHERE if change.before is None else a
    name_b = _NOWHERE if change.after is None else b
    if lines is None:
        if contents is not None:
            yield b"index %b..%b%b\n" % (*map(_git_id, contents), _lasting_mode(change))
        if contents is not None and whole:
            yield from _binary(*contents)
        else:
            yield b"Binary files %b and %b differ\n" % (name_a, name_b)
        return
    for number, hunk in enumerate(lines.hunks()):
        if not number:
            yield b"--- %b\n+++ %b\n" % (_ended(name_a), _ended(name_b))
        yield hunk


def _head(change: PathChange, *, with_mode: bool) -> Iterator[bytes]:
    before, after = change.before, change.after
    if before is None and after is not None:
        yield b"new file mode %b\n" % _MODE_OF_KIND[after.kind]
    elif after is None and before is not None:
        yield b"deleted file mode %b\n" % _MODE_OF_KIND[before.kind]
    elif (
        before is not None
        and after is not None
        and (
            # Git must know that a directory replaces a symlink.
            with_mode or before.kind != after.kind or (change.operation == RENAME and before.kind == SYMLINK)
        )
    ):
        yield b"old mode %b\nnew mode %b\n" % (_MODE_OF_KIND[before.kind], _MODE_OF_KIND[after.kind])
    if change.operation == RENAME:
        old, new = quoted(change.old_path or change.path), quoted(change.path)
        yield b"similarity index 100%%\nrename from %b\nrename to %b\n" % (old, new)


def _binary(before: bytes | None, after: bytes | None) -> Iterator[bytes]:
    """Both contents in full, so that the patch applies forwards and backwards."""
    yield b"GIT binary patch\n"
    for data in (after or b"", before or b""):
        yield b"literal %d\n" % len(data)
        packed = zlib.compress(data)
        for offset in range(0, len(packed), _ROW_BYTES):
            row = packed[offset : offset + _ROW_BYTES]
            size = len(row) + (64 if len(row) <= 26 else 70)  # A to Z, then a to z
            yield b"%c%b\n" % (size, b85encode(row, pad=True))
        yield b"\n"


def _lasting_mode(change: PathChange) -> bytes:
    before, after = change.before, change.after
    if before is None or after is None or before.kind != after.kind:
        return b""
    return b" " + _MODE_OF_KIND[after.kind]


def _git_id(data: bytes | None) -> bytes:
    """The id of a content in a repository with SHA-1 ids."""
    if data is None:
        return _NO_ID
    return hashlib.sha1(b"blob %d\0" % len(data) + data, usedforsecurity=False).hexdigest().encode()


def _ended(name: bytes) -> bytes:
    """A name on its own line: a tab marks the end of a name with spaces."""
    return name + b"\t" if b" " in name else name


def _written(entry: TreeEntry | None) -> TreeEntry | None:
    if entry is None or entry.kind == DIRECTORY:
        return None
    return TreeEntry(entry.name, plain_kind(entry.kind), entry.id, entry.size)
