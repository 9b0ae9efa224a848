"""Sweeping `tmp/`: files that a process left there when it died.

The maker of a file in `tmp/` links it elsewhere and removes its name within moments; an import fills a
pack for longer. A file goes only when it has not been written for a day, its name is one that Locus
makes, and nobody can be using it. Makers of packs and of restore journals hold `gc`, a merge of segments
`compact`, the sealer and a backup into this store `maintain`, a rotation `append`; here all are held
exclusively (I18). The rest (index, idx, `init`, small notes) is made without a lock; a maker that paused for
a day fails at its link or rename, since the name is gone.

Never waits: when one of the locks is taken, the next maintenance sweeps.
"""

from eventlog.base.fs import FileSystem
from eventlog.base.layout import TMP_DIR, Layout
from eventlog.base.locks import APPEND, COMPACT, GC, MAINTAIN, try_acquire

AGE_S_MIN = 24 * 3600

# The prefixes of Locus' temporary files. Files with other names are not ours (S1-61) or, like the hook's
# record of its errors, are meant to stay.
PREFIXES = (
    "pack-", "journal-", "seal-", "compact-", "idx-", "index-", "STORE-", "gitignore-", "restore-",
    "statcache-", "probe-", "live-", "backup-", "salvage-", "config-", "key-", "budget-", "imports-",
    "export-", "keep-", "checked-", "bisect-", "blame-", "notice-", "lake-", "copy-", "watcher-",
)  # fmt: skip

_DIRECTORY, _KIND = 0o040000, 0o170000


def strays(fs: FileSystem, layout: Layout, age_s_min: float = AGE_S_MIN) -> "list[str]":
    """Paths of files in `tmp/` that were not written for that long. By age alone; takes no lock."""
    now_s = fs.time_ns() / 1e9
    paths = []
    for name in fs.listdir(layout.directory(TMP_DIR)):
        if name.startswith(PREFIXES):
            try:
                age_s = now_s - fs.stat(layout.tmp(name)).st_mtime
            except FileNotFoundError:
                continue  # its maker has just finished
            if age_s > age_s_min:
                paths.append(layout.tmp(name))
    return paths


def sweep(fs: FileSystem, layout: Layout, age_s_min: float = AGE_S_MIN) -> "list[str]":
    """Remove them, unless a process could be using one; the paths that went."""
    if not strays(fs, layout, age_s_min):
        return []
    locks = []
    try:
        for name in (GC, COMPACT, MAINTAIN, APPEND):
            lock = try_acquire(fs, layout, name)
            if lock is None:
                return []
            locks.append(lock)
        # Again: a file in use may have been finished before the locks were ours.
        old = strays(fs, layout, age_s_min)
        for path in old:
            _remove(fs, path)
        return old
    finally:
        for lock in reversed(locks):
            lock.release()


def _remove(fs: FileSystem, path: str) -> None:
    try:
        if fs.lstat(path).st_mode & _KIND != _DIRECTORY:
            fs.unlink(path)
            return
        for name in fs.listdir(path):  # where DuckDB put what did not fit into memory
            fs.unlink(f"{path}/{name}")
        fs.rmdir(path)
    except FileNotFoundError:
        pass  # its maker, or another sweep of an unlocked kind, was first
