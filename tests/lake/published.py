"""A store recorded by programs, and its objects in a place, without the command that publishes."""

import os
import stat
from collections.abc import Collection
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from eventlog import Recorder, Store
from eventlog.base import jsontext
from eventlog.lake import chain
from eventlog.lake.chain import Chain
from eventlog.lake.packs import made_packs
from eventlog.lake.place import Place
from eventlog.log.segment import SCHEMA, WRITE_OPTIONS, with_anchors_apart


def recorded(work: Path, *states: "dict[str, bytes | None]") -> Store:
    """A store beside `work`, with a turn for each state: files to write, None for one to remove."""
    store = Store.init(work.parent / f"{work.name}-store")
    with Recorder(store, agent="script").start_session("Files") as session:
        for number, files in enumerate(states):
            with session.start_turn(f"State {number}", root=work) as turn:
                for name, content in files.items():
                    put(work, name, content)
                turn.snapshot(work)
                turn.end()
    return store


def put(work: Path, name: str, content: "bytes | None") -> None:
    path = work / name
    if content is None:
        path.unlink()
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)


def all_ids(store: Store) -> "set[bytes]":
    """Every content and tree of a store."""
    return {id for tables in store.blobs.tables() for id in tables.ids()}


def publish(
    place: Place,
    store: Store,
    *,
    base: int = 0,
    end: "int | None" = None,
    ids: "Collection[bytes] | None" = None,
) -> Chain:
    """Put the events of [base, end) of a store, and contents, as a publication would; its chain."""
    with store.view() as view:
        end = view.next_position if end is None else end
        events = pa.Table.from_batches(list(view.batches(base, end)), SCHEMA)
    names = []
    missing: dict[bytes, str] = {}
    for pack in made_packs(store.blobs, all_ids(store) if ids is None else ids, missing):
        place.create(chain.pack_name(store.blobs.store_id, pack.name), pack.data)
        names.append(pack.name)
    assert missing == {}
    table = with_anchors_apart(events.combine_chunks())
    table = table.add_column(0, "store_id", pa.array([store.blobs.store_id.hex()] * len(table), pa.string()))
    table = table.replace_schema_metadata(
        {
            "locus.format": "1",
            "locus.store_id": store.blobs.store_id.hex(),
            "locus.base": str(base),
            "locus.end": str(end),
            "locus.packs": jsontext.encode(names).decode(),
        }
    )
    out = pa.BufferOutputStream()
    pq.write_table(table, out, **WRITE_OPTIONS)
    assert place.create(chain.publication_name(store.blobs.store_id, base), out.getvalue().to_pybytes())
    return chain.read_chain(place, store.blobs.store_id)


def listing(directory: Path) -> "dict[str, tuple[int, bytes]]":
    """Every name below a directory with its mode and its content; of a symlink the target."""
    found = {}
    for path in sorted(directory.rglob("*")):
        status = path.lstat()
        if path.is_symlink():
            content = os.fsencode(os.readlink(path))
        else:
            content = b"" if path.is_dir() else path.read_bytes()
        found[os.fsdecode(path.relative_to(directory))] = stat.S_IMODE(status.st_mode), content
    return found


class CountedPlace(Place):
    """A place that notes which parts of packs are read."""

    def __init__(self, place: Place) -> None:
        super().__init__(place.uri, place._client)
        self.ends: list[str] = []
        self.ranges: list[tuple[str, int, int]] = []

    def read_end(self, name: str, length: int) -> bytes:
        if name.endswith(".evp"):
            self.ends.append(name)
        return super().read_end(name, length)

    def read_range(self, name: str, start: int, length: int) -> bytes:
        if name.endswith(".evp"):
            self.ranges.append((name, start, length))
        return super().read_range(name, start, length)
