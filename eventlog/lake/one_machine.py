"""A lake asked on one machine, from its objects alone (docs/lake-questions.md).

The events of all stores become segments of one log (`folding/one_log.py`) in a directory that the caller
deletes; everything after that is what a store does: views, limits, safe mode. `opened` is of one thread; a
`LakeLog` does not change, and any thread may ask it.
"""

import shutil
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from itertools import count
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

from eventlog.base.errors import PARSE_ERRORS, Corruption, EventLogError, NotFound, Refused, why_unreadable
from eventlog.base.fs import REAL, hash_file
from eventlog.base.identity import make_directories
from eventlog.base.layout import Layout, segment_name
from eventlog.base.types import COLUMN_NAMES
from eventlog.lake import chain
from eventlog.lake.chain import Chain, LiveFile
from eventlog.lake.folding import one_log
from eventlog.lake.place import Place
from eventlog.lake.published_contents import VERIFY
from eventlog.log.manifest import Manifest, SegmentEntry
from eventlog.log.segment import ANCHOR_PAYLOAD, FILE_SCHEMA
from eventlog.projections import index, source
from eventlog.projections.lives import POSITION_BITS
from eventlog.query import binding, safe, views
from eventlog.query import functions as of_files
from eventlog.query.connection_cache import ConnectionCache
from eventlog.query.engine import Bound, Limits, Parameters, Result, Snapshot, run, table
from eventlog.replay.answers import StoreAnswers

if TYPE_CHECKING:
    import duckdb

    from eventlog.log.numbering import Prefix
    from eventlog.query.lookup import Query

# The columns that the fold of projections reads, and those by which their rows are joined.
_OF_PROJECTIONS = frozenset(
    "position event_id event_type session_id turn turn_id context_id extends agent agent_session_id "
    "agent_turn_id tool_use_id subagent_id message_id request_id repo branch commit occurred_at recorded_at "
    "title status tool path operation model prompt_tokens completion_tokens reasoning_tokens "
    "cache_read_tokens cache_write_tokens cache_write_1h_tokens duration_ms success tree_hash "
    f"{ANCHOR_PAYLOAD}".split()
)
_ALL = frozenset(FILE_SCHEMA.names)

# Views that rest on columns alone, and the one column of theirs that does not.
_WITHOUT_PAYLOAD = frozenset(("events", *views.PROJECTIONS, views.PRICES))
_OF_PAYLOAD = frozenset(("payload", "stop_reason"))
_WITHOUT_PAYLOAD_EXTRAS = frozenset((views.COST, views.SETTLED, "derived"))

# Questions after another about more events than this read an index of them.
_INDEXED_ROWS_MIN = 20_000
_MEMORY_BYTES = 1 << 30
_BATCH_ROWS = 16_384

# Of a file of this size most is asked for anyway: one request brings it. So many are asked for at once.
_WHOLE_BYTES_MAX = 512 << 10
_AHEAD = 8

# Called with how many files were read, and how many there are to read.
Progressing = Callable[[int, int], None]


@dataclass(slots=True)
class _View:
    """Segments without a tail, as a question sees the log of a store."""

    manifest: Manifest
    segment_paths: list[str]
    prefix: "Prefix | None" = None
    journals: list[int] = field(default_factory=list)
    tail_count_raw: int = 0
    tail_count: int = 0

    @property
    def next_position(self) -> int:
        return self.manifest.next_position

    def tail_parts(self, rows_max: int) -> "tuple[pa.Table | None, list[Any]]":  # noqa: ARG002
        return None, []

    def tail_table(self) -> "pa.Table":
        return FILE_SCHEMA.empty_table()


class LakeLog:
    """The stores of a place as one log, to be asked."""

    def __init__(self, name: str, layout: Layout, view: _View, stores: "Sequence[str]") -> None:
        """Called by `opened`. Args: name: of the place; stores: their ids in order."""
        self.name = name
        self.stores = stores
        self._layout = layout
        self._view = view

    @classmethod
    def of(cls, described: "Mapping[str, Any]") -> "LakeLog":
        """The same log, in another process of this machine. Args: described: as `described` gives it."""
        layout, entries = Layout(described["root"]), described["segments"]
        return _log(
            described["name"], layout, described["stores"], [SegmentEntry(**item) for item in entries]
        )

    def described(self) -> "dict[str, Any]":
        """What `of` needs, as JSON has it."""
        return {
            "name": self.name,
            "root": self._layout.root,
            "stores": list(self.stores),
            "segments": [asdict(entry) for entry in self._view.manifest.segments],
        }

    def query(self, sql: str, parameters: Parameters = None, *, limits: "Limits | None" = None) -> Result:
        """As `Store.query`. Raises: as that; Refused for a function that reads contents."""
        return run(self._snapshot(), sql, parameters, limits)

    def sql(self, sql: str, parameters: Parameters = None, *, limits: "Limits | None" = None) -> "pa.Table":
        """The answer of `query` as an Arrow table."""
        return table(self._snapshot(), sql, parameters, limits)

    @contextmanager
    def asking(self) -> "Iterator[Query]":
        """A way to ask more than one question, as `reports.figures.asking` has it."""
        if sum(entry.rows for entry in self._view.manifest.segments) >= _INDEXED_ROWS_MIN:
            index.build(REAL, self._layout, self._view)
        with ConnectionCache[Bound]() as cache:
            yield partial(run, self._snapshot(cache))

    def _snapshot(self, cache: "ConnectionCache[Bound] | None" = None) -> Snapshot:
        view = replace(self._view)  # a question keeps its own place in the log there
        return Snapshot(view, self._layout, REAL, _LakeAnswers, cache, homes=tuple(self.stores))


def _log(name: str, layout: Layout, stores: "Sequence[str]", entries: "Sequence[SegmentEntry]") -> LakeLog:
    """The log of these segments. Args: stores: their ids in order."""
    until = max((entry.end for entry in entries), default=0)
    manifest = Manifest(stores[0], number=1, next_position=until, segments=tuple(entries))
    view = _View(manifest, [layout.segment(entry.name) for entry in entries])
    return LakeLog(name, layout, view, stores)


class _NoContents:
    """In place of the contents of a store, where there are none."""


class _LakeAnswers(StoreAnswers):
    """The answers of the functions of SQL that need no content; of the others what to do instead."""

    def __init__(self, ask: of_files.Ask) -> None:
        no_contents: Any = _NoContents()
        super().__init__(ask, no_contents)

    def contents(self, *_: "of_files.Texts") -> Any:
        raise _no_contents()

    def trees(self, *_: "of_files.Texts") -> Any:
        raise _no_contents()

    def diffs(self, *_: "of_files.Texts") -> Any:
        raise _no_contents()

    def histories(self, *_: "of_files.Texts") -> Any:
        raise _no_contents()


def _no_contents() -> Refused:
    return Refused(
        "file_at, blob_at, tree_at, diff_between and history_of read contents of files, and a question to a "
        "lake reads events alone. `locus lake replay TO TURN --to DIR` brings back the files of a turn."
    )


def opened(
    place: Place,
    directory: str,
    sql: "str | None" = None,
    *,
    events_max: "int | None" = None,
    memory_bytes: int = _MEMORY_BYTES,
    progress: "Progressing | None" = None,
) -> LakeLog:
    """The stores of a place as one log, read into a directory that the caller deletes.

    Args: sql: the only question that will be asked; only what it needs is read. Raises: NotFound where
    nobody published; Refused for more than `events_max` positions or too little room; QueryError; Corruption.
    """
    columns = _ALL if sql is None else _needed(sql)
    with ThreadPoolExecutor(_AHEAD) as pool:
        known = pool.map(partial(chain.read_chain, place), chain.stores_in(place))
        chains = [state for state in known if state.live]
    if not chains:
        raise NotFound(f"no store has published to {place.uri}. `locus publish {place.uri}` does.")
    _refuse_large(place, chains, directory, events_max)
    layout = Layout(f"{directory}/log")
    make_directories(REAL, layout)
    reading = _Reading(place, chains, layout, progress)
    memory_bytes = min(memory_bytes, _MEMORY_BYTES)
    with source.connect() as con:
        con.execute(f"SET temp_directory = {source.literal(directory)}")
        con.execute(f"SET memory_limit = '{memory_bytes}B'; SET preserve_insertion_order = false")
        reading.settle(con)
        # How many events come is not known to it, and it would hold all of them to join a few.
        con.execute("SET disabled_optimizers = 'join_order,build_side_probe_side'")
        entries = [reading.write(con, number, columns) for number in range(len(chains))]
    entries = [entry for entry in entries if entry.rows]
    name = place.uri.rpartition("/")[2] or place.uri
    return _log(name, layout, [state.store_id.hex() for state in chains], entries)


def _refuse_large(place: Place, chains: "Sequence[Chain]", directory: str, events_max: "int | None") -> None:
    """Refuse what one machine should not read. A position that was erased or collected counts, too."""
    positions = sum(state.end for state in chains)
    if events_max is not None and positions > events_max:
        raise Refused(
            f"{place.uri} has up to {positions:,} events, more than the {events_max:,} that are read here. "
            "Ask the tables of the lake (`locus lake fold`, docs/lake-questions.md), or allow more with "
            "--lake-events."
        )
    size = sum(file.size for state in chains for file in state.live)
    free = shutil.disk_usage(directory).free
    if 2 * size > free:
        raise Refused(
            f"{place.uri} has {size:,} bytes of events, and {directory} has room for {free:,}; twice as many "
            "must fit. Set TMPDIR to a directory with more room, or ask the tables of the lake "
            "(docs/lake-questions.md)."
        )


def _needed(sql: str) -> "frozenset[str]":
    """The columns that a question can need. Raises: as `safe.check`."""
    with source.connect() as con:
        statement = safe.check(con, sql)
    meant = statement.columns
    if (
        meant is None
        or statement.lists_catalog
        or statement.functions & of_files.NAMES
        or not statement.tables & frozenset(views.NAMES) <= _WITHOUT_PAYLOAD
        or meant & _OF_PAYLOAD
        or not binding.extras_meant(statement) <= _WITHOUT_PAYLOAD_EXTRAS
    ):
        return _ALL
    return _OF_PROJECTIONS | (meant & frozenset(COLUMN_NAMES))


class _Reading:
    """Published files, read column by column into segments of the one log."""

    def __init__(
        self, place: Place, chains: "Sequence[Chain]", layout: Layout, progress: "Progressing | None"
    ) -> None:
        self._place = place
        self._chains = chains
        self._layout = layout
        self._progress = progress
        passes = 1 if len(chains) == 1 else 2
        self._total = passes * sum(len(state.live) for state in chains)
        self._done = count(1)
        self._failure: Exception | None = None  # DuckDB only quotes it

    def settle(self, con: "duckdb.DuckDBPyConnection") -> None:
        """Decide which copies of events count, and what numbers turns get, where there are several stores."""
        if len(self._chains) == 1:
            return
        for number, state in enumerate(self._chains):
            keys = f"SELECT {one_log.KEYS} FROM (SELECT *, {_id_of(state)} AS store_id FROM part)"
            self._run(
                con, number, one_log.READ, f"INSERT INTO keys {keys}" if number else _TABLE.format(keys)
            )
        one_log.settle(con)
        con.execute("DROP TABLE keys")

    def write(self, con: "duckdb.DuckDBPyConnection", number: int, columns: "frozenset[str]") -> SegmentEntry:
        """Write the events of a store that count as a segment."""
        path, store_id = self._layout.tmp("segment"), self._chains[number].store_id.hex()
        present = [name for name in FILE_SCHEMA.names if name in columns]
        events = one_log.moved("part", present, store_id, number, len(self._chains))
        copy = f"COPY ({events}) TO {source.literal(path)} (FORMAT parquet, COMPRESSION lz4_raw)"
        self._run(con, number, present, copy)
        return self._placed(path, number, pq.read_metadata(path).num_rows)

    def _placed(self, path: str, number: int, rows: int) -> SegmentEntry:
        """The segment at `path`, under its name. Its positions may reach into the second half of the log."""
        state, stores = self._chains[number], len(self._chains)
        base, last = number << POSITION_BITS, number + (stores if stores > 1 else 0)
        end = (last << POSITION_BITS) + state.end
        digest, size = hash_file(REAL, path), REAL.stat(path).st_size
        name = segment_name(base, end, digest[:16])
        REAL.rename(path, self._layout.segment(name))
        return SegmentEntry(name, base, end, rows, size, digest, None, None, 0)

    def _run(self, con: "duckdb.DuckDBPyConnection", number: int, columns: "Sequence[str]", sql: str) -> None:
        """Run a statement over `part`: these columns of the events of a store, read once."""
        state = self._chains[number]
        schema = pa.schema([FILE_SCHEMA.field(name) for name in columns])
        con.register("part", pa.RecordBatchReader.from_batches(schema, self._batches(state, schema)))
        try:
            con.execute(sql)
        except source.ERRORS as error:
            raise self._failure or EventLogError(
                f"the events of the store {state.store_id.hex()} cannot be put on this machine: {error}"
            ) from error
        finally:
            con.unregister("part")

    def _batches(self, state: Chain, schema: "pa.Schema") -> "Iterator[pa.RecordBatch]":
        try:
            for file, parquet in self._files(state):
                yield from self._batches_of(file, parquet, state, schema)
                if self._progress is not None:
                    self._progress(next(self._done), self._total)
        except Exception as error:  # raised where the statement ends, whatever it is
            self._failure = error
            raise

    def _files(self, state: Chain) -> "Iterator[tuple[LiveFile, Any]]":
        """The files of a store as pyarrow reads them: small ones whole, some ahead of the reader."""
        with ThreadPoolExecutor(_AHEAD) as pool:
            waiting: deque[tuple[LiveFile, Future[Any]]] = deque()
            for file in state.live:
                waiting.append((file, pool.submit(self._fetched, file)))
                if len(waiting) > _AHEAD:
                    yield _first(waiting)
            while waiting:
                yield _first(waiting)

    def _fetched(self, file: LiveFile) -> Any:
        is_small = 0 < file.size <= _WHOLE_BYTES_MAX
        return pa.BufferReader(self._place.read(file.name)) if is_small else self._place.open(file.name)

    def _batches_of(
        self, file: LiveFile, fetched: Any, state: Chain, schema: "pa.Schema"
    ) -> "Iterator[pa.RecordBatch]":
        address = self._place.address(file.name)
        try:
            parquet = pq.ParquetFile(fetched, page_checksum_verification=True, pre_buffer=True)
            marks = parquet.schema_arrow.metadata or {}
            if marks.get(b"locus.store_id") != state.store_id.hex().encode():
                raise Corruption(address, f"it is not a file of the store {state.store_id.hex()}")
            for batch in parquet.iter_batches(_BATCH_ROWS, columns=schema.names):
                yield batch.select(schema.names).cast(schema)
        except Corruption as error:
            raise Corruption(address, error.what, error.offset, VERIFY) from error
        except EventLogError:
            raise
        except (OSError, *PARSE_ERRORS) as error:
            raise Corruption(address, f"it cannot be read ({why_unreadable(error)})", None, VERIFY) from error


_TABLE = "CREATE TABLE keys AS {}"


def _id_of(state: Chain) -> str:
    return source.literal(state.store_id.hex())


def _first(waiting: "deque[tuple[LiveFile, Future[Any]]]") -> "tuple[LiveFile, Any]":
    file, fetched = waiting.popleft()
    try:
        return file, fetched.result()
    except NotFound as error:
        raise NotFound(f"{error}; it was replaced meanwhile. Try again.") from error
