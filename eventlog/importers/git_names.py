"""The path in our tree for a path of git: the same, unless no tree may hold one of its names."""

from functools import lru_cache

from eventlog.base.paths import path_text
from eventlog.blobs.tree import (
    FILE,
    FILES,
    REFUSED,
    escaped,
    has_escape,
    is_escape,
    is_store_name,
    legal_name,
    makes_store,
)


@lru_cache(maxsize=65_536)  # a history names the same paths again and again
def tree_path(path: bytes, kind: bytes = FILE) -> tuple[bytes, str | None]:
    """The path in our tree, and why it differs from git's.

    A name that is not legal would not be safe to write anywhere, so its file is only listed. So are files
    below such a name: their path, from the refused name on, is escaped.
    """
    folders = path.split(b"/")
    for depth, name in enumerate(folders):
        reason = _reason(folders, depth, kind)
        if reason is not None:
            return _escaped(folders, depth), f"its name {path_text(name)!r} {reason}"
    return path, None


def _reason(folders: list[bytes], depth: int, kind: bytes) -> str | None:
    name = folders[depth]
    if depth and is_store_name(name):
        below = folders[depth + 1 :]
        if below and makes_store(name, below[0]):
            return f"with {path_text(below[0])!r} in it makes a store"
        return None if below or kind in FILES else legal_name(name)
    if is_escape(name) and not has_escape(name):
        return "looks like the name of a refused one"
    return legal_name(name)


def earlier_path(path: bytes) -> bytes | None:
    """The path that earlier versions gave a listed path; None where they did not list it."""
    folders = path.split(b"/")
    for depth, name in enumerate(folders):
        if name.startswith(REFUSED) or legal_name(name) is not None:
            return _escaped(folders, depth)
    return None


def _escaped(folders: list[bytes], depth: int) -> bytes:
    below = b"/".join(folders[depth:])
    return b"/".join([*folders[:depth], below if has_escape(below) else escaped(below)])
