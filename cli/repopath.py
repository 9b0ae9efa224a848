"""A path as a person types it, as the repository calls it."""

import os
from typing import TYPE_CHECKING

from eventlog.errors import NotFound
from eventlog.paths import path_text

if TYPE_CHECKING:
    from eventlog.store import Store


def names_of(store: "Store", given: str) -> list[str]:
    """The paths in the repository that `given` may mean, the likelier first.

    Relative to the working directory where that is inside the repository, then relative to the
    repository's root; an absolute path means one thing. Text in double quotes is taken as it is.
    Raises: NotFound for a path outside the repository.
    """
    if given.startswith('"'):
        return [given]
    roots = _roots(store)
    if os.path.isabs(given):
        # The last name may be a symlink, and means the link.
        folder, name = os.path.split(os.path.normpath(given))
        found = [_inside(root, os.path.join(os.path.realpath(folder), name)) for root in roots]
    else:
        found = [_inside(root, os.path.join(os.getcwd(), given)) for root in roots]
        found.append(_inside("/", os.path.join("/", given)) if ".." not in given.split("/") else None)
    names = [path_text(os.fsencode(path)) for path in found if path is not None]
    if not names:
        raise NotFound(f"{given} is outside the repository at {roots[0]}")
    return list(dict.fromkeys(names))


def _roots(store: "Store") -> list[str]:
    """The working tree that the working directory is in, and the directory of the store."""
    beside = os.path.realpath(os.path.dirname(store.layout.root))
    here = os.path.realpath(os.getcwd())
    if here == beside:
        return [beside]
    from eventlog.repository import git_root

    top = git_root(here)
    return [beside] if top is None else list(dict.fromkeys([os.path.realpath(top), beside]))


def _inside(root: str, path: str) -> str | None:
    """`path` relative to `root`, None when it is not below it; `.` is the root itself."""
    relative = os.path.relpath(os.path.normpath(path), root)
    return None if relative == ".." or relative.startswith("../") else relative
