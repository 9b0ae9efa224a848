"""The plan of a repair, made from the findings of one walk over the store. Changes nothing.

The walk reads every byte of the log and of the packs, beside any process, and its findings say which repair
mends them (docs/damage.md §4). What only a plan can know is added here: which parts of a damaged file can
still be read, which positions are lost, and which turns need what is gone. It holds as of its reading; a
repair plans again first.
"""

import os
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import cast

from eventlog.base.errors import Corruption, EventLogError
from eventlog.base.fs import FileSystem, hash_file
from eventlog.base.layout import (
    MANIFEST_DIR,
    PACK_DIR,
    SEGMENT_DIR,
    Layout,
    StoreFiles,
    parse_pack,
    parse_segment,
)
from eventlog.blobs.catalog import load_tables
from eventlog.blobs.closure import missing_contents
from eventlog.blobs.store import BlobStore
from eventlog.check.walk import FILES, StoreWalk
from eventlog.log.acknowledged import read_note
from eventlog.log.finding import (
    DEEP,
    FRAMES,
    IDX,
    JOURNAL,
    MANIFEST,
    MISSING,
    NAMED,
    NOTED,
    PACK,
    RESTORE,
    RULES,
    SEGMENT,
    Finding,
    RepairStep,
)  # fmt: skip
from eventlog.log.frame import HEADER_SIZE
from eventlog.log.manifest import SegmentEntry
from eventlog.log.repair_notes import known_losses
from eventlog.log.segment_file import entry_of
from eventlog.log.tail import begins_at
from eventlog.log.verify import JournalFacts, spelled
from eventlog.maintenance.copying import Copier, UnreadableSource
from eventlog.repair import readable_parts
from eventlog.repair.affected_turns import affected_turns
from eventlog.repair.copy_log import Ranges, merged, without
from eventlog.repair.copy_source import CopySource, used
from eventlog.repair.patched_journal import scan_of
from eventlog.repair.retrying_reader import RetryingReader
from eventlog.restore import journal
from eventlog.store import Store

# Positions that frames of an unreadable journal claim; more is not believed.
_CLAIMED_MAX = 10_000_000
_FRAME_MAGIC = b"\x89EV1"
_BROUGHT_BACK = "it is brought back from the copy"


@dataclass(slots=True)
class RepairPlan:
    """What a repair would do. `lost` are positions whose events go; `turns` lose `lost_contents` contents.

    `older` explains what stepping back from a broken newest manifest means, when that is needed. `unread` are
    the files that the disk did not give, with its error: that may pass, so only `accept` takes them as
    damaged. `taken` are positions whose events, and `taken_contents` how many contents, the copy gives;
    `held` are those of `lost` that the copy has and that are not taken, `held_why` is the reason.
    """

    steps: list[RepairStep] = field(default_factory=list)
    lost: list[tuple[int, int]] = field(default_factory=list)
    lost_contents: int = 0
    turns: list[str] = field(default_factory=list)
    older: str | None = None
    unread: dict[str, str] = field(default_factory=dict)
    taken: list[tuple[int, int]] = field(default_factory=list)
    taken_contents: int = 0
    held: list[tuple[int, int]] = field(default_factory=list)
    held_why: str | None = None


@dataclass(slots=True)
class LogRange:
    """A range of the log and its segment: as it is, rebuilt from what verifies, or brought back."""

    base: int
    end: int
    dropped: int
    entry: "SegmentEntry | None" = None  # as it is, or brought back from the copy
    rows: "readable_parts.SegmentRows | None" = None  # what can be read of a damaged one
    taken: "list[tuple[int, int]]" = field(default_factory=list)  # positions whose events the copy gives


class Planner:
    """Makes the plan, and then has the facts that carrying it out needs."""

    def __init__(self, store: Store, copy: "str | None") -> None:
        self._store = store
        self.reader = RetryingReader(store.fs)
        self._fs = cast(FileSystem, self.reader)
        self._layout = store.layout
        self._id = store.identity.store_id
        self._copier = Copier(store.fs, store.layout)
        self.source = None if copy is None else CopySource(store.fs, Layout(os.path.abspath(copy)), self._id)
        self._files = StoreFiles(self._fs, store.layout, store.identity.store_id)
        self._blobs = BlobStore(self._files)
        self._walk = StoreWalk(self._blobs, store.view, DEEP)
        self.log = self._walk.log  # what the walk reads of the log's files
        self.plan = RepairPlan()
        self.ranges: list[LogRange] = []
        self.new_log = False  # whether a manifest is to be written
        self.next_journal = 1
        self.stubs: list[tuple[int, int]] = []  # number, base
        self.back: list[tuple[str, str, str]] = []  # brought back: from, to, digest
        self.patched: "dict[str, tuple[bytes, bytes]]" = {}  # journals: as they are, with frames of the copy
        self.taken: set[bytes] = set()  # contents that the copy gives
        self.bad_packs: list[str] = []
        self.rescuable: set[bytes] = set()  # ids that verify in those, and are in no other
        self.is_about_contents = False  # contents are lost, or may be: those missing afterwards are noted
        self._older = False

    def make(self) -> RepairPlan:
        try:
            findings = self._walk.findings(FILES)
            if self.source is not None and any(finding.damage for finding in findings):
                self.source.log.compare(self._files, self.log)
                self._patch_journals(self.source)
            self._plan_manifests(_of(findings, MANIFEST))
            self.plan.steps += _of(findings, NAMED)
            self._plan_segments(_of(findings, SEGMENT, MISSING))
            self._plan_journals(_of(findings, JOURNAL))
            self._plan_packs(_of(findings, PACK))
            self.plan.steps += _of(findings, IDX)
            self._plan_rules(_of(findings, RULES, MISSING))
            self.plan.steps += _of([*journal.findings(self._fs, self._layout, self._id)], RESTORE)
            if not self.plan.steps or self.source is not None:
                self._plan_references()
        finally:
            self._blobs.close()
            if self.source is not None:
                self.source.close()
        self.plan.lost, self.plan.taken = merged(self.plan.lost), merged(self.plan.taken)
        self.plan.taken_contents = len(self.taken)
        self._hold()
        self.plan.unread = dict(self.reader.refused)
        return self.plan

    def _step(self, kind: str, path: str, what: str, then: str) -> None:
        self.plan.steps.append(RepairStep(kind, path, what, then))

    def _lose(self, base: int, end: int) -> None:
        if end > base:
            self.plan.lost.append((base, end))

    def _hold(self) -> None:
        """Name what would be lost although the copy has it, for want of proof."""
        if self.source is not None:
            sealed_without = [(gap.base, gap.end) for gap in self.log.current.damaged if gap.journal]
            held = self.source.log.covered(merged([*self.plan.lost, *sealed_without]))
            if held:
                self.plan.held, self.plan.held_why = held, self.source.log.why_not(held, sealed_without)

    def _plan_manifests(self, broken: "list[RepairStep]") -> None:
        newest = max(self.log.manifests, default=0)
        is_gone = not newest and self._has_sealed()
        self._older = self.log.current.number != newest or is_gone or self._lacks_newer_manifest()
        self.plan.steps += broken
        if self._older and not broken:
            path = self._layout.manifest(newest + 1)
            what = "the manifest that follows is not there" if newest else "no manifest is there"
            self._step(MISSING, path, what, "one is made from the segments that are there")

    def _lacks_newer_manifest(self) -> bool:
        """Whether the journals begin after the newest manifest ends: a newer one is gone."""
        current = self.log.current
        first = min((n for n in self.log.journals if n >= current.next_journal), default=current.next_journal)
        facts = self.log.journals.get(first)
        return (
            first != current.next_journal and facts is not None and facts.header.base > current.next_position
        )

    def _has_sealed(self) -> bool:
        names = self._fs.listdir(self._layout.directory(SEGMENT_DIR))
        return any(parse_segment(name) is not None for name in names)

    def _plan_segments(self, wrong: "list[RepairStep]") -> None:
        mends = {mend.path: mend for mend in wrong}
        listed = {entry.base: entry for entry in self.log.current.segments}
        strays = self._unlisted() if self._older else {}
        position = 0
        while position in strays or position in listed:
            entry = strays.get(position) or listed[position]
            log_range = LogRange(position, entry.end, entry.dropped, entry)
            path = self._layout.segment(entry.name)
            if position not in strays and path in mends:
                self._plan_segment(log_range, entry, mends[path])
            self.ranges.append(log_range)
            position = entry.end
        self.next_journal = self.log.current.next_journal
        if self._older:
            self._continue_at(position)

    def _unlisted(self) -> dict[int, SegmentEntry]:
        """Whole segments that the last good manifest does not list, by base; the longest of each."""
        listed = {entry.name for entry in self.log.current.segments}
        entries: dict[int, SegmentEntry] = {}
        for name in self._fs.listdir(self._layout.directory(SEGMENT_DIR)):
            parsed = parse_segment(name)
            if parsed is None or name in listed:
                continue
            path = self._layout.segment(name)
            try:
                digest = hash_file(self._fs, path)
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

    def _plan_segment(self, log_range: LogRange, entry: SegmentEntry, mend: RepairStep) -> None:
        path = self._layout.segment(entry.name)
        self.new_log = True
        if self._is_in_copy("segment", entry.name, entry.blake3):
            self.plan.steps.append(replace(mend, then=_BROUGHT_BACK))
            return
        log_range.entry = None
        lost = [(log_range.base, log_range.end)]
        if mend.kind == SEGMENT:
            with suppress(OSError):
                rows = readable_parts.scan_segment(self._fs, path)
                if rows.groups:
                    lost, log_range.rows = rows.lost, rows
        lost = self._take_events(log_range, entry, lost)
        self.plan.lost += lost
        fates = (
            [f"the events at {spelled(log_range.taken)} are taken from the copy"] if log_range.taken else []
        )
        fates += [f"the events at {spelled(lost)} are lost"] if lost else []
        fates += [f"{log_range.rows.rows} events in it can be read and stay"] if log_range.rows else []
        self.plan.steps.append(replace(mend, then="; ".join(fates)))

    def _take_events(self, log_range: LogRange, entry: SegmentEntry, lost: Ranges) -> Ranges:
        """Have the copy give what it can of these positions; the others."""
        if self.source is None:
            return lost
        if self.source.log.gives(entry):
            log_range.rows, log_range.taken = None, [(entry.base, entry.end)]
        else:
            log_range.taken = self.source.log.usable(lost)
        self.plan.taken += log_range.taken
        return without(lost, log_range.taken)

    def _is_in_copy(self, kind: str, name: str, digest: str) -> bool:
        """Whether the copy has the file, whole. Raises: UnreadableSource: a failed read is no absence."""
        if self.source is None:
            return False
        source, target = getattr(self.source.layout, kind)(name), getattr(self._layout, kind)(name)
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
        numbers = list(self.log.journals)
        bases = {number: facts.header for number, facts in self.log.journals.items() if facts is not None}
        fitting = [
            number
            for number, header in bases.items()
            if header.base >= position or begins_at(header, position)
        ]
        first = (
            fitting[0] if fitting else (numbers[-1] + 1 if numbers else max(self.log.current.next_journal, 1))
        )
        gap = bases[first].base if fitting else position
        if gap > position:
            self.plan.lost.append((position, gap))
            self.ranges.append(LogRange(position, gap, 0))
        self.next_journal = first
        current, manifests = self.log.current, self.log.manifests
        newest = f"manifest {manifests[-1]} cannot be used" if manifests else "no manifest is there"
        if manifests and current.number == manifests[-1]:
            newest = f"what follows manifest {current.number} is not there"
        lost = f"; the events at {spelled([(position, gap)])} are lost" if gap > position else ""
        self.plan.older = (
            f"{self._layout.directory(MANIFEST_DIR)}: {newest}, so the log is put together from "
            f"manifest {current.number} (up to position {current.next_position}) and the files after it: "
            f"segments up to position {position}, then journals from number {first} on{lost}. What "
            "only the newest manifest recorded (a merge, an erasure) is forgotten."
        )

    def _patch_journals(self, source: CopySource) -> None:
        """Have the copy give frames of damaged journals and of those that are gone: what they hold then.

        From the newest on, as each one names the end of the one before.
        """
        current, newest = self.log.current, max(self.log.journals, default=0)
        if current.number != max(self.log.manifests, default=0) or (
            not current.number and self._has_sealed()
        ):
            return  # which journals continue the log is unknown
        for number in sorted({*self.log.journals, *source.journals()}, reverse=True):
            if current.next_journal <= number <= newest:
                facts = self.log.journals.get(number)
                if number == newest or facts is None or facts.damaged or facts.torn is not None:
                    with suppress(OSError):  # of the disk: the plan names the file as unread
                        self._patch(source, number, facts)
        self.log.journals = dict(sorted(self.log.journals.items()))

    def _patch(self, source: CopySource, number: int, facts: "JournalFacts | None") -> None:
        following = self.log.journals.get(number + 1)
        path = self._layout.journal(number)
        ours = used(self._fs, path) if number in self.log.journals else b""
        data = source.patched(number, ours, None if following is None else following.header.prev)
        if data is None:
            return
        scan = scan_of(path, data)
        before = [] if facts is None else scan_of(path, ours).frames
        taken = without(*([(frame.base, frame.end) for frame in frames] for frames in (scan.frames, before)))
        self.patched[path] = ours, data
        self.plan.taken += taken
        what = "bytes in it do not verify" if ours else "it is gone"
        then = (
            f"the events at {spelled(taken)} are taken from the copy" if taken else "the copy has its header"
        )
        self._step(JOURNAL if ours else MISSING, path, what, then)
        self.log.journals[number] = JournalFacts(scan.header, scan.end, scan.claimed, scan.damaged, scan.torn)

    def _plan_journals(self, wrong: "list[RepairStep]") -> None:
        """Journals without a valid header, and the missing one where none follows the segments."""
        mends = {mend.path: mend for mend in wrong}
        position = self.ranges[-1].end if self.ranges else 0
        numbers = [n for n in self.log.journals if n >= self.next_journal]
        acknowledged = read_note(self._files, numbers[-1] if numbers else 0) or 0
        if not numbers:
            acknowledged = max(acknowledged, 0 if self.source is None else self.source.log.end)
            if self.ranges or self.log.manifests or acknowledged:
                self._lose(position, acknowledged)
                path = self._layout.journal(self.next_journal)
                self.stubs.append((self.next_journal, position))
                if acknowledged > position:
                    self.stubs.append((self.next_journal + 1, acknowledged))
                then = f"an empty one is made; events after position {position} that were not sealed are lost"
                self._step(MISSING, path, "no journal follows the segments", then)
            return
        for number in numbers:
            path = self._layout.journal(number)
            facts = self.log.journals[number]
            claimed_by_note = acknowledged if number == numbers[-1] else 0
            if facts is None:
                if path in mends:  # else it was sealed and unlinked meanwhile
                    self._replace_journal(number, position, mends[path].what, claimed_by_note)
                continue
            base = facts.header.base
            if base < position and not begins_at(facts.header, position):
                what = f"it begins at position {base}, but the log ends at {position}"
                self._replace_journal(number, position, what, claimed_by_note)
                continue
            self._plan_frames(path, facts, position)
            position = max(position, facts.claimed)
            if claimed_by_note > position:
                what = f"{spelled([(position, acknowledged)])} were acknowledged and are not there"
                self._step(FRAMES, path, what, "they are lost; the log goes on after them")
                self._lose(position, acknowledged)

    def _replace_journal(self, number: int, position: int, what: str, claimed: int) -> None:
        """By a stub. Args: claimed: the end of the log that the note claims, where this is the last one."""
        path = self._layout.journal(number)
        is_last = number == max(self.log.journals)
        claimed = max(position, self._claimed_end(path, position), claimed)
        then = "its events cannot be distinguished from noise and are lost"
        if claimed > position:
            then += f": by what they say those at {spelled([(position, claimed)])}"
        self._lose(position, claimed)
        self._step(JOURNAL, path, what, then)
        self.stubs.append((number, position))
        if is_last and claimed > position:
            self.stubs.append((number + 1, claimed))  # no position is given twice

    def _plan_frames(self, path: str, facts: JournalFacts, position: int) -> None:
        """A journal with a valid header. Args: position: where the log before it ends."""
        base = facts.header.base
        if base > position:
            self._lose(position, base)
            self._step(FRAMES, path, f"{spelled([(position, base)])} are missing before it", "they are lost")
        bad = [(damage.offset, damage.size) for damage in facts.damaged if damage.size]
        bad += [facts.torn] if facts.torn is not None else []
        lost = [(damage.base, damage.end) for damage in facts.damaged if damage.end > damage.base]
        if facts.claimed > facts.end:
            lost.append((facts.end, facts.claimed))
        self.plan.lost += lost
        for offset, size in bad:
            then = "sealing takes them to quarantine"
            if lost:
                then += f"; the events at {spelled(lost)} are lost"
            elif (claimed := self._claimed_end(path, facts.end, offset)) > facts.end:
                then += f"; by what they say, the events at {spelled([(facts.end, claimed)])}"
            self._step(FRAMES, path, f"{size} bytes at byte {offset} do not verify", then)

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

    def _plan_packs(self, wrong: "list[RepairStep]") -> None:
        mends = {mend.path: mend for mend in wrong}
        whole: set[bytes] = set()
        rescued: set[bytes] = set()
        bad: list[tuple[readable_parts.ReadablePack, RepairStep]] = []
        for name in self._fs.listdir(self._layout.directory(PACK_DIR)):
            stem = parse_pack(name)
            if stem is None:
                continue
            path = self._layout.pack(stem)
            mend = mends.get(path)
            if mend is None:
                # One that cannot be read is of another store, or was collected meanwhile.
                with suppress(Corruption, FileNotFoundError):
                    whole.update(load_tables(self._fs, path, stem, self._id).ids())
                continue
            pack = readable_parts.ReadablePack(path)
            try:
                rescued.update(id for id, _, _ in readable_parts.contents(self._fs, pack))
            except OSError:
                pack = readable_parts.ReadablePack(path)
            if self._is_in_copy("pack", stem, stem):
                self.plan.steps.append(replace(mend, then=_BROUGHT_BACK))
            else:
                bad.append((pack, mend))
        lost: set[bytes] = set()
        for pack, mend in bad:
            pack_lost, back = self._take_contents(pack.named - whole - rescued)
            lost |= pack_lost
            staying = len(pack.named - pack_lost - back)
            taken = f"{len(back)} are taken from the copy, " if back else ""
            then = f"{staying} of its {len(pack.named)} contents stay, {taken}{len(pack_lost)} are lost"
            if not pack.named:
                then = "which contents it held is unknown"
                then += "" if self.source is None else "; those that the copy has are taken from there"
            self.plan.steps.append(replace(mend, what=pack.problem or mend.what, then=then))
        self.bad_packs = [pack.path for pack, _ in bad]
        self.is_about_contents = bool(bad)
        self.rescuable = rescued - whole
        self.plan.lost_contents = len(lost)
        if lost:
            self.plan.turns = affected_turns(self._store, lost)

    def _take_contents(self, ids: "set[bytes]") -> "tuple[set[bytes], set[bytes]]":
        """Have the copy give these contents, and what is below them; those that are lost, those it gives."""
        if self.source is None or not ids:
            return ids, set()
        had, lacking = self.source.contents(ids, self._blobs, self._is_erased)
        self.taken |= had
        return lacking, had

    def _is_erased(self, id: bytes) -> bool:
        try:
            return self._store.blobs.erased(id) is not None
        except EventLogError:
            return False  # the log is repaired first, and the answer asked for again

    def _plan_rules(self, wrong: "list[RepairStep]") -> None:
        """A new key of fingerprints is made; of the two files of rules one can replace the other."""
        layout = self._layout
        other = {layout.erased: layout.erased_copy, layout.erased_copy: layout.erased}
        for mend in wrong:
            if mend.path in other:
                source = other[mend.path]
                self.back.append((source, mend.path, self._copier.hash(source)))
            if mend.path in (*other, layout.redaction_key):
                self.plan.steps.append(mend)

    def _plan_references(self) -> None:
        """Contents of packs that are gone altogether, once all present packs can be read."""
        try:
            with self._store.view() as view:
                missing = missing_contents(self._blobs, view)
                noted = known_losses(view) if self.source is not None else set()
        except EventLogError:
            return  # the log is to be repaired first
        path = self._layout.directory(PACK_DIR)
        known = {id for id in noted if not self._blobs.contains(id)}
        lost, back = self._take_contents((missing | known) - self.taken)
        if back:
            what = f"{len(back)} contents that events name are in no pack"
            self._step(NAMED, path, what, "they are taken from the copy")
        lost -= known
        if lost and all(step.kind == NAMED for step in self.plan.steps):
            what = f"{len(lost)} contents that events name are in no pack"
            self.is_about_contents = True
            self._step(NAMED, path, what, NOTED)
            self.plan.lost_contents += len(lost)
            self.plan.turns = sorted({*self.plan.turns, *affected_turns(self._store, lost)})


def _of(findings: "list[Finding]", *kinds: str) -> "list[RepairStep]":
    """The steps of these kinds that findings carry."""
    mends = (finding.mend for finding in findings)
    return list(dict.fromkeys(mend for mend in mends if mend is not None and mend.kind in kinds))
