"""The answers of the viewer: a path and its parameters to one JSON value (docs/view.md). No HTTP.

`answer` is the only door to data: the server calls it for each request, and a page that is written to a file
holds what it gave. It writes nothing. One thread, that of the stores; of a lake any.
"""

import shlex
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from eventlog.base.errors import (
    Ambiguous,
    Conflict,
    EventLogError,
    InvalidEvent,
    NotFound,
    QueryError,
    Refused,
)
from eventlog.view import changes, contents, counted, finding, pages, sessions, spines, versions
from eventlog.view.parameters import Parameters
from eventlog.view.stores import Viewed, ViewedLake, ViewedStore, ViewedStores

VERSION = 1
_CONTENT = "/api/content/"

Answer = dict[str, Any]
_Asked = TypeVar("_Asked", bound=Viewed, contravariant=True)


class NoFiles(NotFound):
    """Raised for a path that needs more than the events of a lake."""

    def __init__(self, lake: ViewedLake) -> None:
        super().__init__(
            f"{lake.uri} is a lake: of it there are sessions, figures, errors, decisions and SQL, and no "
            "files, turns or search"
        )
        to = shlex.quote(lake.uri)
        self.next_step = (
            f"`locus lake replay {to} TURN --to DIR` brings back the files of a turn; "
            f"`locus sql --lake {to}` asks for its events."
        )


@dataclass(frozen=True, slots=True)
class Route(Generic[_Asked]):
    """How a path is answered. `is_long`: it may take long, and must not hold up the pages."""

    answering: Callable[[_Asked, Parameters], Answer]
    parameters: tuple[str, ...] = ()
    is_long: bool = False


OF_FIGURES = ("by", "since", "until", "agent", "project", "person", "session", "commits", "tz")

# What events alone answer, so a lake does, too.
OF_EVENTS: dict[str, Route[Viewed]] = {
    "/api/sessions": Route(
        sessions.answer,
        ("session", "agent", "model", "branch", "person", "state", "day", "q", "limit", "before"),
    ),
    "/api/errors": Route(finding.errors, ("session", "open"), is_long=True),
    "/api/decisions": Route(finding.decisions, ("session",), is_long=True),
    "/api/sql": Route(finding.sql, ("q",), is_long=True),
    "/api/figures": Route(counted.answer, OF_FIGURES, is_long=True),
}
ROUTES: dict[str, Route[ViewedStore]] = {
    **OF_EVENTS,
    "/api/spine": Route(spines.spine, ("session", "after")),
    "/api/page": Route(pages.page, ("turn",)),
    "/api/event": Route(pages.event, ("id",)),
    "/api/compare": Route(changes.compare, ("a", "b"), is_long=True),
    "/api/change": Route(changes.change, ("a", "b", "path")),
    "/api/tree": Route(versions.tree, ("moment",), is_long=True),
    "/api/blame": Route(versions.blamed, ("moment", "path"), is_long=True),
    "/api/history": Route(versions.history, ("path",), is_long=True),
    "/api/search": Route(finding.search, ("q", "limit"), is_long=True),
}
_OF_CONTENT: Route[ViewedStore] = Route(
    lambda viewed, parameters: contents.answer(viewed, parameters), ("hash", "path", "colour")
)


def is_long(path: str) -> bool:
    """Whether the answer may take long."""
    route = ROUTES.get(path)
    return route is not None and route.is_long


def answer(shown: "ViewedStores | ViewedLake", path: str, parameters: Mapping[str, str]) -> Answer:
    """The answer to `path`, such as /api/spine, with its parameters as text.

    Raises: EventLogError; `problem` is the answer that says so.
    """
    if path == "/api/stores":
        Parameters(parameters, ())
        return {"v": VERSION, **sessions.stores(shown)}
    route, given = ROUTES.get(path), dict(parameters)
    if route is None and path.startswith(_CONTENT):
        route, given["hash"] = _OF_CONTENT, path[len(_CONTENT) :]
    if route is None:
        raise NotFound(f"there is no answer {path[:80]}")
    if isinstance(shown, ViewedLake):
        return {"v": VERSION, **_of_lake(shown, path, given)}
    viewed = shown.named(given.pop("store", None))
    return {"v": VERSION, **route.answering(viewed, Parameters(given, route.parameters))}


def _of_lake(lake: ViewedLake, path: str, given: Mapping[str, str]) -> Answer:
    """Raises: NoFiles."""
    route = OF_EVENTS.get(path)
    if route is None:
        raise NoFiles(lake)
    return route.answering(lake, Parameters(given, route.parameters))


def problem(error: Exception) -> tuple[int, Answer]:
    """The status and the answer of an error."""
    if isinstance(error, EventLogError):
        what = str(error)
    else:
        what = f"this is a bug in Locus: {type(error).__name__}: {error}"
    return _status(error), {"v": VERSION, "error": {"what": what, "next": _next_step(error)}}


def _status(error: Exception) -> int:
    if isinstance(error, (Ambiguous, Conflict)):
        return 409
    if isinstance(error, NotFound):
        return 404
    if isinstance(error, Refused):
        return 413
    if isinstance(error, (InvalidEvent, QueryError)):
        return 400
    return 500


def _next_step(error: Exception) -> str | None:
    if isinstance(error, NoFiles):
        return error.next_step
    if isinstance(error, Ambiguous):
        return "Give more of the name."
    if _status(error) == 500:
        return "Run `locus store verify`, which checks everything that is stored."
    return None
