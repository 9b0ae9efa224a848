"""The connection that answered last, kept for the next question about the same moment of the log.

To connect and to make the views takes tens of milliseconds of a processor, and a command asks more than one
question. What is kept pins nothing: whoever asks opens a view of its own, which pins the files, and takes
the connection only when it was made for an equal moment. It holds memory and the descriptor of an index.

Any thread may call. A connection is handed to one at a time; another that asks meanwhile makes its own.
A connection does not survive a fork, so a process that forks lets go of its own first.
"""

import atexit
import os
from collections.abc import Hashable
from typing import Any, Generic, Protocol, TypeVar
from weakref import WeakSet


class Closable(Protocol):
    def close(self) -> None: ...


_One = TypeVar("_One", bound=Closable)


class Kept(Generic[_One]):
    """At most one connection with its views, or none."""

    def __init__(self) -> None:
        self._held: list[tuple[Hashable, _One]] = []
        _ALL.add(self)

    def take(self, moment: Hashable) -> "_One | None":
        """What is kept of `moment`, which is the caller's from now on; what is of another one goes."""
        while self._held:
            try:
                of, one = self._held.pop()
            except IndexError:  # another thread took it
                break
            if of == moment:
                return one
            one.close()
        return None

    def put(self, moment: Hashable, one: _One) -> None:
        """Keep `one` in the place of what is kept."""
        self.release()
        self._held.append((moment, one))

    def release(self) -> None:
        """Let go of what is kept."""
        while self._held:
            try:
                self._held.pop()[1].close()
            except IndexError:  # another thread did
                break


_ALL: "WeakSet[Kept[Any]]" = WeakSet()


def _release_all() -> None:
    for one in list(_ALL):
        one.release()


os.register_at_fork(before=_release_all)
atexit.register(_release_all)  # DuckDB complains of what outlives the interpreter
