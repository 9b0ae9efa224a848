"""`locus` as a process on a terminal of its own, of a given width."""

import fcntl
import os
import pty
import struct
import termios
from pathlib import Path

from tests import forked


def on_terminal(
    cwd: Path, *arguments: str, width: int = 80, code: int | None = None, **environment: str
) -> str:
    """What a command writes there, standard error included, with plain line ends.

    Args: code: the exit code that it must have, None for any.
    """
    leader, follower = pty.openpty()
    fcntl.ioctl(follower, termios.TIOCSWINSZ, struct.pack("HHHH", 500, width, 0, 0))
    names = ("NO_COLOR", "FORCE_COLOR", "LOCUS_PAGER", "LESS", "COLUMNS", "LINES")
    inherited = {name: value for name, value in os.environ.items() if name not in names}
    variables = {**inherited, "TERM": "xterm", "PAGER": "cat", "LOCUS_NO_MAINTENANCE": "1", **environment}
    wait = forked.locus_on(follower, list(arguments), cwd, variables)
    os.close(follower)
    written = b""
    while True:
        try:
            chunk = os.read(leader, 65536)
        except OSError:  # Linux says so when the last one closed the other end
            break
        if not chunk:
            break
        written += chunk
    os.close(leader)
    ended = wait(60)
    assert code in (None, ended)
    return written.decode().replace("\r\n", "\n")
