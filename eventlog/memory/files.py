"""Small JSON files that this room exports: read without trust, replaced whole.

Any number of processes may read and write; a reader sees the old file or the new one.
"""

import json
import os
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

_SIZE_MAX = 8 << 20


def read_json(path: Path) -> Any:
    """The value of a JSON file; None when it is absent, no regular file, damaged or above 8 MiB."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        with open(fd, "rb") as file:
            return json.loads(file.read(_SIZE_MAX))
    except (OSError, ValueError, RecursionError):
        return None


def pretty(data: "dict[str, Any]") -> bytes:
    """The bytes of a JSON file that people may read."""
    return json.dumps(data, indent=2, ensure_ascii=False).encode("utf-8", "replace") + b"\n"


def stamp(time: datetime) -> str:
    """A time as these files have it: ISO 8601 in UTC."""
    return time.astimezone(UTC).isoformat().replace("+00:00", "Z")


def make_private(directory: Path) -> None:
    """Make a directory that only its owner may read, and the missing ones above it.

    Raises: OSError.
    """
    for missing in reversed((directory, *directory.parents)):
        if not missing.exists():
            missing.mkdir(mode=0o700, exist_ok=True)


def replace_file(path: Path, data: bytes, *, mode: int = 0o600) -> None:
    """Replace `path`: durable before it gets the name. Raises: OSError, with the old file in place."""
    tmp = path.with_name(f".{path.name}.{os.getpid()}-{os.urandom(4).hex()}")
    try:
        with open(tmp, "xb", opener=lambda name, flags: os.open(name, flags, mode)) as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(tmp, path)
    except BaseException:
        tmp.unlink(missing_ok=True)
        raise
