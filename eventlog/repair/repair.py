"""Setting aside what does not verify, so that the store is usable again without it.

`plan.py` makes the plan; this module carries it out. Nothing is deleted: every file that leaves its
directory gets a name in `log/quarantine` first, with the reason in a `.json` (I10). Parts of damaged files
that still verify stay in the store: row groups of a segment, contents of a pack. Positions whose events are
lost are named in the new manifest as `damaged` with journal 0.

It holds `gc`, `maintain` and `append` while it acts. Killed anywhere, the store is in the state before or
has its new manifest, and the next repair finishes (I12): the old manifest lists files that are there under
both of their names, the new one none of those that go.
"""

import os
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from typing import cast

import pyarrow as pa
from blake3 import blake3

from eventlog.base import jsontext
from eventlog.base.errors import Corruption, EventLogError, NotDurable, Refused
from eventlog.base.fs import FileSystem, hash_file, publish, translate_os_errors
from eventlog.base.layout import IDX_DIR, INDEX_DIR, JOURNAL_DIR, QUARANTINE_DIR, SEGMENT_DIR, parse_pack
from eventlog.base.locks import APPEND, GC, MAINTAIN, acquire
from eventlog.blobs.closure import missing_contents
from eventlog.log import manifest as manifests
from eventlog.log.finding import ASIDE, JOURNAL, MISSING, NAMED, PACK, SEGMENT, Finding, RepairStep
from eventlog.log.manifest import DamagedRange, SegmentEntry
from eventlog.log.repair_notes import accept_events, is_quarantined, known_losses, loss_events
from eventlog.log.segment import SCHEMA, SegmentMeta, check_equal, encode_segment
from eventlog.log.segment_file import entry_of
from eventlog.log.verify import spelled
from eventlog.maintenance.copying import Copier
from eventlog.repair import readable_parts
from eventlog.repair.copy_source import CopySource, used
from eventlog.repair.plan import LogRange, Planner, RepairPlan
from eventlog.store import Store
from eventlog.worktree.statcache import raise_generation


@dataclass(slots=True)
class RepairReport:
    """What was done: `moved` are names in quarantine; `accepted` is noted in the log as known, and
    `remaining` is what `verify` still reports."""

    moved: list[str] = field(default_factory=list)
    accepted: list[Finding] = field(default_factory=list)
    remaining: list[Finding] = field(default_factory=list)

    def figures(self) -> "dict[str, object]":
        """For JSON."""
        accepted, remaining = (
            [f.figures() for f in findings] for findings in (self.accepted, self.remaining)
        )
        return {"moved": self.moved, "accepted": accepted, "remaining": remaining}


def plan_repair(store: Store, *, copy: "str | None" = None, accept: bool = False) -> RepairPlan:
    """What is wrong and what a repair would do about it; changes nothing.

    Args: copy: a backup of this store, from which files that are whole there are brought back; accept: what
    cannot be mended is to be noted as known, so it is part of the plan.
    Raises: Unsupported, EventLogError when the disk refuses.
    """
    with translate_os_errors(store.layout.root, "look for damage"):
        plan = Planner(store, copy).make()
        if accept and not plan.steps:
            plan.steps += [
                RepairStep(NAMED, finding.path, finding.what, "accepted as it is")
                for finding in _unmended(store)
            ]
        return plan


def repair(
    store: Store,
    plan: RepairPlan,
    *,
    copy: "str | None" = None,
    accept_older: bool = False,
    accept: bool = False,
    lock_timeout_s: float = 10.0,
) -> RepairReport:
    """Carry out a plan. Args: accept_older: agree to `plan.older`; accept: as it was planned with.

    Raises: Refused (the store changed since the plan, `plan.older` is not agreed to, or a file could not be
    read and `accept` is not set), LockTimeout, NotDurable.
    """
    if plan.older is not None and not accept_older:
        raise Refused(f"{plan.older} If that is acceptable, repair with --accept-older.")
    if any(step.kind == SEGMENT for step in plan.steps) and not any(s.kind == JOURNAL for s in plan.steps):
        # The numbers of the tail may depend on a segment that goes: as far as it can still be read, sealing
        # the tail before preserves them.
        _try_seal(store)
    with translate_os_errors(store.layout.root, "repair the store", NotDurable):
        planner = Planner(store, copy)
        current = planner.make()
        if _moves(current) != _moves(plan):
            raise Refused(
                f"{store.layout.root}: what is damaged is not what it was when the plan was made. Nothing "
                "was changed; make a new plan, then try again."
            )
        for path, why in current.unread.items() if not accept else ():
            raise Refused(
                f"{path}: the disk cannot read it ({why}). That may pass, so nothing was set aside. Check "
                "the disk, then try again; where it stays so, --accept takes what it held for lost."
            )
        if current.held and not accept:
            raise Refused(
                f"{copy}: it has the events at {spelled(current.held)}, but {current.held_why}. Nothing was "
                "changed. `locus --store COPY log` shows them; repair without --from to go on without them."
            )
        report = RepairReport(_Repair(store, planner).act(lock_timeout_s) if current.steps else [])
    store.close()  # its state of packs and journals is out of date
    _try_seal(store)  # takes the bad bytes of journals to quarantine
    with translate_os_errors(store.layout.root, "repair the store", NotDurable):
        _note_as_known(store, lock_timeout_s)
        if planner.source is not None:
            _bring_contents(store, planner.source, planner.taken, lock_timeout_s)
        if planner.is_about_contents:
            _note_lost_contents(store)
        report.accepted = _accept(store, [f for f in store.verify() if is_quarantined(store.layout.root, f)])
        if accept:
            report.accepted += _accept(store, _unmended(store))
    report.remaining = [finding for finding in store.verify("deep" if accept else "read") if finding.damage]
    return report


def _unmended(store: Store) -> "list[Finding]":
    """The damage that no repair mends; derived files are rebuilt instead."""
    derived = (store.layout.directory(INDEX_DIR), store.layout.directory(IDX_DIR))
    return [
        finding for finding in store.verify("deep") if finding.damage and not finding.path.startswith(derived)
    ]


def _accept(store: Store, findings: "list[Finding]") -> "list[Finding]":
    """Note in the log that these are known; the findings that were noted."""
    try:
        for event in accept_events(store.layout.root, findings):
            store.append_rows([event])
    except Corruption:
        return []  # they remain, and are reported
    return findings


def _note_as_known(store: Store, lock_timeout_s: float) -> None:
    """Give journal 0 to losses that the plan has named and the newest manifest names with a journal."""
    with acquire(store.fs, store.layout, MAINTAIN, timeout_s=lock_timeout_s):
        try:
            current = manifests.read_current(store.files)
        except Corruption:
            return  # it remains, and is reported
        if any(lost.journal for lost in current.damaged):
            damaged = tuple(replace(lost, journal=0) for lost in current.damaged)
            manifests.commit(store.files, manifests.following(current, damaged=damaged))


def _note_lost_contents(store: Store) -> None:
    """Note in the log the contents that it names and no pack has any more."""
    try:
        with store.view() as view:
            missing = missing_contents(store.blobs, view)
    except Corruption:
        return  # it remains, and is reported
    if missing:
        store.append_rows(loss_events(missing))


def _bring_contents(store: Store, source: CopySource, wanted: "set[bytes]", lock_timeout_s: float) -> None:
    """Store the contents of the copy that events name, or a damaged pack held, and no pack has."""
    try:
        with store.view() as view:
            known = known_losses(view)
            missing = missing_contents(store.blobs, view) | wanted | known
        gone = {id for id in missing if not store.blobs.contains(id)}
        had, _ = source.contents(gone, store.blobs, lambda id: store.blobs.erased(id) is not None)
    except Corruption:
        return  # it remains, and is reported
    try:
        if had:
            with store.blobs.writer(lock_timeout_s=lock_timeout_s) as writer:
                source.save(had, writer)
    finally:
        source.close()


def _try_seal(store: Store) -> None:
    try:
        store.seal()
    except EventLogError:
        pass  # verify reports what prevents it


class _Repair:
    """Carries out the plan of a `Planner`."""

    def __init__(self, store: Store, planner: Planner) -> None:
        self._planner = planner
        self._blobs = store.blobs
        self._fs = store.fs
        self._reading = cast(FileSystem, planner.reader)
        self._layout = store.layout
        self._files = store.files
        self._copier = Copier(store.fs, store.layout)

    def act(self, lock_timeout_s: float) -> list[str]:
        """Carry out the plan; names in quarantine."""
        fs, layout = self._fs, self._layout
        set_aside = [step for step in self._planner.plan.steps if step.kind in ASIDE]
        moved = [self._set_aside(step) for step in set_aside]
        fs.fsync_dir(layout.directory(QUARANTINE_DIR))
        if self._planner.bad_packs:
            self._rescue_contents(lock_timeout_s)
        with ExitStack() as locks:
            for name in (GC, MAINTAIN, APPEND):
                locks.enter_context(acquire(fs, layout, name, timeout_s=lock_timeout_s))
            if manifests.numbers(self._files) != self._planner.log.manifests:
                raise Refused("the log was sealed since the plan was made; make a new plan")
            self._copier.clean()
            if self._planner.plan.lost_contents or self._planner.bad_packs:
                raise_generation(fs, layout)
            back = {target for _, target, _ in self._planner.back}
            for source, target, digest in self._planner.back:
                if self._copier.copy(source, target) != digest:
                    raise Refused(f"{source} changed while it was copied; make a new plan")
                fs.fsync_dir(os.path.dirname(target))
            self._patch_journals()
            self._write_stubs()
            listed = self._commit() if self._planner.new_log else ()
            staying = back | {layout.journal(number) for number, _ in self._planner.stubs}
            staying |= {*self._planner.patched, *(layout.segment(entry.name) for entry in listed)}
            for step in set_aside:
                if step.path not in staying and not self._is_whole_pack(step):
                    fs.unlink(step.path)
                    fs.fsync_dir(os.path.dirname(step.path))
        return moved

    def _is_whole_pack(self, step: RepairStep) -> bool:
        """Whether the pack of the rescued contents has replaced it, because they were all it held."""
        if step.kind != PACK:
            return False
        try:
            return hash_file(self._fs, step.path) == parse_pack(os.path.basename(step.path))
        except OSError:
            return False

    def _rescue_contents(self, lock_timeout_s: float) -> None:
        """Store the contents that verify in damaged packs in a new pack, before these leave."""
        missing = set(self._planner.rescuable)

        def is_wanted(id: bytes) -> bool:
            is_missing = id in missing
            missing.discard(id)
            return is_missing

        with self._blobs.writer(lock_timeout_s=lock_timeout_s) as writer:
            for path in self._planner.bad_packs:
                try:
                    pack = readable_parts.ReadablePack(path)
                    readable_parts.save_contents(self._reading, pack, writer, is_wanted)
                except OSError:
                    if path not in self._planner.plan.unread:
                        raise  # it was readable when the plan was made: its contents are not lost yet
            writer.flush()

    def _set_aside(self, step: RepairStep) -> str:
        """Give a file a second name in quarantine, with the reason beside it."""
        fs = self._fs
        name = os.path.basename(step.path)
        namesakes = [n for n in fs.listdir(self._layout.directory(QUARANTINE_DIR)) if n.startswith(name)]
        quarantine_name = f"{name}.{len(namesakes) // 2 + 1}" if namesakes else name
        why = {"path": step.path, "kind": step.kind, "reason": step.what, "at": fs.time_ns() // 1000}
        tmp = self._layout.tmp(f"seal-aside-{fs.random_bytes(8).hex()}")
        publish(fs, tmp, self._layout.quarantine(f"{quarantine_name}.json"), jsontext.encode(why) + b"\n")
        fs.link(step.path, self._layout.quarantine(quarantine_name))
        return quarantine_name

    def _patch_journals(self) -> None:
        """Write the journals with the frames of the copy; they are in quarantine as they were."""
        for path, (before, data) in sorted(self._planner.patched.items()):
            now = used(self._reading, path) if self._fs.exists(path) else b""
            if now != before:
                raise Refused(f"{path} changed since the plan was made; make a new plan")
            self._copier.write(path, data)
            self._fs.fsync_dir(self._layout.directory(JOURNAL_DIR))

    def _write_stubs(self) -> None:
        for number, base in sorted(self._planner.stubs, reverse=True):
            self._copier.write_stub(self._files.store_id, number, base)
            self._fs.fsync_dir(self._layout.directory(JOURNAL_DIR))

    def _commit(self) -> tuple[SegmentEntry, ...]:
        """The new manifest, after every existing number."""
        log, ranges = self._planner.log, self._planner.ranges
        segments = tuple(log_range.entry or self._publish(log_range) for log_range in ranges)
        listed = {entry.name for entry in segments}
        number = max(log.manifests, default=0) + 1
        parent = manifests.digest_of(log.current) if log.current.number else "0" * 64
        end = ranges[-1].end if ranges else 0
        lost = [
            DamagedRange(base, min(until, end), 0) for base, until in self._planner.plan.lost if base < end
        ]
        new = replace(
            log.current,
            number=number,
            parent=None if number == 1 else parent,
            next_position=end,
            next_journal=self._planner.next_journal,
            segments=segments,
            damaged=(*log.current.damaged, *lost),
            superseded=tuple(item for item in log.current.superseded if item.name not in listed),
        )
        manifests.commit(self._files, new)
        return segments

    def _publish(self, log_range: LogRange) -> SegmentEntry:
        """A segment of the readable rows of a damaged one, perhaps of none."""
        fs, layout = self._fs, self._layout
        readable = (
            list(readable_parts.tables(self._reading, log_range.rows)) if log_range.rows is not None else []
        )
        if self._planner.source is not None:
            for base, end in log_range.taken:
                readable += self._planner.source.log.tables(base, end)
        events = pa.concat_tables([SCHEMA.empty_table(), *readable]).sort_by("position").combine_chunks()
        meta = SegmentMeta(self._files.store_id, log_range.base, log_range.end, log_range.dropped)
        data = encode_segment(events, meta)
        digest = blake3(data).hexdigest()
        entry = entry_of(meta, digest, len(data), (events,))
        path = layout.segment(entry.name)
        check_equal(data, events, path)
        try:
            publish(fs, layout.tmp(f"seal-repair-{log_range.base}"), path, data)
        except FileExistsError:
            # All of it could be read, so these are its own bytes as they were; or a repair was cut short.
            self._copier.write(path, data)
            fs.fsync_dir(layout.directory(SEGMENT_DIR))
        return entry


def _moves(plan: RepairPlan) -> list[tuple[str, str]]:
    return [(step.kind, step.path) for step in plan.steps if step.kind in (*ASIDE, MISSING)]
