"""Answering one SELECT over the log: views on an in-memory DuckDB, bound to one snapshot of it.

Only the views that the statement names are bound: counting events touches neither the index nor a projection,
and nothing here imports pyarrow unless the caller wants Arrow. A projection comes from the index where one
fits, brought up to the log's end by folding the sessions that newer events touch (I21). Without an index, or
with a damaged one, it is folded from the events (I22).

A caller with more questions lends a `ConnectionCache`: the connection of an answer then serves the next
question about the same snapshot. Calls may run in several threads at once, each with its own view of the log;
none shares a connection.
"""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, TypeVar

import duckdb

from eventlog.base.errors import Corruption, QueryError
from eventlog.projections import source
from eventlog.projections.prefix import SegmentsPrefix
from eventlog.projections.prepared import PreparedFold
from eventlog.query import functions as of_files
from eventlog.query import instances, safe, views
from eventlog.query.binding import Binding, Bound, Snapshot, asking_on
from eventlog.query.results import Answerable, Limits, Parameters, Result, arrow_within, rows_within

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = [
    "Bound",
    "Limits",
    "Parameters",
    "Result",
    "Snapshot",
    "arrow_within",
    "asking_on",
    "deadline",
    "rows_within",
    "run",
    "table",
    "too_long",
]

_Answer = TypeVar("_Answer")
_INTERRUPT_AGAIN_S = 0.05

# A connection that may hold data of more events than these in memory is not cached.
_CACHED_ROWS_MAX = 20_000


@dataclass(frozen=True, slots=True)
class _Question(Generic[_Answer]):
    """A statement, its limits, and how its answer is read."""

    sql: str
    parameters: Parameters
    limits: Limits
    read: "Callable[[Answerable], _Answer]"


def run(
    snapshot: Snapshot, sql: str, parameters: Parameters = None, limits: "Limits | None" = None
) -> Result:
    """The answer to one SELECT, in safe mode.

    Raises: QueryError (wrong, or beyond its limits), Refused (not a plain SELECT), Corruption.
    """
    limits = limits or Limits()
    return _answer(snapshot, _Question(sql, parameters, limits, rows_within(limits)))


def table(
    snapshot: Snapshot, sql: str, parameters: Parameters = None, limits: "Limits | None" = None
) -> "pa.Table":
    """The answer to one SELECT as an Arrow table. Raises: as `run`."""
    limits = limits or Limits()
    return _answer(snapshot, _Question(sql, parameters, limits, arrow_within(limits)))


def _answer(snapshot: Snapshot, question: "_Question[_Answer]") -> "_Answer":
    """The answer on the cached connection, else on a new one; without the index where that may be damaged."""
    before = None if snapshot.cache is None else snapshot.cache.take(snapshot.key(question.limits))
    if before is not None and (again := _ask_again(snapshot, before, question)) is not None:
        return again[0]
    try:
        return _ask_new_connection(snapshot, question, use_index=True)
    except _IndexError:
        return _ask_new_connection(snapshot, question, use_index=False)


class _IndexError(Exception):
    """The index may be damaged; the log has everything that it has."""


def _ask_again(snapshot: Snapshot, bound: Bound, question: "_Question[_Answer]") -> "tuple[_Answer] | None":
    """The answer of a connection that has answered before; None where it does not suffice, or fails."""
    answer = None
    limits = question.limits
    binding = Binding(bound, snapshot, timeout_s=limits.timeout_s)
    try:
        with deadline(bound.con, limits.timeout_s):
            statement = safe.check(bound.con, question.sql)
            if binding.can_add(statement):
                binding.bind(statement, session=statement.session_id(question.parameters))
                answer = (question.read(Answerable(bound.con, statement, question.parameters)),)
    except duckdb.InterruptException as error:
        raise too_long(limits) from error
    except source.ERRORS:
        pass  # a new connection reports the error, or works without the index
    finally:
        _end(snapshot, binding, limits, is_cacheable=answer is not None)
    return answer


def _ask_new_connection(snapshot: Snapshot, question: "_Question[_Answer]", *, use_index: bool) -> "_Answer":
    """The answer of a new connection. Raises: _IndexError, and as `run`."""
    limits, answering = question.limits, snapshot.answering
    spare = None if snapshot.has_files else instances.take(limits)
    con = source.connect() if spare is None else spare.con
    binding = snapshot.binding(con, use_index=use_index, timeout_s=limits.timeout_s)
    bound = binding.bound
    bound.fold = None if spare is None else spare.fold
    functions: of_files.Functions | None = None
    statement = answerable = None
    is_bound = is_cacheable = False
    try:
        with deadline(con, limits.timeout_s):
            statement = safe.check(con, question.sql)
            called = statement.functions & of_files.NAMES if answering is not None else frozenset[str]()
            session = None if called else statement.session_id(question.parameters)
            binding.bind(statement, of_files.VIEWS if called else (), session)
            if called and answering is not None:
                beside = con.cursor()
                beside.execute("USE memory")  # an instance that another log had before has more databases
                functions = of_files.Functions(answering(asking_on(beside)))
                functions.bind(con, called)
            is_bound = True
            if spare is None:
                safe.lock(con, bound.files, memory_bytes=limits.memory_bytes, threads=limits.threads)
            answerable = Answerable(con, statement, question.parameters)
            answer = question.read(answerable)
        is_cacheable = not called and not statement.lists_catalog
        return answer
    except duckdb.InterruptException as error:
        raise too_long(limits) from error
    except source.ERRORS as error:
        if functions is not None and functions.failure is not None:
            raise functions.failure from error
        segments = snapshot.view.manifest.segments
        store_error = source.translated(error, snapshot.fs, snapshot.layout, segments, of_ours=not is_bound)
        if isinstance(store_error, Corruption):
            raise store_error from error
        if bound.generation is not None and source.may_be_damage(error, of_ours=not is_bound):
            raise _IndexError from error
        if isinstance(error, duckdb.Error):
            raise safe.explain_error(
                error, views.NAMES, question.sql, statement, is_bound=answerable is not None
            ) from error
        raise store_error from error
    finally:
        _end(snapshot, binding, limits, is_cacheable=is_cacheable)


def _end(snapshot: Snapshot, binding: Binding, limits: Limits, *, is_cacheable: bool) -> None:
    """Take the connection back from the view, and cache or close it."""
    if isinstance(snapshot.view.prefix, SegmentsPrefix):
        snapshot.view.prefix.give_back()
    is_cacheable = is_cacheable and not binding.waits and binding.rows <= _CACHED_ROWS_MAX
    if snapshot.cache is not None and is_cacheable:
        if not snapshot.has_files:
            fold = binding.bound.fold or PreparedFold(binding.con)
            binding.bound.instance = instances.Instance(binding.con, limits, fold)
        snapshot.cache.put(snapshot.key(limits), binding.bound)
    else:
        binding.bound.close()


def too_long(limits: Limits) -> QueryError:
    """The error of a question that its deadline ended."""
    return QueryError(
        f"the query was stopped after {limits.timeout_s:g} s. Ask for less, or raise the limit "
        "(`locus sql --timeout SECONDS`)."
    )


@contextmanager
def deadline(con: duckdb.DuckDBPyConnection, timeout_s: "float | None") -> Iterator[None]:
    """Interrupt the statement on `con` when the time is over."""
    if timeout_s is None:
        yield
        return
    done = threading.Event()

    def interrupt() -> None:
        wait_s = timeout_s
        while not done.wait(wait_s):
            con.interrupt()  # without effect between two statements, hence repeated
            wait_s = _INTERRUPT_AGAIN_S

    watch = threading.Thread(target=interrupt, daemon=True)
    watch.start()
    try:
        yield
    finally:
        done.set()
        watch.join()  # the connection is closed next, and must not be interrupted after that
