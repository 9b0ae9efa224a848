"""Fixtures that more than one room uses. They return things, never modules."""

import atexit
import gc
import os
import signal
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, TypeVar

import pytest
from hypothesis import settings

from eventlog.base.fs import FileSystem
from eventlog.base.layout import DIRECTORIES, Layout, StoreFiles
from tests.levels import LEVELS, level_of, long_tests, may_be_fast, rank_of

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

# A search has a clock of its own only in the hunts (LOCUS_HUNT=minutes); everywhere else the number
# of examples bounds it, so that a busy machine changes no verdict.
HUNT = float(os.environ.get("LOCUS_HUNT", "0")) > 0


def examples(few: int, many: int) -> int:
    """How many examples a law is tried with: `few` in everyday runs, `many` in a hunt."""
    return many if HUNT else few


settings.register_profile("locus", deadline=None, print_blob=True, max_examples=examples(40, 500))
settings.load_profile("locus")

# `locus init` notes each store for its user: not those of tests, which come and go.
os.environ["XDG_DATA_HOME"] = os.path.join(tempfile.gettempdir(), f"locus-tests-{os.getuid()}")
os.environ["XDG_CACHE_HOME"] = os.path.join(os.environ["XDG_DATA_HOME"], "cache")

# A job in the background ignores SIGINT, and so would the processes that tests interrupt: they would go on.
signal.signal(signal.SIGINT, signal.default_int_handler)

STORE_ID = bytes(range(16))


def _leave(process_id: int = os.getpid()) -> None:
    if os.getpid() == process_id:
        os._exit(0)


def pytest_configure(config: pytest.Config) -> None:
    """A worker leaves without taking its modules apart.

    Its results are sent. To take all modules apart takes a second, and the binding of DuckDB reports on
    standard error each of its functions that something still refers to then: no leak, as the process ends. A
    test run that a test starts is no worker, although it inherits a worker's environment: its code counts.
    """
    if hasattr(config, "workerinput"):
        atexit.register(_leave)


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """`-m fast` need not import the files that have no fast test, nor the conftest of a directory of such."""
    if config.option.markexpr != "fast":
        return None
    files = collection_path.rglob("test_*.py") if collection_path.is_dir() else [collection_path]
    return None if any(may_be_fast(file, config.rootpath) for file in files) else True


def files_of(fs: FileSystem, layout: Layout) -> StoreFiles:
    """The files of a store whose id is STORE_ID."""
    return StoreFiles(fs, layout, STORE_ID)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Give each test a level, before `-m` chooses by it; files of the longest tests come first."""
    items.sort(key=lambda item: rank_of(item.nodeid.partition("::")[0]))
    long = long_tests()
    for item in items:
        path = item.nodeid.partition("::")[0]
        if not any(mark.name in LEVELS for mark in item.iter_markers()):
            item.add_marker(level_of(path, item.name))
        if (path, item.name.partition("[")[0]) in long and item.get_closest_marker("fast") is None:
            item.add_marker("long")


def pytest_collection_finish() -> None:
    """Tests and modules stay to the end: the garbage collector need not look at them again and again."""
    gc.collect()
    gc.freeze()


def pytest_unconfigure() -> None:
    gc.unfreeze()


class Closable(Protocol):
    def close(self) -> None: ...


Opened = TypeVar("Opened", bound=Closable)
_opened: list[Closable] = []


def closed_later(thing: Opened) -> Opened:
    """`thing`, which is closed when the test ends: stores that many lines of a test open in passing."""
    _opened.append(thing)
    return thing


@pytest.fixture(autouse=True)
def _descriptors_are_given_back() -> Iterator[None]:
    yield
    while _opened:
        _opened.pop().close()


@pytest.fixture
def store_dir(tmp_path: Path) -> str:
    """An empty store: its directories, and nothing in them."""
    root = str(tmp_path / ".locus")
    os.mkdir(root, 0o700)
    for name in DIRECTORIES:
        os.mkdir(f"{root}/{name}", 0o700)
    return root


@pytest.fixture
def layout(store_dir: str) -> Layout:
    return Layout(store_dir)


@pytest.fixture
def store_id() -> bytes:
    return STORE_ID


@pytest.fixture
def connections(monkeypatch: pytest.MonkeyPatch) -> "list[DuckDBPyConnection]":
    """Those to DuckDB that are opened, as they are opened: first there is none."""
    from eventlog.projections import source
    from eventlog.query import instances

    instances.release()
    opened: list[DuckDBPyConnection] = []
    connect = source.connect

    def counted() -> "DuckDBPyConnection":
        opened.append(connect())
        return opened[-1]

    monkeypatch.setattr(source, "connect", counted)
    return opened


@pytest.fixture
def hunt_minutes() -> float:
    """How long the random hunts may take: 0 means their small default budget."""
    return float(os.environ.get("LOCUS_HUNT", "0"))
