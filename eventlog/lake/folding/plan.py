"""What a fold has to do: the stores that tables are not up to date with, and from where each goes on.

Reads the tables first and the chains after them, so what a table names was published before. One thread.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from operator import attrgetter

from eventlog.base import runs
from eventlog.base.errors import Corruption, NotFound
from eventlog.lake.chain import Chain, is_publication, read_chain, stores_in
from eventlog.lake.folding import stored
from eventlog.lake.folding.stored import FoldState, Projected
from eventlog.lake.folding.task import Folded, FoldedFile, StoreWork, Task
from eventlog.lake.place import Place, each

# Stores of together so many positions share a task, and so many stores at most.
TASK_POSITIONS = 200_000
_TASK_STORES = 200
_TRIES = 3


@dataclass(slots=True)
class Plan:
    """What tables name and should not, and what they lack.

    `works` are the stores to fold; `ready` those whose files are there and only lack their names in tables;
    `seen` what tables named; `erased` the last erasure of each store in the place; `problems` the stores that
    cannot be read, with the reason.
    """

    stores: int = 0
    works: "list[StoreWork]" = field(default_factory=list)
    ready: "list[Folded]" = field(default_factory=list)
    seen: "set[str]" = field(default_factory=set)
    erased: "dict[bytes, int]" = field(default_factory=dict)
    problems: "dict[bytes, str]" = field(default_factory=dict)

    def is_dead(self, name: str) -> bool:
        """Whether a table should not name a file any more: it may hold what was erased, its store is gone, or
        it is none of ours."""
        file = Projected.parse(name)
        if file is None:
            return True
        if file.store_id in self.problems:
            return False
        if file.store_id not in self.erased:
            return name in self.seen  # else the store has just published, and another driver folded it
        return file.number < self.erased[file.store_id]


def planned(place: Place, named: "Iterable[str]", *, full: bool = False) -> Plan:
    """The plan for a place whose tables name these files. Args: full: fold every store from nothing."""
    plan = Plan(seen=set(named))
    files = stored.by_store(plan.seen)
    for store_id, chain in each(lambda store_id: _chain(place, store_id), stores_in(place)):
        if isinstance(chain, str):
            plan.problems[store_id] = chain
        elif chain.end:
            plan.stores += 1
            plan.erased[store_id] = chain.last_erasure
            _plan_store(place, chain, files.get(store_id, []), plan, full=full)
    return plan


def _chain(place: Place, store_id: bytes) -> "tuple[bytes, Chain | str]":
    """The chain of a store, or why it cannot be read."""
    for _ in range(_TRIES):
        try:
            return store_id, read_chain(place, store_id)
        except Corruption as error:
            return store_id, str(error)
        except NotFound as error:  # a file was removed after the chain had named it
            reason = str(error)
    return store_id, reason


def tasks_of(place: Place, works: "Iterable[StoreWork]") -> "Iterator[Task]":
    """The tasks: large stores alone and first, small ones together."""
    largest_first = sorted(works, key=lambda work: (-work.end, work.store_id))
    for stores in runs.bounded(largest_first, attrgetter("end"), TASK_POSITIONS, _TASK_STORES):
        yield Task(place.uri, tuple(stores))


def is_current(state: FoldState, chain: Chain) -> bool:
    """Whether files of this state are what a fold of the chain would make, merges of its files apart."""
    return _is_usable(state, chain) and state.end == chain.end


def _is_usable(state: FoldState, chain: Chain) -> bool:
    """Whether a fold may go on from files of this state: since then there were no rewrites but merges, and
    nothing was lost and published again, which a publication across the end of then shows."""
    across = (file.name for file in chain.live if file.base < state.end < file.end)
    return (
        state.code == stored.CODE
        and chain.last_erasure <= state.number <= chain.number
        and state.end <= chain.end
        and not any(map(is_publication, across))
    )


def _plan_store(place: Place, chain: Chain, files: "list[Projected]", plan: Plan, *, full: bool) -> None:
    previous = {} if full else _previous(place, chain, files)
    if not previous or not is_current(next(iter(previous)).state, chain):
        work = StoreWork(chain.store_id, chain.end, chain.number, tuple(chain.live), tuple(previous))
        plan.works.append(work)
    elif previous.keys() != set(files):
        ready = (FoldedFile(file.name, size) for file, size in previous.items())
        plan.ready.append(Folded(chain.store_id, tuple(ready)))


def _previous(place: Place, chain: Chain, files: "list[Projected]") -> "dict[Projected, int]":
    """The files of the newest usable state that tables name, and their sizes where a table lacks them.

    A table lacks what is in the place where a driver was killed between two commits. Nothing where a file is
    not there, either.
    """
    usable = [file.state for file in files if _is_usable(file.state, chain)]
    if not usable:
        return {}
    newest = max(usable, key=lambda state: (state.number, state.end))
    previous: dict[Projected, int] = {}
    for table in stored.TABLES:
        of_table = {file: 0 for file in files if file.table == table and file.state == newest}
        if not of_table:
            of_table = _existing(place, table, chain.store_id, newest)
            if len(of_table) != 1:
                return {}
        previous |= of_table
    return previous


def _existing(place: Place, table: str, store_id: bytes, state: FoldState) -> "dict[Projected, int]":
    listed = place.list(stored.prefix_of(table, store_id))
    files = {Projected.parse(entry.name): entry.size for entry in listed}
    return {file: size for file, size in files.items() if file is not None and file.state == state}
