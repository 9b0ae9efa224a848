"""`locus` as a process on a terminal of its own, of a given width."""

import fcntl
import os
import pty
import struct
import subprocess
import sys
import termios
from pathlib import Path


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
    process = subprocess.Popen(
        [sys.executable, "-m", "locus_cli", *arguments],
        cwd=cwd, env=variables, stdin=follower, stdout=follower, stderr=follower,
    )  # fmt: skip
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
    ended = process.wait(60)
    assert code in (None, ended)
    return written.decode().replace("\r\n", "\n")
