"""Setting aside what does not verify, so that the store is usable again without it.

A plan first (`damage.py`), then the plan, carried out. Nothing is deleted: every file that leaves its place
gets a name in `log/quarantine` first, with a `.json` that says why (I10). What stands in damaged files and
still verifies stays in the store: row groups of a segment, contents of a pack. Positions whose events are
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
from eventlog.base.fs import FileSystem, publish, translate_os_errors
from eventlog.base.layout import IDX_DIR, INDEX_DIR, JOURNAL_DIR, QUARANTINE_DIR, SEGMENT_DIR, parse_pack
from eventlog.base.locks import APPEND, GC, MAINTAIN, acquire
from eventlog.blobs.catalog import Catalog
from eventlog.blobs.closure import missing_contents
from eventlog.blobs.pack import TREE
from eventlog.blobs.writer import BlobWriter
from eventlog.log import manifest as manifests
from eventlog.log.accepted import accept_events, is_quarantined
from eventlog.log.frame import NO_DIGEST, JournalHeader, encode_header
from eventlog.log.known_losses import loss_events
from eventlog.log.manifest import DamagedRange, SegmentEntry
from eventlog.log.segment import SCHEMA, SegmentMeta, check_equal, encode_segment
from eventlog.log.verify import Finding
from eventlog.maintenance.copying import Copier
from eventlog.repair import readable_parts
from eventlog.repair.damage import (
    ASIDE,
    MISSING,
    NAMED,
    PACK,
    SEGMENT,
    Damage,
    LogRange,
    RepairPlan,
    RepairStep,
    entry_of,
)
from eventlog.store import Store
from eventlog.worktree.statcache import raise_generation

_PACK_BYTES = 64 << 20


@dataclass(slots=True)
class RepairReport:
    """What was done: `moved` are names in quarantine; `accepted` is noted in the log as known, and
    `remaining` is what `verify` still finds."""

    moved: list[str] = field(default_factory=list)
    accepted: list[Finding] = field(default_factory=list)
    remaining: list[Finding] = field(default_factory=list)


def plan_repair(store: Store, *, copy: "str | None" = None, accept: bool = False) -> RepairPlan:
    """What is wrong and what a repair would do about it; changes nothing.

    Args: copy: a backup of this store, from which files that are whole there are brought back; accept: what
    cannot be mended is to be noted as known, so it is part of the plan.
    Raises: Unsupported, EventLogError when the disk refuses.
    """
    with translate_os_errors(store.layout.root, "look for damage"):
        plan = Damage(store, copy).look()
        if accept and not plan.steps:
            plan.steps += [
                RepairStep(NAMED, one.path, one.what, "accepted as it is") for one in _unmended(store)
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
    """Carry out a plan. Args: accept_older: agree to what `plan.older` says; accept: as it was planned with.

    Raises: Refused (the store changed since the plan, `plan.older` is not agreed to, or a file could not be
    read and `accept` is not set), LockTimeout, NotDurable.
    """
    if plan.older is not None and not accept_older:
        raise Refused(f"{plan.older} If that is acceptable, repair with --accept-older.")
    if any(step.kind == SEGMENT for step in plan.steps):
        # What the tail is numbered by may stand in a segment that goes: as far as that can still be read,
        # numbers are kept by sealing the tail in front of it.
        _try_seal(store)
    with translate_os_errors(store.layout.root, "repair the store", NotDurable):
        found = Damage(store, copy)
        now = found.look()
        if _moves(now) != _moves(plan):
            raise Refused(
                f"{store.layout.root}: what is damaged is not what it was when the plan was made. Nothing "
                "was changed; look at a new plan, then try again."
            )
        for path, why in now.unread.items() if not accept else ():
            raise Refused(
                f"{path}: the disk cannot read it ({why}). That may pass, so nothing was set aside. Check "
                "the disk, then try again; where it stays so, --accept takes what it held for lost."
            )
        report = RepairReport(_Repair(store, found).act(lock_timeout_s) if now.steps else [])
    store.close()  # what it knew of packs and journals is not so any more
    _try_seal(store)  # takes the bad bytes of journals to quarantine
    with translate_os_errors(store.layout.root, "repair the store", NotDurable):
        _note_as_known(store, lock_timeout_s)
        if found.is_about_contents:
            _note_lost_contents(store)
        report.accepted = _accept(store, [f for f in store.verify() if is_quarantined(store.layout.root, f)])
        if accept:
            report.accepted += _accept(store, _unmended(store))
    report.remaining = [one for one in store.verify("deep" if accept else "read") if one.damage]
    return report


def _unmended(store: Store) -> "list[Finding]":
    """What stays as it is whatever a repair does; what is derived is made anew instead."""
    derived = (store.layout.directory(INDEX_DIR), store.layout.directory(IDX_DIR))
    return [one for one in store.verify("deep") if one.damage and not one.path.startswith(derived)]


def _accept(store: Store, findings: "list[Finding]") -> "list[Finding]":
    """Note in the log that these are known; those that were."""
    try:
        for event in accept_events(store.layout.root, findings):
            store.append_rows([event])
    except Corruption:
        return []  # they remain, and are told
    return findings


def _note_as_known(store: Store, lock_timeout_s: float) -> None:
    """Losses that the plan has named, and that the newest manifest names with a journal, get journal 0."""
    fs, layout, store_id = store.fs, store.layout, store.identity.store_id
    with acquire(fs, layout, MAINTAIN, timeout_s=lock_timeout_s):
        try:
            current = manifests.read_current(fs, layout, store_id)
        except Corruption:
            return  # it remains, and is told
        if any(lost.journal for lost in current.damaged):
            known = tuple(replace(lost, journal=0) for lost in current.damaged)
            parent = manifests.digest_of(current)
            following = replace(current, number=current.number + 1, parent=parent, damaged=known)
            manifests.commit(fs, layout, following)


def _note_lost_contents(store: Store) -> None:
    """Contents that the log names and no pack has any more are lost; the log says so from here on."""
    try:
        with store.view() as view:
            missing = missing_contents(store.blobs, view)
    except Corruption:
        return  # it remains, and is told
    if missing:
        store.append_rows(loss_events(missing))


def _try_seal(store: Store) -> None:
    try:
        store.seal()
    except EventLogError:
        pass  # verify names what keeps it from its work


class _Rescue(Catalog):
    """Takes what only damaged packs hold for missing, so that a writer stores it again."""

    __slots__ = ("wanted",)

    wanted: set[bytes]

    def has(self, id: bytes) -> bool:
        return id not in self.wanted and super().has(id)


class _Repair:
    """Does what was found to be needed."""

    def __init__(self, store: Store, found: Damage) -> None:
        self._found = found
        self._fs = store.fs
        self._reading = cast(FileSystem, found.patient)
        self._layout = store.layout
        self._id = store.identity.store_id
        self._copier = Copier(store.fs, store.layout)

    def act(self, lock_timeout_s: float) -> list[str]:
        """Do what `look` found; names in quarantine."""
        fs, layout = self._fs, self._layout
        set_aside = [step for step in self._found.plan.steps if step.kind in ASIDE]
        moved = [self._set_aside(step) for step in set_aside]
        fs.fsync_dir(layout.directory(QUARANTINE_DIR))
        if self._found.bad_packs:
            self._rescue_contents(lock_timeout_s)
        with ExitStack() as held:
            for name in (GC, MAINTAIN, APPEND):
                held.enter_context(acquire(fs, layout, name, timeout_s=lock_timeout_s))
            if manifests.numbers(fs, layout) != self._found.numbers:
                raise Refused("the log was sealed since the plan was made; look at a new plan")
            self._copier.clean()
            if self._found.plan.lost_contents or self._found.bad_packs:
                raise_generation(fs, layout)
            back = {target for _, target, _ in self._found.back}
            for source, target, digest in self._found.back:
                if self._copier.copy(source, target) != digest:
                    raise Refused(f"{source} changed while it was copied; look at a new plan")
                fs.fsync_dir(os.path.dirname(target))
            self._place_journals()
            listed = self._commit() if self._found.new_log else []
            kept = back | {layout.journal(number) for number, _, _ in self._found.stubs}
            kept |= {layout.segment(entry.name) for entry in listed}
            for step in set_aside:
                if step.path not in kept and not self._is_whole_pack(step):
                    fs.unlink(step.path)
                    fs.fsync_dir(os.path.dirname(step.path))
        return moved

    def _is_whole_pack(self, step: RepairStep) -> bool:
        """What was rescued may be all that a pack held, and then has taken its place."""
        if step.kind != PACK:
            return False
        try:
            return readable_parts.hash_of(self._fs, step.path) == parse_pack(os.path.basename(step.path))
        except OSError:
            return False

    def _rescue_contents(self, lock_timeout_s: float) -> None:
        """What verifies in damaged packs goes into a pack of its own before they leave."""
        catalog = _Rescue(self._fs, self._layout, self._id)
        catalog.wanted = self._found.rescuable
        done: set[bytes] = set()
        writer = BlobWriter(
            self._fs, self._layout, self._id, catalog,
            codec="zlib", level=None, group_bytes=None, lock_timeout_s=lock_timeout_s,
        )  # fmt: skip
        with writer:
            for path in self._found.bad_packs:
                try:
                    found = readable_parts.ReadablePack(path)
                    for id, kind, data in readable_parts.contents(self._reading, path, found):
                        if id not in self._found.rescuable or id in done:
                            continue
                        done.add(id)
                        if kind == TREE:
                            writer.put_encoded_tree(data)
                        else:
                            writer.put(data)
                        if writer.pending_bytes() >= _PACK_BYTES:
                            writer.flush()
                except OSError:
                    if path not in self._found.plan.unread:
                        raise  # it was read when the plan was made: what it holds is not lost yet
            writer.flush()
        catalog.close()

    def _set_aside(self, step: RepairStep) -> str:
        """Give a file a second name in quarantine, with the reason beside it."""
        fs = self._fs
        name = os.path.basename(step.path)
        same = [n for n in fs.listdir(self._layout.directory(QUARANTINE_DIR)) if n.startswith(name)]
        kept = f"{name}.{len(same) // 2 + 1}" if same else name
        why = {"path": step.path, "kind": step.kind, "reason": step.what, "at": fs.time_ns() // 1000}
        tmp = self._layout.tmp(f"seal-aside-{fs.random_bytes(8).hex()}")
        publish(fs, tmp, self._layout.quarantine(f"{kept}.json"), jsontext.encode(why) + b"\n")
        fs.link(step.path, self._layout.quarantine(kept))
        return kept

    def _place_journals(self) -> None:
        for number, base, _ in sorted(self._found.stubs, reverse=True):
            header = JournalHeader(self._id, number, base, NO_DIGEST, self._fs.random_bytes(32), bytes(16))
            self._copier.write(self._layout.journal(number), encode_header(header))
            self._fs.fsync_dir(self._layout.directory(JOURNAL_DIR))

    def _commit(self) -> list[SegmentEntry]:
        """The new manifest, behind every number that is there."""
        segments: list[SegmentEntry] = []
        for place in self._found.places:
            segments.append(place.entry or self._publish(place))
        number = (self._found.numbers[-1] if self._found.numbers else 0) + 1
        parent = manifests.digest_of(self._found.base) if self._found.base.number else None
        lost = [DamagedRange(base, end, 0) for base, end in self._sealed_losses()]
        listed = {entry.name for entry in segments}
        manifests.commit(
            self._fs,
            self._layout,
            replace(
                self._found.base,
                number=number,
                parent=parent if number == 1 or parent else "0" * 64,
                next_position=segments[-1].end if segments else 0,
                next_journal=self._found.next_journal,
                segments=tuple(segments),
                damaged=(*self._found.base.damaged, *lost),
                superseded=tuple(one for one in self._found.base.superseded if one.name not in listed),
            ),
        )
        return segments

    def _sealed_losses(self) -> list[tuple[int, int]]:
        end = self._found.places[-1].end if self._found.places else 0
        return [(base, min(until, end)) for base, until in self._found.plan.lost if base < end]

    def _publish(self, place: LogRange) -> SegmentEntry:
        """A segment of what can be read of a damaged one; without rows when that is nothing."""
        fs, layout = self._fs, self._layout
        readable = list(readable_parts.tables(self._reading, place.rows)) if place.rows is not None else []
        events = pa.concat_tables([SCHEMA.empty_table(), *readable]).combine_chunks()
        meta = SegmentMeta(self._id, place.base, place.end, place.dropped)
        data = encode_segment(events, meta)
        digest = blake3(data).hexdigest()
        entry = entry_of(meta, digest, len(data), iter((events,)))
        path = layout.segment(entry.name)
        check_equal(data, events, path)
        try:
            publish(fs, layout.tmp(f"seal-repair-{place.base}"), path, data)
        except FileExistsError:
            # All of it could be read, so these are its own bytes as they were; or a repair was cut short.
            self._copier.write(path, data)
            fs.fsync_dir(layout.directory(SEGMENT_DIR))
        return entry


def _moves(plan: RepairPlan) -> list[tuple[str, str]]:
    return [(step.kind, step.path) for step in plan.steps if step.kind in (*ASIDE, MISSING)]
