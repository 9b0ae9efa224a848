"""The journal's binary format: every flipped bit and every lost byte is noticed."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eventlog.base.errors import Corruption, InvalidEvent
from eventlog.log.frame import (
    COUNT_MAX,
    FRAME_OVERHEAD,
    HEADER_SIZE,
    PAYLOAD_SIZE_MAX,
    POSITION_MAX,
    Frame,
    JournalHeader,
    decode_frame,
    decode_header,
    encode_frame,
    encode_header,
    frame_end,
    join_lines,
    last_frame_size,
    scan_frames,
)

KEY = bytes(range(32))
LINES = st.lists(st.binary(max_size=40).map(lambda b: b.replace(b"\n", b"")), min_size=1, max_size=6)


def a_header(**more: object) -> JournalHeader:
    fields = {
        "store_id": b"s" * 16,
        "number": 3,
        "base": 70,
        "prev": b"p" * 16,
        "key": KEY,
        "boot": b"b" * 16,
    }
    return JournalHeader(**{**fields, **more})  # type: ignore[arg-type]


def a_journal(*batches: list[bytes], header: JournalHeader | None = None) -> tuple[JournalHeader, bytes]:
    """A whole journal of these batches, correctly chained."""
    header = header or a_header()
    data = encode_header(header)
    position, digest = header.base, header.digest
    for lines in batches:
        frame = encode_frame(lines, position, 5, digest, header.key, len(data))
        position, digest = position + len(lines), frame[-24:-8]
        data += frame
    return header, data


def scanned(data: bytes) -> tuple[list[list[bytes]], list[tuple[int, int, int, int]], int]:
    header = decode_header(data)
    frames, damaged, end = scan_frames(data, header)
    return [f.lines for f in frames], [(d.offset, d.size, d.base, d.end) for d in damaged], end


def test_the_header_has_the_documented_bytes() -> None:
    """§4.1: a second implementation finds each field where the table says."""
    data = encode_header(a_header(replaces=2))

    assert len(data) == HEADER_SIZE
    assert data[:8] == b"\x89EVJ\x01\x00\x01\x00"
    assert data[8:24] == b"s" * 16
    assert (int.from_bytes(data[24:32], "little"), int.from_bytes(data[32:40], "little")) == (3, 70)
    assert data[40:56] == b"p" * 16
    assert data[56:88] == KEY
    assert data[88:104] == b"b" * 16
    assert int.from_bytes(data[104:112], "little") == 2


@given(
    st.integers(1, 2**63),
    st.integers(0, POSITION_MAX),
    st.binary(min_size=16, max_size=16),
    st.none() | st.integers(1, 2**63),
)
def test_a_header_reads_back(number: int, base: int, prev: bytes, replaces: int | None) -> None:
    """Encoding and decoding a header are inverse."""
    header = a_header(number=number, base=base, prev=prev, replaces=replaces)
    back = decode_header(encode_header(header) + b"frames")

    assert [getattr(header, n) for n in JournalHeader.__slots__] == [
        getattr(back, n) for n in JournalHeader.__slots__
    ]


def test_every_flipped_bit_and_every_truncation_of_a_header_is_corruption() -> None:
    """I11: no changed header is ever read."""
    data = encode_header(a_header())
    for bit in range(HEADER_SIZE * 8):
        with pytest.raises(Corruption):
            decode_header(_flipped(data, bit))
    for size in range(HEADER_SIZE):
        with pytest.raises(Corruption):
            decode_header(data[:size])


def test_a_frame_has_the_documented_bytes() -> None:
    """§4.2: a second implementation finds each field where the table says."""
    frame = encode_frame([b"a\t{}", b"bc"], 70, 9, b"p" * 16, KEY, 128)

    assert frame[:8] == b"\x89EV1\x01\x00\x02\x00"
    assert (int.from_bytes(frame[8:12], "little"), int.from_bytes(frame[12:16], "little")) == (8, 0)
    assert (int.from_bytes(frame[16:24], "little"), int.from_bytes(frame[24:32], "little")) == (70, 9)
    assert frame[32:48] == b"p" * 16
    assert frame[48:56] == b"a\t{}\nbc\n"
    assert len(frame) == 80
    assert frame[-8:] == (80).to_bytes(4, "little") + b"1VE\x89"


@given(LINES, st.integers(0, 2**40), st.integers(0, 2**63), st.integers(0, 2**40).map(lambda n: n * 8))
def test_a_frame_reads_back(lines: list[bytes], base: int, time_ns: int, offset: int) -> None:
    """Encoding and decoding a frame are inverse, wherever in a buffer it lies."""
    data = encode_frame(lines, base, time_ns, b"p" * 16, KEY, offset)
    frame = decode_frame(b"front" + data + b"behind", 5, offset, KEY)

    assert lines == frame.lines
    assert (base, len(lines), time_ns, b"p" * 16) == (frame.base, frame.count, frame.time_ns, frame.prev)
    assert (len(data), data[-24:-8], offset) == (frame.size, frame.digest, frame.offset)
    assert len(data) % 8 == 0
    assert last_frame_size(data) == len(data)
    assert frame_end(b"front" + data + b"behind", 5, offset, KEY) == (frame.end, frame.digest)


def test_every_flipped_bit_of_a_frame_is_corruption() -> None:
    """I11: whichever bit of a frame changes, padding and lengths included, it does not verify."""
    data = encode_frame([b"envelope\tpayload", b"x"], 70, 9, b"p" * 16, KEY, 128)
    for bit in range(len(data) * 8):
        with pytest.raises(Corruption):
            decode_frame(_flipped(data, bit), 0, 128, KEY)
        with pytest.raises(Corruption):
            frame_end(_flipped(data, bit), 0, 128, KEY)


def test_every_truncation_of_a_frame_is_corruption() -> None:
    """I11: a frame that lost bytes at its end does not verify."""
    data = encode_frame([b"envelope\tpayload", b"x"], 70, 9, b"p" * 16, KEY, 128)
    for size in range(len(data)):
        with pytest.raises(Corruption):
            decode_frame(data[:size], 0, 128, KEY)
        with pytest.raises(Corruption):
            frame_end(data[:size], 0, 128, KEY)


def test_a_frame_verifies_only_in_its_file_and_at_its_offset() -> None:
    """I11: a copy in another file, or elsewhere in the same one (a log inside the log), does not verify."""
    data = encode_frame([b"x"], 70, 9, b"p" * 16, KEY, 128)
    with pytest.raises(Corruption):
        decode_frame(data, 0, 136, KEY)
    with pytest.raises(Corruption):
        decode_frame(data, 0, 128, bytes(32))


@given(st.binary(max_size=200), st.integers(0, 20))
def test_noise_is_corruption_and_nothing_else(noise: bytes, at: int) -> None:
    """I11: decoders of noise raise Corruption only."""
    with pytest.raises(Corruption):
        decode_frame(noise, at, 128, KEY)
    with pytest.raises(Corruption):
        decode_header(noise)


def test_a_length_beyond_the_limit_is_refused_before_anything_is_read() -> None:
    """I11: a header that claims gigabytes costs nothing."""
    data = bytearray(encode_frame([b"x"], 70, 9, b"p" * 16, KEY, 128))
    data[8:12] = (PAYLOAD_SIZE_MAX + 1).to_bytes(4, "little")
    with pytest.raises(Corruption, match="limits"):
        decode_frame(bytes(data), 0, 128, KEY)


def test_a_batch_that_fits_no_frame_is_refused() -> None:
    """Too many events, too many bytes, none at all, or a newline in a line: InvalidEvent before any write."""
    with pytest.raises(InvalidEvent, match="split the batch"):
        join_lines([])
    with pytest.raises(InvalidEvent, match="split the batch"):
        join_lines([b""] * (COUNT_MAX + 1))
    with pytest.raises(InvalidEvent, match="split the batch"):
        join_lines([bytes(PAYLOAD_SIZE_MAX)])
    with pytest.raises(InvalidEvent, match="newline"):
        join_lines([b"a\nb"])
    with pytest.raises(InvalidEvent, match="full"):
        encode_frame([b"x"], POSITION_MAX, 0, b"p" * 16, KEY, 128)


def test_the_largest_batches_fit() -> None:
    """The limits themselves are allowed."""
    many = encode_frame([b""] * COUNT_MAX, 0, 0, b"p" * 16, KEY, 128)
    large = encode_frame([bytes(PAYLOAD_SIZE_MAX - 1)], 0, 0, b"p" * 16, KEY, 128)

    assert decode_frame(many, 0, 128, KEY).count == COUNT_MAX
    assert len(large) == PAYLOAD_SIZE_MAX + FRAME_OVERHEAD
    assert decode_frame(large, 0, 128, KEY).count == 1


@given(st.binary(max_size=40))
def test_a_trailer_that_claims_no_frame_is_seen(tail: bytes) -> None:
    """The O(1) check of the end of a file believes only an end magic with a possible length."""
    assert last_frame_size(tail) == 0


@given(st.lists(LINES, max_size=5))
def test_a_sound_journal_scans_to_its_batches(batches: list[list[bytes]]) -> None:
    """I2: frames of a sound journal are found in order, without gap, damage or tail."""
    _, data = a_journal(*batches)
    lines, damaged, end = scanned(data)

    assert (batches, [], len(data)) == (lines, damaged, end)


@given(st.lists(LINES, min_size=1, max_size=5), st.data())
def test_a_cut_journal_scans_to_the_frames_before_the_cut(
    batches: list[list[bytes]], data: st.DataObject
) -> None:
    """I3: of a journal that ends anywhere, exactly the whole frames are there; the rest is the tail."""
    header, journal = a_journal(*batches)
    cut = data.draw(st.integers(HEADER_SIZE, len(journal)))
    frames, damaged, end = scan_frames(journal[:cut], header)
    whole = [f for f in scan_frames(journal, header)[0] if f.offset + f.size <= cut]

    assert [f.lines for f in whole] == [f.lines for f in frames]
    assert not damaged
    assert end == (whole[-1].offset + whole[-1].size if whole else HEADER_SIZE)


@given(st.lists(LINES, min_size=1, max_size=5), st.data())
def test_any_changed_byte_costs_one_frame_and_is_named(
    batches: list[list[bytes]], data: st.DataObject
) -> None:
    """I11: the frame around a changed byte is damage or tail; all others are found, at their positions."""
    header, journal = a_journal(*batches)
    all_frames = scan_frames(journal, header)[0]
    at = data.draw(st.integers(HEADER_SIZE, len(journal) - 1))
    changed = bytearray(journal)
    changed[at] ^= data.draw(st.integers(1, 255))
    frames, damaged, end = scan_frames(bytes(changed), header)
    hit = next(f for f in all_frames if f.offset <= at < f.offset + f.size)
    others = [f for f in all_frames if f is not hit]

    assert [(f.base, f.lines) for f in others] == [(f.base, f.lines) for f in frames]
    if hit is all_frames[-1]:
        assert not damaged
        assert end == hit.offset
    else:
        assert [(hit.offset, hit.size, hit.base, hit.end)] == [
            (d.offset, d.size, d.base, d.end) for d in damaged
        ]
        assert end == len(journal)


def test_a_log_inside_the_log_is_not_taken_for_frames() -> None:
    """An event whose text is a journal, at any alignment, hides and adds nothing when damaged."""
    _, inner = a_journal([b"inner"], [b"inner two"])
    for shift in range(8):
        lines = [b"x" * shift + inner.replace(b"\n", b" ")]
        header, data = a_journal(lines, [b"after"])
        changed = bytearray(data)
        changed[HEADER_SIZE + 50] ^= 1
        frames, damaged, _ = scan_frames(bytes(changed), header)

        assert [f.lines for f in frames] == [[b"after"]]
        assert [d.end for d in damaged] == [71]


def test_a_frame_that_claims_taken_positions_is_damage() -> None:
    """I2: a frame with a right digest but a position already used is not read twice."""
    header, data = a_journal([b"one"], [b"two"])
    again = encode_frame([b"imposter"], header.base, 0, b"p" * 16, KEY, len(data))
    frames, damaged, end = scan_frames(data + again, header)

    assert [f.lines for f in frames] == [[b"one"], [b"two"]]
    assert not damaged
    assert end == len(data)


def test_a_frame_that_names_another_predecessor_comes_after_damage() -> None:
    """I2, I11: a frame in the place of a lost one verifies alone; the one after it reveals the loss."""
    _, data = a_journal([b"one"], [b"two"], [b"three"])
    again = encode_frame([b"TWO"], 71, 9, a_header().digest, KEY, 208)
    replaced = data[:208] + again + data[208 + len(again) :]

    assert scanned(replaced)[1] == [(208, 0, 71, 71), (288, 0, 72, 72)]
    assert scanned(data)[1] == []


def test_missing_positions_without_bad_bytes_are_named() -> None:
    """I13: what a copy of a damaged journal lacks is named though all its bytes verify."""
    header = a_header()
    data = encode_header(header)
    first = encode_frame([b"one"], 70, 0, header.digest, KEY, len(data))
    data += first
    data += encode_frame([b"later"], 75, 0, first[-24:-8], KEY, len(data))

    assert ([[b"one"], [b"later"]], [(208, 0, 71, 75)], len(data)) == scanned(data)


def test_a_file_made_to_be_slow_is_refused() -> None:
    """I11: thousands of false frames, each spanning half the file, do not make a scan hang."""
    count = 3000
    size = count * 48
    data = bytearray(encode_header(a_header()))
    for _ in range(count):
        data += b"\x89EV1\x01\x00\x01\x00" + (size - FRAME_OVERHEAD).to_bytes(4, "little") + bytes(36)
    for _ in range(count):
        data += bytes(40) + size.to_bytes(4, "little") + b"1VE\x89"
    with pytest.raises(Corruption, match="digest"):
        scan_frames(bytes(data), a_header())


def test_frames_share_the_buffer_they_were_read_from() -> None:
    """A scan of a journal holds its bytes once."""
    header, data = a_journal([b"one"], [b"two"])
    frames: list[Frame] = scan_frames(data, header)[0]

    assert all(frame._buf is data for frame in frames)
    assert [frame.payload for frame in frames] == [b"one\n", b"two\n"]


def _flipped(data: bytes, bit: int) -> bytes:
    changed = bytearray(data)
    changed[bit // 8] ^= 1 << bit % 8
    return bytes(changed)
