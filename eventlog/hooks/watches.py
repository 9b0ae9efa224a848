"""Where a watcher that runs already reports the captured directories of a store (docs/watcher.md).

Maintenance and the doctor find that out and note it, because the program that names the socket takes longer
to start than a hook may. Nothing is watched that is not, and no server is started.
"""

import os
import shutil
import subprocess
import time
from collections.abc import Mapping
from typing import Any

from eventlog.base import config, jsontext
from eventlog.base.fs import FileSystem
from eventlog.base.layout import Layout
from eventlog.base.names import short
from eventlog.base.store_location import SHARED_FILE_SYSTEMS, mounts
from eventlog.hooks import watched
from eventlog.hooks.watched import Watch
from eventlog.worktree import statcache_upkeep, watchman
from eventlog.worktree.watchman import NoAnswer

_PATIENCE_S = 5.0
# Of what Watchman reads for all directories it watches.
GLOBAL_SETTINGS = "/etc/watchman.json"
_VCS_DIRECTORIES = [".git", ".hg", ".svn"]  # Watchman's `ignore_vcs`
_SOCKET_VARIABLE = "WATCHMAN_SOCK"


class NotWatched(Exception):
    """No watcher reports a directory. Its text says why."""


def note_all(fs: FileSystem, layout: Layout, environ: Mapping[str, str]) -> dict[str, "Watch | str"]:
    """Note the watches of all captured directories of a store with the setting.

    Returns: directory → its watch, or why it has none. Raises: OSError.
    """
    watches: dict[str, Watch | str] = {}
    if config.read(fs, layout).watcher is None:
        return watches
    for directory in map(os.fsdecode, statcache_upkeep.captured_directories(fs, layout)):
        try:
            watches[directory] = watch = find(directory, environ)
            watched.write_watch(layout, short(os.fsencode(directory)), watch)
        except NotWatched as reason:
            watches[directory] = str(reason)
            watched.write_watch(layout, short(os.fsencode(directory)), None)
    return watches


def find(directory: str, environ: Mapping[str, str]) -> Watch:
    """The watch at which Watchman reports `directory`, a real path. Raises: NotWatched."""
    try:
        directory.encode("utf-8")
    except UnicodeEncodeError:
        raise NotWatched("its name is no UTF-8, which Watchman needs") from None
    kind = _foreign_file_system(directory)
    if kind is not None:
        raise NotWatched(
            f"it is on, or contains, a file system of kind {kind}, whose changes no watcher sees"
        )
    socket = _socket(environ)
    try:
        root = _root_of(directory, _ask(socket, "watch-list").get("roots"))
        settings = _settings(_ask(socket, "get-config", root).get("config"))
        if settings.get("ignore_dirs"):
            raise NotWatched(f"the watch of {root} leaves out `ignore_dirs`")
        # Matches nothing, and has the warnings of the watch.
        clock = _ask(socket, "query", root, expression="false", fields=["name"]).get("clock")
    except NoAnswer as reason:
        raise NotWatched(f"Watchman at {socket} gives no answer that counts: {reason}") from None
    return Watch(
        socket=socket,
        root=root,
        relative="" if directory == root else os.path.relpath(directory, root),
        instance=watchman.instance_of(str(clock)),
        unreported=tuple(_unreported(directory, root, settings.get("ignore_vcs", _VCS_DIRECTORIES))),
    )


def _ask(socket: str, name: str, root: str | None = None, **options: object) -> dict[str, Any]:
    answer: dict[str, Any] = watchman.ask(socket, name, root, time.monotonic() + _PATIENCE_S, **options)
    return answer


def _socket(environ: Mapping[str, str]) -> str:
    """The socket of the user's server, whether it runs or not. Raises: NotWatched."""
    if named := environ.get(_SOCKET_VARIABLE):
        return named
    program = shutil.which("watchman", path=environ.get("PATH"))
    if program is None or not os.path.isabs(program):
        raise NotWatched("there is no program `watchman`")
    try:
        done = subprocess.run(
            [program, "--no-spawn", "--no-pretty", "get-sockname"],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_PATIENCE_S,
            env=dict(environ),
            cwd="/",
        )
        return str(jsontext.decode(done.stdout)["sockname"])
    except (OSError, subprocess.SubprocessError, ValueError, KeyError, TypeError):
        raise NotWatched("no Watchman server runs") from None


def _root_of(directory: str, roots: object) -> str:
    """The nearest watched directory that holds `directory`. Raises: NotWatched."""
    held = [
        str(root)
        for root in (roots if isinstance(roots, list) else [])
        if directory == root or directory.startswith(f"{root}/")
    ]
    if not held:
        raise NotWatched(f"Watchman does not watch it; `watchman watch-project {directory}` would")
    return max(held, key=len)


def _settings(of_watch: object) -> dict[str, Any]:
    """The settings that a watch has: its own before those of the machine."""
    try:
        with open(GLOBAL_SETTINGS, "rb") as file:
            of_machine = jsontext.decode(file.read(1 << 20))
    except (OSError, ValueError):
        of_machine = {}
    return {
        name: value
        for settings in (of_machine, of_watch)
        if isinstance(settings, dict)
        for name, value in settings.items()
    }


def _unreported(directory: str, root: str, names: object) -> list[str]:
    """The names in `directory` of which Watchman reports nothing, apart from git's."""
    paths = [os.path.join(root, str(name)) for name in (names if isinstance(names, list) else [])]
    top = directory + "/"
    return [path[len(top) :] for path in paths if path.startswith(top) and path != top + ".git"]


def _foreign_file_system(directory: str) -> str | None:
    """The kind of a file system at or below `directory` that changes by other ways than this machine's."""
    at, best = None, ""
    for point, kind in mounts():
        if point.startswith(directory.rstrip("/") + "/") and _is_foreign(kind):
            return kind
        above = point.rstrip("/")
        if (directory == above or directory.startswith(above + "/")) and len(point) >= len(best):
            at, best = kind, point
    return at if at is None or _is_foreign(at) else None


def _is_foreign(kind: str) -> bool:
    return kind in SHARED_FILE_SYSTEMS or kind.startswith("fuse") or kind in ("overlay", "aufs", "ecryptfs")
