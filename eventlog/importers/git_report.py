"""What an import of a git history did, as plain data."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class GitImportReport:
    """What one import did. Of `commits + skipped` commits, `skipped` were in the log before.

    `provisional`: the clone is shallow, so `repo` and the sessions are counted from its oldest
    commits, not from the root. `missing`: (path, reason) of what could not be captured. `withheld`: contents
    of which this import was the first to say that they hold a secret. `rewritten`: turns of commits that no
    line reaches any more, found to be so now. `recorded_again`: of `commits` those that were recorded before
    from a clone without their parent. `other_parents`: commits that merges brought to the line, and that
    were not asked for.
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
