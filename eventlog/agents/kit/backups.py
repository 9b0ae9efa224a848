"""Copies of files that an agent keeps: `DIRECTORY/SESSION/NAME`; a transcript says which session and name.

What a transcript says is not trusted. So both names are checked, directories are opened by descriptor and
each below the other, nothing through a link, and a copy is a plain file of bounded size. Nothing outside of
the directory is ever opened. A copy that cannot be read is unknown. Only reads; one thread.
"""

import os
import re
import stat
from collections.abc import Iterable

# What an agent edits as text is smaller.
_SIZE_MAX = 16 << 20
# No slash, no dot: no name of it leads anywhere.
_NAME = re.compile(r"[0-9A-Za-z_@-]{1,128}")
_OPEN = os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK


class SessionBackups:
    """The copies of a session, under one of its ids."""

    def __init__(self, directory: str, sessions: "Iterable[str | None]") -> None:
        self._directory = directory
        self._sessions = [
            session for session in dict.fromkeys(sessions) if session is not None and _NAME.fullmatch(session)
        ]

    def __call__(self, name: str) -> "bytes | None":
        """The content of a copy; None where there is none, or it cannot be read."""
        if not _NAME.fullmatch(name):
            return None
        for session in self._sessions:
            content = _read(self._directory, session, name)
            if content is not None:
                return content
        return None


def _read(directory: str, session: str, name: str) -> "bytes | None":
    opened: list[int] = []
    try:
        opened.append(os.open(directory, _OPEN | os.O_DIRECTORY))
        opened.append(os.open(session, _OPEN | os.O_DIRECTORY, dir_fd=opened[-1]))
        opened.append(os.open(name, _OPEN, dir_fd=opened[-1]))
        status = os.fstat(opened[-1])
        if not stat.S_ISREG(status.st_mode) or status.st_size > _SIZE_MAX:
            return None
        with open(opened.pop(), "rb", buffering=0) as file:
            data = file.read(_SIZE_MAX + 1)
        return data if data is not None and len(data) <= _SIZE_MAX else None
    except OSError:
        return None
    finally:
        for fd in opened:
            os.close(fd)
