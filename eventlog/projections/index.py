"""The index: projections of the sealed part of the log, kept in one DuckDB file per manifest.

Derived and disposable: deleting `index/` changes no answer, only its speed (I22). A file is made under
`tmp/`, checkpointed, closed, synced and linked to its name, and never written again; DuckDB opens it
read-only. Two builders of one name race for the link and the loser's file is dropped.

A file is used only when its `meta` row says that it was made by this code for this store from exactly
the first segments of the manifest at hand, or from those that the manifest names as superseded by these: they
hold the same events. Segment names hold digests, so after an erasure an older index no longer fits. Whatever
is wrong with a file, it counts as absent and the answer comes from the log.

DuckDB locks its file by `fcntl`, and any `close` of the same file in the same process drops that lock.
So the file under `tmp/` is opened by other means only after DuckDB closed it. A published file is never
opened for writing by anybody, so its lock guards nothing: the next generation starts as a plain copy
of it, and removing an old one is an `unlink`, which open readers survive.
"""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Protocol

import duckdb
from blake3 import blake3

from eventlog.base.errors import EventLogError, QueryError
from eventlog.base.fs import FileSystem, translate_os_errors, write_all
from eventlog.base.layout import INDEX_DIR, Layout, index_name, parse_index, parse_segment
from eventlog.log import checked
from eventlog.log.manifest import Manifest
from eventlog.projections import definitions as d
from eventlog.projections import fold, source
from eventlog.projections.master import master_keys, master_rows, sessions_master

FORMAT = 2  # raised by hand when the tables or the way they are updated change, not their SQL
GENERATIONS_KEPT = 2

AGE_MAX = 64  # updates of one file before it is made again, which drops the room of replaced rows

# DuckDB keeps each column of each table in blocks of its own, which are 256 kB and make an index of a few
# events 1.6 MB. Blocks of 16 kB make it an eighth of that; in a large log they cost a third more time and
# some more bytes.
SMALL_ROWS_MAX = 50_000
_SMALL_BLOCK_BYTES = 16_384

_COPY_BYTES = 16 << 20

# What the process may hold while an index is built, what DuckDB may keep of it at most and at least; beyond
# that it writes to `tmp/`, which three million events do a little.
_RESIDENT_BYTES = 560_000_000
MEMORY_BYTES = 480_000_000
_MEMORY_BYTES_MIN = 256_000_000

_META = (
    "store_id VARCHAR, manifest BIGINT, next_position BIGINT, segments VARCHAR, code VARCHAR, "
    "age BIGINT, hashed_by VARCHAR"
)

# Whether an event of the tail is a duplicate is asked by every reader: eight bytes for each id are
# scanned in a tenth of the time that the ids themselves take. Equal hashes are compared again by id.
_EVENT_IDS = "SELECT hash(event_id) AS id_hash FROM {events}"


class SealedView(Protocol):
    """What a build needs of a pinned view of the log."""

    @property
    def manifest(self) -> Manifest: ...


@dataclass(frozen=True, slots=True)
class Generation:
    """An index that is attached to a connection and fits the manifest."""

    name: str
    catalog: str
    next_position: int
    age: int  # how many times the file was updated since it was made from the whole log


@dataclass(frozen=True, slots=True)
class IndexFinding:
    """A file in `index/` that cannot be used, and why; `outdated` when that is no damage."""

    path: str
    what: str
    outdated: bool = False


@dataclass(frozen=True, slots=True)
class BuildReport:
    """What a build did: the name it published, whether from its predecessor, what it threw away."""

    name: str
    made: bool
    incremental: bool
    findings: tuple[IndexFinding, ...] = ()
    removed: tuple[str, ...] = ()


@cache
def code8() -> str:
    """Eight digits that change with the meaning of the projections, so that old files are left alone."""
    texts = [
        str(FORMAT),
        repr(d.COLUMNS_OF),
        d.call_rows("e"),
        d.superseded_calls("e", "p"),
        d.event_rows("e"),
        d.lifecycle_rows("e"),
        d.token_sums("c"),
        d.turns("p", "t", "u"),
        d.sessions("p", "t", "u", "a"),
        master_rows("e"),
        master_keys("r"),
        sessions_master("s", "k"),
        _EVENT_IDS,
    ]
    return blake3("\0".join(texts).encode()).hexdigest(4)


def current(fs: FileSystem, layout: Layout, manifest: Manifest) -> "str | None":
    """The name of the newest generation that may serve this manifest; its content is not read."""
    names = _candidates(fs, layout, manifest)
    return names[0] if names else None


def attach(
    con: duckdb.DuckDBPyConnection,
    fs: FileSystem,
    layout: Layout,
    manifest: Manifest,
    catalog: str = "idx",
) -> "tuple[Generation | None, list[IndexFinding]]":
    """Attach the newest usable generation to `con`, read-only, and say which ones were not usable."""
    findings = []
    for name in _candidates(fs, layout, manifest):
        path = layout.index(name)
        try:
            con.execute(f"ATTACH {source.literal(path)} AS {catalog} (READ_ONLY)")
        except duckdb.Error as error:
            if fs.exists(path):  # else another process has just removed it
                findings.append(IndexFinding(path, f"not an index: {first_line(error)}"))
            continue
        try:
            return _checked(con, catalog, name, manifest), findings
        except (duckdb.Error, ValueError) as error:
            outdated = isinstance(error, ValueError)
            findings.append(IndexFinding(path, f"does not fit this log: {first_line(error)}", outdated))
        con.execute(f"DETACH {catalog}")
    return None, findings


def build(fs: FileSystem, layout: Layout, view: SealedView, *, fresh: bool = False) -> "str | None":
    """Make the index of the view's manifest; its name, None when there is none to make.

    Args: fresh: fold the whole log, even where there is a generation to go on from.
    Raises: Corruption, QueryError.
    """
    report = make(fs, layout, view, fresh=fresh)
    return None if report is None else report.name


def make(fs: FileSystem, layout: Layout, view: SealedView, *, fresh: bool = False) -> "BuildReport | None":
    """`build`, with everything there is to say about it."""
    with translate_os_errors(layout.directory(INDEX_DIR), "build the index"):
        try:
            return _make(fs, layout, view.manifest, fresh)
        except QueryError as error:
            if not isinstance(error.__cause__, duckdb.IOException):
                raise
            raise EventLogError(
                f"{layout.directory(INDEX_DIR)}: cannot build the index: {first_line(error)}. Nothing is "
                "lost: answers come from the log. Free space, or restore the permission, then run "
                "`locus store rebuild`."
            ) from error


def _make(fs: FileSystem, layout: Layout, manifest: Manifest, fresh: bool) -> "BuildReport | None":
    if manifest.number == 0 or "?" in layout.root:
        return None  # DuckDB takes what follows a question mark for options and writes beside the store
    name = index_name(manifest.number, code8())
    generation: Generation | None = None
    findings: list[IndexFinding] = []
    tmp = layout.tmp(f"index-{fs.random_bytes(8).hex()}.duckdb")
    with source.connect() as con:
        if not fresh:
            generation, findings = attach(con, fs, layout, manifest)
        outgrown = generation is not None and not _is_small(manifest) and _has_small_blocks(con, generation)
        if generation is not None:
            con.execute(f"DETACH {generation.catalog}")
            if generation.name == name or generation.next_position == manifest.next_position:
                return BuildReport(generation.name, made=False, incremental=False, findings=tuple(findings))
        if outgrown:
            generation = None  # a copy of it would keep its blocks
        from concurrent.futures import ThreadPoolExecutor  # 5 ms that a query need not pay

        next_position = 0 if generation is None else generation.next_position
        unknown = [entry for entry in manifest.segments if entry.rows and entry.end > next_position]
        try:
            # DuckDB checks no page, and what an index says is asked again and again (I11).
            with ThreadPoolExecutor(1) as beside:
                comparison = beside.submit(checked.check, fs, layout, unknown)
                incremental = _write(con, tmp, fs, layout, manifest, generation, _memory_bytes())
                comparison.result()
            _publish(fs, tmp, layout.index(name))
        finally:
            _discard(fs, tmp)
    removed = _remove_old(fs, layout, manifest.number)
    return BuildReport(name, True, incremental, tuple(findings), removed)


def _memory_bytes() -> int:
    """What DuckDB may keep, beside what this process holds already: an import has just sealed."""
    try:
        with open("/proc/self/statm", "rb") as file:
            resident = int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, IndexError):
        return MEMORY_BYTES  # another system
    return max(_MEMORY_BYTES_MIN, min(MEMORY_BYTES, _RESIDENT_BYTES - resident))


def _candidates(fs: FileSystem, layout: Layout, manifest: Manifest) -> list[str]:
    """Names of generations made by this code for this manifest or an older one, newest first."""
    code = code8()
    generations = []
    try:
        names = fs.listdir(layout.directory(INDEX_DIR))
    except OSError:  # removed, which is always allowed, or not readable: the log answers
        return []
    for name in names:
        parsed = parse_index(name)
        if parsed is not None and parsed[1] == code and parsed[0] <= manifest.number:
            generations.append((parsed[0], name))
    return [name for _, name in sorted(generations, reverse=True)]


def _checked(con: duckdb.DuckDBPyConnection, catalog: str, name: str, manifest: Manifest) -> Generation:
    """The generation in `catalog`. Raises: ValueError when it is not one of this log."""
    row = con.execute(
        "SELECT store_id, manifest, next_position, segments, code, age, hashed_by, version() "
        f"FROM {catalog}.meta"
    ).fetchone()
    if row is None:
        raise ValueError("it does not say what it was made from")
    store_id, number, next_position, segments, code, age, hashed_by, version = row
    if store_id != manifest.store_id:
        raise ValueError(f"it belongs to another store ({store_id})")
    if index_name(number, code) != name:
        raise ValueError(f"it is {index_name(number, code)} by its own words")
    if hashed_by != version:  # hashes mean something only to the version that made them
        raise ValueError(f"it was made by DuckDB {hashed_by}")
    if segments != _segments_digest(_as_listed_by(manifest, number), next_position):
        raise ValueError("it was made from other segments")
    return Generation(name, catalog, next_position, age)


def _as_listed_by(manifest: Manifest, number: int) -> "list[tuple[int, int, str]]":
    """(base, end, name) of what the manifest `number` listed, or what segments cover its range now.

    Takes back what superseded its segments since, the newest first.
    """
    listed = [(entry.base, entry.end, entry.name) for entry in manifest.segments]
    for since in sorted({s.since for s in manifest.superseded if s.since > number}, reverse=True):
        old = [_named(item.name) for item in manifest.superseded if item.since == since]
        base, end = min(o[0] for o in old), max(o[1] for o in old)
        listed = sorted([*old, *(s for s in listed if s[1] <= base or s[0] >= end)])
    return listed


def _named(name: str) -> "tuple[int, int, str]":
    parsed = parse_segment(name)
    assert parsed is not None, name  # the manifest was checked when it was read
    return parsed[0], parsed[1], name


def _segments_digest(listed: "Sequence[tuple[int, int, str]]", next_position: int) -> str:
    names = [name for base, _, name in listed if base < next_position]
    return blake3("\n".join(names).encode()).hexdigest()


def _write(
    con: duckdb.DuckDBPyConnection,
    path: str,
    fs: FileSystem,
    layout: Layout,
    manifest: Manifest,
    predecessor: "Generation | None",
    memory: "int | None",
) -> bool:
    """Write the database file at `path`; True when it was made from its predecessor."""
    if predecessor is not None and predecessor.age < AGE_MAX:
        try:
            _copy(fs, layout.index(predecessor.name), path)
            _open(con, path, memory)
            _update(con, manifest, layout, predecessor)
            return True
        except (OSError, *source.ERRORS):
            # Removed meanwhile, or damaged inside: the log has it all.
            return _write_again(con, path, fs, layout, manifest, memory)
    try:
        _open(con, path, memory, _is_small(manifest))
        _fill(con, manifest, layout)
    except source.ERRORS as error:
        if memory is not None and isinstance(error, duckdb.OutOfMemoryException):
            # Not everything can be written out. The room that is left beside what an import holds may do with
            # more; better too much memory than no index.
            more = MEMORY_BYTES if memory < MEMORY_BYTES else None
            return _write_again(con, path, fs, layout, manifest, more)
        raise source.translated(error, fs, layout, manifest.segments) from error
    return False


def _is_small(manifest: Manifest) -> bool:
    """Whether an index of this log is worth small blocks."""
    return sum(entry.rows for entry in manifest.segments) <= SMALL_ROWS_MAX


def _has_small_blocks(con: duckdb.DuckDBPyConnection, generation: Generation) -> bool:
    sizes = con.execute(
        "SELECT block_size FROM pragma_database_size() WHERE database_name = ?", [generation.catalog]
    )
    return sizes.fetchall() == [(_SMALL_BLOCK_BYTES,)]


def _write_again(
    con: duckdb.DuckDBPyConnection,
    path: str,
    fs: FileSystem,
    layout: Layout,
    manifest: Manifest,
    memory: "int | None",
) -> bool:
    """Drop what was begun on `con`, and write the whole database with another connection."""
    con.close()  # while it is open nobody else may attach the path
    _discard(fs, path)
    with source.connect() as another:
        return _write(another, path, fs, layout, manifest, None, memory)


def _copy(fs: FileSystem, path: str, target: str) -> None:
    """Copy a published file, which never changes: the lock that the close may drop guards nothing."""
    reading = fs.open(path, os.O_RDONLY)
    try:
        writing = fs.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL)
        try:
            size, offset = fs.fstat(reading).st_size, 0
            while offset < size:
                data = fs.pread(reading, _COPY_BYTES, offset)
                write_all(fs, writing, data, offset)
                offset += len(data)
        finally:
            fs.close(writing)
    finally:
        fs.close(reading)


def _update(
    con: duckdb.DuckDBPyConnection, manifest: Manifest, layout: Layout, predecessor: Generation
) -> None:
    """Bring the copy of `predecessor` in the database `made` up to the manifest."""

    def history(first: "int | None") -> str:
        if first is None:
            return "fresh"
        return f"({source.events_with_anchors(source.after(layout, manifest.segments, first)[0])})"

    fresh, where = source.after(layout, manifest.segments, predecessor.next_position)
    con.execute(f"CREATE VIEW fresh AS {source.events_with_anchors(fresh, where=where)}")
    fold.update(con, "made", "fresh", history)
    con.execute(f"INSERT INTO made.event_ids {_EVENT_IDS.format(events='fresh')}")
    con.execute("DELETE FROM made.meta")
    _finish(con, manifest, predecessor.age + 1)


def _fill(con: duckdb.DuckDBPyConnection, manifest: Manifest, layout: Layout) -> None:
    """Fill the database `made` from all segments."""
    fold_all(con, layout, manifest, manifest.next_position)
    con.execute(f"CREATE TABLE made.meta ({_META})")
    _finish(con, manifest, 0)


def fold_all(con: duckdb.DuckDBPyConnection, layout: Layout, manifest: Manifest, until: int) -> None:
    """Make the tables of an index of the events before `until`, but for `meta`, in the database `made`.

    Raises: duckdb.Error.
    """
    paths, where = source.before(layout, manifest.segments, until)
    con.execute(f"CREATE VIEW all_events AS {source.events_with_anchors(paths, where=where)}")
    event_ids = f"CREATE TABLE made.event_ids AS {_EVENT_IDS.format(events='all_events')}"
    fold.fold(con, "all_events", fold.STORED, "made", [event_ids])


def _open(con: duckdb.DuckDBPyConnection, path: str, memory: "int | None", small: bool = False) -> None:
    """Attach the database at `path` as `made`, to be filled once, with so many bytes of memory.

    A file that exists keeps its size of blocks; `small` is for a new one.

    Until the checkpoint the file is worth nothing, so there is no journal that could save half of it.
    Compressing it would take longer than the fold, for a file that is read a few times.
    """
    blocks = f", BLOCK_SIZE {_SMALL_BLOCK_BYTES}" if small else ""
    con.execute(f"ATTACH {source.literal(path)} AS made (RECOVERY_MODE no_wal_writes{blocks})")
    con.execute(
        f"SET temp_directory = {source.literal(path + '.spill')}; SET force_compression = 'uncompressed'; "
        "SET checkpoint_threshold = '1TB'; SET GLOBAL preserve_insertion_order = false"
    )
    if memory is not None:
        con.execute(f"SET memory_limit = '{memory}B'")


def _finish(con: duckdb.DuckDBPyConnection, manifest: Manifest, age: int) -> None:
    digest = _segments_digest(_as_listed_by(manifest, manifest.number), manifest.next_position)
    con.execute(
        "INSERT INTO made.meta VALUES (?, ?, ?, ?, ?, ?, version())",
        [manifest.store_id, manifest.number, manifest.next_position, digest, code8(), age],
    )
    con.execute("CHECKPOINT made; DETACH made")


def _discard(fs: FileSystem, path: str) -> None:
    """Remove an unpublished file and what DuckDB may have put beside it."""
    try:
        for leftover in (path, f"{path}.wal"):
            if fs.exists(leftover):
                fs.unlink(leftover)
        spill = f"{path}.spill"
        if fs.exists(spill):
            for name in fs.listdir(spill):
                fs.unlink(f"{spill}/{name}")
            fs.rmdir(spill)
    except OSError:
        pass  # swept later, and no reason to hide what came of the build


def _publish(fs: FileSystem, tmp: str, target: str) -> None:
    """Give the finished file its name; a file that already has it was found unusable and goes."""
    fs_dir = os.path.dirname(target)
    if not fs.exists(fs_dir):
        fs.mkdir(fs_dir)
    fd = fs.open(tmp, os.O_RDWR)
    try:
        fs.fchmod(fd, 0o600)
        fs.fsync(fd)
    finally:
        fs.close(fd)
    try:
        fs.link(tmp, target)
    except FileExistsError:
        fs.unlink(target)
        fs.link(tmp, target)
    fs.fsync_dir(fs_dir)


def _remove_old(fs: FileSystem, layout: Layout, number: int) -> tuple[str, ...]:
    """Unlink generations older than the newest ones up to `number`; a reader keeps the one it has open."""
    parsed = [(parse_index(name), name) for name in fs.listdir(layout.directory(INDEX_DIR))]
    numbers = sorted({p[0] for p, _ in parsed if p is not None and p[0] <= number}, reverse=True)
    retained = set(numbers[:GENERATIONS_KEPT])
    removed = []
    for generation, name in parsed:
        if generation is not None and generation[0] <= number and generation[0] not in retained:
            try:
                fs.unlink(layout.index(name))
            except FileNotFoundError:
                continue  # another process was first
            removed.append(name)
    return tuple(removed)


def first_line(error: Exception) -> str:
    return str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
