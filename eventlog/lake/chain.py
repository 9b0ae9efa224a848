"""The chain of a store in a place: its live files, and how far they reach (docs/lake.md §1).

    events/<base>.parquet             a publication
    rewrites/<n>.json                 which files took the place of which
    rewritten/<n>-<base>-<hash>.parquet
    packs/<hash>.evp

Reads names, the rewrites, and the footer of the last publication. One thread.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import pyarrow.parquet as pq

from eventlog.base import jsontext
from eventlog.base.errors import Corruption
from eventlog.lake.place import Entry, Place

MERGE, ERASURE, POLICY = "merge", "erasure", "policy"

_BASE_DIGITS = 20
_NUMBER_DIGITS = 8


def prefix_of(store_id: bytes) -> str:
    """Where the objects of a store are."""
    return f"stores/{store_id.hex()}"


def stores_in(place: Place) -> "list[bytes]":
    """The ids of all stores that published to a place."""
    return [bytes.fromhex(name) for name in place.directories("stores") if len(name) == 32]


def publication_name(store_id: bytes, base: int) -> str:
    return f"{prefix_of(store_id)}/events/{base:0{_BASE_DIGITS}d}.parquet"


def rewrite_name(store_id: bytes, number: int) -> str:
    return f"{prefix_of(store_id)}/rewrites/{number:0{_NUMBER_DIGITS}d}.json"


def rewritten_name(store_id: bytes, number: int, base: int, digest: str) -> str:
    stem = f"{number:0{_NUMBER_DIGITS}d}-{base:0{_BASE_DIGITS}d}-{digest}"
    return f"{prefix_of(store_id)}/rewritten/{stem}.parquet"


def pack_name(store_id: bytes, digest: str) -> str:
    return f"{prefix_of(store_id)}/packs/{digest}.evp"


@dataclass(frozen=True, slots=True)
class LiveFile:
    """A file of events: the visible ones of positions [base, end)."""

    name: str
    base: int
    end: int
    size: int  # bytes, 0 where it is not known


@dataclass(frozen=True, slots=True)
class Rewrite:
    """The content of `rewrites/<n>.json`."""

    number: int
    reason: str
    removes: "tuple[str, ...]"
    adds: "tuple[LiveFile, ...]"
    removes_packs: "tuple[str, ...]" = ()
    adds_packs: "tuple[str, ...]" = ()

    def encoded(self) -> bytes:
        return jsontext.encode(
            {
                "number": self.number,
                "reason": self.reason,
                "removes": list(self.removes),
                "adds": [
                    {"name": file.name, "base": file.base, "end": file.end, "size": file.size}
                    for file in self.adds
                ],
                "removes_packs": list(self.removes_packs),
                "adds_packs": list(self.adds_packs),
            }
        )


@dataclass(slots=True)
class Chain:
    """The state of a store in a place.

    `live` is without gaps and in the order of positions; `dead` are the names of files of events, and of
    packs, that a rewrite removed or that came too late; `end` is the published position.
    """

    store_id: bytes
    live: "list[LiveFile]" = field(default_factory=list)
    dead: "list[str]" = field(default_factory=list)
    rewrites: "list[Rewrite]" = field(default_factory=list)

    @property
    def end(self) -> int:
        return self.live[-1].end if self.live else 0

    @property
    def next_rewrite(self) -> int:
        return self.rewrites[-1].number + 1 if self.rewrites else 1


def read_chain(place: Place, store_id: bytes) -> Chain:
    """The chain of a store as it is now. Raises: Corruption, NotFound."""
    prefix = prefix_of(store_id)
    rewrites = [
        decode_rewrite(place.read(entry.name), place.address(entry.name))
        for entry in place.list(f"{prefix}/rewrites")
    ]
    return _resolved(place, store_id, place.list(f"{prefix}/events"), rewrites)


def metadata_of(place: Place, name: str) -> "dict[str, str]":
    """The keys `locus.…` of a published file's metadata, without that beginning. Raises: Corruption."""
    try:
        with place.open(name) as file:
            found: Mapping[bytes, bytes] = pq.read_metadata(file).metadata or {}
    except (OSError, ValueError) as error:
        raise Corruption(place.address(name), f"it is no Parquet file: {error}") from error
    keys = {key.decode(): value.decode() for key, value in found.items() if key.startswith(b"locus.")}
    return {key.removeprefix("locus."): value for key, value in keys.items()}


def decode_rewrite(data: bytes, path: str) -> Rewrite:
    """Raises: Corruption."""
    try:
        value: Any = jsontext.decode(data)
        adds = tuple(LiveFile(f["name"], f["base"], f["end"], f["size"]) for f in value["adds"])
        return Rewrite(
            value["number"],
            value["reason"],
            tuple(value["removes"]),
            adds,
            tuple(value["removes_packs"]),
            tuple(value["adds_packs"]),
        )
    except (ValueError, KeyError, TypeError) as error:
        raise Corruption(path, f"it is no rewrite: {error!r}") from error


def _resolved(
    place: Place, store_id: bytes, publications: "Iterable[Entry]", rewrites: "list[Rewrite]"
) -> Chain:
    chain = Chain(store_id, rewrites=rewrites)
    live = {entry.name: (base_of(entry.name), entry.size) for entry in publications}
    rewritten: dict[str, LiveFile] = {}
    for rewrite in rewrites:
        for name in rewrite.removes:
            live.pop(name, None)
            rewritten.pop(name, None)
            chain.dead.append(name)
        covered = [
            name
            for name, (base, _) in live.items()
            if any(file.base <= base < file.end for file in rewrite.adds)
        ]
        chain.dead += covered
        for name in covered:
            del live[name]
        rewritten |= {file.name: file for file in rewrite.adds}
        chain.dead += rewrite.removes_packs
    starts = sorted(
        [(base, name) for name, (base, _) in live.items()]
        + [(file.base, file.name) for file in rewritten.values()]
    )
    for number, (base, name) in enumerate(starts):
        if base != chain.end:
            break  # a gap: what follows is not live yet
        if name in rewritten:
            chain.live.append(rewritten[name])
        else:
            last = number + 1 == len(starts)
            end = int(metadata_of(place, name)["end"]) if last else starts[number + 1][0]
            chain.live.append(LiveFile(name, base, end, live[name][1]))
    return chain


def base_of(name: str) -> int:
    """The base in the name of a publication."""
    return int(name.rpartition("/")[2].partition(".")[0])
