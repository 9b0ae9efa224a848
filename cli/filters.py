"""What narrows an answer, as a person types it: paths, sessions and types of events."""

import os
from collections.abc import Sequence
from typing import Any

import eventlog
from eventlog.base.paths import is_outside, path_bytes, path_text, within_sql
from eventlog.base.types import KIND_OF_TYPE
from eventlog.secrets.outside_names import OutsideNames


def names_of(store: "eventlog.Store", typed: str) -> list[str]:
    """The paths in the repository that `typed` may mean, the likelier first.

    Relative to the working directory if that is inside the repository, then relative to the
    repository's root; an absolute path means one thing. Text in double quotes is a path of the repository.
    Raises: NotFound for a path outside the repository, MalformedPath.
    """
    if typed.startswith('"') or is_outside(f"{typed}/"):
        return [as_recorded(typed)]
    roots = _roots(store)
    if os.path.isabs(typed):
        # The last name may be a symlink, and means the link.
        folder, name = os.path.split(os.path.normpath(typed))
        candidates = [_inside(root, os.path.join(os.path.realpath(folder), name)) for root in roots]
    else:
        candidates = [_inside(root, os.path.join(os.getcwd(), typed)) for root in roots]
        from_root = os.path.normpath(typed)
        candidates.append(from_root if from_root != ".." and not from_root.startswith("../") else None)
    names = [path_text(os.fsencode(path)) for path in candidates if path is not None]
    if not names:
        raise eventlog.NotFound(f"{typed} is outside the repository at {roots[0]}")
    return list(dict.fromkeys(names))


def as_recorded(typed: str) -> str:
    """A path as events have it; only a quoted form differs, since names have several of these.

    Raises: MalformedPath.
    """
    return path_text(path_bytes(typed)) if typed.startswith('"') else typed


def outside_names(store: "eventlog.Store", path: str) -> list[str]:
    """The names of a file, or of a directory's files, outside of the repository, by its absolute path."""
    if not store.fs.exists(store.layout.redaction_key):
        return []  # a reader makes no key
    names = OutsideNames(store.fs, store.layout)
    folder, name = os.path.split(path)
    spelled = dict.fromkeys((path, os.path.join(os.path.realpath(folder), name)))
    return [
        name_or_root
        for spelling in spelled
        for name_or_root in (names.name_of(spelling), names.root_of(spelling))
    ]


def filter_of(store: "eventlog.Store", typed: "str | None") -> "str | None":
    """The path by which events are chosen: the first meaning of `typed` that an event has, or is above.

    None for the whole repository. A file or directory outside of it is named by its absolute path, or as in
    events. Raises: NotFound for a path outside the repository that no event has.
    """
    if typed is None:
        return None
    outside: "eventlog.NotFound | None" = None
    try:
        names = names_of(store, typed)
    except eventlog.NotFound as error:
        outside = error
        path = os.path.abspath(typed)
        names = [*outside_names(store, path), path_text(os.fsencode(path))]
    if outside is not None or len(names) > 1:
        recorded = [name for name in names if is_known(store, name)]
        if outside is not None and not recorded:
            raise outside
        names = recorded or names
    return None if names[0] == "." else names[0]


def is_known(store: "eventlog.Store", name: str) -> bool:
    """Whether an event has the path, or one below it."""
    if name == ".":
        return True
    condition, parameters = within_sql("path", name)
    numbered = condition.format(*(f"${number + 1}" for number in range(len(parameters))))
    return bool(store.query(f"select 1 from events where {numbered} limit 1", parameters).rows)


def _roots(store: "eventlog.Store") -> list[str]:
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


def check_filters(
    store: "eventlog.Store", session: str | None, event_types: Sequence[str] = ()
) -> tuple[str, ...] | None:
    """The ids of the sessions that a person names (`sessions.meant`), None without a name.

    Raises: NotFound for a session, or a type, that does not exist here.
    """
    from eventlog.recorder.sessions import meant

    only = None if session is None else meant(store, session)
    if any(name not in KIND_OF_TYPE for name in event_types):
        rows = store.query("select distinct event_type from events order by 1").rows
        present_types = [str(row[0]) for row in rows]
        for name in event_types:
            if name not in present_types and name not in KIND_OF_TYPE:
                raise eventlog.NotFound(
                    f"no event is of the type {name!r}. Types here: {', '.join(present_types) or 'none'}."
                )
    return only


class Where:
    """Conditions of a query and their parameters."""

    def __init__(self) -> None:
        self.parameters: list[Any] = []
        self._conditions: list[str] = []

    def add(self, condition: str, *values: object) -> None:
        first = len(self.parameters) + 1
        self.parameters += values
        self._conditions.append(condition.format(*(f"${first + n}" for n in range(len(values)))))

    def add_path(self, path: str | None) -> None:
        """Only this file, or what is below this directory."""
        if path is not None:
            condition, parameters = within_sql("path", path)
            self.add(condition, *parameters)

    def add_sessions(self, sessions: Sequence[str] | None) -> None:
        """Only events, or turns, of these sessions."""
        if sessions is not None:
            self.add("list_contains({}, session_id)", list(sessions))

    @property
    def all(self) -> tuple[str, list[Any]]:
        """The condition, and its parameters."""
        return " and ".join(self._conditions) or "true", self.parameters

    def __str__(self) -> str:
        return f"where {' and '.join(self._conditions)}" if self._conditions else ""
