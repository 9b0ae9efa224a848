"""Does a watcher report the captured directories, and would it help? Writes nothing but notes of watches.

A check for `locus doctor`. It starts one program, `watchman`, and that only to learn where its server
listens: in a store with the setting, or for a directory so large that a watcher would help.
"""

import os
from collections.abc import Callable, Iterable, Iterator

from eventlog.base import config
from eventlog.base.names import short
from eventlog.doctor.store import NOTE, OK, DoctorFinding
from eventlog.hooks import state, watches
from eventlog.hooks.watched import Watch
from eventlog.hooks.watches import NotWatched
from eventlog.store import Store
from eventlog.worktree import statcache_upkeep

OFFERED_FILES_MIN = 5_000


def _watcher(store: Store) -> Iterator[DoctorFinding]:
    if config.read(store.fs, store.layout).watcher is None:
        yield from _offered(store)
        return
    for directory, watch in sorted(watches.note_all(store.fs, store.layout, os.environ).items()):
        if isinstance(watch, Watch):
            what = f"hooks ask Watchman what changed in {directory}, and check all files when a turn ends"
            yield DoctorFinding(OK, "watcher", what)
        else:
            what = f"hooks look at all of {directory}, and ask no watcher: {watch}"
            yield DoctorFinding(NOTE, "watcher", what, "see docs/watcher.md; `locus doctor` tries again")


def _offered(store: Store) -> Iterator[DoctorFinding]:
    """Large directories that Watchman watches, where no setting lets hooks ask it."""
    for directory in map(os.fsdecode, statcache_upkeep.captured_directories(store.fs, store.layout)):
        files = state.read_checkpoint(store.layout, short(os.fsencode(directory))).files
        if files is None or files <= OFFERED_FILES_MIN:
            continue
        try:
            watches.find(directory, os.environ)
        except NotWatched:
            continue
        what = f"Watchman watches {directory}, which has {files:,} files: hooks could ask it what changed"
        todo = f'`watcher = "watchman"` under [capture] in {store.layout.config_file}, then `locus doctor`'
        yield DoctorFinding(NOTE, "watcher", what, todo)


CHECKS: tuple[tuple[str, Callable[[Store], Iterable[DoctorFinding]]], ...] = (("watcher", _watcher),)
