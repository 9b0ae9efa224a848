"""A turn of a store that published to a place, found and replayed from the objects alone (docs/lake.md §7).

`PublishedLog` reads the live files of one store: the columns that the fold of turns needs, and the events of
one turn, by ranged GETs and only of row groups that may hold them. What a turn is, what its name means and
what its files are is decided by the code of every store (`projections/fold.py`, `query/lookup.py`,
`replay/trees.py`). One thread.
"""

import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from eventlog.base.errors import PARSE_ERRORS, Ambiguous, Corruption, EventLogError, NotFound, why_unreadable
from eventlog.base.types import COLUMN_NAMES
from eventlog.lake import chain
from eventlog.lake.chain import Chain, LiveFile, stem_of
from eventlog.lake.packs import live_packs, named_packs
from eventlog.lake.place import Place, StoredObject
from eventlog.lake.published_contents import VERIFY, PublishedContents
from eventlog.log import upcast
from eventlog.log.numbering import INT_MAX
from eventlog.log.rows import Selection, rows_of, selected
from eventlog.log.segment import ANCHOR_PAYLOAD, FILE_SCHEMA, read_columns, slices
from eventlog.projections import fold, source
from eventlog.query.lookup import TurnRef, find_turn
from eventlog.query.results import Result
from eventlog.replay.trees import TreeState, trees_of

# The columns of which `fold` makes what a look-up of turns reads. Nobody asks for figures of model calls,
# titles and paths here, so they are null.
TURN_COLUMNS = (
    "position", "event_type", "session_id", "turn", "agent", "agent_session_id", "repo", "branch", "commit",
    "operation", "status", "success", "occurred_at", "recorded_at", "context_id", "tree_hash", ANCHOR_PAYLOAD,
)  # fmt: skip

_STORE_DIGITS_MIN = 4


@dataclass(frozen=True, slots=True)
class PublishedTurn:
    """A turn, and the log that has it."""

    log: "PublishedLog"
    ref: TurnRef


class PublishedLog:
    """The published events of one store."""

    def __init__(self, place: Place, state: Chain) -> None:
        self.place = place
        self.chain = state
        self._open: tuple[str, pq.ParquetFile] | None = None  # the file that was read last

    @property
    def store_id(self) -> str:
        return self.chain.store_id.hex()

    def find_turn(self, name: str) -> TurnRef:
        """The turn that `name` means, as `Store.turn`. Raises: NotFound, Ambiguous, Corruption."""
        prefix = _session_of(name)
        with source.connect() as con:
            con.execute(f"CREATE TABLE events AS {source.events_with_anchors(())}")
            for part in self._turn_columns(prefix):
                con.register("part", part)
                con.execute("INSERT INTO events BY NAME FROM part")
                con.unregister("part")
            fold.fold(con, "events", ("turns",))

            def query(sql: str, parameters: Sequence[Any]) -> Result:
                return Result((), (), con.execute(sql, list(parameters)).fetchall())

            return find_turn(query, name)

    def rows(
        self,
        since: int = 0,
        until: int | None = None,
        *,
        session_id: str | None = None,
        turn: int | None = None,
        event_types: Sequence[str] | None = None,
        columns: Sequence[str] | None = None,
    ) -> Iterator[dict[str, Any]]:
        """Events as `Store.rows` gives them."""
        wanted = Selection(since, until, event_types, session_id, turn)
        # An upcast may read any column.
        names = list(COLUMN_NAMES if columns is None or upcast.STEPS else columns)
        for file in self.chain.live:
            if file.end > since and (until is None or file.base < until):
                for row in self._rows_in(file, wanted, names):
                    yield row if columns is None else {name: row[name] for name in columns}

    def files_of(self, ref: TurnRef) -> list[LiveFile]:
        """The live files with positions of a turn, the last one first."""
        files = [
            f for f in self.chain.live if f.end > ref.since and (ref.until is None or f.base < ref.until)
        ]
        return files[::-1]

    def _turn_columns(self, prefix: str) -> Iterator[pa.Table]:
        """TURN_COLUMNS of the events whose session begins with `prefix`; a row group may have others."""
        for file in self.chain.live:
            with self._reading(file) as parquet:
                for number in range(parquet.num_row_groups):
                    if _may_hold(parquet, number, prefix):
                        yield read_columns(parquet, self.place.address(file.name), TURN_COLUMNS, number)

    def _rows_in(self, file: LiveFile, wanted: Selection, names: list[str]) -> Iterator[dict[str, Any]]:
        tests = wanted.columns(0, INT_MAX)
        prefix = wanted.session_id if isinstance(wanted.session_id, str) else ""
        address = self.place.address(file.name)
        with self._reading(file) as parquet:
            for number in range(parquet.num_row_groups):
                if not _may_hold(parquet, number, prefix):
                    continue
                if tests:
                    mask = wanted.mask(read_columns(parquet, address, tests, number))
                    if not any(chunk.true_count for chunk in mask.chunks):
                        continue  # its payloads, most of the file, are not read
                for batch in slices(parquet, address, list(dict.fromkeys((*names, *tests))), number):
                    for part in selected(pa.Table.from_batches([batch]), wanted, names):
                        yield from map(upcast.presented, rows_of(part))

    @contextmanager
    def _reading(self, file: LiveFile) -> Iterator[pq.ParquetFile]:
        address = self.place.address(file.name)
        try:
            if self._open is None or self._open[0] != file.name:
                self._open = file.name, self._opened(file)
            yield self._open[1]
        except Corruption as error:
            raise Corruption(address, f"{error.what}. {_AGAIN}", error.offset, VERIFY) from error
        except NotFound as error:
            raise NotFound(f"{error}; it was replaced meanwhile. Try again.") from error
        except EventLogError:
            raise
        except PARSE_ERRORS as error:
            what = f"it cannot be read ({why_unreadable(error)})"
            raise Corruption(address, f"{what}. {_AGAIN}", None, VERIFY) from error

    def _opened(self, file: LiveFile) -> pq.ParquetFile:
        opened = self.place.open(file.name)
        parquet = pq.ParquetFile(opened, page_checksum_verification=True, pre_buffer=True)
        schema = parquet.schema_arrow
        marks = schema.metadata or {}
        if marks.get(b"locus.store_id") != self.store_id.encode():
            raise Corruption(file.name, f"it is not a file of the store {self.store_id}")
        types = {field.name: field.type for field in schema}
        if any(types.get(field.name) != field.type for field in FILE_SCHEMA):
            raise Corruption(file.name, "its columns are not those of events")
        return parquet


_AGAIN = "Bring the object back from a version or a backup of the place"


def find_published_turn(place: Place, name: str, store: str | None = None) -> PublishedTurn:
    """The turn that `name` means in a place; with `store`, in the one whose id begins so.

    Raises: NotFound; Ambiguous, with the ids of the stores that know such a turn.
    """
    turns: list[PublishedTurn] = []
    errors: list[EventLogError] = []
    for store_id in _stores(place, store):
        log = PublishedLog(place, chain.read_chain(place, store_id))
        try:
            turns.append(PublishedTurn(log, log.find_turn(name)))
        except Ambiguous as error:
            raise Ambiguous(f"in the store {log.store_id}, {error}") from error
        except NotFound as error:
            errors.append(error)
    if len(turns) > 1:
        stores = ", ".join(f"{turn.log.store_id} ({turn.ref.name})" for turn in turns)
        raise Ambiguous(f"{name!r} is a turn in several stores: {stores}. Name one of them with --store.")
    if turns:
        return turns[0]
    if len(errors) == 1:
        raise NotFound(f"in the store {store or 'of ' + place.uri}, {errors[0]}")
    raise NotFound(
        f"no store in {place.uri} has a turn called {name!r}. `locus lake verify` lists the stores."
    )


@contextmanager
def published_tree(turn: PublishedTurn, at: str = "end") -> Iterator[TreeState]:
    """The files of a published turn at "start", "end", or after one of its events; readable until the end.

    Raises: NotFound, also for a store that published no contents; Ambiguous; Corruption.
    """
    log, ref = turn.log, turn.ref
    if at not in ("start", "end"):
        at = _event_of(log, ref, at)

    def packs() -> list[StoredObject]:
        entries = live_packs(log.place, log.chain)
        named = named_packs(log.place, [file.name for file in log.files_of(ref)]) if len(entries) > 1 else ()
        return sorted(entries, key=lambda entry: (stem_of(entry.name) not in named, entry.name))

    if not packs():
        raise NotFound(
            f"the store {log.store_id} published no contents to {log.place.uri}, so no turn of it can be "
            "replayed from there. Where the store still is, set `contents = true` in the section [publish] "
            "of its config.toml, and run `locus publish` again."
        )
    with (
        tempfile.TemporaryDirectory(prefix="locus-lake-") as directory,
        PublishedContents(log.place, log.chain.store_id, packs, f"{directory}/contents") as blobs,
    ):
        yield trees_of(log.rows, blobs, ref, at)[0]


def _stores(place: Place, wanted: str | None) -> list[bytes]:
    stores = chain.stores_in(place)
    if wanted is None:
        if not stores:
            raise NotFound(f"no store has published to {place.uri}. `locus publish {place.uri}` does.")
        return stores
    matches = [id for id in stores if id.hex().startswith(wanted.lower())]
    if not matches or len(wanted) < _STORE_DIGITS_MIN:
        known = ", ".join(id.hex() for id in stores[:8]) or "none"
        raise NotFound(f"no store in {place.uri} has an id that begins with {wanted!r}; there are: {known}")
    if len(matches) > 1:
        ids = ", ".join(id.hex() for id in matches[:8])
        raise Ambiguous(f"{wanted!r} begins the ids of several stores: {ids}. Give more of it.")
    return matches


def _session_of(name: str) -> str:
    """The beginning of the session ids that a turn's name allows; empty where it allows any."""
    if name == "last" or name.startswith(("last:", "git:")):
        return ""
    return name.removeprefix("turn:").partition("_")[0]


def _may_hold(parquet: pq.ParquetFile, number: int, prefix: str) -> bool:
    """Whether a row group may have events of sessions whose ids begin with `prefix`, by its bounds."""
    if not prefix:
        return True
    index = parquet.schema_arrow.get_field_index("session_id")
    bounds = parquet.metadata.row_group(number).column(index).statistics
    if bounds is None or not bounds.has_min_max:
        return True
    return bool(bounds.min[: len(prefix)] <= prefix <= bounds.max[: len(prefix)])


def _event_of(log: PublishedLog, ref: TurnRef, prefix: str) -> str:
    """The id of the only event of a turn that begins so. Raises: NotFound, Ambiguous."""
    ids = [
        str(row["event_id"])
        for row in log.rows(
            ref.since, ref.until, session_id=ref.session_id, turn=ref.turn, columns=("event_id",)
        )
        if str(row["event_id"]).startswith(prefix.lower())
    ]
    if not ids:
        raise NotFound(f"{ref.name} has no event whose id begins with {prefix!r}")
    if len(ids) > 1:
        raise Ambiguous(f"{prefix!r} fits several events: {', '.join(sorted(ids)[:5])}")
    return ids[0]
