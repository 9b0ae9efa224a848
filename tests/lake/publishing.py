"""What the tests of publishing share: stores with events and contents, and what a place has of them."""

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from blake3 import blake3

from eventlog.base.fs import REAL
from eventlog.blobs.catalog import load_tables
from eventlog.blobs.groups import GroupReader
from eventlog.blobs.ids import to_text
from eventlog.blobs.tree import FILE, TreeEntry
from eventlog.lake import merges, published, remembered, source
from eventlog.lake.chain import Chain, metadata_of, read_chain
from eventlog.lake.outgoing import SCHEMA, Outgoing
from eventlog.lake.place import Place
from eventlog.lake.policy import Policy
from eventlog.lake.publish import PublishReport, publish
from eventlog.store import Store
from tests.maintenance.support import event, make_store

ALL = Policy(texts=True, contents=True, paths=True, people="full")
TEXTS = Policy(texts=True)
NOTHING = Policy()

AT = 1_770_000_000_000_000  # 2026-02-02T02:40:00Z
CANARY = "tulipFox81zebra-Q7"


def new_store(directory: Path) -> Store:
    directory.mkdir(parents=True, exist_ok=True)
    return make_store(directory / ".locus")


def record(store: Store, number: int, text: str = "a text", *contents: bytes) -> None:
    """An event with a text; with contents a snapshot of a tree of them, too."""
    at = AT + number * 1_000_000
    session = {"session_id": "abcd1234", "turn": 1, "agent_session_id": None, "occurred_at": at}
    store.append([event(number, payload={"tool": "run", "args": {"text": text}}, **session)])
    if contents:
        with store.blobs.writer() as writer:
            entries = [
                TreeEntry(b"file%d" % index, FILE, writer.put(data), len(data))
                for index, data in enumerate(contents)
            ]
            root = to_text(writer.put_tree(entries))
            writer.flush()
            snapshot = {"event_type": "snapshot", "tree_hash": root, "blobs": [root]}
            store.append([event(number + 1_000_000, **session, **snapshot)])


def record_tree(store: Store, number: int, files: "dict[bytes, bytes]") -> None:
    """A snapshot of a tree with these files."""
    with store.blobs.writer() as writer:
        entries = [TreeEntry(name, FILE, writer.put(data), len(data)) for name, data in files.items()]
        root = to_text(writer.put_tree(entries))
        writer.flush()
        snapshot = {"event_type": "snapshot", "tree_hash": root, "blobs": [root]}
        store.append([event(number, session_id="abcd1234", turn=1, agent_session_id=None, **snapshot)])


def set_policy(store: Store, policy: Policy) -> None:
    """Write it into the store's settings."""
    words = {True: "true", False: "false"}
    flags = "".join(f"{name} = {words[getattr(policy, name)]}\n" for name in ("texts", "contents", "paths"))
    Path(store.layout.config_file).write_text(f'[publish]\n{flags}people = "{policy.people}"\n')


def send(store: Store, place: Place, policy: Policy = ALL, **named: Any) -> PublishReport:
    """Publish with everybody's consent."""
    return publish(store, place, policy, agreed=True, **named)


def copy_of(store: Store, directory: Path) -> Store:
    """A copy of a store as it is now."""
    directory.mkdir(parents=True)
    shutil.copytree(store.layout.root, directory / ".locus")
    return Store.open(directory / ".locus")


def chain_of(store: Store, place: Place) -> Chain:
    return read_chain(place, store.identity.store_id)


def live_table(store: Store, place: Place) -> "pa.Table":
    """The rows of all live files, in order."""
    tables = [SCHEMA.empty_table()]
    for file in chain_of(store, place).live:
        tables.append(pq.read_table(pa.BufferReader(place.read(file.name))))
    return pa.concat_tables([table.replace_schema_metadata(None) for table in tables])


def expected_table(store: Store, policy: Policy = ALL) -> "pa.Table":
    """The rows that the log has now, under a policy."""
    with store.view() as view:
        return Outgoing(store, view, policy).table(0, view.next_position)


def assert_published(store: Store, place: Place, policy: Policy = ALL) -> None:
    """The place has each event of the log once, as the policy lets it leave; and the contents."""
    live, expected = live_table(store, place), expected_table(store, policy)
    found, positions = live["position"].to_pylist(), expected["position"].to_pylist()
    assert found == positions, (found, positions, names(place))
    assert live.equals(expected)
    with store.view() as view:
        log = source.opened(store, view, policy)
        state = published.read(place, log, None)
        needed = Outgoing(store, view, policy).contents(0, view.next_position)
        assert needed <= state.contents
        assert not state.contents & log.forbidden


def assert_published_under_its_policies(store: Store, place: Place) -> "list[Policy]":
    """The same, where the policy changed: each file as its own policy lets it leave. The policies."""
    policies = []
    with store.view() as view:
        chain = chain_of(store, place)
        assert chain.end == view.next_position
        for file in chain.live:
            policies.append(Policy.decode(metadata_of(place, file.name)["policy"]))
            live = pq.read_table(pa.BufferReader(place.read(file.name)))
            assert live.equals(Outgoing(store, view, policies[-1]).table(file.base, file.end)), file
        state = published.read(place, source.opened(store, view, ALL), None)
        log = source.opened(store, view, ALL)
        for file, policy in zip(chain.live, policies, strict=True):
            needed = Outgoing(store, view, policy).contents(file.base, file.end)
            assert needed <= state.contents, file
        assert not state.contents & log.forbidden
    return policies


def merge(store: Store, place: Place) -> None:
    """Merge all live files but the last, as maintenance does."""
    assert merges.merge(place, store.identity.store_id, files_min=2) != (0, 0)


def forget(store: Store, place: Place) -> None:
    """Delete what the store remembers of a place."""
    digest = blake3(place.uri.encode()).hexdigest()[:16]
    Path(store.layout.lake(digest)).unlink(missing_ok=True)
    assert remembered.read(store.fs, store.layout, place.uri, store.identity.store_id) is None


def names(place: Place) -> "list[str]":
    return [entry.name for entry in place.list("stores")]


def decoded(place: Place, scratch: Path) -> "Iterator[tuple[str, bytes]]":
    """Every object of a place: its bytes, and what it holds."""
    scratch.mkdir(exist_ok=True)
    for name in names(place):
        data = place.read(name)
        yield name, data
        if name.endswith(".parquet"):
            yield f"{name} decoded", repr(pq.read_table(pa.BufferReader(data)).to_pydict()).encode()
        elif name.endswith(".evp"):
            path = scratch / name.rpartition("/")[2]
            path.write_bytes(data)
            tables = load_tables(REAL, str(path), path.stem, data[8:24])
            reader = GroupReader(REAL)
            for number in range(tables.group_count):
                group = tables.group(number)
                yield f"{name} group", reader.read(str(path), group.offset, 0, group.raw_size)
            reader.close()
            path.unlink()
    if place.uri.startswith("file://"):
        for path in Path(place.uri.removeprefix("file://")).rglob("*#*"):
            yield str(path), path.read_bytes()


def holding(place: Place, scratch: Path, text: str = CANARY) -> "list[str]":
    """The objects that hold a text."""
    return [name for name, data in decoded(place, scratch) if text.encode() in data]
