"""Where a path of git stands in a tree of ours: at itself, unless one of its names may stand in no tree."""

from functools import lru_cache

from eventlog.paths import path_text
from eventlog.snapshots.tree import legal_name
from eventlog.snapshots.worktree_entries import REFUSED, escaped, is_escape


@lru_cache(maxsize=65_536)  # a history names the same paths again and again
def tree_path(path: bytes) -> tuple[bytes, str | None]:
    """The path in our tree, and why it is another one than git's.

    A name that a tree may not hold would not be safe to write anywhere. What stands under it is
    listed in its place: its path, from the refused name on, in letters that are safe.
    """
    folders = path.split(b"/")
    for depth, name in enumerate(folders):
        reason = legal_name(name)
        if reason is None and is_escape(name):
            reason = "looks like the name of a refused one"
        if reason is not None:
            return _escaped(folders, depth), f"its name {path_text(name)!r} {reason}"
    return path, None


def earlier_path(path: bytes) -> bytes | None:
    """Where versions before 0.2 put a path whose name only begins like an escaped one; None for any other."""
    folders = path.split(b"/")
    for depth, name in enumerate(folders):
        if name.startswith(REFUSED):
            return _escaped(folders, depth)
    return None


def _escaped(folders: list[bytes], depth: int) -> bytes:
    return b"/".join([*folders[:depth], escaped(b"/".join(folders[depth:]))])
