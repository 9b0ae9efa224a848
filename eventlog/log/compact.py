"""Compaction: a run of neighbouring segments becomes one, so that a store in use has few of them.

`compact` may be called by any number of processes at once, beside appenders, readers and sealers. The work
is done under a lock of its own, `compact`; `maintain` is taken for the commit alone, so no sealer
waits for it. Upholds I14–I18, I31–I33. docs/maintenance.md §2 has the protocol.

The inputs are pinned while they are read. The commit insists that they are still listed, all and as they
were, so a change of another process is never undone. They stay on the disk for readers of older manifests,
and go when a later call finds that nobody pins one that lists them. A crash leaves a file in `tmp/`, which
the next holder of `compact` removes, or a segment that no manifest lists, which the next commit of the same
run adopts and sealing removes.

Importing this module imports no pyarrow: every command asks whether there is something to merge.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from eventlog.base.errors import Corruption, Unsupported
from eventlog.base.fs import translate_os_errors
from eventlog.base.layout import SEGMENT_DIR, StoreFiles
from eventlog.base.locks import COMPACT, MAINTAIN, acquire
from eventlog.log import manifest as manifests
from eventlog.log import pins
from eventlog.log.manifest import MANIFESTS_KEPT, Manifest, SegmentEntry, Superseded
from eventlog.log.reader import open_view

Run = tuple[SegmentEntry, ...]

# A run is merged from this length on: fewer files cost a reader little, and the longer one waits, the less
# often an event is rewritten.
RUN_MIN = 8

# A larger segment would be of no use; one over half of this size would gain nothing by being rewritten.
RESULT_BYTES_MAX = 512 << 20
_FULL_BYTES = RESULT_BYTES_MAX // 2

# What a reader does that pins nothing, such as a copy of the directory, is over by then.
GRACE_S = 60

TMP_PREFIX = "compact-"


@dataclass(slots=True)
class CompactReport:
    """What a call of `compact` did. Bytes and counts are those of segments that were merged."""

    segments: list[str] = field(default_factory=list)  # names of the results
    merged: int = 0
    events: int = 0
    bytes_before: int = 0
    bytes_after: int = 0
    removed: list[str] = field(default_factory=list)  # superseded earlier, and gone
    waiting: int = 0  # superseded segments that are still there

    def figures(self) -> dict[str, Any]:
        """Counts and bytes, for the event."""
        counted = {name: len(value) for name, value in asdict(self).items() if isinstance(value, list)}
        return asdict(self) | counted


def mergeable_run(segments: Sequence[SegmentEntry]) -> Run:
    """The newest segments that are worth merging, empty when none are.

    From the newest to the oldest, each must be smaller than twice what is newer than it in the run. So an
    event is rewritten only when the bytes that it is rewritten with have grown by half.
    """
    run: list[SegmentEntry] = []
    size = 0
    for entry in reversed(segments):
        if not _fits(entry, size) or (run and entry.bytes >= 2 * size):
            break
        run.append(entry)
        size += entry.bytes
    return tuple(reversed(run)) if len(run) >= RUN_MIN else ()


def all_runs(segments: Sequence[SegmentEntry]) -> list[Run]:
    """All segments in as few runs as the size of a result allows, those of a single one left out."""
    runs: list[list[SegmentEntry]] = [[]]
    size = 0
    for entry in segments:
        if not _fits(entry, size):
            runs.append([])
            size = 0
        if _fits(entry, size):
            runs[-1].append(entry)
            size += entry.bytes
    return [tuple(run) for run in runs if len(run) > 1]


def _fits(entry: SegmentEntry, size: int) -> bool:
    return entry.bytes < _FULL_BYTES and size + entry.bytes <= RESULT_BYTES_MAX


def mergeable_bytes(files: StoreFiles) -> "int | None":
    """How many bytes `compact` would merge; 0 when it would only remove superseded files, None for no work.

    Raises: Corruption, Unsupported, OSError.
    """
    names = files.fs.listdir(files.layout.directory(SEGMENT_DIR))
    if len(names) < 2:
        return None
    current = manifests.read_current(files)
    run = mergeable_run(current.segments)
    return _bytes(run) if run or _outlived(files, current, names) else None


def compact(files: StoreFiles, *, everything: bool = False, lock_timeout_s: float = 10.0) -> CompactReport:
    """Merge the newest segments if that is worth it, or with `everything` all; remove superseded files.

    Raises: LockTimeout, Corruption (an input is damaged; it is left as it is), Unsupported, EventLogError.
    Whatever was committed before stays.
    """
    report = CompactReport()
    with (
        acquire(files.fs, files.layout, COMPACT, timeout_s=lock_timeout_s),
        translate_os_errors(files.layout.root, "compact the log"),
    ):
        manifests.remove_temporary(files, TMP_PREFIX)
        with open_view(files) as view:
            segments = view.manifest.segments
            runs = all_runs(segments) if everything else [mergeable_run(segments)]
            for run in runs:
                if run:
                    _compact_run(files, run, lock_timeout_s, report)
        _clean_up(files, lock_timeout_s, report)
    return report


def _bytes(run: Run) -> int:
    return sum(entry.bytes for entry in run)


def _compact_run(files: StoreFiles, run: Run, lock_timeout_s: float, report: CompactReport) -> None:
    from eventlog.log.merge import merge

    fs = files.fs
    tmp = files.layout.tmp(f"{TMP_PREFIX}{run[0].base}")
    try:
        entry = merge(files, run, tmp)
        with acquire(fs, files.layout, MAINTAIN, timeout_s=lock_timeout_s):
            if not _commit(files, run, entry, tmp):
                return
    finally:
        try:
            fs.unlink(tmp)
        except OSError:
            pass  # the next holder of the lock removes it
    report.segments.append(entry.name)
    report.merged += len(run)
    report.events += entry.rows
    report.bytes_before += _bytes(run)
    report.bytes_after += entry.bytes


def _commit(files: StoreFiles, run: Run, entry: SegmentEntry, tmp: str) -> bool:
    """List `entry` in place of `run`; False when the manifest does not list these any more."""
    manifests.remove_temporary(files)
    current = manifests.read_current(files)
    index = next((i for i, listed in enumerate(current.segments) if listed == run[0]), 0)
    if current.segments[index : index + len(run)] != run:
        return False
    publish_segment(files, entry, tmp)
    number = current.number + 1
    needed = [s for s in current.superseded if _is_of_use(files, s, number)]
    following = manifests.following(
        current,
        segments=(*current.segments[:index], entry, *current.segments[index + len(run) :]),
        superseded=(*needed, *(Superseded(old.name, number) for old in run)),
    )
    manifests.commit(files, following)
    return True


def publish_segment(files: StoreFiles, entry: SegmentEntry, tmp: str) -> None:
    """Give the durable file at `tmp` its name. No manifest lists the name: its range is new."""
    from eventlog.log.merge import digest_of

    fs = files.fs
    path = files.layout.segment(entry.name)
    try:
        fs.link(tmp, path)
    except FileExistsError:
        # A run that died before its commit made it; it may have died before its sync of the name.
        if digest_of(fs, path) != entry.blake3:
            fs.unlink(path)
            fs.link(tmp, path)
    fs.fsync_dir(files.layout.directory(SEGMENT_DIR))


def _is_of_use(files: StoreFiles, item: Superseded, number: int) -> bool:
    """Whether manifest `number` needs to name it: for its file, or for an index made from it."""
    return item.since > number - MANIFESTS_KEPT or files.fs.exists(files.layout.segment(item.name))


# Cleaning up: superseded segments, under `maintain`.


def _clean_up(files: StoreFiles, lock_timeout_s: float, report: CompactReport) -> None:
    fs = files.fs
    names = fs.listdir(files.layout.directory(SEGMENT_DIR))
    current = manifests.read_current(files)
    if _outlived(files, current, names):
        with acquire(fs, files.layout, MAINTAIN, timeout_s=lock_timeout_s):
            current = manifests.read_current(files)
            report.removed += _remove_superseded(files, current)
    remaining = set(names) - set(report.removed)
    report.waiting = sum(item.name in remaining for item in current.superseded)


def _remove_superseded(files: StoreFiles, current: Manifest) -> list[str]:
    """Unlink superseded segments that no reader can be using (I17); their names."""
    fs, layout = files.fs, files.layout
    names = _outlived(files, current, fs.listdir(layout.directory(SEGMENT_DIR)))
    with pins.held(files, current.number) as older:
        for number in older.pinned:
            try:
                pinned = manifests.read_numbered(files, number)
            except (Corruption, Unsupported):
                return []  # what its reader needs is unknown
            names = [name for name in names if all(name != entry.name for entry in pinned.segments)]
        for name in names:
            fs.unlink(layout.segment(name))
        if names:
            fs.fsync_dir(layout.directory(SEGMENT_DIR))
    return names


def _outlived(files: StoreFiles, current: Manifest, names: Sequence[str]) -> list[str]:
    """Those of the files `names` that were superseded GRACE_S ago, by the age of the manifest that did it."""
    fs = files.fs
    present = set(names)
    now_s = fs.time_ns() / 1e9
    ages: dict[int, float] = {}
    for item in current.superseded:
        if item.name in present and item.since not in ages:
            try:
                ages[item.since] = now_s - fs.stat(files.layout.manifest(item.since)).st_mtime
            except FileNotFoundError:
                ages[item.since] = GRACE_S  # expired long since
    return [s.name for s in current.superseded if s.name in present and ages[s.since] >= GRACE_S]
