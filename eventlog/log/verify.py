"""Is what is on disk what was written? Manifests, segments, journals; reads only.

May run beside appenders and a sealer: it pins the log like a reader. A tail that looks torn is read
again under the append lock, so an append in progress is not reported. Levels: `quick` reads
manifests, footers, journal headers and the active journal; `read` every byte of the log (I11).
Blobs and packs are verified by `blobs/verify.py`.
"""

import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from blake3 import blake3

from eventlog.base.errors import Corruption, EventLogError, LockTimeout, Unsupported
from eventlog.base.fs import FileSystem, translate_os_errors
from eventlog.base.layout import (
    JOURNAL_DIR,
    QUARANTINE_DIR,
    Layout,
    StoreFiles,
    parse_quarantine,
    parse_segment,
)
from eventlog.base.locks import APPEND, acquire
from eventlog.log import manifest as manifests
from eventlog.log import quarantine
from eventlog.log.acknowledged import read_note
from eventlog.log.journal_reading import JournalScan, journal_numbers, scan_journal
from eventlog.log.manifest import Manifest, SegmentEntry
from eventlog.log.reader import open_view
from eventlog.log.tail import begins_at, read_header, unsealed

if TYPE_CHECKING:
    from eventlog.log.segment_file import SegmentFile

_READ_BYTES = 4 << 20

QUICK, READ = "quick", "read"

_LOST_FILE = "Bring the file back from a backup; until then these events cannot be read"


@dataclass(frozen=True, slots=True)
class Finding:
    """What is wrong with which file and what to do next, and at which byte if known.

    `damage` is False for what does no harm and is only worth knowing.
    """

    path: str
    what: str
    offset: "int | None" = None
    damage: bool = True

    def __str__(self) -> str:
        where = self.path if self.offset is None else f"{self.path} at byte {self.offset}"
        return f"{where}: {self.what}"


def verify(fs: FileSystem, layout: Layout, store_id: bytes, level: str = QUICK) -> list[Finding]:
    """Everything wrong with the log's files; empty when all is well.

    Raises: Unsupported when the log needs a newer Locus, LockTimeout.
    """
    if level not in (QUICK, READ):
        raise ValueError(f"level is {QUICK!r} or {READ!r}, not {level!r}")
    with translate_os_errors(layout.root, "verify the log"):
        return _verify(fs, layout, store_id, level)


def as_far_as_readable(findings: Iterable[Finding], root: str) -> Iterator[Finding]:
    """Findings about the store at `root`; where the disk cannot be read on, that is the last of them.

    Raises: Unsupported, LockTimeout.
    """
    try:
        yield from findings
    except (Unsupported, LockTimeout):
        raise
    except EventLogError as error:
        yield Finding(root, str(error))


def _verify(fs: FileSystem, layout: Layout, store_id: bytes, level: str) -> list[Finding]:
    files = StoreFiles(fs, layout, store_id)
    pin = unopened = None
    try:
        pin = open_view(files)
    except Corruption as error:
        unopened = Finding(error.path, f"{error.what}.", error.offset)
    except (Unsupported, LockTimeout):
        raise
    except EventLogError as error:
        unopened = Finding(layout.root, str(error))
    try:
        findings, current, newest = _verify_manifests(fs, layout, store_id)
        for entry in current.segments:
            findings += _verify_segment(fs, layout, store_id, entry, level)
        findings += _verify_superseded(fs, layout, current, level)
        findings += _verify_journals(fs, layout, store_id, current if newest else None, level)
        findings += verify_quarantine(fs, layout)
    finally:
        if pin is not None:
            pin.close()
    if unopened is not None and all(unopened.path != finding.path for finding in findings):
        findings.insert(0, unopened)
    return findings


def _verify_manifests(
    fs: FileSystem, layout: Layout, store_id: bytes
) -> tuple[list[Finding], Manifest, bool]:
    """What is wrong with the manifests, the last valid one, and whether it is the newest."""
    files = StoreFiles(fs, layout, store_id)
    findings = []
    newest = True
    current = Manifest(store_id.hex())
    numbers = manifests.numbers(files)
    for number in numbers:
        path = layout.manifest(number)
        try:
            manifest = manifests.read_numbered(files, number)
        except FileNotFoundError:
            continue  # expired since the listing
        except Corruption as error:
            newest = number != numbers[-1]
            if number == numbers[-1]:
                next_step = "Reading stops here: the one before it would show an older log. " + _LOST_FILE
            else:
                next_step = "Readers do not need it; it may be deleted"
            findings.append(Finding(path, f"{error.what}. {next_step}.", error.offset))
            continue
        except OSError as error:
            newest = number != numbers[-1]
            findings.append(Finding(path, f"the disk cannot read it ({error.strerror}). {_LOST_FILE}."))
            continue
        if current.number == number - 1 > 0 and manifest.parent != manifests.digest_of(current):
            findings.append(
                Finding(
                    path, f"its parent is not manifest {number - 1}: two histories were mixed. Keep both."
                )
            )
        current = manifest
    for lost in current.damaged:
        path = layout.manifest(current.number)
        if lost.journal:
            what = (
                f"positions [{lost.base}, {lost.end}) were destroyed in journal {lost.journal} before they "
                "were sealed. What was left of the bytes is in log/quarantine; import their source again."
            )
            findings.append(Finding(path, what))
        else:
            what = f"positions [{lost.base}, {lost.end}) are lost, as a repair has said."
            findings.append(Finding(path, what, damage=False))
    return findings, current, newest


def _verify_segment(
    fs: FileSystem, layout: Layout, store_id: bytes, entry: SegmentEntry, level: str
) -> Iterator[Finding]:
    files = StoreFiles(fs, layout, store_id)
    from eventlog.log.segment_file import SegmentFile

    path = layout.segment(entry.name)
    events = f"the events of positions [{entry.base}, {entry.end})"
    try:
        size = fs.stat(path).st_size
        if size != entry.bytes:
            yield Finding(path, f"it has {size} bytes instead of {entry.bytes}. {_LOST_FILE}: {events}.")
            return
        if level == READ and _digest(fs, path) != entry.blake3:
            yield Finding(path, f"its bytes do not match their digest. {_LOST_FILE}: {events}.")
            return
        with SegmentFile(files, entry) as file:
            if level == READ and not _ascending(file, entry):
                yield Finding(path, f"its positions are not strictly ascending inside {events}.")
    except FileNotFoundError:
        yield Finding(path, f"the manifest lists this segment, but it is not there. {_LOST_FILE}: {events}.")
    except OSError as error:
        yield Finding(path, f"the disk cannot read it ({error.strerror}). {_LOST_FILE}: {events}.")
    except Corruption as error:
        yield Finding(path, f"{error.what}. {_LOST_FILE}: {events}.", error.offset)
    except Unsupported:
        raise
    except EventLogError as error:
        yield Finding(path, str(error))


def _verify_superseded(fs: FileSystem, layout: Layout, current: Manifest, level: str) -> Iterator[Finding]:
    """Segments that others have replaced: most are gone, and nothing needs them."""
    for item in current.superseded if level == READ else ():
        path = layout.segment(item.name)
        parsed = parse_segment(item.name)
        try:
            if parsed is not None and _digest(fs, path)[:16] == parsed[2]:
                continue
            what = "its bytes do not match its name"
        except FileNotFoundError:
            continue
        except OSError as error:
            what = f"the disk cannot read it ({error.strerror})"
        yield Finding(
            path, f"{what}. A merged segment holds its events, and maintenance removes it.", damage=False
        )


def _digest(fs: FileSystem, path: str) -> str:
    digest = blake3()
    fd = fs.open(path, os.O_RDONLY)
    try:
        for offset in range(0, fs.fstat(fd).st_size, _READ_BYTES):
            digest.update(fs.pread(fd, _READ_BYTES, offset))
    finally:
        fs.close(fd)
    return digest.hexdigest()


def _ascending(file: "SegmentFile", entry: SegmentEntry) -> bool:
    previous = entry.base - 1
    for group in range(file.row_groups):
        for batch in file.slices(["position"], group):
            for position in batch["position"].to_pylist():
                if position <= previous:
                    return False
                previous = position
    return previous < entry.end


def _verify_journals(
    fs: FileSystem, layout: Layout, store_id: bytes, current: "Manifest | None", level: str
) -> Iterator[Finding]:
    """The journals one by one, then whether together they continue the segments (I2, I13).

    Args: current: None when the newest manifest is not known, so that their beginning is unknown.
    """
    files = StoreFiles(fs, layout, store_id)
    acknowledged = _acknowledged(files)
    numbers = journal_numbers(files)
    if not numbers and acknowledged and current is not None and not current.number:
        what = f"{acknowledged} events were acknowledged, but no journal is there. {_LOST_FILE}."
        yield Finding(layout.directory(JOURNAL_DIR), what)
    if current is not None and current.number and (not numbers or numbers[-1] < current.next_journal):
        what = f"no journal continues manifest {current.number}: the active one was removed. {_LOST_FILE}."
        yield Finding(layout.directory(JOURNAL_DIR), what)
    ends: dict[int, int] = {}
    for number in numbers:
        path = layout.journal(number)
        try:
            if level == READ or number == numbers[-1]:
                scan = _settled_scan(fs, layout, store_id, number, newest=number == numbers[-1])
                ends[number] = scan.claimed
                yield from _damage(scan)
                if number == numbers[-1]:
                    yield from _shortened(scan, acknowledged)
            else:
                read_header(files, number)
        except FileNotFoundError:
            continue  # sealed and unlinked since the listing
        except OSError as error:
            yield Finding(path, f"the disk cannot read it ({error.strerror}). {_LOST_FILE}.")
        except Corruption as error:
            yield Finding(path, f"{error.what}. {_LOST_FILE}.", error.offset)
    if current is not None:
        yield from _discontinuities(fs, layout, store_id, current, numbers, ends)


def _acknowledged(files: StoreFiles) -> int:
    """The position in the note, read before the journals: so an append meanwhile cannot make it be ahead."""
    return read_note(files, max(journal_numbers(files), default=0)) or 0


def _shortened(scan: JournalScan, acknowledged: int) -> Iterator[Finding]:
    if acknowledged > scan.claimed:
        what = (
            f"the events at positions [{scan.claimed}, {acknowledged}) were acknowledged and are not there: "
            f"it was cut, or an older file took its place. {_LOST_FILE}; the log goes on behind them"
        )
        yield Finding(scan.path, f"{what}.")


def verify_quarantine(fs: FileSystem, layout: Layout) -> Iterator[Finding]:
    """Bytes that were taken from journals and that no repair has noted yet, as far as the files show."""
    directory = layout.directory(QUARANTINE_DIR)
    for name in fs.listdir(directory) if fs.exists(directory) else ():  # git keeps no empty directory
        stood = parse_quarantine(name)
        if stood is None:
            continue
        path = f"{directory}/{name}"
        reason = quarantine.reason_of(fs, path)
        harmless = reason == quarantine.NEVER_ACKNOWLEDGED
        where = f"these bytes, from byte {stood[1]} of journal {stood[0]}, did not verify"
        lost = "No acknowledged event was in them" if harmless else "Events may have been in them"
        why = reason or "nothing says why they were taken"
        what = f"{where} ({why}). {lost}; a repair notes that they are known."
        yield Finding(path, what, damage=not harmless)


def _settled_scan(
    fs: FileSystem, layout: Layout, store_id: bytes, number: int, *, newest: bool
) -> JournalScan:
    path = layout.journal(number)
    scan = scan_journal(fs, path, store_id=store_id, number=number)
    if newest and scan.torn is not None:
        with acquire(fs, layout, APPEND):
            scan = scan_journal(fs, path, store_id=store_id, number=number)
    return scan


def _damage(scan: JournalScan) -> Iterator[Finding]:
    for damage in scan.damaged:
        lost = f"; positions [{damage.base}, {damage.end}) are lost" if damage.end > damage.base else ""
        what = f"{damage.size} bytes do not verify{lost}. Sealing keeps them in log/quarantine."
        yield Finding(scan.path, what, damage.offset)
    if scan.torn is not None and scan.claimed > scan.end:
        offset, size = scan.torn
        what = (
            f"{size} bytes have the shape of frames and do not verify: rot, or a write in a power cut. "
            f"The events at positions [{scan.end}, {scan.claimed}) cannot be read, and no others get these "
            "positions. Sealing keeps the bytes in log/quarantine."
        )
        yield Finding(scan.path, what, offset)
    elif scan.torn is not None:
        offset, size = scan.torn
        what = (
            f"{size} bytes behind the last valid frame are not a frame: an append that a crash cut short, "
            "or damage. The next append or sealing moves them to log/quarantine."
        )
        yield Finding(scan.path, what, offset)


def _discontinuities(
    fs: FileSystem,
    layout: Layout,
    store_id: bytes,
    current: Manifest,
    numbers: "list[int]",
    ends: "dict[int, int]",
) -> Iterator[Finding]:
    """Journals of `numbers` that do not begin where the log before them ends.

    Args: ends: where the scanned ones end. All of `numbers` but the last were closed when they were
    scanned, so that no append can have moved an end since.
    """
    files = StoreFiles(fs, layout, store_id)
    position: int | None = current.next_position
    try:
        live = unsealed(files, current.next_journal)
    except OSError:
        return  # reported already
    for number in live:
        if number not in numbers:
            break
        path = layout.journal(number)
        try:
            header = read_header(files, number)
        except (Corruption, OSError):
            position = None  # reported already
            continue
        if position is not None and not begins_at(header, position):
            if header.base > position:
                what = f"positions [{position}, {header.base}) are missing before it. {_LOST_FILE}."
            else:
                what = f"it begins at position {header.base}, but the log before it ends at {position}."
            yield Finding(path, what)
        position = ends.get(number)
