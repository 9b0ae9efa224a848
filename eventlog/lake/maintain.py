"""Looking after a lake: merge, commit, expire, delete (docs/lake.md §6).

Every step may be repeated, and finds what is to be done in what is there: what a killed run left, the next
one finishes. What may not be done for want of a right is listed, and all else is done.
"""

import random
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from eventlog.base import jsontext
from eventlog.base.errors import Corruption, NotFound, Refused
from eventlog.lake import merges, tables
from eventlog.lake.chain import (
    Chain,
    base_of,
    metadata_of,
    pack_name,
    prefix_of,
    read_chain,
    rewritten_number,
    stores_in,
)
from eventlog.lake.erased import ErasedFiles, parsed
from eventlog.lake.place import Place, StoredObject
from eventlog.lake.rewrites import deletable

# How long snapshots stay, and objects that nothing names: those of somebody who is at work.
AGE_S = 86_400.0
_TRIES = 20
_PAUSE_S_MAX = 0.4


@dataclass(slots=True)
class Maintained:
    """What was done: files merged into how many, snapshots expired, objects deleted; and what was `left`."""

    merged: int = 0
    merged_into: int = 0
    rows_added: int = 0
    expired: int = 0
    deleted: int = 0
    left: "list[str]" = field(default_factory=list)


def maintain(
    place: Place,
    catalog_uri: "str | None" = None,
    *,
    now: "Callable[[], float]" = time.time,
    files_min: int = merges.FILES_MIN,
) -> Maintained:
    """Look after all stores of a place, and its tables where a catalog is named.

    Raises: NotFound without the tables; Corruption; EventLogError of the storage or the catalog.
    """
    done = Maintained()
    for store_id in stores_in(place):
        try:
            files, into = merges.merge(place, store_id, files_min=files_min)
            done.merged, done.merged_into = done.merged + files, done.merged_into + into
        except (Refused, Corruption) as error:
            done.left.append(f"not merged: {error}")
    # The data files that snapshots name, by table; None for a table of which that is not known.
    reached: dict[str, set[str] | None] = {name: set() for name in tables.NAMES}
    if catalog_uri is not None:
        committed = tables.commit(place, catalog_uri)
        done.rows_added = committed.rows_added
        done.left += committed.left
        reached |= _expire_all(place, catalog_uri, now(), done)
    elif place.directories("tables"):
        reached = dict.fromkeys(reached)
    for store_id in stores_in(place):
        _delete_dead(place, read_chain(place, store_id), reached[tables.TABLE], now(), done)
    _delete_derived(place, reached, now(), done)
    return done


def _expire_all(
    place: Place, catalog_uri: str, moment: float, done: Maintained
) -> "dict[str, set[str] | None]":
    """Expire snapshots of all tables and delete what only they named; the data files that others name."""
    from eventlog.lake.derived import DerivedTables

    reached: dict[str, set[str] | None] = {}
    with tables.opened(place, catalog_uri) as catalog:
        reached[tables.TABLE] = _expire(place, catalog, catalog_uri, tables.TABLE, moment, done)
        derived = DerivedTables(place, catalog, catalog_uri)
        for name in derived.names():
            with derived.noted(name):
                reached[name] = _expire(place, catalog, catalog_uri, name, moment, done)
    for name, reason in derived.failed.items():
        reached[name] = None
        done.left.append(f"{name}: {reason}")
    return reached


def _expire(
    place: Place, catalog: Any, catalog_uri: str, name: str, moment: float, done: Maintained
) -> "set[str]":
    """Expire snapshots of a table and delete what only they named; the data files that others still name."""
    from eventlog.lake import snapshots

    for _ in range(_TRIES):
        table = tables.loaded(place, catalog, catalog_uri, name)
        erased = ErasedFiles(tables.all_chains(place))
        reader = snapshots.Snapshots(place, table)
        reaching = snapshots.reaching_erased(reader, table, erased)
        held = reader.held()
        old = (s for s in table.metadata.snapshots if s.timestamp_ms < (moment - AGE_S) * 1000)
        overdue = {*reaching, *(snapshot.snapshot_id for snapshot in old)} - held.keys()
        if not overdue:
            break
        if snapshots.expired(table, overdue):
            done.expired += len(overdue)
        else:
            time.sleep(random.uniform(0, _PAUSE_S_MAX))
    else:
        done.left.append(f"snapshots of {name}: others changed it at each try; run this again")
    done.left += [_held(held[id], name) for id in reaching if id in held]
    _delete(place, list(snapshots.garbage(place, table)), done)
    wanted = snapshots.metadata_names(place, table)
    _delete(place, _older(place.list(f"{tables.objects_of(name)}/metadata"), wanted, moment), done)
    return reader.reached()


def _held(name: str, table: str) -> str:
    if name == "main":
        return f"{table}: an erasure came meanwhile: run this again"
    return f"the branch or tag {name} of {table} reaches rows that were erased: remove it, and run this again"


def _delete_derived(
    place: Place, reached: "dict[str, set[str] | None]", moment: float, done: Maintained
) -> None:
    """Delete data files of projections: dead ones at once, and after a day those that no snapshot names.

    The files are listed before the chains are read: so none of them is of a state that is not read yet.
    """
    files = {name: place.list(f"{tables.objects_of(name)}/data") for name in tables.DERIVED}
    erased = ErasedFiles(tables.all_chains(place))
    for name, entries in files.items():
        named = reached[name]

        def is_gone(entry: StoredObject, named: "set[str] | None" = named) -> bool:
            if parsed(entry.name) is not None and erased.has(entry.name):
                return True
            return named is not None and entry.name not in named and entry.made_at < moment - AGE_S

        _delete(place, [entry.name for entry in entries if is_gone(entry)], done)
        place.delete_pieces(f"{tables.objects_of(name)}/data", is_gone)


def _delete_dead(
    place: Place, chain: Chain, reached: "set[str] | None", moment: float, done: Maintained
) -> None:
    """Delete the objects of a store that are not live.

    Args: reached: the data files that snapshots name, None where that is not known.
    """
    erased = set(deletable(place, chain))
    _delete(place, sorted(erased), done)
    if erased:
        place.delete_pieces(prefix_of(chain.store_id))
    merged = [name for name in _dead_files(place, chain) if name not in erased]
    if reached is None:
        if merged:
            done.left.append(
                f"{len(merged)} merged files of store {chain.store_id.hex()}: tables may still name them; "
                "run this with --catalog"
            )
    else:
        _delete(place, (name for name in merged if name not in reached), done)
    rewritten = place.list(f"{prefix_of(chain.store_id)}/rewritten")
    begun = [entry for entry in rewritten if rewritten_number(entry.name) > chain.number]
    _delete(place, _older(begun, set(), moment), done)
    old_packs = list(_older(place.list(f"{prefix_of(chain.store_id)}/packs"), set(), moment))
    if old_packs:
        named = named_packs(place, read_chain(place, chain.store_id))
        _delete(place, (name for name in old_packs if name not in named), done)


def _dead_files(place: Place, chain: Chain) -> "list[str]":
    """The files of events that a rewrite took out, or that belong to one that somebody else made."""
    stays = {file.name for file in (*chain.live, *chain.waiting)}
    prefix = prefix_of(chain.store_id)
    names = [e.name for e in place.list(f"{prefix}/events") if base_of(e.name) < chain.end]
    names += [e.name for e in place.list(f"{prefix}/rewritten") if rewritten_number(e.name) <= chain.number]
    return [name for name in names if name not in stays]


def named_packs(place: Place, chain: Chain) -> "set[str]":
    """The packs that live files name, or rewrites brought and did not take out again."""
    named: set[str] = set()
    for file in (*chain.live, *chain.waiting):
        try:
            stems = jsontext.decode(metadata_of(place, file.name).get("packs", "[]"))
        except NotFound:
            continue
        named.update(pack_name(chain.store_id, stem) for stem in stems)
    for rewrite in chain.rewrites:
        named = (named - set(rewrite.removes_packs)) | set(rewrite.adds_packs)
    return named


def _older(entries: "Iterable[StoredObject]", wanted: "set[str]", moment: float) -> "Iterable[str]":
    return [e.name for e in entries if e.name not in wanted and e.made_at < moment - AGE_S]


def _delete(place: Place, names: "Iterable[str]", done: Maintained) -> None:
    for name in names:
        try:
            place.delete(name)
            done.deleted += 1
        except Refused as error:
            done.left.append(str(error))
