"""The rows of one directory of a working directory while they are brought up to date.

Belongs to one scan. On the hook path.
"""

from eventlog.blobs.ids import blob_id
from eventlog.blobs.tree import DIRECTORY, SKIPPED, SUBMODULE
from eventlog.worktree.changes import EMPTY_TREE
from eventlog.worktree.entries import LEFT_OUT
from eventlog.worktree.stored_rows import UNPROVEN

TYPE_CHECKING = False
if TYPE_CHECKING:
    from eventlog.worktree.stored_rows import StoredDirectory

    # kind, id, size, stat, tracked, what is below: a directory of the cache, or a loaded one
    Row = tuple[bytes, bytes, int, bytes, bytes, "int | StoredDirectory | Directory | None"]

# Is a row's path tracked? KEPT: git ignores it, and it is kept all the same.
NO, YES, KEPT_IGNORED = b"\0", b"\1", b"\2"
LEFT_OUT_ROW = SKIPPED, blob_id(LEFT_OUT.encode())
_DIRS = (DIRECTORY, SUBMODULE)


class Directory:
    """A directory whose rows are loaded, because something in it or below it has changed."""

    __slots__ = (
        "depth",
        "id",
        "ignored",
        "is_complete",
        "kept_ignored",
        "left_out",
        "listing",
        "name",
        "parent",
        "path",
        "proof",
        "refused",
        "rows",
        "size",
        "stat",
        "stored",
        "suspects",
    )

    def __init__(
        self, parent: "Directory | None", name: bytes, stored: "StoredDirectory | None" = None
    ) -> None:
        self.parent = parent
        self.name = name
        self.depth: int = 0 if parent is None else parent.depth + 1
        self.path = join(parent, name) if parent is not None else b""
        self.stored = stored  # as the cache has it; None for a new one
        self.rows: "dict[bytes, Row]" = {}
        self.suspects: "set[bytes]" = set()  # names whose stat is not that of the cache
        self.left_out: "set[bytes]" = set()  # names that `.locusignore` leaves out
        self.kept_ignored: "set[bytes]" = set()  # names that git ignores and that are kept (kept_ignored.py)
        self.ignored = 0  # names that are left out because git ignores them
        self.refused: "dict[bytes, str]" = {}  # names in the tree that stand for others, and why
        self.listing = False
        self.is_complete = True
        self.stat = self.proof = UNPROVEN
        self.id = EMPTY_TREE
        self.size = 0  # of its entry: its mode, where the store keeps modes

    def set_id(self, id: bytes) -> None:
        self.id = id
        if self.parent is not None:
            self.parent.rows[self.name] = (DIRECTORY, id, self.size, self.stat, NO, self)


def join(directory: Directory, name: bytes) -> bytes:
    return directory.path + b"/" + name if directory.path else name


def is_another(row: "Row", is_dir: bool, suspect: bool) -> bool:
    """Whether a directory may have replaced something else, or something else a directory."""
    if row[0] == SKIPPED:
        return suspect and (row[:2] == LEFT_OUT_ROW or row[4] == KEPT_IGNORED)
    return (row[0] in _DIRS) != is_dir
