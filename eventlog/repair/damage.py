"""What is damaged in a store, and what could be done about it: the plan of a repair. Changes nothing.

`Damage.scan` reads every byte of the log and of the packs, beside any process. Its findings are as of its
reading; a repair scans again first.
"""

import errno
import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, cast

import pyarrow as pa
import pyarrow.compute as pc

from eventlog.base.errors import Corruption, EventLogError, Unsupported
from eventlog.base.fs import FileSystem
from eventlog.base.layout import (
    IDX_DIR,
    MANIFEST_DIR,
    PACK_DIR,
    SEGMENT_DIR,
    Layout,
    StoreFiles,
    parse_idx,
    parse_pack,
    parse_segment,
    segment_name,
)
from eventlog.blobs.catalog import load_tables
from eventlog.blobs.closure import missing_contents
from eventlog.blobs.idx import Idx
from eventlog.blobs.store import BlobStore
from eventlog.blobs.verify import verify_idx_rows
from eventlog.log import manifest as manifests
from eventlog.log.accepted import after_acceptance
from eventlog.log.acknowledged import read_note
from eventlog.log.frame import HEADER_SIZE, JournalHeader
from eventlog.log.journal_reading import JournalScan, journal_numbers, scan_journal
from eventlog.log.manifest import Manifest, SegmentEntry
from eventlog.log.segment import SegmentMeta
from eventlog.log.tail import begins_at, read_header
from eventlog.log.verify import Finding, verify_quarantine
from eventlog.log.verify_rules import verify_rules
from eventlog.maintenance.copying import Copier, UnreadableSource
from eventlog.repair import readable_parts
from eventlog.repair.affected_turns import affected_turns
from eventlog.repair.retrying_reader import RetryingReader
from eventlog.store import Store

# Kinds of steps. Files of the first six are set aside.
SEGMENT, PACK, MANIFEST, JOURNAL, IDX = "segment", "pack", "manifest", "journal", "idx"
RULES = "rules"  # files that keep secrets and erased texts out
MISSING = "missing"  # a file that should be there
FRAMES = "frames"  # bytes inside of a journal: sealing sets them aside
NAMED = "named"  # an earlier loss, which is noted as known
ASIDE = (SEGMENT, PACK, MANIFEST, JOURNAL, IDX, RULES)
# Positions that frames of an unreadable journal claim; more is not believed.
_CLAIMED_MAX = 10_000_000
_FRAME_MAGIC = b"\x89EV1"


@dataclass(frozen=True, slots=True)
class RepairStep:
    """One file that is to be set aside, or made where one is missing."""

    kind: str
    path: str
    what: str  # is wrong with it
    then: str  # what becomes of its content


@dataclass(slots=True)
class RepairPlan:
    """What a repair would do. `lost` are positions whose events go; `turns` lose `lost_contents` contents.

    `older` explains what stepping back from a broken newest manifest means, when that is needed. `unread` are
    the files that the disk did not give, with its error: that may pass, so only `accept` takes them as
    damaged.
    """

    steps: list[RepairStep] = field(default_factory=list)
    lost: list[tuple[int, int]] = field(default_factory=list)
    lost_contents: int = 0
    turns: list[str] = field(default_factory=list)
    older: str | None = None
    unread: dict[str, str] = field(default_factory=dict)


@dataclass(slots=True)
class LogRange:
    """A range of the log and its segment: as it is, made anew of what verifies, or brought back."""

    base: int
    end: int
    dropped: int
    entry: "SegmentEntry | None" = None  # as it is, or brought back from the copy
    rows: "readable_parts.SegmentRows | None" = None  # what can be read of a damaged one


class Damage:
    """The plan, and the facts that carrying it out needs."""

    def __init__(self, store: Store, copy: "str | None") -> None:
        self._store = store
        self.reader = RetryingReader(store.fs)
        self._fs = cast(FileSystem, self.reader)
        self._layout = store.layout
        self._id = store.identity.store_id
        self._files = StoreFiles(self._fs, self._layout, self._id)
        self._copy = Layout(os.path.abspath(copy)) if copy is not None else None
        self._copier = Copier(store.fs, store.layout)
        self.plan = RepairPlan()
        self.numbers: list[int] = []
        self.base = Manifest(self._id.hex())
        self.ranges: list[LogRange] = []
        self.new_log = False  # whether a manifest is to be written
        self.next_journal = 1
        self.stubs: list[tuple[int, int, bool]] = []  # number, base, whether it replaces a file
        self.back: list[tuple[str, str, str]] = []  # brought back: from, to, digest
        self.bad_packs: list[str] = []
        self.rescuable: set[bytes] = set()  # ids that verify in those, and are in no other
        self.is_about_contents = False  # contents are lost, or may be: those missing afterwards are noted
        self._older = False

    def scan(self) -> RepairPlan:
        self._scan_manifests()
        for lost in self.base.damaged:
            if lost.journal:
                what = f"the events at {_ranges([(lost.base, lost.end)])} were lost in journal {lost.journal}"
                then = "noted as known, so that verify reports only new damage"
                self._step(NAMED, self._layout.manifest(self.base.number), what, then)
        self._scan_segments()
        self._scan_journals()
        self._scan_packs()
        self._scan_idx()
        self._scan_rules()
        self._scan_quarantine()
        if not self.plan.steps:
            self._scan_references()
        self.plan.lost = _merged(self.plan.lost)
        self.plan.unread = dict(self.reader.refused)
        return self.plan

    def _step(self, kind: str, path: str, what: str, then: str) -> None:
        self.plan.steps.append(RepairStep(kind, path, what, then))

    def _scan_manifests(self) -> None:
        self.numbers = manifests.numbers(self._files)
        broken = []
        for number in self.numbers:
            path = self._layout.manifest(number)
            try:
                self.base = manifests.read_numbered(self._files, number)
            except Unsupported:
                raise
            except (Corruption, OSError) as error:
                what = error.what if isinstance(error, Corruption) else str(error.strerror or error)
                broken.append((number, path, what))
        newest = self.numbers[-1] if self.numbers else 0
        is_gone = not newest and self._has_sealed()
        self._older = self.base.number != newest or is_gone or self._lacks_newer_manifest()
        for number, path, what in broken:
            then = "no reader needs it" if number < newest else "the log is put together from what is there"
            self._step(MANIFEST, path, what, then)
        if self._older and not broken:
            path = self._layout.manifest(newest + 1)
            what = "the manifest that follows is not there" if newest else "no manifest is there"
            self._step(MISSING, path, what, "one is made from the segments that are there")

    def _lacks_newer_manifest(self) -> bool:
        """Whether the journals begin after the newest manifest ends: a newer one is gone."""
        numbers = [n for n in journal_numbers(self._files) if n >= self.base.next_journal]
        if not numbers or numbers[0] == self.base.next_journal:
            return False
        try:
            header = read_header(self._files, numbers[0])
        except (Corruption, OSError):
            return False
        return header.base > self.base.next_position

    def _has_sealed(self) -> bool:
        names = self._fs.listdir(self._layout.directory(SEGMENT_DIR))
        return any(parse_segment(name) is not None for name in names)

    def _scan_segments(self) -> None:
        listed = {entry.base: entry for entry in self.base.segments}
        strays = self._unlisted() if self._older else {}
        position = 0
        while position in strays or position in listed:
            entry = strays.get(position) or listed[position]
            log_range = LogRange(position, entry.end, entry.dropped, entry)
            if position not in strays:
                self._check_segment(log_range, entry)
            self.ranges.append(log_range)
            position = entry.end
        self.next_journal = self.base.next_journal
        if self._older:
            self._continue_at(position)

    def _unlisted(self) -> dict[int, SegmentEntry]:
        """Whole segments that the last good manifest does not list, by base; the longest of each."""
        listed = {entry.name for entry in self.base.segments}
        entries: dict[int, SegmentEntry] = {}
        for name in self._fs.listdir(self._layout.directory(SEGMENT_DIR)):
            parsed = parse_segment(name)
            if parsed is None or name in listed:
                continue
            path = self._layout.segment(name)
            try:
                digest = readable_parts.hash_of(self._fs, path)
                rows = readable_parts.scan_segment(self._fs, path)
            except OSError:
                continue
            if digest[:16] != parsed[2] or rows.problem is not None or rows.meta is None:
                continue
            if rows.meta.store_id == self._id and (
                parsed[0] not in entries or entries[parsed[0]].end < parsed[1]
            ):
                size = self._fs.stat(path).st_size
                entries[parsed[0]] = entry_of(rows.meta, digest, size, readable_parts.tables(self._fs, rows))
        return entries

    def _check_segment(self, log_range: LogRange, entry: SegmentEntry) -> None:
        path = self._layout.segment(entry.name)
        exists = True
        try:
            whole = readable_parts.hash_of(self._fs, path) == entry.blake3
            what = "its bytes do not match their digest"
        except OSError as error:
            whole, exists = False, not isinstance(error, FileNotFoundError)
            what = f"the disk cannot read it ({error.strerror})" if exists else "it is not there"
        if whole:
            return
        self.new_log = True
        kind = SEGMENT if exists else MISSING
        if self._is_in_copy("segment", entry.name, entry.blake3):
            self._step(kind, path, what, "it is brought back from the copy")
            return
        log_range.entry = None
        lost = [(log_range.base, log_range.end)]
        if exists:
            try:
                log_range.rows = readable_parts.scan_segment(self._fs, path)
            except OSError:
                log_range.rows = None
            if log_range.rows is not None and log_range.rows.groups:
                lost = log_range.rows.lost
            else:
                log_range.rows = None
        self.plan.lost += lost
        saved = f"; {log_range.rows.rows} events in it can be read and stay" if log_range.rows else ""
        self._step(kind, path, what, f"the events at {_ranges(lost)} are lost{saved}")

    def _is_in_copy(self, kind: str, name: str, digest: str) -> bool:
        """Whether the copy has the file, whole. Raises: UnreadableSource: a failed read is no absence."""
        if self._copy is None:
            return False
        source, target = getattr(self._copy, kind)(name), getattr(self._layout, kind)(name)
        try:
            if self._copier.hash(source) != digest:
                return False
        except UnreadableSource as error:
            if not error.gone:
                raise
            return False
        self.back.append((source, target, digest))
        return True

    def _continue_at(self, position: int) -> None:
        """Where the rebuilt log goes on: in the journal that begins there, or after a gap."""
        self.new_log = True
        bases: dict[int, JournalHeader] = {}
        for number in journal_numbers(self._files):
            try:
                bases[number] = read_header(self._files, number)
            except (Corruption, OSError):
                continue
        fitting = [
            number
            for number, header in bases.items()
            if header.base >= position or begins_at(header, position)
        ]
        numbers = journal_numbers(self._files)
        first = fitting[0] if fitting else (numbers[-1] + 1 if numbers else max(self.base.next_journal, 1))
        gap = bases[first].base if fitting else position
        if gap > position:
            self.plan.lost.append((position, gap))
            self.ranges.append(LogRange(position, gap, 0))
        self.next_journal = first
        back = self.base.next_position
        newest = f"manifest {self.numbers[-1]} cannot be used" if self.numbers else "no manifest is there"
        if self.numbers and self.base.number == self.numbers[-1]:
            newest = f"what follows manifest {self.base.number} is not there"
        lost = f"; the events at {_ranges([(position, gap)])} are lost" if gap > position else ""
        self.plan.older = (
            f"{self._layout.directory(MANIFEST_DIR)}: {newest}, so the log is put together from "
            f"manifest {self.base.number} (up to position {back}) and the files after it: segments up to "
            f"position {position}, then journals from number {first} on{lost}. What only the newest manifest "
            "said (a merge, an erasure) is forgotten."
        )

    def _scan_journals(self) -> None:
        """Journals without a valid header, and the missing one where none follows the segments."""
        position = self.ranges[-1].end if self.ranges else 0
        numbers = [n for n in journal_numbers(self._files) if n >= self.next_journal]
        acknowledged = read_note(self._files, numbers[-1] if numbers else 0) or 0
        if not numbers:
            if self.ranges or self.numbers or acknowledged:
                self._lose_up_to(acknowledged, position)
                path = self._layout.journal(self.next_journal)
                self.stubs.append((self.next_journal, position, False))
                if acknowledged > position:
                    self.stubs.append((self.next_journal + 1, acknowledged, False))
                then = f"an empty one is made; events after position {position} that were not sealed are lost"
                self._step(MISSING, path, "no journal follows the segments", then)
            return
        for number in numbers:
            path = self._layout.journal(number)
            try:
                scan = scan_journal(self._fs, path, store_id=self._id, number=number)
                if not begins_at(scan.header, position) and scan.base < position:
                    raise Corruption(
                        path, f"it begins at position {scan.base}, but the log ends at {position}"
                    )
                self._scan_frames(scan, position)
                position = max(position, scan.claimed)
                if number == numbers[-1] and acknowledged > position:
                    what = f"{_ranges([(position, acknowledged)])} were acknowledged and are not there"
                    self._step(FRAMES, path, what, "they are lost; the log goes on after them")
                    self._lose_up_to(acknowledged, position)
                continue
            except Corruption as error:
                what = error.what
            except OSError as error:
                what = f"the disk cannot read it ({error.strerror})"
            claimed = max(
                position, self._claimed_end(path, position), acknowledged if number == numbers[-1] else 0
            )
            then = "its events cannot be distinguished from noise and are lost"
            if claimed > position:
                then += f": by what they say those at {_ranges([(position, claimed)])}"
                self.plan.lost.append((position, claimed))
            self._step(JOURNAL, path, what, then)
            self.stubs.append((number, position, True))
            if number == numbers[-1] and claimed > position:
                self.stubs.append((number + 1, claimed, False))  # no position is given twice

    def _lose_up_to(self, end: int, start: int) -> None:
        if end > start:
            self.plan.lost.append((start, end))

    def _scan_frames(self, scan: JournalScan, position: int) -> None:
        """A journal with a valid header. Args: position: where the log before it ends."""
        if scan.base > position:
            self.plan.lost.append((position, scan.base))
            then = "they are lost"
            self._step(FRAMES, scan.path, f"{_ranges([(position, scan.base)])} are missing before it", then)
        bad = [(damage.offset, damage.size) for damage in scan.damaged if damage.size]
        bad += [scan.torn] if scan.torn is not None else []
        lost = [(damage.base, damage.end) for damage in scan.damaged if damage.end > damage.base]
        if scan.claimed > scan.end:
            lost.append((scan.end, scan.claimed))
        self.plan.lost += lost
        for offset, size in bad:
            what = f"{size} bytes at byte {offset} do not verify"
            then = "sealing takes them to quarantine"
            if lost:
                then += f"; the events at {_ranges(lost)} are lost"
            elif (claimed := self._claimed_end(scan.path, scan.end, offset)) > scan.end:
                then += f"; by what they say, the events at {_ranges([(scan.end, claimed)])}"
            self._step(FRAMES, scan.path, what, then)

    def _claimed_end(self, path: str, position: int, offset: int = HEADER_SIZE) -> int:
        """The highest position that anything like a frame claims, without proof."""
        try:
            fd = self._fs.open(path, os.O_RDONLY)
            try:
                data = self._fs.pread(fd, min(self._fs.fstat(fd).st_size, 64 << 20), 0)
            finally:
                self._fs.close(fd)
        except OSError:
            return position
        end = position
        offset_of_frame = data.find(_FRAME_MAGIC, offset)
        while 0 <= offset_of_frame <= len(data) - 24:
            count = int.from_bytes(data[offset_of_frame + 6 : offset_of_frame + 8], "little")
            base = int.from_bytes(data[offset_of_frame + 16 : offset_of_frame + 24], "little")
            if offset_of_frame % 8 == 0 and count and position <= base < position + _CLAIMED_MAX:
                end = max(end, base + count)
            offset_of_frame = data.find(_FRAME_MAGIC, offset_of_frame + 1)
        return end

    def _scan_packs(self) -> None:
        bad: dict[str, readable_parts.ReadablePack] = {}
        whole: set[bytes] = set()
        rescued: set[bytes] = set()
        for name in self._fs.listdir(self._layout.directory(PACK_DIR)):
            stem = parse_pack(name)
            if stem is None:
                continue
            path = self._layout.pack(stem)
            try:
                if readable_parts.hash_of(self._fs, path) == stem:
                    whole.update(_ids_of(self._fs, self._id, path, stem))
                    continue
                pack = readable_parts.ReadablePack(path)
                rescued.update(id for id, _, _ in readable_parts.contents(self._fs, path, pack))
            except FileNotFoundError:
                continue
            except OSError as error:
                pack = readable_parts.ReadablePack(
                    path, problem=f"the disk cannot read it ({error.strerror})"
                )
            if self._is_in_copy("pack", stem, stem):
                self._step(PACK, path, "its bytes do not match its name", "it is brought back from the copy")
                continue
            bad[path] = pack
            self.is_about_contents = True
        lost: set[bytes] = set()
        for path, pack in bad.items():
            pack_lost = pack.named - whole - rescued
            lost |= pack_lost
            self.bad_packs.append(path)
            staying = len(pack.named) - len(pack_lost)
            then = f"{staying} of its {len(pack.named)} contents stay, {len(pack_lost)} are lost"
            if not pack.named:
                then = "which contents it held is unknown"
            self._step(PACK, path, pack.problem or "its bytes do not match its name", then)
        self.rescuable = rescued - whole
        self.plan.lost_contents = len(lost)
        if lost:
            self.plan.turns = affected_turns(self._store, lost)

    def _scan_references(self) -> None:
        """Contents of packs that are gone altogether, once all present packs can be read."""
        blobs = BlobStore(StoreFiles(cast(FileSystem, _KeepsNames(self._fs)), self._layout, self._id))
        try:
            with self._store.view() as view:
                missing = missing_contents(blobs, view)
        except EventLogError:
            return  # the log is to be repaired first
        finally:
            blobs.close()
        if missing:
            what = f"{len(missing)} contents that events name are in no pack"
            self.is_about_contents = True
            then = "noted as known, so that verify reports only new damage"
            self._step(NAMED, self._layout.directory(PACK_DIR), what, then)
            self.plan.lost_contents += len(missing)
            self.plan.turns = sorted({*self.plan.turns, *affected_turns(self._store, missing)})

    def _scan_idx(self) -> None:
        directory = self._layout.directory(IDX_DIR)
        for name in self._fs.listdir(directory) if self._fs.exists(directory) else []:
            number = parse_idx(name)
            if number is None:
                continue
            path = self._layout.idx(number)
            try:
                idx = Idx(self._fs, path, self._id)
                try:
                    idx.check()
                finally:
                    idx.close()
            except FileNotFoundError:
                continue
            except (Corruption, OSError) as error:
                what = error.what if isinstance(error, Corruption) else str(error)
                self._step(IDX, path, what, "nothing is lost: it is made anew")
        reported = {step.path for step in self.plan.steps}
        for finding in verify_idx_rows(self._store.blobs):
            if finding.path not in reported:
                self._step(IDX, finding.path, finding.what, "nothing is lost: it is made anew")

    def _scan_rules(self) -> None:
        """The key of fingerprints is made anew; of the two files of rules one can replace the other."""
        layout = self._layout
        wrong = {finding.path: finding.what.partition(". ")[0] for finding in self._wrong_rules()}
        if layout.redaction_key in wrong:
            then = "a new one is made: a secret that was met before gets another fingerprint"
            self._step(RULES, layout.redaction_key, wrong[layout.redaction_key], then)
        pair = [layout.erased, layout.erased_copy]
        bad = [path for path in pair if path in wrong]
        if len(bad) == 1:
            (other,) = {*pair} - {*bad}
            self.back.append((other, bad[0], self._copier.hash(other)))
            kind = RULES if self._fs.exists(bad[0]) else MISSING
            self._step(kind, bad[0], wrong[bad[0]], f"{os.path.basename(other)} is copied over it")

    def _wrong_rules(self) -> list[Finding]:
        try:
            with self._store.view() as view:
                return list(verify_rules(self._fs, self._layout, self._id, view))
        except EventLogError:  # the log is to be repaired first
            return list(verify_rules(self._fs, self._layout, self._id))

    def _scan_quarantine(self) -> None:
        """Bytes that were set aside and that no repair has noted yet."""
        findings = list(verify_quarantine(self._fs, self._layout))
        for finding in after_acceptance(self._layout.root, findings, self._store.view):
            self._step(
                NAMED, finding.path, finding.what, "noted as known, so that verify reports only new damage"
            )


class _KeepsNames:
    """A file system without `unlink`: readers elsewhere remove derived files that they cannot use."""

    def __init__(self, fs: FileSystem) -> None:
        self._fs = fs

    def __getattr__(self, name: str) -> Any:
        return getattr(self._fs, name)

    def unlink(self, path: str) -> None:
        raise OSError(errno.EROFS, os.strerror(errno.EROFS), path)


def entry_of(meta: SegmentMeta, digest: str, size: int, tables: "Iterator[pa.Table]") -> SegmentEntry:
    """The manifest entry of a segment with these tables."""
    rows = 0
    times: list[int] = []
    for table in tables:
        rows += table.num_rows
        span = pc.min_max(table["occurred_at"].cast(pa.int64()))
        times += [t for t in (span["min"].as_py(), span["max"].as_py()) if t is not None]
    return SegmentEntry(
        name=segment_name(meta.base, meta.end, digest[:16]),
        base=meta.base,
        end=meta.end,
        rows=rows,
        bytes=size,
        blake3=digest,
        first_at=min(times, default=None),
        last_at=max(times, default=None),
        dropped=meta.dropped,
    )


def _ids_of(fs: FileSystem, store_id: bytes, path: str, stem: str) -> Iterator[bytes]:
    try:
        yield from load_tables(fs, path, stem, store_id).ids()
    except Corruption:
        return  # of another store, perhaps; verify names it


def _ranges(lost: "list[tuple[int, int]]") -> str:
    return ", ".join(f"positions {base:,} to {end - 1:,}" for base, end in lost) or "no position"


def _merged(ranges: "list[tuple[int, int]]") -> list[tuple[int, int]]:
    merged: list[tuple[int, int]] = []
    for base, end in sorted(ranges):
        if merged and base <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        else:
            merged.append((base, end))
    return merged
