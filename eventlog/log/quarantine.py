"""Quarantine: bytes that do not verify outlive the journal they were in (I10).

Bytes are stored as `<journal>@<offset>-<digest>.bin` with the reason in a `.json` file beside it. Both are
durable before the caller cuts or unlinks anything. Callers hold the append or the maintain lock; the
names hold the content's digest, so the same bytes are stored once. On the hook path.
"""

from blake3 import blake3

from eventlog.base.errors import Corruption
from eventlog.base.fs import FileSystem, publish, read_file
from eventlog.base.jsontext import decode, encode
from eventlog.base.layout import QUARANTINE_DIR, Layout, quarantine_name

# Why bytes were taken: the second does no harm (docs/positions.md).
TORN = "torn tail: no valid frame begins here or behind"
NEVER_ACKNOWLEDGED = "torn tail, behind everything that was acknowledged"
TORN_AND_CLOSED = "torn tail of a closed journal"
DAMAGE = "damage"
_WHY_BYTES_MAX = 4096


def files_of(journal: int, offset: int, data: bytes, reason: str) -> "list[tuple[str, bytes]]":
    """(name, content) of the two files for `data`, which was at `offset` of a journal."""
    digest = blake3(data).hexdigest()
    name = quarantine_name(journal, offset, digest[:16])
    why = {"journal": journal, "offset": offset, "size": len(data), "blake3": digest, "reason": reason}
    return [(name, data), (name.removesuffix(".bin") + ".json", encode(why) + b"\n")]


def store(fs: FileSystem, layout: Layout, tmp_path: str, name: str, data: bytes) -> None:
    """Make one of those files durable. Raises: Corruption when the name is taken by other bytes."""
    path = layout.quarantine(name)
    try:
        publish(fs, tmp_path, path, data)
    except FileExistsError:
        # An unfinished recovery made it, and may have died before it synced the directory.
        if not _says_the_same(read_file(fs, path), data):
            raise Corruption(path, "a quarantined file does not hold the bytes it is named after") from None
        fs.fsync_dir(layout.directory(QUARANTINE_DIR))


def reason_of(fs: FileSystem, path: str) -> str:
    """Why the bytes at `path` were taken, empty when that is not recorded."""
    try:
        why = decode(read_file(fs, path.removesuffix(".bin") + ".json", _WHY_BYTES_MAX))
    except (OSError, ValueError):
        return ""
    reason = why.get("reason") if isinstance(why, dict) else None
    return reason if isinstance(reason, str) else ""


def _says_the_same(stored: bytes, data: bytes) -> bool:
    """Whether a file holds `data`, or the same bytes with an earlier reason."""
    if stored == data:
        return True
    try:
        old, new = decode(stored), decode(data)
        return isinstance(old, dict) and isinstance(new, dict) and old["blake3"] == new["blake3"]
    except (ValueError, KeyError):
        return False
