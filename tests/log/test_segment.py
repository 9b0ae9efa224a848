"""Journal lines → Arrow → Parquet → Arrow."""

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eventlog.base.errors import Corruption, Unsupported
from eventlog.base.types import BOOL, COLUMN_KINDS, COLUMN_NAMES, ENVELOPE_NAMES, LIST, TEXT, Event
from eventlog.log.frame import JournalHeader, decode_frame, encode_frame
from eventlog.log.line import decode_line, encode_line
from eventlog.log.numbering import Numbering
from eventlog.log.segment import (
    SCHEMA,
    SegmentMeta,
    check_equal,
    decode_segment,
    encode_segment,
    meta_of,
    number_table,
    open_segment,
    positions_of,
    table_from_lines,
    tables_from_frames,
    without_duplicates,
)
from tests.conftest import examples
from tests.log.logs import STORE_ID, event

META = SegmentMeta(STORE_ID, 5, 9, 1)

_VALUES: "dict[str, st.SearchStrategy[object]]" = {
    TEXT: st.text(max_size=8),
    BOOL: st.booleans(),
    LIST: st.lists(st.text(max_size=4), max_size=3),
}
_INT64 = st.integers(-(2**63), 2**63 - 1)

events = st.builds(
    lambda number, columns, payload: event(number, **columns, payload=payload),
    st.integers(0, 2**62),
    st.fixed_dictionaries(
        {},
        optional={
            name: _VALUES.get(COLUMN_KINDS[name], _INT64)
            for name in ENVELOPE_NAMES
            if name not in ("event_id", "event_type", "event_kind", "source")
        },
    ),
    st.dictionaries(st.text(max_size=5), st.none() | st.floats() | st.text(max_size=9), max_size=3),
)


def table_of(some: "list[Event]", first: int = 5) -> pa.Table:
    body = b"".join(encode_line(e) + b"\n" for e in some)
    return table_from_lines([body] if body else [], positions_of([(first, len(some))]), "j")


def plain(table: pa.Table) -> "list[dict[str, object]]":
    """Rows with times as integers."""
    for at, field in enumerate(SCHEMA):
        if pa.types.is_timestamp(field.type):
            table = table.set_column(at, field.name, table[field.name].cast(pa.int64()))
    return table.to_pylist()  # type: ignore[no-any-return]


@settings(max_examples=examples(25, 1000))
@given(st.lists(events, max_size=6))
def test_arrow_and_python_decode_lines_alike(some: "list[Event]") -> None:
    """What the sealer stores is what a reader decodes line by line, whatever text is in it (I14)."""
    expected = []
    for position, one in enumerate(some, 5):
        envelope, payload = decode_line(encode_line(one))
        expected.append(
            dict.fromkeys(COLUMN_NAMES) | envelope | {"position": position, "payload": payload.decode()}
        )

    assert plain(table_of(some)) == expected


@settings(max_examples=examples(15, 1000))
@given(st.lists(events, max_size=6))
def test_a_segment_reads_back_as_what_went_in(some: "list[Event]") -> None:
    """Encoding loses nothing, nulls and empty lists included (I14)."""
    table = table_of(some)
    data = encode_segment(table, META)

    check_equal(data, table, "s")
    assert meta_of(open_segment(pa.BufferReader(data), "s"), "s") == META


def test_a_segment_of_other_events_is_not_taken_for_these() -> None:
    """One changed value in one column is enough (I14)."""
    table = table_of([event(1, title="a"), event(2)])

    with pytest.raises(Corruption, match="nothing was sealed"):
        check_equal(encode_segment(table, META), table_of([event(1, title="b"), event(2)]), "s")


def test_payload_bytes_are_kept_as_they_are() -> None:
    """No JSON type touches a payload: spelling of numbers, spaces and order stay (design §3)."""
    payload = b'{"b": 1e5,"a":0.10000000000000000555,"a":[ ]}'
    body = encode_line(event(1)).split(b"\t")[0] + b"\t" + payload + b"\n"

    table = table_from_lines([body], positions_of([(0, 1)]), "j")

    assert table["payload"].to_pylist() == [payload.decode()]


def test_equal_events_give_equal_bytes_however_they_were_framed() -> None:
    """A segment's bytes depend on its events alone (I15)."""
    lines = [encode_line(event(n, title="t" * n)) + b"\n" for n in range(300)]
    positions = positions_of([(0, 300)])
    whole = table_from_lines([b"".join(lines)], positions, "j")
    single = table_from_lines(lines, positions, "j")

    assert encode_segment(whole, META) == encode_segment(single, META)
    assert encode_segment(whole, META) == encode_segment(pa.concat_tables([whole[:7], whole[7:]]), META)


@pytest.mark.slow
def test_a_log_of_many_pieces_gives_the_bytes_of_one() -> None:
    """Large batches are parsed in pieces on several threads; nothing of that shows in the segment (I15)."""
    lines = [encode_line(event(n, title="t" * 500, seq=n)) + b"\n" for n in range(20_000)]
    whole = table_from_lines([b"".join(lines)], positions_of([(0, 20_000)]), "j")
    single = table_from_lines(lines, positions_of([(0, 20_000)]), "j")

    assert [len(c) for c in whole["title"].chunks] != [len(c) for c in single["title"].chunks]
    assert encode_segment(whole, META) == encode_segment(single, META)


def test_frames_come_as_pieces_that_hold_their_positions() -> None:
    """Positions are those of the frames, gaps included, wherever a piece ends (I13)."""
    header = JournalHeader(STORE_ID, 1, 0, bytes(16), bytes(32), bytes(16), None)
    frames = []
    for n in range(60):
        lines = [encode_line(event(n * 1000 + i, title="t" * 700)) for i in range(200)]
        data = encode_frame(lines, n * 250, 0, bytes(16), header.key, 0)
        frames.append(decode_frame(data, 0, 0, header.key))
    positions = positions_of([(frame.base, frame.count) for frame in frames])

    pieces = list(tables_from_frames(iter(frames), "j"))

    assert len(pieces) > 2
    assert pa.concat_tables(pieces).equals(table_from_lines([f.payload for f in frames], positions, "j"))


def test_a_bad_line_far_after_the_first_stops_the_parsing() -> None:
    """What another thread finds is reported like what the first lines show (I11)."""
    lines = [encode_line(event(n, title="t" * 700)) + b"\n" for n in range(20_000)]
    lines[-1] = b"{}\t{}\n"

    with pytest.raises(Corruption, match="no event_id"):
        table_from_lines(lines, positions_of([(0, len(lines))]), "j")


def test_columns_have_the_types_of_the_design() -> None:
    """int64, text, bool, timestamp[us, UTC] and list<text>, in the order of types.COLUMNS (design §6)."""
    file = pq.ParquetFile(pa.BufferReader(encode_segment(table_of([event(1)]), META)))

    assert file.schema_arrow.names == [*COLUMN_NAMES, "anchor_payload"]
    found = {name: str(file.schema_arrow.field(name).type) for name in COLUMN_NAMES}
    assert found["position"] == "int64"
    assert found["occurred_at"] == "timestamp[us, tz=UTC]"
    assert found["blobs"] == "list<element: string>"
    assert found["success"] == "bool"
    assert found["payload"] == "string"


def test_payloads_of_anchors_are_apart_in_the_file() -> None:
    """A fold over anchors reads no other payload; whoever reads events sees one column (design §6, I14)."""
    table = table_of([event(1, event_type="turn", payload={"outcome": "ok"}), event(2, payload={"a": 1})])
    data = encode_segment(table, META)
    file = pq.read_table(pa.BufferReader(data))

    assert file["anchor_payload"].to_pylist() == ['{"outcome":"ok"}', None]
    assert file["payload"].to_pylist() == [None, '{"a":1}']
    assert decode_segment(data, "s")["payload"].to_pylist() == ['{"outcome":"ok"}', '{"a":1}']


def test_duplicates_are_dropped_and_the_first_stays() -> None:
    """Of equal ids the earliest position is kept, and none whose id is known already (I8)."""
    table = table_of([event(n) for n in (1, 2, 1, 3, 2)])
    known = pa.array([f"{3:032x}"])

    assert without_duplicates(table, [known])["position"].to_pylist() == [5, 6]
    assert without_duplicates(table.slice(0, 2), []).equals(table.slice(0, 2))
    seen = {f"{2:032x}"}
    assert without_duplicates(table, [known], seen)["position"].to_pylist() == [5]
    assert seen == {f"{n:032x}" for n in (1, 2, 3)}


def test_numbering_fills_the_place_columns_of_a_table() -> None:
    """The sealer's table carries what the fold says (I22)."""
    table = number_table(table_of([event(1, agent_turn_id="a"), event(2), event(3, seq=9)]), Numbering())

    assert table["turn"].to_pylist() == [1, 1, 1]
    assert table["seq"].to_pylist() == [1, 2, 9]
    assert table.schema == SCHEMA


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b"no tab",
        b"{}\t{}",
        b'{"event_id":"a"}\t{}',
        b"[]\t{}",
        b'{"event_id":"a","event_type":"b","turn":"x"}\t{}',
        b'{"event_id":"a","event_type":"b","turn":9223372036854775808}\t{}',
        b'{"event_id":"a","event_type":"b"}\t{}\t{}',
        b'{"event_id":"a","event_type":"b"}\t"\xff"',
        b'{"event_id":"\xff","event_type":"b"}\t{}',
    ],
)
def test_lines_that_are_not_events_are_corruption(line: bytes) -> None:
    """A frame's digest may fit and its content still be wrong: that is damage, never a crash (I11)."""
    good = encode_line(event(1)) + b"\n"
    with pytest.raises(Corruption):
        table_from_lines([good, line + b"\n", good], positions_of([(0, 3)]), "j")


def test_a_column_of_a_newer_version_is_unsupported() -> None:
    """Sealing it without the column would lose data silently (P7)."""
    with pytest.raises(Unsupported, match="newer Locus"):
        table_from_lines(
            [b'{"event_id":"a","event_type":"b","mood":"good"}\t{}\n'], positions_of([(0, 1)]), "j"
        )


def test_a_column_that_first_comes_late_is_found() -> None:
    """Parsing looks only for columns seen so far, and looks again when there is another one."""
    lines = [encode_line(event(n, title="x" * 600)) + b"\n" for n in range(20_000)]
    lines.append(encode_line(event(20_000, tool="Bash")) + b"\n")

    table = table_from_lines(lines, positions_of([(0, len(lines))]), "j")

    assert table["tool"].null_count == 20_000
    assert table["tool"][20_000].as_py() == "Bash"


@pytest.mark.slow
def test_flipped_bytes_of_a_segment_are_corruption_or_harmless() -> None:
    """Reading a damaged segment gives its events or Corruption, never another error or other events (I11)."""
    table = table_of([event(n, tool="Bash", blobs=["b" * 9]) for n in range(40)])
    data = bytearray(encode_segment(table, META))
    found = 0
    pages_end = len(data) - 8 - int.from_bytes(data[-8:-4], "little")
    for at in [*range(0, pages_end, 7), *range(pages_end, len(data), 97), *range(len(data) - 8, len(data))]:
        data[at] ^= 0x10
        try:
            same = decode_segment(bytes(data), "s").equals(table)
        except (Corruption, Unsupported):
            found += 1
        else:
            assert same or at >= pages_end, f"byte {at} changed an event unnoticed"
        data[at] ^= 0x10

    assert found > 100
