"""The check of packs and idx files."""

import os

import pytest

from eventlog.blobs.ids import to_text
from eventlog.blobs.tree import FILE, TreeEntry
from eventlog.blobs.verify import verify
from tests.blobs.support import open_store, overwrite, pack_paths, put_all, store_node, verify_tree


def test_a_whole_store_has_no_findings(blobs):
    """Nothing is wrong with what was just written, with and without an idx."""
    for codec in ("raw", "zlib", "zstd"):
        root = store_node(blobs, {b"a": (FILE, b"a" * 99), b"d": {b"b": (FILE, codec.encode())}}, codec)
    blobs.build_idx()
    assert verify(blobs, "quick") == verify(blobs, "read") == []
    assert verify_tree(blobs, root) == []


@pytest.mark.parametrize("codec", ["raw", "zlib"])
def test_every_flipped_bit_of_a_pack_is_found(layout, blobs, codec):
    """`read` names the pack whichever bit of it changed (I11)."""
    put_all(blobs, b"content of one file " * 3, b"and of another", codec=codec)
    (path,) = pack_paths(layout)
    with open(path, "rb") as file:
        good = file.read()
    for at in range(len(good)):
        data = bytearray(good)
        data[at] ^= 1 << (at % 8)
        overwrite(path, bytes(data))
        findings = verify(open_store(layout), "read")
        assert findings and all(finding.path == path for finding in findings), at
    overwrite(path, good)
    assert verify(open_store(layout), "read") == []


def test_quick_finds_damage_outside_the_groups(layout, blobs):
    """`quick` checks a digest over header, tables and footer; a truncation shows, too (I11)."""
    put_all(blobs, b"content " * 100, codec="raw")
    (path,) = pack_paths(layout)
    with open(path, "rb") as file:
        good = file.read()
    groups = range(24, 24 + 12 + 800)
    for at in range(len(good)):
        if at not in groups:
            data = bytearray(good)
            data[at] ^= 1 << (at % 8)
            overwrite(path, bytes(data))
            assert len(verify(open_store(layout), "quick")) == 1, at
    for size in range(0, len(good), 13):
        overwrite(path, good[:size])
        assert len(verify(open_store(layout), "quick")) == 1, size


def test_findings_name_the_content_that_is_lost(layout, blobs):
    """Damage in a group is reported with the ids in it, and what to do (P7)."""
    first, second = put_all(blobs, b"one " * 50, b"two " * 50, codec="raw")
    (path,) = pack_paths(layout)
    with open(path, "rb") as file:
        data = file.read().replace(b"two two", b"tWo two", 1)
    overwrite(path, data)
    text = "\n".join(map(str, verify(open_store(layout), "read")))
    assert to_text(second) in text and to_text(first) not in text and "backup" in text
    assert verify(open_store(layout), "quick") == []


def test_a_damaged_idx_is_reported_as_derived(layout, blobs):
    """`read` finds it in the buckets, `quick` in the head; neither is a loss (I22)."""
    put_all(blobs, b"x")
    blobs.build_idx()
    path = layout.idx(1)
    with open(path, "rb") as file:
        good = file.read()
    head = range(52 + 32 + 4 + 16)  # with one pack, one bucket and the digest
    for at, level in ((len(good) - 1, "read"), *((at, "quick") for at in head)):
        data = bytearray(good)
        data[at] ^= 1
        overwrite(path, bytes(data))
        (finding,) = verify(open_store(layout), level)
        assert finding.path == path and "`locus store repair` sets it aside" in finding.what


def test_a_tree_with_a_lost_part_is_found(layout, blobs):
    """Everything below a root in use must be readable (I24)."""
    with blobs.writer() as writer:
        root = writer.put_tree([TreeEntry(b"gone", FILE, bytes(32), 1)])
        writer.flush()
    (finding,) = verify_tree(blobs, root)
    assert finding.path == "gone"
    (finding,) = verify_tree(blobs, bytes(32))
    assert finding.path == to_text(bytes(32))


def test_an_unknown_level_is_our_mistake(blobs):
    """There are three levels."""
    with pytest.raises(ValueError, match="quick"):
        verify(blobs, "whole")


def test_verify_reads_only(layout, blobs):
    """Nothing changes on disk."""
    put_all(blobs, b"x")
    before = {path: os.stat(path).st_mtime_ns for path in pack_paths(layout)}
    verify(blobs, "read")
    assert {path: os.stat(path).st_mtime_ns for path in pack_paths(layout)} == before
