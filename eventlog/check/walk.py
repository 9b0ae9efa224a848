"""One walk over a store: each part is looked at by one checker, and its findings carry their repair.

`locus store verify` shows the findings, `locus doctor` those of the quick level, and a repair plans from
those of `FILES` (docs/damage.md §4). Reads only, beside any process.
"""

from collections.abc import Callable, Iterable, Iterator

from eventlog.base.errors import EventLogError
from eventlog.base.fs import FileSystem
from eventlog.base.layout import Layout
from eventlog.blobs.store import BlobStore
from eventlog.blobs.verify import verify as verify_contents
from eventlog.log import sweep
from eventlog.log.finding import DEEP, QUICK, READ, Finding, as_far_as_readable
from eventlog.log.reader import LogView
from eventlog.log.repair_notes import after_acceptance
from eventlog.log.verify import LogCheck
from eventlog.log.verify_rules import verify_rules

Progress = Callable[[int, int], None]

# The parts that are checked by their own bytes.
FILES = ("log", "contents", "rules")


class StoreWalk:
    """One walk at one level. `log` has, after `findings`, what was read of the log's files."""

    def __init__(
        self,
        blobs: BlobStore,
        open_view: Callable[[], LogView],
        level: str,
        progress: "Progress | None" = None,
    ) -> None:
        """Raises: ValueError for another level than `quick`, `read` and `deep`."""
        if level not in (QUICK, READ, DEEP):
            raise ValueError(f"level is {QUICK!r}, {READ!r} or {DEEP!r}, not {level!r}")
        self.fs: FileSystem = blobs.fs
        self.layout: Layout = blobs.layout
        self.blobs = blobs
        self.open_view = open_view
        self.level = level
        self.progress = progress
        self.log = LogCheck(blobs.files, QUICK if level == QUICK else READ)
        self.damaged: set[bytes] = set()  # contents of which a copy is bad

    def findings(self, parts: "Iterable[str] | None" = None) -> list[Finding]:
        """Everything wrong with these parts, or with all, but what was accepted.

        Raises: Unsupported, LockTimeout, OSError.
        """
        findings = [
            finding
            for part, (deep_only, check) in _CHECKERS.items()
            if (not deep_only or self.level == DEEP) and (parts is None or part in parts)
            for finding in check(self)
        ]
        return after_acceptance(self.layout.root, findings, self.open_view)


def _of_rules(walk: StoreWalk) -> Iterator[Finding]:
    try:
        view = None if walk.level == QUICK else walk.open_view()
    except EventLogError:
        view = None  # the log's own check has reported why
    try:
        findings = verify_rules(walk.fs, walk.layout, walk.blobs.store_id, view)
        yield from as_far_as_readable(findings, walk.layout.root)
    finally:
        if view is not None:
            view.close()


def _of_meaning(walk: StoreWalk) -> Iterator[Finding]:
    return as_far_as_readable(_meanings(walk), walk.layout.root)


def _meanings(walk: StoreWalk) -> Iterator[Finding]:
    from eventlog.blobs.closure import verify_references
    from eventlog.log.verify_events import verify_events, verify_numbering
    from eventlog.projections.verify import verify_ids, verify_index

    try:
        view = walk.open_view()
    except EventLogError:
        return  # the log's own check has reported why; without it nothing can be checked
    with view:
        yield from verify_events(view, walk.progress)
        yield from verify_numbering(view)
        yield from verify_ids(walk.fs, walk.layout, view)
        yield from verify_index(walk.fs, walk.layout, view)
        yield from verify_references(walk.blobs, view, walk.damaged)


def _strays(walk: StoreWalk) -> Iterator[Finding]:
    for path in sweep.strays(walk.fs, walk.layout):
        what = "a process that died left it here; maintenance removes it when nobody writes."
        yield Finding(path, what, damage=False)


# Each part of a store: whether it is checked at the deep level only, and by what.
_CHECKERS: dict[str, tuple[bool, Callable[[StoreWalk], Iterable[Finding]]]] = {
    "log": (False, lambda walk: walk.log.findings()),
    "contents": (False, lambda walk: verify_contents(walk.blobs, walk.level, walk.damaged)),
    "rules": (False, _of_rules),
    "meaning": (True, _of_meaning),
    "strays": (True, _strays),
}
