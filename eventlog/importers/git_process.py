"""A git process that answers requests, which a thread writes while the answers are read."""

import subprocess
import tempfile
import threading
from collections.abc import Iterator, Sequence
from queue import SimpleQueue
from typing import IO

from eventlog.base.errors import EventLogError

# A pipe this large lets git work some hundred commits ahead of us; the kernel's default is 64 KiB.
_PIPE_BYTES = 1 << 20
_F_SETPIPE_SZ = 1031


class GitProcess:
    """A git process, its answers, and a thread that writes our requests."""

    def __init__(self, argv: Sequence[str], cwd: str, env: dict[str, str]) -> None:
        self._name = argv[0]
        self._errors = tempfile.TemporaryFile(dir=cwd)  # noqa: SIM115 (closed by `close`)
        self._process = subprocess.Popen(
            ["git", *argv],
            cwd=cwd,
            env=env,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            bufsize=1 << 17,
        )
        assert self._process.stdin is not None and self._process.stdout is not None
        self.out: IO[bytes] = self._process.stdout
        _widen(self.out)
        self._requests: SimpleQueue[bytes | None] = SimpleQueue()
        self._writer = threading.Thread(target=_write_all, args=(self._requests, self._process.stdin))
        self._writer.daemon = True
        self._writer.start()

    def send(self, data: bytes) -> None:
        self._requests.put(data)

    def tokens(self, end_mark: bytes | None) -> Iterator[bytes]:
        """The NUL-ended parts of the answer up to `end_mark`, then the text before that mark.

        Without a mark: up to the end of the output.
        """
        rest = b""
        while True:
            data = self.out.read1(1 << 20)  # type: ignore[attr-defined]
            if not data:
                if end_mark is not None or rest:
                    raise self.failure()
                return
            pieces = (rest + data).split(b"\0")
            rest = pieces.pop()
            yield from pieces
            if end_mark is not None and rest.endswith(end_mark):
                yield rest[: -len(end_mark)]
                return

    def skip(self, size: int) -> None:
        """Read `size` bytes and drop them."""
        while size:
            read_size = len(self.out.read(min(size, 1 << 20)))
            if not read_size:
                raise self.failure()
            size -= read_size

    def finish(self) -> None:
        """Wait for the end. Raises: EventLogError unless the process succeeded."""
        self.send_end()
        if self._process.wait() != 0:
            raise self.failure()

    def failure(self) -> EventLogError:
        """Git's message when it stopped answering."""
        self.send_end()
        self._process.kill()
        self._process.wait()
        self._errors.seek(0)
        return EventLogError(f"git {self._name}: {last_words(self._errors.read(2000))}")

    def send_end(self) -> None:
        self._requests.put(None)

    def close(self) -> None:
        self.send_end()
        self._process.kill()
        self._process.wait()
        self._writer.join()
        self.out.close()
        self._errors.close()


def _write_all(requests: "SimpleQueue[bytes | None]", pipe: IO[bytes]) -> None:
    try:
        while (data := requests.get()) is not None:
            pipe.write(data)
            pipe.flush()
        pipe.close()
    except OSError:
        # The process is gone. The reader of its answers meets their end and reports the reason.
        try:
            pipe.close()
        except OSError:
            pass  # closing flushes, and the reader is gone


def _widen(pipe: IO[bytes]) -> None:
    import fcntl

    try:
        fcntl.fcntl(pipe.fileno(), _F_SETPIPE_SZ, _PIPE_BYTES)
    except OSError:
        pass  # the kernel cannot, or it is over the user's limit: the default size is only slower


def last_words(stderr: bytes) -> str:
    return stderr.decode("utf-8", "replace").strip() or "ended without saying why"
