"""Is what is in the packs what was put there? Reads only, beside any writer.

`quick` opens every live pack and checks its tables against their digest and its rows against each other;
`read` reads every byte: the pack's name, every group, every id, every tree, every bucket of the idx (I11);
`deep` also compares the idx with the tables of its packs.
A pack that disappears meanwhile was collected, which is no damage. Packs in `condemned/` are not checked.
"""

from collections.abc import Iterator

from eventlog.base.errors import Corruption, why_unreadable
from eventlog.base.fs import hash_file, read_file
from eventlog.base.layout import IDX_DIR, PACK_DIR, parse_idx, parse_pack
from eventlog.blobs.catalog import load_tables
from eventlog.blobs.ids import to_text
from eventlog.blobs.idx import Idx, encode_idx
from eventlog.blobs.proof import proven
from eventlog.blobs.store import BlobStore
from eventlog.log.finding import DEEP, IDX, PACK, QUICK, READ, Finding, RepairStep

_LOST = "What it holds cannot be read from here; bring the file back from a backup or capture the files again"
_DERIVED = "The packs answer without it; `locus store repair` sets it aside, and it is made again"
_MADE_AGAIN = "nothing is lost: it is made again"


def verify(blobs: BlobStore, level: str = QUICK, damaged: "set[bytes] | None" = None) -> list[Finding]:
    """Everything wrong with the live packs and the idx files; empty when all is well.

    Args: damaged: gets the ids of which a bad copy is found.
    """
    if level not in (QUICK, READ, DEEP):
        raise ValueError(f"level is {QUICK!r}, {READ!r} or {DEEP!r}, not {level!r}")
    fs, layout = blobs.fs, blobs.layout
    findings: list[Finding] = []
    for stem in map(parse_pack, fs.listdir(layout.directory(PACK_DIR))):
        if stem is not None:
            findings += _verify_pack(blobs, stem, level, set() if damaged is None else damaged)
    directory = layout.directory(IDX_DIR)
    for number in map(parse_idx, fs.listdir(directory) if fs.exists(directory) else ()):
        if number is not None:
            findings += _verify_idx(blobs, layout.idx(number), level)
    return findings


def _verify_pack(blobs: BlobStore, name: str, level: str, damaged: "set[bytes]") -> Iterator[Finding]:
    """A repair sets a pack aside where its bytes are not those that were written, and no other."""
    path = blobs.layout.pack(name)
    mend = None
    try:
        if level != QUICK and hash_file(blobs.fs, path) != name:
            mend = RepairStep(PACK, path, "its bytes do not match its name")
        tables = load_tables(blobs.fs, path, name, blobs.store_id)
        tables.check()
        if level == QUICK:
            return
        if mend is not None:
            yield Finding(path, f"{mend.what}. {_LOST}.", mend=mend)
        for id, _, start, data in proven(blobs.fs, tables):
            if isinstance(data, Exception):
                damaged.add(id)
                what = f"{to_text(id)} cannot be read: {why_unreadable(data)}. {_LOST}."
                yield Finding(path, what, start, mend=mend)
    except FileNotFoundError:
        return
    except Corruption as error:
        yield Finding(path, f"{error.what}. {_LOST}.", error.offset, mend=mend)
    except OSError as error:
        what = why_unreadable(error)
        yield Finding(path, f"{what}. {_LOST}.", mend=RepairStep(PACK, path, what))


def _verify_idx(blobs: BlobStore, path: str, level: str) -> Iterator[Finding]:
    try:
        idx = Idx(blobs.fs, path, blobs.store_id)
        try:
            if level != QUICK:
                idx.check()
        finally:
            idx.close()
        if level == DEEP and not _says_what_packs_say(blobs, idx):
            what = "it does not say what its packs say"
            yield Finding(path, f"{what}. {_DERIVED}.", mend=RepairStep(IDX, path, what, _MADE_AGAIN))
    except FileNotFoundError:
        return  # a pack or the idx itself went: it is not used
    except Corruption as error:
        mend = RepairStep(IDX, path, error.what, _MADE_AGAIN)
        yield Finding(error.path, f"{error.what}. {_DERIVED}.", error.offset, mend=mend)
    except OSError as error:
        what = why_unreadable(error)
        yield Finding(path, f"{what}.", mend=RepairStep(IDX, path, what, _MADE_AGAIN))


def _says_what_packs_say(blobs: BlobStore, idx: Idx) -> bool:
    """Costs the memory of making an idx."""
    try:
        tables = [load_tables(blobs.fs, blobs.layout.pack(stem), stem, blobs.store_id) for stem in idx.packs]
        return encode_idx(blobs.store_id, tables) == read_file(blobs.fs, idx.path)
    except Corruption:
        return True  # a pack is damaged, which has a finding of its own
