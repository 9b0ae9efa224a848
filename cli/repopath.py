"""A path as a person types it, as the repository calls it."""

import os
from typing import TYPE_CHECKING

from eventlog.base.errors import NotFound
from eventlog.base.paths import is_outside, path_text, within_sql
from eventlog.secrets.outside_names import OutsideNames

if TYPE_CHECKING:
    from eventlog.store import Store


def names_of(store: "Store", given: str) -> list[str]:
    """The paths in the repository that `given` may mean, the likelier first.

    Relative to the working directory where that is inside the repository, then relative to the
    repository's root; an absolute path means one thing. Text in double quotes is taken as it is.
    Raises: NotFound for a path outside the repository.
    """
    if given.startswith('"') or is_outside(f"{given}/"):
        return [given]
    roots = _roots(store)
    if os.path.isabs(given):
        # The last name may be a symlink, and means the link.
        folder, name = os.path.split(os.path.normpath(given))
        found = [_inside(root, os.path.join(os.path.realpath(folder), name)) for root in roots]
    else:
        found = [_inside(root, os.path.join(os.getcwd(), given)) for root in roots]
        from_root = os.path.normpath(given)
        found.append(from_root if from_root != ".." and not from_root.startswith("../") else None)
    names = [path_text(os.fsencode(path)) for path in found if path is not None]
    if not names:
        raise NotFound(f"{given} is outside the repository at {roots[0]}")
    return list(dict.fromkeys(names))


def outside_names(store: "Store", path: str) -> list[str]:
    """What a file, or what lies in a directory, outside of the repository is called, by its absolute path."""
    if not store.fs.exists(store.layout.redaction_key):
        return []  # whoever reads makes no key
    names = OutsideNames(store.fs, store.layout)
    folder, name = os.path.split(path)
    spelled = dict.fromkeys((path, os.path.join(os.path.realpath(folder), name)))
    return [called for one in spelled for called in (names.name_of(one), names.root_of(one))]


def filter_of(store: "Store", given: "str | None") -> "str | None":
    """The path by which events are chosen: of what `given` may mean the first that an event has or is above.

    None for the whole repository. A file or directory outside of it is given by its absolute path, or as
    events name it. Raises: NotFound for a path outside the repository that no event has.
    """
    if given is None:
        return None
    outside: NotFound | None = None
    try:
        names = names_of(store, given)
    except NotFound as error:
        outside = error
        path = os.path.abspath(given)
        names = [*outside_names(store, path), path_text(os.fsencode(path))]
    if outside is not None or len(names) > 1:
        known = [name for name in names if _is_known(store, name)]
        if outside is not None and not known:
            raise outside
        names = known or names
    return None if names[0] == "." else names[0]


def _is_known(store: "Store", name: str) -> bool:
    if name == ".":
        return True
    condition, parameters = within_sql("path", name)
    numbered = condition.format(*(f"${number + 1}" for number in range(len(parameters))))
    return bool(store.query(f"select 1 from events where {numbered} limit 1", parameters).rows)


def _roots(store: "Store") -> list[str]:
    """The working tree that the working directory is in, and the directory of the store."""
    beside = os.path.realpath(os.path.dirname(store.layout.root))
    here = os.path.realpath(os.getcwd())
    if here == beside:
        return [beside]
    from eventlog.base.repository import git_root

    top = git_root(here)
    return [beside] if top is None else list(dict.fromkeys([os.path.realpath(top), beside]))


def _inside(root: str, path: str) -> str | None:
    """`path` relative to `root`, None when it is not below it; `.` is the root itself."""
    relative = os.path.relpath(os.path.normpath(path), root)
    return None if relative == ".." or relative.startswith("../") else relative
