"""Is a lake what it should be? Reads only (docs/lake.md).

Chains, footers and rows of every store, its packs, the tables, what erasures left, and for a store on this
machine whether its events are those of the lake.
"""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from blake3 import blake3

from eventlog.base.errors import Corruption, EventLogError, NotFound
from eventlog.lake import tables
from eventlog.lake.chain import Chain, LiveFile, footer_of, keys_of, read_chain, stem_of, stores_in
from eventlog.lake.maintain import named_packs
from eventlog.lake.merges import read_events
from eventlog.lake.packs import live_packs, tables_of
from eventlog.lake.place import Place
from eventlog.lake.policy import Policy
from eventlog.lake.rewrites import deletable

if TYPE_CHECKING:
    from eventlog.lake.source import Source

_AT_ONCE = 16

# What to do about each kind of finding.
PUBLISH = "run `locus publish` where the store is"
COMMIT = "run `locus lake commit` with the catalog"
MAINTAIN = "run `locus lake maintain` with the catalog, by somebody who may delete"
AGAIN = "run `locus publish --again` where the store is: with what it has it makes the object again"
RESTORE = "restore the object from a copy, or delete it and run `locus publish --again` where the store is"


@dataclass(frozen=True, slots=True)
class LakeFinding:
    """What is not as it should be, of which object or store, and what to do about it."""

    what: str
    where: str
    todo: str


@dataclass(slots=True)
class LakeVerified:
    """What was checked, and what is not as it should be."""

    stores: int = 0
    files: int = 0
    rows: int = 0
    packs: int = 0
    table_rows: "int | None" = None
    compared: int = 0  # files compared with the store's own log
    findings: "list[LakeFinding]" = field(default_factory=list)


def verify(
    place: Place, catalog_uri: "str | None" = None, *, reads: bool = False, source: "Source | None" = None
) -> LakeVerified:
    """Check a place, its tables where a catalog is named, and one store against its own log.

    Args: reads: read every object whole, for the checksums of pages and the hashes in names.
    """
    result = LakeVerified()
    chains: dict[bytes, Chain] = {}
    rows: dict[str, int] = {}
    if catalog_uri is not None:  # first: what the table names was there before the chains are read
        table_rows = _table_rows(place, catalog_uri)
    for store_id in stores_in(place):
        try:
            chains[store_id] = chain = read_chain(place, store_id)
        except (Corruption, NotFound) as error:
            result.findings.append(LakeFinding(str(error), store_id.hex(), RESTORE))
            continue
        result.stores += 1
        result.findings += _chain_findings(place, chain, rows)
        result.findings += _pack_findings(place, chain, result, reads=reads)
        if reads:
            result.findings += _bytes_findings(place, chain)
        if source is not None and source.store_id == store_id:
            result.findings += _compared(place, chain, source, result)
    result.files, result.rows = len(rows), sum(rows.values())
    if catalog_uri is not None:
        result.table_rows = sum(table_rows.values())
        result.findings += _table_findings(place, catalog_uri, chains, rows, table_rows)
    return result


def _chain_findings(place: Place, chain: Chain, rows: "dict[str, int]") -> "Iterator[LakeFinding]":
    """Gaps, footers that say otherwise than the names, and what should be gone. Fills `rows` by file."""
    store = chain.store_id.hex()
    with ThreadPoolExecutor(_AT_ONCE, "locus-lake") as pool:
        footers = list(pool.map(lambda file: _footer(place, file), chain.live))
    for file, footer in zip(chain.live, footers, strict=True):
        where = place.address(file.name)
        if isinstance(footer, EventLogError):
            yield LakeFinding(str(footer), where, RESTORE)
            continue
        rows[file.name] = footer.num_rows
        keys = keys_of(footer)
        if keys.get("store_id") != store or keys.get("base") != str(file.base):
            yield LakeFinding("its metadata name another store or position than its name", where, RESTORE)
        elif keys.get("end") != str(file.end):
            what = f"the events from {keys.get('end')} to {file.end} are in no file"
            yield LakeFinding(what, where, AGAIN)
        elif not _within(footer, file):
            yield LakeFinding("it holds positions outside of its range", where, RESTORE)
    if chain.waiting:
        what = f"{len(chain.waiting)} files are not live: the events from {chain.end} on are in no file"
        yield LakeFinding(what, store, AGAIN)
    for name in deletable(place, chain):
        yield LakeFinding(
            "it was taken out by an erasure or a narrower policy", place.address(name), MAINTAIN
        )


def _footer(place: Place, file: LiveFile) -> Any:
    try:
        return footer_of(place, file.name)
    except (Corruption, NotFound) as error:
        return error


def _within(footer: Any, file: LiveFile) -> bool:
    """Whether the statistics of a file keep to its range of positions; True without statistics."""
    if footer.num_rows > file.end - file.base:
        return False
    groups = (footer.row_group(number) for number in range(footer.num_row_groups))
    columns = (group.column(index) for group in groups for index in range(group.num_columns))
    figures = [column.statistics for column in columns if column.path_in_schema == "position"]
    return all(
        file.base <= figure.min and figure.max < file.end
        for figure in figures
        if figure is not None and figure.has_min_max
    )


def _pack_findings(
    place: Place, chain: Chain, result: LakeVerified, *, reads: bool
) -> "Iterator[LakeFinding]":
    try:
        listed = live_packs(place, chain)
        named = named_packs(place, chain)
    except Corruption:
        return  # of the footers, which are listed
    result.packs += len(listed)
    for name in sorted(named - {entry.name for entry in listed}):
        yield LakeFinding("contents are missing: the pack is gone", place.address(name), AGAIN)
    for entry, pack in tables_of(place, chain.store_id, listed):
        if isinstance(pack, EventLogError):
            yield LakeFinding(str(pack), place.address(entry.name), RESTORE)
        elif reads and blake3(place.read(entry.name)).hexdigest() != stem_of(entry.name):
            yield LakeFinding("its bytes are not those of its name", place.address(entry.name), RESTORE)


def _bytes_findings(place: Place, chain: Chain) -> "Iterator[LakeFinding]":
    """Read every live file: the checksums of its pages, and its hash where its name has one."""
    for file in chain.live:
        try:
            read_events(place, file.name)
            digest = stem_of(file.name).rpartition("-")[2]
            if len(digest) == 64 and blake3(place.read(file.name)).hexdigest() != digest:
                yield LakeFinding("its bytes are not those of its name", place.address(file.name), RESTORE)
        except (Corruption, NotFound) as error:
            yield LakeFinding(str(error), place.address(file.name), RESTORE)


def _compared(place: Place, chain: Chain, source: "Source", result: LakeVerified) -> "Iterator[LakeFinding]":
    """Files whose rows are not the events of the store as their policy lets them leave."""
    for file in chain.live:
        where = place.address(file.name)
        try:
            policy = Policy.decode(keys_of(footer_of(place, file.name)).get("policy", ""), where)
            published = read_events(place, file.name)
        except (Corruption, NotFound) as error:
            yield LakeFinding(str(error), where, RESTORE)
            continue
        result.compared += 1
        if policy.widens(source.policy):
            yield LakeFinding("it has more than may leave by now", where, PUBLISH)
        elif not published.equals(source.table(file.base, file.end, policy)):
            yield LakeFinding("its rows are not the events that the store has", where, PUBLISH)


def _table_rows(place: Place, catalog_uri: str) -> "dict[str, int]":
    """The data files that the table names, with their rows."""
    with tables.opened(place, catalog_uri) as catalog:
        table = tables.loaded(place, catalog, catalog_uri)
        named = tables.data_files(place, table)
        return {name: data_file.record_count for name, data_file in named.items()}


def _table_findings(
    place: Place,
    catalog_uri: str,
    chains: "dict[bytes, Chain]",
    rows: "dict[str, int]",
    table_rows: "dict[str, int]",
) -> "Iterator[LakeFinding]":
    from eventlog.lake import snapshots

    where = tables.shown(catalog_uri)
    missing = [name for name, number in rows.items() if number and name not in table_rows]
    if missing:
        yield LakeFinding(f"the table lacks {len(missing)} files, {missing[0]} first", where, COMMIT)
    live = {file.name for chain in chains.values() for file in chain.live}
    dead = sorted(table_rows.keys() - live)
    if dead:
        yield LakeFinding(f"the table names {len(dead)} dead files, {dead[0]} first", where, COMMIT)
    for name, number in table_rows.items():
        if rows.get(name, number) != number:
            what = f"the table counts {number} rows of {name}, which has {rows[name]}"
            yield LakeFinding(what, where, "make the tables again: drop them, `locus lake init`, `commit`")
    with tables.opened(place, catalog_uri) as catalog:
        table = tables.loaded(place, catalog, catalog_uri)
        reader = snapshots.Snapshots(place, table)
        current = table.metadata.current_snapshot_id
        erased = [id for id in snapshots.reaching_erased(reader, table, chains) if id != current]
    if erased:
        what = f"{len(erased)} older snapshots of the table reach rows that were erased"
        yield LakeFinding(what, where, MAINTAIN)
