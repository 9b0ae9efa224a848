"""The report of an import of a git history, as plain data."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class GitImportReport:
    """The result of one import. Of `commits + skipped` commits, `skipped` were in the log before.

    `provisional`: the clone is shallow, so `repo` and the sessions are counted from its oldest commits, not
    from the root. `missing`: (path, reason) of files that could not be captured. `withheld`: contents that
    this import was the first to record as holding a secret. `rewritten`: turns of commits that this import
    found on no line any more. `recorded_again`: those of `commits` that were recorded before from a clone
    without their parent. `other_parents`: commits that merges brought to the line and that were not
    requested.
    """

    repo: str
    head: str
    commits: int
    skipped: int
    events: int
    blobs: int
    sessions: int
    provisional: bool
    missing: tuple[tuple[str, str], ...]
    withheld: int = 0
    rewritten: int = 0
    recorded_again: int = 0
    other_parents: int = 0
