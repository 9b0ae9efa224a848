"""The numbered list of live segments."""

import json
from dataclasses import replace

import pytest
from blake3 import blake3

from eventlog.base.errors import Corruption, Refused, Unsupported
from eventlog.base.fs import REAL
from eventlog.base.layout import Layout, StoreFiles, segment_name
from eventlog.log.manifest import (
    DamagedRange,
    Manifest,
    SegmentEntry,
    Superseded,
    commit,
    decode,
    digest_of,
    encode,
    read_current,
    read_numbered,
)
from tests.conftest import files_of
from tests.log.logs import STORE_ID
from tests.simfs import sim_store

SID = STORE_ID.hex()


def entry(base: int, end: int) -> SegmentEntry:
    digest = blake3(b"%d" % base).hexdigest()
    name = segment_name(base, end, digest[:16])
    return SegmentEntry(name, base, end, end - base - 1, 4096, digest, None, 1_750_000_000_000_000, 1)


SECOND = Manifest(
    store_id=SID,
    number=2,
    parent="ab" * 32,
    next_position=30,
    next_journal=4,
    segments=(entry(0, 10), entry(10, 30)),
    damaged=(DamagedRange(3, 5, 1),),
    superseded=(Superseded(segment_name(0, 5, "0" * 16), 2),),
)


def respelled(change: "dict[str, object]") -> bytes:
    """A manifest with other members and a digest that fits them."""
    fields = json.loads(encode(SECOND)) | change
    del fields["digest"]
    rest = json.dumps(fields, separators=(",", ":")).encode()
    return rest[:-1] + b',"digest":"%b"}\n' % blake3(rest).hexdigest().encode()


def test_a_manifest_reads_back_as_it_was() -> None:
    """Encoding and decoding are inverse, and the digest is of all that comes before it (design §7)."""
    data = encode(SECOND)

    assert decode(data, "m") == SECOND
    assert digest_of(SECOND) == json.loads(data)["digest"]


def test_every_flipped_bit_is_corruption() -> None:
    """No single-bit change of a manifest goes unnoticed, and none raises anything else (I11)."""
    data = bytearray(encode(SECOND))
    for at in range(len(data)):
        for bit in range(8):
            data[at] ^= 1 << bit
            with pytest.raises(Corruption):
                decode(bytes(data), "m")
            data[at] ^= 1 << bit


def test_every_truncation_is_corruption() -> None:
    """A manifest cut anywhere is refused (I11)."""
    data = encode(SECOND)
    for size in range(len(data)):
        with pytest.raises(Corruption):
            decode(data[:size], "m")


@pytest.mark.parametrize(
    "change", [{"format": 2}, {"required": ["erasure"]}, {"format": "1"}, {"required": 7}]
)
def test_what_a_newer_version_wrote_is_unsupported(change: "dict[str, object]") -> None:
    """An unknown format or required feature is refused in words, not taken for damage (design §7)."""
    with pytest.raises(Unsupported, match="newer Locus"):
        decode(respelled(change), "m")


@pytest.mark.parametrize(
    "change",
    [
        {"extra": 1},
        {"number": 0},
        {"number": True},
        {"parent": None},
        {"parent": "xyz"},
        {"next_position": 31},
        {"next_position": 2**63},
        {"next_journal": 0},
        {"store_id": 5},
        {"segments": {}},
        {"segments": [None]},
        {"segments": [{"name": "x"}]},
        {"segments": []},
        {"damaged": [{"base": -1, "end": 5, "journal": 1}]},
        {"superseded": [{"name": 3, "since": 2}]},
    ],
)
def test_a_manifest_of_another_shape_is_corruption(change: "dict[str, object]") -> None:
    """Decoding is strict even where the digest fits (I11)."""
    with pytest.raises(Corruption):
        decode(respelled(change), "m")


def test_a_manifest_in_another_spelling_is_corruption() -> None:
    """Spaces that a digest covers are no damage, but nothing of ours writes them either (I11)."""
    rest = encode(SECOND)[:-78].replace(b'"required":[]', b'"required": []') + b"}"
    data = rest[:-1] + b',"digest":"%b"}\n' % blake3(rest).hexdigest().encode()

    with pytest.raises(Corruption, match="one spelling"):
        decode(data, "m")


@pytest.mark.parametrize(
    "segments",
    [
        (entry(0, 10), entry(11, 30)),
        (entry(0, 12), entry(10, 30)),
        (entry(1, 30),),
        (replace(entry(0, 30), base=0, end=29),),
        (replace(entry(0, 30), blake3="0" * 64),),
        (replace(entry(0, 30), rows=31),),
    ],
)
def test_segments_that_do_not_tile_the_log_are_corruption(segments: "tuple[SegmentEntry, ...]") -> None:
    """The listed ranges are [0, next_position) without gap or overlap, under their own names (I13)."""
    with pytest.raises(Corruption):
        decode(encode(replace(SECOND, segments=segments)), "m")


def test_a_log_that_was_never_sealed_has_manifest_0(layout: Layout) -> None:
    """No manifest at all means next position 0 and next journal 1 (design §7)."""
    manifest = read_current(files_of(REAL, layout))

    assert (manifest.number, manifest.next_position, manifest.next_journal) == (0, 0, 1)


def test_the_highest_manifest_must_verify(layout: Layout) -> None:
    """Reading stops with Corruption, exit 12, rather than going back to the one before (I16)."""
    first = Manifest(SID, 1)
    commit(files_of(REAL, layout), first)
    commit(files_of(REAL, layout), Manifest(SID, 2, digest_of(first)))
    path = layout.manifest(2)
    with open(path, "r+b") as file:
        file.seek(20)
        file.write(b"!")

    with pytest.raises(Corruption) as caught:
        read_current(files_of(REAL, layout))

    assert caught.value.exit_code == 12
    assert caught.value.path == path


def test_a_manifest_under_another_name_or_of_another_store_is_corruption(layout: Layout) -> None:
    """A copied file is not taken for the current manifest (I11)."""
    commit(files_of(REAL, layout), Manifest(SID, 1))
    with open(layout.manifest(1), "rb") as source, open(layout.manifest(3), "wb") as target:
        target.write(source.read())

    with pytest.raises(Corruption, match="not 3 as its name says"):
        read_current(files_of(REAL, layout))
    with pytest.raises(Corruption, match="another store"):
        read_numbered(StoreFiles(REAL, layout, bytes(16)), 1)


def test_foreign_files_beside_the_manifests_are_left_alone(layout: Layout) -> None:
    """Names that are not a manifest's do not count (S1-61)."""
    with open(layout.directory("log/manifest") + "/notes.json", "w") as file:
        file.write("{}")

    assert read_current(files_of(REAL, layout)).number == 0


def test_a_second_commit_of_one_number_is_refused(layout: Layout) -> None:
    """At most one child per manifest: the second kernel on a store has to stop (I16)."""
    commit(files_of(REAL, layout), Manifest(SID, 1))

    with pytest.raises(Refused, match="second machine"):
        commit(files_of(REAL, layout), Manifest(SID, 1, next_journal=2))

    assert read_current(files_of(REAL, layout)).next_journal == 1
    assert REAL.listdir(layout.directory("tmp")) == []


def test_a_commit_is_there_or_not_after_any_crash() -> None:
    """At every instant of a commit the highest manifest verifies, and an acknowledged one stays (I16)."""
    fs, layout = sim_store()
    commit(files_of(fs, layout), Manifest(SID, 1))
    calls = fs.call_count
    for stop in range(calls + 1):
        fs, layout = sim_store()
        fs.stop_at = stop
        try:
            commit(files_of(fs, layout), Manifest(SID, 1))
        except BaseException as error:  # PowerCut is no Exception
            assert type(error).__name__ == "PowerCut"
        for machine in (fs.crash(), fs.crash(lambda *_: True)):
            assert read_current(files_of(machine, layout)).number in (0, 1)
        if stop == calls:
            assert read_current(StoreFiles(fs.crash(), layout, STORE_ID)).number == 1
