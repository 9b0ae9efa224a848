"""A hook that writes down what a client sent and how the project looked: `record_hook.py LINES PROJECT`.

A program of its own, standard library only. One line of JSON per call, in the order in which the
calls got the lock: the payload, every file of the project, how long each transcript was.
"""

import base64
import fcntl
import json
import os
import sys
from pathlib import Path

_NOT_OURS = {".git", ".locus"}


def main() -> None:
    lines, project = sys.argv[1:]
    reported = sys.stdin.buffer.read()
    with open(lines, "ab") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        payload = json.loads(reported)
        line = {"payload": payload, "tree": tree_of(Path(project)), "transcripts": _transcripts(payload)}
        file.write(json.dumps(line).encode() + b"\n")


def tree_of(project: Path) -> dict[str, list[str]]:
    """Path → [kind, content]: `file` and `exec` with base64, `link` with its target."""
    found: dict[str, list[str]] = {}
    for directory, names, files in os.walk(project):
        names[:] = [name for name in names if name not in _NOT_OURS]
        for name in [*files, *names]:
            path = Path(directory, name)
            if path.is_symlink():
                found[str(path.relative_to(project))] = ["link", os.readlink(path)]
            elif path.is_file():
                kind = "exec" if path.stat().st_mode & 0o100 else "file"
                found[str(path.relative_to(project))] = [kind, base64.b64encode(path.read_bytes()).decode()]
    return found


def _transcripts(payload: dict[str, object]) -> dict[str, int]:
    named = payload.get("transcript_path")
    if not isinstance(named, str):
        return {}
    path = Path(named)
    files = [path, *path.with_suffix("").glob("subagents/*.jsonl")]
    return {str(file): file.stat().st_size for file in files if file.exists()}


if __name__ == "__main__":
    main()
