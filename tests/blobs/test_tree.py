"""The encoding of one directory."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eventlog.base.errors import Corruption, InvalidEvent
from eventlog.blobs.ids import blob_id, from_text, to_text, tree_id
from eventlog.blobs.tree import (
    DIRECTORY,
    EXECUTABLE,
    FILE,
    KINDS,
    NAME_SIZE_MAX,
    SIZE_UNKNOWN,
    SKIPPED,
    SUBMODULE,
    SYMLINK,
    TreeEntry,
    decode_tree,
    encode_tree,
    escaped,
    is_store_name,
    legal_name,
    unsafe_path,
)

ID = bytes(range(32))

NAMES = st.binary(min_size=1, max_size=12).filter(lambda name: legal_name(name) is None)
ENTRIES = st.builds(
    lambda name, kind, id, size: TreeEntry(name, kind, id, 0 if kind == DIRECTORY else size),
    NAMES,
    st.sampled_from(sorted(KINDS)),
    st.binary(min_size=32, max_size=32),
    st.integers(0, SIZE_UNKNOWN),
)
DIRECTORIES = st.lists(ENTRIES, max_size=6, unique_by=lambda entry: entry.name)


def raw_entry(
    name: bytes, kind: bytes = b"f", size: int = 0, id: bytes = ID, length: int | None = None
) -> bytes:
    """One entry as bytes, with nothing checked."""
    size_of_name = len(name) if length is None else length
    return kind + size.to_bytes(8, "little") + id + size_of_name.to_bytes(2, "little") + name


@given(DIRECTORIES, st.randoms())
def test_a_directory_has_one_encoding_and_comes_back_from_it(entries, random):
    """decode(encode(T)) = T sorted by name, in whatever order the entries were given."""
    shuffled = entries[:]
    random.shuffle(shuffled)
    encoding = encode_tree(shuffled)
    assert encoding == encode_tree(entries)
    assert decode_tree(encoding) == tuple(sorted(entries))


@given(st.binary(max_size=120) | st.binary(max_size=120).map(lambda data: b"T\x01" + data))
def test_any_bytes_decode_to_what_encodes_to_them_or_are_refused(data):
    """The decoder accepts only what the encoder makes, and raises only Corruption (I11)."""
    try:
        entries = decode_tree(data)
    except Corruption:
        return
    assert encode_tree(entries) == data


@given(DIRECTORIES.filter(bool), st.data())
def test_every_flipped_bit_changes_the_id_or_is_refused(entries, data):
    """No single changed bit of a tree passes for the tree (I11)."""
    encoding = bytearray(encode_tree(entries))
    bit = data.draw(st.integers(0, len(encoding) * 8 - 1))
    encoding[bit // 8] ^= 1 << (bit % 8)
    assert tree_id(bytes(encoding)) != tree_id(encode_tree(entries))
    try:
        decode_tree(bytes(encoding))
    except Corruption:
        pass


def test_every_truncation_is_refused_unless_it_ends_between_entries():
    """A tree cut short is Corruption, or a shorter tree of another id (I11)."""
    encoding = encode_tree([TreeEntry(b"a", FILE, ID, 1), TreeEntry(b"bb", FILE, ID, 2)])
    whole = {2: 0, 2 + 44: 1}
    for size in range(len(encoding)):
        if size in whole:
            assert len(decode_tree(encoding[:size])) == whole[size]
        else:
            with pytest.raises(Corruption):
                decode_tree(encoding[:size])


HOSTILE = {
    "empty": b"",
    "this directory": b".",
    "the directory above": b"..",
    "slash": b"a/b",
    "absolute": b"/etc",
    "NUL": b"a\0b",
    "git": b".git",
    "git upper case": b".GIT",
    "git trailing dot": b".git.",
    "git trailing space": b".git ",
    "git both": b".Git. .",
    "git stream": b".git::$INDEX_ALLOCATION",
    "git short name": b"GIT~1",
    "git short name lower": b"git~1 ",
    "git backslash": b".git\\config",
    "git behind a backslash": b"a\\.git\\config",
    "git ignorable": ".g\u200cit".encode(),
    "git ignorable mark": "\ufeff.git".encode(),
    "locus": b".locus",
    "locus mixed case": b".LoCuS",
    "locus dots": b".locus...",
    "locus short name": b"LOCUS~1",
    "locus folded": ".locu\u017f".encode(),
    "locus ignorable": ".lo\u206acus".encode(),
}


@pytest.mark.parametrize("name", HOSTILE.values(), ids=HOSTILE.keys())
def test_a_hostile_name_is_neither_written_nor_read(name):
    """Names that leave their directory or reach .git or .locus are refused on both sides (I28)."""
    reason = legal_name(name)
    assert reason
    assert unsafe_path(name) or b"/" in name
    for kind in (FILE, DIRECTORY) if not is_store_name(name) else (SYMLINK, SUBMODULE):
        with pytest.raises(InvalidEvent, match="tree entry"):
            encode_tree([TreeEntry(name, kind, ID)])
    with pytest.raises(Corruption):
        decode_tree(b"T\x01" + raw_entry(name))
    with pytest.raises(Corruption):
        decode_tree(b"T\x01" + raw_entry(name, DIRECTORY))


STORES = [b".locus", b".LoCuS", b".locus...", b"LOCUS~1", b"locus~0 "]


@pytest.mark.parametrize("name", STORES)
@pytest.mark.parametrize("kind", [FILE, EXECUTABLE, DIRECTORY])
def test_a_directory_or_file_named_like_a_stores_keeps_its_name(name: bytes, kind: bytes) -> None:
    """I28: it is spelled with an escape, which earlier versions read as a name; readers sort by its name."""
    entries = [TreeEntry(name, kind, ID), TreeEntry(b"a", FILE, ID), TreeEntry(b"z", SYMLINK, ID)]
    encoding = encode_tree(entries)

    assert escaped(name) in encoding and encode_tree(reversed(entries)) == encoding
    assert list(decode_tree(encoding)) == sorted(entries)
    with pytest.raises(Corruption, match="stands for a name that its kind cannot have"):
        decode_tree(b"T\x01" + raw_entry(escaped(name), SYMLINK))


NAMES = [b"git~1", b"refused%git%7E1", b"refused%refused%25git%257E1", ".g\u200cit".encode()]
PATH = escaped(b".git/config")  # what a tree of git's has below a refused directory


@pytest.mark.parametrize("kinds", [(SKIPPED,) * 5, (SKIPPED, FILE, DIRECTORY, SKIPPED, SYMLINK)])
def test_a_name_that_looks_like_an_escape_is_distinguished_from_an_escaped_one(
    kinds: tuple[bytes, ...],
) -> None:
    """P1, I28: refused names, and names that are exactly their escapes, are beside each other."""
    names = [*NAMES, escaped(NAMES[-1])]
    entries = sorted(map(TreeEntry, names, kinds, [ID] * 5))
    encoding = encode_tree(entries)

    assert list(decode_tree(encoding)) == entries
    assert all(encode_tree([one])[-len(escaped(one.name)) :] == escaped(one.name) for one in entries)
    listed = (TreeEntry(PATH, SKIPPED, ID), TreeEntry(escaped(PATH), SKIPPED, ID))
    assert decode_tree(encode_tree(listed)) == listed


@pytest.mark.parametrize(
    ("path", "problem"),
    [
        (b"sub/.locus/x", None),
        (b"a/.locus/b/.LOCUS/c", None),
        (b"a/.locus/b/STORE", None),
        (b".locus/x", "is a spelling of .locus"),
        (b".locus", "is a spelling of .locus"),
        (b"sub/.locus/.git/x", "is a spelling of .git"),
        (b"sub/.locus/STORE", "would make a store"),
        (b"sub/.Locus./store. /x", "would make a store"),
        (b"sub/.lo\xe2\x80\x8ccus/x", "is a spelling of .locus"),
        (b"sub/a\\.locus", "is a spelling of .locus"),
        (b"sub/.locus:x", "is a spelling of .locus"),
    ],
)
def test_a_path_below_a_directory_named_like_a_stores(path: bytes, problem: str | None) -> None:
    """I28: not at the root, where the store has its place, and never what makes a store of it."""
    found = unsafe_path(path)
    assert found is None if problem is None else problem in str(found)


ODD = {
    "not UTF-8": b"caf\xe9",
    "newline": b"a\nb",
    "leading dash": b"-rf",
    "leading dots": b"...",
    "255 bytes": b"n" * 255,
    "quote": b'"',
    "space": b" ",
    "backslash": b"a\\b",
    "gitignore": b".gitignore",
    "github": b".github",
    "git": b"git",
    "tilde": b"git~",
    "locus": b"locus",
    "locusts": b".locusts",
    "git with invalid byte": b".git\xff",
    "emoji": "\U0001f40d".encode(),
    "longest": b"n" * NAME_SIZE_MAX,
}


@pytest.mark.parametrize("name", ODD.values(), ids=ODD.keys())
def test_an_odd_name_that_a_directory_may_hold_is_kept(name):
    """Odd names are legal: exact bytes come back (P1)."""
    assert legal_name(name) is None
    assert decode_tree(encode_tree([TreeEntry(name, FILE, ID)]))[0].name == name


def test_what_has_a_hostile_name_can_be_kept_as_skipped():
    """A tracked file that may not be restored stays listed under another name, with a reason (P1)."""
    entry = TreeEntry(b"GIT~1 (not restored)", SKIPPED, blob_id(b"GIT~1 is a spelling of .git"), SIZE_UNKNOWN)
    assert decode_tree(encode_tree([entry])) == (entry,)


BAD_ENTRIES = {
    "unsorted": raw_entry(b"b") + raw_entry(b"a"),
    "twice": raw_entry(b"a") + raw_entry(b"a"),
    "unknown kind": raw_entry(b"a", kind=b"z"),
    "directory with a size": raw_entry(b"a", kind=b"d", size=1),
    "name reaches past the end": raw_entry(b"a", length=2),
    "no name": raw_entry(b"", length=0),
    "left over": raw_entry(b"a") + b"x",
}


@pytest.mark.parametrize("entries", BAD_ENTRIES.values(), ids=BAD_ENTRIES.keys())
def test_a_tree_the_encoder_would_not_make_is_refused(entries):
    """Decoding is strict (I11)."""
    with pytest.raises(Corruption):
        decode_tree(b"T\x01" + entries)


@pytest.mark.parametrize(
    "entry",
    [
        TreeEntry(b"a", b"z", ID),
        TreeEntry(b"a", b"fx", ID),
        TreeEntry(b"a", FILE, b"short"),
        TreeEntry(b"a", FILE, ID, -1),
        TreeEntry(b"a", FILE, ID, SIZE_UNKNOWN + 1),
        TreeEntry(b"a", DIRECTORY, ID, 7),
        TreeEntry(b"n" * (NAME_SIZE_MAX + 1), FILE, ID),
    ],
)
def test_an_impossible_entry_is_not_encoded(entry):
    """What cannot be decoded cannot be encoded either."""
    with pytest.raises(InvalidEvent):
        encode_tree([entry])


def test_one_name_twice_is_not_encoded():
    """A directory holds a name once."""
    with pytest.raises(InvalidEvent, match="twice"):
        encode_tree([TreeEntry(b"a", FILE, ID), TreeEntry(b"a", FILE, ID, 5)])


def test_a_file_cannot_have_the_id_of_a_tree():
    """Tree ids are made in another mode of the hash (docs/design.md §11)."""
    encoding = encode_tree([TreeEntry(b"a", FILE, ID)])
    assert tree_id(encoding) != blob_id(encoding)


@given(st.binary(min_size=32, max_size=32))
def test_the_text_form_of_an_id_is_reversible(id):
    """`blake3:<64 hex>` and back."""
    assert from_text(to_text(id)) == id


@pytest.mark.parametrize(
    "text", ["", "blake3:", "blake3:" + "g" * 64, "blake3:" + "A" * 64, "sha256:" + "0" * 64]
)
def test_other_text_is_no_id(text):
    """Only the full form is an id; prefixes are for `resolve`."""
    with pytest.raises(InvalidEvent):
        from_text(text)
