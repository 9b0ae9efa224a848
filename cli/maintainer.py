"""Maintenance that a hook starts and does not wait for: sealing, the index, packs, collection.

`start` is called by a hook when a turn or a session has ended; it returns at once, and starts at most one
process in `INTERVAL_S`, however many hooks ask. The process is detached, shares no file and no terminal
with the agent, and ends by itself. `main` is that process: `python -m locus_cli.maintainer STORE`.
Any number may be started; one works, the others end (I31). `start_facts` starts one that only makes the facts
of a briefing, for which a hook may wait a little (docs/briefing.md). The first part is on the hook path.
"""

import os
import sys
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from eventlog.store import Store

INTERVAL_S = 300
_KEPT_VARIABLES = (
    "PATH", "HOME", "LANG", "TMPDIR", "XDG_DATA_HOME", "TZ", "LOCUS_NO_MAINTENANCE",
    "USER", "XDG_STATE_HOME", "WATCHMAN_SOCK",  # by which Watchman finds its server
)  # fmt: skip
_NICE = 10


def may_start(root: str) -> bool:
    """Whether `start` would start anything now, by a variable and one file. Raises: OSError."""
    return not os.environ.get("LOCUS_NO_MAINTENANCE") and _is_over(f"{root}/live/maintained")


def start(root: str) -> bool:
    """Start maintenance of the store at `root`, except in the interval after the last. Returns: whether.

    Raises: OSError.
    """
    if os.environ.get("LOCUS_NO_MAINTENANCE") or not _claims_interval(f"{root}/live/maintained"):
        return False
    _detach(root, "main")
    return True


def start_facts(root: str) -> "int | None":
    """Start a process that makes missing facts of a briefing. Returns: its id, None where nothing
    may be started. It is the caller's child, and outlives it. Raises: OSError.
    """
    if os.environ.get("LOCUS_NO_MAINTENANCE"):
        return None
    child = os.fork()
    if child == 0:
        try:
            os.setsid()
            _become(root, "make_facts")
        finally:
            os._exit(0)
    return child


def start_missing_facts(root: str) -> None:
    """The same for a caller that does not wait, where there are no facts at all. Raises: OSError."""
    if not os.environ.get("LOCUS_NO_MAINTENANCE") and not os.path.exists(f"{root}/memory/briefing.json"):
        _detach(root, "make_facts")


def _detach(root: str, function: str) -> None:
    """Run a function of this module in a detached process."""
    child = os.fork()
    if child:
        os.waitpid(child, 0)  # it ends at once: its own child works, and becomes an orphan
        return
    try:
        os.setsid()
        if os.fork() == 0:
            _become(root, function)
    finally:
        os._exit(0)


def _is_over(path: str) -> bool:
    """Whether the interval since maintenance was started last is over."""
    try:
        return not 0 <= time.time() - os.stat(path).st_mtime < INTERVAL_S
    except FileNotFoundError:
        return True


def _claims_interval(path: str) -> bool:
    """Whether the interval is over; if so it begins again, for everybody."""
    if not _is_over(path):
        return False
    now_s = time.time()
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        import fcntl

        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False  # another hook is starting it
        before_s = os.fstat(fd).st_mtime
        if os.fstat(fd).st_size and 0 <= now_s - before_s < INTERVAL_S:
            return False
        os.pwrite(fd, b"1\n", 0)
        os.utime(fd)
        return True
    finally:
        os.close(fd)


def _become(root: str, function: str) -> None:
    """Replace this process by a function of this module, with only a few of the agent's variables."""
    null = os.open(os.devnull, os.O_RDWR)
    for fd in (0, 1, 2):
        os.dup2(null, fd)
    os.closerange(3, 256)
    os.chdir("/")
    words = [sys.executable, "-I", "-c", code_of(function), root, sys.argv[0]]
    os.execve(sys.executable, words, variables())


def code_of(function: str) -> str:
    """A program of Python that runs a function of this module with its arguments."""
    refuse = "import sys; from locus_cli import maintainer, unused; unused.refuse()"
    return f"{refuse}; maintainer.{function}(*sys.argv[1:])"


def variables() -> "dict[str, str]":
    """The variables for a background process of a hook."""
    return {name: os.environ[name] for name in _KEPT_VARIABLES if name in os.environ}


def main(root: str, program: str = "") -> None:
    """Maintain the store at `root`, unless another process does, and the modules of the hook `program`."""
    import fcntl

    fd = os.open(
        f"{root}/locks/maintainer.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600
    )
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return
    step_back()
    from eventlog.base.fs import REAL
    from eventlog.erasure import erasure
    from eventlog.hooks import dead_turns, deferred_lists, stored_contents, sweep
    from eventlog.maintenance import upkeep
    from eventlog.memory import briefing_of_log, codes_of_log
    from eventlog.multi_store import remember
    from eventlog.retention import collection
    from eventlog.search import index as search
    from eventlog.setup import launch
    from eventlog.store import Store
    from eventlog.worktree import statcache_upkeep

    launch.renew_modules(REAL, os.path.dirname(os.path.abspath(__file__)), program)
    with Store.open(root) as store:
        remember(root, os.environ)  # perhaps only hooks record here
        working = store.fs.open(store.layout.lock(deferred_lists.WORKING), os.O_RDWR | os.O_CREAT)
        if store.fs.flock(working, True):
            stored_contents.store_all(store.fs, store.layout, store.identity)
        store.fs.close(working)
        upkeep.maintain(store)
        dead_turns.close_dead_turns(store.fs, store.layout, dead_turns.MAINTENANCE, lambda _: None)
        collection.maintain(store)
        sweep.sweep(store.fs, store.layout)
        statcache_upkeep.fold_all(store.fs, store.layout, store.identity.store_id)
        _note_watchers(store)
        erasure.resume(store)
        search.maintain(store)
        _count_lines(store)
        _compare_trees(store)
        _tell_costs(store)
        try:
            codes_of_log.export(store)
        except OSError:
            pass  # the user chooses the directory, which may not exist
        if briefing_of_log.briefs_at_start(store):
            briefing_of_log.export(store)


def make_facts(root: str, _program: str = "") -> None:
    """Make the facts of a briefing of the store at `root`, unless another process has just made them."""
    import fcntl

    from eventlog.memory import briefing_hook, briefing_of_log
    from eventlog.store import Store

    flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
    fcntl.flock(os.open(f"{root}/locks/briefing.lock", flags, 0o600), fcntl.LOCK_EX)
    with Store.open(root) as store:
        if not briefing_hook.has_facts(store.layout, store.identity):
            briefing_of_log.export(store)


def _count_lines(store: "Store") -> None:
    """Count the lines of changes in advance. After a failure, the next question counts them."""
    from eventlog.base.errors import EventLogError

    try:
        store.count_lines()
    except EventLogError:
        return


def _compare_trees(store: "Store") -> None:
    """Compare the trees of turns in advance. After a failure, the next viewer compares them in memory."""
    from eventlog.base.errors import EventLogError

    try:
        store.compare_trees()
    except EventLogError:
        return


def _tell_costs(store: "Store") -> None:
    """Write the costs for status lines. After a failure, they show an unknown cost."""
    from eventlog.base.errors import EventLogError

    from . import live_costs

    try:
        live_costs.write(store, time.time())
    except (EventLogError, OSError):
        return


def _note_watchers(store: "Store") -> None:
    """Note where a watcher reports the directories. After a failure, hooks use the last notes."""
    from eventlog.hooks import watches

    try:
        watches.note_all(store.fs, store.layout, os.environ)
    except OSError:
        return


def step_back() -> None:
    """Give every other process precedence (docs/hooks.md).

    It uses only half of the processors, so that a process that appends finds one free after waiting for the
    disk; niceness alone would let this one use up its slice first. It does not run in idle time only: under
    load it would hold a lock for as long as the load lasts, and hooks wait for these locks.
    """
    os.nice(_NICE)
    if hasattr(os, "sched_setaffinity"):
        processors = sorted(os.sched_getaffinity(0))
        try:
            os.sched_setaffinity(0, processors[len(processors) // 2 :])
        except OSError:
            pass  # not allowed here: niceness has to suffice


if __name__ == "__main__":
    main(sys.argv[1])
