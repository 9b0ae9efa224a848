"""Several stores at once: opening them, asking them one question, and listing those of a user.

`$XDG_DATA_HOME/locus/stores` (`~/.local/share/locus/stores`) has the path of one store a line, as `paths.py`
writes it. `locus init`, commands that record and the detached maintainer add theirs where it is missing, by
one write at the end of the file; no hook waits for it. No line is ever removed, and a line whose store has
gone is skipped. The list is only an aid: without it, `--all-stores` misses the stores that are not in use.
"""

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from eventlog.base.errors import EventLogError, NoStore
from eventlog.base.paths import path_bytes, path_text
from eventlog.store import Store

if TYPE_CHECKING:
    import pyarrow as pa

    from eventlog.query.engine import Limits, Result
    from eventlog.query.functions import Answers, Ask
    from eventlog.query.multi_store_engine import StoreSource


@dataclass(frozen=True, slots=True)
class Opened:
    """Open stores by their names in the column `store`; and those that could not be opened, with reasons."""

    stores: dict[str, Store]
    gone: list[str] = field(default_factory=list)


def remember(root: str, environ: Mapping[str, str]) -> None:
    """Note that this user has the store at `root`. A failure loses nothing: its owner can name it."""
    path = list_path(environ)
    line = os.fsencode(path_text(os.fsencode(os.path.abspath(root)))) + b"\n"
    if path is None or b"\n" in line[:-1]:
        return
    try:
        if line[:-1] in _lines(path):
            return
        os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
        fd = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            os.write(fd, line)
        finally:
            os.close(fd)
    except OSError:
        return


def known(environ: Mapping[str, str]) -> list[str]:
    """The paths of the noted stores, in that order; some may have gone since."""
    path = list_path(environ)
    try:
        lines = _lines(path) if path is not None else []
    except OSError:
        return []
    paths = []
    for line in lines:
        try:
            paths.append(os.fsdecode(path_bytes(os.fsdecode(line))))
        except ValueError:
            continue  # a line cut short by a full disk
    return list(dict.fromkeys(paths))


def list_path(environ: Mapping[str, str]) -> str | None:
    """Where the list is; None without a home."""
    home = environ.get("HOME")
    data = environ.get("XDG_DATA_HOME") or (f"{home}/.local/share" if home else None)
    return f"{data}/locus/stores" if data else None


@contextmanager
def opened(paths: Sequence[str], *, every: bool = False) -> Iterator[Opened]:
    """The stores at `paths`; with `every` also all of this user, and the one of the working directory.

    Those of `paths` must open; others that do not are in `gone`.
    Raises: NoStore, EventLogError.
    """
    stores: dict[str, Store] = {}
    gone: list[str] = []
    with ExitStack() as stack:
        for path in paths:
            _add(stores, stack.enter_context(Store.open(path)))
        for path in _of_user() if every else ():
            if not os.path.isdir(path) or any(os.path.samefile(path, s.layout.root) for s in stores.values()):
                continue
            try:
                _add(stores, stack.enter_context(Store.open(path)))
            except (EventLogError, OSError) as error:
                gone.append(f"{path}: {error}")
        if not stores:
            raise NoStore("no store is known yet. `locus init` makes one and notes it; --store names others.")
        yield Opened(stores, gone)


def query(
    opened: Opened,
    sql: str,
    parameters: "Sequence[Any] | Mapping[str, Any] | None" = None,
    *,
    limits: "Limits | None" = None,
) -> "Result":
    """Run one SELECT over these stores. Raises: as `Store.query`."""
    from eventlog.query import engine, multi_store_engine

    with _sources(opened) as sources:
        return multi_store_engine.run(sources, sql, parameters, limits or engine.Limits(), _answering(opened))


def sql(
    opened: Opened,
    sql: str,
    parameters: "Sequence[Any] | Mapping[str, Any] | None" = None,
    *,
    limits: "Limits | None" = None,
) -> "pa.Table":
    """The answer of `query` as an Arrow table."""
    from eventlog.query import engine, multi_store_engine

    with _sources(opened) as sources:
        return multi_store_engine.table(
            sources, sql, parameters, limits or engine.Limits(), _answering(opened)
        )


def _answering(opened: Opened) -> Any:
    def answering(asks: "dict[str, Ask]") -> "Answers":
        from eventlog.replay.answers import StoreAnswers
        from eventlog.replay.multi_store_answers import MultiStoreAnswers

        return MultiStoreAnswers({n: StoreAnswers(ask, opened.stores[n].blobs) for n, ask in asks.items()})

    return answering


@contextmanager
def _sources(opened: Opened) -> "Iterator[list[StoreSource]]":
    from eventlog.query.connection_cache import ConnectionCache
    from eventlog.query.engine import Bound, Snapshot
    from eventlog.query.multi_store_engine import StoreSource

    with ExitStack() as stack:
        sources = []
        for name, store in opened.stores.items():
            view = stack.enter_context(store.view())
            cache = stack.enter_context(ConnectionCache[Bound]())
            snapshot = Snapshot(view, store.layout, store.fs, None, cache, store.line_counts)
            sources.append(StoreSource(name, snapshot))
        yield sources


def _of_user() -> list[str]:
    from eventlog.base.identity import find

    here = find(os.getcwd(), os.environ)
    return [*([here] if here is not None else []), *known(os.environ)]


def _add(stores: dict[str, Store], store: Store) -> None:
    """Name a store by its project, or by project and path where two have one name."""
    name = store.project_name
    stores[name if name not in stores else f"{name} ({os.path.dirname(store.layout.root)})"] = store


def _lines(path: str) -> list[bytes]:
    try:
        with open(path, "rb") as file:
            return file.read().split(b"\n")[:-1]
    except FileNotFoundError:
        return []
