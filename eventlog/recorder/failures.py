"""Where a failure goes that must not reach its caller (P4, S0-21): a line in `tmp/hook-errors.log`.

The hook program writes its failures there too. One line is one write at the end of the file, so any
number of processes may note at once; a file that grew large is started over. Never raises.
"""

import os

from eventlog.base.fs import FileSystem
from eventlog.base.layout import TMP_DIR, Layout

NAME = "hook-errors.log"
_SIZE_MAX = 64 << 10
_LINE_SIZE_MAX = 2000


def note(fs: FileSystem, layout: Layout, what: str, error: BaseException) -> None:
    """Keep one line: seconds since 1970, what was asked for, what went wrong."""
    try:
        text = f"{fs.time_ns() // 1_000_000_000} {what}: {type(error).__name__}: {error}"
        line = " ".join(text.split()).encode("utf-8", "backslashreplace")[:_LINE_SIZE_MAX] + b"\n"
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW
        fd = fs.open(f"{layout.directory(TMP_DIR)}/{NAME}", flags)
        try:
            size = fs.fstat(fd).st_size
            if size > _SIZE_MAX:
                fs.truncate(fd, 0)
                size = 0
            fs.pwrite(fd, line, size)
        finally:
            fs.close(fd)
    except Exception:
        pass  # there is nobody left to tell, and the caller's work goes on
