"""Which data files of a lake's tables may hold what an erasure or a narrower policy took out.

Files of `events` are the published objects, so the chains say it; those of other tables say in their names
what they were made of (docs/lake-tables.md §4). One thread.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from eventlog.lake.chain import MERGE, Chain, store_of
from eventlog.lake.folding import stored, wide
from eventlog.lake.folding.stored import Projected
from eventlog.lake.folding.wide_files import WideFile

# The tables that are made of the published events.
TABLES = (*stored.TABLES, *wide.TABLES)


class ErasedFiles:
    """What is dead by the chains of all stores of a place; files of `unknown` stores count as live."""

    def __init__(self, chains: "Mapping[bytes, Chain]", unknown: "Iterable[bytes]" = ()) -> None:
        self._chains = chains
        self._unknown = frozenset(unknown)
        self._clean: dict[bytes, set[str]] = {}
        self.count = sum(r.reason != MERGE for chain in chains.values() for r in chain.rewrites)

    def has(self, name: str) -> bool:
        """Whether a data file of a table is dead."""
        if name.startswith("stores/"):
            return self._has_published(name)
        made_of = parsed(name)
        if made_of is None:
            return True  # somebody else wrote it, and nobody can tell what it holds
        if made_of.store_id is None:
            return not self._unknown and made_of.number != self.count
        if made_of.store_id in self._unknown:
            return False
        chain = self._chains.get(made_of.store_id)
        return chain is None or made_of.number < chain.last_erasure

    def _has_published(self, name: str) -> bool:
        store_id = store_of(name)
        if store_id in self._unknown:
            return False
        chain = self._chains.get(store_id)
        if chain is None:
            return True  # all of this store was deleted
        if store_id not in self._clean:
            self._clean[store_id] = clean_names(chain)
        return bool(chain.last_erasure) and name not in self._clean[store_id]


@dataclass(frozen=True, slots=True)
class MadeOf:
    """What a file was made of: a store up to a rewrite; without one, all stores after so many erasures."""

    store_id: "bytes | None"
    number: int


def parsed(name: str) -> "MadeOf | None":
    """What the name of a file says; None for one that is not of ours."""
    projected = Projected.parse(name)
    if projected is not None:
        return MadeOf(projected.store_id, projected.number)
    over_all = WideFile.parse(name)
    return None if over_all is None else MadeOf(None, over_all.erasures)


def clean_names(chain: Chain) -> "set[str]":
    """The files that hold nothing that was erased: those that are live, and were until a later merge."""
    last = chain.last_erasure
    merged = (name for r in chain.rewrites if r.number > last for name in r.removes)
    return {file.name for file in (*chain.live, *chain.waiting)} | set(merged)
