"""The chain of a store in a place: its live files, and how far they reach (docs/lake.md §1).

    events/<base>.parquet             a publication
    rewrites/<n>.json                 which files took the place of which
    rewritten/<n>-<base>-<hash>.parquet
    packs/<hash>.evp

Reads names, the rewrites, and the footer of the last publication; from a chain that was read before, only
what came since. One thread.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from eventlog.base import jsontext
from eventlog.base.errors import PARSE_ERRORS, Corruption, EventLogError, NotFound, why_unreadable
from eventlog.lake.place import Place

MERGE, ERASURE, POLICY = "merge", "erasure", "policy"

# Footers have some 13 kB: this many bytes of the end of a file hold one in a single request.
_FOOTER_BYTES = 64 << 10
_FOOTER_END = 8  # its length, and the magic

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

    `live` is without gaps and in the order of positions; `waiting` are files after a gap, whose ends are not
    known (-1); `dead` are the names of files of events, and of packs, that a rewrite removed or that came too
    late; `end` is the published position. Of a chain that continues another, `dead` and `rewrites` have only
    what came since.
    """

    store_id: bytes
    live: "list[LiveFile]" = field(default_factory=list)
    waiting: "list[LiveFile]" = field(default_factory=list)
    dead: "list[str]" = field(default_factory=list)
    rewrites: "list[Rewrite]" = field(default_factory=list)
    number: int = 0  # of the last rewrite
    footers: "dict[str, dict[str, str]]" = field(default_factory=dict)  # that were read on the way

    @property
    def end(self) -> int:
        return self.live[-1].end if self.live else 0

    @property
    def next_rewrite(self) -> int:
        return self.number + 1

    @property
    def last_erasure(self) -> int:
        """The number of the last rewrite by an erasure or a narrower policy; 0 where there is none."""
        return max((rewrite.number for rewrite in self.rewrites if rewrite.reason != MERGE), default=0)


def read_chain(place: Place, store_id: bytes) -> Chain:
    """The chain of a store as it is now.

    Raises: Corruption, NotFound (a file was removed meanwhile: read it again).
    """
    return _read(place, Chain(store_id))


def continued(place: Place, known: Chain) -> "Chain | None":
    """What became of a chain that was read before; None where its last file is gone: read all of it again.

    Raises: as `read_chain`.
    """
    chain = _read(place, known)
    last = known.live[-1].name if known.live else ""
    if last and last not in chain.dead and not _is_there(place, last):
        return None
    return chain


def metadata_of(place: Place, name: str) -> "dict[str, str]":
    """The keys `locus.…` of a published file's metadata, without that beginning.

    Raises: Corruption, NotFound.
    """
    return keys_of(footer_of(place, name))


def footer_of(place: Place, name: str) -> "pq.FileMetaData":
    """The footer at the end of a published file: by one request, by two where it is large.

    Raises: Corruption, NotFound.
    """
    try:
        data = place.read_end(name, _FOOTER_BYTES)
        size = int.from_bytes(data[-_FOOTER_END:][:4], "little") + _FOOTER_END
        if size > len(data) == _FOOTER_BYTES:
            data = place.read_end(name, size)
        return pq.read_metadata(pa.BufferReader(data))
    except EventLogError:
        raise
    except (OSError, *PARSE_ERRORS) as error:
        why = why_unreadable(error)
        raise Corruption(place.address(name), f"it is no Parquet file: {why}") from error


def keys_of(footer: "pq.FileMetaData") -> "dict[str, str]":
    """The keys `locus.…` of a footer, without that beginning."""
    pairs: Mapping[bytes, bytes] = footer.metadata or {}
    keys = {key.decode(): value.decode() for key, value in pairs.items() if key.startswith(b"locus.")}
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


def _read(place: Place, known: Chain) -> Chain:
    """What is there now, from `known` on.

    Publications are listed before rewrites: what a rewrite removed after the first list, the second shows.
    """
    store_id, prefix = known.store_id, prefix_of(known.store_id)
    after = publication_name(store_id, known.end - 1) if known.end else ""
    publications = place.list(f"{prefix}/events", after)
    after = rewrite_name(store_id, known.number) if known.number else ""
    listed = place.list(f"{prefix}/rewrites", after)
    rewrites = [decode_rewrite(place.read(entry.name), place.address(entry.name)) for entry in listed]
    number = rewrites[-1].number if rewrites else known.number
    chain = Chain(store_id, rewrites=rewrites, number=number)
    files = {file.name: file for file in known.live}
    files |= {entry.name: LiveFile(entry.name, base_of(entry.name), -1, entry.size) for entry in publications}
    for rewrite in rewrites:
        _rewrite(chain, files, rewrite)
    _order(place, chain, sorted(files.values(), key=lambda file: (file.base, file.name)))
    return chain


def _rewrite(chain: Chain, files: "dict[str, LiveFile]", rewrite: Rewrite) -> None:
    """Bring the files that were live before a rewrite to those after it."""
    covered = [
        file.name
        for file in files.values()
        if is_publication(file.name) and any(new.base <= file.base < new.end for new in rewrite.adds)
    ]
    for name in dict.fromkeys([*rewrite.removes, *covered]):
        files.pop(name, None)
        chain.dead.append(name)
    files |= {file.name: file for file in rewrite.adds}
    chain.dead += rewrite.removes_packs


def _order(place: Place, chain: Chain, files: "list[LiveFile]") -> None:
    """Divide files, in the order of their bases, into those without a gap before them and the others."""
    for index, file in enumerate(files):
        if file.base != chain.end or chain.waiting:
            chain.waiting.append(file)
        elif file.end >= 0:
            chain.live.append(file)
        else:
            end = files[index + 1].base if index + 1 < len(files) else _end_of(place, file.name, chain)
            chain.live.append(LiveFile(file.name, file.base, end, file.size))


def _end_of(place: Place, name: str, chain: Chain) -> int:
    footer = chain.footers[name] = metadata_of(place, name)
    try:
        return int(footer["end"])
    except (KeyError, ValueError) as error:
        raise Corruption(place.address(name), "its metadata has no end") from error


def _is_there(place: Place, name: str) -> bool:
    try:
        place.read_end(name, _FOOTER_END)
    except NotFound:
        return False
    return True


def is_publication(name: str) -> bool:
    """Whether it is the name of a publication."""
    return "/events/" in name


def stem_of(name: str) -> str:
    """The hash in the name of a pack."""
    return name.rpartition("/")[2].partition(".")[0]


def rewritten_number(name: str) -> int:
    """The number of the rewrite for which a file was made, from its name."""
    return int(name.rpartition("/")[2].partition("-")[0])


def store_of(name: str) -> bytes:
    """The id of the store that an object below `stores/` belongs to."""
    return bytes.fromhex(name.split("/", 2)[1])


def base_of(name: str) -> int:
    """The base in the name of a publication."""
    return int(name.rpartition("/")[2].partition(".")[0])
