"""Is what is in the packs what was put there? Reads only, beside any writer.

`quick` opens every live pack and checks its tables against their digest and its rows against each other;
`read` reads every byte: the pack's name, every group, every id, every tree, every bucket of the idx (I11).
A pack that disappears meanwhile was collected, which is no damage. Packs in `condemned/` are not checked.
"""

import os

from blake3 import blake3

from eventlog.base.errors import Corruption, EventLogError
from eventlog.base.fs import read_file
from eventlog.base.layout import IDX_DIR, PACK_DIR, parse_idx, parse_pack
from eventlog.blobs.catalog import load_tables
from eventlog.blobs.groups import GroupReader
from eventlog.blobs.ids import blob_id, to_text, tree_id
from eventlog.blobs.idx import Idx, encode_idx
from eventlog.blobs.pack import TREE, PackTables
from eventlog.blobs.store import BlobStore
from eventlog.blobs.tree import DIRECTORY, decode_tree
from eventlog.log.verify import QUICK, READ, Finding

_CHUNK = 1 << 20
_LOST = "What it holds cannot be read from here; bring the file back from a backup or capture the files again"
_DERIVED = "The packs answer without it; `locus store repair` sets it aside, and it is made again"


def verify(blobs: BlobStore, level: str = QUICK, damaged: "set[bytes] | None" = None) -> list[Finding]:
    """Everything wrong with the live packs and the idx files; empty when all is well.

    Args: damaged: gets the ids of which `read` finds a bad copy.
    """
    if level not in (QUICK, READ):
        raise ValueError(f"level is {QUICK!r} or {READ!r}, not {level!r}")
    findings: list[Finding] = []
    damaged = set() if damaged is None else damaged
    for name in blobs.fs.listdir(blobs.layout.directory(PACK_DIR)):
        stem = parse_pack(name)
        if stem is None:
            continue  # not ours
        path = blobs.layout.pack(stem)
        try:
            tables = load_tables(blobs.fs, path, stem, blobs.store_id)
            tables.check()
            if level == READ:
                findings += _verify_bytes(blobs, tables, damaged)
        except FileNotFoundError:
            continue
        except Corruption as error:
            findings.append(Finding(path, f"{error.what}. {_LOST}.", error.offset))
        except OSError as error:
            findings.append(Finding(path, f"the disk cannot read it ({error.strerror}). {_LOST}."))
    return findings + _verify_idx(blobs, level)


def verify_tree(blobs: BlobStore, root: bytes) -> list[Finding]:
    """Everything below a tree that cannot be read; reads all of it, each directory and content once (I24).

    A tree that nothing refers to any more may rightly miss parts, so this is asked of roots in use.
    """
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


def verify_idx_rows(blobs: BlobStore) -> list[Finding]:
    """Idx files that differ from the tables of their packs; costs the memory of making one."""
    fs, layout = blobs.fs, blobs.layout
    directory = layout.directory(IDX_DIR)
    findings: list[Finding] = []
    for name in fs.listdir(directory) if fs.exists(directory) else []:
        number = parse_idx(name)
        if number is None:
            continue
        path = layout.idx(number)
        try:
            data = read_file(fs, path)
            idx = Idx(fs, path, blobs.store_id)
            idx.close()
            tables = [load_tables(fs, layout.pack(stem), stem, blobs.store_id) for stem in idx.packs]
            if encode_idx(blobs.store_id, tables) != data:
                findings.append(Finding(path, f"it does not say what its packs say. {_DERIVED}."))
        except FileNotFoundError:
            continue  # a pack or the idx itself went: it is not used
        except OSError as error:
            findings.append(Finding(path, f"the disk cannot read it ({error.strerror})."))
        except Corruption:
            continue  # `verify` names it, or the pack
    return findings


def _verify_bytes(blobs: BlobStore, tables: PackTables, damaged: set[bytes]) -> list[Finding]:
    """Hash the file, then everything in it; ids that fail join `damaged`."""
    findings = []
    if _hash_of(blobs, tables.path) != tables.name:
        findings.append(Finding(tables.path, f"its bytes do not match its name. {_LOST}."))
    reader = GroupReader(blobs.fs)
    try:
        rows = [tables.entry(index) for index in range(len(tables))]
        for id, kind, group, offset, length in sorted(rows, key=lambda row: row[2:]):
            start = tables.group(group).offset
            try:
                _verify_entry(reader.read(tables.path, start, offset, length), id, kind, tables.path, start)
            except Corruption as error:
                damaged.add(id)
                what = f"{to_text(id)} cannot be read: {error.what}. {_LOST}."
                findings.append(Finding(tables.path, what, start))
    finally:
        reader.close()
    return findings


def _verify_entry(data: bytes, id: bytes, kind: int, path: str, offset: int) -> None:
    if (tree_id(data) if kind == TREE else blob_id(data)) != id:
        raise Corruption(path, "the content does not match its hash", offset)
    if kind == TREE:
        decode_tree(data, to_text(id))


def _verify_idx(blobs: BlobStore, level: str) -> list[Finding]:
    fs, layout = blobs.fs, blobs.layout
    directory = layout.directory(IDX_DIR)
    findings: list[Finding] = []
    for name in fs.listdir(directory) if fs.exists(directory) else []:
        number = parse_idx(name)
        if number is None:
            continue
        try:
            idx = Idx(fs, layout.idx(number), blobs.store_id)
            try:
                if level == READ:
                    idx.check()
            finally:
                idx.close()
        except FileNotFoundError:
            continue
        except Corruption as error:
            findings.append(Finding(error.path, f"{error.what}. {_DERIVED}.", error.offset))
        except OSError as error:
            findings.append(Finding(layout.idx(number), f"the disk cannot read it ({error.strerror})."))
    return findings


def _hash_of(blobs: BlobStore, path: str) -> str:
    fs = blobs.fs
    hasher = blake3()
    fd = fs.open(path, os.O_RDONLY)
    try:
        offset = 0
        while data := fs.pread(fd, _CHUNK, offset):
            hasher.update(data)
            offset += len(data)
    finally:
        fs.close(fd)
    return hasher.hexdigest()
