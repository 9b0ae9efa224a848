"""Names for files outside of the repository: an id of their directory, which means nothing elsewhere.

    outside = OutsideNames(fs, layout)
    outside.name_of("/home/dev/other/a.py")     "root:3f2a9c0d11e2b345/a.py"

The id is a digest that is keyed with the store's `redaction.key`. So a directory has the same id in every
session of a store and of its copies, and a person with only an export cannot try guesses at a home directory.
It depends on the path alone, not on a session or on the disk (docs/transcripts.md). One thread.
"""

import os

from blake3 import blake3

from eventlog.base.fs import FileSystem
from eventlog.base.layout import Layout
from eventlog.base.paths import OUTSIDE, OUTSIDE_ID_DIGITS, path_text
from eventlog.secrets import redaction

_KEY_CONTEXT = "locus outside 2026 ids of directories"


class OutsideNames:
    """The names in one store; the key is read, or made, for the first."""

    def __init__(self, fs: FileSystem, layout: Layout) -> None:
        self._key_location = fs, layout
        self._key = b""

    def root_of(self, directory: str) -> str:
        """`root:` and the id of a directory, an absolute path without `.` and `..`."""
        if not self._key:
            key = redaction.key_of(self._key_location)
            self._key = blake3(key, derive_key_context=_KEY_CONTEXT).digest()
        digest = blake3(_bytes_of(directory), key=self._key)
        return f"{OUTSIDE}{digest.hexdigest()[:OUTSIDE_ID_DIGITS]}"

    def name_of(self, path: str) -> str:
        """The name of a file, by its absolute path."""
        directory, _, name = path.rpartition("/")
        return f"{self.root_of(directory or '/')}/{path_text(_bytes_of(name))}"


def _bytes_of(text: str) -> bytes:
    try:
        return os.fsencode(text)
    except UnicodeError:  # half a surrogate pair, which comes from no file system
        return text.encode("utf-8", "surrogatepass")
