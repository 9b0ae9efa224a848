"""Merging the small files of a store into few (docs/lake.md §6): a rewrite, made of the files themselves.

Needs no store and no log. Of two that merge at once, or a merge beside an erasure, one gets the number of the
rewrite; the other deletes what it made and reads the chain again. So nothing that was erased comes back.
"""

from collections.abc import Iterator

import pyarrow as pa
import pyarrow.parquet as pq
from blake3 import blake3

from eventlog.base import jsontext
from eventlog.base.errors import PARSE_ERRORS, Corruption, NotFound
from eventlog.lake.chain import (
    MERGE,
    Chain,
    LiveFile,
    Rewrite,
    metadata_of,
    read_chain,
    rewritten_name,
)
from eventlog.lake.outgoing import SCHEMA, encoded
from eventlog.lake.place import Place, each
from eventlog.lake.rewrites import put
from eventlog.lake.source import identity_of

# A merged file has at most so many bytes, ten times as much while it is made; one that has half of it stays.
MERGED_BYTES = 32 << 20
# Fewer neighbours than this are not worth a rewrite.
FILES_MIN = 8

_TRIES = 5


def merge(place: Place, store_id: bytes, *, files_min: int = FILES_MIN) -> "tuple[int, int]":
    """Merge what is small; (files taken out, files put in their place), (0, 0) where nothing was.

    Raises: Refused without the right to create objects; Corruption; EventLogError of the storage.
    """
    for _ in range(_TRIES):
        try:
            chain = read_chain(place, store_id)
            runs = list(_runs(place, chain, files_min))
            if not runs:
                return 0, 0
            if _made(place, chain, runs):
                return sum(len(run) for run in runs), len(runs)
        except NotFound:  # an erasure took a file out meanwhile
            continue
    return 0, 0  # others are at work: they, or the next run, finish it


# A file, and the keys of its footer.
_Run = list[tuple[LiveFile, dict[str, str]]]


def _runs(place: Place, chain: Chain, files_min: int) -> Iterator[_Run]:
    """Neighbours that become one file: small, without a gap, of one policy. The last publication stays."""
    small = [file for file in chain.live[:-1] if file.size < MERGED_BYTES // 2]
    if len(small) < files_min:
        return
    footers = each(lambda file: metadata_of(place, file.name), small)
    run: _Run = []
    for file, footer in zip(small, footers, strict=True):
        if run and not _may_join(run, file, footer):
            if len(run) >= files_min:
                yield run
            run = []
        run.append((file, footer))
    if len(run) >= files_min:
        yield run


def _may_join(run: _Run, file: LiveFile, footer: "dict[str, str]") -> bool:
    last = run[-1][1]
    return (
        last.get("end") == str(file.base)
        and last.get("policy") == footer.get("policy")
        and sum(member.size for member, _ in run) + file.size <= MERGED_BYTES
    )


def _made(place: Place, chain: Chain, runs: "list[_Run]") -> bool:
    """Create the merged files and the rewrite; False where somebody else has its number."""
    added = []
    for run in runs:
        data = _joined(place, run)
        base, end = run[0][0].base, run[-1][0].end
        name = rewritten_name(chain.store_id, chain.next_rewrite, base, blake3(data).hexdigest())
        place.create(name, data)
        added.append(LiveFile(name, base, end, len(data)))
    removed = tuple(file.name for run in runs for file, _ in run)
    rewrite = Rewrite(chain.next_rewrite, MERGE, removed, tuple(added))
    return put(place, chain.store_id, place.create, rewrite)


def _joined(place: Place, run: _Run) -> bytes:
    """The file with the events of several. Raises: Corruption, NotFound."""
    tables = [read_events(place, file.name) for file, _ in run]
    identity = identity_of(tables)
    footers = [footer for _, footer in run]
    last = footers[-1]
    try:
        erasures = set.intersection(*(set(jsontext.decode(footer["erasures"])) for footer in footers))
        packs = set().union(*(jsontext.decode(footer["packs"]) for footer in footers))
        metadata = {
            **last,
            "base": str(run[0][0].base),
            "last_event_id": identity.last_event_id,
            "ids": identity.digest,
            "erasures": jsontext.encode(sorted(erasures)).decode(),
            "packs": jsontext.encode(sorted(packs)).decode(),
        }
    except PARSE_ERRORS as error:
        raise Corruption(place.address(run[0][0].name), f"its metadata is incomplete: {error!r}") from error
    return encoded(tables, {f"locus.{key}": value for key, value in metadata.items()})


def read_events(place: Place, name: str) -> "pa.Table":
    """The events of a published file, every page of it checked, in the columns of this version.

    Raises: Corruption, NotFound.
    """
    data = pa.BufferReader(place.read(name))
    try:
        table = pq.read_table(data, use_threads=False, page_checksum_verification=True)
        unknown = set(table.column_names) - set(SCHEMA.names)
        if unknown:
            raise Corruption(
                place.address(name),
                f"it has columns that this version does not know: {', '.join(sorted(unknown))}",
            )
        lacking = [field for field in SCHEMA if field.name not in table.column_names]
        for field in lacking:
            table = table.append_column(field, pa.nulls(len(table), field.type))
        return table.select(SCHEMA.names).cast(SCHEMA)
    except (pa.ArrowException, OSError, ValueError) as error:
        raise Corruption(place.address(name), f"it cannot be read: {error}") from error
