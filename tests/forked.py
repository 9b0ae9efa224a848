"""The hook program in a process of its own, forked from one that has imported what a hook imports.

Imports take most of the time of a hook, and tests run thousands. Tests of what a hook imports, of its limits
and of its start run `locus_cli.hook_entry` as a new process. Any thread may call; each has a server, which
ends with the thread or the process.
"""

import json
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path

_ROOT = Path(__file__).resolve().parent.parent
_PROGRAM = [sys.executable, "-m", "locus_cli.hook_entry"]
_REQUEST_SIZE_MAX = 1 << 20
_IMPORTED = (
    "agents.adapters", "agents.claude_code", "agents.codex", "agents.live", "agents.live_complete",
    "agents.live_files", "agents.live_place", "agents.live_subagents", "agents.transcript", "fs",
    "snapshots.store", "snapshots.worktree", "snapshots.worktree_changes",
)  # fmt: skip


class _Server:
    """A process that forks one hook at a time."""

    def __init__(self) -> None:
        self.owner = os.getpid()
        self._socket, its = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.forked", str(its.fileno())], cwd=_ROOT, pass_fds=[its.fileno()]
        )
        its.close()

    def __del__(self) -> None:
        self._socket.close()
        if self.owner == os.getpid():
            self._process.wait()

    def run(self, request: bytes, streams: "list[int]", timeout_s: float) -> int:
        self._socket.settimeout(timeout_s)
        socket.send_fds(self._socket, [request], streams)
        return int(self._socket.recv(16))


_servers = threading.local()


def hook(
    stdin: bytes, agent: str, cwd: Path, environ: Mapping[str, str], timeout_s: float = 60
) -> subprocess.CompletedProcess[bytes]:
    """Run the hook program with this input and environment. Raises: TimeoutError."""
    server: _Server | None = getattr(_servers, "one", None)
    if server is None or server.owner != os.getpid():
        server = _servers.one = _Server()
    streams = [os.memfd_create(name) for name in ("stdin", "stdout", "stderr")]
    try:
        with open(streams[0], "wb", closefd=False) as file:
            file.write(stdin)
        os.lseek(streams[0], 0, os.SEEK_SET)
        request = json.dumps([agent, os.fspath(cwd), dict(environ)]).encode()
        code = server.run(request, streams, timeout_s)
        out, err = (os.pread(fd, os.fstat(fd).st_size, 0) for fd in streams[1:])
        return subprocess.CompletedProcess([*_PROGRAM, agent], code, out, err)
    finally:
        for fd in streams:
            os.close(fd)


def _serve(number: int) -> None:
    from locus_cli import hook_entry

    for name in _IMPORTED:
        import_module(f"eventlog.{name}")
    with socket.socket(fileno=number) as asked:
        while True:
            request, streams, _, _ = socket.recv_fds(asked, _REQUEST_SIZE_MAX, 3)
            if not request:
                return
            child = os.fork()
            if child == 0:
                try:
                    agent, cwd, environ = json.loads(request)
                    for stream, fd in enumerate(streams):
                        os.dup2(fd, stream)
                    os.closerange(3, os.sysconf("SC_OPEN_MAX"))
                    os.environ.clear()
                    os.environ.update(environ)
                    os.chdir(cwd)
                    sys.argv = ["locus-hook", agent]
                    hook_entry.main()
                finally:
                    os._exit(99)  # the program ends by itself
            for fd in streams:
                os.close(fd)
            asked.send(b"%d" % os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))


if __name__ == "__main__":
    _serve(int(sys.argv[1]))
