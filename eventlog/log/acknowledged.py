"""Up to where the log was acknowledged: a note beside the journals that shows when the log lost its end.

The table of bytes is in docs/positions.md. `append` writes it after its sync and before it returns, outside
the lock, and never syncs it; opening a journal to append and `verify` read it. Events were durable
before the note counts them, so it may be old and is never ahead. It is derived: where it is missing or comes
from a copy, less is noticed and nothing else changes, so its failures are ignored. On the hook path.
"""

import os
from _struct import Struct

from blake3 import blake3

from eventlog.base.layout import StoreFiles

SLOT_SIZE = 64
SLOTS = 8  # as many processes may finish out of order without one overwriting another's slot

_MAGIC = b"\x89EVA"
_VERSION = 1
_SLOT = Struct(
    "<4sHHQQQQQ"
)  # magic, version, zero, journal, position, inode of the note, of the journal, zero
_DIGEST_SIZE = 16


class Note:
    """The note of one store, opened beside one of its journals. Threads may share it."""

    __slots__ = ("_fd", "_fs", "_inode", "_journal_inode", "_number")

    def __init__(
        self,
        files: StoreFiles,
        number: int,
        journal_inode: int,
        flags: int = os.O_RDWR | os.O_CREAT,
    ) -> None:
        """Args: number: of the newest journal, 0 when there is none; journal_inode: of its file."""
        self._fs = files.fs
        self._number = number
        self._journal_inode = journal_inode
        self._fd = self._inode = -1
        try:
            self._fd = self._fs.open(files.layout.acknowledged, flags)
            self._inode = self._fs.fstat(self._fd).st_ino
        except OSError:
            self.close()

    def read(self) -> "int | None":
        """The position after all that is known to be acknowledged; None when nothing is known."""
        try:
            data = self._fs.pread(self._fd, SLOTS * SLOT_SIZE, 0) if self._fd >= 0 else b""
        except OSError:
            return None
        positions = [
            self._position(data[offset : offset + SLOT_SIZE]) for offset in range(0, len(data), SLOT_SIZE)
        ]
        return max((position for position in positions if position is not None), default=None)

    def raise_to(self, position: int) -> None:
        """Note that everything before `position` is acknowledged, in this journal or an earlier one."""
        if self._fd < 0:
            return
        body = _SLOT.pack(_MAGIC, _VERSION, 0, self._number, position, self._inode, self._journal_inode, 0)
        slot = body + blake3(body).digest(_DIGEST_SIZE)
        try:
            self._fs.pwrite(self._fd, slot, position % SLOTS * SLOT_SIZE)
        except OSError:
            pass  # the events are acknowledged all the same; only the note is old

    def close(self) -> None:
        fd, self._fd = self._fd, -1
        if fd >= 0:
            try:
                self._fs.close(fd)
            except OSError:
                pass  # the descriptor is gone all the same

    def _position(self, slot: bytes) -> "int | None":
        """The position in one slot; None when the slot is not of this store."""
        body = slot[: _SLOT.size]
        if len(slot) < SLOT_SIZE or not slot.startswith(_MAGIC):
            return None
        _, version, _, number, position, inode, journal_inode, _ = _SLOT.unpack(body)
        if version != _VERSION or blake3(body).digest(_DIGEST_SIZE) != slot[_SLOT.size :]:
            return None
        if inode != self._inode or (number == self._number and journal_inode != self._journal_inode):
            return None  # a copy of the note, or of the journal
        return int(position)


def read_note(files: StoreFiles, number: int) -> "int | None":
    """The position in the note beside journal `number`, the newest; 0: there is none. Changes nothing.

    Callers without the lock read it before the journal, so that an append in between cannot make it be ahead.
    """
    try:
        inode = files.fs.stat(files.layout.journal(number)).st_ino if number else 0
    except OSError:
        return None
    note = Note(files, number, inode, os.O_RDONLY)
    try:
        return note.read()
    finally:
        note.close()
