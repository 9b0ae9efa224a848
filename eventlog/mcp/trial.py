"""Start a server of tools once as a client does, and report its problem.

For `locus mcp install`, with the command that it is to write, and for `locus doctor`, with this installation.
"""

import json
import os
import select
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence

EXTRA = "pip install 'locus-eventlog[mcp]'"
_TIMEOUT_S = 20
_SHOWN = 300
_HELLO = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {
        "protocolVersion": "2025-06-18",
        "capabilities": {},
        "clientInfo": {"name": "locus-install", "version": "1"},
    },
}


def problem(line: Sequence[str], directory: str, environ: Mapping[str, str]) -> "tuple[str, str] | None":
    """The problem of the server that `line` starts in `directory`, and its remedy; None: it answers.

    It gets `initialize` (the handshake of the protocol's versions up to 2025-11-25), and ends with its input.
    """
    program = shutil.which(line[0], path=environ.get("PATH"))
    if program is None:
        if os.path.isabs(line[0]):
            return f"there is no program {line[0]}", "reinstall Locus"
        return f"{line[0]} is not on the PATH", f"put {os.path.dirname(sys.executable)} on the PATH"
    with tempfile.TemporaryFile() as stderr:
        try:
            server = subprocess.Popen(
                [program, *line[1:]],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=stderr,
                cwd=directory,
                env={**environ},
            )
        except OSError as error:
            return f"it cannot be started: {error}", EXTRA
        with server:
            try:
                answer = _answer(server)
            finally:
                server.kill()
        if _is_hello(answer):
            return None
        stderr.seek(0)
        words = stderr.read(1 << 16).decode("utf-8", "replace").strip().splitlines()
    code = server.returncode
    ended = f"exit code {code}" if code > 0 else f"no answer to initialize within {_TIMEOUT_S} s"
    return f"the server of tools does not start: {words[-1][:_SHOWN] if words else ended}", EXTRA


def _answer(server: "subprocess.Popen[bytes]") -> bytes:
    """Its first line, or the part of it that came before it ended or the time was over."""
    assert server.stdin is not None and server.stdout is not None
    until_s, received = time.monotonic() + _TIMEOUT_S, b""
    try:
        os.write(server.stdin.fileno(), json.dumps(_HELLO).encode() + b"\n")
    except BrokenPipeError:
        pass  # it has ended, and its output says why
    while b"\n" not in received and (left_s := until_s - time.monotonic()) > 0:
        if not select.select([server.stdout], [], [], left_s)[0]:
            break
        data = os.read(server.stdout.fileno(), 1 << 16)
        if not data:
            server.stdin.close()
            try:
                server.wait(max(0.0, until_s - time.monotonic()))  # for its exit code
            except subprocess.TimeoutExpired:
                pass
            break
        received += data
    return received


def _is_hello(answer: bytes) -> bool:
    try:
        message = json.loads(answer.partition(b"\n")[0])
        return bool(message["id"] == _HELLO["id"] and message["result"]["serverInfo"]["name"])
    except (ValueError, KeyError, TypeError):
        return False
