"""A finding: what a check noticed in a file, and which repair mends it (docs/damage.md §4).

The words of a finding are a format: a repair notes accepted findings by them (`repair_notes.py`).
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from eventlog.base.errors import EventLogError, LockTimeout, Unsupported

QUICK, READ, DEEP = "quick", "read", "deep"

# What a repair does. Files of the kinds in ASIDE are set aside.
SEGMENT, PACK, MANIFEST, JOURNAL, IDX = "segment", "pack", "manifest", "journal", "idx"
RULES = "rules"  # files that keep secrets and erased texts out
RESTORE = "restore"  # the journal of a restore that did not finish
MISSING = "missing"  # a file that should be there
FRAMES = "frames"  # bytes inside of a journal: sealing sets them aside
NAMED = "named"  # a loss, which is noted as known
ASIDE = (SEGMENT, PACK, MANIFEST, JOURNAL, IDX, RULES, RESTORE)

NOTED = "noted as known, so that verify reports only new damage"


@dataclass(frozen=True, slots=True)
class RepairStep:
    """One file that is to be set aside, or made where one is missing: the repair that mends a finding.

    `then` is empty in a finding where only a plan can know it.
    """

    kind: str
    path: str
    what: str  # is wrong with it
    then: str = ""  # what becomes of its content


@dataclass(frozen=True, slots=True)
class Finding:
    """What is wrong with which file and what to do next, and at which byte if known.

    `damage` is False for what does no harm and is only worth knowing; `mend` is None where no repair helps,
    and the damage can only be accepted.
    """

    path: str
    what: str
    offset: "int | None" = None
    damage: bool = True
    mend: "RepairStep | None" = None

    def __str__(self) -> str:
        where = self.path if self.offset is None else f"{self.path} at byte {self.offset}"
        return f"{where}: {self.what}"

    def figures(self) -> "dict[str, str | int | None]":
        """For JSON."""
        return {"path": self.path, "what": self.what, "offset": self.offset, "damage": self.damage}


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
