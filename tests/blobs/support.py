"""Trees in memory, put into a store and read back from a directory."""

import os
import stat
import threading
from collections.abc import Callable
from typing import TypeVar

from eventlog.base.errors import EventLogError
from eventlog.base.fs import REAL, FileSystem
from eventlog.base.layout import PACK_DIR, Layout
from eventlog.blobs.ids import blob_id, to_text
from eventlog.blobs.store import BlobStore
from eventlog.blobs.tree import DIRECTORY, EXECUTABLE, FILE, SYMLINK, TreeEntry
from eventlog.blobs.writer import BlobWriter
from eventlog.log.finding import Finding
from tests.conftest import closed_later, files_of

# A directory is a dict; a file (kind, content).
Node = dict[bytes, "Node | tuple[bytes, bytes]"]


Result = TypeVar("Result")


def as_process(work: Callable[[], Result]) -> Result:
    """What `work` returns or raises, with lock books of its own, as another process has."""
    results: list[Result] = []
    errors: list[BaseException] = []

    def run() -> None:
        try:
            results.append(work())
        except BaseException as error:
            errors.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    if errors:
        raise errors[0]
    return results[0]


def open_store(layout: Layout, fs: FileSystem = REAL) -> BlobStore:
    blobs = BlobStore(files_of(fs, layout))
    return closed_later(blobs) if fs is REAL else blobs  # a machine in memory has no descriptors to give back


def put_all(blobs: BlobStore, *contents: bytes, codec: str = "zlib") -> list[bytes]:
    """Put and flush; the ids."""
    with blobs.writer(codec=codec) as writer:
        ids = [writer.put(content) for content in contents]
        writer.flush()
    return ids


def put_node(writer: BlobWriter, node: Node) -> bytes:
    """The id of the tree of `node`."""
    entries = []
    for name, below in node.items():
        if isinstance(below, dict):
            entries.append(TreeEntry(name, DIRECTORY, put_node(writer, below)))
        else:
            kind, content = below
            entries.append(TreeEntry(name, kind, writer.put(content), len(content)))
    return writer.put_tree(entries)


def store_node(blobs: BlobStore, node: Node, codec: str = "zlib") -> bytes:
    with blobs.writer(codec=codec) as writer:
        root = put_node(writer, node)
        writer.flush()
    return root


def read_node(directory: str | bytes) -> Node:
    """What is in a directory, by plain calls that know nothing of the store."""
    node: Node = {}
    for entry in os.scandir(os.fsencode(directory)):
        if entry.is_symlink():
            node[entry.name] = (SYMLINK, os.readlink(entry.path))
        elif entry.is_dir():
            node[entry.name] = read_node(entry.path)
        else:
            mode = stat.S_IMODE(entry.stat().st_mode)
            assert mode in (0o644, 0o755), (entry.path, oct(mode))
            with open(entry.path, "rb") as file:
                node[entry.name] = (EXECUTABLE if mode == 0o755 else FILE, file.read())
    return node


def pack_paths(layout: Layout) -> list[str]:
    directory = layout.directory(PACK_DIR)
    return [f"{directory}/{name}" for name in sorted(os.listdir(directory))]


def overwrite(path: str, data: bytes) -> None:
    with open(path, "wb") as file:
        file.write(data)


def content_of(id: bytes, blobs: BlobStore) -> bytes:
    """The blob, checked by a hash of its own."""
    data = blobs.get(id)
    assert blob_id(data) == id
    return data


def verify_tree(blobs: BlobStore, root: bytes) -> list[Finding]:
    """Everything below a tree that cannot be read; reads each directory and content once (I24)."""
    findings = []
    seen = {root}
    waiting = [(b"", DIRECTORY, root)]
    while waiting:
        path, kind, id = waiting.pop()
        try:
            below = blobs.get_tree(id) if kind == DIRECTORY else ()
            if kind != DIRECTORY:
                blobs.get(id)
        except EventLogError as error:
            findings.append(Finding(os.fsdecode(path) or to_text(root), str(error)))
            continue
        for entry in below:
            if entry.id not in seen:
                seen.add(entry.id)
                waiting.append((path + b"/" + entry.name if path else entry.name, entry.kind, entry.id))
    return findings
