"""What sealed segments say of the events and sessions in the tail, asked through DuckDB.

Numbering and de-duplicating the tail need it (I8, I22). `SegmentsPrefix` is for readers that have a DuckDB
connection at hand: it spares the import of pyarrow, and an index spares most of the reading.
`IndexedPrefix` is for readers of a large log that have none. One connection, one thread.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

import duckdb

from eventlog.base.fs import FileSystem
from eventlog.base.layout import Layout
from eventlog.log import checked
from eventlog.log.manifest import Manifest
from eventlog.log.numbering import PrefixRow
from eventlog.projections import definitions as d
from eventlog.projections import source
from eventlog.projections.index import Generation, attach

if TYPE_CHECKING:
    from eventlog.projections.excerpt import Excerpt

T = TypeVar("T")


class SegmentsPrefix:
    """A `Prefix` (log/numbering.py) over the segments of a manifest.

    It asks on the connection it was lent, with the index attached there; a view may keep it for longer
    than that, and then each question opens a connection of its own.
    """

    def __init__(
        self, fs: FileSystem, layout: Layout, manifest: Manifest, checks: "checked.Checks | None" = None
    ) -> None:
        """Args: checks: of the question that this is a part of."""
        self._layout = layout
        self._checks = checks or checked.Checks(fs, layout)
        self._segments = [entry for entry in manifest.segments if entry.rows]
        self._con: duckdb.DuckDBPyConnection | None = None
        self._generation: Generation | None = None

    def lend(self, con: duckdb.DuckDBPyConnection, generation: "Generation | None") -> None:
        """Use `con` until `give_back`, and the index in it, which covers the first of the segments."""
        self._con = con
        self._generation = generation

    def give_back(self) -> None:
        self._con = None
        self._generation = None

    def seen(self, event_ids: Sequence[str]) -> set[str]:
        """Those of `event_ids` that an event in a segment has. Raises: duckdb.Error."""
        if not event_ids or not self._segments:
            return set()
        generation, since = self._generation, 0
        if generation is not None:
            since = generation.next_position
            hashes = "SELECT hash(unnest(?::VARCHAR[]))"
            ask = f"SELECT 1 FROM {generation.catalog}.event_ids WHERE id_hash IN ({hashes}) LIMIT 1"
            if self._rows(ask, [event_ids]):
                since = 0  # a duplicate most likely: now the ids themselves are compared
        if since >= self._segments[-1].end:
            return set()
        ids = _texts(event_ids)
        rows = self._rows(f"SELECT event_id FROM ({self._events(since)}) WHERE event_id IN ({ids})")
        return {row[0] for row in rows}

    def sessions(self, session_ids: Sequence[str]) -> Iterable[PrefixRow]:
        """What the segments hold of these sessions. Raises: duckdb.Error."""
        if not session_ids or not self._segments:
            return ()
        ids = _texts(session_ids)
        generation, since = self._generation, 0
        if generation is not None:
            first = self._rows(
                f"SELECT min(first_position) FROM {generation.catalog}.sessions WHERE session_id IN ({ids})"
            )[0][0]
            since = generation.next_position if first is None else first
        named = f"event_type = 'session' AND {d.FIXES_CONTEXT}"
        rows = self._rows(
            "SELECT session_id, turn, agent_turn_id, min(position), max(position), max(seq), "
            f"arg_min(context_id, position) FILTER ({named}), min(position) FILTER ({named}) "
            f"FROM ({self._events(since)}) WHERE session_id IN ({ids}) GROUP BY ALL"
        )
        return [PrefixRow(*row) for row in rows]

    def _events(self, since: int) -> str:
        """The sealed events from position `since` on. Raises: Corruption."""
        self._checks.ensure(entry for entry in self._segments if entry.end > since)
        paths, where = source.after(self._layout, self._segments, since)
        return source.events(paths, where=where)

    def _rows(self, sql: str, values: "list[Any] | None" = None) -> "list[tuple[Any, ...]]":
        if self._con is None:
            with source.connect() as con:
                return con.execute(sql, values).fetchall()
        return self._con.execute(sql, values).fetchall()


@dataclass(frozen=True, slots=True)
class Attached:
    """A connection, with the index in it where one fits."""

    con: duckdb.DuckDBPyConnection
    generation: "Generation | None"

    def close(self) -> None:
        self.con.close()


class CachedConnection:
    """At most one connection, for the next question about the manifest with the same number. One thread."""

    def __init__(self) -> None:
        self._held: tuple[int, Attached] | None = None

    def take(self, manifest: int) -> "Attached | None":
        """The connection for this manifest, now the caller's; one for another is closed."""
        held, self._held = self._held, None
        if held is not None and held[0] != manifest:
            held[1].close()
            return None
        return None if held is None else held[1]

    def beside(self) -> "duckdb.DuckDBPyConnection | None":
        """Another connection to the same instance, which takes a while to start; None without one."""
        return None if self._held is None else self._held[1].con.cursor()

    def put(self, manifest: int, attached: Attached) -> None:
        self.close()
        self._held = manifest, attached

    def close(self) -> None:
        if self._held is not None:
            self._held[1].close()
            self._held = None


class IndexedPrefix:
    """A `Prefix` that opens a connection for each question, with the index where there is one.

    Raises: Corruption, QueryError.
    """

    def __init__(
        self,
        fs: FileSystem,
        layout: Layout,
        manifest: Manifest,
        excerpt: "Excerpt | None" = None,
    ) -> None:
        """Args: excerpt: keeps the connection for the next question."""
        self._fs = fs
        self._layout = layout
        self._manifest = manifest
        self._connection = None if excerpt is None else excerpt.attached

    def seen(self, event_ids: Sequence[str]) -> set[str]:
        return self._ask(lambda prefix: prefix.seen(event_ids)) if event_ids else set()

    def sessions(self, session_ids: Sequence[str]) -> Iterable[PrefixRow]:
        return self._ask(lambda prefix: prefix.sessions(session_ids)) if session_ids else ()

    def turns(self, condition: str, values: "list[Any]") -> "list[tuple[Any, ...]] | None":
        """Session, number and range of positions of turns that meet a condition, two at most; None where no
        index covers all segments, or it cannot be read."""
        attached = self._attached(use_index=True)
        generation, rows = attached.generation, None
        if generation is not None and generation.next_position == self._manifest.next_position:
            try:
                rows = attached.con.execute(
                    "SELECT session_id, turn, first_position, last_position + 1 "
                    f"FROM {generation.catalog}.turns WHERE {condition} LIMIT 2",
                    values,
                ).fetchall()
            except source.ERRORS:
                attached.close()
                return None
        self._cache(attached)
        return rows

    def _cache(self, attached: Attached) -> None:
        if self._connection is None:
            attached.close()
        else:
            self._connection.put(self._manifest.number, attached)

    def _ask(self, question: "Callable[[SegmentsPrefix], T]") -> "T":
        """The answer with the help of the index; when that fails, from the segments alone (I22)."""
        for use_index in (True, False):
            attached = self._attached(use_index=use_index)
            prefix = SegmentsPrefix(self._fs, self._layout, self._manifest)
            prefix.lend(attached.con, attached.generation)
            is_whole = False
            try:
                answer = question(prefix)
                is_whole = True
                return answer
            except source.ERRORS as error:
                if attached.generation is None:
                    segments = self._manifest.segments
                    raise source.translated(error, self._fs, self._layout, segments) from error
            finally:
                if is_whole:
                    self._cache(attached)
                else:
                    attached.close()
        raise AssertionError("the second round has no index to blame")

    def _attached(self, *, use_index: bool) -> Attached:
        before = None if self._connection is None else self._connection.take(self._manifest.number)
        if before is not None and use_index:
            return before
        con = source.connect()
        if not use_index:
            return Attached(con, None)
        return Attached(con, attach(con, self._fs, self._layout, self._manifest)[0])


def _texts(values: Sequence[str]) -> str:
    """A list of SQL literals; the Parquet reader skips row groups by them, which it cannot by parameters."""
    return ", ".join(map(source.literal, dict.fromkeys(values)))
