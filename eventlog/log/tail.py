"""The journals that no segment replaces yet, read in order and checked against each other.

Readers and the sealer walk the same way, so they see the same events. The walk takes no lock: the
caller holds a pin or the maintain lock, so that no journal vanishes meanwhile. Upholds I2 and I13:
the events continue at the manifest's next position without overlap, and every missing position is
named.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from eventlog.base.errors import Corruption
from eventlog.base.fs import opened, store_error
from eventlog.base.layout import StoreFiles
from eventlog.log.frame import HEADER_SIZE, Frame, JournalHeader, decode_header
from eventlog.log.journal_reading import JournalScan, live_journals, scan_journal


@dataclass(frozen=True, slots=True)
class TailJournal:
    """One journal of the walk, with those of its frames that continue the log."""

    number: int
    scan: JournalScan
    frames: tuple[Frame, ...]


@dataclass(frozen=True, slots=True)
class LostPositions:
    """Positions [base, end) that no valid frame holds, and the journal they must have been in."""

    base: int
    end: int
    journal: int


def unsealed(files: StoreFiles, next_journal: int) -> list[int]:
    """The numbers of the live journals from `next_journal` on, ascending."""
    return [number for number in live_journals(files) if number >= next_journal]


def read_header(files: StoreFiles, number: int) -> JournalHeader:
    """The header of a journal. Raises: Corruption, FileNotFoundError."""
    fs = files.fs
    path = files.layout.journal(number)
    with opened(fs, path) as fd:
        header = decode_header(fs.pread(fd, HEADER_SIZE, 0), path)
    if header.store_id != files.store_id or header.number != number:
        raise Corruption(path, "the journal belongs to another store or has another number", 0)
    return header


def begins_at(header: JournalHeader, position: int) -> bool:
    """Whether a journal continues the log at `position`.

    The copy of a journal whose sync failed may begin with frames that were sealed before it was made.
    """
    return header.base == position or (header.base < position and header.replaces is not None)


def walk(
    files: StoreFiles,
    numbers: Sequence[int],
    position: int,
    size_of_last: "int | None" = None,
) -> Iterator[TailJournal]:
    """Read the journals of `numbers`, which continue the log at `position`.

    Args: size_of_last: bytes of the last journal to read; frames appended since are left out.
    Raises: Corruption.
    """
    for number in numbers:
        path = files.layout.journal(number)
        try:
            scan = scan_journal(files.fs, path, store_id=files.store_id, number=number)
        except FileNotFoundError as error:
            raise Corruption(path, "this journal was removed although it is not sealed") from error
        except OSError as error:
            raise store_error(error, path, "read this journal") from error
        if not begins_at(scan.header, position) and (scan.base < position or number == numbers[0]):
            raise Corruption(path, f"it begins at position {scan.base}, but the log goes on at {position}")
        limit = size_of_last if size_of_last is not None and number == numbers[-1] else scan.size
        frames = tuple(f for f in scan.frames if f.base >= position and f.offset + f.size <= limit)
        position = frames[-1].end if frames else max(position, scan.base)
        yield TailJournal(number, scan, frames)


def lost_positions(
    journals: Iterable[TailJournal], base: int, end: "int | None" = None
) -> list[LostPositions]:
    """The positions of [base, end) that none of the frames holds; `end` defaults to the last frame's."""
    lost = []
    number = 0
    for journal in journals:
        for frame in journal.frames:
            if frame.base > base:
                inside = journal.scan.base <= base or not number
                lost.append(LostPositions(base, frame.base, journal.number if inside else number))
            base = frame.end
        number = journal.number
    if end is not None and end > base:
        lost.append(LostPositions(base, end, number))
    return lost


def joined(ranges: Iterable[range]) -> tuple[range, ...]:
    """The same positions in as few ranges as there can be, ascending."""
    merged: list[range] = []
    for positions in sorted(ranges, key=lambda r: (r.start, r.stop)):
        if merged and positions.start <= merged[-1].stop:
            merged[-1] = range(merged[-1].start, max(merged[-1].stop, positions.stop))
        else:
            merged.append(positions)
    return tuple(merged)
