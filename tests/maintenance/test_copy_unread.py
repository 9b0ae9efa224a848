"""A copy that cannot be read for a moment is no copy without the file (docs/maintenance.md)."""

import errno
import os
from pathlib import Path

import pytest

from eventlog.base.errors import EventLogError
from eventlog.base.fs import FileSystem
from eventlog.maintenance.backup import backup
from eventlog.repair.repair import plan_repair, repair
from eventlog.store import Store


class Refusing(FileSystem):
    """Cannot open the segments of one directory."""

    def __init__(self, directory: Path) -> None:
        self._directory = f"{directory}/log/segments/"

    def open(self, path: str, flags: int, mode: int = 0o600) -> int:
        if path.startswith(self._directory):
            raise OSError(errno.EIO, os.strerror(errno.EIO), path)
        return super().open(path, flags, mode)


def test_a_repair_does_not_set_aside_what_an_unread_copy_may_have(tmp_path: Path) -> None:
    """I10, P1: a refusal of the disk ends the repair with an error; the next one brings the file back."""
    root, copy = tmp_path / ".locus", tmp_path / "copy"
    with Store.init(root, force=True) as store:
        store.append([{"event_type": "note", "title": "kept"}])
        store.seal()
        backup(store, copy)
    (segment,) = (root / "log/segments").iterdir()
    data = bytearray(segment.read_bytes())
    data[len(data) // 3] ^= 4
    segment.write_bytes(data)

    with Store.open(root, fs=Refusing(copy)) as store, pytest.raises(EventLogError, match="cannot read it"):
        repair(store, plan_repair(store, copy=str(copy)), copy=str(copy))
    assert segment.exists()
    with Store.open(root) as store:
        repair(store, plan_repair(store, copy=str(copy)), copy=str(copy))
        assert [event["title"] for event in store.events()] == ["kept"]
