"""`--lake TO` of the verbs that ask: a place instead of a store (docs/lake-questions.md)."""

import contextlib
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import click

import eventlog

from ..access import open_store, store_option
from ..exits import usage_error
from ..options import options
from ..progress import Progress

if TYPE_CHECKING:
    from eventlog.lake.one_machine import LakeLog
    from eventlog.query.lookup import Query
    from eventlog.view.stores import ViewedLake

_EVENTS_MAX = 20_000_000
_PREFIX, _LOCK = "locus-ask-", "lock"
_LOCKED_WITHIN_S = 60.0

lake_options: Callable[[Any], Any] = options(
    click.option(
        "--lake", "lake", metavar="TO",
        help="Ask what stores published to this place: s3://BUCKET/PREFIX or file:///DIRECTORY.",
    ),
    click.option(
        "--lake-events", "lake_events", type=click.IntRange(min=1), default=_EVENTS_MAX, show_default=True,
        metavar="N", help="Refuse a place with more events.",
    ),
)  # fmt: skip


@contextmanager
def lake_directory(lake: str | None) -> Iterator[str]:
    """A directory of this machine's temporary files, gone afterwards; none without a lake.

    That of a command which was killed is deleted by the next: nobody holds its lock any more.
    """
    if lake is None:
        yield ""
        return
    import fcntl
    import shutil
    import tempfile

    _delete_abandoned()
    directory = tempfile.mkdtemp(prefix=_PREFIX)
    with open(f"{directory}/{_LOCK}", "wb") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        try:
            yield directory
        finally:
            shutil.rmtree(directory, ignore_errors=True)


def _delete_abandoned() -> None:
    """Delete what killed commands of this user left. A directory of this minute may not have its lock yet."""
    import fcntl
    import shutil
    import tempfile
    import time
    from pathlib import Path

    for path in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*"):
        with contextlib.suppress(OSError):
            if time.time() - path.stat().st_mtime > _LOCKED_WITHIN_S:
                with open(path / _LOCK, "rb") as lock:
                    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    shutil.rmtree(path, ignore_errors=True)


def open_lake(lake: str, directory: str, events_max: int, **asked: Any) -> "LakeLog":
    """The stores of a place as one log. Args: asked: of `one_machine.opened`. Raises: as that."""
    if store_option() is not None:
        raise usage_error(
            "--store names one store, and --lake what all of a place published; give one of them"
        )
    from eventlog.lake import one_machine
    from eventlog.lake.place import open_place

    place = open_place(lake)
    with Progress("reading the lake") as progress:
        return one_machine.opened(place, directory, events_max=events_max, progress=progress, **asked)


class _Log(NamedTuple):
    """What reports are made of: a store, or a lake."""

    name: str
    asking: Callable[[], "AbstractContextManager[Query]"]
    store: "eventlog.Store | None"  # None of a lake


@contextmanager
def asked_log(lake: str | None, events_max: int) -> Iterator[_Log]:
    """The store of the command line, or a lake, for more than one question."""
    if lake is None:
        from eventlog.reports import figures

        with open_store() as store:
            yield _Log(store.project_name, partial(figures.asking, store), store)
        return
    with lake_directory(lake) as directory:
        log = open_lake(lake, directory, events_max)
        yield _Log(log.name, log.asking, None)


@contextmanager
def viewed_lake(lake: str, events_max: int) -> "Iterator[ViewedLake]":
    """What `locus view` shows of a place: read once, and deleted at the end."""
    from eventlog.view.stores import ViewedLake

    with lake_directory(lake) as directory:
        log = open_lake(lake, directory, events_max)
        from eventlog.lake import question

        yield ViewedLake(lake, log.name, log.query, log.asking, partial(question.ask, log))
