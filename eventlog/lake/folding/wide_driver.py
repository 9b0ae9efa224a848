"""Bringing the wide tables up to what was folded of every store (docs/lake-tables.md §3).

They are made of the tables of the stores, as these are committed, and of the events of sessions that stores
share. Any number of drivers may do this at once, and each may be killed anywhere: what is in a table is of
one state, and no older state takes the place of a newer one.
"""

import random
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from eventlog.base.errors import Corruption, NotFound
from eventlog.lake import tables
from eventlog.lake.chain import MERGE, Chain, read_chain, stores_in
from eventlog.lake.folding import stored, touched, wide, wide_files, writing
from eventlog.lake.folding.stored import FoldState, Projected
from eventlog.lake.folding.task import FoldedFile, brought, connected
from eventlog.lake.folding.touched import Touched
from eventlog.lake.folding.wide_files import KEYS, PROJECTION_OF, WideFile, schema_of
from eventlog.lake.outgoing import SCHEMA
from eventlog.lake.place import Place, each
from eventlog.projections.source import literal

if TYPE_CHECKING:
    import duckdb

_ROUNDS = 20  # where stores are folded, or something is erased, meanwhile
_PAUSE_S_MAX = 0.4


@dataclass(slots=True)
class WideLake:
    """What a wide fold did: how many sessions it folded once more, names of the files that tables name now
    and did before, the `rows` of the first by table; and what was `left`, with the reason."""

    touched: int = 0
    added: "list[str]" = field(default_factory=list)
    removed: "list[str]" = field(default_factory=list)
    rows: "dict[str, int]" = field(default_factory=dict)
    left: "list[str]" = field(default_factory=list)


class ChangedError(Exception):
    """The stores are not what this fold read of them any more: it starts again from what is there."""


def fold(place: Place, catalog_uri: str, *, full: bool = False) -> WideLake:
    """Make the wide tables of the tables of all stores, where these changed since.

    Args: full: also where nothing changed. Raises: Corruption; Refused where others changed the tables at
    each try; EventLogError of the storage or the catalog.
    """
    lake = WideLake()
    for _ in range(_ROUNDS):
        try:
            _fold(place, catalog_uri, lake, full=full)
            return lake
        except (ChangedError, NotFound) as error:
            reason = f"{error}; run this again"
            time.sleep(random.uniform(0, _PAUSE_S_MAX))
        except Corruption as error:
            reason = str(error)
            break
    lake.left.append(f"what is over all stores: {reason}")
    return lake


def _fold(place: Place, catalog_uri: str, lake: WideLake, *, full: bool) -> None:
    with tables.opened(place, catalog_uri) as catalog:
        stores = Stores.of(place, catalog, catalog_uri)
        named = {name for table in wide.TABLES for name in _named(place, catalog, catalog_uri, table)}
    is_made = all(any(name.startswith(f"tables/{table}/") for name in named) for table in wide.TABLES)
    if is_made and {_state_in(name) for name in named} == {stores.state} and not full:
        return
    with tempfile.TemporaryDirectory(prefix="locus-fold-") as directory:
        chains = _chains(place)
        erasures = _erasures(chains.values())
        stores.check(chains)
        with connected(directory) as con:
            lake.touched = folded(con, place, stores, chains, directory)
            files = {
                table: _created(con, place, table, erasures, stores.state, directory) for table in wide.TABLES
            }
    _commit(place, catalog_uri, stores, files, lake)
    if _erasures(_chains(place).values()) != erasures:
        _take_out(place, catalog_uri, files)
        raise ChangedError("something was erased meanwhile")


@dataclass(frozen=True, slots=True)
class Stores:
    """What the tables of the stores name: the files of each store, which are all of one state."""

    files: "Mapping[bytes, tuple[Projected, ...]]"

    @staticmethod
    def of(place: Place, catalog: Any, catalog_uri: str) -> "Stores":
        """What they name now. Raises: as `of_files`."""
        names: list[str] = []
        for table in PROJECTION_OF.values():
            names += tables.data_files(
                place, tables.loaded(place, catalog, catalog_uri, tables.full_name(table))
            )
        return Stores.of_files(map(Projected.of, names))

    @staticmethod
    def of_files(named: "Iterable[Projected]") -> "Stores":
        """Raises: ChangedError where the tables are of different states: somebody is at work."""
        files: dict[bytes, list[Projected]] = defaultdict(list)
        for file in named:
            files[file.store_id].append(file)
        for store_id, of_store in files.items():
            is_whole = {file.table for file in of_store} == set(PROJECTION_OF.values())
            if not is_whole or len({file.state for file in of_store}) > 1:
                raise ChangedError(f"the tables have different states of store {store_id.hex()}")
        return Stores({store_id: tuple(of_store) for store_id, of_store in files.items()})

    @property
    def states(self) -> "dict[bytes, FoldState]":
        return {store_id: files[0].state for store_id, files in self.files.items()}

    @property
    def state(self) -> str:
        return wide_files.state_of(self.states)

    def check(self, chains: "Mapping[bytes, Chain]") -> None:
        """Raises: ChangedError where something was erased from a store since it was folded."""
        for store_id, state in self.states.items():
            chain = chains.get(store_id)
            if chain is None or chain.end < state.end or chain.last_erasure > state.number:
                raise ChangedError(f"store {store_id.hex()} was rewritten since it was folded")


def _chains(place: Place) -> "dict[bytes, Chain]":
    return {chain.store_id: chain for chain in each(partial(read_chain, place), stores_in(place))}


def _erasures(chains: "Iterable[Chain]") -> int:
    """How many rewrites by an erasure or a narrower policy all stores have."""
    return sum(rewrite.reason != MERGE for chain in chains for rewrite in chain.rewrites)


def folded(
    con: "duckdb.DuckDBPyConnection",
    place: Place,
    stores: Stores,
    chains: "Mapping[bytes, Chain]",
    directory: str,
) -> int:
    """Make the views of the wide tables; how many sessions were folded once more."""
    _load_projections(con, place, stores, directory)
    wide.touch(con, "llm_calls", "turns", "sessions")
    _make_table(con, "events", pa.schema([SCHEMA.field(name) for name in wide.EVENT_COLUMNS]))
    for part in touched.events(place, _touched(con, stores, chains)):
        con.register("part", part)
        con.execute("INSERT INTO events BY NAME FROM part")
        con.unregister("part")
    wide.fold_wide(con, "events", "llm_calls", "turns", "sessions")
    return int(con.execute("SELECT count(*) FROM work.touched").fetchall()[0][0])


def _make_table(con: "duckdb.DuckDBPyConnection", name: str, schema: "pa.Schema") -> None:
    con.register("nothing", schema.empty_table())
    con.execute(f"CREATE TABLE {name} AS FROM nothing")
    con.unregister("nothing")


def _load_projections(con: "duckdb.DuckDBPyConnection", place: Place, stores: Stores, directory: str) -> None:
    """Make views of the rows of all stores, by the names of their tables."""
    files = [file for of_store in stores.files.values() for file in of_store]

    def path_of(file: Projected) -> str:
        return brought(place, file, f"{directory}/{file.table}-{file.store_id.hex()}-{file.digest}.parquet")

    paths = dict(zip(files, each(path_of, files), strict=True))
    for table in PROJECTION_OF.values():
        listed = ", ".join(literal(path) for file, path in paths.items() if file.table == table)
        if listed:
            con.execute(f"CREATE VIEW {table} AS FROM read_parquet([{listed}])")
        else:
            _make_table(con, table, stored.schema_of(table))


def _touched(
    con: "duckdb.DuckDBPyConnection", stores: Stores, chains: "Mapping[bytes, Chain]"
) -> "list[Touched]":
    rows = con.execute(
        "SELECT store_id, list(session_id), list([first_position, last_position]) FROM sessions "
        "WHERE session_id IN (SELECT session_id FROM work.touched) GROUP BY store_id ORDER BY store_id"
    ).fetchall()
    states = stores.states
    return [
        Touched(
            tuple(chains[store_id].live),
            frozenset(sessions),
            touched.joined((first, last) for first, last in spans),
            states[store_id].end,
        )
        for store_id, sessions, spans in ((bytes.fromhex(row[0]), row[1], row[2]) for row in rows)
    ]


def _created(
    con: "duckdb.DuckDBPyConnection", place: Place, table: str, erasures: int, state: str, directory: str
) -> "list[FoldedFile]":
    """Write the rows of a wide table, and create its files."""
    created = []
    for file in wide_files.written(con, table, erasures, state, directory):
        writing.create(place, [file])
        created.append(FoldedFile(file.name, file.size, file.rows))
    return created


def _commit(
    place: Place, catalog_uri: str, stores: Stores, files: "dict[str, list[FoldedFile]]", lake: WideLake
) -> None:
    """Put these files in the place of those that the tables name.

    The table is loaded before the stores are compared: so a newer state that another driver brings in between
    makes the swap fail, and one that came before is noticed. Raises: ChangedError.
    """
    with tables.opened(place, catalog_uri) as catalog:
        for table in wide.TABLES:
            full_name = tables.full_name(table)
            for _ in tables.tries(catalog_uri, full_name):
                loaded = tables.current(place, catalog, catalog_uri, full_name, schema_of(table), KEYS[table])
                named = tables.data_files(place, loaded)
                if Stores.of(place, catalog, catalog_uri).state != stores.state:
                    raise ChangedError("stores were folded meanwhile")
                missing = [(file.name, file.size) for file in files[table] if file.name not in named]
                ours = {file.name for file in files[table]}
                removed = {name: file for name, file in named.items() if name not in ours}
                if tables.swapped(loaded, tables.data_files_of(place, loaded, missing), removed.values()):
                    break
            lake.added += [name for name, _ in missing]
            lake.removed += sorted(removed)
            lake.rows[table] = sum(file.rows for file in files[table])


def _take_out(place: Place, catalog_uri: str, files: "dict[str, list[FoldedFile]]") -> None:
    """Name these files no longer: they may hold what was erased. Raises: Refused."""
    with tables.opened(place, catalog_uri) as catalog:
        for table, of_table in files.items():
            full_name = tables.full_name(table)
            for _ in tables.tries(catalog_uri, full_name):
                loaded = tables.loaded(place, catalog, catalog_uri, full_name)
                named = tables.data_files(place, loaded)
                if tables.swapped(loaded, (), [named[f.name] for f in of_table if f.name in named]):
                    break


def _named(place: Place, catalog: Any, catalog_uri: str, table: str) -> "Iterable[str]":
    try:
        return tables.data_files(place, tables.loaded(place, catalog, catalog_uri, tables.full_name(table)))
    except NotFound:
        return ()


def _state_in(name: str) -> "str | None":
    file = WideFile.parse(name)
    return None if file is None else file.state
