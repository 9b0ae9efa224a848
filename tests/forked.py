"""The programs in processes of their own, each forked from one that has imported what it imports.

Imports take most of the time of a hook and of a command, and tests run thousands. Tests of what a hook
imports, of its limits and of its start run `locus_cli.hook_entry` as a new process. Any thread may call; each
has a server for each program, which ends with the thread or the process.
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
_REQUEST_SIZE_MAX = 1 << 20
_HOOK, _LOCUS = "locus_cli.hook_entry", "locus_cli.main"
_IMPORTED = {
    _HOOK: (
        "agents.claude_code.hooks", "agents.claude_code.usage_tail",
        "agents.codex.hooks", "base.fs", "blobs.store", "hooks.enrich", "hooks.file_events", "hooks.locate",
        "hooks.record", "hooks.subagents", "worktree.capture", "worktree.changes",
    ),
    _LOCUS: (
        "exports.locusgraph.send", "memory.briefing_of_log", "memory.shared_nodes", "query.engine", "store",
    ),
}  # fmt: skip


class _Server:
    """A process that forks one run of a program at a time."""

    def __init__(self, program: str) -> None:
        self.owner = os.getpid()
        self._socket, its = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.forked", program, str(its.fileno())],
            cwd=_ROOT,
            pass_fds=[its.fileno()],
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
    return _run(_HOOK, [agent], stdin, cwd, environ, timeout_s)


def locus(
    arguments: "list[str]", stdin: bytes, cwd: Path, environ: Mapping[str, str], timeout_s: float = 60
) -> subprocess.CompletedProcess[bytes]:
    """Run `locus` with these arguments. Raises: TimeoutError."""
    return _run(_LOCUS, arguments, stdin, cwd, environ, timeout_s)


def _run(
    program: str,
    arguments: "list[str]",
    stdin: bytes,
    cwd: Path,
    environ: Mapping[str, str],
    timeout_s: float,
) -> subprocess.CompletedProcess[bytes]:
    servers: dict[str, _Server] = _servers.__dict__
    server = servers.get(program)
    if server is None or server.owner != os.getpid():
        server = servers[program] = _Server(program)
    streams = [os.memfd_create(name) for name in ("stdin", "stdout", "stderr")]
    try:
        with open(streams[0], "wb", closefd=False) as file:
            file.write(stdin)
        os.lseek(streams[0], 0, os.SEEK_SET)
        request = json.dumps([arguments, os.fspath(cwd), dict(environ)]).encode()
        code = server.run(request, streams, timeout_s)
        out, err = (os.pread(fd, os.fstat(fd).st_size, 0) for fd in streams[1:])
        return subprocess.CompletedProcess([program, *arguments], code, out, err)
    finally:
        for fd in streams:
            os.close(fd)


def _serve(program: str, number: int) -> None:
    main = import_module(program).main
    for name in _IMPORTED[program]:
        import_module(f"eventlog.{name}")
    with socket.socket(fileno=number) as asked:
        while True:
            request, streams, _, _ = socket.recv_fds(asked, _REQUEST_SIZE_MAX, 3)
            if not request:
                return
            child = os.fork()
            if child == 0:
                try:
                    arguments, cwd, environ = json.loads(request)
                    for stream, fd in enumerate(streams):
                        os.dup2(fd, stream)
                    os.closerange(3, os.sysconf("SC_OPEN_MAX"))
                    os.environ.clear()
                    os.environ.update(environ)
                    os.chdir(cwd)
                    sys.argv = [program, *arguments]
                    main()
                finally:
                    os._exit(99)  # the program ends by itself
            for fd in streams:
                os.close(fd)
            asked.send(b"%d" % os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))


if __name__ == "__main__":
    _serve(sys.argv[1], int(sys.argv[2]))
