"""The programs in processes of their own, each forked from one that has imported what it imports.

Imports take most of the time of a hook and of a command, and tests run thousands. Tests of what a program
imports, of its limits and of its start run it as a new process. Any thread may call; each has a server for
each program, which ends with the thread or the process. What only a start heeds is that of the server: a run
that lacks some of our variables has a server that lacks them too, and one that has others starts over. With
`LOCUS_TEST_STARTS=1` every run does.
"""

import gc
import json
import os
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Mapping
from importlib import import_module
from pathlib import Path
from pkgutil import walk_packages

_ROOT = Path(__file__).resolve().parent.parent
_REQUEST_SIZE_MAX = 1 << 20
_HOOK, _LOCUS = "locus_cli.hook_entry", "locus_cli.__main__"
STARTS = os.environ.get("LOCUS_TEST_STARTS", "") not in ("", "0")
# What only the start of a process heeds.
_OF_START = ("PYTHON", "LC_", "LANG", "LD_")
_IMPORTED = {
    _HOOK: (
        "agents.claude_code.hooks", "agents.claude_code.usage_tail",
        "agents.codex.hooks", "base.fs", "blobs.store", "hooks.enrich", "hooks.file_events", "hooks.locate",
        "hooks.record", "hooks.subagents", "worktree.capture", "worktree.changes",
    ),
    _LOCUS: (
        "doctor.completeness", "doctor.store", "exports.locusgraph.send", "importers.git_history",
        "importers.importer", "memory.briefing_of_log", "memory.shared_nodes", "query.engine",
        "recorder.recorder", "replay.compare", "restore.plan", "store",
    ),
}  # fmt: skip


class _Server:
    """A process that forks one run of a program at a time. It lacks some of our variables."""

    def __init__(self, program: str, lacking: frozenset[str]) -> None:
        self.owner = os.getpid()
        self._socket, its = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.forked", program, str(its.fileno())],
            cwd=_ROOT,
            env={name: value for name, value in os.environ.items() if name not in lacking},
            pass_fds=[its.fileno()],
        )
        its.close()

    def __del__(self) -> None:
        self._socket.close()
        if self.owner == os.getpid():
            self._process.wait()

    def run(self, request: bytes, streams: "list[int]", timeout_s: float) -> int:
        self.begin(request, streams)
        return self.ended(timeout_s)

    def begin(self, request: bytes, streams: "list[int]") -> None:
        socket.send_fds(self._socket, [request], streams)

    def ended(self, timeout_s: float) -> int:
        self._socket.settimeout(timeout_s)
        return int(self._socket.recv(16))


_servers = threading.local()


def hook(
    stdin: bytes, agent: str, cwd: Path, environ: Mapping[str, str], timeout_s: float = 60
) -> subprocess.CompletedProcess[bytes]:
    """Run the hook program with this input and environment.

    Raises: TimeoutError, subprocess.TimeoutExpired.
    """
    return _run(_HOOK, [agent], stdin, cwd, environ, timeout_s)


def locus(
    arguments: "list[str]", stdin: bytes, cwd: Path, environ: Mapping[str, str], timeout_s: float = 60
) -> subprocess.CompletedProcess[bytes]:
    """Run `locus` with these arguments. Raises: as `hook`."""
    return _run(_LOCUS, arguments, stdin, cwd, environ, timeout_s)


def locus_on(
    stream: int, arguments: "list[str]", cwd: Path, environ: Mapping[str, str]
) -> "Callable[[float], int]":
    """Begin to run `locus` with one descriptor for all three streams; the result waits for the exit code."""
    server = _server_for(_LOCUS, environ)
    if server is None:
        process = subprocess.Popen(
            [sys.executable, "-m", "locus_cli", *arguments],
            cwd=cwd, env=dict(environ), stdin=stream, stdout=stream, stderr=stream,
        )  # fmt: skip
        return process.wait
    server.begin(_request(arguments, cwd, environ), [stream] * 3)
    return server.ended


def _run(
    program: str,
    arguments: "list[str]",
    stdin: bytes,
    cwd: Path,
    environ: Mapping[str, str],
    timeout_s: float,
) -> subprocess.CompletedProcess[bytes]:
    server = _server_for(program, environ)
    if server is None:
        command = [sys.executable, "-m", program.removesuffix(".__main__"), *arguments]
        return subprocess.run(
            command, input=stdin, capture_output=True, cwd=cwd, env=dict(environ), timeout=timeout_s
        )
    streams = [unnamed_file() for _ in ("stdin", "stdout", "stderr")]
    try:
        with open(streams[0], "wb", closefd=False) as file:
            file.write(stdin)
        os.lseek(streams[0], 0, os.SEEK_SET)
        code = server.run(_request(arguments, cwd, environ), streams, timeout_s)
        out, err = (os.pread(fd, os.fstat(fd).st_size, 0) for fd in streams[1:])
        return subprocess.CompletedProcess([program, *arguments], code, out, err)
    finally:
        for fd in streams:
            os.close(fd)


def unnamed_file() -> int:
    """The descriptor of a new file that has no name."""
    if hasattr(os, "memfd_create"):
        return os.memfd_create("stream")
    with tempfile.TemporaryFile() as file:
        return os.dup(file.fileno())


def _open_terminal() -> None:
    """Make Python's streams as a start on a terminal does: ours were made for other files."""
    for fd, name in enumerate(("stdin", "stdout", "stderr")):
        old = getattr(sys, name)
        mode = "w" if fd else "r"
        stream = os.fdopen(fd, mode, 1, encoding=old.encoding, errors=old.errors, closefd=False)
        setattr(sys, name, stream)


def _server_for(program: str, environ: Mapping[str, str]) -> "_Server | None":
    """This thread's server for runs in this environment; None where each has to start again."""
    servers: dict[tuple[str, frozenset[str]], _Server] = _servers.__dict__
    ours, its = _of_start(os.environ), _of_start(environ)
    if STARTS or not its.items() <= ours.items():
        return None
    kind = program, frozenset(ours.keys() - its.keys())
    server = servers.get(kind)
    if server is None or server.owner != os.getpid():
        server = servers[kind] = _Server(*kind)
    return server


def _request(arguments: "list[str]", cwd: Path, environ: Mapping[str, str]) -> bytes:
    umask = os.umask(0o077)
    os.umask(umask)
    return json.dumps([arguments, os.fspath(cwd), dict(environ), umask]).encode()


def _of_start(environ: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in environ.items() if name.startswith(_OF_START)}


def _serve(program: str, number: int) -> None:
    if program == _LOCUS:
        import_module("locus_cli.unused").refuse()  # as a command does before it imports the rest
    module = import_module(program)
    for name in _IMPORTED[program]:
        import_module(f"eventlog.{name}")
    if program == _LOCUS:
        commands = import_module("locus_cli")
        for found in walk_packages(commands.__path__, f"{commands.__name__}."):
            import_module(found.name)
    gc.collect()
    gc.freeze()  # a child that looked through it would copy it
    with socket.socket(fileno=number) as asked:
        while True:
            request, streams, _, _ = socket.recv_fds(asked, _REQUEST_SIZE_MAX, 3)
            if not request:
                os._exit(0)  # taking modules apart takes long, and DuckDB's binding reports what is left
            child = os.fork()
            if child == 0:
                try:
                    arguments, cwd, environ, umask = json.loads(request)
                    for stream, fd in enumerate(streams):
                        os.dup2(fd, stream)
                    os.closerange(3, os.sysconf("SC_OPEN_MAX"))
                    if os.isatty(1):
                        _open_terminal()
                    os.environ.clear()
                    os.environ.update(environ)
                    time.tzset()
                    os.umask(umask)
                    os.chdir(cwd)
                    sys.argv = [str(module.__file__), *arguments]
                    module.main()
                finally:
                    os._exit(99)  # the program ends by itself
            for fd in streams:
                os.close(fd)
            asked.send(b"%d" % os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))


if __name__ == "__main__":
    _serve(sys.argv[1], int(sys.argv[2]))
