"""Journal lines to Arrow to Parquet and back: the format of sealed events.

Bytes in, values out; no files. Equal events and equal library versions give equal bytes (I15).

A segment holds the visible events of positions [base, end) as one row each, sorted by position, in
the columns of `types.COLUMNS`. Its key-value metadata: `locus.format` (1), `locus.store_id` (hex),
`locus.base`, `locus.end`, `locus.dropped`.

How the file is laid out, and why:
- zstd level 3: sealing takes the time of a command that somebody runs; compaction may spend more.
- Dictionaries only where values repeat. On payloads, ids and digests a dictionary fills its page
  first and is thrown away then, which costs time and bytes.
- Row groups of 122,880 rows, the unit DuckDB works in parallel on. A sealed batch is seldom larger,
  so most segments have one, and every column of it is one run of pages.
- Pages of 1 MiB: smaller ones cost 1 % of size, larger ones save nothing and are slower to write.
- Page checksums, because zstd frames carry none: a flipped bit is found when the page is read (I11).
- Minimum and maximum only for columns that filters use.
- The payloads of `session` and `turn` events are in a column of their own, ANCHOR_PAYLOAD, and null in
  `payload`: projections read these few texts, which would otherwise be scattered over the pages of all
  payloads. Readers of `payload` through this module get both as one.
"""

from array import array
from collections import deque
from collections.abc import Collection, Container, Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import chain
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pa_csv
import pyarrow.json as pa_json
import pyarrow.parquet as pq

from eventlog.base.errors import Corruption, Unsupported
from eventlog.base.types import (
    ANCHOR_TYPES,
    BOOL,
    COLUMN_KINDS,
    COLUMN_NAMES,
    ENVELOPE_NAMES,
    INT,
    JSON,
    LIST,
    TEXT,
    TIME,
)
from eventlog.log.frame import Frame
from eventlog.log.numbering import INPUT_COLUMNS, NUMBERING_COLUMNS, Numbering

FORMAT = 1
ROW_GROUP_ROWS = 122_880
PAGE_BYTES = 1 << 20
COMPRESSION_LEVEL = 3

# What `slices` takes out of a row group at once: few rows of fat events, many of lean ones.
_SLICE_ROWS = 16_384
_SLICE_BYTES = 4 << 20

# Lines are parsed in runs of about this size, each by one thread: large enough that starting on one is
# cheap, small enough for every processor to have one and for its steps to meet in the caches.
_RUN_BYTES = 4 << 20
_BLOCK_BYTES = 1 << 20
_THREADS_MAX = 4

# Part of pyarrow's message about a member that its schema lacks.
_UNKNOWN_FIELD = "unexpected field"

_TYPE_OF_KIND = {
    INT: pa.int64(),
    TEXT: pa.string(),
    BOOL: pa.bool_(),
    TIME: pa.timestamp("us", "UTC"),
    LIST: pa.list_(pa.string()),
    JSON: pa.string(),
}

SCHEMA = pa.schema([(name, _TYPE_OF_KIND[COLUMN_KINDS[name]]) for name in COLUMN_NAMES])

ANCHOR_PAYLOAD = "anchor_payload"

# The columns of the file: those of events, and the payloads of anchors apart.
FILE_SCHEMA = SCHEMA.append(pa.field(ANCHOR_PAYLOAD, pa.string()))

# Envelopes carry times as integers.
_ENVELOPE_SCHEMA = pa.schema(
    [
        (name, pa.int64() if COLUMN_KINDS[name] == TIME else _TYPE_OF_KIND[COLUMN_KINDS[name]])
        for name in ENVELOPE_NAMES
    ]
)

# Columns whose values hardly ever repeat.
_UNIQUE_COLUMNS = frozenset(
    (
        "position",
        "event_id",
        "seq",
        "context_id",
        "tool_use_id",
        "message_id",
        "request_id",
        "cause",
        "commit",
        "occurred_at",
        "recorded_at",
        "title",
        "prompt_tokens",
        "completion_tokens",
        "reasoning_tokens",
        "cache_read_tokens",
        "cache_write_tokens",
        "cache_write_1h_tokens",
        "duration_ms",
        "before_hash",
        "after_hash",
        "tree_hash",
        "payload",
        ANCHOR_PAYLOAD,
    )
)
_UNIQUE_LISTS = frozenset(("reinforces", "contradicts", "blobs"))

_FILTER_COLUMNS = (
    "position",
    "event_type",
    "source",
    "session_id",
    "turn",
    "seq",
    "agent",
    "agent_session_id",
    "repo",
    "branch",
    "occurred_at",
    "recorded_at",
    "tool",
    "status",
    "operation",
    "model",
    "path",
)

# Integers packed as differences: sorted ones, and figures, of which few bits of 64 are used. Against plain
# ones under zstd that is some bytes less, and half of the time in which SQL reads them.
_DELTA_COLUMNS = (
    "position",
    "seq",
    "occurred_at",
    "recorded_at",
    "prompt_tokens",
    "completion_tokens",
    "reasoning_tokens",
    "cache_read_tokens",
    "cache_write_tokens",
    "cache_write_1h_tokens",
    "duration_ms",
)


@dataclass(frozen=True, slots=True)
class SegmentMeta:
    """A segment's own metadata."""

    store_id: bytes
    base: int
    end: int
    dropped: int


def table_from_lines(bodies: "Iterable[bytes]", positions: "pa.Array", path: str) -> "pa.Table":
    """The events of journal lines as a table of SCHEMA, with the numbering columns as the writers gave them.

    Args: bodies: journal lines, each ended by a newline; positions: one for each line; path: named in errors.
    Raises: Corruption, Unsupported.
    """
    tables = [SCHEMA.empty_table()]
    start = 0
    for table in _parsed(bodies, path):
        tables.append(_placed(table, positions.slice(start, table.num_rows), path))
        start += table.num_rows
    if start != len(positions):
        raise Corruption(path, f"it holds {start} events where its frames say {len(positions)}")
    return pa.concat_tables(tables)


def tables_from_frames(frames: "Iterable[Frame]", path: str) -> "Generator[pa.Table, None, None]":
    """What `table_from_lines` gives, in pieces of some MiB, in order and as soon as each is ready.

    Frames are taken while lines of those before are parsed: their source is read meanwhile.
    """
    ranges: deque[tuple[int, int]] = deque()

    def bodies() -> "Iterator[bytes]":
        for frame in frames:
            ranges.append((frame.base, frame.count))
            yield frame.payload

    for table in _parsed(bodies(), path):
        table_ranges = []
        count = 0
        while ranges and count < table.num_rows:
            table_ranges.append(ranges.popleft())
            count += table_ranges[-1][1]
        yield _placed(table, positions_of(table_ranges), path)
    if ranges:
        raise Corruption(path, "it holds fewer events than its frames say")


def _placed(table: "pa.Table", positions: "pa.Array", path: str) -> "pa.Table":
    if len(positions) != table.num_rows:
        raise Corruption(path, f"its frames say other than the {table.num_rows} events they hold")
    return table.set_column(0, SCHEMA.field(0), positions)


def positions_of(ranges: "Sequence[tuple[int, int]]") -> "pa.Array":
    """The positions of runs of events, each (base, count)."""
    numbers = array("q")
    for base, count in ranges:
        numbers.extend(range(base, base + count))
    return pa.Array.from_buffers(pa.int64(), len(numbers), [None, pa.py_buffer(numbers)])


def number_table(table: "pa.Table", numbering: Numbering) -> "pa.Table":
    """The same events with their numbering columns filled; `table` holds no duplicates."""
    lists = {name: texts(table[name]) for name in INPUT_COLUMNS}
    lists |= {name: _values(table[name]) for name in NUMBERING_COLUMNS}
    numbering.number(lists)
    for name in NUMBERING_COLUMNS:
        index = SCHEMA.get_field_index(name)
        table = table.set_column(index, SCHEMA.field(index), pa.array(lists[name], SCHEMA.field(index).type))
    return table


def without_duplicates(
    events: "pa.Table", known: "Sequence[pa.Array]", seen: "set[str] | None" = None
) -> "pa.Table":
    """The events whose id is in none of the arrays, not in `seen`, and that no earlier row has (I8).

    Args: seen: ids of tables before this one; those of this one are added.
    """
    ids = events["event_id"].combine_chunks()
    masks = [pc.invert(pc.is_in(ids, value_set=array)) for array in known if len(array)]
    seen = set() if seen is None else seen
    texts_of_ids = ids.to_pylist()
    fresh = set(texts_of_ids)
    if len(fresh) != len(ids) or not seen.isdisjoint(fresh):
        masks.append(_first_mask(texts_of_ids, seen))
    seen |= fresh
    return events.filter(reduce(pc.and_, masks)) if masks else events


def _first_mask(ids: "list[str]", seen: "set[str]") -> "pa.Array":
    seen = seen.copy()
    mask = []
    for event_id in ids:
        mask.append(event_id not in seen)
        seen.add(event_id)
    return pa.array(mask, pa.bool_())


def encode_segment(table: "pa.Table", meta: SegmentMeta) -> bytes:
    """The Parquet file of a table of SCHEMA."""
    # Where a page ends depends on the chunks: one of each column, however the events came in (I15).
    table = with_anchors_apart(table.combine_chunks()).replace_schema_metadata(marks_of(meta))
    out = pa.BufferOutputStream()
    pq.write_table(table, out, **WRITE_OPTIONS)
    return out.getvalue().to_pybytes()  # type: ignore[no-any-return]


def marks_of(meta: SegmentMeta) -> "dict[str, str]":
    """The file's description of itself, as metadata of its schema."""
    return {
        "locus.format": str(FORMAT),
        "locus.store_id": meta.store_id.hex(),
        "locus.base": str(meta.base),
        "locus.end": str(meta.end),
        "locus.dropped": str(meta.dropped),
    }


def with_anchors_apart(table: "pa.Table") -> "pa.Table":
    """A table of SCHEMA as one of FILE_SCHEMA."""
    payload = table["payload"]
    of_anchor = pc.is_in(table["event_type"], value_set=pa.array(ANCHOR_TYPES))
    nothing = pa.scalar(None, pa.string())
    index = SCHEMA.get_field_index("payload")
    apart = table.set_column(index, SCHEMA.field(index), pc.if_else(of_anchor, nothing, payload))
    return apart.append_column(FILE_SCHEMA.field(ANCHOR_PAYLOAD), pc.if_else(of_anchor, payload, nothing))


def _with_anchors_joined(table: "pa.Table") -> "pa.Table":
    """Both columns of payloads as one again."""
    index = table.column_names.index("payload")
    joined = pc.coalesce(table["payload"], table[ANCHOR_PAYLOAD])
    return table.set_column(index, SCHEMA.field("payload"), joined).drop_columns([ANCHOR_PAYLOAD])


def _write_options() -> "dict[str, Any]":
    leaves = {n: f"{n}.list.element" if COLUMN_KINDS[n] == LIST else n for n in COLUMN_NAMES}
    return {
        "row_group_size": ROW_GROUP_ROWS,
        "data_page_size": PAGE_BYTES,
        "write_batch_size": 8192,
        "compression": "zstd",
        "compression_level": COMPRESSION_LEVEL,
        "use_dictionary": [leaves[n] for n in COLUMN_NAMES if n not in _UNIQUE_COLUMNS | _UNIQUE_LISTS],
        "column_encoding": dict.fromkeys(_DELTA_COLUMNS, "DELTA_BINARY_PACKED"),
        "write_statistics": list(_FILTER_COLUMNS),
        "write_page_checksum": True,
    }


WRITE_OPTIONS = _write_options()


def check_equal(data: bytes, table: "pa.Table", path: str) -> None:
    """Read a segment back and compare it with what went in. Raises: Corruption."""
    again = decode_segment(data, path)
    if not again.equals(table.cast(SCHEMA)):
        raise Corruption(path, "what was written does not read back as the same events; nothing was sealed")


def decode_segment(data: bytes, path: str) -> "pa.Table":
    """All events of a segment's bytes. Raises: Corruption, Unsupported."""
    file = open_segment(pa.BufferReader(data), path)
    return read_columns(file, path)


def open_segment(source: "Any", path: str) -> "pq.ParquetFile":
    """The segment in an Arrow file. Raises: Corruption, Unsupported."""
    try:
        file = pq.ParquetFile(source, page_checksum_verification=True)
        schema = file.schema_arrow  # the property makes a new one at each access
        marks = schema.metadata or {}
        is_of_log = schema.remove_metadata().equals(FILE_SCHEMA)
    except (pa.ArrowException, OSError, ValueError, KeyError) as error:
        _let_pass_refusal(error)
        raise Corruption(path, f"the segment's footer cannot be read ({error})") from error
    format_mark = marks.get(b"locus.format")
    if format_mark is not None and format_mark.isdigit() and format_mark != b"%d" % FORMAT:
        raise Unsupported(
            f"{path}: segment format {format_mark.decode()} is unknown; this version of Locus reads format "
            f"{FORMAT}. Use a newer Locus."
        )
    if format_mark is None or not is_of_log:
        raise Corruption(path, "the segment's columns are not those of a log")
    return file


def meta_of(file: "pq.ParquetFile", path: str) -> SegmentMeta:
    """The metadata of an open segment. Raises: Corruption."""
    marks = file.schema_arrow.metadata or {}
    try:
        return SegmentMeta(
            bytes.fromhex(marks[b"locus.store_id"].decode()),
            int(marks[b"locus.base"]),
            int(marks[b"locus.end"]),
            int(marks[b"locus.dropped"]),
        )
    except (KeyError, ValueError) as error:
        raise Corruption(path, f"the segment's metadata is incomplete ({error})") from error


def read_columns(
    file: "pq.ParquetFile", path: str, columns: "Sequence[str] | None" = None, row_group: "int | None" = None
) -> "pa.Table":
    """Columns of events, of one row group or of all. Raises: Corruption."""
    names = _names_to_read(columns)
    try:
        table = file.read(names) if row_group is None else file.read_row_group(row_group, names)
    except (pa.ArrowException, OSError, ValueError) as error:
        raise _unreadable(error, path) from error
    return _as_of_log(table, names)


def with_types_coded(file: "pq.ParquetFile", source: "Any") -> "pq.ParquetFile":
    """The same segment, for `types_in`."""
    return pq.ParquetFile(
        source, metadata=file.metadata, read_dictionary=["event_type"], page_checksum_verification=True
    )


def types_in(coded: "pq.ParquetFile", path: str, row_group: int) -> frozenset[str]:
    """The types of events that a row group can hold: the dictionary of the column. Raises: Corruption."""
    try:
        column = coded.read_row_group(row_group, ["event_type"], use_threads=False)["event_type"]
    except (pa.ArrowException, OSError, ValueError) as error:
        raise _unreadable(error, path) from error
    return frozenset(value for chunk in column.chunks for value in chunk.dictionary.to_pylist())


def slices(
    file: "pq.ParquetFile",
    path: str,
    columns: "Sequence[str] | None",
    row_group: int,
    mask: "pa.ChunkedArray | None" = None,
) -> "Iterator[pa.RecordBatch]":
    """What `read_columns` gives of one row group, some rows at a time; with a mask the rows that it names.

    Memory: a page of each of these columns, compressed all of them, and some _SLICE_BYTES. One thread: two
    take a third more processor time, and each keeps memory of its own. Raises: Corruption.
    """
    names = _names_to_read(columns)
    group = file.metadata.row_group(row_group)
    rows_left = group.num_rows
    matches_left = rows_left if mask is None else sum(chunk.true_count for chunk in mask.chunks)
    if not matches_left:
        return
    try:
        batches = file.iter_batches(_rows_of_slice(group, names), [row_group], names, use_threads=False)
        while matches_left and (batch := next(batches, None)) is not None:
            fits = None if mask is None else mask.slice(group.num_rows - rows_left, batch.num_rows)
            rows_left -= batch.num_rows
            # Most of a slice may go: so before any work on it.
            wanted = pa.Table.from_batches([batch])
            wanted = wanted if fits is None else wanted.filter(fits)
            matches_left -= wanted.num_rows
            yield from _as_of_log(wanted, names).to_batches() if wanted.num_rows else ()
        pa.default_memory_pool().release_unused()  # else it keeps several times what a slice needs
    except (pa.ArrowException, OSError, ValueError) as error:
        raise _unreadable(error, path) from error
    if matches_left:  # pyarrow may end at a damaged page as at the last one
        raise Corruption(path, f"the segment's pages end {rows_left} rows before their group does")


def _rows_of_slice(group: "pq.RowGroupMetaData", names: "Collection[str]") -> int:
    """Payloads are what makes events fat. A damaged column's own size must not be asked: pyarrow aborts."""
    if "payload" not in names:
        return _SLICE_ROWS
    return max(1, min(_SLICE_ROWS, _SLICE_BYTES * int(group.num_rows) // max(1, int(group.total_byte_size))))


def _names_to_read(columns: "Sequence[str] | None") -> "list[str]":
    names = list(COLUMN_NAMES if columns is None else columns)
    return [*names, ANCHOR_PAYLOAD] if "payload" in names else names


def _as_of_log(table: "pa.Table", names: "Sequence[str]") -> "pa.Table":
    table = table.replace_schema_metadata(None)
    return _with_anchors_joined(table) if "payload" in names else table


def _unreadable(error: Exception, path: str) -> Corruption:
    _let_pass_refusal(error)
    return Corruption(path, f"the segment's pages cannot be read ({error})")


def _let_pass_refusal(error: Exception) -> None:
    """Raise an OSError of the machine again: it does not mean that the bytes on the disk are damaged."""
    if isinstance(error, OSError) and error.errno is not None:
        raise error


def texts(column: "pa.ChunkedArray") -> "list[Any]":
    """The values of a text column; equal ones are one Python object, which is what makes it fast."""
    if column.null_count == len(column):
        return [None] * len(column)
    coded = _one_chunk(column).dictionary_encode(null_encoding="encode")
    values = coded.dictionary.to_pylist()
    indices = coded.indices
    numbers = memoryview(indices.buffers()[1]).cast("i")[indices.offset : indices.offset + len(indices)]
    return [values[i] for i in numbers]


def _values(column: "pa.ChunkedArray") -> "list[Any]":
    if column.null_count == len(column):
        return [None] * len(column)
    return column.to_pylist()  # type: ignore[no-any-return]


def _parsed(bodies: "Iterable[bytes]", path: str) -> "Iterator[pa.Table]":
    """The bodies' events in order, without positions, parsed on all processors; `bodies` is read on this one.

    Each run gets the columns that the runs before it had: searching for an absent column costs as much as
    reading one.
    """
    runs = _runs(bodies)
    first = next(runs, None)
    if first is None:
        return
    table = _table_of_run(first, _ENVELOPE_SCHEMA, path)
    present = _present(table)
    yield table
    second = next(runs, None)
    if second is None:
        return
    from concurrent.futures import Future, ThreadPoolExecutor  # 5 ms that reading a segment need not pay

    threads = min(pa.cpu_count(), _THREADS_MAX)
    waiting: deque[Future[pa.Table]] = deque()
    with ThreadPoolExecutor(threads) as pool:
        for run in chain((second,), runs):
            waiting.append(pool.submit(_table_of_run, run, _schema_of(present), path))
            if len(waiting) > threads:
                table = waiting.popleft().result()
                present |= _present(table)
                yield table
        while waiting:
            yield waiting.popleft().result()


def _present(table: "pa.Table") -> "set[str]":
    return {name for name in ENVELOPE_NAMES if table[name].null_count < table.num_rows}


def _schema_of(names: "Container[str]") -> "pa.Schema":
    return pa.schema([field for field in _ENVELOPE_SCHEMA if field.name in names])


def _runs(bodies: "Iterable[bytes]") -> "Iterator[list[bytes]]":
    """The same bodies in runs of about _RUN_BYTES."""
    run: list[bytes] = []
    size = 0
    for body in bodies:
        run.append(body)
        size += len(body)
        if size >= _RUN_BYTES:
            yield run
            run, size = [], 0
    if run:
        yield run


def _table_of_run(bodies: "list[bytes]", fields: "pa.Schema", path: str) -> "pa.Table":
    """The events of a run of lines, with null positions; `fields`: the envelope columns to try first."""
    try:
        envelopes, payloads = _split(bodies)
        try:
            events = _envelope_table(envelopes, fields)
        except pa.ArrowInvalid:
            events = _envelope_table(envelopes, _ENVELOPE_SCHEMA)
    except pa.ArrowException as error:
        if _UNKNOWN_FIELD in str(error):
            raise Unsupported(
                f"{path}: its events have columns this version of Locus does not know ({error}). "
                "Use a newer Locus."
            ) from error
        raise Corruption(path, f"its lines are not events ({error})") from error
    count = len(payloads)
    if events.num_rows != count:
        raise Corruption(path, f"its {count} lines hold {events.num_rows} envelopes")
    columns = {"position": pa.nulls(count, pa.int64()), "payload": payloads}
    for name in ENVELOPE_NAMES:
        kind = SCHEMA.field(name).type
        is_present = name in events.column_names
        columns[name] = events[name].cast(kind) if is_present else pa.nulls(count, kind)
    for name in ("event_id", "event_type"):
        if columns[name].null_count:
            raise Corruption(path, f"an event has no {name}")
    return pa.table([columns[name] for name in COLUMN_NAMES], schema=SCHEMA)


def _split(bodies: "list[bytes]") -> "tuple[pa.ChunkedArray, pa.ChunkedArray]":
    """Envelopes and payloads. The CSV reader cuts at tabs and newlines and ignores the rest."""
    lines = pa_csv.read_csv(
        pa.BufferReader(b"".join(bodies)),
        read_options=pa_csv.ReadOptions(
            column_names=["envelope", "payload"],
            block_size=max(_BLOCK_BYTES, max(map(len, bodies)) + 1),  # no line may be longer
            use_threads=False,
        ),
        parse_options=pa_csv.ParseOptions(
            delimiter="\t",
            quote_char=False,
            double_quote=False,
            escape_char=False,
            newlines_in_values=False,
            ignore_empty_lines=False,
        ),
        convert_options=pa_csv.ConvertOptions(
            column_types={"envelope": pa.string(), "payload": pa.string()}, strings_can_be_null=False
        ),
    )
    return lines["envelope"], lines["payload"]


def _envelope_table(envelopes: "pa.ChunkedArray", fields: "pa.Schema") -> "pa.Table":
    """The envelope columns `fields`."""
    joined = pc.binary_join_element_wise(_one_chunk(envelopes), "", "\n")
    longest = pc.max(pc.binary_length(joined)).as_py()
    return pa_json.read_json(
        pa.BufferReader(joined.buffers()[2]),
        read_options=pa_json.ReadOptions(use_threads=False, block_size=max(_BLOCK_BYTES, longest + 1)),
        parse_options=pa_json.ParseOptions(explicit_schema=fields, unexpected_field_behavior="error"),
    )


def _one_chunk(column: "pa.ChunkedArray") -> "pa.Array":
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()
