"""Start a server of tools once as a client does, and say what is wrong with it.

For `locus mcp install`, of the very line that it is to write, and for `locus doctor`, of this installation.
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
    """What is wrong with the server that `line` starts in `directory`, and the way out; None: it answers.

    It gets `initialize` (the handshake of the protocol's versions up to 2025-11-25), and ends with its input.
    """
    program = shutil.which(line[0], path=environ.get("PATH"))
    if program is None:
        if os.path.isabs(line[0]):
            return f"there is no program {line[0]}", "install Locus anew"
        return f"{line[0]} is not on the PATH", f"put {os.path.dirname(sys.executable)} on the PATH"
    with tempfile.TemporaryFile() as said:
        try:
            server = subprocess.Popen(
                [program, *line[1:]],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=said,
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
        said.seek(0)
        words = said.read(1 << 16).decode("utf-8", "replace").strip().splitlines()
    code = server.returncode
    ended = f"exit code {code}" if code > 0 else f"no answer to initialize within {_TIMEOUT_S} s"
    return f"the server of tools does not start: {words[-1][:_SHOWN] if words else ended}", EXTRA


def _answer(server: "subprocess.Popen[bytes]") -> bytes:
    """Its first line; what there is of it when it ends or the time is over."""
    assert server.stdin is not None and server.stdout is not None
    until_s, found = time.monotonic() + _TIMEOUT_S, b""
    try:
        os.write(server.stdin.fileno(), json.dumps(_HELLO).encode() + b"\n")
    except BrokenPipeError:
        pass  # it has ended, and its words say why
    while b"\n" not in found and (left_s := until_s - time.monotonic()) > 0:
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
        found += data
    return found


def _is_hello(answer: bytes) -> bool:
    try:
        said = json.loads(answer.partition(b"\n")[0])
        return bool(said["id"] == _HELLO["id"] and said["result"]["serverInfo"]["name"])
    except (ValueError, KeyError, TypeError):
        return False
