"""Derived files that nobody reads any more: stat caches of directories that are gone, notes of old sessions.

Called by maintenance. A file goes when it has not been written for a day: a cache when its working directory
is gone, the notes of a session when no turn of it is under way in a living process. If such a session is
resumed, its transcript is read again; its events keep their ids (I8). Foreign files stay (S1-61). Any number
of processes may sweep beside hooks.
"""

from eventlog.base import activity
from eventlog.base.fs import FileSystem
from eventlog.base.layout import LIVE_DIR, Layout
from eventlog.base.names import short
from eventlog.hooks import state
from eventlog.worktree import statcache_upkeep

AGE_S_MIN = 24 * 3600
NOTICE_AGE_S_MIN = 30 * AGE_S_MIN  # no prompt came, or its agent has no hooks here
_CALLS, _CHECKPOINT = ".calls", ".told"
_NAME = frozenset("0123456789abcdef")
_NAME_SIZE = 16


def sweep(fs: FileSystem, layout: Layout) -> "list[str]":
    """Remove them; the removed paths. Raises: OSError when a directory cannot be listed."""
    removed = statcache_upkeep.sweep(fs, layout, age_s_min=AGE_S_MIN)
    try:
        names = fs.listdir(layout.directory(LIVE_DIR))
    except FileNotFoundError:
        return removed  # a store of an earlier version has none
    alive = _alive(layout, names)
    for name in names:
        session, is_notice = name.removesuffix(_CALLS), name.endswith(state.NOTICE)
        if not is_notice and (session + _CALLS != name or not _is_ours(session) or session in alive):
            continue
        try:
            age_s = fs.time_ns() / 1e9 - fs.lstat(layout.live(name)).st_mtime
            if age_s > (NOTICE_AGE_S_MIN if is_notice else AGE_S_MIN):
                fs.unlink(layout.live(name))
                removed.append(layout.live(name))
        except FileNotFoundError:
            pass  # another sweep was first
    return removed


def _alive(layout: Layout, names: "list[str]") -> "set[str]":
    """The sessions, in short, with a turn under way whose process lives."""
    alive = set()
    for name in names:
        worktree = name.removesuffix(_CHECKPOINT)
        if worktree + _CHECKPOINT == name and _is_ours(worktree):
            for session, parts in state.read_checkpoint(layout, worktree).open.items():
                turn = activity.parse_open(session, parts)
                if turn is not None and turn.process is not None and turn.process.lives():
                    alive.add(short(session))
    return alive


def _is_ours(stem: str) -> bool:
    return len(stem) == _NAME_SIZE and _NAME.issuperset(stem)
