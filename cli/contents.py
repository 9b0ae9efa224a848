"""Stores the contents that a hook left for later: a process that the hook starts and does not wait for.

`start` forks: the child copies large files at once, reports that through a pipe, and becomes `python -m
locus_cli.contents`, which waits until the hook has ended and then stores the open contents (docs/hooks.md).
Like the maintainer it is detached and shares no file, terminal or variable with the agent. At most one works
and one waits; another hook leaves its list to them. The first part is on the hook path.
"""

import os
import sys

from . import maintainer

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from eventlog.hooks.deferred_lists import Job, Started

_READ_END_SIZE = 16
_DESCRIPTORS_MAX = 65_536


def start(job: "Job") -> "Started":
    """Start the process. Raises: OSError."""
    from eventlog.hooks.deferred_lists import Started

    word, say = os.pipe()
    ended, end = os.pipe()
    child = os.fork()
    if child:
        os.waitpid(child, 0)  # which ends at once
        os.close(say)
        os.close(ended)
        return Started(word, end)
    try:
        os.setsid()
        if os.fork() == 0:
            _become(job, say, ended)
    finally:
        os._exit(0)


def _become(job: "Job", say: int, ended: int) -> None:
    """Copy the files, and replace this process by one that has nothing else of the hook's."""
    from eventlog.base.fs import REAL
    from eventlog.hooks.deferred_lists import WAITING
    from eventlog.worktree.staging import stage
    from eventlog.worktree.userfiles import UserFiles

    null = os.open(os.devnull, os.O_RDWR)
    for fd in (0, 1, 2):
        os.dup2(null, fd)
    open_pipes = sorted((say, ended))
    os.closerange(3, open_pipes[0])  # the hook's locks among them
    os.closerange(open_pipes[0] + 1, open_pipes[1])
    os.closerange(open_pipes[1] + 1, _DESCRIPTORS_MAX)
    os.chdir("/")
    waiting = REAL.open(job.layout.lock(WAITING), os.O_RDWR | os.O_CREAT)
    if not REAL.flock(waiting, True):
        return  # another process waits already, and will find the list
    copies = stage(REAL, job.layout, UserFiles(), job.root, job.files)
    os.write(say, b"copied\n")
    os.close(say)
    words = [job.layout.root, os.fsencode(job.root).hex(), str(ended), str(waiting)]
    words += [f"{fd}:{path.hex()}" for path, fd in copies.items()]
    for fd in (ended, waiting, *copies.values()):
        os.set_inheritable(fd, True)
    code = "import sys; from locus_cli.contents import main; main(sys.argv[1:])"
    os.execve(sys.executable, [sys.executable, "-I", "-c", code, *words], maintainer.variables())


def main(words: "list[str]") -> None:
    """Store the open contents.

    Args: words: the store; if a hook started the process, also the captured directory in hex, the
        descriptors of a pipe that ends with the hook and of the waiting lock, and `descriptor:path` of each
        copy.
    """
    import time

    from eventlog.base import identity
    from eventlog.base.fs import REAL
    from eventlog.base.layout import Layout
    from eventlog.hooks import deferred_lists, stored_contents, unfinished

    maintainer.step_back()
    root, *rest = words
    layout = Layout(root)
    copied, copies = None, {}
    if rest:
        copied = os.fsdecode(bytes.fromhex(rest[0]))
        copies = {bytes.fromhex(path): int(fd) for fd, _, path in (word.partition(":") for word in rest[3:])}
        while os.read(int(rest[1]), _READ_END_SIZE):
            pass
    working = REAL.open(layout.lock(deferred_lists.WORKING), os.O_RDWR | os.O_CREAT)
    while not REAL.flock(working, True):
        time.sleep(0.05)
    if rest:
        os.close(int(rest[2]))  # the next one may wait now
    who = identity.read(REAL, layout)
    unfinished.finish_all(REAL, layout, who, _note(root))
    stored_contents.store_all(REAL, layout, who, copies=copies, copied=copied, note=_note(root))


def _note(root: str) -> "Callable[[BaseException], None]":
    from .hook_entry import note

    return lambda error: note(root, error)


if __name__ == "__main__":
    main(sys.argv[1:])
