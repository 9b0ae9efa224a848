"""Whether a file still is what the log says of it, by the hash of its content now.

A claim about a file is worth what the file says. Reads regular files of the working directory, never through
a link and never a device; writes nothing. Bounded by a deadline and by bytes. On the hook path.
"""

import os
import stat
import time

from eventlog.base.paths import path_bytes
from eventlog.blobs.ids import TEXT_PREFIX, blob_id, to_text

UNCHANGED, CHANGED, GONE, UNKNOWN = "unchanged", "changed since", "gone", "not looked at"
THERE, STILL_GONE, BACK = "there", "still gone", "there again"

_FILE_SIZE_MAX = 4 << 20
_BYTES_MAX = 32 << 20


class FreshnessChecker:
    """Hashes files below `top`, each once. One thread; as fresh as the object."""

    def __init__(
        self, top: "str | None", *, deadline_s: "float | None" = None, bytes_max: int = _BYTES_MAX
    ) -> None:
        """Args: top: the working directory, None when there is none; deadline_s: of the monotonic clock."""
        self._top = top
        self._deadline_s = deadline_s
        self._bytes_left = bytes_max
        self._seen: "dict[str, str | None]" = {}

    def mark(self, path: str, content: "str | None", *, deleted: bool = False) -> str:
        """What became of a file that the log knows with this content (None: unknown), or as deleted."""
        digest = self._hash(path)
        if digest is None:
            return UNKNOWN
        if deleted:
            return BACK if digest else STILL_GONE
        if not digest:
            return GONE
        if content is None or not content.startswith(TEXT_PREFIX):
            return THERE
        return UNKNOWN if digest == "?" else UNCHANGED if digest == content else CHANGED

    def _hash(self, path: str) -> "str | None":
        """The hash of the content; empty: there is no file; `?`: it was not read; None: there was no time."""
        if path not in self._seen:
            self._seen[path] = self._hash_now(path)
        return self._seen[path]

    def _hash_now(self, path: str) -> "str | None":
        if self._top is None or (self._deadline_s is not None and time.monotonic() > self._deadline_s):
            return None
        try:
            name = path_bytes(path)
        except ValueError:
            return None
        if name.startswith(b"/") or b".." in name.split(b"/") or b"\0" in name:
            return None
        full = os.fsencode(self._top) + b"/" + name
        try:
            status = os.lstat(full)
            if stat.S_ISLNK(status.st_mode):
                return to_text(blob_id(os.readlink(full)))
            if not stat.S_ISREG(status.st_mode):
                return "?"
            if status.st_size > min(_FILE_SIZE_MAX, self._bytes_left):
                return "?"
            self._bytes_left -= status.st_size
            fd = os.open(full, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
            with open(fd, "rb", buffering=0) as file:
                return to_text(blob_id(file.read(_FILE_SIZE_MAX)))
        except (FileNotFoundError, NotADirectoryError):
            return ""
        except OSError:
            return "?"
