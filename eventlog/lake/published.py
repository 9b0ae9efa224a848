"""What a place has of a store, read and compared with the store's own log (docs/lake.md §2, step 3).

One thread.
"""

from dataclasses import dataclass, field
from functools import reduce

import pyarrow as pa
import pyarrow.parquet as pq

from eventlog.base import jsontext
from eventlog.base.errors import PARSE_ERRORS, Corruption, NotFound, Refused, Unsupported
from eventlog.blobs.pack import PackTables
from eventlog.lake import packs
from eventlog.lake.chain import (
    MERGE,
    Chain,
    LiveFile,
    continued,
    is_publication,
    metadata_of,
    pack_name,
    prefix_of,
    read_chain,
)
from eventlog.lake.place import Place, StoredObject
from eventlog.lake.policy import Policy, narrower
from eventlog.lake.remembered import Remembered
from eventlog.lake.source import FORMAT, RangeIdentity, Source, identity_of

_TRIES_MAX = 5  # while others remove files that the chain has just named


@dataclass(slots=True)
class Published:
    """The state of a store in a place; names of files and packs are those of objects.

    `erasures` are those that each live file knows, `packs` the live ones with the ids in them, `lost` the
    files and packs that should be there and are not. The others: as in `Remembered`.
    """

    chain: Chain
    policies: "dict[str, Policy]" = field(default_factory=dict)
    erasures: "dict[str, frozenset[str]]" = field(default_factory=dict)
    packs: "dict[str, frozenset[bytes]]" = field(default_factory=dict)
    removed_packs: "set[str]" = field(default_factory=set)
    lost: "set[str]" = field(default_factory=set)
    searched: str = ""
    erased_to: int = 0
    swept: int = 0

    @property
    def newest_policy(self) -> "Policy | None":
        """That of the last file; those of older files are no wider, or are rewritten."""
        return self.policies[self.chain.live[-1].name] if self.chain.live else None

    @property
    def contents(self) -> "set[bytes]":
        """The ids of the contents in live packs."""
        return set().union(*self.packs.values())

    def remembered(self) -> Remembered:
        """What to remember of it; all its files were brought up to the same erasures."""
        known = frozenset.intersection(*self.erasures.values()) if self.erasures else frozenset()
        removed = frozenset(self.removed_packs)
        chain = Chain(self.chain.store_id, live=list(self.chain.live), number=self.chain.number)
        return Remembered(
            chain, self.policies, known, self.packs, removed, self.searched, self.erased_to, self.swept
        )


def read(
    place: Place, source: Source, known: "Remembered | None", *, without_lost: bool = False
) -> Published:
    """The state as it is now.

    Args: without_lost: note files that are gone, where an error is raised otherwise. Raises: Refused where
    the files are not of this log; Corruption; NotFound.
    """
    for _ in range(_TRIES_MAX - 1):
        try:
            return _read(place, source, known, notes_lost=False)
        except NotFound:
            known = None
    try:
        return _read(place, source, None, notes_lost=without_lost)
    except NotFound as error:
        raise NotFound(f"{error}. `locus publish {place.uri} --again` makes it again.") from error


def _read(place: Place, source: Source, known: "Remembered | None", *, notes_lost: bool) -> Published:
    chain = None if known is None else continued(place, known.chain)
    if chain is None or known is None:
        state = Published(read_chain(place, source.store_id))
    else:
        state = Published(chain, searched=known.searched, erased_to=known.erased_to, swept=known.swept)
        state.packs, state.removed_packs = dict(known.packs), set(known.removed_packs)
        live = {file.name for file in chain.live}
        state.policies = {name: policy for name, policy in known.policies.items() if name in live}
        state.erasures = dict.fromkeys(state.policies, known.erasures)
    named = set(state.packs)
    for index, file in enumerate(state.chain.live):
        if file.name not in state.policies:
            try:
                footer = state.chain.footers.get(file.name) or metadata_of(place, file.name)
            except NotFound:
                if not notes_lost or is_publication(file.name):
                    raise
                state.lost.add(file.name)
                continue
            end = _end_in(place, file, footer)
            if end < file.end:  # the publication that followed is gone
                state.chain.waiting[:0] = state.chain.live[index + 1 :]
                state.chain.live[index:] = [file := LiveFile(file.name, file.base, end, file.size)]
            named |= _note(state, place, source, file, footer)
    for name in state.lost:  # no more than any other file there shows
        state.policies[name] = reduce(narrower, state.policies.values(), source.policy)
        state.erasures[name] = source.erasures
    _fold_packs(state, place, source, named - state.removed_packs)
    return state


def _end_in(place: Place, file: LiveFile, footer: "dict[str, str]") -> int:
    try:
        end = int(footer["end"])
    except (KeyError, ValueError) as error:
        raise Corruption(place.address(file.name), "its metadata has no end") from error
    if end > file.end:
        raise Corruption(
            place.address(file.name), f"it reaches over position {file.end}, where another begins"
        )
    return end


def _note(
    state: Published, place: Place, source: Source, file: LiveFile, footer: "dict[str, str]"
) -> "set[str]":
    """Check a file that is not known yet, and note it; the answer are the packs that it names."""
    address = place.address(file.name)
    if footer.get("format", FORMAT) != FORMAT:
        raise Unsupported(
            f"{address} has format {footer['format']}; this version of Locus knows format {FORMAT}. Nothing "
            "was published. Use a newer Locus."
        )
    _check_same_log(place, source, file, footer)
    try:
        known = frozenset(jsontext.decode(footer["erasures"]))
        state.policies[file.name] = Policy.decode(footer["policy"], address)
        names = {pack_name(source.store_id, stem) for stem in jsontext.decode(footer["packs"])}
    except PARSE_ERRORS as error:
        raise Corruption(address, f"its metadata is incomplete: {error!r}") from error
    if not known <= source.erasures:
        raise Refused(
            f"{address} was made after an erasure that this store knows nothing of: another copy of the "
            "store erased something. Nothing was published. Go on with that copy, or publish this one to a "
            "place of its own (another prefix or directory)."
        )
    state.erasures[file.name] = known
    return names


def _check_same_log(place: Place, source: Source, file: LiveFile, footer: "dict[str, str]") -> None:
    """Refuse a file that was not made from this log."""
    if file.end > source.end:
        raise Refused(
            f"{place.uri} has the events of this store up to position {file.end:,}, but its log ends at "
            f"{source.end:,}: it is an older copy. Nothing was published. Restore a newer backup, or publish "
            "this copy to a place of its own (another prefix or directory)."
        )
    own = source.identity(file.base, file.end)
    if own != _published_identity(place, file, footer):
        raise Refused(
            f"{place.address(file.name)} has other events of positions {file.base:,} to {file.end:,} than "
            "this store: another copy of it went a different way and published first. Nothing was published. "
            "Go on with that copy, or publish this one to a place of its own (another prefix or directory)."
        )


def _published_identity(place: Place, file: LiveFile, footer: "dict[str, str]") -> RangeIdentity:
    if "ids" in footer and "last_event_id" in footer:
        return RangeIdentity(footer["ids"], footer["last_event_id"])
    table = pq.read_table(pa.BufferReader(place.read(file.name)), columns=["position", "event_id"])
    return identity_of(table.to_batches())


def _fold_packs(state: Published, place: Place, source: Source, named: "set[str]") -> None:
    """Bring the live packs, and those that are gone, to what the rewrites say; and note what packs hold."""
    for rewrite in state.chain.rewrites:
        named -= set(rewrite.removes_packs)
        state.removed_packs |= set(rewrite.removes_packs)
        named |= set(rewrite.adds_packs)
        state.removed_packs -= set(rewrite.adds_packs)
        if rewrite.reason != MERGE:
            state.erased_to = rewrite.number
    state.packs = {name: ids for name, ids in state.packs.items() if name in named}
    unknown = named - state.packs.keys()
    if unknown:
        listed = [entry for entry in packs_in(place, source.store_id) if entry.name in unknown]
        state.packs |= ids_of(place, source.store_id, listed)
        state.lost |= unknown - state.packs.keys()


def packs_in(place: Place, store_id: bytes) -> "list[StoredObject]":
    """All packs of a store that are there, live or not."""
    return place.list(f"{prefix_of(store_id)}/packs")


def ids_of(place: Place, store_id: bytes, listed: "list[StoredObject]") -> "dict[str, frozenset[bytes]]":
    """The ids in packs. One that is gone or cannot be read counts as one that is not there."""
    tables = packs.tables_of(place, store_id, listed)
    return {entry.name: frozenset(t.ids()) for entry, t in tables if isinstance(t, PackTables)}
