"""Contents that a git repository holds, read by their ids and hashed as git does.

Git runs as a child with the settings of worktree/git.py: it fetches nothing, starts no configured program,
and replaces no object. One `GitContents` belongs to one thread; its child ends with it.
"""

import hashlib
import os
import subprocess
import weakref
from collections.abc import Iterable
from itertools import zip_longest

from eventlog.base.errors import NotFound
from eventlog.blobs.pack import BLOB_SIZE_MAX
from eventlog.worktree.git import GitFailed, command, run

_HASH_OF = {20: hashlib.sha1, 32: hashlib.sha256}


class GitContents:
    """Reads the objects of the repository around `directory`."""

    def __init__(self, directory: str, size_max: int = BLOB_SIZE_MAX) -> None:
        self._directory = directory
        self._size_max = size_max
        self._child: subprocess.Popen[bytes] | None = None

    def read(self, object: bytes) -> bytes:
        """The content of the blob with this id. Raises: NotFound, with the reason."""
        name = object.hex()
        try:
            data = self.blob(name.encode())
        except OSError as error:
            raise NotFound(f"git cannot be asked for {name}: {error.strerror or error}") from error
        if data is None:
            raise NotFound(f"git does not hold {name} any more in {self._directory}")
        if _HASH_OF[len(object)](b"blob %d\0" % len(data) + data).digest() != object:
            raise NotFound(f"what git holds as {name} does not have this hash")
        return data

    def absent(self, objects: Iterable[bytes]) -> dict[bytes, str]:
        """Those of `objects` that git lacks, with the reason; none is read for that."""
        wanted = list(dict.fromkeys(objects))
        names = "".join(f"{object.hex()}\n" for object in wanted).encode()
        question = ["--no-replace-objects", "cat-file", "--buffer", "--batch-check=%(objecttype)"]
        try:
            _, answer = run(os.fsencode(self._directory), question, names)
        except GitFailed as error:
            return dict.fromkeys(wanted, f"git cannot be asked for it: {error}")
        lines = answer.split(b"\n")
        return {
            object: f"git does not hold {object.hex()} any more in {self._directory}"
            for object, line in zip_longest(wanted, lines[: len(wanted)])
            if line != b"blob"
        }

    def blob(self, name: bytes) -> bytes | None:
        """The bytes of the blob that git calls `name`, None when it has none. Raises: OSError."""
        try:
            return self._ask(name)
        except OSError:
            self.close()
            raise

    def _ask(self, name: bytes) -> bytes | None:
        child = self._child or self._start()
        assert child.stdin is not None and child.stdout is not None
        child.stdin.write(name + b"\n")
        child.stdin.flush()
        facts = child.stdout.readline().split()
        if not facts:
            raise OSError("there is no repository, or it ended")
        if len(facts) != 3 or not facts[2].isdigit():
            return None  # "<name> missing", also for a name with a blank in it
        size = int(facts[2])
        if size > self._size_max:
            raise OSError(f"it is larger than {self._size_max} bytes")
        data = child.stdout.read(size)
        child.stdout.read(1)
        return data if facts[1] == b"blob" and len(data) == size else None

    def _start(self) -> "subprocess.Popen[bytes]":
        asked = ["--no-replace-objects", "cat-file", "--batch"]
        argv, environment = command(os.fsencode(self._directory), asked)
        child = subprocess.Popen(
            argv, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        )
        weakref.finalize(self, _end, child)
        self._child = child
        return child

    def close(self) -> None:
        """End the child; another question starts one."""
        if self._child is not None:
            _end(self._child)
            self._child = None


def _end(child: "subprocess.Popen[bytes]") -> None:
    """End the child: it waits only for our next request."""
    for pipe in (child.stdin, child.stdout):
        try:
            if pipe is not None:
                pipe.close()
        except OSError:
            pass  # it had ended before the request reached it
    child.wait()
