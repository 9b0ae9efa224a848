"""The list of deferred contents has one spelling, and its sentence names it."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eventlog.base.errors import Corruption, InvalidEvent
from eventlog.blobs.deferred import DeferredFile, decode_list, encode_list, list_of, sentence_of
from eventlog.blobs.tree import legal_name

NAMES = st.binary(min_size=1, max_size=8).filter(lambda name: legal_name(name) is None)
PATHS = st.lists(NAMES, min_size=1, max_size=3).map(b"/".join)
OBJECTS = st.none() | st.binary(min_size=20, max_size=20) | st.binary(min_size=32, max_size=32)
NUMBERS = st.integers(0, 2**64 - 2)
ROWS = st.dictionaries(
    PATHS, st.tuples(st.sampled_from([b"f", b"x"]), NUMBERS, st.integers(), st.integers(), NUMBERS, OBJECTS)
).map(lambda rows: [(path, *facts) for path, facts in rows.items()])

ROW = (b"src/big.bin", b"f", 12, -5, 7, 99, None)


@given(ROWS)
def test_a_list_comes_back_whatever_the_paths_hold(rows: Any) -> None:
    """I11: any list of legal paths comes back as it was, in one order."""
    assert list(decode_list(encode_list(rows))) == sorted(rows)
    assert encode_list(reversed(rows)) == encode_list(rows)


def test_the_format_is_the_documented_one() -> None:
    """docs/certainty.md §3: the bytes are those of the page."""
    object = bytes(range(20))
    rows = [ROW, (b"a\tb", b"x", 0, 1, 2, 3, object)]
    assert encode_list(rows) == (
        b"locus deferred 1\n"
        b"x 0 1 2 3 000102030405060708090a0b0c0d0e0f10111213\ta\tb\0"
        b"f 12 -5 7 99 -\tsrc/big.bin\0"
    )
    first, second = decode_list(encode_list(rows))
    assert (first.path, first.kind, first.object) == (b"a\tb", b"x", object)
    assert second == DeferredFile(ROW)
    assert (second.size, second.stat) == (12, (12, -5, 7, 99))


@given(ROWS.filter(bool), st.data())
def test_other_bytes_are_refused_or_are_another_list(rows: Any, data: st.DataObject) -> None:
    """I11: the decoder takes only what the encoder makes."""
    encoding = encode_list(rows)
    at = data.draw(st.integers(0, len(encoding) - 1))
    wrong = encoding[:at] + data.draw(st.binary(max_size=2)) + encoding[at + 1 :]
    try:
        decoded = decode_list(wrong)
    except Corruption:
        return
    assert encode_list(decoded) == wrong


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"locus deferred 2\n",
        b"locus deferred 1\nf 1 1 1 1 -\ta",
        b"locus deferred 1\nf 01 1 1 1 -\ta\0",
        b"locus deferred 1\nf 1 1 1 1 -\t../a\0",
        b"locus deferred 1\nf 1 1 1 1 -\t.git/config\0",
        b"locus deferred 1\nf 1 1 1 1 -\ta\0f 1 1 1 1 -\ta\0",
        b"locus deferred 1\nd 1 1 1 1 -\ta\0",
        b"locus deferred 1\nf 1 1 1 1 -a\0",
    ],
)
def test_a_list_of_another_spelling_is_damage(data: bytes) -> None:
    """I11, I28: another spelling, an illegal path, a cut are damage."""
    with pytest.raises(Corruption):
        decode_list(data)


@pytest.mark.parametrize(
    "row", [(b"a", b"d", 1, 1, 1, 1, None), (b"a", b"f", -1, 1, 1, 1, None), (b"a", b"f", 1, 1, 1, 1, b"1")]
)
def test_what_no_list_can_hold_is_refused(row: Any) -> None:
    """An impossible kind, size or object is not written."""
    with pytest.raises(InvalidEvent):
        encode_list([row])


def test_a_path_occurs_once() -> None:
    """A list that names a path twice is not written."""
    with pytest.raises(InvalidEvent, match="twice"):
        encode_list([ROW, ROW])


@given(st.binary(min_size=32, max_size=32))
def test_the_sentence_names_its_list(list_id: bytes) -> None:
    """docs/certainty.md §3: the entry of a deferred file says which list it is on."""
    assert list_of(sentence_of(list_id)) == list_id


@pytest.mark.parametrize(
    "sentence",
    [
        b"left out by .locusignore",
        b"its content was deferred: blake3:12",
        b"its content was deferred: blake3:" + b"A" * 64,
        b" its content was deferred: blake3:" + b"a" * 64,
    ],
)
def test_another_sentence_names_no_list(sentence: bytes) -> None:
    """What is nearly such a sentence is one of the other reasons."""
    assert list_of(sentence) is None
