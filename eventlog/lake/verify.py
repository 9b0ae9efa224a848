"""Is a lake what it should be? Reads only (docs/lake.md).

Chains, footers and rows of every store, its packs, the tables, what erasures left, and for a store on this
machine whether its events are those of the lake.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from blake3 import blake3

from eventlog.base.errors import Corruption, EventLogError, NotFound
from eventlog.lake import tables
from eventlog.lake.chain import (
    Chain,
    LiveFile,
    footer_of,
    keys_of,
    metadata_of,
    read_chain,
    stem_of,
    stores_in,
)
from eventlog.lake.erased import ErasedFiles, parsed
from eventlog.lake.findings import AGAIN, COMMIT, MAINTAIN, PUBLISH, READ, RESTORE, LakeFinding
from eventlog.lake.maintain import named_packs
from eventlog.lake.merges import read_events
from eventlog.lake.outgoing import SCHEMA
from eventlog.lake.packs import live_packs, tables_of
from eventlog.lake.place import Place, each
from eventlog.lake.policy import Policy
from eventlog.lake.rewrites import deletable

if TYPE_CHECKING:
    from eventlog.lake.source import Source


@dataclass(slots=True)
class LakeVerified:
    """What was checked, and what is not as it should be."""

    stores: int = 0
    files: int = 0
    rows: int = 0
    packs: int = 0
    table_rows: "int | None" = None
    compared: int = 0  # files compared with the store's own log
    projected: int = 0  # files of projections compared with a fold from nothing
    unfolded: "list[str]" = field(default_factory=list)  # stores that the next fold brings: no finding
    unfolded_wide: bool = False  # whether that is so of what is over all stores
    findings: "list[LakeFinding]" = field(default_factory=list)


def verify(
    place: Place, catalog_uri: "str | None" = None, *, reads: bool = False, source: "Source | None" = None
) -> LakeVerified:
    """Check a place, its tables where a catalog is named, and one store against its own log.

    Args: reads: read every object whole, for the checksums of pages and the hashes in names.
    """
    result = LakeVerified()
    chains: dict[bytes, Chain] = {}
    unknown: list[bytes] = []
    rows: dict[str, int] = {}
    # First: what tables name, and which files there are, was so before the chains are read.
    named = _named(place, catalog_uri, result)
    listed = [
        entry.name for name in tables.DERIVED for entry in place.list(f"{tables.objects_of(name)}/data")
    ]
    for store_id in stores_in(place):
        try:
            chains[store_id] = chain = read_chain(place, store_id)
        except (Corruption, NotFound) as error:
            unknown.append(store_id)
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
    erased = ErasedFiles(chains, unknown)
    result.findings += [_is_left(place, name) for name in listed if parsed(name) and erased.has(name)]
    if catalog_uri is not None:
        table_rows = named.pop(tables.TABLE)
        result.table_rows = sum(table_rows.values())
        where = tables.shown(catalog_uri)
        result.findings += _table_findings(where, chains, rows, table_rows)
        result.findings += _derived_findings(place, where, chains, named, erased, source, result)
        result.findings += _snapshot_findings(place, catalog_uri, erased)
    return result


def _named(place: Place, catalog_uri: "str | None", result: LakeVerified) -> "dict[str, dict[str, int]]":
    """The data files that tables name, with their rows, by table."""
    from eventlog.lake.derived import DerivedTables

    if catalog_uri is None:
        return {}
    with tables.opened(place, catalog_uri) as catalog:
        events = tables.loaded(place, catalog, catalog_uri)
        files = {tables.TABLE: tables.data_files(place, events)}
        derived = DerivedTables(place, catalog, catalog_uri)
        files |= {each.name: each.files for each in derived.read(derived.names())}
    for name, reason in derived.failed.items():
        result.findings.append(
            LakeFinding(f"{name} cannot be read: {reason}", tables.shown(catalog_uri), READ)
        )
    return {name: {file: data.record_count for file, data in each.items()} for name, each in files.items()}


def _is_left(place: Place, name: str) -> LakeFinding:
    what = "it was taken out by an erasure or a narrower policy"
    return LakeFinding(what, place.address(name), MAINTAIN)


def _chain_findings(place: Place, chain: Chain, rows: "dict[str, int]") -> "Iterator[LakeFinding]":
    """Gaps, footers that say otherwise than the names, and what should be gone. Fills `rows` by file."""
    store = chain.store_id.hex()
    footers = each(lambda file: _footer(place, file), chain.live)
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
        yield _is_left(place, name)


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


def _table_findings(
    where: str, chains: "dict[bytes, Chain]", rows: "dict[str, int]", table_rows: "dict[str, int]"
) -> "Iterator[LakeFinding]":
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


def _derived_findings(
    place: Place,
    where: str,
    chains: "dict[bytes, Chain]",
    named: "dict[str, dict[str, int]]",
    erased: ErasedFiles,
    source: "Source | None",
    result: LakeVerified,
) -> "Iterator[LakeFinding]":
    """Tables of projections that name dead files, or have other rows than a fold from nothing."""
    from eventlog.lake.folding import checks
    from eventlog.lake.folding.stored import by_store

    if not named:
        return
    for name, rows in named.items():
        dead = sorted(file for file in rows if erased.has(file))
        if dead:
            yield LakeFinding(f"{name} names {len(dead)} dead files, {dead[0]} first", where, COMMIT)
    names = [file for rows in named.values() for file in rows if not erased.has(file)]
    files_of = by_store(names)
    differ: list[LakeFinding] = []
    for store_id, chain in chains.items():
        files = files_of.get(store_id, [])
        lag = checks.unfolded(files, chain)
        if lag:
            result.unfolded.append(f"{store_id.hex()}: {', '.join(lag)}")
        result.projected += len(files)
        differ += checks.compare(place, chain, files)
        if source is not None and source.store_id == store_id:
            differ += checks.compare_here(place, chain, files, _events_here(place, chain, source))
    yield from differ
    result.unfolded_wide = checks.wide_lags(names, chains)
    if not (differ or result.unfolded_wide):  # of tables that are not right nothing right can be made
        yield from checks.compare_wide(place, names, chains)


def _events_here(place: Place, chain: Chain, source: "Source") -> "pa.Table":
    """The events of the log here, each range under the policy of the file that was published of it."""
    parts = [SCHEMA.empty_table()]
    for file in chain.live:
        policy = Policy.decode(metadata_of(place, file.name).get("policy", ""), place.address(file.name))
        parts.append(source.table(file.base, file.end, policy))
    return pa.concat_tables(parts)


def _snapshot_findings(place: Place, catalog_uri: str, erased: ErasedFiles) -> "Iterator[LakeFinding]":
    """Older snapshots of the tables that reach what was erased."""
    from eventlog.lake import snapshots
    from eventlog.lake.derived import DerivedTables

    with tables.opened(place, catalog_uri) as catalog:
        derived = DerivedTables(place, catalog, catalog_uri)
        for name in (tables.TABLE, *derived.names()):
            with derived.noted(name):
                table = tables.loaded(place, catalog, catalog_uri, name)
                reader = snapshots.Snapshots(place, table)
                current = table.metadata.current_snapshot_id
                reaching = [id for id in snapshots.reaching_erased(reader, table, erased) if id != current]
                if reaching:
                    what = f"{len(reaching)} older snapshots of {name} reach rows that were erased"
                    yield LakeFinding(what, tables.shown(catalog_uri), MAINTAIN)
