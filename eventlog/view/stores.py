"""The stores that are shown, each with what was read of it and stays true until its log grows. One thread.

Or a lake, which does not grow: any thread.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from eventlog import question
from eventlog.base.errors import NotFound
from eventlog.blobs.ids import from_text
from eventlog.log.withheld import kinds_of, reason_of
from eventlog.multi_store import Opened
from eventlog.query.lookup import Query, TurnRef
from eventlog.query.sealed_turns import PLAIN
from eventlog.replay.deferred import withheld_of_git
from eventlog.reports import figures
from eventlog.search.index import MemoryIndex
from eventlog.store import Store
from eventlog.view.growth import GivenSpines
from eventlog.view.turn_rows import Row, TurnRows, events_between

if TYPE_CHECKING:
    from eventlog.query.engine import Limits, Result
    from eventlog.reading.page import PageReader

T = TypeVar("T")

# Of decompressed contents, in each of the threads that answer.
_CONTENTS_BYTES_MAX = 32 << 20

_WITHHELD = "select title, payload from events where event_type = 'withheld' and title is not null"


class Asking(Protocol):
    """Answers an untrusted SELECT from a process of its own, as `eventlog.question.ask`."""

    def __call__(self, sql: str, *, limits: "Limits | None" = None) -> "Result": ...


class Viewed:
    """A log whose events can be asked. What `remembered` gives is made again when the log has grown."""

    def __init__(
        self, name: str, query: Query, asking: Callable[[], AbstractContextManager[Query]], ask: Asking
    ) -> None:
        """Args: asking: a way to ask more than one question about the same snapshot of the log."""
        self.name = name
        self.query = query
        self.asking = asking
        self.ask = ask
        self._position = -1
        self._remembered: dict[str, Any] = {}

    def position(self) -> int:
        """The position after the last event, as the log is now; 0 where it does not grow."""
        return 0

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


class ViewedLake(Viewed):
    """What stores published to a place, as it was read."""

    # Those that events alone answer, by their names in the frame.
    PAGES = ("Sessions", "Cost", "Errors", "Decisions", "SQL")

    def __init__(
        self,
        uri: str,
        name: str,
        query: Query,
        asking: Callable[[], AbstractContextManager[Query]],
        ask: Asking,
    ) -> None:
        super().__init__(name, query, asking, ask)
        self.uri = uri


class ViewedStore(Viewed):
    """One store."""

    def __init__(self, name: str, store: Store) -> None:
        super().__init__(name, store.query, partial(figures.asking, store), partial(question.ask, store))
        self.store = store
        store.keep_sealed()
        store.blobs.cached_bytes_max = _CONTENTS_BYTES_MAX
        self.turn_rows = TurnRows(store)
        self.words = MemoryIndex()  # of events that the store's own index lacks
        self.spines = GivenSpines()
        self._answers: dict[str, tuple[int, Any]] = {}  # by type of event: until which position, and what

    def position(self) -> int:
        """Raises: Corruption."""
        with self.store.view() as view:
            return view.next_position

    def answer_of_type(self, event_type: str, make: Callable[[], T]) -> T:
        """What `make` gave of the events of one type, until another of them is recorded.

        Or one that may change what was recorded before. Raises: Corruption.
        """
        until = self.position()
        since, value = self._answers.get(event_type, (-1, None))
        if since != until and (since < 0 or self._may_differ(event_type, since, until)):
            value = make()
        self._answers[event_type] = until, value
        answer: T = value
        return answer

    def _may_differ(self, event_type: str, since: int, until: int) -> bool:
        with self.store.view() as view:
            events = events_between(view, since, until)
        others = {*PLAIN, "llm"} - {event_type}
        return events is None or any(event["event_type"] not in others for event in events)

    def turn(self, name: str) -> TurnRef:
        """The turn of this name. Raises: NotFound, Ambiguous."""
        session_id, _, number = name.removeprefix("turn:").partition("_")
        if number.isascii() and number.isdigit():
            row = self.turn_rows.row(session_id, int(number))
            if row is not None:
                return TurnRef(session_id, int(number), row["first_position"], row["last_position"] + 1)
        return self.store.turn(name)

    def withheld(self) -> frozenset[str]:
        """The hashes of contents that are not shown, of those in the log and those of git read so far."""
        return frozenset(self._kinds()) | withheld_of_git(self.store.blobs)

    def _kinds(self) -> dict[str, set[str]]:
        """Why contents are withheld, by their hashes. Asked in SQL, which needs no pyarrow."""
        return self.answer_of_type("withheld", self._read_kinds)

    def _read_kinds(self) -> dict[str, set[str]]:
        kinds: dict[str, set[str]] = {}
        for hash, payload in self.store.query(_WITHHELD, []).rows:
            kinds.setdefault(str(hash), set()).update(kinds_of(payload))
        return kinds

    def why_withheld(self, *hashes: str) -> str:
        """Why withheld contents are not shown, as a predicate: what was erased and met again is, too."""
        reasons = (self.store.blobs.erased(from_text(hash)) for hash in hashes)
        erased = (reason.removeprefix("it ") for reason in reasons if reason is not None)
        kinds = self._kinds()
        reason = reason_of(set().union(*(kinds.get(hash, set()) for hash in hashes)))
        return next(erased, reason)

    def pages(self) -> "PageReader":
        from eventlog.reading.page import PageReader

        return self.remembered("pages", lambda: PageReader(self.store, self._anchor))

    def _anchor(self, turn: TurnRef) -> "Row":
        row = self.turn_rows.row(turn.session_id, turn.turn)
        if row is None:
            raise NotFound(f"no turn is called {turn.name!r}")
        return row


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
