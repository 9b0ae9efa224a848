"""The connection that answered last, cached for the next question about the same snapshot of the log.

Connecting and making the views takes tens of milliseconds of a processor, and a command asks more than one
question. The cache pins nothing: each caller opens a view of its own, which pins the files, and takes the
connection only when it was made for an equal snapshot. It holds memory and the descriptor of an index.

Any thread may call. One thread at a time has a connection; another that asks meanwhile makes its own. A
connection does not survive a fork, so a process releases its own before it forks.
"""

import atexit
import os
from collections.abc import Hashable
from typing import Any, Generic, Protocol, Self, TypeVar
from weakref import WeakSet


class Closable(Protocol):
    def close(self) -> None: ...


_Connection = TypeVar("_Connection", bound=Closable)


class ConnectionCache(Generic[_Connection]):
    """At most one connection with its views, or none."""

    def __init__(self) -> None:
        self._held: list[tuple[Hashable, _Connection]] = []
        _ALL.add(self)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.release()

    def take(self, snapshot_key: Hashable) -> "_Connection | None":
        """The connection for this snapshot, now the caller's; one for another snapshot is closed."""
        while self._held:
            try:
                key, connection = self._held.pop()
            except IndexError:  # another thread took it
                break
            if key == snapshot_key:
                return connection
            connection.close()
        return None

    def put(self, snapshot_key: Hashable, connection: _Connection) -> None:
        """Cache a connection instead of the present one."""
        self.release()
        self._held.append((snapshot_key, connection))

    def release(self) -> None:
        """Close the cached connection."""
        while self._held:
            try:
                self._held.pop()[1].close()
            except IndexError:  # another thread did
                break


_ALL: "WeakSet[ConnectionCache[Any]]" = WeakSet()


def _release_all() -> None:
    for cache in 2 * list(_ALL):  # what one releases another may hold (instances.py)
        cache.release()


os.register_at_fork(before=_release_all)
atexit.register(_release_all)  # DuckDB complains about connections that outlive the interpreter
