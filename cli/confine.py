"""`locus sql` in a child process that the kernel ends at its limits (eventlog/query/confined.py)."""

import os
import sys
import time
from contextlib import AbstractContextManager, nullcontext

import click

# Whether this process is only `locus`, so that it can be forked. `main` sets it.
is_own_process = False

_INTERRUPTED_S = 2.0


def go_on_in_child(memory_bytes: int, timeout_s: float | None) -> None:
    """Return in a child that is confined; here, wait for it and end the command as it did.

    For a process that has not yet loaded a library with threads. Within a program that calls the command
    there is no child. Raises: click's Exit; QueryError when a limit ended it; Abort.
    """
    if not is_own_process:
        return
    from eventlog.query import confined

    sys.stdout.flush()
    parent = os.getpid()
    child = os.fork()
    if child == 0:
        confined.enter(memory_bytes, parent)
        return
    try:
        # WNOWAIT: an interrupted call would lose a status that it had already collected.
        os.waitid(os.P_PID, child, os.WEXITED | os.WNOWAIT)
    except KeyboardInterrupt:
        _end_interrupted(child)
    _, status = os.waitpid(child, 0)
    if os.WIFSIGNALED(status):
        raise confined.ended_by(os.WTERMSIG(status), memory_bytes, timeout_s)
    raise click.exceptions.Exit(os.waitstatus_to_exitcode(status))


def _end_interrupted(child: int) -> None:
    """Wait for a child that the same Ctrl-C reached. Raises: Abort if it has to be ended."""
    until_s = time.monotonic() + _INTERRUPTED_S
    while os.waitid(os.P_PID, child, os.WEXITED | os.WNOWAIT | os.WNOHANG) is None:
        if time.monotonic() > until_s:
            import signal  # only an interrupted command needs it

            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            raise click.Abort
        time.sleep(0.02)


def ends_within(timeout_s: float | None) -> AbstractContextManager[None]:
    """Inside, the child ends when its time is over, in any case."""
    from eventlog.query import confined

    return confined.within(timeout_s) if is_own_process else nullcontext()
