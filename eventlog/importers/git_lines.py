"""Which commits of the log no line of their repository reaches any more (docs/adapters.md).

A line is the chain of first parents from a ref; each import records the head that it saw (event `ref`). An
amended commit, or one that a rebase or a reset dropped, was on a line and is on none now. A commit may have
been met on no ref's line: on a detached HEAD, or in a store from before lines were recorded. It is dropped
once git knows it and no ref leads to it. A commit that git does not know is not dropped: it may be in another
clone.

The oldest commit of a shallow clone has no parent there, so all of its files count as added. Once its parent
is present the commit is recorded again, and the earlier turn counts as rewritten.
"""

from typing import TYPE_CHECKING

from eventlog.importers.git_turns import AGENT, KnownCommits
from eventlog.projections.definitions import TURNS_NEWEST_FIRST

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from eventlog.importers.git_objects import GitRepository
    from eventlog.store import Store

_WITHOUT_PARENT = """
select "commit" from events
where event_type = 'snapshot' and operation = 'turn_start' and agent = 'git' and repo = $1
and json_extract_string(payload, '$.git_head') is null
"""
_ORDERED = f"""
select "commit", line_place is null from turns
where agent = 'git' and repo = $1 and rewritten is not true order by {TURNS_NEWEST_FIRST}
"""


def dropped_commits(
    store: "Store", repository: "GitRepository", known: KnownCommits, ref: str, line: "Sequence[str]"
) -> list[str]:
    """The commits that were on a line, or under a ref, and no longer are; in the log's order.

    Args: ref: the name of `line`, empty without one.
    """
    on_line = set(line)
    candidates = [c for c in known.commit_turns if c not in on_line and not known.is_rewritten(c)]
    if not candidates:
        return []
    lines = _Lines(store, repository)
    reached: set[str] = set()
    dropped: set[str] = set()
    for name, (_, head) in known.refs.items():
        if not name:
            continue
        now = line[-1] if name == ref else repository.find(name)
        if now is not None:
            dropped.update(lines.of(head))
            reached.update(lines.of(now) if name != ref else ())
        elif not repository.holds(head):
            reached.update(lines.of(head))  # a branch of another clone, as far as is known here
    candidates = [commit for commit in candidates if commit not in reached]
    unknown = [commit for commit in candidates if commit not in dropped]
    if unknown:
        dropped |= repository.unreached(unknown)
    return [commit for commit in candidates if commit in dropped]


# The commit that a merged branch began at, None where it has a root of its own; its commits, oldest first.
Branch = tuple["str | None", "list[str]"]


def branches(line: "Sequence[str]", first: int, parents: "Mapping[str, Sequence[str]]") -> "Iterator[Branch]":
    """The branches that merges brought to a line from its commit number `first` on: the first-parent lines of
    their other parents, each up to a commit of another line; of nested merges too."""
    met = set(line)
    merges = list(reversed(line[first:]))
    while merges:
        for tip in parents.get(merges.pop(), ())[1:]:
            chain: list[str] = []
            commit: str | None = tip
            while commit is not None and commit not in met and commit in parents:
                chain.append(commit)
                met.add(commit)
                commit = next(iter(parents[commit]), None)
            if chain:
                yield commit if commit in met else None, chain[::-1]
                merges += chain


class _Lines:
    """Chains of first parents: from git, or from the log where git lacks the head."""

    def __init__(self, store: "Store", repository: "GitRepository") -> None:
        self._store = store
        self._repository = repository
        self._parents: dict[str, str] | None = None

    def of(self, head: str) -> "Iterator[str]":
        if self._repository.holds(head):
            yield from self._repository.first_parent_line(head)
            return
        if self._parents is None:
            self._parents = dict(self._first_parents())
        commit: str | None = head
        while commit is not None:
            yield commit
            commit = self._parents.get(commit)

    def _first_parents(self) -> "Iterator[tuple[str, str]]":
        """(commit, its first parent) of the log's turns."""
        columns = ("agent", "operation", "commit", "payload")
        for row in self._store.events(event_types=["snapshot"], columns=columns):
            payload = row["payload"]
            if row["agent"] == AGENT and row["operation"] == "turn_start" and isinstance(payload, dict):
                parent = payload.get("git_head")
                if isinstance(parent, str):
                    yield str(row["commit"]), parent


def without_parent(store: "Store", repo: str) -> set[str]:
    """The commits that were recorded as the first of their history."""
    return {commit for (commit,) in store.query(_WITHOUT_PARENT, [repo]).rows}


def without_line_index(store: "Store", repo: str, line: "Sequence[str]", grows: bool) -> set[str]:
    """The commits of the line whose index on it the log lacks and needs.

    It is needed where there are commits to record, and where their times alone give another order.
    """
    on_line = set(line)
    rows = [(commit, lacks) for commit, lacks in store.query(_ORDERED, [repo]).rows if commit in on_line]
    recorded = [commit for commit, _ in rows]
    recorded_ids = set(recorded)
    if not grows and recorded == [commit for commit in reversed(line) if commit in recorded_ids]:
        return set()
    return {commit for commit, lacks in rows if lacks}
