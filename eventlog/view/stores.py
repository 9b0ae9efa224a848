"""The stores that are shown, each with what was read of it and stays true until its log grows. One thread."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

from eventlog.base.errors import NotFound
from eventlog.blobs.ids import from_text
from eventlog.multi_store import Opened
from eventlog.query.lookup import TurnRef, turns_where
from eventlog.search.index import MemoryIndex
from eventlog.store import Store

if TYPE_CHECKING:
    from eventlog.reading.page import PageReader

T = TypeVar("T")


class ViewedStore:
    """One store. What `remembered` gives is made again when the log has grown."""

    def __init__(self, name: str, store: Store) -> None:
        self.name = name
        self.store = store
        self.words = MemoryIndex()  # of events that the store's own index lacks
        self._position = -1
        self._remembered: dict[str, Any] = {}

    def position(self) -> int:
        """The position after the last event, as the log is now. Raises: Corruption."""
        with self.store.view() as view:
            return view.next_position

    def remembered(self, name: str, make: Callable[[], T]) -> T:
        """What `make` gave at this position of the log."""
        position = self.position()
        if position != self._position:
            self._position = position
            self._remembered.clear()
        if name not in self._remembered:
            self._remembered[name] = make()
        value: T = self._remembered[name]
        return value

    def turn(self, name: str) -> TurnRef:
        """The turn of this name. Raises: NotFound, Ambiguous."""
        turns = self.remembered("turns", self._turns)
        if name not in turns:
            turns[name] = self.store.turn(name)
        return turns[name]

    def _turns(self) -> dict[str, TurnRef]:
        """Every turn by its full name: a client goes through them one by one."""
        return {turn.name: turn for turn in turns_where(self.store.query, "")}

    def withheld(self) -> frozenset[str]:
        """The hashes of contents that are not shown, as far as the log names them."""
        return self.remembered("withheld", self.store.withheld)

    def why_withheld(self, hash: str) -> str:
        """Why a withheld content is not shown: what was erased and met again is withheld, too."""
        return self.store.blobs.erased(from_text(hash)) or self.store.why_withheld(hash)

    def pages(self) -> "PageReader":
        from eventlog.reading.page import PageReader

        return self.remembered("pages", lambda: PageReader(self.store))


class ViewedStores:
    """The stores by name, in a fixed order; the first is meant where none is named."""

    def __init__(self, stores: Mapping[str, Store]) -> None:
        self.by_name = {name: ViewedStore(name, store) for name, store in stores.items()}

    def named(self, name: str | None) -> ViewedStore:
        """Raises: NotFound."""
        if name is None:
            return next(iter(self.by_name.values()))
        if name not in self.by_name:
            raise NotFound(f"no store here is called {name!r}; /api/stores lists them")
        return self.by_name[name]


@contextmanager
def opened(paths: "Mapping[str, str]") -> Iterator[ViewedStores]:
    """The stores with these directories, by name, open until the context ends. Raises: as `Store.open`."""
    with ExitStack() as stack:
        stores = {name: stack.enter_context(Store.open(path)) for name, path in paths.items()}
        viewed = ViewedStores(stores)
        for store in viewed.by_name.values():
            stack.callback(store.words.close)
        yield viewed


def directories(known: Opened) -> dict[str, str]:
    """The directory of each open store, by its name."""
    return {name: store.layout.root for name, store in known.stores.items()}
