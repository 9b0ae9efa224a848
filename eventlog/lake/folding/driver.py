"""Bringing the projections of a lake up to what was published (docs/lake-tables.md §2).

What was folded is what the tables name, so nothing keeps books beside them: any number of drivers may be at
work at once, and each may be killed anywhere.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar

from eventlog.lake import tables
from eventlog.lake.chain import MERGE, Rewrite, decode_rewrite, prefix_of, rewrite_name
from eventlog.lake.folding import divided, stored, wide_driver
from eventlog.lake.folding import plan as planning
from eventlog.lake.folding.plan import Plan
from eventlog.lake.folding.stored import Projected
from eventlog.lake.folding.task import Folded, FoldedFile, run
from eventlog.lake.folding.wide_driver import WideLake
from eventlog.lake.place import Place, each

_Given = TypeVar("_Given")
_Made = TypeVar("_Made")

# How many stores one commit brings: what is killed after it does not fold these again.
_STORES_AT_ONCE = 2_000
_ROUNDS = 3  # for stores of which something is erased or replaced meanwhile


class Runner(Protocol):
    """Runs tasks wherever it likes, in any order, and gives what each made."""

    def __call__(self, run: "Callable[[_Given], _Made]", tasks: "Sequence[_Given]", /) -> "Iterator[_Made]":
        """Args: run: a function of a module, which every machine can import."""


@dataclass(slots=True)
class FoldedLake:
    """What a fold did.

    `folded` stores of all `stores`, `in_full` of these from nothing; names of the files that tables name
    now and did before, the `rows` of the first by table; what was `left`, with the reason; and what was done
    over all stores.
    """

    stores: int = 0
    folded: int = 0
    in_full: int = 0
    added: "list[str]" = field(default_factory=list)
    removed: "list[str]" = field(default_factory=list)
    rows: "dict[str, int]" = field(default_factory=lambda: dict.fromkeys(stored.TABLES, 0))
    left: "list[str]" = field(default_factory=list)
    wide: WideLake = field(default_factory=WideLake)


def in_process(run: "Callable[[_Given], _Made]", tasks: "Sequence[_Given]") -> "Iterator[_Made]":
    """The runner of this process: one task after the other, each on all processors."""
    return map(run, tasks)


def fold(
    place: Place,
    catalog_uri: str,
    *,
    runner: Runner = in_process,
    full: bool = False,
    positions_max: int = divided.POSITIONS_MAX,
) -> FoldedLake:
    """Fold every store that is not up to date, and commit what came of it.

    Args: full: fold every store from nothing; positions_max: a store with more of them to fold is divided.
    Raises: NotFound without the tables; Refused where others
    changed them at each try; EventLogError of the storage or the catalog.
    """
    lake = FoldedLake()
    for number in range(_ROUNDS):
        plan = planning.planned(place, _named(place, catalog_uri), full=full and not number)
        lake.stores = plan.stores
        lake.left = [f"store {store_id.hex()}: {reason}" for store_id, reason in plan.problems.items()]
        stale = _carry_out(place, catalog_uri, plan, runner, positions_max, lake)
        if not stale:
            break
    lake.left += [f"store {id.hex()}: it changed at each of {_ROUNDS} tries; run this again" for id in stale]
    lake.wide = wide_driver.fold(place, catalog_uri, full=full)
    lake.left += lake.wide.left
    return lake


def _named(place: Place, catalog_uri: str) -> "set[str]":
    """The files that our tables name. Tables that are not there are made."""
    names: set[str] = set()
    with tables.opened(place, catalog_uri) as catalog:
        tables.loaded(place, catalog, catalog_uri)  # a catalog without the events is another lake's, or none
        for table in stored.TABLES:
            names |= tables.data_files(place, _current(place, catalog, catalog_uri, table)).keys()
    return names


def _current(place: Place, catalog: Any, catalog_uri: str, table: str) -> Any:
    bounded = (stored.STORE_ID, *stored.KEYS[table])
    name = tables.full_name(table)
    return tables.current(place, catalog, catalog_uri, name, stored.schema_of(table), bounded)


def _carry_out(
    place: Place, catalog_uri: str, plan: Plan, runner: Runner, positions_max: int, lake: FoldedLake
) -> "set[bytes]":
    """Fold and commit what a plan says; the stores that changed so meanwhile that they are folded again."""
    stale: set[bytes] = set()
    if plan.ready or any(map(plan.is_dead, plan.seen)):
        stale |= _bring(place, catalog_uri, plan, plan.ready, lake)
    large = [work for work in plan.works if divided.is_large(work, positions_max)]
    tasks = list(planning.tasks_of(place, (work for work in plan.works if work not in large)))
    for results in _batches(runner(run, tasks)):
        stale |= _bring(place, catalog_uri, plan, results, lake)
    for work in large:
        folded = divided.fold_large(place, work, runner, positions_max)
        stale |= _bring(place, catalog_uri, plan, [folded], lake)
    return stale


def _batches(results: "Iterable[list[Folded]]") -> "Iterator[list[Folded]]":
    waiting: list[Folded] = []
    for folded in results:
        waiting += folded
        if len(waiting) >= _STORES_AT_ONCE:
            yield waiting
            waiting = []
    if waiting:
        yield waiting


def _bring(
    place: Place, catalog_uri: str, plan: Plan, results: "list[Folded]", lake: FoldedLake
) -> "set[bytes]":
    """Commit what came of some stores; those of which files were replaced meanwhile, or erased.

    An erasure makes its rewrite and then commits. So one that the second question does not see finds in the
    tables what this committed.
    """
    failed = {folded.store_id: folded.problem for folded in results if folded.problem}
    numbers = {work.store_id: work.number for work in plan.works if work.store_id in failed}
    replaced = {store_id for store_id, number in numbers.items() if _rewrites(place, store_id, number)}
    lake.left += [f"store {id.hex()} {problem}" for id, problem in failed.items() if id not in replaced]
    before = _erased_meanwhile(place, plan, results)
    live = [folded for folded in results if folded.files and folded.store_id not in before]
    _commit(place, catalog_uri, plan, live, lake)
    after = _erased_meanwhile(place, plan, live)
    if after:
        _commit(place, catalog_uri, plan, (), lake)
    done = [folded for folded in live if folded.store_id not in after]
    lake.folded += len(done)
    lake.in_full += sum(folded.full for folded in done)
    return replaced | before | after


def _erased_meanwhile(place: Place, plan: Plan, results: "Iterable[Folded]") -> "set[bytes]":
    """The stores with a rewrite that is no merge and newer than their files; notes it in the plan."""

    def last_erasure(folded: Folded) -> "tuple[bytes, int]":
        rewrites = _rewrites(place, folded.store_id, Projected.of(folded.files[0].name).number)
        return folded.store_id, max((r.number for r in rewrites if r.reason != MERGE), default=0)

    erased = dict(each(last_erasure, (folded for folded in results if folded.files)))
    erased = {store_id: number for store_id, number in erased.items() if number}
    plan.erased |= erased
    return set(erased)


def _rewrites(place: Place, store_id: bytes, number: int) -> "list[Rewrite]":
    """The rewrites of a store after a number."""
    listed = place.list(f"{prefix_of(store_id)}/rewrites", rewrite_name(store_id, number) if number else "")
    return [decode_rewrite(place.read(entry.name), place.address(entry.name)) for entry in listed]


def _commit(
    place: Place, catalog_uri: str, plan: Plan, results: "Sequence[Folded]", lake: FoldedLake
) -> None:
    """Bring each table to the files of these stores, and take out what is dead."""
    with tables.opened(place, catalog_uri) as catalog:
        for table in stored.TABLES:
            name = tables.full_name(table)
            for _ in tables.tries(catalog_uri, name):
                loaded = tables.loaded(place, catalog, catalog_uri, name)
                changes = _changes(place, loaded, table, plan, results)
                if tables.swapped(loaded, changes.added.values(), changes.removed.values()):
                    break
            lake.added += changes.added
            lake.removed += changes.removed
            lake.rows[table] += sum(data_file.record_count for data_file in changes.added.values())


@dataclass(slots=True)
class _Changes:
    """What pyiceberg knows of data files, by their names."""

    added: "dict[str, Any]" = field(default_factory=dict)
    removed: "dict[str, Any]" = field(default_factory=dict)


def _changes(place: Place, loaded: Any, table: str, plan: Plan, results: "Sequence[Folded]") -> _Changes:
    """What a table lacks of these stores, and what it names that is dead or older."""
    named = tables.data_files(place, loaded)
    removed = {name for name in named if plan.is_dead(name)}
    of_store: dict[bytes, list[Projected]] = defaultdict(list)
    for file in map(Projected.of, named.keys() - removed):
        of_store[file.store_id].append(file)
    missing: list[FoldedFile] = []
    for folded in results:
        files = {file.name: file for file in folded.files if Projected.of(file.name).table == table}
        others = [file for file in of_store[folded.store_id] if file.name not in files]
        ours = Projected.of(next(iter(files)))
        if not any(_supersedes(file, ours, plan) for file in others):
            removed.update(file.name for file in others)
            missing += [file for name, file in files.items() if name not in named]
    data_files = tables.data_files_of(place, loaded, [(file.name, file.size) for file in missing])
    added = {file.name: data for file, data in zip(missing, data_files, strict=True)}
    return _Changes(added, {name: named[name] for name in sorted(removed)})


def _supersedes(file: Projected, ours: Projected, plan: Plan) -> bool:
    """Whether another driver has just brought what is as new as ours, by the same code."""
    if file.name in plan.seen or file.code != ours.code:
        return False
    return (file.number, file.end) >= (ours.number, ours.end)
