"""What a watcher that runs already contributes to a capture (docs/watcher.md).

Two notes of each directory, both derived: its *watch*, which maintenance and the doctor write
(`hooks/watches.py`), and its *clock*. The rule of the clock: the last recorded tree holds everything
that changed before it. An older one is true as well. Loaded by hooks of a store with the setting only.
"""

import os
import time

from eventlog.agents.kit.spec import FrozenRecord
from eventlog.base import jsontext
from eventlog.base.fs import REAL, replace
from eventlog.worktree import watchman
from eventlog.worktree.watchman import NoAnswer

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from eventlog.base.fs import FileSystem
    from eventlog.base.layout import Layout
    from eventlog.worktree.capture import Capture

# Among fewer files a full capture takes no longer than the question, and proves more.
FILES_MIN = 1_000
# So many changes are compared one by one.
PATHS_MAX = 1_000
# Seconds for connecting, asking and reading the answer.
ANSWER_S = 0.02
FULL_NS = 600 * 10**9  # so long after a full capture comes the next
WATCH, CLOCK = ".watcher", ".clock"
_NOTE_SIZE = 512
_WRITE = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW


class Watch(FrozenRecord):
    """A directory that a watcher watches, and the captured one in it."""

    socket: str
    root: str  # the watched directory
    relative: str  # the captured one below it, or ""
    instance: str  # a clock of this watch begins with it
    unreported: "tuple[str, ...]"  # names in the captured directory of which nothing is reported


def watch_of(layout: "Layout", key: str) -> "Watch | None":
    """The noted watch of the directory with this key; None where there is none."""
    noted = _read(layout.live(key + WATCH))
    texts = {
        name: text
        for name in ("socket", "root", "relative", "instance")
        if isinstance(text := noted.get(name), str)
    }
    names = noted.get("unreported")
    if len(texts) < 4 or not isinstance(names, list):
        return None
    return Watch(**texts, unreported=tuple(map(str, names)))


class WatchedLook:
    """The questions of one capture, under the lock of the directory."""

    def __init__(
        self, fs: "FileSystem", layout: "Layout", key: str, root: str, watch: Watch, patience: int
    ) -> None:
        self._layout = layout
        self._answer_s = ANSWER_S * patience
        self._root = root
        self._watch = watch
        self._clock_path = layout.live(key + CLOCK)
        self._now_ns = fs.time_ns()
        self._noted: "dict[str, Any]" = {}
        self._clock: "str | None" = None  # of a moment before this capture

    def changed(self, *, may_watch: bool) -> "frozenset[bytes] | None":
        """The paths that changed since the last recorded tree; None where everything must be compared.

        Args: may_watch: it would suffice to compare these paths.
        """
        watch, until = self._watch, time.monotonic() + self._answer_s
        if any(os.path.lexists(f"{self._root}/{name}") for name in watch.unreported):
            return None
        since = self._since() if may_watch else None
        try:
            if since is None:
                answer = watchman.ask(watch.socket, "clock", watch.root, until)
                self._clock = watchman.clock_in(answer, watch.instance)
                return None
            answer = watchman.query(
                watch.socket,
                watch.root,
                since,
                relative=watch.relative,
                left_out=self._left_out(),
                until=until,
            )
            self._clock = watchman.clock_in(answer, watch.instance)
            return watchman.paths_in(answer, PATHS_MAX)
        except NoAnswer:
            return None

    def note(self, capture: "Capture", *, is_watched: bool) -> None:
        """Note the clock for the next capture, after all that this one found is recorded. Raises: OSError.

        After a capture that is not whole, or had no answer, the older clock stays: it is true of the last
        recorded tree, from which a capture with a watcher's answer begins.
        """
        if capture.partial or self._clock is None:
            return
        full_ns = self._noted["full_ns"] if is_watched else self._now_ns
        fields = {"clock": self._clock, "full_ns": full_ns}
        fd = os.open(self._clock_path, _WRITE, 0o600)
        try:
            # In one call and with one length, as the checkpoint is.
            os.pwrite(fd, jsontext.encode(fields).ljust(max(_NOTE_SIZE, os.fstat(fd).st_size)), 0)
        finally:
            os.close(fd)

    def _since(self) -> "str | None":
        """The noted clock; None where a full capture is needed."""
        noted = _read(self._clock_path)
        clock, full_ns = noted.get("clock"), noted.get("full_ns")
        if not isinstance(clock, str) or type(full_ns) is not int:
            return None
        if not 0 <= self._now_ns - full_ns < FULL_NS:
            return None
        self._noted = noted
        return clock

    def _left_out(self) -> "list[str]":
        store, top = os.path.realpath(self._layout.root), self._root.rstrip("/") + "/"
        return [".git", *([store[len(top) :]] if store.startswith(top) else [])]


def look_at(fs: "FileSystem", layout: "Layout", key: str, root: str, patience: int) -> "WatchedLook | None":
    """The questions for a capture of a directory; None where no watcher is noted for it.

    Args: patience: how many times longer the server may take than usual.
    """
    watch = watch_of(layout, key)
    return None if watch is None else WatchedLook(fs, layout, key, root, watch, patience)


def write_watch(layout: "Layout", key: str, watch: "Watch | None") -> None:
    """Note the watch of a directory, or that it has none. Raises: OSError."""
    path = layout.live(key + WATCH)
    if watch is None:
        _remove(path)
    elif _read(path) != (fields := {**vars(watch), "unreported": list(watch.unreported)}):
        new = layout.tmp(f"watcher-{os.urandom(8).hex()}")
        replace(REAL, new, path, jsontext.encode(fields), synced=False)


def _read(path: str) -> "dict[str, Any]":
    """A note; empty where it is missing or damaged."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
        try:
            noted = jsontext.decode(os.read(fd, 1 << 16))
        finally:
            os.close(fd)
    except (OSError, ValueError, RecursionError):
        return {}
    return noted if isinstance(noted, dict) else {}


def _remove(path: str) -> None:
    try:
        os.unlink(path)
    except FileNotFoundError:
        pass
