"""The Iceberg tables of a lake: made by `init`, brought up to the objects by `commit` (docs/lake.md §4).

The table's data files are the published objects themselves, so a commit writes metadata alone. It compares
what the table names with the live files of every store, and the catalog refuses it when somebody else
committed meanwhile. Any number of processes may do this at once, and each may be killed anywhere.
"""

import contextlib
import os
import random
import time
import warnings
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

from eventlog.base.errors import EventLogError, NotFound, Refused, Unsupported
from eventlog.lake import erased
from eventlog.lake.chain import Chain, LiveFile, footer_of, read_chain, stores_in
from eventlog.lake.outgoing import SCHEMA
from eventlog.lake.place import Place, each

# What the catalog calls itself, and the table. Engines that read a SQL catalog must use the same name.
CATALOG = "locus"
NAMESPACE = "lake"
TABLE = f"{NAMESPACE}.events"
DERIVED = tuple(f"{NAMESPACE}.{name}" for name in erased.TABLES)  # made of `events`
NAMES = (TABLE, *DERIVED)

_BOUNDED = ("store_id", "position", "event_type", "session_id", "occurred_at")
_SETTINGS = {
    "format-version": "2",
    "commit.retry.num-retries": "0",
    "commit.manifest-merge.enabled": "true",
    "commit.manifest.min-count-to-merge": "20",
    "write.metadata.delete-after-commit.enabled": "true",
    "write.metadata.previous-versions-max": "5",
    "write.metadata.metrics.default": "none",
    # Iceberg's reader of whole vectors in Spark knows no delta encoding, which our files have.
    "read.parquet.vectorization.enabled": "false",
}

TRIES = 40
_PAUSE_S_MAX = 0.4
_SQL_SCHEMES = ("sqlite", "postgresql", "mysql")


@dataclass(slots=True)
class Committed:
    """What a commit changed: the names of the files whose rows it added and took out, and in which try.

    `dead` are those that it took out of the tables of projections, by table; `left` says of which tables it
    may not.
    """

    added: "list[str]" = field(default_factory=list)
    removed: "list[str]" = field(default_factory=list)
    rows_added: int = 0
    tries: int = 1
    dead: "dict[str, list[str]]" = field(default_factory=dict)
    left: "list[str]" = field(default_factory=list)

    def note(self, changes: "_Changes") -> None:
        """Count what was changed in one try."""
        self.added += [file.name for file in changes.added]
        self.removed += sorted(changes.removed)
        self.rows_added += changes.rows


def init(place: Place, catalog_uri: str) -> bool:
    """Make the namespace and the table of events, or bring the columns of the one that is there up to date.

    Returns: whether the table was made. Raises: Refused where the catalog has tables of another place.
    """
    with opened(place, catalog_uri, makes=True) as catalog:
        return made(place, catalog, catalog_uri, TABLE, SCHEMA, _BOUNDED)


def made(
    place: Place, catalog: Any, catalog_uri: str, name: str, schema: Any, bounded: "Collection[str]"
) -> bool:
    """Make a table, or bring the columns and settings of the one that is there up to those of this version.

    Args: name: with the namespace; schema: Arrow's; bounded: the columns whose bounds manifests have.
    Returns and raises: as `init`.
    """
    from pyiceberg.exceptions import CommitFailedException, TableAlreadyExistsError
    from sqlalchemy.exc import IntegrityError

    settings = properties_of(bounded)
    is_new = False
    for _ in range(TRIES):
        try:
            catalog.create_namespace_if_not_exists(NAMESPACE)
            _bring_up(loaded(place, catalog, catalog_uri, name), schema, settings)
            return is_new
        except NotFound:
            location = place.address(objects_of(name))
            with contextlib.suppress(TableAlreadyExistsError):
                catalog.create_table(name, schema, location=location, properties=dict(settings))
                is_new = True
        except (CommitFailedException, IntegrityError):  # another process did the same
            continue
    raise Refused(f"the tables in {shown(catalog_uri)} changed at each of {TRIES} tries. Run this again.")


def properties_of(bounded: "Collection[str]") -> "dict[str, str]":
    """The settings of a table with bounds of these columns, and of no other."""
    return _SETTINGS | {f"write.metadata.metrics.column.{name}": "full" for name in bounded}


def current(
    place: Place, catalog: Any, catalog_uri: str, name: str, schema: Any, bounded: "Collection[str]"
) -> Any:
    """A table with the columns of this version; made, or brought up to them, where it is not.

    Args: as for `made`.
    """
    try:
        table = loaded(place, catalog, catalog_uri, name)
        if set(schema.names) <= set(table.schema().column_names):
            return table
    except NotFound:
        pass
    made(place, catalog, catalog_uri, name, schema, bounded)
    return loaded(place, catalog, catalog_uri, name)


def tries(catalog_uri: str, name: str) -> "Iterator[int]":
    """Each try to change a table, with a random pause before the next. Raises: Refused when they are over."""
    for number in range(TRIES):
        yield number
        time.sleep(random.uniform(0, _PAUSE_S_MAX))
    raise Refused(
        f"the table {name} in {shown(catalog_uri)} changed at each of {TRIES} tries. "
        "Run `locus lake fold` again."
    )


def full_name(table: str) -> str:
    """The name of a table with its namespace."""
    return f"{NAMESPACE}.{table}"


def objects_of(name: str) -> str:
    """Where the objects of a table are, below the place."""
    return f"tables/{name.removeprefix(f'{NAMESPACE}.')}"


def _bring_up(table: Any, schema: Any, properties: "dict[str, str]") -> None:
    with table.transaction() as transaction:
        with transaction.update_schema() as update:
            update.union_by_name(schema)
        # Data files have no ids of columns: this says which name is which.
        names = transaction.table_metadata.schema().name_mapping.model_dump_json()
        settings = {**properties, "schema.name-mapping.default": names}
        del settings["format-version"]
        changed = {key: value for key, value in settings.items() if table.properties.get(key) != value}
        if changed:
            transaction.set_properties(changed)


def commit(
    place: Place, catalog_uri: str, *, tries: int = TRIES, pause: "Callable[[float], None]" = time.sleep
) -> Committed:
    """Bring the table up to the live files of all stores; what was there already stays.

    Takes out of the tables that are made of it what an erasure or a narrower policy took out; where that is
    not allowed it is `left`, and all else is done.

    Args: tries: how often it starts again where others committed meanwhile, `pause` in between.
    Raises: Refused when the tries are over; NotFound without the table.
    """
    from eventlog.lake.derived import DerivedTables

    done = Committed()
    with opened(place, catalog_uri) as catalog:
        derived = DerivedTables(place, catalog, catalog_uri)
        names: list[str] | None = None  # of those that are still to be looked at
        for done.tries in range(1, tries + 1):
            # The tables first: so a state of the objects that is older than theirs never replaces it.
            table = loaded(place, catalog, catalog_uri)
            state = derived.read(derived.names() if names is None else names)
            named = data_files(place, table)
            known = all_chains(place)
            gone = erased.ErasedFiles(known)
            taken, names = derived.take_out(state, gone)
            done.dead |= taken
            try:
                changes = _changes(place, table, named, known.values())
            except NotFound:  # a file was removed after the chain had named it
                pause(random.uniform(0, _PAUSE_S_MAX))
                continue
            if swapped(table, changes.data_files, changes.removed.values()):
                done.note(changes)
                if not names:
                    done.left = _left(derived.failed) if gone.count else []
                    return done
            pause(random.uniform(0, _PAUSE_S_MAX))
    raise Refused(
        f"the tables in {shown(catalog_uri)} changed at each of {tries} tries to commit, so not all was "
        "changed. Run `locus lake commit` again."
    )


def _left(failed: "dict[str, str]") -> "list[str]":
    return [
        f"{name} may have rows of before an erasure or a narrower policy: {reason}"
        for name, reason in failed.items()
    ]


@dataclass(slots=True)
class _Changes:
    """What a table lacks and has too much."""

    added: "list[LiveFile]" = field(default_factory=list)
    data_files: "list[Any]" = field(default_factory=list)  # pyiceberg's, of those that are added
    removed: "dict[str, Any]" = field(default_factory=dict)  # by name
    rows: int = 0


def _changes(place: Place, table: Any, named: "dict[str, Any]", known: "Iterable[Chain]") -> _Changes:
    """What makes a table that names these files one of the chains. Raises: NotFound, Corruption."""
    live = {file.name: file for chain in known for file in chain.live}
    changes = _Changes(removed={name: file for name, file in named.items() if name not in live})
    missing = [file for name, file in live.items() if name not in named]
    sizes = ((file.name, file.size) for file in missing)
    for file, data_file in zip(missing, data_files_of(place, table, sizes), strict=True):
        if data_file.record_count:  # nothing is gained by naming a file without rows
            changes.added.append(file)
            changes.data_files.append(data_file)
            changes.rows += data_file.record_count
    return changes


def swapped(table: Any, added: "Collection[Any]", removed: "Collection[Any]") -> bool:
    """Name and no longer name data files in one step; False where others changed the table meanwhile, or may
    have."""
    from pyiceberg.exceptions import CommitFailedException, CommitStateUnknownException, ValidationException
    from sqlalchemy.exc import OperationalError

    if not added and not removed:
        return True
    try:
        with table.transaction() as transaction:
            update = transaction.update_snapshot()
            with update.overwrite() if removed else update.merge_append() as snapshot:
                for data_file in added:
                    snapshot.append_data_file(data_file)
                for data_file in removed:
                    snapshot.delete_data_file(data_file)
    except (CommitFailedException, CommitStateUnknownException, ValidationException, OperationalError):
        return False
    return True


def chains(place: Place) -> "Iterator[Chain]":
    """The chain of every store that published to a place."""
    for store_id in stores_in(place):
        yield read_chain(place, store_id)


def all_chains(place: Place) -> "dict[bytes, Chain]":
    """The chains by store; read again where a file was removed meanwhile."""
    for _ in range(TRIES):
        try:
            return {chain.store_id: chain for chain in chains(place)}
        except NotFound:
            continue
    return {chain.store_id: chain for chain in chains(place)}


def data_files(place: Place, table: Any) -> "dict[str, Any]":
    """What pyiceberg knows of the data files of the newest snapshot, by their names."""
    from eventlog.lake.files import name_at

    snapshot = table.current_snapshot()
    if snapshot is None:
        return {}
    manifests = snapshot.manifests(table.io)
    entries = each(lambda manifest: manifest.fetch_manifest_entry(table.io), manifests)
    files = [entry.data_file for part in entries for entry in part]
    return {name_at(place, file.file_path): file for file in files}


def data_files_of(place: Place, table: Any, sizes: "Iterable[tuple[str, int]]") -> "list[Any]":
    """What a manifest says of Parquet files, given their names and sizes: from their footers alone.

    Raises: NotFound, Corruption.
    """
    return each(lambda sized: _data_file(place, table, *sized), sizes)


def _data_file(place: Place, table: Any, name: str, size: int) -> Any:
    from pyiceberg.io.pyarrow import (
        compute_statistics_plan,
        data_file_statistics_from_parquet_metadata,
        parquet_path_to_id_mapping,
    )
    from pyiceberg.manifest import DataFile, DataFileContent, FileFormat

    schema = table.schema()
    statistics = data_file_statistics_from_parquet_metadata(
        parquet_metadata=footer_of(place, name),
        stats_columns=compute_statistics_plan(schema, table.properties),
        parquet_column_mapping=parquet_path_to_id_mapping(schema),
    )
    return DataFile.from_args(
        content=DataFileContent.DATA,
        file_path=place.address(name),
        file_format=FileFormat.PARQUET,
        partition=statistics.partition(table.spec(), schema),
        file_size_in_bytes=size,
        sort_order_id=None,
        spec_id=table.spec().spec_id,
        equality_ids=None,
        key_metadata=None,
        **statistics.to_serialized_dict(),
    )


def loaded(place: Place, catalog: Any, catalog_uri: str, name: str = TABLE) -> Any:
    """A table as it is now. Raises: NotFound without it, Refused where it is that of another place."""
    from pyiceberg.exceptions import NoSuchTableError
    from sqlalchemy.exc import OperationalError, ProgrammingError

    try:
        table = catalog.load_table(name)
    except (NoSuchTableError, OperationalError, ProgrammingError) as error:
        if not isinstance(error, NoSuchTableError) and "iceberg_tables" not in str(error):
            raise
        raise _without_tables(place, catalog_uri) from None
    if table.location() != place.address(objects_of(name)):
        other = table.location().removesuffix(f"/{objects_of(name)}")
        raise Refused(
            f"the tables in {shown(catalog_uri)} are those of {other}, not of {place.uri}. Name the "
            "place that they were made for, or a catalog of its own for this one."
        )
    return table


def _without_tables(place: Place, catalog_uri: str) -> NotFound:
    return NotFound(
        f"{shown(catalog_uri)} has no tables of a lake. "
        f"Make them: locus lake init {place.uri} --catalog {shown(catalog_uri)}"
    )


@contextmanager
def opened(place: Place, catalog_uri: str, *, makes: bool = False) -> "Iterator[Any]":
    """The catalog at a URI, its errors as ours, without the credentials that the URI may hold.

    Raises: Refused for another URI; NotFound for a file that is not there, unless it `makes` one.
    """
    parts = _parts(catalog_uri)
    is_sql = parts.scheme.partition("+")[0] in _SQL_SCHEMES
    if not makes and parts.scheme.startswith("sqlite") and not os.path.exists(parts.path.removeprefix("/")):
        raise _without_tables(place, catalog_uri)
    try:
        from pyiceberg.catalog import load_catalog

        from eventlog.lake.files import PLACE, PlaceIO
    except ImportError as error:
        raise Unsupported(
            f"tables need the library pyiceberg ({error}). Install it: pip install 'locus-eventlog[lake]'"
        ) from error
    properties = {
        "type": "sql" if is_sql else "rest",
        "uri": catalog_uri,
        "py-io-impl": f"{PlaceIO.__module__}.{PlaceIO.__name__}",
        PLACE: place.uri,
        "init_catalog_tables": "false",
    }
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what pyiceberg could not tidy up, `maintain` does
        with errors_of(catalog_uri):
            if makes and is_sql:
                _make_sql_tables(properties)
            catalog = load_catalog(CATALOG, **properties)
            with contextlib.closing(catalog):
                yield catalog


def _make_sql_tables(properties: "dict[str, str]") -> None:
    """Make the tables of a SQL catalog, where another process may be making them, too."""
    from pyiceberg.catalog import load_catalog
    from sqlalchemy.exc import SQLAlchemyError

    for number in range(TRIES):
        try:
            load_catalog(CATALOG, **properties | {"init_catalog_tables": "true"}).close()
            return
        except SQLAlchemyError as error:
            is_race = any(word in str(error) for word in ("already exists", "locked", "unique"))
            if number + 1 == TRIES or not is_race:
                raise
            time.sleep(random.uniform(0, _PAUSE_S_MAX / 10))


def shown(catalog_uri: str) -> str:
    """The URI as messages have it: without user, password and options."""
    parts = urlsplit(catalog_uri)
    return parts._replace(netloc=parts.netloc.rpartition("@")[2], query="", fragment="").geturl()


def _parts(catalog_uri: str) -> Any:
    parts = urlsplit(catalog_uri)
    if parts.scheme.partition("+")[0] not in (*_SQL_SCHEMES, "http", "https"):
        raise Refused(
            f"{shown(catalog_uri)} is no address of a catalog. Name sqlite:////FILE, "
            "postgresql+psycopg2://USER@HOST/DATABASE, or that of an Iceberg REST catalog (https://…)."
        )
    return parts


@contextmanager
def errors_of(catalog_uri: str) -> "Iterator[None]":
    """Raise what the catalog's libraries raise as an error of ours, which shows no credentials."""
    try:
        yield
    except EventLogError:
        raise
    except ImportError as error:
        raise Unsupported(
            f"{shown(catalog_uri)} needs a driver ({error}). Install it; for Postgres: "
            "pip install psycopg2-binary"
        ) from error
    except Exception as error:  # those of SQL drivers, HTTP and pyiceberg have no other common class
        if not type(error).__module__.startswith(("sqlalchemy", "pyiceberg", "requests", "psycopg")):
            raise
        raise EventLogError(
            f"the catalog {shown(catalog_uri)} cannot be used: {_reason(error, catalog_uri)}. "
            "Check its address and that it answers."
        ) from None


def _reason(error: Exception, catalog_uri: str) -> str:
    reason = str(error).strip().partition("\n")[0] or type(error).__name__
    parts = urlsplit(catalog_uri)
    for secret in (catalog_uri, parts.netloc.rpartition("@")[0], parts.password, parts.query):
        reason = reason.replace(secret, "…") if secret else reason
    return reason.rstrip(".")
