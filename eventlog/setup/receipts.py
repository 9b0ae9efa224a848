"""Receipts: what takes our edit of a settings file back, beside the user's other state (docs/install.md).

A receipt fits one content of one file, by their digests, and holds none of what else is in it. Written and
dropped under the lock that `install.py` holds.
"""

import json
import os
import re
from dataclasses import dataclass

from blake3 import blake3

from eventlog.base.fs import FileSystem, read_file, replace
from eventlog.setup.settings import Edit

_FORMAT = 1
_SIZE_MAX = 8 << 20
_NAME = re.compile(r"[0-9a-f]{16}-[0-9a-f]{16}\.json")


@dataclass(frozen=True, slots=True)
class EditReceipt:
    """How to take an edit back. `edits` is None where there was no file before."""

    edits: tuple[Edit, ...] | None
    created: bool  # the file would not be there but for us
    made_directory: bool
    status_line: bool = False  # whether the file has ours


def directory(state: str) -> str:
    """Where receipts are kept. Args: state: the user's directory of state."""
    return f"{state}/locus/hooks"


def digest(data: bytes) -> str:
    return blake3(data).hexdigest()[:16]


def of_file(fs: FileSystem, directory: str, file: str) -> dict[str, EditReceipt]:
    """Receipts of a settings file, by the digest of the content they fit; other files are passed over."""
    receipts = {}
    prefix = digest(os.fsencode(file)) + "-"
    names = fs.listdir(directory) if os.path.isdir(directory) else []
    for name in names:
        if name.startswith(prefix) and name.endswith(".json"):
            try:
                fields = json.loads(read_file(fs, f"{directory}/{name}", _SIZE_MAX))
                edits = fields["edits"]
                if fields["format"] == _FORMAT:
                    receipts[name[len(prefix) : -len(".json")]] = EditReceipt(
                        None if edits is None else tuple(Edit(int(a), int(b), str(c)) for a, b, c in edits),
                        bool(fields["created"]),
                        bool(fields["made_directory"]),
                        bool(fields.get("status_line")),
                    )
            except (FileNotFoundError, ValueError, KeyError, TypeError):
                continue  # without it our entries are found by what they are
    return receipts


def of_path(fs: FileSystem, directory: str, path: str) -> list[str]:
    """The names of the receipts of a settings file, also when `path` was a link once and is none now."""
    prefix = digest(os.fsencode(os.path.realpath(path))) + "-"
    receipts = []
    for name in fs.listdir(directory) if os.path.isdir(directory) else []:
        if _NAME.fullmatch(name) and (
            name.startswith(prefix) or _field(fs, f"{directory}/{name}", "path") == path
        ):
            receipts.append(name)
    return receipts


def had_status_line(fs: FileSystem, directory: str, path: str) -> bool:
    """Whether a receipt of a settings file names a status line of ours."""
    receipts = of_path(fs, directory, path)
    return any(_field(fs, f"{directory}/{name}", "status_line") is True for name in receipts)


def _field(fs: FileSystem, receipt: str, name: str) -> object:
    try:
        fields = json.loads(read_file(fs, receipt, _SIZE_MAX))
    except (OSError, ValueError):
        return None
    return fields.get(name) if isinstance(fields, dict) else None


def forget_path(fs: FileSystem, directory: str, path: str) -> None:
    """Drop all receipts of a settings file."""
    for name in of_path(fs, directory, path):
        fs.unlink(f"{directory}/{name}")


def write(fs: FileSystem, directory: str, path: str, file: str, after: bytes, receipt: EditReceipt) -> None:
    """Args: path: the settings file as the agent names it; file: where its bytes are."""
    edits = receipt.edits
    fields = {
        "format": _FORMAT,
        "path": path,
        "file": file,
        "created": receipt.created,
        "made_directory": receipt.made_directory,
        "status_line": receipt.status_line,
        "edits": None if edits is None else [[edit.start, edit.end, edit.new] for edit in edits],
    }
    put(fs, directory, f"{digest(os.fsencode(file))}-{digest(after)}.json", fields)


def put(fs: FileSystem, directory: str, name: str, fields: "dict[str, object]") -> None:
    """Write one file of JSON, whole or not at all, durably."""
    path = f"{directory}/{name}"
    replace(fs, f"{path}.{fs.random_bytes(8).hex()}", path, json.dumps(fields).encode())


def forget(fs: FileSystem, directory: str, file: str, content: bytes | None) -> None:
    """Drop the receipts of a file but for that of its present content."""
    prefix = digest(os.fsencode(file)) + "-"
    name_kept = None if content is None else f"{prefix}{digest(content)}.json"
    for name in fs.listdir(directory):
        if name.startswith(prefix) and name != name_kept:
            fs.unlink(f"{directory}/{name}")
